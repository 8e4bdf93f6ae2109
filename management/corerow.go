package management

import (
	"strconv"

	"qdrouter/amqp"
	"qdrouter/config"
)

// columnMap gives a row of a core type as a map: every column, null when empty
// (MG 4.1).
func columnMap(k *kind, rows table, row int) amqp.Map {
	names := coreColumns(k.EntityType)
	m := make(amqp.Map, len(names))
	for i, name := range names {
		m[i] = amqp.MapEntry{Key: name, Value: rows.Value(row, name)}
	}
	return m
}

// coreRow finds the entity of a core type that a request names: identity wins,
// and then a name beside it is ignored (MG 4.0).
func coreRow(a *Agent, k *kind, req *Request) (rows table, row int, err error) {
	key := "identity"
	if !req.has(key) {
		key = "name"
	}
	if !req.has(key) {
		return nil, 0, badRequest("No name or identity provided")
	}
	rows = k.rows(a, req.From)
	row, ok := find(rows, key, req.text(key))
	if !ok {
		return nil, 0, notFound("Not Found")
	}
	return rows, row, nil
}

// coreRead answers READ of a core type.
func coreRead(a *Agent, k *kind, req *Request) (any, error) {
	rows, row, err := coreRow(a, k, req)
	if err != nil {
		return nil, err
	}
	return columnMap(k, rows, row), nil
}

// coreDelete answers DELETE of a core type's objects, which remove takes away.
func coreDelete(remove func(a *Agent, req *Request, id uint64) error) coreOp {
	return func(a *Agent, k *kind, req *Request) (any, error) {
		rows, row, err := coreRow(a, k, req)
		if err != nil {
			return nil, err
		}
		identity := scalarText(rows.Value(row, "identity"))
		id, err := strconv.ParseUint(identity, 10, 64)
		if err != nil {
			return nil, err
		}
		if err := remove(a, req, id); err != nil {
			return nil, coreError(err)
		}
		delete(a.shadowed, identity)
		return nil, nil
	}
}

// coreColumns lists the columns of a core type: those of 1.19 in wire order, then
// what the schema knows by another name (MG 7.5).
func coreColumns(t *config.EntityType) []string {
	names := make([]string, len(t.Columns), len(t.Columns)+1)
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	if t.Name == "router.config.address" {
		names = append(names, "enableFallback")
	}
	return names
}
