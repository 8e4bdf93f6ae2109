package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Rules over several entities (CFG B26 to B29) and those of single ones that are
// found when they are applied.
func TestCrossRules(t *testing.T) {
	router := func(mode string) string { return "router {\n mode: " + mode + "\n id: R\n}\n" }
	const standalone = "role='standalone' not allowed to connect to or accept connections from other routers."
	for _, tt := range []fileTest{
		{name: "second router (B26)", file: "router {\n id: A\n}\nrouter {\n id: B\n}",
			problems: []string{"4 router: Adding ~router singleton router/B of line 4 when router/A of line 1 already exists"}},
		{name: "second policy (B26)", file: "policy {\n}\npolicy {\n}",
			problems: []string{"3 policy: Adding ~policy singleton policy/None of line 3 when policy/None of line 1 already exists"}},
		{name: "one name for two types (B27)", file: "sslProfile {\n name: x\n}\nconnector {\n name: x\n}",
			problems: []string{"5 connector.name: adding connector 'x' of line 4 duplicates unique attribute 'name' from existing sslProfile 'x' of line 1"}},
		{name: "two unnamed listeners at one place (B27)", file: "listener {\n port: 1\n}\nlistener {\n port: 1\n}",
			problems: []string{"4 listener: adding listener/:1 of line 4 duplicates unique attribute 'name' from existing listener/:1 of line 1"}},
		{name: "named listeners at one place", file: "listener {\n port: 1\n}\nlistener {\n name: b\n port: 1\n}", want: "listener(port=1) listener(name=b port=1)"},
		{name: "two log sections of a module (B27)", file: "log {\n module: AGENT\n}\nlog {\n module: AGENT\n enable: trace+\n}",
			problems: []string{"4 log: adding log/AGENT of line 4 duplicates unique attribute 'name' from existing log/AGENT of line 1"}},
		{name: "profiles need a name (B27)", file: "sslProfile {\n}\nauthServicePlugin {\n}",
			problems: []string{"1 sslProfile.name: ~sslProfile: Missing required attribute 'name'", "3 authServicePlugin.name: ~authServicePlugin: Missing required attribute 'name'"}},
		{name: "unnamed addresses never clash", file: "linkRoute {\n prefix: a\n direction: in\n}\nlinkRoute {\n prefix: a\n direction: in\n}",
			want: "linkRoute(direction=in prefix=a) linkRoute(direction=in prefix=a)"},

		{name: "standalone with an inter-router listener (B28)", file: router("standalone") + "listener {\n role: inter-router\n}", problems: []string{"6 listener.role: " + standalone}},
		{name: "standalone by default, section first (B28)", file: "connector {\n role: edge\n}\n", problems: []string{"2 connector.role: " + standalone}},
		{name: "edge with an inter-router connector (B28)", file: router("edge") + "connector {\n role: inter-router\n}",
			problems: []string{"6 connector.role: role='inter-router' only allowed with router mode='interior' for connector/127.0.0.1:amqp of line 5"}},
		{name: "edge with an edge listener (B28)", file: router("edge") + "listener {\n role: edge\n}",
			problems: []string{"6 listener.role: role='edge' only allowed with router mode='interior' for listener/:amqp of line 5"}},
		{name: "edge with an edge connector", file: router("edge") + "connector {\n role: edge\n}", want: "router(id=R mode=edge) connector(role=edge)"},
		{name: "interior takes all roles", file: router("interior") + "listener {\n role: edge\n}\nconnector {\n role: edge\n}\nconnector {\n port: 1\n role: inter-router\n}",
			want: "router(id=R mode=interior) listener(role=edge) connector(role=edge) connector(port=1 role=inter-router)"},
		{name: "no follow-up of a faulty router", file: "router {\n mode: x\n}\nconnector {\n role: edge\n}",
			problems: []string{"2 router.mode: ~router: Invalid value for enum['standalone', 'interior', 'edge']: 'x'"}},

		{name: "no follow-up of a section that was not understood", file: "router { id: A\n mode: interior\n}\nlistener {\n role: inter-router\n saslPlugin: p\n}",
			problems: []string{`1: neither "NAME {" nor "}": router { id: A`},
			warnings: []string{"AGENT (warning) Invalid config file syntax (line 1):\n>>> router { id: A"}},
		{name: "router id too long (B29)", file: "router {\n id: " + strings.Repeat("é", 128) + "\n}",
			problems: []string{"2 router.id: Router ID \"" + strings.Repeat("é", 128) + "\" exceeds the maximum allowed length (127 characters)"}},
		{name: "router id of 127 characters", file: "router {\n id: " + strings.Repeat("é", 127) + "\n}", want: "router(id=" + strings.Repeat("é", 127) + ")"},
		{name: "router id with a control character (B7)", file: "router {\n id: abc\\bdef\n}",
			problems: []string{"2 router.id: Router id attribute containing character '\b' in id 'abc\bdef' is disallowed."}},
		{name: "router id with a blank", file: "router {\n id: abc def\n}",
			problems: []string{"2 router.id: Router id attribute containing character ' ' in id 'abc def' is disallowed."}},

		{name: "reserved properties (L8)", file: "listener {\n openProperties: {\n \"product\": 1, \"qd.x\": 1, \"x-opt-qd.y\": 1, \"scheme\": 1, \"hostname\": 1, \"version\": 1\n }\n}",
			problems: []string{"2 listener.openProperties: Reserved key 'product' not allowed in openProperties", "2 listener.openProperties: Reserved key 'qd.x' not allowed in openProperties",
				"2 listener.openProperties: Reserved key 'version' not allowed in openProperties", "2 listener.openProperties: Reserved key 'x-opt-qd.y' not allowed in openProperties"}},
		{name: "properties between routers (L8)", file: router("interior") + "connector {\n role: edge\n openProperties: {\n \"a\": 1\n }\n}",
			problems: []string{"7 connector.openProperties: openProperties not allowed for role edge"}},
		{name: "failover list without host (L16)", file: "listener {\n failoverUrls: a, amqp://:5\n}",
			problems: []string{`2 listener.failoverUrls: Unable to create listener, bad failover list: no network host in failover item "amqp://:5"`}},
		{name: "unknown saslPlugin", file: "listener {\n saslPlugin: p\n}", problems: []string{"2 listener.saslPlugin: Run Time: Cannot find sasl plugin p"}},
		{name: "unknown sslProfile of an authServicePlugin (CFG 6)", file: "authServicePlugin {\n name: a\n sslProfile: p\n}",
			problems: []string{"3 authServicePlugin.sslProfile: ~authServicePlugin: Cannot find sslProfile 'p'"}},
		{name: "uidFormat too long (S15)", file: "sslProfile {\n name: p\n uidFormat: cslounn1\n}",
			problems: []string{"3 sslProfile.uidFormat: ~sslProfile: Invalid value for 'uidFormat': 8 letters, at most 7 are allowed"}},

		{name: "numbers without sense (B24)",
			file: "router {\n workerThreads: 0\n helloIntervalSeconds: 0\n}\nlistener {\n port: 65536\n idleTimeoutSeconds: -1\n maxSessions: -5\n}\nconnector {\n port: -1\n cost: 0\n}\npolicy {\n maxConnections: -1\n}",
			problems: []string{
				"3 router.helloIntervalSeconds: ~router: Invalid value for 'helloIntervalSeconds': 0 is below the minimum 1",
				"2 router.workerThreads: ~router: Invalid value for 'workerThreads': 0 is below the minimum 1",
				"6 listener.port: ~listener: Invalid value for 'port': 65536 is not between 0 and 65535",
				"8 listener.maxSessions: ~listener: Invalid value for 'maxSessions': -5 is below the minimum 0",
				"7 listener.idleTimeoutSeconds: ~listener: Invalid value for 'idleTimeoutSeconds': -1 is below the minimum 0",
				"11 connector.port: ~connector: Invalid value for 'port': -1 is not between 0 and 65535",
				"12 connector.cost: ~connector: Invalid value for 'cost': 0 is below the minimum 1",
				"15 policy.maxConnections: Configuration: maxConnections must be >= 0"}},
		{name: "numbers that are left alone", file: "listener {\n port: 0\n maxFrameSize: 100\n maxSessions: 500000\n}\nlistener {\n port: amqps\n linkCapacity: 99_999\n}",
			want: "listener(maxFrameSize=100 maxSessions=500000 port=0) listener(linkCapacity=99999 port=amqps)"},

		{name: "types that a file cannot have (D8)", file: "connection {\n}\nrouter {\n id: A\n}", problems: []string{"1 connection: Entity type '~connection' cannot be configured in a file"}},
		{name: "console (D7)", file: "console {\n proxy: p\n home: h\n listener: l\n}", want: "console(home=h listener=l proxy=p)",
			warnings: []string{"AGENT (warning) Console entity is deprecated: Use http:yes on listener entity instead"}},
		{name: "console without proxy (D7)", file: "console {\n home: h\n}", problems: []string{"1 console.proxy: ~console: Missing required attribute 'proxy'"}},
		{name: "settings of no use", file: "listener {\n requireSsl: yes\n}\nauthServicePlugin {\n name: a\n authService: h:1\n}\nsslProfile {\n name: p\n protocols: TLSv1.2,SSLv23\n}\nsslProfile {\n name: q\n protocols: TLSv1;TLSv1.3\n}\nlistener {\n name: l\n sslProfile: none\n}",
			want: "listener(requireSsl=true) authServicePlugin(authService=h:1 name=a) sslProfile(name=p protocols=TLSv1.2,SSLv23) sslProfile(name=q protocols=TLSv1;TLSv1.3) listener(name=l sslProfile=none)",
			warnings: []string{
				"CONN_MGR (warning) requireSsl without an sslProfile refuses every connection (listener/:amqp of line 1)",
				"CONN_MGR (warning) Attribute authService of entity authServicePlugin has been deprecated. Use host and port instead.",
				"CONN_MGR (error) Unknown TLS version 'SSLv23' in protocols: connections with this profile will fail (sslProfile 'p' of line 8)",
				"CONN_MGR (warning) There is no sslProfile 'none' (listener 'l' of line 16)"}},
	} {
		tt.run(t, FormatConf)
	}
}

// Faults that make 1.19 drop the section and go on (CFG D1 to D6).
func TestDroppedSections(t *testing.T) {
	create := func(typeName, reason string) string {
		return "AGENT (error) Error performing CREATE of " + Prefix + ".router.config." + typeName + ": " + reason
	}
	const both = "ROUTER_CORE (error) Error configuring linkRoute: Both connection and containerId cannot be specified. Specify only one"
	const phases = "Phase values must be between 0 and 9"
	address := func(attrs string) string {
		return "address {\n" + strings.ReplaceAll(attrs, ", ", "\n") + "\n}\naddress {\n prefix: good\n}"
	}
	const good = "address(prefix=good)"
	for _, tt := range []fileTest{
		{name: "D1 both", file: address("prefix: p, pattern: q"), want: good,
			warnings: []string{"ROUTER (warning) Cannot set both 'prefix' and 'pattern': ignoring configured address p, q"}},
		{name: "D1 neither", file: address("waypoint: yes"), want: good,
			warnings: []string{"ROUTER (warning) Must set either 'prefix' or 'pattern' attribute: ignoring configured address"}},
		{name: "D1 one phase", file: address("prefix: a, ingressPhase: 1"), want: good, warnings: []string{create("address", phases)}},
		{name: "D1 phase 10", file: address("prefix: a, ingressPhase: 0, egressPhase: 10"), want: good, warnings: []string{create("address", phases)}},
		{name: "D1 phase below 0", file: address("prefix: a, ingressPhase: -1, egressPhase: 1"), want: good, warnings: []string{create("address", phases)}},
		{name: "D1 phases", file: "address {\n prefix: a\n ingressPhase: 0\n egressPhase: 9\n}", want: "address(egressPhase=9 ingressPhase=0 prefix=a)"},
		{name: "D1 priority", file: address("prefix: a, priority: 10"), want: good, warnings: []string{create("address", "Priority value, if present, must be between 0 and 9")}},
		{name: "D1 negative priority", file: "address {\n prefix: a\n priority: -3\n}", want: "address(prefix=a priority=-3)"},
		{name: "D1 fallback with waypoint", file: address("prefix: a, enableFallback: yes, waypoint: yes"), want: good,
			warnings: []string{create("address", "Fallback cannot be specified with waypoint or non-zero ingress and egress phases")}},
		{name: "D1 nothing left of the prefix", file: address("prefix: /."), want: good, warnings: []string{create("address", "Invalid prefix or pattern")}},
		{name: "D1 same pattern twice", file: "address {\n prefix: good\n}\naddress {\n pattern: /good/#\n distribution: closest\n}\naddress {\n prefix: good.\n}", want: good,
			warnings: []string{"ERROR (error) Already exists: Duplicate pattern 'good/#' not added to parse tree", "ERROR (error) Already exists: Duplicate pattern 'good/#' not added to parse tree"}},
		{name: "D1 both separators are one", file: "address {\n pattern: a.b\n}\naddress {\n pattern: a/b\n}", want: "address(pattern=a.b)",
			warnings: []string{"ERROR (error) Already exists: Duplicate pattern 'a/b' not added to parse tree"}},
		{name: "D2", file: "linkRoute {\n prefix: p\n pattern: q\n direction: in\n}\nlinkRoute {\n direction: in\n}\nlinkRoute {\n prefix: a\n direction: in\n connection: c\n containerId: d\n}",
			want: "", warnings: []string{"ROUTER (warning) Cannot set both 'prefix' and 'pattern': ignoring link route p, q",
				"ROUTER (warning) Must set either 'prefix' or 'pattern' attribute: ignoring link route address", both}},
		{name: "D2 without direction", file: "linkRoute {\n prefix: a\n}", problems: []string{"1 linkRoute.direction: ~router.config.linkRoute: Missing required attribute 'direction'"}},
		{name: "D3", file: "autoLink {\n address: a\n direction: in\n connection: c\n containerId: d\n}\nautoLink {\n address: a\n direction: in\n phase: 10\n}",
			want: "", warnings: []string{both, create("autoLink", "Value of phase must be between 0 and 9")}},
		{name: "D4", file: "exchange {\n address: x\n}\nexchange {\n name: a\n address: x\n}\nexchange {\n name: b\n address: x\n}\nexchange {\n name: c\n address: y\n alternatePhase: 11\n}",
			want: "exchange(address=x name=a)", warnings: []string{create("exchange", "exchange requires a unique name"), create("exchange", "duplicate exchange address"),
				create("exchange", "phase must be in the range 0-9")}},
		{name: "D5", file: "binding {\n exchangeName: a\n nextHopAddress: h\n}\nexchange {\n name: a\n address: x\n}\nbinding {\n exchangeName: a\n nextHopAddress: h\n}\nbinding {\n exchangeName: a\n bindingKey: #\n nextHopAddress: h\n nextHopPhase: 0\n}\nbinding {\n exchangeName: a\n nextHopAddress: h\n nextHopPhase: 12\n}",
			want: "exchange(address=x name=a) binding(exchangeName=a nextHopAddress=h)", warnings: []string{create("binding", "Named exchange does not exist"),
				create("binding", "Next hop for key already exists"), create("binding", "phase must be in the range 0-9")}},
	} {
		tt.run(t, FormatConf)
	}
}

// What the policy of 1.19 refuses in a vhost, and what it only warns of (CFG 7.1, P1,
// P2, P19, P20).
func TestVhosts(t *testing.T) {
	vhost := func(attrs, groups string) string {
		return fmt.Sprintf(`["vhost", {"hostname": "h"%s, "groups": {%s}}]`, attrs, groups)
	}
	tests := []struct {
		name     string
		vhosts   string
		problem  string // "" when it is good
		warnings []string
	}{
		{"good", vhost(`, "aliases": "a, b c", "maxConnections": 65535, "allowUnknownUser": true`,
			`"$default": {"remoteHosts": "*", "maxSenders": "5", "allowDynamicSource": "TRUE", "sources": ["a", "${user}-x*"]}, "g": {"users": ["u", "v"], "targetPattern": "${user}.x, y/${user}"}`), "", nil},
		{"limit", vhost(`, "maxConnections": 65536`, ``), "Policy 'h' is invalid: Policy vhost 'h' option 'maxConnections' has error 'Value '65536' is above maximum '65535'.'.", nil},
		{"negative limit", vhost(`, "maxConnectionsPerUser": -1`, ``), "Policy 'h' is invalid: Policy vhost 'h' option 'maxConnectionsPerUser' has error 'Value '-1' is below minimum '0'.'.", nil},
		{"negative size", vhost(`, "maxMessageSize": -1`, ``), "Policy 'h' is invalid: Policy vhost 'h' option 'maxMessageSize' has error 'Value '-1' is below minimum '0'.'.", nil},
		{"alias of itself", vhost(`, "aliases": "a, h"`, ``), "Policy 'h' is invalid: Policy vhost 'h' option 'aliases' value 'h' duplicates vhost name", nil},
		{"alias twice", vhost(`, "aliases": "a b,a"`, ``), "Policy 'h' is invalid: Policy vhost 'h' option 'aliases' value 'a' is duplicated", nil},
		{"no $default", vhost(`, "allowUnknownUser": true`, ``), "Policy 'h' is invalid: Policy vhost 'h' allows connections by default but default settings are not defined", nil},
		{"group is no map", vhost(``, `"g": 5`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' must be a map", nil},
		{"user in two groups", vhost(``, `"a": {"users": "u, v"}, "b": {"users": ["v"]}`), "Policy 'h' is invalid: Policy vhost 'h' user 'v' is in multiple user groups 'a' and 'b'", nil},
		{"groups without users (P8)", vhost(``, `"a": {}, "b": {}`), "", nil},
		{"group limit", vhost(``, `"g": {"maxConnectionsPerHost": 70000}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' option 'maxConnectionsPerHost' has error 'Value '70000' is above maximum '65535'.'.", nil},
		{"no number", vhost(``, `"g": {"maxSenders": "many"}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' option 'maxSenders' has error 'Value 'many' does not resolve to an integer.'.", nil},
		{"no boolean (P1)", vhost(``, `"g": {"allowDynamicSource": "si"}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' option 'allowDynamicSource' has illegal boolean value 'si'.", nil},
		{"number for a boolean", vhost(``, `"g": {"allowDynamicSource": 1}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' option 'allowDynamicSource' has illegal boolean value '1'.", nil},
		{"conflict", vhost(``, `"g": {"sources": "a", "sourcePattern": "b"}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' specifies conflicting 'sources' and 'sourcePattern' attributes. Use only one or the other.", nil},
		{"list of other things", vhost(``, `"g": {"users": [1]}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' option 'users' has illegal value '1' in its list. Each must be text.", nil},
		{"no list", vhost(``, `"g": {"targets": 5}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' option 'targets' has illegal value '5'. Type must be 'str' or 'list'.", nil},
		{"user twice (P19)", vhost(``, `"g": {"targets": "${user}${user}"}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' policy key 'targets' item '${user}${user}' contains multiple user subtitution tokens", nil},
		{"user inside of a pattern (P20)", vhost(``, `"g": {"targetPattern": "a.${user}.b"}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' policy key 'targetPattern' item 'a.${user}.b' may contain match pattern '${user}' as a prefix or a suffix only.", nil},
		{"user as part of a token (P20)", vhost(``, `"g": {"targetPattern": "a${user}"}`), "Policy 'h' is invalid: Policy vhost 'h' user group 'g' policy key 'targetPattern' item 'a${user}' may contain match pattern '${user}' as a prefix or a suffix only.", nil},
		{"unknown keys are ignored (P1)", vhost(``, `"g": {"foo": 1, "name": "x"}`), "",
			[]string{"POLICY (warning) Policy vhost 'h' user group 'g' option 'foo' is ignored.", "POLICY (warning) Policy vhost 'h' user group 'g' option 'name' is ignored."}},
		{"alias of another host", vhost(``, ``) + `, ["vhost", {"hostname": "i", "aliases": "h"}]`, "Policy for vhost 'i' defines alias 'h' which conflicts with an existing vhost named 'h'", nil},
		{"host is an alias", vhost(`, "aliases": "i"`, ``) + `, ["vhost", {"hostname": "i"}]`, "Policy is creating vhost 'i' but that name is already an alias for vhost 'h'", nil},
		{"one alias for two", vhost(`, "aliases": "a"`, ``) + `, ["vhost", {"hostname": "i", "aliases": "a"}]`, "Policy for vhost 'i' alias 'a' conflicts with existing alias for vhost 'h'", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse("p.json", FormatJSON, []byte("["+tt.vhosts+"]"))
			var le *LoadError
			got := ""
			if errors.As(err, &le) {
				got = le.Problems[0].Text
				if le.Problems[0].Kind != "PolicyError" || len(le.Problems) > 1 {
					t.Errorf("problems = %q of kind %q, want one PolicyError", problems(err), le.Problems[0].Kind)
				}
			}
			if got != tt.problem {
				t.Errorf("%s:\n got %q\nwant %q", tt.vhosts, got, tt.problem)
			}
			if got := warnings(c); !reflect.DeepEqual(got, tt.warnings) {
				t.Errorf("%s: warnings = %q, want %q", tt.vhosts, got, tt.warnings)
			}
		})
	}
}

// What is left of a file that holds everything (CFG 3), and what of it comes later.
func TestUnimplemented(t *testing.T) {
	const file = `
router {
  mode: interior
}
listener {
  port: 1
  http: yes
}
listener {
  port: 2
  httpRootDir: /x
}
listener {
  port: 3
  role: inter-router
}
listener {
  port: 4
  role: edge
}
connector {
  role: inter-router
}
policy {
  enableVhostPolicy: yes
}
linkRoute {
  prefix: a
  direction: in
}
linkRoute {
  prefix: a
  direction: out
}
console {
  proxy: p
  home: h
}
`
	c, err := Parse("x", FormatConf, []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"console", "policy enableVhostPolicy", "listener http", "listener role edge"}
	if !reflect.DeepEqual(c.Unimplemented, want) {
		t.Errorf("unimplemented = %q, want %q", c.Unimplemented, want)
	}
}

func TestNothingUnimplemented(t *testing.T) {
	c, err := Parse("x", FormatConf, []byte("router {\n id: A\n}\nlistener {\n}\naddress {\n prefix: a\n}\nlog {\n module: AGENT\n}\npolicy {\n}"))
	if err != nil || len(c.Unimplemented) > 0 {
		t.Errorf("unimplemented = %q, %v, want nothing", c.Unimplemented, err)
	}
}

// ValidateCross gives management the same answers (MG 6.5, MG 8.2).
func TestValidateCross(t *testing.T) {
	entity := func(typeName string, attrs map[string]any) *Entity {
		e, _, err := Normalize(TypeByName(typeName), attrs)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	router := entity("router", map[string]any{"id": "A"})
	listener := entity("listener", map[string]any{"name": "l"})
	existing := []*Entity{router, listener}
	tests := []struct {
		name string
		e    *Entity
		want string
	}{
		{"good", entity("connector", map[string]any{"name": "c"}), ""},
		{"name in use by another type", entity("connector", map[string]any{"name": "l"}), "duplicates unique attribute 'name'"},
		{"role", entity("connector", map[string]any{"role": "edge"}), "role='standalone' not allowed to connect to or accept connections from other routers."},
		{"singleton", entity("router", map[string]any{"id": "B"}), "singleton"},
	}
	for _, tt := range tests {
		err := ValidateCross(tt.e, existing)
		if got := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: ValidateCross = %v, want it to contain %q", tt.name, err, tt.want)
		}
	}
}

// Failover lists (CFG L16).
func TestParseFailoverURLs(t *testing.T) {
	tests := []struct {
		list string
		want []FailoverURL
		err  string
	}{
		{"a", []FailoverURL{{"", "a", "5672"}}, ""},
		{"amqp://a:1, b ,amqps:// c : 2", []FailoverURL{{"amqp", "a", "1"}, {"", "b", "5672"}, {"amqps", "c", "2"}}, ""},
		{"a,", []FailoverURL{{"", "a", "5672"}}, ""},
		{"[::1]:5, amqp://[fe80::1]", []FailoverURL{{"", "::1", "5"}, {"amqp", "fe80::1", "5672"}}, ""},
		{"a:amqps", []FailoverURL{{"", "a", "amqps"}}, ""},
		{"", nil, `no network host in failover item ""`},
		{"a,,b", nil, `no network host in failover item ""`},
		{"amqp://", nil, `no network host in failover item "amqp://"`},
		{"[::1", nil, `no ] in failover item "[::1"`},
		{"[]:1", nil, `no network host in failover item "[]:1"`},
		{"[::1]x", nil, `"x" behind the address in failover item "[::1]x"`},
	}
	for _, tt := range tests {
		got, err := ParseFailoverURLs(tt.list)
		if !reflect.DeepEqual(got, tt.want) || err != nil && err.Error() != tt.err || err == nil && tt.err != "" {
			t.Errorf("ParseFailoverURLs(%q) = %v, %v, want %v, %s", tt.list, got, err, tt.want, tt.err)
		}
	}
}
