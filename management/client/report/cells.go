package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"qdrouter/management/client"
)

// text is a value as a cell shows it: nothing for null, True and False, numbers
// in decimal, lists and maps in the notation of the old tools.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return literal(v)
}

// literal writes a value as a list or map shows it, strings in quotes.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return quoted(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e16 {
			return strconv.FormatFloat(v, 'f', 1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = literal(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case client.Map:
		items := make([]string, len(v))
		for i, e := range v {
			items[i] = quoted(e.Key) + ": " + literal(e.Value)
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// quoted puts text in single quotes, or in double quotes when that saves
// escaping.
func quoted(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// number returns an integer value; ok is false when v is none.
func number(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case uint64:
		return int64(min(v, math.MaxInt64)), true
	case float64:
		return int64(v), true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// plainNumber is a number without any decoration, "None" for null.
func plainNumber(v any) string {
	if u, ok := v.(uint64); ok {
		return strconv.FormatUint(u, 10)
	}
	if n, ok := number(v); ok {
		return strconv.FormatInt(n, 10)
	}
	if v == nil {
		return "None"
	}
	return text(v)
}

// count is a number, nothing for null.
func count(v any) string {
	if v == nil {
		return ""
	}
	return plainNumber(v)
}

// thousands is a number in groups of three digits, nothing for null.
func thousands(v any) string {
	digits := count(v)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// longTime is a number of seconds as DDD:HH:MM:SS, "-" for null.
func longTime(v any) string {
	s, ok := number(v)
	if !ok {
		return "-"
	}
	const day = 24 * 3600
	return fmt.Sprintf("%03d:%02d:%02d:%02d", s/day, s%day/3600, s%3600/60, s%60)
}

// shortTime is a number of seconds as HH:MM:SS within a day.
func shortTime(seconds int64) string {
	return time.Unix(seconds, 0).UTC().Format(time.TimeOnly)
}

// binarySize is a number of octets in the largest unit that leaves a number of
// 1 or more.
func binarySize(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	f := float64(n)
	i := -1
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	switch {
	case f < 10:
		return fmt.Sprintf("%.2f %s", f, units[i])
	case f < 100:
		return fmt.Sprintf("%.1f %s", f, units[i])
	}
	return fmt.Sprintf("%.0f %s", f, units[i])
}

// An address is the key of a row of the address table, taken apart (MG 13.3).
type address struct{ class, text, phase string }

func parseAddress(v any) address {
	key, _ := v.(string)
	if key == "" {
		return address{}
	}
	a := address{text: key[1:]}
	switch key[0] {
	case 'M':
		a.class = "mobile"
		if len(key) > 1 {
			a.phase, a.text = key[1:2], key[2:]
		}
	case 'R':
		a.class = "router"
	case 'A':
		a.class = "area"
	case 'L':
		a.class = "local"
	case 'T':
		a.class = "topo"
	case 'C', 'E':
		a.class = "link-in"
	case 'D', 'F':
		a.class = "link-out"
	case 'H':
		a.class = "edge"
	default:
		a.class = "unknown: " + key[:1]
	}
	return a
}
