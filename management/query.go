package management

import (
	"slices"

	"qdrouter/amqp"
	"qdrouter/config"
)

// A page is the answer to a QUERY: some rows under a heading. The rows are a
// snapshot, so they can be encoded at leisure.
type page struct {
	names []string
	cell  func(row, column int) any // columns are those of names
	from  int                       // first row, 0-based
	to    int                       // behind the last row
	total int                       // rows there are
}

// append appends the body of the reply, encoded (MG 4.2).
func (p *page) append(b []byte) []byte {
	const usual = 6 // octets in a cell
	b = slices.Grow(b, usual*len(p.names)*(1+p.to-p.from))
	b, body := amqp.BeginCompound(b)
	b = amqp.AppendString(b, "attributeNames")
	b = amqp.AppendValue(b, p.names)
	b = amqp.AppendString(b, "results")
	b, results := amqp.BeginCompound(b)
	for i := p.from; i < p.to; i++ {
		var row int
		b, row = amqp.BeginCompound(b)
		for column := range p.names {
			b = amqp.AppendValue(b, p.cell(i, column))
		}
		b = amqp.EndList(b, row, len(p.names))
	}
	b = amqp.EndList(b, results, p.to-p.from)
	return amqp.EndMap(b, body, 2)
}

func values(t table, row int, names []string) amqp.List {
	list := make(amqp.List, len(names))
	for i, name := range names {
		list[i] = t.Value(row, name)
	}
	return list
}

// newPage cuts out the window a request asks for. A negative offset is 0; a
// count of 0, a negative one or none at all means all (MG 4.2).
func newPage(req *Request, names []string, total int, cell func(row, column int) any) (*page, error) {
	offset, _, err := req.integer("offset")
	if err != nil {
		return nil, err
	}
	count, _, err := req.integer("count")
	if err != nil {
		return nil, err
	}
	p := &page{names: names, cell: cell, to: total, total: total}
	p.from = int(min(max(offset, 0), int64(total)))
	if count > 0 && count < int64(total-p.from) {
		p.to = p.from + int(count)
	}
	return p, nil
}

// requestedNames gives the attributeNames of a QUERY; none at all means all. An
// entry that is no string is left out (MG 4.2).
func requestedNames(req *Request) []string {
	body, _ := req.Body.(amqp.Map)
	value, _ := body.Get("attributeNames")
	list, _ := plain(value).([]any)
	var names []string
	for _, item := range list {
		if name, ok := item.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// coreQuery answers QUERY of a core type: every row, unknown attributes left out
// of heading and rows (MG 4.2).
func coreQuery(a *Agent, k *kind, req *Request) (any, error) {
	all := coreColumns(k.EntityType)
	names := requestedNames(req)
	if names == nil {
		names = all
	} else {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(all, name) })
	}
	rows := a.readers.resume(req, k, a.now())
	if rows == nil {
		list := k.rows
		if k.coreRows != nil {
			list = k.coreRows
		}
		rows = list(a, req.From)
	}
	cells := make([]func(int) any, len(names))
	for i, name := range names {
		cells[i] = rows.Column(name)
	}
	p, err := newPage(req, names, rows.Len(), func(row, column int) any { return cells[column](row) })
	if err != nil {
		return nil, err
	}
	a.readers.keep(req, k, p, rows, a.now())
	return p, nil
}

// query answers QUERY of stored types, of abstract types and of all types: rows
// where every requested attribute is null are left out, and so is what of a core
// type was created by request (MG 4.2).
func query(a *Agent, req *Request) (any, error) {
	var asked *config.EntityType
	if name := req.text("entityType"); name != "" {
		t, err := typeByName(name)
		if err != nil {
			return nil, err
		}
		asked = t
	}
	known, ofType := everyAttribute(), ""
	if asked != nil {
		known, ofType = attributeNames(asked), " for type "+asked.LongName
	}
	names := requestedNames(req)
	if names == nil {
		names = known
	}
	var unknown []string
	for _, name := range names {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return nil, notFound("Unknown attributes [%s]%s", quoteAll(unknown), ofType)
	}

	var matching []amqp.List
	for _, k := range a.kinds {
		if k.rows == nil || asked == nil && !k.listed() || asked != nil && !k.Is(asked.Name) {
			continue
		}
		rows := k.rows(a, req.From)
		shown := func(int) bool { return true }
		if k.hasObjects() {
			shown = a.inConfiguration(k, rows)
		}
		for i := range rows.Len() {
			if !shown(i) {
				continue
			}
			row := values(rows, i, names)
			if slices.ContainsFunc(row, func(v any) bool { return v != nil }) {
				matching = append(matching, row)
			}
		}
	}
	return newPage(req, names, len(matching), func(row, column int) any { return matching[row][column] })
}

// everyAttribute lists the attributes of all types, each once (MG 4.2).
func everyAttribute() []string {
	seen := map[string]bool{}
	var names []string
	for _, t := range config.Types() {
		for _, name := range attributeNames(t) {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
