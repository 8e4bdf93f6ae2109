package management

import (
	"strconv"

	"qdrouter/config"
	"qdrouter/router"
)

var addressConfigColumns = columns[router.AddressConfig]{
	"name":           func(c *router.AddressConfig) any { return orNull(c.Name) },
	"identity":       func(c *router.AddressConfig) any { return strconv.FormatUint(c.ID, 10) },
	"type":           func(*router.AddressConfig) any { return longAddressConfig },
	"prefix":         func(c *router.AddressConfig) any { return orNull(c.Prefix) },
	"pattern":        func(c *router.AddressConfig) any { return orNull(c.Pattern) },
	"distribution":   func(c *router.AddressConfig) any { return c.Distribution.String() },
	"waypoint":       func(c *router.AddressConfig) any { return c.Waypoint() },
	"ingressPhase":   func(c *router.AddressConfig) any { return int32(c.IngressPhase) },
	"egressPhase":    func(c *router.AddressConfig) any { return int32(c.EgressPhase) },
	"priority":       func(c *router.AddressConfig) any { return int32(c.Priority) },
	"fallback":       func(c *router.AddressConfig) any { return c.Fallback },
	"enableFallback": func(c *router.AddressConfig) any { return c.Fallback },
}

func addressConfigRows(a *Agent, _ Asker) table {
	return &snapshot[router.AddressConfig]{a.core.AddressConfigs(), addressConfigColumns}
}

// createAddressConfig answers CREATE. The values go through the same conversion
// as those of a configuration file, and the router judges the result (MG 6.2, 7.5).
func createAddressConfig(a *Agent, k *kind, req *Request) (any, error) {
	body, err := req.bodyMap(true)
	if err != nil {
		return nil, err
	}
	// The core's name for the flag, which old clients send.
	if fallback, given := body["fallback"]; given {
		body["enableFallback"] = fallback
	}
	name := req.text("name")
	if name == "" {
		name = scalarText(body["name"])
	}
	// Unknown attributes are ignored (MG 4.3).
	attrs := map[string]any{}
	for key, value := range body {
		if attr := k.Attribute(key); attr != nil && attr.Create && key != "name" && key != "type" {
			attrs[key] = value
		}
	}
	c, err := a.normalize(k.EntityType, attrs)
	if err != nil {
		return nil, err
	}
	wanted, err := AddressConfig(c)
	if err != nil {
		return nil, err
	}
	wanted.Name = name
	made, err := a.core.AddAddressConfig(wanted)
	if err != nil {
		return nil, badRequest("%s", oneLine(err))
	}
	return columnMap(k, &snapshot[router.AddressConfig]{[]router.AddressConfig{made}, addressConfigColumns}, 0), nil
}

// AddressConfig translates a router.config.address, its name included. Without
// phases a waypoint has 0 and 1, any other address 0 and 0; one phase alone leaves
// the other at -1, which the router refuses (RT F15, MG 7.5). The error is an *Error.
func AddressConfig(e *config.Entity) (router.AddressConfig, error) {
	c := router.AddressConfig{
		Name:     e.Str("name"),
		Prefix:   e.Str("prefix"),
		Pattern:  e.Str("pattern"),
		Priority: -1,
		Fallback: e.Bool("enableFallback"),
	}
	distribution, ok := router.ParseDistribution(e.Str("distribution"))
	if !ok {
		return c, badRequest("Invalid distribution '%s'", e.Str("distribution"))
	}
	c.Distribution = distribution
	phase := func(name string) (int, error) {
		if !e.Has(name) {
			return -1, nil
		}
		n := e.Int(name)
		if n < 0 || n > 9 {
			return 0, badRequest("%s", router.ErrPhases)
		}
		return int(n), nil
	}
	if !e.Has("ingressPhase") && !e.Has("egressPhase") {
		if e.Bool("waypoint") {
			c.EgressPhase = 1
		}
	} else {
		var err error
		if c.IngressPhase, err = phase("ingressPhase"); err != nil {
			return c, err
		}
		if c.EgressPhase, err = phase("egressPhase"); err != nil {
			return c, err
		}
	}
	if e.Has("priority") {
		n := e.Int("priority")
		if n < -1 || n > 9 {
			return c, badRequest("%s", router.ErrPriority)
		}
		c.Priority = int(n)
	}
	if c.Fallback && (e.Bool("waypoint") || c.IngressPhase > 0 || c.EgressPhase > 0) {
		return c, badRequest("%s", router.ErrFallback)
	}
	return c, nil
}
