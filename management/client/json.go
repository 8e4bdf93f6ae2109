package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"qdrouter/management/jsontext"
)

// OneLine as indentation puts everything on one line.
const OneLine = jsontext.OneLine

// AppendJSON appends v, one of the values of this package, in the layout of
// MG 12.2: entries in their order, ASCII only, and unless the indentation is
// OneLine one entry to a line.
func AppendJSON(b []byte, v any, indent int) []byte {
	return appendNested(b, v, indent, 1)
}

func appendNested(b []byte, v any, indent, depth int) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float64:
		return append(b, floatText(v)...)
	case string:
		return jsontext.AppendString(b, v)
	case []any:
		return jsontext.AppendItems(b, "[]", len(v), indent, depth, func(b []byte, i int) []byte {
			return appendNested(b, v[i], indent, depth+1)
		})
	case Map:
		return jsontext.AppendItems(b, "{}", len(v), indent, depth, func(b []byte, i int) []byte {
			b = jsontext.AppendString(b, v[i].Key)
			return appendNested(append(b, ": "...), v[i].Value, indent, depth+1)
		})
	}
	panic(fmt.Sprintf("client: no JSON for %T", v))
}

// floatText writes a float so that it is recognisable as one.
func floatText(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		format = 'e'
	}
	text := strconv.FormatFloat(v, format, -1, 64)
	if format == 'f' && !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// ParseJSON reads one JSON value and nothing after it. Maps keep the order of
// their entries; of entries with the same key the last one counts.
func ParseJSON(text []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	v, err := parseValue(d)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return v, nil
		} else if err == nil {
			err = errors.New("more than one value")
		}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errors.New("the text ends too early")
	}
	return nil, err
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return parseNumber(token.String())
	case json.Delim:
		if token == '[' {
			list := []any{}
			for d.More() {
				item, err := parseValue(d)
				if err != nil {
					return nil, err
				}
				list = append(list, item)
			}
			_, err := d.Token()
			return list, err
		}
		m := Map{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			m = m.With(key.(string), value)
		}
		_, err := d.Token()
		return m, err
	}
	return token, nil // nil, bool or string
}

func parseNumber(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		return strconv.ParseFloat(text, 64)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n, nil
	}
	if big, ok := new(big.Int).SetString(text, 10); ok && big.IsUint64() {
		return big.Uint64(), nil
	}
	return nil, fmt.Errorf("number %s is out of range", text)
}
