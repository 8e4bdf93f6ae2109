package router

import (
	"sync"

	"qdrouter/amqp"
)

// message is a complete delivery that its reader has not routed yet.
type message struct {
	in       *inLink
	id       amqp.Serial
	settled  bool
	owned    bool // payload is in no read buffer
	pooled   bool // payload came from wholePool
	onward   bool // sent on to another address than it came for: notes say which
	format   uint32
	state    amqp.Raw
	payload  []byte
	header   amqp.Range
	sections amqp.Range // of the message annotations
	insertAt int        // where annotations belong when there are none
	notes    annotations
	refusal  amqp.Raw // rejected without being routed
	to       *address // nil = nobody knows it
	fwd      *forwarding
	d        *delivery
}

// find looks up who takes the message. On an anonymous link m.to is known already.
func (m *message) find() {
	if !m.in.anon {
		m.to = m.in.addr.Load()
	}
	m.fwd = noForwarding
	if m.to != nil && m.refusal == nil && (!m.to.controlOnly || m.in.control) {
		m.fwd = m.to.fwd.Load()
	}
}

// maxBatch bounds the messages that are parsed before they are routed.
const maxBatch = 1024

// Transfer takes in one frame of a delivery. It runs in the reader, without the lock.
func (e engine) Transfer(l *amqp.Link, t *amqp.Transfer, payload []byte) *amqp.Error {
	c := e.Conn
	in, ok := l.Owner.(*inLink)
	if !ok {
		return &amqp.Error{Condition: amqp.ErrCondIllegalState, Description: "transfer on a link that is not attached"}
	}
	in.sess.frameSize += (len(payload) - in.sess.frameSize) >> 3
	if !in.listed {
		in.listed = true
		c.b.links = append(c.b.links, in)
	}
	if in.pair != nil {
		c.passTransfer(in, t, payload)
		return nil
	}
	state, _ := relayed(t.State) // RT F72, F73
	p := in.partial
	if p == nil {
		if t.Aborted {
			c.b.unsent(in)
			return nil
		}
		if !t.More {
			c.b.messages = append(c.b.messages, message{
				in: in, id: amqp.Serial(t.DeliveryID.V), settled: t.Settled.V,
				format: t.MessageFormat.V, state: state, payload: payload,
			})
			c.parse(&c.b.messages[len(c.b.messages)-1])
			if len(c.b.messages) >= maxBatch {
				c.routeRead()
				c.b.run()
			}
			return nil
		}
		p = &partial{id: amqp.Serial(t.DeliveryID.V), format: t.MessageFormat.V, state: state}
		in.partial = p
	}
	c.takePart(in, p, t, payload)
	return nil
}

// takePart takes in one frame of a delivery that has several.
func (c *Conn) takePart(in *inLink, p *partial, t *amqp.Transfer, payload []byte) {
	p.settled = p.settledAhead || t.Settled.V
	switch {
	case p.copies != nil:
		c.continueStream(in, p, t, payload)
	case p.discard:
		if !t.More || t.Aborted {
			in.partial = nil
			c.endDiscard(in, p, t.Aborted)
		}
	case t.Aborted:
		in.partial = nil
		p.free()
		c.b.unsent(in)
	case in.pair != nil:
		c.passBeginning(in, p, payload, t.More)
	default:
		c.gather(in, p, payload, t.More)
	}
}

// gather collects a message of several frames until it is complete or long enough to be
// forwarded while it arrives (RT F59).
func (c *Conn) gather(in *inLink, p *partial, payload []byte, more bool) {
	if p.buf == nil {
		if more && len(payload) >= 4096 {
			p.buf = (*wholePool.Get().(*[]byte))[:0]
			p.pooled = true
		} else {
			p.buf = make([]byte, 0, 2*len(payload)+64)
		}
	}
	if len(p.buf)+len(payload) > cap(p.buf) {
		p.grow(len(payload))
	}
	p.buf = append(p.buf, payload...)
	if !more {
		in.partial = nil
		c.b.messages = append(c.b.messages, message{
			in: in, id: p.id, settled: p.settled, owned: !p.pooled, pooled: p.pooled,
			format: p.format, state: p.state, payload: p.buf,
		})
		c.parse(&c.b.messages[len(c.b.messages)-1])
		if p.pooled { // copied where it has to wait; the buffer is ours again after that
			c.routeRead()
			c.b.run()
			p.free()
		}
		return
	}
	if p.whole {
		if len(p.buf) > wholeMax {
			c.tooLong(in, p)
		}
		return
	}
	if len(p.buf) < streamAt && len(p.buf) < 2*p.walked {
		return
	}
	p.walked = len(p.buf)
	m := message{in: in, id: p.id, settled: p.settled, format: p.format, state: p.state, payload: p.buf}
	ready := c.walk(&m, false)
	if ready && len(p.buf) < streamAt && !m.notes.stream {
		return // a faulty one is refused when it is complete (FC U02)
	}
	switch {
	case !ready && len(p.buf) < annotationMax:
		return
	case !ready:
		m.refusal = rejectInvalidMessage
	case !in.anon && p.buf[0] != 0:
		m.refusal = nil // there are no sections; such a stream is none of a router's business
	}
	c.routeRead() // what came before on this link goes first
	c.beginStream(in, p, &m)
	c.b.run()
}

// wholePool has buffers in which messages are gathered up to streamAt.
var wholePool = sync.Pool{New: func() any { b := make([]byte, 0, streamAt+65536); return &b }}

// grow makes room for n octets more, and at least doubles it: append grows a long slice by a
// quarter.
func (p *partial) grow(n int) {
	buf := appendPieces(make([]byte, 0, max(2*cap(p.buf), len(p.buf)+n)), p.buf)
	p.free()
	p.buf = buf
}

// appendPieces is append in pieces. Copying megabytes of memory that was never touched takes tens
// of milliseconds, in which a goroutine cannot be stopped; the collector waits for it, and with it
// the processor that should look after the other connections.
func appendPieces(b, p []byte) []byte {
	for len(p) > 0 {
		n := min(len(p), 64<<10)
		b = append(b, p[:n]...)
		p = p[n:]
	}
	return b
}

func (p *partial) free() {
	if p.pooled && cap(p.buf) <= streamAt+2*65536 {
		b := p.buf[:0]
		wholePool.Put(&b)
	}
	p.buf, p.pooled = nil, false
}

var rejectInvalidMessage = amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{
	Condition: amqp.ErrCondDecodeError, Description: "invalid message format"}))

var rejectNoAddress = amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{
	Condition: amqp.ErrCondPreconditionFailed, Description: "Routing failure: no address present"}))

var rejectUnavailable = amqp.Raw(amqp.AppendRejected(nil, &amqp.Error{
	Condition: amqp.ErrCondNotFound, Description: "Deliveries cannot be sent to an unavailable address"}))

// parse finds what routing needs of a complete message.
func (c *Conn) parse(m *message) {
	c.walk(m, true)
	if c.messageLog != 0 {
		c.logMessage("Received", m.in.l.Name, m.in.source, string(m.in.template), m.payload, true)
	}
}

// walk looks at a message as far as it is here. It reports false when more of it is needed;
// what is wrong with it is in m.refusal.
func (c *Conn) walk(m *message, complete bool) bool {
	depth := amqp.DepthMessageAnnotations
	if m.in.anon && !m.in.router {
		depth = amqp.DepthProperties
	}
	s, err := amqp.WalkMessage(m.payload, depth, complete)
	if err == amqp.ErrNeedMore {
		return false
	}
	if err != nil { // RT E54
		m.refusal = rejectInvalidMessage
		return true
	}
	m.header, m.sections = s.Header, s.MessageAnnotations
	m.insertAt = max(s.Header.End, s.DeliveryAnnotations.End)
	if m.sections.Present() {
		if e := m.notes.read(m.sections.Value(m.payload), c.o.StripIn); e != nil { // RT E56
			m.refusal = amqp.AppendRejected(nil, e)
			if complete || len(m.payload) >= streamAt || m.notes.stream { // else it comes here again
				c.r.logf("ROUTER", Warning, "[C%d][L%d] Message rejected - invalid MA section: %s", c.o.ID, m.in.id, e.Description) // CFG R30
			}
			return true
		}
		if m.notes.hops > c.r.radius()+1 && !m.in.control { // RT E57
			m.refusal = amqp.StateReleased
			return true
		}
	}
	if m.in.anon {
		if m.in.router && m.notes.to == nil {
			if s, err = amqp.WalkMessage(m.payload, amqp.DepthProperties, complete); err == amqp.ErrNeedMore {
				return false
			} else if err != nil {
				m.refusal = rejectInvalidMessage
				return true
			}
		}
		c.resolve(m, &s)
	}
	return true
}

// resolve finds the address of a message on an anonymous link (RT F2, E58, E60).
func (c *Conn) resolve(m *message, s *amqp.Sections) {
	to, phase := m.notes.to, m.notes.phase
	if to == nil {
		var ok bool
		var err error
		if to, ok, err = s.To(m.payload); err != nil {
			m.refusal = rejectInvalidMessage
			return
		} else if !ok {
			to = nil
		}
		phase = 0
	}
	if len(to) == 0 {
		m.refusal = rejectNoAddress
		return
	}
	in := m.in
	if a := in.addresses[string(to)]; a != nil && phase == 0 && !a.gone.Load() {
		m.to = a
		return
	}
	key, ok := c.r.keyOf(string(to), '0'+phase)
	if !ok {
		m.refusal = rejectNoAddress
		return
	}
	if key.class() == classMobile && c.tenant != "" {
		key = mobileKey('0'+phase, c.tenant+key.text())
	}
	a := c.r.lookup(key)
	if a != nil && a.endpoint {
		return
	}
	if a == nil {
		if !m.in.router && c.r.distributionOf(key) == Unavailable { // RT E61
			m.refusal = rejectUnavailable
		}
		return
	}
	m.to = a
	if phase == 0 {
		if in.addresses == nil || len(in.addresses) >= 1024 {
			in.addresses = make(map[string]*address)
		}
		in.addresses[string(to)] = a
	}
}

// routeRead routes the messages gathered so far. The unsettled ones are entered in their
// sessions first, under one lock, so that no answer can come before its record.
func (c *Conn) routeRead() {
	b := c.b
	if len(b.routed) > 0 {
		c.passRead()
	}
	if len(b.messages) == 0 {
		return
	}
	c.lastDelivery.Store(b.now)
	c.mu.Lock()
	for i := range b.messages {
		m := &b.messages[i]
		m.find()
		m.in.counts.deliveries++
		m.in.inRead++
		if m.in.router {
			m.in.replenishLocked()
			b.touch(c)
		}
		if m.settled {
			m.in.counts.countSettled(m.wanted(), b.second())
		} else {
			m.d = c.newDelivery(m.in, m.id, b.second())
		}
	}
	for _, in := range b.links {
		in.usedLocked(b.now)
	}
	c.mu.Unlock()
	for i := range b.messages {
		c.route(&b.messages[i], b)
	}
	for _, in := range b.links {
		in.inRead = 0
		in.run = 0
		in.runTo, in.runAddr, in.runTrack = nil, nil, nil
	}
	clear(b.messages)
	b.messages = b.messages[:0]
}

// newDelivery enters an unsettled delivery into its session.
func (c *Conn) newDelivery(in *inLink, id amqp.Serial, at uint32) *delivery {
	var d *delivery
	if n := len(c.free); n > 0 {
		d = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		d = new(delivery)
	}
	d.in, d.id, d.at = in, id, at
	in.counts.unsettled++
	in.sess.in.Put(id, d)
	return d
}

// freeMax bounds the deliveries that a connection keeps for use again.
const freeMax = 2048

// recycle keeps a delivery that neither side knows any more.
func (c *Conn) recycle(d *delivery) {
	if d.told || len(c.free) >= freeMax {
		return
	}
	many := d.many
	if many == nil {
		many = d.spare
	}
	*d = delivery{}
	if many != nil && cap(many.copies) <= 64 {
		clear(many.copies)
		many.copies = many.copies[:0]
		d.spare = many
	}
	c.free = append(c.free, d)
}
