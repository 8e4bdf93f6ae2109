package sasl

import (
	"bytes"
	"errors"
)

// Plain is the name of the mechanism of RFC 4616.
const Plain = "PLAIN"

// A Verifier says whether password is user's. It must take as long for an
// unknown user as for a wrong password. The error's text is for the log.
type Verifier func(user, password string) error

// OfferPlain lets those in whose name and password verify accepts.
func OfferPlain(verify Verifier) Choice {
	return Choice{Name: Plain, New: func() Mechanism { return &plain{verify: verify} }}
}

type plain struct {
	verify     Verifier
	challenged bool
	user       string
}

func (p *plain) Step(response []byte) ([]byte, bool, error) {
	if response == nil && !p.challenged {
		p.challenged = true // no initial response: ask with an empty challenge (CFG M6)
		return nil, false, nil
	}
	// authzid NUL authcid NUL passwd. The authzid is ignored (CFG M6).
	fields := bytes.Split(response, []byte{0})
	if len(fields) != 3 || len(fields[1]) == 0 {
		return nil, false, errors.New("malformed PLAIN response")
	}
	user := string(fields[1])
	if err := p.verify(user, string(fields[2])); err != nil {
		return nil, false, err
	}
	p.user = user // as sent, realm included (CFG M7)
	return nil, true, nil
}

func (p *plain) User() string { return p.user }

// PlainClient is the client's half of PLAIN. The authzid stays empty: brokers
// exist that refuse any other (FC U06).
func PlainClient(user, password string) ClientMechanism {
	return plainClient{user: user, password: password}
}

type plainClient struct{ user, password string }

func (plainClient) Name() string { return Plain }

func (c plainClient) Initial() []byte { return []byte("\x00" + c.user + "\x00" + c.password) }

// Respond refuses: with the initial response all is said.
func (plainClient) Respond([]byte) ([]byte, error) { return nil, errors.New("challenge in PLAIN") }
