package management

import (
	"fmt"
	"maps"
	"slices"

	"qdrouter/amqp"
	"qdrouter/router"
)

// logf logs an event of the agent, for debugf and the like: the source that the
// log shows is what called them. The text is made only when it is wanted.
func (a *Agent) logf(level router.Level, format string, args ...any) {
	if a.logs.Enabled(agentModule, level) {
		a.logs.Log(agentModule, level, fmt.Sprintf(format, args...))
	}
}

func (a *Agent) debugging() bool { return a.logs.Enabled(agentModule, router.Debug) }

// maxLogged bounds the text made of a request's body; the log keeps little more.
const maxLogged = 2048

func (a *Agent) logRequest(req *Request) {
	if !a.debugging() {
		return
	}
	b := appendLogged(nil, "", req.Properties)
	b = append(b, " body="...)
	b = appendLogged(b, "", req.Body)
	a.debugf("Agent request %s reply-to=%s correlation-id=%v", b, req.ReplyTo, req.CorrelationID)
}

func (a *Agent) logResponse(req *Request, resp *Response) {
	if !a.debugging() {
		return
	}
	if p, ok := resp.Body.(*page); ok {
		a.debugf("Agent response: %d %s, rows %d to %d of %d, to %s", resp.Status, resp.Description, p.from, p.to, p.total, req.ReplyTo)
		return
	}
	a.debugf("Agent response: %d %s body=%s to %s", resp.Status, resp.Description, appendLogged(nil, "", resp.Body), req.ReplyTo)
}

// masked hides the value of an attribute that holds a secret (MG 10).
func masked(name string, value any) any {
	if name == "saslPassword" || name == "password" {
		return "*******"
	}
	return value
}

// appendLogged appends v, the value of the attribute name, as the log shows it:
// secrets hidden, and no more than about maxLogged octets.
func appendLogged(b []byte, name string, v any) []byte {
	if len(b) > maxLogged {
		return b
	}
	switch v := masked(name, v).(type) {
	case amqp.Map:
		b = append(b, '{')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			key, _ := keyText(e.Key)
			b = append(append(b, key...), '=')
			if b = appendLogged(b, key, e.Value); len(b) > maxLogged {
				return append(b, " …"...)
			}
		}
		return append(b, '}')
	case amqp.List:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			if b = appendLogged(b, "", item); len(b) > maxLogged {
				return append(b, " …"...)
			}
		}
		return append(b, ']')
	case map[string]any:
		m := make(amqp.Map, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m = append(m, amqp.MapEntry{Key: key, Value: v[key]})
		}
		return appendLogged(b, name, m)
	case string:
		return append(b, v[:min(len(v), maxLogged)]...)
	case []byte:
		return fmt.Appendf(b, "%q", v[:min(len(v), maxLogged)])
	}
	return fmt.Append(b, v)
}
