package router

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSettleRate: settlements per second over the last five whole seconds, the running one not
// among them (RT 6.1).
func TestSettleRate(t *testing.T) {
	var s settleRate
	add := func(second uint32, n int) {
		for range n {
			s.add(second)
		}
	}
	want := func(second, rate uint32) {
		t.Helper()
		if got := s.perSecond(second); got != rate {
			t.Errorf("second %d: %d, want %d", second, got, rate)
		}
	}
	want(0, 0)
	add(0, 50)
	want(0, 0) // this second is not over
	want(1, 10)
	add(1, 4)
	add(3, 6)
	want(4, 12)
	want(5, 12)
	want(6, 2) // second 0 has left
	want(7, 1)
	want(9, 0)
	want(1000000, 0)
	add(1000000, 5)
	want(1000005, 1)
	want(1000006, 0)
	add(4294967295, 25)
	want(4294967295, 0)
}

// TestSettleRateAgainstBooks: the buckets agree with a list of all settlements.
func TestSettleRateAgainstBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s settleRate
		books := map[uint32]uint32{}
		now := rapid.Uint32Range(0, 3).Draw(t, "start")
		for range 20 {
			now += rapid.SampledFrom([]uint32{0, 0, 1, 1, 2, 5, 6, 7, 100}).Draw(t, "step")
			for range rapid.IntRange(0, 12).Draw(t, "n") {
				s.add(now)
				books[now]++
			}
			var sum uint32
			for i := uint32(1); i <= 5 && i <= now; i++ {
				sum += books[now-i]
			}
			if got := s.perSecond(now); got != sum/5 {
				t.Fatalf("second %d: %d, want %d of %v", now, got, sum/5, books)
			}
		}
	})
}

// TestQueue: a queue keeps its order through growth, wraps and removals.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []uint32
		next := uint32(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1, 2:
				q.push(item{at: next})
				model = append(model, next)
				next++
			case 3, 4:
				if len(model) > 0 {
					q.pop()
					model = model[1:]
				}
			case 5:
				if len(model) > 0 {
					i := rapid.IntRange(0, len(model)-1).Draw(t, "i")
					q.remove(i)
					model = slices.Delete(model, i, i+1)
				}
			}
			var got []uint32
			for i := range q.len() {
				got = append(got, q.at(i).at)
			}
			if !slices.Equal(got, model) {
				t.Fatalf("queue %v, want %v", got, model)
			}
		}
		for i := q.n; i < len(q.ring); i++ {
			if q.at(i).at != 0 {
				t.Fatal("the queue holds on to what has left")
			}
		}
	})
}

// TestLongQueueIsGivenBack: a ring that a rare load has made large goes when it is empty.
func TestLongQueueIsGivenBack(t *testing.T) {
	var q queue
	for range 5000 {
		q.push(item{})
	}
	for range 5000 {
		q.pop()
	}
	if len(q.ring) != 0 {
		t.Errorf("an empty queue keeps room for %d items", len(q.ring))
	}
	q.push(item{at: 1})
	if q.len() != 1 || q.at(0).at != 1 {
		t.Error("it cannot be used again")
	}
}

// TestDelayClasses: more than 1 and at most 10 s, more than 10 s (RT 6.1).
func TestDelayClasses(t *testing.T) {
	var k linkCounts
	for _, waited := range []uint32{0, 1, 2, 10, 11, 1000} {
		k.delay(waited)
	}
	if k.delayed1 != 2 || k.delayed10 != 2 {
		t.Errorf("%d and %d, want 2 and 2", k.delayed1, k.delayed10)
	}
}
