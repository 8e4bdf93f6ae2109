// Package transport is the sockets of connections: the exchange of protocol headers and SASL,
// then the reader that feeds a router.Conn and the writes it asks for.
//
// On TCP the reader stays within one raw read for the life of the connection: it reads into a
// pooled buffer, processes it in place and gives it back when the socket is empty, so that an
// idle connection holds no buffer. Writes are tried once without blocking by whoever has
// something to write; only what the socket does not take goes to a writer goroutine, which the
// router starts. Other kinds of net.Conn take the plain road: blocking reads, and every write
// by a writer goroutine.
package transport
