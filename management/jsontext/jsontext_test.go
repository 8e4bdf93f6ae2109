package jsontext

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// What Python's json.dumps writes for these.
func TestAppendString(t *testing.T) {
	for s, want := range map[string]string{
		"":                    `""`,
		"a/b <&>":             `"a/b <&>"`,
		"\"\\\n\r\t\b\f":      `"\"\\\n\r\t\b\f"`,
		"\x00\x1f~\x7f\u0080": `"\u0000\u001f~\u007f\u0080"`,
		"é€\U0001d11e":        `"\u00e9\u20ac\ud834\udd1e"`,
	} {
		if got := string(AppendString(nil, s)); got != want {
			t.Errorf("%q becomes %s, want %s", s, got, want)
		}
	}
}

func TestStringsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		text := AppendString(nil, s)
		var got string
		if err := json.Unmarshal(text, &got); err != nil || got != s {
			t.Fatalf("%q became %s, read back as %q, %v", s, text, got, err)
		}
		for _, c := range text {
			if c < ' ' || c > '~' {
				t.Fatalf("%q became %q", s, text)
			}
		}
	})
}

func TestAppendItems(t *testing.T) {
	items := []string{"1", "2"}
	for _, tt := range []struct {
		n, indent, depth int
		want             string
	}{
		{0, 2, 1, "[]"},
		{0, OneLine, 1, "[]"},
		{2, OneLine, 1, "[1, 2]"},
		{2, -3, 1, "[\n1,\n2\n]"},
		{2, 0, 1, "[\n1,\n2\n]"},
		{2, 2, 1, "[\n  1,\n  2\n]"},
		{2, 2, 2, "[\n    1,\n    2\n  ]"},
	} {
		got := string(AppendItems(nil, "[]", tt.n, tt.indent, tt.depth, func(b []byte, i int) []byte { return append(b, items[i]...) }))
		if got != tt.want {
			t.Errorf("%d items, indent %d, depth %d: %q, want %q", tt.n, tt.indent, tt.depth, got, tt.want)
		}
	}
}
