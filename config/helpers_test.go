package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// summary lists the entities that stand in the file, with the attributes given:
// "listener(host=a port=5) log(module=SERVER)".
func summary(c *Config) string {
	var parts []string
	for _, e := range c.Entities {
		if e.File == "" {
			continue
		}
		var attrs []string
		for _, name := range slices.Sorted(maps.Keys(e.Given)) {
			value := fmt.Sprint(e.Attrs[name])
			if m := e.Map(name); m != nil {
				text, _ := json.Marshal(m)
				value = string(text)
			}
			attrs = append(attrs, name+"="+value)
		}
		parts = append(parts, fmt.Sprintf("%s(%s)", e.Type.ShortName(), strings.Join(attrs, " ")))
	}
	return strings.Join(parts, " ")
}

// problems lists what is wrong: "3 listener.port: text".
func problems(err error) []string {
	var le *LoadError
	if !errors.As(err, &le) {
		if err != nil {
			return []string{err.Error()}
		}
		return nil
	}
	var list []string
	for _, p := range le.Problems {
		where := fmt.Sprint(p.Line)
		if p.Section != "" {
			where += " " + p.Section
		}
		if p.Attr != "" {
			where += "." + p.Attr
		}
		list = append(list, where+": "+p.Text)
	}
	return list
}

func warnings(c *Config) []string {
	var list []string
	for _, w := range c.Warnings {
		list = append(list, fmt.Sprintf("%s (%s) %s", w.Module, w.Level, w.Text))
	}
	return list
}

// A fileTest is a file and what comes of it: entities, warnings, or problems. In
// problems a long type name is written with a ~ for its prefix.
type fileTest struct {
	name     string
	file     string
	want     string
	warnings []string
	problems []string
}

func (tt fileTest) run(t *testing.T, format Format) {
	t.Helper()
	t.Run(tt.name, func(t *testing.T) {
		t.Helper()
		c, err := Parse("test.conf", format, []byte(tt.file))
		got := problems(err)
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], Prefix+".", "~")
		}
		if !slices.Equal(got, tt.problems) {
			t.Errorf("problems in\n%s\n got %q\nwant %q", tt.file, got, tt.problems)
		}
		if got := warnings(c); !slices.Equal(got, tt.warnings) {
			t.Errorf("warnings for\n%s\n got %q\nwant %q", tt.file, got, tt.warnings)
		}
		if got := summary(c); err == nil && got != tt.want {
			t.Errorf("entities of\n%s\n got %s\nwant %s", tt.file, got, tt.want)
		}
	})
}
