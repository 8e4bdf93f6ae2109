package management

import (
	"qdrouter/amqp"
	"qdrouter/config"
)

// A Request is one management request as its message carries it (MG 2.1).
type Request struct {
	ReplyTo       string // where the reply goes; without it nothing is done (MG 2.2)
	CorrelationID any    // echoed with its type: string, binary, ulong, uuid or nil
	Properties    amqp.Map
	Body          any // the value of the body's one amqp-value section, else nil
	From          Asker
}

// A Response is the outcome of a Request.
type Response struct {
	Status      int
	Description string
	Body        any // an AMQP value, or a *page not yet encoded
}

// decodeRequest takes a request out of an encoded message. The error is an
// *amqp.Error the delivery is to be rejected with.
func decodeRequest(message []byte) (Request, error) {
	m, err := amqp.DecodeMessage(message)
	if err != nil {
		return Request{}, err
	}
	req := Request{Properties: m.ApplicationProperties}
	if m.Properties != nil {
		req.ReplyTo = m.Properties.ReplyTo.V
		req.CorrelationID = m.Properties.CorrelationID
	}
	// Data and sequence bodies count as no body: an operation that needs a map
	// then says so itself (MG 2.1).
	if m.BodyKind == amqp.BodyValue {
		req.Body = m.Body
	}
	return req, nil
}

// Body of a reply's header section: durable = false, nothing else (MG 2.2).
var replyHeader = []byte{0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, 0x42}

// Append appends the reply message to req, addressed and correlated (MG 2.2).
func (r *Response) Append(b []byte, req *Request) []byte {
	b = append(b, replyHeader...)
	m := amqp.Message{
		Properties: &amqp.Properties{
			To:            amqp.Some(req.ReplyTo),
			CorrelationID: req.CorrelationID,
		},
		ApplicationProperties: amqp.Map{
			{Key: "statusCode", Value: int32(r.Status)},
			{Key: "statusDescription", Value: r.Description},
		},
		BodyKind: amqp.BodyNone,
	}
	b = append(m.Append(b), 0x00, 0x53, amqp.CodeValue)
	if p, ok := r.Body.(*page); ok {
		return p.append(b)
	}
	return amqp.AppendValue(b, r.Body)
}

// text gives an application property as text: a string or symbol as it is, a
// number in decimal. Absent, null and structured values give "" (MG 2.1).
func (r *Request) text(key string) string {
	v, _ := r.Properties.Get(key)
	return scalarText(v)
}

// has tells whether an application property is there with a value.
func (r *Request) has(key string) bool {
	v, ok := r.Properties.Get(key)
	return ok && v != nil
}

// integer gives an application property that may be an AMQP integer of any
// width or a numeric string. ok is false when it is absent or null.
func (r *Request) integer(key string) (n int64, ok bool, err error) {
	v, _ := r.Properties.Get(key)
	switch v := plain(v).(type) {
	case nil:
		return 0, false, nil
	case int64:
		return v, true, nil
	case string:
		n, msg := config.ParseInt(v)
		if msg != "" {
			return 0, false, badRequest("property %q is not a number: %s", key, msg)
		}
		return n, true, nil
	}
	return 0, false, badRequest("property %q is not a number", key)
}

// bodyMap gives the body as a map of plain values by attribute name. A body
// that is absent or no map is an empty one, or an error when the operation
// needs it.
func (r *Request) bodyMap(needed bool) (map[string]any, error) {
	m, ok := r.Body.(amqp.Map)
	if !ok {
		if needed {
			return nil, badRequest("the body must be a map of attributes")
		}
		return map[string]any{}, nil
	}
	attrs := make(map[string]any, len(m))
	for _, e := range m {
		key, ok := keyText(e.Key)
		if !ok {
			return nil, badRequest("the body has an attribute name that is not a string: %v", e.Key)
		}
		attrs[key] = plain(e.Value)
	}
	return attrs, nil
}
