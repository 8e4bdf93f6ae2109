package linkroute

import (
	"qdrouter/amqp"
	"qdrouter/router"
)

// Names of the protocol: the address of coordinators for link routes (RT E36), and the property of
// a dynamic node by which it is routed (RT E35).
const (
	coordinator    = "$coordinator"
	dynamicAddress = "x-opt-qd.address"
)

// wanted is what an attach asks for.
type wanted struct {
	d       direction
	address string // "" = nothing that could be routed
	dynamic bool   // address is of the dynamic node's properties: it is routed or refused
}

// ask reads an attach (RT L12).
func ask(a *amqp.Attach) (w wanted) {
	address, dynamic, properties := amqp.Opt[string]{}, false, amqp.Raw(nil)
	if a.Role == amqp.RoleReceiver {
		w.d = out
		if s := a.Source; s != nil {
			address, dynamic, properties = s.Address, s.Dynamic, s.DynamicNodeProperties
		}
	} else if a.Coordinator != nil {
		w.address = coordinator
		return w
	} else if t := a.Target; t != nil {
		address, dynamic, properties = t.Address, t.Dynamic, t.DynamicNodeProperties
	}
	if !dynamic {
		w.address = address.V
		return w
	}
	it, err := amqp.IterMap(properties)
	if err != nil {
		return w
	}
	key, value, ok := it.Next()
	if name, isText := key.Text(); ok && isText && string(name) == dynamicAddress {
		text, _ := value.Text()
		w.address, w.dynamic = string(text), len(text) > 0
	}
	return w
}

// survives reports whether the peer's terminus outlives its connection (RT L33).
func survives(a *amqp.Attach) bool {
	switch {
	case a.Role == amqp.RoleReceiver && a.Source != nil:
		return a.Source.Timeout.V > 0 || a.Source.ExpiryPolicy == amqp.ExpiryNever
	case a.Role == amqp.RoleSender && a.Target != nil:
		return a.Target.Timeout.V > 0 || a.Target.ExpiryPolicy == amqp.ExpiryNever
	}
	return false
}

// setAddress returns a copy of an attach with another address in the peer's terminus.
func setAddress(a *amqp.Attach, address func(string) string) *amqp.Attach {
	b := *a
	if a.Role == amqp.RoleReceiver {
		if a.Source != nil && a.Source.Address.Set {
			s := *a.Source
			s.Address.V = address(s.Address.V)
			b.Source = &s
		}
	} else if a.Target != nil && a.Target.Address.Set {
		t := *a.Target
		t.Address.V = address(t.Address.V)
		b.Target = &t
	}
	return &b
}

// setDynamicAddress returns a copy of an attach with another address in the dynamic node's
// properties.
func setDynamicAddress(a *amqp.Attach, address string) *amqp.Attach {
	b := *a
	properties := func(r amqp.Raw) amqp.Raw {
		v, err := r.Value()
		m, ok := v.(amqp.Map)
		if err != nil || !ok || len(m) == 0 {
			return r
		}
		m[0].Value = address
		return amqp.AppendValue(nil, m)
	}
	if a.Role == amqp.RoleReceiver {
		s := *a.Source
		s.DynamicNodeProperties = properties(s.DynamicNodeProperties)
		b.Source = &s
	} else {
		t := *a.Target
		t.DynamicNodeProperties = properties(t.DynamicNodeProperties)
		b.Target = &t
	}
	return &b
}

// onward is the attach for the next hop (RT L9, L11): all that the termini say, and what the peer
// says of the link itself but for what each hop has of its own (RT L10).
func onward(q *router.LinkQuery, a *amqp.Attach) *amqp.Attach {
	name := a.Name
	if !q.InterRouter {
		name += "@" + q.Container
	}
	return &amqp.Attach{
		Name: name, Role: a.Role, Source: a.Source, Target: a.Target, Coordinator: a.Coordinator,
		OfferedCapabilities: a.OfferedCapabilities, DesiredCapabilities: a.DesiredCapabilities, Properties: a.Properties,
	}
}

// answer makes what the peer is told from the far end's attach: its termini, with the address as
// the peer knows it. A refusal is one whose terminus is not there; the peer's own is shown to it in
// any case (RT E18). here says that the far end is a container at this router.
func answer(q *router.LinkQuery, w wanted, sp *space, here bool) func(*amqp.Attach) *amqp.Attach {
	a, tenant := q.Attach, q.Tenant
	sp = &space{add: sp.add, del: sp.del} // as they are now
	return func(far *amqp.Attach) *amqp.Attach {
		r := &amqp.Attach{
			Role: a.Role, Source: far.Source, Target: far.Target, Coordinator: far.Coordinator,
			OfferedCapabilities: far.OfferedCapabilities, DesiredCapabilities: far.DesiredCapabilities, Properties: far.Properties,
		}
		if a.Role == amqp.RoleReceiver {
			if r.Target == nil {
				r.Target = a.Target
			}
		} else if r.Source == nil {
			r.Source = a.Source
		}
		if w.dynamic {
			return r // the container has chosen
		}
		return setAddress(r, func(address string) string {
			full := tenant + router.PlainAddress(w.address)
			sent := full
			if tenant == "" {
				sent = w.address
			}
			if here {
				address = sp.inward(address, sent)
			}
			if tenant != "" && address == full {
				return w.address
			}
			return address
		})
	}
}
