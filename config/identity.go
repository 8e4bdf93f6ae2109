package config

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRouterID is the greatest length of a router's id in characters (CFG B29).
const maxRouterID = 127

// checkRouterID refuses an id that is too long or holds white space, control or
// unassigned characters (CFG B29, CFG 3.1).
func checkRouterID(e *Entity) []error {
	id := e.Str("id")
	if n := utf8.RuneCountInString(id); n > maxRouterID {
		return []error{&AttrError{Type: e.Type, Attr: "id",
			Msg: fmt.Sprintf("Router ID \"%s\" exceeds the maximum allowed length (%d characters)", id, maxRouterID)}}
	}
	for _, r := range id {
		if !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) {
			return []error{&AttrError{Type: e.Type, Attr: "id", Kind: "AttributeError",
				Msg: fmt.Sprintf("Router id attribute containing character '%c' in id '%s' is disallowed.", r, id)}}
		}
	}
	return nil
}

// randomRouterID makes an id for a router without one: its mode and 15 random
// characters (CFG 3.1).
func randomRouterID(mode string) string {
	return strings.ToUpper(mode[:1]) + mode[1:] + "_" + rand.Text()[:15]
}

// Identity returns the identity of an entity and the name it goes by (MG 5): its own
// or, when it has none, the one that is made for it; "" where the rule says null.
// Counter yields the next number of the types that are numbered; it is not called
// for others.
func Identity(e *Entity, counter func() int64) (identity, name string) {
	short := e.Type.ShortName()
	name = e.Str("name")
	switch e.Type.Name {
	case "management":
		return "self", "self"
	case "policy":
		return "policy/None", "policy/None" // as 1.19 has it
	case "router":
		identity = short + "/" + e.Str("id")
	case "listener", "connector":
		identity = short + "/" + e.Str("host") + ":" + e.Str("port")
		if name != "" {
			identity += ":" + name
		}
	case "sslProfile", "authServicePlugin":
		identity = short + "/" + name
	case "log":
		identity = short + "/" + e.Str("module")
	case "vhost", "vhostStats":
		identity = short + "/" + e.Str("hostname")
	case "dummy", "console":
		identity = short + "/" + strconv.FormatInt(counter(), 10)
	default: // held by the core
		identity = strconv.FormatInt(counter(), 10)
		if name == "" && e.File != "" {
			name = short + "/" + identity
		}
		return identity, name
	}
	if name == "" {
		name = identity
	}
	return identity, name
}
