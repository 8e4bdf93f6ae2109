package client

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Schemes of a URL.
const (
	SchemeAMQP  = "amqp"
	SchemeAMQPS = "amqps" // TLS from the first byte
)

// A URL says where a router is and, if it has an address, which agent to ask.
type URL struct {
	Scheme   string // SchemeAMQP or SchemeAMQPS
	User     string // decoded
	Password string // decoded
	Host     string // without brackets
	Port     string // a number
	Address  string // "" when the URL has no path
}

// ParseURL reads [scheme://][user[:password]@][host][:port][/address] and fills
// in what is missing (MG 11.2).
func ParseURL(text string) (URL, error) {
	u := URL{Scheme: SchemeAMQP, Host: "0.0.0.0"}
	rest := strings.TrimPrefix(text, "//")
	if scheme, after, ok := strings.Cut(text, "://"); ok && !strings.Contains(scheme, "/") {
		u.Scheme = strings.ToLower(scheme)
		rest = after
	}
	if u.Scheme != SchemeAMQP && u.Scheme != SchemeAMQPS {
		return URL{}, Failf(badValue, "unknown scheme %q in URL", u.Scheme)
	}
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i+1:]
	}
	u.Address = path

	hostPort := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		hostPort = authority[i+1:]
		user, password, _ := strings.Cut(authority[:i], ":")
		var err error
		if u.User, err = url.PathUnescape(user); err != nil {
			return URL{}, Failf(badValue, "user in URL: %w", err)
		}
		if u.Password, err = url.PathUnescape(password); err != nil {
			return URL{}, Failf(badValue, "password in URL: %w", err)
		}
	}

	host, port, err := splitHostPort(hostPort)
	if err != nil {
		return URL{}, err
	}
	if host != "" {
		u.Host = strings.ToLower(host)
	}
	if port == "" {
		port = u.Scheme
	}
	u.Port, err = portNumber(port)
	return u, err
}

// splitHostPort takes a host, a host in brackets or neither, and a port or none.
func splitHostPort(text string) (host, port string, err error) {
	after := text
	if strings.HasPrefix(text, "[") {
		var ok bool
		if host, after, ok = strings.Cut(text[1:], "]"); !ok {
			return "", "", Failf(badValue, "missing ] in host %q", text)
		}
		if after != "" && after[0] != ':' {
			return "", "", Failf(badValue, "%q after the host", after)
		}
		return host, strings.TrimPrefix(after, ":"), nil
	}
	host, port, _ = strings.Cut(text, ":")
	if strings.Contains(port, ":") {
		return "", "", Failf(badValue, "IPv6 address %q needs brackets", text)
	}
	return host, port, nil
}

// portNumber resolves a number or the name of a service.
func portNumber(text string) (string, error) {
	switch text {
	// Not every machine's table of services has these.
	case SchemeAMQP:
		return "5672", nil
	case SchemeAMQPS:
		return "5671", nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		if n < 0 || n > 65535 {
			return "", Failf(badValue, "port %d is out of range", n)
		}
		return strconv.Itoa(n), nil
	}
	n, err := net.LookupPort("tcp", text)
	if err != nil {
		return "", Failf(badValue, "Not a valid port number or service name: '%s'", text)
	}
	return strconv.Itoa(n), nil
}

// HostPort is the address to dial.
func (u URL) HostPort() string { return net.JoinHostPort(u.Host, u.Port) }

// String gives the URL without user and password, as it stands in messages.
func (u URL) String() string {
	text := u.Scheme + "://" + u.HostPort()
	if u.Address != "" {
		text += "/" + u.Address
	}
	return text
}

// AgentAddress is the address of the agent to ask: the URL's own, else that of
// the router or edge router of that id, else that of whichever router answers
// (MG 11.3).
func (u URL) AgentAddress(router, edgeRouter string) string {
	switch {
	case u.Address != "":
		return u.Address
	case router != "":
		return "_topo/0/" + router + "/$management"
	case edgeRouter != "":
		return "_edge/" + edgeRouter + "/$management"
	}
	return "$management"
}
