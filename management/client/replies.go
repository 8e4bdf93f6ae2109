package client

import (
	"fmt"
	"math"
	"net"
	"slices"
	"sync"

	"qdrouter/amqp"
)

// replies is a net.Conn that takes out every message that arrives over it. It
// watches the frames go by, after TLS and SASL, and reassembles deliveries from
// transfers. What reads from it is left with an empty message in the place of
// each: go-amqp would decode them into values that nobody looks at, which is most
// of what a long table would cost. Deliveries of a connection must not
// interleave, which holds as long as there is one outstanding request.
//
// It also tells when credit for the next message has been given, which go-amqp
// does in its own time.
type replies struct {
	net.Conn
	credited chan struct{} // holds one token when credit has been written to the peer

	// Owned by the goroutine that reads.
	unread  []byte // start of a frame whose end has not come yet
	passed  []byte // to be handed on
	ended   error  // of the connection
	payload []byte // of the delivery that is arriving
	last    int    // about the size of the delivery before: pages are much alike
	broken  bool   // the bytes are no frames; nothing more will be taken out

	mu       sync.Mutex // guards messages
	messages [][]byte   // complete, oldest first, until taken
}

// readSize is how much is read at once: some of the largest frames there are.
const readSize = 128 << 10

// Read hands on what came over the connection, complete frames only.
func (r *replies) Read(b []byte) (int, error) {
	for len(r.passed) == 0 {
		if r.ended != nil {
			return 0, r.ended
		}
		r.unread = slices.Grow(r.unread, readSize)
		n, err := r.Conn.Read(r.unread[len(r.unread):cap(r.unread)])
		r.unread, r.ended = r.unread[:len(r.unread)+n], err
		r.passed = r.passed[:0]
		if !r.broken {
			r.broken = r.walk() != nil
		}
		if r.broken || r.ended != nil {
			r.passed = append(r.passed, r.unread...)
			r.unread = r.unread[:0]
		}
	}
	n := copy(b, r.passed)
	r.passed = r.passed[n:]
	return n, nil
}

// Write writes one frame: go-amqp writes each by itself.
func (r *replies) Write(b []byte) (int, error) {
	n, err := r.Conn.Write(b)
	if len(b) > amqp.FrameHeaderSize && err == nil && givesCredit(b[amqp.FrameHeaderSize:]) {
		select {
		case r.credited <- struct{}{}:
		default:
		}
	}
	return n, err
}

// givesCredit reports whether the body of a frame is a flow with link credit.
func givesCredit(body []byte) bool {
	if code, ok := amqp.PerformativeCode(body); !ok || code != amqp.CodeFlow {
		return false
	}
	var f amqp.Flow
	_, err := f.Decode(body)
	return err == nil && f.Handle.Set && f.LinkCredit.V > 0
}

// take returns the messages that have arrived and forgets them.
func (r *replies) take() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	messages := r.messages
	r.messages = nil
	return messages
}

// protocolHeader is how a protocol header starts. As the size of a frame it
// would be above every limit, so the two cannot be confused.
const protocolHeader = "AMQP"

// nothing is an empty message: a body of null.
var nothing = amqp.AppendNull([]byte{0x00, 0x53, amqp.CodeValue})

// walk moves every complete frame from unread to passed.
func (r *replies) walk() error {
	rest := r.unread
	for len(rest) >= len(amqp.ProtocolHeader{}) {
		size := len(amqp.ProtocolHeader{})
		if string(rest[:len(protocolHeader)]) != protocolHeader {
			h, ok, err := amqp.ParseFrameHeader(rest, math.MaxInt32)
			if err != nil {
				r.unread = rest
				return err
			}
			if !ok || len(rest) < int(h.Size) {
				break
			}
			size = int(h.Size)
			body := rest[4*int(h.DataOffset) : size]
			if code, ok := amqp.PerformativeCode(body); ok && code == amqp.CodeTransfer {
				if err := r.transfer(h.Channel, body); err != nil {
					r.unread = rest
					return err
				}
				rest = rest[size:]
				continue
			}
		}
		r.passed = append(r.passed, rest[:size]...)
		rest = rest[size:]
	}
	r.unread = append(r.unread[:0], rest...)
	return nil
}

// transfer keeps the payload of a transfer and hands on the rest.
func (r *replies) transfer(channel uint16, body []byte) error {
	var t amqp.Transfer
	n, err := t.Decode(body)
	if err != nil {
		return err
	}
	if r.payload == nil {
		r.payload = make([]byte, 0, max(r.last, len(body)-n))
	}
	r.payload = append(r.payload, body[n:]...)
	var left []byte
	switch {
	case t.Aborted:
		r.payload = nil
	case !t.More:
		left = nothing
		r.last = len(r.payload) + len(r.payload)/16
		r.mu.Lock()
		r.messages = append(r.messages, r.payload)
		r.mu.Unlock()
		r.payload = nil
	}
	r.passed = amqp.AppendTransferFrame(r.passed, channel, &t, left)
	return nil
}

// decodeReply reads a reply and the correlation-id it carries. The body shares
// memory with the message.
func decodeReply(message []byte) (reply Reply, correlationID string, err error) {
	s, err := amqp.WalkMessage(message, amqp.DepthAll, true)
	if err != nil {
		return Reply{}, "", err
	}
	if s.Properties.Present() {
		var p amqp.Properties
		if _, err := p.Decode(message[s.Properties.Start:s.Properties.End]); err != nil {
			return Reply{}, "", err
		}
		correlationID = fmt.Sprint(p.CorrelationID)
	}
	properties, err := amqp.IterMap(s.ApplicationProperties.Value(message))
	if err != nil {
		return Reply{}, "", err
	}
	for key, value, ok := properties.Next(); ok; key, value, ok = properties.Next() {
		name, _ := key.Text()
		switch string(name) {
		case "statusCode":
			code, _ := value.Int()
			reply.Status = int(code)
		case "statusDescription":
			text, _ := value.Text()
			reply.Description = string(text)
		}
	}
	reply.Body = s.BodyRange.Value(message)
	return reply, correlationID, nil
}
