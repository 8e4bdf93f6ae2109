package management

import (
	"reflect"
	"slices"
	"strings"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
)

// Long names of the types whose rows are put together here.
var (
	longManagement          = config.LongName("management")
	longRouter              = config.LongName("router")
	longConnection          = config.LongName("connection")
	longLink                = config.LongName("router.link")
	longAddress             = config.LongName("router.address")
	longAddressConfig       = config.LongName("router.config.address")
	longAutoLink            = config.LongName("router.config.autoLink")
	longLinkRoute           = config.LongName("router.config.linkRoute")
	longConnectionLinkRoute = config.LongName("router.connection.linkRoute")
	longExchange            = config.LongName("router.config.exchange")
	longBinding             = config.LongName("router.config.binding")
	longNode                = config.LongName("router.node")
	longAllocator           = config.LongName("allocator")
	longLogStats            = config.LongName("logStats")
	longVhostStats          = config.LongName("vhostStats")
)

// managementRows gives the agent itself (MG 4.1).
func managementRows(*Agent, Asker) table {
	return storedTable{{"identity": "self", "name": "self", "type": longManagement}}
}

// nodeOperations gives the operations of the agent itself.
func nodeOperations() map[string]func(*Agent, *Request) (any, error) {
	ofSchema := func(answer func(*Request) (any, error)) func(*Agent, *Request) (any, error) {
		return func(_ *Agent, req *Request) (any, error) { return answer(req) }
	}
	return map[string]func(*Agent, *Request) (any, error){
		opQuery:           query,
		"GET-TYPES":       ofSchema(getTypes),
		"GET-OPERATIONS":  ofSchema(getOperations),
		"GET-ATTRIBUTES":  ofSchema(getAttributes),
		"GET-SCHEMA":      ofSchema(getSchema),
		"GET-JSON-SCHEMA": ofSchema(getJSONSchema),
		"GET-ANNOTATIONS": noAnnotations,
		"GET-MGMT-NODES":  mgmtNodes,
		"GET-LOG":         getLog,
	}
}

// noAnnotations answers GET-ANNOTATIONS: the schema has none (MG 4.8).
func noAnnotations(*Agent, *Request) (any, error) { return amqp.Map{}, nil }

// callMe answers the CALLME of dummy: the request's application properties come
// back (MG 4.13), in one order whatever that of the client's library.
func callMe(_ *Agent, req *Request) (any, error) {
	echo := slices.Clone(req.Properties)
	slices.SortStableFunc(echo, func(a, b amqp.MapEntry) int {
		x, _ := keyText(a.Key)
		y, _ := keyText(b.Key)
		return strings.Compare(x, y)
	})
	return echo, nil
}

// refreshPolicy adds the counters of the connection policy.
func refreshPolicy(a *Agent, _ *entity, attrs map[string]any) {
	s := a.policyStats()
	attrs["connectionsProcessed"] = s.ConnectionsProcessed
	attrs["connectionsDenied"] = s.ConnectionsDenied
	attrs["connectionsCurrent"] = s.ConnectionsCurrent
	attrs["linksDenied"] = s.LinksDenied
	attrs["maxMessageSizeDenied"] = s.MaxMessageSizeDenied
	attrs["totalDenials"] = s.ConnectionsDenied + s.LinksDenied + s.MaxMessageSizeDenied
}

// vhostStatsRows gives one row for each vhost. Vhosts are stored and shown; their
// rules are not enforced in this release, so nothing is ever counted.
func vhostStatsRows(a *Agent, _ Asker) table {
	var t storedTable
	for _, e := range a.entities {
		if e.kind.Name != "vhost" {
			continue
		}
		host := e.config.Str("hostname")
		attrs := map[string]any{
			"identity":      "vhostStats/" + host,
			"name":          "vhostStats/" + host,
			"type":          longVhostStats,
			"id":            host,
			"hostname":      host,
			"perUserState":  map[string]any{},
			"perHostState":  map[string]any{},
			"sessionDenied": int64(0),
		}
		for _, counter := range []string{
			"connectionsApproved", "connectionsDenied", "connectionsCurrent",
			"senderDenied", "receiverDenied", "maxMessageSizeDenied",
		} {
			attrs[counter] = int64(0)
		}
		t = append(t, attrs)
	}
	return t
}

// allocatorRows gives what stands in for 1.19's memory pools (MG 7.14): the
// objects of these kinds that live now, under the names qdstat -m has always
// shown. The size is that of the row that describes one. Go's allocator keeps no
// lists of free objects, so the figures about those are 1.19's settings and zeros.
func allocatorRows(a *Agent, _ Asker) table {
	s := a.core.Stats()
	stored := func(typeName string) (n uint64) {
		for _, e := range a.entities {
			if e.kind.Name == typeName {
				n++
			}
		}
		return n
	}
	connection := reflect.TypeFor[router.ConnectionInfo]()
	link := reflect.TypeFor[router.LinkInfo]()
	section := reflect.TypeFor[config.Entity]()
	pools := []struct {
		name string
		row  reflect.Type
		live uint64 // objects
	}{
		{"qd_connection_t", connection, s.ConnectionCount},
		{"qd_connector_t", section, stored("connector")},
		{"qd_link_t", link, s.LinkCount},
		{"qd_listener_t", section, stored("listener")},
		{"qd_log_entry_t", reflect.TypeFor[LogEntry](), uint64(len(a.logs.Recent(0)))},
		{"qdr_address_config_t", reflect.TypeFor[router.AddressConfig](), uint64(len(a.core.AddressConfigs()))},
		{"qdr_address_t", reflect.TypeFor[router.AddressInfo](), s.AddrCount},
		{"qdr_connection_t", connection, s.ConnectionCount},
		{"qdr_link_t", link, s.LinkCount},
		{"qdr_node_t", reflect.TypeFor[router.NodeInfo](), s.NodeCount},
	}
	t := make(storedTable, len(pools))
	for i, p := range pools {
		t[i] = map[string]any{
			"identity":                   "allocator/" + p.name,
			"name":                       "allocator/" + p.name,
			"type":                       longAllocator,
			"typeName":                   p.name,
			"typeSize":                   int64(p.row.Size()),
			"transferBatchSize":          int64(64),
			"localFreeListMax":           int64(128),
			"globalFreeListMax":          int64(0),
			"totalAllocFromHeap":         int64(p.live),
			"totalFreeToHeap":            int64(0),
			"heldByThreads":              int64(p.live),
			"batchesRebalancedToThreads": int64(0),
			"batchesRebalancedToGlobal":  int64(0),
		}
	}
	return t
}
