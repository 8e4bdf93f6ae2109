package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"qdrouter/amqp"
	"qdrouter/config"
)

// Keys of the open properties that tell a client where else to go (CFG L8, L15).
const (
	keyFailoverList = "failover-server-list"
	keyNetworkHost  = "network-host"
	keyPort         = "port"
	keyScheme       = "scheme"
	keyHostname     = "hostname"
)

// Of a target that does not name them.
const (
	defaultScheme = "amqp"
	defaultPort   = "5672"
)

// A target is one place that a connector may connect to.
type target struct {
	scheme string // shown only: the connector's sslProfile decides about TLS (CFG L15)
	host   string
	port   string
}

func (t target) hostPort() string { return t.host + ":" + t.port }

func (t target) url() string { return t.scheme + "://" + t.hostPort() }

// Delays before the next attempt of a connector (CFG L14).
const (
	delayNotOpened = 5 * time.Second // the last attempt got no open from the peer
	delayOpened    = 2 * time.Second // it got one
	delayFailover  = time.Second     // there is more than one target
)

// triesPerTarget is how often a target fails in a row before the next one is
// tried (CFG L15).
const triesPerTarget = 2

// failover decides where a connector connects next, and when (CFG L14, L15). It
// has no clock and no lock. The first target is the configured one and stays.
type failover struct {
	targets []target
	next    int   // index of the target of this attempt, or of the next one
	failed  []int // failures in a row of each target
	opened  bool  // the peer's open came in this attempt
}

func newFailover(configured target) *failover {
	return &failover{targets: []target{configured}, failed: []int{0}}
}

// target is where this attempt goes.
func (f *failover) target() target { return f.targets[f.next] }

// start begins an attempt.
func (f *failover) start() target {
	f.opened = false
	return f.target()
}

// open takes in the peer's open. A peer that sends a list, even an empty one,
// replaces all targets but the first and the present one; one that sends none
// changes nothing.
func (f *failover) open(list []target, sent bool) {
	f.opened = true
	f.failed[f.next] = 0
	if !sent {
		return
	}
	keep := []target{f.targets[0]}
	if f.next > 0 {
		keep = append(keep, f.target())
		f.next = 1
	}
	for _, t := range list {
		same := func(have target) bool { return have.hostPort() == t.hostPort() }
		if !slices.ContainsFunc(keep, same) {
			keep = append(keep, t)
		}
	}
	f.targets, f.failed = keep, make([]int, len(keep))
}

// end takes in the end of an attempt and returns how long to wait before the
// next. A connection that the peer closed in an orderly way has not failed.
func (f *failover) end(failed bool) time.Duration {
	if failed {
		f.failed[f.next]++
		if f.failed[f.next] == triesPerTarget {
			f.failed[f.next] = 0
			f.next = (f.next + 1) % len(f.targets)
		}
	}
	switch {
	case len(f.targets) > 1:
		return delayFailover
	case f.opened:
		return delayOpened
	default:
		return delayNotOpened
	}
}

// urls lists the targets, the next one to try first, as management shows them
// (CFG 3.3).
func (f *failover) urls() string {
	urls := make([]string, len(f.targets))
	for i := range urls {
		urls[i] = f.targets[(f.next+i)%len(f.targets)].url()
	}
	return strings.Join(urls, ", ")
}

// readFailoverList finds the failover list in the properties of a peer's open.
// Entries without a host are left out, and whatever is no list counts as none.
func readFailoverList(properties amqp.Raw) (list []target, sent bool) {
	v, err := properties.Value()
	if err != nil {
		return nil, false
	}
	props, _ := v.(amqp.Map)
	v, _ = props.Get(keyFailoverList)
	items, ok := v.(amqp.List)
	if !ok {
		return nil, false
	}
	for _, item := range items {
		m, _ := item.(amqp.Map)
		t := target{scheme: text(m, keyScheme), host: text(m, keyNetworkHost), port: text(m, keyPort)}
		if t.host == "" {
			continue
		}
		if t.scheme == "" {
			t.scheme = defaultScheme
		}
		if t.port == "" {
			t.port = defaultPort
		}
		list = append(list, t)
	}
	return list, true
}

// text is the string or whole number under key, "" for anything else.
func text(m amqp.Map, key string) string {
	v, _ := m.Get(key)
	switch v := v.(type) {
	case string:
		return v
	case amqp.Symbol:
		return string(v)
	case uint8, uint16, uint32, uint64, int8, int16, int32, int64:
		return fmt.Sprint(v)
	}
	return ""
}

// failoverList is a listener's failoverUrls as clients are sent them (CFG L16).
func failoverList(urls string) (amqp.List, error) {
	if strings.TrimSpace(urls) == "" {
		return nil, nil
	}
	parsed, err := config.ParseFailoverURLs(urls)
	if err != nil {
		return nil, fmt.Errorf("Unable to create listener, bad failover list: %w", err) //lint:ignore ST1005 text of 1.19
	}
	var list amqp.List
	for _, u := range parsed {
		m := amqp.Map{
			{Key: amqp.Symbol(keyNetworkHost), Value: u.Host},
			{Key: amqp.Symbol(keyPort), Value: u.Port},
		}
		if u.Scheme != "" {
			m = append(m, amqp.MapEntry{Key: amqp.Symbol(keyScheme), Value: u.Scheme})
		}
		list = append(list, m)
	}
	return list, nil
}
