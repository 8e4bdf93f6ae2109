package amqp

// Descriptors of the composite types and sections of the standard, as numbers.
const (
	CodeOpen        = 0x10
	CodeBegin       = 0x11
	CodeAttach      = 0x12
	CodeFlow        = 0x13
	CodeTransfer    = 0x14
	CodeDisposition = 0x15
	CodeDetach      = 0x16
	CodeEnd         = 0x17
	CodeClose       = 0x18

	CodeError = 0x1d

	CodeReceived = 0x23
	CodeAccepted = 0x24
	CodeRejected = 0x25
	CodeReleased = 0x26
	CodeModified = 0x27

	CodeSource = 0x28
	CodeTarget = 0x29

	CodeDeleteOnClose             = 0x2b
	CodeDeleteOnNoLinks           = 0x2c
	CodeDeleteOnNoMessages        = 0x2d
	CodeDeleteOnNoLinksOrMessages = 0x2e

	CodeCoordinator        = 0x30
	CodeDeclare            = 0x31
	CodeDischarge          = 0x32
	CodeDeclared           = 0x33
	CodeTransactionalState = 0x34

	CodeSASLMechanisms = 0x40
	CodeSASLInit       = 0x41
	CodeSASLChallenge  = 0x42
	CodeSASLResponse   = 0x43
	CodeSASLOutcome    = 0x44

	CodeHeader                = 0x70
	CodeDeliveryAnnotations   = 0x71
	CodeMessageAnnotations    = 0x72
	CodeProperties            = 0x73
	CodeApplicationProperties = 0x74
	CodeData                  = 0x75
	CodeSequence              = 0x76
	CodeValue                 = 0x77
	CodeFooter                = 0x78
)

// symbolCode returns the number for a descriptor given by name, or codeUnknown.
func symbolCode(name []byte) uint64 {
	switch string(name) {
	case "amqp:open:list":
		return CodeOpen
	case "amqp:begin:list":
		return CodeBegin
	case "amqp:attach:list":
		return CodeAttach
	case "amqp:flow:list":
		return CodeFlow
	case "amqp:transfer:list":
		return CodeTransfer
	case "amqp:disposition:list":
		return CodeDisposition
	case "amqp:detach:list":
		return CodeDetach
	case "amqp:end:list":
		return CodeEnd
	case "amqp:close:list":
		return CodeClose
	case "amqp:error:list":
		return CodeError
	case "amqp:received:list":
		return CodeReceived
	case "amqp:accepted:list":
		return CodeAccepted
	case "amqp:rejected:list":
		return CodeRejected
	case "amqp:released:list":
		return CodeReleased
	case "amqp:modified:list":
		return CodeModified
	case "amqp:source:list":
		return CodeSource
	case "amqp:target:list":
		return CodeTarget
	case "amqp:delete-on-close:list":
		return CodeDeleteOnClose
	case "amqp:delete-on-no-links:list":
		return CodeDeleteOnNoLinks
	case "amqp:delete-on-no-messages:list":
		return CodeDeleteOnNoMessages
	case "amqp:delete-on-no-links-or-messages:list":
		return CodeDeleteOnNoLinksOrMessages
	case "amqp:coordinator:list":
		return CodeCoordinator
	case "amqp:declare:list":
		return CodeDeclare
	case "amqp:discharge:list":
		return CodeDischarge
	case "amqp:declared:list":
		return CodeDeclared
	case "amqp:transactional-state:list":
		return CodeTransactionalState
	case "amqp:sasl-mechanisms:list":
		return CodeSASLMechanisms
	case "amqp:sasl-init:list":
		return CodeSASLInit
	case "amqp:sasl-challenge:list":
		return CodeSASLChallenge
	case "amqp:sasl-response:list":
		return CodeSASLResponse
	case "amqp:sasl-outcome:list":
		return CodeSASLOutcome
	case "amqp:header:list":
		return CodeHeader
	case "amqp:delivery-annotations:map":
		return CodeDeliveryAnnotations
	case "amqp:message-annotations:map":
		return CodeMessageAnnotations
	case "amqp:properties:list":
		return CodeProperties
	case "amqp:application-properties:map":
		return CodeApplicationProperties
	case "amqp:data:binary":
		return CodeData
	case "amqp:amqp-sequence:list":
		return CodeSequence
	case "amqp:amqp-value:*":
		return CodeValue
	case "amqp:footer:map":
		return CodeFooter
	}
	return codeUnknown
}

// PerformativeCode returns the descriptor of the performative at the start of
// body as a number, whichever way it is encoded. ok is false if body does not
// begin with a described value, or one whose descriptor is no number and no
// name of the standard. The code may be one of no performative.
func PerformativeCode(body []byte) (code uint64, ok bool) {
	if len(body) >= 3 && body[0] == codeDescribed && body[1] == codeSmallUlong {
		return uint64(body[2]), true
	}
	code, n := descriptor(body)
	return code, n > 0 && code != codeUnknown
}

// A Performative is what a frame carries: a pointer to one of the types from
// Open to Close of AMQP 1.0 part 2 §2.7, or to one of the SASL types.
type Performative interface {
	// Append appends the performative as a described list.
	Append(b []byte) []byte
}

// DecodePerformative decodes the performative at the start of the body of an
// AMQP frame; what is behind its n octets is the payload of a transfer. The
// error is amqp:not-implemented for a descriptor of no performative, else
// amqp:decode-error (CFG R12).
func DecodePerformative(body []byte) (p Performative, n int, err error) {
	code, n := descriptor(body)
	if n < 0 {
		return nil, 0, named("frame body", skipError(n))
	}
	switch code {
	case CodeOpen:
		return decodeInto(&Open{}, body)
	case CodeBegin:
		return decodeInto(&Begin{}, body)
	case CodeAttach:
		return decodeInto(&Attach{}, body)
	case CodeFlow:
		return decodeInto(&Flow{}, body)
	case CodeTransfer:
		return decodeInto(&Transfer{}, body)
	case CodeDisposition:
		return decodeInto(&Disposition{}, body)
	case CodeDetach:
		return decodeInto(&Detach{}, body)
	case CodeEnd:
		return decodeInto(&End{}, body)
	case CodeClose:
		return decodeInto(&Close{}, body)
	}
	return nil, 0, unknownDescriptor(code)
}

// unknownDescriptor is the error for a frame body that is none we know.
func unknownDescriptor(code uint64) *Error {
	e := decodeErrorf("unknown performative %#02x", code)
	if code == codeUnknown {
		e = decodeErrorf("unknown performative")
	}
	e.Condition = ErrCondNotImplemented
	return e
}

// decodeInto decodes body into p and returns p.
func decodeInto[T interface {
	Performative
	Decode([]byte) (int, error)
}](p T, body []byte) (Performative, int, error) {
	n, err := p.Decode(body)
	if err != nil {
		return nil, 0, err
	}
	return p, n, nil
}

// Open opens a connection (AMQP 1.0 part 2 §2.7.1).
type Open struct {
	ContainerID         string // "" also if absent, which the standard forbids and CFG R28 allows
	Hostname            Opt[string]
	MaxFrameSize        Opt[uint32] // octets; no limit if absent
	ChannelMax          Opt[uint16] // 65535 if absent
	IdleTimeout         Opt[uint32] // milliseconds
	OutgoingLocales     Raw         // symbols
	IncomingLocales     Raw         // symbols
	OfferedCapabilities Raw         // symbols
	DesiredCapabilities Raw         // symbols
	Properties          Raw         // a map
}

// Append appends o as a described list.
func (o *Open) Append(b []byte) []byte {
	c := beginComposite(b, CodeOpen)
	c.mandatoryString(o.ContainerID)
	c.str(o.Hostname)
	c.uint(o.MaxFrameSize)
	c.ushort(o.ChannelMax)
	c.uint(o.IdleTimeout)
	c.raw(o.OutgoingLocales)
	c.raw(o.IncomingLocales)
	c.raw(o.OfferedCapabilities)
	c.raw(o.DesiredCapabilities)
	c.raw(o.Properties)
	return c.done()
}

// Decode sets o to the open at the start of body and returns its length.
func (o *Open) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeOpen, "open", 10)
	if err != nil {
		return 0, err
	}
	*o = Open{
		ContainerID:         opt(&f, "container-id", rawString).V,
		Hostname:            opt(&f, "hostname", rawString),
		MaxFrameSize:        opt(&f, "max-frame-size", rawUint),
		ChannelMax:          opt(&f, "channel-max", rawUshort),
		IdleTimeout:         opt(&f, "idle-time-out", rawUint),
		OutgoingLocales:     f.raw("outgoing-locales", isSymbols),
		IncomingLocales:     f.raw("incoming-locales", isSymbols),
		OfferedCapabilities: f.raw("offered-capabilities", isCapabilities),
		DesiredCapabilities: f.raw("desired-capabilities", isCapabilities),
		Properties:          f.raw("properties", isMap),
	}
	return n, f.done()
}

// Begin begins a session (AMQP 1.0 part 2 §2.7.2). The windows count transfer
// frames.
type Begin struct {
	RemoteChannel       Opt[uint16]
	NextOutgoingID      uint32
	IncomingWindow      uint32
	OutgoingWindow      uint32
	HandleMax           Opt[uint32] // 2^32-1 if absent
	OfferedCapabilities Raw         // symbols
	DesiredCapabilities Raw         // symbols
	Properties          Raw         // a map
}

// Append appends g as a described list.
func (g *Begin) Append(b []byte) []byte {
	c := beginComposite(b, CodeBegin)
	c.ushort(g.RemoteChannel)
	c.mandatoryUint(g.NextOutgoingID)
	c.mandatoryUint(g.IncomingWindow)
	c.mandatoryUint(g.OutgoingWindow)
	c.uint(g.HandleMax)
	c.raw(g.OfferedCapabilities)
	c.raw(g.DesiredCapabilities)
	c.raw(g.Properties)
	return c.done()
}

// Decode sets g to the begin at the start of body and returns its length.
func (g *Begin) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeBegin, "begin", 8)
	if err != nil {
		return 0, err
	}
	*g = Begin{
		RemoteChannel:       opt(&f, "remote-channel", rawUshort),
		NextOutgoingID:      need(&f, "next-outgoing-id", rawUint),
		IncomingWindow:      need(&f, "incoming-window", rawUint),
		OutgoingWindow:      need(&f, "outgoing-window", rawUint),
		HandleMax:           opt(&f, "handle-max", rawUint),
		OfferedCapabilities: f.raw("offered-capabilities", isCapabilities),
		DesiredCapabilities: f.raw("desired-capabilities", isCapabilities),
		Properties:          f.raw("properties", isMap),
	}
	return n, f.done()
}

// Detach detaches or, with Closed, closes a link (AMQP 1.0 part 2 §2.7.7).
type Detach struct {
	Handle uint32
	Closed bool
	Error  *Error
}

// Append appends d as a described list.
func (d *Detach) Append(b []byte) []byte {
	c := beginComposite(b, CodeDetach)
	c.mandatoryUint(d.Handle)
	c.flag(d.Closed)
	c.error(d.Error)
	return c.done()
}

// Decode sets d to the detach at the start of body and returns its length.
func (d *Detach) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeDetach, "detach", 3)
	if err != nil {
		return 0, err
	}
	*d = Detach{
		Handle: need(&f, "handle", rawUint),
		Closed: opt(&f, "closed", rawBool).V,
		Error:  f.error("error"),
	}
	return n, f.done()
}

// End ends a session (AMQP 1.0 part 2 §2.7.8).
type End struct{ Error *Error }

// Append appends e as a described list.
func (e *End) Append(b []byte) []byte {
	c := beginComposite(b, CodeEnd)
	c.error(e.Error)
	return c.done()
}

// Decode sets e to the end at the start of body and returns its length.
func (e *End) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeEnd, "end", 1)
	if err != nil {
		return 0, err
	}
	*e = End{Error: f.error("error")}
	return n, f.done()
}

// Close closes a connection (AMQP 1.0 part 2 §2.7.9).
type Close struct{ Error *Error }

// Append appends c as a described list.
func (c *Close) Append(b []byte) []byte {
	w := beginComposite(b, CodeClose)
	w.error(c.Error)
	return w.done()
}

// Decode sets c to the close at the start of body and returns its length.
func (c *Close) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeClose, "close", 1)
	if err != nil {
		return 0, err
	}
	*c = Close{Error: f.error("error")}
	return n, f.done()
}

// error writes an error, absent when nil.
func (c *composite) error(e *Error) {
	if e == nil {
		c.null()
		return
	}
	c.b = e.Append(c.b)
	c.wrote()
}

// error reads an error, nil if it is absent.
func (f *fields) error(field string) *Error {
	v := f.next()
	if v == nil {
		return nil
	}
	e := new(Error)
	f.nested(field, v, e.Decode)
	return e
}

// nested decodes the composite v that is a field of f.
func (f *fields) nested(field string, v Raw, decode func([]byte) (int, error)) {
	if _, err := decode(v); err != nil && f.err == nil {
		f.err = named(f.name+": "+field, err.(*Error))
	}
}
