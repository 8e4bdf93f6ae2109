package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// The example of temporal decoupling does what its README says, and qdstat tells
// of it what the guide of Qpid Dispatch Router shows: ten messages out to the
// queue at phase 0, and ten in from it at phase 1 which go on to another router;
// the autolinks' links have ten deliveries each (MG 13.7, 13.9).
func TestTemporalDecouplingExample(t *testing.T) {
	rig.NeedRabbit(t)
	t.Parallel()
	out := demo(t, "temporal-decoupling")
	passed(t, out, 2)
	const (
		unused   = `mobile my_queue 1 balanced - 0 0 0 0 0 0`
		stored   = `mobile my_queue 0 balanced - 1 0 0 10 0 0`
		consumed = `mobile my_queue 1 balanced - 0 0 10 0 10 0`
		linkIn   = `endpoint in \d+ \d+ mobile my_queue 1 250 4 0 0 10 0 0 10 0 0 0 .*`
		linkOut  = `endpoint out \d+ \d+ mobile my_queue 0 250 4 0 0 10 0 0 10 0 0 0 .*`
	)
	wantRows(t, out, "my_queue",
		`my_queue in 1 /queue/my_queue \d+ active`, `my_queue out 0 /queue/my_queue \d+ active`, // Router.B
		unused, stored, consumed, stored, linkIn, linkOut,
		stored, unused, stored, consumed, linkIn, linkOut) // Router.C
}

// The example of the sharded queue: five of ten messages go to each broker, and
// all ten come back.
func TestShardedQueueExample(t *testing.T) {
	rig.NeedRabbit(t)
	t.Parallel()
	out := demo(t, "sharded-queue")
	passed(t, out, 1)
	const (
		autoIn  = `my_queue in 1 /queue/my_queue \d+ active`
		autoOut = `my_queue out 0 /queue/my_queue \d+ active`
		empty   = `endpoint in \d+ \d+ mobile my_queue 1 250 4 0 0 0 0 0 0 0 0 0 .*`
		in      = `endpoint in \d+ \d+ mobile my_queue 1 250 4 0 0 5 0 0 5 0 0 0 .*`
		out5    = `endpoint out \d+ \d+ mobile my_queue 0 250 4 0 0 5 0 0 5 0 0 0 .*`
	)
	wantRows(t, out, "my_queue", autoIn, autoOut, autoIn, autoOut, empty, out5, empty, out5, in, out5, in, out5)
}

// The example of the link route: clients on Router.A use the broker behind
// Router.C, and are refused when it has gone.
func TestLinkRouteExample(t *testing.T) {
	rig.NeedRabbit(t)
	t.Parallel()
	out := demo(t, "link-route")
	passed(t, out, 1)
	wantRows(t, out, "b2",
		`b2 in linkBalanced active /queue/`, `b2 out linkBalanced active /queue/`,
		`link-in b2 linkBalanced - 0 1 0 0 0 0`, `link-out b2 linkBalanced - 0 1 0 0 0 0`,
		`b2 in linkBalanced inactive /queue/`, `b2 out linkBalanced inactive /queue/`)
	if want := "refused: No route to the destination node"; !strings.Contains(out, "\n"+want+"\n") {
		t.Errorf("no line %q\n%s", want, out)
	}
}

// startExample starts the routers of an example, with a broker of the tests in
// the place of RabbitMQ, and returns them and the folder of their files.
func startExample(t *testing.T, name string, b *rig.Broker) (a, b2, c *rig.Router, dir string) {
	t.Helper()
	dir = exampleCopy(t, name, map[string]string{"5772": fmt.Sprint(b.Port())})
	var routers []*rig.Router
	for _, r := range []string{"a", "b", "c"} {
		routers = append(routers, rig.Run(t, exec.Command(rig.Program("qdrouterd"), "-c", filepath.Join(dir, "router-"+r, "qdrouterd.conf"))))
	}
	for _, r := range routers {
		r.Port(t, "clients")
	}
	return routers[0], routers[1], routers[2], dir
}

// sendTo sends messages with the bodies 0 to count-1 to an address until each is
// accepted.
func sendTo(t *testing.T, url, address string, count int) {
	t.Helper()
	s, ctx := dialAMQP(t, url, nil)
	sender, err := s.NewSender(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		for accepted := false; !accepted; {
			receipt, err := sender.SendWithReceipt(ctx, text(fmt.Sprint(i)), nil)
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			state, err := receipt.Wait(ctx)
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			_, accepted = state.(*goamqp.StateAccepted)
		}
	}
}

// receiveFrom receives the messages of sendTo, in order.
func receiveFrom(t *testing.T, url, address string, count int) {
	t.Helper()
	s, ctx := dialAMQP(t, url, nil)
	receiver, err := s.NewReceiver(ctx, address, &goamqp.ReceiverOptions{Credit: int32(count)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		m, err := receiver.Receive(ctx, nil)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if m.Value != fmt.Sprint(i) {
			t.Errorf("received %v, want %d", m.Value, i)
		}
		if err := receiver.AcceptMessage(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
}

// What was sent by way of Router.B is received by way of Router.C, when B is dead
// and C has been told of the broker (RT A22).
func TestStoredMessagesOutliveTheRouter(t *testing.T) {
	const queue = "/queue/my_queue"
	broker := rig.StartBroker(t, "-queue", queue, "-user", "demo:demo")
	a, b, c, dir := startExample(t, "temporal-decoupling", broker)
	const messages = 20
	sendTo(t, a.URL(t), "my_queue", messages)
	if d := broker.Depth(t, queue); d != messages {
		t.Fatalf("the queue has %d messages, want %d", d, messages)
	}
	b.Kill()
	data, err := os.ReadFile(filepath.Join(dir, "broker.json"))
	if err != nil {
		t.Fatal(err)
	}
	c.Qdmanage(t, string(data), "create", "--stdin")
	receiveFrom(t, a.URL(t), "my_queue", messages)
	until(t, "an empty queue", func() bool { return broker.Depth(t, queue) == 0 })
}

// Each client of the link route example has a link of its own to the broker two
// routers away, which goes with it; without the broker a link is refused, and when
// it is back, it is not (RT 3, L16).
func TestLinkRouteExampleLinks(t *testing.T) {
	const address, queue = "b2.event-queue", "/queue/b2.event-queue"
	broker := rig.StartBroker(t, "-queue", queue, "-user", "demo:demo")
	a, b, _, _ := startExample(t, "link-route", broker)
	// Router.B may hear of it after Router.A, and refuses links before it does.
	known := func(want bool) {
		t.Helper()
		until(t, fmt.Sprintf("a route to the broker: %v", want), func() bool {
			n := 0
			for _, r := range []*rig.Router{a, b} {
				for _, row := range r.Query(t, "router.address", "key", "remoteCount") {
					if key := row["key"]; (key == "Cb2" || key == "Db2") && (rig.Number(row["remoteCount"]) > 0) == want {
						n++
					}
				}
			}
			return n == 4
		})
	}
	known(true)
	s, ctx := dialAMQP(t, a.URL(t), nil)
	links := func(want string) {
		t.Helper()
		until(t, want+" links at the broker", func() bool { return broker.Must(t, "links") == want })
	}
	links("0")
	var senders []*goamqp.Sender
	for range 3 {
		sender, err := s.NewSender(ctx, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		senders = append(senders, sender)
	}
	links("3")
	if err := senders[0].Close(ctx); err != nil {
		t.Fatal(err)
	}
	links("2")
	for _, sender := range senders[1:] {
		if err := sender.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	sendTo(t, a.URL(t), address, 10)
	if d := broker.Depth(t, queue); d != 10 {
		t.Errorf("the queue has %d messages, want 10", d)
	}
	broker.Kill(t)
	known(false)
	var refusal *goamqp.Error
	if _, err := s.NewReceiver(ctx, address, nil); !errors.As(err, &refusal) || refusal.Condition != "qd:no-route-to-dest" {
		t.Errorf("without the broker a receiver is told %v", err)
	}
	broker.Start(t)
	known(true)
	receiveFrom(t, a.URL(t), address, 10)
}
