package config

import (
	"errors"
	"fmt"
)

// ValidateCross checks e against the entities that exist (CFG B26 to B28, MG 6.5):
// singletons, names and identities unique over all types, roles that the router's
// mode allows. Existing must not hold e, and holds the router if there is one yet.
// The error joins one *AttrError for each problem.
//
// Callers leave out of existing the entities whose names do not count: those of the
// router core, once the router runs.
func ValidateCross(e *Entity, existing []*Entity) error {
	var errs []error
	names := newNames()
	for _, other := range existing {
		names.add(other)
		if other.Type.Name == "router" {
			errs = append(errs, checkRole(other, e)...)
		}
	}
	return errors.Join(append(names.check(e), errs...)...)
}

// names knows the entities by what has to be unique.
type names struct {
	singletons map[*EntityType]*Entity
	names      map[string]*Entity
}

func newNames() *names {
	return &names{singletons: map[*EntityType]*Entity{}, names: map[string]*Entity{}}
}

// unique returns what no other entity may be called by: its name, or the identity
// which becomes its name (CFG B27); "" when that gets a fresh number.
func unique(e *Entity) string {
	if e.Has("name") {
		return e.Str("name")
	}
	numbered := false
	_, name := Identity(e, func() int64 { numbered = true; return 0 })
	if numbered {
		return ""
	}
	return name
}

func (n *names) add(e *Entity) {
	if e.Type.Singleton && n.singletons[e.Type] == nil {
		n.singletons[e.Type] = e
	}
	if name := unique(e); name != "" && n.names[name] == nil {
		n.names[name] = e
	}
}

// check returns what stands against adding e, as *AttrError.
func (n *names) check(e *Entity) []error {
	if first := n.singletons[e.Type]; first != nil {
		return []error{&AttrError{Type: e.Type,
			Msg: fmt.Sprintf("Adding %s singleton %s when %s already exists", e.Type.LongName, describe(e), describe(first))}}
	}
	name := unique(e)
	first := n.names[name]
	if name == "" || first == nil {
		return nil
	}
	err := &AttrError{Type: e.Type, Attr: "name",
		Msg: fmt.Sprintf("adding %s duplicates unique attribute 'name' from existing %s", describe(e), describe(first))}
	if !e.Has("name") {
		err.Attr, err.Kind = "", "ValidationError"
	}
	return []error{err}
}

// describe names an entity in a text, with its place in a file.
func describe(e *Entity) string {
	text := e.Type.ShortName()
	if e.Has("name") {
		text += " '" + e.Str("name") + "'"
	} else if name := unique(e); name != "" {
		text = name
	}
	if e.Line > 0 {
		text += fmt.Sprintf(" of line %d", e.Line)
	}
	return text
}

// checkRole tells whether the router may have a listener or connector of that role
// (CFG B28).
func checkRole(router, e *Entity) []error {
	if e.Type.Name != "listener" && e.Type.Name != "connector" {
		return nil
	}
	mode, role := router.Str("mode"), e.Str("role")
	msg := ""
	switch {
	case mode == "standalone" && (role == "inter-router" || role == "edge"):
		msg = "role='standalone' not allowed to connect to or accept connections from other routers."
	case mode != "interior" && role == "inter-router":
		msg = "role='inter-router' only allowed with router mode='interior' for " + describe(e)
	case mode == "edge" && role == "edge" && e.Type.Name == "listener":
		msg = "role='edge' only allowed with router mode='interior' for " + describe(e)
	default:
		return nil
	}
	return []error{&AttrError{Type: e.Type, Attr: "role", Msg: msg}}
}
