package config

import (
	"strings"
	"testing"
)

// attrGone is the warning for an attribute of older releases (CFG B31).
func attrGone(section, attr, as string) string {
	return "AGENT (warning) Attribute '" + attr + "' of entity '" + section + "' is no longer part of the schema; treated as " + as
}

func sectionGone(section, as string) string {
	return "AGENT (warning) Entity '" + section + "' is no longer part of the schema; treated as " + as
}

// The names 1.19 itself accepts, with its warning (CFG B30).
func TestDeprecatedNames(t *testing.T) {
	renames := map[string]string{ // section to old=new
		"router":            "helloInterval=helloIntervalSeconds helloMaxAge=helloMaxAgeSeconds raInterval=raIntervalSeconds raIntervalFlux=raIntervalFluxSeconds remoteLsMaxAge=remoteLsMaxAgeSeconds debugDump=debugDumpFile saslConfigPath=saslConfigDir",
		"sslProfile":        "certDb=caCertFile keyFile=privateKeyFile displayNameFile=uidNameMappingFile",
		"authServicePlugin": "saslInitHostname=realm authSslProfile=sslProfile",
		"listener":          "protocolFamily=socketAddressFamily trustedCerts=trustedCertsFile failoverList=failoverUrls httpRoot=httpRootDir logMessage=messageLoggingComponents",
		"connector":         "verifyHostName=verifyHostname logMessage=messageLoggingComponents",
		"log":               "timestamp=includeTimestamp source=includeSource output=outputFile",
		"linkRoute":         "dir=direction",
		"autoLink":          "addr=address dir=direction externalAddr=externalAddress",
		"vhost":             "id=hostname",
	}
	// values that fit each attribute; "1" fits the others
	values := map[string]string{"protocolFamily": "IPv6", "verifyHostName": "no", "timestamp": "no", "source": "yes", "dir": "out"}
	for section, list := range renames {
		et := typeBySection(section)
		for pair := range strings.FieldsSeq(list) {
			old, name, _ := strings.Cut(pair, "=")
			value := values[old]
			if value == "" {
				value = "1"
			}
			e, warnings, err := Normalize(et, map[string]any{old: value})
			wantWarning := "Attribute '" + old + "' of entity '" + section + "' has been deprecated. Use '" + name + "' instead"
			if len(warnings) != 1 || warnings[0] != wantWarning {
				t.Errorf("%s.%s: warnings = %q, want %q", section, old, warnings, wantWarning)
			}
			if !e.Given[name] || e.Has(old) {
				t.Errorf("%s.%s: attributes = %v, want %s (%v)", section, old, e.Attrs, name, err)
			}

			_, _, err = Normalize(et, map[string]any{old: value, name: value})
			wantErr := et.LongName + ": Both '" + old + "' and '" + name + "' cannot be specified for entity '" + section + "'"
			if err == nil || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("%s with %s and %s: error = %v, want %s", section, old, name, err, wantErr)
			}
		}
	}
}

// Names of releases before 1.19 that 1.19 refuses (CFG B31).
func TestOldNames(t *testing.T) {
	listener := func(attrs string) string { return "listener {\n" + strings.ReplaceAll(attrs, ", ", "\n") + "\n}" }
	connector := func(attrs string) string { return "connector {\n" + strings.ReplaceAll(attrs, ", ", "\n") + "\n}" }
	for _, tt := range []fileTest{
		{name: "addr", file: listener("addr: 0.0.0.0, port: 1"), want: "listener(host=0.0.0.0 port=1)",
			warnings: []string{attrGone("listener", "addr", "'host'")}},
		{name: "addr differs from the loopback", file: connector("addr: 10.0.0.1, host: 127.0.0.1"), want: "connector(host=10.0.0.1)",
			warnings: []string{attrGone("connector", "addr", "'host'")}},
		{name: "host differs from the loopback", file: connector("addr: 127.0.0.1, host: 10.0.0.1"), want: "connector(host=10.0.0.1)",
			warnings: []string{attrGone("connector", "addr", "'host'")}},
		{name: "addr and host disagree", file: connector("addr: 10.0.0.2, host: 10.0.0.1"),
			problems: []string{"2 connector.addr: ~connector: 'addr' is '10.0.0.2' but 'host' is '10.0.0.1'"},
			warnings: []string{attrGone("connector", "addr", "'host'")}},
		{name: "containerID", file: "linkRoute {\n prefix: a\n direction: in\n containerID: c\n}\nautoLink {\n address: a\n direction: in\n containerID: c\n}",
			want:     "linkRoute(containerId=c direction=in prefix=a) autoLink(address=a containerId=c direction=in)",
			warnings: []string{attrGone("linkRoute", "containerID", "'containerId'"), attrGone("autoLink", "containerID", "'containerId'")}},
		{name: "connector socketAddressFamily", file: connector("socketAddressFamily: IPv4"), want: "connector(protocolFamily=IPv4)",
			warnings: []string{attrGone("connector", "socketAddressFamily", "'protocolFamily'")}},
		{name: "requirePeerAuth: yes", file: listener("requirePeerAuth: yes, authenticatePeer: no"), want: "listener(authenticatePeer=true)",
			warnings: []string{attrGone("listener", "requirePeerAuth", "'authenticatePeer'")}},
		{name: "requirePeerAuth: no", file: listener("requirePeerAuth: no, authenticatePeer: yes"), want: "listener(authenticatePeer=true)",
			warnings: []string{attrGone("listener", "requirePeerAuth", "'authenticatePeer'")}},
		{name: "requirePeerAuth is no boolean", file: listener("requirePeerAuth: maybe"),
			problems: []string{"2 listener.requirePeerAuth: ~listener: Invalid Boolean value ''maybe''"}},
		{name: "allowUnsecured: no", file: listener("allowUnsecured: no, requireEncryption: no"), want: "listener(requireEncryption=true)",
			warnings: []string{attrGone("listener", "allowUnsecured", "'requireEncryption: yes', with an sslProfile also 'requireSsl: yes'")}},
		{name: "allowUnsecured: no with TLS", file: "sslProfile {\n name: p\n}\n" + listener("allowUnsecured: no, sslProfile: p"),
			want:     "sslProfile(name=p) listener(requireEncryption=true requireSsl=true sslProfile=p)",
			warnings: []string{attrGone("listener", "allowUnsecured", "'requireEncryption: yes', with an sslProfile also 'requireSsl: yes'")}},
		{name: "allowUnsecured: yes", file: listener("allowUnsecured: yes"), want: "listener()", warnings: []string{attrGone("listener", "allowUnsecured", "absent")}},
		{name: "allowNoSasl", file: listener("allowNoSasl: yes"), want: "listener()", warnings: []string{attrGone("listener", "allowNoSasl", "absent")}},
		{name: "TLS in the listener", file: listener("certFile: c, keyFile: k, port: 1"),
			want: "sslProfile(certFile=c name=listener-of-line-1 privateKeyFile=k) listener(port=1 sslProfile=listener-of-line-1)",
			warnings: []string{attrGone("listener", "certFile", "an sslProfile of this listener"), attrGone("listener", "keyFile", "an sslProfile of this listener"),
				"AGENT (warning) Attribute 'keyFile' of entity 'sslProfile' has been deprecated. Use 'privateKeyFile' instead"}},
		{name: "TLS in the connector that has a profile", file: "sslProfile {\n name: p\n}\n" + connector("certDb: d, sslProfile: p"),
			want: "sslProfile(name=p) connector(sslProfile=p)", warnings: []string{attrGone("connector", "certDb", "absent, because there is an 'sslProfile'")}},
		{name: "routerId and mobileAddrMaxAge", file: "router {\n router-id: A\n mobileAddrMaxAge: 60\n}", want: "router(id=A)",
			warnings: []string{attrGone("router", "routerId", "'id'"), attrGone("router", "mobileAddrMaxAge", "absent")}},
		{name: "routerId and id", file: "router {\n routerId: A\n id: B\n}", warnings: []string{attrGone("router", "routerId", "'id'")},
			problems: []string{"2 router.routerId: ~router: Both 'routerId' and 'id' cannot be specified for entity 'router'"}},
		{name: "container before router", file: "container {\n containerName: C\n workerThreads: 2\n saslConfigName: s\n}\nrouter {\n id: R\n mode: standalone\n}",
			want: "router(id=R mode=standalone saslConfigName=s workerThreads=2)", warnings: []string{sectionGone("container", "attributes of 'router'")}},
		{name: "container alone", file: "container {\n container-name: C\n sasl-config-path: /etc/sasl2\n debugDump: d\n}",
			want: "router(debugDumpFile=d id=C saslConfigDir=/etc/sasl2)", warnings: []string{sectionGone("container", "attributes of 'router'")}},
		{name: "container yields to an old name", file: "container {\n debugDump: c\n}\nrouter {\n debugDump: r\n}", want: "router(debugDumpFile=r)",
			warnings: []string{sectionGone("container", "attributes of 'router'"), "AGENT (warning) Attribute 'debugDump' of entity 'router' has been deprecated. Use 'debugDumpFile' instead"}},
		{name: "container with a wrong attribute", file: "container {\n name: c\n}", warnings: []string{sectionGone("container", "attributes of 'router'")},
			problems: []string{"2 container.name: ~container: Unknown attribute 'name' for '~container'"}},
		{name: "fixedAddress", file: "fixed-address {\n prefix: /a\n}\nfixedAddress {\n prefix: b\n fanout: single\n}\nfixedAddress {\n prefix: c\n fanout: single\n bias: spread\n}",
			want: "address(distribution=multicast prefix=/a) address(distribution=closest prefix=b) address(distribution=balanced prefix=c)",
			warnings: []string{sectionGone("fixedAddress", "'address' with distribution 'multicast'"), sectionGone("fixedAddress", "'address' with distribution 'closest'"),
				sectionGone("fixedAddress", "'address' with distribution 'balanced'")}},
		{name: "fixedAddress for all, or with a phase", file: "fixedAddress {\n prefix: /\n}\nfixedAddress {\n prefix: a\n phase: 0\n}", want: "",
			warnings: []string{sectionGone("fixedAddress", "absent, because it has a phase or is for all addresses"), sectionGone("fixedAddress", "absent, because it has a phase or is for all addresses")}},
		{name: "fixedAddress with wrong words", file: "fixedAddress {\n prefix: a\n fanout: some\n}\nfixedAddress {\n prefix: a\n fanout: single\n bias: left\n}\nfixedAddress {\n foo: a\n}",
			warnings: []string{sectionGone("fixedAddress", "'address' with distribution 'multicast'"),
				"ROUTER (warning) Must set either 'prefix' or 'pattern' attribute: ignoring configured address"},
			problems: []string{"3 fixedAddress.fanout: ~fixedAddress: Invalid value for enum['multiple', 'single']: 'some'",
				"8 fixedAddress.bias: ~fixedAddress: Invalid value for enum['closest', 'spread']: 'left'",
				"11 fixedAddress.foo: ~fixedAddress: Unknown attribute 'foo' for '~fixedAddress'"}},
		{name: "linkRoutePattern", file: "linkRoutePattern {\n prefix: a\n connector: b\n}\nlink-route-pattern {\n prefix: c\n dir: out\n}",
			want:     "linkRoute(connection=b direction=in prefix=a) linkRoute(connection=b direction=out prefix=a) linkRoute(direction=out prefix=c)",
			warnings: []string{sectionGone("linkRoutePattern", "one 'linkRoute' for each direction"), sectionGone("linkRoutePattern", "one 'linkRoute' for each direction")}},
		{name: "linkRoutePattern with a name", file: "linkRoutePattern {\n name: n\n prefix: a\n dir: both\n}",
			want:     "linkRoute(direction=in name=n-in prefix=a) linkRoute(direction=out name=n-out prefix=a)",
			warnings: []string{sectionGone("linkRoutePattern", "one 'linkRoute' for each direction")}},
		{name: "linkRoutePattern with a wrong direction", file: "linkRoutePattern {\n prefix: a\n dir: up\n}",
			problems: []string{"3 linkRoutePattern.dir: ~linkRoutePattern: Invalid value for enum['in', 'out', 'both']: 'up'"}},
		{name: "waypoint section", file: "waypoint {\n address: a\n connector: b\n}", want: "", warnings: []string{sectionGone("waypoint", "absent")}},
		{name: "policy", file: "policy {\n maximumConnections: 5\n policyFolder: /p\n enableAccessRules: no\n defaultApplication: app\n defaultApplicationEnabled: yes\n}",
			want: "policy(defaultVhost=app enableVhostPolicy=false maxConnections=5 policyDir=/p)",
			warnings: []string{attrGone("policy", "maximumConnections", "'maxConnections'"), attrGone("policy", "policyFolder", "'policyDir'"),
				attrGone("policy", "enableAccessRules", "'enableVhostPolicy'"), attrGone("policy", "defaultApplicationEnabled", "part of 'defaultVhost'"),
				attrGone("policy", "defaultApplication", "'defaultVhost'")}},
		{name: "policy without limit and default", file: "policy {\n maximumConnections: 0\n defaultApplication: app\n}", want: "policy(defaultVhost= maxConnections=2147483647)",
			warnings: []string{attrGone("policy", "maximumConnections", "'maxConnections'"), attrGone("policy", "defaultApplication", "'defaultVhost'")}},
		{name: "policyRuleset", file: "policyRuleset {\n applicationName: a\n}",
			problems: []string{"1 policyRuleset: Entity 'policyRuleset' is no longer part of the schema; write a 'vhost', whose structure is different"}},
		{name: "roles", file: "router {\n mode: interior\n}\n" + connector("role: on-demand") + "\n" + connector("port: 2, role: edge-uplink"),
			want: "router(mode=interior) connector(role=route-container) connector(port=2 role=edge)",
			warnings: []string{"AGENT (warning) Value 'on-demand' of attribute 'role' of entity 'connector' is no longer part of the schema; treated as 'route-container'",
				"AGENT (warning) Value 'edge-uplink' of attribute 'role' of entity 'connector' is no longer part of the schema; treated as 'edge'"}},
		{name: "log modules", file: "log {\n module: CONFIG\n enable: bogus\n}\nlog {\n module: TCP_ADAPTOR\n}\nlog {\n module: AGENT\n}", want: "log(module=AGENT)",
			warnings: []string{"AGENT (warning) Value 'CONFIG' of attribute 'module' of entity 'log' is no longer part of the schema; treated as a module without events",
				"AGENT (warning) Value 'TCP_ADAPTOR' of attribute 'module' of entity 'log' is no longer part of the schema; treated as a module without events"}},
		{name: "adaptors", file: "tcpListener {\n}\nhttp-connector {\n}",
			problems: []string{"1 tcpListener: No such entity type '~tcpListener' (the TCP and HTTP adaptors of releases up to 1.18 are gone)",
				"3 httpConnector: No such entity type '~httpConnector' (the TCP and HTTP adaptors of releases up to 1.18 are gone)"}},
	} {
		tt.run(t, FormatConf)
	}
}

// The words of the old guide that need no alias (CFG B32), in a file like those of
// its examples: a router between two brokers that share a queue.
func TestGuideWords(t *testing.T) {
	file := `
router {
    mode: standalone
    id: Shards
}
listener {
    addr: 0.0.0.0
    port: amqp
    authenticatePeer: no
    saslMechanisms: ANONYMOUS
    stripAnnotations: no
}
connector {
    name: left
    addr: 127.0.0.1
    port: 6001
    role: route-container
}
address {
    prefix: jobs
    waypoint: yes
    distribution: balanced
}
autoLink {
    address: jobs
    connection: left
    direction: in
}
`
	fileTest{name: "file", file: file,
		want: "router(id=Shards mode=standalone) listener(authenticatePeer=false host=0.0.0.0 port=amqp saslMechanisms=ANONYMOUS stripAnnotations=no) " +
			"connector(host=127.0.0.1 name=left port=6001 role=route-container) address(distribution=balanced prefix=jobs waypoint=true) " +
			"autoLink(address=jobs connection=left direction=in)",
		warnings: []string{attrGone("listener", "addr", "'host'"), attrGone("connector", "addr", "'host'")}}.run(t, FormatConf)
}
