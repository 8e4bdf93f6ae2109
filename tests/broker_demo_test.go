package tests

import (
	"strings"
	"testing"

	"qdrouter/tests/internal/rig"
)

// The example of temporal decoupling does what its README says, and qdstat tells
// of it what the guide of Qpid Dispatch Router shows: ten messages out to the
// queue at phase 0, and ten in from it at phase 1 which go on to another router;
// the autolinks' links have ten deliveries each (MG 13.7, 13.9).
func TestTemporalDecouplingExample(t *testing.T) {
	rig.NeedRabbit(t)
	t.Parallel()
	out := demo(t, "temporal-decoupling")
	passed(t, out, 2)
	const (
		unused   = `mobile my_queue 1 balanced - 0 0 0 0 0 0`
		stored   = `mobile my_queue 0 balanced - 1 0 0 10 0 0`
		consumed = `mobile my_queue 1 balanced - 0 0 10 0 10 0`
		linkIn   = `endpoint in \d+ \d+ mobile my_queue 1 250 4 0 0 10 0 0 10 0 0 0 .*`
		linkOut  = `endpoint out \d+ \d+ mobile my_queue 0 250 4 0 0 10 0 0 10 0 0 0 .*`
	)
	wantRows(t, out, "my_queue",
		`my_queue in 1 /queue/my_queue \d+ active`, `my_queue out 0 /queue/my_queue \d+ active`, // Router.B
		unused, stored, consumed, stored, linkIn, linkOut,
		stored, unused, stored, consumed, linkIn, linkOut) // Router.C
}

// The example of the sharded queue: five of ten messages go to each broker, and
// all ten come back.
func TestShardedQueueExample(t *testing.T) {
	rig.NeedRabbit(t)
	t.Parallel()
	out := demo(t, "sharded-queue")
	passed(t, out, 1)
	const (
		autoIn  = `my_queue in 1 /queue/my_queue \d+ active`
		autoOut = `my_queue out 0 /queue/my_queue \d+ active`
		empty   = `endpoint in \d+ \d+ mobile my_queue 1 250 4 0 0 0 0 0 0 0 0 0 .*`
		in      = `endpoint in \d+ \d+ mobile my_queue 1 250 4 0 0 5 0 0 5 0 0 0 .*`
		out5    = `endpoint out \d+ \d+ mobile my_queue 0 250 4 0 0 5 0 0 5 0 0 0 .*`
	)
	wantRows(t, out, "my_queue", autoIn, autoOut, autoIn, autoOut, empty, out5, empty, out5, in, out5, in, out5)
}

// The example of the link route: clients on Router.A use the broker behind
// Router.C, and are refused when it has gone.
func TestLinkRouteExample(t *testing.T) {
	rig.NeedRabbit(t)
	t.Parallel()
	out := demo(t, "link-route")
	passed(t, out, 1)
	wantRows(t, out, "b2",
		`b2 in linkBalanced active /queue/`, `b2 out linkBalanced active /queue/`,
		`link-in b2 linkBalanced - 0 1 0 0 0 0`, `link-out b2 linkBalanced - 0 1 0 0 0 0`,
		`b2 in linkBalanced inactive /queue/`, `b2 out linkBalanced inactive /queue/`)
	if want := "refused: No route to the destination node"; !strings.Contains(out, "\n"+want+"\n") {
		t.Errorf("no line %q\n%s", want, out)
	}
}
