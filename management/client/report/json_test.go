package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"qdrouter/management/client"
)

// The golden files are the promise of docs/operating.md that keys stay.
func TestJSONDocument(t *testing.T) {
	defer setLocal(time.UTC)()
	for _, tt := range []struct {
		file, suffix string
		opts         Options
	}{
		{"full", "", Options{}},
		{"full", ".all-routers", Options{AllRouters: true}},
		{"full", ".limit", Options{Limit: 2}},
		{"empty", "", Options{}},
		{"old", "", Options{}},
	} {
		t.Run(tt.file+tt.suffix, func(t *testing.T) {
			tt.opts.JSON = true
			var all strings.Builder
			for _, r := range Reports {
				out := run(t, withFailures(t, tt.file+".json"), r.Name, tt.opts)
				if !json.Valid([]byte(out)) {
					t.Errorf("%s: no JSON:\n%s", r.Name, out)
				}
				fmt.Fprintf(&all, "---- %s\n%s", r.Name, out)
			}
			golden(t, tt.file+tt.suffix+".json.golden", all.String())
		})
	}
}

// withFailures is the router of a file that also knows why things failed. The
// files themselves are the tables of the old router, which does not.
func withFailures(t *testing.T, file string) *fakeRouter {
	t.Helper()
	f := newFakeRouter(t, file)
	f.tables = f.tables.With("connector", client.Map{
		{Key: "attributeNames", Value: []any{"name", "identity", "host", "port", "role", "saslUsername", "saslPassword", "connectionStatus", "connectionMsg"}},
		{Key: "results", Value: []any{
			[]any{"broker", "connector/127.0.0.1:5672:broker", "127.0.0.1", "5672", "route-container", "joe", "secret", "FAILED", "connection refused"},
		}},
	})
	f.tables = f.tables.With("listener", client.Map{
		{Key: "attributeNames", Value: []any{"name", "identity", "host", "port", "role", "refusedConnections", "failedConnections", "lastError"}},
		{Key: "results", Value: []any{
			[]any{"clients", "listener/0.0.0.0:5672:clients", "0.0.0.0", "5672", "normal", int64(3), int64(1), "no user of that name"},
		}},
	})
	for entityType, attribute := range map[string]string{"router.link": "lastError", "connection": "lastError", "router": "recentFailures"} {
		table := f.tables.Map(entityType)
		names, _ := table.Get("attributeNames")
		results, _ := table.Get("results")
		if names == nil {
			continue
		}
		table.With("attributeNames", append(names.([]any), attribute))
		for i, row := range results.([]any) {
			var why any
			switch {
			case attribute == "recentFailures":
				why = recentlyFailed()
			case i == 1:
				why = "amqp:not-found: no route"
			}
			results.([]any)[i] = append(row.([]any), why)
		}
	}
	return f
}

func recentlyFailed() []any {
	return []any{
		client.Map{
			{Key: "time", Value: "2026-11-29T18:26:05Z"}, {Key: "count", Value: int64(3)}, {Key: "what", Value: "connection refused"},
			{Key: "reason", Value: "no user of that name"}, {Key: "where", Value: "0.0.0.0:5672"}, {Key: "host", Value: "10.0.0.9:41"},
		},
		client.Map{
			{Key: "time", Value: "2026-11-29T18:26:04Z"}, {Key: "count", Value: int64(1)}, {Key: "what", Value: "link refused"},
			{Key: "reason", Value: "amqp:not-found: no q"}, {Key: "connectionId", Value: "7"}, {Key: "host", Value: "10.0.0.8:40"},
			{Key: "container", Value: "c"}, {Key: "user", Value: "joe"}, {Key: "linkName", Value: "s"}, {Key: "linkDir", Value: "in"},
			{Key: "address", Value: "q"},
		},
	}
}

// Secrets that the agent shows to those who may read them are not for logs and
// dashboards.
func TestJSONHasNoSecrets(t *testing.T) {
	out := run(t, withFailures(t, "full.json"), "connections", Options{JSON: true})
	if !strings.Contains(out, "FAILED") || strings.Contains(out, "secret") {
		t.Errorf("want the connector without its password:\n%s", out)
	}
}

// Why something was refused or has failed is in a report of its own. Those that the
// old tool had print what they printed, with -v too, whatever newer routers tell.
func TestFailuresHaveAReportOfTheirOwn(t *testing.T) {
	for _, report := range []string{"general", "links", "connections", "all-entities"} {
		for _, opts := range []Options{{}, {Verbose: true}} {
			with := run(t, withFailures(t, "full.json"), report, opts)
			if without := run(t, newFakeRouter(t, "full.json"), report, opts); with != without {
				t.Errorf("%s %+v prints\n%s\nwant, as of an old router,\n%s", report, opts, with, without)
			}
		}
	}
	f := withFailures(t, "full.json")
	router := f.tables.Map("router")
	names, _ := router.Get("attributeNames")
	results, _ := router.Get("results")
	router.With("attributeNames", append(names.([]any), "linksRefused", "connectionsRefused"))
	row := results.([]any)[0].([]any)
	results.([]any)[0] = append(row, int64(1), int64(3))
	want := `2026-11-29 18:26:05.861074 UTC
INT.A

Refused and Failed
  attr                 value
  ============================
  Links Refused        1
  Connections Refused  3

Listeners
  name     host     port  role    refused  failed  lastErr
  =======================================================================
  clients  0.0.0.0  5672  normal  3        1       no user of that name

Connectors
  name    host       port  role             status  lastErr
  ======================================================================
  broker  127.0.0.1  5672  route-container  FAILED  connection refused

Refused and Failed Connections
  time                  count  what                where         conn id  host         container  user  reason
  ============================================================================================================================
  2026-11-29T18:26:05Z  3      connection refused  0.0.0.0:5672           10.0.0.9:41                   no user of that name

Refused Links
  time                  count  what          where  conn id  host         container  user  dir  addr  name  reason
  ================================================================================================================================
  2026-11-29T18:26:04Z  1      link refused         7        10.0.0.8:40  c          joe   in   q     s     amqp:not-found: no q
`
	if got := run(t, f, "failures", Options{}); got != want {
		t.Errorf("--failures prints\n%s\nwant\n%s", got, want)
	}
}
