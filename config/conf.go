package config

import (
	"fmt"
	"regexp"
	"strings"
)

// The forms of a line of the conf format (CFG B3, B4, B9), after comments and outer
// white space are gone.
var (
	sectionLine = regexp.MustCompile(`^([\pL\pN_-]+)[ \t]*\{$`)
	mapLine     = regexp.MustCompile(`^(\$*[\pL\pN_-]+)[ \t]*:[ \t]*\{$`)
	itemLine    = regexp.MustCompile(`^([\pL\pN_-]+)[ \t]*:[ \t]*([^ \t{].*)$`)
	emptyLine   = regexp.MustCompile(`^([\pL\pN_-]+)[ \t]*:$`)
	quotedLine  = regexp.MustCompile(`^"[^"]*"[ \t]*:[ \t]*[^ \t{]`)
)

// hashKeys are the keys, as written, whose values keep # and end at a blank (CFG B6).
var hashKeys = map[string]bool{"pattern": true, "bindingKey": true, "hostname": true}

// jsonKeys are the keys, in camel case, whose values are JSON (CFG B9). 1.19 knows them
// only as they stand here, and takes JSON under open-properties with a warning (CFG B11).
var jsonKeys = map[string]bool{"groups": true, "openProperties": true}

// A confReader reads the conf format, line by line, and goes on after an error so
// that all of them are reported.
type confReader struct {
	text  string
	lines []string
	next  int // index of the next line, which is the number of the current one
	start int // where the next line starts in text

	sections []*section
	warnings []string // for the log, module AGENT
	errors   []*syntaxError

	incomplete bool // a section may be missing: what should have opened it was not understood
}

// readConf reads the conf format (CFG B2 to B11).
func readConf(text string) *confReader {
	r := &confReader{text: text, lines: strings.Split(text, "\n")}
	r.file()
	return r
}

// current is the section being read, or nil.
func (r *confReader) current() *section {
	if len(r.sections) == 0 {
		return nil
	}
	return r.sections[len(r.sections)-1]
}

func (r *confReader) errorf(line int, attr, format string, args ...any) {
	err := &syntaxError{line: line, attr: attr, text: fmt.Sprintf(format, args...)}
	if s := r.current(); s != nil && attr != "" {
		err.section = s.name
	}
	r.errors = append(r.errors, err)
}

// invalid reports a line that fits no form (CFG B11).
func (r *confReader) invalid(line, why string) {
	r.warnInvalid(line)
	r.errorf(r.next, "", "%s: %s", why, line)
}

func (r *confReader) warnInvalid(line string) {
	r.warnings = append(r.warnings, fmt.Sprintf("Invalid config file syntax (line %d):\n>>> %s", r.next, line))
}

// line returns the next line that is neither blank nor a comment, trimmed (CFG B2).
func (r *confReader) line() (string, bool) {
	for r.next < len(r.lines) {
		line := r.lines[r.next]
		r.start += len(line) + 1
		r.next++
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			return line, true
		}
	}
	return "", false
}

// back makes line return the current line again.
func (r *confReader) back() {
	r.next--
	r.start -= len(r.lines[r.next]) + 1
}

// uncomment cuts a line at the first #, wherever it stands (CFG B5).
func uncomment(line string) string {
	line, _, _ = strings.Cut(line, "#")
	return strings.TrimSpace(line)
}

// file reads the top level: sections.
func (r *confReader) file() {
	lost := false // behind an error, up to the next section or closing brace
	for {
		full, ok := r.line()
		if !ok {
			return
		}
		line := uncomment(full)
		m := sectionLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			lost = false
			r.section(m[1])
		case line == "}" && lost:
			lost = false
		case line == "}":
			r.errorf(r.next, "", `"}" that closes nothing`)
		case lost:
		case itemLine.MatchString(line), mapLine.MatchString(line):
			lost, r.incomplete = true, true
			r.errorf(r.next, "", "attribute outside of a section: %s", full)
		default:
			lost, r.incomplete = true, true
			r.invalid(full, `neither "NAME {" nor "}"`)
		}
	}
}

// section reads the attributes of a section up to its closing brace.
func (r *confReader) section(name string) {
	s := &section{name: camelCase(name), line: r.next}
	r.sections = append(r.sections, s)
	for {
		full, ok := r.line()
		if !ok {
			r.errorf(s.line, "", `section %q has no closing "}"`, name)
			return
		}
		line := uncomment(full)
		switch {
		case line == "}":
			return
		case sectionLine.MatchString(line):
			r.errorf(r.next, "", `section inside of section %q of line %d, which has no closing "}": %s`, name, s.line, full)
			r.back()
			return
		case quotedLine.MatchString(full):
			r.quoted(s, full)
		default:
			at := r.next
			if key, value, ok := r.attribute(full, false); ok {
				s.add(camelCase(key), value, at)
			} else {
				s.addBroken(camelCase(key))
			}
		}
	}
}

// quoted reads a line such as "id": "A", which 1.19 takes with a warning (CFG B11).
func (r *confReader) quoted(s *section, line string) {
	j := &jsonReader{text: line + "}", line: r.next, lax: true}
	err := j.members(1, func(key string, at int, v any) { s.add(camelCase(key), v, at) })
	if err == nil && j.peek() != 0 {
		err = j.unexpected("the end of the line")
	}
	if err != nil {
		r.invalid(line, err.text)
		return
	}
	r.warnInvalid(line)
}

// attribute reads the attribute that starts with the current line. In groups that
// are written without quotes the value may be absent and a comma behind it is
// dropped (CFG B10). With !ok the fault is reported, and key may be known.
func (r *confReader) attribute(full string, unquoted bool) (key string, value any, ok bool) {
	if m := itemLine.FindStringSubmatch(full); m != nil && hashKeys[m[1]] {
		raw := m[2]
		if end := strings.IndexAny(raw, " \t"); end >= 0 {
			raw = raw[:end]
		}
		return r.scalar(m[1], raw, unquoted)
	}
	line := uncomment(full)
	if m := mapLine.FindStringSubmatch(line); m != nil {
		key := m[1]
		if !unquoted && (key == "openProperties" || jsonKeys[camelCase(key)] && r.jsonAhead()) {
			value, ok := r.json(key)
			return key, value, ok
		}
		return key, r.nested(key, unquoted || camelCase(key) == "groups", 1), true
	}
	if m := itemLine.FindStringSubmatch(line); m != nil {
		if n := len(line); n < len(full) && full[n] == '#' {
			r.warnings = append(r.warnings, fmt.Sprintf("Value of attribute '%s' is cut at '#' (line %d)", m[1], r.next))
		}
		return r.scalar(m[1], m[2], unquoted)
	}
	if m := emptyLine.FindStringSubmatch(line); m != nil {
		if unquoted {
			return m[1], "", true
		}
		r.invalid(full, "attribute without a value")
		return m[1], nil, false
	}
	r.invalid(full, `neither "KEY: VALUE" nor "KEY: {" nor "}"`)
	return "", nil, false
}

// scalar decodes a value (CFG B7).
func (r *confReader) scalar(key, raw string, unquoted bool) (string, any, bool) {
	if unquoted {
		raw = strings.TrimSpace(strings.TrimSuffix(raw, ","))
	}
	value, err := unescape(raw)
	if err != nil {
		r.errorf(r.next, key, "%v", err)
		return key, nil, false
	}
	return key, value, true
}

// nested reads the entries of a map up to its closing brace.
func (r *confReader) nested(name string, unquoted bool, depth int) map[string]any {
	start := r.next
	m := map[string]any{}
	for {
		full, ok := r.line()
		if !ok {
			r.errorf(start, "", `map %q has no closing "}"`, name)
			return m
		}
		line := uncomment(full)
		if line == "}" || unquoted && line == "}," {
			return m
		}
		if sub := mapLine.FindStringSubmatch(line); sub != nil {
			if depth == maxNesting {
				r.errorf(r.next, "", "more than %d levels of nesting", maxNesting)
			} else {
				m[sub[1]] = r.nested(sub[1], unquoted, depth+1)
			}
		} else if key, value, ok := r.attribute(full, unquoted); ok {
			m[key] = value
		}
	}
}

// jsonAhead reports whether the block that follows is JSON: its first line starts
// with a quote or a closing brace (CFG B10).
func (r *confReader) jsonAhead() bool {
	here := *r
	line, ok := r.line()
	*r = here
	return !ok || line[0] == '"' || line[0] == '}'
}

// json reads a JSON map whose opening brace ends the current line (CFG B9).
func (r *confReader) json(key string) (map[string]any, bool) {
	start := r.next
	j := &jsonReader{text: r.text, pos: r.start, line: r.next + 1, lax: true}
	m := map[string]any{}
	if err := j.members(1, func(key string, _ int, v any) { m[key] = v }); err != nil {
		r.errorf(err.line, key, "%s", err.text)
		r.skipJSON()
		return nil, false
	}
	for r.next < j.line {
		r.start += len(r.lines[r.next]) + 1
		r.next++
	}
	rest, _, _ := strings.Cut(j.text[j.pos:], "\n")
	rest = strings.TrimSpace(strings.TrimPrefix(uncomment(rest), ","))
	if rest != "" {
		r.errorf(r.next, key, `text behind the "}" that closes the map of line %d: %s`, start, rest)
		return nil, false
	}
	return m, true
}

// skipJSON goes behind a broken JSON block: to the brace that pairs with its first
// one or, if there is none, to the next section.
func (r *confReader) skipJSON() {
	for depth := 1; depth > 0; {
		line, ok := r.line()
		if !ok {
			return
		}
		if sectionLine.MatchString(uncomment(line)) {
			r.back()
			return
		}
		inString := false
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '\\' && inString:
				i++
			case c == '"':
				inString = !inString
			case c == '{' && !inString:
				depth++
			case c == '}' && !inString:
				depth--
			}
		}
	}
}
