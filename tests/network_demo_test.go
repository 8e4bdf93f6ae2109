package tests

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"qdrouter/tests/internal/rig"
)

// The example of path redundancy does what its README says, here on ports the
// system chooses.
func TestPathRedundancyExample(t *testing.T) {
	rig.NeedProton(t)
	example := filepath.Join(rig.Root(), "examples", "path-redundancy")
	dir := t.TempDir()
	ports := map[string]string{"6000": "0", "6001": "0", "6002": "0"}
	texts := map[string]string{}
	for _, r := range []string{"a", "b", "c"} {
		text, err := os.ReadFile(filepath.Join(example, "router-"+r, "qdrouterd.conf"))
		if err != nil {
			t.Fatal(err)
		}
		texts[r] = string(text)
	}
	// The connectors need the port before its listener is there.
	for port, router := range map[string]string{"5001": "b", "5002": "c"} {
		ports[port] = freePort(t)
		if !strings.Contains(texts[router], "port: "+port+"\n") {
			t.Fatalf("router %s does not listen on %s", router, port)
		}
	}
	for r, text := range texts {
		text = regexp.MustCompile(`port: (\d+)`).ReplaceAllStringFunc(text, func(s string) string {
			return "port: " + ports[strings.TrimPrefix(s, "port: ")]
		})
		if err := os.MkdirAll(filepath.Join(dir, "router-"+r), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "router-"+r, "qdrouterd.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(example, "demo.sh"), dir)
	cmd.Env = append(os.Environ(), "QDROUTER_BIN="+filepath.Dir(rig.Program("qdrouterd")))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if k := strings.Count(string(out), "10 messages confirmed"); k != 2 {
		t.Errorf("ten messages were confirmed %d times, want 2\n%s", k, out)
	}
	for i := 1; i <= 10; i++ {
		if k := regexp.MustCompile(fmt.Sprintf(`(?m)^message %d$`, i)).FindAllString(string(out), -1); len(k) != 2 {
			t.Errorf("message %d was received %d times, want 2", i, len(k))
		}
	}
	if k := strings.Count(string(out), "my_address"); k < 2 {
		t.Errorf("qdstat -a shows the address %d times, want 2\n%s", k, out)
	}
}

// freePort returns a port that the system had to give a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
