package management

import (
	"strconv"

	"qdrouter/amqp"
	"qdrouter/router"
)

var linkColumns = columns[router.LinkInfo]{
	"name":                   func(l *router.LinkInfo) any { return orNull(l.Name) },
	"identity":               func(l *router.LinkInfo) any { return strconv.FormatUint(l.ID, 10) },
	"type":                   func(*router.LinkInfo) any { return longLink },
	"linkName":               func(l *router.LinkInfo) any { return l.Name },
	"linkType":               func(l *router.LinkInfo) any { return l.Type },
	"linkDir":                func(l *router.LinkInfo) any { return direction(l.Incoming) },
	"owningAddr":             func(l *router.LinkInfo) any { return orNull(l.OwningAddr) },
	"capacity":               func(l *router.LinkInfo) any { return l.Capacity },
	"peer":                   func(l *router.LinkInfo) any { return numberOrNull(l.Peer) },
	"connectionId":           func(l *router.LinkInfo) any { return strconv.FormatUint(l.ConnectionID, 10) },
	"adminStatus":            func(*router.LinkInfo) any { return "enabled" },
	"operStatus":             func(l *router.LinkInfo) any { return either(l.Up, "up", "down") },
	"undeliveredCount":       func(l *router.LinkInfo) any { return l.Undelivered },
	"unsettledCount":         func(l *router.LinkInfo) any { return l.Unsettled },
	"deliveryCount":          func(l *router.LinkInfo) any { return l.Deliveries },
	"presettledCount":        func(l *router.LinkInfo) any { return l.Presettled },
	"droppedPresettledCount": func(l *router.LinkInfo) any { return l.DroppedPresettled },
	"acceptedCount":          func(l *router.LinkInfo) any { return l.Accepted },
	"rejectedCount":          func(l *router.LinkInfo) any { return l.Rejected },
	"releasedCount":          func(l *router.LinkInfo) any { return l.Released },
	"modifiedCount":          func(l *router.LinkInfo) any { return l.Modified },
	"deliveriesDelayed1Sec":  func(l *router.LinkInfo) any { return l.Delayed1Sec },
	"deliveriesDelayed10Sec": func(l *router.LinkInfo) any { return l.Delayed10Sec },
	"deliveriesStuck":        func(l *router.LinkInfo) any { return l.Stuck },
	"ingressHistogram":       func(l *router.LinkInfo) any { return perRouter(l.IngressHistogram) },
	"priority":               func(l *router.LinkInfo) any { return l.Priority },
	"settleRate":             func(l *router.LinkInfo) any { return l.SettleRate },
	"creditAvailable":        func(l *router.LinkInfo) any { return l.CreditAvailable },
	"zeroCreditSeconds":      func(l *router.LinkInfo) any { return l.ZeroCreditSeconds },
}

// numberOrNull gives an identity as text, and null for 0, which no entity has.
func numberOrNull(id uint64) any {
	if id == 0 {
		return nil
	}
	return strconv.FormatUint(id, 10)
}

// routers is how many routers a column of numbers by router has room for.
const routers = 128

// perRouter gives numbers by router, the zeros at the end of them filled in.
func perRouter[T uint64 | int64](numbers []T) any {
	if numbers == nil {
		return nil
	}
	list := make(amqp.List, max(routers, len(numbers)))
	for i := range list {
		var n T
		if i < len(numbers) {
			n = numbers[i]
		}
		list[i] = n
	}
	return list
}

func linkRows(a *Agent, _ Asker) table {
	return &snapshot[router.LinkInfo]{a.core.Links(), linkColumns}
}

// updateLink answers UPDATE of a link: it is acknowledged, and changes nothing
// whatever the value, as 1.19 had it (MG 7.11).
func updateLink(a *Agent, k *kind, req *Request) (any, error) {
	body, _ := req.Body.(amqp.Map)
	if admin, _ := body.Get("adminStatus"); admin == nil {
		return nil, badRequest("Bad Request")
	}
	return coreRead(a, k, req)
}
