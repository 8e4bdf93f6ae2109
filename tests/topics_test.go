package tests

import (
	"fmt"
	"testing"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// row is the row of an entity of that name.
func (n *network) row(id, entityType, name string) map[string]any {
	n.t.Helper()
	for _, row := range n.query(id, entityType) {
		if row["name"] == name {
			return row
		}
	}
	return nil
}

// waitKey waits until an address, by its key, has that many remote destinations at a router.
func (n *network) waitKey(id, key string, remote int64) {
	n.t.Helper()
	var got any
	rig.Eventually(n.t, patience, func() bool {
		got = n.row(id, "router.address", key)["remoteCount"]
		return got != nil && rig.Number(got) == remote
	}, func() string { return fmt.Sprintf("router %s counts %v remote destinations of %s", id, got, key) })
}

// TestFallbackOverTheNetwork: what has no consumer anywhere goes to the fallback destination at
// another router, comes back when there is one, and is counted where it was redirected (RT F42 to
// F45, A16; 7 point 38).
func TestFallbackOverTheNetwork(t *testing.T) {
	n := newNetwork(t, "B-A", netOptions{conf: "address {\n    prefix: dest\n    distribution: closest\n    enableFallback: yes\n}\n"})
	a := n.gopher(t, "A")
	store := &consumer{g: a, at: "A", r: a.receiver(a.session(), "dest.q", &goamqp.ReceiverOptions{Credit: 200, SourceCapabilities: []string{"qd.fallback"}})}
	n.waitKey("B", "MFdest.q", 1)
	p := n.producer(t, "B", "dest.q")
	receipt := p.send(goamqp.NewMessage([]byte("stored")))
	if got := string(store.take().GetData()); got != "stored" {
		t.Fatalf("the fallback got %q", got)
	}
	if got := p.outcome(receipt); got != "accepted" {
		t.Errorf("stored: %s", got)
	}
	wantRow := func(id, entityType, name string, want map[string]int64) {
		t.Helper()
		row := n.row(id, entityType, name)
		for attribute, value := range want {
			if got := row[attribute]; got == nil || rig.Number(got) != value {
				t.Errorf("%s of %s at %s is %v, want %d", attribute, name, id, got, value)
			}
		}
	}
	wantRow("B", "router.address", "M0dest.q", map[string]int64{"deliveriesRedirectedToFallback": 1, "deliveriesIngress": 1, "deliveriesTransit": 0})
	wantRow("B", "router.address", "MFdest.q", map[string]int64{"deliveriesRedirectedToFallback": 0, "deliveriesIngress": 0, "deliveriesTransit": 1})
	wantRow("A", "router.address", "MFdest.q", map[string]int64{"deliveriesIngress": 0, "deliveriesEgress": 0, "subscriberCount": 1})

	direct := n.consumer(t, "B", "dest.q")
	n.waitAddress("A", "dest.q", 0, 1)
	back, err := a.session().NewSender(a.ctx, "dest.q", &goamqp.SenderOptions{TargetCapabilities: []string{"qd.fallback"}})
	a.must(err)
	receipt, err = back.SendWithReceipt(a.ctx, goamqp.NewMessage([]byte("back")), nil)
	a.must(err)
	if got := string(direct.take().GetData()); got != "back" {
		t.Errorf("the consumer got %q", got)
	}
	if _, got := a.outcomeOf(receipt); got != "accepted" {
		t.Errorf("back: %s", got)
	}
	receipt = p.send(goamqp.NewMessage([]byte("direct")))
	if got := string(direct.take().GetData()); got != "direct" {
		t.Errorf("the consumer got %q", got)
	}
	if got := p.outcome(receipt); got != "accepted" {
		t.Errorf("direct: %s", got)
	}
	direct.close()
	n.waitAddress("A", "dest.q", 0, 0)
	receipt, err = back.SendWithReceipt(a.ctx, goamqp.NewMessage([]byte("nobody")), nil) // never into where it came from
	a.must(err)
	if _, got := a.outcomeOf(receipt); got != "released" {
		t.Errorf("back to nobody: %s", got)
	}
	receipt = p.send(goamqp.NewMessage([]byte("stored again")))
	if got := string(store.take().GetData()); got != "stored again" {
		t.Errorf("the fallback got %q", got)
	}
	if got := p.outcome(receipt); got != "accepted" {
		t.Errorf("stored again: %s", got)
	}
	wantRow("A", "router.address", "M0dest.q", map[string]int64{"deliveriesIngress": 0, "deliveriesTransit": 1})
	wantRow("B", "router.address", "M0dest.q", map[string]int64{"deliveriesRedirectedToFallback": 2, "deliveriesIngress": 3, "deliveriesEgress": 2})
}

// TestExchangeOverTheNetwork: senders anywhere reach an exchange, whose bindings lead anywhere (RT
// X1 to X7; 7 point 47); it can be taken down and changed by request.
func TestExchangeOverTheNetwork(t *testing.T) {
	n := newNetwork(t, "B-A", netOptions{
		conf: "address {\n    prefix: many\n    distribution: multicast\n}\n",
		only: map[string]string{"A": `exchange {
    name: ex
    address: news
    alternateAddress: rest
}
binding {
    name: b1
    exchangeName: ex
    bindingKey: a.*
    nextHopAddress: one
}
binding {
    name: b2
    exchangeName: ex
    bindingKey: a.b
    nextHopAddress: one
}
binding {
    exchangeName: ex
    bindingKey: a.#
    nextHopAddress: many.x
}
`}})
	n.waitKey("B", "M0news", 1)
	one, here, there := n.consumer(t, "B", "one"), n.consumer(t, "A", "many.x"), n.consumer(t, "B", "many.x")
	n.waitAddress("A", "one", 0, 1)
	n.waitAddress("A", "many.x", 1, 1)
	p := n.producer(t, "B", "news")
	send := func(subject, want string) {
		t.Helper()
		m := goamqp.NewMessage([]byte(subject))
		m.Properties = &goamqp.MessageProperties{Subject: &subject}
		if got := p.outcome(p.send(m)); got != want {
			t.Errorf("%s: %s, want %s", subject, got, want)
		}
	}
	got := func(subject string, consumers ...*consumer) {
		t.Helper()
		for _, c := range consumers {
			if m := c.next(); string(m.GetData()) != subject {
				t.Errorf("at %s: %q, want %q", c.at, m.GetData(), subject)
			}
		}
	}
	send("a.b", "accepted")
	send("nothing", "released")
	send("a", "accepted")
	got("a.b", one, here, there)
	got("a", here, there)
	want := func(entityType, name string, counts map[string]int64) {
		t.Helper()
		row := n.row("A", entityType, name)
		for attribute, value := range counts {
			if row[attribute] == nil || rig.Number(row[attribute]) != value {
				t.Errorf("%s of %s is %v, want %d", attribute, name, row[attribute], value)
			}
		}
	}
	want("router.config.exchange", "ex", map[string]int64{"bindingCount": 3, "receivedCount": 3, "forwardedCount": 2, "droppedCount": 1, "divertedCount": 0})
	want("router.config.binding", "b1", map[string]int64{"matchedCount": 1})
	want("router.config.binding", "b2", map[string]int64{"matchedCount": 1})
	want("router.config.binding", "binding/2", map[string]int64{"matchedCount": 2})

	rest := n.consumer(t, "A", "rest")
	send("nothing", "accepted")
	got("nothing", rest)
	direct := n.consumer(t, "A", "news") // at B it would be the nearer one
	n.waitAddress("A", "news", 1, 0)
	send("a.c", "accepted")
	got("a.c", one, here, there, direct)
	want("router.config.exchange", "ex", map[string]int64{"receivedCount": 5, "forwardedCount": 4, "droppedCount": 1, "divertedCount": 1})
}
