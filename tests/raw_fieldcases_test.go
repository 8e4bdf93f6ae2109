package tests

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

// FC U02, CFG R29, RT E54: message sections that cannot be parsed.
func TestU02BrokenSections(t *testing.T) {
	random := make([]byte, 100)
	source := rand.NewChaCha8([32]byte{1})
	for range 3 { // of which none begins like a message
		_, _ = source.Read(random)
	}
	properties := (&amqp.Properties{To: amqp.Some("q"), Subject: amqp.Some("cut off")}).Append(nil)
	message := rawMessageTo("q", "whole")
	type broken struct {
		name    string
		payload []byte
		behind  bool // what a named target needs to be routed: may be passed on
	}
	tests := []broken{
		{"random octets", random, false},
		{"header longer than the payload", []byte{0x00, 0x53, 0x70, 0xc0, 200, 2, 0x41, 0x50, 4}, false},
		{"long header longer than the payload", []byte{0x00, 0x53, 0x70, 0xd0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 2, 0x41}, false},
		{"properties cut in half", properties[:len(properties)/2], true},
		{"message annotations a list", append([]byte{0x00, 0x53, 0x72, 0xc0, 3, 1, 0x52, 1}, message...), false},
		{"header a map", append([]byte{0x00, 0x53, 0x70, 0xc1, 1, 0}, message...), false},
		{"one octet", []byte{0x00}, false},
		{"another octet", []byte{0x80}, false},
		{"nothing", nil, false},
		{"sections in the wrong order", append([]byte{0x00, 0x53, 0x72, 0xc1, 1, 0, 0x00, 0x53, 0x70, 0x45}, message...), true},
		{"a section that does not exist", append([]byte{0x00, 0x53, 0x79, 0x45}, message...), false},
		{"to is no string", append([]byte{0x00, 0x53, 0x73, 0xc0, 5, 3, 0x40, 0x40, 0x52, 1}, rawMessage("x")...), true},
	}
	r := startRouter(t)
	before := r.counts()
	consumer := r.session(t)
	in := consumer.receiver("q", 1000)
	p := r.session(t)
	named, anonymous := p.sender("q"), p.anonymous()
	named.awaitCredit(250)
	anonymous.awaitCredit(250)
	for _, tt := range tests {
		for _, l := range []*rawLink{named, anonymous} {
			if l == named && tt.behind {
				continue
			}
			kind := map[*rawLink]string{named: "named", anonymous: "anonymous"}[l]
			check := func(t *testing.T, id uint32) {
				t.Helper()
				if got := p.outcomes(id)[id]; got != invalidMessage {
					t.Errorf("outcome %s, want %s", got, invalidMessage)
				}
				l.awaitCredit(250)
				r.quiet(t, p, consumer)
			}
			t.Run(kind+"/"+tt.name, func(t *testing.T) {
				check(t, l.send(tt.payload, false))
			})
			t.Run(kind+"/"+tt.name+", octet by octet", func(t *testing.T) {
				pieces := append(split(tt.payload, 1), nil) // the end comes by itself
				if len(pieces) == 1 {
					pieces = append(pieces, nil)
				}
				b, id := l.parts(pieces, nil)
				p.write(b[:len(b)-1]...)
				r.quiet(t, p, consumer) // it waits, and says nothing before it has all
				p.write(b[len(b)-1])
				check(t, id)
			})
		}
	}
	// The links live, and a good message in small pieces is one.
	for _, l := range []*rawLink{named, anonymous} {
		b, id := l.parts(split(message, 1), nil)
		p.write(b...)
		d := in.receive()
		if !bytes.Equal(d.payload, message) {
			t.Errorf("the message came as %x, want %x", d.payload, message)
		}
		in.settle(d, amqp.StateAccepted)
		if got := p.outcomes(id)[id]; got != "accepted" {
			t.Errorf("outcome %s, want accepted", got)
		}
	}
	p.close()
	consumer.close()
	r.healthy(t, before)
}

// Settled broken messages have no outcome, and their credit comes back too.
func TestU02BrokenSectionsSettled(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	in := p.receiver("q", 100)
	l := p.sender("q")
	l.awaitCredit(250)
	l.send([]byte{0x80}, true)
	l.awaitCredit(250)
	l.send(rawMessage("good"), true)
	if got := in.receive().body(); got != "good" {
		t.Errorf("received %q", got)
	}
	p.close()
	r.healthy(t, before)
}

// FC U04: transfers of one delivery that leave out what only the first needs,
// repeat it, or contradict it.
func TestU04ContinuationWithoutIDs(t *testing.T) {
	r := startRouter(t, withConn(func(o *router.ConnOptions) { o.MaxFrameSize = 512 }))
	before := r.counts()
	consumer := r.session(t)
	in := consumer.receiver("q", 100)
	payload := data(4990)
	pieces := split(payload, 500-20) // with room for the transfer
	if len(pieces) < 10 {
		t.Fatalf("%d pieces", len(pieces))
	}
	p := r.session(t)
	l := p.sender("q")
	l.awaitCredit(250)
	for name, repeat := range map[string]bool{"left out": false, "repeated": true} {
		t.Run(name, func(t *testing.T) {
			var first amqp.Transfer
			b, id := l.parts(pieces, func(i int, t *amqp.Transfer) {
				if i == 0 {
					t.MessageFormat = amqp.Some(uint32(0))
					first = *t
				} else if repeat {
					t.DeliveryID, t.DeliveryTag, t.MessageFormat = first.DeliveryID, first.DeliveryTag, first.MessageFormat
				}
			})
			p.write(b...)
			d := in.receive()
			if !bytes.Equal(d.payload, payload) {
				t.Errorf("a message of %d octets came, sent were %d", len(d.payload), len(payload))
			}
			in.settle(d, amqp.StateAccepted)
			if got := p.outcomes(id)[id]; got != "accepted" {
				t.Errorf("outcome %s", got)
			}
			l.awaitCredit(250)
			r.quiet(t, consumer, p)
		})
	}
	t.Run("another id", func(t *testing.T) {
		b, _ := l.parts(pieces, func(i int, t *amqp.Transfer) {
			if i == 1 {
				t.DeliveryID = amqp.Some(uint32(77))
			}
		})
		p.write(b...)
		p.closed("amqp:invalid-field", "invalid delivery-id for a continuation transfer")
		r.quiet(t, consumer)
	})
	consumer.close()
	r.healthy(t, before)
}

// FC U07, part 1: a receiver with much credit and a small session window.
func TestU07SessionWindow(t *testing.T) {
	for _, octets := range []int{20, 3000} { // one frame a message, and several
		t.Run(fmt.Sprint(octets, " octets"), func(t *testing.T) {
			r := startRouter(t)
			before := r.counts()
			p := r.dial(t)
			p.openWith(&amqp.Open{ContainerID: "raw", MaxFrameSize: amqp.Some(uint32(1024))})
			p.beginWith(0, &amqp.Begin{IncomingWindow: 5, OutgoingWindow: 1000})
			in := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("q")}}, 100)
			sender := r.session(t)
			l := sender.sender("q")
			l.awaitCredit(250)
			const count = 30
			messages := make([][]byte, count)
			for i := range messages {
				messages[i] = rawMessage(fmt.Sprintf("%0*d", octets, i))
			}
			l.sendAll(messages, true)
			var got []byte
			var frames int
			for whole := 0; whole < count; {
				r.flush(t, sender, p)
				n := in.waiting()
				if n > 5 {
					t.Fatalf("%d transfers in a window of 5", n)
				}
				if n == 0 {
					t.Fatalf("no transfer in a window of 5, after %d messages", whole)
				}
				for range n {
					f := in.nextTransfer()
					got = append(got, f.payload...)
					frames++
					if !f.body.(*amqp.Transfer).More {
						whole++
					}
				}
				var f amqp.Flow
				in.session.fill(&f)
				p.send(0, &f)
			}
			if !bytes.Equal(got, slices.Concat(messages...)) {
				t.Errorf("%d octets came in %d frames, and are not what was sent", len(got), frames)
			}
			r.flush(t, sender, p)
			sender.forgetFlows()
			r.quiet(t, sender, p)
			p.close()
			sender.close()
			r.healthy(t, before)
		})
	}
}

// A window that is narrowed and widened again: what the router may have sent
// by then, and no more.
func TestU07WindowClosedAndOpened(t *testing.T) {
	r := startRouter(t)
	p := r.open(t)
	p.beginWith(0, &amqp.Begin{IncomingWindow: 5, OutgoingWindow: 1000})
	in := p.receiver("q", 100)
	sender := r.session(t)
	l := sender.sender("q")
	l.awaitCredit(250)
	l.sendAll(numbered(20), true)
	r.flush(t, sender, p)
	if n := in.waiting(); n != 5 {
		t.Fatalf("%d transfers in a window of 5", n)
	}
	// As if only two of the five had come: three are on the way, and the window
	// of 2 is spent.
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(2)), IncomingWindow: 2, OutgoingWindow: 1000})
	r.flush(t, sender, p)
	if n := in.waiting(); n != 5 {
		t.Fatalf("%d transfers, want still 5", n)
	}
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(5)), IncomingWindow: 0, OutgoingWindow: 1000})
	r.flush(t, sender, p)
	if n := in.waiting(); n != 5 {
		t.Fatalf("%d transfers, want still 5", n)
	}
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(5)), IncomingWindow: 3, OutgoingWindow: 1000})
	r.flush(t, sender, p)
	if n := in.waiting(); n != 8 {
		t.Fatalf("%d transfers, want 8", n)
	}
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(8)), IncomingWindow: 0xffffffff, OutgoingWindow: 1000})
	if got := in.bodies(20); !slices.Equal(got, numbers(0, 20)) {
		t.Errorf("received %q", got)
	}
}

// FC U07, part 2: one delivery that is never settled holds up nothing.
func TestU07OneUnsettledAmongMany(t *testing.T) {
	const window = 2048
	const count = 12_000 // beyond any bound on what is kept for it
	r := startRouter(t)
	before := r.counts()
	p := r.open(t)
	p.beginWith(0, &amqp.Begin{IncomingWindow: window, OutgoingWindow: 1000})
	a, b := p.receiver("a", 100), p.receiver("b", 500)
	sender := r.session(t)
	la, lb := sender.sender("a"), sender.sender("b")
	la.awaitCredit(250)
	lb.awaitCredit(250)
	first := la.send(rawMessage("kept"), false)
	kept := a.receive()
	sent, outcomes := 0, 0
	for received := 0; received < count; {
		n := min(100, count-sent)
		id := lb.sendAll(numbered(n), false)
		sent += n
		for i := range n {
			d := b.receive()
			if got := d.body(); got != fmt.Sprint(i) {
				t.Fatalf("received %s, want %d, after %d", got, i, received)
			}
			b.settle(d, amqp.StateAccepted)
			received++
		}
		b.flow(500) // and the window with it
		if got := sender.outcomesFrom(id, n)["accepted"]; got != n {
			t.Fatalf("%d accepted, want %d", got, n)
		}
		outcomes += n
	}
	r.flush(t, p, sender)
	sender.forgetFlows()
	r.quiet(t, p, sender)
	a.settle(kept, amqp.StateReleased)
	if got := sender.outcomes(first)[first]; got != "released" {
		t.Errorf("outcome of the one kept is %s", got)
	}
	p.close()
	sender.close()
	r.healthy(t, before)
}

// FC U07, part 3: our own window never closes for good. The sender honours it
// to the frame.
func TestU07OwnWindow(t *testing.T) {
	const count = 70_000
	for _, frames := range []uint32{0, 10} {
		t.Run(fmt.Sprint("maxSessionFrames ", frames), func(t *testing.T) {
			r := startRouter(t, withConn(func(o *router.ConnOptions) { o.MaxSessionFrames = frames }))
			before := r.counts()
			consumer := r.session(t)
			in := consumer.receiver("q", 1<<30)
			got := make(chan int)
			go func() {
				n := 0
				defer func() { got <- n }()
				for n < count {
					f, err := consumer.read(longAway())
					if err != nil {
						return
					}
					if tr, ok := f.body.(*amqp.Transfer); ok && tr.Handle == in.attach.Handle {
						n++
					}
				}
			}()
			p := r.session(t)
			l := p.sender("q")
			f := l.awaitCredit(250)
			if frames != 0 && f.IncomingWindow > frames {
				t.Errorf("a window of %d", f.IncomingWindow)
			}
			for sent := 0; sent < count; {
				room := min(int(int32(l.session.inLimit-l.session.nextOutgoing)), l.creditOf(f), count-sent)
				if room == 0 {
					take := func(fr rawFrame) bool {
						fl, ok := fr.body.(*amqp.Flow)
						if ok && fl.Handle.Set {
							f = fl
						}
						return ok
					}
					p.take(fmt.Sprintf("a flow after %d messages", sent), take)
					continue
				}
				l.sendAll(slices.Repeat([][]byte{rawMessage("x")}, room), true)
				sent += room
			}
			if n := <-got; n != count {
				t.Errorf("%d messages came, want %d", n, count)
			}
			consumer.held = nil
			consumer.close()
			p.close()
			r.healthy(t, before)
		})
	}
}

// FC U08 a–c: the shape of a refused attach. After each a good one works, in
// the same session.
func TestU08RefusedAttach(t *testing.T) {
	r := startRouter(t, withDistributions(router.Unavailable))
	before := r.counts()
	p := r.session(t)
	good := func(t *testing.T) {
		t.Helper()
		in := p.receiver("balanced/q", 10)
		out := p.sender("balanced/q")
		out.awaitCredit(250)
		id := out.send(rawMessage("x"), false)
		in.settle(in.receive(), amqp.StateAccepted)
		if got := p.outcomes(id)[id]; got != "accepted" {
			t.Errorf("outcome %s on the good link", got)
		}
		out.awaitCredit(250)
		in.detach(true)
		out.detach(true)
		r.quiet(t, p)
	}
	// first says which of attach and detach came first.
	attachFirst := func(t *testing.T, a *amqp.Attach) *rawLink {
		t.Helper()
		a.Handle = p.sessions[0].handles
		p.sessions[0].handles++
		a.Name = t.Name()
		p.send(0, a)
		reply := expect[*amqp.Attach](p)
		if reply.Name != a.Name || reply.Role == a.Role {
			t.Errorf("answered with an attach of %q, role %s", reply.Name, reply.Role)
		}
		return &rawLink{p: p, handle: a.Handle, session: p.sessions[0], attach: reply, name: a.Name}
	}
	source := &amqp.Source{Address: amqp.Some("mine"), Durable: amqp.Some(uint32(1)), ExpiryPolicy: "never"}
	target := &amqp.Target{Address: amqp.Some("mine"), Durable: amqp.Some(uint32(1)), ExpiryPolicy: "never"}
	t.Run("a: sender to an unknown address", func(t *testing.T) {
		l := attachFirst(t, &amqp.Attach{Source: source, Target: &amqp.Target{Address: amqp.Some("unknown")}})
		if l.attach.Target != nil {
			t.Errorf("target %+v, want none", l.attach.Target)
		}
		if s := l.attach.Source; s == nil || s.Address != source.Address || s.Durable != source.Durable || s.ExpiryPolicy != source.ExpiryPolicy {
			t.Errorf("source %+v, want it as it was sent", s)
		}
		l.refused("amqp:not-found", "Node not found")
		good(t)
	})
	t.Run("b: receiver from an unknown address", func(t *testing.T) {
		l := attachFirst(t, &amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some("unknown")}, Target: target})
		if l.attach.Source != nil {
			t.Errorf("source %+v, want none", l.attach.Source)
		}
		if s := l.attach.Target; s == nil || s.Address != target.Address || s.Durable != target.Durable || s.ExpiryPolicy != target.ExpiryPolicy {
			t.Errorf("target %+v, want it as it was sent", s)
		}
		l.refused("amqp:not-found", "Node not found")
		good(t)
	})
	t.Run("c: sender with a coordinator", func(t *testing.T) {
		l := attachFirst(t, &amqp.Attach{Source: source, Coordinator: &amqp.Coordinator{
			Capabilities: amqp.AppendValue(nil, amqp.Symbol("amqp:local-transactions"))}})
		if l.attach.Target != nil || l.attach.Coordinator != nil {
			t.Errorf("target %+v, coordinator %+v, want none", l.attach.Target, l.attach.Coordinator)
		}
		if s := l.attach.Source; s == nil || s.Address != source.Address {
			t.Errorf("source %+v, want it as it was sent", s)
		}
		l.refused("amqp:precondition-failed",
			"The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured to use transactions.")
		good(t)
	})
	t.Run("flows and transfers for a refused link", func(t *testing.T) {
		p.sessions[0].handles += 2
		h := p.sessions[0].handles
		var b []byte
		b = append(b, frame(0, &amqp.Attach{Name: "hasty", Handle: h, Source: source, Target: &amqp.Target{Address: amqp.Some("unknown")},
			InitialDeliveryCount: amqp.Some(uint32(0))})...)
		b = append(b, frame(0, &amqp.Attach{Name: "hasty", Handle: h + 1, Role: amqp.RoleReceiver,
			Source: &amqp.Source{Address: amqp.Some("unknown")}, Target: target})...)
		f := &amqp.Flow{Handle: amqp.Some(h + 1), LinkCredit: amqp.Some(uint32(10))}
		p.sessions[0].fill(f)
		b = append(b, frame(0, f)...)
		p.write(b)
		for range 2 {
			take[*amqp.Attach](p)
			if d := take[*amqp.Detach](p); d.Error == nil || d.Error.Condition != "amqp:not-found" {
				t.Errorf("detach with %v", d.Error)
			}
		}
		f.Handle = amqp.Some(h + 1)
		p.send(0, f, &amqp.Detach{Handle: h + 1, Closed: true}, &amqp.Detach{Handle: h, Closed: true})
		p.sessions[0].handles += 2
		good(t)
	})
	p.close()
	r.healthy(t, before)
}

// FC U10: what a peer sends on a link before it has read our detach is ignored, frame by frame of a
// message too, and the session's window and delivery ids go on.
func TestU10FramesBehindOurDetach(t *testing.T) {
	r := startRouter(t, withDistributions(router.Unavailable))
	before := r.counts()
	p := r.session(t)
	l := p.sender("unknown")
	b, id := l.encode(rawMessage("late"), false)
	first, second := l.start(), l.start()
	parts, end := first, first
	parts.More, end.DeliveryID, end.DeliveryTag = true, amqp.Opt[uint32]{}, nil
	second.More, second.Settled = true, amqp.Some(true) // never finished
	message := data(20_000)
	p.write(b, l.frame(parts, message[:10_000]), l.frame(end, message[10_000:]), l.frame(second, message[:10_000]))
	l.flow(5)
	l.flowWith(amqp.Flow{Drain: true, Echo: true, LinkCredit: amqp.Some(uint32(5))})
	p.send(0, &amqp.Disposition{Role: amqp.RoleSender, First: id, Last: amqp.Some(id + 2), Settled: true})
	p.barrier()
	l.refused("amqp:not-found", "Node not found")
	p.forgetFlows()

	in := p.receiver("balanced/q", 10)
	out := p.sender("balanced/q")
	out.awaitCredit(250)
	good := out.send(rawMessage("good"), false)
	if got := in.receive(); got.body() != "good" {
		t.Errorf("received %q", got.body())
	} else {
		in.settle(got, amqp.StateAccepted)
	}
	if got := p.outcomes(good)[good]; got != "accepted" {
		t.Errorf("outcome %s on the good link", got)
	}
	p.close()
	r.healthy(t, before)
}

// FC U17, RT F71: a sender settles what a consumer never does.
func TestU17SenderGivesUp(t *testing.T) {
	for name, state := range map[string]amqp.Raw{"no state": nil, "released": amqp.StateReleased} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t, withCapacity(10))
			before := r.counts()
			consumer := r.session(t)
			in := consumer.receiver("q", 1000)
			p := r.session(t)
			l := p.sender("q")
			l.awaitCredit(10)
			first := l.sendAll(numbered(10), false)
			if got := in.bodies(10); !slices.Equal(got, numbers(0, 10)) {
				t.Fatalf("received %q", got)
			}
			r.quiet(t, consumer, p) // no credit, no outcome
			l.dispose(first, first+9, true, state)
			l.awaitCredit(10)
			settled := map[uint32]string{}
			for len(settled) < 10 {
				d := take[*amqp.Disposition](consumer)
				if d.Role != amqp.RoleSender || !d.Settled {
					t.Fatalf("consumer got %+v, want the sender's settlement", d)
				}
				for id := d.First; ; id++ {
					settled[id] = stateText(d.State)
					if id == d.Last.Or(d.First) {
						break
					}
				}
			}
			for id, got := range settled {
				if got != stateText(state) {
					t.Errorf("consumer's delivery %d settled with %s, want %s", id, got, stateText(state))
				}
			}
			second := l.sendAll(numbered(10), false)
			var held []*rawDelivery
			for range 10 {
				held = append(held, in.receive())
			}
			r.quiet(t, consumer, p)
			for _, name := range []string{l.name, in.name} {
				if i := r.link(t, name); i.Unsettled != 10 || i.Undelivered != 0 || i.Stuck != 0 {
					t.Errorf("link %s: %d unsettled, %d undelivered, %d stuck, want 10, 0, 0", name, i.Unsettled, i.Undelivered, i.Stuck)
				}
			}
			// The consumer's late word on what is settled means nothing.
			in.dispose(0, 9, true, amqp.StateAccepted)
			r.quiet(t, consumer, p)
			for _, d := range held {
				in.settle(d, amqp.StateAccepted)
			}
			if got := p.outcomesFrom(second, 10)["accepted"]; got != 10 {
				t.Errorf("%d accepted of the second ten", got)
			}
			l.awaitCredit(10)
			for _, name := range []string{l.name, in.name} {
				if i := r.link(t, name); i.Unsettled != 0 {
					t.Errorf("link %s: %d unsettled at the end", name, i.Unsettled)
				}
			}
			consumer.close()
			p.close()
			r.healthy(t, before)
		})
	}
}
