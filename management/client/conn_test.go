package client

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
)

// long is a limit that no step of a test reaches; short is one that a step is
// meant to reach.
const (
	long  = time.Minute
	short = 50 * time.Millisecond
)

func dial(t *testing.T, opts Options) *Conn {
	t.Helper()
	conn, err := Dial(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestRepliesKeepTheOrderOfMaps(t *testing.T) {
	body := amqp.Map{}
	want := Map{}
	for i := range 50 {
		key := fmt.Sprint("key", 49-i)
		body = append(body, amqp.MapEntry{Key: key, Value: uint32(i)})
		want = append(want, Entry{key, int64(i)})
	}
	p := startPeer(t, &peer{body: body})
	conn := dial(t, Options{URL: p.url(SchemeAMQP), Timeout: long})
	for range 3 { // requests over three pairs of links
		agent, err := conn.Open(context.Background(), "$management")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := agent.Read(context.Background(), Selector{Name: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("body %v, want %v", got, want)
			}
		}
	}
}

func TestOpenNamesHostAndContainer(t *testing.T) {
	p := startPeer(t, &peer{})
	dial(t, Options{URL: p.url(SchemeAMQP), Timeout: long})
	open := <-p.opens
	if open.Hostname.V != "127.0.0.1" {
		t.Errorf("hostname %q, want that of the URL", open.Hostname.V)
	}
	// Tables have the widths of those of the old tools only if the names in
	// them have.
	if !regexp.MustCompile(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`).MatchString(open.ContainerID) {
		t.Errorf("container-id %q is no UUID", open.ContainerID)
	}
}

// MG 11.5: class and text of what can go wrong under way.
func TestFailuresOnTheWay(t *testing.T) {
	for _, tt := range []struct {
		address string
		timeout time.Duration
		want    string // URL and UUIDs replaced
	}{
		{"refused", long, "LinkDetached: sender UUID-refused to refused closed due to: Condition('amqp:not-found', 'no such node')"},
		{"nocredit", short, "Timeout: Connection URL timed out: Sending on sender UUID-nocredit"},
		// On a very busy machine it is the sending that takes too long.
		{"silent", short, "Timeout: Connection URL timed out: "},
		{"reject", long, "SendException: REJECTED: Condition('amqp:decode-error', 'junk')"},
		{"release", long, "SendException: RELEASED"},
		{"hangup", long, "ConnectionException: Connection URL disconnected: EOF"},
		{"forced", long, "ConnectionClosed: Connection 127.0.0.1 closed due to: Condition('amqp:connection:forced', 'shutdown')"},
	} {
		t.Run(tt.address, func(t *testing.T) {
			p := startPeer(t, &peer{})
			conn := dial(t, Options{URL: p.url(SchemeAMQP), Timeout: long})
			agent, err := conn.Open(context.Background(), tt.address)
			if err == nil {
				conn.opts.Timeout = tt.timeout
				_, err = agent.Read(context.Background(), Selector{Name: "x"})
			}
			if err == nil {
				t.Fatal("no error")
			}
			got := Class(err) + ": " + err.Error()
			got = strings.ReplaceAll(got, p.url(SchemeAMQP).String(), "URL")
			got = strings.ReplaceAll(got, conn.containerID, "UUID")
			if got != tt.want && (tt.timeout != short || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDialFailures(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		listener.Close()
		u := URL{Scheme: SchemeAMQP, Host: "127.0.0.1", Port: port}
		_, err = Dial(context.Background(), Options{URL: u, Timeout: long})
		wantError(t, err, "ConnectionException", "Connection "+u.String()+" disconnected: ", "connection refused")
	})
	t.Run("nobody answers", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close() // connections wait in its queue
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		for _, opts := range []Options{
			{URL: URL{Scheme: SchemeAMQP, Host: "127.0.0.1", Port: port}},
			{URL: URL{Scheme: SchemeAMQP, Host: "127.0.0.1", Port: port}, User: "u"},
			{URL: URL{Scheme: SchemeAMQPS, Host: "127.0.0.1", Port: port}},
		} {
			opts.Timeout = short
			_, err = Dial(context.Background(), opts)
			wantError(t, err, "Timeout", "Connection "+opts.URL.String()+" timed out: Opening connection")
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		p := startPeer(t, &peer{})
		conn := dial(t, Options{URL: p.url(SchemeAMQP), Timeout: long})
		agent, err := conn.Open(context.Background(), "silent")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := agent.Read(ctx, Selector{}); err != context.Canceled {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
}

func wantError(t *testing.T, err error, class string, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s: %q", class, parts)
	}
	if Class(err) != class {
		t.Errorf("error %v of class %s, want %s", err, Class(err), class)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want it to contain %q", err, part)
		}
	}
}

// MG 11.2: without TLS, mechanisms or credentials there is no SASL layer.
func TestSASL(t *testing.T) {
	var user string
	verify := func(name, password string) error {
		user = name
		if password != "right" {
			return fmt.Errorf("wrong password")
		}
		return nil
	}
	anonymous, plain := sasl.OfferAnonymous(), sasl.OfferPlain(verify)
	const refused = "disconnected: Condition('amqp:unauthorized-access', 'Authentication failed [mech="
	for _, tt := range []struct {
		name  string
		opts  Options
		offer sasl.Offer
		user  string // as the router's PLAIN sees it
		fails string
	}{
		{"none", Options{}, nil, "", ""},
		{"ANONYMOUS named", Options{Mechanisms: []string{"ANONYMOUS"}}, sasl.Offer{plain, anonymous}, "", ""},
		{"a user means PLAIN, whatever the order of the offer", Options{User: "u", Password: "right"}, sasl.Offer{anonymous, plain}, "u", ""},
		{"names of mechanisms in any case", Options{Mechanisms: []string{"plain"}, User: "u", Password: "right"}, sasl.Offer{plain}, "u", ""},
		{"wrong password", Options{User: "u", Password: "wrong"}, sasl.Offer{plain}, "u", refused + "PLAIN]')"},
		{"PLAIN not offered", Options{Mechanisms: []string{"PLAIN"}, User: "u"}, sasl.Offer{anonymous}, "", refused + "none]')"},
		{"PLAIN without a user", Options{Mechanisms: []string{"PLAIN"}}, sasl.Offer{plain}, "", refused + "none]')"},
		{"EXTERNAL without TLS", Options{Mechanisms: []string{"EXTERNAL"}}, sasl.Offer{anonymous}, "", refused + "none]')"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			user = ""
			p := startPeer(t, &peer{offer: tt.offer})
			tt.opts.URL, tt.opts.Timeout = p.url(SchemeAMQP), long
			conn, err := Dial(context.Background(), tt.opts)
			if err == nil {
				conn.Close()
			}
			p.listener.Close()
			switch {
			case tt.fails != "":
				wantError(t, err, "ConnectionException", tt.fails)
			case err != nil:
				t.Fatal(err)
			}
			if user != tt.user {
				t.Errorf("PLAIN user %q, want %q", user, tt.user)
			}
		})
	}
}

// A router that knows no SASL answers with its own header.
func TestSASLRefused(t *testing.T) {
	p := startPeer(t, &peer{})
	_, err := Dial(context.Background(), Options{URL: p.url(SchemeAMQP), Timeout: long, User: "u"})
	wantError(t, err, "ConnectionException", `unexpected protocol header "AMQP\x00\x01\x00\x00"`)
}
