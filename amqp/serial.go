package amqp

// Serial is a sequence number of RFC 1982 with 32 bits, as transfer ids, delivery ids and
// delivery counts are (AMQP 1.0 part 2 §2.8.8). It wraps; compare only with Before and Diff.
type Serial uint32

// Diff returns s - t as a signed distance; it is meaningful while they are less than 2^31 apart.
func (s Serial) Diff(t Serial) int32 { return int32(s - t) }

// Before reports whether s comes before t.
func (s Serial) Before(t Serial) bool { return s.Diff(t) < 0 }
