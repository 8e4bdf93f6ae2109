package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"qdrouter/tests/internal/rig"
)

// examplePort is the port of examples/qdrouterd.conf and the README. Tests
// take another, which the system chooses.
const examplePort = "5672"

// exampleConf returns the path of a copy of examples/qdrouterd.conf with a
// port the system chooses. Its listener is called clients.
func exampleConf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rig.Root(), "examples", "qdrouterd.conf"))
	if err != nil {
		t.Fatal(err)
	}
	line := "port: " + examplePort
	if strings.Count(string(text), line) != 1 {
		t.Fatalf("examples/qdrouterd.conf has no one line %q", line)
	}
	path := filepath.Join(t.TempDir(), "qdrouterd.conf")
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), line, "port: 0", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every command of the README does what a reader expects of it: it ends with
// status 0, or, where it is to start the router, the router listens.
func TestREADMECommands(t *testing.T) {
	if rig.Foreign() {
		t.Skip("the README is about the programs of this tree")
	}
	rig.NeedProton(t)
	readme, err := os.ReadFile(filepath.Join(rig.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no commands")
	}
	// Make of the make that may be running this test.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS")
	})
	env = append(env, "CONF="+exampleConf(t))

	address := ""
	seen := map[string]bool{}
	for _, block := range blocks {
		script := strings.TrimSpace(block[1])
		seen[script] = true
		switch script {
		case "make run":
			cmd := exec.Command("make", "run")
			cmd.Dir, cmd.Env = rig.Root(), env
			address = rig.Run(t, cmd).Addr(t)
		case "make test":
			// What it runs is running now: see that it is there to be run.
			run(t, env, "make -n test")
		default:
			if strings.HasPrefix(script, "make demo ") {
				examples(t, env, script)
				continue
			}
			if strings.Contains(script, examplePort) && address == "" {
				t.Fatalf("README.md uses the router before it starts it: %s", script)
			}
			run(t, env, strings.ReplaceAll(script, "127.0.0.1:"+examplePort, address))
		}
	}
	for _, command := range []string{"make run", "make test"} {
		if !seen[command] {
			t.Errorf("README.md does not give %q as a command of its own", command)
		}
	}
}

// examples checks that a script of the README shows every example that has a
// demo. Each has a test of its own which runs it on other ports.
func examples(t *testing.T, env []string, script string) {
	t.Helper()
	demos, err := filepath.Glob(filepath.Join(rig.Root(), "examples", "*", "demo.sh"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range demos {
		want = append(want, "make demo EXAMPLE="+filepath.Base(filepath.Dir(path)))
	}
	got := slices.Sorted(strings.SplitSeq(script, "\n"))
	if !slices.Equal(got, want) {
		t.Errorf("README.md shows the demos\n%q, want\n%q", got, want)
	}
	run(t, env, strings.ReplaceAll(script, "make demo", "make -n demo"))
}

// run runs a script of the README from the root of the repository. What it
// left in the background must end well too.
func run(t *testing.T, env []string, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euc", script+"\nfor job in $(jobs -p); do wait $job; done")
	cmd.Dir, cmd.Env = rig.Root(), env
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s\n%v\n%s", script, err, out)
	}
}

// Each example sender is heard by each example receiver.
func TestExamples(t *testing.T) {
	rig.NeedProton(t)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "./examples/go/...")
	build.Dir = rig.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := rig.Run(t, exec.Command(rig.Program("qdrouterd"), "-c", exampleConf(t)))
	url := r.URL(t)
	// program returns an example for three messages at an address.
	program := func(language, name, address string) *exec.Cmd {
		if language == "go" {
			return exec.Command(filepath.Join(bin, name), "-url", url, "-address", address, "-count", "3")
		}
		return exec.Command(filepath.Join(rig.Root(), "examples", "python", name+".py"), url+"/"+address, "3")
	}
	for _, receiving := range []string{"go", "python"} {
		for _, sending := range []string{"go", "python"} {
			t.Run(sending+" to "+receiving, func(t *testing.T) {
				t.Parallel()
				address := "examples/" + sending + "-" + receiving
				receiver := program(receiving, "receiver", address)
				var received strings.Builder
				receiver.Stdout, receiver.Stderr = &received, &received
				if err := receiver.Start(); err != nil {
					t.Fatal(err)
				}
				limit := time.AfterFunc(time.Minute, func() { receiver.Process.Kill() })
				defer limit.Stop()
				// The sender waits for credit, that is, for the receiver.
				sent, err := program(sending, "sender", address).CombinedOutput()
				if err != nil {
					t.Errorf("sender: %v", err)
				}
				if err := receiver.Wait(); err != nil {
					t.Errorf("receiver: %v", err)
				}
				if n := strings.Count(string(sent), "was accepted"); n != 3 {
					t.Errorf("sender says of %d messages that they were accepted, want 3:\n%s", n, sent)
				}
				if want := "message 1\nmessage 2\nmessage 3\n"; received.String() != want {
					t.Errorf("receiver printed\n%swant\n%s", received.String(), want)
				}
			})
		}
	}
}

// The programs say the version they were built with (CFG A7, MG 11.1).
func TestVersionIsStamped(t *testing.T) {
	if rig.Foreign() {
		t.Skip("nothing is known of their version")
	}
	for _, name := range []string{"qdrouterd", "qdstat", "qdmanage"} {
		out, err := exec.Command(rig.Program(name), "--version").Output()
		if err != nil || string(out) != rig.Version+"\n" {
			t.Errorf("%s --version: %q, %v; want %q", name, out, err, rig.Version+"\n")
		}
	}
}
