package client

import (
	"bytes"
	"io"
	"net"
	"reflect"
	"testing"

	"qdrouter/amqp"
)

// incoming is a net.Conn from which given bytes come, in pieces of a given size.
type incoming struct {
	net.Conn
	data []byte
	size int
}

func (c *incoming) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.data[:min(c.size, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// Messages are taken out, and the frames around them go on as they are.
func TestRepliesTakesEveryMessage(t *testing.T) {
	transfer := func(payload string, more, aborted bool) []byte {
		return amqp.AppendTransferFrame(nil, 1, &amqp.Transfer{More: more, Aborted: aborted}, []byte(payload))
	}
	header := amqp.HeaderAMQP[:]
	open := amqp.AppendFrame(nil, 0, 0, &amqp.Open{ContainerID: "x"})
	heartbeat := []byte{0, 0, 0, 8, 2, 0, 0, 0}
	flow := amqp.AppendFrame(nil, 0, 1, &amqp.Flow{})
	null := "\x00\x53\x77\x40" // the body that is left of each message
	frames := []struct{ in, out []byte }{
		{header, header},
		{open, open},
		{heartbeat, heartbeat},
		{transfer("one", false, false), transfer(null, false, false)},
		{flow, flow},
		{transfer("tw", true, false), transfer("", true, false)},
		{heartbeat, heartbeat},
		{transfer("o", true, false), transfer("", true, false)},
		{transfer("", false, false), transfer(null, false, false)},
		{transfer("lost", true, false), transfer("", true, false)},
		{transfer("", false, true), transfer("", false, true)},
		{transfer("three", false, false), transfer(null, false, false)},
	}
	var stream, left []byte
	for _, f := range frames {
		stream = append(stream, f.in...)
		left = append(left, f.out...)
	}
	want := [][]byte{[]byte("one"), []byte("two"), []byte("three")}
	for size := 1; size <= len(stream); size++ {
		r := &replies{Conn: &incoming{data: stream, size: size}}
		passed, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(passed, left) {
			t.Fatalf("in pieces of %d: read %x, want %x (%v)", size, passed, left, err)
		}
		if got := r.take(); !reflect.DeepEqual(got, want) {
			t.Fatalf("in pieces of %d: messages %q, want %q", size, got, want)
		}
		if r.take() != nil {
			t.Fatalf("in pieces of %d: messages are there a second time", size)
		}
	}
}

// What is no AMQP is go-amqp's to complain about.
func TestRepliesIgnoresWhatIsNoFrame(t *testing.T) {
	stream := []byte("HTTP/1.1 400 Bad Request\r\n\r\n")
	r := &replies{Conn: &incoming{data: stream, size: 100}}
	passed, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(passed, stream) || r.take() != nil {
		t.Errorf("read %q, %v", passed, err)
	}
}

func TestDecodeReply(t *testing.T) {
	m := &amqp.Message{
		Properties: &amqp.Properties{CorrelationID: "7"},
		ApplicationProperties: amqp.Map{
			{Key: "statusCode", Value: int32(200)},
			{Key: "statusDescription", Value: "OK"},
		},
		BodyKind: amqp.BodyValue,
		Body:     amqp.Map{{Key: "z", Value: uint32(1)}, {Key: "a", Value: amqp.Map{{Key: "y", Value: nil}, {Key: "x", Value: true}}}},
	}
	reply, id, err := decodeReply(m.Append(nil))
	want := Reply{200, "OK", amqp.AppendValue(nil, m.Body)}
	if err != nil || id != "7" || !reflect.DeepEqual(reply, want) {
		t.Errorf("reply %+v to %q, %v; want %+v to \"7\"", reply, id, err, want)
	}
	if _, _, err := decodeReply([]byte("junk")); err == nil {
		t.Error("no error for junk")
	}
	if reply, id, err := decodeReply((&amqp.Message{BodyKind: amqp.BodyValue}).Append(nil)); err != nil || id == "7" || reply.Status != 0 {
		t.Errorf("a message without properties: %+v to %q, %v", reply, id, err)
	}
}
