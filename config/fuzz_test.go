package config

import (
	"reflect"
	"testing"
)

// Any file is read or refused without a panic. What is read is in the form of the
// schema: checking it again changes nothing.
func FuzzParse(f *testing.F) {
	for _, seed := range []struct {
		format Format
		file   string
	}{
		{FormatConf, "router {\n    mode: interior\n    id: A\n}\nlistener {\n    host: 0.0.0.0 # all\n    port: amqp\n    role: edge\n}\n"},
		{FormatConf, "vhost {\n hostname: #.com\n groups: {\n \"$default\": {\"users\": \"*\", \"sources\": [\"a\", \"${user}\"]},\n }\n}\n"},
		{FormatConf, "vhost {\n hostname: h\n groups: {\n $default: {\n users: *\n sources:\n },\n }\n}\n"},
		{FormatConf, "listener {\n addr: h\n openProperties: {\n \"a\": [1, 2.5e3, null, {\"b\": \"\\u00e9\\n\"}] # x\n }\n allowUnsecured: no\n certFile: c\n}\n"},
		{FormatConf, "container {\n containerName: c\n}\nfixed-address {\n prefix: a\n fanout: single\n}\nlinkRoutePattern {\n prefix: b\n}\npolicy {\n maximumConnections: 0\n}\n"},
		{FormatConf, "exchange {\n name: e\n address: a\n}\nbinding {\n exchangeName: e\n nextHopAddress: b\n bindingKey: a.#\n}\nautoLink {\n addr: a\n dir: in\n}\naddress {\n pattern: a/#\n priority: 3\n}\n"},
		{FormatJSON, `[["router", {"id": "A", "workerThreads": 2}], ["listener", {"port": 5672, "http": false, "failoverUrls": "amqp://[::1]:5"}]]`},
		{FormatJSON, `[["log", {"module": 3, "enable": "trace+"}], ["sslProfile", {"name": "p", "protocols": "TLSv1.2"}]]`},
		{FormatYAML, "router: {id: A}\nlistener:\n- port: 5672\n- &l\n  port: 5673\n  openProperties: {a: [1, x, ~]}\n"},
		{FormatYAML, "- address:\n    prefix: a\n- console: {proxy: p, home: h}\n"},
	} {
		f.Add(int(seed.format), []byte(seed.file))
	}
	f.Fuzz(func(t *testing.T, format int, data []byte) {
		c, err := Parse("fuzz", Format(format), data)
		if c == nil {
			t.Fatal("no Config")
		}
		if err != nil {
			if err.Error() == "" || c.Entities != nil {
				t.Errorf("error %q with entities %v", err, c.Entities)
			}
			return
		}
		if c.Router() == nil || c.Policy() == nil {
			t.Error("no router or no policy")
		}
		for _, e := range c.Entities {
			again, warnings, err := Normalize(e.Type, e.Attrs)
			if err != nil || len(warnings) > 0 || !reflect.DeepEqual(again.Attrs, e.Attrs) {
				t.Errorf("%s is not in its final form:\n%v\n%v, %v, %v", e.Type.Name, e.Attrs, again.Attrs, warnings, err)
			}
		}
	})
}
