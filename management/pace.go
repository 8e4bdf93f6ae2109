package management

import (
	"sync"
	"time"
)

// A pace leaves the machine to the messages while somebody reads a long table: in
// a busy router every moment of work on one is followed by a rest that is many
// times as long. Whoever asks for the pages spends several times what they cost
// the router, and may do so on the same machine; the rest bounds both. A router
// with nothing else to do does not rest.
type pace struct {
	processor func() time.Duration // what the process has used; nil counts as busy

	mu   sync.Mutex
	free time.Time // when what was worked so far has been rested for

	// What the router is busy with besides, from 0 to 1, and since when it is
	// measured anew.
	busy  float64
	since time.Time
	used  time.Duration // by then
	work  time.Duration // since then
}

const (
	restFor = 110 // times the work, in a router that is busy
	// restless is the rest that may be owed before anybody waits: a table that
	// is not so long comes at once.
	restless = 100 * time.Millisecond
	// longestRest bounds the wait of one page. The tools give up after 5 s.
	longestRest = 250 * time.Millisecond

	// A router is busy when its other work takes this much of a processor.
	busyShare = 0.2
	// Work leaves about as much again to the garbage collector.
	workCounts = 2
	// busyEvery is the shortest time that is measured.
	busyEvery = 10 * time.Millisecond
)

// worked tells of work.
func (p *pace) worked(from, to time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work += to.Sub(from)
	p.measure(to)
	if p.free.Before(from) {
		p.free = from
	}
	p.free = p.free.Add(time.Duration(restFor * p.busy * float64(to.Sub(from))))
	if latest := to.Add(restless + longestRest); p.free.After(latest) {
		p.free = latest
	}
}

func (p *pace) measure(now time.Time) {
	if p.processor == nil {
		p.busy = 1
		return
	}
	elapsed := now.Sub(p.since)
	if elapsed < busyEvery {
		return
	}
	used := p.processor()
	if !p.since.IsZero() {
		other := used - p.used - workCounts*p.work
		p.busy = min(max(other.Seconds()/elapsed.Seconds()/busyShare, 0), 1)
	}
	p.since, p.used, p.work = now, used, 0
}

// wait gives how long to rest before more work.
func (p *pace) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.free.Add(-restless).Sub(now))
}
