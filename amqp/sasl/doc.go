// Package sasl is the SASL layer of AMQP 1.0 (part 5 §5.3) for either end: the
// order of its frames, what each end answers, and the mechanisms ANONYMOUS
// (RFC 4505) and PLAIN (RFC 4616).
//
// A Server and a Client decide one exchange each. Neither has a socket, a clock,
// a goroutine or a lock: after both 8-octet SASL headers have crossed, the owner
// of the connection hands over the body of each SASL frame (the octets after the
// frame header, of a frame whose type was 1) and writes the complete frames that
// are appended to its buffer.
//
//	client                                server
//	             <- sasl-mechanisms       Server.Start
//	sasl-init ->                          Server.Frame
//	             <- sasl-challenge        as often as the mechanism needs
//	sasl-response ->
//	             <- sasl-outcome
//
// Errors are *amqp.Error. Condition amqp:unauthorized-access means that the
// exchange ended by the rules and authentication failed: what was appended (the
// outcome, CFG M3) is written, then the connection is cut. Any other condition
// means that the peer broke the rules: nothing was appended and the connection
// is cut at once (CFG M18, M19). In both cases no AMQP frame is ever sent, and
// the error's condition and description are what the log line tells.
//
// Where credentials live is not this package's concern: PLAIN asks a Verifier.
package sasl
