package router

import (
	"bytes"
	"sync/atomic"

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
		if f.exchange != nil {
			f.exchange.drop()
		}
		if !c.redirect(m, b) {
			c.noPath(m, b)
			return
		}
	case f.exchange != nil:
		if !c.exchange(m, a, f, b) && !c.redirect(m, b) {
			c.unsent(m, b)
			return
		}
	case !c.forward(m, a, f, m.in, b):
		if !c.redirect(m, b) {
			c.unsent(m, b)
			return
		}
	}
	c.countIngress(m.in, a)
}

// forward sends a message to those who take the deliveries of a, and reports whether there was
// somebody. The credit of a settled one goes to creditTo when it has left.
func (c *Conn) forward(m *message, a *address, f *forwarding, creditTo *inLink, b *batch) bool {
	switch {
	case c.r.isDuplicate(m, a):
		return false // released, the weakest outcome there is: it takes nothing from those of the others
	case a.dist == Multicast || a.dist == Flood:
		return c.fanOut(m, a, f, creditTo, b)
	case len(f.subs) > 0: // closest: a subscriber in this process is nearest (RT F28)
		i := int(a.next.Add(1)) % len(f.subs)
		c.toSubscriber(m, f.subs[i], creditTo)
		return true
	}
	out, track := c.r.pick(m, a, f)
	if out == nil {
		return false
	}
	c.sendCopy(m, a, out, copyRef{m.d, 0}, creditTo, b)
	if track != nil && m.d != nil {
		track.Add(1)
		m.d.one.track = track
	}
	return true
}

// countIngress counts a delivery that an endpoint sent to an address (RT 6.2).
func (c *Conn) countIngress(in *inLink, a *address) {
	if in.router {
		return
	}
	if !in.fallback { // RT F44
		a.ingress.Add(1)
	}
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

// unsent releases or drops a message whose consumers cannot be reached now; the sender keeps
// its credit (RT E49).
func (c *Conn) unsent(m *message, b *batch) {
	if m.d == nil {
		b.lost(m.in)
		return
	}
	b.inState(m.d, amqp.StateReleased, true, false)
}

// pick chooses the one consumer of a message: an out-link of this router, or the link to the
// next router towards one that has consumers. track counts what is under way there.
func (r *Router) pick(m *message, a *address, f *forwarding) (out *outLink, track *atomic.Int64) {
	if a.dist == Closest {
		if n := len(f.outs); n > 0 {
			return f.outs[int(a.next.Add(1))%n], nil
		}
		return r.closestRemote(m, a, f), nil
	}
	return r.choose(m, a, f)
}

// linkTo returns the link to a neighbour that m takes: by its priority, or the control link.
func (m *message) linkTo(via *neighbour, a *address) *outLink {
	if m.in.control {
		return via.control.Load()
	}
	return via.dataLink(m.priority(a))
}

// priority is the address's where it has one, else the header's (RT F87, F88).
func (m *message) priority(a *address) int {
	if a.priority >= 0 {
		return int(a.priority)
	}
	if m.header.Present() {
		s := amqp.Sections{Header: m.header}
		if p, ok := s.Priority(m.payload); ok {
			return min(int(p), priorities-1)
		}
	}
	return defaultPriority
}

// tooFar reports whether a control message has come too far to be passed on. The limit is wider
// than that of data (RT E57), as the radius may be just what it is about to correct.
func (m *message) tooFar(r *Router) bool {
	return m.in.control && m.notes.hops > 2*r.radius()+4
}

// closestRemote rotates over the cheapest of the routers that have consumers (RT F28).
func (r *Router) closestRemote(m *message, a *address, f *forwarding) *outLink {
	if m.tooFar(r) {
		return nil
	}
	least, count := int32(0), 0
	for _, n := range f.remotes {
		rt := n.route.Load()
		if rt.via == nil {
			continue
		}
		switch {
		case count == 0 || rt.cost < least:
			least, count = rt.cost, 1
		case rt.cost == least:
			count++
		}
	}
	if count == 0 {
		return nil
	}
	k := int(a.next.Add(1)) % count
	for _, n := range f.remotes {
		if rt := n.route.Load(); rt.via != nil && rt.cost == least {
			if k == 0 {
				return m.linkTo(rt.via, a)
			}
			k--
		}
	}
	return nil
}

// choose picks the consumer of a balanced address: the one with the fewest deliveries that are
// undelivered or unsettled (RT F21, F24), where a remote router's count is what is under way to
// its next hop plus the cost (F22). Within one read it may stay on its choice for a run, so that
// settlements keep their ranges (RT F26a), but not where costs are to be weighed message by
// message.
func (r *Router) choose(m *message, a *address, f *forwarding) (*outLink, *atomic.Int64) {
	in := m.in
	if len(f.outs) == 1 && len(f.remotes) == 0 {
		return f.outs[0], nil
	}
	if in.run > 0 && in.runTo != nil && in.runAddr == a {
		if out := in.runTo; out.credit.Load() > 0 && out.load.Load() < out.capacity {
			in.run--
			return out, in.runTrack
		}
	}
	n := len(f.outs)
	var best *outLink
	var track *atomic.Int64
	var least int64
	bestFits, idle := false, false
	eligible := 0
	if n > 0 {
		first := int(a.next.Load()) % n
		for i := range n {
			out := f.outs[(first+i)%n]
			load := out.load.Load()
			fits := load < out.capacity
			if fits {
				eligible++
			}
			if best == nil || fits && !bestFits || fits == bestFits && int64(load) < least {
				best, least, bestFits = out, int64(load), fits
				if load == 0 {
					a.next.Store(uint32((first + i + 1) % n)) // RT F26
					eligible = n                              // those not looked at count as eligible
					idle = true
					break
				}
			}
		}
	}
	if !idle {
		origin := m.origin(r)
		for _, n := range f.remotes {
			rt := n.route.Load()
			if rt.via == nil || !rt.origins.Has(origin) {
				continue
			}
			out := m.linkTo(rt.via, a)
			if out == nil {
				continue
			}
			under := a.underWay(rt.via)
			load := under.Load()
			fits := load < int64(out.capacity)
			if fits {
				eligible++
			}
			load += int64(rt.cost)
			if best == nil || fits && !bestFits || fits == bestFits && load < least {
				best, track, least, bestFits = out, under, load, fits
			}
		}
	}
	in.run, in.runTo, in.runAddr, in.runTrack = 0, best, a, track
	if eligible > 0 && (len(f.remotes) == 0 || n == 0 && len(f.remotes) == 1) {
		in.run = max(1, min(maxRun, in.inRead/(4*eligible))) - 1
	}
	return best, track
}

// maxRun bounds how many deliveries of one read follow each other to one consumer (RT F26a).
const maxRun = 32

// underWay counts the unsettled deliveries of the address to a neighbour.
func (a *address) underWay(via *neighbour) *atomic.Int64 {
	if v, ok := a.outstanding.Load(via); ok {
		return v.(*atomic.Int64)
	}
	v, _ := a.outstanding.LoadOrStore(via, new(atomic.Int64))
	return v.(*atomic.Int64)
}

// origin is the index of the router where m entered the network, 0 for this one or one that is
// not known (RT F23).
func (m *message) origin(r *Router) int {
	if !m.notes.hasIngress {
		return 0
	}
	i, _ := r.originOf(m.notes.ingress)
	return i
}

// sendCopy posts a copy of m, which is for address a, to an out-link. A settled one gives credit
// back to creditTo when it has left.
func (c *Conn) sendCopy(m *message, a *address, out *outLink, ref copyRef, creditTo *inLink, b *batch) {
	out.load.Add(1)
	o := b.op(out.conn)
	*o = op{kind: opMessage, settled: m.settled, out: out, ref: ref, format: m.format, state: m.state, at: b.second()}
	if ref.d != nil {
		ref.state().out = out
	} else {
		o.in = creditTo
	}
	if out.addr == nil {
		if !m.in.control {
			a.transit.Add(1)
		}
	} else {
		if !out.fallback { // RT F45
			a.egress.Add(1)
		}
		if out.conn.o.Role == RoleRouteContainer {
			a.egressRouteContainer.Add(1)
		}
	}
	c.compose(m, out, o, b)
}

// remoteLinks appends to links the links to other routers that a multicast goes out on: one for
// each next hop towards routers with consumers (RT F31 to F34).
func (r *Router) remoteLinks(m *message, a *address, f *forwarding, links []*outLink) []*outLink {
	if a.controlOnly || a.dist == Flood || m.tooFar(r) {
		return links // an advertisement goes on when the core has taken it in
	}
	return r.nextHops(m, a, f, links)
}

// nextHops appends the links to the next hops of a multicast.
func (r *Router) nextHops(m *message, a *address, f *forwarding, links []*outLink) []*outLink {
	start := len(links)
	origin := 0
	if a.dist == Multicast && m.notes.hasIngress {
		var ok bool
		if origin, ok = r.originOf(m.notes.ingress); !ok {
			return links // RT F33
		}
	}
	if m.notes.hops > 0 && m.notes.passed([]byte(r.node)) {
		return links
	}
next:
	for _, n := range f.remotes {
		rt := n.route.Load()
		if rt.via == nil || a.dist == Multicast && !rt.origins.Has(origin) {
			continue
		}
		out := m.linkTo(rt.via, a)
		if out == nil {
			continue
		}
		for _, l := range links[start:] {
			if l.conn == out.conn {
				continue next
			}
		}
		if id := rt.via.id.Load(); id != nil && m.notes.hops > 0 && m.notes.passed([]byte(r.opts.Area+"/"+*id)) {
			continue
		}
		links = append(links, out)
	}
	return links
}

// isDuplicate reports whether m is a multicast that came round another way than from its origin by
// the shortest path, as routers of 1.19 send where there is more than one (IR 3.4, 5.6).
func (r *Router) isDuplicate(m *message, a *address) bool {
	near := m.in.near
	if a.dist != Multicast || near == nil || m.in.control || !m.notes.hasIngress {
		return false
	}
	if m.notes.hops > 1 && m.notes.passed([]byte(r.node)) {
		return true
	}
	id := near.id.Load()
	if id == nil {
		return false
	}
	nodes := *r.nodesView.Load()
	origin, via := nodes[string(routerID(m.notes.ingress))], nodes[*id]
	if origin == nil || via == nil {
		return false
	}
	inbound := origin.route.Load().info.Inbound
	return inbound > 0 && inbound != via.index
}

// passed reports whether the trace names a router.
func (n *annotations) passed(entry []byte) bool {
	it, err := amqp.IterList(n.trace)
	if err != nil {
		return false
	}
	for {
		e, ok := it.Next()
		if !ok {
			return false
		}
		if t, _ := stringText(e); bytes.Equal(t, entry) {
			return true
		}
	}
}

// fanOut posts a copy to every consumer of a multicast address and reports whether there was
// one.
func (c *Conn) fanOut(m *message, a *address, f *forwarding, creditTo *inLink, b *batch) bool {
	links := f.outs
	if len(f.remotes) > 0 {
		b.targets = c.r.remoteLinks(m, a, f, append(b.targets[:0], f.outs...))
		links = b.targets
	}
	n := len(links) + len(f.subs)
	if n == 0 {
		return false
	}
	if m.d != nil {
		c.prepareFanOut(m.d, n)
	}
	for i, out := range links {
		c.sendCopy(m, a, out, copyRef{m.d, int32(i)}, creditTo, b)
		creditTo = nil // one credit for all copies
	}
	for i, s := range f.subs {
		a.toContainer.Add(1)
		s.handler(&Request{Message: m.copied(), Connection: c.o.ID})
		if m.d != nil {
			b.outcome(copyRef{m.d, int32(len(links) + i)}, amqp.StateAccepted, true)
		}
	}
	if m.d == nil && creditTo != nil {
		b.credit(creditTo, false)
	}
	return true
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

// copied is the payload where it can be kept.
func (m *message) copied() []byte {
	if m.owned && !m.pooled {
		return m.payload
	}
	return appendPieces(make([]byte, 0, len(m.payload)), m.payload)
}

// toSubscriber hands a complete message to a consumer in this process, which settles it; the credit
// of a settled one goes to creditTo then.
func (c *Conn) toSubscriber(m *message, s *subscriber, creditTo *inLink) {
	s.addr.toContainer.Add(1)
	q := &Request{Message: m.copied(), Connection: c.o.ID}
	d, r := m.d, c.r
	q.settle = func(state amqp.Raw) {
		q.settle = nil
		b := r.newBatch()
		switch {
		case d != nil:
			b.inState(d, state, true, false)
		case creditTo != nil:
			b.credit(creditTo, false)
		}
		b.run()
		b.done()
	}
	s.handler(q)
}
