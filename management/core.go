package management

import (
	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
)

// Core is the running router, a *router.Router. All its methods may be called
// from any goroutine; the slices they return belong to the caller and stand in
// creation order.
type Core interface {
	// Subscribe hands every message for address to handle, which must not block
	// and settles each request in its own time. local binds the address as one of
	// this router only, as _local/ does (MG 1).
	Subscribe(address string, local bool, handle func(*router.Request)) (cancel func())
	// Send sends a message of the router's own, pre-settled; to unknown addresses
	// it is dropped (RT X12).
	Send(to string, message []byte)

	Stats() router.RouterStats
	Connections() []router.ConnectionInfo
	Links() []router.LinkInfo
	Addresses() []router.AddressInfo
	Nodes() []router.NodeInfo

	AddressConfigs() []router.AddressConfig
	AddAddressConfig(router.AddressConfig) (router.AddressConfig, error)
	DeleteAddressConfig(id uint64) error

	Exchanges() []router.Exchange
	AddExchange(router.Exchange) (router.Exchange, error)
	DeleteExchange(id uint64) error
	Bindings() []router.Binding // by exchange
	AddBinding(router.Binding) (router.Binding, error)
	DeleteBinding(id uint64) error

	// KillConnection drops the socket of connection id on request from connection
	// by; router.ErrForbidden for inter-router and edge connections.
	KillConnection(id, by uint64) error
	SetTrace(id uint64, on bool) error
	Failures() router.Failures
	// NextIdentity draws from the counter that links and configured objects share.
	NextIdentity() uint64
}

// Server is what opens and closes sockets as listeners and connectors come and
// go. An entity handed over is not changed afterwards.
type Server interface {
	CreateListener(e *config.Entity) error
	DeleteListener(identity string) error
	CreateConnector(e *config.Entity) error
	DeleteConnector(identity string) error
	ConnectorStatus(identity string) ConnectorStatus
	ListenerStatus(identity string) ListenerStatus
}

// ConnectorStatus is how the connecting of a connector goes (MG 7.2).
type ConnectorStatus struct {
	Status, Message, FailoverURLs string
	Attempts, Failures            int64
	LastError                     string // why the last of them failed, "" when none did
}

// ListenerStatus is what became of a listener's connections.
type ListenerStatus struct {
	Refused   int64  // turned away before their open
	Failed    int64  // ended with an error after it
	LastError string // why it cannot listen or, if it does, why the last of them failed; "" for nothing
}

// Logs is the router's log: the modules' settings, what was logged lately, and
// the agent's own lines.
type Logs interface {
	// Configure sets a module's outputs, all or nothing; DEFAULT is a module too.
	Configure(module string, s LogSettings) error
	// Recent gives the newest limit entries, oldest first; 0 = all that are kept.
	Recent(limit int) []LogEntry
	// Counts gives how many events of each level a module saw, logged or not; nil
	// for a module that does not exist.
	Counts(module string) map[router.Level]uint64
	// Enabled and Log serve the agent's own events.
	Enabled(module string, level router.Level) bool
	Log(module string, level router.Level, text string)
}

// LogSettings are the settings of one log module; nil means as DEFAULT has it.
type LogSettings struct {
	Enable           *string // levels, CFG G2
	IncludeTimestamp *bool
	IncludeSource    *bool
	OutputFile       *string
}

// A LogEntry is one line of GET-LOG (MG 4.11).
type LogEntry struct {
	Module string
	Level  string // trace … critical
	Text   string
	File   string // source file, "" when unknown
	Line   int
	Time   int64 // seconds since the epoch
}

// An Asker is the connection a request reached this router on, whose rights
// count (MG 9). The zero Asker is nobody: the router itself.
type Asker struct {
	Connection uint64 // the n of [Cn]
}

// agentModule is the log module of the agent's own lines (MG 10).
const agentModule = "AGENT"

func (a *Agent) debugf(format string, args ...any)   { a.logf(router.Debug, format, args...) }
func (a *Agent) infof(format string, args ...any)    { a.logf(router.Info, format, args...) }
func (a *Agent) warningf(format string, args ...any) { a.logf(router.Warning, format, args...) }
func (a *Agent) errorf(format string, args ...any)   { a.logf(router.Error, format, args...) }

// settleRejected is the outcome of a message that cannot be decoded (MG 2.2).
func settleRejected(err error) amqp.Raw {
	e, ok := err.(*amqp.Error)
	if !ok {
		e = &amqp.Error{Condition: amqp.ErrCondDecodeError, Description: err.Error()}
	}
	return amqp.AppendRejected(nil, e)
}
