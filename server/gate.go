package server

import (
	"container/list"
	"sync"
)

// maxUnfinished is how many incoming connections may be short of their open at a
// time (CFG 11.2). One more, and the oldest of them is cut: a peer in earnest is
// through in milliseconds, so the oldest is the one that only holds its place.
const maxUnfinished = 2000

// A gate counts the incoming connections of all listeners (CFG P3, P25).
type gate struct {
	mu                         sync.Mutex
	limit                      int // of current
	current, processed, denied int64
	unfinished                 list.List // of *pass, oldest first
	most                       int       // of unfinished; maxUnfinished but in tests
}

// A pass is one admitted connection's place in the gate.
type pass struct {
	gate *gate
	cut  func()
	el   *list.Element // nil once the handshake is over
}

func newGate(limit int) *gate { return &gate{limit: limit, most: maxUnfinished} }

// enter admits a connection, which cut ends at once, and returns nil when there
// are too many. n is how many there are, without a new one.
func (g *gate) enter(cut func()) (p *pass, n int64) {
	p, n, oldest := g.admit(cut)
	if oldest != nil {
		oldest.cut()
	}
	return p, n
}

func (g *gate) admit(cut func()) (p *pass, n int64, oldest *pass) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n = g.current
	g.processed++
	if n >= int64(g.limit) {
		g.denied++
		return nil, n, nil
	}
	g.current++
	p = &pass{gate: g, cut: cut}
	p.el = g.unfinished.PushBack(p)
	if g.unfinished.Len() > g.most {
		oldest = g.unfinished.Front().Value.(*pass)
		oldest.finish()
	}
	return p, n, oldest
}

// finish takes p off the unfinished ones; the gate is locked.
func (p *pass) finish() {
	if p.el != nil {
		p.gate.unfinished.Remove(p.el)
		p.el = nil
	}
}

// opened says that the connection's handshake is over.
func (p *pass) opened() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.finish()
}

// leave gives the place back, once.
func (p *pass) leave() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.finish()
	p.gate.current--
}

// cutUnfinished ends all connections short of their open.
func (g *gate) cutUnfinished() {
	g.mu.Lock()
	var cut []*pass
	for el := g.unfinished.Front(); el != nil; el = el.Next() {
		cut = append(cut, el.Value.(*pass))
	}
	g.mu.Unlock()
	for _, p := range cut {
		p.cut()
	}
}

// counts are the socket-level counters of the policy entity (CFG P25).
func (g *gate) counts() (processed, denied, current int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.processed, g.denied, g.current
}
