package tests

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/router"
	"qdrouter/tests/internal/rig"
)

// resources is what a process holds besides what a router counts.
type resources struct {
	heap        uint64 // octets of live objects
	descriptors int
	goroutines  int
}

func hold(t *testing.T) (now resources) {
	t.Helper()
	runtime.GC()
	runtime.GC() // and what finalizers and pools have let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return resources{m.HeapAlloc, len(fds), runtime.NumGoroutine()}
}

// abuse is one peer's way of being wrong: what it sends, all told.
type abuse struct {
	name   string
	octets func(rnd *rand.Rand) []byte
}

var abuses = []abuse{
	{"random octets", func(rnd *rand.Rand) []byte { return randomOctets(rnd, 2000) }},
	{"random octets after a header", func(rnd *rand.Rand) []byte {
		return append(amqp.HeaderAMQP[:], randomOctets(rnd, 2000)...)
	}},
	{"random octets after a SASL header", func(rnd *rand.Rand) []byte {
		return append(amqp.HeaderSASL[:], randomOctets(rnd, 2000)...)
	}},
	{"random frames after an open", func(rnd *rand.Rand) []byte {
		b := conversation(1)
		for range 1 + rnd.IntN(10) {
			body := randomOctets(rnd, 300)
			b = append(b, octets(uint32(8+len(body)), 2, 0, uint16(rnd.IntN(3)))...)
			b = append(b, body...)
		}
		return b
	}},
	{"random performatives", func(rnd *rand.Rand) []byte { // right but for the fields
		b := conversation(5)
		for range 1 + rnd.IntN(10) {
			body := []byte{0x00, 0x53, byte(0x10 + rnd.IntN(9)), 0xd0}
			n := rnd.IntN(12)
			var list []byte
			for range n {
				list = append(list, randomValue(rnd, 3)...)
			}
			body = binary.BigEndian.AppendUint32(body, uint32(4+len(list)))
			body = binary.BigEndian.AppendUint32(body, uint32(n))
			body = append(body, list...)
			b = append(b, octets(uint32(8+len(body)), 2, 0, uint16(rnd.IntN(2)))...)
			b = append(b, body...)
		}
		return b
	}},
	{"a conversation with mistakes", func(rnd *rand.Rand) []byte {
		b := conversation(1 << 10)
		for range 1 + rnd.IntN(3) {
			b[8+rnd.IntN(len(b)-8)] = byte(rnd.Uint32())
		}
		return b
	}},
	{"a conversation cut off", func(rnd *rand.Rand) []byte {
		b := conversation(1 << 10)
		return b[:rnd.IntN(len(b))]
	}},
	{"frames of a conversation out of order", func(rnd *rand.Rand) []byte {
		var frames [][]byte
		for rest := conversation(1 << 10)[8:]; len(rest) > 0; {
			n := binary.BigEndian.Uint32(rest)
			frames = append(frames, rest[:n])
			rest = rest[n:]
		}
		rnd.Shuffle(len(frames)-2, func(i, j int) { frames[i+2], frames[j+2] = frames[j+2], frames[i+2] })
		return append(amqp.HeaderAMQP[:], slices.Concat(frames...)...)
	}},
}

func randomOctets(rnd *rand.Rand, most int) []byte {
	b := make([]byte, rnd.IntN(most))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// randomValue is a value that is encoded as it should be.
func randomValue(rnd *rand.Rand, depth int) []byte {
	var v any
	switch rnd.IntN(12) {
	case 0:
		v = nil
	case 1:
		v = rnd.IntN(2) == 0
	case 2:
		v = rnd.Uint32()
	case 3:
		v = uint32(rnd.IntN(4))
	case 4:
		v = uint8(rnd.Uint32())
	case 5:
		v = fmt.Sprint("abuse", rnd.IntN(3))
	case 6:
		v = amqp.Symbol("amqp:accepted:list")
	case 7:
		v = randomOctets(rnd, 10)
	case 8:
		v = rnd.Uint64()
	default:
		if depth == 0 {
			return amqp.AppendValue(nil, uint16(rnd.Uint32()))
		}
		var list amqp.List
		for range rnd.IntN(4) {
			x, _, err := amqp.DecodeValue(randomValue(rnd, depth-1))
			if err != nil {
				panic(err)
			}
			list = append(list, x)
		}
		switch rnd.IntN(3) {
		case 0:
			v = list
		case 1:
			v = amqp.Described{Descriptor: uint64(0x20 + rnd.IntN(0x20)), Value: list}
		default:
			m := amqp.Map{}
			for i, x := range list {
				m = append(m, amqp.MapEntry{Key: amqp.Symbol(fmt.Sprint("x-opt-qd.", i)), Value: x})
			}
			v = m
		}
	}
	return amqp.AppendValue(nil, v)
}

// conversation is the header and the first n frames of one that is right in
// all: links both ways, messages short and long, settlements, a drain.
func conversation(n int) []byte {
	all := []amqp.Performative{
		&amqp.Open{ContainerID: "abuse", IdleTimeout: amqp.Some(uint32(60_000))},
		&amqp.Begin{IncomingWindow: 1000, OutgoingWindow: 1000},
		&amqp.Attach{Name: "in", Handle: 0, Role: amqp.RoleReceiver, Source: everySource("abuse/q"), Target: everyTarget("abuse/q")},
		&amqp.Attach{Name: "out", Handle: 1, Source: everySource("abuse/q"), Target: everyTarget("abuse/q"), InitialDeliveryCount: amqp.Some(uint32(0))},
		&amqp.Attach{Name: "any", Handle: 2, Source: &amqp.Source{}, Target: &amqp.Target{}, InitialDeliveryCount: amqp.Some(uint32(0))},
		&amqp.Attach{Name: "dynamic", Handle: 3, Role: amqp.RoleReceiver, Source: &amqp.Source{Dynamic: true}, Target: &amqp.Target{}},
		&amqp.Flow{Handle: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(5)), DeliveryCount: amqp.Some(uint32(0)),
			NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 1000, OutgoingWindow: 1000},
		&amqp.Begin{IncomingWindow: 1000, OutgoingWindow: 1000},
	}
	b := slices.Clone(amqp.HeaderAMQP[:])
	for i, p := range all {
		if i >= n {
			return b
		}
		b = append(b, frame(uint16(i/7), p)...)
	}
	message := (&amqp.Message{
		Header:             &amqp.Header{Durable: true},
		MessageAnnotations: amqp.Map{entry("x-opt-qd.to", "abuse/q"), entry("x-opt-qd.trace", amqp.List{"0/A"}), entry("u", int32(1))},
		Properties:         &amqp.Properties{To: amqp.Some("abuse/q"), ReplyTo: amqp.Some("abuse/r")},
		Body:               "abuse",
	}).Append(nil)
	id := uint32(0)
	transfer := func(handle uint32, payload []byte, settled, more, aborted bool, first bool) {
		t := &amqp.Transfer{Handle: handle, More: more, Aborted: aborted}
		if first {
			t.DeliveryID, t.DeliveryTag, t.Settled = amqp.Some(id), []byte{byte(id)}, amqp.Some(settled)
			id++
		}
		b = amqp.AppendTransferFrame(b, 0, t, payload)
	}
	for i := range 4 {
		transfer(2, message, i%2 == 0, false, false, true)
	}
	transfer(2, message[:20], false, true, false, true)
	transfer(2, message[20:], false, false, false, false)
	transfer(2, message[:20], false, true, false, true)
	transfer(2, nil, false, false, true, false)
	long := (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some("abuse/q")}, Body: make([]byte, 150_000), BodyKind: amqp.BodyData}).Append(nil)
	pieces := split(long, 16_000)
	for i, piece := range pieces {
		transfer(2, piece, true, i < len(pieces)-1, false, i == 0)
	}
	for _, p := range []amqp.Performative{
		&amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: amqp.Some(uint32(2)), Settled: true, State: amqp.StateAccepted},
		&amqp.Disposition{Role: amqp.RoleSender, First: 0, Last: amqp.Some(uint32(5)), Settled: true},
		&amqp.Flow{Handle: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(5)), DeliveryCount: amqp.Some(uint32(2)), Drain: true, Echo: true,
			NextIncomingID: amqp.Some(uint32(2)), IncomingWindow: 1000, OutgoingWindow: 1000},
		&amqp.Detach{Handle: 0, Closed: true},
		&amqp.Detach{Handle: 1},
		&amqp.Attach{Name: "out", Handle: 1, Source: everySource("abuse/q"), Target: &amqp.Target{Dynamic: true}, InitialDeliveryCount: amqp.Some(uint32(0))},
		&amqp.End{},
		&amqp.Close{},
	} {
		b = append(b, frame(0, p)...)
	}
	return b
}

// The conversation that the mistakes are made in is right.
func TestBadInputBegunWell(t *testing.T) {
	r := startRouter(t, withStrip("no"))
	before := r.counts()
	p := r.dial(t)
	p.write(conversation(1 << 10))
	p.header(amqp.HeaderAMQP)
	if c := take[*amqp.Close](p); c.Error != nil {
		t.Errorf("closed with %v", c.Error)
	}
	r.healthy(t, before)
}

// Thousands of connections that send rubbish leave memory, descriptors and
// goroutines as they were, and do not disturb others. QDROUTER_FULL=1 makes
// ten thousand.
func TestBadInput(t *testing.T) {
	r := startRouter(t, withStrip("no"), func(c *rawConfig) {
		c.router.Log.(*rawLog).least = router.Critical + 1
		c.conn.IdleTimeout = time.Minute
	})
	before := r.counts()
	b := r.bystander(t)
	count := rig.Scale(1000, 10_000)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	run := func(from, to int) {
		t.Helper()
		var next atomic.Int64
		next.Store(int64(from))
		var peers sync.WaitGroup
		for range 20 {
			peers.Go(func() {
				for {
					i := int(next.Add(1) - 1)
					if i >= to {
						return
					}
					a := abuses[i%len(abuses)]
					if err := r.abuse(a.octets(rand.New(rand.NewPCG(seed, uint64(i)))), i%3); err != nil {
						t.Errorf("connection %d, %s: %v", i, a.name, err)
					}
				}
			})
		}
		peers.Wait()
		r.holds(t, before.with(2, 2, 1)) // the bystander's
	}
	run(0, count/10)
	early := hold(t)
	run(count/10, count)
	var late resources
	rig.Eventually(t, rawWait, func() bool {
		late = hold(t)
		return late.descriptors <= early.descriptors && late.goroutines <= early.goroutines && late.heap <= early.heap+4<<20
	}, func() string { return fmt.Sprintf("holds %+v, early on %+v", late, early) })
	t.Logf("held %+v early on and %+v at the end", early, late)
	b.stop(t)
	r.healthy(t, before)
}

// abuse sends octets on a connection of its own and leaves: in good order of
// the transport, at once, or by a reset.
func (r *rawRouter) abuse(octets []byte, how int) error {
	nc, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		return err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(rawWait))
	tcp := nc.(*net.TCPConn)
	done := make(chan struct{})
	go func() { // what the router answers must not hold it up
		defer close(done)
		_, err = io.Copy(io.Discard, nc)
	}()
	_, _ = nc.Write(octets)
	switch how {
	case 0:
		_ = tcp.CloseWrite()
	case 1:
		_ = nc.Close()
	case 2:
		_ = tcp.SetLinger(0)
		_ = nc.Close()
	}
	<-done
	if how == 0 && err != nil && isTimeout(err) {
		return fmt.Errorf("the router did not end it: %w", err)
	}
	return nil
}
