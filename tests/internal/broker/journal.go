package broker

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// journal has the queues and their messages in a file, as records of a length,
// a checksum and what was done in one go:
//
//	+--------+--------+----------------------------+
//	| length | crc-32 | Q name | q name |          |
//	|   4    |   4    | A queue id format message  |
//	|        |        | R queue id                 |
//	+--------+--------+----------------------------+
//
// Q makes a queue and q deletes it; A adds a message and R removes it. Text and
// messages have their length before them; numbers are varints. A process that
// is killed leaves at most its last record cut, which is then left out. There
// is no fsync: the file is safe from the end of the process, not from that of
// the machine.
//
// A nil journal keeps nothing.
type journal struct {
	path string
	f    *os.File
	size int64 // octets of the file
	live int64 // at least those of them that matter
	ops  []byte
}

// compactAt is the size in octets from which a file is written anew, when less
// than half of it matters.
const compactAt = 8 << 20

// openJournal reads the journal of dir into b and opens it for more.
func openJournal(dir string, b *Broker) (*journal, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	j := &journal{path: filepath.Join(dir, "journal")}
	data, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for len(data) >= 8 {
		n := int(binary.BigEndian.Uint32(data))
		if n > len(data)-8 || crc32.ChecksumIEEE(data[8:8+n]) != binary.BigEndian.Uint32(data[4:]) {
			break
		}
		if err := replay(data[8:8+n], b); err != nil {
			return nil, fmt.Errorf("%s: %w", j.path, err)
		}
		data = data[8+n:]
	}
	return j, j.compact(b)
}

// replay does what a record says.
func replay(ops []byte, b *Broker) error {
	r := reader{ops}
	for len(r.b) > 0 {
		op := r.b[0]
		r.b = r.b[1:]
		name := string(r.bytes())
		q := b.queues[name]
		if q == nil && op != 'Q' {
			return io.ErrUnexpectedEOF
		}
		switch op {
		case 'Q':
			b.queues[name] = &queue{b: b, name: name}
		case 'q':
			delete(b.queues, name)
		case 'A':
			m := &message{id: r.number(), format: uint32(r.number()), payload: slices.Clone(r.bytes())}
			b.ids = max(b.ids, m.id)
			q.ready = append(q.ready, m) // ids ascend within a queue
		case 'R':
			id := r.number()
			if i, ok := slices.BinarySearchFunc(q.ready, id, func(m *message, id uint64) int { return cmp.Compare(m.id, id) }); ok {
				q.ready = slices.Delete(q.ready, i, i+1)
			}
		default:
			return fmt.Errorf("operation %q", op)
		}
	}
	return nil
}

// reader reads what is in a record, which its checksum has proved to be whole.
type reader struct{ b []byte }

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	r.b = r.b[max(n, 0):]
	return v
}

func (r *reader) bytes() []byte {
	n := int(r.number())
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (j *journal) op(op byte, name string) {
	j.ops = append(j.ops, op)
	j.text(name)
}

func (j *journal) text(s string) {
	j.ops = append(binary.AppendUvarint(j.ops, uint64(len(s))), s...)
}

func (j *journal) addQueue(name string) {
	if j != nil {
		j.op('Q', name)
	}
}

func (j *journal) removeQueue(name string) {
	if j != nil {
		j.op('q', name)
	}
}

func (j *journal) add(queue string, m *message) {
	if j == nil {
		return
	}
	j.op('A', queue)
	j.ops = binary.AppendUvarint(j.ops, m.id)
	j.ops = binary.AppendUvarint(j.ops, uint64(m.format))
	j.ops = append(binary.AppendUvarint(j.ops, uint64(len(m.payload))), m.payload...)
	j.live += int64(len(m.payload))
}

func (j *journal) remove(queue string, m *message) {
	if j == nil {
		return
	}
	j.op('R', queue)
	j.ops = binary.AppendUvarint(j.ops, m.id)
	j.live -= int64(len(m.payload))
}

// flush writes what was done since the last call. A broker that cannot must
// accept nothing, and ends.
func (j *journal) flush(b *Broker) {
	if j == nil || len(j.ops) == 0 || j.f == nil {
		return
	}
	rec := binary.BigEndian.AppendUint32(nil, uint32(len(j.ops)))
	rec = binary.BigEndian.AppendUint32(rec, crc32.ChecksumIEEE(j.ops))
	rec = append(rec, j.ops...)
	j.ops = j.ops[:0]
	if _, err := j.f.Write(rec); err != nil {
		panic("broker: journal: " + err.Error())
	}
	if j.size += int64(len(rec)); j.size > compactAt && j.live < j.size/2 {
		if err := j.compact(b); err != nil {
			panic("broker: journal: " + err.Error())
		}
	}
}

// compact writes the file anew with what there is.
func (j *journal) compact(b *Broker) error {
	j.ops, j.live = nil, 0
	held := map[string][]*message{}
	for t := range b.termini {
		for _, d := range t.out {
			if !d.copy && !d.q.gone && d.txn == nil {
				held[d.q.name] = append(held[d.q.name], d.m)
			}
		}
	}
	for _, t := range b.txns {
		for _, d := range t.retires {
			if !d.copy && !d.q.gone {
				held[d.q.name] = append(held[d.q.name], d.m)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.queues)) {
		j.addQueue(name)
		all := append(held[name], b.queues[name].ready...)
		slices.SortFunc(all, func(a, b *message) int { return cmp.Compare(a.id, b.id) })
		for _, m := range all {
			j.add(name, m)
		}
	}
	rec := binary.BigEndian.AppendUint32(nil, uint32(len(j.ops)))
	rec = binary.BigEndian.AppendUint32(rec, crc32.ChecksumIEEE(j.ops))
	rec = append(rec, j.ops...)
	j.ops = nil
	f, err := os.Create(j.path + ".new")
	if err != nil {
		return err
	}
	if _, err := f.Write(rec); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := os.Rename(j.path+".new", j.path); err != nil {
		return errors.Join(err, f.Close())
	}
	if j.f != nil {
		j.f.Close()
	}
	j.f, j.size = f, int64(len(rec))
	return nil
}

func (j *journal) close() {
	if j != nil {
		j.f.Close()
	}
}
