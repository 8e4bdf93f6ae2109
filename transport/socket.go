package transport

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"qdrouter/amqp"
	"qdrouter/router"
)

// readSize is how much is read at once.
const readSize = 128 << 10

var slabs = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// socket is the router.Wire of a connection.
type socket struct {
	nc  net.Conn
	raw syscall.RawConn // nil when nc is not TCP

	// Of the one write that may be tried at a time.
	out     []byte
	outN    int
	outErr  error
	tryOnce func(fd uintptr) bool
}

func newSocket(nc net.Conn) *socket {
	s := &socket{nc: nc}
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	s.tryOnce = s.try // bound once: a method value allocates
	return s
}

func (s *socket) try(fd uintptr) bool {
	for {
		n, err := rawWrite(fd, s.out)
		switch err {
		case 0:
			s.outN = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			s.outErr = err
		}
		return true
	}
}

// The sockets are non-blocking, so reads and writes need not be announced to the scheduler: that
// would wake its monitor thread, which then polls at short intervals until all is idle again, at
// every message of a quiet connection. But a reader that finds more and more to read must be
// seen, so that others get their turn: it does announce itself after rawStreak reads.
const rawStreak = 8

func rawRead(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, no := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if no != 0 {
		return 0, no
	}
	return int(n), 0
}

func rawWrite(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, no := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if no != 0 {
		return 0, no
	}
	return int(n), 0
}

// TryWrite is router.Wire's.
func (s *socket) TryWrite(p []byte) (int, error) {
	if s.raw == nil {
		return 0, nil
	}
	s.out, s.outN, s.outErr = p, 0, nil
	err := s.raw.Write(s.tryOnce)
	s.out = nil
	if err == nil {
		err = s.outErr
	}
	return s.outN, err
}

// Write is router.Wire's.
func (s *socket) Write(p []byte) (int, error) { return s.nc.Write(p) }

// Cut is router.Wire's. It shuts the socket down rather than closing it: Close waits for the
// raw read to end, and Cut may come from within it. The reader finds the end and closes.
func (s *socket) Cut() {
	if s.raw == nil {
		s.nc.Close()
		return
	}
	s.raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
}

// lingerLimit is how long what is left to write may take once the reader has ended.
const lingerLimit = time.Second

// run feeds c, first with rest, until the connection ends, and then sees it off. It returns
// what ended it: nil after a close in good order.
func (s *socket) run(c *router.Conn, rest []byte) error {
	var err error
	if len(rest) > 0 {
		rest, err = feed(c, rest)
	}
	if err == nil {
		if s.raw != nil {
			err = s.readRaw(c, rest)
		} else {
			err = s.readPlain(c, rest)
		}
	}
	s.nc.SetWriteDeadline(time.Now().Add(lingerLimit))
	if err == io.EOF && c.Error() == nil { // the peer may still read, and learn why (CFG R32)
		c.Fail(errAborted)
	}
	c.Done()
	s.nc.Close()
	var e *amqp.Error
	switch {
	case err == router.ErrClosed:
		if e := c.Error(); e != nil {
			return e
		}
		return nil
	case errors.As(err, &e):
		return e
	case c.Error() != nil:
		return c.Error()
	}
	return errAborted // CFG R32
}

// feed gives what is in b to c and returns a copy of what is left.
func feed(c *router.Conn, b []byte) (rest []byte, err error) {
	c.Begin()
	n, err := c.Input(b)
	c.End()
	return append([]byte(nil), b[n:]...), err
}

// readRaw reads until the socket ends. The readiness that the runtime's poller reports is
// edge-triggered, so each wait comes after a read that found nothing.
func (s *socket) readRaw(c *router.Conn, rest []byte) error {
	var box *[]byte
	var slab []byte
	n := 0
	streak := 0
	var end error
	err := s.raw.Read(func(fd uintptr) bool {
		for {
			if box == nil {
				box = slabs.Get().(*[]byte)
				slab = *box
				if len(rest) > len(slab) {
					slab = make([]byte, 2*len(rest))
				}
				n = copy(slab, rest)
				rest = nil
				c.Begin()
			}
			if n == len(slab) {
				slab = grown(slab)
			}
			var m int
			var err error
			if streak < rawStreak {
				var no syscall.Errno
				if m, no = rawRead(fd, slab[n:]); no != 0 {
					err = no
				}
			} else {
				m, err = syscall.Read(int(fd), slab[n:])
			}
			streak++
			if err == syscall.EINTR {
				continue
			}
			if err == nil && m > 0 {
				n += m
				c.Begin()
				var used int
				used, end = c.Input(slab[:n])
				if end == nil {
					n = copy(slab, slab[used:n])
					continue
				}
			} else if err == nil {
				end = io.EOF
			} else if err != syscall.EAGAIN {
				end = err
			}
			c.End()
			if n > 0 && end == nil {
				rest = append([]byte(nil), slab[:n]...) // half a frame
			}
			slabs.Put(box)
			box = nil
			streak = 0
			return end != nil
		}
	})
	if end == nil {
		end = err
	}
	return end
}

// readPlain reads from what is not TCP.
func (s *socket) readPlain(c *router.Conn, rest []byte) error {
	slab := make([]byte, max(readSize, 2*len(rest)))
	n := copy(slab, rest)
	for {
		m, err := s.nc.Read(slab[n:])
		if m > 0 {
			n += m
			c.Begin()
			used, end := c.Input(slab[:n])
			c.End()
			if end != nil {
				return end
			}
			if n = copy(slab, slab[used:n]); n == len(slab) {
				slab = grown(slab)
			}
		}
		if err != nil {
			return err
		}
	}
}

// grown makes room for the rest of a frame that is longer than what is read at once. Frames are
// no longer than our max-frame-size: the router ends the connection at the header of one that is.
func grown(slab []byte) []byte {
	return append(slab, make([]byte, len(slab))...)
}
