package management

import (
	"slices"
	"strconv"
	"time"

	"qdrouter/amqp"
	"qdrouter/router"
)

// routerView is what the core view of the router entity is made of.
type routerView struct {
	router.RouterStats
	router.Failures
	id, mode, version, metadata string
	workers                     int64
}

var routerColumns = columns[routerView]{
	"name":                            func(r *routerView) any { return r.id },
	"identity":                        func(*routerView) any { return "1" },
	"id":                              func(r *routerView) any { return r.id },
	"type":                            func(*routerView) any { return longRouter },
	"mode":                            func(r *routerView) any { return r.mode },
	"area":                            func(*routerView) any { return area },
	"version":                         func(r *routerView) any { return r.version },
	"metadata":                        func(r *routerView) any { return orNull(r.metadata) },
	"addrCount":                       func(r *routerView) any { return r.AddrCount },
	"linkCount":                       func(r *routerView) any { return r.LinkCount },
	"nodeCount":                       func(r *routerView) any { return r.NodeCount },
	"linkRouteCount":                  func(r *routerView) any { return r.LinkRouteCount },
	"autoLinkCount":                   func(r *routerView) any { return r.AutoLinkCount },
	"connectionCount":                 func(r *routerView) any { return r.ConnectionCount },
	"presettledDeliveries":            func(r *routerView) any { return r.Presettled },
	"droppedPresettledDeliveries":     func(r *routerView) any { return r.DroppedPresettled },
	"acceptedDeliveries":              func(r *routerView) any { return r.Accepted },
	"rejectedDeliveries":              func(r *routerView) any { return r.Rejected },
	"releasedDeliveries":              func(r *routerView) any { return r.Released },
	"modifiedDeliveries":              func(r *routerView) any { return r.Modified },
	"deliveriesDelayed1Sec":           func(r *routerView) any { return r.Delayed1Sec },
	"deliveriesDelayed10Sec":          func(r *routerView) any { return r.Delayed10Sec },
	"deliveriesStuck":                 func(r *routerView) any { return r.Stuck },
	"deliveriesIngress":               func(r *routerView) any { return r.Ingress },
	"deliveriesEgress":                func(r *routerView) any { return r.Egress },
	"deliveriesTransit":               func(r *routerView) any { return r.Transit },
	"deliveriesIngressRouteContainer": func(r *routerView) any { return r.IngressRouteContainer },
	"deliveriesEgressRouteContainer":  func(r *routerView) any { return r.EgressRouteContainer },
	"deliveriesRedirectedToFallback":  func(r *routerView) any { return r.RedirectedToFallback },
	"linksBlocked":                    func(r *routerView) any { return r.LinksBlocked },
	"uptimeSeconds":                   func(r *routerView) any { return r.UptimeSeconds },
	"workerThreads":                   func(r *routerView) any { return int32(r.workers) },
	"memoryUsage": func(r *routerView) any {
		if r.MemoryUsage == 0 {
			return nil // unknown
		}
		return r.MemoryUsage
	},
	"linksRefused":       func(r *routerView) any { return r.LinksRefused },
	"connectionsRefused": func(r *routerView) any { return r.ConnectionsRefused },
	"connectionsFailed":  func(r *routerView) any { return r.ConnectionsFailed },
	"recentFailures":     func(r *routerView) any { return recentFailures(r.Recent) },
}

// recentFailures shows what was refused or has failed lately, the newest first.
func recentFailures(recent []router.Failure) amqp.List {
	list := amqp.List{}
	for _, f := range slices.Backward(recent) {
		entry := amqp.Map{
			{Key: "time", Value: f.Time.UTC().Format(time.RFC3339)},
			{Key: "count", Value: f.Count},
			{Key: "what", Value: f.What},
			{Key: "reason", Value: f.Reason},
		}
		if f.ConnectionID > 0 {
			entry = append(entry, amqp.MapEntry{Key: "connectionId", Value: strconv.FormatUint(f.ConnectionID, 10)})
		}
		for _, e := range []struct{ key, text string }{
			{"where", f.Where}, {"host", f.Host}, {"container", f.Container}, {"user", f.User},
			{"linkName", f.Link}, {"linkDir", f.Direction}, {"address", f.Address},
		} {
			entry = member(entry, e.key, e.text)
		}
		list = append(list, entry)
	}
	return list
}

// area is the one routing area there is.
const area = "0"

// routerRows gives the core view: the live counters of this router (MG 3).
func routerRows(a *Agent, _ Asker) table {
	settings := a.router.config
	stats := a.core.Stats()
	return &snapshot[routerView]{[]routerView{{
		RouterStats: stats,
		Failures:    a.core.Failures(),
		id:          a.routerID,
		mode:        settings.Str("mode"),
		version:     a.version,
		metadata:    settings.Str("metadata"),
		workers:     settings.Int("workerThreads"),
	}}, routerColumns}
}

// refreshRouter completes the configuration view. Its counters stay 0: old
// clients compare them with the rows of a query that shows no live types (MG 4.2).
func refreshRouter(a *Agent, _ *entity, attrs map[string]any) {
	attrs["id"] = a.routerID
	attrs["area"] = area
	attrs["hostName"] = a.hostName
	for _, counter := range []string{"addrCount", "linkCount", "nodeCount"} {
		attrs[counter] = int64(0)
	}
}

// nodeRows gives the routers of the network, this one included (MG 7.14).
func nodeRows(a *Agent, _ Asker) table {
	var t storedTable
	for _, n := range a.core.Nodes() {
		attrs := map[string]any{
			"identity":        "router.node/" + n.ID,
			"name":            "router.node/" + n.ID,
			"type":            longNode,
			"id":              n.ID,
			"protocolVersion": n.ProtocolVersion,
			"instance":        n.Instance,
			"linkState":       n.LinkState,
			"nextHop":         orNull(n.NextHop),
			"validOrigins":    n.ValidOrigins,
			"address":         n.Address,
			"index":           n.Index,
		}
		if n.RouterLink >= 0 {
			attrs["routerLink"] = n.RouterLink
		}
		if n.Cost >= 0 {
			attrs["cost"] = n.Cost
		}
		if n.LastTopoChange > 0 {
			attrs["lastTopoChange"] = n.LastTopoChange
		}
		t = append(t, attrs)
	}
	return t
}

// mgmtNodes answers GET-MGMT-NODES: the agents of the network, in the form old
// clients parse (MG 4.9).
func mgmtNodes(a *Agent, _ *Request) (any, error) {
	var addresses []string
	for _, n := range a.core.Nodes() {
		addresses = append(addresses, "amqp:/_topo/"+area+"/"+n.ID+"/$management")
	}
	return stringList(addresses), nil
}
