package report

import (
	"fmt"
	"strings"
	"time"
)

// general is -g (MG 13.4).
func (p *printer) general(frame bool) error {
	routers, err := p.query("router", nil, 0)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	r := routers.first()
	t := table{title: "Router Statistics", heads: p.attributeHeads()}
	t.add("Version", r.text("version"))
	t.add("Mode", r.text("mode"))
	t.add("Router Id", r.text("id"))
	if v := r.get("workerThreads"); v != nil {
		t.add("Worker Threads", plainNumber(v))
	}
	if v := r.get("uptimeSeconds"); v != nil {
		t.add("Uptime", longTime(v))
	}
	if n, ok := number(r.get("memoryUsage")); ok && n > 0 {
		t.add("VmSize", binarySize(n))
	}
	t.add("Area", r.text("area"))
	routers.addKnown(&t, []labelled{
		{"Link Routes", "linkRouteCount"},
		{"Auto Links", "autoLinkCount"},
		{"Links", "linkCount"},
		{"Nodes", "nodeCount"},
		{"Addresses", "addrCount"},
		{"Connections", "connectionCount"},
		{"Presettled Count", "presettledDeliveries"},
		{"Dropped Presettled Count", "droppedPresettledDeliveries"},
		{"Accepted Count", "acceptedDeliveries"},
		{"Rejected Count", "rejectedDeliveries"},
		{"Released Count", "releasedDeliveries"},
		{"Modified Count", "modifiedDeliveries"},
		{"Deliveries Delayed > 1sec", "deliveriesDelayed1Sec"},
		{"Deliveries Delayed > 10sec", "deliveriesDelayed10Sec"},
		{"Deliveries Stuck > 10sec", "deliveriesStuck"},
		{"Deliveries to Fallback", "deliveriesRedirectedToFallback"},
		{"Links Blocked", "linksBlocked"},
		{"Ingress Count", "deliveriesIngress"},
		{"Egress Count", "deliveriesEgress"},
		{"Transit Count", "deliveriesTransit"},
		{"Deliveries from Route Container", "deliveriesIngressRouteContainer"},
		{"Deliveries to Route Container", "deliveriesEgressRouteContainer"},
	})
	p.print(t)
	return nil
}

// connections is -c (MG 13.5).
func (p *printer) connections(frame bool) error {
	conns, err := p.query("connection", nil, p.opts.Limit)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	p.print(conns.table("Connections", []column{
		attribute("id", "identity"),
		attribute("host", "host"),
		attribute("container", "container"),
		attribute("role", "role"),
		attribute("proto", "protocol"),
		attribute("dir", "dir"),
		{"security", "", security},
		{"authentication", "", authentication},
		{"tenant", "", tenant},
		{"last dlv", "lastDlvSeconds", func(r row) string { return longTime(r.get("lastDlvSeconds")) }},
		{"uptime", "uptimeSeconds", func(r row) string { return longTime(r.get("uptimeSeconds")) }},
	}, -1))
	return nil
}

// edges is -e (MG 13.6).
func (p *printer) edges(frame bool) error {
	conns, err := p.query("connection", nil, p.opts.Limit)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	if conns.Len() == 0 {
		fmt.Fprintln(p.out, "No Edge Router Connections")
		return nil
	}
	edges := *conns
	edges.Table = conns.Where(func(values []any) bool { return row{conns, values}.text("role") == "edge" })
	if edges.Len() == 0 {
		return nil
	}
	p.print(edges.table("Connections", []column{
		attribute("id", "identity"),
		attribute("host", "host"),
		attribute("container", "container"),
		attribute("role", "role"),
		attribute("dir", "dir"),
		{"security", "", security},
		{"authentication", "", authentication},
		{"tenant", "", tenant},
		{"active", "active", func(r row) string {
			if r.is("active") {
				return "yes"
			}
			return "no"
		}},
	}, -1))
	return nil
}

func security(conn row) string {
	switch {
	case !conn.is("isEncrypted"):
		return "no-security"
	case conn.text("sasl") == "GSSAPI":
		return "Kerberos"
	}
	return plainNumber(conn.get("sslProto")) + "(" + plainNumber(conn.get("sslCipher")) + ")"
}

func authentication(conn row) string {
	if !conn.is("isAuthenticated") {
		return "no-auth"
	}
	mechanism := conn.text("sasl")
	switch mechanism {
	case "ANONYMOUS":
		return "anonymous-user"
	case "GSSAPI":
		mechanism = "Kerberos"
	case "EXTERNAL":
		mechanism = "x.509"
	}
	if user := conn.text("user"); user != "" {
		return user + "(" + mechanism + ")"
	}
	return mechanism
}

func tenant(conn row) string { return strings.TrimSuffix(conn.text("tenant"), "/") }

// links is -l (MG 13.7).
func (p *printer) links(frame bool) error {
	attributes := []string{
		"linkType", "linkDir", "connectionId", "identity", "peer", "owningAddr", "capacity", "undeliveredCount",
		"unsettledCount", "deliveryCount", "presettledCount", "droppedPresettledCount", "acceptedCount",
		"rejectedCount", "releasedCount", "modifiedCount", "deliveriesDelayed1Sec", "deliveriesDelayed10Sec",
		"deliveriesStuck", "creditAvailable", "zeroCreditSeconds", "adminStatus", "operStatus", "linkName",
		"priority", "settleRate",
	}
	if p.opts.Verbose {
		// All: naming one that an old router lacks is an error there.
		attributes = nil
	}
	links, err := p.query("router.link", attributes, p.opts.Limit)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	settleRate := counter("rate", "settleRate")
	settleRate.needs = "deliveriesDelayed1Sec"
	columns := []column{
		attribute("type", "linkType"),
		attribute("dir", "linkDir"),
		attribute("conn id", "connectionId"),
		attribute("id", "identity"),
		attribute("peer", "peer"),
		{"class", "", func(r row) string { return parseAddress(r.get("owningAddr")).class }},
		{"addr", "", func(r row) string { return parseAddress(r.get("owningAddr")).text }},
		{"phs", "", func(r row) string { return parseAddress(r.get("owningAddr")).phase }},
		counter("cap", "capacity"),
		counterIfKnown("pri", "priority"),
		counter("undel", "undeliveredCount"),
		counter("unsett", "unsettledCount"),
		counter("deliv", "deliveryCount"),
		counter("presett", "presettledCount"),
		counterIfKnown("psdrop", "droppedPresettledCount"),
		counter("acc", "acceptedCount"),
		counter("rej", "rejectedCount"),
		counter("rel", "releasedCount"),
		counter("mod", "modifiedCount"),
		{"delay", "deliveriesDelayed1Sec", func(r row) string {
			a, _ := number(r.get("deliveriesDelayed1Sec"))
			b, _ := number(r.get("deliveriesDelayed10Sec"))
			return plainNumber(a + b)
		}},
		settleRate,
		counterIfKnown("stuck", "deliveriesStuck"),
		counterIfKnown("cred", "creditAvailable"),
		{"blkd", "creditAvailable", func(r row) string {
			if n, _ := number(r.get("zeroCreditSeconds")); n > 0 {
				return shortTime(n)
			}
			return "-"
		}},
	}
	if p.opts.Verbose {
		columns = append(columns,
			attribute("admin", "adminStatus"),
			attribute("oper", "operStatus"),
			attribute("name", "linkName"))
	}
	p.print(links.table("Router Links", columns, -1))
	return nil
}

// nodes is -n (MG 13.8).
func (p *printer) nodes(frame bool) error {
	nodes, err := p.query("router.node", nil, p.opts.Limit)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	if nodes.Len() == 0 {
		fmt.Fprintln(p.out, "Router is Standalone - No Router List")
		return nil
	}
	var lastChange int64
	for node := range nodes.all() {
		n, _ := number(node.get("lastTopoChange"))
		lastChange = max(lastChange, n)
	}
	title := "Routers in the Network"
	if lastChange > 1 {
		title += "\nLast Topology Change: " + time.Unix(lastChange, 0).UTC().Format("Monday Jan 02 15:04:05 2006") + " GMT"
	}
	columns := []column{
		attribute("router-id", "id"),
		{"next-hop", "", func(r row) string {
			if r.get("nextHop") == nil {
				return "-"
			}
			return r.text("nextHop")
		}},
		{"link", "", func(r row) string {
			if r.get("nextHop") != nil {
				return "-"
			}
			return plainNumber(r.get("routerLink"))
		}},
	}
	if p.opts.Verbose {
		columns = append(columns,
			column{"ver", "", func(r row) string { return plainNumber(r.get("protocolVersion")) }},
			column{"cost", "", func(r row) string {
				if n, _ := number(r.get("cost")); n == 0 {
					return ""
				}
				return count(r.get("cost"))
			}},
			column{"neighbors", "", func(r row) string { return names(r.get("linkState")) }},
			column{"valid-origins", "", func(r row) string { return names(r.get("validOrigins")) }})
	}
	p.print(nodes.table(title, columns, 0))
	return nil
}

// names shows a list of names.
func names(v any) string {
	list, _ := v.([]any)
	all := make([]any, len(list))
	for i, item := range list {
		all[i] = text(item)
	}
	return literal(all)
}

// addresses is -a (MG 13.9).
func (p *printer) addresses(frame bool) error {
	addresses, err := p.query("router.address", []string{
		"distribution", "inProcess", "subscriberCount", "remoteCount", "containerCount", "deliveriesIngress",
		"deliveriesEgress", "deliveriesRedirectedToFallback", "deliveriesTransit", "deliveriesToContainer",
		"deliveriesFromContainer", "name", "priority",
	}, p.opts.Limit)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	columns := []column{
		{"class", "", func(r row) string { return parseAddress(r.get("name")).class }},
		{"addr", "", func(r row) string { return parseAddress(r.get("name")).text }},
		{"phs", "", func(r row) string { return parseAddress(r.get("name")).phase }},
		attribute("distrib", "distribution"),
		{"pri", "priority", func(r row) string {
			if n, ok := number(r.get("priority")); !ok || n < 0 {
				return "-"
			}
			return count(r.get("priority"))
		}},
	}
	if p.opts.Verbose {
		columns = append(columns, grouped("in-proc", "inProcess"))
	}
	columns = append(columns,
		column{"local", "", func(r row) string {
			if strings.HasPrefix(parseAddress(r.get("name")).class, "link-") {
				return thousands(r.get("containerCount"))
			}
			return thousands(r.get("subscriberCount"))
		}},
		grouped("remote", "remoteCount"),
		grouped("in", "deliveriesIngress"),
		grouped("out", "deliveriesEgress"),
		grouped("thru", "deliveriesTransit"),
		column{"fallback", "", func(r row) string {
			if n := r.get("deliveriesRedirectedToFallback"); n != nil {
				return thousands(n)
			}
			return "-"
		}})
	if p.opts.Verbose {
		columns = append(columns,
			grouped("to-proc", "deliveriesToContainer"),
			grouped("from-proc", "deliveriesFromContainer"))
	}
	p.print(addresses.table("Router Addresses", columns, 1))
	return nil
}

// autoLinks is --autolinks (MG 13.10).
func (p *printer) autoLinks(frame bool) error {
	links, err := p.query("router.config.autoLink", []string{
		"address", "direction", "phase", "externalAddress", "linkRef", "operStatus", "lastError",
	}, p.opts.Limit)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	if links.Len() == 0 {
		fmt.Fprintln(p.out, "AutoLinks\nNo AutoLinks found")
		return nil
	}
	p.print(links.table("AutoLinks", []column{
		attribute("addr", "address"),
		attribute("dir", "direction"),
		counter("phs", "phase"),
		attribute("extAddr", "externalAddress"),
		attribute("link", "linkRef"),
		attribute("status", "operStatus"),
		attribute("lastErr", "lastError"),
	}, 0))
	return nil
}

// linkRoutes is --linkroutes (MG 13.10).
func (p *printer) linkRoutes(frame bool) error {
	routes, err := p.query("router.config.linkRoute", []string{
		"prefix", "direction", "distribution", "operStatus", "pattern", "addExternalPrefix", "delExternalPrefix",
	}, p.opts.Limit)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	if routes.Len() == 0 {
		fmt.Fprintln(p.out, "Link Routes\nNo Link Routes found")
		return nil
	}
	t := table{title: "Link Routes", heads: []string{"address", "dir", "distrib", "status"}}
	translates := false
	for r := range routes.all() {
		address := r.text("prefix")
		if address == "" {
			address = r.text("pattern")
		}
		cells := []string{address, r.text("direction"), r.text("distribution"), r.text("operStatus")}
		if add, del := r.text("addExternalPrefix"), r.text("delExternalPrefix"); add != "" || del != "" {
			cells = append(cells, add, del)
			translates = true
		}
		t.add(cells...)
	}
	if translates {
		t.heads = append(t.heads, "add-ext-prefix", "del-ext-prefix")
	}
	t.sort(0)
	p.print(t)
	return nil
}

// memory is -m (MG 13.11).
func (p *printer) memory(frame bool) error {
	pools, err := p.query("allocator", []string{
		"identity", "typeSize", "transferBatchSize", "localFreeListMax", "totalAllocFromHeap", "heldByThreads",
		"batchesRebalancedToThreads", "batchesRebalancedToGlobal",
	}, 0)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	var pooled int64
	known := pools.Len() > 0
	for pool := range pools.all() {
		size, _ := number(pool.get("typeSize"))
		allocated, ok := number(pool.get("totalAllocFromHeap"))
		pooled += size * allocated
		known = known && ok
	}
	if !known {
		fmt.Fprintln(p.out, "No memory statistics available")
		return nil
	}
	p.print(pools.table("Memory Pools", []column{
		{"type", "", func(r row) string {
			identity := r.text("identity")
			if identity == "" {
				return "-"
			}
			if _, after, ok := strings.Cut(identity, "/"); ok {
				return after
			}
			return identity
		}},
		grouped("size", "typeSize"),
		counter("batch", "transferBatchSize"),
		grouped("thread-max", "localFreeListMax"),
		grouped("total", "totalAllocFromHeap"),
		grouped("in-threads", "heldByThreads"),
		grouped("rebal-in", "batchesRebalancedToThreads"),
		grouped("rebal-out", "batchesRebalancedToGlobal"),
	}, 0))

	vmSize := "-"
	// Not every platform tells the router how much memory it uses, and not every
	// router tells us: that is no reason to fail.
	if routers, err := p.query("router", []string{"memoryUsage"}, 0); err == nil {
		if n, ok := number(routers.first().get("memoryUsage")); ok {
			vmSize = binarySize(n)
		}
	}
	summary := table{title: "\nMemory Summary", heads: []string{"VmSize", "Pooled"}}
	summary.add(vmSize, binarySize(pooled))
	p.print(summary)
	return nil
}
