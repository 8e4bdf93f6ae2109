package management

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/linkroute"
	"qdrouter/router"
)

const linkRouteConf = standaloneConf + `
linkRoute {
 prefix: q
 direction: in
}
linkRoute {
 name: named
 pattern: q/*
 dir: out
 containerId: broker
}
autoLink {
 addr: a
 direction: in
}
autoLink {
 name: al
 address: b
 direction: out
 phase: 3
}
`

func queryBench(t *testing.T, links int) *bench {
	b := newBench(t, standaloneConf)
	for i := range links {
		b.core.links = append(b.core.links, newLink(i))
	}
	return b
}

func newLink(i int) router.LinkInfo {
	return router.LinkInfo{ID: uint64(i + 1), Name: fmt.Sprint("link", i), OwningAddr: fmt.Sprint("M0a", i), Type: "endpoint"}
}

func names(names ...any) amqp.Map { return attrs("attributeNames", amqp.List(names)) }

// MG 4.2: the heading and the rows of a QUERY.
func TestQuery(t *testing.T) {
	b := queryBench(t, 3)
	b.core.connections = []router.ConnectionInfo{{ID: 1, Host: "h:1"}}
	t.Run("the columns asked for, in their order, twice when asked twice", func(t *testing.T) {
		heading, rows := rowsOf(t, b.want(t, 200, "OK", names("type", "name", "port", "name"), "operation=QUERY", "entityType=listener"))
		if !slices.Equal(heading, []string{"type", "name", "port", "name"}) {
			t.Errorf("heading = %v", heading)
		}
		subset(t, map[string]any{"type": "org.apache.qpid.dispatch.listener", "name": "l1", "port": "20001"}, rows[1])
	})
	t.Run("all attributes of a stored type", func(t *testing.T) {
		for _, body := range []any{nil, amqp.Map{}, names(), "text"} {
			heading, rows := rowsOf(t, b.want(t, 200, "OK", body, "operation=QUERY", "entityType=listener"))
			if want := attributeNames(config.TypeByName("listener")); !slices.Equal(heading, want) || len(rows) != 2 {
				t.Errorf("body %v: heading = %v, %d rows", body, heading, len(rows))
			}
		}
	})
	t.Run("all columns of a core type, named in type alone", func(t *testing.T) {
		heading, rows := rowsOf(t, b.want(t, 200, "OK", nil, "operation=QUERY", "type=org.apache.qpid.dispatch.router.link"))
		if want := coreColumns(config.TypeByName("router.link")); !slices.Equal(heading, want) || len(rows) != 3 {
			t.Errorf("heading = %v, %d rows", heading, len(rows))
		}
	})
	t.Run("unknown attribute of a stored type", func(t *testing.T) {
		b.want(t, 404, "Unknown attributes ['nosuch'] for type org.apache.qpid.dispatch.listener", names("name", "nosuch"), "operation=QUERY", "entityType=listener")
		b.want(t, 404, "Unknown attributes ['nosuch']", names("nosuch"), "operation=QUERY")
	})
	t.Run("unknown attribute of a core type is left out", func(t *testing.T) {
		heading, rows := rowsOf(t, b.want(t, 200, "OK", names("identity", "nosuch", int32(1), amqp.Symbol("linkName")), "operation=QUERY", "entityType=router.link"))
		if !slices.Equal(heading, []string{"identity", "linkName"}) || rows[2]["linkName"] != "link2" {
			t.Errorf("heading = %v, rows %v", heading, rows)
		}
	})
	t.Run("seventy names", func(t *testing.T) {
		var many amqp.List
		for range 70 {
			many = append(many, "identity")
		}
		if heading, _ := rowsOf(t, b.ask(attrs("attributeNames", many), "operation=QUERY", "entityType=router.link")); len(heading) != 70 {
			t.Errorf("%d columns, want 70", len(heading))
		}
	})
	t.Run("rows without any of the attributes are left out", func(t *testing.T) {
		_, rows := rowsOf(t, b.ask(names("port"), "operation=QUERY"))
		if len(rows) != 2 {
			t.Errorf("%d rows have a port, want the two listeners", len(rows))
		}
	})
	t.Run("an abstract type brings its subtypes", func(t *testing.T) {
		_, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=configurationEntity"))
		seen := map[any]int{}
		for _, row := range rows {
			seen[row["type"]]++
		}
		if seen[config.LongName("listener")] != 2 || seen[config.LongName("log")] != 17 || seen[config.LongName("router")] != 1 || seen[config.LongName("dummy")] != 0 {
			t.Errorf("types = %v", seen)
		}
	})
	b.want(t, 400, "No such entity type", nil, "operation=QUERY", "entityType=nosuch")
	b.want(t, 400, "No name or identity provided", nil, "operation=QUERY", "type=listener")
	b.want(t, 400, "offset", nil, "operation=QUERY", "entityType=listener", "offset=x")
	b.want(t, 400, "count", nil, "operation=QUERY", "entityType=router.link", "count=x")
}

// MG 4.2, 16 point 12: a query of everything leaves out what is live, and its
// router row agrees with that.
func TestQueryOfAllTypes(t *testing.T) {
	b := queryBench(t, 3)
	b.core.connections = []router.ConnectionInfo{{ID: 1, Host: "h:1"}}
	b.core.addresses = []router.AddressInfo{{Key: "M0x"}}
	b.core.nodes = []router.NodeInfo{{ID: "solo"}}
	b.want(t, 201, "", attrs("hostname", "vh"), "operation=CREATE", "type=vhost")
	_, rows := rowsOf(t, b.want(t, 200, "OK", nil, "operation=QUERY", "name=self", "type=org.amqp.management"))
	byType := map[string][]map[string]any{}
	for _, row := range rows {
		short := row["type"].(string)[len(config.Prefix)+1:]
		byType[short] = append(byType[short], row)
		if id := row["identity"].(string); short != "management" && (len(id) <= len(short) || id[:len(short)+1] != short+"/") {
			t.Errorf("identity %q of type %s", id, short)
		}
	}
	for short, want := range map[string]int{
		"management": 1, "router": 1, "log": 17, "logStats": 3, "policy": 1, "listener": 2, "router.node": 1, "vhost": 1, "vhostStats": 1,
		"connection": 0, "router.link": 0, "router.address": 0,
	} {
		if len(byType[short]) != want {
			t.Errorf("%d rows of type %s, want %d", len(byType[short]), short, want)
		}
	}
	if len(byType["allocator"]) == 0 {
		t.Errorf("no allocator rows")
	}
	subset(t, map[string]any{"linkCount": int32(0), "addrCount": int32(0), "identity": "router/solo"}, byType["router"][0])
	subset(t, map[string]any{"errorCount": int32(3), "name": "AGENT", "identity": "logStats/AGENT"}, byType["logStats"][0])
	subset(t, map[string]any{"hostname": "vh", "id": "vh", "connectionsApproved": int32(0)}, byType["vhostStats"][0])
}

// MG 4.2: offset and count.
func TestQueryWindow(t *testing.T) {
	b := queryBench(t, 10)
	for _, tt := range []struct {
		window      []string
		first, rows int
	}{
		{nil, 1, 10},
		{[]string{"offset=0", "count=0"}, 1, 10},
		{[]string{"count=-1"}, 1, 10},
		{[]string{"offset=3", "count=4"}, 4, 4},
		{[]string{"offset=8", "count=4"}, 9, 2},
		{[]string{"offset=10"}, 0, 0},
		{[]string{"offset=99999999999"}, 0, 0},
		{[]string{"offset=-5", "count=1"}, 1, 1},
		{[]string{"count=1000000000"}, 1, 10},
		{[]string{"count= 2 "}, 1, 2},
	} {
		_, rows := rowsOf(t, b.ask(nil, append(tt.window, "operation=QUERY", "entityType=router.link")...))
		if len(rows) != tt.rows || tt.rows > 0 && rows[0]["identity"] != fmt.Sprint(tt.first) {
			t.Errorf("%v: %d rows from %v, want %d from %d", tt.window, len(rows), rows, tt.rows, tt.first)
		}
	}
	// MG 4.2 [F]: stored types page too.
	_, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=listener", "offset=1", "count=1"))
	if len(rows) != 1 || rows[0]["name"] != "l1" {
		t.Errorf("second listener = %v", rows)
	}
	resp := b.Handle(Request{Properties: amqp.Map{
		{Key: "operation", Value: amqp.Symbol("QUERY")}, {Key: "entityType", Value: amqp.Symbol("router.link")},
		{Key: "offset", Value: uint8(2)}, {Key: "count", Value: uint64(3)}}})
	if _, rows := rowsOf(t, resp); len(rows) != 3 || rows[0]["identity"] != "3" {
		t.Errorf("window in other integer widths: %v", rows)
	}
}

// A client that pages through a long table gets each row once, whatever comes and
// goes meanwhile, and the table is copied once for it.
func TestPagesNeitherLoseNorRepeatRows(t *testing.T) {
	const total, size = 100_100, 500
	b := queryBench(t, total)
	seen := map[any]int{}
	for offset := 0; ; offset += size {
		resp := b.ask(names("identity"), "operation=QUERY", "entityType=router.link", fmt.Sprint("offset=", offset), fmt.Sprint("count=", size))
		p := resp.Body.(*page)
		for i := p.from; i < p.to; i++ {
			seen[p.row(i)[0]]++
		}
		if p.to-p.from < size {
			break
		}
		b.core.links = b.core.links[200:] // the oldest leave
	}
	if len(seen) != total {
		t.Errorf("%d different rows, want %d", len(seen), total)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("row %v came %d times", id, times)
		}
	}
	if b.core.snapshots != 1 {
		t.Errorf("the table was copied %d times", b.core.snapshots)
	}
	if len(b.readers) != 0 {
		t.Errorf("%d snapshots are kept after the last page", len(b.readers))
	}
}

// A snapshot is kept for one reader, for a while, and for few readers.
func TestReadersAreForgotten(t *testing.T) {
	b := queryBench(t, 100)
	page := func(replyTo string, offset int) any {
		resp := b.Handle(Request{ReplyTo: replyTo, Properties: props("operation=QUERY", "entityType=router.link", fmt.Sprint("offset=", offset), "count=10")})
		_, rows := rowsOf(t, resp)
		return rows[0]["identity"]
	}
	page("a", 0)
	b.core.links = b.core.links[50:]
	if got := page("a", 10); got != "11" {
		t.Errorf("the reader's next page begins with %v, want 11", got)
	}
	if got := page("b", 10); got != "61" {
		t.Errorf("another reader's page begins with %v, want 61 of the table as it is", got)
	}
	if got := page("a", 40); got != "91" {
		t.Errorf("a page out of turn begins with %v, want 91", got)
	}
	page("a", 0)
	b.clock = b.clock.Add(readerGrace + time.Second)
	b.core.links = b.core.links[10:]
	if got := page("a", 10); got != "71" {
		t.Errorf("a reader that was away too long gets %v, want 71", got)
	}
	for i := range 3 * maxReaders {
		page(fmt.Sprint("r", i), 0)
	}
	if len(b.readers) > maxReaders {
		t.Errorf("%d snapshots are kept", len(b.readers))
	}
	if next := b.readers.expire(b.clock); !next.Equal(b.clock.Add(readerGrace)) {
		t.Errorf("look again at %v", next)
	}
	if next := b.readers.expire(b.clock.Add(readerGrace)); !next.IsZero() || len(b.readers) != 0 {
		t.Errorf("%d snapshots left", len(b.readers))
	}
}

// Every wire column of every core type has a value of the declared AMQP type
// (MG 2.3, entities.yaml).
func TestColumnsHaveTheirWireType(t *testing.T) {
	b := newBench(t, linkRouteConf+exchangeConf)
	b.LoadObjects()
	b.linkRoutes.of = map[uint64][]linkroute.LinkRoute{7: {{ID: 9, Pattern: "p", Direction: "in"}}}
	b.core.connections = []router.ConnectionInfo{{ID: 1, Host: "h", Container: "c", SASL: "s", User: "u", SSLProto: "p", SSLCipher: "c", Tenant: "t/", Properties: amqp.Map{}}}
	b.core.links = []router.LinkInfo{{ID: 1, Name: "l", OwningAddr: "M0a", Peer: 2, IngressHistogram: []uint64{5}}}
	b.core.addresses = []router.AddressInfo{{Key: "M0a", TransitOutstanding: []int64{}, RemoteHostRouters: []string{"B"}}}
	b.core.configs = []router.AddressConfig{{ID: 1, Name: "n", Prefix: "p"}}
	b.core.stats.MemoryUsage = 1
	b.core.failures.Recent = []router.Failure{{What: router.LinkRefused}}
	b.core.stats.AddrCount = 3
	for _, k := range b.kinds {
		if len(k.Columns) == 0 {
			continue
		}
		p, ok := b.ask(nil, "operation=QUERY", "entityType="+k.Name).Body.(*page)
		if !ok || p.total == 0 {
			t.Errorf("%s: no rows", k.Name)
			continue
		}
		row := p.row(0)
		for i, c := range k.Columns {
			got := amqpType(row[i])
			if got != c.Type && !(got == "null" && c.Nullable) {
				t.Errorf("%s %s is %s, want %s", k.Name, c.Name, got, c.Type)
			}
		}
	}
}

func amqpType(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case int32:
		return "int"
	case int64:
		return "long"
	case uint32:
		return "uint"
	case uint64:
		return "ulong"
	case bool:
		return "boolean"
	case amqp.Map:
		return "map"
	case amqp.List:
		return "list<" + amqpType(v[0]) + ">"
	}
	return fmt.Sprintf("%T", v)
}

// MG 3: QUERY of router gives the core's view, by either name.
func TestQueryOfRouter(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.core.stats = router.RouterStats{LinkCount: 4, Ingress: 5, UptimeSeconds: 6}
	for _, name := range []string{"router", "org.apache.qpid.dispatch.router"} {
		_, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType="+name))
		subset(t, map[string]any{"identity": "1", "name": "solo", "id": "solo", "version": "9.9", "metadata": "selftest;solo", "mode": "standalone",
			"area": "0", "linkCount": uint64(4), "deliveriesIngress": uint64(5), "uptimeSeconds": uint32(6), "memoryUsage": nil, "workerThreads": int32(4)}, rows[0])
	}
}

// Why something was refused or failed is in the router's row, the newest first,
// and in those of listeners and connectors.
func TestReasonsOfFailures(t *testing.T) {
	b := newBench(t, standaloneConf+"connector {\n host: h\n port: 1\n}\n")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.core.failures = router.Failures{LinksRefused: 3, ConnectionsRefused: 2, ConnectionsFailed: 1, Recent: []router.Failure{
		{What: router.ConnectionRefused, Time: at, Count: 2, Reason: "no", Where: ":amqp", Host: "1.2.3.4:5"},
		{What: router.LinkRefused, Time: at, Count: 3, Reason: "amqp:not-found: Node not found", ConnectionID: 7, Host: "1.2.3.4:5",
			Container: "c", User: "u", Link: "l", Direction: "out", Address: "a"},
	}}
	_, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=router"))
	subset(t, map[string]any{"linksRefused": uint64(3), "connectionsRefused": uint64(2), "connectionsFailed": uint64(1)}, rows[0])
	want := amqp.List{
		attrs("time", "2026-01-02T03:04:05Z", "count", uint64(3), "what", "link refused", "reason", "amqp:not-found: Node not found", "connectionId", "7",
			"host", "1.2.3.4:5", "container", "c", "user", "u", "linkName", "l", "linkDir", "out", "address", "a"),
		attrs("time", "2026-01-02T03:04:05Z", "count", uint64(2), "what", "connection refused", "reason", "no", "where", ":amqp", "host", "1.2.3.4:5"),
	}
	if got := rows[0]["recentFailures"]; !reflect.DeepEqual(got, want) {
		t.Errorf("recent failures\n%v, want\n%v", got, want)
	}
	_, rows = rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=connector"))
	subset(t, map[string]any{"attempts": int32(3), "failures": int32(2), "lastError": "gone"}, rows[0])
	_, rows = rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=listener"))
	subset(t, map[string]any{"refusedConnections": int32(4), "failedConnections": int32(1), "lastError": "who are you"}, rows[0])
}

// MG 7.14: qdstat -m finds the pools it looks for.
func TestAllocators(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.core.stats.AddrCount = 12
	_, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=allocator"))
	for _, row := range rows {
		if row["typeName"] == "qdr_address_t" {
			subset(t, map[string]any{"identity": "allocator/qdr_address_t", "totalAllocFromHeap": int32(12)}, row)
			return
		}
	}
	t.Errorf("no qdr_address_t in %v", rows)
}

// MG 4.2: a query for no one type shows what the file has of the types that are
// created in the core too, not what requests created, unless they named the short
// type as 1.19's own agent takes it; one for the type shows all.
func TestQueryOfAllTypesShowsWhatTheFileMade(t *testing.T) {
	b := newBench(t, reloadConf+exchangeConf+"autoLink {\n address: q\n direction: in\n}\n")
	b.LoadObjects()
	for typeName, body := range map[string]amqp.Map{
		"router.config.address":  attrs("prefix", "mine"),
		"router.config.exchange": attrs("address", "y"),
		"router.config.binding":  attrs("exchangeName", "ex", "nextHopAddress", "mine"),
		"router.config.autoLink": attrs("address", "mine", "direction", "in"),
	} {
		b.want(t, StatusCreated, "Created", body, "operation=CREATE", "type="+config.Prefix+"."+typeName, "name=mine")
	}
	b.want(t, StatusCreated, "Created", attrs("address", "short", "direction", "in"), "operation=CREATE", "type=router.config.autoLink", "name=short")
	for _, query := range []string{"entityType=", "entityType=configurationEntity"} {
		got := map[any]int{}
		_, rows := rowsOf(t, b.want(t, StatusOK, "OK", nil, "operation=QUERY", query))
		for _, row := range rows {
			got[row["type"]]++
		}
		for longName, want := range map[string]int{longAddressConfig: 2, longExchange: 2, longBinding: 2, longAutoLink: 2} {
			if got[longName] != want {
				t.Errorf("%s: %d of %s, want %d", query, got[longName], longName, want)
			}
		}
	}
	for typeName, want := range map[string]int{"address": 3, "exchange": 3, "binding": 3, "autoLink": 3} {
		if _, rows := b.rows(t, "router.config."+typeName); len(rows) != want {
			t.Errorf("%d of %s, want %d", len(rows), typeName, want)
		}
	}
}
