package router

import (
	"testing"

	"pgregory.net/rapid"
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
