package tests

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"qdrouter/tests/internal/rig"
)

const (
	outage  = 3 * time.Second // from one death of the broker to the next, unless its links take longer
	relinks = 6 * time.Second // for the autolinks of a broker that is back (CFG L14)
	grown   = 24 << 20        // octets that the memory of a router under load may go up and down
)

// brokerSoakTime is how long the broker is killed: 15 s, or with QDROUTER_SOAK
// what that says, but no more than a minute.
func brokerSoakTime(t *testing.T) time.Duration {
	if os.Getenv("QDROUTER_SOAK") == "" {
		return 15 * time.Second
	}
	return min(soakTime(t), time.Minute)
}

// A broker that both of two routers have autolinks to is killed again and again
// under load, and started with what its queue had. What was accepted arrives,
// the autolinks are active again in time, and the routers hold no more after the
// last round than after the second.
func TestBrokerSoak(t *testing.T) {
	b := rig.StartBroker(t, "-queue", "q", "-quiet")
	section := brokerConnector("broker", fmt.Sprint(b.Port())) +
		autoLinkSection("out", 0, "broker", "q") + autoLinkSection("in", 1, "broker", "q")
	n := newNetwork(t, "A-B", netOptions{processes: true, conf: "address {\n    prefix: q\n    waypoint: yes\n}\n" + section})
	relinked := func(since time.Time) {
		t.Helper()
		for _, id := range n.ids {
			n.autoLinks(id, "out 0 active", "in 1 active")
		}
		if d := time.Since(since); d > relinks {
			t.Errorf("the autolinks were active %v after the broker was back", d.Round(time.Millisecond))
		}
	}
	relinked(time.Now())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	producing, stop := context.WithCancel(ctx)
	defer stop()
	// Both send to one queue and receive from it: numbers tell whose a message is.
	flows := []*flow{newFlow(n, "A", "B", "q"), newFlow(n, "B", "A", "q")}
	flows[1].first = 1 << 30
	var senders, receivers sync.WaitGroup
	for _, f := range flows {
		senders.Go(func() { f.send(ctx, producing) })
		receivers.Go(func() { f.receive(ctx) })
	}
	defer func() {
		cancel()
		senders.Wait()
		receivers.Wait()
	}()

	var early map[string]held
	end := time.Now().Add(brokerSoakTime(t))
	rounds := 0
	for ; rounds < 3 || time.Now().Before(end); rounds++ {
		killed := time.Now()
		b.Kill(t)
		b.Start(t)
		relinked(time.Now())
		if rounds == 1 { // all that is made once has been made
			early = map[string]held{}
			for _, id := range n.ids {
				early[id] = n.held(id)
			}
		}
		select {
		case <-time.After(time.Until(killed.Add(outage))): // the load of one round
		case <-ctx.Done():
		}
	}
	for _, id := range n.ids {
		var late held
		was := early[id]
		rig.Eventually(t, patience, func() bool {
			late = n.held(id)
			return late.links == was.links && late.files == was.files && (rig.Raced() || late.memory <= was.memory+grown)
		}, func() string { return fmt.Sprintf("router %s holds %+v, and held %+v after two rounds", id, late, was) })
		t.Logf("router %s held %+v, holds %+v", id, was, late)
	}
	stop()
	finished := make(chan struct{})
	go func() { senders.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(patience):
		t.Fatal("senders still wait for outcomes or for credit")
	}
	received := func(id int) (k int) {
		for _, f := range flows {
			f.mu.Lock()
			k += f.received[id]
			f.mu.Unlock()
		}
		return k
	}
	missing := 0
	rig.Eventually(t, patience, func() bool {
		missing = 0
		for _, f := range flows {
			for i := range f.sent {
				if received(f.first+i) == 0 {
					missing++
				}
			}
		}
		return missing == 0 && b.Depth(t, "q") == 0
	}, func() string {
		return fmt.Sprintf("%d accepted messages have not arrived, the queue has %d", missing, b.Depth(t, "q"))
	})
	sent, twice := 0, 0
	for _, f := range flows {
		sent += len(f.sent)
		for i := range f.sent {
			if received(f.first+i) > 1 {
				twice++
			}
		}
		t.Logf("from %s: %d messages; outcomes %v; connections ended with %v", f.from, len(f.sent), f.total, f.errors)
	}
	t.Logf("%d deaths; %d messages, %d of them more than once", rounds, sent, twice)
	if sent == 0 {
		t.Error("no load")
	}
}

// held is what a router holds.
type held struct {
	links, files int
	memory       int64 // octets
}

func (n *network) held(id string) (h held) {
	n.t.Helper()
	for _, row := range n.query(id, "router.link", "connectionId", "linkType") {
		if row["linkType"] == "endpoint" {
			h.links++
		}
	}
	proc := n.nodes[id].proc
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", proc.PID()))
	if err != nil {
		n.t.Fatal(err)
	}
	h.files, h.memory = len(files), proc.RSS(n.t)
	return h
}
