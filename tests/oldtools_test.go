package tests

import (
	"context"
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

// checkoutVariable names a checkout of the retired router's repository, at
// release 1.19.0, whose tools are to be compared with ours.
const checkoutVariable = "QPID_DISPATCH_CHECKOUT"

// oldTools runs the tools of a checkout.
type oldTools struct{ checkout, site string }

// newOldTools skips the test unless there is a checkout and what its tools need.
func newOldTools(t *testing.T) oldTools {
	t.Helper()
	checkout := os.Getenv(checkoutVariable)
	if checkout == "" {
		t.Skip(checkoutVariable + " names no checkout of the old router's repository")
	}
	rig.NeedProton(t)
	// The build of the old router would make this module.
	site := t.TempDir()
	text := "VERSION = '1.19.0'\nSKIP_DELETE_HTTP_LISTENER = None\ndef populate_pythonpath(): pass\n"
	if err := os.WriteFile(filepath.Join(site, "qpid_dispatch_site.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return oldTools{checkout, site}
}

func (o oldTools) command(tool string) *exec.Cmd {
	cmd := exec.Command("/usr/bin/python3", filepath.Join(o.checkout, "tools", tool))
	cmd.Env = append(os.Environ(),
		"PYTHONPATH="+filepath.Join(o.checkout, "python")+":"+o.site,
		"PYTHONDONTWRITEBYTECODE=1") // the checkout stays as it is
	return cmd
}

// outcome is all a script sees of a tool. The text of a mistake in the usage is
// not compared: only its last line says which.
func outcome(t *testing.T, cmd *exec.Cmd, router string, command string) string {
	t.Helper()
	words := strings.Fields(command)[1:]
	if i := strings.Index(command, " <<< "); i >= 0 {
		words = strings.Fields(command[:i])[1:]
		cmd.Stdin = strings.NewReader(command[i+len(" <<< "):])
	}
	cmd.Args = append(append(cmd.Args, "-b", router), words...)
	cmd.WaitDelay = 30 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	return cmd.ProcessState.String() + "\n" + lines[len(lines)-1] + "\n" + alike(stdout.String())
}

// What differs from one run of a tool to the next: dates, names made at random,
// numbers given in turn, and what the runs themselves add to counters. Columns are
// as wide as their content, so their widths go too; the golden files of
// management/client/report hold those.
var differs = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? UTC$`), "DATE"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`temp\.[\w+-]+`), "temp.RANDOM"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`\b\d{3}:\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`={4,}`), "===="},
	{regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(`(?m)^((?:  |")(?:(?:\w+ )*Count|VmSize|Connections Processed)(?:  |","))[\d.]+(?: .iB)?`), "${1}N"},
	{regexp.MustCompile(`(?m)^(  qdr?_\w+_t)  .*`), "${1}  POOL"},
	{regexp.MustCompile(`(?m)^  [\d.]+ .iB  [\d.]+(?: .iB)?$`), "  MEMORY"},
	{regexp.MustCompile(`(?m)^(  )\d+(  HOST)`), "${1}ID${2}"},
	{regexp.MustCompile(`(?m)^(  endpoint  \w+  )\d+  \d+`), "${1}ID  ID"},
	{regexp.MustCompile(`(?m)^"(\d+)","HOST"`), `"ID","HOST"`},
	{regexp.MustCompile(`(?m)^("endpoint","\w+",)"\d+","\d+"`), `${1}"ID","ID"`},
	{regexp.MustCompile(`"(\w*Count|\w*Deliveries|deliveries\w+|uptimeSeconds|memoryUsage|connectionsProcessed|refusedConnections|failedConnections)": \d+`), `"$1": N`},
	// The old tools leave without a close, which the listener notes.
	{regexp.MustCompile(`\s*"lastError": "[^"]*",`), ""},
	{regexp.MustCompile(`"identity": "(dummy/)?\d+"`), `"identity": "${1}ID"`},
	// The address of the management agent counts the requests.
	{regexp.MustCompile(`(?m)^(  (?:mobile|local)  \$management.*)$`), "AGENT"},
	{regexp.MustCompile(`(?m)^("(?:mobile|local)","\$management".*)$`), "AGENT"},
}

func alike(text string) string {
	for _, d := range differs {
		text = d.pattern.ReplaceAllString(text, d.by)
	}
	return text
}

// refusedLink leaves the router with a failure that it tells of.
func refusedLink(t *testing.T, url, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.NewSender(ctx, address, nil); err == nil {
		t.Fatalf("the attach to %s was not refused", address)
	}
}

// Our tools print what the old tools print of the same router, in the same order
// of commands (MG 11 to 13).
func TestToolsPrintWhatTheOldToolsPrint(t *testing.T) {
	old := newOldTools(t)
	r := rig.Start(t, rig.Config{Extra: `
address {
    prefix: news
    distribution: multicast
}
address {
    pattern: jobs.#
    distribution: closest
    priority: 7
}
address {
    prefix: closed
    distribution: unavailable
}
`})
	refusedLink(t, r.URL(t), "closed.q")
	// Commands that find another router when they are run twice.
	before := map[string]string{
		"qdmanage create --type=dummy name=x arg1=foo num1=5":                   "qdmanage delete --type dummy --name x",
		"qdmanage delete --type dummy --name x":                                 "qdmanage create --type dummy name=x",
		`qdmanage create --stdin <<< {"type": "dummy", "name": "z", "num1": 7}`: "qdmanage delete --type dummy --name z",
		"qdmanage delete --name z --type dummy":                                 "qdmanage create --type dummy name=z",
		"qdmanage create --type address --name a prefix=p distribution=closest": "qdmanage delete --type address --name a",
		"qdmanage delete --type address --name a":                               "qdmanage create --type address name=a prefix=p",
	}
	for _, command := range []string{
		"qdstat", "qdstat -g", "qdstat -g -v", "qdstat -c", "qdstat -c -v", "qdstat -l", "qdstat -l -v", "qdstat -n", "qdstat -n -v", "qdstat -e",
		"qdstat -a", "qdstat -a -v", "qdstat -m", "qdstat -p", "qdstat --autolinks", "qdstat --linkroutes",
		"qdstat --vhosts", "qdstat --vhostgroups", "qdstat --vhoststats", "qdstat --log", "qdstat --all-entities", "qdstat --all-entities -v",
		"qdstat -l --limit 1", "qdstat -l --limit=1 --csv", "qdstat -a --csv", "qdstat -c --csv", "qdstat -g --csv",
		"qdstat --all-routers -l", "qdstat --all-routers --all-entities", "qdstat -c --all-entities",
		"qdstat -r R -g", "qdstat -r nobody -t 0.5 -g --bogus", "qdstat -l -r R --all-routers", "qdstat -q",
		"qdmanage query --type listener", "qdmanage query --type=address", "qdmanage QUERY --type log name enable",
		"qdmanage query", "qdmanage query --type router.node", "qdmanage query --type nosuchtype",
		"qdmanage query --type listener --indent -1", "qdmanage query --type listener name port nosuch",
		"qdmanage get-types", "qdmanage get-operations", "qdmanage get-operations --type listener",
		"qdmanage get-attributes sslProfile", "qdmanage get-annotations", "qdmanage get-mgmt-nodes",
		"qdmanage read --name clients", "qdmanage read --type log --name log/DEFAULT", "qdmanage read --identity router/R",
		"qdmanage read", "qdmanage read --name nobody", "qdmanage read --name x --type dummy",
		"qdmanage create --type=dummy name=x arg1=foo num1=5", "qdmanage read --name x --type dummy",
		"qdmanage update --type dummy --name x arg1=bar", "qdmanage create --type dummy --name y nosuch=1",
		"qdmanage CALLME --type dummy --name x arg1=foo num1=5", "qdmanage read --name=", "qdmanage delete --name=", "qdmanage delete --type dummy --identity=",
		"qdmanage delete --type dummy --name x", "qdmanage delete --name nobody",
		`qdmanage create --stdin <<< {"type": "dummy", "name": "z", "num1": 7}`, "qdmanage delete --name z --type dummy",
		"qdmanage update --type log --name log/AGENT enable=debug+", "qdmanage update --type log --name log/AGENT enable=foo",
		"qdmanage create --type address --name a prefix=p distribution=closest", "qdmanage delete --type address --name a",
		"qdmanage", "qdmanage read surplus", "qdmanage --name",
	} {
		t.Run(command, func(t *testing.T) {
			tool := strings.Fields(command)[0]
			prepare := func() {
				if first, ok := before[command]; ok {
					outcome(t, exec.Command(rig.Program("qdmanage")), r.Addr(t), first)
				}
			}
			prepare()
			want := outcome(t, old.command(tool), r.Addr(t), command)
			prepare()
			got := outcome(t, exec.Command(rig.Program(tool)), r.Addr(t), command)
			if got != want {
				t.Errorf("ours:\n%s\ntheirs:\n%s", got, want)
			}
		})
	}
}
