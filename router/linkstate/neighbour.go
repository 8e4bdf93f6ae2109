package linkstate

import (
	"slices"
	"time"
)

// A link is an outgoing control link. HELLO goes out on all of them at once; the ones that come
// in tell where each leads.
type link struct {
	id        LinkID
	cost      int64
	age       int       // links that came up before it
	node      *node     // where it leads, nil until a HELLO that names us came in
	named     string    // whom a HELLO of ours on it has named since that one greeted here
	refreshed time.Time // when the last such HELLO came in
}

// linkUp greets the other end at once. 1.19 leaves it to the next tick, and an adjacency of two
// of them takes up to three; its answers come with its ticks, but it takes a HELLO at any time.
func (e *Engine) linkUp(ev LinkUp) {
	e.links[ev.Link] = &link{id: ev.Link, cost: max(1, ev.Cost), age: e.nextAge()}
	e.greet(ev.Link)
}

// nextAge numbers links by the order in which they came up.
func (e *Engine) nextAge() int {
	e.linkCount++
	return e.linkCount
}

// linkDown drops a neighbour at once when its last link is gone (IR 1.11), and passes the loss
// on at once too: the first time after a tick there is no waiting for the next one. Several
// losses in a row, as when a host dies, are two computations and not one each.
func (e *Engine) linkDown(id LinkID) {
	l := e.links[id]
	if l == nil {
		return
	}
	delete(e.links, id)
	e.logf(ModuleLS, Info, "Link to Neighbor Router Lost - link_tag=%d", id)
	n := l.node
	if n == nil {
		return
	}
	e.unlink(l)
	if n.link == nil && !e.early {
		e.early = true
		if e.settle() {
			e.sendRA()
		}
	}
}

func (e *Engine) sendHello() {
	e.heard = slices.DeleteFunc(e.heard, func(h heard) bool {
		old := e.now.Sub(h.at) > e.cfg.HelloMaxAge
		if old {
			e.logf(ModuleHello, Trace, "HELLO peer expired: %s", h.id)
			for _, l := range e.links {
				if l.named == h.id {
					l.named = ""
				}
			}
		}
		return old
	})
	e.ticks++
	if time.Duration(e.ticks-e.helloTicks)*tickInterval < e.cfg.HelloInterval {
		return
	}
	e.helloTicks = e.ticks
	e.greet(0)
}

// greet sends a HELLO on a link, on all of them if it is 0.
func (e *Engine) greet(on LinkID) {
	if e.now.Before(e.cfg.Start) {
		return
	}
	seen := make([]string, len(e.heard))
	for i, h := range e.heard {
		seen[i] = h.id
	}
	m := &Hello{ID: e.cfg.ID, Version: ProtocolVersion, Area: Area, Instance: e.cfg.Instance, Seen: seen}
	e.do(Send{Scope: ToNeighbours, Link: on, Message: m})
	e.logf(ModuleHello, Trace, "SENT: %s", m)
}

// helloReceived follows IR 2.7. A HELLO on a connection without an outgoing control link means
// nothing yet: we could not answer on it.
func (e *Engine) helloReceived(id LinkID, m *Hello) {
	if m.ID == e.cfg.ID {
		if m.Instance != e.cfg.Instance && !e.dupReported {
			e.dupReported = true
			e.logf(ModuleHello, Critical, "Detected Neighbor Router with a Duplicate ID - %s", m.ID)
		}
		return
	}
	l := e.links[id]
	if l == nil {
		return
	}
	i := slices.IndexFunc(e.heard, func(h heard) bool { return h.id == m.ID })
	if i < 0 {
		e.heard = append(e.heard, heard{m.ID, e.now})
	} else {
		e.heard[i].at = e.now
	}
	if l.named != m.ID { // it waits for this to make us its neighbour
		l.named = m.ID
		e.greet(id)
	}
	if !slices.Contains(m.Seen, e.cfg.ID) {
		return
	}
	if o := e.byID[m.ID]; (o == nil || o.link == nil) && e.local.flush(e) {
		// What the others are yet to be told of goes out before the newcomer is among them: it
		// asks for all there is, and a differential would leave it with a gap.
		e.owedRA = true
	}
	n := e.learn(m.ID, m.Version, m.Instance)
	if l.node != n {
		if l.node != nil {
			e.unlink(l)
		}
		l.node = n
		n.links = append(n.links, l)
	}
	l.refreshed = e.now
	e.chooseLink(n)
	e.checkInstance(n, m.Instance, m.Version)
}

// unlink takes a link from its neighbour, which then uses another if it has one.
func (e *Engine) unlink(l *link) {
	n := l.node
	l.node = nil
	n.links = slices.DeleteFunc(n.links, func(o *link) bool { return o == l })
	e.chooseLink(n)
}

// chooseLink makes the cheapest of a neighbour's links, among equals the oldest, the one in
// use (IR 1.11), and keeps our link state in step. 1.19 uses the one with the latest HELLO.
func (e *Engine) chooseLink(n *node) {
	var best *link
	for _, l := range n.links {
		if best == nil || l.cost < best.cost || l.cost == best.cost && l.age < best.age {
			best = l
		}
	}
	if best == n.link {
		return
	}
	e.owedRA = e.owedRA || best != nil && n.link != nil
	n.link = best
	i := slices.IndexFunc(e.peers, func(p Peer) bool { return p.ID == n.id })
	peers := slices.Clone(e.peers)
	if best == nil {
		e.logf(ModuleRouter, Trace, "Node %s link removed", n.id)
		e.setOwnPeers(slices.Delete(peers, i, i+1))
	} else {
		e.logf(ModuleRouter, Trace, "Node %s link set: link_id=%d (removed next hop)", n.id, best.id)
		n.needLSR = true
		switch {
		case i < 0:
			e.setOwnPeers(append(peers, Peer{n.id, best.cost}))
		case peers[i].Cost != best.cost:
			peers[i].Cost = best.cost
			e.setOwnPeers(peers)
		}
	}
	e.showRoutes()
}

func (e *Engine) setOwnPeers(peers []Peer) {
	e.peers = peers
	e.ownChanged, e.recompute = true, true
	e.scheduleCompute()
	e.paths.setPeers(0, e.edges(0, peers))
}

// expireLinks drops the links of a neighbour that have been silent for longer than the hello
// age: strictly longer, so by default after 3 to 4 seconds.
func (e *Engine) expireLinks(n *node) {
	for i := len(n.links) - 1; i >= 0; i-- {
		if l := n.links[i]; e.now.Sub(l.refreshed) > e.cfg.HelloMaxAge {
			e.unlink(l)
		}
	}
}
