package router

import (
	"strings"
	"testing"
)

// bare is a router of which only the options are of interest; nothing of it runs.
func bare(mode Mode) *Router { return &Router{opts: Options{ID: "R", Area: "0", Mode: mode}} }

// TestPlainAddress: scheme, host, one leading slash and one trailing dot or slash do not count
// (RT E40).
func TestPlainAddress(t *testing.T) {
	for in, want := range map[string]string{
		"foo":                     "foo",
		"/foo":                    "foo",
		"foo/":                    "foo",
		"foo.":                    "foo",
		"amqp:/foo":               "foo",
		"amqp://h:1/foo":          "foo",
		"amqp://user@h/foo/":      "foo",
		"my-scheme:/foo/bar.":     "foo/bar",
		"a.b":                     "a.b",
		"a/b":                     "a/b",
		"//foo":                   "/foo",
		"foo//":                   "foo/",
		"foo/.":                   "foo/",
		"a:b":                     "a:b",
		"a/b:/c":                  "a/b:/c",
		"amqp:foo":                "amqp:foo",
		":/foo":                   ":/foo",
		"amqp:/_topo/0/R/temp.x":  "_topo/0/R/temp.x",
		"amqp://h":                "",
		"amqp:/":                  "",
		"/":                       "",
		".":                       "",
		"":                        "",
		strings.Repeat("x", 2019): strings.Repeat("x", 2019),
	} {
		if got := PlainAddress(in); got != want {
			t.Errorf("PlainAddress(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestKeyOf: the classes of addresses and the keys that management shows (RT E41).
func TestKeyOf(t *testing.T) {
	tests := []struct {
		written string
		phase   byte
		mode    Mode
		want    addressKey // "" = names nothing
	}{
		{"x", '0', Standalone, "M0x"},
		{"x", '3', Standalone, "M3x"},
		{"amqp:/x", '0', Standalone, "M0x"},
		{"amqp://h:1/x/", '0', Standalone, "M0x"},
		{"a/b.c", '1', Standalone, "M1a/b.c"},
		{"$management", '0', Standalone, "M0$management"},
		{"_$temp.abc", '0', Standalone, "M0_$temp.abc"},
		{"_local/x", '0', Standalone, "Lx"},
		{"_local/x", '7', Standalone, "Lx"},
		{"_local/a/b", '0', Standalone, "La/b"},
		{"_topo/0/R/x", '0', Standalone, "Lx"},
		{"_topo/all/R/x", '0', Standalone, "Lx"},
		{"amqp:/_topo/0/R/$management", '0', Interior, "L$management"},
		{"_edge/R/x", '0', Standalone, "Lx"},
		{"_topo/0/S/x", '0', Interior, "RS"},
		{"_topo/all/S/x/y", '0', Interior, "RS"},
		{"_topo/0/all/x", '0', Interior, "Tx"},
		{"_topo/all/all/x", '0', Interior, "Tx"},
		{"_topo/1/S/x", '0', Interior, "A1"},
		{"_topo/1/all/x", '0', Interior, "A1"},
		{"_edge/S/x", '0', Interior, "HS"},
		{"_topo/0/S/x", '0', Edge, "L_edge"},
		{"_topo/1/S/x", '0', Edge, "L_edge"},
		{"_topo/0/all/x", '0', Edge, "L_edge"},
		{"_topo/0/R/x", '0', Edge, "Lx"},
		{"_edge/S/x", '0', Edge, "L_edge"},
		{"_edge/R/x", '0', Edge, "Lx"},
		{"_other/x", '0', Interior, "M0_other/x"},
		{"_topo", '0', Interior, "M0_topo"},
		{"_local", '0', Interior, "M0_local"},
		{"", '0', Standalone, ""},
		{"/", '0', Standalone, ""},
		{"amqp://h", '0', Standalone, ""},
		{"_topo/0//x", '0', Interior, ""},
		{"_edge//x", '0', Interior, ""},
	}
	for _, tt := range tests {
		got, ok := bare(tt.mode).keyOf(tt.written, tt.phase)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s: keyOf(%q, %q) = %q, %v, want %q", tt.mode, tt.written, tt.phase, got, ok, tt.want)
		}
	}
}

// TestKeyText: patterns see an address without its class and phase.
func TestKeyText(t *testing.T) {
	for key, want := range map[addressKey]string{"M0a/b": "a/b", "M9x": "x", "Lx": "x", "RS": "S", "Tx": "x"} {
		if got := key.text(); got != want {
			t.Errorf("%q.text() = %q, want %q", key, got, want)
		}
	}
}
