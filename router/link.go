package router

import (
	"sync/atomic"

	"qdrouter/amqp"
)

// session is the router's half of an AMQP session. Guarded by the connection's mutex.
type session struct {
	conn *Conn
	s    *amqp.Session
	in   amqp.Unsettled[*delivery] // received, by incoming delivery id
	out  amqp.Unsettled[copyRef]   // sent, by outgoing delivery id

	endError *amqp.Error // of the peer's end; guarded by the connection's mutex

	// held is how many octets of streams that came in here wait in out-links anywhere. At
	// heldHigh the incoming window is no longer renewed, at heldLow it is again.
	held    atomic.Int64
	holding atomic.Bool // written with the mutex held, together with s.Hold

	// frameSize is a running mean of the payload of incoming transfers, kept by the reader.
	frameSize int

	routed atomic.Bool // it has routed links, of which a blocked one must not hold the others

	// Of far halves of routed links: the session of the near halves that has this one to itself.
	serves sessionKey
	// Of near halves: sessions that their far halves share with others. Owned by the core.
	shares []sessionKey
}

// holdAt is how much may wait of what came in on the session before its window is held.
func (s *session) holdAt() int64 {
	if s.routed.Load() {
		return routedHeld
	}
	return heldHigh
}

// Bounds of what one session may have waiting of streamed messages, in octets, and of the
// incoming window, which is granted ahead.
const (
	heldHigh      = 1 << 20
	heldLow       = 1 << 19
	windowOctets  = 4 << 20
	windowMin     = 256
	windowMax     = 2048
	streamAt      = 131072  // octets of a message that make it a stream (RT F59)
	annotationMax = 1 << 20 // octets within which the sections before the body must end
	wholeMax      = 32 << 20
	outputRoom    = 256 << 10 // octets encoded ahead of the socket
)

type linkCounts struct {
	deliveries, presettled, dropped        uint64
	accepted, rejected, released, modified uint64
	delayed1, delayed10                    uint64
	stuck                                  uint64
	undelivered, unsettled                 uint64 // gauges
	rate                                   settleRate
}

// settleRate counts settlements per second over the last five whole seconds (RT 6.1).
type settleRate struct {
	second  uint32
	buckets [6]uint32
}

func (s *settleRate) advance(now uint32) {
	for n := 0; s.second != now && n < len(s.buckets); n++ {
		s.second++
		if now-s.second >= uint32(len(s.buckets)) {
			s.second = now - uint32(len(s.buckets)) + 1
		}
		s.buckets[s.second%uint32(len(s.buckets))] = 0
	}
	s.second = now
}

func (s *settleRate) add(now uint32) {
	s.advance(now)
	s.buckets[now%uint32(len(s.buckets))]++
}

func (s *settleRate) perSecond(now uint32) uint32 {
	s.advance(now)
	var sum uint32
	for i, n := range s.buckets {
		if uint32(i) != now%uint32(len(s.buckets)) {
			sum += n
		}
	}
	return sum / uint32(len(s.buckets)-1)
}

// count notes one finished delivery.
func (k *linkCounts) count(code uint64, waited, now uint32) {
	switch code {
	case amqp.CodeAccepted:
		k.accepted++
		k.rate.add(now)
	case amqp.CodeRejected:
		k.rejected++
		k.rate.add(now)
	case amqp.CodeReleased:
		k.released++
	case amqp.CodeModified:
		k.modified++
	}
	k.delay(waited)
}

// countSettled notes one finished delivery that came settled.
func (k *linkCounts) countSettled(wanted bool, now uint32) {
	k.presettled++
	if wanted {
		k.rate.add(now)
	} else {
		k.dropped++
	}
}

func (k *linkCounts) delay(waited uint32) {
	if waited > 10 {
		k.delayed10++
	} else if waited > 1 {
		k.delayed1++
	}
}

// inLink is a link on which the peer sends.
type inLink struct {
	id       uint64
	conn     *Conn
	sess     *session
	l        *amqp.Link
	capacity uint32
	addr     atomic.Pointer[address] // nil = anonymous, set by the core before any credit
	anon     bool
	router   bool // from another router: credit comes back on receipt (RT E46)
	control  bool // its control link
	fallback bool // brings back what was stored; never diverted itself (RT F44)
	near     *neighbour
	own      *Link // set when the router attached it for an owner
	kind     linkKind
	priority uint32
	pair     *pair  // set on a routed link, before any credit
	template []byte // x-opt-qd.to of what comes in here: the target as attached
	source   string // for log lines
	attached uint32 // second

	// Owned by the reader.
	inRead    int  // deliveries of the read being processed that are not yet routed
	listed    bool // in batch.links
	run       int  // how many more may go to runTo without a new choice (RT F26a)
	runTo     *outLink
	runAddr   *address
	runTrack  *atomic.Int64
	partial   *partial
	addresses map[string]*address // by "to", of an anonymous link

	// Guarded by conn.mu.
	counts   linkCounts
	pending  uint32 // credit held back until the address is reachable
	owed     uint32 // credit not given back yet to a router
	withheld bool
	closed   bool
	zeroAt   int64 // since when the sender has no credit, in nanoseconds; 0 = it has some
	blocked  bool
	up       bool

	// Owned by the core.
	bound   bool
	removed bool
}

// partial is a delivery of several frames that has not all arrived.
type partial struct {
	id      amqp.Serial
	settled bool
	// settledAhead is set by a disposition of the sender before the last frame, which is acted
	// on when the message is complete (RT F67).
	settledAhead bool

	format  uint32
	state   amqp.Raw
	tag     []byte // of a routed link, until it is passed on
	buf     []byte // until it is routed
	pooled  bool
	d       *delivery
	copies  []*stream // once it is forwarded as it arrives
	discard bool      // nobody wants the rest
	outcome amqp.Raw  // of a discarded one
	noPath  bool      // and why
	whole   bool      // kept until complete: for a subscriber in this process (RT F62), or a control message
	walked  int       // octets of buf at which the sections were last looked for
}

// reopenLocked gives the sender the credit that was held back.
func (in *inLink) reopenLocked() {
	in.withheld = false
	in.l.Draining = false
	if in.pending > 0 && !in.closed {
		in.grantLocked(in.pending)
	}
	in.pending = 0
}

// linkKind is what a link to another router is for.
type linkKind uint8

const (
	linkEndpoint linkKind = iota
	linkControl
	linkData
	linkStream
)

// String is the link's type as management shows it (RT 6.1).
func (k linkKind) String() string {
	switch k {
	case linkEndpoint:
		return "endpoint"
	case linkControl:
		return "router-control"
	}
	return "inter-router"
}

// unload takes one delivery off what is under way on the link, once for each.
func (out *outLink) unload(ref copyRef) {
	out.load.Add(-1)
	ref.untrack()
}

// untrack takes a copy off the count of what is unsettled on its way to a router (RT F25).
func (r copyRef) untrack() {
	if r.d == nil {
		return
	}
	if st := r.state(); st.track != nil {
		st.track.Add(-1)
		st.track = nil
	}
}

func (in *inLink) grantLocked(n uint32) {
	in.l.Grant(n)
	in.zeroAt, in.blocked = 0, false
}

// usedLocked notes since when the sender is without credit, if it is.
func (in *inLink) usedLocked(now int64) {
	if in.zeroAt == 0 && in.l.CreditOut() == 0 {
		in.zeroAt = now
	}
}

// creditLocked returns n credit to the sender, or keeps it while nobody wants its messages.
func (in *inLink) creditLocked(n uint32) {
	switch {
	case in.closed || in.router || in.pair != nil: // RT L26
	case in.withheld:
		in.pending += n
	default:
		in.grantLocked(n)
	}
}

// replenishLocked gives a router its credit back for one delivery that has come (RT E46). On data
// links it does so for a quarter of the credit at a time: a flow wakes the other router, and it is
// far from needing it.
func (in *inLink) replenishLocked() {
	in.owed++
	if in.closed || in.kind != linkControl && in.owed < in.conn.routerCapacity/4 {
		return
	}
	in.l.Grant(in.owed)
	in.owed = 0
}

// withholdLocked handles n credit of deliveries that found no path on a targeted link: the
// sender is drained and the credit kept until somebody wants the address (RT E47). A peer that
// ended a session for it is not drained again. The address is looked at again under the lock,
// because the core makes it reachable before it takes the lock to reopen the link.
func (in *inLink) withholdLocked(n uint32) {
	if a := in.addr.Load(); in.closed || a == nil || a.reachable() || !in.fallback && a.deliverable() {
		in.creditLocked(n)
		return
	}
	in.pending += n
	if !in.withheld {
		in.withheld = true
		if in.conn.undrained { // what it has is used up by what it sends again
			return
		}
		in.l.Draining = true
		in.l.FlowDue()
	}
}

// outLink is a link on which we send.
type outLink struct {
	id       uint64
	conn     *Conn
	sess     *session
	l        *amqp.Link
	capacity int32
	near     *neighbour // set on links to another router; addr is nil there
	own      *Link      // set when the router attached it for an owner
	kind     linkKind
	priority uint32
	fallback bool  // to a fallback destination (RT F45)
	settles  bool  // the receiver asked for settled deliveries (RT F75)
	pair     *pair // set on a routed link, before it is up
	source   string
	target   string // for log lines
	attached uint32

	// load counts undelivered and unsettled deliveries; it is reserved when the link is chosen
	// and given back once.
	load   atomic.Int32
	credit atomic.Int32 // a copy of the link credit, for the choice

	// Guarded by conn.mu.
	addr    *address
	counts  linkCounts
	queue   queue
	closed  bool
	drained bool  // the peer's latest drain has been answered
	waiting bool  // in Conn.waiting
	stalled bool  // without credit for long: overload drops (RT F93) instead of holding credit
	owing   bool  // in Conn.owing
	zeroAt  int64 // since when there is no credit, in nanoseconds; 0 = there is some
	blocked bool
	up      bool

	// Of a routed link, guarded by conn.mu too.
	passed amqp.Serial  // the delivery-count up to which the sender has been given credit
	drains uint32       // credit that the sender has drained, to be taken when the queue is empty
	held   int          // octets in the queue
	excess int          // those of them that count against the sender's session
	ending *amqp.Detach // to be sent when the queue is empty

	// Owned by the core.
	bound   bool
	removed bool
}

// usedLocked notes since when there is no credit, if there is none.
func (out *outLink) usedLocked(now int64) {
	if out.zeroAt == 0 && out.l.Credit() == 0 {
		out.zeroAt = now
	}
}

// drainedLocked gives back what credit is left, as the peer's drain asks; when there is none it
// is told all the same (RT E50).
func (out *outLink) drainedLocked(now int64) {
	out.l.Drained()
	out.drained = true
	out.credit.Store(0)
	out.usedLocked(now)
}

// queue is a FIFO of items in a ring.
type queue struct {
	ring []item
	head int
	n    int
}

func (q *queue) len() int { return q.n }

func (q *queue) at(i int) *item { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) push(it item) {
	if q.n == len(q.ring) {
		ring := make([]item, max(4, 2*len(q.ring)))
		for i := range q.n {
			ring[i] = *q.at(i)
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = it
	q.n++
}

func (q *queue) pop() {
	q.ring[q.head] = item{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	if q.n == 0 && len(q.ring) > 1024 {
		q.ring, q.head = nil, 0
	}
}

// remove takes the i-th item out.
func (q *queue) remove(i int) {
	for ; i+1 < q.n; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	*q.at(q.n - 1) = item{}
	q.n--
}
