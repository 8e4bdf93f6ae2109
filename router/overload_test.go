package router

import (
	"fmt"
	"testing"
)

// TestOverloadOfCopies: copies of a settled multicast after the first hold nobody's credit, so
// the queue of a slow receiver is bounded by dropping (RT F93), while a fast one gets all.
func TestOverloadOfCopies(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Prefix: "m", Distribution: Multicast, Priority: -1})
	a, b, c := g.peer(nil), g.peer(nil), g.peer(nil)
	fast := b.receiver("m/x", 2000)
	slow := c.receiver("m/x", 0)
	s := a.sender("m/x")
	const n = 1000
	for i := range n {
		s.sendSettled(fmt.Sprint(i))
		if i%100 == 99 {
			g.run()
		}
	}
	if got := len(fast.got); got != n {
		t.Errorf("the fast receiver has %d messages, want %d", got, n)
	}
	info := slow.info()
	if info.Undelivered > 250 || info.DroppedPresettled < n-2*250 {
		t.Errorf("for the slow receiver %d wait and %d were dropped, want at most 250 and at least %d", info.Undelivered, info.DroppedPresettled, n-500)
	}
	s.wantCredit(t, 250, false)
	slow.grant(2000)
	if got := slow.bodies(); len(got) == 0 || got[len(got)-1] != fmt.Sprint(n-1) {
		t.Errorf("the slow receiver has %d messages and not the newest", len(got))
	}
}
