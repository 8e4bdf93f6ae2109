package router

import (
	"slices"
	"sync"
	"sync/atomic"
)

// address is one entry of the address table.
type address struct {
	key      addressKey
	dist     Distribution
	priority int32 // 0..9, -1 = none
	order    uint64
	endpoint bool // a function of the router; not for anonymous links (RT X9)

	// Read by every reader that forwards to the address.
	fwd  atomic.Pointer[forwarding]
	next atomic.Uint32 // rotates over consumers
	gone atomic.Bool   // no longer in the table; look the key up again

	ingress, egress, transit, toContainer, fromContainer atomic.Uint64
	ingressRouteContainer, egressRouteContainer          atomic.Uint64

	redirected atomic.Uint64 // to the fallback (RT F43)

	containers  atomic.Int32 // connections that serve a link route
	controlOnly bool         // takes messages from control links alone (RT E42)
	outstanding sync.Map     // *neighbour to *atomic.Int64: unsettled deliveries under way there (RT F25)

	// Owned by the core.
	outs    []*outLink // only ever appended to in place; removal makes a new slice
	subs    []*subscriber
	remotes []*node
	pinned  bool // stays without anybody on it
	ins     map[*inLink]struct{}

	fallback    *address // takes what this one cannot (RT F42)
	fallbackFor *address // the other way round
	advertised  bool     // the network knows of a destination here
	exchange    *exchange
	refs        int // next hops and alternates that lead here, AddressHolds and RouteHolds
}

// forwarding is who takes the deliveries of an address. It is immutable.
type forwarding struct {
	outs    []*outLink
	subs    []*subscriber
	remotes []*node

	exchange *exchangeView // sends on what comes here; nil mostly
	bound    int           // bindings and alternate of the exchange
	fallback *hop          // takes what nobody above takes; nil mostly
}

// hop is another address that messages are sent on to, and what x-opt-qd.to and x-opt-qd.phase
// of them say.
type hop struct {
	addr  *address
	to    []byte
	phase byte
}

// sendOn makes copies of the message tell that they are for h.
func (m *message) sendOn(h *hop) { m.onward, m.notes.to, m.notes.phase = true, h.to, h.phase }

var noForwarding = &forwarding{}

// paths is the path count of RT "path count of an address".
func (f *forwarding) paths() int { return len(f.outs) + len(f.subs) + len(f.remotes) + f.bound }

func (a *address) reachable() bool { return a.fwd.Load().paths() > 0 }

// deliverable reports whether there is, or may be, somebody to take what is sent to the address
// (RT E44).
func (a *address) deliverable() bool {
	f := a.fwd.Load()
	return f.paths() > 0 || f.fallback != nil && f.fallback.addr.reachable()
}

// subscriber is a consumer within this process (RT 5.3).
type subscriber struct {
	addr    *address
	handler func(*Request)
}

// lookup returns the table entry of a key, nil when there is none. Any goroutine may call it.
func (r *Router) lookup(key addressKey) *address {
	r.tableMu.RLock()
	a := r.table[key]
	r.tableMu.RUnlock()
	return a
}

// The methods below belong to the core.

func (r *Router) addressFor(key addressKey, dist Distribution, priority int32) *address {
	if a := r.table[key]; a != nil {
		return a
	}
	if key.class() == classRouter {
		dist = Closest // RT F30
	}
	r.order++
	a := &address{key: key, dist: dist, priority: priority, order: r.order}
	a.fwd.Store(noForwarding)
	r.tableMu.Lock()
	r.table[key] = a
	r.tableMu.Unlock()
	r.pairFallback(a)
	return a
}

// store makes the core's view of an address the one that readers use. A router out of reach is
// no destination, though what it has consumers of is kept for its return (IR 9.3).
func (a *address) store() {
	remotes := a.remotes
	if slices.ContainsFunc(remotes, (*node).lost) {
		remotes = slices.DeleteFunc(slices.Clone(remotes), (*node).lost)
	}
	f := &forwarding{outs: a.outs[:len(a.outs):len(a.outs)], subs: a.subs, remotes: remotes}
	if a.fallback != nil {
		f.fallback = &hop{addr: a.fallback, to: []byte(a.key.text()), phase: phaseFallback - '0'}
	}
	if x := a.exchange; x != nil {
		f.exchange, f.bound = x.view, len(x.bindings)
		if x.alternate != nil {
			f.bound++
		}
	}
	a.fwd.Store(f)
}

// publish stores, and gives withheld credit when the address has just become reachable.
func (r *Router) publish(a *address) {
	was := a.reachable()
	a.store()
	r.reopen(a, was)
}

// reopen gives withheld credit when an address that was not reachable now is, to those who send
// to it and to those whose fallback it is (RT E45).
func (r *Router) reopen(a *address, was bool) {
	if was || !a.reachable() {
		return
	}
	r.reopenLinks(a)
	if a.fallbackFor != nil {
		r.reopenLinks(a.fallbackFor)
	}
}

func (r *Router) reopenLinks(a *address) {
	for in := range a.ins {
		c := in.conn
		c.mu.Lock()
		in.reopenLocked()
		c.mu.Unlock()
		r.touch(c)
	}
}

func (r *Router) removeOut(a *address, out *outLink) {
	for i, o := range a.outs {
		if o == out {
			outs := make([]*outLink, 0, len(a.outs)-1)
			outs = append(outs, a.outs[:i]...)
			a.outs = append(outs, a.outs[i+1:]...)
			r.publish(a)
			if len(a.outs) == 0 {
				r.localDestination(a, false)
			}
			break
		}
	}
	r.dropIfUnused(a)
}

func (r *Router) removeIn(a *address, in *inLink) {
	delete(a.ins, in)
	r.dropIfUnused(a)
}

func (a *address) addIn(in *inLink) {
	if a.ins == nil {
		a.ins = make(map[*inLink]struct{})
	}
	a.ins[in] = struct{}{}
}

// dropIfUnused removes an entry that nothing refers to any more (RT F7).
func (r *Router) dropIfUnused(a *address) {
	if len(a.outs) != 0 || len(a.subs) != 0 || len(a.ins) != 0 || len(a.remotes) != 0 || a.pinned || a.fallbackFor != nil || a.exchange != nil || a.refs != 0 || a.gone.Load() {
		return
	}
	a.gone.Store(true)
	r.tableMu.Lock()
	delete(r.table, a.key)
	r.tableMu.Unlock()
	if f := a.fallback; f != nil {
		f.fallbackFor = nil
		r.dropIfUnused(f)
	}
}
