package linkstate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// Whatever happened to a network, after quiet it is as it should be; see network.wrong. A message
// lost without loss of the connection is made up for by the next advertisement, which is 30 s away.
func TestNetworkAfterQuiet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkAfterQuiet(t, false, 40*time.Second) })
}

// Likewise when some routers forward control messages as 1.19 does. It takes longer: a wrong
// radius lasts there until a link state is 60 s old.
func TestNetworkAfterQuietAmongOld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkAfterQuiet(t, true, 105*time.Second) })
}

func checkAfterQuiet(t *rapid.T, old bool, quiet time.Duration) {
	n := newNetwork()
	size := rapid.IntRange(2, 20).Draw(t, "routers")
	for i := range size {
		r := n.add(fmt.Sprintf("r%02d", i))
		r.start(time.Duration(rapid.IntRange(0, 999).Draw(t, "phase")) * ms)
		r.old = old && rapid.Bool().Draw(t, "old")
	}
	router := func(what string) *simRouter { return n.routers[rapid.IntRange(0, size-1).Draw(t, what)] }
	address := rapid.SampledFrom([]string{"M0a", "M0b", "M1w", "MFf", "Celr", "Felp/*/x", "HE"})
	join := func() {
		a, b := router("a"), router("b")
		if a != b {
			n.link(a, b, rapid.Int64Range(1, 4).Draw(t, "cost"), time.Duration(rapid.IntRange(0, 40).Draw(t, "delay"))*ms)
		}
	}
	for range rapid.IntRange(size-1, 2*size).Draw(t, "links") {
		join()
	}
	for range rapid.IntRange(0, 25).Draw(t, "faults") {
		n.run(time.Duration(rapid.SampledFrom([]int{0, 1, 30, 700, 1500, 5000}).Draw(t, "wait")) * ms)
		var c *cable
		if len(n.cables) > 0 {
			c = n.cables[rapid.IntRange(0, len(n.cables)-1).Draw(t, "cable")]
		}
		switch f := rapid.SampledFrom([]string{"cut", "join", "deaf", "slow", "restart", "link", "attach", "detach"}).Draw(t, "fault"); {
		case f == "attach":
			key := address.Draw(t, "key")
			router("at").attach(key, Treatment(1+len(key)%3))
		case f == "detach":
			router("at").detach(address.Draw(t, "key"))
		case f == "restart":
			router("which").restart(time.Duration(rapid.IntRange(2000, 5000).Draw(t, "down")) * ms)
		case f == "link":
			join()
		case c == nil:
		case f == "cut":
			n.cut(c, time.Duration(rapid.IntRange(0, 300).Draw(t, "later"))*ms)
		case f == "join":
			c.deaf = false
			n.join(c)
		case f == "deaf":
			c.deaf = !c.deaf
		case f == "slow":
			c.until = n.now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "slow")) * ms)
		}
	}
	start := n.now
	n.run(quiet)
	if s := n.wrong(); s != "" {
		if n.beyondRadius() {
			t.Skip("a path is longer than a router of 1.19 on it allows")
		}
		t.Fatalf("%v after the last fault: %s", n.now.Sub(start), s)
	}
}

// settled lets time go by until the network is as it should be, and returns how long that took.
func (n *network) settled(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	start := n.now
	for {
		s := n.wrong()
		if s == "" {
			return n.now.Sub(start)
		}
		if n.now.Sub(start) >= within {
			t.Fatalf("after %v: %s", n.now.Sub(start), s)
		}
		n.run(500 * ms)
	}
}

func build(seed uint64, size int, shape string) *network {
	n := newNetwork()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range size {
		n.add(fmt.Sprintf("r%03d", i)).start(time.Duration(rnd.IntN(1000)) * ms)
	}
	link := func(i, j int) {
		n.link(n.routers[i], n.routers[j], 1+rnd.Int64N(3), time.Duration(1+rnd.IntN(10))*ms)
	}
	for i := range size - 1 {
		switch shape {
		case "random": // a tree, then as many links again
			link(rnd.IntN(i+1), i+1)
			link(i, (i+1+rnd.IntN(size-1))%size)
		case "star":
			link(0, i+1)
		default:
			link(i, i+1)
		}
	}
	if shape == "ring" {
		link(size-1, 0)
	}
	return n
}

// A network converges within what the timers give. From the start: HELLO both ways and a tick
// takes 4 s, then questions and answers travel a hop at a time and some of them go astray and
// are repeated. After a fault: a loss is passed on at once or, if only silence tells, after the
// hello age; then paths are computed, and a question that went down the lost path is repeated
// after a second or two.
func TestConvergence(t *testing.T) {
	tests := []struct {
		shape string
		size  int
	}{{"line", 20}, {"ring", 20}, {"random", 20}, {"star", 150}, {"random", 200}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.shape, " of ", tt.size), func(t *testing.T) {
			if tt.size > 20 && underRace {
				t.Skip("takes long under the race detector; make test runs it without")
			}
			n := build(1, tt.size, tt.shape)
			n.run(4 * time.Second)
			took := n.settled(t, 40*time.Second)
			radius := 0
			for _, r := range n.routers {
				radius = max(radius, r.radius)
			}
			if bound := 3*time.Second + time.Duration(radius)*250*ms; took > bound {
				t.Errorf("converged in 4s + %v, want at most %v for radius %d", took, bound, radius)
			}
			t.Logf("start: 4s + %v for radius %d, %d octets: %v", took, radius, n.bytes, n.sent)

			c := n.cables[len(n.cables)/2] // of a random graph, one of the tree
			type fault struct {
				name  string
				do    func()
				bound time.Duration
			}
			faults := []fault{
				{"cut", func() { n.cut(c, 0) }, 3 * time.Second},
				{"join", func() { n.join(c) }, 4 * time.Second},
				{"silence", func() { c.deaf = true }, 6 * time.Second},
				{"hearing", func() { c.deaf = false }, 4 * time.Second},
				{"restart", func() { n.routers[tt.size/3].restart(time.Second); n.run(time.Second) }, 5 * time.Second},
			}
			for _, f := range faults {
				n.run(10 * time.Second)
				n.sent, n.bytes = make(map[string]int), 0
				f.do()
				n.run(ms)
				took := n.settled(t, f.bound+time.Duration(radius)*100*ms)
				t.Logf("%s: %v, %d octets: %v", f.name, took, n.bytes, n.sent)
			}
		})
	}
}
