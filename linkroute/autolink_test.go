package linkroute

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/router"
)

// waypoint is the configuration of a brokered queue (RT A17).
var waypoint = router.AddressConfig{Prefix: "q", Distribution: router.Balanced, EgressPhase: 1}

// add makes an autolink that the router must take.
func (g *rig) add(s *AutoLinks, cfg AutoLink) uint64 {
	g.t.Helper()
	if cfg.Phase == 0 {
		cfg.Phase = -1
	}
	made, err := s.Add(cfg)
	if err != nil {
		g.t.Fatalf("%+v: %v", cfg, err)
	}
	g.run()
	return made.ID
}

// want compares how the autolinks stand, as "active 7" with the identity of the link or "inactive".
func (g *rig) want(s *AutoLinks, want ...string) {
	g.t.Helper()
	var got []string
	for _, al := range s.List() {
		text := al.Status
		if al.LastError != "" {
			text += ": " + al.LastError
		}
		if (al.Link != 0) != (al.Status == "active" || al.Status == "attaching") {
			text += fmt.Sprint(", link ", al.Link)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("the autolinks are %q, want %q", got, want)
	}
}

// sleep lets time pass, with everybody awake.
func (g *rig) sleep(d time.Duration) {
	for g.run(); d > 0; g.run() {
		step := min(d, 100*time.Millisecond)
		time.Sleep(step)
		d -= step
	}
}

// last is the latest link that the router attached to a peer.
func (p *peer) last() *link { return p.links[len(p.links)-1] }

// TestAutoLinkRefusals: what is not right is refused, in this order, and leaves nothing behind
// (RT A1).
func TestAutoLinkRefusals(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		g.add(s, AutoLink{Name: "taken", Address: "a", Direction: "in"})
		for _, tt := range []struct {
			AutoLink
			want error
		}{
			{AutoLink{Name: "taken", Connection: "c", ContainerID: "d"}, router.ErrNameConflict},
			{AutoLink{Connection: "c", ContainerID: "d"}, ErrBothSelectors},
			{AutoLink{Direction: "in"}, ErrAddressNeeded},
			{AutoLink{Address: "a"}, ErrAddressNeeded},
			{AutoLink{Address: "a", Direction: "up"}, ErrDirection},
			{AutoLink{Address: "a", Direction: "in", Phase: 10}, ErrPhase},
			{AutoLink{Address: "_local/a", Direction: "in"}, ErrAddress},
			{AutoLink{Address: "/", Direction: "in"}, ErrAddress},
		} {
			if _, err := s.Add(tt.AutoLink); err != tt.want {
				t.Errorf("%+v: %v, want %v", tt.AutoLink, err, tt.want)
			}
		}
		if n := len(s.List()); n != 1 || g.r.Stats().AutoLinkCount != 1 {
			t.Errorf("%d autolinks, %d in the statistics", n, g.r.Stats().AutoLinkCount)
		}
		if err := s.Delete(4711); err != router.ErrNotFound {
			t.Errorf("deleting what is not there: %v", err)
		}
	})
}

// TestAutoLinkPhases: the phase that an autolink has when none is given (RT 4.1), and the entry
// that its address has from the start (A2).
func TestAutoLinkPhases(t *testing.T) {
	tests := []struct {
		AutoLink
		phase int
		key   string
	}{
		{AutoLink{Direction: "out", Phase: -1}, 0, "M0q"},
		{AutoLink{Direction: "in", Phase: -1}, 1, "M1q"},
		{AutoLink{Direction: "in", Phase: -1, Fallback: true}, 0, "M0q"},
		{AutoLink{Direction: "out", Phase: -1, Fallback: true}, 0, "MFq"},
		{AutoLink{Direction: "out", Phase: 3}, 3, "M3q"},
		{AutoLink{Direction: "in", Phase: 0}, 0, "M0q"},
		{AutoLink{Direction: "in", Phase: 9}, 9, "M9q"},
	}
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		for _, tt := range tests {
			tt.Address = "amqp:/q"
			made, err := s.Add(tt.AutoLink)
			if err != nil || made.Phase != tt.phase || made.Address != "q" {
				t.Errorf("%+v: %+v, %v; want phase %d", tt.AutoLink, made, err, tt.phase)
			}
			has := func(a router.AddressInfo) bool { return a.Key == tt.key && a.Distribution == router.Balanced }
			if !slices.ContainsFunc(g.r.Addresses(), has) {
				t.Errorf("%+v: no entry %s", tt.AutoLink, tt.key)
			}
			if err := s.Delete(made.ID); err != nil {
				t.Error(err)
			}
			if slices.ContainsFunc(g.r.Addresses(), has) {
				t.Errorf("%+v: the entry %s is left", tt.AutoLink, tt.key)
			}
		}
	})
}

// TestAutoLinkAttach: what the container is asked for (RT A3).
func TestAutoLinkAttach(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		b := g.container("broker", "B", take)
		g.add(s, AutoLink{Address: "q", Direction: "out", Connection: "broker"})
		g.add(s, AutoLink{Address: "q", Direction: "in", ContainerID: "B", ExternalAddress: "/queue/q"})
		if len(b.links) != 2 {
			t.Fatalf("%d links", len(b.links))
		}
		out, in := b.links[0].attach, b.links[1].attach
		if out.Role != amqp.RoleSender || out.Target.Address.V != "q" || out.Source.Address.Set || out.Target.ExpiryPolicy != amqp.ExpiryLinkDetach {
			t.Errorf("out: %+v %+v %+v", out, out.Source, out.Target)
		}
		if in.Role != amqp.RoleReceiver || in.Source.Address.V != "/queue/q" || in.Target.Address.Set {
			t.Errorf("in: %+v %+v %+v", in, in.Source, in.Target)
		}
		for _, a := range []*amqp.Attach{out, in} {
			if len(a.Name) != len("qdlink.")+15 || a.Name[:7] != "qdlink." {
				t.Errorf("name %q", a.Name)
			}
		}
		if b.links[0].l.Session != b.links[1].l.Session { // RT E12
			t.Error("two sessions")
		}
		g.want(s, "active", "active")
	})
}

// TestAutoLinkBrokeredQueue: a queue on a broker, from its producers through it to its consumers
// (RT A11 to A15, A17 to A19).
func TestAutoLinkBrokeredQueue(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		out := g.add(s, AutoLink{Name: "to", Address: "q", Direction: "out", Connection: "broker"})
		g.add(s, AutoLink{Address: "q", Direction: "in", Connection: "broker"})
		c := g.client()
		sender := c.attach(amqp.RoleSender, "q", 0)
		g.want(s, "inactive", "inactive")
		if sender.l.Credit() != 0 {
			t.Errorf("%d credit before the broker is there", sender.l.Credit())
		}
		b := g.container("broker", "B", take)
		g.want(s, "active", "active")
		to, from := b.links[0], b.links[1]
		if sender.l.Credit() != 250 || from.l.Credit() != 0 {
			t.Errorf("credit: sender %d, broker %d", sender.l.Credit(), from.l.Credit())
		}
		sender.send("1", "2", "3")
		g.run()
		if !slices.Equal(to.bodies, []string{"1", "2", "3"}) || len(sender.said) != 0 {
			t.Errorf("the broker got %q, the sender heard %q", to.bodies, sender.said)
		}
		to.settle(amqp.StateAccepted)
		g.run()
		if !slices.Equal(sender.said, []string{"accepted", "accepted", "accepted"}) {
			t.Errorf("the sender heard %q", sender.said)
		}
		receiver := c.attach(amqp.RoleReceiver, "q", 10)
		if from.l.Credit() != 250 {
			t.Errorf("broker's credit %d", from.l.Credit())
		}
		from.send(to.bodies...)
		g.run()
		if !slices.Equal(receiver.bodies, to.bodies) || len(from.said) != 0 || from.l.Credit() != 247 {
			t.Errorf("received %q; the broker heard %q and has %d credit", receiver.bodies, from.said, from.l.Credit())
		}
		receiver.settle(amqp.StateAccepted)
		g.run()
		if len(from.said) != 3 || from.l.Credit() != 250 {
			t.Errorf("the broker heard %q and has %d credit", from.said, from.l.Credit())
		}
		stats := g.r.Stats()
		if stats.EgressRouteContainer != 3 || stats.IngressRouteContainer != 3 {
			t.Errorf("statistics %+v", stats)
		}
		for _, a := range g.r.Addresses() {
			switch a.Key {
			case "M0q":
				if a.Ingress != 3 || a.Egress != 3 || a.EgressRouteContainer != 3 || a.IngressRouteContainer != 0 || a.Subscribers != 1 {
					t.Errorf("phase 0: %+v", a)
				}
			case "M1q":
				if a.Ingress != 3 || a.Egress != 3 || a.EgressRouteContainer != 0 || a.IngressRouteContainer != 3 || a.Subscribers != 1 {
					t.Errorf("phase 1: %+v", a)
				}
			}
		}
		sender.send("4")
		g.run()
		if err := s.Delete(out); err != nil {
			t.Error(err)
		}
		g.run()
		if to.detach == nil || !to.detach.Closed || to.detach.Error != nil || sender.said[3] != "modified" { // A9
			t.Errorf("detach %+v; the sender heard %q", to.detach, sender.said)
		}
		g.sleep(time.Minute)
		if len(b.links) != 2 {
			t.Error("a deleted autolink was attached again")
		}
		g.want(s, "active")
	}, waypoint)
}

// TestAutoLinkRetries: a container that does not have the queue is asked again after 2 s and then
// every 5 s, until it has (RT A4 to A6).
func TestAutoLinkRetries(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		b := g.container("broker", "B", refuse)
		g.log.take("")
		g.add(s, AutoLink{Address: "q", Direction: "in", Connection: "broker"})
		g.want(s, "failed: Node not found: q")
		for i, wait := range []time.Duration{2 * time.Second, 5 * time.Second, 5 * time.Second} {
			g.sleep(wait - 10*time.Millisecond)
			if len(b.links) != i+1 {
				t.Fatalf("%d attempts just before retry %d", len(b.links), i)
			}
			g.sleep(20 * time.Millisecond)
			if len(b.links) != i+2 {
				t.Fatalf("%d attempts just after retry %d", len(b.links), i)
			}
			g.want(s, "failed: Node not found: q")
		}
		b.accept = take
		g.sleep(5 * time.Second)
		g.want(s, "active: Node not found: q")
		b.last().l.Detach(false, nil) // an active one is detached
		g.run()
		g.want(s, "failed")
		g.sleep(5 * time.Second)
		g.want(s, "active")
		if lines := g.log.take("Auto Link"); len(lines) != 11 || lines[1] != "Auto Link Activation Failed. Node not found: q '1' on connection broker" {
			t.Errorf("logged %q", lines)
		}
	})
}

// TestAutoLinkReconnect: with its connection an autolink becomes inactive, a retry that was to come
// is off, and on the next connection there is one link, not two (RT A7, Q7).
func TestAutoLinkReconnect(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		g.add(s, AutoLink{Address: "q", Direction: "out", ContainerID: "B"})
		b := g.container("listener/x", "B", refuse)
		g.want(s, "failed: Node not found: q")
		b.die()
		g.run()
		g.want(s, "inactive: Node not found: q")
		b2 := g.container("listener/x", "B", take)
		g.sleep(time.Minute)
		if len(b2.links) != 1 || len(b.links) != 1 {
			t.Errorf("%d and %d links", len(b.links), len(b2.links))
		}
		g.want(s, "active: Node not found: q")
		b2.eng.Close(nil)
		g.run()
		g.want(s, "inactive: Node not found: q")
		if lines := g.log.take("Auto Link Deactivated"); !slices.Equal(lines, []string{"Auto Link Deactivated '1' on container B", "Auto Link Deactivated '1' on container B"}) {
			t.Errorf("logged %q", lines)
		}
	})
}

// TestAutoLinkSessionEnded: a broker that ends the session gets the link in a new one (RT L35, A5).
func TestAutoLinkSessionEnded(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		b := g.container("broker", "B", take)
		g.add(s, AutoLink{Address: "q", Direction: "out", Connection: "broker"})
		b.last().l.Session.End(nil)
		g.run()
		g.want(s, "failed")
		g.sleep(2 * time.Second)
		g.want(s, "active")
		if len(b.links) != 2 || b.links[1].l.Session == b.links[0].l.Session {
			t.Error("no new session")
		}
	})
}

// TestAutoLinkSessionEndedByAnAttach: to a broker that ends the session instead of refusing a link,
// the link that it does not like is attached alone, and no other suffers from it again (L35, A5).
func TestAutoLinkSessionEndedByAnAttach(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		there := false
		b := g.container("broker", "B", func(k *link) {
			if k.attach.Source.Address.V == "missing" && !there {
				k.l.Session.End(&amqp.Error{Condition: amqp.ErrCondNotFound, Description: "no queue 'missing'"})
				return
			}
			take(k)
		})
		for _, address := range []string{"a", "missing", "b"} {
			g.add(s, AutoLink{Address: address, Direction: "in", Connection: "broker"})
		}
		const text = ": no queue 'missing'"
		g.want(s, "failed"+text, "failed"+text, "active") // the third came after
		g.sleep(2 * time.Second)
		g.want(s, "active"+text, "failed"+text, "active")
		if b.links[0].l.Session == b.links[2].l.Session {
			t.Error("a session that was ended is used again")
		}
		attaches := len(b.links)
		for range 3 {
			g.sleep(5 * time.Second)
			g.want(s, "active"+text, "failed"+text, "active")
		}
		if n := len(b.links) - attaches; n != 3 {
			t.Errorf("%d attaches in 15 s, want 3 of the one link", n)
		}
		there = true
		g.sleep(5 * time.Second)
		g.want(s, "active"+text, "active"+text, "active")
	})
}

// TestAutoLinkSeveralConnections: an autolink has a link on each matching connection; one that
// fails is tried again alone (RT A8, Q7), and messages are spread over all (A20, A21).
func TestAutoLinkSeveralConnections(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		b1, b2, b3 := g.container("broker", "B", take), g.container("broker", "C", take), g.container("other", "B", take)
		g.add(s, AutoLink{Address: "q", Direction: "out", Connection: "broker"})
		if len(b1.links) != 1 || len(b2.links) != 1 || len(b3.links) != 0 {
			t.Fatalf("%d, %d and %d links", len(b1.links), len(b2.links), len(b3.links))
		}
		newest := s.List()[0].Link
		sender := g.client().attach(amqp.RoleSender, "q", 0)
		sender.send("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		g.run()
		if len(b1.last().bodies) != 5 || len(b2.last().bodies) != 5 {
			t.Errorf("spread %q and %q", b1.last().bodies, b2.last().bodies)
		}
		b2.accept = refuse
		b2.last().l.Detach(true, nil)
		g.run()
		g.want(s, "active")
		if now := s.List()[0].Link; now >= newest {
			t.Errorf("the link is %d, and was %d", now, newest)
		}
		g.sleep(10 * time.Second)
		if len(b1.links) != 1 || len(b2.links) != 3 {
			t.Errorf("%d and %d links", len(b1.links), len(b2.links))
		}
		sender.send("x")
		g.run()
		if !slices.Contains(b1.last().bodies, "x") {
			t.Errorf("the one left got %q", b1.last().bodies)
		}
		if err := s.Delete(s.List()[0].ID); err != nil {
			t.Error(err)
		}
		g.sleep(time.Minute)
		if b1.last().detach == nil || len(b2.links) != 3 {
			t.Error("deletion left something")
		}
	})
}

// TestAutoLinkWithoutChannel: a container whose channels are all in use is tried again.
func TestAutoLinkWithoutChannel(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		b := g.container("broker", "B", take)
		var sessions []*amqp.Session
		for range 11 { // all that its channel-max allows
			x, err := b.eng.Begin()
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, x)
		}
		g.run()
		g.add(s, AutoLink{Address: "q", Direction: "out", Connection: "broker"})
		if al := s.List()[0]; al.Status != "failed" || al.LastError == "" || len(b.links) != 0 {
			t.Errorf("%+v", al)
		}
		sessions[0].End(nil)
		g.sleep(2 * time.Second)
		if al := s.List()[0]; al.Status != "active" {
			t.Errorf("%+v", al)
		}
	})
}

// TestAutoLinkFallback: what no consumer takes goes to the queue of the fallback and comes back from
// it when somebody is there; what comes from the queue never goes to it again (RT 2.7, A16).
func TestAutoLinkFallback(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewAutoLinks(g.r)
		b := g.container("broker", "B", take)
		c := g.client()
		sender := c.attach(amqp.RoleSender, "f", 0)
		if sender.l.Credit() != 0 {
			t.Error("credit without consumer and queue")
		}
		g.add(s, AutoLink{Address: "f", Direction: "out", Fallback: true, Connection: "broker"})
		g.add(s, AutoLink{Address: "f", Direction: "in", Fallback: true, Connection: "broker"})
		to, from := b.links[0], b.links[1]
		if sender.l.Credit() != 250 || from.l.Credit() != 250 {
			t.Errorf("credit: sender %d, queue %d", sender.l.Credit(), from.l.Credit())
		}
		sender.send("1", "2")
		g.run()
		if !slices.Equal(to.bodies, []string{"1", "2"}) {
			t.Errorf("the queue got %q", to.bodies)
		}
		to.settle(amqp.StateAccepted)
		from.send("early")
		g.run()
		if !slices.Equal(sender.said, []string{"accepted", "accepted"}) || !slices.Equal(from.said, []string{"released"}) || len(to.bodies) != 2 {
			t.Errorf("the sender heard %q, the queue %q and got %q", sender.said, from.said, to.bodies)
		}
		receiver := c.attach(amqp.RoleReceiver, "f", 10)
		sender.send("3")
		from.send("1", "2")
		g.run()
		got := slices.Sorted(slices.Values(receiver.bodies))
		if !slices.Equal(got, []string{"1", "2", "3"}) || len(to.bodies) != 2 {
			t.Errorf("received %q, the queue got %q", receiver.bodies, to.bodies)
		}
		if stats := g.r.Stats(); stats.RedirectedToFallback != 2 || stats.Ingress != 3 || stats.Egress != 3 {
			t.Errorf("statistics %+v", stats)
		}
	}, router.AddressConfig{Prefix: "f", Distribution: router.Balanced, Fallback: true, Priority: -1})
}

// TestAutoLinkChain: autolinks pass a message from phase to phase, each by way of a container, to a
// consumer that attaches at the last (RT F15, F16, F18).
func TestAutoLinkChain(t *testing.T) {
	for _, hops := range []int{1, 2, 4, 9} {
		t.Run(fmt.Sprint(hops, " hops"), func(t *testing.T) {
			bubble(t, func(g *rig) {
				s := NewAutoLinks(g.r)
				c := g.client()
				receiver := c.attach(amqp.RoleReceiver, "q", 10)
				sender := c.attach(amqp.RoleSender, "q", 0)
				var brokers []*peer
				for i := range hops {
					name := fmt.Sprint("broker", i)
					brokers = append(brokers, g.container(name, name, take))
					for _, al := range []AutoLink{{Direction: "out", Phase: i}, {Direction: "in", Phase: i + 1}} {
						al.Address, al.Connection = "q", name
						if _, err := s.Add(al); err != nil {
							t.Fatal(err)
						}
					}
				}
				g.run()
				sender.send("m")
				g.run()
				for i, b := range brokers {
					to, from := b.links[0], b.links[1]
					if !slices.Equal(to.bodies, []string{"m"}) {
						t.Fatalf("broker %d got %q", i, to.bodies)
					}
					to.settle(amqp.StateAccepted)
					from.send("m")
					g.run()
				}
				if !slices.Equal(receiver.bodies, []string{"m"}) {
					t.Errorf("received %q", receiver.bodies)
				}
				for phase := range hops + 1 {
					i := slices.IndexFunc(g.r.Addresses(), func(a router.AddressInfo) bool { return a.Key == fmt.Sprintf("M%dq", phase) })
					if i < 0 {
						t.Errorf("no entry for phase %d", phase)
					} else if a := g.r.Addresses()[i]; a.Ingress != 1 || a.Egress != 1 || a.Subscribers != 1 {
						t.Errorf("phase %d: %+v", phase, a)
					}
				}
			}, router.AddressConfig{Prefix: "q", Distribution: router.Balanced, EgressPhase: hops, Priority: -1})
		})
	}
}
