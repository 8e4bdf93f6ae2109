package router

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"qdrouter/amqp"
)

// TestRoutedStress: clients attach, send, receive, settle, detach and end sessions at random over routed links to
// one container, each peer from a goroutine of its own. No delivery is lost or decided twice, none
// is left behind, and credit agrees in the end.
func TestRoutedStress(t *testing.T) {
	g, first, container := routed(t)
	first.eng.Close(nil)
	g.run()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var clients []*peer
	for i := range 3 {
		clients = append(clients, g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) {
			cfg.ContainerID = fmt.Sprint("client", i)
			cfg.MaxFrameSize = []uint32{65536, 600, 4096}[i]
		}))
	}
	var stop atomic.Bool
	var clientsDone, containerDone sync.WaitGroup
	seen := map[*end]int{} // deliveries of it that the container has settled
	containerDone.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 99))
		given := map[*end]bool{}
		for !stop.Load() {
			for _, e := range container.asked {
				if !e.live() {
					continue
				}
				if e.l.Role == amqp.RoleSender {
					sendSome(e, rng, nil)
					continue
				}
				if !given[e] {
					given[e] = true
					e.l.Grant(20)
				}
				for seen[e] < len(e.got) && e.got[seen[e]].whole {
					d := e.got[seen[e]]
					seen[e]++
					if !d.settled {
						e.l.Session.Dispose(amqp.RoleReceiver, d.id, d.id, true, amqp.StateAccepted)
					}
					e.l.Grant(1)
				}
			}
			if rng.IntN(2000) == 0 && len(container.asked) > 0 {
				container.asked[rng.IntN(len(container.asked))].l.Session.End(nil)
			}
			container.pump()
			runtime.Gosched()
		}
	})
	for i, p := range clients {
		clientsDone.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			settled := map[*end]int{}
			begun := time.Now()
			for round := 0; round < 1500 || len(p.sent) < 50 && time.Since(begun) < 20*time.Second; round++ {
				if rng.IntN(200) == 0 {
					p.s.End(nil)
					p.s = p.begin()
				}
				live := 0
				for _, e := range p.ends {
					if !e.live() {
						continue
					}
					live++
					switch {
					case rng.IntN(300) == 0:
						e.l.Detach(rng.IntN(2) == 0, nil)
					case e.l.Role == amqp.RoleSender:
						sendSome(e, rng, p.sent)
					default:
						for settled[e] < len(e.got) && e.got[settled[e]].whole {
							d := e.got[settled[e]]
							settled[e]++
							if !d.settled {
								e.l.Session.Dispose(amqp.RoleReceiver, d.id, d.id, true, amqp.StateAccepted)
							}
							e.l.Grant(1)
						}
						if rng.IntN(50) == 0 {
							e.l.Draining = !e.l.Draining
							e.l.FlowDue()
						}
					}
				}
				if live < 3 && rng.IntN(5) == 0 {
					if rng.IntN(2) == 0 {
						p.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
					} else {
						e := p.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr")}, Target: &amqp.Target{}})
						e.l.Grant(10)
					}
				}
				p.pump()
				if rng.IntN(4) == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	clientsDone.Wait()
	stop.Store(true)
	containerDone.Wait()
	g.run()
	for _, e := range container.asked { // what came last
		if e.l.Role == amqp.RoleReceiver && e.live() {
			for ; seen[e] < len(e.got) && e.got[seen[e]].whole; seen[e]++ {
				if d := e.got[seen[e]]; !d.settled {
					e.l.Session.Dispose(amqp.RoleReceiver, d.id, d.id, true, amqp.StateAccepted)
				}
			}
		}
	}
	g.run()
	open := map[string]*end{} // by name at the container
	for _, e := range container.asked {
		if e.live() {
			open[e.l.Name] = e
		}
	}
	sent := 0
	for i, p := range clients {
		for _, x := range p.sent {
			sent++
			n := 0
			for _, s := range x.said {
				if s == "accepted settled" || s == "released settled" || s == "modified failed settled" {
					n++
				}
			}
			if n > 1 {
				t.Errorf("client %d: delivery %d was decided as %q", i, x.id, x.said)
			}
		}
		for _, e := range p.ends {
			if !e.live() || e.l.Role != amqp.RoleSender {
				continue
			}
			far := open[fmt.Sprintf("%s@client%d", e.l.Name, i)]
			if far == nil {
				t.Errorf("client %d: link %s has no other end", i, e.l.Name)
			} else if e.l.Credit() != far.l.CreditOut() {
				t.Errorf("client %d: link %s has credit %d, the receiver gave %d", i, e.l.Name, e.l.Credit(), far.l.CreditOut())
			}
			if k := e.info(); k.Unsettled != 0 {
				t.Errorf("client %d: link %s has %d unsettled", i, e.l.Name, k.Unsettled)
			}
		}
	}
	if sent < 100 {
		t.Errorf("only %d deliveries were sent", sent)
	}
	for _, e := range container.asked { // each link's messages came in order
		last := -1
		for _, d := range e.got {
			var n int
			if d.aborted {
				continue
			}
			if _, err := fmt.Sscan(bodyOf(d.payload), &n); err != nil || n <= last {
				t.Fatalf("link %s: %q after %d", e.l.Name, bodyOf(d.payload)[:min(20, len(bodyOf(d.payload)))], last)
			}
			last = n
		}
	}
	for _, p := range clients {
		p.eng.Close(nil)
	}
	g.run()
	for _, l := range g.links() {
		t.Errorf("a link is left: %+v", l)
	}
	container.c.mu.Lock()
	defer container.c.mu.Unlock()
	container.c.eng.Sessions(func(s *amqp.Session) {
		if k := s.Owner.(*session); k.in.Len()+k.out.Len() != 0 || k.held.Load() != 0 {
			t.Errorf("a session of the container has %d and %d unsettled, %d octets held", k.in.Len(), k.out.Len(), k.held.Load())
		}
	})
}

// sendSome sends numbered messages on a link, some of them in several frames.
func sendSome(e *end, rng *rand.Rand, sent map[deliveryKey]*sent) {
	for range rng.IntN(4) {
		if e.l.Credit() == 0 || e.l.Session.OutWindow() < 40 {
			return
		}
		d := &amqp.OutDelivery{Settled: rng.IntN(3) == 0, RawTag: []byte{byte(rng.IntN(256)), 1}}
		body := fmt.Sprint(uint32(e.l.DeliveryCount()))
		if rng.IntN(5) == 0 {
			body += " " + string(make([]byte, rng.IntN(9000)))
		}
		id := e.l.Start(d)
		if sent != nil && !d.Settled {
			sent[deliveryKey{e.l.Session, id}] = newSent(id)
		}
		e.l.SendFrames(d, true, true, plain(body), 1<<30)
	}
}

// live reports whether the end is attached, in a session that is.
func (e *end) live() bool { return e.l.Attached() && !e.l.Session.Ended() }

func newSent(id amqp.Serial) *sent { return &sent{id: id} }
