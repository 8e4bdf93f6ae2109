package linkroute

import "qdrouter/amqp"

// What a link route is refused with (RT 3.1, MG 8.2).
const (
	ErrNoDirection  = wireText("No 'direction' attribute provided - it is mandatory")
	ErrDistribution = wireText("Invalid value for 'distribution'")
	ErrNoPattern    = wireText("Pattern field is required")
	ErrNoParent     = wireText("Parent connection no longer exists")
)

// What the attach of a routed link is refused with (RT 1.4).
var (
	errNoRoute    = &amqp.Error{Condition: "qd:no-route-to-dest", Description: "No route to the destination node"}
	errExpiration = &amqp.Error{Condition: "qd:link-expiration", Description: "Requested link expiration not allowed"}
)
