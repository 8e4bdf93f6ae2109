package router

import (
	"sync"

	"qdrouter/amqp"
)

// batch gathers, by connection, what is to be done there: copies to send, settlements, credit.
// run locks each connection once and does it. What that in turn owes to other connections is
// added to the same batch, so that no two connections are ever locked at a time.
//
// A batch belongs to one goroutine; take one with newBatch and give it back with done.
type batch struct {
	work    []work
	used    int
	pending []int         // indexes into work that have something to do
	many    map[*Conn]int // indexes into work by connection, once there are many
	now     int64         // nanoseconds on the router's clock

	// Scratch of the reader that uses the batch.
	messages []message
	events   []event // for the core; what they hold may alias the read buffer
	routed   []routedMessage
	links    []*inLink // with messages in this read
	targets  []*outLink
	arena    []byte // rewritten annotations; valid until the read or the batch is done
	scratch  work
}

// work is what is to be done on one connection, in the order of the fields.
type work struct {
	c       *Conn
	index   int // in batch.work
	queued  bool
	ops     []op
	ends    []senderEnd
	runs    []inRun
	credits []inCredit
	words   []linkWord
	resumes []*session
}

type opKind uint8

const (
	opMessage opKind = iota // a complete message
	opStream                // the first octets of a stream
	opChunk                 // more of a stream
	opRouted                // a complete message on a routed link
)

// op is a copy of a message, or a part of one, on its way to an out-link.
type op struct {
	kind    opKind
	settled bool
	owned   bool // parts[0] may be kept; it is in no read buffer
	last    bool // opStream, opChunk: the message ends here
	aborted bool
	out     *outLink
	ref     copyRef
	in      *inLink // gets credit back when a settled one has left
	format  uint32
	at      uint32
	state   amqp.Raw
	parts   [3][]byte // of a routed link, the last one is the delivery tag
	stream  *stream
}

func (o *op) size() int { return len(o.parts[0]) + len(o.parts[1]) + len(o.parts[2]) }

// inRun is a state of deliveries first..last that came in on a session.
type inRun struct {
	sess        *session
	first, last amqp.Serial
	state       amqp.Raw
	settled     bool
	noPath      bool // nobody wanted them: credit is withheld (RT E47)
}

type inCredit struct {
	in     *inLink
	n      uint32
	noPath bool
	lost   bool // the deliveries are to be counted as dropped
}

// senderEnd is the sender's word on a delivery, for the receiver of a copy (RT F70, F71).
type senderEnd struct {
	ref     copyRef
	state   amqp.Raw
	settled bool
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (r *Router) newBatch() *batch {
	b := batches.Get().(*batch)
	b.now = r.now()
	return b
}

func (b *batch) done() {
	if cap(b.messages) > 8192 || cap(b.routed) > 8192 || cap(b.arena) > 1<<20 || len(b.work) > 1024 {
		return // grown by a rare load: leave it to the collector
	}
	for i := range b.work[:b.used] {
		b.work[i].c = nil
	}
	b.used = 0
	clear(b.many)
	b.arena = b.arena[:0]
	batches.Put(b)
}

// second is the batch's time in whole seconds of the router's clock.
func (b *batch) second() uint32 { return uint32(b.now / 1e9) }

func (b *batch) to(c *Conn) *work {
	var w *work
	if i := int(c.slot.Load()); i < b.used && b.work[i].c == c { // where it was last time, in any batch
		w = &b.work[i]
	} else {
		w = b.find(c)
	}
	return w
}

func (b *batch) find(c *Conn) *work {
	i := b.used
	if b.used <= fewConnections {
		for j := range b.used {
			if b.work[j].c == c {
				i = j
				break
			}
		}
	} else if j, ok := b.many[c]; ok {
		i = j
	}
	if i == b.used {
		if i == len(b.work) {
			b.work = append(b.work, work{index: i})
		}
		b.used++
		b.work[i].c = c
		if b.used > fewConnections {
			b.remember(i)
		}
	}
	c.slot.Store(int32(i))
	return &b.work[i]
}

// fewConnections is up to how many connections looking through them beats a map.
const fewConnections = 16

// remember enters work into the map; the first to come there brings all before it.
func (b *batch) remember(i int) {
	if b.many == nil {
		b.many = make(map[*Conn]int)
	}
	if len(b.many) == 0 {
		for j := range i {
			b.many[b.work[j].c] = j
		}
	}
	b.many[b.work[i].c] = i
}

func (b *batch) enqueue(w *work) {
	if !w.queued {
		w.queued = true
		b.pending = append(b.pending, w.index)
	}
}

// op returns a new op for a connection, to be filled in at once.
func (b *batch) op(c *Conn) *op {
	w := b.to(c)
	b.enqueue(w)
	if len(w.ops) < cap(w.ops) {
		w.ops = w.ops[:len(w.ops)+1]
	} else {
		w.ops = append(w.ops, op{})
	}
	return &w.ops[len(w.ops)-1]
}

// post adds what the core is to decide once the read is done.
func (b *batch) post(ev event) { b.events = append(b.events, ev) }

// busy reports whether run has more to do than to write.
func (b *batch) busy() bool {
	for _, i := range b.pending {
		if w := &b.work[i]; len(w.ops)+len(w.ends)+len(w.runs)+len(w.credits)+len(w.words)+len(w.resumes) > 0 {
			return true
		}
	}
	return false
}

// touch makes run visit a connection, to write what is in its output.
func (b *batch) touch(c *Conn) { b.enqueue(b.to(c)) }

// inState adds a state of one incoming delivery.
func (b *batch) inState(d *delivery, state amqp.Raw, settled, noPath bool) {
	if d.in == nil {
		return
	}
	w := b.to(d.in.conn)
	b.enqueue(w)
	sess := d.in.sess
	if n := len(w.runs); n > 0 {
		r := &w.runs[n-1]
		if r.sess == sess && r.last+1 == d.id && r.settled == settled && r.noPath == noPath && sameRaw(r.state, state) {
			r.last = d.id
			return
		}
	}
	w.runs = append(w.runs, inRun{sess, d.id, d.id, state, settled, noPath})
}

func sameRaw(a, b amqp.Raw) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// credit returns credit to a sender.
func (b *batch) credit(in *inLink, noPath bool) {
	w := b.to(in.conn)
	b.enqueue(w)
	if n := len(w.credits); n > 0 && w.credits[n-1].in == in && w.credits[n-1].noPath == noPath && !w.credits[n-1].lost {
		w.credits[n-1].n++
		return
	}
	w.credits = append(w.credits, inCredit{in: in, n: 1, noPath: noPath})
}

// lost returns the credit of a settled delivery that could be sent to nobody.
func (b *batch) lost(in *inLink) {
	w := b.to(in.conn)
	b.enqueue(w)
	w.credits = append(w.credits, inCredit{in: in, n: 1, lost: true})
}

func (b *batch) end(c *Conn, e senderEnd) {
	w := b.to(c)
	b.enqueue(w)
	w.ends = append(w.ends, e)
}

func (b *batch) resume(s *session) {
	w := b.to(s.conn)
	b.enqueue(w)
	w.resumes = append(w.resumes, s)
}

// outcome passes on what became of one copy, with the lock of its out-link's connection held.
// settled is the copy's end; state may be nil.
func (b *batch) outcome(ref copyRef, state amqp.Raw, settled bool) {
	d := ref.d
	m := d.many
	if m == nil {
		b.inState(d, state, settled, false)
		return
	}
	st := ref.state()
	decided := false
	if !st.terminal {
		if strengthOf(state) == strengthNone && !settled {
			return // not terminal: a multicast has no use for it (RT F37)
		}
		st.terminal = true
		decided = m.decide(state)
	}
	if decided && (!settled || m.unsettled.Load() > 1) {
		b.inState(d, strengthState[m.worst.Load()], false, false)
	}
	if settled && m.unsettled.Add(-1) == 0 { // before this is done, d is ours too
		b.inState(d, strengthState[m.worst.Load()], true, false)
	}
}

// run does all there is to do, and what comes of that. No connection may be locked.
func (b *batch) run() {
	for len(b.pending) > 0 {
		i := b.pending[len(b.pending)-1]
		b.pending = b.pending[:len(b.pending)-1]
		// What this causes on the same connection goes into fresh lists.
		s := &b.scratch
		w := &b.work[i]
		c := w.c
		w.queued = false
		w.ops, s.ops = s.ops[:0], w.ops
		w.ends, s.ends = s.ends[:0], w.ends
		w.runs, s.runs = s.runs[:0], w.runs
		w.credits, s.credits = s.credits[:0], w.credits
		w.words, s.words = s.words[:0], w.words
		w.resumes, s.resumes = s.resumes[:0], w.resumes
		c.mu.Lock()
		c.readyOut()
		for i := range s.ops {
			c.transmit(&s.ops[i], b)
		}
		for i := range s.ends {
			c.senderEnded(&s.ends[i], b)
		}
		for i := range s.runs {
			c.applyRun(&s.runs[i], b)
		}
		for _, k := range s.credits {
			if k.lost {
				k.in.counts.dropped += uint64(k.n)
			}
			if k.noPath {
				k.in.withholdLocked(k.n)
			} else {
				k.in.creditLocked(k.n)
			}
		}
		for i := range s.words {
			c.linkSays(&s.words[i], b)
		}
		for _, sess := range s.resumes {
			if sess.holding.CompareAndSwap(true, false) && !sess.s.Ended() {
				sess.s.Hold = false
				sess.s.FlowDue()
			}
		}
		c.flushLocked(b)
		clear(s.ops)
		clear(s.ends)
		clear(s.runs)
		clear(s.credits)
		clear(s.words)
		clear(s.resumes)
	}
}

// lastOp returns the op last added for a connection.
func (b *batch) lastOp(c *Conn) *op {
	w := b.to(c)
	return &w.ops[len(w.ops)-1]
}
