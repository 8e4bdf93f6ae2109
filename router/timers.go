package router

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// timers wakes connections for idle time-outs and heartbeats, and the core for what it put off:
// one goroutine and one timer for the whole router. A connection that was active when its time
// comes is just put off.
type timers struct {
	r      *Router
	mu     sync.Mutex
	heap   timerHeap
	later  laterHeap
	netDue atomic.Int64 // when the link state is to be stepped, 0 = when the core says
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
}

// timerEntry is a connection's place in the heap.
type timerEntry struct {
	at    int64 // nanoseconds on the router's clock
	index int   // in the heap plus one; 0 = not there
}

type timerHeap []*Conn

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].timer.at < h[j].timer.at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer.index, h[j].timer.index = i+1, j+1
}
func (h *timerHeap) Push(x any) {
	c := x.(*Conn)
	*h = append(*h, c)
	c.timer.index = len(*h)
}
func (h *timerHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.timer.index = 0
	return c
}

// A Timer has the core run a function at a later time, once. Its methods belong to the core.
type Timer struct {
	r       *Router
	at      int64 // nanoseconds on the router's clock
	index   int   // in the heap plus one; 0 = not there
	stopped bool
	f       func()
}

// After has the core run f when d has passed.
func (k *Core) After(d time.Duration, f func()) *Timer {
	t := &k.r.timers
	x := &Timer{r: k.r, at: k.r.now() + int64(d), f: f}
	t.mu.Lock()
	heap.Push(&t.later, x)
	first := t.later[0] == x
	t.mu.Unlock()
	if first {
		t.nudge()
	}
	return x
}

// Stop makes sure that the function does not run any more.
func (x *Timer) Stop() {
	x.stopped = true
	t := &x.r.timers
	t.mu.Lock()
	if x.index != 0 {
		heap.Remove(&t.later, x.index-1)
	}
	t.mu.Unlock()
}

type laterHeap []*Timer

func (h laterHeap) Len() int           { return len(h) }
func (h laterHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h laterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
func (h *laterHeap) Push(x any) {
	*h = append(*h, x.(*Timer))
	x.(*Timer).index = len(*h)
}
func (h *laterHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	x.index = 0
	return x
}

// runLater hands to the core what is due and returns when the next is, 0 = nothing is there.
func (t *timers) runLater(now int64) (next int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.later) > 0 && t.later[0].at <= now {
		x := heap.Pop(&t.later).(*Timer)
		t.r.post(event{kind: eventCall, call: func() {
			if !x.stopped {
				x.f()
			}
		}})
	}
	if len(t.later) > 0 {
		next = t.later[0].at
	}
	return next
}

func (t *timers) init(r *Router) {
	t.r = r
	t.wake = make(chan struct{}, 1)
	t.stop = make(chan struct{})
	t.done = make(chan struct{})
}

// set makes a connection wake at that time, 0 = never.
func (t *timers) set(c *Conn, at int64) {
	t.mu.Lock()
	t.setLocked(c, at)
	first := at != 0 && t.heap[0] == c
	t.mu.Unlock()
	if first {
		t.nudge()
	}
}

func (t *timers) setLocked(c *Conn, at int64) {
	switch {
	case at == 0:
		if c.timer.index != 0 {
			heap.Remove(&t.heap, c.timer.index-1)
		}
	case c.timer.index == 0:
		c.timer.at = at
		heap.Push(&t.heap, c)
	default:
		c.timer.at = at
		heap.Fix(&t.heap, c.timer.index-1)
	}
}

// wakeBy makes a connection wake at that time at the latest.
func (t *timers) wakeBy(c *Conn, at int64) {
	t.mu.Lock()
	first := false
	if c.timer.index == 0 || c.timer.at > at {
		t.setLocked(c, at)
		first = t.heap[0] == c
	}
	t.mu.Unlock()
	if first {
		t.nudge()
	}
}

func (t *timers) remove(c *Conn) { t.set(c, 0) }

func (t *timers) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *timers) close() {
	close(t.stop)
	<-t.done
}

func (t *timers) run() {
	defer close(t.done)
	sweep := int64(30 * time.Second)
	if t.r.opts.TestHooks {
		sweep = int64(5 * time.Second)
	}
	nextSweep, nextTrim := sweep, int64(trimEvery)
	var nextBeat int64 // 0 = nobody to watch, and a nudge when there is
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []*Conn
	for {
		now := t.r.now()
		if now >= nextSweep {
			t.r.sweep(now)
			nextSweep = now + sweep
			t.r.post(event{kind: eventCall, call: t.r.scrubStreams})
		}
		if now >= nextTrim {
			t.r.trim()
			nextTrim = now + int64(trimEvery)
		}
		next := nextSweep
		if t.r.gone.Load() >= trimAfter {
			next = min(next, nextTrim)
		}
		if now >= nextBeat {
			nextBeat = t.r.checkBeats(now)
		}
		if due := t.netDue.Load(); due != 0 {
			if now >= due {
				t.netDue.Store(0) // the core sets it again
				t.r.post(event{kind: eventCall, call: func() { t.r.step(linkstate.Tick{}) }})
			} else {
				next = min(next, due)
			}
		}
		if nextBeat != 0 {
			next = min(next, nextBeat)
		}
		if at := t.runLater(now); at != 0 {
			next = min(next, at)
		}
		t.mu.Lock()
		for len(t.heap) > 0 && t.heap[0].timer.at <= now {
			c := t.heap[0]
			c.timer.at = now + int64(putOff) // until tick has said
			heap.Fix(&t.heap, 0)
			due = append(due, c)
		}
		t.mu.Unlock()
		for i, c := range due {
			t.after(c, c.tick(now), now+int64(putOff))
			due[i] = nil
		}
		due = due[:0]
		t.mu.Lock()
		if len(t.heap) > 0 {
			next = min(next, t.heap[0].timer.at)
		}
		t.mu.Unlock()
		timer.Reset(time.Duration(max(next-t.r.now(), int64(time.Millisecond))))
		select {
		case <-timer.C:
		case <-t.wake:
		case <-t.stop:
			return
		}
	}
}

// putOff is how far the next wake-up of a connection is while it is being woken.
const putOff = time.Hour

// after puts a connection that has been woken, and put off until then, where it is due next, 0 =
// nowhere. One that has gone stays away, and one that something else is to wake meanwhile keeps
// the earlier time.
func (t *timers) after(c *Conn, at, until int64) {
	t.mu.Lock()
	if c.timer.index != 0 && (c.timer.at == until || at != 0 && at < c.timer.at) {
		t.setLocked(c, at)
	}
	t.mu.Unlock()
}

// nextTick is when a connection must be looked at, from what it did last.
func (r *Router) nextTick(c *Conn) int64 {
	var at int64
	sooner := func(t int64) {
		if at == 0 || t < at {
			at = t
		}
	}
	if c.o.IdleTimeout > 0 {
		sooner(c.lastRead.Load() + int64(c.o.IdleTimeout))
		if since := c.frameSince.Load(); since != 0 {
			sooner(since + frameIdles*int64(c.o.IdleTimeout))
		}
	}
	if hb := c.heartbeat.Load(); hb > 0 {
		sooner(c.lastWrite.Load() + hb)
	}
	if c.owes.Load() {
		sooner(r.now() + stallAfter)
	}
	return at
}

// stuckAfter is the age at which a delivery counts as stuck, and the time without credit after
// which a link counts as blocked, in seconds (RT S4, S5).
func (r *Router) stuckAfter() uint32 {
	if r.opts.TestHooks {
		return 3
	}
	return 10
}

// sweep counts stuck deliveries and finds blocked links. What has finished since is no longer
// counted by the next sweep.
func (r *Router) sweep(now int64) {
	second := uint32(now / 1e9)
	old := func(at uint32) bool { return second > at+r.stuckAfter() }
	entries, _ := r.allLinks()
	stuckIn := make(map[*inLink]uint64)
	stuckOut := make(map[*outLink]uint64)
	seen := make(map[*session]bool)
	look := func(s *session) {
		if seen[s] {
			return
		}
		seen[s] = true
		s.in.All(func(_ amqp.Serial, d *delivery) bool {
			if old(d.at) {
				stuckIn[d.in]++
			}
			return true
		})
		s.out.All(func(_ amqp.Serial, ref copyRef) bool {
			if old(ref.d.at) {
				stuckOut[ref.state().out]++
			}
			return true
		})
	}
	for _, e := range entries {
		if in := e.in; in != nil {
			in.conn.mu.Lock()
			look(in.sess)
			r.sweepBlocked(in.conn, in.id, in.up && in.l.CreditOut() == 0, in.zeroAt, now, &in.blocked)
			in.conn.mu.Unlock()
			continue
		}
		out := e.out
		out.conn.mu.Lock()
		look(out.sess)
		for i := range out.queue.n {
			if old(out.queue.at(i).at) {
				stuckOut[out]++
			}
		}
		r.sweepBlocked(out.conn, out.id, out.up && out.l.Credit() == 0, out.zeroAt, now, &out.blocked)
		out.conn.mu.Unlock()
	}
	for _, e := range entries {
		if in := e.in; in != nil {
			r.noteStuck(in.conn, in.id, &in.counts, stuckIn[in])
		} else {
			r.noteStuck(e.out.conn, e.out.id, &e.out.counts, stuckOut[e.out])
		}
	}
}

func (r *Router) noteStuck(c *Conn, link uint64, k *linkCounts, n uint64) {
	c.mu.Lock()
	was := k.stuck
	k.stuck = n
	c.mu.Unlock()
	if was == 0 && n > 0 {
		r.logStuck(c, link)
	}
}

func (r *Router) logStuck(c *Conn, link uint64) {
	r.logf("ROUTER_CORE", Info, "[C%d][L%d] Stuck delivery: At least one delivery on this link has been undelivered/unsettled for more than %d seconds",
		c.o.ID, link, r.stuckAfter())
}

func (r *Router) sweepBlocked(c *Conn, link uint64, without bool, since, now int64, blocked *bool) {
	if !without || since == 0 {
		*blocked = false
		return
	}
	if n := (now - since) / 1e9; n > int64(r.stuckAfter()) {
		if !*blocked {
			r.logf("ROUTER_CORE", Info, "[C%d][L%d] Link blocked with zero credit for %d seconds", c.o.ID, link, n)
		}
		*blocked = true
	}
}
