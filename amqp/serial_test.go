package amqp

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSerial(t *testing.T) {
	tests := []struct {
		s, t   Serial
		diff   int32
		before bool
	}{
		{0, 0, 0, false},
		{0, 1, -1, true},
		{1, 0, 1, false},
		{4294967295, 0, -1, true},
		{0, 4294967295, 1, false},
		{4294967290, 9, -15, true},
		{0, 2147483647, -2147483647, true},
		{2147483647, 0, 2147483647, false},
		{2147483648, 4294967295, -2147483647, true},
	}
	for _, tt := range tests {
		if got := tt.s.Diff(tt.t); got != tt.diff {
			t.Errorf("%d.Diff(%d) = %d, want %d", tt.s, tt.t, got, tt.diff)
		}
		if got := tt.s.Before(tt.t); got != tt.before {
			t.Errorf("%d.Before(%d) = %t, want %t", tt.s, tt.t, got, tt.before)
		}
	}
}

// TestSerialLaws: what is added comes after, by as much, from wherever one starts (RFC 1982 §3).
func TestSerialLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Serial(rapid.Uint32().Draw(t, "s"))
		n := Serial(rapid.Uint32Range(1, 2147483647).Draw(t, "n"))
		if !s.Before(s+n) || (s + n).Before(s) || (s+n).Diff(s) != int32(n) || s.Diff(s+n) != -int32(n) {
			t.Fatalf("%d and %d", s, s+n)
		}
	})
}
