package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	for _, tt := range []struct {
		name, address       string
		receivers, thirsty  int
		count, size, copies int
	}{
		{"half of 40 kB", "abort", 1, 0, 300, 20000, 1},
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
// stops. Each receiver gets its five messages within 5 s of attaching.
func TestNetworkU15HoppingConsumer(t *testing.T) {
	n := newNetwork(t, "A-B B-C C-A", netOptions{
		routerA: "    defaultDistribution: unavailable", clients: "    linkCapacity: 100\n", conf: distributions})
	const address = "balanced/hop"
	ctx, cancel := context.WithCancel(t.Context())
	p := n.producer(t, "C", address)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			receipt, err := p.s.SendWithReceipt(ctx, text(fmt.Sprint(i)), nil)
			if err != nil {
				return
			}
			limit, done := context.WithTimeout(ctx, patience)
			receipt.Wait(limit)
			done()
		}
	}()
	seen := map[string]bool{}
	for hop := range rig.Scale(12, 60) {
		id := n.ids[hop%3]
		c := n.consumer(t, id, address)
		start := time.Now()
		for range 5 {
			m := c.take()
			if body := fmt.Sprint(m.Value); seen[body] {
				t.Errorf("message %s was accepted and came again", body)
			} else {
				seen[body] = true
			}
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("hop %d: five messages at %s took %v, want at most 5 s", hop, id, took)
		}
		c.close()
	}
	cancel()
	<-stopped
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
	for id, local := range map[string]int64{"A": 1, "B": 2, "C": 2} {
		n.waitAddress(id, address, local, 2)
	}
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
