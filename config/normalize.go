package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// An AttrError tells what is wrong with an entity or one of its attributes.
type AttrError struct {
	Type *EntityType
	Attr string // as it was given, or "" when the error is about the entity
	Msg  string // in the words of 1.19 where it has some
	Hint string // a name that may have been meant, or ""
	Kind string // see Problem

	missing bool // a required attribute was not given
}

func (e *AttrError) Error() string {
	if e.Hint != "" {
		return fmt.Sprintf("%s (did you mean '%s'?)", e.Msg, e.Hint)
	}
	return e.Msg
}

// attrErrorf makes an error whose text starts with the type, as those of the schema
// do (CFG B25).
func attrErrorf(t *EntityType, attr, format string, args ...any) *AttrError {
	return &AttrError{Type: t, Attr: attr, Msg: t.LongName + ": " + fmt.Sprintf(format, args...)}
}

// Normalize makes an entity of type t from attributes as they were given: in a
// configuration file, or in the body of a CREATE request. It fills in defaults
// and converts values (MG 6.1, 6.2; CFG B18 to B25), accepts the older names of
// attributes (CFG B30), and refuses numbers that make no sense (CFG B24).
//
// Values may be of any scalar Go type, named ones included, map[string]any or
// []any; nil counts as absent. An attribute type must name t, identity is left
// out: neither is kept. The map itself is left alone.
//
// The warnings are texts for the log, module AGENT. The error joins one *AttrError
// for each problem; the entity then holds what is right.
func Normalize(t *EntityType, attrs map[string]any) (e *Entity, warnings []string, err error) {
	var errs []error
	e = &Entity{Type: t, Attrs: map[string]any{}, Given: map[string]bool{}}
	all := t.AllAttributes()
	rest := maps.Clone(attrs)
	for i := range all {
		a := &all[i]
		value, given := rest[a.Name], a.Name
		delete(rest, a.Name)
		if a.DeprecationName != "" {
			old := rest[a.DeprecationName]
			delete(rest, a.DeprecationName)
			switch {
			case old == nil:
			case value != nil:
				errs = append(errs, attrErrorf(t, a.DeprecationName, "Both '%s' and '%s' cannot be specified for entity '%s'",
					a.DeprecationName, a.Name, t.ShortName()))
				continue
			default:
				warnings = append(warnings, fmt.Sprintf("Attribute '%s' of entity '%s' has been deprecated. Use '%s' instead",
					a.DeprecationName, t.ShortName(), a.Name))
				value, given = old, a.DeprecationName
			}
		}
		switch {
		case a.Name == "identity":
		case a.Name == "type":
			if name, err := toString(plain(value)); value != nil && (err != "" || LongName(name) != t.LongName) {
				errs = append(errs, attrErrorf(t, "type", "Attribute 'type' has fixed value '%s' but given '%v'", t.LongName, value))
			}
		case value != nil:
			v, msg := coerce(a, value)
			if msg == "" {
				msg = sane(t, a.Name, v)
			}
			if msg != "" {
				errs = append(errs, attrErrorf(t, given, "%s", msg))
				continue
			}
			e.Attrs[a.Name] = v
			e.Given[a.Name] = true
		case a.Default != nil:
			e.Attrs[a.Name], _ = coerce(a, a.Default)
		case a.Required, a.Name == "name" && nameRequired(t):
			err := attrErrorf(t, a.Name, "Missing required attribute '%s'", a.Name)
			err.missing = true
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if rest[name] != nil {
			errs = append(errs, unknownAttribute(t, name))
		}
	}
	if t.Name == "log" && e.Attrs["module"] == "DEFAULT" {
		for name, v := range defaultLog {
			if !e.Has(name) {
				e.Attrs[name] = v
			}
		}
	}
	errs = append(errs, checkEntity(e)...)
	return e, warnings, errors.Join(errs...)
}

// defaultLog is what the log module DEFAULT has where nothing is set (MG 7.4).
var defaultLog = map[string]any{
	"enable":           "info+",
	"includeTimestamp": true,
	"includeSource":    false,
	"outputFile":       "stderr",
}

// nameRequired reports whether entities of the type are of no use without a name
// (CFG B27, CFG D4).
func nameRequired(t *EntityType) bool {
	return t.Name == "sslProfile" || t.Name == "authServicePlugin"
}

func unknownAttribute(t *EntityType, name string) *AttrError {
	err := attrErrorf(t, name, "Unknown attribute '%s' for '%s'", name, t.LongName)
	var known []string
	for _, a := range t.AllAttributes() {
		known = append(known, a.Name)
	}
	err.Hint = nearest(name, known)
	return err
}

// CheckCreate tells whether a CREATE request may set these attributes: each must
// be known, by its current or older name, and have the Create flag (MG 4.3). The
// error joins one *AttrError for each that may not.
func CheckCreate(t *EntityType, attrs map[string]any) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if a := t.Lookup(name); a == nil {
			errs = append(errs, unknownAttribute(t, name))
		} else if !a.Create {
			errs = append(errs, attrErrorf(t, name, "Cannot set attribute '%s' in CREATE", name))
		}
	}
	return errors.Join(errs...)
}

// CheckUpdate is CheckCreate for an UPDATE of the entity old (MG 4.4). Its present
// values, identity and type left aside, may always be given.
func CheckUpdate(old *Entity, changes map[string]any) error {
	t := old.Type
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		a := t.Lookup(name)
		if a == nil {
			errs = append(errs, unknownAttribute(t, name))
			continue
		}
		if a.Update {
			continue
		}
		if v, msg := coerce(a, changes[name]); msg != "" || !reflect.DeepEqual(v, old.Attrs[a.Name]) {
			errs = append(errs, attrErrorf(t, name, "Cannot update attribute '%s' in UPDATE", name))
		}
	}
	return errors.Join(errs...)
}

// Tag gives the tag of an enumeration that a value stands for, which may be an
// index into it (MG 6.2); "" when it stands for none.
func (a *Attribute) Tag(value any) string {
	tag, _ := toEnum(a.Enum, plain(value))
	return tag
}

// coerce converts a value to the type of the attribute; msg tells why it cannot.
func coerce(a *Attribute, value any) (v any, msg string) {
	value = plain(value)
	switch a.Type {
	case String, Path, EntityID:
		return toString(value)
	case Integer:
		return toInt(value)
	case Boolean:
		return toBool(value)
	case Enum:
		return toEnum(a.Enum, value)
	case Map:
		if m, ok := value.(map[string]any); ok {
			return m, ""
		}
		return nil, fmt.Sprintf("Attribute '%s' must be a map", a.Name)
	case List:
		if l, ok := value.([]any); ok {
			return l, ""
		}
		return nil, fmt.Sprintf("Attribute '%s' must be a list", a.Name)
	case Properties:
		m, ok := value.(map[string]any)
		if !ok {
			return nil, "Properties must be a map"
		}
		for key := range m {
			if strings.ContainsFunc(key, func(r rune) bool { return r > 127 }) {
				return nil, "Property keys must be ASCII encoded"
			}
		}
		return m, ""
	}
	panic("config: attribute " + a.Name + " has no type")
}

// plain reduces a value to nil, bool, int64, float64, string, []any or
// map[string]any. Another value stays as it is.
func plain(value any) any {
	switch value.(type) {
	case nil, bool, int64, float64, string:
		return value
	}
	rv := reflect.ValueOf(value)
	switch {
	case rv.Kind() == reflect.Bool:
		return rv.Bool()
	case rv.CanInt():
		return rv.Int()
	case rv.CanUint():
		if n := rv.Uint(); n <= math.MaxInt64 {
			return int64(n)
		}
		return float64(rv.Uint())
	case rv.CanFloat():
		return rv.Float()
	case rv.Kind() == reflect.String:
		return rv.String()
	case rv.Kind() == reflect.Map && rv.Type().Key().Kind() == reflect.String:
		m := make(map[string]any, rv.Len())
		for it := rv.MapRange(); it.Next(); {
			m[it.Key().String()] = plain(it.Value().Interface())
		}
		return m
	case rv.Kind() == reflect.Slice && rv.Type().Elem().Kind() != reflect.Uint8:
		list := make([]any, rv.Len())
		for i := range list {
			list[i] = plain(rv.Index(i).Interface())
		}
		return list
	}
	return value
}

// toString converts a scalar (CFG B21).
func toString(value any) (s string, msg string) {
	switch v := value.(type) {
	case string:
		return v, ""
	case bool:
		return strconv.FormatBool(v), ""
	case int64:
		return strconv.FormatInt(v, 10), ""
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), ""
	case map[string]any:
		return "", "Invalid value: a map where text should be"
	case []any:
		return "", "Invalid value: a list where text should be"
	}
	return "", fmt.Sprintf("Invalid value of type %T where text should be", value)
}

// toInt converts a number or its text (CFG B19).
func toInt(value any) (n int64, msg string) {
	switch v := value.(type) {
	case int64:
		return v, ""
	case bool:
		if v {
			return 1, ""
		}
		return 0, ""
	case float64:
		if -1<<63 <= v && v < 1<<63 {
			return int64(v), ""
		}
		return 0, fmt.Sprintf("%g is too large for an integer", v)
	case string:
		return ParseInt(v)
	}
	return 0, fmt.Sprintf("invalid literal for int() with base 10: '%v'", value)
}

// ParseInt reads a number as the text of an attribute may give it: an optional
// sign and decimal digits with single underscores between them, blanks around. The
// message tells why it cannot, in the words of 1.19.
func ParseInt(text string) (n int64, msg string) {
	s := strings.TrimSpace(text)
	digits := strings.TrimLeft(s, "+-")
	ok := len(s)-len(digits) <= 1 && digits != "" && digits[0] != '_' && digits[len(digits)-1] != '_' &&
		!strings.Contains(digits, "__") && !strings.ContainsFunc(digits, func(r rune) bool { return r != '_' && (r < '0' || r > '9') })
	if !ok {
		return 0, fmt.Sprintf("invalid literal for int() with base 10: %s", quote(text))
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		return 0, fmt.Sprintf("%s is too large for an integer", s)
	}
	return n, ""
}

// toBool takes a word, or the truth of anything else (CFG B18).
func toBool(value any) (b bool, msg string) {
	switch v := value.(type) {
	case bool:
		return v, ""
	case int64:
		return v != 0, ""
	case float64:
		return v != 0, ""
	case map[string]any:
		return len(v) > 0, ""
	case []any:
		return len(v) > 0, ""
	case string:
		switch strings.ToLower(v) {
		case "yes", "true", "on":
			return true, ""
		case "no", "false", "off":
			return false, ""
		}
		return false, fmt.Sprintf("Invalid Boolean value '%s'", quote(v))
	}
	return false, fmt.Sprintf("Invalid Boolean value '%v'", value)
}

// toEnum takes a tag or its index (CFG B20).
func toEnum(tags []string, value any) (tag string, msg string) {
	if s, ok := value.(string); ok && slices.Contains(tags, s) {
		return s, ""
	}
	if n, msg := toInt(value); msg == "" && 0 <= n && n < int64(len(tags)) {
		return tags[n], ""
	}
	text := fmt.Sprint(value)
	if s, ok := value.(string); ok {
		text = quote(s)
	}
	quoted := make([]string, len(tags))
	for i, tag := range tags {
		quoted[i] = quote(tag)
	}
	return "", fmt.Sprintf("Invalid value for enum[%s]: %s", strings.Join(quoted, ", "), text)
}

// escapes are those of Python, in whose texts the values of 1.19 stand.
var escapes = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

// quote puts text between quotes as the texts of 1.19 do.
func quote(s string) string {
	s = escapes.Replace(s)
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `\'`) + "'"
}

// nearest returns the name that looks most like s, or "" when none comes close.
func nearest(s string, names []string) string {
	best, bestDistance := "", len(s)/3+2
	for _, name := range names {
		if d := distance(strings.ToLower(s), strings.ToLower(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the number of octets to insert, delete, replace or swap with a
// neighbour to get from a to b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
