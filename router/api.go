package router

import (
	"time"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// Mode is what a router is in its network (CFG 3.1).
type Mode string

// The modes of a router, spelt as in the configuration.
const (
	Standalone Mode = "standalone"
	Interior   Mode = "interior"
	Edge       Mode = "edge"
)

// Role is what a connection is used for (CFG 3.2).
type Role uint8

// The roles of listeners and connectors.
const (
	RoleNormal Role = iota
	RoleInterRouter
	RoleRouteContainer
	RoleEdge
)

var roleNames = [...]string{"normal", "inter-router", "route-container", "edge"}

func (r Role) String() string { return roleNames[r] }

// ParseRole returns the role of that configuration spelling.
func ParseRole(s string) (Role, bool) {
	for i, n := range roleNames {
		if n == s {
			return Role(i), true
		}
	}
	return 0, false
}

// Distribution is how an address spreads deliveries over its consumers (RT F14).
type Distribution uint8

// The distributions. Flood and LinkBalanced are never configured on an address.
const (
	Balanced Distribution = iota
	Closest
	Multicast
	Unavailable
	Flood
	LinkBalanced
)

var distributionNames = [...]string{"balanced", "closest", "multicast", "unavailable", "flood", "linkBalanced"}

func (d Distribution) String() string { return distributionNames[d] }

// ParseDistribution returns the configurable distribution of that spelling.
func ParseDistribution(s string) (Distribution, bool) {
	for i, n := range distributionNames[:Flood] {
		if n == s {
			return Distribution(i), true
		}
	}
	return 0, false
}

// Level is the severity of a log event, in the order of CFG G2.
type Level int8

// The levels, least severe first.
const (
	Trace Level = iota
	Debug
	Info
	Notice
	Warning
	Error
	Critical
)

// Logger takes the router's log events. It must be safe for concurrent use and quick
// when an event is not enabled: it is asked on paths that matter.
type Logger interface {
	Enabled(module string, level Level) bool
	Log(module string, level Level, text string)
}

// Options are the fixed properties of one router.
type Options struct {
	ID                  string // container id and node name
	Area                string // "0"
	Mode                Mode
	Version             string // reported in open properties and to management
	Metadata            string
	WorkerThreads       int
	DefaultDistribution Distribution
	TestHooks           bool // the -T switch: short sweep intervals (RT S4)
	Log                 Logger
	Net                 linkstate.Config // timers of the router protocol; interior routers only
}

// ConnOptions describe one connection to the router. They are fixed when the connection is made.
type ConnOptions struct {
	ID       uint64 // the n of [Cn], from NextConnectionID
	Incoming bool
	Role     Role
	Name     string // of the listener or connector; generated names are no labels (RT L1)
	Host     string // peer as shown to operators: ip:port, or the configured host:port when outgoing
	Listener string // configured host:port of the listener, for log lines
	Hostname string // sent in our open; connectors only (CFG L8)

	MaxFrameSize     uint32 // octets, at least 512
	MaxSessions      uint32 // 1..32768
	MaxSessionFrames uint32 // incoming window of each session in frames; 0 = unlimited (RT E9)
	IdleTimeout      time.Duration
	LinkCapacity     uint32 // credit window of each in-link; 0 = 250, but more between routers
	StripIn          bool   // router annotations are dropped on the way in (RT F81)
	StripOut         bool   // and not added on the way out
	Cost             uint32
	MultiTenant      bool
	OpenProperties   amqp.Map // appended to ours (RT E2)
	Failover         amqp.List
	MessageLog       string // messageLoggingComponents

	Protocol      string // "amqp"
	SASL          string // mechanism used; "" without SASL
	User          string // "" when unknown
	Authenticated bool
	Encrypted     bool
	SSLProto      string
	SSLCipher     string
	SSLSsf        int

	// Opened is called once, from the connection's reader, when the peer's open was accepted;
	// text describes the connection as its log line does.
	Opened func(o *amqp.Open, text string)
}

// Wire is the socket of a connection, made by package transport.
type Wire interface {
	// TryWrite writes what the socket takes at once and never blocks. n < len(p) with a
	// nil error means that the socket is full.
	TryWrite(p []byte) (n int, err error)
	// Write blocks until all is written.
	Write(p []byte) (n int, err error)
	// Cut ends the transport without anything more on the wire; the reader then ends too.
	Cut()
}

// RouterStats is the core view of the router entity (RT 6.3).
type RouterStats struct {
	AddrCount, LinkCount, NodeCount, LinkRouteCount, AutoLinkCount, ConnectionCount uint64

	Presettled, DroppedPresettled, Accepted, Rejected, Released, Modified uint64
	Delayed1Sec, Delayed10Sec, Stuck                                      uint64
	Ingress, Egress, Transit                                              uint64
	IngressRouteContainer, EgressRouteContainer                           uint64
	RedirectedToFallback                                                  uint64
	LinksBlocked                                                          uint32
	UptimeSeconds                                                         uint32
	MemoryUsage                                                           uint64 // octets of virtual memory, 0 = unknown
}

// ConnectionInfo is one row of the connection entity.
type ConnectionInfo struct {
	ID            uint64
	Host          string
	Role          Role
	Incoming      bool
	Container     string
	SASL          string
	Authenticated bool
	User          string
	Encrypted     bool
	SSLProto      string
	SSLCipher     string
	SSLSsf        int
	Properties    amqp.Map // of the peer's open
	Tenant        string   // with its trailing slash
	Opened        bool
	Active        bool
	Closing       bool // deletion was requested
	Trace         bool
	UptimeSeconds uint32
	LastDelivery  int64 // seconds since a delivery passed, -1 = none yet
}

// LinkInfo is one row of the router.link entity (RT 6.1).
type LinkInfo struct {
	ID           uint64
	Name         string
	ConnectionID uint64
	Type         string // endpoint, router-control, inter-router, edge-downlink
	Incoming     bool   // linkDir in
	OwningAddr   string // address key; "" for anonymous
	Capacity     uint32
	Peer         uint64 // 0 = none

	Undelivered, Unsettled                                                            uint64
	Deliveries, Presettled, DroppedPresettled, Accepted, Rejected, Released, Modified uint64
	Delayed1Sec, Delayed10Sec, Stuck                                                  uint64
	IngressHistogram                                                                  []uint64 // by router; the zeros at its end are left out, nil = null
	Priority                                                                          uint32
	SettleRate                                                                        uint32 // per second over the last 5 s
	CreditAvailable                                                                   uint32
	ZeroCreditSeconds                                                                 uint32
	Up                                                                                bool
}

// AddressInfo is one row of the router.address entity (RT 6.2).
type AddressInfo struct {
	Key               string
	Distribution      Distribution
	InProcess         uint32
	Subscribers       uint32 // local out-links
	Remotes           uint32
	Containers        uint32
	RemoteHostRouters []string
	Ingress, Egress, Transit, ToContainer, FromContainer, EgressRouteContainer,
	IngressRouteContainer, RedirectedToFallback uint64
	TransitOutstanding []int64 // by router; the zeros at its end are left out, nil = null
	Tracked            int64
	Priority           int32 // -1 = none
}

// NodeInfo is one row of the router.node entity; a standalone or edge router has none.
type NodeInfo struct {
	ID              string
	ProtocolVersion int64
	Instance        int64
	LinkState       []string
	NextHop         string // "(self)" for this router, "" for neighbours
	ValidOrigins    []string
	Address         string
	RouterLink      int64 // -1 = null
	Cost            int64 // -1 = absent
	LastTopoChange  int64 // 0 = absent
	Index           int64
}

// AddressConfig is one router.config.address (RT 2.2, MG 7.5).
type AddressConfig struct {
	ID           uint64 // identity; assigned by AddAddressConfig
	Name         string
	Prefix       string // one of Prefix and Pattern
	Pattern      string
	Distribution Distribution
	IngressPhase int // 0..9
	EgressPhase  int
	Priority     int // 0..9, -1 = none
	Fallback     bool
}

// Waypoint reports whether the phases are those of a waypoint.
func (a *AddressConfig) Waypoint() bool { return a.IngressPhase == 0 && a.EgressPhase == 1 }

// Request is a complete message that reached an in-process subscriber.
type Request struct {
	Message    []byte // the subscriber's own copy
	Connection uint64 // it came in on; 0 = router-originated
	settle     func(amqp.Raw)
}

// Settle ends the delivery with an outcome, once: amqp.StateAccepted or an encoded rejected
// (RT F77). It may be called from any goroutine but not from within the subscriber's handler
// while that holds locks of its own.
func (q *Request) Settle(state amqp.Raw) {
	if q.settle != nil {
		q.settle(state)
	}
}

// wireText is an error whose text operators see as it is.
type wireText string

func (t wireText) Error() string { return string(t) }

// Errors of the management calls below. Texts are those of MG 8.2 and RT F8–F13.
var (
	ErrNotFound     = error(wireText("Not Found"))
	ErrForbidden    = error(wireText("Forbidden"))
	ErrBadRequest   = error(wireText("Bad Request"))
	ErrNameConflict = error(wireText("Name conflicts with an existing entity"))
	ErrDuplicate    = error(wireText("Already exists"))
	ErrPrefixTokens = error(wireText("Prefix invalid - no tokens"))
	ErrPatTokens    = error(wireText("Pattern invalid - no tokens"))
	ErrPhases       = error(wireText("Phase values must be between 0 and 9"))
	ErrPriority     = error(wireText("Priority value, if present, must be between 0 and QDR_MAX_PRIORITY"))
	ErrFallback     = error(wireText("Fallback cannot be specified with waypoint or non-zero ingress and egress phases"))
	ErrPrefixEither = error(wireText("Either a 'prefix' or 'pattern' attribute must be provided"))
	ErrPrefixBoth   = error(wireText("Cannot specify both a 'prefix' and a 'pattern' attribute"))
)
