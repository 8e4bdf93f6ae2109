package router

import "testing"

// TestInstanceOfEveryStart: each start of a router has an instance of its own, also within one
// second, or its neighbours would take it for what it was (IR 2.11).
func TestInstanceOfEveryStart(t *testing.T) {
	seen := map[int64]bool{}
	for range 20 {
		g := newRig(t, func(o *Options) { o.Mode = Interior })
		instance := g.r.Nodes()[0].Instance
		if instance <= 0 || seen[instance] {
			t.Fatalf("instance %d, after %v", instance, seen)
		}
		seen[instance] = true
		g.close()
	}
}
