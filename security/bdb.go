package security

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Berkeley DB hash file is pages of one size. Page 0 describes the file; each
// page starts with a header of 26 octets, in the byte order of the machine that
// wrote the file:
//
//	0   log sequence number (8)      20  number of items (2)
//	8   page number (4)              22  where the items start (2), or the
//	12  previous page (4)                octets used in an overflow page
//	16  next page (4)                24  level (1)
//	                                 25  page type (1)
//
// In a hash page the header is followed by a 2-octet offset for each item, and
// the items fill the page from its end: item i reaches from its offset to that
// of item i-1. Keys have even numbers, each followed by its value. An item is a
// type octet and data. Data that does not fit is in a chain of overflow pages.
const (
	bdbMagic = 0x061561 // of a hash file, at 12 in page 0

	bdbPageHeader = 26

	bdbOverflowPage    = 7
	bdbMetaPage        = 8
	bdbHashPage        = 13
	bdbHashUnsorted    = 2 // hash page of versions before 9
	bdbItemData        = 1
	bdbItemOffPage     = 3
	bdbOffPageItemSize = 12 // type, 3 unused, first page (4), octets in all (4)
)

var errBDB = errors.New("malformed Berkeley DB hash file")

type bdb struct {
	data  []byte
	size  int // of a page
	order binary.ByteOrder
}

// readHash gives each key and value of a Berkeley DB hash file, versions 7 to
// 10, to yield. The slices are valid during the call only. It walks the pages in
// file order and needs no hash function. Duplicate keys, encryption and
// checksums are not read: sasldb has none of them.
func readHash(data []byte, yield func(key, value []byte)) error {
	if len(data) < 72 {
		return errors.New("not a Berkeley DB file")
	}
	f := bdb{data: data}
	switch {
	case binary.LittleEndian.Uint32(data[12:]) == bdbMagic:
		f.order = binary.LittleEndian
	case binary.BigEndian.Uint32(data[12:]) == bdbMagic:
		f.order = binary.BigEndian
	default:
		return errors.New("not a Berkeley DB hash file")
	}
	if v := f.order.Uint32(data[16:]); v < 7 || v > 10 {
		return fmt.Errorf("unknown version %d of the Berkeley DB hash format", v)
	}
	if data[24] != 0 || data[26]&1 != 0 {
		return errors.New("encrypted or with checksums, which saslpasswd2 never writes")
	}
	size := f.order.Uint32(data[20:])
	if size < 512 || size > 65536 || size&(size-1) != 0 || data[25] != bdbMetaPage {
		return errBDB
	}
	f.size = int(size)
	for n := 1; n < len(data)/f.size; n++ {
		page := f.page(n)
		if t := page[25]; t != bdbHashPage && t != bdbHashUnsorted {
			continue // free, an overflow page, or beyond what was ever used
		}
		if err := f.hashPage(page, yield); err != nil {
			return fmt.Errorf("page %d: %w", n, err)
		}
	}
	return nil
}

// page returns page n, which must be whole.
func (f *bdb) page(n int) []byte { return f.data[n*f.size : (n+1)*f.size] }

func (f *bdb) hashPage(page []byte, yield func(key, value []byte)) error {
	items := int(f.order.Uint16(page[20:]))
	if items%2 != 0 || bdbPageHeader+2*items > f.size {
		return errBDB
	}
	end := f.size
	next := func(i int) ([]byte, error) {
		start := int(f.order.Uint16(page[bdbPageHeader+2*i:]))
		if start < bdbPageHeader+2*items || start >= end {
			return nil, errBDB
		}
		item := page[start:end]
		end = start
		return f.item(item)
	}
	for i := 0; i < items; i += 2 {
		key, err := next(i)
		if err != nil {
			return err
		}
		value, err := next(i + 1)
		if err != nil {
			return err
		}
		if key != nil && value != nil {
			yield(key, value)
		}
	}
	return nil
}

// item returns an item's data, nil for a kind of item that sasldb never has.
func (f *bdb) item(item []byte) ([]byte, error) {
	switch item[0] {
	case bdbItemData:
		return item[1:], nil
	case bdbItemOffPage:
		if len(item) != bdbOffPageItemSize {
			return nil, errBDB
		}
		return f.chain(f.order.Uint32(item[4:]), f.order.Uint32(item[8:]))
	default:
		return nil, nil
	}
}

// chain gathers total octets from the overflow pages that start at n.
func (f *bdb) chain(n, total uint32) ([]byte, error) {
	if uint64(total) > uint64(len(f.data)) {
		return nil, errBDB
	}
	data := make([]byte, 0, total)
	for uint32(len(data)) < total {
		if uint64(n) >= uint64(len(f.data)/f.size) {
			return nil, errBDB
		}
		page := f.page(int(n))
		used := int(f.order.Uint16(page[22:]))
		// A page without data would let a ring of pages go on for ever.
		if page[25] != bdbOverflowPage || used == 0 || bdbPageHeader+used > f.size || len(data)+used > int(total) {
			return nil, errBDB
		}
		data = append(data, page[bdbPageHeader:bdbPageHeader+used]...)
		n = f.order.Uint32(page[16:])
	}
	return data, nil
}
