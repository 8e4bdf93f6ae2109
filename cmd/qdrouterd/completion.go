package main

import (
	"fmt"
	"slices"
	"strings"
)

// shells are those that --completion knows.
var shells = []string{"bash", "zsh", "fish"}

// completionScript returns the script that makes a shell complete the options of
// qdrouterd, and file names after --config, --include and --pidfile.
func completionScript(shell string, options []option) (string, error) {
	i := slices.Index(shells, shell)
	if i < 0 {
		return "", fmt.Errorf("no completion for %q: choose from %s", shell, strings.Join(shells, ", "))
	}
	return []func([]option) string{bashScript, zshScript, fishScript}[i](options), nil
}

// values says what may follow an option: "file", "user", words between blanks, or
// nothing.
func (o option) values() string {
	switch o.long {
	case "config", "include", "pidfile":
		return "file"
	case "user":
		return "user"
	case "completion":
		return strings.Join(shells, " ")
	}
	return ""
}

func bashScript(options []option) string {
	var b strings.Builder
	b.WriteString(`# bash completion for qdrouterd
_qdrouterd() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=
    [ "$COMP_CWORD" -gt 0 ] && prev=${COMP_WORDS[COMP_CWORD-1]}
    # --config=FILE arrives as three words.
    if [ "$cur" = "=" ]; then
        cur=
    elif [ "$prev" = "=" ] && [ "$COMP_CWORD" -gt 1 ]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case $prev in
`)
	var words []string
	for _, o := range options {
		words = append(words, "--"+o.long)
		if o.short != 0 {
			words = append(words, "-"+string(o.short))
		}
		if !o.arg {
			continue
		}
		pattern := "--" + o.long
		if o.short != 0 {
			pattern += "|-" + string(o.short)
		}
		complete := `-W "` + o.values() + `"`
		switch o.values() {
		case "file":
			complete = "-f"
		case "user":
			complete = "-u"
		}
		fmt.Fprintf(&b, "    %s) mapfile -t COMPREPLY < <(compgen %s -- \"$cur\"); return ;;\n", pattern, complete)
	}
	fmt.Fprintf(&b, `    esac
    mapfile -t COMPREPLY < <(compgen -W "%s" -- "$cur")
}
complete -o filenames -F _qdrouterd qdrouterd
`, strings.Join(words, " "))
	return b.String()
}

func zshScript(options []option) string {
	var b strings.Builder
	b.WriteString("#compdef qdrouterd\ncompdef _qdrouterd qdrouterd\n\n_qdrouterd() {\n_arguments -s")
	for _, o := range options {
		action := ""
		if o.arg {
			switch o.values() {
			case "file":
				action = ":file:_files"
			case "user":
				action = ":user:_users"
			default:
				action = ":" + o.long + ":(" + o.values() + ")"
			}
		}
		equals := ""
		if o.arg {
			equals = "="
		}
		fmt.Fprintf(&b, " \\\n    '--%s%s[%s]%s'", o.long, equals, o.about(), action)
		if o.short != 0 {
			fmt.Fprintf(&b, " \\\n    '-%c[%s]%s'", o.short, o.about(), action)
		}
	}
	// From a folder of functions the file is the function; when it is sourced, it defines it.
	b.WriteString("\n}\n\nif [ \"$funcstack[1]\" = _qdrouterd ]; then\n    _qdrouterd\nfi\n")
	return b.String()
}

func fishScript(options []option) string {
	var b strings.Builder
	b.WriteString("# fish completion for qdrouterd\ncomplete -c qdrouterd -f\n")
	for _, o := range options {
		fmt.Fprintf(&b, "complete -c qdrouterd -l %s", o.long)
		if o.short != 0 {
			fmt.Fprintf(&b, " -s %c", o.short)
		}
		switch values := o.values(); {
		case !o.arg:
		case values == "file":
			b.WriteString(" -r -F")
		case values == "user":
			b.WriteString(" -x -a '(__fish_complete_users)'")
		default:
			fmt.Fprintf(&b, " -x -a '%s'", values)
		}
		fmt.Fprintf(&b, " -d '%s'\n", o.about())
	}
	return b.String()
}

// about is the option's line of the usage.
func (o option) about() string {
	var text strings.Builder
	usage(&text, "qdrouterd")
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		for _, end := range []string{" ", "="} {
			_, rest, ok := strings.Cut(line, "--"+o.long+end)
			if !ok || !strings.HasPrefix(line, "-") {
				continue
			}
			if end == "=" {
				_, rest, _ = strings.Cut(rest, " ")
			}
			return strings.TrimSpace(rest)
		}
	}
	return o.long
}
