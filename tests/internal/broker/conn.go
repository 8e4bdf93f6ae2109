package broker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
)

// handshakeLimit bounds the time until the peer's open, closeLimit that for its
// answer to a close.
const (
	handshakeLimit = 20 * time.Second
	closeLimit     = 2 * time.Second
)

// outLimit bounds the octets that wait for a socket before deliveries wait in
// their queues.
const outLimit = 1 << 20

// Conn is one connection of the broker.
type Conn struct {
	b    *Broker
	nc   net.Conn
	in   *bufio.Reader
	wake chan struct{} // holds a token when the writer may have work
	gone chan struct{} // closed when the connection has ended

	// Guarded by the broker's lock.
	e       *amqp.Conn
	touched bool
	opened  bool
	ended   bool
	links   []*Link
	user    string
	opening chan struct{} // closed with the peer's open; for Dial

	sessions map[uint16]*session // by the peer's channel

	// Of the reader.
	channel uint16
	raw     []byte // the body of the frame in hand
}

// session is the broker's half of a session.
type session struct {
	c   *Conn
	e   *amqp.Session
	ack amqp.Serial // the last next-incoming-id of the peer
	out map[amqp.Serial]*delivery
	in  map[amqp.Serial]*Incoming
}

// DialOptions is what a broker says of itself that connects.
type DialOptions struct {
	Hostname       string // of sasl-init and open
	User, Password string // PLAIN; ANONYMOUS without a user
}

// Dial connects to a listener of a router, where the broker is a client or,
// with a listener of role route-container, a route container. It returns when
// the peer has opened the connection.
func (b *Broker) Dial(ctx context.Context, address string, o DialOptions) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := b.newConn(nc, o.Hostname)
	if c == nil {
		nc.Close()
		return nil, net.ErrClosed
	}
	ended := make(chan error, 1)
	b.wg.Go(func() { ended <- c.run(func() error { return c.client(o) }) })
	select {
	case <-c.opening:
		return c, nil
	case err := <-ended:
		if err == nil {
			err = io.EOF
		}
		return nil, err
	case <-ctx.Done():
		nc.Close()
		return nil, ctx.Err()
	}
}

// serve runs an accepted connection.
func (b *Broker) serve(nc net.Conn) {
	c := b.newConn(nc, "")
	if c == nil {
		nc.Close()
		return
	}
	if err := c.run(c.server); err != nil {
		b.logf("connection from %s: %v", nc.RemoteAddr(), err)
	}
}

// newConn enters a connection; nil when the broker is closed.
func (b *Broker) newConn(nc net.Conn, hostname string) *Conn {
	c := &Conn{
		b: b, nc: nc, in: bufio.NewReaderSize(nc, 64<<10), wake: make(chan struct{}, 1), gone: make(chan struct{}),
		opening: make(chan struct{}), sessions: map[uint16]*session{},
	}
	c.e = amqp.NewConn(amqp.ConnConfig{
		ContainerID: b.opts.ContainerID, Hostname: hostname, MaxFrameSize: b.opts.MaxFrameSize, ChannelMax: 32767,
		IdleTimeout: uint32(b.opts.IdleTimeout.Milliseconds()), SessionFrames: b.opts.SessionFrames,
		Properties: b.opts.Properties, OfferedCapabilities: b.opts.Capabilities,
		FirstTransferID: FirstTransferID, FirstDeliveryCount: FirstDeliveryCount,
	}, c)
	if b.opts.Record {
		c.e.Trace = func(out bool, channel uint16, p amqp.Performative, payload []byte) {
			if out { // with the lock; what comes in is recorded by the reader
				b.frames = append(b.frames, Frame{Conn: c, Out: true, Channel: channel, Body: p, Payload: bytes.Clone(payload)})
			}
		}
	}
	b.lock()
	defer b.unlock()
	if b.closed {
		return nil
	}
	b.conns = append(b.conns, c)
	return c
}

// run has the connection from the handshake to its end.
func (c *Conn) run(handshake func() error) error {
	defer c.nc.Close()
	c.nc.SetDeadline(time.Now().Add(handshakeLimit))
	err := handshake()
	var writer chan struct{}
	if err == nil {
		c.nc.SetWriteDeadline(time.Time{})
		writer = make(chan struct{})
		go func() {
			defer close(writer)
			c.write()
		}()
		err = c.read()
	}
	b := c.b
	b.lock()
	c.ended = true
	var e *amqp.Error
	if errors.As(err, &e) {
		c.e.Close(e)
	}
	for _, s := range slices.Collect(maps.Values(c.sessions)) {
		c.dropSession(s)
	}
	for t := range b.termini {
		if t.session.c == c {
			b.lost(t, amqp.ExpiryConnectionClose)
		}
	}
	b.conns = slices.DeleteFunc(b.conns, func(o *Conn) bool { return o == c })
	b.unlock()
	close(c.gone)
	if writer != nil {
		c.nc.SetWriteDeadline(time.Now().Add(closeLimit))
		<-writer
	}
	return err
}

// read takes in frames until the connection ends.
func (c *Conn) read() error {
	for {
		body, hdr, err := c.frame(amqp.FrameAMQP)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		c.channel, c.raw = hdr.Channel, body
		if err := c.look(hdr.Channel, body); err != nil {
			return err
		}
		frame := make([]byte, 8, 8+len(body))
		frame[0], frame[1], frame[2], frame[3] = byte((8+len(body))>>24), byte((8+len(body))>>16), byte((8+len(body))>>8), byte(8+len(body))
		frame[4], frame[5], frame[6], frame[7] = 2, amqp.FrameAMQP, byte(hdr.Channel>>8), byte(hdr.Channel)
		if _, err := c.e.Input(append(frame, body...)); err != nil {
			return err
		}
		if c.e.CloseReceived() {
			return nil
		}
	}
}

// frame reads a frame of that type. Its octets are the caller's.
func (c *Conn) frame(typ uint8) ([]byte, amqp.FrameHeader, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, amqp.FrameHeader{}, err
	}
	hdr, ok, err := amqp.ParseFrameHeader(head[:], c.b.opts.MaxFrameSize)
	if err != nil {
		return nil, hdr, err
	}
	if !ok || hdr.Type != typ {
		return nil, hdr, &amqp.Error{Condition: amqp.ErrCondFramingError, Description: fmt.Sprintf("frame of type %d", hdr.Type)}
	}
	rest := make([]byte, hdr.Size-8)
	if _, err := io.ReadFull(c.in, rest); err != nil {
		return nil, hdr, err
	}
	return rest[4*int(hdr.DataOffset)-8:], hdr, nil
}

// look records a frame and does the checks that the engine does not.
func (c *Conn) look(channel uint16, body []byte) error {
	code, _ := amqp.PerformativeCode(body)
	if !c.b.opts.Record && code != amqp.CodeFlow {
		return nil
	}
	var p amqp.Performative
	var payload []byte
	if len(body) > 0 {
		var n int
		var err error
		if p, n, err = amqp.DecodePerformative(body); err != nil {
			return err
		}
		payload = body[n:]
	}
	c.b.lock()
	defer c.b.unlock()
	if c.b.opts.Record {
		c.b.frames = append(c.b.frames, Frame{Conn: c, Channel: channel, Body: p, Raw: body, Payload: payload})
	}
	f, ok := p.(*amqp.Flow)
	s := c.sessions[channel]
	if !ok || s == nil || !f.NextIncomingID.Set {
		return nil
	}
	// The peer may tell no transfer id that was not sent, nor go back (part 2 §2.5.6; FC U06).
	id, next := amqp.Serial(f.NextIncomingID.V), s.e.NextOutgoingID()
	if id.Before(s.ack) || next.Before(id) {
		return &amqp.Error{Condition: amqp.ErrCondWindowViolation,
			Description: fmt.Sprintf("next-incoming-id %d is not from %d to %d", id, s.ack, next)}
	}
	s.ack = id
	return nil
}

// touch makes the writer look for work once the lock is released.
func (c *Conn) touch() {
	if !c.touched {
		c.touched = true
		c.b.touched = append(c.b.touched, c)
	}
}

// write writes what there is until the connection has ended, and sends
// heartbeats in half the peer's idle time-out.
func (c *Conn) write() {
	heartbeat := time.NewTimer(time.Hour)
	defer heartbeat.Stop()
	var spare []byte
	for {
		last := false
		select {
		case <-c.wake:
		case <-heartbeat.C:
			c.b.lock()
			c.e.Heartbeat()
			c.b.unlock()
		case <-c.gone:
			last = true
		}
		for {
			c.b.lock()
			c.e.Prepare()
			out := c.e.Out
			c.e.Out, spare = spare[:0], nil
			if r := c.e.Remote; r != nil && r.IdleTimeout.V > 0 {
				heartbeat.Reset(time.Duration(r.IdleTimeout.V) * time.Millisecond / 2)
			}
			if len(out) > 0 && !last {
				for _, l := range slices.Clone(c.links) { // there is room again
					if l.q != nil && l.e.Role == amqp.RoleSender {
						l.q.dispatch()
					}
				}
			}
			c.b.unlock()
			if len(out) == 0 {
				spare = out
				break
			}
			if _, err := c.nc.Write(out); err != nil {
				c.nc.Close()
				break
			}
			spare = out
		}
		if last {
			return
		}
	}
}

// header reads a protocol header.
func (c *Conn) header() (h amqp.ProtocolHeader, err error) {
	_, err = io.ReadFull(c.in, h[:])
	return h, err
}

var errUnauthorized = errors.New("authentication failed")

// server is the handshake of an accepted connection.
func (c *Conn) server() error {
	h, err := c.header()
	if err != nil {
		return err
	}
	c.user = sasl.AnonymousUser
	if h == amqp.HeaderSASL {
		if err := c.authenticate(); err != nil {
			return err
		}
		if h, err = c.header(); err != nil {
			return err
		}
	} else if !c.b.opts.Anonymous {
		c.nc.Write(amqp.HeaderSASL[:]) // what we would have taken (part 2 §2.2)
		return errUnauthorized
	}
	if h != amqp.HeaderAMQP {
		c.nc.Write(amqp.HeaderAMQP[:])
		return fmt.Errorf("protocol header %q", h[:])
	}
	_, err = c.nc.Write(amqp.HeaderAMQP[:])
	return err
}

// authenticate is the server's half of SASL.
func (c *Conn) authenticate() error {
	o := &c.b.opts
	var offer sasl.Offer
	if len(o.Users) > 0 {
		offer = append(offer, sasl.OfferPlain(func(user, password string) error {
			if want, ok := o.Users[user]; !ok || want != password {
				return errUnauthorized
			}
			return nil
		}))
	}
	if o.Anonymous {
		offer = append(offer, sasl.OfferAnonymous())
	}
	server := sasl.NewServer(offer)
	if _, err := c.nc.Write(server.Start(amqp.HeaderSASL[:])); err != nil {
		return err
	}
	for {
		body, _, err := c.frame(amqp.FrameSASL)
		if err != nil {
			return err
		}
		p, _, err := amqp.DecodeSASL(body)
		if err != nil {
			return err
		}
		var response []byte
		switch p := p.(type) {
		case *amqp.SASLInit:
			response = p.InitialResponse.V
			if p.Hostname.Set && !c.serves(p.Hostname.V) {
				err = fmt.Errorf("sasl-init for host %q", p.Hostname.V)
			}
		case *amqp.SASLResponse:
			response = p.Response
		}
		if f := bytes.Split(response, []byte{0}); len(f) == 3 && len(f[0]) > 0 && !bytes.Equal(f[0], f[1]) {
			err = fmt.Errorf("user %q asks to act as %q", f[1], f[0])
		}
		if err != nil {
			c.nc.Write(amqp.AppendFrame(nil, amqp.FrameSASL, 0, &amqp.SASLOutcome{Code: amqp.SASLCodeAuth}))
			return err
		}
		out, done, err := server.Frame(body, nil)
		if len(out) > 0 {
			if _, err := c.nc.Write(out); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if done {
			c.user = server.User()
			return nil
		}
	}
}

// serves reports whether a peer may name that host.
func (c *Conn) serves(host string) bool {
	return len(c.b.opts.Hostnames) == 0 || slices.Contains(c.b.opts.Hostnames, host)
}

// client is the handshake of a connection that we made, up to our open.
func (c *Conn) client(o DialOptions) error {
	mechanism := sasl.AnonymousClient("")
	if o.User != "" {
		mechanism = sasl.PlainClient(o.User, o.Password)
	}
	if err := c.exchange(amqp.HeaderSASL); err != nil {
		return err
	}
	client := sasl.NewClient([]sasl.ClientMechanism{mechanism})
	for done := false; !done; {
		body, _, err := c.frame(amqp.FrameSASL)
		if err != nil {
			return err
		}
		var out []byte
		if out, done, err = client.Frame(body, nil); err != nil {
			return err
		}
		if _, err := c.nc.Write(out); err != nil {
			return err
		}
	}
	if err := c.exchange(amqp.HeaderAMQP); err != nil {
		return err
	}
	c.Lock()
	c.e.Open()
	c.Unlock()
	return nil
}

// exchange sends a protocol header and wants the same.
func (c *Conn) exchange(want amqp.ProtocolHeader) error {
	if _, err := c.nc.Write(want[:]); err != nil {
		return err
	}
	h, err := c.header()
	if err == nil && h != want {
		err = fmt.Errorf("protocol header %q", h[:])
	}
	return err
}

// Container is the peer's container id.
func (c *Conn) Container() string {
	c.b.lock()
	defer c.b.unlock()
	if c.e.Remote == nil {
		return ""
	}
	return c.e.Remote.ContainerID
}

// User is who the peer has proved to be.
func (c *Conn) User() string { return c.user }

// Opened is the peer's open.
func (c *Conn) Opened() *amqp.Open {
	c.b.lock()
	defer c.b.unlock()
	return c.e.Remote
}

// Drop cuts the connection without a word.
func (c *Conn) Drop() { c.nc.Close() }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.gone }

// Close closes the connection, with an error unless err is nil, and waits for
// its end.
func (c *Conn) Close(err *amqp.Error) {
	c.Lock()
	c.e.Close(err)
	c.Unlock()
	select {
	case <-c.gone:
	case <-time.After(closeLimit):
		c.nc.Close()
		<-c.gone
	}
}

// What follows is amqp.Handler's, for the engine.

// Lock takes the broker's lock.
func (c *Conn) Lock() { c.b.lock() }

// Unlock releases the broker's lock and has written what there is.
func (c *Conn) Unlock() {
	c.touch()
	c.b.unlock()
}

// Flush does nothing: nothing is put off.
func (c *Conn) Flush() {}

// RemoteOpen answers the peer's open.
func (c *Conn) RemoteOpen(o *amqp.Open) *amqp.Error {
	if o.Hostname.Set && !c.serves(o.Hostname.V) {
		return &amqp.Error{Condition: amqp.ErrCondNotFound, Description: fmt.Sprintf("unknown host %q", o.Hostname.V)}
	}
	c.nc.SetDeadline(time.Time{})
	c.opened = true
	if !c.e.OpenSent() {
		c.e.Open()
	}
	close(c.opening)
	return nil
}

// RemoteBegin enters the peer's session.
func (c *Conn) RemoteBegin(e *amqp.Session, _ *amqp.Begin) *amqp.Error {
	s, _ := e.Owner.(*session)
	if s == nil {
		s = c.newSession(e)
	}
	c.sessions[c.channel] = s
	return nil
}

func (c *Conn) newSession(e *amqp.Session) *session {
	s := &session{c: c, e: e, ack: e.NextOutgoingID(), out: map[amqp.Serial]*delivery{}, in: map[amqp.Serial]*Incoming{}}
	e.Owner = s
	return s
}

// SessionFlow goes on with what waited for the peer's window.
func (c *Conn) SessionFlow(e *amqp.Session) {
	for _, l := range slices.Clone(c.links) {
		if l.s.e == e && l.q != nil && l.e.Role == amqp.RoleSender {
			l.q.dispatch()
		}
	}
}

// RemoteEnd suspends the session's links.
func (c *Conn) RemoteEnd(e *amqp.Session, _ *amqp.End) { c.dropSession(e.Owner.(*session)) }

func (c *Conn) dropSession(s *session) {
	for _, l := range slices.Clone(c.links) {
		if l.s == s {
			l.suspend()
		}
	}
	for t := range c.b.termini {
		if t.session == s {
			c.b.lost(t, amqp.ExpirySessionEnd)
		}
	}
	for channel, o := range c.sessions {
		if o == s {
			delete(c.sessions, channel)
		}
	}
}

// RemoteClose does nothing: the reader sees it.
func (c *Conn) RemoteClose(*amqp.Close) {}
