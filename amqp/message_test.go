package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Sections as octets, one of each.
const (
	wireHeader     = "00 53 70 c0 04 02 41 50 07 "
	wireDelivery   = "00 53 71 c1 05 02 a3 01 64 40 "
	wireAnnotation = "00 53 72 c1 06 02 a3 01 6d 54 01 "
	wireProperties = "00 53 73 c0 09 03 40 a0 01 75 a1 02 74 6f "
	wireApp        = "00 53 74 c1 05 02 a1 01 61 40 "
	wireData       = "00 53 75 a0 03 01 02 03 "
	wireSequence   = "00 53 76 c0 02 01 40 "
	wireValue      = "00 53 77 a1 01 76 "
	wireFooter     = "00 53 78 c1 01 00 "
)

// wholeMessage has every section there can be at once.
const wholeMessage = wireHeader + wireDelivery + wireAnnotation + wireProperties + wireApp + wireData + wireData + wireFooter

func TestWalkMessage(t *testing.T) {
	header, delivery := Range{0, 9}, Range{9, 19}
	annotations, properties := Range{19, 30}, Range{30, 44}
	app, body, footer := Range{44, 54}, Range{54, 70}, Range{70, 76}
	tests := []struct {
		name, wire string
		depth      Depth
		want       Sections
	}{
		{"header", wholeMessage, DepthHeader, Sections{Header: header, Body: -1, End: 9}},
		{"annotations", wholeMessage, DepthMessageAnnotations,
			Sections{Header: header, DeliveryAnnotations: delivery, MessageAnnotations: annotations, Body: -1, End: 30}},
		{"properties", wholeMessage, DepthProperties,
			Sections{Header: header, DeliveryAnnotations: delivery, MessageAnnotations: annotations, Properties: properties, Body: -1, End: 44}},
		{"application properties", wholeMessage, DepthApplicationProperties,
			Sections{header, delivery, annotations, properties, app, Range{}, Range{}, -1, 54}},
		{"all", wholeMessage, DepthAll, Sections{header, delivery, annotations, properties, app, body, footer, 54, 76}},
		{"body only, to the header", wireValue, DepthHeader, Sections{Body: 0}},
		{"body only, to the properties", wireValue, DepthProperties, Sections{Body: 0}},
		{"body only, all", wireValue, DepthAll, Sections{BodyRange: Range{0, 6}, End: 6}},
		{"sequences", wireSequence + wireSequence, DepthAll, Sections{BodyRange: Range{0, 14}, End: 14}},
		{"header and body", wireHeader + wireValue, DepthMessageAnnotations, Sections{Header: header, Body: 9, End: 9}},
		{"a later section that is no body", wireHeader + wireProperties, DepthMessageAnnotations, Sections{Header: header, Body: -1, End: 9}},
		{"no body", wireHeader, DepthProperties, Sections{Header: header, Body: 9, End: 9}},
		{"no body, all", wireHeader + wireFooter, DepthAll, Sections{Header: header, Footer: Range{9, 15}, Body: 9, End: 15}},
		{"what is behind the depth is not looked at (FC U02)", wireAnnotation + "00 53 73 c0 ff", DepthMessageAnnotations,
			Sections{MessageAnnotations: Range{0, 11}, Body: -1, End: 11}},
		{"named and long descriptors", "00 a3 10 61 6d 71 70 3a 68 65 61 64 65 72 3a 6c 69 73 74 45 00 80 00 00 00 00 00 00 00 77 40", DepthAll,
			Sections{Header: Range{0, 20}, BodyRange: Range{20, 31}, Body: 20, End: 31}},
		{"wide constructors", "00 53 70 d0 00 00 00 04 00 00 00 00 00 53 72 d1 00 00 00 04 00 00 00 00 00 53 75 b0 00 00 00 00", DepthAll,
			Sections{Header: Range{0, 12}, MessageAnnotations: Range{12, 24}, BodyRange: Range{24, 32}, Body: 24, End: 32}},
	}
	for _, tt := range tests {
		b := wire(tt.wire)
		got, err := WalkMessage(b, tt.depth, true)
		if err != nil || got != tt.want {
			t.Errorf("%s: WalkMessage(%x) = %+v, %v, want %+v", tt.name, b, got, err, tt.want)
		}
	}
}

// TestWalkMessageMalformed: RT E54, CFG R29, FC U02.
func TestWalkMessageMalformed(t *testing.T) {
	tests := []struct {
		name, wire string
		depth      Depth
	}{
		{"empty", "", DepthHeader},
		{"one octet", "00", DepthHeader},
		{"one octet that begins nothing", "61", DepthHeader},
		{"text", "68 65 6c 6c 6f", DepthHeader},
		{"descriptor cut short", "00 53", DepthHeader},
		{"descriptor of no section", "00 53 24 45", DepthHeader},
		{"descriptor behind the last", "00 53 79 c1 01 00", DepthHeader},
		{"descriptor without a number", "00 a3 01 61 45", DepthHeader},
		{"no value behind the descriptor", "00 53 70", DepthHeader},
		{"header longer than the message", "00 53 70 c0 7f 01 41", DepthHeader},
		{"header that is a map", "00 53 70 c1 01 00", DepthHeader},
		{"header that is null", "00 53 70 40", DepthHeader},
		{"header with a field that passes its end", "00 53 70 c0 03 01 70 00 00 53 77 40", DepthHeader},
		{"annotations that are a list", "00 53 72 45 00 53 77 40", DepthMessageAnnotations},
		{"annotations without a value for a key", "00 53 72 c1 04 01 a3 01 61", DepthMessageAnnotations},
		{"annotations nested too deep", "", DepthMessageAnnotations},
		{"delivery annotations that are a list", "00 53 71 c0 01 00 00 53 77 40", DepthMessageAnnotations},
		{"properties cut in half", "00 53 73 c0 0a 03 40 a0 01", DepthProperties},
		{"properties that are a map", "00 53 73 c1 01 00", DepthProperties},
		{"application properties that are a list", "00 53 74 45", DepthApplicationProperties},
		{"sections out of order", wireAnnotation + wireHeader, DepthProperties},
		{"header twice", wireHeader + wireHeader, DepthMessageAnnotations},
		{"data that is a string", "00 53 75 a1 00", DepthAll},
		{"sequence that is a map", "00 53 76 c1 01 00", DepthAll},
		{"two values", wireValue + wireValue, DepthAll},
		{"data and sequence", wireData + wireSequence, DepthAll},
		{"data behind a footer", wireFooter + wireData, DepthAll},
		{"footer that is a list", wireData + "00 53 78 45", DepthAll},
		{"something behind the footer", wireData + wireFooter + "00", DepthAll},
		{"body cut short", "00 53 77 a1 05 61", DepthAll},
	}
	for _, tt := range tests {
		b := wire(tt.wire)
		if tt.name == "annotations nested too deep" {
			b = append([]byte{codeDescribed, codeSmallUlong, CodeMessageAnnotations}, nested(10000, inMap)...)
		}
		got, err := WalkMessage(b, tt.depth, true)
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.Condition != ErrCondDecodeError || e.Description != "invalid message format" || got != (Sections{Body: -1}) {
			t.Errorf("%s: WalkMessage(%.40x) = %+v, %v", tt.name, b, got, err)
		}
	}
}

// TestWalkMessageInParts: a message that comes octet by octet is waited for, and
// judged as soon as it has come as far as it is walked (FC U02).
func TestWalkMessageInParts(t *testing.T) {
	b := wire(wholeMessage)
	for depth := DepthHeader; depth <= DepthAll; depth++ {
		whole, err := WalkMessage(b, depth, true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(b) + 1 {
			got, err := WalkMessage(b[:i:i], depth, false)
			switch {
			case i < whole.End:
				if err != ErrNeedMore {
					t.Errorf("depth %d, %d of %d octets: %+v, %v, want %v", depth, i, len(b), got, err, ErrNeedMore)
				}
			case err != nil || got != whole:
				t.Errorf("depth %d, %d of %d octets: %+v, %v, want %+v", depth, i, len(b), got, err, whole)
			}
			// The same octets, but no more to come: all right at the end of a
			// section only.
			_, err = WalkMessage(b[:i:i], depth, true)
			_, more := WalkMessage(b[:i:i], depth, false)
			if atEnd := i == 9 || i == 19 || i == 30 || i == 44 || i == 54 || i == 62 || i == 70; more == ErrNeedMore && (err == nil) != atEnd {
				t.Errorf("depth %d, cut at %d of %d octets: %v", depth, i, len(b), err)
			}
		}
	}
	// Without the sections looked for, the descriptor of the next one settles it.
	if _, err := WalkMessage(wire("00 53"), DepthHeader, false); err != ErrNeedMore {
		t.Errorf("two octets: %v", err)
	}
	if s, err := WalkMessage(wire("00 53 75"), DepthHeader, false); err != nil || s.Body != 0 {
		t.Errorf("three octets: %+v, %v", s, err)
	}
	if _, err := WalkMessage(wire("00 a3 10 61"), DepthHeader, false); err != ErrNeedMore {
		t.Errorf("a name begun: %v", err)
	}
	if _, err := WalkMessage(nil, DepthHeader, false); err != ErrNeedMore {
		t.Errorf("nothing: %v", err)
	}
	if _, err := WalkMessage(wire("61"), DepthHeader, false); err == nil || err == ErrNeedMore {
		t.Errorf("what can become no message: %v", err)
	}
}

func TestSectionFields(t *testing.T) {
	b := wire(wholeMessage)
	s, err := WalkMessage(b, DepthProperties, true)
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := s.Priority(b); p != 7 || !ok {
		t.Errorf("Priority = %d, %t", p, ok)
	}
	if to, ok, err := s.To(b); string(to) != "to" || !ok || err != nil {
		t.Errorf("To = %q, %t, %v", to, ok, err)
	}
	if id, ok, err := s.UserID(b); string(id) != "u" || !ok || err != nil {
		t.Errorf("UserID = %q, %t, %v", id, ok, err)
	}
	if got, want := s.MessageAnnotations.Value(b), wire("c1 06 02 a3 01 6d 54 01"); !bytes.Equal(got, want) {
		t.Errorf("annotations = %x, want %x", got, want)
	}
	if n := testing.AllocsPerRun(100, func() {
		s, _ := WalkMessage(b, DepthAll, true)
		s.Priority(b)
		_, _, _ = s.To(b)
		_, _, _ = s.UserID(b)
		it, _ := IterMap(s.MessageAnnotations.Value(b))
		it.Next()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}

	subjects := []struct {
		name, wire, want string
		ok, bad          bool
	}{
		{"short", "00 53 73 c0 08 04 40 40 40 a1 02 61 2e", "a.", true, false},
		{"long", "00 53 73 c0 0a 04 40 40 40 b1 00 00 00 01 61", "a", true, false},
		{"empty", "00 53 73 c0 06 04 40 40 40 a1 00", "", true, false},
		{"null", "00 53 73 c0 05 04 40 40 40 40", "", false, false},
		{"too few fields", wireProperties, "", false, false},
		{"symbol", "00 53 73 c0 07 04 40 40 40 a3 01 61", "", false, true},
	}
	for _, tt := range subjects {
		b := wire(tt.wire)
		s, err := WalkMessage(b, DepthProperties, true)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got, ok, err := s.Subject(b); string(got) != tt.want || ok != tt.ok || (err != nil) != tt.bad {
			t.Errorf("%s: Subject = %q, %t, %v", tt.name, got, ok, err)
		}
	}

	tests := []struct {
		name, wire string
		priority   bool
		to, bad    bool
	}{
		{"neither section", wireValue, false, false, false},
		{"empty lists", "00 53 70 45 00 53 73 45", false, false, false},
		{"nulls", "00 53 70 c0 03 02 40 40 00 53 73 c0 04 03 40 40 40", false, false, false},
		{"too few fields", "00 53 70 c0 02 01 41 00 53 73 c0 03 02 40 40", false, false, false},
		{"wrong types", "00 53 70 c0 03 02 41 43 00 53 73 c0 05 03 40 43 52 01", false, false, true},
	}
	for _, tt := range tests {
		b := wire(tt.wire)
		s, err := WalkMessage(b, DepthProperties, true)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if p, ok := s.Priority(b); ok != tt.priority {
			t.Errorf("%s: Priority = %d, %t", tt.name, p, ok)
		}
		if to, ok, err := s.To(b); ok != tt.to || (err != nil) != tt.bad {
			t.Errorf("%s: To = %q, %t, %v", tt.name, to, ok, err)
		}
		if id, ok, err := s.UserID(b); ok != tt.to || (err != nil) != tt.bad {
			t.Errorf("%s: UserID = %q, %t, %v", tt.name, id, ok, err)
		}
	}
}

var messages = []struct {
	name, wire string
	m          Message
}{
	{"value", wireValue, Message{Body: "v"}},
	{"value null", "00 53 77 40", Message{}},
	{"data", wireData, Message{Body: []byte{1, 2, 3}, BodyKind: BodyData}},
	{"sequence", wireSequence, Message{Body: List{nil}, BodyKind: BodySequence}},
	{"sequences", wireSequence + wireSequence, Message{Body: []List{{nil}, {nil}}, BodyKind: BodySequence}},
	{"no body", "00 53 70 45", Message{Header: &Header{}, BodyKind: BodyNone}},
	{"every section", wholeMessage, Message{
		Header:                &Header{Durable: true, Priority: Some[uint8](7)},
		DeliveryAnnotations:   Map{{Symbol("d"), nil}},
		MessageAnnotations:    Map{{Symbol("m"), int32(1)}},
		Properties:            &Properties{UserID: []byte("u"), To: Some("to")},
		ApplicationProperties: Map{{"a", nil}},
		Body:                  [][]byte{{1, 2, 3}, {1, 2, 3}},
		BodyKind:              BodyData,
		Footer:                Map{},
	}},
	{"all of a header (part 3 §3.2.1)", "00 53 70 c0 09 05 41 50 00 52 0a 41 52 02 00 53 77 40",
		Message{Header: &Header{Durable: true, Priority: Some[uint8](0), TTL: Some[uint32](10), FirstAcquirer: true, DeliveryCount: 2}}},
	{"all properties (part 3 §3.2.4)", `00 53 73 c0 32 0d 53 01 a0 01 75 a1 01 74 a1 01 73 a1 01 72 a0 01 63 a3 01 78 a3 01 79
		83 00 00 00 00 00 00 00 01 83 00 00 00 00 00 00 00 02 a1 01 67 52 05 a1 01 6f 00 53 77 40`,
		Message{Properties: &Properties{MessageID: uint64(1), UserID: []byte("u"), To: Some("t"), Subject: Some("s"), ReplyTo: Some("r"),
			CorrelationID: []byte("c"), ContentType: "x", ContentEncoding: "y", AbsoluteExpiryTime: Some[Timestamp](1), CreationTime: Some[Timestamp](2),
			GroupID: Some("g"), GroupSequence: Some[uint32](5), ReplyToGroupID: Some("o")}}},
}

func TestMessages(t *testing.T) {
	for _, tt := range messages {
		b := wire(tt.wire)
		if got := tt.m.Append([]byte("kept")); string(got) != "kept"+string(b) {
			t.Errorf("%s encodes as %x, want %x", tt.name, got[4:], b)
		}
		was := bytes.Clone(b)
		got, err := DecodeMessage(b)
		clear(b)
		if err != nil || !reflect.DeepEqual(got, &tt.m) {
			t.Errorf("%s: %x decodes to %+v, %v, want %+v", tt.name, was, got, err, tt.m)
		}
	}
}

func TestMessagesRefused(t *testing.T) {
	for name, digits := range map[string]string{
		"empty":                     "",
		"body cut short":            "00 53 77 a1 05",
		"priority that is a uint":   "00 53 70 c0 03 02 40 43",
		"six fields in a header":    "00 53 70 c0 07 06 40 40 40 40 40 40",
		"fourteen properties":       "00 53 73 c0 0f 0e" + rep("40", 14),
		"to that is a symbol":       "00 53 73 c0 06 03 40 40 a3 01 61",
		"message-id that is a list": "00 53 73 c0 02 01 45",
		"message-id that is a map":  "00 53 73 c0 04 01 c1 01 00",
	} {
		m, err := DecodeMessage(wire(digits))
		if e := (*Error)(nil); !errors.As(err, &e) || e.Condition != ErrCondDecodeError || m != nil {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a body of the wrong kind does not panic")
		}
	}()
	(&Message{Body: "text", BodyKind: BodyData}).Append(nil)
}

func TestMessageRoundTrip(t *testing.T) {
	text := rapid.Map(rapid.String(), func(s string) Opt[string] { return Opt[string]{s, s != ""} })
	annotations := rapid.Custom(func(t *rapid.T) Map {
		if rapid.Bool().Draw(t, "absent") {
			return nil
		}
		m := Map{}
		for range rapid.IntRange(0, 4).Draw(t, "entries") {
			m = append(m, MapEntry{Symbol(rapid.String().Draw(t, "key")), anyValue(1).Draw(t, "value")})
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		m := &Message{
			DeliveryAnnotations:   annotations.Draw(t, "delivery annotations"),
			MessageAnnotations:    annotations.Draw(t, "message annotations"),
			ApplicationProperties: annotations.Draw(t, "application properties"),
			Footer:                annotations.Draw(t, "footer"),
		}
		if rapid.Bool().Draw(t, "header") {
			m.Header = &Header{rapid.Bool().Draw(t, "durable"), optOf(rapid.Uint8()).Draw(t, "priority"), optOf(anyUint).Draw(t, "ttl"),
				rapid.Bool().Draw(t, "first"), anyUint.Draw(t, "count")}
		}
		if rapid.Bool().Draw(t, "properties") {
			m.Properties = &Properties{To: text.Draw(t, "to"), Subject: text.Draw(t, "subject"), GroupID: text.Draw(t, "group"),
				MessageID: rapid.SampledFrom([]any{nil, uint64(0), "id", []byte{1}, UUID{1}}).Draw(t, "id"), UserID: anyTag.Draw(t, "user")}
		}
		switch m.BodyKind = BodyKind(rapid.IntRange(0, int(BodySequence)).Draw(t, "kind")); m.BodyKind {
		case BodyValue:
			m.Body = anyValue(2).Draw(t, "body")
		case BodyData:
			m.Body = []byte(strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length")))
		case BodySequence:
			m.Body = []List{{uint8(1)}, {}}
		}
		b := m.Append(nil)
		if got, err := DecodeMessage(b); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v became %+v, %v by way of %x", m, got, err, b)
		}
	})
}
