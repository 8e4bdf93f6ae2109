// Package management is the $management agent: it answers the AMQP management
// requests of qdstat, qdmanage, consoles and dashboards about one router, and
// carries out the changes they ask for.
//
// # Shape
//
// A request is one message with an operation in its application properties and,
// for some operations, a map in its body (MG 2.1). [Agent.Handle] turns a
// [Request] into a [Response]; it touches no socket and sends nothing, so it can
// be tested alone. Around it the Agent takes messages from the router's
// in-process subscriptions, decodes them, calls Handle on its own goroutine and
// sends the encoded reply to the request's reply-to:
//
//	router ──▶ queue ──▶ decode ──▶ Handle ──▶ encode ──▶ router
//	           bounded              one at a time
//
// Requests are answered in the order they came, except that a page of a long
// table is encoded beside the queue, at a pace that leaves the machine to the
// messages, and may be overtaken.
//
// # Entities
//
// What the agent answers about comes in the 29 types of the schema in package
// config. For each type a [kind] says where its rows come from and what may be
// done to them. There are two families, because in Qpid Dispatch 1.19 two
// different agents stood behind the address and their replies differ (MG 3):
//
//   - stored types (listener, connector, log, …) live in the agent's own store;
//     null attributes are left out of their maps, integers are int or long;
//   - core types (connection, router.link, router.address, router.config.*, …)
//     are read from the router when asked; every column is present, in the
//     order and with the AMQP type of the schema's wire columns.
//
// # Goroutines
//
// New starts one goroutine and Close waits for it and for the encoders it
// started. Handle may be called from any goroutine: the store has a lock, held
// for one request, never while the data plane waits.
//
// Rule ids: MG is the management specification, RT the routing one, CFG the one
// of configuration and security, FC the field cases.
package management
