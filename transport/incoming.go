package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
	"qdrouter/router"
)

// Incoming is what the connections of one listener have in common.
type Incoming struct {
	Router  *router.Router
	Options router.ConnOptions // ID, Host and the security fields are filled in for each
	Offer   sasl.Offer
	// RequireAuth refuses peers that skip SASL (CFG R4). ANONYMOUS is not in Offer then.
	RequireAuth bool
	// Limit bounds the time from accept to the peer's open (CFG L11, L13).
	Limit time.Duration
	Log   router.Logger
}

// Serve runs an accepted connection until it ends. opened is called once the peer's open is in.
// The failure, which the router and the log know of, is nil after a close in good order and when
// the peer left without a word.
func (in *Incoming) Serve(nc net.Conn, opened func()) *router.Failure {
	o := in.Options
	o.ID = in.Router.NextConnectionID()
	o.Host = nc.RemoteAddr().String()
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		o.Host = fmt.Sprintf("%s:%d", tcp.IP, tcp.Port) // IPv6 without brackets (CFG L18)
	}
	in.logf("SERVER", router.Info, "[C%d] Accepted connection to %s from %s", o.ID, o.Listener, o.Host)
	var late atomic.Bool
	limit := time.AfterFunc(in.Limit, func() {
		late.Store(true)
		nc.Close()
	})
	given := o.Opened
	var isOpen atomic.Bool
	var container string
	o.Opened = func(open *amqp.Open, text string) {
		limit.Stop()
		isOpen.Store(true)
		container = open.ContainerID
		if opened != nil {
			opened()
		}
		if given != nil {
			given(open, text)
		}
	}
	err := in.serve(nc, &o)
	limit.Stop()
	nc.Close()
	switch {
	case late.Load():
		in.logf("ERROR", router.Error, "Run Time: Timeout waiting for initial handshake")
		err = errLate
	case err != nil:
		in.logf("SERVER", router.Info, "[C%d] Connection from %s (to %s) failed: %s", o.ID, o.Host, o.Listener, failureText(err))
	}
	f := router.Failure{
		What: router.ConnectionFailed, Where: o.Listener, ConnectionID: o.ID, Host: o.Host, User: o.User,
	}
	switch {
	case err == nil, err == errAborted:
		return nil // many clients leave so, and all that only look whether somebody listens
	case isOpen.Load():
		f.Container = container
	default:
		f.What, f.User = router.ConnectionRefused, ""
	}
	f.Reason = FailureReason(err)
	in.Router.NoteFailure(f)
	return &f
}

// errLate is why a connection ended whose open did not come in time.
var errLate = errors.New("timeout waiting for initial handshake")

// FailureReason is the condition and description of what ended a connection, as management shows
// them.
func FailureReason(err error) string {
	var e *amqp.Error
	if errors.As(err, &e) {
		return string(e.Condition) + ": " + e.Description
	}
	return err.Error()
}

func (in *Incoming) logf(module string, level router.Level, format string, args ...any) {
	if in.Log.Enabled(module, level) {
		in.Log.Log(module, level, fmt.Sprintf(format, args...))
	}
}

// failureText is condition and description, as log lines have them.
func failureText(err error) string {
	var e *amqp.Error
	if errors.As(err, &e) {
		return string(e.Condition) + " " + e.Description
	}
	return err.Error()
}

// errAborted is the end of a connection whose socket ended first (CFG R32).
var errAborted = &amqp.Error{Condition: amqp.ErrCondFramingError, Description: "connection aborted"}

// policyError is a refusal of which nothing goes over the wire (CFG R4 to R6).
func policyError(text string) error {
	return &amqp.Error{Condition: "amqp:connection:policy-error", Description: text}
}

// serve exchanges headers and SASL and then runs the AMQP connection.
func (in *Incoming) serve(nc net.Conn, o *router.ConnOptions) error {
	s := newSocket(nc)
	h := &handshake{nc: nc, max: max(o.MaxFrameSize, amqp.MinMaxFrameSize)}
	header, err := h.header()
	if err != nil {
		return err
	}
	o.User = sasl.AnonymousUser // CFG L17
	if header == amqp.HeaderSASL {
		if err := in.authenticate(h, o); err != nil {
			return err
		}
		if header, err = h.header(); err != nil {
			return err
		}
		if header == amqp.HeaderSASL { // CFG M20
			return in.refuse(s, o, fmt.Sprintf("AMQP SASL protocol header not allowed (maybe detected twice): '%s'", quote(header[:])))
		}
	} else if header == amqp.HeaderAMQP && in.RequireAuth {
		return policyError("Client skipped authentication - forbidden")
	}
	switch {
	case header == amqp.HeaderAMQP:
	case header[0] == 0x16 && header[1] == 3 || header == amqp.HeaderTLS: // CFG R6
		return policyError("TLS is not configured on this listener")
	case strings.HasPrefix(string(header[:]), "AMQP\x00\x01"): // CFG R3; 0-9-1 has no 1 there (R2)
		return in.refuse(s, o, fmt.Sprintf("Incompatible AMQP connection detected: '%s'", quote(header[:])))
	default: // CFG R2
		return in.refuse(s, o, fmt.Sprintf("Unknown protocol detected: '%s'", quote(h.seen())))
	}
	if _, err := nc.Write(amqp.HeaderAMQP[:]); err != nil {
		return errAborted
	}
	return s.run(in.Router.NewConn(*o, s), h.rest())
}

// refuse answers a peer that does not speak our protocol, so that it can read why (CFG 11.1).
func (in *Incoming) refuse(s *socket, o *router.ConnOptions, text string) error {
	e := &amqp.Error{Condition: amqp.ErrCondFramingError, Description: text}
	b := append([]byte(nil), amqp.HeaderAMQP[:]...)
	b = amqp.AppendFrame(b, amqp.FrameAMQP, 0, &amqp.Open{})
	b = amqp.AppendFrame(b, amqp.FrameAMQP, 0, &amqp.Close{Error: e})
	s.nc.SetWriteDeadline(time.Now().Add(lingerLimit))
	s.nc.Write(b)
	return e
}

// authenticate runs the server's side of SASL (CFG 5.1).
func (in *Incoming) authenticate(h *handshake, o *router.ConnOptions) error {
	server := sasl.NewServer(in.Offer)
	if _, err := h.nc.Write(server.Start(amqp.HeaderSASL[:])); err != nil {
		return errAborted
	}
	for {
		body, err := h.saslFrame()
		if err != nil {
			return err
		}
		out, done, err := server.Frame(body, nil)
		if len(out) > 0 {
			if _, werr := h.nc.Write(out); werr != nil && err == nil {
				return errAborted
			}
		}
		if err != nil {
			return err
		}
		if done {
			o.SASL, o.User, o.Authenticated = server.Mechanism(), server.User(), true
			return nil
		}
	}
}

// handshake reads what comes before the AMQP frames, in small pieces.
type handshake struct {
	nc    net.Conn
	max   uint32 // octets of a SASL frame
	buf   []byte
	start int // of what is not used yet
}

// need makes n octets available.
func (h *handshake) need(n int) ([]byte, error) {
	for len(h.buf)-h.start < n {
		if h.start > 0 {
			h.buf = h.buf[:copy(h.buf, h.buf[h.start:])]
			h.start = 0
		}
		if cap(h.buf)-len(h.buf) < 512 {
			h.buf = append(make([]byte, 0, max(2*cap(h.buf), 512)+512), h.buf...)
		}
		m, err := h.nc.Read(h.buf[len(h.buf):cap(h.buf)])
		h.buf = h.buf[:len(h.buf)+m]
		if err != nil && len(h.buf)-h.start < n {
			return nil, errAborted
		}
	}
	return h.buf[h.start : h.start+n], nil
}

func (h *handshake) header() (p amqp.ProtocolHeader, err error) {
	b, err := h.need(len(p))
	if err != nil {
		return p, err
	}
	copy(p[:], b)
	h.start += len(p)
	return p, nil
}

// seen is all that was read, for error texts.
func (h *handshake) seen() []byte { return h.buf[:min(len(h.buf), 64)] }

// rest is what was read beyond the handshake.
func (h *handshake) rest() []byte { return h.buf[h.start:] }

// saslFrame returns the body of the next frame, which must be a SASL frame (CFG M18).
func (h *handshake) saslFrame() ([]byte, error) {
	b, err := h.need(4)
	if err != nil {
		return nil, err
	}
	if string(b) == "AMQP" { // CFG R7
		return nil, &amqp.Error{Condition: amqp.ErrCondFramingError, Description: "AMQP header before the end of SASL"}
	}
	size := binary.BigEndian.Uint32(b)
	if size < amqp.FrameHeaderSize || size > h.max {
		return nil, &amqp.Error{Condition: amqp.ErrCondFramingError, Description: "malformed frame"}
	}
	if b, err = h.need(int(size)); err != nil {
		return nil, err
	}
	hdr, ok, err := amqp.ParseFrameHeader(b, h.max)
	if err != nil {
		return nil, err
	}
	if !ok || hdr.Type != amqp.FrameSASL {
		return nil, &amqp.Error{Condition: amqp.ErrCondFramingError, Description: "frame within SASL is no SASL frame"}
	}
	h.start += int(size)
	return b[4*int(hdr.DataOffset):], nil
}

// quote shows octets as log lines and error texts do.
func quote(b []byte) string {
	var s strings.Builder
	for _, x := range b {
		if x < 0x20 || x > 0x7e {
			fmt.Fprintf(&s, `\x%02x`, x)
		} else {
			s.WriteByte(x)
		}
	}
	return s.String()
}
