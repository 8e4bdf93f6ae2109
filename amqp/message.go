package amqp

// Header is how a message is to be delivered (AMQP 1.0 part 3 §3.2.1).
type Header struct {
	Durable       bool
	Priority      Opt[uint8]  // 4 if absent
	TTL           Opt[uint32] // milliseconds
	FirstAcquirer bool
	DeliveryCount uint32
}

// Append appends h as a section.
func (h *Header) Append(b []byte) []byte {
	c := beginComposite(b, CodeHeader)
	c.flag(h.Durable)
	c.ubyte(h.Priority)
	c.uint(h.TTL)
	c.flag(h.FirstAcquirer)
	c.uint(Opt[uint32]{h.DeliveryCount, h.DeliveryCount != 0})
	return c.done()
}

// Decode sets h to the section at the start of b and returns its length.
func (h *Header) Decode(b []byte) (n int, err error) {
	f, n, err := readComposite(b, CodeHeader, "header", 5)
	if err != nil {
		return 0, err
	}
	*h = Header{
		Durable:       opt(&f, "durable", rawBool).V,
		Priority:      opt(&f, "priority", rawUbyte),
		TTL:           opt(&f, "ttl", rawUint),
		FirstAcquirer: opt(&f, "first-acquirer", rawBool).V,
		DeliveryCount: opt(&f, "delivery-count", rawUint).V,
	}
	return n, f.done()
}

// Properties are the immutable properties of a message (AMQP 1.0 part 3 §3.2.4).
type Properties struct {
	// MessageID and CorrelationID are a uint64, a UUID, a []byte or a string. On
	// decoding any other scalar is taken as well: a correlation id is to be
	// given back as it came. nil is absent.
	MessageID          any
	UserID             []byte // nil is absent
	To                 Opt[string]
	Subject            Opt[string]
	ReplyTo            Opt[string]
	CorrelationID      any
	ContentType        Symbol // "" is absent
	ContentEncoding    Symbol // "" is absent
	AbsoluteExpiryTime Opt[Timestamp]
	CreationTime       Opt[Timestamp]
	GroupID            Opt[string]
	GroupSequence      Opt[uint32]
	ReplyToGroupID     Opt[string]
}

// Append appends p as a section.
func (p *Properties) Append(b []byte) []byte {
	c := beginComposite(b, CodeProperties)
	c.value(p.MessageID)
	c.binary(p.UserID)
	c.str(p.To)
	c.str(p.Subject)
	c.str(p.ReplyTo)
	c.value(p.CorrelationID)
	c.symbol(p.ContentType)
	c.symbol(p.ContentEncoding)
	c.timestamp(p.AbsoluteExpiryTime)
	c.timestamp(p.CreationTime)
	c.str(p.GroupID)
	c.uint(p.GroupSequence)
	c.str(p.ReplyToGroupID)
	return c.done()
}

// Decode sets p to the section at the start of b and returns its length. UserID
// shares memory with b.
func (p *Properties) Decode(b []byte) (n int, err error) {
	f, n, err := readComposite(b, CodeProperties, "properties", 13)
	if err != nil {
		return 0, err
	}
	*p = Properties{
		MessageID:          opt(&f, "message-id", rawID).V,
		UserID:             opt(&f, "user-id", rawBinary).V,
		To:                 opt(&f, "to", rawString),
		Subject:            opt(&f, "subject", rawString),
		ReplyTo:            opt(&f, "reply-to", rawString),
		CorrelationID:      opt(&f, "correlation-id", rawID).V,
		ContentType:        opt(&f, "content-type", rawSymbol).V,
		ContentEncoding:    opt(&f, "content-encoding", rawSymbol).V,
		AbsoluteExpiryTime: opt(&f, "absolute-expiry-time", rawTimestamp),
		CreationTime:       opt(&f, "creation-time", rawTimestamp),
		GroupID:            opt(&f, "group-id", rawString),
		GroupSequence:      opt(&f, "group-sequence", rawUint),
		ReplyToGroupID:     opt(&f, "reply-to-group-id", rawString),
	}
	return n, f.done()
}

// rawID returns a message id: anything that is not composed of other values.
func rawID(v Raw) (any, bool) {
	switch layouts[v[0]] {
	case layoutUnknown, layoutCompound8, layoutCompound32, layoutArray8, layoutArray32:
		return nil, false
	}
	if v[0] == codeList0 {
		return nil, false
	}
	id, _ := build(v[0], v[1:])
	return id, true
}

// value writes a value that is absent when nil.
func (c *composite) value(v any) {
	if v == nil {
		c.null()
		return
	}
	c.b = AppendValue(c.b, v)
	c.wrote()
}

// BodyKind tells which kind of sections the body of a message has.
type BodyKind uint8

// The kinds of body.
const (
	BodyValue    BodyKind = iota // one value
	BodyData                     // octets
	BodySequence                 // lists
	BodyNone                     // no body, which the standard does not have
)

// Message is a message, decoded (AMQP 1.0 part 3 §3.2). Sections that are nil are
// absent.
type Message struct {
	Header                *Header
	DeliveryAnnotations   Map
	MessageAnnotations    Map
	Properties            *Properties
	ApplicationProperties Map

	// Body is any value for BodyValue; []byte, or [][]byte for several sections,
	// for BodyData; List, or []List for several sections, for BodySequence; nil
	// for BodyNone.
	Body     any
	BodyKind BodyKind

	Footer Map
}

// Append appends the sections of m. It panics on a body that does not fit its
// kind, and where AppendValue does.
func (m *Message) Append(b []byte) []byte {
	if m.Header != nil {
		b = m.Header.Append(b)
	}
	b = appendMapSection(b, CodeDeliveryAnnotations, m.DeliveryAnnotations)
	b = appendMapSection(b, CodeMessageAnnotations, m.MessageAnnotations)
	if m.Properties != nil {
		b = m.Properties.Append(b)
	}
	b = appendMapSection(b, CodeApplicationProperties, m.ApplicationProperties)
	b = m.appendBody(b)
	return appendMapSection(b, CodeFooter, m.Footer)
}

func (m *Message) appendBody(b []byte) []byte {
	switch m.BodyKind {
	case BodyValue:
		return AppendValue(append(b, codeDescribed, codeSmallUlong, CodeValue), m.Body)
	case BodyData:
		switch body := m.Body.(type) {
		case []byte:
			return AppendBinary(append(b, codeDescribed, codeSmallUlong, CodeData), body)
		case [][]byte:
			for _, data := range body {
				b = AppendBinary(append(b, codeDescribed, codeSmallUlong, CodeData), data)
			}
			return b
		}
	case BodySequence:
		switch body := m.Body.(type) {
		case List:
			return appendList(append(b, codeDescribed, codeSmallUlong, CodeSequence), body)
		case []List:
			for _, list := range body {
				b = appendList(append(b, codeDescribed, codeSmallUlong, CodeSequence), list)
			}
			return b
		}
	case BodyNone:
		return b
	}
	panic("amqp: body of a message does not fit its kind")
}

func appendMapSection(b []byte, code byte, m Map) []byte {
	if m == nil {
		return b
	}
	return appendMap(append(b, codeDescribed, codeSmallUlong, code), m)
}

// DecodeMessage decodes the message that b is. Nothing of it shares memory with
// b. The error is always amqp:decode-error.
func DecodeMessage(b []byte) (*Message, error) {
	s, err := WalkMessage(b, DepthAll, true)
	if err != nil {
		return nil, err
	}
	m := &Message{
		DeliveryAnnotations:   s.DeliveryAnnotations.decodeMap(b),
		MessageAnnotations:    s.MessageAnnotations.decodeMap(b),
		ApplicationProperties: s.ApplicationProperties.decodeMap(b),
		Footer:                s.Footer.decodeMap(b),
	}
	if s.Header.Present() {
		m.Header = new(Header)
		if _, err := m.Header.Decode(b[s.Header.Start:s.Header.End]); err != nil {
			return nil, err
		}
	}
	if s.Properties.Present() {
		m.Properties = new(Properties)
		if _, err := m.Properties.Decode(b[s.Properties.Start:s.Properties.End]); err != nil {
			return nil, err
		}
		if m.Properties.UserID != nil {
			m.Properties.UserID = append([]byte{}, m.Properties.UserID...)
		}
	}
	m.decodeBody(b[s.BodyRange.Start:s.BodyRange.End])
	return m, nil
}

// decodeMap decodes the value of a section that is a map and was checked; nil if
// it is absent.
func (r Range) decodeMap(b []byte) Map {
	if !r.Present() {
		return nil
	}
	v, _ := buildValue(r.Value(b))
	return v.(Map)
}

// decodeBody decodes the sections of the body, which were checked.
func (m *Message) decodeBody(b []byte) {
	var data [][]byte
	var lists []List
	m.BodyKind = BodyNone
	for len(b) > 0 {
		code, n := descriptor(b)
		v, used := buildValue(b[n:])
		b = b[n+used:]
		switch code {
		case CodeValue:
			m.BodyKind, m.Body = BodyValue, v
		case CodeData:
			data = append(data, v.([]byte))
		case CodeSequence:
			lists = append(lists, v.(List))
		}
	}
	switch {
	case len(data) == 1:
		m.BodyKind, m.Body = BodyData, data[0]
	case len(data) > 1:
		m.BodyKind, m.Body = BodyData, data
	case len(lists) == 1:
		m.BodyKind, m.Body = BodySequence, lists[0]
	case len(lists) > 1:
		m.BodyKind, m.Body = BodySequence, lists
	}
}
