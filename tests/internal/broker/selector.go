package broker

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"qdrouter/amqp"
)

// selector is a filter over messages, of a part of SQL:
//
//	or    = and *("OR" and)
//	and   = not *("AND" not)
//	not   = ["NOT"] test
//	test  = "(" or ")" / value [op value / ["NOT"] "IN" "(" value *("," value) ")" / "IS" ["NOT"] "NULL"]
//	op    = "=" / "<>" / "<" / "<=" / ">" / ">="
//	value = 'text' / number / "TRUE" / "FALSE" / name
//
// A name is that of an application property, or of a field: header.priority,
// header.durable, header.ttl; properties.message-id and so on with _ or - in
// them; or, as Jakarta Messaging has them, JMSPriority, JMSMessageID,
// JMSCorrelationID, JMSType (the subject). What is unknown makes a comparison
// neither true nor false, and such a message is not taken.
type selector struct {
	text string
	root expr
}

// expr yields a string, an int64, a float64, a bool, or nil for unknown.
type expr func(*amqp.Message) any

// parseSelector compiles text.
func parseSelector(text string) (*selector, error) {
	p := &parser{}
	if err := p.scan(text); err != nil {
		return nil, err
	}
	root, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.peek() != "" {
		return nil, fmt.Errorf("%q where the end should be", p.peek())
	}
	return &selector{text, root}, nil
}

// match reports whether s, which may be nil for no selector, takes m.
func (s *selector) match(m *message) bool {
	if s == nil {
		return true
	}
	if m.parsed == nil {
		p, err := amqp.DecodeMessage(m.encode())
		if err != nil {
			p = &amqp.Message{}
		}
		m.parsed = p
	}
	return s.root(m.parsed) == true
}

// parser has the tokens of a selector. A text begins with a quote.
type parser struct {
	tokens []string
}

func (p *parser) scan(s string) error {
	for {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
		if s == "" {
			return nil
		}
		n := 1
		switch c := rune(s[0]); {
		case c == '\'':
			for {
				i := strings.IndexByte(s[n:], '\'')
				if i < 0 {
					return errors.New("text without end")
				}
				n += i + 1
				if n == len(s) || s[n] != '\'' {
					break
				}
				n++ // two are one in the text
			}
		case strings.HasPrefix(s, "<>"), strings.HasPrefix(s, "<="), strings.HasPrefix(s, ">="):
			n = 2
		case strings.ContainsRune("()=<>,", c):
		case isWord(c) || c == '-' || c == '+':
			for n < len(s) && (isWord(rune(s[n])) || s[n] == '-') {
				n++
			}
		default:
			return fmt.Errorf("unexpected %q", c)
		}
		p.tokens = append(p.tokens, s[:n])
		s = s[n:]
	}
}

func isWord(c rune) bool {
	return c == '_' || c == '.' || c == '$' || c == ':' || c >= 0x80 || unicode.IsLetter(c) || unicode.IsDigit(c)
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

// take takes the next token if it is one of those, without regard to case.
func (p *parser) take(words ...string) (string, bool) {
	for _, w := range words {
		if strings.EqualFold(p.peek(), w) && w != "" {
			p.tokens = p.tokens[1:]
			return w, true
		}
	}
	return "", false
}

func (p *parser) want(word string) error {
	if _, ok := p.take(word); !ok {
		return fmt.Errorf("%q where %q should be", p.peek(), word)
	}
	return nil
}

// or and and are of three values: true, false, nil.
func (p *parser) or() (expr, error) { return p.chain("OR", true, p.and) }

func (p *parser) and() (expr, error) { return p.chain("AND", false, p.not) }

// chain parses operands with word between them; an operand that is decides
// makes the whole that.
func (p *parser) chain(word string, decides bool, operand func() (expr, error)) (expr, error) {
	first, err := operand()
	if err != nil {
		return nil, err
	}
	all := []expr{first}
	for {
		if _, ok := p.take(word); !ok {
			break
		}
		e, err := operand()
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if len(all) == 1 {
		return first, nil
	}
	return func(m *amqp.Message) any {
		var result any = !decides
		for _, e := range all {
			switch v, ok := e(m).(bool); {
			case !ok:
				result = nil
			case v == decides:
				return decides
			}
		}
		return result
	}, nil
}

func (p *parser) not() (expr, error) {
	if _, ok := p.take("NOT"); !ok {
		return p.test()
	}
	e, err := p.not()
	return negate(e), err
}

func negate(e expr) expr {
	return func(m *amqp.Message) any {
		if v, ok := e(m).(bool); ok {
			return !v
		}
		return nil
	}
}

func (p *parser) test() (expr, error) {
	if _, ok := p.take("("); ok {
		e, err := p.or()
		if err != nil {
			return nil, err
		}
		return e, p.want(")")
	}
	left, err := p.value()
	if err != nil {
		return nil, err
	}
	if op, ok := p.take("=", "<>", "<", "<=", ">", ">="); ok {
		right, err := p.value()
		return func(m *amqp.Message) any { return compare(op, left(m), right(m)) }, err
	}
	if _, ok := p.take("IS"); ok {
		_, not := p.take("NOT")
		return func(m *amqp.Message) any { return (left(m) == nil) != not }, p.want("NULL")
	}
	_, not := p.take("NOT")
	if _, ok := p.take("IN"); !ok {
		if not {
			return nil, fmt.Errorf("%q where IN should be", p.peek())
		}
		return left, nil // a boolean by itself
	}
	e, err := p.in(left)
	if not {
		e = negate(e)
	}
	return e, err
}

// in parses the list of IN.
func (p *parser) in(left expr) (expr, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	var list []expr
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if _, ok := p.take(","); !ok {
			break
		}
	}
	return func(m *amqp.Message) any {
		v := left(m)
		if v == nil {
			return nil
		}
		return slices.ContainsFunc(list, func(e expr) bool { return compare("=", v, e(m)) == true })
	}, p.want(")")
}

func (p *parser) value() (expr, error) {
	t := p.peek()
	if t == "" {
		return nil, errors.New("the end where a value should be")
	}
	p.tokens = p.tokens[1:]
	switch {
	case t[0] == '\'':
		return constant(strings.ReplaceAll(t[1:len(t)-1], "''", "'")), nil
	case strings.EqualFold(t, "TRUE"), strings.EqualFold(t, "FALSE"):
		return constant(strings.EqualFold(t, "TRUE")), nil
	case strings.ContainsAny(t[:1], "0123456789.+-"):
		if i, err := strconv.ParseInt(t, 10, 64); err == nil {
			return constant(i), nil
		}
		f, err := strconv.ParseFloat(t, 64)
		return constant(f), err
	case isWord(rune(t[0])):
		return func(m *amqp.Message) any { return plain(lookUp(m, t)) }, nil
	}
	return nil, fmt.Errorf("%q where a value should be", t)
}

func constant(v any) expr { return func(*amqp.Message) any { return v } }

// lookUp finds what a name stands for.
func lookUp(m *amqp.Message, name string) any {
	h, p := m.Header, m.Properties
	if h == nil {
		h = &amqp.Header{}
	}
	if p == nil {
		p = &amqp.Properties{}
	}
	switch strings.ReplaceAll(name, "_", "-") {
	case "header.priority", "JMSPriority":
		return h.Priority.Or(4)
	case "header.durable":
		return h.Durable
	case "header.ttl":
		return optional(h.TTL)
	case "header.delivery-count":
		return h.DeliveryCount
	case "properties.message-id", "JMSMessageID":
		return p.MessageID
	case "properties.user-id":
		return string(p.UserID)
	case "properties.to":
		return optional(p.To)
	case "properties.subject", "JMSType":
		return optional(p.Subject)
	case "properties.reply-to":
		return optional(p.ReplyTo)
	case "properties.correlation-id", "JMSCorrelationID":
		return p.CorrelationID
	case "properties.content-type":
		return p.ContentType
	case "properties.creation-time", "JMSTimestamp":
		return optional(p.CreationTime)
	case "properties.group-id":
		return optional(p.GroupID)
	case "properties.group-sequence":
		return optional(p.GroupSequence)
	}
	v, _ := m.ApplicationProperties.Get(name)
	return v
}

func optional[T any](o amqp.Opt[T]) any {
	if !o.Set {
		return nil
	}
	return o.V
}

// plain makes of a value one that compare knows.
func plain(v any) any {
	switch v := v.(type) {
	case string, bool, int64, float64:
		return v
	case amqp.Symbol:
		return string(v)
	case []byte:
		return string(bytes.Clone(v))
	case float32:
		return float64(v)
	case uint64:
		return int64(min(v, 1<<63-1))
	case amqp.Timestamp:
		return int64(v)
	}
	if n, ok := amqp.Int(v); ok {
		return n
	}
	return nil
}

// compare is true or false, or nil for what cannot be compared.
func compare(op string, a, b any) any {
	var c int
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		if !ok {
			return nil
		}
		c = cmp.Compare(x, y)
	case bool:
		y, ok := b.(bool)
		if !ok || op != "=" && op != "<>" {
			return nil
		}
		if x != y {
			c = 1
		}
	case int64:
		switch y := b.(type) {
		case int64:
			c = cmp.Compare(x, y)
		case float64:
			c = cmp.Compare(float64(x), y)
		default:
			return nil
		}
	case float64:
		switch y := b.(type) {
		case int64:
			c = cmp.Compare(x, float64(y))
		case float64:
			c = cmp.Compare(x, y)
		default:
			return nil
		}
	default:
		return nil
	}
	switch op {
	case "=":
		return c == 0
	case "<>":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}
