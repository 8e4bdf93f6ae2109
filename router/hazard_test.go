package router

import (
	"runtime"
	"testing"
)

// TestHoldWhileDrained: what a session has waiting drains away just as its reader decides to hold
// the session's window; it must not stay held with nobody to resume it.
func TestHoldWhileDrained(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	a.receiver("q", 10)
	in := a.sender("q").in()
	sess := in.sess
	c := a.c
	c.Begin()
	defer c.End()
	c.b.links = append(c.b.links, in)
	sess.held.Store(heldHigh + 1)
	c.mu.Lock() // by somebody who drains a link of this connection
	done := make(chan struct{})
	go func() { c.renewWindows(); close(done) }()
	for range 1000 { // let it come as far as it can
		runtime.Gosched()
	}
	sess.held.Store(0)
	b := g.r.newBatch()
	if sess.holding.Load() { // as stream.release has it
		b.resume(sess)
	}
	if len(b.pending) > 0 { // and batch.run, which got the lock first
		if sess.holding.CompareAndSwap(true, false) {
			sess.s.Hold = false
			sess.s.FlowDue()
		}
	}
	c.mu.Unlock()
	<-done
	if sess.holding.Load() || sess.s.Hold {
		t.Errorf("nothing waits, and holding is %v, Hold %v", sess.holding.Load(), sess.s.Hold)
	}
}
