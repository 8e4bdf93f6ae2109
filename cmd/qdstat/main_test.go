package main

import (
	"strings"
	"testing"

	"qdrouter/management/client/cli"
)

func run(args ...string) (status int, out, errs string) {
	var o, e strings.Builder
	status = command().Main(args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

// The usage is that of the old tool.
const usage = `usage: qdstat [-h] [--version] [-v]
              [-g | -c | -l | -n | -e | -a | -m | -p | --autolinks | --linkroutes | --vhosts | --vhostgroups | --vhoststats | --log | --all-entities]
              [--all-routers | -r ROUTER-ID | -d EDGE-ROUTER-ID]
              [--limit LIMIT] [--csv] [-b URL] [-t SECS]
              [--ssl-certificate CERT] [--ssl-key KEY]
              [--ssl-trustfile TRUSTED-CA-DB] [--ssl-password PASSWORD]
              [--ssl-password-file SSL-PASSWORD-FILE]
              [--sasl-mechanisms SASL-MECHANISMS]
              [--sasl-username SASL-USERNAME] [--sasl-password SASL-PASSWORD]
              [--sasl-password-file SASL-PASSWORD-FILE]
              [--ssl-disable-peer-name-verify]
`

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		// The first two are pinned by the original tests (MG 11.5).
		{"-c --all-entities", "argument --all-entities: not allowed with argument -c/--connections"},
		{"-r A --all-routers", "argument --all-routers: not allowed with argument -r/--router"},
		{"-r A -d B", "argument -d/--edge-router: not allowed with argument -r/--router"},
		{"-l -n", "argument -n/--nodes: not allowed with argument -l/--links"},
		{"--co x --compl x", "unrecognized arguments: x --compl x"},
		{"--json --csv", "argument --json: not allowed with argument --csv"},
		{"--watch x", "argument --watch: invalid float value: 'x'"},
		{"--watch 0", "argument --watch: must be more than 0 seconds"},
		{"--watch -1", "argument --watch: must be more than 0 seconds"},
		{"--watch", "argument --watch: expected one argument"},
		{"foo --bar", "unrecognized arguments: foo --bar"},
		{"-t x", "argument -t/--timeout: invalid float value: 'x'"},
		{"--limit=x", "argument --limit: invalid int value: 'x'"},
		{"--vhost", "ambiguous option: --vhost could match --vhosts, --vhostgroups, --vhoststats"},
	} {
		status, out, errs := run(strings.Fields(tt.args)...)
		if want := usage + "qdstat: error: " + tt.want + "\n"; status != 2 || out != "" || errs != want {
			t.Errorf("%s: status %d, stdout %q, stderr\n%s\nwant 2, nothing and\n%s", tt.args, status, out, errs, want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	if status, out, errs := run("--help"); status != 0 || !strings.HasPrefix(out, usage) || errs != "" {
		t.Errorf("--help: status %d, stderr %q, stdout\n%s", status, errs, out)
	}
	if status, out, errs := run("--version"); status != 0 || strings.Count(out, "\n") != 1 || errs != "" {
		t.Errorf("--version: status %d, stderr %q, stdout %q", status, errs, out)
	}
}

// MG 11.5: everything but a usage error is one line on stdout.
func TestErrorsGoToStdout(t *testing.T) {
	status, out, errs := run("-b", "host:nosuchservice")
	if want := "ValueError: Not a valid port number or service name: 'nosuchservice'\n"; status != 1 || out != want || errs != "" {
		t.Errorf("status %d, stdout %q, stderr %q; want 1, %q and nothing", status, out, errs, want)
	}
}
