package router

import (
	"fmt"
	"strings"

	"qdrouter/amqp"
)

// messageLog is which fields of a message a connection logs (CFG G13).
type messageLog uint32

// messageFields are the components in the order they are logged.
var messageFields = [...]string{
	"message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type",
	"content-encoding", "absolute-expiry-time", "creation-time", "group-id", "group-sequence",
	"reply-to-group-id", "app-properties",
}

// parseMessageLog reads messageLoggingComponents; words it does not know are ignored.
func parseMessageLog(s string) messageLog {
	var set messageLog
	for _, word := range strings.Split(s, ",") {
		switch word = strings.TrimSpace(word); word {
		case "none":
			return 0
		case "all":
			return 1<<len(messageFields) - 1
		}
		for i, name := range messageFields {
			if name == word {
				set |= 1 << i
			}
		}
	}
	return set
}

// logMessage writes the line for a message received or sent, when it is wanted. payload is the
// whole message, or as much of it as has arrived.
func (c *Conn) logMessage(verb, link, source, target string, payload []byte, complete bool) {
	if c.messageLog == 0 || !c.r.opts.Log.Enabled("MESSAGE", Trace) {
		return
	}
	s, err := amqp.WalkMessage(payload, amqp.DepthApplicationProperties, complete)
	if err != nil {
		return
	}
	c.r.logf("MESSAGE", Trace, "[C%d]: %s Message{%s} on link '%s' (%s -> %s)",
		c.o.ID, verb, c.messageText(payload, &s), link, source, target)
}

func (c *Conn) messageText(payload []byte, s *amqp.Sections) string {
	var p amqp.Properties
	if s.Properties.Present() {
		if _, err := p.Decode(payload[s.Properties.Start:s.Properties.End]); err != nil {
			return ""
		}
	}
	var parts []string
	add := func(i int, v any) {
		if c.messageLog&(1<<i) != 0 && v != nil {
			parts = append(parts, messageFields[i]+"="+messageValue(v))
		}
	}
	add(0, p.MessageID)
	if p.UserID != nil {
		add(1, p.UserID)
	}
	add(2, optString(p.To))
	add(3, optString(p.Subject))
	add(4, optString(p.ReplyTo))
	add(5, p.CorrelationID)
	if p.ContentType != "" {
		add(6, string(p.ContentType))
	}
	if p.ContentEncoding != "" {
		add(7, string(p.ContentEncoding))
	}
	if p.AbsoluteExpiryTime.Set {
		add(8, p.AbsoluteExpiryTime.V)
	}
	if p.CreationTime.Set {
		add(9, p.CreationTime.V)
	}
	add(10, optString(p.GroupID))
	if p.GroupSequence.Set {
		add(11, p.GroupSequence.V)
	}
	add(12, optString(p.ReplyToGroupID))
	if s.ApplicationProperties.Present() {
		if v, err := s.ApplicationProperties.Value(payload).Value(); err == nil {
			add(13, v)
		}
	}
	return strings.Join(parts, ", ")
}

func optString(o amqp.Opt[string]) any {
	if !o.Set {
		return nil
	}
	return o.V
}

// messageValue renders a value as the old router does.
func messageValue(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "T"
		}
		return "F"
	case string:
		return printable([]byte(v), 2047)
	case amqp.Symbol:
		return printable([]byte(v), 2047)
	case []byte:
		return "b" + printable(v, 2047)
	case amqp.UUID:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[0:4], v[4:6], v[6:8], v[8:10], v[10:])
	case amqp.Map:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = messageValue(e.Key) + "=" + messageValue(e.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case amqp.List:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = messageValue(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}
