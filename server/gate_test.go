package server

import "testing"

// CFG P3, P25.
func TestGateCounts(t *testing.T) {
	g := newGate(2)
	nothing := func() {}
	a, _ := g.enter(nothing)
	b, _ := g.enter(nothing)
	if a == nil || b == nil {
		t.Fatal("two of two were refused")
	}
	if p, n := g.enter(nothing); p != nil || n != 2 {
		t.Errorf("third of two: %v with %d connections, want nil with 2", p, n)
	}
	a.leave()
	if p, _ := g.enter(nothing); p == nil {
		t.Error("the place given back was not found")
	}
	processed, denied, current := g.counts()
	if processed != 4 || denied != 1 || current != 2 {
		t.Errorf("processed %d, denied %d, current %d, want 4, 1, 2", processed, denied, current)
	}
	if p, _ := newGate(0).enter(nothing); p != nil {
		t.Error("maxConnections 0 admitted one")
	}
}

// CFG 11.2: of too many unfinished connections the oldest is cut.
func TestGateCutsTheOldestUnfinished(t *testing.T) {
	g := newGate(100)
	g.most = 2
	var cut []int
	enter := func(i int) *pass {
		p, _ := g.enter(func() { cut = append(cut, i) })
		return p
	}
	enter(0)
	p1 := enter(1)
	p1.opened()
	enter(2)
	if len(cut) != 0 {
		t.Fatalf("cut %v with two unfinished", cut)
	}
	enter(3)
	p4 := enter(4)
	p4.leave()
	enter(5)
	if len(cut) != 2 || cut[0] != 0 || cut[1] != 2 {
		t.Errorf("cut %v, want 0 and 2", cut)
	}
	p1.leave()
	if _, _, current := g.counts(); current != 4 {
		t.Errorf("%d connections, want 4: those cut leave when they end", current)
	}
}
