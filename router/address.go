package router

import (
	"strings"
)

// Address classes, the first letter of an address key (RT E41).
const (
	classMobile = 'M'
	classLocal  = 'L'
	classRouter = 'R'
	classTopo   = 'T'
	classArea   = 'A'
	classEdge   = 'H'

	// Of link routes: a prefix or a pattern, for links of senders or of receivers.
	classRouteIn    = 'C'
	classRouteOut   = 'D'
	classPatternIn  = 'E'
	classPatternOut = 'F'
)

// PlainAddress takes the decoration off an address: scheme, host, one leading slash and one
// trailing dot or slash (RT E40).
func PlainAddress(s string) string {
	if i := strings.IndexByte(s, ':'); i > 0 && i+1 < len(s) && s[i+1] == '/' && strings.IndexByte(s[:i], '/') < 0 {
		if strings.HasPrefix(s[i+1:], "//") {
			rest := s[i+3:]
			if j := strings.IndexByte(rest, '/'); j >= 0 {
				s = rest[j+1:]
			} else {
				s = ""
			}
		} else {
			s = s[i+2:]
		}
	}
	s = strings.TrimPrefix(s, "/")
	if n := len(s); n > 0 && (s[n-1] == '.' || s[n-1] == '/') {
		s = s[:n-1]
	}
	return s
}

// An addressKey names one entry of the address table as management shows it: class letter, for
// mobile addresses a phase digit, then the address (RT E41).
type addressKey string

func (k addressKey) class() byte { return k[0] }

// text is the address as patterns see it.
func (k addressKey) text() string {
	if k[0] == classMobile {
		return string(k[2:])
	}
	return string(k[1:])
}

// classKey is the key of an address of any class but mobile.
func classKey(class byte, text string) addressKey {
	return addressKey([]byte{class}) + addressKey(text)
}

func mobileKey(phase byte, text string) addressKey {
	return addressKey([]byte{classMobile, phase}) + addressKey(text)
}

// keyOf returns the key of an address as written by a client. ok is false when it names nothing.
func (r *Router) keyOf(written string, phase byte) (key addressKey, ok bool) {
	a := PlainAddress(written)
	if a == "" {
		return "", false
	}
	if a[0] != '_' {
		return mobileKey(phase, a), true
	}
	if rest, found := strings.CutPrefix(a, "_local/"); found {
		return classKey(classLocal, rest), rest != ""
	}
	if rest, found := strings.CutPrefix(a, "_topo/"); found {
		area, rest, _ := strings.Cut(rest, "/")
		node, rest, _ := strings.Cut(rest, "/")
		switch {
		case area != r.opts.Area && area != "all":
			if r.opts.Mode == Edge {
				return "L_edge", true
			}
			return classKey(classArea, area), true
		case node == r.opts.ID:
			return classKey(classLocal, rest), rest != ""
		case r.opts.Mode == Edge:
			return "L_edge", true
		case node == "all":
			return classKey(classTopo, rest), rest != ""
		}
		return classKey(classRouter, node), node != ""
	}
	if rest, found := strings.CutPrefix(a, "_edge/"); found {
		node, rest, _ := strings.Cut(rest, "/")
		switch {
		case node == r.opts.ID:
			return classKey(classLocal, rest), rest != ""
		case r.opts.Mode == Edge:
			return "L_edge", true
		}
		return classKey(classEdge, node), node != ""
	}
	return mobileKey(phase, a), true
}
