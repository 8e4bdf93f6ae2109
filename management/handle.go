package management

import (
	"fmt"
	"strings"

	"qdrouter/amqp"
	"qdrouter/config"
)

// The operations every agent knows; in a request their letter case is free.
const (
	opCreate = "CREATE"
	opRead   = "READ"
	opUpdate = "UPDATE"
	opDelete = "DELETE"
	opQuery  = "QUERY"
)

var success = map[int]string{StatusOK: "OK", StatusCreated: "Created", StatusNoContent: "No Content"}

func succeeded(status int, body any) Response {
	return Response{Status: status, Description: success[status], Body: body}
}

// Handle carries out one request and gives its reply. Requests are handled one
// at a time, in the order of the calls. Whether the request has a reply-to does
// not matter here.
func (a *Agent) Handle(req Request) Response {
	a.mu.Lock()
	defer a.mu.Unlock()

	op := strings.ToUpper(req.text("operation")) // MG 4.0: case is free, hyphens are not
	k := a.coreTarget(&req, op)
	a.logRequest(&req)
	var resp Response
	if k != nil {
		resp = a.handleCore(k, op, &req)
	} else {
		resp = a.handleStored(op, &req)
	}
	a.logResponse(&req, &resp)
	return resp
}

// coreTarget gives the core type a request is for, if it is for one: the type
// alone decides, whatever name or identity say (MG 3).
func (a *Agent) coreTarget(req *Request, op string) *kind {
	switch op {
	case opCreate, opRead, opUpdate, opDelete, opQuery:
	default:
		return nil
	}
	name := req.text("entityType")
	if name == "" {
		name = req.text("type")
	}
	k := a.kindOf(name)
	if k == nil || !k.core() {
		return nil
	}
	// The one place where short and long names differ: READ of the short type
	// router gives its configuration, the long one is forbidden (MG 4.1).
	if k.EntityType.Name == "router" && op == opRead && name == k.EntityType.Name {
		return nil
	}
	return k
}

// handleCore answers for a core type, in the manner of the core half (MG 3).
func (a *Agent) handleCore(k *kind, op string, req *Request) Response {
	run, ok := k.coreOps[op]
	if !ok {
		// Holes of 1.19, which never answered these (MG 3).
		return coreFailure(op, notSupported("%s is not implemented for %s", op, k.LongName))
	}
	body, err := run(a, k, req)
	if err != nil {
		e := asError(err)
		if e.Status != StatusNotFound { // MG 10: plain 404s are not logged
			a.errorf("Error performing %s of %s: %s", op, k.LongName, e.Description)
		}
		return coreFailure(op, e)
	}
	switch op {
	case opCreate:
		if k.hasObjects() && req.text("type") != k.LongName {
			a.noteConfigured(k, body.(amqp.Map))
		}
		return succeeded(StatusCreated, body)
	case opDelete:
		return succeeded(StatusNoContent, amqp.Map{})
	}
	return succeeded(StatusOK, body)
}

// coreFailure gives the error reply of the core half: the body depends on the
// operation (MG 2.2).
func coreFailure(op string, e *Error) Response {
	resp := Response{Status: e.Status, Description: e.Description}
	switch op {
	case opCreate: // null
	case opQuery:
		resp.Body = amqp.Map{
			{Key: "attributeNames", Value: amqp.List{}},
			{Key: "results", Value: amqp.List{}},
		}
	default:
		resp.Body = amqp.Map{}
	}
	return resp
}

// handleStored answers everything else: the agent's own operations and those
// on stored entities (MG 4.0).
func (a *Agent) handleStored(op string, req *Request) Response {
	status, body, err := a.stored(op, req)
	if err != nil {
		e := asError(err)
		a.errorf("Error performing %s: %s", req.text("operation"), e.Description)
		return Response{Status: e.Status, Description: e.Description, Body: amqp.Map{}}
	}
	return succeeded(status, body)
}

func (a *Agent) stored(op string, req *Request) (status int, body any, err error) {
	switch {
	case len(req.Properties) == 0:
		return 0, nil, badRequest("the request has no application-properties")
	case op == "":
		return 0, nil, badRequest("No 'operation' property")
	case op == opCreate:
		body, err := a.create(req)
		return StatusCreated, body, err
	}
	target, err := a.target(req)
	if err != nil {
		return 0, nil, err
	}
	k := target.kind
	if k.core() && k.coreRows == nil {
		// Found by name or identity alone; the core answers for it.
		narrowed := *req
		narrowed.Properties = amqp.Map{{Key: "identity", Value: target.text("identity")}}
		run, ok := k.coreOps[op]
		if !ok {
			return 0, nil, notAllowed(k.EntityType, op)
		}
		body, err := run(a, k, &narrowed)
		if op == opDelete {
			return StatusNoContent, amqp.Map{}, err
		}
		return StatusOK, body, err
	}
	if !k.Allows(op) {
		return 0, nil, notAllowed(k.EntityType, op)
	}
	switch op {
	case opRead:
		return StatusOK, target.attributes(), nil
	case opUpdate:
		body, err := a.update(target, req)
		return StatusOK, body, err
	case opDelete:
		return StatusNoContent, amqp.Map{}, a.delete(target)
	}
	run := k.custom[op]
	if run == nil {
		return 0, nil, notSupported("%s is not available in this router", op)
	}
	body, err = run(a, req)
	return StatusOK, body, err
}

func notAllowed(t *config.EntityType, op string) *Error {
	return notSupported("Operation '%s' not implemented for '%s' [%s]", op, t.LongName, strings.Join(t.Operations, ", "))
}

// A target is the entity a request is for: a row of a table.
type target struct {
	kind *kind
	rows table
	row  int
}

func (t target) value(attribute string) any   { return t.rows.Value(t.row, attribute) }
func (t target) text(attribute string) string { return scalarText(t.value(attribute)) }

// attributes gives the attribute map of a stored entity: what has a value, in
// schema order (MG 4.1).
func (t target) attributes() amqp.Map {
	m := amqp.Map{}
	for _, name := range attributeNames(t.kind.EntityType) {
		if v := t.value(name); v != nil {
			m = append(m, amqp.MapEntry{Key: name, Value: v})
		}
	}
	return m
}

// target finds the entity a request is for, among all that a query without a
// type lists (MG 4.0).
func (a *Agent) target(req *Request) (target, error) {
	var asked *config.EntityType
	if name := req.text("type"); name != "" {
		t, err := typeByName(name)
		if err != nil {
			return target{}, err
		}
		asked = t
	}
	name, identity := req.text("name"), req.text("identity")
	if !req.has("name") && !req.has("identity") {
		self := a.kindOf("management")
		if asked == nil || self.Is(asked.Name) {
			return target{self, self.rows(a, req.From), 0}, nil
		}
		return target{}, badRequest("%s: No name or identity provided", asked.LongName)
	}

	key, value := "name", name
	if !req.has("name") {
		key, value = "identity", identity
	}
	var hits, others []target
	for _, k := range a.kinds {
		if !k.listed() {
			continue
		}
		rows := k.rows(a, req.From)
		for i := range rows.Len() {
			if rows.Value(i, key) != value {
				continue
			}
			if asked == nil || k.Is(asked.Name) {
				hits = append(hits, target{k, rows, i})
			} else {
				others = append(others, target{k, rows, i})
			}
		}
	}
	switch {
	case len(hits) > 1:
		return target{}, internalError("Duplicate (%d) entities with %s=%s", len(hits), key, value)
	case len(hits) == 0 && len(others) > 0:
		return target{}, badRequest("Entity type '%s' does not extend requested type '%s'",
			others[0].kind.LongName, asked.LongName)
	case len(hits) == 0:
		return target{}, notFound("No entity with %s", selectors(req))
	}
	hit := hits[0]
	if req.has("name") && req.has("identity") && hit.value("identity") != identity {
		return target{}, badRequest("Conflicting %s", selectors(req))
	}
	return hit, nil
}

// selectors shows how a request names its entity, as in name=<name> identity=<id>.
func selectors(req *Request) string {
	var parts []string
	for _, key := range []string{"name", "identity"} {
		if req.has(key) {
			parts = append(parts, key+"="+req.text(key))
		}
	}
	return strings.Join(parts, " ")
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("'%s'", name)
	}
	return strings.Join(quoted, ", ")
}
