package client

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"qdrouter/amqp"
)

// A Map is a map with text keys that remembers the order of its entries.
type Map []Entry

// An Entry is one key of a Map with its value.
type Entry struct {
	Key   string
	Value any
}

// Get returns the value under key and whether there is one.
func (m Map) Get(key string) (any, bool) {
	if i := m.index(key); i >= 0 {
		return m[i].Value, true
	}
	return nil, false
}

// Text returns the string under key, or "".
func (m Map) Text(key string) string {
	v, _ := m.Get(key)
	text, _ := v.(string)
	return text
}

// Map returns the map under key, or nil.
func (m Map) Map(key string) Map {
	v, _ := m.Get(key)
	sub, _ := v.(Map)
	return sub
}

// With returns m with value under key, in the key's old place or at the end. It
// may change the entries of m.
func (m Map) With(key string, value any) Map {
	if i := m.index(key); i >= 0 {
		m[i].Value = value
		return m
	}
	return append(m, Entry{key, value})
}

func (m Map) index(key string) int {
	return slices.IndexFunc(m, func(e Entry) bool { return e.Key == key })
}

// plain turns a decoded AMQP value into one of the package's values.
func plain(v any) any {
	switch v := v.(type) {
	case nil, bool, string, int64, float64:
		return v
	case float32:
		return float64(v)
	case []byte:
		return string(v)
	case amqp.Symbol:
		return string(v)
	case amqp.Char:
		return string(rune(v))
	case amqp.Timestamp:
		return int64(v)
	case amqp.UUID:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[0:4], v[4:6], v[6:8], v[8:10], v[10:])
	case amqp.List:
		return plainList(v)
	case amqp.Array:
		return plainList(v.Items)
	case amqp.Map:
		m := make(Map, 0, len(v))
		for _, e := range v {
			m = append(m, Entry{keyText(e.Key), plain(e.Value)})
		}
		return m
	case amqp.Described:
		return plain(v.Value)
	case uint64:
		if v > math.MaxInt64 {
			return v
		}
	}
	if n, ok := amqp.Int(v); ok {
		return n
	}
	return fmt.Sprint(v)
}

func plainList(items []any) []any {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = plain(item)
	}
	return list
}

// keyText is the text of a map key; keys that are not text occur in maps that
// clients made, such as connection properties.
func keyText(key any) string {
	switch key := plain(key).(type) {
	case string:
		return key
	case bool:
		return strconv.FormatBool(key)
	case nil:
		return "null"
	default:
		return fmt.Sprint(key)
	}
}

// Encode returns the encoding of one of the package's values, maps in their order.
// It is for those who answer a [Call] themselves.
func Encode(v any) amqp.Raw { return amqp.AppendValue(nil, ordered(v)) }

func ordered(v any) any {
	switch v := v.(type) {
	case Map:
		m := make(amqp.Map, len(v))
		for i, e := range v {
			m[i] = amqp.MapEntry{Key: e.Key, Value: ordered(e.Value)}
		}
		return m
	case []any:
		list := make(amqp.List, len(v))
		for i, item := range v {
			list[i] = ordered(item)
		}
		return list
	}
	return v
}

// wire turns a value of this package into one that go-amqp encodes.
func wire(v any) any {
	switch v := v.(type) {
	case Map:
		m := make(map[string]any, len(v))
		for _, e := range v {
			m[e.Key] = wire(e.Value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = wire(item)
		}
		return list
	}
	return v
}
