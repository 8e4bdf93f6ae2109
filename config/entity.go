package config

// An Entity is one section of a configuration file, or what a CREATE request
// asks for, after it was checked against its type.
type Entity struct {
	Type *EntityType

	// Attrs holds the values by current attribute name, defaults included. What has
	// neither a value nor a default is absent.
	Attrs map[string]any
	// Given tells which attributes of Attrs were set, under whatever name, and not
	// filled in.
	Given map[string]bool

	File  string         // where the section stands; "" when it was filled in or came by request
	Line  int            // of its first line, counted from 1
	Lines map[string]int // of each attribute given, by current name
}

// Str returns the value of a string attribute, or "".
func (e *Entity) Str(name string) string { s, _ := e.Attrs[name].(string); return s }

// Int returns the value of an integer attribute, or 0.
func (e *Entity) Int(name string) int64 { n, _ := e.Attrs[name].(int64); return n }

// Bool returns the value of a boolean attribute, or false.
func (e *Entity) Bool(name string) bool { b, _ := e.Attrs[name].(bool); return b }

// Map returns the value of a map attribute, or nil.
func (e *Entity) Map(name string) map[string]any { m, _ := e.Attrs[name].(map[string]any); return m }

// Has reports whether the attribute has a value, its own or a default.
func (e *Entity) Has(name string) bool { _, ok := e.Attrs[name]; return ok }
