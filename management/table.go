package management

// A table is a snapshot of the entities of one or more types, in creation order.
type table interface {
	Len() int
	// Value gives an attribute of row i, nil where the row lacks it.
	Value(i int, attribute string) any
	// Column is Value for one attribute of many rows.
	Column(attribute string) func(i int) any
}

// columns says how the attributes of a T are read, by attribute name.
type columns[T any] map[string]func(*T) any

// A snapshot is a table of rows taken from the router at one moment.
type snapshot[T any] struct {
	rows    []T
	columns columns[T]
}

func (s *snapshot[T]) Len() int { return len(s.rows) }

func (s *snapshot[T]) Value(i int, attribute string) any {
	if get := s.columns[attribute]; get != nil {
		return get(&s.rows[i])
	}
	return nil
}

func (s *snapshot[T]) Column(attribute string) func(i int) any {
	get := s.columns[attribute]
	if get == nil {
		return func(int) any { return nil }
	}
	return func(i int) any { return get(&s.rows[i]) }
}

// find gives the row whose attribute has that text.
func find(t table, attribute, text string) (row int, ok bool) {
	value := t.Column(attribute)
	for i := range t.Len() {
		if value(i) == text {
			return i, true
		}
	}
	return 0, false
}
