package logging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
)

func ptr[T any](v T) *T { return &v }

// fakeFile is an output file in memory.
type fakeFile struct {
	bytes.Buffer
	fail   error
	closed bool
}

func (f *fakeFile) Write(p []byte) (int, error) {
	if f.closed {
		return 0, errors.New("write to a closed file")
	}
	if f.fail != nil {
		return 0, f.fail
	}
	return f.Buffer.Write(p)
}

func (f *fakeFile) Close() error { f.closed = true; return nil }

// fakeSyslog notes what it is given, with the severity.
type fakeSyslog struct{ lines []string }

func (s *fakeSyslog) note(severity, text string) error {
	s.lines = append(s.lines, severity+" "+text)
	return nil
}
func (s *fakeSyslog) Debug(t string) error   { return s.note("DEBUG", t) }
func (s *fakeSyslog) Info(t string) error    { return s.note("INFO", t) }
func (s *fakeSyslog) Notice(t string) error  { return s.note("NOTICE", t) }
func (s *fakeSyslog) Warning(t string) error { return s.note("WARNING", t) }
func (s *fakeSyslog) Err(t string) error     { return s.note("ERR", t) }
func (s *fakeSyslog) Crit(t string) error    { return s.note("CRIT", t) }
func (s *fakeSyslog) Close() error           { return nil }

// system is a set of outputs in memory. A path that starts with /no/ cannot be
// opened; others get a new file each time they are opened.
type system struct {
	stdout, stderr bytes.Buffer
	files          map[string][]*fakeFile
	syslog         fakeSyslog
}

func newSystem() (*system, *Registry) {
	s := &system{files: map[string][]*fakeFile{}}
	r := newRegistry(opener{
		stdout: &s.stdout,
		stderr: &s.stderr,
		file: func(path string) (io.WriteCloser, error) {
			if path == "" || strings.HasPrefix(path, "/no/") {
				return nil, os.ErrNotExist
			}
			f := &fakeFile{}
			s.files[path] = append(s.files[path], f)
			return f, nil
		},
		syslog: func() (syslogWriter, error) { return &s.syslog, nil },
	})
	return s, r
}

func configure(t *testing.T, r *Registry, module string, s Settings) {
	t.Helper()
	if err := r.Configure(module, s); err != nil {
		t.Fatalf("Configure(%s, %+v) = %v, want nil", module, s, err)
	}
}

// The words of enable (CFG G2) and what is no such word (CFG G3).
func TestEnable(t *testing.T) {
	const invalid = "invalid"
	tests := []struct{ enable, want string }{
		{"", ""},
		{"none", ""},
		{"n", ""},
		{"default", "default"},
		{"d", "default"},
		{"trace+", "trace debug info notice warning error critical"},
		{"t+", "trace debug info notice warning error critical"},
		{"debug", "debug"},
		{"de", "default"}, // the first that starts so
		{"deb", "debug"},
		{"i+", "info notice warning error critical"},
		{"notice", "notice"},
		{"no", ""}, // none comes before notice
		{"warn", "warning"},
		{"warn,crit+", "warning critical"},
		{"WARNING; Error", "warning error"},
		{"debug:error critical", "debug error critical"},
		{" info , , error ", "info error"},
		{"info+,trace", "trace info notice warning error critical"},
		{"trace,default", "default trace"},
		{"bogus", invalid},
		{"trace,bogus", invalid},
		{"trace++", invalid},
		{"+", invalid},
		{"infos", invalid},
		{"info|error", invalid},
	}
	for _, tt := range tests {
		m, follow, err := parseEnable(tt.enable)
		var words []string
		if follow {
			words = append(words, "default")
		}
		for l := Trace; l <= Critical; l++ {
			if m.has(l) {
				words = append(words, l.String())
			}
		}
		got := strings.Join(words, " ")
		if err != nil {
			got = invalid
			want := "Configuration: '" + tt.enable + "' is not a valid log level. " +
				"Should be one of {none, trace, debug, info, notice, warning, error, critical}."
			if err.Error() != want {
				t.Errorf("enable %q: error = %q, want %q", tt.enable, err, want)
			}
		}
		if got != tt.want {
			t.Errorf("enable %q = %q, want %q", tt.enable, got, tt.want)
		}
		if gotErr := CheckEnable(tt.enable) != nil; gotErr != (tt.want == invalid) {
			t.Errorf("CheckEnable(%q) fails = %v, want %v", tt.enable, gotErr, tt.want == invalid)
		}
	}
}

// Without configuration events of level info and above go to stderr, in the form of
// CFG G8: module in the fourth word, level in the fifth.
func TestLine(t *testing.T) {
	s, r := newSystem()
	r.Log(Server, Debug, "not this one")
	r.Log(Server, Notice, "Operational, %d Threads Running (process ID %d)", 4, 17)
	got := s.stderr.String()
	want := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} [+-]\d{4} SERVER \(notice\) Operational, 4 Threads Running \(process ID 17\)\n$`)
	if !want.MatchString(got) {
		t.Errorf("log = %q, want a match of %v", got, want)
	}
}

func TestLineParts(t *testing.T) {
	tests := []struct {
		name  string
		set   Settings
		level Level
		text  string
		want  string
	}{
		{"no time stamp", Settings{IncludeTimestamp: ptr(false)}, Warning, "x", `^AGENT \(warning\) x\n$`},
		{"source", Settings{IncludeTimestamp: ptr(false), IncludeSource: ptr(true)}, Info, "x", `^AGENT \(info\) x \(logging/logging_test\.go:\d+\)\n$`},
		{"continuation lines have no prefix (G8)", Settings{IncludeTimestamp: ptr(false)}, Warning, "Invalid (line 3):\n>>> foo", `^AGENT \(warning\) Invalid \(line 3\):\n>>> foo\n$`},
		{"percent signs in a plain text", Settings{IncludeTimestamp: ptr(false)}, Info, "100%d", `^AGENT \(info\) 100%d\n$`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, r := newSystem()
			configure(t, r, Agent, tt.set)
			r.Log(Agent, tt.level, tt.text)
			if got := s.stderr.String(); !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("log of %q = %q, want a match of %s", tt.text, got, tt.want)
			}
		})
	}
}

// The source is the caller of each way to log.
func TestSource(t *testing.T) {
	_, r := newSystem()
	m := r.Module(Agent)
	helper := func(text string) { m.Output(1, Info, text) }
	r.Log(Agent, Info, "line 0")
	m.Log(Info, "line 1")
	m.Force(0, Debug, "line 2")
	m.Output(0, Info, "line 3")
	helper("line 4")
	m.Zap().Info("line 5")
	recent := r.Recent(0)
	for i, e := range recent {
		if e.File != "logging/logging_test.go" || e.Line != recent[0].Line+i {
			t.Errorf("source of %q = %s:%d, want logging/logging_test.go:%d", e.Text, e.File, e.Line, recent[0].Line+i)
		}
	}
}

// What a module leaves unset it takes from DEFAULT, also when DEFAULT changes later
// (CFG G1).
func TestFollowDefault(t *testing.T) {
	_, r := newSystem()
	state := func(module string) string {
		for l := Trace; l <= Critical; l++ {
			if r.Enabled(module, l) {
				return l.String()
			}
		}
		return "none"
	}
	steps := []struct {
		module, enable        string
		wantRouter, wantAgent string
	}{
		{Agent, "error+", "info", "error"},
		{Default, "trace+", "trace", "error"},
		{Agent, "default", "trace", "trace"},
		{Default, "none", "none", "none"},
		{Agent, "critical", "none", "critical"},
		{Default, "default", "info", "critical"},
	}
	for _, step := range steps {
		configure(t, r, step.module, Settings{Enable: &step.enable})
		if got := state(Router); got != step.wantRouter {
			t.Errorf("after %s: %s, ROUTER starts at %s, want %s", step.module, step.enable, got, step.wantRouter)
		}
		if got := state(Agent); got != step.wantAgent {
			t.Errorf("after %s: %s, AGENT starts at %s, want %s", step.module, step.enable, got, step.wantAgent)
		}
	}
	if got := state(Main); got != "info" {
		t.Errorf("MAIN starts at %s, want info as DEFAULT", got)
	}
}

func TestConfigureUnknownModule(t *testing.T) {
	_, r := newSystem()
	for _, module := range []string{"", "router", "NOSUCH", Main, DisplayName} {
		if err := r.Configure(module, Settings{}); err == nil {
			t.Errorf("Configure(%q) = nil, want an error", module)
		}
	}
}

// Modules that name the same file share it, and a new file is open before the old
// one is closed (CFG G4, G5).
func TestSharedFile(t *testing.T) {
	s, r := newSystem()
	plain := Settings{IncludeTimestamp: ptr(false), OutputFile: ptr("a.log")}
	configure(t, r, Router, plain)
	configure(t, r, Agent, plain)
	r.Log(Router, Info, "one")
	r.Log(Agent, Info, "two")
	r.Log(Server, Info, "elsewhere")
	if n := len(s.files["a.log"]); n != 1 {
		t.Fatalf("a.log was opened %d times, want once", n)
	}
	a := s.files["a.log"][0]
	if got, want := a.String(), "ROUTER (info) one\nAGENT (info) two\n"; got != want {
		t.Errorf("a.log = %q, want %q", got, want)
	}
	configure(t, r, Router, Settings{OutputFile: ptr("b.log")})
	if a.closed {
		t.Error("a.log is closed while AGENT uses it")
	}
	configure(t, r, Agent, Settings{OutputFile: ptr("b.log")})
	if !a.closed {
		t.Error("a.log is open though nobody uses it")
	}
}

// A refused change changes nothing (CFG G5, MG 4.4).
func TestAllOrNothing(t *testing.T) {
	tests := []struct {
		name string
		set  Settings
		want string
	}{
		{"bad level", Settings{Enable: ptr("bogus"), OutputFile: ptr("new.log"), IncludeTimestamp: ptr(true)},
			"Configuration: 'bogus' is not a valid log level. Should be one of {none, trace, debug, info, notice, warning, error, critical}."},
		{"bad file", Settings{Enable: ptr("trace+"), OutputFile: ptr("/no/such"), IncludeTimestamp: ptr(true)},
			"Configuration: Failed to open log file '/no/such'"},
		{"no file", Settings{Enable: ptr("trace+"), OutputFile: ptr("")}, "Configuration: Failed to open log file ''"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, r := newSystem()
			configure(t, r, Agent, Settings{IncludeTimestamp: ptr(false), OutputFile: ptr("old.log"), Enable: ptr("error+")})
			err := r.Configure(Agent, tt.set)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Configure = %v, want %s", err, tt.want)
			}
			r.Log(Agent, Info, "not this")
			r.Log(Agent, Error, "but this")
			if got, want := s.files["old.log"][0].String(), "AGENT (error) but this\n"; got != want {
				t.Errorf("old.log = %q, want %q", got, want)
			}
			if len(s.files["new.log"]) > 0 {
				t.Error("new.log was opened")
			}
		})
	}
}

// When DEFAULT moves to a file that cannot be opened, files opened for others in the
// same step are closed again, and the old ones stay.
func TestAllOrNothingOverModules(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Default, Settings{OutputFile: ptr("old.log"), IncludeTimestamp: ptr(false)})
	if err := r.Configure(Default, Settings{OutputFile: ptr("/no/such")}); err == nil {
		t.Fatal("Configure = nil, want an error")
	}
	r.Log(Router, Info, "still here")
	if got, want := s.files["old.log"][0].String(), "ROUTER (info) still here\n"; got != want {
		t.Errorf("old.log = %q, want %q", got, want)
	}
}

// The last 1000 logged events are kept, and every event is counted (CFG G7).
func TestRing(t *testing.T) {
	_, r := newSystem()
	configure(t, r, Default, Settings{OutputFile: ptr("x.log")})
	m := r.Module(Policy)
	for i := range 1234 {
		m.Log(Debug, "hidden")
		m.Log(Info, "event %d", i)
	}
	tests := []struct{ limit, wantLen, wantFirst int }{
		{0, 1000, 234}, {-5, 1000, 234}, {1, 1, 1233}, {10, 10, 1224}, {1000, 1000, 234}, {5000, 1000, 234},
	}
	for _, tt := range tests {
		got := r.Recent(tt.limit)
		if len(got) != tt.wantLen || got[0].Text != fmt.Sprintf("event %d", tt.wantFirst) || got[len(got)-1].Text != "event 1233" {
			t.Errorf("Recent(%d) = %d entries from %q to %q, want %d from event %d to event 1233",
				tt.limit, len(got), got[0].Text, got[len(got)-1].Text, tt.wantLen, tt.wantFirst)
		}
	}
	counts := r.Counts(Policy)
	if len(counts) != 7 || counts[Debug] != 1234 || counts[Info] != 1234 || counts[Error] != 0 {
		t.Errorf("Counts = %v, want 1234 debug and 1234 info of 7 levels", counts)
	}
	if got := r.Counts("NOSUCH"); got != nil {
		t.Errorf("Counts(NOSUCH) = %v, want nil", got)
	}
}

func TestRecentBeforeTheRingIsFull(t *testing.T) {
	_, r := newSystem()
	if got := r.Recent(0); len(got) != 0 {
		t.Errorf("Recent of nothing = %v", got)
	}
	before := time.Now().Unix()
	r.Log(Policy, Warning, "a")
	r.Log(Server, Info, "b")
	got := r.Recent(5)
	if len(got) != 2 || got[0].Module != Policy || got[0].Level != Warning || got[0].Text != "a" || got[1].Text != "b" {
		t.Fatalf("Recent = %+v, want a warning a of POLICY, then b", got)
	}
	if got[0].Time < before || got[0].Time > time.Now().Unix() {
		t.Errorf("time of the event = %d, want seconds since the epoch, now", got[0].Time)
	}
}

// A text is cut at 2047 octets, not inside of a character (CFG G7).
func TestTextLimit(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Default, Settings{IncludeTimestamp: ptr(false)})
	r.Log(Server, Info, "%s", strings.Repeat("x", 2046)+"äöü")
	want := strings.Repeat("x", 2046)
	if got := r.Recent(1)[0].Text; got != want {
		t.Errorf("kept text has %d octets and ends in %q, want 2046 x", len(got), got[len(got)-4:])
	}
	if got := s.stderr.String(); got != "SERVER (info) "+want+"\n" {
		t.Errorf("line has %d octets", len(got))
	}
}

// timestampFormat is a strftime format, then a printf format for the microseconds
// (CFG G9).
func TestTimestamp(t *testing.T) {
	zone := time.FixedZone("XST", -(3*3600 + 30*60))
	at := time.Date(2026, 3, 5, 4, 7, 9, 4_412_999, zone) // a Thursday
	tests := []struct{ format, want string }{
		{"%Y/%m/%d %H-%M-%S", "2026/03/05 04-07-09"},
		{"%Y-%m-%d %H:%M:%S.%%06lu %z", "2026-03-05 04:07:09.004412 -0330"},
		{"%%lu", "4412"}, {"%%3lu", "4412"}, {"%%09lu", "000004412"}, {"%%-6lu|", "4412  |"},
		{"%%06u", "004412"}, {"%%06d", "004412"}, {"%%%%", "%"}, {"%%s", "%s"}, {"%%", "%"},
		{"%a %A %b %B %h", "Thu Thursday Mar March Mar"},
		{"%c", "Thu Mar  5 04:07:09 2026"}, {"%C", "20"}, {"%d|%e|%-d|%_d|%0e", "05| 5|5| 5|05"},
		{"%D %x %F", "03/05/26 03/05/26 2026-03-05"}, {"%g %G %V", "26 2026 10"},
		{"%I %l %k %p %P", "04  4  4 AM am"}, {"%j", "064"}, {"%n%t", "\n\t"}, {"%r", "04:07:09 AM"},
		{"%R %T %X", "04:07 04:07:09 04:07:09"}, {"%s", fmt.Sprint(at.Unix())},
		{"%u %w %U %W %y", "4 4 09 09 26"}, {"%Z", "XST"}, {"%^a", "THU"}, {"%Ey %Od", "26 05"},
		{"%Q", "%Q"}, {"100%", "100%"}, {"", ""}, {"plain", "plain"},
	}
	for _, tt := range tests {
		if got := timestamp(tt.format, at); got != tt.want {
			t.Errorf("timestamp(%q) = %q, want %q", tt.format, got, tt.want)
		}
	}
}

func TestSetFormat(t *testing.T) {
	s, r := newSystem()
	r.SetFormat(true, "%Y %z %%06lu")
	r.Log(Server, Info, "x")
	r.SetFormat(true, "")
	r.Log(Server, Info, "y")
	want := regexp.MustCompile(`^\d{4} \+0000 \d{6} SERVER \(info\) x\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \+0000 SERVER \(info\) y\n$`)
	if got := s.stderr.String(); !want.MatchString(got) {
		t.Errorf("log = %q, want a match of %v", got, want)
	}
}

// Syslog has its own severities and never a time stamp (CFG G10).
func TestSyslog(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Agent, Settings{Enable: ptr("trace+"), IncludeTimestamp: ptr(true), OutputFile: ptr("syslog")})
	for l := Trace; l <= Critical; l++ {
		r.Log(Agent, l, "x")
	}
	want := []string{
		"DEBUG AGENT (trace) x\n", "DEBUG AGENT (debug) x\n", "INFO AGENT (info) x\n", "NOTICE AGENT (notice) x\n",
		"WARNING AGENT (warning) x\n", "ERR AGENT (error) x\n", "CRIT AGENT (critical) x\n",
	}
	if got := s.syslog.lines; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("syslog got %q, want %q", got, want)
	}
	if s.stderr.Len() > 0 {
		t.Errorf("stderr = %q, want nothing", s.stderr.String())
	}
}

func TestStdout(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Agent, Settings{IncludeTimestamp: ptr(false), OutputFile: ptr("stdout")})
	r.Log(Agent, Info, "x")
	if got, want := s.stdout.String(), "AGENT (info) x\n"; got != want {
		t.Errorf("stdout = %q, want %q", got, want)
	}
}

// A file that can no longer be written is replaced by stderr, until it is reopened
// (CFG A17).
func TestFailingFile(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Default, Settings{IncludeTimestamp: ptr(false), OutputFile: ptr("a.log")})
	r.Log(Server, Info, "one")
	s.files["a.log"][0].fail = errors.New("disk full")
	r.Log(Server, Info, "two")
	r.Log(Server, Info, "three")
	want := "Cannot write log output to 'a.log': disk full\nSERVER (info) two\nSERVER (info) three\n"
	if got := s.stderr.String(); got != want {
		t.Errorf("stderr = %q, want %q", got, want)
	}
	if err := r.Reopen(); err != nil {
		t.Fatalf("Reopen = %v", err)
	}
	r.Log(Server, Info, "four")
	if got, want := s.files["a.log"][1].String(), "SERVER (info) four\n"; got != want {
		t.Errorf("reopened a.log = %q, want %q", got, want)
	}
}

// Reopen finds the file that log rotation moved away (CFG A27).
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "router.log"), filepath.Join(dir, "router.log.1")
	r := New()
	configure(t, r, Default, Settings{IncludeTimestamp: ptr(false), OutputFile: &path})
	r.Log(Server, Info, "before")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	r.Log(Server, Info, "between")
	if err := r.Reopen(); err != nil {
		t.Fatalf("Reopen = %v", err)
	}
	r.Log(Server, Info, "after")
	if err := r.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	for file, want := range map[string]string{moved: "SERVER (info) before\nSERVER (info) between\n", path: "SERVER (info) after\n"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v, want %q", filepath.Base(file), got, err, want)
		}
	}
}

func TestReopenFails(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Default, Settings{IncludeTimestamp: ptr(false), OutputFile: ptr("a.log")})
	r.open.file = func(string) (io.WriteCloser, error) { return nil, os.ErrPermission }
	if err := r.Reopen(); !errors.Is(err, os.ErrPermission) {
		t.Errorf("Reopen = %v, want permission denied", err)
	}
	r.Log(Server, Info, "x")
	if got, want := s.files["a.log"][0].String(), "SERVER (info) x\n"; got != want {
		t.Errorf("a.log = %q, want %q", got, want)
	}
}

// Forced events are written though the level is off (CFG G6).
func TestForce(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Default, Settings{IncludeTimestamp: ptr(false)})
	r.Module(Protocol).Force(0, Trace, "[C1]:FRAME: 0")
	if got, want := s.stderr.String(), "PROTOCOL (trace) [C1]:FRAME: 0\n"; got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
}

// zap's levels have their place among ours, and none of them ends the program.
func TestZap(t *testing.T) {
	s, r := newSystem()
	configure(t, r, Agent, Settings{Enable: ptr("info+"), IncludeTimestamp: ptr(false)})
	z := r.Module(Agent).Zap()
	z.Debug("hidden")
	z.Info("one", zap.Int("n", 5), zap.String("a", "b"))
	z.With(zap.Bool("on", true)).Warn("two")
	z.Error("three")
	z.DPanic("four")
	want := "AGENT (info) one a=b n=5\nAGENT (warning) two on=true\nAGENT (error) three\nAGENT (critical) four\n"
	if got := s.stderr.String(); got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
	if got := r.Counts(Agent); got[Debug] != 1 || got[Info] != 1 || got[Critical] != 1 {
		t.Errorf("Counts = %v, want one debug, info and critical", got)
	}
}

func TestLevelNames(t *testing.T) {
	for l := Trace; l <= Critical; l++ {
		if got, ok := ParseLevel(l.String()); !ok || got != l {
			t.Errorf("ParseLevel(%q) = %v, %v, want %d", l.String(), got, ok, l)
		}
	}
	if _, ok := ParseLevel("warn"); ok {
		t.Error("ParseLevel(warn) succeeds; abbreviations are for enable alone")
	}
	if got := Level(9).String(); got != "Level(9)" {
		t.Errorf("Level(9) = %q", got)
	}
}

func TestUnknownModulePanics(t *testing.T) {
	_, r := newSystem()
	defer func() {
		if recover() == nil {
			t.Error("Module(NOSUCH) returns")
		}
	}()
	r.Module("NOSUCH")
}

// Events logged while files come and go are lost nowhere (run with -race).
func TestConfigureWhileLogging(t *testing.T) {
	dir := t.TempDir()
	r := New()
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	configure(t, r, Default, Settings{OutputFile: &files[1]})
	const writers, each = 4, 200
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				r.Log(Server, Info, "event %d", i)
			}
		})
	}
	for i := range 50 {
		configure(t, r, Default, Settings{OutputFile: &files[i%2]})
		if err := r.Reopen(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(data, []byte("\n"))
	}
	if lines != writers*each {
		t.Errorf("the files have %d lines, want %d", lines, writers*each)
	}
}

func BenchmarkEnabled(b *testing.B) {
	r := New()
	b.Run("module", func(b *testing.B) {
		m := r.Module(Protocol)
		for b.Loop() {
			if m.Enabled(Trace) {
				b.Fatal("trace is on")
			}
		}
	})
	b.Run("name", func(b *testing.B) {
		for b.Loop() {
			if r.Enabled(Protocol, Trace) {
				b.Fatal("trace is on")
			}
		}
	})
}
