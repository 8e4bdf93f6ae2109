package amqp

import (
	"bytes"
	"testing"
)

var benchTransfer = Transfer{Handle: 0, DeliveryID: Some(uint32(70000)), DeliveryTag: []byte("12345678"), MessageFormat: Some(uint32(0)), Settled: Some(false)}

func BenchmarkDecodeTransfer(b *testing.B) {
	body := benchTransfer.Append(nil)
	body = append(body, bytes.Repeat([]byte("x"), 100)...)
	var t Transfer
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeTransferAnyEncoding(b *testing.B) {
	body := append([]byte{0, 0x80, 0, 0, 0, 0, 0, 0, 0}, benchTransfer.Append(nil)[2:]...)
	var t Transfer
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendTransfer(b *testing.B) {
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = benchTransfer.Append(buf[:0])
	}
}

func BenchmarkAppendTransferFrame(b *testing.B) {
	buf := make([]byte, 0, 1024)
	payload := bytes.Repeat([]byte("x"), 108)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendTransferFrame(buf[:0], 1, &benchTransfer, payload)
	}
}

func BenchmarkDecodeDisposition(b *testing.B) {
	d := Disposition{Role: RoleReceiver, First: 70000, Last: Some(uint32(70100)), Settled: true, State: StateAccepted}
	body := d.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendDispositionFrame(b *testing.B) {
	d := Disposition{Role: RoleReceiver, First: 70000, Last: Some(uint32(70100)), Settled: true, State: StateAccepted}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendDispositionFrame(buf[:0], 1, &d)
	}
}

var benchFlow = Flow{NextIncomingID: Some(uint32(70000)), IncomingWindow: 2147483647, NextOutgoingID: 1, OutgoingWindow: 2147483647,
	Handle: Some(uint32(3)), DeliveryCount: Some(uint32(70000)), LinkCredit: Some(uint32(250))}

func BenchmarkDecodeFlow(b *testing.B) {
	body := benchFlow.Append(nil)
	var f Flow
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendFlowFrame(b *testing.B) {
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendFlowFrame(buf[:0], 1, &benchFlow)
	}
}

func BenchmarkWalkMessage(b *testing.B) {
	bare := (&Message{Body: "0123456789"}).Append(nil)
	annotated := (&Message{Header: &Header{Durable: true}, MessageAnnotations: Map{{Symbol("x-opt-qd.ingress"), "0/QDR.A"}, {Symbol("x-opt-qd.trace"), List{"0/QDR.A"}}},
		Properties: &Properties{To: Some("q")}, Body: "0123456789"}).Append(nil)
	for _, bb := range []struct {
		name  string
		b     []byte
		depth Depth
	}{
		{"bare", bare, DepthMessageAnnotations},
		{"annotated", annotated, DepthMessageAnnotations},
		{"to properties", annotated, DepthProperties},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := WalkMessage(bb.b, bb.depth, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
