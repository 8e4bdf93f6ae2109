package router

import "strings"

// Patterns maps address patterns to values. Tokens are split at '.' and '/'; '*' stands for
// exactly one token, '#' for any number of them. The best match is decided token by token from
// the left: exact, then '*', then '#' (RT F9, F10). Nobody may change it while others use it.
type Patterns[T any] struct {
	root patternNode[T]
}

type patternNode[T any] struct {
	exact map[string]*patternNode[T]
	star  *patternNode[T]
	hash  *patternNode[T]
	value T
	set   bool
}

func splitTokens(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '/' })
}

// normalPattern puts wildcards into their normal order: "#.*" becomes "*.#" and "#.#" becomes
// "#" (RT F11).
func normalPattern(tokens []string) []string {
	out := append([]string(nil), tokens...)
	for i := 0; i < len(out); {
		if out[i] != "#" || i+1 == len(out) {
			i++
			continue
		}
		switch out[i+1] {
		case "#":
			out = append(out[:i], out[i+1:]...)
		case "*":
			out[i], out[i+1] = "*", "#"
			i = 0
		default:
			i++
		}
	}
	return out
}

func (n *patternNode[T]) step(token string, create bool) *patternNode[T] {
	var next *patternNode[T]
	switch token {
	case "*":
		next = n.star
	case "#":
		next = n.hash
	default:
		next = n.exact[token]
	}
	if next != nil || !create {
		return next
	}
	next = &patternNode[T]{}
	switch token {
	case "*":
		n.star = next
	case "#":
		n.hash = next
	default:
		if n.exact == nil {
			n.exact = make(map[string]*patternNode[T])
		}
		n.exact[token] = next
	}
	return next
}

// Add records v for a pattern and reports false when the pattern has a value already.
func (p *Patterns[T]) Add(pattern string, v T) bool {
	n := &p.root
	for _, t := range normalPattern(splitTokens(pattern)) {
		n = n.step(t, true)
	}
	if n.set {
		return false
	}
	n.value, n.set = v, true
	return true
}

// Get returns the value of a pattern itself.
func (p *Patterns[T]) Get(pattern string) (v T, ok bool) {
	n := &p.root
	for _, t := range normalPattern(splitTokens(pattern)) {
		if n = n.step(t, false); n == nil {
			return v, false
		}
	}
	return n.value, n.set
}

// Set records v for a pattern in place of the value it has.
func (p *Patterns[T]) Set(pattern string, v T) {
	if !p.Add(pattern, v) {
		n := &p.root
		for _, t := range normalPattern(splitTokens(pattern)) {
			n = n.step(t, false)
		}
		n.value = v
	}
}

// Remove forgets a pattern.
func (p *Patterns[T]) Remove(pattern string) {
	p.root.remove(normalPattern(splitTokens(pattern)))
}

// remove forgets the pattern below n and reports whether n is of no use any more.
func (n *patternNode[T]) remove(tokens []string) (empty bool) {
	if len(tokens) == 0 {
		var zero T
		n.value, n.set = zero, false
	} else if next := n.step(tokens[0], false); next != nil && next.remove(tokens[1:]) {
		switch tokens[0] {
		case "*":
			n.star = nil
		case "#":
			n.hash = nil
		default:
			delete(n.exact, tokens[0])
		}
	}
	return !n.set && n.star == nil && n.hash == nil && len(n.exact) == 0
}

// Match returns the value of the best pattern for an address.
func (p *Patterns[T]) Match(address string) (v T, ok bool) {
	var m matching[T]
	n := m.find(&p.root, splitTokens(address))
	if n == nil {
		return v, false
	}
	return n.value, true
}

// matching is one search. vain remembers of nodes below a '#' with how many tokens left they were
// last tried in vain: such a node is reached again from every other place of an earlier '#', and
// without that an address of many tokens and a pattern of several '#' cost more than anybody has.
type matching[T any] struct {
	vain map[*patternNode[T]]int
}

func (m *matching[T]) find(n *patternNode[T], tokens []string) *patternNode[T] {
	if len(tokens) == 0 {
		if n.set {
			return n
		}
		if n.hash != nil {
			return m.find(n.hash, nil)
		}
		return nil
	}
	if next := n.exact[tokens[0]]; next != nil {
		if found := m.find(next, tokens[1:]); found != nil {
			return found
		}
	}
	if n.star != nil {
		if found := m.find(n.star, tokens[1:]); found != nil {
			return found
		}
	}
	if n.hash == nil {
		return nil
	}
	// What was tried with as many tokens left, or more, need not be tried again.
	tried, again := m.vain[n.hash]
	for i := 0; i <= len(tokens); i++ {
		left := len(tokens) - i
		if again && left <= tried {
			break
		}
		if found := m.find(n.hash, tokens[i:]); found != nil {
			return found
		}
	}
	if m.vain == nil {
		m.vain = make(map[*patternNode[T]]int)
	}
	m.vain[n.hash] = max(tried, len(tokens))
	return nil
}
