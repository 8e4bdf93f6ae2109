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
const usage = `usage: qdmanage <operation> [-h] [--version] [-v] [-r ROUTER-ID]
                            [-d EDGE-ROUTER-ID] [--type TYPE] [--name NAME]
                            [--identity ID] [--indent INDENT] [--stdin]
                            [--body BODY] [--properties PROPERTIES] [-b URL]
                            [-t SECS] [--ssl-certificate CERT] [--ssl-key KEY]
                            [--ssl-trustfile TRUSTED-CA-DB]
                            [--ssl-password PASSWORD]
                            [--ssl-password-file SSL-PASSWORD-FILE]
                            [--sasl-mechanisms SASL-MECHANISMS]
                            [--sasl-username SASL-USERNAME]
                            [--sasl-password SASL-PASSWORD]
                            [--sasl-password-file SASL-PASSWORD-FILE]
                            [--ssl-disable-peer-name-verify]
`

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "No operation specified"},
		{"--name x", "No operation specified"},
		{"read -b host:nosuchservice surplus", "Unexpected arguments: surplus"},
		{"read --bus", "argument -b/--bus: expected one argument"},
		{"read --i x", "ambiguous option: --i could match --identity, --indent"},
		{"read --indent x", "argument --indent: invalid int value: 'x'"},
	} {
		status, out, errs := run(strings.Fields(tt.args)...)
		if want := usage + "qdmanage <operation>: error: " + tt.want + "\n"; status != 2 || out != "" || errs != want {
			t.Errorf("%s: status %d, stdout %q, stderr\n%s\nwant 2, nothing and\n%s", tt.args, status, out, errs, want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	if status, out, errs := run("read", "--help"); status != 0 || !strings.HasPrefix(out, usage) || errs != "" {
		t.Errorf("--help: status %d, stderr %q, stdout\n%s", status, errs, out)
	}
	if status, out, errs := run("--version"); status != 0 || strings.Count(out, "\n") != 1 || errs != "" {
		t.Errorf("--version: status %d, stderr %q, stdout %q", status, errs, out)
	}
}

// -r and -d may stand together here, unlike in qdstat (MG 11.3), and an error
// before the request is one line on stdout.
func TestErrorsGoToStdout(t *testing.T) {
	status, out, errs := run("-b", "host:nosuchservice", "-r", "A", "query", "-d", "B", "--unknown")
	if want := "ValueError: Not a valid port number or service name: 'nosuchservice'\n"; status != 1 || out != want || errs != "" {
		t.Errorf("status %d, stdout %q, stderr %q; want 1, %q and nothing", status, out, errs, want)
	}
}
