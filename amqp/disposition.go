package amqp

// Disposition tells the state of a range of deliveries (AMQP 1.0 part 2 §2.7.6).
type Disposition struct {
	Role      Role
	First     uint32
	Last      Opt[uint32] // First if absent
	Settled   bool
	State     Raw // a delivery state
	Batchable bool
}

// Append appends d as a described list.
func (d *Disposition) Append(b []byte) []byte {
	c := beginComposite(b, CodeDisposition)
	c.mandatoryBool(bool(d.Role))
	c.mandatoryUint(d.First)
	c.uint(d.Last)
	c.flag(d.Settled)
	c.raw(d.State)
	c.flag(d.Batchable)
	return c.done()
}

// Decode sets d to the disposition at the start of body and returns its length.
func (d *Disposition) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeDisposition, "disposition", 6)
	if err != nil {
		return 0, err
	}
	*d = Disposition{
		Role:      Role(need(&f, "role", rawBool)),
		First:     need(&f, "first", rawUint),
		Last:      opt(&f, "last", rawUint),
		Settled:   opt(&f, "settled", rawBool).V,
		State:     f.raw("state", isDescribed),
		Batchable: opt(&f, "batchable", rawBool).V,
	}
	return n, f.done()
}
