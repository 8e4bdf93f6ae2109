package report

import (
	"bytes"
	"io"
	"slices"
	"unicode/utf8"
)

// A table is one report: a title, and rows under headings. Rows may be shorter
// than the heading.
//
// The cells of all rows stand one behind the other in one text. A table may have
// hundreds of thousands, most of them of an octet or two: a string for each would
// take ten times the room.
type table struct {
	title string
	heads []string

	text   []byte
	ends   []uint32 // of each cell, in text
	rows   []span   // in the order to show them
	widths []int    // of the longest cell of each column, in runes
}

// A span is the cells of a row, in the ends of its table.
type span struct{ first, after uint32 }

// grow makes room for rows of as many cells as there are headings.
func (t *table) grow(rows int) {
	const usual = 5 // octets in a cell
	cells := rows * len(t.heads)
	t.rows = slices.Grow(t.rows, rows)
	t.ends = slices.Grow(t.ends, cells)
	t.text = slices.Grow(t.text, usual*cells)
}

// add appends a row.
func (t *table) add(cells ...string) {
	first := uint32(len(t.ends))
	for i, cell := range cells {
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		t.text = append(t.text, cell...)
		t.ends = append(t.ends, uint32(len(t.text)))
	}
	t.rows = append(t.rows, span{first, uint32(len(t.ends))})
}

// cell is the text of a row in a column, nothing where the row is shorter.
func (t *table) cell(r span, column int) []byte {
	i := r.first + uint32(column)
	switch {
	case i >= r.after:
		return nil
	case i == 0:
		return t.text[:t.ends[0]]
	}
	return t.text[t.ends[i-1]:t.ends[i]]
}

// sort puts the rows in the order of a column, and leaves equal ones as they are.
func (t *table) sort(column int) {
	slices.SortStableFunc(t.rows, func(a, b span) int { return bytes.Compare(t.cell(a, column), t.cell(b, column)) })
}

// classic lays the table out in columns (MG 13.3). Without rows there is only
// the title.
func (t *table) classic(out io.Writer) {
	io.WriteString(out, t.title+"\n")
	if len(t.rows) == 0 {
		return
	}
	widths := make([]int, len(t.heads))
	total := 0
	for i, head := range t.heads {
		widths[i] = utf8.RuneCountInString(head)
		if i < len(t.widths) {
			widths[i] = max(widths[i], t.widths[i])
		}
		widths[i] += 2
		total += widths[i]
	}
	blanks := bytes.Repeat([]byte{' '}, total)
	var b []byte
	line := func(cell func(column int) []byte) {
		b = append(b[:0], "  "...)
		for i, width := range widths {
			text := cell(i)
			b = append(b, text...)
			if i < len(widths)-1 {
				b = append(b, blanks[:width-utf8.RuneCount(text)]...)
			}
		}
		out.Write(append(b, '\n'))
	}
	line(func(column int) []byte { return []byte(t.heads[column]) })
	io.WriteString(out, "  ")
	out.Write(bytes.Repeat([]byte{'='}, total))
	io.WriteString(out, "\n")
	for _, r := range t.rows {
		line(func(column int) []byte { return t.cell(r, column) })
	}
}

// csv lays the table out as comma-separated values (MG 13.3).
func (t *table) csv(out io.Writer) {
	io.WriteString(out, t.title+"\n")
	if len(t.rows) == 0 {
		return
	}
	var b []byte
	line := func(cells int, cell func(column int) []byte) {
		b = b[:0]
		for i := range cells {
			if i > 0 {
				b = append(b, ',')
			}
			if text := cell(i); len(text) > 0 {
				b = append(b, '"')
				b = append(b, bytes.ReplaceAll(text, []byte{'"'}, []byte(`""`))...)
				b = append(b, '"')
			}
		}
		out.Write(append(b, '\n'))
	}
	line(len(t.heads), func(column int) []byte { return []byte(t.heads[column]) })
	for _, r := range t.rows {
		line(int(r.after-r.first), func(column int) []byte { return t.cell(r, column) })
	}
}
