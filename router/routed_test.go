package router

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
)

// routeTo is link routing that sends each link whose address begins with "lr" to a container.
type routeTo struct {
	g *rig
	p *peer
}

func (r routeTo) Learned(string, string, int, bool) {}
func (r routeTo) CostsChanged()                     {}

func (r routeTo) Route(q *LinkQuery) *RoutedLink {
	a := q.Attach
	address, survives := targetAddress(a), a.Target != nil && a.Target.ExpiryPolicy == amqp.ExpiryNever
	if a.Role == amqp.RoleReceiver {
		address, survives = sourceAddress(a), a.Source != nil && a.Source.ExpiryPolicy == amqp.ExpiryNever
	}
	if !strings.HasPrefix(address, "lr") {
		return nil
	}
	if r.p.gone() {
		return &RoutedLink{Refusal: errNoRoute}
	}
	a = a.Clone()
	q.Attach = a
	return &RoutedLink{
		Conn:     r.p.c,
		Attach:   &amqp.Attach{Name: a.Name + "@" + q.Container, Role: a.Role, Source: a.Source, Target: a.Target},
		Answer:   func(far *amqp.Attach) *amqp.Attach { return &amqp.Attach{Source: far.Source, Target: far.Target} },
		Survives: survives,
	}
}

// routed is a rig with a client, and a container that its links are routed to, which answers an
// attach with its own termini.
func routed(t testing.TB) (g *rig, client, container *peer) {
	g = newRig(t, nil)
	client = g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.ContainerID = "client" })
	container = g.container("broker", "B", nil)
	container.onAttach = func(e *end) {
		e.l.Attach(&amqp.Attach{Source: e.answer.Source, Target: e.answer.Target})
	}
	g.r.SetLinkRouting(routeTo{g, container})
	return g, client, container
}

// routedSender attaches a sender at the client; far is the container's half.
func routedSender(t testing.TB, client, container *peer) (near, far *end) {
	t.Helper()
	n := len(container.asked)
	near = client.sender("lr")
	if len(container.asked) != n+1 {
		t.Fatalf("the container was asked for %d links", len(container.asked)-n)
	}
	near.l.TellAnswer, container.asked[n].l.TellAnswer = true, true
	return near, container.asked[n]
}

func routedReceiver(t testing.TB, client, container *peer, credit uint32) (near, far *end) {
	t.Helper()
	n := len(container.asked)
	near = client.receiver("lr", credit)
	if len(container.asked) != n+1 {
		t.Fatalf("the container was asked for %d links", len(container.asked)-n)
	}
	near.l.TellAnswer, container.asked[n].l.TellAnswer = true, true
	return near, container.asked[n]
}

// TestRoutedAttachWaits: the client's attach is answered when the far end has answered, with what
// that said, and not before; the far link is named after the client's container (RT L7, L8, L11).
func TestRoutedAttachWaits(t *testing.T) {
	g, client, container := routed(t)
	container.onAttach = nil
	e := client.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr.1")}, Target: &amqp.Target{Address: amqp.Some("here")}})
	e.l.Grant(7) // before there is an answer (RT L13)
	g.run()
	if e.answer != nil {
		t.Fatal("answered before the container")
	}
	if len(container.asked) != 1 {
		t.Fatalf("the container was asked for %d links", len(container.asked))
	}
	far := container.asked[0]
	if far.l.Name != e.l.Name+"@client" || far.answer.Source.Address.V != "lr.1" || far.answer.Target.Address.V != "here" {
		t.Errorf("attached %q %+v", far.l.Name, far.answer)
	}
	if far.answer.SndSettleMode.V != amqp.SndSettleModeMixed || far.answer.RcvSettleMode.V != amqp.RcvSettleModeFirst {
		t.Errorf("settle modes %+v", far.answer)
	}
	if far.l.Credit() != 7 {
		t.Errorf("credit %d came with the attach, want 7", far.l.Credit())
	}
	far.l.Attach(&amqp.Attach{Source: &amqp.Source{Address: amqp.Some("really"), Durable: amqp.Some(uint32(2))}, Target: &amqp.Target{Address: amqp.Some("here")}})
	far.send("at once")
	g.run()
	if e.answer == nil || e.answer.Source.Address.V != "really" || e.answer.Source.Durable.V != 2 {
		t.Errorf("the client was told %+v", e.answer)
	}
	wantBodies(t, e, "at once")
	near, other := e.info(), g.r.Links()
	if near.Peer == 0 || near.OwningAddr != "M0lr.1" || near.Capacity != 250 || !near.Up {
		t.Errorf("the near half is shown as %+v", near)
	}
	for _, i := range other {
		if i.ID == near.Peer && (i.Peer != near.ID || i.Capacity != 0 || i.OwningAddr != "M0lr.1" || !i.Up) {
			t.Errorf("the far half is shown as %+v", i)
		}
	}
}

// TestRoutedCredit: the sender has the credit that the receiver gave and none of the router's
// (RT L26); a decrease is not passed on (E53), and no increment twice.
func TestRoutedCredit(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	credit := func(want uint32) {
		t.Helper()
		g.run()
		if near.l.Credit() != want {
			t.Errorf("the sender has credit %d, want %d", near.l.Credit(), want)
		}
	}
	credit(0)
	far.l.Grant(3)
	credit(3)
	far.l.Grant(5)
	credit(8)
	for i := range 6 {
		near.sendSettled(fmt.Sprint(i))
	}
	credit(2)
	wantBodies(t, far, "0", "1", "2", "3", "4", "5")
	far.l.Choked = true // as if it had taken back what is left
	far.l.FlowDue()
	credit(2)
	near.send("kept") // the receiver has taken this one back: it waits at the router
	g.run()
	wantBodies(t, far, "0", "1", "2", "3", "4", "5")
	far.l.Choked = false
	far.l.Grant(4)
	credit(5)
	wantBodies(t, far, "0", "1", "2", "3", "4", "5", "kept")
	far.say(6, 6, amqp.StateAccepted, true)
	credit(5)
}

// TestRoutedGreatCredit: a receiver without a limit gives 2^32-1; serial numbers allow half of it.
func TestRoutedGreatCredit(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(10)
	f := amqp.Flow{IncomingWindow: 100, OutgoingWindow: 100, NextIncomingID: amqp.Some(uint32(0)),
		Handle: amqp.Some(far.l.Handle()), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(1<<32 - 1))}
	container.eng.Prepare()
	container.eng.Out = amqp.AppendFlowFrame(container.eng.Out, far.l.Session.Channel(), &f)
	g.run()
	if near.l.Credit() != 1<<31-1 {
		t.Errorf("the sender has credit %d", near.l.Credit())
	}
	near.send("one")
	g.run()
	wantBodies(t, far, "one")
}

// TestRoutedDrain: a drain and the answer to it travel the whole way, and give no credit (RT L27).
func TestRoutedDrain(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedReceiver(t, client, container, 0)
	near.l.Grant(1000)
	near.l.Draining = true
	near.l.FlowDue()
	g.run()
	if far.l.Credit() != 1000 || !far.l.Drain {
		t.Fatalf("the sender has credit %d, drain %v", far.l.Credit(), far.l.Drain)
	}
	near.l.FlowDue() // a second drain
	g.run()
	if far.l.Credit() != 1000 {
		t.Fatalf("a second drain made credit %d", far.l.Credit())
	}
	if near.l.CreditOut() != 1000 {
		t.Fatalf("the receiver was told that it is drained: %d left", near.l.CreditOut())
	}
	far.send("a")
	far.send("b")
	far.l.Drained()
	g.run()
	wantBodies(t, near, "a", "b")
	if near.l.CreditOut() != 0 {
		t.Errorf("the receiver has %d credit left after the drain", near.l.CreditOut())
	}
	near.l.Draining = false
	near.grant(5)
	if far.l.Credit() != 5 || far.l.Drain {
		t.Errorf("after the drain the sender has credit %d, drain %v", far.l.Credit(), far.l.Drain)
	}
	// A drain when there is no credit is answered at once; while credit comes, it takes only its own.
	near.l.Draining = true
	near.l.FlowDue()
	g.run()
	near.l.Draining = false
	near.grant(7)
	far.l.DrainedBy(5) // the answer to the drain, late
	g.run()
	if near.l.CreditOut() != 7 || far.l.Credit() != 7 {
		t.Errorf("credit %d and %d, want 7", near.l.CreditOut(), far.l.Credit())
	}
	near.l.Draining = true
	near.l.FlowDue()
	g.run()
	far.l.Drained()
	g.run()
	flows := len(near.flows)
	near.l.FlowDue()
	g.run()
	if near.l.CreditOut() != 0 || len(near.flows) == flows {
		t.Errorf("a drain without credit was not answered: %d left, %d flows", near.l.CreditOut(), len(near.flows)-flows)
	}
}

// TestRoutedMessages: tag, format, state, settled flag and every octet are kept (RT L28, F85, F86).
func TestRoutedMessages(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(100)
	h := amqp.Header{Durable: true, DeliveryCount: 3}
	annotated := amqp.AppendValue(append(h.Append(nil), 0, 0x53, amqp.CodeMessageAnnotations), amqp.Map{
		{Key: amqp.Symbol("x-opt-qd.to"), Value: "elsewhere"}, {Key: amqp.Symbol("x-opt-qd.trace"), Value: amqp.List{"0/X"}},
		{Key: amqp.Symbol("mine"), Value: int32(1)}})
	annotated = append(annotated, plain("body")...)
	transactional := amqp.Raw(amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(amqp.CodeTransactionalState), Value: amqp.List{[]byte("txn")}}))
	large := append(plain(""), bytes.Repeat([]byte{0, 0x53, amqp.CodeData, 0xa0, 0}, 40000)...)
	tests := []struct {
		name    string
		d       amqp.OutDelivery
		payload []byte
	}{
		{"unsettled", amqp.OutDelivery{RawTag: []byte("a tag")}, plain("x")},
		{"settled", amqp.OutDelivery{RawTag: []byte{0, 1}, Settled: true}, plain("y")},
		{"longest tag", amqp.OutDelivery{RawTag: bytes.Repeat([]byte{7}, 32)}, plain("z")},
		{"empty tag", amqp.OutDelivery{RawTag: []byte{}}, plain("e")},
		{"format", amqp.OutDelivery{RawTag: []byte("f"), Format: 0x123400}, plain("f")},
		{"annotations", amqp.OutDelivery{RawTag: []byte("n")}, annotated},
		{"state", amqp.OutDelivery{RawTag: []byte("s"), State: transactional}, plain("in a transaction")},
		{"many frames", amqp.OutDelivery{RawTag: []byte("m"), Format: 9}, large},
		{"many frames, settled", amqp.OutDelivery{RawTag: []byte("n"), Settled: true, State: transactional}, large},
	}
	for i, tt := range tests {
		near.transfer(&tt.d, tt.payload)
		g.run()
		if len(far.got) != i+1 {
			t.Fatalf("%s: %d deliveries arrived", tt.name, len(far.got))
		}
		d := far.got[i]
		if d.tag != string(tt.d.RawTag) || d.format != tt.d.Format || d.settled != tt.d.Settled || !bytes.Equal(d.payload, tt.payload) || !d.whole {
			t.Errorf("%s: tag %q, format %d, settled %v, %d octets, whole %v", tt.name, d.tag, d.format, d.settled, len(d.payload), d.whole)
		}
		if string(d.state) != string(tt.d.State) {
			t.Errorf("%s: state %x, want %x", tt.name, d.state, tt.d.State)
		}
	}
}

// TestRoutedOutcomes: what either side says reaches the other, with and without settlement, octet
// for octet (RT F70 to F76, L29).
func TestRoutedOutcomes(t *testing.T) {
	described := func(code uint64, fields ...any) amqp.Raw {
		return amqp.AppendValue(nil, amqp.Described{Descriptor: code, Value: amqp.List(fields)})
	}
	rejected := amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{Condition: "my:fault", Description: "so",
		Info: amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}})}))
	annotations := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("x"), Value: int32(1)}}))
	received := amqp.Raw(amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: 77}))
	txn := described(amqp.CodeTransactionalState, []byte("t1"), amqp.Described{Descriptor: uint64(amqp.CodeAccepted), Value: amqp.List{}})
	own := described(999, []byte("data"))
	type word struct {
		state   amqp.Raw
		settled bool
	}
	tests := []struct {
		name string
		says []word
		want []word
	}{
		{"accepted", []word{{amqp.StateAccepted, true}}, nil},
		{"released", []word{{amqp.StateReleased, true}}, nil},
		{"rejected", []word{{rejected, true}}, nil},
		{"modified", []word{{amqp.AppendModified(nil, true, true, annotations), true}}, nil},
		{"modified, not failed", []word{{amqp.AppendModified(nil, false, true, nil), true}}, []word{{amqp.AppendModified(nil, true, true, nil), true}}}, // F73
		{"received, then accepted", []word{{received, false}, {amqp.StateAccepted, true}}, nil},
		{"twice the same", []word{{received, false}, {received, false}, {amqp.StateReleased, true}}, []word{{received, false}, {amqp.StateReleased, true}}}, // F76
		{"another of the same", []word{{described(999, []byte("1")), false}, {described(999, []byte("2")), false}, {own, true}}, nil},
		{"transaction", []word{{txn, true}}, nil},
		{"declared", []word{{described(amqp.CodeDeclared, []byte("id")), true}}, nil},
		{"settled alone", []word{{nil, true}}, nil},
		{"two steps", []word{{amqp.StateAccepted, false}, {amqp.StateAccepted, true}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, client, container := routed(t)
			near, far := routedSender(t, client, container)
			far.grant(1)
			x := near.send("m")
			client.g.run()
			for _, w := range tt.says {
				far.say(0, 0, w.state, w.settled)
			}
			want := tt.want
			if want == nil {
				want = tt.says
			}
			var texts []string
			for _, w := range want {
				s := stateText(w.state)
				if w.settled {
					s += " settled"
				}
				texts = append(texts, s)
			}
			wantSaid(t, []*sent{x}, texts...)
			if n := near.l.Credit(); n != 0 {
				t.Errorf("the outcome made credit %d", n)
			}
		})
	}
	t.Run("of the sender", func(t *testing.T) {
		_, client, container := routed(t)
		near, far := routedReceiver(t, client, container, 2)
		first, second := far.send("a"), far.send("b")
		client.g.run()
		container.sayAs(first, received, false)
		container.sayAs(first, nil, true)
		near.say(1, 1, amqp.StateAccepted, false)
		container.sayAs(second, nil, true) // three ways (F70)
		if got := near.got[0].said; !slices.Equal(got, []string{"received 3 77", "nothing settled"}) {
			t.Errorf("of the first was said %q", got)
		}
		if got := near.got[1].said; !slices.Equal(got, []string{"nothing settled"}) {
			t.Errorf("of the second was said %q", got)
		}
		wantSaid(t, []*sent{second}, "accepted")
		if n := len(near.out().sess.out.Late(0, 100, nil)) + near.out().sess.out.Len(); n != 0 {
			t.Errorf("%d deliveries are not forgotten", n)
		}
	})
}

// sayAs tells the router the sender's state of a delivery of the session that the router began.
func (p *peer) sayAs(x *sent, state amqp.Raw, settled bool) {
	s := p.asked[0].l.Session
	s.Dispose(amqp.RoleSender, x.id, x.id, settled, state)
	p.g.run()
}

// TestRoutedFaults: messages that cannot be are rejected here, and use no credit (RT E54, E62).
func TestRoutedFaults(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(3)
	long := amqp.OutDelivery{RawTag: make([]byte, 33)}
	const decode, tag = `rejected amqp:decode-error "invalid message format" settled`, `rejected amqp:invalid-field "delivery tag length exceeded" settled`
	for _, tt := range []struct {
		name    string
		d       amqp.OutDelivery
		payload []byte
		want    string
	}{
		{"empty", amqp.OutDelivery{}, nil, decode},
		{"no section", amqp.OutDelivery{}, []byte("text"), decode},
		{"half a header", amqp.OutDelivery{}, []byte{0, 0x53, 0x70, 0xc0, 9, 1, 0x42}, decode},
		{"long tag", long, plain("x"), tag},
		{"long tag, many frames", long, append(plain(""), make([]byte, 70000)...), tag},
	} {
		x := near.transfer(&tt.d, tt.payload)
		g.run()
		if !slices.Equal(x.said, []string{tt.want}) {
			t.Errorf("%s: the router said %q, want %q", tt.name, x.said, tt.want)
		}
		if near.l.Credit() != 3 {
			t.Fatalf("%s: the sender has credit %d", tt.name, near.l.Credit())
		}
		tt.d.Settled = true
		near.transfer(&tt.d, tt.payload)
		g.run()
		if near.l.Credit() != 3 || len(far.got) != 0 {
			t.Fatalf("%s, settled: the sender has credit %d, %d arrived", tt.name, near.l.Credit(), len(far.got))
		}
	}
	near.send("good")
	g.run()
	wantBodies(t, far, "good")
	// What streams and has no sections at all is none of a router's business, as with messages
	// that the router forwards by address; 1.19's users abort such.
	text := bytes.Repeat([]byte("no"), 35000)
	near.transfer(&amqp.OutDelivery{}, text)
	g.run()
	if d := far.got[len(far.got)-1]; !d.whole || !bytes.Equal(d.payload, text) {
		t.Errorf("%d octets of %d arrived", len(d.payload), len(text))
	}
}

// TestRoutedHeaderInPieces: a message goes on once its header is here, however it is cut (RT F59).
func TestRoutedHeaderInPieces(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(1)
	h := amqp.Header{Durable: true}
	m := append(h.Append(nil), plain("cut to pieces")...)
	st := near.start(&amqp.OutDelivery{RawTag: []byte("tag"), Format: 5})
	for i := range m[:6] {
		st.more(m[i : i+1])
		g.run()
		if len(far.got) != 0 && i < 4 {
			t.Fatalf("something arrived after %d octets", i+1)
		}
	}
	st.last(m[6:])
	g.run()
	wantBodies(t, far, "cut to pieces")
	if d := far.got[0]; d.tag != "tag" || d.format != 5 {
		t.Errorf("tag %q, format %d", d.tag, d.format)
	}
}

// TestRoutedAbort: of an aborted message the receiver sees the abort when it has seen a part, else
// nothing; then its credit and the sender's are as before (RT F66, U12).
func TestRoutedAbort(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(10)
	st := near.start(&amqp.OutDelivery{})
	st.more(append(plain(""), make([]byte, 50000)...))
	g.run()
	if len(far.got) != 1 || far.got[0].whole {
		t.Fatal("nothing came of the beginning")
	}
	st.abort()
	g.run()
	if !far.got[0].aborted || near.l.Credit() != 9 || far.l.CreditOut() != 9 {
		t.Errorf("aborted %v, credit %d and %d", far.got[0].aborted, near.l.Credit(), far.l.CreditOut())
	}
	// Nothing of it has gone: the container reads nothing.
	container.w.fill(0)
	for range 40 {
		near.transfer(&amqp.OutDelivery{Settled: true}, append(plain(""), make([]byte, 1000)...))
		near.l.Grant(0)
		far.l.Grant(1)
		g.run()
	}
	was := near.l.Credit()
	st = near.start(&amqp.OutDelivery{})
	st.more(append(plain(""), make([]byte, 50000)...))
	g.run()
	st.abort()
	g.run()
	if near.l.Credit() != was-1 && near.l.Credit() != was {
		t.Errorf("credit %d, want that of before, %d", near.l.Credit(), was)
	}
	near.send("good")
	container.w.open()
	g.run()
	if b := far.bodies(); b[len(b)-1] != "good" {
		t.Errorf("the last message is %q", b[len(b)-1])
	}
	if near.l.Credit() != far.l.CreditOut() {
		t.Errorf("the sender has credit %d, the receiver means %d", near.l.Credit(), far.l.CreditOut())
	}
	if n := len(near.in().sess.in.Late(0, 1000, nil)); n != 0 {
		t.Errorf("%d deliveries are not forgotten", n)
	}
}

// TestRoutedDetach: each detach goes to the other end with its error and closed flag, and what that
// answers comes back (RT L31).
func TestRoutedDetach(t *testing.T) {
	fault := &amqp.Error{Condition: "my:reason", Description: "why", Info: amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}})}
	for _, sender := range []bool{true, false} {
		for _, first := range []string{"client", "container"} {
			for _, closed := range []bool{true, false} {
				for _, answer := range []bool{true, false} {
					name := fmt.Sprintf("sender %v, %s first, closed %v, answered %v", sender, first, closed, answer)
					t.Run(name, func(t *testing.T) {
						g, client, container := routed(t)
						var near, far *end
						if sender {
							near, far = routedSender(t, client, container)
						} else {
							near, far = routedReceiver(t, client, container, 1)
						}
						client.holdEnd, container.holdEnd = true, true
						a, b := near, far
						if first == "container" {
							a, b = far, near
						}
						a.l.Detach(closed, fault)
						g.run()
						if a.detach != nil {
							t.Fatal("answered before the other end has")
						}
						if d := b.detach; d == nil || d.Closed != closed || d.Error == nil || d.Error.Condition != fault.Condition ||
							d.Error.Description != fault.Description || string(d.Error.Info) != string(fault.Info) {
							t.Fatalf("passed on as %+v", d)
						}
						b.l.Detach(answer, nil)
						g.run()
						if d := a.detach; d == nil || d.Closed != answer || d.Error != nil {
							t.Errorf("answered with %+v", d)
						}
						if n := len(g.links()); n != 0 {
							t.Errorf("%d links are left", n)
						}
					})
				}
			}
		}
	}
}

// TestRoutedDetachCrossed: both ends detach at a time; each has the other's word.
func TestRoutedDetachCrossed(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	client.holdEnd, container.holdEnd = true, true
	near.l.Detach(false, nil)
	far.l.Detach(true, &amqp.Error{Condition: "my:end"})
	g.run()
	if near.detach == nil || !near.detach.Closed || near.detach.Error == nil || far.detach == nil || far.detach.Closed {
		t.Errorf("the client got %+v, the container %+v", near.detach, far.detach)
	}
	if n := len(g.links()); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// TestRoutedDetachBehindMessages: what a sender sent before it detached reaches the receiver before
// the detach, though that reads slowly; a message in progress is aborted (RT L32).
func TestRoutedDetachBehindMessages(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(100)
	container.holdWin = true // 2048 frames, and then nothing
	container.w.fill(100)
	for i := range 20 {
		near.transfer(&amqp.OutDelivery{Settled: true}, append(plain(fmt.Sprint(i)), bytes.Repeat([]byte{0, 0x53, amqp.CodeData, 0xa0, 0}, 5000)...))
	}
	st := near.start(&amqp.OutDelivery{})
	st.more(append(plain(""), make([]byte, 50000)...))
	near.l.Detach(false, nil)
	g.run()
	if far.detach != nil || near.detach != nil {
		t.Fatalf("detached: %v, %v", far.detach, near.detach)
	}
	container.w.open()
	g.run()
	n := 0
	for _, d := range far.got {
		if d.whole {
			n++
		}
	}
	if n != 20 || far.detach == nil || near.detach == nil {
		t.Errorf("%d messages arrived; detached: %v, %v", n, far.detach, near.detach)
	}
	if last := far.got[len(far.got)-1]; len(far.got) == 21 && !last.aborted {
		t.Error("the half message was not aborted")
	}
}

// TestRoutedLost: the loss of one end is told to the other (RT L33); deliveries that have no outcome
// get one before (L34).
func TestRoutedLost(t *testing.T) {
	const text = "Connectivity to the peer container was lost"
	t.Run("container", func(t *testing.T) {
		g, client, container := routed(t)
		near, far := routedSender(t, client, container)
		far.grant(2)
		x, y := near.send("a"), near.send("b")
		g.run()
		far.say(0, 0, amqp.StateAccepted, true)
		container.die()
		g.run()
		wantSaid(t, []*sent{x}, "accepted settled")
		wantSaid(t, []*sent{y}, "modified failed settled")
		if d := near.detach; d == nil || !d.Closed || d.Error == nil || d.Error.Condition != "qd:routed-link-lost" || d.Error.Description != text {
			t.Errorf("the client was told %+v", d)
		}
	})
	t.Run("its session", func(t *testing.T) {
		g, client, container := routed(t)
		near, far := routedReceiver(t, client, container, 5)
		far.l.Session.End(nil)
		g.run()
		if d := near.detach; d == nil || !d.Closed || d.Error == nil || d.Error.Condition != "qd:routed-link-lost" {
			t.Errorf("the client was told %+v", d)
		}
		_, again := routedReceiver(t, client, container, 5) // in a new session (L35)
		again.send("again")
		g.run()
		wantBodies(t, client.ends[1], "again")
	})
	for _, expiry := range []amqp.Symbol{"", amqp.ExpiryNever} {
		t.Run("client, expiry "+string(expiry), func(t *testing.T) {
			g, client, container := routed(t)
			e := client.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr"), ExpiryPolicy: expiry}, Target: &amqp.Target{}})
			e.l.Grant(3)
			g.run()
			far := container.asked[0]
			x := far.send("unsettled")
			g.run()
			client.die()
			g.run()
			if d := far.detach; d == nil || d.Closed != (expiry == "") || d.Error == nil || d.Error.Condition != "qd:routed-link-lost" {
				t.Errorf("the container was told %+v", d)
			}
			wantSaid(t, []*sent{x}, "modified failed settled")
		})
	}
	t.Run("container, before it answered", func(t *testing.T) {
		g, client, container := routed(t)
		container.onAttach = nil
		e := client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
		g.run()
		container.die()
		g.run()
		if d := e.detach; e.answer == nil || e.answer.Target != nil || d == nil || !d.Closed || d.Error == nil || d.Error.Condition != "qd:routed-link-lost" {
			t.Errorf("the client was told %+v, %+v", e.answer, d)
		}
		if n := len(g.links()); n != 0 {
			t.Errorf("%d links are left", n)
		}
		e = client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
		g.run()
		if d := e.detach; e.answer == nil || e.answer.Target != nil || e.answer.Source == nil || d == nil || d.Error == nil || d.Error.Condition != "qd:no-route-to-dest" {
			t.Errorf("without a container: %+v, %+v", e.answer, d)
		}
		client.sender("ordinary")
	})
	t.Run("client, before the container answered", func(t *testing.T) {
		g, client, container := routed(t)
		container.onAttach = nil
		client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
		g.run()
		client.die()
		g.run()
		far := container.asked[0]
		if far.detach == nil {
			t.Error("the container was told nothing")
		}
	})
	t.Run("client detaches before the container answered", func(t *testing.T) {
		g, client, container := routed(t)
		container.onAttach = nil
		e := client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
		g.run()
		e.l.TellAnswer = true
		e.l.Detach(true, nil)
		g.run()
		far := container.asked[0]
		far.l.Attach(&amqp.Attach{Source: far.answer.Source, Target: far.answer.Target})
		if far.detach != nil && !far.l.LocalDetached() {
			far.l.Detach(true, nil)
		}
		g.run()
		if e.detach == nil { // behind an attach, without which it would break the protocol
			t.Error("the client's detach was not answered")
		}
		if n := len(g.links()); n != 0 {
			t.Errorf("%d links are left", n)
		}
	})
}

// TestRoutedRefused: the far end's refusal is the client's, attach before detach (U08 e).
func TestRoutedRefused(t *testing.T) {
	g, client, container := routed(t)
	fault := &amqp.Error{Condition: "my:no", Description: "not here"}
	container.onAttach = func(e *end) {
		a := &amqp.Attach{Source: e.answer.Source}
		if e.l.Role == amqp.RoleSender {
			a = &amqp.Attach{Target: e.answer.Target}
		}
		e.l.Attach(a)
		e.l.Detach(true, fault)
	}
	for _, role := range []amqp.Role{amqp.RoleSender, amqp.RoleReceiver} {
		e := client.attach(role, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr.s")}, Target: target("lr.t")})
		g.run()
		a, d := e.answer, e.detach
		if a == nil || (a.Target != nil) != (role == amqp.RoleReceiver) || (a.Source != nil) != (role == amqp.RoleSender) {
			t.Errorf("%v: attach %+v", role, a)
		}
		if d == nil || !d.Closed || d.Error == nil || d.Error.Condition != fault.Condition || d.Error.Description != fault.Description {
			t.Errorf("%v: detach %+v", role, d)
		}
	}
	if n := len(g.links()); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// TestRoutedRefusedTogether: a container that refuses several senders in one write is answered for each,
// and each client is told in order.
func TestRoutedRefusedTogether(t *testing.T) {
	g, client, container := routed(t)
	container.onAttach = nil
	var list []*end
	for range 3 {
		list = append(list, client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")}))
	}
	g.run()
	for _, far := range container.asked {
		far.l.TellAnswer = true
		far.l.Attach(&amqp.Attach{Source: far.answer.Source})
		far.l.Detach(true, &amqp.Error{Condition: amqp.ErrCondNotFound, Description: "no such queue"})
	}
	g.run()
	for i, e := range list {
		if e.answer == nil || e.answer.Target != nil || e.detach == nil || e.detach.Error == nil || e.detach.Error.Description != "no such queue" {
			t.Errorf("client %d was told %+v %+v", i, e.answer, e.detach)
		}
		if container.asked[i].detach == nil {
			t.Errorf("the container's detach %d was not answered", i)
		}
	}
}

// TestRoutedReceiverBlocked: what waits for a receiver that does not read is bounded: its sender is
// told that there is no credit, and then that there is what it has not used. The other routed links
// of the container go on.
func TestRoutedReceiverBlocked(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedReceiver(t, client, container, 100000)
	other := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.ContainerID = "other" })
	near2, far2 := routedReceiver(t, other, container, 100000)
	client.w.fill(1000)
	body := strings.Repeat("x", 1000)
	n := 0
	for ; far.l.Credit() > 0 && n < 50000; n++ {
		far.sendSettled(body)
		if n%50 == 0 {
			g.run()
		}
	}
	if n == 50000 {
		t.Fatal("the sender was not stopped")
	}
	if held := near.out().held; held < routedHigh || held > 2*routedHigh {
		t.Errorf("%d octets wait", held)
	}
	for range 1000 {
		far2.sendSettled("free")
		if far2.l.Credit() == 0 {
			t.Fatal("the other link is stopped too")
		}
	}
	g.run()
	if len(near2.got) != 1000 {
		t.Fatalf("%d messages arrived on the other link", len(near2.got))
	}
	client.w.open()
	g.run()
	if len(near.got) != n || far.l.Credit() != uint32(100000-n) {
		t.Errorf("%d of %d messages arrived; the sender has credit %d", len(near.got), n, far.l.Credit())
	}
	if near.out().held != 0 || near.out().excess != 0 || far.l.Session.OutWindow() == 0 {
		t.Errorf("held %d, excess %d, window %d", near.out().held, near.out().excess, far.l.Session.OutWindow())
	}
}

// TestRoutedStreamBlocked: a single message without end to a receiver that does not read ends up in
// the session window; the socket is read all the same, and the links of another client are in another
// session.
func TestRoutedStreamBlocked(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedReceiver(t, client, container, 10)
	other := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.ContainerID = "other" })
	near2, far2 := routedReceiver(t, other, container, 10)
	client.w.fill(1000)
	st := far.start(&amqp.OutDelivery{Settled: true})
	piece := make([]byte, 16000)
	total := st.some(plain("")[:3], false)
	first := append([]byte{0xb0, 0x7f, 0xff, 0xff, 0xff}, piece...)
	total += st.some(first, false)
	for range 8000 {
		k := st.some(piece, false)
		if total += k; k == 0 {
			g.run()
			if far.l.Session.OutWindow() == 0 {
				break
			}
		}
	}
	if total > 40<<20 || total < 1<<20 {
		t.Fatalf("the container could send %d octets", total)
	}
	if far2.l.Session.OutWindow() == 0 {
		t.Fatal("the other client's link is in the same session")
	}
	far2.sendSettled("free")
	g.run()
	if len(near2.got) != 1 {
		t.Error("the other client's link is held up")
	}
	client.w.open()
	g.run()
	if got := len(near.got[0].payload); got != total {
		t.Errorf("%d of %d octets arrived", got, total)
	}
	if far.l.Session.OutWindow() == 0 {
		t.Error("the window stays closed")
	}
	st.last(piece)
	g.run()
	if !near.got[0].whole {
		t.Error("the message did not end")
	}
}

// TestRoutedSettledByReceiver: a receiver that wants settled deliveries gets them, and the sender is
// told accepted (RT F75).
func TestRoutedSettledByReceiver(t *testing.T) {
	g, client, container := routed(t)
	e := client.attach(amqp.RoleReceiver, amqp.Attach{SndSettleMode: amqp.Some(amqp.SndSettleModeSettled),
		Source: &amqp.Source{Address: amqp.Some("lr")}, Target: &amqp.Target{}})
	e.l.Grant(5)
	g.run()
	x := container.asked[0].send("m")
	g.run()
	if len(e.got) != 1 || !e.got[0].settled {
		t.Errorf("got %+v", e.got)
	}
	wantSaid(t, []*sent{x}, "accepted settled")
}

// TestRoutedOverrun: a sender beyond its credit loses the link, and the far end is told.
func TestRoutedOverrun(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(1)
	near.send("a")
	near.l.Start(&amqp.OutDelivery{})
	near.l.SendFrames(&amqp.OutDelivery{}, true, true, plain("b"), 1<<20)
	g.run()
	if d := near.detach; d == nil || d.Error == nil || d.Error.Condition != amqp.ErrCondTransferLimitExceeded {
		t.Errorf("the sender was told %+v", d)
	}
	if far.detach == nil {
		t.Error("the far end was told nothing")
	}
	if n := len(g.links()); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// TestRoutedOverrunEarly: so does one that sends before there is an answer to its attach, and it is told
// at once, whatever the far end does.
func TestRoutedOverrunEarly(t *testing.T) {
	g, client, container := routed(t)
	container.onAttach = nil
	near := client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
	near.l.Start(&amqp.OutDelivery{})
	near.l.SendFrames(&amqp.OutDelivery{}, true, true, plain("a"), 1<<20)
	g.run()
	if d := near.detach; near.answer == nil || d == nil || d.Error == nil || d.Error.Condition != amqp.ErrCondTransferLimitExceeded {
		t.Errorf("the sender was told %+v, %+v", near.answer, d)
	}
	far := container.asked[0]
	if far.detach == nil {
		t.Error("the far end was told nothing")
	}
	far.l.Attach(&amqp.Attach{Source: far.answer.Source, Target: far.answer.Target})
	far.l.Detach(true, nil)
	g.run()
	if n := len(g.links()); n != 0 {
		t.Errorf("%d links are left", n)
	}
	near.l = client.s.NewLink(near.l.Name, amqp.RoleSender) // the name is free
	near.l.Owner = near
	near.answer = nil
	near.l.Attach(&amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
	g.run()
	if len(container.asked) != 2 {
		t.Errorf("the container was asked for %d links", len(container.asked))
	}
}

// TestRoutedCounts: routed deliveries count as received and sent on (RT 6.3), and a routed link costs
// nothing of what others are counted by.
func TestRoutedCounts(t *testing.T) {
	g, client, container := routed(t)
	near, far := routedSender(t, client, container)
	far.grant(10)
	for range 3 {
		near.send("m")
	}
	near.sendSettled("s")
	g.run()
	far.say(0, 1, amqp.StateAccepted, true)
	far.say(2, 2, amqp.StateReleased, true)
	s := g.r.Stats()
	if s.Ingress != 4 || s.Egress != 4 || s.Accepted != 2 || s.Released != 1 || s.Presettled != 1 || s.EgressRouteContainer != 0 || s.Transit != 0 {
		t.Errorf("stats %+v", s)
	}
	if i := near.info(); i.Accepted != 2 || i.Deliveries != 4 || i.Unsettled != 0 || i.CreditAvailable != 6 {
		t.Errorf("link %+v", i)
	}
	near.close()
	if n := g.r.Stats(); n.Ingress != 4 || n.Egress != 4 {
		t.Errorf("after the link has gone: %+v", n)
	}
}

// TestRoutedSameName: two peers that call themselves and their links the same are two links at the
// container, though the name can be only one's (RT E8).
func TestRoutedSameName(t *testing.T) {
	g, client, container := routed(t)
	twin := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.ContainerID = "client" })
	near, far := routedSender(t, client, container)
	near2, far2 := routedSender(t, twin, container)
	if far.l.Name != "l0@client" || !strings.HasPrefix(far2.l.Name, "l0@client@") {
		t.Errorf("named %q and %q", far.l.Name, far2.l.Name)
	}
	far.grant(1)
	far2.grant(1)
	near.send("one")
	near2.send("two")
	g.run()
	wantBodies(t, far, "one")
	wantBodies(t, far2, "two")
	near.close()
	again := client.sender("lr") // the first name is free again
	if name := container.asked[2].l.Name; name != "l1@client" || again.detach != nil {
		t.Errorf("named %q", name)
	}
}

// TestRoutedAddresses: the addresses of link routes come and go with those who serve them, and other
// routers' are told to link routing (IR 2.12, 2.13).
func TestRoutedAddresses(t *testing.T) {
	g := newRig(t, func(o *Options) { o.Mode = Interior })
	var told []string
	g.r.SetLinkRouting(learner{&told})
	var h *RouteHold
	g.inCore(func(k *Core) {
		h = k.HoldRoute("Clr")
		h.Serve(2)
		k.SetLinkRouteCount(1)
		n := &node{id: "B", index: 7, mapped: make(map[addressKey]struct{})}
		n.route.Store(noRoute)
		g.r.mapAddress("Epat/*", n, -1)
		g.r.mapAddress("Epat/*", n, -1)
		g.r.mapAddress("M0q", n, -1)
		if n := g.r.nextHop("B"); n != nil || g.r.reachableRouter("B") {
			t.Errorf("a way to an unknown router: %v", n)
		}
	})
	if a := g.addressInfo("Clr"); a.Containers != 2 || a.Distribution != LinkBalanced {
		t.Errorf("%+v", a)
	}
	if a := g.addressInfo("Epat/*"); a.Distribution != LinkBalanced {
		t.Errorf("%+v", a)
	}
	g.inCore(func(*Core) {
		n := g.r.table["Epat/*"].remotes[0]
		g.r.unmapAddress("Epat/*", n)
		g.r.unmapAddress("M0q", n)
		h.Release()
	})
	for _, a := range g.r.Addresses() {
		if a.Key == "Clr" || a.Key == "Epat/*" {
			t.Errorf("%s is left", a.Key)
		}
	}
	if want := []string{"Epat/* B 7 true", "Epat/* B 7 false"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if n := g.r.Stats().LinkRouteCount; n != 1 {
		t.Errorf("%d link routes", n)
	}
}

type learner struct{ told *[]string }

func (l learner) Route(*LinkQuery) *RoutedLink { return nil }
func (l learner) CostsChanged()                {}
func (l learner) Learned(key, router string, index int, serves bool) {
	*l.told = append(*l.told, fmt.Sprint(key, " ", router, " ", index, " ", serves))
}

// TestRoutedAttachTooLong: an attach whose termini or name do not fit into a frame of the container is
// refused; it would cost the connection with all links on it, and a link without its filter is another
// one than was asked for. What a link can do without is left out.
func TestRoutedAttachTooLong(t *testing.T) {
	g, client, _ := routed(t)
	container := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) { o.Role, cfg.MaxFrameSize = RoleRouteContainer, 512 })
	container.onAttach = func(e *end) {
		e.l.Attach(&amqp.Attach{Source: e.answer.Source, Target: e.answer.Target})
	}
	g.r.SetLinkRouting(routeTo{g, container})
	long := strings.Repeat("x", 600)
	filter := amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("f"), Value: long}})
	for _, a := range []amqp.Attach{
		{Source: &amqp.Source{Address: amqp.Some("lr" + long)}, Target: &amqp.Target{}},
		{Source: &amqp.Source{Address: amqp.Some("lr"), Filter: filter}, Target: &amqp.Target{}},
	} {
		e := client.attach(amqp.RoleReceiver, a)
		g.run()
		if e.detach == nil || e.detach.Error == nil || e.detach.Error.Condition != "amqp:frame-size-too-small" {
			t.Errorf("told %+v", e.detach)
		}
	}
	e := client.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr")}, Target: &amqp.Target{}, Properties: filter})
	g.run()
	if e.answer == nil || e.detach != nil || container.closed != nil || len(container.asked) != 1 {
		t.Errorf("answer %v, detach %v, %d at the container", e.answer, e.detach, len(container.asked))
	}
	e.close()
	if n := len(g.links()); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// TestRoutedAnswerTooLong: a container's attach that does not fit into a frame of the client is a refusal
// of that link, of which both hear; the client's connection and its other links go on. A container's
// refusal is told whatever has to be left out of it.
func TestRoutedAnswerTooLong(t *testing.T) {
	g, _, container := routed(t)
	client := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.MaxFrameSize = 512 })
	long := strings.Repeat("x", 600)
	filter := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("f"), Value: long}}))
	other := client.sender("lr")
	for _, role := range []amqp.Role{amqp.RoleReceiver, amqp.RoleSender} {
		for name, answer := range map[string]amqp.Attach{
			"address":      {Source: &amqp.Source{Address: amqp.Some(long)}, Target: target(long)},
			"own end":      {Source: &amqp.Source{Address: amqp.Some("lr"), Filter: filter}, Target: &amqp.Target{Address: amqp.Some("lr"), Capabilities: amqp.AppendValue(nil, amqp.Symbol(long))}},
			"capabilities": {Source: &amqp.Source{Address: amqp.Some("lr"), Capabilities: amqp.AppendValue(nil, amqp.Symbol(long))}, Target: target(long)},
		} {
			container.onAttach = func(e *end) {
				e.l.TellAnswer = true
				e.l.Attach(&answer)
			}
			e := client.attach(role, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr")}, Target: target("lr")})
			e.l.Grant(5)
			g.run()
			far := container.asked[len(container.asked)-1]
			for what, e := range map[string]*end{"client": e, "container": far} {
				if e.detach == nil || !e.detach.Closed || e.detach.Error == nil || e.detach.Error.Condition != "amqp:frame-size-too-small" {
					t.Errorf("%v, %s: the %s is told %+v", role, name, what, e.detach)
				}
			}
			if e.answer == nil || role == amqp.RoleReceiver && e.answer.Source != nil || role == amqp.RoleSender && e.answer.Target != nil {
				t.Errorf("%v, %s: answered %+v", role, name, e.answer)
			}
			e.l.Detach(true, nil)
			far.l.Detach(true, nil)
			g.run()
		}
	}
	container.onAttach = func(e *end) {
		e.l.Attach(&amqp.Attach{Source: &amqp.Source{Address: amqp.Some(long)}})
		e.l.Detach(true, &amqp.Error{Condition: "my:fault"})
	}
	e := client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")})
	g.run()
	if e.detach == nil || e.detach.Error == nil || e.detach.Error.Condition != "my:fault" {
		t.Errorf("refused with %+v", e.detach)
	}
	if client.closed != nil || container.closed != nil || !other.l.Attached() {
		t.Errorf("closed %+v and %+v", client.closed, container.closed)
	}
	e.l.Detach(true, nil)
	g.run()
	if n := len(g.links()); n != 2 {
		t.Errorf("%d links, want the two halves of the other one", n)
	}
}

// TestAnswerTooLong: so it is with links that are not routed, whose answer says what the attach said
// (RT E14); a peer may send longer frames than it takes.
func TestAnswerTooLong(t *testing.T) {
	g := newRig(t, nil)
	client := g.peer(func(_ *ConnOptions, cfg *amqp.ConnConfig) { cfg.MaxFrameSize = 512 })
	long := strings.Repeat("x", 600)
	filter := amqp.Raw(amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("f"), Value: long}}))
	other := client.sender("q")
	for _, a := range []amqp.Attach{
		{Source: &amqp.Source{Address: amqp.Some(long)}, Target: target("q")},
		{Source: &amqp.Source{Address: amqp.Some("q")}, Target: target(long)},
	} {
		for _, role := range []amqp.Role{amqp.RoleReceiver, amqp.RoleSender} {
			e := client.attach(role, a)
			g.run()
			if e.detach == nil || e.detach.Error == nil || e.detach.Error.Condition != "amqp:frame-size-too-small" {
				t.Errorf("%v: told %+v", role, e.detach)
			}
			e.l.Detach(true, nil)
			g.run()
		}
	}
	e := client.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some("q"), Filter: filter}, Target: &amqp.Target{}})
	g.run()
	if e.detach != nil || e.answer == nil || e.answer.Source == nil {
		t.Errorf("answered %+v, told %+v", e.answer, e.detach)
	}
	if client.closed != nil || !other.l.Attached() || len(g.links()) != 2 {
		t.Errorf("closed %+v, %d links", client.closed, len(g.links()))
	}
}

// TestRoutedHandleMax: a container that takes only so many links in a session gets no more there, not
// even while its begin, which says so, is under way; the others are in further sessions (AMQP 1.0 part
// 2 §2.7.2). What ends gives room again.
func TestRoutedHandleMax(t *testing.T) {
	for _, limit := range []uint32{4, 255} {
		g, client, _ := routed(t)
		container := g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) {
			o.Role, cfg.HandleMax = RoleRouteContainer, limit
		})
		container.onAttach = func(e *end) {
			e.l.Attach(&amqp.Attach{Source: e.answer.Source, Target: e.answer.Target})
		}
		g.r.SetLinkRouting(routeTo{g, container})
		if limit < 255 {
			client.sender("lr") // the begin has come
		}
		count := int(limit) * 3
		attach := func() (list []*end) {
			for range count {
				list = append(list, client.attach(amqp.RoleSender, amqp.Attach{Source: &amqp.Source{}, Target: target("lr")}))
			}
			g.run()
			return list
		}
		links := attach()
		sessions := map[*amqp.Session]int{}
		for _, e := range container.asked {
			if e.l.Attached() {
				sessions[e.l.Session]++
			}
		}
		if container.closed != nil || len(sessions) < 3 || len(sessions) > 4 {
			t.Fatalf("closed %+v, %d sessions", container.closed, len(sessions))
		}
		for _, e := range links {
			if !e.l.Attached() {
				t.Errorf("%s is not attached", e.l.Name)
			}
			e.l.Detach(true, nil)
		}
		g.run()
		attach()
		for _, e := range container.asked {
			if e.l.Attached() {
				sessions[e.l.Session]++
			}
		}
		if len(sessions) > 4 {
			t.Errorf("%d sessions in the end", len(sessions))
		}
	}
}
