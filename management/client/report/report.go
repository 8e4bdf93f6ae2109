// Package report makes the reports of qdstat (MG 13). It asks agents through
// package client and writes text; it knows no connection.
//
// The output is that of the old tool to the letter, since scripts cut it into
// columns: [Reports] lists what there is. Apart from that there are the JSON
// document of [Options], for programs, and [Report.Watch].
package report

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"qdrouter/management/client"
)

// A Report is one of the things that can be shown.
type Report struct {
	Name  string // of its option
	Short string // one letter, or none
	Usage string // explanation of the option
	Added bool   // the old tool did not have it

	show     func(p *printer, frame bool) error
	sections []section // of the JSON document
}

// Reports lists the reports in the order of the help text; the first is the
// default.
var Reports = []Report{
	{Name: "general", Short: "g", Usage: "show general router statistics", show: (*printer).general,
		sections: []section{routerSection}},
	{Name: "connections", Short: "c", Usage: "show connections", show: (*printer).connections,
		sections: []section{connectionsSection, listenersSection, connectorsSection, failuresSection}},
	{Name: "links", Short: "l", Usage: "show router links", show: (*printer).links,
		sections: []section{linksSection, failuresSection}},
	{Name: "nodes", Short: "n", Usage: "show the routers of the network", show: (*printer).nodes,
		sections: []section{nodesSection}},
	{Name: "edge", Short: "e", Usage: "show edge connections", show: (*printer).edges,
		sections: []section{edgesSection}},
	{Name: "address", Short: "a", Usage: "show router addresses", show: (*printer).addresses,
		sections: []section{addressesSection}},
	{Name: "memory", Short: "m", Usage: "show memory statistics", show: (*printer).memory,
		sections: []section{memorySection}},
	{Name: "policy", Short: "p", Usage: "show policy settings and statistics", show: (*printer).policy,
		sections: []section{policySection}},
	{Name: "autolinks", Usage: "show auto links", show: (*printer).autoLinks,
		sections: []section{autoLinksSection}},
	{Name: "linkroutes", Usage: "show link routes", show: (*printer).linkRoutes,
		sections: []section{linkRoutesSection}},
	{Name: "vhosts", Usage: "show vhosts", show: (*printer).vhosts,
		sections: []section{vhostsSection}},
	{Name: "vhostgroups", Usage: "show the user groups of vhosts", show: (*printer).vhostGroups,
		sections: []section{groupsSection}},
	{Name: "vhoststats", Usage: "show vhost statistics", show: (*printer).vhostStats,
		sections: []section{vhostStatsSection}},
	{Name: "log", Usage: "show recent log entries", show: (*printer).log,
		sections: []section{logSection}},
	{Name: "failures", Usage: "show what was refused or has failed, and why", Added: true, show: (*printer).failures,
		sections: []section{routerSection, listenersSection, connectorsSection, failuresSection}},
	{Name: "all-entities", Usage: "show all entities; may be combined with --all-routers", show: (*printer).everything, sections: []section{
		linksSection, addressesSection, connectionsSection, listenersSection, connectorsSection, autoLinksSection,
		linkRoutesSection, routerSection, memorySection, policySection, vhostsSection, vhostStatsSection,
	}},
}

// Options say how to show a report.
type Options struct {
	AllRouters bool // of every router of the network, if there are several
	Limit      int  // rows asked for; 0 or less means all
	CSV        bool
	JSON       bool // one document in place of text; see document
	Verbose    bool // more columns in some reports
	Now        func() time.Time
}

// Open returns the agent at an address.
type Open func(ctx context.Context, address string) (*client.Agent, error)

// Run writes a report about the router whose agent is at address.
func (r Report) Run(ctx context.Context, open Open, address string, opts Options, out io.Writer) error {
	return r.run(ctx, open, address, opts, nil, out)
}

// run shows the report once, with rates unless they are nil.
func (r Report) run(ctx context.Context, open Open, address string, opts Options, rates *rates, out io.Writer) error {
	agent, err := open(ctx, address)
	if err != nil {
		return err
	}
	nodes, err := agent.Nodes(ctx)
	if err != nil {
		return err
	}
	p := &printer{ctx: ctx, agent: agent, opts: opts, rates: rates, out: out}
	if !opts.AllRouters || len(nodes) < 2 {
		nodes = nil
	}
	if opts.JSON {
		return r.document(ctx, open, nodes, p)
	}
	if nodes == nil {
		return r.show(p, true)
	}
	p.printDate()
	for _, node := range nodes {
		p.agent, err = open(ctx, strings.TrimPrefix(node, "amqp:/"))
		if err != nil {
			return err
		}
		p.router = nodeID(node)
		fmt.Fprintf(out, "Router  %s\n\n", p.router)
		if err := r.show(p, false); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// nodeID takes the router's id from the address of its agent,
// amqp:/_topo/<area>/<id>/$management.
func nodeID(node string) string {
	parts := strings.Split(node, "/")
	if len(parts) < 4 {
		return node
	}
	return parts[3]
}

// A printer asks one agent and prints what it is told. Its methods named after
// reports print the frame first when they are told to.
type printer struct {
	ctx    context.Context // of the one run that the printer is for
	agent  *client.Agent
	router string // whose agent it is, when several are asked
	opts   Options
	rates  *rates // nil without --watch
	out    io.Writer
}

func (p *printer) print(t table) {
	layout := t.classic
	if p.opts.CSV {
		layout = t.csv
	}
	layout(p.out)
}

func (p *printer) printDate() {
	now := p.opts.Now().UTC()
	layout := "2006-01-02 15:04:05.000000"
	if now.Nanosecond() < int(time.Microsecond) {
		layout = time.DateTime
	}
	fmt.Fprintf(p.out, "%s UTC\n", now.Format(layout))
}

// frame prints the date and the router's id (MG 13.2).
func (p *printer) frame(wanted bool) error {
	if !wanted {
		return nil
	}
	p.printDate()
	routers, err := p.query("router", nil, 0)
	if err != nil {
		return err
	}
	for r := range routers.all() {
		fmt.Fprintln(p.out, text(r.get("id")))
	}
	fmt.Fprintln(p.out)
	return nil
}

// rows is the result of a query.
type rows struct {
	*client.Table
	columns    map[string]int
	router     string // the printer's
	entityType string // schema name
	rates      *rates // the printer's
}

// A row is one entity.
type row struct {
	rows   *rows
	values []any
}

func (p *printer) query(entityType string, attributes []string, limit int) (*rows, error) {
	t, err := p.agent.Query(p.ctx, "org.apache.qpid.dispatch."+entityType, attributes, limit)
	if err != nil {
		return nil, err
	}
	r := &rows{t, make(map[string]int), p.router, entityType, p.rates}
	for i, name := range t.Names {
		r.columns[name] = i
	}
	return r, nil
}

// has reports whether the router knows an attribute: older ones know fewer.
func (r *rows) has(name string) bool {
	_, ok := r.columns[name]
	return ok
}

func (r *rows) all() func(func(row) bool) {
	return func(yield func(row) bool) {
		for values := range r.All() {
			if !yield(row{r, values}) {
				return
			}
		}
	}
}

// first returns the first entity, or one without values.
func (r *rows) first() row {
	for first := range r.all() {
		return first
	}
	return row{rows: &rows{}}
}

// get returns the value of an attribute, nil when it has none.
func (r row) get(name string) any {
	i, ok := r.rows.columns[name]
	if !ok {
		return nil
	}
	return r.values[i]
}

func (r row) text(name string) string { return text(r.get(name)) }

func (r row) is(name string) bool {
	v, _ := r.get(name).(bool)
	return v
}

// A column shows one value of each entity.
type column struct {
	head  string
	needs string // left out when the router does not know this attribute
	cell  func(row) string
}

// table shows the entities in columns, sorted by the column of index sortBy, or
// as they come if it is negative.
func (r *rows) table(title string, columns []column, sortBy int) table {
	t := table{title: title}
	columns = append(columns, r.rateColumns()...)
	columns = slices.DeleteFunc(columns, func(c column) bool { return c.needs != "" && !r.has(c.needs) })
	for _, c := range columns {
		t.heads = append(t.heads, c.head)
	}
	t.grow(r.Len())
	cells := make([]string, len(columns))
	for entity := range r.all() {
		for i, c := range columns {
			cells[i] = c.cell(entity)
		}
		t.add(cells...)
	}
	if sortBy >= 0 {
		t.sort(sortBy)
	}
	return t
}

// attribute is a column that shows an attribute as it is.
func attribute(head, name string) column {
	return column{head, "", func(r row) string { return r.text(name) }}
}

// counter is a column that shows a number.
func counter(head, name string) column {
	return column{head, "", func(r row) string { return count(r.get(name)) }}
}

// counterIfKnown is a counter that older routers do not have.
func counterIfKnown(head, name string) column {
	c := counter(head, name)
	c.needs = name
	return c
}

// grouped is a column that shows a number with its thousands set apart.
func grouped(head, name string) column {
	return column{head, "", func(r row) string { return thousands(r.get(name)) }}
}
