package router

import (
	"bytes"
	"slices"
	"testing"

	"qdrouter/amqp"
)

func withFallback() AddressConfig {
	return AddressConfig{Prefix: "dest", Distribution: Closest, Priority: -1, Fallback: true}
}

// fallbackReceiver attaches a receiver with the capability in that encoding.
func (p *peer) fallbackReceiver(address string, credit uint32, capability amqp.Raw) *end {
	p.g.t.Helper()
	e := p.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some(address), Capabilities: capability}})
	e.l.Grant(credit)
	p.g.run()
	if e.answer == nil || e.detach != nil {
		p.g.t.Fatalf("fallback receiver from %q: answer %v, detach %v", address, e.answer, e.detach)
	}
	return e
}

func (p *peer) fallbackSender(address string) *end {
	p.g.t.Helper()
	e := p.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{},
		Target: &amqp.Target{Address: amqp.Some(address), Capabilities: oneSymbol}})
	p.g.run()
	if e.answer == nil || e.detach != nil {
		p.g.t.Fatalf("fallback sender to %q: answer %v, detach %v", address, e.answer, e.detach)
	}
	return e
}

var (
	oneSymbol   = amqp.Raw(amqp.AppendSymbol(nil, string(capFallback)))
	manySymbols = amqp.Raw(amqp.AppendValue(nil, amqp.Array{Code: 0xa3, Items: []any{amqp.Symbol("queue"), capFallback}}))
)

func (g *rig) keys() (keys []string) {
	for _, a := range g.r.Addresses() {
		keys = append(keys, a.Key)
	}
	return keys
}

// TestFallback: what the primary consumers of an address cannot take goes to the fallback, and is
// counted as redirected, not as egress (RT F42, F43, F45). Either of them gives senders credit (RT
// E44, E45), and the lack of both takes it away (RT E47). Capabilities may come in an array (E38).
func TestFallback(t *testing.T) {
	for name, capability := range map[string]amqp.Raw{"symbol": oneSymbol, "array": manySymbols} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil, withFallback())
			a, b := g.peer(nil), g.peer(nil)
			s := a.sender("dest.x")
			if want := []string{"M0dest.x", "MFdest.x"}; !slices.Equal(g.keys()[len(g.keys())-2:], want) {
				t.Fatalf("addresses %q, want %q among them", g.keys(), want)
			}
			if d := g.addressInfo("MFdest.x").Distribution; d != Balanced {
				t.Errorf("the fallback is %v", d)
			}
			if len(s.flows) > 0 {
				t.Fatalf("credit for nobody: %v", s.flows)
			}
			store := b.fallbackReceiver("dest.x", 100, capability)
			s.wantCredit(t, 250, false)
			a.sender("dest.x").wantCredit(t, 250, false)
			all := []*sent{s.send("stored")}
			g.run()
			store.say(0, 0, amqp.StateAccepted, true)
			direct := b.receiver("dest.x", 100)
			all = append(all, s.send("direct"))
			g.run()
			direct.say(0, 0, amqp.StateAccepted, true)
			direct.close()
			all = append(all, s.send("stored again"))
			s.sendSettled("settled")
			g.run()
			store.say(1, 1, amqp.StateAccepted, true)
			wantBodies(t, store, "stored", "stored again", "settled")
			wantBodies(t, direct, "direct")
			wantSaid(t, all, "accepted settled")
			if x := g.addressInfo("M0dest.x"); x.Ingress != 4 || x.Egress != 1 || x.RedirectedToFallback != 3 {
				t.Errorf("primary: %+v", x)
			}
			if x := g.addressInfo("MFdest.x"); x.Ingress != 0 || x.Egress != 0 || x.RedirectedToFallback != 0 || x.Subscribers != 1 {
				t.Errorf("fallback: %+v", x)
			}
			if x := g.r.Stats(); x.RedirectedToFallback != 3 || x.Egress != 1 || x.Ingress != 4 || x.DroppedPresettled != 0 {
				t.Errorf("router: %+v", x)
			}
			s.wantCredit(t, 250, false)
			store.close()
			lost := s.send("nobody")
			s.sendSettled("nobody")
			g.run()
			wantSaid(t, []*sent{lost}, "released settled")
			if !s.lastFlow(t).Drain {
				t.Errorf("no drain without any consumer: %+v", s.lastFlow(t))
			}
			if x := g.r.Stats(); x.RedirectedToFallback != 3 || x.DroppedPresettled != 1 {
				t.Errorf("router without consumers: %+v", x)
			}
			s.l.Drained()
			g.run()
			b.fallbackReceiver("dest.x", 0, capability)
			s.wantCredit(t, 250, false)
		})
	}
}

// TestFallbackSender: what comes back from the fallback goes to the primary consumers alone, and
// without them is released (RT F44); its sender has credit as soon as the fallback is there (RT A16).
func TestFallbackSender(t *testing.T) {
	g := newRig(t, nil, withFallback())
	a, b := g.peer(nil), g.peer(nil)
	store := b.fallbackReceiver("dest.x", 100, oneSymbol)
	s := a.fallbackSender("dest.x")
	s.wantCredit(t, 250, false)
	lost := s.send("nobody")
	s.sendSettled("nobody")
	g.run()
	wantSaid(t, []*sent{lost}, "released settled")
	wantBodies(t, store)
	if !s.lastFlow(t).Drain {
		t.Errorf("not drained: %+v", s.lastFlow(t))
	}
	s.l.Drained()
	g.run()
	s.wantCredit(t, 0, true)
	if x := g.r.Stats(); x.DroppedPresettled != 1 || x.Ingress != 0 {
		t.Errorf("router: %+v", x)
	}
	direct := b.receiver("dest.x", 100) // the fallback is there already: the primary is what opens
	s.wantCredit(t, 250, false)
	s.send("back")
	g.run()
	wantBodies(t, direct, "back")
	wantBodies(t, store)
	if x := g.addressInfo("M0dest.x"); x.Ingress != 0 || x.Egress != 1 || x.RedirectedToFallback != 0 {
		t.Errorf("primary: %+v", x)
	}
	if x := g.r.Stats(); x.Ingress != 0 || x.Egress != 1 {
		t.Errorf("router: %+v", x)
	}
}

// TestFallbackEntry: the entry of the fallback stands as long as its owner or somebody on it (RT
// F7), and they find each other in whatever order they come. Other phases have none (RT F42).
func TestFallbackEntry(t *testing.T) {
	g := newRig(t, nil, withFallback(), AddressConfig{Pattern: "way", EgressPhase: 1, Priority: -1})
	before := len(g.keys())
	a, b := g.peer(nil), g.peer(nil)
	want := func(when string, keys ...string) {
		t.Helper()
		got := g.keys()[before:]
		slices.Sort(got)
		if !slices.Equal(got, keys) {
			t.Errorf("%s: %q, want %q", when, got, keys)
		}
	}
	store := b.fallbackReceiver("dest.x", 100, oneSymbol)
	want("receiver", "MFdest.x")
	s := a.sender("dest.x")
	want("sender", "M0dest.x", "MFdest.x")
	s.send("1")
	g.run()
	store.close()
	want("receiver gone", "M0dest.x", "MFdest.x")
	store = b.fallbackReceiver("dest.x", 100, oneSymbol)
	s.close()
	want("sender gone", "MFdest.x")
	s = a.sender("dest.x")
	s.send("2")
	g.run()
	wantBodies(t, store, "2")
	s.close()
	store.close()
	want("both gone")
	way := a.sender("way")
	want("phases", "M0way")
	way.close()
	b.receiver("_local/dest.x", 1)
	want("local", "Ldest.x")
}

// TestFallbackAnnotations: a redirected message tells its address and the phase 22, by which it is
// found again as one for the fallback (RT F17, IR 4.3).
func TestFallbackAnnotations(t *testing.T) {
	g := newRig(t, nil, withFallback())
	a := g.peer(nil)
	b := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripOut, o.StripIn = false, false })
	store := b.fallbackReceiver("dest.x", 100, oneSymbol)
	a.sender("amqp://host/dest.x").send("1")
	g.run()
	m, err := amqp.DecodeMessage(store.got[0].payload)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{:"x-opt-qd.phase"=22, :"x-opt-qd.to"="dest.x", :"x-opt-qd.ingress"="0/R", :"x-opt-qd.trace"=["0/R"]}`
	if got := traceValue(m.MessageAnnotations); got != want {
		t.Errorf("annotations %s, want %s", got, want)
	}
	direct := b.receiver("dest.x", 100)
	again := amqp.Message{MessageAnnotations: amqp.Map{{Key: amqp.Symbol(annotationPhase), Value: int32(22)},
		{Key: amqp.Symbol(annotationTo), Value: "dest.x"}}, Body: []byte("2"), BodyKind: amqp.BodyData}
	b.sender("").transfer(&amqp.OutDelivery{}, again.Append(nil))
	g.run()
	if len(store.got) != 2 || len(direct.got) != 0 {
		t.Errorf("the fallback got %d, the primary %d", len(store.got), len(direct.got))
	}
}

// TestFallbackAnonymous: a message by address takes the fallback as well when somebody is attached
// to the address; an address that nobody has is unknown (RT F3).
func TestFallbackAnonymous(t *testing.T) {
	g := newRig(t, nil, withFallback())
	a, b := g.peer(nil), g.peer(nil)
	store := b.fallbackReceiver("dest.x", 100, oneSymbol)
	s := a.sender("")
	lost := s.transfer(&amqp.OutDelivery{}, addressed("dest.x", "unknown"))
	g.run()
	wantSaid(t, []*sent{lost}, "released settled")
	b.sender("dest.x")
	s.transfer(&amqp.OutDelivery{}, addressed("dest.x", "known"))
	g.run()
	wantBodies(t, store, "known")
}

// TestFallbackStream: a message that is forwarded as it arrives takes the fallback too, and goes
// nowhere when that is gone (RT F43, F59).
func TestFallbackStream(t *testing.T) {
	for _, settled := range []bool{false, true} {
		g := newRig(t, nil, withFallback())
		a, b := g.peer(nil), g.peer(nil)
		store := b.fallbackReceiver("dest.x", 100, oneSymbol)
		s := a.sender("dest.x")
		message := plain(string(bytes.Repeat([]byte("0123456789"), 30000)))
		x := s.start(&amqp.OutDelivery{Settled: settled})
		x.more(message[:200000])
		g.run()
		if len(store.got) != 1 || len(store.got[0].payload) == 0 {
			t.Fatalf("settled %v: nothing has arrived half way", settled)
		}
		x.last(message[200000:])
		g.run()
		if !bytes.Equal(store.got[0].payload, message) {
			t.Errorf("settled %v: %d octets of %d", settled, len(store.got[0].payload), len(message))
		}
		if !settled {
			store.say(0, 0, stateRejected, true)
			wantSaid(t, []*sent{x.sent}, stateText(stateRejected)+" settled")
		}
		store.close()
		y := s.start(&amqp.OutDelivery{Settled: settled})
		y.more(message[:200000])
		y.last(message[200000:])
		g.run()
		if !settled {
			wantSaid(t, []*sent{y.sent}, "released settled")
		}
		i, dropped := s.info(), uint64(0)
		if settled {
			dropped = 1
		}
		if i.DroppedPresettled != dropped || g.addressInfo("M0dest.x").RedirectedToFallback != 1 {
			t.Errorf("settled %v: %+v, redirected %d", settled, i, g.addressInfo("M0dest.x").RedirectedToFallback)
		}
		if !s.lastFlow(t).Drain {
			t.Errorf("settled %v: no drain", settled)
		}
	}
}
