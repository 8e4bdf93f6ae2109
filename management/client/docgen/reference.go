package main

import (
	"fmt"
	"strings"

	"qdrouter/config"
	"qdrouter/management/client/report"
)

const generated = "*Generated from the schema by `make docs`. Do not edit.*\n"

// reference returns the pages of docs/reference.
func reference() map[string]string {
	pages := map[string]string{
		"docs/reference/README.md":     index(),
		"docs/reference/operations.md": operations(),
		"docs/reference/json.md":       jsonPage(),
	}
	for _, t := range config.Types() {
		pages["docs/reference/"+pageName(t)] = page(t)
	}
	return pages
}

func pageName(t *config.EntityType) string { return t.ShortName() + ".md" }

func link(t *config.EntityType) string {
	return fmt.Sprintf("[%s](%s)", t.ShortName(), pageName(t))
}

// kinds names the kinds of types in the order of the index.
var kinds = []struct {
	kind  config.Kind
	title string
}{
	{config.KindConfiguration, "Configuration"},
	{config.KindOperational, "State of the running router"},
	{config.KindEmbedded, "Parts of other entities"},
	{config.KindManagement, "Management itself"},
	{config.KindTest, "For tests of management"},
	{config.KindBase, "Types that others inherit from"},
}

func index() string {
	var b strings.Builder
	b.WriteString("# Reference\n\n" + generated + `
Every type of entity that qdrouterd has, in its configuration file or by management, with every attribute. What can be
asked of them is in [operations](operations.md), what qdstat prints for programs in [json](json.md); how to use it all is in [../operating.md](../operating.md).
`)
	for _, k := range kinds {
		fmt.Fprintf(&b, "\n## %s\n\n", k.title)
		for _, t := range config.Types() {
			if t.Kind == k.kind {
				fmt.Fprintf(&b, "- %s: %s\n", link(t), t.Description)
			}
		}
	}
	return b.String()
}

func page(t *config.EntityType) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n%s.\n\n", t.ShortName(), generated, sentence(t.Description))
	fmt.Fprintf(&b, "- Type: `%s`\n", t.LongName)
	switch {
	case t.Section:
		fmt.Fprintf(&b, "- In the configuration file: section `%s`\n", t.ShortName())
	case t.Kind == config.KindEmbedded:
		b.WriteString("- In the configuration file: a map inside another section\n")
	}
	if len(t.Bases) > 0 {
		var bases []string
		for _, name := range t.Bases {
			bases = append(bases, link(config.TypeByName(name)))
		}
		fmt.Fprintf(&b, "- Inherits from: %s\n", strings.Join(bases, ", "))
	}
	if len(t.Operations) > 0 {
		fmt.Fprintf(&b, "- [Operations](operations.md): %s\n", strings.Join(t.Operations, ", "))
	}
	if t.Singleton {
		b.WriteString("- There is exactly one, or none\n")
	}
	if t.Deprecated {
		b.WriteString("- Deprecated: accepted, and of no use any more\n")
	}
	b.WriteString(`
## Attributes

| attribute | type | default | required | at CREATE | live change | meaning |
| --- | --- | --- | --- | --- | --- | --- |
`)
	for _, a := range t.AllAttributes() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
			a.Name, typeText(a), defaultText(a), yes(a.Required), yes(a.Create), live(t, a), cell(meaning(a))+deprecated(a))
	}
	b.WriteString(`
*at CREATE*: may be given when the entity is made. *live change*: *yes* means by UPDATE; *anew* means that the entity is
deleted and created again while the router runs; *no* means that only the router sets it, or that it takes a restart.
`)
	if len(t.Columns) > 0 {
		b.WriteString(`
## Columns of QUERY

| column | AMQP type | may be null |
| --- | --- | --- |
`)
		for _, c := range t.Columns {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, c.Type, yes(c.Nullable))
		}
	}
	return b.String()
}

// sentence begins with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// cell is text that may stand in a table.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func typeText(a config.Attribute) string {
	if a.Type != config.Enum {
		return string(a.Type)
	}
	return "one of `" + strings.Join(a.Enum, "`, `") + "`"
}

func defaultText(a config.Attribute) string {
	switch v := a.Default.(type) {
	case nil:
		return ""
	case string:
		if v == "" {
			return "empty"
		}
	}
	return fmt.Sprintf("`%v`", a.Default)
}

// live says how an attribute is changed while the router runs.
func live(t *config.EntityType, a config.Attribute) string {
	switch {
	case a.Update:
		return "yes"
	case a.Name == "type":
		return "no"
	case a.Create && t.Allows("CREATE") && t.Allows("DELETE"):
		return "anew"
	}
	return "no"
}

// meaning is the description with what else there is to know.
func meaning(a config.Attribute) string {
	text := a.Description
	if a.Unique {
		text += "; no two entities have the same"
	}
	if a.New {
		text += "; not in Qpid Dispatch 1.19"
	}
	if a.Hidden {
		text += "; not shown in logs"
	}
	if a.DeprecationName != "" {
		text += ". Older name, still accepted: `" + a.DeprecationName + "`"
	}
	return text
}

func deprecated(a config.Attribute) string {
	if a.Deprecated {
		return ". **Deprecated**"
	}
	return ""
}

// madeKeys explains the keys of the JSON document that are no entities.
var madeKeys = map[string]string{
	"recentFailures": "what was refused or has failed lately, the newest first: time, count, what, reason, and of where, connectionId, host, container, user, linkName, linkDir and address those that apply",
	"memory":         "a map: memoryUsage of the router in octets, and pools, a list of [allocator](allocator.md)",
	"vhostGroups":    "a list: vhost, group, and the settings that hold, as in [vhostUserGroupSettings](vhostUserGroupSettings.md)",
	"log":            "a list: date, module, level, text, file, line",
}

func jsonPage() string {
	var b strings.Builder
	b.WriteString("# The JSON document of qdstat\n\n" + generated + `
` + "`qdstat --json`" + ` prints one document. These keys stay as they are; new ones may come.

| key | value |
| --- | --- |
| ` + "`version`" + ` | 1; another number when a key goes or changes its meaning |
| ` + "`date`" + ` | when the router was asked, in UTC |
| ` + "`report`" + ` | the name of the report, as its option |
| ` + "`routers`" + ` | a list: one map for each router, with its id and the keys below |

An entity has all attributes that the router tells, under the names of the schema and null where there is no value; secrets
are left out. Links and addresses have besides addressClass, addressText and addressPhase, which are their address key taken
apart. Under --watch each document is one line, and entities have the rates of their counters, per second since the document
before, in the map perSecond. When a router cannot be asked there is no document, but a line that says why and exit status 1.

| report | key | value |
| --- | --- | --- |
`)
	for _, r := range report.Reports {
		for _, k := range r.Keys() {
			value := madeKeys[k.Name]
			if t := config.TypeByName(k.EntityType); k.EntityType != "" {
				value = "a list of " + link(t)
				if k.Single {
					value = "the " + link(t)
				}
			}
			fmt.Fprintf(&b, "| `--%s` | `%s` | %s |\n", r.Name, k.Name, value)
		}
	}
	return b.String()
}

// operationTexts says what the operations do.
var operationTexts = []struct{ name, text string }{
	{"CREATE", "make an entity with the attributes of the body; answers 201 and all its attributes"},
	{"READ", "the attributes of one entity, found by name or identity"},
	{"UPDATE", "change the attributes of the body, leave the others; answers all attributes; null takes a value away"},
	{"DELETE", "remove an entity; answers 204"},
	{"QUERY", "the attributes named in attributeNames, or all, of the entities of entityType, or of all types; offset and count page through them"},
	{"GET-TYPES", "the types with the types they inherit from"},
	{"GET-ATTRIBUTES", "the types with their attributes"},
	{"GET-OPERATIONS", "the types with their operations"},
	{"GET-ANNOTATIONS", "the types with their annotations; there are none"},
	{"GET-MGMT-NODES", "the addresses of the agents of all interior routers of the network"},
	{"GET-SCHEMA", "the schema as a map"},
	{"GET-JSON-SCHEMA", "the schema as JSON text"},
	{"GET-LOG", "the newest log entries, at most limit of them"},
	{"PROFILE", "accepted, and of no effect"},
	{"CALLME", "for tests of management"},
}

func operations() string {
	var b strings.Builder
	b.WriteString("# Operations\n\n" + generated + `
A request is a message to the address ` + "`$management`" + `, with the operation's name, and the type, name or identity of the
entity it is about, in its application properties. The reply goes to its reply-to, with statusCode and statusDescription in
its application properties. ` + "`qdmanage OPERATION`" + ` sends any of them.

| operation | what it does | types that have it |
| --- | --- | --- |
`)
	for _, op := range operationTexts {
		var having []string
		for _, t := range config.Types() {
			if t.Kind != config.KindBase && t.Allows(op.name) {
				having = append(having, link(t))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", op.name, op.text, strings.Join(having, ", "))
	}
	b.WriteString(`
| status | meaning |
| --- | --- |
| 200, 201, 204 | done: answered, created, deleted |
| 400 | the request is wrong; the description says which attribute and why |
| 401, 403 | not for you; never allowed |
| 404 | no such entity, type or attribute |
| 500 | the request failed; the description says why |
| 501 | no such operation, or not for this type |
`)
	return b.String()
}
