package router

import (
	"encoding/binary"
	"testing"

	"qdrouter/amqp"
)

// readMessages is how many messages one read brings in the benchmarks.
const readMessages = 64

// millAddress is too long for a string on the stack.
const millAddress = "examples/an-address-of-more-than-thirty-two-octets"

// A mill sends messages through a router in rounds without a client's work in between: the frames
// of a read are made once, and only the ids in them change.
type mill struct {
	senders   []*millEnd
	receivers []*millEnd
	settled   bool
}

// A millEnd is a connection whose frames are written by hand.
type millEnd struct {
	p    *peer
	buf  []byte
	ids  []int // offsets of what counts deliveries in buf
	next uint32
	got  uint32 // deliveries since the last disposition
}

// newMill joins senders to receivers of one address. address is what senders attach to, to stands
// in the properties of their messages.
func newMill(t testing.TB, g *rig, senders, receivers int, address, to string, settled bool, size int) *mill {
	m := &mill{settled: settled}
	wide := func(o *ConnOptions, cfg *amqp.ConnConfig) { o.StripOut, o.StripIn = g.strip, g.strip }
	body := plain(string(make([]byte, size)))
	if to != "" {
		body = addressed(to, string(make([]byte, size)))
	}
	for range receivers {
		x := &millEnd{p: g.peer(wide)}
		x.p.s.WindowTarget = 1<<31 - 1
		x.p.receiver(millAddress, 1<<31-1)
		d := amqp.Disposition{Role: amqp.RoleReceiver, First: 1 << 31, Last: amqp.Some(uint32(1 << 31)), Settled: true, State: amqp.StateAccepted}
		x.buf = amqp.AppendDispositionFrame(nil, 0, &d)
		x.ids = []int{16, 21}
		m.receivers = append(m.receivers, x)
	}
	for range senders {
		x := &millEnd{p: g.peer(wide)}
		e := x.p.sender(address)
		for range readMessages {
			start := len(x.buf)
			f := amqp.Transfer{Handle: e.l.Handle(), DeliveryID: amqp.Some(uint32(1 << 31)), DeliveryTag: []byte("tag"), MessageFormat: amqp.Some(uint32(0)), Settled: amqp.Some(settled)}
			x.buf = amqp.AppendTransferFrame(x.buf, 0, &f, body)
			x.ids = append(x.ids, start+16)
		}
		m.senders = append(m.senders, x)
	}
	for _, x := range append(m.senders, m.receivers...) {
		for _, at := range x.ids {
			if got := binary.BigEndian.Uint32(x.buf[at:]); got != 1<<31 {
				t.Fatalf("no id at %d: %#x", at, got)
			}
		}
		x.p.w.sink = x.count
		x.p.done = true // the rig has nothing to do with it until the end
		t.Cleanup(func() { x.p.done = false })
	}
	return m
}

// count takes in what the router wrote, and counts the transfers in it.
func (x *millEnd) count(p []byte) {
	for len(p) > 0 {
		if p[10] == amqp.CodeTransfer {
			x.got++
		}
		p = p[binary.BigEndian.Uint32(p):]
	}
}

func (x *millEnd) read(t testing.TB) {
	x.p.c.Begin()
	x.input(t)
	x.p.c.End()
}

func (x *millEnd) input(t testing.TB) {
	if _, err := x.p.c.Input(x.buf); err != nil {
		t.Fatal(err)
	}
}

// renumber gives the deliveries of the next read their ids.
func (x *millEnd) renumber() {
	for _, at := range x.ids {
		binary.BigEndian.PutUint32(x.buf[at:], x.next)
		x.next++
	}
}

// round is one read of every sender, and the answers to what came of it.
func (m *mill) round(t testing.TB) {
	for _, x := range m.senders {
		x.renumber()
		x.read(t)
	}
	for _, x := range m.receivers {
		if !m.settled && x.got > 0 {
			binary.BigEndian.PutUint32(x.buf[x.ids[0]:], x.next)
			binary.BigEndian.PutUint32(x.buf[x.ids[1]:], x.next+x.got-1)
			x.read(t)
		}
		x.next += x.got
		x.got = 0
	}
}

// mills are the loads of the benchmarks.
var mills = []struct {
	name               string
	senders, receivers int
	address, to        string
	dist               Distribution
	settled, annotate  bool
}{
	{name: "1x1", senders: 1, receivers: 1, address: millAddress},
	{name: "1x1settled", senders: 1, receivers: 1, address: millAddress, settled: true},
	{name: "4x4", senders: 4, receivers: 4, address: millAddress},
	{name: "multicast10", senders: 1, receivers: 10, address: millAddress, dist: Multicast},
	{name: "multicast10settled", senders: 1, receivers: 10, address: millAddress, dist: Multicast, settled: true},
	{name: "anonymous", senders: 1, receivers: 1, to: "amqp:/" + millAddress},
	{name: "annotated", senders: 1, receivers: 1, address: millAddress, annotate: true},
	{name: "annotatedAnonymous", senders: 1, receivers: 1, to: millAddress, annotate: true},
	{name: "50x50", senders: 50, receivers: 50, address: millAddress},
}

func BenchmarkForward(b *testing.B) {
	for _, tt := range mills {
		b.Run(tt.name, func(b *testing.B) {
			g := newRig(b, nil, AddressConfig{Prefix: millAddress, Distribution: tt.dist, Priority: -1})
			g.strip = !tt.annotate
			m := newMill(b, g, tt.senders, tt.receivers, tt.address, tt.to, tt.settled, 100)
			m.round(b)
			b.ReportAllocs()
			rounds := 0
			for b.Loop() {
				m.round(b)
				rounds++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*readMessages*tt.senders), "ns/msg")
		})
	}
}

// TestNoAllocations: in steady state forwarding allocates nothing (design: garbage).
func TestNoAllocations(t *testing.T) {
	if underRace {
		t.Skip("pools forget under the race detector")
	}
	for _, tt := range mills {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, nil, AddressConfig{Prefix: millAddress, Distribution: tt.dist, Priority: -1})
			g.strip = !tt.annotate
			m := newMill(t, g, tt.senders, tt.receivers, tt.address, tt.to, tt.settled, 100)
			for range 50 {
				m.round(t)
			}
			if n := testing.AllocsPerRun(100, func() { m.round(t) }); n != 0 {
				t.Errorf("%v allocations for %d messages", n, readMessages*tt.senders)
			}
		})
	}
}

// TestLongRead: a reader whose socket never runs dry does not gather what it has done with.
func TestLongRead(t *testing.T) {
	g := newRig(t, nil)
	m := newMill(t, g, 1, 1, millAddress, "", true, 100)
	x := m.senders[0]
	defer x.p.c.End()
	for range 200 {
		x.p.c.Begin() // and no End before the next
		x.renumber()
		x.input(t)
	}
	b := x.p.c.b
	if n := cap(b.arena); n > 1<<16 {
		t.Errorf("%d octets of annotations are kept", n)
	}
	if len(b.messages) != 0 || len(b.links) != 0 || len(b.pending) != 0 {
		t.Errorf("%d messages, %d links, %d pending", len(b.messages), len(b.links), len(b.pending))
	}
}
