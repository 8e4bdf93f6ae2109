package management

import (
	"strconv"

	"qdrouter/amqp"
	"qdrouter/linkroute"
	"qdrouter/router"
)

// LinkRoutes are the running link routes, a *linkroute.LinkRoutes. All methods may be called from
// any goroutine; the lists are in creation order. Those with "For" are about the link routes that a
// connection has made for itself.
type LinkRoutes interface {
	Add(linkroute.LinkRoute) (linkroute.LinkRoute, error)
	Delete(id uint64) error
	List() []linkroute.LinkRoute

	AddFor(connection uint64, l linkroute.LinkRoute) (linkroute.LinkRoute, error)
	DeleteFor(connection, id uint64) error
	ListFor(connection uint64) []linkroute.LinkRoute
}

var linkRouteColumns = columns[linkroute.LinkRoute]{
	"name":              func(l *linkroute.LinkRoute) any { return orNull(l.Name) },
	"identity":          func(l *linkroute.LinkRoute) any { return strconv.FormatUint(l.ID, 10) },
	"type":              func(*linkroute.LinkRoute) any { return longLinkRoute },
	"prefix":            func(l *linkroute.LinkRoute) any { return orNull(l.Prefix) },
	"pattern":           func(l *linkroute.LinkRoute) any { return orNull(l.Pattern) },
	"distribution":      func(*linkroute.LinkRoute) any { return router.LinkBalanced.String() },
	"connection":        func(l *linkroute.LinkRoute) any { return orNull(l.Connection) },
	"containerId":       func(l *linkroute.LinkRoute) any { return orNull(l.ContainerID) },
	"direction":         func(l *linkroute.LinkRoute) any { return l.Direction },
	"dir":               func(l *linkroute.LinkRoute) any { return l.Direction },
	"addExternalPrefix": func(l *linkroute.LinkRoute) any { return orNull(l.AddExternalPrefix) },
	"delExternalPrefix": func(l *linkroute.LinkRoute) any { return orNull(l.DelExternalPrefix) },
	"operStatus": func(l *linkroute.LinkRoute) any {
		if l.Active {
			return "active"
		}
		return "inactive"
	},
}

var connectionLinkRouteColumns = columns[linkroute.LinkRoute]{
	"name":        linkRouteColumns["name"],
	"identity":    linkRouteColumns["identity"],
	"type":        func(*linkroute.LinkRoute) any { return longConnectionLinkRoute },
	"pattern":     linkRouteColumns["pattern"],
	"direction":   linkRouteColumns["direction"],
	"containerId": linkRouteColumns["containerId"],
}

func linkRouteRows(a *Agent, _ Asker) table {
	return &snapshot[linkroute.LinkRoute]{a.linkRoutes.List(), linkRouteColumns}
}

// connectionLinkRouteRows are those of the asking connection alone (RT L24).
func connectionLinkRouteRows(a *Agent, from Asker) table {
	return &snapshot[linkroute.LinkRoute]{a.linkRoutes.ListFor(from.Connection), connectionLinkRouteColumns}
}

// createLinkRoute answers CREATE (MG 7.6). What 1.19's core judges is judged in its words.
func createLinkRoute(a *Agent, k *kind, req *Request) (any, error) {
	if _, isMap := req.Body.(amqp.Map); !isMap {
		return nil, badRequest("Body of request must be a map")
	}
	body, err := req.bodyMap(true)
	if err != nil {
		return nil, err
	}
	given := func(name string) bool { return body[name] != nil }
	direction := "direction"
	if !given(direction) && given("dir") {
		direction = "dir"
		a.warningf("The 'dir' attribute of linkRoute has been deprecated. Use 'direction' instead")
	}
	switch {
	case given("connection") && given("containerId"):
		return nil, badRequest("%s", linkroute.ErrBothSelectors)
	case !given(direction):
		return nil, badRequest("%s", linkroute.ErrNoDirection)
	case !given("prefix") && !given("pattern"):
		return nil, badRequest("%s", router.ErrPrefixEither)
	case given("prefix") && given("pattern"):
		return nil, badRequest("%s", router.ErrPrefixBoth)
	}
	if err := addressText(body, "prefix", "Prefix"); err != nil {
		return nil, err
	}
	if err := addressText(body, "pattern", "Pattern"); err != nil {
		return nil, err
	}
	if given("distribution") && k.Attribute("distribution").Tag(body["distribution"]) != router.LinkBalanced.String() {
		return nil, badRequest("%s", linkroute.ErrDistribution)
	}
	wanted := linkroute.LinkRoute{
		Name: req.text("name"), Prefix: scalarText(body["prefix"]), Pattern: scalarText(body["pattern"]),
		Direction: k.Attribute("direction").Tag(body[direction]), Connection: scalarText(body["connection"]), ContainerID: scalarText(body["containerId"]),
		AddExternalPrefix: scalarText(body["addExternalPrefix"]), DelExternalPrefix: scalarText(body["delExternalPrefix"]),
	}
	if wanted.Name == "" {
		wanted.Name = scalarText(body["name"])
	}
	made, err := a.linkRoutes.Add(wanted)
	if err != nil {
		return nil, badRequest("%s", oneLine(err))
	}
	return columnMap(k, &snapshot[linkroute.LinkRoute]{[]linkroute.LinkRoute{made}, linkRouteColumns}, 0), nil
}

// addressText refuses a prefix or pattern that is no text or has none (RT F8).
func addressText(body map[string]any, name, title string) error {
	if body[name] == nil {
		return nil
	}
	if s, ok := body[name].(string); !ok || s == "" {
		return badRequest("%s must be a non-empty string type", title)
	}
	return nil
}

// createConnectionLinkRoute answers CREATE over the connection that is to serve the links (RT L23).
func createConnectionLinkRoute(a *Agent, k *kind, req *Request) (any, error) {
	if _, isMap := req.Body.(amqp.Map); !isMap {
		return nil, badRequest("Body of request must be a map")
	}
	body, err := req.bodyMap(true)
	if err != nil {
		return nil, err
	}
	if body["pattern"] == nil {
		return nil, badRequest("%s", linkroute.ErrNoPattern)
	}
	if err := addressText(body, "pattern", "Pattern"); err != nil {
		return nil, err
	}
	if body["direction"] == nil {
		return nil, badRequest("Missing value for 'direction'")
	}
	wanted := linkroute.LinkRoute{Name: req.text("name"), Pattern: scalarText(body["pattern"]), Direction: k.Attribute("direction").Tag(body["direction"])}
	if wanted.Name == "" {
		wanted.Name = scalarText(body["name"])
	}
	made, err := a.linkRoutes.AddFor(req.From.Connection, wanted)
	if err != nil {
		return nil, badRequest("%s", oneLine(err))
	}
	return columnMap(k, &snapshot[linkroute.LinkRoute]{[]linkroute.LinkRoute{made}, connectionLinkRouteColumns}, 0), nil
}
