package tests

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"qdrouter/amqp"
	"qdrouter/router"
)

// The tests of this file run on a clock of their own, with connections in
// memory: times are exact and nobody waits for them.

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func withIdle(d time.Duration) func(*rawConfig) {
	return withConn(func(o *router.ConnOptions) { o.IdleTimeout = d })
}

// after checks that what ended now took as long as wanted, as exactly as timers go.
func after(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(start); took < want || took > want+5*time.Millisecond {
		t.Errorf("after %v, want %v", took, want)
	}
}

const idleExpired = "local-idle-timeout expired"

func TestL10IdleTimeout(t *testing.T) {
	for idle, told := range map[time.Duration]amqp.Opt[uint32]{
		16 * time.Second: amqp.Some(uint32(8000)),
		5 * time.Second:  amqp.Some(uint32(2500)),
		0:                {},
	} {
		inBubble(t, fmt.Sprint("announced ", idle), func(t *testing.T) {
			r := startRouter(t, withIdle(idle))
			p := r.pipe(t)
			if o := p.open(); o.IdleTimeout != told {
				t.Errorf("idle-time-out %v, want %v", o.IdleTimeout, told)
			}
			if idle == 0 {
				time.Sleep(24 * time.Hour)
				p.begin(0)
			}
			p.close()
			r.holds(t, r.empty)
		})
	}
	inBubble(t, "silence", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		start := time.Now()
		p.closed("amqp:resource-limit-exceeded", idleExpired)
		after(t, start, 4*time.Second)
		r.log.wait(t, "SERVER (info) [C1] Connection from", "failed: amqp:resource-limit-exceeded "+idleExpired)
		r.holds(t, r.empty)
		synctest.Wait()
		if lines, _ := r.log.matching("failed"); len(lines) != 1 {
			t.Errorf("log lines: %q, want one", lines)
		}
	})
	inBubble(t, "silence after links and messages", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		p.begin(0)
		in := p.receiver("q", 10)
		l := p.sender("q")
		l.awaitCredit(250)
		l.send(rawMessage("x"), true)
		in.receive()
		r.flush(t, p)
		start := time.Now()
		p.closed("amqp:resource-limit-exceeded", idleExpired)
		after(t, start, 4*time.Second)
		r.holds(t, r.empty)
	})
	inBubble(t, "a peer that does not read", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		r.holds(t, r.empty) // the close is never read
	})
	inBubble(t, "a peer that does not read, and is owed", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		p.send(0, &amqp.Begin{})
		r.holds(t, r.empty)
	})
	inBubble(t, "empty frames keep it alive", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		for range 100 {
			time.Sleep(3900 * time.Millisecond)
			p.write(amqp.AppendFrame(nil, amqp.FrameAMQP, 0, nil))
		}
		p.begin(0)
		start := time.Now()
		p.closed("amqp:resource-limit-exceeded", idleExpired)
		after(t, start, 4*time.Second)
	})
}

// CFG L11: the timer starts with the AMQP header.
func TestL11IdleBeforeOpen(t *testing.T) {
	inBubble(t, "header only", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		time.Sleep(30 * time.Second)
		p.write(amqp.HeaderAMQP[:])
		start := time.Now()
		want := append(amqp.HeaderAMQP[:], frame(0, &amqp.Open{})...)
		want = append(want, frame(0, &amqp.Close{Error: &amqp.Error{Condition: "amqp:resource-limit-exceeded", Description: idleExpired}})...)
		p.nothingBut(want)
		after(t, start, 4*time.Second)
		r.holds(t, r.empty)
	})
	inBubble(t, "within SASL", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.wait = time.Hour
		p.write(amqp.HeaderSASL[:])
		start := time.Now()
		p.header(amqp.HeaderSASL)
		p.all()
		after(t, start, time.Minute) // the limit of the handshake
		r.holds(t, r.empty)
	})
}

// CFG L13, and R1: connections that never come to their open are cut without
// a word when the time of the handshake is over.
func TestL13HandshakeTimeout(t *testing.T) {
	const limit = 7 * time.Second
	sasl := append(amqp.HeaderSASL[:], amqp.AppendFrame(nil, amqp.FrameSASL, 0, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"ANONYMOUS"}})...)
	tests := []struct {
		name  string
		input []byte
		got   []byte
	}{
		{"silence", nil, nil},
		{"part of a header", []byte("AMQP\x00\x01"), nil},
		{"SASL header", amqp.HeaderSASL[:], sasl},
		{"half a SASL frame", append(amqp.HeaderSASL[:], 0, 0, 0, 20, 2), sasl},
		{"AMQP header", amqp.HeaderAMQP[:], amqp.HeaderAMQP[:]},
		{"half an open", append(amqp.HeaderAMQP[:], 0, 0, 0, 20, 2), amqp.HeaderAMQP[:]},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			r := startRouter(t, func(c *rawConfig) { c.limit = limit })
			p := r.pipe(t)
			start := time.Now()
			if tt.input != nil {
				go func() { _, _ = p.nc.Write(tt.input) }() // is not taken whole before the answer is read
			}
			p.nothingBut(tt.got)
			after(t, start, limit)
			r.log.wait(t, "ERROR (error) Run Time: Timeout waiting for initial handshake")
			r.holds(t, r.empty)
		})
	}
	inBubble(t, "an open in time", func(t *testing.T) {
		r := startRouter(t, func(c *rawConfig) { c.limit = limit })
		p := r.pipe(t)
		time.Sleep(limit - time.Second)
		p.open()
		time.Sleep(time.Hour)
		p.begin(0)
		p.close()
	})
}

// CFG L12: empty frames for a peer with an idle time-out.
func TestL12Heartbeats(t *testing.T) {
	open := func(t *testing.T, ms uint32) *rawPeer {
		r := startRouter(t)
		p := r.pipe(t)
		p.openWith(&amqp.Open{ContainerID: "raw", IdleTimeout: amqp.Some(ms)})
		return p
	}
	// beat reads until the next empty frame.
	beat := func(t *testing.T, p *rawPeer) {
		t.Helper()
		f, err := p.read(time.Now().Add(time.Hour))
		if err != nil || f.body != nil {
			t.Fatalf("%s, %v, want an empty frame", f, err)
		}
	}
	for ms, every := range map[uint32]time.Duration{
		10_000: 5 * time.Second,
		1000:   500 * time.Millisecond,
		41:     20500 * time.Microsecond,
		40:     20 * time.Millisecond,
		39:     20 * time.Millisecond,
		1:      20 * time.Millisecond,
	} {
		inBubble(t, fmt.Sprint(ms, " ms"), func(t *testing.T) {
			p := open(t, ms)
			for range 20 {
				start := time.Now()
				beat(t, p)
				if took := time.Since(start); took < every-time.Millisecond || took > every+2*time.Millisecond {
					t.Errorf("an empty frame after %v, want %v", took, every)
				}
			}
		})
	}
	inBubble(t, "other frames count", func(t *testing.T) {
		p := open(t, 1000)
		for range 20 {
			time.Sleep(400 * time.Millisecond)
			p.barrier()
		}
		if p.beats != 0 {
			t.Errorf("%d empty frames besides others every 400 ms", p.beats)
		}
		start := time.Now()
		beat(t, p)
		after(t, start, 500*time.Millisecond)
	})
	for _, told := range []amqp.Opt[uint32]{{}, amqp.Some(uint32(0))} {
		inBubble(t, fmt.Sprint("none for ", told), func(t *testing.T) {
			r := startRouter(t)
			p := r.pipe(t)
			p.openWith(&amqp.Open{ContainerID: "raw", IdleTimeout: told})
			if f, err := p.read(time.Now().Add(24 * time.Hour)); !isTimeout(err) {
				t.Errorf("%s, %v, want silence", f, err)
			}
		})
	}
	inBubble(t, "both ways at once", func(t *testing.T) {
		r := startRouter(t, withIdle(2*time.Second))
		p := r.pipe(t)
		p.openWith(&amqp.Open{ContainerID: "raw", IdleTimeout: amqp.Some(uint32(2000))})
		for range 50 {
			beat(t, p)
			p.write(amqp.AppendFrame(nil, amqp.FrameAMQP, 0, nil))
		}
	})
}

// CFG R33: octets count, whole frames or not; but a frame must be there within
// ten times the idle time.
func TestR33HalfAFrame(t *testing.T) {
	begin := frame(0, &amqp.Begin{Properties: amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("pad"), Value: string(bytes.Repeat([]byte("x"), 100))}})})
	inBubble(t, "silence after half", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		p.write(begin[:50])
		start := time.Now()
		p.closed("amqp:resource-limit-exceeded", idleExpired)
		after(t, start, 4*time.Second)
		r.holds(t, r.empty)
	})
	inBubble(t, "a slow frame", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		for _, piece := range split(begin, 16) {
			time.Sleep(3 * time.Second)
			p.write(piece)
		}
		take[*amqp.Begin](p)
		r.holds(t, r.empty.with(1, 0, 0))
	})
	inBubble(t, "a trickle", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		start := time.Now()
		stop := make(chan struct{})
		defer close(stop)
		_ = p.nc.SetWriteDeadline(time.Time{})
		go func() {
			for i := range begin {
				if _, err := p.nc.Write(begin[i : i+1]); err != nil {
					return
				}
				select {
				case <-time.After(time.Second):
				case <-stop:
					return
				}
			}
		}()
		p.wait = time.Hour
		p.closed("amqp:resource-limit-exceeded", "")
		after(t, start, 40*time.Second)
		r.holds(t, r.empty)
	})
	inBubble(t, "a trickle of whole frames", func(t *testing.T) {
		r := startRouter(t, withIdle(4*time.Second))
		p := r.pipe(t)
		p.open()
		empty := amqp.AppendFrame(nil, amqp.FrameAMQP, 0, nil)
		// Each write ends one frame and begins the next.
		p.write(empty[:3])
		for range 200 {
			time.Sleep(time.Second)
			p.write(empty[3:], empty[:3])
		}
		p.write(empty[3:])
		p.begin(0)
	})
}
