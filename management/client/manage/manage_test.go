package manage

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"qdrouter/management/client"
	"qdrouter/management/client/cli"
)

const prefix = "org.apache.qpid.dispatch."

// A router answers requests in order and keeps them.
type router struct {
	requests []client.Request
	replies  []client.Reply
}

func (r *router) call(_ context.Context, request client.Request) (client.Reply, error) {
	r.requests = append(r.requests, request)
	if len(r.replies) == 0 {
		return client.Reply{}, errors.New("no reply left")
	}
	reply := r.replies[0]
	r.replies = r.replies[1:]
	return reply, nil
}

// run carries out one command line.
func (r *router) run(t *testing.T, opts Options, stdin string, args ...string) (out, notes string, err error) {
	t.Helper()
	task, err := Parse(args, opts)
	if err != nil {
		t.Fatal(err)
	}
	var o, n strings.Builder
	err = task.Run(context.Background(), client.NewAgent(r.call), strings.NewReader(stdin), &o, &n)
	return o.String(), n.String(), err
}

func ok(body any) []client.Reply {
	return []client.Reply{{Status: client.StatusOK, Body: client.Encode(body)}}
}

func created(bodies ...any) (replies []client.Reply) {
	for _, body := range bodies {
		replies = append(replies, client.Reply{Status: client.StatusCreated, Body: client.Encode(body)})
	}
	return replies
}

func entity(pairs ...any) (m client.Map) {
	for i := 0; i < len(pairs); i += 2 {
		m = append(m, client.Entry{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return m
}

// MG 12.2 to 12.4: what each command line sends and prints.
func TestOperations(t *testing.T) {
	const line = client.OneLine
	node := func(operation string, more ...any) client.Map {
		return entity(append([]any{"operation", operation, "type", "org.amqp.management", "name", "self"}, more...)...)
	}
	for _, tt := range []struct {
		name    string
		opts    Options
		args    []string
		stdin   string
		replies []client.Reply
		request client.Request
		out     string
	}{
		{"query prints no nulls", Options{Type: "link", Indent: line, Name: "ignored"}, []string{"query", "b", "a"}, "",
			ok(entity("attributeNames", []any{"b", "a"}, "results", []any{[]any{int64(1), nil}, []any{nil, "x"}})),
			client.Request{
				Properties: node("QUERY", "entityType", prefix+"router.link", "offset", int64(0), "count", int64(500)),
				Body:       entity("attributeNames", []any{"b", "a"}),
			},
			"[{\"b\": 1}, {\"a\": \"x\"}]\n"},
		{"verbs in any case", Options{Indent: line}, []string{"QuErY"}, "",
			ok(entity("attributeNames", []any{}, "results", []any{})),
			client.Request{Properties: node("QUERY", "offset", int64(0), "count", int64(500)), Body: entity("attributeNames", []any{})},
			"[]\n"},
		{"create by attributes", Options{Indent: 2}, []string{"create", "type=dummy", "name=x", "n=5", "t=true", "f=false", "y=yes", "e=", "none", "q=a=b"}, "",
			created(entity("z", nil, "a", int64(1))),
			client.Request{
				Properties: entity("operation", "CREATE", "type", prefix+"dummy", "name", "x"),
				Body: entity("type", prefix+"dummy", "name", "x", "n", "5", "t", true, "f", false, "y", "yes", "e", "", "none", nil,
					"q", "a=b"),
			},
			"{\n  \"z\": null,\n  \"a\": 1\n}\n"},
		{"create with options, which win", Options{Indent: line, Type: "dummy", Name: "opt"}, []string{"create", "name=attr", "num1= 1_007 ", "arg1=7"}, "",
			created(nil),
			client.Request{
				Properties: entity("operation", "CREATE", "type", prefix+"dummy", "name", "opt"),
				Body:       entity("name", "attr", "num1", int64(1007), "arg1", "7"),
			},
			"null\n"},
		{"older names of attributes", Options{Indent: line, Type: "autoLink"}, []string{"create", "addr=a", "dir=in", "phase=2"}, "",
			created(client.Map{}),
			client.Request{
				Properties: entity("operation", "CREATE", "type", prefix+"router.config.autoLink"),
				Body:       entity("addr", "a", "dir", "in", "phase", int64(2)),
			},
			"{}\n"},
		{"create without attributes", Options{Indent: line, Type: "listener"}, []string{"create"}, "",
			created(client.Map{}),
			client.Request{Properties: entity("operation", "CREATE", "type", prefix+"listener"), Body: client.Map{}},
			"{}\n"},
		{"create from stdin", Options{Indent: line, Stdin: true}, []string{"create", "ignored"}, `{"type": "linkRoute", "name": "n", "m": {"y": 1, "x": [true]}}`,
			created(client.Map{}),
			client.Request{
				Properties: entity("operation", "CREATE", "type", prefix+"router.config.linkRoute", "name", "n"),
				Body:       entity("type", prefix+"router.config.linkRoute", "name", "n", "m", entity("y", int64(1), "x", []any{true})),
			},
			"{}\n"},
		{"read", Options{Indent: line, Type: "listener", Name: "n"}, []string{"read"}, "",
			ok(entity("b", []any{}, "a", nil)),
			client.Request{Properties: entity("operation", "READ", "type", prefix+"listener", "name", "n")},
			"{\"b\": [], \"a\": null}\n"},
		{"an empty name is no entity's", Options{Indent: line, Named: true}, []string{"read"}, "",
			ok(client.Map{}),
			client.Request{Properties: entity("operation", "READ", "name", "")},
			"{}\n"},
		{"update turns words into booleans", Options{Indent: line}, []string{"update", "name=n", "a=yes", "b=off", "c=Yes", "d=on", "e"}, "",
			ok(client.Map{}),
			client.Request{
				Properties: entity("operation", "UPDATE", "name", "n"),
				Body:       entity("name", "n", "a", true, "b", false, "c", "Yes", "d", true, "e", nil),
			},
			"{}\n"},
		{"update with an identity among the attributes", Options{Indent: line, Name: "n", Stdin: true}, []string{"update"}, `{"identity": "7"}`,
			ok(client.Map{}),
			client.Request{Properties: entity("operation", "UPDATE", "identity", "7"), Body: entity("identity", "7")},
			"{}\n"},
		{"delete prints nothing", Options{Identity: "7"}, []string{"delete"}, "",
			[]client.Reply{{Status: client.StatusNoContent, Body: client.Encode(client.Map{})}},
			client.Request{Properties: entity("operation", "DELETE", "identity", "7")},
			""},
		{"a type among the arguments is sent as it is", Options{Indent: line}, []string{"get-types", "listener"}, "",
			ok(entity("z", []any{"b", "a"})),
			client.Request{Properties: node("GET-TYPES", "entityType", "listener")},
			"{\"z\": [\"b\", \"a\"]}\n"},
		{"a type among the options is expanded", Options{Indent: line, Type: "listener"}, []string{"GET-Attributes", "ignored"}, "",
			ok(client.Map{}),
			client.Request{Properties: node("GET-ATTRIBUTES", "entityType", prefix+"listener")},
			"{}\n"},
		{"nodes", Options{Indent: line}, []string{"get-mgmt-nodes"}, "",
			ok([]any{"amqp:/x"}),
			client.Request{Properties: node("GET-MGMT-NODES")},
			"[\"amqp:/x\"]\n"},
		{"custom operation", Options{Indent: line, Name: "n", Properties: `{"p": [1], "x": null}`, Body: `{"b": 1}`}, []string{"CallMe", "a=true", "name=m", "x=1"}, "",
			ok(entity("r", int64(1))),
			client.Request{Properties: entity("a", true, "name", "n", "p", []any{int64(1)}, "operation", "CallMe"), Body: entity("b", int64(1))},
			"{\"r\": 1}\n"},
		{"custom operation with a plain body", Options{Indent: line, Body: "some text"}, []string{"get-json-schema"}, "",
			ok(`{"as": "it is"}`),
			client.Request{Properties: entity("operation", "get-json-schema"), Body: "some text"},
			"{\"as\": \"it is\"}\n"},
		{"nothing to print", Options{Indent: line}, []string{"get-log", "limit=5"}, "",
			ok([]any{}),
			client.Request{Properties: entity("limit", "5", "operation", "get-log")},
			""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &router{replies: tt.replies}
			out, notes, err := r.run(t, tt.opts, tt.stdin, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r.requests, []client.Request{tt.request}) {
				t.Errorf("requests\n%#v, want one:\n%#v", r.requests, tt.request)
			}
			if out != tt.out || notes != "" {
				t.Errorf("output %q and notes %q, want %q and none", out, notes, tt.out)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		opts  Options
		args  []string
		stdin string
		want  string
	}{
		{Options{Type: "dummy"}, []string{"create", "num1=x"}, "", "ValueError: invalid literal for int() with base 10: 'x'"},
		{Options{Type: "dummy"}, []string{"create", "nosuch=x"}, "", "ValidationError: Unknown attribute 'nosuch' for '" + prefix + "dummy'"},
		{Options{Type: "dummy"}, []string{"create", "=x"}, "", "ValidationError: Unknown attribute '' for '" + prefix + "dummy'"},
		{Options{Type: "nosuch"}, []string{"update", "a=x"}, "", "ValidationError: No such entity type '" + prefix + "nosuch'"},
		{Options{Stdin: true}, []string{"create"}, "5", "ValueError: stdin is not a JSON map or list"},
		{Options{Stdin: true}, []string{"create"}, "{", "JSONDecodeError: stdin: the text ends too early"},
		{Options{Body: "{bad"}, []string{"op"}, "", "ValueError: Invalid JSON '{bad': invalid character 'b'"},
		{Options{Properties: "[1]"}, []string{"op"}, "", "ValueError: --properties is not a JSON map"},
	} {
		r := &router{}
		out, _, err := r.run(t, tt.opts, tt.stdin, tt.args...)
		if err == nil || client.Class(err)+": "+err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
		}
		if out != "" || len(r.requests) > 0 {
			t.Errorf("%q: printed %q and sent %v, want neither", tt.args, out, r.requests)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		opts Options
		args []string
		want string // of the error, "" for none
	}{
		{Options{}, nil, "No operation specified"},
		{Options{}, []string{"read", "a", "b"}, "Unexpected arguments: a b"},
		{Options{}, []string{"Delete", "a"}, "Unexpected arguments: a"},
		{Options{}, []string{"get-mgmt-nodes", "a"}, "Unexpected arguments: a"},
		{Options{}, []string{"get-types", "a", "b", "c"}, "Unexpected arguments: b c"},
		{Options{Type: "listener"}, []string{"get-types", "a", "b"}, ""},
		{Options{}, []string{"query", "a", "b"}, ""},
	} {
		_, err := Parse(tt.args, tt.opts)
		var usage cli.UsageError
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &usage) || err.Error() != tt.want) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// MG 12.5: a list on stdin is printed after all succeeded; at a failure only the
// error is, and notes say how far it came.
func TestListOnStdin(t *testing.T) {
	const list = `[{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]`
	opts := Options{Indent: client.OneLine, Stdin: true}
	t.Run("all succeed", func(t *testing.T) {
		r := &router{replies: created(entity("n", int64(1)), entity("n", int64(2)), entity("n", int64(3)), client.Map{})}
		out, notes, err := r.run(t, opts, list, "create")
		if want := "[{\"n\": 1}, {\"n\": 2}, {\"n\": 3}, {}]\n"; err != nil || out != want || notes != "" {
			t.Errorf("output %q, notes %q, %v; want %q", out, notes, err, want)
		}
	})
	t.Run("one fails", func(t *testing.T) {
		r := &router{replies: append(created(client.Map{}, client.Map{}), client.Reply{Status: 400, Description: "bad"})}
		out, notes, err := r.run(t, opts, list, "create")
		if err == nil || client.Class(err) != "BadRequestStatus" || out != "" {
			t.Errorf("output %q, %v; want none and a BadRequestStatus", out, err)
		}
		if want := "element 3 of 4 failed; 2 before it created, 1 after it not tried\n"; notes != want {
			t.Errorf("notes %q, want %q", notes, want)
		}
		if len(r.requests) != 3 {
			t.Errorf("%d requests, want 3", len(r.requests))
		}
	})
	t.Run("one is no map", func(t *testing.T) {
		r := &router{replies: ok(client.Map{})}
		_, notes, err := r.run(t, opts, `[{}, 5]`, "update")
		if err == nil || client.Class(err) != "ValueError" {
			t.Errorf("%v, want a ValueError", err)
		}
		if want := "element 2 of 2 failed; 1 before it updated, 0 after it not tried\n"; notes != want {
			t.Errorf("notes %q, want %q", notes, want)
		}
	})
}

// MG 12.3.
func TestLongType(t *testing.T) {
	for name, want := range map[string]string{
		"":                prefix[:0],
		"listener":        prefix + "listener",
		"router":          prefix + "router",
		"link":            prefix + "router.link",
		"node":            prefix + "router.node",
		"address":         prefix + "router.config.address",
		"linkRoute":       prefix + "router.config.linkRoute",
		"autoLink":        prefix + "router.config.autoLink",
		"exchange":        prefix + "router.config.exchange",
		"binding":         prefix + "router.config.binding",
		"nosuch":          prefix + "nosuch",
		"router.link":     "router.link",
		"org.amqp.x":      "org.amqp.x",
		prefix + "policy": prefix + "policy",
	} {
		if got := longType(name); got != want {
			t.Errorf("longType(%q) = %q, want %q", name, got, want)
		}
	}
}
