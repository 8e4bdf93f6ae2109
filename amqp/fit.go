package amqp

import "unicode/utf8"

// A peer is free to take frames of 512 octets only, while what it is to be told came from one
// with larger frames. A message is cut into frames; these words cannot be, so that what matters
// least of them is left out.

// fitHead bounds what a frame, its performative and the composites within take besides the
// symbols and strings of an error, or besides a state.
const fitHead = 64

// fitState returns a state that takes at most n octets.
func fitState(state Raw, n int) Raw {
	if len(state) <= n {
		return state
	}
	switch code, _ := StateCode(state); code {
	case CodeRejected:
		e, err := DecodeRejected(state)
		if err != nil {
			return nil
		}
		return AppendRejected(nil, fitError(e, n-fitHead))
	case CodeModified:
		m, err := DecodeModified(state)
		if err != nil {
			return nil
		}
		return AppendModified(nil, m.DeliveryFailed, m.UndeliverableHere, nil)
	}
	return nil
}

// fitError returns e without its info, its description cut to what condition and description
// together may have of n octets. It is nil when there is no room for the condition.
func fitError(e *Error, n int) *Error {
	if e == nil || len(e.Condition) > n {
		return nil
	}
	d := e.Description
	if end := n - len(e.Condition); len(d) > end {
		for end > 0 && !utf8.RuneStart(d[end]) {
			end--
		}
		d = d[:end]
	}
	return &Error{Condition: e.Condition, Description: d}
}

// fitFrame returns p with an error that makes its frame no larger than n octets.
func fitFrame(p Performative, n int) Performative {
	switch p := p.(type) {
	case *Detach:
		return &Detach{Handle: p.Handle, Closed: p.Closed, Error: fitError(p.Error, n-fitHead)}
	case *End:
		return &End{Error: fitError(p.Error, n-fitHead)}
	case *Close:
		return &Close{Error: fitError(p.Error, n-fitHead)}
	}
	return p
}
