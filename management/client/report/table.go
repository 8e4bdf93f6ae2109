package report

import (
	"strings"
	"unicode/utf8"
)

// A table is one report: a title, and rows under headings. Rows may be shorter
// than the heading.
type table struct {
	title string
	heads []string
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// classic lays the table out in columns (MG 13.3). Without rows there is only
// the title.
func (t *table) classic() string {
	var b strings.Builder
	b.WriteString(t.title + "\n")
	if len(t.rows) == 0 {
		return b.String()
	}
	widths := make([]int, len(t.heads))
	total := 0
	for i, head := range t.heads {
		widths[i] = utf8.RuneCountInString(head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(row, i)))
		}
		widths[i] += 2
		total += widths[i]
	}
	line := func(row []string) {
		b.WriteString("  ")
		for i, width := range widths {
			text := cell(row, i)
			b.WriteString(text)
			if i < len(widths)-1 {
				b.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(text)))
			}
		}
		b.WriteString("\n")
	}
	line(t.heads)
	b.WriteString("  " + strings.Repeat("=", total) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

func cell(row []string, i int) string {
	if i < len(row) {
		return row[i]
	}
	return ""
}

// csv lays the table out as comma-separated values (MG 13.3).
func (t *table) csv() string {
	var b strings.Builder
	b.WriteString(t.title + "\n")
	if len(t.rows) == 0 {
		return b.String()
	}
	line := func(row []string) {
		for i, text := range row {
			if i > 0 {
				b.WriteString(",")
			}
			if text != "" {
				b.WriteString(`"` + strings.ReplaceAll(text, `"`, `""`) + `"`)
			}
		}
		b.WriteString("\n")
	}
	line(t.heads)
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}
