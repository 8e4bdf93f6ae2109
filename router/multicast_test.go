package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
)

var multi = AddressConfig{Prefix: "multi", Distribution: Multicast, Priority: -1}

// TestMulticastOutcome: the sender hears one outcome, the strongest, when every copy has one,
// and settlement when every copy is settled (RT F35 to F37).
func TestMulticastOutcome(t *testing.T) {
	declared := amqp.Raw(amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x33), Value: amqp.List{[]byte{1}}}))
	private := amqp.Raw(amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(999), Value: amqp.List{}}))
	acc, rel, rej, mod := amqp.StateAccepted, amqp.StateReleased, stateRejected, stateModified
	type word struct {
		receiver int
		state    amqp.Raw
		settled  bool
	}
	tests := []struct {
		name  string
		words []word
		want  []string
	}{
		{"all accepted", []word{{0, acc, true}, {1, acc, true}, {2, acc, true}}, []string{"accepted settled"}},
		{"one rejected", []word{{0, acc, true}, {1, rej, true}, {2, acc, true}}, []string{"rejected settled"}},
		{"accepted, modified, released", []word{{0, rel, true}, {1, mod, true}, {2, acc, true}}, []string{"accepted settled"}},
		{"modified, released", []word{{0, rel, true}, {1, mod, true}, {2, rel, true}}, []string{"modified failed settled"}},
		{"all released", []word{{0, rel, true}, {1, rel, true}, {2, rel, true}}, []string{"released settled"}},
		{"one says nothing yet", []word{{0, rel, true}, {1, acc, true}}, nil},
		{"decided, then settled", []word{{0, acc, false}, {1, acc, false}, {2, rel, false}, {0, nil, true}, {1, nil, true}, {2, nil, true}}, []string{"accepted", "accepted settled"}},
		{"some settled before all decided", []word{{0, acc, true}, {1, acc, false}, {2, rej, true}, {1, nil, true}}, []string{"rejected", "rejected settled"}},
		{"said twice", []word{{0, acc, false}, {0, acc, false}, {0, rej, false}, {1, acc, true}, {2, acc, true}, {0, rej, true}}, []string{"accepted", "accepted settled"}},
		{"states that are none", []word{{0, stateReceived, false}, {1, private, false}, {0, acc, true}, {1, acc, true}, {2, acc, true}}, []string{"accepted settled"}},
		{"declared", []word{{0, declared, true}, {1, acc, true}, {2, acc, true}}, []string{"rejected settled"}},
		{"one settles without a state", []word{{0, nil, true}, {1, acc, true}, {2, rel, true}}, []string{"accepted settled"}},
		{"all settle without a state", []word{{0, nil, true}, {1, nil, true}, {2, nil, true}}, []string{"nothing settled"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, nil, multi)
			a := g.peer(nil)
			list := g.receivers(3, "multi", 10)
			s := a.sender("multi")
			x := s.send("1")
			g.run()
			for _, w := range tt.words {
				list[w.receiver].say(0, 0, w.state, w.settled)
			}
			if !slices.Equal(x.said, tt.want) {
				t.Errorf("the sender heard %q, want %q", x.said, tt.want)
			}
			if log := strings.Join(g.log.take("ROUTER_CORE"), " "); (tt.name == "declared") != strings.Contains(log, "Transactions are not supported for multicast messages") {
				t.Errorf("log %q", log)
			}
			if tt.want != nil {
				s.wantCredit(t, 250, false)
			} else {
				s.wantCredit(t, 249, false)
			}
			for _, r := range list {
				if r.got[0].said != nil {
					t.Errorf("a receiver heard %q", r.got[0].said)
				}
			}
		})
	}
}

// TestMulticastReceiverGone: a receiver that goes counts as released for a copy that was not
// sent and as modified for one that was (RT F39).
func TestMulticastReceiverGone(t *testing.T) {
	for way, lose := range loseWays {
		for _, tt := range []struct {
			credit uint32
			other  amqp.Raw
			want   string
		}{
			{1, amqp.StateReleased, "modified failed settled"}, {0, amqp.StateReleased, "released settled"},
			{1, amqp.StateAccepted, "accepted settled"}, {0, stateModified, "modified failed settled"},
		} {
			t.Run(fmt.Sprintf("%s, %d, %s", way, tt.credit, stateText(tt.other)), func(t *testing.T) {
				g := newRig(t, nil, multi)
				a := g.peer(nil)
				r1, r2 := g.peer(nil).receiver("multi", tt.credit), g.peer(nil).receiver("multi", 1)
				s := a.sender("multi")
				x := s.send("1")
				g.run()
				lose(r1)
				wantSaid(t, []*sent{x})
				r2.say(0, 0, tt.other, true)
				wantSaid(t, []*sent{x}, tt.want)
				s.wantCredit(t, 250, false)
			})
		}
	}
}

// TestMulticastSenderGone: its copies are settled towards the receivers, modified (RT F40).
func TestMulticastSenderGone(t *testing.T) {
	for way, lose := range loseWays {
		t.Run(way, func(t *testing.T) {
			g := newRig(t, nil, multi)
			a := g.peer(nil)
			r1, r2 := g.peer(nil).receiver("multi", 1), g.peer(nil).receiver("multi", 0)
			s := a.sender("multi")
			s.send("1")
			g.run()
			lose(s)
			if !slices.Equal(r1.got[0].said, []string{"modified failed settled"}) {
				t.Errorf("the receiver heard %q", r1.got[0].said)
			}
			r2.grant(1)
			if len(r2.got) != 1 || !r2.got[0].settled || stateText(r2.got[0].state) != "modified failed" {
				t.Errorf("the copy that waited: %+v", r2.got)
			}
			r1.say(0, 0, amqp.StateAccepted, true) // too late
			for _, r := range []*end{r1, r2} {
				if n := r.out().load.Load(); n != 0 || r.info().Unsettled != 0 {
					t.Errorf("load %d, %d unsettled", n, r.info().Unsettled)
				}
			}
		})
	}
}

// TestMulticastSenderSettles: the sender's word and settlement reach every copy, sent or not
// (RT F38, F71).
func TestMulticastSenderSettles(t *testing.T) {
	g := newRig(t, nil, multi)
	a := g.peer(nil)
	r1, r2 := g.peer(nil).receiver("multi", 1), g.peer(nil).receiver("multi", 0)
	s := a.sender("multi")
	x := s.send("1")
	g.run()
	x.say(a, stateReceived, false)
	x.say(a, nil, true)
	r2.grant(1)
	if !slices.Equal(r1.got[0].said, []string{"received 1 0", "nothing settled"}) || !r2.got[0].settled {
		t.Errorf("heard %q; settled %v", r1.got[0].said, r2.got[0].settled)
	}
	s.wantCredit(t, 250, false)
}

// TestMulticastSettled: one copy each, one credit, whoever is slow (RT F31, E46).
func TestMulticastSettled(t *testing.T) {
	g := newRig(t, nil, multi)
	a := g.peer(nil)
	list := append(g.receivers(3, "multi", 100), g.peer(nil).receiver("multi", 0))
	var inside []string
	cancel := g.r.Subscribe("multi", false, func(q *Request) { inside = append(inside, bodyOf(q.Message)) })
	defer cancel()
	s := a.sender("multi")
	for i := range 20 {
		s.sendSettled(fmt.Sprint(i))
	}
	g.run()
	if n := counts(list); !slices.Equal(n, []int{20, 20, 20, 0}) || len(inside) != 20 {
		t.Errorf("spread %v, inside %d", n, len(inside))
	}
	s.wantCredit(t, 250, false)
	list[3].grant(20)
	if n := counts(list); !slices.Equal(n, []int{20, 20, 20, 20}) {
		t.Errorf("spread %v", n)
	}
	s.wantCredit(t, 250, false)
	i := g.addressInfo("M0multi")
	if i.Ingress != 20 || i.Egress != 80 || i.ToContainer != 20 || i.InProcess != 1 || i.Subscribers != 4 {
		t.Errorf("address %+v", i)
	}
}

// TestMulticastInside: a subscriber in this process has accepted what it was given.
func TestMulticastInside(t *testing.T) {
	g := newRig(t, nil, multi)
	a := g.peer(nil)
	cancel := g.r.Subscribe("multi", false, func(q *Request) {})
	s := a.sender("multi")
	x := s.send("1")
	g.run()
	if i := g.addressInfo("M0multi"); i.Distribution != Closest { // as the first that bound it asked
		t.Errorf("distribution %v", i.Distribution)
	}
	cancel()
	_ = x
	r := g.peer(nil).receiver("multi.x", 5)
	cancel = g.r.Subscribe("multi.x", false, func(q *Request) {})
	defer cancel()
	s = a.sender("multi.x")
	x = s.send("1")
	g.run()
	wantSaid(t, []*sent{x})
	r.say(0, 0, amqp.StateReleased, true)
	wantSaid(t, []*sent{x}, "accepted settled")
}

// TestMulticastLarge: a message of many frames goes to every receiver whole, the slow and the
// fast, and is settled once.
func TestMulticastLarge(t *testing.T) {
	g := newRig(t, nil, multi)
	a := g.peer(nil)
	fast := g.peer(nil).receiver("multi", 10)
	slow := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.MaxFrameSize, cfg.SessionFrames = 1000, 4 }).receiver("multi", 1)
	stopped := g.peer(nil).receiver("multi", 0)
	gone := g.peer(nil).receiver("multi", 0)
	s := a.sender("multi")
	body := strings.Repeat("0123456789", 40000)
	list := []*sent{s.send(body), s.send("after")}
	g.run()
	gone.close()
	slow.grant(1)
	stopped.grant(2)
	for i, r := range []*end{fast, slow, stopped} {
		if got := r.bodies(); len(got) != 2 || got[0] != body || got[1] != "after" {
			t.Fatalf("receiver %d got %d messages", i, len(got))
		}
		wantSaid(t, list)
		r.say(0, 1, amqp.StateAccepted, true)
	}
	wantSaid(t, list, "accepted settled")
	s.wantCredit(t, 250, false)
	if n := s.in().sess.held.Load(); n != 0 {
		t.Errorf("%d octets are held", n)
	}
}
