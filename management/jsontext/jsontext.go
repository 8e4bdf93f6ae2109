// Package jsontext writes JSON as the old router's agent and tools did, which
// scripts compare: ASCII only, ", " and ": " as separators, or one entry to a
// line (MG 4.10, 12.2).
package jsontext

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// OneLine as indentation puts everything on one line.
const OneLine = -1

// AppendItems appends the n items of a list or map between the two brackets.
// item appends one. Unless indent is OneLine each item has a line of its own,
// indent*depth blanks from the left, none when indent is negative; the outermost
// items have depth 1.
func AppendItems(b []byte, brackets string, n, indent, depth int, item func(b []byte, i int) []byte) []byte {
	if n == 0 {
		return append(b, brackets...)
	}
	line := func(b []byte, depth int) []byte {
		if indent == OneLine {
			return b
		}
		return append(b, "\n"+strings.Repeat(" ", max(indent, 0)*depth)...)
	}
	b = append(b, brackets[0])
	for i := range n {
		if i > 0 {
			b = append(b, ',')
			if indent == OneLine {
				b = append(b, ' ')
			}
		}
		b = item(line(b, depth), i)
	}
	return append(line(b, depth-1), brackets[1])
}

// AppendString appends s as a JSON string, what is not printable ASCII as
// escapes.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r >= ' ' && r <= '~':
			b = append(b, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}
