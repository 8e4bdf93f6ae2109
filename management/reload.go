package management

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"qdrouter/amqp"
	"qdrouter/config"
)

// A Reload says what became of a configuration that was read again.
type Reload struct {
	Done []string // what was changed: "listener/0.0.0.0:5672 created"
	Left []string // what differs from the running router and needs a restart: "router mode", "linkRoute"
}

// A change is one section that two configurations do not have in common. Either
// side may be nil: created, or deleted.
type change struct {
	kind          *kind
	key           string // identity, or the pattern of an address
	before, after *config.Entity
}

func (c *change) String() string {
	switch {
	case c.before == nil:
		return c.key + " created"
	case c.after == nil:
		return c.key + " deleted"
	}
	return c.key + " changed"
}

// Reload puts the difference between the file that was read last and a new one
// into force, for every type that requests can change too, in the same way. What
// requests have created, changed or deleted meanwhile stays as it is unless the
// file changes it too: an entity of the same identity or name that a request has
// made is from now on the file's. With an error nothing has changed.
//
// A listener or connector that differs is closed and opened anew, and so is one
// whose profile differs; connections a listener has accepted live on. Addresses
// count for what attaches from now on.
func (a *Agent) Reload(file *config.Config) (Reload, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var logs, entities, objects []change
	for _, k := range a.kinds { // in schema order: profiles and exchanges come before who uses them
		switch {
		case k.Name == "log":
			logs = a.differences(file, k)
		case k.hasObjects():
			objects = append(objects, a.differences(file, k)...)
		case k.reloads():
			entities = append(entities, a.differences(file, k)...)
		}
	}
	if err := a.checkReload(entities); err != nil {
		return Reload{}, err
	}
	if err := a.reloadLogs(logs); err != nil {
		return Reload{}, err
	}
	a.reloadEntities(entities)
	a.reloadObjects(objects)
	a.file = file
	r := Reload{Left: a.needRestart(file)}
	for _, c := range slices.Concat(logs, entities, objects) {
		r.Done = append(r.Done, c.String())
	}
	return r, nil
}

// reloads tells whether the sections of a type can change while the router runs.
func (k *kind) reloads() bool {
	switch {
	case k.Name == "log":
		return true
	case stored(k.EntityType):
		return k.Allows(opCreate) && k.Allows(opDelete)
	}
	return k.hasObjects()
}

// hasObjects tells whether the sections of a type are made and deleted by the
// operations that requests for it run.
func (k *kind) hasObjects() bool {
	return !k.live && k.Allows(opCreate) && k.Allows(opDelete) && k.coreOps[opCreate] != nil && k.coreOps[opDelete] != nil
}

// differences lists what the file changes in the sections of a type: what goes
// first, then what comes or changes, each in file order.
func (a *Agent) differences(file *config.Config, k *kind) []change {
	was, is := sections(a.file, k), sections(file, k)
	before, after := byKey(was), byKey(is)
	var changes []change
	for _, s := range was {
		if after[s.key] == nil {
			changes = append(changes, change{k, s.key, s.Entity, nil})
		}
	}
	for _, s := range is {
		old := before[s.key]
		if e := a.entity(s.key); old == nil && e != nil {
			old = e.config // made by request meanwhile, or a log module
		}
		if old == nil || !same(old, a.file, s.Entity, file) {
			changes = append(changes, change{k, s.key, old, s.Entity})
		}
	}
	return changes
}

// A section of a file and what tells it from the others.
type section struct {
	key string
	*config.Entity
}

// sections lists those of a type in file order. Of those that say the same, two
// autolinks for instance, the second is another one.
func sections(file *config.Config, k *kind) []section {
	var list []section
	times := map[string]int{}
	for _, e := range file.Of(k.Name) {
		key := sectionKey(e)
		if times[key]++; times[key] > 1 {
			key += fmt.Sprintf(" (%d)", times[key])
		}
		list = append(list, section{key, e})
	}
	return list
}

func byKey(list []section) map[string]*config.Entity {
	m := map[string]*config.Entity{}
	for _, s := range list {
		m[s.key] = s.Entity
	}
	return m
}

// sectionKey tells the sections of a type apart: an address by its pattern, in the
// router's spelling; others that the router numbers by their name or, without one,
// by all that they say; the rest by their identity.
func sectionKey(e *config.Entity) string {
	if e.Type.Name == "router.config.address" {
		return addressKey(e.Str("prefix"), e.Str("pattern"))
	}
	if !strings.HasPrefix(e.Type.Name, "router.config.") {
		identity, _ := config.Identity(e, nil)
		return identity
	}
	if name := e.Str("name"); name != "" {
		return e.Type.ShortName() + " " + name
	}
	key := e.Type.ShortName()
	for _, name := range slices.Sorted(maps.Keys(e.Given)) {
		key += fmt.Sprintf(" %s=%v", name, e.Attrs[name])
	}
	return key
}

func addressKey(prefix, pattern string) string {
	if prefix := trimAddress(prefix); prefix != "" {
		return "address prefix " + prefix
	}
	return "address pattern " + trimAddress(pattern)
}

func trimAddress(s string) string { return strings.Trim(s, "./") }

func sameSettings(x, y *config.Entity) bool { return reflect.DeepEqual(x.Attrs, y.Attrs) }

// references are the attributes that name a section of another type. What it says
// is taken over when the entity is made (MG 7.3).
var references = map[string]string{"sslProfile": "sslProfile", "saslPlugin": "authServicePlugin"}

// same tells whether x of one file says what y of another does, the sections that
// they refer to included.
func same(x *config.Entity, fileX *config.Config, y *config.Entity, fileY *config.Config) bool {
	if x == nil || y == nil {
		return x == y
	}
	if !sameSettings(x, y) {
		return false
	}
	for attribute, typeName := range references {
		if x.Has(attribute) && !same(named(fileX, typeName, x.Str(attribute)), fileX, named(fileY, typeName, y.Str(attribute)), fileY) {
			return false
		}
	}
	return true
}

// named gives the section of that type and name, or nil.
func named(file *config.Config, typeName, name string) *config.Entity {
	for _, e := range file.Of(typeName) {
		if e.Str("name") == name {
			return e
		}
	}
	return nil
}

// checkReload finds what would keep sections from being created, now that others
// may have been created by request.
func (a *Agent) checkReload(changes []change) error {
	gone := map[string]bool{}
	for _, c := range changes {
		if c.before != nil {
			gone[c.key] = true
		}
	}
	var standing []*config.Entity
	for _, e := range a.entities {
		if !gone[e.identity] {
			standing = append(standing, e.config)
		}
	}
	var errs []error
	for _, c := range changes {
		if c.after == nil {
			continue
		}
		if err := config.ValidateCross(c.after, standing); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s", c.key, oneLine(err)))
		}
		standing = append(standing, c.after)
	}
	return errors.Join(errs...)
}

// reloadLogs changes the settings of log modules, all or none.
func (a *Agent) reloadLogs(changes []change) error {
	var undo []func()
	for i := range changes {
		c := &changes[i]
		settings := c.after
		if settings == nil { // back to what a module without a section has
			var err error
			if settings, err = a.normalize(c.kind.EntityType, map[string]any{"module": c.before.Str("module")}); err != nil {
				return err
			}
		}
		e := a.entity(c.key)
		old := e.config
		e.config = settings
		undo = append(undo, func() { e.config = old; _ = updateLog(a, e) }) // they were in force before
		if err := updateLog(a, e); err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
			return fmt.Errorf("%s: %w", c.key, err)
		}
	}
	return nil
}

// reloadEntities changes stored entities: it closes what goes or changes and then opens what comes, so that a
// port may pass from one to another. What cannot be done, which would take a
// server that is about to end, is said in the log.
func (a *Agent) reloadEntities(changes []change) {
	for _, c := range changes {
		if e := a.entity(c.key); c.before != nil && e != nil {
			if err := a.remove(e); err != nil {
				a.errorf("Error performing DELETE of %s: %s", c.key, oneLine(err))
			}
		}
	}
	for _, c := range changes {
		if c.after == nil {
			continue
		}
		e, err := a.newEntity(c.kind, c.after)
		if err == nil && c.kind.onCreate != nil {
			err = c.kind.onCreate(a, e)
		}
		if err != nil {
			a.errorf("Error performing CREATE of %s: %s", c.key, oneLine(err))
			continue
		}
		a.add(e)
	}
}

// An object of the core that the file made is known by its section's key.
type object struct {
	kind *kind
	key  string
}

// LoadObjects makes what the configuration has of the types that requests can
// create in the core, by the same operation. What the router refuses is said in
// the log and left out (CFG D1, D6).
func (a *Agent) LoadObjects() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.kinds {
		if !k.hasObjects() {
			continue
		}
		for i, s := range sections(a.file, k) {
			a.createObject(k, s, i)
		}
	}
}

// reloadObjects changes objects of core types by the operations that requests for
// them run: first all that goes, what depends on others before them, and then all
// that comes, so that an address may pass from one to another.
func (a *Agent) reloadObjects(changes []change) {
	restore := map[string]func(){}
	for _, c := range slices.Backward(changes) {
		identity, found := a.standing(&c)
		if !found {
			continue
		}
		if c.after != nil && c.kind.keep != nil {
			restore[c.key] = c.kind.keep(a, identity)
		}
		delete(a.ofFile, object{c.kind, c.key})
		a.runOwn(c.kind, opDelete, amqp.Map{{Key: "identity", Value: identity}}, nil)
	}
	for _, c := range changes {
		if c.after == nil {
			continue
		}
		a.createObject(c.kind, section{c.key, c.after}, 0)
		if restore[c.key] != nil {
			restore[c.key]()
		}
	}
}

// standing finds the object that a change is about: the one that the file made or,
// when that is gone, one that a request has made and the file now has too.
func (a *Agent) standing(c *change) (identity string, found bool) {
	rows := c.kind.rows(a, Asker{})
	if made, ok := a.ofFile[object{c.kind, c.key}]; ok {
		if _, ok := find(rows, "identity", made); ok {
			return made, true
		}
	}
	if c.after == nil {
		return "", false
	}
	name, ofFile := c.after.Str("name"), a.madeByFile(c.kind)
	for i := range rows.Len() {
		text := func(attribute string) string { return scalarText(rows.Value(i, attribute)) }
		known := name != "" && text("name") == name ||
			c.kind.Name == "router.config.address" && addressKey(text("prefix"), text("pattern")) == c.key
		if identity := text("identity"); known && !ofFile[identity] {
			return identity, true
		}
	}
	return "", false
}

// createObject makes an object of a section. One without a name gets the first
// free one from the n-th on: in the file of the start it is that of its place (MG 5).
func (a *Agent) createObject(k *kind, s section, n int) {
	name := s.Str("name")
	for taken := k.rows(a, Asker{}); name == ""; n++ {
		free := fmt.Sprintf("%s/%d", k.ShortName(), n)
		if _, found := find(taken, "name", free); !found {
			name = free
		}
	}
	var body amqp.Map
	for _, key := range slices.Sorted(maps.Keys(s.Given)) {
		body = append(body, amqp.MapEntry{Key: key, Value: wire(s.Attrs[key])})
	}
	if made := a.runOwn(k, opCreate, amqp.Map{{Key: "name", Value: name}}, body); made.Status == StatusCreated {
		identity, _ := made.Body.(amqp.Map).Get("identity")
		a.ofFile[object{k, s.key}] = scalarText(identity)
	} else if s.Line > 0 { // the reason is in the log by now, but not whose it is
		a.errorf("The %s of %s:%d is left out", k.ShortName(), s.File, s.Line)
	}
}

// runOwn runs an operation of the agent's own accord. As for a request, its error
// is said in the log, but not that the object is gone already.
func (a *Agent) runOwn(k *kind, op string, properties, body amqp.Map) Response {
	properties = append(properties, amqp.MapEntry{Key: "operation", Value: op}, amqp.MapEntry{Key: "type", Value: k.LongName})
	return a.handleCore(k, op, &Request{Properties: properties, Body: body})
}

// noteConfigured notes an object created by a request for the short name of its
// type: 1.19 has a copy of those in its configuration (MG 3). Without a name there
// is none that would tell it from others there.
func (a *Agent) noteConfigured(k *kind, made amqp.Map) {
	identity, _ := made.Get("identity")
	if name, _ := made.Get("name"); name != nil {
		a.shadowed[scalarText(identity)] = k
	}
}

// madeByFile returns the identities of the objects of a kind that the file made.
func (a *Agent) madeByFile(k *kind) map[string]bool {
	made := map[string]bool{}
	for o, identity := range a.ofFile {
		if o.kind == k {
			made[identity] = true
		}
	}
	return made
}

// inConfiguration tells the objects that 1.19 would have in its configuration,
// most of all those that the file made, from others that were created by request.
func (a *Agent) inConfiguration(k *kind, rows table) func(i int) bool {
	made, there := a.madeByFile(k), map[string]bool{}
	identity := rows.Column("identity")
	for i := range rows.Len() {
		there[scalarText(identity(i))] = true
	}
	for id, kind := range a.shadowed {
		if kind != k {
			continue
		}
		if made[id] = true; !there[id] { // gone with what it belonged to
			delete(a.shadowed, id)
		}
	}
	return func(i int) bool { return made[scalarText(identity(i))] }
}

// needRestart names what differs between the file of the start and another one
// and cannot change while the router runs.
func (a *Agent) needRestart(file *config.Config) []string {
	started := a.started
	var left []string
	for _, k := range a.kinds {
		t := k.EntityType
		before, after := started.Of(t.Name), file.Of(t.Name)
		if k.reloads() {
			continue
		}
		switch t.Name {
		case "router", "policy": // one of each, always
			for _, name := range attributeNames(t) {
				// A router without an id has another one each time its file is read.
				if name == "id" && !before[0].Given[name] && !after[0].Given[name] {
					continue
				}
				if !reflect.DeepEqual(before[0].Attrs[name], after[0].Attrs[name]) {
					left = append(left, t.ShortName()+" "+name)
				}
			}
			continue
		}
		if !slices.EqualFunc(before, after, sameSettings) {
			left = append(left, t.ShortName())
		}
	}
	return left
}
