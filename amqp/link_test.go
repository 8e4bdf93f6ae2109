package amqp

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLinkPairs: the same name may be one link in each direction (part 2 §2.6.1), and handles
// are any uint (CFG R39).
func TestLinkPairs(t *testing.T) {
	v, s := inSession(t)
	in := v.attachSender("pair", 4294967295, 0)
	out := v.attachReceiver("pair", 70000)
	if in == out || in.Handle() == out.Handle() {
		t.Errorf("handles %d and %d", in.Handle(), out.Handle())
	}
	var names []string
	s.Links(func(l *Link) { names = append(names, roleName(l.Role)+" "+l.Name) })
	if len(names) != 2 {
		t.Errorf("links: %q", names)
	}
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 1, Handle: Some[uint32](70000), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](1)})
	v.grant(in, 1)
	v.peerTransfer(&Transfer{Handle: 4294967295, DeliveryID: Some[uint32](1)}, "x")
	v.wantEvents("flow pair credit=1 drain=false", `transfer pair id=1 settled=false "x"`)
}

// TestTellAnswer: an owner who has still to end its half of a link it detached hears when the peer
// has answered.
func TestTellAnswer(t *testing.T) {
	v, s := inSession(t)
	v.peer(&Attach{Name: "l", Handle: 5, Role: RoleSender})
	v.wantEvents("attach receiver l")
	v.want(&Attach{Name: "l", Role: RoleReceiver})
	l := v.links["l"]
	l.TellAnswer = true
	l.Detach(true, nil)
	v.want(&Detach{Closed: true})
	v.peer(&Detach{Handle: 5, Closed: true})
	v.wantEvents("detach l closed=true without error")
	v.wantIdle()
	if len(s.names) != 0 {
		t.Error("the name is still taken")
	}
}

// TestRefusedAttach: our attach comes before the detach with the reason, and a good attach, of
// the same name even, works afterwards on the same session (FC U08).
func TestRefusedAttach(t *testing.T) {
	v, s := inSession(t)
	v.manual = true
	e := &Error{Condition: ErrCondNotFound, Description: "Node not found"}
	for round := range uint32(3) {
		for _, role := range []Role{RoleSender, RoleReceiver} {
			v.peer(&Attach{Name: "l", Handle: 5, Role: role, Source: &Source{}, Target: &Target{Address: Some("nowhere")}})
			v.wantEvents(fmt.Sprintf("attach %s l", roleName(!role)))
			l := v.links["l"]
			l.Attach(&Attach{Source: &Source{}})
			l.Detach(true, e)
			l.Detach(true, e)
			answer := &Attach{Name: "l", Role: !role, Source: &Source{}}
			if role == RoleReceiver {
				answer.InitialDeliveryCount = Some[uint32](0)
			}
			v.want(answer)
			v.want(&Detach{Closed: true, Error: e})
			v.wantIdle()
			v.peer(&Detach{Handle: 5, Closed: true})
			v.wantEvents()
			v.wantIdle()
		}
		if len(s.names) != 0 || s.handles > 1 {
			t.Fatalf("round %d: %d names, %d handles", round, len(s.names), s.handles)
		}
	}
	v.manual = false
	v.grant(v.attachSender("l", 5, 0), 1)
	v.peerTransfer(&Transfer{Handle: 5, DeliveryID: Some[uint32](0)}, "good")
	v.wantEvents(`transfer l id=0 settled=false "good"`)
}

// TestHandlesReused: a link that both ends have detached leaves nothing behind.
func TestHandlesReused(t *testing.T) {
	v, s := inSession(t)
	for i := range uint32(1000) {
		in := v.attachSender(fmt.Sprint("a", i), 3, i)
		out := v.attachReceiver(fmt.Sprint("b", i), 4)
		if in.Handle() > 1 || out.Handle() > 1 {
			t.Fatalf("round %d: our handles %d and %d", i, in.Handle(), out.Handle())
		}
		v.peer(&Detach{Handle: 3})
		v.want(&Detach{Handle: in.Handle()})
		v.wantEvents(fmt.Sprintf("detach a%d closed=false without error", i))
		s.Dispose(RoleSender, 0, 0, true, nil)
		out.Detach(true, nil)
		v.want(&Disposition{Role: RoleSender, Settled: true}) // said before the detach, heard before it
		v.want(&Detach{Handle: out.Handle(), Closed: true})
		v.peer(&Detach{Handle: 4, Closed: true})
		v.wantEvents()
		v.wantIdle()
		if in.Attached() || out.Attached() || !out.LocalDetached() || !out.RemoteDetached() {
			t.Fatal("a link is still attached")
		}
	}
	if len(s.names) != 0 {
		t.Errorf("%d names are kept", len(s.names))
	}
}

// TestLateForClosingLink: what the peer sent before it saw our detach is ignored; a delivery on
// its way keeps the ids in step (FC U10).
func TestLateForClosingLink(t *testing.T) {
	v, _ := inSession(t)
	a, b := v.attachSender("a", 1, 0), v.attachSender("b", 2, 0)
	out := v.attachReceiver("out", 3)
	v.grant(a, 5)
	v.grant(b, 5)
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](7), More: true}, "cut")
	v.wantEvents(`transfer a id=7 settled=false more "cut"`)
	a.Detach(true, nil)
	out.Detach(true, nil)
	v.want(&Detach{Handle: a.Handle(), Closed: true})
	v.want(&Detach{Handle: out.Handle(), Closed: true})

	v.peerTransfer(&Transfer{Handle: 1, More: true}, "late")
	v.peerTransfer(&Transfer{Handle: 2, DeliveryID: Some[uint32](8)}, "other link")
	v.peerTransfer(&Transfer{Handle: 1}, "late")
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](9), More: true}, "late")
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](9), More: true}, "late")
	v.peerTransfer(&Transfer{Handle: 1, Aborted: true}, "")
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](10)}, "late")
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Handle: Some[uint32](1), DeliveryCount: Some[uint32](5), Echo: true},
		&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Handle: Some[uint32](3), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](9), Drain: true, Echo: true})
	v.wantEvents(`transfer b id=8 settled=false "other link"`)
	v.wantIdle()
	v.peer(&Detach{Handle: 1, Closed: true}, &Detach{Handle: 3, Closed: true})
	v.wantEvents()
	v.wantIdle()
	v.peerTransfer(&Transfer{Handle: 2, DeliveryID: Some[uint32](11)}, "other link")
	v.wantEvents(`transfer b id=11 settled=false "other link"`)
	v.sendRefused(0, &Transfer{Handle: 1, DeliveryID: Some[uint32](12)}, ErrCondInvalidField, "no such handle: 1")
}

// TestCreditGiven: each flow tells the delivery-count and what is left; the peer may use it up
// and no more.
func TestCreditGiven(t *testing.T) {
	const count = 4294967294
	v, _ := inSession(t)
	in := v.attachSender("in", 1, count)
	flow := func(received, credit uint32) {
		t.Helper()
		v.want(&Flow{NextIncomingID: Some(received), IncomingWindow: 2048, OutgoingWindow: unlimited,
			Handle: Some(in.Handle()), DeliveryCount: Some(count + received), LinkCredit: Some(credit)})
	}
	in.Grant(2)
	in.Grant(1)
	flow(0, 3)
	v.wantIdle()
	for id := range uint32(2) {
		v.peerTransfer(presettled(1, id), "")
	}
	if got := in.CreditOut(); got != 1 {
		t.Errorf("credit out %d, want 1", got)
	}
	in.Grant(2)
	flow(2, 3)
	v.peerTransfer(presettled(1, 2), "")
	in.FlowDue()
	flow(3, 2)
}

// TestWithoutCredit: a transfer beyond the credit detaches the link, and nothing more of it is
// seen; other links go on (CFG R25).
func TestWithoutCredit(t *testing.T) {
	v, _ := inSession(t)
	in, other := v.attachSender("in", 1, 4294967295), v.attachSender("other", 2, 0)
	v.grant(in, 1)
	v.grant(other, 9)
	v.peerTransfer(presettled(1, 0), "")
	v.wantEvents(`transfer in id=0 settled=true ""`)
	v.peerTransfer(presettled(1, 1), "")
	v.wantEvents("failed in amqp:link:transfer-limit-exceeded")
	v.want(&Detach{Handle: in.Handle(), Closed: true, Error: &Error{Condition: ErrCondTransferLimitExceeded, Description: "transfer without link credit"}})
	v.peerTransfer(presettled(1, 2), "")
	v.peerTransfer(presettled(2, 3), "")
	v.wantEvents(`transfer other id=3 settled=true ""`)
	v.wantIdle()
	v.peer(&Detach{Handle: 1, Closed: true})
	v.wantEvents()
	v.attachSender("in", 1, 0)
}

// TestManyFrames: continuations carry the ids again or leave them out, and links take turns
// (FC U04, part 2 §2.6.14).
func TestManyFrames(t *testing.T) {
	v, _ := inSession(t)
	v.grant(v.attachSender("a", 1, 0), 9)
	v.grant(v.attachSender("b", 2, 0), 9)
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](4294967295), DeliveryTag: []byte("x"), MessageFormat: Some[uint32](0), More: true}, "a1")
	v.peerTransfer(&Transfer{Handle: 1, More: true}, "a2")
	v.peerTransfer(&Transfer{Handle: 2, DeliveryID: Some[uint32](0), DeliveryTag: []byte("y"), Settled: Some(true), More: true}, "b1")
	v.peerTransfer(&Transfer{Handle: 2, More: true}, "")
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](4294967295), DeliveryTag: []byte("x"), MessageFormat: Some[uint32](0), Settled: Some(false), More: true}, "")
	v.peerTransfer(&Transfer{Handle: 2, Settled: Some(true)}, "b2")
	v.peerTransfer(&Transfer{Handle: 1, Settled: Some(true)}, "a3") // settled at the end
	v.peerTransfer(&Transfer{Handle: 2, DeliveryID: Some[uint32](1)}, "b3")
	v.wantEvents(
		`transfer a id=4294967295 settled=false more "a1"`, `transfer a id=4294967295 settled=false more "a2"`,
		`transfer b id=0 settled=true more "b1"`, `transfer b id=0 settled=true more ""`, `transfer a id=4294967295 settled=false more ""`,
		`transfer b id=0 settled=true "b2"`, `transfer a id=4294967295 settled=true "a3"`, `transfer b id=1 settled=false "b3"`)
	if got := v.links["a"].CreditOut(); got != 8 {
		t.Errorf("three frames of one delivery left %d of 9 credit", got)
	}
}

// TestAbortedIn: an aborted delivery ends, whatever its more says, and has used its credit.
func TestAbortedIn(t *testing.T) {
	v, _ := inSession(t)
	in := v.attachSender("in", 1, 0)
	v.grant(in, 4)
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](0), More: true}, "half")
	v.peerTransfer(&Transfer{Handle: 1, Aborted: true, More: true}, "")
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](1), More: true, Aborted: true}, "")
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](2)}, "whole")
	v.wantEvents(`transfer in id=0 settled=false more "half"`, `transfer in id=0 settled=false more aborted ""`,
		`transfer in id=1 settled=false more aborted ""`, `transfer in id=2 settled=false "whole"`)
	if got := in.CreditOut(); got != 1 {
		t.Errorf("credit out %d, want 1", got)
	}
}

// TestCreditUsed: what we may send is the receiver's delivery-count and credit less what it has
// not yet seen (part 2 §2.6.7).
func TestCreditUsed(t *testing.T) {
	v, _ := inSession(t)
	out := v.attachReceiver("out", 1)
	flow := func(count, credit, want uint32) {
		t.Helper()
		v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 1000, Handle: Some[uint32](1), DeliveryCount: Some(count), LinkCredit: Some(credit)})
		v.wantEvents(fmt.Sprintf("flow out credit=%d drain=false", want))
	}
	send := func(n int) {
		for range n {
			out.Send(&OutDelivery{}, nil, nil, nil)
			v.wantAny(&Transfer{})
		}
	}
	flow(0, 3, 3)
	send(2)
	if got := out.Credit(); got != 1 {
		t.Errorf("credit %d, want 1", got)
	}
	flow(0, 3, 1)
	flow(1, 3, 2)
	flow(0, 1, 0) // taken back when too late (RT E53)
	flow(2, 0, 0)
	flow(2, 5, 5)
	send(5)
	flow(7, 1, 1)
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 1000, Handle: Some[uint32](1), DeliveryCount: Some[uint32](7)})
	v.wantEvents("flow out credit=1 drain=false") // none told, none changed
}

// TestDrainOut: a drained receiver is told that all credit is used, and may give new one (RT E50).
func TestDrainOut(t *testing.T) {
	v, _ := inSession(t)
	out := v.attachReceiver("out", 1)
	flow := func(count, credit uint32, drain bool) {
		v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 1000, Handle: Some[uint32](1), DeliveryCount: Some(count), LinkCredit: Some(credit), Drain: drain})
	}
	answer := func(count, credit uint32, drain bool) *Flow {
		return &Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, NextOutgoingID: uint32(v.session.nextOutgoingID), OutgoingWindow: unlimited,
			Handle: Some(out.Handle()), DeliveryCount: Some(count), LinkCredit: Some(credit), Drain: drain}
	}
	v.manual = true
	flow(0, 10, true)
	v.wantEvents("flow out credit=10 drain=true")
	out.Send(&OutDelivery{}, nil, nil, nil)
	v.wantAny(&Transfer{})
	out.Drained()
	v.want(answer(10, 0, true))
	if out.Credit() != 0 {
		t.Errorf("credit %d after the drain", out.Credit())
	}
	out.Drained() // with nothing left
	v.want(answer(10, 0, true))
	flow(10, 2, false)
	v.wantEvents("flow out credit=2 drain=false")
	out.FlowDue()
	v.want(answer(10, 2, false))
}

// TestDrainedInPart: credit can be given back in part, and never more than there is.
func TestDrainedInPart(t *testing.T) {
	v, _ := inSession(t)
	out := v.attachReceiver("out", 1)
	v.manual = true
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 1000, Handle: Some[uint32](1), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](10), Drain: true})
	v.wantEvents("flow out credit=10 drain=true")
	for _, tt := range []struct{ n, count, credit uint32 }{{4, 4, 6}, {100, 10, 0}} {
		out.DrainedBy(tt.n)
		v.want(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, OutgoingWindow: unlimited,
			Handle: Some(out.Handle()), DeliveryCount: Some(tt.count), LinkCredit: Some(tt.credit), Drain: true})
		if out.DeliveryCount() != Serial(tt.count) || out.Credit() != tt.credit {
			t.Errorf("drained by %d: count %d, credit %d", tt.n, out.DeliveryCount(), out.Credit())
		}
	}
}

// TestChoked: a sender is told that there is no credit, and may still use what it has been told of
// before.
func TestChoked(t *testing.T) {
	v, _ := inSession(t)
	in := v.attachSender("in", 1, 0)
	v.grant(in, 5)
	in.Choked = true
	in.FlowDue()
	flow := func(next, count, credit uint32) *Flow {
		return &Flow{NextIncomingID: Some(next), IncomingWindow: 2048, OutgoingWindow: unlimited,
			Handle: Some(in.Handle()), DeliveryCount: Some(count), LinkCredit: Some(credit)}
	}
	v.want(flow(0, 0, 0))
	v.peerTransfer(presettled(1, 0), "")
	v.wantEvents(`transfer in id=0 settled=true ""`)
	if in.CreditOut() != 4 {
		t.Errorf("credit %d", in.CreditOut())
	}
	in.Choked = false
	in.FlowDue()
	v.want(flow(1, 1, 4))
}

// TestRawTag: a delivery tag goes out as it is given, in one frame or with the first of several.
func TestRawTag(t *testing.T) {
	v, _ := inSession(t)
	out := v.attachReceiver("out", 1)
	v.giveCredit(out, 9)
	for i, tag := range [][]byte{{}, {7}, make([]byte, 32)} {
		id := uint32(2 * i)
		out.Send(&OutDelivery{Tag: 1, RawTag: tag}, nil, nil, nil)
		v.want(&Transfer{DeliveryID: Some(id), DeliveryTag: tag, MessageFormat: Some[uint32](0), Settled: Some(false)})
		d := &OutDelivery{Tag: 1, RawTag: tag, Format: 3}
		out.Start(d)
		out.SendFrames(d, true, false, []byte("a"), 1000)
		v.wantTransfer(v.session.Channel(), &Transfer{DeliveryID: Some(id + 1), DeliveryTag: tag, MessageFormat: Some[uint32](3), Settled: Some(false), More: true}, "a")
		out.SendFrames(&OutDelivery{}, false, true, []byte("b"), 1000)
		v.wantTransfer(v.session.Channel(), &Transfer{}, "b")
	}
}

// TestHasLink: a name is taken until both ends have detached.
func TestHasLink(t *testing.T) {
	v, _ := inSession(t)
	in := v.attachSender("in", 1, 0)
	s := in.Session
	if !s.HasLink("in", RoleReceiver) || s.HasLink("in", RoleSender) || s.HasLink("other", RoleReceiver) {
		t.Error("names of one attached link")
	}
	v.manual = true
	in.Detach(true, nil)
	v.wantAny(&Detach{})
	if !s.HasLink("in", RoleReceiver) {
		t.Error("the name is free before the peer has detached")
	}
	v.peer(&Detach{Handle: 1, Closed: true})
	if s.HasLink("in", RoleReceiver) {
		t.Error("the name is not free")
	}
}

// TestAttachClone: a copy says the same and shares nothing.
func TestAttachClone(t *testing.T) {
	a := &Attach{Name: "n", Role: RoleReceiver, Source: &Source{Address: Some("a"), Capabilities: AppendValue(nil, Symbol("c"))}, Target: &Target{}, Properties: AppendValue(nil, Map{})}
	c := a.Clone()
	if !bytes.Equal(c.Append(nil), a.Append(nil)) {
		t.Errorf("copied %+v", c)
	}
	a.Source.Capabilities[2] = 'x'
	if c.Source.Capabilities.HasSymbol("x") {
		t.Error("memory is shared")
	}
}

// TestDrainIn: a sender that we drain gives its credit back; never more than it had (RT E47).
func TestDrainIn(t *testing.T) {
	count := uint32(4294967293)
	v, _ := inSession(t)
	in := v.attachSender("in", 1, count)
	v.grant(in, 5)
	v.peerTransfer(presettled(1, 0), "")
	v.wantEvents(`transfer in id=0 settled=true ""`)
	in.Draining = true
	in.FlowDue()
	v.want(&Flow{NextIncomingID: Some[uint32](1), IncomingWindow: 2048, OutgoingWindow: unlimited,
		Handle: Some(in.Handle()), DeliveryCount: Some(count + 1), LinkCredit: Some[uint32](4), Drain: true})
	flow := func(count uint32) {
		v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Handle: Some[uint32](1), DeliveryCount: Some(count), LinkCredit: Some[uint32](0), Drain: true})
	}
	flow(count + 1)
	v.wantEvents("flow in drained=0")
	flow(count + 9)
	v.wantEvents("flow in drained=0")
	flow(count - 9)
	v.wantEvents("flow in drained=0")
	flow(count + 5)
	v.wantEvents("flow in drained=4")
	flow(count + 5)
	v.wantEvents("flow in drained=0")
	if got := in.CreditOut(); got != 0 {
		t.Errorf("credit out %d, want 0", got)
	}
	in.Draining = false
	in.Grant(2)
	v.want(&Flow{NextIncomingID: Some[uint32](1), IncomingWindow: 2048, OutgoingWindow: unlimited,
		Handle: Some(in.Handle()), DeliveryCount: Some(count + 5), LinkCredit: Some[uint32](2)})
}

// TestSend: what a delivery looks like on the wire, in one frame and in several.
func TestSend(t *testing.T) {
	for _, traced := range []bool{false, true} {
		v := newTalk(t, testConfig)
		if traced {
			v.c.Trace = func(bool, uint16, Performative, []byte) {}
		}
		v.open(&Open{ContainerID: "peer", MaxFrameSize: Some[uint32](512)})
		s := v.begin(300, &Begin{IncomingWindow: 1000})
		out := v.attachReceiver("out", 1)
		v.giveCredit(out, 1000)
		for _, tt := range []struct {
			handle uint32
			id     Serial
			d      OutDelivery
		}{
			{0, 0, OutDelivery{}},
			{1, 255, OutDelivery{Tag: 1, Settled: true}},
			{256, 256, OutDelivery{Tag: 0xfedcba9876543210, Format: 0x80013900}},
			{4294967295, 4294967295, OutDelivery{Tag: 1<<64 - 1, Settled: true, State: StateAccepted}},
		} {
			out.handle, s.nextDeliveryID = tt.handle, tt.id
			tag := make([]byte, 8)
			for i := range tag {
				tag[i] = byte(tt.d.Tag >> (56 - 8*i))
			}
			first := &Transfer{Handle: tt.handle, DeliveryID: Some(uint32(tt.id)), DeliveryTag: tag, MessageFormat: Some(tt.d.Format), Settled: Some(tt.d.Settled), State: tt.d.State}
			if got := out.Send(&tt.d, []byte("ab"), []byte("c"), nil); got != tt.id {
				t.Errorf("Send returned %d, want %d", got, tt.id)
			}
			v.wantTransfer(s.Channel(), first, "abc")
			out.Send(&tt.d, nil, nil, nil)
			first.DeliveryID = Some(uint32(tt.id + 1))
			v.wantTransfer(s.Channel(), first, "")
		}
	}
}

// TestFits: a payload that fits goes in one frame of the peer's, and SendFrames cuts the others
// into frames that are full.
func TestFits(t *testing.T) {
	for _, size := range []uint32{512, 513, 600, 4096} {
		v := newTalk(t, testConfig)
		v.open(&Open{ContainerID: "peer", MaxFrameSize: Some(size)})
		s := v.begin(0, &Begin{IncomingWindow: 1000})
		out := v.attachReceiver("out", 1)
		v.giveCredit(out, 1000)
		out.handle, s.nextDeliveryID = 4294967295, 4294967000
		n := int(size) - maxTransferHead
		if !out.Fits(n) || out.Fits(n+1) {
			t.Errorf("frames of %d octets: %d fit: %t, %d fit: %t", size, n, out.Fits(n), n+1, out.Fits(n+1))
		}
		d := &OutDelivery{Tag: 1<<64 - 1, Format: 4294967295}
		out.Send(d, []byte(strings.Repeat("x", n)), nil, nil)
		v.wantAny(&Transfer{})
		v.wantIdle()
		for _, octets := range []int{0, 1, n, n + 1, int(size) - 1, int(size), int(size) + 1, 10 * int(size)} {
			payload := strings.Repeat("y", octets)
			id := out.Start(d)
			if sent, started := out.SendFrames(d, true, true, []byte(payload), 1<<20); sent != octets || !started {
				t.Fatalf("%d octets: sent %d, %t", octets, sent, started)
			}
			got := ""
			for more := true; more; {
				before := len(v.unread) + len(v.c.Out)
				_, p, data, ok := v.next()
				if !ok {
					t.Fatalf("%d octets: a frame is missing", octets)
				}
				frame := before - len(v.unread)
				transfer := p.(*Transfer)
				if got == "" && transfer.DeliveryID != Some(uint32(id)) || got != "" && transfer.DeliveryID.Set {
					t.Errorf("%d octets: after %d: %s", octets, len(got), show(p))
				}
				if more = transfer.More; more && frame != int(size) {
					t.Errorf("%d octets: a frame of %d, not the last", octets, frame)
				}
				got += string(data)
			}
			if got != payload {
				t.Errorf("%d octets: %d arrived", octets, len(got))
			}
			v.wantIdle()
		}
	}
}

// TestSendFramesInPieces: a stream is sent as it comes, within the room for output.
func TestSendFramesInPieces(t *testing.T) {
	v := newTalk(t, testConfig)
	v.open(&Open{ContainerID: "peer", MaxFrameSize: Some[uint32](512)})
	s := v.begin(0, &Begin{IncomingWindow: 1000})
	out := v.attachReceiver("out", 1)
	v.giveCredit(out, 2)
	d := &OutDelivery{Tag: 7, Settled: true}
	id := out.Start(d)
	out.SendFrames(d, true, false, []byte("first"), 1<<20)
	v.wantTransfer(0, &Transfer{Handle: out.Handle(), DeliveryID: Some(uint32(id)), DeliveryTag: []byte{0, 0, 0, 0, 0, 0, 0, 7}, MessageFormat: Some[uint32](0), Settled: Some(true), More: true}, "first")
	if sent, started := out.SendFrames(d, false, false, []byte("x"), 0); sent != 0 || started {
		t.Errorf("without room: sent %d, %t", sent, started)
	}
	if sent, _ := out.SendFrames(d, false, false, make([]byte, 5000), 1000); sent < 900 || sent > 1000 || s.nextOutgoingID != 3 {
		t.Errorf("sent %d in %d frames, want two frames", sent, s.nextOutgoingID)
	}
	v.wantAny(&Transfer{})
	v.wantAny(&Transfer{})
	out.SendFrames(d, false, true, nil, 1<<20)
	v.want(&Transfer{Handle: out.Handle()})
	if out.Credit() != 1 {
		t.Errorf("credit %d, want 1: one delivery was sent", out.Credit())
	}
}

// TestAbort: an aborted delivery is over for the peer, and counts.
func TestAbort(t *testing.T) {
	v, s := inSession(t)
	out := v.attachReceiver("out", 1)
	v.giveCredit(out, 2)
	d := &OutDelivery{}
	out.Start(d)
	out.SendFrames(d, true, false, []byte("half"), 1<<20)
	v.wantAny(&Transfer{})
	out.Abort(d)
	v.want(&Transfer{Handle: out.Handle(), Aborted: true})
	if out.Credit() != 1 || s.nextOutgoingID != 2 {
		t.Errorf("credit %d, transfer-id %d", out.Credit(), s.nextOutgoingID)
	}
}

// TestSettleSecond: the receiver states, the sender settles, and the engine passes both on, each
// way (part 2 §2.6.12, rcv-settle-mode second).
func TestSettleSecond(t *testing.T) {
	v, s := inSession(t)
	in, out := v.attachSender("in", 1, 0), v.attachReceiver("out", 2)
	v.grant(in, 1)
	v.giveCredit(out, 1)
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](0), RcvSettleMode: Some[uint8](1)}, "m")
	v.wantEvents(`transfer in id=0 settled=false "m"`)
	id := out.Send(&OutDelivery{}, []byte("m"), nil, nil)
	v.wantAny(&Transfer{})
	v.peer(&Disposition{Role: RoleReceiver, First: uint32(id), State: StateAccepted})
	v.wantEvents("disposition receiver 0..0 settled=false 00532445")
	s.Dispose(RoleReceiver, 0, 0, false, StateAccepted)
	v.want(&Disposition{Role: RoleReceiver, First: 0, State: StateAccepted})
	v.peer(&Disposition{Role: RoleSender, First: 0, Settled: true, State: StateAccepted})
	v.wantEvents("disposition sender 0..0 settled=true 00532445")
	s.Dispose(RoleSender, id, id, true, StateAccepted)
	v.want(&Disposition{Role: RoleSender, First: uint32(id), Settled: true, State: StateAccepted})
}

// TestSteadyStateDoesNotAllocate: a delivery in, its way out and its settlement, whatever the
// numbers are.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	v, s := inSession(t)
	in, out := v.attachSender("in", 1, 0), v.attachReceiver("out", 2)
	quiet := &quietHandler{}
	v.c.h = quiet
	id := uint32(4294967000)
	var buf []byte
	transfer := &Transfer{Handle: 1, DeliveryTag: []byte("12345678"), MessageFormat: Some[uint32](0)}
	payload := make([]byte, 100)
	delivery := &OutDelivery{Tag: 1}
	runs := func(name string, f func()) {
		t.Helper()
		f()
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	input := func(b []byte) {
		if _, err := v.c.Input(b); err != nil {
			t.Fatal(err)
		}
	}
	prepare := func() {
		v.c.Prepare()
		v.c.Out = v.c.Out[:0]
	}
	runs("receiving a delivery", func() {
		in.Grant(1)
		s.FlowDue()
		prepare()
		transfer.DeliveryID = Some(id)
		id++
		buf = AppendTransferFrame(buf[:0], 0, transfer, payload)
		input(buf)
	})
	runs("sending a delivery", func() {
		out.Send(delivery, payload[:10], payload[:20], payload[:30])
		prepare()
	})
	runs("sending a delivery in frames", func() {
		out.Start(delivery)
		out.SendFrames(delivery, true, false, payload, 1<<16)
		out.SendFrames(delivery, false, true, payload, 1<<16)
		prepare()
	})
	disposition := &Disposition{Role: RoleReceiver, Settled: true, State: StateAccepted}
	runs("receiving a range of dispositions", func() {
		disposition.First += 10
		disposition.Last = Some(disposition.First + 9)
		buf = AppendDispositionFrame(buf[:0], 0, disposition)
		input(buf)
	})
	runs("telling dispositions", func() {
		for range 50 {
			s.Dispose(RoleReceiver, Serial(id), Serial(id), true, StateAccepted)
			s.Dispose(RoleSender, Serial(id), Serial(id), true, nil)
			id++
		}
		prepare()
	})
	flow := &Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2147483647, Handle: Some[uint32](2), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](250), Echo: true}
	runs("taking and answering a flow", func() {
		flow.NextIncomingID.V++
		flow.DeliveryCount.V++
		buf = AppendFlowFrame(buf[:0], 0, flow)
		input(buf)
		prepare()
	})
	if quiet.transfers < 1000 || quiet.dispositions < 1000 {
		t.Errorf("%d transfers and %d dispositions were reported", quiet.transfers, quiet.dispositions)
	}
}

// quietHandler only counts.
type quietHandler struct{ transfers, dispositions int }

func (h *quietHandler) Lock()                                    {}
func (h *quietHandler) Unlock()                                  {}
func (h *quietHandler) Flush()                                   {}
func (h *quietHandler) RemoteOpen(*Open) *Error                  { return nil }
func (h *quietHandler) RemoteBegin(*Session, *Begin) *Error      { return nil }
func (h *quietHandler) RemoteAttach(*Link, *Attach) *Error       { return nil }
func (h *quietHandler) LinkFlow(*Link, *Flow, uint32)            {}
func (h *quietHandler) SessionFlow(*Session)                     {}
func (h *quietHandler) Transfer(*Link, *Transfer, []byte) *Error { h.transfers++; return nil }
func (h *quietHandler) Disposition(*Session, *Disposition)       { h.dispositions++ }
func (h *quietHandler) LinkFailed(*Link, *Error)                 {}
func (h *quietHandler) RemoteDetach(*Link, *Detach)              {}
func (h *quietHandler) RemoteEnd(*Session, *End)                 {}
func (h *quietHandler) RemoteClose(*Close)                       {}

// TestHugeCredit: credit of 2^31 and more is credit, and is given back when drained.
func TestHugeCredit(t *testing.T) {
	for _, credit := range []uint32{2147483647, 2147483648, 4294967295} {
		v, _ := inSession(t)
		out := v.attachReceiver("out", 1)
		v.giveCredit(out, credit)
		for range 3 {
			out.Send(&OutDelivery{}, nil, nil, nil)
			v.wantAny(&Transfer{})
		}
		if out.Credit() != credit-3 {
			t.Errorf("credit %d, want %d", out.Credit(), credit-3)
		}
		v.peer(&Flow{NextIncomingID: Some[uint32](3), IncomingWindow: 9, Handle: Some[uint32](1), DeliveryCount: Some[uint32](2), LinkCredit: Some(credit), Drain: true})
		v.wantEvents(fmt.Sprintf("flow out credit=%d drain=true", credit-1))
		v.want(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2048, NextOutgoingID: 3, OutgoingWindow: unlimited,
			Handle: Some(out.Handle()), DeliveryCount: Some(2 + credit), LinkCredit: Some[uint32](0), Drain: true})
	}
}

// TestHandleFreeAtDetach: a peer may use its handle, and the link's name, again as soon as it has
// sent its detach, as Proton does; ours comes when it comes (part 2 §2.6.4).
func TestHandleFreeAtDetach(t *testing.T) {
	v, s := inSession(t)
	v.manual = true
	attach := func() *Link {
		v.peer(&Attach{Name: "l", Handle: 1, Role: RoleSender})
		v.wantEvents("attach receiver l")
		return v.links["l"]
	}
	first := attach()
	first.Attach(&Attach{})
	v.wantAny(&Attach{})
	v.peer(&Detach{Handle: 1, Closed: true})
	v.wantEvents("detach l closed=true without error")
	second := attach()
	v.peer(&Detach{Handle: 1, Closed: true}) // before we have answered the attach even
	v.wantEvents("detach l closed=true without error")
	third := attach()
	if first == second || second == third {
		t.Fatal("a link came back to life")
	}
	links := 0
	s.Links(func(*Link) { links++ })
	if links != 2 { // the second is known to neither end any more until we attach it
		t.Errorf("%d links", links)
	}

	first.Detach(true, nil)
	v.want(&Detach{Handle: 0, Closed: true})
	second.Attach(&Attach{})
	v.want(&Attach{Name: "l", Handle: 0, Role: RoleReceiver})
	second.Detach(true, nil)
	v.want(&Detach{Handle: 0, Closed: true})
	third.Attach(&Attach{})
	v.want(&Attach{Name: "l", Handle: 0, Role: RoleReceiver})
	v.grant(third, 1)
	v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](0)}, "m")
	v.wantEvents(`transfer l id=0 settled=false "m"`)
	v.sendRefused(0, &Attach{Name: "l", Handle: 2, Role: RoleSender}, ErrCondInvalidField, "link name already attached: l")
}

// TestAfterPeerDetach: a handle that the peer has detached is unknown (CFG R19).
func TestAfterPeerDetach(t *testing.T) {
	for _, p := range []Performative{&Transfer{Handle: 1, DeliveryID: Some[uint32](0)}, &Flow{Handle: Some[uint32](1)}, &Detach{Handle: 1}} {
		v, _ := inSession(t)
		v.manual = true
		v.peer(&Attach{Name: "l", Handle: 1, Role: RoleSender})
		v.links["l"].Attach(&Attach{})
		v.wantAny(&Attach{})
		v.peer(&Detach{Handle: 1})
		v.sendRefused(0, p, ErrCondInvalidField, "no such handle: 1")
	}
}

// TestRenewedByUs: a name that we attach again before the peer has answered our detach is the new
// link's when the old one is forgotten.
func TestRenewedByUs(t *testing.T) {
	v, s := inSession(t)
	first := s.NewLink("l", RoleReceiver)
	first.Attach(&Attach{})
	v.wantAny(&Attach{})
	v.peer(&Attach{Name: "l", Handle: 1, Role: RoleSender})
	v.wantEvents("attach receiver l")
	first.Detach(true, nil)
	v.wantAny(&Detach{})
	second := s.NewLink("l", RoleReceiver)
	second.Attach(&Attach{})
	v.want(&Attach{Name: "l", Handle: 1, Role: RoleReceiver})
	v.peer(&Detach{Handle: 1, Closed: true}, &Attach{Name: "l", Handle: 1, Role: RoleSender})
	v.wantEvents("attach receiver l")
	if v.links["l"] != second || !second.Attached() {
		t.Error("the peer's attach went to the old link")
	}
}

// TestWithoutCreditManyFrames: the frames behind the first of a delivery beyond the credit are
// ignored as it is, whether they repeat its id or not.
func TestWithoutCreditManyFrames(t *testing.T) {
	for _, id := range []Opt[uint32]{{}, Some[uint32](5)} {
		v, _ := inSession(t)
		in := v.attachSender("in", 1, 0)
		other := v.attachSender("other", 2, 0)
		v.grant(other, 1)
		v.peerTransfer(&Transfer{Handle: 1, DeliveryID: Some[uint32](5), More: true}, "a")
		v.wantEvents("failed in amqp:link:transfer-limit-exceeded")
		v.wantAny(&Detach{})
		v.peerTransfer(&Transfer{Handle: 1, DeliveryID: id, More: true}, "b")
		v.peerTransfer(&Transfer{Handle: 1, DeliveryID: id}, "c")
		v.peerTransfer(&Transfer{Handle: 2, DeliveryID: Some[uint32](6)}, "d")
		v.wantEvents(`transfer other id=6 settled=false "d"`)
		in.Detach(true, nil)
		v.wantIdle()
	}
}

// TestWithoutCreditBeforeAttach: a peer that sends right behind its attach gets our attach before
// the detach, whoever is first: the owner to answer or the peer to detach.
func TestWithoutCreditBeforeAttach(t *testing.T) {
	for _, peerFirst := range []bool{false, true} {
		v, s := inSession(t)
		v.attachReceiver("first", 0) // on our handle 0
		v.manual = true
		v.peer(&Attach{Name: "l", Handle: 1, Role: RoleSender})
		l := v.links["l"]
		v.events = nil
		for id := range uint32(3) {
			v.peerTransfer(presettled(1, id), "")
		}
		if peerFirst {
			v.peer(&Detach{Handle: 1, Closed: true})
		}
		v.wantEvents("failed l amqp:link:transfer-limit-exceeded") // once
		v.wantIdle()
		l.Attach(&Attach{})
		l.Grant(250)
		l.Detach(true, nil)
		v.want(&Attach{Name: "l", Handle: 1, Role: RoleReceiver})
		v.want(&Detach{Handle: 1, Closed: true, Error: &Error{Condition: ErrCondTransferLimitExceeded, Description: "transfer without link credit"}})
		v.wantIdle()
		if !peerFirst {
			v.peer(&Detach{Handle: 1, Closed: true})
		}
		v.wantEvents()
		v.wantIdle()
		if len(s.names) != 1 || !slices.Equal(s.free, []uint32{1}) {
			t.Errorf("the link is still known")
		}
	}
}

// TestSendLongState: a state of a delivery that its frame has no room for follows it; the message
// goes as it would without one.
func TestSendLongState(t *testing.T) {
	state := func(n int) Raw {
		return AppendModified(nil, false, true, AppendValue(nil, Map{{Symbol("k"), strings.Repeat("v", n)}}))
	}
	const size = 512
	for _, tt := range []struct {
		state, payload int
		settled        bool
	}{
		{100, 10, false}, {100, size - maxTransferHead, false}, {100, size - maxTransferHead, true},
		{250, size - maxTransferHead, false}, {400, 1, false}, {400, 1, true},
	} {
		v := newTalk(t, testConfig)
		v.open(&Open{ContainerID: "peer", MaxFrameSize: Some[uint32](size)})
		s := v.begin(0, &Begin{IncomingWindow: 1000})
		out := v.attachReceiver("out", 1)
		v.giveCredit(out, 1000)
		for _, whole := range []bool{true, false} {
			d := &OutDelivery{State: state(tt.state), Settled: tt.settled}
			window := s.OutWindow()
			payload := []byte(strings.Repeat("p", tt.payload))
			var id Serial
			if whole {
				id = out.Send(d, payload, nil, nil)
				if s.OutWindow() != window-1 {
					t.Errorf("%+v: Send took %d frames", tt, window-s.OutWindow())
				}
			} else {
				id = out.Start(d)
				out.SendFrames(d, true, true, payload, 1<<20)
			}
			clear(d.State[10:]) // it is the owner's again
			var got Raw
			for more := true; more; {
				p := v.wantAny(&Transfer{}).(*Transfer)
				more = p.More
				got = append(got, p.State...)
			}
			if got == nil && !tt.settled {
				v.wantFrame(0, &Disposition{Role: RoleSender, First: uint32(id), State: state(tt.state)})
			} else if got != nil && string(got) != string(state(tt.state)) {
				t.Errorf("%+v: state %x", tt, got)
			}
			v.wantIdle()
		}
	}
}

// TestLongWordsFitTheFrame: what a peer with larger frames said is cut to what this one can read;
// the condition stays.
func TestLongWordsFitTheFrame(t *testing.T) {
	long := strings.Repeat("ä", 2000)
	info := Raw(AppendValue(nil, Map{{Symbol("k"), long}}))
	short := func(d string) *Error { return &Error{Condition: "x:y", Description: d} }
	v := newTalk(t, testConfig)
	v.open(&Open{ContainerID: "peer"})
	v.c.maxOut = 512
	s := v.begin(0, &Begin{IncomingWindow: 1000})
	in := v.attachSender("in", 1, 0)

	told := func(state Raw) Raw {
		t.Helper()
		s.Dispose(RoleReceiver, 7, 9, true, state)
		d := v.wantAny(&Disposition{}).(*Disposition)
		if d.First != 7 || d.Last != Some[uint32](9) || !d.Settled {
			t.Errorf("told %s", show(d))
		}
		return d.State
	}
	exact := AppendRejected(nil, short(strings.Repeat("d", 300)))
	if got := told(exact); string(got) != string(exact) {
		t.Errorf("what fits was changed: %x", got)
	}
	for _, e := range []*Error{short(long), {Condition: "x:y", Info: info}, {Condition: "x:y", Description: long, Info: info}} {
		got, err := DecodeRejected(told(AppendRejected(nil, e)))
		if err != nil || got.Condition != "x:y" || got.Info != nil || !strings.HasPrefix(e.Description, got.Description) || !utf8.ValidString(got.Description) ||
			e.Description != "" && len(got.Description) < 300 {
			t.Errorf("%.50v was told as %v, %v", e, got, err)
		}
	}
	if got := told(AppendRejected(nil, &Error{Condition: Symbol(long)})); string(got) != string(AppendRejected(nil, nil)) {
		t.Errorf("a long condition was told as %x", got)
	}
	if got := told(AppendModified(nil, true, true, info)); string(got) != string(AppendModified(nil, true, true, nil)) {
		t.Errorf("modified was told as %x", got)
	}
	if got := told(AppendValue(nil, Described{uint64(0x34), List{long}})); got != nil {
		t.Errorf("a state of another kind was told as %x", got)
	}

	e := &Error{Condition: "x:y", Description: long, Info: info}
	in.Detach(true, e)
	s.End(e)
	v.c.Close(e)
	for _, got := range []*Error{v.wantAny(&Detach{}).(*Detach).Error, v.wantAny(&End{}).(*End).Error, v.wantAny(&Close{}).(*Close).Error} {
		if got == nil || got.Condition != "x:y" || got.Info != nil || len(got.Description) < 300 || !strings.HasPrefix(long, got.Description) {
			t.Errorf("told %v", got)
		}
	}
}

// TestAbortWaitsForWindow: the frame that aborts a delivery is a transfer and keeps to the peer's
// window like any other.
func TestAbortWaitsForWindow(t *testing.T) {
	v := opened(t)
	s := v.begin(0, &Begin{IncomingWindow: 3})
	var links []*Link
	d := &OutDelivery{}
	for i := range uint32(3) {
		l := v.attachReceiver(fmt.Sprint("out", i), i)
		links = append(links, l)
		v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 3, Handle: Some(i), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](5)})
		l.Start(d)
		l.SendFrames(d, true, false, []byte("half"), 1<<20)
		v.wantAny(&Transfer{})
		v.events = nil
	}
	for _, l := range links {
		l.Abort(d)
	}
	v.wantIdle()
	v.peer(&Flow{NextIncomingID: Some[uint32](2), IncomingWindow: 2})
	v.want(&Transfer{Handle: links[0].Handle(), Aborted: true})
	v.wantIdle()
	links[1].Detach(true, nil)
	v.wantAny(&Detach{})
	v.peer(&Flow{NextIncomingID: Some[uint32](4), IncomingWindow: 3})
	v.want(&Transfer{Handle: links[2].Handle(), Aborted: true})
	v.wantIdle()
	if s.OutWindow() != 2 {
		t.Errorf("window %d, want 2", s.OutWindow())
	}
	links[0].Send(d, nil, nil, nil)
	v.wantAny(&Transfer{})
}
