package broker

import (
	"fmt"
	"slices"

	"qdrouter/amqp"
)

// txn is a transaction that was declared (AMQP 1.0 part 4).
type txn struct {
	id      string
	b       *Broker
	link    *Link // the coordinator
	posts   []post
	retires []*delivery
}

// post is a message that is in its queue once the transaction is committed.
type post struct {
	q *queue
	m *message
}

// errUnknownTxn is the condition of a transaction id that is none.
const errUnknownTxn amqp.Symbol = "amqp:transaction:unknown-id"

func unknownTxn(id string) *amqp.Error {
	return &amqp.Error{Condition: errUnknownTxn, Description: fmt.Sprintf("no transaction %q", id)}
}

// control takes in a message to the coordinator: declare or discharge.
func (l *Link) control(in *Incoming) {
	bad := func(text string) {
		in.dispose(true, amqp.AppendRejected(nil, &amqp.Error{Condition: amqp.ErrCondNotAllowed, Description: text}))
	}
	m, err := amqp.DecodeMessage(in.Payload)
	if err != nil {
		bad(err.Error())
		return
	}
	d, _ := m.Body.(amqp.Described)
	fields, _ := d.Value.(amqp.List)
	switch d.Descriptor {
	case uint64(amqp.CodeDeclare), amqp.Symbol("amqp:declare:list"):
		t := &txn{id: l.b.name("txn"), b: l.b, link: l}
		l.b.txns[t.id] = t
		l.txns[t.id] = t
		in.dispose(true, amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(amqp.CodeDeclared), Value: amqp.List{[]byte(t.id)}}))
	case uint64(amqp.CodeDischarge), amqp.Symbol("amqp:discharge:list"):
		var id []byte
		if len(fields) > 0 {
			id, _ = fields[0].([]byte)
		}
		fail := len(fields) > 1 && fields[1] == true
		t := l.txns[string(id)]
		if t == nil {
			in.dispose(true, amqp.AppendRejected(nil, unknownTxn(string(id))))
			return
		}
		t.discharge(fail)
		in.dispose(true, amqp.StateAccepted)
	default:
		bad("neither declare nor discharge")
	}
}

// discharge commits the transaction, or rolls it back. The lock is held
// throughout, so that a commit is one record of the journal.
func (t *txn) discharge(fail bool) {
	delete(t.b.txns, t.id)
	delete(t.link.txns, t.id)
	queues := map[*queue]struct{}{}
	if !fail {
		for _, p := range t.posts {
			if !p.q.gone {
				p.q.add(p.m)
				queues[p.q] = struct{}{}
			}
		}
	}
	for _, d := range t.retires {
		d.txn = nil
		queues[d.q] = struct{}{}
		switch {
		case !fail:
			d.finish(d.outcome, !d.forgot)
		case d.forgot || t.b.expired(d.term):
			d.term.drop(d)
			d.apply(stateFailed)
		}
		d.outcome = nil // of a rolled back one that the receiver still has
	}
	for q := range queues {
		q.dispatch()
	}
}

// expired reports whether a terminus is gone for good.
func (b *Broker) expired(t *terminus) bool {
	_, ok := b.termini[t]
	return !ok
}

// leave takes a delivery out, whose receiver thought better of it.
func (t *txn) leave(d *delivery) {
	t.retires = slices.DeleteFunc(t.retires, func(o *delivery) bool { return o == d })
	d.txn, d.outcome = nil, nil
}

// enlist makes an outcome part of a transaction.
func (d *delivery) enlist(p *amqp.Disposition) {
	id, outcome := transactional(p.State)
	t := d.q.b.txns[id]
	if t == nil {
		// Nothing but the detach of the link can tell (part 4 §4.5.8).
		if l := d.term.link; l != nil {
			l.detach(true, unknownTxn(id))
		}
		return
	}
	if d.txn != t {
		if d.txn != nil {
			d.txn.leave(d)
		}
		t.retires = append(t.retires, d)
	}
	d.txn, d.outcome, d.state = t, outcome, p.State
	if outcome == nil {
		d.outcome = defaultOutcome(d.term.attach)
	}
	if p.Settled {
		d.forgot = true
		delete(d.session.out, d.id)
		d.term.drop(d)
	}
}

// transactional returns the id and the outcome of a transactional state.
func transactional(state amqp.Raw) (id string, outcome amqp.Raw) {
	fields := Fields(state)
	if len(fields) > 0 {
		v, _ := fields[0].Value()
		b, _ := v.([]byte)
		id = string(b)
	}
	if len(fields) > 1 && !fields[1].IsNull() {
		outcome = fields[1]
	}
	return id, outcome
}

func transactionalState(id string, outcome amqp.Raw) amqp.Raw {
	return amqp.AppendValue(nil, amqp.Described{Descriptor: uint64(amqp.CodeTransactionalState), Value: amqp.List{[]byte(id), outcome}})
}
