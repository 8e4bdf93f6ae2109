package tests

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
	"qdrouter/tests/internal/rig"
)

// pair is a sender and a receiver of the address q, on a connection each.
type pair struct {
	r      *rawRouter
	p, c   *rawPeer // sending, consuming
	out    *rawLink
	in     *rawLink
	before rawCounts
}

func newPair(t *testing.T, credit uint32, change ...func(*rawConfig)) *pair {
	t.Helper()
	r := startRouter(t, change...)
	x := &pair{r: r, before: r.counts()}
	x.c, x.p = r.session(t), r.session(t)
	x.in = x.c.receiver("q", credit)
	x.out = x.p.sender("q")
	x.out.awaitCredit(int(r.in.Options.LinkCapacity))
	return x
}

// quiet is as the router's, but for the flows that the sender may get.
func (x *pair) quiet(t *testing.T) {
	t.Helper()
	x.r.flush(t, x.p, x.c)
	x.p.forgetFlows()
	x.r.quiet(t, x.p, x.c)
}

// end closes both connections and makes the post-check.
func (x *pair) end(t *testing.T) {
	t.Helper()
	x.quiet(t)
	x.p.close()
	x.c.close()
	x.r.healthy(t, x.before)
}

// leaving is how a receiver may go away.
var leaving = map[string]func(l *rawLink){
	"detach":       func(l *rawLink) { l.detach(false) },
	"close a link": func(l *rawLink) { l.detach(true) },
	"end": func(l *rawLink) {
		l.p.send(l.channel, &amqp.End{})
		take[*amqp.End](l.p)
	},
	"close": func(l *rawLink) { l.p.close() },
	"drop":  func(l *rawLink) { l.p.nc.Close() },
}

// RT F54, F53: ten sent, six of them credited and received, none settled: four
// come back released and six modified.
func TestF54ReleasedAndModified(t *testing.T) {
	for how, leave := range leaving {
		t.Run(how, func(t *testing.T) {
			x := newPair(t, 6)
			first := x.out.sendAll(numbered(10), false)
			if got := x.in.bodies(6); !slices.Equal(got, numbers(0, 6)) {
				t.Errorf("received %q", got)
			}
			x.quiet(t)
			leave(x.in)
			ids := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
			for id, got := range x.p.outcomes(ids...) {
				want := modifiedFailed
				if id >= first+6 {
					want = "released"
				}
				if got != want {
					t.Errorf("delivery %d is %s, want %s", id, got, want)
				}
			}
			s := x.r.link(t, x.out.name)
			if s.Modified != 6 || s.Released != 4 || s.Unsettled != 0 {
				t.Errorf("link counts %d modified, %d released, %d unsettled", s.Modified, s.Released, s.Unsettled)
			}
			x.p.held = nil
			x.p.close()
			x.c.nc.Close()
			x.r.healthy(t, x.before)
		})
		t.Run(how+", settled messages", func(t *testing.T) {
			x := newPair(t, 6)
			x.out.sendAll(numbered(10), true)
			x.in.bodies(6)
			x.quiet(t)
			leave(x.in)
			x.r.flush(t, x.p)
			x.p.forgetFlows()
			x.r.quiet(t, x.p)
			rig.Eventually(t, rawWait, func() bool { return x.r.Stats().DroppedPresettled == 4 }, func() string {
				return fmt.Sprintf("%d dropped, want 4", x.r.Stats().DroppedPresettled)
			})
			x.p.close()
			x.c.nc.Close()
			x.r.healthy(t, x.before)
		})
		t.Run(how+", decided and not settled", func(t *testing.T) {
			x := newPair(t, 10)
			id := x.out.send(rawMessage("x"), false)
			d := x.in.receive()
			x.in.dispose(d.id(), d.id(), false, amqp.StateAccepted)
			if got := x.p.disposition("accepted"); got.Settled || stateText(got.State) != "accepted" {
				t.Errorf("got %+v", got)
			}
			leave(x.in)
			if got := x.p.outcomes(id)[id]; got != "accepted" { // F76: it stands
				t.Errorf("outcome %s, want accepted", got)
			}
		})
	}
	t.Run("only part was sent", func(t *testing.T) {
		x := newPair(t, 10, withConn(func(o *router.ConnOptions) { o.MaxFrameSize = 4096 }))
		b, id := x.out.parts(split(data(300_000), 4000), nil)
		x.p.write(b[:len(b)*2/3]...)
		x.in.nextTransfer()
		x.r.flush(t, x.p, x.c)
		x.c.held = nil
		x.in.detach(true)
		d := x.p.disposition("released") // F57: at once
		if d.Settled || stateText(d.State) != "released" {
			t.Errorf("got %+v %s, want released, unsettled", d, stateText(d.State))
		}
		x.p.write(b[len(b)*2/3:]...)
		if got := x.p.outcomes(id)[id]; got != "released" {
			t.Errorf("outcome %s, want released", got)
		}
		x.r.flush(t, x.c)
		x.c.held = nil
		x.end(t)
	})
}

// RT F56: the deliveries of a sender that is gone stay with their receiver.
func TestF56SenderLost(t *testing.T) {
	for _, how := range []string{"detach", "end", "close", "drop"} {
		t.Run(how, func(t *testing.T) {
			x := newPair(t, 1)
			x.out.sendAll(numbered(2), false)
			d := x.in.receive()
			x.quiet(t)
			switch how {
			case "detach":
				x.out.detach(true)
			case "end":
				x.p.send(0, &amqp.End{})
				take[*amqp.End](x.p)
			case "close":
				x.p.close()
			case "drop":
				x.p.nc.Close()
			}
			x.r.core()
			x.r.quiet(t, x.c)
			x.in.settle(d, amqp.StateAccepted)
			x.in.flow(1) // the one queued is still delivered
			if e := x.in.receive(); e.body() != "1" {
				t.Errorf("received %q", e.body())
			} else {
				x.in.settle(e, stateRejected)
			}
			x.r.quiet(t, x.c)
			if i := x.r.link(t, x.in.name); i.Unsettled != 0 || i.Undelivered != 0 || i.Deliveries != 2 {
				t.Errorf("link is %+v", i)
			}
			x.c.close()
			x.p.nc.Close()
			x.r.healthy(t, x.before)
		})
	}
}

// RT F57: an outcome while the message still arrives reaches the sender at
// once, its settlement when all has come.
func TestF57OutcomeWhileArriving(t *testing.T) {
	payload := data(400_000)
	for name, state := range map[string]amqp.Raw{
		"accepted": amqp.StateAccepted, "rejected": stateRejected, "released": amqp.StateReleased,
	} {
		t.Run(name, func(t *testing.T) {
			x := newPair(t, 10)
			b, id := x.out.parts(split(payload, 10_000), nil)
			x.p.write(b[:len(b)/2]...)
			f := x.in.nextTransfer()
			d := f.body.(*amqp.Transfer)
			x.in.dispose(d.DeliveryID.V, d.DeliveryID.V, true, state)
			got := x.p.disposition("the outcome")
			if got.Settled || got.First != id || stateText(got.State) != name {
				t.Errorf("got %+v %s, want %s, unsettled", got, stateText(got.State), name)
			}
			x.quietBut(t)
			x.p.write(b[len(b)/2:]...)
			if got := x.p.outcomes(id)[id]; got != name {
				t.Errorf("outcome %s, want %s", got, name)
			}
			x.out.awaitCredit(250)
			// The link goes on.
			x.quietBut(t)
			id = x.out.send(rawMessage("next"), false)
			if e := x.in.receive(); e.body() != "next" {
				t.Errorf("received %q", e.body())
			} else {
				x.in.settle(e, amqp.StateAccepted)
			}
			if got := x.p.outcomes(id)[id]; got != "accepted" {
				t.Errorf("outcome %s", got)
			}
			x.end(t)
		})
	}
}

// quietBut waits until nothing is under way and throws away the transfers that
// have come, and the flows.
func (x *pair) quietBut(t *testing.T) {
	t.Helper()
	x.r.flush(t, x.p, x.c)
	x.p.forgetFlows()
	x.c.held = slices.DeleteFunc(x.c.held, x.in.isTransfer)
	x.r.quiet(t, x.p, x.c)
}

// RT F66: aborted deliveries.
func TestF66Abort(t *testing.T) {
	long := data(400_000)
	abort := func(x *pair) { x.p.write(x.out.frame(amqp.Transfer{Aborted: true}, nil)) }
	good := func(t *testing.T, x *pair) {
		t.Helper()
		id := x.out.send(rawMessage("good"), false)
		d := x.in.receive()
		if d.body() != "good" || d.aborted {
			t.Errorf("received %q, aborted %t", d.body(), d.aborted)
		}
		x.in.settle(d, amqp.StateAccepted)
		if got := x.p.outcomes(id)[id]; got != "accepted" {
			t.Errorf("outcome of the good one %s", got)
		}
		x.out.awaitCredit(250)
		x.end(t)
	}
	for _, settled := range []bool{false, true} {
		begin := func(x *pair, payload []byte, n int) {
			b, _ := x.out.parts(append(split(payload, n), nil), func(i int, t *amqp.Transfer) {
				t.Settled = amqp.Some(settled)
				t.More = true
			})
			x.out.p.write(b...)
		}
		name := fmt.Sprint(", settled ", settled)
		t.Run("before anything is forwarded"+name, func(t *testing.T) {
			x := newPair(t, 1)
			for range 20 {
				begin(x, data(1000), 100)
				abort(x)
				x.out.awaitCredit(250)
			}
			x.quiet(t)
			good(t, x)
		})
		t.Run("with the first frame"+name, func(t *testing.T) {
			x := newPair(t, 1)
			tr := x.out.start()
			tr.Settled = amqp.Some(settled)
			tr.Aborted = true
			x.p.write(x.out.frame(tr, nil))
			x.out.awaitCredit(250)
			x.quiet(t)
			good(t, x)
		})
		t.Run("while it is forwarded"+name, func(t *testing.T) {
			x := newPair(t, 2)
			begin(x, long, 10_000)
			x.in.nextTransfer()
			abort(x)
			d := x.in.receive()
			if !d.aborted {
				t.Errorf("the delivery ended without being aborted")
			}
			x.out.awaitCredit(250)
			good(t, x)
		})
		t.Run("without credit of the receiver"+name, func(t *testing.T) {
			x := newPair(t, 0)
			begin(x, long, 10_000)
			x.quiet(t)
			abort(x)
			x.out.awaitCredit(250)
			x.quiet(t)
			x.in.flow(1)
			x.quiet(t)
			good(t, x)
		})
		t.Run("behind another in the queue"+name, func(t *testing.T) {
			x := newPair(t, 0)
			id := x.out.send(rawMessage("first"), false)
			begin(x, long, 10_000)
			x.quiet(t)
			abort(x)
			x.quiet(t)
			x.in.flow(2)
			d := x.in.receive()
			if d.body() != "first" {
				t.Errorf("received %q", d.body())
			}
			x.in.settle(d, amqp.StateAccepted)
			if got := x.p.outcomes(id)[id]; got != "accepted" {
				t.Errorf("outcome %s", got)
			}
			x.quiet(t)
			good(t, x)
		})
		t.Run("multicast, one without credit"+name, func(t *testing.T) {
			r := startRouter(t, withDistributions(router.Balanced))
			before := r.counts()
			f := r.fan(t, "multicast/q", 2, 0, 2)
			p := r.session(t)
			l := p.sender("multicast/q")
			l.awaitCredit(250)
			x := &pair{r: r, p: p, out: l}
			begin(x, long, 10_000)
			for _, i := range []int{0, 2} {
				f.links[i].nextTransfer()
			}
			abort(x)
			for _, i := range []int{0, 2} {
				if d := f.links[i].receive(); !d.aborted {
					t.Errorf("receiver %d: not aborted", i)
				}
			}
			l.awaitCredit(250)
			f.links[1].flow(1)
			id := l.send(rawMessage("good"), false)
			for i, in := range f.links {
				d := in.receive()
				if d.body() != "good" {
					t.Errorf("receiver %d: %q", i, d.body())
				}
				in.settle(d, amqp.StateAccepted)
			}
			if got := p.outcomes(id)[id]; got != "accepted" {
				t.Errorf("outcome %s", got)
			}
			l.awaitCredit(250)
			r.quiet(t, append(f.peers, p)...)
			f.close()
			p.close()
			r.healthy(t, before)
		})
		// A sender that goes in mid message has aborted it.
		for _, how := range []string{"detach", "end", "close", "drop"} {
			t.Run("the sender leaves by "+how+name, func(t *testing.T) {
				x := newPair(t, 2)
				begin(x, long, 10_000)
				x.in.nextTransfer()
				switch how {
				case "detach":
					x.out.detach(true)
				case "end":
					x.p.send(0, &amqp.End{})
					take[*amqp.End](x.p)
				case "close":
					x.p.close()
				case "drop":
					x.p.nc.Close()
				}
				if d := x.in.receive(); !d.aborted {
					t.Error("the delivery ended without being aborted")
				}
				if how == "close" || how == "drop" {
					x.p = x.r.session(t)
				} else if how == "end" {
					x.p.held = nil
					x.p.begin(0)
				}
				x.out = x.p.sender("q")
				x.out.awaitCredit(250)
				good(t, x)
			})
		}
	}
	t.Run("decided before", func(t *testing.T) {
		x := newPair(t, 2)
		b, id := x.out.parts(append(split(long, 10_000), nil), func(_ int, t *amqp.Transfer) { t.More = true })
		x.p.write(b...)
		d := x.in.nextTransfer().body.(*amqp.Transfer)
		x.in.dispose(d.DeliveryID.V, d.DeliveryID.V, true, stateRejected)
		if got := x.p.disposition("rejected"); got.First != id || got.Settled {
			t.Errorf("got %+v", got)
		}
		abort(x)
		x.out.awaitCredit(250)
		x.r.flush(t, x.p, x.c)
		for x.in.waiting() > 0 {
			if f := x.in.nextTransfer().body.(*amqp.Transfer); x.in.waiting() == 0 && !f.Aborted {
				t.Errorf("the last frame is %+v, want it aborted", f)
			}
		}
		good(t, x)
	})
}

// RT F67: settled may come late.
func TestF67SettledLate(t *testing.T) {
	for name, payload := range map[string][]byte{"short": data(1000), "streamed": data(400_000)} {
		settleAt := func(at int) func(int, *amqp.Transfer) {
			return func(i int, t *amqp.Transfer) {
				if i >= at {
					t.Settled = amqp.Some(true)
				}
			}
		}
		pieces := split(payload, len(payload)/40)
		for what, at := range map[string]int{"the second": 1, "the last": len(pieces) - 1} {
			t.Run(name+", with "+what+" frame", func(t *testing.T) {
				x := newPair(t, 10)
				b, _ := x.out.parts(pieces, settleAt(at))
				x.p.write(b...)
				d := x.in.receive()
				if !bytes.Equal(d.payload, payload) {
					t.Errorf("%d octets came, want %d", len(d.payload), len(payload))
				}
				if !d.settled {
					s := take[*amqp.Disposition](x.c)
					if s.Role != amqp.RoleSender || !s.Settled || s.First != d.id() {
						t.Errorf("got %+v, want the sender's settlement", s)
					}
				}
				x.out.awaitCredit(250)
				x.end(t)
			})
		}
		t.Run(name+", with a disposition before the last frame", func(t *testing.T) {
			x := newPair(t, 10)
			b, id := x.out.parts(pieces, nil)
			last := len(b) - 1
			x.p.write(b[:last]...)
			x.out.dispose(id, id, true, amqp.StateAccepted)
			x.r.flush(t, x.p, x.c)
			for _, f := range x.c.held {
				if d, ok := f.body.(*amqp.Disposition); ok {
					t.Errorf("the receiver got %+v before the last frame", d)
				}
			}
			x.p.write(b[last])
			d := x.in.receive()
			if !bytes.Equal(d.payload, payload) {
				t.Errorf("%d octets came, want %d", len(d.payload), len(payload))
			}
			if !d.settled {
				s := take[*amqp.Disposition](x.c)
				if s.Role != amqp.RoleSender || !s.Settled || s.First != d.id() {
					t.Errorf("got %+v, want the sender's settlement", s)
				}
			}
			x.out.awaitCredit(250)
			x.end(t)
		})
	}
}

// RT F69: what nobody wants is read and thrown away.
func TestF69DiscardedStream(t *testing.T) {
	payload := (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some("nobody")}, Body: make([]byte, 600_000), BodyKind: amqp.BodyData}).Append(nil)
	for _, settled := range []bool{true, false} {
		t.Run(fmt.Sprint("settled ", settled), func(t *testing.T) {
			r := startRouter(t, withCapacity(3))
			before := r.counts()
			p := r.session(t)
			l := p.anonymous()
			l.awaitCredit(3)
			for range 10 {
				b, id := l.parts(split(payload, 16_000), func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(settled) })
				p.write(b...)
				l.awaitCredit(3)
				if !settled {
					d := p.disposition("released")
					if stateText(d.State) != "released" || !d.Settled {
						t.Errorf("got %+v %s", d, stateText(d.State))
					}
					_ = id
				}
			}
			r.quiet(t, p)
			p.close()
			r.healthy(t, before)
		})
	}
}

// RT F70: state and settlement travel separately, both ways.
func TestF70ThreeWay(t *testing.T) {
	for mode, rcv := range map[string]uint8{"first": amqp.RcvSettleModeFirst, "second": amqp.RcvSettleModeSecond} {
		t.Run("receiver settles "+mode, func(t *testing.T) {
			r := startRouter(t)
			before := r.counts()
			c, p := r.session(t), r.session(t)
			in := c.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("q")}, RcvSettleMode: amqp.Some(rcv)}, 100)
			l := p.attachSender(0, &amqp.Attach{Target: &amqp.Target{Address: amqp.Some("q")}, RcvSettleMode: amqp.Some(rcv)})
			l.awaitCredit(250)
			for i, state := range []amqp.Raw{amqp.StateAccepted, stateRejected, amqp.StateReleased} {
				id := l.send(rawMessage(fmt.Sprint(i)), false)
				d := in.receive()
				r.quiet(t, p, c)
				in.dispose(d.id(), d.id(), false, state)
				got := p.disposition("state")
				if got.Role != amqp.RoleReceiver || got.Settled || got.First != id || stateText(got.State) != stateText(state) {
					t.Errorf("sender got %+v %s, want %s unsettled", got, stateText(got.State), stateText(state))
				}
				r.quiet(t, p, c)
				l.dispose(id, id, true, nil)
				got = take[*amqp.Disposition](c)
				if got.Role != amqp.RoleSender || !got.Settled || got.First != d.id() {
					t.Errorf("receiver got %+v, want the settlement", got)
				}
				l.awaitCredit(250)
				r.quiet(t, p, c)
			}
			if i := r.link(t, l.name); i.Unsettled != 0 {
				t.Errorf("%d unsettled", i.Unsettled)
			}
			p.close()
			c.close()
			r.healthy(t, before)
		})
	}
	t.Run("ranges", func(t *testing.T) { // F78
		x := newPair(t, 100)
		first := x.out.sendAll(numbered(100), false)
		x.in.bodies(100)
		x.in.dispose(0, 99, false, amqp.StateAccepted)
		sum := 0
		for sum < 100 {
			d := x.p.disposition("accepted")
			if d.Settled || stateText(d.State) != "accepted" {
				t.Fatalf("got %+v", d)
			}
			sum += int(d.Last.Or(d.First)-d.First) + 1
		}
		x.out.dispose(first, first+99, true, nil)
		for sum = 0; sum < 100; {
			d := take[*amqp.Disposition](x.c)
			if !d.Settled || d.Role != amqp.RoleSender {
				t.Fatalf("got %+v", d)
			}
			sum += int(d.Last.Or(d.First)-d.First) + 1
		}
		x.out.awaitCredit(250)
		x.end(t)
	})
	t.Run("both settle at once", func(t *testing.T) {
		x := newPair(t, 100)
		for range 50 {
			id := x.out.send(rawMessage("x"), false)
			d := x.in.receive()
			x.in.settle(d, amqp.StateAccepted)
			x.out.dispose(id, id, true, nil)
			x.r.flush(t, x.p, x.c)
			for _, p := range []*rawPeer{x.p, x.c} { // each may have heard the other
				p.held = slices.DeleteFunc(p.held, func(f rawFrame) bool {
					got, ok := f.body.(*amqp.Disposition)
					return ok && got.Settled && got.First == got.Last.Or(got.First)
				})
			}
			x.in.flow(100)
		}
		x.quiet(t)
		for _, name := range []string{x.out.name, x.in.name} {
			if i := x.r.link(t, name); i.Unsettled != 0 {
				t.Errorf("%d unsettled", i.Unsettled)
			}
		}
		x.out.flowWith(amqp.Flow{Echo: true})
		x.out.awaitCredit(250)
		x.end(t)
	})
}

// F72, F73, F74: what of a state goes over to the other side.
func TestF72StatesRelayed(t *testing.T) {
	annotations := amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("x"), Value: "y"}, {Key: amqp.Symbol("n"), Value: int32(7)}})
	info := amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("detail"), Value: amqp.List{int32(1), "two"}}})
	transactional := amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x34), Value: amqp.List{[]byte("txn-7"), amqp.Described{Descriptor: uint64(0x24), Value: amqp.List{}}}})
	declared := amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x33), Value: amqp.List{[]byte("txn-8")}})
	private := amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x0000_4711_0000_0001), Value: amqp.List{"own", int32(1), nil, amqp.Map{{Key: "k", Value: true}}}})
	tests := []struct {
		name  string
		state amqp.Raw
		want  string // "" is the same octets
	}{
		{"received", amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: 77}), "received 3 77"},
		{"accepted", amqp.StateAccepted, "accepted"},
		{"accepted, with a list", amqp.Raw{0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x24, 0xc0, 1, 0}, "accepted"},
		{"accepted, symbolic", amqp.Raw("\x00\xa3\x12amqp:accepted:list\x45"), "accepted"},
		{"released", amqp.StateReleased, "released"},
		{"rejected", stateRejected, "rejected"},
		{"rejected with condition, text and info", amqp.AppendRejected(nil, &amqp.Error{Condition: "test:refused", Description: "not today", Info: info}),
			`rejected test:refused "not today" [{detail [1 two]}]`},
		{"rejected with a condition", amqp.AppendRejected(nil, &amqp.Error{Condition: "test:refused"}), `rejected test:refused ""`},
		{"modified with nothing", amqp.AppendModified(nil, false, false, nil), modifiedFailed}, // F73
		{"modified failed", amqp.AppendModified(nil, true, false, nil), modifiedFailed},
		{"modified undeliverable", amqp.AppendModified(nil, false, true, nil), "modified failed=true undeliverable=true"},
		{"modified with annotations", amqp.AppendModified(nil, true, true, annotations), "modified failed=true undeliverable=true [{x y} {n 7}]"},
		{"transactional", transactional, ""},
		{"declared", declared, ""},
		{"private", private, ""},
	}
	x := newPair(t, 1000)
	for _, tt := range tests {
		want := tt.want
		check := func(t *testing.T, got amqp.Raw) {
			t.Helper()
			if want == "" && !bytes.Equal(got, tt.state) {
				t.Errorf("state %x, want %x", []byte(got), []byte(tt.state))
			} else if want != "" && stateText(got) != want {
				t.Errorf("state %s, want %s", stateText(got), want)
			}
		}
		t.Run("from the receiver, settled/"+tt.name, func(t *testing.T) {
			x.out.send(rawMessage("x"), false)
			x.in.settle(x.in.receive(), tt.state)
			d := x.p.disposition("state")
			check(t, d.State)
			if !d.Settled {
				t.Error("not settled")
			}
			x.quiet(t)
		})
		t.Run("from the receiver, unsettled/"+tt.name, func(t *testing.T) {
			id := x.out.send(rawMessage("x"), false)
			got := x.in.receive()
			x.in.dispose(got.id(), got.id(), false, tt.state)
			d := x.p.disposition("state")
			check(t, d.State)
			if d.Settled {
				t.Error("settled")
			}
			x.in.dispose(got.id(), got.id(), false, tt.state)
			x.quiet(t) // F76: the same again is no news
			x.out.dispose(id, id, true, nil)
			if d := take[*amqp.Disposition](x.c); !d.Settled {
				t.Errorf("receiver got %+v", d)
			}
			x.quiet(t)
		})
		t.Run("from the sender/"+tt.name, func(t *testing.T) {
			id := x.out.send(rawMessage("x"), false)
			got := x.in.receive()
			x.out.dispose(id, id, false, tt.state)
			d := take[*amqp.Disposition](x.c)
			check(t, d.State)
			if d.Settled || d.Role != amqp.RoleSender {
				t.Errorf("receiver got %+v", d)
			}
			x.in.settle(got, amqp.StateAccepted)
			if got := x.p.outcomes(id)[id]; got != "accepted" {
				t.Errorf("outcome %s", got)
			}
			x.quiet(t)
		})
		t.Run("on the transfer/"+tt.name, func(t *testing.T) {
			for _, settled := range []bool{false, true} {
				tr := x.out.start()
				tr.State, tr.Settled = tt.state, amqp.Some(settled)
				x.p.write(x.out.frame(tr, rawMessage("x")))
				d := x.in.receive()
				if len(d.states) != 1 {
					t.Fatalf("%d states on the transfer, want one", len(d.states))
				}
				check(t, d.states[0])
				if d.settled != settled {
					t.Errorf("settled %t, want %t", d.settled, settled)
				}
				if !settled {
					x.in.settle(d, amqp.StateAccepted)
					if got := x.p.outcomes(d.id0(tr))[d.id0(tr)]; got != "accepted" {
						t.Errorf("outcome %s", got)
					}
				}
				x.quiet(t)
			}
		})
	}
	x.end(t)
}

// id0 is the sender's id of the delivery.
func (d *rawDelivery) id0(t amqp.Transfer) uint32 { return t.DeliveryID.V }

// F72, F76: a series of states of one delivery.
func TestF76StatesInSeries(t *testing.T) {
	received := func(n uint64) amqp.Raw {
		return amqp.AppendReceived(nil, amqp.Received{SectionNumber: 3, SectionOffset: n})
	}
	private := func(s string) amqp.Raw {
		return amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x1000), Value: amqp.List{s}})
	}
	tests := []struct {
		name string
		said []amqp.Raw
		want []string
	}{
		{"received, then accepted", []amqp.Raw{received(1), received(2), amqp.StateAccepted}, []string{"received 3 1", "received 3 2", "accepted"}},
		{"different data of one code", []amqp.Raw{private("a"), private("b"), private("a")},
			[]string{stateText(private("a")), stateText(private("b")), stateText(private("a"))}},
		{"the same again", []amqp.Raw{received(1), received(1), private("a"), private("a")}, []string{"received 3 1", stateText(private("a"))}},
		{"after a terminal state", []amqp.Raw{amqp.StateAccepted, amqp.StateReleased, received(1), stateRejected}, []string{"accepted"}},
		{"terminal twice", []amqp.Raw{amqp.StateReleased, amqp.StateReleased}, []string{"released"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newPair(t, 10)
			id := x.out.send(rawMessage("x"), false)
			d := x.in.receive()
			var got []string
			for _, s := range tt.said {
				x.in.dispose(d.id(), d.id(), false, s)
				x.r.flush(t, x.c, x.p)
			}
			for len(x.p.held) > 0 {
				s := take[*amqp.Disposition](x.p)
				if s.Settled || s.First != id {
					t.Errorf("got %+v", s)
				}
				got = append(got, stateText(s.State))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("sender got %q, want %q", got, tt.want)
			}
			x.in.settle(d, stateRejected)
			last := tt.want[len(tt.want)-1]
			if got := x.p.outcomes(id)[id]; len(tt.said) > 0 && terminal(last) && got != last {
				t.Errorf("settled with %s, want %s to stand", got, last)
			} else if !terminal(last) && got != "rejected" {
				t.Errorf("settled with %s, want rejected", got)
			}
			x.end(t)
		})
	}
}

func terminal(s string) bool { return s == "accepted" || s == "released" || s == "rejected" }

// RT F75: a receiver that wants settled deliveries.
func TestF75SettledForReceiver(t *testing.T) {
	for name, payload := range map[string][]byte{"short": rawMessage("x"), "long": data(50_000), "streamed": data(400_000)} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t)
			before := r.counts()
			c, p := r.session(t), r.session(t)
			in := c.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("q")}, SndSettleMode: amqp.Some(amqp.SndSettleModeSettled)}, 2)
			l := p.sender("q")
			l.awaitCredit(250)
			for i := range 2 {
				b, id := l.parts(split(payload, 16_000), nil)
				p.write(b...)
				d := in.receive()
				if !d.settled || !bytes.Equal(d.payload, payload) {
					t.Errorf("delivery %d: settled %t, %d octets", i, d.settled, len(d.payload))
				}
				if got := p.outcomes(id)[id]; got != "accepted" {
					t.Errorf("outcome %s, want accepted", got)
				}
				l.awaitCredit(250)
			}
			// Without credit it is not sent, so not accepted either.
			b, id := l.parts(split(payload, 16_000), nil)
			p.write(b...)
			r.flush(t, p, c)
			p.forgetFlows()
			r.quiet(t, p, c)
			in.detach(true)
			if got := p.outcomes(id)[id]; got != "released" {
				t.Errorf("outcome %s, want released", got)
			}
			r.flush(t, p, c)
			p.forgetFlows()
			p.close()
			c.close()
			r.healthy(t, before)
		})
	}
}

// RT F77, F62: subscribers in the router decide, at their leisure, and get
// whole messages.
func TestF77Subscribers(t *testing.T) {
	payloads := map[string][]byte{"short": rawMessage("x"), "streamed": data(400_000)}
	for name, payload := range payloads {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t)
			before := r.counts()
			requests := make(chan *router.Request, 10)
			cancel := r.Subscribe("service", false, func(q *router.Request) { requests <- q })
			p := r.session(t)
			l := p.sender("service")
			l.awaitCredit(250)
			for state, want := range map[string]amqp.Raw{
				"accepted": amqp.StateAccepted,
				`rejected test:no "because"`: amqp.AppendRejected(nil, &amqp.Error{
					Condition: "test:no", Description: "because"}),
			} {
				b, id := l.parts(split(payload, 16_000), nil)
				p.write(b...)
				q := <-requests
				if !bytes.Equal(q.Message, payload) {
					t.Errorf("%d octets came, want %d", len(q.Message), len(payload))
				}
				r.flush(t, p)
				p.forgetFlows()
				r.quiet(t, p)
				q.Settle(want)
				if got := p.outcomes(id)[id]; got != state {
					t.Errorf("outcome %s, want %s", got, state)
				}
				l.awaitCredit(250)
			}
			// A settled one, and one whose sender is gone by then.
			b, _ := l.parts(split(payload, 16_000), func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(true) })
			p.write(b...)
			(<-requests).Settle(amqp.StateAccepted)
			l.awaitCredit(250)
			b, _ = l.parts(split(payload, 16_000), nil)
			p.write(b...)
			late := <-requests
			p.close()
			late.Settle(amqp.StateAccepted)
			cancel()
			r.healthy(t, before)
		})
	}
}

// RT F93, F94: settled messages for a receiver that has stalled.
func TestF93PresettledOverload(t *testing.T) {
	const capacity = 10
	t.Run("the first and the last stay", func(t *testing.T) {
		x := newPair(t, 0, withCapacity(capacity))
		x.out.sendAll(numbered(capacity), true)
		x.out.awaitCredit(capacity) // the receiver counts as stalled
		x.out.send(rawMessage("last"), true)
		x.out.awaitCredit(capacity)
		x.quiet(t)
		x.in.flow(100)
		if got := x.in.bodies(2); !slices.Equal(got, []string{"0", "last"}) {
			t.Errorf("received %q, want the first and the last", got)
		}
		x.quiet(t)
		if s, i := x.r.Stats(), x.r.link(t, x.in.name); s.DroppedPresettled != capacity-1 || i.DroppedPresettled != capacity-1 || i.Undelivered != 0 {
			t.Errorf("router dropped %d, link %d with %d undelivered, want %d each and none", s.DroppedPresettled, i.DroppedPresettled, i.Undelivered, capacity-1)
		}
		x.end(t)
	})
	t.Run("a message that is half sent stays whole", func(t *testing.T) {
		r := startRouter(t, withCapacity(capacity))
		before := r.counts()
		c := r.open(t)
		c.beginWith(0, &amqp.Begin{IncomingWindow: 2, OutgoingWindow: 100})
		in := c.receiver("q", 1)
		p := r.session(t)
		l := p.sender("q")
		l.awaitCredit(capacity)
		payload := data(100_000) // of which two frames fit the window
		b, _ := l.parts(split(payload, 16_000), func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(true) })
		p.write(b...)
		for i := range 5 * capacity {
			l.awaitCredit(capacity)
			l.send(rawMessage(fmt.Sprint(i)), true)
		}
		r.flush(t, p)
		c.sessions[0].window = 1000
		in.flow(100)
		if d := in.receive(); !bytes.Equal(d.payload, payload) {
			t.Errorf("%d octets came, want %d", len(d.payload), len(payload))
		}
		if d := in.receive(); d.body() == "" {
			t.Error("an empty message")
		}
		r.flush(t, p, c)
		c.held = nil
		p.forgetFlows()
		r.quiet(t, p)
		p.close()
		c.close()
		r.healthy(t, before)
	})
	t.Run("unsettled ones are not dropped", func(t *testing.T) {
		x := newPair(t, 0, withCapacity(capacity))
		var want []string
		first := uint32(0)
		for i := range capacity { // in turn
			x.out.send(rawMessage(fmt.Sprint("settled ", i)), true)
			x.out.awaitCredit(capacity - i)
			id := x.out.send(rawMessage(fmt.Sprint("unsettled ", i)), false)
			if i == 0 {
				first = id
			}
			want = append(want, fmt.Sprint("unsettled ", i))
		}
		x.quiet(t)
		x.in.flow(100)
		x.r.flush(t, x.p, x.c)
		var got []string
		for x.in.waiting() > 0 {
			d := x.in.receive()
			if !d.settled {
				got = append(got, d.body())
				x.in.settle(d, amqp.StateAccepted)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
		for i := range capacity {
			id := first + uint32(2*i)
			if got := x.p.outcomes(id)[id]; got != "accepted" {
				t.Errorf("outcome %s", got)
			}
		}
		x.end(t)
	})
}

// AMQP 1.0 part 2 §2.7.1: no frame is larger than its receiver takes, whatever
// others say in larger ones.
func TestF72SmallFrames(t *testing.T) {
	r := startRouter(t)
	before := r.counts()
	c, p := r.session(t), r.dial(t)
	p.openWith(&amqp.Open{ContainerID: "raw", MaxFrameSize: amqp.Some(uint32(512))})
	p.begin(0)
	in := c.receiver("q", 100)
	l := p.sender("q")
	l.awaitCredit(250)
	long := strings.Repeat("because ", 500)
	for name, state := range map[string]amqp.Raw{
		"rejected": amqp.AppendRejected(nil, &amqp.Error{Condition: "test:refused", Description: long}),
		"modified": amqp.AppendModified(nil, true, true, amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("x"), Value: long}})),
		"private":  amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x1234), Value: amqp.List{long}}),
	} {
		id := l.send(rawMessage("x"), false)
		in.settle(in.receive(), state)
		got := p.outcomes(id)[id]
		if name != "private" && !strings.HasPrefix(got, name) {
			t.Errorf("outcome %s, want %s", got, name)
		}
		l.awaitCredit(250)
	}
	// The other way: a sender's state on the transfer, for a receiver of small frames.
	small := p.receiver("small", 100)
	big := c.sender("small")
	big.awaitCredit(250)
	tr := big.start()
	tr.State = amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(0x1234), Value: amqp.List{long}})
	payload := data(3000)
	c.write(big.frame(tr, payload))
	if d := small.receive(); !bytes.Equal(d.payload, payload) {
		t.Errorf("%d octets came, want %d", len(d.payload), len(payload))
	}
	p.close()
	c.held = nil
	c.close()
	r.healthy(t, before)
}
