package broker

import (
	"context"
	"errors"
	"io"

	"qdrouter/amqp"
)

// request is one question on a connection and its answer, on a session of its
// own: what a broker asks a router's management of, for example for link routes
// of its connection.
type request struct {
	out, in  *amqp.Link
	question amqp.Message
	sent     bool
	answer   []byte // so far
	done     chan error
}

// Request sends m to an address of the peer, with a reply-to that it fills in,
// and returns the answer.
func (c *Conn) Request(ctx context.Context, address string, m *amqp.Message) (*amqp.Message, error) {
	r := &request{question: *m, done: make(chan error, 1)}
	var p amqp.Properties
	if m.Properties != nil {
		p = *m.Properties
	}
	r.question.Properties = &p
	c.Lock()
	if c.ended {
		c.Unlock()
		return nil, io.EOF
	}
	e, fault := c.e.Begin()
	if fault != nil {
		c.Unlock()
		return nil, fault
	}
	s := c.newSession(e)
	name := c.b.name("request")
	r.in, r.out = e.NewLink(name, amqp.RoleReceiver), e.NewLink(name, amqp.RoleSender)
	r.in.Owner, r.out.Owner = r, r
	r.in.Attach(&amqp.Attach{Source: &amqp.Source{Dynamic: true}, Target: &amqp.Target{}})
	r.out.Attach(&amqp.Attach{Source: &amqp.Source{}, Target: &amqp.Target{Address: amqp.Some(address)}})
	r.in.Grant(1)
	c.Unlock()
	defer func() {
		c.Lock()
		c.dropSession(s)
		e.End(nil)
		c.Unlock()
	}()
	select {
	case err := <-r.done: // from here on the reader leaves the answer alone
		if err != nil {
			return nil, err
		}
		return amqp.DecodeMessage(r.answer)
	case <-c.gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end tells who waits; only the first word counts.
func (r *request) end(err error) {
	select {
	case r.done <- err:
	default:
	}
}

// attached takes in the peer's attach of either link.
func (r *request) attached(e *amqp.Link, a *amqp.Attach) {
	if e == r.in && a.Source != nil {
		r.question.Properties.ReplyTo = a.Source.Address
		r.ask()
	}
}

// ask sends the question once it can be.
func (r *request) ask() {
	if r.sent || !r.question.Properties.ReplyTo.Set || r.out.Credit() == 0 || r.out.Session.OutWindow() == 0 {
		return
	}
	b := r.question.Append(nil)
	if !r.out.Fits(len(b)) {
		r.end(errors.New("request of more than a frame"))
		return
	}
	r.sent = true
	r.out.Send(&amqp.OutDelivery{Settled: true}, b, nil, nil)
}

// transfer takes in the answer.
func (r *request) transfer(t *amqp.Transfer, payload []byte) {
	r.answer = append(r.answer, payload...)
	if t.More {
		return
	}
	if !t.Settled.V {
		id := amqp.Serial(t.DeliveryID.V)
		r.in.Session.Dispose(amqp.RoleReceiver, id, id, true, amqp.StateAccepted)
	}
	r.end(nil)
}

// detached takes in that the peer refuses or ends a link.
func (r *request) detached(e *amqp.Link, d *amqp.Detach) {
	if d.Error != nil {
		r.end(d.Error)
	} else {
		r.end(io.EOF)
	}
	e.Detach(true, nil)
}
