package logging

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftime renders t by a strftime format: the directives of C and those GNU adds, in
// the C locale. An unknown one stays as it is.
func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		pad := byte(0) // '-', '_' or '0' overrides the padding of a number
		upper := false
	flags:
		for ; i < len(format); i++ {
			switch format[i] {
			case '-', '_', '0':
				pad = format[i]
			case '^':
				upper = true
			default:
				break flags
			}
		}
		if i < len(format) && (format[i] == 'E' || format[i] == 'O') {
			i++ // other calendars and digits: none in the C locale
		}
		if i == len(format) {
			b.WriteString(format[start:])
			break
		}
		text, ok := directive(format[i], pad, t)
		switch {
		case !ok:
			text = format[start : i+1]
		case upper:
			text = strings.ToUpper(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// directive renders one strftime directive.
func directive(c, pad byte, t time.Time) (text string, ok bool) {
	number := func(n, width int, fill byte) string {
		switch pad {
		case '-':
			return strconv.Itoa(n)
		case '_':
			fill = ' '
		case '0':
			fill = '0'
		}
		s := strconv.Itoa(n)
		return strings.Repeat(string(fill), max(0, width-len(s))) + s
	}
	hour12 := (t.Hour()+11)%12 + 1
	isoYear, isoWeek := t.ISOWeek()
	switch c {
	case 'a':
		return t.Format("Mon"), true
	case 'A':
		return t.Format("Monday"), true
	case 'b', 'h':
		return t.Format("Jan"), true
	case 'B':
		return t.Format("January"), true
	case 'c':
		return t.Format("Mon Jan _2 15:04:05 2006"), true
	case 'C':
		return number(t.Year()/100, 2, '0'), true
	case 'd':
		return number(t.Day(), 2, '0'), true
	case 'D', 'x':
		return t.Format("01/02/06"), true
	case 'e':
		return number(t.Day(), 2, ' '), true
	case 'F':
		return t.Format("2006-01-02"), true
	case 'g':
		return number(isoYear%100, 2, '0'), true
	case 'G':
		return number(isoYear, 4, '0'), true
	case 'H':
		return number(t.Hour(), 2, '0'), true
	case 'I':
		return number(hour12, 2, '0'), true
	case 'j':
		return number(t.YearDay(), 3, '0'), true
	case 'k':
		return number(t.Hour(), 2, ' '), true
	case 'l':
		return number(hour12, 2, ' '), true
	case 'm':
		return number(int(t.Month()), 2, '0'), true
	case 'M':
		return number(t.Minute(), 2, '0'), true
	case 'n':
		return "\n", true
	case 'p':
		return t.Format("PM"), true
	case 'P':
		return t.Format("pm"), true
	case 'r':
		return t.Format("03:04:05 PM"), true
	case 'R':
		return t.Format("15:04"), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'S':
		return number(t.Second(), 2, '0'), true
	case 't':
		return "\t", true
	case 'T', 'X':
		return t.Format("15:04:05"), true
	case 'u':
		return number((int(t.Weekday())+6)%7+1, 1, '0'), true
	case 'U':
		return number((t.YearDay()+6-int(t.Weekday()))/7, 2, '0'), true
	case 'V':
		return number(isoWeek, 2, '0'), true
	case 'w':
		return number(int(t.Weekday()), 1, '0'), true
	case 'W':
		return number((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2, '0'), true
	case 'y':
		return number(t.Year()%100, 2, '0'), true
	case 'Y':
		return number(t.Year(), 4, '0'), true
	case 'z':
		return t.Format("-0700"), true
	case 'Z':
		return t.Format("MST"), true
	case '%':
		return "%", true
	}
	return "", false
}

// printf renders the conversions of an unsigned long with the value, and %% as %.
// Others stay as they are.
func printf(format string, value int) string {
	if !strings.Contains(format, "%") {
		return format
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		end := i + 1
		for end < len(format) && strings.IndexByte("-0123456789", format[end]) >= 0 {
			end++
		}
		spec := format[i:end]
		for end < len(format) && format[end] == 'l' {
			end++
		}
		if end == len(format) {
			b.WriteString(format[i:])
			break
		}
		switch c := format[end]; {
		case c == '%':
			b.WriteByte('%')
		case strings.IndexByte("udi", c) >= 0 && len(spec) <= 3:
			fmt.Fprintf(&b, spec+"d", value)
		default:
			b.WriteString(format[i : end+1])
		}
		i = end
	}
	return b.String()
}
