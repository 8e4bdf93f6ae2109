package tests

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/router"
	"qdrouter/tests/internal/rig"
)

// apart is the testing.TB of a goroutine other than the test's.
type apart struct {
	testing.TB
	failed chan string // holds the first failure
}

// Fatalf is testing.TB's; it ends the goroutine.
func (a *apart) Fatalf(format string, args ...any) {
	select {
	case a.failed <- fmt.Sprintf(format, args...):
	default:
	}
	runtime.Goexit()
}

// latest takes all flows of a sending link that have come, or waits for one,
// answers a drain, and returns the credit left.
func (l *rawLink) latest(f *amqp.Flow) (*amqp.Flow, int) {
	if f != nil && l.creditOf(f) > 0 {
		if i := slices.IndexFunc(l.p.held, l.isFlow); i < 0 {
			return f, l.creditOf(f)
		}
	}
	for f = l.nextFlow(); slices.ContainsFunc(l.p.held, l.isFlow); {
		f = l.nextFlow()
	}
	if n := l.creditOf(f); f.Drain && n > 0 {
		l.count += uint32(n)
		l.flow(0)
		return f, 0
	}
	return f, l.creditOf(f)
}

// RT F58, 2.9: whatever receivers do, each delivery of a sender that stays has
// one outcome, credit never exceeds the capacity, and nothing is left behind.
func TestF58OneOutcomeEach(t *testing.T) {
	for _, d := range []router.Distribution{router.Balanced, router.Closest, router.Multicast} {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streamed %t", d, streamed), func(t *testing.T) { churn(t, d, streamed) })
		}
	}
}

func churn(t *testing.T, d router.Distribution, streamed bool) {
	const capacity = 20
	address := d.String() + "/churn"
	r := startRouter(t, withDistributions(router.Balanced), withCapacity(capacity), func(c *rawConfig) {
		c.router.Log.(*rawLog).least = router.Warning
	})
	before := r.counts()
	octets, batches := 10, rig.Scale(20, 400)
	if streamed {
		octets, batches = 150_000, rig.Scale(5, 40)
	}
	payload := (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some(address)}, Body: make([]byte, octets), BodyKind: amqp.BodyData}).Append(nil)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	a := &apart{t, make(chan string, 1)}
	stop := make(chan struct{})
	var senders, receivers sync.WaitGroup
	for i := range 3 {
		receivers.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
					receiveSome(r.session(t), a, address, rnd)
				}
			}
		})
	}
	for i := range 3 {
		senders.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(100+i)))
			p := r.session(t)
			p.t, p.decided = a, true
			var l *rawLink
			if i == 2 {
				l = p.anonymous()
			} else {
				l = p.sender(address)
			}
			var f *amqp.Flow
			for range batches {
				var room int
				for room == 0 {
					if f, room = l.latest(f); room > capacity {
						a.Fatalf("credit of %d", room)
					}
				}
				var ids []uint32
				for range 1 + rnd.IntN(room) {
					b, id := l.parts(split(payload, 16_000), nil)
					p.write(b...)
					ids = append(ids, id)
				}
				for id, got := range p.outcomes(ids...) {
					if got == "none" {
						a.Fatalf("delivery %d was settled without outcome", id)
					}
				}
			}
			p.barrier()
			p.forgetFlows()
			if f, ok := p.peek(); ok {
				a.Fatalf("left over: %s", f)
			}
			p.close()
		})
	}
	senders.Wait()
	close(stop)
	receivers.Wait()
	select {
	case why := <-a.failed:
		t.Error(why)
	default:
	}
	r.healthy(t, before)
}

// receiveSome attaches a receiver, treats what comes one way or another, and
// leaves one way or another.
func receiveSome(p *rawPeer, t testing.TB, address string, rnd *rand.Rand) {
	p.t = t
	in := p.receiver(address, uint32(rnd.IntN(10)))
	states := []amqp.Raw{amqp.StateAccepted, amqp.StateReleased, stateRejected, stateModified}
	var kept []uint32
	for range rnd.IntN(12) {
		f, err := p.read(time.Now().Add(2 * time.Millisecond))
		if err != nil {
			if !isTimeout(err) {
				t.Fatalf("receiver: %v", err)
			}
			in.flow(uint32(1 + rnd.IntN(10))) // nothing came: more credit
			continue
		}
		tr, ok := f.body.(*amqp.Transfer)
		if !ok || !tr.DeliveryID.Set {
			continue
		}
		switch rnd.IntN(4) {
		case 0:
			kept = append(kept, tr.DeliveryID.V)
		case 1: // decided and not settled, perhaps for ever
			in.dispose(tr.DeliveryID.V, tr.DeliveryID.V, false, states[rnd.IntN(4)])
			kept = append(kept, tr.DeliveryID.V)
		default:
			in.dispose(tr.DeliveryID.V, tr.DeliveryID.V, true, states[rnd.IntN(4)])
		}
		if rnd.IntN(5) == 0 {
			in.flowWith(amqp.Flow{LinkCredit: amqp.Some(uint32(rnd.IntN(10))), Drain: rnd.IntN(2) == 0})
		}
	}
	if len(kept) > 0 && rnd.IntN(2) == 0 {
		in.dispose(kept[0], kept[len(kept)-1], true, states[rnd.IntN(4)])
	}
	switch rnd.IntN(5) {
	case 0:
		in.detach(true)
	case 1:
		in.detach(false)
	case 2:
		p.send(0, &amqp.End{})
		take[*amqp.End](p)
	case 3:
		p.close()
	}
	p.nc.Close()
}

// RT F56, F66: whatever senders do, a receiver that stays sees whole messages or
// aborted ones, and its link is as it was: nothing unsettled, and no load that
// would keep deliveries from it.
func TestF56SendersThatLeave(t *testing.T) {
	for _, d := range []router.Distribution{router.Balanced, router.Closest, router.Multicast} {
		t.Run(d.String(), func(t *testing.T) {
			address := d.String() + "/churn"
			r := startRouter(t, withDistributions(router.Balanced), withCapacity(20), func(c *rawConfig) {
				c.router.Log.(*rawLog).least = router.Warning
			})
			before := r.counts()
			a := &apart{t, make(chan string, 1)}
			p := r.session(t)
			p.t = a
			in := p.receiver(address, 50)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			stop := make(chan struct{})
			var receiver, senders sync.WaitGroup
			receiver.Go(func() { steady(p, in, a, stop) })
			for i := range 4 {
				senders.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					for range rig.Scale(20, 300) {
						sendSome(r.session(t), a, address, rnd)
					}
				})
			}
			senders.Wait()
			r.holds(t, before.with(1, 1, 1))
			var link router.LinkInfo
			rig.Eventually(t, 10*rawWait, func() bool {
				link = r.link(t, in.name)
				return link.Undelivered == 0 && link.Unsettled == 0 || len(a.failed) > 0
			}, func() string {
				return fmt.Sprintf("%d undelivered, %d unsettled on the link of the receiver", link.Undelivered, link.Unsettled)
			})
			close(stop)
			receiver.Wait()
			select {
			case why := <-a.failed:
				t.Fatal(why)
			default:
			}
			p.t, p.held = t, nil
			if d == router.Balanced { // F26, as if nothing had been
				f := r.fan(t, address, 100, 100)
				f.peers, f.links = append(f.peers, p), append(f.links, in)
				in.flow(100)
				q := r.session(t)
				l := q.sender(address)
				l.awaitCredit(20)
				got := make([]int, 3)
				for range 9 {
					id := l.send(rawMessage("x"), false)
					i := slices.Index(f.counts(t, r, q), 1)
					if i < 0 {
						t.Fatal("nobody has the message")
					}
					got[i]++
					f.links[i].settle(f.links[i].receive(), amqp.StateAccepted)
					q.outcomes(id)
				}
				if !slices.Equal(got, []int{3, 3, 3}) {
					t.Errorf("shares %v, want 3 each", got)
				}
				f.close()
				q.held = nil
				q.close()
			} else {
				p.close()
			}
			r.healthy(t, before)
		})
	}
}

// steady receives until stop is closed, accepts all that comes whole, and
// checks that it is whole.
func steady(p *rawPeer, in *rawLink, t testing.TB, stop <-chan struct{}) {
	var current *rawDelivery
	for {
		f, err := p.read(time.Now().Add(20 * time.Millisecond))
		if err != nil {
			if !isTimeout(err) {
				t.Fatalf("receiver: %v", err)
			}
			in.flow(50)
			select {
			case <-stop:
				return
			default:
				continue
			}
		}
		tr, ok := f.body.(*amqp.Transfer)
		if !ok {
			continue
		}
		if current == nil {
			if !tr.DeliveryID.Set {
				t.Fatalf("a delivery begins with %+v", tr)
			}
			current = &rawDelivery{Transfer: *tr}
		}
		current.payload = append(current.payload, f.payload...)
		current.settled = current.settled || tr.Settled.V
		if tr.More && !tr.Aborted {
			continue
		}
		if !tr.Aborted {
			if m, err := amqp.DecodeMessage(current.payload); err != nil || m.BodyKind != amqp.BodyData {
				t.Fatalf("a message of %d octets: %v", len(current.payload), err)
			}
			if !current.settled {
				in.settle(current, amqp.StateAccepted)
			}
		}
		current = nil
		in.flow(50)
	}
}

// sendSome sends, one way or another, and leaves in the middle of it.
func sendSome(p *rawPeer, t testing.TB, address string, rnd *rand.Rand) {
	p.t = t
	var l *rawLink
	if rnd.IntN(2) == 0 {
		l = p.anonymous()
	} else {
		l = p.sender(address)
	}
	room := l.creditOf(l.nextFlow())
	whole := true
	for range rnd.IntN(room) {
		payload := (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some(address)},
			Body: make([]byte, []int{10, 20_000, 200_000}[rnd.IntN(3)]), BodyKind: amqp.BodyData}).Append(nil)
		settled := rnd.IntN(2) == 0
		frames, id := l.parts(split(payload, 10_000), func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(settled) })
		n := len(frames)
		if rnd.IntN(4) == 0 {
			n = rnd.IntN(n) // not the last
		}
		p.write(frames[:n]...)
		if n == len(frames) {
			if rnd.IntN(3) == 0 {
				l.dispose(id, id, true, nil)
			}
			continue
		}
		if whole = rnd.IntN(3) > 0; !whole {
			break
		}
		if n > 0 {
			p.write(l.frame(amqp.Transfer{Aborted: true}, nil))
		} else {
			l.session.nextDelivery-- // nothing of it was sent
			l.count--
		}
	}
	switch rnd.IntN(5) {
	case 0:
		l.detach(true)
	case 1:
		l.detach(false)
	case 2:
		p.send(0, &amqp.End{})
		take[*amqp.End](p)
	case 3:
		p.close()
	}
	p.nc.Close()
}
