package logging

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The modules (CFG 9.1). MAIN and DISPLAYNAME follow DEFAULT and cannot be
// configured (CFG G1).
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

// moduleNames are all modules in the order of the schema, the fixed ones last.
var moduleNames = []string{
	Router, RouterCore, RouterHello, RouterLS, RouterMA, Message, Server, Agent, AuthService, Container,
	ErrorModule, Policy, HTTP, ConnMgr, Python, Protocol, Default, Main, DisplayName,
}

// Settings says how a module logs; what is nil is as in module DEFAULT, and for
// DEFAULT itself as built in: info+, time stamp, no source, stderr.
type Settings struct {
	Enable           *string // CFG G2, for instance "warning+"
	IncludeTimestamp *bool
	IncludeSource    *bool
	OutputFile       *string // a path, "stderr", "stdout" or "syslog"
}

// maxText is how many octets of an event's text are kept (CFG G7).
const maxText = 2047

// Registry is a set of modules with their settings.
type Registry struct {
	modules map[string]*Module // fixed
	ring    ring
	open    opener

	// mu is held for reading while an event is written, so that no file is closed
	// under it, and for writing while settings change. It guards what follows and the
	// unexported settings of the modules.
	mu     sync.RWMutex
	sinks  map[string]*sink
	format lineFormat
}

// Module is one module of a Registry.
type Module struct {
	r    *Registry
	name string

	enabled atomic.Uint32 // the mask in effect
	counts  [levels]atomic.Uint64

	// Guarded by the registry's mu.
	settings  Settings
	own       mask // of settings.Enable
	follow    bool // settings.Enable is absent or says "default"
	sink      *sink
	timestamp bool // in effect
	source    bool
}

// New returns a registry with all modules as built in: events of level info and
// above go to stderr, with time stamps.
func New() *Registry { return newRegistry(systemOpener) }

func newRegistry(open opener) *Registry {
	r := &Registry{
		modules: make(map[string]*Module, len(moduleNames)),
		open:    open,
		sinks:   map[string]*sink{},
	}
	r.ring.entries = make([]Entry, 0, ringSize)
	for _, name := range moduleNames {
		r.modules[name] = &Module{r: r, name: name, follow: true}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.applyLocked(); err != nil {
		panic("logging: stderr cannot be opened: " + err.Error())
	}
	return r
}

// Configure replaces the settings of a module, all of them or, with an error, none
// (CFG G5). A new output file is opened before an old one is closed. The text of
// the error is that of 1.19's CError: a *LevelError or an *OutputError, or another
// one if there is no such module.
func (r *Registry) Configure(module string, s Settings) error {
	m := r.modules[module]
	if m == nil || module == Main || module == DisplayName {
		return fmt.Errorf("log module %q cannot be configured", module)
	}
	own, follow := mask(0), true
	if s.Enable != nil {
		var err error
		if own, follow, err = parseEnable(*s.Enable); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	oldSettings, oldOwn, oldFollow := m.settings, m.own, m.follow
	m.settings, m.own, m.follow = s, own, follow
	if err := r.applyLocked(); err != nil {
		m.settings, m.own, m.follow = oldSettings, oldOwn, oldFollow
		return err
	}
	return nil
}

// applyLocked works out what is in effect for each module (CFG G1). With an error
// nothing has changed.
func (r *Registry) applyLocked() error {
	def := r.modules[Default]
	used := map[string]*sink{}
	for _, name := range moduleNames {
		path := r.modules[name].output(def)
		if used[path] != nil {
			continue
		}
		s := r.sinks[path]
		if s == nil {
			var err error
			if s, err = newSink(path, r.open); err != nil {
				for path, s := range used {
					if r.sinks[path] == nil {
						_ = s.close()
					}
				}
				return &OutputError{Path: path, Err: err}
			}
		}
		used[path] = s
	}

	levels := from(Info)
	if !def.follow {
		levels = def.own
	}
	for _, m := range r.modules {
		m.sink = used[m.output(def)]
		m.timestamp = either(m.settings.IncludeTimestamp, def.settings.IncludeTimestamp, true)
		m.source = either(m.settings.IncludeSource, def.settings.IncludeSource, false)
		if m.follow {
			m.enabled.Store(uint32(levels))
		} else {
			m.enabled.Store(uint32(m.own))
		}
	}
	for path, s := range r.sinks {
		if used[path] == nil {
			_ = s.close() // nothing of ours is buffered in it
		}
	}
	r.sinks = used
	return nil
}

// output returns where the module logs to.
func (m *Module) output(def *Module) string {
	switch {
	case m.settings.OutputFile != nil:
		return *m.settings.OutputFile
	case def.settings.OutputFile != nil:
		return *def.settings.OutputFile
	}
	return "stderr"
}

func either(own, def *bool, builtin bool) bool {
	switch {
	case own != nil:
		return *own
	case def != nil:
		return *def
	}
	return builtin
}

// SetFormat sets the form of time stamps: a strftime format, in which %%06lu stands
// for the microseconds (CFG G9); "" is the built-in one.
func (r *Registry) SetFormat(utc bool, strftime string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.format = lineFormat{utc, strftime}
}

// Module returns a handle to the module of that name. It panics if there is none:
// the names are those of the constants.
func (r *Registry) Module(name string) *Module {
	m := r.modules[name]
	if m == nil {
		panic("logging: no module " + name)
	}
	return m
}

// Modules lists the names of all modules.
func (r *Registry) Modules() []string { return slices.Clone(moduleNames) }

// Enabled reports whether the module logs events of level l. It costs a map look-up
// and an atomic load; Module.Enabled saves the former.
func (r *Registry) Enabled(module string, l Level) bool { return r.Module(module).Enabled(l) }

// Log logs an event of the module, with the caller as source.
func (r *Registry) Log(module string, l Level, format string, args ...any) {
	r.Module(module).log(l, format, args)
}

// Counts returns how many events of each level the module had, logged or not; nil
// if there is no such module.
func (r *Registry) Counts(module string) map[Level]uint64 {
	m := r.modules[module]
	if m == nil {
		return nil
	}
	counts := make(map[Level]uint64, levels)
	for l := range m.counts {
		counts[Level(l)] = m.counts[l].Load()
	}
	return counts
}

// Enabled reports whether events of level l are logged. It is one atomic load.
func (m *Module) Enabled(l Level) bool { return mask(m.enabled.Load()).has(l) }

// Log logs an event, with the caller as source.
func (m *Module) Log(l Level, format string, args ...any) { m.log(l, format, args) }

// Force is Output for events that are to be written whatever the module's level,
// such as the frames of a connection that is traced (CFG G6).
func (m *Module) Force(skip int, l Level, text string) {
	m.counts[l].Add(1)
	m.event(skip+1, l, text)
}

// Output logs an event with a finished text. Its source is the caller, or the one
// skip calls above it; helpers that log for others use it.
func (m *Module) Output(skip int, l Level, text string) {
	m.counts[l].Add(1)
	if m.Enabled(l) {
		m.event(skip+1, l, text)
	}
}

// log is to be called by the exported functions alone: the source is their caller.
func (m *Module) log(l Level, format string, args []any) {
	m.counts[l].Add(1)
	if !m.Enabled(l) {
		return
	}
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	m.event(2, l, format)
}

// event writes an event; the source is skip calls above the caller.
func (m *Module) event(skip int, l Level, text string) {
	m.write(zapcore.Entry{
		Level:   l.zap(),
		Time:    time.Now(),
		Message: text,
		Caller:  zapcore.NewEntryCaller(runtime.Caller(skip + 1)),
	}, nil)
}

// write puts an event into the ring and the module's output.
func (m *Module) write(e zapcore.Entry, fields []zapcore.Field) {
	e.LoggerName = m.name
	e.Message = cut(e.Message+fieldText(fields), maxText)
	m.r.ring.add(e)
	m.r.mu.RLock()
	defer m.r.mu.RUnlock()
	line := m.r.format.append(make([]byte, 0, 256), e, m.timestamp && !m.sink.syslog, m.source)
	m.sink.write(fromZap(e.Level), line)
}

// Zap returns a zap logger that logs events of the module. Fields are put behind
// the text as key=value.
func (m *Module) Zap() *zap.Logger { return zap.New(&core{module: m}, zap.AddCaller()) }

// A core makes a module a zapcore.Core.
type core struct {
	module *Module
	fields []zapcore.Field
}

// Enabled holds for every level, so that Check sees and counts all events.
func (c *core) Enabled(zapcore.Level) bool { return true }

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.module, slices.Concat(c.fields, fields)}
}

func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	l := fromZap(e.Level)
	c.module.counts[l].Add(1)
	if c.module.Enabled(l) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.module.write(e, slices.Concat(c.fields, fields))
	return nil
}

func (c *core) Sync() error { return nil }

// Reopen opens all output files anew, for the rotation of logs. A file that cannot
// be opened stays as it is; the error tells which.
func (r *Registry) Reopen() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for path, s := range r.sinks {
		if err := s.reopen(r.open); err != nil {
			errs = append(errs, &OutputError{Path: path, Err: err})
		}
	}
	return errors.Join(errs...)
}

// Close closes all output files. Later events go to stderr.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, s := range r.sinks {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
