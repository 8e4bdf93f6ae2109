package server

import (
	"maps"
	"math"
	"slices"
	"time"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
	"qdrouter/security"
)

// defaultHandshake bounds how long a peer may take from the accepted connection
// to its open where initialHandshakeTimeoutSeconds does not (CFG L11).
const defaultHandshake = 60 * time.Second

// limits of what an entity may ask for (CFG 3.2).
const (
	minFrameSize = 512
	mostSessions = 32768
	mostCapacity = math.MaxInt32 // more credit than that is none to many clients
	mostCost     = math.MaxInt32 // it travels as an int (RT E2)
)

// hostPort is how an entity's address stands in log lines.
func hostPort(e *config.Entity) string { return e.Str("host") + ":" + e.Str("port") }

// connOptions translates what listeners and connectors have in common.
func connOptions(e *config.Entity) router.ConnOptions {
	role, _ := router.ParseRole(e.Str("role"))
	o := router.ConnOptions{
		Role:             role,
		Name:             e.Str("name"),
		MaxFrameSize:     max(clamp(e.Int("maxFrameSize")), minFrameSize),
		MaxSessions:      clamp(e.Int("maxSessions")),
		MaxSessionFrames: clamp(e.Int("maxSessionFrames")),
		IdleTimeout:      time.Duration(clamp(e.Int("idleTimeoutSeconds"))) * time.Second,
		LinkCapacity:     min(clamp(e.Int("linkCapacity")), mostCapacity),
		Cost:             min(max(clamp(e.Int("cost")), 1), mostCost),
		OpenProperties:   openProperties(e.Map("openProperties")),
		MessageLog:       e.Str("messageLoggingComponents"),
		Protocol:         "amqp",
	}
	if o.MaxSessions == 0 || o.MaxSessions > mostSessions {
		o.MaxSessions = mostSessions
	}
	if role != router.RoleInterRouter && role != router.RoleEdge {
		strip := e.Str("stripAnnotations")
		o.StripIn = strip == "in" || strip == "both"
		o.StripOut = strip == "out" || strip == "both"
	}
	return o
}

// listenerOptions are those of the connections that a listener takes.
func listenerOptions(e *config.Entity) (router.ConnOptions, error) {
	o := connOptions(e)
	o.Incoming = true
	o.Listener = hostPort(e)
	o.MultiTenant = e.Bool("multiTenant")
	failover, err := failoverList(e.Str("failoverUrls"))
	o.Failover = failover
	return o, err
}

// handshakeTimeout is the time a peer has from the accepted connection to its
// open (CFG L11, L13).
func handshakeTimeout(e *config.Entity) time.Duration {
	if s := e.Int("initialHandshakeTimeoutSeconds"); s > 0 {
		return time.Duration(clamp(s)) * time.Second
	}
	return defaultHandshake
}

func listenerSecurity(e *config.Entity) security.ListenerSettings {
	return security.ListenerSettings{
		SASLMechanisms:    e.Str("saslMechanisms"),
		AuthenticatePeer:  e.Bool("authenticatePeer"),
		RequireEncryption: e.Bool("requireEncryption"),
		RequireSSL:        e.Bool("requireSsl"),
		SSLProfile:        e.Str("sslProfile"),
		SASLPlugin:        e.Str("saslPlugin"),
	}
}

// isHTTP tells a listener of HTTP from one of AMQP (CFG 3.2).
func isHTTP(e *config.Entity) bool { return e.Bool("http") || e.Str("httpRootDir") != "" }

// unavailable says what the role needs that this version has not; "" if nothing.
func unavailable(role string) string {
	switch role {
	case "edge":
		return "connections of role " + role + " are not supported by this version"
	}
	return ""
}

// listenerRefusal says why a listener must refuse every connection; "" if it
// need not.
func listenerRefusal(e *config.Entity, sasl *security.SASL) string {
	if isHTTP(e) {
		return "HTTP is not supported by this version"
	}
	if why := unavailable(e.Str("role")); why != "" {
		return why
	}
	return sasl.Refusal(listenerSecurity(e))
}

// connectorRefusal says why a connector must not connect; "" if it may.
func connectorRefusal(e *config.Entity) string {
	if why := unavailable(e.Str("role")); why != "" {
		return why
	}
	if p := e.Str("sslProfile"); p != "" {
		return "TLS (sslProfile " + p + ") is not supported by this version"
	}
	return ""
}

// openProperties turns the JSON values of openProperties into AMQP ones, the
// keys as symbols in order (CFG L8).
func openProperties(props map[string]any) amqp.Map {
	var m amqp.Map
	for _, key := range slices.Sorted(maps.Keys(props)) {
		m = append(m, amqp.MapEntry{Key: amqp.Symbol(key), Value: fromJSON(props[key])})
	}
	return m
}

func fromJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := amqp.Map{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m = append(m, amqp.MapEntry{Key: key, Value: fromJSON(v[key])})
		}
		return m
	case []any:
		list := amqp.List{}
		for _, item := range v {
			list = append(list, fromJSON(item))
		}
		return list
	case int64:
		if v >= math.MinInt32 && v <= math.MaxInt32 {
			return int32(v)
		}
		return v
	default: // string, float64, bool, nil
		return v
	}
}

// clamp fits an integer attribute, which is never negative, into 32 bits.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
