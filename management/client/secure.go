package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
)

// tlsConfig returns nil when the URL asks for no TLS.
func (o Options) tlsConfig() (*tls.Config, error) {
	if o.URL.Scheme != SchemeAMQPS {
		return nil, nil
	}
	var roots *x509.CertPool // nil: the system's
	if o.TrustFile != "" {
		pem, err := os.ReadFile(o.TrustFile)
		if err != nil {
			return nil, err
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, Failf(badCertificate, "no certificate in %s", o.TrustFile)
		}
	}
	config := &tls.Config{
		ServerName: o.URL.Host,
		RootCAs:    roots,
		// Go itself knows only all or nothing, and no longer takes the name of
		// a host from the subject, where the certificates of old
		// installations have it. verify checks everything but that.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := verify(s.PeerCertificates, roots, o.URL.Host, !o.SkipHostVerify); err != nil {
				return fmt.Errorf("certificate verify failed: %w", err)
			}
			return nil
		},
	}
	if o.Certificate != "" {
		certificate, err := loadCertificate(o.Certificate, o.Key, o.KeyPassword)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// verify checks the chain of a router's certificate and, if wanted, that it was
// made for host. The subject's common name counts when there is no alternative
// name.
func verify(chain []*x509.Certificate, roots *x509.CertPool, host string, wantHost bool) error {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	leaf := chain[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates}); err != nil {
		return err
	}
	if !wantHost {
		return nil
	}
	if len(leaf.DNSNames) == 0 && len(leaf.IPAddresses) == 0 {
		if !strings.EqualFold(leaf.Subject.CommonName, host) {
			return fmt.Errorf("certificate is for %q, not %q", leaf.Subject.CommonName, host)
		}
		return nil
	}
	return leaf.VerifyHostname(host)
}

// usesSASL reports whether there is a SASL layer (MG 11.2).
func (o Options) usesSASL() bool {
	return o.URL.Scheme == SchemeAMQPS || len(o.Mechanisms) > 0 || o.User != "" || o.Password != ""
}

// mechanisms returns the SASL mechanisms that the options allow and have the
// means for, in the order of preference of CFG M11.
func (o Options) mechanisms() []sasl.ClientMechanism {
	named := func(name string) bool {
		return slices.ContainsFunc(o.Mechanisms, func(m string) bool { return strings.EqualFold(m, name) })
	}
	allowed := func(name string) bool { return len(o.Mechanisms) == 0 || named(name) }

	var usable []sasl.ClientMechanism
	if o.URL.Scheme == SchemeAMQPS && allowed(external{}.Name()) && (o.Certificate != "" || named(external{}.Name())) {
		usable = append(usable, external{})
	}
	if o.User != "" && allowed(sasl.Plain) {
		usable = append(usable, sasl.PlainClient(o.User, o.Password))
	}
	if allowed(sasl.Anonymous) {
		usable = append(usable, sasl.AnonymousClient("anonymous"))
	}
	return usable
}

// external is the client's half of EXTERNAL (RFC 4422 appendix A): who we are,
// TLS has told.
type external struct{}

func (external) Name() string    { return "EXTERNAL" }
func (external) Initial() []byte { return []byte{} }
func (external) Respond([]byte) ([]byte, error) {
	return nil, errors.New("challenge in EXTERNAL")
}

// secure puts the layers below AMQP on a fresh connection: TLS and SASL, as far
// as the options ask for them. It owns nc and closes it on error. go-amqp could
// do both, but takes the first mechanism in the router's order, not in ours.
func secure(ctx context.Context, nc net.Conn, config *tls.Config, opts Options) (net.Conn, error) {
	raw := nc
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if config != nil {
		tc := tls.Client(nc, config)
		if err := tc.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, sslFailure(err)
		}
		nc = tc
	}
	if !opts.usesSASL() {
		return nc, nil
	}
	if err := exchangeHeaders(nc, amqp.HeaderSASL); err != nil {
		raw.Close()
		if config != nil {
			// In TLS 1.3 the router judges our certificate after our side of
			// the handshake is done: its verdict arrives here.
			err = sslFailure(err)
		}
		return nil, err
	}
	if err := authenticate(nc, sasl.NewClient(opts.mechanisms())); err != nil {
		raw.Close()
		return nil, err
	}
	return nc, nil
}

func sslFailure(err error) error { return fmt.Errorf("SSL Failure: %w", err) }

func exchangeHeaders(nc net.Conn, want amqp.ProtocolHeader) error {
	if _, err := nc.Write(want[:]); err != nil {
		return err
	}
	var got amqp.ProtocolHeader
	if _, err := io.ReadFull(nc, got[:]); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("unexpected protocol header %q", got[:])
	}
	return nil
}

// maxSASLFrame is the largest frame of the exchange that is read. The standard
// promises 512 octets; a long list of mechanisms may be longer.
const maxSASLFrame = 64 << 10

// authenticate runs the SASL exchange. It reads no octet beyond the outcome.
func authenticate(nc net.Conn, client *sasl.Client) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			return err
		}
		h, _, err := amqp.ParseFrameHeader(head[:], math.MaxInt32)
		if err != nil {
			return err
		}
		if h.Type != amqp.FrameSASL || h.Size > maxSASLFrame {
			return fmt.Errorf("unexpected frame in the SASL exchange: type %d, %d octets", h.Type, h.Size)
		}
		frame := make([]byte, h.Size)
		if _, err := io.ReadFull(nc, frame[copy(frame, head[:]):]); err != nil {
			return err
		}
		out, done, err := client.Frame(frame[4*int(h.DataOffset):], nil)
		if err != nil {
			return err
		}
		if done {
			return nil
		}
		if _, err := nc.Write(out); err != nil {
			return err
		}
	}
}
