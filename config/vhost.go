package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxVhostConnections bounds the connection limits of vhosts and groups (CFG 7.1).
const maxVhostConnections = 65535

// A vhostChecker checks what the policy of 1.19 refuses in vhosts (CFG 7.1, P1, P2,
// P19, P20), remoteHosts aside: they need the network.
type vhostChecker struct {
	hosts    map[string]bool   // hostnames so far
	aliases  map[string]string // alias to hostname
	warnings []Warning
}

func newVhostChecker() *vhostChecker {
	return &vhostChecker{hosts: map[string]bool{}, aliases: map[string]string{}}
}

// check returns what is wrong with the vhost, or "".
func (c *vhostChecker) check(e *Entity) string {
	host := e.Str("hostname")
	if reason := c.settings(e); reason != "" {
		return fmt.Sprintf("Policy '%s' is invalid: %s", host, reason)
	}
	if owner, ok := c.aliases[host]; ok {
		return fmt.Sprintf("Policy is creating vhost '%s' but that name is already an alias for vhost '%s'", host, owner)
	}
	aliases := listOf(e.Attrs["aliases"], ", ")
	for _, alias := range aliases {
		if c.hosts[alias] {
			return fmt.Sprintf("Policy for vhost '%s' defines alias '%s' which conflicts with an existing vhost named '%s'", host, alias, alias)
		}
		if owner, ok := c.aliases[alias]; ok {
			return fmt.Sprintf("Policy for vhost '%s' alias '%s' conflicts with existing alias for vhost '%s'", host, alias, owner)
		}
	}
	c.hosts[host] = true
	for _, alias := range aliases {
		c.aliases[alias] = host
	}
	return ""
}

func (c *vhostChecker) settings(e *Entity) string {
	host := e.Str("hostname")
	for _, limit := range []string{"maxConnections", "maxConnectionsPerUser", "maxConnectionsPerHost"} {
		if msg := inRange(e.Attrs[limit], maxVhostConnections); msg != "" {
			return fmt.Sprintf("Policy vhost '%s' option '%s' has error '%s'.", host, limit, msg)
		}
	}
	if e.Has("maxMessageSize") {
		if msg := inRange(e.Attrs["maxMessageSize"], 0); msg != "" {
			return fmt.Sprintf("Policy vhost '%s' option 'maxMessageSize' has error '%s'.", host, msg)
		}
	}
	seen := map[string]bool{}
	for _, alias := range listOf(e.Attrs["aliases"], ", ") {
		switch {
		case alias == host:
			return fmt.Sprintf("Policy vhost '%s' option 'aliases' value '%s' duplicates vhost name", host, alias)
		case seen[alias]:
			return fmt.Sprintf("Policy vhost '%s' option 'aliases' value '%s' is duplicated", host, alias)
		}
		seen[alias] = true
	}

	groups := e.Map("groups")
	groupOf := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		where := fmt.Sprintf("Policy vhost '%s' user group '%s'", host, name)
		group, ok := groups[name].(map[string]any)
		if !ok {
			return where + " must be a map"
		}
		if msg := c.group(where, group); msg != "" {
			return where + " " + msg
		}
		users := listOf(group["users"], ",")
		slices.Sort(users)
		for _, user := range slices.Compact(users) {
			if other, ok := groupOf[user]; ok {
				return fmt.Sprintf("Policy vhost '%s' user '%s' is in multiple user groups '%s' and '%s'", host, user, other, name)
			}
			groupOf[user] = name
		}
	}
	if _, ok := groups["$default"]; !ok && e.Bool("allowUnknownUser") {
		return fmt.Sprintf("Policy vhost '%s' allows connections by default but default settings are not defined", host)
	}
	return ""
}

// groupType describes the settings of a group.
var groupType = TypeByName("vhostUserGroupSettings")

// group returns what is wrong with the settings of a group, or "".
func (c *vhostChecker) group(where string, group map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(group)) {
		value := group[key]
		a := groupType.Attribute(key)
		if a == nil || a.Name == "name" || a.Name == "identity" || a.Name == "type" {
			c.warnings = append(c.warnings, Warning{"POLICY", "warning", fmt.Sprintf("%s option '%s' is ignored.", where, key)})
			continue
		}
		switch a.Type {
		case Integer:
			limit := int64(0)
			if key == "maxConnectionsPerUser" || key == "maxConnectionsPerHost" {
				limit = maxVhostConnections
			}
			if msg := inRange(value, limit); msg != "" {
				return fmt.Sprintf("option '%s' has error '%s'.", key, msg)
			}
		case Boolean:
			if _, ok := value.(bool); !ok {
				if _, isText := value.(string); !isText {
					return fmt.Sprintf("option '%s' has illegal boolean value '%v'.", key, value)
				}
				if _, msg := toBool(value); msg != "" {
					return fmt.Sprintf("option '%s' has illegal boolean value '%v'.", key, value)
				}
			}
		case String:
			if msg := checkList(key, value); msg != "" {
				return msg
			}
		}
	}
	for _, pair := range [][2]string{{"sources", "sourcePattern"}, {"targets", "targetPattern"}} {
		if group[pair[0]] != nil && group[pair[1]] != nil {
			return fmt.Sprintf("specifies conflicting '%s' and '%s' attributes. Use only one or the other.", pair[0], pair[1])
		}
	}
	return ""
}

// userToken stands for the name of the connection's user in an address (CFG P19).
const userToken = "${user}"

// checkList checks a list of users, hosts or addresses (CFG P19, P20).
func checkList(key string, value any) string {
	switch value := value.(type) {
	case string:
	case []any:
		for _, item := range value {
			if _, ok := item.(string); !ok {
				return fmt.Sprintf("option '%s' has illegal value '%v' in its list. Each must be text.", key, item)
			}
		}
	default:
		return fmt.Sprintf("option '%s' has illegal value '%v'. Type must be 'str' or 'list'.", key, value)
	}
	if key == "users" || key == "remoteHosts" {
		return ""
	}
	for _, item := range listOf(value, ",") {
		switch n := strings.Count(item, userToken); {
		case n > 1:
			return fmt.Sprintf("policy key '%s' item '%s' contains multiple user subtitution tokens", key, item)
		case n == 1 && strings.HasSuffix(key, "Pattern") && !userAtEnd(item):
			return fmt.Sprintf("policy key '%s' item '%s' may contain match pattern '%s' as a prefix or a suffix only.", key, item, userToken)
		}
	}
	return ""
}

// userAtEnd reports whether the user is the whole first or last token of a pattern.
func userAtEnd(pattern string) bool {
	before, after, _ := strings.Cut(pattern, userToken)
	return before == "" && (after == "" || strings.IndexByte("./", after[0]) >= 0) ||
		after == "" && strings.IndexByte("./", before[len(before)-1]) >= 0
}

// inRange tells why a number, or its text, is not from 0 to limit, or "". A limit of
// 0 is none.
func inRange(value any, limit int64) string {
	if value == nil {
		return ""
	}
	n, msg := toInt(value)
	switch {
	case msg != "":
		return fmt.Sprintf("Value '%v' does not resolve to an integer.", value)
	case n < 0:
		return fmt.Sprintf("Value '%v' is below minimum '0'.", value)
	case limit > 0 && n > limit:
		return fmt.Sprintf("Value '%v' is above maximum '%d'.", value, limit)
	}
	return ""
}

// listOf splits text at any of the separators, drops blanks around the items and
// empty ones; a list is taken as it is.
func listOf(value any, separators string) []string {
	var items []string
	switch value := value.(type) {
	case string:
		for _, item := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	case []any:
		for _, item := range value {
			if s, ok := item.(string); ok && s != "" {
				items = append(items, s)
			}
		}
	}
	return items
}
