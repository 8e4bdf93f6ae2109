package router

import (
	"fmt"
	"strings"
	"testing"
)

// What happens again counts up and moves to the end; the rest drives out the
// oldest, and no text is longer than it may be.
func TestFailuresAreBounded(t *testing.T) {
	var r Router
	r.NoteFailure(Failure{What: LinkRefused, Reason: "r", Host: "::1:1", Link: "a"})
	r.NoteFailure(Failure{What: ConnectionRefused, Reason: "r", Host: "h:1"})
	r.NoteFailure(Failure{What: LinkRefused, Reason: "r", Host: "::1:2", Link: "b"})
	f := r.Failures()
	if f.LinksRefused != 2 || f.ConnectionsRefused != 1 || f.ConnectionsFailed != 0 {
		t.Errorf("counts %d %d %d, want 2 1 0", f.LinksRefused, f.ConnectionsRefused, f.ConnectionsFailed)
	}
	if len(f.Recent) != 2 || f.Recent[1].Count != 2 || f.Recent[1].Link != "b" || f.Recent[0].Count != 1 {
		t.Errorf("recent %+v", f.Recent)
	}
	for i := range 3 * maxFailures {
		r.NoteFailure(Failure{What: ConnectorFailed, Reason: fmt.Sprint(i, strings.Repeat("x", 1000))})
	}
	f = r.Failures()
	if len(f.Recent) != maxFailures || !strings.HasPrefix(f.Recent[0].Reason, fmt.Sprint(2*maxFailures)) {
		t.Errorf("%d failures, the oldest %.10s", len(f.Recent), f.Recent[0].Reason)
	}
	if n := len(f.Recent[0].Reason); n != maxFailureText {
		t.Errorf("a text of %d octets", n)
	}
}
