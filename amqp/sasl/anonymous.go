package sasl

import "errors"

// Anonymous is the name of the mechanism of RFC 4505.
const Anonymous = "ANONYMOUS"

// AnonymousUser is the name of a client that came without credentials (CFG M5).
const AnonymousUser = "anonymous"

// OfferAnonymous lets everybody in as AnonymousUser.
func OfferAnonymous() Choice {
	return Choice{Name: Anonymous, New: func() Mechanism { return anonymous{} }}
}

type anonymous struct{}

// Step takes any trace information or none (CFG M5).
func (anonymous) Step([]byte) ([]byte, bool, error) { return nil, true, nil }

func (anonymous) User() string { return AnonymousUser }

// AnonymousClient is the client's half of ANONYMOUS; trace is the text sent to
// the server, customarily where the client runs.
func AnonymousClient(trace string) ClientMechanism { return anonymousClient(trace) }

type anonymousClient string

func (anonymousClient) Name() string { return Anonymous }

func (c anonymousClient) Initial() []byte { return []byte(c) }

func (anonymousClient) Respond([]byte) ([]byte, error) {
	return nil, errors.New("challenge in ANONYMOUS")
}
