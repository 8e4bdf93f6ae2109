package amqp

import (
	"encoding/binary"
	"slices"
)

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
	if !t.short() {
		return t.appendLong(b)
	}
	start := len(b)
	b = slices.Grow(b, t.MaxSize())
	n := t.put(b[start:cap(b)])
	return b[:start+n]
}

// appendLong is Append for a transfer that may need a list32.
func (t *Transfer) appendLong(b []byte) []byte {
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

// transferFixed is the most that a transfer takes besides the octets of its
// delivery-tag and state.
const transferFixed = 3 + 9 + // descriptor, list
	3*5 + // handle, delivery-id, message-format
	5 + // before the delivery-tag
	2 + // rcv-settle-mode
	6 // settled, more, state if absent, resume, aborted, batchable

// MaxSize returns a bound on the length of what Append appends: what is to be
// left for it in a frame.
func (t *Transfer) MaxSize() int {
	return transferFixed + len(t.DeliveryTag) + len(t.State)
}

// short reports whether t fits a list8 whatever its other fields are.
func (t *Transfer) short() bool { return len(t.DeliveryTag)+len(t.State) <= 200 }

// put writes t, which is short, to p, which has room for MaxSize octets.
func (t *Transfer) put(p []byte) int {
	_ = p[transferFixed-1]
	p[0], p[1], p[2], p[3] = codeDescribed, codeSmallUlong, CodeTransfer, codeList8
	i := putUint(p, 6, t.Handle)
	count, end := 1, i
	if t.DeliveryID.Set {
		i = putUint(p, i, t.DeliveryID.V)
		count, end = 2, i
	} else {
		p[i] = codeNull
		i++
	}
	if t.DeliveryTag != nil {
		p[i], p[i+1] = codeBin8, byte(len(t.DeliveryTag))
		if len(t.DeliveryTag) == 8 { // the router's own (RT F86); a third of the time was this copy
			binary.NativeEndian.PutUint64(p[i+2:], binary.NativeEndian.Uint64(t.DeliveryTag))
			i += 10
		} else {
			i += 2 + copy(p[i+2:], t.DeliveryTag)
		}
		count, end = 3, i
	} else {
		p[i] = codeNull
		i++
	}
	if t.MessageFormat.Set {
		i = putUint(p, i, t.MessageFormat.V)
		count, end = 4, i
	} else {
		p[i] = codeNull
		i++
	}
	if t.Settled.Set {
		p[i] = boolCode(t.Settled.V)
		i++
		count, end = 5, i
	} else {
		p[i] = codeNull
		i++
	}
	if t.More {
		p[i] = codeTrue
		i++
		count, end = 6, i
	} else {
		p[i] = codeNull
		i++
	}
	if t.RcvSettleMode.Set || len(t.State) > 0 || t.Resume || t.Aborted || t.Batchable {
		count, end = t.putRare(p, i, count, end)
	}
	p[4], p[5] = byte(end-5), byte(count)
	return end
}

// putRare writes the fields from rcv-settle-mode on to p[i:] and returns how
// many fields there are up to the last that is not null, and where it ends.
func (t *Transfer) putRare(p []byte, i, count, end int) (int, int) {
	if t.RcvSettleMode.Set {
		p[i], p[i+1] = codeUbyte, t.RcvSettleMode.V
		i += 2
		count, end = 7, i
	} else {
		p[i] = codeNull
		i++
	}
	if !t.State.IsNull() {
		i += copy(p[i:], t.State)
		count, end = 8, i
	} else {
		p[i] = codeNull
		i++
	}
	for n, flag := range [...]bool{t.Resume, t.Aborted, t.Batchable} {
		if flag {
			p[i] = codeTrue
			count, end = 9+n, i+1
		} else {
			p[i] = codeNull
		}
		i++
	}
	return count, end
}

func boolCode(v bool) byte {
	if v {
		return codeTrue
	}
	return codeFalse
}

// Decode sets t to the transfer at the start of body and returns its length: the
// payload is body[n:]. It does not allocate unless it fails.
func (t *Transfer) Decode(body []byte) (n int, err error) {
	if n := t.decodeHot(body); n > 0 {
		return n, nil
	}
	return t.decodeAny(body)
}

// decodeHot decodes a transfer that is encoded as usual; 0 is any other.
func (t *Transfer) decodeHot(body []byte) int {
	p, count, n := hotList(body, CodeTransfer)
	if count < 1 || count > 11 {
		return 0
	}
	*t = Transfer{}
	v, i := uintAt(p, 0)
	if i < 0 || v == noUint {
		return 0
	}
	t.Handle = uint32(v)
	if count > 1 {
		if v, i = uintAt(p, i); i < 0 {
			return 0
		}
		t.DeliveryID = optUint(v)
	}
	if count > 2 {
		if i >= len(p) {
			return 0
		}
		switch p[i] {
		case codeBin8:
			if i+2 > len(p) {
				return 0
			}
			end := i + 2 + int(p[i+1])
			if end > len(p) {
				return 0
			}
			t.DeliveryTag = p[i+2 : end : end]
			i = end
		case codeNull:
			i++
		default:
			return 0
		}
	}
	if count > 3 {
		if v, i = uintAt(p, i); i < 0 {
			return 0
		}
		t.MessageFormat = optUint(v)
	}
	if count > 4 {
		if t.Settled, i = boolAt(p, i); i < 0 {
			return 0
		}
	}
	if count > 5 {
		var more Opt[bool]
		if more, i = boolAt(p, i); i < 0 {
			return 0
		}
		t.More = more.V
	}
	if count > 6 {
		i = t.decodeRare(p, i, count)
	}
	if i != len(p) {
		return 0
	}
	return n
}

// decodeRare decodes the fields from rcv-settle-mode on and returns where they
// end, -1 for what it does not know.
func (t *Transfer) decodeRare(p []byte, i, count int) int {
	if i >= len(p) {
		return -1
	}
	switch {
	case p[i] == codeNull:
		i++
	case p[i] == codeUbyte && i+1 < len(p):
		t.RcvSettleMode = Some(p[i+1])
		i += 2
	default:
		return -1
	}
	if count > 7 {
		if t.State, i = stateAt(p, i); i < 0 {
			return -1
		}
	}
	var v Opt[bool]
	if count > 8 {
		if v, i = boolAt(p, i); i < 0 {
			return -1
		}
		t.Resume = v.V
	}
	if count > 9 {
		if v, i = boolAt(p, i); i < 0 {
			return -1
		}
		t.Aborted = v.V
	}
	if count > 10 {
		v, i = boolAt(p, i)
		t.Batchable = v.V
	}
	return i
}

// decodeAny decodes a transfer in any encoding.
func (t *Transfer) decodeAny(body []byte) (n int, err error) {
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
