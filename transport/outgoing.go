package transport

import (
	"context"
	"fmt"
	"net"
	"time"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
	"qdrouter/router"
)

// Outgoing is what the attempts of one connector have in common.
type Outgoing struct {
	Router     *router.Router
	Options    router.ConnOptions // ID, Hostname and the security fields are filled in for each
	Mechanisms []sasl.ClientMechanism
	// Limit bounds the time from the connected socket to the peer's open.
	Limit time.Duration
}

// Serve runs an established socket as connection number id until it ends. hostname is what our
// open says; opened is told the peer's open and how the log describes the connection. The error is what ended the connection, nil after
// a close in good order. When ctx ends the connection is closed with a word to the peer, and
// cut when that does not answer within a second.
func (out *Outgoing) Serve(ctx context.Context, nc net.Conn, id uint64, hostname string, opened func(o *amqp.Open, text string)) error {
	defer nc.Close()
	o := out.Options
	o.ID, o.Hostname = id, hostname
	limit := time.AfterFunc(out.Limit, func() { nc.Close() })
	defer limit.Stop()
	o.Opened = func(open *amqp.Open, text string) {
		limit.Stop()
		if opened != nil {
			opened(open, text)
		}
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	h := &handshake{nc: nc, max: max(o.MaxFrameSize, amqp.MinMaxFrameSize)}
	if err := out.authenticate(h, &o); err != nil {
		stop()
		return err
	}
	if err := exchangeHeader(h, amqp.HeaderAMQP, "AMQP"); err != nil {
		stop()
		return err
	}
	stop()
	s := newSocket(nc)
	c := out.Router.NewConn(o, s)
	ended := make(chan struct{})
	closing := context.AfterFunc(ctx, func() {
		c.Close(nil)
		t := time.NewTimer(lingerLimit)
		defer t.Stop()
		select {
		case <-t.C:
			nc.Close()
		case <-ended:
		}
	})
	c.Start()
	err := s.run(c, h.rest())
	close(ended)
	closing()
	return err
}

// exchangeHeader sends a protocol header and takes in the peer's.
func exchangeHeader(h *handshake, want amqp.ProtocolHeader, layer string) error {
	if _, err := h.nc.Write(want[:]); err != nil {
		return errAborted
	}
	got, err := h.header()
	if err != nil {
		return err
	}
	if got == want {
		return nil
	}
	text := fmt.Sprintf("%s protocol header got: %s ['%s']", layer, layerName(got), quote(got[:]))
	return &amqp.Error{Condition: amqp.ErrCondFramingError, Description: "Expected " + text} // CFG M12
}

func layerName(h amqp.ProtocolHeader) string {
	switch h {
	case amqp.HeaderAMQP:
		return "AMQP 1.0 layer"
	case amqp.HeaderSASL:
		return "AMQP 1.0 SASL layer"
	case amqp.HeaderTLS:
		return "AMQP 1.0 TLS layer"
	}
	return "Unknown protocol"
}

// authenticate runs the client's side of SASL (CFG 5.2).
func (out *Outgoing) authenticate(h *handshake, o *router.ConnOptions) error {
	if err := exchangeHeader(h, amqp.HeaderSASL, "SASL"); err != nil {
		return err
	}
	client := sasl.NewClient(out.Mechanisms)
	for {
		body, err := h.saslFrame()
		if err != nil {
			return err
		}
		answer, done, err := client.Frame(body, nil)
		if err != nil {
			return err
		}
		if len(answer) > 0 {
			if _, err := h.nc.Write(answer); err != nil {
				return errAborted
			}
		}
		if done {
			o.SASL, o.Authenticated = client.Mechanism(), true
			return nil
		}
	}
}
