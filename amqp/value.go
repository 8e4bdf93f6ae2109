package amqp

import (
	"slices"
)

// The Go types of AMQP values (AMQP 1.0 part 1 §1.6). A value is one of
//
//	null      nil        byte      int8       float      float32
//	boolean   bool       short     int16      double     float64
//	ubyte     uint8      int       int32      string     string
//	ushort    uint16     long      int64      binary     []byte
//	uint      uint32     ulong     uint64
//
// or of the types below.
type (
	// Symbol is a symbolic name, in ASCII.
	Symbol string

	// Char is one Unicode character.
	Char rune

	// Timestamp is a time in milliseconds since the Unix epoch.
	Timestamp int64

	// UUID is a universally unique identifier.
	UUID [16]byte

	// Decimal32 is the IEEE 754 decimal32 of these octets, not interpreted.
	Decimal32 [4]byte

	// Decimal64 is the IEEE 754 decimal64 of these octets, not interpreted.
	Decimal64 [8]byte

	// Decimal128 is the IEEE 754 decimal128 of these octets, not interpreted.
	Decimal128 [16]byte

	// List is a sequence of values of any type.
	List []any

	// Map is a sequence of entries in the order of their encoding.
	Map []MapEntry

	// MapEntry is one entry of a Map.
	MapEntry struct{ Key, Value any }

	// Described is a value annotated with a descriptor, usually a uint64 or a
	// Symbol.
	Described struct{ Descriptor, Value any }
)

// Array is a sequence of values of one type. It keeps the constructor it was
// decoded with, so that it encodes as it came.
type Array struct {
	// Code is the constructor of the elements, for example 0xa3 for symbols
	// (sym8). The encoder replaces it by a wider one of the same type when an
	// element does not fit; 0 stands for the widest of the first item's type.
	Code byte

	// Descriptor describes every element; nil if they are not described.
	Descriptor any

	// Items are the elements, without their descriptor.
	Items []any
}

// Get returns the value of the first entry with the key. Keys that are strings
// or symbols are compared by their text, whichever of the two they are. A key
// of a type that cannot be compared matches nothing.
func (m Map) Get(key any) (any, bool) {
	want, isText := text(key)
	for _, e := range m {
		if have, ok := text(e.Key); ok || isText {
			if ok && isText && have == want {
				return e.Value, true
			}
			continue
		}
		if isComparable(key) && isComparable(e.Key) && e.Key == key {
			return e.Value, true
		}
	}
	return nil, false
}

// text returns the text of a string or symbol.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Symbol:
		return string(v), true
	}
	return "", false
}

// isComparable reports whether == may be applied to a value of this type.
func isComparable(v any) bool {
	switch v.(type) {
	case []byte, List, Map, Array, Described:
		return false
	}
	return true
}

// Raw is exactly one encoded value, constructor included; nil is an absent
// value, the same as null.
type Raw []byte

// Value decodes r; an absent value is nil.
func (r Raw) Value() (any, error) {
	if len(r) == 0 {
		return nil, nil
	}
	v, n, err := DecodeValue(r)
	if err == nil && n != len(r) {
		return nil, decodeErrorf("%d octets behind a value", len(r)-n)
	}
	return v, err
}

// IsNull reports whether r is absent or null.
func (r Raw) IsNull() bool { return len(r) == 0 || r[0] == codeNull }

// Symbols returns the symbols of a field that may hold several: a single symbol
// or an array of symbols (AMQP 1.0 part 1 §1.4, RT E37). For anything else,
// null included, it returns nil.
func (r Raw) Symbols() []Symbol {
	if s, ok := rawSymbol(r); ok {
		return []Symbol{s}
	}
	a, ok := rawSymbols(r)
	if !ok {
		return nil
	}
	symbols := make([]Symbol, 0, a.count)
	for text, ok := a.nextText(); ok; text, ok = a.nextText() {
		symbols = append(symbols, Symbol(text))
	}
	return symbols
}

// HasSymbol reports whether s is among r.Symbols(), without allocation.
func (r Raw) HasSymbol(s Symbol) bool {
	if text, ok := rawText(r, codeSym8, codeSym32); ok {
		return string(text) == string(s)
	}
	a, _ := rawSymbols(r)
	for text, ok := a.nextText(); ok; text, ok = a.nextText() {
		if string(text) == string(s) {
			return true
		}
	}
	return false
}

// Text returns the octets of a string or a symbol, sharing memory with r; ok is
// false for any other type.
func (r Raw) Text() (text []byte, ok bool) {
	if v, ok := rawText(r, codeStr8, codeStr32); ok {
		return v, true
	}
	return rawText(r, codeSym8, codeSym32)
}

// Int returns the value of an integer of any width and sign; ok is false for
// other types and for a ulong that an int64 does not hold.
func (r Raw) Int() (v int64, ok bool) {
	if len(r) == 0 || skip(r, 0) != len(r) {
		return 0, false
	}
	number, _ := build(r[0], r[1:])
	return Int(number)
}

// Int returns the value of a decoded integer of any width and sign; ok is false
// for other types and for a ulong that an int64 does not hold.
func Int(number any) (v int64, ok bool) {
	switch v := number.(type) {
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), int64(v) >= 0
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// Clone returns a copy of r that shares no memory with it.
func (r Raw) Clone() Raw { return slices.Clone(r) }

// Opt is a field that may be absent. Its zero value is absent.
type Opt[T any] struct {
	V   T
	Set bool
}

// Some returns a field that is present with value v.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, Set: true} }

// Or returns the field's value, or d if it is absent.
func (o Opt[T]) Or(d T) T {
	if o.Set {
		return o.V
	}
	return d
}
