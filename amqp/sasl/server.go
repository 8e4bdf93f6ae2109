package sasl

import (
	"fmt"
	"strings"

	"qdrouter/amqp"
)

// A Mechanism is the server's half of one exchange.
type Mechanism interface {
	// Step takes the client's next response. On the first call response is nil
	// when sasl-init carried no initial response, which is not the same as an
	// empty one.
	//
	// The exchange goes on with the challenge returned until Step says done or
	// returns an error, which is a failed authentication; its text goes to the
	// log and never to the peer.
	Step(response []byte) (challenge []byte, done bool, err error)

	// User is the authenticated name, once Step has said done.
	User() string
}

// A Choice is a mechanism that a server offers.
type Choice struct {
	Name string           // as announced, upper case
	New  func() Mechanism // starts one exchange
}

// An Offer is what a server offers, in the order announced (CFG M4).
type Offer []Choice

// names returns the mechanisms as sasl-mechanisms carries them. An empty offer
// is an empty array (CFG M2).
func (o Offer) names() []amqp.Symbol {
	names := make([]amqp.Symbol, len(o))
	for i, c := range o {
		names[i] = amqp.Symbol(c.Name)
	}
	return names
}

// find looks a mechanism up without regard to case (CFG M4).
func (o Offer) find(name string) (Choice, bool) {
	for _, c := range o {
		if strings.EqualFold(c.Name, name) {
			return c, true
		}
	}
	return Choice{}, false
}

type serverState uint8

const (
	awaitInit serverState = iota
	awaitResponse
	serverDone
)

// A Server is the listening end's half of one SASL exchange.
type Server struct {
	offer     Offer
	state     serverState
	mechanism Mechanism // nil until sasl-init has chosen one of the offer
	name      string    // as the client wrote it
}

// NewServer returns the exchange of a connection that was just accepted.
func NewServer(offer Offer) *Server {
	return &Server{offer: offer}
}

// Start appends the sasl-mechanisms frame, which follows our SASL header.
func (s *Server) Start(out []byte) []byte {
	return amqp.AppendFrame(out, amqp.FrameSASL, 0, &amqp.SASLMechanisms{Mechanisms: s.offer.names()})
}

// Frame takes the body of one SASL frame from the client and appends our answer
// to out. done says that authentication succeeded and the AMQP header is next.
func (s *Server) Frame(body, out []byte) (newOut []byte, done bool, err error) {
	p, err := decode(body)
	if err != nil {
		return out, false, err
	}
	switch p := p.(type) {
	case *amqp.SASLInit:
		if s.state != awaitInit {
			return out, false, unexpected(p)
		}
		return s.init(p, out)
	case *amqp.SASLResponse:
		if s.state != awaitResponse { // before sasl-init: CFG M19
			return out, false, unexpected(p)
		}
		return s.step(nonNil(p.Response), out)
	default:
		return out, false, unexpected(p)
	}
}

func (s *Server) init(p *amqp.SASLInit, out []byte) ([]byte, bool, error) {
	s.name = string(p.Mechanism)
	choice, ok := s.offer.find(s.name)
	if !ok {
		return s.fail(out, "mechanism not offered")
	}
	s.mechanism = choice.New()
	var response []byte
	if p.InitialResponse.Set {
		response = nonNil(p.InitialResponse.V)
	}
	return s.step(response, out)
}

func (s *Server) step(response, out []byte) ([]byte, bool, error) {
	challenge, done, err := s.mechanism.Step(response)
	switch {
	case err != nil:
		return s.fail(out, err.Error())
	case done:
		s.state = serverDone
		return amqp.AppendFrame(out, amqp.FrameSASL, 0, &amqp.SASLOutcome{Code: amqp.SASLCodeOK}), true, nil
	default:
		s.state = awaitResponse
		return amqp.AppendFrame(out, amqp.FrameSASL, 0, &amqp.SASLChallenge{Challenge: nonNil(challenge)}), false, nil
	}
}

// fail ends the exchange. The peer learns only that it failed, so it cannot tell
// an unknown user from a wrong password (CFG M3); the description is the one
// log readers know (CFG M17).
func (s *Server) fail(out []byte, detail string) ([]byte, bool, error) {
	s.state = serverDone
	s.mechanism = nil
	// The codes for trouble that is not the client's are not used (CFG M3).
	out = amqp.AppendFrame(out, amqp.FrameSASL, 0, &amqp.SASLOutcome{Code: amqp.SASLCodeAuth})
	return out, false, &amqp.Error{
		Condition:   amqp.ErrCondUnauthorizedAccess,
		Description: fmt.Sprintf("%s (Failed to authenticate client [mech=%s])", detail, printable(s.name)),
	}
}

// User is the authenticated name; empty before Frame has said done.
func (s *Server) User() string {
	if s.state != serverDone || s.mechanism == nil {
		return ""
	}
	return s.mechanism.User()
}

// Mechanism is the mechanism's name as the client wrote it (CFG M4); empty
// before sasl-init.
func (s *Server) Mechanism() string { return s.name }

// decode reads the one performative that fills a SASL frame's body. Anything
// else in a frame of the SASL phase breaks the connection (CFG M18).
func decode(body []byte) (amqp.Performative, error) {
	p, n, err := amqp.DecodeSASL(body)
	if err != nil {
		return nil, framingError("invalid frame in SASL exchange: %v", err)
	}
	if n != len(body) {
		return nil, framingError("%d octets after the performative of a SASL frame", len(body)-n)
	}
	return p, nil
}

func unexpected(p amqp.Performative) error {
	name := strings.TrimPrefix(fmt.Sprintf("%T", p), "*amqp.SASL")
	return framingError("unexpected sasl-%s", strings.ToLower(name))
}

func framingError(format string, args ...any) error {
	return &amqp.Error{
		Condition:   amqp.ErrCondFramingError,
		Description: fmt.Sprintf(format, args...),
	}
}

// nonNil keeps an empty response or challenge apart from an absent one.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// printable makes a peer's mechanism name safe for a log line: at most 20
// characters, as SASL names are (RFC 4422 §3.1), none of them outside ASCII's
// graphic ones.
func printable(name string) string {
	const most = 20
	clean := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
	if len(clean) > most {
		clean = clean[:most] + "..."
	}
	return clean
}
