package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"qdrouter/amqp"
)

// TestRoutedChaos: clients and containers attach, answer late or not as asked, refuse, send, settle,
// drain, detach, end sessions and die at random, and hear of each other late. In the end all that was
// asked is answered, both ends of each routed link have it or neither has, and nothing is left when the
// clients have gone.
func TestRoutedChaos(t *testing.T) {
	for i := range 150 {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { chaos(t, seed) }) {
			t.Fatalf("seed %d", seed)
		}
	}
}

// roundRobin routes to containers in turn.
type roundRobin struct {
	g    *rig
	mu   sync.Mutex // guards list
	list []*peer
	n    int
}

func (r *roundRobin) set(list []*peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.Clone(list)
}

func (r *roundRobin) Learned(string, string, int, bool) {}
func (r *roundRobin) CostsChanged()                     {}
func (r *roundRobin) Route(q *LinkQuery) *RoutedLink {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range r.list {
		r.n++
		p := r.list[r.n%len(r.list)]
		if !p.gone() {
			return routeTo{r.g, p}.Route(q)
		}
	}
	return routeTo{r.g, r.list[0]}.Route(q)
}

func chaos(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	g := newRig(t, nil)
	var containers []*peer
	var pending []*end
	newContainer := func() *peer {
		p := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) {
			o.Role, o.Name, cfg.ContainerID = RoleRouteContainer, "broker", "B"
			cfg.HandleMax = uint32(rng.IntN(5))
			cfg.SessionFrames = uint32(rng.IntN(2) * 10)
			cfg.FirstDeliveryCount = 4294967290
			cfg.FirstTransferID = 4294967293
			if rng.IntN(2) == 0 {
				cfg.MaxFrameSize = 512
			}
		})
		p.onAttach = func(e *end) { pending = append(pending, e) }
		return p
	}
	for range 2 {
		containers = append(containers, newContainer())
	}
	routing := &roundRobin{g: g}
	routing.set(containers)
	g.r.SetLinkRouting(routing)
	var clients []*peer
	newClient := func() *peer {
		return g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) {
			cfg.ContainerID = "client"
			cfg.SessionFrames = uint32(rng.IntN(2) * 10)
			cfg.FirstDeliveryCount = uint32(rng.IntN(2)) * 4294967295
		})
	}
	for range 3 {
		clients = append(clients, newClient())
	}
	answer := func(e *end) {
		if e.p.done || e.l.Session.Ended() || e.p.eng.CloseSent() {
			return
		}
		a := &amqp.Attach{Source: e.answer.Source, Target: e.answer.Target}
		refuse := rng.IntN(6) == 0
		if refuse {
			if e.l.Role == amqp.RoleSender {
				a.Source = nil
			} else {
				a.Target = nil
			}
		}
		e.l.Attach(a)
		switch {
		case refuse && rng.IntN(5) > 0, rng.IntN(8) == 0, e.l.RemoteDetached():
			e.l.Detach(rng.IntN(2) == 0, &amqp.Error{Condition: "amqp:not-found"})
		case e.l.Role == amqp.RoleReceiver:
			e.l.Grant(uint32(rng.IntN(30)))
		}
	}
	act := func(e *end) {
		l := e.l
		if l.Session.Ended() || !l.Attached() {
			return
		}
		switch rng.IntN(10) {
		case 0:
			l.Detach(rng.IntN(2) == 0, nil)
		case 1:
			l.Session.End(nil)
		default:
			if l.Role == amqp.RoleSender {
				if rng.IntN(6) == 0 && l.Credit() > 0 && l.Session.OutWindow() > 60 { // more than may wait
					l.Start(&amqp.OutDelivery{})
					l.SendFrames(&amqp.OutDelivery{}, true, true, plain(string(make([]byte, rng.IntN(800000)))), 1<<30)
				}
				sendSome(e, rng, nil)
				if l.Drain && rng.IntN(2) == 0 {
					l.Drained()
				}
				return
			}
			l.Grant(uint32(rng.IntN(5)))
			l.Draining = rng.IntN(5) == 0
			l.FlowDue()
			for _, d := range e.got {
				if rng.IntN(2) == 0 && !d.settled {
					d.settled = true
					l.Session.Dispose(amqp.RoleReceiver, d.id, d.id, true, amqp.StateAccepted)
				}
			}
		}
	}
	run := func() {
		if len(g.peers) > 0 {
			p := g.peers[rng.IntN(len(g.peers))]
			p.holdWin = !p.holdWin
		}
		switch rng.IntN(4) {
		case 0:
			g.run()
		case 1: // some hear, others do not
			for _, p := range g.peers {
				if rng.IntN(2) == 0 {
					p.pump()
				}
			}
		}
	}
	for range 120 {
		switch k := rng.IntN(100); {
		case k < 30:
			p := clients[rng.IntN(len(clients))]
			if p.done || p.eng.CloseSent() {
				break
			}
			if p.s.Ended() {
				p.s = p.begin()
			}
			expiry := amqp.Symbol("")
			if rng.IntN(3) == 0 {
				expiry = "never"
			}
			if rng.IntN(2) == 0 {
				e := p.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("lr"), ExpiryPolicy: expiry}})
				if rng.IntN(8) == 0 { // against the rules
					e.l.Start(&amqp.OutDelivery{})
					e.l.SendFrames(&amqp.OutDelivery{}, true, rng.IntN(2) == 0, plain("a"), 1<<20)
				}
				if rng.IntN(8) == 0 {
					e.l.Detach(true, nil)
				}
			} else {
				e := p.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr"), ExpiryPolicy: expiry}, Target: &amqp.Target{}})
				e.l.Grant(uint32(rng.IntN(20)))
				if rng.IntN(8) == 0 {
					e.l.Detach(true, nil)
				}
			}
		case k < 55:
			if len(pending) > 0 {
				i := rng.IntN(len(pending))
				e := pending[i]
				pending = append(pending[:i:i], pending[i+1:]...)
				answer(e)
			}
		case k < 95:
			p := g.peers[rng.IntN(len(g.peers))]
			if p.done || p.eng.CloseSent() {
				break
			}
			list := p.ends
			if len(p.asked) > 0 {
				list = p.asked
			}
			if len(list) > 0 {
				act(list[rng.IntN(len(list))])
			}
		case k < 97:
			i := rng.IntN(len(containers))
			p := containers[i]
			if rng.IntN(2) == 0 {
				p.die()
			} else if !p.done {
				p.eng.Close(nil)
				g.run()
			}
			containers[i] = newContainer()
			routing.set(containers)
		default:
			i := rng.IntN(len(clients))
			p := clients[i]
			if rng.IntN(2) == 0 {
				p.die()
			} else if !p.done {
				p.eng.Close(nil)
				g.run()
			}
			clients[i] = newClient()
		}
		run()
	}
	for _, p := range g.peers {
		p.holdWin = false
		p.eng.Sessions(func(s *amqp.Session) { s.FlowDue() })
	}
	// All that waits is answered; then both ends agree on every link.
	g.run()
	for len(pending) > 0 {
		list := pending
		pending = nil
		for _, e := range list {
			answer(e)
		}
		g.run()
	}
	g.run()
	for _, p := range g.peers {
		if p.closed != nil && p.closed.Error != nil {
			t.Errorf("closed: %v", p.closed.Error)
		}
	}
	up := 0
	for _, p := range clients {
		for _, e := range p.ends {
			if !p.done && !e.l.Session.Ended() && e.l.Attached() {
				up++
			}
			if !p.done && !e.l.Session.Ended() && !e.l.LocalDetached() && e.answer == nil {
				t.Errorf("client link %s was never answered", e.l.Name)
			}
			if !p.done && !e.l.Session.Ended() && e.l.LocalDetached() && !e.l.RemoteDetached() {
				t.Errorf("client link %s: detach never answered (answer %v)", e.l.Name, e.answer)
			}
		}
	}
	far := 0
	for _, p := range containers {
		for _, e := range p.asked {
			if !p.done && !e.l.Session.Ended() && e.l.Attached() {
				far++
			}
			if !p.done && !e.l.Session.Ended() && e.l.LocalDetached() && !e.l.RemoteDetached() {
				t.Errorf("container link %s: detach never answered", e.l.Name)
			}
		}
	}
	if up != far || len(g.links()) != up+far {
		for _, l := range g.r.Links() {
			t.Logf("%+v", l)
		}
		t.Errorf("%d links at clients, %d at containers, %d here", up, far, len(g.links()))
	}
	for _, p := range clients {
		p.die()
	}
	g.run()
	for _, l := range g.links() {
		if l.in != nil {
			t.Errorf("left: %+v", l.in.info(0))
		} else {
			t.Errorf("left: %+v queue %d ending %v", l.out.info(0), l.out.queue.n, l.out.ending)
		}
	}
	for _, p := range containers {
		if p.done {
			continue
		}
		p.c.mu.Lock()
		p.c.eng.Sessions(func(s *amqp.Session) {
			if k, ok := s.Owner.(*session); ok && (k.in.Len()+k.out.Len() != 0 || k.held.Load() != 0) {
				t.Errorf("a session of the container has %d and %d unsettled, %d octets held", k.in.Len(), k.out.Len(), k.held.Load())
			}
			s.Links(func(l *amqp.Link) { t.Errorf("a link of the container's session is left: %s", l.Name) })
		})
		p.c.mu.Unlock()
	}
}
