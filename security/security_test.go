package security

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"qdrouter/amqp/sasl"
)

// Verifiers of the password "pencil" made with the salts of RFC 7677 and RFC 5802.
const (
	pencil256 = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)

// saslDir makes a directory with the SASL configuration x.conf.
func saslDir(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.conf"), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// withUser is a configuration with one user, alice, in a text file.
func withUser(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("alice:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return saslDir(t, append(lines, "credentials_file: "+path)...)
}

func load(t *testing.T, dir string) *SASL {
	t.Helper()
	s, _, err := LoadSASL(dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(o sasl.Offer) string {
	var names []string
	for _, c := range o {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// CFG M4, M14, M10.
func TestOffer(t *testing.T) {
	all := withUser(t)
	packaged := withUser(t, "pwcheck_method: auxprop", "auxprop_plugin: sasldb",
		"mech_list: ANONYMOUS DIGEST-MD5 EXTERNAL PLAIN", "sql_select: dummy select")
	tests := []struct {
		name, dir string
		listener  ListenerSettings
		want      string
		refusal   string // a part of it
	}{
		{"no file: what needs no password", t.TempDir(), ListenerSettings{}, "ANONYMOUS", ""},
		{"no file and authentication", t.TempDir(), ListenerSettings{AuthenticatePeer: true}, "", "there is no SASL configuration file"},
		{"no mech_list: strongest first", all, ListenerSettings{}, "PLAIN ANONYMOUS", ""},
		{"order of mech_list", packaged, ListenerSettings{}, "ANONYMOUS PLAIN", ""},
		{"authentication", packaged, ListenerSettings{AuthenticatePeer: true}, "PLAIN", ""},
		{"saslMechanisms", packaged, ListenerSettings{SASLMechanisms: "PLAIN EXTERNAL"}, "PLAIN", ""},
		{"case of saslMechanisms", packaged, ListenerSettings{SASLMechanisms: " plain\tanonymous"}, "ANONYMOUS PLAIN", ""},
		{"nothing in common", packaged, ListenerSettings{SASLMechanisms: "SCRAM-SHA-256"}, "", ""},
		{"required and not there", packaged, ListenerSettings{SASLMechanisms: "SCRAM-SHA-256", AuthenticatePeer: true}, "", "saslMechanisms is SCRAM-SHA-256"},
		{"EXTERNAL alone and authentication", packaged, ListenerSettings{SASLMechanisms: "EXTERNAL", AuthenticatePeer: true}, "", "authentication is required"},
		{"ANONYMOUS does not authenticate", packaged, ListenerSettings{SASLMechanisms: "ANONYMOUS", AuthenticatePeer: true}, "", "authentication is required"},
		{"mech_list without ANONYMOUS", withUser(t, "mech_list: plain"), ListenerSettings{}, "PLAIN", ""},
		{"empty mech_list", withUser(t, "mech_list:"), ListenerSettings{}, "", ""},
		{"saslauthd", saslDir(t, "pwcheck_method: saslauthd"), ListenerSettings{}, "ANONYMOUS", ""},
		{"saslauthd and authentication", saslDir(t, "pwcheck_method: saslauthd"), ListenerSettings{AuthenticatePeer: true}, "", "names no credentials"},
		{"another auxprop", saslDir(t, "auxprop_plugin: sql"), ListenerSettings{}, "ANONYMOUS", ""},
		{"TLS", all, ListenerSettings{SSLProfile: "p"}, "PLAIN ANONYMOUS", "sslProfile p"},
		{"TLS required, no profile", all, ListenerSettings{RequireSSL: true}, "PLAIN ANONYMOUS", "encryption is required"},
		{"encryption required", all, ListenerSettings{RequireEncryption: true}, "PLAIN ANONYMOUS", "encryption is required"},
		{"authentication service", all, ListenerSettings{SASLPlugin: "kc"}, "PLAIN ANONYMOUS", "saslPlugin kc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, tt.dir)
			if got := names(s.Offer(tt.listener)); got != tt.want {
				t.Errorf("offered %q, want %q", got, tt.want)
			}
			got := s.Refusal(tt.listener)
			if (tt.refusal == "") != (got == "") || !strings.Contains(got, tt.refusal) {
				t.Errorf("refusal %q, want one with %q", got, tt.refusal)
			}
		})
	}
}

// CFG M10, M14: what cannot be done is said at load.
func TestWarnings(t *testing.T) {
	tests := []struct {
		name, dir string
		want      string
	}{
		{"quiet", withUser(t, "mech_list: PLAIN ANONYMOUS", "sql_select: x", "keytab: y"), ""},
		{"unknown mechanism", withUser(t, "mech_list: PLAIN GSSAPI"), "SASL mechanism GSSAPI in"},
		{"saslauthd", saslDir(t, "pwcheck_method: saslauthd"), "pwcheck_method saslauthd"},
		{"missing sasldb", saslDir(t, "sasldb_path: /nonexistent/sasldb"), "/nonexistent/sasldb"},
		{"missing file", t.TempDir(), "x.conf not found"},
	}
	for _, tt := range tests {
		_, warnings, err := LoadSASL(tt.dir, "x")
		got := strings.Join(warnings, "\n")
		if err != nil || !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: warnings %q, error %v, want one with %q", tt.name, got, err, tt.want)
		}
	}
	s := load(t, t.TempDir())
	got := s.Warnings(ListenerSettings{SASLMechanisms: "PLAIN digest-md5"})
	if len(got) != 1 || !strings.Contains(got[0], "DIGEST-MD5") {
		t.Errorf("listener warnings %q, want one about DIGEST-MD5", got)
	}
}

func TestUnreadableConfigurationIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x.conf"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadSASL(dir, "x"); err == nil {
		t.Error("a directory in place of the file is no error")
	}
}

// CFG M7: the realm is what follows `@`, or the host's name.
func TestSASLDBRealms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sasldb")
	sasldbOf(t, path, hashFileOf(binary.LittleEndian,
		"bob\x00vm\x00userPassword", "bobpw",
		"carol\x00vm.example.com\x00userPassword", "carolpw",
		"alice\x00domain.com\x00userPassword", "secret",
		"dave\x00vm\x00cmusaslsecretOTP", "otp",
		"erin\x00vm\x00userPassword", ""))
	u := users{[]store{newSASLDB(path, []string{"vm", "vm.example.com"})}}
	tests := []struct {
		user, password string
		ok             bool
	}{
		{"bob", "bobpw", true},
		{"bob@vm", "bobpw", true},
		{"carol", "carolpw", true},
		{"alice@domain.com", "secret", true},
		{"alice", "secret", false},
		{"bob@domain.com", "bobpw", false},
		{"bob", "bobpw ", false},
		{"bob", "", false},
		{"dave", "otp", false},
		{"erin", "", false},
		{"", "", false},
		{"bob\x00vm", "bobpw", false},
	}
	for _, tt := range tests {
		if err := u.verify(tt.user, tt.password); (err == nil) != tt.ok {
			t.Errorf("verify(%q, %q) = %v, want success %v", tt.user, tt.password, err, tt.ok)
		}
	}
}

// CFG M16.
func TestCredentialsFile(t *testing.T) {
	table, err := parseCredentials([]byte("# users\n\nbob: pass:word \r\ncarol@example.com:" + pencil256 + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if table.cost != 4096 {
		t.Errorf("cost %d, want the verifier's 4096", table.cost)
	}
	tests := []struct {
		user, password string
		ok             bool
	}{
		{"bob", " pass:word ", true},
		{"bob", "pass:word", false},
		{"carol@example.com", "pencil", true},
		{"carol@example.com", "Pencil", false},
		{"carol@example.com", pencil256, false},
	}
	for _, tt := range tests {
		if got := table.secrets[tt.user].matches(tt.password, table.cost); got != tt.ok {
			t.Errorf("%q with %q: %v, want %v", tt.user, tt.password, got, tt.ok)
		}
	}
	for _, bad := range []string{"bob", ":secret", "bob:", "bob:a\nbob:b",
		"bob:SCRAM-SHA-256$", "bob:SCRAM-SHA-1" + strings.TrimPrefix(pencil256, "SCRAM-SHA-256"),
		"bob:" + strings.Replace(pencil256, "4096", "0", 1),
		"bob:" + strings.Replace(pencil256, "4096", "99999999", 1),
	} {
		if _, err := parseCredentials([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// CFG M15, M16: credentials are read again when they change, and a user that was
// removed stays out even when the new file cannot be read.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	stamp := time.Unix(1e9, 0)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stamp = stamp.Add(time.Second)
		if err := os.Chtimes(path, stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	u := users{[]store{newCredentialsFile(path)}}
	check := func(what, user, password string, ok bool) {
		t.Helper()
		if err := u.verify(user, password); (err == nil) != ok {
			t.Errorf("%s: verify(%q, %q) = %v, want success %v", what, user, password, err, ok)
		}
	}
	check("before there is a file", "alice", "secret", false)
	write("alice:secret\n")
	check("first contents", "alice", "secret", true)
	check("unchanged", "alice", "secret", true)
	write("alice:Secret\n")
	check("changed, same size", "alice", "secret", false)
	check("changed, same size", "alice", "Secret", true)
	write("nonsense")
	check("broken", "alice", "Secret", false)
	if err := u.verify("alice", "Secret"); !strings.Contains(err.Error(), "line 1") {
		t.Errorf("broken file: error %v does not tell where", err)
	}
	write("alice:Secret\n")
	check("mended", "alice", "Secret", true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("removed", "alice", "Secret", false)
}

// Errors are for the log and hold no password.
func TestErrorsHoldNoPassword(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	for _, text := range []string{"alice:hunter2\n", "alice:hunter2\nalice:hunter2\n", "alice:SCRAM-SHA-256$hunter2\n"} {
		sasldbOf(t, path, []byte(text))
		u := users{[]store{newCredentialsFile(path)}}
		if err := u.verify("alice", "wrong-hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("contents %q: error %v", text, err)
		}
	}
}

// One store that cannot be read does not lock out the users of another.
func TestOneOfTwoStores(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "users")
	sasldbOf(t, path, []byte("alice:secret\n"))
	u := users{[]store{newSASLDB(filepath.Join(dir, "none"), []string{"vm"}), newCredentialsFile(path)}}
	if err := u.verify("alice", "secret"); err != nil {
		t.Error(err)
	}
	if err := u.verify("bob", "secret"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("error %v does not name the missing file", err)
	}
}

// CFG M11.
func TestClientMechanisms(t *testing.T) {
	tests := []struct {
		name string
		c    ConnectorSettings
		want []string
	}{
		{"no credentials", ConnectorSettings{}, []string{"ANONYMOUS"}},
		{"credentials", ConnectorSettings{Username: "u", Password: "p"}, []string{"PLAIN", "ANONYMOUS"}},
		{"user alone", ConnectorSettings{Username: "u"}, []string{"ANONYMOUS"}},
		{"password alone", ConnectorSettings{Password: "p"}, []string{"ANONYMOUS"}},
		{"saslMechanisms", ConnectorSettings{SASLMechanisms: "plain", Username: "u", Password: "p"}, []string{"PLAIN"}},
		{"saslMechanisms without credentials", ConnectorSettings{SASLMechanisms: "PLAIN"}, nil},
		{"none that we have", ConnectorSettings{SASLMechanisms: "EXTERNAL"}, nil},
	}
	for _, tt := range tests {
		var got []string
		for _, m := range ClientMechanisms(tt.c) {
			got = append(got, m.Name())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
