package rig

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startLimit and stopLimit bound how long a router may take to say it
// listens, and to end after SIGTERM. Both are far above what either takes.
const (
	startLimit = 20 * time.Second
	stopLimit  = 20 * time.Second
)

// Config is what a test wants of a router, as lines of qdrouterd.conf.
type Config struct {
	Router   string // attributes added to the router section
	Listener string // attributes added to the section of the listener "clients"
	Extra    string // further sections
}

// text returns the whole configuration file. The router is standalone and
// named R. Its listener is called clients, asks for no authentication, and is
// on a port the system chooses.
func (c Config) text() string {
	return fmt.Sprintf(`router {
    mode: standalone
    id: R
%s
}
listener {
    name: clients
    host: 127.0.0.1
    port: 0
    authenticatePeer: no
    saslMechanisms: ANONYMOUS
%s
}
log {
    module: DEFAULT
    enable: warning+
}
log {
    module: SERVER
    enable: notice+
}
%s
`, c.Router, c.Listener, c.Extra)
}

// A Router is a running qdrouterd process.
type Router struct {
	cmd  *exec.Cmd
	log  *logLines
	done chan struct{} // closed when the process has ended and its log is complete
	err  error         // what Wait returned; read after done

	killed atomic.Bool // by Kill, so that the test expects its end
}

// Start runs a router with the configuration c and returns once it listens.
// When the test ends the router is stopped by SIGTERM and must end with
// status 0 (CFG A11).
func Start(t testing.TB, c Config) *Router {
	t.Helper()
	return StartText(t, c.text())
}

// StartText is [Start] with the whole text of a configuration file, which has
// a listener called clients.
func StartText(t testing.TB, conf string) *Router {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qdrouterd.conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	r := Run(t, exec.Command(Program("qdrouterd"), "-c", path))
	r.Port(t, "clients")
	return r
}

// Run starts cmd, which runs a router in the foreground, and sees to its end
// as [Start] does. It does not wait for anything.
func Run(t testing.TB, cmd *exec.Cmd) *Router {
	t.Helper()
	r := &Router{cmd: cmd, log: newLogLines(), done: make(chan struct{})}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	// A test that panics or times out runs no clean-up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		in.Close()
		out.Close()
		t.Fatal(err)
	}
	in.Close()
	go func() {
		defer close(r.done)
		defer out.Close()
		r.log.readFrom(out)
		r.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		r.stop(t)
		if t.Failed() {
			t.Logf("log of the router (its end):\n%s", r.log.tail(60))
		}
	})
	return r
}

// stop ends the process as an operator would, and reports what is wrong with
// how it ended or what it wrote.
func (r *Router) stop(t testing.TB) {
	t.Helper()
	select {
	case <-r.done:
		if !r.killed.Load() {
			t.Errorf("router ended before the test did: %v", r.err)
		}
	default:
		syscall.Kill(r.PID(), syscall.SIGTERM)
		select {
		case <-r.done:
			if r.err != nil {
				t.Errorf("router ended with %v after SIGTERM, want status 0", r.err)
			}
		case <-time.After(stopLimit):
			syscall.Kill(r.PID(), syscall.SIGABRT) // a Go program prints its goroutines
			select {
			case <-r.done:
			case <-time.After(time.Second):
				r.cmd.Process.Kill()
				<-r.done
			}
			t.Errorf("router did not end within %v of SIGTERM", stopLimit)
		}
	}
	for _, bad := range []string{"panic:", "DATA RACE", "fatal error:"} {
		if r.log.contains(bad) {
			t.Errorf("router's log contains %q", bad)
		}
	}
}

// Kill ends the process by SIGKILL, as a crash would, and waits for its end.
func (r *Router) Kill() {
	r.killed.Store(true)
	syscall.Kill(r.PID(), syscall.SIGKILL)
	<-r.done
}

// listening matches the line CFG L2 promises.
var listening = regexp.MustCompile(`Listening on (?:.*):(\d+) \((.*)\)$`)

// Port returns the port of the named listener, once the log has told it.
func (r *Router) Port(t testing.TB, listener string) int {
	t.Helper()
	var port int
	found := r.log.wait(startLimit, r.done, func(line string) bool {
		m := listening.FindStringSubmatch(line)
		if m == nil || m[2] != listener {
			return false
		}
		port, _ = strconv.Atoi(m[1])
		return true
	})
	if !found {
		t.Fatalf("router does not say that its listener %q listens", listener)
	}
	return port
}

// Addr returns HOST:PORT of the listener "clients".
func (r *Router) Addr(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(r.Port(t, "clients"))
}

// URL returns the URL of the listener "clients".
func (r *Router) URL(t testing.TB) string {
	t.Helper()
	return "amqp://" + r.Addr(t)
}

// operational matches the line CFG A26 promises.
var operational = regexp.MustCompile(`Operational, \d+ Threads Running \(process ID (\d+)\)`)

// PID returns the id of the router's process. When something else was told to
// run the router, such as make, the router's log says it.
func (r *Router) PID() int {
	for _, line := range r.log.all() {
		if m := operational.FindStringSubmatch(line); m != nil {
			if pid, err := strconv.Atoi(m[1]); err == nil {
				return pid
			}
		}
	}
	return r.cmd.Process.Pid
}

// Alive reports whether the process runs.
func (r *Router) Alive() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Log returns the lines the router has written so far.
func (r *Router) Log() []string { return r.log.all() }

// RSS returns the resident memory of the process in bytes.
func (r *Router) RSS(t testing.TB) int64 {
	t.Helper()
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", r.PID()))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// Qdstat runs qdstat against the router and returns what it prints. It must
// end with status 0.
func (r *Router) Qdstat(t testing.TB, args ...string) string {
	t.Helper()
	return r.tool(t, "qdstat", nil, args)
}

// Qdmanage runs qdmanage against the router, with input as its standard
// input, and returns what it prints. It must end with status 0.
func (r *Router) Qdmanage(t testing.TB, input string, args ...string) string {
	t.Helper()
	return r.tool(t, "qdmanage", strings.NewReader(input), args)
}

func (r *Router) tool(t testing.TB, name string, input io.Reader, args []string) string {
	t.Helper()
	cmd := exec.Command(Program(name), append([]string{"-b", r.Addr(t)}, args...)...)
	cmd.Stdin = input
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// logLines collects what a process writes, line by line.
type logLines struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced when a line is added
}

func newLogLines() *logLines { return &logLines{more: make(chan struct{})} }

func (l *logLines) readFrom(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			l.mu.Lock()
			l.lines = append(l.lines, strings.TrimSuffix(line, "\n"))
			close(l.more)
			l.more = make(chan struct{})
			l.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// wait returns true once match accepts a line, and false at the limit or when
// done is closed and no line matches.
func (l *logLines) wait(limit time.Duration, done <-chan struct{}, match func(string) bool) bool {
	deadline := time.After(limit)
	seen := 0
	for {
		l.mu.Lock()
		lines, more := l.lines[seen:], l.more
		l.mu.Unlock()
		for _, line := range lines {
			if match(line) {
				return true
			}
		}
		seen += len(lines)
		select {
		case <-more:
		case <-done:
			l.mu.Lock()
			complete := seen == len(l.lines)
			l.mu.Unlock()
			if complete {
				return false
			}
		case <-deadline:
			return false
		}
	}
}

func (l *logLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[:len(l.lines):len(l.lines)]
}

func (l *logLines) contains(text string) bool {
	for _, line := range l.all() {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

func (l *logLines) tail(n int) string {
	lines := l.all()
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
