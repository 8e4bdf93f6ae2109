package router

import (
	"time"

	"qdrouter/amqp"
)

// edgeHeartbeat is an endpoint in the core: senders attach to it and show by messages that they
// live (RT X9, X10). It cannot be reached through anonymous links.
const edgeHeartbeat = "_$qd.edge_heartbeat"

const (
	heartbeatCredit = 2
	heartbeatEvery  = 2 * time.Second
	heartbeatLost   = 8 * time.Second
)

var heartbeatKey = mobileKey('0', edgeHeartbeat)

// addHeartbeat binds the endpoint when the router starts.
func (r *Router) addHeartbeat() {
	r.call(func() {
		a := r.addressFor(heartbeatKey, Closest, -1)
		a.endpoint = true
		s := &subscriber{addr: a, handler: func(q *Request) {
			r.beatMu.Lock()
			if _, ok := r.beats[q.Connection]; ok {
				r.beats[q.Connection] = r.now()
			}
			r.beatMu.Unlock()
			q.Settle(amqp.StateAccepted)
		}}
		a.subs = append(a.subs, s)
		r.publish(a)
	})
}

// beatsFrom starts or ends the watch over a connection.
func (r *Router) beatsFrom(c *Conn, on bool) {
	r.beatMu.Lock()
	if on {
		r.beats[c.o.ID] = r.now()
		r.timers.nudge()
	} else {
		delete(r.beats, c.o.ID)
	}
	r.beatMu.Unlock()
}

// checkBeats cuts the connections whose heartbeat has gone silent and returns when to look
// again, 0 = never.
func (r *Router) checkBeats(now int64) (next int64) {
	var silent []uint64
	r.beatMu.Lock()
	for id, at := range r.beats {
		if now-at > int64(heartbeatLost) {
			silent = append(silent, id)
			delete(r.beats, id)
		}
	}
	if len(r.beats) > 0 {
		next = now + int64(heartbeatEvery)
	}
	r.beatMu.Unlock()
	for _, id := range silent {
		r.connMu.Lock()
		c := r.conns[id]
		r.connMu.Unlock()
		if c != nil {
			r.logf("ROUTER_CORE", Info, "[C%d] Lost heartbeat, connection closed", id)
			c.wire.Cut()
		}
	}
	return next
}
