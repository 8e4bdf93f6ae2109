package linkstate

import (
	"slices"
	"strings"
	"time"
)

// local is what this router announces of its own addresses (IR 2.12).
type local struct {
	seq     int64 // of the last differential MAU
	count   int   // addresses and list entries numbered so far
	entries map[string]*localAddr

	// Both lists in the order things happened. An entry counts only while the address still
	// has its number.
	added, deleted []pending

	since   time.Time // of the first entry in the lists
	flushed time.Time // when a differential MAU last went out
}

// flushDelay is how long a change of the addresses waits for others to come with it, or for its
// undoing. 1.19 waits for its next tick, up to a second (IR 2.6, 2.12); a differential MAU at most once
// a second is what both keep to.
const flushDelay = 100 * time.Millisecond

// flushAt returns when the next differential MAU is due, the zero time when there is nothing to
// tell.
func (l *local) flushAt() time.Time {
	if len(l.added)+len(l.deleted) == 0 {
		return time.Time{}
	}
	at := l.since.Add(flushDelay)
	if next := l.flushed.Add(tickInterval); next.After(at) {
		return next
	}
	return at
}

type localAddr struct {
	key       string
	treatment Treatment
	number    int  // orders addresses by age
	present   bool // has local destinations
	announced bool // the others know it, or would if they knew our seq
	pending   int  // number of its entry in one of the lists, 0 = none
}

type pending struct {
	addr   *localAddr
	number int
}

// An MAU longer than this is split: 1.19 takes control messages up to 128 KiB at ease (IR 2.4).
const maxMAU = 64 << 10

// synced reports whether keys of its class are synchronised between routers (IR 2.17).
func synced(key string) bool {
	if len(key) < 2 || !strings.Contains("MCDEFH", key[:1]) {
		return false
	}
	return key[0] != 'M' || len(key) > 2
}

func (l *local) number() int {
	l.count++
	return l.count
}

func (l *local) add(key string, t Treatment, e *Engine) {
	if !synced(key) {
		return
	}
	a := l.entries[key]
	if a == nil || !a.present {
		e.logf(ModuleMA, Debug, "Became Local Dest: %s", key)
	}
	if a == nil {
		a = &localAddr{key: key, number: l.number()}
		a.pending = l.number()
		l.note(e)
		l.added = append(l.added, pending{a, a.pending})
		l.entries[key] = a
	} else if !a.present {
		a.pending = 0 // was to be deleted
	}
	a.treatment, a.present = t, true
}

func (l *local) remove(key string, e *Engine) {
	a := l.entries[key]
	if a == nil || !a.present {
		return
	}
	e.logf(ModuleMA, Debug, "No Longer Local Dest: %s", key)
	a.present = false
	if !a.announced {
		a.pending = 0 // was to be added
		delete(l.entries, key)
		return
	}
	a.pending = l.number()
	l.note(e)
	l.deleted = append(l.deleted, pending{a, a.pending})
}

// note notes the time of the first of the changes to be announced.
func (l *local) note(e *Engine) {
	if len(l.added)+len(l.deleted) == 0 {
		l.since = e.now
	}
}

// flush announces what changed since it was last called and reports whether anything did.
func (l *local) flush(e *Engine) bool {
	live := func(p pending) bool { return p.addr.pending == p.number }
	first := l.seq
	var m *MAU
	size := 0
	send := func() {
		if m == nil {
			return
		}
		l.seq++
		m.MobileSeq = l.seq
		e.do(Send{Scope: ToAllMobile, Message: m})
		if e.enabled(ModuleMA, Debug) {
			e.logf(ModuleMA, Debug, "New mobile sequence: mobile_seq=%d, addrs_added=%d, addrs_deleted=%d, fanout=%d",
				l.seq, len(m.Add), len(m.Delete), e.fanout())
		}
		m = nil
	}
	next := func(p pending) *MAU {
		if size += len(p.addr.key) + 8; m != nil && size > maxMAU {
			send()
		}
		if m == nil {
			size = len(p.addr.key) + 8
			m = &MAU{ID: e.cfg.ID, Version: ProtocolVersion, Area: Area, Treatments: []Treatment{}, Add: []string{}, Delete: []string{}}
		}
		p.addr.pending = 0
		return m
	}
	for _, p := range l.added {
		if live(p) {
			m := next(p)
			m.Add = append(m.Add, p.addr.key)
			m.Treatments = append(m.Treatments, p.addr.treatment)
			p.addr.announced = true
		}
	}
	for _, p := range l.deleted {
		if live(p) {
			m := next(p)
			m.Delete = append(m.Delete, p.addr.key)
			delete(l.entries, p.addr.key)
		}
	}
	send()
	l.added, l.deleted = nil, nil
	if l.seq == first {
		return false
	}
	l.flushed = e.now
	return true
}

// fanout counts the connections that a message to all routers leaves on.
func (e *Engine) fanout() int {
	outs := make(map[LinkID]bool)
	for _, n := range e.nodes {
		if out := n.out(); out != 0 {
			outs[out] = true
		}
	}
	return len(outs)
}

// marReceived answers with the addresses that belong to our sequence: those to be deleted are
// among them still, those to be added not yet, as the next differential tells of both.
func (e *Engine) marReceived(m *MAR) {
	n := e.byID[m.ID]
	if n == nil {
		e.logf(ModuleMA, Error, "Received MAR from an unknown router with router id %s", m.ID)
		return
	}
	if !e.mobileCompatible(n, m, m.Version) {
		return
	}
	e.logf(ModuleMA, Debug, "Received MAR from %s, have_seq=%d", n.id, m.HaveSeq)
	if m.HaveSeq >= e.local.seq {
		return
	}
	var known []*localAddr
	for _, a := range e.local.entries {
		if a.announced {
			known = append(known, a)
		}
	}
	slices.SortFunc(known, func(a, b *localAddr) int { return a.number - b.number })
	u := &MAU{ID: e.cfg.ID, Version: ProtocolVersion, Area: Area, MobileSeq: e.local.seq,
		Exist: make([]string, len(known)), Treatments: make([]Treatment, len(known))}
	for i, a := range known {
		u.Exist[i], u.Treatments[i] = a.key, a.treatment
	}
	e.do(Send{Scope: ToRouterMobile, Router: n.id, Message: u})
	e.logf(ModuleMA, Debug, "Sent MAU to requestor: mobile_seq=%d", e.local.seq)
}

func (e *Engine) mobileCompatible(n *node, m Message, version int64) bool {
	if version <= ProtocolVersion {
		return true
	}
	if !n.versionLogged {
		n.versionLogged = true
		e.logf(ModuleMA, Warning, "Received %s at protocol version %d from %s.  Ignoring.", m.Opcode(), version, n.id)
	}
	return false
}

// mauReceived follows IR 2.13. A differential that is not the next one is dropped: one that is
// older says nothing new, a later one leaves a gap that an absolute MAU must fill. 1.19 would
// take it if a MAR is out already (IR 9.2).
func (e *Engine) mauReceived(m *MAU) {
	n := e.byID[m.ID]
	if n == nil {
		e.logf(ModuleMA, Error, "Received MAU from an unknown router with router id %s", m.ID)
		return
	}
	if !e.mobileCompatible(n, m, m.Version) {
		return
	}
	absolute := m.Exist != nil
	if m.Malformed || absolute && (m.Add != nil || m.Delete != nil) || !absolute && (m.Add == nil || m.Delete == nil) {
		e.logf(ModuleMA, Error, "Received malformed MAU from %s", n.id)
		return
	}
	if !absolute && m.MobileSeq != n.mobileSeq+1 {
		if m.MobileSeq > n.mobileSeq && !n.marOut {
			n.marOut = true
			e.sendMAR(n)
		}
		return
	}
	n.marOut = false
	n.mobileSeq = m.MobileSeq
	n.needMAR = n.needMAR && n.mobileSeq < n.raMobileSeq
	form, keys := "differential", m.Add
	if absolute {
		form, keys = "absolute", m.Exist
	}
	e.logf(ModuleMA, Debug, "Received MAU (%s) from %s, mobile_seq=%d", form, n.id, m.MobileSeq)

	stays := make(map[string]struct{}, len(keys))
	for i, key := range keys {
		if !synced(key) {
			continue
		}
		hint := TreatUnknown
		if len(m.Treatments) == len(keys) && m.Treatments[i] >= TreatFlood && m.Treatments[i] <= TreatUnavailable {
			hint = m.Treatments[i]
		}
		stays[key] = struct{}{}
		if _, ok := n.mobile[key]; !ok {
			if n.mobile == nil {
				n.mobile = make(map[string]struct{})
			}
			n.mobile[key] = struct{}{}
			e.do(RemoteAdded{n.id, key, hint})
		}
	}
	gone := m.Delete
	if absolute {
		for key := range n.mobile {
			if _, ok := stays[key]; !ok {
				gone = append(gone, key)
			}
		}
		slices.Sort(gone)
	}
	for _, key := range gone {
		if _, ok := n.mobile[key]; ok {
			delete(n.mobile, key)
			e.do(RemoteRemoved{n.id, key})
		}
	}
}

// flushMobile unmaps all addresses of a router.
func (e *Engine) flushMobile(n *node) {
	n.mobileSeq = 0
	if len(n.mobile) > 0 {
		n.mobile = nil
		e.do(RemotesFlushed{n.id})
	}
	e.logf(ModuleRouter, Debug, "Remote destinations flushed from router %s", n.id)
}
