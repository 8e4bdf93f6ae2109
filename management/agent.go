package management

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
)

// Options are what an Agent works on. All but HostName and
// the functions are needed.
type Options struct {
	Core       Core
	AutoLinks  AutoLinks
	LinkRoutes LinkRoutes
	Server     Server
	Logs       Logs
	Config     *config.Config // what the router was started with
	RouterID   string         // the configured id, or the one made up
	Version    string
	HostName   string // of the machine, "" when unknown

	// Policy gives the counters of the connection policy; nil when there is none.
	Policy func() PolicyStats
	// Processor gives the processor time that the process has used, for the agent
	// to tell whether the router is busy; nil means that it always is.
	Processor func() time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// PolicyStats are the counters of the policy entity.
type PolicyStats struct {
	ConnectionsProcessed, ConnectionsDenied, ConnectionsCurrent int64
	LinksDenied                                                 int64
	MaxMessageSizeDenied                                        int64
}

// Bounds of what waits for the agent. Senders are slowed down by their credit,
// which comes back when a request is taken; beyond these bounds, which take many
// senders at once, a request is released unseen and its sender may try again.
const (
	maxQueued      = 8192
	maxQueuedBytes = 64 << 20
)

// A page of a table of more rows than this is encoded beside the queue and at its
// pace, by one of at most maxEncoders goroutines; when all are busy or wait, the
// queue waits.
const (
	manyRows    = 1000
	maxEncoders = 16
)

// An Agent answers management requests for one router.
type Agent struct {
	core        Core
	autoLinks   AutoLinks
	linkRoutes  LinkRoutes
	server      Server
	logs        Logs
	routerID    string
	version     string
	hostName    string
	policyStats func() PolicyStats
	now         func() time.Time
	kinds       []*kind

	cancel   []func()      // end the subscriptions
	queue    chan incoming // at most maxQueued; what does not fit is released
	queued   atomic.Int64  // octets in queue
	encoders chan struct{} // holds a token for each encoder at work
	pace     pace          // of the encoders
	stop     chan struct{} // closed by Close, through closing
	closing  sync.Once
	done     sync.WaitGroup // the agent's goroutine and its encoders

	mu            sync.Mutex        // guards what follows; held while a request is handled
	started, file *config.Config    // what the router was started with, and what was read last
	entities      []*entity         // stored entities in creation order
	ofFile        map[object]string // identities of the core's objects that the file made
	shadowed      map[string]*kind  // by identity, objects of the core that 1.19 would have in its configuration too
	router        *entity
	counters      map[string]int64 // next number, by type name
	readers       readers
}

// New starts an agent with the entities of the configuration and subscribes it to
// its addresses. Putting the configuration into force is left to the caller.
func New(o Options) (*Agent, error) {
	a := &Agent{
		core:        o.Core,
		autoLinks:   o.AutoLinks,
		linkRoutes:  o.LinkRoutes,
		server:      o.Server,
		logs:        o.Logs,
		routerID:    o.RouterID,
		version:     o.Version,
		hostName:    o.HostName,
		policyStats: o.Policy,
		now:         o.Now,
		kinds:       newKinds(),
		queue:       make(chan incoming, maxQueued),
		encoders:    make(chan struct{}, maxEncoders),
		pace:        pace{processor: o.Processor},
		stop:        make(chan struct{}),
		started:     o.Config,
		file:        o.Config,
		counters:    map[string]int64{},

		ofFile:   map[object]string{},
		shadowed: map[string]*kind{},
		readers:  readers{},
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.policyStats == nil {
		a.policyStats = func() PolicyStats { return PolicyStats{} }
	}
	if err := a.load(o.Config); err != nil {
		return nil, err
	}
	a.infof("Activating management agent on $_management_internal")
	a.cancel = []func(){
		a.core.Subscribe("$_management_internal", true, a.receive),
		a.core.Subscribe("$management", false, a.receive),
		a.core.Subscribe("$management", true, a.receive),
	}
	a.done.Go(a.run)
	return a, nil
}

// load fills the store: the log modules first, each of which exists whether or
// not it is configured (MG 7.4), then the configuration in its order.
func (a *Agent) load(c *config.Config) error {
	modules := map[string]*config.Entity{}
	for _, e := range c.Of("log") {
		modules[e.Str("module")] = e
	}
	var sections []*config.Entity
	for _, module := range logModules() {
		e := modules[module]
		if e == nil {
			made, err := a.normalize(config.TypeByName("log"), map[string]any{"module": module})
			if err != nil {
				return fmt.Errorf("log module %s: %w", module, err)
			}
			e = made
		}
		sections = append(sections, e)
	}
	for _, e := range c.Entities {
		if e.Type.Name != "log" {
			sections = append(sections, e)
		}
	}
	for _, section := range sections {
		k := a.kindOf(section.Type.Name)
		if !stored(k.EntityType) {
			continue
		}
		e, err := a.newEntity(k, section)
		if err != nil {
			return err
		}
		if k.Name == "router" {
			e.identity = "router/" + a.routerID
			e.name = e.identity
			a.router = e
		}
		a.add(e)
	}
	if a.router == nil {
		return fmt.Errorf("the configuration has no router entity")
	}
	return nil
}

// Close ends the agent's subscriptions and waits for its goroutines. Requests
// that wait are released.
func (a *Agent) Close() { a.closing.Do(a.close) }

func (a *Agent) close() {
	for _, cancel := range a.cancel {
		cancel()
	}
	close(a.stop)
	a.done.Wait()
	for {
		select {
		case r := <-a.queue:
			r.settle(amqp.StateReleased)
		default:
			return
		}
	}
}

// An incoming message waits for the agent.
type incoming struct {
	message    []byte
	connection uint64         // it came in on
	settle     func(amqp.Raw) // ends the delivery with an outcome; called once
}

// receive takes a request from the router. It is called on the router's
// goroutines and never blocks.
func (a *Agent) receive(r *router.Request) {
	a.enqueue(incoming{r.Message, r.Connection, r.Settle})
}

func (a *Agent) enqueue(r incoming) {
	size := int64(len(r.message))
	if a.queued.Add(size) <= maxQueuedBytes {
		select {
		case a.queue <- r:
			return
		default:
		}
	}
	a.queued.Add(-size)
	r.settle(amqp.StateReleased)
}

// run serves the queue until Close.
func (a *Agent) run() {
	// Runs while there may be readers to forget.
	expiry := time.NewTimer(readerGrace)
	defer expiry.Stop()
	waiting := true
	for {
		select {
		case <-a.stop:
			return
		case r := <-a.queue:
			a.queued.Add(-int64(len(r.message)))
			a.serve(r)
			if !waiting {
				expiry.Reset(readerGrace)
				waiting = true
			}
		case <-expiry.C:
			a.mu.Lock()
			next := a.readers.expire(a.now())
			a.mu.Unlock()
			waiting = !next.IsZero()
			if waiting {
				expiry.Reset(next.Sub(a.now()))
			}
		}
	}
}

// serve takes one message from the router: it is settled, and then, if it asks
// for a reply, carried out (MG 2.2).
func (a *Agent) serve(r incoming) {
	req, err := decodeRequest(r.message)
	if err != nil {
		r.settle(settleRejected(err))
		return
	}
	r.settle(amqp.StateAccepted)
	if req.ReplyTo == "" {
		return
	}
	req.From = Asker{Connection: r.connection}
	start := a.now()
	resp := a.Handle(req)
	if p, ok := resp.Body.(*page); ok && p.total > manyRows {
		a.pace.worked(start, a.now())
		select {
		case a.encoders <- struct{}{}:
			a.done.Go(func() {
				a.replyAtPace(&req, &resp)
				<-a.encoders
			})
		case <-a.stop:
		}
		return
	}
	a.reply(&req, &resp)
}

// replyAtPace replies when it is time for more work of this kind, which is never
// once the agent stops.
func (a *Agent) replyAtPace(req *Request, resp *Response) {
	if wait := a.pace.wait(a.now()); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-a.stop:
			return
		}
	}
	start := a.now()
	a.reply(req, resp)
	a.pace.worked(start, a.now())
}

func (a *Agent) reply(req *Request, resp *Response) {
	a.core.Send(req.ReplyTo, resp.Append(nil, req))
}
