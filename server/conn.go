package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/logging"
	"qdrouter/router"
	"qdrouter/security"
	"qdrouter/transport"
)

// newListener makes a listener that serves AMQP, or refuses to.
func (s *Server) newListener(e *config.Entity) (*listener, error) {
	o, err := listenerOptions(e)
	if err != nil {
		return nil, err
	}
	identity, name := config.Identity(e, nil)
	settings := listenerSecurity(e)
	in := &transport.Incoming{
		Router:      s.router,
		Options:     o,
		Offer:       s.sasl.Offer(settings),
		RequireAuth: settings.AuthenticatePeer,
		Limit:       handshakeTimeout(e),
		Log:         routerLog{s.logs},
	}
	l := &listener{
		identity:  identity,
		name:      name,
		host:      e.Str("host"),
		port:      e.Str("port"),
		family:    e.Str("socketAddressFamily"),
		http:      isHTTP(e),
		keepAlive: o.IdleTimeout == 0,
		refusal:   listenerRefusal(e, s.sasl),
		note:      s.noteRefused,
		logf:      s.logf,
	}
	l.serve = func(nc net.Conn) { s.serve(l, in, nc) }
	return l, nil
}

// noteRefused remembers a connection that a listener turned away at once.
func (s *Server) noteRefused(l *listener, from, reason string) {
	s.router.NoteFailure(router.Failure{What: router.ConnectionRefused, Reason: reason, Where: l.hostPort(), Host: from})
}

// serve sees an accepted connection to its end, on a goroutine of its own, if
// there is room for it.
func (s *Server) serve(l *listener, in *transport.Incoming, nc net.Conn) {
	p, n := s.gate.enter(func() { cut(nc) })
	if p == nil { // no octet goes out: CFG P3
		nc.Close()
		l.refused(showAddr(nc.RemoteAddr()), fmt.Sprintf("maxConnections reached: %d connections", n))
		s.logf(logging.Policy, logging.Info, "DENY Connection '%s' based on global connection count. nConnections= %d",
			numericAddr(nc.RemoteAddr()).Addr(), n)
		return
	}
	s.serving.Go(func() {
		defer p.leave()
		l.ended(in.Serve(nc, p.opened))
	})
}

// cut ends a connection without waiting for whoever reads from it, which closing
// it would do.
func cut(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.CloseRead()
		tcp.CloseWrite()
		return
	}
	nc.Close()
}

// newConnector makes a connector, which startConnector starts.
func (s *Server) newConnector(e *config.Entity) (*connector, []config.Warning, error) {
	password, warnings, err := e.Password()
	if err != nil {
		return nil, nil, err
	}
	identity, _ := config.Identity(e, nil)
	o := connOptions(e)
	o.Host = hostPort(e)
	out := &transport.Outgoing{
		Router:  s.router,
		Options: o,
		Mechanisms: security.ClientMechanisms(security.ConnectorSettings{
			SASLMechanisms: e.Str("saslMechanisms"),
			Username:       e.Str("saslUsername"),
			Password:       password,
		}),
		Limit: defaultHandshake,
	}
	scheme := defaultScheme
	if e.Str("sslProfile") != "" {
		scheme = "amqps"
	}
	network := dialNetwork(e.Str("protocolFamily"))
	return &connector{
		identity: identity,
		hostPort: hostPort(e),
		refusal:  connectorRefusal(e),
		nextID:   s.router.NextConnectionID,
		note:     s.router.NoteFailure,
		logf:     s.logf,
		quit:     s.quit,
		done:     make(chan struct{}),
		failover: newFailover(target{scheme, e.Str("host"), e.Str("port")}),
		status:   statusInitializing,
		dial: func(ctx context.Context, id uint64, t target, opened func(*amqp.Open, string)) error {
			nc, err := dial(ctx, network, t)
			if err != nil {
				return err
			}
			return out.Serve(ctx, nc, id, t.host, opened)
		},
	}, warnings, nil
}

func dialNetwork(family string) string {
	switch family {
	case familyIPv4:
		return "tcp4"
	case familyIPv6:
		return "tcp6"
	}
	return "tcp"
}

// dial connects to t, its addresses tried in the resolver's order. The error is
// worded as log readers know it.
func dial(ctx context.Context, network string, t target) (net.Conn, error) {
	number, err := lookupPort(t.port)
	if err != nil {
		return nil, fmt.Errorf("proton:io %s - connect to %s", reason(err), t.hostPort())
	}
	d := net.Dialer{Timeout: defaultHandshake, FallbackDelay: -1}
	nc, err := d.DialContext(ctx, network, net.JoinHostPort(trimBrackets(t.host), strconv.Itoa(int(number))))
	if err != nil {
		return nil, fmt.Errorf("proton:io %s - disconnected %s", reason(err), t.hostPort())
	}
	return nc, nil
}

// core is the router as the management agent wants it.
type core struct{ *router.Router }

func (c core) NextID() uint64 { return c.NextIdentity() }

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
