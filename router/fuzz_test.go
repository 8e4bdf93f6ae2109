package router

import (
	"encoding/binary"
	"testing"

	"qdrouter/amqp"
)

// FuzzInput feeds a connection that has links, deliveries under way in both directions and a
// session with whatever comes. It must not panic, and nothing must be left of it.
func FuzzInput(f *testing.F) {
	frame := func(p amqp.Performative, payload ...byte) []byte {
		b := append(p.Append(nil), payload...)
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
	}
	join := func(list ...[]byte) (b []byte) {
		for _, x := range list {
			b = append(b, x...)
		}
		return b
	}
	u := amqp.Some[uint32]
	transfer := func(handle, id uint32, payload []byte) []byte {
		return frame(&amqp.Transfer{Handle: handle, DeliveryID: u(id), DeliveryTag: []byte{1}, MessageFormat: u(0)}, payload...)
	}
	f.Add(join(transfer(0, 5, plain("x")), transfer(1, 6, addressed("q", "y")), transfer(2, 7, plain("z"))))
	f.Add(join(frame(&amqp.Transfer{Handle: 0, DeliveryID: u(5), DeliveryTag: []byte{1}, More: true}, plain("abc")[:3]...), frame(&amqp.Transfer{Handle: 0, Aborted: true})))
	f.Add(join(frame(&amqp.Transfer{Handle: 0, DeliveryID: u(5), Settled: amqp.Some(true), More: true}, plain("abc")[:3]...), frame(&amqp.Detach{Handle: 0})))
	for _, state := range []amqp.Raw{nil, amqp.StateAccepted, stateModified, stateRejected, stateReceived} {
		f.Add(frame(&amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: u(9), Settled: true, State: state}))
		f.Add(frame(&amqp.Disposition{Role: amqp.RoleReceiver, First: 0, State: state}))
		f.Add(frame(&amqp.Disposition{Role: amqp.RoleSender, First: 0, Last: u(9), Settled: true, State: state}))
	}
	f.Add(frame(&amqp.Flow{NextIncomingID: u(0), IncomingWindow: 5, Handle: u(3), DeliveryCount: u(0), LinkCredit: u(9), Drain: true, Echo: true}))
	f.Add(frame(&amqp.Flow{NextIncomingID: u(0), IncomingWindow: 0}))
	f.Add(frame(&amqp.Flow{NextIncomingID: u(0), IncomingWindow: 9, Handle: u(0), DeliveryCount: u(200)}))
	f.Add(frame(&amqp.Attach{Name: "new", Handle: 9, Role: amqp.RoleReceiver, Source: &amqp.Source{Dynamic: true}}))
	f.Add(frame(&amqp.Attach{Name: "new", Handle: 9, Target: &amqp.Target{Address: amqp.Some("_$qd.edge_heartbeat")}}))
	f.Add(join(frame(&amqp.Detach{Handle: 3, Closed: true}), frame(&amqp.Attach{Name: "l3", Handle: 3, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some("q")}})))
	f.Add(frame(&amqp.End{}))
	f.Add(frame(&amqp.Close{}))
	f.Add(join(frame(&amqp.End{}), frame(&amqp.Begin{NextOutgoingID: 3, IncomingWindow: 9, OutgoingWindow: 9}), transfer(0, 0, nil)))

	f.Fuzz(func(t *testing.T, data []byte) {
		g := newRig(t, func(o *Options) { o.Log = silent{} }, multi)
		base := g.r.Stats().AddrCount
		a, b := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.StripIn, o.StripOut = len(data)%2 == 0, len(data)%3 == 0 }), g.peer(nil)
		q := a.sender("q")
		a.sender("")
		m := a.sender("multi")
		a.receiver("q", 3)
		r := b.receiver("q", 2)
		b.receiver("multi", 1)
		a.receiver("multi", 1)
		for range 3 {
			q.send("x")
		}
		m.send("y")
		m.send(string(make([]byte, 20000)))
		b.sender("q").sendN(2)
		g.run()
		a.w.sink = func([]byte) {} // the fuzzed peer does not listen
		var in []byte
		for len(data) > 1 && len(in) < 1<<16 {
			n := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
			in = binary.BigEndian.AppendUint32(in, uint32(n+8))
			in = append(in, 2, 0, 0, 0)
			in = append(in, data[2:2+n]...)
			data = data[2+n:]
		}
		if len(data) == 1 {
			a.read = int(data[0])
		}
		a.in = append(a.in, in...)
		a.feed()
		g.core()
		b.pump()
		for _, d := range r.got {
			b.s.Dispose(amqp.RoleReceiver, d.id, d.id, true, amqp.StateAccepted)
		}
		b.pump()
		a.die()
		b.die()
		for range 2 {
			g.core()
		}
		if s := g.r.Stats(); s.AddrCount != base || s.LinkCount != 0 || s.ConnectionCount != 0 {
			t.Errorf("%d addresses, had %d; %d links, %d connections", s.AddrCount, base, s.LinkCount, s.ConnectionCount)
		}
	})
}
