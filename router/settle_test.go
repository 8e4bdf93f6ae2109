package router

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"qdrouter/amqp"
)

// sendN sends n unsettled messages with the bodies 0 to n-1.
func (e *end) sendN(n int) (list []*sent) {
	e.p.g.t.Helper()
	for i := range n {
		list = append(list, e.send(fmt.Sprint(i)))
	}
	return list
}

// loseWays are the ways in which a link can go.
var loseWays = map[string]func(*end){
	"detach": (*end).close,
	"end":    func(e *end) { e.l.Session.End(nil); e.p.g.run() },
	"close":  func(e *end) { e.p.eng.Close(nil); e.p.g.run() },
	"drop":   func(e *end) { e.p.die(); e.p.g.run() },
	"kill":   func(e *end) { e.p.g.r.KillConnection(e.p.c.Number(), 0); e.p.g.run() },
}

// TestReceiverGone: what was sent and is unsettled comes back modified, what was not, released;
// exactly (RT F54, S1). What was decided keeps its outcome.
func TestReceiverGone(t *testing.T) {
	for way, lose := range loseWays {
		t.Run(way, func(t *testing.T) {
			g := newRig(t, nil)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", 6)
			s := a.sender("q")
			list := s.sendN(10)
			g.run()
			if n := len(r.got); n != 6 {
				t.Fatalf("got %d deliveries", n)
			}
			r.say(0, 0, amqp.StateAccepted, false)
			r.say(1, 1, amqp.StateAccepted, true)
			r.say(2, 2, stateReceived, false)
			lose(r)
			wantSaid(t, list[0:1], "accepted", "accepted settled")
			wantSaid(t, list[1:2], "accepted settled")
			wantSaid(t, list[2:3], "received 1 0", "modified failed settled")
			wantSaid(t, list[3:6], "modified failed settled")
			wantSaid(t, list[6:10], "released settled")
			s.wantCredit(t, 250, false)
			if i := s.info(); i.Unsettled != 0 || i.Accepted != 2 || i.Modified != 4 || i.Released != 4 {
				t.Errorf("counts %+v", i)
			}
			g.wantAddress(t, "M0q", 0)
			s.close()
			g.wantNoAddress(t, "M0q")
		})
	}
}

// wantAddress checks how many consumers an address has.
func (g *rig) wantAddress(t *testing.T, key string, consumers uint32) {
	t.Helper()
	if i := g.addressInfo(key); i.Subscribers != consumers {
		t.Errorf("address %s has %d consumers, want %d", key, i.Subscribers, consumers)
	}
}

func (g *rig) wantNoAddress(t *testing.T, key string) {
	t.Helper()
	if a := g.r.lookup(addressKey(key)); a != nil {
		t.Errorf("address %s is still there", key)
	}
}

// TestReceiverGoneWithFullSocket: what is encoded counts as sent, written or not (architecture:
// released or modified when a link dies).
func TestReceiverGoneWithFullSocket(t *testing.T) {
	for _, room := range []int{0, 1, 30, 100} {
		g := newRig(t, nil)
		a, b := g.peer(nil), g.peer(nil)
		r := b.receiver("q", 3)
		s := a.sender("q")
		b.w.fill(room)
		list := s.sendN(5)
		g.run()
		b.die()
		g.run()
		wantSaid(t, list[:3], "modified failed settled")
		wantSaid(t, list[3:], "released settled")
		s.wantCredit(t, 250, false)
		_ = r
	}
}

// TestPartlySent: a message of which only a part has gone counts as not sent (RT 2.9, Q18),
// also when the receiver asked for settled deliveries.
func TestPartlySent(t *testing.T) {
	for _, mode := range []uint8{amqp.SndSettleModeMixed, amqp.SndSettleModeSettled} {
		for way, lose := range loseWays {
			t.Run(fmt.Sprint(way, " mode ", mode), func(t *testing.T) {
				g := newRig(t, nil)
				a := g.peer(nil)
				b := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.MaxFrameSize, cfg.SessionFrames = 512, 2 })
				b.holdWin = true
				r := b.attach(amqp.RoleReceiver, amqp.Attach{SndSettleMode: amqp.Some(mode), Source: &amqp.Source{Address: amqp.Some("q")}})
				r.l.Grant(10)
				g.run()
				s := a.sender("q")
				list := []*sent{s.send(strings.Repeat("x", 2000)), s.send("2")}
				g.run()
				if len(r.got) != 1 || r.got[0].whole || r.got[0].frames != 2 {
					t.Fatalf("got %+v", r.got)
				}
				out := r.out()
				lose(r)
				wantSaid(t, list, "released settled")
				s.wantCredit(t, 250, false)
				if n := out.load.Load(); n != 0 {
					t.Errorf("load %d is left", n)
				}
			})
		}
	}
}

// TestSettlingReceiver: a receiver that asked for settled deliveries gets them so; the sender
// learns that they were accepted (RT F75).
func TestSettlingReceiver(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.attach(amqp.RoleReceiver, amqp.Attach{SndSettleMode: amqp.Some(amqp.SndSettleModeSettled), Source: &amqp.Source{Address: amqp.Some("q")}})
	r.l.Grant(2)
	g.run()
	s := a.sender("q")
	list := s.sendN(3)
	list = append(list, s.send(strings.Repeat("y", 100000)))
	g.run()
	wantBodies(t, r, "0", "1")
	wantSaid(t, list[:2], "accepted settled")
	wantSaid(t, list[2:])
	r.grant(2)
	wantSaid(t, list, "accepted settled")
	for _, d := range r.got {
		if !d.settled {
			t.Error("an unsettled delivery came")
		}
	}
	s.wantCredit(t, 250, false)
	if i := r.info(); i.Accepted != 4 || i.Deliveries != 4 || i.Unsettled != 0 {
		t.Errorf("counts %+v", i)
	}
}

// TestStatesRelayed: states and settlement go separately in both directions (RT F70, F71), a
// terminal state is final, and what changes nothing makes no frame (RT F76).
func TestStatesRelayed(t *testing.T) {
	private := amqp.Raw(amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(999), Value: amqp.List{"x"}}))
	type word struct {
		by      string
		state   amqp.Raw
		settled bool
	}
	tests := []struct {
		name     string
		words    []word
		sender   []string // what the sender hears
		receiver []string
	}{
		{"receiver settles", []word{{"r", amqp.StateAccepted, true}}, []string{"accepted settled"}, nil},
		{"without outcome", []word{{"r", nil, true}}, []string{"nothing settled"}, nil},
		{"three ways", []word{{"r", amqp.StateAccepted, false}, {"s", nil, true}}, []string{"accepted"}, []string{"nothing settled"}},
		{"state, then settled", []word{{"r", stateRejected, false}, {"r", nil, true}},
			[]string{`rejected app:bad "no good"`, `rejected app:bad "no good" settled`}, nil},
		{"said twice", []word{{"r", amqp.StateAccepted, false}, {"r", amqp.StateAccepted, false}, {"r", amqp.StateAccepted, true}},
			[]string{"accepted", "accepted settled"}, nil},
		{"changed its mind", []word{{"r", amqp.StateAccepted, false}, {"r", amqp.StateReleased, false}, {"r", stateRejected, true}},
			[]string{"accepted", "accepted settled"}, nil},
		{"received, then accepted", []word{{"r", stateReceived, false}, {"r", stateReceived, false}, {"r", amqp.StateAccepted, true}},
			[]string{"received 1 0", "accepted settled"}, nil},
		{"settled after received", []word{{"r", stateReceived, false}, {"r", nil, true}}, []string{"received 1 0", "nothing settled"}, nil},
		{"modified", []word{{"r", stateModified, true}}, []string{"modified failed settled"}, nil},
		{"private state", []word{{"r", private, false}, {"r", amqp.StateAccepted, true}}, []string{`@999(999) ["x"]`, "accepted settled"}, nil},
		{"sender settles first", []word{{"s", nil, true}, {"r", amqp.StateAccepted, true}}, nil, []string{"nothing settled"}},
		{"sender's state", []word{{"s", private, false}, {"r", amqp.StateAccepted, true}}, []string{"accepted settled"}, []string{`@999(999) ["x"]`}},
		{"sender settles with state", []word{{"s", stateModified, true}}, nil, []string{"modified failed settled"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, nil)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", 10)
			s := a.sender("q")
			x := s.send("1")
			g.run()
			for _, w := range tt.words {
				if w.by == "r" {
					r.say(0, 0, w.state, w.settled)
				} else {
					x.say(a, w.state, w.settled)
				}
			}
			if !slices.Equal(x.said, tt.sender) {
				t.Errorf("the sender heard %q, want %q", x.said, tt.sender)
			}
			if !slices.Equal(r.got[0].said, tt.receiver) {
				t.Errorf("the receiver heard %q, want %q", r.got[0].said, tt.receiver)
			}
			s.wantCredit(t, 250, false)
			for _, e := range []*end{s, r} {
				if i := e.info(); i.Unsettled != 0 {
					t.Errorf("%d unsettled on link %s", i.Unsettled, e.l.Name)
				}
			}
			if n := r.out().load.Load(); n != 0 {
				t.Errorf("load %d is left", n)
			}
		})
	}
}

// TestStateOnTransfer: a state that comes with a delivery goes out with it (RT F72).
func TestStateOnTransfer(t *testing.T) {
	private := amqp.Raw(amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(999), Value: amqp.List{"x"}}))
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 1)
	s := a.sender("q")
	for _, body := range []string{"1", "2", strings.Repeat("z", 50000)} { // the second waits for credit
		s.transfer(&amqp.OutDelivery{State: private, Format: 7}, plain(body))
	}
	g.run()
	r.grant(10)
	for i, d := range r.got {
		if stateText(d.state) != `@999(999) ["x"]` || d.format != 7 {
			t.Errorf("delivery %d has state %s, format %d", i, stateText(d.state), d.format)
		}
	}
	if len(r.got) != 3 {
		t.Errorf("got %d deliveries", len(r.got))
	}
}

// TestSenderGone: what a lost sender sent stays with the receiver, who may still settle it; it
// is told nothing (RT F56).
func TestSenderGone(t *testing.T) {
	for way, lose := range loseWays {
		t.Run(way, func(t *testing.T) {
			g := newRig(t, nil)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", 2)
			s := a.sender("q")
			s.sendN(3)
			g.run()
			out := r.out()
			lose(s)
			g.wantAddress(t, "M0q", 1)
			r.say(0, 1, amqp.StateAccepted, true)
			r.grant(2)
			wantBodies(t, r, "0", "1", "2")
			r.say(2, 2, stateRejected, true)
			for _, d := range r.got {
				if d.said != nil {
					t.Errorf("the receiver heard %q", d.said)
				}
			}
			if i := r.info(); i.Accepted != 2 || i.Rejected != 1 || i.Unsettled != 0 || out.load.Load() != 0 {
				t.Errorf("load %d, counts %+v", out.load.Load(), i)
			}
		})
	}
}

// TestSettledInQueue: a sender settles what still waits for credit; it goes out settled, with the
// sender's last word.
func TestSettledInQueue(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 0)
	s := a.sender("q")
	list := s.sendN(3)
	g.run()
	list[0].say(a, nil, true)
	list[1].say(a, stateReceived, false)
	s.wantCredit(t, 248, false)
	r.grant(3)
	r.say(1, 2, amqp.StateAccepted, true)
	if !r.got[0].settled || r.got[1].settled || len(r.got) != 3 || stateText(r.got[1].state) != "received 1 0" || r.got[2].state != nil {
		t.Errorf("got %+v", r.got)
	}
	wantSaid(t, list[:1])
	wantSaid(t, list[1:], "accepted settled")
	s.wantCredit(t, 250, false)
	if n := r.out().load.Load(); n != 0 {
		t.Errorf("load %d is left", n)
	}
}

// TestDispositionRanges: a disposition covers what it covers, whatever else is in its range, and
// the sender's link hears of it in as few frames as can be (RT F78).
func TestDispositionRanges(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 100)
	s := a.sender("q")
	list := s.sendN(10)
	g.run()
	say := func(first, last uint32, state amqp.Raw) {
		b.eng.Out = amqp.AppendDispositionFrame(b.eng.Out, 0, &amqp.Disposition{
			Role: amqp.RoleReceiver, First: first, Last: amqp.Some(last), Settled: true, State: state})
		g.run()
	}
	say(4, 5, amqp.StateReleased)
	say(0, 0xffffffff/2, amqp.StateAccepted) // most of them are nothing
	say(0, 100, stateRejected)               // again
	say(7, 3, stateRejected)                 // nothing is in there
	wantSaid(t, list[4:6], "released settled")
	wantSaid(t, append(list[:4:4], list[6:]...), "accepted settled")
	s.wantCredit(t, 250, false)
	if n := b.s.OutWindow(); n == 0 {
		t.Error("no window")
	}
	if n := r.out().load.Load(); n != 0 {
		t.Errorf("load %d is left", n)
	}
}

// TestSenderSpeaksOfWhatEnds: the sender's word on a delivery is on its way to the receiver's
// connection when the receiver settles it and the sender's side makes use of its record again
// (architecture: both ends settle at once).
func TestSenderSpeaksOfWhatEnds(t *testing.T) {
	for _, settled := range []bool{false, true} {
		g := newRig(t, nil)
		a, b := g.peer(nil), g.peer(nil)
		r := b.receiver("q", 10)
		s := a.sender("q")
		x := s.send("1")
		g.run()
		a.c.Begin()
		a.c.mu.Lock()
		engine{a.c}.Disposition(s.in().sess.s, &amqp.Disposition{Role: amqp.RoleSender, First: uint32(x.id), Settled: settled, State: stateReceived})
		a.c.mu.Unlock() // the word is in the reader's batch
		r.say(0, 0, amqp.StateAccepted, true)
		a.c.b.run()
		a.c.End()
		if !settled {
			wantSaid(t, []*sent{x}, "accepted settled")
		}
		list := s.sendN(3)
		g.run()
		r.say(1, 3, amqp.StateAccepted, true)
		wantSaid(t, list, "accepted settled")
		s.wantCredit(t, 250, false)
		if n := r.out().load.Load(); n != 0 {
			t.Errorf("load %d is left", n)
		}
	}
}

// TestTrackedOnce: what is counted as under way to another router is off the count when it has
// been settled or has gone, by whatever end and wherever it was (RT F25).
func TestTrackedOnce(t *testing.T) {
	ends := map[string]func(s, r *end, x *sent){
		"settled":            func(s, r *end, x *sent) { r.say(0, 0, amqp.StateAccepted, true) },
		"settled by sender":  func(s, r *end, x *sent) { x.say(s.p, nil, true) },
		"receiver gone":      func(s, r *end, x *sent) { r.close() },
		"connection dropped": func(s, r *end, x *sent) { r.p.die(); r.p.g.run() },
	}
	for name, finish := range ends {
		for credit := range uint32(2) {
			g := newRig(t, nil)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", credit)
			s := a.sender("q")
			x := s.send("1")
			g.run()
			var track atomic.Int64
			track.Store(1)
			s.in().sess.in.Get(x.id).one.track = &track // as if it were for a router beyond
			if name == "settled" && credit == 0 {
				r.grant(1)
			}
			finish(s, r, x)
			if n := track.Load(); n != 0 {
				t.Errorf("%s, credit %d: %d are counted", name, credit, n)
			}
		}
	}
}
