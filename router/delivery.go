package router

import (
	"sync/atomic"

	"qdrouter/amqp"
)

// delivery is one unsettled delivery between the in-link it came on and the out-links that its
// copies went to. The in side holds it in session.in, each copy in a queue or in session.out;
// the side that lets go last leaves it to be used again or to the garbage collector.
type delivery struct {
	in *inLink // nil when this router made the message
	id amqp.Serial

	// Guarded by the in-link's connection.
	at        uint32 // second of arrival, on the router's clock
	arriving  bool   // not all of it is here
	decided   bool   // settled by the receivers while still arriving
	final     amqp.Raw
	senderEnd bool // settled by the sender while still arriving
	told      bool // a word of the sender may be on its way to receivers: never used again

	// One copy, or many. Each is guarded by the connection of its out-link; out itself is
	// written by the in-link's reader before the copy is posted.
	one  copyState
	many *multicast

	spare *multicast // to be used again
}

// copyState is what is known of one copy of a delivery.
type copyState struct {
	out      *outLink
	id       amqp.Serial // on the outgoing session, once started
	started  bool
	terminal bool // the receiver has decided
	state    amqp.Raw
	track    *atomic.Int64 // counts this copy while it is unsettled (RT F25)
}

// multicast is the sum over the copies of one delivery (RT F36).
type multicast struct {
	copies []copyState
	// Each starts at the number of copies, before the first of them is posted.
	undecided, unsettled atomic.Int32
	worst                atomic.Uint32 // the strongest outcome so far, by strength
}

// copyRef is a copy in session.out; the zero value is none.
type copyRef struct {
	d     *delivery
	index int32
}

func (r copyRef) state() *copyState {
	if r.d.many != nil {
		return &r.d.many.copies[r.index]
	}
	return &r.d.one
}

// Outcomes of a multicast by strength, weakest first (RT F36).
const (
	strengthNone uint32 = iota
	strengthReleased
	strengthModified
	strengthAccepted
	strengthRejected
)

var (
	stateModifiedFailed = amqp.Raw(amqp.AppendModified(nil, true, false, nil))
	statePlainRejected  = amqp.Raw(amqp.AppendRejected(nil, nil))
	strengthState       = [...]amqp.Raw{nil, amqp.StateReleased, stateModifiedFailed, amqp.StateAccepted, statePlainRejected}
)

func strengthOf(state amqp.Raw) uint32 {
	switch code, _ := amqp.StateCode(state); code {
	case amqp.CodeReleased:
		return strengthReleased
	case amqp.CodeModified:
		return strengthModified
	case amqp.CodeAccepted:
		return strengthAccepted
	case amqp.CodeRejected, amqp.CodeDeclared: // a declared state has no meaning here (RT F37)
		return strengthRejected
	}
	return strengthNone
}

// decide adds the outcome of one copy and reports whether it was the last.
func (m *multicast) decide(state amqp.Raw) bool {
	s := strengthOf(state)
	for {
		w := m.worst.Load()
		if s <= w || m.worst.CompareAndSwap(w, s) {
			return m.undecided.Add(-1) == 0
		}
	}
}

// isTerminal reports whether a state ends a delivery (AMQP 1.0 part 3 §3.4).
func isTerminal(code uint64) bool {
	return code >= amqp.CodeAccepted && code <= amqp.CodeModified
}

// relayed returns a state as it goes on to the other side (RT F72 to F74). The result shares no
// memory with the input.
func relayed(state amqp.Raw) (out amqp.Raw, code uint64) {
	if state == nil {
		return nil, 0
	}
	code, _ = amqp.StateCode(state)
	switch code {
	case amqp.CodeAccepted:
		return amqp.StateAccepted, code
	case amqp.CodeReleased:
		return amqp.StateReleased, code
	case amqp.CodeModified:
		m, err := amqp.DecodeModified(state)
		if err != nil {
			return stateModifiedFailed, code
		}
		if !m.UndeliverableHere && m.MessageAnnotations == nil {
			return stateModifiedFailed, code
		}
		return amqp.AppendModified(nil, true, m.UndeliverableHere, m.MessageAnnotations), code
	}
	return append(amqp.Raw(nil), state...), code
}

// chunk is payload that waits for an out-link.
type chunk struct {
	data []byte
	pool bool // data came from chunkPool
}

// item is one delivery in the queue of an out-link.
type item struct {
	ref     copyRef // d is nil when settled, or no longer of interest
	settled bool    // goes out settled
	format  uint32
	state   amqp.Raw
	data    []byte // what is left to send of a complete message
	tag     []byte // to be sent; nil = a new one
	stream  *stream
	started bool
	owes    *inLink // gets one credit when this leaves the queue
	at      uint32
}

// stream is one copy of a message that is forwarded while it arrives (RT 2.10). It is guarded
// by the connection of its out-link.
type stream struct {
	out     *outLink
	source  *session // whose incoming window the waiting octets count against
	chunks  []chunk
	held    int
	ended   bool // all of it is here
	aborted bool
	dead    bool // the out-link is gone: what still comes is dropped
}
