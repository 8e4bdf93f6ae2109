package amqp

import "slices"

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
	if len(f.Properties) > 0 {
		return f.appendLong(b)
	}
	start := len(b)
	b = slices.Grow(b, flowFixed)
	n := f.put(b[start:cap(b)])
	return b[:start+n]
}

// appendLong is Append for a flow with properties.
func (f *Flow) appendLong(b []byte) []byte {
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

// flowFixed is the most that a flow without properties takes.
const flowFixed = 3 + 3 + // descriptor, list
	8*5 + // the uints
	2 // drain, echo

// put writes f, which has no properties, to p, which has room for flowFixed
// octets.
func (f *Flow) put(p []byte) int {
	_ = p[flowFixed-1]
	p[0], p[1], p[2], p[3] = codeDescribed, codeSmallUlong, CodeFlow, codeList8
	i := putOptUint(p, 6, f.NextIncomingID)
	i = putUint(p, i, f.IncomingWindow)
	i = putUint(p, i, f.NextOutgoingID)
	i = putUint(p, i, f.OutgoingWindow)
	count, end := 4, i
	if f.Handle.Set || f.DeliveryCount.Set || f.LinkCredit.Set || f.Available.Set || f.Drain || f.Echo {
		count, end = f.putLink(p, i)
	}
	p[4], p[5] = byte(end-5), byte(count)
	return end
}

// putLink writes the fields from handle on to p[i:] and returns how many fields
// there are up to the last that is not null, and where it ends.
func (f *Flow) putLink(p []byte, i int) (count, end int) {
	if i = putOptUint(p, i, f.Handle); f.Handle.Set {
		count, end = 5, i
	}
	if i = putOptUint(p, i, f.DeliveryCount); f.DeliveryCount.Set {
		count, end = 6, i
	}
	if i = putOptUint(p, i, f.LinkCredit); f.LinkCredit.Set {
		count, end = 7, i
	}
	if i = putOptUint(p, i, f.Available); f.Available.Set {
		count, end = 8, i
	}
	p[i], p[i+1] = codeNull, codeNull
	if f.Drain {
		p[i] = codeTrue
		count, end = 9, i+1
	}
	if f.Echo {
		p[i+1] = codeTrue
		count, end = 10, i+2
	}
	return count, end
}

// Decode sets f to the flow at the start of body and returns its length. It does
// not allocate unless it fails.
func (f *Flow) Decode(body []byte) (n int, err error) {
	if n := f.decodeHot(body); n > 0 {
		return n, nil
	}
	return f.decodeAny(body)
}

// decodeHot decodes a flow that is encoded as usual; 0 is any other.
func (f *Flow) decodeHot(body []byte) int {
	p, count, n := hotList(body, CodeFlow)
	if count < 4 || count > 10 {
		return 0
	}
	var v [8]uint64
	i := 0
	for field := range v {
		v[field] = noUint
		if field >= count {
			continue
		}
		if v[field], i = uintAt(p, i); i < 0 {
			return 0
		}
	}
	if v[1] == noUint || v[2] == noUint || v[3] == noUint {
		return 0
	}
	*f = Flow{
		NextIncomingID: optUint(v[0]),
		IncomingWindow: uint32(v[1]),
		NextOutgoingID: uint32(v[2]),
		OutgoingWindow: uint32(v[3]),
		Handle:         optUint(v[4]),
		DeliveryCount:  optUint(v[5]),
		LinkCredit:     optUint(v[6]),
		Available:      optUint(v[7]),
	}
	var flag Opt[bool]
	if count > 8 {
		if flag, i = boolAt(p, i); i < 0 {
			return 0
		}
		f.Drain = flag.V
	}
	if count > 9 {
		flag, i = boolAt(p, i)
		f.Echo = flag.V
	}
	if i != len(p) {
		return 0
	}
	return n
}

// decodeAny decodes a flow in any encoding.
func (f *Flow) decodeAny(body []byte) (n int, err error) {
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
