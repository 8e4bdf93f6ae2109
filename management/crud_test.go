package management

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

// MG 16, point 13: values are brought to the schema's types.
func TestCreateConvertsValues(t *testing.T) {
	b := newBench(t, standaloneConf)
	got := asMap(t, b.want(t, 201, "Created", attrs(
		"port", int32(5000), "http", "yes", "healthz", "Off", "cost", "7", "stripAnnotations", uint8(1),
		"saslMechanisms", amqp.Symbol("ANONYMOUS"), "maxSessions", uint64(3),
	), "operation=CREATE", "type=listener", "name=foo"))
	subset(t, map[string]any{
		"port": "5000", "http": true, "healthz": false, "cost": int32(7), "stripAnnotations": "out",
		"saslMechanisms": "ANONYMOUS", "maxSessions": int32(3), "host": "", "name": "foo",
		"identity": "listener/:5000:foo", "type": "org.apache.qpid.dispatch.listener",
	}, got)
	if !slices.Equal(b.server.calls, []string{"listen :5000"}) {
		t.Errorf("server was told %v", b.server.calls)
	}
}

// MG 7.1: a root directory for files makes a listener an HTTP one.
func TestRootDirectoryImpliesHTTP(t *testing.T) {
	b := newBench(t, standaloneConf)
	subset(t, map[string]any{"http": true, "httpRootDir": "/srv"},
		asMap(t, b.want(t, 201, "", attrs("port", "1", "httpRootDir", "/srv"), "operation=CREATE", "type=listener", "name=h")))
}

// MG 16, point 14, and MG 4.3: what CREATE refuses; nothing is made then.
func TestCreateRefuses(t *testing.T) {
	b := newBench(t, standaloneConf)
	tests := []struct {
		rule        string
		status      int
		description string
		body        any
		request     string
	}{
		{"body is no map", 400, "map", "text", "type=listener name=x"},
		{"no body", 400, "map", nil, "type=listener name=x"},
		{"no type", 400, "type", attrs("port", "1"), "name=x"},
		{"type that cannot be created", 501, "CREATE", attrs("module", "AGENT"), "type=log"},
		{"abstract type", 501, "CREATE", attrs(), "type=configurationEntity"},
		{"bad boolean", 400, "http", attrs("port", "1", "http", "maybe"), "type=listener name=x"},
		{"bad enum", 400, "role", attrs("port", "1", "role", "boss"), "type=listener name=x"},
		{"enum index out of range", 400, "role", attrs("port", "1", "role", int32(-1)), "type=listener name=x"},
		{"bad integer", 400, "cost", attrs("port", "1", "cost", "low"), "type=listener name=x"},
		{"unknown attribute", 400, "nosuch", attrs("port", "1", "nosuch", "x"), "type=listener name=x"},
		{"identity", 400, "identity", attrs("port", "1", "identity", "listener/x"), "type=listener name=x"},
		{"attribute without create flag", 400, "connectionMsg", attrs("port", "1", "connectionMsg", "x"), "type=connector name=x"},
		{"vhost.maxMessageSize has none either", 400, "maxMessageSize", attrs("hostname", "h", "maxMessageSize", int32(1)), "type=vhost"},
		{"both spellings", 400, "protocolFamily", attrs("port", "1", "socketAddressFamily", "IPv4", "protocolFamily", "IPv4"), "type=listener name=x"},
		{"types that differ", 400, "Conflicting values for 'type'", attrs("type", "connector"), "type=listener name=x"},
		{"names that differ", 400, "Conflicting values for 'name'", attrs("name", "y"), "type=listener name=x"},
		{"name of another type's entity", 400, "duplicates unique attribute 'name'", attrs("port", "1"), "type=connector name=l0"},
		{"identity twice", 400, "duplicates unique attribute", attrs("host", "0.0.0.0", "port", "20000", "name", "l0"), "type=listener"},
		{"role inter-router", 400, "role='standalone' not allowed to connect to or accept connections from other routers.", attrs("port", "1", "role", "inter-router"), "type=listener name=x"},
		{"role edge", 400, "role='standalone' not allowed to connect to or accept connections from other routers.", attrs("port", "1", "role", "edge"), "type=connector name=x"},
		{"unknown sasl plugin", 500, "Cannot find sasl plugin", attrs("port", "1", "saslPlugin", "nosuch"), "type=listener name=x"},
		{"password from a missing variable", 500, "", attrs("password", "env:QDROUTER_NO_SUCH_VARIABLE"), "type=sslProfile name=x"},
		{"profile without a name", 400, "name", attrs("certFile", "c.pem"), "type=sslProfile"},
		{"reserved open property", 400, "product", attrs("port", "1", "openProperties", attrs("product", "x")), "type=listener name=x"},
		{"key that is no string", 400, "not a string", amqp.Map{{Key: int32(1), Value: "x"}}, "type=listener name=x"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			before := len(b.entities)
			b.want(t, tt.status, tt.description, tt.body, append(strings.Fields(tt.request), "operation=CREATE")...)
			if len(b.entities) != before || len(b.server.calls) != 0 {
				t.Errorf("something was made all the same: server %v", b.server.calls)
			}
		})
	}
}

// MG 4.3: type and name may stand in the properties, in the body, or in both.
func TestCreateTakesTypeAndNameFromEitherPlace(t *testing.T) {
	b := newBench(t, standaloneConf)
	for i, tt := range []struct {
		body    amqp.Map
		request string
	}{
		{attrs("type", "dummy", "name", "n0"), ""},
		{attrs("type", "dummy"), "type=org.apache.qpid.dispatch.dummy name=n1"},
		{attrs("type", "org.apache.qpid.dispatch.dummy", "name", "n2"), "type=dummy name=n2"},
		{attrs("name", "n3"), "type=dummy"},
	} {
		got := asMap(t, b.want(t, 201, "", tt.body, append(strings.Fields(tt.request), "operation=create")...))
		subset(t, map[string]any{"name": "n" + string(rune('0'+i)), "identity": "dummy/" + string(rune('0'+i)), "type": "org.apache.qpid.dispatch.dummy"}, got)
	}
	subset(t, map[string]any{"name": "dummy/4", "identity": "dummy/4"}, asMap(t, b.want(t, 201, "", attrs(), "operation=CREATE", "type=dummy")))
	// A core type named in the body alone is still a core type.
	subset(t, map[string]any{"prefix": "p", "name": "n"},
		asMap(t, b.want(t, 201, "", attrs("type", "router.config.address", "name", "n", "prefix", "p"), "operation=CREATE")))
}

// MG 4.3, point 7: a failure while applying stores nothing.
func TestCreateThatFailsStoresNothing(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.server.refuse = errors.New("no more sockets")
	b.want(t, 500, "no more sockets", attrs("port", "1"), "operation=CREATE", "type=listener", "name=x")
	b.want(t, 404, "", nil, "operation=READ", "name=x")
	b.server.refuse = nil
	b.want(t, 201, "", attrs("port", "1"), "operation=CREATE", "type=listener", "name=x")
}

// MG 4.5, 16 point 16: DELETE by name or identity, and what a second one says.
func TestDelete(t *testing.T) {
	b := newBench(t, standaloneConf)
	if m := asMap(t, b.want(t, 204, "No Content", nil, "operation=DELETE", "type=listener", "name=l0")); len(m) != 0 {
		t.Errorf("body = %v", m)
	}
	b.want(t, 404, "No entity with name=l0", nil, "operation=DELETE", "type=listener", "name=l0")
	b.want(t, 204, "", nil, "operation=DELETE", "identity=listener/0.0.0.0:20001:l1")
	b.want(t, 201, "", attrs("host", "h", "port", "1"), "operation=CREATE", "type=connector", "name=c")
	b.want(t, 204, "", nil, "operation=DELETE", "name=c")
	want := []string{"close listener/0.0.0.0:20000:l0", "close listener/0.0.0.0:20001:l1", "dial h:1", "hang up connector/h:1:c"}
	if !slices.Equal(b.server.calls, want) {
		t.Errorf("server was told %v, want %v", b.server.calls, want)
	}
	b.server.refuse = errors.New("stuck")
	b.want(t, 201, "", attrs(), "operation=CREATE", "type=dummy", "name=d")
	b.want(t, 204, "", nil, "operation=DELETE", "name=d")
}

// MG 7.2: a connector shows how it is doing.
func TestConnectorShowsItsStatus(t *testing.T) {
	b := newBench(t, standaloneConf)
	got := asMap(t, b.want(t, 201, "", attrs("host", "h", "port", "1"), "operation=CREATE", "type=connector", "name=c"))
	subset(t, map[string]any{"connectionStatus": "CONNECTING", "connectionMsg": "", "failoverUrls": "amqp://h:1"}, got)
	b.server.status = [3]string{"SUCCESS", "[C1] Connection Opened", "amqp://h:1, amqps://g:2"}
	_, rows := rowsOf(t, b.ask(attrs("attributeNames", amqp.List{"connectionStatus", "connectionMsg", "failoverUrls"}), "operation=QUERY", "entityType=connector"))
	subset(t, map[string]any{"connectionStatus": "SUCCESS", "connectionMsg": "[C1] Connection Opened", "failoverUrls": "amqp://h:1, amqps://g:2"}, rows[0])
}

// MG 4.4: UPDATE of stored entities.
func TestUpdate(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.want(t, 201, "", attrs("arg1", "a", "num1", int32(1)), "operation=CREATE", "type=dummy", "name=d")
	sel := []string{"operation=UPDATE", "name=d"}
	subset(t, map[string]any{"arg1": "b", "num1": int32(1)}, asMap(t, b.want(t, 200, "OK", attrs("arg1", "b"), sel...)))
	t.Run("what was read may be sent back", func(t *testing.T) {
		for _, form := range []string{"org.apache.qpid.dispatch.dummy", "dummy"} {
			b.want(t, 200, "OK", attrs("type", form, "name", "d", "identity", "dummy/0", "arg1", "b", "num1", int32(42)), sel...)
		}
		subset(t, map[string]any{"num1": int32(42)}, asMap(t, b.ask(nil, "operation=READ", "name=d")))
	})
	t.Run("null removes", func(t *testing.T) {
		if got := asMap(t, b.want(t, 200, "OK", attrs("arg1", nil), sel...)); got["arg1"] != nil {
			t.Errorf("arg1 = %v after null", got["arg1"])
		}
	})
	t.Run("an empty map is legal", func(t *testing.T) { b.want(t, 200, "OK", attrs(), sel...) })
	for _, tt := range []struct {
		rule string
		body any
		want string
	}{
		{"no map", nil, "map"},
		{"another name", attrs("name", "e"), "name"},
		{"another identity", attrs("identity", "dummy/9"), "identity"},
		{"another type", attrs("type", "listener"), "type"},
		{"unknown attribute", attrs("badattribute", "Bad"), "badattribute"},
		{"value of the wrong type", attrs("num1", "many"), "num1"},
	} {
		t.Run(tt.rule, func(t *testing.T) { b.want(t, 400, tt.want, tt.body, sel...) })
	}
	b.want(t, 400, "module", attrs("module", "SERVER"), "operation=UPDATE", "name=log/AGENT")
}

// MG 7.4, 16 point 20: UPDATE of a log module is all or nothing.
func TestUpdateLog(t *testing.T) {
	b := newBench(t, standaloneConf)
	sel := []string{"operation=UPDATE", "identity=log/AGENT"}
	b.want(t, 200, "OK", attrs("identity", "log/AGENT", "enable", "TRACE , Error info", "outputFile", "a.log"), sel...)
	s := b.logs.settings["AGENT"]
	if s.Enable == nil || *s.Enable != "TRACE , Error info" || *s.OutputFile != "a.log" || s.IncludeSource != nil {
		t.Errorf("settings = %+v", s)
	}
	b.want(t, 500, "not a valid log level", attrs("enable", "foo"), sel...)
	b.want(t, 500, "CError: Configuration: Failed to open log file ''", attrs("outputFile", ""), sel...)
	b.want(t, 400, "includeSource", attrs("includeSource", "blahblah"), sel...)
	subset(t, map[string]any{"enable": "TRACE , Error info", "outputFile": "a.log"}, asMap(t, b.ask(nil, "operation=READ", "identity=log/AGENT")))
	t.Run("old spelling overwrites", func(t *testing.T) {
		subset(t, map[string]any{"outputFile": "b.log"}, asMap(t, b.want(t, 200, "", attrs("output", "b.log"), sel...)))
	})
	t.Run("null goes back to DEFAULT", func(t *testing.T) {
		got := asMap(t, b.want(t, 200, "", attrs("enable", nil), sel...))
		if got["enable"] != nil || b.logs.settings["AGENT"].Enable != nil {
			t.Errorf("enable = %v", got["enable"])
		}
	})
	t.Run("DEFAULT is never without", func(t *testing.T) {
		subset(t, map[string]any{"enable": "info+", "includeTimestamp": true, "includeSource": false, "outputFile": "stderr", "module": "DEFAULT"},
			asMap(t, b.ask(nil, "operation=READ", "identity=log/DEFAULT")))
	})
	if _, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=log")); len(rows) != 17 {
		t.Errorf("%d log entities, want 17", len(rows))
	}
}

// The empty name is no attribute's, though most attributes have no older name.
func TestUpdateOfNoAttribute(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.want(t, 201, "", attrs("arg1", "as it was"), "operation=CREATE", "type=dummy", "name=d")
	b.want(t, 400, "Unknown attribute ''", attrs("", "x"), "operation=UPDATE", "type=dummy", "name=d")
	subset(t, map[string]any{"arg1": "as it was"}, asMap(t, b.want(t, 200, "OK", nil, "operation=READ", "type=dummy", "name=d")))
}

// MG 4.13: CALLME echoes the application properties.
func TestCallMe(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.want(t, 201, "", attrs(), "operation=CREATE", "type=dummy", "name=d")
	properties := append(props("operation=callme", "type=dummy", "identity=dummy/0"),
		amqp.MapEntry{Key: "data", Value: []byte("bytes")}, amqp.MapEntry{Key: "n", Value: int64(-1 << 63)})
	resp := b.Handle(Request{ReplyTo: "r", Properties: properties})
	var order []string
	for _, e := range resp.Body.(amqp.Map) {
		order = append(order, e.Key.(string))
	}
	if want := "data identity n operation type"; strings.Join(order, " ") != want {
		t.Errorf("properties in the order %q, want %s", order, want)
	}
	got := asMap(t, resp)
	if len(got) != 5 || string(got["data"].([]byte)) != "bytes" || got["n"] != int64(-1<<63) {
		t.Errorf("got %v", got)
	}
}

// MG 7.5: router.config.address.
func TestAddressConfig(t *testing.T) {
	b := newBench(t, standaloneConf)
	create := []string{"operation=CREATE", "type=org.apache.qpid.dispatch.router.config.address"}
	got := asMap(t, b.want(t, 201, "Created", attrs("prefix", "/a/", "waypoint", "yes", "nosuch", "ignored"), append(create, "name=w")...))
	subset(t, map[string]any{
		"name": "w", "identity": "1", "type": "org.apache.qpid.dispatch.router.config.address", "prefix": "a", "pattern": nil,
		"distribution": "balanced", "waypoint": true, "ingressPhase": int32(0), "egressPhase": int32(1),
		"priority": int32(-1), "fallback": false, "enableFallback": false,
	}, got)
	subset(t, map[string]any{"name": nil, "distribution": "unavailable", "priority": int32(9)},
		asMap(t, b.want(t, 201, "", attrs("pattern", "x/*", "distribution", "unavailable", "priority", "9"), create...)))
	for _, key := range []string{"fallback", "enableFallback"} {
		subset(t, map[string]any{"fallback": true, "enableFallback": true}, asMap(t, b.want(t, 201, "", attrs("prefix", key, key, true), create...)))
	}
	for _, tt := range []struct {
		rule, want string
		body       any
	}{
		{"name in use", "Name conflicts with an existing entity", attrs("name", "w", "prefix", "b")},
		{"no map", "map", "text"},
		{"prefix and pattern", "both", attrs("prefix", "b", "pattern", "c")},
		{"neither", "Either", attrs()},
		{"one phase only", "Phase", attrs("prefix", "b", "ingressPhase", int32(1))},
		{"phase too high", "Phase", attrs("prefix", "b", "ingressPhase", int32(1), "egressPhase", int32(10))},
		{"priority too high", "Priority", attrs("prefix", "b", "priority", int32(10))},
		{"priority below none", "riority", attrs("prefix", "b", "priority", int32(-2))},
		{"fallback of a waypoint", "Fallback", attrs("prefix", "b", "fallback", true, "waypoint", true)},
		{"unknown distribution", "distribution", attrs("prefix", "b", "distribution", "random")},
		{"same prefix", "Already exists", attrs("prefix", "a")},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if resp := b.want(t, 400, tt.want, tt.body, create...); resp.Body != nil {
				t.Errorf("error body %v, want null", resp.Body)
			}
		})
	}
	read := []string{"operation=READ", "type=router.config.address", "name=w"}
	b.want(t, 200, "OK", nil, read...)
	b.want(t, 200, "OK", nil, "operation=READ", "name=w")
	b.want(t, 400, "No name or identity provided", nil, "operation=DELETE", "type=router.config.address")
	b.want(t, 204, "No Content", nil, "operation=DELETE", "type=router.config.address", "name=w")
	b.want(t, 404, "Not Found", nil, read...)
	b.want(t, 404, "Not Found", nil, "operation=DELETE", "type=router.config.address", "name=w")
}

// MG 7.10, 16 points 24 and 25: UPDATE of a connection.
func TestUpdateConnection(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.core.connections = []router.ConnectionInfo{
		{ID: 1, Host: "h:1", Role: router.RoleNormal, LastDelivery: -1},
		{ID: 2, Host: "h:2", Role: router.RoleInterRouter, LastDelivery: 3},
		{ID: 3, Host: "h:3", Role: router.RoleEdge},
		{ID: 4, Host: "h:4", Role: router.RoleRouteContainer},
	}
	update := func(id string) []string {
		return []string{"operation=UPDATE", "type=org.apache.qpid.dispatch.connection", "identity=" + id}
	}
	for _, tt := range []struct {
		rule   string
		status int
		id     string
		body   any
	}{
		{"neither attribute", 400, "1", attrs("user", "x")},
		{"no map", 400, "1", nil},
		{"unknown identity", 400, "9", attrs("adminStatus", "deleted")},
		{"identity that is no number", 400, "x", attrs("adminStatus", "deleted")},
		{"other status", 400, "1", attrs("adminStatus", "gone")},
		{"inter-router", 403, "2", attrs("adminStatus", "deleted")},
		{"edge", 403, "3", attrs("adminStatus", "deleted", "enableProtocolTrace", true)},
		{"enabled", 200, "2", attrs("adminStatus", "enabled")},
	} {
		t.Run(tt.rule, func(t *testing.T) { b.want(t, tt.status, "", tt.body, update(tt.id)...) })
	}
	if len(b.core.traced) != 0 {
		t.Errorf("a refused request switched traces: %v", b.core.traced)
	}
	got := asMap(t, b.want(t, 200, "OK", attrs("enableProtocolTrace", true), update("1")...))
	subset(t, map[string]any{"enableProtocolTrace": true, "lastDlvSeconds": nil, "adminStatus": "enabled", "operStatus": "up"}, got)
	b.want(t, 200, "OK", attrs("enableProtocolTrace", "yes"), update("1")...)
	if b.core.traced[1] {
		t.Errorf("a string switched the trace on")
	}
	for _, id := range []string{"1", "4"} {
		got := asMap(t, b.want(t, 200, "OK", attrs("adminStatus", "deleted"), update(id)...))
		subset(t, map[string]any{"identity": id, "adminStatus": "deleted", "operStatus": "closing"}, got)
	}
	if !slices.Equal(b.core.killed, []string{"1 by 7", "4 by 7"}) {
		t.Errorf("killed %v", b.core.killed)
	}
	b.want(t, 403, "Forbidden", nil, "operation=DELETE", "type=connection", "identity=2")
}

// MG 7.10: the peer's open properties come through, whatever their types.
func TestConnectionProperties(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.core.connections = []router.ConnectionInfo{{ID: 1, Properties: amqp.Map{
		{Key: amqp.Symbol("product"), Value: "x"}, {Key: amqp.Symbol("pid"), Value: int64(0)},
		{Key: amqp.Symbol("sym"), Value: amqp.Symbol("s")}, {Key: amqp.Symbol("none"), Value: nil},
		{Key: amqp.Symbol("list"), Value: amqp.List{int32(1)}}, {Key: amqp.Symbol("bin"), Value: []byte{1}},
	}}}
	_, rows := rowsOf(t, b.ask(attrs("attributeNames", amqp.List{"properties"}), "operation=QUERY", "entityType=connection"))
	got := rows[0]["properties"].(amqp.Map)
	want := amqp.Map{{Key: "product", Value: "x"}, {Key: "pid", Value: int64(0)}, {Key: "sym", Value: "s"},
		{Key: "none", Value: nil}, {Key: "list", Value: amqp.List{int32(1)}}, {Key: "bin", Value: []byte{1}}}
	if string(amqp.AppendValue(nil, got)) != string(amqp.AppendValue(nil, want)) {
		t.Errorf("properties = %v, want %v", got, want)
	}
}

// MG 7.11: UPDATE of a link is acknowledged and changes nothing.
func TestUpdateLink(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.core.links = []router.LinkInfo{{ID: 5, Name: "l", Up: true}}
	subset(t, map[string]any{"adminStatus": "enabled", "operStatus": "up"},
		asMap(t, b.want(t, 200, "OK", attrs("adminStatus", "disabled"), "operation=UPDATE", "type=router.link", "identity=5")))
	b.want(t, 200, "OK", attrs("adminStatus", "disabled"), "operation=UPDATE", "type=router.link", "name=l")
	b.want(t, 400, "", attrs(), "operation=UPDATE", "type=router.link", "identity=5")
	b.want(t, 400, "", attrs("adminStatus", "disabled"), "operation=UPDATE", "type=router.link")
	b.want(t, 404, "Not Found", attrs("adminStatus", "disabled"), "operation=UPDATE", "type=router.link", "name=m")
}
