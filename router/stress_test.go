package router

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"go.uber.org/goleak"

	"qdrouter/amqp"
)

// A world is a router and clients that do as they like, each from goroutines of its own.
type world struct {
	t        *testing.T
	r        *Router
	mu       sync.Mutex
	rec      map[uint64]*record // by number of the message
	next     uint64
	settling bool       // some receivers want settled deliveries
	gone     []weakLink // what the router must have forgotten in the end
	wg       sync.WaitGroup
}

// record is the life of one message.
type record struct {
	n         uint64
	multicast bool
	settled   bool
	lost      bool // its sender's link or connection went, or gave it up
	selfMade  bool // the sender settled it
	outcomes  []uint64
	got       int                  // complete deliveries
	ends      map[*clientLink]bool // that have it
	decided   map[uint64]bool      // states that receivers gave it
}

type weakLink struct {
	what string
	gone func() bool
}

func watch[T any](w *world, what string, p *T) {
	if p == nil {
		return
	}
	x := weak.Make(p)
	w.mu.Lock()
	w.gone = append(w.gone, weakLink{what, func() bool { return x.Value() == nil }})
	w.mu.Unlock()
}

// A client is one connection, its socket, and the program at its far end.
type client struct {
	w    *world
	rng  *rand.Rand
	c    *Conn
	wire *wire

	mu    sync.Mutex
	eng   *amqp.Conn
	s     *amqp.Session
	links []*clientLink
	sent  map[amqp.Serial]*record
	dead  bool
	fault error

	toRouter []byte
	wake     chan struct{} // there is something in toRouter, or dead
}

type clientLink struct {
	p       *client
	l       *amqp.Link
	address string
	up      bool // both ends attached
	closed  bool

	// Of a sender.
	cur     *record // in progress, of several frames
	od      *amqp.OutDelivery
	rest    []byte
	begun   bool
	capable bool // settles by itself now and then

	// Of a receiver.
	part []byte
	open []*held // not settled
}

type held struct {
	id    amqp.Serial
	n     uint64
	state uint64
}

func (w *world) client(seed uint64) *client {
	p := &client{w: w, rng: rand.New(rand.NewPCG(seed, 1)), wire: newWire(), sent: make(map[amqp.Serial]*record), wake: make(chan struct{}, 1)}
	p.wire.once = []int{0, 0, 1, 50, 1000}[p.rng.IntN(5)]
	o := ConnOptions{ID: w.r.NextConnectionID(), MaxFrameSize: 16384, LinkCapacity: uint32(5 + p.rng.IntN(100)), StripIn: true, StripOut: p.rng.IntN(2) == 0}
	cfg := amqp.ConnConfig{ContainerID: "c", MaxFrameSize: uint32(512 + p.rng.IntN(20000)), SessionFrames: uint32(p.rng.IntN(3) * 20)}
	p.eng = amqp.NewConn(cfg, p)
	p.c = w.r.NewConn(o, p.wire)
	watch(w, "connection", p.c)
	p.eng.Open()
	p.s, _ = p.eng.Begin()
	p.flush()
	w.wg.Add(2)
	go p.routerReads(p.rng.Uint64())
	go p.reads()
	return p
}

// flush hands the router what the engine has to say. The lock is held.
func (p *client) flush() {
	p.eng.Prepare()
	p.toRouter = append(p.toRouter, p.eng.Out...)
	p.eng.Out = p.eng.Out[:0]
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// routerReads is the router's reader of the connection.
func (p *client) routerReads(seed uint64) {
	defer p.w.wg.Done()
	rng := rand.New(rand.NewPCG(seed, 2))
	var buf []byte
	var end error
	for end == nil {
		p.mu.Lock()
		buf = append(buf, p.toRouter...)
		p.toRouter = p.toRouter[:0]
		dead := p.dead
		p.mu.Unlock()
		p.wire.mu.Lock()
		cut := p.wire.cut
		p.wire.mu.Unlock()
		if dead || cut {
			break
		}
		for len(buf) > 0 && end == nil {
			n := 1 + rng.IntN(len(buf))
			if rng.IntN(2) == 0 {
				n = len(buf)
			}
			p.c.Begin()
			var used int
			used, end = p.c.Input(buf[:n])
			p.c.End()
			buf = buf[used:]
			if used == 0 && n == len(buf) {
				break
			}
		}
		if end == nil {
			<-p.wake
		}
	}
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.wire.Cut()
	p.c.Done()
}

// reads is the client's reader.
func (p *client) reads() {
	defer p.w.wg.Done()
	var half []byte
	for {
		out, cut := p.wire.take()
		half = append(half, out...)
		n, err := p.eng.Input(half)
		half = append([]byte(nil), half[n:]...)
		p.mu.Lock()
		if err != nil && p.fault == nil && !p.dead {
			p.fault = err
		}
		if p.s.WindowLow() {
			p.s.FlowDue()
		}
		p.flush()
		p.mu.Unlock()
		if cut {
			return
		}
		<-p.wire.ready
	}
}

func (p *client) Lock()   { p.mu.Lock() }
func (p *client) Unlock() { p.mu.Unlock() }
func (p *client) Flush()  {}

func (p *client) RemoteOpen(*amqp.Open) *amqp.Error                  { return nil }
func (p *client) RemoteBegin(*amqp.Session, *amqp.Begin) *amqp.Error { return nil }
func (p *client) RemoteEnd(*amqp.Session, *amqp.End)                 {}
func (p *client) RemoteClose(*amqp.Close)                            {}
func (p *client) LinkFailed(l *amqp.Link, err *amqp.Error)           { p.fault = err }
func (p *client) RemoteAttach(l *amqp.Link, a *amqp.Attach) *amqp.Error {
	l.Owner.(*clientLink).up = true
	return nil
}

func (p *client) RemoteDetach(l *amqp.Link, d *amqp.Detach) {
	p.fault = fmt.Errorf("the router detached %q: %v", l.Name, d.Error)
}

func (p *client) LinkFlow(l *amqp.Link, f *amqp.Flow, drained uint32) {
	if l.Role == amqp.RoleSender && f.Drain && l.Credit() > 0 {
		l.Drained()
	}
}

func (p *client) SessionFlow(s *amqp.Session) {
	for _, k := range p.links {
		k.goOn()
	}
}

// Transfer takes in a delivery: the first octets of each body tell its number.
func (p *client) Transfer(l *amqp.Link, t *amqp.Transfer, payload []byte) *amqp.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := l.Owner.(*clientLink)
	k.part = append(k.part, payload...)
	if t.Aborted {
		k.part = nil
		return nil
	}
	if t.More {
		return nil
	}
	body := bodyOf(k.part)
	k.part = nil
	if len(body) < 8 {
		p.fault = fmt.Errorf("a body of %d octets came", len(body))
		return nil
	}
	n := binary.BigEndian.Uint64([]byte(body))
	w := p.w
	w.mu.Lock()
	x := w.rec[n]
	x.got++
	if x.ends[k] {
		p.fault = fmt.Errorf("message %d came twice", n)
	}
	x.ends[k] = true
	w.mu.Unlock()
	if !t.Settled.V {
		k.open = append(k.open, &held{id: amqp.Serial(t.DeliveryID.V), n: n})
	}
	return nil
}

func (p *client) Disposition(s *amqp.Session, d *amqp.Disposition) {
	if d.Role != amqp.RoleReceiver {
		return
	}
	code, _ := amqp.StateCode(d.State)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for id := amqp.Serial(d.First); !amqp.Serial(d.Last.Or(d.First)).Before(id); id++ {
		x := p.sent[id]
		if x == nil {
			p.fault = fmt.Errorf("a word on delivery %d, which is none", id)
			return
		}
		if d.Settled {
			x.outcomes = append(x.outcomes, code)
		}
	}
}

// attach attaches a link. The lock is held.
func (p *client) attach(role amqp.Role, address string) *clientLink {
	k := &clientLink{p: p, l: p.s.NewLink(fmt.Sprint(len(p.links)), role), address: address}
	k.l.Owner = k
	k.capable = p.rng.IntN(4) == 0
	p.links = append(p.links, k)
	a := &amqp.Attach{Source: &amqp.Source{}, Target: &amqp.Target{}}
	if role == amqp.RoleSender {
		a.Target = target(address)
	} else {
		a.Source.Address = amqp.Some(address)
		if p.w.settling && p.rng.IntN(6) == 0 {
			a.SndSettleMode = amqp.Some(amqp.SndSettleModeSettled)
		}
	}
	k.l.Attach(a)
	if role == amqp.RoleReceiver {
		k.l.Grant(uint32(p.rng.IntN(20)))
	}
	return k
}

// send begins a message. The lock is held.
func (k *clientLink) send() {
	p, rng := k.p, k.p.rng
	if !k.up || k.closed || k.cur != nil || k.l.Credit() == 0 || p.s.OutWindow() == 0 {
		return
	}
	to := k.address
	if to == "" {
		to = addresses[rng.IntN(len(addresses))]
	}
	w := p.w
	w.mu.Lock()
	w.next++
	x := &record{n: w.next, settled: rng.IntN(3) == 0, multicast: to == "multi", ends: make(map[*clientLink]bool), decided: make(map[uint64]bool)}
	w.rec[x.n] = x
	w.mu.Unlock()
	size := 8 + rng.IntN(100)
	switch rng.IntN(40) {
	case 0:
		size = 200000 + rng.IntN(100000)
	case 1, 2:
		size = 5000 + rng.IntN(40000)
	}
	body := make([]byte, size)
	binary.BigEndian.PutUint64(body, x.n)
	k.rest = plain(string(body))
	if k.address == "" {
		k.rest = addressed(to, string(body))
	}
	k.cur = x
	k.od = &amqp.OutDelivery{Tag: x.n, Settled: x.settled}
	k.begun = false
	p.sent[k.l.Start(k.od)] = x
	k.goOn()
}

// goOn sends what the session window takes of a message in progress.
func (k *clientLink) goOn() {
	if k.cur == nil || k.closed || k.p.dead {
		return
	}
	n, began := k.l.SendFrames(k.od, !k.begun, true, k.rest, 1<<30)
	k.begun = k.begun || began
	if k.rest = k.rest[n:]; began && len(k.rest) == 0 {
		k.cur, k.rest = nil, nil
	}
}

func (k *clientLink) abandon() {
	if k.cur != nil {
		k.cur.lost = true
		k.cur, k.rest = nil, nil
	}
}

// settle gives n of the deliveries that a receiver holds a state, most of them for good.
func (k *clientLink) settle(n int, accept bool) {
	p, rng := k.p, k.p.rng
	for ; n > 0 && len(k.open) > 0; n-- {
		i := 0
		if rng.IntN(3) == 0 {
			i = rng.IntN(len(k.open))
		}
		h := k.open[i]
		state := []amqp.Raw{amqp.StateAccepted, amqp.StateAccepted, amqp.StateReleased, stateModified, stateRejected, nil}[rng.IntN(6)]
		if accept {
			state = amqp.StateAccepted
		}
		code, _ := amqp.StateCode(state)
		if h.state == 0 {
			h.state = code
		}
		p.w.mu.Lock()
		p.w.rec[h.n].decided[h.state] = true
		p.w.mu.Unlock()
		if !accept && rng.IntN(5) == 0 {
			p.s.Dispose(amqp.RoleReceiver, h.id, h.id, false, state)
			continue
		}
		p.s.Dispose(amqp.RoleReceiver, h.id, h.id, true, state)
		k.open = slices.Delete(k.open, i, i+1)
	}
}

var addresses = []string{"q", "close", "multi", "other"}

// act does something at random. The lock is held.
func (p *client) act() {
	rng := p.rng
	role := amqp.Role(rng.IntN(2) == 0)
	switch n := rng.IntN(100); {
	case n < 6:
		if len(p.links) < 30 {
			address := addresses[rng.IntN(len(addresses))]
			if role == amqp.RoleSender && rng.IntN(4) == 0 {
				address = ""
			}
			p.attach(role, address)
		}
	case n < 8:
		if k := p.any(role); k != nil {
			p.detach(k)
		}
	case n < 45:
		if k := p.any(amqp.RoleSender); k != nil {
			for range 1 + rng.IntN(20) {
				k.send()
			}
		}
	case n < 47: // the sender settles, or speaks
		if k := p.any(amqp.RoleSender); k != nil && k.capable && len(p.sent) > 0 {
			for id, x := range p.sent {
				if rng.IntN(2) == 0 {
					p.w.mu.Lock()
					x.selfMade = true
					p.w.mu.Unlock()
					p.s.Dispose(amqp.RoleSender, id, id, true, nil)
				} else {
					p.s.Dispose(amqp.RoleSender, id, id, false, stateReceived)
				}
				break
			}
		}
	case n < 49: // and gives up what it is in the middle of
		if k := p.any(amqp.RoleSender); k != nil && k.cur != nil && k.begun {
			p.w.mu.Lock()
			k.abandon()
			p.w.mu.Unlock()
			k.l.Abort(k.od)
		}
	case n < 75:
		if k := p.any(amqp.RoleReceiver); k != nil {
			k.settle(rng.IntN(20), false)
		}
	case n < 90:
		if k := p.any(amqp.RoleReceiver); k != nil {
			k.l.Draining = rng.IntN(6) == 0
			k.l.Grant(uint32(rng.IntN(30)))
		}
	case n < 94:
		p.wire.fill(rng.IntN(3000))
	default:
		p.wire.open()
	}
}

// any returns a link of that role that is up, if there is one.
func (p *client) any(role amqp.Role) *clientLink {
	var list []*clientLink
	for _, k := range p.links {
		if k.l.Role == role && k.up && !k.closed {
			list = append(list, k)
		}
	}
	if list == nil {
		return nil
	}
	return list[p.rng.IntN(len(list))]
}

// detach ends a link. What it sent and is not settled is lost to it.
func (p *client) detach(k *clientLink) {
	k.closed = true
	k.open = nil
	if k.l.Role == amqp.RoleSender {
		p.w.mu.Lock()
		k.abandon()
		for _, x := range p.sent {
			if len(x.outcomes) == 0 {
				x.lost = true // of this link or another: the test does not tell
			}
		}
		p.w.mu.Unlock()
	}
	k.l.Detach(true, nil)
}

// die is the end of the client, in whatever state it is.
func (p *client) die() {
	p.mu.Lock()
	p.dead = true
	p.w.mu.Lock()
	for _, x := range p.sent {
		x.lost = true
	}
	p.w.mu.Unlock()
	p.flush()
	p.mu.Unlock()
	p.wire.Cut()
}

// live lets a client act until stop.
func (p *client) live(steps int) {
	for range steps {
		p.mu.Lock()
		if p.dead || p.fault != nil {
			p.mu.Unlock()
			return
		}
		p.act()
		p.flush()
		p.mu.Unlock()
		runtime.Gosched()
	}
}

// calm makes a client take and accept everything, and reports whether it waits for nothing.
func (p *client) calm() bool {
	p.wire.open()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return true
	}
	quiet := true
	for _, k := range p.links {
		if k.closed {
			continue
		}
		if !k.up || k.cur != nil || len(k.open) > 0 {
			quiet = false
		}
		if k.l.Role == amqp.RoleReceiver {
			k.settle(len(k.open), true)
			if k.up && (k.l.Draining || k.l.CreditOut() < 1000) {
				k.l.Draining = false
				k.l.Grant(2000)
				quiet = false
			}
		}
	}
	p.w.mu.Lock()
	for _, x := range p.sent {
		if !x.lost && !x.settled && !x.selfMade && len(x.outcomes) == 0 {
			quiet = false
		}
	}
	p.w.mu.Unlock()
	p.flush()
	return quiet
}

// TestStress: clients attach, send, settle, drain, detach, stop reading and die in random ways.
// Afterwards every delivery of a sender that still lives has exactly one outcome, and one that
// fits; no message came twice; credit is where it should be, counters add up, and of what is
// gone nothing is left.
func TestStress(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	seeds := 6
	if underRace || testing.Short() {
		seeds = 2
	}
	first := uint64(time.Now().UnixNano())
	for i := range uint64(seeds) {
		stress(t, first+i)
		if t.Failed() {
			t.Logf("seed %d", first+i)
			return
		}
	}
	goleak.VerifyNone(t, leaks)
}

func stress(t *testing.T, seed uint64) {
	w := &world{t: t, rec: make(map[uint64]*record), settling: seed%2 == 0}
	w.r = New(Options{ID: "R", Area: "0", Mode: Standalone, Log: silent{}})
	for _, c := range []AddressConfig{{Prefix: "multi", Distribution: Multicast, Priority: -1}, {Prefix: "close", Distribution: Closest, Priority: -1}} {
		if _, err := w.r.AddAddressConfig(c); err != nil {
			t.Fatal(err)
		}
	}
	base := w.r.Stats()
	rng := rand.New(rand.NewPCG(seed, 0))
	var all, stay []*client
	var wg sync.WaitGroup
	for round := range 3 {
		for range 3 {
			p := w.client(rng.Uint64())
			all = append(all, p)
			dies, polite := rng.IntN(3) == 0 || round == 0, rng.IntN(2) == 0
			if !dies {
				stay = append(stay, p)
			}
			steps := 200 + rng.IntN(300)
			wg.Add(1)
			go func() {
				defer wg.Done()
				p.live(steps)
				switch {
				case !dies:
				case polite:
					p.mu.Lock()
					p.w.mu.Lock()
					for _, x := range p.sent {
						x.lost = true
					}
					p.w.mu.Unlock()
					p.eng.Close(nil)
					p.flush()
					p.mu.Unlock()
					p.wire.open()
				default:
					p.die()
				}
			}()
		}
	}
	wg.Wait()
	for end := time.Now().Add(30 * time.Second); ; {
		quiet := true
		for _, p := range stay {
			if !p.calm() {
				quiet = false
			}
			p.mu.Lock()
			if p.fault != nil {
				t.Error(p.fault)
			}
			p.mu.Unlock()
		}
		if quiet || t.Failed() || time.Now().After(end) {
			if !quiet {
				t.Error("it does not come to rest")
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !t.Failed() {
		w.quiesce(stay)
		w.check(stay)
	}
	for _, p := range all {
		p.die()
	}
	w.wg.Wait()
	for _, p := range all {
		p.c = nil
	}
	w.forgotten(base)
}

// quiesce waits until what is under way on live links is through.
func (w *world) quiesce(stay []*client) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		busy := false
		for _, p := range stay {
			p.calm()
			p.c.mu.Lock()
			busy = busy || p.c.writing
			p.c.mu.Unlock()
		}
		links, _ := w.r.allLinks()
		for _, e := range links {
			if e.out != nil {
				e.out.conn.mu.Lock()
				busy = busy || !e.out.closed && (e.out.queue.n > 0 || e.out.load.Load() != 0)
				e.out.conn.mu.Unlock()
			}
		}
		if !busy {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (w *world) check(stay []*client) {
	t := w.t
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.rec {
		if !x.multicast && x.got > 1 {
			t.Errorf("message %d was delivered %d times", x.n, x.got)
		}
		if x.lost || x.settled || x.selfMade {
			continue
		}
		if len(x.outcomes) != 1 {
			t.Errorf("message %d has the outcomes %#x", x.n, x.outcomes)
			continue
		}
		switch code := x.outcomes[0]; code {
		case amqp.CodeReleased, amqp.CodeModified: // or its receiver went
		case amqp.CodeAccepted:
			if x.got == 0 && !w.settling { // else the receiver that wanted it settled has gone before it came
				t.Errorf("message %d was accepted by nobody", x.n)
			}
		default:
			if !x.decided[code] {
				t.Errorf("message %d is %#x, receivers said %v", x.n, code, x.decided)
			}
		}
	}
	live := make(map[*Conn]*client)
	for _, p := range stay {
		live[p.c] = p
	}
	links, _ := w.r.allLinks()
	for _, e := range links {
		if in := e.in; in != nil && live[in.conn] != nil {
			in.conn.mu.Lock()
			if !in.closed {
				k := in.counts
				if sum := in.l.CreditOut() + in.pending; sum != in.capacity || k.unsettled != 0 {
					t.Errorf("in-link %d: credit %d out and %d pending, of %d; %d unsettled", in.id, in.l.CreditOut(), in.pending, in.capacity, k.unsettled)
				}
				if n := k.accepted + k.rejected + k.released + k.modified + k.presettled; n > k.deliveries {
					t.Errorf("in-link %d: %d outcomes of %d deliveries", in.id, n, k.deliveries)
				}
			}
			in.conn.mu.Unlock()
		}
		if out := e.out; out != nil && live[out.conn] != nil {
			out.conn.mu.Lock()
			if !out.closed && (out.queue.n != 0 || out.load.Load() != 0 || out.counts.unsettled != 0 || out.counts.undelivered != 0) {
				t.Errorf("out-link %d: %d queued, load %d, %d unsettled, %d undelivered", out.id, out.queue.n, out.load.Load(), out.counts.unsettled, out.counts.undelivered)
			}
			out.conn.mu.Unlock()
		}
	}
	for c := range live {
		c.mu.Lock()
		c.eng.Sessions(func(s *amqp.Session) {
			sess := s.Owner.(*session)
			if sess.held.Load() != 0 || s.Hold || sess.holding.Load() || sess.in.Len() != 0 || sess.out.Len() != 0 {
				t.Errorf("session: %d held, Hold %v, %d in, %d out", sess.held.Load(), s.Hold, sess.in.Len(), sess.out.Len())
			}
		})
		c.mu.Unlock()
	}
}

// forgotten checks that nothing is left of clients that are gone.
func (w *world) forgotten(base RouterStats) {
	t := w.t
	links, _ := w.r.allLinks()
	for _, e := range links {
		watch(w, "in-link", e.in)
		watch(w, "out-link", e.out)
	}
	for range 2 {
		w.r.call(func() {})
	}
	s := w.r.Stats()
	if s.AddrCount != base.AddrCount || s.LinkCount != 0 || s.ConnectionCount != 0 {
		t.Errorf("%d addresses, had %d; %d links, %d connections", s.AddrCount, base.AddrCount, s.LinkCount, s.ConnectionCount)
	}
	if out := s.Accepted + s.Rejected + s.Released + s.Modified + s.Presettled; out > s.Ingress {
		t.Errorf("%d outcomes of %d deliveries", out, s.Ingress)
	}
	for range 5 { // pools forget with the second
		runtime.GC()
		w.gone = slices.DeleteFunc(w.gone, func(x weakLink) bool { return x.gone() })
	}
	for _, x := range w.gone {
		t.Errorf("a %s is kept", x.what)
	}
	w.r.Close()
}

// silent logs nothing.
type silent struct{}

func (silent) Enabled(string, Level) bool { return false }
func (silent) Log(string, Level, string)  {}
