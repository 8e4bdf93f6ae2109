package config

// Config is a configuration file that was read and checked.
type Config struct {
	Path string

	// Entities stand in file order; router and policy are added at the end when the
	// file lacks them (CFG B26), and then the vhosts of policyDir. Those that 1.19
	// drops with a warning (CFG D1 to D5) are not among them. The router has an id, a
	// random one if need be.
	Entities []*Entity

	// Warnings are the log events that reading the file causes, in order.
	Warnings []Warning

	// Unimplemented names, each once, what the file asks for and this router has not
	// learnt yet: a section ("linkRoute"), or a section and a setting ("listener
	// http", "connector role edge").
	Unimplemented []string
}

// A Warning is a log event of module Module with level "warning" or "error".
type Warning struct {
	Module string
	Level  string
	Text   string
}

// Format is the syntax of a configuration file.
type Format int

// The formats.
const (
	FormatConf Format = iota
	FormatJSON
	FormatYAML
)

// Router returns the router entity.
func (c *Config) Router() *Entity { return c.first("router") }

// Policy returns the policy entity.
func (c *Config) Policy() *Entity { return c.first("policy") }

func (c *Config) first(typeName string) *Entity {
	for _, e := range c.Entities {
		if e.Type.Name == typeName {
			return e
		}
	}
	return nil
}

// Of returns the entities of the type of that schema name, in order.
func (c *Config) Of(typeName string) []*Entity {
	var of []*Entity
	for _, e := range c.Entities {
		if e.Type.Name == typeName {
			of = append(of, e)
		}
	}
	return of
}
