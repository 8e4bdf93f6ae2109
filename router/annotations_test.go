package router

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"qdrouter/amqp"
)

// Small encoded values, as strings of octets.
func sym(s string) string { return "\xa3" + octet(len(s)) + s }
func str(s string) string { return "\xa1" + octet(len(s)) + s }
func octet(n int) string  { return string([]byte{byte(n)}) }

func mapOf(parts ...string) string { return compound("\xc1", parts) }

func listOf(parts ...string) string { return compound("\xc0", parts) }

func compound(code string, parts []string) string {
	body := strings.Join(parts, "")
	return code + octet(len(body)+1) + octet(len(parts)) + body
}

const annotationsSection = "\x00\x53\x72"

// TestAnnotated: user entries first and in their order, then the router's in theirs; ingress is
// kept, the trace extended (RT F80, F81).
func TestAnnotated(t *testing.T) {
	tests := []struct {
		name  string
		in    string // the map of the message, "" = it has none
		to    string
		phase byte
		want  string
	}{
		{"none there", "", "q", 0,
			mapOf(sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
		{"no address", "", "", 0,
			mapOf(sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
		{"phase", "", "q", 1,
			mapOf(sym("x-opt-qd.phase"), "\x54\x01", sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
		{"user's", mapOf(sym("x-opt-user"), "\x54\x05", str("k"), str("v")), "q", 0,
			mapOf(sym("x-opt-user"), "\x54\x05", str("k"), str("v"), sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
		{"of another router, user's behind them (F83)",
			mapOf(sym("x-opt-qd.trace"), listOf(str("0/A"), str("0/B")), sym("x-opt-user"), "\x54\x05", sym("x-opt-qd.ingress"), str("0/A"), sym("x-opt-qd.to"), str("old"), str("k"), str("v")), "q", 0,
			mapOf(sym("x-opt-user"), "\x54\x05", str("k"), str("v"), sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str("0/A"), sym("x-opt-qd.trace"), listOf(str("0/A"), str("0/B"), str("0/R")))},
		{"stream", mapOf(sym("x-opt-qd.stream"), "\x54\x01"), "q", 2,
			mapOf(sym("x-opt-qd.phase"), "\x54\x02", sym("x-opt-qd.stream"), "\x54\x01", sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
		{"obsolete ones go (F82)", mapOf(sym("x-opt-qd.class"), "\x54\x01", sym("x-opt-qd."), "\x54\x01"), "q", 0,
			mapOf(sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
		{"named by a string: the user's (IR 5.3)", mapOf(str("x-opt-qd.to"), str("mine"), str("x-opt-qd.trace"), "\x43"), "q", 0,
			mapOf(str("x-opt-qd.to"), str("mine"), str("x-opt-qd.trace"), "\x43", sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
		{"empty trace", mapOf(sym("x-opt-qd.trace"), "\x45"), "", 0,
			mapOf(sym("x-opt-qd.ingress"), str("0/R"), sym("x-opt-qd.trace"), listOf(str("0/R")))},
	}
	for _, tt := range tests {
		var n annotations
		if tt.in != "" {
			if e := n.read([]byte(tt.in), false); e != nil {
				t.Errorf("%s: %v", tt.name, e)
			}
		}
		want := []byte("before" + annotationsSection + tt.want)
		if got := n.annotated([]byte("before"), []byte(tt.to), tt.phase, "0/R"); !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", tt.name, got, want)
		}
	}
}

// TestStripped: what is left are the user's entries; without any there is no section (RT F81,
// F82).
func TestStripped(t *testing.T) {
	tests := []struct{ in, want string }{
		{mapOf(), ""},
		{mapOf(sym("x-opt-qd.to"), str("q"), sym("x-opt-qd.class"), "\x43", sym("x-opt-qd."), "\x43"), ""},
		{mapOf(sym("x-opt-user"), "\x54\x05"), annotationsSection + mapOf(sym("x-opt-user"), "\x54\x05")},
		{mapOf(sym("x-opt-qd.to"), "\x43", str("k"), str("v"), sym("x-opt-qd.trace"), "\x43", sym("x-opt-user"), "\x54\x05"),
			annotationsSection + mapOf(str("k"), str("v"), sym("x-opt-user"), "\x54\x05")},
	}
	for _, tt := range tests {
		var n annotations
		if e := n.read([]byte(tt.in), true); e != nil {
			t.Errorf("%q: %v", tt.in, e)
		}
		if got := n.stripped(nil); !bytes.Equal(got, []byte(tt.want)) {
			t.Errorf("%q: got %q, want %q", tt.in, got, []byte(tt.want))
		}
	}
}

// TestLongAnnotations: wide encodings, and sections beyond 255 octets.
func TestLongAnnotations(t *testing.T) {
	long := strings.Repeat("v", 300)
	m := amqp.Map{
		{Key: amqp.Symbol("x-opt-" + strings.Repeat("k", 300)), Value: long},
		{Key: amqp.Symbol("x-opt-qd.to"), Value: long},
		{Key: amqp.Symbol("x-opt-qd.ingress"), Value: long},
		{Key: amqp.Symbol("x-opt-qd.trace"), Value: amqp.List{long, "0/B"}},
	}
	var n annotations
	if e := n.read(amqp.AppendValue(nil, m), false); e != nil {
		t.Fatal(e)
	}
	if string(n.to) != long || string(n.ingress) != long || n.hops != 2 || n.user != 1 {
		t.Errorf("read: to %d octets, ingress %d, %d hops, %d of the user", len(n.to), len(n.ingress), n.hops, n.user)
	}
	v, err := amqp.Raw(n.annotated(nil, []byte(long), 0, "0/R")).Value()
	d, _ := v.(amqp.Described)
	want := amqp.Map{m[0], m[1], m[2], {Key: m[3].Key, Value: amqp.List{long, "0/B", "0/R"}}}
	if err != nil || fmt.Sprint(d.Value) != fmt.Sprint(want) {
		t.Errorf("%v: got\n%v, want\n%v", err, d.Value, want)
	}
}

// TestInvalidAnnotations: the texts that the sender of bad router annotations reads (RT E56).
// When they are stripped they are not looked at (RT F81).
func TestInvalidAnnotations(t *testing.T) {
	tests := []struct{ in, want string }{
		{mapOf(sym("x-opt-qd.to"), "\x54\x01"), "to-override not a valid string type"},
		{mapOf(sym("x-opt-qd.to"), sym("q")), "to-override not a valid string type"},
		{mapOf(sym("x-opt-qd.ingress"), "\x43"), "ingress router not a string type"},
		{mapOf(sym("x-opt-qd.trace"), str("0/A")), "trace annotation is not a list"},
		{mapOf(sym("x-opt-qd.trace"), listOf(str("0/A"), "\x43")), "trace list contains non-string entries"},
	}
	for _, tt := range tests {
		var n annotations
		e := n.read([]byte(tt.in), false)
		if e == nil || e.Condition != amqp.ErrCondInvalidField || e.Description != tt.want {
			t.Errorf("%q: %v, want %q", tt.in, e, tt.want)
		}
		n = annotations{}
		if e := n.read([]byte(tt.in), true); e != nil || !n.routers || n.user != 0 {
			t.Errorf("%q when stripped: %v, %+v", tt.in, e, n)
		}
	}
	for _, in := range []string{"\xc1\x03\x01\x40\x40", "\x45"} { // an odd map, no map
		for _, strip := range []bool{false, true} {
			var n annotations
			if e := n.read([]byte(in), strip); e == nil || e.Condition != amqp.ErrCondInvalidField {
				t.Errorf("%q: %v", in, e)
			}
		}
	}
}

// TestPhaseRead: the phase that another router gave; what is none is ignored.
func TestPhaseRead(t *testing.T) {
	for in, want := range map[string]byte{"\x54\x03": 3, "\x54\x09": 9, "\x54\x0a": 0, "\x54\xff": 0, "\xa1\x013": 0, "\x71\x00\x00\x00\x07": 7,
		"\x50\x01": 1, "\x60\x00\x02": 2, "\x52\x03": 3, "\x80\x00\x00\x00\x00\x00\x00\x00\x04": 4, "\x55\x05": 5, "\x53\x16": phaseFallback - '0'} {
		var n annotations
		if e := n.read([]byte(mapOf(sym("x-opt-qd.phase"), in)), false); e != nil || n.phase != want {
			t.Errorf("%q: %v, phase %d, want %d", in, e, n.phase, want)
		}
	}
}
