package config

import (
	"strings"
	"testing"
)

func TestFormatOf(t *testing.T) {
	tests := []struct {
		path string
		want Format
	}{
		{"qdrouterd.conf", FormatConf}, {"a.json", FormatJSON}, {"dir/a.yaml", FormatYAML}, {"a.yml", FormatYAML},
		{"a.JSON", FormatConf}, {"json", FormatConf}, {"a.json.bak", FormatConf}, {"", FormatConf},
	}
	for _, tt := range tests {
		if got := FormatOf(tt.path); got != tt.want {
			t.Errorf("FormatOf(%q) = %v, want %v (CFG B1)", tt.path, got, tt.want)
		}
	}
}

// The JSON format (CFG B13, B18 to B23).
func TestJSON(t *testing.T) {
	for _, tt := range []fileTest{
		{name: "empty list", file: "[]", want: ""},
		{name: "native values", file: `[
  # a comment
  ["router", {"id": "A", "workerThreads": 2}],
  ["listener", {"port": 5672, "http": false, "authenticatePeer": "yes", "maxFrameSize": 4096.9, "requireSsl": 0, "role": 2, "metrics": true}]
]`, want: "router(id=A workerThreads=2) listener(authenticatePeer=true http=false maxFrameSize=4096 metrics=true port=5672 requireSsl=false role=route-container)",
			warnings: nil},
		{name: "names in other spellings (B14)", file: `[["link route", {"prefix": "a", "direction": "in"}], ["auth-service-plugin", {"name": "x", "sasl.init.hostname": "h"}]]`,
			want:     "linkRoute(direction=in prefix=a) authServicePlugin(name=x realm=h)",
			warnings: []string{"AGENT (warning) Attribute 'saslInitHostname' of entity 'authServicePlugin' has been deprecated. Use 'realm' instead"}},
		{name: "keys of maps stay", file: `[["listener", {"openProperties": {"a-b": "c_d"}}]]`, want: `listener(openProperties={"a-b":"c_d"})`},
		{name: "null is absent", file: `[["listener", {"port": null, "host": "h"}]]`, want: "listener(host=h)"},
		{name: "last key counts (B16)", file: `[["router", {"id": "A", "id": "B"}]]`, want: "router(id=B)"},
		{name: "number for text", file: `[["router", {"id": 17, "metadata": true}]]`, want: "router(id=17 metadata=true)"},
		{name: "trailing comma", file: "[[\"router\", {\"id\": \"A\",}]]", problems: []string{"1: Expecting property name enclosed in double quotes: '}' where it should be"}},
		{name: "trailing comment", file: "[\n[\"router\", {}] # x\n]", problems: []string{`2: '#' where "," or "]" should be`}},
		{name: "not closed", file: "[\n[\"router\", {}]\n", problems: []string{`3: end of text where "," or "]" should be`}},
		{name: "text behind", file: "[]\nx", problems: []string{"2: 'x' where the end of the file should be"}},
		{name: "an object at the top", file: `{"router": {}}`, problems: []string{`1: '{' where "[" should be`}},
		{name: "no attributes", file: `[["router"]]`, problems: []string{`1: a section must be a list of a name and a map: ["listener", {"port": "amqp"}]`}},
		{name: "too much", file: `[["router", {}, 1]]`, problems: []string{`1: '1' where "]" should be`}},
		{name: "name is no text", file: `[[1, {}]]`, problems: []string{"1: '1' where the name of a section in double quotes should be"}},
		{name: "attributes are no map", file: `[["router", []]]`, problems: []string{`1: '[' where "{" should be`}},
		{name: "bad number", file: `[["router", {"workerThreads": 01}]]`, problems: []string{`1: "01" is not a JSON number`}},
		{name: "huge number", file: `[["router", {"workerThreads": 1e999}]]`, problems: []string{"1: 1e999 is too large a number"}},
		{name: "number beyond 64 bits", file: `[["router", {"workerThreads": 1e30}]]`,
			problems: []string{"1 router.workerThreads: ~router: 1e+30 is too large for an integer"}},
		{name: "bad word", file: `[["router", {"id": nil}]]`, problems: []string{"1: 'n' where a JSON value should be"}},
		{name: "string over two lines", file: "[[\"router\", {\"id\": \"a\nb\"}]]", problems: []string{"1: string without closing quote"}},
		{name: "lines of attributes", file: "[[\"listener\",\n{\"port\": 1,\n\"prot\": 2,\n\"cost\": \"x\"}]]", problems: []string{
			"4 listener.cost: ~listener: invalid literal for int() with base 10: 'x'",
			"3 listener.prot: ~listener: Unknown attribute 'prot' for '~listener'"}},
		{name: "nested too deeply", file: `[["router", {"id": ` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + "}]]",
			problems: []string{"1: more than 64 levels of nesting"}},
		{name: "no follow-up of what stands behind a fault", file: "[[\"listener\", {\"role\": \"inter-router\", \"saslPlugin\": \"p\", \"cost\": 0}],\n[\"router\", {\"mode\": \"interior\",}]]",
			problems: []string{"2: Expecting property name enclosed in double quotes: '}' where it should be",
				"1 listener.cost: ~listener: Invalid value for 'cost': 0 is below the minimum 1"}},
		{name: "a type is given", file: `[["router", {"type": "router"}]]`, problems: []string{"1 router.type: ~router: Unknown attribute 'type' for '~router'"}},
	} {
		tt.run(t, FormatJSON)
	}
}

// The YAML format: a list of maps with one key, or one map.
func TestYAML(t *testing.T) {
	for _, tt := range []fileTest{
		{name: "empty", file: "# nothing\n", want: ""},
		{name: "null", file: "~\n", want: ""},
		{name: "list", file: "- router:\n    id: A\n- listener:\n    port: 5672\n    stripAnnotations: no\n    http: no\n- listener: {port: amqps, authenticatePeer: yes}\n",
			want: "router(id=A) listener(http=false port=5672 stripAnnotations=no) listener(authenticatePeer=true port=amqps)"},
		{name: "map", file: "router:\n  id: A\naddress:\n- prefix: a\n- prefix: b\n  waypoint: on\npolicy:\n",
			want: "router(id=A) address(prefix=a) address(prefix=b waypoint=true) policy()"},
		{name: "values keep their spelling", file: "router: {id: 007, metadata: 1.50, workerThreads: \"8\"}", want: "router(id=007 metadata=1.50 workerThreads=8)"},
		{name: "names in other spellings (B14)", file: "ssl-profile:\n  name: p\n  cert-file: c", want: "sslProfile(certFile=c name=p)"},
		{name: "maps hold native values", file: "listener:\n  openProperties:\n    a: 1\n    b: [true, 2.5, x, ~, 2026-01-02, \"3\"]\n    c: {d: no, e: .inf}\n",
			want: `listener(openProperties={"a":1,"b":[true,2.5,"x",null,"2026-01-02","3"],"c":{"d":"no","e":".inf"}})`},
		{name: "groups", file: "vhost:\n  hostname: h\n  groups:\n    $default:\n      users: \"*\"\n      sourcePattern: a/#\n",
			want: `vhost(groups={"$default":{"sourcePattern":"a/#","users":"*"}} hostname=h)`},
		{name: "anchors", file: "- listener: &l\n    host: h\n- connector: *l\n", want: "listener(host=h) connector(host=h)"},
		{name: "merge keys", file: "listener:\n- &a {host: h, port: 1, cost: 5}\n- &b\n  port: 2\n  <<: *a\n- {<<: [{port: 3}, *b], cost: 6}\n" +
			"- port: 4\n  openProperties: {x: &x {a: 1, b: 2}, y: {<<: *x, b: 3}}\n",
			want: `listener(cost=5 host=h port=1) listener(cost=5 host=h port=2) listener(cost=6 host=h port=3) ` +
				`listener(openProperties={"x":{"a":1,"b":2},"y":{"a":1,"b":3}} port=4)`},
		{name: "a merge of itself", file: "listener:\n- &a {<<: *a, p: 1}\n", problems: []string{"2: more than 64 levels of nesting"}},
		{name: "merge keys unfold", file: "listener:\n  openProperties:\n    a: &a {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1}\n" +
			"    b: &b {<<: [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]}\n    c: &c {<<: [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]}\n" +
			"    d: &d {<<: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]}\n    e: &e {<<: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]}\n",
			problems: []string{"4: the aliases unfold to too much"}},
		{name: "a merge key with text", file: "listener:\n  <<: x\n", problems: []string{"2: a merge key (<<) needs a map or a list of maps"}},
		{name: "null is absent", file: "listener: {port: ~, host: h}", want: "listener(host=h)"},
		{name: "syntax error", file: "router:\n  id: [\n", problems: []string{"2: did not find expected node content"}},
		{name: "two documents", file: "router:\n---\nlistener:\n", problems: []string{"2: a second document in the file"}},
		{name: "text", file: "hello", problems: []string{"1: the file must be a list or a map of sections"}},
		{name: "two keys", file: "- router:\n- listener:\n  log:\n", problems: []string{"2: each item of the list must be a map with one key, the name of the section"}},
		{name: "section is text", file: "\nrouter: A", problems: []string{"2 router: a section must be a map from attributes to values"}},
		{name: "section is a list in a list", file: "- listener:\n  - port: 1\n", problems: []string{"2 listener: a section must be a map from attributes to values"}},
		{name: "key is a list", file: "router:\n  ? [a]\n  : b\n", problems: []string{"2 router: the name of an attribute must be text"}},
		{name: "no follow-up of what stands behind a fault", file: "- listener: {role: inter-router}\n- x\n- router: {mode: interior}\n",
			problems: []string{"2: each item of the list must be a map with one key, the name of the section"}},
		{name: "aliases unfold", file: "listener:\n  openProperties:\n    a: &a [1,1,1,1,1,1,1,1,1,1]\n" +
			"    b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n    c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"    d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n    e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n    f: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
			problems: []string{"3: the aliases unfold to too much"}},
		{name: "lines", file: "listener:\n- port: 1\n  prot: 2\n- cost: x\n  metrics: 1\nlistner:\n- {}\n", problems: []string{
			"3 listener.prot: ~listener: Unknown attribute 'prot' for '~listener'",
			"4 listener.cost: ~listener: invalid literal for int() with base 10: 'x'",
			"5 listener.metrics: ~listener: Invalid Boolean value ''1''",
			"7 listner: No such entity type '~listner'"}},
	} {
		tt.run(t, FormatYAML)
	}
}

// The same configuration in each format gives the same entities.
func TestFormatsAgree(t *testing.T) {
	files := map[Format]string{
		FormatConf: "router {\n mode: interior\n id: A\n}\nlistener {\n port: 5672\n role: inter-router\n cost: 2\n}\naddress {\n prefix: a\n waypoint: yes\n}\n",
		FormatJSON: `[["router", {"mode": 1, "id": "A"}], ["listener", {"port": 5672, "role": "inter-router", "cost": 2}], ["address", {"prefix": "a", "waypoint": true}]]`,
		FormatYAML: "router: {mode: interior, id: A}\nlistener:\n- port: 5672\n  role: inter-router\n  cost: 2\naddress: {prefix: a, waypoint: yes}\n",
	}
	const want = "router(id=A mode=interior) listener(cost=2 port=5672 role=inter-router) address(prefix=a waypoint=true)"
	for format, file := range files {
		c, err := Parse("x", format, []byte(file))
		if err != nil || summary(c) != want {
			t.Errorf("format %d: %s, %v, want %s", format, summary(c), err, want)
		}
	}
}
