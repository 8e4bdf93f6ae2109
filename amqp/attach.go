package amqp

import "sync"

// Role tells the two ends of a link apart (AMQP 1.0 part 2 §2.8.1).
type Role bool

// The roles.
const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

// String returns the standard's name of the role.
func (r Role) String() string {
	if r == RoleReceiver {
		return "receiver"
	}
	return "sender"
}

// Settlement modes of a sender and of a receiver (AMQP 1.0 part 2 §2.8.2 and
// §2.8.3).
const (
	SndSettleModeUnsettled uint8 = 0
	SndSettleModeSettled   uint8 = 1
	SndSettleModeMixed     uint8 = 2

	RcvSettleModeFirst  uint8 = 0
	RcvSettleModeSecond uint8 = 1
)

// Attach attaches a link to a session (AMQP 1.0 part 2 §2.7.3). At most one of
// Target and Coordinator is set.
type Attach struct {
	Name                 string
	Handle               uint32
	Role                 Role
	SndSettleMode        Opt[uint8] // mixed if absent
	RcvSettleMode        Opt[uint8] // first if absent
	Source               *Source
	Target               *Target
	Coordinator          *Coordinator // a target of type coordinator
	Unsettled            Raw          // a map
	IncompleteUnsettled  bool
	InitialDeliveryCount Opt[uint32]
	MaxMessageSize       Opt[uint64] // octets; 0 and absent are no limit
	OfferedCapabilities  Raw         // symbols
	DesiredCapabilities  Raw         // symbols
	Properties           Raw         // a map

	store *attachStore // what a lies in, when it is to be used again
}

// attachStore is an attach and room for its termini, for decoding without allocation.
type attachStore struct {
	attach Attach
	source Source
	target Target
}

var attachStores = sync.Pool{New: func() any { return new(attachStore) }}

func newStoredAttach() *Attach {
	s := attachStores.Get().(*attachStore)
	s.attach.store = s
	return &s.attach
}

// Release gives the storage of an attach that a Handler was told of back for the next one.
// Nothing of a may be used after that, but the strings. It need not be called.
func (a *Attach) Release() {
	if s := a.store; s != nil {
		*s = attachStore{}
		attachStores.Put(s)
	}
}

func (a *Attach) newSource() *Source {
	if a.store == nil {
		return new(Source)
	}
	return &a.store.source
}

func (a *Attach) newTarget() *Target {
	if a.store == nil {
		return new(Target)
	}
	return &a.store.target
}

// Append appends a as a described list.
func (a *Attach) Append(b []byte) []byte {
	c := beginComposite(b, CodeAttach)
	c.mandatoryString(a.Name)
	c.mandatoryUint(a.Handle)
	c.mandatoryBool(bool(a.Role))
	c.ubyte(a.SndSettleMode)
	c.ubyte(a.RcvSettleMode)
	if a.Source != nil {
		c.b = a.Source.Append(c.b)
		c.wrote()
	} else {
		c.null()
	}
	switch {
	case a.Target != nil:
		c.b = a.Target.Append(c.b)
		c.wrote()
	case a.Coordinator != nil:
		c.b = a.Coordinator.Append(c.b)
		c.wrote()
	default:
		c.null()
	}
	c.raw(a.Unsettled)
	c.flag(a.IncompleteUnsettled)
	c.uint(a.InitialDeliveryCount)
	c.ulong(a.MaxMessageSize)
	c.raw(a.OfferedCapabilities)
	c.raw(a.DesiredCapabilities)
	c.raw(a.Properties)
	return c.done()
}

// Clone returns a copy of a that shares no memory with it.
func (a *Attach) Clone() *Attach {
	var c Attach
	if _, err := c.Decode(a.Append(nil)); err != nil {
		panic("amqp: attach does not survive encoding: " + err.Error())
	}
	return &c
}

// Decode sets a to the attach at the start of body and returns its length. A
// source or target of a type the standard does not have is amqp:not-implemented.
func (a *Attach) Decode(body []byte) (n int, err error) {
	f, n, err := readComposite(body, CodeAttach, "attach", 14)
	if err != nil {
		return 0, err
	}
	*a = Attach{
		Name:          need(&f, "name", rawString), // CFG R26
		Handle:        need(&f, "handle", rawUint),
		Role:          Role(need(&f, "role", rawBool)),
		SndSettleMode: opt(&f, "snd-settle-mode", rawUbyte),
		RcvSettleMode: opt(&f, "rcv-settle-mode", rawUbyte),
		store:         a.store,
	}
	a.decodeTermini(&f)
	a.Unsettled = f.raw("unsettled", isMap)
	a.IncompleteUnsettled = opt(&f, "incomplete-unsettled", rawBool).V
	a.InitialDeliveryCount = opt(&f, "initial-delivery-count", rawUint)
	a.MaxMessageSize = opt(&f, "max-message-size", rawUlong)
	a.OfferedCapabilities = f.raw("offered-capabilities", isCapabilities)
	a.DesiredCapabilities = f.raw("desired-capabilities", isCapabilities)
	a.Properties = f.raw("properties", isMap)
	return n, f.done()
}

// decodeTermini reads the source and the target of the attach.
func (a *Attach) decodeTermini(f *fields) {
	if v := f.next(); v != nil {
		a.Source = a.newSource()
		if code, ok := PerformativeCode(v); isDescribed(v) && (!ok || code != CodeSource) {
			f.unknownTerminus("source")
		} else {
			f.nested("source", v, a.Source.Decode)
		}
	}
	v := f.next()
	if v == nil {
		return
	}
	switch code, _ := PerformativeCode(v); {
	case code == CodeCoordinator:
		a.Coordinator = new(Coordinator)
		f.nested("target", v, a.Coordinator.Decode)
	case code == CodeTarget || !isDescribed(v):
		a.Target = a.newTarget()
		f.nested("target", v, a.Target.Decode)
	default:
		f.unknownTerminus("target")
	}
}

func (f *fields) unknownTerminus(field string) {
	if f.err == nil {
		f.fail(field, "is of an unknown type")
		f.err.Condition = ErrCondNotImplemented
	}
}

// Expiry policies of a terminus (AMQP 1.0 part 3 §3.5.6).
const (
	ExpiryLinkDetach      Symbol = "link-detach"
	ExpirySessionEnd      Symbol = "session-end"
	ExpiryConnectionClose Symbol = "connection-close"
	ExpiryNever           Symbol = "never"
)

// Source is where the messages of a link come from (AMQP 1.0 part 3 §3.5.3).
//
// The standard lets an address be of any type and then defines nothing but the
// string; so only a string is taken.
type Source struct {
	Address               Opt[string]
	Durable               Opt[uint32] // terminus-durability, none if absent
	ExpiryPolicy          Symbol      // "" is absent, which stands for session-end
	Timeout               Opt[uint32] // seconds
	Dynamic               bool
	DynamicNodeProperties Raw    // a map
	DistributionMode      Symbol // "" is absent
	Filter                Raw    // a map
	DefaultOutcome        Raw    // an outcome
	Outcomes              Raw    // symbols
	Capabilities          Raw    // symbols
}

// Append appends s as a described list.
func (s *Source) Append(b []byte) []byte {
	c := beginComposite(b, CodeSource)
	c.str(s.Address)
	c.uint(s.Durable)
	c.symbol(s.ExpiryPolicy)
	c.uint(s.Timeout)
	c.flag(s.Dynamic)
	c.raw(s.DynamicNodeProperties)
	c.symbol(s.DistributionMode)
	c.raw(s.Filter)
	c.raw(s.DefaultOutcome)
	c.raw(s.Outcomes)
	c.raw(s.Capabilities)
	return c.done()
}

// Decode sets s to the source at the start of b and returns its length.
func (s *Source) Decode(b []byte) (n int, err error) {
	f, n, err := readComposite(b, CodeSource, "source", 11)
	if err != nil {
		return 0, err
	}
	*s = Source{
		Address:               opt(&f, "address", rawString),
		Durable:               opt(&f, "durable", rawUint),
		ExpiryPolicy:          opt(&f, "expiry-policy", rawSymbol).V,
		Timeout:               opt(&f, "timeout", rawUint),
		Dynamic:               opt(&f, "dynamic", rawBool).V,
		DynamicNodeProperties: f.raw("dynamic-node-properties", isMap),
		DistributionMode:      opt(&f, "distribution-mode", rawSymbol).V,
		Filter:                f.raw("filter", isMap),
		DefaultOutcome:        f.raw("default-outcome", isDescribed),
		Outcomes:              f.raw("outcomes", isSymbols),
		Capabilities:          f.raw("capabilities", isCapabilities),
	}
	return n, f.done()
}

// Target is where the messages of a link go (AMQP 1.0 part 3 §3.5.4).
type Target struct {
	Address               Opt[string]
	Durable               Opt[uint32] // terminus-durability, none if absent
	ExpiryPolicy          Symbol      // "" is absent, which stands for session-end
	Timeout               Opt[uint32] // seconds
	Dynamic               bool
	DynamicNodeProperties Raw // a map
	Capabilities          Raw // symbols
}

// Append appends t as a described list.
func (t *Target) Append(b []byte) []byte {
	c := beginComposite(b, CodeTarget)
	c.str(t.Address)
	c.uint(t.Durable)
	c.symbol(t.ExpiryPolicy)
	c.uint(t.Timeout)
	c.flag(t.Dynamic)
	c.raw(t.DynamicNodeProperties)
	c.raw(t.Capabilities)
	return c.done()
}

// Decode sets t to the target at the start of b and returns its length.
func (t *Target) Decode(b []byte) (n int, err error) {
	f, n, err := readComposite(b, CodeTarget, "target", 7)
	if err != nil {
		return 0, err
	}
	*t = Target{
		Address:               opt(&f, "address", rawString),
		Durable:               opt(&f, "durable", rawUint),
		ExpiryPolicy:          opt(&f, "expiry-policy", rawSymbol).V,
		Timeout:               opt(&f, "timeout", rawUint),
		Dynamic:               opt(&f, "dynamic", rawBool).V,
		DynamicNodeProperties: f.raw("dynamic-node-properties", isMap),
		Capabilities:          f.raw("capabilities", isCapabilities),
	}
	return n, f.done()
}

// Coordinator is the target of a link that controls transactions (AMQP 1.0 part
// 4 §4.5.1).
type Coordinator struct {
	Capabilities Raw // symbols
}

// Append appends c as a described list.
func (c *Coordinator) Append(b []byte) []byte {
	w := beginComposite(b, CodeCoordinator)
	w.raw(c.Capabilities)
	return w.done()
}

// Decode sets c to the coordinator at the start of b and returns its length.
func (c *Coordinator) Decode(b []byte) (n int, err error) {
	f, n, err := readComposite(b, CodeCoordinator, "coordinator", 1)
	if err != nil {
		return 0, err
	}
	*c = Coordinator{Capabilities: f.raw("capabilities", isCapabilities)}
	return n, f.done()
}
