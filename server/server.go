package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"qdrouter/config"
	"qdrouter/linkroute"
	"qdrouter/logging"
	"qdrouter/management"
	"qdrouter/router"
	"qdrouter/router/linkstate"
	"qdrouter/security"
)

// Options are what a server needs beyond its configuration. The zero value will
// do.
type Options struct {
	Version              string
	TestHooks            bool              // -T (CFG A6)
	InsecureIgnorePolicy bool              // start though vhost policy is not enforced
	Logs                 *logging.Registry // configured by New; nil makes one
}

// A Server is one router with its listeners and connectors.
type Server struct {
	cfg     *config.Config
	opts    Options
	logs    *logging.Registry
	ownLogs bool
	sasl    *security.SASL
	gate    *gate
	router  *router.Router
	agent   *management.Agent
	ready   chan struct{}

	// ctx ends when the server stops taking and making connections.
	ctx  context.Context
	stop context.CancelFunc

	// quit is closed before that: no new attempt of a connector.
	quit chan struct{}

	serving sync.WaitGroup // one for each incoming connection

	reload sync.Mutex // held by Reload
	warned []string   // what was last warned of as without effect; of New, then of Reload

	mu         sync.Mutex // guards what follows
	listeners  []*listener
	connectors []*connector
	running    bool
	connecting sync.WaitGroup // one for each running connector
	closeOnce  sync.Once
}

// errRequired ends Run when the first listener cannot be bound (CFG L4).
var errRequired = errors.New("required listener failed")

// New puts a configuration into force and starts the core and the management
// agent; the network is left alone. The error is the reason of CFG A19.
func New(cfg *config.Config, opts Options) (*Server, error) {
	s := &Server{cfg: cfg, opts: opts, logs: opts.Logs, ready: make(chan struct{}), quit: make(chan struct{})}
	if s.logs == nil {
		s.logs, s.ownLogs = logging.New(), true
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.apply(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// apply follows the order of CFG A25, steps 3 to 9.
func (s *Server) apply() error {
	if err := check(s.cfg, s.opts); err != nil {
		return err
	}
	if err := s.configureLogs(); err != nil {
		return err
	}
	s.warnOfEffect(s.cfg.Unimplemented)
	rt := s.cfg.Router()
	sasl, warnings, err := security.LoadSASL(saslDir(rt), rt.Str("saslConfigName"))
	if err != nil {
		return applied("CError", err)
	}
	s.sasl = sasl
	for _, w := range warnings {
		s.logf(logging.ConnMgr, logging.Warning, "%s", w)
	}
	policy := s.cfg.Policy()
	s.gate = newGate(int(clamp(policy.Int("maxConnections"))))

	s.logf(logging.Server, logging.Info, "Container Name: %s", rt.Str("id"))
	distribution, _ := router.ParseDistribution(rt.Str("defaultDistribution"))
	s.router = router.New(router.Options{
		ID:                  rt.Str("id"),
		Area:                "0",
		Mode:                router.Mode(rt.Str("mode")),
		Version:             s.opts.Version,
		Metadata:            rt.Str("metadata"),
		WorkerThreads:       int(rt.Int("workerThreads")),
		DefaultDistribution: distribution,
		TestHooks:           s.opts.TestHooks,
		Log:                 routerLog{s.logs},
		Net: linkstate.Config{
			HelloInterval:  time.Duration(rt.Int("helloIntervalSeconds")) * time.Second,
			HelloMaxAge:    time.Duration(rt.Int("helloMaxAgeSeconds")) * time.Second,
			RAInterval:     time.Duration(rt.Int("raIntervalSeconds")) * time.Second,
			RAIntervalFlux: time.Duration(rt.Int("raIntervalFluxSeconds")) * time.Second,
			RemoteLSMaxAge: time.Duration(rt.Int("remoteLsMaxAgeSeconds")) * time.Second,
		},
	})
	s.router.SetProtocolTrace(s.logs.Enabled(logging.Protocol, logging.Trace))
	s.announceRouter(rt)
	if s.agent, err = s.newAgent(); err != nil {
		return applied("Exception", err)
	}
	s.announcePolicy(policy)
	s.agent.LoadObjects()
	for _, e := range s.cfg.Of("connector") {
		if err := s.CreateConnector(e); err != nil {
			return applied("CError", err)
		}
	}
	for _, e := range s.cfg.Of("listener") {
		if err := s.CreateListener(e); err != nil {
			return applied("CError", err)
		}
	}
	return nil
}

func (s *Server) newAgent() (*management.Agent, error) {
	return management.New(management.Options{
		Core:       core{s.router},
		AutoLinks:  linkroute.NewAutoLinks(s.router),
		LinkRoutes: linkroute.NewLinkRoutes(s.router, s.cfg.Router().Bool("allowResumableLinkRoute")),
		Server:     s,
		Logs:       agentLog{routerLog{s.logs}, s.router},
		Config:     s.cfg,
		RouterID:   s.cfg.Router().Str("id"),
		Version:    s.opts.Version,
		HostName:   hostname(),
		Processor:  processorTime,
		Policy: func() management.PolicyStats {
			processed, denied, current := s.gate.counts()
			return management.PolicyStats{
				ConnectionsProcessed: processed,
				ConnectionsDenied:    denied,
				ConnectionsCurrent:   current,
			}
		},
	})
}

// configureLogs applies the log sections in file order (CFG A25, 9.1).
func (s *Server) configureLogs() error {
	rt := s.cfg.Router()
	s.logs.SetFormat(rt.Bool("timestampsInUTC"), rt.Str("timestampFormat"))
	for _, e := range s.cfg.Of("log") {
		err := s.logs.Configure(e.Str("module"), logging.Settings{
			Enable:           given[string](e, "enable"),
			IncludeTimestamp: given[bool](e, "includeTimestamp"),
			IncludeSource:    given[bool](e, "includeSource"),
			OutputFile:       given[string](e, "outputFile"),
		})
		if err != nil {
			return applied("CError", err)
		}
	}
	return nil
}

// given is the value of an attribute, nil when there is none.
func given[T any](e *config.Entity, name string) *T {
	if v, ok := e.Attrs[name].(T); ok {
		return &v
	}
	return nil
}

// saslDir is the directory of the SASL configuration (CFG A29, M14).
func saslDir(rt *config.Entity) string {
	if dir := rt.Str("saslConfigDir"); dir != "" {
		return dir
	}
	return os.Getenv(security.EnvSASLPath)
}

// announceRouter writes the lines of CFG G14 about the router.
func (s *Server) announceRouter(rt *config.Entity) {
	text := "Router started in Standalone mode"
	switch router.Mode(rt.Str("mode")) {
	case router.Interior:
		text = "Router started in Interior mode, area=0 id=" + rt.Str("id")
	case router.Edge:
		text = "Router started in Edge mode"
	}
	s.logf(logging.Router, logging.Info, "%s", text)
	s.logf(logging.Router, logging.Info, "Version: %s", s.opts.Version)
}

// announcePolicy writes the lines of CFG G14 about the policy.
func (s *Server) announcePolicy(p *config.Entity) {
	s.logf(logging.Policy, logging.Info,
		"Policy configured maxConnections: %d, policyDir: '%s',access rules enabled: '%t', use hostname patterns: '%t'",
		p.Int("maxConnections"), p.Str("policyDir"), p.Bool("enableVhostPolicy"), p.Bool("enableVhostNamePatterns"))
	if vhost := p.Str("defaultVhost"); vhost != "" {
		s.logf(logging.Policy, logging.Info, "Policy fallback defaultVhost is defined: '%s'", vhost)
	}
	if p.Bool("enableVhostPolicy") {
		s.logf(logging.Policy, logging.Critical, "enableVhostPolicy is set and NOT enforced: every user may do everything")
	}
}

// applied is the reason for an entity that was refused while being applied (CFG
// A19).
func applied(kind string, err error) error { return fmt.Errorf("Python: %s: %w", kind, err) } //lint:ignore ST1005 text of 1.19

// logf logs an event, with its caller as source.
func (s *Server) logf(module string, level logging.Level, format string, args ...any) {
	m := s.logs.Module(module)
	text := format // not worth formatting for an event that is only counted
	if m.Enabled(level) {
		text = fmt.Sprintf(format, args...)
	}
	m.Output(1, level, text)
}

// Ready is closed once Run has bound what can be bound and started the
// connectors.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is where the listener of that name or identity listens, nil when it does
// not.
func (s *Server) Addr(name string) net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.name == name || l.identity == name {
			return l.addr()
		}
	}
	return nil
}

// Run binds the listeners, starts the connectors and serves until ctx ends. All
// connections are closed in good order then, for at most about a second (CFG
// A28). It fails only when the required listener cannot be bound (CFG L4). A
// server runs once.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	s.logf(logging.Server, logging.Notice, "Operational, %d Threads Running (process ID %d)",
		s.cfg.Router().Int("workerThreads"), os.Getpid())
	s.announceMemory()

	s.mu.Lock()
	s.running = true
	listeners, connectors := slices.Clone(s.listeners), slices.Clone(s.connectors)
	s.mu.Unlock()
	for i, l := range listeners {
		err := l.bind(s.ctx)
		if err != nil && i == 0 && len(connectors) == 0 {
			s.logf(logging.Server, logging.Critical, "Shutting down, required listener failed %s", l.hostPort())
			return fmt.Errorf("%w: %w", errRequired, err)
		}
	}
	for _, c := range connectors {
		s.startConnector(c)
	}
	close(s.ready)

	retry := time.NewTicker(rebindEvery)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			s.logf(logging.Server, logging.Notice, "Shut Down")
			return nil
		case <-retry.C:
			s.bindAll()
		}
	}
}

// Reload puts the difference between the configuration that was read last and a
// new one into force (CFG A27). What cannot change while the router runs is left
// as it is, and one warning names it. With an error nothing has changed; it may
// join several.
func (s *Server) Reload(cfg *config.Config) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	if err := check(cfg, s.opts); err != nil {
		return err
	}
	r, err := s.agent.Reload(cfg)
	if err != nil {
		return err
	}
	if !slices.Equal(cfg.Unimplemented, s.warned) {
		s.warnOfEffect(cfg.Unimplemented)
	}
	done := "nothing to change"
	if len(r.Done) > 0 {
		done = strings.Join(r.Done, ", ")
	}
	s.logf(logging.Server, logging.Notice, "Configuration read again: %s", done)
	if len(r.Left) > 0 {
		s.logf(logging.Server, logging.Warning, "Not changed before a restart: %s", strings.Join(r.Left, ", "))
	}
	return nil
}

// warnOfEffect says what the configuration asks for in vain.
func (s *Server) warnOfEffect(later []string) {
	s.warned = later
	if len(later) > 0 {
		s.logf(logging.Server, logging.Warning, "Accepted but without effect in this version: %s", strings.Join(later, ", "))
	}
}

// bindAll tries again what could not be bound (CFG L4).
func (s *Server) bindAll() {
	s.mu.Lock()
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.bind(s.ctx) // said in the log
	}
}

// Close ends everything the server started and waits for it. Run does it itself.
//
// Who could add something goes first, then the connections: those that are open
// are told (CFG A28), those that are not are cut.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		if s.agent != nil {
			s.agent.Close()
		}
		s.mu.Lock()
		s.running = false
		listeners := s.listeners
		s.mu.Unlock()
		for _, l := range listeners {
			l.close()
		}
		close(s.quit)
		if s.gate != nil {
			s.gate.cutUnfinished()
		}
		if s.router != nil {
			s.router.Close()
		}
		s.stop()
		s.connecting.Wait()
		s.serving.Wait()
		if s.ownLogs {
			s.logs.Close()
		}
	})
}

// CreateListener adds a listener and, in a running server, binds it. That it
// cannot be bound is no error (CFG L7).
func (s *Server) CreateListener(e *config.Entity) error {
	l, err := s.newListener(e)
	if err != nil {
		return err
	}
	s.configured("Listener", e)
	if l.refusal != "" {
		s.logf(logging.ConnMgr, logging.Error, "Listener %s refuses every connection: %s", l.name, l.refusal)
	}
	for _, w := range s.sasl.Warnings(listenerSecurity(e)) {
		s.logf(logging.ConnMgr, logging.Warning, "Listener %s: %s", l.name, w)
	}
	if e.Has("trustedCertsFile") {
		s.logf(logging.ConnMgr, logging.Warning, "Configuration listener attribute 'trustedCertsFile' is not used. Specify sslProfile caCertFile instead.")
	}
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	running := s.running
	s.mu.Unlock()
	if running {
		s.bindAll()
	}
	return nil
}

// DeleteListener closes a listener's sockets; its connections live on (CFG L7).
func (s *Server) DeleteListener(identity string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.listeners, func(l *listener) bool { return l.identity == identity })
	if i < 0 {
		s.mu.Unlock()
		return fmt.Errorf("no listener %s", identity)
	}
	l := s.listeners[i]
	s.listeners = slices.Delete(s.listeners, i, i+1)
	s.mu.Unlock()
	l.close()
	return nil
}

// CreateConnector adds a connector and, in a running server, starts it.
func (s *Server) CreateConnector(e *config.Entity) error {
	c, warnings, err := s.newConnector(e)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		level, _ := logging.ParseLevel(w.Level)
		s.logf(w.Module, level, "%s", w.Text)
	}
	s.configured("Connector", e)
	s.mu.Lock()
	s.connectors = append(s.connectors, c)
	running := s.running
	s.mu.Unlock()
	if running {
		s.startConnector(c)
		s.bindAll()
	}
	return nil
}

func (s *Server) startConnector(c *connector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || c.cancel != nil || !slices.Contains(s.connectors, c) {
		return // stopped, started before, or deleted meanwhile
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(s.ctx)
	s.connecting.Go(func() { c.run(ctx) })
}

// DeleteConnector closes a connector's connection and tries no more (CFG L7).
func (s *Server) DeleteConnector(identity string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.connectors, func(c *connector) bool { return c.identity == identity })
	if i < 0 {
		return fmt.Errorf("no connector %s", identity)
	}
	if cancel := s.connectors[i].cancel; cancel != nil {
		cancel()
	}
	s.connectors = slices.Delete(s.connectors, i, i+1)
	return nil
}

// ConnectorStatus is the read-only part of a connector entity (CFG 3.3).
func (s *Server) ConnectorStatus(identity string) management.ConnectorStatus {
	s.mu.Lock()
	i := slices.IndexFunc(s.connectors, func(c *connector) bool { return c.identity == identity })
	if i < 0 {
		s.mu.Unlock()
		return management.ConnectorStatus{}
	}
	c := s.connectors[i]
	s.mu.Unlock()
	return c.info()
}

// ListenerStatus is the read-only part of a listener entity.
func (s *Server) ListenerStatus(identity string) management.ListenerStatus {
	s.mu.Lock()
	i := slices.IndexFunc(s.listeners, func(l *listener) bool { return l.identity == identity })
	if i < 0 {
		s.mu.Unlock()
		return management.ListenerStatus{}
	}
	l := s.listeners[i]
	s.mu.Unlock()
	return l.info()
}

// configured writes the line of CFG L1.
func (s *Server) configured(what string, e *config.Entity) {
	family := e.Str("socketAddressFamily")
	if what == "Connector" {
		family = e.Str("protocolFamily")
	}
	if family == "" {
		family = "any"
	}
	text := fmt.Sprintf("Configured %s: %s proto=%s, role=%s", what, hostPort(e), family, e.Str("role"))
	if what == "Listener" && isHTTP(e) {
		text += ", http"
	}
	if p := e.Str("sslProfile"); p != "" {
		text += ", sslProfile=" + p
	}
	s.logf(logging.ConnMgr, logging.Info, "%s", text)
}
