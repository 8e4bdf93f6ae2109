package report

import (
	"context"
	"errors"
	"strings"
	"time"

	"qdrouter/config"
	"qdrouter/management/client"
)

// documentVersion changes when a key of the document goes or gets another
// meaning. New keys do not change it.
const documentVersion = 1

// A section is one key of what the JSON document says of a router.
type section struct {
	Key
	make func(p *printer) (any, error)
}

// Keys are the keys, besides id, that the JSON document of the report has for each
// router, with the schema name of the entities there, or nothing where an entry is
// made by qdstat.
func (r Report) Keys() []Key {
	keys := make([]Key, len(r.sections))
	for i, s := range r.sections {
		keys[i] = s.Key
	}
	return keys
}

// A Key is one key of what the JSON document says of a router.
type Key struct {
	Name       string
	EntityType string // schema name, "" for none
	Single     bool   // a map or null, not a list of maps
}

// list is the section with an array of the entities of a type.
func list(key, entityType string) section {
	return section{Key{key, entityType, false}, func(p *printer) (any, error) { return p.entities(entityType, p.opts.Limit, nil) }}
}

// permitted is s, or null where the router refuses it.
func permitted(s section) section {
	return section{s.Key, func(p *printer) (any, error) {
		v, err := s.make(p)
		var refused *client.StatusError
		if errors.As(err, &refused) {
			return nil, nil
		}
		return v, err
	}}
}

// single is the section with the one entity of a type.
func single(key, entityType string) section {
	return section{Key{key, entityType, true}, func(p *printer) (any, error) {
		all, err := p.entities(entityType, 1, nil)
		if err != nil || len(all) == 0 {
			return nil, err
		}
		return all[0], nil
	}}
}

// The sections by report (MG 13 has none of this). Their names are promised.
var (
	routerSection      = single("router", "router")
	connectionsSection = list("connections", "connection")
	connectorsSection  = permitted(list("connectors", "connector"))
	listenersSection   = permitted(list("listeners", "listener"))
	failuresSection    = section{Key{Name: "recentFailures"}, func(p *printer) (any, error) { return p.recentFailures() }}
	linksSection       = list("links", "router.link")
	nodesSection       = list("nodes", "router.node")
	addressesSection   = list("addresses", "router.address")
	autoLinksSection   = list("autoLinks", "router.config.autoLink")
	linkRoutesSection  = list("linkRoutes", "router.config.linkRoute")
	policySection      = single("policy", "policy")
	vhostsSection      = list("vhosts", "vhost")
	vhostStatsSection  = list("vhostStats", "vhostStats")
	memorySection      = section{Key{Name: "memory", Single: true}, (*printer).memoryObject}
	groupsSection      = section{Key{Name: "vhostGroups"}, (*printer).groupObjects}
	logSection         = section{Key{Name: "log"}, (*printer).logObjects}
	edgesSection       = section{Key{Name: "edgeConnections", EntityType: "connection"}, func(p *printer) (any, error) {
		return p.entities("connection", p.opts.Limit, func(conn row) bool { return conn.text("role") == "edge" })
	}}
)

// document writes what agents say as one JSON document, or nothing when one of
// them cannot be asked.
func (r Report) document(ctx context.Context, open Open, nodes []string, p *printer) error {
	routers := []any{}
	date := p.opts.Now().UTC()
	if len(nodes) == 0 {
		info, err := p.query("router", []string{"id"}, 0)
		if err != nil {
			return err
		}
		of, err := r.sectionsOf(p, info.first().text("id"))
		if err != nil {
			return err
		}
		routers = append(routers, of)
	}
	for _, node := range nodes {
		agent, err := open(ctx, strings.TrimPrefix(node, "amqp:/"))
		if err != nil {
			return err
		}
		p.agent, p.router = agent, nodeID(node)
		of, err := r.sectionsOf(p, p.router)
		if err != nil {
			return err
		}
		routers = append(routers, of)
	}
	indent := 2
	if p.rates != nil {
		indent = client.OneLine
	}
	text := client.AppendJSON(nil, client.Map{
		{Key: "version", Value: int64(documentVersion)},
		{Key: "date", Value: date.Format("2006-01-02T15:04:05.000000Z07:00")},
		{Key: "report", Value: r.Name},
		{Key: "routers", Value: routers},
	}, indent)
	_, err := p.out.Write(append(text, '\n'))
	return err
}

func (r Report) sectionsOf(p *printer, id string) (any, error) {
	of := client.Map{{Key: "id", Value: id}}
	for _, s := range r.sections {
		v, err := s.make(p)
		if err != nil {
			return nil, err
		}
		of = append(of, client.Entry{Key: s.Name, Value: v})
	}
	return of, nil
}

// entities returns the entities of a type, with every attribute that the router
// gives; nil accepts all of them.
func (p *printer) entities(entityType string, limit int, accept func(row) bool) ([]any, error) {
	all, err := p.query(entityType, nil, limit)
	if err != nil {
		return nil, err
	}
	objects := []any{}
	for entity := range all.all() {
		if accept == nil || accept(entity) {
			objects = append(objects, entity.object())
		}
	}
	return objects, nil
}

// object is an entity with its attributes in the router's order, then what the
// tables make of them, then the rates of its counters under perSecond. Secrets
// are left out.
func (r row) object() client.Map {
	t := config.TypeByName(r.rows.entityType)
	object := make(client.Map, 0, len(r.values)+4)
	for i, name := range r.rows.Names {
		if a := t.Attribute(name); a != nil && a.Hidden {
			continue
		}
		object = append(object, client.Entry{Key: name, Value: r.values[i]})
	}
	key, ok := map[string]string{"router.link": "owningAddr", "router.address": "name"}[r.rows.entityType]
	if ok {
		a := parseAddress(r.get(key))
		object = object.With("addressClass", a.class).With("addressText", a.text).With("addressPhase", a.phase)
	}
	var perSecond client.Map
	for _, c := range counters[r.rows.entityType] {
		if rate, ok := r.perSecond(c.attribute); ok {
			perSecond = append(perSecond, client.Entry{Key: c.attribute, Value: rate})
		}
	}
	if perSecond != nil {
		object = append(object, client.Entry{Key: "perSecond", Value: perSecond})
	}
	return object
}

func (p *printer) memoryObject() (any, error) {
	pools, err := p.entities("allocator", 0, nil)
	if err != nil {
		return nil, err
	}
	var used any
	if routers, err := p.query("router", []string{"memoryUsage"}, 0); err == nil {
		used = routers.first().get("memoryUsage")
	}
	return client.Map{{Key: "memoryUsage", Value: used}, {Key: "pools", Value: pools}}, nil
}

// groupObjects are the user groups of all vhosts with the settings that hold:
// their own, else the defaults of the router's schema.
func (p *printer) groupObjects() (any, error) {
	vhosts, err := p.query("vhost", nil, p.opts.Limit)
	if err != nil {
		return nil, err
	}
	defaults, err := p.groupDefaults()
	if err != nil {
		return nil, err
	}
	groups := []any{}
	for vhost := range vhosts.all() {
		for _, e := range groupsOf(vhost) {
			own, _ := e.Value.(client.Map)
			object := client.Map{{Key: "vhost", Value: vhost.get("hostname")}, {Key: "group", Value: e.Key}}
			for _, names := range [][]string{groupTexts, groupNumbers, groupFlags} {
				for _, name := range names {
					v, _ := defaults.setting(own, name)
					object = append(object, client.Entry{Key: name, Value: v})
				}
			}
			groups = append(groups, object)
		}
	}
	return groups, nil
}

func (p *printer) logObjects() (any, error) {
	entries, err := p.agent.Log(p.ctx, max(p.opts.Limit, 0))
	if err != nil {
		return nil, err
	}
	log := []any{}
	for _, e := range entries {
		if len(e) < 6 {
			continue
		}
		seconds, _ := number(e[5])
		log = append(log, client.Map{
			{Key: "date", Value: time.Unix(seconds, 0).UTC().Format(time.RFC3339)},
			{Key: "module", Value: e[0]},
			{Key: "level", Value: e[1]},
			{Key: "text", Value: e[2]},
			{Key: "file", Value: e[3]},
			{Key: "line", Value: e[4]},
		})
	}
	return log, nil
}
