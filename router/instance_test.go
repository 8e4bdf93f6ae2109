package router

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestInstance: the instance of a router is the second that begins next (IR 2.3), and it makes itself
// known to nobody before that: each start has one of its own, also within one second, or its
// neighbours would take it for what it was (IR 2.11).
func TestInstance(t *testing.T) {
	g := newRig(t, func(o *Options) { o.Mode = Interior })
	instance := g.r.Nodes()[0].Instance
	if want := g.r.start.Unix() + 1; instance != want || instance != int64(int32(instance)) {
		t.Errorf("instance %d of a start at %v, want %d", instance, g.r.start, want)
	}
	if line := fmt.Sprintf("Router Engine Instantiated: id=R instance=%d", instance); !slices.Contains(g.log.take("ROUTER"), line) {
		t.Errorf("no log line %q", line)
	}
	g.inCore(func(*Core) {
		if due := g.r.net.Due(); due.Before(time.Unix(instance, 0)) {
			t.Errorf("greets at %v, before %d", due, instance)
		}
	})
}
