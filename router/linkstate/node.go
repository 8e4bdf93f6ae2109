package linkstate

import (
	"time"
)

// A node is the record of another router (IR 2.9).
type node struct {
	id       string
	index    int
	version  int64 // -1 = not known
	instance int64
	known    bool // instance is known

	links []*link // those that lead there
	link  *link   // the one in use; nil unless it is a neighbour

	peers []Peer // its link state
	lsSeq int64  // 0 = none
	seen  time.Time

	ra      RA        // the last one
	raAt    time.Time // when it came
	raTrace int       // shortest trace of those copies of it that were passed on

	// What it last advertised, and what became of asking for it.
	raLSSeq, raMobileSeq int64
	behind               int // advertisements in a row below what we hold
	needLSR, needMAR     bool
	owedLSU              bool      // it asked before there was a way to answer
	lsrAt, marAt         time.Time // last sent
	marOut               bool      // a MAR for a MAU that did not fit is unanswered

	mobileSeq     int64
	mobile        map[string]struct{} // addresses it has consumers of
	versionLogged bool

	keepAlive int // ticks without anything that speaks for it; never reset (IR 9.9)

	// The path, as last computed; all zero and inbound -1 without one.
	nextHop *node // nil when reached over its own link or not at all
	cost    int64
	hops    int
	origins Set
	inbound int

	route Node // as the owner knows it
}

// out returns the connection that leads to n. A next hop that has just lost its link is passed
// over for the node's own link.
func (n *node) out() LinkID {
	if n.nextHop != nil && n.nextHop.link != nil {
		return n.nextHop.link.id
	}
	if n.link != nil {
		return n.link.id
	}
	return 0
}

// learn returns the record of a router, which it makes if need be.
func (e *Engine) learn(id string, version, instance int64) *node {
	n := e.find(id)
	if n.version < 0 {
		n.version = version
	}
	if !n.known {
		n.known, n.instance = true, instance
	}
	return n
}

// find returns the record of a router, new if need be, with version and instance unknown then.
func (e *Engine) find(id string) *node {
	if n := e.byID[id]; n != nil {
		return n
	}
	index := 1
	for index < len(e.byIndex) && e.byIndex[index] != nil {
		index++
	}
	n := &node{id: id, index: index, version: -1, needLSR: true, inbound: -1}
	n.route = Node{ID: id, Index: index, Inbound: -1}
	if index == len(e.byIndex) {
		e.byIndex = append(e.byIndex, n)
	} else {
		e.byIndex[index] = n
	}
	e.byID[id] = n
	e.nodes = append(e.nodes, n)
	e.paths.add(index, id)
	e.do(RouterAdded{id, index})
	e.logf(ModuleRouter, Trace, "Node %s created: maskbit=%d", id, index)
	return n
}

// forget ends the record of a router that is not in e.nodes any more.
func (e *Engine) forget(n *node) {
	e.flushMobile(n)
	for _, o := range e.nodes {
		if o.nextHop == n {
			o.nextHop = nil
		}
	}
	delete(e.byID, n.id)
	e.byIndex[n.index] = nil
	e.paths.remove(n.index)
	e.do(RouterRemoved{n.id, n.index})
	e.logf(ModuleRouter, Trace, "Node %s deleted", n.id)
}

// checkInstance clears what is known of a router that has restarted (IR 2.11).
func (e *Engine) checkInstance(n *node, instance, version int64) {
	if n.instance == instance {
		return
	}
	n.instance, n.version = instance, version
	e.setPeers(n, nil, 0)
	n.raLSSeq, n.raMobileSeq, n.behind = 0, 0, 0
	n.marOut = false
	e.flushMobile(n)
	n.needLSR = true
	e.logf(ModuleRouter, Info, "Detected Restart of Router Node %s", n.id)
}

// setPeers replaces the link state kept of a router.
func (e *Engine) setPeers(n *node, peers []Peer, seq int64) {
	n.peers, n.lsSeq = peers, seq
	e.recompute = true
	e.scheduleCompute()
	e.paths.setPeers(n.index, e.edges(n.index, peers))
}

// edges translates a link state. A cost below 1 counts as 1, one that no configuration can
// hold as the largest it can, so that sums neither shrink nor overflow.
func (e *Engine) edges(from int, peers []Peer) []edge {
	edges := make([]edge, 0, len(peers))
	for _, p := range peers {
		to := 0
		if p.ID != e.cfg.ID {
			n := e.byID[p.ID]
			if n == nil {
				continue
			}
			to = n.index
		}
		if to != from {
			edges = append(edges, edge{int32(to), min(max(1, p.Cost), 1<<31)})
		}
	}
	return edges
}

// raReceived follows IR 2.8. Of the copies that come over several paths the first counts: an RA
// that says the same within a second is one. It is passed on again only with a shorter trace, as
// 1.19 takes none that is longer than its radius allows.
func (e *Engine) raReceived(m *RA, trace int) {
	if m.ID == e.cfg.ID {
		return
	}
	n := e.learn(m.ID, m.Version, m.Instance)
	if n.ra == *m && e.now.Sub(n.raAt) < raRepeat {
		if trace < n.raTrace {
			n.raTrace = trace
			e.do(Relay{})
		}
		return
	}
	n.ra, n.raAt, n.raTrace = *m, e.now, trace
	e.do(Relay{})
	e.checkInstance(n, m.Instance, m.Version)
	n.seen = e.now
	n.raLSSeq, n.raMobileSeq = m.LSSeq, m.MobileSeq
	e.checkBehind(n, m)
	if n.lsSeq < m.LSSeq {
		if n.out() != 0 {
			e.sendLSR(n)
		} else {
			n.needLSR = true
		}
	}
	if n.mobileSeq < m.MobileSeq {
		n.needMAR = true
	}
}

// checkBehind starts afresh with a router that advertises less than we hold of it: it restarted
// within a second, or something of its former life came late. A single such advertisement may
// have been overtaken; two in a row have not. 1.19 holds on to what it has until the other's
// numbers have caught up.
func (e *Engine) checkBehind(n *node, m *RA) {
	if m.LSSeq >= n.lsSeq && m.MobileSeq >= n.mobileSeq {
		n.behind = 0
		return
	}
	if n.behind++; n.behind < 2 {
		return
	}
	n.behind = 0
	if m.LSSeq < n.lsSeq {
		n.lsSeq = 0 // the answer to an LSR replaces the rest
	}
	switch {
	case m.MobileSeq >= n.mobileSeq:
	case m.MobileSeq == 0:
		e.flushMobile(n)
	default:
		n.mobileSeq = 0 // likewise
	}
}

// lsrReceived follows IR 2.9. The asker's version is filled in, its instance is unknown. An
// answer that could not go yet waits for a path.
func (e *Engine) lsrReceived(m *LSR) {
	if m.ID == e.cfg.ID {
		return
	}
	n := e.byID[m.ID]
	if n == nil {
		n = e.find(m.ID)
		n.version = m.Version
	}
	if n.out() == 0 {
		n.owedLSU = true
		return
	}
	e.sendLSU(n)
}

func (e *Engine) sendLSU(n *node) {
	n.owedLSU = false
	u := &LSU{ID: e.cfg.ID, Version: ProtocolVersion, Area: Area, Instance: e.cfg.Instance, LSSeq: e.lsSeq,
		LinkState: LinkState{ID: e.cfg.ID, Area: Area, LSSeq: e.lsSeq, Peers: e.peers}}
	e.do(Send{Scope: ToRouter, Router: n.id, Message: u})
	e.logf(ModuleLS, Trace, "SENT: %s", u)
}

// lsuReceived follows IR 2.9. Its instance tells us of no restart, but one that is not the
// router's own comes from its former life, or from a new one that we shall hear of: with it the
// sequence means nothing. 1.19 takes it. It also fills in an instance only for a new record, and
// then sees no restart of a router it knew from the link states of others.
func (e *Engine) lsuReceived(m *LSU) {
	if m.ID == e.cfg.ID {
		return
	}
	n := e.learn(m.ID, m.Version, m.Instance)
	if n.known && m.Instance != 0 && m.Instance != n.instance {
		return
	}
	if m.LinkState.LSSeq <= n.lsSeq {
		return
	}
	n.seen = e.now
	for _, p := range m.LinkState.Peers {
		if p.ID != e.cfg.ID {
			e.find(p.ID)
		}
	}
	e.setPeers(n, m.LinkState.Peers, m.LinkState.LSSeq)
}
