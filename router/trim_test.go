package router

import (
	"sync"
	"testing"

	"qdrouter/amqp"
)

// TestTrimKeepsAnswers: an answer that is to be written when the core has done with a round of events
// is written even when memory is given back in that round.
func TestTrimKeepsAnswers(t *testing.T) {
	g := newRig(t, nil)
	p := g.peer(nil)
	g.run()
	g.r.coreMu.Lock() // the core is busy, so what follows is one round
	unlock := sync.OnceFunc(g.r.coreMu.Unlock)
	defer unlock() // before the router is closed, whatever happens
	e := p.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("q")})
	p.pump()
	g.r.gone.Store(trimAfter)
	done := make(chan struct{})
	go func() { g.r.trim(); close(done) }()
	eventually(t, "both are in the queue", func() bool {
		g.r.queue.mu.Lock()
		defer g.r.queue.mu.Unlock()
		return len(g.r.queue.events) == 2
	})
	unlock()
	<-done
	g.run()
	if e.answer == nil {
		t.Error("the attach was not answered")
	}
}
