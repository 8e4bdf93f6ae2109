package router

import (
	"fmt"
	"strings"

	"qdrouter/amqp"
)

// traceFrame writes one frame to the PROTOCOL log (CFG G12).
func (c *Conn) traceFrame(out bool, channel uint16, p amqp.Performative, payload []byte) {
	arrow := "<-"
	if out {
		arrow = "->"
	}
	text := fmt.Sprintf("[C%d]:FRAME: %d %s ", c.o.ID, channel, arrow)
	if p == nil {
		text += "(EMPTY FRAME)"
	} else {
		text += performativeText(p)
	}
	if len(payload) > 0 {
		text += fmt.Sprintf(" (%d) %s", len(payload), printable(payload, 1024))
	}
	c.r.opts.Log.Log("PROTOCOL", Trace, text)
}

// printable shows octets, those that do not print as \xNN, up to max of them.
func printable(b []byte, max int) string {
	var s strings.Builder
	s.WriteByte('"')
	for i, x := range b {
		if i == max {
			s.WriteString("\"... (truncated)")
			return s.String()
		}
		if x < 0x20 || x > 0x7e || x == '"' || x == '\\' {
			fmt.Fprintf(&s, `\x%02x`, x)
		} else {
			s.WriteByte(x)
		}
	}
	s.WriteByte('"')
	return s.String()
}

// traceText gathers the fields of a performative that are present.
type traceText struct {
	b strings.Builder
	n int
}

func (t *traceText) field(name string, v any) {
	if t.n++; t.n > 1 {
		t.b.WriteString(", ")
	}
	t.b.WriteString(name + "=" + traceValue(v))
}

func (t *traceText) raw(name string, r amqp.Raw) {
	if r == nil {
		return
	}
	if v, err := r.Value(); err == nil {
		t.field(name, v)
	}
}

func optional[T any](t *traceText, name string, o amqp.Opt[T]) {
	if o.Set {
		t.field(name, o.V)
	}
}

func (t *traceText) err(e *amqp.Error) {
	if e != nil {
		t.field("error", amqp.Described{Descriptor: uint64(amqp.CodeError), Value: amqp.List{e.Condition, e.Description}})
	}
}

// traceValue renders a value as Proton's traces do.
func traceValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case string:
		return printable([]byte(v), 2047)
	case amqp.Symbol:
		for _, r := range v {
			if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-') {
				return ":" + printable([]byte(v), 2047)
			}
		}
		return ":" + string(v)
	case []byte:
		return "b" + printable(v, 2047)
	case uint8, uint16, uint32, uint64:
		return fmt.Sprintf("%#x", v)
	case amqp.Described:
		return fmt.Sprintf("@%s(%v) %s", descriptorName(v.Descriptor), v.Descriptor, traceValue(v.Value))
	case amqp.List:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = traceValue(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case amqp.Array:
		parts := make([]string, len(v.Items))
		for i, x := range v.Items {
			parts[i] = traceValue(x)
		}
		return "@<>[" + strings.Join(parts, ", ") + "]"
	case amqp.Map:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = traceValue(e.Key) + "=" + traceValue(e.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

func descriptorName(d any) string {
	code, _ := d.(uint64)
	switch code {
	case amqp.CodeError:
		return "error"
	case amqp.CodeReceived:
		return "received"
	case amqp.CodeAccepted:
		return "accepted"
	case amqp.CodeRejected:
		return "rejected"
	case amqp.CodeReleased:
		return "released"
	case amqp.CodeModified:
		return "modified"
	case amqp.CodeSource:
		return "source"
	case amqp.CodeTarget:
		return "target"
	}
	return fmt.Sprint(d)
}

func sourceText(s *amqp.Source) string {
	if s == nil {
		return "null"
	}
	var t traceText
	optional(&t, "address", s.Address)
	optional(&t, "durable", s.Durable)
	if s.ExpiryPolicy != "" {
		t.field("expiry-policy", s.ExpiryPolicy)
	}
	optional(&t, "timeout", s.Timeout)
	t.field("dynamic", s.Dynamic)
	t.raw("dynamic-node-properties", s.DynamicNodeProperties)
	if s.DistributionMode != "" {
		t.field("distribution-mode", s.DistributionMode)
	}
	t.raw("filter", s.Filter)
	t.raw("outcomes", s.Outcomes)
	t.raw("capabilities", s.Capabilities)
	return "@source(40) [" + t.b.String() + "]"
}

func targetText(s *amqp.Target) string {
	if s == nil {
		return "null"
	}
	var t traceText
	optional(&t, "address", s.Address)
	optional(&t, "durable", s.Durable)
	if s.ExpiryPolicy != "" {
		t.field("expiry-policy", s.ExpiryPolicy)
	}
	optional(&t, "timeout", s.Timeout)
	t.field("dynamic", s.Dynamic)
	t.raw("dynamic-node-properties", s.DynamicNodeProperties)
	t.raw("capabilities", s.Capabilities)
	return "@target(41) [" + t.b.String() + "]"
}

func performativeText(p amqp.Performative) string {
	var t traceText
	name, code := "", 0
	switch p := p.(type) {
	case *amqp.Open:
		name, code = "open", amqp.CodeOpen
		t.field("container-id", p.ContainerID)
		optional(&t, "hostname", p.Hostname)
		optional(&t, "max-frame-size", p.MaxFrameSize)
		optional(&t, "channel-max", p.ChannelMax)
		optional(&t, "idle-time-out", p.IdleTimeout)
		t.raw("offered-capabilities", p.OfferedCapabilities)
		t.raw("desired-capabilities", p.DesiredCapabilities)
		t.raw("properties", p.Properties)
	case *amqp.Begin:
		name, code = "begin", amqp.CodeBegin
		optional(&t, "remote-channel", p.RemoteChannel)
		t.field("next-outgoing-id", p.NextOutgoingID)
		t.field("incoming-window", p.IncomingWindow)
		t.field("outgoing-window", p.OutgoingWindow)
		optional(&t, "handle-max", p.HandleMax)
	case *amqp.Attach:
		name, code = "attach", amqp.CodeAttach
		t.field("name", p.Name)
		t.field("handle", p.Handle)
		t.field("role", bool(p.Role))
		optional(&t, "snd-settle-mode", p.SndSettleMode)
		optional(&t, "rcv-settle-mode", p.RcvSettleMode)
		t.n++
		t.b.WriteString(", source=" + sourceText(p.Source))
		if p.Coordinator != nil {
			t.b.WriteString(", target=@coordinator(48) []")
		} else {
			t.b.WriteString(", target=" + targetText(p.Target))
		}
		optional(&t, "initial-delivery-count", p.InitialDeliveryCount)
		optional(&t, "max-message-size", p.MaxMessageSize)
		t.raw("properties", p.Properties)
	case *amqp.Flow:
		name, code = "flow", amqp.CodeFlow
		optional(&t, "next-incoming-id", p.NextIncomingID)
		t.field("incoming-window", p.IncomingWindow)
		t.field("next-outgoing-id", p.NextOutgoingID)
		t.field("outgoing-window", p.OutgoingWindow)
		optional(&t, "handle", p.Handle)
		optional(&t, "delivery-count", p.DeliveryCount)
		optional(&t, "link-credit", p.LinkCredit)
		optional(&t, "available", p.Available)
		t.field("drain", p.Drain)
		if p.Echo {
			t.field("echo", true)
		}
	case *amqp.Transfer:
		name, code = "transfer", amqp.CodeTransfer
		t.field("handle", p.Handle)
		optional(&t, "delivery-id", p.DeliveryID)
		if p.DeliveryTag != nil {
			t.field("delivery-tag", p.DeliveryTag)
		}
		optional(&t, "message-format", p.MessageFormat)
		optional(&t, "settled", p.Settled)
		if p.More {
			t.field("more", true)
		}
		t.raw("state", p.State)
		if p.Aborted {
			t.field("aborted", true)
		}
	case *amqp.Disposition:
		name, code = "disposition", amqp.CodeDisposition
		t.field("role", bool(p.Role))
		t.field("first", p.First)
		optional(&t, "last", p.Last)
		t.field("settled", p.Settled)
		t.raw("state", p.State)
	case *amqp.Detach:
		name, code = "detach", amqp.CodeDetach
		t.field("handle", p.Handle)
		t.field("closed", p.Closed)
		t.err(p.Error)
	case *amqp.End:
		name, code = "end", amqp.CodeEnd
		t.err(p.Error)
	case *amqp.Close:
		name, code = "close", amqp.CodeClose
		t.err(p.Error)
	}
	return fmt.Sprintf("@%s(%d) [%s]", name, code, t.b.String())
}
