package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// A multicast in a ring of which one router after the other restarts, its
// connections cut and mended with it. Every consumer gets every message at most
// once, at any time. One that lives gets every message exactly once that was
// sent while the network was whole, and the one at the sender's router all of
// them. The sender gets an outcome for each, accepted as that one accepts it.
func TestNetworkMulticastWhileRoutersRestart(t *testing.T) {
	const address = "multicast/faults"
	topology := "A-B B-C C-D D-E E-A"
	n := newNetwork(t, topology, netOptions{conf: distributions})
	s := &soak{t: t, n: n, edges: []string{"A-B", "B-C", "C-D", "D-E", "E-A"}}

	var listeners []*listener
	listen := func(id string) *listener {
		l := &listener{at: id, got: map[int]int{}, done: make(chan struct{})}
		listeners = append(listeners, l)
		go l.run(t, n.gopher(t, id), address)
		return l
	}
	for _, id := range n.ids {
		listen(id)
	}
	// whole waits until every router has the paths of the ring: of two neighbours
	// each is the valid origin of what goes to the other.
	paths := map[string]map[string]string{}
	for i, id := range n.ids {
		left, right := n.ids[(i+4)%5], n.ids[(i+1)%5]
		paths[id] = map[string]string{id: "<nil> []", left: "1 [" + right + "]", right: "1 [" + left + "]",
			n.ids[(i+2)%5]: "2 []", n.ids[(i+3)%5]: "2 []"}
	}
	whole := func() {
		t.Helper()
		s.healed()
		for _, id := range n.ids {
			var got map[string]string
			rig.Eventually(t, patience, func() bool {
				got = map[string]string{}
				for _, row := range n.query(id, "router.node", "id", "cost", "validOrigins") {
					got[fmt.Sprint(row["id"])] = fmt.Sprint(row["cost"], " ", row["validOrigins"])
				}
				return maps.Equal(got, paths[id])
			}, func() string { return fmt.Sprintf("router %s has the paths %v, want %v", id, got, paths[id]) })
		}
		for _, id := range n.ids {
			n.waitAddress(id, address, 1, int64(len(n.ids)-1))
		}
	}
	whole()

	p := n.producer(t, "A", address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var sent int
	outcomes := map[string]int{}
	var waits sync.WaitGroup
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			mu.Lock()
			i := sent
			mu.Unlock()
			receipt, err := p.s.SendWithReceipt(ctx, text(fmt.Sprint(i)), nil)
			if err != nil {
				return
			}
			mu.Lock()
			sent++
			mu.Unlock()
			waits.Go(func() {
				state, err := receipt.Wait(p.g.ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					outcomes[err.Error()]++
				} else {
					outcomes[outcomeName(state)]++
				}
			})
		}
	}()
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return sent
	}
	// flow waits until k more are sent and returns the first and the one behind the last.
	flow := func(k int) (from, to int) {
		t.Helper()
		from = count()
		rig.Eventually(t, patience, func() bool { return count() >= from+k },
			func() string { return fmt.Sprintf("%d messages sent since %d, want %d", count()-from, from, k) })
		return from + 1, count() // the first may have been under way
	}
	// exactly checks that those that were sent while the network was whole came to
	// everybody who is there.
	exactly := func(when string, from, to int) {
		t.Helper()
		for _, l := range listeners {
			if l.gone() {
				continue
			}
			missing := 0
			rig.Eventually(t, patience, func() bool { missing = l.missing(from, to); return missing == 0 },
				func() string {
					return fmt.Sprintf("%s: %d of the messages %d to %d did not come to %s", when, missing, from, to-1, l.at)
				})
		}
	}

	for _, id := range []string{"B", "C", "D", "E"}[:rig.Scale(2, 4)] {
		from, to := flow(100)
		exactly("before "+id+" stops", from, to)
		n.stop(id)
		flow(300)
		n.start(id)
		flow(300)
		listen(id)
		whole()
	}
	for _, edge := range []string{"C-D", "A-B", "B-C", "D-E", "E-A"}[:rig.Scale(2, 5)] {
		from, to := flow(100)
		exactly("before "+edge+" is cut", from, to)
		n.relays[edge].cut()
		flow(300)
		whole()
	}
	from, to := flow(100)
	exactly("at the end", from, to)
	cancel()
	<-stopped
	waits.Wait()
	if all := listeners[0].missing(0, count()); all > 0 {
		t.Errorf("the consumer at A missed %d messages", all)
	}
	t.Logf("%d messages, outcomes %v", count(), outcomes)
	if outcomes["accepted"] != count() {
		t.Errorf("outcomes %v of %d messages, want all accepted", outcomes, count())
	}
	for _, l := range listeners {
		twice := 0
		l.mu.Lock()
		for _, k := range l.got {
			if k > 1 {
				twice++
			}
		}
		t.Logf("%s got %d messages", l.at, len(l.got))
		l.mu.Unlock()
		if twice > 0 {
			t.Errorf("%d messages came to %s more than once", twice, l.at)
		}
	}
}

// A listener accepts what comes and counts it, until its router goes.
type listener struct {
	at   string
	done chan struct{}

	mu  sync.Mutex
	got map[int]int
}

func (l *listener) run(t *testing.T, g *gopher, address string) {
	defer close(l.done)
	conn, err := goamqp.Dial(g.ctx, g.url, nil)
	if err != nil {
		t.Errorf("listening at %s: %v", l.at, err)
		return
	}
	defer conn.Close()
	session, err := conn.NewSession(g.ctx, nil)
	if err != nil {
		t.Errorf("listening at %s: %v", l.at, err)
		return
	}
	r, err := session.NewReceiver(g.ctx, address, &goamqp.ReceiverOptions{Credit: 200})
	if err != nil {
		t.Errorf("listening at %s: %v", l.at, err)
		return
	}
	for {
		m, err := r.Receive(g.ctx, nil)
		if err != nil {
			if !errors.Is(err, context.Canceled) && !connectionLost(err) {
				t.Errorf("receiving at %s: %v", l.at, err)
			}
			return
		}
		var id int
		fmt.Sscan(fmt.Sprint(m.Value), &id)
		l.mu.Lock()
		l.got[id]++
		l.mu.Unlock()
		if err := r.AcceptMessage(g.ctx, m); err != nil {
			return
		}
	}
}

func connectionLost(err error) bool {
	var conn *goamqp.ConnError
	var session *goamqp.SessionError
	var link *goamqp.LinkError
	return errors.As(err, &conn) || errors.As(err, &session) || errors.As(err, &link)
}

func (l *listener) gone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// missing counts those of a range of messages that did not come.
func (l *listener) missing(from, to int) (k int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := from; i < to; i++ {
		if l.got[i] == 0 {
			k++
		}
	}
	return k
}
