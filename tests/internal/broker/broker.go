// Package broker is a small, strict broker for tests of a router that has one
// behind it: for link routes, autolinks and waypoints.
//
// It is in the style of RabbitMQ 4. Its transfer ids and delivery counts start
// just below 2^32, so that they wrap; it takes no authorisation id and no
// hostname that it was not told of; a flow that tells a transfer id which was
// never sent closes the connection. What RabbitMQ of Debian lacks it has:
// selectors, transactions, drain, and termini that outlive their links and are
// resumed with their unsettled deliveries.
//
// A test runs it in its own process with [New] or as a process of its own with
// rig.StartBroker, which may be killed and started again: with a directory in
// [Options], what was accepted is in the journal before it is accepted.
//
// One lock guards everything; hooks are called with it held and must not call
// back into the broker. Nodes are queues, by their name as the address. A
// message that is rejected is dropped.
package broker

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"qdrouter/amqp"
)

// Where the numbers of a connection begin, as RabbitMQ 4 has them: all three
// wrap soon.
const (
	FirstTransferID    = 0xfffffffc
	FirstDeliveryCount = 0xfffffffb
)

// Options is what a test wants of a broker. The zero value takes anybody, has
// no queues and makes none.
type Options struct {
	ContainerID string   // "broker" if empty
	Queues      []string // that exist from the start
	Create      bool     // a queue that does not exist is made by the attach to it
	Dir         string   // where the journal is; "" keeps messages in memory only

	// Users has the passwords of those who may come in by PLAIN. Anonymous lets
	// others in, by ANONYMOUS and without SASL; with no users it is implied.
	Users     map[string]string
	Anonymous bool
	// Hostnames are those that sasl-init and open may name; any when empty.
	Hostnames []string

	Credit         uint32 // of a link to the broker; 100 if zero
	MaxMessageSize uint64 // octets; announced to senders
	MaxFrameSize   uint32 // octets; 65536 if zero
	SessionFrames  uint32 // incoming window; 2048 if zero
	IdleTimeout    time.Duration
	Properties     amqp.Raw // of the open
	Capabilities   amqp.Raw // offered in the open

	// OnAttach sees each attach before it is answered, and may change the answer.
	OnAttach func(*Attaching)
	// OnMessage sees each message when it is whole. If it returns true the
	// message is the test's, and the broker neither keeps nor settles it.
	OnMessage func(*Incoming) bool

	// Record keeps every frame for Frames.
	Record bool
	Logf   func(format string, args ...any) // nil is silent
}

// Broker is a broker with its listeners and connections.
type Broker struct {
	opts Options
	wg   sync.WaitGroup

	mu      sync.Mutex // guards everything below, and all of queues, links and connections
	journal *journal
	queues  map[string]*queue
	conns   []*Conn
	touched []*Conn // with something to write, perhaps
	termini map[*terminus]struct{}
	txns    map[string]*txn
	lns     []net.Listener
	closed  bool
	frames  []Frame
	ids     uint64 // of messages
	tags    uint64 // of deliveries
	names   uint64 // of connections, transactions and dynamic nodes
}

// New starts a broker without any connection. The error is that of the
// journal.
func New(o Options) (*Broker, error) {
	o.ContainerID = cmp.Or(o.ContainerID, "broker")
	o.Credit = cmp.Or(o.Credit, 100)
	o.MaxFrameSize = cmp.Or(o.MaxFrameSize, 65536)
	o.SessionFrames = cmp.Or(o.SessionFrames, 2048)
	if len(o.Users) == 0 {
		o.Anonymous = true
	}
	b := &Broker{opts: o, queues: map[string]*queue{}, termini: map[*terminus]struct{}{}, txns: map[string]*txn{}}
	if o.Dir != "" {
		var err error
		if b.journal, err = openJournal(o.Dir, b); err != nil {
			return nil, err
		}
	}
	b.lock()
	for _, name := range o.Queues {
		b.addQueue(name)
	}
	b.unlock()
	return b, nil
}

func (b *Broker) lock() { b.mu.Lock() }

// unlock writes the journal, so that it is ahead of every word to a peer:
// those leave by the writers, who take the lock first. What one holder of the
// lock did is one record, all or nothing after a crash.
func (b *Broker) unlock() {
	b.journal.flush(b)
	for i, c := range b.touched {
		c.touched = false
		select {
		case c.wake <- struct{}{}:
		default:
		}
		b.touched[i] = nil
	}
	b.touched = b.touched[:0]
	b.mu.Unlock()
}

func (b *Broker) logf(format string, args ...any) {
	if b.opts.Logf != nil {
		b.opts.Logf(format, args...)
	}
}

// name makes a name that no other connection, transaction or node has.
func (b *Broker) name(kind string) string {
	b.names++
	return fmt.Sprintf("%s.%s.%d", b.opts.ContainerID, kind, b.names)
}

// Listen takes connections at a TCP address, and returns the one it got.
func (b *Broker) Listen(address string) (string, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	b.lock()
	closed := b.closed
	b.lns = append(b.lns, ln)
	b.unlock()
	if closed {
		ln.Close()
		return "", net.ErrClosed
	}
	b.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() { b.serve(nc) })
		}
	})
	return ln.Addr().String(), nil
}

// StopListening closes the listeners; connections stay.
func (b *Broker) StopListening() {
	b.lock()
	defer b.unlock()
	for _, ln := range b.lns {
		ln.Close()
	}
	b.lns = nil
}

// Close drops every connection and waits until all has ended.
func (b *Broker) Close() {
	b.StopListening()
	b.lock()
	b.closed = true
	for _, c := range b.conns {
		c.nc.Close()
	}
	b.unlock()
	b.wg.Wait()
	b.lock()
	for t := range b.termini {
		b.expire(t)
	}
	b.unlock()
	b.journal.close()
}

// AddQueue makes a queue; one that exists stays as it is.
func (b *Broker) AddQueue(name string) {
	b.lock()
	defer b.unlock()
	b.addQueue(name)
}

func (b *Broker) addQueue(name string) *queue {
	q := b.queues[name]
	if q == nil {
		q = &queue{b: b, name: name}
		b.queues[name] = q
		b.journal.addQueue(name)
	}
	return q
}

// RemoveQueue deletes a queue with its messages. Its links are closed with
// amqp:resource-deleted.
func (b *Broker) RemoveQueue(name string) {
	b.lock()
	defer b.unlock()
	b.removeQueue(name)
}

func (b *Broker) removeQueue(name string) {
	q := b.queues[name]
	if q == nil {
		return
	}
	delete(b.queues, name)
	q.gone = true
	b.journal.removeQueue(name)
	for _, l := range b.links() {
		if l.q == q {
			l.detach(true, &amqp.Error{Condition: amqp.ErrCondResourceDeleted, Description: "Queue deleted: " + name})
		}
	}
}

// Put adds messages, each the encoding of a whole one, to a queue that exists.
func (b *Broker) Put(queue string, messages ...[]byte) error {
	b.lock()
	defer b.unlock()
	q := b.queues[queue]
	if q == nil {
		return fmt.Errorf("no queue %q", queue)
	}
	for _, m := range messages {
		q.add(&message{payload: slices.Clone(m)})
	}
	q.dispatch()
	return nil
}

// Depth is how many messages a queue has, those included that a receiver has
// and has not settled; -1 when there is no such queue.
func (b *Broker) Depth(queue string) int {
	b.lock()
	defer b.unlock()
	q := b.queues[queue]
	if q == nil {
		return -1
	}
	return len(q.ready) + q.held
}

// Ready returns the messages of a queue that no receiver has, in order.
func (b *Broker) Ready(queue string) [][]byte {
	b.lock()
	defer b.unlock()
	var list [][]byte
	if q := b.queues[queue]; q != nil {
		for _, m := range q.ready {
			list = append(list, m.encode())
		}
	}
	return list
}

// Queues returns the names of all queues, in order.
func (b *Broker) Queues() []string {
	b.lock()
	defer b.unlock()
	return slices.Sorted(maps.Keys(b.queues))
}

// Conns returns the connections that are open.
func (b *Broker) Conns() []*Conn {
	b.lock()
	defer b.unlock()
	var list []*Conn
	for _, c := range b.conns {
		if c.opened {
			list = append(list, c)
		}
	}
	return list
}

// Links returns the links that the peers have attached and neither end has
// detached, in the order they came.
func (b *Broker) Links() []*Link {
	b.lock()
	defer b.unlock()
	return b.links()
}

func (b *Broker) links() []*Link {
	var list []*Link
	for _, c := range b.conns {
		list = append(list, c.links...)
	}
	return list
}

// Suspended is how many termini wait for their links to come back.
func (b *Broker) Suspended() int {
	b.lock()
	defer b.unlock()
	n := 0
	for t := range b.termini {
		if t.link == nil {
			n++
		}
	}
	return n
}

// Transactions is how many transactions are neither committed nor rolled back.
func (b *Broker) Transactions() int {
	b.lock()
	defer b.unlock()
	return len(b.txns)
}

// Frame is one frame of a connection. Its octets must not be changed.
type Frame struct {
	Conn    *Conn
	Out     bool              // the broker sent it
	Channel uint16            // the sender's
	Body    amqp.Performative // nil for an empty frame
	Raw     []byte            // the body as it came; nil when the broker sent it
	Payload []byte            // of a transfer
}

// Frames returns what has come and gone since the broker started, with
// [Options.Record].
func (b *Broker) Frames() []Frame {
	b.lock()
	defer b.unlock()
	return slices.Clone(b.frames)
}

// Received returns the frames of one kind that peers sent.
func Received[P amqp.Performative](b *Broker) (list []P) {
	for _, f := range b.Frames() {
		if p, ok := f.Body.(P); ok && !f.Out {
			list = append(list, p)
		}
	}
	return list
}

// Sent returns the frames of one kind that the broker sent.
func Sent[P amqp.Performative](b *Broker) (list []P) {
	for _, f := range b.Frames() {
		if p, ok := f.Body.(P); ok && f.Out {
			list = append(list, p)
		}
	}
	return list
}

// Fields returns the encoded fields of a performative as they came, in their
// order: Frame.Raw or Attaching.Raw. Those left out at the end are absent.
func Fields(raw []byte) []amqp.Raw {
	if len(raw) == 0 || raw[0] != 0 {
		return nil
	}
	n, err := amqp.SkipValue(raw[1:])
	if err != nil {
		return nil
	}
	it, err := amqp.IterList(amqp.Raw(raw[1+n:]))
	if err != nil {
		return nil
	}
	var list []amqp.Raw
	for f, ok := it.Next(); ok; f, ok = it.Next() {
		list = append(list, f)
	}
	return list
}
