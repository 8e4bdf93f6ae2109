package router

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"qdrouter/amqp"
)

// Conn is one connection, from the AMQP header on. Its owner in package transport feeds it what
// the socket brings and is told nothing back but when to stop.
//
// Input, Done and Opened's callback belong to the owner's reader goroutine; the rest may be
// called from any.
type Conn struct {
	r              *Router
	o              ConnOptions
	routerCapacity uint32 // credit given on each link from another router
	wire           Wire
	born           int64 // nanoseconds on the router's clock

	messageLog messageLog

	slot         atomic.Int32 // where batches usually keep this connection's work
	lastRead     atomic.Int64 // nanoseconds on the router's clock
	lastWrite    atomic.Int64
	lastDelivery atomic.Int64               // 0 = none yet
	trace        atomic.Bool                // frames are wanted in the log
	heartbeat    atomic.Int64               // nanoseconds between frames that the peer wants at the least, 0 = none
	frameSince   atomic.Int64               // since when a frame is here in part, 0 = it is not
	expired      atomic.Pointer[amqp.Error] // why time ended the connection
	killed       atomic.Bool
	owes         atomic.Bool // there is something in owing

	mu         sync.Mutex
	eng        *amqp.Conn
	spare      []byte // the output buffer not in use
	boxes      []*[]byte
	writing    bool // somebody writes what was taken from eng.Out
	dead       bool // the socket takes nothing any more
	cutWhenOut bool // cut the socket once all output is written
	opened     bool
	tenant     string
	cost       uint32 // the larger of both ends' (RT E3)
	streams    bool   // the peer offers links for streams; fixed once its open is in (IR 1.4)
	container  string
	properties amqp.Map
	tags       uint64
	free       []*delivery
	waiting    []*outLink                 // with a queue that waits for output room or session window
	waited     []*outLink                 // room for those to come, empty
	own        [sessionClasses][]*session // those not ended, and maybe some that are
	lone       []*session                 // of links in a session of their own
	undrained  bool                       // the peer ended a session when it was told to drain a link
	owing      []*outLink                 // with queued settled deliveries whose senders wait for credit
	writerGone chan struct{}              // closed at the end of a write; made by Done

	// Owned by the reader.
	b      *batch
	near   *neighbour // of an inter-router connection; owned by the core
	failed *amqp.Error
	closed bool // the peer's close came, or ours went
	ended  bool

	timer timerEntry // owned by Router.timers
}

// engine is how the AMQP engine reaches the connection.
type engine struct{ *Conn }

func (e engine) Lock()   { e.mu.Lock() }
func (e engine) Unlock() { e.mu.Unlock() }

// Flush routes what has been read so far. Answers that wait to be written can wait on.
func (e engine) Flush() {
	e.routeRead()
	if e.b.busy() {
		e.b.run()
	}
}

// linkCapacity is the credit window of an in-link where the configuration gives none.
const linkCapacity = 250

// NewConn adds a connection whose AMQP header exchange is over. An outgoing one sends its open
// at once (CFG L9).
func (r *Router) NewConn(o ConnOptions, w Wire) *Conn {
	now := r.now()
	c := &Conn{r: r, o: o, wire: w, born: now, messageLog: parseMessageLog(o.MessageLog)}
	c.lastRead.Store(now)
	c.lastWrite.Store(now)
	c.routerCapacity = o.LinkCapacity
	if o.LinkCapacity == 0 {
		c.o.LinkCapacity, c.routerCapacity = linkCapacity, routerCapacity
	}
	if o.Protocol == "" {
		c.o.Protocol = "amqp"
	}
	if o.MaxSessions == 0 || o.MaxSessions > 32768 {
		c.o.MaxSessions = 32768
	}
	c.eng = amqp.NewConn(amqp.ConnConfig{
		ContainerID:         r.opts.ID,
		Hostname:            o.Hostname,
		MaxFrameSize:        max(o.MaxFrameSize, 512),
		ChannelMax:          uint16(c.o.MaxSessions - 1),
		IdleTimeout:         uint32(min(o.IdleTimeout.Milliseconds()/2, math.MaxUint32)), // RT 1.1, CFG L10
		OfferedCapabilities: openCapabilities,
		DesiredCapabilities: openCapabilities,
		Properties:          r.openProperties(&c.o),
		SessionFrames:       o.MaxSessionFrames,
	}, engine{c})
	r.traceNew(c)
	r.addConn(c)
	r.timers.set(c, r.nextTick(c))
	return c
}

var openCapabilities = amqp.Raw(amqp.AppendValue(nil, []amqp.Symbol{"ANONYMOUS-RELAY", capStreaming}))

// openProperties are those of RT E2, in its order.
func (r *Router) openProperties(o *ConnOptions) amqp.Raw {
	m := amqp.Map{
		{Key: amqp.Symbol("product"), Value: "qpid-dispatch-router"},
		{Key: amqp.Symbol("version"), Value: r.opts.Version},
		{Key: amqp.Symbol("qd.conn-id"), Value: int32(o.ID)},
	}
	if o.Cost > 1 {
		m = append(m, amqp.MapEntry{Key: amqp.Symbol("qd.inter-router-cost"), Value: int32(o.Cost)})
	}
	if o.Role == RoleInterRouter || o.Role == RoleEdge {
		m = append(m, amqp.MapEntry{Key: amqp.Symbol("qd.annotations-version"), Value: int32(1)})
	}
	if len(o.Failover) > 0 {
		m = append(m, amqp.MapEntry{Key: amqp.Symbol("failover-server-list"), Value: o.Failover})
	}
	return amqp.AppendValue(nil, append(m, o.OpenProperties...))
}

// Start sends the open of an outgoing connection.
func (c *Conn) Start() {
	b := c.r.newBatch()
	c.mu.Lock()
	c.eng.Open()
	c.flushLocked(b)
	b.run()
	b.done()
}

// Begin readies the connection for a burst of Input calls; End follows when the socket has no
// more for now. Between them the reader holds buffers that an idle connection gives back.
func (c *Conn) Begin() {
	if c.b == nil {
		c.b = c.r.newBatch()
	} else {
		c.b.now = c.r.now()
	}
	c.lastRead.Store(c.b.now)
	if want := c.trace.Load(); want != (c.eng.Trace != nil) {
		c.mu.Lock()
		c.eng.Trace = nil
		if want {
			c.eng.Trace = c.traceFrame
		}
		c.mu.Unlock()
	}
}

// End gives back what Begin took.
func (c *Conn) End() {
	if c.b != nil {
		c.b.done()
		c.b = nil
	}
}

// ErrClosed is what Input returns after the peer's close, when all is over in good order.
var ErrClosed = errors.New("connection closed")

// Input takes in the whole frames at the start of buf and returns how many octets they had. It
// keeps nothing of buf. After an error the caller reads no more; what is to be told to the peer
// is on its way and the socket is cut after it.
func (c *Conn) Input(buf []byte) (n int, err error) {
	n, err = c.eng.Input(buf)
	c.noteRest(len(buf)-n, n > 0)
	c.routeRead()
	c.r.decide(c.b)
	c.b.run()
	c.decideRest()
	if c.mustRenewWindows() {
		c.renewWindows()
	}
	c.b.arena = c.b.arena[:0] // what was read and rewritten is out, or copied
	if err != nil {
		e, ok := err.(*amqp.Error)
		if !ok {
			e = &amqp.Error{Condition: amqp.ErrCondInternalError, Description: err.Error()}
		}
		c.fail(e)
		return n, e
	}
	if c.closed {
		return n, ErrClosed
	}
	return n, nil
}

// decideRest takes to the core what it was to know only when others had been told something (postOut).
func (c *Conn) decideRest() {
	for len(c.b.events) > 0 {
		c.r.decide(c.b)
		c.b.run()
	}
}

// noteRest notes since when a frame is incomplete: rest octets of one are here, the first of
// them only now when whole frames were before them.
func (c *Conn) noteRest(rest int, first bool) {
	since := c.frameSince.Load()
	switch {
	case rest == 0 && since != 0:
		c.frameSince.Store(0)
	case rest > 0 && (first || since == 0):
		c.frameSince.Store(c.b.now)
	}
}

// Fail closes the connection with an error of the layer below the AMQP engine, for the peer to
// read. It belongs to the reader.
func (c *Conn) Fail(e *amqp.Error) {
	c.Begin()
	c.fail(e)
	c.End()
}

func (c *Conn) fail(e *amqp.Error) {
	c.failed = e
	c.mu.Lock()
	c.eng.Close(e)
	c.cutWhenOut = true
	c.flushLocked(c.b)
	c.b.run()
}

// Close closes the connection in good order with an error, or none, and cuts it when the peer
// has answered or the transport gives up.
func (c *Conn) Close(e *amqp.Error) {
	b := c.r.newBatch()
	c.mu.Lock()
	if !c.dead {
		c.eng.Close(e)
	}
	c.flushLocked(b)
	b.run()
	b.done()
}

// Error returns what ended the connection, nil when nothing did or the peer closed without one.
func (c *Conn) Error() *amqp.Error {
	if c.failed != nil {
		return c.failed
	}
	return c.expired.Load()
}

// Number returns the n of [Cn].
func (c *Conn) Number() uint64 { return c.o.ID }

// HasOpened reports whether the peer's open has come and been accepted.
func (c *Conn) HasOpened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// Done tells that the socket is gone. All links are lost with it (RT 2.9).
func (c *Conn) Done() {
	if c.ended {
		return
	}
	c.ended = true
	c.Begin()
	b := c.b
	c.mu.Lock()
	for c.writing { // the last words; the owner has bounded how long they may take
		c.writerGone = make(chan struct{})
		gone := c.writerGone
		c.mu.Unlock()
		<-gone
		c.mu.Lock()
	}
	c.dead = true
	opened := c.opened
	var lost []*amqp.Session
	c.eng.Sessions(func(s *amqp.Session) { lost = append(lost, s) })
	for _, s := range lost {
		c.loseSession(s, b)
	}
	c.eng.Out, c.spare = nil, nil
	c.waiting, c.waited, c.owing, c.free = nil, nil, nil, nil
	c.mu.Unlock()
	c.r.timers.remove(c) // nothing wakes a dead connection any more
	c.r.decide(b)
	b.run()
	c.decideRest()
	c.End()
	c.r.removeConn(c, opened)
}

// RemoteOpen answers the peer's open.
func (e engine) RemoteOpen(o *amqp.Open) *amqp.Error {
	c := e.Conn
	o = cloneOpen(o)
	c.eng.Remote = o
	c.cost = max(c.o.Cost, 1)
	c.container = o.ContainerID
	c.streams = slices.Contains(o.OfferedCapabilities.Symbols(), capStreaming)
	if v, err := o.Properties.Value(); err == nil {
		c.properties, _ = v.(amqp.Map)
	}
	if c.o.Role == RoleInterRouter || c.o.Role == RoleEdge {
		for _, p := range c.properties {
			key, ok := p.Key.(amqp.Symbol)
			if !ok {
				break // what follows is not read (IR 1.4)
			}
			n, isInt := p.Value.(int32)
			switch {
			case key == "qd.inter-router-cost" && isInt && n > 0:
				c.cost = max(c.cost, uint32(n))
			case key == "qd.annotations-version" && isInt:
				c.r.logf("ROUTER", Debug, "Remote router annotations version: %d", n)
			}
		}
	}
	if c.o.MultiTenant && o.Hostname.V != "" {
		c.tenant = o.Hostname.V + "/"
	}
	if n := o.MaxFrameSize; n.Set && n.V < amqp.MinMaxFrameSize { // CFG R27
		c.r.logf("SERVER", Warning, "[C%d] max-frame-size %d of the peer is too small, %d is used", c.o.ID, n.V, amqp.MinMaxFrameSize)
	}
	if t := time.Duration(o.IdleTimeout.V) * time.Millisecond; t > 0 {
		c.heartbeat.Store(int64(max(t/2, 20*time.Millisecond))) // CFG L12
		c.r.timers.set(c, c.r.nextTick(c))
	}
	if !c.eng.OpenSent() {
		c.readyOut()
		c.eng.Open()
	}
	c.opened = true
	c.b.touch(c)
	c.b.post(event{kind: eventCall, call: func() { c.r.connOpened(c) }})
	if c.o.Role == RoleInterRouter && c.r.opts.Mode == Interior {
		c.b.post(event{kind: eventCall, call: func() { c.r.openNeighbour(c) }})
	}
	if c.o.Opened != nil || c.r.opts.Log.Enabled("ROUTER_CORE", Info) {
		text := c.openedText(o)
		c.r.logf("ROUTER_CORE", Info, "[C%d] %s", c.o.ID, text)
		if c.o.Opened != nil {
			c.o.Opened(o, text)
		}
	}
	return nil
}

// cloneOpen copies an open out of the read buffer.
func cloneOpen(o *amqp.Open) *amqp.Open {
	var c amqp.Open
	if _, err := c.Decode(o.Append(nil)); err != nil {
		panic(fmt.Sprintf("router: open does not survive encoding: %v", err))
	}
	return &c
}

// openedText is the text of CFG G14 for an opened connection.
func (c *Conn) openedText(o *amqp.Open) string {
	dir, encrypted, auth, user := "out", "no", "no", "(null)"
	if c.o.Incoming {
		dir = "in"
	}
	if c.o.Encrypted {
		encrypted = c.o.SSLProto
	}
	if c.o.SASL != "" {
		auth = c.o.SASL
	}
	if c.o.User != "" {
		user = c.o.User
	}
	return fmt.Sprintf("Connection Opened: dir=%s host=%s vhost=%s encrypted=%s auth=%s user=%s container_id=%s props=%s",
		dir, c.o.Host, c.tenant, encrypted, auth, user, o.ContainerID, propsText(c.properties))
}

func propsText(m amqp.Map) string {
	if len(m) == 0 {
		return ""
	}
	s := "{"
	for i, e := range m {
		if i > 0 {
			s += ", "
		}
		s += traceValue(e.Key) + "=" + traceValue(e.Value)
	}
	return s + "}"
}

func (e engine) RemoteBegin(s *amqp.Session, _ *amqp.Begin) *amqp.Error {
	if s.Owner == nil { // else begun by this end
		s.Owner = &session{conn: e.Conn, s: s, frameSize: 256}
	}
	if e.o.MaxSessionFrames == 0 {
		// Until it is known what frames the peer sends.
		s.WindowTarget = min(max(windowMin, e.o.LinkCapacity), windowMax)
	}
	e.b.touch(e.Conn)
	return nil
}

func (e engine) RemoteEnd(s *amqp.Session, end *amqp.End) {
	if sess, ok := s.Owner.(*session); ok {
		sess.endError = end.Error.Clone()
	}
	s.Links(func(l *amqp.Link) {
		if in, ok := l.Owner.(*inLink); ok && in.withheld && l.CreditOut() > 0 && end.Error != nil {
			e.undrained = true
		}
	})
	e.loseSession(s, e.b)
	e.b.touch(e.Conn)
}

func (e engine) RemoteClose(cl *amqp.Close) {
	c := e.Conn
	if cl.Error != nil {
		ce := *cl.Error
		c.failed = &amqp.Error{Condition: ce.Condition, Description: ce.Description}
	}
	var lost []*amqp.Session
	c.eng.Sessions(func(s *amqp.Session) { lost = append(lost, s) })
	for _, s := range lost {
		c.loseSession(s, c.b)
	}
	c.closed = true
	c.cutWhenOut = true
	c.b.touch(c)
	c.b.post(event{kind: eventCall, call: func() { c.r.connClosed(c) }})
}

// flushLocked writes the output, unless somebody is writing already; it unlocks. What the
// freed room lets go, and what that owes, goes into b.
func (c *Conn) flushLocked(b *batch) {
	if c.writing || c.dead {
		cut := c.writing && len(c.eng.Out) > outputMax
		c.mu.Unlock()
		if cut {
			c.wire.Cut()
		}
		return
	}
	for {
		c.eng.Prepare()
		out := c.eng.Out
		if len(out) == 0 {
			cut := c.cutWhenOut
			if out != nil {
				c.eng.Out = nil
				c.putBuffer(out)
			}
			if c.spare != nil {
				c.putBuffer(c.spare)
				c.spare = nil
			}
			c.mu.Unlock()
			if cut {
				c.wire.Cut()
			}
			return
		}
		c.eng.Out, c.spare = c.spare, nil
		c.writing = true
		c.mu.Unlock()
		n, err := c.wire.TryWrite(out)
		if err == nil && n < len(out) {
			c.r.writers.Add(1)
			go c.write(out, n)
			return
		}
		c.lastWrite.Store(b.now)
		c.mu.Lock()
		c.notWriting()
		if err != nil {
			c.dead = true
			c.mu.Unlock()
			c.wire.Cut()
			return
		}
		c.takeBack(out)
		c.drainWaiting(b)
	}
}

// takeBack keeps a written buffer for what comes next.
func (c *Conn) takeBack(out []byte) {
	switch {
	case c.eng.Out == nil:
		c.eng.Out = out[:0]
	case c.spare == nil:
		c.spare = out[:0]
	default:
		c.putBuffer(out)
	}
}

// write is the writer goroutine: it lives until what the socket did not take at once, and what
// came since, is written.
func (c *Conn) write(out []byte, n int) {
	defer c.r.writers.Done()
	_, err := c.wire.Write(out[n:])
	b := c.r.newBatch()
	c.lastWrite.Store(b.now)
	c.mu.Lock()
	c.notWriting()
	if err != nil {
		c.dead = true
		c.mu.Unlock()
		c.wire.Cut()
	} else {
		c.takeBack(out)
		c.drainWaiting(b)
		c.flushLocked(b)
	}
	b.run()
	b.done()
}

// outputMax bounds what waits for a peer that does not read while it makes us answer: transfers
// stop at outputRoom and outcomes with the session window, which is not renewed before it can be
// told, but attaches and ends have to be answered. Beyond it the peer is cut off.
const outputMax = 32 << 20

// notWriting ends a write, with the lock held, and tells Done when that waits for it.
func (c *Conn) notWriting() {
	c.writing = false
	if c.writerGone != nil {
		close(c.writerGone)
		c.writerGone = nil
	}
}

// buffers are output buffers not in use: idle connections have none. The boxes they come in
// stay with the connection meanwhile, so that taking and giving back allocates nothing.
var buffers = sync.Pool{}

// bufferMax keeps a rare large buffer from staying in the pool.
const bufferMax = 1 << 20

// putBuffer gives a buffer back, with the lock held.
func (c *Conn) putBuffer(b []byte) {
	if cap(b) < 4096 || cap(b) > bufferMax {
		return
	}
	var box *[]byte
	if n := len(c.boxes); n > 0 {
		box = c.boxes[n-1]
		c.boxes = c.boxes[:n-1]
	} else {
		box = new([]byte)
	}
	*box = b[:0]
	buffers.Put(box)
}

// readyOut gives the engine a buffer to encode into.
func (c *Conn) readyOut() {
	if c.eng.Out != nil {
		return
	}
	if c.spare != nil {
		c.eng.Out, c.spare = c.spare, nil
	} else if box, _ := buffers.Get().(*[]byte); box != nil {
		c.eng.Out = *box
		*box = nil
		if len(c.boxes) < 2 {
			c.boxes = append(c.boxes, box)
		}
	} else {
		c.eng.Out = make([]byte, 0, 16384)
	}
}

// drainWaiting sends what waited for room in the output or in a session window.
func (c *Conn) drainWaiting(b *batch) {
	if len(c.waiting) == 0 {
		return
	}
	list := c.waiting
	c.waiting, c.waited = c.waited, nil
	for _, out := range list {
		out.waiting = false
	}
	for _, out := range list {
		if !out.closed {
			c.drain(out, b)
		}
	}
	clear(list)
	c.waited = list[:0]
}

// Tick does what time asks for and returns when to be called again, in nanoseconds on the
// router's clock.
func (c *Conn) tick(now int64) (next int64) {
	if c.expired.Load() != nil { // and the last words did not get out
		c.wire.Cut()
		return 0
	}
	if idle := int64(c.o.IdleTimeout); idle > 0 {
		if now-c.lastRead.Load() >= idle {
			return c.timeOut("local-idle-timeout expired", now)
		}
		if since := c.frameSince.Load(); since != 0 && now-since >= frameIdles*idle {
			return c.timeOut("frame not complete in time", now)
		}
	}
	if hb := c.heartbeat.Load(); hb > 0 && now-c.lastWrite.Load() >= hb {
		b := c.r.newBatch()
		c.mu.Lock()
		if !c.writing && !c.dead && !c.eng.CloseSent() {
			c.eng.Heartbeat()
		}
		c.lastWrite.Store(now)
		c.flushLocked(b)
		b.run()
		b.done()
	}
	c.payOwing(now)
	return c.r.nextTick(c)
}

// frameIdles is within how many idle times a frame must be complete (CFG R33).
const frameIdles = 10

// timeOut ends a silent connection (CFG L10). Close and cut: a peer that is gone will not
// answer. next is when it must have gone.
func (c *Conn) timeOut(why string, now int64) (next int64) {
	e := &amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded, Description: why}
	c.expired.Store(e)
	b := c.r.newBatch()
	c.mu.Lock()
	c.eng.Close(e)
	stuck := c.writing
	c.cutWhenOut = true
	c.flushLocked(b)
	b.run()
	b.done()
	if stuck {
		c.wire.Cut()
	}
	return now + int64(closeWait)
}

// mustRenewWindows reports whether a session that this read used wants a flow.
func (c *Conn) mustRenewWindows() bool { return len(c.b.links) > 0 }

// renewWindows sends flows for the sessions whose window the peer has half used up, and holds
// them where too much of their streams waits (RT F63).
func (c *Conn) renewWindows() {
	for i, in := range c.b.links {
		s := in.sess
		if high := s.holdAt(); s.held.Load() > high {
			if !s.holding.Load() {
				c.mu.Lock()
				s.holding.Store(true)
				s.s.Hold = true
				c.mu.Unlock()
				if s.held.Load() <= high/2 { // drained meanwhile: nobody else will resume it
					c.b.resume(s)
				}
			}
		} else if s.s.WindowLow() && !s.holding.Load() {
			c.mu.Lock()
			if c.o.MaxSessionFrames == 0 {
				s.s.WindowTarget = uint32(min(max(windowOctets/max(s.frameSize, 1), windowMin), windowMax))
			}
			s.s.FlowDue()
			c.mu.Unlock()
			c.b.touch(c)
		}
		in.listed = false
		c.b.links[i] = nil
	}
	c.b.links = c.b.links[:0]
	c.b.run()
}
