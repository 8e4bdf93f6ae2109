package router

import (
	"fmt"
	"testing"

	"qdrouter/amqp"
)

// stall lets the time go by after which a link without credit counts as stalled.
func (p *peer) stall() {
	p.c.payOwing(p.g.r.now() + stallAfter + 1)
	p.g.run()
}

// TestSettledOverload: settled deliveries for a consumer that is merely behind keep their
// sender's credit; once it has been without credit for a while the credit goes back, and when
// the queue reaches the capacity all settled ones but the head make way for the new one (RT
// F93). Unsettled ones never do (RT F94).
func TestSettledOverload(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 20 })
	b := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 10 })
	r := b.receiver("q", 0)
	s := a.sender("q")
	for i := range 8 {
		s.sendSettled(fmt.Sprint(i))
	}
	x := s.send("unsettled")
	g.run()
	s.wantCredit(t, 11, false)
	b.stall()
	s.wantCredit(t, 19, false)
	if i := r.info(); i.Undelivered != 9 || i.DroppedPresettled != 0 {
		t.Fatalf("after the stall: %+v", i)
	}
	s.sendSettled("9")
	s.sendSettled("10") // the eleventh: 1 to 7 and 9 are dropped
	g.run()
	s.wantCredit(t, 19, false)
	if i := r.info(); i.Undelivered != 3 || i.DroppedPresettled != 8 {
		t.Errorf("at the bound: %+v", i)
	}
	for i := range 100 {
		s.sendSettled(fmt.Sprint("flood", i))
		g.run()
		if n := r.info().Undelivered; n > 10 {
			t.Fatalf("%d in the queue", n)
		}
	}
	i := r.info()
	if i.DroppedPresettled+i.Undelivered != 111 || g.r.Stats().DroppedPresettled != i.DroppedPresettled {
		t.Errorf("counts %+v, router %+v", i, g.r.Stats())
	}
	if n := r.out().load.Load(); n != int32(i.Undelivered) {
		t.Errorf("load %d, %d in the queue", n, i.Undelivered)
	}
	r.grant(100) // the stall is over
	bodies := r.bodies()
	if len(bodies) != int(i.Undelivered) || bodies[0] != "0" || bodies[1] != "unsettled" || bodies[len(bodies)-1] != "flood99" {
		t.Errorf("got %q", bodies)
	}
	r.say(1, 1, amqp.StateAccepted, true)
	wantSaid(t, []*sent{x}, "accepted settled")
	s.wantCredit(t, 20, false)
	if n := r.out().load.Load(); n != 0 {
		t.Errorf("load %d is left", n)
	}
}

// TestUnsettledOverload: unsettled deliveries beyond the capacity are kept, for many senders as
// for one (RT F94, F24).
func TestUnsettledOverload(t *testing.T) {
	g := newRig(t, nil)
	small := func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 5 }
	b := g.peer(small)
	r := b.receiver("q", 0)
	var all []*sent
	for range 4 {
		all = append(all, g.peer(small).sender("q").sendN(5)...)
	}
	g.run()
	b.stall()
	if i := r.info(); i.Undelivered != 20 || i.DroppedPresettled != 0 {
		t.Errorf("%+v", i)
	}
	r.grant(20)
	r.say(0, 19, amqp.StateAccepted, true)
	wantSaid(t, all, "accepted settled")
}

// TestOverloadAtTheStall: what has gathered beyond the capacity by then is dropped with the
// stall, and a link that has only a full socket before it does not stall.
func TestOverloadAtTheStall(t *testing.T) {
	g := newRig(t, nil)
	b := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 10 })
	r := b.receiver("q", 0)
	var senders []*end
	for range 3 {
		s := g.peer(nil).sender("q")
		for range 8 {
			s.sendSettled("x")
		}
		senders = append(senders, s)
	}
	g.run()
	if n := r.info().Undelivered; n != 24 {
		t.Fatalf("%d in the queue", n)
	}
	b.stall()
	if i := r.info(); i.Undelivered > 10 || i.Undelivered == 0 || i.Undelivered+i.DroppedPresettled != 24 {
		t.Errorf("%+v", i)
	}
	for _, s := range senders {
		s.wantCredit(t, 250, false)
	}
	b.stall()
	r.grant(1000)
	if b.c.owes.Load() || len(b.c.owing) != 0 {
		t.Error("the connection still owes")
	}

	b.w.fill(0)
	big := make([]byte, 16000)
	for range 200 { // 250 credits of one sender are more than the output takes
		senders[0].transfer(&amqp.OutDelivery{Settled: true}, plain(string(big)))
	}
	g.run()
	queued := r.info().Undelivered
	if queued == 0 {
		t.Fatal("nothing waits")
	}
	b.stall()
	b.stall()
	if i := r.info(); i.Undelivered != queued {
		t.Errorf("%d of %d are left", i.Undelivered, queued)
	}
	if n := senders[0].l.Credit(); n >= 250 {
		t.Errorf("the sender has credit %d", n)
	}
	b.w.open()
	b.settleWriter()
	g.run()
	senders[0].wantCredit(t, 250, false)
	b.stall()
	if b.c.owes.Load() {
		t.Error("the connection still owes")
	}
}

// TestSettledQueueOfLostLink: settled deliveries that wait when their link goes are counted as
// dropped, and their credit goes back (RT F53).
func TestSettledQueueOfLostLink(t *testing.T) {
	for way, lose := range loseWays {
		g := newRig(t, nil)
		a := g.peer(nil)
		r := g.peer(nil).receiver("q", 2)
		s := a.sender("q")
		for range 5 {
			s.sendSettled("x")
		}
		g.run()
		s.wantCredit(t, 247, false)
		lose(r)
		s.wantCredit(t, 250, false)
		if n := g.r.Stats().DroppedPresettled; n != 3 {
			t.Errorf("%s: %d dropped, want 3", way, n)
		}
	}
}
