package management

import (
	"slices"
	"strings"
	"testing"

	"qdrouter/config"
)

const reloadConf = `
router {
 mode: standalone
}
listener {
 name: stays
 host: h
 port: 1
}
listener {
 name: goes
 host: h
 port: 2
}
listener {
 name: differs
 host: h
 port: 3
 idleTimeoutSeconds: 5
}
connector {
 name: out
 host: far
 port: 4
}
log {
 module: SERVER
 enable: info+
}
log {
 module: POLICY
 enable: trace+
}
address {
 prefix: /a/
 distribution: closest
}
address {
 pattern: b.*
 name: bee
}
`

func parseFile(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.conf", config.FormatConf, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReloadAppliesTheDifference(t *testing.T) {
	b := newBench(t, reloadConf)
	b.LoadObjects()
	b.want(t, StatusCreated, "Created", attrs("host", "h", "port", "9"), "operation=CREATE", "type=listener", "name=by request")
	b.server.calls = nil

	changed := strings.NewReplacer(
		"name: goes\n host: h\n port: 2", "name: comes\n host: h\n port: 2",
		"idleTimeoutSeconds: 5", "idleTimeoutSeconds: 6",
		"port: 4", "port: 44",
		"enable: info+", "enable: warning+",
		"log {\n module: POLICY\n enable: trace+\n}\n", "",
		"distribution: closest", "distribution: multicast",
		"pattern: b.*", "pattern: c.*",
		"mode: standalone", "mode: standalone\n metadata: new",
	).Replace(reloadConf) + "vhost {\n hostname: v\n}\n"
	r, err := b.Reload(parseFile(t, changed))
	if err != nil {
		t.Fatal(err)
	}
	wantDone := []string{
		"log/POLICY deleted", "log/SERVER changed",
		"listener/h:2:goes deleted", "listener/h:2:comes created", "listener/h:3:differs changed",
		"connector/far:4:out deleted", "connector/far:44:out created", "vhost/v created",
		"address pattern b.* deleted", "address prefix a changed", "address pattern c.* created",
	}
	if !slices.Equal(r.Done, wantDone) {
		t.Errorf("done\n%s\nwant\n%s", strings.Join(r.Done, "\n"), strings.Join(wantDone, "\n"))
	}
	if want := []string{"router metadata"}; !slices.Equal(r.Left, want) {
		t.Errorf("left %q, want %q", r.Left, want)
	}
	wantCalls := []string{
		"close listener/h:2:goes", "close listener/h:3:differs", "hang up connector/far:4:out",
		"listen h:2", "listen h:3", "dial far:44",
	}
	if !slices.Equal(b.server.calls, wantCalls) {
		t.Errorf("server was told %q, want %q", b.server.calls, wantCalls)
	}
	if s := b.logs.settings["SERVER"]; s.Enable == nil || *s.Enable != "warning+" {
		t.Errorf("SERVER has %v", s.Enable)
	}
	if s := b.logs.settings["POLICY"]; s.Enable != nil && *s.Enable != "default" {
		t.Errorf("POLICY has %v, want what it has without a section", *s.Enable)
	}
	var addresses []string
	for _, a := range b.core.configs {
		addresses = append(addresses, a.Prefix+a.Pattern+" "+a.Distribution.String())
	}
	if want := []string{"a multicast", "c.* balanced"}; !slices.Equal(addresses, want) {
		t.Errorf("addresses %q, want %q", addresses, want)
	}
	_, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=listener"))
	var names []string
	for _, row := range rows {
		names = append(names, row["name"].(string))
	}
	if want := []string{"stays", "by request", "comes", "differs"}; !slices.Equal(names, want) {
		t.Errorf("listeners %q, want %q", names, want)
	}

	if _, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=vhost")); len(rows) != 1 || rows[0]["hostname"] != "v" {
		t.Errorf("vhosts %v", rows)
	}

	// The same file again changes nothing, and what waits for a restart still does.
	b.server.calls = nil
	if r, err = b.Reload(parseFile(t, changed)); err != nil || len(r.Done) > 0 || len(b.server.calls) > 0 || len(r.Left) != 1 {
		t.Errorf("second time: %+v, %v, server was told %q", r, err, b.server.calls)
	}
}

// A file that cannot be applied changes nothing, not even what stands before the
// fault.
func TestReloadIsAllOrNothing(t *testing.T) {
	tests := []struct {
		name  string
		fault func(*config.Config)
		err   string
	}{
		{"a name taken by request meanwhile", func(c *config.Config) { c.Of("listener")[1].Attrs["name"] = "mine" }, "mine"},
		{"a log file that cannot be opened", func(c *config.Config) { c.Of("log")[1].Attrs["outputFile"] = "" }, "log/POLICY: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, reloadConf)
			b.want(t, StatusCreated, "Created", attrs("host", "h", "port", "9"), "operation=CREATE", "type=listener", "name=mine")
			b.server.calls = nil
			file := parseFile(t, strings.Replace(reloadConf, "enable: info+", "enable: debug+", 1))
			tt.fault(file)
			_, err := b.Reload(file)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want one with %q", err, tt.err)
			}
			if len(b.server.calls) > 0 {
				t.Errorf("server was told %q", b.server.calls)
			}
			if s := b.logs.settings["SERVER"]; s.Enable != nil && *s.Enable != "info+" {
				t.Errorf("SERVER has %q", *s.Enable)
			}
			if got := b.entity("log/SERVER").config.Str("enable"); got != "info+" {
				t.Errorf("SERVER shows %q", got)
			}
		})
	}
}

// Sections that say the same are as many objects, and one of them may go.
func TestReloadOfEqualSections(t *testing.T) {
	const link = "autoLink {\n direction: in\n address: a\n}\n"
	b := newBench(t, standaloneConf+link+link)
	b.LoadObjects()
	for _, step := range []struct {
		file string
		done []string
		left []string // names
	}{
		{link + link, nil, []string{"autoLink/0", "autoLink/1"}},
		{link, []string{"autoLink address=a direction=in (2) deleted"}, []string{"autoLink/0"}},
		{link + link + link, []string{"autoLink address=a direction=in (2) created", "autoLink address=a direction=in (3) created"},
			[]string{"autoLink/0", "autoLink/1", "autoLink/2"}},
	} {
		r, err := b.Reload(parseFile(t, standaloneConf+step.file))
		if err != nil || !slices.Equal(r.Done, step.done) {
			t.Errorf("done %q, want %q; %v", r.Done, step.done, err)
		}
		var names []string
		for _, al := range b.autoLinks.list {
			names = append(names, al.Name)
		}
		if !slices.Equal(names, step.left) {
			t.Errorf("autolinks %q, want %q", names, step.left)
		}
	}
}

// What a request has made and the file then has too is the file's: it is left alone
// when it says the same, made anew when not, and goes when the file has it no more.
func TestReloadTakesOverWhatRequestsMade(t *testing.T) {
	b := newBench(t, standaloneConf)
	b.LoadObjects()
	b.want(t, StatusCreated, "Created", attrs("host", "h", "port", "9"), "operation=CREATE", "type=listener", "name=equal")
	b.want(t, StatusCreated, "Created", attrs("host", "h", "port", "8"), "operation=CREATE", "type=listener", "name=other")
	b.want(t, StatusCreated, "Created", attrs("prefix", "a"), "operation=CREATE", "type=router.config.address", "name=first")
	b.want(t, StatusCreated, "Created", attrs("prefix", "b"), "operation=CREATE", "type=router.config.address", "name=second")
	b.want(t, StatusCreated, "Created", attrs("prefix", "c"), "operation=CREATE", "type=router.config.address", "name=third")
	b.server.calls = nil

	const file = standaloneConf + "listener {\n name: equal\n host: h\n port: 9\n}\n" +
		"listener {\n name: other\n host: h\n port: 8\n cost: 2\n}\n" +
		"address {\n prefix: a\n distribution: multicast\n}\n" +
		"address {\n name: second\n prefix: bb\n}\n"
	r, err := b.Reload(parseFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"listener/h:8:other changed", "address prefix a created", "address prefix bb created"}; !slices.Equal(r.Done, want) {
		t.Errorf("done %q, want %q", r.Done, want)
	}
	if want := []string{"close listener/h:8:other", "listen h:8"}; !slices.Equal(b.server.calls, want) {
		t.Errorf("server was told %q, want %q", b.server.calls, want)
	}
	addresses := func() (all []string) {
		for _, a := range b.core.configs {
			all = append(all, a.Prefix+" "+a.Distribution.String())
		}
		return all
	}
	if got, want := addresses(), []string{"c balanced", "a multicast", "bb balanced"}; !slices.Equal(got, want) {
		t.Errorf("addresses %q, want %q", got, want)
	}

	if r, err = b.Reload(parseFile(t, standaloneConf)); err != nil || len(r.Done) != 4 {
		t.Errorf("done %q, %v; want all four deleted", r.Done, err)
	}
	if _, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=listener")); len(rows) != 2 {
		t.Errorf("listeners %v, want the two of the start", rows)
	}
	if got, want := addresses(), []string{"c balanced"}; !slices.Equal(got, want) {
		t.Errorf("addresses %q, want %q", got, want)
	}
}

// Listeners and connectors have what their profile said when they were made (MG
// 7.3): when it says something else, they are made anew.
func TestReloadOfAProfile(t *testing.T) {
	const profiles = "sslProfile {\n name: used\n caCertFile: /ca\n}\nsslProfile {\n name: idle\n caCertFile: /ca\n}\n"
	file := standaloneConf + profiles +
		"listener {\n host: h\n port: 1\n sslProfile: used\n}\nlistener {\n host: h\n port: 2\n}\n" +
		"connector {\n host: h\n port: 3\n sslProfile: used\n}\n"
	b := newBench(t, file)
	b.server.calls = nil
	r, err := b.Reload(parseFile(t, strings.ReplaceAll(file, "/ca", "/new")))
	want := []string{"sslProfile/used changed", "sslProfile/idle changed", "listener/h:1 changed", "connector/h:3 changed"}
	if err != nil || !slices.Equal(r.Done, want) {
		t.Errorf("done %q, %v; want %q", r.Done, err, want)
	}
	wantCalls := []string{"close listener/h:1", "hang up connector/h:3", "listen h:1", "dial h:3"}
	if !slices.Equal(b.server.calls, wantCalls) {
		t.Errorf("server was told %q, want %q", b.server.calls, wantCalls)
	}
}
