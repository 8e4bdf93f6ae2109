package config

import (
	"strings"
	"testing"
)

// The lines of the conf format (CFG B2 to B7).
func TestConfLines(t *testing.T) {
	for _, tt := range []fileTest{
		{name: "plain (B3, B4)", file: "router {\n    mode: standalone\n    id: A\n}\n", want: "router(id=A mode=standalone)"},
		{name: "comments only (A18)", file: "# nothing\n\n   # here\n", want: ""},
		{name: "blank (A18)", file: " ", want: ""},
		{name: "no blanks (B4)", file: "router{\nid:A\n}", want: "router(id=A)"},
		{name: "tabs and blanks (B3, B4)", file: "router \t {\n\tid \t:\t  A  \n  }  ", want: "router(id=A)"},
		{name: "CR LF (B2)", file: "router {\r\n  id: A\r\n}\r\n", want: "router(id=A)"},
		{name: "CR alone", file: "router {\r  id: A\r}\r", want: "router(id=A)"},
		{name: "comments behind all forms (B3, B5)", file: "router { # one\n id: A # two\n # three\n} # four", want: "router(id=A)"},
		{name: "inner blanks stay (B5)", file: "router {\n metadata: a  b\n}", want: "router(metadata=a  b)"},
		{name: "cut at # (B5)", file: "router {\n metadata: a#b\n}", want: "router(metadata=a)",
			warnings: []string{"AGENT (warning) Value of attribute 'metadata' is cut at '#' (line 2)"}},
		{name: "prefix is cut at # too (B6)", file: "address {\n prefix: a/#\n}", want: "address(prefix=a/)",
			warnings: []string{"AGENT (warning) Value of attribute 'prefix' is cut at '#' (line 2)"}},
		{name: "pattern keeps # and ends at a blank (B6)", file: "address {\n pattern: a/#  # note\n}", want: "address(pattern=a/#)"},
		{name: "pattern of # alone (B6)", file: "address {\n pattern: #\n}", want: "address(pattern=#)"},
		{name: "bindingKey and hostname keep # (B6)",
			file: "exchange {\n name: e\n address: x\n}\nbinding {\n exchangeName: e\n bindingKey: a.#\tnote\n nextHopAddress: y\n}\nvhost {\n hostname: #.com more\n}",
			want: "exchange(address=x name=e) binding(bindingKey=a.# exchangeName=e nextHopAddress=y) vhost(hostname=#.com)"},
		{name: "escapes (B7)", file: `router {` + "\n" + ` metadata: \"a\" \\ \/ \u00e9 \ud83d\ude00 \t|` + "\n}", want: "router(metadata=\"a\" \\ / é 😀 \t|)"},
		{name: "single quotes are ordinary (B7)", file: "router {\n metadata: 'a'\n}", want: "router(metadata='a')"},
		{name: "trailing comma belongs to the value (B4)", file: "router {\n id: A,\n}", want: "router(id=A,)"},
		{name: "colon in the value", file: "connector {\n host: ::1\n}", want: "connector(host=::1)"},
		{name: "last one wins (B16)", file: "router {\n id: A\n id: B\n}", want: "router(id=B)"},
		{name: "many sections (B16)", file: "listener {\n port: 1\n}\nlistener {\n port: 2\n}", want: "listener(port=1) listener(port=2)"},
		{name: "byte order mark (B11a)", file: "\uFEFFrouter {\n id: A\n}", want: "router(id=A)"},
		{name: "names in other spellings (B14)", file: "ssl-profile {\n name: p\n cert-file: c\n private_key_file: k\n}\nauto_link {\n address: a\n direction: in\n}",
			want: "sslProfile(certFile=c name=p privateKeyFile=k) autoLink(address=a direction=in)"},
		{name: "id of any characters but blanks", file: "router {\n id: Zürich_1-路由\n}", want: "router(id=Zürich_1-路由)"},
		{name: "quoted line (B11)", file: "router {\n \"id\": \"A\"\n}", want: "router(id=A)",
			warnings: []string{"AGENT (warning) Invalid config file syntax (line 2):\n>>> \"id\": \"A\""}},
	} {
		tt.run(t, FormatConf)
	}
}

// What the conf format refuses, with the line and the text of it (CFG B3, B4, B7, B11).
func TestConfErrors(t *testing.T) {
	invalid := func(line string, n string) string {
		return "AGENT (warning) Invalid config file syntax (line " + n + "):\n>>> " + line
	}
	for _, tt := range []fileTest{
		{name: "brace on its own line", file: "router\n{\n id: A\n}\nlog {\n}",
			problems: []string{`1: neither "NAME {" nor "}": router`, "5 log.module: ~log: Missing required attribute 'module'"},
			warnings: []string{invalid("router", "1")}},
		{name: "one-line section", file: "router { id: A }",
			problems: []string{`1: neither "NAME {" nor "}": router { id: A }`}, warnings: []string{invalid("router { id: A }", "1")}},
		{name: "dotted name", file: "router.config.address {\n prefix: a\n}",
			problems: []string{`1: neither "NAME {" nor "}": router.config.address {`}, warnings: []string{invalid("router.config.address {", "1")}},
		{name: "text behind the brace", file: "router {\n id: A\n} x",
			problems: []string{`3: neither "KEY: VALUE" nor "KEY: {" nor "}": } x`, `1: section "router" has no closing "}"`},
			warnings: []string{invalid("} x", "3")}},
		{name: "no value", file: "autoLink {\n direction: in\n address:\n}",
			problems: []string{"3: attribute without a value: address:"}, warnings: []string{invalid("address:", "3")}},
		{name: "value starts with a brace", file: "router {\n id: {A\n}",
			problems: []string{`2: neither "KEY: VALUE" nor "KEY: {" nor "}": id: {A`}, warnings: []string{invalid("id: {A", "2")}},
		{name: "backslashes and tabs in an error text", file: "router {\n mode: a\\\\b\\tc\n}",
			problems: []string{`2 router.mode: ~router: Invalid value for enum['standalone', 'interior', 'edge']: 'a\\b\tc'`}},
		{name: "trailing comma in a mode", file: "router {\n mode: standalone,\n}",
			problems: []string{"2 router.mode: ~router: Invalid value for enum['standalone', 'interior', 'edge']: 'standalone,'"}},
		{name: "double quote", file: "router {\n id: \"A\"\n}", problems: []string{`2 router.id: unescaped double quote in a value; write \"`}},
		{name: "unknown escape", file: "router {\n debugDumpFile: C:\\qdr\n}", problems: []string{`2 router.debugDumpFile: unknown escape \q; write \\ for a backslash`}},
		{name: "short \\u", file: "router {\n id: \\u12\n}", problems: []string{`2 router.id: \u without four hexadecimal digits`}},
		{name: "backslash at the end", file: "router {\n id: a\\\n}", problems: []string{`2 router.id: lone backslash at the end of a value; write \\`}},
		{name: "control character", file: "router {\n id: a\x01b\n}", problems: []string{`2 router.id: control character '\x01' in a value`}},
		{name: "tab inside of a value", file: "router {\n metadata: a\tb\n}", problems: []string{`2 router.metadata: control character '\t' in a value`}},
		{name: "not closed", file: "router {\n id: A\n", problems: []string{`1: section "router" has no closing "}"`}},
		{name: "section in a section", file: "router {\n id: A\nlog {\n module: AGENT\n}",
			problems: []string{`3: section inside of section "router" of line 1, which has no closing "}": log {`}},
		{name: "brace too much", file: "router {\n id: A\n}\n}", problems: []string{`4: "}" that closes nothing`}},
		{name: "attribute outside", file: "id: A\nrouter {\n}", problems: []string{"1: attribute outside of a section: id: A"}},
		{name: "invalid UTF-8 (B11a)", file: "router {\n id: A\n metadata: \xff\n}", problems: []string{"3: invalid UTF-8"}},
		{name: "map where a scalar belongs", file: "router {\n id: {\n a: b\n }\n}",
			problems: []string{"2 router.id: ~router: Invalid value: a map where text should be"}},
		{name: "map not closed", file: "router {\n id: {\n a: b\n",
			problems: []string{`2: map "id" has no closing "}"`, `1: section "router" has no closing "}"`, "2 router.id: ~router: Invalid value: a map where text should be"}},
		{name: "quoted line that is no JSON", file: "router {\n \"id\": A\n}",
			problems: []string{`2: 'A' where a JSON value should be: "id": A`}, warnings: []string{invalid(`"id": A`, "2")}},
		{name: "all errors are told (B11, B17 to B20)",
			file: "router {\n mode: edgy\n workerThreads: four\n}\nlistner {\n}\nlistener {\n prot: 5672\n http: maybe\n cost: 0\n host:\n}",
			problems: []string{
				"11: attribute without a value: host:",
				"2 router.mode: ~router: Invalid value for enum['standalone', 'interior', 'edge']: 'edgy'",
				"3 router.workerThreads: ~router: invalid literal for int() with base 10: 'four'",
				"5 listner: No such entity type '~listner'",
				"10 listener.cost: ~listener: Invalid value for 'cost': 0 is below the minimum 1",
				"9 listener.http: ~listener: Invalid Boolean value ''maybe''",
				"8 listener.prot: ~listener: Unknown attribute 'prot' for '~listener'",
			},
			warnings: []string{invalid("host:", "11")}},
	} {
		tt.run(t, FormatConf)
	}
}

// Groups in every written form of the table of CFG B9, in the unquoted form of the
// user guide (CFG B10), and openProperties.
func TestConfMaps(t *testing.T) {
	vhost := func(groups string) string {
		return "vhost {\n  hostname: h\n  groups: {\n" + groups + "  }\n  maxConnections: 5\n}"
	}
	const one = `vhost(groups={"g":{"remoteHosts":"*","users":"*"}} hostname=h maxConnections=5)`
	const two = `vhost(groups={"a":{"users":"u1"},"b":{"users":"u2"}} hostname=h maxConnections=5)`
	for _, tt := range []fileTest{
		{name: "one entry a line, each with a comma", file: vhost("    \"a\": {\"users\": \"u1\"},\n    \"b\": {\"users\": \"u2\"},\n"), want: two},
		{name: "one multi-line entry", file: vhost("    \"g\": {\n \"users\": \"*\",\n \"remoteHosts\": \"*\"\n }\n"), want: one},
		{name: "two multi-line entries", file: vhost("    \"a\": {\n \"users\": \"u1\"\n },\n \"b\": {\n \"users\": \"u2\"\n }\n"), want: two},
		{name: "last entry without a comma", file: vhost("    \"a\": {\"users\": \"u1\"},\n \"b\": {\"users\": \"u2\"}\n"), want: two},
		{name: "trailing commas", file: vhost("    \"a\": {\"users\": \"u1\",},\n \"b\": {\n \"users\": \"u2\",\n },\n"), want: two},
		{name: "comments", file: vhost("  # before\n    \"a\": {\"users\": \"u1\"}, # one\n\n # between\n \"b\": { # two\n \"users\": \"u2\"\n }\n # after\n"), want: two},
		{name: "# in a string", file: vhost("    \"g\": {\"sourcePattern\": \"a/#\", \"targetPattern\": \"#\"}\n"),
			want: `vhost(groups={"g":{"sourcePattern":"a/#","targetPattern":"#"}} hostname=h maxConnections=5)`},
		{name: "braces in a string", file: vhost("    \"g\": {\"sources\": \"${user}, {{\"}\n"),
			want: `vhost(groups={"g":{"sources":"${user}, {{"}} hostname=h maxConnections=5)`},
		{name: "native values", file: vhost("    \"g\": {\"users\": [\"a\", \"b\"], \"maxSenders\": 5, \"allowDynamicSource\": true}\n"),
			want: `vhost(groups={"g":{"allowDynamicSource":true,"maxSenders":5,"users":["a","b"]}} hostname=h maxConnections=5)`},
		{name: "closed on the last line", file: "vhost {\n hostname: h\n groups: { # here\n \"g\": {\"users\": \"*\"} } # there\n maxConnections: 5\n}",
			want: `vhost(groups={"g":{"users":"*"}} hostname=h maxConnections=5)`},
		{name: "empty", file: vhost(""), want: `vhost(groups={} hostname=h maxConnections=5)`},
		{name: "unquoted (B10)", file: vhost("  # the guide's form\n $default: {\n users: *\n remoteHosts: 127.0.0.1, ::1 # home\n sources: \n allowDynamicSource: true,\n targetPattern: a.*\n }\n b: {\n users: x y,\n },\n"),
			want: `vhost(groups={"$default":{"allowDynamicSource":"true","remoteHosts":"127.0.0.1, ::1","sources":"","targetPattern":"a.*","users":"*"},"b":{"users":"x y"}} hostname=h maxConnections=5)`},
		{name: "unquoted value cut at #", file: vhost(" g: {\n sourcePattern: a/#\n }\n"),
			want:     `vhost(groups={"g":{"sourcePattern":"a/"}} hostname=h maxConnections=5)`,
			warnings: []string{"AGENT (warning) Value of attribute 'sourcePattern' is cut at '#' (line 5)"}},
		{name: "openProperties", file: "listener {\n openProperties: {\n \"a\": 1, \"b\": -2.5, \"c\": null, \"d\": [true, {\"e\": \"#\"}],\n \"f\": 12345678901234567890, \"g\": 1e3\n }\n port: 1\n}",
			want: `listener(openProperties={"a":1,"b":-2.5,"c":null,"d":[true,{"e":"#"}],"f":12345678901234567000,"g":1000} port=1)`},
		{name: "openProperties in another spelling (B14)", file: "listener {\n open-properties: {\n \"a\": 1\n }\n}\nconnector {\n open_properties: {\n a: 1\n }\n}",
			want: `listener(openProperties={"a":1}) connector(openProperties={"a":"1"})`},
		{name: "JSON error", file: vhost("    \"a\": {\"users\" \"u1\"}\n") + "\nlistener {\n prot: 1\n}",
			problems: []string{`4 vhost.groups: '"' where ":" should be`, "9 listener.prot: ~listener: Unknown attribute 'prot' for '~listener'"}},
		{name: "missing comma", file: vhost(" \"a\": {\"users\": \"u1\"}\n \"b\": {\"users\": \"u2\"}\n"),
			problems: []string{`5 vhost.groups: '"' where "," or "}" should be`}},
		{name: "JSON not closed", file: "vhost {\n hostname: h\n groups: {\n \"a\": {}\n\nlistener {\n port: x y\n}",
			problems: []string{`6 vhost.groups: 'l' where "," or "}" should be`, `6: section inside of section "vhost" of line 1, which has no closing "}": listener {`}},
		{name: "JSON to the end of the file", file: "vhost {\n hostname: h\n groups: {\n \"a\": {}\n",
			problems: []string{`5 vhost.groups: end of text where "," or "}" should be`, `1: section "vhost" has no closing "}"`}},
		{name: "text behind the map", file: "vhost {\n hostname: h\n groups: {\n } x\n}",
			problems: []string{`4 vhost.groups: text behind the "}" that closes the map of line 3: x`}},
		{name: "map on the line of the key", file: "vhost {\n hostname: h\n groups: {\"a\": {}}\n}",
			problems: []string{`3: neither "KEY: VALUE" nor "KEY: {" nor "}": groups: {"a": {}}`},
			warnings: []string{"AGENT (warning) Invalid config file syntax (line 3):\n>>> groups: {\"a\": {}}"}},
		{name: "nested too deeply", file: "vhost {\n hostname: h\n groups: {\n" + strings.Repeat("a: {\n", 64) + strings.Repeat("}\n", 65),
			problems: []string{"67: more than 64 levels of nesting"}, warnings: []string{"POLICY (warning) Policy vhost 'h' user group 'a' option 'a' is ignored."}},
		{name: "not a map", file: "vhost {\n hostname: h\n groups: x\n}", problems: []string{"3 vhost.groups: ~vhost: Attribute 'groups' must be a map"}},
		{name: "properties not a map (B22)", file: "listener {\n openProperties: x\n}", problems: []string{"2 listener.openProperties: ~listener: Properties must be a map"}},
		{name: "properties not ASCII (B22)", file: "listener {\n openProperties: {\n \"ü\": 1\n }\n}",
			problems: []string{"2 listener.openProperties: ~listener: Property keys must be ASCII encoded"}},
	} {
		tt.run(t, FormatConf)
	}
}
