package logging

import (
	"fmt"
	"io"
	"log/syslog"
	"os"
	"path/filepath"
	"sync"
)

// An OutputError tells that a log file cannot be opened.
type OutputError struct {
	Path string
	Err  error
}

func (e *OutputError) Error() string {
	return fmt.Sprintf("Configuration: Failed to open log file '%s'", e.Path)
}

// Unwrap returns why.
func (e *OutputError) Unwrap() error { return e.Err }

// A syslogWriter is the part of *syslog.Writer that is used.
type syslogWriter interface {
	Debug(string) error
	Info(string) error
	Notice(string) error
	Warning(string) error
	Err(string) error
	Crit(string) error
	Close() error
}

// An opener gives access to the outputs of the system.
type opener struct {
	stdout, stderr io.Writer
	file           func(path string) (io.WriteCloser, error)
	syslog         func() (syslogWriter, error)
}

var systemOpener = opener{
	stdout: os.Stdout,
	stderr: os.Stderr,
	file: func(path string) (io.WriteCloser, error) {
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	},
	syslog: func() (syslogWriter, error) {
		return syslog.New(syslog.LOG_DAEMON|syslog.LOG_INFO, filepath.Base(os.Args[0]))
	},
}

// A sink is one output, shared by all modules that name it (CFG G4).
type sink struct {
	path   string
	syslog bool

	mu     sync.Mutex
	file   io.WriteCloser // nil unless path is a file, and when that was given up
	log    syslogWriter   // nil unless path is "syslog", and when that was given up
	out    io.Writer      // what is written to when neither is there: stdout or stderr
	stderr io.Writer
}

func newSink(path string, open opener) (*sink, error) {
	s := &sink{path: path, out: open.stderr, stderr: open.stderr}
	switch path {
	case "stderr":
	case "stdout":
		s.out = open.stdout
	case "syslog":
		s.syslog = true
		var err error
		s.log, err = open.syslog()
		return s, err
	default:
		var err error
		s.file, err = open.file(path)
		return s, err
	}
	return s, nil
}

// write writes one event at once (CFG G4). An output that fails is replaced by
// stderr (CFG A17), until it is reopened.
func (s *sink) write(l Level, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case s.log != nil:
		err = s.toSyslog(l, string(line))
	case s.file != nil:
		_, err = s.file.Write(line)
	default:
		_, err = s.out.Write(line)
	}
	if err == nil || s.log == nil && s.file == nil && s.path == "stderr" {
		return
	}
	_ = s.closeLocked()
	s.out = s.stderr
	fmt.Fprintf(s.out, "Cannot write log output to '%s': %v\n%s", s.path, err, line)
}

// toSyslog writes a line with the severity of its level (CFG G10).
func (s *sink) toSyslog(l Level, line string) error {
	switch l {
	case Info:
		return s.log.Info(line)
	case Notice:
		return s.log.Notice(line)
	case Warning:
		return s.log.Warning(line)
	case Error:
		return s.log.Err(line)
	case Critical:
		return s.log.Crit(line)
	}
	return s.log.Debug(line)
}

// reopen opens the output anew and then closes the old one.
func (s *sink) reopen(open opener) error {
	fresh, err := newSink(s.path, open)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.closeLocked()
	s.file, s.log, s.out = fresh.file, fresh.log, fresh.out
	return err
}

func (s *sink) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeLocked()
}

func (s *sink) closeLocked() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	if s.log != nil {
		err = s.log.Close()
	}
	s.file, s.log = nil, nil
	return err
}
