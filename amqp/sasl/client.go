package sasl

import (
	"fmt"
	"slices"
	"strings"

	"qdrouter/amqp"
)

// A ClientMechanism is the client's half of one exchange.
type ClientMechanism interface {
	// Name is the mechanism's name, upper case.
	Name() string

	// Initial is the initial response of sasl-init; nil sends none.
	Initial() []byte

	// Respond answers a challenge. An error ends the exchange.
	Respond(challenge []byte) ([]byte, error)
}

type clientState uint8

const (
	awaitMechanisms clientState = iota
	awaitOutcome                // or a challenge
	clientDone
)

// A Client is the connecting end's half of one SASL exchange. It speaks first
// only with its header: the server's sasl-mechanisms opens the exchange.
type Client struct {
	usable    []ClientMechanism // best first
	state     clientState
	mechanism ClientMechanism // nil until chosen
}

// NewClient returns the exchange of a connection we opened, which will use the
// first of usable that the server offers (CFG M11).
func NewClient(usable []ClientMechanism) *Client {
	return &Client{usable: usable}
}

// Frame takes the body of one SASL frame from the server and appends our answer
// to out. done says that authentication succeeded; the AMQP header is sent only
// then (CFG M13).
func (c *Client) Frame(body, out []byte) (newOut []byte, done bool, err error) {
	p, err := decode(body)
	if err != nil {
		return out, false, err
	}
	switch p := p.(type) {
	case *amqp.SASLMechanisms:
		if c.state != awaitMechanisms {
			return out, false, unexpected(p)
		}
		return c.choose(p.Mechanisms, out)
	case *amqp.SASLChallenge:
		if c.state != awaitOutcome {
			return out, false, unexpected(p)
		}
		response, err := c.mechanism.Respond(p.Challenge)
		if err != nil {
			return out, false, c.fail()
		}
		return amqp.AppendFrame(out, amqp.FrameSASL, 0, &amqp.SASLResponse{Response: nonNil(response)}), false, nil
	case *amqp.SASLOutcome:
		if c.state != awaitOutcome {
			return out, false, unexpected(p)
		}
		if p.Code != amqp.SASLCodeOK {
			return out, false, c.fail()
		}
		c.state = clientDone
		return out, true, nil
	default:
		return out, false, unexpected(p)
	}
}

func (c *Client) choose(offered []amqp.Symbol, out []byte) ([]byte, bool, error) {
	for _, m := range c.usable {
		if !slices.ContainsFunc(offered, func(s amqp.Symbol) bool { return strings.EqualFold(string(s), m.Name()) }) {
			continue
		}
		c.mechanism = m
		c.state = awaitOutcome
		init := amqp.SASLInit{Mechanism: amqp.Symbol(m.Name())}
		if initial := m.Initial(); initial != nil {
			init.InitialResponse = amqp.Some(initial)
		}
		return amqp.AppendFrame(out, amqp.FrameSASL, 0, &init), false, nil
	}
	return out, false, c.fail()
}

// fail ends the exchange with the text of CFG M12.
func (c *Client) fail() error {
	c.state = clientDone
	name := "none"
	if c.mechanism != nil {
		name = c.mechanism.Name()
	}
	return &amqp.Error{
		Condition:   amqp.ErrCondUnauthorizedAccess,
		Description: fmt.Sprintf("Authentication failed [mech=%s]", name),
	}
}

// Mechanism is the name of the mechanism chosen; empty before that.
func (c *Client) Mechanism() string {
	if c.mechanism == nil {
		return ""
	}
	return c.mechanism.Name()
}
