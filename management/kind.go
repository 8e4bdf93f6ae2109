package management

import "qdrouter/config"

// A kind says how the agent answers for the entities of one type.
type kind struct {
	*config.EntityType

	// rows lists the entities. nil when the type has none of its own.
	rows func(a *Agent, from Asker) table

	// coreOps are the operations of a core type (MG 3); the others of the five
	// answer 501. nil for stored types.
	coreOps map[string]coreOp
	// coreRows is the core's view where it is not that of rows: the router's.
	coreRows func(a *Agent, from Asker) table
	// keep takes note of what an object of the core has and would lose if it were
	// deleted and made anew; restore puts it back. nil when there is nothing.
	keep func(a *Agent, identity string) (restore func())
	// live types change by themselves and can be long: they are listed only when
	// asked for by name (MG 4.2).
	live bool

	// What changes to a stored entity do to the running router. nil does nothing.
	// An error is the reply, and then nothing is changed.
	onCreate func(a *Agent, e *entity) error
	onUpdate func(a *Agent, e *entity) error
	onDelete func(a *Agent, e *entity) error
	// refresh adds the attributes of a stored entity that are not settings.
	refresh func(a *Agent, e *entity, attrs map[string]any)

	// custom are operations beyond READ, UPDATE and DELETE, by upper case name.
	custom map[string]func(a *Agent, req *Request) (any, error)
}

// A coreOp runs an operation of a core type and gives the body of its reply.
type coreOp func(a *Agent, k *kind, req *Request) (any, error)

func (k *kind) core() bool { return k.coreOps != nil }

// listed tells whether queries that do not name the type show its entities.
func (k *kind) listed() bool { return k.rows != nil && !k.live }

// kindOf gives the kind of a type by its short or long name, or nil.
func (a *Agent) kindOf(typeName string) *kind {
	t := config.TypeByName(typeName)
	for _, k := range a.kinds {
		if k.EntityType == t {
			return k
		}
	}
	return nil
}

// objectOps are the operations of core objects that requests make and delete.
func objectOps(create coreOp, remove func(a *Agent, req *Request, id uint64) error) map[string]coreOp {
	return map[string]coreOp{opQuery: coreQuery, opRead: coreRead, opCreate: create, opDelete: coreDelete(remove)}
}

// newKinds gives the kinds of all types, in schema order.
func newKinds() []*kind {
	settings := map[string]kind{
		"management": {rows: managementRows, custom: nodeOperations()},
		"router": {
			refresh:  refreshRouter,
			coreRows: routerRows,
			coreOps:  map[string]coreOp{opQuery: coreQuery, opRead: forbidden, opCreate: forbidden, opDelete: forbidden},
		},
		"sslProfile":        {onCreate: createSSLProfile},
		"authServicePlugin": {},
		"listener":          {onCreate: createListener, onDelete: deleteListener, refresh: refreshListener},
		"connector":         {onCreate: createConnector, onDelete: deleteConnector, refresh: refreshConnector},
		"log":               {onUpdate: updateLog},
		"logStats":          {rows: logStatsRows},
		"policy":            {refresh: refreshPolicy},
		"vhost":             {},
		"vhostStats":        {rows: vhostStatsRows},
		"allocator":         {rows: allocatorRows},
		"router.node":       {rows: nodeRows},
		"dummy":             {custom: map[string]func(*Agent, *Request) (any, error){"CALLME": callMe}},

		"connection": {
			rows: connectionRows, live: true,
			coreOps: map[string]coreOp{opQuery: coreQuery, opRead: readConnection, opUpdate: updateConnection, opDelete: forbidden},
		},
		"router.link": {
			rows: linkRows, live: true,
			coreOps: map[string]coreOp{opQuery: coreQuery, opRead: coreRead, opUpdate: updateLink},
		},
		"router.address": {
			rows: addressRows, live: true,
			coreOps: map[string]coreOp{opQuery: coreQuery, opRead: readAddress},
		},
		"router.config.address": {
			rows:    addressConfigRows,
			coreOps: objectOps(createAddressConfig, func(a *Agent, _ *Request, id uint64) error { return a.core.DeleteAddressConfig(id) }),
		},
		"router.config.linkRoute": {
			rows:    linkRouteRows,
			coreOps: objectOps(createLinkRoute, func(a *Agent, _ *Request, id uint64) error { return a.linkRoutes.Delete(id) }),
		},
		"router.config.autoLink": {
			rows:    autoLinkRows,
			coreOps: objectOps(createAutoLink, func(a *Agent, _ *Request, id uint64) error { return a.autoLinks.Delete(id) }),
		},
		"router.config.exchange": {
			rows: exchangeRows, keep: keepBindings,
			coreOps: objectOps(createExchange, func(a *Agent, _ *Request, id uint64) error { return a.core.DeleteExchange(id) }),
		},
		"router.config.binding": {
			rows:    bindingRows,
			coreOps: objectOps(createBinding, func(a *Agent, _ *Request, id uint64) error { return a.core.DeleteBinding(id) }),
		},
		"router.connection.linkRoute": {
			rows: connectionLinkRouteRows, live: true,
			coreOps: objectOps(createConnectionLinkRoute, func(a *Agent, req *Request, id uint64) error {
				return a.linkRoutes.DeleteFor(req.From.Connection, id)
			}),
		},
		"console": {
			coreOps: map[string]coreOp{opQuery: forbidden, opRead: forbidden, opCreate: forbidden, opUpdate: forbidden, opDelete: forbidden},
		},
	}
	kinds := make([]*kind, 0, len(config.Types()))
	for _, t := range config.Types() {
		k := settings[t.Name]
		k.EntityType = t
		if stored(t) {
			k.rows = storedRows(&k)
		}
		kinds = append(kinds, &k)
	}
	return kinds
}

// stored tells whether the agent's own store holds the entities of a type.
func stored(t *config.EntityType) bool {
	switch t.Name {
	case "router", "sslProfile", "authServicePlugin", "listener", "connector", "log", "policy", "vhost", "dummy":
		return true
	}
	return false
}

// forbidden refuses an operation of a core type for good (MG 9, point 4).
func forbidden(*Agent, *kind, *Request) (any, error) { return nil, errForbidden }
