package rig

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

// Counts are what a router says it holds. The connection and the links that
// ask are among them.
type Counts struct {
	Connections, Links int64
}

// Query returns the entities of one type, with the attributes named or, when
// none is, with all.
func (r *Router) Query(t testing.TB, entityType string, attributes ...string) []map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	rows, err := Query(ctx, r.URL(t), "$management", entityType, attributes...)
	if err != nil {
		t.Fatalf("query %s: %v", entityType, err)
	}
	return rows
}

// Query asks the management agent that is at an address beyond the router at
// url. It pages through QUERY answers of 500 rows (MG 11.4).
func Query(ctx context.Context, url, agent, entityType string, attributes ...string) ([]map[string]any, error) {
	const page = 500
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	replies, err := session.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true})
	if err != nil {
		return nil, err
	}
	requests, err := session.NewSender(ctx, agent, nil)
	if err != nil {
		return nil, err
	}

	names := make([]any, len(attributes))
	for i, a := range attributes {
		names[i] = a
	}
	replyTo := replies.Address()
	var rows []map[string]any
	for {
		err := requests.Send(ctx, &amqp.Message{
			Properties: &amqp.MessageProperties{ReplyTo: &replyTo, CorrelationID: "1"},
			ApplicationProperties: map[string]any{
				"operation": "QUERY", "type": "org.amqp.management", "name": "self",
				"entityType": "org.apache.qpid.dispatch." + entityType,
				"offset":     int32(len(rows)), "count": int32(page),
			},
			Value: map[string]any{"attributeNames": names},
		}, nil)
		if err != nil {
			return nil, err
		}
		reply, err := replies.Receive(ctx, nil)
		if err != nil {
			return nil, err
		}
		if err := replies.AcceptMessage(ctx, reply); err != nil {
			return nil, err
		}
		got, err := table(reply)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
		if len(got) < page {
			return rows, nil
		}
	}
}

// table turns the body of a QUERY answer into a map for each row.
func table(reply *amqp.Message) ([]map[string]any, error) {
	if code := fmt.Sprint(reply.ApplicationProperties["statusCode"]); code != "200" {
		return nil, fmt.Errorf("status %s %v", code, reply.ApplicationProperties["statusDescription"])
	}
	body, ok := reply.Value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("answer is a %T, want a map with string keys", reply.Value)
	}
	names, ok := body["attributeNames"].([]any)
	if !ok {
		return nil, fmt.Errorf("attributeNames is a %T, want a list", body["attributeNames"])
	}
	results, ok := body["results"].([]any)
	if !ok {
		return nil, fmt.Errorf("results is a %T, want a list", body["results"])
	}
	rows := make([]map[string]any, 0, len(results))
	for _, result := range results {
		values, ok := result.([]any)
		if !ok || len(values) != len(names) {
			return nil, fmt.Errorf("row %v does not fit the attributes %v", result, names)
		}
		row := map[string]any{}
		for i, name := range names {
			row[fmt.Sprint(name)] = values[i]
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Number returns v, a number from a query, as int64, and 0 for anything else.
func Number(v any) int64 {
	switch n := v.(type) {
	case int32:
		return int64(n)
	case int64:
		return n
	case uint32:
		return int64(n)
	case uint64:
		return int64(n)
	case uint8:
		return int64(n)
	case int8:
		return int64(n)
	case float64: // from JSON
		return int64(n)
	}
	return 0
}

// Counts returns the numbers of connections and links.
func (r *Router) Counts(t testing.TB) Counts {
	t.Helper()
	rows := r.Query(t, "router", "connectionCount", "linkCount")
	if len(rows) != 1 {
		t.Fatalf("query router: %d rows, want 1", len(rows))
	}
	return Counts{Number(rows[0]["connectionCount"]), Number(rows[0]["linkCount"])}
}

// CheckHealthy is what must hold after every case (FC, conventions): the
// router lives, a fresh client passes a message within 2 s, and the numbers
// of connections and links come back to what they were before.
func (r *Router) CheckHealthy(t testing.TB, before Counts) {
	t.Helper()
	if !r.Alive() {
		t.Fatal("the router has ended")
	}
	start := time.Now()
	if err := passMessage(r.URL(t)); err != nil {
		t.Errorf("fresh client: %v", err)
	} else if took := time.Since(start); took > 2*time.Second {
		t.Errorf("fresh client took %v to pass a message, want at most 2 s", took)
	}
	var now Counts
	Eventually(t, 20*time.Second, func() bool {
		now = r.Counts(t)
		return now == before
	}, func() string {
		return fmt.Sprintf("router holds %+v, before the case %+v", now, before)
	})
}

// passMessage sends and receives one message on a connection of its own.
func passMessage(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	// A dynamic address exists whatever the default distribution is (RT E33).
	receiver, err := session.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true})
	if err != nil {
		return err
	}
	sender, err := session.NewSender(ctx, receiver.Address(), nil)
	if err != nil {
		return err
	}
	receipt, err := sender.SendWithReceipt(ctx, amqp.NewMessage([]byte("fresh")), nil)
	if err != nil {
		return err
	}
	message, err := receiver.Receive(ctx, nil)
	if err != nil {
		return err
	}
	if string(message.GetData()) != "fresh" {
		return fmt.Errorf("received %q, sent %q", message.GetData(), "fresh")
	}
	if err := receiver.AcceptMessage(ctx, message); err != nil {
		return err
	}
	outcome, err := receipt.Wait(ctx)
	if err != nil {
		return err
	}
	if _, accepted := outcome.(*amqp.StateAccepted); !accepted {
		return fmt.Errorf("outcome %T, want accepted", outcome)
	}
	return nil
}

// Eventually waits until cond holds and fails the test with the text of
// otherwise when it still does not at the limit.
func Eventually(t testing.TB, limit time.Duration, cond func() bool, otherwise func() string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", limit, otherwise())
		}
		time.Sleep(50 * time.Millisecond) // between two looks at another process
	}
}
