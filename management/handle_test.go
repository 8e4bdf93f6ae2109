package management

import (
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
)

// MG 4.0: what is wrong with a request decides its status; the order of checks
// decides when several things are wrong.
func TestStatusOfRequests(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.want(t, StatusCreated, "Created", attrs("arg1", "x"), "operation=CREATE", "type=dummy", "name=D")
	tests := []struct {
		rule        string
		status      int
		description string
		request     string // properties, separated by blanks
	}{
		{"no operation", 400, "No 'operation'", "name=self"},
		{"no properties at all", 400, "no application-properties", ""},
		{"unknown operation of the agent", 501, "NOSUCH", "operation=nosuch type=org.amqp.management"},
		{"an underscore is no hyphen", 501, "GET_TYPES", "operation=GET_TYPES"},
		{"operation in lower case", 200, "OK", "operation=get-types"},
		{"a type without name or identity", 400, "No name or identity provided", "operation=READ type=listener"},
		{"no selector at all is the agent", 200, "OK", "operation=READ"},
		{"the agent by a base of its type", 200, "OK", "operation=READ type=operationalEntity"},
		{"the agent as tools name it", 200, "OK", "operation=READ type=org.amqp.management name=self"},
		{"unknown type", 400, "No such entity type 'nosuch'", "operation=READ type=nosuch name=x"},
		{"unknown name", 404, "No entity with name=nosuch", "operation=READ type=listener name=nosuch"},
		{"unknown identity", 404, "No entity with identity=log/BOGUS", "operation=READ identity=log/BOGUS"},
		{"name and identity of two entities", 400, "Conflicting", "operation=READ name=l0 identity=listener/0.0.0.0:20001:l1"},
		{"name and identity of one entity", 200, "OK", "operation=READ name=l0 identity=listener/0.0.0.0:20000:l0"},
		{"entity of another type", 400, "does not extend", "operation=READ type=connector name=l0"},
		{"entity by a base of its type", 200, "OK", "operation=READ type=configurationEntity name=l0"},
		{"long type name", 200, "OK", "operation=READ type=org.apache.qpid.dispatch.listener name=l0"},
		{"short names only qdmanage knows", 400, "No such entity type", "operation=READ type=address name=x"},
		{"operation the type lacks", 501, "Operation 'UPDATE' not implemented for 'org.apache.qpid.dispatch.listener' [CREATE, DELETE, READ]", "operation=update name=l0"},
		{"custom operation the type lacks", 501, "", "operation=nosuchop type=listener identity=listener/0.0.0.0:20000:l0"},
		{"delete without selector", 400, "No name or identity", "operation=DELETE type=listener"},
		{"delete without type either", 501, "DELETE", "operation=DELETE"},
		{"delete of what is not deletable", 501, "", "operation=DELETE name=policy/None"},
		{"delete of a log", 501, "", "operation=DELETE name=log/AGENT"},
		{"delete of the router by name", 501, "", "operation=DELETE name=router/solo"},
		{"profiler", 501, "PROFILE", "operation=PROFILE"},
		{"misspelt schema operation", 501, "", "operation=GET-SCHEMA-JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			resp := b.want(t, tt.status, tt.description, amqp.Map{}, strings.Fields(tt.request)...)
			if tt.status >= 400 {
				if m, ok := resp.Body.(amqp.Map); !ok || len(m) != 0 {
					t.Errorf("error body = %v, want an empty map (MG 2.2)", resp.Body)
				}
			}
		})
	}
}

// MG 3: every combination of a core type and an operation answers, in either
// spelling of the type and any letter case of the operation.
func TestCoreTypesAnswer(t *testing.T) {
	b := newBench(t, standaloneConf)
	matrix := map[string][5]int{ // CREATE READ UPDATE DELETE QUERY, asked without name, identity and body
		"router.config.address":       {400, 400, 501, 400, 200},
		"router.config.linkRoute":     {400, 400, 501, 400, 200},
		"router.config.autoLink":      {400, 400, 501, 400, 200},
		"router.config.exchange":      {400, 400, 501, 400, 200},
		"router.config.binding":       {400, 400, 501, 400, 200},
		"router.connection.linkRoute": {400, 400, 501, 400, 200},
		"router.address":              {501, 404, 501, 501, 200},
		"router.link":                 {501, 400, 400, 501, 200},
		"connection":                  {501, 400, 400, 403, 200},
		"console":                     {403, 403, 403, 403, 403},
		"router":                      {403, 403, 501, 403, 200},
	}
	for name, statuses := range matrix {
		for i, op := range []string{"CREATE", "READ", "UPDATE", "DELETE", "QUERY"} {
			for _, spelling := range []string{name, config.LongName(name)} {
				if spelling == "router" && op == "READ" {
					continue // MG 4.1: the configuration view, tested elsewhere
				}
				for _, opSpelling := range []string{op, strings.ToLower(op)} {
					resp := b.ask(nil, "operation="+opSpelling, "type="+spelling)
					if resp.Status != statuses[i] {
						t.Errorf("%s of %s = %d %q, want %d", opSpelling, spelling, resp.Status, resp.Description, statuses[i])
					}
					if resp.Status < 400 {
						continue
					}
					// MG 2.2: shapes of error bodies.
					switch m, isMap := resp.Body.(amqp.Map); op {
					case "CREATE":
						if resp.Body != nil {
							t.Errorf("%s of %s: error body %v, want null", op, spelling, resp.Body)
						}
					case "QUERY":
						if results, _ := m.Get("results"); !isMap || len(m) != 2 || len(results.(amqp.List)) != 0 {
							t.Errorf("%s of %s: error body %v", op, spelling, resp.Body)
						}
					default:
						if !isMap || len(m) != 0 {
							t.Errorf("%s of %s: error body %v, want an empty map", op, spelling, resp.Body)
						}
					}
				}
			}
		}
	}
}

// MG 4.1: READ.
func TestRead(t *testing.T) {
	b := newBench(t, standaloneConf)
	t.Run("the agent, exactly", func(t *testing.T) {
		got := asMap(t, b.want(t, 200, "OK", nil, "operation=READ"))
		if len(got) != 3 {
			t.Errorf("got %v, want identity, name and type only", got)
		}
		subset(t, map[string]any{"identity": "self", "name": "self", "type": "org.apache.qpid.dispatch.management"}, got)
	})
	t.Run("stored entities have no nulls", func(t *testing.T) {
		got := asMap(t, b.want(t, 200, "OK", nil, "operation=READ", "name=l0"))
		subset(t, map[string]any{
			"name": "l0", "identity": "listener/0.0.0.0:20000:l0", "type": "org.apache.qpid.dispatch.listener",
			"port": "20000", "role": "normal", "cost": int32(1), "authenticatePeer": false, "maxFrameSize": int32(16384),
		}, got)
		for key, value := range got {
			if value == nil {
				t.Errorf("%s is null", key)
			}
		}
		if _, has := got["sslProfile"]; has {
			t.Errorf("an attribute without a value is present")
		}
	})
	t.Run("the router's configuration, by name or short type", func(t *testing.T) {
		for _, request := range [][]string{
			{"operation=READ", "name=router/solo"},
			{"operation=READ", "name=router/solo", "type=router"},
			{"operation=READ", "identity=router/solo"},
		} {
			subset(t, map[string]any{
				"id": "solo", "name": "router/solo", "mode": "standalone", "area": "0", "metadata": "selftest;solo",
				"hostName": "host.example", "linkCount": int32(0), "addrCount": int32(0), "workerThreads": int32(4),
			}, asMap(t, b.want(t, 200, "OK", nil, request...)))
		}
		b.want(t, 403, "Forbidden", nil, "operation=READ", "type=org.apache.qpid.dispatch.router", "name=router/solo")
	})
	t.Run("policy keeps its odd identity", func(t *testing.T) {
		subset(t, map[string]any{"identity": "policy/None", "maxConnections": int32(65535), "connectionsDenied": int32(0)},
			asMap(t, b.want(t, 200, "OK", nil, "operation=READ", "name=policy/None")))
	})
	t.Run("core types have every column", func(t *testing.T) {
		b.core.links = []router.LinkInfo{{ID: 5, Name: "in", ConnectionID: 7, Type: "endpoint", Incoming: true}}
		got := asMap(t, b.want(t, 200, "OK", nil, "operation=READ", "type=router.link", "identity=5", "name=ignored"))
		if len(got) != len(config.TypeByName("router.link").Columns) {
			t.Errorf("got %d columns", len(got))
		}
		subset(t, map[string]any{"linkName": "in", "owningAddr": nil, "connectionId": "7", "deliveryCount": uint64(0), "capacity": uint32(0)}, got)
		b.want(t, 404, "Not Found", nil, "operation=READ", "type=router.link", "identity=6")
	})
	t.Run("addresses by their key", func(t *testing.T) {
		b.core.addresses = []router.AddressInfo{{Key: "M0foo", Distribution: router.Closest, Priority: -1, RemoteHostRouters: []string{}}}
		subset(t, map[string]any{"key": "M0foo", "identity": "M0foo", "distribution": "closest", "priority": int32(-1), "transitOutstanding": nil},
			asMap(t, b.want(t, 200, "OK", nil, "operation=READ", "type=router.address", "name=M0foo")))
	})
	t.Run("connections need an identity", func(t *testing.T) {
		b.want(t, 400, "Identity required", nil, "operation=READ", "type=connection", "name=connection/h")
	})
}

// MG 4.6, 4.7, 4.8: the schema operations.
func TestSchemaOperations(t *testing.T) {
	b := newBench(t, standaloneConf)
	for _, op := range []string{"GET-TYPES", "GET-OPERATIONS", "GET-ATTRIBUTES"} {
		if got := asMap(t, b.want(t, 200, "OK", nil, "operation="+op)); len(got) != 29 {
			t.Errorf("%s returns %d entries, want 29", op, len(got))
		}
	}
	texts := func(v any) string {
		var list []string
		for _, item := range v.(amqp.List) {
			list = append(list, item.(string))
		}
		return strings.Join(list, " ")
	}
	const p = "org.apache.qpid.dispatch."
	types := asMap(t, b.ask(nil, "operation=GET-TYPES", "entityType=configurationEntity"))
	if got := texts(types[p+"listener"]); got != p+"configurationEntity "+p+"entity" {
		t.Errorf("bases of listener = %q, want the nearest first", got)
	}
	if _, has := types[p+"connection"]; has {
		t.Errorf("GET-TYPES of configurationEntity lists connection")
	}
	ops := asMap(t, b.ask(nil, "operation=GET-OPERATIONS", "entityType=dummy"))
	if len(ops) != 1 || texts(ops[p+"dummy"]) != "CREATE READ UPDATE DELETE CALLME" {
		t.Errorf("operations of dummy = %v", ops)
	}
	attributes := asMap(t, b.ask(nil, "operation=GET-ATTRIBUTES", "entityType=sslProfile"))
	if got := strings.Fields(texts(attributes[p+"sslProfile"])); len(got) != 12 || !slices.Equal(got[9:], []string{"name", "identity", "type"}) {
		t.Errorf("attributes of sslProfile = %v, want its nine and then name, identity, type", got)
	}
	b.want(t, 400, "No such entity type", nil, "operation=GET-TYPES", "entityType=nosuch")
	if got := asMap(t, b.want(t, 200, "OK", nil, "operation=GET-ANNOTATIONS", "entityType=nosuch")); len(got) != 0 {
		t.Errorf("GET-ANNOTATIONS = %v, want an empty map whatever the type", got)
	}
}

// MG 4.10: the shape of the schema dump, and its JSON form.
func TestSchemaDump(t *testing.T) {
	b := newBench(t, standaloneConf)
	dump := asMap(t, b.ask(nil, "operation=GET-SCHEMA"))
	if dump["prefix"] != "org.apache.qpid.dispatch" {
		t.Errorf("prefix = %v", dump["prefix"])
	}
	types := dump["entityTypes"].(amqp.Map)
	if len(types) != 29 {
		t.Errorf("%d types, want 29", len(types))
	}
	at := func(path ...string) any {
		var v any = types
		for _, key := range path {
			v, _ = v.(amqp.Map).Get(key)
		}
		return v
	}
	for _, tt := range []struct {
		path string
		want any
	}{
		{"address fullyQualifiedType", "org.apache.qpid.dispatch.router.config.address"},
		{"vhostUserGroupSettings attributes maxSenders default", int32(2147483647)},
		{"vhostUserGroupSettings attributes allowDynamicSource default", nil}, // false is left out
		{"router attributes area default", nil},                               // so is 0
		{"router attributes mode default", "standalone"},
		{"router attributes type", nil},
		{"router attributes name unique", true},
		{"router singleton", true},
		{"listener singleton", nil},
		{"log attributes module required", true},
		{"logStats attributes errorCount graph", true},
		{"console deprecated", true},
	} {
		if got := at(strings.Fields(tt.path)...); got != tt.want {
			t.Errorf("%s = %v, want %v", tt.path, got, tt.want)
		}
	}
	if tags := at("router", "attributes", "mode", "type").(amqp.List); len(tags) != 3 || tags[2] != "edge" {
		t.Errorf("type of an enumeration = %v, want its tags", tags)
	}

	oneLine := b.ask(nil, "operation=GET-JSON-SCHEMA").Body.(string)
	if !strings.HasPrefix(oneLine, `{"prefix": "org.apache.qpid.dispatch", "entityTypes": {"entity": {"attributes": {"name": {"type": "string", "unique": true,`) ||
		strings.Contains(oneLine, "\n") {
		t.Errorf("JSON schema on one line begins %.200s", oneLine)
	}
	indented := b.ask(nil, "operation=GET-JSON-SCHEMA", "indent=2").Body.(string)
	if !strings.HasPrefix(indented, "{\n  \"prefix\": \"org.apache.qpid.dispatch\",\n  \"entityTypes\": {\n    \"entity\": {") {
		t.Errorf("JSON schema with indent 2 begins %.200s", indented)
	}
	b.want(t, 400, "indent", nil, "operation=GET-JSON-SCHEMA", "indent=wide")
	b.want(t, 400, "indent", nil, "operation=GET-JSON-SCHEMA", "indent=1000000")
}

// MG 4.9: GET-MGMT-NODES.
func TestMgmtNodes(t *testing.T) {
	b := newBench(t, standaloneConf)
	if got := b.want(t, 200, "OK", nil, "operation=GET-MGMT-NODES", "name=self", "type=org.amqp.management").Body.(amqp.List); len(got) != 0 {
		t.Errorf("standalone: %v, want none", got)
	}
	b.core.nodes = []router.NodeInfo{
		{ID: "A", NextHop: "(self)", RouterLink: -1, Cost: -1, LastTopoChange: 9, Address: "amqp:/_topo/0/A"},
		{ID: "B", RouterLink: 3, Cost: 1, Address: "amqp:/_topo/0/B", LinkState: []string{"A"}},
	}
	got := b.ask(nil, "operation=GET-MGMT-NODES").Body.(amqp.List)
	if len(got) != 2 || got[0] != "amqp:/_topo/0/A/$management" || got[1] != "amqp:/_topo/0/B/$management" {
		t.Errorf("nodes = %v", got)
	}
	_, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=router.node"))
	subset(t, map[string]any{"name": "router.node/A", "nextHop": "(self)", "cost": nil, "routerLink": nil, "lastTopoChange": int32(9)}, rows[0])
	subset(t, map[string]any{"nextHop": nil, "cost": int32(1), "routerLink": int32(3), "lastTopoChange": nil, "index": int32(0)}, rows[1])
}

// MG 4.11: GET-LOG.
func TestGetLog(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.logs.recent = []LogEntry{
		{Module: "SERVER", Level: "info", Text: "old", Time: 1},
		{Module: "AGENT", Level: "debug", Text: "new", File: "agent.go", Line: 12, Time: 5_000_000_000},
	}
	for limit, want := range map[string]int{"": 2, "limit=0": 2, "limit=-3": 2, "limit=1": 1, "limit=99999999999": 2} {
		if got := b.want(t, 200, "OK", nil, "operation=GET-LOG", limit).Body.(amqp.List); len(got) != want {
			t.Errorf("%q: %d entries, want %d", limit, len(got), want)
		}
	}
	entries := b.ask(nil, "operation=GET-LOG").Body.(amqp.List)
	for i, want := range []amqp.List{
		{"SERVER", "info", "old", nil, nil, int32(1)},
		{"AGENT", "debug", "new", "agent.go", int32(12), int64(5_000_000_000)},
	} {
		if got := entries[i].(amqp.List); !slices.Equal(got, want) {
			t.Errorf("entry %d = %v, want %v", i, got, want)
		}
	}
	b.want(t, 400, "limit", nil, "operation=GET-LOG", "limit=many")
}

// MG 10: errors are logged with their operation, debug lines show requests, and
// secrets stay hidden.
func TestLogging(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.ask(amqp.Map{}, "operation=CREATE", "type=nosuch", "name=nosuch")
	if got := b.logs.find("Error performing CREATE: No such entity type 'nosuch'"); len(got) != 1 {
		t.Errorf("a failed CREATE left %v", b.logs.lines)
	}
	b.ask(attrs("prefix", "a", "pattern", "b"), "operation=CREATE", "type=router.config.address")
	if got := b.logs.find("Error performing CREATE of org.apache.qpid.dispatch.router.config.address: "); len(got) != 1 {
		t.Errorf("a refused core CREATE left %v", b.logs.lines)
	}
	n := len(b.logs.lines)
	b.ask(nil, "operation=READ", "type=router.address", "name=nosuch")
	if len(b.logs.lines) != n {
		t.Errorf("a plain 404 of the core was logged: %v", b.logs.lines[n:])
	}
	b.logs.level = router.Debug
	b.want(t, 201, "", attrs("host", "h", "saslUsername", "u", "saslPassword", "secret"), "operation=CREATE", "type=connector", "name=c")
	b.ask(nil, "operation=GET-LOG")
	if got := b.logs.find("secret"); len(got) != 0 {
		t.Errorf("the log shows a password: %v", got)
	}
	for _, want := range []string{"Agent request {operation=GET-LOG}", "Agent response: 200 OK", "Add entity: ConnectorEntity("} {
		if got := b.logs.find(want); len(got) == 0 {
			t.Errorf("no line with %q in %v", want, b.logs.lines)
		}
	}
}
