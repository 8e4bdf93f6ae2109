package config

import (
	"fmt"
	"strings"
)

// maxPhase is the greatest phase of an address, maxPriority the greatest priority of
// its messages (CFG D1).
const (
	maxPhase    = 9
	maxPriority = 9
)

// An addressingChecker finds the faults of address, linkRoute, autoLink, exchange
// and binding sections that make 1.19 drop the section and go on (CFG D1 to D6).
type addressingChecker struct {
	patterns  map[string]bool // of addresses so far, in one spelling
	exchanges map[string]bool // their names and their addresses
	addresses map[string]bool
	bindings  map[[4]string]bool
	warnings  []Warning
}

func newAddressingChecker() *addressingChecker {
	return &addressingChecker{
		patterns:  map[string]bool{},
		exchanges: map[string]bool{},
		addresses: map[string]bool{},
		bindings:  map[[4]string]bool{},
	}
}

// keep reports whether the entity is good; if not it adds a warning.
func (c *addressingChecker) keep(e *Entity) bool {
	var reason string
	switch e.Type.Name {
	case "router.config.address":
		if !c.prefixOrPattern(e, "configured address") {
			return false
		}
		reason = addressFault(e)
		if reason == "" && !c.newPattern(e) {
			return false
		}
	case "router.config.linkRoute":
		if !c.prefixOrPattern(e, "link route") || !c.oneSelector(e) {
			return false
		}
		if trimAddress(e.Str("prefix")+e.Str("pattern")) == "" {
			reason = "Invalid prefix or pattern"
		}
	case "router.config.autoLink":
		if !c.oneSelector(e) {
			return false
		}
		reason = phaseFault(e, "phase")
	case "router.config.exchange":
		reason = c.exchangeFault(e)
	case "router.config.binding":
		reason = c.bindingFault(e)
	}
	if reason != "" {
		c.warnings = append(c.warnings, Warning{"AGENT", "error",
			fmt.Sprintf("Error performing CREATE of %s: %s", e.Type.LongName, reason)})
	}
	return reason == ""
}

func (c *addressingChecker) prefixOrPattern(e *Entity, what string) bool {
	text := ""
	switch prefix, pattern := e.Has("prefix"), e.Has("pattern"); {
	case prefix && pattern:
		text = fmt.Sprintf("Cannot set both 'prefix' and 'pattern': ignoring %s %s, %s", what, e.Str("prefix"), e.Str("pattern"))
	case !prefix && !pattern:
		if e.Type.Name == "router.config.linkRoute" {
			what += " address"
		}
		text = "Must set either 'prefix' or 'pattern' attribute: ignoring " + what
	default:
		return true
	}
	c.warnings = append(c.warnings, Warning{"ROUTER", "warning", text})
	return false
}

// oneSelector refuses connection together with containerId; 1.19 speaks of a
// linkRoute for autoLinks too (CFG D2, D3).
func (c *addressingChecker) oneSelector(e *Entity) bool {
	if !e.Has("connection") || !e.Has("containerId") {
		return true
	}
	c.warnings = append(c.warnings, Warning{"ROUTER_CORE", "error",
		"Error configuring linkRoute: Both connection and containerId cannot be specified. Specify only one"})
	return false
}

// trimAddress removes the separators at both ends, which have no meaning there.
func trimAddress(s string) string { return strings.Trim(s, "/.") }

func addressFault(e *Entity) string {
	ingress, egress := e.Int("ingressPhase"), e.Int("egressPhase")
	switch {
	case trimAddress(e.Str("prefix")+e.Str("pattern")) == "":
		return "Invalid prefix or pattern"
	case e.Bool("enableFallback") && (e.Bool("waypoint") || ingress != 0 || egress != 0):
		return "Fallback cannot be specified with waypoint or non-zero ingress and egress phases"
	case e.Has("ingressPhase") != e.Has("egressPhase"),
		ingress < 0 || ingress > maxPhase || egress < 0 || egress > maxPhase:
		return "Phase values must be between 0 and 9"
	case e.Int("priority") > maxPriority:
		return "Priority value, if present, must be between 0 and 9"
	}
	return ""
}

// newPattern reports whether no other address has the same pattern: a prefix x is
// the pattern x/#, and both separators are one.
func (c *addressingChecker) newPattern(e *Entity) bool {
	pattern := trimAddress(e.Str("pattern"))
	if e.Has("prefix") {
		pattern = trimAddress(e.Str("prefix")) + "/#"
	}
	key := strings.ReplaceAll(pattern, ".", "/")
	if c.patterns[key] {
		c.warnings = append(c.warnings, Warning{"ERROR", "error",
			fmt.Sprintf("Already exists: Duplicate pattern '%s' not added to parse tree", pattern)})
		return false
	}
	c.patterns[key] = true
	return true
}

func phaseFault(e *Entity, attr string) string {
	if n := e.Int(attr); n < 0 || n > maxPhase {
		return fmt.Sprintf("Value of %s must be between 0 and %d", attr, maxPhase)
	}
	return ""
}

// exchangePhases is what is wrong with a phase of an exchange or binding (RT 5.1).
const exchangePhases = "phase must be in the range 0-9"

func (c *addressingChecker) exchangeFault(e *Entity) string {
	name, address := e.Str("name"), e.Str("address")
	switch {
	case name == "":
		return "exchange requires a unique name"
	case c.addresses[address]:
		return "duplicate exchange address"
	case c.exchanges[name]:
		return "duplicate exchange name"
	case phaseFault(e, "phase") != "", phaseFault(e, "alternatePhase") != "":
		return exchangePhases
	}
	c.exchanges[name], c.addresses[address] = true, true
	return ""
}

func (c *addressingChecker) bindingFault(e *Entity) string {
	exchange := e.Str("exchangeName")
	if !c.exchanges[exchange] {
		return "Named exchange does not exist"
	}
	if phaseFault(e, "nextHopPhase") != "" {
		return exchangePhases
	}
	key := "#"
	if e.Has("bindingKey") {
		key = e.Str("bindingKey")
	}
	binding := [4]string{exchange, key, e.Str("nextHopAddress"), fmt.Sprint(e.Int("nextHopPhase"))}
	if c.bindings[binding] {
		return "Next hop for key already exists"
	}
	c.bindings[binding] = true
	return ""
}
