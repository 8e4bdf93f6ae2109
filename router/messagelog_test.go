package router

import (
	"slices"
	"testing"

	"qdrouter/amqp"
)

// TestMessageLogWords: which words messageLoggingComponents knows (CFG G13).
func TestMessageLogWords(t *testing.T) {
	all := messageLog(1<<len(messageFields) - 1)
	for in, want := range map[string]messageLog{
		"": 0, "none": 0, "all": all, "to": 1 << 2, "message-id,app-properties": 1 | 1<<13, "nonsense": 0,
		"subject,nonsense, to": 1<<3 | 1<<2, "to,none": 0, "body": 0, "nonsense,all": all,
	} {
		if got := parseMessageLog(in); got != want {
			t.Errorf("%q: %b, want %b", in, got, want)
		}
	}
}

// TestMessageLog: the lines for messages received and sent, of the chosen fields in their order;
// bodies never appear (CFG G13).
func TestMessageLog(t *testing.T) {
	m := (&amqp.Properties{
		MessageID: "id1", UserID: []byte("u1"), To: amqp.Some("a"), Subject: amqp.Some("s"), ReplyTo: amqp.Some("r"),
		CorrelationID: uint64(7), ContentType: "text/plain", ContentEncoding: "gzip",
		AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(12)), CreationTime: amqp.Some(amqp.Timestamp(11)),
		GroupID: amqp.Some("g"), GroupSequence: amqp.Some(uint32(3)), ReplyToGroupID: amqp.Some("rg"),
	}).Append(nil)
	m = append(m, 0, 0x53, amqp.CodeApplicationProperties)
	m = amqp.AppendValue(m, amqp.Map{{Key: "k", Value: "v"}, {Key: "n", Value: int32(5)}, {Key: "b", Value: true}})
	m = append(m, plain("secret")...)
	uuid := (&amqp.Properties{MessageID: amqp.UUID{0: 0x12, 15: 0xff}}).Append(nil)
	uuid = append(uuid, plain("secret")...)

	tests := []struct {
		components string
		message    []byte
		want       string
	}{
		{"all", m, `Message{message-id="id1", user-id=b"u1", to="a", subject="s", reply-to="r", correlation-id=7, content-type="text/plain", ` +
			`content-encoding="gzip", absolute-expiry-time=12, creation-time=11, group-id="g", group-sequence=3, reply-to-group-id="rg", app-properties={"k"="v", "n"=5, "b"=T}}`},
		{"app-properties,to", m, `Message{to="a", app-properties={"k"="v", "n"=5, "b"=T}}`},
		{"message-id", uuid, `Message{message-id=12000000-0000-0000-0000-0000000000ff}`},
		{"all", plain("secret"), `Message{}`},
	}
	for _, tt := range tests {
		g := newRig(t, nil)
		logged := func(o *ConnOptions, _ *amqp.ConnConfig) { o.MessageLog = tt.components }
		a, b := g.peer(logged), g.peer(logged)
		b.receiver("q", 10)
		s := a.sender("q")
		g.log.take("")
		s.transfer(&amqp.OutDelivery{}, tt.message)
		g.run()
		want := []string{
			"[C1]: Received " + tt.want + " on link 'l0' ( -> q)",
			"[C2]: Sent " + tt.want + " on link 'l0' (q -> )",
		}
		if got := g.log.take("MESSAGE"); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", tt.components, got, want)
		}
	}
	g := newRig(t, nil)
	a := g.peer(nil)
	a.receiver("q", 10)
	a.sender("q").send("x")
	g.run()
	if got := g.log.take("MESSAGE"); got != nil {
		t.Errorf("logged without being asked: %q", got)
	}
}
