package management

import "qdrouter/config"

// A configured object is one of a core type that the configuration file names and
// this release does not act on: it is shown, inactive, under an identity from the
// core's counter like any other.
type configured struct {
	kind     *kind
	identity string
	name     string
	*config.Entity
}

// configuredKind gives the kind of such a type. Its parts are missing, so nothing
// can be created or deleted.
func configuredKind(feature string) kind {
	return kind{
		fixed:   true,
		coreOps: map[string]coreOp{opQuery: coreQuery, opRead: coreRead, opCreate: needs(feature), opDelete: needs(feature)},
	}
}

// addConfigured lists an object of the configuration file.
func (a *Agent) addConfigured(k *kind, e *config.Entity) {
	identity, name := config.Identity(e, func() int64 { return int64(a.core.NextIdentity()) })
	a.configuredObjects = append(a.configuredObjects, &configured{k, identity, name, e})
}

func configuredRows(k *kind) func(*Agent, Asker) table {
	return func(a *Agent, _ Asker) table {
		s := &snapshot[*configured]{}
		for _, c := range a.configuredObjects {
			if c.kind == k {
				s.rows = append(s.rows, c)
			}
		}
		s.columns = columns[*configured]{}
		for _, column := range k.Columns {
			s.columns[column.Name] = configuredColumn(column)
		}
		return s
	}
}

// configuredColumn reads a column of a configured object: what is not one of its
// settings shows an object at rest.
func configuredColumn(column config.Column) func(**configured) any {
	setting := column.Name
	switch setting {
	case "name":
		return func(c **configured) any { return orNull((*c).name) }
	case "identity":
		return func(c **configured) any { return (*c).identity }
	case "type":
		return func(c **configured) any { return (*c).kind.LongName }
	case "operStatus":
		return func(**configured) any { return "inactive" }
	case "dir": // the older spelling is a column of its own
		setting = "direction"
	}
	switch column.Type {
	case "int":
		return func(c **configured) any { return int32((*c).Int(setting)) }
	case "boolean":
		return func(c **configured) any { return (*c).Bool(setting) }
	}
	return func(c **configured) any { return orNull((*c).Str(setting)) }
}
