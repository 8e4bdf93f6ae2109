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
// All methods may be called from any goroutine. Asking whether a level is enabled
// takes no lock.
package logging
