package management

import (
	"fmt"
	"slices"
	"strconv"

	"qdrouter/config"
	"qdrouter/router"
)

// Neither type has a type column (MG 7.8, 7.9).

var exchangeColumns = columns[router.Exchange]{
	"name":             func(x *router.Exchange) any { return x.Name },
	"identity":         func(x *router.Exchange) any { return strconv.FormatUint(x.ID, 10) },
	"address":          func(x *router.Exchange) any { return x.Address },
	"phase":            func(x *router.Exchange) any { return int32(x.Phase) },
	"alternateAddress": func(x *router.Exchange) any { return orNull(x.Alternate) },
	"alternatePhase": func(x *router.Exchange) any {
		if x.Alternate == "" {
			return nil
		}
		return int32(x.AlternatePhase)
	},
	"matchMethod":    func(x *router.Exchange) any { return x.Method.String() },
	"bindingCount":   func(x *router.Exchange) any { return x.Bindings },
	"receivedCount":  func(x *router.Exchange) any { return x.Received },
	"droppedCount":   func(x *router.Exchange) any { return x.Dropped },
	"forwardedCount": func(x *router.Exchange) any { return x.Forwarded },
	"divertedCount":  func(x *router.Exchange) any { return x.Diverted },
}

var bindingColumns = columns[router.Binding]{
	"name":           func(b *router.Binding) any { return orNull(b.Name) },
	"identity":       func(b *router.Binding) any { return strconv.FormatUint(b.ID, 10) },
	"exchangeName":   func(b *router.Binding) any { return b.Exchange },
	"bindingKey":     func(b *router.Binding) any { return b.Key },
	"nextHopAddress": func(b *router.Binding) any { return b.NextHop },
	"nextHopPhase":   func(b *router.Binding) any { return int32(b.NextHopPhase) },
	"matchedCount":   func(b *router.Binding) any { return b.Matched },
}

func exchangeRows(a *Agent, _ Asker) table {
	return &snapshot[router.Exchange]{a.core.Exchanges(), exchangeColumns}
}

func bindingRows(a *Agent, _ Asker) table {
	return &snapshot[router.Binding]{a.core.Bindings(), bindingColumns}
}

// Exchange translates a router.config.exchange, its name included.
func Exchange(e *config.Entity) router.Exchange {
	method, _ := router.ParseMatchMethod(e.Str("matchMethod")) // the schema knows no others
	return router.Exchange{
		Name:           e.Str("name"),
		Address:        e.Str("address"),
		Phase:          int(e.Int("phase")),
		Alternate:      e.Str("alternateAddress"),
		AlternatePhase: int(e.Int("alternatePhase")),
		Method:         method,
	}
}

// Binding translates a router.config.binding, its name included.
func Binding(e *config.Entity) router.Binding {
	b := router.Binding{
		Name:         e.Str("name"),
		Exchange:     e.Str("exchangeName"),
		Key:          e.Str("bindingKey"),
		NextHop:      e.Str("nextHopAddress"),
		NextHopPhase: int(e.Int("nextHopPhase")),
	}
	if b.Key == "" {
		b.Key = "#"
	}
	return b
}

// coreSettings reads the body of a CREATE of an exchange or binding. Unknown attributes are ignored
// (MG 4.3), and what is required may be missing: the router judges that, in its own words.
func coreSettings(a *Agent, k *kind, req *Request) (*config.Entity, error) {
	body, err := req.bodyMap(true)
	if err != nil {
		return nil, err
	}
	if name := req.text("name"); name != "" {
		body["name"] = name
	}
	attrs := map[string]any{}
	all := k.AllAttributes()
	for i := range all {
		attr := &all[i]
		value := body[attr.Name]
		switch {
		case attr.Required && value == nil:
			attrs[attr.Name] = ""
		case attr.Create || attr.Name == "name":
			attrs[attr.Name] = value
		}
	}
	if method := body["matchMethod"]; method != nil && k.Attribute("matchMethod") != nil {
		if _, ok := router.ParseMatchMethod(scalarText(method)); !ok {
			return nil, badRequest("%s", router.ErrMatchMethod)
		}
	}
	delete(attrs, "type")
	return a.normalize(k.EntityType, attrs)
}

func createExchange(a *Agent, k *kind, req *Request) (any, error) {
	e, err := coreSettings(a, k, req)
	if err != nil {
		return nil, err
	}
	made, err := a.core.AddExchange(Exchange(e))
	if err != nil {
		return nil, badRequest("%s", oneLine(err))
	}
	return columnMap(k, &snapshot[router.Exchange]{[]router.Exchange{made}, exchangeColumns}, 0), nil
}

func createBinding(a *Agent, k *kind, req *Request) (any, error) {
	e, err := coreSettings(a, k, req)
	if err != nil {
		return nil, err
	}
	made, err := a.core.AddBinding(Binding(e))
	if err != nil {
		return nil, badRequest("%s", oneLine(err))
	}
	return columnMap(k, &snapshot[router.Binding]{[]router.Binding{made}, bindingColumns}, 0), nil
}

func deleteExchange(a *Agent, k *kind, req *Request) (any, error) {
	rows, row, err := coreRow(a, k, req)
	if err != nil {
		return nil, err
	}
	if err := a.core.DeleteExchange(rows.(*snapshot[router.Exchange]).rows[row].ID); err != nil {
		return nil, coreError(err)
	}
	return nil, nil
}

func deleteBinding(a *Agent, k *kind, req *Request) (any, error) {
	rows, row, err := coreRow(a, k, req)
	if err != nil {
		return nil, err
	}
	if err := a.core.DeleteBinding(rows.(*snapshot[router.Binding]).rows[row].ID); err != nil {
		return nil, coreError(err)
	}
	return nil, nil
}

// LoadExchanges makes the exchanges and bindings of the configuration. What the router refuses is
// said in the log and left out (CFG D6).
func (a *Agent) LoadExchanges() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.file.Of("router.config.exchange") {
		a.loadExchange(e)
	}
	for _, e := range a.file.Of("router.config.binding") {
		a.loadBinding(e)
	}
}

func (a *Agent) loadExchange(e *config.Entity) {
	if _, err := a.core.AddExchange(Exchange(e)); err != nil {
		a.refused(e, err)
	}
}

// loadBinding makes a binding of a configuration file. One without a name gets one (MG 5).
func (a *Agent) loadBinding(e *config.Entity) {
	b := Binding(e)
	if b.Name == "" {
		taken := map[string]bool{}
		for _, have := range a.core.Bindings() {
			taken[have.Name] = true
		}
		for i := 0; b.Name == ""; i++ {
			if name := fmt.Sprintf("binding/%d", i); !taken[name] {
				b.Name = name
			}
		}
	}
	if _, err := a.core.AddBinding(b); err != nil {
		a.refused(e, err)
	}
}

func (a *Agent) refused(e *config.Entity, err error) {
	a.errorf("Error performing CREATE of %s: %s", e.Type.LongName, oneLine(err))
}

// exchangeKey and bindingKey tell the sections of a file apart: a binding by what it does.
func exchangeKey(e *config.Entity) string { return "exchange " + e.Str("name") }

func bindingKey(b router.Binding) string {
	return fmt.Sprintf("binding %s %s > %s phase %d", b.Exchange, b.Key, b.NextHop, b.NextHopPhase)
}

// reloadExchanges deletes and makes exchanges and bindings as the file has changed. Bindings of an
// exchange that is made anew are too, those created by request among them.
func (a *Agent) reloadExchanges(exchanges, bindings []change) {
	gone := map[string]bool{}
	for _, c := range bindings {
		if c.before != nil {
			gone[c.key] = true
		}
	}
	var orphans []router.Binding
	changed := func(exchange string) bool {
		return slices.ContainsFunc(exchanges, func(c change) bool { return c.before != nil && c.before.Str("name") == exchange })
	}
	for _, b := range a.core.Bindings() {
		switch {
		case gone[bindingKey(b)]:
			_ = a.core.DeleteBinding(b.ID) // it can have gone only by itself
		case changed(b.Exchange):
			orphans = append(orphans, b)
		}
	}
	for _, x := range a.core.Exchanges() {
		if changed(x.Name) {
			_ = a.core.DeleteExchange(x.ID)
		}
	}
	for _, c := range exchanges {
		if c.after != nil {
			a.loadExchange(c.after)
		}
	}
	exists := map[string]bool{}
	for _, x := range a.core.Exchanges() {
		exists[x.Name] = true
	}
	for _, b := range orphans {
		if !exists[b.Exchange] {
			continue
		}
		if _, err := a.core.AddBinding(b); err != nil {
			a.errorf("Error performing CREATE of %s: %s", bindingKey(b), oneLine(err))
		}
	}
	for _, c := range bindings {
		if c.after != nil {
			a.loadBinding(c.after)
		}
	}
}
