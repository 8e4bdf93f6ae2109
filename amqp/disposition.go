package amqp

import "slices"

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
//
// Settled is always written: the AMQP 1.0 plug-in of RabbitMQ 3 fails where it is left to
// its default.
func (d *Disposition) Append(b []byte) []byte {
	if len(d.State) > 200 {
		return d.appendLong(b)
	}
	start := len(b)
	b = slices.Grow(b, dispositionFixed+len(d.State))
	n := d.put(b[start:cap(b)])
	return b[:start+n]
}

// appendLong is Append for a disposition that may need a list32.
func (d *Disposition) appendLong(b []byte) []byte {
	c := beginComposite(b, CodeDisposition)
	c.mandatoryBool(bool(d.Role))
	c.mandatoryUint(d.First)
	c.uint(d.Last)
	c.mandatoryBool(d.Settled)
	c.raw(d.State)
	c.flag(d.Batchable)
	return c.done()
}

// dispositionFixed is the most that a disposition with a list8 takes besides the
// octets of its state.
const dispositionFixed = 3 + 3 + // descriptor, list
	2*5 + // first, last
	4 // role, settled, state if absent, batchable

// put writes d, which fits a list8, to p, which has room for it.
func (d *Disposition) put(p []byte) int {
	_ = p[dispositionFixed-1]
	p[0], p[1], p[2], p[3] = codeDescribed, codeSmallUlong, CodeDisposition, codeList8
	p[6] = boolCode(bool(d.Role))
	i := putUint(p, 7, d.First)
	if d.Last.Set {
		i = putUint(p, i, d.Last.V)
	} else {
		p[i] = codeNull
		i++
	}
	p[i] = boolCode(d.Settled)
	i++
	count, end := 4, i
	if !d.State.IsNull() {
		i += copy(p[i:], d.State)
		count, end = 5, i
	} else {
		p[i] = codeNull
		i++
	}
	if d.Batchable {
		p[i] = codeTrue
		count, end = 6, i+1
	}
	p[4], p[5] = byte(end-5), byte(count)
	return end
}

// Decode sets d to the disposition at the start of body and returns its length.
// It does not allocate unless it fails.
func (d *Disposition) Decode(body []byte) (n int, err error) {
	if n := d.decodeHot(body); n > 0 {
		return n, nil
	}
	return d.decodeAny(body)
}

// decodeHot decodes a disposition that is encoded as usual; 0 is any other.
func (d *Disposition) decodeHot(body []byte) int {
	p, count, n := hotList(body, CodeDisposition)
	if count < 2 || count > 6 {
		return 0
	}
	*d = Disposition{}
	flag, i := boolAt(p, 0)
	if i < 0 || !flag.Set {
		return 0
	}
	d.Role = Role(flag.V)
	v, i := uintAt(p, i)
	if i < 0 || v == noUint {
		return 0
	}
	d.First = uint32(v)
	if count > 2 {
		if v, i = uintAt(p, i); i < 0 {
			return 0
		}
		d.Last = optUint(v)
	}
	if count > 3 {
		if flag, i = boolAt(p, i); i < 0 {
			return 0
		}
		d.Settled = flag.V
	}
	if count > 4 {
		if d.State, i = stateAt(p, i); i < 0 {
			return 0
		}
	}
	if count > 5 {
		flag, i = boolAt(p, i)
		d.Batchable = flag.V
	}
	if i != len(p) {
		return 0
	}
	return n
}

// decodeAny decodes a disposition in any encoding.
func (d *Disposition) decodeAny(body []byte) (n int, err error) {
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
