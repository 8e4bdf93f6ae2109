package linkstate

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// Whatever happened to a network, after quiet it is as it should be; see network.wrong.
func TestNetworkAfterQuiet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNetwork()
		size := rapid.IntRange(2, 20).Draw(t, "routers")
		for i := range size {
			r := n.add(fmt.Sprintf("r%02d", i))
			r.start(time.Duration(rapid.IntRange(0, 999).Draw(t, "phase")) * ms)
		}
		router := func(what string) *simRouter { return n.routers[rapid.IntRange(0, size-1).Draw(t, what)] }
		address := rapid.SampledFrom([]string{"M0a", "M0b", "M1w", "MFf", "Celr", "Felp/*/x", "HE"})
		treatment := rapid.SampledFrom([]Treatment{TreatMulticast, TreatClosest, TreatBalanced})
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
				router("at").attach(address.Draw(t, "key"), treatment.Draw(t, "treatment"))
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
		n.run(25 * time.Second)
		if s := n.wrong(); s != "" {
			t.Fatalf("%v after the last fault: %s", n.now.Sub(start), s)
		}
	})
}
