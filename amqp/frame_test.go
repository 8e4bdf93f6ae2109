package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseFrameHeader(t *testing.T) {
	const limit = 16384
	tests := []struct {
		name, wire string
		want       FrameHeader
		ok, bad    bool
	}{
		{"nothing yet", "", FrameHeader{}, false, false},
		{"three octets", "00 00 00", FrameHeader{}, false, false},
		{"size only", "00 00 00 08", FrameHeader{}, false, false},
		{"all but one octet", "00 00 00 08 02 00 00", FrameHeader{}, false, false},
		{"empty frame (part 2 §2.4.5)", "00 00 00 08 02 00 00 00", FrameHeader{8, 2, 0, 0}, true, false},
		{"channel", "00 00 00 10 02 00 12 34", FrameHeader{16, 2, 0, 0x1234}, true, false},
		{"SASL", "00 00 00 10 02 01 00 00", FrameHeader{16, 2, 1, 0}, true, false},
		{"extended header (CFG R10)", "00 00 00 10 04 00 00 00", FrameHeader{16, 4, 0, 0}, true, false},
		{"any type (CFG R11 is the caller's)", "00 00 00 08 02 09 00 00", FrameHeader{8, 2, 9, 0}, true, false},
		{"the limit", "00 00 40 00 02 00 00 00", FrameHeader{limit, 2, 0, 0}, true, false},
		{"above the limit, by the size alone (CFG R9)", "00 00 40 01", FrameHeader{}, false, true},
		{"size 2^32-1 (FC U03)", "ff ff ff ff", FrameHeader{}, false, true},
		{"size 4 (FC U03)", "00 00 00 04", FrameHeader{}, false, true},
		{"size 7 (CFG R8)", "00 00 00 07", FrameHeader{}, false, true},
		{"size 0", "00 00 00 00", FrameHeader{}, false, true},
		{"data offset 1 (FC U03)", "00 00 00 08 01 00 00 00", FrameHeader{}, false, true},
		{"data offset 0", "00 00 00 08 00 00 00 00", FrameHeader{}, false, true},
		{"data offset behind the frame", "00 00 00 08 03 00 00 00", FrameHeader{}, false, true},
		{"size 8 with data offset 255 (FC U03)", "00 00 00 08 ff 00 00 00", FrameHeader{}, false, true},
	}
	for _, tt := range tests {
		got, ok, err := ParseFrameHeader(wire(tt.wire), limit)
		if got != tt.want || ok != tt.ok || (err != nil) != tt.bad {
			t.Errorf("%s: ParseFrameHeader(%s) = %+v, %t, %v", tt.name, tt.wire, got, ok, err)
		}
		if e := (*Error)(nil); tt.bad && (!errors.As(err, &e) || e.Condition != ErrCondFramingError || e.Description != "malformed frame") {
			t.Errorf("%s: error %v", tt.name, err)
		}
	}
	if _, ok, err := ParseFrameHeader(wire("ff ff ff ff 02 00 00 00"), 1<<32-1); !ok || err != nil {
		t.Errorf("without a limit: %t, %v", ok, err)
	}
}

func TestAppendFrames(t *testing.T) {
	transfer := &Transfer{Handle: 1, DeliveryID: Some[uint32](2), DeliveryTag: []byte("t")}
	longTag := &Transfer{DeliveryTag: []byte(strings.Repeat("t", 300))}
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"no body", AppendFrame(nil, FrameAMQP, 0, nil), "00 00 00 08 02 00 00 00"},
		{"end", AppendFrame(nil, FrameAMQP, 0x1234, &End{}), "00 00 00 0c 02 00 12 34 00 53 17 45"},
		{"SASL outcome", AppendFrame(nil, FrameSASL, 0, &SASLOutcome{}), "00 00 00 10 02 01 00 00 00 53 44 c0 03 01 50 00"},
		{"transfer", AppendTransferFrame(nil, 0xfffe, transfer, []byte("pay")), "00 00 00 18 02 00 ff fe 00 53 14 c0 08 03 52 01 52 02 a0 01 74 70 61 79"},
		{"transfer, without its payload", AppendTransferFrameHeader(nil, 1, transfer, 3), "00 00 00 18 02 00 00 01 00 53 14 c0 08 03 52 01 52 02 a0 01 74"},
		{"transfer with a long tag", AppendTransferFrame(nil, 1, longTag, []byte("pay")),
			"00 00 01 4a 02 00 00 01 00 53 14 d0 00 00 01 37 00 00 00 03 43 40 b0 00 00 01 2c" + rep("74", 300) + "70 61 79"},
		{"disposition", AppendDispositionFrame(nil, 1, &Disposition{Role: RoleReceiver, First: 1, Settled: true, State: StateAccepted}),
			"00 00 00 17 02 00 00 01 00 53 15 c0 0a 05 41 52 01 40 41 00 53 24 45"},
		{"flow", AppendFlowFrame(nil, 1, &Flow{IncomingWindow: 1}), "00 00 00 13 02 00 00 01 00 53 13 c0 06 04 40 52 01 43 43"},
	}
	for _, tt := range tests {
		want := wire(tt.want)
		if !bytes.Equal(tt.got, want) {
			t.Errorf("%s = %x, want %x", tt.name, tt.got, want)
		}
	}
	kept := AppendTransferFrame([]byte("kept"), 1, transfer, nil)
	if !bytes.Equal(kept, append([]byte("kept"), AppendFrame(nil, FrameAMQP, 1, transfer)...)) {
		t.Errorf("frame behind others = %x", kept)
	}
}

func TestProtocolHeaders(t *testing.T) {
	for got, want := range map[ProtocolHeader]string{HeaderAMQP: "AMQP\x00\x01\x00\x00", HeaderTLS: "AMQP\x02\x01\x00\x00", HeaderSASL: "AMQP\x03\x01\x00\x00"} {
		if string(got[:]) != want {
			t.Errorf("header %q, want %q", got, want)
		}
	}
}

// TestHotPathsDoNotAllocate, whatever encoding the peer chose.
func TestHotPathsDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	payload := make([]byte, 100)
	disposition := &Disposition{Role: RoleReceiver, First: 70000, Last: Some[uint32](70100), Settled: true, State: StateAccepted}
	longTag := &Transfer{DeliveryTag: make([]byte, 300)}
	noAllocs := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	noAllocs("transfer frame", func() { AppendTransferFrame(buf, 1, &benchTransfer, payload) })
	noAllocs("transfer frame with a long tag", func() { AppendTransferFrame(buf, 1, longTag, payload) })
	noAllocs("transfer frame header", func() { AppendTransferFrameHeader(buf, 1, &benchTransfer, 1<<20) })
	noAllocs("disposition frame", func() { AppendDispositionFrame(buf, 1, disposition) })
	noAllocs("flow frame", func() { AppendFlowFrame(buf, 1, &benchFlow) })
	noAllocs("frame header", func() { _, _, _ = ParseFrameHeader(buf[:8], 16384) })

	for _, body := range append(otherEncodings(benchTransfer.Append(nil)), benchTransfer.Append(nil)) {
		var got Transfer
		noAllocs("transfer", func() { _, _ = got.Decode(body) })
		if !reflect.DeepEqual(got, benchTransfer) {
			t.Errorf("%x decodes to %+v", body, got)
		}
		noAllocs("code", func() { PerformativeCode(body) })
	}
	for _, body := range append(otherEncodings(disposition.Append(nil)), disposition.Append(nil)) {
		var got Disposition
		noAllocs("disposition", func() { _, _ = got.Decode(body) })
		noAllocs("state", func() { StateCode(got.State) })
	}
	for _, body := range append(otherEncodings(benchFlow.Append(nil)), benchFlow.Append(nil)) {
		var got Flow
		noAllocs("flow", func() { _, _ = got.Decode(body) })
	}
}
