package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/router"
)

// CFG 11.1: what goes out and what is logged when a peer is wrong.

// octets is a frame made by hand: nothing of it need be right.
func octets(size uint32, doff, typ byte, channel uint16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, size)
	b = append(b, doff, typ)
	b = binary.BigEndian.AppendUint16(b, channel)
	return append(b, body...)
}

// bodyFrame is a right frame header with any body.
func bodyFrame(channel uint16, body ...byte) []byte {
	return octets(uint32(8+len(body)), 2, 0, channel, body...)
}

func frame(channel uint16, p amqp.Performative) []byte {
	return amqp.AppendFrame(nil, amqp.FrameAMQP, channel, p)
}

// all reads what comes until the end of the transport.
func (p *rawPeer) all() []byte {
	p.t.Helper()
	_ = p.nc.SetReadDeadline(time.Now().Add(p.wait))
	b, err := io.ReadAll(p.nc)
	if err != nil && isTimeout(err) {
		p.t.Fatalf("connection is still open after %v; read %q", p.wait, append(p.buf, b...))
	}
	b = append(p.buf, b...)
	p.buf = nil
	return b
}

// errorClose checks that a connection ends as CFG 11.1 says: with a close alone
// after our open, before it with a header and an empty open too. An empty
// description stands for any.
func (r *rawRouter) errorClose(t *testing.T, p *rawPeer, opened bool, condition amqp.Symbol, description string) {
	t.Helper()
	got := p.all()
	if !opened {
		head := append(amqp.HeaderAMQP[:], frame(0, &amqp.Open{})...)
		if !bytes.HasPrefix(got, head) {
			t.Fatalf("got %q, want it to begin with %q", got, head)
		}
		got = got[len(head):]
	}
	if description == "" {
		body := got[min(8, len(got)):]
		x, _, err := amqp.DecodePerformative(body)
		c, ok := x.(*amqp.Close)
		if err != nil || !ok || c.Error == nil || c.Error.Condition != condition {
			t.Fatalf("got %q, want a close with %s", got, condition)
		}
		description = c.Error.Description
	}
	want := frame(0, &amqp.Close{Error: &amqp.Error{Condition: condition, Description: description}})
	if !bytes.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	r.log.wait(t, "SERVER (info) [C1] Connection from 127.0.0.1:", fmt.Sprintf("failed: %s %s", condition, description))
}

// wireError runs one connection against a router of its own. input is sent
// after the handshake, if there is one: "open", "session", or "" for none.
func wireError(t *testing.T, handshake string, input []byte, condition amqp.Symbol, description string, change ...func(*rawConfig)) {
	t.Helper()
	r := startRouter(t, change...)
	before := r.counts()
	p := r.dial(t)
	switch handshake {
	case "open":
		p.open()
	case "session":
		p.open()
		p.begin(0)
	}
	p.write(input)
	r.errorClose(t, p, handshake != "", condition, description)
	r.healthy(t, before)
}

// R1 is in TestL13HandshakeTimeout.

func TestR2UnknownProtocol(t *testing.T) {
	tests := []struct{ name, input, quoted string }{
		{"HTTP", "GET / HTTP/1.1\r\nHost: router\r\n\r\n", `GET / HTTP/1.1\x0d\x0aHost: router\x0d\x0a\x0d\x0a`},
		{"AMQP 0-9-1", "AMQP\x00\x00\x09\x01", `AMQP\x00\x00\x09\x01`},
		{"no protocol", "\xff\xfe\x00\x01\x02\x03\x04\x05", `\xff\xfe\x00\x01\x02\x03\x04\x05`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wireError(t, "", []byte(tt.input), "amqp:connection:framing-error", "Unknown protocol detected: '"+tt.quoted+"'")
		})
	}
}

func TestR3IncompatibleVersion(t *testing.T) {
	wireError(t, "", []byte("AMQP\x00\x01\x01\x00"), "amqp:connection:framing-error",
		`Incompatible AMQP connection detected: 'AMQP\x00\x01\x01\x00'`)
}

// nothingBut checks that the transport ends after exactly these octets.
func (p *rawPeer) nothingBut(want []byte) {
	p.t.Helper()
	if got := p.all(); !bytes.Equal(got, want) {
		p.t.Errorf("got %q before the end, want %q", got, want)
	}
}

func TestR4AuthenticationSkipped(t *testing.T) {
	r := startRouter(t, func(c *rawConfig) { c.auth = true })
	p := r.dial(t)
	p.write(amqp.HeaderAMQP[:])
	p.nothingBut(nil)
	r.log.wait(t, "SERVER (info) [C1]", "failed: amqp:connection:policy-error Client skipped authentication - forbidden")
	r.holds(t, r.empty)
}

func TestR6TLSWithoutProfile(t *testing.T) {
	for name, input := range map[string]string{
		"TLS header":   "AMQP\x02\x01\x00\x00",
		"client hello": "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03",
	} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t)
			p := r.dial(t)
			p.write([]byte(input))
			p.nothingBut(nil)
			r.log.wait(t, "SERVER (info) [C1]", "failed: amqp:connection:policy-error")
			r.holds(t, r.empty)
		})
	}
}

func TestR7SASLNotFinished(t *testing.T) {
	r := startRouter(t)
	p := r.dial(t)
	p.write(amqp.HeaderSASL[:], amqp.HeaderAMQP[:], frame(0, &amqp.Open{ContainerID: "raw"}))
	mechanisms := amqp.AppendFrame(nil, amqp.FrameSASL, 0, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"ANONYMOUS"}})
	p.nothingBut(append(amqp.HeaderSASL[:], mechanisms...))
	r.log.wait(t, "SERVER (info) [C1]", "failed: ")
	r.holds(t, r.empty)
}

func TestR8MalformedFrameHeader(t *testing.T) {
	tests := []struct {
		name  string
		input []byte
	}{
		{"size 0", octets(0, 2, 0, 0)},
		{"size 4", octets(4, 2, 0, 0)},
		{"size 7", octets(7, 2, 0, 0)},
		{"data offset 0", octets(8, 0, 0, 0)},
		{"data offset 1", octets(8, 1, 0, 0)},
		{"data offset beyond the frame", octets(8, 255, 0, 0)},
		{"data offset just beyond the frame", octets(11, 3, 0, 0, 0, 0, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wireError(t, "open", tt.input, "amqp:connection:framing-error", "malformed frame")
		})
		t.Run(tt.name+" before open", func(t *testing.T) {
			wireError(t, "", append(amqp.HeaderAMQP[:], tt.input...), "amqp:connection:framing-error", "malformed frame")
		})
	}
}

// Only the size goes over: the answer must not wait for more.
func TestR9FrameTooLarge(t *testing.T) {
	for _, size := range []uint32{16385, 1 << 20, 0xffffffff} {
		input := octets(size, 2, 0, 0)[:4]
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			wireError(t, "open", input, "amqp:connection:framing-error", "malformed frame")
		})
		t.Run(fmt.Sprint(size, " before open"), func(t *testing.T) {
			wireError(t, "", append(amqp.HeaderAMQP[:], input...), "amqp:connection:framing-error", "malformed frame")
		})
	}
	t.Run("the largest is taken", func(t *testing.T) {
		r := startRouter(t)
		p := r.open(t)
		if got := p.openSize(16384); len(got) != 16384 {
			t.Fatalf("frame of %d octets", len(got))
		} else {
			p.write(got)
		}
		p.barrier()
	})
}

// A max-frame-size larger than what the router reads at once is one it can live by.
func TestFrameLongerThanARead(t *testing.T) {
	r := startRouter(t, func(c *rawConfig) { c.conn.MaxFrameSize = 1 << 20 })
	p := r.open(t)
	b := p.openSize(1 << 20)
	for len(b) > 0 {
		n := min(len(b), 300000)
		p.write(b[:n])
		b = b[n:]
	}
	p.barrier()
	p.write(octets(1<<20+1, 2, 0, 0)[:4])
	r.errorClose(t, p, true, "amqp:connection:framing-error", "malformed frame")
}

// openSize is a begin on channel 1 in a frame of n octets.
func (p *rawPeer) openSize(n int) []byte {
	p.t.Helper()
	pad := n
	for {
		props := amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("pad"), Value: strings.Repeat("x", pad)}})
		b := frame(1, &amqp.Begin{Properties: props})
		if len(b) <= n {
			p.sessions[1] = &rawSession{links: map[uint32]*rawLink{}}
			return b
		}
		pad -= len(b) - n
	}
}

func TestR10ExtendedHeader(t *testing.T) {
	r := startRouter(t)
	p := r.open(t)
	body := (&amqp.Begin{}).Append(nil)
	b := octets(uint32(8+12+len(body)), 5, 0, 0)
	b = append(b, "twelve bytes"...)
	p.write(append(b, body...))
	take[*amqp.Begin](p)
}

func TestR11FrameType(t *testing.T) {
	for _, typ := range []byte{1, 2, 9, 255} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			begin := (&amqp.Begin{}).Append(nil)
			wireError(t, "open", octets(uint32(8+len(begin)), 2, typ, 0, begin...), "amqp:connection:framing-error", "")
		})
	}
}

func TestR12UndecodableBody(t *testing.T) {
	tests := []struct {
		name      string
		body      []byte
		condition amqp.Symbol
	}{
		{"unknown descriptor", []byte{0x00, 0x53, 0x99, 0x45}, "amqp:not-implemented"},
		{"unknown symbolic descriptor", []byte("\x00\xa3\x08nobody:x\x45"), "amqp:not-implemented"},
		{"a SASL performative", (&amqp.SASLInit{Mechanism: "ANONYMOUS"}).Append(nil), "amqp:not-implemented"},
		{"no described value", []byte{0x45}, "amqp:decode-error"},
		{"described, but no list", []byte{0x00, 0x53, 0x11, 0x40}, "amqp:decode-error"},
		{"unknown constructor", []byte{0x00, 0x53, 0x11, 0xc0, 2, 1, 0x99}, "amqp:decode-error"},
		{"list cut off", []byte{0x00, 0x53, 0x11, 0xc0, 50, 4, 0x40}, "amqp:decode-error"},
		{"fields missing", []byte{0x00, 0x53, 0x11, 0x45}, "amqp:decode-error"},
		{"count of 2^31", []byte{0x00, 0x53, 0x11, 0xd0, 0, 0, 0, 5, 0x80, 0, 0, 0, 0x40}, "amqp:decode-error"},
		{"only zeros", make([]byte, 100), "amqp:decode-error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wireError(t, "open", bodyFrame(0, tt.body...), tt.condition, "")
		})
	}
}

func TestR13BeginBeforeOpen(t *testing.T) {
	wireError(t, "", append(amqp.HeaderAMQP[:], frame(0, &amqp.Begin{})...), "amqp:illegal-state", "")
}

func TestR14CloseBeforeOpen(t *testing.T) {
	wireError(t, "", append(amqp.HeaderAMQP[:], frame(0, &amqp.Close{})...), "amqp:illegal-state", "")
}

func TestR15SecondOpen(t *testing.T) {
	wireError(t, "open", frame(0, &amqp.Open{ContainerID: "again"}), "amqp:illegal-state", "")
}

func TestR16NoSuchChannel(t *testing.T) {
	for name, p := range map[string]amqp.Performative{
		"attach":      &amqp.Attach{Name: "x", Source: &amqp.Source{}, Target: &amqp.Target{}},
		"flow":        &amqp.Flow{},
		"transfer":    &amqp.Transfer{DeliveryID: amqp.Some(uint32(0))},
		"end":         &amqp.End{},
		"detach":      &amqp.Detach{},
		"disposition": &amqp.Disposition{},
	} {
		t.Run(name, func(t *testing.T) {
			wireError(t, "session", frame(7, p), "amqp:not-allowed", "no such channel: 7")
		})
	}
	t.Run("after end", func(t *testing.T) {
		input := append(frame(0, &amqp.End{}), frame(0, &amqp.Flow{})...)
		r := startRouter(t)
		p := r.session(t)
		p.write(input)
		take[*amqp.End](p)
		r.errorClose(t, p, true, "amqp:not-allowed", "no such channel: 0")
	})
}

func TestR17ChannelAboveMax(t *testing.T) {
	wireError(t, "open", frame(32768, &amqp.Begin{}), "amqp:connection:framing-error",
		"remote channel 32768 is above negotiated channel_max 32767.")
	wireError(t, "open", frame(3, &amqp.Begin{}), "amqp:connection:framing-error",
		"remote channel 3 is above negotiated channel_max 2.", withConn(func(o *router.ConnOptions) { o.MaxSessions = 3 }))
}

func TestR18ChannelInUse(t *testing.T) {
	wireError(t, "session", frame(0, &amqp.Begin{}), "amqp:not-allowed", "")
}

func TestR19NoSuchHandle(t *testing.T) {
	for name, p := range map[string]amqp.Performative{
		"transfer": &amqp.Transfer{Handle: 70000, DeliveryID: amqp.Some(uint32(0))},
		"flow":     &amqp.Flow{Handle: amqp.Some(uint32(70000))},
		"detach":   &amqp.Detach{Handle: 70000},
	} {
		t.Run(name, func(t *testing.T) {
			wireError(t, "session", frame(0, p), "amqp:invalid-field", "no such handle: 70000")
		})
	}
}

func TestR20WindowViolation(t *testing.T) {
	r := startRouter(t, withConn(func(o *router.ConnOptions) { o.MaxSessionFrames = 4 }))
	before := r.counts()
	consumer := r.session(t)
	in := consumer.receiver("q", 100)
	p := r.session(t)
	l := p.sender("q")
	l.awaitCredit(250)
	// A message of six frames: the window is four, and opens only when half of it is used,
	// which one write leaves no time for.
	parts, _ := l.parts(split(data(600), 110), nil)
	p.write(parts...)
	p.closed("amqp:session:window-violation", "incoming session window exceeded")
	r.flush(t, consumer)
	if n := in.waiting(); n != 0 {
		t.Errorf("the consumer has %d transfers of the message", n)
	}
	consumer.close()
	r.healthy(t, before)
}

func TestR21LinkNameTwice(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	attach := amqp.Attach{Name: "twice", Handle: 0, Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("q")}}
	p.send(0, &attach)
	take[*amqp.Attach](p)
	// The same name the other way round is another link.
	other := amqp.Attach{Name: "twice", Handle: 1, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some("p")}, Target: &amqp.Target{}}
	p.send(0, &other)
	take[*amqp.Attach](p)
	again := attach
	again.Handle = 2
	p.send(0, &again)
	p.closed("amqp:invalid-field", "link name already attached: twice")
	r.healthy(t, before)
}

func TestR22HandleInUse(t *testing.T) {
	attach := func(name string) []byte {
		return frame(0, &amqp.Attach{Name: name, Source: &amqp.Source{}, Target: &amqp.Target{}})
	}
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	p.write(attach("a"))
	take[*amqp.Attach](p)
	p.write(attach("b"))
	p.closed("amqp:session:handle-in-use", "")
	r.healthy(t, before)
}

// transferError sends frames on a link with credit whose first delivery has
// gone well, and wants the connection closed for them.
func transferError(t *testing.T, input func(l *rawLink) []byte, condition amqp.Symbol, description string) {
	t.Helper()
	r := startRouter(t)
	before := r.counts()
	consumer := r.session(t)
	in := consumer.receiver("q", 100)
	p := r.session(t)
	l := p.sender("q")
	l.awaitCredit(250)
	l.send(rawMessage("first"), true)
	if got := in.receive().body(); got != "first" {
		t.Fatalf("received %q", got)
	}
	p.write(input(l))
	p.closed(condition, description)
	r.quiet(t, consumer)
	consumer.close()
	r.healthy(t, before)
}

func TestR23DeliveryIDOutOfSequence(t *testing.T) {
	transferError(t, func(l *rawLink) []byte {
		return l.frame(amqp.Transfer{DeliveryID: amqp.Some(uint32(5)), DeliveryTag: []byte("x")}, rawMessage("x"))
	}, "amqp:session:invalid-field", "sequencing error, expected delivery-id 1, got 5")
}

func TestR24ContinuationChanges(t *testing.T) {
	t.Run("delivery-id", func(t *testing.T) {
		transferError(t, func(l *rawLink) []byte {
			b, _ := l.parts(split(data(300), 100), func(i int, t *amqp.Transfer) {
				if i == 1 {
					t.DeliveryID = amqp.Some(uint32(2))
				}
			})
			return slices.Concat(b...)
		}, "amqp:invalid-field", "invalid delivery-id for a continuation transfer")
	})
	t.Run("settled to unsettled", func(t *testing.T) {
		transferError(t, func(l *rawLink) []byte {
			b, _ := l.parts(split(data(300), 100), func(i int, t *amqp.Transfer) { t.Settled = amqp.Some(i == 0) })
			return slices.Concat(b...)
		}, "amqp:invalid-field", "invalid transition from settled to unsettled")
	})
}

func TestR25TransferWithoutCredit(t *testing.T) {
	const text = "amqp:link:transfer-limit-exceeded"
	t.Run("never had any", func(t *testing.T) {
		r := startRouter(t)
		before := r.counts()
		p := r.session(t)
		l := p.sender("nobody")
		l.send(rawMessage("x"), false)
		if d := l.detached(); d.Error == nil || d.Error.Condition != text {
			t.Fatalf("detach with %v, want %s", d.Error, text)
		}
		p.send(0, &amqp.Detach{Handle: l.handle, Closed: true})
		r.quiet(t, p)
		p.close()
		r.healthy(t, before)
	})
	// What else the peer has sent before it sees the detach is no new fault, and
	// none of it is routed.
	t.Run("the rest of what was sent", func(t *testing.T) {
		r := startRouter(t, withCapacity(2))
		before := r.counts()
		consumer := r.session(t)
		in := consumer.receiver("q", 100)
		p := r.session(t)
		l := p.sender("q")
		l.awaitCredit(2)
		var b []byte
		for i := range 5 {
			parts, _ := l.parts(split(rawMessage(fmt.Sprintf("message %d", i)), 7), nil)
			b = append(b, slices.Concat(parts...)...)
		}
		p.write(b)
		if d := l.detached(); d.Error == nil || d.Error.Condition != text {
			t.Fatalf("detach with %v, want %s", d.Error, text)
		}
		if got := in.bodies(2); !slices.Equal(got, []string{"message 0", "message 1"}) {
			t.Errorf("received %q", got)
		}
		p.send(0, &amqp.Detach{Handle: l.handle, Closed: true})
		again := p.sender("q")
		again.awaitCredit(2)
		r.quiet(t, p, consumer)
		p.close()
		consumer.close()
		r.healthy(t, before)
	})
}

func TestR26AttachWithoutName(t *testing.T) {
	// handle 0, role sender, no termini
	wireError(t, "session", bodyFrame(0, 0x00, 0x53, 0x12, 0xc0, 4, 3, 0x40, 0x43, 0x42), "amqp:decode-error", "")
}

func TestR27SmallMaxFrameSize(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.dial(t)
	p.openWith(&amqp.Open{ContainerID: "raw", MaxFrameSize: amqp.Some(uint32(100))})
	r.log.wait(t, "[C1]", "max-frame-size", "100", "512")
	p.begin(0)
	in := p.receiver("q", 10)
	sender := r.session(t)
	l := sender.sender("q")
	l.awaitCredit(250)
	payload := data(2000)
	l.send(payload, true)
	d := in.receive()
	if !bytes.Equal(d.payload, payload) {
		t.Errorf("the message of %d octets came as %d others", len(payload), len(d.payload))
	}
	if d.frames != 5 {
		t.Errorf("%d frames, want 5 of at most 512 octets", d.frames)
	}
	p.close()
	sender.close()
	r.healthy(t, before)
}

func TestR28OpenFields(t *testing.T) {
	t.Run("without container-id", func(t *testing.T) {
		r := startRouter(t)
		p := r.dial(t)
		p.write(amqp.HeaderAMQP[:], bodyFrame(0, 0x00, 0x53, 0x10, 0x45))
		p.header(amqp.HeaderAMQP)
		if o := take[*amqp.Open](p); o.ContainerID != "R" {
			t.Errorf("open with container-id %q", o.ContainerID)
		}
		p.close()
	})
	for name, fields := range map[string][]byte{
		"container-id a number":    {0x52, 1},
		"max-frame-size a string":  {0xa1, 1, 'x', 0x40, 0xa1, 1, 'y'},
		"channel-max a uint":       {0xa1, 1, 'x', 0x40, 0x40, 0x52, 7},
		"properties no map":        {0xa1, 1, 'x', 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x45},
		"more fields than it has":  {0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40},
		"idle-time-out a negative": {0xa1, 1, 'x', 0x40, 0x40, 0x40, 0x54, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte{0x00, 0x53, 0x10, 0xc0, byte(len(fields) + 1), byte(countFields(t, fields))}
			input := append(amqp.HeaderAMQP[:], bodyFrame(0, append(body, fields...)...)...)
			wireError(t, "", input, "amqp:decode-error", "")
		})
	}
}

func countFields(t *testing.T, b []byte) int {
	t.Helper()
	n := 0
	for ; len(b) > 0; n++ {
		m, err := amqp.SkipValue(b)
		if err != nil {
			t.Fatal(err)
		}
		b = b[m:]
	}
	return n
}

// R29 is in TestU02BrokenSections.

func TestR30BadRouterAnnotations(t *testing.T) {
	tests := []struct {
		name        string
		annotations amqp.Map
		text        string
	}{
		{"x-opt-qd.to", amqp.Map{{Key: amqp.Symbol("x-opt-qd.to"), Value: int32(1)}}, "to-override not a valid string type"},
		{"x-opt-qd.ingress", amqp.Map{{Key: amqp.Symbol("x-opt-qd.ingress"), Value: amqp.List{}}}, "ingress router not a string type"},
		{"x-opt-qd.trace", amqp.Map{{Key: amqp.Symbol("x-opt-qd.trace"), Value: "0/A"}}, "trace annotation is not a list"},
		{"in x-opt-qd.trace", amqp.Map{{Key: amqp.Symbol("x-opt-qd.trace"), Value: amqp.List{"0/A", int32(1)}}}, "trace list contains non-string entries"},
	}
	r := startRouter(t, withConn(func(o *router.ConnOptions) { o.StripIn = false }))
	before := r.counts()
	consumer := r.session(t)
	in := consumer.receiver("q", 100)
	p := r.session(t)
	l := p.sender("q")
	l.awaitCredit(250)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := l.send((&amqp.Message{MessageAnnotations: tt.annotations, Body: "x"}).Append(nil), false)
			want := fmt.Sprintf("rejected amqp:invalid-field %q", tt.text)
			if got := p.outcomes(id)[id]; got != want {
				t.Errorf("outcome %s, want %s", got, want)
			}
			r.log.wait(t, "ROUTER (warning) [C", "Message rejected - invalid MA section: "+tt.text)
			l.awaitCredit(250)
		})
	}
	l.send(rawMessage("good"), true)
	if got := in.receive().body(); got != "good" {
		t.Errorf("received %q, want the good one alone", got)
	}
	consumer.close()
	p.close()
	r.healthy(t, before)

	t.Run("stripped ones are not looked at", func(t *testing.T) {
		r := startRouter(t)
		p := r.session(t)
		in := p.receiver("q", 100)
		l := p.sender("q")
		l.awaitCredit(250)
		for _, tt := range tests {
			l.send((&amqp.Message{MessageAnnotations: tt.annotations, Body: tt.name}).Append(nil), true)
			if got := in.receive().body(); got != tt.name {
				t.Errorf("received %q, want %q", got, tt.name)
			}
		}
	})
}

func TestR32ConnectionAborted(t *testing.T) {
	t.Run("half closed", func(t *testing.T) {
		r := startRouter(t)
		before := r.counts()
		p := r.session(t)
		p.receiver("q", 10)
		if err := p.nc.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		r.errorClose(t, p, true, "amqp:connection:framing-error", "connection aborted")
		r.healthy(t, before)
	})
	t.Run("reset", func(t *testing.T) {
		r := startRouter(t)
		before := r.counts()
		p := r.session(t)
		p.receiver("q", 10)
		if err := p.nc.(interface{ SetLinger(int) error }).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		p.nc.Close()
		r.log.wait(t, "SERVER (info) [C1]", "failed: amqp:connection:framing-error connection aborted")
		r.healthy(t, before)
	})
}

// R33 is in TestR33HalfAFrame.

func TestR34EndWithLinks(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	for i := range 3 {
		p.receiver(fmt.Sprint("in", i), 10)
		p.sender(fmt.Sprint("out", i))
	}
	p.send(0, &amqp.End{})
	take[*amqp.End](p)
	r.quiet(t, p) // no detach
	r.holds(t, before.with(1, 0, 0))
	p.begin(0) // the channel is free again
	p.close()
	r.healthy(t, before)
}

func TestR35DataAfterClose(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.open(t)
	p.write(frame(0, &amqp.Close{}), frame(0, &amqp.Begin{}))
	p.nothingBut(frame(0, &amqp.Close{}))
	r.log.wait(t, "SERVER (info) [C1]", "failed: amqp:connection:framing-error data after close")
	r.healthy(t, before)
}

func TestR36LinksOfTheWrongRole(t *testing.T) {
	asked := amqp.AppendValue(nil, amqp.Symbol("qd.router"))
	tests := []struct {
		name         string
		role         router.Role
		capabilities amqp.Raw
		condition    amqp.Symbol
		description  string
	}{
		{"endpoint on an inter-router connection", router.RoleInterRouter, nil,
			"qd:connection-role", "Link attach forbidden on inter-router connection"},
		{"router on a client's connection", router.RoleNormal, asked,
			"qd:forbidden", "Connectivity to the node is forbidden"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRouter(t, withConn(func(o *router.ConnOptions) { o.Role = tt.role }))
			before := r.counts()
			p := r.session(t)
			s := p.attachSender(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("mine")},
				Target: &amqp.Target{Address: amqp.Some("qdrouter"), Capabilities: tt.capabilities}})
			if s.attach.Target != nil || s.attach.Source == nil || s.attach.Source.Address.V != "mine" {
				t.Errorf("sender answered with source %+v and target %+v", s.attach.Source, s.attach.Target)
			}
			s.refused(tt.condition, tt.description)
			in := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("qdrouter"), Capabilities: tt.capabilities},
				Target: &amqp.Target{Address: amqp.Some("mine")}}, 0)
			if in.attach.Source != nil || in.attach.Target == nil || in.attach.Target.Address.V != "mine" {
				t.Errorf("receiver answered with source %+v and target %+v", in.attach.Source, in.attach.Target)
			}
			in.refused(tt.condition, tt.description)
			r.quiet(t, p)
			p.close()
			r.holds(t, before)
		})
	}
}

// A bystander passes a message every few milliseconds until stop says how it went.
type bystander struct {
	apart
	end     chan struct{}
	done    chan struct{}
	longest time.Duration // that a message took there and back
	passed  int
}

func (r *rawRouter) bystander(t testing.TB) *bystander {
	b := &bystander{apart: apart{t, make(chan string, 1)}, end: make(chan struct{}), done: make(chan struct{})}
	receiver, sender := r.session(t), r.session(t)
	in := receiver.receiver("bystander", 1000)
	out := sender.sender("bystander")
	out.awaitCredit(250)
	receiver.t, sender.t = b, b
	go func() {
		defer close(b.done)
		beat := time.NewTicker(5 * time.Millisecond)
		defer beat.Stop()
		for {
			start := time.Now()
			id := out.send(rawMessage(fmt.Sprint(b.passed)), false)
			d := in.receive()
			if d.body() != fmt.Sprint(b.passed) {
				b.Fatalf("message %d came as %q", b.passed, d.body())
			}
			in.settle(d, amqp.StateAccepted)
			if got := sender.outcomes(id)[id]; got != "accepted" {
				b.Fatalf("message %d was %s", b.passed, got)
			}
			in.flow(1000)
			b.passed++
			b.longest = max(b.longest, time.Since(start))
			select {
			case <-beat.C:
			case <-b.end:
				receiver.close()
				sender.close()
				return
			}
		}
	}()
	return b
}

// stop ends the bystander, which must not have missed a beat.
func (b *bystander) stop(t testing.TB) {
	t.Helper()
	close(b.end)
	<-b.done
	select {
	case why := <-b.failed:
		t.Errorf("bystander: %s", why)
	default:
	}
	if b.longest > rawWait/2 { // far above what it takes, whatever else the machine does
		t.Errorf("a message of the bystander took %v", b.longest)
	}
	t.Logf("the bystander passed %d messages, the slowest in %v", b.passed, b.longest)
}

// FC U03: broken frames. Each connection ends with an error within a second
// and one log line, without much memory, and a bystander notices nothing.
func TestU03BrokenFrameHeaders(t *testing.T) {
	const maxFrame = 1 << 18
	open := func(field ...byte) []byte { // with these octets as the offered capabilities
		body := []byte{0xa1, 1, 'x', 0x40, 0x40, 0x40, 0x40, 0x40, 0x40}
		body = append(body, field...)
		list := binary.BigEndian.AppendUint32([]byte{0x00, 0x53, 0x10, 0xd0}, uint32(4+len(body)))
		list = binary.BigEndian.AppendUint32(list, 8)
		return bodyFrame(0, append(list, body...)...)
	}
	nested := []byte{0x40}
	for range 10_000 {
		m := binary.BigEndian.AppendUint32([]byte{0xd1}, uint32(4+1+len(nested)))
		m = binary.BigEndian.AppendUint32(m, 2)
		nested = append(append(m, 0x43), nested...)
	}
	const framing, decode = "amqp:connection:framing-error", "amqp:decode-error"
	tests := []struct {
		name      string
		input     []byte
		condition amqp.Symbol
	}{
		{"size 4", octets(4, 2, 0, 0), framing},
		{"size 7", octets(7, 2, 0, 0), framing},
		{"size 8 with data offset 255", octets(8, 255, 0, 0), framing},
		{"size 0xFFFFFFFF", octets(0xffffffff, 2, 0, 0), framing},
		{"size above our max-frame-size", octets(maxFrame+1, 2, 0, 0), framing},
		{"data offset 1", octets(8, 1, 0, 0), framing},
		{"frame type 9", octets(8, 2, 9, 0), framing},
		{"performative 0x99", bodyFrame(0, 0x00, 0x53, 0x99, 0x45), "amqp:not-implemented"},
		{"list with a count of 2^31", bodyFrame(0, 0x00, 0x53, 0x10, 0xd0, 0, 0, 0, 5, 0x80, 0, 0, 0, 0x40), decode},
		{"array of 2^31 elements of width 0", open(0xf0, 0, 0, 0, 5, 0x80, 0, 0, 0, 0x40), decode},
		{"array of 2^31 empty lists", open(0xf0, 0, 0, 0, 5, 0x80, 0, 0, 0, 0x45), decode},
		{"maps nested 10,000 deep", open(nested...), decode},
		{"descriptors nested 10,000 deep", open(make([]byte, 10_000)...), decode},
	}
	r := startRouter(t, withConn(func(o *router.ConnOptions) { o.MaxFrameSize = maxFrame }))
	before := r.counts()
	b := r.bystander(t)
	number := 2 // of the connections so far
	for _, when := range []string{"after open", "instead of open"} {
		for _, tt := range tests {
			t.Run(tt.name+" "+when, func(t *testing.T) {
				p := r.dial(t)
				number++
				if when == "after open" {
					p.open()
				} else {
					p.write(amqp.HeaderAMQP[:])
					p.header(amqp.HeaderAMQP)
				}
				var m0, m1 runtime.MemStats
				runtime.ReadMemStats(&m0)
				start := time.Now()
				p.write(tt.input)
				if when != "after open" {
					if o := take[*amqp.Open](p); o.ContainerID != "" {
						t.Errorf("open with container-id %q", o.ContainerID)
					}
				}
				p.closed(tt.condition, "")
				if took := time.Since(start); took > rawWait/2 { // a second on a machine with nothing else to do
					t.Errorf("took %v", took)
				}
				// All that was allocated meanwhile, the bystander's included, bounds what was in use.
				runtime.ReadMemStats(&m1)
				if n := m1.TotalAlloc - m0.TotalAlloc; n > 10<<20 {
					t.Errorf("%d octets allocated", n)
				}
				mark := fmt.Sprintf("[C%d]", number)
				r.log.wait(t, mark, "failed: "+string(tt.condition))
				if lines, _ := r.log.matching("SERVER", mark, "failed"); len(lines) != 1 {
					t.Errorf("log lines: %q, want one", lines)
				}
			})
		}
	}
	b.stop(t)
	r.healthy(t, before)
}
