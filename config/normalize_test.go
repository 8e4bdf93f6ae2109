package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

type symbol string

// Values of all Go types become those of the schema (MG 6.2, CFG B18 to B23).
func TestCoerce(t *testing.T) {
	tests := []struct {
		typeName, attr string
		value          any
		want           any
		err            string // without the type
	}{
		{"listener", "http", "YES", true, ""},
		{"listener", "http", "off", false, ""},
		{"listener", "http", true, true, ""},
		{"listener", "http", uint8(0), false, ""},
		{"listener", "http", 2.5, true, ""},
		{"listener", "http", []any{}, false, ""},
		{"listener", "http", map[string]any{"a": 1}, true, ""},
		{"listener", "http", "1", nil, "Invalid Boolean value ''1''"},
		{"listener", "http", "it's", nil, `Invalid Boolean value '"it's"'`},
		{"listener", "http", struct{}{}, nil, "Invalid Boolean value '{}'"},
		{"listener", "maxFrameSize", "  +1_000 ", int64(1000), ""},
		{"listener", "maxFrameSize", true, int64(1), ""},
		{"listener", "maxFrameSize", false, int64(0), ""},
		{"listener", "maxFrameSize", 12.9, int64(12), ""},
		{"listener", "maxFrameSize", int16(12), int64(12), ""},
		{"listener", "maxFrameSize", uint64(12), int64(12), ""},
		{"listener", "maxFrameSize", uint64(1 << 63), nil, "9.223372036854776e+18 is too large for an integer"},
		{"listener", "maxFrameSize", "99999999999999999999", nil, "99999999999999999999 is too large for an integer"},
		{"listener", "maxFrameSize", "1__0", nil, "invalid literal for int() with base 10: '1__0'"},
		{"listener", "maxFrameSize", "_1", nil, "invalid literal for int() with base 10: '_1'"},
		{"listener", "maxFrameSize", "1_", nil, "invalid literal for int() with base 10: '1_'"},
		{"listener", "maxFrameSize", "0x10", nil, "invalid literal for int() with base 10: '0x10'"},
		{"listener", "maxFrameSize", "+-1", nil, "invalid literal for int() with base 10: '+-1'"},
		{"listener", "maxFrameSize", "", nil, "invalid literal for int() with base 10: ''"},
		{"listener", "maxFrameSize", "1.5", nil, "invalid literal for int() with base 10: '1.5'"},
		{"listener", "maxFrameSize", []any{1}, nil, "invalid literal for int() with base 10: '[1]'"},
		{"listener", "role", "edge", "edge", ""},
		{"listener", "role", 2, "route-container", ""},
		{"listener", "role", " 2", "route-container", ""},
		{"listener", "role", symbol("edge"), "edge", ""},
		{"listener", "role", -1, nil, "Invalid value for enum['normal', 'inter-router', 'route-container', 'edge']: -1"},
		{"listener", "role", "4", nil, "Invalid value for enum['normal', 'inter-router', 'route-container', 'edge']: '4'"},
		{"listener", "role", "Edge", nil, "Invalid value for enum['normal', 'inter-router', 'route-container', 'edge']: 'Edge'"},
		{"listener", "port", uint16(5672), "5672", ""},
		{"listener", "port", 70000, nil, "Invalid value for 'port': 70000 is not between 0 and 65535"},
		{"listener", "host", symbol("h"), "h", ""},
		{"router", "metadata", false, "false", ""},
		{"router", "metadata", 1.5, "1.5", ""},
		{"router", "metadata", float32(0.5), "0.5", ""},
		{"router", "metadata", []any{"a"}, nil, "Invalid value: a list where text should be"},
		{"router", "metadata", []byte("a"), nil, "Invalid value of type []uint8 where text should be"},
		{"vhost", "groups", map[symbol]map[string]int{"g": {"maxSenders": 5}}, map[string]any{"g": map[string]any{"maxSenders": int64(5)}}, ""},
		{"vhost", "groups", []any{}, nil, "Attribute 'groups' must be a map"},
		{"listener", "openProperties", map[string]any{"a": []string{"b"}}, map[string]any{"a": []any{"b"}}, ""},
		{"router.node", "linkState", []string{"A"}, []any{"A"}, ""},
		{"router.node", "linkState", "A", nil, "Attribute 'linkState' must be a list"},
	}
	for _, tt := range tests {
		et := TypeByName(tt.typeName)
		attrs := map[string]any{tt.attr: tt.value}
		if tt.typeName == "vhost" {
			attrs["hostname"] = "h"
		}
		e, _, err := Normalize(et, attrs)
		if tt.err != "" {
			if want := et.LongName + ": " + tt.err; err == nil || err.Error() != want {
				t.Errorf("%s.%s of %#v: error = %v, want %s", tt.typeName, tt.attr, tt.value, err, want)
			}
			continue
		}
		if got := e.Attrs[tt.attr]; err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s.%s of %#v = %#v, %v, want %#v", tt.typeName, tt.attr, tt.value, got, err, tt.want)
		}
	}
}

// Defaults, required attributes and the attributes every entity has (MG 6.1).
func TestNormalize(t *testing.T) {
	tests := []struct {
		typeName string
		attrs    map[string]any
		want     string // attributes, or the error
	}{
		{"policy", nil, "map[defaultVhost:$default enableVhostNamePatterns:false enableVhostPolicy:false maxConnections:65535 maxMessageSize:0 policyDir:]"},
		{"router.config.autoLink", map[string]any{"direction": "in"}, Prefix + ".router.config.autoLink: Missing required attribute 'address'"},
		{"log", map[string]any{"module": "DEFAULT"}, "map[enable:info+ includeSource:false includeTimestamp:true module:DEFAULT outputFile:stderr]"},
		{"log", map[string]any{"module": "AGENT"}, "map[module:AGENT]"},
		{"dummy", map[string]any{"type": "dummy", "name": "n", "identity": "i", "arg1": nil, "num1": -5}, "map[name:n num1:-5]"},
		{"dummy", map[string]any{"type": symbol(Prefix + ".dummy")}, "map[]"},
		{"dummy", map[string]any{"type": "listener"}, Prefix + ".dummy: Attribute 'type' has fixed value '" + Prefix + ".dummy' but given 'listener'"},
		{"dummy", map[string]any{"arg3": 1, "xyzzy": 2},
			Prefix + ".dummy: Unknown attribute 'arg3' for '" + Prefix + ".dummy' (did you mean 'arg1'?)\n" + Prefix + ".dummy: Unknown attribute 'xyzzy' for '" + Prefix + ".dummy'"},
	}
	for _, tt := range tests {
		e, _, err := Normalize(TypeByName(tt.typeName), tt.attrs)
		got := fmt.Sprint(e.Attrs)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s of %v\n got %s\nwant %s", tt.typeName, tt.attrs, got, tt.want)
		}
	}
	given := map[string]any{"dir": "in", "prefix": "a"}
	if _, _, err := Normalize(TypeByName("router.config.linkRoute"), given); err != nil || len(given) != 2 {
		t.Errorf("Normalize changed its input to %v (%v)", given, err)
	}
}

// What a CREATE request may set (MG 4.3, MG 6.3).
func TestCheckCreate(t *testing.T) {
	tests := []struct {
		typeName, attrs string // names with blanks between
		want            string // parts of the errors
	}{
		{"listener", "name type port http protocolFamily", ""},
		{"listener", "identity", "Cannot set attribute 'identity' in CREATE"},
		{"connector", "connectionStatus", "Cannot set attribute 'connectionStatus' in CREATE"},
		{"vhost", "id groups maxMessageSize", "Cannot set attribute 'maxMessageSize' in CREATE"},
		{"listener", "prot", "Unknown attribute 'prot' for '" + Prefix + ".listener' (did you mean 'port'?)"},
	}
	for _, tt := range tests {
		attrs := map[string]any{}
		for name := range strings.FieldsSeq(tt.attrs) {
			attrs[name] = "x"
		}
		err := CheckCreate(TypeByName(tt.typeName), attrs)
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != Prefix+"."+tt.typeName+": "+tt.want {
			t.Errorf("CheckCreate(%s, %s) = %v, want %s", tt.typeName, tt.attrs, err, tt.want)
		}
	}
}

// What an UPDATE request may set (MG 4.4).
func TestCheckUpdate(t *testing.T) {
	old, _, err := Normalize(TypeByName("vhost"), map[string]any{"hostname": "h", "maxConnections": 5, "maxMessageSize": 7})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		changes map[string]any
		want    string
	}{
		{"updatable", map[string]any{"maxConnections": 6, "groups": map[string]any{}}, ""},
		{"same value", map[string]any{"hostname": "h", "maxMessageSize": "7"}, ""},
		{"same value by its old name", map[string]any{"id": "h"}, ""},
		{"other value", map[string]any{"hostname": "i"}, "Cannot update attribute 'hostname' in UPDATE"},
		{"value where there was none", map[string]any{"name": "n"}, "Cannot update attribute 'name' in UPDATE"},
		{"unknown", map[string]any{"foo": 1}, "Unknown attribute 'foo' for '" + Prefix + ".vhost'"},
	}
	for _, tt := range tests {
		err := CheckUpdate(old, tt.changes)
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != Prefix+".vhost: "+tt.want {
			t.Errorf("%s: CheckUpdate(%v) = %v, want %s", tt.name, tt.changes, err, tt.want)
		}
	}
}

// Identities and the names that stand in for missing ones (MG 5).
func TestIdentity(t *testing.T) {
	tests := []struct {
		typeName       string
		attrs          map[string]any
		file           string
		identity, name string
		wantCounted    bool
	}{
		{typeName: "router", attrs: map[string]any{"id": "A"}, identity: "router/A", name: "router/A"},
		{typeName: "listener", identity: "listener/:amqp", name: "listener/:amqp"},
		{typeName: "listener", attrs: map[string]any{"name": "l", "host": "::1", "port": 5672}, identity: "listener/::1:5672:l", name: "l"},
		{typeName: "connector", attrs: map[string]any{"port": 1}, identity: "connector/127.0.0.1:1", name: "connector/127.0.0.1:1"},
		{typeName: "sslProfile", attrs: map[string]any{"name": "p"}, identity: "sslProfile/p", name: "p"},
		{typeName: "authServicePlugin", attrs: map[string]any{"name": "p"}, identity: "authServicePlugin/p", name: "p"},
		{typeName: "log", attrs: map[string]any{"module": "AGENT"}, identity: "log/AGENT", name: "log/AGENT"},
		{typeName: "policy", identity: "policy/None", name: "policy/None"},
		{typeName: "management", identity: "self", name: "self"},
		{typeName: "vhost", attrs: map[string]any{"id": "h"}, identity: "vhost/h", name: "vhost/h"},
		{typeName: "vhost", attrs: map[string]any{"hostname": "h", "name": "n"}, identity: "vhost/h", name: "n"},
		{typeName: "dummy", identity: "dummy/7", name: "dummy/7", wantCounted: true},
		{typeName: "dummy", attrs: map[string]any{"name": "n"}, identity: "dummy/7", name: "n", wantCounted: true},
		{typeName: "router.config.address", attrs: map[string]any{"prefix": "a"}, identity: "7", name: "", wantCounted: true},
		{typeName: "router.config.address", attrs: map[string]any{"prefix": "a"}, file: "x.conf", identity: "7", name: "address/7", wantCounted: true},
		{typeName: "router.config.address", attrs: map[string]any{"prefix": "a", "name": "n"}, file: "x.conf", identity: "7", name: "n", wantCounted: true},
	}
	for _, tt := range tests {
		e, _, err := Normalize(TypeByName(tt.typeName), tt.attrs)
		if err != nil {
			t.Errorf("%s %v: %v", tt.typeName, tt.attrs, err)
			continue
		}
		e.File = tt.file
		counted := false
		identity, name := Identity(e, func() int64 { counted = true; return 7 })
		if identity != tt.identity || name != tt.name || counted != tt.wantCounted {
			t.Errorf("Identity(%s %v) = %q, %q, counted %v, want %q, %q, %v", tt.typeName, tt.attrs, identity, name, counted, tt.identity, tt.name, tt.wantCounted)
		}
	}
}

// Names in camel case (CFG B14).
func TestCamelCase(t *testing.T) {
	tests := []struct{ name, want string }{
		{"linkRoute", "linkRoute"}, {"link-route", "linkRoute"}, {"auto_link", "autoLink"}, {"ssl.profile", "sslProfile"},
		{"worker threads", "workerThreads"}, {"sasl-ConfigDir", "saslConfigdir"}, {"SASL-config", "SASLConfig"},
		{"a--b", "aB"}, {"-a", "A"}, {"a-", "a"}, {"", ""}, {"über-äpfel", "überÄpfel"},
	}
	for _, tt := range tests {
		if got := camelCase(tt.name); got != tt.want {
			t.Errorf("camelCase(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"host", "port", "saslMechanisms", "authenticatePeer", "maxFrameSize"}
	tests := []struct{ name, want string }{
		{"prot", "port"}, {"hots", "host"}, {"saslMechanism", "saslMechanisms"}, {"SASLmechanisms", "saslMechanisms"},
		{"authenticate-peer", "authenticatePeer"}, {"maxframesize", "maxFrameSize"}, {"xyzzy", ""}, {"", ""},
	}
	for _, tt := range tests {
		if got := nearest(tt.name, names); got != tt.want {
			t.Errorf("nearest(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}
