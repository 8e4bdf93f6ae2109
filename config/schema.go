package config

import (
	"slices"
	"strings"
)

// Prefix is what stands before the dot of every long type name.
const Prefix = "org.apache.qpid.dispatch"

// AttrType is the schema type of an attribute.
type AttrType string

// The schema types. Path and EntityID are strings with a hint for people.
const (
	String     AttrType = "string"
	Path       AttrType = "path"
	EntityID   AttrType = "entityId"
	Integer    AttrType = "integer"
	Boolean    AttrType = "boolean"
	Enum       AttrType = "enum"
	Map        AttrType = "map"
	List       AttrType = "list"
	Properties AttrType = "properties" // a map whose keys are ASCII strings
)

// Attribute describes one attribute of an entity type.
type Attribute struct {
	Name            string
	Type            AttrType
	Enum            []string // the tags of an Enum, in index order
	Default         any      // string, int64 or bool; nil when there is none
	Required        bool     // an entity without it is refused
	Unique          bool     // no two entities may have the same value
	Create          bool     // may be given in CREATE
	Update          bool     // may be given in UPDATE
	Graph           bool     // a number worth plotting over time
	Hidden          bool     // masked in logs
	New             bool     // not in 1.19; read-only ones are listed by default all the same
	Deprecated      bool     // accepted, and of no use any more
	DeprecationName string   // an older name still accepted on input (CFG B30)
	Description     string
}

// Column is one value of a row that the router core reports for an entity.
type Column struct {
	Name     string
	Type     string // AMQP type: "string", "uint", "list<ulong>" …
	Nullable bool
}

// Holder says which half of the agent answers for a type (MG 3).
type Holder string

// The holders. HeldByBoth is the router entity: its counters come from the core
// by QUERY, its settings from the configuration.
const (
	HeldByNone   Holder = "none" // has no instances
	HeldByConfig Holder = "config-agent"
	HeldByCore   Holder = "core"
	HeldByBoth   Holder = "both"
	Forbidden    Holder = "forbidden" // every request answers 403
)

// Kind sorts the entity types by what they are for.
type Kind string

// The kinds of entity types.
const (
	KindBase          Kind = "base" // abstract
	KindManagement    Kind = "management"
	KindConfiguration Kind = "configuration"
	KindOperational   Kind = "operational"
	KindEmbedded      Kind = "embedded" // the shape of a map inside another entity
	KindTest          Kind = "test"
)

// EntityType describes one type of management entity.
type EntityType struct {
	Name        string   // schema name, for instance "listener" or "router.config.address"
	LongName    string   // Prefix + "." + Name
	Extends     string   // schema name of the type it inherits from; "" for entity
	Bases       []string // long names of all types it inherits from, nearest first
	Operations  []string // what may be asked of it: its own first, then inherited
	Attributes  []Attribute
	Kind        Kind
	HeldBy      Holder
	Section     bool // may stand in a configuration file, under ShortName
	Singleton   bool
	Deprecated  bool
	Description string
	Columns     []Column // types the core answers for: columns of a row, in default order
}

// ShortName is the name of the type in configuration files, in GET-SCHEMA and in
// texts: the schema name without "router.config.".
func (t *EntityType) ShortName() string { return strings.TrimPrefix(t.Name, "router.config.") }

// Attribute returns the attribute of that current name, inherited ones included,
// or nil.
func (t *EntityType) Attribute(name string) *Attribute {
	for i := range t.Attributes {
		if t.Attributes[i].Name == name {
			return &t.Attributes[i]
		}
	}
	for i := range entityType.Attributes {
		if entityType.Attributes[i].Name == name {
			return &entityType.Attributes[i]
		}
	}
	return nil
}

// Lookup returns the attribute that has this name, or once had it, or nil.
func (t *EntityType) Lookup(name string) *Attribute {
	if a := t.Attribute(name); a != nil {
		return a
	}
	for i := range t.Attributes {
		if old := t.Attributes[i].DeprecationName; old != "" && old == name {
			return &t.Attributes[i]
		}
	}
	return nil
}

// AllAttributes lists the type's own attributes in schema order and then name,
// identity and type, which every type inherits (MG 4.7).
func (t *EntityType) AllAttributes() []Attribute {
	if t == entityType {
		return t.Attributes
	}
	return slices.Concat(t.Attributes, entityType.Attributes)
}

// Is reports whether t is the type named, by its short or long name, or inherits
// from it.
func (t *EntityType) Is(name string) bool {
	long := LongName(name)
	return t.LongName == long || slices.Contains(t.Bases, long)
}

// Allows reports whether the operation, in upper case, may be asked of the type.
func (t *EntityType) Allows(operation string) bool { return slices.Contains(t.Operations, operation) }

// Types lists all entity types in schema order. The types are shared: do not
// change them.
func Types() []*EntityType { return types }

// TypeByName returns the type of that schema name or long name, or nil.
func TypeByName(name string) *EntityType { return typesByName[LongName(name)] }

// LongName puts Prefix before a name that does not have it yet.
func LongName(name string) string {
	if strings.HasPrefix(name, Prefix+".") {
		return name
	}
	return Prefix + "." + name
}

// typeBySection returns the type that a section of a configuration file makes, or
// nil. The name is in camel case (CFG B14, B15).
func typeBySection(section string) *EntityType {
	t := TypeByName(section)
	if t == nil {
		t = TypeByName("router.config." + section)
	}
	if t == nil || !t.Section || t.ShortName() != section {
		return nil
	}
	return t
}

var (
	types       = linkTypes(schemaTable)
	typesByName = indexTypes(types)
	entityType  = typesByName[Prefix+".entity"]
)

// linkTypes completes the table: long names, bases and inherited operations.
func linkTypes(table []EntityType) []*EntityType {
	byName := make(map[string]*EntityType, len(table))
	for i := range table {
		byName[table[i].Name] = &table[i]
	}
	linked := make([]*EntityType, len(table))
	for i := range table {
		t := table[i]
		t.LongName = LongName(t.Name)
		t.Operations = slices.Clone(t.Operations)
		for base := byName[t.Extends]; base != nil; base = byName[base.Extends] {
			t.Bases = append(t.Bases, LongName(base.Name))
			for _, op := range base.Operations {
				if !slices.Contains(t.Operations, op) {
					t.Operations = append(t.Operations, op)
				}
			}
		}
		linked[i] = &t
	}
	return linked
}

func indexTypes(types []*EntityType) map[string]*EntityType {
	m := make(map[string]*EntityType, len(types))
	for _, t := range types {
		m[t.LongName] = t
	}
	return m
}
