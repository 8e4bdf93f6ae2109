package management

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
)

const exchangeConf = `
exchange {
 name: ex
 address: e
}
exchange {
 name: mq
 address: m
 phase: 2
 alternateAddress: other
 alternatePhase: 3
 matchMethod: mqtt
}
binding {
 exchangeName: ex
 nextHopAddress: n
}
binding {
 name: keyed
 exchangeName: ex
 bindingKey: a.#
 nextHopAddress: n
 nextHopPhase: 4
}
binding {
 exchangeName: mq
 bindingKey: a/#/b
 nextHopAddress: n
}
`

func (b *bench) rows(t *testing.T, entityType string) (names []string, rows []map[string]any) {
	t.Helper()
	return rowsOf(t, b.ask(nil, "operation=QUERY", "entityType="+entityType))
}

// MG 5, 7.8, 7.9: exchanges and bindings of the configuration. What the router refuses is said in
// the log (CFG D6).
func TestExchangesOfTheFile(t *testing.T) {
	b := newBench(t, standaloneConf+exchangeConf)
	b.LoadObjects()
	heading, rows := b.rows(t, "router.config.exchange")
	want := []string{"name", "identity", "address", "phase", "alternateAddress", "alternatePhase", "matchMethod",
		"bindingCount", "receivedCount", "droppedCount", "forwardedCount", "divertedCount"}
	if !slices.Equal(heading, want) {
		t.Errorf("columns %q, want %q", heading, want)
	}
	if len(rows) != 2 {
		t.Fatalf("%d exchanges", len(rows))
	}
	subset(t, map[string]any{"name": "ex", "address": "e", "phase": int32(0), "alternateAddress": nil, "alternatePhase": nil, "matchMethod": "amqp",
		"bindingCount": uint32(2), "receivedCount": uint64(0), "droppedCount": uint64(0), "forwardedCount": uint64(0), "divertedCount": uint64(0)}, rows[0])
	subset(t, map[string]any{"name": "mq", "phase": int32(2), "alternateAddress": "other", "alternatePhase": int32(3), "matchMethod": "mqtt",
		"bindingCount": uint32(0)}, rows[1])
	heading, rows = b.rows(t, "router.config.binding")
	if want := []string{"name", "identity", "exchangeName", "bindingKey", "nextHopAddress", "nextHopPhase", "matchedCount"}; !slices.Equal(heading, want) {
		t.Errorf("columns %q, want %q", heading, want)
	}
	if len(rows) != 2 {
		t.Fatalf("%d bindings", len(rows))
	}
	subset(t, map[string]any{"name": "binding/0", "exchangeName": "ex", "bindingKey": "#", "nextHopAddress": "n", "nextHopPhase": int32(0), "matchedCount": uint64(0)}, rows[0])
	subset(t, map[string]any{"name": "keyed", "bindingKey": "a.#", "nextHopPhase": int32(4)}, rows[1])
	if lines := b.logs.find("Error performing CREATE of org.apache.qpid.dispatch.router.config.binding: The binding key pattern is invalid"); len(lines) != 1 {
		t.Errorf("%d lines in the log about the key", len(lines))
	}
	if lines := b.logs.find("is left out"); len(lines) != 1 || !strings.Contains(lines[0], "The binding of test.conf:") {
		t.Errorf("the log says %q of the section", lines)
	}
	read := asMap(t, b.want(t, 200, "OK", nil, "operation=READ", "type=router.config.binding", "name=keyed"))
	subset(t, map[string]any{"name": "keyed", "identity": rows[1]["identity"]}, read)
	if _, has := read["type"]; has || len(read) != 7 {
		t.Errorf("READ gives %v", read)
	}
}

// MG 7.8, 7.9: CREATE, READ and DELETE, and what they are refused with (RT 5.1).
func TestExchangeRequests(t *testing.T) {
	b := newBench(t, standaloneConf)
	create := func(kind string) []string {
		return []string{"operation=CREATE", "type=org.apache.qpid.dispatch.router.config." + kind}
	}
	exchange, binding := create("exchange"), create("binding")
	got := asMap(t, b.want(t, 201, "Created", attrs("address", "e", "nosuch", "ignored"), append(exchange, "name=ex")...))
	subset(t, map[string]any{"name": "ex", "address": "e", "phase": int32(0), "matchMethod": "amqp", "alternateAddress": nil, "alternatePhase": nil}, got)
	got = asMap(t, b.want(t, 201, "Created", attrs("name", "mq", "address", "m", "phase", "2", "alternateAddress", "o", "alternatePhase", int32(1), "matchMethod", "mqtt"), exchange...))
	subset(t, map[string]any{"name": "mq", "phase": int32(2), "alternateAddress": "o", "alternatePhase": int32(1), "matchMethod": "mqtt"}, got)
	mq := got["identity"].(string)
	for _, tt := range []struct {
		rule, want string
		body       any
	}{
		{"no map", "the body must be a map of attributes", "text"},
		{"no name", "exchange requires a unique name", attrs("address", "z")},
		{"no address", "exchange address is mandatory", attrs("name", "z")},
		{"name in use", "duplicate exchange name", attrs("name", "ex", "address", "z")},
		{"address in use", "duplicate exchange address", attrs("name", "z", "address", "e")},
		{"method", "Exchange matchMethod must be either 'amqp' or 'mqtt'", attrs("name", "z", "address", "z", "matchMethod", "blinky")},
		{"phase", "phase must be in the range 0-9", attrs("name", "z", "address", "z", "phase", int32(10))},
		{"negative phase", "phase must be in the range 0-9", attrs("name", "z", "address", "z", "phase", int32(-1))},
		{"alternatePhase", "phase must be in the range 0-9", attrs("name", "z", "address", "z", "alternateAddress", "y", "alternatePhase", "10")},
		{"phase that is no number", "phase", attrs("name", "z", "address", "z", "phase", "high")},
	} {
		t.Run("exchange: "+tt.rule, func(t *testing.T) {
			if resp := b.want(t, 400, tt.want, tt.body, exchange...); resp.Body != nil {
				t.Errorf("error body %v, want null", resp.Body)
			}
		})
	}
	got = asMap(t, b.want(t, 201, "Created", attrs("exchangeName", "ex", "nextHopAddress", "n"), binding...))
	subset(t, map[string]any{"name": nil, "exchangeName": "ex", "bindingKey": "#", "nextHopAddress": "n", "nextHopPhase": int32(0), "matchedCount": uint64(0)}, got)
	unnamed := got["identity"].(string)
	b.want(t, 201, "", attrs("exchangeName", "mq", "nextHopAddress", "n", "bindingKey", "b", "nextHopPhase", "3"), append(binding, "name=b1")...)
	for _, tt := range []struct {
		rule, want string
		body       any
	}{
		{"no map", "the body must be a map of attributes", nil},
		{"no exchange", "Binding configuration requires an exchange", attrs("nextHopAddress", "n")},
		{"unknown exchange", "Named exchange does not exist", attrs("exchangeName", "no")},
		{"no next hop", "No next hop specified", attrs("exchangeName", "ex", "bindingKey", "x")},
		{"key", "The binding key pattern is invalid", attrs("exchangeName", "mq", "nextHopAddress", "n", "bindingKey", "x/#/z")},
		{"phase", "phase must be in the range 0-9", attrs("exchangeName", "ex", "nextHopAddress", "q", "nextHopPhase", int32(10))},
		{"name in use", "Duplicate next hop name", attrs("exchangeName", "mq", "nextHopAddress", "q", "name", "b1")},
		{"same binding", "Next hop for key already exists", attrs("exchangeName", "ex", "nextHopAddress", "n")},
	} {
		t.Run("binding: "+tt.rule, func(t *testing.T) { b.want(t, 400, tt.want, tt.body, binding...) })
	}
	b.want(t, 201, "", attrs("exchangeName", "ex", "nextHopAddress", "other"), append(binding, "name=b1")...)
	first := asMap(t, b.want(t, 200, "", nil, "operation=READ", "name=b1", "type=router.config.binding"))
	subset(t, map[string]any{"exchangeName": "ex"}, first) // over all exchanges, in their order
	b.want(t, 204, "No Content", nil, "operation=DELETE", "type=router.config.binding", "name=b1")
	subset(t, map[string]any{"exchangeName": "mq"}, asMap(t, b.want(t, 200, "", nil, "operation=READ", "name=b1", "type=router.config.binding")))
	b.want(t, 204, "", nil, "operation=DELETE", "type=router.config.binding", "identity="+unnamed)
	b.want(t, 404, "Not Found", nil, "operation=DELETE", "type=router.config.binding", "identity="+unnamed)
	b.want(t, 400, "No name or identity provided", nil, "operation=DELETE", "type=router.config.exchange")
	b.want(t, 204, "", nil, "operation=DELETE", "type=router.config.exchange", "identity="+mq)
	b.want(t, 404, "Not Found", nil, "operation=READ", "type=router.config.exchange", "name=mq")
	if _, rows := b.rows(t, "router.config.binding"); len(rows) != 0 {
		t.Errorf("bindings left: %v", rows)
	}
	// Found by its name alone.
	b.want(t, 200, "OK", nil, "operation=READ", "name=ex")
	b.want(t, 204, "", nil, "operation=DELETE", "name=ex")
	b.want(t, 501, "not implemented", attrs("address", "x"), "operation=UPDATE", "type=router.config.exchange", "name=ex")
}

// A reload makes what the file says of exchanges and bindings, through what CREATE and DELETE do.
// What requests have added to an exchange survives its change (CFG A27).
func TestReloadExchanges(t *testing.T) {
	file := standaloneConf + exchangeConf
	b := newBench(t, file)
	b.LoadObjects()
	b.want(t, 201, "", attrs("exchangeName", "ex", "nextHopAddress", "mine"), "operation=CREATE", "type=router.config.binding", "name=mine")
	b.want(t, 201, "", attrs("address", "y"), "operation=CREATE", "type=router.config.exchange", "name=yours")
	show := func() (list []string) {
		for _, x := range b.core.Exchanges() {
			list = append(list, x.Name+" at "+x.Address)
		}
		for _, y := range b.core.Bindings() {
			list = append(list, fmt.Sprintf("%s: %s %s > %s phase %d", y.Name, y.Exchange, y.Key, y.NextHop, y.NextHopPhase))
		}
		return list
	}
	steps := []struct {
		edit       []string
		done, want []string
	}{
		{nil, nil, []string{"ex at e", "mq at m", "yours at y",
			"binding/0: ex # > n phase 0", "keyed: ex a.# > n phase 4", "mine: ex # > mine phase 0"}},
		{[]string{"address: e", "address: e2", "bindingKey: a.#", "bindingKey: b.#"},
			[]string{"exchange ex changed", "binding keyed changed"},
			[]string{"mq at m", "yours at y", "ex at e2", "binding/0: ex # > n phase 0", "mine: ex # > mine phase 0", "keyed: ex b.# > n phase 4"}},
		{[]string{"address: e2", "address: e2\n phase: 1", "a/#/b", "a/b/#", "name: keyed", "name: again"},
			[]string{"exchange ex changed", "binding keyed deleted", "binding bindingKey=a/#/b exchangeName=mq nextHopAddress=n deleted", "binding again created", "binding bindingKey=a/b/# exchangeName=mq nextHopAddress=n created"},
			[]string{"mq at m", "yours at y", "ex at e2", "binding/1: mq a/b/# > n phase 0",
				"binding/0: ex # > n phase 0", "mine: ex # > mine phase 0", "again: ex b.# > n phase 4"}},
		{[]string{"binding {\n exchangeName: ex\n nextHopAddress: n\n}\n", ""}, // its exchange has been made anew
			[]string{"binding exchangeName=ex nextHopAddress=n deleted"},
			[]string{"mq at m", "yours at y", "ex at e2", "binding/1: mq a/b/# > n phase 0", "mine: ex # > mine phase 0", "again: ex b.# > n phase 4"}},
	}
	for i, step := range steps {
		if i > 0 {
			file = strings.NewReplacer(step.edit...).Replace(file)
		}
		r, err := b.Reload(parseFile(t, file))
		if err != nil || len(r.Left) != 0 {
			t.Fatalf("step %d: %+v, %v", i, r, err)
		}
		if !slices.Equal(r.Done, step.done) {
			t.Errorf("step %d: done\n%s, want\n%s", i, strings.Join(r.Done, "\n"), strings.Join(step.done, "\n"))
		}
		if got := show(); !slices.Equal(got, step.want) {
			t.Errorf("step %d:\n%s, want\n%s", i, strings.Join(got, "\n"), strings.Join(step.want, "\n"))
		}
	}
	if _, err := b.Reload(parseFile(t, standaloneConf)); err != nil {
		t.Fatal(err)
	}
	if got := show(); !slices.Equal(got, []string{"yours at y"}) {
		t.Errorf("without the sections: %q", got)
	}
	if lines := b.logs.find("Error performing"); len(lines) != 1 { // the key of the first file
		t.Errorf("log: %q", lines)
	}
}

// MG 6.2 holds for core types too: a tag may be given by its index.
func TestCoreTypesTakeTheIndexOfATag(t *testing.T) {
	b := newBench(t, standaloneConf)
	for _, tt := range []struct {
		typeName        string
		given           amqp.Map
		attribute, want string
	}{
		{"router.config.address", attrs("prefix", "a", "distribution", int32(0)), "distribution", "multicast"},
		{"router.config.linkRoute", attrs("prefix", "a", "direction", "1", "distribution", uint8(0)), "direction", "out"},
		{"router.config.autoLink", attrs("address", "a", "direction", uint64(0)), "direction", "in"},
		{"router.config.exchange", attrs("name", "x", "address", "a", "matchMethod", int64(1)), "matchMethod", "mqtt"},
		{"router.connection.linkRoute", attrs("pattern", "a", "direction", true), "direction", "out"},
	} {
		made := asMap(t, b.want(t, 201, "Created", tt.given, "operation=CREATE", "type="+tt.typeName))
		subset(t, map[string]any{tt.attribute: tt.want}, made)
	}
	b.want(t, 400, "Invalid value for 'direction'", attrs("prefix", "b", "direction", int32(2)), "operation=CREATE", "type=router.config.linkRoute")
	b.want(t, 400, "Exchange matchMethod must be", attrs("name", "y", "address", "b", "matchMethod", int32(-1)), "operation=CREATE", "type=router.config.exchange")
}
