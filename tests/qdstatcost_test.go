package tests

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// TestCostOfQdstatLinks measures what qdstat -l costs the forwarding rate of a
// router with 10,000 links. It is a measurement, not a check of every change:
//
//	QDROUTER_MEASURE=1 go test -v -count=1 -timeout 30m -run TestCostOfQdstatLinks ./tests
//
// On a machine that does nothing else, windows with nothing but the load and
// windows in which qdstat -l runs again and again without pause take turns. What
// is shown is the median rate of each, the median of what each pair of windows
// differs by, which a machine that changes its mind about its speed disturbs
// least, and how long one qdstat -l takes. The load and qdstat share the machine
// with the router, so with few cores the cost includes what qdstat takes for
// itself.
func TestCostOfQdstatLinks(t *testing.T) {
	if os.Getenv("QDROUTER_MEASURE") != "1" {
		t.Skip("a measurement; QDROUTER_MEASURE=1 makes it")
	}
	const (
		connections = 10
		links       = 1000 // of each connection
		window      = 3 * time.Second
		turns       = 12
	)
	r := rig.Start(t, rig.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	for c := range connections {
		session := newSession(t, ctx, r.URL(t))
		for l := range links {
			if _, err := session.NewReceiver(ctx, fmt.Sprintf("idle/%d/%d", c, l), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	passed := forward(t, ctx, r.URL(t))

	rate := func(during func(until time.Time)) float64 {
		start, before := time.Now(), passed.Load()
		during(start.Add(window))
		return float64(passed.Load()-before) / time.Since(start).Seconds()
	}
	quiet := func(until time.Time) { time.Sleep(time.Until(until)) }
	var took []time.Duration
	qdstat := func() {
		start := time.Now()
		out := r.Qdstat(t, "-l")
		took = append(took, time.Since(start))
		if n := strings.Count(out, " idle/"); n != connections*links {
			t.Fatalf("qdstat -l shows %d of %d links", n, connections*links)
		}
	}
	always := func(until time.Time) {
		for time.Now().Before(until) {
			qdstat()
		}
	}
	rate(quiet) // to warm up
	var alone, busy, cost []float64
	for range turns {
		before := rate(quiet)
		during := rate(always)
		alone, busy = append(alone, before), append(busy, during)
		cost = append(cost, 100*(1-during/before))
	}
	slices.Sort(took)
	show := func(what, unit string, values []float64) {
		slices.Sort(values)
		t.Logf("%-26s %9.1f %s (half of them %.1f to %.1f)", what, values[turns/2], unit, values[turns/4], values[3*turns/4])
	}
	show("no qdstat", "messages/s", alone)
	show("qdstat -l all the time", "messages/s", busy)
	show("cost", "%", cost)
	t.Logf("one qdstat -l of %d links takes %v (median of %d)", connections*links, took[len(took)/2].Round(time.Millisecond), len(took))
}

func newSession(t *testing.T, ctx context.Context, url string) *amqp.Session {
	t.Helper()
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// forward sends messages of 100 octets through the router, as many as credit
// allows, until ctx ends, and counts those that were accepted.
func forward(t *testing.T, ctx context.Context, url string) *atomic.Int64 {
	t.Helper()
	receiver, err := newSession(t, ctx, url).NewReceiver(ctx, "load", &amqp.ReceiverOptions{Credit: 250})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := newSession(t, ctx, url).NewSender(ctx, "load", nil)
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	running, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	t.Cleanup(func() { stop(); working.Wait() })
	work := func(step func() error) {
		working.Go(func() {
			for running.Err() == nil {
				// go-amqp has several words for a context that ends.
				if err := step(); err != nil && running.Err() == nil {
					t.Errorf("load: %v", err)
					return
				}
			}
		})
	}
	body := make([]byte, 100)
	for range 64 { // each waits for the outcome of its message
		work(func() error { return sender.Send(running, amqp.NewMessage(body), nil) })
	}
	work(func() error {
		m, err := receiver.Receive(running, nil)
		if err != nil {
			return err
		}
		passed.Add(1)
		return receiver.AcceptMessage(running, m)
	})
	return &passed
}
