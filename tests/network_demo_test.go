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

// demo runs an example as it is, but for the ports: those of the listeners for
// clients, 6000 to 6002, are left to the system, and others, which somebody has
// to know before they are there, are ones that are free. It returns what the
// demo prints.
func demo(t *testing.T, name string) string {
	t.Helper()
	rig.NeedProton(t)
	example := filepath.Join(rig.Root(), "examples", name)
	cmd := exec.Command(filepath.Join(example, "demo.sh"), exampleCopy(t, name, nil))
	cmd.Env = append(os.Environ(), "QDROUTER_BIN="+filepath.Dir(rig.Program("qdrouterd")))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// exampleCopy returns a folder with the configuration files of an example. The
// ports that are not in ports are replaced as demo says, and noted there.
func exampleCopy(t *testing.T, name string, ports map[string]string) string {
	t.Helper()
	example := filepath.Join(rig.Root(), "examples", name)
	if ports == nil {
		ports = map[string]string{}
	}
	files, err := filepath.Glob(filepath.Join(example, "router-*", "qdrouterd.conf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no configuration files in %s: %v", example, err)
	}
	more, err := filepath.Glob(filepath.Join(example, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	port := regexp.MustCompile(`(port"?: ?)(\d+)`)
	for _, path := range append(files, more...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := port.ReplaceAllStringFunc(string(data), func(s string) string {
			m := port.FindStringSubmatch(s)
			if ports[m[2]] == "" {
				ports[m[2]] = "0"
				if !strings.HasPrefix(m[2], "600") {
					ports[m[2]] = freePort(t)
				}
			}
			return m[1] + ports[m[2]]
		})
		relative, err := filepath.Rel(example, path)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, relative)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// passed checks that ten messages were confirmed, and each of them received,
// so many times.
func passed(t *testing.T, out string, times int) {
	t.Helper()
	if k := strings.Count(out, "10 messages confirmed"); k != times {
		t.Errorf("ten messages were confirmed %d times, want %d\n%s", k, times, out)
	}
	for i := 1; i <= 10; i++ {
		if k := regexp.MustCompile(fmt.Sprintf(`(?m)^message %d$`, i)).FindAllString(out, -1); len(k) != times {
			t.Errorf("message %d was received %d times, want %d\n%s", i, len(k), times, out)
		}
	}
}

// tables returns the cells of the rows of a demo's reports that have text in
// them, each row with one blank between its cells.
func tables(out, text string) (rows []string) {
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "  ") && strings.Contains(line, " "+text+" ") {
			rows = append(rows, strings.Join(fields, " "))
		}
	}
	return rows
}

// wantRows compares the rows of a demo's reports, from the first on, with
// expressions for whole rows.
func wantRows(t *testing.T, out, text string, want ...string) {
	t.Helper()
	rows := tables(out, text)
	if len(rows) != len(want) {
		t.Fatalf("%d rows show %s, want %d\n%s", len(rows), text, len(want), out)
	}
	for i, row := range rows {
		if !regexp.MustCompile("^" + want[i] + "$").MatchString(row) {
			t.Errorf("row %d of %s is\n%s\nwant\n%s", i, text, row, want[i])
		}
	}
}

// The example of path redundancy does what its README says, here on ports the
// system chooses.
func TestPathRedundancyExample(t *testing.T) {
	out := demo(t, "path-redundancy")
	passed(t, out, 2)
	if k := strings.Count(out, "my_address"); k < 2 {
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
