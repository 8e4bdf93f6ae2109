package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"
	"go.uber.org/goleak"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/logging"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// parse makes a configuration out of sections.
func parse(t *testing.T, conf string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.conf", config.FormatConf, []byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// section writes one section of a configuration; attrs are "key: value" lines.
func section(name string, attrs ...string) string {
	return name + " {\n" + strings.Join(attrs, "\n") + "\n}\n"
}

// quietly sends the log nowhere but into memory.
func quietly(t *testing.T) *logging.Registry {
	t.Helper()
	logs := logging.New()
	file := filepath.Join(t.TempDir(), "log")
	trace := "trace+"
	if err := logs.Configure(logging.Default, logging.Settings{OutputFile: &file, Enable: &trace}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close() })
	return logs
}

// A running server of a test.
type running struct {
	*Server
	t    *testing.T
	logs *logging.Registry
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, conf string) *running {
	t.Helper()
	logs := quietly(t)
	srv, err := New(parse(t, conf), Options{Version: "test", Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Server: srv, t: t, logs: logs, stop: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- srv.Run(ctx)
		close(r.done)
	}()
	t.Cleanup(r.end)
	select {
	case <-srv.Ready():
	case err := <-r.done:
		t.Fatalf("the server ended: %v", err)
	}
	return r
}

// end stops the server and waits for it; once more does no harm.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Error("the server does not stop")
	}
}

// logged waits for a log event with this text.
func (r *running) logged(text string) {
	r.t.Helper()
	eventually(r.t, "logged: "+text, func() bool {
		for _, e := range r.logs.Recent(0) {
			if strings.Contains(fmt.Sprintf("%s (%s) %s", e.Module, e.Level, e.Text), text) {
				return true
			}
		}
		return false
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never %s", what)
		}
	}
}

// dialTo connects to a listener of r.
func (r *running) dialTo(listener string) net.Conn {
	r.t.Helper()
	addr := r.Addr(listener)
	if addr == nil {
		r.t.Fatalf("%s does not listen", listener)
	}
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return nc
}

// wantEOF checks that nc ends without another octet.
func wantEOF(t *testing.T, nc net.Conn) {
	t.Helper()
	b, err := io.ReadAll(nc)
	var timeout net.Error
	if len(b) > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("read %q, error %v, want the end", b, err)
	}
}

// client opens an AMQP connection with an independent client.
func (r *running) client(listener string, o *goamqp.ConnOptions) (*goamqp.Conn, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := goamqp.Dial(ctx, "amqp://"+r.Addr(listener).String(), o)
	if err == nil {
		r.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

const listenerL = "listener {\n host: 127.0.0.1\n port: 0\n name: l\n}\n"

// CFG A26, L1, L2, G14.
func TestStartLines(t *testing.T) {
	r := start(t, section("router", "id: R1", "workerThreads: 3")+listenerL+
		section("address", "prefix: a", "distribution: closest"))
	for _, text := range []string{
		"SERVER (info) Container Name: R1",
		"ROUTER (info) Router started in Standalone mode",
		"ROUTER (info) Version: test",
		"AGENT (info) Activating management agent on $_management_internal",
		"POLICY (info) Policy configured maxConnections: 65535, policyDir: '',access rules enabled: 'false', use hostname patterns: 'false'",
		"POLICY (info) Policy fallback defaultVhost is defined: '$default'",
		"CONN_MGR (info) Configured Listener: 127.0.0.1:0 proto=any, role=normal",
		fmt.Sprintf("SERVER (notice) Operational, 3 Threads Running (process ID %d)", os.Getpid()),
		fmt.Sprintf("SERVER (notice) Listening on %s (l)", r.Addr("l")),
	} {
		r.logged(text)
	}
	if got := r.router.AddressConfigs(); len(got) != 1 || got[0].Prefix != "a" || got[0].Name != "address/0" {
		t.Errorf("address configurations %+v", got)
	}
	r.end()
	r.logged("SERVER (notice) Shut Down")
}

// CFG A28: peers are told.
func TestShutdownClosesConnections(t *testing.T) {
	r := start(t, listenerL)
	nc := r.dialTo("l")
	open(t, nc)
	if o, ok := readFrame(t, nc).(*amqp.Open); !ok || o.ContainerID == "" {
		t.Fatalf("got %+v, want an open", o)
	}
	r.stop()
	c, ok := readFrame(t, nc).(*amqp.Close)
	if !ok || c.Error == nil || c.Error.Condition != amqp.ErrCondConnectionForced {
		t.Errorf("got %+v, want a close with amqp:connection:forced", c)
	}
}

// open sends an AMQP header and an open, and reads the header that answers.
func open(t *testing.T, nc net.Conn) {
	t.Helper()
	b := append([]byte(nil), amqp.HeaderAMQP[:]...)
	b = amqp.AppendFrame(b, amqp.FrameAMQP, 0, &amqp.Open{ContainerID: "test"})
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	var header amqp.ProtocolHeader
	if _, err := io.ReadFull(nc, header[:]); err != nil || header != amqp.HeaderAMQP {
		t.Fatalf("header %q, error %v", header, err)
	}
}

// readFrame reads one frame that is not empty.
func readFrame(t *testing.T, nc net.Conn) amqp.Performative {
	t.Helper()
	for {
		size := make([]byte, 8)
		if _, err := io.ReadFull(nc, size); err != nil {
			t.Fatal(err)
		}
		h, _, err := amqp.ParseFrameHeader(size, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, h.Size-8)
		if _, err := io.ReadFull(nc, body); err != nil {
			t.Fatal(err)
		}
		if len(body) == 0 {
			continue
		}
		decode := amqp.DecodePerformative
		if h.Type == amqp.FrameSASL {
			decode = amqp.DecodeSASL
		}
		p, _, err := decode(body)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// CFG L3, L4: the first listener of a file without connectors must bind; another
// is tried again.
func TestRequiredListener(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	conflict := section("listener", "host: 127.0.0.1", fmt.Sprintf("port: %d", port), "name: c")

	logs := quietly(t)
	srv, err := New(parse(t, conflict+listenerL), Options{Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Run(t.Context()); !errors.Is(err, errRequired) {
		t.Errorf("conflict on the only listener: %v", err)
	}
	srv, err = New(parse(t, section("connector", "port: 1")+conflict), Options{Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-srv.Ready(); cancel() }()
	if err := srv.Run(ctx); err != nil {
		t.Errorf("conflict, with a connector in the file: %v", err)
	}

	r := start(t, listenerL+conflict)
	r.logged(fmt.Sprintf("SERVER (error) Listener error on 127.0.0.1:%d: Address already in use - listen on 127.0.0.1:%d (proton:io)", port, port))
	taken.Close()
	// Creating any listener tries the others again too.
	if err := r.CreateListener(entityOf(t, "listener", map[string]any{"host": "127.0.0.1", "port": "0", "name": "new"})); err != nil {
		t.Fatal(err)
	}
	r.logged(fmt.Sprintf("SERVER (notice) Listening on 127.0.0.1:%d", port))
}

// CFG L7: listeners come and go while the router runs; connections outlive them.
func TestLiveListeners(t *testing.T) {
	r := start(t, listenerL)
	e := entityOf(t, "listener", map[string]any{"host": "127.0.0.1", "port": "0", "name": "live"})
	if err := r.CreateListener(e); err != nil {
		t.Fatal(err)
	}
	c, err := r.client("live", nil)
	if err != nil {
		t.Fatal(err)
	}
	addr := r.Addr("live").String()
	identity, _ := config.Identity(e, nil)
	if err := r.DeleteListener(identity); err != nil {
		t.Fatal(err)
	}
	if nc, err := net.Dial("tcp", addr); err == nil {
		nc.Close()
		t.Error("a deleted listener still takes connections")
	}
	if r.Addr("live") != nil {
		t.Error("a deleted listener has an address")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.NewSession(ctx, nil); err != nil {
		t.Errorf("its connection ended with the listener: %v", err)
	}
	if err := r.DeleteListener(identity); err == nil {
		t.Error("it can be deleted twice")
	}
}

// CFG L5: host forms.
func TestHostForms(t *testing.T) {
	if nc, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here")
	} else {
		nc.Close()
	}
	tests := []struct {
		host, family string
		v4, v6       bool
	}{
		{"", "", true, true},
		{"0.0.0.0", "", true, false},
		{"::", "", false, true},
		{"[::]", "", false, true},
		{"127.0.0.1", "", true, false},
		{"::1", "", false, true},
		{"", "IPv4", true, false},
		{"", "IPv6", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.host+" "+tt.family, func(t *testing.T) {
			sockets, err := bind(t.Context(), tt.host, "0", tt.family, false)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				for _, ln := range sockets {
					ln.Close()
				}
			}()
			port := numericAddr(sockets[0].Addr()).Port()
			reach := func(ip string) bool {
				nc, err := net.Dial("tcp", net.JoinHostPort(ip, fmt.Sprint(port)))
				if err == nil {
					nc.Close()
				}
				return err == nil
			}
			if v4, v6 := reach("127.0.0.1"), reach("::1"); v4 != tt.v4 || v6 != tt.v6 {
				t.Errorf("IPv4 %v, IPv6 %v, want %v, %v", v4, v6, tt.v4, tt.v6)
			}
		})
	}
	if _, err := bind(t.Context(), "127.0.0.1", "0", "IPv6", true); err == nil {
		t.Error("an IPv4 address was bound as IPv6")
	}
	if _, err := bind(t.Context(), "unresolvable.invalid", "0", "", true); err == nil {
		t.Error("an unknown host was bound")
	}
}

// CFG 3.2: service names, of which amqp and amqps are always known.
func TestLookupPort(t *testing.T) {
	tests := []struct {
		port string
		want uint16
		ok   bool
	}{
		{"amqp", 5672, true}, {"amqps", 5671, true}, {"0", 0, true}, {"65535", 65535, true},
		{"65536", 0, false}, {"-1", 0, false}, {"no-such-service", 0, false},
	}
	for _, tt := range tests {
		if got, err := lookupPort(tt.port); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %d, error %v, want %d, success %v", tt.port, got, err, tt.want, tt.ok)
		}
	}
}

// Nothing runs more open than its file says: what cannot be demanded is refused.
func TestRefusingListener(t *testing.T) {
	r := start(t, listenerL+section("sslProfile", "name: p")+
		section("listener", "host: 127.0.0.1", "port: 0", "name: tls", "sslProfile: p", "requireSsl: yes")+
		section("listener", "host: 127.0.0.1", "port: 0", "name: auth", "authenticatePeer: yes", "saslMechanisms: EXTERNAL"))
	for _, name := range []string{"tls", "auth"} {
		nc := r.dialTo(name)
		_, _ = nc.Write(amqp.HeaderAMQP[:]) // may already be cut
		wantEOF(t, nc)
		r.logged("Listener " + name + " refuses every connection: ")
	}
	r.logged("refused: TLS (sslProfile p)")
	if _, err := r.client("l", nil); err != nil {
		t.Errorf("the open listener: %v", err)
	}
}

// CFG P3, P25: maxConnections holds without vhost policy too.
func TestMaxConnections(t *testing.T) {
	r := start(t, listenerL+section("policy", "maxConnections: 1"))
	first, err := r.client("l", nil)
	if err != nil {
		t.Fatal(err)
	}
	nc := r.dialTo("l")
	wantEOF(t, nc)
	r.logged("POLICY (info) DENY Connection '127.0.0.1' based on global connection count. nConnections= 1")
	first.Close()
	eventually(t, "the place is free", func() bool {
		_, _, current := r.gate.counts()
		return current == 0
	})
	if _, err := r.client("l", nil); err != nil {
		t.Error(err)
	}
	processed, denied, _ := r.gate.counts()
	if processed != 3 || denied != 1 {
		t.Errorf("processed %d, denied %d, want 3, 1", processed, denied)
	}
}

// authenticating is a router whose listener l wants alice's password, secret.
func authenticating(t *testing.T) *running {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("users", "alice:secret\n")
	write("qdrouterd.conf", "mech_list: PLAIN ANONYMOUS\ncredentials_file: "+filepath.Join(dir, "users")+"\n")
	return start(t, section("router", "saslConfigDir: "+dir)+
		section("listener", "host: 127.0.0.1", "port: 0", "name: l", "authenticatePeer: yes"))
}

// CFG M11, M12: a connector shows its password to whoever offers PLAIN.
func TestConnectorAuthenticates(t *testing.T) {
	broker := authenticating(t)
	to := numericAddr(broker.Addr("l"))
	connector := func(name, password string) string {
		return section("connector", "host: "+to.Addr().String(), fmt.Sprintf("port: %d", to.Port()),
			"name: "+name, "saslUsername: alice", "saslPassword: "+password)
	}
	t.Setenv("QDROUTER_TEST_PASSWORD", "secret")
	r := start(t, listenerL+connector("good", "env:QDROUTER_TEST_PASSWORD")+connector("bad", "pass:wrong"))
	eventually(t, "the one with the right password is in", func() bool {
		return r.ConnectorStatus(r.connectors[0].identity).Status == statusSuccess
	})
	broker.logged("auth=PLAIN user=alice")
	r.logged(fmt.Sprintf("Connection to %s failed: amqp:unauthorized-access Authentication failed [mech=PLAIN]", to))
	r.logged("CONN_MGR (warning) It is unsafe to provide plain text passwords in the config file")
	eventually(t, "the other one tells why not", func() bool {
		st := r.ConnectorStatus(r.connectors[1].identity)
		return st.Status == statusConnecting && strings.Contains(st.Message, "Authentication failed [mech=PLAIN]") && st.Failures > 0 &&
			st.LastError == "amqp:unauthorized-access: Authentication failed [mech=PLAIN]"
	})
}

// CFG M3, M6, R4: with authenticatePeer a password is needed.
func TestAuthenticatingListener(t *testing.T) {
	r := authenticating(t)
	if _, err := r.client("l", &goamqp.ConnOptions{SASLType: goamqp.SASLTypePlain("alice", "secret")}); err != nil {
		t.Errorf("the right password: %v", err)
	}
	if _, err := r.client("l", &goamqp.ConnOptions{SASLType: goamqp.SASLTypePlain("alice", "wrong")}); err == nil {
		t.Error("a wrong password got in")
	}
	r.logged("(Failed to authenticate client [mech=PLAIN])")
	if _, err := r.client("l", &goamqp.ConnOptions{SASLType: goamqp.SASLTypeAnonymous()}); err == nil {
		t.Error("ANONYMOUS got in")
	}
	nc := r.dialTo("l")
	if _, err := nc.Write(amqp.HeaderAMQP[:]); err != nil {
		t.Fatal(err)
	}
	wantEOF(t, nc)
	r.logged("amqp:connection:policy-error Client skipped authentication - forbidden")
}

// CFG L13: a silent peer is cut without a word.
func TestHandshakeTimeout(t *testing.T) {
	r := start(t, section("listener", "host: 127.0.0.1", "port: 0", "name: l", "initialHandshakeTimeoutSeconds: 1"))
	nc := r.dialTo("l")
	wantEOF(t, nc)
	r.logged("ERROR (error) Run Time: Timeout waiting for initial handshake")
}

// A peer that a connector of the test connects to.
type peer struct {
	t  *testing.T
	ln net.Listener
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &peer{t, ln}
}

// attrs are the address for a connector.
func (p *peer) attrs() []string {
	a := numericAddr(p.ln.Addr())
	return []string{"host: " + a.Addr().String(), fmt.Sprintf("port: %d", a.Port())}
}

// accept takes a connection and sees it through SASL ANONYMOUS and both opens. It
// returns the router's open.
func (p *peer) accept(mine *amqp.Open) (net.Conn, *amqp.Open) {
	p.t.Helper()
	if err := p.ln.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	nc, err := p.ln.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	p.header(nc, amqp.HeaderSASL)
	p.send(nc, amqp.FrameSASL, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"EXTERNAL", "ANONYMOUS"}})
	init, ok := readFrame(p.t, nc).(*amqp.SASLInit)
	if !ok || init.Mechanism != "ANONYMOUS" || init.Hostname.Set || !strings.HasPrefix(string(init.InitialResponse.V), "anonymous@") {
		p.t.Errorf("sasl-init %+v (CFG M11)", init)
	}
	p.send(nc, amqp.FrameSASL, &amqp.SASLOutcome{Code: amqp.SASLCodeOK})
	p.header(nc, amqp.HeaderAMQP)
	o, ok := readFrame(p.t, nc).(*amqp.Open)
	if !ok {
		p.t.Fatal("no open from the router")
	}
	p.send(nc, amqp.FrameAMQP, mine)
	return nc, o
}

func (p *peer) header(nc net.Conn, want amqp.ProtocolHeader) {
	p.t.Helper()
	var got amqp.ProtocolHeader
	if _, err := io.ReadFull(nc, got[:]); err != nil || got != want {
		p.t.Fatalf("header %q, error %v, want %q", got, err, want)
	}
	if _, err := nc.Write(want[:]); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(nc net.Conn, kind uint8, m amqp.Performative) {
	p.t.Helper()
	if _, err := nc.Write(amqp.AppendFrame(nil, kind, 0, m)); err != nil {
		p.t.Fatal(err)
	}
}

// CFG L7, L8, 3.3: a connector connects, shows how it is, and closes its
// connection in good order when it is deleted.
func TestConnector(t *testing.T) {
	p := newPeer(t)
	r := start(t, listenerL+section("connector", append(p.attrs(), "name: c")...))
	identity := r.connectors[0].identity
	nc, o := p.accept(&amqp.Open{ContainerID: "peer"})
	if o.Hostname.V != "127.0.0.1" {
		t.Errorf("our open has hostname %q, want the connector's host", o.Hostname.V)
	}
	eventually(t, "SUCCESS", func() bool {
		st := r.ConnectorStatus(identity)
		return st.Status == statusSuccess && strings.Contains(st.Message, "Connection Opened: dir=out") && st.FailoverURLs == "amqp://"+p.ln.Addr().String()
	})
	if err := r.DeleteConnector(identity); err != nil {
		t.Fatal(err)
	}
	if c, ok := readFrame(t, nc).(*amqp.Close); !ok || c.Error != nil {
		t.Errorf("got %v, want a close without error", c)
	}
	p.send(nc, amqp.FrameAMQP, &amqp.Close{})
	wantEOF(t, nc)
	if err := r.DeleteConnector(identity); err == nil {
		t.Error("it can be deleted twice")
	}
}

// CFG L14, L15: a lost connection is made anew, at the place the peer named.
func TestConnectorFollowsFailoverList(t *testing.T) {
	first, second := newPeer(t), newPeer(t)
	r := start(t, listenerL)
	a := numericAddr(first.ln.Addr())
	e := entityOf(t, "connector", map[string]any{"host": a.Addr().String(), "port": fmt.Sprint(a.Port())})
	if err := r.CreateConnector(e); err != nil {
		t.Fatal(err)
	}
	b := numericAddr(second.ln.Addr())
	list := amqp.List{amqp.Map{
		{Key: amqp.Symbol(keyNetworkHost), Value: b.Addr().String()},
		{Key: amqp.Symbol(keyPort), Value: fmt.Sprint(b.Port())},
	}}
	nc, _ := first.accept(openWith(list))
	identity, _ := config.Identity(e, nil)
	eventually(t, "both targets are known", func() bool {
		return r.ConnectorStatus(identity).FailoverURLs == "amqp://"+a.String()+", amqp://"+b.String()
	})
	first.ln.Close()
	nc.Close()
	second.accept(&amqp.Open{ContainerID: "second"})
	eventually(t, "connected to the second", func() bool {
		st := r.ConnectorStatus(identity)
		return st.Status == statusSuccess && strings.Contains(st.Message, "container_id=second") &&
			st.FailoverURLs == "amqp://"+b.String()+", amqp://"+a.String()
	})
	r.logged("SERVER (info) [C2] Connection to " + a.String() + " failed: proton:io Connection refused - disconnected " + a.String())
}

// CFG A25: nothing is bound and nobody connected to before Run.
func TestNewTouchesNoNetwork(t *testing.T) {
	p := newPeer(t)
	srv, err := New(parse(t, listenerL+section("connector", p.attrs()...)), Options{Logs: quietly(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if srv.Addr("l") != nil {
		t.Error("the listener is bound")
	}
	if st := srv.ConnectorStatus(srv.connectors[0].identity); st.Status != statusInitializing {
		t.Errorf("the connector is %s", st.Status)
	}
}

// What start-up refuses, with the reason of CFG A19.
func TestNewRefuses(t *testing.T) {
	tests := []struct{ name, conf, want string }{
		{"policy", section("policy", "enableVhostPolicy: yes"), "Python: PolicyError: enableVhostPolicy"},
		{"password", section("connector", "saslUsername: u", "saslPassword: env:QDROUTER_NO_SUCH_VARIABLE"), "Python: CError: "},
		{"log file", section("log", "module: SERVER", "outputFile: /nonexistent/dir/log"), "Python: CError: "},
	}
	for _, tt := range tests {
		srv, err := New(parse(t, tt.conf), Options{Logs: quietly(t)})
		if err == nil {
			srv.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q…", tt.name, err, tt.want)
		}
		if tt.name != "log file" {
			if _, err := Check(parse(t, tt.conf), Options{}); err == nil {
				t.Errorf("%s: Check finds nothing wrong", tt.name)
			}
		}
	}
	srv, err := New(parse(t, section("policy", "enableVhostPolicy: yes")), Options{Logs: quietly(t), InsecureIgnorePolicy: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Close()
}
