package client

import (
	"context"
	"iter"
	"slices"

	"qdrouter/amqp"
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
	Body        amqp.Raw // not decoded: of a long table most is not needed at once
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
type Selector struct {
	Type, Name, Identity string

	// A name or an identity that is empty is sent. It selects nothing, where none at
	// all selects the agent itself.
	Named, Identified bool
}

func (s Selector) properties(operation string) Map {
	if s.Name != "" && s.Identity != "" {
		s.Name, s.Named = "", false
	}
	m := Map{{"operation", operation}}
	m = appendText(m, "type", s.Type)
	if s.Name != "" || s.Named {
		m = append(m, Entry{"name", s.Name})
	}
	if s.Identity != "" || s.Identified {
		m = append(m, Entry{"identity", s.Identity})
	}
	return m
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
	list, _ := body.([]any)
	entries := make([][]any, len(list))
	for i, item := range list {
		entries[i], _ = item.([]any)
	}
	return entries, nil
}

// Invoke runs any operation with the given properties and body, and returns the
// body of the reply.
func (a *Agent) Invoke(ctx context.Context, operation string, properties Map, body any) (any, error) {
	p := slices.Clone(properties).With("operation", operation)
	return a.expect(ctx, StatusOK, Request{p, body})
}

// A Table is the result of a query: rows of values under column names. Rows are
// kept as they came and decoded when they are looked at, so that a table of many
// thousand rows costs little more than its octets.
type Table struct {
	Names []string
	rows  []amqp.Raw // lists
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// All goes over the rows, each as long as Names. A row is good until the next.
func (t *Table) All() iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		row := make([]any, len(t.Names))
		for _, encoded := range t.rows {
			items, _ := amqp.IterList(encoded) // checked with the message it came in
			for i := range row {
				item, ok := items.Next()
				if !ok {
					row[i] = nil
					continue
				}
				row[i] = decode(item, row[i])
			}
			if !yield(row) {
				return
			}
		}
	}
}

// decode is plain of an encoded value. What was in its place before is taken
// again if it is the same: most columns repeat themselves.
func decode(item amqp.Raw, before any) any {
	if text, ok := item.Text(); ok {
		if s, ok := before.(string); ok && s == string(text) {
			return before
		}
		return string(text)
	}
	if n, ok := item.Int(); ok {
		if m, ok := before.(int64); ok && m == n {
			return before
		}
		return n
	}
	v, _ := item.Value()
	return plain(v)
}

// Where returns the table of the rows that wanted accepts.
func (t *Table) Where(wanted func(row []any) bool) *Table {
	some := &Table{Names: t.Names}
	i := 0
	for row := range t.All() {
		if wanted(row) {
			some.rows = append(some.rows, t.rows[i])
		}
		i++
	}
	return some
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
			count = min(count, limit-table.Len())
		}
		p := appendText(nodeProperties("QUERY"), "entityType", entityType)
		p = append(p, Entry{"offset", int64(table.Len())}, Entry{"count", int64(count)})
		body, err := a.ask(ctx, StatusOK, Request{p, Map{{"attributeNames", names}}})
		if err != nil {
			return nil, err
		}
		heading, rows, err := pageOf(body)
		if err != nil {
			return nil, err
		}
		if table.Names == nil {
			table.Names = heading
		}
		table.rows = append(table.rows, rows...)
		if len(rows) < count || limit > 0 && table.Len() >= limit {
			return table, nil
		}
	}
}

// pageOf takes the reply to a QUERY apart.
func pageOf(body amqp.Raw) (heading []string, rows []amqp.Raw, err error) {
	entries, err := amqp.IterMap(body)
	if err != nil || body.IsNull() {
		return nil, nil, Failf(badValue, "reply to QUERY has no map in its body")
	}
	for key, value, ok := entries.Next(); ok; key, value, ok = entries.Next() {
		name, _ := key.Text()
		items, err := amqp.IterList(value)
		if err != nil {
			continue
		}
		switch string(name) {
		case "attributeNames":
			for item, ok := items.Next(); ok; item, ok = items.Next() {
				text, _ := item.Text()
				heading = append(heading, string(text))
			}
		case "results":
			rows = make([]amqp.Raw, 0, items.Len())
			for item, ok := items.Next(); ok; item, ok = items.Next() {
				rows = append(rows, item)
			}
		}
	}
	return heading, rows, nil
}

// nodeProperties are the properties of an operation of the agent itself.
func nodeProperties(operation string) Map {
	return Map{{"operation", operation}, {"type", "org.amqp.management"}, {"name", "self"}}
}

// expect calls the agent and takes any status but want for an error.
func (a *Agent) expect(ctx context.Context, want int, r Request) (any, error) {
	body, err := a.ask(ctx, want, r)
	if err != nil {
		return nil, err
	}
	v, err := body.Value()
	if err != nil {
		return nil, Failf(badValue, "reply: %w", err)
	}
	return plain(v), nil
}

// ask is expect that leaves the body as it came.
func (a *Agent) ask(ctx context.Context, want int, r Request) (amqp.Raw, error) {
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
