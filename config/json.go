package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting bounds the depth of maps and lists in a file. Nothing in the schema
// needs more than three.
const maxNesting = 64

// A syntaxError is a place where a file cannot be read.
type syntaxError struct {
	line    int
	section string // in which it is, when that is known
	attr    string
	text    string
}

func (e *syntaxError) Error() string { return e.text }

// A jsonReader reads JSON text and knows in which line it is.
//
// In lax mode, for the JSON blocks inside the conf format (CFG B9), a comment from
// # to the end of the line counts as white space, and a comma may stand before a
// closing bracket.
type jsonReader struct {
	text string
	pos  int // of the next octet
	line int // in which pos is, from 1
	lax  bool
}

func (r *jsonReader) errorf(format string, args ...any) *syntaxError {
	return &syntaxError{line: r.line, text: fmt.Sprintf(format, args...)}
}

// peek skips white space and returns the next octet, or 0 at the end.
func (r *jsonReader) peek() byte {
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '\n':
			r.line++
			r.pos++
		case c == ' ', c == '\t', c == '\r':
			r.pos++
		case c == '#' && r.lax:
			end := strings.IndexByte(r.text[r.pos:], '\n')
			if end < 0 {
				end = len(r.text) - r.pos
			}
			r.pos += end
		default:
			return c
		}
	}
	return 0
}

// unexpected describes what stands where something else should.
func (r *jsonReader) unexpected(want string) *syntaxError {
	if r.peek() == 0 {
		return r.errorf("end of text where %s should be", want)
	}
	c, _ := utf8.DecodeRuneInString(r.text[r.pos:])
	return r.errorf("%q where %s should be", c, want)
}

func (r *jsonReader) expect(c byte, want string) *syntaxError {
	if r.peek() != c {
		return r.unexpected(want)
	}
	r.pos++
	return nil
}

// value reads one value: nil, bool, int64, float64, string, []any or
// map[string]any.
func (r *jsonReader) value(depth int) (any, *syntaxError) {
	if depth > maxNesting {
		return nil, r.errorf("more than %d levels of nesting", maxNesting)
	}
	switch c := r.peek(); c {
	case '{':
		m := map[string]any{}
		err := r.object(depth, func(key string, _ int, v any) { m[key] = v })
		return m, err
	case '[':
		list := []any{}
		err := r.array(func() *syntaxError {
			v, err := r.value(depth + 1)
			list = append(list, v)
			return err
		})
		return list, err
	case '"':
		return r.string()
	case 't', 'f', 'n':
		for word, v := range map[string]any{"true": true, "false": false, "null": nil} {
			if strings.HasPrefix(r.text[r.pos:], word) {
				r.pos += len(word)
				return v, nil
			}
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return r.number()
	}
	return nil, r.unexpected("a JSON value")
}

// object reads a map and calls member for each entry; line is that of the key.
func (r *jsonReader) object(depth int, member func(key string, line int, v any)) *syntaxError {
	if err := r.expect('{', `"{"`); err != nil {
		return err
	}
	return r.members(depth, member)
}

// members is object for a map whose opening brace was read.
func (r *jsonReader) members(depth int, member func(key string, line int, v any)) *syntaxError {
	return r.items('}', func() *syntaxError {
		if r.peek() != '"' {
			return r.errorf("Expecting property name enclosed in double quotes: %v", r.unexpected("it"))
		}
		line := r.line
		key, err := r.string()
		if err != nil {
			return err
		}
		if err := r.expect(':', `":"`); err != nil {
			return err
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		member(key, line, v)
		return nil
	})
}

// array reads a list; item reads one element.
func (r *jsonReader) array(item func() *syntaxError) *syntaxError {
	if err := r.expect('[', `"["`); err != nil {
		return err
	}
	return r.items(']', item)
}

// items reads items separated by commas up to the closing bracket.
func (r *jsonReader) items(closing byte, item func() *syntaxError) *syntaxError {
	want := fmt.Sprintf(`"," or "%c"`, closing)
	if r.peek() == closing {
		r.pos++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch r.peek() {
		case closing:
			r.pos++
			return nil
		case ',':
			r.pos++
			if r.lax && r.peek() == closing {
				r.pos++
				return nil
			}
		default:
			return r.unexpected(want)
		}
	}
}

// string reads a string, quotes included.
func (r *jsonReader) string() (string, *syntaxError) {
	start := r.pos + 1
	for i := start; i < len(r.text); i++ {
		switch r.text[i] {
		case '\\':
			i++
		case '\n':
			return "", r.errorf("string without closing quote")
		case '"':
			r.pos = i + 1
			s, err := unescape(r.text[start:i])
			if err != nil {
				return "", r.errorf("%v", err)
			}
			return s, nil
		}
	}
	return "", r.errorf("string without closing quote")
}

// number reads a number: int64 when it is whole and fits, else float64.
func (r *jsonReader) number() (any, *syntaxError) {
	digits := func(i int) int {
		for i < len(r.text) && '0' <= r.text[i] && r.text[i] <= '9' {
			i++
		}
		return i
	}
	at := func(i int, set string) bool { return i < len(r.text) && strings.IndexByte(set, r.text[i]) >= 0 }

	start, i := r.pos, r.pos
	if at(i, "-") {
		i++
	}
	first := i
	i = digits(i)
	ok := i == first+1 || i > first && r.text[first] != '0'
	whole := true
	if at(i, ".") {
		whole = false
		end := digits(i + 1)
		ok = ok && end > i+1
		i = end
	}
	if at(i, "eE") {
		whole = false
		i++
		if at(i, "+-") {
			i++
		}
		end := digits(i)
		ok = ok && end > i
		i = end
	}
	text := r.text[start:i]
	if !ok {
		return nil, r.errorf("%q is not a JSON number", text)
	}
	r.pos = i
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, r.errorf("%s is too large a number", text)
	}
	return f, nil
}

// unescape decodes the inside of a JSON string (CFG B7).
func unescape(s string) (string, error) {
	plain := true
	for i := 0; i < len(s); i++ {
		if s[i] == '"' || s[i] == '\\' || s[i] < ' ' {
			plain = false
			break
		}
	}
	if plain {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"':
			return "", fmt.Errorf(`unescaped double quote in a value; write \"`)
		case c < ' ':
			return "", fmt.Errorf("control character %q in a value", c)
		case c != '\\':
			b = append(b, c)
			continue
		}
		i++
		if i == len(s) {
			return "", fmt.Errorf(`lone backslash at the end of a value; write \\`)
		}
		switch s[i] {
		case '"', '\\', '/':
			b = append(b, s[i])
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, ok := hex4(s[i+1:])
			if !ok {
				return "", fmt.Errorf(`\u without four hexadecimal digits`)
			}
			i += 4
			if 0xD800 <= r && r < 0xDC00 && strings.HasPrefix(s[i+1:], `\u`) {
				if low, ok := hex4(s[i+3:]); ok && 0xDC00 <= low && low < 0xE000 {
					r = 0x10000 + (r-0xD800)<<10 + (low - 0xDC00)
					i += 6
				}
			}
			b = utf8.AppendRune(b, r) // half of a pair becomes U+FFFD
		default:
			c, _ := utf8.DecodeRuneInString(s[i:])
			return "", fmt.Errorf(`unknown escape \%c; write \\ for a backslash`, c)
		}
	}
	return string(b), nil
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 || strings.ContainsAny(s[:4], "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:4], 16, 16)
	return rune(n), err == nil
}

// readJSON reads the JSON format (CFG B13): a list of lists ["section", {…}]. Lines
// that start with # are comments.
func readJSON(text string) ([]*section, *syntaxError) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines[i] = ""
		}
	}
	r := &jsonReader{text: strings.Join(lines, "\n"), line: 1}
	var sections []*section
	err := r.array(func() *syntaxError {
		s := &section{}
		part := 0
		err := r.array(func() *syntaxError {
			part++
			switch part {
			case 1:
				if r.peek() != '"' {
					return r.unexpected("the name of a section in double quotes")
				}
				s.line = r.line
				name, err := r.string()
				s.name = camelCase(name)
				return err
			case 2:
				if r.peek() != '{' {
					return r.unexpected(`"{"`)
				}
				return r.object(1, func(key string, line int, v any) {
					s.add(camelCase(key), v, line)
				})
			}
			return r.unexpected(`"]"`)
		})
		if err == nil && part != 2 {
			err = r.errorf(`a section must be a list of a name and a map: ["listener", {"port": "amqp"}]`)
		}
		if err == nil {
			sections = append(sections, s)
		}
		return err
	})
	if err == nil && r.peek() != 0 {
		err = r.unexpected("the end of the file")
	}
	return sections, err
}
