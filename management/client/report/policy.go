package report

import (
	"fmt"

	"qdrouter/management/client"
)

// policy is -p (MG 13.12).
func (p *printer) policy(frame bool) error {
	policies, err := p.query("policy", nil, 0)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	r := policies.first()
	settings := table{title: "Policy Configuration", heads: []string{"attr", "value"}}
	settings.add("Maximum Concurrent Connections", plainNumber(r.get("maxConnections")))
	if policies.has("maxMessageSize") {
		settings.add("Maximum Message Size", plainNumber(r.get("maxMessageSize")))
	}
	settings.add("Enable Vhost Policy", r.text("enableVhostPolicy"))
	settings.add("Enable Vhost Name Patterns", r.text("enableVhostNamePatterns"))
	settings.add("Policy Directory", orNil(r.text("policyDir")))
	settings.add("Default Vhost", orNil(r.text("defaultVhost")))
	p.print(settings)

	status := table{title: "\nPolicy Status", heads: p.attributeHeads()}
	add := func(label, name string) {
		r.addNumber(&status, label, name)
	}
	add("Connections Processed", "connectionsProcessed")
	add("Connections Denied", "connectionsDenied")
	add("Connections Current", "connectionsCurrent")
	add("Links Denied", "linksDenied")
	if policies.has("maxMessageSizeDenied") {
		add("Maximum Message Size Denied", "maxMessageSizeDenied")
	}
	add("Total Denials", "totalDenials")
	p.print(status)
	return nil
}

func orNil(s string) string {
	if s == "" {
		return "(nil)"
	}
	return s
}

// vhosts is --vhosts (MG 13.13).
func (p *printer) vhosts(bool) error {
	vhosts, err := p.query("vhost", nil, 0)
	if err != nil {
		return err
	}
	if vhosts.Len() == 0 {
		fmt.Fprintln(p.out, "No Vhosts")
		return nil
	}
	limit := func(head string) column {
		return column{head, "", func(r row) string { return plainNumber(r.get(head)) }}
	}
	size := limit("maxMessageSize")
	size.needs = "maxMessageSize"
	p.print(vhosts.table("Vhosts", []column{
		attribute("hostname", "hostname"),
		limit("maxConnections"),
		size,
		limit("maxConnectionsPerUser"),
		limit("maxConnectionsPerHost"),
		attribute("allowUnknownUser", "allowUnknownUser"),
		{"groups", "", func(r row) string { return plainNumber(int64(len(groupsOf(r)))) }},
	}, -1))
	return nil
}

func groupsOf(vhost row) client.Map {
	groups, _ := vhost.get("groups").(client.Map)
	return groups
}

// groupNumbers and groupFlags are the columns of the table of groups.
var (
	groupNumbers = []string{
		"maxConnectionsPerUser", "maxConnectionsPerHost", "maxMessageSize", "maxFrameSize", "maxSessionWindow",
		"maxSessions", "maxSenders", "maxReceivers",
	}
	groupFlags = []string{
		"allowDynamicSource", "allowAnonymousSender", "allowUserIdProxy", "allowWaypointLinks",
		"allowDynamicLinkRoutes", "allowAdminStatusUpdate", "allowFallbackLinks",
	}
	groupTexts = []string{"users", "remoteHosts", "sources", "targets", "sourcePattern", "targetPattern"}
)

// groupDefaults are attributes of user groups as the router's schema has them.
type groupDefaults struct{ attributes client.Map }

func (p *printer) groupDefaults() (groupDefaults, error) {
	body, err := p.agent.Get(p.ctx, "GET-SCHEMA", "")
	schema, _ := body.(client.Map)
	return groupDefaults{schema.Map("entityTypes").Map("vhostUserGroupSettings").Map("attributes")}, err
}

// setting is a setting of a group: its own, else the default if there is one.
func (d groupDefaults) setting(group client.Map, name string) (any, bool) {
	if v, ok := group.Get(name); ok {
		return v, true
	}
	return d.attributes.Map(name).Get("default")
}

// vhostGroups is --vhostgroups (MG 13.13). The defaults are those of the
// router's schema.
func (p *printer) vhostGroups(bool) error {
	vhosts, err := p.query("vhost", nil, 0)
	if err != nil {
		return err
	}
	defaults, err := p.groupDefaults()
	if err != nil {
		return err
	}
	if vhosts.Len() == 0 {
		fmt.Fprintln(p.out, "No Vhosts")
		return nil
	}

	summary := table{title: "Vhost Groups", heads: []string{"vhost", "group"}}
	var details []table
	for _, name := range groupNumbers {
		if name != "maxMessageSize" || vhosts.has(name) {
			summary.heads = append(summary.heads, name)
		}
	}
	summary.heads = append(summary.heads, groupFlags...)
	for vhost := range vhosts.all() {
		for _, e := range groupsOf(vhost) {
			group, _ := e.Value.(client.Map)
			cells := []string{vhost.text("hostname"), e.Key}
			for _, name := range summary.heads[len(cells) : len(summary.heads)-len(groupFlags)] {
				cells = append(cells, settingText(defaults.setting, group, name, plainNumber, "(nil)"))
			}
			for _, name := range groupFlags {
				cells = append(cells, settingText(defaults.setting, group, name, text, "False"))
			}
			summary.add(cells...)

			detail := table{
				title: fmt.Sprintf("\nVhost '%s' UserGroup '%s'", vhost.text("hostname"), e.Key),
				heads: []string{"attr", "value"},
			}
			detail.add("vhost", vhost.text("hostname"))
			detail.add("group", e.Key)
			for _, name := range groupTexts {
				detail.add(name, settingText(defaults.setting, group, name, text, "(nil)"))
			}
			details = append(details, detail)
		}
	}
	p.print(summary)
	for _, detail := range details {
		p.print(detail)
	}
	return nil
}

// settingText shows a setting of a group, or absent when there is none.
func settingText(setting func(client.Map, string) (any, bool), group client.Map, name string, show func(any) string, absent string) string {
	if v, ok := setting(group, name); ok {
		return show(v)
	}
	return absent
}

// vhostStats is --vhoststats (MG 13.13).
func (p *printer) vhostStats(bool) error {
	stats, err := p.query("vhostStats", nil, 0)
	if err != nil {
		return err
	}
	if stats.Len() == 0 {
		fmt.Fprintln(p.out, "No Vhost Stats")
		return nil
	}
	columns := []column{attribute("hostname", "hostname")}
	for _, name := range []string{
		"connectionsApproved", "connectionsDenied", "connectionsCurrent", "sessionDenied", "senderDenied",
		"receiverDenied", "maxMessageSizeDenied",
	} {
		c := column{name, "", func(r row) string { return plainNumber(r.get(name)) }}
		if name == "maxMessageSizeDenied" {
			c.needs = name
		}
		columns = append(columns, c)
	}
	p.print(stats.table("Vhost Stats", columns, -1))

	users := table{title: "\nVhost User Stats", heads: []string{"vhost", "user", "remote hosts"}}
	for r := range stats.all() {
		state, _ := r.get("perUserState").(client.Map)
		for _, e := range state {
			users.add(r.text("hostname"), e.Key, text(e.Value))
		}
	}
	p.print(users)
	return nil
}
