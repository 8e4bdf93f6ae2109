package router

import (
	"cmp"
	"slices"
	"strings"
)

// Core is the door to what the core goroutine owns, for the package that has the router attach
// links of its own. Its methods, and those of the values they return, are for functions that the
// core runs: those given to InCore and After, and the methods of a Watch and a LinkOwner. None
// of these may wait for anything.
type Core struct{ r *Router }

// InCore runs f in the core and waits until it has. It must not be called from the core. A
// router that is closed runs nothing any more.
func (r *Router) InCore(f func(*Core)) { r.call(func() { f(&Core{r}) }) }

// NextIdentity draws from the counter that links and configured entities share.
func (k *Core) NextIdentity() uint64 { return k.r.NextIdentity() }

// Logf writes to the log of the ROUTER_CORE module.
func (k *Core) Logf(level Level, format string, args ...any) {
	k.r.logf("ROUTER_CORE", level, format, args...)
}

// SetAutoLinkCount tells the statistics how many autolinks there are.
func (k *Core) SetAutoLinkCount(n int) { k.r.autoLinks.Store(uint64(n)) }

// A Watch waits for open connections. One of its first three fields says which. Opened is called
// for those that are open already, while the watch is added, and for others right after both
// opens (RT L2). Closed is called when a connection that it was told of has gone, after the
// owners of its links have been told.
type Watch struct {
	Connection string // the configured name of a listener or connector, of role route-container
	Container  string // the container id that the peer gave, of role route-container
	Number     uint64 // of one connection, whatever its role

	Opened func(*Conn)
	Closed func(*Conn)

	active bool
	told   map[*Conn]struct{}
}

// openConns are the open connections and those who wait for them. The core owns it.
type openConns struct {
	all         map[uint64]*Conn
	containers  map[uint64]*Conn // those of role route-container
	byName      map[string][]*Watch
	byContainer map[string][]*Watch
	byNumber    map[uint64][]*Watch
}

func (o *openConns) init() {
	o.all = make(map[uint64]*Conn)
	o.containers = make(map[uint64]*Conn)
	o.byName = make(map[string][]*Watch)
	o.byContainer = make(map[string][]*Watch)
	o.byNumber = make(map[uint64][]*Watch)
}

// Label returns the name by which configuration refers to a route-container connection; generated
// names are none (RT L1).
func (c *Conn) Label() string {
	if strings.HasPrefix(c.o.Name, "listener/") || strings.HasPrefix(c.o.Name, "connector/") {
		return ""
	}
	return c.o.Name
}

// ContainerID returns what the peer's open gave.
func (c *Conn) ContainerID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.container
}

// Role returns what the connection is used for.
func (c *Conn) Role() Role { return c.o.Role }

// Watch adds a watch.
func (k *Core) Watch(w *Watch) {
	o := &k.r.open
	w.active, w.told = true, make(map[*Conn]struct{})
	var open []*Conn
	switch {
	case w.Number != 0:
		o.byNumber[w.Number] = append(o.byNumber[w.Number], w)
		if c := o.all[w.Number]; c != nil {
			open = append(open, c)
		}
	case w.Connection != "":
		o.byName[w.Connection] = append(o.byName[w.Connection], w)
		open = o.matching(func(c *Conn) bool { return c.Label() == w.Connection })
	case w.Container != "":
		o.byContainer[w.Container] = append(o.byContainer[w.Container], w)
		open = o.matching(func(c *Conn) bool { return c.ContainerID() == w.Container })
	}
	w.tell(open)
}

// Unwatch removes a watch, which is told nothing more.
func (k *Core) Unwatch(w *Watch) {
	o := &k.r.open
	w.active = false
	drop(o.byNumber, w.Number, w)
	drop(o.byName, w.Connection, w)
	drop(o.byContainer, w.Container, w)
}

func drop[K comparable](m map[K][]*Watch, key K, w *Watch) {
	list := slices.DeleteFunc(slices.Clone(m[key]), func(x *Watch) bool { return x == w })
	if len(list) == 0 {
		delete(m, key)
	} else {
		m[key] = list
	}
}

func (o *openConns) matching(ok func(*Conn) bool) (list []*Conn) {
	for _, c := range o.containers {
		if ok(c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *Conn) int { return cmp.Compare(a.o.ID, b.o.ID) })
	return list
}

func (w *Watch) tell(open []*Conn) {
	for _, c := range open {
		if w.active {
			w.told[c] = struct{}{}
			w.Opened(c)
		}
	}
}

// of returns those who wait for a connection like this one.
func (o *openConns) of(c *Conn) []*Watch {
	list := slices.Clone(o.byNumber[c.o.ID])
	if c.o.Role != RoleRouteContainer {
		return list
	}
	if name := c.Label(); name != "" {
		list = append(list, o.byName[name]...)
	}
	if id := c.ContainerID(); id != "" {
		list = append(list, o.byContainer[id]...)
	}
	return list
}

// connOpened and connClosed are told by the connection's reader, through the queue. What is told
// twice is taken in once.
func (r *Router) connOpened(c *Conn) {
	r.open.all[c.o.ID] = c
	if c.o.Role == RoleRouteContainer {
		r.open.containers[c.o.ID] = c
	}
	for _, w := range r.open.of(c) {
		w.tell([]*Conn{c})
	}
}

func (r *Router) connClosed(c *Conn) {
	if r.open.all[c.o.ID] == nil {
		return
	}
	delete(r.open.all, c.o.ID)
	delete(r.open.containers, c.o.ID)
	for _, w := range r.open.of(c) {
		if _, told := w.told[c]; told && w.active {
			delete(w.told, c)
			w.Closed(c)
		}
	}
	delete(r.open.byNumber, c.o.ID) // numbers are not used again
}
