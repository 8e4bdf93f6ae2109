package router

import "qdrouter/amqp"

// chain is the life of a routed link at this router: the half that a peer attached, and the half
// that this router attached for it, to a container or to the next router (RT L7, L8). The core
// owns it.
//
// Each half is detached once from this end, with what the far side of the other half said
// (RT L31): the first detach is passed on, and the answer to it is passed back.
type chain struct {
	r         *Router
	near, far half
	attach    *amqp.Attach // of the near peer
	answer    func(*amqp.Attach) *amqp.Attach
	answered  bool // our attach has gone to the near peer
	refused   bool // and it has no terminus: the far end's detach is to come
	survives  bool
}

// half is one end of a chain.
type half struct {
	x        *chain
	link     *Link
	detached bool // the peer's detach is here
	told     bool // our detach is sent, or is to be behind what is queued
	gone     bool // lost with its session or connection
}

var errAttachTooLong = &amqp.Error{Condition: amqp.ErrCondFrameSizeTooSmall, Description: "Link attach does not fit into a frame of the next container"}

var errAnswerTooLong = &amqp.Error{Condition: amqp.ErrCondFrameSizeTooSmall, Description: "Link attach of the container does not fit into a frame of the peer"}

var errLinkLost = &amqp.Error{Condition: "qd:routed-link-lost", Description: "Connectivity to the peer container was lost"}

// routeLink attaches a link for one that a peer attached, if it is to be routed; in or out is nil.
func (r *Router) routeLink(c *Conn, in *inLink, out *outLink, a *amqp.Attach) (done bool) {
	if r.routing == nil {
		return false
	}
	q := &r.query // used again, so that other attaches cost no garbage
	q.Attach, q.Container, q.Tenant, q.InterRouter = a, c.ContainerID(), c.tenant, c.o.Role == RoleInterRouter
	d := r.routing.Route(q)
	near := q.Attach
	q.Attach = nil
	if d == nil {
		return false
	}
	x := &chain{r: r, attach: near, answer: d.Answer, survives: d.Survives}
	x.near = half{x: x, link: &Link{r: r, owner: &x.near, conn: c, in: in, out: out}}
	x.far = half{x: x}
	refusal := d.Refusal
	if refusal == nil {
		refusal = x.begin(d)
	}
	if refusal == nil {
		return true
	}
	x.refuse(true, refusal)
	x.noteRefused(refusal)
	r.unbindQuietly(c, in, out)
	return true
}

// begin attaches the far half and pairs it with the near one.
func (x *chain) begin(d *RoutedLink) *amqp.Error {
	to := d.Conn
	if to == nil {
		to = x.r.nextHop(d.Router)
	}
	if to == nil {
		return errNoRoute
	}
	near := x.near.link
	sess := near.session()
	near.conn.mu.Lock()
	if sess.s.LinkCount() == 1 { // this one: there is nothing to be near to
		sess.shares = nil
	}
	near.conn.mu.Unlock()
	k := Core{x.r}
	far, err := k.attach(to, func() (*session, error) { return to.routedSession(sess) }, d.Attach, &x.far)
	switch {
	case err == errAttachSize:
		return errAttachTooLong
	case err != nil:
		return errNoRoute
	}
	x.far.link = far
	p := &pair{in: near.in, out: far.out}
	address := targetAddress(x.attach)
	if near.in != nil {
		near.in.own = near
	} else {
		near.out.own = near
		p.in, p.out = far.in, near.out
		address = sourceAddress(x.attach)
	}
	if address != "" {
		p.owningAddr = string(mobileKey('0', address))
	}
	if near.in != nil { // the in-link first: from then on the out-link's credit comes to it
		x.r.pairLink(near, p, false)
		x.r.pairLink(far, p, true)
	} else {
		x.r.pairLink(far, p, true)
		x.r.pairLink(near, p, false)
	}
	return nil
}

// pairLink makes a link one half of a pair. What credit its peer has given already is passed on
// (RT L13). far says that it is the half this router attached.
func (r *Router) pairLink(l *Link, p *pair, far bool) {
	b := r.newBatch()
	c := l.conn
	c.mu.Lock()
	if l.in != nil {
		l.in.pair = p
		l.in.sess.routed.Store(true)
		if far {
			l.in.capacity = 0 // RT L30
		}
	} else {
		l.out.pair, l.out.passed = p, l.out.l.DeliveryCount()
		if far {
			l.out.capacity = 0
		}
		if !l.out.closed {
			l.out.passCredit(b)
		}
	}
	c.mu.Unlock()
	b.run()
	b.done()
}

func (l *Link) link() *amqp.Link {
	if l.in != nil {
		return l.in.l
	}
	return l.out.l
}

func (l *Link) session() *session {
	if l.in != nil {
		return l.in.sess
	}
	return l.out.sess
}

// refuse answers the near peer's attach with one whose terminus is not there, and detaches
// (RT E18).
func (x *chain) refuse(closed bool, err *amqp.Error) {
	own := *x.attach
	near := x.near.link
	c := near.conn
	b := x.r.newBatch()
	c.mu.Lock()
	if near.in != nil {
		own.Target, own.Coordinator = nil, nil
		near.in.closed = true
	} else {
		own.Source = nil
		c.closeOut(near.out, b)
	}
	if l := near.link(); !c.dead && !l.Session.Ended() {
		l.Attach(x.r.answer(&own))
		l.Detach(closed, err)
		l.Owner = nil
	}
	c.mu.Unlock()
	b.run()
	b.done()
	x.r.touch(c)
}

// noteRefused says that the near peer's attach was refused, by this end or the far one.
func (x *chain) noteRefused(err *amqp.Error) {
	dir, address := "in", targetAddress(x.attach)
	if x.near.link.out != nil {
		dir, address = "out", sourceAddress(x.attach)
	}
	x.r.noteRefused(x.near.link.conn, x.near.link.link(), dir, address, err)
}

// Attached puts the link into service: the far end has answered (RT L8).
func (h *half) Attached(a *amqp.Attach) {
	x := h.x
	x.far.link.setUp()
	if x.near.gone || x.near.told {
		return
	}
	near := x.near.link
	c := near.conn
	reply := x.answer(a)
	reply.SndSettleMode, reply.RcvSettleMode = amqp.Some(amqp.SndSettleModeMixed), amqp.Some(amqp.RcvSettleModeFirst) // RT L10
	reply.MaxMessageSize, reply.Unsettled, reply.IncompleteUnsettled = amqp.Some(uint64(0)), nil, false
	near.name(x.attach)
	x.far.link.name(a)
	c.mu.Lock()
	if c.dead || near.link().Session.Ended() {
		c.mu.Unlock()
		return
	}
	refused := near.in != nil && reply.Target == nil && reply.Coordinator == nil || near.out != nil && reply.Source == nil
	if reply.Name = near.link().Name; !refused && !c.eng.TakesAttach(reply) { // see begin
		c.mu.Unlock()
		x.near.tell(true, errAnswerTooLong)
		x.noteRefused(errAnswerTooLong)
		x.far.tell(true, errAnswerTooLong)
		return
	}
	near.link().Attach(reply)
	c.mu.Unlock()
	x.answered, x.refused = true, refused
	near.setUp()
	in, out := near, x.far.link
	if near.in == nil {
		in, out = out, in
	}
	x.r.logAttach(in.conn, in.ID(), "in", x.attach)
	x.r.logAttach(out.conn, out.ID(), "out", x.attach)
}

// name notes the addresses of a link's termini, for log lines.
func (l *Link) name(a *amqp.Attach) {
	l.conn.mu.Lock()
	defer l.conn.mu.Unlock()
	if l.in != nil {
		l.in.source = sourceAddress(a)
	} else {
		l.out.source, l.out.target = sourceAddress(a), targetAddress(a)
	}
}

// setUp puts one half into service.
func (l *Link) setUp() {
	b := l.r.newBatch()
	c := l.conn
	c.mu.Lock()
	if l.in != nil {
		l.in.up = !l.in.closed
	} else if !l.out.closed {
		l.out.up = true
		c.readyOut()
		c.drain(l.out, b)
	}
	c.mu.Unlock()
	b.run()
	b.done()
	l.r.touch(c)
}

// Detached passes a detach on, or the answer to one back.
func (h *half) Detached(closed bool, err *amqp.Error) {
	h.detached = true
	if h.link.link().LocalDetached() {
		h.told = true // if not by the chain, then for breaking the rules
		if h == &h.x.near && !h.x.answered {
			h.x.refuse(true, nil) // that detach waits for an attach to go behind
		}
	}
	if h == &h.x.far && !h.x.near.told && err != nil && h.x.refused {
		h.x.noteRefused(err)
	}
	o := h.other()
	if !o.gone && !o.told {
		o.tell(closed, err)
	}
	switch {
	case h.told:
		h.link.detachNow() // what was to go before it has nobody to go to any more
	case o.gone:
		h.tell(closed, nil)
	}
}

// Lost tells the other half (RT L33).
func (h *half) Lost(bool) {
	h.gone = true
	if o := h.other(); !o.gone && !o.told {
		o.tell(h == &h.x.far || !h.x.survives, errLinkLost)
	}
}

func (h *half) other() *half {
	if h == &h.x.near {
		return &h.x.far
	}
	return &h.x.near
}

// tell sends our detach.
func (h *half) tell(closed bool, err *amqp.Error) {
	h.told = true
	switch x := h.x; {
	case h == &x.near && !x.answered:
		x.refuse(closed, err)
		x.r.unbind(&event{conn: h.link.conn, in: h.link.in, out: h.link.out}, "Link detached")
	case h.detached:
		h.link.Detach(closed, err)
	default:
		h.link.detachAfter(closed, err)
	}
}

// detachAfter sends a detach behind what is queued. Its answer is told to the owner.
func (l *Link) detachAfter(closed bool, err *amqp.Error) {
	c := l.conn
	b := l.r.newBatch()
	c.mu.Lock()
	l.link().TellAnswer = true
	if l.out != nil && !l.out.closed {
		l.out.ending = &amqp.Detach{Closed: closed, Error: err}
		if l.out.queue.n == 0 {
			c.emptied(l.out, b)
		}
	} else {
		l.link().Detach(closed, err)
	}
	c.mu.Unlock()
	b.run()
	b.done()
	l.r.touch(c)
}

// detachNow sends a detach that waits still.
func (l *Link) detachNow() {
	if l.out == nil {
		return
	}
	l.conn.mu.Lock()
	if e := l.out.ending; e != nil {
		l.out.l.Detach(e.Closed, e.Error)
	}
	l.conn.mu.Unlock()
	l.r.touch(l.conn)
}
