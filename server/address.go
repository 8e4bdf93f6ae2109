package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Families of socketAddressFamily and protocolFamily.
const (
	familyIPv4 = "IPv4"
	familyIPv6 = "IPv6"
)

// wellKnownPorts are the service names of AMQP, which not every system's
// services database has (CFG 3.2).
var wellKnownPorts = map[string]uint16{"amqp": 5672, "amqps": 5671}

// lookupPort turns the port of a listener or connector into its number.
func lookupPort(port string) (uint16, error) {
	if n, ok := wellKnownPorts[port]; ok {
		return n, nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		return uint16(n), nil
	}
	n, err := net.LookupPort("tcp", port)
	return uint16(n), err
}

// A place to bind: the network tells IPv4 from IPv6, and a socket of tcp6 never
// takes IPv4 (CFG L5).
type bindAddr struct {
	network string // tcp4 or tcp6
	ip      netip.Addr
}

// bindAddrs are the addresses that the host of a listener stands for (CFG L5):
// every one of both families for none, or what a name resolves to.
func bindAddrs(ctx context.Context, host, family string) ([]bindAddr, error) {
	var ips []netip.Addr
	if host == "" {
		ips = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	} else if ip, err := netip.ParseAddr(trimBrackets(host)); err == nil {
		ips = []netip.Addr{ip}
	} else if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	var addrs []bindAddr
	seen := make(map[netip.Addr]bool)
	for _, ip := range ips {
		ip = ip.Unmap()
		a := bindAddr{"tcp4", ip}
		if ip.Is6() {
			a.network = "tcp6"
		}
		if seen[ip] || family == familyIPv4 && !ip.Is4() || family == familyIPv6 && !ip.Is6() {
			continue
		}
		seen[ip] = true
		addrs = append(addrs, a)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("no %s address of %s", family, host)
	}
	return addrs, nil
}

func trimBrackets(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		return strings.TrimSuffix(inner, "]")
	}
	return host
}

// bind opens the sockets of a listener, all on one port. A family that this
// machine does not have is left out as long as another address can be bound.
// On an error no socket stays open.
//
// The backlog is the system's, not the 50 of 1.19 (CFG L7): a burst of clients
// need not wait for a second SYN. Go sets SO_REUSEADDR and TCP_NODELAY. keepAlive has
// TCP look after peers that fall silent.
func bind(ctx context.Context, host, port, family string, keepAlive bool) ([]net.Listener, error) {
	number, err := lookupPort(port)
	if err != nil {
		return nil, err
	}
	addrs, err := bindAddrs(ctx, host, family)
	if err != nil {
		return nil, err
	}
	var sockets []net.Listener
	var missing error
	var lc net.ListenConfig
	if !keepAlive {
		lc.KeepAlive = -1
	}
	for _, a := range addrs {
		ln, err := lc.Listen(ctx, a.network, netip.AddrPortFrom(a.ip, number).String())
		switch {
		case errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL):
			missing = err
		case err != nil:
			for _, ln := range sockets {
				ln.Close()
			}
			return nil, err
		default:
			sockets = append(sockets, ln)
			number = numericAddr(ln.Addr()).Port()
		}
	}
	if len(sockets) == 0 {
		return nil, missing
	}
	return sockets, nil
}

// numericAddr is the address and port of one end of a TCP connection.
func numericAddr(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		ap := tcp.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// showAddr is the form of an address in logs and management: ip:port, IPv6
// without brackets (CFG L18).
func showAddr(a net.Addr) string {
	ap := numericAddr(a)
	return fmt.Sprintf("%s:%d", ap.Addr(), ap.Port())
}

// reason is the innermost text of a network error, as the system says it:
// "Address already in use".
func reason(err error) string {
	text := err.Error()
	var errno syscall.Errno
	var dns *net.DNSError
	switch {
	case errors.As(err, &errno):
		text = errno.Error()
	case errors.As(err, &dns):
		text = dns.Err
		if dns.IsNotFound {
			text = "Name or service not known"
		}
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
