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

	controlOnly bool     // takes messages from control links alone (RT E42)
	outstanding sync.Map // *neighbour to *atomic.Int64: unsettled deliveries under way there (RT F25)

	// Owned by the core.
	outs    []*outLink // only ever appended to in place; removal makes a new slice
	subs    []*subscriber
	remotes []*node
	pinned  bool // stays without anybody on it
	ins     map[*inLink]struct{}
}

// forwarding is who takes the deliveries of an address. It is immutable.
type forwarding struct {
	outs    []*outLink
	subs    []*subscriber
	remotes []*node
}

var noForwarding = &forwarding{}

// paths is the path count of RT "path count of an address".
func (f *forwarding) paths() int { return len(f.outs) + len(f.subs) + len(f.remotes) }

func (a *address) reachable() bool { return a.fwd.Load().paths() > 0 }

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
	return a
}

// store makes the core's view of an address the one that readers use. A router out of reach is
// no destination, though what it has consumers of is kept for its return (IR 9.3).
func (a *address) store() {
	remotes := a.remotes
	if slices.ContainsFunc(remotes, (*node).lost) {
		remotes = slices.DeleteFunc(slices.Clone(remotes), (*node).lost)
	}
	a.fwd.Store(&forwarding{outs: a.outs[:len(a.outs):len(a.outs)], subs: a.subs, remotes: remotes})
}

// publish stores, and gives withheld credit when the address has just become reachable.
func (r *Router) publish(a *address) {
	was := a.reachable()
	a.store()
	r.reopen(a, was)
}

// reopen gives withheld credit when an address that was not reachable now is (RT E45).
func (r *Router) reopen(a *address, was bool) {
	if was || !a.reachable() {
		return
	}
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
	if len(a.outs) != 0 || len(a.subs) != 0 || len(a.ins) != 0 || len(a.remotes) != 0 || a.pinned || a.gone.Load() {
		return
	}
	a.gone.Store(true)
	r.tableMu.Lock()
	delete(r.table, a.key)
	r.tableMu.Unlock()
}
