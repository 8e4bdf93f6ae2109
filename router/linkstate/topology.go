package linkstate

import (
	"slices"
	"strconv"
	"time"
)

// expire is the first step of the topology tick (IR 2.10): silent neighbours, aged link states,
// and records that nothing speaks for any more.
func (e *Engine) expire() {
	var gone []*node
	for _, n := range e.nodes {
		e.expireLinks(n)
		if len(n.peers) > 0 && e.now.Sub(n.seen) > e.cfg.RemoteLSMaxAge {
			e.setPeers(n, nil, 0)
			n.raLSSeq = 0 // its advertisement is as old: there is no point in asking again
		}
		if len(n.peers) == 0 && n.link == nil && !e.paths.listed(n.index) {
			if n.keepAlive++; n.keepAlive > 2 {
				gone = append(gone, n)
			}
		}
	}
	if len(gone) > 0 {
		e.nodes = slices.DeleteFunc(e.nodes, func(n *node) bool { return slices.Contains(gone, n) })
		for _, n := range gone {
			e.forget(n)
		}
	}
}

// scheduleCompute asks for a tick that computes paths before the next one that does everything.
func (e *Engine) scheduleCompute() {
	if e.computeAt.IsZero() {
		e.computeAt = e.now.Add(computeDelay * time.Duration(1+len(e.nodes)/computeSize))
	}
}

// settle brings paths and our own link state up to what changed (IR 2.10 steps 2 to 4). It
// reports whether our own link state changed, which must then be advertised.
func (e *Engine) settle() (advertise bool) {
	if e.ownChanged {
		e.ownChanged, advertise = false, true
		e.lsSeq++
		if e.enabled(ModuleLS, Trace) {
			e.logf(ModuleLS, Trace, "Local Link State: %s", LinkState{e.cfg.ID, Area, e.lsSeq, e.peers})
		}
	}
	e.compute()
	return advertise
}

// compute brings paths up to the link states, if any changed. 1.19 does so with the tick only;
// every hop of a topology that is new to a router then costs it a second or two.
func (e *Engine) compute() bool {
	e.computeAt = time.Time{}
	if !e.recompute {
		return false
	}
	e.recompute = false
	e.lastChange = e.now
	if !e.flux {
		e.flux = true
		e.logf(ModuleRouter, Trace, "Entered Router Flux Mode")
	}
	e.paths.update()
	e.takePaths()
	e.showRoutes()
	return true
}

// takePaths enters in the records what the paths say. A router that came out of reach is
// withdrawn: what 1.19 keeps of its path would only lead in circles (IR 9.3).
func (e *Engine) takePaths() {
	e.radius = e.paths.radius
	for _, n := range e.nodes {
		first := e.paths.first[n.index]
		if first < 0 {
			n.nextHop, n.cost, n.hops, n.origins, n.inbound = nil, 0, 0, nil, -1
			continue
		}
		hop := e.byIndex[first]
		if hop == n {
			hop = nil
		}
		if hop != n.nextHop {
			n.nextHop = hop
			if hop == nil {
				e.logf(ModuleRouter, Trace, "Node %s next hop removed", n.id)
			} else {
				e.logf(ModuleRouter, Trace, "Node %s next hop set: %s", n.id, hop.id)
			}
		}
		n.hops = int(e.paths.hops[n.index])
		n.inbound = int(e.paths.trees[n.index].prev[0])
		if o := e.paths.origins[n.index]; !sameSet(o, n.origins) {
			n.origins = o
			if e.enabled(ModuleRouter, Trace) {
				e.logf(ModuleRouter, Trace, "Node %s valid origins: %s", n.id, idList(e.originIDs(o)))
			}
		}
		if cost := e.paths.trees[0].dist[n.index]; cost != n.cost {
			n.cost = cost
			e.logf(ModuleRouter, Trace, "Node %s cost: %d", n.id, cost)
		}
	}
	e.logPaths()
}

// logPaths writes the four lines in which 1.19 tells what it computed. Beyond the size that 1.19
// could reach they are short.
func (e *Engine) logPaths() {
	if !e.enabled(ModuleLS, Info) {
		return
	}
	var reached []*node
	origins := 0
	for _, n := range e.nodes {
		if e.paths.first[n.index] >= 0 {
			reached = append(reached, n)
			origins += n.origins.Len() - 1
		}
	}
	line := func(what string, items int, value func(n *node) string) {
		if items > 127*127 {
			e.logf(ModuleLS, Info, "Computed %s: %d routers", what, len(reached))
			return
		}
		e.logf(ModuleLS, Info, "Computed %s: %s", what, braces(len(reached), func(i int) string {
			return quote(reached[i].id) + ": " + value(reached[i])
		}))
	}
	line("next hops", len(reached), func(n *node) string { return quote(e.byIndex[e.paths.first[n.index]].id) })
	line("costs", len(reached), func(n *node) string { return strconv.FormatInt(n.cost, 10) })
	line("valid origins", origins, func(n *node) string { return idList(e.originIDs(n.origins)) })
	e.logf(ModuleLS, Info, "Computed radius: %d", e.radius)
}

// showRoutes tells the owner of every route that is another than it knows.
func (e *Engine) showRoutes() {
	var changed []Node
	for _, n := range e.nodes {
		r := Node{ID: n.id, Index: n.index, Out: n.out(), Inbound: -1}
		if n.link != nil {
			r.Link = n.link.id
		}
		if r.Out != 0 {
			if r.Out != r.Link {
				r.NextHop = n.nextHop.id
			}
			r.Cost, r.Hops, r.Origins, r.Inbound = n.cost, n.hops, n.origins, n.inbound
			if n.cost == 0 { // a neighbour the paths do not know yet
				r.Cost = n.link.cost
			}
		}
		was := &n.route
		if r.Out != was.Out || r.Link != was.Link || r.NextHop != was.NextHop || r.Cost != was.Cost || r.Hops != was.Hops ||
			r.Inbound != was.Inbound || !sameSet(r.Origins, was.Origins) {
			n.route = r
			changed = append(changed, r)
		}
	}
	if len(changed) > 0 || e.radius != e.shownRadius {
		e.shownRadius = e.radius
		e.do(RoutesChanged{changed, e.radius})
	}
}

func sameSet(a, b Set) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// request asks the routers in reach for what they have that we lack (IR 2.10 step 5), and gives
// them what they asked for before. An
// advertisement that stays unmatched shows that a request or its answer got lost on a path that
// was being replaced; 1.19 finds out at the next advertisement only.
func (e *Engine) request() {
	for _, n := range e.nodes {
		if n.out() == 0 {
			continue
		}
		if n.owedLSU {
			e.sendLSU(n)
		}
		if n.needLSR || n.lsSeq < n.raLSSeq && e.now.Sub(n.lsrAt) >= lsrRetry {
			n.needLSR = false
			e.sendLSR(n)
		}
		if n.needMAR || n.mobileSeq < n.raMobileSeq && e.now.Sub(n.marAt) >= marRetry {
			n.needMAR = false
			e.sendMAR(n)
		}
	}
}

// inFlux reports whether the topology changed lately, so that advertisements are frequent.
func (e *Engine) inFlux() bool {
	if !e.lastChange.IsZero() && e.now.Sub(e.lastChange) <= 2*e.cfg.RAIntervalFlux {
		return true
	}
	if e.flux {
		e.flux = false
		e.logf(ModuleRouter, Trace, "Exited Router Flux Mode")
	}
	return false
}
