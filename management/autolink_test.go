package management

import (
	"slices"
	"testing"

	"qdrouter/linkroute"
	"qdrouter/router"
)

// fakeAutoLinks keeps autolinks that a test moves through their states.
type fakeAutoLinks struct {
	core *fakeCore
	list []linkroute.AutoLink
}

func (f *fakeAutoLinks) List() []linkroute.AutoLink { return slices.Clone(f.list) }

func (f *fakeAutoLinks) Add(al linkroute.AutoLink) (linkroute.AutoLink, error) {
	if slices.ContainsFunc(f.list, func(have linkroute.AutoLink) bool { return al.Name != "" && have.Name == al.Name }) {
		return al, router.ErrNameConflict
	}
	al.ID, al.Phase, al.Status = f.core.NextIdentity(), al.EffectivePhase(), "inactive"
	f.list = append(f.list, al)
	return al, nil
}

func (f *fakeAutoLinks) Delete(id uint64) error {
	n := len(f.list)
	f.list = slices.DeleteFunc(f.list, func(al linkroute.AutoLink) bool { return al.ID == id })
	if len(f.list) == n {
		return router.ErrNotFound
	}
	return nil
}

// MG 7.7: router.config.autoLink.
func TestAutoLink(t *testing.T) {
	b := newBench(t, standaloneConf)
	create := []string{"operation=CREATE", "type=org.apache.qpid.dispatch.router.config.autoLink"}
	got := asMap(t, b.want(t, 201, "Created", attrs("address", "q", "direction", "in", "connection", "c", "nosuch", "ignored"), append(create, "name=al")...))
	if want := map[string]any{
		"name": "al", "identity": "1", "type": "org.apache.qpid.dispatch.router.config.autoLink", "address": "q", "addr": "q",
		"direction": "in", "dir": "in", "phase": int32(1), "connection": "c", "containerId": nil, "externalAddress": nil,
		"externalAddr": nil, "linkRef": nil, "operStatus": "inactive", "lastError": nil, "fallback": false,
	}; len(got) != len(want) {
		t.Errorf("columns %v", got)
	} else {
		subset(t, want, got)
	}
	subset(t, map[string]any{"name": nil, "address": "q", "direction": "out", "phase": int32(0), "externalAddress": "e", "externalAddr": "e", "containerId": "C"},
		asMap(t, b.want(t, 201, "", attrs("addr", "q", "dir", "out", "externalAddr", "e", "containerId", "C"), create...)))
	subset(t, map[string]any{"phase": int32(7), "fallback": true},
		asMap(t, b.want(t, 201, "", attrs("address", "q", "direction", "out", "phase", int64(7), "fallback", "yes"), create...)))
	subset(t, map[string]any{"phase": int32(0), "fallback": true},
		asMap(t, b.want(t, 201, "", attrs("address", "q", "direction", "in", "fallback", true), create...)))
	for _, tt := range []struct {
		rule, want string
		body       any
	}{
		{"name in use", "Name conflicts with an existing entity", attrs("name", "al", "address", "q", "direction", "in")},
		{"no map", "map", "text"},
		{"two selectors", "Both connection and containerId cannot be specified. Specify only one", attrs("address", "q", "direction", "in", "connection", "c", "containerId", "d")},
		{"no address", "address and direction fields are mandatory", attrs("direction", "in")},
		{"no direction", "address and direction fields are mandatory", attrs("address", "q")},
		{"bad direction", "Invalid value for 'direction'", attrs("address", "q", "direction", "up")},
		{"both spellings", "'dir'", attrs("address", "q", "direction", "in", "dir", "in")},
		{"phase too high", "autoLink phase must be between 0 and 9", attrs("address", "q", "direction", "in", "phase", int32(10))},
		{"phase below", "autoLink phase must be between 0 and 9", attrs("address", "q", "direction", "in", "phase", int32(-1))},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if resp := b.want(t, 400, tt.want, tt.body, create...); resp.Body != nil {
				t.Errorf("error body %v, want null", resp.Body)
			}
		})
	}
	al := &b.autoLinks.list[0]
	al.Status, al.Link, al.LastError = "active", 42, "gone"
	read := []string{"operation=READ", "type=router.config.autoLink", "name=al"}
	subset(t, map[string]any{"operStatus": "active", "linkRef": "42", "lastError": "gone"}, asMap(t, b.want(t, 200, "OK", nil, read...)))
	heading, rows := rowsOf(t, b.ask(nil, "operation=QUERY", "entityType=router.config.autoLink"))
	if len(rows) != 4 || !slices.Equal(heading, []string{"name", "identity", "type", "address", "addr", "direction", "dir", "phase", "connection",
		"containerId", "externalAddress", "externalAddr", "linkRef", "operStatus", "lastError", "fallback"}) {
		t.Errorf("%d rows of %q", len(rows), heading)
	}
	b.want(t, 400, "No name or identity provided", nil, "operation=DELETE", "type=router.config.autoLink")
	b.want(t, 204, "No Content", nil, "operation=DELETE", "type=router.config.autoLink", "name=al")
	b.want(t, 404, "Not Found", nil, read...)
	b.want(t, 404, "Not Found", nil, "operation=DELETE", "type=router.config.autoLink", "identity=1")
}

// The autolinks of the file have names, and one that is refused keeps no other from being made
// (MG 5, CFG D3). A new file makes and deletes what differs, and leaves alone what requests made.
func TestAutoLinksOfTheFile(t *testing.T) {
	section := func(lines string) string { return "autoLink {\n" + lines + "}\n" }
	chain := section(" address: q\n direction: out\n connection: c\n") + section(" address: q\n direction: in\n connection: c\n") +
		section(" address: q\n direction: out\n connection: c\n phase: 1\n")
	b := newBench(t, standaloneConf+chain+section(" name: al\n address: b\n direction: in\n")+section(" name: autoLink/2\n address: c\n direction: in\n"))
	b.LoadObjects()
	if lines := b.logs.find("Error performing CREATE of " + longAutoLink + ": " + router.ErrNameConflict.Error()); len(lines) != 1 {
		t.Errorf("refused %q", lines)
	}
	names := func() (list []string) {
		for _, al := range b.autoLinks.list {
			list = append(list, al.Name)
		}
		return list
	}
	want := func(want ...string) {
		t.Helper()
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("autolinks %q, want %q", got, want)
		}
	}
	want("autoLink/0", "autoLink/1", "autoLink/2", "al")
	b.want(t, 201, "", attrs("address", "m", "direction", "in"), "operation=CREATE", "type=router.config.autoLink", "name=mine")
	reload := func(conf string, done ...string) {
		t.Helper()
		r, err := b.Reload(parseFile(t, standaloneConf+conf))
		if err != nil || !slices.Equal(r.Done, done) || len(r.Left) != 0 {
			t.Errorf("done %q, left %q, %v; want %q", r.Done, r.Left, err, done)
		}
	}
	next := section(" address: q\n direction: out\n connection: c\n") + section(" address: q\n direction: out\n connection: c\n phase: 1\n") +
		section(" name: al\n address: other\n direction: in\n") + section(" address: new\n direction: in\n")
	reload(next, "autoLink address=q connection=c direction=in deleted", "autoLink autoLink/2 deleted",
		"autoLink al changed", "autoLink address=new direction=in created")
	want("autoLink/0", "autoLink/2", "mine", "al", "autoLink/1")
	reload(next)
	b.want(t, 204, "", nil, "operation=DELETE", "type=router.config.autoLink", "name=al")
	reload("", "autoLink address=q connection=c direction=out deleted", "autoLink address=q connection=c direction=out phase=1 deleted",
		"autoLink al deleted", "autoLink address=new direction=in deleted")
	want("mine")
}
