package router

import (
	"fmt"
	"slices"
	"sync"

	"qdrouter/amqp"
)

// The core takes events in order and alone changes what they are about. One goroutine at a time
// is the core: the one that New starts for it, or a reader that has met something for the core to
// decide while nobody else was at it. What is said to belong to the core is guarded by coreMu.

type eventKind uint8

const (
	eventAttach eventKind = iota // the peer attached a link
	eventDetach                  // the peer detached one; it is out of service already
	eventLost                    // a link went with its session or connection
	eventCall                    // a function to run in the core
)

type event struct {
	kind   eventKind
	conn   *Conn
	in     *inLink // one of these two
	out    *outLink
	attach *amqp.Attach // good until the event is handled
	closed bool         // of the peer's detach
	err    *amqp.Error  // of it
	lost   string       // how the log line begins
	call   func()
}

// eventQueue is unbounded: what is in it is bounded by what peers have attached.
type eventQueue struct {
	mu     sync.Mutex
	events []event
	wake   chan struct{} // holds one token when there are events
	closed bool
}

func (r *Router) post(ev event) bool {
	q := &r.queue
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.events = append(q.events, ev)
	first := len(q.events) == 1
	q.mu.Unlock()
	if first {
		r.wakeCore()
	}
	return true
}

// call runs f in the core and waits for it. It must not be called from the core, nor with a
// connection locked.
func (r *Router) call(f func()) {
	done := make(chan struct{})
	if !r.post(event{kind: eventCall, call: func() { defer close(done); f() }}) {
		return
	}
	<-done
}

func (r *Router) runCore() {
	defer close(r.coreDone)
	for range r.queue.wake {
		for {
			r.coreMu.Lock()
			some, closed := r.handleQueued()
			r.writeTouched()
			r.coreMu.Unlock()
			if some {
				continue
			}
			if closed {
				return
			}
			break
		}
	}
}

// handleQueued handles what is in the queue now and reports whether there was something, and
// whether the queue takes nothing more.
func (r *Router) handleQueued() (some, closed bool) {
	r.queue.mu.Lock()
	events := r.queue.events
	r.queue.events, r.taken = r.taken[:0], nil
	closed = r.queue.closed
	r.queue.mu.Unlock()
	for i := range events {
		r.handle(&events[i])
	}
	some = len(events) > 0
	clear(events)
	r.taken = events
	return some, closed
}

// decide takes what a reader has met to the core. When the core is at rest the reader is the
// core until that is done: to wake another thread for it costs more than the work, and its
// answers would leave one by one. No connection may be locked.
func (r *Router) decide(b *batch) {
	if len(b.events) == 0 {
		return
	}
	if !r.coreMu.TryLock() {
		for i := range b.events {
			if ev := &b.events[i]; ev.attach != nil {
				a := ev.attach
				ev.attach = cloneAttach(a)
				a.Release()
			}
			r.post(b.events[i])
		}
	} else {
		if _, closed := r.handleQueued(); !closed {
			for i := range b.events {
				r.handle(&b.events[i])
				if a := b.events[i].attach; a != nil {
					a.Release()
				}
			}
		}
		r.moveTouched(b)
		r.coreMu.Unlock()
		r.queue.mu.Lock()
		if len(r.queue.events) > 0 { // posted meanwhile by one who found the core busy
			r.wakeCore()
		}
		r.queue.mu.Unlock()
	}
	clear(b.events)
	b.events = b.events[:0]
}

func (r *Router) wakeCore() {
	select {
	case r.queue.wake <- struct{}{}:
	default:
	}
}

// touch notes that the core has put something into a connection's output.
func (r *Router) touch(c *Conn) { r.touched[c] = struct{}{} }

func (r *Router) writeTouched() {
	b := r.newBatch()
	r.moveTouched(b)
	b.run()
	b.done()
}

// moveTouched makes a batch visit the connections that the core has touched.
func (r *Router) moveTouched(b *batch) {
	for c := range r.touched {
		b.touch(c)
	}
	clear(r.touched)
}

func (r *Router) handle(ev *event) {
	switch ev.kind {
	case eventAttach:
		if ev.in != nil {
			r.attachIn(ev.conn, ev.in, ev.attach)
		} else {
			r.attachOut(ev.conn, ev.out, ev.attach)
		}
		r.touch(ev.conn)
	case eventDetach:
		c := ev.conn
		if own := ev.ownOf(); own != nil {
			r.unbind(ev, "Link detached")
			own.told(func(o LinkOwner) { o.Detached(ev.closed, ev.err) })
			return
		}
		c.mu.Lock()
		if ev.in != nil {
			ev.in.l.Detach(ev.closed, nil) // RT E65
		} else {
			ev.out.l.Detach(ev.closed, nil)
		}
		c.mu.Unlock()
		r.touch(c)
		r.unbind(ev, "Link detached")
	case eventLost:
		r.unbind(ev, ev.lost)
		if own := ev.ownOf(); own != nil {
			own.told(func(o LinkOwner) { o.Lost(!ev.sessionEnded()) })
			own.owner = nil
		}
	case eventCall:
		ev.call()
	}
}

// unbind takes a link off its address and says so in the log (RT S2).
func (r *Router) unbind(ev *event, how string) {
	c := ev.conn
	var k linkCounts
	var id uint64
	var blocked bool
	if in := ev.in; in != nil {
		if in.removed {
			return
		}
		in.removed = true
		c.mu.Lock()
		in.up = false
		k, id, blocked = in.counts, in.id, in.blocked
		c.mu.Unlock()
		r.retire(c, in, nil)
		if a := in.addr.Load(); a != nil && in.bound {
			if a.endpoint {
				r.beatsFrom(c, false)
			}
			r.removeIn(a, in)
		}
	} else {
		out := ev.out
		if out.removed {
			return
		}
		out.removed = true
		c.mu.Lock()
		out.up = false
		k, id, blocked = out.counts, out.id, out.blocked
		c.mu.Unlock()
		r.retire(c, nil, out)
		if out.near != nil {
			r.loseRouterLink(out)
		}
		if out.bound {
			r.removeOut(out.addr, out)
		}
	}
	if r.opts.Log.Enabled("ROUTER_CORE", Info) {
		yes := "no"
		if blocked {
			yes = "yes"
		}
		r.logf("ROUTER_CORE", Info, "[C%d][L%d] %s: del=%d presett=%d psdrop=%d acc=%d rej=%d rel=%d mod=%d delay1=%d delay10=%d blocked=%s",
			c.o.ID, id, how, k.deliveries, k.presettled, k.dropped, k.accepted, k.rejected, k.released, k.modified, k.delayed1, k.delayed10, yes)
	}
}

// RemoteAttach makes the router's half of a link the peer attached; the core decides about it.
func (e engine) RemoteAttach(l *amqp.Link, a *amqp.Attach) *amqp.Error {
	c := e.Conn
	sess := l.Session.Owner.(*session)
	switch k := l.Owner.(type) { // the answer to our own attach
	case *inLink:
		if k.own != nil {
			e.b.post(attachedEvent(k.own, a))
		} else {
			e.b.post(event{kind: eventCall, call: func() { c.r.serveIn(k) }})
		}
		return nil
	case *outLink:
		if k.own != nil {
			e.b.post(attachedEvent(k.own, a))
		} else {
			e.b.post(event{kind: eventCall, call: func() { c.r.serveOut(k) }})
		}
		return nil
	}
	ev := event{kind: eventAttach, conn: c, attach: a}
	id := c.r.NextIdentity()
	if l.Role == amqp.RoleReceiver {
		ev.in = &inLink{id: id, conn: c, sess: sess, l: l, capacity: c.o.LinkCapacity, attached: e.b.second(), zeroAt: e.b.now,
			fallback: isFallback(a)}
		l.Owner = ev.in
	} else {
		ev.out = &outLink{id: id, conn: c, sess: sess, l: l, capacity: int32(c.o.LinkCapacity), attached: e.b.second(),
			settles: a.SndSettleMode.V == amqp.SndSettleModeSettled && a.SndSettleMode.Set, zeroAt: e.b.now,
			fallback: slices.Contains(sourceCapabilities(a), capFallback)}
		l.Owner = ev.out
	}
	c.r.addLink(ev.in, ev.out)
	e.b.post(ev)
	return nil
}

func cloneAttach(a *amqp.Attach) *amqp.Attach {
	var c amqp.Attach
	if _, err := c.Decode(a.Append(nil)); err != nil {
		panic(fmt.Sprintf("router: attach does not survive encoding: %v", err))
	}
	return &c
}

// RemoteDetach takes a link out of service at once; the core answers.
func (e engine) RemoteDetach(l *amqp.Link, d *amqp.Detach) {
	switch k := l.Owner.(type) {
	case *inLink:
		e.closeIn(k, e.b)
		e.b.post(event{kind: eventDetach, conn: e.Conn, in: k, closed: d.Closed, err: d.Error.Clone()})
	case *outLink:
		e.closeOut(k, e.b)
		e.b.postOut(event{kind: eventDetach, conn: e.Conn, out: k, closed: d.Closed, err: d.Error.Clone()})
	}
}

// LinkFailed takes out of service a link that the engine has detached.
func (e engine) LinkFailed(l *amqp.Link, err *amqp.Error) {
	switch k := l.Owner.(type) {
	case *inLink:
		e.closeIn(k, e.b)
		e.b.post(event{kind: eventDetach, conn: e.Conn, in: k, closed: true, err: err})
	case *outLink:
		e.closeOut(k, e.b)
		e.b.postOut(event{kind: eventDetach, conn: e.Conn, out: k, closed: true, err: err})
	}
	e.b.touch(e.Conn)
	e.r.logf("ROUTER_CORE", Info, "[C%d] link %q detached: %v", e.o.ID, l.Name, err)
}

// LinkFlow takes in credit for what we send, or a sender's word that it has drained.
func (e engine) LinkFlow(l *amqp.Link, f *amqp.Flow, drained uint32) {
	switch k := l.Owner.(type) {
	case *outLink:
		if l.Credit() > 0 {
			k.stalled, k.zeroAt, k.blocked = false, 0, false
		} else if k.zeroAt == 0 {
			k.zeroAt = e.b.now
		}
		k.drained = false
		if k.pair != nil {
			k.passCredit(e.b)
		}
		if k.up {
			e.readyOut()
			e.drain(k, e.b)
			e.b.touch(e.Conn)
		}
	case *inLink:
		if drained > 0 {
			if k.pair != nil {
				out := k.pair.out
				e.b.word(out.conn, linkWord{kind: wordDrained, out: out, n: drained})
			} else if k.withheld {
				k.pending += drained
				k.usedLocked(e.b.now)
			} else {
				k.creditLocked(drained)
			}
		}
	}
	if f.Echo {
		e.b.touch(e.Conn)
	}
}

// SessionFlow sends what waited for the session window.
func (e engine) SessionFlow(*amqp.Session) {
	if len(e.waiting) > 0 {
		e.readyOut()
		e.drainWaiting(e.b)
	}
	e.b.touch(e.Conn)
}
