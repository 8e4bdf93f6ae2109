package router

import (
	"qdrouter/amqp"
)

// route sends a message to where its address says, or gives its sender the outcome.
func (c *Conn) route(m *message, b *batch) {
	if m.refusal != nil {
		c.refuse(m, b)
		return
	}
	a, f := m.to, m.fwd
	switch {
	case f.paths() == 0:
		c.noPath(m, b)
		return
	case a.dist == Multicast || a.dist == Flood:
		c.fanOut(m, a, f, b)
	case len(f.subs) > 0: // closest: a subscriber in this process is nearest (RT F28)
		i := int(a.next.Add(1)) % len(f.subs)
		c.toSubscriber(m, f.subs[i], b)
	case a.dist == Closest:
		i := int(a.next.Add(1)) % len(f.outs)
		c.sendCopy(m, f.outs[i], copyRef{m.d, 0}, m.in, b)
	default:
		c.sendCopy(m, c.choose(m.in, a, f, b), copyRef{m.d, 0}, m.in, b)
	}
	a.ingress.Add(1)
	c.countIngress(a)
}

func (c *Conn) countIngress(a *address) {
	if c.o.Role == RoleRouteContainer {
		a.ingressRouteContainer.Add(1)
	}
}

// refuse settles a message that validation turned down; its credit comes back at once (E46).
func (c *Conn) refuse(m *message, b *batch) {
	noPath := false
	if sameRaw(m.refusal, rejectUnavailable) && !m.in.anon {
		noPath = true
	}
	if m.d == nil {
		b.credit(m.in, noPath)
		return
	}
	b.inState(m.d, m.refusal, true, noPath)
}

// noPath releases or drops a message that nobody wants (RT F41, E47, E48).
func (c *Conn) noPath(m *message, b *batch) {
	if m.d == nil {
		b.credit(m.in, !m.in.anon)
		return
	}
	b.inState(m.d, amqp.StateReleased, true, !m.in.anon)
}

// choose picks the consumer of a balanced address: the one with the fewest deliveries that are
// undelivered or unsettled (RT F21, F24). Within one read it may stay on its choice for a run,
// so that settlements keep their ranges (RT F26a).
func (c *Conn) choose(in *inLink, a *address, f *forwarding, b *batch) *outLink {
	if len(f.outs) == 1 {
		return f.outs[0]
	}
	if in.run > 0 && in.runTo != nil {
		if out := in.runTo; out.addr == a && out.credit.Load() > 0 && out.load.Load() < out.capacity {
			in.run--
			return out
		}
	}
	n := len(f.outs)
	first := int(a.next.Load()) % n
	var best *outLink
	var least int32
	bestFits := false
	eligible := 0
	for i := range n {
		out := f.outs[(first+i)%n]
		load := out.load.Load()
		fits := load < out.capacity
		if fits {
			eligible++
		}
		if best == nil || fits && !bestFits || fits == bestFits && load < least {
			best, least, bestFits = out, load, fits
			if load == 0 {
				a.next.Store(uint32((first + i + 1) % n)) // RT F26
				eligible = n                              // those not looked at count as eligible
				break
			}
		}
	}
	in.run, in.runTo = 0, best
	if eligible > 0 {
		in.run = max(1, min(maxRun, in.inRead/(4*eligible))) - 1
	}
	return best
}

// maxRun bounds how many deliveries of one read follow each other to one consumer (RT F26a).
const maxRun = 32

// sendCopy posts a copy of m to an out-link.
// A settled one gives credit back to creditTo when it has left.
func (c *Conn) sendCopy(m *message, out *outLink, ref copyRef, creditTo *inLink, b *batch) {
	out.load.Add(1)
	o := b.op(out.conn)
	*o = op{kind: opMessage, settled: m.settled, out: out, ref: ref, format: m.format, state: m.state, at: b.second()}
	if ref.d != nil {
		ref.state().out = out
	} else {
		o.in = creditTo
	}
	out.addr.egress.Add(1)
	if out.conn.o.Role == RoleRouteContainer {
		out.addr.egressRouteContainer.Add(1)
	}
	c.compose(m, out, o, b)
}

// fanOut posts a copy to every consumer of a multicast address (RT F31).
func (c *Conn) fanOut(m *message, a *address, f *forwarding, b *batch) {
	if m.d != nil {
		c.prepareFanOut(m.d, len(f.outs)+len(f.subs))
	}
	creditTo := m.in
	for i, out := range f.outs {
		c.sendCopy(m, out, copyRef{m.d, int32(i)}, creditTo, b)
		creditTo = nil // one credit for all copies
	}
	for i, s := range f.subs {
		a.toContainer.Add(1)
		s.handler(&Request{Message: append([]byte(nil), m.payload...), Connection: c.o.ID})
		if m.d != nil {
			b.outcome(copyRef{m.d, int32(len(f.outs) + i)}, amqp.StateAccepted, true)
		}
	}
	if m.d == nil && len(f.outs) == 0 {
		b.credit(m.in, false)
	}
}

// prepareFanOut readies d for n copies. Their number is known before the first is posted, so no
// early answer can look like the last.
func (c *Conn) prepareFanOut(d *delivery, n int) {
	m := d.spare
	if m == nil {
		m = new(multicast)
	}
	d.spare = nil
	d.many = m
	if cap(m.copies) < n {
		m.copies = make([]copyState, n)
	} else {
		m.copies = m.copies[:n]
	}
	m.worst.Store(strengthNone)
	m.undecided.Store(int32(n))
	m.unsettled.Store(int32(n))
}

// toSubscriber hands a complete message to a consumer in this process, which settles it.
func (c *Conn) toSubscriber(m *message, s *subscriber, b *batch) {
	s.addr.toContainer.Add(1)
	q := &Request{Message: append([]byte(nil), m.payload...), Connection: c.o.ID}
	in, d, r := m.in, m.d, c.r
	q.settle = func(state amqp.Raw) {
		q.settle = nil
		b := r.newBatch()
		if d == nil {
			b.credit(in, false)
		} else {
			b.inState(d, state, true, false)
		}
		b.run()
		b.done()
	}
	s.handler(q)
}
