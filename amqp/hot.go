package amqp

import "encoding/binary"

// Transfer, Disposition and Flow are the frames of a busy connection, several a
// message. Each is decoded twice over here: by a hand-written pass over the way
// everybody encodes it, which gives up at the first thing it does not know, and
// then by the one the other performatives have, which takes every legal encoding
// and says what is wrong with the rest. They are encoded likewise.

// noUint is what uintAt returns for null.
const noUint = 1 << 32

// hotList splits the performative at the start of body into the elements of its
// list, their count, and its length. count is -1 if the descriptor is not code
// as a smallulong, or the list not a whole list8 or list32.
func hotList(body []byte, code byte) (p []byte, count, n int) {
	if len(body) < 6 || body[0] != codeDescribed || body[1] != codeSmallUlong || body[2] != code {
		return nil, -1, 0
	}
	switch body[3] {
	case codeList8:
		if n = 5 + int(body[4]); n >= 6 && n <= len(body) {
			return body[6:n:n], int(body[5]), n
		}
	case codeList32:
		if len(body) < 12 {
			break
		}
		size, count := binary.BigEndian.Uint32(body[4:]), binary.BigEndian.Uint32(body[8:])
		if size >= 4 && uint64(size) <= uint64(len(body)-8) && count <= size {
			n = 8 + int(size)
			return body[12:n:n], int(count), n
		}
	}
	return nil, -1, 0
}

// uintAt reads the uint at p[i] and returns where the next value is, -1 if there
// is no uint. null is noUint.
func uintAt(p []byte, i int) (v uint64, next int) {
	if uint(i) < uint(len(p)) {
		switch q := p[i:]; q[0] {
		case codeUint0:
			return 0, i + 1
		case codeSmallUint:
			if len(q) >= 2 {
				return uint64(q[1]), i + 2
			}
		case codeUint:
			if len(q) >= 5 {
				return uint64(binary.BigEndian.Uint32(q[1:])), i + 5
			}
		case codeNull:
			return noUint, i + 1
		}
	}
	return 0, -1
}

// optUint is a field read by uintAt.
func optUint(v uint64) Opt[uint32] {
	return Opt[uint32]{uint32(v), v != noUint}
}

// boolAt reads the boolean at p[i] as uintAt does. null is not set.
func boolAt(p []byte, i int) (v Opt[bool], next int) {
	if uint(i) < uint(len(p)) {
		switch p[i] {
		case codeFalse:
			return Opt[bool]{false, true}, i + 1
		case codeTrue:
			return Opt[bool]{true, true}, i + 1
		case codeNull:
			return Opt[bool]{}, i + 1
		case codeBool:
			if i+1 < len(p) {
				return Opt[bool]{p[i+1] != 0, true}, i + 2
			}
		}
	}
	return Opt[bool]{}, -1
}

// stateAt reads the delivery state at p[i] as uintAt does. null is nil.
func stateAt(p []byte, i int) (v Raw, next int) {
	if uint(i) >= uint(len(p)) {
		return nil, -1
	}
	q := p[i:]
	if len(q) >= 4 && q[0] == codeDescribed && q[1] == codeSmallUlong && q[3] == codeList0 {
		return Raw(q[:4:4]), i + 4
	}
	if q[0] == codeNull {
		return nil, i + 1
	}
	if q[0] != codeDescribed {
		return nil, -1
	}
	n := skip(q, fieldDepth)
	if n < 0 {
		return nil, -1
	}
	return Raw(q[:n:n]), i + n
}

// fieldDepth is how deep the fields of a performative may nest: it is itself a
// described list.
const fieldDepth = MaxDepth - 2

// putUint writes the uint v at p[i] and returns where the next value goes.
func putUint(p []byte, i int, v uint32) int {
	if v-1 < 0xff {
		p[i], p[i+1] = codeSmallUint, byte(v)
		return i + 2
	}
	return putUintSlow(p, i, v)
}

func putUintSlow(p []byte, i int, v uint32) int {
	if v == 0 {
		p[i] = codeUint0
		return i + 1
	}
	p[i] = codeUint
	binary.BigEndian.PutUint32(p[i+1:], v)
	return i + 5
}

// putOptUint is putUint for a field that may be absent.
func putOptUint(p []byte, i int, v Opt[uint32]) int {
	if !v.Set {
		p[i] = codeNull
		return i + 1
	}
	return putUint(p, i, v.V)
}
