package router

import (
	"errors"
	"slices"

	"qdrouter/amqp"
)

// A SessionClass says which of a connection's sessions a link of the router's own is in. There
// is one session for each class, begun with its first link, and again when the peer ended it
// (RT E12, L35); further ones where the peer takes no more links in it. A link of LoneSession has
// one to itself. Routed links have as many as routedSession says.
type SessionClass uint8

// The session classes.
const (
	ClientSession SessionClass = iota // autolinks and the like
	RoutedSession                     // routed links (RT L7)
	sessionClasses

	// LoneSession is for a link for which the peer may end the session that it is in.
	LoneSession SessionClass = 255
)

// A LinkOwner is told by the core what the peer does with a link that the router attached.
type LinkOwner interface {
	// Attached has the peer's attach, which the owner may keep. A refusal comes as an attach
	// without the terminus, and Detached soon after it.
	Attached(a *amqp.Attach)
	// Detached comes with the peer's detach, error nil when it gave none, or when the peer broke
	// the rules of the link. The link is out of service; the owner answers with Link.Detach. It
	// does not come when Link.Detach was first.
	Detached(closed bool, err *amqp.Error)
	// Lost comes when the link went without a detach: with its session alone, or with its
	// connection.
	Lost(connection bool)
}

// Link is one that the router attached. Its methods belong to the core.
type Link struct {
	r     *Router
	owner LinkOwner // nil when nothing is told any more
	conn  *Conn
	in    *inLink // one of these two
	out   *outLink
}

// Why there is no link.
var (
	errConnGone   = errors.New("the connection is about to end")
	errAttachSize = errors.New("the attach does not fit into a frame of the peer")
)

// Attach attaches a link to a container: name, role and termini are as a says; handle, settle
// modes and initial delivery count are filled in (RT L10). It is not in service before the owner
// binds it. An error means that there is no link and nothing has been sent.
func (k *Core) Attach(c *Conn, class SessionClass, a *amqp.Attach, owner LinkOwner) (*Link, error) {
	return k.attach(c, func() (*session, error) { return c.classSession(class) }, a, owner)
}

// attach is Attach in the session that choose returns, which is called with the lock held.
func (k *Core) attach(c *Conn, choose func() (*session, error), a *amqp.Attach, owner LinkOwner) (*Link, error) {
	r := k.r
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || !c.opened || c.eng.CloseSent() || c.eng.CloseReceived() {
		return nil, errConnGone
	}
	c.readyOut()
	sess, err := choose()
	if err != nil {
		return nil, err
	}
	a.SndSettleMode, a.RcvSettleMode = amqp.Some(amqp.SndSettleModeMixed), amqp.Some(amqp.RcvSettleModeFirst)
	a.MaxMessageSize = amqp.Some(uint64(0))
	own := &Link{r: r, owner: owner, conn: c}
	for name := a.Name; c.ownLink(a.Name, a.Role); {
		// Two peers that call themselves the same, or one that is back before the other end knows
		// that it went: a second link of that name would end the connection (RT E8), or take the
		// place of the first, in whatever session it is (part 2 §2.6.1).
		a.Name = name + "@" + RandomName()
	}
	if !c.eng.TakesAttach(a) { // it would end the connection, or the link would not be what was asked for
		return nil, errAttachSize
	}
	l := sess.s.NewLink(a.Name, a.Role)
	id, now := r.NextIdentity(), r.now()
	if a.Role == amqp.RoleReceiver {
		own.in = &inLink{id: id, conn: c, sess: sess, l: l, capacity: c.o.LinkCapacity, attached: uint32(now / 1e9), zeroAt: now, own: own}
		l.Owner = own.in
	} else {
		own.out = &outLink{id: id, conn: c, sess: sess, l: l, capacity: int32(c.o.LinkCapacity), attached: uint32(now / 1e9), zeroAt: now, own: own}
		l.Owner = own.out
	}
	r.addLink(own.in, own.out)
	l.Attach(a)
	r.touch(c)
	return own, nil
}

// ownLink reports whether the router has a link of its own of that name and role, or had one that
// is not forgotten yet.
func (c *Conn) ownLink(name string, role amqp.Role) bool {
	has := func(s *session) bool { return !s.s.Ended() && s.s.HasLink(name, role) }
	for _, list := range c.own {
		if slices.ContainsFunc(list, has) {
			return true
		}
	}
	return slices.ContainsFunc(c.lone, has)
}

// classSession returns a session of a class that has room for a link, with the connection's lock
// held. Where lone sessions have taken all that the peer allows, it is one of these.
func (c *Conn) classSession(class SessionClass) (*session, error) {
	if class == LoneSession {
		return c.loneSession()
	}
	c.own[class] = slices.DeleteFunc(c.own[class], func(s *session) bool { return s.s.Ended() })
	for _, s := range c.own[class] {
		if s.s.Room() {
			return s, nil
		}
	}
	sess, err := c.begin()
	if err == nil {
		c.own[class] = append(c.own[class], sess)
		return sess, nil
	}
	for _, s := range c.lone {
		if !s.s.Ended() && s.s.Room() {
			return s, nil
		}
	}
	return nil, err
}

// sessionKey tells sessions apart.
type sessionKey struct {
	conn    uint64
	channel uint16
}

func (s *session) key() sessionKey { return sessionKey{s.conn.o.ID, s.s.Channel()} }

// routedSessions is how many sessions of a connection are for routed links, where the peer leaves
// spareChannels for others.
const (
	routedSessions = 64
	spareChannels  = 8
)

// routedSession returns a session for the far half of a link whose near half is in the session
// near, with the connection's lock held. Links of one near session share one, as a transaction may
// need; those of others have another, so that a receiver who does not read a great message, which
// in the end holds the session that it comes in, holds no links but those in its own session.
// Where that would be too many sessions, some are shared; 1.19 has but one (RT E12).
func (c *Conn) routedSession(near *session) (*session, error) {
	list := slices.DeleteFunc(c.own[RoutedSession], func(s *session) bool { return s.s.Ended() })
	c.own[RoutedSession] = list
	key := near.key()
	var shared, free, least *session
	for _, s := range list {
		switch {
		case !s.s.Room():
		case s.serves == key:
			return s, nil
		case slices.Contains(near.shares, s.key()):
			shared = s
		case s.s.LinkCount() == 0:
			free = s
		case least == nil || s.s.LinkCount() < least.s.LinkCount():
			least = s
		}
	}
	if shared != nil {
		return shared, nil
	}
	if free == nil && len(list) < routedSessions && (least == nil || c.eng.FreeChannels() > spareChannels) {
		if sess, err := c.begin(); err == nil {
			c.own[RoutedSession] = append(list, sess)
			free = sess
		}
	}
	switch {
	case free != nil:
		free.serves = key
		return free, nil
	case least != nil:
		if len(near.shares) >= 16 { // most of them of connections that have gone
			near.shares = near.shares[:0]
		}
		near.shares = append(near.shares, least.key())
		return least, nil
	}
	return c.classSession(RoutedSession)
}

// loneSession returns a session without links: one whose link has gone, or a new one. Where the peer
// allows no further session, but for those that the classes are to have, the link is in the one of
// all.
func (c *Conn) loneSession() (*session, error) {
	c.lone = slices.DeleteFunc(c.lone, func(s *session) bool { return s.s.Ended() })
	for _, s := range c.lone {
		used := false
		s.s.Links(func(*amqp.Link) { used = true })
		if !used {
			return s, nil
		}
	}
	kept := 0
	for _, list := range c.own {
		if !slices.ContainsFunc(list, func(s *session) bool { return !s.s.Ended() }) {
			kept++
		}
	}
	if c.eng.FreeChannels() <= kept {
		return c.classSession(ClientSession)
	}
	sess, err := c.begin()
	if err != nil {
		return nil, err
	}
	c.lone = append(c.lone, sess)
	return sess, nil
}

// begin begins a session for links of the router's own.
func (c *Conn) begin() (*session, error) {
	s, err := c.eng.Begin()
	if err != nil {
		return nil, err
	}
	sess := &session{conn: c, s: s, frameSize: 256}
	s.Owner = sess
	return sess, nil
}

// ID returns the identity of the link, which management shows.
func (l *Link) ID() uint64 {
	if l.in != nil {
		return l.in.id
	}
	return l.out.id
}

// EndError returns the error with which the peer ended the link's session, nil if it gave none.
func (l *Link) EndError() *amqp.Error {
	l.conn.mu.Lock()
	defer l.conn.mu.Unlock()
	if l.in != nil {
		return l.in.sess.endError
	}
	return l.out.sess.endError
}

// Conn returns the connection that the link is on.
func (l *Link) Conn() *Conn { return l.conn }

// Detach sends our detach: the first, or the answer to the peer's. After it the owner is told
// nothing more.
func (l *Link) Detach(closed bool, err *amqp.Error) {
	l.owner = nil
	c := l.conn
	b := l.r.newBatch()
	c.mu.Lock()
	if l.in != nil {
		// What the reader has of a message in progress is its own: it ends that with the peer's
		// detach.
		l.in.l.TellAnswer = true
		l.in.l.Detach(closed, err)
	} else {
		c.closeOut(l.out, b)
		l.out.l.Detach(closed, err)
	}
	c.mu.Unlock()
	b.run()
	b.done()
	l.r.touch(c)
	l.r.unbind(&event{conn: c, in: l.in, out: l.out}, "Link detached")
}

// An AddressHold keeps an entry in the address table.
type AddressHold struct {
	r    *Router
	addr *address
}

// HoldAddress makes sure that a mobile address has an entry for that phase, 0 to 9, or for what
// its fallback takes, until Release. Without a matching configuration it is balanced, and so it is
// where that says unavailable (RT A2). The result is nil when the text names no mobile address.
func (k *Core) HoldAddress(written string, phase int, fallback bool) *AddressHold {
	digit := byte('0' + phase)
	if fallback {
		digit = phaseFallback // RT F42
	}
	key, ok := k.r.keyOf(written, digit)
	if !ok || key.class() != classMobile {
		return nil
	}
	dist, priority := Balanced, int32(-1)
	if cfg := k.r.configFor(key.text()); cfg != nil {
		priority = int32(cfg.Priority)
		if cfg.Distribution != Unavailable && !fallback {
			dist = cfg.Distribution
		}
	}
	h := &AddressHold{r: k.r, addr: k.r.addressFor(key, dist, priority)}
	h.addr.refs++
	return h
}

// Text returns the address without what it may be decorated with (RT E40).
func (h *AddressHold) Text() string { return h.addr.key.text() }

// Release gives the entry up. Links bound to it stay so.
func (h *AddressHold) Release() {
	h.addr.refs--
	h.r.dropIfUnused(h.addr)
}

// Bind puts an attached link into service as a producer or consumer of an address like any other
// (RT A11, A12), or as one of its fallback (RT A16). a is the peer's attach.
func (l *Link) Bind(h *AddressHold, a *amqp.Attach, fallback bool) {
	c := l.conn
	c.mu.Lock()
	if l.in != nil {
		if l.in.closed {
			c.mu.Unlock()
			return
		}
		l.in.template = []byte(h.Text()) // not what the container calls it (RT F1)
		l.in.source, l.in.fallback = sourceAddress(a), fallback
		l.in.produceLocked(h.addr)
		c.mu.Unlock()
		l.r.touch(c)
		l.r.logAttach(c, l.in.id, "in", a)
		return
	}
	if l.out.closed {
		c.mu.Unlock()
		return
	}
	l.out.settles = a.SndSettleMode.Set && a.SndSettleMode.V == amqp.SndSettleModeSettled // RT F75
	l.out.fallback = fallback
	l.out.source, l.out.target = sourceAddress(a), targetAddress(a)
	l.r.consumeLocked(l.out, h.addr)
	l.r.touch(c)
	l.r.logAttach(c, l.out.id, "out", a)
}

// told hands what happened to a link to its owner, if it has one still.
func (l *Link) told(f func(LinkOwner)) {
	if l != nil && l.owner != nil {
		f(l.owner)
	}
}

// ownOf returns the link of an event as its owner knows it, nil when the peer attached it.
func (ev *event) ownOf() *Link {
	if ev.in != nil {
		return ev.in.own
	}
	return ev.out.own
}

// sessionEnded reports whether the session of a lost link was ended, rather than its connection.
func (ev *event) sessionEnded() bool {
	var sess *session
	if ev.in != nil {
		sess = ev.in.sess
	} else {
		sess = ev.out.sess
	}
	ev.conn.mu.Lock()
	defer ev.conn.mu.Unlock()
	return sess.s.Ended()
}

// attachedEvent tells the owner of a link that the peer has attached too.
func attachedEvent(own *Link, a *amqp.Attach) event {
	a = cloneAttach(a)
	return event{kind: eventCall, call: func() { own.told(func(o LinkOwner) { o.Attached(a) }) }}
}
