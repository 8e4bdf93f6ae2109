package tests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/tests/internal/broker"
	"qdrouter/tests/internal/rig"
)

// startBroker starts a broker in this process and returns it and its port.
func startBroker(t *testing.T, queues ...string) (b *broker.Broker, port string) {
	t.Helper()
	b, err := broker.New(broker.Options{Queues: queues})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	addr, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return b, addr[strings.LastIndexByte(addr, ':')+1:]
}

// brokerConnector is the configuration of a connector to a broker.
func brokerConnector(name, port string) string {
	return fmt.Sprintf("connector {\n    name: %s\n    role: route-container\n    host: 127.0.0.1\n    port: %s\n    saslMechanisms: ANONYMOUS\n}\n", name, port)
}

func autoLinkSection(direction string, phase int, connection, external string) string {
	return fmt.Sprintf("autoLink {\n    address: q\n    direction: %s\n    phase: %d\n    connection: %s\n    externalAddress: %s\n}\n",
		direction, phase, connection, external)
}

// autoLinks waits until the autolinks of a router stand like this, as "in 1 active".
func (n *network) autoLinks(id string, want ...string) {
	n.t.Helper()
	var got []string
	rig.Eventually(n.t, patience, func() bool {
		got = nil
		for _, row := range n.query(id, "router.config.autoLink", "direction", "phase", "operStatus", "lastError") {
			text := fmt.Sprint(row["direction"], " ", row["phase"], " ", row["operStatus"])
			if row["operStatus"] == "failed" {
				text += fmt.Sprint(" ", row["lastError"])
			}
			got = append(got, text)
		}
		return slices.Equal(got, want)
	}, func() string { return fmt.Sprintf("the autolinks of %s are %q, want %q", id, got, want) })
}

// phases waits until the rows of address q at a router count like this: for each phase deliveries
// in, out to consumers here, and on to the other router (RT F18).
func (n *network) phases(id string, want map[string][3]int64) {
	n.t.Helper()
	var got map[string][3]int64
	rig.Eventually(n.t, patience, func() bool {
		got = map[string][3]int64{}
		for _, row := range n.query(id, "router.address", "name", "deliveriesIngress", "deliveriesEgress", "deliveriesTransit") {
			if name := fmt.Sprint(row["name"]); len(name) == 3 && name[0] == 'M' && name[2] == 'q' {
				got[name] = [3]int64{rig.Number(row["deliveriesIngress"]), rig.Number(row["deliveriesEgress"]), rig.Number(row["deliveriesTransit"])}
			}
		}
		return maps.Equal(got, want)
	}, func() string { return fmt.Sprintf("router %s counts %v, want %v", id, got, want) })
}

// A chain of two brokers over two routers: a message enters at phase 0 on B, goes through the queue
// of A's broker, then through that of B's, and is received at phase 2 on A (RT F15 to F19, A11,
// A12, A19).
func TestMultiPhaseChainOverTwoRouters(t *testing.T) {
	first, firstPort := startBroker(t, "first")
	second, secondPort := startBroker(t)
	n := newNetwork(t, "A-B", netOptions{
		conf: "address {\n    prefix: q\n    ingressPhase: 0\n    egressPhase: 2\n}\n",
		only: map[string]string{
			"A": brokerConnector("one", firstPort) + autoLinkSection("out", 0, "one", "first") + autoLinkSection("in", 1, "one", "first"),
			"B": brokerConnector("two", secondPort) + autoLinkSection("out", 1, "two", "second") + autoLinkSection("in", 2, "two", "second"),
		},
	})
	n.autoLinks("A", "out 0 active", "in 1 active")
	n.autoLinks("B", "out 1 failed Node not found: second", "in 2 failed Node not found: second") // RT A4, A18
	n.waitAddress("B", "q", 0, 1)
	const messages = 10
	p := n.producer(t, "B", "q")
	p.accepted(messages)
	if d := first.Depth("first"); d != messages { // nothing takes phase 1 yet: it stays with the broker (A12)
		t.Errorf("the first queue has %d messages", d)
	}
	second.AddQueue("second")
	n.autoLinks("B", "out 1 active", "in 2 active")
	rig.Eventually(t, patience, func() bool { return first.Depth("first") == 0 && second.Depth("second") == messages },
		func() string { return fmt.Sprintf("depths %d and %d", first.Depth("first"), second.Depth("second")) })
	c := n.consumer(t, "A", "q")
	for range messages {
		c.take()
	}
	rig.Eventually(t, patience, func() bool { return second.Depth("second") == 0 },
		func() string { return fmt.Sprintf("depth %d", second.Depth("second")) })
	none(t, c)
	n.phases("A", map[string][3]int64{"M0q": {0, messages, 0}, "M1q": {messages, 0, messages}, "M2q": {0, messages, 0}})
	n.phases("B", map[string][3]int64{"M0q": {messages, 0, messages}, "M1q": {0, messages, 0}, "M2q": {messages, 0, messages}})

	second.RemoveQueue("second") // detaches the active links (RT A5)
	n.autoLinks("B", "out 1 failed Queue deleted: second", "in 2 failed Queue deleted: second")
	second.AddQueue("second")
	n.autoLinks("B", "out 1 active", "in 2 active")
	p.accepted(1)
	c.take()
}

// Clients can be the waypoints: their capabilities say between which phases they stand (RT E37,
// F17). Here one is on each of two routers.
func TestWaypointClientsOverTwoRouters(t *testing.T) {
	n := newNetwork(t, "A-B", netOptions{conf: "address {\n    prefix: q\n    ingressPhase: 0\n    egressPhase: 2\n}\n"})
	for _, w := range []struct{ id, capability, mark string }{{"A", "qd.waypoint", "1"}, {"B", "qd.waypoint.2", "2"}} {
		g := n.gopher(t, w.id)
		s := g.session()
		from := g.receiver(s, "q", &goamqp.ReceiverOptions{Credit: 10, SourceCapabilities: []string{w.capability}})
		to, err := s.NewSender(g.ctx, "q", &goamqp.SenderOptions{TargetCapabilities: []string{w.capability}})
		g.must(err)
		go func() {
			for {
				m, err := from.Receive(g.ctx, nil)
				if err != nil {
					return
				}
				if to.Send(g.ctx, text(fmt.Sprint(m.Value, w.mark)), nil) != nil || from.AcceptMessage(g.ctx, m) != nil {
					return
				}
			}
		}()
	}
	c := n.consumer(t, "A", "q")
	n.waitAddress("B", "q", 0, 1)
	p := n.producer(t, "B", "q")
	receipt := p.send(text("m"))
	if m := c.take(); m.Value != "m12" {
		t.Errorf("received %v, want it to have passed the first waypoint and then the second", m.Value)
	}
	if o := p.outcome(receipt); o != "accepted" {
		t.Errorf("outcome %s", o)
	}
}

// A broker that is killed and comes back, and the queue with it: what was accepted is received, the
// autolinks are inactive meanwhile and then active again (RT A7, A13, A14, 2.9).
func TestAutoLinksFollowTheBroker(t *testing.T) {
	b := rig.StartBroker(t)
	b.Must(t, "add", "q")
	n := newNetwork(t, "A-B", netOptions{
		conf: "address {\n    prefix: q\n    waypoint: yes\n}\n",
		only: map[string]string{"A": brokerConnector("broker", fmt.Sprint(b.Port())) +
			autoLinkSection("out", 0, "broker", "q") + autoLinkSection("in", 1, "broker", "q")},
	})
	const rounds = 3
	accepted := map[string]bool{}
	for round := range rounds {
		n.autoLinks("A", "out 0 active", "in 1 active")
		n.waitAddress("B", "q", 0, 1)
		p := n.producer(t, "B", "q")
		for i := range 20 {
			body := fmt.Sprint(round, "-", i)
			for p.outcome(p.send(text(body))) != "accepted" {
			}
			accepted[body] = true
		}
		b.Kill(t)
		n.autoLinks("A", "out 0 inactive", "in 1 inactive")
		n.waitAddress("B", "q", 0, 0)
		b.Start(t)
	}
	n.autoLinks("A", "out 0 active", "in 1 active")
	c := n.consumer(t, "B", "q")
	for len(accepted) > 0 {
		delete(accepted, fmt.Sprint(c.take().Value))
	}
	rig.Eventually(t, patience, func() bool { return b.Depth(t, "q") == 0 },
		func() string { return fmt.Sprintf("the queue still has %d messages", b.Depth(t, "q")) })
}
