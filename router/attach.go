package router

import (
	"crypto/rand"
	"slices"

	"qdrouter/amqp"
)

// What an attach is refused with (RT 1.4).
var (
	errNotFound      = &amqp.Error{Condition: amqp.ErrCondNotFound, Description: "Node not found"}
	errNoRoute       = &amqp.Error{Condition: "qd:no-route-to-dest", Description: "No route to the destination node"}
	errNoCoordinator = &amqp.Error{Condition: amqp.ErrCondPreconditionFailed,
		Description: "The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured to use transactions."}
	errForbidden = &amqp.Error{Condition: "qd:forbidden", Description: "Connectivity to the node is forbidden"}
	errWrongWay  = &amqp.Error{} // refused without a word (RT X9)
	errOwnFrame  = &amqp.Error{Condition: amqp.ErrCondFrameSizeTooSmall, Description: "The answer to the attach does not fit into a frame of the peer"}
	errRole      = &amqp.Error{Condition: "qd:connection-role", Description: "Link attach forbidden on inter-router connection"}
)

const nameAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+_"

// RandomName returns 15 random characters, as in generated router ids and addresses.
func RandomName() string {
	b := make([]byte, 15)
	rand.Read(b)
	for i := range b {
		b[i] = nameAlphabet[b[i]&63]
	}
	return string(b)
}

// attachIn decides about a link on which the peer sends (RT E17).
func (r *Router) attachIn(c *Conn, in *inLink, a *amqp.Attach) {
	capability, refusal := roleOf(c, targetCapabilities(a))
	var addr *address
	switch {
	case refusal != nil:
	case capability != "":
		near := r.neighbourOf(c)
		c.mu.Lock()
		near.adoptIn(in, capability)
		c.mu.Unlock()
	case r.routeLink(c, in, nil, a): // RT F4
		return
	case a.Coordinator != nil:
		refusal = errNoCoordinator // RT E21
	case a.Target == nil || a.Target.Address.V == "" && !a.Target.Dynamic:
		in.anon = true // RT E32
	case a.Target.Dynamic:
		name := "_$temp." + RandomName() // RT E34
		a.Target.Address = amqp.Some("amqp:/" + name)
		in.template = []byte(a.Target.Address.V)
		addr = r.addressFor(mobileKey('0', name), Balanced, -1)
	default:
		in.template = []byte(a.Target.Address.V)
		addr, refusal = r.bind(c, a.Target.Address.V, a.Target.Capabilities.Symbols(), false)
		if addr != nil && c.tenant != "" && addr.key.class() == classMobile { // RT E43
			in.template = []byte(addr.key.text())
		}
		if addr != nil && addr.endpoint {
			in.capacity = heartbeatCredit
			r.beatsFrom(c, true)
		}
	}
	c.mu.Lock()
	if c.dead || in.l.Session.Ended() {
		c.mu.Unlock()
		r.discardAddress(addr)
		return
	}
	reply := r.answer(a)
	if refusal == nil && !in.l.TakesAnswer(reply) { // it would end the connection
		refusal = errOwnFrame
	}
	if refusal != nil {
		own := *a
		own.Target, own.Coordinator = nil, nil // RT E18
		r.refuseLocked(in.l, &own, refusal)
		in.closed = true
		c.mu.Unlock()
		r.noteRefused(c, in.l, "in", targetAddress(a), refusal)
		r.discardAddress(addr)
		r.unbindQuietly(c, in, nil)
		return
	}
	c.readyOut()
	if in.router {
		reply = r.routerAnswer(a)
	}
	in.l.Attach(reply)
	in.up = true
	if a.Source != nil {
		in.source = a.Source.Address.V
	}
	if in.closed { // detached meanwhile; its event follows
		c.mu.Unlock()
		r.discardAddress(addr)
		return
	}
	switch {
	case in.router:
		in.grantLocked(c.routerCapacity)
	case in.anon: // RT E32
		in.grantLocked(in.capacity)
	default:
		in.produceLocked(addr)
	}
	c.mu.Unlock()
	r.logAttach(c, in.id, "in", a)
}

// attachOut decides about a link on which we send.
func (r *Router) attachOut(c *Conn, out *outLink, a *amqp.Attach) {
	capability, refusal := roleOf(c, sourceCapabilities(a))
	var addr *address
	switch {
	case refusal != nil:
	case capability != "":
		near := r.neighbourOf(c)
		c.mu.Lock()
		near.adoptOut(out, capability)
		closed := c.dead || out.l.Session.Ended() || out.closed
		if !closed {
			out.l.Attach(r.routerAnswer(a))
		}
		c.mu.Unlock()
		if !closed {
			r.serveOut(out)
		}
		return
	case r.routeLink(c, nil, out, a):
		return
	case a.Source == nil || a.Source.Address.V == "" && !a.Source.Dynamic:
		refusal = errNoRoute
	case a.Source.Dynamic: // RT E33
		name := "temp." + RandomName()
		form := "amqp:/_topo/" + r.opts.Area + "/" + r.opts.ID + "/"
		if r.opts.Mode == Edge {
			form = "amqp:/_edge/" + r.opts.ID + "/"
		}
		a.Source.Address = amqp.Some(form + name)
		addr = r.addressFor(classKey(classLocal, name), Balanced, -1)
	default:
		addr, refusal = r.bind(c, a.Source.Address.V, a.Source.Capabilities.Symbols(), true)
		if addr != nil && addr.endpoint {
			addr, refusal = nil, errWrongWay
		}
	}
	c.mu.Lock()
	if c.dead || out.l.Session.Ended() {
		c.mu.Unlock()
		r.discardAddress(addr)
		return
	}
	reply := r.answer(a)
	if refusal == nil && !out.l.TakesAnswer(reply) {
		refusal = errOwnFrame
	}
	if refusal != nil {
		own := *a
		own.Source = nil
		r.refuseLocked(out.l, &own, refusal)
		out.closed = true
		c.mu.Unlock()
		r.noteRefused(c, out.l, "out", sourceAddress(a), refusal)
		r.discardAddress(addr)
		r.unbindQuietly(c, nil, out)
		return
	}
	c.readyOut()
	out.l.Attach(reply)
	out.source = a.Source.Address.V
	if a.Target != nil {
		out.target = a.Target.Address.V
	}
	if out.closed {
		c.mu.Unlock()
		r.discardAddress(addr)
		return
	}
	r.consumeLocked(out, addr)
	r.logAttach(c, out.id, "out", a)
}

// produceLocked binds an in-link to its address. Its sender gets credit when there is somebody
// to send to (RT E44).
func (in *inLink) produceLocked(a *address) {
	in.up, in.bound = true, true
	in.addr.Store(a)
	a.addIn(in)
	if a.deliverable() || a.exchange != nil {
		in.grantLocked(in.capacity)
	} else {
		in.pending, in.withheld = in.capacity, true
	}
}

// consumeLocked binds an out-link to its address and tells whom that concerns; it unlocks.
func (r *Router) consumeLocked(out *outLink, a *address) {
	out.addr = a
	out.up, out.bound = true, true
	was := a.reachable()
	a.outs = append(a.outs, out)
	a.store() // before the peer can know of its attach
	credit := out.l.Credit()
	out.credit.Store(int32(min(credit, 1<<30)))
	if credit > 0 {
		out.zeroAt = 0
	}
	if out.l.Drain {
		out.drainedLocked(r.now())
	}
	out.conn.mu.Unlock()
	r.reopen(a, was)
	if len(a.outs) == 1 {
		r.localDestination(a, true)
	}
}

func sourceAddress(a *amqp.Attach) string {
	if a.Source == nil {
		return ""
	}
	return a.Source.Address.V
}

func targetAddress(a *amqp.Attach) string {
	if a.Target == nil {
		return ""
	}
	return a.Target.Address.V
}

func sourceCapabilities(a *amqp.Attach) []amqp.Symbol {
	if a.Source == nil {
		return nil
	}
	return a.Source.Capabilities.Symbols()
}

func targetCapabilities(a *amqp.Attach) []amqp.Symbol {
	if a.Target == nil {
		return nil
	}
	return a.Target.Capabilities.Symbols()
}

// roleOf checks link capabilities against the role of the connection and returns the one that
// makes a link one between routers, if there is one (RT E24, E25, IR 1.9).
func roleOf(c *Conn, capabilities []amqp.Symbol) (amqp.Symbol, *amqp.Error) {
	for _, s := range capabilities {
		if s == capRouter || s == capRouterData {
			if c.o.Role != RoleInterRouter || c.r.net == nil {
				return "", errForbidden
			}
			return s, nil
		}
	}
	if c.o.Role == RoleInterRouter && (c.near == nil || c.near.control.Load() == nil) {
		return "", errRole
	}
	return "", nil
}

// routerAnswer is our attach for that of another router: a copy with expiry session-end (IR 1.6).
func (r *Router) routerAnswer(a *amqp.Attach) *amqp.Attach {
	reply := r.answer(a)
	if reply.Source != nil {
		reply.Source.ExpiryPolicy = "session-end"
	}
	if reply.Target != nil {
		reply.Target.ExpiryPolicy = "session-end"
	}
	return reply
}

// bind returns the table entry for a terminus address, made now if need be (RT F4 to F6, E19,
// E30, E31).
func (r *Router) bind(c *Conn, written string, capabilities []amqp.Symbol, receiver bool) (*address, *amqp.Error) {
	key, ok := r.keyOf(written, '0')
	if !ok {
		return nil, errNoRoute
	}
	text := PlainAddress(written)
	if key.class() == classMobile && c.tenant != "" {
		text = c.tenant + text
		key = mobileKey('0', text)
	}
	cfg := r.configFor(text)
	dist, priority := r.opts.DefaultDistribution, int32(-1)
	phase := byte(0)
	if cfg != nil {
		dist, priority = cfg.Distribution, int32(cfg.Priority)
		if receiver {
			phase = byte(cfg.EgressPhase)
		} else {
			phase = byte(cfg.IngressPhase)
		}
	}
	if p, ok := waypointPhase(capabilities, receiver); ok {
		phase = p
	}
	phase += '0'
	if (receiver || c.o.Role == RoleEdge) && key.class() == classMobile && slices.Contains(capabilities, capFallback) {
		phase = phaseFallback // IR 4.3
		if dist != Unavailable {
			dist = Balanced // RT F42
		}
	}
	if key.class() == classMobile {
		key = mobileKey(phase, text)
	}
	if receiver && key.class() == classRouter { // RT E20
		return nil, errNoRoute
	}
	if dist == Unavailable && key.class() != classRouter { // other routers are closest always (RT F30)
		if a := r.table[key]; a != nil {
			return a, nil
		}
		return nil, errNotFound
	}
	return r.addressFor(key, dist, priority), nil
}

// waypointPhase returns the phase that a waypoint capability asks for (RT E37).
func waypointPhase(capabilities []amqp.Symbol, receiver bool) (byte, bool) {
	const name = "qd.waypoint"
	for _, s := range capabilities {
		n := byte(1)
		if s != name {
			if len(s) != len(name)+2 || s[:len(name)+1] != name+"." || s[len(name)+1] < '1' || s[len(name)+1] > '9' {
				continue
			}
			n = s[len(name)+1] - '0'
		}
		if receiver {
			n--
		}
		return n, true
	}
	return 0, false
}

// discardAddress removes an entry that was made for a link which did not come to be.
func (r *Router) discardAddress(a *address) {
	if a != nil {
		r.dropIfUnused(a)
	}
}

// reply is room for the answer to an attach, which is encoded at once.
type reply struct {
	attach amqp.Attach
	source amqp.Source
	target amqp.Target
}

// answer is our attach for the peer's (RT E13, E14, E16), good until the next one.
func (r *Router) answer(a *amqp.Attach) *amqp.Attach {
	reply := &r.reply.attach
	*reply = amqp.Attach{
		SndSettleMode:  amqp.Some(amqp.SndSettleModeMixed),
		RcvSettleMode:  amqp.Some(amqp.RcvSettleModeFirst),
		MaxMessageSize: amqp.Some(uint64(0)),
		Coordinator:    a.Coordinator,
	}
	if a.Source != nil {
		s := &r.reply.source
		*s = *a.Source
		s.DefaultOutcome = nil
		if s.ExpiryPolicy == "" {
			s.ExpiryPolicy = "session-end"
		}
		reply.Source = s
	}
	if a.Target != nil {
		t := &r.reply.target
		*t = *a.Target
		if t.ExpiryPolicy == "" {
			t.ExpiryPolicy = "session-end"
		}
		reply.Target = t
	}
	return reply
}

// refuseLocked answers an attach and detaches at once. a has our own terminus taken out.
func (r *Router) refuseLocked(l *amqp.Link, a *amqp.Attach, e *amqp.Error) {
	l.Attach(r.answer(a))
	if e == errWrongWay {
		e = nil
	}
	l.Detach(true, e)
	l.Owner = nil
}

// unbindQuietly forgets a link that was refused.
func (r *Router) unbindQuietly(c *Conn, in *inLink, out *outLink) {
	if in != nil {
		in.removed = true
	} else {
		out.removed = true
	}
	r.dropLink(in, out)
}

func (r *Router) logAttach(c *Conn, id uint64, dir string, a *amqp.Attach) {
	if !r.opts.Log.Enabled("ROUTER_CORE", Info) {
		return
	}
	source, target := "<none>", "<none>"
	if a.Source != nil {
		source = terminusText(a.Source.Address, a.Source.ExpiryPolicy)
	}
	if a.Target != nil {
		target = terminusText(a.Target.Address, a.Target.ExpiryPolicy)
	}
	r.logf("ROUTER_CORE", Info, "[C%d][L%d] Link attached: dir=%s source={%s} target={%s}", c.o.ID, id, dir, source, target)
}

func terminusText(address amqp.Opt[string], expiry amqp.Symbol) string {
	s := "<none>"
	if address.V != "" {
		s = address.V
	}
	short := "sess"
	switch expiry {
	case "link-detach":
		short = "link"
	case "connection-close":
		short = "conn"
	case "never":
		short = "never"
	}
	return s + " expire:" + short
}
