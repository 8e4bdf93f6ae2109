package amqp

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// end is one of two engines that talk to each other over queues of octets. It keeps books about
// each link beside the engine's own.
type end struct {
	t       *rapid.T
	c       *Conn
	s       *Session
	queue   []byte // on its way to the other end
	pending []byte // arrived, not a whole frame yet
	links   []*book
	said    map[wordOn][]string // of our dispositions
	heard   map[wordOn][]string // of the other end's
}

// wordOn is the delivery that a disposition is about, of those that the role's end received.
type wordOn struct {
	role Role
	id   Serial
}

// book is what is known of one link at one end without looking into the engine.
type book struct {
	l *Link

	// Of the sender.
	sent    [][]byte // whole deliveries, in order
	current []byte   // the one in progress, nil when there is none
	left    []byte   // of it
	opened  bool     // a frame of it has gone
	started uint32   // deliveries, aborted ones too

	// Of the receiver.
	granted, drained, received uint32
	partial                    []byte
	got                        [][]byte
	ids                        []Serial
}

func (e *end) Lock()   {}
func (e *end) Unlock() {}
func (e *end) Flush()  {}

func (e *end) RemoteOpen(*Open) *Error {
	if !e.c.OpenSent() {
		e.c.Open()
	}
	return nil
}

func (e *end) RemoteBegin(s *Session, _ *Begin) *Error {
	e.s = s
	return nil
}

func (e *end) RemoteAttach(l *Link, _ *Attach) *Error {
	if !l.localAttached {
		e.own(l)
		l.Attach(&Attach{})
	}
	return nil
}

func (e *end) own(l *Link) *book {
	k := &book{l: l}
	l.Owner = k
	e.links = append(e.links, k)
	return k
}

func (e *end) LinkFlow(l *Link, _ *Flow, drained uint32) { l.Owner.(*book).drained += drained }
func (e *end) SessionFlow(*Session)                      {}

func (e *end) Transfer(l *Link, t *Transfer, payload []byte) *Error {
	k := l.Owner.(*book)
	if k.partial == nil {
		k.partial = []byte{}
		k.received++
	}
	k.partial = append(k.partial, payload...)
	switch {
	case t.Aborted:
		k.partial = nil
	case !t.More:
		k.got = append(k.got, k.partial)
		k.ids = append(k.ids, Serial(t.DeliveryID.V))
		k.partial = nil
	}
	return nil
}

func (e *end) Disposition(_ *Session, d *Disposition) {
	for id := Serial(d.First); ; id++ {
		on := wordOn{d.Role, id}
		e.heard[on] = append(e.heard[on], word(d.Settled, d.State))
		if id == Serial(d.Last.Or(d.First)) {
			return
		}
	}
}

func word(settled bool, state Raw) string { return fmt.Sprintf("%t %x", settled, state) }

func (e *end) LinkFailed(l *Link, err *Error)  { e.t.Fatalf("link %s: %v", l.Name, err) }
func (e *end) RemoteDetach(l *Link, _ *Detach) { e.t.Fatalf("link %s detached", l.Name) }
func (e *end) RemoteEnd(_ *Session, x *End)    { e.t.Fatalf("session ended: %v", x.Error) }
func (e *end) RemoteClose(x *Close)            { e.t.Fatalf("connection closed: %v", x.Error) }

// dispose has the end say something about a delivery.
func (e *end) dispose(role Role, first, last Serial, settled bool, state Raw) {
	e.s.Dispose(role, first, last, settled, state)
	for id := first; ; id++ {
		on := wordOn{role, id}
		e.said[on] = append(e.said[on], word(settled, state))
		if id == last {
			return
		}
	}
}

// work sends what it may of the delivery in progress.
func (k *book) work(room int) {
	if k.current == nil {
		return
	}
	n, began := k.l.SendFrames(&OutDelivery{}, !k.opened, true, k.left, room)
	k.opened = k.opened || began
	k.left = k.left[n:]
	if began && len(k.left) == 0 {
		k.sent = append(k.sent, k.current)
		k.current = nil
	}
}

// flush puts what the engine has to say on its way.
func (e *end) flush() {
	e.c.Prepare()
	e.queue = append(e.queue, e.c.Out...)
	e.c.Out = e.c.Out[:0]
}

// hear gives the end what has arrived.
func (e *end) hear(b []byte) {
	e.pending = append(e.pending, b...)
	n, err := e.c.Input(e.pending)
	if err != nil {
		e.t.Fatalf("Input: %v", err)
	}
	e.pending = append([]byte(nil), e.pending[n:]...) // Input's callee may not keep the old one
}

// pair is two ends in touch, with sending links both ways.
type pair struct {
	t        *rapid.T
	ends     [2]*end
	payloads byte // tells them apart
}

func newPair(t *rapid.T) *pair {
	p := &pair{t: t}
	for i := range p.ends {
		e := &end{t: t, said: make(map[wordOn][]string), heard: make(map[wordOn][]string)}
		e.c = NewConn(ConnConfig{
			MaxFrameSize:  rapid.SampledFrom([]uint32{512, 513, 700, 2000}).Draw(t, "max-frame-size"),
			ChannelMax:    10,
			SessionFrames: rapid.SampledFrom([]uint32{0, 1, 2, 7, 100}).Draw(t, "session frames"),
		}, e)
		p.ends[i] = e
	}
	// One end begins everything; its numbers may be about to wrap. That cannot be had through
	// the API: we start at 0.
	a := p.ends[0]
	start := Serial(rapid.SampledFrom([]uint32{0, 4294967295, 4294967280, 2147483640}).Draw(t, "start"))
	a.c.Open()
	a.s, _ = a.c.newSession()
	a.s.nextOutgoingID, a.s.nextDeliveryID = start, start-3
	a.s.sendBegin(Opt[uint16]{})
	for i := range rapid.IntRange(1, 5).Draw(t, "links") {
		k := a.own(a.s.NewLink(fmt.Sprint(i), Role(i%2 == 1)))
		if k.l.Role == RoleSender {
			k.l.deliveryCount = start + Serial(i)
		}
		k.l.Attach(&Attach{})
	}
	if rapid.Bool().Draw(t, "settle first") {
		p.settle()
	}
	return p
}

// deliver brings n octets from one end to the other.
func (p *pair) deliver(from, n int) {
	e := p.ends[from]
	e.flush()
	n = min(n, len(e.queue))
	p.ends[1-from].hear(e.queue[:n])
	e.queue = e.queue[n:]
}

// settle brings everything that is on its way to its end, until nothing moves.
func (p *pair) settle() {
	for moved := true; moved; {
		moved = false
		for i, e := range p.ends {
			for _, k := range e.links {
				if k.l.Role == RoleSender {
					k.work(1 << 20)
				}
			}
			if e.s != nil && e.s.WindowLow() && !e.s.Hold {
				e.s.FlowDue()
			}
			e.flush()
			if len(e.queue) > 0 {
				moved = true
				p.deliver(i, len(e.queue))
			}
		}
	}
}

// other returns the book of the same link at the other end, nil before it has heard of it.
func (p *pair) other(from int, k *book) *book {
	for _, o := range p.ends[1-from].links {
		if o.l.Name == k.l.Name {
			return o
		}
	}
	return nil
}

// check compares the books of both ends with each other and with the engines.
func (p *pair) check() {
	t := p.t
	for i, e := range p.ends {
		if o := p.ends[1-i]; e.s != nil && o.s != nil && e.s.begun && o.s.begun {
			if limit := Serial(o.s.inLimit.Load()); limit.Before(e.s.nextOutgoingID) {
				t.Fatalf("end %d has sent up to transfer %d, the other takes up to %d", i, e.s.nextOutgoingID, limit)
			}
		}
		for _, k := range e.links {
			o := p.other(i, k)
			if k.l.Role == RoleReceiver {
				if k.granted != k.received+k.drained+k.l.CreditOut() {
					t.Fatalf("link %s: granted %d, received %d, drained %d, out %d", k.l.Name, k.granted, k.received, k.drained, k.l.CreditOut())
				}
				continue
			}
			if o == nil {
				continue
			}
			if k.started > o.granted {
				t.Fatalf("link %s: %d deliveries on %d credit", k.l.Name, k.started, o.granted)
			}
			if len(o.got) > len(k.sent) || !slices.EqualFunc(o.got, k.sent[:len(o.got)], bytes.Equal) {
				t.Fatalf("link %s: deliveries arrived changed", k.l.Name)
			}
		}
	}
}

// end draws an end, which has a session.
func (p *pair) end(t *rapid.T) *end {
	e := p.ends[rapid.IntRange(0, 1).Draw(t, "end")]
	if e.s == nil {
		t.Skip("no session yet")
	}
	return e
}

// book draws an end's book of a link of which it has that role.
func (p *pair) book(t *rapid.T, role Role) (*end, *book) {
	e := p.end(t)
	var books []*book
	for _, k := range e.links {
		if k.l.Role == role {
			books = append(books, k)
		}
	}
	if len(books) == 0 {
		t.Skip("no such link")
	}
	return e, rapid.SampledFrom(books).Draw(t, "link")
}

func (p *pair) deliverSome(t *rapid.T) {
	from := rapid.IntRange(0, 1).Draw(t, "from")
	p.deliver(from, rapid.SampledFrom([]int{1 << 20, 1, 7, 40, 500}).Draw(t, "octets"))
	if s := p.ends[1-from].s; s != nil && s.WindowLow() && rapid.Bool().Draw(t, "renew") {
		s.FlowDue()
	}
}

func (p *pair) send(t *rapid.T) {
	e, k := p.book(t, RoleSender)
	if k.current != nil || k.l.Credit() == 0 || e.s.OutWindow() == 0 {
		t.Skip("not now")
	}
	p.payloads++
	k.started++
	payload := bytes.Repeat([]byte{p.payloads}, rapid.SampledFrom([]int{3000, 0, 1, 300, 448, 449, 512}).Draw(t, "size"))
	if k.l.Fits(len(payload)) && rapid.Bool().Draw(t, "at once") {
		k.l.Send(&OutDelivery{}, payload[:len(payload)/2], payload[len(payload)/2:], nil)
		k.sent = append(k.sent, payload)
		return
	}
	k.current, k.left, k.opened = payload, payload, false
	k.l.Start(&OutDelivery{})
	k.work(rapid.IntRange(1, 2000).Draw(t, "room"))
}

func (p *pair) goOn(t *rapid.T) {
	_, k := p.book(t, RoleSender)
	k.work(rapid.IntRange(1, 2000).Draw(t, "room"))
}

func (p *pair) abort(t *rapid.T) {
	_, k := p.book(t, RoleSender)
	if k.current == nil || !k.opened {
		t.Skip("nothing to abort")
	}
	k.l.Abort(&OutDelivery{})
	k.current = nil
}

func (p *pair) grant(t *rapid.T) {
	_, k := p.book(t, RoleReceiver)
	n := rapid.Uint32Range(1, 4).Draw(t, "credit")
	k.granted += n
	k.l.Draining = false
	k.l.Grant(n)
}

// drain has a receiver ask for its credit back, or a sender that was asked give it.
func (p *pair) drain(t *rapid.T) {
	_, k := p.book(t, Role(rapid.Bool().Draw(t, "ask")))
	switch {
	case k.l.Role == RoleReceiver:
		k.l.Draining = true
		k.l.FlowDue()
	case k.l.Drain:
		k.l.Drained()
	}
}

// word has a receiver say something about what it received, or a sender about what it sent.
func (p *pair) word(t *rapid.T) {
	e, k := p.book(t, Role(rapid.Bool().Draw(t, "receiver")))
	id := e.s.nextDeliveryID - Serial(rapid.Uint32Range(1, 20).Draw(t, "back"))
	if k.l.Role == RoleReceiver {
		if len(k.ids) == 0 {
			t.Skip("nothing received")
		}
		id = rapid.SampledFrom(k.ids).Draw(t, "id")
	}
	e.dispose(k.l.Role, id, id+Serial(rapid.Uint32Range(0, 2).Draw(t, "more")), rapid.Bool().Draw(t, "settled"),
		rapid.SampledFrom([]Raw{nil, StateAccepted, StateReleased}).Draw(t, "state"))
}

func (p *pair) hold(t *rapid.T) {
	e := p.end(t)
	if e.s.Hold = !e.s.Hold; !e.s.Hold {
		e.s.FlowDue()
	}
}

// TestTwoEngines: two engines under any schedule of sends, grants, drains, aborts, holds and
// words, their octets cut anywhere, never overspend credit nor a session window; credit is
// conserved; deliveries arrive whole, in order and once; and so do the words about them.
func TestTwoEngines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		for range 10 { // rapid alone would leave it at some thirty steps
			t.Repeat(map[string]func(*rapid.T){
				"deliver": p.deliverSome,
				"send":    p.send,
				"go on":   p.goOn,
				"abort":   p.abort,
				"grant":   p.grant,
				"drain":   p.drain,
				"word":    p.word,
				"hold":    p.hold,
				"":        func(*rapid.T) { p.check() },
			})
		}

		for _, e := range p.ends {
			if e.s != nil {
				e.s.Hold = false
				e.s.FlowDue()
			}
		}
		p.settle()
		p.check()
		for i, e := range p.ends {
			if want := p.ends[1-i].said; !maps.EqualFunc(e.heard, want, slices.Equal) {
				t.Fatalf("heard %v, said %v", e.heard, want)
			}
			for _, k := range e.links {
				if k.l.Role == RoleReceiver {
					continue
				}
				o := p.other(i, k)
				if k.current != nil || len(o.got) != len(k.sent) || o.partial != nil {
					t.Fatalf("link %s: %d of %d deliveries arrived, one on its way: %t", k.l.Name, len(o.got), len(k.sent), k.current != nil)
				}
				if k.started != o.received || k.l.Credit() != o.l.CreditOut() {
					t.Fatalf("link %s: started %d, received %d; credit %d at the sender, %d at the receiver",
						k.l.Name, k.started, o.received, k.l.Credit(), o.l.CreditOut())
				}
			}
		}
	})
}

// TestDisposeKeepsOrder: however words are gathered into frames, each delivery hears its own, all
// of them and in order.
func TestDisposeKeepsOrder(t *testing.T) {
	states := []Raw{nil, StateAccepted, StateReleased, AppendRejected(nil, nil)}
	rapid.Check(t, func(t *rapid.T) {
		e := &end{t: t, said: make(map[wordOn][]string), heard: make(map[wordOn][]string)}
		e.c = NewConn(testConfig, e)
		e.c.Open()
		e.s, _ = e.c.Begin()
		e.c.Out = nil
		words, gathered := 0, 0
		hear := func() {
			e.flush()
			for len(e.queue) > 0 {
				hdr, _, _ := ParseFrameHeader(e.queue, 1<<20)
				p, _, err := DecodePerformative(e.queue[FrameHeaderSize:hdr.Size])
				if err != nil {
					t.Fatal(err)
				}
				e.Disposition(nil, p.(*Disposition))
				e.queue = e.queue[hdr.Size:]
				gathered++
			}
			if !maps.EqualFunc(e.heard, e.said, slices.Equal) || gathered > words {
				t.Fatalf("%d words in %d frames: heard %v, said %v", words, gathered, e.heard, e.said)
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "words") {
			first := Serial(rapid.Uint32Range(0, 12).Draw(t, "first")) - 6
			e.dispose(Role(rapid.Bool().Draw(t, "receiver")), first, first+Serial(rapid.SampledFrom([]uint32{0, 0, 0, 1, 4}).Draw(t, "more")),
				rapid.Bool().Draw(t, "settled"), rapid.SampledFrom(states).Draw(t, "state"))
			words++
			if rapid.IntRange(0, 20).Draw(t, "tell") == 0 {
				hear()
			}
		}
		hear()
	})
}
