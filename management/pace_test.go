package management

import (
	"testing"
	"time"
)

// Work on long tables takes a small share of a router that is busy, and is not
// held up in one that has nothing else to do.
func TestPace(t *testing.T) {
	const pages, work = 200, time.Millisecond
	start := time.Unix(1000, 0)
	for _, tt := range []struct {
		name        string
		other       float64 // processors used besides
		least, most time.Duration
	}{
		{"idle", 0, pages * work, pages * work},
		{"busy", 1, (pages - 20) * restFor * work, pages * (restFor + 1) * work},
		{"half busy", busyShare / 2, (pages - 20) * restFor * work / 2, pages * (restFor/2 + 1) * work},
	} {
		now := start
		var worked time.Duration
		p := pace{processor: func() time.Duration {
			return workCounts*worked + time.Duration(tt.other*float64(now.Sub(start)))
		}}
		for range pages {
			now = now.Add(p.wait(now))
			from := now
			now = now.Add(work)
			worked += work
			p.worked(from, now)
		}
		if took := now.Sub(start); took < tt.least || took > tt.most {
			t.Errorf("%s: %d pages of %v took %v, want %v to %v", tt.name, pages, work, took, tt.least, tt.most)
		}
	}
}

// However much work there is, a page waits for a bounded time, and few pages wait
// for none.
func TestPaceBounds(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pace
	p.worked(now, now.Add(restless/restFor))
	if wait := p.wait(now.Add(restless / restFor)); wait > 0 {
		t.Errorf("the first page waits %v", wait)
	}
	for range 100 {
		p.worked(now, now.Add(time.Second))
		now = now.Add(time.Second)
		if wait := p.wait(now); wait != longestRest {
			t.Errorf("after a second of work the next page waits %v, want %v", wait, longestRest)
		}
	}
	if wait := p.wait(now.Add(restless + longestRest)); wait > 0 {
		t.Errorf("after the rest a page waits %v", wait)
	}
}
