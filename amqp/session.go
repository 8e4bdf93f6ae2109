package amqp

import (
	"bytes"
	"sync/atomic"
)

// Session is one session of a connection, begun by either end (AMQP 1.0 part 2 §2.5). Its
// receiving half belongs to the reader; the numbers of it that flows must tell are atomics.
// All else is guarded by the owner's lock.
type Session struct {
	Conn  *Conn
	Owner any // the owner's own half

	// WindowTarget is the incoming window in frames that flows restore, as long as Hold is
	// false. While Hold is true nothing is granted beyond what the peer has.
	WindowTarget uint32
	Hold         bool

	channel       uint16 // ours
	remoteChannel uint16
	begun         bool // the peer's begin is here
	endReceived   bool
	flowSent      bool
	queued        bool // in Conn.dirty
	endSent       atomic.Bool

	// Written by the reader.
	nextIncomingID atomic.Uint32
	deliveryID     Serial // expected next, once deliveryInit
	deliveryInit   bool

	// The first transfer id that the peer may not use; until its begin is here, how many it may
	// use. Written under the lock.
	inLimit atomic.Uint32

	// Sending half.
	nextOutgoingID Serial
	remoteLimit    Serial  // first transfer id that we may not use
	aborts         []*Link // with a delivery to be ended when the window opens
	nextDeliveryID Serial

	byRemote table[*Link]
	byLocal  table[*Link]
	handles  uint32 // local handles below this have been used
	maxOut   uint32 // the highest handle that the peer takes
	free     []uint32
	names    map[linkName]*Link

	runs      []run
	flowDue   bool
	flowLinks []*Link
}

type linkName struct {
	name string
	role Role // ours
}

// run is a range of deliveries with one disposition.
type run struct {
	first, last Serial
	role        Role
	settled     bool
	state       Raw
}

func (s *Session) beginWindow() uint32 {
	if s.Conn.cfg.SessionFrames != 0 {
		return s.Conn.cfg.SessionFrames
	}
	return unlimitedWindow // RT E9
}

func (s *Session) sendBegin(remote Opt[uint16]) {
	max := s.Conn.cfg.HandleMax
	s.Conn.send(s.channel, &Begin{
		HandleMax:      Opt[uint32]{max, max != 0},
		RemoteChannel:  remote,
		NextOutgoingID: uint32(s.nextOutgoingID),
		IncomingWindow: s.beginWindow(),
		OutgoingWindow: unlimitedWindow,
	})
}

// Channel returns our channel.
func (s *Session) Channel() uint16 { return s.channel }

// NextOutgoingID returns the transfer id that our next transfer frame has.
func (s *Session) NextOutgoingID() Serial { return s.nextOutgoingID }

// Ended reports whether either end has ended the session.
func (s *Session) Ended() bool { return s.endReceived || s.endSent.Load() }

// End ends the session. Links are gone with it; the owner takes back what they held first.
func (s *Session) End(err *Error) {
	if s.endSent.Load() {
		return
	}
	s.Conn.Prepare()
	s.endSent.Store(true)
	s.Conn.send(s.channel, &End{Error: err})
}

// OutWindow returns how many transfer frames may be sent: what the peer's window has room for,
// none when the session is over.
func (s *Session) OutWindow() int {
	if !s.begun || s.Ended() || s.Conn.CloseSent() {
		return 0
	}
	return int(max(s.remoteLimit.Diff(s.nextOutgoingID), 0))
}

// WindowLow reports, to the reader, that a flow should renew the incoming window.
func (s *Session) WindowLow() bool {
	left := Serial(s.inLimit.Load()).Diff(Serial(s.nextIncomingID.Load()))
	return left < int32(s.WindowTarget/2+1) && left < unlimitedWindow/2
}

// FlowDue makes Prepare send a flow of this session alone.
func (s *Session) FlowDue() {
	s.flowDue = true
	s.enqueue()
}

func (s *Session) enqueue() {
	if !s.queued {
		s.queued = true
		s.Conn.dirty = append(s.Conn.dirty, s)
	}
}

// HasLink reports whether a link of that name and role of ours is not forgotten yet: a new one of
// the same name would be taken for it.
func (s *Session) HasLink(name string, role Role) bool { return s.names[linkName{name, role}] != nil }

// Room reports whether one more link of ours may be attached: the peer has a highest handle (part
// 2 §2.7.2). As long as its begin is not here that is taken to be the one of the last
// session, and at first one that peers with a limit have.
func (s *Session) Room() bool { return len(s.free) > 0 || s.handles <= s.maxOut }

// LinkCount returns how many links are not forgotten yet.
func (s *Session) LinkCount() int { return len(s.names) }

// Links calls f for every link that is attached on either side.
func (s *Session) Links(f func(*Link)) {
	s.byRemote.each(f)
	s.byLocal.each(func(l *Link) {
		if !l.remoteAttached || l.remoteDetached {
			f(l)
		}
	})
}

// Dispose tells the peer the state of deliveries first..last: those it sent us when role is
// RoleReceiver. state must not change afterwards. Neighbouring ranges of equal state become one
// frame.
func (s *Session) Dispose(role Role, first, last Serial, settled bool, state Raw) {
	s.enqueue()
	for i := len(s.runs) - 1; i >= 0 && i >= len(s.runs)-8; i-- {
		r := &s.runs[i]
		if r.role == role && r.last+1 == first && r.settled == settled && sameState(r.state, state) {
			r.last = last
			return
		}
		if r.role == role && !last.Before(r.first) && !r.last.Before(first) {
			break // must not overtake an earlier word on the same delivery
		}
	}
	s.runs = append(s.runs, run{first, last, role, settled, state})
}

func sameState(a, b Raw) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b))
}

// prepare encodes what Dispose and the FlowDue calls left.
func (s *Session) prepare() {
	s.queued = false
	c := s.Conn
	ended := s.endSent.Load() || c.CloseSent()
	for i := range s.runs {
		r := &s.runs[i]
		if !ended {
			d := Disposition{Role: r.role, First: uint32(r.first), Settled: r.settled, State: fitState(r.state, c.frameRoom()-fitHead)}
			if r.last != r.first {
				d.Last = Some(uint32(r.last))
			}
			c.Out = AppendDispositionFrame(c.Out, s.channel, &d)
			if c.Trace != nil {
				cp := d
				c.Trace(true, s.channel, &cp, nil)
			}
		}
		r.state = nil
	}
	s.runs = s.runs[:0]
	for i, l := range s.flowLinks {
		l.flowDue = false
		if !ended && !l.localDetached.Load() {
			s.sendFlow(l)
		}
		s.flowLinks[i] = nil
	}
	s.flowLinks = s.flowLinks[:0]
	if s.flowDue {
		if !ended {
			s.sendFlow(nil)
		}
	}
}

// sendFlow sends a flow, of the link too when it is not nil.
func (s *Session) sendFlow(l *Link) {
	s.flowDue = false
	nextIn := Serial(s.nextIncomingID.Load())
	limit := Serial(s.inLimit.Load())
	if want := nextIn + Serial(s.WindowTarget); !s.Hold && (!s.flowSent || limit.Before(want)) {
		// The first flow may tell less than begin did: no credit was out before it.
		limit = want
		s.inLimit.Store(uint32(limit))
		s.flowSent = true
	}
	f := Flow{
		IncomingWindow: uint32(max(limit.Diff(nextIn), 0)),
		NextOutgoingID: uint32(s.nextOutgoingID),
		OutgoingWindow: unlimitedWindow,
	}
	if s.begun {
		f.NextIncomingID = Some(uint32(nextIn))
	}
	if l != nil {
		f.Handle = Some(l.handle)
		if l.Role == RoleSender {
			f.DeliveryCount = Some(uint32(l.deliveryCount))
			f.LinkCredit = Some(l.Credit())
			f.Drain = l.Drain
		} else {
			dc := l.received.Load()
			f.DeliveryCount = Opt[uint32]{dc, l.remoteAttached}
			f.LinkCredit = Some(uint32(max(Serial(l.creditLimit.Load()).Diff(Serial(dc)), 0)))
			if l.Choked {
				f.LinkCredit.V = 0
			}
			f.Drain = l.Draining
		}
	}
	c := s.Conn
	c.Out = AppendFlowFrame(c.Out, s.channel, &f)
	if c.Trace != nil {
		cp := f
		c.Trace(true, s.channel, &cp, nil)
	}
}

func (c *Conn) inFlow(channel uint16, f *Flow) *Error {
	s, skip, err := c.session(channel)
	if err != nil || skip {
		return err
	}
	c.h.Lock()
	defer c.h.Unlock()
	// A window that does not reach what we have sent is no negative one.
	s.remoteLimit = Serial(f.NextIncomingID.Or(c.cfg.FirstTransferID)) + Serial(min(f.IncomingWindow, unlimitedWindow))
	for len(s.aborts) > 0 && s.OutWindow() > 0 {
		s.aborts[0].sendAbort()
		s.aborts = s.aborts[1:]
	}
	c.h.SessionFlow(s)
	if !f.Handle.Set {
		if f.Echo {
			s.FlowDue()
		}
		return nil
	}
	l := s.byRemote.get(f.Handle.V)
	if l == nil { // CFG R19
		return errorf(ErrCondInvalidField, "no such handle: %d", f.Handle.V)
	}
	if l.localDetached.Load() {
		return nil
	}
	var drained uint32
	if l.Role == RoleSender {
		if f.LinkCredit.Set {
			// delivery-count may be absent until our attach has arrived (part 2 §2.7.4).
			l.setCredit(Serial(f.DeliveryCount.Or(c.cfg.FirstDeliveryCount)), f.LinkCredit.V)
		}
		l.Drain = f.Drain
	} else if f.DeliveryCount.Set {
		dc := Serial(l.received.Load())
		if k := Serial(f.DeliveryCount.V).Diff(dc); k > 0 && k <= Serial(l.creditLimit.Load()).Diff(dc) {
			l.received.Store(f.DeliveryCount.V)
			drained = uint32(k)
		}
	}
	c.h.LinkFlow(l, f, drained)
	if f.Echo {
		l.FlowDue()
	}
	return nil
}

func (c *Conn) inDisposition(channel uint16, d *Disposition) *Error {
	s, skip, err := c.session(channel)
	if err != nil || skip {
		return err
	}
	if d.Role == RoleSender {
		c.h.Flush()
	}
	c.h.Lock()
	c.h.Disposition(s, d)
	c.h.Unlock()
	return nil
}
