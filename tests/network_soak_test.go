package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// What the soak asks for.
const (
	rerouted  = 3 * time.Second  // the longest silence where another path exists
	restarted = 12 * time.Second // silence after a restart, or the mending of a connection, where none does
	pace      = 5 * time.Millisecond
	resend    = 50 * time.Millisecond // until what came back is sent again
	window    = 50                    // deliveries of a flow under way
	largeEach = 100                   // every so many messages one is large enough to be streamed
)

// soakTime is how long faults are made, over all networks together.
// QDROUTER_SOAK=2m makes it two minutes.
func soakTime(t *testing.T) time.Duration {
	text := os.Getenv("QDROUTER_SOAK")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("QDROUTER_SOAK: %v", err)
	}
	return d
}

// Routers are killed and restarted and connections cut under steady traffic,
// one after the other. Every message arrives, outcomes add up, nothing arrives
// twice that was not in doubt, and traffic flows again in time.
func TestNetworkSoak(t *testing.T) {
	networks := []struct {
		name, topology string
		flows          []string
	}{
		{"chain", "A-B B-C", []string{"A>C", "C>A", "B>C"}},
		{"triangle", "A-B B-C C-A", []string{"A>B", "B>C", "C>A"}},
		{"ring of five", "A-B B-C C-D D-E E-A", []string{"A>C", "D>B", "E>A"}},
	}
	each := soakTime(t) / time.Duration(len(networks))
	for _, tt := range networks {
		t.Run(tt.name, func(t *testing.T) {
			s := &soak{t: t, n: newNetwork(t, tt.topology, netOptions{processes: true}), edges: strings.Fields(tt.topology)}
			for i, f := range tt.flows {
				from, to, _ := strings.Cut(f, ">")
				s.flows = append(s.flows, newFlow(s.n, from, to, fmt.Sprintf("soak/%d", i)))
			}
			s.run(each)
		})
	}
}

type soak struct {
	t     *testing.T
	n     *network
	edges []string
	flows []*flow
}

func (s *soak) run(length time.Duration) {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var clients sync.WaitGroup
	producing, stop := context.WithCancel(ctx)
	for _, f := range s.flows {
		clients.Go(func() { f.receive(ctx) })
	}
	var senders sync.WaitGroup
	for _, f := range s.flows {
		senders.Go(func() { f.send(ctx, producing) })
	}
	s.flowing("at the start", s.flows, time.Now(), patience)

	seed := uint64(time.Now().UnixNano())
	s.t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	faults := s.faults()
	rnd.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	// However short the time, a router is killed and a connection cut.
	slices.SortStableFunc(faults[1:], func(a, b fault) int {
		return boolInt(a.router == "" == (faults[0].router == "")) - boolInt(b.router == "" == (faults[0].router == ""))
	})
	end := time.Now().Add(length)
	for i := 0; i < 2 || time.Now().Before(end); i++ {
		s.fault(faults[i%len(faults)])
		if s.t.Failed() {
			break
		}
	}

	stop()
	finished := make(chan struct{})
	go func() { senders.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(patience):
		s.t.Error("senders still wait for outcomes or for credit")
	}
	if !s.t.Failed() {
		// What was accepted has been received before.
		for _, f := range s.flows {
			f.check(s.t)
		}
	}
	cancel()
	clients.Wait()
	<-finished
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A fault is a router killed, or a connection cut, for good until it is mended
// or only once.
type fault struct {
	router, edge string
	once         bool
}

func (f fault) String() string {
	switch {
	case f.router != "":
		return "killing " + f.router
	case f.once:
		return "cutting " + f.edge
	}
	return "severing " + f.edge
}

func (s *soak) faults() []fault {
	var list []fault
	for _, id := range s.n.ids {
		list = append(list, fault{router: id})
	}
	for i, e := range s.edges {
		list = append(list, fault{edge: e, once: i%2 == 0})
		list = append(list, fault{edge: e, once: i%2 == 1})
	}
	return list
}

// down is how long a killed router stays away, and a severed connection: long
// enough to see the others find another way.
const down = rerouted + 500*time.Millisecond

// fault makes one fault and checks what follows.
func (s *soak) fault(f fault) {
	var through, broken []*flow
	for _, flow := range s.flows {
		if s.connected(flow.from, flow.to, f) {
			through = append(through, flow)
		} else {
			broken = append(broken, flow)
		}
	}
	start := time.Now()
	mended := start
	switch {
	case f.router != "":
		s.n.stop(f.router)
		start = time.Now()
		s.pause(down)
		mended = time.Now()
		s.n.start(f.router)
	case f.once:
		s.n.relays[f.edge].cut()
	default:
		s.n.relays[f.edge].sever()
		start = time.Now()
		s.pause(down)
		mended = time.Now()
		s.n.relays[f.edge].mend()
	}
	s.flowing(fmt.Sprintf("after %v, which leaves no path", f), broken, mended, restarted)
	// The way back to the old paths is part of it.
	s.pause(time.Until(mended.Add(down)))
	s.healed()
	end := time.Now()
	for _, flow := range through {
		if gap := flow.silence(start, end); gap > rerouted {
			s.t.Errorf("after %v no message came from %s to %s for %v, though a path was there", f, flow.from, flow.to, gap)
		} else {
			s.t.Logf("%v: %s to %s was silent for %v", f, flow.from, flow.to, gap.Round(time.Millisecond))
		}
	}
}

// healed waits until every router knows of every connection. The next fault
// would cut off more than it says otherwise.
func (s *soak) healed() {
	s.t.Helper()
	want := map[string][]string{}
	for _, e := range s.edges {
		a, b, _ := strings.Cut(e, "-")
		want[a], want[b] = append(want[a], b), append(want[b], a)
	}
	for _, id := range s.n.ids {
		slices.Sort(want[id])
	}
	for _, id := range s.n.ids {
		var got map[string][]string
		rig.Eventually(s.t, patience, func() bool {
			got = map[string][]string{}
			for _, row := range s.n.query(id, "router.node", "id", "linkState") {
				list, _ := row["linkState"].([]any)
				peers := []string{}
				for _, p := range list {
					peers = append(peers, fmt.Sprint(p))
				}
				slices.Sort(peers)
				got[fmt.Sprint(row["id"])] = peers
			}
			return maps.EqualFunc(got, want, slices.Equal[[]string])
		}, func() string { return fmt.Sprintf("router %s has the link states %v, want %v", id, got, want) })
	}
}

// pause lets traffic flow.
func (s *soak) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.t.Context().Done():
	}
}

// flowing waits until a message of each flow that was sent after start arrives.
func (s *soak) flowing(when string, flows []*flow, start time.Time, limit time.Duration) {
	for _, f := range flows {
		for f.firstAfter(start).IsZero() && time.Since(start) < limit {
			s.pause(20 * time.Millisecond)
		}
		first := f.firstAfter(start)
		if first.IsZero() {
			s.t.Errorf("%s, nothing came from %s to %s within %v", when, f.from, f.to, limit)
			continue
		}
		s.t.Logf("%s: %s to %s flows after %v", when, f.from, f.to, first.Sub(start).Round(time.Millisecond))
	}
}

// connected reports whether there is a path while the fault lasts.
func (s *soak) connected(from, to string, f fault) bool {
	if from == f.router || to == f.router {
		return false
	}
	reached := map[string]bool{from: true}
	for range s.edges {
		for _, e := range s.edges {
			a, b, _ := strings.Cut(e, "-")
			if e != f.edge && a != f.router && b != f.router && (reached[a] || reached[b]) {
				reached[a], reached[b] = true, true
			}
		}
	}
	return reached[to]
}

// A flow is an at-least-once sender on one router and a receiver on another.
type flow struct {
	n                 *network
	from, to, address string
	first             int // number of the first message

	mu       sync.Mutex
	sent     []time.Time       // by message: when it was first given to the library
	tries    []map[string]int  // by message: outcomes of its deliveries, "lost" where the connection was
	received map[int]int       // by message: how often
	arrivals []arrival         // in order
	underWay map[int]time.Time // deliveries without outcome
	errors   map[string]int    // what reconnecting had to do with
	total    map[string]int    // outcomes
}

type arrival struct {
	at time.Time
	id int
}

func newFlow(n *network, from, to, address string) *flow {
	return &flow{n: n, from: from, to: to, address: address,
		received: map[int]int{}, underWay: map[int]time.Time{}, errors: map[string]int{}, total: map[string]int{}}
}

// dial connects to a router again and again until it can.
func dial(ctx context.Context, n *network, id string) (*amqp.Conn, *amqp.Session) {
	for ctx.Err() == nil {
		if url := n.url(id); url != "" {
			limit, cancel := context.WithTimeout(ctx, 5*time.Second)
			conn, err := amqp.Dial(limit, url, &amqp.ConnOptions{ContainerID: "soak"})
			if err == nil {
				var session *amqp.Session
				if session, err = conn.NewSession(limit, nil); err == nil {
					cancel()
					return conn, session
				}
				conn.Close()
			}
			cancel()
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil, nil
}

func (f *flow) receive(ctx context.Context) {
	for ctx.Err() == nil {
		conn, session := dial(ctx, f.n, f.to)
		if conn == nil {
			return
		}
		f.note(f.receiveOn(ctx, session))
		conn.Close()
	}
}

func (f *flow) receiveOn(ctx context.Context, session *amqp.Session) error {
	receiver, err := session.NewReceiver(ctx, f.address, &amqp.ReceiverOptions{Credit: 2 * window})
	if err != nil {
		return err
	}
	for {
		m, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		id := int(rig.Number(m.ApplicationProperties["id"]))
		f.mu.Lock()
		f.received[id]++
		f.arrivals = append(f.arrivals, arrival{time.Now(), id})
		f.mu.Unlock()
		if err := receiver.AcceptMessage(ctx, m); err != nil {
			return err
		}
	}
}

func (f *flow) note(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors[err.Error()]++
}

// send makes messages while producing lasts, and sends each until it is
// accepted.
func (f *flow) send(ctx, producing context.Context) {
	ids := make(chan int, window)        // to be sent
	slots := make(chan struct{}, window) // one held by each message under way
	again := make(chan int, window)
	go func() {
		defer close(ids)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for id := 0; ; id++ {
			select {
			case <-producing.Done():
				return
			case <-tick.C:
			}
			select {
			case slots <- struct{}{}:
				ids <- id
			case <-producing.Done():
				return
			}
		}
	}()
	news := (<-chan int)(ids)
	done := func() bool { return news == nil && len(slots) == 0 }
	for ctx.Err() == nil && !done() {
		conn, session := dial(ctx, f.n, f.from)
		if conn == nil {
			return
		}
		sender, err := session.NewSender(ctx, f.address, nil)
		for err == nil && !done() {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-conn.Done():
				err = conn.Err()
			case id := <-again:
				err = f.sendOne(ctx, sender, id, slots, again)
			case id, ok := <-news:
				if !ok {
					news = nil
					continue
				}
				err = f.sendOne(ctx, sender, id, slots, again)
			case <-time.After(pace): // look whether all is done
			}
		}
		f.note(err)
		conn.Close()
	}
}

// sendOne sends a message once; what comes of it decides whether it is sent
// again.
func (f *flow) sendOne(ctx context.Context, sender *amqp.Sender, id int, slots chan struct{}, again chan int) error {
	f.mu.Lock()
	for len(f.sent) <= id {
		f.sent = append(f.sent, time.Now())
		f.tries = append(f.tries, map[string]int{})
	}
	f.underWay[id] = time.Now()
	f.mu.Unlock()
	body := "small"
	if id%largeEach == largeEach-1 {
		body = strings.Repeat("large", 40_000)
	}
	receipt, err := sender.SendWithReceipt(ctx, &amqp.Message{
		Value: body, ApplicationProperties: map[string]any{"id": int64(f.first + id)}}, nil)
	if err != nil {
		f.outcome(id, "lost", slots, again)
		return err
	}
	go func() {
		state, err := receipt.Wait(ctx)
		name := "lost"
		if err == nil {
			name = outcomeName(state)
		}
		f.outcome(id, name, slots, again)
	}()
	return nil
}

func (f *flow) outcome(id int, name string, slots chan struct{}, again chan int) {
	f.mu.Lock()
	f.tries[id][name]++
	f.total[name]++
	delete(f.underWay, id)
	f.mu.Unlock()
	if name == "accepted" {
		<-slots
		return
	}
	time.AfterFunc(resend, func() { again <- id }) // has room for every slot
}

// firstAfter returns when the first message that was sent after start arrived.
func (f *flow) firstAfter(start time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.arrivals) - 1; i >= 0 && f.arrivals[i].at.After(start); i-- {
		// The first is the one to find; arrivals before start end the search.
		if i == 0 || !f.arrivals[i-1].at.After(start) {
			for _, a := range f.arrivals[i:] {
				if f.sent[a.id].After(start) {
					return a.at
				}
			}
		}
	}
	return time.Time{}
}

// silence returns the longest time without an arrival.
func (f *flow) silence(start, end time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	longest, last := time.Duration(0), start
	for _, a := range f.arrivals {
		if a.at.After(start) && a.at.Before(end) {
			longest, last = max(longest, a.at.Sub(last)), a.at
		}
	}
	return max(longest, end.Sub(last))
}

// check compares what the sender and the receiver saw.
func (f *flow) check(t *testing.T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := fmt.Sprintf("%s to %s", f.from, f.to)
	t.Logf("%s: %d messages; outcomes %v; connections ended with %v", name, len(f.sent), f.total, f.errors)
	for id, tries := range f.tries {
		all := 0
		for _, k := range tries {
			all += k
		}
		inDoubt := tries["lost"] + tries["modified"]
		switch got := f.received[id]; {
		case tries["accepted"] != 1:
			t.Errorf("%s: message %d was accepted %d times: %v", name, id, tries["accepted"], tries)
		case got == 0:
			t.Errorf("%s: message %d was accepted, and did not arrive", name, id)
		case got > 1+inDoubt:
			t.Errorf("%s: message %d came %d times, with the outcomes %v", name, id, got, tries)
		case all != 1+inDoubt+tries["released"]:
			t.Errorf("%s: message %d has the outcomes %v", name, id, tries)
		}
	}
	if len(f.underWay) > 0 {
		t.Errorf("%s: %d deliveries have no outcome", name, len(f.underWay))
	}
}
