package router

import (
	"maps"
	"runtime/debug"
	"time"
)

// After a crowd has left, its memory would stay: an idle program does not collect its garbage for
// minutes, and maps keep the room of their largest size. Trim gives it back (FC U30).

const (
	trimEvery = 10 * time.Second
	trimAfter = 1000 // links gone since the last trim
)

// trim runs in the timer goroutine when enough links have gone.
func (r *Router) trim() {
	if r.gone.Load() < trimAfter {
		return
	}
	r.gone.Store(0)
	r.linkMu.Lock()
	r.links = maps.Clone(r.links)
	r.linkMu.Unlock()
	r.connMu.Lock()
	r.conns = maps.Clone(r.conns)
	r.connMu.Unlock()
	r.call(func() {
		table := maps.Clone(r.table)
		r.tableMu.Lock()
		r.table = table
		r.tableMu.Unlock()
		r.touched = maps.Clone(r.touched) // what came before in this round is still to be written
	})
	debug.FreeOSMemory()
}
