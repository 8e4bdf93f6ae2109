package router

import "qdrouter/amqp"

// Router annotations of a message (RT F80). Keys are symbols on the wire.
const (
	annotationPrefix  = "x-opt-qd."
	annotationPhase   = "x-opt-qd.phase"
	annotationStream  = "x-opt-qd.stream"
	annotationTo      = "x-opt-qd.to"
	annotationIngress = "x-opt-qd.ingress"
	annotationTrace   = "x-opt-qd.trace"
	annotationClass   = "x-opt-qd.class"
)

// annotations are what a message's annotations section holds: entries of the user and entries
// of routers. The slices alias the message.
type annotations struct {
	section amqp.Raw // the whole map; nil without a section
	user    int      // entries that are the user's
	routers bool     // there are router entries, to be replaced or dropped
	stream  bool

	to, ingress []byte
	hasIngress  bool
	trace       amqp.Raw
	hops        int // entries of trace
	phase       byte
}

func invalidAnnotations(text string) *amqp.Error {
	return &amqp.Error{Condition: amqp.ErrCondInvalidField, Description: text}
}

// read takes in an annotations map. With strip the router entries are only noted as being
// there (RT F81).
func (n *annotations) read(section amqp.Raw, strip bool) *amqp.Error {
	n.section = section
	it, err := amqp.IterMap(section)
	if err != nil {
		return invalidAnnotations("Invalid message annotations")
	}
	for {
		k, v, ok := it.Next()
		if !ok {
			return nil
		}
		key := symbolText(k)
		if !isRouterKey(key) {
			n.user++
			continue
		}
		n.routers = true
		if strip {
			continue
		}
		switch string(key) {
		case annotationTo:
			if n.to, ok = stringText(v); !ok {
				return invalidAnnotations("to-override not a valid string type")
			}
		case annotationIngress:
			if n.ingress, ok = stringText(v); !ok {
				return invalidAnnotations("ingress router not a string type")
			}
			n.hasIngress = true
		case annotationTrace:
			l, err := amqp.IterList(v)
			if err != nil {
				return invalidAnnotations("trace annotation is not a list")
			}
			for {
				e, ok := l.Next()
				if !ok {
					break
				}
				if _, isString := stringText(e); !isString {
					return invalidAnnotations("trace list contains non-string entries")
				}
				n.hops++
			}
			n.trace = v
		case annotationPhase:
			if p, ok := v.Int(); ok && (p >= 0 && p <= 9 || p == phaseFallback-'0') {
				n.phase = byte(p)
			}
		case annotationStream:
			n.stream = true
		}
	}
}

// isRouterKey reports whether an entry is a router's. Other keys of the prefix are the user's;
// the last two are obsolete (RT F82).
func isRouterKey(key []byte) bool {
	if len(key) < len(annotationPrefix) || string(key[:len(annotationPrefix)]) != annotationPrefix {
		return false
	}
	switch string(key) {
	case annotationPhase, annotationStream, annotationTo, annotationIngress, annotationTrace, annotationClass, annotationPrefix:
		return true
	}
	return false
}

// symbolText returns the octets of a symbol, nil for other values. A key that is a string is the
// user's, whatever it says (IR 5.3).
func symbolText(v amqp.Raw) []byte {
	switch {
	case len(v) >= 2 && v[0] == 0xa3:
		return v[2:]
	case len(v) >= 5 && v[0] == 0xb3:
		return v[5:]
	}
	return nil
}

func stringText(v amqp.Raw) ([]byte, bool) {
	switch {
	case len(v) >= 2 && v[0] == 0xa1:
		return v[2:], true
	case len(v) >= 5 && v[0] == 0xb1:
		return v[5:], true
	}
	return nil, false
}

// appendUser appends the user's entries and returns how many they are.
func (n *annotations) appendUser(b []byte) ([]byte, int) {
	if n.section == nil {
		return b, 0
	}
	it, err := amqp.IterMap(n.section)
	if err != nil {
		return b, 0
	}
	count := 0
	for {
		k, v, ok := it.Next()
		if !ok {
			return b, count
		}
		if !isRouterKey(symbolText(k)) { // RT F82, F83
			b = append(append(b, k...), v...)
			count++
		}
	}
}

// stripped appends the annotations section that a message leaves with when no router entries
// may go out: none at all without user entries (RT F81).
func (n *annotations) stripped(b []byte) []byte {
	if n.user == 0 {
		return b
	}
	b = append(b, 0, 0x53, amqp.CodeMessageAnnotations)
	b, mark := amqp.BeginCompound(b)
	b, count := n.appendUser(b)
	return amqp.EndMap(b, mark, count)
}

// annotated appends the annotations section with this router's entries: to is the address the
// message was sent to, node is area and id of this router (RT F80).
func (n *annotations) annotated(b, to []byte, phase byte, node string) []byte {
	b = append(b, 0, 0x53, amqp.CodeMessageAnnotations)
	b, mark := amqp.BeginCompound(b)
	b, count := n.appendUser(b)
	if phase != 0 {
		b = amqp.AppendInt(amqp.AppendSymbol(b, annotationPhase), int32(phase))
		count++
	}
	if n.stream {
		b = amqp.AppendInt(amqp.AppendSymbol(b, annotationStream), 1)
		count++
	}
	if len(to) > 0 {
		b = amqp.AppendString(amqp.AppendSymbol(b, annotationTo), to)
		count++
	}
	b = amqp.AppendSymbol(b, annotationIngress)
	if n.hasIngress {
		b = amqp.AppendString(b, n.ingress)
	} else {
		b = amqp.AppendString(b, node)
	}
	count++
	b = amqp.AppendSymbol(b, annotationTrace)
	b, list := amqp.BeginCompound(b)
	hops := 0
	if n.trace != nil {
		it, _ := amqp.IterList(n.trace) // read checked it
		for {
			e, ok := it.Next()
			if !ok {
				break
			}
			b = append(b, e...)
			hops++
		}
	}
	b = amqp.AppendString(b, node)
	b = amqp.EndList(b, list, hops+1)
	count++
	return amqp.EndMap(b, mark, count)
}

// compose fills in the parts of a copy of m for an out-link: as it came, or with another
// annotations section.
func (c *Conn) compose(m *message, out *outLink, o *op, b *batch) {
	strip := out.conn.o.StripOut
	if strip && !m.notes.routers && (m.notes.user > 0 || !m.sections.Present()) {
		o.parts[0] = m.payload
		o.owned = m.owned
		return
	}
	start := len(b.arena)
	if strip {
		b.arena = m.notes.stripped(b.arena)
	} else {
		to, phase := m.sentTo()
		b.arena = m.notes.annotated(b.arena, to, phase, c.r.node)
	}
	head, tail := m.insertAt, m.insertAt
	if m.sections.Present() {
		head, tail = m.sections.Start, m.sections.End
	}
	o.parts = [3][]byte{m.payload[:head], b.arena[start:len(b.arena):len(b.arena)], m.payload[tail:]}
}

// sentTo is what x-opt-qd.to and x-opt-qd.phase of an outgoing copy say (RT F1, F2).
func (m *message) sentTo() (to []byte, phase byte) {
	if m.onward {
		return m.notes.to, m.notes.phase
	}
	a := m.to
	if !m.in.anon {
		a = m.in.addr.Load()
	}
	if a != nil && a.key.class() == classMobile && a.key[1] != '0' {
		phase = a.key[1] - '0'
	}
	if !m.in.anon {
		return m.in.template, phase
	}
	if m.notes.to != nil {
		return m.notes.to, phase
	}
	if a != nil && a.key.class() == classMobile && m.in.conn.tenant != "" {
		return []byte(a.key.text()), phase // RT E43
	}
	return nil, phase // the message's own "to" says it
}
