package amqp

import (
	"math"
	"unicode/utf8"
)

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

// fitAttach returns a without what can be told least of all, until its frame has no more than n
// octets: first what the link can do without, then what describes its ends, then the ends, without
// which it is a refusal (TakesAnswer tells beforehand). Of the unsettled deliveries it then says that
// they are not all there. What is left may still be too long, as names are not to be cut.
func fitAttach(a *Attach, n int) *Attach {
	fit := *a
	if a.Source != nil {
		s := *a.Source
		fit.Source = &s
	}
	if a.Target != nil {
		t := *a.Target
		fit.Target = &t
	}
	leave := []func(){
		func() { fit.Properties = nil },
		func() { fit.OfferedCapabilities, fit.DesiredCapabilities = nil, nil },
		func() {
			if !fit.Unsettled.IsNull() {
				fit.Unsettled, fit.IncompleteUnsettled = emptyMap, true
			}
		},
		func() {
			if fit.Source != nil {
				fit.Source.Filter = nil
			}
		},
		func() {
			if s := fit.Source; s != nil {
				s.DynamicNodeProperties, s.DefaultOutcome, s.Outcomes, s.Capabilities = nil, nil, nil, nil
			}
			if t := fit.Target; t != nil {
				t.DynamicNodeProperties, t.Capabilities = nil, nil
			}
		},
		func() { fit.Source, fit.Target = nil, nil },
	}
	for _, f := range leave {
		f()
		if len(AppendFrame(nil, 0, 0, &fit)) <= n {
			break
		}
	}
	return &fit
}

// TakesAttach reports whether the peer has room for an attach in which nothing is left out of what
// describes the two ends of the link. One that the link can do without may have to go.
func (c *Conn) TakesAttach(a *Attach) bool {
	if attachHead+a.variable() <= c.frameRoom() { // nearly always
		return true
	}
	fit := *a
	fit.Handle, fit.InitialDeliveryCount = math.MaxUint32, Some[uint32](math.MaxUint32)
	fit.Properties, fit.OfferedCapabilities, fit.DesiredCapabilities = nil, nil, nil
	return len(AppendFrame(nil, 0, 0, &fit)) <= c.frameRoom()
}

// TakesAnswer reports whether the peer has room for the answer to its attach, or for as much of it as
// tells the two ends of the link.
func (l *Link) TakesAnswer(a *Attach) bool {
	n := l.Session.Conn.frameRoom()
	if attachHead+len(l.Name)+a.variable() <= n {
		return true
	}
	named := *a
	named.Name, named.Handle, named.InitialDeliveryCount = l.Name, math.MaxUint32, Some[uint32](math.MaxUint32)
	fit := fitAttach(&named, n)
	return (fit.Source != nil || a.Source == nil) && (fit.Target != nil || a.Target == nil) && len(AppendFrame(nil, 0, 0, fit)) <= n
}

// attachHead bounds what the frame of an attach takes besides what variable counts.
const attachHead = 256

// variable is how many octets the parts of a have that may be of any length.
func (a *Attach) variable() int {
	n := len(a.Name) + len(a.Unsettled) + len(a.OfferedCapabilities) + len(a.DesiredCapabilities) + len(a.Properties)
	if s := a.Source; s != nil {
		n += len(s.Address.V) + len(s.ExpiryPolicy) + len(s.DynamicNodeProperties) + len(s.DistributionMode) +
			len(s.Filter) + len(s.DefaultOutcome) + len(s.Outcomes) + len(s.Capabilities)
	}
	if t := a.Target; t != nil {
		n += len(t.Address.V) + len(t.ExpiryPolicy) + len(t.DynamicNodeProperties) + len(t.Capabilities)
	}
	if a.Coordinator != nil {
		n += len(a.Coordinator.Capabilities)
	}
	return n
}

var emptyMap = Raw(AppendValue(nil, Map{}))

// fitFrame returns p without what makes its frame larger than n octets.
func fitFrame(p Performative, n int) Performative {
	switch p := p.(type) {
	case *Attach:
		return fitAttach(p, n)
	case *Detach:
		return &Detach{Handle: p.Handle, Closed: p.Closed, Error: fitError(p.Error, n-fitHead)}
	case *End:
		return &End{Error: fitError(p.Error, n-fitHead)}
	case *Close:
		return &Close{Error: fitError(p.Error, n-fitHead)}
	}
	return p
}
