package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// The field cases with more than one router. Those of one router that say
// "then A-B" are played by the same program, the sender at A and the receiver
// at B.

func (n *network) play(t *testing.T, name string, args ...string) rig.Report {
	t.Helper()
	for i, arg := range args {
		if arg == "PID" {
			args[i] = fmt.Sprint(n.nodes["A"].proc.PID())
		}
	}
	return rig.Python(t, "field.py", append([]string{n.url("A") + "+" + n.url("B"), name}, args...)...)
}

// FC U11 and U12 on A-B, and U22 across routers.
func TestNetworkFieldCases(t *testing.T) {
	rig.NeedProton(t)
	n := newNetwork(t, "A-B", netOptions{processes: true, conf: distributions})
	for _, how := range []string{"close", "drop"} {
		t.Run("U11 a settled message, then "+how, func(t *testing.T) {
			checkReport(t, n.play(t, "u11_close", how), `{"intact": true, "aborted": 0}`)
		})
	}
	t.Run("U11 the receiver leaves after the first", func(t *testing.T) {
		report := n.play(t, "u11_leave", "50")
		var sum int64
		outcomes, _ := report["outcomes"].(map[string]any)
		for name, k := range outcomes {
			if !slices.Contains([]string{"accepted", "modified", "released"}, name) {
				t.Errorf("outcome %s", name)
			}
			sum += rig.Number(k)
		}
		seconds, _ := report["seconds"].(float64)
		if sum != 50 || seconds > 15 {
			t.Errorf("outcomes %v within %v s, want 50 within 15", outcomes, seconds)
		}
	})
	t.Run("U11 settled, and a new receiver", func(t *testing.T) {
		checkReport(t, n.play(t, "u11_settled", "50"), `{"later": 25}`)
	})
	for _, tt := range []struct {
		name, address       string
		receivers, thirsty  int
		count, size, copies int
	}{
		{"half of 40 kB", "abort", 1, 0, 300, 20000, 1},
		{"the first frame only", "abort", 1, 0, 300, 10000, 1},
		{"forwarded while arriving", "abort", 1, 0, 100, 400000, 1},
		{"multicast with a receiver without credit", "multicast/abort", 3, 1, 300, 20000, 3},
	} {
		t.Run("U12 "+tt.name, func(t *testing.T) {
			report := n.play(t, "u12", "PID", tt.address, fmt.Sprint(tt.receivers), fmt.Sprint(tt.thirsty),
				fmt.Sprint(tt.count), fmt.Sprint(tt.size))
			checkFlat(t, rig.Number(report["rss_early"]), rig.Number(report["rss_late"]))
			delete(report, "rss_early")
			delete(report, "rss_late")
			want, err := json.Marshal(map[string]any{
				"credit_at_start": 250, "credit_at_end": 250, "whole": slices.Repeat([]any{[]any{"good"}}, tt.copies),
				"partial": 0, "outcomes": map[string]int{"accepted": 1},
			})
			if err != nil {
				t.Fatal(err)
			}
			checkReport(t, report, string(want))
		})
	}
}

// FC U15: a consumer that hops round the triangle while a sender at C never
// stops. It goes with a close, by the end of its TCP connection, or without a
// trace: then all the sender has credit for is on its way to a receiver that is
// no more, until its router has waited for the idle timeout. Each receiver gets
// its five messages within 5 s of attaching, or of that; the sender never waits
// longer; nothing comes twice.
func TestNetworkU15HoppingConsumer(t *testing.T) {
	const (
		address = "balanced/hop"
		idle    = 6 * time.Second
		take    = 5
		credit  = take + 2 // the last are in doubt
	)
	for _, tt := range []struct {
		name  string
		leave func(c *consumer, way *relay)
		hops  int
		limit time.Duration
	}{
		{"closes", func(c *consumer, _ *relay) { c.close() }, rig.Scale(12, 60), 5 * time.Second},
		{"drops its connection", func(_ *consumer, way *relay) { way.cut() }, rig.Scale(12, 60), 5 * time.Second},
		{"is not heard of any more", func(_ *consumer, way *relay) { way.lose() }, rig.Scale(3, 6), idle + 5*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t, "A-B B-C C-A", netOptions{
				routerA: "    defaultDistribution: unavailable",
				clients: fmt.Sprintf("    linkCapacity: 100\n    idleTimeoutSeconds: %.0f\n", idle.Seconds()), conf: distributions})
			ways := map[string]*relay{}
			for _, id := range n.ids {
				ways[id] = newRelay(t, func() string { return strings.TrimPrefix(n.url(id), "amqp://") })
			}
			ctx, cancel := context.WithCancel(t.Context())
			p := n.producer(t, "C", address)
			var waits sync.WaitGroup
			var longest time.Duration
			outcomes := &tally{count: map[string]any{}}
			sent := make(chan int)
			go func() {
				i := 0
				defer func() { sent <- i }()
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for ; ; i++ {
					<-tick.C
					start := time.Now()
					receipt, err := p.s.SendWithReceipt(ctx, text(fmt.Sprint(i)), nil)
					if err != nil {
						return
					}
					longest = max(longest, time.Since(start))
					waits.Go(func() {
						if state, err := receipt.Wait(p.g.ctx); err == nil {
							outcomes.add(outcomeName(state))
						}
					})
				}
			}()
			seen := map[string]bool{}
			for hop := range tt.hops {
				id := n.ids[hop%3]
				g := n.gopher(t, id)
				g.url = "amqp://" + ways[id].addr
				c := &consumer{g: g, at: id, r: g.receiver(g.session(), address, &goamqp.ReceiverOptions{Credit: -1})}
				start := time.Now()
				g.must(c.r.IssueCredit(credit))
				for range take {
					m := c.take()
					if body := fmt.Sprint(m.Value); seen[body] {
						t.Errorf("message %s came again", body)
					} else {
						seen[body] = true
					}
				}
				if took := time.Since(start); took > tt.limit {
					t.Errorf("hop %d: %d messages at %s took %v, want at most %v", hop, take, id, took, tt.limit)
				}
				tt.leave(c, ways[id])
			}
			cancel()
			count := <-sent
			if longest > tt.limit {
				t.Errorf("the sender waited for %v, want at most %v", longest, tt.limit)
			}
			for _, id := range n.ids {
				n.waitAddress(id, address, 0, 0)
			}
			waits.Wait()
			sum := 0
			for _, k := range outcomes.count {
				sum += int(rig.Number(k))
			}
			if sum != count {
				t.Errorf("%d of %d messages have an outcome: %v", sum, count, outcomes.count)
			}
			t.Logf("the sender waited for %v at most; outcomes %v", longest.Round(time.Millisecond), outcomes.count)
		})
	}
}

// FC U21 without edges: one copy for each receiver, and the strongest outcome:
// rejected, accepted, modified, released (RT F35).
func TestNetworkU21MulticastOutcomes(t *testing.T) {
	n := newNetwork(t, "A-B B-C C-A", netOptions{conf: distributions})
	const address, count = "multicast/x", 100
	var consumers []*consumer
	for _, id := range []string{"A", "B", "C", "C", "B"} {
		consumers = append(consumers, n.consumer(t, id, address))
	}
	// waitAll waits until all routers count all receivers, one more at extra.
	waitAll := func(extra string) {
		t.Helper()
		for id, local := range map[string]int64{"A": 1, "B": 2, "C": 2} {
			if id == extra {
				local++
			}
			n.waitAddress(id, address, local, 2)
		}
	}
	waitAll("")
	p := n.producer(t, "A", address)
	answer := map[string]func(c *consumer, m *goamqp.Message) error{
		"accept":  func(c *consumer, m *goamqp.Message) error { return c.r.AcceptMessage(c.g.ctx, m) },
		"release": func(c *consumer, m *goamqp.Message) error { return c.r.ReleaseMessage(c.g.ctx, m) },
		"reject":  func(c *consumer, m *goamqp.Message) error { return c.r.RejectMessage(c.g.ctx, m, nil) },
	}
	for _, tt := range []struct{ name, one, others, want string }{
		{"all accept", "accept", "accept", "accepted"},
		{"one rejects", "reject", "accept", "rejected"},
		{"one releases", "release", "accept", "accepted"},
		{"all release", "release", "release", "released"},
		{"all reject", "reject", "reject", "rejected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range count {
				receipt := p.send(text(fmt.Sprint(i)))
				for k, c := range consumers {
					m := c.next()
					if m.Value != fmt.Sprint(i) {
						t.Fatalf("receiver %d at %s got %v, want %d", k, c.at, m.Value, i)
					}
					how := tt.others
					if k == i%len(consumers) {
						how = tt.one
					}
					p.g.must(answer[how](c, m))
				}
				if o := p.outcome(receipt); o != tt.want {
					t.Fatalf("message %d: outcome %s, want %s", i, o, tt.want)
				}
			}
		})
	}
	none(t, consumers...)

	// One of them takes its copies and is gone: nothing is decided before that.
	// What it had counts as modified, which goes before released and after
	// accepted.
	for _, tt := range []struct{ name, others, want string }{
		{"one leaves, the others accept", "accept", "accepted"},
		{"one leaves, the others release", "release", "modified"},
		{"one leaves, the others reject", "reject", "rejected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for k, id := range []string{"A", "B", "C"} {
				leaver, way := n.consumerByRelay(t, id, address)
				waitAll(id)
				var receipts []goamqp.SendReceipt
				for i := range 20 {
					body := fmt.Sprint(k, "/", i)
					receipts = append(receipts, p.send(text(body)))
					for _, c := range append(consumers[:len(consumers):len(consumers)], leaver) {
						m := c.next()
						if m.Value != body {
							t.Fatalf("the receiver at %s got %v, want %s", c.at, m.Value, body)
						}
						if c != leaver {
							p.g.must(answer[tt.others](c, m))
						}
					}
				}
				early, done := context.WithTimeout(p.g.ctx, silence)
				if state, err := receipts[0].Wait(early); err == nil {
					t.Errorf("outcome %s before the receiver at %s had left", outcomeName(state), id)
				}
				done()
				way.cut()
				for i, receipt := range receipts {
					if o := p.outcome(receipt); o != tt.want {
						t.Fatalf("message %d of the receiver at %s: outcome %s, want %s", i, id, o, tt.want)
					}
				}
				waitAll("")
			}
		})
	}
	none(t, consumers...)
}

// consumerByRelay is a consumer whose connection can be cut.
func (n *network) consumerByRelay(t *testing.T, id, address string) (*consumer, *relay) {
	t.Helper()
	way := newRelay(t, func() string { return strings.TrimPrefix(n.url(id), "amqp://") })
	g := n.gopher(t, id)
	g.url = "amqp://" + way.addr
	return &consumer{g: g, at: id, r: g.receiver(g.session(), address, &goamqp.ReceiverOptions{Credit: 200})}, way
}

// FC U22 across routers.
func TestNetworkU22OddAddresses(t *testing.T) {
	n := newNetwork(t, "A-B", netOptions{processes: true})
	good, err := json.Marshal(map[string]any{
		"named": []any{"accepted"}, "anonymous": "accepted", "received": []any{"anonymous", "named"}, "shown": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range n.play(t, "u22") {
		t.Run(name, func(t *testing.T) {
			got, _ := got.(map[string]any)
			if name == "empty" {
				if o := got["anonymous"]; o != "released" && o != "rejected" {
					t.Errorf("outcome %v, want released or rejected", o)
				}
				return
			}
			checkReport(t, got, string(good))
		})
	}
}
