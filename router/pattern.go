package router

import "strings"

// patterns maps address patterns to values. Tokens are split at '.' and '/'; '*' stands for
// exactly one token, '#' for any number of them. The best match is decided token by token from
// the left: exact, then '*', then '#' (RT F9, F10).
type patterns[T any] struct {
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

// add records v for a pattern and reports false when the pattern has a value already.
func (p *patterns[T]) add(pattern string, v T) bool {
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

// remove forgets a pattern.
func (p *patterns[T]) remove(pattern string) {
	n := &p.root
	for _, t := range normalPattern(splitTokens(pattern)) {
		if n = n.step(t, false); n == nil {
			return
		}
	}
	var zero T
	n.value, n.set = zero, false
}

// match returns the value of the best pattern for an address.
func (p *patterns[T]) match(address string) (v T, ok bool) {
	n := p.root.match(splitTokens(address))
	if n == nil {
		return v, false
	}
	return n.value, true
}

func (n *patternNode[T]) match(tokens []string) *patternNode[T] {
	if len(tokens) == 0 {
		if n.set {
			return n
		}
		if n.hash != nil {
			return n.hash.match(nil)
		}
		return nil
	}
	if next := n.exact[tokens[0]]; next != nil {
		if m := next.match(tokens[1:]); m != nil {
			return m
		}
	}
	if n.star != nil {
		if m := n.star.match(tokens[1:]); m != nil {
			return m
		}
	}
	if n.hash != nil {
		for i := 0; i <= len(tokens); i++ {
			if m := n.hash.match(tokens[i:]); m != nil {
				return m
			}
		}
	}
	return nil
}
