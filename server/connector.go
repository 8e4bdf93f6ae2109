package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"qdrouter/amqp"
	"qdrouter/logging"
	"qdrouter/management"
	"qdrouter/router"
	"qdrouter/transport"
)

// What management shows of a connector (CFG 3.3).
const (
	statusInitializing = "INITIALIZING" // not started yet
	statusConnecting   = "CONNECTING"   // trying, or waiting for the next try
	statusSuccess      = "SUCCESS"      // the peer's open came
	statusFailed       = "FAILED"       // it will never connect
	statusClosing      = "CLOSING"      // deleted
)

// maxConnectionMsg bounds connectionMsg, in octets (CFG 3.3).
const maxConnectionMsg = 299

// A dialFunc is one attempt of a connector: it connects to t, calls opened when
// the peer's open was accepted, with
// the text of the connection's log line, and returns when the connection has ended. A nil
// error means that it ended in an orderly way. When ctx ends it sends an AMQP
// close and gives the peer a moment to answer.
type dialFunc func(ctx context.Context, id uint64, t target, opened func(o *amqp.Open, text string)) error

// A connector keeps one connection alive.
type connector struct {
	identity string
	hostPort string // as configured, for log lines (CFG L14)
	refusal  string // why it never connects; "" if it does
	nextID   func() uint64
	dial     dialFunc
	note     func(router.Failure)
	logf     func(module string, level logging.Level, format string, args ...any)

	cancel context.CancelFunc // ends run; set when it is started
	quit   <-chan struct{}    // closed when there are to be no more attempts
	done   chan struct{}      // closed when run has returned

	mu       sync.Mutex // guards what follows, which management reads
	failover *failover
	status   string
	msg      string
	attempts int64
	failures int64  // of attempts, and of the connections they made
	last     string // why the last of them failed
}

// run tries until ctx ends, which closes the connection there is, or until quit
// is closed, which does not.
func (c *connector) run(ctx context.Context) {
	defer close(c.done)
	if c.refusal != "" {
		c.set(statusFailed, c.refusal)
		c.failed(0, c.refusal)
		c.logf(logging.ConnMgr, logging.Error, "Connector to %s never connects: %s", c.hostPort, c.refusal)
		return
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			c.set(statusClosing, "")
			return
		case <-c.quit:
			return
		case <-pause.C:
			pause.Reset(c.attempt(ctx))
		}
	}
}

// attempt makes one connection, sees it to its end and returns how long to wait
// before the next one.
func (c *connector) attempt(ctx context.Context) time.Duration {
	id := c.nextID() // each attempt is a connection of its own (CFG L14)
	c.mu.Lock()
	t := c.failover.start()
	c.status = statusConnecting
	c.attempts++
	c.mu.Unlock()

	c.logf(logging.Server, logging.Trace, "[C%d] Connecting to %s", id, t.hostPort())
	err := c.dial(ctx, id, t, func(open *amqp.Open, text string) {
		list, sent := readFailoverList(open.Properties)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failover.open(list, sent)
		c.status = statusSuccess
		c.msg = shorten(fmt.Sprintf("[C%d] %s", id, text))
	})

	if err != nil && ctx.Err() == nil {
		text := fmt.Sprintf("[C%d] Connection to %s failed: %s", id, c.hostPort, failureText(err))
		c.logf(logging.Server, logging.Info, "%s", text)
		c.set(statusConnecting, text)
		c.failed(id, transport.FailureReason(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = statusConnecting
	return c.failover.end(err != nil)
}

// set changes what management shows; an empty msg leaves the last one.
func (c *connector) set(status, msg string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
	if msg != "" {
		c.msg = shorten(msg)
	}
}

// failed counts a failure and remembers why.
func (c *connector) failed(id uint64, why string) {
	c.note(router.Failure{What: router.ConnectorFailed, Reason: why, Where: c.hostPort, ConnectionID: id})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	c.last = why
}

// info is the read-only part of the connector entity (CFG 3.3).
func (c *connector) info() management.ConnectorStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return management.ConnectorStatus{
		Status: c.status, Message: c.msg, FailoverURLs: c.failover.urls(),
		Attempts: c.attempts, Failures: c.failures, LastError: c.last,
	}
}

// shorten cuts text to what connectionMsg may hold.
func shorten(text string) string {
	if len(text) <= maxConnectionMsg {
		return text
	}
	n := maxConnectionMsg
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// failureText is the condition and description of a connection's end, as they
// stand in log lines.
func failureText(err error) string {
	var e *amqp.Error
	if errors.As(err, &e) {
		return string(e.Condition) + " " + e.Description
	}
	return err.Error()
}
