package linkstate

import "math"

const unreached = math.MaxInt64

// A tree is the shortest-path tree from one origin. Slices are by router index.
type tree struct {
	dist []int64 // unreached without a path
	prev []int32 // predecessor; -1 for the origin and for what is unreached
}

// An edge is one direction of a link between two routers, seen from either end.
type edge struct {
	node int32
	cost int64
}

type edgeKey struct{ from, to int32 }

// A change is an edge that differs from what the trees were computed with. Cost 0 = no edge.
type change struct {
	edgeKey
	old, now int64
}

// Paths keeps the shortest-path tree of every origin, seen from router 0, which is this one.
// IR 3.2 defines the tree: the predecessor of a router is, among those on a cheapest path to
// it, the one nearest to the origin, then the one with the smallest id. Other routers compute
// the same trees, and valid origins only agree when all of them break ties in this way.
//
// After a change only the part of a tree that hangs on the changed edges is computed again.
// The memory this takes is 12 octets for each pair of routers.
type paths struct {
	ids     []string // by index; "" = not in use
	out, in [][]edge
	trees   []tree
	changes map[edgeKey]int64 // cost the trees know, of each edge set since
	stale   bool              // the trees have another size: start afresh

	// What the trees say, as of the last update.
	hops    []int32 // links crossed from router 0
	first   []int32 // neighbour through which router 0 reaches it, -1 = none
	radius  int
	under   []Set // by origin: the destinations it reaches through router 0
	origins []Set // by destination: its valid origins (IR 3.3), router 0 among them

	heap    []heapItem
	lost    []int32
	pending []change
	mark    []int64
}

type heapItem struct {
	dist int64
	node int32
}

// add takes router id in under a free index.
func (p *paths) add(index int, id string) {
	if index >= len(p.ids) {
		size := max(64, 2*len(p.ids))
		grow := size - len(p.ids)
		p.ids = append(p.ids, make([]string, grow)...)
		p.out = append(p.out, make([][]edge, grow)...)
		p.in = append(p.in, make([][]edge, grow)...)
		p.under = append(p.under, make([]Set, grow)...)
		p.origins = append(p.origins, make([]Set, grow)...)
		p.mark = make([]int64, size)
		p.trees = make([]tree, size)
		p.hops = make([]int32, size)
		p.first = make([]int32, size)
		p.stale = true
		if p.changes == nil {
			p.changes = make(map[edgeKey]int64)
		}
	}
	p.ids[index] = id
	p.origins[index] = Set{1}
	if !p.stale {
		p.trees[index] = newTree(len(p.ids), index)
		p.first[index] = -1
	}
}

// remove forgets a router that has no edges left.
func (p *paths) remove(index int) {
	if len(p.changes) > 0 {
		p.stale = true // its index may be another's before the trees hear of it
	}
	owned := make([]bool, len(p.ids))
	p.under[index].Each(func(d int) { p.flipOrigin(d, index, owned) })
	p.ids[index] = ""
	p.trees[index] = tree{}
	p.origins[index] = nil
	p.under[index] = nil
}

func newTree(size, origin int) tree {
	t := tree{dist: make([]int64, size), prev: make([]int32, size)}
	t.reset(origin)
	return t
}

func (t *tree) reset(origin int) {
	for i := range t.dist {
		t.dist[i], t.prev[i] = unreached, -1
	}
	t.dist[origin] = 0
}

// setPeers replaces the edges out of router from. Of two edges to one router the later counts.
func (p *paths) setPeers(from int, peers []edge) {
	for _, e := range peers {
		p.mark[e.node] = e.cost
	}
	kept := p.out[from][:0]
	for _, e := range p.out[from] {
		now := p.mark[e.node]
		p.mark[e.node] = 0
		if now != e.cost {
			p.note(edgeKey{int32(from), e.node}, e.cost)
			p.setIn(from, int(e.node), now)
		}
		if now != 0 {
			kept = append(kept, edge{e.node, now})
		}
	}
	for _, e := range peers {
		if cost := p.mark[e.node]; cost != 0 {
			p.mark[e.node] = 0
			p.note(edgeKey{int32(from), e.node}, 0)
			p.in[e.node] = append(p.in[e.node], edge{int32(from), cost})
			kept = append(kept, edge{e.node, cost})
		}
	}
	p.out[from] = kept
}

func (p *paths) note(k edgeKey, old int64) {
	if _, ok := p.changes[k]; !ok {
		p.changes[k] = old
	}
}

func (p *paths) setIn(from, to int, cost int64) {
	in := p.in[to]
	for i := range in {
		if int(in[i].node) != from {
			continue
		}
		if cost != 0 {
			in[i].cost = cost
			return
		}
		in[i] = in[len(in)-1]
		p.in[to] = in[:len(in)-1]
		return
	}
}

// listed reports whether a router other than this one and itself has an edge to index.
func (p *paths) listed(index int) bool {
	for _, e := range p.in[index] {
		if e.node != 0 && int(e.node) != index {
			return true
		}
	}
	return false
}

// update brings trees, hops, radius and valid origins up to the edges set. Replaced origin sets
// are new ones, so that those handed out stay as they are.
func (p *paths) update() {
	p.pending = p.pending[:0]
	routers := 0
	for _, id := range p.ids {
		if id != "" {
			routers++
		}
	}
	for k, old := range p.changes {
		if now := p.cost(k); now != old {
			p.pending = append(p.pending, change{k, old, now})
		}
	}
	clear(p.changes)
	// Repairing costs about as much for a change as for eight routers of a whole computation.
	afresh := p.stale || len(p.pending) > 8+routers/8
	if !afresh && len(p.pending) == 0 {
		return
	}
	p.stale = false

	moved := make([]bool, len(p.ids)) // origins whose row may be another
	for o := range p.ids {
		switch {
		case p.ids[o] == "":
		case afresh:
			p.compute(o)
			moved[o] = true
		default:
			moved[o] = p.repair(o)
		}
	}
	if moved[0] {
		p.walkOwn(moved)
	}
	owned := make([]bool, len(p.ids)) // origin sets that are new already
	for o := 1; o < len(p.ids); o++ {
		if moved[o] && p.ids[o] != "" {
			p.setRow(o, owned)
		}
	}
}

func (p *paths) cost(k edgeKey) int64 {
	for _, e := range p.out[k.from] {
		if e.node == k.to {
			return e.cost
		}
	}
	return 0
}

// compute builds the tree of an origin from nothing.
func (p *paths) compute(o int) {
	t := &p.trees[o]
	if len(t.dist) != len(p.ids) {
		*t = newTree(len(p.ids), o)
	} else {
		t.reset(o)
	}
	p.heap = append(p.heap[:0], heapItem{0, int32(o)})
	p.spread(t)
}

// repair brings the tree of an origin up to the pending changes. What hung on an edge that
// went away or became dearer is taken off first; then it, and what a new or cheaper edge leads
// to, finds its place as in Dijkstra's algorithm, the rest of the tree standing. What stays has
// no better predecessor than it had, unless one of those that moved is better. Moved tells
// whether anything changed.
func (p *paths) repair(o int) (moved bool) {
	t := &p.trees[o]
	p.lost = p.lost[:0]
	for _, c := range p.pending {
		if (c.now == 0 || c.now > c.old && c.old != 0) && t.prev[c.to] == c.from {
			p.cut(t, c.to)
		}
	}
	p.heap = p.heap[:0]
	moved = len(p.lost) > 0
	for _, v := range p.lost {
		for _, e := range p.in[v] {
			if t.dist[e.node] != unreached {
				p.relax(t, e.node, v, e.cost)
			}
		}
	}
	for _, c := range p.pending {
		if c.now != 0 && t.dist[c.from] != unreached {
			moved = p.relax(t, c.from, c.to, c.now) || moved
		}
	}
	p.spread(t)
	return moved
}

// cut takes v and all that hangs on it off the tree and adds them to p.lost.
func (p *paths) cut(t *tree, v int32) {
	todo := len(p.lost)
	t.dist[v], t.prev[v] = unreached, -1
	p.lost = append(p.lost, v)
	for ; todo < len(p.lost); todo++ {
		v := p.lost[todo]
		for _, e := range p.out[v] {
			if t.prev[e.node] == v {
				t.dist[e.node], t.prev[e.node] = unreached, -1
				p.lost = append(p.lost, e.node)
			}
		}
	}
}

// relax makes u the predecessor of v if that is cheaper, or as cheap and u comes first in the
// order of IR 3.2. Costs are at least 1, so nothing ties with the origin.
func (p *paths) relax(t *tree, u, v int32, cost int64) bool {
	d := t.dist[u] + cost
	if d > t.dist[v] {
		return false
	}
	if d == t.dist[v] {
		was := t.prev[v]
		if t.dist[u] > t.dist[was] || t.dist[u] == t.dist[was] && p.ids[u] >= p.ids[was] {
			return false
		}
		t.prev[v] = u
		return true
	}
	t.dist[v], t.prev[v] = d, u
	p.push(heapItem{d, v})
	return true
}

// spread carries on from the routers on the heap until nothing improves.
func (p *paths) spread(t *tree) {
	for len(p.heap) > 0 {
		it := p.pop()
		if it.dist != t.dist[it.node] {
			continue // found a cheaper path since
		}
		for _, e := range p.out[it.node] {
			p.relax(t, it.node, e.node, e.cost)
		}
	}
}

func (p *paths) push(it heapItem) {
	h := append(p.heap, it)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].dist <= it.dist {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = it
	p.heap = h
}

func (p *paths) pop() heapItem {
	h := p.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].dist < h[down].dist {
			down++
		}
		if h[down].dist >= last.dist {
			break
		}
		h[i], i = h[down], down
	}
	if len(h) > 0 {
		h[i] = last
	}
	p.heap = h
	return top
}

// walkOwn sets hops, first and radius from this router's own tree, and marks in moved the
// routers that came into or went out of reach: only a router in reach is a valid origin.
func (p *paths) walkOwn(moved []bool) {
	t := &p.trees[0]
	had := p.first
	p.first = make([]int32, len(p.ids))
	p.radius = 0
	for i := range p.first {
		p.first[i], p.hops[i] = -1, 0
	}
	var path []int32
	for i := 1; i < len(p.ids); i++ {
		path = path[:0]
		v := int32(i)
		for t.prev[v] >= 0 && p.first[v] < 0 {
			path = append(path, v)
			v = t.prev[v]
		}
		for j := len(path) - 1; j >= 0; j-- {
			w := path[j]
			p.first[w], p.hops[w] = p.first[t.prev[w]], p.hops[t.prev[w]]+1
			if t.prev[w] == 0 {
				p.first[w] = w
			}
			p.radius = max(p.radius, int(p.hops[w]))
		}
		if had[i] < 0 != (p.first[i] < 0) {
			moved[i] = true
		}
	}
}

// setRow finds the destinations that origin o reaches through this router, and notes o as a
// valid origin of exactly these.
func (p *paths) setRow(o int, owned []bool) {
	t := &p.trees[o]
	var row Set
	if p.first[o] >= 0 && t.prev[0] >= 0 {
		p.lost = append(p.lost[:0], 0)
		for todo := 0; todo < len(p.lost); todo++ {
			v := p.lost[todo]
			for _, e := range p.out[v] {
				if t.prev[e.node] == v {
					row = row.flip(int(e.node))
					p.lost = append(p.lost, e.node)
				}
			}
		}
	}
	was := p.under[o]
	p.under[o] = row
	for w := range max(len(row), len(was)) {
		var now, then uint64
		if w < len(row) {
			now = row[w]
		}
		if w < len(was) {
			then = was[w]
		}
		Set{now ^ then}.Each(func(i int) { p.flipOrigin(w<<6+i, o, owned) })
	}
}

// flipOrigin adds o to the valid origins of d or takes it away.
func (p *paths) flipOrigin(d, o int, owned []bool) {
	if !owned[d] {
		owned[d] = true
		p.origins[d] = append(Set(nil), p.origins[d]...)
	}
	p.origins[d] = p.origins[d].flip(o)
}
