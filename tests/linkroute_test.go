package tests

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/tests/internal/broker"
	"qdrouter/tests/internal/rig"
)

// routeNetwork is two routers and a broker behind B, to which links under "lr" and those of
// coordinators go; under "dead" they go nowhere.
func routeNetwork(t testing.TB, o broker.Options) (*network, *broker.Broker) {
	t.Helper()
	b, err := broker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	addr, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	conf := fmt.Sprintf("connector {\n    name: broker\n    host: %s\n    port: %s\n    role: route-container\n    saslMechanisms: ANONYMOUS\n}\n", host, port)
	for _, route := range []string{"lr in broker", "lr out broker", "dead in none", "dead out none", "$coordinator in broker"} {
		f := strings.Fields(route)
		conf += fmt.Sprintf("linkRoute {\n    prefix: %s\n    direction: %s\n    connection: %s\n}\n", f[0], f[1], f[2])
	}
	n := newNetwork(t, "A-B", netOptions{only: map[string]string{"B": conf}})
	n.waitRoute("A", "Clr", "Dlr", "C$coordinator")
	return n, b
}

// waitRoute waits until a router knows where links of these keys go.
func (n *network) waitRoute(id string, keys ...string) {
	n.t.Helper()
	until(n.t, fmt.Sprintf("destinations of %q at %s", keys, id), func() bool {
		known := map[string]bool{}
		for _, a := range n.query(id, "router.address", "key", "remoteCount", "containerCount") {
			known[fmt.Sprint(a["key"])] = rig.Number(a["remoteCount"])+rig.Number(a["containerCount"]) > 0
		}
		return !slices.ContainsFunc(keys, func(key string) bool { return !known[key] })
	})
}

func encoded(v any) amqp.Raw { return amqp.AppendValue(nil, v) }

// RT L8, L9, L11: every field of both termini arrives at the broker after two hops octet for octet,
// and so does every field of its answer at the client.
func TestTerminiOfRoutedLinks(t *testing.T) {
	var mu sync.Mutex
	var raw []byte
	var name string
	filter := encoded(amqp.Map{{Key: amqp.Symbol("s"), Value: amqp.Described{Descriptor: amqp.Symbol("x:filter"), Value: amqp.List{int32(1), "two"}}}})
	theirs := &amqp.Source{
		Address: amqp.Some("lr.theirs"), Durable: amqp.Some(uint32(1)), ExpiryPolicy: "connection-close", Timeout: amqp.Some(uint32(3)),
		DistributionMode: "move", Filter: filter, Outcomes: encoded([]amqp.Symbol{"amqp:accepted:list"}), Capabilities: encoded([]amqp.Symbol{"a", "b"}),
	}
	theirTarget := &amqp.Target{
		Address: amqp.Some("lr.there"), Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never", Timeout: amqp.Some(uint32(4)), Capabilities: encoded(amqp.Symbol("one")),
	}
	n, _ := routeNetwork(t, broker.Options{Create: true, OnAttach: func(at *broker.Attaching) {
		mu.Lock()
		defer mu.Unlock()
		raw, name = bytes.Clone(at.Raw), at.Attach.Name
		at.Reply.Source, at.Reply.Target = theirs, theirTarget
	}})
	p := n.raw(t, n.url("A"))
	source := &amqp.Source{
		Address: amqp.Some("lr.s"), Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never", Timeout: amqp.Some(uint32(70000)),
		DistributionMode: "copy", Filter: filter, DefaultOutcome: amqp.AppendModified(nil, true, true, nil),
		Outcomes: encoded([]amqp.Symbol{"amqp:accepted:list", "amqp:released:list"}), Capabilities: encoded([]amqp.Symbol{"queue", "shared"}),
	}
	target := &amqp.Target{
		Address: amqp.Some("lr.t"), Durable: amqp.Some(uint32(1)), ExpiryPolicy: "link-detach", Timeout: amqp.Some(uint32(5)), Capabilities: encoded([]amqp.Symbol{"topic"}),
	}
	for _, role := range []amqp.Role{amqp.RoleSender, amqp.RoleReceiver} {
		a := &amqp.Attach{Name: fmt.Sprint("full ", role), Role: role, Source: source, Target: target, Properties: encoded(amqp.Map{{Key: amqp.Symbol("p"), Value: true}})}
		if role == amqp.RoleSender {
			a.InitialDeliveryCount = amqp.Some(uint32(0))
		}
		l := p.attachLink(0, a)
		mu.Lock()
		fields := broker.Fields(raw)
		if name != a.Name+"@raw" {
			t.Errorf("%v: the link is named %q", role, name)
		}
		mu.Unlock()
		for i, want := range map[int][]byte{5: source.Append(nil), 6: target.Append(nil), 13: a.Properties} {
			if !bytes.Equal(fields[i], want) {
				t.Errorf("%v: field %d is\n%x, want\n%x", role, i, fields[i], want)
			}
		}
		if got, want := l.attach.Source.Append(nil), theirs.Append(nil); role == amqp.RoleReceiver && !bytes.Equal(got, want) {
			t.Errorf("%v: the client was answered with source\n%x, want\n%x", role, got, want)
		}
		if got, want := l.attach.Target.Append(nil), theirTarget.Append(nil); role == amqp.RoleSender && !bytes.Equal(got, want) {
			t.Errorf("%v: the client was answered with target\n%x, want\n%x", role, got, want)
		}
		l.detach(true)
	}
	l := p.attachLink(0, &amqp.Attach{Name: "c", Role: amqp.RoleSender, Source: &amqp.Source{}, InitialDeliveryCount: amqp.Some(uint32(0)),
		Coordinator: &amqp.Coordinator{Capabilities: encoded([]amqp.Symbol{"amqp:local-transactions", "amqp:multi-txns-per-ssn"})}})
	mu.Lock()
	defer mu.Unlock()
	want := (&amqp.Coordinator{Capabilities: encoded([]amqp.Symbol{"amqp:local-transactions", "amqp:multi-txns-per-ssn"})}).Append(nil)
	if fields := broker.Fields(raw); !bytes.Equal(fields[6], want) {
		t.Errorf("coordinator\n%x, want\n%x", fields[6], want)
	}
	l.p.close()
}

// FC U08 d and e: a refused attach by a link route, on A and on B.
func TestU08OfLinkRoutes(t *testing.T) {
	fault := &amqp.Error{Condition: "broker:no", Description: "not today", Info: encoded(amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}})}
	n, _ := routeNetwork(t, broker.Options{Create: true, OnAttach: func(at *broker.Attaching) {
		if strings.Contains(at.Attach.Name, "refused") {
			if at.Attach.Role == amqp.RoleSender {
				at.Reply.Target = nil
			} else {
				at.Reply.Source = nil
			}
			at.Refuse = fault
		}
	}})
	p := n.raw(t, n.url("B"))
	check := func(what string, l *rawLink, want *amqp.Error) {
		t.Helper()
		if l.role == amqp.RoleReceiver && (l.attach.Source != nil || l.attach.Target == nil) || l.role == amqp.RoleSender && (l.attach.Target != nil || l.attach.Source == nil) {
			t.Errorf("%s: the attach has %+v and %+v", what, l.attach.Source, l.attach.Target)
		}
		d := l.detached()
		if !d.Closed || d.Error == nil || d.Error.Condition != want.Condition || d.Error.Description != want.Description || !bytes.Equal(d.Error.Info, want.Info) {
			t.Errorf("%s: detached with %+v, want %+v", what, d.Error, want)
		}
		good := p.receiver("lr.good", 1)
		good.detach(true)
	}
	noRoute := &amqp.Error{Condition: "qd:no-route-to-dest", Description: "No route to the destination node"}
	check("d, receiver", p.receiver("dead.x", 0), noRoute)
	check("d, sender", p.sender("dead.x"), noRoute)
	for _, id := range []string{"B", "A"} {
		p = n.raw(t, n.url(id))
		check("e, receiver at "+id, p.attachReceiver(0, &amqp.Attach{Name: "refused 1" + id, Source: &amqp.Source{Address: amqp.Some("lr.x")}}, 0), fault)
		check("e, sender at "+id, p.attachSender(0, &amqp.Attach{Name: "refused 2" + id, Target: &amqp.Target{Address: amqp.Some("lr.x")}}), fault)
	}
}

// RT L9, G: a selector is the broker's affair, and works through two hops.
func TestSelectorThroughLinkRoute(t *testing.T) {
	n, b := routeNetwork(t, broker.Options{Queues: []string{"lr.q"}})
	for i := range 6 {
		m := amqp.Message{ApplicationProperties: amqp.Map{{Key: "colour", Value: []string{"red", "blue"}[i%2]}}, Body: fmt.Sprint(i), BodyKind: amqp.BodyValue}
		if err := b.Put("lr.q", m.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	p := n.raw(t, n.url("A"))
	filter := encoded(amqp.Map{{Key: amqp.Symbol("selector"), Value: amqp.Described{Descriptor: amqp.Symbol("apache.org:selector-filter:string"), Value: "colour = 'blue'"}}})
	l := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("lr.q"), Filter: filter}}, 10)
	if got := l.bodies(3); !slices.Equal(got, []string{"1", "3", "5"}) {
		t.Errorf("received %q", got)
	}
	if !bytes.Equal(l.attach.Source.Filter, filter) {
		t.Errorf("the filter in force is %x", l.attach.Source.Filter)
	}
	p.barrier()
	if k := l.waiting(); k != 0 {
		t.Errorf("%d more messages came", k)
	}
}

// RT L29, E36: transactions through link routes: declare, work that is seen when it is committed and
// not when it is rolled back, acknowledgements in a transaction.
func TestTransactionsThroughLinkRoutes(t *testing.T) {
	n, b := routeNetwork(t, broker.Options{Queues: []string{"lr.q"}})
	p := n.raw(t, n.url("A"))
	control := p.attachLink(0, &amqp.Attach{Name: "control", Role: amqp.RoleSender, Source: &amqp.Source{}, InitialDeliveryCount: amqp.Some(uint32(0)),
		Coordinator: &amqp.Coordinator{Capabilities: encoded([]amqp.Symbol{"amqp:local-transactions"})}})
	described := func(code uint64, fields ...any) any {
		return amqp.Described{Descriptor: code, Value: amqp.List(fields)}
	}
	command := func(v any) amqp.Raw {
		t.Helper()
		m := amqp.Message{Body: v, BodyKind: amqp.BodyValue}
		id := control.send(m.Append(nil), false)
		d := p.take("the outcome", func(f rawFrame) bool {
			d, ok := f.body.(*amqp.Disposition)
			return ok && d.Role == amqp.RoleReceiver && d.First == id
		}).body.(*amqp.Disposition)
		return d.State
	}
	declare := func() []byte {
		t.Helper()
		state := command(described(amqp.CodeDeclare))
		v, _ := state.Value()
		d, ok := v.(amqp.Described)
		if code, _ := amqp.StateCode(state); code != amqp.CodeDeclared || !ok {
			t.Fatalf("declare: %s", stateText(state))
		}
		return d.Value.(amqp.List)[0].([]byte)
	}
	control.awaitCredit(100)
	s := p.sender("lr.q")
	s.awaitCredit(100)
	for _, commit := range []bool{false, true} {
		txn := declare()
		var ids []uint32
		for i := range 3 {
			tr := s.start()
			tr.State = encoded(described(amqp.CodeTransactionalState, txn))
			ids = append(ids, tr.DeliveryID.V)
			p.write(s.frame(tr, rawMessage(fmt.Sprint(i))))
		}
		p.outcomes(ids...)
		if d := b.Depth("lr.q"); d != 0 {
			t.Errorf("%d messages are there before the discharge", d)
		}
		if state := command(described(amqp.CodeDischarge, txn, !commit)); stateText(state) != "accepted" {
			t.Errorf("discharge: %s", stateText(state))
		}
		want := 0
		if commit {
			want = 3
		}
		until(t, "the depth after the discharge", func() bool { return b.Depth("lr.q") == want })
	}
	r := p.receiver("lr.q", 3)
	for _, commit := range []bool{false, true} {
		txn := declare()
		if !commit {
			for range 3 {
				d := r.receive()
				r.dispose(d.id(), d.id(), true, encoded(described(amqp.CodeTransactionalState, txn, amqp.Described{Descriptor: uint64(amqp.CodeAccepted), Value: amqp.List{}})))
			}
			p.barrier()
		}
		if state := command(described(amqp.CodeDischarge, txn, !commit)); stateText(state) != "accepted" {
			t.Errorf("discharge: %s", stateText(state))
		}
	}
	if n := b.Transactions(); n != 0 {
		t.Errorf("%d transactions are left", n)
	}
	p.close()
}

// service makes a link route of its own connection (RT L23) and returns how the next link that is
// routed to it is taken, on channel 7.
func service(t *testing.T, p *rawPeer, pattern string, directions ...string) func() *rawLink {
	t.Helper()
	p.begin(1)
	replies := p.attachReceiver(1, &amqp.Attach{Source: &amqp.Source{Dynamic: true}}, 10)
	requests := p.attachSender(1, &amqp.Attach{Target: &amqp.Target{Address: amqp.Some("$management")}})
	for _, d := range directions {
		m := amqp.Message{
			Properties: &amqp.Properties{ReplyTo: amqp.Some(replies.attach.Source.Address.V), CorrelationID: uint64(1)},
			ApplicationProperties: amqp.Map{{Key: "operation", Value: "CREATE"},
				{Key: "type", Value: "org.apache.qpid.dispatch.router.connection.linkRoute"}, {Key: "name", Value: "mine " + d}},
			Body: amqp.Map{{Key: "pattern", Value: pattern}, {Key: "direction", Value: d}}, BodyKind: amqp.BodyValue,
		}
		requests.send(m.Append(nil), true)
		reply, err := amqp.DecodeMessage(replies.receive().payload)
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := reply.ApplicationProperties.Get("statusCode"); status != int32(201) {
			t.Fatalf("CREATE: %v", reply.ApplicationProperties)
		}
	}
	const own = 7
	return func() *rawLink {
		t.Helper()
		s := p.sessions[own]
		if s == nil {
			f := p.take("the router's begin", func(f rawFrame) bool {
				b, ok := f.body.(*amqp.Begin)
				return ok && !b.RemoteChannel.Set
			})
			b := f.body.(*amqp.Begin)
			s = &rawSession{window: 1 << 30, nextIncoming: b.NextOutgoingID, inLimit: b.IncomingWindow, links: map[uint32]*rawLink{}}
			p.sessions[own], p.channels[f.channel] = s, own
			p.send(own, &amqp.Begin{RemoteChannel: amqp.Some(f.channel), IncomingWindow: s.window, OutgoingWindow: 1 << 30})
			for i := range p.held { // what came with it
				if p.held[i].channel == f.channel {
					p.held[i].channel = own
				}
			}
		}
		a := p.take("the router's attach", func(f rawFrame) bool {
			a, ok := f.body.(*amqp.Attach)
			return ok && (f.channel == own) && s.links[a.Handle] == nil
		}).body.(*amqp.Attach)
		l := &rawLink{p: p, channel: own, session: s, handle: s.handles, role: !a.Role, name: a.Name, attach: a, count: a.InitialDeliveryCount.V}
		s.handles++
		s.links[a.Handle] = l
		reply := &amqp.Attach{Name: a.Name, Handle: l.handle, Role: l.role, Source: a.Source, Target: a.Target}
		if l.role == amqp.RoleSender {
			reply.InitialDeliveryCount = amqp.Some(uint32(0))
			l.count = 0
		}
		p.send(own, reply)
		return l
	}
}

// halfAttach sends an attach whose answer waits for the far end; finish takes it.
func halfAttach(p *rawPeer, a *amqp.Attach) (finish func() *rawLink) {
	s := p.sessions[0]
	a.Handle = s.handles
	s.handles++
	if a.Role == amqp.RoleSender {
		a.InitialDeliveryCount = amqp.Some(uint32(0))
	}
	p.send(0, a)
	return func() *rawLink {
		p.t.Helper()
		l := &rawLink{p: p, session: s, handle: a.Handle, role: a.Role, name: a.Name}
		l.attach = p.take("attach", func(f rawFrame) bool {
			b, ok := f.body.(*amqp.Attach)
			return ok && b.Name == a.Name
		}).body.(*amqp.Attach)
		if a.Role == amqp.RoleReceiver {
			l.count = l.attach.InitialDeliveryCount.V
		}
		s.links[l.attach.Handle] = l
		return l
	}
}

// serviceNetwork is two routers, a service connected to B and a client to A.
func serviceNetwork(t *testing.T) (client *rawPeer, next func() *rawLink) {
	t.Helper()
	n := newNetwork(t, "A-B", netOptions{})
	svc := n.raw(t, n.url("B"))
	next = service(t, svc, "svc/#", "in", "out")
	n.waitRoute("A", "Csvc", "Dsvc")
	return n.raw(t, n.url("A")), next
}

// FC U18: all details of all outcomes survive two hops of a link route, in both directions of it.
func TestU18OfLinkRoutes(t *testing.T) {
	client, next := serviceNetwork(t)
	described := func(code uint64, fields ...any) amqp.Raw {
		return encoded(amqp.Described{Descriptor: code, Value: amqp.List(fields)})
	}
	info := encoded(amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}, {Key: amqp.Symbol("n"), Value: int64(-5)}})
	notes := encoded(amqp.Map{{Key: amqp.Symbol("x-a"), Value: amqp.List{int32(1), "b"}}})
	accepted := amqp.Described{Descriptor: uint64(amqp.CodeAccepted), Value: amqp.List{}}
	finish := halfAttach(client, &amqp.Attach{Name: "u18", Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("svc/u18")}})
	far := next()
	near := finish()
	far.flow(100)
	near.awaitCredit(100)
	for _, tt := range []struct {
		name   string
		states []amqp.Raw // the last one settles
	}{
		{"received, then accepted", []amqp.Raw{amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: 77}), amqp.StateAccepted}},
		{"rejected", []amqp.Raw{amqp.AppendRejected(nil, &amqp.Error{Condition: "my:fault", Description: "why it is", Info: info})}},
		{"modified", []amqp.Raw{amqp.AppendModified(nil, true, true, notes)}},
		{"released", []amqp.Raw{amqp.StateReleased}},
		{"transaction", []amqp.Raw{described(amqp.CodeTransactionalState, []byte("txn-1"), accepted)}},
		{"declared", []amqp.Raw{described(amqp.CodeDeclared, []byte("txn-2"))}},
		{"the same state with other data", []amqp.Raw{described(999, []byte("a")), described(999, []byte("b")), described(999, []byte("c"))}},
	} {
		id := near.send(rawMessage(tt.name), false)
		d := far.receive()
		if d.body() != tt.name || string(d.DeliveryTag) != fmt.Sprintf("t%d", id) {
			t.Errorf("%s arrived as %q, tag %q", tt.name, d.body(), d.DeliveryTag)
		}
		for i, state := range tt.states {
			settled := i == len(tt.states)-1
			far.dispose(d.id(), d.id(), settled, state)
			got := client.disposition(tt.name)
			if got.First != id || got.Settled != settled || !bytes.Equal(got.State, state) {
				t.Errorf("%s: delivery %d, settled %v, state\n%x, want\n%x", tt.name, got.First, got.Settled, got.State, state)
			}
		}
	}
}

// FC U12 on a link route: of aborted deliveries no receiver sees a whole one; credit is as before,
// and so is memory.
func TestU12OfLinkRoutes(t *testing.T) {
	client, next := serviceNetwork(t)
	finish := halfAttach(client, &amqp.Attach{Name: "u12", Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some("svc/u12")}})
	far := next()
	near := finish()
	far.flow(50)
	near.awaitCredit(50)
	half := append(rawMessage(""), data(20000)...)
	rounds, settle := 3000, 1000
	if testing.Short() {
		rounds, settle = 300, 100
	}
	var before, after runtime.MemStats
	for i := range rounds {
		if i == settle {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		pieces := split(half, 10000)
		frames, _ := near.parts(append(pieces, nil), func(i int, tr *amqp.Transfer) {
			tr.More = i < len(pieces)
			tr.Aborted = i == len(pieces)
		})
		client.write(slices.Concat(frames...))
		if d := far.receive(); !d.aborted {
			t.Fatalf("delivery %d came whole, %d octets", i, len(d.payload))
		}
		if i%40 == 39 {
			far.flow(50)
			near.awaitCredit(50)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if before.HeapAlloc*11/10+1<<20 < after.HeapAlloc {
		t.Errorf("the heap grew from %d to %d octets", before.HeapAlloc, after.HeapAlloc)
	}
	id := near.send(rawMessage("good"), false)
	d := far.receive()
	if d.body() != "good" {
		t.Errorf("received %q", d.body())
	}
	far.settle(d, amqp.StateAccepted)
	if got := client.outcomes(id); got[id] != "accepted" {
		t.Errorf("outcome %q", got[id])
	}
}

// FC U06 without TLS: a link route and a strict broker, whose numbers wrap, which takes no
// authorisation id and no host name but its own.
func TestU06OfLinkRoutes(t *testing.T) {
	b, err := broker.New(broker.Options{Queues: []string{"lr.q"}, Users: map[string]string{"router": "secret"}, Hostnames: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	addr, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	conf := fmt.Sprintf("connector {\n    name: broker\n    host: %s\n    port: %s\n    role: route-container\n    saslMechanisms: PLAIN\n    saslUsername: router\n    saslPassword: secret\n}\n", host, port) +
		"linkRoute {\n    prefix: lr\n    direction: in\n    connection: broker\n}\nlinkRoute {\n    prefix: lr\n    direction: out\n    containerId: broker\n}\n"
	n := newNetwork(t, "A-B", netOptions{only: map[string]string{"B": conf}})
	n.waitRoute("A", "Clr", "Dlr")
	p := n.raw(t, n.url("A"))
	s := p.sender("lr.q")
	s.awaitCredit(100)
	first := s.sendAll(numbered(8), false)
	if got := p.outcomesFrom(first, 8); got["accepted"] != 8 {
		t.Errorf("outcomes %v", got)
	}
	r := p.receiver("lr.q", 10)
	for range 8 {
		r.settle(r.receive(), amqp.StateAccepted)
	}
	until(t, "an empty queue", func() bool { return b.Depth("lr.q") == 0 })
	if k := len(b.Conns()); k != 1 {
		t.Errorf("%d connections", k)
	}
}

// A client that stops reading in the middle of a message as large as it likes holds up no other
// client's links, over two routers.
func TestStalledClientOfLinkRoute(t *testing.T) {
	n, b := routeNetwork(t, broker.Options{Queues: []string{"lr.great", "lr.q"}})
	stalled, p := n.raw(t, n.url("A")), n.raw(t, n.url("A"))
	r := p.receiver("lr.q", 1000)
	stalled.receiver("lr.great", 1)
	if err := b.Put("lr.great", data(96<<20)); err != nil {
		t.Fatal(err)
	}
	great := b.Links()[slices.IndexFunc(b.Links(), func(l *broker.Link) bool { return l.Queue() == "lr.great" })]
	begun, since := 0, time.Now()
	until(t, "the end of what the routers take of it", func() bool {
		if k := great.Begun(); k != begun {
			begun, since = k, time.Now()
			stalled.write([]byte{0, 0, 0, 8, 2, 0, 0, 0}) // it writes, but does not read
			p.write([]byte{0, 0, 0, 8, 2, 0, 0, 0})
		}
		return begun > 16<<20 && time.Since(since) > time.Second
	})
	for i := range 200 {
		if err := b.Put("lr.q", rawMessage(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		d := r.receive()
		if d.body() != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, d.body())
		}
		r.settle(d, amqp.StateAccepted)
	}
	stalled.nc.Close()
	until(t, "the message is whole again", func() bool { return len(b.Ready("lr.great")) == 1 })
}

// RT L33, L36, L35: the broker goes and comes back: clients hear of it, and new links find it again.
func TestBrokerOfLinkRouteComesBack(t *testing.T) {
	n, b := routeNetwork(t, broker.Options{Create: true})
	p := n.raw(t, n.url("A"))
	for range 2 {
		s := p.sender("lr.q")
		s.awaitCredit(100)
		for _, c := range b.Conns() {
			c.Drop()
		}
		if d := s.detached(); !d.Closed || d.Error == nil || d.Error.Condition != "qd:routed-link-lost" {
			t.Errorf("detached with %+v", d)
		}
		p.send(0, &amqp.Detach{Handle: s.handle, Closed: true})
		until(t, "the route is back", func() bool {
			for _, a := range n.query("B", "router.config.linkRoute", "name", "operStatus") {
				if a["name"] == "linkRoute/0" {
					return a["operStatus"] == "active"
				}
			}
			return false
		})
		n.waitRoute("A", "Clr")
	}
}
