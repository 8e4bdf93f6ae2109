package router

import (
	"qdrouter/amqp"
)

// Disposition takes in the peer's word on deliveries: as receiver on those we sent, as sender
// on those it sent. The lock is held.
func (e engine) Disposition(s *amqp.Session, d *amqp.Disposition) {
	sess, _ := s.Owner.(*session)
	if sess == nil {
		return
	}
	state, code := relayed(d.State)
	first := amqp.Serial(d.First)
	last := amqp.Serial(d.Last.Or(d.First))
	if d.Role == amqp.RoleReceiver {
		if from, to, ok := sess.out.Clip(first, last); ok {
			for id := from; ; id++ {
				e.receiverSays(sess, id, state, code, d.Settled)
				if id == to {
					break
				}
			}
		}
		if sess.out.HasLate() {
			for _, id := range sess.out.Late(first, last, nil) {
				e.receiverSays(sess, id, state, code, d.Settled)
			}
		}
		return
	}
	known := amqp.Serial(0) // deliveries of the range that are routed
	if from, to, ok := sess.in.Clip(first, last); ok {
		for id := from; ; id++ {
			if e.senderSays(sess, id, state, d.Settled) {
				known++
			}
			if id == to {
				break
			}
		}
	}
	if sess.in.HasLate() {
		for _, id := range sess.in.Late(first, last, nil) {
			if e.senderSays(sess, id, state, d.Settled) {
				known++
			}
		}
	}
	if d.Settled && known != last-first+1 {
		settleAhead(s, first, last, state)
	}
}

// settleAhead notes that the sender has settled deliveries of which only a part is here, and
// which are not routed yet (RT F67). The reader calls it.
func settleAhead(s *amqp.Session, first, last amqp.Serial, state amqp.Raw) {
	s.Links(func(l *amqp.Link) {
		in, _ := l.Owner.(*inLink)
		if in == nil || in.partial == nil {
			return
		}
		p := in.partial
		if p.d == nil && !p.id.Before(first) && !last.Before(p.id) {
			p.settledAhead, p.settled = true, true
			if state != nil && p.copies == nil {
				p.state = state
			}
		}
	})
}

// receiverSays handles one delivery of a receiver's disposition (RT F70, F76).
func (e engine) receiverSays(sess *session, id amqp.Serial, state amqp.Raw, code uint64, settled bool) {
	ref := sess.out.Get(id)
	if ref.d == nil {
		return
	}
	b := e.b
	st := ref.state()
	out := st.out
	if ref.d.many == nil {
		switch {
		case st.terminal: // final: nothing later counts but settlement
			state = st.state
			code, _ = amqp.StateCode(state)
			if !settled {
				return
			}
		case isTerminal(code):
			st.terminal, st.state = true, state
		default:
			if !settled && string(state) == string(st.state) {
				return
			}
			st.state = state
		}
	} else if code == amqp.CodeDeclared { // counts as rejected: RT F37
		e.r.logf("ROUTER_CORE", Warning, "[C%d][L%d] Transactions are not supported for multicast messages", e.o.ID, out.id)
	}
	if !settled {
		b.outcome(ref, state, false)
		return
	}
	sess.out.Take(id)
	out.unload(ref)
	out.counts.unsettled--
	out.counts.count(code, b.second()-ref.d.at, b.second())
	if out.queue.n > 0 {
		if head := out.queue.at(0); head.started && head.ref == ref {
			head.ref = copyRef{} // the rest is still sent
		}
	}
	b.outcome(ref, state, true)
}

// senderSays handles one delivery of a sender's disposition (RT F71) and reports whether it is
// known.
func (e engine) senderSays(sess *session, id amqp.Serial, state amqp.Raw, settled bool) bool {
	d := sess.in.Get(id)
	if d == nil {
		return false
	}
	if d.arriving && settled {
		d.senderEnd = true // acted on when the message is complete (RT F67)
		d.final = state
		return true
	}
	d.told = true
	if settled {
		sess.in.Take(id)
		d.in.counts.unsettled--
		d.in.creditLocked(1)
		e.b.touch(e.Conn)
	}
	e.tellCopies(d, state, settled)
	return true
}

// tellCopies passes the sender's word on a delivery on to its receivers.
func (e engine) tellCopies(d *delivery, state amqp.Raw, settled bool) {
	if d.many == nil {
		if out := d.one.out; out != nil {
			e.b.end(out.conn, senderEnd{copyRef{d, 0}, state, settled})
		}
		return
	}
	for i := range d.many.copies {
		if out := d.many.copies[i].out; out != nil {
			e.b.end(out.conn, senderEnd{copyRef{d, int32(i)}, state, settled})
		}
	}
}

// senderEnded carries out the sender's word on a copy, on the connection of its out-link.
func (c *Conn) senderEnded(e *senderEnd, b *batch) {
	st := e.ref.state()
	out := st.out
	if out.closed {
		return
	}
	if !st.started {
		for i := range out.queue.n {
			if it := out.queue.at(i); it.ref == e.ref {
				if e.state != nil {
					it.state = e.state // goes with the transfer (RT F38, F72)
				}
				if e.settled {
					it.ref.untrack()
					it.settled, it.ref = true, copyRef{}
				}
				return
			}
		}
		return
	}
	if out.sess.out.Get(st.id) != e.ref {
		return
	}
	out.sess.s.Dispose(amqp.RoleSender, st.id, st.id, e.settled, e.state)
	if !e.settled {
		return
	}
	out.sess.out.Take(st.id)
	out.unload(e.ref)
	out.counts.unsettled--
	code, _ := amqp.StateCode(st.state)
	out.counts.count(code, b.second()-e.ref.d.at, b.second())
	if out.queue.n > 0 {
		if head := out.queue.at(0); head.started && head.ref == e.ref {
			head.ref = copyRef{}
		}
	}
}

// applyRun tells the sender what became of deliveries first..last, and returns its credit. It
// runs with the lock of the senders' connection held.
func (c *Conn) applyRun(r *inRun, b *batch) {
	s := r.sess
	if c.dead || s.s.Ended() {
		return
	}
	code, _ := amqp.StateCode(r.state)
	now := b.second()
	var in *inLink // whose credit has gathered
	var credit uint32
	start, n := r.first, 0 // deliveries of the current stretch
	for id := r.first; ; id++ {
		d := s.in.Get(id)
		tell := d != nil
		if d != nil && r.settled {
			if d.arriving {
				d.decided, d.final = true, r.state
				s.s.Dispose(amqp.RoleReceiver, id, id, false, r.state) // RT F57
				tell = false
			} else {
				s.in.Take(id)
				k := d.in
				k.counts.unsettled--
				k.counts.count(code, now-d.at, now)
				if k != in {
					c.giveCredit(in, credit, r.noPath)
					in, credit = k, 0
				}
				credit++
				c.recycle(d)
			}
		}
		if tell {
			if n == 0 {
				start = id
			}
			n++
		}
		if (!tell || id == r.last) && n > 0 {
			s.s.Dispose(amqp.RoleReceiver, start, start+amqp.Serial(n-1), r.settled, r.state)
			n = 0
		}
		if id == r.last {
			break
		}
	}
	c.giveCredit(in, credit, r.noPath)
}

func (c *Conn) giveCredit(in *inLink, n uint32, noPath bool) {
	switch {
	case in == nil || n == 0:
	case noPath:
		in.withholdLocked(n)
	default:
		in.creditLocked(n)
	}
}
