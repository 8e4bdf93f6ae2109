package amqp

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// presettled is a settled delivery of one frame.
func presettled(handle, id uint32) *Transfer {
	return &Transfer{Handle: handle, DeliveryID: Some(id), DeliveryTag: []byte{byte(id)}, Settled: Some(true)}
}

// sessionOf returns a conversation whose session has that incoming window at our end, 0 for one
// without a limit, and a sender "in" on handle 1 with much credit.
func sessionOf(t *testing.T, frames, nextOutgoing uint32) (*talk, *Session, *Link) {
	t.Helper()
	cfg := testConfig
	cfg.SessionFrames = frames
	v := newTalk(t, cfg)
	v.open(&Open{ContainerID: "peer"})
	s := v.begin(0, &Begin{NextOutgoingID: nextOutgoing, IncomingWindow: 1000, OutgoingWindow: 1000})
	in := v.attachSender("in", 1, 0)
	v.grant(in, 1<<20)
	return v, s, in
}

// TestIncomingWindow: the peer may fill the window and send no frame more (CFG R20), whatever
// the serial numbers are.
func TestIncomingWindow(t *testing.T) {
	for _, first := range []uint32{0, 1, 4294967293, 4294967295, 2147483646} {
		v, _, _ := sessionOf(t, 5, first)
		for id := range uint32(5) {
			v.peerTransfer(presettled(1, id), "")
		}
		v.sendRefused(0, presettled(1, 5), ErrCondWindowViolation, "incoming session window exceeded")
	}
}

// TestIncomingWindowCountsFrames, not deliveries (part 2 §2.5.6).
func TestIncomingWindowCountsFrames(t *testing.T) {
	v, _, _ := sessionOf(t, 2, 0)
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](0), More: true}, "a")
	v.peerTransfer(&Transfer{Handle: 1, More: true}, "b")
	v.sendRefused(0, &Transfer{Handle: 1}, ErrCondWindowViolation, "incoming session window exceeded")
}

// TestIncomingWindowRenewed: at half of the window, or any time the owner likes, a flow restores
// it; never while the owner holds it (RT F63).
func TestIncomingWindowRenewed(t *testing.T) {
	const first = 4294967290
	v, s, _ := sessionOf(t, 10, first)
	id := uint32(0)
	take := func(n int) {
		for range n {
			v.peerTransfer(presettled(1, id), "")
			id++
		}
	}
	flow := func(window uint32) *Flow {
		return &Flow{NextIncomingID: Some(first + id), IncomingWindow: window, OutgoingWindow: unlimited}
	}
	take(4)
	if s.WindowLow() {
		t.Error("low with 6 of 10 left")
	}
	take(1)
	if !s.WindowLow() {
		t.Error("not low with 5 of 10 left")
	}
	s.FlowDue()
	s.FlowDue()
	v.want(flow(10))
	v.wantIdle()
	if s.WindowLow() {
		t.Error("low just after the flow")
	}

	s.Hold = true
	take(7)
	s.FlowDue()
	v.want(flow(3))
	take(3)
	s.FlowDue()
	v.want(flow(0))
	s.Hold = false
	s.FlowDue()
	v.want(flow(10))

	s.WindowTarget = 4 // what was granted is not taken back
	take(1)
	s.FlowDue()
	v.want(flow(9))
	take(8)
	s.FlowDue()
	v.want(flow(4))
}

// TestUnlimitedWindow: without a limit begin tells 2147483647 (RT E9), and the first flow, before
// which no transfer can come, the window that is lived by.
func TestUnlimitedWindow(t *testing.T) {
	v, s := inSession(t)
	if s.WindowLow() {
		t.Error("low at the begin")
	}
	in := v.attachSender("in", 1, 0)
	s.WindowTarget = 2
	in.Grant(100)
	v.want(&Flow{IncomingWindow: 2, NextIncomingID: Some[uint32](0), OutgoingWindow: unlimited,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](100)})
	v.peerTransfer(presettled(1, 0), "")
	if !s.WindowLow() {
		t.Error("not low with 1 of 2 left")
	}
	v.peerTransfer(presettled(1, 1), "")
	v.sendRefused(0, presettled(1, 2), ErrCondWindowViolation, "incoming session window exceeded")
}

// TestLongSession: a window that is renewed in time never stops a sender (FC U07 part three).
func TestLongSession(t *testing.T) {
	v, s, in := sessionOf(t, 0, 4294967295-30000)
	transfer := &Transfer{Handle: 1, DeliveryTag: []byte("t"), Settled: Some(true)}
	var b []byte
	for id := range uint32(70000) {
		transfer.DeliveryID = Some(id)
		b = AppendTransferFrame(b[:0], 0, transfer, nil)
		if _, err := v.c.Input(b); err != nil {
			t.Fatalf("transfer %d: %v", id, err)
		}
		v.events = v.events[:0]
		if s.WindowLow() {
			in.Grant(1000)
			s.FlowDue()
			v.c.Prepare()
			v.c.Out = v.c.Out[:0]
		}
	}
	v.wantIdle()
}

// TestOutgoingWindow: never more frames than the peer's window, which its flows move and may
// narrow (FC U07 part one, part 2 §2.5.6).
func TestOutgoingWindow(t *testing.T) {
	v := opened(t)
	s := v.begin(0, &Begin{IncomingWindow: 5, OutgoingWindow: 5})
	out := v.attachReceiver("out", 1)
	window := func(want int) {
		t.Helper()
		if got := s.OutWindow(); got != want {
			t.Fatalf("window %d, want %d", got, want)
		}
	}
	flow := func(next, width uint32) {
		v.peer(&Flow{NextIncomingID: Some(next), IncomingWindow: width, NextOutgoingID: 0, OutgoingWindow: 5})
	}
	send := func(n int) {
		for range n {
			out.Send(&OutDelivery{}, nil, nil, nil)
		}
	}
	window(5)
	send(5)
	window(0)
	flow(2, 3)
	window(0)
	flow(2, 5)
	window(2)
	send(1)
	flow(2, 3) // narrower than what is on its way
	window(0)
	flow(6, 0)
	window(0)
	flow(6, 4294967295)
	window(2147483647)
	send(3)
	window(2147483644)
	flow(6, 4)
	window(1)
	for range 9 {
		v.wantAny(&Transfer{})
	}

	s = v.begin(1, &Begin{IncomingWindow: 4294967295})
	window(2147483647)
}

// TestOutgoingWindowStopsFrames: a delivery of many frames waits in the middle.
func TestOutgoingWindowStopsFrames(t *testing.T) {
	v := newTalk(t, testConfig)
	v.open(&Open{ContainerID: "peer", MaxFrameSize: Some[uint32](512)})
	s := v.begin(0, &Begin{IncomingWindow: 2})
	out := v.attachReceiver("out", 1)
	v.giveCredit(out, 1)
	s.remoteLimit = 2 // giveCredit has told a wide one
	d := &OutDelivery{Tag: 1}
	payload := []byte(strings.Repeat("0123456789", 150))
	out.Start(d)
	sent, started := out.SendFrames(d, true, true, payload, 1<<20)
	if !started || sent >= len(payload) || s.OutWindow() != 0 {
		t.Fatalf("sent %d of %d, window %d", sent, len(payload), s.OutWindow())
	}
	got := ""
	read := func() (more bool) {
		_, p, payload, ok := v.next()
		if !ok {
			t.Fatal("a frame is missing")
		}
		got += string(payload)
		return p.(*Transfer).More
	}
	for range 2 {
		if !read() {
			t.Error("the delivery ended early")
		}
	}
	v.wantIdle()
	if n, started := out.SendFrames(d, false, true, payload[sent:], 1<<20); n != 0 || started {
		t.Errorf("sent %d without a window", n)
	}
	v.peer(&Flow{NextIncomingID: Some[uint32](2), IncomingWindow: 9})
	out.SendFrames(d, false, true, payload[sent:], 1<<20)
	for read() {
	}
	if got != string(payload) {
		t.Errorf("%d octets arrived, want %d", len(got), len(payload))
	}
	v.wantIdle()
}

// TestOutgoingWindowWraps: transfer-ids, delivery-ids and delivery-counts of ours pass 2^32.
func TestOutgoingWindowWraps(t *testing.T) {
	const first = 4294967294
	v := newTalk(t, testConfig)
	v.c.Open()
	v.wantAny(&Open{})
	v.send(0, &Open{ContainerID: "peer"})
	s, _ := v.c.newSession()
	v.session = s
	s.nextOutgoingID, s.nextDeliveryID = first, first
	s.sendBegin(Opt[uint16]{})
	v.want(&Begin{NextOutgoingID: first, IncomingWindow: unlimited, OutgoingWindow: unlimited})
	out := s.NewLink("out", RoleSender)
	out.deliveryCount = first
	out.Attach(&Attach{})
	v.want(&Attach{Name: "out", Role: RoleSender, InitialDeliveryCount: Some[uint32](first)})
	v.peer(&Begin{RemoteChannel: Some[uint16](0), IncomingWindow: 3}, &Attach{Name: "out", Role: RoleReceiver},
		&Flow{NextIncomingID: Some[uint32](first), IncomingWindow: 3, Handle: Some[uint32](0), DeliveryCount: Some[uint32](first), LinkCredit: Some[uint32](4)})
	v.wantEvents("open peer", "begin 0", "attach sender out", "flow out credit=4 drain=false")
	for i := range uint32(3) {
		if got := out.Send(&OutDelivery{Tag: uint64(i)}, nil, nil, nil); got != Serial(first+i) {
			t.Errorf("delivery %d has id %d", i, got)
		}
		v.want(&Transfer{DeliveryID: Some(first + i), DeliveryTag: []byte{0, 0, 0, 0, 0, 0, 0, byte(i)}, MessageFormat: Some[uint32](0), Settled: Some(false)})
	}
	if s.OutWindow() != 0 || out.Credit() != 1 {
		t.Errorf("window %d, credit %d", s.OutWindow(), out.Credit())
	}
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 3, Echo: true,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](4294967295), LinkCredit: Some[uint32](4)})
	v.wantEvents("flow out credit=2 drain=false")
	v.want(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, NextOutgoingID: 1, OutgoingWindow: unlimited,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](1), LinkCredit: Some[uint32](2)})
	if s.OutWindow() != 2 {
		t.Errorf("window %d, want 2", s.OutWindow())
	}
	s.Dispose(RoleSender, first, first+1, true, nil)
	s.Dispose(RoleSender, 0, 0, true, nil)
	v.want(&Disposition{Role: RoleSender, First: first, Last: Some[uint32](0), Settled: true})
}

// TestSessionEcho: a flow that asks is answered with one, of the session or of the link it names
// (part 2 §2.7.4, RT E52).
func TestSessionEcho(t *testing.T) {
	v, s := inSession(t)
	out := v.attachReceiver("out", 1)
	in := v.attachSender("in", 2, 7)
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Echo: true})
	v.want(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, OutgoingWindow: unlimited})
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Handle: Some[uint32](1), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](4), Echo: true},
		&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Handle: Some[uint32](2), DeliveryCount: Some[uint32](7), Echo: true})
	v.wantEvents("flow out credit=4 drain=false", "flow in drained=0")
	v.want(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, OutgoingWindow: unlimited,
		Handle: Some(out.Handle()), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](4)})
	v.want(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, OutgoingWindow: unlimited,
		Handle: Some(in.Handle()), DeliveryCount: Some[uint32](7), LinkCredit: Some[uint32](0)})
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9})
	v.wantIdle()
	_ = s
}

// TestPeerEnd: an end is answered at once, after what was still to be said; the links go with it
// without a detach (CFG R34, RT E11).
func TestPeerEnd(t *testing.T) {
	v, s := inSession(t)
	in := v.attachSender("in", 1, 0)
	v.attachReceiver("out", 2)
	s.Dispose(RoleReceiver, 0, 0, true, StateReleased)
	v.peer(&End{Error: &Error{Condition: ErrCondInternalError}})
	v.wantEvents("end 0 amqp:internal-error")
	v.want(&Disposition{Role: RoleReceiver, First: 0, Settled: true, State: StateReleased})
	v.want(&End{})
	in.Grant(5)
	in.Detach(true, nil)
	s.Dispose(RoleReceiver, 1, 1, true, StateReleased)
	s.FlowDue()
	s.End(nil)
	v.wantIdle()
	v.sendRefused(0, &Detach{Handle: 1}, ErrCondNotAllowed, "no such channel: 0")
}

// TestOurEnd: nothing follows our end, and what the peer sent before it knew is ignored, however
// wrong (part 2 §2.5.4, FC U10).
func TestOurEnd(t *testing.T) {
	v, s := inSession(t)
	in := v.attachSender("in", 1, 0)
	in.Grant(5)
	e := &Error{Condition: ErrCondResourceLimitExceeded, Description: "no"}
	s.End(e)
	v.wantAny(&Flow{})
	v.want(&End{Error: e})
	v.peerTransfer(presettled(1, 0), "late")
	v.peerTransfer(presettled(1, 9), "late")
	v.peer(&Flow{Handle: Some[uint32](1), Echo: true}, &Flow{Echo: true}, &Flow{Handle: Some[uint32](8)}, &Disposition{Last: Some[uint32](9)},
		&Attach{Name: "late", Handle: 1}, &Detach{Handle: 1}, &Detach{Handle: 8})
	in.Grant(5)
	s.FlowDue()
	v.wantEvents()
	v.wantIdle()
	v.peer(&End{})
	v.wantEvents()
	v.wantIdle()
	v.begin(0, &Begin{})
}

// TestManySessionsInterleaved: numbers of one session are no business of another.
func TestManySessionsInterleaved(t *testing.T) {
	const n = 20
	v := opened(t)
	for i := range uint16(n) {
		v.begin(n-i, &Begin{NextOutgoingID: uint32(i), IncomingWindow: uint32(i)})
		in := v.attachSender(fmt.Sprint("in", i), 0, uint32(i))
		v.grant(in, uint32(i))
	}
	for round := range uint32(n) {
		for i := range uint16(n) {
			v.channel, v.session = n-i, v.begun[i]
			if v.session.OutWindow() != int(i) {
				t.Fatalf("session %d has window %d", i, v.session.OutWindow())
			}
			if round < uint32(i) {
				v.peerTransfer(presettled(0, 1000*uint32(i)+round), "")
				v.wantEvents(fmt.Sprintf(`transfer in%d id=%d settled=true ""`, i, 1000*uint32(i)+round))
			}
		}
	}
	v.c.Sessions(func(s *Session) {
		s.Links(func(l *Link) {
			if l.CreditOut() != 0 {
				t.Errorf("link %s has %d credit left", l.Name, l.CreditOut())
			}
		})
	})
}

// TestDispose: neighbouring words become one frame, and words on one delivery stay in order.
func TestDispose(t *testing.T) {
	type word struct {
		role        Role
		first, last Serial
		settled     bool
		state       Raw
	}
	const r, s = RoleReceiver, RoleSender
	acc, rel, rej := StateAccepted, StateReleased, Raw(AppendRejected(nil, &Error{Condition: "x"}))
	tests := []struct {
		name string
		said []word
		want []word
	}{
		{"none", nil, nil},
		{"a run", []word{{r, 1, 1, true, acc}, {r, 2, 2, true, acc}, {r, 3, 9, true, acc}}, []word{{r, 1, 9, true, acc}}},
		{"equal states in different places", []word{{r, 1, 1, true, rej}, {r, 2, 2, true, append(Raw(nil), rej...)}}, []word{{r, 1, 2, true, rej}}},
		{"no state", []word{{s, 1, 1, true, nil}, {s, 2, 2, true, nil}}, []word{{s, 1, 2, true, nil}}},
		{"through the wrap", []word{{r, 4294967295, 4294967295, true, acc}, {r, 0, 0, true, acc}}, []word{{r, 4294967295, 0, true, acc}}},
		{"a gap", []word{{r, 1, 1, true, acc}, {r, 3, 3, true, acc}}, []word{{r, 1, 1, true, acc}, {r, 3, 3, true, acc}}},
		{"backwards", []word{{r, 2, 2, true, acc}, {r, 1, 1, true, acc}}, []word{{r, 2, 2, true, acc}, {r, 1, 1, true, acc}}},
		{"other state", []word{{r, 1, 1, true, acc}, {r, 2, 2, true, rel}}, []word{{r, 1, 1, true, acc}, {r, 2, 2, true, rel}}},
		{"state or none", []word{{r, 1, 1, true, acc}, {r, 2, 2, true, nil}}, []word{{r, 1, 1, true, acc}, {r, 2, 2, true, nil}}},
		{"settled or not", []word{{r, 1, 1, true, acc}, {r, 2, 2, false, acc}}, []word{{r, 1, 1, true, acc}, {r, 2, 2, false, acc}}},
		{"other role", []word{{r, 1, 1, true, acc}, {s, 2, 2, true, acc}}, []word{{r, 1, 1, true, acc}, {s, 2, 2, true, acc}}},
		{"two runs in turn", []word{{r, 1, 1, true, acc}, {r, 51, 51, true, rel}, {r, 2, 2, true, acc}, {r, 52, 52, true, rel}},
			[]word{{r, 1, 2, true, acc}, {r, 51, 52, true, rel}}},
		{"the second word on a delivery", []word{{r, 1, 1, true, acc}, {r, 2, 2, false, rej}, {r, 2, 2, true, acc}},
			[]word{{r, 1, 1, true, acc}, {r, 2, 2, false, rej}, {r, 2, 2, true, acc}}},
		{"the same twice", []word{{r, 1, 1, false, acc}, {r, 1, 1, false, acc}}, []word{{r, 1, 1, false, acc}, {r, 1, 1, false, acc}}},
		{"the sender's word is on other deliveries", []word{{r, 1, 1, true, acc}, {s, 2, 2, true, rej}, {r, 2, 2, true, acc}},
			[]word{{r, 1, 2, true, acc}, {s, 2, 2, true, rej}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, session := inSession(t)
			for _, w := range tt.said {
				session.Dispose(w.role, w.first, w.last, w.settled, w.state)
			}
			for _, w := range tt.want {
				d := &Disposition{Role: w.role, First: uint32(w.first), Settled: w.settled, State: w.state}
				if w.first != w.last {
					d.Last = Some(uint32(w.last))
				}
				v.want(d)
			}
			v.wantIdle()
		})
	}
}

// TestDispositionsReported as they came.
func TestDispositionsReported(t *testing.T) {
	v, _ := inSession(t)
	v.peer(&Disposition{Role: RoleReceiver, First: 4294967295, Last: Some[uint32](3), State: StateAccepted},
		&Disposition{Role: RoleSender, First: 4, Settled: true})
	v.wantEvents("disposition receiver 4294967295..3 settled=false 00532445", "disposition sender 4..4 settled=true ")
	v.wantIdle()
}

// TestTable against a map.
func TestTable(t *testing.T) {
	var table table[*int]
	model := make(map[uint32]*int)
	indices := []uint32{0, 1, 2, 3, 9, 8, 70000, 4294967295, 5, 4, 100, 24, 1 << 20, 40, 10, 11, 12, 13, 99, 98}
	check := func() {
		t.Helper()
		seen := 0
		table.each(func(p *int) { seen++ })
		if seen != len(model) {
			t.Fatalf("each saw %d, want %d", seen, len(model))
		}
		for i := range uint32(200) {
			if table.get(i) != model[i] {
				t.Fatalf("get(%d) differs", i)
			}
		}
		for _, i := range indices {
			if table.get(i) != model[i] {
				t.Fatalf("get(%d) differs", i)
			}
		}
	}
	for _, i := range indices {
		p := new(int)
		table.put(i, p)
		model[i] = p
		check()
	}
	for _, i := range indices {
		table.del(i)
		delete(model, i)
		check()
		table.del(i)
		check()
		if i%2 == 0 {
			p := new(int)
			table.put(i, p)
			model[i] = p
			check()
		}
	}
	if !reflect.DeepEqual(table.get(12345), (*int)(nil)) {
		t.Error("something where nothing was put")
	}
}

// TestCreditBeforeBegin: a session of ours whose first flow went before the peer's begin lives by
// the window that flow told; it is renewed in time.
func TestCreditBeforeBegin(t *testing.T) {
	v := newTalk(t, testConfig)
	v.c.Open()
	v.wantAny(&Open{})
	s, _ := v.c.Begin()
	v.session = s
	v.wantAny(&Begin{})
	s.WindowTarget = 4
	in := s.NewLink("in", RoleReceiver)
	in.Grant(100) // before the attach even: told after it
	v.wantIdle()
	in.Attach(&Attach{})
	v.wantAny(&Attach{})
	// Neither next-incoming-id nor delivery-count are known yet (part 2 §2.7.4).
	v.want(&Flow{IncomingWindow: 4, OutgoingWindow: unlimited, Handle: Some[uint32](0), LinkCredit: Some[uint32](100)})
	v.send(0, &Open{ContainerID: "peer"}, &Begin{RemoteChannel: Some[uint16](0), NextOutgoingID: 4294967294},
		&Attach{Name: "in", Role: RoleSender, InitialDeliveryCount: Some[uint32](4294967290)})
	v.wantEvents("open peer", "begin 0", "attach receiver in")
	if s.WindowLow() {
		t.Error("low with 4 of 4 left")
	}
	for id := range uint32(4) {
		v.peerTransfer(presettled(0, id), "")
	}
	if !s.WindowLow() || in.CreditOut() != 96 {
		t.Errorf("not low with 0 of 4 left; credit out %d", in.CreditOut())
	}
	in.FlowDue()
	v.want(&Flow{NextIncomingID: Some[uint32](2), IncomingWindow: 4, OutgoingWindow: unlimited,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](4294967294), LinkCredit: Some[uint32](96)})
}

// TestEchoBeforeAttach: a flow that came right behind the attach is answered after ours.
func TestEchoBeforeAttach(t *testing.T) {
	v, _ := inSession(t)
	v.manual = true
	v.peer(&Attach{Name: "out", Handle: 1, Role: RoleReceiver},
		&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Handle: Some[uint32](1), LinkCredit: Some[uint32](3), Echo: true})
	v.wantEvents("attach sender out", "flow out credit=3 drain=false")
	v.wantIdle()
	v.links["out"].Attach(&Attach{})
	v.wantAny(&Attach{})
	v.want(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, OutgoingWindow: unlimited,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](3)})
	v.wantIdle()
}

// TestHoldBeforeFirstFlow: the window of the begin stands until a flow says otherwise.
func TestHoldBeforeFirstFlow(t *testing.T) {
	cfg := testConfig
	cfg.SessionFrames = 7
	v := newTalk(t, cfg)
	v.c.Open()
	v.wantAny(&Open{})
	s, _ := v.c.Begin()
	v.session = s
	v.wantAny(&Begin{})
	s.Hold = true
	s.FlowDue()
	v.want(&Flow{IncomingWindow: 7, OutgoingWindow: unlimited})
	v.send(0, &Open{}, &Begin{RemoteChannel: Some[uint16](0), NextOutgoingID: 3})
	s.FlowDue()
	v.want(&Flow{NextIncomingID: Some[uint32](3), IncomingWindow: 7, OutgoingWindow: unlimited})
}

// TestTableIsSmall: a few far-apart numbers cost no more than close ones (CFG R38).
func TestTableIsSmall(t *testing.T) {
	var table table[*int]
	for i := uint32(1); i != 0; i *= 2 {
		table.put(i, new(int))
		table.put(i-1, new(int))
	}
	if len(table.low) > 200 {
		t.Errorf("64 entries take %d slots", len(table.low))
	}
	for i := range uint32(1000) {
		table.put(i, new(int))
	}
	if len(table.low) != 1000 {
		t.Errorf("1000 numbers from 0 on have %d slots in the slice", len(table.low))
	}
}

// TestWindowOfDetachedLink: what a peer still sends on a link that we have detached, or that had
// no credit, must not use up the window of the session's other links (FC U10).
func TestWindowOfDetachedLink(t *testing.T) {
	v, s, in := sessionOf(t, 10, 4294967295)
	in.Detach(true, nil)
	v.wantAny(&Detach{})
	late := &Transfer{Handle: 1, DeliveryID: Some[uint32](0), More: true}
	for i := range uint32(50) {
		for range 4 {
			v.peerTransfer(late, "")
		}
		v.wantIdle()
		v.sessionFlows = 0
		v.peerTransfer(late, "")
		if v.sessionFlows != 1 {
			t.Fatal("the owner was not told that there is something to write")
		}
		v.want(&Flow{NextIncomingID: Some(4294967295 + 5*(i+1)), IncomingWindow: 10, OutgoingWindow: unlimited})
	}
	s.Hold = true
	for range 7 {
		v.peerTransfer(late, "")
	}
	v.wantIdle()
	v.wantEvents()
}

// TestFirstNumbers: an end that is told to starts its transfer ids and delivery counts where it
// is told, and takes a flow that says neither yet for one that counts from there (part 2
// §2.5.6, §2.7.4).
func TestFirstNumbers(t *testing.T) {
	const id, count = 4294967292, 4294967291
	cfg := testConfig
	cfg.FirstTransferID, cfg.FirstDeliveryCount = id, count
	v := newTalk(t, cfg)
	v.open(&Open{ContainerID: "peer"})
	v.send(0, &Begin{IncomingWindow: 2, OutgoingWindow: 2})
	s := v.begun[0]
	v.channel, v.session = 0, s
	v.want(&Begin{RemoteChannel: Some[uint16](0), NextOutgoingID: id, IncomingWindow: unlimited, OutgoingWindow: unlimited})
	v.peer(&Attach{Name: "out", Handle: 1, Role: RoleReceiver})
	out := v.links["out"]
	v.want(&Attach{Name: "out", Role: RoleSender, InitialDeliveryCount: Some[uint32](count)})
	first := s.NewLink("first", RoleSender)
	first.Attach(&Attach{})
	v.want(&Attach{Name: "first", Handle: 1, Role: RoleSender, InitialDeliveryCount: Some[uint32](count)})
	v.peer(&Flow{IncomingWindow: 2, OutgoingWindow: 2, Handle: Some[uint32](1), LinkCredit: Some[uint32](9)})
	v.wantEvents("begin 0", "attach sender out", "flow out credit=9 drain=false")
	if s.OutWindow() != 2 || s.NextOutgoingID() != id {
		t.Errorf("window %d from %d on, want 2 from %d on", s.OutWindow(), s.NextOutgoingID(), uint32(id))
	}
	out.Send(&OutDelivery{Tag: 7, Resume: true, Settled: true}, nil, nil, nil)
	v.want(&Transfer{DeliveryID: Some[uint32](0), DeliveryTag: []byte{0, 0, 0, 0, 0, 0, 0, 7}, MessageFormat: Some[uint32](0), Settled: Some(true), Resume: true})
	if s.NextOutgoingID() != id+1 || out.Credit() != 8 {
		t.Errorf("next id %d, credit %d", s.NextOutgoingID(), out.Credit())
	}
}
