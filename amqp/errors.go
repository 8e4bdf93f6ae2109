package amqp

import (
	"errors"
	"fmt"
)

// The error conditions of the standard (AMQP 1.0 part 2 §2.8.14 to §2.8.18).
const (
	ErrCondInternalError         Symbol = "amqp:internal-error"
	ErrCondNotFound              Symbol = "amqp:not-found"
	ErrCondUnauthorizedAccess    Symbol = "amqp:unauthorized-access"
	ErrCondDecodeError           Symbol = "amqp:decode-error"
	ErrCondResourceLimitExceeded Symbol = "amqp:resource-limit-exceeded"
	ErrCondNotAllowed            Symbol = "amqp:not-allowed"
	ErrCondInvalidField          Symbol = "amqp:invalid-field"
	ErrCondNotImplemented        Symbol = "amqp:not-implemented"
	ErrCondResourceLocked        Symbol = "amqp:resource-locked"
	ErrCondPreconditionFailed    Symbol = "amqp:precondition-failed"
	ErrCondResourceDeleted       Symbol = "amqp:resource-deleted"
	ErrCondIllegalState          Symbol = "amqp:illegal-state"
	ErrCondFrameSizeTooSmall     Symbol = "amqp:frame-size-too-small"

	ErrCondConnectionForced   Symbol = "amqp:connection:forced"
	ErrCondFramingError       Symbol = "amqp:connection:framing-error"
	ErrCondConnectionRedirect Symbol = "amqp:connection:redirect"

	ErrCondWindowViolation  Symbol = "amqp:session:window-violation"
	ErrCondErrantLink       Symbol = "amqp:session:errant-link"
	ErrCondHandleInUse      Symbol = "amqp:session:handle-in-use"
	ErrCondUnattachedHandle Symbol = "amqp:session:unattached-handle"

	ErrCondDetachForced          Symbol = "amqp:link:detach-forced"
	ErrCondTransferLimitExceeded Symbol = "amqp:link:transfer-limit-exceeded"
	ErrCondMessageSizeExceeded   Symbol = "amqp:link:message-size-exceeded"
	ErrCondLinkRedirect          Symbol = "amqp:link:redirect"
	ErrCondStolen                Symbol = "amqp:link:stolen"
)

// Error is the error composite of AMQP 1.0 part 2 §2.8.14. It is both what goes
// over the wire and what the decoders of this package return, so that the cause
// of a failed decode can be sent to the peer that caused it.
type Error struct {
	Condition   Symbol
	Description string // "" is absent
	Info        Raw    // a map, or nil
}

// Clone returns a copy that outlives what e was decoded from, nil for nil.
func (e *Error) Clone() *Error {
	if e == nil {
		return nil
	}
	return &Error{Condition: e.Condition, Description: e.Description, Info: e.Info.Clone()}
}

// Error returns the condition and the description.
func (e *Error) Error() string {
	if e.Description == "" {
		return string(e.Condition)
	}
	return string(e.Condition) + ": " + e.Description
}

// Append appends e as a described list.
func (e *Error) Append(b []byte) []byte {
	c := beginComposite(b, CodeError)
	c.mandatorySymbol(e.Condition)
	c.text(e.Description)
	c.raw(e.Info)
	return c.done()
}

// Decode sets e to the error at the start of b and returns its length.
func (e *Error) Decode(b []byte) (n int, err error) {
	f, n, err := readComposite(b, CodeError, "error", 3)
	if err != nil {
		return 0, err
	}
	*e = Error{
		Condition:   need(&f, "condition", rawSymbol),
		Description: opt(&f, "description", rawString).V,
		Info:        f.raw("info", isMap),
	}
	return n, f.done()
}

// ErrNeedMore is returned by WalkMessage for a message that has not yet arrived
// as far as it was to be walked.
var ErrNeedMore = errors.New("amqp: more octets needed")

// invalidMessage is the error of a message whose sections cannot be walked (RT
// E54, CFG R29).
func invalidMessage() *Error {
	return &Error{Condition: ErrCondDecodeError, Description: "invalid message format"}
}

// malformedFrame is the error of a frame header that cannot be (CFG R8, R9).
func malformedFrame() *Error {
	return &Error{Condition: ErrCondFramingError, Description: "malformed frame"}
}

func decodeErrorf(format string, args ...any) *Error {
	return &Error{Condition: ErrCondDecodeError, Description: fmt.Sprintf(format, args...)}
}
