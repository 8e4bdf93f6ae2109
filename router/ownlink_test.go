package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"qdrouter/amqp"
)

// container adds a connection of role route-container.
func (g *rig) container(name, id string, edit func(*ConnOptions)) *peer {
	return g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) {
		o.Role, o.Name, cfg.ContainerID = RoleRouteContainer, name, id
		if edit != nil {
			edit(o)
		}
	})
}

// inCore runs f in the core, and everything that comes of it.
func (g *rig) inCore(f func(*Core)) {
	g.r.InCore(f)
	g.run()
}

// TestWatch: who waits for connections is told of those that match, by configured name, by
// container id or by number, and of no others (RT L1, L2).
func TestWatch(t *testing.T) {
	g := newRig(t, nil)
	var events []string
	want := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(events, want) {
			t.Errorf("%s: told %q, want %q", what, events, want)
		}
		events = nil
	}
	numbers := map[*peer]string{}
	watch := func(who string, w Watch) *Watch {
		name := func(c *Conn) string {
			for p, s := range numbers {
				if p.c == c {
					return s
				}
			}
			return fmt.Sprint("new ", c.Number())
		}
		w.Opened = func(c *Conn) { events = append(events, who+" opened "+name(c)) }
		w.Closed = func(c *Conn) { events = append(events, who+" closed "+name(c)) }
		g.inCore(func(k *Core) { k.Watch(&w) })
		return &w
	}
	first := g.container("broker", "A", nil)
	numbers[first] = "first"
	byName := watch("name", Watch{Connection: "broker"})
	want("open before the watch", "name opened first")
	watch("id", Watch{Container: "A"})
	want("by container id", "id opened first")
	watch("number", Watch{Number: first.c.Number()})
	want("by number", "number opened first")
	watch("generated", Watch{Connection: "listener/0.0.0.0:amqp:x"})
	watch("nothing", Watch{})

	second := g.container("broker", "B", nil)
	want("a second of that name", fmt.Sprint("name opened new ", second.c.Number()))
	third := g.container("listener/0.0.0.0:amqp:x", "A", nil)
	want("a generated name is no label", fmt.Sprint("id opened new ", third.c.Number()))
	normal := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) { o.Name, cfg.ContainerID = "broker", "A" })
	want("another role")
	watch("normal", Watch{Number: normal.c.Number()})
	want("by number, any role", fmt.Sprint("normal opened new ", normal.c.Number()))

	g.r.InCore(func(k *Core) { k.Unwatch(byName) })
	second.die()
	g.run()
	want("nothing after Unwatch")
	first.eng.Close(nil)
	g.run()
	want("the peer closed", "number closed first", "id closed first")
	normal.die()
	g.run()
	want("the socket went", fmt.Sprint("normal closed new ", normal.c.Number()))
	g.inCore(func(k *Core) {
		if n := len(g.r.open.byNumber); n != 0 {
			t.Errorf("%d watches of connections that have gone are kept", n)
		}
	})
}

// TestAfter: a timer runs once, in the core and in order; a stopped one never does.
func TestAfter(t *testing.T) {
	g := newRig(t, nil)
	var ran []string
	done := make(chan struct{})
	g.r.InCore(func(k *Core) {
		stopped := k.After(0, func() { ran = append(ran, "stopped") })
		k.After(3*time.Millisecond, func() { ran = append(ran, "later"); close(done) })
		k.After(time.Millisecond, func() { ran = append(ran, "sooner") })
		k.After(time.Hour, func() { ran = append(ran, "never") })
		stopped.Stop()
		stopped.Stop()
	})
	<-done
	g.r.InCore(func(*Core) {
		if !slices.Equal(ran, []string{"sooner", "later"}) {
			t.Errorf("ran %q", ran)
		}
	})
}

// TestStopWhileDue: a timer that is due already, its turn in the core not come yet, can still be
// stopped.
func TestStopWhileDue(t *testing.T) {
	g := newRig(t, nil)
	g.r.InCore(func(k *Core) {
		x := k.After(0, func() { t.Error("ran") })
		eventually(t, "the timer is due", func() bool {
			g.r.timers.mu.Lock()
			defer g.r.timers.mu.Unlock()
			return x.index == 0
		})
		x.Stop()
	})
	g.core()
}

// owner notes what it is told. With a hold it binds its link when the peer has attached, and it
// answers detaches.
type owner struct {
	link   *Link
	hold   *AddressHold
	events []string
	a      *amqp.Attach
}

func (o *owner) Attached(a *amqp.Attach) {
	o.events = append(o.events, "attached")
	if o.a = a; o.hold != nil {
		o.link.Bind(o.hold, a, false)
	}
}

func (o *owner) Detached(closed bool, err *amqp.Error) {
	text := fmt.Sprint("detached ", closed)
	if err != nil {
		text += " " + err.Error()
	}
	o.events = append(o.events, text)
	o.link.Detach(closed, nil)
}

func (o *owner) Lost(connection bool) { o.events = append(o.events, fmt.Sprint("lost ", connection)) }

func (o *owner) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(o.events, want) {
		t.Errorf("the owner was told %q, want %q", o.events, want)
	}
	o.events = nil
}

func outgoing(address string) *amqp.Attach {
	return &amqp.Attach{Name: RandomName(), Role: amqp.RoleSender, Source: &amqp.Source{}, Target: target(address)}
}

func incoming(address string) *amqp.Attach {
	return &amqp.Attach{Name: RandomName(), Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some(address)}, Target: &amqp.Target{}}
}

// ask has the router attach a link. hold is the address to bind it to, "" = none.
func (g *rig) ask(p *peer, class SessionClass, a *amqp.Attach, hold string, phase int) *owner {
	g.t.Helper()
	o := &owner{}
	g.inCore(func(k *Core) {
		if hold != "" {
			o.hold = k.HoldAddress(hold, phase, false)
		}
		var err error
		if o.link, err = k.Attach(p.c, class, a, o); err != nil {
			g.t.Fatal(err)
		}
	})
	return o
}

// echo answers a router's attach as it came.
func echo(e *end) {
	a := *e.answer
	e.l.Attach(&a)
}

// refuse answers a router's attach with an error (RT A4).
func refuse(e *end) {
	e.l.Attach(&amqp.Attach{})
	e.l.Detach(true, &amqp.Error{Condition: amqp.ErrCondNotFound, Description: "no queue"})
}

// TestOwnSessions: links of one class share a session, which is begun when it is first needed and
// again when the peer ended it (RT E12, L35).
func TestOwnSessions(t *testing.T) {
	g := newRig(t, nil)
	p := g.container("broker", "A", nil)
	o1, o2, o3 := g.ask(p, ClientSession, outgoing("a"), "", 0), g.ask(p, ClientSession, incoming("b"), "", 0), g.ask(p, RoutedSession, outgoing("c"), "", 0)
	if p.asked[0].l.Session != p.asked[1].l.Session || p.asked[2].l.Session == p.asked[0].l.Session || p.asked[0].l.Session == p.s {
		t.Error("the sessions are not by class")
	}
	p.asked[0].l.Session.End(nil)
	g.run()
	o1.want(t, "lost false")
	o2.want(t, "lost false")
	o3.want(t)
	o4 := g.ask(p, ClientSession, outgoing("d"), "", 0)
	if s := p.asked[3].l.Session; s.Ended() || s == p.asked[2].l.Session {
		t.Error("no new session")
	}
	p.die()
	g.run()
	o3.want(t, "lost true")
	o4.want(t, "lost true")
	g.r.InCore(func(k *Core) {
		if _, err := k.Attach(p.c, ClientSession, outgoing("e"), &owner{}); err == nil {
			t.Error("a link on a dead connection")
		}
	})
	if n := len(g.links()); n != 0 {
		t.Errorf("%d links left", n)
	}
}

// TestLoneSessions: a link that is alone in its session gets the session of another such that has
// gone, or a new one; where the peer allows none, it shares.
func TestLoneSessions(t *testing.T) {
	g := newRig(t, nil)
	p := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) { o.Role, cfg.ChannelMax = RoleRouteContainer, 4 })
	p.onAttach = echo
	g.ask(p, ClientSession, outgoing("a"), "", 0)
	first := g.ask(p, LoneSession, outgoing("b"), "", 0)
	g.ask(p, LoneSession, outgoing("c"), "", 0)
	at := func(i int) *amqp.Session { return p.asked[i].l.Session }
	if at(0) == at(1) || at(0) == at(2) || at(1) == at(2) {
		t.Error("a session is shared")
	}
	g.inCore(func(*Core) { first.link.Detach(true, nil) })
	p.asked[1].l.Detach(true, nil)
	g.run()
	last := g.ask(p, LoneSession, outgoing("d"), "", 0)
	if at(3) != at(1) {
		t.Error("the session without a link is not used again")
	}
	at(3).End(&amqp.Error{Condition: amqp.ErrCondNotFound, Description: "no queue"})
	g.run()
	last.want(t, "attached", "lost false")
	if err := last.link.EndError(); err == nil || err.Condition != amqp.ErrCondNotFound || err.Description != "no queue" {
		t.Errorf("the session ended with %v", err)
	}
	g.ask(p, LoneSession, outgoing("e"), "", 0)
	g.ask(p, LoneSession, outgoing("f"), "", 0) // with the peer's own session and the one kept for routed links there are five
	if at(4) == at(0) || at(4) == at(2) || at(5) != at(0) {
		t.Error("the last link is not in the session of all, or the one before it is")
	}
	if r := g.ask(p, RoutedSession, outgoing("g"), "", 0); len(p.asked) != 7 {
		t.Errorf("no channel is left for routed links: %+v", r)
	}
}

// TestRoutedSessions: far halves of routed links share a session when the near ones do, and no
// other session, as long as there are few enough. What has no links any more is used again.
func TestRoutedSessions(t *testing.T) {
	for _, channelMax := range []uint16{65535, 30, 3} {
		g, _, _ := routed(t)
		p := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) { o.Role, cfg.ChannelMax = RoleRouteContainer, channelMax })
		p.onAttach = func(e *end) { e.l.Attach(&amqp.Attach{Source: e.answer.Source, Target: e.answer.Target}) }
		g.r.SetLinkRouting(routeTo{g, p})
		limit := min(routedSessions, max(1, int(channelMax)+1-1-spareChannels)) // one is the peer's own
		clients := make([]*peer, routedSessions+10)
		links := make([][]*end, len(clients))
		of := make([]*amqp.Session, len(clients))
		all := map[*amqp.Session]int{}
		attach := func(i int) {
			t.Helper()
			n := len(p.asked)
			links[i] = append(links[i], clients[i].sender("lr"))
			s := p.asked[n].l.Session
			if of[i] != nil && of[i] != s {
				t.Errorf("the links of client %d are in two sessions", i)
			}
			of[i] = s
			all[s]++
		}
		for i := range clients {
			clients[i] = g.peer(nil)
			attach(i)
			if want := min(i+1, limit); len(all) != want {
				t.Fatalf("%d clients: %d sessions, want %d", i+1, len(all), want)
			}
		}
		for i := range clients {
			attach(i)
		}
		most := 0
		for _, n := range all {
			most = max(most, n)
		}
		if want := 2 * (len(clients)/limit + 1); len(all) != limit || most > want {
			t.Errorf("%d sessions with up to %d links, want %d and %d", len(all), most, limit, want)
		}
		for _, l := range links[0] {
			l.close()
		}
		g.run()
		was := of[0]
		of[0] = nil
		attach(0)
		if limit == routedSessions && len(all) != limit {
			t.Errorf("%d sessions in the end, %v was free", len(all), was)
		}
	}
}

// TestOwnSessionWithoutChannel: a peer that has no channel for one more session gets no link.
func TestOwnSessionWithoutChannel(t *testing.T) {
	g := newRig(t, nil)
	p := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) { o.Role, cfg.ChannelMax = RoleRouteContainer, 0 })
	g.r.InCore(func(k *Core) {
		if _, err := k.Attach(p.c, ClientSession, outgoing("e"), &owner{}); err == nil {
			t.Error("a session beyond channel-max")
		}
	})
}

// TestOwnLinkAttach: what is asked for goes out as it is, but for what the router decides (RT
// L10), and the owner gets the peer's attach whole.
func TestOwnLinkAttach(t *testing.T) {
	g := newRig(t, nil)
	p := g.container("broker", "A", nil)
	filter := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("x"), Value: "y"}}))
	a := incoming("q")
	a.Source.Filter, a.Source.Durable = filter, amqp.Some(uint32(2))
	p.onAttach = func(e *end) {
		reply := *e.answer
		reply.Properties = amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("p"), Value: int32(1)}}))
		e.l.Attach(&reply)
	}
	o := g.ask(p, RoutedSession, a, "", 0)
	o.want(t, "attached")
	got := p.asked[0].answer
	if got.Name != a.Name || got.Role != amqp.RoleReceiver || string(got.Source.Filter) != string(filter) || got.Source.Durable.V != 2 || got.SndSettleMode.V != amqp.SndSettleModeMixed {
		t.Errorf("asked for %+v %+v", got, got.Source)
	}
	if o.a == nil || o.a.Properties == nil || string(o.a.Source.Filter) != string(filter) {
		t.Errorf("the owner got %+v", o.a)
	}
	if n := p.asked[0].l.Credit(); n != 0 {
		t.Errorf("%d credit before the link is in service", n)
	}
}

// TestOwnLinkRefused: the owner of a refused link is told the error, and the router answers.
func TestOwnLinkRefused(t *testing.T) {
	for _, a := range []*amqp.Attach{outgoing("q"), incoming("q")} {
		t.Run(a.Role.String(), func(t *testing.T) {
			g := newRig(t, nil)
			p := g.container("broker", "A", nil)
			p.onAttach = refuse
			o := g.ask(p, ClientSession, a, "", 0)
			o.want(t, "attached", "detached true amqp:not-found: no queue")
			if d := p.asked[0].detach; d == nil && !p.asked[0].l.RemoteDetached() {
				t.Error("the router did not answer the detach")
			}
			if n := len(g.links()); n != 0 {
				t.Errorf("%d links left", n)
			}
		})
	}
}

// TestOwnOutLink: a bound out-link is a consumer like any other: it opens credit, takes messages
// with its container's credit, and passes outcomes back (RT A11, A13, A14, A15).
func TestOwnOutLink(t *testing.T) {
	g := newRig(t, nil)
	p := g.container("broker", "A", nil)
	client := g.peer(nil)
	s := client.sender("q")
	if s.l.Credit() != 0 {
		t.Fatal("credit without a consumer")
	}
	p.onAttach = func(e *end) { echo(e); e.l.Grant(2) }
	o := g.ask(p, ClientSession, outgoing("ext"), "q", 0)
	o.want(t, "attached")
	if s.l.Credit() != 250 {
		t.Errorf("credit %d", s.l.Credit())
	}
	sent := s.sendN(3)
	g.run()
	q := p.asked[0]
	wantBodies(t, q, "0", "1")
	q.say(0, 0, amqp.StateAccepted, true)
	q.say(1, 1, amqp.StateReleased, true)
	wantSaid(t, sent[:1], "accepted settled")
	wantSaid(t, sent[1:2], "released settled")
	q.l.Grant(1)
	g.run()
	if a := g.addressInfo("M0q"); a.Subscribers != 1 || a.EgressRouteContainer != 3 || g.r.Stats().EgressRouteContainer != 3 {
		t.Errorf("address %+v", a)
	}
	p.asked[0].l.Detach(true, nil)
	g.run()
	o.want(t, "detached true")
	wantSaid(t, sent[2:], "modified failed settled") // RT 2.9
	if a := g.addressInfo("M0q"); a.Subscribers != 0 {
		t.Errorf("address %+v", a)
	}
}

// TestOwnInLink: a bound in-link is a producer of its phase like any other: it has credit while
// somebody receives, and what it brings bears the address as this network knows it (RT F1, A12).
func TestOwnInLink(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Prefix: "q", Distribution: Balanced, EgressPhase: 1})
	p := g.container("broker", "A", func(o *ConnOptions) { o.StripOut = true })
	p.onAttach = echo
	o := g.ask(p, ClientSession, incoming("ext"), "q", 1)
	o.want(t, "attached")
	e := p.asked[0]
	if e.l.Credit() != 0 {
		t.Fatal("credit without a consumer")
	}
	client := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripOut = false })
	r := client.receiver("q", 10)
	if e.l.Credit() != 250 {
		t.Fatalf("credit %d", e.l.Credit())
	}
	sent := []*sent{e.send("m")}
	g.run()
	if len(r.got) != 1 {
		t.Fatal("nothing received")
	}
	if m := string(r.got[0].payload); !strings.Contains(m, "x-opt-qd.to\xa1\x01q") {
		t.Errorf("message %q", m)
	}
	r.say(0, 0, amqp.StateAccepted, true)
	wantSaid(t, sent, "accepted settled")
	if e.l.Credit() != 250 {
		t.Errorf("credit %d after settlement", e.l.Credit())
	}
	if a := g.addressInfo("M1q"); a.IngressRouteContainer != 1 || g.r.Stats().IngressRouteContainer != 1 {
		t.Errorf("address %+v", a)
	}
	r.close()
	g.inCore(func(*Core) { o.hold.Release() })
	p.die()
	g.run()
	o.want(t, "lost true")
	for _, a := range g.r.Addresses() {
		if a.Key == "M1q" {
			t.Errorf("the address is left: %+v", a)
		}
	}
}

// TestOwnDetach: a link that the router detaches goes at once; a message that was arriving on it is
// aborted downstream when the peer has answered (RT E67, A9, F66).
func TestOwnDetach(t *testing.T) {
	g := newRig(t, nil)
	p := g.container("broker", "A", nil)
	p.onAttach = func(e *end) { echo(e); e.l.Grant(5) }
	client := g.peer(nil)
	r := client.receiver("in", 10)
	in, out := g.ask(p, ClientSession, incoming("in"), "in", 0), g.ask(p, ClientSession, outgoing("out"), "out", 0)
	s := client.sender("out")
	sent := s.sendN(2)
	whole := p.asked[0].send("whole")
	half := p.asked[0].start(&amqp.OutDelivery{})
	half.more(bigMessage(300000)[:200000])
	g.run()
	if len(r.got) != 2 || r.got[1].whole {
		t.Fatalf("received %d", len(r.got))
	}
	g.inCore(func(*Core) { in.link.Detach(true, nil); out.link.Detach(true, nil) })
	for i, e := range p.asked {
		if e.detach == nil || !e.detach.Closed || e.detach.Error != nil {
			t.Errorf("link %d: detach %+v", i, e.detach)
		}
	}
	wantSaid(t, sent, "modified failed settled")
	if !r.got[1].aborted {
		t.Error("the half message is not aborted")
	}
	r.say(0, 0, amqp.StateAccepted, true)
	if len(whole.said) != 0 {
		t.Errorf("said %q about a delivery of a link that is gone", whole.said)
	}
	in.want(t, "attached")
	out.want(t, "attached")
	if n := len(g.links()); n != 2 {
		t.Errorf("%d links left", n)
	}
	if got := g.ask(p, ClientSession, incoming("in"), "in", 0); got.a == nil {
		t.Error("no new link in that session")
	}
}

// TestOwnDetachCrossed: when both ends detach at once the owner, who was first, hears nothing.
func TestOwnDetachCrossed(t *testing.T) {
	g := newRig(t, nil)
	p := g.container("broker", "A", nil)
	p.onAttach = echo
	o := g.ask(p, ClientSession, incoming("in"), "in", 0)
	p.asked[0].l.Detach(false, nil)
	g.r.InCore(func(*Core) { o.link.Detach(true, nil) })
	g.run()
	o.want(t, "attached")
	if p.asked[0].l.RemoteDetached() != true || len(g.links()) != 0 {
		t.Error("the link is left")
	}
}

// TestOwnLinkOverrun: a peer that sends without credit loses the link; the owner hears why.
func TestOwnLinkOverrun(t *testing.T) {
	g := newRig(t, nil)
	p := g.container("broker", "A", nil)
	p.onAttach = echo
	o := g.ask(p, ClientSession, incoming("in"), "in", 0)
	d := &amqp.OutDelivery{Settled: true}
	p.asked[0].l.Start(d)
	p.asked[0].l.SendFrames(d, true, true, plain("m"), 1<<20)
	g.run()
	o.want(t, "attached", "detached true amqp:link:transfer-limit-exceeded: transfer without link credit")
	if len(g.links()) != 0 {
		t.Error("the link is left")
	}
}

// TestHoldAddress: an address that an autolink holds has an entry, balanced if unavailable (RT A2,
// E30).
func TestHoldAddress(t *testing.T) {
	g := newRig(t, func(o *Options) { o.DefaultDistribution = Unavailable })
	var h *AddressHold
	g.inCore(func(k *Core) {
		h = k.HoldAddress("amqp://x/q", 1, false)
		if k.HoldAddress("_local/q", 0, false) != nil || k.HoldAddress("/", 0, false) != nil {
			t.Error("held what is no mobile address")
		}
	})
	if a := g.addressInfo("M1q"); a.Distribution != Balanced {
		t.Errorf("address %+v", a)
	}
	g.inCore(func(*Core) { h.Release() })
	if len(g.r.Addresses()) != len(newRig(t, nil).r.Addresses()) {
		t.Error("the entry is left")
	}
}
