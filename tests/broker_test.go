package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	own "qdrouter/amqp"
	"qdrouter/tests/internal/broker"
	"qdrouter/tests/internal/rig"
)

// brokerWait bounds every wait for a broker.
const brokerWait = 30 * time.Second

// until waits until cond holds.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(brokerWait); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", brokerWait, what)
		}
	}
}

// dialAMQP connects with go-amqp and begins a session.
func dialAMQP(t testing.TB, url string, o *amqp.ConnOptions) (*amqp.Session, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokerWait)
	t.Cleanup(cancel)
	conn, err := amqp.Dial(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, ctx
}

// brokerScenarios is what tests/clients/python/broker.py has, and its reports. A
// router with a link route to the broker must not change them.
var brokerScenarios = []scenario{
	{name: "selector", want: `{"filters": {"selector": "colour = 'blue'"}, "received": [1, 3, 5]}`},
	{name: "drain", want: `{"received": 3, "drained": 7, "credit": 0}`},
	{name: "transactions", want: `{"log": ["aborted", "committed", "a", "b", "aborted", "a", "b", "committed"]}`},
	{name: "dynamic", want: `{"dynamic": true, "named": true, "properties": {"x-opt-qd.address": "broker/dynamic"}}`},
}

// The broker does what its tests need, as Proton sees it.
func TestBrokerWithProton(t *testing.T) {
	b, err := broker.New(broker.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	addr, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range brokerScenarios {
		t.Run(s.name, func(t *testing.T) {
			checkReport(t, rig.Python(t, "broker.py", "amqp://"+addr, s.name, "broker/"+s.name), s.want)
		})
	}
	if n := b.Transactions(); n != 0 {
		t.Errorf("%d transactions are left", n)
	}
	if n := b.Depth("broker/transactions"); n != 0 {
		t.Errorf("%d messages are left of the transactions", n)
	}
}

// The broker connects to a router, which takes it for a client, and may ask its
// management.
func TestBrokerConnectsToRouter(t *testing.T) {
	r := rig.Start(t, rig.Config{Router: "    defaultDistribution: unavailable"})
	b, err := broker.New(broker.Options{ContainerID: "broker.one"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), brokerWait)
	defer cancel()
	c, err := b.Dial(ctx, r.Addr(t), broker.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Container() != "R" {
		t.Errorf("connected to %q", c.Container())
	}
	answer, err := c.Request(ctx, "$management", &own.Message{
		ApplicationProperties: own.Map{{Key: "operation", Value: "QUERY"}, {Key: "entityType", Value: "org.apache.qpid.dispatch.connection"}},
		Body:                  own.Map{{Key: "attributeNames", Value: own.List{"container"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := answer.ApplicationProperties.Get("statusCode"); code != int32(200) {
		t.Errorf("status %v %v", code, answer.Body)
	}
	if text := fmt.Sprint(answer.Body); !strings.Contains(text, "broker.one") {
		t.Errorf("the router has no connection of the broker: %s", text)
	}
	var refused *own.Error
	if _, err := c.Request(ctx, "nowhere", &own.Message{}); !errors.As(err, &refused) || refused.Condition != own.ErrCondNotFound {
		t.Errorf("a request to no address: %v", err)
	}
	c.Close(nil)
	until(t, "no connection", func() bool { return len(b.Conns()) == 0 })
}

// The broker is killed again and again while somebody sends to it. Every
// message it accepted is there in the end, and so are its queues.
func TestKilledBrokerKeepsWhatItAccepted(t *testing.T) {
	b := rig.StartBroker(t, "-queue", "q")
	b.Must(t, "add", "made")
	var accepted atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	sent := map[string]bool{} // accepted, by text; of the sender until done
	go func() {
		defer close(done)
		for n := 0; ; {
			ctx, cancel := context.WithTimeout(context.Background(), brokerWait)
			conn, err := amqp.Dial(ctx, "amqp://"+b.Addr(), nil)
			if err == nil {
				n = sendUntilCut(ctx, conn, n, sent, &accepted, stop)
				conn.Close()
			}
			cancel()
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond): // before the next attempt
			}
		}
	}()
	for range 3 {
		before := accepted.Load()
		until(t, "200 more messages accepted", func() bool { return accepted.Load() >= before+200 })
		b.Kill(t)
		b.Start(t)
	}
	close(stop)
	<-done
	if d := b.Depth(t, "made"); d != 0 {
		t.Errorf("depth %d of the queue that was added, want 0", d)
	}
	b.Kill(t)
	b.Start(t)
	s, ctx := dialAMQP(t, "amqp://"+b.Addr(), nil)
	r, err := s.NewReceiver(ctx, "q", &amqp.ReceiverOptions{Credit: 100})
	if err != nil {
		t.Fatal(err)
	}
	depth := b.Depth(t, "q")
	if depth < len(sent) {
		t.Errorf("%d messages, want the %d that were accepted", depth, len(sent))
	}
	for range depth {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.AcceptMessage(ctx, m); err != nil {
			t.Fatal(err)
		}
		delete(sent, m.Value.(string))
	}
	if len(sent) > 0 {
		t.Errorf("%d accepted messages are lost", len(sent))
	}
	until(t, "an empty queue", func() bool { return b.Depth(t, "q") == 0 })
	b.Kill(t)
	b.Start(t)
	if d := b.Depth(t, "q"); d != 0 {
		t.Errorf("%d messages are back that had been accepted", d)
	}
}

// sendUntilCut sends numbered messages from n on until the connection ends or
// stop is closed, notes those that are accepted, and returns the next number.
func sendUntilCut(ctx context.Context, conn *amqp.Conn, n int, sent map[string]bool, accepted *atomic.Int64, stop chan struct{}) int {
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return n
	}
	s, err := session.NewSender(ctx, "q", nil)
	if err != nil {
		return n
	}
	for {
		select {
		case <-stop:
			return n
		default:
		}
		text := fmt.Sprint(n)
		n++
		if err := s.Send(ctx, &amqp.Message{Value: text}, nil); err != nil {
			return n
		}
		sent[text] = true
		accepted.Add(1)
	}
}
