package router

import (
	"slices"

	"qdrouter/amqp"
)

// A fallback destination takes what the consumers of an address cannot (RT 2.7). It is an entry
// of its own in the address table, which the forwarding set of the address points to.

// phaseFallback stands in the key of a fallback entry where others have the digit of a phase. On
// the wire it is 22, the difference to '0' (RT F17).
const phaseFallback = 'F'

// capFallback makes a link one of the fallback (RT E38): a receiver takes what others cannot, a
// sender brings back what was stored.
const capFallback amqp.Symbol = "qd.fallback"

// isFallback reports whether the peer attached a sender as one of the fallback (RT F44). An
// anonymous one cannot be.
func isFallback(a *amqp.Attach) bool {
	return targetAddress(a) != "" && slices.Contains(targetCapabilities(a), capFallback)
}

// pairFallback makes the fallback entry of a new address that is configured to have one (RT F42).
// The core calls it.
func (r *Router) pairFallback(a *address) {
	if a.key.class() != classMobile || a.key[1] != '0' {
		return
	}
	cfg := r.configFor(a.key.text())
	if cfg == nil || !cfg.Fallback {
		return
	}
	a.fallback = r.addressFor(mobileKey(phaseFallback, a.key.text()), Balanced, int32(cfg.Priority))
	a.fallback.fallbackFor = a
	a.store()
}

// wanted reports whether there is somebody to take the message, be it the fallback.
func (m *message) wanted() bool { return m.fwd.paths() > 0 || m.fallback() != nil }

// fallback returns the way to the fallback when the message may take it and somebody is there. A
// multicast that came round is taken care of elsewhere.
func (m *message) fallback() *hop {
	h := m.fwd.fallback
	if h == nil || m.in.fallback || !h.addr.reachable() || m.in.conn.r.isDuplicate(m, m.to) {
		return nil
	}
	return h
}

// redirect sends a message that its address could not take to the fallback, and reports whether it
// went there (RT F43).
func (c *Conn) redirect(m *message, b *batch) bool {
	h := m.fallback()
	if h == nil {
		return false
	}
	m.sendOn(h)
	if !c.forward(m, h.addr, h.addr.fwd.Load(), m.in, b) {
		return false
	}
	c.countRedirected(m.to)
	return true
}

func (c *Conn) countRedirected(a *address) {
	a.redirected.Add(1)
	c.r.redirected.Add(1)
}
