package router

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// routerPeer adds a scripted neighbouring router, with both control links.
func (g *rig) routerPeer(id string) (p *peer, to *end) {
	g.t.Helper()
	return g.routerPeerOffering(id, nil)
}

func (g *rig) routerPeerOffering(id string, offered []amqp.Symbol) (p *peer, to *end) {
	g.t.Helper()
	p = g.peer(func(o *ConnOptions, cfg *amqp.ConnConfig) {
		o.Role, o.StripIn, o.StripOut, cfg.ContainerID = RoleInterRouter, false, false, id
		switch len(offered) {
		case 0:
		case 1:
			cfg.OfferedCapabilities = amqp.AppendSymbol(nil, offered[0])
		default:
			cfg.OfferedCapabilities = amqp.AppendValue(nil, offered)
		}
	})
	caps := amqp.Raw(amqp.AppendSymbol(nil, capRouter))
	a := amqp.Attach{Source: &amqp.Source{Capabilities: caps}, Target: &amqp.Target{Capabilities: caps}}
	from := a
	p.attach(amqp.RoleReceiver, from).l.Grant(10000)
	to = p.attach(amqp.RoleSender, a)
	g.run()
	say := func(address string, m linkstate.Message) {
		to.transfer(&amqp.OutDelivery{Settled: true}, encodeControl(address, m, "0/"+id))
		g.run()
	}
	say("amqp:/_local/qdhello", &linkstate.Hello{ID: id, Version: 1, Area: "0", Instance: 1, Seen: []string{"R"}})
	say("_topo/0/R/qdrouter", &linkstate.LSU{ID: id, Version: 1, Area: "0", Instance: 1, LSSeq: 1,
		LinkState: linkstate.LinkState{ID: id, Area: "0", LSSeq: 1, Peers: []linkstate.Peer{{ID: "R", Cost: 1}}}})
	return p, to
}

// lastingNeighbours makes an interior router whose scripted neighbours need not greet again.
func lastingNeighbours(o *Options) {
	o.Mode = Interior
	o.Net = linkstate.Config{HelloInterval: time.Hour, HelloMaxAge: time.Hour, RAInterval: time.Hour, RAIntervalFlux: time.Hour, RemoteLSMaxAge: time.Hour}
}

// waysToAB waits until the neighbours A and B are reached, and A is a valid origin for B.
func (g *rig) waysToAB() {
	g.t.Helper()
	eventually(g.t, "ways to both", func() bool {
		g.run()
		ok := false
		g.r.call(func() {
			x, y := g.r.nodes["A"], g.r.nodes["B"]
			ok = x != nil && y != nil && !x.lost() && !y.lost() && y.route.Load().origins.Has(x.index)
		})
		return ok
	})
}

// TestRouterCapacity: what linkCapacity says is the credit of links from other routers too (IR 1.7).
func TestRouterCapacity(t *testing.T) {
	for configured, want := range map[uint32]uint32{0: routerCapacity, 8: 8} {
		g := newRig(t, func(o *Options) { o.Mode = Interior })
		p := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.Role, o.LinkCapacity = RoleInterRouter, configured })
		l := p.attach(amqp.RoleSender, amqp.Attach{Target: &amqp.Target{Capabilities: amqp.Raw(amqp.AppendSymbol(nil, capRouterData))}})
		g.run()
		if got := l.l.Credit(); got != want {
			t.Errorf("linkCapacity %d: credit %d, want %d", configured, got, want)
		}
		for range 6 { // nobody wants them; the credit is that of links that carry everybody's
			l.transfer(&amqp.OutDelivery{Settled: true}, nil)
		}
		g.run()
		if got := l.l.Credit(); got < min(want, 8) || got > want {
			t.Errorf("linkCapacity %d: credit %d after six messages, want about %d", configured, got, want)
		}
	}
}

// TestAdvertisementIsTakenInFirst: when a neighbour hears from us that another router has a consumer,
// we know of it too, and what the neighbour then sends is not released (IR 2.13, RT F58).
func TestAdvertisementIsTakenInFirst(t *testing.T) {
	g := newRig(t, lastingNeighbours)
	a, fromA := g.routerPeer("A")
	b, _ := g.routerPeer("B")
	g.waysToAB()
	heard, known := false, false
	b.w.hook = func(p []byte) {
		if bytes.Contains(p, []byte("M0fresh")) {
			heard = true
			x := g.r.lookup("M0fresh")
			known = x != nil && x.reachable()
		}
	}
	a.w.hook = func(p []byte) {
		if bytes.Contains(p, []byte("M0fresh")) {
			t.Error("the advertisement went back to where it came from")
		}
	}
	fromA.transfer(&amqp.OutDelivery{Settled: true}, encodeControl("_topo/0/all/qdrouter.ma",
		&linkstate.MAU{ID: "A", Version: 1, Area: "0", MobileSeq: 1, Add: []string{"M0fresh"}, Delete: []string{}}, "0/A"))
	g.run()
	if !heard || !known {
		t.Errorf("B heard of the consumer: %t; we knew by then: %t", heard, known)
	}
}

// TestLongControlMessage: one too long for a buffer is passed on over control links all the same,
// as only there it counts as what it is (IR 2.2, 2.4).
func TestLongControlMessage(t *testing.T) {
	g := newRig(t, lastingNeighbours)
	_, fromA := g.routerPeer("A")
	b, _ := g.routerPeer("B")
	g.waysToAB()
	exist := make([]string, 4000)
	for i := range exist {
		exist[i] = fmt.Sprintf("M0many/%d/%060d", i, i)
	}
	want := encodeControl("amqp:/_topo/0/B/qdrouter.ma", &linkstate.MAU{ID: "A", Version: 1, Area: "0", MobileSeq: 1, Exist: exist}, "0/A")
	if len(want) <= streamAt {
		t.Fatalf("%d octets are not too long", len(want))
	}
	fromA.transfer(&amqp.OutDelivery{Settled: true}, want)
	g.run()
	var came []linkstate.Message
	for _, got := range b.ends[0].got { // its control link
		m, err := decodeControl(got.payload)
		if err != nil {
			t.Fatalf("%d octets that came to B: %v", len(got.payload), err)
		}
		if u, ok := m.(*linkstate.MAU); ok && len(u.Exist) == len(exist) {
			return
		}
		came = append(came, m)
	}
	t.Errorf("the addresses did not come to B on its control link, but %.400v", came)
}
