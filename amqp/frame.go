package amqp

import (
	"encoding/binary"
	"slices"
)

// ProtocolHeader is what each end sends first (AMQP 1.0 part 2 §2.2): "AMQP", a
// protocol id, and the version 1.0.0.
type ProtocolHeader [8]byte

// The protocol headers: AMQP itself, and the two security layers below it (part
// 5 §5.2.1 and §5.3.1).
var (
	HeaderAMQP = ProtocolHeader{'A', 'M', 'Q', 'P', 0, 1, 0, 0}
	HeaderTLS  = ProtocolHeader{'A', 'M', 'Q', 'P', 2, 1, 0, 0}
	HeaderSASL = ProtocolHeader{'A', 'M', 'Q', 'P', 3, 1, 0, 0}
)

// Types of frames (AMQP 1.0 part 2 §2.3.2, part 5 §5.3.1).
const (
	FrameAMQP uint8 = 0
	FrameSASL uint8 = 1
)

// MinMaxFrameSize is the least maximum frame size a peer may have, in octets
// (AMQP 1.0 part 2 §2.3.1).
const MinMaxFrameSize = 512

// FrameHeaderSize is the length of a frame header without the extended header.
const FrameHeaderSize = 8

// FrameHeader is the start of a frame (AMQP 1.0 part 2 §2.3.1).
type FrameHeader struct {
	Size       uint32 // octets of the whole frame
	DataOffset uint8  // where the body begins, in words of four octets
	Type       uint8
	Channel    uint16 // means nothing in a SASL frame
}

// ParseFrameHeader parses the header at the start of b. ok is false as long as
// more octets are needed for the header; whether the rest of the frame is there
// is for the caller to see, who finds the body in b[4*h.DataOffset:h.Size].
//
// A frame that is larger than maxFrameSize, or that cannot be, is a framing
// error (CFG R8, R9); the size is looked at as soon as its four octets are
// there. The type is not looked at.
func ParseFrameHeader(b []byte, maxFrameSize uint32) (h FrameHeader, ok bool, err error) {
	if len(b) < 4 {
		return FrameHeader{}, false, nil
	}
	h.Size = binary.BigEndian.Uint32(b)
	if h.Size < FrameHeaderSize || h.Size > maxFrameSize {
		return FrameHeader{}, false, malformedFrame()
	}
	if len(b) < FrameHeaderSize {
		return FrameHeader{}, false, nil
	}
	h.DataOffset, h.Type, h.Channel = b[4], b[5], binary.BigEndian.Uint16(b[6:])
	if h.DataOffset < 2 || 4*uint32(h.DataOffset) > h.Size {
		return FrameHeader{}, false, malformedFrame()
	}
	return h, true, nil
}

// AppendFrame appends a frame; p may be nil for one without a body, which only
// shows the peer that we live (AMQP 1.0 part 2 §2.4.5).
func AppendFrame(b []byte, typ uint8, channel uint16, p Performative) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, 2, typ, byte(channel>>8), byte(channel))
	if p != nil {
		b = p.Append(b)
	}
	binary.BigEndian.PutUint32(b[start:], checkedLen(len(b)-start))
	return b
}

// AppendTransferFrame appends a frame with a transfer and its payload.
func AppendTransferFrame(b []byte, channel uint16, t *Transfer, payload []byte) []byte {
	if !t.short() {
		return append(AppendTransferFrameHeader(b, channel, t, len(payload)), payload...)
	}
	start := len(b)
	b = slices.Grow(b, FrameHeaderSize+t.MaxSize()+len(payload))
	p := b[start:cap(b)]
	n := FrameHeaderSize + t.put(p[FrameHeaderSize:])
	n += copy(p[n:], payload)
	putFrameHeader(p, channel, n)
	return b[:start+n]
}

// AppendTransferFrameHeader appends the part of a frame with a transfer that is
// before its payload of so many octets, for a caller who sends these himself.
func AppendTransferFrameHeader(b []byte, channel uint16, t *Transfer, payload int) []byte {
	start := len(b)
	b = t.Append(append(b, frameRoom...))
	putFrameHeader(b[start:], channel, len(b)-start+payload)
	return b
}

// AppendDispositionFrame appends a frame with a disposition.
func AppendDispositionFrame(b []byte, channel uint16, d *Disposition) []byte {
	start := len(b)
	b = d.Append(append(b, frameRoom...))
	putFrameHeader(b[start:], channel, len(b)-start)
	return b
}

// AppendFlowFrame appends a frame with a flow.
func AppendFlowFrame(b []byte, channel uint16, f *Flow) []byte {
	start := len(b)
	b = f.Append(append(b, frameRoom...))
	putFrameHeader(b[start:], channel, len(b)-start)
	return b
}

// frameRoom keeps the place of a frame header.
const frameRoom = "\x00\x00\x00\x00\x00\x00\x00\x00"

// putFrameHeader writes the header of an AMQP frame of so many octets.
func putFrameHeader(p []byte, channel uint16, size int) {
	binary.BigEndian.PutUint64(p, uint64(checkedLen(size))<<32|2<<24|uint64(channel))
}
