package tests

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

// everySource is a source with all its fields.
func everySource(address string) *amqp.Source {
	return &amqp.Source{
		Address: amqp.Some(address), Durable: amqp.Some(uint32(2)), ExpiryPolicy: "connection-close", Timeout: amqp.Some(uint32(77)),
		DistributionMode: "copy",
		Filter: amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("sel"), Value: amqp.Described{
			Descriptor: amqp.Symbol("apache.org:selector-filter:string"), Value: "colour = 'green'"}}}),
		DefaultOutcome: amqp.StateReleased,
		Outcomes:       amqp.AppendValue(nil, []amqp.Symbol{"amqp:accepted:list", "amqp:rejected:list"}),
		Capabilities:   amqp.AppendValue(nil, []amqp.Symbol{"queue", "mine"}),
	}
}

// everyTarget is a target with all its fields.
func everyTarget(address string) *amqp.Target {
	return &amqp.Target{
		Address: amqp.Some(address), Durable: amqp.Some(uint32(1)), ExpiryPolicy: "never", Timeout: amqp.Some(uint32(55)),
		Capabilities: amqp.AppendValue(nil, amqp.Symbol("topic")),
	}
}

// fullAttach is an attach with all that a peer may ask for.
func fullAttach(source *amqp.Source, target *amqp.Target) *amqp.Attach {
	return &amqp.Attach{
		SndSettleMode: amqp.Some(amqp.SndSettleModeUnsettled), RcvSettleMode: amqp.Some(amqp.RcvSettleModeSecond),
		Source: source, Target: target,
		Unsettled:           amqp.AppendValue(nil, amqp.Map{{Key: []byte("tag"), Value: nil}}),
		IncompleteUnsettled: true,
		MaxMessageSize:      amqp.Some(uint64(1000)),
		OfferedCapabilities: amqp.AppendValue(nil, amqp.Symbol("offered")),
		DesiredCapabilities: amqp.AppendValue(nil, []amqp.Symbol{"desired", "more"}),
		Properties:          amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("p"), Value: int32(1)}}),
	}
}

// checkReply compares the router's attach with the one wanted; what names the
// link is taken from the former. No time-out is the same as one of 0, and so
// on for what has a default.
func checkReply(t *testing.T, got, want *amqp.Attach) {
	t.Helper()
	want.Name, want.Handle, want.Role = got.Name, got.Handle, got.Role
	if got.Role == amqp.RoleSender {
		want.InitialDeliveryCount = amqp.Some(uint32(0)) // mandatory for a sender
	}
	for _, a := range []*amqp.Attach{got, want} {
		if a.Source != nil {
			a.Source.Durable, a.Source.Timeout = amqp.Some(a.Source.Durable.V), amqp.Some(a.Source.Timeout.V)
		}
		if a.Target != nil {
			a.Target.Durable, a.Target.Timeout = amqp.Some(a.Target.Durable.V), amqp.Some(a.Target.Timeout.V)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("attach\n got %+v\n     source %+v\n     target %+v\nwant %+v\n     source %+v\n     target %+v",
			got, got.Source, got.Target, want, want.Source, want.Target)
	}
}

// reply is an attach as the router answers with these termini (RT E13, E16).
func reply(source *amqp.Source, target *amqp.Target) *amqp.Attach {
	return &amqp.Attach{
		SndSettleMode: amqp.Some(amqp.SndSettleModeMixed), RcvSettleMode: amqp.Some(amqp.RcvSettleModeFirst),
		MaxMessageSize: amqp.Some(uint64(0)),
		Source:         source, Target: target,
	}
}

// RT E13, E14, E16: what the router answers an attach with.
func TestE14AttachReply(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	echoed := everySource("q")
	echoed.DefaultOutcome = nil
	t.Run("all fields, to a sender", func(t *testing.T) {
		l := p.attachSender(0, fullAttach(everySource("q"), everyTarget("q")))
		checkReply(t, l.attach, reply(echoed, everyTarget("q")))
	})
	t.Run("all fields, to a receiver", func(t *testing.T) {
		l := p.attachReceiver(0, fullAttach(everySource("q"), everyTarget("q")), 0)
		checkReply(t, l.attach, reply(echoed, everyTarget("q")))
	})
	bareSource, bareTarget := &amqp.Source{ExpiryPolicy: "session-end"}, &amqp.Target{ExpiryPolicy: "session-end"}
	t.Run("no fields, to a sender", func(t *testing.T) {
		l := p.attachSender(0, &amqp.Attach{Source: &amqp.Source{}, Target: &amqp.Target{}})
		checkReply(t, l.attach, reply(bareSource, bareTarget))
	})
	t.Run("no termini, to a sender", func(t *testing.T) {
		a := &amqp.Attach{Name: "bare", Handle: p.sessions[0].handles, InitialDeliveryCount: amqp.Some(uint32(0))}
		l := p.attachLink(0, a)
		checkReply(t, l.attach, reply(nil, nil))
	})
	t.Run("the address only, to a receiver", func(t *testing.T) {
		l := p.receiver("q", 0)
		checkReply(t, l.attach, reply(&amqp.Source{Address: amqp.Some("q"), ExpiryPolicy: "session-end"}, bareTarget))
	})
	t.Run("filters are not applied", func(t *testing.T) { // E14
		in := p.attachReceiver(0, &amqp.Attach{Source: everySource("filtered")}, 10)
		l := p.sender("filtered")
		l.awaitCredit(250)
		l.send(rawMessage("red"), true)
		if got := in.receive().body(); got != "red" {
			t.Errorf("received %q", got)
		}
	})
	p.close()
	r.healthy(t, before)
}

// RT E15: a link of the same name later is a new link.
func TestE15NoResumption(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	attach := func() *rawLink {
		return p.attachReceiver(0, &amqp.Attach{Name: "durable", Source: &amqp.Source{Address: amqp.Some("q"), Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never"}}, 10)
	}
	in := attach()
	l := p.sender("q")
	l.awaitCredit(250)
	id := l.send(rawMessage("x"), false)
	in.receive()
	in.detach(false)
	if got := p.outcomes(id)[id]; got != modifiedFailed {
		t.Errorf("outcome %s, want %s", got, modifiedFailed)
	}
	in = attach()
	if in.attach.Unsettled != nil {
		t.Errorf("attach with unsettled %x", []byte(in.attach.Unsettled))
	}
	r.flush(t, p)
	p.forgetFlows()
	r.quiet(t, p)
	p.close()
	r.healthy(t, before)
}

// RT E18, E19, E20, E21, E32: refusals; the rest is in TestU08RefusedAttach.
func TestE18RefusalForm(t *testing.T) {
	r := startRouter(t, withDistributions(router.Unavailable))
	before := r.counts()
	p := r.session(t)
	echoed := everySource("mine")
	echoed.DefaultOutcome = nil
	t.Run("sender", func(t *testing.T) {
		l := p.attachSender(0, fullAttach(everySource("mine"), everyTarget("unavailable/x")))
		checkReply(t, l.attach, reply(echoed, nil))
		l.refused("amqp:not-found", "Node not found")
	})
	t.Run("receiver", func(t *testing.T) {
		l := p.attachReceiver(0, fullAttach(everySource("unavailable/x"), everyTarget("mine")), 0)
		checkReply(t, l.attach, reply(nil, everyTarget("mine")))
		l.refused("amqp:not-found", "Node not found")
	})
	const noRoute = "No route to the destination node"
	t.Run("receiver without a source address", func(t *testing.T) { // E20
		l := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{}}, 0)
		l.refused("qd:no-route-to-dest", noRoute)
	})
	t.Run("receiver without termini", func(t *testing.T) { // E32
		l := p.attachLink(0, &amqp.Attach{Role: amqp.RoleReceiver})
		checkReply(t, l.attach, reply(nil, nil))
		l.refused("qd:no-route-to-dest", noRoute)
	})
	t.Run("receiver from another router", func(t *testing.T) { // E20
		l := p.receiver("_topo/0/B/x", 0)
		l.refused("qd:no-route-to-dest", noRoute)
	})
	t.Run("unknown local address", func(t *testing.T) { // E31
		l := p.receiver("_local/x", 0)
		l.refused("amqp:not-found", "Node not found")
	})
	t.Run("known though unavailable", func(t *testing.T) { // E30
		cancel := r.Subscribe("unavailable/known", false, func(q *router.Request) { q.Settle(amqp.StateAccepted) })
		defer cancel()
		l := p.sender("unavailable/known")
		l.awaitCredit(250)
		id := l.send(rawMessage("x"), false)
		if got := p.outcomes(id)[id]; got != "accepted" {
			t.Errorf("outcome %s", got)
		}
		l.awaitCredit(250)
		l.detach(true)
	})
	r.quiet(t, p)
	p.close()
	r.healthy(t, before)
}

// RT E31: patterns compare with the full text of local addresses.
func TestE31LocalAddressesAndPatterns(t *testing.T) {
	r := startRouter(t, func(c *rawConfig) {
		c.router.DefaultDistribution = router.Unavailable
		c.addresses = []router.AddressConfig{{Pattern: "_local/*", Distribution: router.Multicast, Priority: -1}}
	})
	p := r.session(t)
	p.receiver("_topo/0/R/x", 0).refused("amqp:not-found", "Node not found") // the same address, but its text is another
	a := p.receiver("_local/x", 10)
	p.receiver("_topo/0/R/x", 0) // there is an entry now: E30
	l := p.sender("_local/x")
	l.awaitCredit(250)
	l.send(rawMessage("x"), true)
	a.receive()
	p.sender("_topo/0/other/x") // its router may still come
	want := map[string]router.Distribution{"Lx": router.Multicast, "Rother": router.Closest}
	for _, i := range r.Addresses() {
		if d, ok := want[i.Key]; ok && i.Distribution != d {
			t.Errorf("%s is %s, want %s", i.Key, i.Distribution, d)
		}
		delete(want, i.Key)
	}
	if len(want) > 0 {
		t.Errorf("no entry for %v", want)
	}
}

// RT E32, E44, E58: anonymous senders.
func TestE32AnonymousSender(t *testing.T) {
	r := startRouter(t, withDistributions(router.Unavailable))
	before := r.counts()
	p := r.session(t)
	for name, a := range map[string]*amqp.Attach{
		"no termini":     {},
		"no target":      {Source: &amqp.Source{Address: amqp.Some("mine")}},
		"empty target":   {Target: &amqp.Target{}},
		"empty address":  {Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("")}},
		"a durable none": {Target: &amqp.Target{Durable: amqp.Some(uint32(2))}},
	} {
		t.Run(name, func(t *testing.T) {
			a.InitialDeliveryCount = amqp.Some(uint32(0))
			l := p.attachLink(0, a)
			l.awaitCredit(250) // E44: at once
			id := l.send(rawMessage("x"), false)
			const want = `rejected amqp:precondition-failed "Routing failure: no address present"`
			if got := p.outcomes(id)[id]; got != want { // E58
				t.Errorf("outcome without to: %s, want %s", got, want)
			}
			l.awaitCredit(250)
			id = l.send(rawMessageTo("", "x"), false)
			if got := p.outcomes(id)[id]; got != want {
				t.Errorf("outcome with an empty to: %s, want %s", got, want)
			}
			l.awaitCredit(250)
			if i := r.link(t, l.name); i.OwningAddr != "" || !i.Incoming {
				t.Errorf("link is %+v", i)
			}
			l.detach(true)
		})
	}
	t.Run("messages go where they say", func(t *testing.T) {
		in := map[string]*rawLink{}
		for _, a := range []string{"balanced/a", "closest/b", "multicast/c"} {
			in[a] = p.receiver(a, 10)
		}
		l := p.anonymous()
		l.awaitCredit(250)
		for a := range in {
			for _, written := range []string{a, "/" + a, a + "/", "amqp:/" + a, "amqp://host:5672/" + a} { // E40
				id := l.send(rawMessageTo(written, written), false)
				d := in[a].receive()
				if d.body() != written {
					t.Errorf("%s received %q, want %q", a, d.body(), written)
				}
				in[a].settle(d, amqp.StateAccepted)
				if got := p.outcomes(id)[id]; got != "accepted" {
					t.Errorf("outcome %s to %s", got, written)
				}
				l.awaitCredit(250)
			}
		}
		const notFound = `rejected amqp:not-found "Deliveries cannot be sent to an unavailable address"` // E60
		for to, want := range map[string]string{
			"unknown": notFound, "unavailable/x": notFound, "balanced/nobody": "released", "closest/nobody": "released",
			"multicast/nobody": "released", "_local/nobody": notFound, "_topo/0/B/x": notFound,
		} {
			id := l.send(rawMessageTo(to, "x"), false)
			if got := p.outcomes(id)[id]; got != want {
				t.Errorf("outcome to %s: %s, want %s", to, got, want)
			}
			l.awaitCredit(250) // E48
		}
		r.quiet(t, p)
	})
	p.close()
	r.healthy(t, before)
}

// An address that appears, goes and appears again under an anonymous sender.
func TestE32AnonymousSenderAndConsumersThatGo(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	l := p.anonymous()
	l.awaitCredit(250)
	for i := range 5 {
		id := l.send(rawMessageTo("q", "x"), false)
		if got := p.outcomes(id)[id]; got != "released" {
			t.Errorf("round %d: outcome %s without consumer", i, got)
		}
		l.awaitCredit(250)
		in := p.receiver("q", 10)
		id = l.send(rawMessageTo("q", fmt.Sprint(i)), false)
		d := in.receive()
		if d.body() != fmt.Sprint(i) {
			t.Errorf("round %d: received %q", i, d.body())
		}
		in.settle(d, amqp.StateAccepted)
		if got := p.outcomes(id)[id]; got != "accepted" {
			t.Errorf("round %d: outcome %s with a consumer", i, got)
		}
		l.awaitCredit(250)
		in.detach(true)
	}
	r.quiet(t, p)
	p.close()
	r.healthy(t, before)
}

// RT E33: dynamic sources.
func TestE33DynamicSource(t *testing.T) {
	form := map[router.Mode]*regexp.Regexp{
		router.Standalone: regexp.MustCompile(`^amqp:/_topo/0/R/temp\.[a-zA-Z0-9+_]{15}$`),
		router.Edge:       regexp.MustCompile(`^amqp:/_edge/R/temp\.[a-zA-Z0-9+_]{15}$`),
	}
	for mode, want := range form {
		t.Run(string(mode), func(t *testing.T) {
			r := startRouter(t, withDistributions(router.Unavailable), func(c *rawConfig) { c.router.Mode = mode })
			before := r.counts()
			p := r.session(t)
			in := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Dynamic: true, ExpiryPolicy: "link-detach", Durable: amqp.Some(uint32(0))}}, 10)
			address := in.attach.Source.Address.V
			if !want.MatchString(address) {
				t.Errorf("address %q, want %s", address, want)
			}
			checkReply(t, in.attach, reply(&amqp.Source{Address: amqp.Some(address), Dynamic: true, ExpiryPolicy: "link-detach"},
				&amqp.Target{ExpiryPolicy: "session-end"}))
			other := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Dynamic: true}}, 0)
			if other.attach.Source.Address.V == address {
				t.Errorf("%q twice", address)
			}
			found := false
			for _, a := range r.Addresses() {
				if "amqp:/_topo/0/R/"+a.Key[1:] == address || "amqp:/_edge/R/"+a.Key[1:] == address {
					found = true
					if a.Key[0] != 'L' || a.Distribution != router.Balanced {
						t.Errorf("address %s is %s", a.Key, a.Distribution)
					}
				}
			}
			if !found {
				t.Errorf("no entry for %s", address)
			}
			// As a target, and as the to of a message.
			l, anonymous := p.sender(address), p.anonymous()
			l.awaitCredit(250)
			anonymous.awaitCredit(250)
			l.send(rawMessage("targeted"), true)
			anonymous.send(rawMessageTo(address, "anonymous"), true)
			got := in.bodies(2)
			slices.Sort(got)
			if !slices.Equal(got, []string{"anonymous", "targeted"}) {
				t.Errorf("received %q", got)
			}
			p.forgetFlows()
			in.detach(true)
			other.detach(true)
			// The sender's link keeps the entry alive; nobody receives.
			id := l.send(rawMessage("late"), false)
			if got := p.outcomes(id)[id]; got != "released" {
				t.Errorf("outcome %s without receiver", got)
			}
			l.detach(true)
			r.core()
			for _, a := range r.Addresses() {
				if a.Key[0] == 'L' {
					t.Errorf("%s is still there", a.Key)
				}
			}
			p.close()
			r.healthy(t, before)
		})
	}
}

// RT E34: dynamic targets.
func TestE34DynamicTarget(t *testing.T) {
	r := startRouter(t, withDistributions(router.Unavailable), withStrip("no"))
	before := r.counts()
	p, q := r.session(t), r.session(t)
	l := p.attachSender(0, &amqp.Attach{Target: &amqp.Target{Dynamic: true}})
	address := l.attach.Target.Address.V
	if want := regexp.MustCompile(`^amqp:/_\$temp\.[a-zA-Z0-9+_]{15}$`); !want.MatchString(address) {
		t.Errorf("address %q, want %s", address, want)
	}
	checkReply(t, l.attach, reply(&amqp.Source{ExpiryPolicy: "session-end"},
		&amqp.Target{Address: amqp.Some(address), Dynamic: true, ExpiryPolicy: "session-end"}))
	if i := r.link(t, l.name); i.OwningAddr != "M0"+address[len("amqp:/"):] {
		t.Errorf("owning address %q", i.OwningAddr)
	}
	r.quiet(t, p) // no credit yet
	in := q.receiver(address, 10)
	l.awaitCredit(250)
	id := l.send(rawMessage("x"), false)
	d := in.receive()
	in.settle(d, amqp.StateAccepted)
	if got := p.outcomes(id)[id]; d.body() != "x" || got != "accepted" {
		t.Errorf("received %q, outcome %s", d.body(), got)
	}
	m, err := amqp.DecodeMessage(d.payload)
	if err != nil {
		t.Fatal(err)
	}
	if to, _ := m.MessageAnnotations.Get("x-opt-qd.to"); to != address { // F1: the next router needs it
		t.Errorf("x-opt-qd.to %v, want %s", to, address)
	}
	p.close()
	q.close()
	r.healthy(t, before)
}

// RT E37: capabilities choose the phase of an address.
func TestE37WaypointCapabilities(t *testing.T) {
	one := amqp.AppendValue(nil, amqp.Symbol("qd.waypoint"))
	array := func(s amqp.Symbol) amqp.Raw { return amqp.AppendValue(nil, []amqp.Symbol{"other", s}) }
	r := startRouter(t)
	p := r.session(t)
	tests := []struct {
		capabilities    amqp.Raw
		sender, receive string // the keys
	}{
		{nil, "M0w", "M0w"},
		{one, "M1w", "M0w"},
		{array("qd.waypoint"), "M1w", "M0w"},
		{array("qd.waypoint.1"), "M1w", "M0w"},
		{array("qd.waypoint.9"), "M9w", "M8w"},
		{amqp.AppendValue(nil, amqp.Symbol("qd.waypoint.0")), "M0w", "M0w"},
		{amqp.AppendValue(nil, amqp.Symbol("qd.waypoint.10")), "M0w", "M0w"},
	}
	for _, tt := range tests {
		v, _ := tt.capabilities.Value()
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			s := p.attachSender(0, &amqp.Attach{Target: &amqp.Target{Address: amqp.Some("w"), Capabilities: tt.capabilities}})
			in := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("w"), Capabilities: tt.capabilities}}, 0)
			if got := r.link(t, s.name).OwningAddr; got != tt.sender {
				t.Errorf("sender's address %s, want %s", got, tt.sender)
			}
			if got := r.link(t, in.name).OwningAddr; got != tt.receive {
				t.Errorf("receiver's address %s, want %s", got, tt.receive)
			}
			s.detach(true)
			in.detach(true)
		})
	}
}

// RT E65, E66: detach is answered in kind, and what was sent before it counts.
func TestE65Detach(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	for _, closed := range []bool{true, false} {
		t.Run(fmt.Sprint("closed ", closed), func(t *testing.T) {
			in := p.receiver("q", 10)
			l := p.sender("q")
			l.awaitCredit(250)
			b, _ := l.encode(rawMessage("last words"), true)
			p.write(b, frame(0, &amqp.Detach{Handle: l.handle, Closed: closed}))
			if d := l.detached(); d.Closed != closed || d.Error != nil {
				t.Errorf("answered with %+v", d)
			}
			if got := in.receive().body(); got != "last words" {
				t.Errorf("received %q", got)
			}
			if d := in.detach(closed); d.Closed != closed || d.Error != nil {
				t.Errorf("answered with %+v", d)
			}
			p.forgetFlows()
			r.quiet(t, p)
		})
	}
	p.close()
	r.healthy(t, before)
}

// RT E8, CFG R21: a name is free again once the link is gone, and its handle too.
func TestE65NamesAndHandlesAreFreeAgain(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	for range 50 {
		p.sessions[0].handles = 0
		l := p.attachSender(0, &amqp.Attach{Name: "same", Target: &amqp.Target{}})
		l.awaitCredit(250)
		l.detach(true)
		delete(p.sessions[0].links, l.attach.Handle)
	}
	// All in one write, without waiting for an answer.
	var b []byte
	for range 50 {
		b = append(b, frame(0, &amqp.Attach{Name: "same", Handle: 0, Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("q")}, InitialDeliveryCount: amqp.Some(uint32(0))})...)
		b = append(b, frame(0, &amqp.Detach{Handle: 0, Closed: true})...)
	}
	p.write(b)
	for range 50 {
		take[*amqp.Attach](p)
		take[*amqp.Detach](p)
	}
	r.quiet(t, p)
	p.close()
	r.healthy(t, before)
}

// CFG R39: handles may be any number.
func TestR39AnyHandle(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	for _, h := range []uint32{70_000, 0xffffffff, 1 << 31, 5} {
		p.sessions[0].handles = h
		l := p.anonymous()
		l.awaitCredit(250)
		id := l.send(rawMessageTo("nobody", "x"), false)
		if got := p.outcomes(id)[id]; got != "released" {
			t.Errorf("outcome %s on handle %d", got, h)
		}
		l.awaitCredit(250)
	}
	p.close()
	r.healthy(t, before)
}
