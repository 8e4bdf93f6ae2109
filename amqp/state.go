package amqp

// Delivery states travel as Raw: the router passes most of them on unread.

// The outcomes without fields (AMQP 1.0 part 3 §3.4.2 and §3.4.4). Do not change
// their octets.
var (
	StateAccepted = Raw{codeDescribed, codeSmallUlong, CodeAccepted, codeList0}
	StateReleased = Raw{codeDescribed, codeSmallUlong, CodeReleased, codeList0}
)

// StateCode returns the descriptor of a delivery state as a number, whichever
// way it is encoded. ok is false for an absent state, and for one whose
// descriptor is no number and no name of the standard.
func StateCode(state Raw) (code uint64, ok bool) { return PerformativeCode(state) }

// AppendRejected appends the outcome rejected, with an error unless e is nil
// (AMQP 1.0 part 3 §3.4.3).
func AppendRejected(b []byte, e *Error) []byte {
	c := beginComposite(b, CodeRejected)
	c.error(e)
	return c.done()
}

// DecodeRejected returns the error of the outcome rejected, nil if it has none.
func DecodeRejected(state Raw) (*Error, error) {
	f, _, err := readComposite(state, CodeRejected, "rejected", 1)
	if err != nil {
		return nil, err
	}
	e := f.error("error")
	return e, f.done()
}

// Modified is the outcome modified (AMQP 1.0 part 3 §3.4.5).
type Modified struct {
	DeliveryFailed     bool
	UndeliverableHere  bool
	MessageAnnotations Raw // a map
}

// AppendModified appends the outcome modified; annotations is a map or nil.
func AppendModified(b []byte, deliveryFailed, undeliverableHere bool, annotations Raw) []byte {
	c := beginComposite(b, CodeModified)
	c.flag(deliveryFailed)
	c.flag(undeliverableHere)
	c.raw(annotations)
	return c.done()
}

// DecodeModified returns the fields of the outcome modified.
func DecodeModified(state Raw) (Modified, error) {
	f, _, err := readComposite(state, CodeModified, "modified", 3)
	if err != nil {
		return Modified{}, err
	}
	m := Modified{
		DeliveryFailed:     opt(&f, "delivery-failed", rawBool).V,
		UndeliverableHere:  opt(&f, "undeliverable-here", rawBool).V,
		MessageAnnotations: f.raw("message-annotations", isMap),
	}
	return m, f.done()
}

// Received is the state of a delivery of which a part has arrived (AMQP 1.0 part
// 3 §3.4.1).
type Received struct {
	SectionNumber uint32
	SectionOffset uint64 // octets
}

// AppendReceived appends the state received.
func AppendReceived(b []byte, r Received) []byte {
	c := beginComposite(b, CodeReceived)
	c.mandatoryUint(r.SectionNumber)
	c.ulong(Some(r.SectionOffset))
	return c.done()
}

// DecodeReceived returns the fields of the state received.
func DecodeReceived(state Raw) (Received, error) {
	f, _, err := readComposite(state, CodeReceived, "received", 2)
	if err != nil {
		return Received{}, err
	}
	r := Received{
		SectionNumber: need(&f, "section-number", rawUint),
		SectionOffset: need(&f, "section-offset", rawUlong),
	}
	return r, f.done()
}
