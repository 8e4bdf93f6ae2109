package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// clientLimit bounds the run of one client program. A program that meets it
// hangs: its own waits end sooner, and say what they waited for.
const clientLimit = 3 * time.Minute

// A Report is the line of JSON a client program ends with.
type Report map[string]any

// Python runs tests/clients/python/PROGRAM with Debian's Python, which has
// Debian's Proton, and returns its report.
func Python(t testing.TB, program string, args ...string) Report {
	t.Helper()
	NeedProton(t)
	return client(t, append([]string{"/usr/bin/python3", filepath.Join(Root(), "tests", "clients", "python", program)}, args...))
}

// NeedProton skips or fails a test that runs a program with Debian's Proton
// when that is missing.
func NeedProton(t testing.TB) {
	t.Helper()
	need(t, "python3-qpid-proton", protonMissing())
}

// Node runs tests/clients/node/PROGRAM, which uses rhea, and returns its
// report.
func Node(t testing.TB, program string, args ...string) Report {
	t.Helper()
	dir := filepath.Join(Root(), "tests", "clients", "node")
	_, err := os.Stat(filepath.Join(dir, "node_modules", "rhea"))
	need(t, "rhea", err)
	return client(t, append([]string{"node", filepath.Join(dir, program)}, args...))
}

var protonMissing = sync.OnceValue(func() error {
	return exec.Command("/usr/bin/python3", "-c", "import proton").Run()
})

// need skips or fails the test when a client library is missing.
func need(t testing.TB, library string, missing error) {
	t.Helper()
	switch {
	case missing == nil:
	case os.Getenv("QDROUTER_REQUIRE_CLIENTS") == "1":
		t.Fatalf("%s is not installed: %v", library, missing)
	default:
		t.Skipf("%s is not installed; \"make clients\" installs it", library)
	}
}

func client(t testing.TB, args []string) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, &stdout, &stderr)
	}
	var report Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v: report: %v\n%s%s", args, err, &stdout, &stderr)
	}
	return report
}
