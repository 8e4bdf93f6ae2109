package management

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

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
// into force: log modules, listeners, connectors, addresses, exchanges,
// bindings and autolinks. What requests have created, changed or deleted meanwhile stays as it is
// unless the file changes it too. With an error nothing has changed.
//
// A listener or connector that differs is closed and opened anew; connections a
// listener has accepted live on. Addresses count for what attaches from now on.
func (a *Agent) Reload(file *config.Config) (Reload, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	logs := a.differences(file, "log")
	sockets := slices.Concat(a.differences(file, "listener"), a.differences(file, "connector"))
	addresses := a.differences(file, "router.config.address")
	autoLinks := a.differences(file, "router.config.autoLink")
	exchanges := a.differences(file, "router.config.exchange")
	bindings := a.differences(file, "router.config.binding")
	if err := a.checkReload(sockets); err != nil {
		return Reload{}, err
	}
	if err := a.reloadLogs(logs); err != nil {
		return Reload{}, err
	}
	a.reloadSockets(sockets)
	a.reloadAddresses(addresses)
	a.reloadExchanges(exchanges, bindings)
	a.reloadAutoLinks(autoLinks)
	a.file = file
	r := Reload{Left: needRestart(a.started, file)}
	for _, c := range slices.Concat(logs, sockets, addresses, exchanges, bindings, autoLinks) {
		r.Done = append(r.Done, c.String())
	}
	return r, nil
}

// differences lists what the file changes in the sections of a type: what goes
// first, then what comes or changes, each in file order.
func (a *Agent) differences(file *config.Config, typeName string) []change {
	k := a.kindOf(typeName)
	before, after := sectionsByKey(a.file, typeName), sectionsByKey(file, typeName)
	var changes []change
	for _, e := range a.file.Of(typeName) {
		if key := sectionKey(e); after[key] == nil {
			changes = append(changes, change{k, key, e, nil})
		}
	}
	for _, e := range file.Of(typeName) {
		key := sectionKey(e)
		if old := before[key]; old == nil || !sameSettings(old, e) {
			changes = append(changes, change{k, key, old, e})
		}
	}
	return changes
}

func sectionsByKey(file *config.Config, typeName string) map[string]*config.Entity {
	sections := map[string]*config.Entity{}
	for _, e := range file.Of(typeName) {
		sections[sectionKey(e)] = e
	}
	return sections
}

// sectionKey tells the sections of a type apart: an address by its pattern, in the
// router's spelling, an exchange by its name, a binding and an autolink by what they
// do, all others by their identity.
func sectionKey(e *config.Entity) string {
	switch e.Type.Name {
	case "router.config.exchange":
		return exchangeKey(e)
	case "router.config.binding":
		return bindingKey(Binding(e))
	}
	if e.Type.Name == "router.config.address" {
		prefix, pattern := trimAddress(e.Str("prefix")), trimAddress(e.Str("pattern"))
		if prefix != "" {
			return "address prefix " + prefix
		}
		return "address pattern " + pattern
	}
	if e.Type.Name == "router.config.autoLink" {
		return autoLinkKey(e)
	}
	identity, _ := config.Identity(e, nil)
	return identity
}

func trimAddress(s string) string { return strings.Trim(s, "./") }

func sameSettings(x, y *config.Entity) bool { return reflect.DeepEqual(x.Attrs, y.Attrs) }

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

// reloadSockets closes what goes or changes and then opens what comes, so that a
// port may pass from one to another. What cannot be done, which would take a
// server that is about to end, is said in the log.
func (a *Agent) reloadSockets(changes []change) {
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

// reloadAddresses changes the address configurations. As at the start, one that
// the router refuses is said in the log and no more (CFG D1, D6).
func (a *Agent) reloadAddresses(changes []change) {
	names := map[string]bool{}
	for _, have := range a.core.AddressConfigs() {
		names[have.Name] = true
		for _, c := range changes {
			if c.before == nil || trimAddress(c.before.Str("prefix")) != have.Prefix || trimAddress(c.before.Str("pattern")) != have.Pattern {
				continue
			}
			if err := a.core.DeleteAddressConfig(have.ID); err != nil {
				a.errorf("Error performing DELETE of %s: %v", c.key, err)
			}
			delete(names, have.Name)
		}
	}
	for _, c := range changes {
		if c.after == nil {
			continue
		}
		wanted, err := AddressConfig(c.after)
		for i := 0; wanted.Name == ""; i++ {
			if name := fmt.Sprintf("address/%d", i); !names[name] {
				wanted.Name = name
			}
		}
		if err == nil {
			_, err = a.core.AddAddressConfig(wanted)
		}
		if err != nil {
			a.errorf("Error performing CREATE of %s: %s", c.kind.LongName, oneLine(err))
			continue
		}
		names[wanted.Name] = true
	}
}

// needRestart names what differs between two files and cannot change while the
// router runs.
func needRestart(started, file *config.Config) []string {
	var left []string
	for _, t := range config.Types() {
		before, after := started.Of(t.Name), file.Of(t.Name)
		switch t.Name {
		case "log", "listener", "connector", "router.config.address", "router.config.exchange", "router.config.binding", "router.config.autoLink":
			continue
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
