package router

import (
	"strings"
	"testing"

	"qdrouter/amqp"
)

func symbols(s ...string) (list []amqp.Symbol) {
	for _, x := range s {
		list = append(list, amqp.Symbol(x))
	}
	return list
}

// TestFrameText: frames as they stand in the log of the PROTOCOL module (CFG G12).
func TestFrameText(t *testing.T) {
	tests := []struct {
		p    amqp.Performative
		want string
	}{
		{&amqp.Open{ContainerID: "t", Hostname: amqp.Some("h"), MaxFrameSize: amqp.Some(uint32(16384)), ChannelMax: amqp.Some(uint16(32767)),
			IdleTimeout: amqp.Some(uint32(8000)), OfferedCapabilities: amqp.AppendValue(nil, symbols("ANONYMOUS-RELAY", "qd.x")),
			Properties: amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("product"), Value: "p"}, {Key: amqp.Symbol("qd.conn-id"), Value: int32(7)}})},
			`@open(16) [container-id="t", hostname="h", max-frame-size=0x4000, channel-max=0x7fff, idle-time-out=0x1f40, ` +
				`offered-capabilities=@<>[:ANONYMOUS-RELAY, :"qd.x"], properties={:product="p", :"qd.conn-id"=7}]`},
		{&amqp.Begin{RemoteChannel: amqp.Some(uint16(1)), IncomingWindow: 2147483647, OutgoingWindow: 2147483647},
			`@begin(17) [remote-channel=0x1, next-outgoing-id=0x0, incoming-window=0x7fffffff, outgoing-window=0x7fffffff]`},
		{&amqp.Attach{Name: "l", Role: amqp.RoleReceiver, SndSettleMode: amqp.Some(uint8(2)),
			Source: &amqp.Source{Address: amqp.Some("q"), ExpiryPolicy: "session-end", Capabilities: amqp.AppendSymbol(nil, "queue")},
			Target: &amqp.Target{}},
			`@attach(18) [name="l", handle=0x0, role=true, snd-settle-mode=0x2, source=@source(40) [address="q", expiry-policy=:session-end, dynamic=false, capabilities=:queue], target=@target(41) [dynamic=false]]`},
		{&amqp.Attach{Name: "l", Coordinator: &amqp.Coordinator{}, InitialDeliveryCount: amqp.Some(uint32(0))},
			`@attach(18) [name="l", handle=0x0, role=false, source=null, target=@coordinator(48) [], initial-delivery-count=0x0]`},
		{&amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 2, NextOutgoingID: 3, OutgoingWindow: 4, Handle: amqp.Some(uint32(0)), DeliveryCount: amqp.Some(uint32(5)), LinkCredit: amqp.Some(uint32(250)), Drain: true, Echo: true},
			`@flow(19) [next-incoming-id=0x1, incoming-window=0x2, next-outgoing-id=0x3, outgoing-window=0x4, handle=0x0, delivery-count=0x5, link-credit=0xfa, drain=true, echo=true]`},
		{&amqp.Transfer{DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte{0, 'a'}, MessageFormat: amqp.Some(uint32(0)), Settled: amqp.Some(true), More: true, Aborted: true, State: amqp.StateReleased},
			`@transfer(20) [handle=0x0, delivery-id=0x1, delivery-tag=b"\x00a", message-format=0x0, settled=true, more=true, state=@released(38) [], aborted=true]`},
		{&amqp.Disposition{Role: amqp.RoleReceiver, First: 1, Last: amqp.Some(uint32(2)), Settled: true, State: amqp.StateAccepted},
			`@disposition(21) [role=true, first=0x1, last=0x2, settled=true, state=@accepted(36) []]`},
		{&amqp.Detach{Closed: true, Error: &amqp.Error{Condition: amqp.ErrCondNotFound, Description: "Node not found"}},
			`@detach(22) [handle=0x0, closed=true, error=@error(29) [:"amqp:not-found", "Node not found"]]`},
		{&amqp.End{}, `@end(23) []`},
		{&amqp.Close{}, `@close(24) []`},
	}
	for _, tt := range tests {
		if got := performativeText(tt.p); got != tt.want {
			t.Errorf("got\n%s, want\n%s", got, tt.want)
		}
	}
}

// TestPrintable: octets that do not print, and long texts.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a b": `"a b"`, "\x00\xff\"\\~": `"\x00\xff\x22\x5c~"`, "12345": `"12345"`, "123456": `"12345"... (truncated)`,
	} {
		if got := printable([]byte(in), 5); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// TestTraceOfConnection: what goes to and fro is in the log, in the order it went, from when the
// trace is switched on until it is off again (CFG G6, G12).
func TestTraceOfConnection(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	if lines := g.log.take("PROTOCOL"); lines != nil {
		t.Errorf("traced without being asked: %q", lines)
	}
	if err := g.r.SetTrace(a.c.Number(), true); err != nil {
		t.Fatal(err)
	}
	if g.r.SetTrace(99, true) != ErrNotFound {
		t.Error("a connection that is not there is traced")
	}
	s := a.sender("")
	s.transfer(&amqp.OutDelivery{Tag: 1}, addressed("nobody", "x\x01"))
	g.run()
	lines := g.log.take("PROTOCOL")
	wants := []string{
		`[C1]:FRAME: 0 <- @attach(18) [name="l0", `,
		`[C1]:FRAME: 0 -> @attach(18) [name="l0", `,
		`[C1]:FRAME: 0 -> @flow(19) [`,
		`[C1]:FRAME: 0 <- @transfer(20) [handle=0x0, delivery-id=0x0, delivery-tag=b"\x00\x00\x00\x00\x00\x00\x00\x01", message-format=0x0, settled=false] (23) "\x00Ss`,
		`[C1]:FRAME: 0 -> @disposition(21) [role=true, first=0x0, settled=true, state=@released(38) []]`,
		`[C1]:FRAME: 0 -> @flow(19) [`,
	}
	for i, want := range wants {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d: want %s in\n%s", i, want, strings.Join(lines, "\n"))
		}
	}
	if len(lines) != len(wants) {
		t.Errorf("more lines:\n%s", strings.Join(lines[len(wants):], "\n"))
	}
	g.r.SetTrace(a.c.Number(), false)
	s.transfer(&amqp.OutDelivery{Tag: 2}, addressed("nobody", "x"))
	g.run()
	if lines := g.log.take("PROTOCOL"); lines != nil {
		t.Errorf("traced still: %q", lines)
	}
	g.r.SetProtocolTrace(true)
	b := g.peer(nil)
	if lines := g.log.take("PROTOCOL"); len(lines) == 0 || !strings.HasPrefix(lines[0], `[C2]:FRAME: 0 <- @open(16) [container-id="peer"`) {
		t.Errorf("a new connection is not traced: %q", lines)
	}
	r := b.receiver("q", 1)
	s2 := a.sender("q")
	s2.send("body")
	g.run()
	wantBodies(t, r, "body")
	if text := strings.Join(g.log.take("PROTOCOL"), "\n"); !strings.Contains(text, `[C2]:FRAME: 0 -> @transfer(20) [`) || !strings.Contains(text, `(9) "\x00Su\xa0\x04body"`) {
		t.Errorf("the copy is not traced:\n%s", text)
	}
}
