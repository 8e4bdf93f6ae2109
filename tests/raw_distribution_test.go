package tests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

// fan is a number of receivers of one address, each with a connection of its own.
type fan struct {
	peers []*rawPeer
	links []*rawLink
}

func (r *rawRouter) fan(t *testing.T, address string, credits ...uint32) *fan {
	t.Helper()
	f := &fan{}
	for _, credit := range credits {
		p := r.session(t)
		f.peers = append(f.peers, p)
		f.links = append(f.links, p.receiver(address, credit))
	}
	return f
}

// counts waits until all is delivered and returns how many transfers each has.
func (f *fan) counts(t *testing.T, r *rawRouter, senders ...*rawPeer) []int {
	t.Helper()
	r.flush(t, append(senders, f.peers...)...)
	n := make([]int, len(f.links))
	for i, l := range f.links {
		n[i] = l.waiting()
	}
	return n
}

func (f *fan) close() {
	for _, p := range f.peers {
		p.held = nil
		p.close()
	}
}

// RT F26: under light load balanced goes round.
func TestF26OneAtATime(t *testing.T) {
	for _, settled := range []bool{false, true} {
		t.Run(fmt.Sprint("settled ", settled), func(t *testing.T) {
			r := startRouter(t)
			before := r.counts()
			f := r.fan(t, "q", 100, 100, 100)
			p := r.session(t)
			l := p.sender("q")
			l.awaitCredit(250)
			got := make([]int, 3)
			for range 9 {
				id := l.send(rawMessage("x"), settled)
				i := slices.Index(f.counts(t, r, p), 1)
				if i < 0 {
					t.Fatal("nobody has the message")
				}
				got[i]++
				d := f.links[i].receive()
				if !settled {
					f.links[i].settle(d, amqp.StateAccepted)
					p.outcomes(id)
				}
			}
			if !slices.Equal(got, []int{3, 3, 3}) {
				t.Errorf("shares %v, want 3 each", got)
			}
			f.close()
			p.close()
			r.healthy(t, before)
		})
	}
}

// RT F26a: bursts within one read go in runs.
func TestF26aBursts(t *testing.T) {
	tests := []struct {
		messages, receivers int
		want, spread, run   int // share of each, how far from it, and the longest run
	}{
		{9, 3, 3, 0, 1},
		{12, 3, 4, 0, 1},
		{24, 3, 8, 2, 2},
		{400, 4, 100, 25, 25},
		{400, 2, 200, 32, 32},
		{1000, 4, 250, 32, 32},
	}
	for _, tt := range tests {
		for _, settled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d over %d, settled %t", tt.messages, tt.receivers, settled), func(t *testing.T) {
				r := startRouter(t, withCapacity(2000))
				before := r.counts()
				f := r.fan(t, "q", slices.Repeat([]uint32{2000}, tt.receivers)...)
				p := r.pipe(t) // one write is one read
				p.open()
				p.begin(0)
				l := p.sender("q")
				l.awaitCredit(2000)
				l.sendAll(numbered(tt.messages), settled)
				got := f.counts(t, r, p)
				sum := 0
				for i, n := range got {
					sum += n
					if n < tt.want-tt.spread || n > tt.want+tt.spread {
						t.Errorf("shares %v, want %d each, give or take %d", got, tt.want, tt.spread)
					}
					longest, run, last := 0, 0, -2
					for range n {
						var x int
						if _, err := fmt.Sscan(f.links[i].receive().body(), &x); err != nil {
							t.Fatal(err)
						}
						if x <= last {
							t.Errorf("receiver %d got %d after %d", i, x, last)
						}
						if x != last+1 {
							run = 0
						}
						run++
						longest = max(longest, run)
						last = x
					}
					if longest > tt.run {
						t.Errorf("receiver %d got %d in a row, want at most %d", i, longest, tt.run)
					}
				}
				if sum != tt.messages {
					t.Errorf("%d arrived of %d", sum, tt.messages)
				}
				f.close()
				p.close()
				r.healthy(t, before)
			})
		}
	}
}

// RT F26a: a run ends where the chosen link has no credit left or reaches its capacity.
func TestF26aRunsStopAtCredit(t *testing.T) {
	r := startRouter(t, withCapacity(400))
	f := r.fan(t, "q", 5, 1000)
	p := r.pipe(t)
	p.open()
	p.begin(0)
	l := p.sender("q")
	l.awaitCredit(400)
	l.sendAll(numbered(8), false) // runs of one
	if got := f.counts(t, r, p); !slices.Equal(got, []int{4, 4}) {
		t.Errorf("shares %v, want 4 and 4", got)
	}
	l.sendAll(numbered(256), false) // runs of 32, but there is credit for one only
	got := f.counts(t, r, p)
	if got[0] != 5 {
		t.Errorf("shares %v, want the 5 that the first has credit for", got)
	}
	// What else was for the first waits; it is less than a whole run more than its share.
	if waits := 264 - got[0] - got[1]; waits > 132 {
		t.Errorf("%d wait for the receiver without credit", waits)
	}
}

// RT F21: the least loaded is chosen, by what it has not settled or not even got.
func TestF21LeastLoaded(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	f := r.fan(t, "q", 100, 100, 0)
	p := r.session(t)
	l := p.sender("q")
	l.awaitCredit(250)
	send := func() []int {
		l.send(rawMessage("x"), false)
		return f.counts(t, r, p)
	}
	for range 3 {
		send()
	}
	if got := f.counts(t, r, p); !slices.Equal(got, []int{1, 1, 0}) {
		t.Fatalf("shares %v, want 1 each, one of them queued", got)
	}
	// The first settles: it has the least load, twice.
	f.links[0].settle(f.links[0].receive(), amqp.StateAccepted)
	if d := p.disposition("the outcome"); !d.Settled {
		t.Errorf("got %+v", d)
	}
	if got := send(); !slices.Equal(got, []int{1, 1, 0}) {
		t.Errorf("shares %v, want the message at the first", got)
	}
	for range 3 {
		send()
	}
	if got := f.counts(t, r, p); !slices.Equal(got, []int{2, 2, 0}) {
		t.Errorf("shares %v, want 2 each, two of them queued", got)
	}
	f.links[2].flow(10)
	if got := f.counts(t, r, p); !slices.Equal(got, []int{2, 2, 2}) {
		t.Errorf("shares %v, want 2 each", got)
	}
	f.close()
	p.close()
	r.healthy(t, before)
}

// RT F24: backlog beyond the capacity never causes a release.
func TestF24Backlog(t *testing.T) {
	r := startRouter(t, withCapacity(5))
	before := r.counts()
	f := r.fan(t, "q", 3, 100)
	p := r.session(t)
	var links []*rawLink
	for range 6 {
		l := p.sender("q")
		l.awaitCredit(5)
		links = append(links, l)
	}
	for _, l := range links {
		l.sendAll(numbered(5), false)
	}
	if got := f.counts(t, r, p); got[0] != 3 || got[1] < 12 || got[1] > 18 {
		t.Errorf("shares %v of 30, want 3 with credit, and about half", got)
	}
	r.quiet(t, p)
	f.links[0].flow(100)
	if got := f.counts(t, r, p); got[0]+got[1] != 30 {
		t.Errorf("shares %v, want 30 in all", got)
	}
	f.close()
	p.forgetFlows()
	p.held = nil
	p.close()
	r.healthy(t, before)
}

// RT F28, F29: closest goes round, whatever credit the receivers have.
func TestF28Closest(t *testing.T) {
	t.Run("receivers", func(t *testing.T) {
		r := startRouter(t, withDistributions(router.Balanced))
		before := r.counts()
		f := r.fan(t, "closest/q", 100, 0, 100)
		p := r.session(t)
		l := p.sender("closest/q")
		l.awaitCredit(250)
		l.sendAll(numbered(9), false)
		if got := f.counts(t, r, p); !slices.Equal(got, []int{3, 0, 3}) {
			t.Errorf("shares %v, want 3 for each with credit", got)
		}
		f.links[1].flow(100)
		if got := f.counts(t, r, p); !slices.Equal(got, []int{3, 3, 3}) {
			t.Errorf("shares %v, want 3 each", got)
		}
		for range 6 { // one at a time, none settled
			l.send(rawMessage("x"), true)
			r.flush(t, p)
		}
		if got := f.counts(t, r, p); !slices.Equal(got, []int{5, 5, 5}) {
			t.Errorf("shares %v, want 5 each", got)
		}
		f.close()
		p.held = nil
		p.close()
		r.healthy(t, before)
	})
	t.Run("subscribers come first", func(t *testing.T) {
		r := startRouter(t, withDistributions(router.Balanced))
		before := r.counts()
		var got [2]int
		var cancels []func()
		for i := range got {
			cancels = append(cancels, r.Subscribe("closest/q", false, func(q *router.Request) {
				got[i]++ // in the reader of the one sender
				q.Settle(amqp.StateAccepted)
			}))
		}
		f := r.fan(t, "closest/q", 100)
		p := r.session(t)
		l := p.sender("closest/q")
		l.awaitCredit(250)
		p.outcomesFrom(l.sendAll(numbered(10), false), 10)
		if shares := f.counts(t, r, p); got != [2]int{5, 5} || shares[0] != 0 {
			t.Errorf("subscribers got %v, receivers %v, want 5 each and none", got, shares)
		}
		for _, cancel := range cancels {
			cancel()
		}
		l.send(rawMessage("x"), false)
		if shares := f.counts(t, r, p); shares[0] != 1 {
			t.Errorf("receivers got %v without subscribers, want one", shares)
		}
		f.close()
		p.held = nil
		p.close()
		r.healthy(t, before)
	})
}

// RT F31, F51: multicast gives each consumer one copy, the sender's own included.
func TestF31Multicast(t *testing.T) {
	for _, settled := range []bool{false, true} {
		t.Run(fmt.Sprint("settled ", settled), func(t *testing.T) {
			r := startRouter(t, withDistributions(router.Balanced))
			before := r.counts()
			f := r.fan(t, "multicast/q", 100, 100)
			second := f.peers[1].receiver("multicast/q", 100) // on a connection that has one
			p := r.session(t)
			own := p.receiver("multicast/q", 100)
			l := p.sender("multicast/q")
			l.awaitCredit(250)
			first := l.sendAll(numbered(20), settled)
			all := append([]*rawLink{second, own}, f.links...)
			for i, in := range all {
				for n := range 20 {
					d := in.receive()
					if d.body() != fmt.Sprint(n) || d.settled != settled {
						t.Errorf("receiver %d got %q, settled %t", i, d.body(), d.settled)
					}
					if !settled {
						in.settle(d, amqp.StateAccepted)
					}
				}
			}
			if !settled {
				if got := p.outcomesFrom(first, 20); got["accepted"] != 20 {
					t.Errorf("outcomes %v", got)
				}
			}
			l.awaitCredit(250)
			r.quiet(t, append(f.peers, p)...)
			f.close()
			p.close()
			r.healthy(t, before)
		})
	}
}

// RT F36, F37: the outcome of a multicast is the strongest of its copies', and
// nothing of what they say besides.
func TestF36MulticastOutcome(t *testing.T) {
	detailed := amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{Condition: "test:refused", Description: "not today"}))
	undeliverable := amqp.Raw(amqp.AppendModified(nil, false, true, amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}})))
	declared := amqp.Raw(append([]byte{0x00, 0x53, 0x33, 0xc0, 4, 1}, 0xa0, 1, 7))
	received := amqp.Raw(amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: 77}))
	a, rel := amqp.StateAccepted, amqp.StateReleased
	tests := []struct {
		states []amqp.Raw
		want   string
	}{
		{[]amqp.Raw{a, a, a}, "accepted"},
		{[]amqp.Raw{rel, rel, rel}, "released"},
		{[]amqp.Raw{a, rel, rel}, "accepted"},
		{[]amqp.Raw{a, undeliverable, rel}, "accepted"},
		{[]amqp.Raw{rel, undeliverable, rel}, modifiedFailed},
		{[]amqp.Raw{a, detailed, undeliverable}, "rejected"},
		{[]amqp.Raw{detailed, detailed, detailed}, "rejected"},
		{[]amqp.Raw{rel, declared, rel}, "rejected"},
		{[]amqp.Raw{nil, nil, nil}, "none"},
		{[]amqp.Raw{nil, a, nil}, "accepted"},
		{[]amqp.Raw{received, rel, received}, "released"},
	}
	r := startRouter(t, withDistributions(router.Balanced))
	before := r.counts()
	f := r.fan(t, "multicast/q", 1000, 1000, 1000)
	p := r.session(t)
	l := p.sender("multicast/q")
	l.awaitCredit(250)
	everybody := append([]*rawPeer{p}, f.peers...)
	for _, tt := range tests {
		var names []string
		for _, s := range tt.states {
			names = append(names, strings.Fields(stateText(s))[0])
		}
		name := strings.Join(names, " ")
		t.Run(name+", settled", func(t *testing.T) {
			id := l.send(rawMessage("x"), false)
			for i, s := range tt.states {
				r.quiet(t, everybody[0]) // nothing before the last
				f.links[i].settle(f.links[i].receive(), s)
				f.peers[i].barrier()
			}
			if got := p.outcomes(id)[id]; got != tt.want {
				t.Errorf("outcome %s, want %s", got, tt.want)
			}
			l.awaitCredit(250)
			r.quiet(t, everybody...)
		})
		if tt.want == "none" || tt.states[0] != nil && stateText(tt.states[0]) == stateText(received) {
			continue // these are only said with the settlement
		}
		t.Run(name+", decided and later settled", func(t *testing.T) {
			id := l.send(rawMessage("x"), false)
			var d []*rawDelivery
			for i, s := range tt.states {
				d = append(d, f.links[i].receive())
				f.links[i].dispose(d[i].id(), d[i].id(), false, s)
				f.peers[i].barrier()
			}
			if tt.states[0] != nil {
				if got := take[*amqp.Disposition](p); got.Settled || got.First != id || stateText(got.State) != tt.want {
					t.Errorf("got %+v %s, want %s unsettled", got, stateText(got.State), tt.want)
				}
			}
			for i := range tt.states {
				r.quiet(t, everybody...)
				f.links[i].settle(d[i], tt.states[i])
				f.peers[i].barrier()
			}
			if got := p.outcomes(id)[id]; got != tt.want {
				t.Errorf("outcome %s, want %s", got, tt.want)
			}
			l.awaitCredit(250)
			r.quiet(t, everybody...)
		})
	}
	r.log.wait(t, "ROUTER_CORE (warning)", "Transactions are not supported for multicast messages") // F37
	f.close()
	p.close()
	r.healthy(t, before)
}

// RT F39: a receiver that goes away counts as released for what it was not
// sent, and as modified for what it had and did not settle.
func TestF39MulticastReceiverLeaves(t *testing.T) {
	tests := []struct {
		name   string
		credit uint32 // of the one that leaves
		settle amqp.Raw
		stays  amqp.Raw // outcome of the one that stays
		want   string
	}{
		{"not sent, the other accepts", 0, nil, amqp.StateAccepted, "accepted"},
		{"not sent, the other releases", 0, nil, amqp.StateReleased, "released"},
		{"sent, the other accepts", 10, nil, amqp.StateAccepted, "accepted"},
		{"sent, the other releases", 10, nil, amqp.StateReleased, modifiedFailed},
		{"sent and rejected, the other accepts", 10, stateRejected, amqp.StateAccepted, "rejected"},
	}
	leave := map[string]func(t *testing.T, p *rawPeer, l *rawLink){
		"detach": func(_ *testing.T, _ *rawPeer, l *rawLink) { l.detach(true) },
		"end": func(_ *testing.T, p *rawPeer, _ *rawLink) {
			p.send(0, &amqp.End{})
			take[*amqp.End](p)
		},
		"close": func(_ *testing.T, p *rawPeer, _ *rawLink) { p.close() },
		"drop":  func(_ *testing.T, p *rawPeer, _ *rawLink) { p.nc.Close() },
	}
	for _, tt := range tests {
		for how, leave := range leave {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				r := startRouter(t, withDistributions(router.Balanced))
				before := r.counts()
				f := r.fan(t, "multicast/q", tt.credit, 10)
				p := r.session(t)
				l := p.sender("multicast/q")
				l.awaitCredit(250)
				id := l.send(rawMessage("x"), false)
				r.flush(t, append(f.peers, p)...)
				if tt.credit > 0 {
					d := f.links[0].receive()
					if tt.settle != nil {
						f.links[0].settle(d, tt.settle)
						f.peers[0].barrier()
					}
				}
				leave(t, f.peers[0], f.links[0])
				f.links[1].settle(f.links[1].receive(), tt.stays)
				if got := p.outcomes(id)[id]; got != tt.want {
					t.Errorf("outcome %s, want %s", got, tt.want)
				}
				l.awaitCredit(250)
				// The one that stays still works.
				id = l.send(rawMessage("y"), false)
				f.links[1].settle(f.links[1].receive(), amqp.StateAccepted)
				if got := p.outcomes(id)[id]; got != "accepted" {
					t.Errorf("then outcome %s", got)
				}
				f.peers[1].close()
				if how == "detach" || how == "end" {
					f.peers[0].held = nil
					f.peers[0].close()
				}
				p.close()
				r.healthy(t, before)
			})
		}
	}
}

// RT F40: the copies of a sender that goes away are settled as modified.
func TestF40MulticastSenderLeaves(t *testing.T) {
	for _, how := range []string{"detach", "end", "close", "drop"} {
		t.Run(how, func(t *testing.T) {
			r := startRouter(t, withDistributions(router.Balanced))
			before := r.counts()
			f := r.fan(t, "multicast/q", 10, 10, 0)
			p := r.session(t)
			l := p.sender("multicast/q")
			l.awaitCredit(250)
			l.send(rawMessage("x"), false)
			kept := f.links[0].receive()
			gone := f.links[1].receive()
			f.links[1].settle(gone, amqp.StateAccepted) // has nothing more to hear
			f.peers[1].barrier()
			switch how {
			case "detach":
				l.detach(true)
				p.close()
			case "end":
				p.send(0, &amqp.End{})
				take[*amqp.End](p)
				p.close()
			case "close":
				p.close()
			case "drop":
				p.nc.Close()
			}
			d := take[*amqp.Disposition](f.peers[0])
			if d.Role != amqp.RoleSender || !d.Settled || d.First != kept.id() || stateText(d.State) != modifiedFailed {
				t.Errorf("got %+v %s, want settled, modified", d, stateText(d.State))
			}
			// The copy that waits for credit goes out settled, or not at all.
			f.links[2].flow(10)
			r.flush(t, f.peers...)
			if n := f.links[2].waiting(); n > 0 {
				if d := f.links[2].receive(); !d.settled {
					t.Errorf("the third receiver got %+v, want it settled", d)
				}
			}
			r.quiet(t, f.peers...)
			for _, in := range f.links {
				if i := r.link(t, in.name); i.Unsettled != 0 || i.Undelivered != 0 {
					t.Errorf("%d unsettled, %d undelivered", i.Unsettled, i.Undelivered)
				}
			}
			f.close()
			r.healthy(t, before)
		})
	}
}

// RT F38: the sender's own state goes to all receivers.
func TestF38MulticastSenderState(t *testing.T) {
	r := startRouter(t, withDistributions(router.Balanced))
	f := r.fan(t, "multicast/q", 10, 10, 0)
	p := r.session(t)
	l := p.sender("multicast/q")
	l.awaitCredit(250)
	custom := amqp.Raw(amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x1234), Value: amqp.List{"of the sender"}}))
	tr := l.start()
	tr.State = custom
	p.write(l.frame(tr, rawMessage("x")))
	f.links[2].flow(1)
	for i, in := range f.links {
		d := in.receive()
		if len(d.states) != 1 || stateText(d.states[0]) != stateText(custom) {
			t.Errorf("receiver %d: states %x, want %x", i, d.states, custom)
		}
	}
	l.dispose(tr.DeliveryID.V, tr.DeliveryID.V, true, amqp.StateReleased)
	for i, q := range f.peers {
		if d := take[*amqp.Disposition](q); !d.Settled || d.Role != amqp.RoleSender || stateText(d.State) != "released" {
			t.Errorf("receiver %d: %+v %s, want released", i, d, stateText(d.State))
		}
	}
	l.awaitCredit(250)
	r.quiet(t, append(f.peers, p)...)
}

// RT F65, F93: a receiver without credit holds up neither the others nor the
// sender of settled messages.
func TestF31MulticastWithOneStalled(t *testing.T) {
	r := startRouter(t, withDistributions(router.Balanced), withCapacity(10))
	before := r.counts()
	f := r.fan(t, "multicast/q", 0, 1000, 1000)
	p := r.session(t)
	l := p.sender("multicast/q")
	l.awaitCredit(10)
	for i := range 30 {
		l.sendAll(numbered(10), true)
		for n, in := range f.links[1:] {
			if got := in.bodies(10); !slices.Equal(got, numbers(0, 10)) {
				t.Fatalf("round %d: receiver %d got %q", i, n+1, got)
			}
		}
		l.awaitCredit(10)
	}
	r.flush(t, append(f.peers, p)...)
	f.links[0].flow(1000)
	counts := f.counts(t, r, p)
	if counts[0] > 11 || counts[0] == 0 {
		t.Errorf("the stalled receiver got %d, want no more than its capacity and one", counts[0])
	}
	dropped := r.link(t, f.links[0].name).DroppedPresettled
	if dropped+uint64(counts[0]) != 300 {
		t.Errorf("%d dropped and %d delivered, want 300 together", dropped, counts[0])
	}
	f.close()
	p.held = nil
	p.close()
	r.healthy(t, before)
}

// RT F5, F6, F12: which distribution an address has.
func TestF12BestMatch(t *testing.T) {
	r := startRouter(t, func(c *rawConfig) {
		for pattern, d := range map[string]router.Distribution{
			"a.b.c.d": router.Closest, "#.b.c.d": router.Multicast, "a/*/#/d": router.Closest,
			"*/b/c/d": router.Multicast, "a.x.d": router.Closest, "a.*.d": router.Multicast,
		} {
			c.addresses = append(c.addresses, router.AddressConfig{Pattern: pattern, Distribution: d, Priority: -1})
		}
	})
	p := r.session(t)
	want := map[string]router.Distribution{
		"a.b.c.d": router.Closest, "b.c.d": router.Multicast, "f.a.b.c.d": router.Multicast, "a.c.d": router.Multicast,
		"a/c/c/d": router.Closest, "a/x/z/z/d": router.Closest, "a/x/d": router.Closest, "a.x.e": router.Balanced,
		"m.b.c.d": router.Multicast,
	}
	for address := range want {
		p.receiver(address, 1)
	}
	got := map[string]router.Distribution{}
	for _, a := range r.Addresses() {
		if _, ok := want[a.Key[2:]]; ok && strings.HasPrefix(a.Key, "M0") {
			got[a.Key[2:]] = a.Distribution
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("distributions %v, want %v", got, want)
	}
}
