package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A translator turns the sections of releases before 1.19 into those of 1.19
// (CFG B31). Names that 1.19 itself still knows are left to Normalize.
type translator struct {
	out      []*section
	warnings []string // for the log, module AGENT
	errors   []*syntaxError
}

func translate(sections []*section) *translator {
	t := &translator{}
	var containers []*section
	for _, s := range sections {
		if s.name == "container" {
			containers = append(containers, s)
			continue
		}
		t.section(s)
	}
	for _, s := range containers {
		t.container(s)
	}
	return t
}

func (t *translator) section(s *section) {
	switch s.name {
	case "router":
		t.rename(s, "routerId", "id")
		t.ignore(s, "mobileAddrMaxAge")
	case "listener":
		t.address(s)
		t.role(s)
		t.requirePeerAuth(s)
		t.allowUnsecured(s)
		t.ignore(s, "allowNoSasl")
		t.inlineProfile(s)
	case "connector":
		t.address(s)
		t.role(s)
		t.rename(s, "socketAddressFamily", "protocolFamily")
		t.inlineProfile(s)
	case "linkRoute", "autoLink":
		t.rename(s, "containerID", "containerId")
	case "policy":
		t.policy(s)
	case "log":
		if a := s.get("module"); a != nil && slices.Contains(goneModules, fmt.Sprint(a.value)) {
			t.warnf("Value '%v' of attribute 'module' of entity 'log' is no longer part of the schema; treated as a module without events", a.value)
			return
		}
	case "fixedAddress":
		s = t.fixedAddress(s)
	case "linkRoutePattern":
		t.linkRoutePattern(s)
		return
	case "waypoint":
		t.goneSection(s, "absent")
		return
	case "policyRuleset":
		t.errorf(s, s.line, "", "Entity 'policyRuleset' is no longer part of the schema; write a 'vhost', whose structure is different")
		return
	case "tcpListener", "tcpConnector", "httpListener", "httpConnector":
		t.errorf(s, s.line, "", "No such entity type '%s' (the TCP and HTTP adaptors of releases up to 1.18 are gone)", LongName(s.name))
		return
	}
	if s != nil {
		t.out = append(t.out, s)
	}
}

// goneModules are log modules of older releases.
var goneModules = []string{"CONFIG", "DISPATCH", "TCP_ADAPTOR", "HTTP_ADAPTOR"}

func (t *translator) warnf(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

func (t *translator) errorf(s *section, line int, attr, format string, args ...any) {
	t.errors = append(t.errors, &syntaxError{line: line, section: s.name, attr: attr, text: fmt.Sprintf(format, args...)})
}

func (t *translator) goneAttr(s *section, attr, as string) {
	t.warnf("Attribute '%s' of entity '%s' is no longer part of the schema; treated as %s", attr, s.name, as)
}

func (t *translator) goneSection(s *section, as string) {
	t.warnf("Entity '%s' is no longer part of the schema; treated as %s", s.name, as)
}

// rename gives the attribute its new name; having both is an error.
func (t *translator) rename(s *section, old, name string) {
	a := s.take(old)
	if a == nil || a.value == nil {
		return
	}
	t.goneAttr(s, old, "'"+name+"'")
	if s.get(name) != nil {
		t.errorf(s, a.line, old, "%s: Both '%s' and '%s' cannot be specified for entity '%s'", LongName(s.name), old, name, s.name)
		return
	}
	s.add(name, a.value, a.line)
}

func (t *translator) ignore(s *section, attr string) {
	if s.take(attr) != nil {
		t.goneAttr(s, attr, "absent")
	}
}

// boolean takes an attribute that is a boolean.
func (t *translator) boolean(s *section, attr string) (value, ok bool) {
	a := s.take(attr)
	if a == nil || a.value == nil {
		return false, false
	}
	value, msg := toBool(plain(a.value))
	if msg != "" {
		t.errorf(s, a.line, attr, "%s: %s", LongName(s.name), msg)
		return false, false
	}
	return value, true
}

// address translates addr to host. With both, the one that is not 127.0.0.1 counts.
func (t *translator) address(s *section) {
	a := s.take("addr")
	if a == nil || a.value == nil {
		return
	}
	t.goneAttr(s, "addr", "'host'")
	host := s.get("host")
	switch {
	case host == nil:
	case a.value == "127.0.0.1" || a.value == host.value:
		return
	case host.value != "127.0.0.1":
		t.errorf(s, a.line, "addr", "%s: 'addr' is '%v' but 'host' is '%v'", LongName(s.name), a.value, host.value)
		return
	}
	s.add("host", a.value, a.line)
}

func (t *translator) role(s *section) {
	for old, name := range map[string]string{"on-demand": "route-container", "edge-uplink": "edge"} {
		if a := s.get("role"); a != nil && a.value == old {
			t.warnf("Value '%s' of attribute 'role' of entity '%s' is no longer part of the schema; treated as '%s'", old, s.name, name)
			a.value = name
		}
	}
}

func (t *translator) requirePeerAuth(s *section) {
	value, ok := t.boolean(s, "requirePeerAuth")
	if !ok {
		return
	}
	t.goneAttr(s, "requirePeerAuth", "'authenticatePeer'")
	if value {
		s.add("authenticatePeer", true, s.line)
	}
}

func (t *translator) allowUnsecured(s *section) {
	value, ok := t.boolean(s, "allowUnsecured")
	if !ok {
		return
	}
	if value {
		t.goneAttr(s, "allowUnsecured", "absent")
		return
	}
	t.goneAttr(s, "allowUnsecured", "'requireEncryption: yes', with an sslProfile also 'requireSsl: yes'")
	s.add("requireEncryption", true, s.line)
	if s.get("sslProfile") != nil || slices.ContainsFunc(profileAttrs, func(a string) bool { return s.get(a) != nil }) {
		s.add("requireSsl", true, s.line)
	}
}

// profileAttrs are the attributes of an sslProfile that once stood in listeners and
// connectors.
var profileAttrs = []string{"certDb", "certFile", "keyFile", "password", "passwordFile", "uidFormat", "displayNameFile"}

// inlineProfile moves them to an sslProfile of their own.
func (t *translator) inlineProfile(s *section) {
	profile := &section{name: "sslProfile", line: s.line}
	for _, name := range profileAttrs {
		if a := s.take(name); a != nil {
			profile.attrs = append(profile.attrs, *a)
			if s.get("sslProfile") != nil {
				t.goneAttr(s, name, "absent, because there is an 'sslProfile'")
			} else {
				t.goneAttr(s, name, "an sslProfile of this "+s.name)
			}
		}
	}
	if len(profile.attrs) == 0 || s.get("sslProfile") != nil {
		return
	}
	name := s.name + "-of-line-" + strconv.Itoa(s.line)
	profile.add("name", name, s.line)
	s.add("sslProfile", name, s.line)
	t.out = append(t.out, profile)
}

// policy translates the attributes of releases up to 0.6.1.
func (t *translator) policy(s *section) {
	if a := s.get("maximumConnections"); a != nil {
		if n, msg := toInt(plain(a.value)); msg == "" && n == 0 {
			a.value = int64(math.MaxInt32) // 0 meant no limit
		}
	}
	t.rename(s, "maximumConnections", "maxConnections")
	t.rename(s, "policyFolder", "policyDir")
	t.rename(s, "enableAccessRules", "enableVhostPolicy")
	enabled, given := t.boolean(s, "defaultApplicationEnabled")
	if given {
		t.goneAttr(s, "defaultApplicationEnabled", "part of 'defaultVhost'")
	}
	if s.get("defaultApplication") != nil {
		t.rename(s, "defaultApplication", "defaultVhost")
		if a := s.get("defaultVhost"); !enabled && a != nil {
			a.value = ""
		}
	} else if given && !enabled && s.get("defaultVhost") == nil {
		s.add("defaultVhost", "", s.line)
	}
}

// containerAttrs are the attributes of a container section and what a router calls
// them.
var containerAttrs = map[string]string{
	"containerName":  "id",
	"workerThreads":  "workerThreads",
	"saslConfigPath": "saslConfigDir",
	"saslConfigName": "saslConfigName",
	"debugDump":      "debugDumpFile",
}

// container gives the router what it does not set itself.
func (t *translator) container(s *section) {
	t.goneSection(s, "attributes of 'router'")
	i := slices.IndexFunc(t.out, func(s *section) bool { return s.name == "router" })
	if i < 0 {
		i = len(t.out)
		t.out = append(t.out, &section{name: "router", line: s.line})
	}
	router := t.out[i]
	routerType := TypeByName("router")
	for _, a := range s.attrs {
		name, ok := containerAttrs[a.name]
		if !ok {
			t.errorf(s, a.line, a.name, "%s: Unknown attribute '%s' for '%s'", LongName(s.name), a.name, LongName(s.name))
			continue
		}
		old := routerType.Attribute(name).DeprecationName
		if router.get(name) == nil && (old == "" || router.get(old) == nil) {
			router.add(name, a.value, a.line)
		}
	}
}

// fixedAddress returns the address section in place of s, or nil.
func (t *translator) fixedAddress(s *section) *section {
	word := func(attr, absent string) string {
		if a := s.get(attr); a != nil && a.value != nil {
			return fmt.Sprint(a.value)
		}
		return absent
	}
	out := &section{name: "address", line: s.line}
	for _, a := range s.attrs {
		switch a.name {
		case "prefix", "name":
			out.attrs = append(out.attrs, a)
		case "phase", "fanout", "bias":
		default:
			t.errorf(s, a.line, a.name, "%s: Unknown attribute '%s' for '%s'", LongName(s.name), a.name, LongName(s.name))
		}
	}
	if s.get("phase") != nil || word("prefix", "") == "/" {
		t.goneSection(s, "absent, because it has a phase or is for all addresses")
		return nil
	}
	distribution := ""
	switch fanout, bias := word("fanout", "multiple"), word("bias", "closest"); {
	case fanout == "multiple":
		distribution = "multicast"
	case fanout == "single" && bias == "closest":
		distribution = "closest"
	case fanout == "single" && bias == "spread":
		distribution = "balanced"
	case fanout != "single":
		t.errorf(s, s.get("fanout").line, "fanout", "%s: Invalid value for enum['multiple', 'single']: %s", LongName(s.name), quote(fanout))
		return nil
	default:
		t.errorf(s, s.get("bias").line, "bias", "%s: Invalid value for enum['closest', 'spread']: %s", LongName(s.name), quote(bias))
		return nil
	}
	t.goneSection(s, fmt.Sprintf("'address' with distribution '%s'", distribution))
	out.add("distribution", distribution, s.line)
	return out
}

// linkRoutePattern adds a linkRoute for each direction.
func (t *translator) linkRoutePattern(s *section) {
	out := section{name: "linkRoute", line: s.line}
	directions := []string{"in", "out"}
	for _, a := range s.attrs {
		switch a.name {
		case "prefix", "name":
			out.attrs = append(out.attrs, a)
		case "connector":
			out.add("connection", a.value, a.line)
		case "dir":
			switch dir := strings.TrimSpace(fmt.Sprint(a.value)); dir {
			case "both":
			case "in", "out":
				directions = []string{dir}
			default:
				t.errorf(s, a.line, "dir", "%s: Invalid value for enum['in', 'out', 'both']: %s", LongName(s.name), quote(dir))
				return
			}
		default:
			t.errorf(s, a.line, a.name, "%s: Unknown attribute '%s' for '%s'", LongName(s.name), a.name, LongName(s.name))
		}
	}
	t.goneSection(s, "one 'linkRoute' for each direction")
	for _, dir := range directions {
		route := section{name: out.name, line: out.line, attrs: slices.Clone(out.attrs)}
		if name := route.get("name"); name != nil && len(directions) == 2 {
			name.value = fmt.Sprintf("%v-%s", name.value, dir) // names are unique
		}
		route.add("direction", dir, s.line)
		t.out = append(t.out, &route)
	}
}
