package router

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"qdrouter/amqp"
)

// TestRelayed: what of a state goes on to the other side (RT F72 to F74).
func TestRelayed(t *testing.T) {
	rejected := amqp.AppendRejected(nil, &amqp.Error{Condition: "app:bad", Description: "no good",
		Info: amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("a"), Value: int32(1)}})})
	annotations := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("x"), Value: "y"}}))
	received := amqp.AppendReceived(nil, amqp.Received{SectionNumber: 1, SectionOffset: 70000})
	private := amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(999), Value: amqp.List{"a", int32(1)}})
	declared := amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x33), Value: amqp.List{[]byte{1, 2}}})
	tests := []struct {
		name     string
		in, want amqp.Raw
		code     uint64
	}{
		{"none", nil, nil, 0},
		{"accepted", amqp.StateAccepted, amqp.StateAccepted, amqp.CodeAccepted},
		{"accepted with fields", amqp.Raw{0, 0x53, 0x24, 0xc0, 2, 1, 0x40}, amqp.StateAccepted, amqp.CodeAccepted},
		{"accepted by name", append(append([]byte{0, 0xa3, 18}, "amqp:accepted:list"...), 0x45), amqp.StateAccepted, amqp.CodeAccepted},
		{"released", amqp.Raw{0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x26, 0x45}, amqp.StateReleased, amqp.CodeReleased},
		{"rejected", rejected, rejected, amqp.CodeRejected},
		{"modified", amqp.AppendModified(nil, false, false, nil), amqp.AppendModified(nil, true, false, nil), amqp.CodeModified},
		{"modified here", amqp.AppendModified(nil, false, true, annotations), amqp.AppendModified(nil, true, true, annotations), amqp.CodeModified},
		{"received", received, received, amqp.CodeReceived},
		{"declared", declared, declared, amqp.CodeDeclared},
		{"private", private, private, 999},
	}
	for _, tt := range tests {
		in := bytes.Clone(tt.in)
		got, code := relayed(in)
		for i := range in {
			in[i] ^= 0xff // it must share nothing with the read buffer
		}
		if !bytes.Equal(got, tt.want) || code != tt.code {
			t.Errorf("%s: %x code %#x, want %x code %#x", tt.name, got, code, tt.want, tt.code)
		}
	}
}

// TestTerminalStates: the four outcomes end a delivery, nothing else does.
func TestTerminalStates(t *testing.T) {
	for code := uint64(0); code < 0x40; code++ {
		want := code == amqp.CodeAccepted || code == amqp.CodeRejected || code == amqp.CodeReleased || code == amqp.CodeModified
		if isTerminal(code) != want {
			t.Errorf("code %#x: terminal %v", code, !want)
		}
	}
}

var (
	stateRejected = amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{Condition: "app:bad", Description: "no good"}))
	stateModified = amqp.Raw(amqp.AppendModified(nil, false, false, nil))
	stateReceived = amqp.Raw(amqp.AppendReceived(nil, amqp.Received{SectionNumber: 1}))
)

// TestMulticastStrength: the outcome of a multicast is the strongest of its copies', in whatever
// order they come (RT F36); a declared state counts as rejected (RT F37).
func TestMulticastStrength(t *testing.T) {
	order := []struct {
		state amqp.Raw
		want  uint32
	}{
		{amqp.StateReleased, strengthReleased}, {stateModified, strengthModified}, {amqp.StateAccepted, strengthAccepted},
		{stateRejected, strengthRejected}, {amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x33), Value: amqp.List{[]byte{1}}}), strengthRejected},
	}
	for _, x := range order {
		if got := strengthOf(x.state); got != x.want {
			t.Errorf("%s: strength %d, want %d", stateText(x.state), got, x.want)
		}
	}
	for _, x := range []amqp.Raw{nil, stateReceived} {
		if got := strengthOf(x); got != strengthNone {
			t.Errorf("%s: strength %d", stateText(x), got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "copies")
		var m multicast
		m.undecided.Store(int32(n))
		want := strengthNone
		for i := range n {
			x := order[rapid.IntRange(0, 3).Draw(t, "state")]
			want = max(want, x.want)
			if last := m.decide(x.state); last != (i == n-1) {
				t.Fatalf("copy %d of %d: last %v", i, n, last)
			}
		}
		if m.worst.Load() != want {
			t.Fatalf("outcome %d, want %d", m.worst.Load(), want)
		}
	})
}
