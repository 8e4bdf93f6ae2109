package linkroute

import (
	"maps"
	"slices"
	"strconv"

	"qdrouter/amqp"
	"qdrouter/router"
)

// AutoLink is one router.config.autoLink: how it is configured, and how it stands (RT 4.1).
type AutoLink struct {
	ID              uint64 // identity; assigned by Add
	Name            string
	Address         string
	Direction       string // "in" or "out", as this router sees it
	Phase           int    // 0..9; -1 = as direction and fallback have it
	Connection      string // at most one of Connection and ContainerID
	ContainerID     string
	ExternalAddress string // what the container calls the address, "" = the same
	Fallback        bool

	Status    string // inactive, attaching, failed, active
	Link      uint64 // the most recent link, 0 = none
	LastError string
}

// EffectivePhase returns the phase, or the one for an autolink without.
func (al *AutoLink) EffectivePhase() int {
	switch {
	case al.Phase >= 0:
		return al.Phase
	case al.Direction == "in" && !al.Fallback:
		return 1
	}
	return 0
}

// AutoLinks are the autolinks of one router. The methods may be called from any goroutine but the
// core.
type AutoLinks struct {
	r *router.Router

	// Owned by the core.
	list []*autoLink
}

// NewAutoLinks returns the autolinks of a router, none yet.
func NewAutoLinks(r *router.Router) *AutoLinks { return &AutoLinks{r: r} }

// autoLink carries out what attempts decides. It belongs to the core.
type autoLink struct {
	AutoLink
	core     *router.Core
	hold     *router.AddressHold
	watch    *router.Watch
	attempts attempts
	conns    map[uint64]*autoConn
}

// autoConn is one connection of an autolink. It owns the link there, and one at most: an attempt
// begins when the one before is over.
type autoConn struct {
	al    *autoLink
	conn  *router.Conn
	link  *router.Link
	timer *router.Timer
	reply *amqp.Attach
}

// Add checks an autolink and puts it into force. The result has its identity, its phase and how it
// stands.
func (s *AutoLinks) Add(cfg AutoLink) (AutoLink, error) {
	var err error
	s.r.InCore(func(k *router.Core) { cfg, err = s.add(k, cfg) })
	return cfg, err
}

func (s *AutoLinks) add(k *router.Core, cfg AutoLink) (AutoLink, error) {
	cfg.Phase = cfg.EffectivePhase()
	switch {
	case cfg.Name != "" && slices.ContainsFunc(s.list, func(al *autoLink) bool { return al.Name == cfg.Name }):
		return cfg, router.ErrNameConflict
	case cfg.Connection != "" && cfg.ContainerID != "":
		return cfg, ErrBothSelectors
	case cfg.Address == "" || cfg.Direction == "":
		return cfg, ErrAddressNeeded
	case cfg.Direction != "in" && cfg.Direction != "out":
		return cfg, ErrDirection
	case cfg.Phase > 9:
		return cfg, ErrPhase
	}
	hold := k.HoldAddress(cfg.Address, cfg.Phase, cfg.Fallback && cfg.Direction == "out")
	if hold == nil {
		return cfg, ErrAddress
	}
	cfg.ID = k.NextIdentity()
	cfg.Address = hold.Text()
	al := &autoLink{AutoLink: cfg, core: k, hold: hold, conns: make(map[uint64]*autoConn)}
	al.watch = &router.Watch{Connection: cfg.Connection, Container: cfg.ContainerID, Opened: al.opened, Closed: al.closed}
	s.list = append(s.list, al)
	k.SetAutoLinkCount(len(s.list))
	k.Watch(al.watch)
	return al.row(), nil
}

// Delete takes an autolink and its links away (RT A9).
func (s *AutoLinks) Delete(id uint64) error {
	err := router.ErrNotFound
	s.r.InCore(func(k *router.Core) {
		i := slices.IndexFunc(s.list, func(al *autoLink) bool { return al.ID == id })
		if i < 0 {
			return
		}
		al := s.list[i]
		s.list = slices.Delete(s.list, i, i+1)
		k.SetAutoLinkCount(len(s.list))
		k.Unwatch(al.watch)
		al.carryOut(al.attempts.deleted())
		for _, number := range slices.Sorted(maps.Keys(al.conns)) {
			al.log("Auto Link Deactivated", al.conns[number].conn)
		}
		al.hold.Release()
		err = nil
	})
	return err
}

// List returns the autolinks in the order they were made.
func (s *AutoLinks) List() []AutoLink {
	var list []AutoLink
	s.r.InCore(func(*router.Core) {
		list = make([]AutoLink, len(s.list))
		for i, al := range s.list {
			list[i] = al.row()
		}
	})
	return list
}

// row is the autolink as it stands now.
func (al *autoLink) row() AutoLink {
	row := al.AutoLink
	row.Status, row.LastError = al.attempts.state().String(), al.attempts.lastError
	for _, x := range al.conns {
		if x.link != nil {
			row.Link = max(row.Link, x.link.ID()) // identities grow (RT A8)
		}
	}
	return row
}

func (al *autoLink) opened(c *router.Conn) {
	al.conns[c.Number()] = &autoConn{al: al, conn: c}
	al.carryOut(al.attempts.opened(c.Number()))
}

func (al *autoLink) closed(c *router.Conn) {
	al.log("Auto Link Deactivated", c)
	al.carryOut(al.attempts.closed(c.Number()))
	delete(al.conns, c.Number())
}

func (al *autoLink) carryOut(steps []step) {
	for _, s := range steps {
		x := al.conns[s.conn]
		switch s.do {
		case attach:
			class := router.ClientSession
			if s.alone {
				class = router.LoneSession
			}
			x.attach(class)
		case bind:
			x.link.Bind(al.hold, x.reply, al.Fallback)
		case retry:
			x.timer = al.core.After(s.after, x.due)
		case cancel:
			x.timer.Stop()
		case detach:
			if x.link != nil { // else it went with its connection, of which closed is to be told
				x.link.Detach(true, nil)
				x.link = nil
			}
		}
	}
}

func (x *autoConn) due() { x.al.carryOut(x.al.attempts.due(x.conn.Number())) }

// attach attaches a link to the container (RT A3).
func (x *autoConn) attach(class router.SessionClass) {
	al := x.al
	address := al.ExternalAddress
	if address == "" {
		address = al.Address
	}
	source := &amqp.Source{Durable: amqp.Some(uint32(0)), ExpiryPolicy: amqp.ExpiryLinkDetach, Timeout: amqp.Some(uint32(0))}
	target := &amqp.Target{Durable: amqp.Some(uint32(0)), ExpiryPolicy: amqp.ExpiryLinkDetach, Timeout: amqp.Some(uint32(0))}
	a := &amqp.Attach{Name: "qdlink." + router.RandomName(), Source: source, Target: target}
	if al.Direction == "in" {
		a.Role = amqp.RoleReceiver
		source.Address = amqp.Some(address)
	} else {
		a.Role = amqp.RoleSender
		target.Address = amqp.Some(address)
	}
	al.log("Auto Link Activated", x.conn)
	link, err := al.core.Attach(x.conn, class, a, x)
	if err != nil {
		al.carryOut(al.attempts.detached(x.conn.Number(), err.Error()))
		x.logFailure(err.Error())
		return
	}
	x.link = link
}

// Attached is told of the container's attach.
func (x *autoConn) Attached(a *amqp.Attach) {
	x.reply = a
	named := a.Target != nil && a.Target.Address.V != ""
	if x.al.Direction == "in" {
		named = a.Source != nil && a.Source.Address.V != ""
	}
	x.al.carryOut(x.al.attempts.attached(x.conn.Number(), named))
}

// Detached is told that the container took the link away.
func (x *autoConn) Detached(closed bool, e *amqp.Error) {
	x.link.Detach(closed, nil) // RT E65
	x.link = nil
	text := description(e)
	x.al.carryOut(x.al.attempts.detached(x.conn.Number(), text))
	x.logFailure(text)
}

// Lost is told that the link went with its session, which the container ended, or with its
// connection, of which closed is told next.
func (x *autoConn) Lost(connection bool) {
	text := description(x.link.EndError())
	x.link = nil
	if !connection {
		x.al.carryOut(x.al.attempts.ended(x.conn.Number(), text))
		x.logFailure(text)
	}
}

// description is the text of an error, "" without one.
func description(e *amqp.Error) string {
	if e == nil {
		return ""
	}
	return e.Description
}

func (x *autoConn) logFailure(text string) {
	x.al.log("Auto Link Activation Failed. "+text, x.conn)
}

// log writes a line of RT A10.
func (al *autoLink) log(text string, c *router.Conn) {
	name := al.Name
	if name == "" {
		name = strconv.FormatUint(al.ID, 10)
	}
	kind, key := "connection", c.Label()
	if key == "" {
		kind, key = "container", c.ContainerID()
	}
	al.core.Logf(router.Info, "%s '%s' on %s %s", text, name, kind, key)
}
