package tests

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// An asker is a client of $management.
type asker struct {
	t        *testing.T
	ctx      context.Context
	session  *amqp.Session
	requests *amqp.Sender
	replies  *amqp.Receiver
}

func newAsker(t *testing.T, ctx context.Context, url string, o *amqp.ConnOptions) *asker {
	t.Helper()
	conn, err := amqp.Dial(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	a := &asker{t: t, ctx: ctx}
	if a.session, err = conn.NewSession(ctx, nil); err == nil {
		if a.replies, err = a.session.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true, Credit: 200}); err == nil {
			a.requests, err = a.session.NewSender(ctx, "$management", nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// send sends a request without waiting for its reply.
func (a *asker) send(replyTo string, correlation any, properties map[string]any, body any) error {
	m := &amqp.Message{Properties: &amqp.MessageProperties{CorrelationID: correlation}, ApplicationProperties: properties, Value: body}
	if replyTo != "" {
		m.Properties.ReplyTo = &replyTo
	}
	return a.requests.Send(a.ctx, m, nil)
}

// receive takes the next reply.
func (a *asker) receive() (*amqp.Message, error) {
	reply, err := a.replies.Receive(a.ctx, nil)
	if err != nil {
		return nil, err
	}
	return reply, a.replies.AcceptMessage(a.ctx, reply)
}

// ask sends a request and returns its reply, whose status must be as said and
// whose correlation-id must be that of the request, type and all.
func (a *asker) ask(correlation any, properties map[string]any, body any, status int32) *amqp.Message {
	a.t.Helper()
	if err := a.send(a.replies.Address(), correlation, properties, body); err != nil {
		a.t.Fatalf("%v: %v", properties, err)
	}
	reply, err := a.receive()
	if err != nil {
		a.t.Fatalf("%v: %v", properties, err)
	}
	if code := reply.ApplicationProperties["statusCode"]; code != status || reply.ApplicationProperties["statusDescription"] == "" {
		a.t.Errorf("%v: status %v %q, want %d and a text", properties, code, reply.ApplicationProperties["statusDescription"], status)
	}
	if got := reply.Properties.CorrelationID; !reflect.DeepEqual(got, correlation) {
		a.t.Errorf("%v: correlation-id %T %v, want %T %v", properties, got, got, correlation, correlation)
	}
	return reply
}

// A pulse is one message after the other, each sent when the last was accepted,
// and how long each took.
type pulse struct {
	stop context.CancelFunc
	done chan struct{}
	took []time.Duration
	err  error
}

func startPulse(t *testing.T, ctx context.Context, url string) *pulse {
	t.Helper()
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := session.NewReceiver(ctx, "pulse", nil)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := session.NewSender(ctx, "pulse", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &pulse{done: make(chan struct{})}
	running, stop := context.WithCancel(ctx)
	p.stop = stop
	go func() {
		defer close(p.done)
		defer conn.Close()
		for n := 0; running.Err() == nil && p.err == nil; n++ {
			start := time.Now()
			p.err = beat(ctx, sender, receiver, fmt.Sprint(n))
			p.took = append(p.took, time.Since(start))
		}
	}()
	return p
}

func beat(ctx context.Context, sender *amqp.Sender, receiver *amqp.Receiver, text string) error {
	receipt, err := sender.SendWithReceipt(ctx, amqp.NewMessage([]byte(text)), nil)
	if err != nil {
		return err
	}
	m, err := receiver.Receive(ctx, nil)
	if err != nil {
		return err
	}
	if got := string(m.GetData()); got != text {
		return fmt.Errorf("received %q, sent %q", got, text)
	}
	if err := receiver.AcceptMessage(ctx, m); err != nil {
		return err
	}
	_, err = receipt.Wait(ctx)
	return err
}

// end stops the pulse and checks that no message was held up: the case has 50 ms.
// One message in a hundred may take longer: the client that sends 5 MB and 2,000
// requests is in the process of the pulse, and shares its processors and its
// garbage collector with it.
func (p *pulse) end(t *testing.T) {
	t.Helper()
	p.stop()
	<-p.done
	if p.err != nil {
		t.Fatalf("data traffic: %v", p.err)
	}
	slices.Sort(p.took)
	n := len(p.took)
	median, most, worst := p.took[n/2], p.took[n*99/100], p.took[n-1]
	t.Logf("%d messages meanwhile: median %v, 99%% within %v, worst %v", n, median, most, worst)
	const bound = 50 * time.Millisecond
	if n < 20 || most > bound && !rig.Raced() {
		t.Errorf("%d messages, 99%% of them within %v; want 20 at least, and %v", n, most, bound)
	}
}

// FC U26: management under abuse, with data traffic all the while.
func TestU26ManagementUnderAbuse(t *testing.T) {
	r := rig.Start(t, rig.Config{Extra: "log {\n module: AGENT\n enable: critical\n}\n"})
	before := r.Counts(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	t.Run("abuse", func(t *testing.T) { abuseManagement(t, ctx, r) })
	r.CheckHealthy(t, before)
}

func abuseManagement(t *testing.T, ctx context.Context, r *rig.Router) {
	const addresses = 1500
	long := strings.Repeat("x", 10<<10)
	a := newAsker(t, ctx, r.URL(t), &amqp.ConnOptions{Properties: map[string]any{
		"binary": []byte{0, 1, 255}, "list": []any{int32(1), "two"}, "map": map[string]any{"k": "v"},
		"float": float32(1.5), "null": nil, "long": long,
	}})
	for i := range addresses {
		if _, err := a.session.NewSender(ctx, fmt.Sprintf("u26/%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	p := startPulse(t, ctx, r.URL(t))

	// The client's own properties come back as they were.
	var properties any
	for _, row := range r.Query(t, "connection") {
		if m, ok := row["properties"].(map[string]any); ok && m["long"] == long {
			properties = m
			if f, ok := m["float"].(float32); !ok || f != 1.5 {
				t.Errorf("float property is %T %v", m["float"], m["float"])
			}
		}
	}
	if properties == nil {
		t.Error("no connection shows the properties of the client")
	}

	op := func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	query := func(pairs ...any) map[string]any {
		return op(append([]any{"operation", "QUERY", "entityType", "router.address"}, pairs...)...)
	}
	none := map[string]any{}
	for _, tt := range []struct {
		properties map[string]any
		body       any
		status     int32
	}{
		{query(), none, 200}, // no attribute list
		{query(), nil, 200},
		{query(), map[string]any{"attributeNames": "name"}, 200},
		{query(), map[string]any{"attributeNames": []any{int32(1), []any{}, nil, "name"}}, 200},
		{query("offset", int32(-5), "count", int32(1)), none, 200},
		{query("count", int32(0)), none, 200},
		{query("count", int32(1_000_000_000)), none, 200},
		{query("offset", int64(1)<<62, "count", int64(1)<<62), none, 200},
		{query("offset", "x"), none, 400},
		{query("count", true), none, 400},
		{op("operation", "QUERY", "entityType", "nonsense"), none, 400},
		{op("operation", "NONSENSE"), none, 501},
		{op("operation", int32(5)), none, 501},
		{op("name", "self"), none, 400},
		{op("operation", "READ", "type", "router.address", "name", "M0nobody"), none, 404},
		{op("operation", "READ", "name", "nobody"), none, 404},
		{op("operation", "CREATE", "type", "dummy", "name", "d"), int32(5), 400},
		{op("operation", "CREATE", "type", "dummy", "name", "d"), []any{"no map"}, 400},
		{op("operation", "CREATE", "type", "listener", "name", "l"), map[string]any{"host": strings.Repeat("y", 5<<20), "nonsense": true}, 400},
		{op("operation", "DELETE", "type", "connection", "identity", "1"), none, 403},
	} {
		a.ask("1", tt.properties, tt.body, tt.status)
	}
	for _, correlation := range []any{
		uint64(1) << 63, amqp.UUID{1, 2, 3}, []byte(long[:300]), long[:300], "",
	} {
		a.ask(correlation, op("operation", "READ"), none, 200)
		a.ask(correlation, op("operation", "NONSENSE"), none, 501)
		a.ask(correlation, query("count", int32(1)), none, 200)
		a.ask(correlation, op("operation", "READ", "type", "router.address", "name", "M0nobody"), none, 404)
	}

	// What cannot be answered is not, and nothing comes of it.
	for _, replyTo := range []string{"", "amqp:/_topo/0/R/temp.gone", "_topo/0/nobody/x", "amqp://", "$management"} {
		if err := a.send(replyTo, "lost", op("operation", "READ"), none); err != nil {
			t.Errorf("reply-to %q: %v", replyTo, err)
		}
	}
	a.ask("after", op("operation", "READ"), none, 200)

	// An entity that is deleted while it is read.
	a.ask("1", op("operation", "CREATE", "type", "router.config.address", "name", "u26"), map[string]any{"prefix": "u26/gone"}, 201)
	a.ask("1", op("operation", "DELETE", "type", "router.config.address", "name", "u26"), none, 204)
	a.ask("1", op("operation", "READ", "type", "router.config.address", "name", "u26"), none, 404)

	// 2,000 CREATE requests in flight from several clients, every second one of
	// which must fail.
	clients := rig.Scale(4, 8)
	var working sync.WaitGroup
	for c := range clients {
		b := newAsker(t, ctx, r.URL(t), nil)
		working.Go(func() { createAddresses(b, fmt.Sprintf("u26-%d", c), 2000/clients) })
	}

	// Meanwhile all rows are read, page by page.
	for _, page := range []int{7, 500} {
		seen := map[string]int{}
		for offset := 0; ; offset += page {
			reply := a.ask("p", query("offset", int32(offset), "count", int32(page)), map[string]any{"attributeNames": []any{"name"}}, 200)
			results := reply.Value.(map[string]any)["results"].([]any)
			for _, row := range results {
				seen[row.([]any)[0].(string)]++
			}
			if len(results) < page {
				break
			}
		}
		for i := range addresses {
			if n := seen[fmt.Sprintf("M0u26/%d", i)]; n != 1 {
				t.Fatalf("pages of %d: row %d came %d times", page, i, n)
			}
		}
	}
	working.Wait()
	p.end(t)
}

// createAddresses makes n entities, all requests in flight at once, and checks the replies.
func createAddresses(a *asker, name string, n int) {
	address := a.replies.Address()
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			body := map[string]any{"prefix": fmt.Sprintf("%s/%d", name, i)}
			if i%2 == 1 {
				body["distribution"] = "nonsense"
			}
			m := &amqp.Message{
				Properties:            &amqp.MessageProperties{ReplyTo: &address, CorrelationID: uint64(i)},
				ApplicationProperties: map[string]any{"operation": "CREATE", "type": "router.config.address", "name": fmt.Sprintf("%s-%d", name, i)},
				Value:                 body,
			}
			if _, err := a.requests.SendWithReceipt(a.ctx, m, nil); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	got := map[any]bool{}
	for range n {
		reply, err := a.receive()
		if err != nil {
			a.t.Errorf("%s: %d of %d replies, then %v", name, len(got), n, err)
			return
		}
		id, _ := reply.Properties.CorrelationID.(uint64)
		want := int32(201)
		if id%2 == 1 {
			want = 400
		}
		if code := reply.ApplicationProperties["statusCode"]; code != want || got[id] {
			a.t.Errorf("%s: request %d got %v, want %d, once", name, id, code, want)
		}
		got[id] = true
	}
	if err := <-sent; err != nil {
		a.t.Errorf("%s: %v", name, err)
	}
}
