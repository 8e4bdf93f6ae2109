package router

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"qdrouter/amqp"
)

// The tests of this file force the orders of events that the architecture names as hazards of two
// planes. TestStress looks for those that nobody thought of.

// pause lets other goroutines come as far as they can.
func pause() {
	for range 1000 {
		runtime.Gosched()
	}
}

// TestLinkGoneBeforeThePost: a delivery is posted to a link that has gone after it was chosen.
func TestLinkGoneBeforeThePost(t *testing.T) {
	for _, length := range []int{10, 200000} {
		for _, settled := range []bool{false, true} {
			g := newRig(t, nil)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", 10)
			s := a.sender("q")
			out := r.out()
			x := s.transfer(&amqp.OutDelivery{Settled: settled}, bigMessage(length))
			b.c.mu.Lock()
			done := make(chan struct{})
			go func() { a.pump(); close(done) }() // chooses the link and waits for the lock
			eventually(t, "the delivery", func() bool { return a.c.lastDelivery.Load() != 0 })
			pause()
			batch := g.r.newBatch()
			b.c.closeOut(out, batch) // as the reader does with a detach
			b.c.mu.Unlock()
			batch.run()
			batch.done()
			<-done
			g.run()
			if !settled {
				if said := x.said; len(said) == 0 || said[len(said)-1] != "released settled" {
					t.Errorf("%d octets: the sender heard %q", length, said)
				}
			}
			s.wantCredit(t, 250, false)
			if n := out.load.Load(); n != 0 || s.in().sess.held.Load() != 0 {
				t.Errorf("%d octets: load %d, held %d", length, n, s.in().sess.held.Load())
			}
			if len(r.got) != 0 {
				t.Errorf("it was delivered: %+v", r.got)
			}
		}
	}
}

// TestConsumerArrivesWhileWithholding: a delivery has found nobody, and before its credit is
// withheld there is a consumer.
func TestConsumerArrivesWhileWithholding(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 1)
	in := a.sender("q").in()
	r.close()
	batch := g.r.newBatch()
	a.c.mu.Lock()
	d := a.c.newDelivery(in, 0, 0)
	a.c.mu.Unlock()
	out := in.l.CreditOut()
	a.c.noPath(&message{in: in, d: d}, batch)
	b.receiver("q", 1)
	batch.run()
	batch.done()
	g.run()
	if in.withheld || in.pending != 0 || in.l.Draining || in.l.CreditOut() != out+1 {
		t.Errorf("withheld %v, pending %d, draining %v, credit %d, had %d", in.withheld, in.pending, in.l.Draining, in.l.CreditOut(), out)
	}
}

// TestConsumerArrivesBeforeReopening: the core has published the first consumer, and waits for
// the lock to give withheld credit, when a delivery's credit is about to be withheld.
func TestConsumerArrivesBeforeReopening(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 1)
	s := a.sender("q")
	r.close()
	s.send("1")
	g.run()
	in := s.in()
	before := in.l.CreditOut() + in.pending
	if !in.withheld {
		t.Fatal("nothing is withheld")
	}
	a.c.mu.Lock()
	b.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("q")}})
	b.eng.Prepare()
	b.in = append(b.in, b.eng.Out...)
	b.eng.Out = b.eng.Out[:0]
	fed := make(chan struct{})
	go func() { defer close(fed); b.feed() }()
	eventually(t, "the consumer", func() bool { return in.addr.Load().reachable() })
	pause()
	in.withholdLocked(1) // by the outcome of a delivery before
	a.c.mu.Unlock()
	<-fed
	g.run()
	if in.withheld || in.pending != 0 || in.l.Draining || in.l.CreditOut() != before+1 {
		t.Errorf("withheld %v, pending %d, draining %v, credit %d, want %d", in.withheld, in.pending, in.l.Draining, in.l.CreditOut(), before+1)
	}
	s.wantCredit(t, before+1, false)
}

// eager makes a peer settle each delivery while the router is still writing it: no settlement
// can come sooner. It may do so without settling, to be settled by the test.
func (p *peer) eager(state amqp.Raw, settled bool) {
	told := 0
	p.w.sink = func([]byte) {}
	p.w.hook = func(out []byte) {
		p.hear(out)
		for _, e := range p.ends {
			for _, d := range e.got {
				if !d.settled && !d.aborted && d.said == nil {
					e.l.Session.Dispose(amqp.RoleReceiver, d.id, d.id, settled, state)
					d.said = []string{"settled"}
					told++
				}
			}
		}
		p.eng.Prepare()
		p.in = append(p.in, p.eng.Out...)
		p.eng.Out = p.eng.Out[:0]
		p.feed()
	}
}

// TestSettlementAtOnce: settlements that arrive before the write of the transfer has returned
// find the record of their delivery.
func TestSettlementAtOnce(t *testing.T) {
	for _, length := range []int{10, 20000, 300000} {
		g := newRig(t, nil)
		a, b := g.peer(nil), g.peer(nil)
		r := b.receiver("q", 100)
		s := a.sender("q")
		b.eager(stateRejected, true)
		var all []*sent
		for range 20 {
			all = append(all, s.transfer(&amqp.OutDelivery{}, bigMessage(length)))
		}
		g.run()
		g.run()
		for _, x := range all {
			if n := len(x.said); n == 0 || x.said[n-1] != `rejected app:bad "no good" settled` {
				t.Fatalf("%d octets: the sender heard %q", length, x.said)
			}
		}
		s.wantCredit(t, 250, false)
		if n := r.out().load.Load(); n != 0 || r.info().Unsettled != 0 || len(r.bodies()) != 20 {
			t.Errorf("%d octets: load %d, %d unsettled, %d received", length, n, r.info().Unsettled, len(r.bodies()))
		}
	}
}

// TestMulticastSettlementAtOnce: the outcome waits for the last copy, though the first is settled
// before the others are posted; each order of the strengths gives the strongest.
func TestMulticastSettlementAtOnce(t *testing.T) {
	states := []amqp.Raw{amqp.StateReleased, stateModified, amqp.StateAccepted, stateRejected}
	for mask := range 16 {
		for _, length := range []int{10, 300000} {
			g := newRig(t, nil, multi)
			a := g.peer(nil)
			var late []*end
			for i, state := range states {
				p := g.peer(nil)
				r := p.receiver("multi", 100)
				if mask&(1<<i) != 0 {
					p.eager(state, true)
				} else {
					late = append(late, r)
				}
			}
			s := a.sender("multi")
			x := s.transfer(&amqp.OutDelivery{}, bigMessage(length))
			g.run()
			for _, r := range late {
				wantSaid(t, []*sent{x})
				i := slices.IndexFunc(g.peers, func(p *peer) bool { return p == r.p }) - 1
				r.say(0, 0, states[i], true)
			}
			if n := len(x.said); n == 0 || x.said[n-1] != "rejected settled" || n > 2 {
				t.Errorf("mask %b, %d octets: the sender heard %q", mask, length, x.said)
			}
			s.wantCredit(t, 250, false)
		}
	}
}

// TestBothEndsSettle: sender and receiver settle a delivery at once, each with its word still on
// the way when the other's arrives.
func TestBothEndsSettle(t *testing.T) {
	for _, cfg := range []AddressConfig{{Prefix: "x", Priority: -1}, {Prefix: "q", Distribution: Multicast, Priority: -1}} {
		for _, first := range []string{"sender", "receiver"} {
			g := newRig(t, nil, cfg)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", 10)
			s := a.sender("q")
			x := s.send("1")
			g.run()
			say := func(p *peer, sess *session, role amqp.Role, id amqp.Serial) *batch {
				p.c.b = g.r.newBatch()
				p.c.mu.Lock()
				engine{p.c}.Disposition(sess.s, &amqp.Disposition{Role: role, First: uint32(id), Settled: true, State: amqp.StateAccepted})
				p.c.mu.Unlock()
				batch := p.c.b
				p.c.b = nil
				return batch
			}
			batches := []*batch{
				say(a, s.in().sess, amqp.RoleSender, x.id),
				say(b, r.out().sess, amqp.RoleReceiver, r.got[0].id),
			}
			if first == "receiver" {
				slices.Reverse(batches)
			}
			for _, x := range batches {
				x.run()
				x.done()
			}
			g.run()
			s.wantCredit(t, 250, false)
			if n := r.out().load.Load(); n != 0 || s.info().Unsettled != 0 || r.info().Unsettled != 0 {
				t.Errorf("%s first: load %d, in %+v, out %+v", first, n, s.info(), r.info())
			}
			y := s.send("2")
			g.run()
			r.say(1, 1, amqp.StateReleased, true)
			wantSaid(t, []*sent{y}, "released settled")
		}
	}
}

// TestMulticastDecidedAndSettled: one copy is decided and another settled at once, whichever is
// noted first.
func TestMulticastDecidedAndSettled(t *testing.T) {
	for order := range 2 {
		g := newRig(t, nil, multi)
		a := g.peer(nil)
		list := g.receivers(2, "multi", 10)
		s := a.sender("multi")
		x := s.send("1")
		g.run()
		list[0].say(0, 0, amqp.StateAccepted, false)
		say := func(r *end, state amqp.Raw, settled bool) *batch {
			p := r.p
			p.c.b = g.r.newBatch()
			p.c.mu.Lock()
			engine{p.c}.Disposition(r.out().sess.s, &amqp.Disposition{Role: amqp.RoleReceiver, First: uint32(r.got[0].id), Settled: settled, State: state})
			p.c.mu.Unlock()
			batch := p.c.b
			p.c.b = nil
			return batch
		}
		// The second decides the delivery, and before that is told the first settles.
		batches := []*batch{say(list[1], amqp.StateReleased, true), say(list[0], nil, true)}
		if order == 1 {
			slices.Reverse(batches)
		}
		for _, x := range batches {
			x.run()
			x.done()
		}
		g.run()
		if n := len(x.said); n == 0 || x.said[n-1] != "accepted settled" || n > 2 {
			t.Errorf("order %d: the sender heard %q", order, x.said)
		}
		s.wantCredit(t, 250, false)
	}
}

// TestWritersOfFullSockets: two connections send to each other while both sockets are full, and
// neither waits for the other (architecture: two connections wait for each other).
func TestWritersOfFullSockets(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	ra, rb := a.receiver("a", 200), b.receiver("b", 200)
	sa, sb := a.sender("b"), b.sender("a")
	a.w.fill(100)
	b.w.fill(100)
	var all []*sent
	for i := range 100 {
		all = append(all, sa.send(fmt.Sprint(i)), sb.send(fmt.Sprint(i)))
	}
	g.run()
	a.w.open()
	b.w.open()
	a.settleWriter()
	b.settleWriter()
	g.run()
	if len(ra.got) != 100 || len(rb.got) != 100 {
		t.Fatalf("got %d and %d", len(ra.got), len(rb.got))
	}
	ra.say(0, 99, amqp.StateAccepted, true)
	rb.say(0, 99, amqp.StateAccepted, true)
	wantSaid(t, all, "accepted settled")
}

// TestHoldWhileDrained: what a session has waiting drains away just as its reader decides to hold
// the session's window; it must not stay held with nobody to resume it.
func TestHoldWhileDrained(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	a.receiver("q", 10)
	in := a.sender("q").in()
	sess := in.sess
	c := a.c
	c.Begin()
	defer c.End()
	c.b.links = append(c.b.links, in)
	sess.held.Store(heldHigh + 1)
	c.mu.Lock() // by somebody who drains a link of this connection
	done := make(chan struct{})
	go func() { c.renewWindows(); close(done) }()
	pause()
	sess.held.Store(0)
	b := g.r.newBatch()
	if sess.holding.Load() { // as stream.release has it
		b.resume(sess)
	}
	if len(b.pending) > 0 { // and batch.run, which got the lock first
		if sess.holding.CompareAndSwap(true, false) {
			sess.s.Hold = false
			sess.s.FlowDue()
		}
	}
	c.mu.Unlock()
	<-done
	if sess.holding.Load() || sess.s.Hold {
		t.Errorf("nothing waits, and holding is %v, Hold %v", sess.holding.Load(), sess.s.Hold)
	}
}

// TestHerd: readers that choose at the same time do not all take the same consumer (architecture:
// readers herd onto the same least-loaded consumer).
func TestHerd(t *testing.T) {
	const senders, messages = 8, 100
	g := newRig(t, nil)
	list := g.receivers(4, "q", 1000)
	var ends []*end
	for range senders {
		ends = append(ends, g.peer(nil).sender("q"))
	}
	var wg sync.WaitGroup
	for _, s := range ends {
		s.sendN(messages)
		s.p.read = 150 // a few messages
	}
	for _, s := range ends {
		wg.Go(func() { s.p.pump() })
	}
	wg.Wait()
	var loads []int32
	var sum int32
	for _, r := range list {
		n := r.out().load.Load()
		loads = append(loads, n)
		sum += n
	}
	// A reader that was interrupted between choice and reservation may be one behind.
	if sum != senders*messages || slices.Max(loads)-slices.Min(loads) > 2*senders {
		t.Errorf("loads %v", loads)
	}
	g.run()
	for _, r := range list {
		r.say(0, len(r.got)-1, amqp.StateAccepted, true)
		if n := r.out().load.Load(); n != 0 {
			t.Errorf("load %d is left", n)
		}
	}
}

// TestCoreBusy: a reader that finds the core busy leaves what it met to it, in a form that
// outlives the read, and is not kept waiting; and nobody forgets it.
func TestCoreBusy(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	g.r.coreMu.Lock()
	for _, p := range []*peer{a, b} {
		p.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{
			Address: amqp.Some("q"), Capabilities: amqp.AppendValue(nil, amqp.Symbol("qd.waypoint.2"))}})
		p.eng.Prepare()
		p.in = append(p.in, p.eng.Out...)
		p.eng.Out = p.eng.Out[:0]
		read := p.in
		p.feed() // would wait for ever if it waited
		for i := range read {
			read[i] = 0xff
		}
	}
	g.r.coreMu.Unlock()
	g.run()
	if addr := g.r.lookup("M1q"); addr == nil || len(addr.fwd.Load().outs) != 2 {
		t.Errorf("address %+v, want one with two consumers", addr)
	}
}

// TestCoreForOneAnother: events of readers that find another at the core are handled when it has
// done, by whoever it is.
func TestCoreForOneAnother(t *testing.T) {
	g := newRig(t, nil)
	const conns, links = 8, 50
	var peers []*peer
	for range conns {
		p := g.peer(nil)
		peers = append(peers, p)
		for i := range links {
			p.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some(fmt.Sprint("a", i))}})
		}
		p.eng.Prepare()
		p.in = append(p.in, p.eng.Out...)
		p.eng.Out = p.eng.Out[:0]
		p.read = 300 // a few attaches at a time
	}
	var reading sync.WaitGroup
	for _, p := range peers {
		reading.Go(p.feed)
	}
	reading.Wait()
	for i := range links {
		key := mobileKey('0', fmt.Sprint("a", i))
		eventually(t, fmt.Sprintf("the consumers of %s", key), func() bool {
			addr := g.r.lookup(key)
			return addr != nil && len(addr.fwd.Load().outs) == conns
		})
	}
	g.run()
}
