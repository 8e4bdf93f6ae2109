package router

import (
	"sync/atomic"

	"qdrouter/amqp"
)

// The methods of this file run in the reader of the connection that a stream comes in on,
// without its lock.

var rejectTooLong = amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{
	Condition: amqp.ErrCondMessageSizeExceeded, Description: "Message size exceeded"}))

// A leg is one way that a stream goes.
type leg struct {
	m     *message
	a     *address
	out   *outLink
	ref   copyRef
	track *atomic.Int64
}

// legs lists the ways on which a stream goes to those who take the deliveries of a.
func (c *Conn) legs(m *message, a *address, f *forwarding, legs []leg) []leg {
	if c.r.isDuplicate(m, a) {
		return legs
	}
	if a.dist == Multicast || a.dist == Flood {
		outs := c.r.remoteLinks(m, a, f, append([]*outLink(nil), f.outs...))
		if m.d != nil && len(outs) > 0 {
			c.prepareFanOut(m.d, len(outs))
		}
		for i, out := range outs {
			legs = append(legs, leg{m, a, out, copyRef{m.d, int32(i)}, nil})
		}
		return legs
	}
	m.in.run = 0
	if out, track := c.r.pick(m, a, f); out != nil {
		legs = append(legs, leg{m, a, out, copyRef{m.d, 0}, track})
	}
	return legs
}

// legs lists the ways on which a stream leaves an exchange.
func (p *passage) legs(m *message, a *address, f *forwarding) (legs []leg) {
	p.take = func(m *message, a *address, f *forwarding) bool {
		n := len(legs)
		legs = p.c.legs(m, a, f, legs)
		return len(legs) > n
	}
	p.enter(m, a, f)
	return legs
}

// beginStream routes a message that is not all here yet. m.payload is what there is of it.
func (c *Conn) beginStream(in *inLink, p *partial, m *message) {
	b := c.b
	m.find()
	a, f := m.to, m.fwd
	through := passage{c: c, b: b}
	if x := f.exchange; x != nil && (x.whole() || !through.readSubject(m) && len(p.buf) < annotationMax) {
		p.whole = x.whole()
		return
	}
	if len(f.subs) > 0 || in.control { // there are no streaming links for control messages
		p.whole = true
		return
	}
	wanted := m.wanted()
	c.lastDelivery.Store(b.now)
	c.mu.Lock()
	in.counts.deliveries++
	if in.router {
		in.replenishLocked()
	}
	if p.settled {
		in.counts.countSettled(wanted, b.second())
	} else {
		m.d = c.newDelivery(in, p.id, b.second())
		m.d.arriving = true
	}
	p.d = m.d
	m.settled = p.settled
	in.usedLocked(b.now)
	c.mu.Unlock()
	var legs []leg
	accept := false
	switch {
	case f.paths() == 0:
		if f.exchange != nil {
			f.exchange.drop()
		}
	case f.exchange != nil && !c.r.isDuplicate(m, a):
		legs = through.legs(m, a, f)
		accept = m.d != nil && len(legs) > 0
	default:
		legs = c.legs(m, a, f, nil)
	}
	if h := m.fallback(); h != nil && len(legs) == 0 {
		m.sendOn(h)
		if legs = c.legs(m, h.addr, h.addr.fwd.Load(), nil); len(legs) > 0 {
			c.countRedirected(a)
		}
	}
	if len(legs) == 0 {
		c.discard(in, p, m, wanted)
		return
	}
	c.countIngress(in, a)
	if accept { // what has gone on is as good as accepted; the sender hears of it at the end (RT X5)
		c.mu.Lock()
		m.d.decided, m.d.final = true, amqp.StateAccepted
		c.mu.Unlock()
	}
	creditTo := in
	if m.d != nil {
		creditTo = nil
	}
	for _, l := range legs {
		out := l.out
		// It gets a link of its own, so that it holds up nobody (RT F60). Balanced ones ask
		// whether the peer wants that (IR 1.8).
		if out.near != nil && (l.a.dist != Balanced || out.conn.streams) {
			if own := c.r.streamLink(out.near); own != nil {
				out = own
			}
		}
		s := &stream{out: out, source: in.sess}
		p.copies = append(p.copies, s)
		c.sendCopy(l.m, l.a, out, l.ref, creditTo, b)
		o := b.lastOp(out.conn)
		o.kind, o.stream = opStream, s
		creditTo = nil
		if l.track != nil && l.ref.d != nil {
			l.track.Add(1)
			l.ref.d.one.track = l.track
		}
	}
	b.run()
	p.free()
}

// discard has the rest of a message dropped that nobody takes.
func (c *Conn) discard(in *inLink, p *partial, m *message, wanted bool) {
	if p.settled && wanted {
		c.mu.Lock()
		in.counts.dropped++
		c.mu.Unlock()
	}
	p.discard = true
	p.outcome = m.refusal
	p.noPath = !wanted && !in.anon && (m.refusal == nil || sameRaw(m.refusal, rejectUnavailable))
	if p.outcome == nil {
		p.outcome = amqp.StateReleased
	}
	p.free()
}

// tooLong gives up on a message for a subscriber in this process that is beyond all measure.
func (c *Conn) tooLong(in *inLink, p *partial) {
	c.mu.Lock()
	in.counts.deliveries++
	if p.settled {
		in.counts.countSettled(false, c.b.second())
	} else {
		p.d = c.newDelivery(in, p.id, c.b.second())
		p.d.arriving = true
	}
	c.mu.Unlock()
	p.discard, p.outcome = true, rejectTooLong
	p.free()
}

// continueStream passes one more frame on.
func (c *Conn) continueStream(in *inLink, p *partial, t *amqp.Transfer, payload []byte) {
	b := c.b
	if t.Aborted {
		in.partial = nil
		c.abortStream(p, b)
		c.forgetDelivery(in, p)
		return
	}
	for _, s := range p.copies {
		o := b.op(s.out.conn)
		*o = op{kind: opChunk, out: s.out, stream: s, last: !t.More}
		o.parts[0] = payload
	}
	if !t.More {
		in.partial = nil
		c.endArriving(p) // before the receivers can see the end and answer
	}
}

func (c *Conn) abortStream(p *partial, b *batch) {
	for _, s := range p.copies {
		o := b.op(s.out.conn)
		*o = op{kind: opChunk, out: s.out, stream: s, aborted: true}
	}
}

// forgetDelivery takes an aborted delivery off the books; its credit goes back.
func (c *Conn) forgetDelivery(in *inLink, p *partial) {
	if p.d == nil {
		if p.copies == nil {
			c.b.credit(in, false)
		}
		return // a settled stream's credit comes back from where it was queued
	}
	c.mu.Lock()
	if in.sess.in.Get(p.id) == p.d {
		in.sess.in.Take(p.id)
		in.counts.unsettled--
	}
	c.mu.Unlock()
	c.b.credit(in, false)
}

// endArriving acts on what was decided while the message was still coming in (RT F57, F67).
func (c *Conn) endArriving(p *partial) {
	d := p.d
	if d == nil {
		return
	}
	c.mu.Lock()
	d.arriving = false
	decided, final, senderEnd := d.decided, d.final, d.senderEnd || p.settled
	if senderEnd && d.in.sess.in.Get(d.id) == d {
		d.in.sess.in.Take(d.id)
		d.in.counts.unsettled--
		d.in.creditLocked(1)
		if p.settled { // a settled one after all
			d.in.counts.countSettled(true, c.b.second())
		}
	}
	c.mu.Unlock()
	switch {
	case senderEnd:
		if !decided {
			engine{c}.tellCopies(d, final, true)
		}
		c.b.touch(c)
	case decided:
		c.b.inState(d, final, true, false)
	}
}

// endDiscard gives the outcome of a message whose rest nobody wanted.
func (c *Conn) endDiscard(in *inLink, p *partial, aborted bool) {
	if aborted {
		c.forgetDelivery(in, p)
		return
	}
	if p.d == nil {
		c.b.credit(in, p.noPath)
		return
	}
	c.mu.Lock()
	p.d.arriving = false
	c.mu.Unlock()
	c.b.inState(p.d, p.outcome, true, p.noPath)
}
