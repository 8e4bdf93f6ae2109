package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
	"qdrouter/router"
)

// What goes over the wire rule by rule is tested in tests/, with a whole router. Here is
// what depends on how a socket cuts a stream of octets and on who ends a connection when.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

type noLog struct{}

func (noLog) Enabled(string, router.Level) bool { return false }
func (noLog) Log(string, router.Level, string)  {}

func newRouter(t *testing.T) *router.Router {
	t.Helper()
	r := router.New(router.Options{ID: "R", Area: "0", Mode: router.Standalone, Version: "v", Log: noLog{}})
	t.Cleanup(r.Close)
	return r
}

// roads are the two ways of a socket: raw calls on TCP, and the plain one.
var roads = []struct {
	name string
	pair func(t *testing.T) (ours, theirs net.Conn)
}{
	{"TCP", func(t *testing.T) (ours, theirs net.Conn) {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if theirs, err = net.Dial("tcp4", ln.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if ours, err = ln.Accept(); err != nil {
			t.Fatal(err)
		}
		return ours, theirs
	}},
	{"pipe", func(*testing.T) (ours, theirs net.Conn) { return net.Pipe() }},
}

func frame(channel uint16, p amqp.Performative) []byte {
	return amqp.AppendFrame(nil, amqp.FrameAMQP, channel, p)
}

func saslFrame(p amqp.Performative) []byte {
	return amqp.AppendFrame(nil, amqp.FrameSASL, 0, p)
}

// longest is the size of the longest frame of the conversation, more than two reads of a socket.
const longest = 300_000

// conversation is all that a client of ANONYMOUS sends that has n messages for nobody, of
// sizes around those where frames, reads and streamed messages end. It may send what is in tail
// once it has credit.
func conversation(n int) (head, tail []byte) {
	b := append([]byte(nil), amqp.HeaderSASL[:]...)
	b = append(b, saslFrame(&amqp.SASLInit{Mechanism: "ANONYMOUS"})...)
	b = append(b, amqp.HeaderAMQP[:]...)
	b = append(b, frame(0, &amqp.Open{ContainerID: "client", MaxFrameSize: amqp.Some[uint32](longest)})...)
	b = append(b, frame(0, &amqp.Begin{IncomingWindow: 1000, OutgoingWindow: 1000})...)
	b = append(b, frame(0, &amqp.Attach{Name: "l", Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Target{},
		InitialDeliveryCount: amqp.Some[uint32](0)})...)
	head, b = b, nil
	sizes := []int{1, 100, 16_000, readSize - 100, readSize, readSize + 1, 2 * readSize, longest - 200}
	for id := range n {
		m := (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some("nobody")}, BodyKind: amqp.BodyData,
			Body: [][]byte{bytes.Repeat([]byte{byte(id)}, sizes[id%len(sizes)])}}).Append(nil)
		b = amqp.AppendTransferFrame(b, 0, &amqp.Transfer{DeliveryID: amqp.Some(uint32(id)), DeliveryTag: []byte{byte(id)}}, m)
	}
	return head, append(b, frame(0, &amqp.Close{})...)
}

// answers reads what the router sends to the end and lists it: "SASL mechanisms outcome AMQP open
// …", with what may come in one frame or in several told once for each delivery. It calls credit at
// the first flow.
func answers(nc net.Conn, credit func()) (string, error) {
	nc.SetReadDeadline(time.Now().Add(patience))
	var list []string
	for {
		p, err := next(nc)
		switch p := p.(type) {
		case nil:
			if err == io.EOF {
				err = nil
			}
			return strings.Join(list, " "), err
		case amqp.ProtocolHeader:
			list = append(list, map[amqp.ProtocolHeader]string{amqp.HeaderSASL: "SASL", amqp.HeaderAMQP: "AMQP"}[p])
		case *amqp.Flow: // when credit comes back depends on when reads end
			if credit != nil {
				credit()
				credit = nil
			}
		case *amqp.Disposition:
			code, _ := amqp.StateCode(p.State)
			for id := p.First; id <= p.Last.Or(p.First); id++ {
				list = append(list, fmt.Sprintf("%d:%#x,%t", id, code, p.Settled))
			}
		case *amqp.Close:
			if p.Error != nil {
				return strings.Join(list, " "), p.Error
			}
			list = append(list, "close")
		default:
			list = append(list, strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", p), "*amqp.")))
		}
	}
}

// next reads one protocol header or frame: an amqp.ProtocolHeader or amqp.Performative, nil at an
// error, which is io.EOF where the connection ends.
func next(nc net.Conn) (any, error) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(nc, head); err != nil {
		return nil, err
	}
	if p := amqp.ProtocolHeader(head); p == amqp.HeaderSASL || p == amqp.HeaderAMQP {
		return p, nil
	}
	h, _, err := amqp.ParseFrameHeader(head, longest)
	if err != nil {
		return nil, err
	}
	body := make([]byte, h.Size-8)
	if _, err := io.ReadFull(nc, body); err != nil {
		return nil, err
	}
	decode := amqp.DecodePerformative
	if h.Type == amqp.FrameSASL {
		decode = amqp.DecodeSASL
	}
	p, _, err := decode(body)
	return p, err
}

// cuts divides n octets into pieces.
var cuts = []struct {
	name string
	next func(r *rand.Rand, done int) int // octets of the next piece
}{
	{"in one piece", func(*rand.Rand, int) int { return 1 << 30 }},
	{"octet by octet at first", func(_ *rand.Rand, done int) int {
		if done < 600 {
			return 1
		}
		return 1 << 30
	}},
	{"small pieces", func(r *rand.Rand, _ int) int { return 1 + r.IntN(2000) }},
	{"pieces around a read", func(r *rand.Rand, _ int) int { return readSize - 3 + r.IntN(6) }},
	{"pieces of any size", func(r *rand.Rand, _ int) int { return 1 + r.IntN(1<<r.IntN(19)) }},
}

// The answers are the same however the stream of octets is cut, from the first header to the
// close: nothing is read twice, lost at the end of the handshake, or kept for ever.
func TestAnyCut(t *testing.T) {
	const n = 24
	head, tail := conversation(n)
	want := "SASL saslmechanisms sasloutcome AMQP open begin attach"
	for id := range n {
		want += fmt.Sprintf(" %d:%#x,true", id, amqp.CodeReleased)
	}
	want += " close"
	for _, road := range roads {
		for i, cut := range cuts {
			t.Run(road.name+"/"+cut.name, func(t *testing.T) {
				in := &Incoming{Router: newRouter(t), Options: router.ConnOptions{Incoming: true, MaxFrameSize: longest, StripIn: true, StripOut: true},
					Offer: sasl.Offer{sasl.OfferAnonymous()}, Limit: patience, Log: noLog{}}
				ours, theirs := road.pair(t)
				opened := 0
				served := make(chan *router.Failure, 1)
				go func() { served <- in.Serve(ours, func() { opened++ }) }()
				credit := make(chan struct{})
				go func() {
					r := rand.New(rand.NewPCG(1, uint64(i)))
					for _, input := range [][]byte{head, tail} {
						for done := 0; done < len(input); {
							m := min(cut.next(r, done), len(input)-done)
							if _, err := theirs.Write(input[done : done+m]); err != nil {
								return // the reader below sees it
							}
							done += m
						}
						select {
						case <-credit:
						case <-t.Context().Done():
							return
						}
					}
				}()
				got, err := answers(theirs, func() { close(credit) })
				theirs.Close()
				if got != want || err != nil {
					t.Errorf("answers\n got %s, %v\nwant %s", got, err, want)
				}
				if f := <-served; f != nil || opened != 1 {
					t.Errorf("failure %+v, opened %d times, want none and once", f, opened)
				}
			})
		}
	}
}

// Who goes before the open is in, as a port probe does, has not failed; whoever has opened and
// does not say close has not either, and the router does not keep it.
func TestPeerLeaves(t *testing.T) {
	head, _ := conversation(0)
	all := append(head, frame(0, &amqp.Flow{IncomingWindow: 1, OutgoingWindow: 1})...)
	for _, road := range roads {
		for _, after := range []int{0, 3, 8, 12, 30, 60, len(all) - 10, len(all)} {
			t.Run(fmt.Sprintf("%s/%d octets", road.name, after), func(t *testing.T) {
				r := newRouter(t)
				in := &Incoming{Router: r, Options: router.ConnOptions{Incoming: true, MaxFrameSize: longest},
					Offer: sasl.Offer{sasl.OfferAnonymous()}, Limit: patience, Log: noLog{}}
				ours, theirs := road.pair(t)
				served := make(chan *router.Failure, 1)
				go func() { served <- in.Serve(ours, nil) }()
				go io.Copy(io.Discard, theirs)
				if _, err := theirs.Write(all[:after]); err != nil {
					t.Fatal(err)
				}
				theirs.Close()
				select {
				case f := <-served:
					if f != nil {
						t.Errorf("failure %+v, want none", f)
					}
				case <-time.After(patience):
					t.Fatal("the connection does not end")
				}
				if left := r.Connections(); len(left) > 0 {
					t.Errorf("%d connections left", len(left))
				}
			})
		}
	}
}

// A peer whose open does not come in time is cut without a word, wherever it stops (CFG L13).
func TestHandshakeLimit(t *testing.T) {
	all, _ := conversation(0)
	for _, after := range []int{0, 5, 8, 20, 50} {
		t.Run(fmt.Sprintf("%d octets", after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &Incoming{Router: newRouter(t), Options: router.ConnOptions{Incoming: true},
					Offer: sasl.Offer{sasl.OfferAnonymous()}, Limit: patience / 2, Log: noLog{}}
				ours, theirs := net.Pipe()
				served := make(chan *router.Failure, 1)
				go func() { served <- in.Serve(ours, func() { t.Error("opened") }) }()
				go theirs.Write(all[:after])
				got, err := answers(theirs, nil)
				if err != nil || strings.Contains(got, "open") || strings.Contains(got, "close") {
					t.Errorf("answers %s, %v, want neither open nor close", got, err)
				}
				if f := <-served; f == nil || f.What != router.ConnectionRefused || f.Reason != errLate.Error() {
					t.Errorf("failure %+v, want %q of a refused connection", f, errLate)
				}
			})
		})
	}
}

// outgoing starts Serve on one end and returns the other.
func outgoing(t *testing.T, ctx context.Context, limit time.Duration, pair func(*testing.T) (net.Conn, net.Conn)) (theirs net.Conn, ended chan error) {
	t.Helper()
	out := &Outgoing{Router: newRouter(t), Limit: limit, Mechanisms: []sasl.ClientMechanism{sasl.AnonymousClient("a@b")}}
	ours, theirs := pair(t)
	theirs.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { theirs.Close() })
	ended = make(chan error, 1)
	go func() { ended <- out.Serve(ctx, ours, 7, "host", nil) }()
	return theirs, ended
}

// must drops the error of next, whose first result is nil then.
func must(p any, _ error) any { return p }

// read takes exactly what is wanted from the wire.
func read(t *testing.T, nc net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// steps are those of a peer that a connector finds: each reads what the connector sends there and
// answers. The pipe lets nothing be written ahead that nobody reads, so the connector sends its
// AMQP header only when it has the outcome (CFG M13).
var steps = []struct {
	name string
	run  func(t *testing.T, nc net.Conn)
}{
	{"SASL header", func(t *testing.T, nc net.Conn) {
		read(t, nc, amqp.HeaderSASL[:])
		nc.Write(amqp.HeaderSASL[:])
	}},
	{"mechanisms", func(t *testing.T, nc net.Conn) {
		nc.Write(saslFrame(&amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"ANONYMOUS"}}))
		if p, ok := must(next(nc)).(*amqp.SASLInit); !ok || p.Mechanism != "ANONYMOUS" {
			t.Fatalf("got %+v, want sasl-init", p)
		}
	}},
	{"outcome", func(t *testing.T, nc net.Conn) {
		nc.Write(saslFrame(&amqp.SASLOutcome{}))
		read(t, nc, amqp.HeaderAMQP[:])
	}},
	{"AMQP header", func(t *testing.T, nc net.Conn) {
		nc.Write(amqp.HeaderAMQP[:])
		if p, ok := must(next(nc)).(*amqp.Open); !ok || p.ContainerID != "R" || p.Hostname.V != "host" {
			t.Fatalf("got %+v, want the router's open", p)
		}
	}},
	{"open", func(t *testing.T, nc net.Conn) {
		nc.Write(frame(0, &amqp.Open{ContainerID: "peer"}))
	}},
}

// A connector that is deleted ends at once, however far its peer has come (CFG L7), and tells a
// peer that has opened. One that does not hear it is not waited for.
func TestOutgoingStops(t *testing.T) {
	for _, road := range roads {
		for n := range len(steps) + 1 {
			name := "before any"
			if n > 0 {
				name = steps[n-1].name
			}
			t.Run(road.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				nc, ended := outgoing(t, ctx, patience, road.pair)
				for _, s := range steps[:n] {
					s.run(t, nc)
				}
				cancel()
				if n == len(steps) {
					if p, ok := must(next(nc)).(*amqp.Close); !ok || p.Error != nil {
						t.Errorf("got %+v, want a close without an error", p)
					}
					// No answer.
				}
				select {
				case <-ended:
				case <-time.After(patience / 2):
					t.Error("Serve goes on")
				}
			})
		}
	}
}

// A peer that says nothing before its open is not waited for longer than the limit.
func TestOutgoingLimit(t *testing.T) {
	pipe := roads[1].pair
	for n := range steps {
		t.Run(fmt.Sprintf("after %d steps", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				nc, ended := outgoing(t, t.Context(), patience/2, pipe)
				for _, s := range steps[:n] {
					s.run(t, nc)
				}
				if err, took := <-ended, time.Since(start); err == nil || took != patience/2 {
					t.Errorf("Serve ended after %v with %v, want an error after %v", took, err, patience/2)
				}
			})
		})
	}
}

// What a connector says of a peer that does not answer as it should (CFG M12, M18).
func TestOutgoingRefusals(t *testing.T) {
	const framing, unauthorized = amqp.ErrCondFramingError, amqp.ErrCondUnauthorizedAccess
	tests := []struct {
		name      string
		steps     int
		input     []byte
		condition amqp.Symbol
		text      string
	}{
		{"AMQP for SASL", 0, amqp.HeaderAMQP[:], framing, `Expected SASL protocol header got: AMQP 1.0 layer ['AMQP\x00\x01\x00\x00']`},
		{"TLS for SASL", 0, amqp.HeaderTLS[:], framing, `Expected SASL protocol header got: AMQP 1.0 TLS layer ['AMQP\x02\x01\x00\x00']`},
		{"HTTP for SASL", 0, []byte("HTTP/1.1 400 Bad Request\r\n"), framing, `Expected SASL protocol header got: Unknown protocol ['HTTP/1.1']`},
		{"no mechanism of ours", 1, saslFrame(&amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"EXTERNAL"}}), unauthorized, "Authentication failed [mech=none]"},
		{"AMQP frame in SASL", 1, frame(0, &amqp.Open{ContainerID: "x"}), framing, "frame within SASL is no SASL frame"},
		{"frame too long", 1, []byte{0, 1, 0, 0, 2, 1, 0, 0}, framing, "malformed frame"},
		{"frame too short", 1, []byte{0, 0, 0, 7, 2, 1, 0, 0}, framing, "malformed frame"},
		{"header in the middle", 1, amqp.HeaderAMQP[:], framing, "AMQP header before the end of SASL"},
		{"refused", 2, saslFrame(&amqp.SASLOutcome{Code: amqp.SASLCodeAuth}), unauthorized, "Authentication failed [mech=ANONYMOUS]"},
		{"SASL again", 3, amqp.HeaderSASL[:], framing, `Expected AMQP protocol header got: AMQP 1.0 SASL layer ['AMQP\x03\x01\x00\x00']`},
		{"no frame", 4, []byte{0, 0, 0, 7, 2, 0, 0, 0}, framing, "malformed frame"},
	}
	for _, road := range roads {
		for _, tt := range tests {
			t.Run(road.name+"/"+tt.name, func(t *testing.T) {
				nc, ended := outgoing(t, t.Context(), patience, road.pair)
				for _, s := range steps[:tt.steps] {
					s.run(t, nc)
				}
				go io.Copy(io.Discard, nc)
				nc.Write(tt.input)
				err := <-ended
				var e *amqp.Error
				if !errors.As(err, &e) || e.Condition != tt.condition || e.Description != tt.text {
					t.Errorf("Serve: %v\nwant %s: %s", err, tt.condition, tt.text)
				}
			})
		}
	}
}
