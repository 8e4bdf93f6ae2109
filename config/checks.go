package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// least gives the smallest legal value of integer attributes (CFG B24). Absent ones
// are unlimited, or judged elsewhere: phases and priorities (CFG D1 to D5), vhost
// limits (CFG 7.1).
var least = map[string]map[string]int64{
	"router": {
		"helloIntervalSeconds":  1,
		"helloMaxAgeSeconds":    1,
		"raIntervalSeconds":     1,
		"raIntervalFluxSeconds": 1,
		"remoteLsMaxAgeSeconds": 1,
		"workerThreads":         1,
	},
	"listener": {
		"cost":                           1,
		"maxFrameSize":                   0,
		"maxSessions":                    0,
		"maxSessionFrames":               0,
		"idleTimeoutSeconds":             0,
		"initialHandshakeTimeoutSeconds": 0,
		"linkCapacity":                   0,
	},
	"connector": {
		"cost":               1,
		"maxFrameSize":       0,
		"maxSessions":        0,
		"maxSessionFrames":   0,
		"idleTimeoutSeconds": 0,
		"linkCapacity":       0,
	},
	"console": {"wsport": 0},
	"policy":  {"maxMessageSize": 0},
}

// maxPort is the largest TCP port.
const maxPort = 65535

// sane returns why a value makes no sense, or "" (CFG B24, L6).
func sane(t *EntityType, name string, value any) string {
	if n, ok := value.(int64); ok {
		if low, ok := least[t.Name][name]; ok && n < low {
			return fmt.Sprintf("Invalid value for '%s': %d is below the minimum %d", name, n, low)
		}
	}
	if name == "port" || name == "wsport" {
		if n, msg := toInt(value); msg == "" && (n < 0 || n > maxPort) {
			return fmt.Sprintf("Invalid value for '%s': %d is not between 0 and %d", name, n, maxPort)
		}
	}
	return ""
}

// checkEntity checks what concerns several attributes of one entity or the inside of
// one. The errors are *AttrError.
func checkEntity(e *Entity) []error {
	switch e.Type.Name {
	case "router":
		return checkRouterID(e)
	case "listener":
		return append(checkOpenProperties(e), checkFailoverURLs(e)...)
	case "connector":
		return checkOpenProperties(e)
	case "policy":
		if e.Int("maxConnections") < 0 {
			return []error{&AttrError{Type: e.Type, Attr: "maxConnections", Kind: "CError",
				Msg: "Configuration: maxConnections must be >= 0"}}
		}
	case "sslProfile":
		if n := len(e.Str("uidFormat")); n > maxUIDFormat {
			return []error{attrErrorf(e.Type, "uidFormat", "Invalid value for 'uidFormat': %d letters, at most %d are allowed", n, maxUIDFormat)}
		}
	}
	return nil
}

// maxUIDFormat is the greatest number of letters of a uidFormat (CFG S15).
const maxUIDFormat = 7

// reservedProperties may not be among the openProperties, nor may keys with these
// prefixes (CFG L8).
var (
	reservedProperties = []string{"product", "version", "failover-server-list", "network-host", "port"}
	reservedPrefixes   = []string{"qd.", "x-opt-qd."}
)

func checkOpenProperties(e *Entity) []error {
	properties := e.Map("openProperties")
	if len(properties) == 0 {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &AttrError{Type: e.Type, Attr: "openProperties", Kind: "ValidationError", Msg: fmt.Sprintf(format, args...)}
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(reservedProperties, key) ||
			slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			errs = append(errs, refuse("Reserved key '%s' not allowed in openProperties", key))
		}
	}
	if role := e.Str("role"); role == "inter-router" || role == "edge" {
		errs = append(errs, refuse("openProperties not allowed for role %s", role))
	}
	return errs
}

// A FailoverURL is one item of a listener's failoverUrls.
type FailoverURL struct {
	Scheme string // "" when there is none
	Host   string
	Port   string // number or service name
}

// ParseFailoverURLs reads a list of [scheme://]host[:port] (CFG L16). White space
// anywhere is ignored, the default of the port is 5672, and an IPv6 address may
// stand in brackets, which are dropped.
func ParseFailoverURLs(list string) ([]FailoverURL, error) {
	list = strings.Join(strings.Fields(list), "")
	var urls []FailoverURL
	for item := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		u := FailoverURL{Port: "5672"}
		scheme, rest, ok := strings.Cut(item, "://")
		if ok {
			u.Scheme = scheme
		} else {
			rest = item
		}
		if inner, bracket := strings.CutPrefix(rest, "["); bracket {
			if u.Host, rest, ok = strings.Cut(inner, "]"); !ok {
				return nil, fmt.Errorf("no ] in failover item %q", item)
			}
		} else {
			u.Host, rest, ok = strings.Cut(rest, ":")
			if ok {
				rest = ":" + rest
			}
		}
		if u.Host == "" {
			return nil, fmt.Errorf("no network host in failover item %q", item)
		}
		if port, ok := strings.CutPrefix(rest, ":"); ok {
			u.Port = port
		} else if rest != "" {
			return nil, fmt.Errorf("%q behind the address in failover item %q", rest, item)
		}
		urls = append(urls, u)
	}
	return urls, nil
}

func checkFailoverURLs(e *Entity) []error {
	if e.Str("failoverUrls") == "" {
		return nil
	}
	if _, err := ParseFailoverURLs(e.Str("failoverUrls")); err != nil {
		return []error{&AttrError{Type: e.Type, Attr: "failoverUrls", Kind: "CError",
			Msg: "Unable to create listener, bad failover list: " + err.Error()}}
	}
	return nil
}
