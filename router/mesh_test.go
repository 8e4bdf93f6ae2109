package router

import (
	"bytes"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// TestStreamWithoutSections: what is no message at all is still passed on when it is long enough to
// be a stream, and aborted when its sender goes, as with 1.19.
func TestStreamWithoutSections(t *testing.T) {
	g := newRig(t, nil)
	from, to := g.peer(nil), g.peer(nil)
	rcv := to.receiver("q", 10)
	snd := from.sender("q")
	st := snd.start(&amqp.OutDelivery{})
	st.more(bytes.Repeat([]byte("0123456789"), 20000))
	g.run()
	snd.close()
	if len(rcv.got) != 1 || !rcv.got[0].aborted || rcv.got[0].payload[0] != '0' {
		t.Fatalf("the receiver got %+v", rcv.got)
	}
}

// TestBalancedWeighsCosts: of many messages in one read, exactly as many stay as the cost of the way
// out makes up for (RT F22).
func TestBalancedWeighsCosts(t *testing.T) {
	r := &Router{}
	const cost = 10
	local, away := &outLink{capacity: 250}, &outLink{capacity: 250}
	via := &neighbour{}
	via.data[0].Store(away)
	n := &node{id: "B", index: 1}
	n.route.Store(&nodeRoute{via: via, cost: cost, origins: linkstate.Set{1}})
	a := &address{dist: Balanced, priority: -1}
	f := &forwarding{outs: []*outLink{local}, remotes: []*node{n}}
	m := &message{in: &inLink{inRead: 100}}
	for range 100 {
		out, track := r.choose(m, a, f)
		out.load.Add(1)
		if track != nil {
			track.Add(1)
		}
	}
	if l, o := local.load.Load(), away.load.Load(); l != 55 || o != 45 {
		t.Errorf("%d stayed and %d left, want 55 and 45", l, o)
	}
}

// TestDuplicateMulticast: a multicast counts only from the neighbour that is on the shortest path
// from its origin, and never once it has been here (IR 3.4, 5.6).
func TestDuplicateMulticast(t *testing.T) {
	r := &Router{node: "0/C"}
	near := func(id string) *neighbour {
		n := &neighbour{}
		n.id.Store(&id)
		return n
	}
	nodes := knownNodes{}
	for i, id := range []string{"A", "B"} {
		n := &node{id: id, index: i + 1}
		n.route.Store(&nodeRoute{info: linkstate.Node{Inbound: n.index}})
		nodes[id] = n
	}
	r.nodesView.Store(&nodes)
	trace := func(entries ...string) (l amqp.Raw) {
		list := amqp.List{}
		for _, e := range entries {
			list = append(list, e)
		}
		return amqp.AppendValue(nil, list)
	}
	tests := []struct {
		name    string
		dist    Distribution
		near    *neighbour
		control bool
		ingress string
		trace   []string
		want    bool
	}{
		{"from its origin", Multicast, near("A"), false, "0/A", []string{"0/A"}, false},
		{"another way round", Multicast, near("B"), false, "0/A", []string{"0/A", "0/B"}, true},
		{"balanced", Balanced, near("B"), false, "0/A", []string{"0/A", "0/B"}, false},
		{"control", Multicast, near("B"), true, "0/A", []string{"0/A", "0/B"}, false},
		{"unknown origin", Multicast, near("B"), false, "0/X", []string{"0/X", "0/B"}, false},
		{"unknown neighbour", Multicast, &neighbour{}, false, "0/A", []string{"0/A", "0/B"}, false},
		{"back again", Multicast, near("A"), false, "0/A", []string{"0/A", "0/C", "0/A"}, true},
		{"of a client", Multicast, nil, false, "0/A", []string{"0/A", "0/B"}, false},
	}
	for _, tt := range tests {
		m := &message{in: &inLink{near: tt.near, control: tt.control}}
		m.notes = annotations{ingress: []byte(tt.ingress), hasIngress: true, trace: trace(tt.trace...), hops: len(tt.trace)}
		a := &address{dist: tt.dist}
		if got := r.isDuplicate(m, a); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		store := &address{}
		store.fwd.Store(&forwarding{outs: []*outLink{{}}})
		m.in.conn, m.to, m.fwd = &Conn{r: r}, a, &forwarding{fallback: &hop{addr: store}}
		if got := m.fallback() == nil; got != tt.want { // nor is it stored
			t.Errorf("%s: kept from the fallback: %v", tt.name, got)
		}
	}
}

// TestStreamLinks: a stream to another router has a link of its own, a balanced one only where the
// router offers to take such links; else it goes by its priority (IR 1.8).
func TestStreamLinks(t *testing.T) {
	for _, tt := range []struct {
		name    string
		offered []amqp.Symbol
		address string
		hint    linkstate.Treatment
		links   int // that we attach
	}{
		{"balanced, offered", []amqp.Symbol{"ANONYMOUS-RELAY", "qd.streaming-links"}, "q", linkstate.TreatBalanced, 1},
		{"balanced, offered as the only one", []amqp.Symbol{"qd.streaming-links"}, "q", linkstate.TreatBalanced, 1},
		{"balanced, not offered", nil, "q", linkstate.TreatBalanced, 0},
		{"closest, not offered", nil, "c", linkstate.TreatClosest, 1},
		{"multicast, not offered", nil, "m", linkstate.TreatMulticast, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, lastingNeighbours)
			a, fromA := g.routerPeerOffering("A", tt.offered)
			caps := amqp.Raw(amqp.AppendSymbol(nil, capRouterData))
			data := a.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Capabilities: caps}})
			data.l.Grant(10)
			g.run()
			fromA.transfer(&amqp.OutDelivery{Settled: true}, encodeControl("_topo/0/all/qdrouter.ma", &linkstate.MAU{ID: "A", Version: 1,
				Area: "0", MobileSeq: 1, Add: []string{"M0" + tt.address}, Treatments: []linkstate.Treatment{tt.hint}, Delete: []string{}}, "0/A"))
			g.run()
			g.peer(nil).sender(tt.address).start(&amqp.OutDelivery{}).more(plain(strings.Repeat("x", 2*streamAt)))
			g.run()
			if len(a.asked) != tt.links || len(data.got) != 1-tt.links {
				t.Errorf("%d links attached, %d deliveries on the data link, want %d and %d", len(a.asked), len(data.got), tt.links, 1-tt.links)
			}
		})
	}
}
