package server

import (
	"strings"
	"testing"
	"time"

	"qdrouter/amqp"
)

func targetsOf(list string) []target {
	var ts []target
	for _, hp := range strings.Fields(list) {
		host, port, _ := strings.Cut(hp, ":")
		ts = append(ts, target{defaultScheme, host, port})
	}
	return ts
}

// CFG L14, L15. A step is what an attempt comes to:
//
//	fail          no connection
//	open          the peer's open, without failover list
//	open=a:1 b:2  the peer's open, with this list
//	lost          the open connection breaks
//	closed        the peer closes it in an orderly way
func TestFailover(t *testing.T) {
	tests := []struct {
		name  string
		steps string // with commas
		want  string // before each step the targets, next first; after the last too
		delay string // after each step that ends an attempt
	}{
		{"one target", "fail,fail,fail", "c:1|c:1|c:1|c:1", "5s 5s 5s"},
		{"slow after an open", "open,lost,fail,open,closed", "c:1|c:1|c:1|c:1|c:1|c:1", "2s 5s 2s"},
		{"absent list changes nothing", "open=a:1,lost,open,lost", "c:1|c:1 a:1|c:1 a:1|c:1 a:1|c:1 a:1", "1s 1s"},
		{"two tries each, round the ring", "open=a:1 b:2,lost,fail,fail,fail,fail,fail,fail,fail",
			"c:1|c:1 a:1 b:2|c:1 a:1 b:2|a:1 b:2 c:1|a:1 b:2 c:1|b:2 c:1 a:1|b:2 c:1 a:1|c:1 a:1 b:2|c:1 a:1 b:2|a:1 b:2 c:1",
			"1s 1s 1s 1s 1s 1s 1s 1s"},
		{"an open clears the count", "open=a:1,lost,fail,fail,open,lost,fail",
			"c:1|c:1 a:1|c:1 a:1|a:1 c:1|a:1 c:1|a:1 c:1|a:1 c:1|c:1 a:1", "1s 1s 1s 1s 1s"},
		{"an orderly close is no failure", "open=a:1,closed,fail,fail", "c:1|c:1 a:1|c:1 a:1|c:1 a:1|a:1 c:1", "1s 1s 1s"},
		{"a new list keeps the first and the present one", "open=a:1 b:2,lost,fail,fail,fail,open=d:4",
			"c:1|c:1 a:1 b:2|c:1 a:1 b:2|a:1 b:2 c:1|a:1 b:2 c:1|b:2 c:1 a:1|b:2 d:4 c:1", "1s 1s 1s 1s"},
		{"an empty list keeps only those", "open=a:1 b:2,lost,fail,fail,open=",
			"c:1|c:1 a:1 b:2|c:1 a:1 b:2|a:1 b:2 c:1|a:1 b:2 c:1|a:1 c:1", "1s 1s 1s"},
		{"an empty list at the first one", "open=a:1,lost,open=,lost", "c:1|c:1 a:1|c:1 a:1|c:1|c:1", "1s 2s"},
		{"no duplicates", "open=c:1 a:1 a:1 c:2", "c:1|c:1 a:1 c:2", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFailover(target{defaultScheme, "c", "1"})
			f.start()
			got := []string{f.urls()}
			var delays []string
			for step := range strings.SplitSeq(tt.steps, ",") {
				switch list, sent := strings.CutPrefix(step, "open="); {
				case sent:
					f.open(targetsOf(list), true)
				case step == "open":
					f.open(nil, false)
				default:
					delays = append(delays, f.end(step != "closed").String())
					f.start()
				}
				got = append(got, f.urls())
			}
			want := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll("amqp://"+tt.want, " ", ", amqp://"), "|", "|amqp://"), ",,", ",")
			if g := strings.Join(got, "|"); g != want {
				t.Errorf("targets\n got %s\nwant %s", g, want)
			}
			if d := strings.Join(delays, " "); d != tt.delay {
				t.Errorf("delays %s, want %s", d, tt.delay)
			}
		})
	}
	if triesPerTarget != 2 || delayFailover != time.Second {
		t.Error("the numbers of CFG L14 and L15 are pinned")
	}
}

// CFG L15: keys are symbols, the port is a string or a number, and whatever is
// malformed is left out.
func TestReadFailoverList(t *testing.T) {
	item := func(kv ...any) amqp.Map {
		var m amqp.Map
		for i := 0; i < len(kv); i += 2 {
			m = append(m, amqp.MapEntry{Key: amqp.Symbol(kv[i].(string)), Value: kv[i+1]})
		}
		return m
	}
	tests := []struct {
		name string
		prop any // nil: no such property
		want string
		sent bool
	}{
		{"absent", nil, "", false},
		{"empty", amqp.List{}, "", true},
		{"no list", "a:1", "", false},
		{"defaults", amqp.List{item("network-host", "a")}, "amqp://a:5672", true},
		{"all keys", amqp.List{item("network-host", "a", "port", "1", "scheme", "amqps", "hostname", "h")}, "amqps://a:1", true},
		{"port as number", amqp.List{item("network-host", "a", "port", uint16(7)), item("port", int64(8), "network-host", "b")}, "amqp://a:7 amqp://b:8", true},
		{"without host", amqp.List{item("port", "1"), item("network-host", ""), item("network-host", int32(3)), item("network-host", "b", "port", "2")}, "amqp://3:5672 amqp://b:2", true},
		{"items of another type", amqp.List{"a", nil, amqp.List{}, item("network-host", "b")}, "amqp://b:5672", true},
	}
	for _, tt := range tests {
		props := amqp.Map{{Key: amqp.Symbol("product"), Value: "x"}}
		if tt.prop != nil {
			props = append(props, amqp.MapEntry{Key: amqp.Symbol(keyFailoverList), Value: tt.prop})
		}
		list, sent := readFailoverList(amqp.AppendValue(nil, props))
		var got []string
		for _, x := range list {
			got = append(got, x.url())
		}
		if strings.Join(got, " ") != tt.want || sent != tt.sent {
			t.Errorf("%s: %q, %v, want %q, %v", tt.name, got, sent, tt.want, tt.sent)
		}
	}
	for _, raw := range []amqp.Raw{nil, {}, {0xd1}, amqp.AppendValue(nil, "text")} {
		if list, sent := readFailoverList(raw); len(list) > 0 || sent {
			t.Errorf("properties %x: %v, %v", raw, list, sent)
		}
	}
}

// CFG L16.
func TestFailoverList(t *testing.T) {
	tests := []struct {
		urls, want string
		err        string
	}{
		{"", "", ""},
		{" \t", "", ""},
		{"other-host:25000", "[network-host=other-host port=25000]", ""},
		{"second-host:25000, amqps://third-host:5671", "[network-host=second-host port=25000] [network-host=third-host port=5671 scheme=amqps]", ""},
		{"a", "[network-host=a port=5672]", ""},
		{"a,", "[network-host=a port=5672]", ""},
		{"a b : 1", "[network-host=ab port=1]", ""},
		{"amqp://[::1]:7,[fe80::2]", "[network-host=::1 port=7 scheme=amqp] [network-host=fe80::2 port=5672]", ""},
		{"a,,b", "", "no network host in failover item"},
		{"amqp://:5672", "", "Unable to create listener, bad failover list: no network host"},
		{"[::1", "", "no ]"},
	}
	for _, tt := range tests {
		list, err := failoverList(tt.urls)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: error %v, want one with %q", tt.urls, err, tt.err)
		}
		var got []string
		for _, item := range list {
			var kv []string
			for _, e := range item.(amqp.Map) {
				kv = append(kv, string(e.Key.(amqp.Symbol))+"="+e.Value.(string))
			}
			got = append(got, "["+strings.Join(kv, " ")+"]")
		}
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("%q: %s, want %s", tt.urls, g, tt.want)
		}
	}
}
