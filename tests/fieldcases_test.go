package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"qdrouter/tests/internal/rig"
)

// The field cases of this file are played by tests/clients/python/field.py,
// which says what it does. Their counts are cut so that the suite stays quick;
// QDROUTER_FULL=1 runs the full ones.

// distributions has an address entry for each distribution that can be
// configured and that takes messages.
const distributions = `
address {
    prefix: closest
    distribution: closest
}
address {
    prefix: balanced
    distribution: balanced
}
address {
    prefix: multicast
    distribution: multicast
}
`

// play starts a router and runs one case against it, followed by the checks
// that every case ends with. The word PID in args becomes the router's
// process id.
func play(t *testing.T, c rig.Config, name string, args ...string) (*rig.Router, rig.Report) {
	t.Helper()
	r := rig.Start(t, c)
	before := r.Counts(t)
	args = append([]string{r.URL(t), name}, args...)
	for i, arg := range args {
		if arg == "PID" {
			args[i] = fmt.Sprint(r.PID())
		}
	}
	report := rig.Python(t, "field.py", args...)
	r.CheckHealthy(t, before)
	return r, report
}

// slack is how much resident memory may grow over a repetition without being
// a leak, beside the 5% of the cases: what Go's collector leaves standing.
const slack = 8 << 20

// checkFlat checks that memory after many repetitions is as it was after few.
func checkFlat(t *testing.T, few, many int64) {
	t.Helper()
	if many > few+max(few/20, slack) && !rig.Raced() {
		t.Errorf("resident memory went from %d to %d KiB over the repetitions", few>>10, many>>10)
	}
}

// memory returns the list of resident sizes that a report has under rss.
func memory(t *testing.T, report rig.Report) []int64 {
	t.Helper()
	list, _ := report["rss"].([]any)
	var sizes []int64
	for _, v := range list {
		sizes = append(sizes, rig.Number(v))
	}
	if len(sizes) == 0 {
		t.Fatalf("report has no memory sizes: %v", report)
	}
	return sizes
}

// FC U10: sessions torn down under load. The receiver sees none of the
// unfinished messages, the connection goes on, and memory is flat.
func TestU10SessionsTornDownUnderLoad(t *testing.T) {
	const want = `{"error": null, "whole": ["good"], "outcomes": {"accepted": 1}}`
	for _, end := range []string{"end", "close"} {
		t.Run(end, func(t *testing.T) {
			_, report := play(t, rig.Config{}, "u10", "PID", "10", "100", end)
			sizes := memory(t, report)
			checkFlat(t, sizes[1], sizes[9])
			delete(report, "rss")
			checkReport(t, report, want)
		})
	}
	t.Run("while attaches are refused", func(t *testing.T) {
		_, report := play(t, rig.Config{
			Router: "defaultDistribution: unavailable",
			Extra:  "address {\n    prefix: s\n    distribution: balanced\n}\n",
		}, "u10_refused", "10", "100")
		checkReport(t, report, want)
	})
}

// FC U11 on one router: the tail of a large message.
func TestU11TailOfALargeMessage(t *testing.T) {
	for _, how := range []string{"close", "drop"} {
		t.Run("a settled message, then "+how, func(t *testing.T) {
			_, report := play(t, rig.Config{}, "u11_close", how)
			checkReport(t, report, `{"intact": true, "aborted": 0}`)
		})
	}
	t.Run("the receiver leaves after the first", func(t *testing.T) {
		_, report := play(t, rig.Config{}, "u11_leave", "50")
		var sum int64
		outcomes, _ := report["outcomes"].(map[string]any)
		for name, n := range outcomes {
			if !slices.Contains([]string{"accepted", "modified", "released"}, name) {
				t.Errorf("outcome %s", name)
			}
			sum += rig.Number(n)
		}
		if sum != 50 {
			t.Errorf("%d outcomes, want 50: %v", sum, outcomes)
		}
		if accepted, received := rig.Number(outcomes["accepted"]), rig.Number(report["received"]); accepted < received {
			t.Errorf("%d accepted of the %d received and accepted before the receiver left", accepted, received)
		}
		if seconds, _ := report["seconds"].(float64); seconds > 15 {
			t.Errorf("outcomes took %v s, want at most 15", seconds)
		}
	})
	t.Run("settled, and a new receiver", func(t *testing.T) {
		_, report := play(t, rig.Config{}, "u11_settled", "50")
		checkReport(t, report, `{"later": 25}`)
	})
}

// FC U12 on one router: aborted deliveries. No receiver sees any of them, the
// good message arrives, credit is as at the start, memory is flat.
func TestU12AbortedDeliveries(t *testing.T) {
	tests := []struct {
		name, address       string
		receivers, thirsty  int
		count, size, copies int
	}{
		{"half of 40 kB", "abort", 1, 0, rig.Scale(1000, 10000), 20000, 1},
		{"the first frame only", "abort", 1, 0, rig.Scale(1000, 10000), 10000, 1},
		{"forwarded while arriving", "abort", 1, 0, rig.Scale(100, 1000), 400000, 1},
		{"multicast with a receiver without credit", "multicast/abort", 3, 1, rig.Scale(1000, 10000), 20000, 3},
		{"multicast forwarded while arriving", "multicast/abort", 3, 1, rig.Scale(100, 1000), 400000, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, report := play(t, rig.Config{Extra: distributions}, "u12", "PID", tt.address,
				fmt.Sprint(tt.receivers), fmt.Sprint(tt.thirsty), fmt.Sprint(tt.count), fmt.Sprint(tt.size))
			checkFlat(t, rig.Number(report["rss_early"]), rig.Number(report["rss_late"]))
			delete(report, "rss_early")
			delete(report, "rss_late")
			whole := slices.Repeat([]any{[]any{"good"}}, tt.copies)
			want, err := json.Marshal(map[string]any{
				"credit_at_start": 250, "credit_at_end": 250, "whole": whole, "partial": 0,
				"outcomes": map[string]int{"accepted": 1},
			})
			if err != nil {
				t.Fatal(err)
			}
			checkReport(t, report, string(want))
		})
	}
}

// FC U14: anonymous and named senders with nobody home.
func TestU14NobodyHome(t *testing.T) {
	c := rig.Config{Router: "defaultDistribution: unavailable", Extra: distributions}
	t.Run("anonymous", func(t *testing.T) {
		_, report := play(t, c, "u14_anonymous", "2000", "unsettled")
		checkReport(t, report, `{"detached": false, "conditions": {"amqp:not-found": 500}, "outcomes": {
			"closest": {"released": 500}, "balanced": {"released": 500}, "multicast": {"released": 500},
			"unknown": {"rejected": 500}}}`)
	})
	t.Run("anonymous and settled", func(t *testing.T) {
		_, report := play(t, c, "u14_anonymous", "2000", "settled")
		if report["detached"] != false {
			t.Error("the sender was detached")
		}
		// 1.19 does not count those it would have rejected, the 500 to the unknown address.
		if n := rig.Number(report["dropped"]); n != 1500 && n != 2000 {
			t.Errorf("%d counted as dropped, want 1500 or 2000", n)
		}
	})
	t.Run("named", func(t *testing.T) {
		_, report := play(t, c, "u14_named")
		checkReport(t, report, `{
			"closest": {"outcomes": {"released": 1}, "credit": 249},
			"balanced": {"outcomes": {"released": 1}, "credit": 249},
			"multicast": {"outcomes": {"released": 1}, "credit": 249},
			"unknown": {"error": "amqp:not-found", "target": null}}`)
	})
}

// FC U19: what becomes of 20 messages when a receiver that holds 10 of them
// and accepted one dies (RT 2.9, F54).
func TestU19PrefetchAndSuddenDeath(t *testing.T) {
	_, report := play(t, rig.Config{}, "u19")
	outcomes, _ := report["outcomes"].(map[string]any)
	n := func(name string) int64 { return rig.Number(outcomes[name]) }
	second := rig.Number(report["to_second"])
	if n("modified") != 9 || n("accepted") != 1+second || n("released") != 10-second || len(outcomes) > 3 {
		t.Errorf("outcomes %v with %d to the second receiver; want 1 accepted, 9 modified, and the other 10 released or accepted by the second",
			outcomes, second)
	}
	if report["delivered_again"] != false {
		t.Error("the accepted message was delivered again")
	}
}

// FC U22 on one router: odd addresses. Each name takes a message from a named
// and an anonymous sender, and is shown whole; the empty one is not dropped in
// silence; the log line of the long one is cut.
func TestU22OddAddresses(t *testing.T) {
	r, report := play(t, rig.Config{Extra: "log {\n    module: ROUTER_CORE\n    enable: info+\n}\n"}, "u22")
	good, err := json.Marshal(map[string]any{
		"named": []any{"accepted"}, "anonymous": "accepted", "received": []any{"anonymous", "named"}, "shown": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range report {
		t.Run(name, func(t *testing.T) {
			got, _ := got.(map[string]any)
			if name == "empty" {
				if outcome := got["anonymous"]; outcome != "released" && outcome != "rejected" {
					t.Errorf("outcome %v, want released or rejected", outcome)
				}
				return
			}
			checkReport(t, got, string(good))
		})
	}
	const longest = 2047 + 100 // bytes: the text (CFG G7), and time, module and level
	for _, line := range r.Log() {
		if len(line) > longest {
			t.Errorf("a log line of %d bytes begins %s", len(line), line[:200])
		}
	}
}

// FC U30: many links, churn, and clients that vanish.
func TestU30ManyLinks(t *testing.T) {
	t.Run("links", func(t *testing.T) {
		r := rig.Start(t, rig.Config{})
		before := r.Counts(t)
		connections, links := 10, rig.Scale(200, 1000)
		report := rig.Python(t, "field.py", r.URL(t), "u30_links", fmt.Sprint(r.PID()), fmt.Sprint(connections), fmt.Sprint(links))
		n := int64(connections * links)
		if got := rig.Number(report["right"]); got != n {
			t.Errorf("%d receivers got their message, want %d; outcomes %v", got, n, report["outcomes"])
		}
		if seconds, _ := report["seconds"].(float64); seconds > 30 {
			t.Errorf("took %v s, want at most 30", seconds)
		}
		r.CheckHealthy(t, before)
		if rig.Raced() {
			return
		}
		start, full := rig.Number(report["rss_start"]), rig.Number(report["rss_links"])
		if grown := full - start; grown > n*20_000 {
			t.Errorf("%d links take %d KiB, want under 20 kB each", n, grown>>10)
		}
		var now int64
		rig.Eventually(t, time.Minute, func() bool {
			now = r.RSS(t)
			return now <= start+max(start/5, slack)
		}, func() string {
			return fmt.Sprintf("memory is %d KiB, was %d at the start and %d with the links", now>>10, start>>10, full>>10)
		})
	})
	t.Run("churn", func(t *testing.T) {
		_, report := play(t, rig.Config{}, "u30_churn", "PID", fmt.Sprint(rig.Scale(60, 200)), "100")
		sizes := memory(t, report)
		checkFlat(t, sizes[20], sizes[len(sizes)-1])
		if report["error"] != nil {
			t.Errorf("connection failed: %v", report["error"])
		}
	})
	t.Run("vanish", func(t *testing.T) {
		n := rig.Scale(100, 2000)
		_, report := play(t, rig.Config{Listener: "idleTimeoutSeconds: 2"}, "u30_vanish", fmt.Sprint(n))
		checkReport(t, report, fmt.Sprintf(`{"vanished": %d, "back": true}`, n))
	})
}
