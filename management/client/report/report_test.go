package report

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"qdrouter/management/client"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A fakeRouter answers from a file of tables, one per entity type, and of bodies
// for the operations of the agent.
type fakeRouter struct {
	tables client.Map
	opened []string // addresses of agents asked for
}

func newFakeRouter(t *testing.T, file string) *fakeRouter {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	v, err := client.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeRouter{tables: v.(client.Map)}
}

func (f *fakeRouter) open(_ context.Context, address string) (*client.Agent, error) {
	f.opened = append(f.opened, address)
	return client.NewAgent(f.call), nil
}

func (f *fakeRouter) call(_ context.Context, r client.Request) (client.Reply, error) {
	operation := r.Properties.Text("operation")
	if operation != "QUERY" {
		body, ok := f.tables.Map("operations").Get(operation)
		if limit, limited := r.Properties.Get("limit"); limited {
			list := body.([]any)
			body = list[len(list)-int(limit.(int64)):]
		}
		if !ok {
			return client.Reply{Status: client.StatusNotImplemented, Description: operation}, nil
		}
		return client.Reply{Status: client.StatusOK, Body: client.Encode(body)}, nil
	}
	table := f.tables.Map(strings.TrimPrefix(r.Properties.Text("entityType"), "org.apache.qpid.dispatch."))
	heading, _ := table.Get("attributeNames")
	results, ok := table.Get("results")
	if !ok {
		return client.Reply{Status: client.StatusNotFound, Description: "no " + r.Properties.Text("entityType")}, nil
	}
	wanted, _ := r.Body.(client.Map).Get("attributeNames")
	names := slices.DeleteFunc(slices.Clone(wanted.([]any)), func(name any) bool { return !slices.Contains(heading.([]any), name) })
	if len(wanted.([]any)) == 0 {
		names = heading.([]any)
	}
	offset, _ := r.Properties.Get("offset")
	count, _ := r.Properties.Get("count")
	all := results.([]any)[offset.(int64):]
	rows := []any{}
	for _, values := range all[:min(len(all), int(count.(int64)))] {
		row := make([]any, len(names))
		for i, name := range names {
			row[i] = values.([]any)[slices.Index(heading.([]any), name)]
		}
		rows = append(rows, row)
	}
	return client.Reply{Status: client.StatusOK, Body: client.Encode(client.Map{
		{Key: "attributeNames", Value: names},
		{Key: "results", Value: rows},
	})}, nil
}

func byName(t *testing.T, name string) Report {
	t.Helper()
	for _, r := range Reports {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no report %q", name)
	return Report{}
}

func run(t *testing.T, f *fakeRouter, name string, opts Options) string {
	t.Helper()
	if opts.Now == nil {
		opts.Now = func() time.Time { return time.Date(2026, 11, 29, 19, 26, 5, 861074999, time.FixedZone("", 3600)) }
	}
	var out strings.Builder
	if err := byName(t, name).Run(context.Background(), f.open, "$management", opts, &out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out.String()
}

// The golden files are what the old tool prints from the same tables, but for
// the date and for --log --all-routers, where it fails.
func TestReportsPrintWhatTheOldToolPrints(t *testing.T) {
	defer setLocal(time.UTC)()
	variants := []struct {
		suffix string
		opts   Options
	}{
		{"", Options{}},
		{".csv", Options{CSV: true}},
		{".verbose", Options{Verbose: true}},
		{".limit", Options{Limit: 2}},
		{".all-routers", Options{AllRouters: true}},
	}
	for _, file := range []string{"full", "empty", "old"} {
		for _, v := range variants {
			if file != "full" && v.suffix != "" {
				continue
			}
			t.Run(file+v.suffix, func(t *testing.T) {
				var all strings.Builder
				for _, r := range Reports {
					if r.Added {
						continue
					}
					fmt.Fprintf(&all, "---- %s\n%s", r.Name, run(t, newFakeRouter(t, file+".json"), r.Name, v.opts))
				}
				golden(t, file+v.suffix+".golden", all.String())
			})
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func setLocal(zone *time.Location) (restore func()) {
	old := time.Local
	time.Local = zone
	return func() { time.Local = old }
}

func TestFrameDate(t *testing.T) {
	for _, tt := range []struct {
		nanoseconds int
		want        string
	}{
		{0, "2026-11-29 18:26:05 UTC"},
		{999, "2026-11-29 18:26:05 UTC"},
		{1000, "2026-11-29 18:26:05.000001 UTC"},
		{861074000, "2026-11-29 18:26:05.861074 UTC"},
	} {
		now := time.Date(2026, 11, 29, 18, 26, 5, tt.nanoseconds, time.UTC)
		out := run(t, newFakeRouter(t, "full.json"), "general", Options{Now: func() time.Time { return now }})
		got, _, _ := strings.Cut(out, "\n")
		if got != tt.want {
			t.Errorf("%d ns: first line %q, want %q", tt.nanoseconds, got, tt.want)
		}
	}
}

// --all-routers asks the agents that GET-MGMT-NODES lists, in that order.
func TestAllRoutersAsksEachAgent(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	run(t, f, "links", Options{AllRouters: true})
	want := []string{"$management", "_topo/0/INT.A/$management", "_topo/0/INT.B/$management"}
	if !slices.Equal(f.opened, want) {
		t.Errorf("agents opened: %q, want %q", f.opened, want)
	}
}

// The original test suite counts the parts of the output between newlines of a
// router with two links and five addresses (MG 16.31).
func TestOutputHasTheLinesThatTestsCount(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	keep(f, "router.link", 2)
	keep(f, "router.address", 5)
	for _, tt := range []struct {
		report string
		opts   Options
		parts  int
	}{
		{"address", Options{}, 12},
		{"links", Options{}, 9},
		{"links", Options{Limit: 1}, 8},
		{"links", Options{Limit: 1, CSV: true}, 7},
	} {
		out := run(t, f, tt.report, tt.opts)
		if got := len(strings.Split(out, "\n")); got != tt.parts {
			t.Errorf("%s %+v: %d parts, want %d:\n%s", tt.report, tt.opts, got, tt.parts, out)
		}
	}
}

func keep(f *fakeRouter, entityType string, n int) {
	table := f.tables.Map(entityType)
	results, _ := table.Get("results")
	table.With("results", results.([]any)[:n])
}

// A failure in the middle leaves what was printed before it.
func TestErrorAfterOutput(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	f.tables = slices.DeleteFunc(f.tables, func(e client.Entry) bool { return e.Key == "connection" })
	var out strings.Builder
	opts := Options{Now: time.Now}
	err := byName(t, "all-entities").Run(context.Background(), f.open, "$management", opts, &out)
	if got := fmt.Sprint(client.Class(err), ": ", err); got != "NotFoundStatus: no org.apache.qpid.dispatch.connection" {
		t.Errorf("error %q", got)
	}
	if !strings.Contains(out.String(), "Router Addresses") {
		t.Errorf("addresses come before connections, but the output is\n%s", out.String())
	}
}
