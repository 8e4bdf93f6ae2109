package amqp

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkUnsettled compares u with a map of what must be in it.
func checkUnsettled(t interface{ Fatalf(string, ...any) }, u *Unsettled[int], model map[Serial]int) {
	if u.Len() != len(model) {
		t.Fatalf("Len = %d, want %d", u.Len(), len(model))
	}
	got := make(map[Serial]int)
	u.All(func(id Serial, v int) bool {
		if _, twice := got[id]; twice {
			t.Fatalf("All saw %d twice", id)
		}
		got[id] = v
		return true
	})
	if !maps.Equal(got, model) {
		t.Fatalf("All saw %v, want %v", got, model)
	}
	for id, v := range model {
		if u.Get(id) != v {
			t.Fatalf("Get(%d) = %d, want %d", id, u.Get(id), v)
		}
	}
}

// rangeOf returns the ids of u in first..last, as the router goes through them.
func rangeOf(u *Unsettled[int], first, last Serial) []Serial {
	var ids []Serial
	if from, to, ok := u.Clip(first, last); ok {
		for id := from; ; id++ {
			if u.Get(id) != 0 {
				ids = append(ids, id)
			}
			if id == to {
				break
			}
		}
	}
	if u.HasLate() {
		ids = u.Late(first, last, ids)
	}
	return ids
}

// TestUnsettledIsAMap: whatever is put, taken and looked for, with stragglers, gaps and the wrap,
// Unsettled is a map that finds ranges.
func TestUnsettledIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var u Unsettled[int]
		model := make(map[Serial]int)
		start := Serial(rapid.Uint32Range(4294967295-30000, 4294967295).Draw(t, "start"))
		next, value := start, 0
		any := func() Serial { // an id that is or was in use, mostly
			if len(model) > 0 && rapid.Bool().Draw(t, "live") {
				ids := slices.SortedFunc(maps.Keys(model), func(a, b Serial) int { return int(a.Diff(b)) })
				return rapid.SampledFrom(ids).Draw(t, "id")
			}
			return start - 5 + Serial(rapid.Uint32Range(0, uint32(next-start)+10).Draw(t, "id"))
		}
		take := func(id Serial) {
			if got := u.Take(id); got != model[id] {
				t.Fatalf("Take(%d) = %d, want %d", id, got, model[id])
			}
			delete(model, id)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 3, 20, 500}).Draw(t, "n") {
					value++
					u.Put(next, value)
					model[next] = value
					next++
				}
			},
			"skip": func(t *rapid.T) {
				next += Serial(rapid.SampledFrom([]uint32{1, 15, 16, 100, 8190, 8191, 8192, 8193, 20000}).Draw(t, "n"))
			},
			"take": func(t *rapid.T) { take(any()) },
			"take all but some": func(t *rapid.T) {
				keep := Serial(rapid.Uint32Range(1, 50).Draw(t, "keep"))
				for id := range maps.Clone(model) {
					if id%keep != 0 {
						take(id)
					}
				}
			},
			"get": func(t *rapid.T) {
				if id := any(); u.Get(id) != model[id] {
					t.Fatalf("Get(%d) = %d, want %d", id, u.Get(id), model[id])
				}
			},
			"range": func(t *rapid.T) {
				first, last := any(), any()
				if rapid.Bool().Draw(t, "wide") {
					first, last = any()-1000000000, any()+1000000000
				}
				got := rangeOf(&u, first, last)
				slices.Sort(got)
				var want []Serial
				for id := range model {
					if !id.Before(first) && !last.Before(id) {
						want = append(want, id)
					}
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("%d..%d: %v, want %v", first, last, got, want)
				}
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					u.Reset()
					clear(model)
				}
			},
			"": func(t *rapid.T) { checkUnsettled(t, &u, model) },
		})
		if len(u.ring) > unsettledMax {
			t.Fatalf("the ring grew to %d", len(u.ring))
		}
	})
}

// TestStragglers: one delivery that stays does not make the ring grow for those that pass it, and
// is found all the same, by itself and in ranges (FC U07 part two).
func TestStragglers(t *testing.T) {
	var u Unsettled[int]
	model := map[Serial]int{}
	first := Serial(4294967295 - 10000)
	for i := range Serial(50000) {
		id := first + i
		u.Put(id, int(i)+1)
		model[id] = int(i) + 1
		if id%9000 != 0 {
			u.Take(id)
			delete(model, id)
		}
	}
	checkUnsettled(t, &u, model)
	if len(u.ring) > unsettledMax || !u.HasLate() {
		t.Errorf("a ring of %d, stragglers apart: %t", len(u.ring), u.HasLate())
	}
	if got := rangeOf(&u, first, first+60000); len(got) != len(model) {
		t.Errorf("the whole range has %v, want %v", got, model)
	}
	u.All(func(Serial, int) bool { return false })
	for id, v := range model {
		if got := u.Take(id); got != v || u.Take(id) != 0 || u.Get(id) != 0 {
			t.Errorf("Take(%d) = %d, want %d once", id, got, v)
		}
	}
	if u.Len() != 0 || u.HasLate() {
		t.Errorf("%d are left", u.Len())
	}
}

// TestRingFollows: deliveries settled in order need a ring of those that are unsettled, not of
// all there have been.
func TestRingFollows(t *testing.T) {
	var u Unsettled[int]
	for id := range Serial(20000) {
		u.Put(id, 1)
		u.Take(id - 250)
	}
	if len(u.ring) != 256 {
		t.Errorf("250 deliveries are in a ring of %d", len(u.ring))
	}
}

// TestClipBoundsWork: a disposition over half of all numbers costs what is there (CFG R38).
func TestClipBoundsWork(t *testing.T) {
	var u Unsettled[int]
	for id := range Serial(3) {
		u.Put(id+100, 1)
	}
	for _, tt := range []struct {
		first, last, from, to Serial
		ok                    bool
	}{
		{0, 2147483647, 100, 102, true},
		{4294967295, 2147483646, 100, 102, true},
		{101, 101, 101, 101, true},
		{102, 500, 102, 102, true},
		{103, 500, 0, 0, false},
		{0, 99, 0, 0, false},
		{101, 100, 0, 0, false},
	} {
		from, to, ok := u.Clip(tt.first, tt.last)
		if ok != tt.ok || ok && (from != tt.from || to != tt.to) {
			t.Errorf("Clip(%d, %d) = %d, %d, %t", tt.first, tt.last, from, to, ok)
		}
	}
	u.Put(2147483655, 1)
	u.Put(2147483655+unsettledMax, 1)
	if got := u.Late(10, 5, nil); len(got) != 0 {
		t.Errorf("10..5, which is no range, has %v", got)
	}
	u.Reset()
	if _, _, ok := u.Clip(0, 1000); ok || u.Len() != 0 {
		t.Error("something is left after Reset")
	}
}

// TestUnsettledDoesNotAllocate in the steady state.
func TestUnsettledDoesNotAllocate(t *testing.T) {
	var u Unsettled[int]
	id := Serial(4294967000)
	turn := func() {
		u.Put(id, 1)
		u.Put(id+1, 1)
		u.Take(id + 1)
		u.Take(id)
		id += 2
	}
	turn()
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkUnsettled(b *testing.B) {
	var u Unsettled[int]
	b.ReportAllocs()
	var id Serial
	for range 250 {
		u.Put(id, 1)
		id++
	}
	for b.Loop() {
		u.Put(id, 1)
		u.Take(id - 250)
		id++
	}
}
