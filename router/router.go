package router

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// Router is one router: an address table and the connections whose messages it forwards.
type Router struct {
	opts  Options
	node  string // area and id, as in x-opt-qd.trace
	start time.Time

	identity    atomic.Uint64
	connNumber  atomic.Uint64
	gone        atomic.Int64  // links gone since the last trim
	redirected  atomic.Uint64 // deliveries that took a fallback
	droppedLate atomic.Uint64 // settled deliveries dropped on the way out
	autoLinks   atomic.Uint64 // how many there are
	traceAll    atomic.Bool

	tableMu sync.RWMutex // guards table; the core alone writes
	table   map[addressKey]*address

	configMu sync.RWMutex // guards configs and patterns; the core alone writes
	configs  []*AddressConfig
	patterns Patterns[*AddressConfig]

	connMu sync.Mutex // guards conns
	conns  map[uint64]*Conn
	closed bool
	empty  chan struct{} // closed when the last connection has gone after Close

	linkMu  sync.Mutex // guards links and retired
	links   map[uint64]linkEntry
	retired totals

	beatMu sync.Mutex // guards beats
	beats  map[uint64]int64

	failures failures

	queue    eventQueue
	coreDone chan struct{}
	writers  sync.WaitGroup
	timers   timers

	linkRoutes atomic.Int64 // configured

	nodesView atomic.Pointer[knownNodes]
	maxHops   atomic.Int32 // the topology radius

	coreMu sync.Mutex // held by who is the core; taken before any connection's lock
	taken  []event    // storage for the queue's next events

	// Owned by the core.
	net     *linkstate.Engine // nil unless interior
	nodes   map[string]*node
	arrived *arrived
	floods  []*address // the T addresses of the control protocol
	near    map[linkstate.LinkID]*neighbour
	touched map[*Conn]struct{}
	open    openConns
	reply   reply
	order   uint64
	routing LinkRouting // nil without link routes
	query   LinkQuery

	exchanges      []*exchange
	warnedExchange bool
}

type linkEntry struct {
	in  *inLink
	out *outLink
}

// totals are counts over all links, and those of links that are gone.
type totals struct {
	presettled, dropped, accepted, rejected, released, modified uint64
	delayed1, delayed10, stuck                                  uint64
	ingress, egress, transit, ingressRC, egressRC               uint64
	blocked                                                     uint32
}

func (t *totals) addIn(c *Conn, in *inLink, k *linkCounts) {
	t.dropped += k.dropped
	t.accepted += k.accepted
	t.rejected += k.rejected
	t.released += k.released
	t.modified += k.modified
	t.delayed1 += k.delayed1
	t.delayed10 += k.delayed10
	t.stuck += k.stuck
	if in.router {
		return
	}
	t.presettled += k.presettled
	if !in.fallback { // RT F44
		t.ingress += k.deliveries
	}
	if c.o.Role == RoleRouteContainer && in.pair == nil {
		t.ingressRC += k.deliveries
	}
}

func (t *totals) addOut(c *Conn, out *outLink, k *linkCounts) {
	t.stuck += k.stuck
	switch {
	case out.kind == linkControl:
		return
	case out.near != nil || out.pair != nil && c.o.Role == RoleInterRouter:
		t.transit += k.deliveries
		return
	}
	if !out.fallback { // RT F45
		t.egress += k.deliveries
	}
	if out.pair != nil {
		return
	}
	if c.o.Role == RoleRouteContainer {
		t.egressRC += k.deliveries
	}
}

// New starts a router without connections.
func New(o Options) *Router {
	if o.Area == "" {
		o.Area = "0"
	}
	r := &Router{
		opts:     o,
		node:     o.Area + "/" + o.ID,
		start:    time.Now(),
		table:    make(map[addressKey]*address),
		conns:    make(map[uint64]*Conn),
		links:    make(map[uint64]linkEntry),
		touched:  make(map[*Conn]struct{}),
		beats:    make(map[uint64]int64),
		empty:    make(chan struct{}),
		coreDone: make(chan struct{}),
	}
	r.open.init()
	r.queue.wake = make(chan struct{}, 1)
	r.timers.init(r)
	go r.runCore()
	r.call(r.startNet)
	go r.timers.run()
	r.addHeartbeat()
	if r.net != nil {
		r.call(r.scheduleNet)
	}
	return r
}

// now is the time since the router started, in nanoseconds; it only grows.
func (r *Router) now() int64 { return int64(time.Since(r.start)) + 1 }

func (r *Router) logf(module string, level Level, format string, args ...any) {
	if r.opts.Log.Enabled(module, level) {
		r.opts.Log.Log(module, level, fmt.Sprintf(format, args...))
	}
}

// radius is how many hops the farthest router of the network is away (RT F52).
func (r *Router) radius() int { return int(r.maxHops.Load()) }

// NextIdentity draws from the one counter that links and configured entities share (MG 5).
func (r *Router) NextIdentity() uint64 { return r.identity.Add(1) }

// NextConnectionID draws the number of a new connection, or of an attempt at one.
func (r *Router) NextConnectionID() uint64 { return r.connNumber.Add(1) }

func (r *Router) addConn(c *Conn) {
	r.connMu.Lock()
	closed := r.closed
	if !closed {
		r.conns[c.o.ID] = c
	}
	r.connMu.Unlock()
	if closed { // Close does not wait for this one
		c.wire.Cut()
	}
}

func (r *Router) removeConn(c *Conn, opened bool) {
	if opened {
		r.logf("ROUTER_CORE", Info, "[C%d] Connection Closed", c.o.ID)
		r.post(event{kind: eventCall, call: func() { r.connClosed(c) }})
		if c.o.Role == RoleInterRouter {
			r.post(event{kind: eventCall, call: func() { r.closeNeighbour(c) }})
		}
	}
	r.connMu.Lock()
	_, known := r.conns[c.o.ID]
	delete(r.conns, c.o.ID)
	last := known && r.closed && len(r.conns) == 0
	r.connMu.Unlock()
	if last {
		close(r.empty)
	}
}

func (r *Router) allConns() []*Conn {
	r.connMu.Lock()
	list := make([]*Conn, 0, len(r.conns))
	for _, c := range r.conns {
		list = append(list, c)
	}
	r.connMu.Unlock()
	slices.SortFunc(list, func(a, b *Conn) int { return cmp.Compare(a.o.ID, b.o.ID) })
	return list
}

// closeWait is how long Close lets connections take to end in good order (CFG A28).
const closeWait = time.Second

// Close ends all connections, with a word to their peers, and then all goroutines. Connections
// that do not answer within a second are cut.
func (r *Router) Close() {
	r.connMu.Lock()
	if r.closed {
		r.connMu.Unlock()
		return
	}
	r.closed = true
	n := len(r.conns)
	r.connMu.Unlock()
	if n > 0 {
		for _, c := range r.allConns() {
			r.logf("SERVER", Info, "[C%d] Closing connection on shutdown", c.o.ID)
			c.Close(&amqp.Error{Condition: amqp.ErrCondConnectionForced, Description: "router is shutting down"})
		}
		t := time.NewTimer(closeWait)
		select {
		case <-r.empty:
		case <-t.C:
		}
		t.Stop()
		for _, c := range r.allConns() {
			c.wire.Cut()
		}
		<-r.empty
	}
	r.writers.Wait()
	r.timers.close()
	r.queue.mu.Lock()
	r.queue.closed = true
	r.queue.mu.Unlock()
	r.wakeCore()
	<-r.coreDone
}

func (r *Router) addLink(in *inLink, out *outLink) {
	r.linkMu.Lock()
	if in != nil {
		r.links[in.id] = linkEntry{in: in}
	} else {
		r.links[out.id] = linkEntry{out: out}
	}
	r.linkMu.Unlock()
}

// dropLink forgets a link that came to nothing.
func (r *Router) dropLink(in *inLink, out *outLink) {
	r.linkMu.Lock()
	if in != nil {
		delete(r.links, in.id)
	} else {
		delete(r.links, out.id)
	}
	r.linkMu.Unlock()
}

// retire keeps the counts of a link that is gone.
func (r *Router) retire(c *Conn, in *inLink, out *outLink) {
	c.mu.Lock()
	var k linkCounts
	if in != nil {
		k = in.counts
	} else {
		k = out.counts
	}
	c.mu.Unlock()
	k.stuck = 0
	r.gone.Add(1)
	r.linkMu.Lock()
	if in != nil {
		r.retired.addIn(c, in, &k)
		delete(r.links, in.id)
	} else {
		r.retired.addOut(c, out, &k)
		delete(r.links, out.id)
	}
	r.linkMu.Unlock()
}

// allLinks returns the links there are, in no order, and the counts of those that have been. The
// lock of links is taken within those of connections, never around them.
func (r *Router) allLinks() ([]linkEntry, totals) {
	r.linkMu.Lock()
	defer r.linkMu.Unlock()
	entries := make([]linkEntry, 0, len(r.links))
	for _, e := range r.links {
		entries = append(entries, e)
	}
	return entries, r.retired
}

// configFor returns the best matching address configuration (RT F4).
func (r *Router) configFor(text string) *AddressConfig {
	r.configMu.RLock()
	cfg, _ := r.patterns.Match(text)
	r.configMu.RUnlock()
	return cfg
}

// distributionOf is what an address without an entry would get (RT E31).
func (r *Router) distributionOf(key addressKey) Distribution {
	if key.class() == classMobile {
		if cfg := r.configFor(key.text()); cfg != nil {
			return cfg.Distribution
		}
	}
	return r.opts.DefaultDistribution
}

// AddressConfigs returns the configured addresses in the order they were made.
func (r *Router) AddressConfigs() []AddressConfig {
	r.configMu.RLock()
	defer r.configMu.RUnlock()
	list := make([]AddressConfig, len(r.configs))
	for i, cfg := range r.configs {
		list[i] = *cfg
	}
	return list
}

// patternOf is the pattern that a configuration stands for; a prefix is its pattern with "/#".
func patternOf(cfg *AddressConfig) string {
	if cfg.Prefix != "" {
		return cfg.Prefix + "/#"
	}
	return cfg.Pattern
}

// AddAddressConfig checks and adds an address configuration (RT F8 to F13). It is for addresses
// that appear from now on. The result has its identity and its normalised text.
func (r *Router) AddAddressConfig(cfg AddressConfig) (AddressConfig, error) {
	switch {
	case cfg.Prefix == "" && cfg.Pattern == "":
		return cfg, ErrPrefixEither
	case cfg.Prefix != "" && cfg.Pattern != "":
		return cfg, ErrPrefixBoth
	case cfg.Fallback && (cfg.IngressPhase != 0 || cfg.EgressPhase != 0):
		return cfg, ErrFallback
	case cfg.IngressPhase < 0 || cfg.IngressPhase > 9 || cfg.EgressPhase < 0 || cfg.EgressPhase > 9:
		return cfg, ErrPhases
	case cfg.Priority > 9 || cfg.Priority < -1:
		return cfg, ErrPriority
	}
	if cfg.Prefix != "" {
		if cfg.Prefix = strings.Trim(cfg.Prefix, "./"); cfg.Prefix == "" {
			return cfg, ErrPrefixTokens
		}
	} else if cfg.Pattern = strings.Trim(cfg.Pattern, "./"); cfg.Pattern == "" {
		return cfg, ErrPatTokens
	}
	var err error
	r.call(func() {
		r.configMu.Lock()
		defer r.configMu.Unlock()
		for _, o := range r.configs {
			if cfg.Name != "" && o.Name == cfg.Name {
				err = ErrNameConflict
				return
			}
		}
		kept := cfg
		if !r.patterns.Add(patternOf(&cfg), &kept) {
			err = ErrDuplicate
			return
		}
		cfg.ID = r.NextIdentity()
		kept.ID = cfg.ID
		r.configs = append(r.configs, &kept)
	})
	return cfg, err
}

// DeleteAddressConfig removes an address configuration; addresses in the table keep what they
// got from it.
func (r *Router) DeleteAddressConfig(id uint64) error {
	err := ErrNotFound
	r.call(func() {
		r.configMu.Lock()
		defer r.configMu.Unlock()
		for i, o := range r.configs {
			if o.ID == id {
				r.patterns.Remove(patternOf(o))
				r.configs = append(r.configs[:i:i], r.configs[i+1:]...)
				err = nil
				return
			}
		}
	})
	return err
}

// Subscribe makes handler a consumer of an address within this process, until cancel is called.
// local binds the address as _local/ does. handler runs in the reader of the connection that a
// message came on: it must not block, and only take the request to be settled elsewhere.
func (r *Router) Subscribe(name string, local bool, handler func(*Request)) (cancel func()) {
	key := mobileKey('0', name)
	if local {
		key = classKey(classLocal, name)
	}
	var s *subscriber
	r.call(func() {
		a := r.addressFor(key, Closest, -1)
		s = &subscriber{addr: a, handler: handler}
		a.subs = append(a.subs[:len(a.subs):len(a.subs)], s)
		r.publish(a)
	})
	return func() {
		r.call(func() {
			a := s.addr
			if i := slices.Index(a.subs, s); i >= 0 {
				a.subs = slices.Delete(slices.Clone(a.subs), i, i+1)
				r.publish(a)
				r.dropIfUnused(a)
			}
		})
	}
}

// Send forwards a message that this router made, settled. To an address that nobody wants it
// goes nowhere (RT X12).
func (r *Router) Send(to string, msg []byte) {
	key, ok := r.keyOf(to, '0')
	if !ok {
		return
	}
	a := r.lookup(key)
	if a == nil {
		return
	}
	b := r.newBatch()
	f := a.fwd.Load()
	m := &message{in: &inLink{template: []byte(to)}, settled: true, payload: msg, owned: true}
	if s, err := amqp.WalkMessage(msg, amqp.DepthMessageAnnotations, true); err == nil {
		m.insertAt = max(s.Header.End, s.DeliveryAnnotations.End)
		m.sections = s.MessageAnnotations
		if m.sections.Present() {
			m.notes.read(m.sections.Value(msg), true)
		}
	}
	m.in.addr.Store(a)
	var outs []*outLink
	if a.dist == Multicast || a.dist == Flood {
		outs = r.remoteLinks(m, a, f, append(b.targets[:0], f.outs...))
	} else if out, _ := r.pick(m, a, f); out != nil {
		outs = []*outLink{out}
	}
	for _, out := range outs {
		out.conn.sendCopy(m, a, out, copyRef{}, nil, b)
	}
	if len(outs) > 0 {
		a.fromContainer.Add(1)
	}
	b.run()
	b.done()
}

// KillConnection cuts a connection without a word to its peer (RT E6, MG 7.10). by is the
// connection that asked.
func (r *Router) KillConnection(id, by uint64) error {
	r.connMu.Lock()
	c := r.conns[id]
	r.connMu.Unlock()
	if c == nil {
		return ErrNotFound
	}
	if c.o.Role == RoleInterRouter || c.o.Role == RoleEdge {
		return ErrForbidden
	}
	c.killed.Store(true)
	r.logf("ROUTER_CORE", Info, "[C%d] Connection force-closed by request from connection [C%d]", id, by)
	c.wire.Cut()
	return nil
}

// Stats sums up what the router has done.
func (r *Router) Stats() RouterStats {
	var s RouterStats
	entries, t := r.allLinks()
	for _, e := range entries {
		if in := e.in; in != nil {
			in.conn.mu.Lock()
			t.addIn(in.conn, in, &in.counts)
			if in.blocked {
				t.blocked++
			}
			in.conn.mu.Unlock()
		} else {
			out := e.out
			out.conn.mu.Lock()
			t.addOut(out.conn, out, &out.counts)
			if out.blocked {
				t.blocked++
			}
			out.conn.mu.Unlock()
		}
	}
	s.LinkCount = uint64(len(entries))
	s.AutoLinkCount = r.autoLinks.Load()
	r.tableMu.RLock()
	s.AddrCount = uint64(len(r.table))
	r.tableMu.RUnlock()
	r.connMu.Lock()
	s.ConnectionCount = uint64(len(r.conns))
	r.connMu.Unlock()
	s.Presettled, s.DroppedPresettled = t.presettled, t.dropped+r.droppedLate.Load()
	s.Accepted, s.Rejected, s.Released, s.Modified = t.accepted, t.rejected, t.released, t.modified
	s.Delayed1Sec, s.Delayed10Sec, s.Stuck = t.delayed1, t.delayed10, t.stuck
	s.Ingress, s.Egress, s.Transit = t.ingress, t.egress, t.transit
	if v := r.nodesView.Load(); v != nil {
		s.NodeCount = uint64(len(*v))
	}
	s.IngressRouteContainer, s.EgressRouteContainer = t.ingressRC, t.egressRC
	s.RedirectedToFallback = r.redirected.Load()
	s.LinkRouteCount = uint64(r.linkRoutes.Load())
	s.LinksBlocked = t.blocked
	s.UptimeSeconds = uint32(r.now() / 1e9)
	s.MemoryUsage = memoryUsage()
	return s
}

// memoryUsage is the size of the process in virtual memory, 0 where the system does not tell.
func memoryUsage() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseUint(pages, 10, 64)
	if err != nil {
		return 0
	}
	return n * uint64(os.Getpagesize())
}

// Connections returns all connections, oldest first.
func (r *Router) Connections() []ConnectionInfo {
	conns := r.allConns()
	list := make([]ConnectionInfo, 0, len(conns))
	now := r.now()
	for _, c := range conns {
		c.mu.Lock()
		i := ConnectionInfo{
			ID: c.o.ID, Host: c.o.Host, Role: c.o.Role, Incoming: c.o.Incoming, Container: c.container,
			SASL: c.o.SASL, Authenticated: c.o.Authenticated, User: c.o.User, Encrypted: c.o.Encrypted,
			SSLProto: c.o.SSLProto, SSLCipher: c.o.SSLCipher, SSLSsf: c.o.SSLSsf,
			Properties: c.properties, Tenant: c.tenant, Opened: c.opened, Active: true,
			Closing: c.killed.Load(), Trace: c.trace.Load(),
			UptimeSeconds: uint32((now - c.born) / 1e9), LastDelivery: -1,
		}
		opened := c.opened
		c.mu.Unlock()
		if t := c.lastDelivery.Load(); t != 0 {
			i.LastDelivery = (now - t) / 1e9
		}
		if opened {
			list = append(list, i)
		}
	}
	return list
}

// linkByID is for sorting: an entry is a tenth of what there is to say about it.
type linkByID struct {
	id uint64
	linkEntry
}

// Links returns all links, oldest first.
func (r *Router) Links() []LinkInfo {
	r.linkMu.Lock()
	entries := make([]linkByID, 0, len(r.links))
	for id, e := range r.links {
		entries = append(entries, linkByID{id, e})
	}
	r.linkMu.Unlock()
	slices.SortFunc(entries, func(a, b linkByID) int { return cmp.Compare(a.id, b.id) })
	list := make([]LinkInfo, len(entries))
	now := r.now()
	for i, e := range entries {
		if e.in != nil {
			list[i] = e.in.info(now)
		} else {
			list[i] = e.out.info(now)
		}
	}
	return list
}

func (k *linkCounts) fill(i *LinkInfo, now int64) {
	i.Undelivered, i.Unsettled = k.undelivered, k.unsettled
	i.Deliveries, i.Presettled, i.DroppedPresettled = k.deliveries, k.presettled, k.dropped
	i.Accepted, i.Rejected, i.Released, i.Modified = k.accepted, k.rejected, k.released, k.modified
	i.Delayed1Sec, i.Delayed10Sec = k.delayed1, k.delayed10
	i.Stuck = min(k.stuck, k.undelivered+k.unsettled)
	i.SettleRate = k.rate.perSecond(uint32(now / 1e9))
}

func (in *inLink) info(now int64) LinkInfo {
	c := in.conn
	i := LinkInfo{ID: in.id, Name: in.l.Name, ConnectionID: c.o.ID, Type: in.kind.String(), Incoming: true, Priority: defaultPriority}
	if in.near != nil {
		i.Priority = in.priority
	}
	if a := in.addr.Load(); a != nil {
		i.OwningAddr = string(a.key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := in.pair; p != nil {
		i.Peer, i.OwningAddr = p.out.id, p.owningAddr
	}
	i.Capacity = in.capacity
	in.counts.fill(&i, now)
	i.Up = in.up
	if in.up {
		i.CreditAvailable = in.l.CreditOut()
	}
	if i.CreditAvailable == 0 && in.zeroAt != 0 {
		i.ZeroCreditSeconds = uint32((now - in.zeroAt) / 1e9)
	}
	return i
}

func (out *outLink) info(now int64) LinkInfo {
	c := out.conn
	i := LinkInfo{ID: out.id, Name: out.l.Name, ConnectionID: c.o.ID, Type: out.kind.String(), Priority: defaultPriority}
	if out.near != nil {
		i.Priority = out.priority
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if out.addr != nil {
		i.OwningAddr = string(out.addr.key)
	}
	if p := out.pair; p != nil {
		i.Peer, i.OwningAddr = p.in.id, p.owningAddr
	}
	i.Capacity = uint32(out.capacity)
	out.counts.fill(&i, now)
	i.IngressHistogram = []uint64{i.Presettled + i.Accepted + i.Rejected + i.Released + i.Modified}
	i.Up = out.up
	i.CreditAvailable = out.l.Credit()
	if i.CreditAvailable == 0 && out.zeroAt != 0 {
		i.ZeroCreditSeconds = uint32((now - out.zeroAt) / 1e9)
	}
	return i
}

// Addresses returns the address table in the order its entries came.
func (r *Router) Addresses() []AddressInfo {
	r.tableMu.RLock()
	entries := make([]*address, 0, len(r.table))
	for _, a := range r.table {
		entries = append(entries, a)
	}
	r.tableMu.RUnlock()
	slices.SortFunc(entries, func(a, b *address) int { return cmp.Compare(a.order, b.order) })
	list := make([]AddressInfo, len(entries))
	for i, a := range entries {
		f := a.fwd.Load()
		remotes := make([]string, 0, len(f.remotes))
		for _, n := range f.remotes {
			remotes = append(remotes, n.id)
		}
		list[i] = AddressInfo{
			Remotes: uint32(len(remotes)), RemoteHostRouters: remotes, Transit: a.transit.Load(),
			Key: string(a.key), Distribution: a.dist, InProcess: uint32(len(f.subs)), Subscribers: uint32(len(f.outs)),
			Ingress: a.ingress.Load(), Egress: a.egress.Load(), ToContainer: a.toContainer.Load(), FromContainer: a.fromContainer.Load(),
			IngressRouteContainer: a.ingressRouteContainer.Load(), EgressRouteContainer: a.egressRouteContainer.Load(),
			RedirectedToFallback: a.redirected.Load(), Priority: a.priority, Containers: uint32(a.containers.Load()),
		}
		if a.dist == Balanced {
			list[i].TransitOutstanding = []int64{}
		}
	}
	return list
}

// Nodes returns the routers of the network, this one first; a router that is not interior has
// none (IR 2.18).
func (r *Router) Nodes() []NodeInfo {
	var list []NodeInfo
	r.call(func() {
		if r.net == nil {
			return
		}
		for _, n := range r.net.Nodes() {
			i := NodeInfo{
				ID: n.ID, ProtocolVersion: n.ProtocolVersion, Instance: n.Instance, LinkState: n.LinkState, NextHop: n.NextHop,
				ValidOrigins: n.ValidOrigins, Address: n.Address, RouterLink: -1, Cost: n.Cost, Index: int64(n.Index),
			}
			if n.RouterLink != 0 {
				i.RouterLink = int64(n.RouterLink)
			}
			if !n.LastTopoChange.IsZero() {
				i.LastTopoChange = n.LastTopoChange.Unix()
			}
			list = append(list, i)
		}
	})
	return list
}

// SetTrace switches the frame trace of one connection, whatever the level of PROTOCOL (CFG G6).
func (r *Router) SetTrace(id uint64, on bool) error {
	r.connMu.Lock()
	c := r.conns[id]
	r.connMu.Unlock()
	if c == nil {
		return ErrNotFound
	}
	c.trace.Store(on)
	return nil
}

// SetProtocolTrace switches the frame trace of all connections, those to come included.
func (r *Router) SetProtocolTrace(on bool) {
	if r.traceAll.Swap(on) == on {
		return
	}
	for _, c := range r.allConns() {
		c.trace.Store(on)
	}
}

func (r *Router) traceNew(c *Conn) {
	if r.traceAll.Load() {
		c.trace.Store(true)
		c.eng.Trace = c.traceFrame
	}
}
