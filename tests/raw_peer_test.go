package tests

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
	"qdrouter/router"
	"qdrouter/tests/internal/rig"
	"qdrouter/transport"
)

// The tests of the raw_*_test.go files script a peer frame by frame against a
// router that runs in this process behind a socket.

// rawWait bounds every wait for something that must come.
const rawWait = 30 * time.Second

// rawConfig is the router that a test wants.
type rawConfig struct {
	router    router.Options
	conn      router.ConnOptions
	addresses []router.AddressConfig
	auth      bool          // peers must use SASL; PLAIN is offered, with the password "secret" for all
	limit     time.Duration // for the handshake
	protocol  bool          // frames are logged
}

// rawRouter is a router in this process and the listener in front of it.
type rawRouter struct {
	*router.Router
	log   *rawLog
	in    *transport.Incoming
	serve sync.WaitGroup
	ln    net.Listener // nil until the first peer dials
	// listenOnce is listen for the first who calls it.
	listenOnce func() error
	empty      rawCounts // what it held before any connection
}

// startRouter runs a standalone router R with one listener, as the field cases
// want it. When the test ends it must close without leaving a goroutine.
func startRouter(t testing.TB, change ...func(*rawConfig)) *rawRouter {
	t.Helper()
	log := &rawLog{more: make(chan struct{}), least: router.Info}
	c := rawConfig{
		router: router.Options{ID: "R", Mode: router.Standalone, Version: "test", WorkerThreads: 4, Log: log},
		conn: router.ConnOptions{
			Incoming: true, Name: "clients", Listener: "127.0.0.1:0", MaxFrameSize: 16384, MaxSessions: 32768,
			LinkCapacity: 250, StripIn: true, StripOut: true,
		},
		limit: time.Minute,
	}
	for _, f := range change {
		f(&c)
	}
	before := goleak.IgnoreCurrent()
	r := &rawRouter{Router: router.New(c.router), log: log}
	for _, a := range c.addresses {
		if _, err := r.AddAddressConfig(a); err != nil {
			t.Fatalf("address %+v: %v", a, err)
		}
	}
	if c.protocol {
		log.least = router.Trace
		r.SetProtocolTrace(true)
	}
	r.listenOnce = sync.OnceValue(r.listen)
	r.core()
	r.empty = r.counts()
	r.in = &transport.Incoming{
		Router: r.Router, Options: c.conn, Offer: sasl.Offer{sasl.OfferAnonymous()}, RequireAuth: c.auth, Limit: c.limit, Log: log,
	}
	if c.auth {
		r.in.Offer = sasl.Offer{sasl.OfferPlain(func(_, password string) error {
			if password != "secret" {
				return errors.New("wrong password")
			}
			return nil
		})}
	}
	t.Cleanup(func() {
		if r.ln != nil {
			r.ln.Close()
		}
		r.Close()
		r.serve.Wait()
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the router (its end):\n%s", strings.Join(log.tail(40), "\n"))
		}
	})
	return r
}

// withDistributions configures the prefixes closest, balanced, multicast and
// unavailable, and makes addresses outside them unavailable if others is.
func withDistributions(others router.Distribution) func(*rawConfig) {
	return func(c *rawConfig) {
		c.router.DefaultDistribution = others
		for _, d := range []router.Distribution{router.Balanced, router.Closest, router.Multicast, router.Unavailable} {
			c.addresses = append(c.addresses, router.AddressConfig{Prefix: d.String(), Distribution: d, Priority: -1})
		}
	}
}

// withConn changes what the listener's connections are like.
func withConn(change func(*router.ConnOptions)) func(*rawConfig) {
	return func(c *rawConfig) { change(&c.conn) }
}

// withCapacity sets the listener's linkCapacity.
func withCapacity(n uint32) func(*rawConfig) {
	return withConn(func(o *router.ConnOptions) { o.LinkCapacity = n })
}

// listen starts the listener.
func (r *rawRouter) listen() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.ln = ln
	r.serve.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			r.serve.Go(func() { r.in.Serve(nc, nil) })
		}
	})
	return nil
}

// dial connects to the router over TCP and sends nothing.
func (r *rawRouter) dial(t testing.TB) *rawPeer {
	t.Helper()
	if err := r.listenOnce(); err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return newRawPeer(t, nc)
}

// pipe connects to the router in memory, so that what the peer writes at once
// is read at once.
func (r *rawRouter) pipe(t testing.TB) *rawPeer {
	t.Helper()
	ours, theirs := net.Pipe()
	r.serve.Go(func() { r.in.Serve(theirs, nil) })
	return newRawPeer(t, ours)
}

// open connects over TCP and opens the connection.
func (r *rawRouter) open(t testing.TB) *rawPeer {
	t.Helper()
	p := r.dial(t)
	p.open()
	return p
}

// session connects over TCP, and opens the connection and a session on channel 0.
func (r *rawRouter) session(t testing.TB) *rawPeer {
	t.Helper()
	p := r.open(t)
	p.begin(0)
	return p
}

// core waits until the core has done, and written, all that was asked of it so far.
func (r *rawRouter) core() {
	for range 2 {
		_ = r.DeleteAddressConfig(0) // there is none
	}
}

// quiet waits until nothing is under way between the router and the peers any
// more, and fails the test if a frame has come that no one took.
func (r *rawRouter) quiet(t testing.TB, peers ...*rawPeer) {
	t.Helper()
	r.flush(t, peers...)
	for i, p := range peers {
		if f, ok := p.peek(); ok {
			t.Fatalf("peer %d: unexpected %s", i, f)
		}
	}
}

// flush waits as quiet does and leaves what has come to be taken.
func (r *rawRouter) flush(t testing.TB, peers ...*rawPeer) {
	t.Helper()
	for range 2 { // there, and the answer
		r.core()
		for _, p := range peers {
			p.barrier()
		}
	}
}

// rawCounts is what a router holds.
type rawCounts struct{ Connections, Links, Addresses uint64 }

// with is c with some more.
func (c rawCounts) with(connections, links, addresses uint64) rawCounts {
	return rawCounts{c.Connections + connections, c.Links + links, c.Addresses + addresses}
}

func (r *rawRouter) counts() rawCounts {
	s := r.Stats()
	return rawCounts{s.ConnectionCount, s.LinkCount, s.AddrCount}
}

// healthy makes the checks that every field case ends with: a fresh client
// passes a message in no time, and the router holds what it held before.
func (r *rawRouter) healthy(t testing.TB, before rawCounts) {
	t.Helper()
	start := time.Now()
	p := r.session(t)
	in := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Dynamic: true}}, 1)
	out := p.sender(in.attach.Source.Address.V)
	out.awaitCredit(int(r.in.Options.LinkCapacity))
	id := out.send(rawMessage("fresh"), false)
	d := in.receive()
	if d.body() != "fresh" {
		t.Errorf("fresh client received %q", d.body())
	}
	in.settle(d, amqp.StateAccepted)
	if got := p.outcomes(id)[id]; got != "accepted" {
		t.Errorf("fresh client: outcome %s, want accepted", got)
	}
	if took := time.Since(start); took > rawWait/2 { // two seconds on a machine with nothing else to do
		t.Errorf("fresh client took %v to pass a message", took)
	}
	p.close()
	r.holds(t, before)
}

// holds waits until the router holds as much as before.
func (r *rawRouter) holds(t testing.TB, before rawCounts) {
	t.Helper()
	var now rawCounts
	rig.Eventually(t, rawWait, func() bool {
		now = r.counts()
		return now == before
	}, func() string { return fmt.Sprintf("router holds %+v, before the case %+v", now, before) })
}

// link returns what the router says of the link of that name.
func (r *rawRouter) link(t testing.TB, name string) router.LinkInfo {
	t.Helper()
	for _, l := range r.Links() {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("router has no link %q", name)
	return router.LinkInfo{}
}

// rawLog keeps a router's log.
type rawLog struct {
	least router.Level

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced when a line is added
}

var levelNames = [...]string{"trace", "debug", "info", "notice", "warning", "error", "critical"}

// Enabled is router.Logger's.
func (l *rawLog) Enabled(_ string, level router.Level) bool { return level >= l.least }

// Log is router.Logger's. The line looks as in the log of qdrouterd, without the time.
func (l *rawLog) Log(module string, level router.Level, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) >= 100_000 {
		return
	}
	l.lines = append(l.lines, fmt.Sprintf("%s (%s) %s", module, levelNames[level], text))
	close(l.more)
	l.more = make(chan struct{})
}

func (l *rawLog) tail(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines[max(len(l.lines)-n, 0):])
}

// matching returns the lines with all the texts.
func (l *rawLog) matching(texts ...string) (lines []string, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(line, s) }) {
			lines = append(lines, line)
		}
	}
	return lines, l.more
}

// wait waits for a line with all the texts and returns the first.
func (l *rawLog) wait(t testing.TB, texts ...string) string {
	t.Helper()
	deadline := time.After(rawWait)
	for {
		lines, more := l.matching(texts...)
		if len(lines) > 0 {
			return lines[0]
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no log line with %q; there are\n%s", texts, strings.Join(l.tail(40), "\n"))
		}
	}
}

// rawFrame is a frame from the router.
type rawFrame struct {
	channel uint16            // of ours that the session's frames belong to
	typ     uint8             // of the frame
	body    amqp.Performative // nil in an empty frame
	payload []byte
}

func (f rawFrame) String() string {
	return fmt.Sprintf("%T %+v (%d octets of payload)", f.body, f.body, len(f.payload))
}

// rawPeer is the test's end of a connection.
type rawPeer struct {
	t        testing.TB
	nc       net.Conn
	wait     time.Duration // for anything that must come
	buf      []byte        // read and not yet decoded
	max      uint32        // octets of a frame, as told in the open
	held     []rawFrame    // that came while another was waited for
	sasl     bool          // frames are those of SASL
	channels map[uint16]uint16
	sessions map[uint16]*rawSession
	beats    int  // empty frames
	decided  bool // deliveries may be decided before they are settled
}

// rawSession is one session of a peer, by its own channel.
type rawSession struct {
	window       uint32 // told in flows
	nextIncoming uint32 // transfer frames that came
	nextDelivery uint32 // id of the next that is sent
	nextOutgoing uint32 // transfer frames that were sent
	inLimit      uint32 // the first that must not be sent: the router's window
	handles      uint32
	links        map[uint32]*rawLink // by the router's handle
}

func newRawPeer(t testing.TB, nc net.Conn) *rawPeer {
	t.Cleanup(func() { nc.Close() })
	return &rawPeer{t: t, nc: nc, wait: rawWait, max: math.MaxUint32, channels: map[uint16]uint16{}, sessions: map[uint16]*rawSession{}}
}

// write sends octets. An error is no matter: what the router does not get, it
// does not answer either.
func (p *rawPeer) write(b ...[]byte) {
	_ = p.nc.SetWriteDeadline(time.Now().Add(p.wait))
	_, _ = p.nc.Write(bytes.Join(b, nil))
}

// send sends frames on a channel in one write.
func (p *rawPeer) send(channel uint16, performatives ...amqp.Performative) {
	var b []byte
	for _, x := range performatives {
		b = amqp.AppendFrame(b, amqp.FrameAMQP, channel, x)
	}
	p.write(b)
}

// fill reads until n octets are in buf.
func (p *rawPeer) fill(n int, deadline time.Time) error {
	for len(p.buf) < n {
		_ = p.nc.SetReadDeadline(deadline)
		b := make([]byte, 65536)
		m, err := p.nc.Read(b)
		p.buf = append(p.buf, b[:m]...)
		if err != nil && len(p.buf) < n {
			return err
		}
	}
	return nil
}

// header takes a protocol header.
func (p *rawPeer) header(want amqp.ProtocolHeader) {
	p.t.Helper()
	if err := p.fill(len(want), time.Now().Add(p.wait)); err != nil {
		p.t.Fatalf("waiting for the header %q: %v, have %q", want[:], err, p.buf)
	}
	if got := p.buf[:len(want)]; !bytes.Equal(got, want[:]) {
		p.t.Fatalf("header %q, want %q", got, want[:])
	}
	p.buf = p.buf[len(want):]
}

// read takes the next frame off the socket.
func (p *rawPeer) read(deadline time.Time) (f rawFrame, err error) {
	if err := p.fill(8, deadline); err != nil {
		return f, err
	}
	hdr, _, err := amqp.ParseFrameHeader(p.buf, p.max)
	if err != nil {
		return f, err
	}
	if err := p.fill(int(hdr.Size), deadline); err != nil {
		return f, err
	}
	body := slices.Clone(p.buf[4*int(hdr.DataOffset) : hdr.Size])
	p.buf = p.buf[hdr.Size:]
	f = rawFrame{channel: hdr.Channel, typ: hdr.Type}
	if len(body) == 0 {
		p.beats++
		return f, nil
	}
	decode := amqp.DecodePerformative
	if p.sasl {
		decode = amqp.DecodeSASL
	}
	var n int
	if f.body, n, err = decode(body); err != nil {
		return f, err
	}
	f.payload = body[n:]
	p.note(&f)
	return f, nil
}

// note keeps count of what a frame means for the session.
func (p *rawPeer) note(f *rawFrame) {
	if b, ok := f.body.(*amqp.Begin); ok && b.RemoteChannel.Set {
		p.channels[f.channel] = b.RemoteChannel.V
		if s := p.sessions[b.RemoteChannel.V]; s != nil {
			s.nextIncoming = b.NextOutgoingID
			s.inLimit = s.nextOutgoing + b.IncomingWindow
		}
	}
	if own, ok := p.channels[f.channel]; ok {
		f.channel = own
	}
	s := p.sessions[f.channel]
	if s == nil {
		return
	}
	switch b := f.body.(type) {
	case *amqp.Flow:
		s.inLimit = b.NextIncomingID.V + b.IncomingWindow
	case *amqp.Transfer:
		s.nextIncoming++
		if l := s.links[b.Handle]; l != nil {
			if !l.more {
				l.count++
			}
			l.more = b.More && !b.Aborted
		}
	}
}

// take returns the first frame that match accepts, and keeps those before it.
func (p *rawPeer) take(what string, match func(rawFrame) bool) rawFrame {
	p.t.Helper()
	for i, f := range p.held {
		if match(f) {
			p.held = slices.Delete(p.held, i, i+1)
			return f
		}
	}
	deadline := time.Now().Add(p.wait)
	for {
		f, err := p.read(deadline)
		if err != nil {
			p.t.Fatalf("waiting for %s: %v; before it came %s", what, err, p.held)
		}
		if match(f) {
			return f
		}
		p.hold(f)
	}
}

// hold keeps a frame, unless it is one that may come at any time.
func (p *rawPeer) hold(f rawFrame) {
	if fl, ok := f.body.(*amqp.Flow); f.body == nil || ok && !fl.Handle.Set {
		return
	}
	p.held = append(p.held, f)
}

// forgetFlows throws away the flows that were kept.
func (p *rawPeer) forgetFlows() {
	p.held = slices.DeleteFunc(p.held, func(f rawFrame) bool {
		_, ok := f.body.(*amqp.Flow)
		return ok
	})
}

// peek returns the first frame that was kept.
func (p *rawPeer) peek() (rawFrame, bool) {
	if len(p.held) == 0 {
		return rawFrame{}, false
	}
	return p.held[0], true
}

// expect takes the next frame, which must have a performative of type T.
func expect[T amqp.Performative](p *rawPeer) T {
	p.t.Helper()
	f := p.take(fmt.Sprintf("%T", *new(T)), func(f rawFrame) bool {
		fl, ok := f.body.(*amqp.Flow)
		return f.body != nil && (!ok || fl.Handle.Set)
	})
	body, ok := f.body.(T)
	if !ok {
		p.t.Fatalf("%s, want %T", f, body)
	}
	return body
}

// take takes the next frame with a performative of type T; others stay.
func take[T amqp.Performative](p *rawPeer) T {
	p.t.Helper()
	return p.take(fmt.Sprintf("%T", *new(T)), func(f rawFrame) bool {
		_, ok := f.body.(T)
		return ok
	}).body.(T)
}

// ended waits for the end of the transport; nothing may come before it.
func (p *rawPeer) ended() {
	p.t.Helper()
	if f, ok := p.peek(); ok {
		p.t.Fatalf("before the end of the connection: %s", f)
	}
	if f, err := p.read(time.Now().Add(p.wait)); err == nil {
		p.t.Fatalf("%s, want the end of the connection", f)
	} else if isTimeout(err) || len(p.buf) > 0 {
		p.t.Fatalf("want the end of the connection, got %v with %q", err, p.buf)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// closed takes a close with that error, the last frame of the connection. An
// empty description stands for any.
func (p *rawPeer) closed(condition amqp.Symbol, description string) {
	p.t.Helper()
	c := take[*amqp.Close](p)
	if c.Error == nil || c.Error.Condition != condition || description != "" && c.Error.Description != description {
		p.t.Fatalf("closed with %v, want %s %q", c.Error, condition, description)
	}
	p.held = nil
	p.ended()
}

// open exchanges headers and opens.
func (p *rawPeer) open() *amqp.Open {
	p.t.Helper()
	return p.openWith(&amqp.Open{ContainerID: "raw"})
}

func (p *rawPeer) openWith(o *amqp.Open) *amqp.Open {
	p.t.Helper()
	p.max = max(o.MaxFrameSize.Or(math.MaxUint32), amqp.MinMaxFrameSize)
	p.write(amqp.HeaderAMQP[:], amqp.AppendFrame(nil, amqp.FrameAMQP, 0, o))
	p.header(amqp.HeaderAMQP)
	return take[*amqp.Open](p)
}

// begin begins a session.
func (p *rawPeer) begin(channel uint16) *amqp.Begin {
	p.t.Helper()
	return p.beginWith(channel, &amqp.Begin{IncomingWindow: 1 << 30, OutgoingWindow: 1 << 30})
}

func (p *rawPeer) beginWith(channel uint16, b *amqp.Begin) *amqp.Begin {
	p.t.Helper()
	p.sessions[channel] = &rawSession{window: b.IncomingWindow, nextOutgoing: b.NextOutgoingID, links: map[uint32]*rawLink{}}
	p.send(channel, b)
	return take[*amqp.Begin](p)
}

// barrierChannel is where barrier has its sessions.
const barrierChannel = 2

// barrier waits until the router has taken in, and acted on, all that was sent
// to it on this connection. What it wrote before is then in held.
func (p *rawPeer) barrier() {
	p.t.Helper()
	p.send(barrierChannel, &amqp.Begin{})
	p.take("begin", func(f rawFrame) bool {
		b, ok := f.body.(*amqp.Begin)
		return ok && b.RemoteChannel.V == barrierChannel
	})
	p.send(barrierChannel, &amqp.End{})
	p.take("end", func(f rawFrame) bool {
		_, ok := f.body.(*amqp.End)
		return ok && f.channel == barrierChannel
	})
}

// close closes the connection in good order.
func (p *rawPeer) close() {
	p.t.Helper()
	p.send(0, &amqp.Close{})
	take[*amqp.Close](p)
	p.nc.Close()
}

// A rawLink is one link of a peer.
type rawLink struct {
	p       *rawPeer
	channel uint16
	session *rawSession
	handle  uint32 // ours
	role    amqp.Role
	name    string
	attach  *amqp.Attach // the router's
	count   uint32       // delivery-count
	more    bool         // within a delivery that comes in
}

// attachLink sends an attach and takes the router's. Handle, and the name when
// it is empty, are filled in.
func (p *rawPeer) attachLink(channel uint16, a *amqp.Attach) *rawLink {
	p.t.Helper()
	s := p.sessions[channel]
	a.Handle = s.handles
	s.handles++
	if a.Name == "" {
		a.Name = fmt.Sprintf("%p.%d.%d", p, channel, a.Handle)
	}
	l := &rawLink{p: p, channel: channel, session: s, handle: a.Handle, role: a.Role, name: a.Name, count: a.InitialDeliveryCount.V}
	p.send(channel, a)
	f := p.take("attach", func(f rawFrame) bool {
		b, ok := f.body.(*amqp.Attach)
		return ok && b.Name == a.Name && b.Role != a.Role && f.channel == channel
	})
	l.attach = f.body.(*amqp.Attach)
	if a.Role == amqp.RoleReceiver {
		l.count = l.attach.InitialDeliveryCount.V
	}
	s.links[l.attach.Handle] = l
	return l
}

// sender attaches a link on which the peer sends to address, on channel 0.
func (p *rawPeer) sender(address string) *rawLink {
	p.t.Helper()
	return p.attachSender(0, &amqp.Attach{Target: &amqp.Target{Address: amqp.Some(address)}})
}

// anonymous attaches a link on which the peer sends to any address.
func (p *rawPeer) anonymous() *rawLink {
	p.t.Helper()
	return p.attachSender(0, &amqp.Attach{Target: &amqp.Target{}})
}

func (p *rawPeer) attachSender(channel uint16, a *amqp.Attach) *rawLink {
	p.t.Helper()
	a.Role = amqp.RoleSender
	if a.Source == nil {
		a.Source = &amqp.Source{}
	}
	if !a.InitialDeliveryCount.Set {
		a.InitialDeliveryCount = amqp.Some(uint32(0))
	}
	return p.attachLink(channel, a)
}

// receiver attaches a link on which the peer receives from address, on channel
// 0, and gives it credit unless that is 0.
func (p *rawPeer) receiver(address string, credit uint32) *rawLink {
	p.t.Helper()
	return p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some(address)}}, credit)
}

func (p *rawPeer) attachReceiver(channel uint16, a *amqp.Attach, credit uint32) *rawLink {
	p.t.Helper()
	a.Role = amqp.RoleReceiver
	if a.Target == nil {
		a.Target = &amqp.Target{}
	}
	l := p.attachLink(channel, a)
	if credit > 0 {
		l.flow(credit)
		p.barrier() // the router has it
	}
	return l
}

// flow gives a receiving link credit, or tells a sending link's state.
func (l *rawLink) flow(credit uint32) {
	l.flowWith(amqp.Flow{LinkCredit: amqp.Some(credit)})
}

// flowWith sends a flow with the fields of the session and the link filled in.
func (l *rawLink) flowWith(f amqp.Flow) {
	l.session.fill(&f)
	f.Handle = amqp.Some(l.handle)
	if !f.DeliveryCount.Set {
		f.DeliveryCount = amqp.Some(l.count)
	}
	l.p.send(l.channel, &f)
}

// fill fills in the session's fields of a flow.
func (s *rawSession) fill(f *amqp.Flow) {
	f.NextIncomingID = amqp.Some(s.nextIncoming)
	f.IncomingWindow = s.window
	f.NextOutgoingID = s.nextOutgoing
	f.OutgoingWindow = 1 << 30
}

// frame encodes one transfer frame of the link, and counts it.
func (l *rawLink) frame(t amqp.Transfer, payload []byte) []byte {
	t.Handle = l.handle
	l.session.nextOutgoing++
	return amqp.AppendTransferFrame(nil, l.channel, &t, payload)
}

// start begins a delivery: the transfer has its id and tag.
func (l *rawLink) start() amqp.Transfer {
	id := l.session.nextDelivery
	l.session.nextDelivery++
	l.count++
	return amqp.Transfer{DeliveryID: amqp.Some(id), DeliveryTag: fmt.Appendf(nil, "t%d", id)}
}

// encode is a whole delivery in one frame.
func (l *rawLink) encode(payload []byte, settled bool) (b []byte, id uint32) {
	t := l.start()
	t.Settled = amqp.Some(settled)
	return l.frame(t, payload), t.DeliveryID.V
}

// send sends a message in one frame and returns its delivery id.
func (l *rawLink) send(payload []byte, settled bool) uint32 {
	b, id := l.encode(payload, settled)
	l.p.write(b)
	return id
}

// sendAll sends messages in one write and returns the id of the first.
func (l *rawLink) sendAll(payloads [][]byte, settled bool) uint32 {
	first := l.session.nextDelivery
	var all []byte
	for _, payload := range payloads {
		b, _ := l.encode(payload, settled)
		all = append(all, b...)
	}
	l.p.write(all)
	return first
}

// parts encodes a delivery in frames of the given payloads. change, if not nil,
// may alter each transfer.
func (l *rawLink) parts(payloads [][]byte, change func(i int, t *amqp.Transfer)) (frames [][]byte, id uint32) {
	first := l.start()
	for i, payload := range payloads {
		var t amqp.Transfer
		if i == 0 {
			t = first
		}
		t.More = i < len(payloads)-1
		if change != nil {
			change(i, &t)
		}
		frames = append(frames, l.frame(t, payload))
	}
	return frames, first.DeliveryID.V
}

// split cuts b into pieces of n octets.
func split(b []byte, n int) [][]byte { return slices.Collect(slices.Chunk(b, n)) }

func (l *rawLink) isFlow(f rawFrame) bool {
	fl, ok := f.body.(*amqp.Flow)
	return ok && f.channel == l.channel && fl.Handle.Set && fl.Handle.V == l.attach.Handle
}

// creditOf is what is left of the credit a flow gives, after what was sent.
func (l *rawLink) creditOf(f *amqp.Flow) int {
	return int(int32(f.DeliveryCount.V + f.LinkCredit.V - l.count))
}

// awaitCredit takes flows until a sending link has n credit left.
func (l *rawLink) awaitCredit(n int) *amqp.Flow {
	l.p.t.Helper()
	var seen []int
	for {
		f := l.p.take(fmt.Sprintf("a flow with %d credit left, after %v", n, seen), l.isFlow).body.(*amqp.Flow)
		got := l.creditOf(f)
		if got == n {
			return f
		}
		if got > n {
			l.p.t.Fatalf("%d credit, want %d", got, n)
		}
		seen = append(seen, got)
	}
}

// rawDelivery is a delivery that the peer received.
type rawDelivery struct {
	amqp.Transfer // its first frame
	frames        int
	payload       []byte
	settled       bool
	aborted       bool
	states        []amqp.Raw // of the frames
}

func (d *rawDelivery) id() uint32 { return d.DeliveryID.V }

// body is the message's body as text.
func (d *rawDelivery) body() string {
	m, err := amqp.DecodeMessage(d.payload)
	if err != nil {
		return fmt.Sprintf("no message: %v: %x", err, d.payload)
	}
	switch b := m.Body.(type) {
	case string:
		return b
	case []byte:
		return string(b)
	}
	return fmt.Sprintf("%v", m.Body)
}

// receive takes a whole delivery of the link.
func (l *rawLink) receive() *rawDelivery {
	l.p.t.Helper()
	d := &rawDelivery{}
	for {
		f := l.nextTransfer()
		t := f.body.(*amqp.Transfer)
		if d.frames == 0 {
			d.Transfer = *t
		}
		d.frames++
		d.payload = append(d.payload, f.payload...)
		d.settled = d.settled || t.Settled.V
		d.aborted = t.Aborted
		if t.State != nil {
			d.states = append(d.states, t.State)
		}
		if !t.More || t.Aborted {
			return d
		}
	}
}

// nextTransfer takes the next transfer frame of the link.
func (l *rawLink) nextTransfer() rawFrame {
	l.p.t.Helper()
	return l.p.take("transfer", l.isTransfer)
}

func (l *rawLink) isTransfer(f rawFrame) bool {
	t, ok := f.body.(*amqp.Transfer)
	return ok && f.channel == l.channel && t.Handle == l.attach.Handle
}

// bodies takes n deliveries and returns their texts.
func (l *rawLink) bodies(n int) []string {
	l.p.t.Helper()
	list := make([]string, n)
	for i := range list {
		list[i] = l.receive().body()
	}
	return list
}

// waiting is how many transfers of the link have come and were not taken.
func (l *rawLink) waiting() int {
	n := 0
	for _, f := range l.p.held {
		if l.isTransfer(f) {
			n++
		}
	}
	return n
}

// dispose sends a disposition for deliveries first..last in the link's session.
func (l *rawLink) dispose(first, last uint32, settled bool, state amqp.Raw) {
	d := &amqp.Disposition{Role: l.role, First: first, Settled: settled, State: state}
	if last != first {
		d.Last = amqp.Some(last)
	}
	l.p.send(l.channel, d)
}

// settle settles a delivery that was received.
func (l *rawLink) settle(d *rawDelivery, state amqp.Raw) { l.dispose(d.id(), d.id(), true, state) }

// detach detaches the link and takes the answer.
func (l *rawLink) detach(closed bool) *amqp.Detach {
	l.p.t.Helper()
	l.p.send(l.channel, &amqp.Detach{Handle: l.handle, Closed: closed})
	return l.detached()
}

// detached takes the router's detach of the link.
func (l *rawLink) detached() *amqp.Detach {
	l.p.t.Helper()
	return l.p.take("detach", func(f rawFrame) bool {
		d, ok := f.body.(*amqp.Detach)
		return ok && f.channel == l.channel && d.Handle == l.attach.Handle
	}).body.(*amqp.Detach)
}

// refused takes the detach that follows a refused attach, and answers it.
func (l *rawLink) refused(condition amqp.Symbol, description string) {
	l.p.t.Helper()
	d := l.detached()
	if !d.Closed || d.Error == nil || d.Error.Condition != condition || d.Error.Description != description {
		l.p.t.Fatalf("detach closed=%t with %v, want closed with %s %q", d.Closed, d.Error, condition, description)
	}
	l.p.send(l.channel, &amqp.Detach{Handle: l.handle, Closed: true})
}

// outcomes takes dispositions until all the deliveries that the peer sent, by
// id, are settled, and returns the texts of their states.
func (p *rawPeer) outcomes(ids ...uint32) map[uint32]string {
	p.t.Helper()
	got := map[uint32]string{}
	for {
		missing := 0
		for _, id := range ids {
			if _, ok := got[id]; !ok {
				missing++
			}
		}
		if missing == 0 {
			return got
		}
		d := p.disposition(fmt.Sprintf("outcome of %d deliveries of %v", missing, ids))
		if !d.Settled {
			if p.decided {
				continue
			}
			p.t.Fatalf("not settled: %+v", d)
		}
		for id := d.First; ; id++ {
			got[id] = stateText(d.State)
			if id == d.Last.Or(d.First) {
				break
			}
		}
	}
}

// outcomesFrom is outcomes for n deliveries from first on; it returns how many
// had each outcome.
func (p *rawPeer) outcomesFrom(first uint32, n int) map[string]int {
	p.t.Helper()
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = first + uint32(i)
	}
	sum := map[string]int{}
	for _, s := range p.outcomes(ids...) {
		sum[s]++
	}
	return sum
}

// disposition takes the next disposition.
func (p *rawPeer) disposition(what string) *amqp.Disposition {
	p.t.Helper()
	return p.take(what, func(f rawFrame) bool {
		_, ok := f.body.(*amqp.Disposition)
		return ok
	}).body.(*amqp.Disposition)
}

// stateText is a delivery state for people, with all that is in it.
func stateText(state amqp.Raw) string {
	if state == nil {
		return "none"
	}
	code, _ := amqp.StateCode(state)
	switch code {
	case amqp.CodeReceived:
		r, err := amqp.DecodeReceived(state)
		return orError(fmt.Sprintf("received %d %d", r.SectionNumber, r.SectionOffset), err)
	case amqp.CodeAccepted:
		return "accepted"
	case amqp.CodeReleased:
		return "released"
	case amqp.CodeRejected:
		e, err := amqp.DecodeRejected(state)
		if e == nil {
			return orError("rejected", err)
		}
		text := fmt.Sprintf("rejected %s %q", e.Condition, e.Description)
		if info, _ := e.Info.Value(); info != nil {
			text += fmt.Sprint(" ", info)
		}
		return orError(text, err)
	case amqp.CodeModified:
		m, err := amqp.DecodeModified(state)
		text := fmt.Sprintf("modified failed=%t undeliverable=%t", m.DeliveryFailed, m.UndeliverableHere)
		if v, _ := m.MessageAnnotations.Value(); v != nil {
			text += fmt.Sprint(" ", v)
		}
		return orError(text, err)
	}
	return fmt.Sprintf("state %#x %x", code, []byte(state))
}

func orError(text string, err error) string {
	if err != nil {
		return "undecodable: " + err.Error()
	}
	return text
}

// The texts of the outcomes that the router gives by itself.
const (
	modifiedFailed = "modified failed=true undeliverable=false"
	invalidMessage = `rejected amqp:decode-error "invalid message format"`
)

// rawMessage is a message with a text as its body.
func rawMessage(body string) []byte {
	return (&amqp.Message{Body: body}).Append(nil)
}

// rawMessageTo is a message with an address and a text as its body.
func rawMessageTo(to, body string) []byte {
	return (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some(to)}, Body: body}).Append(nil)
}

// numbered is n messages with the texts 0, 1, ….
func numbered(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = rawMessage(fmt.Sprint(i))
	}
	return list
}

// numbers is the texts from first on of numbered messages.
func numbers(first, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(first + i)
	}
	return list
}

// data is a message with a body of n octets.
func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31)
	}
	return (&amqp.Message{Body: b, BodyKind: amqp.BodyData}).Append(nil)
}

// longAway is a deadline for what may take many waits.
func longAway() time.Time { return time.Now().Add(10 * rawWait) }
