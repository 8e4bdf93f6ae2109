package router

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"qdrouter/amqp"
)

// TestRefusals: what an attach is refused with, and in which form (RT E18 to E32).
func TestRefusals(t *testing.T) {
	source := func(address string, capabilities ...string) *amqp.Source {
		s := &amqp.Source{Address: amqp.Opt[string]{V: address, Set: address != ""}}
		if capabilities != nil {
			s.Capabilities = amqp.AppendValue(nil, symbols(capabilities...))
		}
		return s
	}
	tests := []struct {
		name  string
		role  amqp.Role
		conn  Role
		a     amqp.Attach
		cond  amqp.Symbol
		descr string
	}{
		{"receiver without source (E20)", amqp.RoleReceiver, RoleNormal, amqp.Attach{Target: target("x")}, "qd:no-route-to-dest", "No route to the destination node"},
		{"receiver without address (E20)", amqp.RoleReceiver, RoleNormal, amqp.Attach{Source: &amqp.Source{}}, "qd:no-route-to-dest", "No route to the destination node"},
		{"receiver on another router (E20)", amqp.RoleReceiver, RoleNormal, amqp.Attach{Source: source("_topo/0/other/x")}, "qd:no-route-to-dest", "No route to the destination node"},
		{"sender to nothing", amqp.RoleSender, RoleNormal, amqp.Attach{Target: target("amqp://h")}, "qd:no-route-to-dest", "No route to the destination node"},
		{"coordinator (E21)", amqp.RoleSender, RoleNormal, amqp.Attach{Coordinator: &amqp.Coordinator{}}, "amqp:precondition-failed",
			"The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured to use transactions."},
		{"router control (E24)", amqp.RoleReceiver, RoleNormal, amqp.Attach{Source: source("x", "qd.router")}, "qd:forbidden", "Connectivity to the node is forbidden"},
		{"router data (E24)", amqp.RoleSender, RoleRouteContainer, amqp.Attach{Target: &amqp.Target{Capabilities: amqp.AppendSymbol(nil, "qd.router-data")}}, "qd:forbidden", "Connectivity to the node is forbidden"},
		{"link between routers (E25)", amqp.RoleSender, RoleInterRouter, amqp.Attach{Target: target("x")}, "qd:connection-role", "Link attach forbidden on inter-router connection"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, nil)
			base := g.r.Stats()
			p := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.Role = tt.conn })
			e := p.attach(tt.role, tt.a)
			g.run()
			if e.answer == nil || e.detach == nil || !e.detach.Closed || e.detach.Error == nil || e.detach.Error.Condition != tt.cond || e.detach.Error.Description != tt.descr {
				t.Fatalf("answer %+v, detach %+v", e.answer, e.detach)
			}
			if tt.role == amqp.RoleSender && (e.answer.Target != nil || e.answer.Coordinator != nil) || tt.role == amqp.RoleReceiver && e.answer.Source != nil {
				t.Errorf("the terminus is not null: %+v", e.answer)
			}
			if s := g.r.Stats(); s.LinkCount != 0 || s.AddrCount != base.AddrCount {
				t.Errorf("%d links, %d addresses are left", s.LinkCount, s.AddrCount)
			}
			if tt.conn == RoleNormal {
				p.sender("x") // the session goes on
			}
		})
	}
}

// TestAttachAnswer: settlement modes are the router's, termini are echoed, what the router does
// not do is not promised (RT E13, E14, E16).
func TestAttachAnswer(t *testing.T) {
	p := newRig(t, nil).peer(nil)
	properties := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("a"), Value: "b"}}))
	filter := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("f"), Value: amqp.Described{Descriptor: amqp.Symbol("x"), Value: "y"}}}))
	s := &amqp.Source{Address: amqp.Some("q"), Durable: amqp.Some(uint32(2)), Timeout: amqp.Some(uint32(9)), DistributionMode: "copy",
		Filter: filter, DefaultOutcome: amqp.StateReleased, Outcomes: amqp.AppendValue(nil, symbols("amqp:accepted:list")), Capabilities: amqp.AppendSymbol(nil, "queue")}
	e := p.attach(amqp.RoleReceiver, amqp.Attach{Source: s, Target: &amqp.Target{Address: amqp.Some("here"), ExpiryPolicy: "never"},
		SndSettleMode: amqp.Some(amqp.SndSettleModeUnsettled), RcvSettleMode: amqp.Some(amqp.RcvSettleModeSecond), Properties: properties,
		OfferedCapabilities: amqp.AppendSymbol(nil, "c"), DesiredCapabilities: amqp.AppendSymbol(nil, "c"), MaxMessageSize: amqp.Some(uint64(5))})
	p.g.run()
	want := *s
	want.DefaultOutcome, want.ExpiryPolicy = nil, "session-end"
	a := e.answer
	if a == nil || a.SndSettleMode != amqp.Some(uint8(2)) || a.RcvSettleMode != amqp.Some(uint8(0)) || a.MaxMessageSize != amqp.Some(uint64(0)) ||
		a.Properties != nil || a.OfferedCapabilities != nil || a.DesiredCapabilities != nil || a.Unsettled != nil {
		t.Fatalf("answer %+v", a)
	}
	if got, want := a.Source.Append(nil), want.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("source %+v", a.Source)
	}
	if a.Target.Address != amqp.Some("here") || a.Target.ExpiryPolicy != "never" {
		t.Errorf("target %+v", a.Target)
	}
}

// TestDynamicReceiver: the router makes the address, known on this router only and gone with its
// last link (RT E33).
func TestDynamicReceiver(t *testing.T) {
	for mode, form := range map[Mode]string{Standalone: `^amqp:/_topo/0/R/temp\.[a-zA-Z0-9+_]{15}$`, Edge: `^amqp:/_edge/R/temp\.[a-zA-Z0-9+_]{15}$`} {
		g := newRig(t, func(o *Options) { o.Mode, o.DefaultDistribution = mode, Multicast })
		base := g.r.Stats().AddrCount
		a, b := g.peer(nil), g.peer(nil)
		r := b.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Dynamic: true}})
		r.l.Grant(10)
		r2 := b.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Dynamic: true}})
		g.run()
		address := r.answer.Source.Address.V
		if !regexp.MustCompile(form).MatchString(address) || !r.answer.Source.Dynamic || address == r2.answer.Source.Address.V {
			t.Fatalf("%s: source %+v", mode, r.answer.Source)
		}
		s, anon := a.sender(address), a.sender("")
		x := s.send("1")
		y := anon.transfer(&amqp.OutDelivery{}, addressed(address, "2"))
		g.run()
		wantBodies(t, r, "1", "2")
		r.say(0, 1, amqp.StateAccepted, true)
		wantSaid(t, []*sent{x, y}, "accepted settled")
		key := r.info().OwningAddr
		if i := g.addressInfo(key); key[0] != classLocal || i.Distribution != Balanced {
			t.Errorf("%s: address %+v", mode, i)
		}
		s.close()
		r.close()
		r2.close()
		y = anon.transfer(&amqp.OutDelivery{}, addressed(address, "3"))
		g.run()
		wantSaid(t, []*sent{y}, "released settled")
		if n := g.r.Stats().AddrCount; n != base {
			t.Errorf("%s: %d addresses, had %d", mode, n, base)
		}
	}
}

// TestDynamicSender: the router makes a mobile address; the sender gets credit with the first
// receiver (RT E34).
func TestDynamicSender(t *testing.T) {
	g := newRig(t, func(o *Options) { o.DefaultDistribution = Unavailable })
	a, b := g.peer(nil), g.peer(nil)
	s := a.attach(amqp.RoleSender, amqp.Attach{Target: &amqp.Target{Dynamic: true}})
	g.run()
	address := s.answer.Target.Address.V
	if !regexp.MustCompile(`^amqp:/_\$temp\.[a-zA-Z0-9+_]{15}$`).MatchString(address) || !s.answer.Target.Dynamic {
		t.Fatalf("target %+v", s.answer.Target)
	}
	s.wantCredit(t, 0, false)
	r := b.receiver(address, 10)
	s.wantCredit(t, 250, false)
	s.send("1")
	g.run()
	wantBodies(t, r, "1")
	if i := g.addressInfo(s.info().OwningAddr); i.Key[:2] != "M0" || i.Distribution != Balanced {
		t.Errorf("address %+v", i)
	}
}

// TestWaypoints: producers and consumers of the phases of an address (RT F15, F18, E37).
func TestWaypoints(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Prefix: "w", IngressPhase: 0, EgressPhase: 1, Priority: -1})
	a, b := g.peer(nil), g.peer(nil)
	waypoint := func(role amqp.Role, capability string) *end {
		c := amqp.Raw(amqp.AppendSymbol(nil, capability))
		e := b.attach(role, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("w"), Capabilities: c}, Target: &amqp.Target{Address: amqp.Some("w"), Capabilities: c}})
		if role == amqp.RoleReceiver {
			e.l.Grant(10)
		}
		g.run()
		return e
	}
	producer, consumer := a.sender("w"), a.receiver("w", 10)
	in, out := waypoint(amqp.RoleReceiver, "qd.waypoint"), waypoint(amqp.RoleSender, "qd.waypoint.1")
	producer.send("1")
	g.run()
	wantBodies(t, in, "1")
	wantBodies(t, consumer)
	out.send("2")
	g.run()
	wantBodies(t, consumer, "2")
	for e, want := range map[*end]string{producer: "M0w", consumer: "M1w", in: "M0w", out: "M1w"} {
		if got := e.info().OwningAddr; got != want {
			t.Errorf("link %s is on %s, want %s", e.l.Name, got, want)
		}
	}
	for _, key := range []string{"M0w", "M1w"} {
		if i := g.addressInfo(key); i.Ingress != 1 || i.Egress != 1 {
			t.Errorf("%s: %+v", key, i)
		}
	}
}

// TestTenant: mobile addresses of a tenant have its name before them, on links as in messages
// (RT E43).
func TestTenant(t *testing.T) {
	g := newRig(t, nil)
	tenant := func(o *ConnOptions, cfg *amqp.ConnConfig) { o.MultiTenant, cfg.Hostname = true, "acme" }
	a, b, other := g.peer(tenant), g.peer(tenant), g.peer(nil)
	r, out := b.receiver("q", 10), other.receiver("acme/q", 10)
	local, wrong := other.receiver("_local/q", 10), other.receiver("q", 10)
	for _, s := range []*end{a.sender("q"), a.sender("")} {
		for range 2 {
			s.transfer(&amqp.OutDelivery{}, addressed("q", "x"))
			g.run()
		}
	}
	a.sender("").transfer(&amqp.OutDelivery{}, addressed("_local/q", "local"))
	g.run()
	if len(r.got) != 2 || len(out.got) != 2 || len(local.got) != 1 || len(wrong.got) != 0 {
		t.Errorf("got %d, %d, %d, %d", len(r.got), len(out.got), len(local.got), len(wrong.got))
	}
	if key := r.info().OwningAddr; key != "M0acme/q" {
		t.Errorf("key %s", key)
	}
}

// TestUnchanged: header, annotations, properties, body and footer go through as they came;
// priority and ttl are nothing to a standalone router (RT F79, F91). Without stripping, router
// annotations are written anew (RT F80).
func TestUnchanged(t *testing.T) {
	m := (&amqp.Header{Durable: true, Priority: amqp.Some(uint8(9)), TTL: amqp.Some(uint32(1)), DeliveryCount: 3}).Append(nil)
	m = append(m, 0, 0x53, amqp.CodeDeliveryAnnotations)
	m = amqp.AppendValue(m, amqp.Map{{Key: amqp.Symbol("d"), Value: int32(1)}})
	head := slices.Clone(m)
	bare := (&amqp.Properties{MessageID: "id", To: amqp.Some("elsewhere")}).Append(nil)
	bare = append(bare, 0, 0x53, amqp.CodeApplicationProperties)
	bare = amqp.AppendValue(bare, amqp.Map{{Key: "k", Value: "v"}})
	bare = append(bare, plain("body")...)
	bare = append(bare, 0, 0x53, amqp.CodeFooter)
	bare = amqp.AppendValue(bare, amqp.Map{{Key: amqp.Symbol("f"), Value: "f"}})
	user := "\x00\x53\x72" + mapOf(sym("x-opt-user"), "\x54\x05")
	foreign := "\x00\x53\x72" + mapOf(sym("x-opt-qd.to"), str("other"), sym("x-opt-user"), "\x54\x05", sym("x-opt-qd.ingress"), str("0/A"), sym("x-opt-qd.trace"), listOf(str("0/A")))
	ours := func(ingress string, trace ...string) string {
		return mapOf(sym("x-opt-user"), "\x54\x05", sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str(ingress), sym("x-opt-qd.trace"), listOf(trace...))
	}
	tests := []struct {
		name              string
		stripIn, stripOut bool
		in, want          string // annotations sections
	}{
		{"none, stripped", true, true, "", ""},
		{"user's, stripped", true, true, user, user},
		{"router's, stripped", true, true, foreign, user},
		{"router's, stripped out", false, true, foreign, user},
		{"user's, added", true, false, user, "\x00\x53\x72" + ours("0/R", str("0/R"))},
		{"router's, replaced", true, false, foreign, "\x00\x53\x72" + ours("0/R", str("0/R"))},
		{"router's, extended", false, false, foreign, "\x00\x53\x72" + ours("0/A", str("0/A"), str("0/R"))},
	}
	for _, tt := range tests {
		g := newRig(t, nil)
		strip := func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripIn, o.StripOut = tt.stripIn, tt.stripOut }
		a, b := g.peer(strip), g.peer(strip)
		r := b.receiver("q", 10)
		s := a.sender("q")
		in := slices.Concat(head, []byte(tt.in), bare)
		want := slices.Concat(head, []byte(tt.want), bare)
		s.transfer(&amqp.OutDelivery{}, in)
		s.transfer(&amqp.OutDelivery{Settled: true}, in)
		g.run()
		for _, d := range r.got {
			if !bytes.Equal(d.payload, want) {
				t.Errorf("%s: got\n%q, want\n%q", tt.name, d.payload, want)
			}
		}
		if len(r.got) != 2 {
			t.Errorf("%s: got %d messages", tt.name, len(r.got))
		}
		if !tt.stripOut { // of an anonymous sender's message the properties tell the address
			to, annotation := "elsewhere", ""
			if !tt.stripIn {
				to, annotation = "other", sym("x-opt-qd.to")+str("other")
			}
			r := b.receiver(to, 10)
			a.sender("").transfer(&amqp.OutDelivery{}, in)
			g.run()
			if len(r.got) != 1 || bytes.Contains(r.got[0].payload, []byte("x-opt-qd.to")) != (annotation != "") || !bytes.Contains(r.got[0].payload, []byte(annotation)) {
				t.Errorf("%s: anonymous: %q", tt.name, r.got[0].payload)
			}
		}
	}
}
