package linkroute

import (
	"slices"
	"testing"

	"qdrouter/router"
)

// RT E41: the key of a pattern, which is a prefix when "#" at its end is all there is of wildcards.
func TestKeyOf(t *testing.T) {
	for _, tt := range []struct {
		pattern, in, out string
		back             string // the pattern that other routers make of the key, "" = the same
	}{
		{"a.b/#", "Ca.b", "Da.b", ""},
		{"a.b.#", "Ca.b", "Da.b", "a.b/#"},
		{"a/*/b/#", "Ea/*/b/#", "Fa/*/b/#", ""},
		{"#", "E#", "F#", ""},
		{"a", "Ea", "Fa", ""},
		{"a#", "Ea#", "Fa#", ""},
		{"#/b/#", "E#/b/#", "F#/b/#", ""},
	} {
		if got := keyOf(in, tt.pattern); got != tt.in {
			t.Errorf("key of %q, in: %q, want %q", tt.pattern, got, tt.in)
		}
		if got := keyOf(out, tt.pattern); got != tt.out {
			t.Errorf("key of %q, out: %q, want %q", tt.pattern, got, tt.out)
		}
		want := tt.back
		if want == "" {
			want = tt.pattern
		}
		for d, key := range map[direction]string{in: tt.in, out: tt.out} {
			if gotD, got, ok := patternOf(key); !ok || got != want || gotD != d {
				t.Errorf("pattern of %q: %v %q %v, want %v %q", key, gotD, got, ok, d, want)
			}
		}
	}
	for _, key := range []string{"", "C", "M0a", "Ra", "Hx"} {
		if _, _, ok := patternOf(key); ok {
			t.Errorf("%q is taken for a link route", key)
		}
	}
}

// RT L14: delExternalPrefix goes first, then addExternalPrefix comes; replies the other way.
func TestExternalPrefix(t *testing.T) {
	for _, tt := range []struct{ add, del, client, container string }{
		{"bar.", "", "foo.x", "bar.foo.x"},
		{"", "qdr-a.", "qdr-a.x", "x"},
		{"b/", "a/", "a/x", "b/x"},
		{"", "qdr-a.", "qdr-a.", "qdr-a."}, // nothing would be left of it
		{"", "qdr-a.", "other", "other"},
		{"", "", "x", "x"},
	} {
		s := &space{add: tt.add, del: tt.del}
		if got := s.outward(tt.client); got != tt.container {
			t.Errorf("%+v: the container is asked for %q", tt, got)
		}
		if got := s.inward(tt.container, tt.client); got != tt.client {
			t.Errorf("%+v: the client is told %q", tt, got)
		}
	}
}

// RT L16 to L18: connections here first, each in its turn, then routers in the order of their
// indexes, whatever the cost; from the start when costs have changed.
func TestChoose(t *testing.T) {
	a, b := new(router.Conn), new(router.Conn)
	s := &space{}
	everywhere := func(string) bool { return true }
	if c, id := s.choose(everywhere); c != nil || id != "" {
		t.Fatalf("a choice of nothing: %v %q", c, id)
	}
	s.learned("C", 3, true)
	s.learned("A", 1, true)
	s.learned("B", 2, true)
	s.learned("B", 2, true)
	want := func(reachable func(string) bool, want ...string) {
		t.Helper()
		var got []string
		for range want {
			_, id := s.choose(reachable)
			got = append(got, id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("chose %q, want %q", got, want)
		}
	}
	want(everywhere, "A", "B", "C", "A")
	s.last = 0 // costs have changed
	want(everywhere, "A", "B")
	want(func(id string) bool { return id != "C" }, "A", "B", "A")
	want(func(string) bool { return false }, "", "")
	s.learned("B", 2, false)
	want(everywhere, "C", "A", "C")
	s.serve(a)
	s.serve(b)
	s.serve(b)
	for i, c := range []*router.Conn{a, b, a, b} {
		if got, id := s.choose(everywhere); got != c || id != "" {
			t.Errorf("choice %d: %p %q", i, got, id)
		}
	}
	s.unserve(b) // one of two reasons
	if len(s.conns) != 2 {
		t.Errorf("%d connections", len(s.conns))
	}
	s.unserve(b)
	s.unserve(a)
	s.unserve(a)
	want(everywhere, "A")
}
