package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
)

// TestOpen: what the router says of itself, and in which order (RT 1.1, E2).
func TestOpen(t *testing.T) {
	tests := []struct {
		name string
		edit func(*ConnOptions)
		want string // of the properties
	}{
		{"plain", func(o *ConnOptions) {}, `{:product="qpid-dispatch-router", :version="test", :"qd.conn-id"=1}`},
		{"cost", func(o *ConnOptions) { o.Cost = 5 }, `{:product="qpid-dispatch-router", :version="test", :"qd.conn-id"=1, :"qd.inter-router-cost"=5}`},
		{"cost 1", func(o *ConnOptions) { o.Cost = 1 }, `{:product="qpid-dispatch-router", :version="test", :"qd.conn-id"=1}`},
		{"edge", func(o *ConnOptions) { o.Role = RoleEdge }, `{:product="qpid-dispatch-router", :version="test", :"qd.conn-id"=1, :"qd.annotations-version"=1}`},
		{"failover and own", func(o *ConnOptions) {
			o.Failover = amqp.List{amqp.Map{{Key: amqp.Symbol("network-host"), Value: "h"}, {Key: amqp.Symbol("port"), Value: "1"}}}
			o.OpenProperties = amqp.Map{{Key: amqp.Symbol("mine"), Value: true}}
		}, `{:product="qpid-dispatch-router", :version="test", :"qd.conn-id"=1, :failover-server-list=[{:network-host="h", :port="1"}], :mine=true}`},
	}
	for _, tt := range tests {
		g := newRig(t, nil)
		p := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { tt.edit(o) })
		o := p.eng.Remote
		v, _ := o.Properties.Value()
		if got := traceValue(v); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if o.ContainerID != "R" || o.Hostname.Set || o.MaxFrameSize != amqp.Some(uint32(16384)) || o.ChannelMax != amqp.Some(uint16(32767)) || o.IdleTimeout.Set {
			t.Errorf("%s: %+v", tt.name, o)
		}
		for _, c := range []amqp.Raw{o.OfferedCapabilities, o.DesiredCapabilities} {
			if !slices.Equal(c.Symbols(), symbols("ANONYMOUS-RELAY", "qd.streaming-links")) {
				t.Errorf("%s: capabilities %v", tt.name, c.Symbols())
			}
		}
	}
	small := newRig(t, nil).peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.MaxFrameSize, o.MaxSessions = 100, 10 })
	if o := small.eng.Remote; o.MaxFrameSize != amqp.Some(uint32(512)) || o.ChannelMax != amqp.Some(uint16(9)) {
		t.Errorf("limits: %+v", o)
	}
}

// TestOutgoing: a connection of the router's own opens first, and names the host it wants.
func TestOutgoing(t *testing.T) {
	g := newRig(t, nil)
	w := newWire()
	o := connOptions(g)
	o.Incoming, o.Hostname = false, "broker"
	var opened string
	o.Opened = func(open *amqp.Open, text string) { opened = open.ContainerID + " " + text }
	c := g.r.NewConn(o, w)
	c.Start()
	out, _ := w.take()
	p, _, err := amqp.DecodePerformative(out[8:])
	if open, ok := p.(*amqp.Open); err != nil || !ok || open.Hostname != amqp.Some("broker") {
		t.Errorf("first frame %+v, %v", p, err)
	}
	if c.HasOpened() {
		t.Error("open before the peer is")
	}
	c.Begin()
	c.Input(amqp.AppendFrame(nil, 0, 0, &amqp.Open{ContainerID: "b"}))
	c.End()
	if !c.HasOpened() || !strings.HasPrefix(opened, "b Connection Opened: dir=out ") {
		t.Errorf("opened %v: %q", c.HasOpened(), opened)
	}
	if out, _ := w.take(); len(out) != 0 {
		t.Errorf("wrote %x", out)
	}
	c.Done()
}

// TestOverrun: who sends without credit loses the link, and nothing else (CFG R25).
func TestOverrun(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 3 })
	r := g.peer(nil).receiver("q", 100)
	s, other := a.sender("q"), a.sender("q")
	list := s.sendN(3)
	for i := range uint32(2) {
		a.eng.Out = amqp.AppendTransferFrame(a.eng.Out, 0, &amqp.Transfer{Handle: s.l.Handle(), DeliveryID: amqp.Some(3 + i), DeliveryTag: []byte{byte(i)}}, plain("too many"))
	}
	g.run()
	if s.detach == nil || s.detach.Error == nil || s.detach.Error.Condition != amqp.ErrCondTransferLimitExceeded {
		t.Fatalf("detach %+v", s.detach)
	}
	wantBodies(t, r, "0", "1", "2")
	wantSaid(t, list)
	if other.detach != nil || a.done {
		t.Error("more than the link has gone")
	}
	if n := len(g.links()); n != 2 {
		t.Errorf("%d links are left, want 2", n)
	}
	r.say(0, 2, amqp.StateAccepted, true) // nobody is there to hear it
	if n := r.out().load.Load(); n != 0 {
		t.Errorf("load %d is left", n)
	}
}

// TestHeartbeatEndpoint: senders to the endpoint have its connection watched, receivers and
// anonymous messages do not get there (RT X9, X10).
func TestHeartbeatEndpoint(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(nil)
	s := a.sender(edgeHeartbeat)
	s.wantCredit(t, heartbeatCredit, false)
	for i := range 5 {
		x := s.send(fmt.Sprint(i))
		s.sendSettled("x")
		g.run()
		wantSaid(t, []*sent{x}, "accepted settled")
		s.wantCredit(t, heartbeatCredit, false)
	}
	e := a.attach(amqp.RoleReceiver, amqp.Attach{Source: &amqp.Source{Address: amqp.Some(edgeHeartbeat)}})
	x := a.sender("").transfer(&amqp.OutDelivery{}, addressed(edgeHeartbeat, ""))
	g.run()
	if e.detach == nil || !e.detach.Closed || e.detach.Error != nil {
		t.Errorf("receiver: detach %+v", e.detach)
	}
	wantSaid(t, []*sent{x}, "released settled")
	now := g.r.now()
	if next := g.r.checkBeats(now); next == 0 || a.w.cut {
		t.Errorf("next %d, cut %v", next, a.w.cut)
	}
	g.r.checkBeats(now + int64(heartbeatLost) + 1e9)
	g.run()
	if !a.done || a.closed != nil {
		t.Errorf("silent: done %v, told %v", a.done, a.closed)
	}
	if next := g.r.checkBeats(now + 100e9); next != 0 {
		t.Errorf("still watched: %d", next)
	}
	b := g.peer(nil)
	b.sender(edgeHeartbeat).close()
	g.r.checkBeats(now + 200e9)
	g.run()
	if b.done {
		t.Error("cut though its link is gone")
	}
}
