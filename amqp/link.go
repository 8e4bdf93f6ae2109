package amqp

import "sync/atomic"

// Link is one link of a session, attached by either end (AMQP 1.0 part 2 §2.6).
type Link struct {
	Session *Session
	Name    string
	Role    Role // ours: RoleReceiver means that the peer sends
	Owner   any  // the owner's own half

	// TellAnswer has RemoteDetach called also for a detach that answers ours.
	TellAnswer bool

	handle, remoteHandle uint32
	localAttached        bool
	remoteAttached       bool
	remoteDetached       bool
	flowDue              bool // in Session.flowLinks, or to be put there by Attach
	localDetached        atomic.Bool

	// Receiving half. received is delivery-count; the reader writes it, flows tell it.
	// creditLimit is the delivery-count at which the peer must stop: only their difference,
	// link-credit, is on the wire, so a flow that tells a stale delivery-count is still right.
	received    atomic.Uint32
	creditLimit atomic.Uint32
	Draining    bool // the drain flag of our flows
	Choked      bool // our flows tell no credit, though the peer may use what it has been told of
	inProgress  bool // the reader is within a delivery of several frames
	inSettled   bool
	inID        Serial

	// Sending half.
	deliveryCount Serial
	credit        uint32 // all 32 bits are used: peers without a limit say 2^32-1
	Drain         bool   // the peer's last word on drain
	outID         Serial // of the delivery in progress
}

// Attached reports whether both ends are attached and neither has detached.
func (l *Link) Attached() bool {
	return l.localAttached && l.remoteAttached && !l.remoteDetached && !l.localDetached.Load()
}

// RemoteDetached reports whether the peer has detached.
func (l *Link) RemoteDetached() bool { return l.remoteDetached }

// LocalDetached reports whether we have detached.
func (l *Link) LocalDetached() bool { return l.localDetached.Load() }

// Handle returns our handle.
func (l *Link) Handle() uint32 { return l.handle }

func (s *Session) newHandle() uint32 {
	if n := len(s.free); n > 0 {
		h := s.free[n-1]
		s.free = s.free[:n-1]
		return h
	}
	s.handles++
	return s.handles - 1
}

func (c *Conn) inAttach(channel uint16, a *Attach) *Error {
	s, skip, err := c.session(channel)
	if err != nil || skip {
		return err
	}
	c.h.Flush()
	c.h.Lock()
	defer c.h.Unlock()
	if max := c.cfg.HandleMax; max != 0 && a.Handle > max { // part 2 §2.7.2
		return errorf(ErrCondFramingError, "handle %d is above handle-max %d", a.Handle, max)
	}
	if s.byRemote.get(a.Handle) != nil { // CFG R22
		return errorf(ErrCondHandleInUse, "handle in use: %d", a.Handle)
	}
	name := linkName{a.Name, !a.Role}
	l := s.names[name]
	switch {
	case l == nil || l.remoteDetached: // the peer is done with the old one, if we are not yet
		l = &Link{Session: s, Name: a.Name, Role: !a.Role, deliveryCount: Serial(c.cfg.FirstDeliveryCount)}
		if s.names == nil {
			s.names = make(map[linkName]*Link)
		}
		s.names[name] = l
	case l.remoteAttached: // CFG R21
		return errorf(ErrCondInvalidField, "link name already attached: %s", a.Name)
	}
	l.remoteAttached = true
	l.remoteHandle = a.Handle
	if l.Role == RoleReceiver {
		l.received.Store(a.InitialDeliveryCount.V)
		l.creditLimit.Store(a.InitialDeliveryCount.V + l.creditLimit.Load())
	}
	s.byRemote.put(a.Handle, l)
	if l.localDetached.Load() {
		return nil
	}
	return c.h.RemoteAttach(l, a)
}

// NewLink prepares a link that this end attaches first.
func (s *Session) NewLink(name string, role Role) *Link {
	l := &Link{Session: s, Name: name, Role: role, deliveryCount: Serial(s.Conn.cfg.FirstDeliveryCount)}
	if s.names == nil {
		s.names = make(map[linkName]*Link)
	}
	s.names[linkName{name, role}] = l
	return l
}

// Attach sends our attach: the answer to the peer's, or the first. Name, handle, role and
// initial delivery count are filled in. It does nothing when the session is over.
func (l *Link) Attach(a *Attach) {
	s := l.Session
	if s.Ended() {
		return
	}
	l.handle = s.newHandle()
	l.localAttached = true
	s.byLocal.put(l.handle, l)
	a.Name, a.Handle, a.Role = l.Name, l.handle, l.Role
	if l.Role == RoleSender {
		a.InitialDeliveryCount = Some(uint32(l.deliveryCount))
	}
	s.Conn.send(s.channel, a)
	if l.localDetached.Load() { // by overrun, when there was no link to detach yet
		l.sendDetach(true, errNoCredit())
		return
	}
	if l.flowDue {
		l.flowDue = false
		l.FlowDue()
	}
}

// Detach sends our detach. When the peer has sent its own the link is forgotten.
func (l *Link) Detach(closed bool, err *Error) {
	s := l.Session
	if l.localDetached.Load() || !l.localAttached || s.Ended() {
		return
	}
	s.Conn.Prepare()
	l.localDetached.Store(true)
	l.sendDetach(closed, err)
}

func (l *Link) sendDetach(closed bool, err *Error) {
	l.Session.Conn.send(l.Session.channel, &Detach{Handle: l.handle, Closed: closed, Error: err})
	if l.remoteDetached {
		l.forget()
	}
}

// forget frees what the link's names stood for at our end.
func (l *Link) forget() {
	s := l.Session
	s.byLocal.del(l.handle)
	s.free = append(s.free, l.handle)
	if name := (linkName{l.Name, l.Role}); s.names[name] == l {
		delete(s.names, name)
	}
}

func (c *Conn) inDetach(channel uint16, d *Detach) *Error {
	s, skip, err := c.session(channel)
	if err != nil || skip {
		return err
	}
	l := s.byRemote.get(d.Handle)
	if l == nil { // CFG R19
		return errorf(ErrCondInvalidField, "no such handle: %d", d.Handle)
	}
	c.h.Flush()
	c.h.Lock()
	defer c.h.Unlock()
	l.remoteDetached = true
	s.byRemote.del(d.Handle) // the peer may use it again at once
	if l.localDetached.Load() {
		if l.localAttached {
			l.forget()
		}
		if !l.TellAnswer {
			return nil
		}
	}
	c.h.RemoteDetach(l, d)
	return nil
}

// Grant gives the sending peer n more credit; a flow tells it.
func (l *Link) Grant(n uint32) {
	l.creditLimit.Add(n)
	l.FlowDue()
}

// CreditOut returns the credit that the sending peer has.
func (l *Link) CreditOut() uint32 {
	return uint32(max(Serial(l.creditLimit.Load()).Diff(Serial(l.received.Load())), 0))
}

// FlowDue makes Prepare send a flow of this link, after our attach.
func (l *Link) FlowDue() {
	if !l.flowDue {
		l.flowDue = true
		if !l.localAttached {
			return
		}
		l.Session.flowLinks = append(l.Session.flowLinks, l)
		l.Session.enqueue()
	}
}

// inTransfer runs in the reader without the lock.
func (c *Conn) inTransfer(channel uint16, t *Transfer, payload []byte) *Error {
	s, skip, err := c.session(channel)
	if err != nil || skip {
		return err
	}
	id := s.nextIncomingID.Load()
	if !Serial(id).Before(Serial(s.inLimit.Load())) { // CFG R20
		return errorf(ErrCondWindowViolation, "incoming session window exceeded")
	}
	s.nextIncomingID.Store(id + 1)
	l := s.byRemote.get(t.Handle)
	if l == nil { // CFG R19
		return errorf(ErrCondInvalidField, "no such handle: %d", t.Handle)
	}
	if l.Role != RoleReceiver {
		return errorf(ErrCondNotAllowed, "transfer on a link whose sender is this end: handle %d", t.Handle)
	}
	if l.inProgress {
		if t.DeliveryID.Set && Serial(t.DeliveryID.V) != l.inID { // CFG R24
			return errorf(ErrCondInvalidField, "invalid delivery-id for a continuation transfer")
		}
		if t.Settled.Set && !t.Settled.V && l.inSettled {
			return errorf(ErrCondInvalidField, "invalid transition from settled to unsettled")
		}
		l.inSettled = l.inSettled || t.Settled.V
	} else {
		if !t.DeliveryID.Set {
			return errorf(ErrCondInvalidField, "delivery-id required on initial transfer")
		}
		did := Serial(t.DeliveryID.V)
		if s.deliveryInit && did != s.deliveryID { // CFG R23
			return errorf("amqp:session:invalid-field", "sequencing error, expected delivery-id %d, got %d", uint32(s.deliveryID), t.DeliveryID.V)
		}
		s.deliveryInit = true
		s.deliveryID = did + 1
		if l.localDetached.Load() {
			l.inID, l.inSettled, l.inProgress = did, t.Settled.V, t.More && !t.Aborted
			c.discard(s)
			return nil // the peer did not know yet
		}
		dc := l.received.Load()
		if Serial(l.creditLimit.Load()).Diff(Serial(dc)) <= 0 { // CFG R25
			l.inID, l.inSettled, l.inProgress = did, t.Settled.V, t.More && !t.Aborted
			return c.overrun(l)
		}
		l.received.Store(dc + 1)
		l.inID = did
		l.inSettled = t.Settled.V
	}
	l.inProgress = t.More && !t.Aborted
	if l.localDetached.Load() {
		c.discard(s)
		return nil
	}
	t.DeliveryID = Some(uint32(l.inID))
	t.Settled = Some(l.inSettled)
	return c.h.Transfer(l, t, payload)
}

// discard renews the window for a transfer that the owner, who else sees to it, is not told of.
func (c *Conn) discard(s *Session) {
	if !s.WindowLow() {
		return
	}
	c.h.Lock()
	defer c.h.Unlock()
	if !s.Hold {
		s.FlowDue()
		c.h.SessionFlow(s)
	}
}

// overrun detaches a link whose peer sends without credit; behind our attach, if that is still
// to come.
func (c *Conn) overrun(l *Link) *Error {
	c.h.Flush()
	c.h.Lock()
	defer c.h.Unlock()
	if l.localDetached.Load() {
		return nil
	}
	err := errNoCredit()
	l.Detach(true, err)
	l.localDetached.Store(true)
	c.h.LinkFailed(l, err)
	return nil
}

func errNoCredit() *Error {
	return &Error{Condition: ErrCondTransferLimitExceeded, Description: "transfer without link credit"}
}

// Credit returns how many deliveries the receiving peer has room for.
func (l *Link) Credit() uint32 { return l.credit }

// setCredit takes in that the receiver had so much credit left when it had seen count deliveries
// (part 2 §2.6.7).
func (l *Link) setCredit(count Serial, credit uint32) {
	unseen := int64(l.deliveryCount.Diff(count))
	l.credit = uint32(min(max(int64(credit)-unseen, 0), 1<<32-1))
}

// Drained gives all remaining credit back, as a drain asks (part 2 §2.6.7); a flow tells it.
func (l *Link) Drained() { l.DrainedBy(l.credit) }

// DrainedBy gives n of the credit back, or what there is; a flow tells it.
func (l *Link) DrainedBy(n uint32) {
	n = min(n, l.credit)
	l.deliveryCount += Serial(n)
	l.credit -= n
	l.FlowDue()
}

// DeliveryCount is how many deliveries the receiving peer knows, or will know, as sent.
func (l *Link) DeliveryCount() Serial { return l.deliveryCount }

// OutDelivery is what a transfer says of a delivery besides its payload.
type OutDelivery struct {
	Tag     uint64 // sent as 8 octets; unique on the link among unsettled deliveries
	RawTag  []byte // sent instead of Tag, when not nil; at most 32 octets
	Format  uint32
	Settled bool
	State   Raw  // sent with the first frame, or behind it if that has no room
	Resume  bool // an unsettled delivery of the link's earlier attachment goes on (part 2 §2.6.13)
}

// maxTransferHead bounds the octets before the payload of a transfer without state.
const maxTransferHead = 64

// Fits reports whether a delivery of that many payload octets goes in one frame.
func (l *Link) Fits(octets int) bool {
	return uint64(octets)+maxTransferHead <= uint64(l.Session.Conn.maxOut)
}

// Send encodes a whole delivery in one frame and returns its id. The caller has looked at
// Credit, Session.OutWindow and Fits; the payload is p1, p2 and p3 in a row.
func (l *Link) Send(d *OutDelivery, p1, p2, p3 []byte) Serial {
	if d.State != nil || d.Resume || l.Session.Conn.Trace != nil {
		l.Start(d)
		if d.State != nil && !l.Fits(len(p1)+len(p2)+len(p3)+len(d.State)) {
			l.stateApart(d)
			d = &OutDelivery{Tag: d.Tag, RawTag: d.RawTag, Format: d.Format, Settled: d.Settled, Resume: d.Resume}
		}
		if rest := l.sendFrame(d, true, true, false, p1, p2, p3); rest > 0 {
			panic("amqp: Send of more than a frame")
		}
		return l.outID
	}
	s := l.Session
	c := s.Conn
	id := s.nextDeliveryID
	s.nextDeliveryID++
	s.nextOutgoingID++
	l.deliveryCount++
	l.credit--
	start := len(c.Out)
	b := append(c.Out, 0, 0, 0, 0, 2, 0, byte(s.channel>>8), byte(s.channel), 0, 0x53, CodeTransfer, 0xc0, 0, 5)
	b = appendUint(b, l.handle)
	b = appendUint(b, uint32(id))
	if d.RawTag == nil {
		b = append(b, 0xa0, 8, byte(d.Tag>>56), byte(d.Tag>>48), byte(d.Tag>>40), byte(d.Tag>>32), byte(d.Tag>>24), byte(d.Tag>>16), byte(d.Tag>>8), byte(d.Tag))
	} else {
		b = append(b, 0xa0, byte(len(d.RawTag)))
		b = append(b, d.RawTag...)
	}
	b = appendUint(b, d.Format)
	if d.Settled {
		b = append(b, 0x41)
	} else {
		b = append(b, 0x42)
	}
	b[start+12] = byte(len(b) - start - 13)
	b = append(b, p1...)
	if p2 != nil {
		b = append(b, p2...)
	}
	if p3 != nil {
		b = append(b, p3...)
	}
	putSize(b[start:], len(b)-start)
	c.Out = b
	return id
}

// stateApart tells the state of a delivery that its own frames have no room for. The state of a
// settled one is of no use to the receiver.
func (l *Link) stateApart(d *OutDelivery) {
	if !d.Settled {
		l.Session.Dispose(RoleSender, l.outID, l.outID, false, append(Raw(nil), d.State...))
	}
}

func putSize(b []byte, n int) {
	b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
}

func appendUint(b []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(b, 0x43)
	case v < 256:
		return append(b, 0x52, byte(v))
	}
	return append(b, 0x70, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// Start begins a delivery of several frames: it takes an id and one credit. SendFrames follows.
func (l *Link) Start(d *OutDelivery) Serial {
	s := l.Session
	l.outID = s.nextDeliveryID
	s.nextDeliveryID++
	l.deliveryCount++
	l.credit--
	return l.outID
}

// SendFrames encodes payload of the delivery begun with Start, as many frames as the session
// window and room octets of output allow, and returns how much of the payload went. first says
// that no frame of it went before; last that payload ends the delivery. When all went and last
// is true the delivery is complete.
func (l *Link) SendFrames(d *OutDelivery, first, last bool, payload []byte, room int) (sent int, started bool) {
	c := l.Session.Conn
	limit := len(c.Out) + room
	for l.Session.OutWindow() > 0 && len(c.Out) < limit {
		rest := l.sendFrame(d, first, last, false, payload[sent:], nil, nil)
		started = true
		first = false
		sent = len(payload) - rest
		if rest == 0 {
			break
		}
	}
	return sent, started
}

// Abort ends the delivery in progress as aborted (part 2 §2.6.14); with the peer's next flow, if
// the window is closed. Nothing else is sent before that.
func (l *Link) Abort(*OutDelivery) {
	if l.Session.OutWindow() == 0 {
		l.Session.aborts = append(l.Session.aborts, l)
		return
	}
	l.sendAbort()
}

func (l *Link) sendAbort() {
	if !l.localDetached.Load() {
		l.sendFrame(&OutDelivery{}, false, true, true, nil, nil, nil)
	}
}

// sendFrame encodes one frame of the delivery in progress and returns the payload octets that
// did not fit.
func (l *Link) sendFrame(d *OutDelivery, first, last, aborted bool, p1, p2, p3 []byte) (rest int) {
	s := l.Session
	c := s.Conn
	t := Transfer{Handle: l.handle, More: true, Aborted: aborted}
	var tag [8]byte
	if first {
		for i := range tag {
			tag[i] = byte(d.Tag >> (56 - 8*i))
		}
		t.DeliveryID = Some(uint32(l.outID))
		t.DeliveryTag = tag[:]
		if d.RawTag != nil {
			t.DeliveryTag = d.RawTag
		}
		t.MessageFormat = Some(d.Format)
		t.Settled = Some(d.Settled)
		t.Resume = d.Resume
		if len(d.State) < c.frameRoom()/2 {
			t.State = d.State
		} else { // it would leave no room for the message
			l.stateApart(d)
		}
	}
	start := len(c.Out)
	total := len(p1) + len(p2) + len(p3)
	b := AppendTransferFrameHeader(c.Out, s.channel, &t, 0)
	room := max(c.frameRoom()-(len(b)-start), 0)
	if total <= room && last {
		t.More = false
		b = AppendTransferFrameHeader(b[:start], s.channel, &t, 0)
	}
	for _, p := range [...][]byte{p1, p2, p3} {
		n := min(len(p), room)
		b = append(b, p[:n]...)
		room -= n
		rest += len(p) - n
	}
	putSize(b[start:], len(b)-start)
	c.Out = b
	s.nextOutgoingID++
	if c.Trace != nil {
		cp := t
		cp.DeliveryTag = append([]byte(nil), t.DeliveryTag...)
		c.Trace(true, s.channel, &cp, b[len(b)-(total-rest):])
	}
	return rest
}
