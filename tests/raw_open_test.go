package tests

import (
	"context"
	"fmt"
	"math"
	"net"
	"reflect"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
	"qdrouter/router"
	"qdrouter/transport"
)

// openTerms are what every open of the router says of itself (RT 1.1, CFG L8).
var openTerms = amqp.AppendValue(nil, []amqp.Symbol{"ANONYMOUS-RELAY", "qd.streaming-links"})

// RT 1.1, E2: the router's open, field by field.
func TestE2Open(t *testing.T) {
	tests := []struct {
		name   string
		change func(*router.ConnOptions)
		want   amqp.Open
		props  amqp.Map // behind the three that are always there
	}{
		{"defaults", func(*router.ConnOptions) {},
			amqp.Open{MaxFrameSize: amqp.Some(uint32(16384)), ChannelMax: amqp.Some(uint16(32767))}, nil},
		{"limits", func(o *router.ConnOptions) {
			o.MaxFrameSize, o.MaxSessions, o.IdleTimeout = 100, 10, 30*time.Second
		}, amqp.Open{MaxFrameSize: amqp.Some(uint32(512)), ChannelMax: amqp.Some(uint16(9)), IdleTimeout: amqp.Some(uint32(15000))}, nil},
		{"a time-out too long to tell", func(o *router.ConnOptions) { o.IdleTimeout = 100 * 24 * time.Hour },
			amqp.Open{MaxFrameSize: amqp.Some(uint32(16384)), ChannelMax: amqp.Some(uint16(32767)), IdleTimeout: amqp.Some(uint32(math.MaxUint32))}, nil},
		{"no limit of sessions", func(o *router.ConnOptions) { o.MaxSessions = 0 },
			amqp.Open{MaxFrameSize: amqp.Some(uint32(16384)), ChannelMax: amqp.Some(uint16(32767))}, nil},
		{"all properties", func(o *router.ConnOptions) {
			o.Cost = 7
			o.Failover = amqp.List{amqp.Map{entry("network-host", "other"), entry("port", "5673")}}
			o.OpenProperties = amqp.Map{entry("mine", int32(1)), entry("also", "x")}
		}, amqp.Open{MaxFrameSize: amqp.Some(uint32(16384)), ChannelMax: amqp.Some(uint16(32767))},
			amqp.Map{entry("qd.inter-router-cost", int32(7)),
				entry("failover-server-list", amqp.List{amqp.Map{entry("network-host", "other"), entry("port", "5673")}}),
				entry("mine", int32(1)), entry("also", "x")}},
		{"a cost of 1", func(o *router.ConnOptions) { o.Cost = 1 },
			amqp.Open{MaxFrameSize: amqp.Some(uint32(16384)), ChannelMax: amqp.Some(uint16(32767))}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRouter(t, withConn(tt.change))
			p := r.dial(t)
			got := p.open()
			want := tt.want
			want.ContainerID, want.OfferedCapabilities, want.DesiredCapabilities = "R", openTerms, openTerms
			props, err := got.Properties.Value()
			if err != nil {
				t.Fatal(err)
			}
			wantProps := append(amqp.Map{entry("product", "qpid-dispatch-router"), entry("version", "test"), entry("qd.conn-id", int32(1))}, tt.props...)
			if !reflect.DeepEqual(props, wantProps) {
				t.Errorf("properties %v, want %v", props, wantProps)
			}
			got.Properties = nil
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("open %+v, want %+v", *got, want)
			}
			p.close()
		})
	}
}

// RT E1: what a peer offers is no error, whatever its type.
func TestE1PeerCapabilities(t *testing.T) {
	for name, offered := range map[string]amqp.Raw{
		"null":              nil,
		"one symbol":        amqp.AppendValue(nil, amqp.Symbol("a")),
		"symbols":           amqp.AppendValue(nil, []amqp.Symbol{"a", "qd.streaming-links"}),
		"an empty array":    amqp.AppendValue(nil, amqp.Array{Code: 0xa3}),
		"an array of uints": amqp.AppendValue(nil, amqp.Array{Items: []any{uint32(1), uint32(2)}}),
	} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t)
			p := r.dial(t)
			p.openWith(&amqp.Open{ContainerID: "raw", OfferedCapabilities: offered})
			p.begin(0)
			p.close()
		})
	}
}

// RT E9: the router's begin, as an answer.
func TestE9Begin(t *testing.T) {
	for frames, window := range map[uint32]uint32{0: 2147483647, 10: 10} {
		t.Run(fmt.Sprint("maxSessionFrames ", frames), func(t *testing.T) {
			r := startRouter(t, withConn(func(o *router.ConnOptions) { o.MaxSessionFrames = frames }))
			p := r.open(t)
			for _, channel := range []uint16{5, 0, 32767} {
				got := p.begin(channel)
				want := &amqp.Begin{RemoteChannel: amqp.Some(channel), IncomingWindow: window, OutgoingWindow: 2147483647}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("begin %+v, want %+v", got, want)
				}
			}
			p.close()
		})
	}
}

// saslFrame sends a SASL frame.
func (p *rawPeer) saslFrame(x amqp.Performative) {
	p.write(amqp.AppendFrame(nil, amqp.FrameSASL, 0, x))
}

// CFG 5.1, M1 to M6: SASL on the listening side, and what is open after it.
func TestM3SASL(t *testing.T) {
	tests := []struct {
		name      string
		auth      bool // PLAIN instead of ANONYMOUS
		mechanism amqp.Symbol
		response  []byte // nil is absent
		later     []byte // answer to an empty challenge
		code      uint8
		user      string
	}{
		{"anonymous", false, "ANONYMOUS", nil, nil, 0, "anonymous"},
		{"anonymous, with a trace", false, "anonymous", []byte("me@here"), nil, 0, "anonymous"},
		{"not offered", false, "PLAIN", []byte("\x00u\x00secret"), nil, 1, ""},
		{"anonymous where it is not offered", true, "ANONYMOUS", nil, nil, 1, ""},
		{"plain", true, "PLAIN", []byte("\x00alice@domain.com\x00secret"), nil, 0, "alice@domain.com"},
		{"plain, lower case, with an authzid", true, "plain", []byte("root\x00bob\x00secret"), nil, 0, "bob"},
		{"plain, challenged", true, "PLAIN", nil, []byte("\x00bob\x00secret"), 0, "bob"},
		{"wrong password", true, "PLAIN", []byte("\x00bob\x00guess"), nil, 1, ""},
		{"wrong password, challenged", true, "PLAIN", nil, []byte("\x00bob\x00guess"), 1, ""},
		{"malformed", true, "PLAIN", []byte("bob"), nil, 1, ""},
		{"nothing", true, "PLAIN", nil, []byte{}, 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRouter(t, func(c *rawConfig) { c.auth = tt.auth })
			p := r.dial(t)
			p.sasl = true
			p.write(amqp.HeaderSASL[:])
			p.header(amqp.HeaderSASL)
			offer := []amqp.Symbol{"ANONYMOUS"}
			if tt.auth {
				offer = []amqp.Symbol{"PLAIN"}
			}
			if m := take[*amqp.SASLMechanisms](p); !reflect.DeepEqual(m.Mechanisms, offer) {
				t.Errorf("offered %v, want %v", m.Mechanisms, offer)
			}
			init := &amqp.SASLInit{Mechanism: tt.mechanism}
			if tt.response != nil {
				init.InitialResponse = amqp.Some(tt.response)
			}
			p.saslFrame(init)
			if tt.later != nil {
				if c := take[*amqp.SASLChallenge](p); len(c.Challenge) != 0 {
					t.Errorf("challenge %q", c.Challenge)
				}
				p.saslFrame(&amqp.SASLResponse{Response: tt.later})
			}
			if o := take[*amqp.SASLOutcome](p); o.Code != tt.code {
				t.Fatalf("outcome %d, want %d", o.Code, tt.code)
			}
			if tt.code != 0 {
				p.ended()
				r.log.wait(t, "SERVER (info) [C1]", "failed: amqp:unauthorized-access",
					fmt.Sprintf("(Failed to authenticate client [mech=%s])", tt.mechanism)) // M17
				r.holds(t, r.empty)
				return
			}
			p.sasl = false
			p.open()
			if c := r.Connections(); len(c) != 1 || c[0].User != tt.user || !c[0].Authenticated || c[0].SASL != string(tt.mechanism) {
				t.Errorf("connections %+v, want one of %s", c, tt.user)
			}
			p.close()
			r.holds(t, r.empty)
		})
	}
}

// CFG M18 to M20, R7: what must not be within SASL, nor behind it.
func TestM18SASLOutOfOrder(t *testing.T) {
	mechanisms := amqp.AppendFrame(nil, amqp.FrameSASL, 0, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"ANONYMOUS"}})
	sasl := func(x amqp.Performative) []byte { return amqp.AppendFrame(nil, amqp.FrameSASL, 0, x) }
	open := &amqp.Open{ContainerID: "raw"}
	for name, input := range map[string][]byte{
		"open in an AMQP frame":   frame(0, open),
		"open in a SASL frame":    sasl(open),
		"response before init":    sasl(&amqp.SASLResponse{Response: []byte("x")}),
		"mechanisms":              mechanisms,
		"outcome":                 sasl(&amqp.SASLOutcome{}),
		"an empty frame":          octets(8, 2, 1, 0),
		"size 4":                  octets(4, 2, 1, 0),
		"size 2^32-1":             octets(0xffffffff, 2, 1, 0),
		"size 16385":              octets(16385, 2, 1, 0),
		"data offset 1":           octets(8, 1, 1, 0),
		"data offset beyond":      octets(12, 200, 1, 0, 1, 2, 3, 4),
		"rubbish":                 octets(12, 2, 1, 0, 1, 2, 3, 4),
		"a second SASL header":    amqp.HeaderSASL[:],
		"init in an AMQP frame":   frame(0, &amqp.SASLInit{Mechanism: "ANONYMOUS"}),
		"init with the wrong arg": octets(16, 2, 1, 0, 0x00, 0x53, 0x41, 0xc0, 3, 1, 0x52, 7),
	} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t)
			p := r.dial(t)
			p.write(amqp.HeaderSASL[:], input)
			p.nothingBut(append(amqp.HeaderSASL[:], mechanisms...))
			r.log.wait(t, "SERVER (info) [C1]", "failed: ")
			if lines, _ := r.log.matching("Connection Opened"); len(lines) != 0 {
				t.Errorf("the core saw it: %q", lines)
			}
			r.holds(t, r.empty)
		})
	}
	t.Run("a SASL header after success", func(t *testing.T) { // M20
		r := startRouter(t)
		p := r.dial(t)
		p.write(amqp.HeaderSASL[:], sasl(&amqp.SASLInit{Mechanism: "ANONYMOUS"}), amqp.HeaderSASL[:])
		const text = `AMQP SASL protocol header not allowed (maybe detected twice): 'AMQP\x03\x01\x00\x00'`
		want := append(amqp.HeaderSASL[:], mechanisms...)
		want = append(want, sasl(&amqp.SASLOutcome{})...)
		want = append(want, amqp.HeaderAMQP[:]...)
		want = append(want, frame(0, &amqp.Open{})...)
		want = append(want, frame(0, &amqp.Close{Error: &amqp.Error{Condition: "amqp:connection:framing-error", Description: text}})...)
		p.nothingBut(want)
		r.log.wait(t, "SERVER (info) [C1]", "failed: amqp:connection:framing-error "+text)
		r.holds(t, r.empty)
	})
	t.Run("all in one write", func(t *testing.T) {
		r := startRouter(t)
		p := r.dial(t)
		p.write(amqp.HeaderSASL[:], sasl(&amqp.SASLInit{Mechanism: "ANONYMOUS"}), amqp.HeaderAMQP[:], frame(0, open), frame(0, &amqp.Begin{}))
		p.sasl = true
		p.header(amqp.HeaderSASL)
		take[*amqp.SASLMechanisms](p)
		take[*amqp.SASLOutcome](p)
		p.sasl = false
		p.header(amqp.HeaderAMQP)
		take[*amqp.Open](p)
		take[*amqp.Begin](p)
		p.close()
		r.holds(t, r.empty)
	})
}

// outgoing connects the router to the test, as a connector does. The result
// has the end of the connection, once there is one.
func (r *rawRouter) outgoing(t *testing.T, o router.ConnOptions, mechanisms ...sasl.ClientMechanism) (p *rawPeer, ended chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	out := &transport.Outgoing{Router: r.Router, Options: o, Mechanisms: mechanisms, Limit: time.Minute}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ended = make(chan error, 1)
	r.serve.Go(func() { ended <- out.Serve(ctx, theirs, r.NextConnectionID(), "broker.example", nil) })
	return newRawPeer(t, ours), ended
}

// acceptAnonymous takes a connector through SASL to its open.
func (p *rawPeer) acceptAnonymous(t *testing.T) *amqp.Open {
	t.Helper()
	p.sasl = true
	p.header(amqp.HeaderSASL)
	p.write(amqp.HeaderSASL[:])
	p.saslFrame(&amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"PLAIN", "ANONYMOUS"}})
	if i := take[*amqp.SASLInit](p); i.Mechanism != "ANONYMOUS" || i.Hostname.Set {
		t.Errorf("sasl-init %+v", i)
	}
	p.saslFrame(&amqp.SASLOutcome{})
	p.sasl = false
	p.header(amqp.HeaderAMQP) // M13: not before the outcome
	p.write(amqp.HeaderAMQP[:])
	return take[*amqp.Open](p)
}

// CFG L8 to L12, M11 to M13: the connecting side.
func TestL10Connector(t *testing.T) {
	options := router.ConnOptions{Name: "out", Host: "broker:5672", MaxFrameSize: 16384, MaxSessions: 32768, LinkCapacity: 250, IdleTimeout: 4 * time.Second}
	inBubble(t, "open and idle", func(t *testing.T) {
		r := startRouter(t)
		p, ended := r.outgoing(t, options, sasl.AnonymousClient("me"))
		o := p.acceptAnonymous(t)
		if o.Hostname != amqp.Some("broker.example") || o.IdleTimeout != amqp.Some(uint32(2000)) || o.ContainerID != "R" {
			t.Errorf("open %+v", o)
		}
		start := time.Now()
		p.send(0, &amqp.Open{ContainerID: "broker", IdleTimeout: amqp.Some(uint32(1000))})
		for range 7 {
			if f, err := p.read(time.Now().Add(time.Minute)); err != nil || f.body != nil {
				t.Fatalf("%s, %v, want an empty frame", f, err)
			}
		}
		p.closed("amqp:resource-limit-exceeded", idleExpired)
		after(t, start, 4*time.Second)
		if err := <-ended; err == nil || err.Error() != "amqp:resource-limit-exceeded: "+idleExpired {
			t.Errorf("ended with %v", err)
		}
		r.holds(t, r.empty)
	})
	inBubble(t, "no open in answer", func(t *testing.T) {
		r := startRouter(t)
		p, ended := r.outgoing(t, options, sasl.AnonymousClient("me"))
		p.acceptAnonymous(t)
		p.closed("amqp:resource-limit-exceeded", idleExpired)
		if err := <-ended; err == nil {
			t.Error("ended without error")
		}
		r.holds(t, r.empty)
	})
	inBubble(t, "AMQP instead of SASL", func(t *testing.T) { // M12
		r := startRouter(t)
		p, ended := r.outgoing(t, options, sasl.AnonymousClient("me"))
		p.header(amqp.HeaderSASL)
		p.write(amqp.HeaderAMQP[:])
		p.ended()
		const want = `amqp:connection:framing-error: Expected SASL protocol header got: AMQP 1.0 layer ['AMQP\x00\x01\x00\x00']`
		if err := <-ended; err == nil || err.Error() != want {
			t.Errorf("ended with %v, want %s", err, want)
		}
		r.holds(t, r.empty)
	})
	inBubble(t, "no common mechanism", func(t *testing.T) { // M12
		r := startRouter(t)
		p, ended := r.outgoing(t, options, sasl.AnonymousClient("me"))
		p.header(amqp.HeaderSASL)
		p.write(amqp.HeaderSASL[:])
		p.saslFrame(&amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"PLAIN"}})
		p.ended()
		const want = "amqp:unauthorized-access: Authentication failed [mech=none]"
		if err := <-ended; err == nil || err.Error() != want {
			t.Errorf("ended with %v, want %s", err, want)
		}
		r.holds(t, r.empty)
	})
	inBubble(t, "a close with an error", func(t *testing.T) {
		r := startRouter(t)
		p, ended := r.outgoing(t, options, sasl.AnonymousClient("me"))
		p.acceptAnonymous(t)
		p.send(0, &amqp.Open{ContainerID: "broker"})
		p.send(0, &amqp.Close{Error: &amqp.Error{Condition: "test:enough", Description: "go away"}})
		take[*amqp.Close](p)
		p.ended()
		if err := <-ended; err == nil || err.Error() != "test:enough: go away" {
			t.Errorf("ended with %v", err)
		}
		r.holds(t, r.empty)
	})
}
