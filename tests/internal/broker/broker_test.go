package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	own "qdrouter/amqp"
	"qdrouter/tests/internal/broker"
)

// limit bounds every wait for something that must come.
const limit = 30 * time.Second

// start runs a broker in this process and returns its address.
func start(t *testing.T, o broker.Options) (*broker.Broker, string) {
	t.Helper()
	o.Record = true
	o.Logf = t.Logf
	b, err := broker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		if t.Failed() {
			for _, f := range b.Frames() {
				t.Logf("out=%t %d %T%+v", f.Out, f.Channel, f.Body, f.Body)
			}
		}
	})
	addr, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return b, addr
}

// dial connects with go-amqp.
func dial(t *testing.T, addr string, o *amqp.ConnOptions) (*amqp.Session, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	conn, err := amqp.Dial(ctx, "amqp://"+addr, o)
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

// until waits until cond holds.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

func text(s string) *amqp.Message { return &amqp.Message{Value: s} }

// take receives n messages, accepts them and returns their texts.
func take(t *testing.T, ctx context.Context, r *amqp.Receiver, n int) []string {
	t.Helper()
	var got []string
	for range n {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		if err := r.AcceptMessage(ctx, m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Value.(string))
	}
	return got
}

// send sends texts and wants each accepted.
func send(t *testing.T, ctx context.Context, s *amqp.Sender, texts ...string) {
	t.Helper()
	for _, x := range texts {
		if err := s.Send(ctx, text(x), nil); err != nil {
			t.Fatalf("%q: %v", x, err)
		}
	}
}

func numbers(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// Messages go through a queue in order, while transfer ids and delivery counts
// pass 2^32.
func TestQueue(t *testing.T) {
	b, addr := start(t, broker.Options{Queues: []string{"q"}, Credit: 7})
	session, ctx := dial(t, addr, nil)
	s, err := session.NewSender(ctx, "q", nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, ctx, s, numbers(50)...)
	if n := b.Depth("q"); n != 50 {
		t.Fatalf("%d messages in the queue, want 50", n)
	}
	r, err := session.NewReceiver(ctx, "q", &amqp.ReceiverOptions{Credit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := take(t, ctx, r, 50); !slices.Equal(got, numbers(50)) {
		t.Errorf("received %q", got)
	}
	until(t, "an empty queue", func() bool { return b.Depth("q") == 0 })
	begin, attach := broker.Sent[*own.Begin](b)[0], broker.Sent[*own.Attach](b)[1]
	if begin.NextOutgoingID != broker.FirstTransferID || attach.InitialDeliveryCount.V != broker.FirstDeliveryCount {
		t.Errorf("begun at %d, attached at %d", begin.NextOutgoingID, attach.InitialDeliveryCount.V)
	}
}

// A large message goes both ways in many frames.
func TestLargeMessage(t *testing.T) {
	_, addr := start(t, broker.Options{Queues: []string{"q"}})
	session, ctx := dial(t, addr, &amqp.ConnOptions{MaxFrameSize: 1024})
	s, err := session.NewSender(ctx, "q", nil)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 3<<20)
	for i := range body {
		body[i] = byte(i * 31)
	}
	if err := s.Send(ctx, amqp.NewMessage(body), nil); err != nil {
		t.Fatal(err)
	}
	r, err := session.NewReceiver(ctx, "q", nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Receive(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.GetData(), body) {
		t.Errorf("the message came changed, %d octets", len(m.GetData()))
	}
}

// A link to a queue that does not exist is refused, for either direction, and
// works once the queue is there; when it is deleted its links are closed.
func TestQueuesComeAndGo(t *testing.T) {
	b, addr := start(t, broker.Options{})
	session, ctx := dial(t, addr, nil)
	want := func(err error, condition amqp.ErrCond, text string) {
		t.Helper()
		var e *amqp.Error // of a refused attach
		var l *amqp.LinkError
		if errors.As(err, &l) {
			e = l.RemoteErr
		} else {
			errors.As(err, &e)
		}
		if e == nil || e.Condition != condition || e.Description != text {
			t.Errorf("got %v, want %s %q", err, condition, text)
		}
	}
	_, err := session.NewSender(ctx, "later", nil)
	want(err, amqp.ErrCondNotFound, "Node not found: later")
	_, err = session.NewReceiver(ctx, "later", nil)
	want(err, amqp.ErrCondNotFound, "Node not found: later")
	b.AddQueue("later")
	s, err := session.NewSender(ctx, "later", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.NewReceiver(ctx, "later", nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, ctx, s, "x")
	take(t, ctx, r, 1)
	b.RemoveQueue("later")
	_, err = r.Receive(ctx, nil)
	want(err, amqp.ErrCondResourceDeleted, "Queue deleted: later")
	if d := b.Depth("later"); d != -1 {
		t.Errorf("depth %d of a deleted queue", d)
	}
}

// What a receiver did not settle goes to the next, in its place and with a
// higher delivery-count; each outcome does what it says.
func TestOutcomes(t *testing.T) {
	b, addr := start(t, broker.Options{Create: true})
	session, ctx := dial(t, addr, nil)
	s, err := session.NewSender(ctx, "q", nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, ctx, s, numbers(5)...)
	r, err := session.NewReceiver(ctx, "q", &amqp.ReceiverOptions{Credit: 5})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			err = r.AcceptMessage(ctx, m)
		case 1:
			err = r.RejectMessage(ctx, m, nil)
		case 2:
			err = r.ModifyMessage(ctx, m, &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: true, Annotations: amqp.Annotations{"why": "later"}})
		case 3:
			err = r.ModifyMessage(ctx, m, &amqp.ModifyMessageOptions{UndeliverableHere: true})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	until(t, "three messages", func() bool { return b.Depth("q") == 3 })
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	r, err = session.NewReceiver(ctx, "q", &amqp.ReceiverOptions{Credit: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		text  string
		count uint32
		why   any
	}{{"2", 1, "later"}, {"3", 0, nil}, {"4", 1, nil}} {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		var count uint32
		if m.Header != nil {
			count = m.Header.DeliveryCount
		}
		if m.Value != want.text || count != want.count || m.Annotations["why"] != want.why {
			t.Errorf("got %v, delivery-count %d, annotation %v; want %+v", m.Value, count, m.Annotations["why"], want)
		}
		if err := r.AcceptMessage(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
}

// The receiver drains: what there is comes, and the rest of the credit is given
// back.
func TestDrain(t *testing.T) {
	_, addr := start(t, broker.Options{Create: true})
	session, ctx := dial(t, addr, nil)
	s, err := session.NewSender(ctx, "q", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.NewReceiver(ctx, "q", &amqp.ReceiverOptions{Credit: -1})
	if err != nil {
		t.Fatal(err)
	}
	send(t, ctx, s, "a", "b")
	if err := r.IssueCredit(10); err != nil {
		t.Fatal(err)
	}
	if got := take(t, ctx, r, 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("received %q", got)
	}
	if err := r.DrainCredit(ctx, nil); err != nil {
		t.Fatal(err)
	}
	send(t, ctx, s, "c")
	if m := r.Prefetched(); m != nil {
		t.Errorf("%v came without credit", m.Value)
	}
	if err := r.DrainCredit(ctx, nil); err != nil { // there is none to give back
		t.Fatal(err)
	}
	if err := r.IssueCredit(1); err != nil {
		t.Fatal(err)
	}
	take(t, ctx, r, 1)
}

// Who may come in: PLAIN with the right password, no other identity, and a
// hostname that is served.
func TestWhoMayComeIn(t *testing.T) {
	_, addr := start(t, broker.Options{Create: true, Users: map[string]string{"guest": "secret"}, Hostnames: []string{"vhost:one"}})
	for _, tt := range []struct {
		name string
		o    amqp.ConnOptions
		ok   bool
	}{
		{"user and host", amqp.ConnOptions{SASLType: amqp.SASLTypePlain("guest", "secret"), HostName: "vhost:one"}, true},
		{"wrong password", amqp.ConnOptions{SASLType: amqp.SASLTypePlain("guest", "public"), HostName: "vhost:one"}, false},
		{"unknown user", amqp.ConnOptions{SASLType: amqp.SASLTypePlain("host", "secret"), HostName: "vhost:one"}, false},
		{"anonymous", amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous(), HostName: "vhost:one"}, false},
		{"no SASL", amqp.ConnOptions{HostName: "vhost:one"}, false},
		{"other host", amqp.ConnOptions{SASLType: amqp.SASLTypePlain("guest", "secret"), HostName: "vhost"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			conn, err := amqp.Dial(ctx, "amqp://"+addr, &tt.o)
			if err == nil {
				_, err = conn.NewSession(ctx, nil)
				conn.Close()
			}
			if (err == nil) != tt.ok {
				t.Errorf("error %v, want ok: %v", err, tt.ok)
			}
		})
	}
}

// A selector is told back and lets only its messages through.
func TestSelectorLink(t *testing.T) {
	_, addr := start(t, broker.Options{Create: true})
	session, ctx := dial(t, addr, nil)
	s, err := session.NewSender(ctx, "q", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		m := text(fmt.Sprint(i))
		m.ApplicationProperties = map[string]any{"colour": []string{"red", "blue"}[i%2], "size": int64(i)}
		if err := s.Send(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	r, err := session.NewReceiver(ctx, "q", &amqp.ReceiverOptions{
		Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("colour = 'blue' AND size > 1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := take(t, ctx, r, 2); !slices.Equal(got, []string{"3", "5"}) {
		t.Errorf("received %q", got)
	}
	if f := r.LinkSourceFilterValue("apache.org:selector-filter:string"); f != "colour = 'blue' AND size > 1" {
		t.Errorf("filter told back: %v", f)
	}
	if _, err := session.NewReceiver(ctx, "q", &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("colour =")}}); err == nil {
		t.Error("a broken selector is taken")
	}
}
