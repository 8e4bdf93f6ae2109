package linkroute

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// describe writes steps as the tests do: "attach 1, retry 2 in 5s".
func describe(steps []step) string {
	var list []string
	for _, s := range steps {
		text := fmt.Sprint([...]string{"attach", "bind", "retry", "detach", "cancel"}[s.do], " ", s.conn)
		if s.alone {
			text += " alone"
		}
		if s.do == retry {
			text += fmt.Sprint(" in ", s.after)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// event applies an event as the tests write it: "opened 1", "detached 1 Node not found".
func (a *attempts) event(t *testing.T, text string) []step {
	words := strings.SplitN(text, " ", 3)
	var conn uint64
	if len(words) > 1 {
		fmt.Sscan(words[1], &conn)
	}
	rest := ""
	if len(words) > 2 {
		rest = words[2]
	}
	switch words[0] {
	case "opened":
		return a.opened(conn)
	case "closed":
		return a.closed(conn)
	case "attached":
		return a.attached(conn, true)
	case "refusal":
		return a.attached(conn, false)
	case "detached":
		return a.detached(conn, rest)
	case "ended":
		return a.ended(conn, rest)
	case "due":
		return a.due(conn)
	case "deleted":
		return a.deleted()
	}
	t.Fatalf("no event %q", text)
	return nil
}

// TestAttempts: the lives of autolinks, one line for each event: what happened, what is to be
// done, the state (RT 4.2).
func TestAttempts(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		error string
	}{
		{"no connection", []string{"deleted -> -> inactive"}, ""},
		{"the queue is there", []string{
			"opened 1 -> attach 1 -> attaching",
			"attached 1 -> bind 1 -> active",
			"closed 1 -> -> inactive",
			"opened 2 -> attach 2 -> attaching",
		}, ""},
		{"the queue appears (A4, A5)", []string{
			"opened 1 -> attach 1 -> attaching",
			"refusal 1 -> -> attaching",
			"detached 1 Node not found: q -> retry 1 in 2s -> failed",
			"due 1 -> attach 1 -> attaching",
			"detached 1 Node not found: q -> retry 1 in 5s -> failed",
			"due 1 -> attach 1 -> attaching",
			"detached 1 Node not found: q -> retry 1 in 5s -> failed",
			"due 1 -> attach 1 -> attaching",
			"attached 1 -> bind 1 -> active",
		}, "Node not found: q"}, // A6
		{"success does not reset the first failure (A5)", []string{
			"opened 1 -> attach 1 -> attaching",
			"detached 1 x -> retry 1 in 2s -> failed",
			"due 1 -> attach 1 -> attaching",
			"attached 1 -> bind 1 -> active",
			"detached 1 -> retry 1 in 5s -> failed",
		}, ""},
		{"an active one is detached (A5)", []string{
			"opened 1 -> attach 1 -> attaching",
			"attached 1 -> bind 1 -> active",
			"detached 1 queue deleted -> retry 1 in 2s -> failed",
		}, "queue deleted"},
		{"the session is ended before the answer", []string{
			"opened 1 -> attach 1 -> attaching",
			"ended 1 no queue 'q' -> retry 1 in 2s -> failed",
			"due 1 -> attach 1 alone -> attaching",
			"ended 1 no queue 'q' -> retry 1 in 5s -> failed",
			"due 1 -> attach 1 alone -> attaching",
			"attached 1 -> bind 1 -> active",
			"closed 1 -> -> inactive",
			"opened 2 -> attach 2 alone -> attaching",
		}, "no queue 'q'"},
		{"the session is ended for the sake of another", []string{
			"opened 1 -> attach 1 -> attaching",
			"attached 1 -> bind 1 -> active",
			"ended 1 no queue 'q' -> retry 1 in 2s -> failed",
			"due 1 -> attach 1 -> attaching",
			"attached 1 -> bind 1 -> active",
		}, "no queue 'q'"},
		{"reconnect meets a retry (A7, Q7)", []string{
			"opened 1 -> attach 1 -> attaching",
			"detached 1 x -> retry 1 in 2s -> failed",
			"closed 1 -> cancel 1 -> inactive",
			"opened 2 -> attach 2 -> attaching",
			"due 1 -> -> attaching",
			"attached 2 -> bind 2 -> active",
			"due 2 -> -> active",
		}, "x"},
		{"one of several connections fails (A8, Q7)", []string{
			"opened 1 -> attach 1 -> attaching",
			"attached 1 -> bind 1 -> active",
			"opened 2 -> attach 2 -> active",
			"detached 2 x -> retry 2 in 2s -> active",
			"due 2 -> attach 2 -> active",
			"detached 2 y -> retry 2 in 5s -> active",
			"closed 1 -> -> failed",
			"deleted -> cancel 2 -> inactive",
		}, "y"},
		{"deleted (A9)", []string{
			"opened 1 -> attach 1 -> attaching",
			"opened 2 -> attach 2 -> attaching",
			"attached 2 -> bind 2 -> active",
			"deleted -> detach 1, detach 2 -> inactive",
			"attached 1 -> -> inactive",
			"detached 1 -> -> inactive",
			"due 1 -> -> inactive",
			"closed 1 -> -> inactive",
		}, ""},
		{"told twice", []string{
			"opened 1 -> attach 1 -> attaching",
			"opened 1 -> -> attaching",
			"attached 1 -> bind 1 -> active",
			"attached 1 -> -> active",
			"closed 1 -> -> inactive",
			"closed 1 -> -> inactive",
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a attempts
			for _, line := range tt.lines {
				parts := strings.Split(line, "->")
				steps := describe(a.event(t, strings.TrimSpace(parts[0])))
				if want := strings.TrimSpace(parts[1]); steps != want {
					t.Errorf("%s: to do %q", line, steps)
				}
				if want := strings.TrimSpace(parts[2]); a.state().String() != want {
					t.Errorf("%s: state %s", line, a.state())
				}
			}
			if a.lastError != tt.error {
				t.Errorf("last error %q, want %q", a.lastError, tt.error)
			}
		})
	}
}

// TestAttemptsUnderAnySchedule: whatever happens in whatever order, there is never a second link
// on a connection, none on one that has gone, no two timers for one; a failed link always has its
// timer, and no timer is younger than five seconds but the first.
func TestAttemptsUnderAnySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a attempts
		open, link, bound := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
		timer := map[uint64]time.Duration{} // when due
		now, retries := time.Duration(0), 0
		do := func(steps []step) {
			for _, s := range steps {
				switch s.do {
				case attach:
					if !open[s.conn] || link[s.conn] || timer[s.conn] != 0 {
						t.Fatalf("attach on %d: open %v, link %v, timer %v", s.conn, open, link, timer)
					}
					link[s.conn] = true
				case bind:
					if !link[s.conn] || bound[s.conn] {
						t.Fatalf("bind on %d", s.conn)
					}
					bound[s.conn] = true
				case retry:
					want := laterRetry
					if retries == 0 {
						want = firstRetry
					}
					if retries++; s.after != want || timer[s.conn] != 0 || link[s.conn] {
						t.Fatalf("retry %d after %v", retries, s.after)
					}
					timer[s.conn] = now + s.after
				case detach:
					if !link[s.conn] {
						t.Fatalf("detach on %d", s.conn)
					}
					delete(link, s.conn)
				case cancel:
					if timer[s.conn] == 0 {
						t.Fatalf("cancel on %d", s.conn)
					}
					delete(timer, s.conn)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			conn := rapid.Uint64Range(1, 3).Draw(t, "conn")
			switch rapid.SampledFrom([]string{"open", "close", "attach", "refuse", "detach", "end", "time"}).Draw(t, "event") {
			case "open":
				if !open[conn] {
					open[conn] = true
					do(a.opened(conn))
				}
			case "close":
				delete(open, conn)
				delete(link, conn)
				delete(bound, conn)
				do(a.closed(conn))
			case "attach":
				if link[conn] {
					do(a.attached(conn, true))
				}
			case "refuse":
				if link[conn] {
					do(a.attached(conn, false))
				}
			case "detach":
				if link[conn] {
					delete(link, conn)
					delete(bound, conn)
					do(a.detached(conn, "gone"))
				}
			case "end":
				if link[conn] {
					delete(link, conn)
					delete(bound, conn)
					do(a.ended(conn, "gone"))
				}
			case "time":
				now += time.Second
				for _, c := range []uint64{1, 2, 3} {
					if at := timer[c]; at != 0 && at <= now {
						delete(timer, c)
						do(a.due(c))
					}
				}
			}
			for c := range open {
				if link[c] == (timer[c] != 0) {
					t.Fatalf("connection %d: link %v, timer %v", c, link[c], timer[c])
				}
			}
			for c := range timer {
				if !open[c] {
					t.Fatalf("a timer for %d, which has gone", c)
				}
			}
			best := inactive
			for c := range open {
				switch {
				case bound[c]:
					best = max(best, active)
				case link[c]:
					best = max(best, attaching)
				default:
					best = max(best, failed)
				}
			}
			if a.state() != best {
				t.Fatalf("state %v, want %v", a.state(), best)
			}
		}
		before := len(link) + len(timer)
		if steps := a.deleted(); len(steps) != before {
			t.Fatalf("deletion ends %d of %d", len(steps), before)
		}
	})
}
