package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// queueAutoLinks is the guide's configuration of queue.first and queue.second,
// which the broker calls so with before in front. Without out there is no
// autolink to the second.
func queueAutoLinks(before string, out bool) string {
	text := "address {\n    prefix: queue\n    waypoint: yes\n}\n"
	for _, queue := range []string{"queue.first", "queue.second"} {
		for _, direction := range []string{"in", "out"} {
			if queue == "queue.second" && direction == "out" && !out {
				continue
			}
			text += fmt.Sprintf("autoLink {\n    address: %s\n    externalAddress: %s%s\n    connection: BROKER\n    direction: %s\n}\n",
				queue, before, queue, direction)
		}
	}
	return text
}

// wantAutoLinks waits until qdstat --autolinks has these rows, which are written
// without the identity of the link.
func wantAutoLinks(t *testing.T, r *rig.Router, want ...string) {
	t.Helper()
	var out string
	rig.Eventually(t, patience, func() bool {
		out = r.Qdstat(t, "--autolinks")
		rows := tables(out, "queue.first")
		rows = append(rows, tables(out, "queue.second")...)
		for i, row := range rows {
			cells := strings.Fields(row)
			if len(cells) > 4 && cells[4][0] >= '0' && cells[4][0] <= '9' {
				cells = slices.Delete(cells, 4, 5)
			}
			rows[i] = strings.Join(cells, " ")
		}
		slices.Sort(rows)
		return slices.Equal(rows, want)
	}, func() string { return fmt.Sprintf("qdstat says\n%s\nwant\n%s", out, strings.Join(want, "\n")) })
}

// throughQueue sends a message to an address and receives it. The receiver is
// there first: what RabbitMQ 3.10 sends on credit from before, when nobody is
// there any more, ends in a drain, and RabbitMQ's answer to that in the end of
// the session.
func throughQueue(t *testing.T, r *rig.Router, address string) {
	t.Helper()
	s, ctx := dialAMQP(t, r.URL(t), nil)
	receiver, err := s.NewReceiver(ctx, address, &goamqp.ReceiverOptions{Credit: 1})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := s.NewSender(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(ctx, text("through "+address), nil); err != nil {
		t.Fatalf("send to %s: %v", address, err)
	}
	m, err := receiver.Receive(ctx, nil)
	if err != nil {
		t.Fatalf("receive from %s: %v", address, err)
	}
	if m.Value != "through "+address {
		t.Errorf("received %v from %s", m.Value, address)
	}
	if err := receiver.AcceptMessage(ctx, m); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// The guide's second queue does not exist: its autolinks show failed and why,
// and become active when it appears (RT A4, A5, A18; MG 13.10).
func TestMissingQueue(t *testing.T) {
	b := rig.StartBroker(t, "-queue", "queue.first")
	r := rig.Start(t, rig.Config{Extra: brokerConnector("BROKER", fmt.Sprint(b.Port())) + queueAutoLinks("", true)})
	wantAutoLinks(t, r,
		"queue.first in 1 queue.first active",
		"queue.first out 0 queue.first active",
		"queue.second in 1 queue.second failed Node not found: queue.second",
		"queue.second out 0 queue.second failed Node not found: queue.second")
	throughQueue(t, r, "queue.first")
	b.Must(t, "add", "queue.second")
	wantAutoLinks(t, r,
		"queue.first in 1 queue.first active",
		"queue.first out 0 queue.first active",
		"queue.second in 1 queue.second active Node not found: queue.second", // RT A6
		"queue.second out 0 queue.second active Node not found: queue.second")
	throughQueue(t, r, "queue.second")
}

// RabbitMQ 3.10 ends the session of a link from a queue that does not exist, and
// with it every autolink of the connection. That costs the others one retry;
// after that the missing queue is asked for in a session of its own, and they
// are left in peace. Its autolink shows what RabbitMQ said, and becomes active
// when the queue appears.
//
// The same way it answers a drain, and gets no second one.
func TestSessionsEndedByRabbit(t *testing.T) {
	rabbit := rig.StartRabbit(t, "queue.first")
	r := rig.Start(t, rig.Config{Extra: rabbitConnector("BROKER", rabbit) + queueAutoLinks("/amq/queue/", false) +
		"log {\n    module: ROUTER_CORE\n    enable: info+\n}\n"})
	const said = "NOT_FOUND - no queue 'queue.second' in vhost '/'"
	second := func() (row map[string]any) {
		for _, row := range r.Query(t, "router.config.autoLink", "address", "operStatus", "lastError") {
			if row["address"] == "queue.second" {
				return row
			}
		}
		t.Fatal("no autolink of queue.second")
		return nil
	}
	var row map[string]any
	rig.Eventually(t, patience, func() bool {
		row = second()
		return row["operStatus"] == "failed" && strings.Contains(fmt.Sprint(row["lastError"]), said)
	}, func() string { return fmt.Sprintf("the autolink is %v", row) })
	links := func() (ids []string) {
		for _, row := range r.Query(t, "router.link", "identity", "owningAddr", "linkDir") {
			// Clients have the other phase of each direction.
			if at := fmt.Sprint(row["linkDir"], " ", row["owningAddr"]); at == "in M1queue.first" || at == "out M0queue.first" {
				ids = append(ids, fmt.Sprint(row["linkDir"], " ", row["identity"]))
			}
		}
		slices.Sort(ids)
		return ids
	}
	rig.Eventually(t, patience, func() bool { return len(links()) == 2 }, func() string { return fmt.Sprintf("links %q", links()) })
	before := links()
	failures := func() (n int) {
		for _, line := range r.Log() {
			if strings.Contains(line, "Auto Link Activation Failed") {
				n++
			}
		}
		return n
	}
	// The attempts that follow fail alone.
	at := failures()
	rig.Eventually(t, patience, func() bool { return failures() >= at+3 }, func() string { return "the autolink is not tried again" })
	if now := links(); !slices.Equal(now, before) {
		t.Errorf("the links of queue.first are %q, and were %q", now, before)
	}
	throughQueue(t, r, "queue.first")
	rabbit.AddQueue(t, "queue.second", false)
	rig.Eventually(t, patience, func() bool { return second()["operStatus"] == "active" }, func() string { return fmt.Sprintf("the autolink is %v", second()) })
	throughQueue(t, r, "queue.first")

	released := func() int64 { return rig.Number(r.Query(t, "router", "releasedDeliveries")[0]["releasedDeliveries"]) }
	// A message that comes while nobody receives any more goes back, and RabbitMQ is
	// told to drain the link (RT E47). It ends the session for that; so it is not
	// told again, and the next time the links stay.
	for round := range 2 {
		var before []string
		rig.Eventually(t, patience, func() bool { before = links(); return len(before) == 2 }, func() string { return fmt.Sprintf("links %q", before) })
		const messages = 5
		was := released()
		sendTo(t, r.URL(t), "queue.first", messages)
		until(t, "a message that goes back", func() bool { return released() > was })
		s, ctx := dialAMQP(t, r.URL(t), nil)
		receiver, err := s.NewReceiver(ctx, "queue.first", &goamqp.ReceiverOptions{Credit: 2 * messages})
		if err != nil {
			t.Fatal(err)
		}
		for got := map[any]bool{}; len(got) < messages; {
			m, err := receiver.Receive(ctx, nil)
			if err != nil {
				t.Fatalf("round %d, after %v: %v", round, got, err)
			}
			got[m.Value] = true
			if err := receiver.AcceptMessage(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if now := links(); round == 1 && !slices.Equal(now, before) {
			t.Errorf("the links are %q, and were %q", now, before)
		}
	}
}

// rabbitConnector is the configuration of a connector to a RabbitMQ.
func rabbitConnector(name string, r *rig.Rabbit) string {
	return fmt.Sprintf("connector {\n    name: %s\n    role: route-container\n    host: 127.0.0.1\n    port: %d\n"+
		"    saslMechanisms: PLAIN\n    saslUsername: %s\n    saslPassword: pass:%s\n}\n", name, r.Port(), rig.RabbitUser, rig.RabbitPassword)
}
