package main

import (
	"fmt"
	"strings"

	"qdrouter/config"
	"qdrouter/management/client/cli"
	"qdrouter/management/client/tool"
)

// manPages returns the man pages by file name. usage is what qdrouterd prints for
// --help.
func manPages(usage string) map[string]string {
	return map[string]string{
		"qdrouterd.8":      qdrouterdPage(usage),
		"qdrouterd.conf.5": confPage(),
		"qdstat.8":         qdstatPage(tool.Qdstat("")),
		"qdmanage.8":       qdmanagePage(tool.Qdmanage("")),
	}
}

// A routerOption is an option of qdrouterd as its usage has it.
type routerOption struct{ term, text string }

// routerOptions reads the usage of qdrouterd: an option to a line, the text two
// blanks or more behind it, or at the end of lines of its own.
func routerOptions(usage string) []routerOption {
	var options []routerOption
	for line := range strings.Lines(usage) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "-"):
			column := strings.Index(trimmed, "--")
			end := column + strings.IndexByte(trimmed[column:]+" ", ' ')
			options = append(options, routerOption{trimmed[:end], strings.TrimSpace(trimmed[end:])})
		case trimmed == "" && len(options) > 0:
			return options
		case len(options) > 0:
			options[len(options)-1].text += " " + trimmed
		}
	}
	return options
}

func qdrouterdPage(usage string) string {
	r := newRoff("qdrouterd", "8", "router for AMQP 1.0 messages")
	r.section("SYNOPSIS")
	r.paragraph("qdrouterd [OPTIONS]")
	r.section("DESCRIPTION")
	r.paragraph(`Programs connect to the router, send messages to an address and receive from one; the router
passes each message on to whoever receives from its address, with its settlement, and holds none itself.`)
	r.paragraph(`Without a configuration file it runs as a standalone router for this machine only.`)
	r.section("OPTIONS")
	for _, o := range routerOptions(usage) {
		r.item(o.term, sentence(o.text)+".")
	}
	r.section("SIGNALS")
	r.item("SIGTERM, SIGQUIT, SIGINT", "End the router.")
	r.item("SIGHUP", `Read the configuration again and apply what can change while the router runs: listeners, connectors,
addresses, autolinks, exchanges, bindings, profiles, vhosts and log levels. A warning names what cannot.
Log files are opened anew.`)
	r.section("EXIT STATUS")
	r.item("0", "The router was ended by SIGTERM or SIGQUIT, or what was asked for was printed.")
	r.item("1", "The command line or the configuration is wrong, or the router could not start.")
	r.paragraph("After SIGINT it ends as an unhandled SIGINT would end it.")
	r.section("FILES")
	r.item("/etc/qpid-dispatch/qdrouterd.conf", "The configuration when --config names none. See qdrouterd.conf(5).")
	seeAlso(r, "qdrouterd.conf(5)", "qdstat(8)", "qdmanage(8)")
	return r.String()
}

func seeAlso(r *roff, pages ...string) {
	r.section("SEE ALSO")
	r.paragraph(strings.Join(pages, ", "))
}

// commandOptions adds the usage and the options of one of the tools.
func commandOptions(r *roff, c *cli.Command) {
	for _, s := range c.Sections() {
		if s.Title == "" {
			r.section("OPTIONS")
		} else {
			r.subsection(s.Title)
		}
		if s.Intro != "" {
			r.paragraph(s.Intro)
		}
		for _, o := range s.Options {
			term := "--" + o.Long
			if o.Short != "" {
				term = "-" + o.Short + ", " + term
			}
			if o.Value != "" {
				term += " " + o.Value
			}
			r.item(term, sentence(o.Usage)+".")
		}
	}
	r.paragraph(`Long options may be shortened as long as only one begins so, but for those that the tools of
Qpid Dispatch 1.19 did not have: --completion, --json and --watch.`)
}

func toolEnd(r *roff, see ...string) {
	r.section("EXIT STATUS")
	r.item("0", "Done.")
	r.item("1", "The router could not be reached or has refused; standard output says why. Also after an interrupt.")
	r.item("2", "The command line is wrong; standard error says how.")
	seeAlso(r, see...)
}

func qdstatPage(c *cli.Command) string {
	r := newRoff("qdstat", "8", "show what a router is doing")
	r.section("SYNOPSIS")
	r.verbatim(c.Usage())
	r.section("DESCRIPTION")
	r.paragraph(`qdstat asks the management agent of a router and prints tables: of its connections, links, addresses and
so on. docs/operating.md explains the columns.`)
	commandOptions(r, c)
	r.section("JSON")
	r.paragraph(`--json prints a map: "version", 1; "date"; "report", the name of the option; and "routers", a list with a map
for each router, which has its "id" and under the name of the report what the tables show, with the attributes of the
management entities as keys. Under --watch each document is one line, and an entity has the rates of its counters under
"perSecond".`)
	r.section("EXAMPLES")
	r.verbatim("qdstat -b 127.0.0.1:5672 -c\nqdstat -l --watch 2\nqdstat --all-routers -a --json")
	toolEnd(r, "qdmanage(8)", "qdrouterd(8)")
	return r.String()
}

func qdmanagePage(c *cli.Command) string {
	r := newRoff("qdmanage", "8", "read and change the management entities of a router")
	r.section("SYNOPSIS")
	r.verbatim(c.Usage())
	r.section("DESCRIPTION")
	r.paragraph(`qdmanage sends one operation to the management agent of a router and prints the reply as JSON. Attributes are
given as NAME=VALUE arguments or, with --stdin, as a JSON map or a list of maps.`)
	r.section("OPERATIONS")
	for _, op := range operationTexts {
		r.item(op.name, sentence(op.text)+".")
	}
	commandOptions(r, c)
	r.section("EXAMPLES")
	r.verbatim(`qdmanage query --type listener
qdmanage create --type address prefix=news distribution=multicast
qdmanage update --type log --name log/SERVER enable=debug+
qdmanage update --type connection --identity 7 adminStatus=deleted`)
	toolEnd(r, "qdstat(8)", "qdrouterd.conf(5)")
	return r.String()
}

func confPage() string {
	r := newRoff("qdrouterd.conf", "5", "configuration of qdrouterd")
	r.section("DESCRIPTION")
	r.paragraph(`The file is a list of sections. A section is a name and attributes in braces, each on a line of its own. A hash
sign begins a comment. A value may be a JSON map or list.`)
	r.verbatim(`listener {
    host: 127.0.0.1
    port: 5672   # the default
}`)
	r.paragraph(`A file whose name ends in .json, .yaml or .yml has the same sections in that format.
qdrouterd --check looks for mistakes without running the router.`)
	r.section("SECTIONS")
	for _, t := range config.Types() {
		if !t.Section && t.Kind != config.KindEmbedded {
			continue
		}
		r.subsection(t.ShortName())
		text := sentence(t.Description) + "."
		if t.Singleton {
			text += " At most one."
		}
		if t.Deprecated {
			text += " Deprecated."
		}
		if t.Kind == config.KindEmbedded {
			text += " Not a section, but the value of a group in the map groups of a vhost."
		}
		r.paragraph(text)
		for _, a := range t.AllAttributes() {
			if inFile(t, a) {
				r.item(a.Name, attributeText(a))
			}
		}
	}
	seeAlso(r, "qdrouterd(8)", "qdmanage(8)")
	return r.String()
}

// inFile tells whether an attribute is a setting: the others are set by the
// router.
func inFile(t *config.EntityType, a config.Attribute) bool {
	switch {
	case a.Name == "type" || a.Name == "identity":
		return false
	case a.Name == "name" && t.Kind == config.KindEmbedded:
		return false
	}
	// Vhosts have limits that management must not set.
	return a.Create || a.Update || a.Required || t.Name == "vhost" || t.Kind == config.KindEmbedded || t.Deprecated
}

func attributeText(a config.Attribute) string {
	var notes []string
	if a.Type == config.Enum {
		notes = append(notes, "one of "+strings.Join(a.Enum, ", "))
	} else {
		notes = append(notes, string(a.Type))
	}
	if a.Required {
		notes = append(notes, "required")
	}
	if a.Default != nil && a.Default != "" {
		notes = append(notes, fmt.Sprintf("default %v", a.Default))
	}
	if a.Deprecated {
		notes = append(notes, "deprecated")
	}
	if a.DeprecationName != "" {
		notes = append(notes, "once "+a.DeprecationName)
	}
	return fmt.Sprintf("%s (%s).", sentence(a.Description), strings.Join(notes, "; "))
}
