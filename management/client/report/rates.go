package report

import (
	"strconv"
	"time"
)

// A counterRate is an attribute that only grows, and the heading under which
// --watch shows by how much.
type counterRate struct{ attribute, head string }

// counters lists the counters of each entity type.
var counters = map[string][]counterRate{
	"router": {
		{"presettledDeliveries", "presettled/s"},
		{"droppedPresettledDeliveries", "dropped/s"},
		{"acceptedDeliveries", "accepted/s"},
		{"rejectedDeliveries", "rejected/s"},
		{"releasedDeliveries", "released/s"},
		{"modifiedDeliveries", "modified/s"},
		{"deliveriesDelayed1Sec", "delayed1/s"},
		{"deliveriesDelayed10Sec", "delayed10/s"},
		{"deliveriesRedirectedToFallback", "fallback/s"},
		{"deliveriesIngress", "in/s"},
		{"deliveriesEgress", "out/s"},
		{"deliveriesTransit", "thru/s"},
		{"deliveriesIngressRouteContainer", "in-route/s"},
		{"deliveriesEgressRouteContainer", "out-route/s"},
		{"linksRefused", "links-refused/s"},
		{"connectionsRefused", "conns-refused/s"},
		{"connectionsFailed", "conns-failed/s"},
	},
	"listener": {
		{"refusedConnections", "refused/s"},
		{"failedConnections", "failed/s"},
	},
	"connector": {
		{"attempts", "attempts/s"},
		{"failures", "failures/s"},
	},
	"router.link": {
		{"deliveryCount", "deliv/s"},
		{"presettledCount", "presett/s"},
		{"droppedPresettledCount", "psdrop/s"},
		{"acceptedCount", "acc/s"},
		{"rejectedCount", "rej/s"},
		{"releasedCount", "rel/s"},
		{"modifiedCount", "mod/s"},
	},
	"router.address": {
		{"deliveriesIngress", "in/s"},
		{"deliveriesEgress", "out/s"},
		{"deliveriesTransit", "thru/s"},
		{"deliveriesRedirectedToFallback", "fallback/s"},
	},
	"allocator": {
		{"totalAllocFromHeap", "total/s"},
		{"batchesRebalancedToThreads", "rebal-in/s"},
		{"batchesRebalancedToGlobal", "rebal-out/s"},
	},
	"policy": {
		{"connectionsProcessed", "processed/s"},
		{"connectionsDenied", "denied/s"},
		{"linksDenied", "links-denied/s"},
		{"maxMessageSizeDenied", "size-denied/s"},
		{"totalDenials", "denials/s"},
	},
	"vhostStats": {
		{"connectionsApproved", "approved/s"},
		{"connectionsDenied", "denied/s"},
		{"sessionDenied", "session/s"},
		{"senderDenied", "sender/s"},
		{"receiverDenied", "receiver/s"},
		{"maxMessageSizeDenied", "size/s"},
	},
}

// A counterKey says whose counter it is.
type counterKey struct{ router, entityType, identity, attribute string }

// rates remembers the counters of one draw until the next. A nil rates knows
// none.
type rates struct {
	before, now     map[counterKey]int64
	beforeAt, nowAt time.Time
}

// begin starts a draw.
func (r *rates) begin(at time.Time) {
	r.before, r.now = r.now, make(map[counterKey]int64)
	r.beforeAt, r.nowAt = r.nowAt, at
}

// perSecond notes a counter and tells how fast it grew since the draw before. It
// cannot when the counter was not there then, or has started anew.
func (r *rates) perSecond(key counterKey, value any) (rate float64, ok bool) {
	n, isNumber := number(value)
	if r == nil || !isNumber {
		return 0, false
	}
	r.now[key] = n
	before, seen := r.before[key]
	elapsed := r.nowAt.Sub(r.beforeAt).Seconds()
	if !seen || n < before || elapsed <= 0 {
		return 0, false
	}
	return float64(n-before) / elapsed, true
}

// perSecond is the rate of one counter of an entity.
func (r row) perSecond(attribute string) (rate float64, ok bool) {
	identity := r.text("identity")
	if identity == "" {
		identity = r.text("name")
	}
	return r.rows.rates.perSecond(counterKey{r.rows.router, r.rows.entityType, identity, attribute}, r.get(attribute))
}

// rateText shows the rate of one counter, "-" when it is unknown.
func (r row) rateText(attribute string) string {
	rate, ok := r.perSecond(attribute)
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(rate, 'f', 1, 64)
}

// rateColumns are the columns that --watch adds to a table of these entities.
func (r *rows) rateColumns() []column {
	if r.rates == nil {
		return nil
	}
	var columns []column
	for _, c := range counters[r.entityType] {
		columns = append(columns, column{c.head, c.attribute, func(r row) string { return r.rateText(c.attribute) }})
	}
	return columns
}

// rateCell is the cell that --watch adds to a row about one attribute: nothing
// when there is no --watch or the attribute is no counter.
func (r row) rateCell(attribute string) []string {
	if r.rows.rates == nil {
		return nil
	}
	for _, c := range counters[r.rows.entityType] {
		if c.attribute == attribute {
			return []string{r.rateText(attribute)}
		}
	}
	return nil
}

// A labelled is an attribute and what it is called in a table with a row for each.
type labelled struct{ label, name string }

// addKnown adds a row for each of the first entity's numbers that the router knows.
func (r *rows) addKnown(t *table, numbers []labelled) {
	first := r.first()
	for _, n := range numbers {
		if r.has(n.name) {
			first.addNumber(t, n.label, n.name)
		}
	}
}

func (r row) addNumber(t *table, label, name string) {
	t.add(append([]string{label, plainNumber(r.get(name))}, r.rateCell(name)...)...)
}

// attributeHeads are the headings of a table with a row for each attribute.
func (p *printer) attributeHeads() []string {
	if p.rates == nil {
		return []string{"attr", "value"}
	}
	return []string{"attr", "value", "per second"}
}
