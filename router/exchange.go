package router

import (
	"slices"
	"sync"
	"sync/atomic"

	"qdrouter/amqp"
)

// An exchange sends what comes to its address on to other addresses, by the subject (RT 5.1). The
// core owns exchanges and bindings; readers see them as an immutable part of the forwarding set of
// the address, and only the counters are shared.

// Exchange is one router.config.exchange (MG 7.8).
type Exchange struct {
	ID             uint64 // identity; assigned by AddExchange
	Name           string
	Address        string
	Phase          int // 0..9
	Alternate      string
	AlternatePhase int // 0..9, without meaning when there is no alternate
	Method         MatchMethod

	// Read only.
	Bindings  uint32
	Received  uint64 // deliveries that came to the address
	Dropped   uint64 // of them, those that nobody got
	Forwarded uint64 // of them, those of which there was a copy
	Diverted  uint64 // of these, those that went to the alternate
}

// Binding is one router.config.binding (MG 7.9).
type Binding struct {
	ID           uint64 // identity; assigned by AddBinding
	Name         string
	Exchange     string
	Key          string // "" is "#"
	NextHop      string
	NextHopPhase int // 0..9

	Matched uint64 // read only: subjects that matched the key
}

// What an exchange or a binding is refused for (RT 5.1).
var (
	ErrExchangeName    = error(wireText("exchange requires a unique name"))
	ErrExchangeAddress = error(wireText("exchange address is mandatory"))
	ErrSameExchange    = error(wireText("duplicate exchange name"))
	ErrSameAddress     = error(wireText("duplicate exchange address"))
	ErrMatchMethod     = error(wireText("Exchange matchMethod must be either 'amqp' or 'mqtt'"))
	ErrExchangePhase   = error(wireText("phase must be in the range 0-9"))
	ErrNoExchange      = error(wireText("Binding configuration requires an exchange"))
	ErrUnknownExchange = error(wireText("Named exchange does not exist"))
	ErrBindingKey      = error(wireText("The binding key pattern is invalid"))
	ErrNoNextHop       = error(wireText("No next hop specified"))
	ErrSameBinding     = error(wireText("Duplicate next hop name"))
	ErrSameNextHop     = error(wireText("Next hop for key already exists"))
)

// exchange is an exchange at work. Its fields but the counters belong to the core.
type exchange struct {
	cfg       Exchange
	addr      *address
	alternate *hop // nil without
	bindings  []*binding
	view      *exchangeView

	received, dropped, forwarded, diverted atomic.Uint64
}

type binding struct {
	cfg     Binding
	hop     *hop
	matched atomic.Uint64
}

// exchangeView is an exchange as readers see it. It is immutable but for the counters in it.
type exchangeView struct {
	x         *exchange // for its counters
	bindings  []*binding
	alternate *hop

	// compiled makes what follows, when it is first needed: many bindings are made one by one.
	compiled sync.Once
	topics   *topics
	hops     []*hop  // each once
	hopOf    []int32 // by binding
}

func (v *exchangeView) compile() {
	v.topics = newTopics(v.x.cfg.Method)
	v.hopOf = make([]int32, len(v.bindings))
	index := make(map[*address]int32, len(v.bindings))
	for i, y := range v.bindings {
		v.topics.add(y.cfg.Key, int32(i))
		h, ok := index[y.hop.addr]
		if !ok {
			h = int32(len(v.hops))
			index[y.hop.addr] = h
			v.hops = append(v.hops, y.hop)
		}
		v.hopOf[i] = h
	}
}

// match counts the bindings that match a subject and returns where they lead, each place once (RT
// X2, X7).
func (v *exchangeView) match(subject []byte) (hops []*hop) {
	v.compiled.Do(v.compile)
	var few [16]int32
	found := v.topics.match(subject, few[:0])
	for i, y := range found {
		v.bindings[y].matched.Add(1)
		found[i] = v.hopOf[y]
	}
	slices.Sort(found)
	for _, h := range slices.Compact(found) {
		hops = append(hops, v.hops[h])
	}
	return hops
}

// whole reports whether messages must be complete before they go through the exchange: a consumer
// in this process or another exchange may come next (RT F62).
func (v *exchangeView) whole() bool {
	v.compiled.Do(v.compile)
	return v.alternate != nil && v.alternate.whole() || slices.ContainsFunc(v.hops, (*hop).whole)
}

func (h *hop) whole() bool {
	f := h.addr.fwd.Load()
	return len(f.subs) > 0 || f.exchange != nil
}

// A passage is the way of one message through an exchange, and on through others.
type passage struct {
	c        *Conn
	b        *batch
	subject  []byte
	named    bool        // there is a subject
	creditTo *inLink     // gets the credit of a settled one, from the first copy
	through  []*exchange // those it is in: none is entered again
	take     func(m *message, a *address, f *forwarding) bool
}

// exchange takes a complete message through an exchange and reports whether there was a copy of it.
// An unsettled one is accepted then (RT X5).
func (c *Conn) exchange(m *message, a *address, f *forwarding, b *batch) bool {
	if c.r.isDuplicate(m, a) {
		return false
	}
	p := &passage{c: c, b: b}
	if m.d == nil {
		p.creditTo = m.in
	}
	p.take = func(m *message, a *address, f *forwarding) bool {
		if !c.forward(m, a, f, p.creditTo, b) {
			return false
		}
		p.creditTo = nil
		return true
	}
	p.readSubject(m)
	if !p.enter(m, a, f) {
		return false
	}
	if m.d != nil {
		b.inState(m.d, amqp.StateAccepted, true, false)
	}
	return true
}

// readSubject finds the subject, and reports false when more of the message is needed for that. A
// faulty message is one without subject.
func (p *passage) readSubject(m *message) bool {
	s, err := amqp.WalkMessage(m.payload, amqp.DepthProperties, false)
	if err == amqp.ErrNeedMore {
		return false
	}
	if err == nil {
		p.subject, p.named, err = s.Subject(m.payload)
	}
	p.named = p.named && err == nil
	return true
}

// enter gives a message to those who consume from the address of the exchange itself and to the
// next hops of the bindings, or else to the alternate (RT X2 to X4).
func (p *passage) enter(m *message, a *address, f *forwarding) bool {
	v := f.exchange
	x := v.x
	if slices.Contains(p.through, x) {
		return false
	}
	p.through = append(p.through, x)
	x.received.Add(1)
	sent := false
	if len(f.outs)+len(f.subs)+len(f.remotes) > 0 {
		direct := *m
		if m.d != nil { // its outcome is nobody's business (RT X5)
			direct.d = &delivery{at: p.b.second()}
		}
		sent = p.take(&direct, a, f)
	}
	if p.named {
		for _, h := range v.match(p.subject) {
			if p.send(m, h) {
				sent = true
			}
		}
	}
	if !sent && v.alternate != nil && p.send(m, v.alternate) {
		sent = true
		x.diverted.Add(1)
	}
	if sent {
		x.forwarded.Add(1)
	} else {
		x.dropped.Add(1)
	}
	p.through = p.through[:len(p.through)-1]
	return sent
}

// send sends a settled copy to a next hop. It is a message that begins here (RT X2, X5).
func (p *passage) send(m *message, h *hop) bool {
	next := *m
	next.d, next.settled = nil, true
	next.sendOn(h)
	next.notes.hasIngress, next.notes.ingress = false, nil
	next.notes.trace, next.notes.hops = nil, 0
	f := h.addr.fwd.Load()
	if f.exchange != nil {
		return p.enter(&next, h.addr, f)
	}
	return f.paths() > 0 && p.take(&next, h.addr, f)
}

// drop counts a message that came while there is nowhere to go (RT X4, X7).
func (v *exchangeView) drop() {
	v.x.received.Add(1)
	v.x.dropped.Add(1)
}

// The functions below belong to the core.

// publishExchange makes x what readers see of it from now on.
func (r *Router) publishExchange(x *exchange) {
	x.view = &exchangeView{x: x, bindings: x.bindings, alternate: x.alternate}
	r.publish(x.addr)
}

// hopTo returns the way to a next hop, whose entry it keeps in the table until release.
func (r *Router) hopTo(written string, phase int) (*hop, bool) {
	key, ok := r.keyOf(written, '0'+byte(phase))
	if !ok {
		return nil, false
	}
	h := &hop{addr: r.entryFor(key), to: []byte(written), phase: byte(phase)}
	h.addr.refs++
	return h, true
}

func (r *Router) release(h *hop) {
	if h != nil {
		h.addr.refs--
		r.dropIfUnused(h.addr)
	}
}

// entryFor returns the table entry of a key, made now if need be, for what the configuration
// itself refers to: where nobody may attach, it is balanced (RT A2).
func (r *Router) entryFor(key addressKey) *address {
	dist, priority := r.opts.DefaultDistribution, int32(-1)
	if key.class() == classMobile {
		if cfg := r.configFor(key.text()); cfg != nil {
			dist, priority = cfg.Distribution, int32(cfg.Priority)
		}
	}
	if dist == Unavailable {
		dist = Balanced
	}
	return r.addressFor(key, dist, priority)
}

// AddExchange checks and adds an exchange (RT 5.1). Its address is announced to the network (RT
// X6). The result has its identity.
func (r *Router) AddExchange(cfg Exchange) (Exchange, error) {
	if cfg.Name == "" {
		return cfg, ErrExchangeName
	}
	key, ok := r.keyOf(cfg.Address, '0'+byte(cfg.Phase))
	if !ok {
		return cfg, ErrExchangeAddress
	}
	err := ErrForbidden // the router is closing
	r.call(func() {
		for _, x := range r.exchanges {
			switch {
			case x.cfg.Address == cfg.Address:
				err = ErrSameAddress
				return
			case x.cfg.Name == cfg.Name:
				err = ErrSameExchange
				return
			}
		}
		if cfg.Phase < 0 || cfg.Phase > 9 || cfg.AlternatePhase < 0 || cfg.AlternatePhase > 9 {
			err = ErrExchangePhase
			return
		}
		a := r.entryFor(key)
		if a.exchange != nil { // the same address written in another way
			err = ErrSameAddress
			return
		}
		cfg.ID = r.NextIdentity()
		x := &exchange{cfg: cfg, addr: a}
		if cfg.Alternate != "" {
			x.alternate, _ = r.hopTo(cfg.Alternate, cfg.AlternatePhase)
		}
		a.exchange = x
		r.exchanges = append(r.exchanges, x)
		r.publishExchange(x)
		r.localDestination(a, true)
		if !r.warnedExchange {
			r.warnedExchange = true
			r.logf("AGENT", Warning, "Exchanges and bindings are EXPERIMENTAL: what they do may change in a later version") // RT X8
		}
		err = nil
	})
	return cfg, err
}

// DeleteExchange removes an exchange with its bindings; its address is a plain one from then on (RT
// X8).
func (r *Router) DeleteExchange(id uint64) error {
	err := ErrNotFound
	r.call(func() {
		i := slices.IndexFunc(r.exchanges, func(x *exchange) bool { return x.cfg.ID == id })
		if i < 0 {
			return
		}
		err = nil
		x := r.exchanges[i]
		r.exchanges = slices.Delete(r.exchanges, i, i+1)
		x.addr.exchange = nil
		r.publish(x.addr)
		r.localDestination(x.addr, len(x.addr.outs) > 0)
		for _, y := range x.bindings {
			r.release(y.hop)
		}
		r.release(x.alternate)
		r.dropIfUnused(x.addr)
	})
	return err
}

// Exchanges returns the exchanges in the order they were made.
func (r *Router) Exchanges() (list []Exchange) {
	r.call(func() {
		for _, x := range r.exchanges {
			e := x.cfg
			e.Bindings = uint32(len(x.bindings))
			e.Received, e.Dropped = x.received.Load(), x.dropped.Load()
			e.Forwarded, e.Diverted = x.forwarded.Load(), x.diverted.Load()
			list = append(list, e)
		}
	})
	return list
}

// AddBinding checks and adds a binding (RT 5.1). The result has its identity and its key.
func (r *Router) AddBinding(cfg Binding) (Binding, error) {
	if cfg.Exchange == "" {
		return cfg, ErrNoExchange
	}
	if cfg.Key == "" {
		cfg.Key = anyTokens
	}
	err := ErrForbidden // the router is closing
	r.call(func() {
		i := slices.IndexFunc(r.exchanges, func(x *exchange) bool { return x.cfg.Name == cfg.Exchange })
		if i < 0 {
			err = ErrUnknownExchange
			return
		}
		x := r.exchanges[i]
		if err = x.judge(&cfg); err != nil {
			return
		}
		h, ok := r.hopTo(cfg.NextHop, cfg.NextHopPhase)
		if !ok {
			err = ErrNoNextHop
			return
		}
		cfg.ID = r.NextIdentity()
		x.bindings = append(x.bindings, &binding{cfg: cfg, hop: h}) // readers know how long theirs is
		r.publishExchange(x)
	})
	return cfg, err
}

// judge says what speaks against a binding.
func (x *exchange) judge(cfg *Binding) error {
	switch {
	case cfg.NextHop == "":
		return ErrNoNextHop
	case !x.cfg.Method.valid(cfg.Key):
		return ErrBindingKey
	case cfg.NextHopPhase < 0 || cfg.NextHopPhase > 9:
		return ErrExchangePhase
	}
	for _, y := range x.bindings {
		switch {
		case cfg.Name != "" && y.cfg.Name == cfg.Name:
			return ErrSameBinding
		case y.cfg.Key == cfg.Key && y.cfg.NextHop == cfg.NextHop && y.cfg.NextHopPhase == cfg.NextHopPhase:
			return ErrSameNextHop
		}
	}
	return nil
}

// DeleteBinding removes a binding.
func (r *Router) DeleteBinding(id uint64) error {
	err := ErrNotFound
	r.call(func() {
		for _, x := range r.exchanges {
			for i, y := range x.bindings {
				if y.cfg.ID != id {
					continue
				}
				err = nil
				x.bindings = slices.Concat(x.bindings[:i], x.bindings[i+1:])
				r.publishExchange(x)
				r.release(y.hop)
				return
			}
		}
	})
	return err
}

// Bindings returns the bindings by exchange, in the order they were made.
func (r *Router) Bindings() (list []Binding) {
	r.call(func() {
		for _, x := range r.exchanges {
			for _, y := range x.bindings {
				e := y.cfg
				e.Matched = y.matched.Load()
				list = append(list, e)
			}
		}
	})
	return list
}
