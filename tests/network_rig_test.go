package tests

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"qdrouter/config"
	"qdrouter/logging"
	"qdrouter/server"
	"qdrouter/tests/internal/rig"
)

// patience is how long a network test waits for what must come and has no
// bound of its own.
const patience = 60 * time.Second

// A network is interior routers joined by connections that a test can cut. Each
// router has two listeners, "clients" and "routers". A connector reaches the
// other router through a relay, which is what is cut, and which knows the port
// a restarted router has got.
type network struct {
	t      testing.TB
	opts   netOptions
	nodes  map[string]*netNode
	ids    []string          // in the order of the topology
	relays map[string]*relay // by connection, as it is written in the topology
}

// netOptions say what the routers of a network are.
type netOptions struct {
	processes bool              // each its own process; otherwise all in this one
	routerA   string            // attributes added to every router section
	clients   string            // attributes added to the sections of the listeners "clients"
	conf      string            // sections added to every file
	only      map[string]string // sections added to the file of one router
}

// netNode is one router of a network.
type netNode struct {
	id, conf string
	proc     *rig.Router

	mu               sync.Mutex
	clients, routers string // HOST:PORT; "" while it is down
	halt             func()
}

// newNetwork starts a network. The topology is connections with a space
// between them, "A-B" for a connector of A to B, "A-B:3" when it has cost 3; a
// repeated one gets a mark: "A-B", "A-B'". All routers know each other when it
// returns.
func newNetwork(t testing.TB, topology string, opts netOptions) *network {
	t.Helper()
	n := &network{t: t, opts: opts, nodes: map[string]*netNode{}, relays: map[string]*relay{}}
	connectors := map[string]string{}
	node := func(id string) *netNode {
		if n.nodes[id] == nil {
			n.nodes[id] = &netNode{id: id}
			n.ids = append(n.ids, id)
		}
		return n.nodes[id]
	}
	for _, edge := range strings.Fields(topology) {
		name, cost, _ := strings.Cut(edge, ":")
		from, to, ok := strings.Cut(strings.TrimRight(name, "'"), "-")
		if !ok {
			t.Fatalf("connection %q", edge)
		}
		node(from)
		r := newRelay(t, node(to).routersAddr)
		n.relays[name] = r
		host, port, _ := net.SplitHostPort(r.addr)
		if cost != "" {
			cost = "    cost: " + cost + "\n"
		}
		connectors[from] += fmt.Sprintf("connector {\n    name: %s\n    host: %s\n    port: %s\n    role: inter-router\n%s}\n", name, host, port, cost)
	}
	logs := ""
	if opts.processes {
		logs = "log {\n    module: DEFAULT\n    enable: notice+\n}\n"
	}
	for id, node := range n.nodes {
		node.conf = fmt.Sprintf(`router {
    mode: interior
    id: %s
%s
}
listener {
    name: clients
    host: 127.0.0.1
    port: 0
    authenticatePeer: no
    saslMechanisms: ANONYMOUS
%s
}
listener {
    name: routers
    host: 127.0.0.1
    port: 0
    role: inter-router
    authenticatePeer: no
    saslMechanisms: ANONYMOUS
}
%s%s%s%s`, id, opts.routerA, opts.clients, logs, opts.conf, opts.only[id], connectors[id])
	}
	for _, id := range n.ids {
		n.start(id)
	}
	n.waitRoutes(n.ids...)
	return n
}

// start starts a router that does not run.
func (n *network) start(id string) {
	n.t.Helper()
	node := n.nodes[id]
	if n.opts.processes {
		r := rig.StartText(n.t, node.conf)
		node.set(r.Addr(n.t), fmt.Sprintf("127.0.0.1:%d", r.Port(n.t, "routers")), r.Kill)
		node.proc = r
		return
	}
	cfg, err := config.Parse(id+".conf", config.FormatConf, []byte(node.conf))
	if err != nil {
		n.t.Fatal(err)
	}
	logs := logging.New()
	file := filepath.Join(n.t.TempDir(), "log")
	if err := logs.Configure(logging.Default, logging.Settings{OutputFile: &file}); err != nil {
		n.t.Fatal(err)
	}
	srv, err := server.New(cfg, server.Options{Version: rig.Version, Logs: logs})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	select {
	case <-srv.Ready():
	case err := <-done:
		n.t.Fatalf("router %s: %v", id, err)
	}
	var once sync.Once
	halt := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				n.t.Errorf("router %s: %v", id, err)
			}
			logs.Close()
		})
	}
	n.t.Cleanup(halt)
	node.set(srv.Addr("clients").String(), srv.Addr("routers").String(), halt)
}

// stop ends a router: a process by SIGKILL, one in this process in good order.
func (n *network) stop(id string) {
	node := n.nodes[id]
	node.mu.Lock()
	halt := node.halt
	node.clients, node.routers, node.halt = "", "", nil
	node.mu.Unlock()
	halt()
}

func (d *netNode) set(clients, routers string, halt func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients, d.routers, d.halt = clients, routers, halt
}

func (d *netNode) routersAddr() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.routers
}

// url is where clients reach a router, "" while it is down.
func (n *network) url(id string) string {
	node := n.nodes[id]
	node.mu.Lock()
	defer node.mu.Unlock()
	if node.clients == "" {
		return ""
	}
	return "amqp://" + node.clients
}

// query asks the router id.
func (n *network) query(id, entityType string, attributes ...string) []map[string]any {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := rig.Query(ctx, n.url(id), "$management", entityType, attributes...)
	if err != nil {
		n.t.Fatalf("query %s of %s: %v", entityType, id, err)
	}
	return rows
}

// waitRoutes waits until each of the routers has a way to each other one and to
// no further one.
func (n *network) waitRoutes(ids ...string) {
	n.t.Helper()
	var seen map[string]any
	for _, id := range ids {
		rig.Eventually(n.t, patience, func() bool {
			seen = map[string]any{}
			for _, row := range n.query(id, "router.node", "id", "nextHop", "routerLink", "cost") {
				if row["nextHop"] != nil || row["routerLink"] != nil {
					seen[fmt.Sprint(row["id"])] = row["cost"]
				}
			}
			if len(seen) != len(ids) {
				return false
			}
			for _, other := range ids {
				if other != id && rig.Number(seen[other]) == 0 {
					return false
				}
			}
			return true
		}, func() string { return fmt.Sprintf("router %s knows ways to %v, want %v", id, seen, ids) })
	}
}

// waitAddress waits until a router counts these destinations of an address.
func (n *network) waitAddress(id, address string, local, remote int64) {
	n.t.Helper()
	var l, r int64
	rig.Eventually(n.t, patience, func() bool {
		l, r = 0, 0
		for _, row := range n.query(id, "router.address", "name", "subscriberCount", "remoteCount") {
			if row["name"] == "M0"+address {
				l, r = rig.Number(row["subscriberCount"]), rig.Number(row["remoteCount"])
			}
		}
		return l == local && r == remote
	}, func() string {
		return fmt.Sprintf("router %s counts %d local and %d remote destinations of %s, want %d and %d", id, l, r, address, local, remote)
	})
}

// remoteEverywhere waits until every router but id itself counts one remote
// router with consumers of address.
func (n *network) remoteEverywhere(address, id string) {
	n.t.Helper()
	for _, other := range n.ids {
		if other != id {
			n.waitAddress(other, address, 0, 1)
		}
	}
}

// A relay is a TCP port that passes bytes on to another one. It can be cut, and
// told to stall or to lose what comes.
type relay struct {
	addr   string
	target func() string
	ln     net.Listener

	mu      sync.Mutex
	conns   map[net.Conn]*atomic.Bool // true: what comes is thrown away
	refused bool                      // nobody gets through
	stalled chan struct{}             // while not nil nothing is passed on
	closed  bool
	done    sync.WaitGroup
}

func newRelay(t testing.TB, target func() string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: ln.Addr().String(), target: target, ln: ln, conns: map[net.Conn]*atomic.Bool{}}
	r.done.Add(1)
	go r.accept()
	t.Cleanup(r.close)
	return r
}

func (r *relay) accept() {
	defer r.done.Done()
	for {
		in, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.done.Add(1)
		go r.serve(in)
	}
}

func (r *relay) serve(in net.Conn) {
	defer r.done.Done()
	defer in.Close()
	var out net.Conn
	// The routers of a network start one after the other.
	for deadline := time.Now().Add(time.Second); out == nil; time.Sleep(10 * time.Millisecond) {
		if to := r.target(); to != "" {
			var err error
			if out, err = net.Dial("tcp", to); err == nil {
				break
			}
			out = nil
		}
		if time.Now().After(deadline) {
			return
		}
	}
	defer out.Close()
	lost := new(atomic.Bool)
	if !r.register(lost, in, out) {
		return
	}
	ended := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			k, err := from.Read(buf)
			r.mu.Lock()
			stalled := r.stalled
			r.mu.Unlock()
			if stalled != nil {
				<-stalled
			}
			if k > 0 && !lost.Load() {
				if _, err := to.Write(buf[:k]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		ended <- struct{}{}
	}
	go pass(out, in)
	go pass(in, out)
	<-ended
	in.Close()
	out.Close()
	<-ended
	r.mu.Lock()
	delete(r.conns, in)
	delete(r.conns, out)
	r.mu.Unlock()
}

func (r *relay) register(lost *atomic.Bool, conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.refused {
		return false
	}
	for _, c := range conns {
		r.conns[c] = lost
	}
	return true
}

// cut ends the connections there are. A new one gets through.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
	r.resumeLocked()
}

// lose throws away from now on what comes on the connections there are, both
// ways, and keeps them open. New ones are not affected.
func (r *relay) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lost := range r.conns {
		lost.Store(true)
	}
}

// sever cuts and lets nobody through until it is mended.
func (r *relay) sever() {
	r.mu.Lock()
	r.refused = true
	r.mu.Unlock()
	r.cut()
}

func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = false
}

// stall passes nothing on until the relay is cut.
func (r *relay) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stalled == nil {
		r.stalled = make(chan struct{})
	}
}

func (r *relay) resumeLocked() {
	if r.stalled != nil {
		close(r.stalled)
		r.stalled = nil
	}
}

func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.ln.Close()
	r.cut()
	r.done.Wait()
}
