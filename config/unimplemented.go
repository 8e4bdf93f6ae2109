package config

// later tells what a file may ask for and the router does not do yet. A line goes
// when its function comes.
var later = []struct {
	typeName string
	what     string               // the setting, "" for the whole section
	asked    func(e *Entity) bool // nil for the whole section
}{
	{"sslProfile", "", nil},
	{"authServicePlugin", "", nil},
	{"vhost", "", nil},
	{"console", "", nil},
	{"policy", "enableVhostPolicy", func(e *Entity) bool { return e.Bool("enableVhostPolicy") }},
	{"router", "mode", func(e *Entity) bool { return e.Str("mode") == "edge" }},
	{"listener", "http", func(e *Entity) bool { return e.Bool("http") || e.Str("httpRootDir") != "" }},
	{"listener", "role", edgeRole},
	{"connector", "role", edgeRole},
	{"listener", "sslProfile", func(e *Entity) bool { return e.Has("sslProfile") }},
	{"connector", "sslProfile", func(e *Entity) bool { return e.Has("sslProfile") }},
	{"listener", "saslPlugin", func(e *Entity) bool { return e.Has("saslPlugin") }},
	{"listener", "policyVhost", func(e *Entity) bool { return e.Has("policyVhost") }},
	{"connector", "policyVhost", func(e *Entity) bool { return e.Has("policyVhost") }},
}

func edgeRole(e *Entity) bool { return e.Str("role") == "edge" }

// unimplemented lists what the entities ask for in vain: "sslProfile", "listener http".
// The names of a role or mode follow it.
func unimplemented(entities []*Entity) []string {
	var names []string
	for _, l := range later {
		seen := map[string]bool{}
		for _, e := range entities {
			if e.Type.Name != l.typeName || l.asked != nil && !l.asked(e) {
				continue
			}
			name := e.Type.ShortName()
			if l.what != "" {
				name += " " + l.what
			}
			if l.what == "role" || l.what == "mode" {
				name += " " + e.Str(l.what)
			}
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
