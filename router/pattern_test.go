package router

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPatternExample: the worked example of RT F12.
func TestPatternExample(t *testing.T) {
	var p Patterns[Distribution]
	for _, c := range []struct {
		pattern string
		dist    Distribution
	}{
		{"a.b.c.d", Closest}, {"#.b.c.d", Multicast}, {"a/*/#/d", Closest},
		{"*/b/c/d", Multicast}, {"a.x.d", Closest}, {"a.*.d", Multicast},
	} {
		if !p.Add(c.pattern, c.dist) {
			t.Fatalf("pattern %q conflicts", c.pattern)
		}
	}
	for address, want := range map[string]string{
		"a.b.c.d": "closest", "b.c.d": "multicast", "f.a.b.c.d": "multicast", "a.c.d": "multicast",
		"a/c/c/d": "closest", "a/x/z/z/d": "closest", "a/x/d": "closest", "a.x.e": "none", "m.b.c.d": "multicast",
	} {
		got := "none"
		if d, ok := p.Match(address); ok {
			got = d.String()
		}
		if got != want {
			t.Errorf("%q is %s, want %s", address, got, want)
		}
	}
}

// TestPatternPrecedence: which of several patterns wins, token by token from the left (RT F9,
// F10).
func TestPatternPrecedence(t *testing.T) {
	tests := []struct {
		patterns []string
		address  string
		want     string // "" = no match
	}{
		{[]string{"a.#", "*.b"}, "a.b", "a.#"},
		{[]string{"a/#"}, "a", "a/#"},
		{[]string{"a/#"}, "a/b/c", "a/#"},
		{[]string{"a/#"}, "ab", ""},
		{[]string{"a"}, "a/b", ""},
		{[]string{"#"}, "_local/x", "#"},
		{[]string{"#", "*"}, "a", "*"},
		{[]string{"#", "*"}, "a.b", "#"},
		{[]string{"a.*.c", "a.b.*"}, "a.b.c", "a.b.*"},
		{[]string{"a.*.c", "a.b.d"}, "a.b.c", "a.*.c"},
		{[]string{"a.b*"}, "a.bc", ""},
		{[]string{"a.b*"}, "a.b*", "a.b*"},
		{[]string{"a.#b"}, "a.x.b", ""},
		{[]string{"#.b"}, "b", "#.b"},
		{[]string{"#.b", "#.c"}, "x.y.c", "#.c"},
		{[]string{"a.#.b.#"}, "a.b", "a.#.b.#"},
		{[]string{"a.#.b.#"}, "a.x.b.b.y", "a.#.b.#"},
		{[]string{"a.#.b.#"}, "a.x", ""},
		{[]string{"*.#"}, "a", "*.#"},
		{[]string{"#.*"}, "a.b.c", "#.*"},
	}
	for _, tt := range tests {
		var p Patterns[string]
		for _, s := range tt.patterns {
			p.Add(s, s)
		}
		if got, ok := p.Match(tt.address); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q among %q = %q, %v, want %q", tt.address, tt.patterns, got, ok, tt.want)
		}
	}
}

// TestPatternNormal: wildcards have one order (RT F11).
func TestPatternNormal(t *testing.T) {
	for in, want := range map[string]string{
		"a.b": "a b", "#.*": "* #", "#.#": "#", "#.*.#.*": "* * #", "#.#.#": "#", "*.#": "* #",
		"a.#.*.b": "a * # b", "#.*.*": "* * #", "a/#/#/b": "a # b", "*.*": "* *", "": "", "a..b": "a b",
	} {
		if got := strings.Join(normalPattern(splitTokens(in)), " "); got != want {
			t.Errorf("normal form of %q = %q, want %q", in, got, want)
		}
	}
}

// TestPatternConflicts: two patterns with one normal form conflict; a removed one does not.
func TestPatternConflicts(t *testing.T) {
	var p Patterns[int]
	if !p.Add("a.#.*", 1) || p.Add("a/*/#", 2) || p.Add("a.*.#.#", 3) || !p.Add("a.*", 4) {
		t.Fatal("conflicts are wrong")
	}
	if v, _ := p.Match("a.b.c"); v != 1 {
		t.Errorf("a.b.c = %d", v)
	}
	p.Remove("nowhere")
	p.Remove("a.*.#")
	if _, ok := p.Match("a.b.c"); ok {
		t.Error("a removed pattern matches")
	}
	if v, _ := p.Match("a.b"); v != 4 {
		t.Errorf("a.b = %d", v)
	}
	if !p.Add("a.*.#", 5) {
		t.Error("a removed pattern conflicts")
	}
}

// slowRank tells how well a pattern covers an address, nil when it does not: for each token of
// the pattern 0 for an exact one, 1 for '*', 2 and what it swallows for '#', then -1 for the end.
// The smaller rank, by its first difference, is the better match.
func slowRank(pattern, address []string) []int {
	switch {
	case len(pattern) == 0 && len(address) == 0:
		return []int{-1}
	case len(pattern) == 0:
		return nil
	case pattern[0] == "#":
		for n := range len(address) + 1 {
			if rest := slowRank(pattern[1:], address[n:]); rest != nil {
				return append([]int{2 + n}, rest...)
			}
		}
		return nil
	case len(address) == 0 || pattern[0] != "*" && pattern[0] != address[0]:
		return nil
	}
	rest := slowRank(pattern[1:], address[1:])
	if rest == nil {
		return nil
	}
	if pattern[0] == "*" {
		return append([]int{1}, rest...)
	}
	return append([]int{0}, rest...)
}

// slowBest is the best of all patterns for an address.
func slowBest(list [][]string, address []string) (best []string) {
	var least []int
	for _, p := range list {
		if rank := slowRank(p, address); rank != nil && (least == nil || slices.Compare(rank, least) < 0) {
			best, least = p, rank
		}
	}
	return best
}

// TestPatternsAgainstAll: the tree finds what trying every pattern finds, whatever was added and
// removed before (RT F9 to F11).
func TestPatternsAgainstAll(t *testing.T) {
	token := rapid.SampledFrom([]string{"a", "b", "*", "#"})
	plain := rapid.SampledFrom([]string{"a", "b", "c"})
	separator := rapid.SampledFrom([]string{".", "/"})
	rapid.Check(t, func(t *rapid.T) {
		var p Patterns[string]
		have := map[string][]string{}
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			tokens := rapid.SliceOfN(token, 1, 4).Draw(t, "pattern")
			text := strings.Join(tokens, separator.Draw(t, "separator"))
			normal := normalPattern(tokens)
			key := strings.Join(normal, " ")
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				p.Remove(text)
				delete(have, key)
				continue
			}
			if fresh := p.Add(text, key); fresh != (have[key] == nil) {
				t.Fatalf("add %q: %v, have %v", text, fresh, have)
			}
			have[key] = normal
		}
		var list [][]string
		for _, x := range have {
			list = append(list, x)
		}
		address := rapid.SliceOfN(plain, 0, 5).Draw(t, "address")
		want := slowBest(list, address)
		got, ok := p.Match(strings.Join(address, "."))
		if ok != (want != nil) || got != strings.Join(want, " ") {
			t.Fatalf("%q = %q, %v, want %q among %v", address, got, ok, want, list)
		}
	})
}

// TestNormalPatternMeansTheSame: putting a pattern into its normal form changes nothing of what
// it covers.
func TestNormalPatternMeansTheSame(t *testing.T) {
	token := rapid.SampledFrom([]string{"a", "b", "*", "#"})
	plain := rapid.SampledFrom([]string{"a", "b"})
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(token, 0, 6).Draw(t, "pattern")
		before := slices.Clone(p)
		n := normalPattern(p)
		if !slices.Equal(p, before) {
			t.Fatalf("%q was changed to %q", before, p)
		}
		if m := normalPattern(n); !slices.Equal(m, n) {
			t.Fatalf("the normal form %q has another %q", n, m)
		}
		address := rapid.SliceOfN(plain, 0, 6).Draw(t, "address")
		if (slowRank(p, address) == nil) != (slowRank(n, address) == nil) {
			t.Fatalf("%q and its normal form %q differ on %q", p, n, address)
		}
	})
}

// TestManyHashes: an address of many tokens that no pattern covers is turned down at once.
func TestManyHashes(t *testing.T) {
	var p Patterns[int]
	p.Add("a/#/b/#/c/#/d/#/e/#/f", 1)
	p.Add("#/b/#/d/#/f/#", 2)
	p.Add("*/#/*/c/#/*/e/#/g", 3)
	address := strings.Repeat("a/b/c/d/e/", 1000)
	if _, ok := p.Match(address + "x"); ok {
		t.Error("matches")
	}
	if v, _ := p.Match(address + "f"); v != 1 {
		t.Errorf("matches %d, want 1", v)
	}
	if v, _ := p.Match("x/" + address + "f/x"); v != 2 {
		t.Errorf("matches %d, want 2", v)
	}
}
