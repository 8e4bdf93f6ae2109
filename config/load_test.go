package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The reasons why a router does not start (CFG A18, A19). $ stands for the folder.
func TestLoadErrors(t *testing.T) {
	tests := []struct{ name, file, text, want string }{
		{"empty", "a.conf", "", "Configuration: Configuration file was empty"},
		{"role", "a.conf", "router {\n mode: standalone\n}\nlistener {\n role: inter-router\n}",
			"Python: Exception: Cannot load configuration file $/a.conf: role='standalone' not allowed to connect to or accept connections from other routers." +
				" ($/a.conf:5, section listener, attribute role)"},
		{"unknown section", "a.json", `[["listner", {}]]`,
			"Python: Exception: Cannot load configuration file $/a.json: No such entity type 'org.apache.qpid.dispatch.listner' ($/a.json:1, section listner; did you mean 'listener'?)"},
		{"unknown attribute", "a.yaml", "listener:\n  prot: 1\n",
			"Python: Exception: Cannot load configuration file $/a.yaml: org.apache.qpid.dispatch.listener: Unknown attribute 'prot' for 'org.apache.qpid.dispatch.listener'" +
				" ($/a.yaml:2, section listener, attribute prot; did you mean 'port'?)"},
		{"syntax", "a.conf", "}", "Python: Exception: Cannot load configuration file $/a.conf: \"}\" that closes nothing ($/a.conf:1)"},
		{"dir and direction (B30)", "a.conf", "linkRoute {\n prefix: a\n dir: in\n direction: in\n}",
			"Python: Exception: Cannot load configuration file $/a.conf: org.apache.qpid.dispatch.router.config.linkRoute: Both 'dir' and 'direction' cannot be specified for entity 'linkRoute'" +
				" ($/a.conf:3, section linkRoute, attribute dir)"},
		{"router id", "a.conf", "router {\n id: a b\n}", "Python: AttributeError: Router id attribute containing character ' ' in id 'a b' is disallowed. ($/a.conf:2, section router, attribute id)"},
		{"reserved property", "a.conf", "listener {\n openProperties: {\n \"product\": 1\n }\n}",
			"Python: ValidationError: Reserved key 'product' not allowed in openProperties ($/a.conf:2, section listener, attribute openProperties)"},
		{"maxConnections", "a.conf", "policy {\n maxConnections: -1\n}",
			"Python: CError: Configuration: maxConnections must be >= 0 ($/a.conf:2, section policy, attribute maxConnections)"},
		{"what the file is refused for comes before what is found later", "a.conf", "router {\n id: a b\n}\nlistener {\n cost: x\n}",
			"Python: Exception: Cannot load configuration file $/a.conf: org.apache.qpid.dispatch.listener: invalid literal for int() with base 10: 'x' ($/a.conf:5, section listener, attribute cost)\n" +
				"AttributeError: Router id attribute containing character ' ' in id 'a b' is disallowed. ($/a.conf:2, section router, attribute id)"},
		{"missing policyDir", "a.conf", "policy {\n policyDir: $/none\n}",
			"Python: FileNotFoundError: open $/none: no such file or directory ($/a.conf:2, section policy, attribute policyDir)"},
		{"missing password file (S6)", "a.conf", "connector {\n saslPassword: file:$/none\n}",
			"Python: CError: Unable to open password file $/none, error: no such file or directory ($/a.conf:2, section connector, attribute saslPassword)"},
		{"missing variable (S4)", "a.conf", "sslProfile {\n name: p\n password: env: QDR_TEST_UNSET\n}",
			"Python: CError: Failed to find a password in the environment variable ($/a.conf:3, section sslProfile, attribute password)"},
		{"missing passwordFile (S5, S6)", "a.conf", "sslProfile {\n name: p\n passwordFile: $/none\n}",
			"Python: CError: Unable to open password file $/none, error: no such file or directory ($/a.conf:3, section sslProfile, attribute passwordFile)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, dir, tt.file, strings.ReplaceAll(tt.text, "$", dir))
			c, err := Load(path)
			want := strings.ReplaceAll(tt.want, "$", dir)
			if err == nil || err.Error() != want {
				t.Errorf("Load of %q\n got %v\nwant %s", tt.text, err, want)
			}
			if c == nil || c.Path != path || len(c.Entities) > 0 {
				t.Errorf("Load of %q: Config = %+v, want one with the path and without entities", tt.text, c)
			}
		})
	}
}

// Only the file named is tried, and a folder is no file (CFG A18, A31).
func TestLoadNoFile(t *testing.T) {
	dir := t.TempDir()
	const want = "Not found: Configuration file could not be opened"
	for _, path := range []string{filepath.Join(dir, "none"), dir, ""} {
		_, err := Load(path)
		var fe *FileError
		if err == nil || err.Error() != want || !errors.As(err, &fe) || fe.Err == nil {
			t.Errorf("Load(%q) = %v, want %s", path, err, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of a missing file = %v, want it to be ErrNotExist", err)
	}
}

// The warnings come with the Config even when there is an error (CFG B30): 1.19 has
// logged them by then.
func TestWarningsWithError(t *testing.T) {
	c, err := Parse("x", FormatConf, []byte("autoLink {\n addr: a\n externalAddr: b\n dir: in\n direction: in\n}"))
	if err == nil {
		t.Fatal("dir and direction together are accepted")
	}
	got := strings.Join(warnings(c), "\n")
	for _, want := range []string{"Attribute 'addr' of entity 'autoLink' has been deprecated. Use 'address' instead",
		"Attribute 'externalAddr' of entity 'autoLink' has been deprecated. Use 'externalAddress' instead"} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings = %q, want %q among them", got, want)
		}
	}
}

// Router and policy are there with their defaults, and the router has an id (CFG B26,
// CFG 3.1).
func TestAddedEntities(t *testing.T) {
	tests := []struct{ file, wantID string }{
		{"listener {\n}", `^Standalone_[A-Z2-7]{15}$`},
		{"router {\n mode: interior\n}", `^Interior_[A-Z2-7]{15}$`},
		{"router {\n mode: edge\n}", `^Edge_[A-Z2-7]{15}$`},
		{"router {\n id: A\n}", `^A$`},
	}
	ids := map[string]bool{}
	for _, tt := range tests {
		c, err := Parse("x", FormatConf, []byte(tt.file))
		if err != nil {
			t.Fatalf("%s: %v", tt.file, err)
		}
		id := c.Router().Str("id")
		if !regexp.MustCompile(tt.wantID).MatchString(id) || ids[id] {
			t.Errorf("%q: router id = %q, want a match of %s", tt.file, id, tt.wantID)
		}
		ids[id] = true
		if got := c.Policy().Int("maxConnections"); got != 65535 {
			t.Errorf("%q: maxConnections = %d, want 65535", tt.file, got)
		}
		if n := len(c.Of("router")); n != 1 {
			t.Errorf("%q: %d routers, want 1", tt.file, n)
		}
	}
}

func TestEntityPlaces(t *testing.T) {
	c, err := Parse("x.conf", FormatConf, []byte("\nlistener {\n host: h\n\n maxFrameSize: 1\n protocolFamily: IPv4\n}"))
	if err != nil {
		t.Fatal(err)
	}
	l := c.Of("listener")[0]
	if l.File != "x.conf" || l.Line != 2 || l.Lines["maxFrameSize"] != 5 || l.Lines["socketAddressFamily"] != 6 || l.Lines["port"] != 0 {
		t.Errorf("listener is at %s:%d with lines %v, want x.conf:2, maxFrameSize 5, socketAddressFamily 6", l.File, l.Line, l.Lines)
	}
	if !l.Given["host"] || l.Given["port"] || l.Str("port") != "amqp" || l.Int("cost") != 1 || !l.Bool("metrics") || l.Has("sslProfile") || l.Map("openProperties") != nil {
		t.Errorf("listener = %v, given %v", l.Attrs, l.Given)
	}
}

// Files in policyDir bring vhosts; their other sections are checked and ignored
// (CFG A25, B13).
func TestPolicyDir(t *testing.T) {
	dir := t.TempDir()
	main := "policy {\n policyDir: " + dir + "/p\n}\nvhost {\n hostname: main\n}\n"
	path := write(t, dir, "a.conf", main)
	write(t, dir, "p/b.json", `[["vhost", {"hostname": "b"}], ["listener", {"port": 1}]]`)
	write(t, dir, "p/a.json", `[["vhost", {"id": "a", "groups": {"g": {"foo": 1}}}]]`)
	write(t, dir, "p/note.txt", "no JSON at all")
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := summary(c), "policy(policyDir="+dir+"/p) vhost(hostname=main) vhost(groups={\"g\":{\"foo\":1}} hostname=a) vhost(hostname=b)"; got != want {
		t.Errorf("entities = %s, want %s", got, want)
	}
	wantWarnings := "AGENT (warning) Attribute 'id' of entity 'vhost' has been deprecated. Use 'hostname' instead\n" +
		"POLICY (warning) Policy vhost 'a' user group 'g' option 'foo' is ignored."
	if got := strings.Join(warnings(c), "\n"); got != wantWarnings {
		t.Errorf("warnings = %s, want %s", got, wantWarnings)
	}

	write(t, dir, "p/c.json", "[[\n\"vhost\", {\"hostname\": \"main\"}]]")
	write(t, dir, "p/d.json", "[")
	_, err = Load(path)
	want := "Python: Exception: Cannot load configuration file " + path + `: end of text where "[" should be (` + dir + "/p/d.json:1)\n" +
		"ValidationError: adding vhost/main of line 2 duplicates unique attribute 'name' from existing vhost/main of line 4 (" + dir + "/p/c.json:2, section vhost)"
	if err == nil || err.Error() != want {
		t.Errorf("with two bad files:\n got %v\nwant %s", err, want)
	}
}

// The forms of passwords (CFG S4 to S6).
func TestResolvePassword(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 300)
	first := write(t, dir, "pw", "secret \nsecond\n")
	write(t, dir, "crlf", "secret\r\n")
	write(t, dir, "long", long)
	write(t, dir, "empty", "")
	write(t, dir, " blank", "blank")
	t.Setenv("QDR_TEST_PASSWORD", "from env")
	t.Setenv("QDR_TEST_EMPTY", "")
	const unsafe = "It is unsafe to provide plain text passwords in the config file"
	tests := []struct {
		kind        PasswordKind
		value, want string
		warning     string
		err         string
	}{
		{SSLProfilePassword, "plain", "plain", unsafe, ""},
		{SSLProfilePassword, "pass:a b", "a b", unsafe, ""},
		{SSLProfilePassword, "literal:pass:x", "pass:x", unsafe, ""},
		{ConnectorPassword, "literal:x", "literal:x", unsafe, ""},
		{ConnectorPassword, "pass:literal:x", "literal:x", unsafe, ""},
		{ConnectorPassword, "PASS:x", "PASS:x", unsafe, ""},
		{ConnectorPassword, "env:QDR_TEST_PASSWORD", "from env", "", ""},
		{ConnectorPassword, "env:  QDR_TEST_PASSWORD", "from env", "", ""},
		{ConnectorPassword, "env:QDR_TEST_EMPTY", "", "", ""},
		{ConnectorPassword, "env:QDR_TEST_UNSET", "", "", "Failed to find a password in the environment variable"},
		{SSLProfilePassword, "file:" + first, "secret ", "", ""},
		{SSLProfilePassword, "file:" + dir + "/crlf", "secret", "", ""},
		{SSLProfilePassword, "file:" + dir + "/long", long[:199], "", ""},
		{SSLProfilePassword, "file:" + dir + "/empty", "", "", ""},
		{SSLProfilePassword, "file:" + dir + "/none", "", "", "Unable to open password file " + dir + "/none, error: no such file or directory"},
		{SSLProfilePassword, "file: " + first, "", "", "Unable to open password file  " + first + ", error: no such file or directory"},
		{SSLProfilePassword, "file:" + dir, "", "", "Unable to open password file " + dir + ", error: is a directory"},
	}
	for _, tt := range tests {
		got, warned, err := ResolvePassword(tt.kind, tt.value)
		warning := ""
		if len(warned) > 0 {
			warning = warned[0].Text
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.want || warning != tt.warning || text != tt.err {
			t.Errorf("ResolvePassword(%d, %q) = %q, %q, %q, want %q, %q, %q", tt.kind, tt.value, got, warning, text, tt.want, tt.warning, tt.err)
		}
	}
}

// The password of a section, and passwordFile (CFG S5).
func TestEntityPassword(t *testing.T) {
	dir := t.TempDir()
	pw := write(t, dir, "pw", "secret\n")
	const deprecated = "CONN_MGR (warning) Attribute passwordFile of entity sslProfile has been deprecated. Use password field with the file: prefix instead."
	tests := []struct{ file, typeName, want, warning string }{
		{"sslProfile {\n name: p\n passwordFile: " + pw + "\n}", "sslProfile", "secret", deprecated},
		{"sslProfile {\n name: p\n password: file:" + pw + "\n passwordFile: " + dir + "/none\n}", "sslProfile", "secret", ""},
		{"sslProfile {\n name: p\n}", "sslProfile", "", ""},
		{"connector {\n saslPassword: file:" + pw + "\n}", "connector", "secret", ""},
		{"connector {\n}", "connector", "", ""},
	}
	for _, tt := range tests {
		c, err := Load(write(t, dir, "a.conf", tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		got, warned, err := c.Of(tt.typeName)[0].Password()
		if got != tt.want || err != nil {
			t.Errorf("%s: password = %q, %v, want %q", tt.file, got, err, tt.want)
		}
		if w := strings.Join(warnings(&Config{Warnings: warned}), "\n"); w != tt.warning || len(c.Warnings) > 0 {
			t.Errorf("%s: warnings = %q, %q by Load, want %q and none", tt.file, w, warnings(c), tt.warning)
		}
	}
}
