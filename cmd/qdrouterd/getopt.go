package main

import (
	"fmt"
	"slices"
	"strings"
)

// An option of the command line.
type option struct {
	short byte // 0: long form only
	long  string
	arg   bool // takes an argument
	new   bool // not in 1.19; see getopt
	set   func(arg string)
}

// getopt reads arguments as getopt_long does (CFG 1.1): options and words in any
// order, short options in bundles (-dT, -cFILE), long ones with `=` or a
// separate argument and shortened as long as they stay unique. A word `--` ends
// the options.
//
// Abbreviations are looked up among the options of 1.19 alone, so that adding an
// option breaks nobody's script. An option with stop as its long name ends the
// reading at once, as one that only prints something does.
func getopt(args []string, options []option, stop ...string) (words []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		var o *option
		switch {
		case arg == "--":
			return append(words, args...), nil
		case strings.HasPrefix(arg, "--"):
			o, args, err = longOption(arg[2:], args, options)
		case len(arg) > 1 && arg[0] == '-':
			o, args, err = shortOptions(arg[1:], args, options, stop)
		default:
			words = append(words, arg)
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(stop, o.long) {
			return nil, nil
		}
	}
	return words, nil
}

func longOption(text string, args []string, options []option) (*option, []string, error) {
	name, value, given := strings.Cut(text, "=")
	o, err := findLong(name, options)
	switch {
	case err != nil:
		return nil, nil, err
	case given && !o.arg:
		return nil, nil, fmt.Errorf("option '--%s' doesn't allow an argument", o.long)
	case o.arg && !given && len(args) == 0:
		return nil, nil, fmt.Errorf("option '--%s' requires an argument", o.long)
	case o.arg && !given:
		value, args = args[0], args[1:]
	}
	o.set(value)
	return o, args, nil
}

func findLong(name string, options []option) (*option, error) {
	var found []*option
	for i := range options {
		o := &options[i]
		if o.long == name {
			return o, nil
		}
		if !o.new && strings.HasPrefix(o.long, name) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("unrecognized option '--%s'", name)
	}
	err := fmt.Sprintf("option '--%s' is ambiguous; possibilities:", name)
	for _, o := range found {
		err += " '--" + o.long + "'"
	}
	return nil, fmt.Errorf("%s", err)
}

// shortOptions reads a bundle and returns the last option in it, or the first
// that stops.
func shortOptions(bundle string, args []string, options []option, stop []string) (*option, []string, error) {
	var o *option
	for i := range len(bundle) {
		n := slices.IndexFunc(options, func(o option) bool { return o.short == bundle[i] && o.short != 0 })
		if n < 0 {
			return nil, nil, fmt.Errorf("invalid option -- '%c'", bundle[i])
		}
		o = &options[n]
		if !o.arg {
			o.set("")
			if slices.Contains(stop, o.long) {
				break
			}
			continue
		}
		value := bundle[i+1:]
		if value == "" {
			if len(args) == 0 {
				return nil, nil, fmt.Errorf("option requires an argument -- '%c'", bundle[i])
			}
			value, args = args[0], args[1:]
		}
		o.set(value)
		break
	}
	return o, args, nil
}
