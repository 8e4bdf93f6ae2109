package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"testing"
)

// A recorder answers every request with the next reply and keeps the requests.
type recorder struct {
	requests []Request
	replies  []Reply
}

func (r *recorder) call(_ context.Context, request Request) (Reply, error) {
	r.requests = append(r.requests, request)
	if len(r.replies) == 0 {
		return Reply{}, errors.New("no reply left")
	}
	reply := r.replies[0]
	r.replies = r.replies[1:]
	return reply, nil
}

func (r *recorder) agent() *Agent { return NewAgent(r.call) }

// page is the reply to a QUERY for numbers from first to before end.
func page(first, end int) Reply {
	rows := []any{}
	for i := first; i < end; i++ {
		rows = append(rows, []any{int64(i)})
	}
	return Reply{Status: StatusOK, Body: Encode(Map{{"attributeNames", []any{"n"}}, {"results", rows}})}
}

// MG 11.4: pages of at most 500 until one is short or the limit is reached. The
// old tools ask for rows again when a limit is no multiple of 500; we do not.
func TestQueryPages(t *testing.T) {
	for _, tt := range []struct {
		name        string
		rows, limit int
		want        [][2]int64 // offset and count asked for
	}{
		{"nothing", 0, 0, [][2]int64{{0, 500}}},
		{"one short page", 3, 0, [][2]int64{{0, 500}}},
		{"a full page may be followed by another", 500, 0, [][2]int64{{0, 500}, {500, 500}}},
		{"three pages", 1200, 0, [][2]int64{{0, 500}, {500, 500}, {1000, 500}}},
		{"a limit within a page", 1200, 2, [][2]int64{{0, 2}}},
		{"a limit of one page", 1200, 500, [][2]int64{{0, 500}}},
		{"a limit in the second page", 1200, 700, [][2]int64{{0, 500}, {500, 200}}},
		{"a limit beyond the end", 600, 700, [][2]int64{{0, 500}, {500, 200}}},
		{"a limit below 0 is none", 3, -1, [][2]int64{{0, 500}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked [][2]int64
			agent := NewAgent(func(_ context.Context, r Request) (Reply, error) {
				offset, _ := r.Properties.Get("offset")
				count, _ := r.Properties.Get("count")
				asked = append(asked, [2]int64{offset.(int64), count.(int64)})
				first := int(offset.(int64))
				return page(first, min(tt.rows, first+int(count.(int64)))), nil
			})
			table, err := agent.Query(context.Background(), "t", nil, tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(asked, tt.want) {
				t.Errorf("asked for (offset, count) %v, want %v", asked, tt.want)
			}
			want := tt.rows
			if tt.limit > 0 {
				want = min(want, tt.limit)
			}
			if table.Len() != want {
				t.Fatalf("%d rows, want %d", table.Len(), want)
			}
			i := 0
			for row := range table.All() {
				if row[0] != int64(i) {
					t.Fatalf("row %d is %v", i, row)
				}
				i++
			}
		})
	}
}

func TestQueryRowsFitTheHeading(t *testing.T) {
	r := &recorder{replies: []Reply{{Status: StatusOK, Body: Encode(Map{
		{"attributeNames", []any{"a", "b"}},
		{"results", []any{[]any{int64(1)}, []any{int64(1), int64(2), int64(3)}, nil, []any{"x", "y"}, []any{true, "y"}, []any{"x", []any{"z"}}}},
	})}}}
	table, err := r.agent().Query(context.Background(), "", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]any{{int64(1), nil}, {int64(1), int64(2)}, {nil, nil}, {"x", "y"}, {true, "y"}, {"x", []any{"z"}}}
	if got := rowsOf(table); !reflect.DeepEqual(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	some := table.Where(func(row []any) bool { return row[1] == "y" })
	if got := rowsOf(some); !reflect.DeepEqual(got, want[3:5]) || some.Len() != 2 {
		t.Errorf("rows with y %v, want %v", got, want[3:5])
	}
}

func rowsOf(t *Table) (rows [][]any) {
	for row := range t.All() {
		rows = append(rows, slices.Clone(row))
	}
	return rows
}

func TestRequests(t *testing.T) {
	ctx := context.Background()
	node := func(operation string, more ...Entry) Map {
		return append(Map{{"operation", operation}, {"type", "org.amqp.management"}, {"name", "self"}}, more...)
	}
	body := Map{{"a", int64(1)}}
	ok := Reply{Status: StatusOK, Body: Encode(Map{})}
	for _, tt := range []struct {
		name  string
		do    func(*Agent) error
		reply Reply
		want  Request
	}{
		{"query", func(a *Agent) error { _, err := a.Query(ctx, "t", []string{"x", "y"}, 0); return err }, ok,
			Request{node("QUERY", Entry{"entityType", "t"}, Entry{"offset", int64(0)}, Entry{"count", int64(500)}),
				Map{{"attributeNames", []any{"x", "y"}}}}},
		{"query of all types", func(a *Agent) error { _, err := a.Query(ctx, "", nil, 0); return err }, ok,
			Request{node("QUERY", Entry{"offset", int64(0)}, Entry{"count", int64(500)}), Map{{"attributeNames", []any{}}}}},
		{"create", func(a *Agent) error { _, err := a.Create(ctx, "t", "n", body); return err }, Reply{Status: StatusCreated},
			Request{Map{{"operation", "CREATE"}, {"type", "t"}, {"name", "n"}}, body}},
		{"read by name", func(a *Agent) error { _, err := a.Read(ctx, Selector{Name: "n"}); return err }, ok,
			Request{Map{{"operation", "READ"}, {"name", "n"}}, nil}},
		{"of name and identity only the identity is sent", func(a *Agent) error { _, err := a.Read(ctx, Selector{Type: "t", Name: "n", Identity: "i"}); return err }, ok,
			Request{Map{{"operation", "READ"}, {"type", "t"}, {"identity", "i"}}, nil}},
		{"an empty name selects nothing", func(a *Agent) error { _, err := a.Read(ctx, Selector{Named: true, Identified: true}); return err }, ok,
			Request{Map{{"operation", "READ"}, {"name", ""}, {"identity", ""}}, nil}},
		{"update", func(a *Agent) error { _, err := a.Update(ctx, Selector{Identity: "i"}, body); return err }, ok,
			Request{Map{{"operation", "UPDATE"}, {"identity", "i"}}, body}},
		{"delete", func(a *Agent) error { return a.Delete(ctx, Selector{Type: "t", Name: "n"}) }, Reply{Status: StatusNoContent},
			Request{Map{{"operation", "DELETE"}, {"type", "t"}, {"name", "n"}}, nil}},
		{"get", func(a *Agent) error { _, err := a.Get(ctx, "GET-TYPES", "t"); return err }, ok,
			Request{node("GET-TYPES", Entry{"entityType", "t"}), nil}},
		{"log", func(a *Agent) error { _, err := a.Log(ctx, 5); return err }, ok,
			Request{node("GET-LOG", Entry{"limit", int64(5)}), nil}},
		{"the whole log", func(a *Agent) error { _, err := a.Log(ctx, 0); return err }, ok,
			Request{node("GET-LOG"), nil}},
		{"any operation", func(a *Agent) error { _, err := a.Invoke(ctx, "callme", Map{{"p", "v"}}, "body"); return err }, ok,
			Request{Map{{"p", "v"}, {"operation", "callme"}}, "body"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{replies: []Reply{tt.reply}}
			if err := tt.do(r.agent()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r.requests, []Request{tt.want}) {
				t.Errorf("request\n%v, want\n%v", r.requests, tt.want)
			}
		})
	}
}

// MG 8.1, 11.4, 11.5.
func TestErrorClasses(t *testing.T) {
	refused := func(status int) error {
		r := &recorder{replies: []Reply{{Status: status, Description: "text"}}}
		return r.agent().Delete(context.Background(), Selector{Name: "n"})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{refused(400), "BadRequestStatus: text"},
		{refused(401), "UnauthorizedStatus: text"},
		{refused(403), "ForbiddenStatus: text"},
		{refused(404), "NotFoundStatus: text"},
		{refused(500), "InternalServerErrorStatus: text"},
		{refused(501), "NotImplementedStatus: text"},
		{refused(409), "ManagementError: text"},
		{refused(0), "ManagementError: text"},
		{refused(200), "ValueError: Response was 200 but expected 204: text"},
		{Failf("Some", "text %d", 1), "Some: text 1"},
		{fmt.Errorf("wrapped: %w", Failf("Some", "text")), "Some: wrapped: text"},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, "FileNotFoundError: open x: file does not exist"},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, "PermissionError: open x: permission denied"},
		{context.DeadlineExceeded, "Timeout: context deadline exceeded"},
		{errors.New("text"), "Error: text"},
	} {
		if got := Class(tt.err) + ": " + tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestNodes(t *testing.T) {
	r := &recorder{replies: []Reply{{Status: StatusOK, Body: Encode([]any{"a", int64(1), "b"})}, {Status: StatusOK, Body: nil}}}
	for _, want := range [][]string{{"a", "b"}, nil} {
		got, err := r.agent().Nodes(context.Background())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("nodes %q, %v; want %q", got, err, want)
		}
	}
}
