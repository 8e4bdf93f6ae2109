package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/amqp"
	"qdrouter/tests/internal/rig"
)

// The networks of this file run in this process; their connections are TCP.

// gopher returns a client of a router of the network.
func (n *network) gopher(t *testing.T, id string) *gopher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return &gopher{t: t, ctx: ctx, url: n.url(id)}
}

// raw returns a scripted peer of a router's listener, with a session on channel 0.
func (n *network) raw(t *testing.T, addr string) *rawPeer {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(addr, "amqp://"))
	if err != nil {
		t.Fatal(err)
	}
	p := newRawPeer(t, nc)
	p.wait = patience
	p.open()
	p.begin(0)
	return p
}

// A consumer receives from an address at one router.
type consumer struct {
	g  *gopher
	at string
	r  *goamqp.Receiver
}

func (n *network) consumer(t *testing.T, id, address string) *consumer {
	t.Helper()
	g := n.gopher(t, id)
	return &consumer{g: g, at: id, r: g.receiver(g.session(), address, &goamqp.ReceiverOptions{Credit: 200})}
}

// next takes the next message and leaves it unsettled.
func (c *consumer) next() *goamqp.Message {
	c.g.t.Helper()
	m, err := c.r.Receive(c.g.ctx, nil)
	if err != nil {
		c.g.t.Fatalf("receiving at %s: %v", c.at, err)
	}
	return m
}

// take takes the next message and accepts it.
func (c *consumer) take() *goamqp.Message {
	c.g.t.Helper()
	m := c.next()
	c.g.must(c.r.AcceptMessage(c.g.ctx, m))
	return m
}

// acceptAll accepts what comes from now on.
func (c *consumer) acceptAll() {
	go func() {
		for {
			m, err := c.r.Receive(c.g.ctx, nil)
			if err != nil || c.r.AcceptMessage(c.g.ctx, m) != nil {
				return
			}
		}
	}()
}

func (c *consumer) close() {
	c.g.t.Helper()
	c.g.must(c.r.Close(c.g.ctx))
}

// A producer sends to an address at one router.
type producer struct {
	g *gopher
	s *goamqp.Sender
}

func (n *network) producer(t *testing.T, id, address string) *producer {
	t.Helper()
	g := n.gopher(t, id)
	return &producer{g, g.sender(g.session(), address)}
}

func (p *producer) send(m *goamqp.Message) goamqp.SendReceipt {
	p.g.t.Helper()
	receipt, err := p.s.SendWithReceipt(p.g.ctx, m, nil)
	p.g.must(err)
	return receipt
}

// outcome waits for the outcome and returns its name.
func (p *producer) outcome(receipt goamqp.SendReceipt) string {
	p.g.t.Helper()
	_, name := p.g.outcomeOf(receipt)
	return name
}

// accepted sends messages, one after the outcome of the other, until k are
// accepted, and counts the outcomes.
func (p *producer) accepted(k int) map[string]int {
	p.g.t.Helper()
	start, outcomes := time.Now(), map[string]int{}
	for outcomes["accepted"] < k {
		outcomes[p.outcome(p.send(text("x")))]++
		if took := time.Since(start); took > patience {
			p.g.t.Fatalf("outcomes %v after %v", outcomes, took)
		}
	}
	p.g.t.Logf("outcomes %v within %v", outcomes, time.Since(start).Round(time.Millisecond))
	return outcomes
}

// none checks that consumers have nothing waiting.
func none(t *testing.T, consumers ...*consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	for _, c := range consumers {
		if m, err := c.r.Receive(ctx, nil); err == nil {
			t.Errorf("%s got %v, and should have had nothing more", c.at, m.Value)
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("receiving at %s: %v", c.at, err)
		}
	}
}

// A line, a triangle and a ring: every distribution, from every router, and
// what the messages and the answers to them carry.
func TestNetworkShapes(t *testing.T) {
	shapes := []struct {
		name, topology string
		from, to       string
		trace          []any    // of a message from one to the other
		nearest        []string // routers nearest to from, without it
	}{
		{"line", "A-B B-C", "A", "C", []any{"0/A", "0/B", "0/C"}, []string{"B"}},
		{"triangle", "A-B B-C C-A", "A", "C", []any{"0/A", "0/C"}, []string{"B", "C"}},
		// B and D are as near: the lower id is the way (IR 3.2).
		{"ring", "A-B B-C C-D D-A", "A", "C", []any{"0/A", "0/B", "0/C"}, []string{"B", "D"}},
	}
	for _, tt := range shapes {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t, tt.topology, netOptions{conf: distributions, clients: "    stripAnnotations: no\n"})
			t.Run("multicast", func(t *testing.T) { n.checkMulticast(t) })
			t.Run("closest", func(t *testing.T) { n.checkClosest(t, tt.from, tt.nearest) })
			t.Run("balanced", func(t *testing.T) { n.checkBalanced(t, tt.from) })
			t.Run("annotations", func(t *testing.T) { n.checkAnnotations(t, tt.from, tt.to, tt.trace) })
			t.Run("dynamic reply address", func(t *testing.T) { n.checkReply(t, tt.from, tt.to) })
			t.Run("management of each from each", func(t *testing.T) { n.checkManagement(t) })
		})
	}
}

// Every consumer has each message once, wherever it was sent (IR 3.4).
func (n *network) checkMulticast(t *testing.T) {
	const address, count = "multicast/each", 20
	var consumers []*consumer
	for _, id := range n.ids {
		consumers = append(consumers, n.consumer(t, id, address))
	}
	consumers = append(consumers, n.consumer(t, n.ids[0], address))
	for _, id := range n.ids {
		local := int64(1)
		if id == n.ids[0] {
			local = 2
		}
		n.waitAddress(id, address, local, int64(len(n.ids)-1))
	}
	for _, from := range n.ids {
		p := n.producer(t, from, address)
		var receipts []goamqp.SendReceipt
		for i := range count {
			receipts = append(receipts, p.send(text(fmt.Sprintf("%s %d", from, i))))
		}
		for _, c := range consumers {
			for i := range count {
				if got, want := c.take().Value, fmt.Sprintf("%s %d", from, i); got != want {
					t.Errorf("%s got %q, want %q", c.at, got, want)
				}
			}
		}
		for _, r := range receipts {
			if o := p.outcome(r); o != "accepted" {
				t.Errorf("outcome %s", o)
			}
		}
	}
	none(t, consumers...)
	for _, c := range consumers {
		c.close()
	}
	for _, id := range n.ids {
		n.waitAddress(id, address, 0, 0)
	}
}

// Closest goes to a consumer here, else to the nearest routers in turn (RT F28).
func (n *network) checkClosest(t *testing.T, from string, nearest []string) {
	const address, count = "closest/x", 12
	consumers := map[string]*consumer{}
	for _, id := range n.ids {
		consumers[id] = n.consumer(t, id, address)
	}
	n.waitAddress(from, address, 1, int64(len(n.ids)-1))
	p := n.producer(t, from, address)
	for range count {
		p.send(text("here"))
	}
	for range count {
		consumers[from].take()
	}
	consumers[from].close()
	n.waitAddress(from, address, 0, int64(len(n.ids)-1))
	for range count {
		p.send(text("near"))
	}
	for _, id := range nearest {
		for range count / len(nearest) {
			consumers[id].take()
		}
	}
	none(t, slices.Collect(maps.Values(without(consumers, from)))...)
	for id, c := range consumers {
		if id != from {
			c.close()
		}
	}
	n.waitAddress(from, address, 0, 0)
}

func without[V any](m map[string]V, key string) map[string]V {
	m = maps.Clone(m)
	delete(m, key)
	return m
}

// Balanced reaches every consumer and loses nothing.
func (n *network) checkBalanced(t *testing.T, from string) {
	const address, count = "balanced/x", 60
	type got struct{ at, body string }
	all := make(chan got, count)
	ctx, cancel := context.WithCancel(t.Context())
	var consumers []*consumer
	for _, id := range n.ids {
		c := n.consumer(t, id, address)
		consumers = append(consumers, c)
		go func() {
			for {
				m, err := c.r.Receive(ctx, nil)
				if err != nil {
					return
				}
				all <- got{id, fmt.Sprint(m.Value)} // and leave it
			}
		}()
	}
	n.waitAddress(from, address, 1, int64(len(n.ids)-1))
	p := n.producer(t, from, address)
	for i := range count {
		p.send(text(fmt.Sprint(i)))
	}
	share, bodies := map[string]int{}, map[string]int{}
	for range count {
		select {
		case g := <-all:
			share[g.at]++
			bodies[g.body]++
		case <-time.After(patience):
			t.Fatalf("have %v of %d messages", share, count)
		}
	}
	if len(bodies) != count || len(share) != len(n.ids) {
		t.Errorf("%d different messages in shares of %v, want %d, some at each router", len(bodies), share, count)
	}
	cancel()
	for _, c := range consumers {
		c.close()
	}
	n.waitAddress(from, address, 0, 0)
}

// Router annotations tell where to, where from and which way, behind the
// sender's own (RT F80, IR 5.2).
func (n *network) checkAnnotations(t *testing.T, from, to string, trace []any) {
	c := n.consumer(t, to, "annotated")
	n.remoteEverywhere("annotated", to)
	p := n.producer(t, from, "annotated")
	m := text("x")
	m.Annotations = goamqp.Annotations{"own": "kept"}
	p.send(m)
	got := c.take().Annotations
	want := map[any]string{
		"own": "kept", "x-opt-qd.to": "annotated", "x-opt-qd.ingress": "0/" + from, "x-opt-qd.trace": fmt.Sprint(trace),
	}
	seen := map[any]string{}
	for k, v := range got {
		seen[k] = fmt.Sprint(v)
	}
	if !maps.Equal(seen, want) {
		t.Errorf("annotations %v, want %v", seen, want)
	}
	c.close()
}

// A dynamic address is known at its router only and reached from every other
// by the router's name in it (IR 4.4).
func (n *network) checkReply(t *testing.T, from, to string) {
	g := n.gopher(t, to)
	replies := g.receiver(g.session(), "", &goamqp.ReceiverOptions{DynamicAddress: true})
	if want := "amqp:/_topo/0/" + to + "/temp."; !strings.HasPrefix(replies.Address(), want) {
		t.Errorf("dynamic address %q, want %s…", replies.Address(), want)
	}
	for name, target := range map[string]string{"named": replies.Address(), "anonymous": ""} {
		p := n.producer(t, from, target)
		m := text(name)
		address := replies.Address()
		m.Properties = &goamqp.MessageProperties{To: &address}
		receipt := p.send(m)
		c := &consumer{g, to, replies}
		if got := c.take().Value; got != name {
			t.Errorf("got %v, want %s", got, name)
		}
		if o := p.outcome(receipt); o != "accepted" {
			t.Errorf("%s: outcome %s", name, o)
		}
	}
}

func (n *network) checkManagement(t *testing.T) {
	for _, from := range n.ids {
		for _, to := range n.ids {
			rows, err := rig.Query(t.Context(), n.url(from), "_topo/0/"+to+"/$management", "router", "id")
			if err != nil || len(rows) != 1 || rows[0]["id"] != to {
				t.Errorf("%s asked through %s: %v, %v", to, from, rows, err)
			}
		}
	}
}

// Outcomes pass two hops as they were given, in both settlement orders, and no
// annotation of the routers leaves by a listener that strips them (RT F72, F81).
func TestNetworkLine(t *testing.T) {
	n := newNetwork(t, "A-B B-C", netOptions{conf: distributions})

	t.Run("outcomes", func(t *testing.T) {
		c := n.consumer(t, "C", "outcomes")
		n.waitAddress("A", "outcomes", 0, 1)
		p := n.producer(t, "A", "outcomes")
		tests := []struct {
			name   string
			answer func(m *goamqp.Message) error
			want   goamqp.DeliveryState
		}{
			{"accepted", func(m *goamqp.Message) error { return c.r.AcceptMessage(c.g.ctx, m) }, &goamqp.StateAccepted{}},
			{"rejected", func(m *goamqp.Message) error {
				return c.r.RejectMessage(c.g.ctx, m, &goamqp.Error{Condition: "test:no", Description: "not here"})
			}, &goamqp.StateRejected{Error: &goamqp.Error{Condition: "test:no", Description: "not here"}}},
			{"released", func(m *goamqp.Message) error { return c.r.ReleaseMessage(c.g.ctx, m) }, &goamqp.StateReleased{}},
			{"modified", func(m *goamqp.Message) error {
				return c.r.ModifyMessage(c.g.ctx, m, &goamqp.ModifyMessageOptions{
					DeliveryFailed: true, UndeliverableHere: true, Annotations: goamqp.Annotations{"why": "later"}})
			}, &goamqp.StateModified{DeliveryFailed: true, UndeliverableHere: true, MessageAnnotations: goamqp.Annotations{"why": "later"}}},
		}
		for _, tt := range tests {
			m := text(tt.name)
			m.Annotations = goamqp.Annotations{"own": "kept"}
			receipt := p.send(m)
			got := c.next()
			if len(got.Annotations) != 1 || got.Annotations["own"] != "kept" {
				t.Errorf("annotations %v, want only the sender's", got.Annotations)
			}
			p.g.must(tt.answer(got))
			state, _ := p.g.outcomeOf(receipt)
			if g, w := fmt.Sprintf("%T %+v", state, showState(state)), fmt.Sprintf("%T %+v", tt.want, showState(tt.want)); g != w {
				t.Errorf("outcome %s, want %s", g, w)
			}
		}
		c.close()
		n.waitAddress("A", "outcomes", 0, 0)
	})

	t.Run("settled", func(t *testing.T) {
		c := n.consumer(t, "C", "settled")
		n.waitAddress("A", "settled", 0, 1)
		p := n.producer(t, "A", "settled")
		for i := range 100 {
			p.g.must(p.s.Send(p.g.ctx, text(fmt.Sprint(i)), &goamqp.SendOptions{Settled: true}))
		}
		for i := range 100 {
			if got := c.next().Value; got != fmt.Sprint(i) {
				t.Fatalf("got %v, want %d", got, i)
			}
		}
		c.close()
	})

	// RT E44, E47: credit follows consumers at other routers too.
	t.Run("credit comes and goes", func(t *testing.T) {
		p := n.raw(t, n.url("A"))
		l := p.sender("remote/credit")
		n.waitAddress("A", "remote/credit", 0, 0)
		c := n.consumer(t, "C", "remote/credit")
		l.awaitCredit(250)
		c.close()
		n.waitAddress("A", "remote/credit", 0, 0)
		id := l.send(rawMessage("nobody"), false)
		if got := p.outcomes(id)[id]; got != "released" {
			t.Errorf("outcome without consumers %s, want released", got)
		}
	})

	// RT F89, IR 1.5.
	t.Run("priorities take their own links", func(t *testing.T) {
		c := n.consumer(t, "C", "priorities")
		n.waitAddress("A", "priorities", 0, 1)
		before := n.sentByPriority()
		p := n.producer(t, "A", "priorities")
		want := map[int64]int64{0: 3, 4: 2, 7: 2, 9: 1}
		for priority, count := range want {
			for i := range count {
				m := text("x")
				if priority != 4 || i == 0 {
					m.Header = &goamqp.MessageHeader{Priority: uint8(priority)}
				}
				p.send(m)
				c.take()
			}
		}
		for priority := range int64(10) {
			if got := n.sentByPriority()[priority] - before[priority]; got != want[priority] {
				t.Errorf("%d messages went by the link of priority %d, want %d", got, priority, want[priority])
			}
		}
		c.close()
	})

	// RT F60, IR 1.8: a stream takes a link of its own at every hop.
	t.Run("a stream holds up nobody", func(t *testing.T) {
		out := n.raw(t, n.url("C"))
		slow, fast := out.receiver("streams", 1), n.consumer(t, "C", "streams/small")
		n.waitAddress("A", "streams", 0, 1)
		n.waitAddress("A", "streams/small", 0, 1)
		in := n.raw(t, n.url("A"))
		l := in.sender("streams")
		l.awaitCredit(250)
		frames, id := l.parts(split(rawMessage(strings.Repeat("s", 1<<20)), 16000), nil)
		for _, f := range frames[:len(frames)/2] {
			in.write(f)
		}
		slow.nextTransfer() // it has begun to arrive two routers away
		p := n.producer(t, "A", "streams/small")
		for i := range 50 {
			receipt := p.send(text(fmt.Sprint(i)))
			if got := fast.take().Value; got != fmt.Sprint(i) {
				t.Errorf("got %v, want %d", got, i)
			}
			if o := p.outcome(receipt); o != "accepted" {
				t.Errorf("outcome %s", o)
			}
		}
		for _, f := range frames[len(frames)/2:] {
			in.write(f)
		}
		for slow.nextTransfer().body.(*amqp.Transfer).More {
		}
		slow.dispose(0, 0, true, amqp.StateAccepted)
		if got := in.outcomes(id)[id]; got != "accepted" {
			t.Errorf("outcome of the stream %s", got)
		}
		fast.close()
	})

	t.Run("1 MB messages arrive whole", func(t *testing.T) {
		c := n.consumer(t, "C", "large")
		n.waitAddress("A", "large", 0, 1)
		p := n.producer(t, "A", "large")
		body := strings.Repeat("0123456789abcdef", 1<<16)
		var receipts []goamqp.SendReceipt
		for range 8 {
			receipts = append(receipts, p.send(text(body)))
		}
		for range receipts {
			if got := c.take().Value; got != body {
				t.Error("a large message was changed")
			}
		}
		for _, r := range receipts {
			if o := p.outcome(r); o != "accepted" {
				t.Errorf("outcome %s", o)
			}
		}
		c.close()
	})
}

// showState returns what a state says, without pointers.
func showState(s goamqp.DeliveryState) any {
	switch s := s.(type) {
	case *goamqp.StateRejected:
		return fmt.Sprintf("%s %s", s.Error.Condition, s.Error.Description)
	case *goamqp.StateModified:
		return fmt.Sprintf("%t %t %v", s.DeliveryFailed, s.UndeliverableHere, s.MessageAnnotations)
	}
	return ""
}

// sentByPriority counts what router A has sent to others by the links of each
// priority.
func (n *network) sentByPriority() map[int64]int64 {
	n.t.Helper()
	sent := map[int64]int64{}
	for _, row := range n.query("A", "router.link", "linkType", "linkDir", "priority", "deliveryCount") {
		if row["linkType"] == "inter-router" && row["linkDir"] == "out" {
			sent[rig.Number(row["priority"])] += rig.Number(row["deliveryCount"])
		}
	}
	return sent
}

// A consumer at another router is as much busier as the way to it is longer
// (RT F22).
func TestNetworkBalancesByCost(t *testing.T) {
	n := newNetwork(t, "A-B:5", netOptions{})
	near, far := n.consumer(t, "A", "cost"), n.consumer(t, "B", "cost")
	n.waitAddress("A", "cost", 1, 1)
	p := n.producer(t, "A", "cost")
	here, there := 0, 0
	for i := range 25 {
		p.send(text(fmt.Sprint(i)))
		// One at a time: what is decided next depends on what was before.
		if c := either(t, near, far); c == near {
			here++
		} else {
			there++
		}
		if i == 4 && there != 0 {
			t.Errorf("of the first five %d went over the connection of cost 5", there)
		}
	}
	if d := here - there; d < 4 || d > 6 {
		t.Errorf("%d here and %d there, want about 5 more here", here, there)
	}
}

// either waits until one of two consumers gets a message, and leaves it
// unsettled.
func either(t *testing.T, consumers ...*consumer) *consumer {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for _, c := range consumers {
			if m := c.r.Prefetched(); m != nil {
				return c
			}
		}
		time.Sleep(time.Millisecond) // between two looks at what has come
	}
	t.Fatal("nobody got the message")
	return nil
}

// IR 3.3, with the example given there, and 2.18.
func TestNetworkRingShowsItsPaths(t *testing.T) {
	n := newNetwork(t, "A-B B-C C-D D-A", netOptions{})
	want := map[string]string{
		"A": "(self) <nil> []", "B": "<nil> 1 [D]", "C": "B 2 []", "D": "<nil> 1 [B]",
	}
	var got map[string]string
	rig.Eventually(t, patience, func() bool {
		got = map[string]string{}
		for _, row := range n.query("A", "router.node", "id", "nextHop", "cost", "validOrigins") {
			got[fmt.Sprint(row["id"])] = fmt.Sprintf("%v %v %v", row["nextHop"], row["cost"], row["validOrigins"])
		}
		return maps.Equal(got, want)
	}, func() string { return fmt.Sprintf("router A has the paths %v, want %v", got, want) })
}

// A connection that goes down: what was sent and not settled comes back
// modified, what was not sent is released, and the route heals (RT 2.9, IR 1.11).
func TestNetworkConnectionLoss(t *testing.T) {
	const senders, count = 3, 1000
	n := newNetwork(t, "A-B", netOptions{clients: "    linkCapacity: 1000\n"})
	c := n.consumer(t, "B", "loss")
	n.waitAddress("A", "loss", 0, 1)

	p := n.producer(t, "A", "loss")
	var receipts []goamqp.SendReceipt
	for range 5 {
		receipts = append(receipts, p.send(text("in doubt")))
	}
	for range receipts {
		c.next()
	}
	c.acceptAll()
	n.relays["A-B"].sever()
	for _, r := range receipts {
		state, _ := p.g.outcomeOf(r)
		if m, ok := state.(*goamqp.StateModified); !ok || !m.DeliveryFailed {
			t.Errorf("outcome %T %+v, want modified with delivery-failed", state, state)
		}
	}
	n.waitRoutes("A")
	n.relays["A-B"].mend()
	n.waitRoutes("A", "B")
	n.waitAddress("A", "loss", 0, 1)
	if got := p.accepted(1); got["released"]+got["accepted"] == 0 || len(got) > 2 {
		t.Errorf("outcomes %v", got)
	}

	// B is made to stop giving credit, so that part of what A has stays with it.
	n.relays["A-B"].stall()
	var ps []*rawPeer
	var first []uint32
	for range senders {
		p := n.raw(t, n.url("A"))
		l := p.sender("loss")
		l.awaitCredit(count)
		var bodies [][]byte
		for i := range count {
			bodies = append(bodies, rawMessage(fmt.Sprint(i)))
		}
		first = append(first, l.sendAll(bodies, false))
		p.barrier()
		ps = append(ps, p)
	}
	n.relays["A-B"].sever()
	sum := map[string]int{}
	for i, p := range ps {
		for name, k := range p.outcomesFrom(first[i], count) {
			name, how, _ := strings.Cut(name, " ")
			if name == "modified" && !strings.Contains(how, "failed=true") {
				t.Errorf("%d modified %s, want delivery-failed", k, how)
			}
			sum[name] += k
		}
	}
	t.Logf("outcomes %v", sum)
	if sum["modified"]+sum["released"] != senders*count || sum["modified"] == 0 || sum["released"] == 0 {
		t.Errorf("outcomes %v of %d messages, want some modified and the others released", sum, senders*count)
	}
}

// A router that comes back is another instance: what it had is forgotten, what
// it has now is learnt (IR 2.11).
func TestNetworkRestart(t *testing.T) {
	n := newNetwork(t, "A-B B-C", netOptions{})
	n.consumer(t, "B", "before")
	stays := n.consumer(t, "C", "stays")
	n.waitAddress("A", "before", 0, 1)
	n.waitAddress("A", "stays", 0, 1)
	p := n.producer(t, "A", "stays")
	n.stop("B")
	n.waitRoutes("A")
	n.start("B")
	n.waitRoutes("A", "B", "C")
	n.waitAddress("A", "stays", 0, 1)
	n.waitAddress("A", "before", 0, 0)
	stays.acceptAll()
	if got := p.accepted(10); got["modified"]+got["rejected"] > 0 {
		t.Errorf("outcomes %v", got)
	}
	n.consumer(t, "B", "after")
	n.waitAddress("A", "after", 0, 1)
	n.waitAddress("C", "after", 0, 1)
}

// A router that is back within the second it started is another instance all
// the same, and its neighbour forgets what it had.
func TestNetworkRestartAtOnce(t *testing.T) {
	n := newNetwork(t, "A-B", netOptions{})
	instance := func(at string) (instance int64) {
		for _, row := range n.query(at, "router.node", "id", "instance") {
			if row["id"] == "B" {
				instance = rig.Number(row["instance"])
			}
		}
		return instance
	}
	for round := range 2 {
		address := fmt.Sprint("life/", round)
		n.consumer(t, "B", address)
		n.waitAddress("A", address, 0, 1)
		was := instance("B")
		n.stop("B")
		n.start("B")
		if now := instance("B"); now == was {
			t.Fatalf("B has the instance %d again", was)
		}
		rig.Eventually(t, patience, func() bool { return instance("A") == instance("B") },
			func() string { return fmt.Sprintf("A has instance %d of B, B has %d", instance("A"), instance("B")) })
		n.waitAddress("A", address, 0, 0)
		n.waitRoutes("A", "B")
	}
}

// Two connections between a pair of routers: one is used, the loss of either
// stops nothing (IR 1.11).
func TestNetworkParallelConnections(t *testing.T) {
	n := newNetwork(t, "A-B A-B'", netOptions{})
	c := n.consumer(t, "B", "parallel")
	n.waitAddress("A", "parallel", 0, 1)
	p := n.producer(t, "A", "parallel")
	c.acceptAll()
	pass := func() {
		t.Helper()
		if sent := p.accepted(20); sent["rejected"] > 0 || sent["modified"] > 1 {
			t.Errorf("outcomes %v", sent)
		}
	}
	pass()
	for _, cut := range []string{"A-B", "A-B'"} {
		n.relays[cut].sever()
		n.waitConnections(2)
		n.waitAddress("A", "parallel", 0, 1)
		pass()
		n.relays[cut].mend()
		n.waitConnections(3)
		pass()
	}
}

// waitConnections waits until router A has one inter-router connection less
// than k.
func (n *network) waitConnections(k int) {
	n.t.Helper()
	got := 0
	rig.Eventually(n.t, patience, func() bool {
		got = 1
		for _, row := range n.query("A", "connection", "role") {
			if row["role"] == "inter-router" {
				got++
			}
		}
		return got == k
	}, func() string { return fmt.Sprintf("router A has %d connections to routers, want %d", got-1, k-1) })
}

// A connection of a router to itself leads nowhere and disturbs nobody (IR 1.11).
func TestNetworkConnectionToOneself(t *testing.T) {
	n := newNetwork(t, "A-A A-B", netOptions{conf: distributions})
	for _, address := range []string{"self", "multicast/self"} {
		c := n.consumer(t, "B", address)
		local := n.consumer(t, "A", "multicast/self")
		n.waitAddress("A", address, map[string]int64{"self": 0, "multicast/self": 1}[address], 1)
		p := n.producer(t, "A", address)
		for range 10 {
			p.send(text("x"))
			c.take()
			if address == "multicast/self" {
				local.take()
			}
		}
		none(t, c, local)
		c.close()
		local.close()
		n.waitAddress("A", "multicast/self", 0, 0)
	}
	rows := n.query("A", "router.node", "id")
	if len(rows) != 2 {
		t.Errorf("router A knows %v, want itself and B", rows)
	}
}

// Links and connections of the wrong role (IR 1.9).
func TestNetworkWrongRoles(t *testing.T) {
	n := newNetwork(t, "A-B", netOptions{})

	t.Run("a router's link on a client's connection", func(t *testing.T) {
		for _, capability := range []amqp.Symbol{"qd.router", "qd.router-data"} {
			p := n.raw(t, n.url("A"))
			l := p.attachSender(0, &amqp.Attach{Target: &amqp.Target{Capabilities: amqp.Raw(amqp.AppendValue(nil, capability))}})
			l.refused("qd:forbidden", "Connectivity to the node is forbidden")
		}
	})
	t.Run("a client's link on a router's connection", func(t *testing.T) {
		p := n.raw(t, n.nodes["A"].routersAddr())
		p.sender("x").refused("qd:connection-role", "Link attach forbidden on inter-router connection")
	})
	t.Run("a router on a listener for clients", func(t *testing.T) {
		host, port, err := net.SplitHostPort(strings.TrimPrefix(n.url("B"), "amqp://"))
		if err != nil {
			t.Fatal(err)
		}
		one := newNetwork(t, "X-Y", netOptions{only: map[string]string{"X": fmt.Sprintf(
			"connector {\n    name: wrong\n    host: %s\n    port: %s\n    role: inter-router\n}\n", host, port)}})
		for id, want := range map[string]int{"X": 2, "Y": 2} {
			if rows := one.query(id, "router.node", "id"); len(rows) != want {
				t.Errorf("router %s knows %v", id, rows)
			}
		}
		if rows := n.query("B", "router.node", "id"); len(rows) != 2 {
			t.Errorf("router B knows %v", rows)
		}
	})
}
