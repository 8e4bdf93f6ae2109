package amqp

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// AppendNull appends null.
func AppendNull(b []byte) []byte { return append(b, codeNull) }

// AppendBool appends a boolean.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, codeTrue)
	}
	return append(b, codeFalse)
}

// AppendUbyte appends a ubyte.
func AppendUbyte(b []byte, v uint8) []byte { return append(b, codeUbyte, v) }

// AppendUshort appends a ushort.
func AppendUshort(b []byte, v uint16) []byte { return append(b, codeUshort, byte(v>>8), byte(v)) }

// AppendUint appends a uint.
func AppendUint(b []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(b, codeUint0)
	case v <= math.MaxUint8:
		return append(b, codeSmallUint, byte(v))
	}
	return append(b, codeUint, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// AppendUlong appends a ulong.
func AppendUlong(b []byte, v uint64) []byte {
	switch {
	case v == 0:
		return append(b, codeUlong0)
	case v <= math.MaxUint8:
		return append(b, codeSmallUlong, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(b, codeUlong), v)
}

// AppendInt appends an int.
func AppendInt(b []byte, v int32) []byte {
	if v == int32(int8(v)) {
		return append(b, codeSmallInt, byte(v))
	}
	return append(b, codeInt, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// AppendLong appends a long.
func AppendLong(b []byte, v int64) []byte {
	if v == int64(int8(v)) {
		return append(b, codeSmallLong, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(b, codeLong), uint64(v))
}

// AppendTimestamp appends a timestamp.
func AppendTimestamp(b []byte, v Timestamp) []byte {
	return binary.BigEndian.AppendUint64(append(b, codeTimestamp), uint64(v))
}

// AppendString appends a string.
func AppendString[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(appendVarHeader(b, codeStr8, len(v)), v...)
}

// AppendSymbol appends a symbol.
func AppendSymbol[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(appendVarHeader(b, codeSym8, len(v)), v...)
}

// AppendBinary appends a binary.
func AppendBinary(b, v []byte) []byte {
	return append(appendVarHeader(b, codeBin8, len(v)), v...)
}

// appendVarHeader appends the constructor and length of a value of n octets;
// code is the one with a single octet of length, 0x10 below the other.
func appendVarHeader(b []byte, code byte, n int) []byte {
	if n <= math.MaxUint8 {
		return append(b, code, byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, code+0x10), checkedLen(n))
}

// checkedLen is the length of something as the wire has it. Nothing that comes
// to this package is longer than a uint32 counts.
func checkedLen(n int) uint32 {
	if uint64(n) > math.MaxUint32 {
		panic("amqp: value longer than 4 GiB")
	}
	return uint32(n)
}

// BeginCompound makes room for the constructor of a list or map. Append the
// elements, then call EndList or EndMap with mark.
func BeginCompound(b []byte) (_ []byte, mark int) {
	return append(b, 0, 0, 0), len(b)
}

// EndList completes the list begun at mark, of count elements, in the shortest
// of the three encodings.
func EndList(b []byte, mark, count int) []byte {
	if count == 0 {
		b[mark] = codeList0
		return b[:mark+1]
	}
	return endCompound(b, mark, codeList8, count)
}

// EndMap completes the map begun at mark, of so many entries (a key and a value
// each), in the shorter of the two encodings.
func EndMap(b []byte, mark, entries int) []byte {
	return endCompound(b, mark, codeMap8, 2*entries)
}

// endCompound sets size and count of a compound whose constructor code is the
// one with single octets, moving its elements if they need four each.
func endCompound(b []byte, mark int, code byte, count int) []byte {
	size := len(b) - mark - 2 // the count octet included
	if size <= math.MaxUint8 && count <= math.MaxUint8 {
		b[mark], b[mark+1], b[mark+2] = code, byte(size), byte(count)
		return b
	}
	b = append(b, 0, 0, 0, 0, 0, 0)
	copy(b[mark+9:], b[mark+3:])
	b[mark] = code + 0x10
	binary.BigEndian.PutUint32(b[mark+1:], checkedLen(size+3))
	binary.BigEndian.PutUint32(b[mark+5:], checkedLen(count))
	return b
}

// AppendValue appends v in its most compact encoding. Besides the types of AMQP
// values it takes
//
//	int             as an int if it fits, else as a long
//	[]Symbol        as an array of symbols
//	[]string, []any as a list
//	map[string]any  as a map with string keys, in their order
//	Raw             as it is
//
// It panics on any other type, and on an array whose items do not all have the
// type of its constructor.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, codeNull)
	case bool:
		return AppendBool(b, v)
	case uint8:
		return AppendUbyte(b, v)
	case uint16:
		return AppendUshort(b, v)
	case uint32:
		return AppendUint(b, v)
	case uint64:
		return AppendUlong(b, v)
	case int8:
		return append(b, codeByte, byte(v))
	case int16:
		return append(b, codeShort, byte(v>>8), byte(v))
	case int32:
		return AppendInt(b, v)
	case int64:
		return AppendLong(b, v)
	case int:
		if int64(v) == int64(int32(v)) {
			return AppendInt(b, int32(v))
		}
		return AppendLong(b, int64(v))
	case float32:
		return binary.BigEndian.AppendUint32(append(b, codeFloat), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, codeDouble), math.Float64bits(v))
	case Decimal32:
		return append(append(b, codeDecimal32), v[:]...)
	case Decimal64:
		return append(append(b, codeDecimal64), v[:]...)
	case Decimal128:
		return append(append(b, codeDecimal128), v[:]...)
	case Char:
		return binary.BigEndian.AppendUint32(append(b, codeChar), uint32(v))
	case Timestamp:
		return AppendTimestamp(b, v)
	case UUID:
		return append(append(b, codeUUID), v[:]...)
	case []byte:
		return AppendBinary(b, v)
	case string:
		return AppendString(b, v)
	case Symbol:
		return AppendSymbol(b, v)
	case List:
		return appendList(b, v)
	case []any:
		return appendList(b, v)
	case []string:
		b, mark := BeginCompound(b)
		for _, s := range v {
			b = AppendString(b, s)
		}
		return EndList(b, mark, len(v))
	case Map:
		return appendMap(b, v)
	case map[string]any:
		b, mark := BeginCompound(b)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = AppendValue(AppendString(b, k), v[k])
		}
		return EndMap(b, mark, len(v))
	case []Symbol:
		a := Array{Code: codeSym8, Items: make([]any, len(v))}
		for i, s := range v {
			a.Items[i] = s
		}
		return appendArray(b, a)
	case Array:
		return appendArray(b, v)
	case Described:
		return AppendValue(AppendValue(append(b, codeDescribed), v.Descriptor), v.Value)
	case Raw:
		if len(v) == 0 {
			return append(b, codeNull)
		}
		return append(b, v...)
	}
	panic(fmt.Sprintf("amqp: no AMQP type for a %T", v))
}

func appendList(b []byte, l []any) []byte {
	b, mark := BeginCompound(b)
	for _, v := range l {
		b = AppendValue(b, v)
	}
	return EndList(b, mark, len(l))
}

func appendMap(b []byte, m Map) []byte {
	b, mark := BeginCompound(b)
	for _, e := range m {
		b = AppendValue(AppendValue(b, e.Key), e.Value)
	}
	return EndMap(b, mark, len(m))
}

// appendArray appends the array with constructor, in the shorter of its
// encodings.
func appendArray(b []byte, a Array) []byte {
	start := len(b)
	if b, ok := appendArrayBody(append(b, codeArray8), codeArray8, a); ok {
		return b
	}
	b, _ = appendArrayBody(append(b[:start], codeArray32), codeArray32, a)
	return b
}

// appendArrayBody appends what follows the constructor code of an array: size,
// count, constructor of the elements, elements. ok is false if that does not
// fit the single octets of array8.
func appendArrayBody(b []byte, code byte, a Array) (_ []byte, ok bool) {
	start := len(b)
	head := 2
	if code == codeArray32 {
		head = 8
	}
	b = append(b, make([]byte, head)...)
	if a.Descriptor != nil {
		b = AppendValue(append(b, codeDescribed), a.Descriptor)
	}
	elem := a.Code
	if elem == 0 && len(a.Items) > 0 {
		elem = widestCode(a.Items[0])
	} else if elem == 0 {
		elem = codeNull
	}
	b, ok = appendElements(b, elem, a.Items)
	if !ok {
		elem = wideCode(elem)
		if b, ok = appendElements(b, elem, a.Items); !ok {
			panic(fmt.Sprintf("amqp: items of different types in an array of %#02x", a.Code))
		}
	}
	size := len(b) - start - head/2
	if code == codeArray8 {
		if size > math.MaxUint8 || len(a.Items) > math.MaxUint8 {
			return b, false
		}
		b[start], b[start+1] = byte(size), byte(len(a.Items))
		return b, true
	}
	binary.BigEndian.PutUint32(b[start:], checkedLen(size))
	binary.BigEndian.PutUint32(b[start+4:], checkedLen(len(a.Items)))
	return b, true
}

// appendElements appends the constructor of an array's elements and the
// elements, or nothing if one of them cannot be encoded that way.
func appendElements(b []byte, code byte, items []any) (_ []byte, ok bool) {
	start := len(b)
	b = append(b, code)
	for _, v := range items {
		if b, ok = appendElement(b, code, v); !ok {
			return b[:start], false
		}
	}
	return b, true
}

// appendElement appends what follows the constructor code in the encoding of v.
func appendElement(b []byte, code byte, v any) (_ []byte, ok bool) {
	switch code {
	case codeNull:
		return b, v == nil
	case codeTrue, codeFalse:
		v, ok := v.(bool)
		return b, ok && v == (code == codeTrue)
	case codeBool:
		v, ok := v.(bool)
		return append(b, AppendBool(nil, v)[0]&1), ok // 0x41 true, 0x42 false
	case codeUint0:
		v, ok := v.(uint32)
		return b, ok && v == 0
	case codeSmallUint:
		v, ok := v.(uint32)
		return append(b, byte(v)), ok && v <= math.MaxUint8
	case codeUint:
		v, ok := v.(uint32)
		return binary.BigEndian.AppendUint32(b, v), ok
	case codeUlong0:
		v, ok := v.(uint64)
		return b, ok && v == 0
	case codeSmallUlong:
		v, ok := v.(uint64)
		return append(b, byte(v)), ok && v <= math.MaxUint8
	case codeUlong:
		v, ok := v.(uint64)
		return binary.BigEndian.AppendUint64(b, v), ok
	case codeSmallInt:
		v, ok := v.(int32)
		return append(b, byte(v)), ok && v == int32(int8(v))
	case codeInt:
		v, ok := v.(int32)
		return binary.BigEndian.AppendUint32(b, uint32(v)), ok
	case codeSmallLong:
		v, ok := v.(int64)
		return append(b, byte(v)), ok && v == int64(int8(v))
	case codeLong:
		v, ok := v.(int64)
		return binary.BigEndian.AppendUint64(b, uint64(v)), ok
	case codeBin8, codeBin32:
		v, ok := v.([]byte)
		b, fits := appendVarBody(b, code, string(v))
		return b, ok && fits
	case codeStr8, codeStr32:
		v, ok := v.(string)
		b, fits := appendVarBody(b, code, v)
		return b, ok && fits
	case codeSym8, codeSym32:
		v, ok := v.(Symbol)
		b, fits := appendVarBody(b, code, string(v))
		return b, ok && fits
	case codeList0:
		v, ok := v.(List)
		return b, ok && len(v) == 0
	case codeList8, codeList32:
		v, ok := v.(List)
		if !ok {
			return b, false
		}
		return appendCompoundBody(b, code, appendList(nil, v))
	case codeMap8, codeMap32:
		v, ok := v.(Map)
		if !ok {
			return b, false
		}
		return appendCompoundBody(b, code, appendMap(nil, v))
	case codeArray8, codeArray32:
		v, ok := v.(Array)
		if !ok {
			return b, false
		}
		return appendArrayBody(b, code, v)
	}
	// The remaining types have one encoding, of fixed width.
	enc := AppendValue(nil, v)
	return append(b, enc[1:]...), enc[0] == code
}

func appendVarBody(b []byte, code byte, v string) (_ []byte, ok bool) {
	if varWidth(code) == 1 {
		return append(append(b, byte(len(v))), v...), len(v) <= math.MaxUint8
	}
	return append(binary.BigEndian.AppendUint32(b, checkedLen(len(v))), v...), true
}

// appendCompoundBody appends the encoded list or map enc as an element of an
// array with the constructor code.
func appendCompoundBody(b []byte, code byte, enc []byte) (_ []byte, ok bool) {
	size, count := 0, 0
	elements := enc[1:]
	switch enc[0] {
	case codeList0:
	case codeList8, codeMap8:
		size, count, elements = len(enc)-3, int(enc[2]), enc[3:]
	default:
		size, count, elements = len(enc)-9, int(binary.BigEndian.Uint32(enc[5:])), enc[9:]
	}
	if code == codeList8 || code == codeMap8 {
		if size+1 > math.MaxUint8 || count > math.MaxUint8 {
			return b, false
		}
		return append(append(b, byte(size+1), byte(count)), elements...), true
	}
	b = binary.BigEndian.AppendUint32(b, checkedLen(size+4))
	b = binary.BigEndian.AppendUint32(b, checkedLen(count))
	return append(b, elements...), true
}

// wideCode returns the constructor of the same type that takes every value.
func wideCode(code byte) byte {
	switch code {
	case codeTrue, codeFalse:
		return codeBool
	case codeUint0, codeSmallUint:
		return codeUint
	case codeUlong0, codeSmallUlong:
		return codeUlong
	case codeSmallInt:
		return codeInt
	case codeSmallLong:
		return codeLong
	case codeList0, codeList8:
		return codeList32
	case codeBin8, codeStr8, codeSym8, codeMap8, codeArray8:
		return code + 0x10
	}
	return code
}

// widestCode returns the constructor for any value of v's type.
func widestCode(v any) byte { return wideCode(AppendValue(nil, v)[0]) }

// composite writes a described list. Trailing nulls are dropped, as the
// standard allows (AMQP 1.0 part 1 §1.4).
type composite struct {
	b    []byte
	mark int // where the list begins
	n    int // fields written
	last int // fields up to the last that is not null
	end  int // length of b behind that one
}

func beginComposite(b []byte, code byte) composite {
	b, mark := BeginCompound(append(b, codeDescribed, codeSmallUlong, code))
	return composite{b: b, mark: mark, end: len(b)}
}

func (c *composite) done() []byte { return EndList(c.b[:c.end], c.mark, c.last) }

func (c *composite) null() {
	c.b = append(c.b, codeNull)
	c.n++
}

// wrote notes that a field which is not null was appended to c.b.
func (c *composite) wrote() {
	c.n++
	c.last, c.end = c.n, len(c.b)
}

func (c *composite) mandatoryUint(v uint32) {
	c.b = AppendUint(c.b, v)
	c.wrote()
}

func (c *composite) mandatoryString(v string) {
	c.b = AppendString(c.b, v)
	c.wrote()
}

func (c *composite) mandatorySymbol(v Symbol) {
	c.b = AppendSymbol(c.b, v)
	c.wrote()
}

func (c *composite) mandatoryBool(v bool) {
	c.b = AppendBool(c.b, v)
	c.wrote()
}

func (c *composite) mandatoryBinary(v []byte) {
	c.b = AppendBinary(c.b, v)
	c.wrote()
}

// flag writes a boolean whose default is false.
func (c *composite) flag(v bool) {
	if !v {
		c.null()
		return
	}
	c.mandatoryBool(true)
}

func (c *composite) bool(v Opt[bool]) {
	if !v.Set {
		c.null()
		return
	}
	c.mandatoryBool(v.V)
}

func (c *composite) ubyte(v Opt[uint8]) {
	if !v.Set {
		c.null()
		return
	}
	c.b = AppendUbyte(c.b, v.V)
	c.wrote()
}

func (c *composite) ushort(v Opt[uint16]) {
	if !v.Set {
		c.null()
		return
	}
	c.b = AppendUshort(c.b, v.V)
	c.wrote()
}

func (c *composite) uint(v Opt[uint32]) {
	if !v.Set {
		c.null()
		return
	}
	c.mandatoryUint(v.V)
}

func (c *composite) ulong(v Opt[uint64]) {
	if !v.Set {
		c.null()
		return
	}
	c.b = AppendUlong(c.b, v.V)
	c.wrote()
}

func (c *composite) timestamp(v Opt[Timestamp]) {
	if !v.Set {
		c.null()
		return
	}
	c.b = AppendTimestamp(c.b, v.V)
	c.wrote()
}

func (c *composite) str(v Opt[string]) {
	if !v.Set {
		c.null()
		return
	}
	c.mandatoryString(v.V)
}

// text writes a string that is absent when empty.
func (c *composite) text(v string) { c.str(Opt[string]{v, v != ""}) }

// symbol writes a symbol that is absent when empty.
func (c *composite) symbol(v Symbol) {
	if v == "" {
		c.null()
		return
	}
	c.mandatorySymbol(v)
}

// binary writes octets that are absent when nil.
func (c *composite) binary(v []byte) {
	if v == nil {
		c.null()
		return
	}
	c.mandatoryBinary(v)
}

func (c *composite) raw(v Raw) {
	if v.IsNull() {
		c.null()
		return
	}
	c.b = append(c.b, v...)
	c.wrote()
}
