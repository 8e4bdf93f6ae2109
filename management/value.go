package management

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"qdrouter/amqp"
)

// keyText gives a map key that is a string or symbol.
func keyText(key any) (string, bool) {
	switch key := key.(type) {
	case string:
		return key, true
	case amqp.Symbol:
		return string(key), true
	}
	return "", false
}

// plain turns an AMQP value into the few Go types attributes are kept in:
// string, bool, int64, float64, map[string]any, []any or nil. Values without a
// place among these (decimals, numbers beyond an int64) become their text.
func plain(v any) any {
	switch v := v.(type) {
	case nil, string, bool, int64, float64:
		return v
	case amqp.Symbol:
		return string(v)
	case []byte:
		return string(v)
	case float32:
		return float64(v)
	case amqp.Char:
		return string(rune(v))
	case amqp.Timestamp:
		return int64(v)
	case amqp.UUID:
		return hex.EncodeToString(v[:])
	case amqp.List:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plain(item)
		}
		return list
	case amqp.Array:
		list := make([]any, len(v.Items))
		for i, item := range v.Items {
			list[i] = plain(item)
		}
		return list
	case amqp.Map:
		m := make(map[string]any, len(v))
		for _, e := range v {
			key, ok := keyText(e.Key)
			if !ok {
				key = fmt.Sprint(plain(e.Key))
			}
			m[key] = plain(e.Value)
		}
		return m
	case amqp.Described:
		return plain(v.Value)
	}
	if n, ok := amqp.Int(v); ok {
		return n
	}
	return fmt.Sprint(v)
}

// scalarText gives a scalar AMQP value as text, and "" for anything else.
func scalarText(v any) string {
	switch v := plain(v).(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// wire turns an attribute of a stored entity into the value sent: an int when
// it fits 32 bits, else a long; maps with their keys sorted (MG 2.3).
func wire(v any) any {
	switch v := v.(type) {
	case int64:
		if v >= math.MinInt32 && v <= math.MaxInt32 {
			return int32(v)
		}
		return v
	case map[string]any:
		m := make(amqp.Map, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m = append(m, amqp.MapEntry{Key: key, Value: wire(v[key])})
		}
		return m
	case []any:
		list := make(amqp.List, len(v))
		for i, item := range v {
			list[i] = wire(item)
		}
		return list
	case []string:
		return stringList(v)
	}
	return v
}

func stringList(texts []string) amqp.List {
	list := make(amqp.List, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// orNull gives null for an empty text, as core columns do.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
