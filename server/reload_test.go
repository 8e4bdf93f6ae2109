package server

import (
	"net"
	"strings"
	"testing"

	"qdrouter/logging"
)

// CFG A27 and beyond: a new configuration opens, closes and re-tunes what it can.
func TestReload(t *testing.T) {
	listener := func(name string, more ...string) string {
		return section("listener", append([]string{"name: " + name, "host: 127.0.0.1", "port: 0"}, more...)...)
	}
	router := section("router", "mode: standalone", "id: r")
	// Two listeners of port 0 are one address to the configuration but for their names.
	r := start(t, router+listener("stays")+listener("goes"))
	stays, goes := r.Addr("stays"), r.Addr("goes")

	next := section("router", "mode: standalone", "id: other") + listener("stays") + listener("comes") +
		section("connector", "name: out", "host: 127.0.0.1", "port: "+port(stays)) +
		section("log", "module: AGENT", "enable: error+") +
		section("address", "prefix: multicast", "distribution: multicast")
	if err := r.Reload(parse(t, next)); err != nil {
		t.Fatal(err)
	}
	if a := r.Addr("stays"); a.String() != stays.String() {
		t.Errorf("the listener that is in both moved to %v", a)
	}
	if c, err := net.Dial("tcp", goes.String()); err == nil {
		c.Close()
		t.Error("the listener that is gone still takes connections")
	}
	if r.Addr("comes") == nil {
		t.Error("the new listener does not listen")
	}
	eventually(t, "the new connector is connected", func() bool {
		return r.ConnectorStatus("connector/127.0.0.1:"+port(stays)+":out").Status == statusSuccess
	})
	if r.logs.Enabled(logging.Agent, logging.Warning) {
		t.Error("AGENT still logs warnings")
	}
	if a := r.router.AddressConfigs(); len(a) != 1 || a[0].Prefix != "multicast" {
		t.Errorf("address configurations %+v", a)
	}
	r.logged("SERVER (warning) Not changed before a restart: router id")

	// One that cannot be started with is refused whole.
	cfg := parse(t, next+listener("more"))
	cfg.Of("listener")[0].Attrs["failoverUrls"] = "["
	if err := r.Reload(cfg); err == nil || !strings.Contains(err.Error(), "failover") {
		t.Errorf("error %v, want one about the failover list", err)
	}
	if r.Addr("more") != nil {
		t.Error("the refused configuration opened a listener")
	}

	// A level may go and with it the frames of PROTOCOL (CFG G6).
	if err := r.Reload(parse(t, router+listener("stays", "http: yes")+section("log", "module: PROTOCOL", "enable: trace+"))); err != nil {
		t.Fatal(err)
	}
	r.logged("SERVER (warning) Accepted but without effect in this version: listener http")
	if !r.logs.Enabled(logging.Protocol, logging.Trace) {
		t.Error("PROTOCOL does not trace")
	}
}

// port is the port of an address as text.
func port(a net.Addr) string {
	_, p, _ := net.SplitHostPort(a.String())
	return p
}
