// Package client is the tools' side of the management protocol: it connects to
// a router, sends requests to a $management agent and waits for the replies
// (MG 2, MG 11).
//
//	Dial ──▶ Conn ── Open(address) ──▶ Agent ── Query, Read, Create … ──▶ reply
//
// A [Conn] is one AMQP connection, kept by go-amqp. An [Agent] stands for one
// agent reached over it, by a sender to its address and a dynamic receiver. Under
// an Agent lies a [Call], the one function that sends a request and waits for
// its reply: a test puts its own there and needs no router.
//
// # Values
//
// Bodies consist of nil, bool, int64, uint64, float64, string, []any and [Map].
// Integers of every width arrive as int64, or as uint64 beyond its range.
// Symbols, characters, UUIDs and binaries arrive as strings, timestamps as
// milliseconds since the epoch.
//
// A Map of a reply has its entries in the order in which the router sent them,
// because the tools print them so. go-amqp decodes maps into Go maps, which
// forget the order, and would make a value of every cell of a long table;
// therefore the messages are taken from the connection before it sees them and
// decoded, as far as they are looked at, by package amqp. Maps in requests go
// through go-amqp and arrive in no particular order; no rule of the protocol
// depends on it.
//
// # Errors
//
// Every error has a class, the word the old tools print before its text: see
// [Class]. Waiting is limited step by step (connect and open, attach, send, wait
// for the reply), each to Options.Timeout, and also by the context given.
//
// A Conn and its Agents are for one goroutine.
package client
