package linkroute

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"qdrouter/amqp"
	"qdrouter/router"
)

// A rig is a router with containers and clients joined to it in memory, in a bubble of virtual
// time. Peers act, then run carries frames to and fro until nothing moves any more.
type rig struct {
	t     *testing.T
	r     *router.Router
	log   *testLog
	peers []*peer
}

// bubble runs a conversation.
func bubble(t *testing.T, f func(g *rig), config ...router.AddressConfig) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &rig{t: t, log: &testLog{}}
		g.r = router.New(router.Options{ID: "R", Area: "0", Mode: router.Standalone, Version: "test", Log: g.log})
		for _, c := range config {
			if _, err := g.r.AddAddressConfig(c); err != nil {
				t.Fatal(err)
			}
		}
		f(g)
		for _, p := range g.peers {
			p.die()
		}
		g.r.Close()
	})
}

// run carries frames until nothing moves.
func (g *rig) run() {
	for moved := true; moved; {
		moved = false
		synctest.Wait()
		for _, p := range g.peers {
			if p.pump() {
				moved = true
			}
		}
	}
}

// testLog keeps what the router logs.
type testLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *testLog) Enabled(string, router.Level) bool { return true }

func (l *testLog) Log(_ string, _ router.Level, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, text)
}

// take returns the lines so far that begin so, and forgets all.
func (l *testLog) take(begin string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.lines {
		if strings.HasPrefix(s, begin) {
			lines = append(lines, s)
		}
	}
	l.lines = nil
	return lines
}

// A peer is one connection to the router, the container or client at its far end, and the wire
// between: what the router writes waits in out.
type peer struct {
	g *rig
	c *router.Conn

	mu   sync.Mutex // guards out and cut, which the router's goroutines write
	out  []byte
	cut  bool
	done bool

	eng    *amqp.Conn
	in     []byte // for the router
	half   []byte // of a frame of the router
	s      *amqp.Session
	links  []*link // in the order of their attaches
	accept func(*link)
}

// A link is a peer's half of one.
type link struct {
	l      *amqp.Link
	attach *amqp.Attach // the router's
	detach *amqp.Detach
	bodies []string
	ids    []amqp.Serial
	said   []string // of what this end sent
}

// container adds an open connection of role route-container. accept answers the router's attaches.
func (g *rig) container(name, id string, accept func(*link)) *peer {
	return g.peer(router.ConnOptions{Role: router.RoleRouteContainer, Name: name}, id, accept)
}

// client adds an open connection of role normal, with a session.
func (g *rig) client() *peer {
	p := g.peer(router.ConnOptions{}, "client", nil)
	s, err := p.eng.Begin()
	if err != nil {
		g.t.Fatal(err)
	}
	p.s = s
	return p
}

func (g *rig) peer(o router.ConnOptions, id string, accept func(*link)) *peer {
	o.ID, o.Incoming, o.Host, o.MaxFrameSize, o.LinkCapacity = g.r.NextConnectionID(), true, "127.0.0.1:1", 16384, 250
	o.StripIn, o.StripOut = true, true
	p := &peer{g: g, accept: accept}
	p.eng = amqp.NewConn(amqp.ConnConfig{ContainerID: id, MaxFrameSize: 65536, ChannelMax: 10}, p)
	p.c = g.r.NewConn(o, p)
	g.peers = append(g.peers, p)
	p.eng.Open()
	g.run()
	return p
}

func (p *peer) TryWrite(b []byte) (int, error) { return p.Write(b) }

func (p *peer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = append(p.out, b...)
	return len(b), nil
}

func (p *peer) Cut() {
	p.mu.Lock()
	p.cut = true
	p.mu.Unlock()
}

// pump gives the router what the peer has to say, and the peer what the router wrote.
func (p *peer) pump() (moved bool) {
	if p.done {
		return false
	}
	p.eng.Prepare()
	if len(p.eng.Out) > 0 {
		moved = true
		p.in = append(p.in, p.eng.Out...)
		p.eng.Out = p.eng.Out[:0]
		p.c.Begin()
		n, err := p.c.Input(p.in)
		p.c.End()
		p.in = p.in[n:]
		if err != nil {
			if !errors.Is(err, router.ErrClosed) {
				p.g.t.Fatal(err)
			}
			p.die()
			return true
		}
	}
	p.mu.Lock()
	out, cut := p.out, p.cut
	p.out = nil
	p.mu.Unlock()
	if len(out) > 0 {
		moved = true
		p.half = append(p.half, out...)
		n, err := p.eng.Input(p.half)
		if err != nil {
			p.g.t.Fatalf("the router broke the protocol: %v", err)
		}
		p.half = append([]byte(nil), p.half[n:]...)
	}
	if cut {
		p.die()
		moved = true
	}
	return moved
}

// die is the peer's socket going away.
func (p *peer) die() {
	if !p.done {
		p.done = true
		p.c.Done()
	}
}

func (p *peer) Lock()   {}
func (p *peer) Unlock() {}
func (p *peer) Flush()  {}

func (p *peer) RemoteOpen(*amqp.Open) *amqp.Error                   { return nil }
func (p *peer) RemoteBegin(*amqp.Session, *amqp.Begin) *amqp.Error  { return nil }
func (p *peer) SessionFlow(*amqp.Session)                           {}
func (p *peer) LinkFlow(l *amqp.Link, f *amqp.Flow, drained uint32) {}
func (p *peer) LinkFailed(l *amqp.Link, err *amqp.Error)            { p.g.t.Errorf("link failed: %v", err) }
func (p *peer) RemoteEnd(*amqp.Session, *amqp.End)                  {}
func (p *peer) RemoteClose(*amqp.Close)                             {}

func (p *peer) RemoteAttach(l *amqp.Link, a *amqp.Attach) *amqp.Error {
	var c amqp.Attach
	if _, err := c.Decode(a.Append(nil)); err != nil {
		p.g.t.Fatal(err)
	}
	k, ours := l.Owner.(*link)
	if !ours {
		k = &link{l: l}
		l.Owner = k
		p.links = append(p.links, k)
	}
	k.attach = &c
	if !ours && p.accept != nil {
		p.accept(k)
	}
	return nil
}

func (p *peer) RemoteDetach(l *amqp.Link, d *amqp.Detach) {
	k := l.Owner.(*link)
	cp := *d
	k.detach = &cp
	l.Detach(d.Closed, nil)
}

func (p *peer) Transfer(l *amqp.Link, t *amqp.Transfer, payload []byte) *amqp.Error {
	k := l.Owner.(*link)
	s, err := amqp.WalkMessage(payload, amqp.DepthAll, true)
	if err != nil {
		p.g.t.Fatal(err)
	}
	v, _, err := amqp.DecodeValue(payload[s.Body+3:])
	if err != nil {
		p.g.t.Fatal(err)
	}
	k.bodies = append(k.bodies, string(v.([]byte)))
	k.ids = append(k.ids, amqp.Serial(t.DeliveryID.V))
	return nil
}

func (p *peer) Disposition(s *amqp.Session, d *amqp.Disposition) {
	code, _ := amqp.StateCode(d.State)
	text := map[uint64]string{amqp.CodeAccepted: "accepted", amqp.CodeReleased: "released", amqp.CodeModified: "modified"}[code]
	for id := amqp.Serial(d.First); !amqp.Serial(d.Last.Or(d.First)).Before(id); id++ {
		for _, k := range p.links {
			if i := slices.Index(k.ids, id); k.l.Session == s && i >= 0 && d.Role == !k.l.Role {
				k.said = append(k.said, text)
			}
		}
	}
}

// attach attaches a link of a client: a sender to an address, or a receiver with credit.
func (p *peer) attach(role amqp.Role, address string, credit uint32) *link {
	k := &link{l: p.s.NewLink(fmt.Sprint("l", len(p.links)), role)}
	k.l.Owner = k
	p.links = append(p.links, k)
	a := &amqp.Attach{Source: &amqp.Source{}, Target: &amqp.Target{}}
	if role == amqp.RoleSender {
		a.Target.Address = amqp.Some(address)
	} else {
		a.Source.Address = amqp.Some(address)
	}
	k.l.Attach(a)
	if credit > 0 {
		k.l.Grant(credit)
	}
	p.g.run()
	return k
}

// send sends unsettled messages with these bodies.
func (k *link) send(bodies ...string) {
	for _, body := range bodies {
		d := &amqp.OutDelivery{}
		k.ids = append(k.ids, k.l.Start(d))
		k.l.SendFrames(d, true, true, amqp.AppendBinary([]byte{0, 0x53, amqp.CodeData}, []byte(body)), 1<<20)
	}
}

// settle gives everything received that outcome.
func (k *link) settle(state amqp.Raw) {
	for _, id := range k.ids {
		k.l.Session.Dispose(amqp.RoleReceiver, id, id, true, state)
	}
	k.ids = nil
}

// take answers an attach as it came, and gives credit where the router sends.
func take(k *link) {
	a := *k.attach
	k.l.Attach(&a)
	if k.l.Role == amqp.RoleReceiver {
		k.l.Grant(100)
	}
}

// refuse answers an attach as a broker without the queue does (RT A4).
func refuse(k *link) {
	k.l.Attach(&amqp.Attach{})
	k.l.Detach(true, &amqp.Error{Condition: amqp.ErrCondNotFound, Description: "Node not found: q"})
}
