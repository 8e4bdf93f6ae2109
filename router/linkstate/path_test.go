package linkstate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A graph is the cost of every edge, by router ids: what link states say.
type graph map[string]map[string]int64

// topology reads links as "A-B:cost" both ways, "A>B:cost" one way; the cost is 1 if not given.
func topology(text string) graph {
	g := make(graph)
	set := func(a, b string, cost int64) {
		for _, id := range []string{a, b} {
			if g[id] == nil {
				g[id] = make(map[string]int64)
			}
		}
		g[a][b] = cost
	}
	for _, word := range strings.Fields(text) {
		ends, c, given := strings.Cut(word, ":")
		cost := int64(1)
		if given {
			cost, _ = strconv.ParseInt(c, 10, 64)
		}
		if a, b, ok := strings.Cut(ends, ">"); ok {
			set(a, b, cost)
		} else {
			a, b, _ := strings.Cut(ends, "-")
			set(a, b, cost)
			set(b, a, cost)
		}
	}
	return g
}

type reference struct {
	dist, hops map[string]int64
	prev       map[string]string
}

// tree follows IR 3.2 word for word: it resolves the router of lowest cost, then smallest id,
// and replaces cost and predecessor of its unresolved peers when that is strictly cheaper.
func (g graph) tree(root string) reference {
	r := reference{map[string]int64{root: 0}, map[string]int64{root: 0}, map[string]string{}}
	resolved := map[string]bool{}
	for {
		u, found := "", false
		for id, d := range r.dist {
			if !resolved[id] && (!found || d < r.dist[u] || d == r.dist[u] && id < u) {
				u, found = id, true
			}
		}
		if !found {
			return r
		}
		resolved[u] = true
		for v, cost := range g[u] {
			if resolved[v] {
				continue
			}
			if d, ok := r.dist[v]; !ok || r.dist[u]+cost < d {
				r.dist[v], r.hops[v], r.prev[v] = r.dist[u]+cost, r.hops[u]+1, u
			}
		}
	}
}

// path lists the routers from root, not included, to id.
func (r reference) path(root, id string) []string {
	var path []string
	for ; id != root; id = r.prev[id] {
		path = append(path, id)
	}
	slices.Reverse(path)
	return path
}

// routes gives next hop, cost, hops and valid origins of every router in reach of self, and the
// radius (IR 3.2, 3.3).
func (g graph) routes(self string) (map[string]string, int) {
	own := g.tree(self)
	origins := map[string][]string{}
	for o := range own.prev {
		t := g.tree(o)
		for d := range t.prev {
			if p := t.path(o, d); slices.Contains(p[:len(p)-1], self) {
				origins[d] = append(origins[d], o)
			}
		}
	}
	routes, radius := map[string]string{}, 0
	for d := range own.prev {
		slices.Sort(origins[d])
		routes[d] = fmt.Sprintf("%s cost %d hops %d from %s", own.path(self, d)[0], own.dist[d], own.hops[d], strings.Join(origins[d], ","))
		radius = max(radius, int(own.hops[d]))
	}
	return routes, radius
}

// A world feeds a graph to paths, with the router ids in no particular order of indexes.
type world struct {
	p     paths
	index map[string]int
}

func newWorld(self string) *world {
	w := &world{index: map[string]int{self: 0}}
	w.p.add(0, self)
	return w
}

func (w *world) set(g graph) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(g))) {
		if _, ok := w.index[id]; !ok {
			w.index[id] = len(w.index)
			w.p.add(w.index[id], id)
		}
	}
	for id, index := range w.index {
		var edges []edge
		for to, cost := range g[id] {
			edges = append(edges, edge{int32(w.index[to]), cost})
		}
		w.p.setPeers(index, edges)
	}
	w.p.update()
}

func (w *world) routes() (map[string]string, int) {
	routes := map[string]string{}
	for id, i := range w.index {
		if i == 0 || w.p.first[i] < 0 {
			continue
		}
		var from []string
		w.p.origins[i].Each(func(o int) {
			if o > 0 {
				from = append(from, w.p.ids[o])
			}
		})
		slices.Sort(from)
		routes[id] = fmt.Sprintf("%s cost %d hops %d from %s", w.p.ids[w.p.first[i]], w.p.trees[0].dist[i], w.p.hops[i], strings.Join(from, ","))
	}
	return routes, w.p.radius
}

// IR 3.2 and 3.3: next hops, ties, costs, radius and valid origins, seen from R1.
func TestPaths(t *testing.T) {
	tests := []struct {
		name, topo string
		radius     int
		want       map[string]string
	}{
		{"alone", "", 0, map[string]string{}},
		{"line", "R1-R2 R2-R3", 2, map[string]string{"R2": "R2 cost 1 hops 1 from ", "R3": "R2 cost 2 hops 2 from "}},
		{"ring of four as seen on the wire", "R1-R2 R2-R3 R3-R4 R4-R1", 2, map[string]string{
			"R2": "R2 cost 1 hops 1 from R4", "R3": "R2 cost 2 hops 2 from ", "R4": "R4 cost 1 hops 1 from R2"}},
		{"cheap detour beats dear link, also to a neighbour", "R1-R3:9 R1-R2 R2-R3", 2, map[string]string{
			"R2": "R2 cost 1 hops 1 from ", "R3": "R2 cost 2 hops 2 from "}},
		{"of equal costs the predecessor nearer to the origin wins, whatever its id", "R1-R9:1 R1-R2:2 R9-R5:3 R2-R5:2", 2, map[string]string{
			"R9": "R9 cost 1 hops 1 from R2", "R2": "R2 cost 2 hops 1 from R9", "R5": "R9 cost 4 hops 2 from "}},
		{"then the smaller id, bytewise", "R1-b R1-B B-z b-z", 2, map[string]string{
			"b": "b cost 1 hops 1 from B", "B": "B cost 1 hops 1 from b", "z": "B cost 2 hops 2 from "}},
		{"costs have a direction", "R1>R2:1 R2>R1:7 R2-R3 R1-R3:5", 2, map[string]string{
			"R2": "R2 cost 1 hops 1 from ", "R3": "R2 cost 2 hops 2 from "}},
		{"a router without link state is reached and is nobody's origin", "R1-R2 R1-R3 R3>R4", 2, map[string]string{
			"R2": "R2 cost 1 hops 1 from R3", "R3": "R3 cost 1 hops 1 from R2", "R4": "R3 cost 2 hops 2 from R2"}},
		{"the far side of a split has no path", "R1-R2 R3-R4", 1, map[string]string{"R2": "R2 cost 1 hops 1 from "}},
		{"an origin that reaches us, but not we it, does not count", "R1-R2 R3>R1", 1, map[string]string{"R2": "R2 cost 1 hops 1 from "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld("R1")
			w.set(topology(tt.topo))
			got, radius := w.routes()
			if radius != tt.radius || !maps.Equal(got, tt.want) {
				t.Errorf("%q: radius %d, routes\n%q\nwant %d\n%q", tt.topo, radius, got, tt.radius, tt.want)
			}
		})
	}
}

// Repaired trees are those that a computation from nothing finds, and origin sets handed out
// stay as they were.
func TestPathsAfterChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "routers")
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("r%02d", i)
		}
		self := rapid.SampledFrom(ids).Draw(t, "self")
		w := newWorld(self)
		g := make(graph)
		for _, id := range ids {
			g[id] = make(map[string]int64)
		}
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			for range rapid.SampledFrom([]int{1, 1, 2, 3, 30}).Draw(t, "edits") {
				a, b := rapid.SampledFrom(ids).Draw(t, "a"), rapid.SampledFrom(ids).Draw(t, "b")
				there, back := rapid.Int64Range(0, 3).Draw(t, "there"), rapid.Int64Range(0, 3).Draw(t, "back")
				if a == b {
					continue
				}
				g[a][b], g[b][a] = there, back
				maps.DeleteFunc(g[a], func(_ string, cost int64) bool { return cost == 0 })
				maps.DeleteFunc(g[b], func(_ string, cost int64) bool { return cost == 0 })
			}
			handed := slices.Clone(w.p.origins)
			were := make([]Set, len(handed))
			for i, s := range handed {
				were[i] = slices.Clone(s)
			}
			w.set(g)
			want, wantRadius := g.routes(self)
			got, radius := w.routes()
			if radius != wantRadius || !maps.Equal(got, want) {
				t.Fatalf("from %s in %v: radius %d, routes\n%q\nwant %d\n%q", self, g, radius, got, wantRadius, want)
			}
			for i := range handed {
				if !slices.Equal(handed[i], were[i]) {
					t.Fatalf("the origin set of %s was changed in place", w.p.ids[i])
				}
			}
		}
	})
}
