package main

import (
	"fmt"
	"strings"
	"testing"
)

// CFG A1 to A10: what getopt_long makes of a command line.
func TestGetopt(t *testing.T) {
	tests := []struct{ args, want, err string }{
		{"", "", ""},
		{"-c a", "config=a", ""},
		{"-ca", "config=a", ""},
		{"--config a", "config=a", ""},
		{"--config=a", "config=a", ""},
		{"--config=", "config=", ""},
		{"--conf a", "config=a", ""},
		{"--c a", "config=a", ""}, // though --check begins with it too
		{"--i=lib", "include=lib", ""},
		{"-c a -c b", "config=a config=b", ""},
		{"-dT", "daemon= test-hooks=", ""},
		{"-dcx", "daemon= config=x", ""},
		{"-dc x", "daemon= config=x", ""},
		{"-d x -T y", "daemon= test-hooks= | x y", ""},
		{"-c -d", "config=-d", ""},
		{"--config --daemon", "config=--daemon", ""},
		{"-d -- -T x", "daemon= | -T x", ""},
		{"-", " | -", ""},
		{"--check", "check=", ""},
		{"--insecure-ignore-policy", "insecure-ignore-policy=", ""},
		{"-v --bogus", "version=", ""},
		{"-dv --bogus", "daemon= version=", ""},
		{"-vd", "version=", ""},
		{"-h", "help=", ""},
		{"--help x", "help=", ""},
		{"--bogus", "", "unrecognized option '--bogus'"},
		{"--che", "", "unrecognized option '--che'"},
		{"-x", "", "invalid option -- 'x'"},
		{"-c", "", "option requires an argument -- 'c'"},
		{"-dP", "", "option requires an argument -- 'P'"},
		{"--pidfile", "", "option '--pidfile' requires an argument"},
		{"--daemon=yes", "", "option '--daemon' doesn't allow an argument"},
		{"--", "", ""},
	}
	for _, tt := range tests {
		var got []string
		var options []option
		for _, o := range new(command).options() {
			o.set = func(arg string) { got = append(got, o.long+"="+arg) }
			options = append(options, o)
		}
		words, err := getopt(strings.Fields(tt.args), options, "version", "help")
		if fmt.Sprint(err) != tt.err && (err != nil || tt.err != "") {
			t.Errorf("%q: error %v, want %q", tt.args, err, tt.err)
			continue
		}
		g := strings.Join(got, " ")
		if len(words) > 0 {
			g += " | " + strings.Join(words, " ")
		}
		if err == nil && g != tt.want {
			t.Errorf("%q: %s, want %s", tt.args, g, tt.want)
		}
	}
	two := []option{{long: "alpha"}, {long: "alps"}}
	if _, err := getopt([]string{"--al"}, two); fmt.Sprint(err) != "option '--al' is ambiguous; possibilities: '--alpha' '--alps'" {
		t.Errorf("ambiguous: %v", err)
	}
}
