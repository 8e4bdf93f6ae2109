package amqp

import (
	"encoding/binary"
	"math"
	"strings"
)

// MaxDepth is how deep compound, array and described values may nest (CFG R40).
const MaxDepth = 32

// Constructors (AMQP 1.0 part 1 §1.6). The high nibble tells what follows: 4 to
// 9 a value of fixed width (0, 1, 2, 4, 8, 16 octets), a and b octets behind
// their length, c and d a size, a count and elements, e and f the same with one
// constructor for all elements.
const (
	codeDescribed  = 0x00
	codeNull       = 0x40
	codeTrue       = 0x41
	codeFalse      = 0x42
	codeUint0      = 0x43
	codeUlong0     = 0x44
	codeList0      = 0x45
	codeUbyte      = 0x50
	codeByte       = 0x51
	codeSmallUint  = 0x52
	codeSmallUlong = 0x53
	codeSmallInt   = 0x54
	codeSmallLong  = 0x55
	codeBool       = 0x56
	codeUshort     = 0x60
	codeShort      = 0x61
	codeUint       = 0x70
	codeInt        = 0x71
	codeFloat      = 0x72
	codeChar       = 0x73
	codeDecimal32  = 0x74
	codeUlong      = 0x80
	codeLong       = 0x81
	codeDouble     = 0x82
	codeTimestamp  = 0x83
	codeDecimal64  = 0x84
	codeDecimal128 = 0x94
	codeUUID       = 0x98
	codeBin8       = 0xa0
	codeStr8       = 0xa1
	codeSym8       = 0xa3
	codeBin32      = 0xb0
	codeStr32      = 0xb1
	codeSym32      = 0xb3
	codeList8      = 0xc0
	codeMap8       = 0xc1
	codeList32     = 0xd0
	codeMap32      = 0xd1
	codeArray8     = 0xe0
	codeArray32    = 0xf0
)

// What skip and skipBody return instead of a length. Elements of zero width
// make 0 a length for skipBody, so the failures are negative.
const (
	skipShort = -1 // the octets end before the value does
	skipBad   = -2 // no value begins like this
	skipDeep  = -3 // nested deeper than MaxDepth
)

// Layouts of what follows a constructor, the values of layouts. A value below
// layoutVar8 is a fixed width, plus one so that 0 is left for unknown.
const (
	layoutUnknown = 0
	layoutVar8    = 32 + iota
	layoutVar32
	layoutCompound8
	layoutCompound32
	layoutArray8
	layoutArray32
)

// layouts has the layout of what follows each constructor.
var layouts = [256]uint8{
	codeNull: 1, codeTrue: 1, codeFalse: 1, codeUint0: 1, codeUlong0: 1, codeList0: 1,
	codeUbyte: 2, codeByte: 2, codeSmallUint: 2, codeSmallUlong: 2, codeSmallInt: 2, codeSmallLong: 2, codeBool: 2,
	codeUshort: 3, codeShort: 3,
	codeUint: 5, codeInt: 5, codeFloat: 5, codeChar: 5, codeDecimal32: 5,
	codeUlong: 9, codeLong: 9, codeDouble: 9, codeTimestamp: 9, codeDecimal64: 9,
	codeDecimal128: 17, codeUUID: 17,
	codeBin8: layoutVar8, codeStr8: layoutVar8, codeSym8: layoutVar8,
	codeBin32: layoutVar32, codeStr32: layoutVar32, codeSym32: layoutVar32,
	codeList8: layoutCompound8, codeMap8: layoutCompound8,
	codeList32: layoutCompound32, codeMap32: layoutCompound32,
	codeArray8: layoutArray8, codeArray32: layoutArray32,
}

// varWidth returns the width of the length field of a binary, string or symbol.
func varWidth(code byte) int {
	if code >= 0xb0 {
		return 4
	}
	return 1
}

// skip returns the length of the value at the start of b, all of it checked, or
// one of the failures above. depth is how many levels of nesting are left.
func skip(b []byte, depth int) int {
	if len(b) == 0 {
		return skipShort
	}
	// What is skipped most by far: a value of fixed width.
	if w := int(layouts[b[0]]); w != layoutUnknown && w < layoutVar8 {
		if w > len(b) {
			return skipShort
		}
		return w
	}
	if b[0] == codeDescribed {
		if depth == 0 {
			return skipDeep
		}
		d := skip(b[1:], depth-1)
		if d < 0 {
			return d
		}
		v := skip(b[1+d:], depth-1)
		if v < 0 {
			return v
		}
		return 1 + d + v
	}
	n := skipBody(b[0], b[1:], depth)
	if n < 0 {
		return n
	}
	return 1 + n
}

// skipBody returns the length of what follows the constructor code at the start
// of b, all of it checked, or one of the failures.
func skipBody(code byte, b []byte, depth int) int {
	var size, head int // octets behind the size field; its width
	layout := layouts[code]
	switch layout {
	case layoutVar8, layoutCompound8, layoutArray8:
		if len(b) < 1 {
			return skipShort
		}
		size, head = int(b[0]), 1
	case layoutVar32, layoutCompound32, layoutArray32:
		if len(b) < 4 {
			return skipShort
		}
		size, head = int(binary.BigEndian.Uint32(b)), 4
	case layoutUnknown:
		return skipBad
	default:
		if int(layout)-1 > len(b) {
			return skipShort
		}
		return int(layout) - 1
	}
	if size < 0 || size > len(b)-head { // a 32-bit int may have become negative
		return skipShort
	}
	end := head + size
	if layout == layoutVar8 || layout == layoutVar32 {
		return end
	}
	if depth == 0 {
		return skipDeep
	}
	if size < head { // the count is as wide as the size
		return skipBad
	}
	count := int(b[1])
	if head == 4 {
		count = int(binary.BigEndian.Uint32(b[4:]))
	}
	body := b[2*head : end]
	var failure int
	if layout == layoutArray8 || layout == layoutArray32 {
		failure = skipElements(body, count, depth-1)
	} else {
		failure = skipItems(body, count, code == codeMap8 || code == codeMap32, depth-1)
	}
	if failure < 0 {
		return failure
	}
	return end
}

// skipItems checks the items of a list or map: so many values fill body. Within
// a compound nothing can be short any more, only bad.
func skipItems(body []byte, count int, isMap bool, depth int) (failure int) {
	if count < 0 || count > len(body) || isMap && count%2 != 0 {
		return skipBad
	}
	for range count {
		var n int
		if len(body) >= 2 && layouts[body[0]] == layoutVar8 { // most keys and many values; saves a call
			n = 2 + int(body[1])
			if n > len(body) {
				return skipBad
			}
		} else if n = skip(body, depth); n < 0 {
			return min(n, skipBad)
		}
		body = body[n:]
	}
	if len(body) > 0 {
		return skipBad
	}
	return 0
}

// maxEmptyElements is how many elements an array may have whose elements take no
// octets, so that nothing else bounds their count.
const maxEmptyElements = 16

// skipElements checks the elements of an array: body is the constructor of the
// elements and so many elements.
func skipElements(body []byte, count, depth int) (failure int) {
	if len(body) > 0 && body[0] == codeDescribed {
		// A constructor may be described more than once by the grammar of part
		// 1 §1.2; Array has no room for that and nobody sends it.
		n := skip(body[1:], depth)
		if n < 0 {
			return min(n, skipBad)
		}
		body = body[1+n:]
	}
	if len(body) == 0 || count < 0 {
		return skipBad
	}
	code := body[0]
	body = body[1:]
	switch layout := layouts[code]; {
	case layout == layoutUnknown:
		return skipBad
	case layout == 1:
		if len(body) > 0 || count > maxEmptyElements {
			return skipBad
		}
		return 0
	case count > len(body):
		return skipBad
	}
	for range count {
		n := skipBody(code, body, depth)
		if n < 0 {
			return min(n, skipBad)
		}
		body = body[n:]
	}
	if len(body) > 0 {
		return skipBad
	}
	return 0
}

// skipError is the error for a failure of skip.
func skipError(failure int) *Error {
	switch failure {
	case skipShort:
		return decodeErrorf("value is cut short")
	case skipDeep:
		return decodeErrorf("value is nested deeper than %d", MaxDepth)
	}
	return decodeErrorf("malformed value")
}

// SkipValue returns the length of the value at the start of b. The value is
// checked as DecodeValue does, without decoding it and without allocation.
func SkipValue(b []byte) (n int, err error) {
	if n = skip(b, MaxDepth); n < 0 {
		return 0, skipError(n)
	}
	return n, nil
}

// DecodeValue decodes the value at the start of b and returns its length. The
// value shares no memory with b.
func DecodeValue(b []byte) (v any, n int, err error) {
	if n = skip(b, MaxDepth); n < 0 {
		return nil, 0, skipError(n)
	}
	v, _ = buildValue(b)
	return v, n, nil
}

// buildValue decodes the value at the start of b, which skip has accepted.
func buildValue(b []byte) (v any, n int) {
	if b[0] == codeDescribed {
		d, n := buildValue(b[1:])
		v, m := buildValue(b[1+n:])
		return Described{d, v}, 1 + n + m
	}
	v, n = build(b[0], b[1:])
	return v, 1 + n
}

// build decodes what follows the constructor code at the start of b, which
// skipBody has accepted.
func build(code byte, b []byte) (v any, n int) {
	switch code {
	case codeNull:
		return nil, 0
	case codeTrue:
		return true, 0
	case codeFalse:
		return false, 0
	case codeBool:
		return b[0] != 0, 1
	case codeUbyte:
		return b[0], 1
	case codeUshort:
		return binary.BigEndian.Uint16(b), 2
	case codeUint0:
		return uint32(0), 0
	case codeSmallUint:
		return uint32(b[0]), 1
	case codeUint:
		return binary.BigEndian.Uint32(b), 4
	case codeUlong0:
		return uint64(0), 0
	case codeSmallUlong:
		return uint64(b[0]), 1
	case codeUlong:
		return binary.BigEndian.Uint64(b), 8
	case codeByte:
		return int8(b[0]), 1
	case codeShort:
		return int16(binary.BigEndian.Uint16(b)), 2
	case codeSmallInt:
		return int32(int8(b[0])), 1
	case codeInt:
		return int32(binary.BigEndian.Uint32(b)), 4
	case codeSmallLong:
		return int64(int8(b[0])), 1
	case codeLong:
		return int64(binary.BigEndian.Uint64(b)), 8
	case codeFloat:
		return math.Float32frombits(binary.BigEndian.Uint32(b)), 4
	case codeDouble:
		return math.Float64frombits(binary.BigEndian.Uint64(b)), 8
	case codeDecimal32:
		return Decimal32(b[:4]), 4
	case codeDecimal64:
		return Decimal64(b[:8]), 8
	case codeDecimal128:
		return Decimal128(b[:16]), 16
	case codeChar:
		return Char(binary.BigEndian.Uint32(b)), 4
	case codeTimestamp:
		return Timestamp(binary.BigEndian.Uint64(b)), 8
	case codeUUID:
		return UUID(b[:16]), 16
	case codeBin8, codeBin32:
		s, n := varBody(code, b)
		return append([]byte{}, s...), n
	case codeStr8, codeStr32:
		s, n := varBody(code, b)
		return toString(s), n
	case codeSym8, codeSym32:
		s, n := varBody(code, b)
		return Symbol(s), n
	case codeList0:
		return List{}, 0
	case codeList8, codeList32:
		count, body, n := compoundBody(code, b)
		l := make(List, count)
		for i := range l {
			var used int
			l[i], used = buildValue(body)
			body = body[used:]
		}
		return l, n
	case codeMap8, codeMap32:
		count, body, n := compoundBody(code, b)
		m := make(Map, count/2)
		for i := range m {
			var k, v int
			m[i].Key, k = buildValue(body)
			m[i].Value, v = buildValue(body[k:])
			body = body[k+v:]
		}
		return m, n
	case codeArray8, codeArray32:
		count, body, n := compoundBody(code, b)
		var a Array
		if body[0] == codeDescribed {
			var used int
			a.Descriptor, used = buildValue(body[1:])
			body = body[1+used:]
		}
		a.Code, body = body[0], body[1:]
		a.Items = make([]any, count)
		for i := range a.Items {
			var used int
			a.Items[i], used = build(a.Code, body)
			body = body[used:]
		}
		return a, n
	}
	panic("amqp: building a value that was not checked")
}

// varBody splits what follows the constructor of a binary, string or symbol.
func varBody(code byte, b []byte) (octets []byte, n int) {
	if varWidth(code) == 1 {
		n = 1 + int(b[0])
		return b[1:n], n
	}
	n = 4 + int(binary.BigEndian.Uint32(b))
	return b[4:n], n
}

// compoundBody splits what follows the constructor of a list, map or array.
func compoundBody(code byte, b []byte) (count int, body []byte, n int) {
	switch layouts[code] {
	case layoutCompound8, layoutArray8:
		n = 1 + int(b[0])
		return int(b[1]), b[2:n], n
	}
	n = 4 + int(binary.BigEndian.Uint32(b))
	return int(binary.BigEndian.Uint32(b[4:])), b[8:n], n
}

// A descriptor that is neither a number nor a name of the standard.
const codeUnknown = math.MaxUint64

// descriptor reads the descriptor of the described value at the start of b as
// the number of the standard, whether it is encoded as number or as name. n is
// the length of descriptor and the 0x00 before it, or a failure of skip.
func descriptor(b []byte) (code uint64, n int) {
	if len(b) < 2 {
		if len(b) == 1 && b[0] != codeDescribed {
			return 0, skipBad
		}
		return 0, skipShort
	}
	if b[0] != codeDescribed {
		return 0, skipBad
	}
	if n = skip(b[1:], MaxDepth-1); n < 0 {
		return 0, n
	}
	n++
	switch b[1] {
	case codeUlong0:
		return 0, n
	case codeSmallUlong:
		return uint64(b[2]), n
	case codeUlong:
		return binary.BigEndian.Uint64(b[2:]), n
	case codeSym8:
		return symbolCode(b[3:n]), n
	case codeSym32:
		return symbolCode(b[6:n]), n
	}
	return codeUnknown, n
}

// MapIter goes over the entries of an encoded map without allocation.
type MapIter struct {
	rest []byte
	left int // keys and values still to come
	err  error
}

// IterMap returns an iterator over the map v; an absent or null v has no
// entries. It is an error if v is not a map. Only Next looks at the entries.
func IterMap(v Raw) (MapIter, error) {
	if v.IsNull() {
		return MapIter{}, nil
	}
	if v[0] != codeMap8 && v[0] != codeMap32 {
		return MapIter{}, decodeErrorf("not a map")
	}
	count, body, ok := compoundHeader(v)
	if !ok || count%2 != 0 {
		return MapIter{}, decodeErrorf("malformed map")
	}
	return MapIter{rest: body, left: count}, nil
}

// Next returns the next entry, sharing memory with the map; ok is false at the
// end, and where the encoding is broken, which Err then tells.
func (it *MapIter) Next() (key, value Raw, ok bool) {
	if it.left < 2 {
		return nil, nil, false
	}
	k := skip(it.rest, MaxDepth)
	if k < 0 {
		return nil, nil, it.fail(k)
	}
	v := skip(it.rest[k:], MaxDepth)
	if v < 0 {
		return nil, nil, it.fail(v)
	}
	key, value = Raw(it.rest[:k:k]), Raw(it.rest[k:k+v:k+v])
	it.rest = it.rest[k+v:]
	it.left -= 2
	return key, value, true
}

func (it *MapIter) fail(failure int) bool {
	it.err = skipError(failure)
	it.left = 0
	return false
}

// Len returns how many entries are still to come.
func (it *MapIter) Len() int { return it.left / 2 }

// Err returns why Next ended early. It is always nil for a map that a decoder
// of this package handed out.
func (it *MapIter) Err() error { return it.err }

// ListIter goes over the items of an encoded list without allocation.
type ListIter struct {
	rest []byte
	left int // items still to come
	err  error
}

// IterList returns an iterator over the list v; an absent or null v has no
// items. It is an error if v is not a list. Only Next looks at the items.
func IterList(v Raw) (ListIter, error) {
	if v.IsNull() || v[0] == codeList0 {
		return ListIter{}, nil
	}
	if v[0] != codeList8 && v[0] != codeList32 {
		return ListIter{}, decodeErrorf("not a list")
	}
	count, body, ok := compoundHeader(v)
	if !ok {
		return ListIter{}, decodeErrorf("malformed list")
	}
	return ListIter{rest: body, left: count}, nil
}

// Next returns the next item, sharing memory with the list; ok is false at the
// end, and where the encoding is broken, which Err then tells.
func (it *ListIter) Next() (item Raw, ok bool) {
	if it.left == 0 {
		return nil, false
	}
	n := skip(it.rest, MaxDepth)
	if n < 0 {
		it.err = skipError(n)
		it.left = 0
		return nil, false
	}
	item = Raw(it.rest[:n:n])
	it.rest = it.rest[n:]
	it.left--
	return item, true
}

// Len returns how many items are still to come.
func (it *ListIter) Len() int { return it.left }

// Err returns why Next ended early. It is always nil for a list that a decoder
// of this package handed out.
func (it *ListIter) Err() error { return it.err }

// compoundHeader splits an encoded list8, list32, map8 or map32.
func compoundHeader(v Raw) (count int, body []byte, ok bool) {
	head := 1
	if v[0] >= codeList32 {
		head = 4
	}
	if len(v) < 1+2*head {
		return 0, nil, false
	}
	size, count := int(v[1]), int(v[2])
	if head == 4 {
		size, count = int(binary.BigEndian.Uint32(v[1:])), int(binary.BigEndian.Uint32(v[5:]))
	}
	if size < head || size > len(v)-1-head || count < 0 || count > size-head {
		return 0, nil, false
	}
	return count, v[1+2*head : 1+head+size], true
}

// symbolArray is an encoded array of symbols.
type symbolArray struct {
	code  byte // constructor of the elements
	count int
	body  []byte // the elements
}

// rawSymbols checks v and returns the array of symbols that it is.
func rawSymbols(v Raw) (a symbolArray, ok bool) {
	if len(v) == 0 || v[0] != codeArray8 && v[0] != codeArray32 || skip(v, MaxDepth) != len(v) {
		return a, false
	}
	count, body, _ := compoundBody(v[0], v[1:])
	if body[0] != codeSym8 && body[0] != codeSym32 {
		return a, false
	}
	return symbolArray{body[0], count, body[1:]}, true
}

// nextText takes the next symbol off the array.
func (a *symbolArray) nextText() (text []byte, ok bool) {
	if a.count == 0 {
		return nil, false
	}
	text, n := varBody(a.code, a.body)
	a.body = a.body[n:]
	a.count--
	return text, true
}

// toString is string(b) in pieces: a goroutine that copies megabytes at once cannot be stopped for as
// long, and all others of its program may have to wait.
func toString(b []byte) string {
	const piece = 64 << 10
	if len(b) <= piece {
		return string(b)
	}
	var s strings.Builder
	s.Grow(len(b))
	for len(b) > 0 {
		n := min(len(b), piece)
		s.Write(b[:n])
		b = b[n:]
	}
	return s.String()
}

// rawText returns the octets of a string, symbol or binary: a value with one of
// these two constructors.
func rawText(v Raw, code8, code32 byte) (text []byte, ok bool) {
	if len(v) == 0 || v[0] != code8 && v[0] != code32 || skip(v, 0) != len(v) {
		return nil, false
	}
	text, _ = varBody(v[0], v[1:])
	return text, true
}

func rawString(v Raw) (string, bool) {
	s, ok := rawText(v, codeStr8, codeStr32)
	return string(s), ok
}

func rawSymbol(v Raw) (Symbol, bool) {
	s, ok := rawText(v, codeSym8, codeSym32)
	return Symbol(s), ok
}

// rawBinary returns octets that share memory with v and are not nil.
func rawBinary(v Raw) ([]byte, bool) { return rawText(v, codeBin8, codeBin32) }

// rawUint, unlike the generic way below, costs no allocation, and so do rawBool
// and rawUbyte: Transfer, Disposition and Flow depend on it.
func rawUint(v Raw) (uint32, bool) {
	u, n := uintAt(v, 0)
	return uint32(u), n > 0 && u != noUint
}

func rawBool(v Raw) (bool, bool) {
	b, _ := boolAt(v, 0)
	return b.V, b.Set
}

func rawUbyte(v Raw) (uint8, bool) {
	if v[0] != codeUbyte {
		return 0, false
	}
	return v[1], true
}

// rawScalar returns the value if it has the Go type T.
func rawScalar[T any](v Raw) (T, bool) {
	var zero T
	if layouts[v[0]] >= layoutVar8 || layouts[v[0]] == layoutUnknown {
		return zero, false
	}
	value, _ := build(v[0], v[1:])
	t, ok := value.(T)
	return t, ok
}

func rawUshort(v Raw) (uint16, bool)       { return rawScalar[uint16](v) }
func rawUlong(v Raw) (uint64, bool)        { return rawScalar[uint64](v) }
func rawTimestamp(v Raw) (Timestamp, bool) { return rawScalar[Timestamp](v) }

// What a field that stays encoded must be.

func isMap(v Raw) bool { return v[0] == codeMap8 || v[0] == codeMap32 }

func isDescribed(v Raw) bool { return v[0] == codeDescribed }

// isCapabilities accepts symbols and, as clients send such, arrays of any other type
// and lists: they name no capability that anybody knows, and are no fault (RT E1).
func isCapabilities(v Raw) bool {
	if isSymbols(v) || len(v) == 0 {
		return true
	}
	switch v[0] {
	case codeArray8, codeArray32, codeList0, codeList8, codeList32:
		return true
	}
	return false
}

// isSymbols accepts what a field of several symbols may be: one, or an array.
func isSymbols(v Raw) bool {
	if v[0] == codeSym8 || v[0] == codeSym32 {
		return true
	}
	_, ok := rawSymbols(v)
	return ok
}

// fields reads the fields of a composite one after the other. The first error
// sticks; done returns it.
type fields struct {
	name string // of the composite
	it   ListIter
	err  *Error
}

// readComposite checks the described list at the start of b, which must have
// the descriptor code and at most so many fields, and returns its length.
func readComposite(b []byte, code uint64, name string, maxFields int) (f fields, n int, err error) {
	got, d := descriptor(b)
	if d < 0 {
		return f, 0, named(name, skipError(d))
	}
	if got != code {
		return f, 0, decodeErrorf("%s: wrong descriptor", name)
	}
	n = skip(b, MaxDepth)
	if n < 0 {
		return f, 0, named(name, skipError(n))
	}
	f.name = name
	it, err := IterList(Raw(b[d:n]))
	if err != nil || b[d] == codeNull {
		return f, 0, decodeErrorf("%s: not a list", name)
	}
	if it.Len() > maxFields {
		return f, 0, decodeErrorf("%s: %d fields, only %d are defined", name, it.Len(), maxFields)
	}
	f.it = it
	return f, n, nil
}

// named adds to an error what it was that could not be decoded.
func named(name string, e *Error) *Error {
	e.Description = name + ": " + e.Description
	return e
}

// next returns the next field, nil if it is absent or null.
func (f *fields) next() Raw {
	v, _ := f.it.Next()
	if v.IsNull() {
		return nil
	}
	return v
}

func (f *fields) fail(field, what string) {
	if f.err == nil {
		f.err = decodeErrorf("%s: %s %s", f.name, field, what)
	}
}

func (f *fields) done() error {
	if f.err != nil {
		return f.err
	}
	return nil
}

// raw returns the next field as it is, if it is of the right type.
func (f *fields) raw(field string, is func(Raw) bool) Raw {
	v := f.next()
	if v == nil {
		return nil
	}
	if !is(v) {
		f.fail(field, "has the wrong type")
		return nil
	}
	return v
}

// opt returns the next field, which may be absent.
func opt[T any](f *fields, field string, read func(Raw) (T, bool)) Opt[T] {
	v := f.next()
	if v == nil {
		return Opt[T]{}
	}
	t, ok := read(v)
	if !ok {
		f.fail(field, "has the wrong type")
	}
	return Opt[T]{t, ok}
}

// need returns the next field, which must be there.
func need[T any](f *fields, field string, read func(Raw) (T, bool)) T {
	o := opt(f, field, read)
	if !o.Set {
		f.fail(field, "is missing")
	}
	return o.V
}
