// Package logging writes the router's log: events of named modules, each with one
// of seven levels, in the line format of CFG section 9, on top of zap.
//
//	2026-11-29 18:43:26.004412 +0000 SERVER (info) [C1] Connection Opened (server/listener.go:81)
//
// A Registry holds the modules. What is logged where is set for each module; what
// a module leaves unset it takes from the module DEFAULT, now and whenever DEFAULT
// changes (CFG G1). The last 1000 events that were logged stay in memory, and every
// event is counted, logged or not (CFG G7).
//
// All methods may be called from any goroutine.
package logging

import "go.uber.org/zap"

// Level is the severity of an event.
type Level int8

// The levels, from the least to the most severe.
const (
	Trace Level = iota
	Debug
	Info
	Notice
	Warning
	Error
	Critical
)

// The modules (CFG 9.1). MAIN and DISPLAYNAME cannot be configured.
const (
	Router      = "ROUTER"
	RouterCore  = "ROUTER_CORE"
	RouterHello = "ROUTER_HELLO"
	RouterLS    = "ROUTER_LS"
	RouterMA    = "ROUTER_MA"
	Message     = "MESSAGE"
	Server      = "SERVER"
	Agent       = "AGENT"
	AuthService = "AUTHSERVICE"
	Container   = "CONTAINER"
	ErrorModule = "ERROR"
	Policy      = "POLICY"
	HTTP        = "HTTP"
	ConnMgr     = "CONN_MGR"
	Python      = "PYTHON"
	Protocol    = "PROTOCOL"
	Default     = "DEFAULT"
	Main        = "MAIN"
	DisplayName = "DISPLAYNAME"
)

// Registry is a set of modules with their settings.
type Registry struct{}

// Settings says how a module logs; what is nil is as in module DEFAULT, and for
// DEFAULT itself as built in: info+, time stamp, no source, stderr.
type Settings struct {
	Enable           *string // CFG G2, for instance "warning+"
	IncludeTimestamp *bool
	IncludeSource    *bool
	OutputFile       *string // a path, "stderr", "stdout" or "syslog"
}

// Entry is an event that was logged.
type Entry struct {
	Module string
	Level  Level
	Text   string
	File   string // of the source, or ""
	Line   int    // 0 when File is ""
	Time   int64  // seconds since the epoch
}

// String returns the level's name in the log and in configuration files.
func (l Level) String() string { return "" }

// New returns a registry with all modules as built in: events of level info and
// above go to stderr, with time stamps.
func New() *Registry { return &Registry{} }

// Configure replaces the settings of a module, all of them or, with an error, none
// (CFG G5). A new output file is opened before the old one is closed. The text of
// the error is that of 1.19's CError.
func (r *Registry) Configure(module string, s Settings) error { return nil }

// SetFormat sets the form of time stamps: a strftime format, in which %%06lu stands
// for the microseconds (CFG G9); "" is the built-in one.
func (r *Registry) SetFormat(utc bool, strftime string) {}

// Enabled reports whether the module logs events of level l. It costs a map look-up
// and an atomic load; Module.Enabled saves the former.
func (r *Registry) Enabled(module string, l Level) bool { return false }

// Log logs an event of the module, with the caller as source.
func (r *Registry) Log(module string, l Level, format string, args ...any) {}

// Module returns a handle to the module of that name, which must exist.
func (r *Registry) Module(name string) *Module { return &Module{} }

// Recent returns the newest limit entries kept, oldest first; all of them if limit
// is not positive.
func (r *Registry) Recent(limit int) []Entry { return nil }

// Counts returns how many events of each level the module had, logged or not; nil
// if there is no such module.
func (r *Registry) Counts(module string) map[Level]uint64 { return nil }

// Modules lists the names of all modules.
func (r *Registry) Modules() []string { return nil }

// Reopen opens all output files anew, for the rotation of logs.
func (r *Registry) Reopen() error { return nil }

// Close closes all output files. Later events go to stderr.
func (r *Registry) Close() error { return nil }

// Module is one module of a Registry.
type Module struct{}

// Enabled reports whether events of level l are logged. It is one atomic load.
func (m *Module) Enabled(l Level) bool { return false }

// Log logs an event, with the caller as source.
func (m *Module) Log(l Level, format string, args ...any) {}

// Force is Log for events that are to be written whatever the module's level, such
// as the frames of a connection that is traced (CFG G6).
func (m *Module) Force(l Level, format string, args ...any) {}

// Zap returns a zap logger that logs events of the module.
func (m *Module) Zap() *zap.Logger { return zap.NewNop() }
