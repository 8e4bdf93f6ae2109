package amqp

import (
	"fmt"
	"math"
	"sync/atomic"
)

// ConnConfig is what one end of a connection says in its open, and lives by.
type ConnConfig struct {
	ContainerID         string
	Hostname            string // "" = not sent
	MaxFrameSize        uint32 // octets we accept in one frame
	ChannelMax          uint16
	IdleTimeout         uint32 // milliseconds announced, 0 = none
	OfferedCapabilities Raw
	DesiredCapabilities Raw
	Properties          Raw
	// SessionFrames is the incoming window of each session in frames. 0 announces no limit at
	// begin; what is lived by is then Session.WindowTarget, told with the first flow, which
	// always comes before the first link credit.
	SessionFrames uint32
	// FirstTransferID is the transfer id that each session begins with, FirstDeliveryCount the
	// initial delivery count of each link on which this end sends. Both wrap (part 2 §2.8.8),
	// so that any value will do; some peers start just below 2^32.
	FirstTransferID    uint32
	FirstDeliveryCount uint32
	// HandleMax is the highest link handle that this end takes in a session; 0 = no limit.
	HandleMax uint32
}

// Handler is told what the peer did. Lock and Unlock guard everything of the connection that
// other goroutines may touch: Out, the sending halves of sessions and links, credit. The
// reader's own frames take two roads:
//
//   - Transfer runs without the lock: the receiving halves belong to the reader alone.
//   - All other methods run with the lock held, except Flush, which comes without it, before
//     any frame that must not overtake the transfers seen so far.
//
// What a method is given aliases the input and is good until it returns; an attach may be kept
// until Input returns. An *Error returned by
// a method closes the connection with it.
type Handler interface {
	Lock()
	Unlock()
	Flush()
	RemoteOpen(o *Open) *Error
	RemoteBegin(s *Session, b *Begin) *Error
	RemoteAttach(l *Link, a *Attach) *Error
	// LinkFlow reports new credit (we send) or credit that the peer used up by draining (we
	// receive); drained counts the latter.
	LinkFlow(l *Link, f *Flow, drained uint32)
	// SessionFlow reports a new window to send in, or that a flow is due which nobody asked for.
	SessionFlow(s *Session)
	Transfer(l *Link, t *Transfer, payload []byte) *Error
	Disposition(s *Session, d *Disposition)
	// LinkFailed reports a link that the engine detached for the peer's fault.
	LinkFailed(l *Link, err *Error)
	RemoteDetach(l *Link, d *Detach)
	RemoteEnd(s *Session, e *End)
	RemoteClose(cl *Close)
}

// Tracer is told every frame, when one is set; p is nil for an empty frame.
type Tracer func(out bool, channel uint16, p Performative, payload []byte)

// Conn is one end of an AMQP 1.0 connection from the open on, acceptor or initiator alike
// (AMQP 1.0 part 2). It has no socket, clock, goroutine or lock. Its owner feeds octets to
// Input from one goroutine, calls everything else with Handler's lock held, and writes what
// gathers in Out.
type Conn struct {
	Out    []byte // encoded frames, in order; the owner takes them after Prepare
	Remote *Open  // the peer's open, nil before it came
	Trace  Tracer

	cfg       ConnConfig
	h         Handler
	state     atomic.Uint32 // bits of how far the connection is; written under the lock
	maxOut    uint32        // octets the peer accepts in one frame
	maxChan   uint16        // highest channel we may use
	maxHandle uint32        // what a session is taken to have room for until its begin is here
	freeChan  uint32        // all channels below are in use
	byRemote  table[*Session]
	byLocal   table[*Session]
	dirty     []*Session // with dispositions or flows to encode

	// Owned by the reader, so that decoding allocates nothing.
	transfer    Transfer
	disposition Disposition
	flow        Flow
}

// How far the connection is.
const (
	openSent uint32 = 1 << iota
	openReceived
	closeSent
	closeReceived
)

// Defaults of the open's fields (AMQP 1.0 part 2 §2.7.1).
const (
	minMaxFrameSize   = 512
	unlimitedWindow   = 2147483647
	defaultFlowWindow = 2048
	usualHandleMax    = 255 // of brokers that have a limit
)

// NewConn returns an end that has sent and received nothing.
func NewConn(cfg ConnConfig, h Handler) *Conn {
	c := &Conn{h: h, maxOut: minMaxFrameSize, maxHandle: usualHandleMax}
	c.SetConfig(cfg)
	return c
}

// Config returns what this end says in its open.
func (c *Conn) Config() ConnConfig { return c.cfg }

// SetConfig replaces what this end will say; it must come before Open.
func (c *Conn) SetConfig(cfg ConnConfig) {
	cfg.MaxFrameSize = max(cfg.MaxFrameSize, minMaxFrameSize)
	cfg.SessionFrames = min(cfg.SessionFrames, unlimitedWindow) // as far as serial numbers can tell before from after
	c.cfg = cfg
	c.maxChan = cfg.ChannelMax
}

// OpenSent reports whether our open has gone out. Like the next three it may be called without
// the lock.
func (c *Conn) OpenSent() bool { return c.state.Load()&openSent != 0 }

// OpenReceived reports whether the peer's open has come.
func (c *Conn) OpenReceived() bool { return c.state.Load()&openReceived != 0 }

// CloseSent reports whether our close has gone out.
func (c *Conn) CloseSent() bool { return c.state.Load()&closeSent != 0 }

// CloseReceived reports whether the peer's close has come.
func (c *Conn) CloseReceived() bool { return c.state.Load()&closeReceived != 0 }

// Open sends our open.
func (c *Conn) Open() {
	o := &Open{
		ContainerID:         c.cfg.ContainerID,
		MaxFrameSize:        Some(c.cfg.MaxFrameSize),
		ChannelMax:          Some(c.cfg.ChannelMax),
		OfferedCapabilities: c.cfg.OfferedCapabilities,
		DesiredCapabilities: c.cfg.DesiredCapabilities,
		Properties:          c.cfg.Properties,
	}
	if c.cfg.Hostname != "" {
		o.Hostname = Some(c.cfg.Hostname)
	}
	if c.cfg.IdleTimeout != 0 {
		o.IdleTimeout = Some(c.cfg.IdleTimeout)
	}
	c.state.Or(openSent)
	c.send(0, o)
}

// Close sends our close; before an open it is preceded by a minimal one, so that a peer can
// read the reason (CFG 11.1 "error close"). A second call does nothing.
func (c *Conn) Close(err *Error) {
	if c.CloseSent() {
		return
	}
	c.Prepare()
	if !c.OpenSent() {
		c.state.Or(openSent)
		c.send(0, &Open{})
	}
	c.send(0, &Close{Error: err})
	c.state.Or(closeSent)
}

// Heartbeat appends an empty frame.
func (c *Conn) Heartbeat() {
	if c.CloseSent() {
		return
	}
	c.Out = append(c.Out, 0, 0, 0, 8, 2, 0, 0, 0)
	if c.Trace != nil {
		c.Trace(true, 0, nil, nil)
	}
}

// send appends a frame, unless our close has gone.
func (c *Conn) send(channel uint16, p Performative) {
	if c.CloseSent() {
		return
	}
	start := len(c.Out)
	c.Out = AppendFrame(c.Out, 0, channel, p)
	if len(c.Out)-start > c.frameRoom() {
		p = fitFrame(p, c.frameRoom())
		c.Out = AppendFrame(c.Out[:start], 0, channel, p)
	}
	if c.Trace != nil {
		c.Trace(true, channel, p, nil)
	}
}

// frameRoom is how many octets a frame of ours may have.
func (c *Conn) frameRoom() int { return int(min(c.maxOut, 1<<30)) }

// Input takes in as many whole frames as b holds and returns the octets they had. An error is
// an *Error for the peer: the owner calls Close with it and gives the connection up.
func (c *Conn) Input(b []byte) (n int, err error) {
	for {
		hdr, ok, err := ParseFrameHeader(b[n:], c.cfg.MaxFrameSize)
		if err != nil {
			return n, err
		}
		if !ok || len(b)-n < int(hdr.Size) {
			return n, nil
		}
		frame := b[n : n+int(hdr.Size)]
		n += int(hdr.Size)
		if err := c.frame(hdr, frame[4*int(hdr.DataOffset):]); err != nil {
			return n, err
		}
	}
}

func errorf(cond Symbol, format string, args ...any) *Error {
	return &Error{Condition: cond, Description: fmt.Sprintf(format, args...)}
}

// frame takes in one frame with that body.
func (c *Conn) frame(hdr FrameHeader, body []byte) error {
	if hdr.Type != 0 { // CFG R11
		return errorf(ErrCondFramingError, "unexpected frame type %d", hdr.Type)
	}
	if c.CloseReceived() { // CFG R35
		return errorf(ErrCondFramingError, "data after close")
	}
	if len(body) == 0 {
		if c.Trace != nil {
			c.Trace(false, hdr.Channel, nil, nil)
		}
		return nil
	}
	if c.state.Load()&(openReceived|closeSent) == openReceived && c.Trace == nil && len(body) > 3 && body[0] == 0 && body[1] == 0x53 {
		switch body[2] {
		case CodeTransfer:
			n, err := c.transfer.Decode(body)
			if err != nil {
				return err
			}
			return asError(c.inTransfer(hdr.Channel, &c.transfer, body[n:]))
		case CodeDisposition:
			if _, err := c.disposition.Decode(body); err != nil {
				return err
			}
			return asError(c.inDisposition(hdr.Channel, &c.disposition))
		case CodeFlow:
			if _, err := c.flow.Decode(body); err != nil {
				return err
			}
			return asError(c.inFlow(hdr.Channel, &c.flow))
		case CodeAttach:
			a := newStoredAttach()
			if _, err := a.Decode(body); err != nil {
				return err
			}
			return asError(c.inAttach(hdr.Channel, a))
		}
	}
	p, n, err := DecodePerformative(body)
	if err != nil {
		return err
	}
	if c.Trace != nil {
		c.Trace(false, hdr.Channel, p, body[n:])
	}
	if !c.OpenReceived() {
		if o, ok := p.(*Open); ok {
			return asError(c.inOpen(o))
		}
		return errorf(ErrCondIllegalState, "%s before open", performativeName(p)) // CFG R13, R14
	}
	if c.CloseSent() { // discarding: only the peer's close matters any more (part 2 §2.4.6)
		if cl, ok := p.(*Close); ok {
			return c.inClose(cl)
		}
		return nil
	}
	switch p := p.(type) {
	case *Open: // CFG R15
		return errorf(ErrCondIllegalState, "second open")
	case *Begin:
		return asError(c.inBegin(hdr.Channel, p))
	case *Attach:
		return asError(c.inAttach(hdr.Channel, p))
	case *Flow:
		return asError(c.inFlow(hdr.Channel, p))
	case *Transfer:
		return asError(c.inTransfer(hdr.Channel, p, body[n:]))
	case *Disposition:
		return asError(c.inDisposition(hdr.Channel, p))
	case *Detach:
		return asError(c.inDetach(hdr.Channel, p))
	case *End:
		return asError(c.inEnd(hdr.Channel, p))
	case *Close:
		return c.inClose(p)
	}
	return errorf(ErrCondNotImplemented, "unexpected performative %T", p)
}

// asError keeps a nil *Error from becoming a non-nil error.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

func performativeName(p Performative) string {
	switch p.(type) {
	case *Open:
		return "open"
	case *Begin:
		return "begin"
	case *Attach:
		return "attach"
	case *Flow:
		return "flow"
	case *Transfer:
		return "transfer"
	case *Disposition:
		return "disposition"
	case *Detach:
		return "detach"
	case *End:
		return "end"
	case *Close:
		return "close"
	}
	return "frame"
}

func (c *Conn) inOpen(o *Open) *Error {
	c.h.Lock()
	defer c.h.Unlock()
	c.state.Or(openReceived)
	c.Remote = o
	c.maxOut = max(o.MaxFrameSize.Or(4294967295), minMaxFrameSize) // CFG R27
	c.maxChan = min(c.cfg.ChannelMax, o.ChannelMax.Or(65535))
	if c.CloseSent() {
		return nil
	}
	return c.h.RemoteOpen(o)
}

func (c *Conn) inClose(cl *Close) error {
	c.h.Flush()
	c.h.Lock()
	defer c.h.Unlock()
	c.state.Or(closeReceived)
	c.h.RemoteClose(cl)
	c.Close(nil)
	return nil
}

// session returns the session of a frame's channel. skip means that we ended it and what the
// peer sent before it knew is to be ignored.
func (c *Conn) session(channel uint16) (s *Session, skip bool, err *Error) {
	if channel > c.cfg.ChannelMax { // CFG R17
		return nil, false, errorf(ErrCondFramingError, "remote channel %d is above negotiated channel_max %d.", channel, c.cfg.ChannelMax)
	}
	s = c.byRemote.get(uint32(channel))
	if s == nil { // CFG R16
		return nil, false, errorf(ErrCondNotAllowed, "no such channel: %d", channel)
	}
	return s, s.endSent.Load(), nil
}

func (c *Conn) inBegin(channel uint16, b *Begin) *Error {
	if channel > c.cfg.ChannelMax {
		_, _, err := c.session(channel)
		return err
	}
	c.h.Flush()
	c.h.Lock()
	defer c.h.Unlock()
	if c.byRemote.get(uint32(channel)) != nil { // CFG R18
		return errorf(ErrCondNotAllowed, "channel %d is in use", channel)
	}
	var s *Session
	if rc := b.RemoteChannel; rc.Set {
		s = c.byLocal.get(uint32(rc.V))
		if s == nil || s.begun {
			return errorf(ErrCondNotAllowed, "no such channel: %d", rc.V)
		}
	} else {
		var err *Error
		if s, err = c.newSession(); err != nil {
			return err
		}
	}
	s.begun = true
	s.remoteChannel = channel
	s.maxOut = b.HandleMax.Or(math.MaxUint32)
	c.maxHandle = s.maxOut
	s.nextIncomingID.Store(b.NextOutgoingID)
	s.inLimit.Add(b.NextOutgoingID)
	s.remoteLimit = s.nextOutgoingID + Serial(min(b.IncomingWindow, unlimitedWindow))
	c.byRemote.put(uint32(channel), s)
	if !b.RemoteChannel.Set {
		s.sendBegin(Some(channel))
	}
	if s.endSent.Load() {
		return nil
	}
	return c.h.RemoteBegin(s, b)
}

// Begin opens a session of our own. It is usable at once; the peer's begin may come later.
func (c *Conn) Begin() (*Session, *Error) {
	s, err := c.newSession()
	if err != nil {
		return nil, err
	}
	s.sendBegin(Opt[uint16]{})
	return s, nil
}

// FreeChannels returns how many sessions more there may be.
func (c *Conn) FreeChannels() int { return int(c.maxChan) + 1 - c.byLocal.n }

func (c *Conn) newSession() (*Session, *Error) {
	for ch := c.freeChan; ch <= uint32(c.maxChan); ch++ {
		if c.byLocal.get(ch) == nil {
			c.freeChan = ch + 1
			s := &Session{Conn: c, channel: uint16(ch), WindowTarget: defaultFlowWindow, nextOutgoingID: Serial(c.cfg.FirstTransferID), maxOut: c.maxHandle}
			if c.cfg.SessionFrames != 0 {
				s.WindowTarget = c.cfg.SessionFrames
			}
			s.inLimit.Store(s.beginWindow())
			c.byLocal.put(ch, s)
			return s, nil
		}
	}
	return nil, errorf(ErrCondNotAllowed, "no channel left below %d", c.maxChan)
}

func (c *Conn) inEnd(channel uint16, e *End) *Error {
	s, _, err := c.session(channel)
	if err != nil {
		return err
	}
	c.h.Flush()
	c.h.Lock()
	defer c.h.Unlock()
	s.endReceived = true
	if !s.endSent.Load() {
		c.h.RemoteEnd(s, e)
	}
	if !s.endSent.Load() { // CFG R34: answered at once, links go with it
		s.End(nil)
	}
	c.byRemote.del(uint32(channel))
	c.byLocal.del(uint32(s.channel))
	c.freeChan = min(c.freeChan, uint32(s.channel))
	return nil
}

// Sessions calls f for every session that is not ended.
func (c *Conn) Sessions(f func(*Session)) {
	c.byLocal.each(func(s *Session) {
		if !s.endSent.Load() {
			f(s)
		}
	})
}

// Prepare encodes the dispositions and flows that wait. The owner calls it before it takes Out.
func (c *Conn) Prepare() {
	for i, s := range c.dirty {
		s.prepare()
		c.dirty[i] = nil
	}
	c.dirty = c.dirty[:0]
}

// table maps numbers that one end gives out, usually from 0 on, to what they stand for. Those
// that are small for how many there are are in a slice; what it takes is bounded by how many
// there have been at a time, whatever the numbers.
type table[T comparable] struct {
	low  []T
	high map[uint32]T
	n    int // entries
}

func (t *table[T]) get(i uint32) (v T) {
	if i < uint32(len(t.low)) {
		return t.low[i]
	}
	return t.high[i]
}

// put enters v, which is not zero.
func (t *table[T]) put(i uint32, v T) {
	var zero T
	if t.get(i) == zero {
		t.n++
	}
	if uint64(i) < 2*uint64(t.n)+16 {
		for j := uint32(len(t.low)); j <= i; j++ {
			t.low = append(t.low, t.high[j])
			delete(t.high, j)
		}
	}
	if i < uint32(len(t.low)) {
		t.low[i] = v
		return
	}
	if t.high == nil {
		t.high = make(map[uint32]T)
	}
	t.high[i] = v
}

func (t *table[T]) del(i uint32) {
	var zero T
	if t.get(i) == zero {
		return
	}
	t.n--
	if i < uint32(len(t.low)) {
		t.low[i] = zero
		return
	}
	delete(t.high, i)
}

func (t *table[T]) each(f func(T)) {
	var zero T
	for _, v := range t.low {
		if v != zero {
			f(v)
		}
	}
	for _, v := range t.high {
		f(v)
	}
}
