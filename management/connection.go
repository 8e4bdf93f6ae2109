package management

import (
	"errors"
	"strconv"

	"qdrouter/amqp"
	"qdrouter/router"
)

var connectionColumns = columns[router.ConnectionInfo]{
	"name":                func(c *router.ConnectionInfo) any { return "connection/" + c.Host },
	"identity":            func(c *router.ConnectionInfo) any { return strconv.FormatUint(c.ID, 10) },
	"type":                func(*router.ConnectionInfo) any { return longConnection },
	"host":                func(c *router.ConnectionInfo) any { return c.Host },
	"role":                func(c *router.ConnectionInfo) any { return c.Role.String() },
	"protocol":            func(*router.ConnectionInfo) any { return "amqp" },
	"dir":                 func(c *router.ConnectionInfo) any { return direction(c.Incoming) },
	"container":           func(c *router.ConnectionInfo) any { return orNull(c.Container) },
	"sasl":                func(c *router.ConnectionInfo) any { return orNull(c.SASL) },
	"isAuthenticated":     func(c *router.ConnectionInfo) any { return c.Authenticated },
	"user":                func(c *router.ConnectionInfo) any { return orNull(c.User) },
	"isEncrypted":         func(c *router.ConnectionInfo) any { return c.Encrypted },
	"ssl":                 func(c *router.ConnectionInfo) any { return c.SSLProto != "" },
	"sslProto":            func(c *router.ConnectionInfo) any { return orNull(c.SSLProto) },
	"sslCipher":           func(c *router.ConnectionInfo) any { return orNull(c.SSLCipher) },
	"sslSsf":              func(c *router.ConnectionInfo) any { return int64(c.SSLSsf) },
	"properties":          func(c *router.ConnectionInfo) any { return openProperties(c.Properties) },
	"tenant":              func(c *router.ConnectionInfo) any { return orNull(c.Tenant) },
	"opened":              func(c *router.ConnectionInfo) any { return c.Opened },
	"active":              func(c *router.ConnectionInfo) any { return c.Active },
	"adminStatus":         func(c *router.ConnectionInfo) any { return either(c.Closing, "deleted", "enabled") },
	"operStatus":          func(c *router.ConnectionInfo) any { return either(c.Closing, "closing", "up") },
	"uptimeSeconds":       func(c *router.ConnectionInfo) any { return c.UptimeSeconds },
	"enableProtocolTrace": func(c *router.ConnectionInfo) any { return c.Trace },
	"lastDlvSeconds": func(c *router.ConnectionInfo) any {
		if c.LastDelivery < 0 {
			return nil // none yet (RT S6)
		}
		return uint32(c.LastDelivery)
	},
}

func direction(incoming bool) string { return either(incoming, "in", "out") }

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// openProperties shows the peer's open properties with string keys and symbols
// as strings; other values pass through as they are (MG 7.10).
func openProperties(m amqp.Map) amqp.Map {
	shown := make(amqp.Map, 0, len(m))
	for _, e := range m {
		key, ok := keyText(e.Key)
		if !ok {
			continue // not allowed in open properties: keys are symbols
		}
		value := e.Value
		if symbol, ok := value.(amqp.Symbol); ok {
			value = string(symbol)
		}
		shown = append(shown, amqp.MapEntry{Key: key, Value: value})
	}
	return shown
}

func connectionRows(a *Agent, _ Asker) table {
	return &snapshot[router.ConnectionInfo]{a.core.Connections(), connectionColumns}
}

// readConnection answers READ: a name is no way to find a connection (MG 4.1).
func readConnection(a *Agent, k *kind, req *Request) (any, error) {
	if !req.has("identity") {
		return nil, badRequest("Name not supported. Identity required")
	}
	return coreRead(a, k, req)
}

// updateConnection answers UPDATE of a connection: switch its frame trace, or cut
// it (MG 7.10).
func updateConnection(a *Agent, k *kind, req *Request) (any, error) {
	body, isMap := req.Body.(amqp.Map)
	admin, hasAdmin := body.Get("adminStatus")
	trace, hasTrace := body.Get("enableProtocolTrace")
	id, err := strconv.ParseUint(req.text("identity"), 10, 64)
	if !isMap || !hasAdmin && !hasTrace || err != nil {
		return nil, badRequest("Bad Request")
	}
	var found *router.ConnectionInfo
	for _, c := range a.core.Connections() {
		if c.ID == id {
			found = &c
			break
		}
	}
	if found == nil {
		return nil, badRequest("Bad Request")
	}
	if hasAdmin {
		switch scalarText(admin) {
		case "enabled": // as it is
		case "deleted":
			if err := a.core.KillConnection(id, req.From.Connection); err != nil {
				return nil, coreError(err)
			}
			found.Closing = true
		default:
			return nil, badRequest("Bad Request")
		}
	}
	if hasTrace {
		on, _ := trace.(bool) // anything but a boolean reads as false
		if err := a.core.SetTrace(id, on); err != nil && !found.Closing {
			return nil, coreError(err)
		}
		found.Trace = on
	}
	return columnMap(k, &snapshot[router.ConnectionInfo]{[]router.ConnectionInfo{*found}, connectionColumns}, 0), nil
}

// coreError gives the reply for a refusal by the router.
func coreError(err error) *Error {
	switch {
	case errors.Is(err, router.ErrNotFound):
		return notFound("Not Found")
	case errors.Is(err, router.ErrForbidden):
		return errForbidden
	}
	return badRequest("%s", oneLine(err))
}
