package management

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ Core = (*router.Router)(nil)

// fakeCore is a router as the agent sees one: tables that a test fills, and a
// record of what was sent.
type fakeCore struct {
	mu          sync.Mutex
	subscribers map[string]func(*router.Request) // by "address" or "_local/address"
	sent        []sentMessage
	sending     chan struct{} // one token for each message sent

	stats       router.RouterStats
	connections []router.ConnectionInfo
	links       []router.LinkInfo
	addresses   []router.AddressInfo
	nodes       []router.NodeInfo
	configs     []router.AddressConfig
	exchanges   *router.Router // has those, and their bindings
	failures    router.Failures
	killed      []string // "id by asker"
	traced      map[uint64]bool
	lastID      uint64
	snapshots   int // calls of Links
}

type sentMessage struct {
	to      string
	message []byte
}

func (c *fakeCore) Subscribe(address string, local bool, handle func(*router.Request)) (cancel func()) {
	if local {
		address = "_local/" + address
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers[address] = handle
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, address)
	}
}

func (c *fakeCore) Send(to string, message []byte) {
	c.mu.Lock()
	c.sent = append(c.sent, sentMessage{to, message})
	c.mu.Unlock()
	c.sending <- struct{}{}
}

func (c *fakeCore) Stats() router.RouterStats              { return c.stats }
func (c *fakeCore) Connections() []router.ConnectionInfo   { return slices.Clone(c.connections) }
func (c *fakeCore) Addresses() []router.AddressInfo        { return slices.Clone(c.addresses) }
func (c *fakeCore) Nodes() []router.NodeInfo               { return slices.Clone(c.nodes) }
func (c *fakeCore) AddressConfigs() []router.AddressConfig { return slices.Clone(c.configs) }
func (c *fakeCore) Failures() router.Failures              { return c.failures }
func (c *fakeCore) NextIdentity() uint64                   { c.lastID++; return c.lastID }

func (c *fakeCore) Links() []router.LinkInfo {
	c.snapshots++
	return slices.Clone(c.links)
}

func (c *fakeCore) AddAddressConfig(a router.AddressConfig) (router.AddressConfig, error) {
	a.Prefix = strings.Trim(a.Prefix, "/.")
	for _, other := range c.configs {
		switch {
		case a.Name != "" && a.Name == other.Name:
			return a, router.ErrNameConflict
		case a.Prefix == other.Prefix && a.Pattern == other.Pattern:
			return a, router.ErrDuplicate
		}
	}
	switch {
	case a.Prefix != "" && a.Pattern != "":
		return a, router.ErrPrefixBoth
	case a.Prefix == "" && a.Pattern == "":
		return a, router.ErrPrefixEither
	case a.IngressPhase < 0 || a.EgressPhase < 0:
		return a, router.ErrPhases
	}
	a.ID = c.NextIdentity()
	c.configs = append(c.configs, a)
	return a, nil
}

func (c *fakeCore) DeleteAddressConfig(id uint64) error {
	n := len(c.configs)
	c.configs = slices.DeleteFunc(c.configs, func(a router.AddressConfig) bool { return a.ID == id })
	if len(c.configs) == n {
		return router.ErrNotFound
	}
	return nil
}

func (c *fakeCore) Exchanges() []router.Exchange { return c.exchanges.Exchanges() }
func (c *fakeCore) AddExchange(x router.Exchange) (router.Exchange, error) {
	return c.exchanges.AddExchange(x)
}
func (c *fakeCore) DeleteExchange(id uint64) error { return c.exchanges.DeleteExchange(id) }
func (c *fakeCore) Bindings() []router.Binding     { return c.exchanges.Bindings() }
func (c *fakeCore) AddBinding(b router.Binding) (router.Binding, error) {
	return c.exchanges.AddBinding(b)
}
func (c *fakeCore) DeleteBinding(id uint64) error { return c.exchanges.DeleteBinding(id) }

// noLog is the log of a router that has none.
type noLog struct{}

func (noLog) Enabled(string, router.Level) bool { return false }
func (noLog) Log(string, router.Level, string)  {}

func (c *fakeCore) KillConnection(id, by uint64) error {
	for i := range c.connections {
		if c.connections[i].ID != id {
			continue
		}
		if r := c.connections[i].Role; r == router.RoleInterRouter || r == router.RoleEdge {
			return router.ErrForbidden
		}
		c.connections = slices.Delete(c.connections, i, i+1)
		c.killed = append(c.killed, fmt.Sprintf("%d by %d", id, by))
		return nil
	}
	return router.ErrNotFound
}

func (c *fakeCore) SetTrace(id uint64, on bool) error {
	c.traced[id] = on
	return nil
}

// fakeServer records what it is told to open and close.
type fakeServer struct {
	calls  []string
	refuse error
	status [3]string
}

func (s *fakeServer) did(format string, args ...any) error {
	if s.refuse != nil {
		return s.refuse
	}
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	return nil
}

func (s *fakeServer) CreateListener(e *config.Entity) error {
	return s.did("listen %s:%s", e.Str("host"), e.Str("port"))
}
func (s *fakeServer) DeleteListener(identity string) error { return s.did("close %s", identity) }
func (s *fakeServer) CreateConnector(e *config.Entity) error {
	return s.did("dial %s:%s", e.Str("host"), e.Str("port"))
}
func (s *fakeServer) DeleteConnector(identity string) error { return s.did("hang up %s", identity) }
func (s *fakeServer) ConnectorStatus(string) ConnectorStatus {
	return ConnectorStatus{Status: s.status[0], Message: s.status[1], FailoverURLs: s.status[2], Attempts: 3, Failures: 2, LastError: "gone"}
}
func (s *fakeServer) ListenerStatus(string) ListenerStatus {
	return ListenerStatus{Refused: 4, Failed: 1, LastError: "who are you"}
}

// fakeLogs keeps the agent's lines and the settings of the modules.
type fakeLogs struct {
	mu       sync.Mutex
	level    router.Level
	lines    []string
	settings map[string]LogSettings
	recent   []LogEntry
	counts   map[string]map[router.Level]uint64
}

func (l *fakeLogs) Configure(module string, s LogSettings) error {
	if s.OutputFile != nil && *s.OutputFile == "" {
		return errors.New("Configuration: Failed to open log file ''")
	}
	if s.Enable != nil && *s.Enable == "foo" {
		return errors.New("Configuration: 'foo' is not a valid log level")
	}
	l.settings[module] = s
	return nil
}

func (l *fakeLogs) Recent(limit int) []LogEntry {
	if limit > 0 && limit < len(l.recent) {
		return l.recent[len(l.recent)-limit:]
	}
	return l.recent
}

func (l *fakeLogs) Counts(module string) map[router.Level]uint64 { return l.counts[module] }
func (l *fakeLogs) Enabled(_ string, level router.Level) bool    { return level >= l.level }
func (l *fakeLogs) Log(module string, level router.Level, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%s %d %s", module, level, text))
}

// find gives the lines that hold the text.
func (l *fakeLogs) find(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// A bench is an agent between fakes.
type bench struct {
	*Agent
	core       *fakeCore
	autoLinks  *fakeAutoLinks
	linkRoutes *fakeLinkRoutes
	server     *fakeServer
	logs       *fakeLogs
	clock      time.Time
}

const standaloneConf = `
router {
 mode: standalone
 id: solo
 metadata: selftest;solo
}
listener {
 name: l0
 host: 0.0.0.0
 port: 20000
}
listener {
 name: l1
 host: 0.0.0.0
 port: 20001
}
`

// newBench starts an agent of a router with that configuration.
func newBench(t testing.TB, conf string) *bench {
	t.Helper()
	c, err := config.Parse("test.conf", config.FormatConf, []byte(conf))
	if err != nil {
		t.Fatalf("configuration: %v", err)
	}
	b := &bench{
		core: &fakeCore{
			subscribers: map[string]func(*router.Request){},
			sending:     make(chan struct{}, 10000),
			traced:      map[uint64]bool{},
			exchanges:   router.New(router.Options{ID: "solo", Mode: router.Standalone, Log: noLog{}}),
		},
		server: &fakeServer{status: [3]string{"CONNECTING", "", "amqp://h:1"}},
		logs: &fakeLogs{
			level:    router.Error,
			settings: map[string]LogSettings{},
			counts: map[string]map[router.Level]uint64{
				"AGENT": {router.Error: 3}, "MAIN": {}, "DISPLAYNAME": {},
			},
		},
		clock: time.Unix(1000, 0),
	}
	b.autoLinks = &fakeAutoLinks{core: b.core}
	t.Cleanup(b.core.exchanges.Close)
	b.linkRoutes = &fakeLinkRoutes{core: b.core}
	b.Agent, err = New(Options{
		Core:       b.core,
		AutoLinks:  b.autoLinks,
		LinkRoutes: b.linkRoutes,
		Server:     b.server,
		Logs:       b.logs,
		Config:     c,
		RouterID:   "solo",
		Version:    "9.9",
		HostName:   "host.example",
		Now:        func() time.Time { return b.clock },
	})
	if err != nil {
		t.Fatalf("agent: %v", err)
	}
	t.Cleanup(b.Close)
	return b
}

// props makes application properties from "key=value" pairs.
func props(pairs ...string) amqp.Map {
	var m amqp.Map
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		m = append(m, amqp.MapEntry{Key: key, Value: value})
	}
	return m
}

// attrs makes a body from keys and values in turn.
func attrs(pairs ...any) amqp.Map {
	m := amqp.Map{}
	for i := 0; i < len(pairs); i += 2 {
		m = append(m, amqp.MapEntry{Key: pairs[i], Value: pairs[i+1]})
	}
	return m
}

// ask has the agent handle a request of these properties and this body.
func (b *bench) ask(body any, pairs ...string) Response {
	return b.Handle(Request{ReplyTo: "reply", Properties: props(pairs...), Body: body, From: Asker{Connection: 7}})
}

// want asks and fails the test unless the answer has that status and its
// description holds that text.
func (b *bench) want(t *testing.T, status int, description string, body any, pairs ...string) Response {
	t.Helper()
	resp := b.ask(body, pairs...)
	if resp.Status != status || !strings.Contains(resp.Description, description) {
		t.Fatalf("%v with %v: got %d %q, want %d with %q", pairs, body, resp.Status, resp.Description, status, description)
	}
	return resp
}

// asMap gives a reply's body as a Go map.
func asMap(t *testing.T, resp Response) map[string]any {
	t.Helper()
	m, ok := resp.Body.(amqp.Map)
	if !ok {
		t.Fatalf("body is %T, want a map (%d %s)", resp.Body, resp.Status, resp.Description)
	}
	got := map[string]any{}
	for _, e := range m {
		got[e.Key.(string)] = e.Value
	}
	return got
}

// row gives the values of row i.
func (p *page) row(i int) amqp.List {
	row := make(amqp.List, len(p.names))
	for column := range row {
		row[column] = p.cell(i, column)
	}
	return row
}

// rowsOf gives the heading and the rows of a QUERY reply.
func rowsOf(t *testing.T, resp Response) (names []string, rows []map[string]any) {
	t.Helper()
	body := resp.Body
	if p, ok := body.(*page); ok {
		encoded, n, err := amqp.DecodeValue(p.append(nil))
		if err != nil || n != len(p.append(nil)) {
			t.Fatalf("page: %v", err)
		}
		body = encoded
	}
	m := asMap(t, Response{Body: body, Status: resp.Status, Description: resp.Description})
	for _, name := range m["attributeNames"].(amqp.List) {
		names = append(names, name.(string))
	}
	for _, row := range m["results"].(amqp.List) {
		values := row.(amqp.List)
		if len(values) != len(names) {
			t.Fatalf("a row has %d values under %d names", len(values), len(names))
		}
		r := map[string]any{}
		for i, name := range names {
			r[name] = values[i]
		}
		rows = append(rows, r)
	}
	return names, rows
}

func subset(t *testing.T, want, got map[string]any) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if fmt.Sprintf("%T %v", got[key], got[key]) != fmt.Sprintf("%T %v", want[key], want[key]) {
			t.Errorf("%s = %T %v, want %T %v", key, got[key], got[key], want[key], want[key])
		}
	}
}
