package router

import (
	"bytes"
	"sync/atomic"

	"qdrouter/router/linkstate"
)

// node is another router of the network (IR 2.9).
type node struct {
	id    string
	index int      // 1 and up; this router is 0
	addr  *address // its R address
	route atomic.Pointer[nodeRoute]

	mapped map[addressKey]struct{} // addresses it has consumers of; owned by the core
}

// nodeRoute is how a node is reached now. It is immutable.
type nodeRoute struct {
	via  *neighbour // nil = not reachable
	cost int32
	// origins are the indexes of the routers whose messages to this node come through here,
	// this router's own index 0 among them (IR 3.3).
	origins linkstate.Set
	info    linkstate.Node
}

var noRoute = &nodeRoute{}

// neighbour is the router at the other end of an inter-router connection, and the links that
// messages to it take. Priorities beyond those it has use the next lower one (IR 1.5).
type neighbour struct {
	c       *Conn
	link    linkstate.LinkID
	id      atomic.Pointer[string]
	control atomic.Pointer[outLink]
	data    [priorities]atomic.Pointer[outLink]

	up bool // the link state knows of it; owned by the core

	// Guarded by c.mu.
	outs, ins int      // data links attached so far
	streams   *session // of the streaming links that this end makes
	idle      []*outLink
}

const (
	priorities      = 10
	defaultPriority = 4
)

// dataLink returns the link for messages of that priority, nil when there is none.
func (n *neighbour) dataLink(priority int) *outLink {
	for p := priority; p >= 0; p-- {
		if out := n.data[p].Load(); out != nil {
			return out
		}
	}
	return nil
}

// routerID takes the area off an entry of ingress or trace.
func routerID(entry []byte) []byte {
	if i := bytes.IndexByte(entry, '/'); i >= 0 {
		return entry[i+1:]
	}
	return entry
}

// knownNodes is the set of other routers by id, as readers see it. It is immutable.
type knownNodes map[string]*node

// originOf returns the index of the router that an ingress or trace entry names.
func (r *Router) originOf(entry []byte) (index int, ok bool) {
	id := routerID(entry)
	if string(id) == r.opts.ID {
		return 0, true
	}
	if n := (*r.nodesView.Load())[string(id)]; n != nil {
		return n.index, true
	}
	return 0, false
}

// The functions below belong to the core.

// lost reports whether there is no way to the node now.
func (n *node) lost() bool { return n.route.Load().via == nil }

// setNodeRoute takes over how a node is reached. What it is a destination of changes when it comes
// into reach or goes out of it.
func (r *Router) setNodeRoute(n *node, rt *nodeRoute) {
	was := n.lost()
	n.route.Store(rt)
	if n.lost() == was {
		return
	}
	r.publish(n.addr)
	for _, a := range r.floods {
		r.publish(a)
	}
	for key := range n.mapped {
		r.publish(r.table[key])
	}
}

// addNode makes a record of another router and its R address.
func (r *Router) addNode(id string, index int) {
	n := &node{id: id, index: index, mapped: make(map[addressKey]struct{})}
	n.route.Store(noRoute)
	n.addr = r.addressFor(classKey(classRouter, id), Closest, -1)
	n.addr.pinned = true
	n.addr.remotes = []*node{n}
	r.publish(n.addr)
	r.nodes[id] = n
	r.publishNodes()
	for _, a := range r.floods {
		a.remotes = append(a.remotes[:len(a.remotes):len(a.remotes)], n)
		r.publish(a)
	}
}

// removeNode forgets a router. Its addresses are unmapped already.
func (r *Router) removeNode(id string) {
	n := r.nodes[id]
	if n == nil {
		return
	}
	delete(r.nodes, id)
	r.publishNodes()
	n.route.Store(noRoute)
	for _, a := range append(r.floods[:len(r.floods):len(r.floods)], n.addr) {
		a.removeRemote(n)
		r.publish(a)
	}
	n.addr.pinned = false
	r.dropIfUnused(n.addr)
}

func (r *Router) publishNodes() {
	k := make(knownNodes, len(r.nodes))
	for id, n := range r.nodes {
		k[id] = n
	}
	r.nodesView.Store(&k)
}

func (a *address) removeRemote(n *node) bool {
	for i, x := range a.remotes {
		if x == n {
			remotes := make([]*node, 0, len(a.remotes)-1)
			remotes = append(remotes, a.remotes[:i]...)
			a.remotes = append(remotes, a.remotes[i+1:]...)
			return true
		}
	}
	return false
}

// mapAddress notes that a router has consumers of an address (IR 2.13).
func (r *Router) mapAddress(key addressKey, n *node, hint linkstate.Treatment) {
	dist, hinted := distributionFrom(hint)
	if !hinted {
		dist = r.opts.DefaultDistribution
	}
	priority := int32(-1)
	if key.class() == classMobile {
		if cfg := r.configFor(key.text()); cfg != nil {
			if cfg.Distribution == Unavailable {
				return
			}
			dist, priority = cfg.Distribution, int32(cfg.Priority)
		}
	}
	switch key.class() {
	case classRouteIn, classRouteOut, classPatternIn, classPatternOut:
		dist = LinkBalanced
	}
	if dist == Unavailable || key.class() == classMobile && key[1] == phaseFallback {
		dist = Balanced // RT F6, F42
	}
	a := r.addressFor(key, dist, priority)
	for _, x := range a.remotes {
		if x == n {
			return
		}
	}
	a.remotes = append(a.remotes[:len(a.remotes):len(a.remotes)], n)
	n.mapped[key] = struct{}{}
	r.publish(a)
	r.learned(a, n, true)
}

// unmapAddress takes a router off an address.
func (r *Router) unmapAddress(key addressKey, n *node) {
	delete(n.mapped, key)
	a := r.table[key]
	if a == nil || !a.removeRemote(n) {
		return
	}
	r.learned(a, n, false)
	r.publish(a)
	r.dropIfUnused(a)
}
