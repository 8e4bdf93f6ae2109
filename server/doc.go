// Package server makes a running router out of a configuration: it puts the
// router core, the management agent, the listeners and the connectors together
// and runs them. A test starts it as a program does:
//
//	srv, err := server.New(cfg, server.Options{Version: "test"})
//	go srv.Run(ctx)
//	<-srv.Ready()
//	addr := srv.Addr("my-listener")
//
// New puts the whole configuration into force but touches no network; Run binds
// the listeners, starts the connectors and returns once everything has ended
// (CFG A25). Close does it for a server that never ran.
//
// # Who does what
//
//	listener   one for each listener entity: its sockets, one accepting
//	           goroutine each, retries of what could not be bound
//	connector  one goroutine for each connector entity: attempt, connection,
//	           pause, next attempt (CFG L14); where to is decided by failover
//	gate       what comes in: how many connections, how many unfinished ones
//
// A connection itself is package transport's business, what flows over it package
// router's.
//
// # Not more open than the file says
//
// A listener that demands what this version cannot do binds its port, so that its
// owner sees the conflict or the firewall, and closes every connection with the
// reason in the log. A connector that demands it never connects. Vhost policy,
// which cannot be enforced yet, stops the start unless Options says otherwise.
package server
