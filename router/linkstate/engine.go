package linkstate

import (
	"fmt"
	"slices"
	"time"
)

const (
	tickInterval = time.Second // IR 2.6
	// Paths are computed this long after another router's link state changed, so that changes
	// that belong together are computed once; in large networks longer, up to a tick.
	computeDelay = 50 * time.Millisecond
	computeSize  = 50 // routers for which computeDelay is right
	// A request without an answer is repeated at the first tick after this time.
	lsrRetry = 1 * time.Second
	marRetry = 3 * time.Second
	// Equal advertisements closer together than this are copies of one.
	raRepeat = 1 * time.Second
)

// Config is what an engine needs to know of its router. It does not change.
type Config struct {
	ID       string // the router's id
	Instance int64  // another at every start, never 0, such as the time of it (IR 2.11)

	// Start is when the router first greets others. An instance that is the second which begins
	// then is its alone: one that ended before has not made itself known by it. The zero time is
	// at once.
	Start time.Time

	// The timers of the configuration (IR 2.6); 0 means the default.
	HelloInterval  time.Duration // 1 s; whole ticks
	HelloMaxAge    time.Duration // 3 s
	RAInterval     time.Duration // 30 s
	RAIntervalFlux time.Duration // 4 s
	RemoteLSMaxAge time.Duration // 60 s

	// Enabled tells which log lines are wanted; nil means all. Lines that are not wanted are
	// not made: in a large network they are long.
	Enabled func(Module, Level) bool
}

// An Engine is one router's part in the router control protocol.
type Engine struct {
	cfg     Config
	now     time.Time // of the event being handled
	actions []Action  // of that event so far

	due        time.Time // next tick
	computeAt  time.Time // when paths are due before that; zero = with the tick
	ticks      int64
	helloTicks int64 // value of ticks at the last HELLO
	lastRA     time.Time

	links     map[LinkID]*link
	linkCount int     // links that have been up so far
	heard     []heard // whom we have heard, in the order we first did

	nodes   []*node // in the order they became known
	byID    map[string]*node
	byIndex []*node // 0 is this router, always nil
	peers   []Peer  // our own link state; replaced, never changed
	lsSeq   int64
	paths   paths

	owedRA     bool // a neighbour's link is another: what went out on the old one may be lost
	ownChanged bool // our link state differs from what lsSeq announced
	recompute  bool
	early      bool // a loss was advertised since the last tick
	joined     bool // likewise a gain
	flux       bool
	lastChange time.Time // of the topology

	radius, shownRadius int // as computed, as the owner knows it

	local       local
	dupReported bool            // another router with our id was reported
	incompat    map[string]bool // ids reported for their protocol version
}

// heard is a router whose HELLO has come in.
type heard struct {
	id string
	at time.Time
}

// New returns an engine with no links. Its first tick is due at the configured start.
func New(cfg Config) *Engine {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.HelloInterval, time.Second)
	def(&cfg.HelloMaxAge, 3*time.Second)
	def(&cfg.RAInterval, 30*time.Second)
	def(&cfg.RAIntervalFlux, 4*time.Second)
	def(&cfg.RemoteLSMaxAge, 60*time.Second)
	e := &Engine{
		cfg:      cfg,
		due:      cfg.Start,
		links:    make(map[LinkID]*link),
		byID:     make(map[string]*node),
		byIndex:  make([]*node, 1),
		incompat: make(map[string]bool),
		local:    local{entries: make(map[string]*localAddr)},
	}
	e.paths.add(0, cfg.ID)
	return e
}

// Due returns when the next Tick is due. The zero time means at once. It may be another after
// each step.
func (e *Engine) Due() time.Time {
	due := e.due
	if !e.computeAt.IsZero() && e.computeAt.Before(due) {
		due = e.computeAt
	}
	if at := e.local.flushAt(); !at.IsZero() && at.Before(due) {
		due = at
	}
	return due
}

// Step takes in one event at time now, which never goes back, and appends what must be done
// about it to actions.
func (e *Engine) Step(now time.Time, ev Event, actions []Action) []Action {
	e.now, e.actions = now, actions
	switch ev := ev.(type) {
	case Tick:
		e.tick()
	case LinkUp:
		e.linkUp(ev)
	case LinkDown:
		e.linkDown(ev.Link)
	case Received:
		e.receive(ev)
	case LocalAdded:
		e.local.add(ev.Key, ev.Treatment, e)
	case LocalRemoved:
		e.local.remove(ev.Key, e)
	default:
		panic(fmt.Sprintf("linkstate: unknown event %T", ev))
	}
	actions, e.actions = e.actions, nil
	return actions
}

// tick does what is due every second, in the order of IR 2.6: HELLO, RA, topology, then mobile
// addresses. An RA goes out last and only once. The addresses it tells of have gone out before
// it then, so nobody asks for them needlessly (IR 2.8).
//
// In between, the owner is asked for ticks that only compute paths or tell of addresses.
func (e *Engine) tick() {
	if e.now.Before(e.due) {
		e.tickEarly()
		return
	}
	e.due = e.due.Add(tickInterval)
	if !e.due.After(e.now) {
		e.due = e.now.Add(tickInterval)
	}
	e.early, e.joined = false, false
	e.sendHello()
	interval := e.cfg.RAInterval
	if e.inFlux() {
		interval = e.cfg.RAIntervalFlux
	}
	advertise := e.owedRA || e.now.Sub(e.lastRA) >= interval
	e.expire()
	advertise = e.settle() || advertise
	e.request()
	advertise = e.flushDue() || advertise
	if advertise {
		e.sendRA()
	}
}

// flushDue announces changed addresses when it is time to.
func (e *Engine) flushDue() bool {
	at := e.local.flushAt()
	return !at.IsZero() && !e.now.Before(at) && e.local.flush(e)
}

// tickEarly computes paths and tells of addresses. A change of our own link state is advertised with it, but only once
// between two ticks: links that come up one after the other, as when a host starts, wait for the
// next.
func (e *Engine) tickEarly() {
	advertise := false
	if !e.computeAt.IsZero() && !e.now.Before(e.computeAt) {
		if e.ownChanged && !e.joined {
			e.joined = true
			e.settle()
			e.request()
			advertise = true
		} else if e.compute() {
			e.request()
		}
	}
	if e.flushDue() || advertise {
		e.sendRA()
	}
}

func (e *Engine) receive(ev Received) {
	switch m := ev.Message.(type) {
	case *Hello:
		if e.compatible(m, m.ID, m.Version) {
			e.logf(ModuleHello, Trace, "RCVD: %s", m)
			e.helloReceived(ev.Link, m)
		}
	case *RA:
		if e.compatible(m, m.ID, m.Version) {
			e.logf(ModuleLS, Trace, "RCVD: %s", m)
			e.raReceived(m, ev.Trace)
		}
	case *LSU:
		if e.compatible(m, m.ID, m.Version) {
			e.logf(ModuleLS, Trace, "RCVD: %s", m)
			e.lsuReceived(m)
		}
	case *LSR:
		if e.compatible(m, m.ID, m.Version) {
			e.logf(ModuleLS, Trace, "RCVD: %s", m)
			e.lsrReceived(m)
		}
	case *MAR:
		e.marReceived(m)
	case *MAU:
		e.mauReceived(m)
	default:
		panic(fmt.Sprintf("linkstate: unknown message %T", m))
	}
}

// compatible applies IR 2.5 to messages other than MAR and MAU, which have a check of their own.
func (e *Engine) compatible(m Message, id string, version int64) bool {
	if version <= ProtocolVersion {
		return true
	}
	if !e.incompat[id] {
		e.incompat[id] = true
		e.logf(ModuleRouter, Warning, "Received %s at protocol version %d from %s.  Ignoring.", m.Opcode(), version, id)
	}
	return false
}

func (e *Engine) do(a Action) { e.actions = append(e.actions, a) }

func (e *Engine) enabled(m Module, l Level) bool { return e.cfg.Enabled == nil || e.cfg.Enabled(m, l) }

func (e *Engine) logf(m Module, l Level, format string, args ...any) {
	if e.enabled(m, l) {
		e.do(Log{m, l, fmt.Sprintf(format, args...)})
	}
}

func (e *Engine) sendRA() {
	e.lastRA, e.owedRA = e.now, false
	m := &RA{ID: e.cfg.ID, Version: ProtocolVersion, Area: Area, Instance: e.cfg.Instance, LSSeq: e.lsSeq, MobileSeq: e.local.seq}
	e.do(Send{Scope: ToAll, Message: m})
	e.logf(ModuleLS, Trace, "SENT: %s", m)
}

func (e *Engine) sendLSR(n *node) {
	n.lsrAt = e.now
	m := &LSR{ID: e.cfg.ID, Version: ProtocolVersion, Area: Area}
	e.do(Send{Scope: ToRouter, Router: n.id, Message: m})
	e.logf(ModuleLS, Trace, "SENT: %s to: %s", m, n.id)
}

func (e *Engine) sendMAR(n *node) {
	n.marAt = e.now
	m := &MAR{ID: e.cfg.ID, Version: ProtocolVersion, Area: Area, HaveSeq: n.mobileSeq}
	e.do(Send{Scope: ToRouterMobile, Router: n.id, Message: m})
	e.logf(ModuleMA, Debug, "Send MAR request to router %s, have_seq=%d, fanout=%d", n.id, n.mobileSeq, min(1, int(n.out())))
}

// NodeInfo is what management shows of a router (IR 2.18).
type NodeInfo struct {
	ID              string
	Index           int
	ProtocolVersion int64 // -1 = not known yet
	Instance        int64 // 0 = not known yet
	LinkState       []string
	NextHop         string // "(self)" for this router, "" when reached over its own link
	ValidOrigins    []string
	Address         string
	RouterLink      LinkID    // 0 = no neighbour
	Cost            int64     // -1 = not known
	LastTopoChange  time.Time // of this router only; zero = none yet
}

// Nodes returns this router and the others in the order they became known.
func (e *Engine) Nodes() []NodeInfo {
	infos := []NodeInfo{{
		ID: e.cfg.ID, ProtocolVersion: ProtocolVersion, Instance: e.cfg.Instance, LinkState: peerIDs(e.peers),
		NextHop: "(self)", Address: "amqp:/_topo/" + Area + "/" + e.cfg.ID, Cost: -1, LastTopoChange: e.lastChange,
	}}
	for _, n := range e.nodes {
		info := NodeInfo{
			ID: n.id, Index: n.index, ProtocolVersion: n.version, Instance: n.instance, LinkState: peerIDs(n.peers),
			ValidOrigins: e.originIDs(n.route.Origins), Address: "amqp:/_topo/" + Area + "/" + n.id, Cost: -1,
			NextHop: n.route.NextHop, RouterLink: n.route.Link,
		}
		if n.route.Reachable() {
			info.Cost = n.route.Cost
		}
		infos = append(infos, info)
	}
	return infos
}

func peerIDs(peers []Peer) []string {
	ids := make([]string, len(peers))
	for i, p := range peers {
		ids[i] = p.ID
	}
	return ids
}

// originIDs names the routers of a set of valid origins, but for this router.
func (e *Engine) originIDs(s Set) []string {
	ids := make([]string, 0, s.Len())
	s.Each(func(i int) {
		if i > 0 {
			ids = append(ids, e.byIndex[i].id)
		}
	})
	slices.Sort(ids)
	return ids
}
