package client

import (
	"context"
	"slices"
)

// A Request is one request to an agent (MG 2.1).
type Request struct {
	Properties Map // application properties: operation, type, name …
	Body       any // nil is sent as an empty map
}

// A Reply is the agent's answer (MG 2.2).
type Reply struct {
	Status      int // statusCode
	Description string
	Body        any
}

// A Call sends a request to one agent and waits for the reply to it. The error
// tells of the way there and back; a refusal is a Reply.
type Call func(ctx context.Context, r Request) (Reply, error)

// An Agent is a management agent at the far end of a Call.
type Agent struct{ call Call }

// NewAgent returns the agent behind call.
func NewAgent(call Call) *Agent { return &Agent{call} }

// A Selector names the entity that an operation is about; what is empty is not
// sent. Of name and identity only the identity is sent (MG 11.4).
type Selector struct{ Type, Name, Identity string }

func (s Selector) properties(operation string) Map {
	if s.Identity != "" {
		s.Name = ""
	}
	m := Map{{"operation", operation}}
	m = appendText(m, "type", s.Type)
	m = appendText(m, "name", s.Name)
	return appendText(m, "identity", s.Identity)
}

func appendText(m Map, key, text string) Map {
	if text == "" {
		return m
	}
	return append(m, Entry{key, text})
}

// Create makes an entity and returns its attributes.
func (a *Agent) Create(ctx context.Context, entityType, name string, attributes Map) (any, error) {
	p := Selector{Type: entityType, Name: name}.properties("CREATE")
	return a.expect(ctx, StatusCreated, Request{p, attributes})
}

// Read returns the attributes of an entity.
func (a *Agent) Read(ctx context.Context, s Selector) (any, error) {
	return a.expect(ctx, StatusOK, Request{Properties: s.properties("READ")})
}

// Update changes attributes of an entity and returns all it has then.
func (a *Agent) Update(ctx context.Context, s Selector, attributes Map) (any, error) {
	return a.expect(ctx, StatusOK, Request{s.properties("UPDATE"), attributes})
}

// Delete removes an entity.
func (a *Agent) Delete(ctx context.Context, s Selector) error {
	_, err := a.expect(ctx, StatusNoContent, Request{Properties: s.properties("DELETE")})
	return err
}

// Get runs an operation of the agent itself, such as GET-TYPES, that may be
// restricted to an entity type.
func (a *Agent) Get(ctx context.Context, operation, entityType string) (any, error) {
	p := appendText(nodeProperties(operation), "entityType", entityType)
	return a.expect(ctx, StatusOK, Request{Properties: p})
}

// Nodes returns the addresses of the agents of all routers of the network, or
// none when there is only one router (MG 4.9).
func (a *Agent) Nodes(ctx context.Context) ([]string, error) {
	body, err := a.Get(ctx, "GET-MGMT-NODES", "")
	if err != nil {
		return nil, err
	}
	var nodes []string
	list, _ := body.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			nodes = append(nodes, text)
		}
	}
	return nodes, nil
}

// Log returns the newest limit entries of the router's log, oldest first, each
// of the six values of MG 4.11; 0 means all.
func (a *Agent) Log(ctx context.Context, limit int) ([][]any, error) {
	p := nodeProperties("GET-LOG")
	if limit != 0 {
		p = append(p, Entry{"limit", int64(limit)})
	}
	body, err := a.expect(ctx, StatusOK, Request{Properties: p})
	if err != nil {
		return nil, err
	}
	return rowsOf(body), nil
}

// Invoke runs any operation with the given properties and body, and returns the
// body of the reply.
func (a *Agent) Invoke(ctx context.Context, operation string, properties Map, body any) (any, error) {
	p := slices.Clone(properties).With("operation", operation)
	return a.expect(ctx, StatusOK, Request{p, body})
}

// A Table is the result of a query: rows of values under column names.
type Table struct {
	Names []string
	Rows  [][]any // each as long as Names
}

// Column is the place of an attribute in the rows, or -1.
func (t *Table) Column(name string) int { return slices.Index(t.Names, name) }

// pageSize is the most rows asked for in one request. Old routers and clients
// cannot take very large messages (MG 11.4).
const pageSize = 500

// Query returns the named attributes, or all of them, of every entity of a type,
// or of every type when it is empty. A limit above 0 ends the table after so many
// rows. It asks page after page until one is short: entities that come and go
// meanwhile may be missed or appear twice (MG 4.2).
func (a *Agent) Query(ctx context.Context, entityType string, attributes []string, limit int) (*Table, error) {
	names := make([]any, len(attributes))
	for i, name := range attributes {
		names[i] = name
	}
	table := &Table{}
	for {
		count := pageSize
		if limit > 0 {
			count = min(count, limit-len(table.Rows))
		}
		p := appendText(nodeProperties("QUERY"), "entityType", entityType)
		p = append(p, Entry{"offset", int64(len(table.Rows))}, Entry{"count", int64(count)})
		body, err := a.expect(ctx, StatusOK, Request{p, Map{{"attributeNames", names}}})
		if err != nil {
			return nil, err
		}
		page, ok := body.(Map)
		if !ok {
			return nil, Failf(badValue, "reply to QUERY has no map in its body")
		}
		heading, _ := page.Get("attributeNames")
		results, _ := page.Get("results")
		if table.Names == nil {
			list, _ := heading.([]any)
			for _, item := range list {
				name, _ := item.(string)
				table.Names = append(table.Names, name)
			}
		}
		rows := rowsOf(results)
		for _, row := range rows {
			table.Rows = append(table.Rows, fit(row, len(table.Names)))
		}
		if len(rows) < count || limit > 0 && len(table.Rows) >= limit {
			return table, nil
		}
	}
}

func rowsOf(v any) [][]any {
	list, _ := v.([]any)
	rows := make([][]any, len(list))
	for i, item := range list {
		rows[i], _ = item.([]any)
	}
	return rows
}

// fit pads or cuts a row to n values.
func fit(row []any, n int) []any {
	if len(row) > n {
		return row[:n]
	}
	return append(row, make([]any, n-len(row))...)
}

// nodeProperties are the properties of an operation of the agent itself.
func nodeProperties(operation string) Map {
	return Map{{"operation", operation}, {"type", "org.amqp.management"}, {"name", "self"}}
}

// expect calls the agent and takes any status but want for an error.
func (a *Agent) expect(ctx context.Context, want int, r Request) (any, error) {
	reply, err := a.call(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case reply.Status == want:
		return reply.Body, nil
	case reply.Status >= 200 && reply.Status <= 299:
		return nil, Failf(badValue, "Response was %d but expected %d: %s", reply.Status, want, reply.Description)
	}
	return nil, &StatusError{reply.Status, reply.Description}
}
