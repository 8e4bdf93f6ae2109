package router

import (
	"errors"
	"fmt"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// decodeControl reads a message of the router control protocol (IR 2.3). Keys may be strings or
// symbols, integers of any width; keys that are not known are ignored (IR 2.4).
func decodeControl(msg []byte) (linkstate.Message, error) {
	m, err := amqp.DecodeMessage(msg)
	if err != nil {
		return nil, err
	}
	op, _ := m.ApplicationProperties.Get(linkstate.KeyOpcode)
	body, ok := m.Body.(amqp.Map)
	if !ok {
		return nil, fmt.Errorf("body of %v is no map", op)
	}
	d := controlBody{body: body}
	var out linkstate.Message
	switch text(op) {
	case linkstate.OpcodeHello:
		out = &linkstate.Hello{ID: d.must(linkstate.KeyID), Version: d.int(linkstate.KeyVersion), Area: d.text(linkstate.KeyArea),
			Instance: d.int(linkstate.KeyInstance), Seen: d.mustList(linkstate.KeySeen)}
	case linkstate.OpcodeRA:
		out = &linkstate.RA{ID: d.must(linkstate.KeyID), Version: d.int(linkstate.KeyVersion), Area: d.text(linkstate.KeyArea),
			Instance: d.int(linkstate.KeyInstance), LSSeq: d.mustInt(linkstate.KeyLSSeq), MobileSeq: d.mustInt(linkstate.KeyMobileSeq)}
	case linkstate.OpcodeLSU:
		u := &linkstate.LSU{ID: d.must(linkstate.KeyID), Version: d.int(linkstate.KeyVersion), Area: d.text(linkstate.KeyArea),
			Instance: d.int(linkstate.KeyInstance), LSSeq: d.mustInt(linkstate.KeyLSSeq)}
		ls, _ := d.body.Get(linkstate.KeyLinkState)
		inner, ok := ls.(amqp.Map)
		if !ok {
			return nil, fmt.Errorf("LSU without ls")
		}
		id := controlBody{body: inner}
		u.LinkState = linkstate.LinkState{ID: id.must(linkstate.KeyID), Area: id.text(linkstate.KeyArea), LSSeq: id.mustInt(linkstate.KeyLSSeq)}
		peers, _ := inner.Get(linkstate.KeyPeers)
		pm, ok := peers.(amqp.Map)
		if !ok {
			return nil, fmt.Errorf("LSU without peers")
		}
		for _, e := range pm {
			cost, _ := amqp.Int(e.Value)
			u.LinkState.Peers = append(u.LinkState.Peers, linkstate.Peer{ID: text(e.Key), Cost: cost})
		}
		if id.err != nil {
			return nil, id.err
		}
		out = u
	case linkstate.OpcodeLSR:
		out = &linkstate.LSR{ID: d.must(linkstate.KeyID), Version: d.int(linkstate.KeyVersion), Area: d.text(linkstate.KeyArea)}
	case linkstate.OpcodeMAR:
		out = &linkstate.MAR{ID: d.must(linkstate.KeyID), Version: d.int(linkstate.KeyVersion), Area: d.text(linkstate.KeyArea),
			HaveSeq: d.mustInt(linkstate.KeyHaveSeq)}
	case linkstate.OpcodeMAU:
		u := &linkstate.MAU{ID: d.must(linkstate.KeyID), Version: d.int(linkstate.KeyVersion), Area: d.text(linkstate.KeyArea),
			MobileSeq: d.mustInt(linkstate.KeyMobileSeq)}
		u.Add, u.Delete, u.Exist = d.list(linkstate.KeyAdd), d.list(linkstate.KeyDelete), d.list(linkstate.KeyExist)
		u.Malformed = d.malformed
		if l, ok := d.value(linkstate.KeyTreatments).(amqp.List); ok {
			u.Treatments = make([]linkstate.Treatment, 0, len(l))
			for _, v := range l {
				n, _ := amqp.Int(v)
				u.Treatments = append(u.Treatments, linkstate.Treatment(n))
			}
		}
		out = u
	default:
		return nil, fmt.Errorf("%w: opcode %v", errIgnored, op)
	}
	if mobile(out) && d.err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnored, d.err)
	}
	return out, d.err
}

// errIgnored marks messages that are dropped without a word: of opcodes that are not known (IR 2.3),
// and those about addresses that lack what they must have (IR 2.4).
var errIgnored = errors.New("ignored")

// mobile reports whether a message is about addresses, and so has symbols as its keys.
func mobile(m linkstate.Message) bool {
	switch m.(type) {
	case *linkstate.MAR, *linkstate.MAU:
		return true
	}
	return false
}

// controlBody reads the values of a body and keeps the first thing that is missing.
type controlBody struct {
	body      amqp.Map
	malformed bool
	err       error
}

func (d *controlBody) value(key string) any {
	v, _ := d.body.Get(key)
	return v
}

func (d *controlBody) text(key string) string { return text(d.value(key)) }

func (d *controlBody) must(key string) string {
	s := text(d.value(key))
	if s == "" && d.err == nil {
		d.err = fmt.Errorf("mandatory field %q is missing", key)
	}
	return s
}

func (d *controlBody) int(key string) int64 {
	n, _ := amqp.Int(d.value(key))
	return n
}

func (d *controlBody) mustInt(key string) int64 {
	n, ok := amqp.Int(d.value(key))
	if !ok && d.err == nil {
		d.err = fmt.Errorf("mandatory field %q is missing", key)
	}
	return n
}

// list returns a list of strings: nil when it is absent, not nil when it is empty.
func (d *controlBody) list(key string) []string {
	v := d.value(key)
	if v == nil {
		return nil
	}
	l, ok := v.(amqp.List)
	if !ok {
		d.malformed = true
		return nil
	}
	out := make([]string, 0, len(l))
	for _, x := range l {
		out = append(out, text(x))
	}
	return out
}

func (d *controlBody) mustList(key string) []string {
	l := d.list(key)
	if l == nil && d.err == nil {
		d.err = fmt.Errorf("mandatory field %q is missing", key)
	}
	return l
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case amqp.Symbol:
		return string(v)
	case []byte:
		return string(v)
	}
	return ""
}

// encodeControl writes a control message as 1.19 does, octet for octet (IR 2.1, 2.3, 2.16). node
// is area and id of this router.
func encodeControl(to string, m linkstate.Message, node string) []byte {
	w := controlWriter{symbols: mobile(m)}
	b := &w.b
	w.list(amqp.CodeHeader, 1)
	*b = amqp.AppendBool(*b, false)
	w.end()
	*b = append(*b, 0, 0x53, amqp.CodeMessageAnnotations)
	var entries, trace int
	*b, entries = amqp.BeginCompound(*b)
	*b = amqp.AppendSymbol(*b, annotationIngress)
	*b = amqp.AppendString(*b, node)
	*b = amqp.AppendSymbol(*b, annotationTrace)
	*b, trace = amqp.BeginCompound(*b)
	*b = amqp.AppendString(*b, node)
	*b = amqp.EndList(*b, trace, 1)
	*b = amqp.EndMap(*b, entries, 2)
	if w.symbols {
		w.list(amqp.CodeProperties, 3)
		*b = append(*b, 0x40, 0x40)
		*b = amqp.AppendString(*b, to)
	} else {
		w.list(amqp.CodeProperties, 6)
		*b = append(*b, 0x40, 0x40)
		*b = amqp.AppendString(*b, to)
		*b = append(*b, 0x40, 0x40, 0x40)
	}
	w.end()
	w.section(amqp.CodeApplicationProperties)
	w.begin(0xd1)
	w.key(linkstate.KeyOpcode)
	w.str(m.Opcode())
	w.end()
	w.section(amqp.CodeValue)
	w.begin(0xd1)
	switch m := m.(type) {
	case *linkstate.Hello:
		w.head(m.ID, m.Version, m.Area)
		w.key(linkstate.KeyInstance)
		w.number(m.Instance)
		w.key(linkstate.KeySeen)
		w.strings(m.Seen)
	case *linkstate.RA:
		w.head(m.ID, m.Version, m.Area)
		w.key(linkstate.KeyInstance)
		w.number(m.Instance)
		w.key(linkstate.KeyLSSeq)
		w.number(m.LSSeq)
		w.key(linkstate.KeyMobileSeq)
		w.number(m.MobileSeq)
	case *linkstate.LSU:
		w.head(m.ID, m.Version, m.Area)
		w.key(linkstate.KeyInstance)
		w.number(m.Instance)
		w.key(linkstate.KeyLSSeq)
		w.number(m.LSSeq)
		w.key(linkstate.KeyLinkState)
		w.item()
		w.begin(0xd1)
		w.key(linkstate.KeyID)
		w.str(m.LinkState.ID)
		w.key(linkstate.KeyArea)
		w.str(m.LinkState.Area)
		w.key(linkstate.KeyLSSeq)
		w.number(m.LinkState.LSSeq)
		w.key(linkstate.KeyPeers)
		w.item()
		w.begin(0xd1)
		for _, p := range m.LinkState.Peers {
			w.str(p.ID)
			w.number(p.Cost)
		}
		w.end()
		w.end()
	case *linkstate.LSR:
		w.head(m.ID, m.Version, m.Area)
	case *linkstate.MAR:
		w.head(m.ID, m.Version, m.Area)
		w.key(linkstate.KeyHaveSeq)
		w.number(m.HaveSeq)
	case *linkstate.MAU:
		w.head(m.ID, m.Version, m.Area)
		w.key(linkstate.KeyMobileSeq)
		w.number(m.MobileSeq)
		if m.Exist != nil {
			w.key(linkstate.KeyExist)
			w.strings(m.Exist)
			w.key(linkstate.KeyTreatments)
			w.hints(m.Treatments)
		} else {
			w.key(linkstate.KeyTreatments)
			w.hints(m.Treatments)
			w.key(linkstate.KeyAdd)
			w.strings(m.Add)
			w.key(linkstate.KeyDelete)
			w.strings(m.Delete)
		}
	}
	w.end()
	return w.b
}

// controlWriter writes compounds in their 32-bit forms, as 1.19 does.
type controlWriter struct {
	b       []byte
	symbols bool // keys are symbols and numbers long: MAR and MAU
	open    []openCompound
}

type openCompound struct {
	at    int // of the size field
	items uint32
}

func (w *controlWriter) section(code byte) { w.b = append(w.b, 0, 0x53, code) }

// begin opens a list (0xd0) or map (0xd1).
func (w *controlWriter) begin(code byte) {
	w.b = append(w.b, code, 0, 0, 0, 0, 0, 0, 0, 0)
	w.open = append(w.open, openCompound{at: len(w.b) - 8})
}

func (w *controlWriter) list(section byte, items uint32) {
	w.section(section)
	w.begin(0xd0)
	w.open[len(w.open)-1].items = items
}

func (w *controlWriter) end() {
	c := w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
	size := uint32(len(w.b) - c.at - 4)
	for i := range 4 {
		w.b[c.at+i] = byte(size >> (24 - 8*i))
		w.b[c.at+4+i] = byte(c.items >> (24 - 8*i))
	}
}

func (w *controlWriter) item() { w.open[len(w.open)-1].items++ }

func (w *controlWriter) key(k string) {
	w.item()
	if w.symbols {
		w.b = amqp.AppendSymbol(w.b, k)
	} else {
		w.b = amqp.AppendString(w.b, k)
	}
}

func (w *controlWriter) str(s string) {
	w.item()
	w.b = amqp.AppendString(w.b, s)
}

func (w *controlWriter) number(n int64) {
	w.item()
	if w.symbols || n != int64(int32(n)) {
		w.b = amqp.AppendLong(w.b, n)
	} else {
		w.b = amqp.AppendInt(w.b, int32(n))
	}
}

func (w *controlWriter) head(id string, version int64, area string) {
	w.key(linkstate.KeyID)
	w.str(id)
	w.key(linkstate.KeyVersion)
	w.number(version)
	w.key(linkstate.KeyArea)
	w.str(area)
}

func (w *controlWriter) strings(list []string) {
	w.item()
	if len(list) == 0 && !w.symbols {
		w.b = append(w.b, 0x45)
		return
	}
	w.begin(0xd0)
	for _, s := range list {
		w.str(s)
	}
	w.end()
}

func (w *controlWriter) hints(list []linkstate.Treatment) {
	w.item()
	w.begin(0xd0)
	for _, h := range list {
		w.item()
		w.b = amqp.AppendInt(w.b, int32(h))
	}
	w.end()
}
