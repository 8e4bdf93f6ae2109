package management

import (
	"slices"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/management/jsontext"
)

// typeByName finds a type by short or long name (MG 4.0: unknown ones are 400).
func typeByName(name string) (*config.EntityType, error) {
	if t := config.TypeByName(name); t != nil {
		return t, nil
	}
	return nil, badRequest("No such entity type '%s'", name)
}

// attributeNames lists a type's attributes: its own in schema order, then what
// every entity has (MG 4.7).
func attributeNames(t *config.EntityType) []string {
	all := t.AllAttributes()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}

// requestedTypes gives the types a GET operation is asked about: all, or the
// one in entityType.
func requestedTypes(req *Request) ([]*config.EntityType, error) {
	name := req.text("entityType")
	if name == "" {
		return config.Types(), nil
	}
	t, err := typeByName(name)
	if err != nil {
		return nil, err
	}
	return []*config.EntityType{t}, nil
}

// getTypes answers GET-TYPES: each type with its bases, nearest first; a type
// asked for brings its subtypes along (MG 4.6).
func getTypes(req *Request) (any, error) {
	asked, err := requestedTypes(req)
	if err != nil {
		return nil, err
	}
	body := amqp.Map{}
	for _, t := range config.Types() {
		if slices.ContainsFunc(asked, func(base *config.EntityType) bool { return t.Is(base.Name) }) {
			body = append(body, amqp.MapEntry{Key: t.LongName, Value: stringList(t.Bases)})
		}
	}
	return body, nil
}

// getOperations answers GET-OPERATIONS (MG 4.7).
func getOperations(req *Request) (any, error) {
	return describe(req, func(t *config.EntityType) amqp.List { return stringList(t.Operations) })
}

// getAttributes answers GET-ATTRIBUTES (MG 4.7).
func getAttributes(req *Request) (any, error) {
	return describe(req, func(t *config.EntityType) amqp.List { return stringList(attributeNames(t)) })
}

func describe(req *Request, what func(*config.EntityType) amqp.List) (any, error) {
	types, err := requestedTypes(req)
	if err != nil {
		return nil, err
	}
	body := amqp.Map{}
	for _, t := range types {
		body = append(body, amqp.MapEntry{Key: t.LongName, Value: what(t)})
	}
	return body, nil
}

// getSchema answers GET-SCHEMA (MG 4.10).
func getSchema(*Request) (any, error) { return schemaDump(), nil }

// getJSONSchema answers GET-JSON-SCHEMA: the same as JSON text, on one line
// unless an indent is asked for (MG 4.10).
func getJSONSchema(req *Request) (any, error) {
	indent, ok, err := req.integer("indent")
	if err != nil {
		return nil, err
	}
	if !ok {
		indent = -1
	}
	if indent > maxIndent {
		return nil, badRequest("indent %d is too wide, the limit is %d", indent, maxIndent)
	}
	return string(appendJSON(nil, schemaDump(), int(max(indent, jsontext.OneLine)))), nil
}

// maxIndent bounds the size of the text a request can ask for.
const maxIndent = 32

// schemaDump describes every type. Members that are false, 0, "" or absent are
// left out (MG 4.10).
func schemaDump() amqp.Map {
	types := amqp.Map{}
	for _, t := range config.Types() {
		attrs := amqp.Map{}
		for _, attr := range t.AllAttributes() {
			if attr.Name != "type" {
				attrs = append(attrs, amqp.MapEntry{Key: attr.Name, Value: attributeDump(&attr)})
			}
		}
		entry := amqp.Map{{Key: "attributes", Value: attrs}}
		entry = member(entry, "operations", stringList(t.Operations))
		entry = member(entry, "description", t.Description)
		entry = member(entry, "fullyQualifiedType", t.LongName)
		entry = member(entry, "deprecated", t.Deprecated)
		entry = member(entry, "singleton", t.Singleton)
		types = append(types, amqp.MapEntry{Key: t.ShortName(), Value: entry})
	}
	return amqp.Map{
		{Key: "prefix", Value: config.Prefix},
		{Key: "entityTypes", Value: types},
	}
}

func attributeDump(attr *config.Attribute) amqp.Map {
	var d amqp.Map
	if len(attr.Enum) > 0 {
		d = member(d, "type", stringList(attr.Enum))
	} else {
		d = member(d, "type", string(attr.Type))
	}
	d = member(d, "default", wire(plain(attr.Default)))
	d = member(d, "required", attr.Required)
	d = member(d, "unique", attr.Unique)
	d = member(d, "deprecated", attr.Deprecated)
	d = member(d, "description", attr.Description)
	return member(d, "graph", attr.Graph)
}

// member adds a member with a value, and leaves out one without.
func member(m amqp.Map, key string, value any) amqp.Map {
	switch v := value.(type) {
	case nil:
		return m
	case bool:
		if !v {
			return m
		}
	case string:
		if v == "" {
			return m
		}
	case int32:
		if v == 0 {
			return m
		}
	case amqp.List:
		if len(v) == 0 {
			return m
		}
	}
	return append(m, amqp.MapEntry{Key: key, Value: value})
}
