package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// What every decoder is held to: it does not panic, it takes no more octets than
// there are, it allocates no more than a multiple of them, and what it returns
// encodes to something that decodes to the same.

// checkAllocation calls f, which decodes so many octets.
func checkAllocation(t *testing.T, octets int, f func()) {
	t.Helper()
	// The worst are empty arrays inside an array: 3 octets each, 80 for the
	// Array, 16 for the item that it is and 256 for the 16 items it may have.
	if n, limit := allocated(f), uint64(16<<10+128*octets); n > limit {
		t.Errorf("decoding %d octets allocated %d, limit %d", octets, n, limit)
	}
}

func FuzzDecodeValue(f *testing.F) {
	for _, tt := range valueEncodings {
		f.Add(wire(tt.wire))
	}
	for _, tt := range malformedValues {
		f.Add(wire(tt.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v any
		var n int
		var err error
		checkAllocation(t, len(b), func() { v, n, err = DecodeValue(b) })
		skipped, skipErr := SkipValue(b)
		if (err == nil) != (skipErr == nil) || n != skipped || n > len(b) {
			t.Fatalf("DecodeValue: %d, %v, SkipValue: %d, %v", n, err, skipped, skipErr)
		}
		r := Raw(b)
		r.Symbols()
		r.HasSymbol("a")
		r.Text()
		r.Int()
		if m, err := IterMap(r); err == nil {
			for _, _, ok := m.Next(); ok; _, _, ok = m.Next() {
			}
		}
		if l, err := IterList(r); err == nil {
			for _, ok := l.Next(); ok; _, ok = l.Next() {
			}
		}
		if err != nil {
			return
		}
		encoded := AppendValue(nil, v)
		again, n, err := DecodeValue(encoded)
		if err != nil || n != len(encoded) {
			t.Fatalf("%#v encodes as %x: %d, %v", v, encoded, n, err)
		}
		// By their encoding, because a NaN equals nothing.
		if got := AppendValue(nil, again); !bytes.Equal(got, encoded) {
			t.Fatalf("%x decodes to %#v, which encodes as %x", encoded, again, got)
		}
	})
}

// checkPerformative decodes body, and what it means once more.
func checkPerformative(t *testing.T, body []byte, decode func([]byte) (Performative, int, error)) {
	t.Helper()
	var p Performative
	var n int
	var err error
	checkAllocation(t, len(body), func() { p, n, err = decode(body) })
	if e := (*Error)(nil); err != nil && (!errors.As(err, &e) || e.Condition != ErrCondDecodeError && e.Condition != ErrCondNotImplemented) {
		t.Fatalf("%x: error %v", body, err)
	}
	if err != nil {
		return
	}
	if n > len(body) {
		t.Fatalf("%d of %d octets", n, len(body))
	}
	if code, ok := PerformativeCode(body); !ok || p.Append(nil)[2] != byte(code) {
		t.Fatalf("%x: PerformativeCode = %#x, %t", body, code, ok)
	}
	encoded := p.Append(nil)
	again, n, err := decode(encoded)
	if err != nil || n != len(encoded) || !reflect.DeepEqual(again, p) {
		t.Fatalf("%x decodes to %+v, encodes as %x, decodes to %+v, %d, %v", body, p, encoded, again, n, err)
	}
}

// checkHot compares the two ways to decode a transfer, disposition or flow.
func checkHot(t *testing.T, body []byte) {
	t.Helper()
	var transfer, anyTransfer Transfer
	var disposition, anyDisposition Disposition
	var flow, anyFlow Flow
	for _, way := range []struct {
		hot      int
		any      func([]byte) (int, error)
		got, ref any
	}{
		{transfer.decodeHot(body), anyTransfer.decodeAny, &transfer, &anyTransfer},
		{disposition.decodeHot(body), anyDisposition.decodeAny, &disposition, &anyDisposition},
		{flow.decodeHot(body), anyFlow.decodeAny, &flow, &anyFlow},
	} {
		if way.hot == 0 {
			continue
		}
		if n, err := way.any(body); err != nil || n != way.hot || !reflect.DeepEqual(way.got, way.ref) {
			t.Fatalf("%x decodes to %+v, %d, and to %+v, %d, %v", body, way.got, way.hot, way.ref, n, err)
		}
	}
}

func FuzzDecodePerformative(f *testing.F) {
	for _, tt := range performatives {
		b := wire(tt.wire)
		f.Add(b)
		for _, other := range otherEncodings(b) {
			f.Add(other)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkPerformative(t, body, DecodePerformative)
		checkHot(t, body)
	})
}

func FuzzDecodeSASL(f *testing.F) {
	for _, tt := range saslBodies {
		b := wire(tt.wire)
		f.Add(b)
		for _, other := range otherEncodings(b) {
			f.Add(other)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkPerformative(t, body, DecodeSASL) })
}

func FuzzDecodeFrame(f *testing.F) {
	f.Add(AppendFrame(nil, FrameAMQP, 0, nil))
	for _, tt := range performatives {
		f.Add(AppendFrame(nil, FrameAMQP, 1, tt.p))
	}
	for _, tt := range saslBodies {
		f.Add(AppendFrame(nil, FrameSASL, 0, tt.p))
	}
	f.Add(AppendTransferFrame(nil, 1, &benchTransfer, wire(wholeMessage)))
	f.Add(wire("00 00 00 10 04 00 00 00 aa bb cc dd ee ff 00 11 00 53 17 45")) // extended header
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		h, ok, err := ParseFrameHeader(b, limit)
		if early, _, earlyErr := ParseFrameHeader(b[:min(len(b), 4)], limit); earlyErr != nil && err == nil {
			t.Fatalf("the size alone is refused, the header is not: %+v, %+v", early, h)
		}
		if ok != (err == nil && len(b) >= FrameHeaderSize) {
			t.Fatalf("%d octets: %+v, %t, %v", len(b), h, ok, err)
		}
		if !ok || int(h.Size) > len(b) {
			return
		}
		body := b[4*int(h.DataOffset) : h.Size]
		switch {
		case len(body) == 0:
		case h.Type == FrameSASL:
			checkPerformative(t, body, DecodeSASL)
		default:
			checkPerformative(t, body, DecodePerformative)
			checkHot(t, body)
			p, n, err := DecodePerformative(body)
			if err != nil {
				break
			}
			transfer, isTransfer := p.(*Transfer)
			if !isTransfer {
				transfer, n = &Transfer{}, len(body)
			}
			frame := AppendTransferFrame(nil, h.Channel, transfer, body[n:])
			got, ok, err := ParseFrameHeader(frame, 1<<32-1)
			if want := (FrameHeader{uint32(len(frame)), 2, FrameAMQP, h.Channel}); got != want || !ok || err != nil {
				t.Fatalf("frame %x has header %+v, %t, %v", frame, got, ok, err)
			}
			if !bytes.Equal(frame[len(frame)-len(body[n:]):], body[n:]) {
				t.Fatalf("payload %x is not at the end of %x", body[n:], frame)
			}
		}
	})
}

func fuzzMessages(f *testing.F) {
	for _, tt := range messages {
		f.Add(wire(tt.wire))
	}
	for _, digits := range []string{wireHeader, wireDelivery, wireAnnotation, wireProperties, wireApp, wireData, wireSequence, wireValue, wireFooter} {
		f.Add(wire(digits))
	}
	f.Add(wire("00 a3 10 61 6d 71 70 3a 68 65 61 64 65 72 3a 6c 69 73 74 45 00 80 00 00 00 00 00 00 00 77 40"))
}

func FuzzWalkMessage(f *testing.F) {
	fuzzMessages(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for depth := DepthHeader; depth <= DepthAll; depth++ {
			s, err := WalkMessage(b, depth, true)
			part, partErr := WalkMessage(b, depth, false)
			switch {
			case partErr == nil && (err != nil || part != s):
				t.Fatalf("depth %d: as a part %+v, as the whole %+v, %v", depth, part, s, err)
			case partErr != nil && partErr != ErrNeedMore && err == nil:
				t.Fatalf("depth %d: as a part %v, as the whole %+v", depth, partErr, s)
			}
			if err != nil {
				continue
			}
			end := 0
			for _, r := range []Range{s.Header, s.DeliveryAnnotations, s.MessageAnnotations, s.Properties, s.ApplicationProperties, s.BodyRange, s.Footer} {
				if !r.Present() {
					continue
				}
				if r.Start != end {
					t.Fatalf("depth %d: section at %+v, the last ended at %d: %+v", depth, r, end, s)
				}
				end = r.End
				r.Value(b)
			}
			if s.End != end || end > len(b) || s.Body > len(b) {
				t.Fatalf("depth %d: %d octets: %+v", depth, len(b), s)
			}
			s.Priority(b)
			_, _, _ = s.To(b)
			_, _, _ = s.UserID(b)
			it, err := IterMap(s.MessageAnnotations.Value(b))
			for _, _, ok := it.Next(); ok; _, _, ok = it.Next() {
			}
			if err != nil || it.Err() != nil {
				t.Fatalf("annotations: %v, %v", err, it.Err())
			}
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	fuzzMessages(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m *Message
		var err error
		checkAllocation(t, len(b), func() { m, err = DecodeMessage(b) })
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.Condition != ErrCondDecodeError {
				t.Fatalf("error %v", err)
			}
			return
		}
		if _, err := WalkMessage(b, DepthAll, true); err != nil {
			t.Fatalf("decodes to %+v, but: %v", m, err)
		}
		encoded := m.Append(nil)
		if len(encoded) == 0 {
			t.Fatalf("%x decodes to %+v, which is empty", b, m)
		}
		again, err := DecodeMessage(encoded)
		if err != nil {
			t.Fatalf("%x decodes to %+v, encodes as %x: %v", b, m, encoded, err)
		}
		if got := again.Append(nil); !bytes.Equal(got, encoded) {
			t.Fatalf("%x decodes to %+v, which encodes as %x", encoded, again, got)
		}
	})
}
