package config

// Config is a configuration file that was read and checked.
type Config struct {
	Path string

	// Entities stand in file order; router and policy are added at the end when the
	// file lacks them (CFG B26), and then the vhosts of policyDir. Those that 1.19
	// drops with a warning (CFG D1 to D5) are not among them.
	Entities []*Entity

	// Warnings are the log events that reading the file causes, in order.
	Warnings []Warning

	// Unimplemented names, each once, what the file asks for and this router has not
	// learnt yet: a section ("linkRoute"), or a section and a setting
	// ("listener http").
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

// FormatOf returns the format of the file of that name (CFG B1).
func FormatOf(path string) Format { return FormatConf }

// Load reads and checks the configuration file at path, and the files of its
// policyDir.
//
// The Config is never nil: with an error it holds Path and the Warnings up to the
// error, which are to be logged all the same. The text of the error is the reason
// of CFG A18 and A19; it has more than one line when there is more than one
// problem. An error about the contents of the file is a *LoadError.
func Load(path string) (*Config, error) { return &Config{Path: path}, nil }

// Parse checks the contents of a configuration file called name. Unlike Load it
// reads no other file: no policyDir, no password files.
func Parse(name string, format Format, data []byte) (*Config, error) { return &Config{Path: name}, nil }

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

// A LoadError tells everything that is wrong with a configuration file.
type LoadError struct {
	Path     string
	Problems []*Problem // at least one, in the order of the file
}

func (e *LoadError) Error() string { return "" }

// A Problem is one thing that is wrong with a configuration file.
type Problem struct {
	File    string
	Line    int    // 0 when the problem is not at one place
	Section string // short type name, or "" outside of sections
	Attr    string // or "" when the problem is the section itself
	Kind    string // what 1.19 called the error when it applied the section: "AttributeError" …; "" for the file itself
	Text    string
	Hint    string // a name that may have been meant, or ""
}

func (p *Problem) Error() string { return p.Text }

// An AttrError tells what is wrong with an entity or one of its attributes.
type AttrError struct {
	Type *EntityType
	Attr string // as it was given, or "" when the error is about the entity
	Msg  string
	Hint string // a name that may have been meant, or ""
	Kind string // see Problem
}

func (e *AttrError) Error() string { return e.Type.LongName + ": " + e.Msg }

// Normalize makes an entity of type t from attributes as they were given: in a
// configuration file, or in the body of a CREATE request. It fills in defaults
// and converts values (MG 6.1, 6.2; CFG B18 to B25), accepts the older names of
// attributes (CFG B30), and refuses numbers that make no sense (CFG B24).
//
// Values may be of any scalar Go type, named ones included, map[string]any or
// []any; nil counts as absent. The map itself is left alone.
//
// The warnings are texts for the log, module AGENT. The error joins one *AttrError
// for each problem.
func Normalize(t *EntityType, attrs map[string]any) (e *Entity, warnings []string, err error) {
	return &Entity{Type: t, Attrs: map[string]any{}}, nil, nil
}

// CheckCreate tells whether a CREATE request may set these attributes: each must
// be known, by its current or older name, and have the Create flag (MG 4.3). The
// error joins one *AttrError for each that may not.
func CheckCreate(t *EntityType, attrs map[string]any) error { return nil }

// CheckUpdate is CheckCreate for UPDATE (MG 4.4). Values equal to the present
// ones of old may always be given.
func CheckUpdate(old *Entity, changes map[string]any) error { return nil }

// ValidateCross checks e against the entities that exist (CFG B26 to B29, MG 6.5):
// singletons, names unique over all types, roles that the router's mode allows,
// the router's id. Existing must not hold e, and holds the router if there is one
// yet. The error is an *AttrError, or joins several.
func ValidateCross(e *Entity, existing []*Entity) error { return nil }

// Identity returns the identity of an entity and its name when it was given none
// (MG 5). Counter yields the next number of the types that are numbered; it is not
// called for the others. The name is "" where the rule says null.
func Identity(e *Entity, counter func() int64) (identity, name string) { return "", "" }

// PasswordKind tells whose password it is, for the prefixes differ (CFG S4).
type PasswordKind int

// The kinds of passwords.
const (
	SSLProfilePassword PasswordKind = iota
	ConnectorPassword               // here "literal:" is no prefix
)

// ResolvePassword returns the password that a configured value stands for: itself,
// or what env:NAME, file:PATH, pass:TEXT or literal:TEXT name (CFG S4, S6).
func ResolvePassword(kind PasswordKind, value string) (password string, warnings []Warning, err error) {
	return value, nil, nil
}

// Password returns the resolved password of an sslProfile or a connector, or ""
// when it has none (CFG S4 to S6).
func (e *Entity) Password() (password string, warnings []Warning, err error) { return "", nil, nil }
