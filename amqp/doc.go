// Package amqp is AMQP 1.0 for either end of a connection: the type system and
// its wire encoding, the performatives, the SASL frames, the sections of a
// message, and the engine that decides what connections, sessions, links and
// deliveries do. Nothing in it has a socket, a clock, a goroutine or a lock.
//
// # The codec
//
// A frame is laid out as
//
//	 0        4      5      6         8          4*doff             size
//	+--------+------+------+---------+----------+------------------+
//	|  size  | doff | type | channel | extended | body             |
//	+--------+------+------+---------+----------+------------------+
//
// (AMQP 1.0 part 2 §2.3.1) and its body is one performative, behind which a
// transfer carries its payload. Encoders append to a slice and return it.
// Decoders take octets and return the value, how many octets it took, and an
// error; the error is always an [*Error] that can be sent to the peer as it is,
// except [ErrNeedMore]. A Decode method that fails leaves its receiver in no
// particular state.
//
// What a decoder returns shares memory with its input where the type is []byte
// or [Raw]; it is valid as long as the input is left alone. Strings and symbols
// are copies, and so is everything [DecodeValue], [Raw.Value] and
// [DecodeMessage] return.
//
// A Raw holds the encoding of one value that nobody needed to look into. Every
// Raw a decoder hands out has been checked in structure: all lengths and counts
// inside fit, no constructor is unknown, and nesting is at most [MaxDepth]. Its
// type has been checked too where the standard fixes one.
//
// # Limits
//
// No length or count from the peer sizes an allocation before it is compared
// with the octets at hand (CFG R40). Values nested deeper than MaxDepth are
// refused. An array whose elements take no octets (null, true, list0, ...) may
// have 16 of them, because their count is otherwise bounded by nothing. Decoding
// allocates at most a constant multiple of the length of the input.
//
// # Leniency
//
// Text is not checked to be UTF-8, nor symbols to be ASCII, nor the keys of a
// map to differ; a boolean octet other than 0 and 1 is true. The router passes
// such values on as they came.
package amqp
