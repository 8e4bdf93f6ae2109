package linkstate

import (
	"fmt"
	"strconv"
	"strings"
)

// ProtocolVersion is the version we speak. Messages of later versions are ignored (IR 2.5).
const ProtocolVersion = 1

// Area is the one area there is (IR 2.2).
const Area = "0"

// The opcodes, values of the application property "opcode" (IR 2.3).
const (
	OpcodeHello = "HELLO"
	OpcodeRA    = "RA"
	OpcodeLSU   = "LSU"
	OpcodeLSR   = "LSR"
	OpcodeMAU   = "MAU"
	OpcodeMAR   = "MAR"
)

// The keys of message bodies (IR 2.3). In HELLO, RA, LSU and LSR they are AMQP strings and
// whole numbers are int, long beyond 32 bits; in MAR and MAU they are symbols and whole numbers
// long, but hints int. The key opcode is a string or a symbol likewise.
const (
	KeyOpcode     = "opcode"
	KeyID         = "id"
	KeyVersion    = "pv"
	KeyArea       = "area"
	KeyInstance   = "instance"
	KeySeen       = "seen"
	KeyLSSeq      = "ls_seq"
	KeyMobileSeq  = "mobile_seq"
	KeyLinkState  = "ls"
	KeyPeers      = "peers"
	KeyHaveSeq    = "have_seq"
	KeyTreatments = "hints"
	KeyAdd        = "add"
	KeyDelete     = "del"
	KeyExist      = "exist"
)

// A Message is one of *Hello, *RA, *LSU, *LSR, *MAU and *MAR. Fields stand in the order in
// which their keys are sent.
type Message interface {
	Opcode() string
	// String is the message as 1.19 logs it.
	String() string
}

// Hello tells a neighbour whom its sender can hear (IR 2.7). Absent from a body, pv and
// instance are 0, here and in the other messages; id and seen must be there.
type Hello struct {
	ID       string   // id: string
	Version  int64    // pv: int
	Area     string   // area: string, ignored on receipt
	Instance int64    // instance: int
	Seen     []string // seen: list of string
}

// RA is a router advertisement: its sender's sequence numbers (IR 2.8). id, ls_seq and
// mobile_seq must be there.
type RA struct {
	ID        string // id: string
	Version   int64  // pv: int
	Area      string // area: string
	Instance  int64  // instance: int
	LSSeq     int64  // ls_seq: int
	MobileSeq int64  // mobile_seq: int
}

// LSU is a link-state update: its sender's neighbours (IR 2.9). id, ls_seq, ls and in it id,
// ls_seq and peers must be there. Receivers go by the inner ls_seq.
type LSU struct {
	ID        string    // id: string
	Version   int64     // pv: int
	Area      string    // area: string
	Instance  int64     // instance: int
	LSSeq     int64     // ls_seq: int
	LinkState LinkState // ls: map
}

// LinkState is the part of an LSU that is kept.
type LinkState struct {
	ID    string // id: string
	Area  string // area: string
	LSSeq int64  // ls_seq: int
	Peers []Peer // peers: map of string to int
}

// A Peer is a neighbour of the router whose link state it is in, and the cost of going there.
type Peer struct {
	ID   string
	Cost int64
}

// LSR asks a router for its link state (IR 2.9). id must be there.
type LSR struct {
	ID      string // id: string
	Version int64  // pv: int
	Area    string // area: string
}

// MAU is an update of the addresses its sender has consumers of (IR 2.12, 2.13). The
// differential form has Add and Delete and is for all routers; the absolute form has Exist and
// answers a MAR. A list that is absent is nil, one that is present but empty is not. id and
// mobile_seq must be there.
type MAU struct {
	ID         string      // id: symbol key, string
	Version    int64       // pv: long
	Area       string      // area: string
	MobileSeq  int64       // mobile_seq: long
	Treatments []Treatment // hints: list of int, parallel to Add or Exist; third in a differential, last in an absolute MAU
	Add        []string    // add: list of string
	Delete     []string    // del: list of string
	Exist      []string    // exist: list of string

	// Malformed is set by the decoder when add, del or exist is not a list.
	Malformed bool
}

// MAR asks a router for an absolute MAU if it is beyond HaveSeq (IR 2.13). id and have_seq must
// be there.
type MAR struct {
	ID      string // id: symbol key, string
	Version int64  // pv: long
	Area    string // area: string
	HaveSeq int64  // have_seq: long, 0 = nothing
}

// A Treatment is how an address spreads its deliveries, as MAUs hint it (IR 2.3).
type Treatment int32

// The treatments by their numbers on the wire.
const (
	TreatFlood Treatment = iota
	TreatMulticast
	TreatClosest
	TreatBalanced
	TreatLinkBalanced
	TreatUnavailable

	// TreatUnknown stands for a hint that is missing or no valid number; it is never sent.
	TreatUnknown Treatment = -1
)

// Opcode returns OpcodeHello.
func (*Hello) Opcode() string { return OpcodeHello }

// Opcode returns OpcodeRA.
func (*RA) Opcode() string { return OpcodeRA }

// Opcode returns OpcodeLSU.
func (*LSU) Opcode() string { return OpcodeLSU }

// Opcode returns OpcodeLSR.
func (*LSR) Opcode() string { return OpcodeLSR }

// Opcode returns OpcodeMAU.
func (*MAU) Opcode() string { return OpcodeMAU }

// Opcode returns OpcodeMAR.
func (*MAR) Opcode() string { return OpcodeMAR }

func (m *Hello) String() string {
	return fmt.Sprintf("HELLO(id=%s pv=%d area=%s inst=%d seen=%s)", m.ID, m.Version, m.Area, m.Instance, idList(m.Seen))
}

func (m *RA) String() string {
	return fmt.Sprintf("RA(id=%s pv=%d area=%s inst=%d ls_seq=%d mobile_seq=%d)",
		m.ID, m.Version, m.Area, m.Instance, m.LSSeq, m.MobileSeq)
}

func (m *LSU) String() string {
	return fmt.Sprintf("LSU(id=%s pv=%d area=%s inst=%d ls_seq=%d ls=%s)",
		m.ID, m.Version, m.Area, m.Instance, m.LSSeq, m.LinkState)
}

func (s LinkState) String() string {
	return fmt.Sprintf("LS(id=%s area=%s ls_seq=%d peers=%s)", s.ID, s.Area, s.LSSeq,
		braces(len(s.Peers), func(i int) string { return quote(s.Peers[i].ID) + ": " + strconv.FormatInt(s.Peers[i].Cost, 10) }))
}

func (m *LSR) String() string {
	return fmt.Sprintf("LSR(id=%s pv=%d area=%s)", m.ID, m.Version, m.Area)
}

func (m *MAU) String() string {
	var lists strings.Builder
	for _, l := range []struct {
		name string
		keys []string
	}{{"add", m.Add}, {"del", m.Delete}, {"exist", m.Exist}} {
		if l.keys != nil {
			lists.WriteString(" " + l.name + "=" + idList(l.keys))
		}
	}
	if m.Treatments != nil {
		fmt.Fprintf(&lists, " hints=[%s]", join(len(m.Treatments), func(i int) string { return strconv.Itoa(int(m.Treatments[i])) }))
	}
	return fmt.Sprintf("MAU(id=%s pv=%d area=%s mobile_seq=%d%s)", m.ID, m.Version, m.Area, m.MobileSeq, lists.String())
}

func (m *MAR) String() string {
	return fmt.Sprintf("MAR(id=%s pv=%d area=%s have_seq=%d)", m.ID, m.Version, m.Area, m.HaveSeq)
}

// The log lines of 1.19 show lists and maps as Python prints them, and its log scraper reads
// them so.

func quote(s string) string {
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

func idList(ids []string) string {
	return "[" + join(len(ids), func(i int) string { return quote(ids[i]) }) + "]"
}

func braces(n int, item func(i int) string) string { return "{" + join(n, item) + "}" }

func join(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return strings.Join(items, ", ")
}
