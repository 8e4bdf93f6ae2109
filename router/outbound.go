package router

import (
	"slices"
	"sync"

	"qdrouter/amqp"
)

// The methods of this file run with the connection's mutex held, where not said otherwise.

// transmit sends a copy, or what of it may go, and queues the rest.
func (c *Conn) transmit(o *op, b *batch) {
	out := o.out
	if o.kind != opMessage {
		c.transmitStream(o, b)
		return
	}
	if out.closed || c.dead {
		c.undeliverable(o.ref, o.in, o.settled, out, b)
		return
	}
	if c.messageLog != 0 {
		c.logMessage("Sent", out.l.Name, out.source, out.target, slices.Concat(o.parts[:]...), true)
	}
	if out.queue.n == 0 && out.l.Credit() > 0 && out.l.Fits(o.size()) && out.sess.s.OutWindow() > 0 && len(c.eng.Out) < outputRoom {
		c.tags++
		id := out.l.Send(&amqp.OutDelivery{
			Tag: c.tags, Format: o.format, Settled: o.settled || out.settles, State: o.state,
		}, o.parts[0], o.parts[1], o.parts[2])
		out.credit.Add(-1)
		out.usedLocked(b.now)
		if o.ref.d != nil && !out.settles {
			out.sess.out.Put(id, o.ref)
			st := o.ref.state()
			st.id, st.started = id, true
			out.counts.unsettled++
		}
		c.sent(out, o.ref, o.settled, o.in, o.at, b)
		return
	}
	it := item{ref: o.ref, settled: o.settled, format: o.format, owes: o.in, at: o.at}
	if o.state != nil {
		it.state = append(amqp.Raw(nil), o.state...)
	}
	if o.owned && o.parts[1] == nil {
		it.data = o.parts[0]
	} else {
		data := make([]byte, 0, o.size())
		it.data = append(append(append(data, o.parts[0]...), o.parts[1]...), o.parts[2]...)
	}
	c.hold(out, it, b)
	c.drain(out, b)
}

// sent accounts for a delivery that has completely left.
func (c *Conn) sent(out *outLink, ref copyRef, settled bool, owes *inLink, at uint32, b *batch) {
	out.counts.deliveries++
	c.lastDelivery.Store(b.now)
	switch {
	case settled:
		out.unload(ref)
		out.counts.countSettled(true, b.second())
		out.counts.delay(b.second() - at)
		if owes != nil {
			b.credit(owes, false)
		}
	case ref.d != nil && out.settles: // RT F75
		out.unload(ref)
		out.counts.count(amqp.CodeAccepted, b.second()-at, b.second())
		b.outcome(ref, amqp.StateAccepted, true)
	}
}

// undeliverable gives a copy up that nothing of was sent: its link has gone (RT 2.9).
func (c *Conn) undeliverable(ref copyRef, owes *inLink, settled bool, out *outLink, b *batch) {
	out.unload(ref)
	if owes != nil {
		b.credit(owes, false)
	}
	if settled {
		out.counts.dropped++
		c.r.droppedLate.Add(1)
		return
	}
	if ref.d != nil {
		b.outcome(ref, amqp.StateReleased, true)
	}
}

// hold queues an item. Settled deliveries that wait keep their sender's credit, so that a
// consumer that is merely behind slows its senders down; once the link has been without credit
// for a while they do not, and overload drops the older ones (RT F93). So it does at once with
// those that hold nobody's credit: further copies of a multicast, messages of this router.
func (c *Conn) hold(out *outLink, it item, b *batch) {
	if it.settled && it.stream == nil && out.pair == nil { // RT L30
		if out.stalled || it.owes == nil {
			if it.owes != nil {
				b.credit(it.owes, false)
				it.owes = nil
			}
			if out.queue.len() >= int(out.capacity) {
				c.dropOverload(out, b)
			}
		} else if !out.owing {
			out.owing = true
			if len(c.owing) == 0 {
				c.r.timers.wakeBy(c, b.now+stallAfter)
			}
			c.owing = append(c.owing, out)
			c.owes.Store(true)
		}
	}
	out.queue.push(it)
	out.counts.undelivered++
}

// stallAfter is how long a link must be without credit before settled deliveries for it are
// dropped rather than held, in nanoseconds.
const stallAfter = 200e6

// dropOverload drops all queued settled deliveries but one that is half sent at the head.
func (c *Conn) dropOverload(out *outLink, b *batch) {
	old := out.queue
	out.queue = queue{}
	for i := range old.n {
		it := old.at(i)
		if !it.settled || it.stream != nil || it.started || it.ref.d != nil || i == 0 {
			out.queue.push(*it)
			continue
		}
		out.counts.undelivered--
		out.counts.presettled++
		out.counts.dropped++
		c.r.droppedLate.Add(1)
		out.unload(it.ref)
		if it.owes != nil {
			b.credit(it.owes, false)
		}
	}
}

// payOwing finds links that have stalled and gives credit back to the senders whose settled
// deliveries wait there. It is called without the lock.
func (c *Conn) payOwing(now int64) {
	c.mu.Lock()
	if len(c.owing) == 0 {
		c.mu.Unlock()
		return
	}
	b := c.r.newBatch()
	kept := c.owing[:0]
	for _, out := range c.owing {
		if out.closed || out.queue.n == 0 {
			out.owing = false
			continue
		}
		if out.zeroAt == 0 || now-out.zeroAt < stallAfter {
			kept = append(kept, out)
			continue
		}
		out.owing, out.stalled = false, true
		for i := range out.queue.n {
			it := out.queue.at(i)
			if it.settled && it.owes != nil && it.stream == nil {
				b.credit(it.owes, false)
				it.owes = nil
			}
		}
		if out.queue.len() > int(out.capacity) {
			c.dropOverload(out, b)
		}
	}
	clear(c.owing[len(kept):])
	c.owing = kept
	c.owes.Store(len(kept) > 0)
	c.mu.Unlock()
	b.run()
	b.done()
}

// drain sends from the head of a link's queue what credit, session window and output allow.
func (c *Conn) drain(out *outLink, b *batch) {
	if out.pair != nil && !out.up { // the far end is not attached yet (RT L7)
		return
	}
	for out.queue.n > 0 && c.sendHead(out, out.queue.at(0), b) {
		out.queue.pop()
		out.counts.undelivered--
	}
	credit := out.l.Credit()
	out.credit.Store(int32(min(credit, 1<<30)))
	if out.l.Drain && !out.drained && (out.queue.n == 0 || credit == 0 && !out.queue.at(0).started) && (out.pair == nil || credit == 0) {
		out.drainedLocked(b.now)
	}
	if out.queue.n == 0 {
		if out.pair != nil {
			c.emptied(out, b)
		}
		return
	}
	head := out.queue.at(0)
	if credit == 0 && !head.started {
		return // the peer's flow comes back to this
	}
	if head.stream != nil && len(head.stream.chunks) == 0 && !head.stream.ended && !head.stream.aborted {
		return // more of the message has to come
	}
	if !out.waiting {
		out.waiting = true
		c.waiting = append(c.waiting, out)
	}
}

// sendHead sends what may go of the item at the head of a queue and reports whether it is done.
func (c *Conn) sendHead(out *outLink, it *item, b *batch) bool {
	if it.stream != nil && it.stream.aborted {
		c.abortItem(out, it, b)
		return true
	}
	if !it.started {
		if out.l.Credit() == 0 {
			return false
		}
		if it.stream != nil && len(it.stream.chunks) == 0 && !it.stream.ended {
			return false
		}
	}
	if out.sess.s.OutWindow() == 0 || len(c.eng.Out) >= outputRoom {
		return false
	}
	var od amqp.OutDelivery
	first := c.start(out, it, &od, b)
	if it.stream != nil {
		if !c.sendChunks(out, it, &od, first, b) {
			return false
		}
	} else {
		n, began := out.l.SendFrames(&od, first, true, it.data, outputRoom-len(c.eng.Out))
		it.data = it.data[n:]
		if out.pair != nil {
			out.keep(-n, b)
		}
		if len(it.data) > 0 || !began {
			return false
		}
	}
	c.sent(out, it.ref, it.settled, it.owes, it.at, b)
	return true
}

// start begins the delivery of an item, if it has not begun. A frame of it must follow at once.
func (c *Conn) start(out *outLink, it *item, od *amqp.OutDelivery, b *batch) (first bool) {
	*od = amqp.OutDelivery{Format: it.format, Settled: it.settled || out.settles, State: it.state}
	if it.started {
		return false
	}
	c.tags++
	od.Tag, od.RawTag = c.tags, it.tag
	id := out.l.Start(od)
	out.usedLocked(b.now)
	it.started = true
	if it.ref.d != nil && !out.settles {
		out.sess.out.Put(id, it.ref)
		st := it.ref.state()
		st.id, st.started = id, true
		out.counts.unsettled++
	}
	return true
}

// sendChunks sends what waits of a stream and reports whether its end has gone.
func (c *Conn) sendChunks(out *outLink, it *item, od *amqp.OutDelivery, first bool, b *batch) bool {
	s := it.stream
	for len(s.chunks) > 0 {
		k := &s.chunks[0]
		last := s.ended && len(s.chunks) == 1
		n, began := out.l.SendFrames(od, first, last, k.data, outputRoom-len(c.eng.Out))
		first = first && !began
		s.release(n, b)
		k.data = k.data[n:]
		if len(k.data) > 0 || !began {
			return false
		}
		k.free()
		s.chunks[0] = chunk{}
		s.chunks = s.chunks[1:]
		if last {
			return true
		}
	}
	if !s.ended {
		return false
	}
	_, began := out.l.SendFrames(od, first, true, nil, outputRoom-len(c.eng.Out))
	return began
}

// abortItem ends a stream whose sender gave it up: nothing is seen of one that had not begun
// (RT F66).
func (c *Conn) abortItem(out *outLink, it *item, b *batch) {
	if it.ref.d != nil || it.settled { // else given back when the receiver settled
		out.unload(it.ref)
	}
	it.stream.drop(b)
	if it.owes != nil {
		b.credit(it.owes, false)
	}
	if !it.started {
		if out.pair != nil { // the receiver keeps its credit, and so must the sender
			b.unused(out.pair.in)
		}
		return
	}
	out.l.Abort(&amqp.OutDelivery{})
	if it.ref.d != nil {
		if st := it.ref.state(); out.sess.out.Get(st.id) == it.ref {
			out.sess.out.Take(st.id)
			out.counts.unsettled--
		}
	}
}

// chunkPool has buffers for pieces of streams.
var chunkPool = sync.Pool{New: func() any { b := make([]byte, 0, 16384); return &b }}

func newChunk(data []byte) chunk {
	if len(data) > 16384 {
		return chunk{data: append([]byte(nil), data...)}
	}
	b := *chunkPool.Get().(*[]byte)
	return chunk{data: append(b[:0], data...), pool: true}
}

func (k *chunk) free() {
	if k.pool {
		b := k.data[:0]
		if cap(b) >= 8192 {
			chunkPool.Put(&b)
		}
	}
	k.data = nil
}

// release notes that n octets of a stream no longer wait.
func (s *stream) release(n int, b *batch) {
	s.held -= n
	if s.out.pair != nil {
		s.out.keep(-n, b)
		return
	}
	if n > 0 && s.source.held.Add(int64(-n)) <= heldLow && s.source.holding.Load() {
		b.resume(s.source)
	}
}

// drop forgets what waits of a stream.
func (s *stream) drop(b *batch) {
	s.release(s.held, b)
	for i := range s.chunks {
		s.chunks[i].free()
	}
	s.chunks = nil
}

// transmitStream takes in the first or a later piece of a stream.
func (c *Conn) transmitStream(o *op, b *batch) {
	if o.kind == opRouted {
		c.transmitRouted(o, b)
		return
	}
	out, s := o.out, o.stream
	if s.dead {
		return
	}
	if out.closed || c.dead {
		s.dead = true
		if o.kind == opStream { // else what is queued of it is seen off with the link
			c.undeliverable(o.ref, o.in, o.settled, out, b)
		}
		return
	}
	if o.kind == opStream {
		it := item{ref: o.ref, settled: o.settled, format: o.format, state: o.state, stream: s, owes: o.in, at: o.at}
		if out.pair != nil {
			it.tag, o.parts[2] = append([]byte{}, o.parts[2]...), nil
		}
		c.hold(out, it, b)
	}
	if out.kind == linkStream && (o.last || o.aborted) { // back to its pool (RT F60)
		out.near.idle = append(out.near.idle, out)
	}
	if o.aborted {
		s.aborted = true
		c.drain(out, b)
		c.dropAborted(out, s, b)
		return
	}
	s.ended = o.last
	if c.sendDirect(out, o, b) {
		return
	}
	for i, p := range o.parts {
		if len(p) == 0 {
			continue
		}
		if o.owned && i == 0 && o.parts[1] == nil {
			s.chunks = append(s.chunks, chunk{data: p})
		} else {
			s.chunks = append(s.chunks, newChunk(p))
		}
		s.held += len(p)
		if out.pair != nil {
			out.keep(len(p), b)
		} else {
			s.source.held.Add(int64(len(p)))
		}
	}
	c.drain(out, b)
}

// sendDirect encodes a piece of a stream straight from the read buffer when it is its turn. It
// takes what has gone off o.parts and reports whether nothing is left to be done.
func (c *Conn) sendDirect(out *outLink, o *op, b *batch) bool {
	s := o.stream
	if out.queue.n == 0 || out.pair != nil && !out.up {
		return false
	}
	head := out.queue.at(0)
	if head.stream != s || len(s.chunks) != 0 || !head.started && out.l.Credit() == 0 ||
		out.sess.s.OutWindow() == 0 || len(c.eng.Out) >= outputRoom {
		return false
	}
	final := -1
	for i, p := range o.parts {
		if len(p) > 0 {
			final = i
		}
	}
	if final < 0 {
		return false
	}
	var od amqp.OutDelivery
	first := c.start(out, head, &od, b)
	for i := range o.parts[:final+1] {
		if len(o.parts[i]) == 0 {
			continue
		}
		n, began := out.l.SendFrames(&od, first, s.ended && i == final, o.parts[i], outputRoom-len(c.eng.Out))
		first = first && !began
		o.parts[i] = o.parts[i][n:]
		if len(o.parts[i]) > 0 || !began {
			return false
		}
	}
	if s.ended {
		c.sent(out, head.ref, head.settled, head.owes, head.at, b)
		out.queue.pop()
		out.counts.undelivered--
		c.drain(out, b)
	}
	return true
}

// dropAborted removes an aborted stream that waits behind others in the queue.
func (c *Conn) dropAborted(out *outLink, s *stream, b *batch) {
	for i := range out.queue.n {
		if it := out.queue.at(i); it.stream == s && !it.started {
			c.abortItem(out, it, b)
			out.queue.remove(i)
			out.counts.undelivered--
			return
		}
	}
}

// closeOut takes a link out of service: what is queued goes back released, what was sent and is
// unsettled modified (RT 2.9, F54). One step under the lock, so that no copy can slip in after.
func (c *Conn) closeOut(out *outLink, b *batch) {
	if out.closed {
		return
	}
	out.closed = true
	out.credit.Store(0)
	for i := range out.queue.n {
		it := out.queue.at(i)
		if it.stream != nil {
			it.stream.dead = true
			it.stream.drop(b)
		}
		if it.started && it.ref.d != nil && !out.settles {
			if st := it.ref.state(); out.sess.out.Get(st.id) == it.ref {
				out.sess.out.Take(st.id)
			} else {
				it.ref.d = nil // settled while it was being sent
			}
		}
		if it.ref.d == nil && !it.settled {
			continue
		}
		out.unload(it.ref)
		if it.owes != nil {
			b.credit(it.owes, false)
		}
		if it.settled {
			c.r.droppedLate.Add(1)
			out.counts.presettled++
			out.counts.dropped++
		} else {
			b.outcome(it.ref, amqp.StateReleased, true)
		}
	}
	out.queue = queue{}
	if out.pair != nil {
		out.keep(-out.held, b)
	}
	out.counts.undelivered = 0
	var gone []amqp.Serial
	out.sess.out.All(func(id amqp.Serial, ref copyRef) bool {
		if ref.state().out == out {
			gone = append(gone, id)
		}
		return true
	})
	for _, id := range gone {
		ref := out.sess.out.Take(id)
		out.unload(ref)
		st := ref.state()
		state := stateModifiedFailed
		if st.terminal {
			state = st.state // decided already, only not settled
		}
		if ref.d.many == nil {
			b.outcome(ref, state, true)
		} else {
			b.outcome(ref, stateModifiedFailed, true)
		}
	}
	out.counts.unsettled = 0
}

// closeIn takes an in-link out of service. What it sent stays with the receivers; a message
// still arriving is aborted (RT F40, F56). It runs in the reader.
func (c *Conn) closeIn(in *inLink, b *batch) {
	if in.closed {
		return
	}
	in.closed = true
	if p := in.partial; p != nil {
		in.partial = nil
		if p.copies != nil {
			c.abortStream(p, b)
		}
		p.free()
	}
	var gone []amqp.Serial
	in.sess.in.All(func(id amqp.Serial, d *delivery) bool {
		if d.in == in {
			gone = append(gone, id)
		}
		return true
	})
	for _, id := range gone {
		d := in.sess.in.Take(id)
		if d.many == nil || d.arriving {
			continue
		}
		for i := range d.many.copies {
			if out := d.many.copies[i].out; out != nil {
				b.end(out.conn, senderEnd{copyRef{d, int32(i)}, stateModifiedFailed, true})
			}
		}
	}
	in.counts.unsettled = 0
}

// loseSession takes all links of a session out of service without a detach.
func (c *Conn) loseSession(s *amqp.Session, b *batch) {
	sess, _ := s.Owner.(*session)
	if sess == nil {
		return
	}
	s.Links(func(l *amqp.Link) {
		switch k := l.Owner.(type) {
		case *inLink:
			c.closeIn(k, b)
			b.post(event{kind: eventLost, in: k, conn: c, lost: lossText(c)})
		case *outLink:
			c.closeOut(k, b)
			b.postOut(event{kind: eventLost, out: k, conn: c, lost: lossText(c)})
		}
		l.Owner = nil
	})
	sess.in.Reset()
	sess.out.Reset()
}

// lossText begins the log line of a link that goes with its session or connection (RT S2).
func lossText(c *Conn) string {
	if c.dead {
		return "Link closed due to connection loss"
	}
	return "Link lost"
}
