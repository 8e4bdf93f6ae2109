package rig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

// rabbitServer is where Debian has the server's own script. The one in
// /usr/sbin changes to the system's user and its folders.
const rabbitServer = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// rabbitLimit bounds how long RabbitMQ may take to start, and to end: it runs
// on a virtual machine that takes seconds for either.
const rabbitLimit = 2 * time.Minute

// rabbitCookie lets erl_call into the server, which listens on 127.0.0.1 only.
const rabbitCookie = "QDROUTERTESTS"

// The user that a RabbitMQ of a test has, with all permissions. There is no
// other, and nobody comes in without a password.
const (
	RabbitUser     = "tester"
	RabbitPassword = "sEcret-1"
)

// A Rabbit is a running RabbitMQ server of Debian with AMQP 1.0 (its plug-in
// rabbitmq_amqp1_0). It has all it writes in a folder of the test, and its own
// port mapper, so that any number of them run beside each other and the
// system's service.
//
// With the plug-in, an attach to the address "/queue/NAME" declares the queue,
// durable if the terminus is: one that differs in that ends the session. The
// queue of "/amq/queue/NAME" must exist, of either kind.
//
// The plug-in of 3.10.8 knows no error of a link. What it does not like ends
// the session: an attach to receive from a queue that does not exist
// (amqp:not-found), a coordinator and a dynamic source (amqp:not-implemented),
// an anonymous target and the outcome modified (amqp:invalid-field), and a drain
// that is to give credit back (amqp:internal-error). A disposition whose settled
// field is absent or null drops the connection. A sender to a queue that does not
// exist is attached, and what it sends is accepted and lost. Its answer to a
// receiver has no target, and its detach never says closed. Filters are told
// back and not obeyed.
type Rabbit struct {
	dir              string
	port, dist, epmd int
	cmd, mapper      *exec.Cmd     // nil while it does not run
	done             chan struct{} // closed when cmd has ended
	err              error         // what its Wait returned; read after done
	log              *os.File
}

// StartRabbit starts a RabbitMQ with the given queues, not durable, and returns once
// AMQP 1.0 works. It ends with the test, without leaving a process. The test is
// skipped where RabbitMQ is not installed.
func StartRabbit(t testing.TB, queues ...string) *Rabbit {
	t.Helper()
	NeedRabbit(t)
	dir := t.TempDir()
	r := &Rabbit{dir: dir, port: freePort(t), dist: freePort(t), epmd: freePort(t)}
	for name, text := range map[string]string{
		"enabled_plugins":  "[rabbitmq_amqp1_0].\n",
		"env.conf":         "",
		".erlang.cookie":   rabbitCookie,
		"definitions.json": rabbitDefinitions(t, queues),
		"rabbitmq.conf": fmt.Sprintf(`listeners.tcp.1 = 127.0.0.1:%d
auth_mechanisms.1 = PLAIN
load_definitions = %s
log.file = false
log.console = true
log.console.level = warning
disk_free_limit.absolute = 1MB
`, r.port, filepath.Join(dir, "definitions.json")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	r.log = log
	t.Cleanup(func() {
		r.Stop(t)
		r.log.Close()
		if t.Failed() {
			log, _ := os.ReadFile(r.log.Name())
			t.Logf("log of RabbitMQ (its end):\n%s", log[max(0, len(log)-8192):])
		}
	})
	r.Start(t)
	return r
}

// NeedRabbit skips or fails a test that runs RabbitMQ when that is missing.
func NeedRabbit(t testing.TB) {
	t.Helper()
	_, err := os.Stat(rabbitServer)
	need(t, "rabbitmq-server", err)
}

// freePort returns a port that is free now. RabbitMQ cannot be told to choose.
func freePort(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// rabbitDefinitions is what the server has when it starts.
func rabbitDefinitions(t testing.TB, queues []string) string {
	t.Helper()
	salt := []byte("salt")
	hash := sha256.Sum256(append(bytes.Clone(salt), RabbitPassword...))
	list := []any{}
	for _, q := range queues {
		list = append(list, map[string]any{"name": q, "vhost": "/", "durable": false, "auto_delete": false, "arguments": map[string]any{}})
	}
	text, err := json.Marshal(map[string]any{
		"vhosts": []any{map[string]any{"name": "/"}},
		"users": []any{map[string]any{"name": RabbitUser, "tags": "", "hashing_algorithm": "rabbit_password_hashing_sha256",
			"password_hash": base64.StdEncoding.EncodeToString(append(salt, hash[:]...))}},
		"permissions": []any{map[string]any{"user": RabbitUser, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}},
		"queues":      list,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// node is the name of the Erlang node.
func (r *Rabbit) node() string { return fmt.Sprintf("rabbit%d@localhost", r.port) }

// environ is what the server and its tools are told.
func (r *Rabbit) environ() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + r.dir, // where the cookie is
		"ERL_EPMD_ADDRESS=127.0.0.1", fmt.Sprint("ERL_EPMD_PORT=", r.epmd),
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(r.dir, "env.conf"), // not the system's
		"RABBITMQ_NODENAME=" + r.node(),
		fmt.Sprint("RABBITMQ_DIST_PORT=", r.dist),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(r.dir, "mnesia"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(r.dir, "logs"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(r.dir, "rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(r.dir, "advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(r.dir, "enabled_plugins"),
		"RABBITMQ_PID_FILE=" + filepath.Join(r.dir, "pid"),
		"RABBITMQ_ALLOW_INPUT=1", // the script becomes the server, and is no process beside it
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +B i +S 2:2 +A 4 -kernel inet_dist_use_interface {127,0,0,1}",
	}
	return env
}

// Start starts a server that was stopped or killed, on its ports.
func (r *Rabbit) Start(t testing.TB) {
	t.Helper()
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Dir = r.environ(), r.dir
		cmd.Stdout, cmd.Stderr = r.log, r.log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	r.mapper = run("epmd", "-port", strconv.Itoa(r.epmd), "-address", "127.0.0.1")
	waitPort(t, r.epmd)
	r.cmd = run(rabbitServer)
	cmd, done := r.cmd, make(chan struct{})
	r.done = done
	go func() {
		r.err = cmd.Wait()
		close(done)
	}()
	r.work(t)
}

// waitPort waits until somebody listens.
func waitPort(t testing.TB, port int) {
	t.Helper()
	for deadline := time.Now().Add(startLimit); ; time.Sleep(10 * time.Millisecond) {
		nc, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			nc.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// work waits until AMQP 1.0 works.
func (r *Rabbit) work(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(rabbitLimit); ; time.Sleep(50 * time.Millisecond) {
		err := r.try()
		if err == nil {
			return
		}
		select {
		case <-r.done:
			t.Fatalf("RabbitMQ ended while it started: %v", r.err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("RabbitMQ does not work after %v: %v", rabbitLimit, err)
		}
	}
}

// try opens a connection and a session.
func (r *Rabbit) try() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := amqp.Dial(ctx, "amqp://"+r.Addr(), &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(RabbitUser, RabbitPassword)})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.NewSession(ctx, nil)
	return err
}

// Stop ends the server in good order; a second call does nothing.
func (r *Rabbit) Stop(t testing.TB) {
	t.Helper()
	r.end(t, syscall.SIGTERM)
}

// Kill ends the server by SIGKILL.
func (r *Rabbit) Kill(t testing.TB) {
	t.Helper()
	r.end(t, syscall.SIGKILL)
}

func (r *Rabbit) end(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if r.cmd != nil {
		r.cmd.Process.Signal(sig)
		select {
		case <-r.done:
		case <-time.After(rabbitLimit):
			t.Errorf("RabbitMQ did not end within %v of %v", rabbitLimit, sig)
			r.cmd.Process.Kill()
			<-r.done
		}
		// What it has as helpers end when it does; the group is theirs alone.
		syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		r.cmd = nil
	}
	if r.mapper != nil {
		r.mapper.Process.Kill()
		r.mapper.Wait()
		r.mapper = nil
	}
}

// Addr returns HOST:PORT for AMQP 1.0.
func (r *Rabbit) Addr() string { return fmt.Sprint("127.0.0.1:", r.port) }

// Port returns the port for AMQP 1.0.
func (r *Rabbit) Port() int { return r.port }

// URL returns the URL for AMQP 1.0, with user and password.
func (r *Rabbit) URL() string {
	return fmt.Sprintf("amqp://%s:%s@%s", RabbitUser, RabbitPassword, r.Addr())
}

// AddQueue makes a queue while the server runs.
func (r *Rabbit) AddQueue(t testing.TB, name string, durable bool) {
	t.Helper()
	r.eval(t, fmt.Sprintf(`rabbit_amqqueue:declare(%s, %t, false, [], none, <<"test">>)`, rabbitQueue(name), durable))
}

// RemoveQueue deletes a queue with its messages.
func (r *Rabbit) RemoveQueue(t testing.TB, name string) {
	t.Helper()
	r.eval(t, fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(%s), rabbit_amqqueue:delete(Q, false, false, <<"test">>)`, rabbitQueue(name)))
}

// Depth is how many messages a queue has, those included that a receiver has
// and has not settled; -1 when there is no such queue.
func (r *Rabbit) Depth(t testing.TB, name string) int {
	t.Helper()
	answer := r.eval(t, fmt.Sprintf(`case rabbit_amqqueue:lookup(%s) of
		{ok, Q} -> [{messages, N}] = rabbit_amqqueue:info(Q, [messages]), N;
		_ -> -1 end`, rabbitQueue(name)))
	n, err := strconv.Atoi(answer)
	if err != nil {
		t.Fatalf("depth of %q: %s", name, answer)
	}
	return n
}

// Ready is how many messages a queue has that no receiver has.
func (r *Rabbit) Ready(t testing.TB, name string) int {
	t.Helper()
	n, err := strconv.Atoi(r.eval(t, fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(%s),
		[{messages_ready, N}] = rabbit_amqqueue:info(Q, [messages_ready]), N`, rabbitQueue(name))))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func rabbitQueue(name string) string {
	return fmt.Sprintf(`rabbit_misc:r(<<"/">>, queue, <<%q>>)`, name)
}

// eval has the server evaluate Erlang, and returns what comes of it. It takes
// milliseconds, where rabbitmqctl takes seconds.
func (r *Rabbit) eval(t testing.TB, code string) string {
	t.Helper()
	cmd := exec.Command("erl_call", "-address", fmt.Sprint("127.0.0.1:", r.dist), "-c", rabbitCookie, "-timeout", "60", "-r", "-e")
	cmd.Env = r.environ()
	cmd.Stdin = strings.NewReader(code + ".\n")
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	result, ok := strings.CutPrefix(text, "{ok, ")
	if err != nil || !ok {
		t.Fatalf("RabbitMQ: %s: %v %s", code, err, text)
	}
	return strings.TrimSuffix(result, "}")
}

// Dir returns the folder in which the server has all its files.
func (r *Rabbit) Dir() string { return r.dir }
