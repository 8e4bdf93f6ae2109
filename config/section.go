package config

import (
	"strings"
	"unicode"
)

// A section is a section of a file as it was written, with names in camel case.
type section struct {
	name   string
	line   int
	attrs  []attr
	broken map[string]bool // attributes that could not be read; the fault is reported
}

// An attr is one attribute of a section. Of several with one name the last one
// counts (CFG B16).
type attr struct {
	name  string
	value any // see Normalize
	line  int
}

func (s *section) add(name string, value any, line int) {
	s.attrs = append(s.attrs, attr{name, value, line})
}

func (s *section) addBroken(name string) {
	if s.broken == nil {
		s.broken = map[string]bool{}
	}
	s.broken[name] = true
}

// get returns the attribute of that name that counts, or nil.
func (s *section) get(name string) *attr {
	for i := len(s.attrs) - 1; i >= 0; i-- {
		if s.attrs[i].name == name {
			return &s.attrs[i]
		}
	}
	return nil
}

// take removes the attribute and returns what counted, or nil.
func (s *section) take(name string) *attr {
	var taken *attr
	rest := s.attrs[:0:0]
	for _, a := range s.attrs {
		if a.name == name {
			taken = &a
		} else {
			rest = append(rest, a)
		}
	}
	s.attrs = rest
	return taken
}

// values returns the attributes as Normalize takes them.
func (s *section) values() map[string]any {
	m := make(map[string]any, len(s.attrs))
	for _, a := range s.attrs {
		m[a.name] = a.value
	}
	return m
}

// camelCase joins the words of a section's or an attribute's name (CFG B14): each
// word after a separator gets a capital first letter and small other letters.
func camelCase(name string) string {
	words := strings.FieldsFunc(name, isSeparator)
	if len(words) == 0 || len(words) == 1 && len(words[0]) == len(name) {
		return name
	}
	if isSeparator(rune(name[0])) {
		words = append([]string{""}, words...)
	}
	var b strings.Builder
	b.WriteString(words[0])
	for _, w := range words[1:] {
		for i, r := range w {
			if i == 0 {
				b.WriteRune(unicode.ToUpper(r))
			} else {
				b.WriteRune(unicode.ToLower(r))
			}
		}
	}
	return b.String()
}

func isSeparator(r rune) bool { return r == ' ' || r == '_' || r == '-' || r == '.' }
