package linkstate

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// A network is engines joined by links in memory, in virtual time. It carries control messages
// as IR 2.14 says routers do: floods and multicasts over the next hops not yet in the trace,
// unicasts over next hops; but see Send and Relay.
type network struct {
	now     time.Time
	queue   timeline
	serial  int
	routers []*simRouter
	byID    map[string]*simRouter
	cables  []*cable
	lastID  LinkID

	sent  map[string]int // messages put on a link, by opcode
	bytes int            // their size, estimated

	known graph // what trees are of
	trees map[string]reference
}

var epoch = time.Unix(1_700_000_000, 0)

func newNetwork() *network {
	return &network{now: epoch, byID: make(map[string]*simRouter), sent: make(map[string]int)}
}

type timed struct {
	at     time.Time
	serial int
	do     func()
}

type timeline []timed

func (q timeline) Len() int { return len(q) }
func (q timeline) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].serial < q[j].serial
}
func (q timeline) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timeline) Push(x any)   { *q = append(*q, x.(timed)) }
func (q *timeline) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = timed{}
	*q = old[:len(old)-1]
	return x
}

func (n *network) at(t time.Time, do func()) {
	n.serial++
	heap.Push(&n.queue, timed{t, n.serial, do})
}

func (n *network) after(d time.Duration, do func()) { n.at(n.now.Add(d), do) }

// run lets d go by.
func (n *network) run(d time.Duration) { n.runUntil(n.now.Add(d), func() bool { return false }) }

// runUntil lets time go by until end or until ok holds after an event; it reports whether it did.
func (n *network) runUntil(end time.Time, ok func() bool) bool {
	for len(n.queue) > 0 && !n.queue[0].at.After(end) {
		x := heap.Pop(&n.queue).(timed)
		n.now = x.at
		x.do()
		if ok() {
			return true
		}
	}
	n.now = end
	return ok()
}

// A cable joins two routers, or is cut. Its ends have link ids of their own.
type cable struct {
	a, b   *simRouter
	la, lb LinkID
	cost   int64
	delay  time.Duration
	up     bool
	// Trouble without loss of the connection: messages are lost, or wait until a time.
	deaf  bool
	until time.Time
	freeA time.Time // when the last message from a arrives: links keep order
	freeB time.Time
}

// A simRouter is an engine and what a router does with its actions.
type simRouter struct {
	net      *network
	id       string
	instance int64
	engine   *Engine
	life     int       // counts restarts, so that old ticks find nobody
	ticking  time.Time // the tick that is waiting
	cables   map[LinkID]*cable

	routes map[string]Node
	flood  []LinkID // connections in use by routes; nil = to be found
	names  map[int]string
	radius int
	remote map[string]map[string]Treatment // routers by address key
	local  map[string]Treatment
	logs   []Log
	keep   bool // logs
	old    bool // forwards control messages as 1.19 does
	spoken map[string]int
	lost   int // messages that had no way
}

func (n *network) add(id string) *simRouter {
	r := &simRouter{net: n, id: id, instance: n.now.Unix(), cables: make(map[LinkID]*cable), local: make(map[string]Treatment)}
	n.routers = append(n.routers, r)
	n.byID[id] = r
	r.start(0)
	return r
}

// start begins a life of the router; its first tick is due after a while.
func (r *simRouter) start(first time.Duration) {
	r.life++
	r.engine = New(Config{ID: r.id, Instance: r.instance, Enabled: func(Module, Level) bool { return r.keep }})
	r.flood = nil
	r.routes, r.names, r.radius = make(map[string]Node), make(map[int]string), 0
	r.remote = make(map[string]map[string]Treatment)
	r.spoken = make(map[string]int)
	life := r.life
	r.net.after(first, func() {
		if r.life == life {
			r.step(Tick{})
		}
	})
	for _, key := range slices.Sorted(maps.Keys(r.local)) {
		r.step(LocalAdded{key, r.local[key]})
	}
}

// restart ends all links and begins a new life with the next instance; the cables come back
// after a while.
func (r *simRouter) restart(down time.Duration) {
	for _, c := range r.net.cables {
		if c.up && (c.a == r || c.b == r) {
			r.net.cut(c, 0)
			r.net.after(down, func() { r.net.join(c) })
		}
	}
	r.instance++
	r.start(down / 2)
}

func (n *network) link(a, b *simRouter, cost int64, delay time.Duration) *cable {
	c := &cable{a: a, b: b, cost: cost, delay: delay}
	n.cables = append(n.cables, c)
	n.join(c)
	return c
}

func (n *network) join(c *cable) {
	if c.up {
		return
	}
	n.lastID += 2
	c.up, c.la, c.lb, c.freeA, c.freeB = true, n.lastID-1, n.lastID, n.now, n.now
	c.a.cables[c.la], c.b.cables[c.lb] = c, c
	c.a.step(LinkUp{c.la, c.cost})
	c.b.step(LinkUp{c.lb, c.cost})
}

// cut ends a cable; what is on it is lost. One end may notice later than the other.
func (n *network) cut(c *cable, later time.Duration) {
	if !c.up {
		return
	}
	c.up = false
	a, b, la, lb := c.a, c.b, c.la, c.lb
	delete(a.cables, la)
	delete(b.cables, lb)
	a.step(LinkDown{la})
	life := b.life
	n.after(later, func() {
		if b.life == life {
			b.step(LinkDown{lb})
		}
	})
}

// An envelope is a control message on its way.
type envelope struct {
	Send
	ingress string
	trace   []string
}

func (r *simRouter) step(ev Event) { r.relay(ev, nil) }

// relay takes an event to the engine; onward is what it may ask to be relayed.
func (r *simRouter) relay(ev Event, onward func()) {
	for _, a := range r.engine.Step(r.net.now, ev, nil) {
		if _, ok := a.(Relay); ok {
			onward()
		} else {
			r.carryOut(a)
		}
	}
	if due := r.engine.Due(); !due.IsZero() && !due.Equal(r.ticking) {
		r.ticking = due
		life := r.life
		r.net.at(due, func() {
			if r.life == life && !r.engine.Due().After(r.net.now) {
				r.step(Tick{})
			}
		})
	}
}

func (r *simRouter) carryOut(a Action) {
	switch a := a.(type) {
	case Send:
		r.spoken[a.Message.Opcode()]++
		r.forward(envelope{a, r.id, []string{r.id}}, 0)
	case RouterAdded:
		if r.names[a.Index] != "" || a.Index < 1 {
			panic(fmt.Sprintf("%s: index %d of %s is taken", r.id, a.Index, a.ID))
		}
		r.flood = nil
		r.routes[a.ID] = Node{ID: a.ID, Index: a.Index}
		r.names[a.Index] = a.ID
	case RouterRemoved:
		for key, at := range r.remote {
			if _, ok := at[a.ID]; ok {
				panic(fmt.Sprintf("%s: %s is still mapped to the removed %s", r.id, key, a.ID))
			}
		}
		delete(r.routes, a.ID)
		delete(r.names, a.Index)
	case RoutesChanged:
		r.radius, r.flood = a.Radius, nil
		for _, route := range a.Routes {
			if r.names[route.Index] != route.ID {
				panic(fmt.Sprintf("%s: a route to %s, which is not known", r.id, route.ID))
			}
			r.routes[route.ID] = route
		}
	case RemoteAdded:
		if r.remote[a.Key] == nil {
			r.remote[a.Key] = make(map[string]Treatment)
		}
		if _, ok := r.remote[a.Key][a.Router]; ok {
			panic(fmt.Sprintf("%s: %s mapped twice to %s", r.id, a.Key, a.Router))
		}
		r.remote[a.Key][a.Router] = a.Hint
	case RemoteRemoved:
		if _, ok := r.remote[a.Key][a.Router]; !ok {
			panic(fmt.Sprintf("%s: %s was not mapped to %s", r.id, a.Key, a.Router))
		}
		delete(r.remote[a.Key], a.Router)
	case RemotesFlushed:
		for _, at := range r.remote {
			delete(at, a.Router)
		}
	case Log:
		r.logs = append(r.logs, a)
	}
}

// outs lists the connections that lead to any of the routers that want accepts, without those
// whose neighbour is in the trace.
func (r *simRouter) outs(trace []string, want func(Node) bool) []LinkID {
	var outs []LinkID
	for _, route := range r.routes {
		c := r.cables[route.Out]
		if c != nil && !slices.Contains(outs, route.Out) && want(route) && !slices.Contains(trace, c.other(r).id) {
			outs = append(outs, route.Out)
		}
	}
	slices.Sort(outs)
	return outs
}

// from tells whether router ingress is a valid origin for a route; known is false for a stranger.
func (r *simRouter) from(ingress string) func(Node) bool {
	index := 0
	if ingress != r.id {
		route, known := r.routes[ingress]
		if !known {
			return func(Node) bool { return false }
		}
		index = route.Index
	}
	return func(n Node) bool { return n.Origins.Has(index) }
}

func (c *cable) other(r *simRouter) *simRouter {
	if c.a == r {
		return c.b
	}
	return c.a
}

func (r *simRouter) forward(m envelope, in LinkID) {
	var outs []LinkID
	switch m.Scope {
	case ToNeighbours:
		outs = slices.Sorted(maps.Keys(r.cables))
		if m.Link != 0 {
			outs = []LinkID{m.Link}
		}
	case ToAll:
		if r.flood == nil {
			r.flood = r.outs(nil, func(Node) bool { return true })
		}
		for _, out := range r.flood {
			if c := r.cables[out]; c != nil && !slices.Contains(m.trace, c.other(r).id) {
				outs = append(outs, out)
			}
		}
	case ToAllMobile:
		outs = r.outs(m.trace, func(n Node) bool { return r.old || r.from(m.ingress)(n) })
	default:
		if out := r.routes[m.Router].Out; out != 0 {
			outs = []LinkID{out}
		}
	}
	if len(outs) == 0 && m.Scope >= ToRouter {
		r.lost++
	}
	for _, out := range outs {
		r.put(out, m)
	}
}

func (r *simRouter) put(out LinkID, m envelope) {
	c := r.cables[out]
	if c == nil {
		r.lost++
		return
	}
	n := r.net
	n.sent[m.Message.Opcode()]++
	n.bytes += sizeOf(m.Message)
	if c.deaf {
		return
	}
	free, to, link := &c.freeA, c.b, c.lb
	if c.b == r {
		free, to, link = &c.freeB, c.a, c.la
	}
	at := n.now.Add(c.delay)
	for _, t := range []time.Time{*free, c.until} {
		if t.After(at) {
			at = t
		}
	}
	*free = at
	n.at(at, func() {
		if to.cables[link] == c {
			to.take(link, m)
		}
	})
}

// take handles a message that arrives.
func (r *simRouter) take(link LinkID, m envelope) {
	if m.Scope == ToNeighbours {
		r.step(Received{Link: link, Message: m.Message, Trace: len(m.trace)})
		return
	}
	onward := func() {
		r.forward(envelope{m.Send, m.ingress, append(slices.Clip(m.trace), r.id)}, link)
	}
	switch {
	case r.old && len(m.trace) > r.radius+1:
		r.lost++
	case r.old && m.Scope == ToAll:
		r.relay(Received{Link: link, Message: m.Message, Trace: len(m.trace)}, func() {})
		onward()
	case m.Scope == ToAll:
		r.relay(Received{Link: link, Message: m.Message, Trace: len(m.trace)}, onward)
	case m.Scope == ToAllMobile:
		r.step(Received{Link: link, Message: m.Message, Trace: len(m.trace)})
		onward()
	case m.Router == r.id:
		r.step(Received{Link: link, Message: m.Message, Trace: len(m.trace)})
	case len(m.trace) > 2*r.radius+4:
		r.lost++
	default:
		onward()
	}
}

// sizeOf estimates a control message on the wire: frame, transfer, headers with ids of ten
// octets, body.
func sizeOf(m Message) int {
	const envelope = 190
	size := envelope + 60
	switch m := m.(type) {
	case *Hello:
		size += 10 + 12*len(m.Seen)
	case *RA:
		size += 40
	case *LSU:
		size += 60 + 14*len(m.LinkState.Peers)
	case *MAU:
		for _, l := range [][]string{m.Add, m.Delete, m.Exist} {
			for _, key := range l {
				size += len(key) + 4
			}
		}
	}
	return size
}

func (r *simRouter) attach(key string, t Treatment) {
	r.local[key] = t
	r.step(LocalAdded{key, t})
}

func (r *simRouter) detach(key string) {
	delete(r.local, key)
	r.step(LocalRemoved{key})
}

// graph is what the cables are: of several between two routers the cheapest counts.
func (n *network) graph() graph {
	g := make(graph)
	for _, r := range n.routers {
		g[r.id] = make(map[string]int64)
	}
	for _, c := range n.cables {
		if was, ok := g[c.a.id][c.b.id]; c.up && !c.deaf && (!ok || c.cost < was) {
			g[c.a.id][c.b.id], g[c.b.id][c.a.id] = c.cost, c.cost
		}
	}
	return g
}

// wrong says what keeps the network from being as it should after quiet, "" if nothing: every
// router has the same link states, and next hops, costs and valid origins are those of brute
// force; every address is mapped exactly where it is attached; following next hops leads to
// every router without a loop; a multicast arrives everywhere once.
func (n *network) wrong() string {
	g := n.graph()
	if !maps.EqualFunc(g, n.known, maps.Equal[map[string]int64]) {
		n.known, n.trees = g, make(map[string]reference)
		for _, r := range n.sample() {
			n.trees[r.id] = g.tree(r.id)
		}
	}
	trees := n.trees
	for _, r := range n.routers {
		if s := r.wrongLinkState(g); s != "" {
			return s
		}
	}
	for _, r := range n.sample() {
		if s := r.wrongRoutes(trees); s != "" {
			return s
		}
		if s := r.wrongAddresses(trees); s != "" {
			return s
		}
		if s := r.wrongMulticast(trees); s != "" {
			return s
		}
	}
	return ""
}

// beyondRadius reports whether some router of 1.19 drops what is for it or goes through it,
// whatever the others do: its radius is that of its own tree, and the trees of others may have
// more hops at the same cost (IR 5.6).
func (n *network) beyondRadius() bool {
	g := n.graph()
	trees := make(map[string]reference)
	radius := make(map[string]int)
	for id := range g {
		trees[id] = g.tree(id)
		for _, hops := range trees[id].hops {
			radius[id] = max(radius[id], int(hops))
		}
	}
	for _, t := range trees {
		for id, hops := range t.hops {
			if n.byID[id].old && int(hops) > radius[id]+1 {
				return true
			}
		}
	}
	return false
}

// sample is all routers, or some twenty of them.
func (n *network) sample() []*simRouter {
	var some []*simRouter
	for i := 0; i < len(n.routers); i += 1 + len(n.routers)/21 {
		some = append(some, n.routers[i])
	}
	return some
}

// reach lists who can be reached from id, id first.
func (g graph) reach(id string) []string {
	ids, seen := []string{id}, map[string]bool{id: true}
	for i := 0; i < len(ids); i++ {
		for to := range g[ids[i]] {
			if !seen[to] {
				seen[to] = true
				ids = append(ids, to)
			}
		}
	}
	slices.Sort(ids[1:])
	return ids
}

func (r *simRouter) wrongLinkState(g graph) string {
	for _, id := range g.reach(r.id) {
		peers, seq := r.engine.peers, r.engine.lsSeq
		if id != r.id {
			o := r.engine.byID[id]
			if o == nil {
				return fmt.Sprintf("%s does not know %s", r.id, id)
			}
			peers, seq = o.peers, o.lsSeq
		}
		if want := r.net.byID[id].engine.lsSeq; seq != want {
			return fmt.Sprintf("%s has link state %d of %s, not %d", r.id, seq, id, want)
		}
		has := make(map[string]int64)
		for _, p := range peers {
			has[p.ID] = p.Cost
		}
		if !maps.Equal(has, g[id]) {
			return fmt.Sprintf("%s has peers %v of %s, not %v", r.id, has, id, g[id])
		}
	}
	return ""
}

func (r *simRouter) wrongRoutes(trees map[string]reference) string {
	own, radius := trees[r.id], 0
	for id, route := range r.routes {
		if _, ok := own.dist[id]; ok != (route.Out != 0) {
			return fmt.Sprintf("%s has route %+v, in reach: %t", r.id, route, ok)
		}
	}
	for id, dist := range own.dist {
		if id == r.id {
			continue
		}
		route, hop := r.routes[id], own.path(r.id, id)[0]
		radius = max(radius, int(own.hops[id]))
		if c := r.cables[route.Out]; c == nil || c.other(r).id != hop {
			return fmt.Sprintf("%s has route %+v, want next hop %s", r.id, route, hop)
		}
		if route.Cost != dist || route.Hops != int(own.hops[id]) || hop != id && route.NextHop != hop || hop == id && route.NextHop != "" {
			return fmt.Sprintf("%s has route %+v, want %s at cost %d", r.id, route, hop, dist)
		}
		for o := range own.dist {
			if _, ok := trees[o]; !ok || o == r.id {
				continue
			}
			want := false
			for at := id; at != o; {
				at = trees[o].prev[at]
				want = want || at == r.id
			}
			if route.Origins.Has(r.routes[o].Index) != want {
				return fmt.Sprintf("%s has %s as valid origin for %s: %t", r.id, o, id, !want)
			}
		}
		at, hops := r, 0
		for ; at.id != id && hops < len(trees); hops++ {
			at = at.cables[at.routes[id].Out].other(at)
		}
		if at.id != id {
			return fmt.Sprintf("next hops from %s to %s loop", r.id, id)
		}
	}
	if r.radius != radius {
		return fmt.Sprintf("%s has radius %d, want %d", r.id, r.radius, radius)
	}
	return ""
}

func (r *simRouter) wrongAddresses(trees map[string]reference) string {
	for id := range trees[r.id].dist {
		if id == r.id {
			continue
		}
		var has []string
		for key, at := range r.remote {
			if hint, ok := at[id]; ok {
				has = append(has, fmt.Sprint(key, hint))
			}
		}
		var want []string
		for key, hint := range r.net.byID[id].local {
			want = append(want, fmt.Sprint(key, hint))
		}
		sort.Strings(has)
		sort.Strings(want)
		if !slices.Equal(has, want) {
			return fmt.Sprintf("%s has at %s %v, want %v", r.id, id, has, want)
		}
	}
	return ""
}

// wrongMulticast sends a multicast from r to consumers everywhere: the trace excludes and the
// valid origins admit, so that one copy comes to each (IR 3.4).
func (r *simRouter) wrongMulticast(trees map[string]reference) string {
	copies := make(map[string]int)
	type copy struct {
		at    *simRouter
		trace []string
	}
	for todo := []copy{{r, nil}}; len(todo) > 0; todo = todo[1:] {
		at, trace := todo[0].at, append(slices.Clip(todo[0].trace), todo[0].at.id)
		if copies[at.id]++; copies[at.id] > 1 {
			return fmt.Sprintf("a multicast from %s comes to %s over %s too", r.id, at.id, strings.Join(trace, " "))
		}
		for _, out := range at.outs(trace, at.from(r.id)) {
			todo = append(todo, copy{at.cables[out].other(at), trace})
		}
	}
	if len(copies) != len(trees[r.id].dist) {
		return fmt.Sprintf("a multicast from %s comes to %d of %d routers", r.id, len(copies), len(trees[r.id].dist))
	}
	return ""
}
