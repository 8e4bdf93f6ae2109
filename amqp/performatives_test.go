package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// performatives are frame bodies and what they mean, encoded as we do: the most
// compact way, trailing nulls left out (AMQP 1.0 part 1 §1.4, part 2 §2.7).
var performatives = []struct {
	name, wire string
	p          Performative
}{
	{"open (2.7.1), the least", "00 53 10 c0 04 01 a1 01 63", &Open{ContainerID: "c"}},
	{"open without a name (CFG R28)", "00 53 10 c0 03 01 a1 00", &Open{}},
	{"open, all of it", `00 53 10 c0 2d 0a a1 01 63 a1 01 68 70 00 00 40 00 60 7f ff 70 00 00 1f 40
		a3 02 65 6e 40 e0 06 02 a3 01 61 01 62 a3 01 64 c1 07 02 a3 01 70 a1 01 76`,
		&Open{ContainerID: "c", Hostname: Some("h"), MaxFrameSize: Some[uint32](16384), ChannelMax: Some[uint16](32767),
			IdleTimeout: Some[uint32](8000), OutgoingLocales: wire("a3 02 65 6e"), OfferedCapabilities: wire("e0 06 02 a3 01 61 01 62"),
			DesiredCapabilities: wire("a3 01 64"), Properties: wire("c1 07 02 a3 01 70 a1 01 76")}},
	{"begin (2.7.2)", "00 53 11 c0 0d 04 40 43 70 7f ff ff ff 70 7f ff ff ff",
		&Begin{IncomingWindow: 2147483647, OutgoingWindow: 2147483647}},
	{"begin, all but locales", "00 53 11 c0 11 08 60 00 05 52 01 52 0a 52 14 52 ff 40 40 c1 01 00",
		&Begin{RemoteChannel: Some[uint16](5), NextOutgoingID: 1, IncomingWindow: 10, OutgoingWindow: 20, HandleMax: Some[uint32](255), Properties: wire("c1 01 00")}},
	{"attach (2.7.3) of a receiver", "00 53 12 c0 11 06 a1 01 6c 43 41 40 40 00 53 28 c0 04 01 a1 01 71",
		&Attach{Name: "l", Role: RoleReceiver, Source: &Source{Address: Some("q")}}},
	{"attach of a sender", "00 53 12 c0 1b 0a a1 01 6c 52 01 42 50 02 50 00 00 53 28 45 00 53 29 c0 04 01 a1 01 71 40 40 43",
		&Attach{Name: "l", Handle: 1, Role: RoleSender, SndSettleMode: Some(SndSettleModeMixed), RcvSettleMode: Some(RcvSettleModeFirst),
			Source: &Source{}, Target: &Target{Address: Some("q")}, InitialDeliveryCount: Some[uint32](0)}},
	{"attach to a coordinator (part 4 §4.5.1)", "00 53 12 c0 12 07 a1 01 6c 43 42 40 40 40 00 53 30 c0 04 01 a3 01 78",
		&Attach{Name: "l", Coordinator: &Coordinator{Capabilities: wire("a3 01 78")}}},
	{"attach without termini", "00 53 12 c0 06 03 a1 01 6c 43 42", &Attach{Name: "l"}},
	{"attach, the rest of it", "00 53 12 c0 1c 0e a1 01 6c 43 42 40 40 40 40 c1 01 00 41 52 07 53 09 a3 01 61 e0 02 00 a3 c1 01 00",
		&Attach{Name: "l", Unsettled: wire("c1 01 00"), IncompleteUnsettled: true, InitialDeliveryCount: Some[uint32](7),
			MaxMessageSize: Some[uint64](9), OfferedCapabilities: wire("a3 01 61"), DesiredCapabilities: wire("e0 02 00 a3"), Properties: wire("c1 01 00")}},
	{"attach with all of a source and a target (part 3 §3.5.3, §3.5.4)", `00 53 12 c0 4c 07 a1 01 6c 43 41 40 40
		00 53 28 c0 26 0b a1 01 71 52 01 a3 05 6e 65 76 65 72 52 3c 41 c1 01 00 a3 04 63 6f 70 79 c1 01 00 00 53 26 45 a3 01 6f a3 01 63
		00 53 29 c0 14 07 a1 01 71 43 a3 05 6e 65 76 65 72 43 41 c1 01 00 a3 01 63`,
		&Attach{Name: "l", Role: RoleReceiver,
			Source: &Source{Address: Some("q"), Durable: Some[uint32](1), ExpiryPolicy: ExpiryNever, Timeout: Some[uint32](60), Dynamic: true,
				DynamicNodeProperties: wire("c1 01 00"), DistributionMode: "copy", Filter: wire("c1 01 00"), DefaultOutcome: StateReleased,
				Outcomes: wire("a3 01 6f"), Capabilities: wire("a3 01 63")},
			Target: &Target{Address: Some("q"), Durable: Some[uint32](0), ExpiryPolicy: ExpiryNever, Timeout: Some[uint32](0), Dynamic: true,
				DynamicNodeProperties: wire("c1 01 00"), Capabilities: wire("a3 01 63")}}},
	{"flow (2.7.4) of a session", "00 53 13 c0 0b 04 43 52 0a 52 07 70 00 00 08 00",
		&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 10, NextOutgoingID: 7, OutgoingWindow: 2048}},
	{"flow before a begin came", "00 53 13 c0 05 04 40 43 43 43", &Flow{}},
	{"flow of a link", "00 53 13 c0 0a 07 43 43 43 43 43 52 05 52 fa",
		&Flow{NextIncomingID: Some[uint32](0), Handle: Some[uint32](0), DeliveryCount: Some[uint32](5), LinkCredit: Some[uint32](250)}},
	{"flow that drains", "00 53 13 c0 0b 09 43 43 43 43 43 43 52 01 40 41",
		&Flow{NextIncomingID: Some[uint32](0), Handle: Some[uint32](0), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](1), Drain: true}},
	{"flow with available, echo and properties", "00 53 13 c0 0e 0b 40 43 43 43 40 40 40 43 40 41 c1 01 00",
		&Flow{Available: Some[uint32](0), Echo: true, Properties: wire("c1 01 00")}},
	{"flow with echo", "00 53 13 c0 0b 0a 40 43 43 43 40 40 40 40 40 41", &Flow{Echo: true}},
	{"transfer (2.7.5)", "00 53 14 c0 09 05 43 52 01 a0 01 2a 43 41",
		&Transfer{DeliveryID: Some[uint32](1), DeliveryTag: []byte{42}, MessageFormat: Some[uint32](0), Settled: Some(true)}},
	{"transfer, the least", "00 53 14 c0 02 01 43", &Transfer{}},
	{"transfer, continued", "00 53 14 c0 08 06 52 03 40 40 40 40 41", &Transfer{Handle: 3, More: true}},
	{"transfer with an empty tag", "00 53 14 c0 05 03 43 40 a0 00", &Transfer{DeliveryTag: []byte{}}},
	{"transfer with a state", "00 53 14 c0 0c 08 43 40 40 40 42 40 40 00 53 24 45",
		&Transfer{Settled: Some(false), State: StateAccepted}},
	{"transfer, aborted", "00 53 14 c0 0b 0a 43 40 40 40 40 40 40 40 40 41", &Transfer{Aborted: true}},
	{"transfer, the rest of it", "00 53 14 c0 10 0b 43 40 40 40 40 40 50 01 00 53 24 45 41 41 41",
		&Transfer{RcvSettleMode: Some(RcvSettleModeSecond), State: StateAccepted, Resume: true, Aborted: true, Batchable: true}},
	{"transfer with a long tag", "00 53 14 d0 00 00 01 0c 00 00 00 03 52 01 43 b0 00 00 01 00 " + rep("2a", 256),
		&Transfer{Handle: 1, DeliveryID: Some[uint32](0), DeliveryTag: bytes.Repeat([]byte{42}, 256)}},
	{"disposition (2.7.6)", "00 53 15 c0 09 05 41 43 40 41 00 53 24 45",
		&Disposition{Role: RoleReceiver, Settled: true, State: StateAccepted}},
	{"disposition, the least", "00 53 15 c0 06 04 42 52 07 40 42", &Disposition{First: 7}},
	{"disposition of a range", "00 53 15 c0 0c 06 41 52 01 52 09 42 00 53 26 45 41",
		&Disposition{Role: RoleReceiver, First: 1, Last: Some[uint32](9), State: StateReleased, Batchable: true}},
	{"detach (2.7.7)", "00 53 16 c0 02 01 43", &Detach{}},
	{"detach with an error (2.8.14)", "00 53 16 c0 10 03 52 01 41 00 53 1d c0 07 02 a3 01 65 a1 01 64",
		&Detach{Handle: 1, Closed: true, Error: &Error{Condition: "e", Description: "d"}}},
	{"end (2.7.8)", "00 53 17 45", &End{}},
	{"end with an error", "00 53 17 c0 10 01 00 53 1d c0 0a 03 a3 01 65 40 c1 03 02 40 40",
		&End{Error: &Error{Condition: "e", Info: wire("c1 03 02 40 40")}}},
	{"close (2.7.9)", "00 53 18 45", &Close{}},
	{"close with an error", "00 53 18 c0 0a 01 00 53 1d c0 04 01 a3 01 65", &Close{Error: &Error{Condition: "e"}}},
}

// saslBodies are the same for SASL frames (part 5 §5.3.3).
var saslBodies = []struct {
	name, wire string
	p          Performative
}{
	{"mechanisms (5.3.3.1)", "00 53 40 c0 09 01 e0 06 02 a3 01 61 01 62", &SASLMechanisms{Mechanisms: []Symbol{"a", "b"}}},
	{"no mechanisms", "00 53 40 c0 05 01 e0 02 00 a3", &SASLMechanisms{Mechanisms: []Symbol{}}},
	{"init (5.3.3.2), the least", "00 53 41 c0 0c 01 a3 09 41 4e 4f 4e 59 4d 4f 55 53", &SASLInit{Mechanism: "ANONYMOUS"}},
	{"init, all of it", "00 53 41 c0 11 03 a3 05 50 4c 41 49 4e a0 04 00 61 00 62 a1 01 68",
		&SASLInit{Mechanism: "PLAIN", InitialResponse: Some([]byte("\x00a\x00b")), Hostname: Some("h")}},
	{"init with an empty response", "00 53 41 c0 06 02 a3 01 4d a0 00", &SASLInit{Mechanism: "M", InitialResponse: Some([]byte{})}},
	{"challenge (5.3.3.3)", "00 53 42 c0 04 01 a0 01 3f", &SASLChallenge{Challenge: []byte("?")}},
	{"response (5.3.3.4)", "00 53 43 c0 03 01 a0 00", &SASLResponse{Response: []byte{}}},
	{"outcome (5.3.3.5)", "00 53 44 c0 03 01 50 00", &SASLOutcome{}},
	{"outcome with data", "00 53 44 c0 06 02 50 01 a0 01 21", &SASLOutcome{Code: SASLCodeAuth, AdditionalData: []byte("!")}},
}

func TestPerformatives(t *testing.T) {
	for _, tt := range performatives {
		testBody(t, tt.name, wire(tt.wire), tt.p, DecodePerformative)
	}
	for _, tt := range saslBodies {
		testBody(t, tt.name, wire(tt.wire), tt.p, DecodeSASL)
	}
}

// testBody checks that b decodes to p and p encodes to b, that b cut anywhere
// does not decode, and that other encodings of the descriptor and of the list
// decode to the same.
func testBody(t *testing.T, name string, b []byte, p Performative, decode func([]byte) (Performative, int, error)) {
	t.Run(name, func(t *testing.T) {
		if got := p.Append([]byte("kept")); string(got) != "kept"+string(b) {
			t.Errorf("%+v encodes as %x, want %x", p, got[4:], b)
		}
		got, n, err := decode(append(b[:len(b):len(b)], "payload"...))
		if err != nil || n != len(b) || !reflect.DeepEqual(got, p) {
			t.Fatalf("%x decodes to %+v, %d, %v, want %+v, %d", b, got, n, err, p, len(b))
		}
		for i := range b {
			if got, _, err := decode(b[:i:i]); err == nil {
				t.Errorf("%x, cut short, decodes to %+v", b[:i], got)
			} else if e := (*Error)(nil); !errors.As(err, &e) || e.Condition != ErrCondDecodeError {
				t.Errorf("%x, cut short: %v, want %s", b[:i], err, ErrCondDecodeError)
			}
		}
		for _, other := range otherEncodings(b) {
			if got, n, err := decode(other); err != nil || n != len(other) || !reflect.DeepEqual(got, p) {
				t.Errorf("%x decodes to %+v, %d, %v, want %+v, %d", other, got, n, err, p, len(other))
			}
		}
	})
}

// otherEncodings returns legal encodings of the described list b, whose
// descriptor is a smallulong, that are not the most compact ones.
func otherEncodings(b []byte) [][]byte {
	list := b[3:]
	it, _ := IterList(list)
	count := it.Len()
	elements := it.rest
	wide := append(appendList32Header(nil, len(elements), count), elements...)
	trailing := append(appendList32Header(nil, len(elements)+1, count+1), elements...)
	trailing = append(trailing, codeNull)
	var others [][]byte
	for _, descriptor := range [][]byte{
		b[:3],
		{0, codeUlong, 0, 0, 0, 0, 0, 0, 0, b[2]},
		AppendSymbol([]byte{0}, names[b[2]]),
		append([]byte{0, codeSym32, 0, 0, 0, byte(len(names[b[2]]))}, names[b[2]]...),
	} {
		others = append(others, append(bytes.Clone(descriptor), list...), append(bytes.Clone(descriptor), wide...))
		if count < fieldCounts[b[2]] {
			others = append(others, append(bytes.Clone(descriptor), trailing...))
		}
	}
	return others
}

// appendList32Header appends the constructor, size and count of a list32.
func appendList32Header(b []byte, elements, count int) []byte {
	elements += 4
	return append(b, codeList32, byte(elements>>24), byte(elements>>16), byte(elements>>8), byte(elements),
		byte(count>>24), byte(count>>16), byte(count>>8), byte(count))
}

// names are the symbolic descriptors.
var names = map[byte]Symbol{
	CodeOpen: "amqp:open:list", CodeBegin: "amqp:begin:list", CodeAttach: "amqp:attach:list", CodeFlow: "amqp:flow:list",
	CodeTransfer: "amqp:transfer:list", CodeDisposition: "amqp:disposition:list", CodeDetach: "amqp:detach:list",
	CodeEnd: "amqp:end:list", CodeClose: "amqp:close:list",
	CodeSASLMechanisms: "amqp:sasl-mechanisms:list", CodeSASLInit: "amqp:sasl-init:list", CodeSASLChallenge: "amqp:sasl-challenge:list",
	CodeSASLResponse: "amqp:sasl-response:list", CodeSASLOutcome: "amqp:sasl-outcome:list",
}

// fieldCounts is how many fields the standard defines.
var fieldCounts = map[byte]int{
	CodeOpen: 10, CodeBegin: 8, CodeAttach: 14, CodeFlow: 11, CodeTransfer: 11, CodeDisposition: 6, CodeDetach: 3, CodeEnd: 1, CodeClose: 1,
	CodeSASLMechanisms: 1, CodeSASLInit: 3, CodeSASLChallenge: 1, CodeSASLResponse: 1, CodeSASLOutcome: 2,
}

// mandatory has the fields that must be there, counted from 0. The container-id
// of an open is not among them (CFG R28).
var mandatory = map[byte][]int{
	CodeBegin: {1, 2, 3}, CodeAttach: {0, 1, 2}, CodeFlow: {1, 2, 3}, CodeTransfer: {0}, CodeDisposition: {0, 1}, CodeDetach: {0},
	CodeSASLMechanisms: {0}, CodeSASLInit: {0}, CodeSASLChallenge: {0}, CodeSASLResponse: {0}, CodeSASLOutcome: {0},
}

// TestFieldsAreChecked: a field of the wrong type, a mandatory field that is
// missing, and a field too many are a decode error (CFG R26, R28), in each field
// of each performative.
func TestFieldsAreChecked(t *testing.T) {
	all := append(performatives[:len(performatives):len(performatives)], saslBodies...)
	tried := make(map[byte]bool)
	for _, tt := range all {
		b := wire(tt.wire)
		code := b[2]
		decode := DecodePerformative
		if code >= CodeSASLMechanisms {
			decode = DecodeSASL
		}
		refused := func(what string, field int, fields []Raw) {
			t.Helper()
			p, mark := BeginCompound([]byte{codeDescribed, codeSmallUlong, code})
			for _, f := range fields {
				p = append(p, f...)
			}
			p = EndList(p, mark, len(fields))
			got, _, err := decode(p)
			if e := (*Error)(nil); !errors.As(err, &e) || e.Condition != ErrCondDecodeError {
				t.Errorf("%s with %s %d: %x decodes to %+v, %v, want %s", tt.name, what, field, p, got, err, ErrCondDecodeError)
			}
		}
		it, _ := IterList(b[3:])
		var fields []Raw
		for f, ok := it.Next(); ok; f, ok = it.Next() {
			fields = append(fields, f)
		}
		for len(fields) < fieldCounts[code] {
			fields = append(fields, Raw{codeNull})
		}
		refused("too many fields", len(fields)+1, append(fields[:len(fields):len(fields)], Raw{codeNull}))
		for i := range fields {
			was := fields[i]
			fields[i] = wire("73 00 00 00 41") // nothing in AMQP is a char
			refused("a char as field", i, fields)
			fields[i] = wire("00 53 99 45") // nor of this type
			if code != CodeTransfer && code != CodeDisposition && code != CodeAttach {
				refused("a described list as field", i, fields)
			}
			fields[i] = was
		}
		for _, i := range mandatory[code] {
			was := fields[i]
			fields[i] = Raw{codeNull}
			refused("null for mandatory field", i, fields)
			refused("nothing from mandatory field", i, fields[:i])
			fields[i] = was
		}
		tried[code] = true
	}
	if len(tried) != len(fieldCounts) {
		t.Errorf("%d performatives tried, want %d", len(tried), len(fieldCounts))
	}
}

// TestFramesThatAreNone: what is no performative at all (CFG R12, FC U03).
func TestFramesThatAreNone(t *testing.T) {
	tests := []struct {
		name, wire string
		want       Symbol
	}{
		{"nothing", "", ErrCondDecodeError},
		{"a string", "a1 01 61", ErrCondDecodeError},
		{"a list", "c0 02 01 43", ErrCondDecodeError},
		{"descriptor 0x99", "00 53 99 45", ErrCondNotImplemented},
		{"descriptor 0", "00 44 45", ErrCondNotImplemented},
		{"descriptor of another domain", "00 80 00 00 00 01 00 00 00 10 45", ErrCondNotImplemented},
		{"a descriptor without meaning", "00 a3 01 61 45", ErrCondNotImplemented},
		{"a descriptor that is a string", "00 a1 0e 61 6d 71 70 3a 6f 70 65 6e 3a 6c 69 73 74 45", ErrCondNotImplemented},
		{"a section of a message", "00 53 75 a0 00", ErrCondNotImplemented},
		{"a descriptor cut short", "00 a3 05 61", ErrCondDecodeError},
		{"an open that is a map", "00 53 10 c1 01 00", ErrCondDecodeError},
		{"an open that is null", "00 53 10 40", ErrCondDecodeError},
		{"a transfer that is an array", "00 53 14 e0 03 01 52 01", ErrCondDecodeError},
		{"a count of 2^31", "00 53 10 d0 00 00 00 05 80 00 00 00 40", ErrCondDecodeError},
		{"a count of 2^31 in a transfer", "00 53 14 d0 00 00 00 05 80 00 00 00 43", ErrCondDecodeError},
		{"a size of 2^32-1 in a transfer", "00 53 14 d0 ff ff ff ff 00 00 00 01 43", ErrCondDecodeError},
		{"a size without a count in a transfer", "00 53 14 d0 00 00 00 03 00 00 00 01 43", ErrCondDecodeError},
		{"properties with an array of 2^31", "00 53 10 c0 19 0a a1 00 40 40 40 40 40 40 40 40 c1 0c 02 40 f0 00 00 00 05 80 00 00 00 40", ErrCondDecodeError},
		{"a transfer with octets behind its fields", "00 53 14 c0 03 01 43 43", ErrCondDecodeError},
		{"a source of a type nobody knows", "00 53 12 c0 0c 06 a1 01 6c 43 41 40 40 00 53 99 45", ErrCondNotImplemented},
		{"a target of a type nobody knows", "00 53 12 c0 0d 07 a1 01 6c 43 42 40 40 40 00 53 99 45", ErrCondNotImplemented},
		{"a target where the source belongs", "00 53 12 c0 0c 06 a1 01 6c 43 41 40 40 00 53 29 45", ErrCondNotImplemented},
		{"a target that is a string", "00 53 12 c0 0c 07 a1 01 6c 43 42 40 40 40 a1 01 71", ErrCondDecodeError},
		{"an error that is a string", "00 53 18 c0 04 01 a1 01 71", ErrCondDecodeError},
		{"an error without a condition", "00 53 18 c0 05 01 00 53 1d 45", ErrCondDecodeError},
		{"a state that is a string", "00 53 15 c0 08 05 41 43 40 41 a1 01 71", ErrCondDecodeError},
	}
	for _, tt := range tests {
		b := wire(tt.wire)
		got, n, err := DecodePerformative(b)
		if e := (*Error)(nil); !errors.As(err, &e) || e.Condition != tt.want || got != nil || n != 0 {
			t.Errorf("%s: %x decodes to %+v, %d, %v, want %s", tt.name, b, got, n, err, tt.want)
		}
		if n := allocated(func() { _, _, _ = DecodePerformative(b) }); n > 4<<10 {
			t.Errorf("%s: %d octets allocated", tt.name, n)
		}
	}
	for _, b := range []string{"00 53 10 45", "00 53 99 45", "40"} {
		if got, _, err := DecodeSASL(wire(b)); err == nil {
			t.Errorf("SASL frame with %s decodes to %+v", b, got)
		}
	}
}

// TestDeepProperties: maps nested 10,000 deep (FC U03).
func TestDeepProperties(t *testing.T) {
	for _, depth := range []int{MaxDepth - 2, MaxDepth - 1, 10000} {
		o := Open{Properties: nested(depth, inMap)}
		_, _, err := DecodePerformative(o.Append(nil))
		if ok := depth <= MaxDepth-2; ok != (err == nil) {
			t.Errorf("properties nested %d deep: %v", depth, err)
		}
	}
	// By both ways to decode a disposition.
	for _, depth := range []int{MaxDepth - 2, MaxDepth - 1, 10000} {
		d := Disposition{State: nested(depth, inDescribed)}
		_, _, err := DecodePerformative(d.Append(nil))
		if ok := depth <= MaxDepth-2; ok != (err == nil) {
			t.Errorf("state nested %d deep: %v", depth, err)
		}
	}
}

// TestOtherEncodingsOfFields: each field may be encoded in any way its type has.
func TestOtherEncodingsOfFields(t *testing.T) {
	tests := []struct {
		wire string
		want Performative
	}{
		{"00 53 12 c0 0e 03 b1 00 00 00 01 6c 70 00 00 00 07 56 01",
			&Attach{Name: "l", Handle: 7, Role: RoleReceiver}},
		{"00 53 14 c0 17 06 70 00 00 00 01 70 00 00 00 02 b0 00 00 00 01 2a 52 00 56 00 56 01",
			&Transfer{Handle: 1, DeliveryID: Some[uint32](2), DeliveryTag: []byte{42}, MessageFormat: Some[uint32](0), Settled: Some(false), More: true}},
		{"00 53 14 c0 0d 0b 43 40 40 40 40 42 40 40 42 56 00 40", &Transfer{}},
		{"00 53 15 c0 12 06 56 01 70 00 00 00 01 40 56 01 00 53 24 c0 01 00 42", &Disposition{Role: RoleReceiver, First: 1, Settled: true, State: wire("00 53 24 c0 01 00")}},
		{"00 53 15 c0 1b 05 41 43 40 41 00 a3 12 61 6d 71 70 3a 61 63 63 65 70 74 65 64 3a 6c 69 73 74 45",
			&Disposition{Role: RoleReceiver, Settled: true, State: AppendValue(nil, Described{Symbol("amqp:accepted:list"), List{}})}},
		{"00 53 13 c0 0d 0a 40 43 43 43 40 40 40 40 56 00 56 01", &Flow{Echo: true}},
		{"00 53 11 c0 0a 05 40 43 43 43 70 00 00 00 01", &Begin{HandleMax: Some[uint32](1)}},
		{"00 53 10 c0 03 02 40 40", &Open{}},
		{"00 53 10 45", &Open{}},
	}
	for _, tt := range tests {
		b := wire(tt.wire)
		if got, n, err := DecodePerformative(b); err != nil || n != len(b) || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%x decodes to %+v, %d, %v, want %+v", b, got, n, err, tt.want)
		}
	}
	// One mechanism may come without an array (part 1 §1.4).
	b := wire("00 53 40 c0 04 01 a3 01 61")
	if got, _, err := DecodeSASL(b); err != nil || !reflect.DeepEqual(got, &SASLMechanisms{Mechanisms: []Symbol{"a"}}) {
		t.Errorf("%x decodes to %+v, %v", b, got, err)
	}
}

func TestPerformativeCode(t *testing.T) {
	for code, name := range names {
		for _, b := range [][]byte{
			{0, codeSmallUlong, code, codeList0},
			{0, codeUlong, 0, 0, 0, 0, 0, 0, 0, code, codeList0},
			append(AppendSymbol([]byte{0}, name), codeList0),
		} {
			if got, ok := PerformativeCode(b); got != uint64(code) || !ok {
				t.Errorf("PerformativeCode(%x) = %#x, %t, want %#x", b, got, ok, code)
			}
		}
	}
	for _, none := range []string{"", "00", "00 53", "45", "00 a3 01 61 45", "00 a1 00 45", "00 a3 05 61"} {
		if got, ok := PerformativeCode(wire(none)); ok {
			t.Errorf("PerformativeCode(%s) = %#x", none, got)
		}
	}
}

// TestDescriptorNames: the names of all composites and sections (AMQP 1.0 part 2
// §2.7, §2.8, part 3 §3.2, §3.4, §3.5, part 4 §4.5, part 5 §5.3.3).
func TestDescriptorNames(t *testing.T) {
	for name, want := range map[string]uint64{
		"amqp:open:list": 0x10, "amqp:begin:list": 0x11, "amqp:attach:list": 0x12, "amqp:flow:list": 0x13, "amqp:transfer:list": 0x14,
		"amqp:disposition:list": 0x15, "amqp:detach:list": 0x16, "amqp:end:list": 0x17, "amqp:close:list": 0x18, "amqp:error:list": 0x1d,
		"amqp:received:list": 0x23, "amqp:accepted:list": 0x24, "amqp:rejected:list": 0x25, "amqp:released:list": 0x26, "amqp:modified:list": 0x27,
		"amqp:source:list": 0x28, "amqp:target:list": 0x29, "amqp:delete-on-close:list": 0x2b, "amqp:delete-on-no-links:list": 0x2c,
		"amqp:delete-on-no-messages:list": 0x2d, "amqp:delete-on-no-links-or-messages:list": 0x2e,
		"amqp:coordinator:list": 0x30, "amqp:declare:list": 0x31, "amqp:discharge:list": 0x32, "amqp:declared:list": 0x33, "amqp:transactional-state:list": 0x34,
		"amqp:sasl-mechanisms:list": 0x40, "amqp:sasl-init:list": 0x41, "amqp:sasl-challenge:list": 0x42, "amqp:sasl-response:list": 0x43, "amqp:sasl-outcome:list": 0x44,
		"amqp:header:list": 0x70, "amqp:delivery-annotations:map": 0x71, "amqp:message-annotations:map": 0x72, "amqp:properties:list": 0x73,
		"amqp:application-properties:map": 0x74, "amqp:data:binary": 0x75, "amqp:amqp-sequence:list": 0x76, "amqp:amqp-value:*": 0x77, "amqp:footer:map": 0x78,
	} {
		if got := symbolCode([]byte(name)); got != want {
			t.Errorf("%s = %#x, want %#x", name, got, want)
		}
	}
	if got := symbolCode([]byte("amqp:open:map")); got != codeUnknown {
		t.Errorf("amqp:open:map = %#x", got)
	}
}

func TestDeliveryStates(t *testing.T) {
	e := &Error{Condition: "c", Description: "d"}
	rejected := Raw(AppendRejected(nil, e))
	if want := wire("00 53 25 c0 0d 01 00 53 1d c0 07 02 a3 01 63 a1 01 64"); !bytes.Equal(rejected, want) {
		t.Errorf("rejected = %x, want %x", rejected, want)
	}
	if got, err := DecodeRejected(rejected); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("DecodeRejected = %+v, %v", got, err)
	}
	if got := AppendRejected(nil, nil); !bytes.Equal(got, wire("00 53 25 45")) {
		t.Errorf("rejected without an error = %x", got)
	}
	if got, err := DecodeRejected(wire("00 53 25 45")); got != nil || err != nil {
		t.Errorf("DecodeRejected without an error = %v, %v", got, err)
	}
	modified := Raw(AppendModified(nil, true, false, nil))
	if want := wire("00 53 27 c0 02 01 41"); !bytes.Equal(modified, want) {
		t.Errorf("modified = %x, want %x", modified, want)
	}
	if got, err := DecodeModified(AppendModified(nil, false, true, wire("c1 01 00"))); err != nil ||
		!reflect.DeepEqual(got, Modified{UndeliverableHere: true, MessageAnnotations: wire("c1 01 00")}) {
		t.Errorf("DecodeModified = %+v, %v", got, err)
	}
	received := Received{SectionNumber: 1, SectionOffset: 1 << 40}
	if got, err := DecodeReceived(AppendReceived(nil, received)); err != nil || got != received {
		t.Errorf("DecodeReceived = %+v, %v", got, err)
	}
	for _, bad := range []Raw{nil, {0x40}, StateAccepted} {
		if _, err := DecodeRejected(bad); err == nil {
			t.Errorf("DecodeRejected(%x) succeeds", bad)
		}
		if _, err := DecodeModified(bad); err == nil {
			t.Errorf("DecodeModified(%x) succeeds", bad)
		}
		if _, err := DecodeReceived(bad); err == nil {
			t.Errorf("DecodeReceived(%x) succeeds", bad)
		}
	}
	for state, want := range map[string]uint64{
		string(StateAccepted): CodeAccepted, string(StateReleased): CodeReleased, string(rejected): CodeRejected, string(modified): CodeModified,
		"\x00\xa3\x12amqp:accepted:list\x45": CodeAccepted,
	} {
		if got, ok := StateCode(Raw(state)); got != want || !ok {
			t.Errorf("StateCode(%x) = %#x, %t, want %#x", state, got, ok, want)
		}
	}
	if _, ok := StateCode(nil); ok {
		t.Error("an absent state has a code")
	}
}

func TestErrorText(t *testing.T) {
	if got := (&Error{Condition: "c", Description: "d"}).Error(); got != "c: d" {
		t.Errorf("got %q", got)
	}
	if got := (&Error{Condition: "c"}).Error(); got != "c" {
		t.Errorf("got %q", got)
	}
}

// Generators of performatives whose fields are as often absent as not.

func optOf[T any](g *rapid.Generator[T]) *rapid.Generator[Opt[T]] {
	return rapid.OneOf(rapid.Just(Opt[T]{}), rapid.Map(g, Some[T]))
}

func rawOf(values ...Raw) *rapid.Generator[Raw] {
	return rapid.SampledFrom(append(values, nil))
}

var (
	anyUint = rapid.OneOf(rapid.Just[uint32](0), rapid.Uint32Range(0, 300), rapid.Uint32())
	anyTag  = rapid.Custom(func(t *rapid.T) []byte {
		n := rapid.SampledFrom([]int{-1, 0, 1, 8, 32, 190, 201, 255, 256, 400}).Draw(t, "tag length")
		if n < 0 {
			return nil
		}
		return bytes.Repeat([]byte{42}, n)
	})
	anyState = rawOf(StateAccepted, StateReleased, AppendRejected(nil, &Error{Condition: "c", Description: string(bytes.Repeat([]byte{42}, 240))}),
		AppendModified(nil, true, true, nil), wire("00 53 24 c0 01 00"), wire("00 a3 01 61 40"))
	anyTransfer = rapid.Custom(func(t *rapid.T) *Transfer {
		return &Transfer{anyUint.Draw(t, "handle"), optOf(anyUint).Draw(t, "id"), anyTag.Draw(t, "tag"), optOf(anyUint).Draw(t, "format"),
			optOf(rapid.Bool()).Draw(t, "settled"), rapid.Bool().Draw(t, "more"), optOf(rapid.Uint8()).Draw(t, "mode"), anyState.Draw(t, "state"),
			rapid.Bool().Draw(t, "resume"), rapid.Bool().Draw(t, "aborted"), rapid.Bool().Draw(t, "batchable")}
	})
	anyDisposition = rapid.Custom(func(t *rapid.T) *Disposition {
		return &Disposition{Role(rapid.Bool().Draw(t, "role")), anyUint.Draw(t, "first"), optOf(anyUint).Draw(t, "last"),
			rapid.Bool().Draw(t, "settled"), anyState.Draw(t, "state"), rapid.Bool().Draw(t, "batchable")}
	})
	anyFlow = rapid.Custom(func(t *rapid.T) *Flow {
		return &Flow{optOf(anyUint).Draw(t, "next in"), anyUint.Draw(t, "in"), anyUint.Draw(t, "next out"), anyUint.Draw(t, "out"),
			optOf(anyUint).Draw(t, "handle"), optOf(anyUint).Draw(t, "count"), optOf(anyUint).Draw(t, "credit"), optOf(anyUint).Draw(t, "available"),
			rapid.Bool().Draw(t, "drain"), rapid.Bool().Draw(t, "echo"), rawOf(wire("c1 01 00"), AppendValue(nil, Map{{"k", make([]byte, 300)}})).Draw(t, "properties")}
	})
)

// TestHotPathsAreThePlainOnes: the hand-written encoders and decoders do what
// the general ones do.
func TestHotPathsAreThePlainOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTransfer.Draw(t, "transfer")
		b := tr.Append(nil)
		if want := tr.appendLong(nil); !bytes.Equal(b, want) {
			t.Fatalf("%+v encodes as %x, want %x", tr, b, want)
		}
		if len(b) > tr.MaxSize() {
			t.Fatalf("%+v takes %d octets, MaxSize %d", tr, len(b), tr.MaxSize())
		}
		var plain, hot Transfer
		if n, err := plain.decodeAny(b); n != len(b) || err != nil || !reflect.DeepEqual(&plain, tr) {
			t.Fatalf("%x decodes to %+v, %v, want %+v", b, plain, err, tr)
		}
		if n := hot.decodeHot(b); n != 0 && (n != len(b) || !reflect.DeepEqual(hot, plain)) || n == 0 && len(tr.DeliveryTag) < 256 {
			t.Fatalf("%x decodes to %+v, %d, want %+v, %d", b, hot, n, plain, len(b))
		}

		d := anyDisposition.Draw(t, "disposition")
		b = d.Append(nil)
		if want := d.appendLong(nil); !bytes.Equal(b, want) {
			t.Fatalf("%+v encodes as %x, want %x", d, b, want)
		}
		var plainD, hotD Disposition
		if n, err := plainD.decodeAny(b); n != len(b) || err != nil || !reflect.DeepEqual(&plainD, d) {
			t.Fatalf("%x decodes to %+v, %v, want %+v", b, plainD, err, d)
		}
		if n := hotD.decodeHot(b); n != len(b) || !reflect.DeepEqual(hotD, plainD) {
			t.Fatalf("%x decodes to %+v, %d, want %+v, %d", b, hotD, n, plainD, len(b))
		}

		f := anyFlow.Draw(t, "flow")
		b = f.Append(nil)
		if want := f.appendLong(nil); !bytes.Equal(b, want) {
			t.Fatalf("%+v encodes as %x, want %x", f, b, want)
		}
		var plainF, hotF Flow
		if n, err := plainF.decodeAny(b); n != len(b) || err != nil || !reflect.DeepEqual(&plainF, f) {
			t.Fatalf("%x decodes to %+v, %v, want %+v", b, plainF, err, f)
		}
		if n := hotF.decodeHot(b); n != 0 && (n != len(b) || !reflect.DeepEqual(hotF, plainF)) || n == 0 && f.Properties == nil {
			t.Fatalf("%x decodes to %+v, %d, want %+v, %d", b, hotF, n, plainF, len(b))
		}
	})
}

// TestDecodedTransferIsReused: what a transfer was before shows nowhere.
func TestDecodedTransferIsReused(t *testing.T) {
	full := Transfer{1, Some[uint32](1), []byte{1}, Some[uint32](1), Some(true), true, Some[uint8](1), StateAccepted, true, true, true}
	least := (&Transfer{}).Append(nil)
	for _, b := range append(otherEncodings(least), least) {
		got := full
		if _, err := got.Decode(b); err != nil || !reflect.DeepEqual(got, Transfer{}) {
			t.Errorf("%x decodes to %+v, %v", b, got, err)
		}
	}
}

// TestTagDoesNotReachThePayload: appending to a delivery-tag or a state must not
// write into the buffer it came from.
func TestTagDoesNotReachThePayload(t *testing.T) {
	tr := Transfer{DeliveryTag: []byte("tag"), State: StateAccepted}
	for _, b := range append(otherEncodings(tr.Append(nil)), tr.Append(nil)) {
		was := bytes.Clone(b)
		var got Transfer
		if _, err := got.Decode(b); err != nil {
			t.Fatal(err)
		}
		_ = append(got.DeliveryTag, "xxxx"...)
		_ = append(got.State, "xxxx"...)
		if !bytes.Equal(b, was) {
			t.Errorf("%x became %x", was, b)
		}
	}
}

// RT E1: capabilities may be an array of another type or a list, which is no error.
func TestCapabilitiesOfAnyArrayType(t *testing.T) {
	for _, v := range []any{Symbol("single"), []Symbol{"A", "B"}, Array{Code: 0x71, Items: []any{int32(9), int32(10)}}, Array{Code: 0xa3}, List{"A", "B"}, List{}, nil} {
		in := Open{ContainerID: "c", OfferedCapabilities: AppendValue(nil, v), DesiredCapabilities: AppendValue(nil, v)}
		var out Open
		if _, err := out.Decode(in.Append(nil)); err != nil {
			t.Errorf("open with capabilities %v: %v", v, err)
		}
	}
}
