package management

import (
	"strconv"

	"qdrouter/config"
	"qdrouter/router"
)

// Neither type has a type column (MG 7.8, 7.9), but a query for no one type shows it.

var exchangeColumns = columns[router.Exchange]{
	"name":             func(x *router.Exchange) any { return x.Name },
	"identity":         func(x *router.Exchange) any { return strconv.FormatUint(x.ID, 10) },
	"type":             func(*router.Exchange) any { return longExchange },
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
	"type":           func(*router.Binding) any { return longBinding },
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
		if k.Attribute("matchMethod").Tag(method) == "" {
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

// keepBindings takes note of the bindings of an exchange that is to be made anew, those created by
// request among them; restore puts them back. One that the exchange no longer takes is said in the log.
func keepBindings(a *Agent, exchange string) (restore func()) {
	var kept []router.Binding
	for _, x := range a.core.Exchanges() {
		for _, b := range a.core.Bindings() {
			if strconv.FormatUint(x.ID, 10) == exchange && b.Exchange == x.Name {
				kept = append(kept, b)
			}
		}
	}
	return func() {
		for _, b := range kept {
			made, err := a.core.AddBinding(b)
			if err != nil {
				a.errorf("Error performing CREATE of binding %s of exchange %s: %s", b.Key, b.Exchange, oneLine(err))
				continue
			}
			was, is := strconv.FormatUint(b.ID, 10), strconv.FormatUint(made.ID, 10)
			for o, identity := range a.ofFile {
				if o.kind.Name == "router.config.binding" && identity == was {
					a.ofFile[o] = is
				}
			}
			if k := a.shadowed[was]; k != nil {
				delete(a.shadowed, was)
				a.shadowed[is] = k
			}
		}
	}
}
