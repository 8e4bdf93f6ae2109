package router

import (
	"bytes"
	"testing"

	"qdrouter/amqp"
)

// TestStreamWithoutSections: what is no message at all is still passed on when it is long enough to
// be a stream, and aborted when its sender goes, as with 1.19.
func TestStreamWithoutSections(t *testing.T) {
	g := newRig(t, nil)
	from, to := g.peer(nil), g.peer(nil)
	rcv := to.receiver("q", 10)
	snd := from.sender("q")
	st := snd.start(&amqp.OutDelivery{})
	st.more(bytes.Repeat([]byte("0123456789"), 20000))
	g.run()
	snd.close()
	if len(rcv.got) != 1 || !rcv.got[0].aborted || rcv.got[0].payload[0] != '0' {
		t.Fatalf("the receiver got %+v", rcv.got)
	}
}
