// Package config holds the schema of the management entities and reads
// configuration files into entities checked against it.
//
// # Schema
//
// Types lists the 29 entity types with their attributes, operations and wire
// columns (MG section 5, MG 6). It is the only place where an attribute is
// defined: the file reader, the management agent and the tools all look here.
//
// # Files
//
// Load reads a file in one of three formats, chosen by its name (CFG B1): the
// line-oriented conf format, JSON (".json") and YAML (".yaml", ".yml"). All three
// describe a list of sections, and a section is a name with attributes:
//
//	conf:  listener {                JSON:  [["listener",      YAML:  - listener:
//	           host: 0.0.0.0                  {"host": "0.0.0.0",         host: 0.0.0.0
//	           port: 5672                      "port": 5672}]]            port: 5672
//	       }
//
// A YAML file may also be one map from section name to the attributes of one
// section or to a list of them. Then the order inside a list is kept, and the
// sections of one name stand where the name stands.
//
// From there on all formats share one road: names that older releases used are
// translated (CFG B30, B31), values are converted to the types of the schema
// (CFG B18 to B25), and the rules over several entities are checked (CFG B26 to
// B29). Everything wrong with a file is reported in one error, each problem with
// its file, line, section and attribute.
//
// # Values
//
// The attributes of an Entity have the Go types string (string, path, entityId,
// enum), int64 (integer), bool (boolean), map[string]any (map, properties) and
// []any (list). Inside a map or a list the values are nil, string, int64, float64,
// bool, map[string]any and []any. An Entity is not changed after it was made and
// may be read from any goroutine.
package config
