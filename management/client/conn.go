package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/amqp"
)

// Options say which router to connect to, and as whom (MG 11.1).
type Options struct {
	URL     URL           // its user and password are not looked at
	Timeout time.Duration // limit of each step that waits; 0 means DefaultTimeout

	// TLS, used when the URL's scheme is amqps. Files are in PEM format.
	Certificate    string // file with the client's certificate, "" for none
	Key            string // file with its private key
	KeyPassword    string
	TrustFile      string // file with trusted authorities, "" for the system's
	SkipHostVerify bool   // do not compare the certificate with the host

	// SASL. Without TLS and with all of these empty there is no SASL layer.
	Mechanisms []string // those allowed, empty for all
	User       string
	Password   string
}

// DefaultTimeout is the limit of each step when Options give none.
const DefaultTimeout = 60 * time.Second

// A Conn is a connection to a router.
type Conn struct {
	opts        Options
	containerID string
	conn        *goamqp.Conn
	session     *goamqp.Session
	replies     *replies
	requests    uint64          // sent so far, over all links
	addresses   map[string]bool // of the agents opened
}

// Dial connects to a router. Connecting, TLS, SASL and the exchange of open
// frames count as one step.
func Dial(ctx context.Context, opts Options) (*Conn, error) {
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	c := &Conn{opts: opts, containerID: newUUID(), addresses: make(map[string]bool)}
	tlsConfig, err := opts.tlsConfig()
	if err != nil {
		return nil, err
	}
	err = c.step(ctx, "Opening connection", func(ctx context.Context) error {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", opts.URL.HostPort())
		if err != nil {
			return c.disconnected(err)
		}
		if nc, err = secure(ctx, nc, tlsConfig, opts); err != nil {
			return c.disconnected(err)
		}
		c.replies = &replies{Conn: nc, credited: make(chan struct{}, 1)}
		c.conn, err = goamqp.NewConn(ctx, c.replies, &goamqp.ConnOptions{
			ContainerID: c.containerID,
			HostName:    opts.URL.Host,
			IdleTimeout: -1, // each step has its own limit
		})
		if err != nil {
			nc.Close()
			return c.disconnected(err)
		}
		c.session, err = c.conn.NewSession(ctx, nil)
		return err
	})
	if err != nil {
		if c.conn != nil {
			c.conn.Close()
		}
		return nil, err
	}
	return c, nil
}

// Close closes the connection and everything on it.
func (c *Conn) Close() error { return c.conn.Close() }

// link is the pair of AMQP links that belongs to one agent.
type link struct {
	conn     *Conn
	address  string
	sender   *goamqp.Sender
	receiver *goamqp.Receiver
}

// Open attaches the links to the agent at address.
func (c *Conn) Open(ctx context.Context, address string) (*Agent, error) {
	l := &link{conn: c, address: address}
	name := c.containerID + "-" + address
	if c.addresses[address] {
		name += "-" + newUUID() // the plain name is taken
	}
	c.addresses[address] = true
	err := c.step(ctx, "Opening link "+name, func(ctx context.Context) (err error) {
		l.sender, err = c.session.NewSender(ctx, address, &goamqp.SenderOptions{Name: name})
		return detached(err, "sender %s to %s", name, address)
	})
	if err != nil {
		return nil, err
	}
	name = c.containerID + "-" + newUUID()
	err = c.step(ctx, "Opening link "+name, func(ctx context.Context) (err error) {
		l.receiver, err = c.session.NewReceiver(ctx, "", &goamqp.ReceiverOptions{
			Name:           name,
			DynamicAddress: true,
			Credit:         1,
		})
		if err != nil {
			return detached(err, "receiver %s from a dynamic source", name)
		}
		c.awaitCredit(ctx)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return NewAgent(l.call), nil
}

// call implements Call.
func (l *link) call(ctx context.Context, r Request) (Reply, error) {
	l.conn.requests++
	id := strconv.FormatUint(l.conn.requests, 10)
	replyTo := l.receiver.Address()
	m := &goamqp.Message{
		Properties:            &goamqp.MessageProperties{ReplyTo: &replyTo, CorrelationID: id},
		ApplicationProperties: make(map[string]any, len(r.Properties)),
		Value:                 wire(r.Body),
	}
	for _, e := range r.Properties {
		m.ApplicationProperties[e.Key] = wire(e.Value)
	}
	if m.Value == nil {
		m.Value = map[string]any{}
	}
	l.conn.replies.take() // replies to requests given up before

	err := l.conn.step(ctx, "Sending on sender "+l.sender.LinkName(), func(ctx context.Context) error {
		receipt, err := l.sender.SendWithReceipt(ctx, m, nil)
		if err != nil {
			return detached(err, "sender %s to %s", l.sender.LinkName(), l.address)
		}
		state, err := receipt.Wait(ctx)
		if err != nil {
			return detached(err, "sender %s to %s", l.sender.LinkName(), l.address)
		}
		switch state := state.(type) {
		case *goamqp.StateRejected:
			if state.Error != nil {
				return Failf(sendFailed, "REJECTED: %s", remoteCondition(state.Error))
			}
			return Failf(sendFailed, "REJECTED")
		case *goamqp.StateReleased:
			return Failf(sendFailed, "RELEASED")
		}
		return nil
	})
	if err != nil {
		return Reply{}, err
	}

	var reply Reply
	err = l.conn.step(ctx, "Waiting for response", func(ctx context.Context) error {
		for {
			m, err := l.receiver.Receive(ctx, nil)
			if err != nil {
				return detached(err, "receiver %s from %s", l.receiver.LinkName(), replyTo)
			}
			if err := l.receiver.AcceptMessage(ctx, m); err != nil {
				return err
			}
			l.conn.awaitCredit(ctx)
			for _, raw := range l.conn.replies.take() {
				got, correlation, err := decodeReply(raw)
				if err != nil {
					return Failf(badValue, "reply: %w", err)
				}
				if correlation == id {
					reply = got
					return nil
				}
			}
		}
	})
	return reply, err
}

// awaitCredit waits until the router has been given credit for the next reply,
// so that this does not depend on chance in a report on this very link. A
// connection that ends meanwhile is for the next request to notice.
func (c *Conn) awaitCredit(ctx context.Context) {
	select {
	case <-c.replies.credited:
	case <-c.conn.Done():
	case <-ctx.Done():
	}
}

// step runs one step that waits, and limits it. An error it returns is told in
// terms of the tools: a Failure, or the context's own error when the caller has
// cancelled it.
func (c *Conn) step(ctx context.Context, doing string, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	err := f(limited)
	var failure *Failure
	var connErr *goamqp.ConnError
	var netErr net.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil || errors.As(err, &netErr) && netErr.Timeout():
		return Failf(timedOut, "Connection %s timed out: %s", c.opts.URL, doing)
	case errors.As(err, &failure):
		return err
	case errors.As(err, &connErr) && connErr.RemoteErr != nil:
		return Failf(connectionClosed, "Connection %s closed due to: %s", c.opts.URL.Host, remoteCondition(connErr.RemoteErr))
	}
	return c.disconnected(err)
}

// disconnected says that there is no connection, and why.
func (c *Conn) disconnected(err error) error {
	var failure *Failure
	var refusal *amqp.Error // of the SASL exchange
	switch {
	case errors.As(err, &failure):
		return err
	case errors.As(err, &refusal):
		err = errors.New(condition(string(refusal.Condition), refusal.Description))
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the router closed the connection: %w", err)
	}
	return Failf(connectionFailed, "Connection %s disconnected: %w", c.opts.URL, err)
}

// detached gives the router's refusal of a link the text of the tools, and
// leaves every other error as it is. The format names the link.
func detached(err error, format string, args ...any) error {
	var remote *goamqp.Error
	var connErr *goamqp.ConnError
	if err == nil || errors.As(err, &connErr) {
		return err
	}
	name := fmt.Sprintf(format, args...)
	if errors.As(err, &remote) {
		return Failf(linkDetached, "%s closed due to: %s", name, remoteCondition(remote))
	}
	var linkErr *goamqp.LinkError
	if errors.As(err, &linkErr) {
		return Failf(linkDetached, "%s closed by peer", name)
	}
	return err
}

// remoteCondition and condition word an error condition as the old tools do.
func remoteCondition(e *goamqp.Error) string { return condition(string(e.Condition), e.Description) }

func condition(name, description string) string {
	if description == "" {
		return fmt.Sprintf("Condition('%s')", name)
	}
	return fmt.Sprintf("Condition('%s', '%s')", name, description)
}

// newUUID returns a random UUID as text. Container and link names have the
// length of those of the old tools, so that the tables they appear in have the
// same widths.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
