package rig

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Broker is the broker of package broker as a process of its own, which may
// be killed and started again with what its queues held.
type Broker struct {
	args []string
	addr string // where it listens, the same after each start

	mu     sync.Mutex // one command at a time
	cmd    *exec.Cmd  // nil while it does not run
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *os.File
}

// StartBroker starts a broker with its journal in a folder of the test and the
// given further flags (see package brokerd). It ends with the test.
func StartBroker(t testing.TB, flags ...string) *Broker {
	t.Helper()
	dir := t.TempDir()
	stderr, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{args: append([]string{"-dir", filepath.Join(dir, "queues")}, flags...), addr: "127.0.0.1:0", stderr: stderr}
	t.Cleanup(func() {
		if b.cmd != nil {
			b.in.Close() // it ends when its input does
			if err := b.cmd.Wait(); err != nil {
				t.Errorf("broker: %v", err)
			}
		}
		stderr.Close()
		if t.Failed() {
			log, _ := os.ReadFile(stderr.Name())
			t.Logf("log of the broker (its end):\n%s", log[max(0, len(log)-8192):])
		}
	})
	b.Start(t)
	return b
}

// Start starts a broker that was killed, on its address. It returns once it
// listens.
func (b *Broker) Start(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	cmd := exec.Command(brokerd(t), append([]string{"-listen", b.addr}, b.args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = b.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.cmd, b.in, b.out = cmd, in, bufio.NewReader(out)
	line, err := b.line(startLimit)
	addr, ok := strings.CutPrefix(line, "listening on ")
	if !ok {
		t.Fatalf("broker says %q, %v", line, err)
	}
	b.addr = addr
}

// line reads a line of the broker's output; the process is killed if it does
// not come.
func (b *Broker) line(limit time.Duration) (string, error) {
	cmd := b.cmd
	late := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	defer late.Stop()
	line, err := b.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Kill ends the broker by SIGKILL.
func (b *Broker) Kill(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil {
		t.Fatal("the broker does not run")
	}
	b.cmd.Process.Kill()
	b.cmd.Wait()
	b.in.Close()
	b.cmd = nil
}

// Addr returns HOST:PORT of the broker.
func (b *Broker) Addr() string { return b.addr }

// Port returns the port of the broker.
func (b *Broker) Port() int {
	_, port, _ := strings.Cut(b.addr, ":")
	n, _ := strconv.Atoi(port)
	return n
}

// PID returns the id of the broker's process.
func (b *Broker) PID() int { return b.cmd.Process.Pid }

// Do has the broker obey a command (see package brokerd) and returns what it
// answers.
func (b *Broker) Do(command string, args ...any) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil {
		return "", errors.New("the broker does not run")
	}
	line := command
	for _, a := range args {
		line += fmt.Sprint(" ", a)
	}
	if _, err := fmt.Fprintln(b.in, line); err != nil {
		return "", err
	}
	answer, err := b.line(stopLimit)
	if text, bad := strings.CutPrefix(answer, "error: "); bad {
		return "", fmt.Errorf("broker: %s: %s", line, text)
	}
	return answer, err
}

// Must is [Broker.Do] for a command that cannot fail.
func (b *Broker) Must(t testing.TB, command string, args ...any) string {
	t.Helper()
	answer, err := b.Do(command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Depth is how many messages a queue has; -1 when there is no such queue.
func (b *Broker) Depth(t testing.TB, queue string) int {
	t.Helper()
	n, err := strconv.Atoi(b.Must(t, "depth", queue))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// brokerPath builds brokerd once; Main removes it.
var brokerPath = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "qdrouter-brokerd-")
	if err != nil {
		return "", err
	}
	scratch = append(scratch, dir)
	path := filepath.Join(dir, "brokerd")
	build := exec.Command("go", "build", "-o", path, "./tests/internal/broker/brokerd")
	build.Dir = Root()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building brokerd: %w\n%s", err, out)
	}
	return path, nil
})

// scratch has folders that Main removes. Only what runs once adds to it.
var scratch []string

func brokerd(t testing.TB) string {
	t.Helper()
	path, err := brokerPath()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
