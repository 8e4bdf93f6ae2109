package broker_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/amqp/sasl"
	"qdrouter/tests/internal/broker"
)

// peer is a client that a test scripts frame by frame.
type peer struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

// connect connects and sends nothing.
func connect(t *testing.T, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetReadDeadline(time.Now().Add(limit))
	return &peer{t, nc, bufio.NewReader(nc)}
}

// open connects, opens the connection and begins a session on channel 0.
func open(t *testing.T, addr string) *peer {
	t.Helper()
	p := connect(t, addr)
	p.nc.Write(amqp.HeaderAMQP[:])
	p.header(amqp.HeaderAMQP)
	p.send(&amqp.Open{ContainerID: "peer"})
	want[*amqp.Open](p)
	p.begin()
	return p
}

func (p *peer) begin() *amqp.Begin {
	p.t.Helper()
	p.send(&amqp.Begin{IncomingWindow: 1000, OutgoingWindow: 1000})
	return want[*amqp.Begin](p)
}

func (p *peer) header(wanted amqp.ProtocolHeader) {
	p.t.Helper()
	var h amqp.ProtocolHeader
	if _, err := io.ReadFull(p.in, h[:]); err != nil || h != wanted {
		p.t.Fatalf("header %q, %v, want %q", h[:], err, wanted[:])
	}
}

// send sends frames.
func (p *peer) send(list ...amqp.Performative) {
	p.t.Helper()
	var b []byte
	for _, f := range list {
		b = amqp.AppendFrame(b, amqp.FrameAMQP, 0, f)
	}
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// transfer sends a transfer.
func (p *peer) transfer(t *amqp.Transfer, payload []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(amqp.AppendTransferFrame(nil, 0, t, payload)); err != nil {
		p.t.Fatal(err)
	}
}

// next reads a frame.
func (p *peer) next() (amqp.Performative, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return nil, nil, err
	}
	h, _, err := amqp.ParseFrameHeader(head[:], 1<<20)
	if err != nil {
		return nil, nil, err
	}
	body := make([]byte, h.Size-8)
	if _, err := io.ReadFull(p.in, body); err != nil {
		return nil, nil, err
	}
	if h.Type == amqp.FrameSASL {
		f, _, err := amqp.DecodeSASL(body)
		return f, nil, err
	}
	f, n, err := amqp.DecodePerformative(body)
	return f, body[n:], err
}

// want takes a frame of that kind; the next that is no flow, unless flows are
// wanted, must be it.
func want[P amqp.Performative](p *peer) P {
	p.t.Helper()
	f, _ := wantPayload[P](p)
	return f
}

func wantPayload[P amqp.Performative](p *peer) (P, []byte) {
	p.t.Helper()
	for {
		f, payload, err := p.next()
		if err != nil {
			p.t.Fatalf("%v, want %v", err, reflect.TypeFor[P]())
		}
		if got, ok := f.(P); ok {
			return got, payload
		}
		if _, flow := f.(*amqp.Flow); !flow {
			p.t.Fatalf("%T%+v, want %v", f, f, reflect.TypeFor[P]())
		}
	}
}

// flow reads until a flow is as wanted.
func (p *peer) flow(wanted func(*amqp.Flow) bool) {
	p.t.Helper()
	for {
		f, _, err := p.next()
		if err != nil {
			p.t.Fatal(err)
		}
		if flow, ok := f.(*amqp.Flow); ok && wanted(flow) {
			return
		}
	}
}

// ended wants the end of the connection.
func (p *peer) ended() {
	p.t.Helper()
	if f, _, err := p.next(); err == nil {
		p.t.Fatalf("%T%+v, want the end", f, f)
	}
}

func message(body any) []byte { return (&amqp.Message{Body: body}).Append(nil) }

// durableReceiver is the attach of a receiver that is to be resumed.
func durableReceiver(unsettled amqp.Raw) *amqp.Attach {
	return &amqp.Attach{Name: "kept", Role: amqp.RoleReceiver, Target: &amqp.Target{}, Unsettled: unsettled,
		Source: &amqp.Source{Address: amqp.Some("q"), Durable: amqp.Some[uint32](2), ExpiryPolicy: amqp.ExpiryNever}}
}

func credit(handle, n uint32) *amqp.Flow {
	return &amqp.Flow{IncomingWindow: 1000, OutgoingWindow: 1000, Handle: amqp.Some(handle), LinkCredit: amqp.Some(n)}
}

// A durable terminus outlives link and connection. Its unsettled deliveries
// wait, are told in the answer to the attach that resumes it, and go on as part
// 2 §2.6.13 has it.
func TestResume(t *testing.T) {
	b, addr := start(t, broker.Options{Queues: []string{"q"}})
	p := open(t, addr)
	p.send(durableReceiver(nil), credit(0, 3))
	if a := want[*amqp.Attach](p); a.Unsettled != nil {
		t.Errorf("unsettled map %x at the first attach", a.Unsettled)
	}
	if err := b.Put("q", message("a"), message("b"), message("c")); err != nil {
		t.Fatal(err)
	}
	var tags [][]byte
	for range 3 {
		tr := want[*amqp.Transfer](p)
		if tr.Resume {
			t.Error("a first delivery is marked as resumed")
		}
		tags = append(tags, tr.DeliveryTag)
	}
	p.send(&amqp.Detach{})
	want[*amqp.Detach](p)
	p.nc.Close()
	until(t, "the connection's end", func() bool { return len(b.Conns()) == 0 })
	if b.Suspended() != 1 || b.Depth("q") != 3 || len(b.Ready("q")) != 0 {
		t.Fatalf("%d termini wait, queue has %d with %d ready; want 1, 3, 0", b.Suspended(), b.Depth("q"), len(b.Ready("q")))
	}

	// The first was accepted, the second came and is undecided, the third never came.
	p = open(t, addr)
	p.send(durableReceiver(amqp.AppendValue(nil, amqp.Map{{Key: tags[0], Value: amqp.StateAccepted}, {Key: tags[1], Value: nil}})))
	a := want[*amqp.Attach](p)
	wantMap := amqp.Map{{Key: tags[0]}, {Key: tags[1]}, {Key: tags[2]}}
	if m, _ := a.Unsettled.Value(); !reflect.DeepEqual(m, wantMap) {
		t.Errorf("unsettled map %v, want %v", m, wantMap)
	}
	p.send(credit(0, 10))
	tr, payload := wantPayload[*amqp.Transfer](p)
	if !bytes.Equal(tr.DeliveryTag, tags[0]) || !tr.Resume || !tr.Settled.V || !bytes.Equal(tr.State, amqp.StateAccepted) || len(payload) != 0 {
		t.Errorf("first: %+v with %d octets", tr, len(payload))
	}
	tr, payload = wantPayload[*amqp.Transfer](p)
	if !bytes.Equal(tr.DeliveryTag, tags[1]) || !tr.Resume || tr.Settled.V || !bytes.Equal(payload, message("b")) {
		t.Errorf("second: %+v with %x", tr, payload)
	}
	p.send(&amqp.Disposition{Role: amqp.RoleReceiver, First: tr.DeliveryID.V, Settled: true, State: amqp.StateAccepted})
	tr, payload = wantPayload[*amqp.Transfer](p)
	if tr.Resume || bytes.Equal(tr.DeliveryTag, tags[2]) || !bytes.HasSuffix(payload, message("c")) {
		t.Errorf("third: %+v with %x", tr, payload)
	}
	p.send(&amqp.Disposition{Role: amqp.RoleReceiver, First: tr.DeliveryID.V, Settled: true, State: amqp.StateAccepted})
	p.send(&amqp.Detach{Closed: true})
	want[*amqp.Detach](p)
	if b.Depth("q") != 0 || b.Suspended() != 0 {
		t.Errorf("queue has %d, %d termini wait", b.Depth("q"), b.Suspended())
	}
}

// A terminus stays as long as its expiry policy says; what it held is then in
// its place in the queue again.
func TestExpiry(t *testing.T) {
	for _, tt := range []struct {
		policy                   amqp.Symbol
		detach, end, close, wait bool // the terminus is there after that
		timeout                  uint32
	}{
		{policy: amqp.ExpiryLinkDetach},
		{policy: "", detach: true},
		{policy: amqp.ExpirySessionEnd, detach: true},
		{policy: amqp.ExpiryConnectionClose, detach: true, end: true},
		{policy: amqp.ExpiryNever, detach: true, end: true, close: true, wait: true},
		{policy: amqp.ExpiryLinkDetach, detach: true, end: true, close: true, timeout: 1},
	} {
		t.Run(fmt.Sprintf("%s %d", tt.policy, tt.timeout), func(t *testing.T) {
			b, addr := start(t, broker.Options{Queues: []string{"q"}})
			if err := b.Put("q", message("a"), message("b")); err != nil {
				t.Fatal(err)
			}
			p := open(t, addr)
			a := durableReceiver(nil)
			a.Source.ExpiryPolicy, a.Source.Timeout = tt.policy, amqp.Some(tt.timeout)
			p.send(a, credit(0, 1))
			want[*amqp.Attach](p)
			want[*amqp.Transfer](p)
			check := func(when string, kept bool) {
				t.Helper()
				ready := 1
				if !kept {
					ready = 2
				}
				if got := len(b.Ready("q")); got != ready {
					t.Errorf("after %s %d messages are ready, want %d", when, got, ready)
				}
				if kept != (b.Suspended() == 1) {
					t.Errorf("after %s %d termini wait", when, b.Suspended())
				}
			}
			p.send(&amqp.Detach{})
			want[*amqp.Detach](p)
			check("detach", tt.detach)
			p.send(&amqp.End{})
			want[*amqp.End](p)
			check("end", tt.end)
			p.send(&amqp.Close{})
			want[*amqp.Close](p)
			until(t, "the connection's end", func() bool { return len(b.Conns()) == 0 })
			check("close", tt.close)
			if tt.timeout > 0 {
				until(t, "the time-out", func() bool { return b.Suspended() == 0 })
				check("time-out", false)
			}
		})
	}
}

// Where the sender settles last, both directions take three steps.
func TestSettleSecond(t *testing.T) {
	b, addr := start(t, broker.Options{Queues: []string{"q"}})
	p := open(t, addr)
	second := amqp.Some(amqp.RcvSettleModeSecond)
	p.send(&amqp.Attach{Name: "in", Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("q")}, RcvSettleMode: second,
		InitialDeliveryCount: amqp.Some[uint32](0)})
	if a := want[*amqp.Attach](p); a.RcvSettleMode != second {
		t.Errorf("answered with mode %v", a.RcvSettleMode)
	}
	want[*amqp.Flow](p)
	p.transfer(&amqp.Transfer{DeliveryID: amqp.Some[uint32](0), DeliveryTag: []byte("x")}, message("m"))
	if d := want[*amqp.Disposition](p); d.Settled || !bytes.Equal(d.State, amqp.StateAccepted) {
		t.Errorf("first word: %+v", d)
	}
	p.send(&amqp.Disposition{Role: amqp.RoleSender, First: 0, Settled: true})

	a := durableReceiver(nil)
	a.Handle, a.RcvSettleMode = 1, second
	p.send(a, credit(1, 1))
	want[*amqp.Attach](p)
	tr := want[*amqp.Transfer](p)
	p.send(&amqp.Disposition{Role: amqp.RoleReceiver, First: tr.DeliveryID.V, State: amqp.StateAccepted})
	if d := want[*amqp.Disposition](p); d.Role != amqp.RoleSender || !d.Settled {
		t.Errorf("the sender's word: %+v", d)
	}
	if b.Depth("q") != 0 {
		t.Error("the message is still there")
	}
}

// What was accepted but not settled is in the answer when the sender resumes,
// and its message is not taken twice.
func TestSenderResumes(t *testing.T) {
	b, addr := start(t, broker.Options{Queues: []string{"q"}})
	p := open(t, addr)
	attach := &amqp.Attach{Name: "in", Source: &amqp.Source{}, RcvSettleMode: amqp.Some(amqp.RcvSettleModeSecond), InitialDeliveryCount: amqp.Some[uint32](0),
		Target: &amqp.Target{Address: amqp.Some("q"), ExpiryPolicy: amqp.ExpiryNever}}
	p.send(attach)
	want[*amqp.Attach](p)
	want[*amqp.Flow](p)
	p.transfer(&amqp.Transfer{DeliveryID: amqp.Some[uint32](0), DeliveryTag: []byte("x")}, message("m"))
	want[*amqp.Disposition](p)
	p.nc.Close()
	until(t, "the connection's end", func() bool { return len(b.Conns()) == 0 })
	p = open(t, addr)
	attach.Unsettled = amqp.AppendValue(nil, amqp.Map{{Key: []byte("x"), Value: nil}})
	p.send(attach)
	if m, _ := want[*amqp.Attach](p).Unsettled.Value(); !reflect.DeepEqual(m, amqp.Map{{Key: []byte("x"), Value: amqp.Described{Descriptor: uint64(amqp.CodeAccepted), Value: amqp.List{}}}}) {
		t.Errorf("unsettled map %v", m)
	}
	want[*amqp.Flow](p)
	p.transfer(&amqp.Transfer{DeliveryID: amqp.Some[uint32](0), DeliveryTag: []byte("x"), Resume: true, Settled: amqp.Some(true)}, nil)
	p.send(&amqp.Detach{Closed: true})
	want[*amqp.Detach](p)
	if n := b.Depth("q"); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
}

// control sends a declare or a discharge on handle 0 and returns the state that
// answers it.
func (p *peer) control(id uint32, code uint64, fields ...any) amqp.Raw {
	p.t.Helper()
	p.transfer(&amqp.Transfer{DeliveryID: amqp.Some(id), DeliveryTag: fmt.Append(nil, id)},
		message(amqp.Described{Descriptor: code, Value: amqp.List(fields)}))
	d := want[*amqp.Disposition](p)
	if d.First != id || !d.Settled {
		p.t.Fatalf("answer %+v", d)
	}
	return d.State
}

// declare declares a transaction and returns its id.
func (p *peer) declare(id uint32) []byte {
	p.t.Helper()
	txn, _ := broker.Fields(p.control(id, amqp.CodeDeclare))[0].Value()
	return txn.([]byte)
}

func transactional(txn []byte, outcome any) amqp.Raw {
	return amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(amqp.CodeTransactionalState), Value: amqp.List{txn, outcome}})
}

// What a transaction posts and retires happens when it is committed, and not
// when it fails or its coordinator goes away.
func TestTransaction(t *testing.T) {
	for _, tt := range []struct {
		name    string
		end     func(p *peer, txn []byte)
		commit  bool
		settled bool // the receiver settles within the transaction
	}{
		{name: "commit", commit: true, end: func(p *peer, txn []byte) { p.control(2, amqp.CodeDischarge, txn, false) }},
		{name: "commit, settled", settled: true, commit: true, end: func(p *peer, txn []byte) { p.control(2, amqp.CodeDischarge, txn) }},
		{name: "roll back", end: func(p *peer, txn []byte) { p.control(2, amqp.CodeDischarge, txn, true) }},
		{name: "roll back, settled", settled: true, end: func(p *peer, txn []byte) { p.control(2, amqp.CodeDischarge, txn, true) }},
		{name: "coordinator detached", end: func(p *peer, _ []byte) {
			p.send(&amqp.Detach{Closed: true})
			want[*amqp.Detach](p)
		}},
		{name: "connection gone", end: func(p *peer, _ []byte) { p.nc.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, addr := start(t, broker.Options{Queues: []string{"q", "out"}})
			if err := b.Put("q", message("a")); err != nil {
				t.Fatal(err)
			}
			p := open(t, addr)
			p.send(&amqp.Attach{Name: "control", Source: &amqp.Source{}, Coordinator: &amqp.Coordinator{}, InitialDeliveryCount: amqp.Some[uint32](0)})
			if a := want[*amqp.Attach](p); a.Coordinator == nil || !a.Coordinator.Capabilities.HasSymbol("amqp:local-transactions") {
				t.Fatalf("answer %+v", a)
			}
			want[*amqp.Flow](p)
			txn := p.declare(0)
			p.send(&amqp.Attach{Name: "out", Handle: 1, Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("out")}, InitialDeliveryCount: amqp.Some[uint32](0)})
			want[*amqp.Attach](p)
			want[*amqp.Flow](p)
			p.transfer(&amqp.Transfer{Handle: 1, DeliveryID: amqp.Some[uint32](1), DeliveryTag: []byte("o"), State: transactional(txn, nil)}, message("posted"))
			if d := want[*amqp.Disposition](p); !d.Settled || !bytes.Equal(d.State, transactional(txn, amqp.StateAccepted)) {
				t.Errorf("posting is answered with %+v", d)
			}
			a := durableReceiver(nil)
			a.Handle, a.Source.ExpiryPolicy = 2, ""
			p.send(a, credit(2, 1))
			want[*amqp.Attach](p)
			tr := want[*amqp.Transfer](p)
			p.send(&amqp.Disposition{Role: amqp.RoleReceiver, First: tr.DeliveryID.V, Settled: tt.settled, State: transactional(txn, amqp.StateAccepted)})
			// The begin's answer shows that all that is taken in.
			p.nc.Write(amqp.AppendFrame(nil, amqp.FrameAMQP, 1, &amqp.Begin{}))
			want[*amqp.Begin](p)
			if b.Depth("out") != 0 || b.Depth("q") != 1 || b.Transactions() != 1 {
				t.Fatalf("before the end: %d posted, %d left, %d transactions", b.Depth("out"), b.Depth("q"), b.Transactions())
			}
			if tt.commit && !tt.settled {
				p.transfer(&amqp.Transfer{DeliveryID: amqp.Some[uint32](2), DeliveryTag: []byte("d")},
					message(amqp.Described{Descriptor: uint64(amqp.CodeDischarge), Value: amqp.List{txn, false}}))
				for range 2 { // of the discharge, and of the delivery that the sender settles now
					want[*amqp.Disposition](p)
				}
			} else {
				tt.end(p, txn)
			}
			wantOut, wantQ := 0, 1
			if tt.commit {
				wantOut, wantQ = 1, 0
			}
			until(t, "the transaction's end", func() bool { return b.Transactions() == 0 })
			if b.Depth("out") != wantOut || b.Depth("q") != wantQ {
				t.Errorf("%d posted, %d left; want %d and %d", b.Depth("out"), b.Depth("q"), wantOut, wantQ)
			}
			if tt.name == "connection gone" || tt.settled && !tt.commit {
				until(t, "the message to be ready again", func() bool { return len(b.Ready("q")) == 1 })
			}
		})
	}
}

// A transaction id that is none is refused wherever it is named.
func TestUnknownTransaction(t *testing.T) {
	_, addr := start(t, broker.Options{Queues: []string{"q"}})
	p := open(t, addr)
	p.send(&amqp.Attach{Name: "control", Source: &amqp.Source{}, Coordinator: &amqp.Coordinator{}, InitialDeliveryCount: amqp.Some[uint32](0)})
	want[*amqp.Attach](p)
	want[*amqp.Flow](p)
	e, err := amqp.DecodeRejected(p.control(0, amqp.CodeDischarge, []byte("no"), false))
	if err != nil || e.Condition != "amqp:transaction:unknown-id" {
		t.Errorf("discharge: %v, %v", e, err)
	}
	p.send(&amqp.Attach{Name: "in", Handle: 1, Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("q")}, InitialDeliveryCount: amqp.Some[uint32](0)})
	want[*amqp.Attach](p)
	want[*amqp.Flow](p)
	p.transfer(&amqp.Transfer{Handle: 1, DeliveryID: amqp.Some[uint32](1), DeliveryTag: []byte("x"), State: transactional([]byte("no"), nil)}, message("m"))
	if e, err := amqp.DecodeRejected(want[*amqp.Disposition](p).State); err != nil || e.Condition != "amqp:transaction:unknown-id" {
		t.Errorf("posting: %v, %v", e, err)
	}
}

// A test sees each attach as it came, and says when and how it is answered.
func TestAttachHook(t *testing.T) {
	b, addr := start(t, broker.Options{Create: true, OnAttach: func(at *broker.Attaching) {
		switch at.Attach.Name {
		case "held":
			at.Hold = true
		case "refused":
			at.Refuse = &amqp.Error{Condition: "test:no", Description: "not you"}
		case "changed":
			at.Reply.Properties = amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}})
		}
	}})
	p := open(t, addr)
	attach := func(name string, handle uint32) *amqp.Attach {
		return &amqp.Attach{Name: name, Handle: handle, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some("q")}, Target: &amqp.Target{},
			DesiredCapabilities: amqp.AppendValue(nil, []amqp.Symbol{"a", "b"}), Properties: amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("x"), Value: uint64(7)}})}
	}
	p.send(attach("held", 0), attach("changed", 1))
	if a := want[*amqp.Attach](p); a.Name != "changed" || !bytes.Equal(a.Properties, amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}})) {
		t.Errorf("answer %+v", a)
	}
	held := b.Links()[0]
	held.Answer()
	if a := want[*amqp.Attach](p); a.Name != "held" || a.Source == nil {
		t.Errorf("answer %+v", a)
	}
	sent := broker.Fields(attach("held", 0).Append(nil))
	if got := broker.Fields(held.Raw()); !reflect.DeepEqual(got, sent) || len(got) != 14 {
		t.Errorf("the attach came as\n%x, was sent as\n%x", got, sent)
	}
	p.send(attach("refused", 2))
	if a := want[*amqp.Attach](p); a.Name != "refused" || a.Source != nil || a.Target == nil {
		t.Errorf("answer %+v", a)
	}
	if d := want[*amqp.Detach](p); !d.Closed || d.Error == nil || d.Error.Condition != "test:no" || d.Error.Description != "not you" {
		t.Errorf("detach %+v", d)
	}
	held.Detach(false, &amqp.Error{Condition: "test:later"})
	if d := want[*amqp.Detach](p); d.Closed || d.Error == nil || d.Error.Condition != "test:later" {
		t.Errorf("detach %+v", d)
	}
	b.Conns()[0].Close(&amqp.Error{Condition: amqp.ErrCondConnectionForced})
	if c := want[*amqp.Close](p); c.Error == nil || c.Error.Condition != amqp.ErrCondConnectionForced {
		t.Errorf("close %+v", c)
	}
}

// A test may take messages, and give them any states.
func TestMessageHook(t *testing.T) {
	taken := make(chan *broker.Incoming, 1)
	_, addr := start(t, broker.Options{Create: true, OnMessage: func(in *broker.Incoming) bool {
		taken <- in
		return true
	}})
	p := open(t, addr)
	p.send(&amqp.Attach{Name: "in", Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("q")}, InitialDeliveryCount: amqp.Some[uint32](0)})
	want[*amqp.Attach](p)
	want[*amqp.Flow](p)
	p.transfer(&amqp.Transfer{DeliveryID: amqp.Some[uint32](0), DeliveryTag: []byte("tag")}, message("m"))
	in := <-taken
	if string(in.Tag) != "tag" || !bytes.Equal(in.Payload, message("m")) {
		t.Errorf("took %+v", in)
	}
	received := amqp.Raw(amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: 77}))
	in.Dispose(false, received)
	in.Dispose(true, amqp.StateReleased)
	if d := want[*amqp.Disposition](p); d.Settled || !bytes.Equal(d.State, received) {
		t.Errorf("first word %+v", d)
	}
	if d := want[*amqp.Disposition](p); !d.Settled || !bytes.Equal(d.State, amqp.StateReleased) {
		t.Errorf("second word %+v", d)
	}
}

// Credit is what a test says; a message that is too long ends the link.
func TestCreditAndLength(t *testing.T) {
	b, addr := start(t, broker.Options{Create: true, Credit: 4, MaxMessageSize: 1000})
	p := open(t, addr)
	p.send(&amqp.Attach{Name: "in", Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("q")}, InitialDeliveryCount: amqp.Some[uint32](0)})
	if a := want[*amqp.Attach](p); a.MaxMessageSize.V != 1000 {
		t.Errorf("announced %v octets", a.MaxMessageSize)
	}
	if f := want[*amqp.Flow](p); f.LinkCredit.V != 4 {
		t.Errorf("credit %d, want 4", f.LinkCredit.V)
	}
	l := b.Links()[0]
	l.Pause()
	send := func(id uint32, payload []byte) {
		p.transfer(&amqp.Transfer{DeliveryID: amqp.Some(id), DeliveryTag: fmt.Append(nil, id)}, payload)
	}
	for id := range uint32(3) {
		send(id, message("m"))
	}
	until(t, "one credit left", func() bool { return l.CreditLeft() == 1 })
	l.Drain()
	p.flow(func(f *amqp.Flow) bool { return f.Drain })
	p.send(&amqp.Flow{IncomingWindow: 1000, NextOutgoingID: 3, OutgoingWindow: 1000, Handle: amqp.Some[uint32](0), DeliveryCount: amqp.Some[uint32](4), LinkCredit: amqp.Some[uint32](0), Drain: true})
	until(t, "no credit left", func() bool { return l.CreditLeft() == 0 })
	l.SetCredit(2)
	p.flow(func(f *amqp.Flow) bool { return f.LinkCredit.V == 2 && !f.Drain })
	send(3, message(make([]byte, 2000)))
	if d := want[*amqp.Detach](p); !d.Closed || d.Error == nil || d.Error.Condition != amqp.ErrCondMessageSizeExceeded {
		t.Errorf("detach %+v", d)
	}
}

// An aborted delivery leaves nothing but used credit, which comes back (FC U12).
func TestAbortedDelivery(t *testing.T) {
	b, addr := start(t, broker.Options{Create: true, Credit: 4})
	p := open(t, addr)
	p.send(&amqp.Attach{Name: "in", Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("q")}, InitialDeliveryCount: amqp.Some[uint32](0)})
	want[*amqp.Attach](p)
	want[*amqp.Flow](p)
	for id := range uint32(10) {
		if id > 0 && id%2 == 0 {
			p.flow(func(f *amqp.Flow) bool { return f.DeliveryCount.V == id && f.LinkCredit.V == 4 })
		}
		p.transfer(&amqp.Transfer{DeliveryID: amqp.Some(id), DeliveryTag: fmt.Append(nil, id), More: true}, message("half"))
		p.transfer(&amqp.Transfer{Aborted: true}, nil)
	}
	p.flow(func(f *amqp.Flow) bool { return f.DeliveryCount.V == 10 && f.LinkCredit.V == 4 })
	p.transfer(&amqp.Transfer{DeliveryID: amqp.Some[uint32](10), DeliveryTag: []byte("good")}, message("good"))
	want[*amqp.Disposition](p)
	if got := b.Ready("q"); len(got) != 1 || !bytes.Equal(got[0], message("good")) {
		t.Errorf("queue has %q", got)
	}
}

// The states that a receiver gives are recorded as they came, in their order (FC
// U18).
func TestStatesAreRecorded(t *testing.T) {
	b, addr := start(t, broker.Options{Queues: []string{"q"}})
	if err := b.Put("q", message("m"), message("m"), message("m")); err != nil {
		t.Fatal(err)
	}
	p := open(t, addr)
	a := durableReceiver(nil)
	p.send(a, credit(0, 3))
	want[*amqp.Attach](p)
	info := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("k"), Value: int32(-1)}}))
	states := []amqp.Raw{
		amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: 77}),
		amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: 78}),
		amqp.AppendRejected(nil, &amqp.Error{Condition: "test:no", Description: "not today", Info: info}),
		amqp.AppendModified(nil, true, true, info),
		amqp.StateReleased,
	}
	id := uint32(0)
	for i, state := range states {
		if i != 1 && i != 2 {
			id = want[*amqp.Transfer](p).DeliveryID.V
		}
		p.send(&amqp.Disposition{Role: amqp.RoleReceiver, First: id, Settled: i > 1, State: state})
	}
	p.send(&amqp.Detach{Closed: true})
	want[*amqp.Detach](p)
	var got []amqp.Raw
	for _, d := range broker.Received[*amqp.Disposition](b) {
		got = append(got, d.State)
	}
	if !reflect.DeepEqual(got, states) {
		t.Errorf("recorded\n%x, sent\n%x", got, states)
	}
}

// A flow that tells transfer ids which were never sent ends the connection (FC
// U06).
func TestFlowBeyondWhatWasSent(t *testing.T) {
	for _, id := range []uint32{0, broker.FirstTransferID - 1, broker.FirstTransferID + 1} {
		_, addr := start(t, broker.Options{Create: true})
		p := open(t, addr)
		p.send(&amqp.Flow{NextIncomingID: amqp.Some(id), IncomingWindow: 9})
		if c := want[*amqp.Close](p); c.Error == nil || c.Error.Condition != amqp.ErrCondWindowViolation {
			t.Errorf("id %d: close %+v", id, c)
		}
	}
	_, addr := start(t, broker.Options{Create: true})
	p := open(t, addr)
	p.send(&amqp.Flow{NextIncomingID: amqp.Some[uint32](broker.FirstTransferID), IncomingWindow: 9, Echo: true})
	if f := want[*amqp.Flow](p); f.NextOutgoingID != broker.FirstTransferID {
		t.Errorf("flow %+v", f)
	}
}

// PLAIN with an authorisation id of another is refused, with that of the user
// himself it is not (FC U06).
func TestAuthorisationID(t *testing.T) {
	_, addr := start(t, broker.Options{Users: map[string]string{"u": "p"}})
	for _, tt := range []struct {
		response string
		ok       bool
	}{{"\x00u\x00p", true}, {"u\x00u\x00p", true}, {"other\x00u\x00p", false}} {
		p := connect(t, addr)
		p.nc.Write(amqp.HeaderSASL[:])
		p.header(amqp.HeaderSASL)
		want[*amqp.SASLMechanisms](p)
		p.nc.Write(amqp.AppendFrame(nil, amqp.FrameSASL, 0, &amqp.SASLInit{Mechanism: sasl.Plain, InitialResponse: amqp.Some([]byte(tt.response))}))
		if o := want[*amqp.SASLOutcome](p); (o.Code == amqp.SASLCodeOK) != tt.ok {
			t.Errorf("%q: outcome %d", tt.response, o.Code)
		}
		if !tt.ok {
			p.ended()
		}
	}
}

// A dynamic node has a name of the broker's, its properties are told back, and
// it goes with its link.
func TestDynamicNode(t *testing.T) {
	b, addr := start(t, broker.Options{})
	p := open(t, addr)
	properties := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("x-opt-qd.address"), Value: "unsettled/1"}}))
	p.send(&amqp.Attach{Name: "dyn", Role: amqp.RoleReceiver, Target: &amqp.Target{}, Source: &amqp.Source{Dynamic: true, DynamicNodeProperties: properties}})
	a := want[*amqp.Attach](p)
	name := a.Source.Address.V
	if name == "" || !a.Source.Dynamic || !bytes.Equal(a.Source.DynamicNodeProperties, properties) || b.Depth(name) != 0 {
		t.Errorf("answer %+v, depth %d", a.Source, b.Depth(name))
	}
	p.send(&amqp.Detach{Closed: true})
	want[*amqp.Detach](p)
	if b.Depth(name) != -1 {
		t.Error("the node outlives its link")
	}
}

// A browser sees every message and takes none.
func TestBrowse(t *testing.T) {
	b, addr := start(t, broker.Options{Queues: []string{"q"}})
	if err := b.Put("q", message("a"), message("b")); err != nil {
		t.Fatal(err)
	}
	p := open(t, addr)
	p.send(&amqp.Attach{Name: "look", Role: amqp.RoleReceiver, Target: &amqp.Target{}, Source: &amqp.Source{Address: amqp.Some("q"), DistributionMode: "copy"}},
		&amqp.Flow{IncomingWindow: 1000, Handle: amqp.Some[uint32](0), LinkCredit: amqp.Some[uint32](5), Drain: true})
	want[*amqp.Attach](p)
	for _, text := range []string{"a", "b"} {
		tr, payload := wantPayload[*amqp.Transfer](p)
		if !bytes.Equal(payload, message(text)) {
			t.Errorf("got %x, want %q", payload, text)
		}
		p.send(&amqp.Disposition{Role: amqp.RoleReceiver, First: tr.DeliveryID.V, Settled: true, State: amqp.StateAccepted})
	}
	if f := want[*amqp.Flow](p); f.LinkCredit.V != 0 || f.DeliveryCount.V != 0 || !f.Drain { // 5 credits from 2^32-5 on
		t.Errorf("flow %+v", f)
	}
	if b.Depth("q") != 2 || len(b.Ready("q")) != 2 {
		t.Errorf("%d messages, %d ready, want 2", b.Depth("q"), len(b.Ready("q")))
	}
}
