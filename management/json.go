package management

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"qdrouter/amqp"
)

// appendJSON appends v as JSON text in the form scripts know from the old
// router: keys in the order of the map, ", " and ": " as separators, anything
// outside ASCII as \u escapes. With indent < 0 all on one line, else one member
// a line, each level indented by indent blanks (MG 4.10).
func appendJSON(b []byte, v any, indent, depth int) []byte {
	newline := func(b []byte, depth int) []byte {
		if indent < 0 {
			return b
		}
		b = append(b, '\n')
		return append(b, strings.Repeat(" ", indent*depth)...)
	}
	separator := ", "
	if indent >= 0 {
		separator = ","
	}
	switch v := v.(type) {
	case amqp.Map:
		if len(v) == 0 {
			return append(b, "{}"...)
		}
		b = append(b, '{')
		for i, e := range v {
			if i > 0 {
				b = append(b, separator...)
			}
			b = newline(b, depth+1)
			b = appendJSONString(b, fmt.Sprint(e.Key))
			b = append(b, ": "...)
			b = appendJSON(b, e.Value, indent, depth+1)
		}
		b = newline(b, depth)
		return append(b, '}')
	case amqp.List:
		if len(v) == 0 {
			return append(b, "[]"...)
		}
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, separator...)
			}
			b = newline(b, depth+1)
			b = appendJSON(b, item, indent, depth+1)
		}
		b = newline(b, depth)
		return append(b, ']')
	case string:
		return appendJSONString(b, v)
	}
	text, err := json.Marshal(v)
	if err != nil { // the schema holds strings, numbers and booleans only
		panic(fmt.Sprintf("management: no JSON form for %T", v))
	}
	return append(b, text...)
}

func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r >= ' ' && r < 0x7f:
			b = append(b, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = appendEscape(appendEscape(b, high), low)
		default:
			b = appendEscape(b, r)
		}
	}
	return append(b, '"')
}

func appendEscape(b []byte, r rune) []byte {
	hex := strconv.FormatInt(int64(r), 16)
	b = append(b, `\u`...)
	b = append(b, "0000"[:4-len(hex)]...)
	return append(b, hex...)
}
