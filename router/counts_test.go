package router

import (
	"fmt"
	"slices"
	"testing"

	"qdrouter/amqp"
)

// TestCounts: what links, addresses and the router count of every kind of outcome (RT section
// 6), and the totals in the log when a link goes (RT S2).
func TestCounts(t *testing.T) {
	g := newRig(t, nil)
	a, b := g.peer(nil), g.peer(nil)
	r := b.receiver("q", 100)
	s := a.sender("q")
	for i := range 5 {
		s.send(fmt.Sprint(i))
	}
	for range 3 {
		s.sendSettled("settled")
	}
	g.run()
	r.say(0, 0, amqp.StateAccepted, true)
	r.say(1, 1, stateRejected, true)
	r.say(2, 2, amqp.StateReleased, true)
	r.say(3, 3, stateModified, true)
	for name, i := range map[string]LinkInfo{"in": s.info(), "out": r.info()} {
		if i.Deliveries != 8 || i.Accepted != 1 || i.Rejected != 1 || i.Released != 1 || i.Modified != 1 || i.Presettled != 3 ||
			i.DroppedPresettled != 0 || i.Unsettled != 1 || i.Undelivered != 0 || !i.Up || i.OwningAddr != "M0q" || i.Capacity != 250 {
			t.Errorf("%s: %+v", name, i)
		}
	}
	if h := r.info().IngressHistogram; !slices.Equal(h, []uint64{7}) {
		t.Errorf("ingress histogram %v", h)
	}
	if s.info().CreditAvailable != 249 || r.info().CreditAvailable != 92 {
		t.Errorf("credit: in %d, out %d", s.info().CreditAvailable, r.info().CreditAvailable)
	}
	if x := g.addressInfo("M0q"); x.Ingress != 8 || x.Egress != 8 || x.Subscribers != 1 || x.Distribution != Balanced {
		t.Errorf("address %+v", x)
	}
	want := RouterStats{Presettled: 3, Accepted: 1, Rejected: 1, Released: 1, Modified: 1, Ingress: 8, Egress: 8}
	check := func(when string) {
		t.Helper()
		got := g.r.Stats()
		got.UptimeSeconds, got.MemoryUsage = 0, 0
		want.AddrCount, want.LinkCount, want.ConnectionCount = got.AddrCount, got.LinkCount, got.ConnectionCount
		if got != want {
			t.Errorf("%s: router counts\n%+v, want\n%+v", when, got, want)
		}
	}
	check("with links")
	g.log.take("")
	r.close()
	want.Modified = 2
	check("receiver gone")
	s.sendSettled("nobody")
	s.send("nobody")
	g.run()
	want.Ingress, want.Presettled, want.DroppedPresettled, want.Released = 10, 4, 1, 2
	check("nobody there")
	s.close()
	check("all gone")
	lines := g.log.take("ROUTER_CORE")
	if want := []string{
		"[C2][L1] Link detached: del=8 presett=3 psdrop=0 acc=1 rej=1 rel=1 mod=1 delay1=0 delay10=0 blocked=no",
		"[C1][L2] Link detached: del=10 presett=4 psdrop=1 acc=1 rej=1 rel=2 mod=2 delay1=0 delay10=0 blocked=no",
	}; !slices.Equal(lines, want) {
		t.Errorf("log\n%q, want\n%q", lines, want)
	}
}

// TestZeroCreditSince: a link knows since when it is without credit, and forgets it when there
// is some (RT 6.1, S5).
func TestZeroCreditSince(t *testing.T) {
	g := newRig(t, nil)
	a := g.peer(func(o *ConnOptions, _ *amqp.ConnConfig) { o.LinkCapacity = 2 })
	b := g.peer(nil)
	s := a.sender("q")
	in := s.in()
	want := func(when string, inWithout, outWithout bool) {
		t.Helper()
		if got := in.zeroAt != 0; got != inWithout || in.l.CreditOut() == 0 != inWithout {
			t.Errorf("%s: the in-link has credit %d, zeroAt %d", when, in.l.CreditOut(), in.zeroAt)
		}
		for _, x := range g.links() {
			if out := x.out; out != nil && (out.zeroAt != 0 != outWithout || out.l.Credit() == 0 != outWithout) {
				t.Errorf("%s: the out-link has credit %d, zeroAt %d", when, out.l.Credit(), out.zeroAt)
			}
		}
	}
	want("nobody there", true, true)
	r := b.receiver("q", 0)
	want("receiver without credit", false, true)
	r.grant(1)
	want("both with credit", false, false)
	s.send("1")
	g.run()
	want("one delivery", false, true)
	s.send("2")
	g.run()
	want("two deliveries", true, true)
	r.grant(5)
	want("more credit for us", true, false)
	r.say(0, 0, amqp.StateAccepted, true)
	want("one settled", false, false)
	s.transfer(&amqp.OutDelivery{}, plain(string(make([]byte, 100000))))
	g.run()
	want("a large delivery", true, false)
	r.say(1, 2, amqp.StateAccepted, true)
	want("all settled", false, false)
	r.l.Draining = true
	r.grant(0)
	want("drained", false, true)
	r.close()
	s.send("3")
	g.run()
	want("withheld", false, false)
	s.l.Drained()
	g.run()
	want("drained and withheld", true, false)
}
