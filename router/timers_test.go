package router

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"qdrouter/amqp"
)

// TestTimerHeap: connections wake in the order of their times, whatever was set and removed
// before.
func TestTimerHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x timers
		x.init(bare(Standalone))
		conns := make([]*Conn, 8)
		for i := range conns {
			conns[i] = &Conn{r: x.r}
		}
		want := map[*Conn]int64{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			c := rapid.SampledFrom(conns).Draw(t, "conn")
			at := rapid.Int64Range(1, 20).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				x.remove(c)
				delete(want, c)
			case 1:
				x.wakeBy(c, at)
				if old, ok := want[c]; !ok || at < old {
					want[c] = at
				}
			default:
				x.set(c, at)
				want[c] = at
			}
		}
		if len(x.heap) != len(want) {
			t.Fatalf("%d in the heap, want %d", len(x.heap), len(want))
		}
		last := int64(0)
		for len(x.heap) > 0 {
			c := x.heap[0]
			if c.timer.at != want[c] || c.timer.at < last || c.timer.index != 1 {
				t.Fatalf("due at %d, want %d, after %d", c.timer.at, want[c], last)
			}
			last = c.timer.at
			x.remove(c)
			if c.timer.index != 0 {
				t.Fatal("a removed connection has a place")
			}
		}
	})
}

// TestWokenMeanwhile: what asks for a connection to be woken while it is being woken is not
// forgotten, and a connection that has gone does not come back.
func TestWokenMeanwhile(t *testing.T) {
	const until = 1000
	tests := []struct {
		name      string
		meanwhile func(x *timers, c *Conn)
		at        int64 // what tick answers
		want      int64 // 0 = not in the heap
	}{
		{"nothing", func(*timers, *Conn) {}, 150, 150},
		{"nothing, and never again", func(*timers, *Conn) {}, 0, 0},
		{"sooner", func(x *timers, c *Conn) { x.wakeBy(c, 120) }, 150, 120},
		{"later", func(x *timers, c *Conn) { x.wakeBy(c, 180) }, 150, 150},
		{"and tick knows nothing", func(x *timers, c *Conn) { x.wakeBy(c, 180) }, 0, 180},
		{"gone", func(x *timers, c *Conn) { x.remove(c) }, 150, 0},
	}
	for _, tt := range tests {
		var x timers
		x.init(bare(Standalone))
		c := &Conn{}
		x.set(c, until) // as run has it
		tt.meanwhile(&x, c)
		x.after(c, tt.at, until)
		got := int64(0)
		if c.timer.index != 0 {
			got = c.timer.at
		}
		if got != tt.want {
			t.Errorf("%s: due at %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestSweep: deliveries that are old and not settled count as stuck until they are, and links
// without credit for long as blocked until they have some (RT S4, S5).
func TestSweep(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 3 }), g.peer(nil)
	r := b.receiver("q", 2)
	s := a.sender("q")
	s.sendN(3)
	g.run()
	want := func(when string, in, out, blocked uint64, lines ...string) {
		t.Helper()
		if i, o := s.info().Stuck, r.info().Stuck; i != in || o != out {
			t.Errorf("%s: %d and %d are stuck, want %d and %d", when, i, o, in, out)
		}
		if x := g.r.Stats(); x.Stuck != in+out || uint64(x.LinksBlocked) != blocked {
			t.Errorf("%s: router: %d stuck, %d blocked, want %d and %d", when, x.Stuck, x.LinksBlocked, in+out, blocked)
		}
		got := g.log.take("ROUTER_CORE")
		slices.Sort(got)
		if !slices.Equal(got, lines) {
			t.Errorf("%s: log %q, want %q", when, got, lines)
		}
	}
	g.log.take("")
	now := g.r.now()
	g.r.sweep(now + 10e9)
	want("ten seconds", 0, 0, 0)
	g.r.sweep(now + 12e9)
	want("twelve seconds", 3, 3, 2,
		"[C1][L2] Link blocked with zero credit for 12 seconds",
		"[C1][L2] Stuck delivery: At least one delivery on this link has been undelivered/unsettled for more than 10 seconds",
		"[C2][L1] Link blocked with zero credit for 12 seconds",
		"[C2][L1] Stuck delivery: At least one delivery on this link has been undelivered/unsettled for more than 10 seconds")
	g.r.sweep(now + 42e9)
	want("and no news", 3, 3, 2)
	r.grant(5)
	r.say(0, 1, amqp.StateAccepted, true)
	g.r.sweep(now + 72e9)
	want("two settled", 1, 1, 0)
	r.say(2, 2, amqp.StateAccepted, true)
	g.r.sweep(now + 102e9)
	want("all settled", 0, 0, 0)
}

// TestIdle: a peer that sends nothing for the idle time is told so and cut off, and so is one that
// has begun a frame and does not come to its end (CFG L10, R33).
func TestIdle(t *testing.T) {
	const idle = 10 * time.Second
	limited := func(o *ConnOptions, _ *amqp.ConnConfig) { o.IdleTimeout = idle }
	for _, why := range []string{"local-idle-timeout expired", "frame not complete in time"} {
		g := newRig(t, nil)
		a := g.peer(limited)
		if n := a.eng.Remote.IdleTimeout; n != amqp.Some(uint32(idle/2/time.Millisecond)) {
			t.Errorf("announced %v", n)
		}
		last := a.c.lastRead.Load()
		if next := a.c.tick(last + int64(idle) - 1); next != last+int64(idle) || a.done {
			t.Fatalf("just before: due %d, want %d", next, last+int64(idle))
		}
		now := last + int64(idle)
		if why != "local-idle-timeout expired" {
			a.in = append(a.in, 0, 0, 0, 30, 2)
			a.feed()
			since := a.c.frameSince.Load()
			now = since + frameIdles*int64(idle)
			a.c.lastRead.Store(now - 1) // octets of it come now and then
		}
		next := a.c.tick(now)
		g.run()
		if a.closed == nil || a.closed.Error == nil || a.closed.Error.Condition != amqp.ErrCondResourceLimitExceeded || a.closed.Error.Description != why {
			t.Errorf("told %+v", a.closed)
		}
		if !a.done || next <= now || a.c.Error() == nil || a.c.Error().Description != why {
			t.Errorf("done %v, next %d, error %v", a.done, next, a.c.Error())
		}
	}
	g := newRig(t, nil) // and with a full socket, that cannot be told
	a := g.peer(limited)
	a.w.fill(0)
	a.eng.Out = amqp.AppendFlowFrame(a.eng.Out, 0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 9, Echo: true})
	g.run()
	a.c.tick(a.c.lastRead.Load() + int64(idle))
	g.run()
	if !a.done || a.closed != nil {
		t.Errorf("done %v, told %v", a.done, a.closed)
	}
}

// TestHeartbeat: a peer that asks for frames gets empty ones, at half its time at the latest, when
// there is nothing to say (CFG L12).
func TestHeartbeat(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.IdleTimeout = 8000 })
	last := a.c.lastWrite.Load()
	if next := a.c.tick(last + 1); next != last+4e9 {
		t.Errorf("due %d after the last write, want 4 s", next-last)
	}
	if out, _ := a.w.take(); len(out) != 0 {
		t.Errorf("wrote %x", out)
	}
	a.c.tick(last + 4e9)
	if out, _ := a.w.take(); string(out) != "\x00\x00\x00\x08\x02\x00\x00\x00" {
		t.Errorf("wrote %x", out)
	}
	a.c.Close(nil)
	a.w.take()
	a.c.tick(last + 100e9)
	if out, _ := a.w.take(); len(out) != 0 {
		t.Errorf("wrote %x after the close", out)
	}
}
