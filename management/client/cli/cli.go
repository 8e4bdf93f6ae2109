// Package cli gives a cobra command the manners of the command lines of the old
// tools, qdstat and qdmanage, which scripts count on (MG 11.1, 11.5, 12):
//
//   - long options may be shortened to any prefix that only one option has;
//   - options that the old tools did not have are written in full, so that no old
//     abbreviation becomes ambiguous, and are not in the usage, only in the help;
//   - options and arguments may come in any order, and where arguments are
//     allowed an unknown option is one of them;
//   - a mistake in the usage prints the usage and the mistake on stderr, in the
//     old words, and exits with status 2;
//   - any other error is one line "Class: text" on stdout and status 1;
//   - an interrupt prints an empty line and exits with status 1.
//
// [Command.Main] does it in two steps: expand rewrites the command line into
// exact options followed by "--" and the arguments, and cobra parses that.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qdrouter/management/client"
)

// A Group is a set of options that the help text shows together.
type Group struct {
	Title     string // empty: among the general options
	Intro     string
	Exclusive bool           // at most one of them may be given
	Flags     *pflag.FlagSet // in the order of the help text
}

// NewFlags returns an empty set that keeps the order in which flags are added.
// The usage of a flag names its value in back quotes.
func NewFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	return flags
}

// added marks a flag that the old tools did not have: see the package comment.
const added = "added"

// MarkAdded marks flags that the old tools did not have.
func MarkAdded(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		// The only error is a flag that does not exist, which the help shows.
		_ = flags.SetAnnotation(name, added, nil)
	}
}

func isAdded(flag *pflag.Flag) bool {
	_, ok := flag.Annotations[added]
	return ok
}

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // Out is one
}

// Flush writes out what Out has buffered.
func (s Streams) Flush() error {
	if b, ok := s.Out.(*bufio.Writer); ok {
		return b.Flush()
	}
	return nil
}

// A Command is one of the tools.
type Command struct {
	Name      string // as it stands in usage and errors
	Intro     string // what the help text says after the usage
	Version   string
	Groups    []Group // the options, but for --help and --version
	Arguments bool    // whether there may be arguments

	// For completion in a shell: the values of options by the option's name, and
	// those of the first argument. An option that is not here takes any value.
	Values map[string][]string
	First  []string

	// Run does the work. A UsageError counts as a mistake in the command line.
	Run func(ctx context.Context, args []string, s Streams) error
}

// A UsageError is a mistake in the command line.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Exit statuses (MG 11.5).
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// outputSize is the room for what is to be printed: a report may be some
// megabytes.
const outputSize = 64 << 10

// Main runs the command with the arguments after the program's name and returns
// the exit status. Output that cannot be written is an error like any other, but
// there is only stderr left to tell of it.
func (c *Command) Main(args []string, s Streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := bufio.NewWriterSize(s.Out, outputSize)
	s.Out = out
	status := c.main(ctx, args, s, out)
	if err := out.Flush(); err != nil {
		fmt.Fprintf(s.Err, "%s: %s\n", client.Class(err), err)
		return exitError
	}
	return status
}

func (c *Command) main(ctx context.Context, args []string, s Streams, out *bufio.Writer) int {
	groups, shell := c.allGroups()
	layout := layout{name: c.Name, intro: c.Intro, groups: groups}

	cmd := &cobra.Command{
		Use:           c.Name,
		Version:       c.Version,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flag("completion").Changed {
				return printCompletion(cmd, *shell, out)
			}
			return c.Run(cmd.Context(), args, s)
		},
	}
	cmd.Flags().SortFlags = false
	for _, g := range layout.groups {
		cmd.Flags().AddFlagSet(g.Flags)
	}
	cmd.SetOut(out)
	cmd.SetErr(s.Err)
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { io.WriteString(out, layout.help()) })
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })

	c.addCompletions(cmd)
	if asksForCompletion(args) {
		cmd.SetArgs(args)
		if cmd.ExecuteContext(ctx) != nil {
			return exitError
		}
		return exitOK
	}
	exact, err := expand(layout.groups, c.Arguments, args)
	if err == nil {
		cmd.SetArgs(exact)
		err = cmd.ExecuteContext(ctx)
	}

	var usage UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(s.Err, "%s%s: error: %s\n", layout.usage(), c.Name, usage)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(out)
	default:
		fmt.Fprintf(out, "%s: %s\n", client.Class(err), err)
	}
	return exitError
}

// allGroups are the options of the command, with those that every command has,
// and where the value of --completion will be.
func (c *Command) allGroups() (groups []Group, shell *string) {
	general := NewFlags()
	general.BoolP("help", "h", false, "show this help message and exit")
	general.Bool("version", false, "show the version of this program and exit")
	shell = general.String("completion", "", "print the completion script for `SHELL`: "+strings.Join(shells, ", "))
	MarkAdded(general, "completion")
	return slices.Concat([]Group{{Flags: general}}, c.Groups), shell
}

// OS returns the streams of the process.
func OS() Streams {
	info, err := os.Stdout.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return Streams{os.Stdin, os.Stdout, os.Stderr, terminal}
}

// Version is the text for --version: what the linker stamped, else what the Go
// module system knows, else "dev".
func Version(stamped string) string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
