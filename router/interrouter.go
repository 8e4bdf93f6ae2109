package router

import (
	"errors"
	"time"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// Link capabilities of inter-router links (IR 1.5). Both are sent as one bare symbol (IR 1.6).
const (
	capRouter     amqp.Symbol = "qd.router"
	capRouterData amqp.Symbol = "qd.router-data"
)

// capStreaming is offered by connections that take links for streams at any time (IR 1.3).
const capStreaming amqp.Symbol = "qd.streaming-links"

// routerCapacity is the credit given to another router on each of its links where linkCapacity is
// not configured (IR 1.7 has 250). Its links carry everybody's messages and are replenished on
// receipt.
const routerCapacity = 2000

// startNet begins the router protocol of an interior router. The core runs it.
func (r *Router) startNet() {
	empty := knownNodes{}
	r.nodesView.Store(&empty)
	r.nodes = make(map[string]*node)
	r.near = make(map[linkstate.LinkID]*neighbour)
	if r.opts.Mode != Interior {
		return
	}
	cfg := r.opts.Net
	// The instance is the next second to begin (IR 2.3). We greet nobody before that, so of two
	// starts within one second only the later can be known by it (IR 2.11).
	cfg.Start = r.start.Add(time.Second - time.Duration(r.start.Nanosecond()))
	cfg.ID, cfg.Instance = r.opts.ID, cfg.Start.Unix()
	cfg.Enabled = func(m linkstate.Module, l linkstate.Level) bool {
		return r.opts.Log.Enabled(string(m), Level(l))
	}
	r.net = linkstate.New(cfg)
	r.logf("ROUTER", Info, "Router Engine Instantiated: id=%s instance=%d", cfg.ID, cfg.Instance)
	local := func(name string, class byte, dist Distribution) {
		a := r.addressFor(classKey(class, name), dist, -1)
		a.controlOnly, a.pinned = true, true
		a.subs = append(a.subs, &subscriber{addr: a, handler: func(q *Request) { r.takeControl(q, a) }})
		if class == classTopo {
			r.floods = append(r.floods, a)
		}
		r.publish(a)
	}
	local("qdhello", classLocal, Flood)
	local("qdrouter", classLocal, Flood)
	local("qdrouter", classTopo, Flood)
	local("qdrouter.ma", classLocal, Multicast)
	local("qdrouter.ma", classTopo, Multicast)
}

// takeControl hands a control message to address a from a reader to the core.
func (r *Router) takeControl(q *Request, a *address) {
	m, err := decodeControl(q.Message)
	if err != nil {
		if !errors.Is(err, errIgnored) {
			r.logf("ROUTER", Error, "Control message error: %v", err)
		}
		return
	}
	in := arrived{msg: q.Message}
	if s, err := amqp.WalkMessage(q.Message, amqp.DepthMessageAnnotations, true); err == nil && s.MessageAnnotations.Present() {
		in.section = s.MessageAnnotations
		if e := in.notes.read(s.MessageAnnotations.Value(q.Message), false); e != nil {
			return
		}
	}
	ev := linkstate.Received{Link: linkstate.LinkID(q.Connection), Message: m, Trace: in.notes.hops}
	r.post(event{kind: eventCall, call: func() {
		r.arrived = &in
		r.step(ev)
		if a.key.class() == classTopo && a.dist == Multicast {
			r.passOn(a)
		}
		r.arrived = nil
	}})
}

// arrived is the control message that the link state is being told of.
type arrived struct {
	msg     []byte
	section amqp.Range
	notes   annotations
}

// relay passes the advertisement just received on, over the connections towards all routers but
// those it has passed (IR 2.14).
func (r *Router) relay() {
	in := r.arrived
	if in == nil || !in.section.Present() {
		return
	}
	r.flood(in.onward(r.node), func(via *neighbour) bool {
		id := via.id.Load()
		return id == nil || !in.notes.passed([]byte(r.opts.Area+"/"+*id))
	})
}

// onward is the message as it leaves this router.
func (in *arrived) onward(node string) []byte {
	msg := append([]byte(nil), in.msg[:in.section.Start]...)
	msg = in.notes.annotated(msg, in.notes.to, in.notes.phase, node)
	return append(msg, in.msg[in.section.End:]...)
}

// passOn sends the advertisement of addresses just received on to the next hops of a multicast.
// The core does it, and only now: who hears from us of a consumer may send to it at once, and by
// then we must know of it too (IR 2.13).
func (r *Router) passOn(a *address) {
	in := r.arrived
	m := &message{in: &inLink{control: true}, notes: in.notes}
	if !in.section.Present() || m.tooFar(r) {
		return
	}
	b := r.newBatch()
	msg := in.onward(r.node)
	for _, out := range r.nextHops(m, a, a.fwd.Load(), nil) {
		b.control(out.near, msg)
	}
	b.run()
	b.done()
}

// flood sends a control message over the connections that lead to other routers, those that to
// admits.
func (r *Router) flood(msg []byte, to func(*neighbour) bool) {
	b := r.newBatch()
	seen := make(map[*neighbour]bool)
	for _, n := range r.nodes {
		via := n.route.Load().via
		if via == nil || seen[via] {
			continue
		}
		seen[via] = true
		if to == nil || to(via) {
			b.control(via, msg)
		}
	}
	b.run()
	b.done()
}

// control adds a control message of this router to what goes to a neighbour.
func (b *batch) control(via *neighbour, msg []byte) {
	out := via.control.Load()
	if out == nil {
		return
	}
	out.load.Add(1)
	o := b.op(out.conn)
	*o = op{kind: opMessage, settled: true, owned: true, out: out, at: b.second()}
	o.parts[0] = msg
}

// step tells the link state what happened and does what it says.
func (r *Router) step(ev linkstate.Event) {
	if r.net == nil {
		return
	}
	actions := r.net.Step(time.Now(), ev, nil)
	for _, a := range actions {
		r.act(a)
	}
	r.scheduleNet()
}

// scheduleNet has the core step the link state when it is next due, which may be another time
// after any step.
func (r *Router) scheduleNet() {
	due := max(int64(r.net.Due().Sub(r.start)), 1)
	if r.timers.netDue.Swap(due) != due {
		r.timers.nudge()
	}
}

func (r *Router) act(a linkstate.Action) {
	switch a := a.(type) {
	case linkstate.Send:
		r.sendControl(a)
	case linkstate.Relay:
		r.relay()
	case linkstate.RouterAdded:
		r.addNode(a.ID, a.Index)
	case linkstate.RouterRemoved:
		r.removeNode(a.ID)
	case linkstate.RoutesChanged:
		for i := range a.Routes {
			r.setRoute(&a.Routes[i])
		}
		r.maxHops.Store(int32(a.Radius))
		if r.routing != nil {
			r.routing.CostsChanged()
		}
	case linkstate.RemoteAdded:
		if n := r.nodes[a.Router]; n != nil {
			r.mapAddress(addressKey(a.Key), n, a.Hint)
		}
	case linkstate.RemoteRemoved:
		if n := r.nodes[a.Router]; n != nil {
			r.unmapAddress(addressKey(a.Key), n)
		}
	case linkstate.RemotesFlushed:
		if n := r.nodes[a.Router]; n != nil {
			for key := range n.mapped {
				r.unmapAddress(key, n)
			}
		}
	case linkstate.Log:
		r.logf(string(a.Module), Level(a.Level), "%s", a.Text)
	}
}

// setRoute takes over how a node is reached.
func (r *Router) setRoute(info *linkstate.Node) {
	n := r.nodes[info.ID]
	if n == nil {
		return
	}
	rt := &nodeRoute{cost: int32(min(info.Cost, 1<<30)), origins: info.Origins, info: *info}
	if !rt.origins.Has(0) { // a neighbour without paths yet: our own messages may go there (IR 3.3)
		rt.origins = linkstate.Set{1}
	}
	if info.Reachable() {
		rt.via = r.near[info.Out]
	}
	if info.Link != 0 {
		if near := r.near[info.Link]; near != nil {
			near.id.Store(&n.id)
		}
	}
	r.setNodeRoute(n, rt)
}

// sendControl sends a control message on the control links it takes (IR 2.14).
func (r *Router) sendControl(s linkstate.Send) {
	msg := encodeControl(s.Address(), s.Message, r.node)
	switch s.Scope {
	case linkstate.ToAll, linkstate.ToAllMobile:
		r.flood(msg, nil)
		return
	}
	b := r.newBatch()
	if s.Scope == linkstate.ToNeighbours {
		for id, via := range r.near {
			if s.Link == 0 || s.Link == id {
				b.control(via, msg)
			}
		}
	} else if n := r.nodes[s.Router]; n != nil {
		if via := n.route.Load().via; via != nil {
			b.control(via, msg)
		}
	}
	b.run()
	b.done()
}

// openNeighbour makes the links of an inter-router connection that this end opened: control,
// then the data links by priority, each pair in a session of its own (IR 1.5).
func (r *Router) openNeighbour(c *Conn) {
	near := r.neighbourOf(c)
	if !c.o.Incoming {
		c.mu.Lock()
		for i := -1; i < priorities; i++ {
			capability := capRouterData
			if i < 0 {
				capability = capRouter
			}
			s, err := c.eng.Begin()
			if err != nil || c.dead {
				break
			}
			sess := &session{conn: c, s: s, frameSize: 256}
			s.Owner = sess
			r.attachRouterLink(near, sess, amqp.RoleReceiver, capability)
			r.attachRouterLink(near, sess, amqp.RoleSender, capability)
		}
		c.mu.Unlock()
	}
	r.touch(c)
}

func (r *Router) neighbourOf(c *Conn) *neighbour {
	if c.near == nil {
		c.near = &neighbour{c: c, link: linkstate.LinkID(c.o.ID)}
		r.near[c.near.link] = c.near
	}
	return c.near
}

// attachRouterLink attaches one link of our own, with the lock of its connection held.
func (r *Router) attachRouterLink(near *neighbour, sess *session, role amqp.Role, capability amqp.Symbol) *outLink {
	c := near.c
	l := sess.s.NewLink("qdlink."+RandomName(), role)
	caps := amqp.Raw(amqp.AppendSymbol(nil, capability))
	term := func() (*amqp.Source, *amqp.Target) {
		return &amqp.Source{Durable: amqp.Some(uint32(0)), ExpiryPolicy: "link-detach", Timeout: amqp.Some(uint32(0)), Capabilities: caps},
			&amqp.Target{Durable: amqp.Some(uint32(0)), ExpiryPolicy: "link-detach", Timeout: amqp.Some(uint32(0)), Capabilities: caps}
	}
	a := &amqp.Attach{
		SndSettleMode:  amqp.Some(amqp.SndSettleModeMixed),
		RcvSettleMode:  amqp.Some(amqp.RcvSettleModeFirst),
		MaxMessageSize: amqp.Some(uint64(0)),
	}
	a.Source, a.Target = term()
	id := r.NextIdentity()
	if role == amqp.RoleReceiver {
		in := &inLink{id: id, conn: c, sess: sess, l: l, capacity: c.o.LinkCapacity, attached: uint32(r.now() / 1e9)}
		near.adoptIn(in, capability)
		l.Owner = in
		r.addLink(in, nil)
	} else {
		out := &outLink{id: id, conn: c, sess: sess, l: l, capacity: int32(c.o.LinkCapacity), attached: uint32(r.now() / 1e9), zeroAt: r.now()}
		near.adoptOut(out, capability)
		l.Owner = out
		r.addLink(nil, out)
		l.Attach(a)
		return out
	}
	l.Attach(a)
	return nil
}

// adoptIn makes an in-link one from another router.
func (n *neighbour) adoptIn(in *inLink, capability amqp.Symbol) {
	in.anon, in.router, in.near = true, true, n
	in.control = capability == capRouter
	in.kind = linkStream
	switch {
	case in.control:
		in.kind, in.priority = linkControl, priorities-1
	case n.ins < priorities:
		in.kind, in.priority = linkData, uint32(n.ins)
		n.ins++
	default:
		in.priority = defaultPriority
	}
}

// adoptOut makes an out-link one to another router; beyond the ten data links it is a streaming
// link.
func (n *neighbour) adoptOut(out *outLink, capability amqp.Symbol) {
	out.near = n
	switch {
	case capability == capRouter:
		out.kind, out.priority = linkControl, priorities-1
	case n.outs < priorities:
		out.kind, out.priority = linkData, uint32(n.outs)
		n.outs++
	default:
		out.kind, out.priority = linkStream, defaultPriority
	}
}

// serveIn and serveOut put links to and from another router into service, once both ends are
// attached. The core runs them.
func (r *Router) serveIn(in *inLink) {
	c := in.conn
	c.mu.Lock()
	if !in.closed {
		in.up = true
		in.l.Grant(c.routerCapacity)
	}
	c.mu.Unlock()
	r.touch(c)
}

func (r *Router) serveOut(out *outLink) {
	c := out.conn
	c.mu.Lock()
	closed := out.closed
	if !closed {
		out.up = true
		out.credit.Store(int32(min(out.l.Credit(), 1<<30)))
	}
	c.mu.Unlock()
	if closed {
		return
	}
	near := out.near
	switch out.kind {
	case linkControl:
		near.control.Store(out)
		near.up = true
		r.step(linkstate.LinkUp{Link: near.link, Cost: int64(c.cost)})
	case linkData:
		near.data[out.priority].Store(out)
	case linkStream:
		b := r.newBatch()
		c.mu.Lock()
		c.drain(out, b)
		c.mu.Unlock()
		b.run()
		b.done()
	}
	r.touch(c)
}

// loseRouterLink takes a link to another router out of its tables.
func (r *Router) loseRouterLink(out *outLink) {
	near := out.near
	switch out.kind {
	case linkControl:
		if near.control.CompareAndSwap(out, nil) && near.up {
			near.up = false
			r.step(linkstate.LinkDown{Link: near.link})
		}
	case linkData:
		near.data[out.priority].CompareAndSwap(out, nil)
	case linkStream:
		near.c.mu.Lock()
		for i, x := range near.idle {
			if x == out {
				near.idle = append(near.idle[:i], near.idle[i+1:]...)
				break
			}
		}
		near.c.mu.Unlock()
	}
}

// closeNeighbour forgets the neighbour of a connection that has gone.
func (r *Router) closeNeighbour(c *Conn) {
	if c.near == nil {
		return
	}
	if c.near.up {
		c.near.up = false
		r.step(linkstate.LinkDown{Link: c.near.link})
	}
	delete(r.near, c.near.link)
}

// streamLink returns a link to a neighbour for one streamed message: an idle one, first in first
// out, or a new one (IR 1.8). It runs in readers, without any lock.
func (r *Router) streamLink(near *neighbour) *outLink {
	c := near.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil
	}
	for len(near.idle) > 0 {
		out := near.idle[0]
		near.idle = near.idle[1:]
		if !out.closed {
			return out
		}
	}
	if near.streams == nil {
		s, err := c.eng.Begin()
		if err != nil {
			return nil
		}
		near.streams = &session{conn: c, s: s, frameSize: 256}
		s.Owner = near.streams
	}
	return r.attachRouterLink(near, near.streams, amqp.RoleSender, capRouterData)
}

// idleStreams is how many idle streaming links a connection keeps; a sweep closes ten at most of
// those beyond (IR 1.8).
const idleStreams = 128

func (r *Router) scrubStreams() {
	keep := idleStreams
	if r.opts.TestHooks {
		keep = 2
	}
	for _, near := range r.near {
		c := near.c
		b := r.newBatch()
		c.mu.Lock()
		for n := 0; n < 10 && len(near.idle) > keep; n++ {
			out := near.idle[0]
			near.idle = near.idle[1:]
			c.closeOut(out, b)
			out.l.Detach(true, nil) // RT E67
			r.post(event{kind: eventLost, conn: c, out: out, lost: "Link detached"})
		}
		c.mu.Unlock()
		b.touch(c)
		b.run()
		b.done()
	}
}

// localDestination tells the network that an address has got its first local consumer, or lost
// its last (IR 2.12).
func (r *Router) localDestination(a *address, has bool) {
	has = has || a.exchange != nil // RT X6
	switch a.key.class() {
	case classMobile, classRouteIn, classRouteOut, classPatternIn, classPatternOut:
	default:
		return
	}
	if r.net == nil || has == a.advertised {
		return
	}
	a.advertised = has
	if has {
		r.step(linkstate.LocalAdded{Key: string(a.key), Treatment: treatmentOf(a.dist)})
	} else {
		r.step(linkstate.LocalRemoved{Key: string(a.key)})
	}
}

func treatmentOf(d Distribution) linkstate.Treatment {
	switch d {
	case Multicast:
		return linkstate.TreatMulticast
	case Closest:
		return linkstate.TreatClosest
	case Flood:
		return linkstate.TreatFlood
	case LinkBalanced:
		return linkstate.TreatLinkBalanced
	case Unavailable:
		return linkstate.TreatUnavailable
	}
	return linkstate.TreatBalanced
}

func distributionFrom(t linkstate.Treatment) (Distribution, bool) {
	switch t {
	case linkstate.TreatFlood:
		return Flood, true
	case linkstate.TreatMulticast:
		return Multicast, true
	case linkstate.TreatClosest:
		return Closest, true
	case linkstate.TreatBalanced:
		return Balanced, true
	case linkstate.TreatLinkBalanced:
		return LinkBalanced, true
	case linkstate.TreatUnavailable:
		return Unavailable, true
	}
	return Balanced, false
}
