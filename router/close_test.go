package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
)

// TestRouterClose: every connection is told and every goroutine ends; who comes later is turned
// away at once.
func TestRouterClose(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	b.receiver("q", 1)
	a.sender("q").sendN(3)
	g.run()
	done := make(chan struct{})
	go func() { g.r.Close(); close(done) }()
	for closed := false; !closed; {
		select {
		case <-done:
			closed = true
		default:
			a.pump()
			b.pump()
		}
	}
	for _, p := range g.peers {
		if p.closed == nil || p.closed.Error == nil || p.closed.Error.Condition != amqp.ErrCondConnectionForced || p.closed.Error.Description != "router is shutting down" {
			t.Errorf("the peer was told %+v", p.closed)
		}
		if !p.done {
			t.Error("a connection is left")
		}
	}
	for range 2 { // Close must not be confused by those who come and go after it
		w := newWire()
		c := g.r.NewConn(connOptions(g), w)
		if !w.cut {
			t.Error("a late connection is not cut")
		}
		c.Begin()
		c.Input(amqp.AppendFrame(nil, 0, 0, &amqp.Open{ContainerID: "late"}))
		c.End()
		c.Done()
		c.Done()
	}
	g.r.Close()
	if n := g.r.Stats().ConnectionCount; n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestRouterCloseCuts: a peer that answers nothing is cut.
func TestRouterCloseCuts(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	done := make(chan struct{})
	go func() { g.r.Close(); close(done) }()
	eventually(t, "the cut", func() bool {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		return a.w.cut
	})
	a.die()
	<-done
}

// TestConnectionLost: whatever state a connection is in when its socket goes, nothing is left of
// it.
func TestConnectionLost(t *testing.T) {
	states := map[string]func(g *rig, p *peer){
		"open":               func(g *rig, p *peer) {},
		"attach on its way":  func(g *rig, p *peer) { p.attach(amqp.RoleSender, amqp.Attach{Target: target("q")}); p.pump() },
		"attached":           func(g *rig, p *peer) { p.sender("q"); p.receiver("q", 5); p.sender("") },
		"refused":            func(g *rig, p *peer) { p.attach(amqp.RoleReceiver, amqp.Attach{}); g.run() },
		"deliveries waiting": func(g *rig, p *peer) { p.receiver("q", 0); p.sender("q").sendN(3); g.run() },
		"deliveries unsettled": func(g *rig, p *peer) {
			p.receiver("q", 2)
			p.sender("q").sendN(3)
			g.run()
		},
		"half a message": func(g *rig, p *peer) {
			p.receiver("q", 2)
			p.sender("q").start(&amqp.OutDelivery{}).more(plain(strings.Repeat("x", 3000))[:1000])
			g.run()
		},
		"half a stream": func(g *rig, p *peer) {
			p.receiver("q", 2)
			p.sender("q").start(&amqp.OutDelivery{}).more(bigMessage(300000)[:200000])
			g.run()
		},
		"half a frame": func(g *rig, p *peer) {
			p.in = append(p.in, amqp.AppendFrame(nil, 0, 0, &amqp.Begin{})[:7]...)
			p.feed()
		},
		"full socket": func(g *rig, p *peer) {
			p.receiver("q", 50)
			s := p.sender("q")
			p.w.fill(70)
			s.sendN(20)
			g.run()
		},
		"session ended": func(g *rig, p *peer) { p.receiver("q", 1); p.s.End(nil); g.run() },
		"close on its way": func(g *rig, p *peer) {
			p.sender("q")
			p.c.Close(&amqp.Error{Condition: "x:y"})
		},
		"broken socket": func(g *rig, p *peer) {
			p.w.mu.Lock()
			p.w.err = errors.New("broken pipe")
			p.w.mu.Unlock()
			p.eng.Out = amqp.AppendFlowFrame(p.eng.Out, 0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 1000, Echo: true})
			p.pump()
		},
	}
	for name, state := range states {
		for _, way := range []string{"drop", "kill", "protocol error"} {
			t.Run(name+", "+way, func(t *testing.T) {
				g := newRig(t, nil)
				base := g.r.Stats()
				p := g.peer(nil)
				state(g, p)
				switch {
				case way == "drop":
					p.die()
				case way == "kill":
					g.r.KillConnection(p.c.Number(), 0)
				case !p.done:
					p.in = append(p.in, 0, 0, 0, 1, 2, 0, 0, 0)
					p.feed()
				}
				g.run()
				if !p.done {
					p.die() // a full or broken socket says nothing of the cut
				}
				g.core()
				s := g.r.Stats()
				if s.AddrCount != base.AddrCount || s.LinkCount != 0 || s.ConnectionCount != 0 {
					t.Errorf("%d addresses, had %d, %d links, %d connections", s.AddrCount, base.AddrCount, s.LinkCount, s.ConnectionCount)
				}
			})
		}
	}
}

// TestKill: a connection is cut without a word (RT E6); some must not be.
func TestKill(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	if err := g.r.KillConnection(99, 1); err != ErrNotFound {
		t.Errorf("no such connection: %v", err)
	}
	router := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.Role = RoleInterRouter })
	if err := g.r.KillConnection(router.c.Number(), 1); err != ErrForbidden {
		t.Errorf("a router's connection: %v", err)
	}
	if err := g.r.KillConnection(a.c.Number(), 7); err != nil {
		t.Error(err)
	}
	g.run()
	if a.closed != nil || !a.done {
		t.Errorf("done %v, told %+v", a.done, a.closed)
	}
	if lines := g.log.take("ROUTER_CORE"); !slices.Contains(lines, "[C1] Connection force-closed by request from connection [C7]") {
		t.Errorf("log %q", lines)
	}
}

// TestLateWake: a connection that is gone is not woken again, though others still had something
// for it when it went.
func TestLateWake(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	b.receiver("q", 0)
	s := a.sender("q")
	s.sendSettled("1") // waits, and is to be looked at in a while
	g.run()
	g.r.timers.mu.Lock()
	if b.c.timer.index == 0 {
		t.Error("the connection is not to be woken")
	}
	g.r.timers.mu.Unlock()
	b.die()
	g.run()
	g.r.timers.mu.Lock()
	if b.c.timer.index != 0 {
		t.Error("a dead connection is to be woken")
	}
	g.r.timers.mu.Unlock()
	s.wantCredit(t, 250, false)
}

// TestPeerThatDoesNotRead: a peer that makes the router answer and never reads is cut off before
// it has filled the router's memory; what others send it meanwhile stops much earlier.
func TestPeerThatDoesNotRead(t *testing.T) {
	floods := map[string]func(p *peer, i uint32){
		"attaches": func(p *peer, i uint32) {
			name := fmt.Sprint(i)
			p.eng.Out = amqp.AppendFrame(p.eng.Out, 0, 0, &amqp.Attach{Name: name, Handle: 100, Role: amqp.RoleReceiver,
				Source: &amqp.Source{Address: amqp.Some(name + strings.Repeat("x", 10000))}})
			p.eng.Out = amqp.AppendFrame(p.eng.Out, 0, 0, &amqp.Detach{Handle: 100, Closed: true})
		},
		"outcomes": func(p *peer, i uint32) { // of messages that are rejected and released in turn; its window ends it
			for n := range uint32(100) {
				to := []string{"", "nobody"}[n%2]
				p.eng.Out = amqp.AppendTransferFrame(p.eng.Out, 0, &amqp.Transfer{Handle: 0, DeliveryID: amqp.Some(100*i + n), DeliveryTag: []byte{1}}, addressed(to, ""))
			}
		},
	}
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(o *Options) { o.Log = silent{} })
			a, b := g.peer(nil), g.peer(nil)
			b.receiver("q", 5000)
			b.sender("")
			s := a.sender("q")
			b.w.fill(0)
			for range 250 {
				s.sendSettled(string(make([]byte, 15000)))
			}
			g.run()
			most := 0
			for i := uint32(0); !b.done && i < 20000; i++ {
				flood(b, i)
				b.pump()
				b.c.mu.Lock()
				most = max(most, len(b.c.eng.Out))
				b.c.mu.Unlock()
				if i%16 == 0 {
					g.core()
				}
			}
			if !b.done || most > outputMax+1<<20 {
				t.Fatalf("done %v after %d octets of output", b.done, most)
			}
			g.run()
			s.wantCredit(t, 250, false)
		})
	}
}
