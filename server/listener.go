package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"qdrouter/logging"
	"qdrouter/management"
	"qdrouter/router"
)

const (
	// rebindEvery is how often a listener that could not bind is tried again,
	// besides whenever one is created (CFG L4).
	rebindEvery = 3 * time.Second

	// rebindSaid is the pause between log lines about that.
	rebindSaid = time.Minute

	// refusalEvery is the pause between log lines about refused connections.
	refusalEvery = 10 * time.Second

	// acceptPause follows a failed accept, which is mostly for want of descriptors.
	acceptPause = 100 * time.Millisecond
)

// A listener is one listener entity.
type listener struct {
	identity string
	name     string // given, or made up from the address (CFG L2)
	host     string
	port     string
	family   string
	http     bool
	// keepAlive is set where AMQP has no idle time-out of ours to find dead peers; elsewhere
	// its four system calls a connection are saved.
	keepAlive bool
	refusal   string // why every connection is refused; "" if none is
	serve     func(net.Conn)
	note      func(l *listener, from, reason string) // of a refused connection
	logf      func(module string, level logging.Level, format string, args ...any)

	mu       sync.Mutex // guards what follows
	sockets  []net.Listener
	accepts  sync.WaitGroup // one for each socket
	closed   bool
	complain quiet  // about refusals
	failing  quiet  // to bind
	unbound  string // why it is not bound; "" when it is
	last     string // why a connection was refused or failed last
	refusals int64  // connections turned away before their open
	failures int64  // connections that ended with an error after it
}

func (l *listener) hostPort() string { return l.host + ":" + l.port }

// bind opens the sockets and starts accepting, unless that was done before or
// the listener is closed.
func (l *listener) bind(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.sockets != nil {
		return nil
	}
	sockets, err := bind(ctx, l.host, l.port, l.family, l.keepAlive)
	if err != nil {
		l.unbound = reason(err)
		if _, ok := l.failing.speak(time.Now(), rebindSaid); ok {
			l.logf(logging.Server, logging.Error, "Listener error on %s: %s - listen on %s (proton:io)", l.hostPort(), reason(err), l.hostPort())
		}
		return err
	}
	l.sockets, l.unbound = sockets, ""
	l.logf(logging.Server, logging.Notice, "%s", l.announcement())
	for _, ln := range sockets {
		l.accepts.Go(func() { l.accept(ctx, ln) })
	}
	return nil
}

// announcement is the line that scripts wait for (CFG L1, L2, H1).
func (l *listener) announcement() string {
	where := l.hostPort()
	if l.port == "0" {
		where = showAddr(l.sockets[0].Addr())
	}
	switch {
	case l.http:
		return fmt.Sprintf("Listening for HTTP on %s (%s)", where, l.name)
	case l.port == "0":
		return fmt.Sprintf("Listening on %s (%s)", where, l.name)
	default:
		return "Listening on " + where
	}
}

// accept takes connections until the socket is closed.
func (l *listener) accept(ctx context.Context, ln net.Listener) {
	var trouble quiet
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			l.logf(logging.Server, logging.Trace, "Accepting connection on %s", l.hostPort())
			l.take(nc)
		case errors.Is(err, net.ErrClosed):
			l.logf(logging.Server, logging.Trace, "Listener closed on %s", l.hostPort())
			return
		default:
			if n, ok := trouble.speak(time.Now(), refusalEvery); ok {
				l.logf(logging.Server, logging.Error, "Listener error on %s: %s%s", l.hostPort(), reason(err), times(n))
			}
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

func (l *listener) take(nc net.Conn) {
	if l.refusal == "" {
		l.serve(nc)
		return
	}
	from := showAddr(nc.RemoteAddr())
	nc.Close()
	l.refused(from, l.refusal)
	l.mu.Lock()
	n, ok := l.complain.speak(time.Now(), refusalEvery)
	l.mu.Unlock()
	if ok {
		l.logf(logging.Server, logging.Warning, "Connection from %s (to %s) refused: %s%s", from, l.hostPort(), l.refusal, times(n))
	}
}

// refused counts a connection that was turned away at once.
func (l *listener) refused(from, why string) {
	l.note(l, from, why)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
	l.last = why
}

// ended counts what became of a connection; nil is nothing worth it.
func (l *listener) ended(f *router.Failure) {
	if f == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.What == router.ConnectionRefused {
		l.refusals++
	} else {
		l.failures++
	}
	l.last = f.Reason
}

// info is the read-only part of the listener entity.
func (l *listener) info() management.ListenerStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := management.ListenerStatus{LastError: l.last, Refused: l.refusals, Failed: l.failures}
	if l.unbound != "" {
		st.LastError = l.unbound
	}
	return st
}

// addr is the address of the first socket, nil when there is none.
func (l *listener) addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sockets) == 0 {
		return nil
	}
	return l.sockets[0].Addr()
}

// close closes the sockets and waits for the accepting goroutines. Connections
// that were taken live on (CFG L7).
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	sockets := l.sockets
	l.sockets = nil
	l.mu.Unlock()
	for _, ln := range sockets {
		ln.Close()
	}
	l.accepts.Wait()
	if l.http && sockets != nil {
		l.logf(logging.Server, logging.Notice, "Stopped listening for HTTP on %s", l.hostPort())
	}
}

// quiet keeps a repeated log line down to one in a while.
type quiet struct {
	next    time.Time
	skipped int
}

// speak says whether the line may be written now, and how many were skipped
// since the last one.
func (q *quiet) speak(now time.Time, every time.Duration) (skipped int, ok bool) {
	if now.Before(q.next) {
		q.skipped++
		return 0, false
	}
	skipped = q.skipped
	*q = quiet{next: now.Add(every)}
	return skipped, true
}

// times tells how many more of the same there were.
func times(skipped int) string {
	if skipped == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more since the last such line)", skipped)
}
