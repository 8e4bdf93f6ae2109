package router

import (
	"slices"
	"strings"
	"sync"
	"time"

	"qdrouter/amqp"
)

// What a Failure is of.
const (
	LinkRefused       = "link refused"       // an attach that we answered with a detach
	ConnectionRefused = "connection refused" // turned away before its open
	ConnectionFailed  = "connection failed"  // ended with an error after its open
	ConnectorFailed   = "connector failed"   // an attempt, or the connection it made
)

// A Failure says what was refused or has failed, and why. What is unknown or does
// not apply is empty.
type Failure struct {
	What         string
	Time         time.Time // of the last one
	Count        uint64    // how many there were alike; those of one client need not differ in port or link name
	Reason       string    // condition and description, as the peer was told or told us
	Where        string    // host:port of the listener or connector as configured
	ConnectionID uint64    // 0 for a connection that never got one
	Host         string    // of the peer, with its port
	Container    string
	User         string
	Link         string // name
	Direction    string // of a link, as we see it: in, out
	Address      string // of a link, as it was asked for
}

// alike tells whether two failures are one happening again.
func (f *Failure) alike(g *Failure) bool {
	return f.What == g.What && f.Reason == g.Reason && f.Where == g.Where && hostOnly(f.Host) == hostOnly(g.Host) &&
		f.Container == g.Container && f.User == g.User && f.Direction == g.Direction && f.Address == g.Address
}

// hostOnly cuts the port off; an IPv6 address has no brackets (CFG L18).
func hostOnly(hostPort string) string {
	if i := strings.LastIndexByte(hostPort, ':'); i >= 0 {
		return hostPort[:i]
	}
	return hostPort
}

// Failures are the counts since the start, and the latest failures, the newest last.
type Failures struct {
	LinksRefused, ConnectionsRefused, ConnectionsFailed uint64
	Recent                                              []Failure
}

// maxFailures is how many different failures are remembered; a new one drives out
// the oldest.
const maxFailures = 50

// maxFailureText bounds each text of a failure, in octets: peers choose some.
const maxFailureText = 256

type failures struct {
	mu sync.Mutex // guards f
	f  Failures
}

// NoteFailure remembers a failure that happens now.
func (r *Router) NoteFailure(f Failure) {
	f.Time, f.Count = time.Now(), 1
	for _, text := range []*string{&f.Reason, &f.Where, &f.Host, &f.Container, &f.User, &f.Link, &f.Address} {
		if len(*text) > maxFailureText {
			*text = (*text)[:maxFailureText]
		}
	}
	s := &r.failures
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.What {
	case LinkRefused:
		s.f.LinksRefused++
	case ConnectionRefused:
		s.f.ConnectionsRefused++
	case ConnectionFailed, ConnectorFailed:
		s.f.ConnectionsFailed++
	}
	if i := slices.IndexFunc(s.f.Recent, func(g Failure) bool { return g.alike(&f) }); i >= 0 {
		f.Count += s.f.Recent[i].Count
		s.f.Recent = slices.Delete(s.f.Recent, i, i+1)
	} else if len(s.f.Recent) == maxFailures {
		s.f.Recent = slices.Delete(s.f.Recent, 0, 1)
	}
	s.f.Recent = append(s.f.Recent, f)
}

// Failures returns what has failed.
func (r *Router) Failures() Failures {
	r.failures.mu.Lock()
	defer r.failures.mu.Unlock()
	f := r.failures.f
	f.Recent = slices.Clone(f.Recent)
	return f
}

// noteRefused remembers a refused link.
func (r *Router) noteRefused(c *Conn, l *amqp.Link, direction, address string, e *amqp.Error) {
	reason := string(e.Condition) + ": " + e.Description
	if e == errWrongWay {
		reason = "the address takes no receivers"
	}
	where := c.o.Host // of a connector as configured
	if c.o.Incoming {
		where = c.o.Listener
	}
	c.mu.Lock()
	container := c.container
	c.mu.Unlock()
	r.NoteFailure(Failure{
		What: LinkRefused, Reason: reason, Where: where, ConnectionID: c.o.ID, Host: c.o.Host,
		Container: container, User: c.o.User, Link: l.Name, Direction: direction, Address: address,
	})
}
