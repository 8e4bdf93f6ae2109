package router

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"qdrouter/amqp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a router with peers joined to it in memory. In a conversation everything but the
// core, and writes to a socket that is full, happens in the test's goroutine and in order:
// peers act, then run carries frames to and fro until nothing moves any more.
type rig struct {
	t     testing.TB
	r     *Router
	log   *testLog
	peers []*peer
	strip bool // what the connections of a mill do with annotations
}

// newRig starts a router; edit may change its options and config is its address configuration.
func newRig(t testing.TB, edit func(*Options), config ...AddressConfig) *rig {
	g := &rig{t: t, log: &testLog{}}
	o := Options{ID: "R", Area: "0", Mode: Standalone, Version: "test", Log: g.log}
	if edit != nil {
		edit(&o)
	}
	g.r = New(o)
	for _, c := range config {
		if _, err := g.r.AddAddressConfig(c); err != nil {
			t.Fatalf("address %q %q: %v", c.Prefix, c.Pattern, err)
		}
	}
	t.Cleanup(g.close)
	return g
}

// close cuts all peers and ends the router.
func (g *rig) close() {
	for _, p := range g.peers {
		p.die()
	}
	g.r.Close()
}

// core waits until the core has done and written all there is for it to do.
func (g *rig) core() {
	for range 2 { // what one batch of events wrote is out when the next one begins
		g.r.call(func() {})
	}
}

// run carries frames until nothing moves.
func (g *rig) run() {
	for moved := true; moved; {
		moved = false
		g.core()
		for _, p := range g.peers {
			if p.pump() {
				moved = true
			}
		}
	}
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		runtime.Gosched()
	}
}

// testLog keeps what the router logs.
type testLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *testLog) Enabled(module string, level Level) bool { return true }

func (l *testLog) Log(module string, level Level, text string) {
	l.mu.Lock()
	l.lines = append(l.lines, module+" "+text)
	l.mu.Unlock()
}

// take returns the lines of a module so far, and forgets all lines.
func (l *testLog) take(module string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.lines {
		if rest, ok := strings.CutPrefix(s, module+" "); ok {
			lines = append(lines, rest)
		}
	}
	l.lines = nil
	return lines
}

// A wire is the router's side of a socket.
type wire struct {
	mu    sync.Mutex
	cond  *sync.Cond
	out   []byte // written by the router, not yet taken by the peer
	room  int    // octets it takes before it is full; -1 = no end to them
	once  int    // what one TryWrite takes at most; 0 = all
	err   error  // what writing fails with
	cut   bool
	hook  func(p []byte) // called by TryWrite, without locks
	sink  func(p []byte) // takes what is written, if set
	ready chan struct{}  // holds one token when there is something new
}

func newWire() *wire {
	w := &wire{room: -1, ready: make(chan struct{}, 1)}
	w.cond = sync.NewCond(&w.mu)
	return w
}

func (w *wire) takeLocked(p []byte, most int) (n int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.cut {
		return 0, io.ErrClosedPipe
	}
	n = min(len(p), most)
	if w.room >= 0 {
		n = min(n, w.room)
		w.room -= n
	}
	if w.sink != nil {
		w.sink(p[:n])
		return n, nil
	}
	w.out = append(w.out, p[:n]...)
	w.tell()
	return n, nil
}

func (w *wire) tell() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *wire) TryWrite(p []byte) (int, error) {
	if w.hook != nil {
		w.hook(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	most := len(p)
	if w.once > 0 {
		most = w.once
	}
	return w.takeLocked(p, most)
}

func (w *wire) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n < len(p) {
		m, err := w.takeLocked(p[n:], len(p))
		if err != nil {
			return n, err
		}
		if n += m; n < len(p) {
			w.cond.Wait()
		}
	}
	return n, nil
}

func (w *wire) Cut() {
	w.mu.Lock()
	w.cut = true
	w.cond.Broadcast()
	w.tell()
	w.mu.Unlock()
}

// fill lets the wire take n octets more and then be full; open ends that.
func (w *wire) fill(n int) {
	w.mu.Lock()
	w.room = n
	w.mu.Unlock()
}

func (w *wire) open() {
	w.mu.Lock()
	w.room = -1
	w.cond.Broadcast()
	w.mu.Unlock()
}

// take returns what the router has written since.
func (w *wire) take() (out []byte, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, w.out = w.out, nil
	return out, w.cut
}

func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.room == 0
}

// A peer is one connection to the router and the scripted client at its far end.
type peer struct {
	g *rig
	c *Conn
	w *wire

	mu  sync.Mutex // the engine's lock
	eng *amqp.Conn
	s   *amqp.Session // the first one

	in       []byte // for the router, left over from the last read
	half     []byte // of a frame of the router
	read     int    // octets of one read of the router; 0 = all there is
	holdWin  bool   // do not renew the session's incoming window
	holdEnd  bool   // do not answer detaches
	done     bool
	err      error // what the router's reading ended with
	closed   *amqp.Close
	ended    int // sessions that the router ended
	ends     []*end
	asked    []*end     // those that the router attached, in order
	onAttach func(*end) // answers these, if set
	sent     map[deliveryKey]*sent
	got      map[deliveryKey]*got
	unstable error // the engine's complaint about the router
}

// An end is a peer's half of a link.
type end struct {
	p      *peer
	l      *amqp.Link
	answer *amqp.Attach // the router's attach
	detach *amqp.Detach
	flows  []amqp.Flow // of the router, for this link
	got    []*got
}

// deliveryKey names a delivery of one direction of a connection.
type deliveryKey struct {
	s  *amqp.Session
	id amqp.Serial
}

// sent is a delivery of a sending peer and what the router said of it.
type sent struct {
	id   amqp.Serial
	said []string
}

// got is a delivery that a receiving peer has, in whole or in part.
type got struct {
	id      amqp.Serial
	tag     string
	format  uint32
	payload []byte
	frames  int
	settled bool
	state   amqp.Raw
	whole   bool
	aborted bool
	said    []string // the sender's word, passed on
}

func connOptions(g *rig) ConnOptions {
	return ConnOptions{
		ID: g.r.NextConnectionID(), Incoming: true, Host: "127.0.0.1:1", MaxFrameSize: 16384,
		LinkCapacity: 250, StripIn: true, StripOut: true, User: "anonymous",
	}
}

// peer adds a connection that is open and has a session; edit may change its options.
func (g *rig) peer(edit func(*ConnOptions, *amqp.ConnConfig)) *peer {
	o := connOptions(g)
	cfg := amqp.ConnConfig{ContainerID: "peer", MaxFrameSize: 65536, ChannelMax: 10}
	if edit != nil {
		edit(&o, &cfg)
	}
	p := &peer{g: g, w: newWire(), sent: make(map[deliveryKey]*sent), got: make(map[deliveryKey]*got)}
	p.eng = amqp.NewConn(cfg, p)
	p.c = g.r.NewConn(o, p.w)
	g.peers = append(g.peers, p)
	p.eng.Open()
	p.s = p.begin()
	g.run()
	return p
}

func (p *peer) begin() *amqp.Session {
	p.g.t.Helper()
	s, err := p.eng.Begin()
	if err != nil {
		p.g.t.Fatal(err)
	}
	return s
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
		p.feed()
	}
	p.settleWriter()
	out, cut := p.w.take()
	if len(out) > 0 {
		moved = true
		p.hear(out)
	}
	if cut && !p.done {
		p.finish(io.EOF)
		return true
	}
	return moved
}

// hear gives octets of the router to the peer's engine, which keeps it to the standard.
func (p *peer) hear(out []byte) {
	p.half = append(p.half, out...)
	n, err := p.eng.Input(p.half)
	if err != nil {
		p.g.t.Fatalf("the router broke the protocol: %v", err)
	}
	p.half = append([]byte(nil), p.half[n:]...)
	if p.unstable != nil {
		p.g.t.Fatalf("the router broke the protocol: %v", p.unstable)
	}
	if !p.holdWin {
		p.eng.Sessions(func(s *amqp.Session) {
			if s.WindowLow() {
				s.FlowDue()
			}
		})
	}
}

// feed is the router's reader.
func (p *peer) feed() {
	for len(p.in) > 0 && !p.done {
		n := len(p.in)
		if p.read > 0 {
			n = min(n, p.read)
		}
		for ; ; n = min(n+max(p.read, 1), len(p.in)) {
			p.c.Begin()
			used, err := p.c.Input(p.in[:n])
			p.c.End()
			p.in = p.in[used:]
			if err != nil {
				p.finish(err)
				return
			}
			if used > 0 {
				break
			}
			if n == len(p.in) {
				return
			}
		}
	}
}

// settleWriter waits for the writer goroutine, if there is one, unless the wire is full.
func (p *peer) settleWriter() {
	eventually(p.g.t, "the writer's end", func() bool {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		return !p.c.writing || p.w.full()
	})
}

// finish is the end of the router's reader, as package transport has it.
func (p *peer) finish(err error) {
	p.err = err
	if err == io.EOF && p.c.Error() == nil {
		p.c.Fail(&amqp.Error{Condition: amqp.ErrCondFramingError, Description: "connection aborted"})
	}
	p.w.Cut()
	p.done = true
	p.c.Done()
	if out, _ := p.w.take(); len(out) > 0 {
		p.hear(out)
	}
}

// die is the peer's socket going away.
func (p *peer) die() {
	if !p.done {
		p.finish(errors.New("connection reset"))
	}
}

// gone says whether the router has seen the end of the connection. Any goroutine may ask.
func (p *peer) gone() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.c.dead
}

func (p *peer) Lock()   { p.mu.Lock() }
func (p *peer) Unlock() { p.mu.Unlock() }
func (p *peer) Flush()  {}

func (p *peer) RemoteOpen(o *amqp.Open) *amqp.Error { return nil }

func (p *peer) RemoteBegin(s *amqp.Session, b *amqp.Begin) *amqp.Error { return nil }

func (p *peer) RemoteAttach(l *amqp.Link, a *amqp.Attach) *amqp.Error {
	e, ok := l.Owner.(*end)
	if !ok {
		e = &end{p: p, l: l}
		l.Owner = e
		p.asked = append(p.asked, e)
	}
	e.answer = cloneAttach(a)
	if !ok && p.onAttach != nil {
		p.onAttach(e)
	}
	return nil
}

func (p *peer) LinkFlow(l *amqp.Link, f *amqp.Flow, drained uint32) {
	if e, ok := l.Owner.(*end); ok {
		e.flows = append(e.flows, *f)
	}
}

func (p *peer) SessionFlow(s *amqp.Session) {}

func (p *peer) Transfer(l *amqp.Link, t *amqp.Transfer, payload []byte) *amqp.Error {
	e := l.Owner.(*end)
	id := amqp.Serial(t.DeliveryID.V)
	var d *got
	if n := len(e.got); n > 0 && !e.got[n-1].whole && !e.got[n-1].aborted {
		d = e.got[n-1]
	} else {
		d = &got{id: id, tag: string(t.DeliveryTag), format: t.MessageFormat.V, state: t.State.Clone()}
		e.got = append(e.got, d)
		p.got[deliveryKey{l.Session, id}] = d
	}
	d.payload = append(d.payload, payload...)
	d.frames++
	d.settled = t.Settled.V
	d.whole = !t.More && !t.Aborted
	d.aborted = t.Aborted
	return nil
}

func (p *peer) Disposition(s *amqp.Session, d *amqp.Disposition) {
	text := stateText(d.State)
	if d.Settled {
		text += " settled"
	}
	for id := amqp.Serial(d.First); !amqp.Serial(d.Last.Or(d.First)).Before(id); id++ {
		if d.Role == amqp.RoleReceiver {
			if x := p.sent[deliveryKey{s, id}]; x != nil {
				x.said = append(x.said, text)
			}
		} else if x := p.got[deliveryKey{s, id}]; x != nil {
			x.said = append(x.said, text)
		}
	}
}

func (p *peer) LinkFailed(l *amqp.Link, err *amqp.Error) { p.unstable = err }

func (p *peer) RemoteDetach(l *amqp.Link, d *amqp.Detach) {
	if e, ok := l.Owner.(*end); ok {
		cp := *d
		cp.Error = d.Error.Clone()
		e.detach = &cp
	}
	if !p.holdEnd {
		l.Detach(d.Closed, nil)
	}
}

func (p *peer) RemoteEnd(s *amqp.Session, e *amqp.End) { p.ended++ }

func (p *peer) RemoteClose(cl *amqp.Close) {
	cp := *cl
	p.closed = &cp
}

// stateText shows a delivery state as tests write it.
func stateText(state amqp.Raw) string {
	if state == nil {
		return "nothing"
	}
	code, _ := amqp.StateCode(state)
	switch code {
	case amqp.CodeAccepted:
		return "accepted"
	case amqp.CodeReleased:
		return "released"
	case amqp.CodeRejected:
		if e, err := amqp.DecodeRejected(state); err == nil && e != nil {
			return fmt.Sprintf("rejected %s %q", e.Condition, e.Description)
		}
		return "rejected"
	case amqp.CodeModified:
		m, _ := amqp.DecodeModified(state)
		s := "modified"
		if m.DeliveryFailed {
			s += " failed"
		}
		if m.UndeliverableHere {
			s += " undeliverable"
		}
		if v, err := m.MessageAnnotations.Value(); err == nil && v != nil {
			s += " " + traceValue(v)
		}
		return s
	case amqp.CodeReceived:
		r, _ := amqp.DecodeReceived(state)
		return fmt.Sprintf("received %d %d", r.SectionNumber, r.SectionOffset)
	}
	v, _ := state.Value()
	return traceValue(v)
}

// attach attaches a link of the first session; a is all but name, handle and role.
func (p *peer) attach(role amqp.Role, a amqp.Attach) *end {
	return p.attachOn(p.s, role, a)
}

func (p *peer) attachOn(s *amqp.Session, role amqp.Role, a amqp.Attach) *end {
	e := &end{p: p, l: s.NewLink(fmt.Sprintf("l%d", len(p.ends)), role)}
	e.l.Owner = e
	p.ends = append(p.ends, e)
	e.l.Attach(&a)
	return e
}

// sender attaches a sending link to an address, "" for an anonymous one.
func (p *peer) sender(address string) *end {
	p.g.t.Helper()
	e := p.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target(address)})
	p.g.run()
	if e.answer == nil || e.detach != nil {
		p.g.t.Fatalf("sender to %q: answer %v, detach %v", address, e.answer, e.detach)
	}
	return e
}

func target(address string) *amqp.Target {
	if address == "" {
		return &amqp.Target{}
	}
	return &amqp.Target{Address: amqp.Some(address)}
}

// receiver attaches a receiving link with that credit.
func (p *peer) receiver(address string, credit uint32) *end {
	p.g.t.Helper()
	e := p.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some(address)}, Target: &amqp.Target{}})
	if credit > 0 {
		e.l.Grant(credit)
	}
	p.g.run()
	if e.answer == nil || e.detach != nil {
		p.g.t.Fatalf("receiver from %q: answer %v, detach %v", address, e.answer, e.detach)
	}
	return e
}

// grant gives the router more credit.
func (e *end) grant(n uint32) {
	e.l.Grant(n)
	e.p.g.run()
}

func (e *end) close() {
	e.l.Detach(true, nil)
	e.p.g.run()
}

// plain returns a message whose body is that text.
func plain(body string) []byte {
	return amqp.AppendBinary([]byte{0, 0x53, amqp.CodeData}, []byte(body))
}

// addressed is a message for an anonymous link.
func addressed(to, body string) []byte {
	p := amqp.Properties{To: amqp.Some(to)}
	return append(p.Append(nil), plain(body)...)
}

// bodyOf is the text of a message made by plain.
func bodyOf(m []byte) string {
	s, err := amqp.WalkMessage(m, amqp.DepthAll, true)
	if err != nil || s.Body < 0 {
		return fmt.Sprintf("%q: %v", m, err)
	}
	v, _, err := amqp.DecodeValue(m[s.Body+3:])
	if b, ok := v.([]byte); ok && err == nil {
		return string(b)
	}
	return fmt.Sprintf("%q", m)
}

// send starts an unsettled delivery of a message with that body. Nothing moves until run.
func (e *end) send(body string) *sent { return e.transfer(&amqp.OutDelivery{}, plain(body)) }

func (e *end) sendSettled(body string) *sent {
	return e.transfer(&amqp.OutDelivery{Settled: true}, plain(body))
}

func (e *end) transfer(d *amqp.OutDelivery, payload []byte) *sent {
	e.p.g.t.Helper()
	st := e.start(d)
	st.last(payload)
	return st.sent
}

// A sending is a delivery of which more is to come.
type sending struct {
	*sent
	e     *end
	d     *amqp.OutDelivery
	begun bool
}

func (e *end) start(d *amqp.OutDelivery) *sending {
	e.p.g.t.Helper()
	if e.l.Credit() == 0 {
		e.p.g.t.Fatalf("no credit to send to %v", e.answer.Target)
	}
	x := &sent{id: e.l.Start(d)}
	e.p.sent[deliveryKey{e.l.Session, x.id}] = x
	return &sending{sent: x, e: e, d: d}
}

// some sends what the session window takes of the payload and returns how much that was.
func (s *sending) some(payload []byte, last bool) int {
	n, began := s.e.l.SendFrames(s.d, !s.begun, last, payload, 1<<30)
	s.begun = s.begun || began
	return n
}

// frames sends all of the payload; what moves is what it takes to open the session window.
func (s *sending) frames(payload []byte, last bool) {
	s.e.p.g.t.Helper()
	for n := s.some(payload, last); n < len(payload); n = s.some(payload, last) {
		payload = payload[n:]
		if s.e.p.g.run(); s.e.p.s.OutWindow() == 0 {
			s.e.p.g.t.Fatalf("the session window is closed to %d octets", len(payload))
		}
	}
}

func (s *sending) more(payload []byte) { s.e.p.g.t.Helper(); s.frames(payload, false) }
func (s *sending) last(payload []byte) { s.e.p.g.t.Helper(); s.frames(payload, true) }
func (s *sending) abort()              { s.e.l.Abort(s.d) }

// bodies lists what an end has got so far: bodies of complete messages.
func (e *end) bodies() (list []string) {
	for _, d := range e.got {
		if d.whole {
			list = append(list, bodyOf(d.payload))
		}
	}
	return list
}

// say tells the router the state of deliveries from the i-th to the j-th that this end got.
func (e *end) say(i, j int, state amqp.Raw, settled bool) {
	for _, d := range e.got[i : j+1] {
		e.l.Session.Dispose(amqp.RoleReceiver, d.id, d.id, settled, state)
	}
	e.p.g.run()
}

// say tells the router the sender's state of a delivery.
func (s *sent) say(p *peer, state amqp.Raw, settled bool) {
	p.s.Dispose(amqp.RoleSender, s.id, s.id, settled, state)
	p.g.run()
}

// wantSaid checks what the router said of deliveries, in order.
func wantSaid(t *testing.T, list []*sent, want ...string) {
	t.Helper()
	for i, x := range list {
		if !slices.Equal(x.said, want) {
			t.Errorf("delivery %d of %d: router said %q, want %q", i, len(list), x.said, want)
		}
	}
}

func wantBodies(t *testing.T, e *end, want ...string) {
	t.Helper()
	if got := e.bodies(); !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}

// link returns the router's half of a link that the peer sends on.
func (e *end) in() *inLink {
	for _, x := range e.p.g.links() {
		if x.in != nil && x.in.conn == e.p.c && x.in.l.Name == e.l.Name {
			return x.in
		}
	}
	return nil
}

// out returns the router's half of a link that the peer receives on.
func (e *end) out() *outLink {
	for _, x := range e.p.g.links() {
		if x.out != nil && x.out.conn == e.p.c && x.out.l.Name == e.l.Name {
			return x.out
		}
	}
	return nil
}

func (g *rig) links() []linkEntry {
	list, _ := g.r.allLinks()
	return list
}

// info returns the management view of a link.
func (e *end) info() LinkInfo {
	e.p.g.t.Helper()
	for _, i := range e.p.g.r.Links() {
		if i.ConnectionID == e.p.c.o.ID && i.Name == e.l.Name && i.Incoming == (e.l.Role == amqp.RoleSender) {
			return i
		}
	}
	e.p.g.t.Fatalf("no link %s", e.l.Name)
	return LinkInfo{}
}

// addressInfo returns the management view of an address.
func (g *rig) addressInfo(key string) AddressInfo {
	g.t.Helper()
	for _, a := range g.r.Addresses() {
		if a.Key == key {
			return a
		}
	}
	g.t.Fatalf("no address %q", key)
	return AddressInfo{}
}
