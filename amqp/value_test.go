package amqp

import (
	"encoding/hex"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wire turns hexadecimal digits into octets; blanks are left out.
func wire(digits string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
	if err != nil {
		panic(err)
	}
	return b
}

// rep repeats hexadecimal digits.
func rep(digits string, n int) string { return strings.Repeat(digits+" ", n) }

// valueEncodings has every encoding of AMQP 1.0 part 1 §1.6; the section is the
// one of the type. want is how we encode the value, if not the same way.
var valueEncodings = []struct {
	section, wire string
	value         any
	want          string
}{
	{"1.6.1 null", "40", nil, ""},
	{"1.6.2 true", "41", true, ""},
	{"1.6.2 false", "42", false, ""},
	{"1.6.2 boolean true", "56 01", true, "41"},
	{"1.6.2 boolean false", "56 00", false, "42"},
	{"1.6.3 ubyte", "50 ff", uint8(255), ""},
	{"1.6.4 ushort", "60 12 34", uint16(0x1234), ""},
	{"1.6.5 uint0", "43", uint32(0), ""},
	{"1.6.5 smalluint", "52 ff", uint32(255), ""},
	{"1.6.5 smalluint zero", "52 00", uint32(0), "43"},
	{"1.6.5 uint", "70 00 00 01 00", uint32(256), ""},
	{"1.6.5 uint, small", "70 00 00 00 07", uint32(7), "52 07"},
	{"1.6.5 uint, greatest", "70 ff ff ff ff", uint32(math.MaxUint32), ""},
	{"1.6.6 ulong0", "44", uint64(0), ""},
	{"1.6.6 smallulong", "53 80", uint64(128), ""},
	{"1.6.6 ulong", "80 00 00 00 01 00 00 00 00", uint64(1 << 32), ""},
	{"1.6.6 ulong, small", "80 00 00 00 00 00 00 00 24", uint64(0x24), "53 24"},
	{"1.6.7 byte", "51 ff", int8(-1), ""},
	{"1.6.8 short", "61 ff fe", int16(-2), ""},
	{"1.6.9 smallint", "54 80", int32(-128), ""},
	{"1.6.9 int", "71 ff ff ff 7f", int32(-129), ""},
	{"1.6.9 int, small", "71 ff ff ff ff", int32(-1), "54 ff"},
	{"1.6.10 smalllong", "55 7f", int64(127), ""},
	{"1.6.10 long", "81 00 00 00 00 00 00 00 80", int64(128), ""},
	{"1.6.10 long, small", "81 ff ff ff ff ff ff ff 80", int64(-128), "55 80"},
	{"1.6.11 float", "72 3f 80 00 00", float32(1), ""},
	{"1.6.12 double", "82 c0 00 00 00 00 00 00 00", float64(-2), ""},
	{"1.6.13 decimal32", "74 01 02 03 04", Decimal32{1, 2, 3, 4}, ""},
	{"1.6.14 decimal64", "84 01 02 03 04 05 06 07 08", Decimal64{1, 2, 3, 4, 5, 6, 7, 8}, ""},
	{"1.6.15 decimal128", "94 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10",
		Decimal128{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, ""},
	{"1.6.16 char", "73 00 01 f6 00", Char('😀'), ""},
	{"1.6.17 timestamp", "83 00 00 01 8b cf e5 68 00", Timestamp(1700000000000), ""},
	{"1.6.17 timestamp before the epoch", "83 ff ff ff ff ff ff ff ff", Timestamp(-1), ""},
	{"1.6.18 uuid", "98 f2 75 ea 5e 0c 57 4a d7 b1 1a b2 0c 56 3d 3b 71",
		UUID{0xf2, 0x75, 0xea, 0x5e, 0x0c, 0x57, 0x4a, 0xd7, 0xb1, 0x1a, 0xb2, 0x0c, 0x56, 0x3d, 0x3b, 0x71}, ""},
	{"1.6.19 vbin8", "a0 02 00 ff", []byte{0, 0xff}, ""},
	{"1.6.19 vbin8, empty", "a0 00", []byte{}, ""},
	{"1.6.19 vbin32", "b0 00 00 00 01 07", []byte{7}, "a0 01 07"},
	{"1.6.20 str8-utf8", "a1 03 e2 82 ac", "€", ""},
	{"1.6.20 str32-utf8", "b1 00 00 00 01 61", "a", "a1 01 61"},
	{"1.6.20 str32-utf8 that must be", "b1 00 00 01 00" + rep("61", 256), strings.Repeat("a", 256), ""},
	{"1.6.21 sym8", "a3 01 61", Symbol("a"), ""},
	{"1.6.21 sym32", "b3 00 00 00 01 61", Symbol("a"), "a3 01 61"},
	{"1.6.22 list0", "45", List{}, ""},
	{"1.6.22 list8", "c0 04 02 52 01 40", List{uint32(1), nil}, ""},
	{"1.6.22 list8, empty", "c0 01 00", List{}, "45"},
	{"1.6.22 list32", "d0 00 00 00 05 00 00 00 01 41", List{true}, "c0 02 01 41"},
	{"1.6.22 list32, empty", "d0 00 00 00 04 00 00 00 00", List{}, "45"},
	{"1.6.23 map8", "c1 06 02 a3 01 61 54 01", Map{{Symbol("a"), int32(1)}}, ""},
	{"1.6.23 map8, empty", "c1 01 00", Map{}, ""},
	{"1.6.23 map8 keeps the order", "c1 09 04 a1 01 62 40 a1 01 61 40", Map{{"b", nil}, {"a", nil}}, ""},
	{"1.6.23 map32", "d1 00 00 00 06 00 00 00 02 41 42", Map{{true, false}}, "c1 03 02 41 42"},
	{"1.6.24 array8", "e0 06 02 a3 01 61 01 62", Array{Code: 0xa3, Items: []any{Symbol("a"), Symbol("b")}}, ""},
	{"1.6.24 array8, empty", "e0 02 00 a3", Array{Code: 0xa3, Items: []any{}}, ""},
	{"1.6.24 array32", "f0 00 00 00 07 00 00 00 02 50 01 02", Array{Code: 0x50, Items: []any{uint8(1), uint8(2)}}, "e0 04 02 50 01 02"},
	{"1.6.24 array of wide elements stays wide", "e0 0a 02 70 00 00 00 01 00 00 00 02", Array{Code: 0x70, Items: []any{uint32(1), uint32(2)}}, ""},
	{"1.6.24 array of smallulong", "e0 04 02 53 01 02", Array{Code: 0x53, Items: []any{uint64(1), uint64(2)}}, ""},
	{"1.6.24 array of booleans", "e0 04 02 56 01 00", Array{Code: 0x56, Items: []any{true, false}}, ""},
	{"1.6.24 array of elements without octets", "e0 02 03 41", Array{Code: 0x41, Items: []any{true, true, true}}, ""},
	{"1.6.24 array of list8", "e0 07 02 c0 01 00 02 01 40", Array{Code: 0xc0, Items: []any{List{}, List{nil}}}, ""},
	{"1.6.24 array of list32", "e0 0b 01 d0 00 00 00 05 00 00 00 01 40", Array{Code: 0xd0, Items: []any{List{nil}}}, ""},
	{"1.6.24 array of map8", "e0 06 01 c1 03 02 41 42", Array{Code: 0xc1, Items: []any{Map{{true, false}}}}, ""},
	{"1.6.24 array of arrays", "e0 09 02 e0 02 00 40 03 01 50 07",
		Array{Code: 0xe0, Items: []any{Array{Code: 0x40, Items: []any{}}, Array{Code: 0x50, Items: []any{uint8(7)}}}}, ""},
	{"1.6.24 array of described elements", "e0 07 02 00 53 24 50 05 06",
		Array{Code: 0x50, Descriptor: uint64(0x24), Items: []any{uint8(5), uint8(6)}}, ""},
	{"1.2 described", "00 53 24 45", Described{uint64(0x24), List{}}, ""},
	{"1.2 described by a name", "00 a3 01 61 a1 00", Described{Symbol("a"), ""}, ""},
	{"1.2 described twice", "00 53 01 00 53 02 40", Described{uint64(1), Described{uint64(2), nil}}, ""},
	{"1.2 described descriptor", "00 00 53 01 53 02 40", Described{Described{uint64(1), uint64(2)}, nil}, ""},
}

func TestValueEncodings(t *testing.T) {
	for _, tt := range valueEncodings {
		t.Run(tt.section, func(t *testing.T) {
			b := wire(tt.wire)
			got, n, err := DecodeValue(append(b[:len(b):len(b)], 0x40)) // what follows is not touched
			if err != nil || n != len(b) || !reflect.DeepEqual(got, tt.value) {
				t.Fatalf("DecodeValue(%x) = %#v, %d, %v, want %#v, %d", b, got, n, err, tt.value, len(b))
			}
			if n, err := SkipValue(b); n != len(b) || err != nil {
				t.Errorf("SkipValue(%x) = %d, %v, want %d", b, n, err, len(b))
			}
			if got, err := Raw(b).Value(); err != nil || !reflect.DeepEqual(got, tt.value) {
				t.Errorf("Raw(%x).Value() = %#v, %v", b, got, err)
			}
			want := b
			if tt.want != "" {
				want = wire(tt.want)
			}
			if got := AppendValue([]byte("kept"), tt.value); string(got) != "kept"+string(want) {
				t.Errorf("AppendValue(%#v) = %x, want %x", tt.value, got[4:], want)
			}
		})
	}
}

func TestValueCutAtEveryOctet(t *testing.T) {
	for _, tt := range valueEncodings {
		b := wire(tt.wire)
		for i := range b {
			if v, _, err := DecodeValue(b[:i:i]); err == nil {
				t.Errorf("%s: DecodeValue(%x) = %#v, want an error", tt.section, b[:i], v)
			}
			if n, err := SkipValue(b[:i:i]); err == nil {
				t.Errorf("%s: SkipValue(%x) = %d, want an error", tt.section, b[:i], n)
			}
		}
	}
}

// TestDecodedValueIsACopy: the read buffer is used again while the value lives.
func TestDecodedValueIsACopy(t *testing.T) {
	b := wire("c0 0a 03 a0 01 61 a1 01 62 a3 01 63")
	got, _, err := DecodeValue(b)
	clear(b)
	if want := (List{[]byte("a"), "b", Symbol("c")}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("value after its octets changed = %#v, %v, want %#v", got, err, want)
	}
}

// malformedValues are refused without an allocation that depends on what they
// claim to be (CFG R38, R40; FC U03).
var malformedValues = []struct{ name, wire string }{
	{"nothing", ""},
	{"unknown constructors", "5f"},
	{"unknown constructor of no width known", "20"},
	{"unknown constructor in a list", "c0 03 02 40 99"},
	{"list8 without a count", "c0 00"},
	{"list32 with a size that does not hold its count", "d0 00 00 00 03 00 00 00"},
	{"list with a count above its octets", "c0 02 02 40"},
	{"list with a count below its octets", "c0 03 01 40 40"},
	{"list that ends within a value", "c0 02 01 52"},
	{"list with a value that passes its end", "c0 03 01 a1 02 61 61"},
	{"list count of 2^31", "d0 00 00 00 05 80 00 00 00 40"},
	{"list count of 2^32-1 and size of 2^32-1", "d0 ff ff ff ff ff ff ff ff 40"},
	{"map count of 2^31", "d1 00 00 00 06 80 00 00 00 40 40"},
	{"map with a key without value", "c1 02 01 40"},
	{"array without a constructor", "e0 01 00"},
	{"array of described elements without a constructor", "e0 03 00 00 40"},
	{"array count of 2^31, elements without octets", "f0 00 00 00 05 80 00 00 00 40"},
	{"array count of 2^32-1, elements without octets", "f0 00 00 00 05 ff ff ff ff 45"},
	{"array count of 2^31, described elements without octets", "f0 00 00 00 07 80 00 00 00 00 44 43"},
	{"array count of 2^31, ubytes", "f0 00 00 00 06 80 00 00 00 50 01"},
	{"array count of 17, elements without octets", "e0 02 11 40"},
	{"array with octets left over", "e0 04 01 50 01 02"},
	{"array of elements without octets that has some", "e0 03 01 40 40"},
	{"array of strings that pass its end", "e0 04 01 a1 05 61"},
	{"array of an unknown constructor", "e0 02 00 99"},
	{"array of elements described twice", "e0 08 01 00 53 01 00 53 02 40"},
	{"binary of 2^32-1", "b0 ff ff ff ff 00"},
	{"string of 2^31", "b1 80 00 00 00 00"},
	{"described without a value", "00 53 24"},
	{"described without anything", "00"},
	{"descriptors without end", rep("00", 10000)},
}

func TestMalformedValues(t *testing.T) {
	for _, tt := range malformedValues {
		t.Run(tt.name, func(t *testing.T) {
			b := wire(tt.wire)
			v, n, err := DecodeValue(b)
			if e, ok := err.(*Error); !ok || e.Condition != ErrCondDecodeError || v != nil || n != 0 {
				t.Errorf("DecodeValue(%.40x) = %#v, %d, %v, want %s", b, v, n, err, ErrCondDecodeError)
			}
			if n, err := SkipValue(b); err == nil || n != 0 {
				t.Errorf("SkipValue(%.40x) = %d, %v, want an error", b, n, err)
			}
			if n := allocated(func() { _, _, _ = DecodeValue(b) }); n > 1<<10 {
				t.Errorf("DecodeValue(%.40x) allocated %d octets", b, n)
			}
		})
	}
}

// allocated returns how many octets f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// nested returns null inside so many lists, maps or arrays.
func nested(depth int, wrap func([]byte) []byte) []byte {
	b := []byte{codeNull}
	for range depth {
		b = wrap(b)
	}
	return b
}

func inList(b []byte) []byte {
	out, mark := BeginCompound(nil)
	return EndList(append(out, b...), mark, 1)
}

func inMap(b []byte) []byte {
	out, mark := BeginCompound(nil)
	return EndMap(append(append(out, codeNull), b...), mark, 1)
}

func inDescribed(b []byte) []byte {
	return append([]byte{codeDescribed, codeSmallUlong, 1}, b...)
}

// TestNesting: values nest to MaxDepth and no deeper (CFG R40, FC U03).
func TestNesting(t *testing.T) {
	for name, wrap := range map[string]func([]byte) []byte{"list": inList, "map": inMap, "described": inDescribed} {
		deepest := nested(MaxDepth, wrap)
		v, n, err := DecodeValue(deepest)
		if err != nil || n != len(deepest) {
			t.Fatalf("%s: %d levels: %v", name, MaxDepth, err)
		}
		if got := AppendValue(nil, v); string(got) != string(deepest) {
			t.Errorf("%s: %d levels encode as %x, want %x", name, MaxDepth, got, deepest)
		}
		for _, depth := range []int{MaxDepth + 1, 10000} {
			b := nested(depth, wrap)
			if _, _, err := DecodeValue(b); err == nil {
				t.Errorf("%s: %d levels were decoded", name, depth)
			}
			if n := allocated(func() { _, _ = SkipValue(b) }); n > 1<<10 {
				t.Errorf("%s: %d levels: %d octets allocated", name, depth, n)
			}
		}
	}
}

func TestAppendValueTakesGoTypes(t *testing.T) {
	tests := []struct {
		value any
		want  string
	}{
		{int(5), "54 05"},
		{int(1 << 40), "81 00 00 01 00 00 00 00 00"},
		{[]Symbol{"a", "b"}, "e0 06 02 a3 01 61 01 62"},
		{[]Symbol{}, "e0 02 00 a3"},
		{[]string{"a"}, "c0 04 01 a1 01 61"},
		{[]any{true}, "c0 02 01 41"},
		{map[string]any{"b": true, "a": nil}, "c1 09 04 a1 01 61 40 a1 01 62 41"},
		{Raw(nil), "40"},
		{Raw{0x41}, "41"},
		{Array{Items: []any{"a"}}, "e0 07 01 b1 00 00 00 01 61"},
		{Array{}, "e0 02 00 40"},
		{Array{Code: 0x52, Items: []any{uint32(1), uint32(256)}}, "e0 0a 02 70 00 00 00 01 00 00 01 00"},
		{Array{Code: 0x41, Items: []any{true, false}}, "e0 04 02 56 01 00"},
		{Array{Code: 0x45, Items: []any{List{nil}}}, "e0 0b 01 d0 00 00 00 05 00 00 00 01 40"},
		{Array{Code: 0xa3, Items: []any{Symbol(strings.Repeat("a", 256))}}, "f0 00 00 01 09 00 00 00 01 b3 00 00 01 00" + rep("61", 256)},
	}
	for _, tt := range tests {
		if got, want := AppendValue(nil, tt.value), wire(tt.want); string(got) != string(want) {
			t.Errorf("AppendValue(%#v) = %x, want %x", tt.value, got, want)
		}
	}
}

// TestArraysKeepTheirConstructor, whatever it is.
func TestArraysKeepTheirConstructor(t *testing.T) {
	elements := map[string]string{ // constructor: two elements
		"40": "", "41": "", "42": "", "43": "", "44": "", "45": "",
		"50": "01 02", "51": "ff 02", "52": "00 02", "53": "00 02", "54": "ff 02", "55": "ff 02", "56": "00 01",
		"60": rep("00", 4), "61": rep("ff", 4), "70": rep("00", 8), "71": rep("ff", 8), "72": rep("00", 8), "73": rep("00", 8), "74": rep("01", 8),
		"80": rep("00", 16), "81": rep("ff", 16), "82": rep("00", 16), "83": rep("00", 16), "84": rep("00", 16),
		"94": rep("00", 32), "98": rep("00", 32),
		"a0": "00 01 61", "a1": "00 01 61", "a3": "00 01 61",
		"b0": "00 00 00 00 00 00 00 01 61", "b1": "00 00 00 00 00 00 00 01 61", "b3": "00 00 00 00 00 00 00 01 61",
		"c0": "01 00 02 01 40", "c1": "01 00 03 02 40 40",
		"d0": "00 00 00 04 00 00 00 00 00 00 00 05 00 00 00 01 40", "d1": "00 00 00 04 00 00 00 00 00 00 00 06 00 00 00 02 40 40",
		"e0": "02 00 40 03 01 50 01", "f0": "00 00 00 05 00 00 00 00 40 00 00 00 06 00 00 00 01 50 01",
	}
	for code, layout := range layouts {
		if _, ok := elements[hex.EncodeToString([]byte{byte(code)})]; ok != (layout != layoutUnknown) {
			t.Errorf("constructor %#x: known %t, tried here %t", code, layout != layoutUnknown, ok)
		}
	}
	for code, items := range elements {
		body := append(wire(code), wire(items)...)
		b := append([]byte{codeArray8, byte(len(body) + 1), 2}, body...)
		v, _, err := DecodeValue(b)
		if err != nil {
			t.Errorf("%x: %v", b, err)
			continue
		}
		if a := v.(Array); a.Code != wire(code)[0] || len(a.Items) != 2 {
			t.Errorf("%x decodes to %#v", b, v)
		}
		if got := AppendValue(nil, v); string(got) != string(b) {
			t.Errorf("%x encodes again as %x", b, got)
		}
	}
}

func TestAppendValuePanics(t *testing.T) {
	for _, v := range []any{struct{}{}, uint(1), List{complex(1, 1)}, Array{Code: 0x52, Items: []any{"a"}}, Array{Items: []any{uint8(1), "a"}}, Array{Code: 0x40, Items: []any{true}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("AppendValue(%#v) does not panic", v)
				}
			}()
			AppendValue(nil, v)
		}()
	}
}

func TestBigCompoundsAreWide(t *testing.T) {
	l := make(List, 256)
	b := AppendValue(nil, l)
	if want := wire("d0 00 00 01 04 00 00 01 00" + rep("40", 256)); string(b) != string(want) {
		t.Errorf("list of 256 = %x, want %x", b, want)
	}
	m := Map{{"k", strings.Repeat("v", 250)}}
	b = AppendValue(nil, m)
	if want := wire("d1 00 00 01 03 00 00 00 02 a1 01 6b a1 fa" + rep("76", 250)); string(b) != string(want) {
		t.Errorf("map of 259 octets = %x, want %x", b, want)
	}
}

func TestMapGet(t *testing.T) {
	m := Map{{Symbol("a"), 1}, {"b", 2}, {uint64(7), 3}, {[]byte("a"), 4}, {"a", 5}, {List{}, 6}}
	tests := []struct {
		key, want any
		ok        bool
	}{
		{"a", 1, true}, {Symbol("a"), 1, true}, {Symbol("b"), 2, true}, {uint64(7), 3, true},
		{uint32(7), nil, false}, {"c", nil, false}, {[]byte("a"), nil, false}, {List{}, nil, false}, {nil, nil, false},
	}
	for _, tt := range tests {
		if got, ok := m.Get(tt.key); got != tt.want || ok != tt.ok {
			t.Errorf("Get(%#v) = %v, %t, want %v, %t", tt.key, got, ok, tt.want, tt.ok)
		}
	}
}

// TestRawSymbols: a field of several symbols is null, one, or an array (AMQP 1.0
// part 1 §1.4; RT E37).
func TestRawSymbols(t *testing.T) {
	tests := []struct {
		wire string
		want []Symbol
	}{
		{"", nil},
		{"40", nil},
		{"a3 01 61", []Symbol{"a"}},
		{"b3 00 00 00 01 61", []Symbol{"a"}},
		{"e0 06 02 a3 01 61 01 62", []Symbol{"a", "b"}},
		{"f0 00 00 00 0f 00 00 00 02 b3 00 00 00 01 61 00 00 00 01 62", []Symbol{"a", "b"}},
		{"e0 02 00 a3", []Symbol{}},
		{"a1 01 61", nil},                      // a string
		{"c0 04 01 a3 01 61", nil},             // a list
		{"e0 04 01 a1 01 61", nil},             // an array of strings
		{"e0 07 01 00 53 01 a3 01 61", nil},    // an array of described symbols
		{"a3 05 61", nil},                      // cut short
		{"f0 00 00 00 05 80 00 00 00 a3", nil}, // a count that cannot be
		{"e0 06 02 a3 01 61 01 62 40", nil},    // something behind
	}
	for _, tt := range tests {
		r := Raw(wire(tt.wire))
		if got := r.Symbols(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Raw(%x).Symbols() = %#v, want %#v", r, got, tt.want)
		}
		for _, s := range []Symbol{"a", "b", "c", ""} {
			want := false
			for _, w := range tt.want {
				want = want || w == s
			}
			if got := r.HasSymbol(s); got != want {
				t.Errorf("Raw(%x).HasSymbol(%q) = %t, want %t", r, s, got, want)
			}
		}
	}
}

func TestRawScalars(t *testing.T) {
	for _, tt := range []struct {
		wire, text string
		isText     bool
		number     int64
		isNumber   bool
	}{
		{"a1 01 61", "a", true, 0, false},
		{"b1 00 00 00 01 61", "a", true, 0, false},
		{"a3 01 61", "a", true, 0, false},
		{"a0 01 61", "", false, 0, false},
		{"40", "", false, 0, false},
		{"", "", false, 0, false},
		{"50 ff", "", false, 255, true},
		{"51 ff", "", false, -1, true},
		{"54 ff", "", false, -1, true},
		{"55 ff", "", false, -1, true},
		{"60 01 00", "", false, 256, true},
		{"61 ff ff", "", false, -1, true},
		{"43", "", false, 0, true},
		{"44", "", false, 0, true},
		{"80 7f ff ff ff ff ff ff ff", "", false, math.MaxInt64, true},
		{"71 00 00", "", false, 0, false},
		{"83 00 00 00 00 00 00 00 00", "", false, 0, false},
	} {
		r := Raw(wire(tt.wire))
		if got, ok := r.Text(); string(got) != tt.text || ok != tt.isText {
			t.Errorf("Raw(%x).Text() = %q, %t", r, got, ok)
		}
		if got, ok := r.Int(); ok != tt.isNumber || got != tt.number {
			t.Errorf("Raw(%x).Int() = %d, %t", r, got, ok)
		}
	}
	if _, ok := Raw(wire("80 ff ff ff ff ff ff ff ff")).Int(); ok {
		t.Error("a ulong above the greatest int64 is an Int")
	}
}

func TestIterators(t *testing.T) {
	m, err := IterMap(Raw(wire("c1 09 04 a1 01 62 40 a3 01 61 41")))
	if err != nil || m.Len() != 2 {
		t.Fatalf("IterMap: %d entries, %v", m.Len(), err)
	}
	var got []string
	for k, v, ok := m.Next(); ok; k, v, ok = m.Next() {
		text, _ := k.Text()
		got = append(got, string(text)+hex.EncodeToString(v))
	}
	if want := []string{"b40", "a41"}; !reflect.DeepEqual(got, want) || m.Err() != nil {
		t.Errorf("entries = %v, %v, want %v", got, m.Err(), want)
	}
	l, err := IterList(Raw(wire("d0 00 00 00 07 00 00 00 02 40 52 01")))
	if err != nil || l.Len() != 2 {
		t.Fatalf("IterList: %d items, %v", l.Len(), err)
	}
	got = nil
	for v, ok := l.Next(); ok; v, ok = l.Next() {
		got = append(got, hex.EncodeToString(v))
	}
	if want := []string{"40", "5201"}; !reflect.DeepEqual(got, want) || l.Err() != nil {
		t.Errorf("items = %v, %v, want %v", got, l.Err(), want)
	}
	for _, empty := range []Raw{nil, {0x40}} {
		if m, err := IterMap(empty); err != nil || m.Len() != 0 {
			t.Errorf("IterMap(%x) = %d entries, %v", empty, m.Len(), err)
		}
		if l, err := IterList(empty); err != nil || l.Len() != 0 {
			t.Errorf("IterList(%x) = %d items, %v", empty, l.Len(), err)
		}
	}
	for _, bad := range []string{"41", "45", "c0 01 00", "c1", "c1 02 01 40", "c1 05 02 40 40", "d1 00 00 00 05 80 00 00 00 40", "d1 00 00"} {
		if m, err := IterMap(wire(bad)); err == nil {
			t.Errorf("IterMap(%s) = %d entries, want an error", bad, m.Len())
		}
	}
	for _, bad := range []string{"41", "c1 01 00", "c0", "c0 02 02 40", "d0 ff ff ff ff ff ff ff ff"} {
		if l, err := IterList(wire(bad)); err == nil {
			t.Errorf("IterList(%s) = %d items, want an error", bad, l.Len())
		}
	}
	// Broken inside, which only Next sees.
	m, err = IterMap(wire("c1 05 02 40 a1 05 61"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := m.Next(); ok || m.Err() == nil {
		t.Errorf("Next on a broken map = %t, %v", ok, m.Err())
	}
	l, _ = IterList(wire("c0 04 01 a1 05 61"))
	if _, ok := l.Next(); ok || l.Err() == nil {
		t.Errorf("Next on a broken list = %t, %v", ok, l.Err())
	}
}

func TestIteratorsDoNotAllocate(t *testing.T) {
	b := AppendValue(nil, Map{{Symbol("x-opt-qd.trace"), List{"0/A", "0/B"}}, {Symbol("x-opt-qd.ingress"), "0/A"}})
	if n := testing.AllocsPerRun(100, func() {
		it, _ := IterMap(b)
		for k, v, ok := it.Next(); ok; k, v, ok = it.Next() {
			if text, _ := k.Text(); string(text) == "x-opt-qd.trace" {
				list, _ := IterList(v)
				for _, ok := list.Next(); ok; _, ok = list.Next() {
				}
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// anyValue generates values in the form they decode to.
func anyValue(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Uint8().AsAny(), rapid.Uint16().AsAny(), rapid.Uint32().AsAny(), rapid.Uint64().AsAny(),
		rapid.Int8().AsAny(), rapid.Int16().AsAny(), rapid.Int32().AsAny(), rapid.Int64().AsAny(),
		rapid.Float32().AsAny(), rapid.Float64().AsAny(),
		rapid.Map(rapid.Rune(), func(r rune) any { return Char(r) }),
		rapid.Map(rapid.Int64(), func(v int64) any { return Timestamp(v) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) any { return UUID(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 4, 4), func(b []byte) any { return Decimal32(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 8, 8), func(b []byte) any { return Decimal64(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) any { return Decimal128(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) any { return append([]byte{}, b...) }),
		rapid.String().AsAny(),
		rapid.Map(rapid.StringMatching(`[a-z:-]{0,20}`), func(s string) any { return Symbol(s) }),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) })
	return rapid.OneOf(append(scalars,
		rapid.Map(rapid.SliceOfN(inner, 0, 8), func(l []any) any { return append(List{}, l...) }),
		rapid.Custom(func(t *rapid.T) any {
			m := Map{}
			for range rapid.IntRange(0, 5).Draw(t, "entries") {
				m = append(m, MapEntry{inner.Draw(t, "key"), inner.Draw(t, "value")})
			}
			return m
		}),
		rapid.Custom(func(t *rapid.T) any {
			return Described{inner.Draw(t, "descriptor"), inner.Draw(t, "value")}
		}),
		rapid.Custom(func(t *rapid.T) any {
			// Elements of one type, in the widest encoding, which is what an
			// array without a Code gets.
			a := Array{Items: []any{}}
			v := inner.Draw(t, "item")
			if _, ok := v.(Described); ok {
				v = nil
			}
			for range rapid.IntRange(1, 4).Draw(t, "items") {
				a.Items = append(a.Items, v)
			}
			a.Code = widestCode(v)
			if rapid.Bool().Draw(t, "described") {
				a.Descriptor = rapid.Just[any](uint64(7)).Draw(t, "descriptor")
			}
			return a
		}),
	)...)
}

func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(3).Draw(t, "value")
		b := AppendValue(nil, v)
		if n, err := SkipValue(b); n != len(b) || err != nil {
			t.Fatalf("SkipValue(%x) = %d, %v, want %d", b, n, err, len(b))
		}
		got, n, err := DecodeValue(b)
		if err != nil || n != len(b) || !reflect.DeepEqual(got, v) {
			t.Fatalf("%#v became %#v, %d, %v by way of %x", v, got, n, err, b)
		}
	})
}

func TestOpt(t *testing.T) {
	if got := (Opt[uint8]{}).Or(4); got != 4 {
		t.Errorf("absent.Or(4) = %d", got)
	}
	if got := Some(uint8(0)).Or(4); got != 0 {
		t.Errorf("Some(0).Or(4) = %d", got)
	}
}
