package router

import (
	"errors"
	"testing"
)

// TestAddressConfigRefusals: what an address configuration is refused with (RT F8 to F13, F15,
// F42).
func TestAddressConfigRefusals(t *testing.T) {
	g := newRig(t, nil, AddressConfig{Name: "one", Prefix: "a/b", Priority: -1}, AddressConfig{Pattern: "x.#.*", Priority: -1})
	tests := []struct {
		name string
		cfg  AddressConfig
		want error
	}{
		{"neither", AddressConfig{Priority: -1}, ErrPrefixEither},
		{"both", AddressConfig{Prefix: "p", Pattern: "p", Priority: -1}, ErrPrefixBoth},
		{"no tokens in prefix", AddressConfig{Prefix: "./", Priority: -1}, ErrPrefixTokens},
		{"no tokens in pattern", AddressConfig{Pattern: "/", Priority: -1}, ErrPatTokens},
		{"phase above 9", AddressConfig{Prefix: "p", IngressPhase: 10, Priority: -1}, ErrPhases},
		{"one phase alone", AddressConfig{Prefix: "p", IngressPhase: -1, EgressPhase: 1, Priority: -1}, ErrPhases},
		{"egress phase", AddressConfig{Prefix: "p", EgressPhase: -1, Priority: -1}, ErrPhases},
		{"priority", AddressConfig{Prefix: "p", Priority: 10}, ErrPriority},
		{"negative priority", AddressConfig{Prefix: "p", Priority: -2}, ErrPriority},
		{"fallback of a waypoint", AddressConfig{Prefix: "p", EgressPhase: 1, Fallback: true, Priority: -1}, ErrFallback},
		{"fallback with phase", AddressConfig{Prefix: "p", IngressPhase: 2, EgressPhase: 2, Fallback: true, Priority: -1}, ErrFallback},
		{"name again", AddressConfig{Name: "one", Prefix: "p", Priority: -1}, ErrNameConflict},
		{"prefix again", AddressConfig{Prefix: "/a.b/", Priority: -1}, ErrDuplicate},
		{"prefix as pattern", AddressConfig{Pattern: "a.b.#", Priority: -1}, ErrDuplicate},
		{"same normal form", AddressConfig{Pattern: "x.*.#", Priority: -1}, ErrDuplicate},
	}
	before := len(g.r.AddressConfigs())
	for _, tt := range tests {
		if _, err := g.r.AddAddressConfig(tt.cfg); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if n := len(g.r.AddressConfigs()); n != before {
		t.Errorf("%d configurations, had %d", n, before)
	}
	for err, text := range map[error]string{
		ErrPrefixTokens: "Prefix invalid - no tokens",
		ErrPatTokens:    "Pattern invalid - no tokens",
		ErrDuplicate:    "Already exists",
		ErrNameConflict: "Name conflicts with an existing entity",
		ErrPrefixEither: "Either a 'prefix' or 'pattern' attribute must be provided",
		ErrPrefixBoth:   "Cannot specify both a 'prefix' and a 'pattern' attribute",
		ErrPhases:       "Phase values must be between 0 and 9",
		ErrFallback:     "Fallback cannot be specified with waypoint or non-zero ingress and egress phases",
		ErrPriority:     "Priority value, if present, must be between 0 and QDR_MAX_PRIORITY",
	} {
		if err.Error() != text {
			t.Errorf("text %q, want %q", err, text)
		}
	}
}

// TestAddressConfigs: entries are listed in the order they came, found by identity, and free to
// be made again when they are gone.
func TestAddressConfigs(t *testing.T) {
	g := newRig(t, nil)
	add := func(c AddressConfig) AddressConfig {
		t.Helper()
		c.Priority = -1
		got, err := g.r.AddAddressConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	one := add(AddressConfig{Name: "one", Prefix: "/multi/", Distribution: Multicast})
	two := add(AddressConfig{Name: "two", Pattern: "*/close.", Distribution: Closest})
	if one.ID == 0 || two.ID == one.ID || one.Prefix != "multi" || two.Pattern != "*/close" {
		t.Errorf("made %+v and %+v", one, two)
	}
	if list := g.r.AddressConfigs(); len(list) != 2 || list[0] != one || list[1] != two {
		t.Errorf("listed %+v", list)
	}
	for text, want := range map[string]string{"multi": "one", "multi/x.y": "one", "x.close": "two", "x": ""} {
		got := ""
		if c := g.r.configFor(text); c != nil {
			got = c.Name
		}
		if got != want {
			t.Errorf("%q is covered by %q, want %q", text, got, want)
		}
	}
	if err := g.r.DeleteAddressConfig(one.ID); err != nil {
		t.Error(err)
	}
	if err := g.r.DeleteAddressConfig(one.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if c := g.r.configFor("multi"); c != nil {
		t.Errorf("a deleted entry covers: %+v", c)
	}
	if again := add(AddressConfig{Name: "one", Prefix: "multi"}); again.ID == one.ID {
		t.Error("an identity was used twice")
	}
}

// TestWaypointPhases: what the waypoint capabilities stand for (RT E37).
func TestWaypointPhases(t *testing.T) {
	tests := []struct {
		capability       string
		sender, receiver int // -1 = no such capability
	}{
		{"qd.waypoint", 1, 0}, {"qd.waypoint.1", 1, 0}, {"qd.waypoint.2", 2, 1}, {"qd.waypoint.9", 9, 8},
		{"qd.waypoint.0", -1, -1}, {"qd.waypoint.10", -1, -1}, {"qd.waypoint.", -1, -1}, {"qd.waypointx1", -1, -1}, {"queue", -1, -1},
	}
	for _, tt := range tests {
		for receiver, want := range map[bool]int{false: tt.sender, true: tt.receiver} {
			got := -1
			if p, ok := waypointPhase(symbols("other", tt.capability), receiver); ok {
				got = int(p)
			}
			if got != want {
				t.Errorf("%s, receiver %v: phase %d, want %d", tt.capability, receiver, got, want)
			}
		}
	}
}
