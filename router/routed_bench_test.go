package router

import (
	"testing"

	"qdrouter/amqp"
)

// newRoutedMill is a mill whose messages go over a routed link to a container.
func newRoutedMill(t testing.TB, settled bool, size int) *mill {
	g, client, container := routed(t)
	container.onAttach = func(e *end) {
		e.l.Session.WindowTarget = 1<<31 - 1
		e.l.Attach(&amqp.Attach{Source: e.answer.Source, Target: e.answer.Target})
		e.l.Grant(1<<31 - 1)
	}
	near, far := routedSender(t, client, container)
	g.run()
	m := &mill{settled: settled, senders: []*millEnd{{p: client}}, receivers: []*millEnd{{p: container}}}
	d := amqp.Disposition{Role: amqp.RoleReceiver, First: 1 << 31, Last: amqp.Some(uint32(1 << 31)), Settled: true, State: amqp.StateAccepted}
	x := m.receivers[0]
	x.buf, x.ids = amqp.AppendDispositionFrame(nil, far.l.Session.Channel(), &d), []int{16, 21}
	body := plain(string(make([]byte, size)))
	for s := m.senders[0]; len(s.ids) < readMessages; {
		start := len(s.buf)
		f := amqp.Transfer{Handle: near.l.Handle(), DeliveryID: amqp.Some(uint32(1 << 31)), DeliveryTag: []byte("tag"), MessageFormat: amqp.Some(uint32(0)), Settled: amqp.Some(settled)}
		s.buf = amqp.AppendTransferFrame(s.buf, 0, &f, body)
		s.ids = append(s.ids, start+16)
	}
	for _, x := range []*millEnd{m.senders[0], m.receivers[0]} {
		x.p.w.sink = x.count
		x.p.done = true
		t.Cleanup(func() { x.p.done = false })
	}
	return m
}

// BenchmarkRouted is BenchmarkForward's 1x1 over a routed link.
func BenchmarkRouted(b *testing.B) {
	for _, settled := range []bool{false, true} {
		b.Run(map[bool]string{false: "unsettled", true: "settled"}[settled], func(b *testing.B) {
			m := newRoutedMill(b, settled, 100)
			m.round(b)
			b.ReportAllocs()
			rounds := 0
			for b.Loop() {
				m.round(b)
				rounds++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*readMessages), "ns/msg")
		})
	}
}

// TestNoAllocationsRouted: nor does passing on over a routed link allocate.
func TestNoAllocationsRouted(t *testing.T) {
	if underRace {
		t.Skip("pools forget under the race detector")
	}
	for _, settled := range []bool{false, true} {
		m := newRoutedMill(t, settled, 100)
		for range 50 {
			m.round(t)
		}
		if n := testing.AllocsPerRun(100, func() { m.round(t) }); n != 0 {
			t.Errorf("settled %v: %v allocations for %d messages", settled, n, readMessages)
		}
		if got := m.receivers[0].next; got < 100*readMessages {
			t.Errorf("settled %v: only %d messages arrived", settled, got)
		}
	}
}
