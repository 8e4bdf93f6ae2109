package router

import (
	"bytes"
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
