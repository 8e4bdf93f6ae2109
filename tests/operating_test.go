package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// fenced returns the blocks of a Markdown text that are fenced with a language.
func fenced(text, language string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// Every command of docs/operating.md does what it says, on a router with the
// configuration and the users given there.
func TestOperatingGuide(t *testing.T) {
	if rig.Foreign() {
		t.Skip("the guide is about the programs of this tree")
	}
	data, err := os.ReadFile(filepath.Join(rig.Root(), "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	const etc, pidfile = "/etc/qpid-dispatch", "/run/qdrouterd.pid"
	dir := t.TempDir()
	guide := strings.ReplaceAll(string(data), etc, dir)
	// 127.0.0.1:5672 is the address of clients in commands, 5673 that of staff.
	for language, name := range map[string]string{"conf": "qdrouterd.conf", "saslconf": "sasl.conf", "users": "users"} {
		blocks := fenced(guide, language)
		if len(blocks) != 1 {
			t.Fatalf("docs/operating.md has %d blocks of %s, want 1", len(blocks), language)
		}
		text := regexp.MustCompile(`port: 567\d`).ReplaceAllString(blocks[0], "port: 0")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := rig.Run(t, exec.Command(rig.Program("qdrouterd"), "-c", filepath.Join(dir, "qdrouterd.conf")))
	clients := fmt.Sprintf("127.0.0.1:%d", r.Port(t, "clients"))
	staff := fmt.Sprintf("127.0.0.1:%d", r.Port(t, "staff"))

	bin := filepath.Dir(rig.Program("qdstat"))
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir)
	if err := os.WriteFile(filepath.Join(dir, "pid"), fmt.Append(nil, r.PID()), 0o600); err != nil {
		t.Fatal(err)
	}
	blocks := fenced(guide, "sh")
	if len(blocks) == 0 {
		t.Fatal("docs/operating.md has no commands")
	}
	for _, script := range blocks {
		script = strings.ReplaceAll(script, "127.0.0.1:5672", clients)
		script = strings.ReplaceAll(script, "127.0.0.1:5673", staff)
		script = strings.ReplaceAll(script, pidfile, filepath.Join(dir, "pid"))
		if strings.Contains(script, "--identity 7") {
			script = strings.ReplaceAll(script, "--identity 7", "--identity "+victim(t, r, "amqp://"+clients))
		}
		if strings.Contains(script, "--watch") {
			watchUntilInterrupted(t, env, script)
			continue
		}
		run(t, env, script)
	}
	for _, program := range []string{"qdrouterd", "qdstat", "qdmanage"} {
		script, err := os.ReadFile(filepath.Join(dir, ".local/share/bash-completion/completions", program))
		if err != nil || !strings.Contains(string(script), program) {
			t.Errorf("completion of %s: %v, %q", program, err, script)
		}
	}
}

// victim returns the identity of a connection that is there to be looked at and
// closed.
func victim(t *testing.T, r *rig.Router, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := amqp.Dial(ctx, url, &amqp.ConnOptions{ContainerID: "victim-" + t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	newest := ""
	for _, row := range r.Query(t, "connection", "identity", "container") {
		if row["container"] == "victim-"+t.Name() {
			newest = fmt.Sprint(row["identity"])
		}
	}
	if newest == "" {
		t.Fatal("the router does not list the connection")
	}
	return newest
}

// watchUntilInterrupted lets a script show two reports, then sends the SIGINT of
// a Ctrl-C. The tool must end as it does when interrupted: with an empty line and
// status 1 (MG 11.5).
func watchUntilInterrupted(t *testing.T, env []string, script string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+strings.TrimSpace(script))
	cmd.Dir, cmd.Env = rig.Root(), env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer limit.Stop()
	var shown strings.Builder
	buffer := make([]byte, 4096)
	interrupted := false
	for {
		n, err := out.Read(buffer)
		shown.Write(buffer[:n])
		if !interrupted && strings.Count(shown.String(), "Router Links") == 2 {
			interrupted = true
			cmd.Process.Signal(os.Interrupt)
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasSuffix(shown.String(), "\n\n") || !strings.Contains(shown.String(), "deliv/s") {
		t.Errorf("%s: %v, want status 1, rates, and an empty line at the end of\n%s", script, err, shown.String())
	}
}

// Both tools tell why a client was turned away (issue 3, part 5).
func TestToolsTellWhy(t *testing.T) {
	r := rig.Start(t, rig.Config{Router: "    defaultDistribution: unavailable", Extra: `
connector {
    name: broker
    host: 127.0.0.1
    port: 1
    role: route-container
}
`})
	refusedLink(t, r.URL(t), "nowhere")
	// The connector fails when it gets to it.
	rig.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(r.Qdstat(t, "--failures"), "Connection refused")
	}, func() string { return "qdstat --failures does not say why the connector fails" })
	for _, args := range []string{"--failures", "-l --json"} {
		out := r.Qdstat(t, strings.Fields(args)...)
		if !strings.Contains(out, "link refused") || !strings.Contains(out, "nowhere") {
			t.Errorf("qdstat %s does not tell of the refused link:\n%s", args, out)
		}
	}
	if out := r.Qdmanage(t, "", "query", "--type", "router", "recentFailures"); !strings.Contains(out, "link refused") || !strings.Contains(out, "connector failed") {
		t.Errorf("qdmanage does not tell of the refused link and the failed connector:\n%s", out)
	}
	if out := r.Qdmanage(t, "", "query", "--type", "connector", "lastError"); !strings.Contains(out, "Connection refused") {
		t.Errorf("qdmanage does not tell why the connector fails:\n%s", out)
	}
}
