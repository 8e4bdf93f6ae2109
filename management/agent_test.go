package management

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/router"
)

// encode makes a request message.
func encode(replyTo string, correlationID any, properties amqp.Map, body any) []byte {
	m := amqp.Message{
		Properties:            &amqp.Properties{CorrelationID: correlationID},
		ApplicationProperties: properties,
		Body:                  body,
		BodyKind:              amqp.BodyValue,
	}
	if replyTo != "" {
		m.Properties.ReplyTo = amqp.Some(replyTo)
	}
	return m.Append(nil)
}

// deliver hands a message to the agent as the router does, and gives its outcome.
func (b *bench) deliver(t *testing.T, message []byte) amqp.Raw {
	t.Helper()
	settled := make(chan amqp.Raw, 2)
	b.enqueue(incoming{message, 7, func(state amqp.Raw) { settled <- state }})
	select {
	case state := <-settled:
		return state
	case <-time.After(10 * time.Second):
		t.Fatalf("the request was never settled")
		return nil
	}
}

// reply waits for the n-th message sent, counted from 0.
func (b *bench) reply(t *testing.T, n int) sentMessage {
	t.Helper()
	for {
		b.core.mu.Lock()
		if len(b.core.sent) > n {
			defer b.core.mu.Unlock()
			return b.core.sent[n]
		}
		b.core.mu.Unlock()
		select {
		case <-b.core.sending:
		case <-time.After(10 * time.Second):
			t.Fatalf("no reply")
		}
	}
}

// MG 1: the addresses the agent answers at.
func TestSubscriptions(t *testing.T) {
	b := newBench(t, standaloneConf)
	for i, address := range []string{"$management", "_local/$management", "_local/$_management_internal"} {
		handle := b.core.subscribers[address]
		if handle == nil {
			t.Fatalf("nobody subscribed to %s", address)
		}
		handle(&router.Request{Message: encode("r", nil, props("operation=READ"), amqp.Map{})})
		b.reply(t, i)
	}
	b.Close()
	if len(b.core.subscribers) != 0 {
		t.Errorf("still subscribed after Close: %v", b.core.subscribers)
	}
}

// MG 2.2: the layout of a reply, octet by octet where it matters.
func TestReplyLayout(t *testing.T) {
	b := newBench(t, standaloneConf)
	uuid := amqp.UUID{1, 2, 3, 15: 16}
	for i, id := range []any{"seven", []byte{7, 0, 7}, uint64(7), uuid, nil, bytes.Repeat([]byte{1}, 300), strings.Repeat("x", 300)} {
		b.deliver(t, encode("amqp:/_topo/0/solo/temp.1", id, props("operation=READ"), amqp.Map{}))
		sent := b.reply(t, i)
		if sent.to != "amqp:/_topo/0/solo/temp.1" {
			t.Errorf("sent to %s", sent.to)
		}
		// A header with durable = false and nothing else.
		if header := []byte{0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, 0x42, 0x00, 0x53, 0x73}; !bytes.HasPrefix(sent.message, header) {
			t.Errorf("reply begins % x", sent.message[:min(10, len(sent.message))])
		}
		m, err := amqp.DecodeMessage(sent.message)
		if err != nil {
			t.Fatalf("reply does not decode: %v", err)
		}
		want := amqp.Properties{To: amqp.Some("amqp:/_topo/0/solo/temp.1"), CorrelationID: id}
		if !reflect.DeepEqual(*m.Properties, want) {
			t.Errorf("properties = %+v, want only %+v", *m.Properties, want)
		}
		if m.DeliveryAnnotations != nil || m.MessageAnnotations != nil || m.Footer != nil || m.BodyKind != amqp.BodyValue {
			t.Errorf("sections = %+v", m)
		}
		code, _ := m.ApplicationProperties.Get("statusCode")
		text, _ := m.ApplicationProperties.Get("statusDescription")
		if code != int32(200) || text != "OK" || len(m.ApplicationProperties) != 2 {
			t.Errorf("application properties = %v", m.ApplicationProperties)
		}
	}
}

// MG 2.2, 16 point 5: an accepted outcome says nothing about success.
func TestErrorsAreReplies(t *testing.T) {
	b := newBench(t, standaloneConf)
	for i, message := range [][]byte{
		encode("r", uint64(1), nil, amqp.Map{}), // no application-properties: MG 2.2 [F]
		encode("r", uint64(1), props("operation=nosuch"), nil),
		encode("r", uint64(1), props("operation=CREATE", "type=listener", "name=x"), "no map"),
	} {
		if state := b.deliver(t, message); !bytes.Equal(state, amqp.StateAccepted) {
			t.Errorf("outcome %x", state)
		}
		m, err := amqp.DecodeMessage(b.reply(t, i).message)
		if err != nil {
			t.Fatal(err)
		}
		code, _ := m.ApplicationProperties.Get("statusCode")
		if code.(int32) < 400 || m.Properties.CorrelationID != uint64(1) {
			t.Errorf("reply %d: %v to %v", i, code, m.Properties.CorrelationID)
		}
	}
}

// MG 2.2 [F]: without a reply address nothing is done; what cannot be decoded is
// rejected.
func TestRequestsThatGetNoReply(t *testing.T) {
	b := newBench(t, standaloneConf)
	if state := b.deliver(t, encode("", nil, props("operation=CREATE", "type=dummy", "name=d"), amqp.Map{})); !bytes.Equal(state, amqp.StateAccepted) {
		t.Errorf("outcome %x, want accepted", state)
	}
	good := encode("r", nil, props("operation=READ"), amqp.Map{})
	for _, bad := range [][]byte{{}, {0x00}, good[:len(good)-3], []byte("not a message at all")} {
		state := b.deliver(t, bad)
		e, err := amqp.DecodeRejected(state)
		if err != nil || e == nil || e.Condition != amqp.ErrCondDecodeError {
			t.Errorf("outcome of % x is % x, want rejected with amqp:decode-error", bad, state)
		}
	}
	b.deliver(t, encode("r", nil, props("operation=READ", "name=d"), amqp.Map{}))
	m, _ := amqp.DecodeMessage(b.reply(t, 0).message)
	if code, _ := m.ApplicationProperties.Get("statusCode"); code != int32(404) {
		t.Errorf("READ after a CREATE without reply-to = %v, want 404", code)
	}
}

// A reply of many rows is complete, and smaller requests need not wait for it.
func TestLargeReply(t *testing.T) {
	b := queryBench(t, 20_000)
	b.deliver(t, encode("big", nil, props("operation=QUERY", "entityType=router.link"), amqp.Map{}))
	b.deliver(t, encode("small", nil, props("operation=READ"), amqp.Map{}))
	got := map[string][]byte{}
	for i := range 2 {
		sent := b.reply(t, i)
		got[sent.to] = sent.message
	}
	m, err := amqp.DecodeMessage(got["big"])
	if err != nil {
		t.Fatal(err)
	}
	results, _ := m.Body.(amqp.Map).Get("results")
	if n := len(results.(amqp.List)); n != 20_000 {
		t.Errorf("%d rows, want 20000", n)
	}
	if got["small"] == nil {
		t.Errorf("no reply to the small request")
	}
}

// Replies come in the order of the requests, 2,000 of them in flight (FC U26).
func TestManyRequestsAtOnce(t *testing.T) {
	b := newBench(t, standaloneConf)
	const n = 2000
	for i := range n {
		b.enqueue(incoming{
			encode("r", uint64(i), props("operation=CREATE", "type=dummy", fmt.Sprint("name=d", i)), amqp.Map{}), 7, func(amqp.Raw) {}})
	}
	for i := range n {
		m, err := amqp.DecodeMessage(b.reply(t, i).message)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := m.ApplicationProperties.Get("statusCode"); code != int32(201) || m.Properties.CorrelationID != uint64(i) {
			t.Fatalf("reply %d has status %v, correlation-id %v", i, code, m.Properties.CorrelationID)
		}
	}
}

// What does not fit the queue is released, so that its sender may try again.
func TestFullQueueReleases(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.mu.Lock() // the agent stands still at its first request
	settled := make(chan amqp.Raw, 3*maxQueued)
	message := encode("", nil, props("operation=READ"), amqp.Map{})
	blocker := encode("r", nil, props("operation=READ"), amqp.Map{})
	b.enqueue(incoming{blocker, 7, func(s amqp.Raw) { settled <- s }})
	<-settled
	for range maxQueued + 10 {
		b.enqueue(incoming{message, 7, func(s amqp.Raw) { settled <- s }})
	}
	for range 10 {
		if state := <-settled; !bytes.Equal(state, amqp.StateReleased) {
			t.Errorf("outcome % x, want released", state)
		}
	}
	b.mu.Unlock()
	b.reply(t, 0)
}

// FuzzServe: whatever arrives, there is no panic, at most one reply, and exactly
// one outcome.
func FuzzServe(f *testing.F) {
	for _, seed := range [][]byte{
		encode("r", "1", props("operation=QUERY", "entityType=router.link", "offset=1", "count=2"), names("identity")),
		encode("r", uint64(1), props("operation=CREATE", "type=listener", "name=x"), attrs("port", "1", "http", "yes")),
		encode("r", nil, props("operation=UPDATE", "name=log/AGENT"), attrs("enable", nil)),
		encode("r", nil, props("operation=DELETE", "name=l0"), nil),
		encode("r", nil, props("operation=UPDATE", "type=connection", "identity=1"), attrs("adminStatus", "deleted")),
		encode("r", nil, props("operation=GET-JSON-SCHEMA", "indent=2"), nil),
		encode("r", nil, props("operation=GET-LOG", "limit=-1"), nil),
		encode("r", nil, props("operation=CREATE", "type=router.config.address"), attrs("prefix", "x", "waypoint", true)),
		encode("r", nil, props("operation=CREATE", "type=vhost"), attrs("hostname", "h", "groups", attrs("g", attrs("users", "*")))),
		{},
	} {
		f.Add(seed)
	}
	b := newBench(f, linkRouteConf)
	b.core.links = []router.LinkInfo{{ID: 1, Name: "l"}, {ID: 2, Name: "m"}, {ID: 3, Name: "n"}}
	b.core.connections = []router.ConnectionInfo{{ID: 1, Host: "h"}}
	f.Fuzz(func(t *testing.T, message []byte) {
		before, outcomes := len(b.core.sent), 0
		b.serve(incoming{message, 7, func(amqp.Raw) { outcomes++ }})
		if n := len(b.core.sent) - before; n > 1 || outcomes != 1 {
			t.Errorf("%d replies, %d outcomes", n, outcomes)
		}
		for _, sent := range b.core.sent[before:] {
			if _, err := amqp.DecodeMessage(sent.message); err != nil {
				t.Errorf("the reply does not decode: %v", err)
			}
			<-b.core.sending
		}
		b.core.sent = b.core.sent[:0]
	})
}
