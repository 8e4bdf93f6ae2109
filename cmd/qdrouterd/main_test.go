package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is the program under test, built once, and etc the place of its default
// configuration.
var binary, etc string

// patience is how long a test waits for what must come; it is long because
// machines are slow, and no test waits for it in vain.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "qdrouterd")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "qdrouterd")
	etc = filepath.Join(dir, "etc")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=1.2.3-test -X main.sysconfdir="+etc, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// write makes a file in a directory of the test's own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// finish runs the program to its end.
func finish(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%q did not end; stderr:\n%s", args, errOut.String())
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// A proc is a running router and its log so far.
type proc struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	seen  []string
}

// start runs the program; its log, on stderr, is read line by line.
func start(t *testing.T, args ...string) *proc {
	t.Helper()
	return startCommand(t, exec.Command(binary, args...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *proc {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &proc{t: t, cmd: cmd, lines: make(chan string, 1000)}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			p.wait()
		}
	})
	return p
}

// until reads the log up to a line that matches and returns its submatches.
func (p *proc) until(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the router ended without a line %q; log:\n%s", pattern, strings.Join(p.seen, "\n"))
			}
			p.seen = append(p.seen, line)
			if m := re.FindStringSubmatch(line); m != nil {
				return m
			}
		case <-timeout:
			p.t.Fatalf("no line %q; log:\n%s", pattern, strings.Join(p.seen, "\n"))
		}
	}
}

// wait returns how the process ended.
func (p *proc) wait() *os.ProcessState {
	p.t.Helper()
	kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	for line := range p.lines {
		p.seen = append(p.seen, line)
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState
}

func (p *proc) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// onFreePort is a configuration with one listener on a port of the system's choice.
const onFreePort = "router {\n id: T\n}\nlistener {\n host: 127.0.0.1\n port: 0\n name: l\n}\n"

// CFG A7 to A10, A15.
func TestCommandLine(t *testing.T) {
	tests := []struct {
		args           []string
		code           int
		stdout, stderr string // patterns
	}{
		{[]string{"-v"}, 0, `^1\.2\.3-test\n$`, `^$`},
		{[]string{"--version"}, 0, `^1\.2\.3-test\n$`, `^$`},
		{[]string{"-h"}, 0, `(?s)^Usage: .*--config`, `^$`},
		{[]string{"--help"}, 0, `(?s)^Usage: `, `^$`},
		{[]string{"--bogus"}, 1, `^Usage: `, `unrecognized option '--bogus'`},
		{[]string{"-c"}, 1, `^Usage: `, `option requires an argument -- 'c'`},
		{[]string{"-T", "a", "b"}, 1, `^Usage: `, `^Unexpected arguments: a b\n\n$`},
	}
	for _, tt := range tests {
		stdout, stderr, code := finish(t, tt.args...)
		if code != tt.code || !regexp.MustCompile(tt.stdout).MatchString(stdout) || !regexp.MustCompile(tt.stderr).MatchString(stderr) {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %d, %q, %q", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

// CFG A13, A18, A19: status 1, and the reason twice.
func TestBadConfiguration(t *testing.T) {
	dir := t.TempDir()
	tests := []struct{ name, path, reason string }{
		{"missing", filepath.Join(dir, "none.conf"), "Not found: Configuration file could not be opened"},
		{"directory", dir, ""},
		{"no name", "", "Not found: Configuration file could not be opened"}, // as of a script's empty variable
		{"empty", write(t, "e.conf", ""), "Configuration: Configuration file was empty"},
		{"unknown section", write(t, "s.conf", "bogus {\n}\n"), "Exception: Cannot load configuration file"},
		{"unknown attribute", write(t, "a.conf", "router {\n bogus: 1\n}\n"), "Unknown attribute 'bogus'"},
		{"bad id", write(t, "i.conf", "router {\n id: abc\\bdef\n}\n"), "AttributeError"},
		{"long id", write(t, "l.conf", "router {\n id: "+strings.Repeat("X", 128)+"\n}\n"), "exceeds the maximum allowed length"},
		{"dir and direction", write(t, "d.conf", "linkRoute {\n prefix: a\n containerId: b\n direction: in\n dir: in\n}\n"),
			"org.apache.qpid.dispatch.router.config.linkRoute: Both 'dir' and 'direction' cannot be specified for entity 'linkRoute'"},
		{"log file", write(t, "f.conf", "log {\n module: DEFAULT\n outputFile: "+dir+"/no/such/dir\n}\n"), "CError"},
		{"unknown plugin", write(t, "p.conf", "listener {\n port: 0\n saslPlugin: x\n}\n"), "Cannot find sasl plugin x"},
		{"vhost policy", write(t, "v.conf", "policy {\n enableVhostPolicy: yes\n}\n"), "--insecure-ignore-policy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, stderr, code := finish(t, "-c", tt.path)
			if code != 1 {
				t.Errorf("status %d, want 1", code)
			}
			logged, said := false, false
			for line := range strings.Lines(stderr) {
				logged = logged || strings.Contains(line, "MAIN (critical) Router start-up failed: ")
				said = said || strings.HasPrefix(line, binary+": ")
			}
			if !logged || !said || !strings.Contains(stderr, tt.reason) {
				t.Errorf("in the log %v, on stderr %v, want both with %q:\n%s", logged, said, tt.reason, stderr)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name, conf     string
		args           []string
		code           int
		stdout, stderr string // parts
	}{
		{"good", onFreePort, nil, 0, "no errors", ""},
		{"bad", "listener {\n bogus: 1\n}\n", nil, 1, "", "Unknown attribute 'bogus'"},
		{"remarks", "listener {\n port: 0\n sslProfile: p\n}\nsslProfile {\n name: p\n}\n", nil, 0, "no errors", "would refuse every connection"},
		{"policy", "policy {\n enableVhostPolicy: yes\n}\n", nil, 1, "", "vhost policy"},
		{"policy ignored", "policy {\n enableVhostPolicy: yes\n}\n", []string{"--insecure-ignore-policy"}, 0, "no errors", ""},
	}
	for _, tt := range tests {
		args := append([]string{"--check", "-c", write(t, "c.conf", tt.conf)}, tt.args...)
		stdout, stderr, code := finish(t, args...)
		if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) || strings.Contains(stderr, "MAIN") {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %d, %q, %q", tt.name, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
	stdout, _, code := finish(t, "--check")
	if code != 0 || !strings.Contains(stdout, "built-in") {
		t.Errorf("without a file: status %d, stdout %q", code, stdout)
	}
}

// CFG A11, A12, A26, A27.
func TestSignals(t *testing.T) {
	tests := []struct {
		signal syscall.Signal
		status string
	}{
		{syscall.SIGTERM, "exit status 0"},
		{syscall.SIGQUIT, "exit status 0"},
		{syscall.SIGINT, "signal: interrupt"},
	}
	for _, tt := range tests {
		t.Run(tt.signal.String(), func(t *testing.T) {
			p := start(t, "-c", write(t, "c.conf", onFreePort))
			p.until(`SERVER \(notice\) Operational, 4 Threads Running \(process ID ` + strconv.Itoa(p.cmd.Process.Pid) + `\)`)
			p.until(`SERVER \(notice\) Listening on 127\.0\.0\.1:\d+ \(l\)`)
			p.signal(syscall.SIGHUP) // must not disturb
			p.signal(tt.signal)
			p.until(`SERVER \(notice\) Shut Down`)
			if got := p.wait().String(); got != tt.status {
				t.Errorf("ended with %s, want %s", got, tt.status)
			}
		})
	}
}

// The pid file is there before the configuration is read (CFG A21), so that who
// rotates logs may be early.
func TestHangupDuringTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.conf")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "-c", path)
	file, err := os.OpenFile(path, os.O_WRONLY, 0) // when the router reads it
	if err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	if _, err := file.WriteString(onFreePort); err != nil {
		t.Fatal(err)
	}
	file.Close()
	p.until("Listening on")
	p.signal(syscall.SIGTERM)
	if got := p.wait().String(); got != "exit status 0" {
		t.Errorf("ended with %s", got)
	}
}

// CFG A12: a background command of a script is started with SIGINT ignored. It stops of one all
// the same, with the status that a shell gives.
func TestInterruptIgnoredAtStart(t *testing.T) {
	p := startCommand(t, exec.Command("/bin/sh", "-c", `trap "" INT; exec "$0" "$@"`, binary, "-c", write(t, "c.conf", onFreePort)))
	p.until(`Listening on`)
	p.signal(syscall.SIGINT)
	p.until(`SERVER \(notice\) Shut Down`)
	if got := p.wait().String(); got != "exit status 130" {
		t.Errorf("ended with %s, want exit status 130", got)
	}
}

// CFG A27: log files are opened anew, for rotation.
func TestHangupReopensLogFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	p := start(t, "-c", write(t, "c.conf", onFreePort+"log {\n module: POLICY\n enable: info+\n outputFile: "+file+"\n}\n"))
	p.until("Listening on")
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	eventually(t, "the log file is there again", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	p.signal(syscall.SIGTERM)
	p.wait()
}

// SIGHUP reads the configuration again; one with faults changes nothing, and the
// log names them all.
func TestHangupReadsTheConfiguration(t *testing.T) {
	path := write(t, "c.conf", onFreePort)
	p := start(t, "-c", path)
	p.until("Listening on")
	rewrite := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGHUP)
	}
	more := onFreePort + "listener {\n name: more\n host: 127.0.0.1\n port: 0\n}\n"
	rewrite(more)
	p.until(`SERVER \(notice\) Listening on 127\.0\.0\.1:\d+ \(more\)`)
	p.until(`SERVER \(notice\) Configuration read again: listener/127\.0\.0\.1:0:more created`)

	rewrite(more + "listener {\n nonsense: 1\n}\nlog {\n module: NONSENSE\n}\n")
	p.until(`MAIN \(error\) Configuration not changed: .*nonsense`)
	p.until(`MAIN \(error\) Configuration not changed: .*NONSENSE`)

	rewrite(strings.Replace(onFreePort, "id: T", "id: T\n metadata: new", 1))
	p.until(`SERVER \(notice\) Configuration read again: listener/127\.0\.0\.1:0:more deleted`)
	p.until(`SERVER \(warning\) Not changed before a restart: router metadata`)
	p.signal(syscall.SIGTERM)
	p.wait()
}

// Once there was a file, the built-in configuration never takes its place: it lets
// everybody in.
func TestHangupWithoutTheFile(t *testing.T) {
	path := filepath.Join(etc, "qpid-dispatch", "qdrouterd.conf")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(etc) })
	if err := os.WriteFile(path, []byte(onFreePort), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t)
	p.until("Listening on")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.until(`Configuration (not changed: ` + regexp.QuoteMeta(path) + ` is gone|read again)`)
	if last := p.seen[len(p.seen)-1]; !strings.Contains(last, "MAIN (error) Configuration not changed") {
		t.Errorf("logged %q", last)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// CFG A14, L3, L4: only the first listener of a file without connectors must bind.
func TestPortConflict(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	conflict := fmt.Sprintf("listener {\n host: 127.0.0.1\n port: %d\n}\n", port)
	where := fmt.Sprintf(`127\.0\.0\.1:%d`, port)

	p := start(t, "-c", write(t, "c.conf", conflict))
	p.until(`SERVER \(error\) Listener error on ` + where + `: Address already in use - listen on ` + where + ` \(proton:io\)`)
	p.until(`SERVER \(critical\) Shutting down, required listener failed ` + where)
	if got := p.wait().ExitCode(); got != 1 {
		t.Errorf("status %d, want 1", got)
	}

	second := start(t, "-c", write(t, "c.conf", onFreePort+conflict))
	second.until(`Listening on`)
	second.until(`Listener error on ` + where)
	taken.Close()
	second.until(`Listening on ` + where) // tried again
	second.signal(syscall.SIGTERM)
	if got := second.wait().ExitCode(); got != 0 {
		t.Errorf("second listener in conflict: status %d, want 0", got)
	}
}

// A connector makes no listener required, and a name that cannot be resolved
// stops nothing.
func TestUnresolvableConnector(t *testing.T) {
	p := start(t, "-c", write(t, "c.conf", onFreePort+"connector {\n host: unresolvable.invalid\n port: amqp\n}\n"))
	p.until(`SERVER \(info\) \[C1\] Connection to unresolvable\.invalid:amqp failed: \S+`)
	p.signal(syscall.SIGTERM)
	if got := p.wait().ExitCode(); got != 0 {
		t.Errorf("status %d, want 0", got)
	}
}

// CFG A16, A20, A21.
func TestDaemon(t *testing.T) {
	dir := t.TempDir()
	log, pidfile := filepath.Join(dir, "log"), filepath.Join(dir, "pid")
	conf := onFreePort + "log {\n module: DEFAULT\n enable: info+\n outputFile: " + log + "\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "c.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-d", "-c", "c.conf", "-P", pidfile) // a relative path
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("parent: %v, output %q", err, out)
	}
	text, err := os.ReadFile(pidfile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSuffix(string(text), "\n"))
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		t.Fatalf("pid file holds %q", text)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if pid == cmd.Process.Pid {
		t.Error("the parent is the daemon")
	}
	logged := func(what string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(log)
			return strings.Contains(string(text), what)
		}
	}
	eventually(t, "the daemon listens", logged("Listening on 127.0.0.1:"))
	if wd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || wd != "/" {
		t.Errorf("working directory %q, error %v, want /", wd, err)
	}
	for fd := range 3 {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); to != "/dev/null" {
			t.Errorf("descriptor %d is %q, want /dev/null", fd, to)
		}
	}
	if sid, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || sessionOf(string(sid)) == pid {
		t.Errorf("the daemon leads its session, or: %v", err)
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm()&0o022 != 0 { // CFG A23
		t.Errorf("log file has mode %v, error %v", info.Mode(), err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon stops", logged("Shut Down"))
	eventually(t, "the daemon is gone", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	if _, err := os.Stat(pidfile); err != nil {
		t.Errorf("the pid file went: %v (CFG A21)", err)
	}
}

// sessionOf reads the session from a line of /proc/PID/stat.
func sessionOf(stat string) int {
	_, rest, _ := strings.Cut(stat, ") ")
	if f := strings.Fields(rest); len(f) > 3 {
		sid, _ := strconv.Atoi(f[3])
		return sid
	}
	return 0
}

// CFG A16, A19, A22: the parent tells why the daemon did not start.
func TestDaemonFailures(t *testing.T) {
	good := write(t, "c.conf", onFreePort)
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"configuration", []string{"-c", "/nonexistent/c.conf"}, "Not found: Configuration file could not be opened"},
		{"pid file", []string{"-c", good, "-P", "/nonexistent/pid"}, "pidfile"},
		{"user", []string{"-c", good, "-U", "nobody-has-this-name"}, "nobody-has-this-name"},
	}
	for _, tt := range tests {
		stdout, stderr, code := finish(t, append([]string{"-d"}, tt.args...)...)
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, binary+": ") || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q, want 1 and %q", tt.name, code, stdout, stderr, tt.want)
		}
	}
	// The pid file is written before the configuration is read, and stays.
	pidfile := filepath.Join(t.TempDir(), "pid")
	finish(t, "-d", "-c", "/nonexistent/c.conf", "-P", pidfile)
	if _, err := os.Stat(pidfile); err != nil {
		t.Errorf("no pid file after a failed start: %v (CFG A21)", err)
	}
}

// Without -c and with no file at the default place: for this machine alone.
func TestBuiltInConfiguration(t *testing.T) {
	old := sysconfdir
	sysconfdir = t.TempDir()
	defer func() { sysconfdir = old }()
	cfg, builtIn, err := new(command).load()
	if err != nil || !builtIn {
		t.Fatalf("built in %v, error %v", builtIn, err)
	}
	listeners := cfg.Of("listener")
	if len(listeners) != 1 || listeners[0].Str("host") != "127.0.0.1" || listeners[0].Str("port") != "5672" {
		t.Errorf("listeners %v", listeners)
	}
	if mode := cfg.Router().Str("mode"); mode != "standalone" {
		t.Errorf("mode %s", mode)
	}
	if _, builtIn, err := (&command{config: "/nonexistent", named: true}).load(); builtIn || err == nil {
		t.Errorf("a missing file that was named: built in %v, error %v", builtIn, err)
	}
}
