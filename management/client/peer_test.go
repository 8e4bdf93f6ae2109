package client

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
)

// A peer is a router of one agent, as far as the client needs one. How it treats
// requests depends on the address they go to:
//
//	refused   the link is detached with amqp:not-found
//	nocredit  no request may be sent
//	silent    requests are accepted and not answered
//	reject    requests are rejected
//	release   requests are released
//	hangup    the connection is cut when a request comes
//	forced    the connection is closed with amqp:connection:forced
//	other     requests are answered
type peer struct {
	t        *testing.T
	listener net.Listener
	tls      *tls.Config
	offer    sasl.Offer // nil: no SASL layer is taken part in
	body     amqp.Map   // of every answer

	opens chan *amqp.Open // as received
}

func startPeer(t *testing.T, p *peer) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.t, p.listener, p.opens = t, listener, make(chan *amqp.Open, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			// One client at a time is enough.
			if err := p.serve(nc); err != nil && !errors.Is(err, io.EOF) {
				t.Logf("peer: %v", err)
			}
			nc.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return p
}

func (p *peer) url(scheme string) URL {
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	return URL{Scheme: scheme, Host: "127.0.0.1", Port: port}
}

func (p *peer) serve(nc net.Conn) error {
	if p.tls != nil {
		nc = tls.Server(nc, p.tls)
	}
	r := bufio.NewReader(nc)
	header, err := readHeader(r)
	if err != nil {
		return err
	}
	if header == amqp.HeaderSASL && p.offer != nil {
		server := sasl.NewServer(p.offer)
		nc.Write(server.Start(amqp.HeaderSASL[:]))
		for done := false; !done; {
			_, body, err := readFrame(r)
			if err != nil {
				return err
			}
			var out []byte
			out, done, err = server.Frame(body, nil)
			nc.Write(out)
			if err != nil {
				return err
			}
		}
		if header, err = readHeader(r); err != nil {
			return err
		}
	}
	if _, err := nc.Write(amqp.HeaderAMQP[:]); err != nil || header != amqp.HeaderAMQP {
		return errors.Join(err, errors.New("unexpected header"))
	}
	s := &peerSession{peer: p, nc: nc, addresses: make(map[uint32]string)}
	for {
		channel, body, err := readFrame(r)
		if err != nil {
			return err
		}
		if len(body) == 0 {
			continue
		}
		performative, n, err := amqp.DecodePerformative(body)
		if err != nil {
			return err
		}
		if err := s.handle(channel, performative, body[n:]); err != nil {
			return err
		}
	}
}

func readHeader(r io.Reader) (h amqp.ProtocolHeader, err error) {
	_, err = io.ReadFull(r, h[:])
	return h, err
}

func readFrame(r io.Reader) (channel uint16, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	h, _, err := amqp.ParseFrameHeader(head[:], math.MaxInt32)
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, h.Size-uint32(len(head)))
	_, err = io.ReadFull(r, body)
	return h.Channel, body[4*int(h.DataOffset)-len(head):], err
}

// peerSession is the one session of a client of a peer.
type peerSession struct {
	*peer
	nc        net.Conn
	addresses map[uint32]string // of the client's senders, by handle
	replyTo   uint32            // handle of the client's newest receiver
	credit    uint32            // of that receiver
	pending   [][]byte          // messages that wait for credit
	sent      uint32            // deliveries
}

func (s *peerSession) write(channel uint16, performatives ...amqp.Performative) error {
	var out []byte
	for _, p := range performatives {
		out = amqp.AppendFrame(out, amqp.FrameAMQP, channel, p)
	}
	_, err := s.nc.Write(out)
	return err
}

func (s *peerSession) handle(channel uint16, performative amqp.Performative, payload []byte) error {
	switch p := performative.(type) {
	case *amqp.Open:
		s.opens <- p
		return s.write(channel, &amqp.Open{ContainerID: "peer"})
	case *amqp.Begin:
		return s.write(channel, &amqp.Begin{RemoteChannel: amqp.Some(channel), NextOutgoingID: 0, IncomingWindow: 100, OutgoingWindow: 100})
	case *amqp.Attach:
		return s.attach(channel, p)
	case *amqp.Flow:
		if p.Handle.Set && p.Handle.V == s.replyTo {
			s.credit = p.LinkCredit.V
		}
		return s.deliver(channel)
	case *amqp.Transfer:
		return s.transfer(channel, p, payload)
	case *amqp.Close:
		s.write(channel, &amqp.Close{})
		return io.EOF
	}
	return nil
}

func (s *peerSession) attach(channel uint16, a *amqp.Attach) error {
	answer := &amqp.Attach{Name: a.Name, Handle: a.Handle, Role: !a.Role}
	if a.Role == amqp.RoleReceiver {
		s.replyTo, s.credit = a.Handle, 0
		answer.InitialDeliveryCount = amqp.Some[uint32](0)
		answer.Source = &amqp.Source{Address: amqp.Some("temp.reply"), Dynamic: true}
		answer.Target = a.Target
		return s.write(channel, answer)
	}
	answer.Source, answer.Target = a.Source, a.Target
	address := a.Target.Address.V
	if strings.HasPrefix(address, "refused") {
		answer.Target = nil
		return s.write(channel, answer, &amqp.Detach{Handle: a.Handle, Closed: true, Error: &amqp.Error{
			Condition: amqp.ErrCondNotFound, Description: "no such node",
		}})
	}
	s.addresses[a.Handle] = address
	if address == "nocredit" {
		return s.write(channel, answer)
	}
	return s.write(channel, answer, &amqp.Flow{
		NextIncomingID: amqp.Some[uint32](0), IncomingWindow: 100, OutgoingWindow: 100,
		Handle: amqp.Some(a.Handle), DeliveryCount: amqp.Some[uint32](0), LinkCredit: amqp.Some[uint32](50),
	})
}

func (s *peerSession) transfer(channel uint16, t *amqp.Transfer, payload []byte) error {
	request, err := amqp.DecodeMessage(payload)
	if err != nil {
		return err
	}
	state := amqp.StateAccepted
	switch s.addresses[t.Handle] {
	case "hangup":
		return io.EOF
	case "forced":
		return s.write(0, &amqp.Close{Error: &amqp.Error{Condition: "amqp:connection:forced", Description: "shutdown"}})
	case "reject":
		state = amqp.AppendRejected(nil, &amqp.Error{Condition: amqp.ErrCondDecodeError, Description: "junk"})
	case "release":
		state = amqp.StateReleased
	}
	err = s.write(channel, &amqp.Disposition{Role: amqp.RoleReceiver, First: t.DeliveryID.V, Settled: true, State: state})
	if err != nil || s.addresses[t.Handle] != "$management" {
		return err
	}
	// First one that nobody waits for.
	s.pending = append(s.pending, s.reply("stale"), s.reply(request.Properties.CorrelationID))
	return s.deliver(channel)
}

// deliver sends what credit allows, each message in two frames.
func (s *peerSession) deliver(channel uint16) error {
	for ; len(s.pending) > 0 && s.credit > 0; s.credit-- {
		if err := s.send(channel, s.pending[0], 30); err != nil {
			return err
		}
		s.pending = s.pending[1:]
	}
	return nil
}

func (s *peerSession) reply(correlationID any) []byte {
	m := &amqp.Message{
		Properties: &amqp.Properties{CorrelationID: correlationID},
		ApplicationProperties: amqp.Map{
			{Key: "statusCode", Value: int32(StatusOK)},
			{Key: "statusDescription", Value: "OK"},
		},
		BodyKind: amqp.BodyValue,
		Body:     s.body,
	}
	return m.Append(nil)
}

// send sends a delivery, the first cut bytes in a frame of their own.
func (s *peerSession) send(channel uint16, payload []byte, cut int) error {
	cut = min(cut, len(payload))
	t := &amqp.Transfer{
		Handle: s.replyTo, DeliveryID: amqp.Some(s.sent), DeliveryTag: []byte{byte(s.sent)},
		MessageFormat: amqp.Some[uint32](0), Settled: amqp.Some(true), More: cut < len(payload),
	}
	s.sent++
	out := amqp.AppendTransferFrame(nil, channel, t, payload[:cut])
	if t.More {
		out = amqp.AppendTransferFrame(out, channel, &amqp.Transfer{Handle: s.replyTo, Settled: amqp.Some(true)}, payload[cut:])
	}
	_, err := s.nc.Write(out)
	return err
}
