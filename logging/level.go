package logging

import (
	"fmt"
	"strings"

	"go.uber.org/zap/zapcore"
)

// Level is the severity of an event.
type Level int8

// The levels, from the least to the most severe.
const (
	Trace Level = iota
	Debug
	Info
	Notice
	Warning
	Error
	Critical

	levels = int(Critical) + 1
)

var levelNames = [levels]string{"trace", "debug", "info", "notice", "warning", "error", "critical"}

// String returns the level's name in the log and in configuration files.
func (l Level) String() string {
	if l < Trace || l > Critical {
		return fmt.Sprintf("Level(%d)", int8(l))
	}
	return levelNames[l]
}

// ParseLevel returns the level of that name.
func ParseLevel(name string) (Level, bool) {
	for i, n := range levelNames {
		if n == name {
			return Level(i), true
		}
	}
	return 0, false
}

// zapOffset puts our levels behind those of zap, which end the program at some.
const zapOffset = zapcore.FatalLevel + 1

func (l Level) zap() zapcore.Level { return zapOffset + zapcore.Level(l) }

// fromZap returns our level for one of zap's or for one made by Level.zap.
func fromZap(z zapcore.Level) Level {
	switch {
	case z >= zapOffset:
		return Level(z - zapOffset)
	case z >= zapcore.DPanicLevel:
		return Critical
	case z == zapcore.ErrorLevel:
		return Error
	case z == zapcore.WarnLevel:
		return Warning
	case z == zapcore.InfoLevel:
		return Info
	case z == zapcore.DebugLevel:
		return Debug
	}
	return Trace
}

// A mask is a set of levels: bit l stands for level l.
type mask uint32

func (m mask) has(l Level) bool { return m&(1<<l) != 0 }

// from is the set of l and all levels above.
func from(l Level) mask { return (1<<levels - 1) &^ (1<<l - 1) }

// A LevelError is an enable value that is not understood (CFG G3).
type LevelError struct {
	Value string
}

func (e *LevelError) Error() string {
	return fmt.Sprintf("Configuration: '%s' is not a valid log level. Should be one of {none, %s}.",
		e.Value, strings.Join(levelNames[:], ", "))
}

// CheckEnable tells whether an enable value is understood; the error is a
// *LevelError.
func CheckEnable(value string) error {
	_, _, err := parseEnable(value)
	return err
}

// parseEnable reads an enable value (CFG G2): words separated by comma, semicolon,
// colon or blank, each a level, "none" or "default", perhaps shortened, or a level
// with "+" for it and all above. With follow set the module follows DEFAULT. An
// empty value is none.
func parseEnable(value string) (m mask, follow bool, err error) {
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(",;: \t", r) }) {
		name, above := strings.CutSuffix(strings.ToLower(word), "+")
		switch {
		case name == "":
			return 0, false, &LevelError{value}
		case strings.HasPrefix("default", name):
			follow = true
			continue
		case strings.HasPrefix("none", name):
			continue
		}
		level := -1
		for i, n := range levelNames {
			if strings.HasPrefix(n, name) {
				level = i
				break
			}
		}
		switch {
		case level < 0:
			return 0, false, &LevelError{value}
		case above:
			m |= from(Level(level))
		default:
			m |= 1 << level
		}
	}
	return m, follow, nil
}
