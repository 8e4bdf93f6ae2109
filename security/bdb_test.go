package security

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

const testPage = 512

// hashFileOf writes pairs (key, value, key, value, …) into a Berkeley DB hash
// file, one page for each pair, long values into overflow pages.
func hashFileOf(order binary.ByteOrder, pairs ...string) []byte {
	meta := make([]byte, testPage)
	order.PutUint32(meta[12:], bdbMagic)
	order.PutUint32(meta[16:], 9)
	order.PutUint32(meta[20:], testPage)
	meta[25] = bdbMetaPage
	data := meta
	newPage := func(kind byte) []byte {
		data = append(data, make([]byte, testPage)...)
		page := data[len(data)-testPage:]
		page[25] = kind
		return page
	}
	overflow := func(text string) (first int) {
		first = len(data) / testPage
		for len(text) > 0 {
			page := newPage(bdbOverflowPage)
			n := copy(page[bdbPageHeader:], text)
			text = text[n:]
			order.PutUint16(page[22:], uint16(n))
			if len(text) > 0 {
				order.PutUint32(page[16:], uint32(len(data)/testPage))
			}
		}
		return first
	}
	for i := 0; i < len(pairs); i += 2 {
		var items [2][]byte
		for j, text := range pairs[i : i+2] {
			items[j] = append([]byte{bdbItemData}, text...)
			if len(text) > 200 {
				items[j] = make([]byte, bdbOffPageItemSize)
				items[j][0] = bdbItemOffPage
				order.PutUint32(items[j][4:], uint32(overflow(text)))
				order.PutUint32(items[j][8:], uint32(len(text)))
			}
		}
		page := newPage(bdbHashPage)
		order.PutUint16(page[20:], 2)
		end := testPage
		for j, item := range items {
			end -= len(item)
			copy(page[end:], item)
			order.PutUint16(page[bdbPageHeader+2*j:], uint16(end))
		}
	}
	newPage(0) // a free page
	return data
}

func sasldbOf(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadHash(t *testing.T) {
	long := strings.Repeat("long ", 300)
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		got := make(map[string]string)
		data := hashFileOf(order, "a", "1", "bb", long, "", "")
		if err := readHash(data, func(k, v []byte) { got[string(k)] = string(v) }); err != nil {
			t.Errorf("%v: %v", order, err)
		}
		if len(got) != 3 || got["a"] != "1" || got["bb"] != long {
			t.Errorf("%v: read %d pairs, a=%q, bb is right: %v", order, len(got), got["a"], got["bb"] == long)
		}
	}
}

// realSASLDB was written by saslpasswd2 of Cyrus SASL 2.1.28: 150 names, some
// more in other realms, one deleted again, one with a password of 2048 octets, which is all saslpasswd2 takes.
func realSASLDB(t testing.TB) []byte {
	t.Helper()
	f, err := os.Open("testdata/sasldb2.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// CFG M15.
func TestParseSASLDBWrittenBySaslpasswd2(t *testing.T) {
	table, err := parseSASLDB(realSASLDB(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"alice\x00domain.com": "secret",
		"bob\x00vm":           "bobpw",
		"longpw\x00vm":        strings.Repeat("p", 2048),
	}
	for i := 1; i <= 150; i++ {
		want[fmt.Sprintf("user%d\x00example.com", i)] = fmt.Sprintf("password-%d", i)
	}
	for name, password := range want {
		if got := table.secrets[name].password; got != password {
			t.Errorf("%q has password %.20q, want %.20q", name, got, password)
		}
	}
	if len(table.secrets) != len(want) {
		t.Errorf("%d names, want %d", len(table.secrets), len(want))
	}
}

func TestReadHashRefuses(t *testing.T) {
	good := hashFileOf(binary.LittleEndian, "key", "value", "long", strings.Repeat("x", 1000))
	change := func(at int, b ...byte) []byte {
		data := bytes.Clone(good)
		copy(data[at:], b)
		return data
	}
	page1 := testPage // the pair key, value
	page2 := 2 * testPage
	tests := map[string][]byte{
		"nothing":                     nil,
		"too short":                   good[:71],
		"another magic":               change(12, 1),
		"another version":             change(16, 99),
		"a page size of no power":     change(20, 1, 2),
		"encryption":                  change(24, 1),
		"checksums":                   change(26, 1),
		"an odd item count":           change(page1+20, 3),
		"more items than room":        change(page1+20, 0, 4),
		"an offset in the header":     change(page1+26, 4, 0),
		"an offset beyond the page":   change(page1+26, 0xff, 0xff),
		"a chain into a ring":         change(page2+16, 2),
		"a chain of no overflow page": change(page2+25, bdbHashPage),
		"an empty overflow page":      change(page2+22, 0, 0),
		"an overfull overflow page":   change(page2+22, 0xff, 0xff),
	}
	for name, data := range tests {
		if err := readHash(data, func(_, _ []byte) {}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzReadHash(f *testing.F) {
	f.Add(hashFileOf(binary.LittleEndian, "a", "1", "b", strings.Repeat("x", 600)))
	f.Add(hashFileOf(binary.BigEndian, "a", "1"))
	f.Add(realSASLDB(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = readHash(data, func(k, v []byte) {
			if len(k) > len(data) || len(v) > len(data) {
				t.Fatal("item is larger than the file")
			}
		})
	})
}
