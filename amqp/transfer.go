package amqp

// Transfer moves a message, or a part of one, over a link (AMQP 1.0 part 2
// §2.7.5). The payload is not part of it.
type Transfer struct {
	Handle        uint32
	DeliveryID    Opt[uint32]
	DeliveryTag   []byte // nil is absent
	MessageFormat Opt[uint32]
	Settled       Opt[bool]
	More          bool
	RcvSettleMode Opt[uint8]
	State         Raw // a delivery state
	Resume        bool
	Aborted       bool
	Batchable     bool
}

// Append appends t as a described list.
func (t *Transfer) Append(b []byte) []byte {
	c := beginComposite(b, CodeTransfer)
	c.mandatoryUint(t.Handle)
	c.uint(t.DeliveryID)
	c.binary(t.DeliveryTag)
	c.uint(t.MessageFormat)
	c.bool(t.Settled)
	c.flag(t.More)
	c.ubyte(t.RcvSettleMode)
	c.raw(t.State)
	c.flag(t.Resume)
	c.flag(t.Aborted)
	c.flag(t.Batchable)
	return c.done()
}

// Decode sets t to the transfer at the start of body and returns its length: the
// payload is body[n:].
func (t *Transfer) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeTransfer, "transfer", 11)
	if err != nil {
		return 0, err
	}
	*t = Transfer{
		Handle:        need(&f, "handle", rawUint),
		DeliveryID:    opt(&f, "delivery-id", rawUint),
		DeliveryTag:   opt(&f, "delivery-tag", rawBinary).V,
		MessageFormat: opt(&f, "message-format", rawUint),
		Settled:       opt(&f, "settled", rawBool),
		More:          opt(&f, "more", rawBool).V,
		RcvSettleMode: opt(&f, "rcv-settle-mode", rawUbyte),
		State:         f.raw("state", isDescribed),
		Resume:        opt(&f, "resume", rawBool).V,
		Aborted:       opt(&f, "aborted", rawBool).V,
		Batchable:     opt(&f, "batchable", rawBool).V,
	}
	return n, f.done()
}
