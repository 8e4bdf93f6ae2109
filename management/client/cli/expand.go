package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A word is one word of the command line as the options see it.
type word struct {
	text  string
	flag  *pflag.Flag // the option it stands for, or nil
	name  string      // how the option was written, for messages
	value string      // what is attached to the option
	has   bool        // whether something is attached
	kind  wordKind
}

type wordKind uint8

const (
	argument wordKind = iota // may also be the value of an option before it
	option
	unknown    // looks like an option and is none
	terminator // the first "--"
)

// negativeNumber matches words that start like an option and are a value.
var negativeNumber = regexp.MustCompile(`^-(\d+|\d*\.\d+)$`)

// expand rewrites a command line into exact options, "--" and the arguments. It
// stops at --help and --version, which make the rest irrelevant.
func expand(groups []Group, arguments bool, args []string) ([]string, error) {
	words, err := classify(groups, args)
	if err != nil {
		return nil, err
	}
	var exact, rest []string
	var seen []*pflag.Flag
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.kind != option {
			if w.kind != terminator {
				rest = append(rest, w.text)
			}
			continue
		}
		for takesNoValue(w.flag) && w.has {
			// Short options in one word: -lv.
			next := lookupShort(groups, w.value)
			if strings.HasPrefix(w.name, "--") || next == nil {
				return nil, UsageError(fmt.Sprintf("argument %s: ignored explicit argument %s", display(w.flag), quote(w.value)))
			}
			if seen, err = take(groups, seen, w.flag); err != nil {
				return nil, err
			}
			exact = append(exact, "--"+w.flag.Name)
			w.flag, w.name = next, "-"+next.Shorthand
			w.value = w.value[1:]
			w.has = w.value != ""
		}
		if seen, err = take(groups, seen, w.flag); err != nil {
			return nil, err
		}
		switch {
		case takesNoValue(w.flag):
			exact = append(exact, "--"+w.flag.Name)
			if w.flag.Name == "help" || w.flag.Name == "version" {
				return exact, nil
			}
			continue
		case !w.has && i+1 < len(words) && words[i+1].kind == argument:
			i++
			w.value = words[i].text
		case !w.has:
			return nil, UsageError(fmt.Sprintf("argument %s: expected one argument", display(w.flag)))
		}
		exact = append(exact, "--"+w.flag.Name+"="+w.value)
	}
	if len(rest) > 0 && !arguments {
		return nil, UsageError("unrecognized arguments: " + strings.Join(rest, " "))
	}
	return append(append(exact, "--"), rest...), nil
}

// classify decides for each word alone whether it is an option, and which.
func classify(groups []Group, args []string) ([]word, error) {
	words := make([]word, len(args))
	for i, text := range args {
		words[i].text = text
		if text == "--" {
			words[i].kind = terminator
			for j := i + 1; j < len(args); j++ {
				words[j].text = args[j]
			}
			return words, nil
		}
		w, err := classifyWord(groups, text)
		if err != nil {
			return nil, err
		}
		words[i] = w
	}
	return words, nil
}

func classifyWord(groups []Group, text string) (word, error) {
	w := word{text: text}
	if len(text) < 2 || text[0] != '-' {
		return w, nil
	}
	name, value, has := strings.Cut(text, "=")
	var matches []*pflag.Flag
	if strings.HasPrefix(text, "--") {
		matches = lookupLong(groups, name[2:])
	} else if flag := lookupShort(groups, text[1:]); flag != nil {
		matches = []*pflag.Flag{flag}
		if name = text[:2]; len(text) > 2 && text[2] != '=' {
			value, has = text[2:], true
		}
	}
	switch {
	case len(matches) > 1:
		names := make([]string, len(matches))
		for i, flag := range matches {
			names[i] = "--" + flag.Name
		}
		return w, UsageError(fmt.Sprintf("ambiguous option: %s could match %s", text, strings.Join(names, ", ")))
	case len(matches) == 1:
		return word{text, matches[0], name, value, has, option}, nil
	case !negativeNumber.MatchString(text) && !strings.Contains(text, " "):
		w.kind = unknown
	}
	return w, nil
}

// take notes that an option was given, unless it may not stand beside one seen
// before.
func take(groups []Group, seen []*pflag.Flag, flag *pflag.Flag) ([]*pflag.Flag, error) {
	for _, g := range groups {
		if !g.Exclusive || g.Flags.Lookup(flag.Name) == nil {
			continue
		}
		for _, other := range members(g.Flags) {
			if other != flag && slices.Contains(seen, other) {
				return nil, UsageError(fmt.Sprintf("argument %s: not allowed with argument %s", display(flag), display(other)))
			}
		}
	}
	return append(seen, flag), nil
}

// flags yields every flag, group by group.
func flags(groups []Group) func(func(*pflag.Flag) bool) {
	return func(yield func(*pflag.Flag) bool) {
		for _, g := range groups {
			for _, flag := range members(g.Flags) {
				if !yield(flag) {
					return
				}
			}
		}
	}
}

func members(set *pflag.FlagSet) []*pflag.Flag {
	var list []*pflag.Flag
	set.VisitAll(func(flag *pflag.Flag) { list = append(list, flag) })
	return list
}

// lookupLong returns the flag of that name, or else those whose names start with
// it. New flags have no abbreviations, and take none from the old ones.
func lookupLong(groups []Group, name string) []*pflag.Flag {
	var starting []*pflag.Flag
	for _, g := range groups {
		for _, flag := range members(g.Flags) {
			if flag.Name == name {
				return []*pflag.Flag{flag}
			}
			if !isAdded(flag) && strings.HasPrefix(flag.Name, name) {
				starting = append(starting, flag)
			}
		}
	}
	return starting
}

// lookupShort returns the flag whose short form text starts with.
func lookupShort(groups []Group, text string) *pflag.Flag {
	for flag := range flags(groups) {
		if flag.Shorthand != "" && strings.HasPrefix(text, flag.Shorthand) {
			return flag
		}
	}
	return nil
}

func takesNoValue(flag *pflag.Flag) bool { return flag.NoOptDefVal != "" }

// display names a flag as messages do: -b/--bus.
func display(flag *pflag.Flag) string {
	if flag.Shorthand != "" {
		return "-" + flag.Shorthand + "/--" + flag.Name
	}
	return "--" + flag.Name
}

// flagError words an error of pflag as the old tools do. After expand the only
// one left is a value of the wrong type.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return UsageError(err.Error())
	}
	flag := invalid.GetFlag()
	return UsageError(fmt.Sprintf("argument %s: invalid %s value: %s", display(flag), flag.Value.Type(), quote(invalid.GetValue())))
}

// quote puts text in the quotes of the old messages.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `\'`) + "'" }
