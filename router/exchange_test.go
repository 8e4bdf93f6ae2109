package router

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
)

// about is a message of that subject.
func about(subject, body string) []byte {
	p := amqp.Properties{Subject: amqp.Some(subject)}
	return append(p.Append(nil), plain(body)...)
}

func (g *rig) exchange(x Exchange) Exchange {
	g.t.Helper()
	x, err := g.r.AddExchange(x)
	if err != nil {
		g.t.Fatalf("exchange %+v: %v", x, err)
	}
	g.run()
	return x
}

// bind adds bindings of an exchange, each "key>next hop" with the phase of the next hop behind an
// "@", if it is not 0.
func (g *rig) bind(exchange string, bindings ...string) (made []Binding) {
	g.t.Helper()
	for _, s := range bindings {
		key, hop, _ := strings.Cut(s, ">")
		hop, phase, _ := strings.Cut(hop, "@")
		b := Binding{Name: s, Exchange: exchange, Key: key, NextHop: hop}
		if phase != "" {
			b.NextHopPhase = int(phase[0] - '0')
		}
		b, err := g.r.AddBinding(b)
		if err != nil {
			g.t.Fatalf("binding %q: %v", s, err)
		}
		made = append(made, b)
	}
	g.run()
	return made
}

func (g *rig) wantExchange(name string, bindings uint32, received, dropped, forwarded, diverted uint64) {
	g.t.Helper()
	for _, x := range g.r.Exchanges() {
		if x.Name != name {
			continue
		}
		if x.Bindings != bindings || x.Received != received || x.Dropped != dropped || x.Forwarded != forwarded || x.Diverted != diverted {
			g.t.Errorf("exchange %s has %d bindings, received %d, dropped %d, forwarded %d, diverted %d, want %d, %d, %d, %d, %d", name,
				x.Bindings, x.Received, x.Dropped, x.Forwarded, x.Diverted, bindings, received, dropped, forwarded, diverted)
		}
		return
	}
	g.t.Errorf("no exchange %s", name)
}

func (g *rig) wantMatched(want ...uint64) {
	g.t.Helper()
	var got []uint64
	for _, b := range g.r.Bindings() {
		got = append(got, b.Matched)
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("matched %v, want %v", got, want)
	}
}

// TestExchange: a message goes once to each next hop that a binding of its subject names, settled,
// whatever consumers there say; its sender hears accepted at once (RT X1, X2, X5, X7).
func TestExchange(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Prefix: "many", Distribution: Multicast, Priority: -1})
	g.exchange(Exchange{Name: "ex", Address: "x"})
	g.bind("ex", "a.*>one", "a.b>/one", "a.c.#>one", "a.c.#>many", "a.b.c>many", "a.b>one@3")
	a, b := g.peer(nil), g.peer(nil)
	one, many1, many2 := b.receiver("one", 100), b.receiver("many", 100), g.peer(nil).receiver("many", 100)
	s := a.sender("x")
	var all []*sent
	for _, subject := range []string{"a.b", "a.c", "a.c.d"} {
		all = append(all, s.transfer(&amqp.OutDelivery{}, about(subject, subject)))
	}
	g.run()
	wantSaid(t, all, "accepted settled")
	lost := []*sent{s.transfer(&amqp.OutDelivery{}, about("x.y", "x.y")), s.send("no subject")}
	g.run()
	wantSaid(t, lost, "released settled")
	s.transfer(&amqp.OutDelivery{Settled: true}, about("a.b.c", "a.b.c"))
	s.transfer(&amqp.OutDelivery{Settled: true}, about("nothing", "nothing"))
	g.run()
	wantBodies(t, one, "a.b", "a.c", "a.c.d")
	wantBodies(t, many1, "a.c", "a.c.d", "a.b.c")
	wantBodies(t, many2, "a.c", "a.c.d", "a.b.c")
	for _, e := range []*end{one, many1, many2} {
		for _, d := range e.got {
			if !d.settled {
				t.Errorf("an unsettled copy of %s", bodyOf(d.payload))
			}
		}
	}
	g.wantExchange("ex", 6, 7, 3, 4, 0)
	g.wantMatched(2, 1, 2, 2, 1, 1)
	s.wantCredit(t, 250, false)
	if i := s.info(); i.Accepted != 3 || i.Released != 2 || i.Presettled != 2 || i.DroppedPresettled != 1 || i.Unsettled != 0 {
		t.Errorf("the sender's link: %+v", i)
	}
	if x := g.addressInfo("M0x"); x.Ingress != 4 || x.Egress != 0 {
		t.Errorf("the exchange's address: %+v", x)
	}
	if x := g.addressInfo("M0one"); x.Ingress != 0 || x.Egress != 3 {
		t.Errorf("a next hop: %+v", x)
	}
	anon := a.sender("")
	p := amqp.Properties{To: amqp.Some("x"), Subject: amqp.Some("a.zzz")}
	anon.transfer(&amqp.OutDelivery{}, append(p.Append(nil), plain("by address")...))
	g.run()
	wantBodies(t, one, "a.b", "a.c", "a.c.d", "by address")
}

// TestExchangeMQTT: the other way of matching (RT X1).
func TestExchangeMQTT(t *testing.T) {
	g := newRig(t, nil)
	g.exchange(Exchange{Name: "ex", Address: "x", Method: MatchMQTT, Alternate: "other"})
	g.bind("ex", "a/b>one", "a/+>two", "c/#>one", "c/b>two")
	b := g.peer(nil)
	one, two, other := b.receiver("one", 10), b.receiver("two", 10), b.receiver("other", 10)
	s := g.peer(nil).sender("x")
	for _, subject := range []string{"a/b", "a/c", "c/b", "c/b/dee/eee", "x.y.z"} {
		s.transfer(&amqp.OutDelivery{Settled: true}, about(subject, subject))
	}
	g.run()
	wantBodies(t, one, "a/b", "c/b", "c/b/dee/eee")
	wantBodies(t, two, "a/b", "a/c", "c/b")
	wantBodies(t, other, "x.y.z")
	g.wantExchange("ex", 4, 5, 0, 5, 1)
	g.wantMatched(1, 2, 2, 1)
	s.wantCredit(t, 250, false)
}

// TestExchangeAnnotations: what leaves an exchange begins anew: it is for the next hop and its
// phase, and came into the network here (RT X2).
func TestExchangeAnnotations(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Pattern: "hop", EgressPhase: 3, Priority: -1})
	g.exchange(Exchange{Name: "ex", Address: "x"})
	g.bind("ex", "#>amqp:/hop@3")
	open := func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripOut, o.StripIn = false, false }
	hop := g.peer(open).receiver("hop", 10)
	direct := g.peer(open).receiver("x", 10)
	m := amqp.Message{
		MessageAnnotations: amqp.Map{
			{Key: amqp.Symbol("mine"), Value: "kept"},
			{Key: amqp.Symbol(annotationIngress), Value: "0/FAR"}, {Key: amqp.Symbol(annotationTrace), Value: amqp.List{"0/FAR"}},
		},
		Properties: &amqp.Properties{Subject: amqp.Some("s")}, Body: []byte("1"), BodyKind: amqp.BodyData,
	}
	g.peer(open).sender("x").transfer(&amqp.OutDelivery{}, m.Append(nil))
	g.run()
	for _, tt := range []struct {
		e    *end
		want string
	}{
		{hop, `{:mine="kept", :"x-opt-qd.phase"=3, :"x-opt-qd.to"="amqp:/hop", :"x-opt-qd.ingress"="0/R", :"x-opt-qd.trace"=["0/R"]}`},
		{direct, `{:mine="kept", :"x-opt-qd.to"="x", :"x-opt-qd.ingress"="0/FAR", :"x-opt-qd.trace"=["0/FAR", "0/R"]}`},
	} {
		if len(tt.e.got) != 1 {
			t.Fatalf("%d copies", len(tt.e.got))
		}
		m, err := amqp.DecodeMessage(tt.e.got[0].payload)
		if err != nil {
			t.Fatal(err)
		}
		if got := traceValue(m.MessageAnnotations); got != tt.want {
			t.Errorf("annotations\n%s, want\n%s", got, tt.want)
		}
	}
}

// TestExchangeDirect: consumers of the exchange's own address get the message too, as its
// distribution says; what they make of it is not the sender's business (RT X3, X5).
func TestExchangeDirect(t *testing.T) {
	for _, tt := range []struct {
		dist Distribution
		want int // copies of two messages
	}{{Closest, 2}, {Balanced, 2}, {Multicast, 4}} {
		g := newRig(t, nil, AddressConfig{Pattern: "x", Distribution: tt.dist, Priority: -1})
		g.exchange(Exchange{Name: "ex", Address: "x", Alternate: "other"})
		g.bind("ex", "hop>hop")
		b := g.peer(nil)
		r1, r2, hop, other := b.receiver("x", 10), b.receiver("x", 10), b.receiver("hop", 10), b.receiver("other", 10)
		s := g.peer(nil).sender("x")
		list := []*sent{s.transfer(&amqp.OutDelivery{}, about("hop", "1")), s.transfer(&amqp.OutDelivery{}, about("none", "2"))}
		g.run()
		wantSaid(t, list, "accepted settled")
		if n := len(r1.got) + len(r2.got); n != tt.want {
			t.Errorf("%v: %d copies, want %d", tt.dist, n, tt.want)
		}
		for _, r := range []*end{r1, r2} {
			for i, d := range r.got {
				if d.settled {
					t.Errorf("%v: a settled copy of an unsettled message", tt.dist)
				}
				r.say(i, i, stateRejected, true)
			}
			if i := r.info(); i.Unsettled != 0 || i.Rejected != uint64(len(r.got)) || r.out().load.Load() != 0 {
				t.Errorf("%v: %+v, load %d", tt.dist, i, r.out().load.Load())
			}
		}
		wantSaid(t, list, "accepted settled")
		wantBodies(t, hop, "1")
		wantBodies(t, other) // somebody got it
		g.wantExchange("ex", 1, 2, 0, 2, 0)
		s.transfer(&amqp.OutDelivery{}, about("hop", "3"))
		g.run()
		r1.close() // what it leaves unsettled is nobody's business either
		r2.close()
		s.wantCredit(t, 250, false)
	}
}

// TestExchangeAlternate: what no binding sends on goes to the alternate, as does what the next hops
// cannot take (RT X4, X7).
func TestExchangeAlternate(t *testing.T) {
	g := newRig(t, nil)
	g.exchange(Exchange{Name: "ex", Address: "x", Alternate: "other"})
	g.bind("ex", "a>hop")
	b, s := g.peer(nil), g.peer(nil).sender("x")
	lost := []*sent{s.transfer(&amqp.OutDelivery{}, about("a", "1")), s.transfer(&amqp.OutDelivery{}, about("b", "2"))}
	g.run()
	wantSaid(t, lost, "released settled")
	s.wantCredit(t, 250, false) // a binding is a path, though it leads nowhere now (RT E49)
	other := b.receiver("other", 10)
	s.transfer(&amqp.OutDelivery{}, about("a", "3"))
	s.transfer(&amqp.OutDelivery{}, about("b", "4"))
	g.run()
	hop := b.receiver("hop", 10)
	s.transfer(&amqp.OutDelivery{}, about("a", "5"))
	g.run()
	wantBodies(t, other, "3", "4")
	wantBodies(t, hop, "5")
	g.wantExchange("ex", 1, 5, 2, 3, 2)
	g.wantMatched(3)
}

// TestExchangeCredit: a sender to an exchange has credit from the start; without a binding, an
// alternate or a consumer its messages are released and it is drained until there is one (RT X6,
// E44, E45, E47). Without the exchange, the address is a plain one (RT X8).
func TestExchangeCredit(t *testing.T) {
	g := newRig(t, nil)
	x := g.exchange(Exchange{Name: "ex", Address: "x"})
	a := g.peer(nil)
	s := a.sender("x")
	s.wantCredit(t, 250, false)
	lost := []*sent{s.transfer(&amqp.OutDelivery{}, about("a", "1"))}
	s.sendSettled("2")
	g.run()
	wantSaid(t, lost, "released settled")
	if !s.lastFlow(t).Drain {
		t.Errorf("no drain: %+v", s.lastFlow(t))
	}
	s.l.Drained()
	g.run()
	s.wantCredit(t, 0, true)
	g.wantExchange("ex", 0, 2, 2, 0, 0)
	y := g.bind("ex", "a>hop")[0]
	s.wantCredit(t, 250, false)
	hop := a.receiver("hop", 10)
	s.transfer(&amqp.OutDelivery{}, about("a", "3"))
	g.run()
	wantBodies(t, hop, "3")
	if err := g.r.DeleteBinding(y.ID); err != nil {
		t.Fatal(err)
	}
	s.transfer(&amqp.OutDelivery{}, about("a", "4"))
	g.run()
	wantBodies(t, hop, "3")
	s.l.Drained()
	g.run()
	s.wantCredit(t, 0, true)
	if err := g.r.DeleteExchange(x.ID); err != nil {
		t.Fatal(err)
	}
	plainSender := g.peer(nil).sender("x")
	if len(plainSender.flows) != 0 {
		t.Errorf("credit for nobody: %v", plainSender.flows)
	}
	r := a.receiver("x", 10)
	s.wantCredit(t, 250, false)
	s.transfer(&amqp.OutDelivery{}, about("a", "5"))
	g.run()
	wantBodies(t, r, "5")
	wantBodies(t, hop, "3")
}

// TestExchangeEntries: an exchange, its next hops and its alternate have entries in the address
// table, which go with it (RT F7, X8). The feature says once that it is experimental (RT X8).
func TestExchangeEntries(t *testing.T) {
	g := newRig(t, func(o *Options) { o.DefaultDistribution = Unavailable })
	before := g.keys()
	warned := func() (n int) {
		for _, line := range g.log.take("AGENT") {
			if strings.Contains(line, "EXPERIMENTAL") {
				n++
			}
		}
		return n
	}
	g.log.take("")
	x := g.exchange(Exchange{Name: "ex", Address: "x", Phase: 2, Alternate: "_local/other", AlternatePhase: 1})
	if n := warned(); n != 1 {
		t.Errorf("%d warnings", n)
	}
	y := g.bind("ex", "a>hop@1", "b>hop@1", "c>x@2")
	keys := func(when string, want ...string) {
		t.Helper()
		if got := g.keys()[len(before):]; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	keys("all", "M2x", "Lother", "M1hop")
	if d := g.addressInfo("M1hop").Distribution; d != Balanced {
		t.Errorf("a next hop where nobody may attach is %v", d)
	}
	for i, want := range [][]string{{"M2x", "Lother", "M1hop"}, {"M2x", "Lother"}, {"M2x", "Lother"}} {
		if err := g.r.DeleteBinding(y[i].ID); err != nil {
			t.Fatal(err)
		}
		keys(fmt.Sprintf("%d bindings deleted", i+1), want...)
		if err := g.r.DeleteBinding(y[i].ID); err != ErrNotFound {
			t.Errorf("deleted twice: %v", err)
		}
	}
	g.bind("ex", "a>hop@1", "c>x@2")
	if err := g.r.DeleteExchange(x.ID); err != nil {
		t.Fatal(err)
	}
	keys("exchange deleted")
	if err := g.r.DeleteExchange(x.ID); err != ErrNotFound {
		t.Errorf("deleted twice: %v", err)
	}
	if len(g.r.Bindings()) != 0 {
		t.Errorf("bindings left: %v", g.r.Bindings())
	}
	again := g.exchange(Exchange{Name: "ex", Address: "x"})
	if again.ID == x.ID || warned() != 0 {
		t.Errorf("identity %d was %d", again.ID, x.ID)
	}
}

// TestExchangeRefusals: RT 5.1.
func TestExchangeRefusals(t *testing.T) {
	g := newRig(t, nil)
	g.exchange(Exchange{Name: "ex", Address: "x"})
	g.exchange(Exchange{Name: "mq", Address: "y", Method: MatchMQTT})
	for _, tt := range []struct {
		x    Exchange
		want string
	}{
		{Exchange{Address: "z"}, "exchange requires a unique name"},
		{Exchange{Name: "z"}, "exchange address is mandatory"},
		{Exchange{Name: "z", Address: "/"}, "exchange address is mandatory"},
		{Exchange{Name: "ex", Address: "z"}, "duplicate exchange name"},
		{Exchange{Name: "z", Address: "x"}, "duplicate exchange address"},
		{Exchange{Name: "z", Address: "/x"}, "duplicate exchange address"},
		{Exchange{Name: "z", Address: "z", Phase: 10}, "phase must be in the range 0-9"},
		{Exchange{Name: "z", Address: "z", Phase: -1}, "phase must be in the range 0-9"},
		{Exchange{Name: "z", Address: "z", AlternatePhase: 10}, "phase must be in the range 0-9"},
	} {
		if _, err := g.r.AddExchange(tt.x); err == nil || err.Error() != tt.want {
			t.Errorf("%+v: %v, want %q", tt.x, err, tt.want)
		}
	}
	g.bind("ex", "a>hop")
	for _, tt := range []struct {
		b    Binding
		want string
	}{
		{Binding{NextHop: "q"}, "Binding configuration requires an exchange"},
		{Binding{Exchange: "no", NextHop: "q"}, "Named exchange does not exist"},
		{Binding{Exchange: "ex"}, "No next hop specified"},
		{Binding{Exchange: "ex", NextHop: "/"}, "No next hop specified"},
		{Binding{Exchange: "ex", NextHop: "q", Key: "."}, "The binding key pattern is invalid"},
		{Binding{Exchange: "mq", NextHop: "q", Key: "x/#/z"}, "The binding key pattern is invalid"},
		{Binding{Exchange: "ex", NextHop: "q", NextHopPhase: 10}, "phase must be in the range 0-9"},
		{Binding{Exchange: "ex", NextHop: "q", NextHopPhase: -1}, "phase must be in the range 0-9"},
		{Binding{Exchange: "ex", NextHop: "q", Name: "a>hop"}, "Duplicate next hop name"},
		{Binding{Exchange: "ex", NextHop: "hop", Key: "a"}, "Next hop for key already exists"},
	} {
		if _, err := g.r.AddBinding(tt.b); err == nil || err.Error() != tt.want {
			t.Errorf("%+v: %v, want %q", tt.b, err, tt.want)
		}
	}
	for _, b := range []Binding{
		{Exchange: "mq", NextHop: "hop", Key: "a", Name: "a>hop"}, // names are the exchange's own
		{Exchange: "ex", NextHop: "hop", Key: "a", NextHopPhase: 1},
		{Exchange: "ex", NextHop: "hop"},
	} {
		if made, err := g.r.AddBinding(b); err != nil || b.Key == "" && made.Key != "#" {
			t.Errorf("%+v: %v", made, err)
		}
	}
}

// TestExchangeChain: a next hop may be an exchange; one that leads back to itself goes round once.
func TestExchangeChain(t *testing.T) {
	g := newRig(t, nil)
	g.exchange(Exchange{Name: "one", Address: "x"})
	g.exchange(Exchange{Name: "two", Address: "y", Alternate: "other"})
	g.bind("one", "#>y", "#>x", "a>hop")
	g.bind("two", "#>x")
	b := g.peer(nil)
	hop, other, direct := b.receiver("hop", 10), b.receiver("other", 10), b.receiver("y", 10)
	s := g.peer(nil).sender("x")
	s.transfer(&amqp.OutDelivery{}, about("a", "1"))
	s.transfer(&amqp.OutDelivery{Settled: true}, about("b", "2"))
	g.run()
	direct.close()
	all := []*sent{s.transfer(&amqp.OutDelivery{}, about("b", "3"))}
	s.transfer(&amqp.OutDelivery{}, plain("no subject"))
	g.run()
	wantSaid(t, all, "accepted settled")
	wantBodies(t, hop, "1")
	wantBodies(t, direct, "1", "2")
	wantBodies(t, other, "3")
	g.wantExchange("one", 3, 4, 1, 3, 0)
	g.wantExchange("two", 1, 3, 0, 3, 1)
	s.wantCredit(t, 250, false)
}

// TestExchangeToSubscriber: a next hop may be a consumer in this process; a long message waits to
// be complete for it (RT F62).
func TestExchangeToSubscriber(t *testing.T) {
	g := newRig(t, nil)
	var got []string
	cancel := g.r.Subscribe("inside", false, func(q *Request) {
		got = append(got, bodyOf(q.Message))
		q.Settle(amqp.StateAccepted)
	})
	defer cancel()
	g.exchange(Exchange{Name: "ex", Address: "x"})
	g.bind("ex", "a>inside", "a>hop")
	s, hop := g.peer(nil).sender("x"), g.peer(nil).receiver("hop", 10)
	long := strings.Repeat("0123456789", 30000)
	for _, settled := range []bool{false, true} {
		s.transfer(&amqp.OutDelivery{Settled: settled}, about("a", "short"))
		g.run()
		s.start(&amqp.OutDelivery{Settled: settled}).last(about("a", long))
		g.run()
	}
	want := []string{"short", long, "short", long}
	wantBodies(t, hop, want...)
	if !slices.Equal(got, want) {
		t.Errorf("the subscriber got %d messages, want 4", len(got))
	}
	s.wantCredit(t, 250, false)
	g.wantExchange("ex", 2, 4, 0, 4, 0)
}

// TestExchangeStream: a message that is forwarded while it arrives goes to all next hops, and is
// accepted when it is complete (RT X5, F57, F59); abandoned half way it is aborted everywhere (F66).
func TestExchangeStream(t *testing.T) {
	for _, settled := range []bool{false, true} {
		g := newRig(t, nil, AddressConfig{Prefix: "many", Distribution: Multicast, Priority: -1})
		g.exchange(Exchange{Name: "ex", Address: "x", Alternate: "other"})
		g.bind("ex", "a>hop", "a>many", "#>hop")
		b := g.peer(nil)
		list := []*end{b.receiver("hop", 10), b.receiver("many", 10), g.peer(nil).receiver("many", 10), g.peer(nil).receiver("x", 10)}
		s := g.peer(nil).sender("x")
		message := about("a", strings.Repeat("0123456789", 30000))
		x := s.start(&amqp.OutDelivery{Settled: settled})
		x.more(message[:200000])
		g.run()
		for i, r := range list {
			if len(r.got) != 1 || len(r.got[0].payload) == 0 {
				t.Fatalf("settled %v: nothing has arrived at %d half way", settled, i)
			}
		}
		wantSaid(t, []*sent{x.sent})
		x.last(message[200000:])
		g.run()
		for i, r := range list {
			d := r.got[0]
			if !bytes.Equal(d.payload, message) || d.settled != (settled || i < 3) {
				t.Errorf("settled %v: %d has %d octets of %d, settled %v", settled, i, len(d.payload), len(message), d.settled)
			}
		}
		if !settled {
			wantSaid(t, []*sent{x.sent}, "accepted settled")
		}
		if i := s.info(); i.Unsettled != 0 || i.DroppedPresettled != 0 {
			t.Errorf("settled %v: %+v", settled, i)
		}
		s.wantCredit(t, 250, false)

		y := s.start(&amqp.OutDelivery{Settled: settled})
		y.more(message[:200000])
		g.run()
		y.abort()
		g.run()
		for i, r := range list {
			if len(r.got) != 2 || !r.got[1].aborted {
				t.Errorf("settled %v: %d has %+v", settled, i, r.got[1])
			}
		}
		s.wantCredit(t, 250, false)
		for _, r := range list {
			r.close()
		}
		z := s.start(&amqp.OutDelivery{Settled: settled})
		z.more(message[:200000])
		z.last(message[200000:])
		g.run()
		if !settled {
			wantSaid(t, []*sent{z.sent}, "released settled")
		} else if i := s.info(); i.DroppedPresettled != 1 {
			t.Errorf("%+v", i)
		}
		s.wantCredit(t, 250, false)
		other := b.receiver("other", 10)
		s.start(&amqp.OutDelivery{Settled: settled}).last(message)
		g.run()
		if len(other.got) != 1 || !other.got[0].whole {
			t.Errorf("settled %v: the alternate has %+v", settled, other.got)
		}
		g.wantExchange("ex", 3, 4, 1, 3, 1)
	}
}

// TestExchangeStreamSettledLate: the sender settles a message that is still arriving (RT F67).
func TestExchangeStreamSettledLate(t *testing.T) {
	g := newRig(t, nil)
	g.exchange(Exchange{Name: "ex", Address: "x"})
	g.bind("ex", "a>hop")
	hop, a := g.peer(nil).receiver("hop", 10), g.peer(nil)
	s := a.sender("x")
	message := about("a", strings.Repeat("0123456789", 30000))
	x := s.start(&amqp.OutDelivery{})
	x.more(message[:200000])
	g.run()
	x.say(a, amqp.StateAccepted, true)
	x.last(message[200000:])
	g.run()
	if len(hop.got) != 1 || !bytes.Equal(hop.got[0].payload, message) {
		t.Errorf("it has not arrived: %+v", hop.got)
	}
	wantSaid(t, []*sent{x.sent})
	if i := s.info(); i.Unsettled != 0 {
		t.Errorf("%+v", i)
	}
	s.wantCredit(t, 250, false)
}

// TestExchangeSlowStream: the subject of a message that streams from its first frame on is waited
// for.
func TestExchangeSlowStream(t *testing.T) {
	g := newRig(t, nil)
	g.exchange(Exchange{Name: "ex", Address: "x"})
	g.bind("ex", "a>hop")
	a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripIn = false })
	hop, s := g.peer(nil).receiver("hop", 10), a.sender("x")
	notes := amqp.Message{MessageAnnotations: amqp.Map{{Key: amqp.Symbol(annotationStream), Value: int32(1)}}}
	head := notes.Append(nil)
	sections, err := amqp.WalkMessage(head, amqp.DepthMessageAnnotations, true)
	if err != nil {
		t.Fatal(err)
	}
	head = head[:sections.MessageAnnotations.End]
	tail := about("a", strings.Repeat("0123456789", 1000))
	x := s.start(&amqp.OutDelivery{})
	x.more(slices.Concat(head, tail[:5]))
	g.run()
	if len(hop.got) != 0 {
		t.Fatal("routed without its subject")
	}
	x.more(tail[5:5000])
	g.run()
	if len(hop.got) != 1 || hop.got[0].whole {
		t.Fatalf("not streamed: %+v", hop.got)
	}
	x.last(tail[5000:])
	g.run()
	wantBodies(t, hop, strings.Repeat("0123456789", 1000))
	wantSaid(t, []*sent{x.sent}, "accepted settled")
}

// TestExchangeFallback: an address with both sends to its fallback what the exchange has no use for.
func TestExchangeFallback(t *testing.T) {
	g := newRig(t, nil, withFallback())
	g.exchange(Exchange{Name: "ex", Address: "dest.x"})
	b := g.peer(nil)
	store, s := b.fallbackReceiver("dest.x", 10, oneSymbol), g.peer(nil).sender("dest.x")
	s.transfer(&amqp.OutDelivery{}, about("a", "1"))
	g.run()
	g.bind("ex", "a>hop")
	hop := b.receiver("hop", 10)
	s.transfer(&amqp.OutDelivery{}, about("a", "2"))
	s.transfer(&amqp.OutDelivery{}, about("b", "3"))
	g.run()
	wantBodies(t, store, "1", "3")
	wantBodies(t, hop, "2")
	g.wantExchange("ex", 1, 3, 2, 1, 0)
	if x := g.addressInfo("M0dest.x"); x.RedirectedToFallback != 2 || x.Ingress != 3 {
		t.Errorf("%+v", x)
	}
}

// TestExchangeChanges: bindings, exchanges and fallback consumers come and go while messages pass;
// each gets one outcome, and no credit is lost.
func TestExchangeChanges(t *testing.T) {
	g := newRig(t, nil, withFallback())
	a, b := g.peer(nil), g.peer(nil)
	hop := b.receiver("hop", 100000)
	s := a.sender("dest.x")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			x, err := g.r.AddExchange(Exchange{Name: "ex", Address: "dest.x"})
			if err != nil {
				t.Error(err)
				return
			}
			for k := range i % 5 {
				y, err := g.r.AddBinding(Binding{Exchange: "ex", Key: fmt.Sprintf("a.%d", k), NextHop: "hop"})
				if err != nil {
					t.Error(err)
					return
				}
				if k == 3 {
					_ = g.r.DeleteBinding(y.ID) // there is no other that deletes it
				}
			}
			_ = g.r.DeleteExchange(x.ID)
		}
	}()
	var all []*sent
	for i := range 300 {
		store := b.fallbackReceiver("dest.x", 5, oneSymbol)
		for s.l.Credit() > 0 && len(all) <= 5*i {
			all = append(all, s.transfer(&amqp.OutDelivery{}, about(fmt.Sprintf("a.%d", i%5), "x")))
		}
		g.run()
		for k := range store.got {
			store.say(k, k, amqp.StateAccepted, true)
		}
		store.close()
		if s.l.Credit() > 0 && s.lastFlow(t).Drain {
			s.l.Drained()
		}
	}
	close(stop)
	<-done
	b.receiver("dest.x", 0)
	g.run()
	// How many messages met a binding is up to the scheduler; one does now.
	g.exchange(Exchange{Name: "last", Address: "dest.x"})
	g.bind("last", "a>hop")
	met := len(hop.got)
	all = append(all, s.transfer(&amqp.OutDelivery{}, about("a", "x")))
	g.run()
	if len(hop.got) != met+1 {
		t.Errorf("%d messages at the next hop, had %d", len(hop.got), met)
	}
	for _, x := range g.r.Exchanges() {
		_ = g.r.DeleteExchange(x.ID)
	}
	g.run()
	for i, x := range all {
		if len(x.said) != 1 || !strings.HasSuffix(x.said[0], " settled") {
			t.Errorf("delivery %d: %q", i, x.said)
		}
	}
	if len(all) < 300 {
		t.Errorf("%d messages", len(all))
	}
	s.wantCredit(t, 250, false)
	if n := len(g.r.Exchanges()) + len(g.r.Bindings()); n != 0 {
		t.Errorf("%d exchanges and bindings left", n)
	}
}
