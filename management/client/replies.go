package client

import (
	"fmt"
	"math"
	"net"
	"sync"

	"qdrouter/amqp"
)

// replies is a net.Conn that keeps a copy of every message that arrives over it.
// It watches the frames go by, after TLS and SASL, and reassembles deliveries
// from transfers. Deliveries of a connection must not interleave, which holds
// as long as there is one outstanding request.
//
// It also tells when credit for the next message has been given, which go-amqp
// does in its own time.
type replies struct {
	net.Conn
	credited chan struct{} // holds one token when credit has been written to the peer

	// Owned by the goroutine that reads.
	unread  []byte // start of a frame whose end has not come yet
	payload []byte // of the delivery that is arriving
	broken  error  // the bytes are no frames; nothing more will be kept

	mu       sync.Mutex // guards messages
	messages [][]byte   // complete, oldest first, until taken
}

// Read reads from the connection and looks at what came before it hands it on.
func (r *replies) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	if n > 0 && r.broken == nil {
		r.unread = append(r.unread, b[:n]...)
		r.broken = r.walk()
	}
	return n, err
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

// walk takes every complete frame from unread.
func (r *replies) walk() error {
	rest := r.unread
	for len(rest) >= len(amqp.ProtocolHeader{}) {
		if string(rest[:len(protocolHeader)]) == protocolHeader {
			rest = rest[len(amqp.ProtocolHeader{}):]
			continue
		}
		h, ok, err := amqp.ParseFrameHeader(rest, math.MaxInt32)
		if err != nil {
			return err
		}
		if !ok || len(rest) < int(h.Size) {
			break
		}
		body := rest[4*int(h.DataOffset) : h.Size]
		rest = rest[h.Size:]
		if code, ok := amqp.PerformativeCode(body); ok && code == amqp.CodeTransfer {
			if err := r.transfer(body); err != nil {
				return err
			}
		}
	}
	r.unread = append(r.unread[:0], rest...)
	return nil
}

func (r *replies) transfer(body []byte) error {
	var t amqp.Transfer
	n, err := t.Decode(body)
	if err != nil {
		return err
	}
	r.payload = append(r.payload, body[n:]...)
	switch {
	case t.Aborted:
		r.payload = nil
	case !t.More:
		r.mu.Lock()
		r.messages = append(r.messages, r.payload)
		r.mu.Unlock()
		r.payload = nil
	}
	return nil
}

// decodeReply reads a reply and the correlation-id it carries.
func decodeReply(message []byte) (reply Reply, correlationID string, err error) {
	m, err := amqp.DecodeMessage(message)
	if err != nil {
		return Reply{}, "", err
	}
	if m.Properties != nil {
		correlationID = fmt.Sprint(m.Properties.CorrelationID)
	}
	if code, ok := m.ApplicationProperties.Get("statusCode"); ok {
		if n, ok := plain(code).(int64); ok {
			reply.Status = int(n)
		}
	}
	if text, ok := m.ApplicationProperties.Get("statusDescription"); ok {
		reply.Description, _ = plain(text).(string)
	}
	reply.Body = plain(m.Body)
	return reply, correlationID, nil
}
