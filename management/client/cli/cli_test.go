package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"qdrouter/management/client"
)

// testGroups are options like those of the tools.
func testGroups() []Group {
	general := NewFlags()
	general.BoolP("help", "h", false, "show this help")
	general.Bool("version", false, "show the version")
	general.CountP("verbose", "v", "show more")
	kind := NewFlags()
	kind.BoolP("general", "g", false, "the general")
	kind.BoolP("connections", "c", false, "the connections")
	kind.Bool("all-entities", false, "everything")
	other := NewFlags()
	other.StringP("bus", "b", "", "the `URL`")
	other.String("name", "", "the `NAME`")
	other.String("identity", "", "the `ID`")
	other.Var(new(Number), "indent", "the `INDENT`")
	other.String("ssl-password", "", "a `PASSWORD`")
	other.String("ssl-password-file", "", "a `FILE`")
	other.Bool("stdin", false, "read")
	return []Group{{Flags: general}, {Title: "Kind", Exclusive: true, Flags: kind}, {Title: "Other", Flags: other}}
}

func TestExpand(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "--"},
		{"-b x", "--bus=x --"},
		{"-bx", "--bus=x --"},
		{"-b=x", "--bus=x --"},
		{"--bus x", "--bus=x --"},
		{"--bus=x=y", "--bus=x=y --"},
		{"--bus=", "--bus= --"},
		{"--id 5", "--identity=5 --"},
		{"--id=5", "--identity=5 --"},
		{"--ind -1", "--indent=-1 --"},
		{"--indent=-1", "--indent=-1 --"},
		{"--name -1.5", "--name=-1.5 --"},
		{"--ssl-password x", "--ssl-password=x --"},
		{"--ssl-password-f x", "--ssl-password-file=x --"},
		{"-v", "--verbose --"},
		{"-vvv", "--verbose --verbose --verbose --"},
		{"-cv", "--connections --verbose --"},
		{"-vb x", "--verbose --bus=x --"},
		{"-vbx", "--verbose --bus=x --"},
		{"-c -c", "--connections --connections --"},
		{"read --name x", "--name=x -- read"},
		{"--name x read y", "--name=x -- read y"},
		{"read --unknown -x -5 - y", "-- read --unknown -x -5 - y"},
		{"read --unknown=1 z", "-- read --unknown=1 z"},
		{"read -- --name x", "-- read --name x"},
		{"--help --unknown", "--help"},
		{"-b x --version --indent", "--bus=x --version"},
		{"--stdin create", "--stdin -- create"},
	} {
		got, err := expand(testGroups(), true, strings.Fields(tt.args))
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.args, strings.Join(got, " "), err, tt.want)
		}
	}
}

// Options that the old tools did not have leave abbreviations as they were.
func TestExpandNeverAbbreviatesNewOptions(t *testing.T) {
	added := NewFlags()
	added.Bool("conflict", false, "begins as --connections does")
	MarkAdded(added, "conflict")
	groups := append(testGroups(), Group{Flags: added})
	for args, want := range map[string]string{
		"--con":      "--connections --",
		"--conf":     "-- --conf",
		"--conflict": "--conflict --",
	} {
		got, err := expand(groups, true, []string{args})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; want %q", args, strings.Join(got, " "), err, want)
		}
	}
}

// A word with a blank in it is no option, even if it starts like one.
func TestExpandTakesWordsWithBlanksForArguments(t *testing.T) {
	got, err := expand(testGroups(), true, []string{"--name", "-x y", "-a b", ""})
	if want := []string{"--name=-x y", "--", "-a b", ""}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestExpandRefuses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-b", "argument -b/--bus: expected one argument"},
		{"--name --stdin", "argument --name: expected one argument"},
		{"--name -x", "argument --name: expected one argument"},
		{"--name -- x", "argument --name: expected one argument"},
		{"--i 1", "ambiguous option: --i could match --identity, --indent"},
		{"--ssl=1", "ambiguous option: --ssl=1 could match --ssl-password, --ssl-password-file"},
		{"x --stdin=yes", "argument --stdin: ignored explicit argument 'yes'"},
		{"-vx", "argument -v/--verbose: ignored explicit argument 'x'"},
		{"--verbose=v", "argument -v/--verbose: ignored explicit argument 'v'"},
		{"-c --all-entities", "argument --all-entities: not allowed with argument -c/--connections"},
		{"-gc", "argument -c/--connections: not allowed with argument -g/--general"},
	} {
		_, err := expand(testGroups(), true, strings.Fields(tt.args))
		var usage UsageError
		if !errors.As(err, &usage) || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.args, err, tt.want)
		}
	}
	_, err := expand(testGroups(), false, []string{"a", "-v", "--x", "c"})
	if want := "unrecognized arguments: a --x c"; err == nil || err.Error() != want {
		t.Errorf("without arguments: %v, want %s", err, want)
	}
}

// runMain runs a command with the options of testGroups whose work is run.
func runMain(t *testing.T, arguments bool, run func(args []string) error, args ...string) (status int, out, errs string) {
	t.Helper()
	groups := testGroups()
	general := NewFlags() // Main adds --help and --version
	general.AddFlag(groups[0].Flags.Lookup("verbose"))
	groups[0].Flags = general
	c := &Command{
		Name: "tool", Version: "1.2.3", Groups: groups, Arguments: arguments,
		Run: func(_ context.Context, args []string, s Streams) error {
			fmt.Fprint(s.Out, "output\n")
			return run(args)
		},
	}
	var o, e strings.Builder
	status = c.Main(args, Streams{Out: &o, Err: &e})
	return status, o.String(), e.String()
}

const testUsage = `usage: tool [-h] [--version] [-v] [-g | -c | --all-entities] [-b URL]
            [--name NAME] [--identity ID] [--indent INDENT]
            [--ssl-password PASSWORD] [--ssl-password-file FILE] [--stdin]
`

// MG 11.5.
func TestMain(t *testing.T) {
	ok := func([]string) error { return nil }
	for _, tt := range []struct {
		name   string
		run    func([]string) error
		args   []string
		status int
		out    string
		err    string
	}{
		{"success", ok, nil, 0, "output\n", ""},
		{"refusal", func([]string) error { return &client.StatusError{Status: 404, Description: "not there"} }, nil, 1,
			"output\nNotFoundStatus: not there\n", ""},
		{"failure", func([]string) error { return client.Failf("Timeout", "too late") }, nil, 1, "output\nTimeout: too late\n", ""},
		{"mistake seen by the command", func([]string) error { return UsageError("No operation specified") }, nil, 2,
			"output\n", testUsage + "tool: error: No operation specified\n"},
		{"mistake in the options", ok, []string{"-b"}, 2, "", testUsage + "tool: error: argument -b/--bus: expected one argument\n"},
		{"value of the wrong type", ok, []string{"--indent", "x"}, 2, "",
			testUsage + "tool: error: argument --indent: invalid int value: 'x'\n"},
		{"version", ok, []string{"--version"}, 0, "1.2.3\n", ""},
		{"version before help", ok, []string{"--vers", "--help"}, 0, "1.2.3\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := runMain(t, true, tt.run, tt.args...)
			if status != tt.status || out != tt.out || errs != tt.err {
				t.Errorf("status %d, stdout %q, stderr %q; want %d, %q, %q", status, out, errs, tt.status, tt.out, tt.err)
			}
		})
	}
}

// A script must learn that a full disk has half a report.
func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	c := &Command{Name: "tool", Run: func(_ context.Context, _ []string, s Streams) error {
		_, err := fmt.Fprint(s.Out, "output\n")
		return err
	}}
	var errs strings.Builder
	if status := c.Main(nil, Streams{Out: full, Err: &errs}); status != 1 || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("status %d, stderr %q; want 1 and the reason", status, errs.String())
	}
}

func TestMainPassesArguments(t *testing.T) {
	var got []string
	runMain(t, true, func(args []string) error { got = args; return nil }, "query", "-v", "--foo", "x=1")
	if want := []string{"query", "--foo", "x=1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
}

func TestHelp(t *testing.T) {
	status, out, errs := runMain(t, true, nil, "-h")
	const want = testUsage + `
Optional Arguments:
  -h, --help            show this help message and exit
  --version             show the version of this program and exit
  --completion SHELL    print the completion script for SHELL: bash, zsh, fish
  -v, --verbose         show more

Kind:
  -g, --general         the general
  -c, --connections     the connections
  --all-entities        everything

Other:
  -b URL, --bus URL     the URL
  --name NAME           the NAME
  --identity ID         the ID
  --indent INDENT       the INDENT
  --ssl-password PASSWORD
                        a PASSWORD
  --ssl-password-file FILE
                        a FILE
  --stdin               read
`
	if status != 0 || out != want || errs != "" {
		t.Errorf("status %d, stderr %q, stdout\n%s\nwant\n%s", status, errs, out, want)
	}
}

func TestNumbers(t *testing.T) {
	set := func(v pflag.Value, text string) string {
		if err := v.Set(text); err != nil {
			return "error"
		}
		return v.String()
	}
	for _, tt := range []struct{ got, want string }{
		{set(new(Number), "12"), "12"},
		{set(new(Number), " -1 "), "-1"},
		{set(new(Number), "010"), "10"},
		{set(new(Number), "0x10"), "error"},
		{set(new(Number), "1.5"), "error"},
		{set(new(Number), ""), "error"},
		{set(new(Seconds), "1.5"), "1.5"},
		{set(new(Seconds), "1e-3"), "0.001"},
		{set(new(Seconds), "inf"), "+Inf"},
		{set(new(Seconds), "nan"), "error"},
		{set(new(Seconds), "5s"), "error"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := Version("v1.2.3"); got != "v1.2.3" {
		t.Errorf("stamped: %q", got)
	}
	if Version("") == "" {
		t.Error("not stamped: empty")
	}
}
