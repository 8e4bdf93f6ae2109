package linkstate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A script talks to one engine, event by event. Its clock stands still but for wait.
type script struct {
	t    *testing.T
	e    *Engine
	now  time.Time
	logs []string
}

const instance = 1_700_000_000

func newScript(t *testing.T) *script {
	return &script{t: t, e: New(Config{ID: "A", Instance: instance}), now: epoch}
}

func (s *script) wait(d time.Duration) { s.now = s.now.Add(d) }

// step returns what the engine does about an event, a line for each action. Logs are kept aside.
func (s *script) step(ev Event) []string {
	var lines []string
	for _, a := range s.e.Step(s.now, ev, nil) {
		switch a := a.(type) {
		case Send:
			lines = append(lines, fmt.Sprintf("%s > %s", a.Message, a.Address()))
		case Relay:
			lines = append(lines, "relay")
		case RouterAdded:
			lines = append(lines, fmt.Sprintf("+router %s", a.ID))
		case RouterRemoved:
			lines = append(lines, fmt.Sprintf("-router %s", a.ID))
		case RoutesChanged:
			for _, n := range a.Routes {
				if n.Out == 0 {
					lines = append(lines, fmt.Sprintf("route %s none", n.ID))
				} else {
					lines = append(lines, fmt.Sprintf("route %s out=%d link=%d hop=%s cost=%d hops=%d origins=%s",
						n.ID, n.Out, n.Link, n.NextHop, n.Cost, n.Hops, strings.Join(s.e.originIDs(n.Origins), ",")))
				}
			}
		case RemoteAdded:
			lines = append(lines, fmt.Sprintf("+%s at %s hint %d", a.Key, a.Router, a.Hint))
		case RemoteRemoved:
			lines = append(lines, fmt.Sprintf("-%s at %s", a.Key, a.Router))
		case RemotesFlushed:
			lines = append(lines, "flush "+a.Router)
		case Log:
			s.logs = append(s.logs, fmt.Sprint(a.Module, " ", a.Level, " ", a.Text))
		}
	}
	return lines
}

// want checks that the engine does exactly this about an event.
func (s *script) want(ev Event, want ...string) {
	s.t.Helper()
	if got := s.step(ev); !slices.Equal(got, want) {
		s.t.Errorf("%v, %#v:\n  %s\nwant\n  %s", s.now.Sub(epoch), ev, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (s *script) wantLog(text string) {
	s.t.Helper()
	if !slices.Contains(s.logs, text) {
		s.t.Errorf("no log line %q among\n  %s", text, strings.Join(s.logs, "\n  "))
	}
}

func (s *script) wantNoLog(text string) {
	s.t.Helper()
	for _, l := range s.logs {
		if strings.Contains(l, text) {
			s.t.Errorf("log line %q", l)
		}
	}
}

// ticks lets n ticks go by and returns what they brought, HELLO aside.
func (s *script) ticks(n int) []string {
	var lines []string
	for range n {
		s.wait(time.Second)
		for _, l := range s.step(Tick{}) {
			if !strings.HasPrefix(l, "HELLO") {
				lines = append(lines, l)
			}
		}
	}
	return lines
}

func (s *script) wantTicks(n int, want ...string) {
	s.t.Helper()
	if got := s.ticks(n); !slices.Equal(got, want) {
		s.t.Errorf("%v, in %d ticks:\n  %s\nwant\n  %s", s.now.Sub(epoch), n, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// What routers other than A say. Their instances are 7 unless given.

func hello(link LinkID, id string, seen ...string) Event {
	return Received{Link: link, Message: &Hello{ID: id, Version: 1, Area: "0", Instance: 7, Seen: seen}}
}

func ra(id string, lsSeq, mobileSeq int64) Event {
	return Received{Link: 1, Message: &RA{ID: id, Version: 1, Area: "0", Instance: 7, LSSeq: lsSeq, MobileSeq: mobileSeq}}
}

// lsu has peers as "C:2".
func lsu(id string, seq int64, peers ...string) Event {
	ls := LinkState{ID: id, Area: "0", LSSeq: seq}
	for _, p := range peers {
		var peer Peer
		name, cost, _ := strings.Cut(p, ":")
		peer.ID = name
		fmt.Sscan(cost, &peer.Cost)
		ls.Peers = append(ls.Peers, peer)
	}
	return Received{Link: 1, Message: &LSU{ID: id, Version: 1, Area: "0", Instance: 7, LSSeq: seq, LinkState: ls}}
}

func lsr(id string) Event { return Received{Link: 1, Message: &LSR{ID: id, Version: 1, Area: "0"}} }

func mar(id string, have int64) Event {
	return Received{Link: 1, Message: &MAR{ID: id, Version: 1, Area: "0", HaveSeq: have}}
}

func diff(id string, seq int64, add, del []string) Event {
	hints := make([]Treatment, len(add))
	for i := range hints {
		hints[i] = TreatBalanced
	}
	return Received{Link: 1, Message: &MAU{ID: id, Version: 1, Area: "0", MobileSeq: seq, Treatments: hints,
		Add: append([]string{}, add...), Delete: append([]string{}, del...)}}
}

func absolute(id string, seq int64, exist ...string) Event {
	return Received{Link: 1, Message: &MAU{ID: id, Version: 1, Area: "0", MobileSeq: seq, Treatments: []Treatment{}, Exist: append([]string{}, exist...)}}
}

// withB returns a script in which A has the neighbour B over link 1 at cost 3, with link state 1
// and nothing left to say. B goes on greeting only if a test makes it.
func withB(t *testing.T) *script {
	s := newScript(t)
	s.step(Tick{})
	s.step(LinkUp{1, 3})
	s.step(hello(1, "B", "A"))
	s.ticks(1)
	s.step(ra("B", 1, 0))
	s.step(lsu("B", 1, "A:3"))
	s.ticks(1)
	s.step(hello(1, "B", "A"))
	s.logs = nil
	return s
}

// IR 2.15, the start-up seen on the wire, from A's end. The RA of step 4 stands in both.
func TestStartUp(t *testing.T) {
	s := newScript(t)
	s.want(Tick{}, "HELLO(id=A pv=1 area=0 inst=1700000000 seen=[]) > amqp:/_local/qdhello",
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=0 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
	s.want(LinkUp{1, 3}, "HELLO(id=A pv=1 area=0 inst=1700000000 seen=[]) > amqp:/_local/qdhello")
	s.want(hello(1, "B", "A"), "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello",
		"+router B", "route B out=1 link=1 hop= cost=3 hops=0 origins=")
	s.wait(time.Second)
	s.want(Tick{}, "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello",
		"route B out=1 link=1 hop= cost=3 hops=1 origins=",
		"LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter",
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=1 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
	s.want(lsu("B", 0, "A:3")) // not newer
	s.want(lsr("B"), "LSU(id=A pv=1 area=0 inst=1700000000 ls_seq=1 ls=LS(id=A area=0 ls_seq=1 peers={'B': 3})) > amqp:/_topo/0/B/qdrouter")
	s.want(hello(1, "B", "A"))
	s.want(ra("B", 1, 0), "relay", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter")
	s.want(lsu("B", 1, "A:3"))
	s.wantTicks(1, "route B out=1 link=1 hop= cost=3 hops=1 origins=") // its messages come over itself

	for _, line := range []string{
		"ROUTER_HELLO 0 RCVD: HELLO(id=B pv=1 area=0 inst=7 seen=['A'])",
		"ROUTER 0 Node B created: maskbit=1",
		"ROUTER 0 Node B link set: link_id=1 (removed next hop)",
		"ROUTER 0 Entered Router Flux Mode",
		"ROUTER_LS 0 Local Link State: LS(id=A area=0 ls_seq=1 peers={'B': 3})",
		"ROUTER_LS 2 Computed next hops: {'B': 'B'}",
		"ROUTER_LS 2 Computed costs: {'B': 3}",
		"ROUTER_LS 2 Computed valid origins: {'B': []}",
		"ROUTER_LS 2 Computed radius: 1",
		"ROUTER_LS 0 SENT: LSR(id=A pv=1 area=0) to: B",
	} {
		s.wantLog(line)
	}
}

// Nobody is greeted before the second that is the instance; those whose links are up by then are
// greeted as it begins (IR 2.11).
func TestSilentUntilStart(t *testing.T) {
	s := &script{t: t, e: New(Config{ID: "A", Instance: instance, Start: epoch.Add(300 * ms)}), now: epoch}
	if due := s.e.Due(); !due.Equal(epoch.Add(300 * ms)) {
		t.Errorf("due at %v, want at the start", due)
	}
	s.want(LinkUp{1, 3})
	s.want(hello(1, "B"))
	s.want(Tick{})
	s.wait(300 * ms)
	s.want(Tick{}, "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello",
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=0 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
	s.want(LinkUp{2, 1}, "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello")
}

// Two routers whose link comes up greet, become neighbours and exchange link states between two
// ticks. Others that come in the same second wait for the next one with the advertisement.
func TestNewNeighbourBetweenTicks(t *testing.T) {
	const greeting = "HELLO(id=A pv=1 area=0 inst=1700000000 seen=%s) > amqp:/_local/qdhello"
	s := newScript(t)
	s.step(Tick{})
	s.wait(100 * ms)
	s.want(LinkUp{1, 3}, fmt.Sprintf(greeting, "[]"))
	s.want(hello(1, "B"), fmt.Sprintf(greeting, "['B']"))
	s.want(hello(1, "B"))
	s.want(hello(1, "B", "A"), "+router B", "route B out=1 link=1 hop= cost=3 hops=0 origins=")
	s.wait(49 * ms)
	s.want(Tick{})
	s.wait(ms)
	if due := s.e.Due(); !due.Equal(s.now) {
		t.Errorf("due at %v, want now, at %v", due, s.now)
	}
	s.want(Tick{}, "route B out=1 link=1 hop= cost=3 hops=1 origins=", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter",
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=1 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")

	s.want(LinkUp{2, 1}, fmt.Sprintf(greeting, "['B']"))
	s.want(hello(2, "C", "A"), fmt.Sprintf(greeting, "['B', 'C']"), "+router C", "route C out=2 link=2 hop= cost=1 hops=0 origins=")
	s.wait(50 * ms)
	s.want(Tick{}, "route C out=2 link=2 hop= cost=1 hops=1 origins=", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/C/qdrouter")
	s.wait(800 * ms)
	s.want(Tick{}, fmt.Sprintf(greeting, "['B', 'C']"),
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=2 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
}

// A new neighbour is not told of the addresses that the others hear of for the first time: it asks
// for all of them.
func TestNewNeighbourAndPendingAddresses(t *testing.T) {
	s := newScript(t)
	s.step(Tick{})
	s.want(LocalAdded{"M0q", TreatBalanced})
	s.step(LinkUp{1, 3})
	s.want(hello(1, "B", "A"), "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello",
		"MAU(id=A pv=1 area=0 mobile_seq=1 add=['M0q'] del=[] hints=[3]) > _topo/0/all/qdrouter.ma",
		"+router B", "route B out=1 link=1 hop= cost=3 hops=0 origins=")
	s.wait(50 * ms)
	s.want(Tick{}, "route B out=1 link=1 hop= cost=3 hops=1 origins=", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter",
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=1 mobile_seq=1) > amqp:/_topo/0/all/qdrouter")
	s.want(mar("B", 0), "MAU(id=A pv=1 area=0 mobile_seq=1 exist=['M0q'] hints=[3]) > amqp:/_topo/0/B/qdrouter.ma")
	s.wantTicks(1)
}

// A neighbour that was silent and has been forgotten is greeted again when it is back.
func TestGreetingAfterSilence(t *testing.T) {
	s := withB(t)
	s.ticks(4)
	s.want(hello(1, "B"), "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello")
	s.want(hello(1, "B"))
}

// IR 2.7: a neighbour is one that names us; silence and a lost link end it.
func TestNeighbour(t *testing.T) {
	t.Run("that does not name us is only seen", func(t *testing.T) {
		s := newScript(t)
		s.step(LinkUp{1, 1})
		s.want(hello(1, "B", "C"), "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello")
		s.want(hello(1, "B", "C"))
		s.want(Tick{}, "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello",
			"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=0 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
	})
	t.Run("with our id is none and reported once", func(t *testing.T) {
		s := newScript(t)
		s.step(LinkUp{1, 1})
		s.want(hello(1, "A", "A"))
		s.want(hello(1, "A", "A"))
		if len(s.logs) != 4 { // ours sent, theirs received twice
			t.Errorf("logs %q", s.logs)
		}
		s.wantLog("ROUTER_HELLO 6 Detected Neighbor Router with a Duplicate ID - A")
	})
	t.Run("that is ourselves is none and not reported", func(t *testing.T) {
		s := newScript(t)
		s.step(LinkUp{1, 1})
		s.want(Received{Link: 1, Message: &Hello{ID: "A", Version: 1, Instance: instance, Seen: []string{"A"}}})
		s.wantNoLog("Duplicate")
	})
	t.Run("on no link of ours is none", func(t *testing.T) {
		s := newScript(t)
		s.want(hello(1, "B", "A"))
	})
	t.Run("silent for just the hello age stays", func(t *testing.T) {
		s := withB(t)
		if got := s.ticks(3); slices.Contains(got, "route B none") {
			t.Errorf("after 3 s of silence: %q", got)
		}
		s.wait(ms)
		s.want(Tick{}) // not due: nothing happens
		s.wait(999 * ms)
		if got := s.step(Tick{}); !slices.Contains(got, "route B none") ||
			!slices.Contains(got, "RA(id=A pv=1 area=0 inst=1700000000 ls_seq=2 mobile_seq=0) > amqp:/_topo/0/all/qdrouter") {
			t.Errorf("after 4 s of silence: %q", got)
		}
	})
	t.Run("whose link drops is lost at once, and that is advertised", func(t *testing.T) {
		s := withB(t)
		s.want(LinkDown{1}, "route B none", "RA(id=A pv=1 area=0 inst=1700000000 ls_seq=2 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
		s.wantLog("ROUTER_LS 2 Link to Neighbor Router Lost - link_tag=1")
		s.want(LinkDown{1}) // known already
	})
	t.Run("the second to be lost between two ticks waits for the next", func(t *testing.T) {
		s := withB(t)
		s.step(LinkUp{2, 1})
		s.step(hello(2, "C", "A"))
		s.ticks(1)
		s.step(LinkDown{1})
		s.want(LinkDown{2}, "route C none")
		s.wantTicks(1, "RA(id=A pv=1 area=0 inst=1700000000 ls_seq=4 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
	})
}

// IR 1.11: of two links the cheapest, then the oldest is used, without a request per HELLO.
func TestParallelLinks(t *testing.T) {
	s := withB(t)
	s.step(LinkUp{2, 3})
	s.step(LinkUp{3, 2})
	const greeting = "HELLO(id=A pv=1 area=0 inst=1700000000 seen=['B']) > amqp:/_local/qdhello"
	s.want(hello(2, "B", "A"), greeting)
	s.want(hello(1, "B", "A"))
	s.want(hello(2, "B", "A"))
	s.wantTicks(1)
	s.want(hello(3, "B", "A"), greeting, "route B out=3 link=3 hop= cost=3 hops=1 origins=")
	s.want(hello(1, "B", "A"))
	s.want(hello(2, "B", "A"))
	s.wantTicks(1, "route B out=3 link=3 hop= cost=2 hops=1 origins=", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter",
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=2 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
	s.want(LinkDown{3}, "route B out=1 link=1 hop= cost=2 hops=1 origins=") // B is not lost
	s.wantTicks(1, "route B out=1 link=1 hop= cost=3 hops=1 origins=", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter",
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=3 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
	s.want(LinkDown{1}, "route B out=2 link=2 hop= cost=3 hops=1 origins=")
	s.wantTicks(1, "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter", // the cost is the same: no new link state
		"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=3 mobile_seq=0) > amqp:/_topo/0/all/qdrouter")
}

// IR 2.6, 2.8: every 4 s for 8 s after a change, every 30 s when stable.
func TestAdvertisementIntervals(t *testing.T) {
	s := withB(t)
	var at []int
	for i := range 80 {
		s.step(hello(1, "B", "A"))
		if slices.ContainsFunc(s.ticks(1), func(l string) bool { return strings.HasPrefix(l, "RA(") }) {
			at = append(at, i)
		}
		s.step(ra("B", 1, 0))
	}
	// The link state went out two ticks before the first, B's came one before.
	if want := []int{2, 6, 36, 66}; !slices.Equal(at, want) {
		t.Errorf("advertisements in ticks %v, want %v", at, want)
	}
	s.wantLog("ROUTER 0 Exited Router Flux Mode")
}

// IR 2.8, 2.9: sequences decide.
func TestLinkStateSequences(t *testing.T) {
	s := withB(t)
	s.want(lsu("B", 2, "A:3", "C:1"), "+router C")
	s.want(ra("B", 2, 0), "relay")                                                     // held already
	s.want(ra("B", 2, 0))                                                              // a copy over another path
	s.want(ra("B", 1, 0), "relay")                                                     // smaller: nothing
	s.want(ra("B", 3, 0), "relay", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter") // at once
	s.wait(50 * ms)                                                                    // B's link state is computed
	s.want(Tick{}, "route C out=1 link=0 hop=B cost=4 hops=2 origins=", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/C/qdrouter")
	s.want(lsu("B", 2, "A:3")) // not newer
	s.want(ra("C", 5, 0), "relay", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/C/qdrouter")
	// Neither answer came: both are asked again, until one comes.
	s.wantTicks(1, "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/C/qdrouter")
	s.step(lsu("B", 3, "A:3", "C:1"))
	s.wantTicks(1, "LSR(id=A pv=1 area=0) > amqp:/_topo/0/C/qdrouter")
	s.want(ra("A", 9, 9)) // our own, come back
	s.want(lsu("A", 9, "B:9"))
}

// IR 2.14, 5.6: of the copies of an advertisement the first goes on, and any that came a shorter
// way, as 1.19 may not take the first.
func TestRelay(t *testing.T) {
	s := withB(t)
	copyOf := func(trace int) Event {
		return Received{Link: 1, Message: &RA{ID: "B", Version: 1, Instance: 7, LSSeq: 1, MobileSeq: 0}, Trace: trace}
	}
	s.want(copyOf(4), "relay")
	s.want(copyOf(4))
	s.want(copyOf(5))
	s.want(copyOf(3), "relay")
	s.want(copyOf(3))
	s.wait(time.Second)
	s.want(copyOf(5), "relay")
}

// IR 2.9: who asks becomes known; the answer waits for a way to give it.
func TestRequestFromUnknown(t *testing.T) {
	s := withB(t)
	s.want(lsr("D"), "+router D")
	s.step(lsu("B", 2, "A:3", "D:1"))
	s.wait(50 * ms)
	s.want(Tick{}, "route D out=1 link=0 hop=B cost=4 hops=2 origins=",
		"LSU(id=A pv=1 area=0 inst=1700000000 ls_seq=1 ls=LS(id=A area=0 ls_seq=1 peers={'B': 3})) > amqp:/_topo/0/D/qdrouter",
		"LSR(id=A pv=1 area=0) > amqp:/_topo/0/D/qdrouter")
}

// IR 2.11: another instance is a restart.
func TestRestart(t *testing.T) {
	restarted := func(s *script) []string {
		return s.step(Received{Link: 1, Message: &RA{ID: "B", Version: 1, Instance: 8, LSSeq: 1}})
	}
	s := withB(t)
	s.step(diff("B", 1, []string{"M0q"}, nil))
	if got := restarted(s); !slices.Equal(got, []string{"relay", "flush B", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter"}) {
		t.Errorf("restart: %q", got)
	}
	s.wantLog("ROUTER 2 Detected Restart of Router Node B")
	s.want(lsu("B", 9, "A:3", "X:1")) // of the former life: not ours to keep
	s.want(Received{Link: 1, Message: &LSU{ID: "B", Version: 1, Instance: 8, LSSeq: 1, LinkState: LinkState{ID: "B", LSSeq: 1, Peers: []Peer{{"A", 3}}}}})
	s.want(diff("B", 1, []string{"M0r"}, nil), "+M0r at B hint 3")
	if n := s.e.Nodes()[1]; n.Instance != 8 || !slices.Equal(n.LinkState, []string{"A"}) {
		t.Errorf("B is %+v", n)
	}
}

// The instance of a router known from another's link state is that of its own first one.
func TestRestartOfALearnedRouter(t *testing.T) {
	s := withB(t)
	s.step(lsu("B", 2, "A:3", "C:1"))
	s.ticks(1)
	s.step(lsu("C", 1, "B:1", "D:1"))
	s.step(Received{Link: 1, Message: &RA{ID: "C", Version: 1, Instance: 8, LSSeq: 1}})
	s.wantLog("ROUTER 2 Detected Restart of Router Node C")
}

// A restart within the second keeps the instance; lower numbers twice in a row tell of it.
func TestRestartWithinASecond(t *testing.T) {
	s := withB(t)
	s.step(lsu("B", 4, "A:3", "C:1"))
	s.step(diff("B", 1, []string{"M0q"}, nil))
	s.want(ra("B", 1, 0), "relay")
	s.wait(4 * time.Second)
	s.want(ra("B", 1, 0), "relay", "flush B", "LSR(id=A pv=1 area=0) > amqp:/_topo/0/B/qdrouter")
	s.step(lsu("B", 1, "A:3"))
	if n := s.e.Nodes()[1]; !slices.Equal(n.LinkState, []string{"A"}) {
		t.Errorf("B is %+v", n)
	}
}

// IR 2.10: a link state lives 60 s without advertisement; a record without anything to speak for
// it three ticks.
func TestAges(t *testing.T) {
	s := withB(t)
	s.step(lsu("B", 2, "A:3", "C:1"))
	s.step(lsu("C", 1, "B:1"))
	s.ticks(1)
	s.step(diff("C", 1, []string{"M0q"}, nil))
	s.step(LinkDown{1})
	s.step(ra("B", 2, 0)) // by another way: B's link state is as old as this
	removed := map[string]int{}
	for i := 1; i <= 70; i++ {
		for _, l := range s.ticks(1) {
			if _, ok := removed[l]; !ok && (strings.HasPrefix(l, "-") || strings.HasPrefix(l, "flush")) {
				removed[l] = i
			}
		}
	}
	// Both states age with tick 61 at the latest, C's a tick before; B lists C until then.
	if want := map[string]int{"flush C": 63, "-router C": 63, "-router B": 63}; fmt.Sprint(removed) != fmt.Sprint(want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	if len(s.e.Nodes()) != 1 {
		t.Errorf("nodes %+v", s.e.Nodes())
	}
}

// IR 2.5: a later protocol version is ignored and logged once, by both checks.
func TestProtocolVersion(t *testing.T) {
	s := withB(t)
	for range 2 {
		s.want(Received{Link: 1, Message: &Hello{ID: "X", Version: 2, Seen: []string{"A"}}})
		s.want(Received{Link: 1, Message: &RA{ID: "X", Version: 2, LSSeq: 3}})
		s.want(Received{Link: 1, Message: &LSR{ID: "X", Version: 2}})
		s.want(Received{Link: 1, Message: &LSU{ID: "X", Version: 2}})
		s.want(Received{Link: 1, Message: &MAR{ID: "B", Version: 2}})
		s.want(Received{Link: 1, Message: &MAU{ID: "B", Version: 2}})
	}
	want := []string{"ROUTER 4 Received HELLO at protocol version 2 from X.  Ignoring.",
		"ROUTER_MA 4 Received MAR at protocol version 2 from B.  Ignoring."}
	if !slices.Equal(s.logs, want) {
		t.Errorf("logs %q, want %q", s.logs, want)
	}
}

// IR 2.12: what a second of local changes makes of the next differential MAU.
func TestMobileSending(t *testing.T) {
	const ma = " > _topo/0/all/qdrouter.ma"
	tests := []struct{ name, changes, want string }{
		{"nothing", "", ""},
		{"additions in order", "+M0b +M0a", "add=['M0b', 'M0a'] del=[] hints=[3, 3]"},
		{"all synchronised classes, no others", "+M0b +Cx +Dx +Ex/* +F*/x +HE +Lx +Tx +RB +M0 +", "add=['M0b', 'Cx', 'Dx', 'Ex/*', 'F*/x', 'HE'] del=[] hints=[3, 3, 3, 3, 3, 3]"},
		{"a deletion", "-M0old", "add=[] del=['M0old'] hints=[]"},
		{"attached and detached: silence", "+M0a -M0a", ""},
		{"detached and attached: silence", "-M0old +M0old", ""},
		{"the last of many decides, and its place", "+M0a +M0b -M0a +M0a -M0old +M0old -M0old", "add=['M0b', 'M0a'] del=['M0old'] hints=[3, 3]"},
		{"twice is once", "+M0a +M0a -M0none", "add=['M0a'] del=[] hints=[3]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := withB(t)
			s.step(LocalAdded{"M0old", TreatBalanced})
			s.ticks(1)
			for _, c := range strings.Fields(tt.changes) {
				if c[0] == '+' {
					s.want(LocalAdded{c[1:], TreatBalanced})
				} else {
					s.want(LocalRemoved{c[1:]})
				}
			}
			if tt.want == "" {
				s.wantTicks(1)
				return
			}
			s.wantTicks(1, "MAU(id=A pv=1 area=0 mobile_seq=2 "+tt.want+")"+ma,
				"RA(id=A pv=1 area=0 inst=1700000000 ls_seq=1 mobile_seq=2) > amqp:/_topo/0/all/qdrouter")
		})
	}
}

// IR 2.12: an absolute MAU is what belongs to the sequence it carries.
func TestAbsoluteMAU(t *testing.T) {
	s := withB(t)
	s.want(mar("B", 0)) // nothing to tell
	for _, key := range []string{"M0stays", "M0goes", "M0back"} {
		s.step(LocalAdded{key, TreatClosest})
	}
	s.ticks(1)
	s.step(LocalAdded{"M0new", TreatClosest})
	s.step(LocalRemoved{"M0goes"})
	s.step(LocalRemoved{"M0back"})
	s.step(LocalAdded{"M0back", TreatMulticast})
	s.want(mar("B", 0), "MAU(id=A pv=1 area=0 mobile_seq=1 exist=['M0stays', 'M0goes', 'M0back'] hints=[2, 2, 1]) > amqp:/_topo/0/B/qdrouter.ma")
	s.want(mar("B", 1))
	s.want(mar("X", 0))
	s.wantLog("ROUTER_MA 5 Received MAR from an unknown router with router id X")
	s.wantLog("ROUTER_MA 1 New mobile sequence: mobile_seq=1, addrs_added=3, addrs_deleted=0, fanout=1")
}

// IR 2.4: control messages stay small; each part has a sequence of its own.
func TestLargeMAUIsSplit(t *testing.T) {
	s := withB(t)
	key := strings.Repeat("x", 1000)
	for i := range 100 {
		s.step(LocalAdded{fmt.Sprintf("M0%s%d", key, i), TreatBalanced})
	}
	s.wait(time.Second)
	total, seq := 0, int64(0)
	for _, a := range s.e.Step(s.now, Tick{}, nil) {
		if send, ok := a.(Send); ok {
			if m, ok := send.Message.(*MAU); ok {
				seq++
				if m.MobileSeq != seq || len(m.Add) != len(m.Treatments) || len(m.Add) > 70 {
					t.Errorf("MAU %d has sequence %d, %d addresses, %d hints", seq, m.MobileSeq, len(m.Add), len(m.Treatments))
				}
				total += len(m.Add)
			}
		}
	}
	if total != 100 || seq < 2 {
		t.Errorf("%d addresses in %d messages", total, seq)
	}
}

// IR 2.13: the receiving end.
func TestMobileReceiving(t *testing.T) {
	const ask = "MAR(id=A pv=1 area=0 have_seq=1) > amqp:/_topo/0/B/qdrouter.ma"
	prepared := func(t *testing.T) *script {
		s := withB(t)
		s.want(diff("B", 1, []string{"M0a", "M0b"}, nil), "+M0a at B hint 3", "+M0b at B hint 3")
		return s
	}
	t.Run("the next differential applies", func(t *testing.T) {
		s := prepared(t)
		s.want(diff("B", 2, []string{"M0c", "M0a"}, []string{"M0b", "M0none"}), "+M0c at B hint 3", "-M0b at B")
	})
	t.Run("a gap asks once and is dropped, also while the answer is due", func(t *testing.T) {
		s := prepared(t)
		s.want(diff("B", 3, []string{"M0c"}, nil), ask)
		s.want(diff("B", 4, []string{"M0d"}, nil))
		s.want(absolute("B", 4, "M0b", "M0c", "M0d"), "+M0c at B hint -1", "+M0d at B hint -1", "-M0a at B")
		s.want(diff("B", 5, nil, []string{"M0d"}), "-M0d at B")
	})
	t.Run("a repeated one is dropped without a question", func(t *testing.T) {
		s := prepared(t)
		s.want(diff("B", 1, []string{"M0c"}, nil))
		s.want(diff("B", 3, []string{"M0c"}, nil), ask)
	})
	t.Run("an advertisement ahead asks with the next tick, and again", func(t *testing.T) {
		s := prepared(t)
		s.want(ra("B", 1, 2), "relay")
		s.wantTicks(1, ask)
		s.step(hello(1, "B", "A"))
		got := s.ticks(3)
		if !slices.Contains(got, ask) {
			t.Errorf("no second MAR in %q", got)
		}
	})
	t.Run("an answer before the tick saves the question", func(t *testing.T) {
		s := prepared(t)
		s.step(ra("B", 1, 2))
		s.step(diff("B", 2, nil, nil))
		s.wantTicks(1)
	})
	t.Run("hints that do not fit their list are ignored", func(t *testing.T) {
		s := prepared(t)
		s.want(Received{Link: 1, Message: &MAU{ID: "B", MobileSeq: 2, Treatments: []Treatment{1}, Add: []string{"M0x", "M0y"}, Delete: []string{}}},
			"+M0x at B hint -1", "+M0y at B hint -1")
		s.want(Received{Link: 1, Message: &MAU{ID: "B", MobileSeq: 3, Treatments: []Treatment{9, 0}, Add: []string{"M0v", "M0w"}, Delete: []string{}}},
			"+M0v at B hint -1", "+M0w at B hint 0")
	})
	t.Run("malformed ones are logged and dropped", func(t *testing.T) {
		for _, m := range []MAU{
			{ID: "B", MobileSeq: 2},
			{ID: "B", MobileSeq: 2, Add: []string{}},
			{ID: "B", MobileSeq: 2, Delete: []string{}},
			{ID: "B", MobileSeq: 2, Add: []string{}, Delete: []string{}, Exist: []string{}},
			{ID: "B", MobileSeq: 2, Exist: []string{}, Delete: []string{}},
			{ID: "B", MobileSeq: 2, Exist: []string{}, Malformed: true},
		} {
			s := prepared(t)
			s.want(Received{Link: 1, Message: &m})
			s.wantLog("ROUTER_MA 5 Received malformed MAU from B")
		}
	})
	t.Run("from an unknown router it is logged and dropped", func(t *testing.T) {
		s := prepared(t)
		s.want(absolute("X", 1, "M0q"))
		s.wantLog("ROUTER_MA 5 Received MAU from an unknown router with router id X")
	})
	t.Run("keys of other classes are not taken", func(t *testing.T) {
		s := prepared(t)
		s.want(diff("B", 2, []string{"", "M", "M0", "Lqdhello", "RB", "Felp/*/x"}, nil), "+Felp/*/x at B hint 3")
	})
}

// Nothing ends at 127 routers.
func TestManyRouters(t *testing.T) {
	s := withB(t)
	peers := []string{"A:3"}
	for i := range 500 {
		peers = append(peers, fmt.Sprintf("r%03d:1", i))
	}
	s.step(lsu("B", 2, peers...))
	for _, p := range peers[1:] {
		s.step(lsu(p[:4], 1, "B:1"))
	}
	s.ticks(1)
	nodes := s.e.Nodes()
	if n := nodes[len(nodes)-1]; len(nodes) != 502 || n.Index != 501 || n.Cost != 4 || n.NextHop != "B" {
		t.Errorf("%d nodes, the last %+v", len(nodes), n)
	}
}

// IR 2.18.
func TestNodes(t *testing.T) {
	s := withB(t)
	s.step(lsu("B", 2, "A:3", "C:1"))
	s.ticks(1)
	got := fmt.Sprintf("%+v", s.e.Nodes())
	want := fmt.Sprintf("%+v", []NodeInfo{
		{ID: "A", ProtocolVersion: 1, Instance: instance, LinkState: []string{"B"}, NextHop: "(self)", Address: "amqp:/_topo/0/A", Cost: -1, LastTopoChange: s.now},
		{ID: "B", Index: 1, ProtocolVersion: 1, Instance: 7, LinkState: []string{"A", "C"}, Address: "amqp:/_topo/0/B", RouterLink: 1, Cost: 3},
		{ID: "C", Index: 2, ProtocolVersion: -1, LinkState: []string{}, NextHop: "B", Address: "amqp:/_topo/0/C", Cost: 4},
	})
	if got != want {
		t.Errorf("nodes\n%s\nwant\n%s", got, want)
	}
}

// TestAddressesSoon: a change of the addresses is told within a tenth of a second, its undoing
// until then leaves no trace, and there is at most one differential MAU a second (IR 2.6, 2.12).
func TestAddressesSoon(t *testing.T) {
	s := newScript(t)
	s.step(Tick{})
	maus := func(wait time.Duration) (lines []string) {
		for end := s.now.Add(wait); s.e.Due().Before(end.Add(1)); {
			s.now = s.e.Due()
			for _, l := range s.step(Tick{}) {
				if strings.HasPrefix(l, "MAU") {
					lines = append(lines, fmt.Sprint(s.now.Sub(epoch), " ", l))
				}
			}
		}
		return lines
	}
	maus(10 * time.Second)
	s.now = epoch.Add(10300 * time.Millisecond)
	s.step(LocalAdded{"M0a", TreatBalanced})
	s.wait(50 * time.Millisecond)
	s.step(LocalRemoved{"M0a"})
	if got := maus(2 * time.Second); len(got) != 0 {
		t.Errorf("after a change that was undone: %q", got)
	}
	s.now = epoch.Add(13300 * time.Millisecond)
	s.step(LocalAdded{"M0a", TreatBalanced})
	s.wait(50 * time.Millisecond)
	s.step(LocalAdded{"M0b", TreatBalanced})
	got := maus(500 * time.Millisecond)
	s.now = epoch.Add(13900 * time.Millisecond)
	s.step(LocalRemoved{"M0a"})
	got = append(got, maus(3*time.Second)...)
	want := []string{
		"13.4s MAU(id=A pv=1 area=0 mobile_seq=1 add=['M0a', 'M0b'] del=[] hints=[3, 3]) > _topo/0/all/qdrouter.ma",
		"14.4s MAU(id=A pv=1 area=0 mobile_seq=2 add=[] del=['M0a'] hints=[]) > _topo/0/all/qdrouter.ma",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
