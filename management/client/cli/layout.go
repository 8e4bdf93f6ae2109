package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// A layout prints usage and help in the columns of the old tools.
type layout struct {
	name   string
	intro  string
	groups []Group
}

const (
	textWidth  = 78 // columns
	helpColumn = 24 // where the explanation of an option starts
)

// usage is the summary of the options that the old tools had, with its final
// newline: it is what they print.
func (l layout) usage() string {
	const prefix = "usage: "
	indent := strings.Repeat(" ", len(prefix)+len(l.name)+1)
	var b strings.Builder
	line := prefix + l.name
	for i, part := range l.parts() {
		if len(line)+1+len(part) > textWidth && i > 0 {
			b.WriteString(line + "\n")
			line = indent + part
			continue
		}
		line += " " + part
	}
	b.WriteString(line + "\n")
	return b.String()
}

// An Option is what a document says of one option.
type Option struct {
	Short, Long string // without hyphens; Short may be empty
	Value       string // the name of its value, or nothing
	Usage       string
}

// A Section is a set of options in a document.
type Section struct {
	Title, Intro string // empty for the general options
	Options      []Option
}

// Sections returns the options in the order of the help text.
func (c *Command) Sections() []Section {
	groups, _ := c.allGroups()
	sections := []Section{{}}
	for _, titled := range []bool{false, true} {
		for _, g := range groups {
			if (g.Title != "") != titled {
				continue
			}
			if titled {
				sections = append(sections, Section{Title: g.Title, Intro: g.Intro})
			}
			s := &sections[len(sections)-1]
			for _, flag := range members(g.Flags) {
				value, usage := pflag.UnquoteUsage(flag)
				if takesNoValue(flag) {
					value = ""
				}
				s.Options = append(s.Options, Option{flag.Shorthand, flag.Name, value, usage})
			}
		}
	}
	return sections
}

// Usage is the summary that stands before a mistake in the usage.
func (c *Command) Usage() string {
	groups, _ := c.allGroups()
	return layout{name: c.Name, groups: groups}.usage()
}

// parts are the pieces of the usage that are not broken over lines.
func (l layout) parts() []string {
	var parts []string
	for _, g := range l.groups {
		var group []string
		for _, flag := range members(g.Flags) {
			if isAdded(flag) {
				continue
			}
			name := "--" + flag.Name
			if flag.Shorthand != "" {
				name = "-" + flag.Shorthand
			}
			group = append(group, withValue(name, flag))
		}
		if g.Exclusive && len(group) > 0 {
			group = []string{strings.Join(group, " | ")}
		}
		for _, part := range group {
			parts = append(parts, "["+part+"]")
		}
	}
	return parts
}

// withValue adds the name of a flag's value to one of the flag's own names.
func withValue(name string, flag *pflag.Flag) string {
	if takesNoValue(flag) {
		return name
	}
	value, _ := pflag.UnquoteUsage(flag)
	return name + " " + value
}

// help is the text of --help.
func (l layout) help() string {
	var b strings.Builder
	b.WriteString(l.usage())
	if l.intro != "" {
		b.WriteString("\n")
		writeWrapped(&b, "", l.intro)
	}
	b.WriteString("\nOptional Arguments:\n")
	for _, g := range l.groups {
		if g.Title == "" {
			writeFlags(&b, g.Flags)
		}
	}
	for _, g := range l.groups {
		if g.Title == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", g.Title)
		if g.Intro != "" {
			writeWrapped(&b, "  ", g.Intro)
			b.WriteString("\n")
		}
		writeFlags(&b, g.Flags)
	}
	return b.String()
}

func writeFlags(b *strings.Builder, set *pflag.FlagSet) {
	for _, flag := range members(set) {
		left := "  " + withValue("--"+flag.Name, flag)
		if flag.Shorthand != "" {
			left = "  " + withValue("-"+flag.Shorthand, flag) + "," + left[1:]
		}
		_, usage := pflag.UnquoteUsage(flag)
		if len(left)+2 > helpColumn {
			b.WriteString(left + "\n")
			left = ""
		}
		lines := wrap(usage, textWidth-helpColumn)
		for _, line := range lines {
			fmt.Fprintf(b, "%-*s%s\n", helpColumn, left, line)
			left = ""
		}
	}
}

func writeWrapped(b *strings.Builder, indent, text string) {
	for _, line := range wrap(text, textWidth-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
}

// wrap breaks text between words into lines of at most width columns.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
