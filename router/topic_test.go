package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTopics: which binding keys a subject matches (RT X1).
func TestTopics(t *testing.T) {
	tests := []struct {
		method        MatchMethod
		keys, subject string
		want          string
	}{
		{MatchAMQP, "a.b a.* *.b # a b.#", "a.b", "a.b a.* *.b #"},
		{MatchAMQP, "a.# a.b.# a", "a", "a.# a"},
		{MatchAMQP, "#.c a.#.c a.#.b.c *.#.c a.*.c", "a.b.c", "#.c a.#.c a.#.b.c *.#.c a.*.c"},
		{MatchAMQP, "#.c a.#.c a.*.c", "a.c", "#.c a.#.c"},
		{MatchAMQP, "#.# #.* *.# # *", "a", "#.# #.* *.# # *"},
		{MatchAMQP, "# #.* *", "", "#"},
		{MatchAMQP, "a/b + a", "a/b", "a/b"},
		{MatchAMQP, "a* #b a", "ab", ""},
		{MatchAMQP, "a.b ..a.b. a..b", "a.b", "a.b ..a.b."},
		{MatchAMQP, "a.b a..b a.*.b", "..a..b.", "a..b a.*.b"},
		{MatchAMQP, "A.b", "a.b", ""},
		{MatchMQTT, "a/b a/+ +/b # a a/b/# a.b", "a/b", "a/b a/+ +/b # a/b/#"},
		{MatchMQTT, "a/# +", "a", "a/# +"},
		{MatchMQTT, "+/+ a/*", "a/*", "+/+ a/*"},
		{MatchMQTT, "#", "", "#"},
		{MatchMQTT, "c/# c/b", "c/b/dee/eee", "c/#"},
	}
	for _, tt := range tests {
		topics := newTopics(tt.method)
		keys := strings.Fields(tt.keys)
		for i, key := range keys {
			if !tt.method.valid(key) {
				t.Errorf("%v key %q is refused", tt.method, key)
			}
			topics.add(key, int32(i))
		}
		var got []string
		found := topics.match([]byte(tt.subject), nil)
		slices.Sort(found)
		for _, i := range found {
			got = append(got, keys[i])
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%v %q matches %q, want %q", tt.method, tt.subject, s, tt.want)
		}
	}
	if found := newTopics(MatchAMQP).match([]byte("a"), []int32{7}); !slices.Equal(found, []int32{7}) {
		t.Errorf("without keys: %v", found)
	}
}

// TestBindingKeys: what can be a binding key (RT X1).
func TestBindingKeys(t *testing.T) {
	for key, valid := range map[string][2]bool{
		"#": {true, true}, "a": {true, true}, "a.b/c": {true, true}, "": {false, false},
		"...": {false, true}, "//": {true, false}, "#.a": {true, true}, "#/a": {true, false},
		"a/#": {true, true}, "a/#/": {true, true}, "a/#/+": {true, false}, "#/#": {true, false}, "a#/b": {true, true},
	} {
		for method, want := range valid {
			if got := MatchMethod(method).valid(key); got != want {
				t.Errorf("%v key %q: %v, want %v", MatchMethod(method), key, got, want)
			}
		}
	}
}

// slowMatch matches a key token by token.
func slowMatch(key, subject []string, one string) bool {
	switch {
	case len(key) == 0:
		return len(subject) == 0
	case key[0] == "#":
		for n := range len(subject) + 1 {
			if slowMatch(key[1:], subject[n:], one) {
				return true
			}
		}
		return false
	case len(subject) == 0 || key[0] != one && key[0] != subject[0]:
		return false
	}
	return slowMatch(key[1:], subject[1:], one)
}

// TestTopicsAgainstAll: a search finds what trying every key finds, each once (RT X1, X7).
func TestTopicsAgainstAll(t *testing.T) {
	plain := rapid.SampledFrom([]string{"a", "b", "c", "*", "+"})
	rapid.Check(t, func(t *rapid.T) {
		method := MatchMethod(rapid.IntRange(0, 1).Draw(t, "method"))
		one, separator := matchMethods[method].one, string(matchMethods[method].separator)
		token := rapid.SampledFrom([]string{"a", "b", one, "#"})
		topics := newTopics(method)
		keys := rapid.SliceOfN(rapid.SliceOfN(token, 1, 6), 0, 12).Draw(t, "keys")
		subject := rapid.SliceOfN(plain, 0, 7).Draw(t, "subject")
		var want []int32
		for i, key := range keys {
			topics.add(strings.Join(key, separator), int32(i))
			if slowMatch(key, subject, one) {
				want = append(want, int32(i))
			}
		}
		for range 2 { // the memory of a search is used again
			got := topics.match([]byte(strings.Join(subject, separator)), nil)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%q matches %v of %q, want %v", subject, got, keys, want)
			}
		}
	})
}

// TestHostileTopics: keys and subjects made to take long do not: the work is the tokens times the
// nodes, however many ways through there are.
func TestHostileTopics(t *testing.T) {
	topics := newTopics(MatchAMQP)
	for i := range 20 {
		topics.add(strings.Repeat("#.a.", i)+"#.b", int32(i))
		topics.add(strings.Repeat("#.*.", i)+"c", int32(100+i))
	}
	subject := strings.Repeat("a.", 10000)
	if found := topics.match([]byte(subject+"x"), nil); len(found) != 0 {
		t.Errorf("%v match what none does", found)
	}
	if found := topics.match([]byte(subject+"b"), nil); len(found) != 20 {
		t.Errorf("%d match, want 20", len(found))
	}
	if found := topics.match([]byte(subject+"c"), nil); len(found) != 19 {
		t.Errorf("%d match, want 19", len(found))
	}
}

// TestTopicSearchMemory: the marks of a search hold when their number starts over, and when a
// larger tree comes after a smaller one.
func TestTopicSearchMemory(t *testing.T) {
	s := &topicSearch{seen: []uint32{0, 1, 1<<32 - 1}, step: 1<<32 - 2}
	s.begin()
	if s.begin(); s.step != 1 || !slices.Equal(s.seen, []uint32{0, 0, 0}) {
		t.Errorf("step %d, seen %v", s.step, s.seen)
	}
	for n := 1; n < 200; n += 50 {
		topics := newTopics(MatchMQTT)
		for i := range n {
			topics.add(fmt.Sprintf("a/%d", i), int32(i))
		}
		last := fmt.Appendf(nil, "a/%d", n-1)
		if found := topics.match(last, nil); !slices.Equal(found, []int32{int32(n - 1)}) {
			t.Errorf("%d keys: found %v", n, found)
		}
	}
}

func BenchmarkTopics(b *testing.B) {
	topics := newTopics(MatchAMQP)
	for i := range 1000 {
		topics.add(fmt.Sprintf("a.%d.*.#", i), int32(i))
	}
	subject := []byte("a.500.b.c.d")
	found := make([]int32, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		if found = topics.match(subject, found[:0]); len(found) != 1 {
			b.Fatal(found)
		}
	}
}
