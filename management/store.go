package management

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"qdrouter/amqp"
	"qdrouter/config"
)

// An entity is a stored one: its settings, and the identity and name it is known
// by (MG 5). Updates replace config; identity and name stay.
type entity struct {
	kind     *kind
	identity string
	name     string
	config   *config.Entity
}

// attributes gives everything there is to say about e, the live part included.
func (e *entity) attributes(a *Agent) map[string]any {
	attrs := maps.Clone(e.config.Attrs)
	attrs["identity"] = e.identity
	attrs["name"] = e.name
	attrs["type"] = e.kind.LongName
	if e.kind.refresh != nil {
		e.kind.refresh(a, e, attrs)
	}
	return attrs
}

// storedTable shows stored entities, and others described by attribute maps.
type storedTable []map[string]any

func (t storedTable) Len() int                          { return len(t) }
func (t storedTable) Value(i int, attribute string) any { return wire(t[i][attribute]) }
func (t storedTable) Column(attribute string) func(i int) any {
	return func(i int) any { return t.Value(i, attribute) }
}

func storedRows(k *kind) func(*Agent, Asker) table {
	return func(a *Agent, _ Asker) table {
		var t storedTable
		for _, e := range a.entities {
			if e.kind.EntityType == k.EntityType {
				t = append(t, e.attributes(a))
			}
		}
		return t
	}
}

// entity gives the stored entity of that identity.
func (a *Agent) entity(identity string) *entity {
	for _, e := range a.entities {
		if e.identity == identity {
			return e
		}
	}
	return nil
}

// newEntity names an entity and checks that it goes with those that exist
// (MG 5, 6.5).
func (a *Agent) newEntity(k *kind, c *config.Entity) (*entity, error) {
	e := &entity{kind: k, config: c}
	e.identity, e.name = config.Identity(c, func() int64 {
		n := a.counters[k.Name]
		a.counters[k.Name]++
		return n
	})
	for _, other := range a.entities {
		for _, pair := range [][3]string{{"name", e.name, other.name}, {"identity", e.identity, other.identity}} {
			if pair[1] == pair[2] {
				return nil, badRequest("adding %s %s duplicates unique attribute '%s' from existing %s",
					k.LongName, pair[1], pair[0], other.identity)
			}
		}
	}
	return e, nil
}

func (a *Agent) add(e *entity) {
	a.entities = append(a.entities, e)
	if a.debugging() {
		a.debugf("Add entity: %s", e)
	}
}

// String shows e as the log does: attributes sorted, secrets as stars (MG 10).
func (e *entity) String() string {
	attrs := maps.Clone(e.config.Attrs)
	attrs["identity"], attrs["name"], attrs["type"] = e.identity, e.name, e.kind.LongName
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, masked(name, attrs[name])))
	}
	kind := e.kind.ShortName()
	return strings.ToUpper(kind[:1]) + kind[1:] + "Entity(" + strings.Join(parts, ", ") + ")"
}

// create answers CREATE for stored types, and hands the request on when the type
// named in the body alone turns out to be a core one (MG 4.3).
func (a *Agent) create(req *Request) (any, error) {
	attrs, err := req.bodyMap(true)
	if err != nil {
		return nil, err
	}
	typeName, err := merge(attrs, "type", req.text("type"), config.LongName)
	if err != nil {
		return nil, err
	}
	if typeName == "" {
		return nil, badRequest("No 'type' attribute in the request")
	}
	t, err := typeByName(typeName)
	if err != nil {
		return nil, err
	}
	k := a.kindOf(t.Name)
	if create := k.coreOps[opCreate]; create != nil {
		return create(a, k, req)
	}
	if !k.Allows(opCreate) {
		return nil, notAllowed(t, opCreate)
	}
	name, err := merge(attrs, "name", req.text("name"), func(s string) string { return s })
	if err != nil {
		return nil, err
	}
	if name != "" {
		attrs["name"] = name
	}
	if err := config.CheckCreate(t, attrs); err != nil {
		return nil, badRequest("%s", oneLine(err))
	}
	c, err := a.normalize(t, attrs)
	// What is not allowed at all comes before what is wrong in detail (MG 8.2).
	if cross := config.ValidateCross(c, a.configured()); cross != nil {
		return nil, badRequest("%s", oneLine(cross))
	}
	if err != nil {
		return nil, err
	}
	e, err := a.newEntity(k, c)
	if err != nil {
		return nil, err
	}
	if k.onCreate != nil {
		if err := k.onCreate(a, e); err != nil {
			return nil, err
		}
	}
	a.add(e)
	return attributeMap(k.EntityType, e.attributes(a)), nil
}

// merge takes an attribute that may stand in the application properties and in
// the body. Two values must be the same once they are brought to one form
// (MG 4.3).
func merge(attrs map[string]any, key, property string, form func(string) string) (string, error) {
	body := scalarText(attrs[key])
	switch {
	case body == "":
		return property, nil
	case property == "" || form(property) == form(body):
		return body, nil
	}
	return "", badRequest("Conflicting values for '%s': '%s' in the properties, '%s' in the body", key, property, body)
}

// normalize is config.Normalize for a request: warnings go to the log, and all
// that is wrong makes one 400.
func (a *Agent) normalize(t *config.EntityType, attrs map[string]any) (*config.Entity, error) {
	c, warnings, err := config.Normalize(t, attrs)
	for _, w := range warnings {
		a.warningf("%s", w)
	}
	if err != nil {
		return c, badRequest("%s", oneLine(err))
	}
	return c, nil
}

// configured lists the settings of the stored entities.
func (a *Agent) configured() []*config.Entity {
	all := make([]*config.Entity, len(a.entities))
	for i, e := range a.entities {
		all[i] = e.config
	}
	return all
}

// attributeMap gives the attributes that have a value, in schema order (MG 4.1).
func attributeMap(t *config.EntityType, attrs map[string]any) amqp.Map {
	m := amqp.Map{}
	for _, name := range attributeNames(t) {
		if v := wire(attrs[name]); v != nil {
			m = append(m, amqp.MapEntry{Key: name, Value: v})
		}
	}
	return m
}

// update answers UPDATE of a stored entity: all or nothing (MG 4.4).
func (a *Agent) update(t target, req *Request) (any, error) {
	changes, err := req.bodyMap(true)
	if err != nil {
		return nil, err
	}
	old := a.entity(t.text("identity"))
	// What names the entity may be sent back, but not changed.
	for key, present := range map[string]string{"name": old.name, "identity": old.identity, "type": old.kind.LongName} {
		value, given := changes[key]
		if !given {
			continue
		}
		text := scalarText(value)
		if key == "type" {
			text = config.LongName(text)
		}
		if text != present {
			return nil, badRequest("%s: cannot update '%s' from '%s' to '%s'", old.kind.LongName, key, present, text)
		}
		delete(changes, key)
	}
	if err := config.CheckUpdate(old.config, changes); err != nil {
		return nil, badRequest("%s", oneLine(err))
	}
	attrs := map[string]any{}
	for name := range old.config.Given {
		attrs[name] = old.config.Attrs[name]
	}
	for key, value := range changes {
		name := old.kind.Lookup(key).Name // known: CheckUpdate has seen it
		if value == nil {
			delete(attrs, name) // the default comes back, if there is one
		} else {
			attrs[name] = value
		}
	}
	c, err := a.normalize(old.kind.EntityType, attrs)
	if err != nil {
		return nil, err
	}
	changed := &entity{kind: old.kind, identity: old.identity, name: old.name, config: c}
	if old.kind.onUpdate != nil {
		if err := old.kind.onUpdate(a, changed); err != nil {
			return nil, err
		}
	}
	old.config = changed.config
	return attributeMap(old.kind.EntityType, old.attributes(a)), nil
}

// delete answers DELETE of a stored entity (MG 4.5).
func (a *Agent) delete(t target) error {
	return a.remove(a.entity(t.text("identity")))
}

// remove takes an entity out of the store, and out of force.
func (a *Agent) remove(e *entity) error {
	if e.kind.onDelete != nil {
		if err := e.kind.onDelete(a, e); err != nil {
			return err
		}
	}
	a.entities = slices.DeleteFunc(a.entities, func(other *entity) bool { return other == e })
	a.debugf("Remove %s entity: %s", e.kind.ShortName(), e.identity)
	return nil
}
