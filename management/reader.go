package management

import "time"

// A reader is a client in the middle of a long table. While it pages on, its
// pages come from the snapshot its first page came from, so that no row is lost
// or repeated when entities come and go meanwhile, and taking the snapshot is
// paid once.
type reader struct {
	rows table
	next int       // the row its next page should begin with
	last time.Time // when it was last here
}

// A readerKey tells readers apart: clients ask with a reply address of their own.
type readerKey struct {
	connection uint64
	replyTo    string
	typeName   string
}

// readers are the readers known. A snapshot may be large, so there is a bound to
// their number and to how long one is waited for.
type readers map[readerKey]*reader

const (
	maxReaders  = 8
	readerGrace = 5 * time.Second
)

func keyOf(req *Request, k *kind) readerKey {
	return readerKey{req.From.Connection, req.ReplyTo, k.Name}
}

// resume gives the snapshot of the reader whose next page this is, or nil.
func (rs readers) resume(req *Request, k *kind, now time.Time) table {
	r := rs[keyOf(req, k)]
	offset, _, err := req.integer("offset")
	if r == nil || err != nil || offset != int64(r.next) || now.Sub(r.last) > readerGrace {
		return nil
	}
	return r.rows
}

// keep remembers the snapshot a page was cut from when more pages are likely to
// follow, and forgets it otherwise.
func (rs readers) keep(req *Request, k *kind, p *page, rows table, now time.Time) {
	key := keyOf(req, k)
	delete(rs, key)
	if p.to == p.total || p.from == p.to {
		return
	}
	if len(rs) >= maxReaders {
		var oldest readerKey
		for key, r := range rs {
			if o := rs[oldest]; o == nil || r.last.Before(o.last) {
				oldest = key
			}
		}
		delete(rs, oldest)
	}
	rs[key] = &reader{rows, p.to, now}
}

// expire forgets the readers that did not come back, and gives the time at which
// to look again; zero when none is left.
func (rs readers) expire(now time.Time) (next time.Time) {
	for key, r := range rs {
		end := r.last.Add(readerGrace)
		switch {
		case !end.After(now):
			delete(rs, key)
		case next.IsZero() || end.Before(next):
			next = end
		}
	}
	return next
}
