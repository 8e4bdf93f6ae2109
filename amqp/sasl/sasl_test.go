package sasl

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"qdrouter/amqp"
)

// verifyAlice knows one user.
func verifyAlice(user, password string) error {
	if user != "alice@example.com" || password != "secret" {
		return errors.New("no such user or wrong password")
	}
	return nil
}

// body is the body of a SASL frame that carries p.
func body(p amqp.Performative) []byte { return p.Append(nil) }

// frames are the bodies of the frames in b.
func frames(t *testing.T, b []byte) []amqp.Performative {
	t.Helper()
	var ps []amqp.Performative
	for len(b) > 0 {
		h, ok, err := amqp.ParseFrameHeader(b, 512) // part 5 §5.3.1: 512 is all a SASL frame may need
		if !ok || err != nil {
			t.Fatalf("answer is not whole frames: ok=%v err=%v in %x", ok, err, b)
		}
		if h.Type != amqp.FrameSASL || h.Channel != 0 {
			t.Fatalf("answer has frame type %d channel %d, want 1 and 0", h.Type, h.Channel)
		}
		p, _, err := amqp.DecodeSASL(b[4*int(h.DataOffset) : h.Size])
		if err != nil {
			t.Fatalf("answer does not decode: %v in %x", err, b)
		}
		ps = append(ps, p)
		b = b[h.Size:]
	}
	return ps
}

func condition(err error) amqp.Symbol {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e.Condition
	}
	return ""
}

func anonymousAndPlain() Offer { return Offer{OfferPlain(verifyAlice), OfferAnonymous()} }

// CFG M2: the list is an array, also for one mechanism or none.
func TestMechanismsAreAlwaysAnArray(t *testing.T) {
	tests := []struct {
		name  string
		offer Offer
		want  string
	}{
		{"two", anonymousAndPlain(), "PLAIN ANONYMOUS"},
		{"one", Offer{OfferAnonymous()}, "ANONYMOUS"},
		{"none", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := NewServer(tt.offer).Start(nil)
			ps := frames(t, out)
			if len(ps) != 1 {
				t.Fatalf("got %d frames, want 1", len(ps))
			}
			var got []string
			for _, m := range ps[0].(*amqp.SASLMechanisms).Mechanisms {
				got = append(got, string(m))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("offered %q, want %q", got, tt.want)
			}
			if !bytes.ContainsAny(out[8:], "\xe0\xf0") { // array8, array32
				t.Errorf("no array in %x", out)
			}
		})
	}
}

func TestServer(t *testing.T) {
	init := func(mech string, response ...string) amqp.Performative {
		p := &amqp.SASLInit{Mechanism: amqp.Symbol(mech)}
		if len(response) > 0 {
			p.InitialResponse = amqp.Some([]byte(response[0]))
		}
		return p
	}
	response := func(s string) amqp.Performative { return &amqp.SASLResponse{Response: []byte(s)} }
	const good = "\x00alice@example.com\x00secret"
	type P = []amqp.Performative
	tests := []struct {
		name   string
		client P
		answer string // of each frame: "challenge", "0" or "1" for an outcome, "cut" for none
		user   string
		mech   string
	}{
		// CFG M5
		{"anonymous", P{init("ANONYMOUS", "me@here")}, "0", "anonymous", "ANONYMOUS"},
		{"anonymous without response", P{init("ANONYMOUS")}, "0", "anonymous", "ANONYMOUS"},
		// CFG M4: without regard to case, reported as written
		{"case of the name", P{init("Anonymous")}, "0", "anonymous", "Anonymous"},
		{"not offered", P{init("SCRAM-SHA-256", "n,,n=u,r=1")}, "1", "", "SCRAM-SHA-256"},
		{"no name", P{init("")}, "1", "", ""},
		// CFG M6, M7
		{"plain", P{init("PLAIN", good)}, "0", "alice@example.com", "PLAIN"},
		{"plain, authzid ignored", P{init("PLAIN", "root"+good)}, "0", "alice@example.com", "PLAIN"},
		{"plain after a challenge", P{init("PLAIN"), response(good)}, "challenge 0", "alice@example.com", "PLAIN"},
		{"plain, empty response is a response", P{init("PLAIN", "")}, "1", "", "PLAIN"},
		{"plain, second empty response", P{init("PLAIN"), response("")}, "challenge 1", "", "PLAIN"},
		{"plain, one field missing", P{init("PLAIN", "alice@example.com\x00secret")}, "1", "", "PLAIN"},
		{"plain, one field too many", P{init("PLAIN", good+"\x00")}, "1", "", "PLAIN"},
		{"plain, no user", P{init("PLAIN", "\x00\x00secret")}, "1", "", "PLAIN"},
		{"plain, wrong password", P{init("PLAIN", "\x00alice@example.com\x00Secret")}, "1", "", "PLAIN"},
		{"plain, unknown user", P{init("PLAIN", "\x00bob\x00secret")}, "1", "", "PLAIN"},
		// CFG M19, M18
		{"response before init", P{response(good)}, "cut", "", ""},
		{"second init", P{init("PLAIN"), init("PLAIN", good)}, "challenge cut", "", "PLAIN"},
		{"init after success", P{init("ANONYMOUS"), init("ANONYMOUS")}, "0 cut", "anonymous", "ANONYMOUS"},
		{"init after failure", P{init("PLAIN", "x"), init("PLAIN", good)}, "1 cut", "", "PLAIN"},
		{"response after failure", P{init("PLAIN", "x"), response(good)}, "1 cut", "", "PLAIN"},
		{"mechanisms from a client", P{&amqp.SASLMechanisms{}}, "cut", "", ""},
		{"challenge from a client", P{&amqp.SASLChallenge{Challenge: []byte{}}}, "cut", "", ""},
		{"outcome from a client", P{&amqp.SASLOutcome{}}, "cut", "", ""},
		{"open in the SASL phase", P{&amqp.Open{ContainerID: "x"}}, "cut", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewServer(anonymousAndPlain())
			var answer []string
			var finished bool
			for _, p := range tt.client {
				out, done, err := s.Frame(body(p), nil)
				finished = finished || done
				got := frames(t, out)
				if len(got) == 0 {
					if condition(err) != amqp.ErrCondFramingError || done {
						t.Errorf("cut with done=%v, error %v, want a framing error", done, err)
					}
					answer = append(answer, "cut")
					continue
				}
				switch p := got[0].(type) {
				case *amqp.SASLChallenge:
					if err != nil || done || len(p.Challenge) != 0 {
						t.Errorf("challenge %q with done=%v err=%v", p.Challenge, done, err)
					}
					answer = append(answer, "challenge")
				case *amqp.SASLOutcome:
					answer = append(answer, string('0'+rune(p.Code)))
					if ok := p.Code == 0; ok != done || ok != (err == nil) {
						t.Errorf("outcome %d with done=%v err=%v", p.Code, done, err)
					}
					if err != nil && condition(err) != amqp.ErrCondUnauthorizedAccess {
						t.Errorf("failure is %v, want amqp:unauthorized-access", err)
					}
				}
			}
			if got := strings.Join(answer, " "); got != tt.answer {
				t.Errorf("answered %q, want %q", got, tt.answer)
			}
			if got := s.User(); got != tt.user {
				t.Errorf("user %q, want %q", got, tt.user)
			}
			if got := s.Mechanism(); got != tt.mech {
				t.Errorf("mechanism %q, want %q", got, tt.mech)
			}
			if (tt.user != "") != finished {
				t.Errorf("done was said: %v, user %q", finished, tt.user)
			}
		})
	}
}

// CFG M18: what is no single SASL performative cuts the connection.
func TestServerCutsOnWhatIsNoSASLFrame(t *testing.T) {
	good := body(&amqp.SASLInit{Mechanism: "ANONYMOUS"})
	bodies := map[string][]byte{
		"empty frame":      {},
		"trailing octets":  append(bytes.Clone(good), 0x40),
		"no described one": {0x40},
		"unknown one":      {0x00, 0x53, 0x4f, 0x45},
	}
	for i := range good {
		bodies["cut at "+string(rune('0'+i%10))+strings.Repeat("+", i/10)] = good[:i]
	}
	for name, b := range bodies {
		s := NewServer(anonymousAndPlain())
		out, done, err := s.Frame(b, nil)
		if len(out) != 0 || done || condition(err) != amqp.ErrCondFramingError {
			t.Errorf("%s: Frame(%x) = %x, %v, %v, want nothing and a framing error", name, b, out, done, err)
		}
	}
}

// CFG M17: the log line ends in the mechanism, whatever the client called it.
func TestFailureTextNamesTheMechanism(t *testing.T) {
	tests := []struct{ mech, want string }{
		{"PLAIN", "malformed PLAIN response (Failed to authenticate client [mech=PLAIN])"},
		{"X\n\x1b[31m", "mechanism not offered (Failed to authenticate client [mech=X??[31m])"},
		{strings.Repeat("A", 300), "mechanism not offered (Failed to authenticate client [mech=" + strings.Repeat("A", 20) + "...])"},
	}
	for _, tt := range tests {
		init := &amqp.SASLInit{Mechanism: amqp.Symbol(tt.mech), InitialResponse: amqp.Some([]byte("x"))}
		_, _, err := NewServer(anonymousAndPlain()).Frame(body(init), nil)
		var e *amqp.Error
		if !errors.As(err, &e) || e.Description != tt.want {
			t.Errorf("mechanism %q: error %v, want description %q", tt.mech, err, tt.want)
		}
	}
}

func TestFrameKeepsWhatIsInTheBuffer(t *testing.T) {
	out := []byte("before")
	out = NewServer(anonymousAndPlain()).Start(out)
	if !bytes.HasPrefix(out, []byte("before")) || len(frames(t, out[6:])) != 1 {
		t.Errorf("Start overwrote the buffer: %q", out)
	}
}

// CFG M11, M12, M13 and FC U06.
func TestClient(t *testing.T) {
	plain := PlainClient("alice@example.com", "secret")
	anon := AnonymousClient("anonymous@here")
	offer := func(names ...amqp.Symbol) amqp.Performative { return &amqp.SASLMechanisms{Mechanisms: names} }
	type P = []amqp.Performative
	tests := []struct {
		name   string
		usable []ClientMechanism
		server P
		init   string // mechanism and initial response of our sasl-init
		done   bool
		err    string // description; "cut" for a framing error
	}{
		{"plain before anonymous", []ClientMechanism{plain, anon}, P{offer("ANONYMOUS", "PLAIN"), &amqp.SASLOutcome{}},
			"PLAIN \x00alice@example.com\x00secret", true, ""},
		{"without regard to case", []ClientMechanism{plain}, P{offer("plain"), &amqp.SASLOutcome{}},
			"PLAIN \x00alice@example.com\x00secret", true, ""},
		{"anonymous is left", []ClientMechanism{plain, anon}, P{offer("EXTERNAL", "ANONYMOUS"), &amqp.SASLOutcome{}},
			"ANONYMOUS anonymous@here", true, ""},
		{"nothing in common", []ClientMechanism{plain, anon}, P{offer("EXTERNAL")}, "", false, "Authentication failed [mech=none]"},
		{"empty offer", []ClientMechanism{anon}, P{offer()}, "", false, "Authentication failed [mech=none]"},
		{"refused", []ClientMechanism{plain}, P{offer("PLAIN"), &amqp.SASLOutcome{Code: 1}},
			"PLAIN \x00alice@example.com\x00secret", false, "Authentication failed [mech=PLAIN]"},
		{"trouble at the server", []ClientMechanism{anon}, P{offer("ANONYMOUS"), &amqp.SASLOutcome{Code: 4}},
			"ANONYMOUS anonymous@here", false, "Authentication failed [mech=ANONYMOUS]"},
		{"challenged", []ClientMechanism{plain}, P{offer("PLAIN"), &amqp.SASLChallenge{Challenge: []byte("?")}},
			"PLAIN \x00alice@example.com\x00secret", false, "Authentication failed [mech=PLAIN]"},
		{"outcome first", []ClientMechanism{anon}, P{&amqp.SASLOutcome{}}, "", false, "cut"},
		{"challenge first", []ClientMechanism{anon}, P{&amqp.SASLChallenge{Challenge: []byte{}}}, "", false, "cut"},
		{"second offer", []ClientMechanism{anon}, P{offer("ANONYMOUS"), offer("ANONYMOUS")}, "ANONYMOUS anonymous@here", false, "cut"},
		{"init from a server", []ClientMechanism{anon}, P{&amqp.SASLInit{Mechanism: "PLAIN"}}, "", false, "cut"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewClient(tt.usable)
			var init string
			var done bool
			var err error
			for _, p := range tt.server {
				var out []byte
				out, done, err = c.Frame(body(p), nil)
				for _, p := range frames(t, out) {
					i, ok := p.(*amqp.SASLInit)
					if !ok {
						t.Fatalf("client sent %T", p)
					}
					if i.Hostname.Set {
						t.Errorf("sasl-init carries hostname %q, want none (CFG M11)", i.Hostname.V)
					}
					init = string(i.Mechanism) + " " + string(i.InitialResponse.V)
				}
			}
			if init != tt.init || done != tt.done {
				t.Errorf("sent %q, done %v, want %q, %v", init, done, tt.init, tt.done)
			}
			var e *amqp.Error
			errors.As(err, &e)
			switch {
			case tt.err == "" && err != nil:
				t.Errorf("error %v", err)
			case tt.err == "cut" && condition(err) != amqp.ErrCondFramingError:
				t.Errorf("error %v, want a framing error", err)
			case tt.err != "" && tt.err != "cut" && (e == nil || e.Description != tt.err || e.Condition != amqp.ErrCondUnauthorizedAccess):
				t.Errorf("error %v, want amqp:unauthorized-access %q", err, tt.err)
			}
		})
	}
}

// Both ends of this package understand each other.
func TestClientMeetsServer(t *testing.T) {
	for _, m := range []ClientMechanism{PlainClient("alice@example.com", "secret"), AnonymousClient("")} {
		s, c := NewServer(anonymousAndPlain()), NewClient([]ClientMechanism{m})
		toClient := s.Start(nil)
		var serverDone, clientDone bool
		for range 4 {
			var toServer []byte
			var err error
			for _, p := range frames(t, toClient) {
				if toServer, clientDone, err = c.Frame(body(p), toServer); err != nil {
					t.Fatal(err)
				}
			}
			toClient = nil
			for _, p := range frames(t, toServer) {
				if toClient, serverDone, err = s.Frame(body(p), toClient); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !serverDone || !clientDone || s.Mechanism() != c.Mechanism() {
			t.Errorf("%s: server done %v as %q, client done %v as %q", m.Name(), serverDone, s.Mechanism(), clientDone, c.Mechanism())
		}
	}
}

// No input panics, nobody gets in without the password or ANONYMOUS, and what
// is appended is whole frames.
func FuzzSASLServer(f *testing.F) {
	add := func(ps ...amqp.Performative) {
		var b []byte
		for _, p := range ps {
			x := body(p)
			b = append(append(b, byte(len(x)>>8), byte(len(x))), x...)
		}
		f.Add(b)
	}
	add(&amqp.SASLInit{Mechanism: "ANONYMOUS"})
	add(&amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: amqp.Some([]byte("\x00bob\x00secret")), Hostname: amqp.Some("h")})
	add(&amqp.SASLInit{Mechanism: "PLAIN"}, &amqp.SASLResponse{Response: []byte("\x00alice@example.com\x00secret")})
	add(&amqp.SASLResponse{Response: []byte{}}, &amqp.SASLInit{Mechanism: "PLAIN"})
	add(&amqp.SASLOutcome{}, &amqp.SASLMechanisms{}, &amqp.Open{ContainerID: "x"})
	f.Fuzz(func(t *testing.T, script []byte) {
		s := NewServer(anonymousAndPlain())
		for len(script) >= 2 { // a two-octet length before each body
			n := min(int(script[0])<<8|int(script[1]), len(script)-2)
			var out []byte
			var done bool
			out, done, err := s.Frame(script[2:2+n], out)
			script = script[2+n:]
			frames(t, out)
			if done && (err != nil || s.User() != AnonymousUser && s.User() != "alice@example.com") {
				t.Fatalf("done as %q with error %v", s.User(), err)
			}
			if err != nil && s.User() != "" && !done {
				return // cut after success: the user stays known to the log
			}
			if err != nil {
				if s.User() != "" {
					t.Fatalf("user %q after %v", s.User(), err)
				}
				return
			}
		}
	})
}
