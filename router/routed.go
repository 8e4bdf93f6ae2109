package router

import (
	"math"
	"sync/atomic"

	"qdrouter/amqp"
)

// A routed link is two links on two connections, paired for life: what comes in on the one goes
// out on the other, and what is said of it comes back (RT 3.7). The router has no part in it: it
// gives no credit of its own, and looks no farther into a message than its header.

// pair is the two halves of a routed link.
type pair struct {
	in         *inLink
	out        *outLink
	owningAddr string // as management shows it (RT 6.1)

	// What the out-link's side has decided last. It is told to the in-link's side by a word, which
	// may be overtaken by the next; so the word makes it look here.
	drain  atomic.Bool // the receiver wants to be drained
	choked atomic.Bool // too much waits for the receiver
}

// Bounds of what may wait in the out-link of a routed link, in octets. Its receiver gave the
// credit for what comes, however much that is. At routedHigh the sender is told that there is no
// credit for now, at routedLow that there is again. What comes beyond, because it was under way
// or is the rest of a message, counts against the session it comes in on. That one may be shared
// with other routed links, so its window is held only at routedHeld, far above what can be under
// way.
const (
	routedHigh = 1 << 19
	routedLow  = 1 << 18
	routedHeld = 16 << 20
)

// maxTag is the longest delivery tag (AMQP 1.0 part 2 §2.8.7, RT E62).
const maxTag = 32

var rejectTag = amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{
	Condition: amqp.ErrCondInvalidField, Description: "delivery tag length exceeded"}))

// routedMessage is a complete message that its reader has not passed on yet.
type routedMessage struct {
	in      *inLink
	id      amqp.Serial
	settled bool
	format  uint32
	state   amqp.Raw
	tag     []byte
	payload []byte
	refusal amqp.Raw
	d       *delivery
}

// A linkWord tells one half of a routed link what the other half has learnt.
type linkWord struct {
	kind wordKind
	in   *inLink  // of the first three kinds
	out  *outLink // of wordDrained
	n    uint32
	ev   *event // of wordEvent
}

type wordKind uint8

const (
	wordFlow    wordKind = iota // the receiver has given n credit, or changed its mind about drain
	wordGrant                   // n deliveries did not use their credit
	wordChoke                   // look whether too much waits
	wordDrained                 // the sender has used up n credit without sending (RT L27)
	wordEvent                   // the core is to know, now that the sender has been told the outcomes
)

func (b *batch) word(c *Conn, w linkWord) {
	k := b.to(c)
	b.enqueue(k)
	k.words = append(k.words, w)
}

// postOut adds what the core is to decide about an out-link that has gone; of a routed link, not
// before its deliveries have gone back.
func (b *batch) postOut(ev event) {
	if p := ev.out.pair; p != nil {
		b.word(p.in.conn, linkWord{kind: wordEvent, ev: &ev})
		return
	}
	b.post(ev)
}

// unused gives a sender the credit back of a delivery of which its receiver will see nothing.
func (b *batch) unused(in *inLink) { b.word(in.conn, linkWord{kind: wordGrant, in: in, n: 1}) }

// unsent gives a sender the credit back of a delivery that it aborted before any of it went on.
func (b *batch) unsent(in *inLink) {
	if in.pair != nil {
		b.unused(in)
	} else {
		b.credit(in, false)
	}
}

// The methods below run in the reader of the in-link's connection, without its lock.

// passTransfer takes in one frame of a delivery on a routed link.
func (c *Conn) passTransfer(in *inLink, t *amqp.Transfer, payload []byte) {
	p := in.partial
	if p == nil {
		if t.Aborted {
			c.b.unsent(in)
			return
		}
		state, _ := relayed(t.State) // RT F72, F73
		tag := t.DeliveryTag
		if tag == nil {
			tag = []byte{} // RT F86: the sender's, even so
		}
		if !t.More {
			c.b.routed = append(c.b.routed, routedMessage{
				in: in, id: amqp.Serial(t.DeliveryID.V), settled: t.Settled.V,
				format: t.MessageFormat.V, state: state, tag: tag, payload: payload, refusal: fault(tag, payload),
			})
			if len(c.b.routed) >= maxBatch {
				c.routeRead()
				c.b.run()
			}
			return
		}
		p = &partial{id: amqp.Serial(t.DeliveryID.V), format: t.MessageFormat.V, state: state, tag: tag}
		in.partial = p
	}
	c.takePart(in, p, t, payload)
}

// fault returns what is wrong with a message, as far as routed links care (RT E54, E62).
func fault(tag, payload []byte) amqp.Raw {
	if len(tag) > maxTag {
		return rejectTag
	}
	if _, err := amqp.WalkMessage(payload, amqp.DepthHeader, true); err != nil {
		return rejectInvalidMessage
	}
	return nil
}

// passBeginning passes a message of several frames on, as soon as its header is here (RT F59).
func (c *Conn) passBeginning(in *inLink, p *partial, payload []byte, more bool) {
	b := c.b
	if p.buf != nil {
		p.buf = append(p.buf, payload...)
		payload = p.buf
	}
	_, err := amqp.WalkMessage(payload, amqp.DepthHeader, !more)
	switch {
	case len(p.tag) > maxTag:
		p.outcome = rejectTag
	case err == amqp.ErrNeedMore && len(payload) < annotationMax:
		if p.buf == nil {
			p.buf, p.tag = append([]byte(nil), payload...), append([]byte{}, p.tag...)
		}
		return
	case err != nil && (!more || payload[0] == 0): // else there are no sections, and it is none of a router's business
		p.outcome = rejectInvalidMessage
	}
	c.routeRead() // what came before on this link goes first
	c.lastDelivery.Store(b.now)
	c.mu.Lock()
	in.counts.deliveries++
	if p.settled {
		in.counts.countSettled(p.outcome == nil, b.second())
	} else {
		p.d = c.newDelivery(in, p.id, b.second())
		p.d.arriving = more
	}
	in.usedLocked(b.now)
	c.mu.Unlock()
	if !more {
		in.partial = nil
	}
	if p.outcome != nil {
		b.unused(in)
		p.discard, p.buf = true, nil
		if !more {
			c.endDiscard(in, p, false)
		}
		return
	}
	out := in.pair.out
	s := &stream{out: out, source: in.sess}
	p.copies = append(p.copies, s)
	o := c.passOp(out, p.d, opStream)
	o.settled, o.format, o.state = p.settled, p.format, p.state
	o.stream, o.last, o.owned = s, !more, p.buf != nil
	o.parts[0], o.parts[2] = payload, p.tag
	p.buf, p.tag = nil, nil
}

// passOp returns a new op for the out-link of a routed link.
func (c *Conn) passOp(out *outLink, d *delivery, kind opKind) *op {
	out.load.Add(1)
	if d != nil {
		d.one.out = out
	}
	o := c.b.op(out.conn)
	*o = op{kind: kind, out: out, ref: copyRef{d, 0}, at: c.b.second()}
	return o
}

// passRead passes the complete messages gathered so far on. The unsettled ones are entered in
// their sessions first, under one lock, so that no answer can come before its record.
func (c *Conn) passRead() {
	b := c.b
	c.lastDelivery.Store(b.now)
	c.mu.Lock()
	for i := range b.routed {
		m := &b.routed[i]
		m.in.counts.deliveries++
		if m.settled {
			m.in.counts.countSettled(m.refusal == nil, b.second())
		} else {
			m.d = c.newDelivery(m.in, m.id, b.second())
		}
	}
	for _, in := range b.links {
		in.usedLocked(b.now)
	}
	c.mu.Unlock()
	for i := range b.routed {
		m := &b.routed[i]
		if c.messageLog != 0 {
			c.logMessage("Received", m.in.l.Name, m.in.source, string(m.in.template), m.payload, true)
		}
		if m.refusal != nil {
			b.unused(m.in)
			if m.d != nil {
				b.inState(m.d, m.refusal, true, false)
			}
			continue
		}
		o := c.passOp(m.in.pair.out, m.d, opRouted)
		o.settled, o.format, o.state = m.settled, m.format, m.state
		o.parts[0], o.parts[2] = m.payload, m.tag
	}
	clear(b.routed)
	b.routed = b.routed[:0]
}

// The methods below run with the mutex held of the connection that the link is on.

// transmitRouted sends a message, or queues it.
func (c *Conn) transmitRouted(o *op, b *batch) {
	out := o.out
	if out.closed || out.ending != nil || c.dead {
		c.undeliverable(o.ref, nil, o.settled, out, b)
		return
	}
	payload, tag := o.parts[0], o.parts[2]
	if c.messageLog != 0 {
		c.logMessage("Sent", out.l.Name, out.source, out.target, payload, true)
	}
	if out.up && out.queue.n == 0 && out.l.Credit() > 0 && out.l.Fits(len(payload)) && out.sess.s.OutWindow() > 0 && len(c.eng.Out) < outputRoom {
		id := out.l.Send(&amqp.OutDelivery{
			RawTag: tag, Format: o.format, Settled: o.settled || out.settles, State: o.state,
		}, payload, nil, nil)
		out.usedLocked(b.now)
		if o.ref.d != nil && !out.settles {
			out.sess.out.Put(id, o.ref)
			st := o.ref.state()
			st.id, st.started = id, true
			out.counts.unsettled++
		}
		c.sent(out, o.ref, o.settled, nil, o.at, b)
		return
	}
	n := len(payload)
	data := append(append(make([]byte, 0, n+len(tag)), payload...), tag...)
	c.hold(out, item{ref: o.ref, settled: o.settled, format: o.format, state: o.state, data: data[:n:n], tag: data[n:], at: o.at}, b)
	out.keep(n, b)
	c.drain(out, b)
}

// keep notes that n octets more wait in the queue of a routed link, or less.
func (out *outLink) keep(n int, b *batch) {
	if n == 0 {
		return
	}
	out.held += n
	in := out.pair.in
	limit := routedHigh
	if out.pair.choked.Load() {
		limit = routedLow
	}
	if choked := out.held > limit; choked != out.pair.choked.Load() {
		out.pair.choked.Store(choked)
		b.word(in.conn, linkWord{kind: wordChoke, in: in})
	}
	excess := max(0, out.held-routedHigh)
	if d := excess - out.excess; d != 0 {
		out.excess = excess
		if s := in.sess; s.held.Add(int64(d)) <= routedHeld/2 && d < 0 && s.holding.Load() {
			b.resume(s)
		}
	}
}

// passCredit passes on what a flow of the receiver has brought: credit that the sender has not
// been given yet, and the drain flag (RT L26, L27). A decrease stays here (RT E53).
func (out *outLink) passCredit(b *batch) {
	in := out.pair.in
	passed := uint32(out.passed - out.l.DeliveryCount()) // and not used yet
	n := out.l.Credit() - min(out.l.Credit(), passed)
	out.passed += amqp.Serial(n)
	drain := out.l.Drain
	if was := out.pair.drain.Swap(drain); n > 0 || drain || was {
		b.word(in.conn, linkWord{kind: wordFlow, in: in, n: n})
	}
}

// linkSays carries out a word of the other half of a routed link.
func (c *Conn) linkSays(w *linkWord, b *batch) {
	switch w.kind {
	case wordDrained:
		w.out.drains += w.n
		c.drain(w.out, b)
		return
	case wordEvent:
		b.post(*w.ev) // behind what the core is to know of the link from before
		return
	}
	in := w.in
	if in.closed {
		return
	}
	switch w.kind {
	case wordChoke:
		in.l.Choked = in.pair.choked.Load()
		in.l.FlowDue()
	case wordFlow:
		in.l.Draining = in.pair.drain.Load()
		in.passedLocked(w.n)
	case wordGrant:
		in.passedLocked(w.n)
	}
}

// passedLocked gives the sender credit that its receiver gave. There is more than half of all
// numbers of it to be had at no time, so that serial numbers can tell before from after.
func (in *inLink) passedLocked(n uint32) {
	all := uint64(in.pending) + uint64(n)
	now := min(all, math.MaxInt32-uint64(in.l.CreditOut()))
	in.pending = uint32(min(all-now, math.MaxUint32))
	if now > 0 {
		in.grantLocked(uint32(now))
	} else {
		in.l.FlowDue()
	}
}

// emptied does what had to wait until the queue of a routed link was empty.
func (c *Conn) emptied(out *outLink, b *batch) {
	if out.drains > 0 {
		n := min(out.drains, out.l.Credit())
		out.passed -= amqp.Serial(out.drains - n) // what the receiver had taken back (RT E53)
		out.drains = 0
		out.l.DrainedBy(n)
		out.drained = out.l.Credit() == 0
		out.usedLocked(b.now)
	}
	if e := out.ending; e != nil {
		c.closeOut(out, b)
		out.l.Detach(e.Closed, e.Error)
	}
}
