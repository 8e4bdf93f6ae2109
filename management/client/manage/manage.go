// Package manage carries out the operations of qdmanage (MG 12): it turns
// arguments and JSON into requests and prints the replies as JSON.
//
// A [Task] is read from the command line before there is a connection, so that
// mistakes show at once, and then run against an agent:
//
//	Parse(args, Options) ──▶ Task ── Run(ctx, agent, in, out)
package manage

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"qdrouter/management/client"
	"qdrouter/management/client/cli"
)

// Operations are the operations that every agent has; the help text names them.
var Operations = []string{
	"QUERY", "CREATE", "READ", "UPDATE", "DELETE",
	"GET-TYPES", "GET-OPERATIONS", "GET-ATTRIBUTES", "GET-ANNOTATIONS",
	"GET-MGMT-NODES", "GET-SCHEMA", "GET-LOG",
}

// Options are the options of qdmanage that shape the request and the output
// (MG 12.1).
type Options struct {
	Type, Name, Identity string
	Named, Identified    bool // whether --name and --identity were given: an empty one counts
	Indent               int  // of the JSON printed; -1 for one line
	Stdin                bool
	Body, Properties     string // JSON or plain text; "" for none
}

// A Task is an operation with its arguments.
type Task struct {
	opts      Options
	operation string // as typed
	args      []string
}

// Parse takes an operation and its arguments. The error is a cli.UsageError.
func Parse(args []string, opts Options) (*Task, error) {
	if len(args) == 0 {
		return nil, cli.UsageError("No operation specified")
	}
	opts.Type = longType(opts.Type)
	t := &Task{opts, args[0], args[1:]}
	allowed := len(t.args)
	switch strings.ToUpper(t.operation) {
	case "READ", "DELETE", "GET-MGMT-NODES":
		allowed = 0
	case "GET-TYPES", "GET-ATTRIBUTES", "GET-OPERATIONS", "GET-ANNOTATIONS":
		if opts.Type == "" {
			allowed = 1
		}
	}
	if len(t.args) > allowed {
		return nil, cli.UsageError("Unexpected arguments: " + strings.Join(t.args[allowed:], " "))
	}
	return t, nil
}

// Run carries the task out. What it prints to out is complete or nothing; notes
// tells how far a list of requests came before one failed.
func (t *Task) Run(ctx context.Context, agent *client.Agent, in io.Reader, out, notes io.Writer) error {
	result, err := t.result(ctx, agent, in, notes)
	if err != nil || result == nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", result)
	return err
}

// result returns the text to print, or nil for nothing.
func (t *Task) result(ctx context.Context, agent *client.Agent, in io.Reader, notes io.Writer) ([]byte, error) {
	operation := strings.ToUpper(t.operation)
	switch operation {
	case "QUERY":
		return t.query(ctx, agent)
	case "CREATE":
		return t.each(in, notes, "created", func(attributes client.Map) (any, error) {
			s := t.selector(attributes)
			return agent.Create(ctx, s.Type, s.Name, attributes)
		})
	case "UPDATE":
		return t.each(in, notes, "updated", func(attributes client.Map) (any, error) {
			return agent.Update(ctx, t.selector(attributes), withBooleans(attributes))
		})
	case "READ":
		return t.json(agent.Read(ctx, t.selected()))
	case "DELETE":
		return nil, agent.Delete(ctx, t.selected())
	case "GET-TYPES", "GET-ATTRIBUTES", "GET-OPERATIONS", "GET-ANNOTATIONS":
		entityType := t.opts.Type
		if entityType == "" && len(t.args) > 0 {
			entityType = t.args[0] // sent as it is (MG 12.3)
		}
		return t.json(agent.Get(ctx, operation, entityType))
	case "GET-MGMT-NODES":
		return t.json(agent.Get(ctx, operation, ""))
	}
	return t.custom(ctx, agent)
}

// json lays out the body of a reply, unless there was an error.
func (t *Task) json(body any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return client.AppendJSON(nil, body, t.opts.Indent), nil
}

// selector names the entity by the options and, where they are silent, by the
// attributes.
func (t *Task) selector(attributes client.Map) client.Selector {
	s := client.Selector{Type: t.opts.Type, Name: t.opts.Name, Identity: t.opts.Identity}
	for key, field := range map[string]*string{"type": &s.Type, "name": &s.Name, "identity": &s.Identity} {
		if *field == "" {
			*field = attributes.Text(key)
		}
	}
	return s
}

// selected names the entity by the options alone.
func (t *Task) selected() client.Selector {
	return client.Selector{
		Type: t.opts.Type, Name: t.opts.Name, Identity: t.opts.Identity,
		Named: t.opts.Named, Identified: t.opts.Identified,
	}
}

// query prints the entities without the attributes they do not have.
func (t *Task) query(ctx context.Context, agent *client.Agent) ([]byte, error) {
	table, err := agent.Query(ctx, t.opts.Type, t.args, 0)
	if err != nil {
		return nil, err
	}
	entities := make([]any, 0, table.Len())
	for row := range table.All() {
		entity := make(client.Map, 0, len(row))
		for j, value := range row {
			if value != nil {
				entity = entity.With(table.Names[j], value)
			}
		}
		entities = append(entities, entity)
	}
	return t.json(entities, nil)
}

// each makes one request for the attributes in the arguments, or for each map on
// standard input (MG 12.5). A failure ends it; done is the word for what was
// achieved until then.
func (t *Task) each(in io.Reader, notes io.Writer, done string, request func(client.Map) (any, error)) ([]byte, error) {
	if !t.opts.Stdin {
		attributes, err := parseAttributes(t.args, t.opts.Type)
		if err != nil {
			return nil, err
		}
		return t.json(request(expandType(attributes)))
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	input, err := client.ParseJSON(text)
	if err != nil {
		return nil, client.Failf("JSONDecodeError", "stdin: %w", err)
	}
	switch input := input.(type) {
	case client.Map:
		return t.json(request(expandType(input)))
	case []any:
		results := make([]any, len(input))
		for i, item := range input {
			attributes, ok := item.(client.Map)
			if !ok {
				err = client.Failf("ValueError", "stdin is not a JSON map or list of maps")
			} else {
				results[i], err = request(expandType(attributes))
			}
			if err != nil {
				fmt.Fprintf(notes, "element %d of %d failed; %d before it %s, %d after it not tried\n",
					i+1, len(input), i, done, len(input)-i-1)
				return nil, err
			}
		}
		return t.json(results, nil)
	}
	return nil, client.Failf("ValueError", "stdin is not a JSON map or list")
}

// expandType expands the attribute type.
func expandType(attributes client.Map) client.Map {
	if name := attributes.Text("type"); name != "" {
		return attributes.With("type", longType(name))
	}
	return attributes
}

// custom runs an operation that qdmanage knows nothing about. The arguments and
// --properties become application properties; the options win over both.
func (t *Task) custom(ctx context.Context, agent *client.Agent) ([]byte, error) {
	properties, err := parseAttributes(t.args, t.opts.Type)
	if err != nil {
		return nil, err
	}
	if t.opts.Properties != "" {
		extra, err := jsonOrText(t.opts.Properties)
		if err != nil {
			return nil, err
		}
		m, ok := extra.(client.Map)
		if !ok {
			return nil, client.Failf("ValueError", "--properties is not a JSON map")
		}
		for _, e := range m {
			properties = properties.With(e.Key, e.Value)
		}
	}
	for _, e := range []struct {
		key, value string
		given      bool
	}{
		{"type", t.opts.Type, false},
		{"name", t.opts.Name, t.opts.Named},
		{"identity", t.opts.Identity, t.opts.Identified},
	} {
		if e.value != "" || e.given {
			properties = properties.With(e.key, e.value)
		}
	}
	properties = slices.DeleteFunc(properties, func(e client.Entry) bool { return e.Value == nil })
	var body any
	if t.opts.Body != "" {
		if body, err = jsonOrText(t.opts.Body); err != nil {
			return nil, err
		}
	}
	reply, err := agent.Invoke(ctx, t.operation, properties, body)
	if err != nil {
		return nil, err
	}
	switch reply := reply.(type) {
	case nil:
		return nil, nil
	case string:
		if reply == "" {
			return nil, nil
		}
		return []byte(reply), nil
	case client.Map:
		if len(reply) == 0 {
			return nil, nil
		}
	case []any:
		if len(reply) == 0 {
			return nil, nil
		}
	}
	return t.json(reply, nil)
}
