package logging

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap/zapcore"
)

// A lineFormat is the form of log lines (CFG G8).
type lineFormat struct {
	utc      bool
	strftime string // of the time stamp; "" is the built-in one
}

// builtinFormat is the time stamp of CFG G8 in Go's notation.
const builtinFormat = "2006-01-02 15:04:05.000000 -0700"

// append appends the line of an event, newline included.
func (f lineFormat) append(b []byte, e zapcore.Entry, stamp, source bool) []byte {
	if stamp {
		t := e.Time.Local()
		if f.utc {
			t = e.Time.UTC()
		}
		if f.strftime == "" {
			b = t.AppendFormat(b, builtinFormat)
		} else {
			b = append(b, timestamp(f.strftime, t)...)
		}
		b = append(b, ' ')
	}
	b = append(b, e.LoggerName...)
	b = append(b, " ("...)
	b = append(b, fromZap(e.Level).String()...)
	b = append(b, ") "...)
	b = append(b, e.Message...)
	if source && e.Caller.Defined {
		b = append(b, " ("...)
		b = append(b, shortPath(e.Caller.File)...)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(e.Caller.Line), 10)
		b = append(b, ')')
	}
	return append(b, '\n')
}

// fieldText renders fields as " key=value", sorted by key.
func fieldText(fields []zapcore.Field) string {
	if len(fields) == 0 {
		return ""
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(enc.Fields)) {
		fmt.Fprintf(&b, " %s=%v", key, enc.Fields[key])
	}
	return b.String()
}

// shortPath keeps the folder and the file of a source path.
func shortPath(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		i = strings.LastIndexByte(path[:i], '/')
		return path[i+1:]
	}
	return path
}

// cut shortens text to at most n octets, at the edge of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// timestamp renders t by a strftime format whose result is then a printf format for
// the microseconds (CFG G9).
func timestamp(format string, t time.Time) string {
	return printf(strftime(format, t), t.Nanosecond()/1000)
}
