package management

import (
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/linkroute"
	"qdrouter/router"
)

var _ LinkRoutes = (*linkroute.LinkRoutes)(nil)

// fakeLinkRoutes keeps link routes and does nothing with them.
type fakeLinkRoutes struct {
	core *fakeCore
	list []linkroute.LinkRoute
	of   map[uint64][]linkroute.LinkRoute
}

func (f *fakeLinkRoutes) check(l linkroute.LinkRoute) error {
	switch {
	case l.Direction != "in" && l.Direction != "out":
		return linkroute.ErrDirection
	case strings.Trim(l.Prefix+l.Pattern, "./") == "":
		return router.ErrPatTokens
	}
	return nil
}

func (f *fakeLinkRoutes) Add(l linkroute.LinkRoute) (linkroute.LinkRoute, error) {
	for _, other := range f.list {
		if l.Name != "" && l.Name == other.Name {
			return l, router.ErrNameConflict
		}
	}
	if err := f.check(l); err != nil {
		return l, err
	}
	l.Prefix, l.Pattern = strings.Trim(l.Prefix, "./"), strings.Trim(l.Pattern, "./")
	l.ID, l.Active = f.core.NextIdentity(), l.ContainerID == "connected"
	f.list = append(f.list, l)
	return l, nil
}

func (f *fakeLinkRoutes) Delete(id uint64) error {
	n := len(f.list)
	f.list = slices.DeleteFunc(f.list, func(l linkroute.LinkRoute) bool { return l.ID == id })
	if len(f.list) == n {
		return router.ErrNotFound
	}
	return nil
}

func (f *fakeLinkRoutes) List() []linkroute.LinkRoute { return slices.Clone(f.list) }

func (f *fakeLinkRoutes) AddFor(connection uint64, l linkroute.LinkRoute) (linkroute.LinkRoute, error) {
	if err := f.check(l); err != nil {
		return l, err
	}
	if connection == 0 {
		return l, linkroute.ErrNoParent
	}
	l.ID, l.ContainerID = f.core.NextIdentity(), "peer"
	if f.of == nil {
		f.of = map[uint64][]linkroute.LinkRoute{}
	}
	f.of[connection] = append(f.of[connection], l)
	return l, nil
}

func (f *fakeLinkRoutes) DeleteFor(connection, id uint64) error {
	f.of[connection] = slices.DeleteFunc(f.of[connection], func(l linkroute.LinkRoute) bool { return l.ID == id })
	return nil
}

func (f *fakeLinkRoutes) ListFor(connection uint64) []linkroute.LinkRoute {
	return slices.Clone(f.of[connection])
}

// MG 7.6, RT L5: router.config.linkRoute.
func TestLinkRoutes(t *testing.T) {
	b := newBench(t, standaloneConf)
	create := []string{"operation=CREATE", "type=org.apache.qpid.dispatch.router.config.linkRoute"}
	made := asMap(t, b.want(t, 201, "Created", attrs("prefix", "/a/", "direction", "in", "containerId", "connected",
		"addExternalPrefix", "x.", "delExternalPrefix", "y."), append(create, "name=lr")...))
	subset(t, map[string]any{
		"name": "lr", "identity": "1", "type": "org.apache.qpid.dispatch.router.config.linkRoute", "prefix": "a", "pattern": nil,
		"direction": "in", "dir": "in", "distribution": "linkBalanced", "connection": nil, "containerId": "connected",
		"operStatus": "active", "addExternalPrefix": "x.", "delExternalPrefix": "y.",
	}, made)
	made = asMap(t, b.want(t, 201, "Created", attrs("pattern", "*/b/#", "dir", "out", "connection", "c"), create...))
	subset(t, map[string]any{"name": nil, "prefix": nil, "pattern": "*/b/#", "direction": "out", "dir": "out", "connection": "c", "operStatus": "inactive"}, made)

	for _, tt := range []struct {
		name, text string
		body       any
	}{
		{"name", "Name conflicts with an existing entity", attrs("prefix", "q", "direction", "in", "name", "lr")},
		{"no body", "Body of request must be a map", nil},
		{"both selectors", "Both connection and containerId cannot be specified", attrs("prefix", "q", "direction", "in", "connection", "a", "containerId", "b")},
		{"no direction", "No 'direction' attribute provided - it is mandatory", attrs("prefix", "q")},
		{"neither", "Either a 'prefix' or 'pattern' attribute must be provided", attrs("direction", "in")},
		{"both", "Cannot specify both a 'prefix' and a 'pattern' attribute", attrs("prefix", "q", "pattern", "r", "direction", "in")},
		{"empty prefix", "Prefix must be a non-empty string type", attrs("prefix", "", "direction", "in")},
		{"pattern that is no text", "Pattern must be a non-empty string type", attrs("pattern", int32(1), "direction", "in")},
		{"direction", "Invalid value for 'direction'", attrs("prefix", "q", "direction", "up")},
		{"distribution", "Invalid value for 'distribution'", attrs("prefix", "q", "direction", "in", "distribution", "closest")},
	} {
		if resp := b.ask(tt.body, create...); resp.Status != 400 || !strings.Contains(resp.Description, tt.text) || resp.Body != nil {
			t.Errorf("%s: %d %q %v, want 400 %q", tt.name, resp.Status, resp.Description, resp.Body, tt.text)
		}
	}
	heading, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=router.config.linkRoute"))
	if len(rows) != 2 || len(heading) != 13 {
		t.Errorf("%d rows of %q", len(rows), heading)
	}
	// The query for all types shows no entities made by request, but those whose type had its short
	// name there, if they have a name of their own.
	configured := func() (names []any) {
		t.Helper()
		_, rows := rowsOf(t, b.ask(attrs("attributeNames", amqp.List{"name", "type"}), "operation=QUERY"))
		for _, row := range rows {
			if row["type"] == "org.apache.qpid.dispatch.router.config.linkRoute" {
				names = append(names, row["name"])
			}
		}
		return names
	}
	if names := configured(); len(names) != 0 {
		t.Errorf("the query for all types has %q", names)
	}
	for _, name := range []string{"x", "y", ""} {
		body := attrs("prefix", "s"+name, "direction", "in")
		if name != "" {
			body = append(body, amqp.MapEntry{Key: "name", Value: name})
		}
		b.want(t, 201, "", body, "operation=CREATE", "type=router.config.linkRoute")
	}
	if names := configured(); !slices.Equal(names, []any{"x", "y"}) {
		t.Errorf("the query for all types has %q", names)
	}
	b.want(t, 204, "", nil, "operation=DELETE", "type=router.config.linkRoute", "name=x")
	if names := configured(); !slices.Equal(names, []any{"y"}) {
		t.Errorf("the query for all types has %q", names)
	}
	subset(t, map[string]any{"name": "lr"}, asMap(t, b.want(t, 200, "OK", nil, "operation=READ", "type=router.config.linkRoute", "name=lr")))
	b.want(t, 400, "No name or identity provided", nil, "operation=DELETE", "type=router.config.linkRoute")
	b.want(t, 404, "Not Found", nil, "operation=DELETE", "type=router.config.linkRoute", "identity=77")
	b.want(t, 204, "No Content", nil, "operation=DELETE", "type=router.config.linkRoute", "name=lr")
	b.want(t, 404, "Not Found", nil, "operation=READ", "type=router.config.linkRoute", "name=lr")
}

// MG 7.12, RT L23, L24: the link routes of a connection are its own.
func TestConnectionLinkRoutes(t *testing.T) {
	b := newBench(t, standaloneConf)
	const typ = "type=org.apache.qpid.dispatch.router.connection.linkRoute"
	ask := func(connection uint64, body any, pairs ...string) Response {
		return b.Handle(Request{Properties: props(pairs...), Body: body, From: Asker{connection}})
	}
	resp := ask(5, attrs("pattern", "a/#", "direction", "out"), "operation=CREATE", typ, "name=n")
	if resp.Status != 201 {
		t.Fatalf("%d %q", resp.Status, resp.Description)
	}
	subset(t, map[string]any{"name": "n", "identity": "1", "type": "org.apache.qpid.dispatch.router.connection.linkRoute",
		"pattern": "a/#", "direction": "out", "containerId": "peer"}, asMap(t, resp))
	for _, tt := range []struct {
		text string
		body any
	}{
		{"Body of request must be a map", nil},
		{"Pattern field is required", attrs("direction", "in")},
		{"Pattern must be a non-empty string type", attrs("pattern", "", "direction", "in")},
		{"Missing value for 'direction'", attrs("pattern", "a")},
		{"Invalid value for 'direction'", attrs("pattern", "a", "direction", "x")},
	} {
		if resp := ask(5, tt.body, "operation=CREATE", typ); resp.Status != 400 || resp.Description != tt.text || resp.Body != nil {
			t.Errorf("%d %q, want 400 %q", resp.Status, resp.Description, tt.text)
		}
	}
	for connection, want := range map[uint64]int{5: 1, 6: 0} {
		if _, rows := rowsOf(t, ask(connection, nil, "operation=QUERY", "entityType=router.connection.linkRoute")); len(rows) != want {
			t.Errorf("connection %d sees %d, want %d", connection, len(rows), want)
		}
		if resp := ask(connection, nil, "operation=READ", typ, "name=n"); (resp.Status == 200) != (want == 1) {
			t.Errorf("connection %d reads %d", connection, resp.Status)
		}
	}
	if resp := ask(6, nil, "operation=DELETE", typ, "name=n"); resp.Status != 404 {
		t.Errorf("another connection deleted it: %d", resp.Status)
	}
	if resp := ask(5, nil, "operation=DELETE", typ, "identity=1"); resp.Status != 204 {
		t.Errorf("DELETE: %d %q", resp.Status, resp.Description)
	}
}

// CFG A27: link routes of the file come and go with it; those made by request stay.
func TestReloadLinkRoutes(t *testing.T) {
	section := func(lines string) string { return "linkRoute {\n" + lines + "}\n" }
	both := section(" prefix: q\n direction: in\n connection: c\n") + section(" prefix: q\n direction: out\n connection: c\n")
	b := newBench(t, standaloneConf+both+section(" name: lr\n pattern: a/*\n direction: in\n"))
	b.LoadObjects()
	want := func(names ...string) {
		t.Helper()
		var got []string
		for _, l := range b.linkRoutes.list {
			got = append(got, l.Name)
		}
		if !slices.Equal(got, names) {
			t.Errorf("link routes %q, want %q", got, names)
		}
	}
	want("linkRoute/0", "linkRoute/1", "lr")
	b.want(t, 201, "", attrs("prefix", "m", "direction", "in"), "operation=CREATE", "type=router.config.linkRoute", "name=mine")
	file, err := config.Parse("test.conf", config.FormatConf, []byte(standaloneConf+
		section(" prefix: q\n direction: in\n connection: c\n")+section(" name: lr\n pattern: a/*\n direction: out\n")+section(" prefix: new\n direction: in\n")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Reload(file)
	if err != nil {
		t.Fatal(err)
	}
	wantDone := []string{"linkRoute connection=c direction=out prefix=q deleted", "linkRoute lr changed", "linkRoute direction=in prefix=new created"}
	if !slices.Equal(r.Done, wantDone) || len(r.Left) != 0 {
		t.Errorf("done %q, left %q", r.Done, r.Left)
	}
	want("linkRoute/0", "mine", "lr", "linkRoute/1")
	if d := b.linkRoutes.list[2].Direction; d != "out" {
		t.Errorf("lr has direction %s", d)
	}
}
