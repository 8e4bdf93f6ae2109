package router

import (
	"bytes"
	"strings"
	"sync"
)

// MatchMethod is how an exchange reads subjects and binding keys (RT X1).
type MatchMethod uint8

// The methods. Of AMQP, tokens are split at '.', '*' stands for one token and '#' for any number of
// them; of MQTT they are split at '/', '+' stands for one and '#', as the last token alone, for any
// number.
const (
	MatchAMQP MatchMethod = iota
	MatchMQTT
)

var matchMethods = [...]struct {
	name      string
	separator byte
	one       string
}{{"amqp", '.', "*"}, {"mqtt", '/', "+"}}

const anyTokens = "#"

func (m MatchMethod) String() string { return matchMethods[m].name }

// ParseMatchMethod returns the method of that configuration spelling.
func ParseMatchMethod(s string) (MatchMethod, bool) {
	for i, m := range matchMethods {
		if m.name == s {
			return MatchMethod(i), true
		}
	}
	return 0, false
}

// next cuts the first token off a text of tokens. Separators at the start do not count, nor does
// one at the end; between two others there is an empty token. more is false at the end.
func nextToken(text []byte, separator byte) (token, rest []byte, more bool) {
	if len(text) == 0 {
		return nil, nil, false
	}
	if i := bytes.IndexByte(text, separator); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, nil, true
}

func (m MatchMethod) trim(text []byte) []byte {
	for len(text) > 0 && text[0] == matchMethods[m].separator {
		text = text[1:]
	}
	return text
}

// tokens splits a binding key.
func (m MatchMethod) tokens(key string) (list []string) {
	rest := m.trim([]byte(key))
	for {
		var token []byte
		var more bool
		if token, rest, more = nextToken(rest, matchMethods[m].separator); !more {
			return list
		}
		list = append(list, string(token))
	}
}

// valid reports whether a text can be a binding key: there is a token, and '#' is the last one where
// the method asks for it.
func (m MatchMethod) valid(key string) bool {
	tokens := m.tokens(key)
	if m == MatchMQTT && len(tokens) > 0 && strings.Contains(key, anyTokens) {
		for _, t := range tokens[:len(tokens)-1] {
			if t == anyTokens {
				return false
			}
		}
	}
	return len(tokens) > 0
}

// topics finds all binding keys that match a subject. It is built once and then only read. Values
// are small numbers of the caller's.
//
// A search goes through the subject once and keeps the set of nodes that what it has seen may lead
// to, so it takes at most the tokens times the nodes, whatever the keys are.
type topics struct {
	method MatchMethod
	nodes  []topicNode // 0 is the root
}

type topicNode struct {
	exact  map[string]int32
	one    int32 // the node behind a token of any text; 0 = none
	any    int32 // the node behind any number of tokens; 0 = none
	loops  bool  // is itself such a node
	values []int32
}

func newTopics(method MatchMethod) *topics {
	return &topics{method: method, nodes: make([]topicNode, 1)}
}

func (t *topics) add(key string, value int32) {
	at := int32(0)
	for _, token := range t.method.tokens(key) {
		n := &t.nodes[at]
		var next int32
		switch token {
		case matchMethods[t.method].one:
			next = n.one
		case anyTokens:
			if n.loops {
				continue // "#.#" is "#"
			}
			next = n.any
		default:
			next = n.exact[token]
		}
		if next == 0 {
			next = int32(len(t.nodes))
			switch token {
			case matchMethods[t.method].one:
				n.one = next
			case anyTokens:
				n.any = next
			default:
				if n.exact == nil {
					n.exact = make(map[string]int32)
				}
				n.exact[token] = next
			}
			t.nodes = append(t.nodes, topicNode{loops: token == anyTokens})
		}
		at = next
	}
	n := &t.nodes[at]
	n.values = append(n.values, value)
}

// topicSearch is the memory of a search, to be used again.
type topicSearch struct {
	now, next []int32
	seen      []uint32 // by node: the step that last had it in next
	step      uint32
}

var topicSearches = sync.Pool{New: func() any { return new(topicSearch) }}

// match appends to found the values of all keys that match a subject, each once.
func (t *topics) match(subject []byte, found []int32) []int32 {
	s := topicSearches.Get().(*topicSearch)
	if len(s.seen) < len(t.nodes) {
		s.seen, s.step = make([]uint32, len(t.nodes)), 0
	}
	s.begin()
	s.enter(t, 0)
	rest := t.method.trim(subject)
	for {
		s.now, s.next = s.next, s.now[:0]
		var token []byte
		var more bool
		if token, rest, more = nextToken(rest, matchMethods[t.method].separator); !more {
			break
		}
		s.begin()
		for _, i := range s.now {
			n := &t.nodes[i]
			if n.loops {
				s.enter(t, i)
			}
			if next, ok := n.exact[string(token)]; ok {
				s.enter(t, next)
			}
			if n.one != 0 {
				s.enter(t, n.one)
			}
		}
	}
	for _, i := range s.now {
		found = append(found, t.nodes[i].values...)
	}
	topicSearches.Put(s)
	return found
}

func (s *topicSearch) begin() {
	if s.step++; s.step == 0 {
		clear(s.seen)
		s.step = 1
	}
}

// enter adds a node to the next set, and the one behind no tokens at all with it.
func (s *topicSearch) enter(t *topics, i int32) {
	if s.seen[i] == s.step {
		return
	}
	s.seen[i] = s.step
	s.next = append(s.next, i)
	if next := t.nodes[i].any; next != 0 {
		s.enter(t, next)
	}
}
