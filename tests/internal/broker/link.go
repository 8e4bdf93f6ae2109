package broker

import (
	"fmt"
	"slices"
	"time"

	"qdrouter/amqp"
)

// Link is a link that a peer attached.
type Link struct {
	b *Broker
	c *Conn
	s *session
	e *amqp.Link

	attach *amqp.Attach // the peer's
	raw    []byte
	reply  *amqp.Attach // ours, once it went
	held   *Attaching   // not answered yet
	gone   bool

	q    *queue    // of a link with a queue
	term *terminus // nil before the answer, and of a coordinator

	// The broker sends.
	selector *selector
	browse   bool   // distribution-mode copy
	cursor   uint64 // of a browser: the last message it saw
	settled  bool   // snd-settle-mode
	again    []*delivery
	sending  *delivery // of which a part went
	offset   int       // octets of it that went

	// The broker receives.
	credit  uint32 // that the peer is to have; 0 once paused
	current *Incoming
	txns    map[string]*txn // of a coordinator
}

// terminus is what may outlive a link: who it was, and its unsettled deliveries.
type terminus struct {
	container, name string
	role            amqp.Role
	session         *session // of the last link
	link            *Link    // nil while suspended
	q               *queue
	attach          *amqp.Attach // of the last link
	out             []*delivery  // in order
	in              map[string]amqp.Raw
	dynamic         bool
	timer           *time.Timer
}

// Attaching is an attach that is being answered.
type Attaching struct {
	Link   *Link
	Attach *amqp.Attach
	Raw    []byte // the attach as it came; see Fields

	// The answer as it will go, which the hook may change: a refusal has an
	// attach without the terminus of the broker's side, then a closing detach.
	Reply  *amqp.Attach
	Refuse *amqp.Error
	Hold   bool // goes when Link.Answer is called
}

// RemoteAttach answers a peer's attach.
func (c *Conn) RemoteAttach(e *amqp.Link, a *amqp.Attach) *amqp.Error {
	if r, ok := e.Owner.(*request); ok {
		r.attached(e, a)
		return nil
	}
	l := &Link{b: c.b, c: c, s: e.Session.Owner.(*session), e: e, attach: a, raw: c.raw}
	e.Owner = l
	c.links = append(c.links, l)
	at := &Attaching{Link: l, Attach: a, Raw: c.raw}
	l.resolve(at)
	if c.b.opts.OnAttach != nil {
		c.b.opts.OnAttach(at)
	}
	if at.Hold {
		l.held = at
		return nil
	}
	l.answer(at)
	return nil
}

// resolve finds the node and makes the answer, or the refusal.
func (l *Link) resolve(at *Attaching) {
	a := at.Attach
	r := &amqp.Attach{SndSettleMode: a.SndSettleMode, RcvSettleMode: a.RcvSettleMode, Source: a.Source, Target: a.Target, Coordinator: a.Coordinator}
	at.Reply = r
	l.term = l.findTerminus()
	if l.e.Role == amqp.RoleReceiver {
		r.MaxMessageSize = amqp.Opt[uint64]{V: l.b.opts.MaxMessageSize, Set: l.b.opts.MaxMessageSize > 0}
		switch {
		case a.Coordinator != nil:
			r.Coordinator = &amqp.Coordinator{Capabilities: amqp.AppendValue(nil, []amqp.Symbol{"amqp:local-transactions", "amqp:multi-txns-per-ssn"})}
			l.txns = map[string]*txn{}
		case a.Target == nil:
			at.Refuse = &amqp.Error{Condition: amqp.ErrCondInvalidField, Description: "no target"}
		default:
			t := *a.Target
			r.Target = &t
			t.Address, at.Refuse = l.node(t.Address, t.Dynamic)
			*r.Target = t
		}
		return
	}
	source := a.Source
	if source == nil && l.term.q != nil { // who resumes need not say from what
		source = l.term.attach.Source
	}
	if source == nil {
		at.Refuse = &amqp.Error{Condition: amqp.ErrCondInvalidField, Description: "no source"}
		return
	}
	s := *source
	r.Source = &s
	s.Filter, at.Refuse = l.filter(s.Filter)
	if at.Refuse == nil {
		s.Address, at.Refuse = l.node(s.Address, s.Dynamic)
	}
	if at.Refuse == nil && l.q == nil {
		at.Refuse = &amqp.Error{Condition: amqp.ErrCondInvalidField, Description: "no source address"}
	}
	l.browse = s.DistributionMode == "copy"
	l.settled = a.SndSettleMode.Or(amqp.SndSettleModeMixed) == amqp.SndSettleModeSettled
	*r.Source = s
}

// findTerminus returns the suspended terminus that the link resumes, or a new
// one. A durable one that has a link loses it (part 2 §2.6.1).
func (l *Link) findTerminus() *terminus {
	container := l.c.e.Remote.ContainerID
	for t := range l.b.termini {
		if t.container != container || t.name != l.e.Name || t.role != l.e.Role {
			continue
		}
		if t.link != nil {
			if expiry(t.attach) != amqp.ExpiryNever || expiry(l.attach) != amqp.ExpiryNever {
				continue // two links that happen to have the same name
			}
			t.link.detach(false, &amqp.Error{Condition: amqp.ErrCondStolen, Description: "attached by another connection"})
		}
		return t
	}
	return &terminus{container: container, name: l.e.Name, role: l.e.Role, in: map[string]amqp.Raw{}}
}

// expiry is the policy of the terminus at the broker's side.
func expiry(a *amqp.Attach) amqp.Symbol {
	var policy amqp.Symbol
	switch {
	case a.Role == amqp.RoleReceiver && a.Source != nil:
		policy = a.Source.ExpiryPolicy
	case a.Role == amqp.RoleSender && a.Target != nil:
		policy = a.Target.ExpiryPolicy
	}
	if policy == "" {
		return amqp.ExpirySessionEnd
	}
	return policy
}

// timeout is how long the terminus stays once its policy says that it expires.
func timeout(a *amqp.Attach) time.Duration {
	var seconds uint32
	switch {
	case a.Role == amqp.RoleReceiver && a.Source != nil:
		seconds = a.Source.Timeout.V
	case a.Role == amqp.RoleSender && a.Target != nil:
		seconds = a.Target.Timeout.V
	}
	return time.Duration(seconds) * time.Second
}

// node finds the queue of an address, which it returns as it is to be told.
func (l *Link) node(address amqp.Opt[string], dynamic bool) (amqp.Opt[string], *amqp.Error) {
	switch {
	case dynamic && l.term.q != nil:
		l.q = l.term.q
	case dynamic:
		l.q = l.b.addQueue(l.b.name("dynamic"))
		l.term.dynamic = true
	case !address.Set: // an anonymous terminus: each message says where to
		return address, nil
	case l.b.opts.Create:
		l.q = l.b.addQueue(address.V)
	default:
		if l.q = l.b.queues[address.V]; l.q == nil {
			return address, notFound(address.V)
		}
	}
	return amqp.Some(l.q.name), nil
}

func notFound(name string) *amqp.Error {
	return &amqp.Error{Condition: amqp.ErrCondNotFound, Description: "Node not found: " + name}
}

// selectorFilter has both names of the filter type.
const selectorFilter amqp.Symbol = "apache.org:selector-filter:string"

const selectorCode uint64 = 0x0000468c00000004

// filter takes in the filters that the broker has and returns those, which the
// answer tells.
func (l *Link) filter(filter amqp.Raw) (amqp.Raw, *amqp.Error) {
	it, err := amqp.IterMap(filter)
	if err != nil {
		return nil, nil
	}
	var kept amqp.Map
	for key, value, ok := it.Next(); ok; key, value, ok = it.Next() {
		v, err := value.Value()
		d, described := v.(amqp.Described)
		if err != nil || !described || d.Descriptor != selectorFilter && d.Descriptor != selectorCode {
			continue
		}
		text, ok := d.Value.(string)
		if !ok {
			return nil, &amqp.Error{Condition: amqp.ErrCondInvalidField, Description: "selector is no string"}
		}
		if l.selector, err = parseSelector(text); err != nil {
			return nil, &amqp.Error{Condition: amqp.ErrCondInvalidField, Description: "selector: " + err.Error()}
		}
		k, err := key.Value()
		if err != nil {
			continue
		}
		kept = append(kept, amqp.MapEntry{Key: k, Value: value.Clone()})
	}
	if kept == nil {
		return nil, nil
	}
	return amqp.AppendValue(nil, kept), nil
}

// answer sends the answer to an attach, and takes the link up.
func (l *Link) answer(at *Attaching) {
	l.held = nil
	l.c.touch()
	if l.gone || l.s.e.Ended() {
		return
	}
	r := at.Reply
	if at.Refuse != nil {
		if l.e.Role == amqp.RoleReceiver {
			r.Target, r.Coordinator = nil, nil
		} else {
			r.Source = nil
		}
		if l.term.dynamic && l.term.session == nil { // made for it
			l.b.removeQueue(l.q.name)
		}
		l.q, l.term = nil, nil
		l.reply = r
		l.e.Attach(r)
		l.forget()
		l.e.Detach(true, at.Refuse)
		return
	}
	resumed := l.term.session != nil
	if l.txns == nil {
		l.term.take(l)
		if resumed {
			r.Unsettled = l.term.unsettled()
		}
	}
	l.reply = r
	l.e.Attach(r)
	if l.e.Role == amqp.RoleReceiver {
		l.credit = l.b.opts.Credit
		l.grant()
		return
	}
	if resumed {
		l.resume()
	}
	l.q.consumers = append(l.q.consumers, l)
	l.q.dispatch()
}

// take makes l the terminus's link.
func (t *terminus) take(l *Link) {
	t.link, t.session, t.attach, t.q = l, l.s, l.attach, l.q
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	l.b.termini[t] = struct{}{}
}

// unsettled is the map of an attach: what is known of each delivery, by its tag.
func (t *terminus) unsettled() amqp.Raw {
	m := amqp.Map{}
	for _, d := range t.out {
		m = append(m, amqp.MapEntry{Key: d.tagBytes(), Value: d.state})
	}
	tags := make([]string, 0, len(t.in))
	for tag := range t.in {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	for _, tag := range tags {
		m = append(m, amqp.MapEntry{Key: []byte(tag), Value: t.in[tag]})
	}
	return amqp.AppendValue(nil, m)
}

// resume settles with the peer what was unsettled when the link was last
// detached (part 2 §2.6.13).
func (l *Link) resume() {
	theirs := map[string]amqp.Raw{}
	it, err := amqp.IterMap(l.attach.Unsettled)
	if err != nil {
		return
	}
	for key, value, ok := it.Next(); ok; key, value, ok = it.Next() {
		tag, _ := key.Value()
		if b, ok := tag.([]byte); ok {
			theirs[string(b)] = value
		}
	}
	for _, d := range slices.Clone(l.term.out) {
		if d.txn != nil {
			continue // the transaction decides
		}
		state, known := theirs[string(d.tagBytes())]
		switch {
		case !known: // it never came: another delivery may bring it
			l.term.drop(d)
			d.requeue(true)
		case terminal(state):
			l.term.drop(d)
			d.apply(state)
			d.outcome = state
			l.again = append(l.again, d)
		default:
			l.again = append(l.again, d)
		}
	}
}

// forget takes the link out of the lists; no more comes or goes on it.
func (l *Link) forget() {
	l.gone = true
	l.c.links = slices.DeleteFunc(l.c.links, func(o *Link) bool { return o == l })
	if l.q != nil {
		l.q.consumers = slices.DeleteFunc(l.q.consumers, func(o *Link) bool { return o == l })
	}
	for _, t := range l.txns {
		t.discharge(true)
	}
}

// suspend takes the link from its terminus, which may wait for another.
func (l *Link) suspend() {
	if l.gone {
		return
	}
	l.forget()
	t := l.term
	if t == nil || t.link != l {
		return
	}
	t.link = nil
	for _, d := range t.out {
		if d.session == l.s {
			delete(d.session.out, d.id)
		}
	}
	l.b.lost(t, amqp.ExpiryLinkDetach)
}

// lost expires a suspended terminus if its policy is the one given, or one that
// comes earlier.
func (b *Broker) lost(t *terminus, policy amqp.Symbol) {
	if t.link != nil {
		return
	}
	own := expiry(t.attach)
	order := []amqp.Symbol{amqp.ExpiryLinkDetach, amqp.ExpirySessionEnd, amqp.ExpiryConnectionClose}
	i := slices.Index(order, own)
	if i < 0 || i > slices.Index(order, policy) {
		return
	}
	wait := timeout(t.attach)
	if wait == 0 {
		b.expire(t)
		return
	}
	if t.timer != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		b.lock()
		defer b.unlock()
		if t.timer == timer {
			b.expire(t)
		}
	})
	t.timer = timer
}

// expire forgets a terminus. Its deliveries have the default outcome.
func (b *Broker) expire(t *terminus) {
	delete(b.termini, t)
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	out := t.out
	t.out = nil
	for _, d := range out {
		if d.txn != nil {
			continue // the transaction decides
		}
		d.apply(defaultOutcome(t.attach))
	}
	if t.dynamic {
		b.removeQueue(t.q.name)
	}
	if t.q != nil {
		t.q.dispatch()
	}
}

// defaultOutcome is that of a delivery whose receiver said nothing: the
// source's, or modified with delivery-failed.
func defaultOutcome(a *amqp.Attach) amqp.Raw {
	if a.Source != nil && a.Source.DefaultOutcome != nil {
		return a.Source.DefaultOutcome
	}
	return stateFailed
}

var stateFailed = amqp.Raw(amqp.AppendModified(nil, true, false, nil))

// RemoteDetach answers a peer's detach: closed ends the terminus too.
func (c *Conn) RemoteDetach(e *amqp.Link, d *amqp.Detach) {
	if r, ok := e.Owner.(*request); ok {
		r.detached(e, d)
		return
	}
	l := e.Owner.(*Link)
	if at := l.held; at != nil { // it gave up before the answer
		at.Refuse = &amqp.Error{Condition: amqp.ErrCondIllegalState, Description: "detached before it was attached"}
		l.answer(at)
		return
	}
	l.suspend()
	if d.Closed && l.term != nil && l.term.link == nil {
		c.b.expire(l.term)
	}
	e.Detach(d.Closed, nil)
}

// LinkFailed is told of a link whose peer sent without credit.
func (c *Conn) LinkFailed(e *amqp.Link, err *amqp.Error) {
	if r, ok := e.Owner.(*request); ok {
		r.end(err)
		return
	}
	l := e.Owner.(*Link)
	l.suspend()
	if l.term != nil && l.term.link == nil {
		c.b.expire(l.term)
	}
}

// LinkFlow goes on when there is credit.
func (c *Conn) LinkFlow(e *amqp.Link, f *amqp.Flow, drained uint32) {
	if r, ok := e.Owner.(*request); ok {
		r.ask()
		return
	}
	l := e.Owner.(*Link)
	if e.Role == amqp.RoleReceiver {
		if drained > 0 {
			e.Draining = false
		}
		return
	}
	if l.q == nil {
		return
	}
	l.q.dispatch()
	if f.Drain && e.Credit() == 0 { // all went, or there was none to give back; the peer waits for a word
		e.FlowDue()
	}
}

// detach ends the link from our side.
func (l *Link) detach(closed bool, err *amqp.Error) {
	if l.gone {
		return
	}
	l.c.touch()
	l.suspend()
	if closed && l.term != nil && l.term.link == nil {
		l.b.expire(l.term)
	}
	l.e.Detach(closed, err)
}

// grant gives the peer as much credit as it is to have, once half is used.
func (l *Link) grant() {
	if left := l.e.CreditOut(); l.credit > 0 && left <= l.credit/2 {
		l.e.Grant(l.credit - left)
		l.c.touch()
	}
}

// Name is the link's.
func (l *Link) Name() string { return l.e.Name }

// Role is the broker's: RoleReceiver means that the peer sends.
func (l *Link) Role() amqp.Role { return l.e.Role }

// Conn is the link's connection.
func (l *Link) Conn() *Conn { return l.c }

// Attach is the peer's attach.
func (l *Link) Attach() *amqp.Attach { return l.attach }

// Raw is the peer's attach as it came; see [Fields].
func (l *Link) Raw() []byte { return l.raw }

// Queue is the name of the link's queue; "" of a coordinator and of an anonymous
// terminus.
func (l *Link) Queue() string {
	if l.q == nil {
		return ""
	}
	return l.q.name
}

// CreditLeft is what the receiving end still takes.
func (l *Link) CreditLeft() uint32 {
	l.b.lock()
	defer l.b.unlock()
	if l.e.Role == amqp.RoleSender {
		return l.e.Credit()
	}
	return l.e.CreditOut()
}

// Begun is how many octets have gone of the message of which not all has gone
// yet.
func (l *Link) Begun() int {
	l.b.lock()
	defer l.b.unlock()
	return l.offset
}

// Answer sends the answer to an attach that the hook held.
func (l *Link) Answer() {
	l.b.lock()
	defer l.b.unlock()
	if l.held != nil {
		l.answer(l.held)
	}
}

// Refuse answers an attach that the hook held with a refusal.
func (l *Link) Refuse(err *amqp.Error) {
	l.b.lock()
	defer l.b.unlock()
	if l.held != nil {
		l.held.Refuse = err
		l.answer(l.held)
	}
}

// Detach detaches or closes the link, with an error unless err is nil.
func (l *Link) Detach(closed bool, err *amqp.Error) {
	l.b.lock()
	defer l.b.unlock()
	l.detach(closed, err)
}

// Pause grants no more credit on a link to the broker; what the peer has stays.
func (l *Link) Pause() { l.SetCredit(0) }

// SetCredit says how much credit the peer is to have from now on. It is renewed
// when half is used; what the peer has is not taken back.
func (l *Link) SetCredit(n uint32) {
	l.b.lock()
	defer l.b.unlock()
	l.credit = n
	l.e.Draining = false
	l.grant()
}

// Drain asks the peer to use up its credit or give it back. Credit is then not
// renewed.
func (l *Link) Drain() {
	l.b.lock()
	defer l.b.unlock()
	l.credit = 0
	l.e.Draining = true
	l.e.FlowDue()
	l.c.touch()
}

// String names the link for messages of tests.
func (l *Link) String() string { return fmt.Sprintf("%s link %q", l.e.Role, l.e.Name) }
