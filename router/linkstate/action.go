package linkstate

// A LinkID names an outgoing control link, that is, a connection to another router. Its owner
// chooses the numbers; 0 is none, and no number is used twice.
type LinkID uint64

// An Event is something that happened: Tick, LinkUp, LinkDown, Received, LocalAdded or
// LocalRemoved.
type Event interface{ event() }

// Tick is due at the time Engine.Due tells.
type Tick struct{}

// LinkUp says that the outgoing control link of a connection is up. Cost is the effective cost
// of the connection (IR 1.4).
type LinkUp struct {
	Link LinkID
	Cost int64
}

// LinkDown says that an outgoing control link was detached or its connection lost (IR 1.11).
type LinkDown struct{ Link LinkID }

// Received is a control message that came in. Link is the connection it came in on; it counts
// for HELLO only, the others may have come from afar.
type Received struct {
	Link    LinkID
	Message Message
	Trace   int // routers in its trace, the sender being the first; counts for RA only
}

// LocalAdded says that an address got its first local destination (IR 2.12), or that the
// treatment of one that has some is another. Key is the address key, such as M0q1 (IR 2.17);
// keys of classes that are not synchronised are ignored.
type LocalAdded struct {
	Key       string
	Treatment Treatment
}

// LocalRemoved says that an address lost its last local destination.
type LocalRemoved struct{ Key string }

func (Tick) event()         {}
func (LinkUp) event()       {}
func (LinkDown) event()     {}
func (Received) event()     {}
func (LocalAdded) event()   {}
func (LocalRemoved) event() {}

// An Action is something the owner must do: Send, Relay, RouterAdded, RouterRemoved, RoutesChanged,
// RemoteAdded, RemoteRemoved, RemotesFlushed or Log.
type Action interface{ action() }

// A Scope is whom a message is for (IR 2.2, 2.14).
type Scope uint8

// The scopes.
const (
	ToNeighbours   Scope = iota // flood over every outgoing control link or Link alone, one hop: HELLO
	ToAll                       // flood to all routers: RA
	ToAllMobile                 // multicast to all routers: differential MAU
	ToRouter                    // one router, over next hops: LSR, LSU
	ToRouterMobile              // one router, over next hops: MAR, absolute MAU
)

// Send asks for a control message to be sent, not to this router itself. It must carry ingress
// and trace naming this router (IR 2.14). A control message on its way must not be held against
// the radius as strictly as data (IR 5.6): a router with an old picture of the network may take
// the radius for too small and would never hear that it is. So none that is for a router itself
// is dropped there, and one that is passed on to a single router may have gone 2 * radius + 4
// links.
type Send struct {
	Scope   Scope
	Router  string // the addressee when the scope is one router
	Link    LinkID // the one link when the scope is neighbours; 0 = all
	Message Message
}

// Relay asks for the RA just received to be passed on as a flood: over the connections of all
// reachable routers, but not to those in its trace. The owner relays no RA otherwise, or every
// simple path through the network would carry a copy, and it does not hold an RA against the
// radius, which may be one of the things that the RA is about to correct.
type Relay struct{}

// Address returns the message's to property, as 1.19 spells it (IR 2.2).
func (s Send) Address() string {
	switch s.Scope {
	case ToNeighbours:
		return "amqp:/_local/qdhello"
	case ToAll:
		return "amqp:/_topo/" + Area + "/all/qdrouter"
	case ToAllMobile:
		return "_topo/" + Area + "/all/qdrouter.ma"
	case ToRouter:
		return "amqp:/_topo/" + Area + "/" + s.Router + "/qdrouter"
	default:
		return "amqp:/_topo/" + Area + "/" + s.Router + "/qdrouter.ma"
	}
}

// RouterAdded says that another router became known, not yet how to reach it. It gets an
// R address and becomes a destination of the T addresses (IR 2.9).
type RouterAdded struct {
	ID    string
	Index int // see Node.Index
}

// RouterRemoved takes RouterAdded back. No route leads to or over the router any more and no
// address is mapped to it.
type RouterRemoved struct {
	ID    string
	Index int
}

// RoutesChanged gives the new routes of every router whose route is another than before, and
// the radius of the topology: hops to the most distant router, 0 without routers (IR 3.2).
type RoutesChanged struct {
	Routes []Node
	Radius int
}

// A Node is another router as forwarding sees it.
type Node struct {
	ID    string
	Index int // lowest number from 1 free when it became known; this router is 0

	// Out is the connection that leads there: that of NextHop, or its own. 0 means that it is
	// out of reach, and no destination of anything.
	Out     LinkID
	Link    LinkID // its own connection, 0 unless it is a neighbour
	NextHop string // "" when reached over its own connection or not at all
	Cost    int64  // of the whole path
	Hops    int    // links crossed on the path; 0 until it was computed
	// Origins are the indexes of the routers whose messages to it pass through here, this
	// router's own index 0 among them (IR 3.3).
	Origins Set
	// Inbound is the index of the neighbour over which a multicast message of that router
	// should reach this one: our predecessor in its tree. -1 = none. Routers of 1.19 send
	// duplicates over others (IR 3.4).
	Inbound int
}

// Reachable reports whether there is a way to the router.
func (n *Node) Reachable() bool { return n.Out != 0 }

// RemoteAdded says that a router has a consumer of an address. Hint is the treatment for an
// address that is new here; a local configuration goes before it (IR 2.13).
type RemoteAdded struct {
	Router string
	Key    string
	Hint   Treatment
}

// RemoteRemoved says that a router has no consumer of an address any more.
type RemoteRemoved struct {
	Router string
	Key    string
}

// RemotesFlushed says that a router restarted or is forgotten: none of the addresses added for
// it is there any more.
type RemotesFlushed struct{ Router string }

// Log is a line for a log module.
type Log struct {
	Module Module
	Level  Level
	Text   string
}

func (Send) action()           {}
func (Relay) action()          {}
func (RouterAdded) action()    {}
func (RouterRemoved) action()  {}
func (RoutesChanged) action()  {}
func (RemoteAdded) action()    {}
func (RemoteRemoved) action()  {}
func (RemotesFlushed) action() {}
func (Log) action()            {}

// A Module is a log module.
type Module string

// The log modules of the router protocol.
const (
	ModuleRouter Module = "ROUTER"
	ModuleHello  Module = "ROUTER_HELLO"
	ModuleLS     Module = "ROUTER_LS"
	ModuleMA     Module = "ROUTER_MA"
)

// A Level is the severity of a log line.
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
