package client

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestAppendJSON(t *testing.T) {
	nested := Map{{"z", []any{int64(1), Map{{"k", nil}}}}, {"a", Map{}}, {"e", []any{}}}
	for _, tt := range []struct {
		name   string
		v      any
		indent int
		want   string
	}{
		{"null", nil, 2, "null"},
		{"booleans", []any{true, false}, OneLine, "[true, false]"},
		{"integers", []any{int64(-1), uint64(math.MaxUint64)}, OneLine, "[-1, 18446744073709551615]"},
		{"floats are told from integers", []any{1.0, 0.5, 1e15, 1e16, 1e-5, math.Inf(1), math.Inf(-1), math.NaN()}, OneLine,
			"[1.0, 0.5, 1000000000000000.0, 1e+16, 1e-05, Infinity, -Infinity, NaN]"},
		{"text is ASCII", "\"\\/\n\r\t\b\f\x01\x7fé€😀", OneLine, `"\"\\/\n\r\t\b\f\u0001\u007f\u00e9\u20ac\ud83d\ude00"`},
		{"one line", nested, OneLine, `{"z": [1, {"k": null}], "a": {}, "e": []}`},
		{"indented", nested, 2, "{\n  \"z\": [\n    1,\n    {\n      \"k\": null\n    }\n  ],\n  \"a\": {},\n  \"e\": []\n}"},
		{"indented by nothing", Map{{"a", int64(1)}, {"b", []any{int64(2)}}}, 0, "{\n\"a\": 1,\n\"b\": [\n2\n]\n}"},
		{"indentation below -1 counts as nothing", []any{int64(1)}, -2, "[\n1\n]"},
	} {
		if got := string(AppendJSON(nil, tt.v, tt.indent)); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for _, tt := range []struct {
		text string
		want any
	}{
		{`null`, nil},
		{` [1, -2.5, 1e3, 18446744073709551615, "é", true] `, []any{int64(1), -2.5, 1000.0, uint64(math.MaxUint64), "é", true}},
		{`{"z": {"b": 1, "a": []}, "y": {}}`, Map{{"z", Map{{"b", int64(1)}, {"a", []any{}}}}, {"y", Map{}}}},
		{`{"a": 1, "b": 2, "a": 3}`, Map{{"a", int64(3)}, {"b", int64(2)}}},
	} {
		got, err := ParseJSON([]byte(tt.text))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("ParseJSON(%s) = %#v, %v; want %#v", tt.text, got, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		``:                      "ends too early",
		`{"a": `:                "ends too early",
		`[1, 2`:                 "ends too early",
		`{} {}`:                 "more than one value",
		`{a}`:                   "invalid character",
		`36893488147419103232`:  "out of range",
		`-36893488147419103232`: "out of range",
	} {
		if got, err := ParseJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseJSON(%s) = %v, %v; want an error with %q", text, got, err, want)
		}
	}
}
