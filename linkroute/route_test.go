package linkroute

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

// echo answers an attach with its own termini.
func echo(k *link) {
	k.l.Attach(&amqp.Attach{Source: k.attach.Source, Target: k.attach.Target, Coordinator: k.attach.Coordinator})
}

// ask attaches a link at a client and returns what became of it.
func (p *peer) ask(name string, a *amqp.Attach) *link {
	k := &link{l: p.s.NewLink(name, a.Role)}
	k.l.Owner = k
	k.l.Attach(a)
	p.g.run()
	return k
}

func toTarget(address string) *amqp.Attach {
	return &amqp.Attach{Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some(address)}}
}

func fromSource(address string) *amqp.Attach {
	return &amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some(address)}, Target: &amqp.Target{}}
}

// condition is what a link was refused with, "" when it was not.
func (k *link) condition() amqp.Symbol {
	if k.detach == nil || k.detach.Error == nil {
		return ""
	}
	return k.detach.Error.Condition
}

func (g *rig) addRoute(s *LinkRoutes, l LinkRoute) LinkRoute {
	g.t.Helper()
	made, err := s.Add(l)
	if err != nil {
		g.t.Fatalf("%+v: %v", l, err)
	}
	g.run()
	return made
}

// RT 3.1, L1, L2, L4: link routes come into force with their connections and go with them; the
// address says how many there are.
func TestLinkRouteLife(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewLinkRoutes(g.r, true)
		first := g.addRoute(s, LinkRoute{Name: "lr", Prefix: ".a.b/", Direction: "in", Connection: "broker"})
		g.addRoute(s, LinkRoute{Pattern: "*/c", Direction: "out", ContainerID: "B"})
		g.addRoute(s, LinkRoute{Prefix: "reserved", Direction: "in"})
		addresses := func(key string) router.AddressInfo {
			t.Helper()
			for _, a := range g.r.Addresses() {
				if a.Key == key {
					return a
				}
			}
			t.Fatalf("no address %q", key)
			return router.AddressInfo{}
		}
		status := func(want ...bool) {
			t.Helper()
			var got []bool
			for _, l := range s.List() {
				got = append(got, l.Active)
			}
			if !slices.Equal(got, want) {
				t.Errorf("active: %v, want %v", got, want)
			}
		}
		if first.Prefix != "a.b" || first.ID == 0 || first.Active {
			t.Errorf("made %+v", first)
		}
		status(false, false, false)
		if a := addresses("Ca.b"); a.Containers != 0 || a.Distribution != router.LinkBalanced {
			t.Errorf("%+v", a)
		}
		if n := g.r.Stats().LinkRouteCount; n != 3 {
			t.Errorf("%d link routes", n)
		}
		one := g.container("broker", "A", echo)
		two := g.container("broker", "B", echo)
		status(true, true, false)
		if a := addresses("Ca.b"); a.Containers != 2 {
			t.Errorf("%+v", a)
		}
		if a := addresses("F*/c"); a.Containers != 1 {
			t.Errorf("%+v", a)
		}
		want := []string{"Link Route Activated 'lr' on connection broker", "Link Route Activated 'lr' on connection broker", "Link Route Activated '2' on container B"}
		if got := g.log.take("Link Route"); !slices.Equal(got, want) {
			t.Errorf("logged %q", got)
		}
		c := g.client()
		for i, p := range []*peer{one, two, one} { // L16
			n := len(p.links)
			k := c.ask(string('a'+byte(i)), toTarget("a.b.x"))
			if k.attach == nil || k.attach.Target == nil || len(p.links) != n+1 {
				t.Errorf("attach %d: %+v, the container has %d links", i, k.attach, len(p.links))
			}
		}
		if k := c.ask("r", toTarget("reserved.x")); k.condition() != "qd:no-route-to-dest" {
			t.Errorf("reserved: %q", k.condition())
		}
		one.die()
		g.run()
		status(true, true, false)
		two.die()
		g.run()
		status(false, false, false)
		if k := c.ask("d", toTarget("a.b.x")); k.condition() != "qd:no-route-to-dest" || k.attach.Target != nil {
			t.Errorf("without a container: %q, %+v", k.condition(), k.attach)
		}
		// L4: a deleted route's links stay, new ones are those of an ordinary address.
		three := g.container("broker", "C", echo)
		k := c.ask("e", toTarget("a.b.x"))
		if err := s.Delete(first.ID); err != nil {
			t.Fatal(err)
		}
		g.run()
		if k.detach != nil || len(three.links) != 1 || three.links[0].detach != nil {
			t.Error("the link went with its route")
		}
		if k := c.ask("f", toTarget("a.b.x")); k.detach != nil || len(three.links) != 1 {
			t.Errorf("after the route: %+v, %d links", k.detach, len(three.links))
		}
		for _, a := range g.r.Addresses() {
			if a.Key == "Ca.b" {
				t.Error("the address is still there")
			}
		}
		if err := s.Delete(first.ID); !errors.Is(err, router.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

// RT 3.1: refusals.
func TestLinkRouteRefused(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewLinkRoutes(g.r, true)
		g.addRoute(s, LinkRoute{Name: "taken", Prefix: "a", Direction: "in"})
		for _, tt := range []struct {
			l    LinkRoute
			want error
		}{
			{LinkRoute{Name: "taken", Prefix: "b", Direction: "in"}, router.ErrNameConflict},
			{LinkRoute{Prefix: "b", Direction: "in", Connection: "c", ContainerID: "d"}, ErrBothSelectors},
			{LinkRoute{Prefix: "b"}, ErrNoDirection},
			{LinkRoute{Prefix: "b", Direction: "up"}, ErrDirection},
			{LinkRoute{Direction: "in"}, router.ErrPrefixEither},
			{LinkRoute{Prefix: "b", Pattern: "c", Direction: "in"}, router.ErrPrefixBoth},
			{LinkRoute{Prefix: "./", Direction: "in"}, router.ErrPrefixTokens},
			{LinkRoute{Pattern: "/", Direction: "in"}, router.ErrPatTokens},
		} {
			if _, err := s.Add(tt.l); !errors.Is(err, tt.want) {
				t.Errorf("%+v: %v, want %v", tt.l, err, tt.want)
			}
		}
		g.addRoute(s, LinkRoute{Prefix: "a", Direction: "in"}) // two of one prefix are allowed
		if n := len(s.List()); n != 2 {
			t.Errorf("%d link routes", n)
		}
	})
}

// RT F4, F10, E20 to E23, E35, E36: what is routed, what is refused, and what is none of it.
func TestWhatIsRouted(t *testing.T) {
	dynamic := func(address string) *amqp.Attach {
		return &amqp.Attach{Role: amqp.RoleReceiver, Target: &amqp.Target{}, Source: &amqp.Source{Dynamic: true,
			DynamicNodeProperties: raw(amqp.Map{{Key: amqp.Symbol("x-opt-qd.address"), Value: address}})}}
	}
	never := fromSource("lr.x")
	never.Source.ExpiryPolicy = amqp.ExpiryNever
	timeout := toTarget("lr.x")
	timeout.Target.Timeout = amqp.Some(uint32(10))
	for _, tt := range []struct {
		name  string
		a     *amqp.Attach
		asked string // of the container; "" = nothing is
		cond  amqp.Symbol
	}{
		{"prefix, in", toTarget("lr.x"), "lr.x", ""},
		{"the prefix itself", toTarget("lr"), "lr", ""},
		{"with scheme and slash", toTarget("amqp:/lr/x"), "amqp:/lr/x", ""},
		{"a longer word", toTarget("lrx"), "", ""},
		{"the other direction", fromSource("in.only"), "", ""},
		{"receiver", fromSource("lr/y"), "lr/y", ""},
		{"pattern", toTarget("p.1.q"), "p.1.q", ""},
		{"not the pattern", toTarget("p.1.2.q"), "", ""},
		{"more exact, without destination", toTarget("lr.dead.x"), "", "qd:no-route-to-dest"},
		{"coordinator", &amqp.Attach{Source: &amqp.Source{}, Coordinator: &amqp.Coordinator{Capabilities: symbols("amqp:local-transactions")}}, "coordinator", ""},
		{"dynamic", dynamic("lr.d"), "dynamic", ""},
		{"dynamic elsewhere", dynamic("other"), "", "qd:no-route-to-dest"},
		{"anonymous", &amqp.Attach{Source: &amqp.Source{}, Target: &amqp.Target{}}, "", ""},
		{"expires never", never, "", "qd:link-expiration"},
		{"timeout", timeout, "", "qd:link-expiration"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				s := NewLinkRoutes(g.r, false)
				for _, d := range []string{"in", "out"} {
					g.addRoute(s, LinkRoute{Prefix: "lr", Direction: d, Connection: "broker"})
				}
				g.addRoute(s, LinkRoute{Prefix: "in", Direction: "in", Connection: "broker"})
				g.addRoute(s, LinkRoute{Pattern: "p/*/q", Direction: "in", Connection: "broker"})
				g.addRoute(s, LinkRoute{Prefix: "lr/dead", Direction: "in"})
				g.addRoute(s, LinkRoute{Prefix: "$coordinator", Direction: "in", ContainerID: "B"})
				b := g.container("broker", "B", echo)
				k := g.client().ask("l", tt.a)
				if k.condition() != tt.cond || (tt.cond != "") != (k.detach != nil) {
					t.Errorf("detach %+v, want %q", k.detach, tt.cond)
				}
				asked := ""
				if len(b.links) > 0 {
					switch a := b.links[0].attach; {
					case a.Coordinator != nil:
						asked = "coordinator"
						if !slices.Equal(a.Coordinator.Capabilities, tt.a.Coordinator.Capabilities) {
							t.Errorf("coordinator %+v", a.Coordinator)
						}
					case a.Source != nil && a.Source.Dynamic:
						asked = "dynamic"
					case a.Target.Address.Set:
						asked = a.Target.Address.V
					default:
						asked = a.Source.Address.V
					}
				}
				if asked != tt.asked {
					t.Errorf("the container was asked for %q, want %q", asked, tt.asked)
				}
			})
		})
	}
}

// RT L6, L14: the address at the container and at the client.
func TestExternalPrefixOfLinks(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewLinkRoutes(g.r, true)
		g.addRoute(s, LinkRoute{Prefix: "foo", Direction: "in", Connection: "broker", AddExternalPrefix: "bar."})
		g.addRoute(s, LinkRoute{Prefix: "foo", Direction: "in", Connection: "broker", AddExternalPrefix: "late."}) // L6
		g.addRoute(s, LinkRoute{Prefix: "qdr-a", Direction: "out", Connection: "broker", DelExternalPrefix: "qdr-a."})
		b := g.container("broker", "B", echo)
		c := g.client()
		k := c.ask("in", toTarget("foo.x"))
		if got := b.links[0].attach.Target.Address.V; got != "bar.foo.x" || k.attach.Target.Address.V != "foo.x" {
			t.Errorf("asked for %q, told %q", got, k.attach.Target.Address.V)
		}
		k = c.ask("out", fromSource("qdr-a.x"))
		if got := b.links[1].attach.Source.Address.V; got != "x" || k.attach.Source.Address.V != "qdr-a.x" {
			t.Errorf("asked for %q, told %q", got, k.attach.Source.Address.V)
		}
	})
}

// RT 3.6: link routes of a connection, of whatever role.
func TestLinkRoutesOfConnections(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewLinkRoutes(g.r, true)
		service := g.peer(router.ConnOptions{}, "service", echo)
		made, err := s.AddFor(service.c.Number(), LinkRoute{Name: "n", Pattern: "svc/#", Direction: "in"})
		if err != nil || made.ContainerID != "service" || !made.Active {
			t.Fatalf("made %+v, %v", made, err)
		}
		if list := s.ListFor(service.c.Number()); len(list) != 1 || len(s.List()) != 0 || len(s.ListFor(99)) != 0 {
			t.Errorf("%d of the connection, %d of the configuration", len(list), len(s.List()))
		}
		for _, tt := range []struct {
			l    LinkRoute
			want error
		}{{LinkRoute{Direction: "in"}, ErrNoPattern}, {LinkRoute{Pattern: "a", Direction: "x"}, ErrDirection}, {LinkRoute{Pattern: "./", Direction: "in"}, router.ErrPatTokens}} {
			if _, err := s.AddFor(service.c.Number(), tt.l); !errors.Is(err, tt.want) {
				t.Errorf("%+v: %v, want %v", tt.l, err, tt.want)
			}
		}
		if _, err := s.AddFor(12345, LinkRoute{Pattern: "a", Direction: "in"}); !errors.Is(err, ErrNoParent) {
			t.Errorf("of no connection: %v", err)
		}
		c := g.client()
		if k := c.ask("a", toTarget("svc/1")); k.detach != nil || len(service.links) != 1 || service.links[0].l.Name != "a@client" {
			t.Fatalf("not routed: %+v", k.detach)
		}
		if err := s.DeleteFor(service.c.Number(), 777); !errors.Is(err, router.ErrNotFound) {
			t.Errorf("deleted what is not there: %v", err)
		}
		again, _ := s.AddFor(service.c.Number(), LinkRoute{Pattern: "svc/#", Direction: "in"})
		if err := s.DeleteFor(service.c.Number(), made.ID); err != nil {
			t.Errorf("delete: %v", err)
		}
		if k := c.ask("b", toTarget("svc/1")); k.detach != nil || len(service.links) != 2 {
			t.Errorf("the other route of the connection: %+v", k.detach)
		}
		service.die()
		g.run()
		if err := s.DeleteFor(service.c.Number(), again.ID); err != nil {
			t.Errorf("delete after the connection: %v", err)
		}
		if n := len(s.spaces) + len(s.byConn); n != 0 {
			t.Errorf("%d things are left", n)
		}
		if lines := g.log.take("Link Route"); len(lines) != 4 || !strings.Contains(lines[0], "on container service") {
			t.Errorf("logged %q", lines)
		}
	})
}

// RT L3: what other routers advertise is enough to route.
func TestLearnedRoutes(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewLinkRoutes(g.r, true)
		g.r.InCore(func(*router.Core) {
			r := routing{s}
			q := func(address string) *router.LinkQuery {
				return &router.LinkQuery{Attach: toTarget(address), Container: "c", Reachable: func(id string) bool { return id != "gone" }}
			}
			if d := r.Route(q("lr.x")); d != nil {
				t.Errorf("routed before it was learned: %+v", d)
			}
			r.Learned("Clr", "B", 2, true)
			r.Learned("Clr", "gone", 1, true)
			r.Learned("Epat/*", "A", 3, true)
			r.Learned("Clr.x", "no", 5, false)
			if d := r.Route(q("lr.x")); d == nil || d.Router != "B" || d.Conn != nil || d.Attach.Target.Address.V != "lr.x" {
				t.Errorf("routed %+v", d)
			}
			if d := r.Route(q("pat/1")); d == nil || d.Router != "A" {
				t.Errorf("routed %+v", d)
			}
			r.Learned("Clr", "B", 2, false)
			if d := r.Route(q("lr.x")); d == nil || d.Refusal == nil || d.Refusal.Condition != "qd:no-route-to-dest" {
				t.Errorf("routed %+v", d)
			}
			r.Learned("Clr", "gone", 1, false)
			if d := r.Route(q("lr.x")); d != nil {
				t.Errorf("still routed: %+v", d)
			}
			r.Learned("Epat/*", "A", 3, false)
			if len(s.spaces) != 0 {
				t.Errorf("%d spaces are left", len(s.spaces))
			}
			// The same words with another separator are another key, and one pattern.
			r.Learned("Ca/b", "A", 1, true)
			r.Learned("Ca.b", "B", 2, true)
			r.Learned("Ca/b", "A", 1, false)
			if d := r.Route(q("a.b.c")); d == nil || d.Router != "B" {
				t.Errorf("routed %+v", d)
			}
		})
		g.addRoute(s, LinkRoute{Prefix: "a/b", Direction: "in", Connection: "broker"})
		b := g.container("broker", "B", echo)
		g.run()
		g.r.InCore(func(*router.Core) { // RT L16
			d := routing{s}.Route(&router.LinkQuery{Attach: toTarget("a.b.c"), Container: "c", Reachable: func(string) bool { return true }})
			if d == nil || d.Conn != b.c {
				t.Errorf("routed %+v", d)
			}
		})
	})
}

// RT E43: a tenant's addresses have its prefix on the way, not at home.
func TestTenant(t *testing.T) {
	bubble(t, func(g *rig) {
		s := NewLinkRoutes(g.r, true)
		g.addRoute(s, LinkRoute{Prefix: "vhost/lr", Direction: "in", Connection: "broker"})
		b := g.container("broker", "B", echo)
		g.run()
		g.r.InCore(func(*router.Core) {
			r := routing{s}
			q := &router.LinkQuery{Attach: toTarget("/lr/x"), Tenant: "vhost/", Container: "c"}
			d := r.Route(q)
			if d == nil || d.Conn != b.c || d.Attach.Target.Address.V != "vhost/lr/x" {
				t.Fatalf("routed %+v", d)
			}
			if a := d.Answer(&amqp.Attach{Source: &amqp.Source{}, Target: d.Attach.Target}); a.Target.Address.V != "/lr/x" {
				t.Errorf("told %q", a.Target.Address.V)
			}
			q = &router.LinkQuery{Tenant: "vhost/", Attach: &amqp.Attach{Target: &amqp.Target{Dynamic: true,
				DynamicNodeProperties: raw(amqp.Map{{Key: amqp.Symbol("x-opt-qd.address"), Value: "lr/d"}})}}}
			d = r.Route(q)
			if d == nil {
				t.Fatal("not routed")
			}
			if v, _ := d.Attach.Target.DynamicNodeProperties.Value(); v.(amqp.Map)[0].Value != "vhost/lr/d" {
				t.Errorf("properties %v", v)
			}
			if d := r.Route(&router.LinkQuery{Attach: toTarget("lr/x"), Container: "c"}); d != nil {
				t.Errorf("routed without the tenant: %+v", d)
			}
		})
	})
}
