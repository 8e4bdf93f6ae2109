package linkstate

import "math/bits"

// A Set is a set of router indexes (Node.Index), as large as the network needs. Sets handed
// out by the engine are never changed afterwards, so they may be kept and read by anybody.
type Set []uint64

// Has reports whether index i is in s.
func (s Set) Has(i int) bool {
	return i>>6 < len(s) && s[i>>6]&(1<<(i&63)) != 0
}

// Each calls f with every index in s, lowest first.
func (s Set) Each(f func(i int)) {
	for w, word := range s {
		for ; word != 0; word &= word - 1 {
			f(w<<6 + bits.TrailingZeros64(word))
		}
	}
}

// Len returns how many indexes are in s.
func (s Set) Len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// flip returns a set that differs from s in index i. It changes s when that is long enough.
func (s Set) flip(i int) Set {
	for len(s) <= i>>6 {
		s = append(s, 0)
	}
	s[i>>6] ^= 1 << (i & 63)
	return s
}
