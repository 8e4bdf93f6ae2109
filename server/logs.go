package server

import (
	"qdrouter/logging"
	"qdrouter/management"
	"qdrouter/router"
)

// routerLog writes the router's events. The levels of both packages are the same
// in the same order.
type routerLog struct{ r *logging.Registry }

func (l routerLog) Enabled(module string, level router.Level) bool {
	return l.r.Enabled(module, logging.Level(level))
}

// Log logs an event, with the caller of the router's own log function as source.
// The router sends frames only for connections whose trace is on, so those are
// written whatever the module's level (CFG G6).
func (l routerLog) Log(module string, level router.Level, text string) {
	m := l.r.Module(module)
	if module == logging.Protocol {
		m.Force(1, logging.Level(level), text) // by what traces frames itself
		return
	}
	m.Output(2, logging.Level(level), text)
}

// agentLog is what the management agent sees of the log.
type agentLog struct {
	routerLog
	router *router.Router
}

// Log logs an event of the agent, whose log functions are two deep.
func (l agentLog) Log(module string, level router.Level, text string) {
	l.r.Module(module).Output(3, logging.Level(level), text)
}

// Configure changes a module's settings. Frames are traced as soon as, and as
// long as, PROTOCOL logs them (CFG G6).
func (l agentLog) Configure(module string, s management.LogSettings) error {
	if err := l.r.Configure(module, logging.Settings(s)); err != nil {
		return err
	}
	l.router.SetProtocolTrace(l.r.Enabled(logging.Protocol, logging.Trace))
	return nil
}

func (l agentLog) Recent(limit int) []management.LogEntry {
	var entries []management.LogEntry
	for _, e := range l.r.Recent(limit) {
		entries = append(entries, management.LogEntry{
			Module: e.Module, Level: e.Level.String(), Text: e.Text, File: e.File, Line: e.Line, Time: e.Time,
		})
	}
	return entries
}

func (l agentLog) Counts(module string) map[router.Level]uint64 {
	counts := l.r.Counts(module)
	if counts == nil {
		return nil
	}
	m := make(map[router.Level]uint64, len(counts))
	for level, n := range counts {
		m[router.Level(level)] = n
	}
	return m
}
