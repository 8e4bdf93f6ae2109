package linkstate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkLinkChange measures what one link that goes or comes costs in a random network of
// 1,000 routers and 2,000 links: here the CPU of one router that is told of it, logs off. The
// metrics are for the whole network, from the protocol: the two ends' advertisements pass every
// link, every router asks both ends and is answered, over the hops between them; then everybody
// is in flux mode and advertises twice more in eight seconds.
//
// docs/performance.md has the figures.
func BenchmarkLinkChange(b *testing.B) {
	const size = 1000
	rnd := rand.New(rand.NewPCG(1, 0))
	id := func(i int) string { return fmt.Sprintf("router%04d", i) }
	peers := make([]map[int]int64, size)
	for i := range peers {
		peers[i] = make(map[int]int64)
	}
	type pair struct {
		a, b int
		cost int64
	}
	var links []pair
	link := func(i, j int) {
		if i != j && peers[i][j] == 0 {
			cost := 1 + rnd.Int64N(3)
			peers[i][j], peers[j][i] = cost, cost
			links = append(links, pair{i, j, cost})
		}
	}
	for i := 1; i < size; i++ {
		link(rnd.IntN(i), i)
	}
	for len(links) < 2*size {
		link(rnd.IntN(size), rnd.IntN(size))
	}

	e := New(Config{ID: id(0), Instance: 1, RemoteLSMaxAge: 1 << 62, // the others advertise nothing while it lasts
		Enabled: func(Module, Level) bool { return false }})
	now := epoch
	var actions []Action
	step := func(ev Event) {
		actions = e.Step(now, ev, actions[:0])
	}
	seq := make([]int64, size)
	tell := func(i int) {
		seq[i]++
		m := &LSU{ID: id(i), Version: 1, Instance: 1, LSSeq: seq[i], LinkState: LinkState{ID: id(i), LSSeq: seq[i]}}
		for p, cost := range peers[i] {
			m.LinkState.Peers = append(m.LinkState.Peers, Peer{id(p), cost})
		}
		step(Received{Link: 1, Message: &RA{ID: id(i), Version: 1, Instance: 1, LSSeq: seq[i]}})
		step(Received{Link: 1, Message: m})
	}
	greet := func() {
		for p, cost := range peers[0] {
			if e.links[LinkID(p)] == nil {
				step(LinkUp{LinkID(p), cost})
			}
			step(Received{Link: LinkID(p), Message: &Hello{ID: id(p), Version: 1, Instance: 1, Seen: []string{id(0)}}})
		}
	}
	greet()
	for i := 1; i < size; i++ {
		tell(i)
	}
	start := time.Now()
	step(Tick{})
	fromNothing := time.Since(start)

	hops := func(from, to int32) (n int) {
		for t := e.paths.trees[from]; t.prev[to] >= 0; to = t.prev[to] {
			n++
		}
		return n
	}
	index := func(i int) int32 {
		if i == 0 {
			return 0
		}
		return int32(e.byID[id(i)].index)
	}
	var messages, octets, flux float64
	for _, l := range links[:20] { // what a change of some of them costs the network
		flood := 2*len(links) - (size - 1)
		asked := 0
		for i := range int32(size) {
			asked += hops(i, index(l.a)) + hops(i, index(l.b))
		}
		messages += float64(2*flood+2*asked) / 20
		octets += float64(2*flood*sizeOf(&RA{})+asked*(sizeOf(&LSR{})+sizeOf(&LSU{LinkState: LinkState{Peers: make([]Peer, 4)}}))) / 20
		flux += float64(2*size*flood) / 20
	}
	distant := slices.DeleteFunc(slices.Clone(links), func(l pair) bool { return l.a == 0 || l.b == 0 })
	n := 0
	for b.Loop() { // a link goes, or the one that went comes back
		l := distant[n/2%len(distant)]
		if n%2 == 0 {
			delete(peers[l.a], l.b)
			delete(peers[l.b], l.a)
		} else {
			peers[l.a][l.b], peers[l.b][l.a] = l.cost, l.cost
		}
		n++
		now = now.Add(time.Second)
		greet()
		tell(l.a)
		tell(l.b)
		step(Tick{})
	}
	b.ReportMetric(messages, "messages/change")
	b.ReportMetric(octets/1e6, "MB/change")
	b.ReportMetric(flux, "flux-messages/change")
	b.ReportMetric(flux*float64(sizeOf(&RA{}))/1e6, "flux-MB/change")
	b.ReportMetric(float64(fromNothing.Milliseconds()), "ms-from-nothing")
}
