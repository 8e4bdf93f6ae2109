// Package linkroute joins containers behind a router to its network: autolinks, which carry the
// messages of an address to a container's queue and back (RT section 4), and link routes, which
// carry whole links there (RT section 3).
//
// What to do is decided by state machines without clock, goroutine or lock, tested alone. Around
// them are thin drivers that live in the router's core goroutine: they are told of connections,
// links and timers by package router and carry out what the machines answer. So everything here
// belongs to the core, but for the methods that say otherwise, which may be called from any
// goroutine but the core.
package linkroute
