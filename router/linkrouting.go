package router

import "qdrouter/amqp"

// LinkRouting decides which links are routed, and where to (RT 3). There is one for a router,
// package linkroute's. The core calls its methods, one at a time; none may wait for anything.
type LinkRouting interface {
	// Route decides about a link that a peer attaches. nil leaves it to the address table. It keeps
	// nothing of the query; what it needs of the attach it keeps in a copy, which takes the attach's
	// place in the query.
	Route(q *LinkQuery) *RoutedLink
	// Learned tells that another router has begun to serve a link route, or has ceased to (IR
	// 2.13). key is that of the route's address; index tells routers apart and is 1 and up.
	Learned(key, router string, index int, serves bool)
	// CostsChanged tells that paths through the network have changed (RT L17).
	CostsChanged()
}

// LinkQuery is an attach to be decided about.
type LinkQuery struct {
	Attach      *amqp.Attach // the peer's
	Container   string       // the peer's container id
	Tenant      string       // of its connection, with the slash; "" for none
	InterRouter bool         // the peer is a router of the network

	// Reachable reports whether there is a way to a router.
	Reachable func(router string) bool
}

// RoutedLink says what becomes of an attach that is routed.
type RoutedLink struct {
	Refusal *amqp.Error // it is refused; all else is of no interest then

	// Where it goes: to a container at a connection of this router, or else towards a router.
	Conn   *Conn
	Router string

	// Attach is what the router attaches there: name and termini, link capabilities and properties.
	Attach *amqp.Attach
	// Answer returns what the peer is told, from the attach of the far end. It may change that.
	Answer func(far *amqp.Attach) *amqp.Attach
	// Survives says that the peer's terminus outlives its connection (RT L33).
	Survives bool
}

// SetLinkRouting puts link routing into force; it comes before the first connection.
func (r *Router) SetLinkRouting(l LinkRouting) {
	r.call(func() { r.routing, r.query.Reachable = l, r.reachableRouter })
}

// SetLinkRouteCount says how many link routes are configured, for the statistics.
func (k *Core) SetLinkRouteCount(n int) { k.r.linkRoutes.Store(int64(n)) }

// IsOpen reports whether a connection is open.
func (k *Core) IsOpen(number uint64) bool { return k.r.open.all[number] != nil }

// A RouteHold keeps the entry of a link route's address in the address table.
type RouteHold struct {
	r    *Router
	addr *address
}

// HoldRoute makes sure that a link route's address has an entry, until Release. key begins with
// C, D, E or F (RT E41).
func (k *Core) HoldRoute(key string) *RouteHold {
	h := &RouteHold{r: k.r, addr: k.r.addressFor(addressKey(key), LinkBalanced, -1)}
	h.addr.refs++
	return h
}

// Serve says how many connections of this router lead to containers that serve the route. The
// network is told when there are some, and when there are none any more (RT L2).
func (h *RouteHold) Serve(connections int) {
	was := h.addr.containers.Swap(int32(connections))
	if (was > 0) != (connections > 0) {
		h.r.localDestination(h.addr, connections > 0)
	}
}

// Release gives the entry up.
func (h *RouteHold) Release() {
	h.Serve(0)
	h.addr.refs--
	h.r.dropIfUnused(h.addr)
}

// reachable reports whether there is a way to a router.
func (r *Router) reachableRouter(id string) bool {
	n := r.nodes[id]
	return n != nil && !n.lost()
}

// nextHop returns the connection that leads to a router, nil when there is none.
func (r *Router) nextHop(id string) *Conn {
	if n := r.nodes[id]; n != nil {
		if via := n.route.Load().via; via != nil {
			return via.c
		}
	}
	return nil
}

// learned tells link routing of a route's address that another router has, or has no more.
func (r *Router) learned(a *address, n *node, serves bool) {
	switch a.key.class() {
	case classRouteIn, classRouteOut, classPatternIn, classPatternOut:
		if r.routing != nil {
			r.routing.Learned(string(a.key), n.id, n.index, serves)
		}
	}
}
