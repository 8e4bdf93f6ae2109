package broker

import (
	"cmp"
	"encoding/binary"
	"slices"

	"qdrouter/amqp"
)

// message is one message of a queue.
type message struct {
	id          uint64 // its place: queues are in this order
	format      uint32
	payload     []byte
	count       uint32   // deliveries that failed
	annotations amqp.Map // that outcomes added
	notFor      []*terminus
	parsed      *amqp.Message // for selectors
}

// encode is the message as it goes out: with its delivery-count, and the
// annotations of outcomes in it.
func (m *message) encode() []byte {
	if m.count == 0 && len(m.annotations) == 0 {
		return m.payload
	}
	s, err := amqp.WalkMessage(m.payload, amqp.DepthMessageAnnotations, true)
	if err != nil {
		return m.payload // no message; it goes as it came
	}
	var h amqp.Header
	rest := 0
	if s.Header.Present() {
		if _, err := h.Decode(m.payload[s.Header.Start:]); err != nil {
			return m.payload
		}
		rest = s.Header.End
	}
	h.DeliveryCount += m.count
	b := h.Append(nil)
	if len(m.annotations) == 0 {
		return append(b, m.payload[rest:]...)
	}
	if s.DeliveryAnnotations.Present() {
		b = append(b, m.payload[s.DeliveryAnnotations.Start:s.DeliveryAnnotations.End]...)
		rest = s.DeliveryAnnotations.End
	}
	var all amqp.Map
	if s.MessageAnnotations.Present() {
		v, _ := s.MessageAnnotations.Value(m.payload).Value()
		all, _ = v.(amqp.Map)
		rest = s.MessageAnnotations.End
	}
	all = slices.DeleteFunc(all, func(e amqp.MapEntry) bool {
		_, replaced := m.annotations.Get(e.Key)
		return replaced
	})
	b = amqp.AppendValue(b, amqp.Described{Descriptor: uint64(amqp.CodeMessageAnnotations), Value: append(all, m.annotations...)})
	return append(b, m.payload[rest:]...)
}

// queue is a node with messages.
type queue struct {
	b           *Broker
	name        string
	gone        bool
	ready       []*message // in the order of their ids
	held        int        // that receivers have
	consumers   []*Link
	turn        int
	dispatching bool
}

// add puts a new message at the end.
func (q *queue) add(m *message) {
	q.b.ids++
	m.id = q.b.ids
	q.b.journal.add(q.name, m)
	q.ready = append(q.ready, m)
}

// back puts a message in its place again.
func (q *queue) back(m *message) {
	i, _ := slices.BinarySearchFunc(q.ready, m, func(a, b *message) int { return cmp.Compare(a.id, b.id) })
	q.ready = slices.Insert(q.ready, i, m)
}

// dispatch gives messages to consumers in turn until none can take any.
func (q *queue) dispatch() {
	if q.dispatching {
		return
	}
	q.dispatching = true
	defer func() { q.dispatching = false }()
	for progress := true; progress; {
		progress = false
		for range len(q.consumers) {
			q.turn++
			if len(q.consumers) > 0 && q.consumers[q.turn%len(q.consumers)].deliver() {
				progress = true
			}
		}
	}
}

// next takes the first message for l from the queue.
func (q *queue) next(l *Link) *message {
	for i, m := range q.ready {
		if slices.Contains(m.notFor, l.term) || l.browse && m.id <= l.cursor || !l.selector.match(m) {
			continue
		}
		if l.browse {
			l.cursor = m.id
			return m
		}
		q.ready = slices.Delete(q.ready, i, i+1)
		q.held++
		return m
	}
	return nil
}

// delivery is a message on its way to a receiver.
type delivery struct {
	id      amqp.Serial
	tag     uint64
	m       *message
	q       *queue
	copy    bool // a browser's, whose outcome means nothing
	term    *terminus
	session *session
	state   amqp.Raw // the receiver's last word
	settled bool     // as sent
	sent    bool     // once, so that it is resumed
	payload []byte   // as it goes; nil when only its outcome goes

	txn     *txn
	outcome amqp.Raw // in the transaction; of a resumed one, what the receiver said
	forgot  bool     // the receiver settled it in the transaction
}

func (d *delivery) tagBytes() []byte { return binary.BigEndian.AppendUint64(nil, d.tag) }

// drop takes d from the terminus.
func (t *terminus) drop(d *delivery) {
	if i := slices.Index(t.out, d); i >= 0 {
		t.out = slices.Delete(t.out, i, i+1)
	}
}

// room reports whether a frame may go to the link now.
func (l *Link) room() bool {
	return l.e.Attached() && l.s.e.OutWindow() > 0 && len(l.c.e.Out) < outLimit
}

// deliver sends one message on the link, or a part, and reports whether it may
// be asked again.
func (l *Link) deliver() bool {
	if l.gone || !l.room() {
		return false
	}
	d := l.sending
	if d == nil {
		if l.e.Credit() == 0 {
			return false
		}
		if d = l.begin(); d == nil {
			if l.e.Drain {
				l.e.Drained()
				l.c.touch()
			}
			return false
		}
	}
	l.c.touch()
	out := &amqp.OutDelivery{Tag: d.tag, Format: d.m.format, Settled: d.settled, Resume: d.sent}
	if d.outcome != nil && d.sent {
		out.State, out.Settled = d.outcome, true
	}
	first := l.sending == nil
	if first {
		d.id = l.e.Start(out)
		l.sending, l.offset = d, 0
		if !out.Settled {
			l.s.out[d.id] = d
		}
		d.sent = true
	}
	n, _ := l.e.SendFrames(out, first, true, d.payload[l.offset:], outLimit-len(l.c.e.Out))
	if l.offset += n; l.offset < len(d.payload) {
		return l.room()
	}
	l.sending = nil
	if d.settled {
		l.term.drop(d)
		d.apply(amqp.StateAccepted)
	}
	return true
}

// begin takes what the link sends next.
func (l *Link) begin() *delivery {
	if len(l.again) > 0 {
		d := l.again[0]
		l.again = l.again[1:]
		d.session = l.s
		if d.outcome != nil {
			d.payload = nil
		}
		return d
	}
	m := l.q.next(l)
	if m == nil {
		return nil
	}
	l.b.tags++
	d := &delivery{tag: l.b.tags, m: m, q: l.q, copy: l.browse, term: l.term, session: l.s, settled: l.settled, payload: m.encode()}
	l.term.out = append(l.term.out, d)
	return d
}

// terminal reports whether a state is an outcome.
func terminal(state amqp.Raw) bool {
	code, ok := amqp.StateCode(state)
	return ok && code >= amqp.CodeAccepted && code <= amqp.CodeModified
}

// apply does to the message what the outcome says; none is as a failed delivery.
func (d *delivery) apply(outcome amqp.Raw) {
	if d.copy || d.m == nil {
		return
	}
	code, _ := amqp.StateCode(outcome)
	switch code {
	case amqp.CodeAccepted, amqp.CodeRejected:
		d.q.held--
		d.q.b.journal.remove(d.q.name, d.m)
	case amqp.CodeReleased:
		d.requeue(false)
	case amqp.CodeModified:
		m, err := amqp.DecodeModified(outcome)
		if err != nil {
			d.requeue(true)
			return
		}
		if m.UndeliverableHere {
			d.m.notFor = append(d.m.notFor, d.term)
		}
		if v, _ := m.MessageAnnotations.Value(); v != nil {
			added, _ := v.(amqp.Map)
			d.m.annotations = append(slices.DeleteFunc(d.m.annotations, func(e amqp.MapEntry) bool {
				_, replaced := added.Get(e.Key)
				return replaced
			}), added...)
		}
		d.requeue(m.DeliveryFailed)
	default:
		d.requeue(true)
	}
}

// requeue puts the message back.
func (d *delivery) requeue(failed bool) {
	if d.copy || d.q.gone {
		return
	}
	d.q.held--
	if failed {
		d.m.count++
	}
	d.q.back(d.m)
	d.q.dispatch()
}

// Disposition takes in what the peer says of deliveries of either direction.
func (c *Conn) Disposition(e *amqp.Session, p *amqp.Disposition) {
	s := e.Owner.(*session)
	first, last := amqp.Serial(p.First), amqp.Serial(p.Last.Or(p.First))
	within := func(id amqp.Serial) bool { return !id.Before(first) && !last.Before(id) }
	if p.Role == amqp.RoleSender {
		for id, in := range s.in {
			if within(id) && p.Settled {
				delete(s.in, id)
				if t := in.Link.term; t != nil {
					delete(t.in, string(in.Tag))
				}
			}
		}
		return
	}
	var ids []amqp.Serial
	for id := range s.out {
		if within(id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b amqp.Serial) int { return int(a.Diff(b)) })
	touched := map[*queue]struct{}{}
	for _, id := range ids {
		d := s.out[id]
		d.said(p)
		touched[d.q] = struct{}{}
	}
	for q := range touched {
		q.dispatch()
	}
}

// said takes in what the receiver says of d.
func (d *delivery) said(p *amqp.Disposition) {
	code, _ := amqp.StateCode(p.State)
	if code == amqp.CodeTransactionalState {
		d.enlist(p)
		return
	}
	if p.State != nil {
		d.state = p.State
	}
	outcome := d.state
	if !terminal(outcome) {
		if !p.Settled {
			return // received, or nothing
		}
		outcome = defaultOutcome(d.term.attach)
	}
	if d.txn != nil {
		d.txn.leave(d)
	}
	d.finish(outcome, !p.Settled)
}

// finish ends the delivery with that outcome; tell settles it towards a
// receiver that waits for that.
func (d *delivery) finish(outcome amqp.Raw, tell bool) {
	if d.session.out[d.id] == d {
		delete(d.session.out, d.id)
		if tell {
			d.session.e.Dispose(amqp.RoleSender, d.id, d.id, true, outcome)
			d.session.c.touch()
		}
	}
	d.term.drop(d)
	d.apply(outcome)
}

// Incoming is a message from a peer.
type Incoming struct {
	Link    *Link
	ID      amqp.Serial
	Tag     []byte
	Format  uint32
	Settled bool
	State   amqp.Raw // that came with it
	Payload []byte

	second bool // the sender settles last
	resume bool
}

// Transfer takes in a frame of a message.
func (c *Conn) Transfer(e *amqp.Link, t *amqp.Transfer, payload []byte) *amqp.Error {
	c.Lock()
	defer c.Unlock()
	if e.Session.WindowLow() {
		e.Session.FlowDue()
	}
	if r, ok := e.Owner.(*request); ok {
		r.transfer(t, payload)
		return nil
	}
	l := e.Owner.(*Link)
	in := l.current
	if in == nil {
		in = &Incoming{Link: l, ID: amqp.Serial(t.DeliveryID.V), Tag: slices.Clone(t.DeliveryTag), Format: t.MessageFormat.V, resume: t.Resume}
		mode := t.RcvSettleMode
		if !mode.Set {
			mode = l.attach.RcvSettleMode
		}
		in.second = mode.V == amqp.RcvSettleModeSecond
		l.current = in
	}
	in.Settled = t.Settled.V
	if t.State != nil {
		in.State = t.State.Clone()
	}
	in.Payload = append(in.Payload, payload...)
	if limit := c.b.opts.MaxMessageSize; limit > 0 && uint64(len(in.Payload)) > limit {
		l.detach(true, &amqp.Error{Condition: amqp.ErrCondMessageSizeExceeded, Description: "message is too long"})
		return nil
	}
	if t.More && !t.Aborted {
		return nil
	}
	l.current = nil
	if !t.Aborted {
		l.arrived(in)
	}
	l.grant()
	return nil
}

// arrived takes in a whole message.
func (l *Link) arrived(in *Incoming) {
	if l.txns != nil {
		l.control(in)
		return
	}
	if in.resume {
		state, known := l.term.in[string(in.Tag)]
		if known { // it was here: only to be settled
			in.dispose(in.Settled || !in.second, state)
			return
		}
	}
	if l.b.opts.OnMessage != nil && l.b.opts.OnMessage(in) {
		return
	}
	q := l.q
	if q == nil {
		name := recipient(in.Payload)
		if q = l.b.queues[name]; q == nil {
			in.dispose(!in.second, amqp.AppendRejected(nil, notFound(name)))
			return
		}
	}
	if q.gone {
		return
	}
	m := &message{format: in.Format, payload: in.Payload}
	if code, _ := amqp.StateCode(in.State); code == amqp.CodeTransactionalState {
		id, _ := transactional(in.State)
		t := l.b.txns[id]
		if t == nil {
			in.dispose(true, amqp.AppendRejected(nil, unknownTxn(id)))
			return
		}
		t.posts = append(t.posts, post{q, m})
		in.dispose(!in.second, transactionalState(id, amqp.StateAccepted))
		return
	}
	q.add(m)
	in.dispose(!in.second, amqp.StateAccepted)
	q.dispatch()
}

// recipient is the address in the properties of a message.
func recipient(payload []byte) string {
	s, err := amqp.WalkMessage(payload, amqp.DepthProperties, true)
	if err != nil {
		return ""
	}
	to, _, _ := s.To(payload)
	return string(to)
}

// Dispose tells the sender the state of the message, for a test that took it.
func (in *Incoming) Dispose(settled bool, state amqp.Raw) {
	in.Link.b.lock()
	defer in.Link.b.unlock()
	in.dispose(settled, state)
}

func (in *Incoming) dispose(settled bool, state amqp.Raw) {
	if in.Settled {
		return
	}
	l := in.Link
	if settled {
		delete(l.s.in, in.ID)
		if l.term != nil {
			delete(l.term.in, string(in.Tag))
		}
	} else {
		l.s.in[in.ID] = in
		if l.term != nil {
			l.term.in[string(in.Tag)] = state
		}
	}
	l.s.e.Dispose(amqp.RoleReceiver, in.ID, in.ID, settled, state)
	l.c.touch()
}
