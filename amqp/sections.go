package amqp

// Depth says how far WalkMessage goes: up to and including a section.
type Depth uint8

// The depths.
const (
	DepthHeader Depth = iota
	DepthMessageAnnotations
	DepthProperties
	DepthApplicationProperties
	DepthAll // body and footer too
)

// lastCode is the last section within each depth.
var lastCode = [...]uint64{
	DepthHeader:                CodeHeader,
	DepthMessageAnnotations:    CodeMessageAnnotations,
	DepthProperties:            CodeProperties,
	DepthApplicationProperties: CodeApplicationProperties,
	DepthAll:                   CodeFooter,
}

// Range is where a section is in the octets of a message, its constructor
// included. The zero Range is a section that is absent.
type Range struct{ Start, End int }

// Present reports whether the section is there.
func (r Range) Present() bool { return r.End > r.Start }

// Value returns what the section consists of without its descriptor: a list or a
// map, for example. b is the message that was walked.
func (r Range) Value(b []byte) Raw {
	if !r.Present() {
		return nil
	}
	b = b[r.Start:r.End:r.End]
	_, n := descriptor(b)
	return Raw(b[n:])
}

// Sections is where the sections of a message are (AMQP 1.0 part 3 §3.2).
//
//	[header] [delivery-annotations] [message-annotations]
//	[properties] [application-properties] body [footer]
type Sections struct {
	Header                Range
	DeliveryAnnotations   Range
	MessageAnnotations    Range
	Properties            Range
	ApplicationProperties Range
	BodyRange             Range // all sections of the body; needs DepthAll
	Footer                Range // needs DepthAll

	// Body is where the body begins, or in a message without one the footer or
	// the end. It is -1 if the walk ended before it was known.
	Body int

	// End is where the walk ended: the first octet behind the last section in
	// the ranges above. Whatever sections the message lacks up to the depth
	// would belong at or before it.
	End int
}

// WalkMessage finds the sections of the message at b up to depth, without
// decoding them and without allocation. It ends when they are all known, which
// may take the descriptor of a later section; that section and what follows it
// stay unread. complete says that b is the whole message; otherwise more of it
// may follow, and the error is ErrNeedMore while b does not reach far enough.
//
// The sections walked are checked: their order, that each is the list, map or
// binary it must be, and all lengths in it. A message that fails this, and a
// complete one that is empty, is an *Error amqp:decode-error "invalid message
// format" (RT E54, CFG R29, FC U02), also when more octets could follow. A
// complete message may end without a body.
func WalkMessage(b []byte, depth Depth, complete bool) (s Sections, err error) {
	s.Body = -1
	last := lastCode[depth]
	var prev uint64
	for pos := 0; ; {
		code, n := sectionCode(b[pos:])
		switch {
		case n == skipShort && !complete:
			s.End = pos
			return s, ErrNeedMore
		case n == skipShort && pos == len(b) && pos > 0:
			s.End = pos
			if s.Body < 0 {
				s.Body = pos
			}
			return s, nil
		case n < 0 || code < CodeHeader || code > CodeFooter || !follows(prev, code):
			return Sections{Body: -1}, invalidMessage()
		}
		if code > last {
			s.End = pos
			if code >= CodeData {
				s.Body = pos
			}
			return s, nil
		}
		n = skipSection(code, b[pos+n:], n)
		if n == skipShort && !complete {
			s.End = pos
			return s, ErrNeedMore
		}
		if n < 0 {
			return Sections{Body: -1}, invalidMessage()
		}
		s.set(code, Range{pos, pos + n})
		prev = code
		pos += n
		if code == last {
			if code == CodeFooter && pos < len(b) {
				return Sections{Body: -1}, invalidMessage()
			}
			s.End = pos
			return s, nil
		}
	}
}

// sectionCode is descriptor with a short way for how everybody encodes it.
func sectionCode(b []byte) (code uint64, n int) {
	if len(b) >= 3 && b[0] == codeDescribed && b[1] == codeSmallUlong {
		return uint64(b[2]), 3
	}
	return descriptor(b)
}

// follows reports whether a section may come behind another: in the order of
// their codes, one kind of body only, and only data and sequence repeated.
func follows(prev, code uint64) bool {
	if prev >= CodeData && code < CodeFooter {
		return code == prev && code != CodeValue
	}
	return code > prev
}

// skipSection returns the length of a section whose value is at b behind a
// descriptor of n octets, or a failure of skip.
func skipSection(code uint64, b []byte, n int) int {
	if len(b) == 0 {
		return skipShort
	}
	var ok bool
	switch c := b[0]; code {
	case CodeHeader, CodeProperties, CodeSequence:
		ok = c == codeList8 || c == codeList32 || c == codeList0
	case CodeData:
		ok = c == codeBin8 || c == codeBin32
	case CodeValue:
		ok = true
	default:
		ok = c == codeMap8 || c == codeMap32
	}
	if !ok {
		return skipBad
	}
	v := skip(b, MaxDepth)
	if v < 0 {
		return v
	}
	return n + v
}

// set notes where a section is.
func (s *Sections) set(code uint64, r Range) {
	switch code {
	case CodeHeader:
		s.Header = r
	case CodeDeliveryAnnotations:
		s.DeliveryAnnotations = r
	case CodeMessageAnnotations:
		s.MessageAnnotations = r
	case CodeProperties:
		s.Properties = r
	case CodeApplicationProperties:
		s.ApplicationProperties = r
	case CodeFooter:
		s.Footer = r
		if s.Body < 0 {
			s.Body = r.Start
		}
	default:
		if !s.BodyRange.Present() {
			s.BodyRange.Start = r.Start
			s.Body = r.Start
		}
		s.BodyRange.End = r.End
	}
}

// Priority returns the priority in the header of the message b. ok is false if
// there is no header, or no priority in it, or one that is no ubyte.
func (s *Sections) Priority(b []byte) (priority uint8, ok bool) {
	v := listField(s.Header.Value(b), 1)
	if len(v) != 2 || v[0] != codeUbyte {
		return 0, false
	}
	return v[1], true
}

// To returns the address in the properties of the message b, sharing memory with
// it. ok is false if there is none. One that is no string is an error as that of
// WalkMessage.
func (s *Sections) To(b []byte) (to []byte, ok bool, err error) {
	return textField(listField(s.Properties.Value(b), 2), codeStr8, codeStr32)
}

// UserID returns the user id in the properties of the message b, sharing memory
// with it. ok is false if there is none. One that is no binary is an error as
// that of WalkMessage.
func (s *Sections) UserID(b []byte) (id []byte, ok bool, err error) {
	return textField(listField(s.Properties.Value(b), 1), codeBin8, codeBin32)
}

// Subject returns the subject in the properties of the message b, sharing memory
// with it. ok is false if there is none. One that is no string is an error as
// that of WalkMessage.
func (s *Sections) Subject(b []byte) (subject []byte, ok bool, err error) {
	return textField(listField(s.Properties.Value(b), 3), codeStr8, codeStr32)
}

func textField(v Raw, code8, code32 byte) (text []byte, ok bool, err error) {
	if v.IsNull() {
		return nil, false, nil
	}
	if text, ok = rawText(v, code8, code32); !ok {
		return nil, false, invalidMessage()
	}
	return text, true, nil
}

// listField returns the field i of a list that was checked, nil if absent.
func listField(list Raw, i int) Raw {
	it, err := IterList(list)
	if err != nil {
		return nil
	}
	for range i {
		it.Next()
	}
	v, _ := it.Next()
	return v
}
