package router

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
)

// octetPattern is n octets in which a piece that is missing, doubled or moved shows.
func octetPattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + i>>16*31)
	}
	return b
}

// bigMessage is a message of one data section with n octets.
func bigMessage(n int) []byte {
	return amqp.AppendBinary([]byte{0, 0x53, amqp.CodeData}, octetPattern(n))
}

// streamRig has a sender and a receiver of one address.
func streamRig(t *testing.T, credit uint32) (g *rig, s, r *end) {
	g = newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r = b.receiver("q", credit)
	return g, a.sender("q"), r
}

// TestStreamBegins: a message is forwarded while it arrives from 131072 octets on, and a shorter
// one when it is complete (RT F59).
func TestStreamBegins(t *testing.T) {
	g, s, r := streamRig(t, 10)
	m := bigMessage(300000)
	x := s.start(&amqp.OutDelivery{})
	x.more(m[:131071])
	g.run()
	if len(r.got) != 0 {
		t.Fatalf("%d octets came out", len(r.got[0].payload))
	}
	x.more(m[131071:131072])
	g.run()
	if len(r.got) != 1 || len(r.got[0].payload) != 131072 || r.got[0].whole {
		t.Fatalf("got %+v", r.got)
	}
	x.more(m[131072:200000])
	g.run()
	if len(r.got[0].payload) != 200000 {
		t.Errorf("%d octets came out, want 200000", len(r.got[0].payload))
	}
	x.last(m[200000:])
	g.run()
	if d := r.got[0]; !d.whole || !bytes.Equal(d.payload, m) {
		t.Errorf("whole %v, %d octets", d.whole, len(d.payload))
	}
	wantSaid(t, []*sent{x.sent})
	r.say(0, 0, amqp.StateAccepted, true)
	wantSaid(t, []*sent{x.sent}, "accepted settled")
	s.wantCredit(t, 250, false)

	x = s.start(&amqp.OutDelivery{})
	x.more(m[:100000])
	x.last(m[100000:131000])
	g.run()
	if len(r.got) != 2 || !r.got[1].whole || len(r.got[1].payload) != 131000 {
		t.Errorf("a shorter message: %+v", r.got[1:])
	}
}

// TestStreamMarked: a message that another router marked as a stream is forwarded from its first
// frame on (RT F59), unless annotations are stripped.
func TestStreamMarked(t *testing.T) {
	marked := []byte("\x00\x53\x72" + mapOf(sym("x-opt-qd.stream"), "\x54\x01"))
	marked = append(marked, plain("body")...)
	for _, strip := range []bool{false, true} {
		g := newRig(t, nil)
		a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripIn = strip })
		r := g.peer(nil).receiver("q", 10)
		s := a.sender("q")
		x := s.start(&amqp.OutDelivery{})
		x.more(marked[:len(marked)-2])
		g.run()
		if (len(r.got) == 0) != strip {
			t.Errorf("strip %v: got %+v", strip, r.got)
		}
		x.last(marked[len(marked)-2:])
		g.run()
		wantBodies(t, r, "body")
	}
}

// TestStreamSizes: messages of all kinds of sizes, cut into all kinds of frames, through wires
// that take all kinds of portions, arrive as they were.
func TestStreamSizes(t *testing.T) {
	for _, strip := range []bool{true, false} {
		for _, frame := range []uint32{512, 1000, 16384, 100000} {
			for _, once := range []int{0, 1000, 40000} {
				g := newRig(t, nil)
				a := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) {
					o.MaxFrameSize = frame
					cfg.MaxFrameSize = frame
				})
				a.read = once
				b := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) {
					o.StripOut = strip
					cfg.MaxFrameSize = 100512 - frame
				})
				b.w.once = once
				r := b.receiver("q", 100)
				s := a.sender("q")
				for i, n := range []int{0, 1, 400, 16300, 16384, 131064, 131072, 131080, 500000} {
					m := bigMessage(n)
					s.transfer(&amqp.OutDelivery{Settled: i%2 == 0}, m)
					g.run()
					if len(r.got) != i+1 || !r.got[i].whole {
						t.Fatalf("frames of %d, portions of %d: message of %d did not come", frame, once, n)
					}
					got := r.got[i].payload
					if strip && !bytes.Equal(got, m) || !strip && !bytes.HasSuffix(got, m) {
						t.Errorf("frames of %d, portions of %d: message of %d came changed", frame, once, n)
					}
				}
			}
		}
	}
}

// TestStreamWaits: while a stream is at the head of a link the deliveries after it wait, of
// whatever sender; other links do not (RT F61).
func TestStreamWaits(t *testing.T) {
	g, s, r := streamRig(t, 10)
	a, b := s.p, r.p
	other := g.peer(nil).sender("q")
	free := b.receiver("free", 10)
	m := bigMessage(200000)
	x := s.start(&amqp.OutDelivery{})
	x.more(m[:140000])
	g.run()
	y := other.send("after")
	a.sender("free").send("free")
	g.run()
	wantBodies(t, free, "free")
	if len(r.got) != 1 {
		t.Errorf("%d deliveries began", len(r.got))
	}
	x.last(m[140000:])
	g.run()
	if len(r.got) != 2 || !bytes.Equal(r.got[0].payload, m) || bodyOf(r.got[1].payload) != "after" {
		t.Errorf("got %d deliveries", len(r.got))
	}
	r.say(0, 1, amqp.StateAccepted, true)
	wantSaid(t, []*sent{x.sent, y}, "accepted settled")
}

// TestStreamBackPressure: what waits of streams is bounded by the sender's session window, which
// opens again when the receiver goes on (RT F63).
func TestStreamBackPressure(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	b := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.SessionFrames = 1 })
	b.holdWin = true
	r := b.receiver("q", 10)
	s := a.sender("q")
	m := bigMessage(20 << 20)
	x := s.start(&amqp.OutDelivery{})
	fed := 0
	sess := s.in().sess
	var most int64
	step := func() bool {
		n := min(len(m)-fed, 60000)
		if n > 0 {
			n = x.some(m[fed:fed+n], fed+n == len(m))
		}
		fed += n
		return n > 0
	}
	for step() {
		g.run()
		most = max(most, sess.held.Load())
	}
	if fed == len(m) {
		t.Fatal("the sender was never stopped")
	}
	// A window that was granted is honoured, and no more is granted.
	if bound := int64(heldHigh + windowOctets); most > bound {
		t.Errorf("%d octets waited, bound %d", most, bound)
	}
	if !sess.holding.Load() || !sess.s.Hold {
		t.Errorf("holding %v, Hold %v", sess.holding.Load(), sess.s.Hold)
	}
	for range 10000 {
		b.s.FlowDue() // takes one more frame
		g.run()
		for step() {
			g.run()
		}
		if r.got[0].whole {
			break
		}
	}
	if d := r.got[0]; !d.whole || !bytes.Equal(d.payload, m) {
		t.Fatalf("%d of %d octets came, %d were fed; held %d", len(d.payload), len(m), fed, sess.held.Load())
	}
	if sess.held.Load() != 0 || sess.holding.Load() || sess.s.Hold {
		t.Errorf("after all: held %d, holding %v, Hold %v", sess.held.Load(), sess.holding.Load(), sess.s.Hold)
	}
	r.say(0, 0, amqp.StateAccepted, true)
	wantSaid(t, []*sent{x.sent}, "accepted settled")
}

// TestStreamAborted: receivers that got frames get the abort, others see nothing and keep their
// credit; the delivery has no outcome and later ones are not affected (RT F66).
func TestStreamAborted(t *testing.T) {
	for way, abort := range map[string]func(*sending){
		"abort":  func(x *sending) { x.abort(); x.e.p.g.run() },
		"detach": func(x *sending) { x.e.close() },
		"end":    func(x *sending) { loseWays["end"](x.e) },
		"drop":   func(x *sending) { loseWays["drop"](x.e) },
		"close":  func(x *sending) { loseWays["close"](x.e) },
	} {
		for _, settled := range []bool{false, true} {
			for _, length := range []int{1000, 200000} {
				t.Run(fmt.Sprintf("%s, settled %v, %d octets", way, settled, length), func(t *testing.T) {
					g := newRig(t, nil, AddressConfig{Prefix: "q", Distribution: Multicast, Priority: -1})
					a := g.peer(nil)
					r, none := g.peer(nil).receiver("q", 10), g.peer(nil).receiver("q", 0)
					s := a.sender("q")
					x := s.start(&amqp.OutDelivery{Settled: settled})
					x.more(bigMessage(length)[:length-5])
					g.run()
					abort(x)
					if length < streamAt {
						if len(r.got) != 0 {
							t.Errorf("a message that was never whole came out")
						}
					} else if len(r.got) != 1 || !r.got[0].aborted || r.got[0].whole {
						t.Errorf("got %+v", r.got)
					}
					if x.said != nil {
						t.Errorf("the sender heard %q", x.said)
					}
					if way == "abort" {
						s.wantCredit(t, 250, false)
					} else {
						s = g.peer(nil).sender("q")
					}
					y := s.send("after")
					g.run()
					none.grant(1)
					wantBodies(t, r, "after")
					wantBodies(t, none, "after")
					for _, e := range []*end{r, none} {
						if i := e.info(); i.Unsettled != 1 || i.Undelivered != 0 || e.out().load.Load() != 1 {
							t.Errorf("load %d, counts %+v", e.out().load.Load(), i)
						}
						e.say(len(e.got)-1, len(e.got)-1, amqp.StateAccepted, true)
					}
					wantSaid(t, []*sent{y}, "accepted settled")
					if n := none.l.CreditOut(); n != 0 {
						t.Errorf("credit %d is left", n)
					}
					s.wantCredit(t, 250, false)
				})
			}
		}
	}
}

// TestStreamToNobody: a long message that nobody takes is read to its end and then released, or
// dropped, and the sender drained (RT F69, E47).
func TestStreamToNobody(t *testing.T) {
	for _, settled := range []bool{false, true} {
		g, s, r := streamRig(t, 1)
		r.close()
		m := bigMessage(3 << 20)
		x := s.transfer(&amqp.OutDelivery{Settled: settled}, m)
		g.run()
		if !settled {
			wantSaid(t, []*sent{x}, "released settled")
		}
		s.wantCredit(t, 249, true)
		if i := s.info(); i.Deliveries != 1 || settled && i.DroppedPresettled != 1 || !settled && i.Released != 1 || i.Unsettled != 0 {
			t.Errorf("counts %+v", i)
		}
		if n := s.in().sess.held.Load(); n != 0 {
			t.Errorf("%d octets are held", n)
		}
		y := s.start(&amqp.OutDelivery{Settled: settled}) // and given up
		y.more(m[:200000])
		y.abort()
		g.run()
		if y.said != nil {
			t.Errorf("of an aborted one the sender heard %q", y.said)
		}
		r = r.p.receiver("q", 10)
		s.wantCredit(t, 250, false)
		s.send("after")
		g.run()
		wantBodies(t, r, "after")
	}
}

// TestStreamReceiverGone: its message counts as released, though parts of it were sent; the rest
// is read and dropped, and settlement follows the last frame (RT 2.9, F57).
func TestStreamReceiverGone(t *testing.T) {
	for way, lose := range loseWays {
		for _, settled := range []bool{false, true} {
			t.Run(fmt.Sprint(way, " ", settled), func(t *testing.T) {
				g, s, r := streamRig(t, 10)
				m := bigMessage(3 << 20)
				x := s.start(&amqp.OutDelivery{Settled: settled})
				x.more(m[:1<<20])
				g.run()
				if len(r.got) != 1 {
					t.Fatal("nothing came")
				}
				out := r.out()
				lose(r)
				if settled {
					wantSaid(t, []*sent{x.sent})
				} else {
					wantSaid(t, []*sent{x.sent}, "released")
				}
				x.more(m[1<<20 : 2<<20])
				g.run()
				x.last(m[2<<20:])
				g.run()
				if !settled {
					wantSaid(t, []*sent{x.sent}, "released", "released settled")
				}
				if n := s.in().sess.held.Load(); n != 0 || out.load.Load() != 0 {
					t.Errorf("%d octets are held, load %d", n, out.load.Load())
				}
				r = g.peer(nil).receiver("q", 10)
				s.wantCredit(t, 250, false)
				s.send("after")
				g.run()
				wantBodies(t, r, "after")
			})
		}
	}
}

// TestStreamSettledOnTheWay: a receiver may decide before the end; the state goes on at once,
// settlement after the last frame (RT F57).
func TestStreamSettledOnTheWay(t *testing.T) {
	g, s, r := streamRig(t, 10)
	m := bigMessage(400000)
	x := s.start(&amqp.OutDelivery{})
	x.more(m[:200000])
	g.run()
	r.say(0, 0, stateRejected, true)
	wantSaid(t, []*sent{x.sent}, `rejected app:bad "no good"`)
	x.more(m[200000:300000])
	g.run()
	x.last(m[300000:])
	g.run()
	wantSaid(t, []*sent{x.sent}, `rejected app:bad "no good"`, `rejected app:bad "no good" settled`)
	if !bytes.Equal(r.got[0].payload, m) || !r.got[0].whole {
		t.Error("the rest was not sent")
	}
	s.wantCredit(t, 250, false)
	if n := r.out().load.Load(); n != 0 || r.info().Unsettled != 0 {
		t.Errorf("load %d, counts %+v", n, r.info())
	}
	s.send("after")
	g.run()
	r.say(1, 1, amqp.StateAccepted, true)
	if n := r.out().load.Load(); n != 0 {
		t.Errorf("load %d", n)
	}
}

// TestStreamSettledLate: a delivery that its sender settles while it arrives, by a later frame
// or by disposition, is settled when it is complete (RT F67).
func TestStreamSettledLate(t *testing.T) {
	for _, way := range []string{"frame", "disposition"} {
		for _, length := range []int{3000, 200000} {
			t.Run(fmt.Sprint(way, " ", length), func(t *testing.T) {
				g, s, r := streamRig(t, 10)
				m := bigMessage(length)
				x := s.start(&amqp.OutDelivery{})
				x.more(m[:length-1000])
				g.run()
				if way == "frame" {
					s.p.eng.Out = amqp.AppendTransferFrame(s.p.eng.Out, 0, &amqp.Transfer{Handle: s.l.Handle(), Settled: amqp.Some(true), More: true}, m[length-1000:length-500])
					s.p.eng.Out = amqp.AppendTransferFrame(s.p.eng.Out, 0, &amqp.Transfer{Handle: s.l.Handle()}, m[length-500:])
				} else {
					x.say(s.p, nil, true)
					if len(r.got) > 0 && r.got[0].said != nil {
						t.Errorf("settled before it was complete: %q", r.got[0].said)
					}
					x.last(m[length-1000:])
				}
				g.run()
				d := r.got[0]
				if !d.whole || !bytes.Equal(d.payload, m) {
					t.Fatalf("got %d octets, whole %v", len(d.payload), d.whole)
				}
				if !d.settled && !slices.Equal(d.said, []string{"nothing settled"}) {
					t.Errorf("the receiver's delivery is not settled: %v %q", d.settled, d.said)
				}
				wantSaid(t, []*sent{x.sent})
				if in, out := s.info(), r.info(); in.Unsettled != 0 || out.Unsettled != 0 || r.out().load.Load() != 0 {
					t.Errorf("load %d, in %+v, out %+v", r.out().load.Load(), in, out)
				}
				if way == "disposition" {
					s.wantCredit(t, 250, false)
				}
			})
		}
	}
}

// TestStreamForSubscriber: consumers in this process get whole messages only (RT F62).
func TestStreamForSubscriber(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	var took []*Request
	cancel := g.r.Subscribe("q", false, func(q *Request) { took = append(took, q) })
	defer cancel()
	s := a.sender("q")
	m := bigMessage(3 << 20)
	x := s.start(&amqp.OutDelivery{})
	x.more(m[:2<<20])
	g.run()
	if took != nil {
		t.Fatal("part of a message came")
	}
	x.last(m[2<<20:])
	g.run()
	if len(took) != 1 || !bytes.Equal(took[0].Message, m) {
		t.Fatalf("took %d messages", len(took))
	}
	took[0].Settle(amqp.StateAccepted)
	g.run()
	wantSaid(t, []*sent{x.sent}, "accepted settled")

	x = s.start(&amqp.OutDelivery{}) // beyond all measure
	piece := octetPattern(1 << 20)
	x.more(m[:1<<20])
	for range wholeMax >> 20 {
		x.more(piece)
		g.run()
	}
	x.last(piece)
	g.run()
	wantSaid(t, []*sent{x.sent}, `rejected amqp:link:message-size-exceeded "Message size exceeded" settled`)
	s.wantCredit(t, 250, false)
	if len(took) != 1 {
		t.Error("it was handed over")
	}
}

// TestStreamRefused: what is wrong with a long message is found when its sections are there, and
// the sender hears it at the end (RT 1.9).
func TestStreamRefused(t *testing.T) {
	tests := []struct {
		name string
		head []byte
		want string
	}{
		{"no section", []byte("\x00\x53\x99"), `rejected amqp:decode-error "invalid message format" settled`},
		{"sections without end", append([]byte("\x00\x53\x72\xd1\x00\x20\x00\x00\x00\x00\x00\x02"+sym("k")+"\xb1\x00\x1f\xff\x00"), make([]byte, 1100000)...), `rejected amqp:decode-error "invalid message format" settled`},
		{"bad annotations", []byte("\x00\x53\x72" + mapOf(sym("x-opt-qd.to"), "\x43")), `rejected amqp:invalid-field "to-override not a valid string type" settled`},
		{"looped", []byte("\x00\x53\x72" + mapOf(sym("x-opt-qd.trace"), listOf(str("0/A"), str("0/B")))), "released settled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, nil)
			a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripIn = false })
			r := g.peer(nil).receiver("q", 10)
			s := a.sender("q")
			x := s.start(&amqp.OutDelivery{})
			x.more(tt.head)
			g.run()
			x.more(bigMessage(400000))
			g.run()
			wantSaid(t, []*sent{x.sent})
			x.last([]byte("x"))
			g.run()
			wantSaid(t, []*sent{x.sent}, tt.want)
			s.wantCredit(t, 250, false)
			if len(r.got) != 0 {
				t.Errorf("it was forwarded: %+v", r.got)
			}
			warned := 0
			for _, line := range g.log.take("ROUTER") {
				if strings.Contains(line, "invalid MA section") {
					warned++
				}
			}
			if want := map[bool]int{true: 1}[tt.name == "bad annotations"]; warned != want {
				t.Errorf("%d warnings, want %d", warned, want)
			}
		})
	}
}

// TestManyStreams: streams of one sender to several receivers, and of several senders to one,
// all at a time.
func TestManyStreams(t *testing.T) {
	g := newRig(t, nil)
	m := bigMessage(1 << 20)
	var all []*sending
	var ends []*end
	for i := range 3 {
		ends = append(ends, g.peer(nil).receiver(fmt.Sprint("q", i), 10))
	}
	for range 3 {
		a := g.peer(nil)
		for i := range 3 {
			all = append(all, a.sender(fmt.Sprint("q", i)).start(&amqp.OutDelivery{}))
		}
	}
	for at := 0; at < len(m); at += 1 << 16 {
		for _, x := range all {
			x.frames(m[at:at+min(1<<16, len(m)-at)], at+1<<16 >= len(m))
			g.run()
		}
	}
	for _, r := range ends {
		if len(r.got) != 3 {
			t.Fatalf("got %d messages", len(r.got))
		}
		for _, d := range r.got {
			if !d.whole || !bytes.Equal(d.payload, m) {
				t.Errorf("whole %v, %d octets", d.whole, len(d.payload))
			}
		}
		r.say(0, 2, amqp.StateAccepted, true)
	}
	for _, x := range all {
		wantSaid(t, []*sent{x.sent}, "accepted settled")
		if n := x.e.in().sess.held.Load(); n != 0 {
			t.Errorf("%d octets are held", n)
		}
	}
}

// TestStreamToBrokenSocket: the receiver's socket breaks in the middle of a stream; its sender is
// told, and nothing is given back twice.
func TestStreamToBrokenSocket(t *testing.T) {
	for _, settled := range []bool{false, true} {
		g, s, r := streamRig(t, 10)
		s.p.read = 20000
		m := bigMessage(600000)
		x := s.start(&amqp.OutDelivery{Settled: settled})
		x.more(m[:150000])
		g.run()
		out := r.out()
		r.p.w.mu.Lock()
		r.p.w.err = errors.New("broken pipe")
		r.p.w.mu.Unlock()
		x.more(m[150000:400000])
		y := s.p.sender("q") // to the same link, not yet closed
		y.sendN(3)
		g.run()
		x.last(m[400000:])
		g.run()
		if !settled {
			wantSaid(t, []*sent{x.sent}, "released", "released settled")
		}
		if n := out.load.Load(); n != 0 {
			t.Errorf("settled %v: load %d is left", settled, n)
		}
		if n := s.in().sess.held.Load(); n != 0 {
			t.Errorf("%d octets are held", n)
		}
		g.peer(nil).receiver("q", 10)
		s.wantCredit(t, 250, false)
		y.wantCredit(t, 250, false)
	}
}

// TestStreamingLinkReturns: a link that a stream has for itself goes back to its pool when the
// stream has arrived or was given up, once, and without the locks of two connections at a time.
func TestStreamingLinkReturns(t *testing.T) {
	ways := map[string]func(*sending){
		"last":   func(x *sending) { x.last([]byte("x")) },
		"abort":  func(x *sending) { x.abort() },
		"detach": func(x *sending) { x.e.l.Detach(true, nil) },
		"end":    func(x *sending) { x.e.p.s.End(nil) },
		"close":  func(x *sending) { x.e.p.eng.Close(nil) },
	}
	for way, end := range ways {
		t.Run(way, func(t *testing.T) {
			g := newRig(t, nil)
			a, b := g.peer(nil), g.peer(nil)
			r := b.receiver("q", 10)
			s := a.sender("q")
			out := r.out()
			near := &neighbour{c: b.c, idle: []*outLink{out}}
			b.c.streams = true
			out.kind, out.near = linkStream, near // as of a connection to another router
			defer func() { out.kind, out.near = linkEndpoint, nil }()
			x := s.start(&amqp.OutDelivery{})
			x.more(bigMessage(200000))
			g.run()
			if len(near.idle) != 0 || len(r.got) != 1 {
				t.Fatalf("idle %v, got %d", near.idle, len(r.got))
			}
			in := s.in()
			end(x)
			b.c.mu.Lock()
			done := make(chan struct{})
			go func() { a.pump(); close(done) }()
			eventually(t, "the end, as far as it concerns the sender's connection", func() bool {
				if !a.c.mu.TryLock() {
					return false
				}
				defer a.c.mu.Unlock()
				return in.closed || way == "last" || way == "abort"
			})
			b.c.mu.Unlock()
			<-done
			g.run()
			if !slices.Equal(near.idle, []*outLink{out}) {
				t.Errorf("idle %v", near.idle)
			}
		})
	}
}
