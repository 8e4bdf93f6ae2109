package cli

import (
	"os/exec"
	"strings"
	"testing"
)

func completed(args ...string) (status int, out, errs string) {
	c := &Command{
		Name: "tool", Version: "1", Arguments: true, First: []string{"QUERY", "READ"},
		Values: map[string][]string{"name": {"alpha", "beta"}},
		Groups: []Group{{Flags: testGroups()[1].Flags}, {Flags: testGroups()[2].Flags}},
	}
	var o, e strings.Builder
	status = c.Main(args, Streams{Out: &o, Err: &e})
	return status, o.String(), e.String()
}

func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string // lines, without descriptions; the script picks among them
	}{
		{[]string{""}, "QUERY READ :4"},
		{[]string{"QU"}, "QUERY READ :4"},
		{[]string{"QUERY", ""}, ":4"},
		{[]string{"--name", ""}, "alpha beta :4"},
		{[]string{"--name", "b"}, "alpha beta :4"},
		{[]string{"--completion", ""}, "bash zsh fish :4"},
		{[]string{"--ssl-password-f"}, "--ssl-password-file :4"},
	} {
		status, out, _ := completed(append([]string{"__complete"}, tt.args...)...)
		var got []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		if status != 0 || strings.Join(got, " ") != tt.want {
			t.Errorf("%q: status %d, %q; want 0, %q", tt.args, status, strings.Join(got, " "), tt.want)
		}
	}
}

// A shell has what the script needs, or gets it from the script.
func TestBashWithoutItsCompletionPackage(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("no bash, which the project's own scripts need")
	}
	_, script, _ := completed("--completion", "bash")
	for line, want := range map[string]string{
		"tool --na":     "--name",
		"tool --name=b": "beta",
		"tool ":         "asked:__complete",
	} {
		cmd := exec.Command(bash, "--norc", "--noprofile", "-c", script+`
tool() { # what the program would say to the words it is given
    case "$2" in
    --na) printf -- '--name\n:4\n' ;;
    --name=b) printf 'alpha\nbeta\n:4\n' ;;
    "") printf 'asked:%s\n:4\n' "$1" ;;
    esac
}
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
__start_tool
echo "${COMPREPLY[@]}"
`, "bash", line)
		cmd.Env = []string{} // no function comes from outside
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range shells {
		status, out, errs := completed("--completion", shell)
		if status != 0 || !strings.Contains(out, "tool") || errs != "" {
			t.Errorf("%s: status %d, stderr %q, stdout %q", shell, status, errs, out)
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		check := exec.Command(shell, "-n")
		check.Stdin = strings.NewReader(out)
		if said, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v\n%s", shell, err, said)
		}
	}
	status, _, errs := completed("--completion=csh")
	if want := "tool: error: argument --completion: invalid choice: 'csh' (choose from 'bash', 'zsh', 'fish')\n"; status != 2 || !strings.HasSuffix(errs, want) {
		t.Errorf("csh: status %d, stderr %q; want 2, %q", status, errs, want)
	}
}
