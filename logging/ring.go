package logging

import (
	"sync"

	"go.uber.org/zap/zapcore"
)

// ringSize is how many events are kept (CFG G7).
const ringSize = 1000

// Entry is an event that was logged.
type Entry struct {
	Module string
	Level  Level
	Text   string
	File   string // of the source, or ""
	Line   int    // 0 when File is ""
	Time   int64  // seconds since the epoch
}

// A ring keeps the newest events.
type ring struct {
	mu      sync.Mutex
	entries []Entry // grows to ringSize, then next is the oldest
	next    int
}

func (r *ring) add(e zapcore.Entry) {
	entry := Entry{Module: e.LoggerName, Level: fromZap(e.Level), Text: e.Message, Time: e.Time.Unix()}
	if e.Caller.Defined {
		entry.File, entry.Line = shortPath(e.Caller.File), e.Caller.Line
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) < ringSize {
		r.entries = append(r.entries, entry)
		return
	}
	r.entries[r.next] = entry
	r.next = (r.next + 1) % ringSize
}

// Recent returns the newest limit entries kept, oldest first; all of them if limit
// is not positive.
func (r *Registry) Recent(limit int) []Entry {
	ring := &r.ring
	ring.mu.Lock()
	defer ring.mu.Unlock()
	n := len(ring.entries)
	if limit <= 0 || limit > n {
		limit = n
	}
	recent := make([]Entry, 0, limit)
	for i := n - limit; i < n; i++ {
		recent = append(recent, ring.entries[(ring.next+i)%n])
	}
	return recent
}
