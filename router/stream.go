package router

import (
	"sync/atomic"

	"qdrouter/amqp"
)

// The methods of this file run in the reader of the connection that a stream comes in on,
// without its lock.

var rejectTooLong = amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{
	Condition: amqp.ErrCondMessageSizeExceeded, Description: "Message size exceeded"}))

// beginStream routes a message that is not all here yet. m.payload is what there is of it.
func (c *Conn) beginStream(in *inLink, p *partial, m *message) {
	b := c.b
	m.find()
	a, f := m.to, m.fwd
	if len(f.subs) > 0 {
		p.whole = true
		return
	}
	c.lastDelivery.Store(b.now)
	c.mu.Lock()
	in.counts.deliveries++
	if in.router {
		in.replenishLocked()
	}
	if p.settled {
		in.counts.countSettled(f.paths() > 0, b.second())
	} else {
		m.d = c.newDelivery(in, p.id, b.second())
		m.d.arriving = true
	}
	p.d = m.d
	m.settled = p.settled
	in.usedLocked(b.now)
	c.mu.Unlock()
	if f.paths() == 0 || c.r.isDuplicate(m, a) {
		p.discard = true
		p.outcome, p.noPath = m.refusal, !in.anon && (m.refusal == nil || sameRaw(m.refusal, rejectUnavailable))
		if p.outcome == nil {
			p.outcome = amqp.StateReleased
		}
		p.free()
		return
	}
	var outs []*outLink
	var track *atomic.Int64
	if a.dist == Multicast || a.dist == Flood {
		outs = c.r.remoteLinks(m, a, f, append([]*outLink(nil), f.outs...))
		if m.d != nil && len(outs) > 0 {
			c.prepareFanOut(m.d, len(outs))
		}
	} else {
		in.run = 0
		var out *outLink
		if out, track = c.r.pick(m, a, f); out != nil {
			outs = []*outLink{out}
		}
	}
	if len(outs) == 0 {
		p.discard, p.outcome = true, amqp.StateReleased
		p.free()
		return
	}
	a.ingress.Add(1)
	c.countIngress(a)
	creditTo := in
	for i, out := range outs {
		if out.near != nil { // a link of its own, so that it holds up nobody (RT F60)
			if own := c.r.streamLink(out.near); own != nil {
				out = own
			}
		}
		s := &stream{out: out, source: in.sess}
		p.copies = append(p.copies, s)
		c.sendCopy(m, a, out, copyRef{m.d, int32(i)}, creditTo, b)
		o := b.lastOp(out.conn)
		o.kind, o.stream = opStream, s
		creditTo = nil
	}
	if track != nil && m.d != nil {
		track.Add(1)
		m.d.one.track = track
	}
	b.run()
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
