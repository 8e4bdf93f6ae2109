package router

import (
	"fmt"
	"testing"

	"qdrouter/amqp"
)

// lastFlow is the router's latest flow for a link.
func (e *end) lastFlow(t *testing.T) amqp.Flow {
	t.Helper()
	if len(e.flows) == 0 {
		t.Fatal("no flow for the link")
	}
	return e.flows[len(e.flows)-1]
}

func (e *end) wantCredit(t *testing.T, credit uint32, drain bool) {
	t.Helper()
	got, gotDrain := e.l.Credit(), false
	if len(e.flows) > 0 {
		gotDrain = e.lastFlow(t).Drain
	}
	if got != credit || gotDrain != drain {
		t.Errorf("the sender has credit %d, drain %v, want %d, %v", got, gotDrain, credit, drain)
	}
}

// TestInitialCredit: a sender gets the capacity of its connection at attach when somebody takes
// its messages or it is anonymous, and otherwise no flow at all until somebody does (RT E44,
// E45).
func TestInitialCredit(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Prefix: "multi", Distribution: Multicast, Priority: -1})
	a, b := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 7 }), g.peer(nil)
	a.sender("").wantCredit(t, 7, false)
	for _, address := range []string{"q", "multi.x"} {
		s1, s2 := a.sender(address), b.sender(address)
		if len(s1.flows) != 0 || len(s2.flows) != 0 {
			t.Errorf("%s: credit for nobody: %v %v", address, s1.flows, s2.flows)
		}
		r := b.receiver(address, 0)
		s1.wantCredit(t, 7, false)
		s2.wantCredit(t, 250, false)
		if len(s1.flows) != 1 {
			t.Errorf("%s: %d flows for one grant", address, len(s1.flows))
		}
		a.sender(address).wantCredit(t, 7, false)
		r2 := a.receiver(address, 0)
		r.close()
		r2.close()
		s1.wantCredit(t, 7, false) // not taken back (E47)
		if len(s1.flows) != 1 {
			t.Errorf("%s: %d flows where nothing changed", address, len(s1.flows))
		}
	}
	cancel := g.r.Subscribe("inside", false, func(q *Request) { q.Settle(amqp.StateAccepted) })
	a.sender("inside").wantCredit(t, 7, false)
	cancel()
}

// TestCreditReturns: an unsettled delivery keeps its credit until it is settled, a settled one
// until it has left (RT E46).
func TestCreditReturns(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 3)
	s := a.sender("q")
	var all []*sent
	for i := range 5 {
		all = append(all, s.send(fmt.Sprint(i)))
	}
	g.run()
	wantBodies(t, r, "0", "1", "2")
	s.wantCredit(t, 245, false)
	r.say(0, 0, amqp.StateAccepted, false)
	s.wantCredit(t, 245, false)
	r.say(0, 1, amqp.StateAccepted, true)
	s.wantCredit(t, 247, false)
	r.grant(2)
	r.say(2, 4, amqp.StateAccepted, true)
	s.wantCredit(t, 250, false)
	wantSaid(t, all[:1], "accepted", "accepted settled")
	wantSaid(t, all[1:], "accepted settled")

	r.grant(1)
	s.sendSettled("6")
	s.sendSettled("7")
	g.run()
	wantBodies(t, r, "0", "1", "2", "3", "4", "6")
	s.wantCredit(t, 249, false)
	r.grant(1)
	wantBodies(t, r, "0", "1", "2", "3", "4", "6", "7")
	s.wantCredit(t, 250, false)
}

// TestCreditWithheld: when the last consumer has gone the next delivery is released, the sender
// drained and its credit held back until there is a consumer again (RT E47, E51).
func TestCreditWithheld(t *testing.T) {
	for _, settled := range []bool{false, true} {
		g := newRig(t, nil)
		a, b := g.peer(nil), g.peer(nil)
		b.receiver("q", 10).close()
		r := b.receiver("q", 10)
		s := a.sender("q")
		r.close()
		s.wantCredit(t, 250, false)

		x := s.transfer(&amqp.OutDelivery{Settled: settled}, plain("1"))
		g.run()
		s.wantCredit(t, 249, true)
		y := s.transfer(&amqp.OutDelivery{Settled: settled}, plain("2")) // before it takes notice of the drain
		g.run()
		s.wantCredit(t, 248, true)
		if !settled {
			wantSaid(t, []*sent{x, y}, "released settled")
		}
		s.l.Drained()
		g.run()
		s.wantCredit(t, 0, true)
		if in := s.in(); in.pending != 250 || in.l.CreditOut() != 0 {
			t.Errorf("pending %d, out %d, want 250 and 0", in.pending, in.l.CreditOut())
		}

		r = b.receiver("q", 10)
		s.wantCredit(t, 250, false)
		x = s.transfer(&amqp.OutDelivery{Settled: settled}, plain("3"))
		g.run()
		wantBodies(t, r, "3")
		if !settled {
			r.say(0, 0, amqp.StateAccepted, true)
			wantSaid(t, []*sent{x}, "accepted settled")
		}
		s.wantCredit(t, 250, false)
		i := s.info()
		if settled && (i.DroppedPresettled != 2 || i.Presettled != 3) || !settled && (i.Released != 2 || i.Accepted != 1) || i.Deliveries != 3 {
			t.Errorf("settled %v: counts %+v", settled, i)
		}
	}
}

// TestSessionEndedByDrain: a peer that answers a drain by ending the session with an error, as RabbitMQ 3.10
// does, is not told to drain again. It may use up what credit it has; the rest is kept until
// there is a consumer.
func TestSessionEndedByDrain(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	first := b.receiver("q", 10)
	s := a.sender("q")
	first.close()
	s.transfer(&amqp.OutDelivery{}, plain("1"))
	g.run()
	s.wantCredit(t, 249, true)
	s.l.Session.End(&amqp.Error{Condition: amqp.ErrCondInternalError})
	g.run()

	session, err := a.eng.Begin()
	if err != nil {
		t.Fatal(err)
	}
	a.s = session
	second := b.receiver("q", 10)
	s = a.sender("q")
	second.close()
	x := s.transfer(&amqp.OutDelivery{}, plain("2"))
	g.run()
	s.wantCredit(t, 249, false)
	wantSaid(t, []*sent{x}, "released settled")
	b.receiver("q", 10)
	s.wantCredit(t, 250, false)
}

// TestReopenedBeforeDrained: a consumer comes back while the drain is on its way to the sender;
// no credit is lost.
func TestReopenedBeforeDrained(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 10)
	s := a.sender("q")
	r.close()
	s.send("1")
	g.run()
	s.wantCredit(t, 249, true)
	r = b.receiver("q", 10)
	s.wantCredit(t, 250, false)
	s.l.Drained() // the answer to the flow before the last
	g.run()
	s.wantCredit(t, 250, false)
	s.send("2")
	g.run()
	wantBodies(t, r, "2")
}

// TestAnonymousCredit: an anonymous sender keeps its credit whatever becomes of its messages
// (RT E48, E58, F41).
func TestAnonymousCredit(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	s := a.sender("")
	list := []*sent{
		s.transfer(&amqp.OutDelivery{}, addressed("nobody", "1")),
		s.transfer(&amqp.OutDelivery{}, plain("2")),
		s.transfer(&amqp.OutDelivery{}, nil),
	}
	s.transfer(&amqp.OutDelivery{Settled: true}, addressed("nobody", "3"))
	g.run()
	wantSaid(t, list[:1], "released settled")
	wantSaid(t, list[1:2], `rejected amqp:precondition-failed "Routing failure: no address present" settled`)
	wantSaid(t, list[2:], `rejected amqp:decode-error "invalid message format" settled`)
	s.wantCredit(t, 250, false)
}

// TestUnavailable: messages and links to what the configuration makes unavailable (RT E19, E30,
// E60).
func TestUnavailable(t *testing.T) {
	g := newRig(t, func(o *Options) { o.DefaultDistribution = Unavailable },
		AddressConfig{Prefix: "q", Priority: -1})
	a := g.peer(nil)
	for _, role := range []amqp.Role{amqp.RoleSender, amqp.RoleReceiver} {
		e := a.attach(role, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("x")}, Target: target("x")})
		g.run()
		if e.detach == nil || !e.detach.Closed || e.detach.Error == nil || e.detach.Error.Condition != amqp.ErrCondNotFound || e.detach.Error.Description != "Node not found" {
			t.Fatalf("%v: detach %+v", role, e.detach)
		}
		if role == amqp.RoleSender && (e.answer.Target != nil || e.answer.Source == nil) || role == amqp.RoleReceiver && (e.answer.Source != nil || e.answer.Target == nil) {
			t.Errorf("%v: answer %+v", role, e.answer)
		}
	}
	s := a.sender("")
	x := s.transfer(&amqp.OutDelivery{}, addressed("x", "1"))
	g.run()
	wantSaid(t, []*sent{x}, `rejected amqp:not-found "Deliveries cannot be sent to an unavailable address" settled`)
	s.wantCredit(t, 250, false)
	x = s.transfer(&amqp.OutDelivery{}, addressed("q", "1"))
	g.run()
	wantSaid(t, []*sent{x}, "released settled")
	cancel := g.r.Subscribe("x", false, func(q *Request) { q.Settle(amqp.StateAccepted) }) // an entry that is there
	defer cancel()
	a.sender("x").wantCredit(t, 250, false)
}

// TestDrain: a receiver that drains gets what its credit covers, then the flow that gives the
// rest back; afterwards the link works as before (RT E50).
func TestDrain(t *testing.T) {
	tests := []struct {
		name           string
		queued, credit uint32
		want           int
	}{
		{"nothing queued", 0, 5, 0},
		{"some queued", 3, 5, 3},
		{"more queued", 5, 3, 3},
		{"as much queued", 3, 3, 3},
		{"no credit", 3, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, nil)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", 0)
			s := a.sender("q")
			for i := range tt.queued {
				s.send(fmt.Sprint(i))
			}
			g.run()
			r.flows = nil
			r.l.Draining = true
			r.l.Grant(tt.credit)
			g.run()
			if n := len(r.bodies()); n != tt.want {
				t.Errorf("got %d deliveries, want %d", n, tt.want)
			}
			f := r.lastFlow(t)
			if !f.Drain || f.LinkCredit.V != 0 || f.DeliveryCount.V != tt.credit {
				t.Errorf("the drain ends with %+v, want credit 0 at delivery-count %d", f, tt.credit)
			}
			if r.l.CreditOut() != 0 {
				t.Errorf("credit %d is left", r.l.CreditOut())
			}
			r.l.Draining = false
			r.grant(10)
			if n := len(r.bodies()); n != int(tt.queued) {
				t.Errorf("got %d deliveries in the end, want %d", n, tt.queued)
			}
			s.send("after")
			g.run()
			if n := len(r.bodies()); n != int(tt.queued)+1 {
				t.Errorf("got %d deliveries, want one more than %d", n, tt.queued)
			}
		})
	}
}

// TestDrainAtAttach: credit and drain may come before the router has answered the attach.
func TestDrainAtAttach(t *testing.T) {
	g := newRig(t, nil)
	b := g.peer(nil)
	e := b.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("q")}})
	e.l.Draining = true
	e.l.Grant(5)
	g.run()
	if f := e.lastFlow(t); !f.Drain || f.LinkCredit.V != 0 || f.DeliveryCount.V != 5 {
		t.Errorf("flow %+v", f)
	}
}

// TestLessCredit: a receiver may take credit back (RT E53).
func TestLessCredit(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 10)
	s := a.sender("q")
	s.send("1")
	g.run()
	b.eng.Out = amqp.AppendFlowFrame(b.eng.Out, 0, &amqp.Flow{
		NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 1000, OutgoingWindow: 1000,
		Handle: amqp.Some(r.l.Handle()), DeliveryCount: amqp.Some(uint32(1)), LinkCredit: amqp.Some(uint32(1))})
	g.run()
	for _, body := range []string{"2", "3", "4"} {
		s.send(body)
	}
	g.run()
	wantBodies(t, r, "1", "2")
	if i := r.info(); i.CreditAvailable != 0 || i.Undelivered != 2 {
		t.Errorf("%d undelivered, credit %d", i.Undelivered, i.CreditAvailable)
	}
}

// TestEcho: a flow that asks for an answer gets one, for the link or the session (RT E52).
func TestEcho(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	r, s := a.receiver("q", 3), a.sender("q")
	for _, e := range []*end{r, s} {
		e.flows = nil
		f := amqp.Flow{NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 1000, OutgoingWindow: 1000, Handle: amqp.Some(e.l.Handle()), Echo: true}
		if e == r {
			f.DeliveryCount, f.LinkCredit = amqp.Some(uint32(0)), amqp.Some(uint32(3))
		} else {
			f.DeliveryCount = amqp.Some(uint32(0))
		}
		a.eng.Out = amqp.AppendFlowFrame(a.eng.Out, 0, &f)
		g.run()
		if len(e.flows) != 1 || e.flows[0].LinkCredit.V != map[*end]uint32{r: 3, s: 250}[e] {
			t.Errorf("answered with %+v", e.flows)
		}
	}
}
