package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Load reads and checks the configuration file at path, the files of its policyDir
// (CFG A25) and those its passwords are in (CFG S6).
//
// The Config is never nil: with an error it holds Path and the Warnings up to the
// error, which are to be logged all the same. The text of the error is the reason
// of CFG A18 and A19; it has a line for each problem. The error is a *FileError
// when there is nothing to read, else a *LoadError.
func Load(path string) (*Config, error) {
	l := &loader{config: &Config{Path: path}}
	data, err := readFile(path)
	if err != nil {
		return l.config, err
	}
	l.parse(path, FormatOf(path), data)
	l.policyDir()
	l.passwords()
	return l.finish()
}

// Parse checks the contents of a configuration file called name, like Load but
// without reading any other file.
func Parse(name string, format Format, data []byte) (*Config, error) {
	l := &loader{config: &Config{Path: name}}
	l.parse(name, format, data)
	return l.finish()
}

// FormatOf returns the format of the file of that name (CFG B1).
func FormatOf(path string) Format {
	switch {
	case strings.HasSuffix(path, ".json"):
		return FormatJSON
	case strings.HasSuffix(path, ".yaml"), strings.HasSuffix(path, ".yml"):
		return FormatYAML
	}
	return FormatConf
}

// A FileError tells that a configuration file has no contents (CFG A18).
type FileError struct {
	Path string
	Text string
	Err  error // why, or nil
}

func (e *FileError) Error() string { return e.Text }

func (e *FileError) Unwrap() error { return e.Err }

func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	switch {
	case err != nil:
		return nil, &FileError{path, "Not found: Configuration file could not be opened", err}
	case len(data) == 0:
		return nil, &FileError{path, "Configuration: Configuration file was empty", nil}
	}
	return data, nil
}

// A Problem is one thing that is wrong with a configuration file.
type Problem struct {
	File    string
	Line    int    // 0 when the problem is not at one place
	Section string // short type name, or "" outside of sections
	Attr    string // or "" when the problem is not one attribute
	Kind    string // what 1.19 calls the error if it finds it while applying the section: "AttributeError", …
	Text    string // in the words of 1.19 where it has some
	Hint    string // a name that may have been meant, or ""
}

// Error returns the text, and behind it where the problem is.
func (p *Problem) Error() string {
	where := p.File
	if p.Line > 0 {
		where += fmt.Sprintf(":%d", p.Line)
	}
	if p.Section != "" {
		where += ", section " + p.Section
	}
	if p.Attr != "" {
		where += ", attribute " + p.Attr
	}
	if p.Hint != "" {
		where += "; did you mean '" + p.Hint + "'?"
	}
	return fmt.Sprintf("%s (%s)", p.Text, where)
}

// A LoadError tells everything that is wrong with a configuration file.
type LoadError struct {
	Path     string
	Problems []*Problem // at least one; those that 1.19 would meet first stand first
}

// Error returns the reason why the router does not start (CFG A19), a line for each
// problem.
func (e *LoadError) Error() string {
	var b strings.Builder
	b.WriteString("Python: ")
	if e.Problems[0].Kind == "" {
		fmt.Fprintf(&b, "Exception: Cannot load configuration file %s: ", e.Path)
	}
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		if p.Kind != "" {
			b.WriteString(p.Kind + ": ")
		}
		b.WriteString(p.Error())
	}
	return b.String()
}

// Unwrap returns the problems.
func (e *LoadError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// A loader collects what one configuration file brings.
type loader struct {
	config   *Config
	problems []*Problem
}

func (l *loader) warn(module, level, text string) {
	l.config.Warnings = append(l.config.Warnings, Warning{module, level, text})
}

func (l *loader) agentWarnings(texts []string) {
	for _, text := range texts {
		l.warn("AGENT", "warning", text)
	}
}

func (l *loader) syntax(file string, errs ...*syntaxError) {
	for _, e := range errs {
		l.problems = append(l.problems, &Problem{File: file, Line: e.line, Section: e.section, Attr: e.attr, Text: e.text})
	}
}

// refuse adds the *AttrErrors that err joins as problems of an entity. Lines are
// those of its attributes as they were given.
func (l *loader) refuse(e *Entity, lines map[string]int, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			l.refuse(e, lines, err)
		}
		return
	}
	p := &Problem{File: e.File, Line: e.Line, Section: e.Type.ShortName(), Text: err.Error()}
	var ae *AttrError
	if errors.As(err, &ae) {
		p.Attr, p.Kind, p.Text, p.Hint = ae.Attr, ae.Kind, ae.Msg, ae.Hint
		if line := lines[ae.Attr]; line > 0 {
			p.Line = line
		}
	}
	l.problems = append(l.problems, p)
}

// finish returns the Config, or what is wrong.
func (l *loader) finish() (*Config, error) {
	if len(l.problems) == 0 {
		l.config.Unimplemented = unimplemented(l.config.Entities)
		return l.config, nil
	}
	slices.SortStableFunc(l.problems, func(a, b *Problem) int {
		return btoi(a.Kind != "") - btoi(b.Kind != "")
	})
	l.config.Entities = nil
	return l.config, &LoadError{Path: l.config.Path, Problems: l.problems}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// read turns the text of a file into sections with today's names. With !complete the
// file may have sections that could not be read; the fault is reported.
func (l *loader) read(file string, format Format, data []byte) (sections []*section, complete bool) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // CFG B11a
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	if !utf8.Valid(data) {
		line := 1
		for part := range bytes.Lines(data) {
			if !utf8.Valid(part) {
				break
			}
			line++
		}
		l.syntax(file, &syntaxError{line: line, text: "invalid UTF-8"})
		return nil, false
	}
	complete = true
	var err *syntaxError
	switch format {
	case FormatJSON:
		sections, err = readJSON(string(data))
	case FormatYAML:
		sections, err = readYAML(string(data))
	default:
		r := readConf(string(data))
		l.agentWarnings(r.warnings)
		l.syntax(file, r.errors...)
		sections, complete = r.sections, !r.incomplete
	}
	if err != nil {
		l.syntax(file, err)
		complete = false // these two formats are read up to the first fault
	}
	t := translate(sections)
	l.agentWarnings(t.warnings)
	l.syntax(file, t.errors...)
	return t.out, complete
}

// entities reads a file and makes entities of its sections; the faulty ones become
// problems. Faulty names the types of which some are missing for that.
func (l *loader) entities(file string, format Format, data []byte) (good []*Entity, faulty map[string]bool) {
	sections, complete := l.read(file, format, data)
	faulty = map[string]bool{}
	if !complete {
		for _, t := range types {
			faulty[t.Name] = true
		}
	}
	for _, s := range sections {
		t := typeBySection(s.name)
		if t == nil {
			l.problems = append(l.problems, unknownSection(file, s))
			continue
		}
		e, warnings, err := Normalize(t, s.values())
		l.agentWarnings(warnings)
		e.File, e.Line, e.Lines = file, s.line, map[string]int{}
		lines := map[string]int{}
		for _, a := range s.attrs {
			lines[a.name] = a.line
			if known := t.Lookup(a.name); known != nil && e.Given[known.Name] {
				e.Lines[known.Name] = a.line
			}
		}
		if a := s.get("type"); a != nil {
			err = errors.Join(err, unknownAttribute(t, "type"))
		}
		if err != nil || s.broken != nil {
			l.refuse(e, lines, withoutMissing(err, s.broken))
			faulty[t.Name] = true
			continue
		}
		good = append(good, e)
	}
	return good, faulty
}

// withoutMissing takes out of err what only follows from attributes that could not be
// read.
func withoutMissing(err error, broken map[string]bool) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	return errors.Join(slices.DeleteFunc(slices.Clone(joined.Unwrap()), func(err error) bool {
		var ae *AttrError
		return errors.As(err, &ae) && ae.missing && broken[ae.Attr]
	})...)
}

func unknownSection(file string, s *section) *Problem {
	p := &Problem{File: file, Line: s.line, Section: s.name}
	if t := TypeByName(s.name); t != nil {
		p.Text = fmt.Sprintf("Entity type '%s' cannot be configured in a file", t.LongName)
		return p
	}
	p.Text = fmt.Sprintf("No such entity type '%s'", LongName(s.name)) // CFG B17
	var known []string
	for _, t := range types {
		if t.Section {
			known = append(known, t.ShortName())
		}
	}
	p.Hint = nearest(s.name, known)
	return p
}

// addMissing adds the entities that every router has (CFG B26) unless the file has a
// faulty one. A router without an id gets a random one.
func addMissing(entities []*Entity, faulty map[string]bool) []*Entity {
	for _, name := range []string{"router", "policy"} {
		i := slices.IndexFunc(entities, func(e *Entity) bool { return e.Type.Name == name })
		if i < 0 && !faulty[name] {
			i = len(entities)
			e, _, _ := Normalize(TypeByName(name), nil)
			entities = append(entities, e)
		}
		if i >= 0 && name == "router" && entities[i].Str("id") == "" {
			entities[i].Attrs["id"] = randomRouterID(entities[i].Str("mode"))
		}
	}
	return entities
}

func (l *loader) parse(file string, format Format, data []byte) {
	entities, faulty := l.entities(file, format, data)
	entities = addMissing(entities, faulty)
	l.cross(entities, faulty)
	for _, e := range entities {
		if e.Type.Name == "console" {
			l.warn("AGENT", "warning", "Console entity is deprecated: Use http:yes on listener entity instead") // CFG D7
		}
		l.advise(e, entities)
	}
	addressing, vhosts := newAddressingChecker(), newVhostChecker()
	for _, e := range entities {
		if e.Type.Name == "vhost" {
			l.vhost(vhosts, e)
		}
		if addressing.keep(e) {
			l.config.Entities = append(l.config.Entities, e)
		}
	}
	l.config.Warnings = append(l.config.Warnings, addressing.warnings...)
	l.config.Warnings = append(l.config.Warnings, vhosts.warnings...)
}

func (l *loader) vhost(c *vhostChecker, e *Entity) {
	if msg := c.check(e); msg != "" {
		l.refuse(e, nil, &AttrError{Type: e.Type, Kind: "PolicyError", Msg: msg})
	}
}

// cross checks the rules over several entities (CFG B26 to B28) and the references
// that 1.19 cannot do without. Of the faulty types some entities are not here.
func (l *loader) cross(entities []*Entity, faulty map[string]bool) {
	names := newNames()
	var router *Entity
	have := map[string]bool{}
	for _, e := range entities {
		l.refuse(e, e.Lines, errors.Join(names.check(e)...))
		names.add(e)
		if router == nil && e.Type.Name == "router" {
			router = e
		}
		have[e.Type.Name+"/"+e.Str("name")] = true
	}
	for _, e := range entities {
		if router != nil {
			l.refuse(e, e.Lines, errors.Join(checkRole(router, e)...))
		}
		switch e.Type.Name {
		case "listener":
			if name := e.Str("saslPlugin"); name != "" && !have["authServicePlugin/"+name] && !faulty["authServicePlugin"] {
				l.refuse(e, e.Lines, &AttrError{Type: e.Type, Attr: "saslPlugin", Kind: "CError",
					Msg: "Run Time: Cannot find sasl plugin " + name})
			}
		case "authServicePlugin":
			if name := e.Str("sslProfile"); name != "" && !have["sslProfile/"+name] && !faulty["sslProfile"] {
				l.refuse(e, e.Lines, attrErrorf(e.Type, "sslProfile", "Cannot find sslProfile '%s'", name)) // CFG 6
			}
		}
	}
}

// tlsVersions are the words of an sslProfile's protocols (CFG 4).
var tlsVersions = []string{"TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"}

// advise warns of settings that are legal and of no use.
func (l *loader) advise(e *Entity, entities []*Entity) {
	where := func(format string, args ...any) string {
		return fmt.Sprintf(format, args...) + fmt.Sprintf(" (%s)", describe(e))
	}
	switch e.Type.Name {
	case "listener":
		if e.Bool("requireSsl") && !e.Has("sslProfile") {
			l.warn("CONN_MGR", "warning", where("requireSsl without an sslProfile refuses every connection"))
		}
	case "authServicePlugin":
		if e.Has("authService") && e.Str("host") == "" {
			l.warn("CONN_MGR", "warning", "Attribute authService of entity authServicePlugin has been deprecated. Use host and port instead.")
		}
	case "sslProfile":
		words := strings.FieldsFunc(e.Str("protocols"), func(r rune) bool { return strings.ContainsRune(" ,;\t", r) })
		if i := slices.IndexFunc(words, func(w string) bool { return !slices.Contains(tlsVersions, w) }); i >= 0 {
			l.warn("CONN_MGR", "error", where("Unknown TLS version '%s' in protocols: connections with this profile will fail", words[i]))
		} else if e.Has("protocols") && len(words) == 0 {
			l.warn("CONN_MGR", "error", where("No TLS version in protocols: connections with this profile will fail"))
		}
	}
	if name := e.Str("sslProfile"); name != "" && (e.Type.Name == "listener" || e.Type.Name == "connector") &&
		!slices.ContainsFunc(entities, func(p *Entity) bool { return p.Type.Name == "sslProfile" && p.Str("name") == name }) {
		l.warn("CONN_MGR", "warning", where("There is no sslProfile '%s'", name))
	}
}

// policyDir adds the vhosts of the JSON files in policyDir. Their other sections are
// checked and then ignored (CFG B13).
func (l *loader) policyDir() {
	policy := l.config.Policy()
	if policy == nil || policy.Str("policyDir") == "" {
		return
	}
	dir := policy.Str("policyDir")
	files, err := os.ReadDir(dir)
	if err != nil {
		l.refuse(policy, policy.Lines, &AttrError{Type: policy.Type, Attr: "policyDir", Kind: "FileNotFoundError", Msg: err.Error()})
		return
	}
	vhosts, names := newVhostChecker(), newNames()
	for _, e := range l.config.Entities {
		if e.Type.Name == "vhost" {
			vhosts.check(e) // for the names
		}
		names.add(e)
	}
	vhosts.warnings = nil
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, f.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			l.refuse(policy, policy.Lines, &AttrError{Type: policy.Type, Attr: "policyDir", Msg: err.Error()})
			continue
		}
		entities, _ := l.entities(path, FormatJSON, data)
		for _, e := range entities {
			if e.Type.Name != "vhost" {
				continue
			}
			l.refuse(e, e.Lines, errors.Join(names.check(e)...))
			names.add(e)
			l.vhost(vhosts, e)
			l.config.Entities = append(l.config.Entities, e)
		}
	}
	l.config.Warnings = append(l.config.Warnings, vhosts.warnings...)
}

// passwords resolves all passwords once, so that a missing one stops the start. The
// warnings are left to those who will use the passwords.
func (l *loader) passwords() {
	for _, e := range l.config.Entities {
		_, _, err := e.Password()
		if err == nil {
			continue
		}
		attr := "password"
		for _, a := range []string{"passwordFile", "saslPassword"} {
			if e.Has(a) && !e.Has("password") {
				attr = a
			}
		}
		l.refuse(e, e.Lines, &AttrError{Type: e.Type, Attr: attr, Kind: "CError", Msg: err.Error()})
	}
}
