package report

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"qdrouter/management/client"
)

// watch shows a report three times, 2 s apart. Before the second and third draw
// grow is called.
func watch(t *testing.T, f *fakeRouter, name string, opts Options, terminal bool, grow func()) (draws []string, err error) {
	t.Helper()
	opts.Now = time.Now
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out strings.Builder
		err = byName(t, name).Watch(ctx, f.open, "$management", opts, Screen{
			Every: 2 * time.Second, Out: &out, Terminal: terminal,
			Flush: func() error {
				draws = append(draws, out.String())
				out.Reset()
				if len(draws) == 3 {
					cancel()
				}
				grow()
				return nil
			},
		})
	})
	return draws, err
}

// grow returns a function that adds to one value of a table.
func grow(f *fakeRouter, entityType, attribute string, row int, by int64) func() {
	table := f.tables.Map(entityType)
	names, _ := table.Get("attributeNames")
	results, _ := table.Get("results")
	values := results.([]any)[row].([]any)
	for i, name := range names.([]any) {
		if name == attribute {
			return func() { values[i] = values[i].(int64) + by }
		}
	}
	panic("no attribute " + attribute)
}

// cellsUnder returns the cells of a column that is as wide as its heading.
func cellsUnder(t *testing.T, text, head string) []string {
	t.Helper()
	var cells []string
	at := -1
	for line := range strings.Lines(text) {
		switch {
		case at < 0:
			at = strings.Index(line, " "+head+" ") + 1
			if at == 0 {
				at = -1
			}
		case !strings.Contains(line, "===") && len(line) > at:
			cells = append(cells, strings.Fields(line[at:])[0])
		}
	}
	if at < 0 {
		t.Fatalf("no column %q in\n%s", head, text)
	}
	return cells
}

func TestWatchShowsRates(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	keep(f, "router.link", 2)
	// cellsUnder counts octets.
	results, _ := f.tables.Map("router.link").Get("results")
	results.([]any)[1].([]any)[6] = "Ltemp.a"
	draws, err := watch(t, f, "links", Options{}, false, grow(f, "router.link", "deliveryCount", 0, 5))
	if !errors.Is(err, context.Canceled) || len(draws) != 3 {
		t.Fatalf("%d draws, %v; want 3, context canceled", len(draws), err)
	}
	for i, want := range []string{"- -", "2.5 0.0", "2.5 0.0"} {
		if got := strings.Join(cellsUnder(t, draws[i], "deliv/s"), " "); got != want {
			t.Errorf("draw %d: deliv/s %q, want %q:\n%s", i+1, got, want, draws[i])
		}
	}
	// Another block each time, with a line between them.
	for i, draw := range draws {
		if strings.Contains(draw, "\x1b") || strings.HasPrefix(draw, "\n") != (i > 0) {
			t.Errorf("draw %d begins with %q", i+1, draw[:10])
		}
	}
	// The links to the agent are those of the first draw.
	if len(f.opened) != 1 {
		t.Errorf("agents opened: %q, want one", f.opened)
	}
}

func TestWatchRedrawsATerminal(t *testing.T) {
	draws, _ := watch(t, newFakeRouter(t, "full.json"), "general", Options{}, true, func() {})
	for i, draw := range draws {
		if !strings.HasPrefix(draw, "\x1b[H\x1b[J2") {
			t.Errorf("draw %d begins with %q", i+1, draw[:10])
		}
	}
}

func TestWatchGeneral(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	draws, _ := watch(t, f, "general", Options{}, false, grow(f, "router", "acceptedDeliveries", 0, 100))
	if want := "  Accepted Count                   289           50.0\n"; len(draws) != 3 || !strings.Contains(draws[2], want) {
		t.Errorf("third draw of\n%s\nhas no line\n%s", draws, want)
	}
}

// A counter that has become smaller belongs to a router that started anew.
func TestWatchKnowsNoNegativeRate(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	draws, _ := watch(t, f, "general", Options{}, false, grow(f, "router", "acceptedDeliveries", 0, -10))
	if want := "  Accepted Count                   69            -\n"; len(draws) != 3 || !strings.Contains(draws[2], want) {
		t.Errorf("third draw of\n%s\nhas no line\n%s", draws, want)
	}
}

// Under --watch a document is one line, and has the rates of counters that moved
// or stood still.
func TestWatchJSON(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	draws, _ := watch(t, f, "links", Options{JSON: true}, true, grow(f, "router.link", "deliveryCount", 0, 5))
	for i, draw := range draws {
		v, err := client.ParseJSON([]byte(draw))
		if err != nil || strings.Count(draw, "\n") != 1 {
			t.Fatalf("draw %d: %v, want one line of JSON:\n%s", i+1, err, draw)
		}
		routers, _ := v.(client.Map).Get("routers")
		links, _ := routers.([]any)[0].(client.Map).Get("links")
		rate, ok := links.([]any)[0].(client.Map).Map("perSecond").Get("deliveryCount")
		if ok != (i > 0) || ok && rate != 2.5 {
			t.Errorf("draw %d: rate %v, known: %v", i+1, rate, ok)
		}
	}
}

// A failure ends it, as it ends a report.
func TestWatchEndsWithAnError(t *testing.T) {
	f := newFakeRouter(t, "full.json")
	draws, err := watch(t, f, "general", Options{}, false, func() { f.tables = nil })
	var status *client.StatusError
	if len(draws) != 1 || !errors.As(err, &status) {
		t.Errorf("%d draws, %v; want 1 and a refusal", len(draws), err)
	}
}
