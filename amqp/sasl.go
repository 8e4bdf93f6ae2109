package amqp

// Outcomes of a SASL exchange (AMQP 1.0 part 5 §5.3.3.6).
const (
	SASLCodeOK      uint8 = 0 // authenticated
	SASLCodeAuth    uint8 = 1 // the credentials are wrong
	SASLCodeSys     uint8 = 2 // the system failed
	SASLCodeSysPerm uint8 = 3 // the system failed, and will again
	SASLCodeSysTemp uint8 = 4 // the system failed, and may not again
)

// DecodeSASL decodes the body of a SASL frame and returns the length of the
// performative in it. Errors are as those of DecodePerformative.
func DecodeSASL(body []byte) (p Performative, n int, err error) {
	code, n := descriptor(body)
	if n < 0 {
		return nil, 0, named("frame body", skipError(n))
	}
	switch code {
	case CodeSASLMechanisms:
		return decodeInto(&SASLMechanisms{}, body)
	case CodeSASLInit:
		return decodeInto(&SASLInit{}, body)
	case CodeSASLChallenge:
		return decodeInto(&SASLChallenge{}, body)
	case CodeSASLResponse:
		return decodeInto(&SASLResponse{}, body)
	case CodeSASLOutcome:
		return decodeInto(&SASLOutcome{}, body)
	}
	return nil, 0, unknownDescriptor(code)
}

// SASLMechanisms offers mechanisms (AMQP 1.0 part 5 §5.3.3.1).
type SASLMechanisms struct{ Mechanisms []Symbol }

// Append appends m as a described list, the mechanisms always as an array.
func (m *SASLMechanisms) Append(b []byte) []byte {
	c := beginComposite(b, CodeSASLMechanisms)
	c.b = AppendValue(c.b, m.Mechanisms)
	c.wrote()
	return c.done()
}

// Decode sets m to the mechanisms at the start of body, which may be a single
// symbol, and returns their length.
func (m *SASLMechanisms) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeSASLMechanisms, "sasl-mechanisms", 1)
	if err != nil {
		return 0, err
	}
	*m = SASLMechanisms{Mechanisms: need(&f, "sasl-server-mechanisms", func(v Raw) ([]Symbol, bool) {
		s := v.Symbols()
		return s, s != nil
	})}
	return n, f.done()
}

// SASLInit chooses a mechanism (AMQP 1.0 part 5 §5.3.3.2).
type SASLInit struct {
	Mechanism       Symbol
	InitialResponse Opt[[]byte]
	Hostname        Opt[string]
}

// Append appends i as a described list.
func (i *SASLInit) Append(b []byte) []byte {
	c := beginComposite(b, CodeSASLInit)
	c.mandatorySymbol(i.Mechanism)
	if i.InitialResponse.Set {
		c.mandatoryBinary(i.InitialResponse.V)
	} else {
		c.null()
	}
	c.str(i.Hostname)
	return c.done()
}

// Decode sets i to the init at the start of body and returns its length.
func (i *SASLInit) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeSASLInit, "sasl-init", 3)
	if err != nil {
		return 0, err
	}
	*i = SASLInit{
		Mechanism:       need(&f, "mechanism", rawSymbol),
		InitialResponse: opt(&f, "initial-response", rawBinary),
		Hostname:        opt(&f, "hostname", rawString),
	}
	return n, f.done()
}

// SASLChallenge carries a challenge (AMQP 1.0 part 5 §5.3.3.3).
type SASLChallenge struct{ Challenge []byte }

// Append appends c as a described list.
func (c *SASLChallenge) Append(b []byte) []byte {
	w := beginComposite(b, CodeSASLChallenge)
	w.mandatoryBinary(c.Challenge)
	return w.done()
}

// Decode sets c to the challenge at the start of body and returns its length.
func (c *SASLChallenge) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeSASLChallenge, "sasl-challenge", 1)
	if err != nil {
		return 0, err
	}
	*c = SASLChallenge{Challenge: need(&f, "challenge", rawBinary)}
	return n, f.done()
}

// SASLResponse carries the answer to a challenge (AMQP 1.0 part 5 §5.3.3.4).
type SASLResponse struct{ Response []byte }

// Append appends r as a described list.
func (r *SASLResponse) Append(b []byte) []byte {
	c := beginComposite(b, CodeSASLResponse)
	c.mandatoryBinary(r.Response)
	return c.done()
}

// Decode sets r to the response at the start of body and returns its length.
func (r *SASLResponse) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeSASLResponse, "sasl-response", 1)
	if err != nil {
		return 0, err
	}
	*r = SASLResponse{Response: need(&f, "response", rawBinary)}
	return n, f.done()
}

// SASLOutcome ends the exchange (AMQP 1.0 part 5 §5.3.3.5).
type SASLOutcome struct {
	Code           uint8
	AdditionalData []byte // nil is absent
}

// Append appends o as a described list.
func (o *SASLOutcome) Append(b []byte) []byte {
	c := beginComposite(b, CodeSASLOutcome)
	c.ubyte(Some(o.Code))
	c.binary(o.AdditionalData)
	return c.done()
}

// Decode sets o to the outcome at the start of body and returns its length.
func (o *SASLOutcome) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeSASLOutcome, "sasl-outcome", 2)
	if err != nil {
		return 0, err
	}
	*o = SASLOutcome{
		Code:           need(&f, "code", rawUbyte),
		AdditionalData: opt(&f, "additional-data", rawBinary).V,
	}
	return n, f.done()
}
