// Command qdrouterd is the router: it reads flags and a configuration file, runs
// a server and turns its end into an exit code (CFG section 1).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"qdrouter/config"
	"qdrouter/logging"
	"qdrouter/server"
)

// Set by the build with -ldflags "-X main.version=…".
var (
	version    string
	sysconfdir = "/etc"
)

// builtin is the configuration of a router that was given none: for this machine
// alone, since it lets everybody in.
const builtin = `
router {
    mode: standalone
}
listener {
    host: 127.0.0.1
    port: 5672
}
`

const hints = `No configuration file: a standalone router for this machine only.
Stop it with Ctrl-C. In another terminal, look into it, or from its sources
receive three messages and send them:

  qdstat -b 127.0.0.1:5672 -g
  qdmanage -b 127.0.0.1:5672 query --type listener
  go run ./examples/go/receiver -url amqp://127.0.0.1:5672 -address hello -count 3 &
  go run ./examples/go/sender -url amqp://127.0.0.1:5672 -address hello -count 3

Settings of your own: qdrouterd -c FILE, and to look for mistakes in it first,
qdrouterd --check -c FILE.

`

// A command is what a command line asks for.
type command struct {
	argv0                string
	config               string
	named                bool // config was given
	daemon               bool
	pidfile              string
	user                 string
	testHooks            bool
	version, help        bool
	check                bool
	completion           string // the shell; "" when not given
	insecureIgnorePolicy bool
}

func (c *command) options() []option {
	text := func(p *string) func(string) { return func(arg string) { *p = arg } }
	flag := func(p *bool) func(string) { return func(string) { *p = true } }
	var include string // where 1.19 had its Python code (CFG A2)
	return []option{
		{short: 'c', long: "config", arg: true, set: func(arg string) { c.config, c.named = arg, true }},
		{short: 'I', long: "include", arg: true, set: text(&include)},
		{short: 'd', long: "daemon", set: flag(&c.daemon)},
		{short: 'P', long: "pidfile", arg: true, set: text(&c.pidfile)},
		{short: 'U', long: "user", arg: true, set: text(&c.user)},
		{short: 'T', long: "test-hooks", set: flag(&c.testHooks)},
		{short: 'v', long: "version", set: flag(&c.version)},
		{short: 'h', long: "help", set: flag(&c.help)},
		{long: "check", new: true, set: flag(&c.check)},
		{long: "completion", arg: true, new: true, set: text(&c.completion)},
		{long: "insecure-ignore-policy", new: true, set: flag(&c.insecureIgnorePolicy)},
	}
}

func usage(w io.Writer, argv0 string) {
	fmt.Fprintf(w, `Usage: %s [OPTIONS]

  -c, --config=PATH            Read the configuration from PATH
                               (default %s)
  -I, --include=PATH           Accepted and ignored
  -d, --daemon                 Run in the background
  -P, --pidfile=PATH           With -d, write the process ID to PATH
  -U, --user=NAME              With -d, run as user NAME
  -T, --test-hooks             Enable addresses that serve system tests
  -v, --version                Print the version
  -h, --help                   Print this help
      --check                  Check the configuration, then exit
      --completion=SHELL       Print the completion script for SHELL: bash, zsh, fish
      --insecure-ignore-policy Start though vhost policy cannot be enforced

On SIGHUP the router reads its configuration again, applies what can change while
it runs, and reopens its log files.
`, argv0, defaultConfig())
}

func defaultConfig() string { return filepath.Join(sysconfdir, "qpid-dispatch", "qdrouterd.conf") }

func main() {
	signal.Ignore(syscall.SIGPIPE) // a log reader that goes away does not end the router
	c := command{argv0: os.Args[0]}
	words, err := getopt(os.Args[1:], c.options(), "version", "help")
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.argv0, err)
		usage(os.Stdout, c.argv0)
		os.Exit(1)
	case c.help:
		usage(os.Stdout, c.argv0)
		return
	case c.version:
		fmt.Println(versionText())
		return
	case c.completion != "":
		script, err := completionScript(c.completion, c.options())
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.argv0, err)
			os.Exit(1)
		}
		fmt.Print(script)
		return
	case len(words) > 0:
		fmt.Fprintf(os.Stderr, "Unexpected arguments: %s\n\n", strings.Join(words, " "))
		usage(os.Stdout, c.argv0)
		os.Exit(1)
	case c.check:
		os.Exit(c.runCheck())
	case c.daemon:
		os.Exit(c.runDaemon())
	default:
		os.Exit(c.run(os.Stderr))
	}
}

// versionText is the version stamped at build time, or what the Go tool knows of
// the source.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			return v
		}
	}
	return "dev"
}

// load reads the configuration; builtIn says that there was no file to read.
func (c *command) load() (cfg *config.Config, builtIn bool, err error) {
	path := c.config
	if !c.named {
		path = defaultConfig()
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			cfg, err := config.Parse("built-in configuration", config.FormatConf, []byte(builtin))
			return cfg, true, err
		}
	}
	cfg, err = config.Load(path)
	return cfg, false, err
}

func (c *command) serverOptions(logs *logging.Registry) server.Options {
	return server.Options{
		Version:              versionText(),
		TestHooks:            c.testHooks,
		InsecureIgnorePolicy: c.insecureIgnorePolicy,
		Logs:                 logs,
	}
}

// runCheck is --check: everything that start-up would refuse, and nothing done.
func (c *command) runCheck() int {
	cfg, builtIn, err := c.load()
	for _, w := range cfg.Warnings {
		fmt.Fprintf(os.Stderr, "%s: %s\n", w.Level, w.Text)
	}
	var remarks []string
	if err == nil {
		remarks, err = server.Check(cfg, c.serverOptions(nil))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.argv0, err)
		return 1
	}
	for _, r := range remarks {
		fmt.Fprintf(os.Stderr, "warning: %s\n", r)
	}
	if builtIn {
		fmt.Printf("%s does not exist: the built-in configuration would be used\n", defaultConfig())
		return 0
	}
	fmt.Printf("%s: no errors\n", cfg.Path)
	return 0
}

// run is the router's whole life. Failures of the start are told on report as
// well as in the log (CFG A19). A report other than stderr is the daemon's pipe,
// closed after `ok`.
func (c *command) run(report *os.File) int {
	signal.Ignore(syscall.SIGHUP) // until attend: the configuration is about to be read anyway
	logs := logging.New()
	defer logs.Close()
	fail := func(err error) int {
		logs.Log(logging.Main, logging.Critical, "Router start-up failed: %v", err)
		fmt.Fprintf(report, "%s: %v\n", c.argv0, err)
		return 1
	}
	cfg, builtIn, err := c.load()
	for _, w := range cfg.Warnings {
		level, _ := logging.ParseLevel(w.Level)
		logs.Log(w.Module, level, "%s", w.Text)
	}
	if err != nil {
		return fail(err)
	}
	srv, err := server.New(cfg, c.serverOptions(logs))
	if err != nil {
		return fail(err)
	}
	defer srv.Close()

	// A shell without job control, as one that runs a script, has its background commands
	// ignore SIGINT. We attend to it all the same, but could not die of it.
	immune := signal.Ignored(syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	interrupted := attend(ctx, cancel, func() { c.hangUp(srv, logs, builtIn) })
	switch {
	case report != os.Stderr:
		fmt.Fprint(report, "ok")
		report.Close()
	case builtIn:
		go func() {
			select {
			case <-srv.Ready():
				fmt.Print(hints)
			case <-ctx.Done():
			}
		}()
	}

	err = srv.Run(ctx)
	cancel()
	if err != nil {
		return 1 // said in the log (CFG L4)
	}
	if <-interrupted {
		// End as an unhandled SIGINT would, so that a shell sees 130 (CFG A12).
		if immune {
			return 130
		}
		logs.Close()
		signal.Reset(syscall.SIGINT)
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err == nil {
			select {}
		}
	}
	return 0
}

// hangUp reads the configuration again and then opens the log files anew (CFG
// A27). A configuration with faults changes nothing, nor does a file that is gone: the
// built-in configuration, which lets everybody in, is only for a router that started
// with it.
func (c *command) hangUp(srv *server.Server, logs *logging.Registry, startedBuiltIn bool) {
	cfg, builtIn, err := c.load()
	if builtIn && !startedBuiltIn {
		err = fmt.Errorf("%s is gone", defaultConfig())
	}
	for _, w := range cfg.Warnings {
		level, _ := logging.ParseLevel(w.Level)
		logs.Log(w.Module, level, "%s", w.Text)
	}
	if err == nil {
		err = srv.Reload(cfg)
	}
	if err != nil {
		for _, fault := range faults(err) {
			logs.Log(logging.Main, logging.Error, "Configuration not changed: %v", fault)
		}
	}
	if err := logs.Reopen(); err != nil {
		logs.Log(logging.Main, logging.Error, "Reopening log files: %v", err)
	}
}

// faults takes joined errors apart.
func faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, faults(err)...)
	}
	return all
}

// attend sees to signals until ctx ends: SIGHUP hangs up, the others cancel, also
// while a hang-up takes its time over the names of hosts. The channel tells
// whether it was SIGINT (CFG A12).
func attend(ctx context.Context, cancel, hangUp func()) (interrupted <-chan bool) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGHUP)
	result := make(chan bool, 1)
	again := make(chan struct{}, 1) // one token: what it reads is what the last SIGHUP meant
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-again:
				hangUp()
			}
		}
	}()
	go func() {
		for {
			select {
			case <-ctx.Done():
				result <- false
				return
			case s := <-signals:
				if s != syscall.SIGHUP {
					result <- s == syscall.SIGINT
					cancel()
					return
				}
				select {
				case again <- struct{}{}:
				default:
				}
			}
		}
	}()
	return result
}
