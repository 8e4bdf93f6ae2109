package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"qdrouter/amqp"
	"qdrouter/logging"
	"qdrouter/router"
)

// A script of attempts: each entry is what dial does with one.
type attempt struct {
	open  *amqp.Open    // nil: the peer's open never comes
	lasts time.Duration // how long the connection is open
	err   error
}

func openWith(list amqp.List) *amqp.Open {
	o := &amqp.Open{ContainerID: "peer"}
	if list != nil {
		o.Properties = amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol(keyFailoverList), Value: list}})
	}
	return o
}

// scripted is a connector to c:1 whose attempts follow a script; each adds a
// line with its time, connection number and target to log.
func scripted(t *testing.T, log *[]string, script ...attempt) *connector {
	t.Helper()
	start := time.Now()
	n := 0
	note := func(format string, args ...any) {
		*log = append(*log, fmt.Sprintf("%v ", time.Since(start))+fmt.Sprintf(format, args...))
	}
	return &connector{
		hostPort: "c:1",
		failover: newFailover(target{defaultScheme, "c", "1"}),
		status:   statusInitializing,
		note:     func(router.Failure) {},
		done:     make(chan struct{}),
		nextID:   func() uint64 { n++; return uint64(n) },
		logf: func(module string, level logging.Level, format string, args ...any) {
			if level != logging.Trace {
				note(module+": "+format, args...)
			}
		},
		dial: func(ctx context.Context, id uint64, to target, opened func(*amqp.Open, string)) error {
			note("C%d to %s", id, to.hostPort())
			if int(id) > len(script) {
				<-ctx.Done()
				return nil
			}
			a := script[id-1]
			if a.open != nil {
				opened(a.open, "Connection Opened: dir=out container_id="+a.open.ContainerID)
			}
			select {
			case <-time.After(a.lasts):
				return a.err
			case <-ctx.Done():
				return nil
			}
		},
	}
}

// CFG L14: 5 s after an attempt without open, 2 s after one with, 1 s with
// failover targets; no growth, and a new number each time.
func TestConnectorTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("proton:io Connection refused - disconnected c:1")
		lost := &amqp.Error{Condition: amqp.ErrCondFramingError, Description: "connection aborted"}
		list := amqp.List{amqp.Map{{Key: amqp.Symbol(keyNetworkHost), Value: "d"}}}
		var log []string
		c := scripted(t, &log,
			attempt{err: refused},
			attempt{err: refused},
			attempt{open: openWith(nil), lasts: time.Hour, err: lost},
			attempt{err: refused},
			attempt{open: openWith(list), lasts: time.Minute},
			attempt{err: refused},
			attempt{err: refused},
		)
		ctx, cancel := context.WithCancel(t.Context())
		go c.run(ctx)
		time.Sleep(2 * time.Hour)
		cancel()
		<-c.done
		want := []string{
			"0s C1 to c:1",
			"0s SERVER: [C1] Connection to c:1 failed: proton:io Connection refused - disconnected c:1",
			"5s C2 to c:1",
			"5s SERVER: [C2] Connection to c:1 failed: proton:io Connection refused - disconnected c:1",
			"10s C3 to c:1",
			"1h0m10s SERVER: [C3] Connection to c:1 failed: amqp:connection:framing-error connection aborted",
			"1h0m12s C4 to c:1",
			"1h0m12s SERVER: [C4] Connection to c:1 failed: proton:io Connection refused - disconnected c:1",
			"1h0m17s C5 to c:1",
			"1h1m18s C6 to c:1",
			"1h1m18s SERVER: [C6] Connection to c:1 failed: proton:io Connection refused - disconnected c:1",
			"1h1m19s C7 to c:1",
			"1h1m19s SERVER: [C7] Connection to c:1 failed: proton:io Connection refused - disconnected c:1",
			"1h1m20s C8 to d:5672",
		}
		if got := strings.Join(log, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
}

// CFG 3.3.
func TestConnectorStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		c := scripted(t, &log,
			attempt{lasts: time.Second, err: errors.New("proton:io " + strings.Repeat("é", 400))},
			attempt{open: openWith(nil), lasts: time.Second},
		)
		check := func(when, status, msg string) {
			t.Helper()
			synctest.Wait()
			i := c.info()
			s, m, urls := i.Status, i.Message, i.FailoverURLs
			if s != status || !strings.HasPrefix(m, msg) || (m == "") != (msg == "") || len(m) > maxConnectionMsg {
				t.Errorf("%s: status %s, message %q of %d octets, want %s, %q…", when, s, m, len(m), status, msg)
			}
			if urls != "amqp://c:1" {
				t.Errorf("%s: failoverUrls %q", when, urls)
			}
		}
		check("before", statusInitializing, "")
		ctx, cancel := context.WithCancel(t.Context())
		go c.run(ctx)
		check("connecting", statusConnecting, "")
		time.Sleep(2 * time.Second)
		check("failed", statusConnecting, "[C1] Connection to c:1 failed: proton:io éé")
		time.Sleep(4*time.Second + time.Millisecond)
		check("open", statusSuccess, "[C2] Connection Opened: dir=out container_id=peer")
		time.Sleep(time.Second)
		check("closed by the peer", statusConnecting, "[C2] Connection Opened")
		cancel()
		<-c.done
		check("deleted", statusClosing, "[C2]")
		if i := c.info(); i.Attempts != 2 || i.Failures != 1 || !strings.HasPrefix(i.LastError, "proton:io éé") {
			t.Errorf("%d attempts, %d failures, last %.20q; want 2, 1 and the reason of the first", i.Attempts, i.Failures, i.LastError)
		}
	})
}

// A connector that demands what we cannot do never tries.
func TestConnectorRefusal(t *testing.T) {
	var log []string
	c := scripted(t, &log)
	c.refusal = "TLS is not supported"
	c.run(t.Context())
	if i := c.info(); i.Status != statusFailed || i.Message != "TLS is not supported" || i.LastError != i.Message || i.Attempts != 0 {
		t.Errorf("status %+v", i)
	}
	if len(log) != 1 || !strings.Contains(log[0], "TLS is not supported") {
		t.Errorf("log %q, want one line with the reason", log)
	}
}
