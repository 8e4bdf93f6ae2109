package report

import (
	"io"
	"math"
	"strings"
	"testing"

	"qdrouter/management/client"
)

func TestCells(t *testing.T) {
	tests := []struct {
		name, got, want string
	}{
		{"null", text(nil), ""},
		{"text", text("a'b"), "a'b"},
		{"boolean", text(true) + text(false), "TrueFalse"},
		{"integer", text(int64(-5)), "-5"},
		{"float", text(2.0) + " " + text(0.25), "2.0 0.25"},
		{"list", text([]any{"a", int64(1), nil, true}), "['a', 1, None, True]"},
		{"map", text(client.Map{{Key: "b", Value: "x"}, {Key: "a", Value: []any{}}}), "{'b': 'x', 'a': []}"},
		{"quote in a list", text([]any{"it's", `"`, `'"`, "\\\n\x01é\u200b"}), `["it's", '"', '\'"', '\\\n\x01é\u200b']`},

		{"plain number", plainNumber(int64(1234567)), "1234567"},
		{"plain number beyond int64", plainNumber(uint64(math.MaxUint64)), "18446744073709551615"},
		{"plain number of a boolean", plainNumber(true), "1"},
		{"plain number of text", plainNumber("unlimited"), "unlimited"},
		{"plain number of null", plainNumber(nil), "None"},
		{"count of null", count(nil), ""},
		{"thousands", thousands(int64(999)) + " " + thousands(int64(1000)) + " " + thousands(int64(1234567)), "999 1,000 1,234,567"},
		{"thousands of null", thousands(nil), ""},
		{"thousands below zero", thousands(int64(-123)) + " " + thousands(int64(-1234)), "-123 -1,234"},

		{"long time", longTime(int64(93784)), "001:02:03:04"},
		{"long time of a thousand days", longTime(int64(86400 * 1000)), "1000:00:00:00"},
		{"long time of null", longTime(nil), "-"},
		{"short time", shortTime(3725), "01:02:05"},
		{"short time wraps at a day", shortTime(86401), "00:00:01"},

		{"bytes", binarySize(1023), "1023"},
		{"KiB", binarySize(1024), "1.00 KiB"},
		{"tens of KiB", binarySize(10240), "10.0 KiB"},
		{"hundreds of KiB", binarySize(1023 * 1024), "1023 KiB"},
		{"MiB", binarySize(83886080), "80.0 MiB"},
		{"beyond PiB", binarySize(1 << 61), "2048 PiB"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for _, tt := range []struct {
		key  any
		want address
	}{
		{nil, address{}},
		{"", address{}},
		{"M0foo", address{"mobile", "foo", "0"}},
		{"MFfoo", address{"mobile", "foo", "F"}},
		{"M", address{"mobile", "", ""}},
		{"RINT.B", address{"router", "INT.B", ""}},
		{"Ax", address{"area", "x", ""}},
		{"Ltemp.1", address{"local", "temp.1", ""}},
		{"Tqdrouter", address{"topo", "qdrouter", ""}},
		{"Ca", address{"link-in", "a", ""}},
		{"Ea.#", address{"link-in", "a.#", ""}},
		{"Da", address{"link-out", "a", ""}},
		{"Fa", address{"link-out", "a", ""}},
		{"HE1", address{"edge", "E1", ""}},
		{"Qx", address{"unknown: Q", "x", ""}},
	} {
		if got := parseAddress(tt.key); got != tt.want {
			t.Errorf("parseAddress(%v) = %+v, want %+v", tt.key, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	text := func(layout func(io.Writer)) string {
		var b strings.Builder
		layout(&b)
		return b.String()
	}
	ragged := table{title: "T", heads: []string{"a", "b\"", "c"}}
	ragged.add("é", "")
	ragged.add("long", "x", `"q"`)
	const classic = "T\n" +
		"  a     b\"  c\n" +
		"  ===============\n" +
		"  é         \n" +
		"  long  x   \"q\"\n"
	if got := text(ragged.classic); got != classic {
		t.Errorf("classic:\n%s\nwant\n%s", got, classic)
	}
	const csv = "T\n\"a\",\"b\"\"\",\"c\"\n\"é\",\n\"long\",\"x\",\"\"\"q\"\"\"\n"
	if got := text(ragged.csv); got != csv {
		t.Errorf("CSV:\n%s\nwant\n%s", got, csv)
	}
	empty := table{title: "T", heads: []string{"a"}}
	if classic, csv := text(empty.classic), text(empty.csv); classic != "T\n" || csv != "T\n" {
		t.Errorf("without rows: %q and %q, want the title alone", classic, csv)
	}
}
