package tests

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// The counts of tests/clients/python/report.py and tests/clients/node/client.js.
const (
	messageCount = 20
	largeBody    = 10 << 20 // bytes
)

// silence is how long something must not happen before a test believes that it
// will not. It can only make a test pass that should fail.
const silence = 300 * time.Millisecond

// goAMQP runs a scenario with go-amqp, in this process. Numbers in its report
// are float64, as they are in a report that was JSON.
func goAMQP(t *testing.T, url, scenario string, args ...string) rig.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g := &gopher{t: t, ctx: ctx, url: url, address: args[0]}
	switch scenario {
	case "unsettled":
		return g.exchange(exchange{})
	case "presettled", "at-most-once":
		return g.exchange(exchange{presettle: true})
	case "rejected":
		return g.exchange(exchange{answer: func(r *amqp.Receiver, m *amqp.Message) error {
			return r.RejectMessage(ctx, m, &amqp.Error{Condition: "test:refused", Description: "not today"})
		}})
	case "released":
		return g.exchange(exchange{answer: func(r *amqp.Receiver, m *amqp.Message) error {
			return r.ReleaseMessage(ctx, m)
		}})
	case "modified":
		return g.exchange(exchange{answer: func(r *amqp.Receiver, m *amqp.Message) error {
			return r.ModifyMessage(ctx, m, &amqp.ModifyMessageOptions{
				DeliveryFailed: true, UndeliverableHere: true, Annotations: amqp.Annotations{"why": "later"},
			})
		}})
	case "settled-for-receiver":
		return g.refused(&amqp.ReceiverOptions{RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr()})
	case "at-least-once":
		return g.atLeastOnce()
	case "exactly-once":
		return g.refused(&amqp.ReceiverOptions{SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
	case "large":
		return g.large()
	case "drain":
		return g.drain()
	case "request-response":
		return g.requestResponse()
	case "credit":
		return g.credit()
	case "ring":
		return g.ring(args[1])
	}
	t.Fatalf("no scenario %q", scenario)
	return nil
}

// A gopher is one run of a scenario with go-amqp.
type gopher struct {
	t       *testing.T
	ctx     context.Context
	url     string
	address string
}

func (g *gopher) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// session opens a connection, which closes with the test, and a session on it.
func (g *gopher) session() *amqp.Session {
	g.t.Helper()
	conn, err := amqp.Dial(g.ctx, g.url, nil)
	g.must(err)
	g.t.Cleanup(func() { conn.Close() })
	session, err := conn.NewSession(g.ctx, nil)
	g.must(err)
	return session
}

func (g *gopher) receiver(session *amqp.Session, address string, options *amqp.ReceiverOptions) *amqp.Receiver {
	g.t.Helper()
	receiver, err := session.NewReceiver(g.ctx, address, options)
	g.must(err)
	return receiver
}

func (g *gopher) sender(session *amqp.Session, address string) *amqp.Sender {
	g.t.Helper()
	sender, err := session.NewSender(g.ctx, address, nil)
	g.must(err)
	return sender
}

func text(body string) *amqp.Message { return &amqp.Message{Value: body} }

// outcomeOf waits until the delivery is settled and returns its outcome and
// the outcome's name.
func (g *gopher) outcomeOf(receipt amqp.SendReceipt) (amqp.DeliveryState, string) {
	g.t.Helper()
	state, err := receipt.Wait(g.ctx)
	g.must(err)
	return state, outcomeName(state)
}

// outcomeName is the name of an outcome, such as accepted.
func outcomeName(state amqp.DeliveryState) string {
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", state), "*encoding.State"))
}

// refused attaches a receiver in a mode the router does not answer with, and
// reports what the library says of that.
func (g *gopher) refused(options *amqp.ReceiverOptions) rig.Report {
	_, err := g.session().NewReceiver(g.ctx, g.address, options)
	if err == nil {
		return rig.Report{"refused": "nothing"}
	}
	return rig.Report{"refused": strings.TrimPrefix(err.Error(), "amqp: ")}
}

// exchange describes how messages are passed and answered.
type exchange struct {
	messages  int           // 0: messageCount
	message   *amqp.Message // nil: a short text
	presettle bool
	answer    func(*amqp.Receiver, *amqp.Message) error // nil: accept
	look      func(rig.Report, *amqp.Message)           // sees each message received
}

// exchange passes messages to a receiver that answers each, and reports what
// became of them.
func (g *gopher) exchange(x exchange) rig.Report {
	if x.messages == 0 {
		x.messages = messageCount
	}
	if x.message == nil {
		x.message = text("hello")
	}
	if x.answer == nil {
		x.answer = func(r *amqp.Receiver, m *amqp.Message) error { return r.AcceptMessage(g.ctx, m) }
	}
	receiver := g.receiver(g.session(), g.address, &amqp.ReceiverOptions{Credit: int32(x.messages)})
	sender := g.sender(g.session(), g.address)

	report := rig.Report{}
	settled := new(tally)
	settled.count = map[string]any{}
	var receipts []amqp.SendReceipt
	for range x.messages {
		if x.presettle {
			g.must(sender.Send(g.ctx, x.message, &amqp.SendOptions{Settled: true}))
			continue
		}
		receipt, err := sender.SendWithReceipt(g.ctx, x.message, nil)
		g.must(err)
		receipts = append(receipts, receipt)
	}
	presettled := 0
	for range x.messages {
		m, err := receiver.Receive(g.ctx, nil)
		g.must(err)
		if x.look != nil {
			x.look(report, m)
		}
		if x.presettle {
			presettled++ // go-amqp does not say; an answer to a settled message goes nowhere
		}
		g.must(x.answer(receiver, m))
	}
	for _, receipt := range receipts {
		state, name := g.outcomeOf(receipt)
		settled.add(name)
		switch state := state.(type) {
		case *amqp.StateRejected:
			report["condition"], report["description"] = string(state.Error.Condition), state.Error.Description
		case *amqp.StateModified:
			report["failed"], report["undeliverable"] = state.DeliveryFailed, state.UndeliverableHere
			annotations := map[string]any{}
			for key, value := range state.MessageAnnotations {
				annotations[fmt.Sprint(key)] = value
			}
			report["annotations"] = annotations
		}
	}
	report["received"], report["presettled"], report["outcomes"] = float64(x.messages), float64(presettled), settled.count
	return report
}

func (g *gopher) large() rig.Report {
	body := make([]byte, largeBody)
	rand.Read(body)
	return g.exchange(exchange{messages: 1, message: amqp.NewMessage(body), look: func(report rig.Report, m *amqp.Message) {
		report["bytes"] = float64(len(m.GetData()))
		report["intact"] = bytes.Equal(m.GetData(), body)
	}})
}

// atLeastOnce lets the first receiver go away with the message, and sends it
// again.
func (g *gopher) atLeastOnce() rig.Report {
	outcomes := &tally{count: map[string]any{}}
	receiving, sender := g.session(), (*amqp.Sender)(nil)
	for i, body := range []string{"once", "again"} {
		receiver := g.receiver(receiving, g.address, nil)
		if sender == nil {
			sender = g.sender(g.session(), g.address)
		}
		receipt, err := sender.SendWithReceipt(g.ctx, text(body), nil)
		g.must(err)
		m, err := receiver.Receive(g.ctx, nil)
		g.must(err)
		if i == 0 {
			g.must(receiver.Close(g.ctx))
		} else {
			g.must(receiver.AcceptMessage(g.ctx, m))
		}
		_, name := g.outcomeOf(receipt)
		outcomes.add(name)
	}
	return rig.Report{"received": 2.0, "outcomes": outcomes.count}
}

// drain takes back the credit that is left over, then goes on.
func (g *gopher) drain() rig.Report {
	receiver := g.receiver(g.session(), g.address, &amqp.ReceiverOptions{Credit: -1}) // credit by hand
	sender := g.sender(g.session(), g.address)
	pass := func(n int) float64 {
		for range n {
			receipt, err := sender.SendWithReceipt(g.ctx, text("hello"), nil)
			g.must(err)
			m, err := receiver.Receive(g.ctx, nil)
			g.must(err)
			g.must(receiver.AcceptMessage(g.ctx, m))
			if _, name := g.outcomeOf(receipt); name != "accepted" {
				g.t.Errorf("outcome %s, want accepted", name)
			}
		}
		return float64(n)
	}
	report := rig.Report{}
	g.must(receiver.IssueCredit(10))
	report["received"] = pass(3)
	g.must(receiver.DrainCredit(g.ctx, nil))
	g.must(receiver.IssueCredit(1))
	report["received_later"] = pass(1)
	return report
}

// requestResponse has a service answer to the dynamic address of whoever asks.
func (g *gopher) requestResponse() rig.Report {
	serving, asking := g.session(), g.session()
	service := g.receiver(serving, g.address, nil)
	answers := g.sender(serving, "")
	requests := []string{"one", "two", "three"}
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			for range requests {
				m, err := service.Receive(g.ctx, nil)
				if err != nil {
					return err
				}
				if err := service.AcceptMessage(g.ctx, m); err != nil {
					return err
				}
				reply := text(strings.ToUpper(m.Value.(string)))
				reply.Properties = &amqp.MessageProperties{To: m.Properties.ReplyTo, CorrelationID: m.Properties.CorrelationID}
				if err := answers.Send(g.ctx, reply, nil); err != nil {
					return err
				}
			}
			return nil
		}()
	}()

	receiver := g.receiver(asking, "", &amqp.ReceiverOptions{DynamicAddress: true})
	sender := g.sender(asking, g.address)
	replyTo := receiver.Address()
	var replies []any
	for i, body := range requests {
		request := text(body)
		request.Properties = &amqp.MessageProperties{ReplyTo: &replyTo, CorrelationID: uint64(i)}
		g.must(sender.Send(g.ctx, request, nil))
		m, err := receiver.Receive(g.ctx, nil)
		g.must(err)
		g.must(receiver.AcceptMessage(g.ctx, m))
		if m.Properties.CorrelationID != uint64(i) {
			g.t.Errorf("correlation-id %v (%[1]T), want %d", m.Properties.CorrelationID, i)
		}
		replies = append(replies, m.Value)
	}
	g.must(<-served)
	return rig.Report{"replies": replies, "reply_to": regexp.MustCompile(`[A-Za-z0-9+_]{15}$`).ReplaceAllString(replyTo, "*")}
}

// credit reports whether the sender waits or sends as consumers come and go.
func (g *gopher) credit() rig.Report {
	sender, receiving := g.sender(g.session(), g.address), g.session()
	report := rig.Report{"without_consumer": "sends", "with_consumer": "waits"}

	short, cancel := context.WithTimeout(g.ctx, silence)
	defer cancel()
	_, err := sender.SendWithReceipt(short, text("nobody home"), nil)
	var condition *amqp.Error
	if errors.As(err, &condition) && condition.Condition == amqp.ErrCondTransferLimitExceeded {
		report["without_consumer"] = "waits" // for credit
	}

	receiver := g.receiver(receiving, g.address, nil)
	receipt, err := sender.SendWithReceipt(g.ctx, text("hello"), nil)
	g.must(err)
	m, err := receiver.Receive(g.ctx, nil)
	g.must(err)
	g.must(receiver.AcceptMessage(g.ctx, m))
	if _, name := g.outcomeOf(receipt); name == "accepted" {
		report["with_consumer"] = "sends"
	}

	g.must(receiver.Close(g.ctx))
	receipt, err = sender.SendWithReceipt(g.ctx, text("nobody home"), nil)
	g.must(err)
	_, report["outcome_without_consumer"] = g.outcomeOf(receipt)
	return report
}

// ring runs many clients, each sending to the next and receiving from the one
// before.
func (g *gopher) ring(number string) rig.Report {
	n, err := strconv.Atoi(number)
	g.must(err)
	address := func(i int) string { return fmt.Sprintf("%s.%d", g.address, i%n) }
	sessions := make([]*amqp.Session, n)
	receivers := make([]*amqp.Receiver, n)
	for i := range n {
		sessions[i] = g.session()
		receivers[i] = g.receiver(sessions[i], address(i), &amqp.ReceiverOptions{Credit: messageCount})
	}
	outcomes := &tally{count: map[string]any{}}
	var wg sync.WaitGroup
	for i := range n {
		sender := g.sender(sessions[i], address(i+1))
		wg.Go(func() {
			for range messageCount {
				m, err := receivers[i].Receive(g.ctx, nil)
				if err == nil {
					err = receivers[i].AcceptMessage(g.ctx, m)
				}
				if err != nil {
					g.t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for range messageCount {
				if err := sender.Send(g.ctx, text("hello"), nil); err != nil {
					g.t.Error(err)
					return
				}
				outcomes.add("accepted")
			}
		})
	}
	wg.Wait()
	return rig.Report{"clients": float64(n), "received": float64(n * messageCount), "outcomes": outcomes.count}
}
