package management

import "qdrouter/router"

var addressColumns = columns[router.AddressInfo]{
	"name":                            func(d *router.AddressInfo) any { return d.Key },
	"identity":                        func(d *router.AddressInfo) any { return d.Key },
	"key":                             func(d *router.AddressInfo) any { return d.Key },
	"type":                            func(*router.AddressInfo) any { return longAddress },
	"distribution":                    func(d *router.AddressInfo) any { return d.Distribution.String() },
	"inProcess":                       func(d *router.AddressInfo) any { return d.InProcess },
	"subscriberCount":                 func(d *router.AddressInfo) any { return d.Subscribers },
	"remoteCount":                     func(d *router.AddressInfo) any { return d.Remotes },
	"containerCount":                  func(d *router.AddressInfo) any { return d.Containers },
	"remoteHostRouters":               func(d *router.AddressInfo) any { return stringList(d.RemoteHostRouters) },
	"deliveriesIngress":               func(d *router.AddressInfo) any { return d.Ingress },
	"deliveriesEgress":                func(d *router.AddressInfo) any { return d.Egress },
	"deliveriesTransit":               func(d *router.AddressInfo) any { return d.Transit },
	"deliveriesToContainer":           func(d *router.AddressInfo) any { return d.ToContainer },
	"deliveriesFromContainer":         func(d *router.AddressInfo) any { return d.FromContainer },
	"deliveriesEgressRouteContainer":  func(d *router.AddressInfo) any { return d.EgressRouteContainer },
	"deliveriesIngressRouteContainer": func(d *router.AddressInfo) any { return d.IngressRouteContainer },
	"deliveriesRedirectedToFallback":  func(d *router.AddressInfo) any { return d.RedirectedToFallback },
	"transitOutstanding":              func(d *router.AddressInfo) any { return perRouter(d.TransitOutstanding) },
	"trackedDeliveries":               func(d *router.AddressInfo) any { return d.Tracked },
	"priority":                        func(d *router.AddressInfo) any { return d.Priority },
}

func addressRows(a *Agent, _ Asker) table {
	return &snapshot[router.AddressInfo]{a.core.Addresses(), addressColumns}
}

// readAddress answers READ: name and identity are both the address key, and a
// request with neither is not found (MG 4.1).
func readAddress(a *Agent, k *kind, req *Request) (any, error) {
	if !req.has("name") && !req.has("identity") {
		return nil, notFound("Not Found")
	}
	return coreRead(a, k, req)
}
