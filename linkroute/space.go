package linkroute

import (
	"cmp"
	"slices"
	"strings"

	"qdrouter/router"
)

// direction is which way the messages of a link go, as the router that its peer is attached to sees
// it: the peers of a route "in" are senders.
type direction uint8

const (
	in direction = iota
	out
)

func parseDirection(s string) (d direction, ok bool) {
	switch s {
	case "in":
		return in, true
	case "out":
		return out, true
	}
	return 0, false
}

func (d direction) String() string {
	if d == in {
		return "in"
	}
	return "out"
}

// keyOf returns the key of the address that a pattern stands for. A pattern whose only wildcard is
// "#" at its end is a prefix (RT E41, IR 4).
func keyOf(d direction, pattern string) string {
	text, prefix := strings.CutSuffix(pattern, "#")
	prefix = prefix && strings.TrimRight(text, "./") != text && !strings.ContainsAny(text, "*#")
	switch {
	case prefix && d == in:
		return "C" + strings.TrimRight(text, "./")
	case prefix:
		return "D" + strings.TrimRight(text, "./")
	case d == in:
		return "E" + pattern
	}
	return "F" + pattern
}

// patternOf is the inverse of keyOf. ok is false for a key of no link route.
func patternOf(key string) (d direction, pattern string, ok bool) {
	if len(key) < 2 {
		return 0, "", false
	}
	switch key[0] {
	case 'C':
		return in, key[1:] + "/#", true
	case 'D':
		return out, key[1:] + "/#", true
	case 'E':
		return in, key[1:], true
	case 'F':
		return out, key[1:], true
	}
	return 0, "", false
}

// A space is the addresses that a link route's key stands for, and where their links may go: to
// connections of this router, or to routers that have some.
type space struct {
	key     string
	conns   []server // the next to be used first (RT L16)
	remotes []remote // by index
	last    int      // the index of the router used last, 0 = none since the costs changed (RT L17)
	holds   int      // link routes of this router

	// What is done to the address on the way to a container here. It is the first link route's that
	// has the pattern (RT L6, L14).
	add, del string
	table    *router.RouteHold // nil while there is no link route of this router
}

// server is a connection that serves a space, for a number of link routes.
type server struct {
	conn *router.Conn
	n    int
}

// remote is another router that serves a space.
type remote struct {
	id    string
	index int // 1 and up
}

// serve adds a connection, or one more reason for it.
func (s *space) serve(c *router.Conn) {
	for i := range s.conns {
		if s.conns[i].conn == c {
			s.conns[i].n++
			return
		}
	}
	s.conns = append(s.conns, server{c, 1})
}

// unserve takes one reason for a connection away.
func (s *space) unserve(c *router.Conn) {
	for i := range s.conns {
		if s.conns[i].conn == c {
			if s.conns[i].n--; s.conns[i].n == 0 {
				s.conns = slices.Delete(s.conns, i, i+1)
			}
			return
		}
	}
}

// learned notes that a router serves the space, or does not any more.
func (s *space) learned(id string, index int, serves bool) {
	s.remotes = slices.DeleteFunc(s.remotes, func(r remote) bool { return r.id == id })
	if serves {
		s.remotes = append(s.remotes, remote{id, index})
		slices.SortFunc(s.remotes, func(a, b remote) int { return cmp.Compare(a.index, b.index) })
	}
}

// choose picks where a link goes: a connection here, each in its turn, or else each of the routers
// in its turn, whatever the cost (RT L16, L17). Both are empty when there is none.
func (s *space) choose(reachable func(router string) bool) (c *router.Conn, id string) {
	if len(s.conns) > 0 {
		first := s.conns[0]
		s.conns = append(s.conns[1:], first)
		return first.conn, ""
	}
	for _, after := range []int{s.last, 0} {
		for _, r := range s.remotes {
			if r.index > after && reachable(r.id) {
				s.last = r.index
				return nil, r.id
			}
		}
	}
	return nil, ""
}

// chooseOf is choose among spaces of the same pattern, written in several ways. sp is nil when there
// is none.
func chooseOf(spaces []*space, reachable func(router string) bool) (sp *space, c *router.Conn, id string) {
	for _, local := range []bool{true, false} {
		for _, sp := range spaces {
			if local != (len(sp.conns) > 0) {
				continue
			}
			if c, id := sp.choose(reachable); c != nil || id != "" {
				return sp, c, id
			}
		}
	}
	return nil, nil, ""
}

// outward is the address as a container here knows it (RT L14).
func (s *space) outward(address string) string {
	if len(address) > len(s.del) {
		address = strings.TrimPrefix(address, s.del)
	}
	return s.add + address
}

// inward is the inverse, of an address that outward made of was, or one the container has chosen.
func (s *space) inward(address, was string) string {
	if s.add != "" && len(address) > len(s.add) {
		address = strings.TrimPrefix(address, s.add)
	}
	if s.del != "" && len(was) > len(s.del) && strings.HasPrefix(was, s.del) {
		address = s.del + address
	}
	return address
}

func (s *space) empty() bool { return s.holds == 0 && len(s.remotes) == 0 }
