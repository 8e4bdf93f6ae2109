package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"qdrouter/amqp/sasl"
)

// An authority signs certificates for tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	a.cert = sign(t, template, template, a.key, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(1)
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue returns a certificate for a common name and alternative names.
func (a *authority) issue(commonName string, dnsNames []string, ips ...net.IP) tls.Certificate {
	key := newKey(a.t)
	cert := sign(a.t, &x509.Certificate{Subject: pkix.Name{CommonName: commonName}, DNSNames: dnsNames, IPAddresses: ips}, a.cert, key, a.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// file writes the authority's certificate.
func (a *authority) file() string { return writePEM(a.t, "CERTIFICATE", a.cert.Raw) }

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerify(t *testing.T) {
	trusted, other := newAuthority(t), newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(trusted.cert)
	loopback := net.IPv4(127, 0, 0, 1)
	for _, tt := range []struct {
		name string
		cert tls.Certificate
		host string
		any  bool // whatever the host
		ok   bool
	}{
		{"alternative name", trusted.issue("x", []string{"a.example"}), "a.example", false, true},
		{"alternative address", trusted.issue("x", nil, loopback), "127.0.0.1", false, true},
		{"common name, as old installations have it", trusted.issue("localhost", nil), "localhost", false, true},
		{"common name in any case", trusted.issue("LocalHost", nil), "localhost", false, true},
		{"common name beside alternative names does not count", trusted.issue("localhost", []string{"a.example"}), "localhost", false, false},
		{"wrong alternative name", trusted.issue("x", []string{"a.example"}), "b.example", false, false},
		{"wrong common name", trusted.issue("localhost", nil), "127.0.0.1", false, false},
		{"wrong name does not matter", trusted.issue("localhost", nil), "127.0.0.1", true, true},
		{"unknown authority", other.issue("localhost", nil), "localhost", false, false},
		{"unknown authority matters whatever the name", other.issue("localhost", nil), "localhost", true, false},
	} {
		err := verify([]*x509.Certificate{tt.cert.Leaf}, roots, tt.host, !tt.any)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestTLS(t *testing.T) {
	ours := newAuthority(t)
	config := func(auth tls.ClientAuthType) *tls.Config {
		pool := x509.NewCertPool()
		pool.AddCert(ours.cert)
		return &tls.Config{
			Certificates: []tls.Certificate{ours.issue("127.0.0.1", nil)},
			ClientAuth:   auth,
			ClientCAs:    pool,
		}
	}
	client := ours.issue("client", nil)
	keyDER, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := writePEM(t, "CERTIFICATE", client.Leaf.Raw), writePEM(t, "PRIVATE KEY", keyDER)
	external := sasl.Choice{Name: "EXTERNAL", New: func() sasl.Mechanism { return acceptAll{} }}
	offer := sasl.Offer{sasl.OfferAnonymous(), external}

	for _, tt := range []struct {
		name   string
		config *tls.Config
		opts   Options
		class  string // of the error
		fails  string
	}{
		{"trusted", config(tls.NoClientCert), Options{TrustFile: ours.file()}, "", ""},
		{"wrong authority", config(tls.NoClientCert), Options{TrustFile: newAuthority(t).file()},
			"ConnectionException", "SSL Failure: certificate verify failed"},
		{"no authority", config(tls.NoClientCert), Options{}, "ConnectionException", "SSL Failure: certificate verify failed"},
		{"no such file", config(tls.NoClientCert), Options{TrustFile: "nosuchfile"}, "FileNotFoundError", "nosuchfile"},
		{"no certificate in the file", config(tls.NoClientCert), Options{TrustFile: keyFile}, "SSLException", "no certificate in"},
		{"with a certificate", config(tls.RequireAndVerifyClientCert),
			Options{TrustFile: ours.file(), Certificate: certFile, Key: keyFile}, "", ""},
		{"with a certificate and EXTERNAL", config(tls.RequireAndVerifyClientCert),
			Options{TrustFile: ours.file(), Certificate: certFile, Key: keyFile, Mechanisms: []string{"EXTERNAL"}}, "", ""},
		{"a certificate is missing", config(tls.RequireAndVerifyClientCert), Options{TrustFile: ours.file()},
			"ConnectionException", "SSL Failure: "},
		{"no TLS there", nil, Options{TrustFile: ours.file()}, "ConnectionException", "SSL Failure: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startPeer(t, &peer{tls: tt.config, offer: offer})
			tt.opts.URL, tt.opts.Timeout = p.url(SchemeAMQPS), long
			conn, err := Dial(context.Background(), tt.opts)
			if err == nil {
				conn.Close()
			}
			switch {
			case tt.fails != "":
				wantError(t, err, tt.class, tt.fails)
			case err != nil:
				t.Fatal(err)
			}
		})
	}
}

type acceptAll struct{}

func (acceptAll) Step([]byte) ([]byte, bool, error) { return nil, true, nil }
func (acceptAll) User() string                      { return "" }

// MG 11.2: which mechanisms are tried, best first.
func TestMechanisms(t *testing.T) {
	secure, clear := URL{Scheme: SchemeAMQPS}, URL{Scheme: SchemeAMQP}
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{URL: secure}, "ANONYMOUS"},
		{Options{URL: secure, Certificate: "c"}, "EXTERNAL ANONYMOUS"},
		{Options{URL: secure, Certificate: "c", User: "u"}, "EXTERNAL PLAIN ANONYMOUS"},
		{Options{URL: secure, Mechanisms: []string{"EXTERNAL"}}, "EXTERNAL"},
		{Options{URL: secure, Certificate: "c", Mechanisms: []string{"ANONYMOUS"}}, "ANONYMOUS"},
		{Options{URL: clear, User: "u"}, "PLAIN ANONYMOUS"},
		{Options{URL: clear, Mechanisms: []string{"EXTERNAL", "PLAIN"}}, ""},
	} {
		got := ""
		for i, m := range tt.opts.mechanisms() {
			if i > 0 {
				got += " "
			}
			got += m.Name()
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.opts, got, tt.want)
		}
	}
}
