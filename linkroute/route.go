package linkroute

import (
	"slices"
	"strconv"
	"strings"

	"qdrouter/router"
)

// LinkRoute is one router.config.linkRoute, or one router.connection.linkRoute: how it is
// configured, and how it stands (RT 3.1, 3.6).
type LinkRoute struct {
	ID        uint64 // identity; assigned by Add
	Name      string
	Prefix    string // one of Prefix and Pattern
	Pattern   string
	Direction string // "in": links of senders, "out": of receivers

	Connection  string // at most one of Connection and ContainerID
	ContainerID string

	AddExternalPrefix string // RT L14
	DelExternalPrefix string

	Active bool // a connection that it leads to is open
}

// LinkRoutes are the link routes of one router, and what it knows of those of others. The methods
// may be called from any goroutine but the core.
type LinkRoutes struct {
	r         *router.Router
	resumable bool

	// Owned by the core.
	spaces map[string]*space
	trees  [2]router.Patterns[[]*space] // by direction
	list   []*linkRoute                 // those of the configuration
	byConn map[uint64][]*linkRoute      // those of connections
}

// NewLinkRoutes puts link routing into force, without any link route yet. resumable says that
// termini may outlive their connection (RT E23).
func NewLinkRoutes(r *router.Router, resumable bool) *LinkRoutes {
	s := &LinkRoutes{r: r, resumable: resumable, spaces: make(map[string]*space), byConn: make(map[uint64][]*linkRoute)}
	r.SetLinkRouting(routing{s})
	return s
}

// linkRoute is one link route in force. It belongs to the core.
type linkRoute struct {
	LinkRoute
	core  *router.Core
	space *space
	watch *router.Watch
	conns []*router.Conn // open, that it leads to
}

// patternText checks and trims the text of a prefix or pattern (RT F8).
func patternText(prefix, pattern string) (trimmed string, isPrefix bool, err error) {
	switch {
	case prefix == "" && pattern == "":
		return "", false, router.ErrPrefixEither
	case prefix != "" && pattern != "":
		return "", false, router.ErrPrefixBoth
	case prefix != "":
		if trimmed = strings.Trim(prefix, "./"); trimmed == "" {
			return "", false, router.ErrPrefixTokens
		}
		return trimmed, true, nil
	}
	if trimmed = strings.Trim(pattern, "./"); trimmed == "" {
		return "", false, router.ErrPatTokens
	}
	return trimmed, false, nil
}

// Add checks a link route and puts it into force. The result has its identity, its trimmed text and
// how it stands.
func (s *LinkRoutes) Add(cfg LinkRoute) (LinkRoute, error) {
	if cfg.Connection != "" && cfg.ContainerID != "" {
		return cfg, ErrBothSelectors
	}
	if cfg.Direction == "" {
		return cfg, ErrNoDirection
	}
	text, isPrefix, err := patternText(cfg.Prefix, cfg.Pattern)
	if err != nil {
		return cfg, err
	}
	d, ok := parseDirection(cfg.Direction)
	if !ok {
		return cfg, ErrDirection
	}
	pattern := text
	if isPrefix {
		cfg.Prefix, pattern = text, text+"/#"
	} else {
		cfg.Pattern = text
	}
	s.r.InCore(func(k *router.Core) {
		if cfg.Name != "" && slices.ContainsFunc(s.list, func(lr *linkRoute) bool { return lr.Name == cfg.Name }) {
			err = router.ErrNameConflict
			return
		}
		lr := s.add(k, cfg, keyOf(d, pattern))
		lr.watch = &router.Watch{Connection: cfg.Connection, Container: cfg.ContainerID, Opened: lr.opened, Closed: lr.closed}
		s.list = append(s.list, lr)
		k.SetLinkRouteCount(len(s.list))
		k.Watch(lr.watch)
		cfg = lr.row()
	})
	return cfg, err
}

// AddFor makes a link route that leads to one connection, until that closes, of whatever role it is
// (RT 3.6). Of cfg, Name, Pattern and Direction count.
func (s *LinkRoutes) AddFor(connection uint64, cfg LinkRoute) (LinkRoute, error) {
	if cfg.Pattern == "" {
		return cfg, ErrNoPattern
	}
	text, _, err := patternText("", cfg.Pattern)
	if err != nil {
		return cfg, err
	}
	d, ok := parseDirection(cfg.Direction)
	if !ok {
		return cfg, ErrDirection
	}
	cfg.Pattern = text
	s.r.InCore(func(k *router.Core) {
		lr := s.add(k, cfg, keyOf(d, text))
		lr.watch = &router.Watch{
			Number: connection,
			Opened: func(c *router.Conn) {
				lr.ContainerID = c.ContainerID()
				lr.opened(c)
			},
			Closed: func(c *router.Conn) {
				lr.closed(c)
				s.drop(lr)
				s.forget(connection, lr)
			},
		}
		k.Watch(lr.watch)
		if len(lr.conns) == 0 {
			k.Unwatch(lr.watch)
			s.drop(lr)
			err = ErrNoParent
			return
		}
		s.byConn[connection] = append(s.byConn[connection], lr)
		cfg = lr.row()
	})
	return cfg, err
}

// add makes a link route of an address, whose connections come by its watch.
func (s *LinkRoutes) add(k *router.Core, cfg LinkRoute, key string) *linkRoute {
	cfg.ID = k.NextIdentity()
	sp := s.space(key)
	if sp.holds++; sp.table == nil {
		sp.table = k.HoldRoute(key)
		sp.add, sp.del = cfg.AddExternalPrefix, cfg.DelExternalPrefix
	}
	return &linkRoute{LinkRoute: cfg, core: k, space: sp}
}

// drop takes a link route out of force. Links that are attached stay (RT L4).
func (s *LinkRoutes) drop(lr *linkRoute) {
	for _, c := range lr.conns {
		lr.log("Link Route Deactivated", c)
		lr.space.unserve(c)
	}
	lr.conns = nil
	sp := lr.space
	if sp.holds--; sp.holds == 0 {
		sp.table.Release()
		sp.table, sp.add, sp.del = nil, "", ""
	} else {
		sp.table.Serve(len(sp.conns))
	}
	s.dropIfEmpty(sp)
}

func (s *LinkRoutes) forget(connection uint64, lr *linkRoute) {
	list := slices.DeleteFunc(s.byConn[connection], func(x *linkRoute) bool { return x == lr })
	if len(list) == 0 {
		delete(s.byConn, connection)
	} else {
		s.byConn[connection] = list
	}
}

// Delete takes a link route away.
func (s *LinkRoutes) Delete(id uint64) error {
	err := router.ErrNotFound
	s.r.InCore(func(k *router.Core) {
		i := slices.IndexFunc(s.list, func(lr *linkRoute) bool { return lr.ID == id })
		if i < 0 {
			return
		}
		lr := s.list[i]
		s.list = slices.Delete(s.list, i, i+1)
		k.SetLinkRouteCount(len(s.list))
		k.Unwatch(lr.watch)
		s.drop(lr)
		err = nil
	})
	return err
}

// DeleteFor takes a link route of a connection away. When the connection has gone that is done
// already (RT L24).
func (s *LinkRoutes) DeleteFor(connection, id uint64) error {
	var err error
	s.r.InCore(func(k *router.Core) {
		if !k.IsOpen(connection) {
			return
		}
		list := s.byConn[connection]
		i := slices.IndexFunc(list, func(lr *linkRoute) bool { return lr.ID == id })
		if i < 0 {
			err = router.ErrNotFound
			return
		}
		lr := list[i]
		k.Unwatch(lr.watch)
		s.drop(lr)
		s.forget(connection, lr)
	})
	return err
}

// List returns the link routes of the configuration, in the order they were made.
func (s *LinkRoutes) List() (list []LinkRoute) {
	s.r.InCore(func(*router.Core) { list = rows(s.list) })
	return list
}

// ListFor returns the link routes of a connection.
func (s *LinkRoutes) ListFor(connection uint64) (list []LinkRoute) {
	s.r.InCore(func(*router.Core) { list = rows(s.byConn[connection]) })
	return list
}

func rows(routes []*linkRoute) []LinkRoute {
	list := make([]LinkRoute, len(routes))
	for i, lr := range routes {
		list[i] = lr.row()
	}
	return list
}

func (lr *linkRoute) row() LinkRoute {
	row := lr.LinkRoute
	row.Active = len(lr.conns) > 0
	return row
}

// opened and closed are told by the watch.
func (lr *linkRoute) opened(c *router.Conn) {
	lr.conns = append(lr.conns, c)
	lr.log("Link Route Activated", c)
	lr.space.serve(c)
	lr.space.table.Serve(len(lr.space.conns))
}

func (lr *linkRoute) closed(c *router.Conn) {
	i := slices.Index(lr.conns, c)
	if i < 0 {
		return
	}
	lr.conns = slices.Delete(lr.conns, i, i+1)
	lr.log("Link Route Deactivated", c)
	lr.space.unserve(c)
	lr.space.table.Serve(len(lr.space.conns))
}

// log writes the line of RT L2.
func (lr *linkRoute) log(what string, c *router.Conn) {
	name := lr.Name
	if name == "" {
		name = strconv.FormatUint(lr.ID, 10)
	}
	by, key := "container", c.ContainerID()
	if lr.Connection != "" {
		by, key = "connection", lr.Connection
	}
	lr.core.Logf(router.Info, "%s '%s' on %s %s", what, name, by, key)
}

// space returns the space of a key, made now if need be.
func (s *LinkRoutes) space(key string) *space {
	sp := s.spaces[key]
	if sp == nil {
		sp = &space{key: key}
		s.spaces[key] = sp
		if d, pattern, ok := patternOf(key); ok {
			same, _ := s.trees[d].Get(pattern)
			s.trees[d].Set(pattern, append(same, sp))
		}
	}
	return sp
}

// dropIfEmpty forgets a space that has nothing any more.
func (s *LinkRoutes) dropIfEmpty(sp *space) {
	if !sp.empty() {
		return
	}
	delete(s.spaces, sp.key)
	if d, pattern, ok := patternOf(sp.key); ok {
		same, _ := s.trees[d].Get(pattern)
		same = slices.DeleteFunc(same, func(x *space) bool { return x == sp })
		if len(same) == 0 {
			s.trees[d].Remove(pattern)
		} else {
			s.trees[d].Set(pattern, same)
		}
	}
}

// routing is how the core asks (RT 3.2).
type routing struct{ *LinkRoutes }

// Learned implements router.LinkRouting.
func (s routing) Learned(key, id string, index int, serves bool) {
	if !serves && s.spaces[key] == nil {
		return
	}
	sp := s.space(key)
	sp.learned(id, index, serves)
	s.dropIfEmpty(sp)
}

// CostsChanged implements router.LinkRouting.
func (s routing) CostsChanged() {
	for _, sp := range s.spaces {
		sp.last = 0
	}
}

// Route implements router.LinkRouting.
func (s routing) Route(q *router.LinkQuery) *router.RoutedLink {
	a := q.Attach
	w := ask(a)
	if w.address == "" || len(s.spaces) == 0 && !w.dynamic {
		return nil
	}
	full := q.Tenant + router.PlainAddress(w.address)
	spaces, ok := s.trees[w.d].Match(full)
	switch {
	case !ok && w.dynamic:
		return &router.RoutedLink{Refusal: errNoRoute}
	case !ok:
		return nil
	case survives(a) && !s.resumable:
		return &router.RoutedLink{Refusal: errExpiration}
	}
	a = a.Clone()
	q.Attach = a
	if q.Tenant != "" { // RT E43
		if w.dynamic {
			a = setDynamicAddress(a, full)
		} else {
			a = setAddress(a, func(string) string { return full })
		}
	}
	sp, c, id := chooseOf(spaces, q.Reachable)
	if sp == nil {
		return &router.RoutedLink{Refusal: errNoRoute}
	}
	next := onward(q, a)
	if c != nil && !w.dynamic {
		next = setAddress(next, sp.outward)
	}
	return &router.RoutedLink{Conn: c, Router: id, Attach: next, Survives: survives(a), Answer: answer(q, w, sp, c != nil)}
}
