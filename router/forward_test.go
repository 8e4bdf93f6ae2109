package router

import (
	"fmt"
	"slices"
	"testing"

	"qdrouter/amqp"
)

// counts is how many deliveries each end has got.
func counts(ends []*end) (n []int) {
	for _, e := range ends {
		n = append(n, len(e.got))
	}
	return n
}

func (g *rig) receivers(n int, address string, credit uint32) (list []*end) {
	for range n {
		list = append(list, g.peer(nil).receiver(address, credit))
	}
	return list
}

// TestBalancedFairness: how a balanced address spreads what one sender sends (RT F21, F26,
// F26a), whatever settles meanwhile.
func TestBalancedFairness(t *testing.T) {
	tests := []struct {
		name         string
		messages     int
		receivers    int
		read         int // messages that one read of the router brings
		settle       bool
		least, apart int // every receiver gets at least so many; any two differ by so many at most
	}{
		{"nine over three, one at a time", 9, 3, 1, true, 3, 0},
		{"nine over three, one at a time, none settled", 9, 3, 1, false, 3, 0},
		{"nine over three in one read", 9, 3, 9, true, 3, 0},
		{"nine over three in one read, none settled", 9, 3, 9, false, 3, 0},
		{"four hundred over four in one read", 400, 4, 400, false, 75, 25},
		{"four hundred over four, one at a time", 400, 4, 1, false, 100, 0},
		{"four hundred over four by sixties", 400, 4, 60, true, 88, 25},
		{"a thousand over two in one read", 1000, 2, 1000, false, 484, 32},
		{"one over three", 1, 3, 1, true, 0, 1},
		{"many receivers", 64, 50, 64, false, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, nil)
			a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 2000 })
			list := g.receivers(tt.receivers, "q", 2000)
			s := a.sender("q")
			for i := 0; i < tt.messages; i += tt.read {
				for range min(tt.read, tt.messages-i) {
					s.send("x")
				}
				g.run()
				if tt.settle {
					for _, r := range list {
						r.say(0, len(r.got)-1, amqp.StateAccepted, true)
					}
				}
			}
			n := counts(list)
			if slices.Min(n) < tt.least || slices.Max(n)-slices.Min(n) > tt.apart {
				t.Errorf("spread %v, want at least %d each, and %d apart", n, tt.least, tt.apart)
			}
		})
	}
}

// TestBalancedTakesTheLeastLoaded: the lowest sum of undelivered and unsettled wins, credit or
// not; ties go to the first (RT F21, F27).
func TestBalancedTakesTheLeastLoaded(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	list := []*end{g.peer(nil).receiver("q", 100), g.peer(nil).receiver("q", 0), g.peer(nil).receiver("q", 100)}
	s := a.sender("q")
	for range 9 {
		s.send("x")
		g.run()
	}
	if n := counts(list); !slices.Equal(n, []int{3, 0, 3}) || list[1].info().Undelivered != 3 {
		t.Fatalf("spread %v and %d that wait", n, list[1].info().Undelivered)
	}
	list[2].say(0, 1, amqp.StateAccepted, true) // loads are 3, 3, 1
	for range 3 {
		s.send("x")
		g.run()
	}
	// Two make it 3 everywhere, the third goes to the first in the list.
	if loads := []int32{list[0].out().load.Load(), list[1].out().load.Load(), list[2].out().load.Load()}; loads[0]+loads[1]+loads[2] != 10 || loads[2] != 3 && loads[2] != 4 {
		t.Errorf("loads %v", loads)
	}
}

// TestBalancedWithoutEligible: when every consumer is at its capacity the least loaded takes it,
// and nothing is released (RT F24).
func TestBalancedWithoutEligible(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 100 })
	small := func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 5 }
	list := []*end{g.peer(small).receiver("q", 0), g.peer(small).receiver("q", 0), g.peer(small).receiver("q", 0)}
	s := a.sender("q")
	all := s.sendN(30)
	g.run()
	all = append(all, s.sendN(6)...)
	g.run()
	wantSaid(t, all)
	for _, r := range list {
		if n := r.out().load.Load(); n != 12 {
			t.Errorf("load %d, want 12", n)
		}
	}
}

// TestEligibleBeforeLessLoaded: a consumer at its capacity comes after any that is not, however
// much those have (RT F21).
func TestEligibleBeforeLessLoaded(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	capacity := func(n uint32) func(*ConnOptions, *amqp.ConnConfig) {
		return func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = n }
	}
	small, large := g.peer(capacity(2)).receiver("q", 0), g.peer(capacity(50)).receiver("q", 0)
	s := a.sender("q")
	for range 20 {
		s.send("x")
		g.run()
	}
	if n, m := small.out().load.Load(), large.out().load.Load(); n != 2 || m != 18 {
		t.Errorf("loads %d and %d, want 2 and 18", n, m)
	}
}

// TestRunsKeepToTheirAddress: a run of one read (RT F26a) belongs to one address, though an
// anonymous link sends to many.
func TestRunsKeepToTheirAddress(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	ends := map[string][]*end{"p": g.receivers(2, "p", 500), "q": g.receivers(2, "q", 500)}
	s := a.sender("")
	for i := range 200 {
		to := []string{"p", "q"}[i%3%2]
		s.transfer(&amqp.OutDelivery{}, addressed(to, to))
	}
	g.run()
	for address, list := range ends {
		for _, r := range list {
			for _, body := range r.bodies() {
				if body != address {
					t.Fatalf("a message to %q went to a consumer of %q", body, address)
				}
			}
		}
	}
}

// TestRunsEndWithTheRead: a run does not go on in the next read, and not beyond credit.
func TestRunsEndWithTheRead(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	list := g.receivers(2, "q", 1000)
	s := a.sender("q")
	s.sendN(20) // runs of 2
	g.run()
	in := s.in()
	if in.run != 0 || in.runTo != nil || in.inRead != 0 {
		t.Errorf("after the read: run %d to %v, %d in the read", in.run, in.runTo, in.inRead)
	}
	if n := counts(list); n[0] != 10 || n[1] != 10 {
		t.Errorf("spread %v", n)
	}
}

// TestClosest: local consumers take turns, one delivery each, with no regard to credit (RT F28,
// F29); a subscriber in this process comes before them.
func TestClosest(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Prefix: "close", Distribution: Closest, Priority: -1})
	a := g.peer(nil)
	list := []*end{g.peer(nil).receiver("close", 100), g.peer(nil).receiver("close", 0), g.peer(nil).receiver("close", 100)}
	s := a.sender("close")
	s.sendN(9)
	g.run()
	if n := counts(list); !slices.Equal(n, []int{3, 0, 3}) || list[1].info().Undelivered != 3 {
		t.Errorf("spread %v and %d that wait", n, list[1].info().Undelivered)
	}
	var took []*Request
	cancel := g.r.Subscribe("close", false, func(q *Request) { took = append(took, q) })
	x := s.send("inside")
	g.run()
	if len(took) != 1 || bodyOf(took[0].Message) != "inside" || took[0].Connection != a.c.Number() {
		t.Fatalf("the subscriber took %v", took)
	}
	wantSaid(t, []*sent{x})
	took[0].Settle(stateRejected)
	took[0].Settle(amqp.StateAccepted) // no effect
	g.run()
	wantSaid(t, []*sent{x}, `rejected app:bad "no good" settled`)
	cancel()
	s.send("outside")
	g.run()
	if len(took) != 1 {
		t.Error("a cancelled subscriber took a message")
	}
	if i := g.addressInfo("M0close"); i.ToContainer != 1 || i.Ingress != 11 || i.Egress != 10 || i.Distribution != Closest {
		t.Errorf("address %+v", i)
	}
}

// TestOwnMessages: a client that sends to an address and receives from it gets its own (RT F51),
// in order, on one connection as on two.
func TestOwnMessages(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	r := a.receiver("q", 100)
	s := a.sender("q")
	list := s.sendN(50)
	g.run()
	r.say(0, 49, amqp.StateAccepted, true)
	wantSaid(t, list, "accepted settled")
	for i, body := range r.bodies() {
		if body != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, body)
		}
	}
}

// TestOrder: deliveries of a link reach a consumer in the order they came, whether they go at
// once, wait, or are too large for a frame (RT F61).
func TestOrder(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 1000 })
	b := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.SessionFrames = 8 })
	b.w.once = 700
	r := b.receiver("q", 10)
	s := a.sender("q")
	var want []string
	for i := range 300 {
		body := fmt.Sprint(i)
		switch i % 17 {
		case 3:
			body += string(make([]byte, 20000))
		case 5:
			body += string(make([]byte, 200000))
		}
		want = append(want, body)
		s.transfer(&amqp.OutDelivery{Settled: i%2 == 0}, plain(body))
		if i%29 == 0 {
			g.run()
			r.grant(15)
		}
	}
	r.grant(400)
	if got := r.bodies(); !slices.Equal(got, want) {
		for i := range got {
			if i >= len(want) || got[i] != want[i] {
				t.Fatalf("message %d of %d is %.10s", i, len(want), got[i])
			}
		}
		t.Fatalf("%d messages of %d", len(got), len(want))
	}
	tags := map[string]bool{}
	for _, d := range r.got {
		if len(d.tag) != 8 || tags[d.tag] { // RT F86
			t.Errorf("tag %q", d.tag)
		}
		tags[d.tag] = true
	}
}

// TestRouterOriginated: messages of the router itself go out settled, to one consumer, and to
// nowhere when nobody wants them (RT X11, X12).
func TestRouterOriginated(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Prefix: "multi", Distribution: Multicast, Priority: -1})
	a := g.peer(nil)
	r1, r2 := a.receiver("q", 10), a.receiver("q", 10)
	m1, m2 := a.receiver("multi", 10), a.receiver("multi", 10)
	g.r.Send("q", plain("one"))
	g.r.Send("multi", plain("all"))
	g.r.Send("amqp:/_local/q", plain("nowhere"))
	g.r.Send("", plain("nowhere"))
	g.run()
	if len(r1.got)+len(r2.got) != 1 || len(m1.got) != 1 || len(m2.got) != 1 || !m1.got[0].settled {
		t.Errorf("got %v %v, %v %v", r1.bodies(), r2.bodies(), m1.bodies(), m2.bodies())
	}
	if i := g.addressInfo("M0multi"); i.FromContainer != 1 || i.Egress != 2 {
		t.Errorf("address %+v", i)
	}
	if n := r1.out().load.Load() + r2.out().load.Load(); n != 0 {
		t.Errorf("load %d is left", n)
	}
}
