package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sync"
	"testing"

	"qdrouter/tests/internal/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// A client runs one scenario with the AMQP library it is named after.
type client struct {
	name string
	run  func(t *testing.T, url, scenario string, args ...string) rig.Report
}

var clients = []client{
	{"proton-reactor", func(t *testing.T, url, scenario string, args ...string) rig.Report {
		t.Helper()
		return rig.Python(t, "reactor.py", append([]string{url, scenario}, args...)...)
	}},
	{"proton-blocking", func(t *testing.T, url, scenario string, args ...string) rig.Report {
		t.Helper()
		return rig.Python(t, "blocking.py", append([]string{url, scenario}, args...)...)
	}},
	{"rhea", func(t *testing.T, url, scenario string, args ...string) rig.Report {
		t.Helper()
		return rig.Node(t, "client.js", append([]string{url, scenario}, args...)...)
	}},
	{"go-amqp", func(t *testing.T, url, scenario string, args ...string) rig.Report {
		t.Helper()
		return goAMQP(t, url, scenario, args...)
	}},
}

// A scenario is the same conversation whatever the client, so that its report
// is the same too. Where a library cannot see all of it, but names what it
// reports instead.
type scenario struct {
	name string
	want string            // the report, as JSON
	but  map[string]string // by client: another report
}

var scenarios = []scenario{
	{name: "unsettled", want: `{"received": 20, "presettled": 0, "outcomes": {"accepted": 20}}`},
	{name: "presettled", want: `{"received": 20, "presettled": 20, "outcomes": {}}`},
	// RT F72: condition and description, and both flags and the annotations of modified, reach the sender.
	{name: "rejected", want: `{"received": 20, "presettled": 0, "outcomes": {"rejected": 20},
		"condition": "test:refused", "description": "not today"}`},
	{name: "released", want: `{"received": 20, "presettled": 0, "outcomes": {"released": 20}}`},
	{name: "modified", want: `{"received": 20, "presettled": 0, "outcomes": {"modified": 20},
		"failed": true, "undeliverable": true, "annotations": {"why": "later"}}`},

	{name: "at-most-once", want: `{"received": 20, "presettled": 20, "outcomes": {}}`},
	// RT F75: settled deliveries for a receiver that asks for them, accepted towards the sender.
	{name: "settled-for-receiver", want: `{"received": 20, "presettled": 20, "outcomes": {"accepted": 20}}`,
		// The router answers every attach with mixed (RT E13), and go-amqp gives
		// up a link that is not answered with the mode it asked for.
		but: map[string]string{"go-amqp": `{"refused": "sender settlement mode \"settled\" requested, received \"mixed\" from server"}`}},
	// RT 2.9: the receiver goes away with the message, the sender sends it again.
	{name: "at-least-once", want: `{"received": 2, "outcomes": {"modified": 1, "accepted": 1}}`},
	// RT F70: the receiver accepts, the sender settles, then the receiver.
	{name: "exactly-once", want: `{"received": 20, "accepted_unsettled": 20, "settled_by_sender": 20}`,
		// As above: the router answers first, whatever was asked for.
		but: map[string]string{"go-amqp": `{"refused": "receiver settlement mode \"second\" requested, received \"first\" from server"}`}},

	{name: "large", want: `{"received": 1, "presettled": 0, "outcomes": {"accepted": 1}, "bytes": 10485760, "intact": true}`},
	// RT E50.
	{name: "drain", want: `{"received": 3, "drained": 7, "credit_after_drain": 0, "received_later": 1}`,
		// go-amqp does not tell how much credit was drained.
		but: map[string]string{"go-amqp": `{"received": 3, "received_later": 1}`}},
	// RT E33: the form of a dynamic address.
	{name: "request-response", want: `{"replies": ["ONE", "TWO", "THREE"], "reply_to": "amqp:/_topo/0/R/temp.*"}`},
	// RT E44, E45, E47.
	{name: "credit", want: `{"without_consumer": 0, "with_consumer": 250, "consumer_left": 250,
		"outcome_without_consumer": "released", "drained": 249, "credit_after_drain": 0, "with_consumer_again": 250}`,
		but: map[string]string{
			// No call of the blocking API answers a drain.
			"proton-blocking": `{"without_consumer": 0, "with_consumer": 250, "consumer_left": 250,
				"outcome_without_consumer": "released", "drain_wanted_of": 249}`,
			// go-amqp shows credit only in that it sends or waits.
			"go-amqp": `{"without_consumer": "waits", "with_consumer": "sends", "outcome_without_consumer": "released"}`,
		}},
}

func TestClients(t *testing.T) {
	r := rig.Start(t, rig.Config{})
	before := r.Counts(t)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			for i, s := range scenarios {
				t.Run(s.name, func(t *testing.T) {
					want := s.want
					if other, ok := s.but[c.name]; ok {
						want = other
					}
					address := fmt.Sprintf("clients/%s.%d", c.name, i)
					checkReport(t, c.run(t, r.URL(t), s.name, address), want)
				})
			}
		})
	}
	r.CheckHealthy(t, before)
}

// Fifty clients at the same time, by four libraries: each sends to the next
// of its program and receives from the one before.
func TestFiftyConcurrentClients(t *testing.T) {
	r := rig.Start(t, rig.Config{})
	before := r.Counts(t)
	numbers := map[string]int{"proton-reactor": 15, "proton-blocking": 10, "rhea": 10, "go-amqp": 15}
	t.Run("together", func(t *testing.T) {
		for _, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				n := numbers[c.name]
				report := c.run(t, r.URL(t), "ring", "ring/"+c.name, fmt.Sprint(n))
				checkReport(t, report, fmt.Sprintf(`{"clients": %d, "received": %d, "outcomes": {"accepted": %d}}`, n, 20*n, 20*n))
			})
		}
	})
	r.CheckHealthy(t, before)
}

// checkReport compares a report with the JSON of the one wanted.
func checkReport(t *testing.T, got rig.Report, want string) {
	t.Helper()
	var w rig.Report
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if !reflect.DeepEqual(got, w) {
		g, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		w, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("report\n got %s\nwant %s", g, w)
	}
}

// tally counts outcomes by name, from many goroutines.
type tally struct {
	mu    sync.Mutex
	count map[string]any
}

func (o *tally) add(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, _ := o.count[name].(float64)
	o.count[name] = n + 1
}
