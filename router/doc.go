// Package router is the forwarding core: the address table, links, deliveries, distributions,
// credit and settlement (RT sections 1, 2 and 6).
//
// # Two planes
//
// The core, one goroutine, owns the address table, the set of links bound to addresses and the
// address configuration. Whatever changes these is an event on its queue. What it decides, it
// publishes: each address has an immutable forwarding set behind an atomic pointer.
//
// Deliveries never pass through the core. The reader of the connection they arrive on parses a
// whole read, looks up each destination in the forwarding set, groups the copies by destination
// connection and locks each of those once: what may go is encoded into that connection's output
// buffer, the rest waits in the queue of its out-link. Settlement travels back the same way, as
// ranges. Whoever filled an output buffer writes it, unless somebody is writing already; a
// writer goroutine lives only while a socket is full.
//
// # Locks
//
// A connection has one mutex for all that others may touch: output, queues, credit, the
// unsettled deliveries of both directions. At most one connection's mutex is held at a time.
// What handling one connection owes to others (settlements, credit) is noted in a batch and
// paid after the mutex is released; see batch.
package router
