package amqp

// Flow updates the windows of a session and, with a handle, the credit of a link
// (AMQP 1.0 part 2 §2.7.4). Windows count transfer frames, credit counts
// deliveries.
type Flow struct {
	NextIncomingID Opt[uint32]
	IncomingWindow uint32
	NextOutgoingID uint32
	OutgoingWindow uint32
	Handle         Opt[uint32]
	DeliveryCount  Opt[uint32]
	LinkCredit     Opt[uint32]
	Available      Opt[uint32]
	Drain          bool
	Echo           bool
	Properties     Raw // a map
}

// Append appends f as a described list.
func (f *Flow) Append(b []byte) []byte {
	c := beginComposite(b, CodeFlow)
	c.uint(f.NextIncomingID)
	c.mandatoryUint(f.IncomingWindow)
	c.mandatoryUint(f.NextOutgoingID)
	c.mandatoryUint(f.OutgoingWindow)
	c.uint(f.Handle)
	c.uint(f.DeliveryCount)
	c.uint(f.LinkCredit)
	c.uint(f.Available)
	c.flag(f.Drain)
	c.flag(f.Echo)
	c.raw(f.Properties)
	return c.done()
}

// Decode sets f to the flow at the start of body and returns its length.
func (f *Flow) Decode(body []byte) (n int, err error) {
	r, n, err := readComposite(body, CodeFlow, "flow", 11)
	if err != nil {
		return 0, err
	}
	*f = Flow{
		NextIncomingID: opt(&r, "next-incoming-id", rawUint),
		IncomingWindow: need(&r, "incoming-window", rawUint),
		NextOutgoingID: need(&r, "next-outgoing-id", rawUint),
		OutgoingWindow: need(&r, "outgoing-window", rawUint),
		Handle:         opt(&r, "handle", rawUint),
		DeliveryCount:  opt(&r, "delivery-count", rawUint),
		LinkCredit:     opt(&r, "link-credit", rawUint),
		Available:      opt(&r, "available", rawUint),
		Drain:          opt(&r, "drain", rawBool).V,
		Echo:           opt(&r, "echo", rawBool).V,
		Properties:     r.raw("properties", isMap),
	}
	return n, r.done()
}
