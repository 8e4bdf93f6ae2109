package tests

import (
	"fmt"
	"slices"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

// expectFlow checks a flow that the router sent for a link.
func expectFlow(t *testing.T, what string, f *amqp.Flow, count, credit uint32, drain bool) {
	t.Helper()
	if f.DeliveryCount != amqp.Some(count) || f.LinkCredit != amqp.Some(credit) || f.Drain != drain || f.Available.Set {
		t.Errorf("%s: flow with delivery-count %v, link-credit %v, drain %t, available %v, want %d, %d, %t and none",
			what, f.DeliveryCount, f.LinkCredit, f.Drain, f.Available, count, credit, drain)
	}
}

// nextFlow takes the next flow of the link.
func (l *rawLink) nextFlow() *amqp.Flow {
	l.p.t.Helper()
	return l.p.take("flow of the link", l.isFlow).body.(*amqp.Flow)
}

// RT E44: credit at attach.
func TestE44InitialCredit(t *testing.T) {
	tests := []struct {
		name     string
		capacity uint32
		ready    func(t *testing.T, r *rawRouter)
		credit   bool
	}{
		{"nobody", 250, func(*testing.T, *rawRouter) {}, false},
		{"another sender", 250, func(t *testing.T, r *rawRouter) { r.session(t).sender("balanced/q") }, false},
		{"a consumer of another address", 250, func(t *testing.T, r *rawRouter) { r.session(t).receiver("balanced/p", 10) }, false},
		{"a consumer", 250, func(t *testing.T, r *rawRouter) { r.session(t).receiver("balanced/q", 10) }, true},
		{"a consumer without credit", 250, func(t *testing.T, r *rawRouter) { r.session(t).receiver("balanced/q", 0) }, true},
		{"a subscriber in the router", 250, func(t *testing.T, r *rawRouter) {
			t.Cleanup(r.Subscribe("balanced/q", false, func(*router.Request) {}))
		}, true},
		{"little capacity", 3, func(t *testing.T, r *rawRouter) { r.session(t).receiver("balanced/q", 10) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRouter(t, withDistributions(router.Balanced), withCapacity(tt.capacity))
			tt.ready(t, r)
			p := r.session(t)
			l := p.sender("balanced/q")
			if tt.credit {
				expectFlow(t, "at attach", l.nextFlow(), 0, tt.capacity, false)
			}
			r.quiet(t, p)
		})
	}
	t.Run("multicast", func(t *testing.T) { // F41
		r := startRouter(t, withDistributions(router.Balanced))
		p := r.session(t)
		l := p.sender("multicast/q")
		r.quiet(t, p)
		r.session(t).receiver("multicast/q", 0)
		expectFlow(t, "with a consumer", l.nextFlow(), 0, 250, false)
	})
}

// RT E45: the first consumer opens all starved senders.
func TestE45FirstConsumer(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p, q := r.session(t), r.session(t)
	links := []*rawLink{p.sender("q"), p.sender("q"), q.sender("q")}
	other := q.sender("other")
	r.quiet(t, p, q)
	consumer := r.session(t)
	in := consumer.receiver("q", 0)
	for _, l := range links {
		expectFlow(t, "first consumer", l.nextFlow(), 0, 250, false)
	}
	second := consumer.receiver("q", 0)
	r.quiet(t, p, q, consumer) // nothing for the second
	in.detach(true)
	second.detach(true)
	r.quiet(t, p, q, consumer) // E47: and nothing is taken back
	consumer.receiver("q", 0)
	r.quiet(t, p, q, consumer) // nor given on top
	other.detach(true)
	for _, x := range []*rawPeer{p, q, consumer} {
		x.close()
	}
	r.healthy(t, before)
}

// RT E46: credit comes back with the settlement, one for each.
func TestE46Unsettled(t *testing.T) {
	r := startRouter(t, withCapacity(5))
	before := r.counts()
	p, consumer := r.session(t), r.session(t)
	in := consumer.receiver("q", 100)
	l := p.sender("q")
	l.awaitCredit(5)
	l.sendAll(numbered(5), false)
	var got []*rawDelivery
	for range 5 {
		got = append(got, in.receive())
	}
	r.quiet(t, p, consumer)
	in.dispose(got[0].id(), got[0].id(), false, amqp.StateAccepted) // decided, not settled
	if d := take[*amqp.Disposition](p); d.Settled {
		t.Errorf("settled: %+v", d)
	}
	r.quiet(t, p, consumer)
	for i, state := range []amqp.Raw{amqp.StateAccepted, amqp.StateReleased, nil, stateRejected, stateModified} {
		in.settle(got[i], state)
		l.awaitCredit(i + 1)
	}
	p.outcomes(0, 1, 2, 3, 4)
	r.quiet(t, p, consumer)
	p.close()
	consumer.close()
	r.healthy(t, before)
}

var (
	stateRejected = amqp.Raw(amqp.AppendRejected(nil, nil))
	stateModified = amqp.Raw(amqp.AppendModified(nil, false, false, nil))
)

// RT E46: credit of settled deliveries comes back when they have left.
func TestE46Presettled(t *testing.T) {
	r := startRouter(t, withCapacity(5))
	p, consumer := r.session(t), r.session(t)
	in := consumer.receiver("q", 3)
	l := p.sender("q")
	l.awaitCredit(5)
	l.sendAll(numbered(5), true)
	l.awaitCredit(3)
	in.flow(100)
	l.awaitCredit(5)
	if got := in.bodies(5); !slices.Equal(got, numbers(0, 5)) {
		t.Errorf("received %q", got)
	}
	r.quiet(t, p, consumer)
	in.detach(true)
	l.send(rawMessage("nobody"), true) // dropped
	expectFlow(t, "nobody", l.nextFlow(), 6, 4, true)
	l.count += 4 // drained
	l.flow(0)
	r.flush(t, p)
	r.session(t).receiver("q", 10)
	l.awaitCredit(5)
	if i := r.Stats(); i.DroppedPresettled != 1 {
		t.Errorf("%d dropped, want 1", i.DroppedPresettled)
	}
}

// RT E47, E51: what a named sender sees when its consumers leave and come.
func TestE47ConsumerLeaves(t *testing.T) {
	for _, settled := range []bool{false, true} {
		t.Run(fmt.Sprint("settled ", settled), func(t *testing.T) {
			r := startRouter(t)
			before := r.counts()
			p, consumer := r.session(t), r.session(t)
			in := consumer.receiver("q", 10)
			l := p.sender("q")
			l.awaitCredit(250)
			in.detach(true)
			r.quiet(t, p, consumer)
			id := l.send(rawMessage("x"), settled)
			if !settled {
				if got := p.outcomes(id)[id]; got != "released" {
					t.Errorf("outcome %s", got)
				}
			}
			expectFlow(t, "the first nobody wants", l.nextFlow(), 1, 249, true)
			// The sender has three more under way before it drains.
			first := l.sendAll(numbered(3), settled)
			if !settled {
				if got := p.outcomesFrom(first, 3)["released"]; got != 3 {
					t.Errorf("%d released of 3", got)
				}
			}
			r.quiet(t, p, consumer)
			l.count += 246 // drained
			l.flow(0)
			r.quiet(t, p, consumer)
			in = consumer.receiver("q", 1000)
			expectFlow(t, "a consumer again", l.nextFlow(), 250, 250, false)
			last := l.sendAll(numbered(250), settled)
			got := in.bodies(250)
			if !slices.Equal(got, numbers(0, 250)) {
				t.Errorf("received %q", got)
			}
			if !settled {
				in.dispose(0, 249, true, amqp.StateAccepted)
				if got := p.outcomesFrom(last, 250)["accepted"]; got != 250 {
					t.Errorf("%d accepted of 250", got)
				}
			}
			l.awaitCredit(250)
			r.quiet(t, p, consumer)
			if s := r.Stats(); settled && s.DroppedPresettled != 4 {
				t.Errorf("%d dropped, want 4", s.DroppedPresettled)
			}
			p.close()
			consumer.close()
			r.healthy(t, before)
		})
	}
	// A consumer that comes before the sender has answered the drain: there must
	// be no more credit than the capacity, whatever the order.
	t.Run("a consumer while draining", func(t *testing.T) {
		r := startRouter(t)
		before := r.counts()
		p, consumer := r.session(t), r.session(t)
		in := consumer.receiver("q", 10)
		l := p.sender("q")
		l.awaitCredit(250)
		in.detach(true)
		first := l.sendAll(numbered(10), false)
		p.outcomesFrom(first, 10)
		if f := l.nextFlow(); !f.Drain {
			t.Errorf("flow %+v, want a drain", f)
		}
		consumer.receiver("q", 10)
		expectFlow(t, "a consumer again", l.awaitCredit(250), 10, 250, false)
		l.count += 240 // the answer to the drain, late
		l.flow(10)
		l.awaitCredit(250)
		r.flush(t, p)
		r.quiet(t, p)
		p.close()
		consumer.close()
		r.healthy(t, before)
	})
	// All that are under way when the last consumer goes are released, without
	// ever more credit than the capacity.
	t.Run("many rounds", func(t *testing.T) {
		r := startRouter(t, withCapacity(10))
		before := r.counts()
		p, consumer := r.session(t), r.session(t)
		l := p.sender("q")
		for round := range 20 {
			in := consumer.receiver("q", 100)
			l.awaitCredit(10)
			first := l.sendAll(numbered(4), false)
			in.dispose(uint32(0), in.receive().id(), true, amqp.StateAccepted)
			in.detach(true)
			consumer.held = nil // the other three
			got := p.outcomesFrom(first, 4)
			if n := got["accepted"] + got[modifiedFailed] + got["released"]; n != 4 {
				t.Errorf("round %d: outcomes %v", round, got)
			}
			l.awaitCredit(10)
			p.outcomesFrom(l.sendAll(numbered(2), false), 2)
			for !l.nextFlow().Drain {
			}
			r.quiet(t, p, consumer)
			l.count += 8
			l.flow(0)
			r.quiet(t, p, consumer)
		}
		p.close()
		consumer.close()
		r.healthy(t, before)
	})
}

// RT E50: a receiver that drains.
func TestE50ReceiverDrains(t *testing.T) {
	start := func(t *testing.T, credit uint32) (r *rawRouter, p, consumer *rawPeer, l, in *rawLink) {
		r = startRouter(t)
		p, consumer = r.session(t), r.session(t)
		in = consumer.receiver("q", credit)
		l = p.sender("q")
		l.awaitCredit(250)
		return
	}
	drain := func(in *rawLink, credit uint32) {
		in.flowWith(amqp.Flow{LinkCredit: amqp.Some(credit), Drain: true})
	}
	t.Run("nothing queued", func(t *testing.T) {
		r, p, consumer, _, in := start(t, 0)
		drain(in, 10)
		expectFlow(t, "drain", in.nextFlow(), 10, 0, true)
		r.quiet(t, p, consumer)
	})
	t.Run("credit had before", func(t *testing.T) {
		r, p, consumer, _, in := start(t, 7)
		drain(in, 7)
		expectFlow(t, "drain", in.nextFlow(), 7, 0, true)
		r.quiet(t, p, consumer)
	})
	t.Run("less queued than credit", func(t *testing.T) {
		r, p, consumer, l, in := start(t, 0)
		l.sendAll(numbered(3), true)
		r.flush(t, p, consumer)
		drain(in, 10)
		if got := in.bodies(3); !slices.Equal(got, numbers(0, 3)) {
			t.Errorf("received %q", got)
		}
		expectFlow(t, "drain", in.nextFlow(), 10, 0, true)
		r.flush(t, p, consumer)
		p.forgetFlows()
		r.quiet(t, p, consumer)
		// Later the link works as before.
		in.count = 10
		l.sendAll(numbered(2), true)
		r.flush(t, p, consumer)
		if n := in.waiting(); n != 0 {
			t.Errorf("%d transfers without credit", n)
		}
		in.flow(5)
		if got := in.bodies(2); !slices.Equal(got, numbers(0, 2)) {
			t.Errorf("received %q", got)
		}
		l.sendAll(numbered(4), true)
		if got := in.bodies(3); !slices.Equal(got, numbers(0, 3)) {
			t.Errorf("received %q", got)
		}
		r.flush(t, p, consumer)
		if n := in.waiting(); n != 0 {
			t.Errorf("%d transfers more than there was credit for", n)
		}
	})
	t.Run("as much queued as credit", func(t *testing.T) {
		r, p, consumer, l, in := start(t, 0)
		l.sendAll(numbered(5), true)
		r.flush(t, p, consumer)
		drain(in, 3)
		if got := in.bodies(3); !slices.Equal(got, numbers(0, 3)) {
			t.Errorf("received %q", got)
		}
		// With no credit left nothing is to be given back.
		in.flow(2)
		if got := in.bodies(2); !slices.Equal(got, numbers(3, 2)) {
			t.Errorf("received %q", got)
		}
	})
	t.Run("in one breath with the attach", func(t *testing.T) {
		r := startRouter(t)
		p := r.session(t)
		h := p.sessions[0].handles
		p.write(frame(0, &amqp.Attach{Name: "fast", Handle: h, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some("q")}, Target: &amqp.Target{}}),
			frame(0, &amqp.Flow{Handle: amqp.Some(h), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(4)), Drain: true,
				NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 100, OutgoingWindow: 100}))
		a := take[*amqp.Attach](p)
		l := &rawLink{p: p, attach: a}
		expectFlow(t, "drain", l.nextFlow(), 4, 0, true)
		r.quiet(t, p)
	})
	t.Run("twice", func(t *testing.T) {
		r, p, consumer, _, in := start(t, 7)
		drain(in, 7)
		expectFlow(t, "drain", in.nextFlow(), 7, 0, true)
		in.count = 7
		drain(in, 9)
		expectFlow(t, "drain", in.nextFlow(), 16, 0, true)
		r.quiet(t, p, consumer)
	})
	t.Run("while a message streams", func(t *testing.T) {
		r, p, consumer, l, in := start(t, 10)
		payload := data(300_000)
		parts := split(payload, 16000)
		b, _ := l.parts(parts, func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(true) })
		half := len(b) / 2
		p.write(b[:half]...)
		first := in.nextTransfer() // it has begun
		in.p.held = slices.Insert(in.p.held, 0, first)
		in.flowWith(amqp.Flow{DeliveryCount: amqp.Some(uint32(1)), LinkCredit: amqp.Some(uint32(9)), Drain: true})
		p.write(b[half:]...)
		if d := in.receive(); len(d.payload) != len(payload) {
			t.Errorf("%d octets came, want %d", len(d.payload), len(payload))
		}
		expectFlow(t, "drain", in.nextFlow(), 10, 0, true)
		r.flush(t, p, consumer)
		p.forgetFlows()
		r.quiet(t, p, consumer)
	})
}

// RT E52: echo is answered, and available is never told.
func TestE52Echo(t *testing.T) {
	r := startRouter(t)
	p := r.session(t)
	in := p.receiver("q", 5)
	l := p.sender("q")
	expectFlow(t, "at attach", l.nextFlow(), 0, 250, false)
	in.flowWith(amqp.Flow{LinkCredit: amqp.Some(uint32(5)), Echo: true})
	expectFlow(t, "echo of a receiver", in.nextFlow(), 0, 5, false)
	l.flowWith(amqp.Flow{LinkCredit: amqp.Some(uint32(250)), Echo: true})
	expectFlow(t, "echo of a sender", l.nextFlow(), 0, 250, false)
	f := &amqp.Flow{Echo: true}
	p.sessions[0].fill(f)
	p.send(0, f)
	p.take("flow of the session", func(f rawFrame) bool {
		fl, ok := f.body.(*amqp.Flow)
		return ok && !fl.Handle.Set && !fl.Available.Set && !fl.Echo
	})
	r.quiet(t, p)
}

// RT E53, AMQP 1.0 part 2 §2.6.7: credit is what the receiver says, counted
// from its delivery-count.
func TestE53CreditOfReceivers(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p, consumer := r.session(t), r.session(t)
	in := consumer.receiver("q", 10)
	l := p.sender("q")
	l.awaitCredit(250)
	in.flow(2) // less than before
	consumer.barrier()
	l.sendAll(numbered(20), true)
	r.flush(t, p, consumer)
	if n := in.waiting(); n != 2 {
		t.Fatalf("%d transfers for a credit of 2", n)
	}
	// A flow from before those two: credit for 5 counted from the first.
	in.flowWith(amqp.Flow{DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(5))})
	r.flush(t, p, consumer)
	if n := in.waiting(); n != 5 {
		t.Fatalf("%d transfers, want 5", n)
	}
	in.flow(0)
	r.flush(t, p, consumer)
	in.flowWith(amqp.Flow{DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(3))}) // negative by now
	r.flush(t, p, consumer)
	if n := in.waiting(); n != 5 {
		t.Fatalf("%d transfers, want still 5", n)
	}
	in.flow(0x7fffffff)
	if got := in.bodies(20); !slices.Equal(got, numbers(0, 20)) {
		t.Errorf("received %q", got)
	}
	p.close()
	consumer.close()
	r.healthy(t, before)
}

// Credit beyond 2^31 is as good as 2^31-1 (serial numbers reach no further).
func TestE53HugeCredit(t *testing.T) {
	for _, credit := range []uint32{1 << 31, 1<<32 - 1} {
		t.Run(fmt.Sprint(credit), func(t *testing.T) {
			r := startRouter(t)
			p := r.session(t)
			in := p.receiver("q", credit)
			l := p.sender("q")
			l.awaitCredit(250)
			l.sendAll(numbered(5), true)
			if got := in.bodies(5); !slices.Equal(got, numbers(0, 5)) {
				t.Errorf("received %q", got)
			}
		})
	}
}

// AMQP 1.0 part 2 §2.8.8 to §2.8.10: transfer ids, delivery ids and delivery
// counts that wrap.
func TestSerialNumbersWrap(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p, consumer := r.open(t), r.session(t)
	p.beginWith(0, &amqp.Begin{NextOutgoingID: 0xfffffffc, IncomingWindow: 100, OutgoingWindow: 100})
	p.sessions[0].nextDelivery = 0xfffffffd
	in := consumer.receiver("q", 100)
	l := p.attachSender(0, &amqp.Attach{Target: &amqp.Target{Address: amqp.Some("q")}, InitialDeliveryCount: amqp.Some(uint32(0xfffffffe))})
	expectFlow(t, "at attach", l.nextFlow(), 0xfffffffe, 250, false)
	for i := range 10 {
		id := l.send(rawMessage(fmt.Sprint(i)), false)
		d := in.receive()
		if d.body() != fmt.Sprint(i) {
			t.Errorf("received %q, want %d", d.body(), i)
		}
		in.settle(d, amqp.StateAccepted)
		if got := p.outcomes(id)[id]; got != "accepted" {
			t.Errorf("outcome of %#x is %s", id, got)
		}
		l.awaitCredit(250)
	}
	// And ranges over the edge.
	p2 := r.open(t)
	p2.beginWith(0, &amqp.Begin{NextOutgoingID: 0xffffffff, IncomingWindow: 100, OutgoingWindow: 100})
	p2.sessions[0].nextDelivery = 0xfffffffa
	l2 := p2.sender("q")
	l2.awaitCredit(250)
	first := l2.sendAll(numbered(20), false)
	if got := in.bodies(20); !slices.Equal(got, numbers(0, 20)) {
		t.Errorf("received %q", got)
	}
	in.dispose(10, 29, true, amqp.StateReleased)
	if got := p2.outcomesFrom(first, 20)["released"]; got != 20 {
		t.Errorf("%d released, want 20", got)
	}
	l2.awaitCredit(250)
	first = l2.sendAll(numbered(5), false)
	in.bodies(5)
	l2.dispose(first, first+4, true, nil)
	l2.awaitCredit(250)
	for _, x := range []*rawPeer{p, p2, consumer} {
		x.close()
	}
	r.healthy(t, before)
}
