package server

import (
	"context"
	"net"
	"testing"

	goamqp "github.com/Azure/go-amqp"

	"qdrouter/amqp"
	"qdrouter/router"
)

// Why a link or a connection was refused or has failed can be read afterwards.
func TestReasonsAreKept(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := start(t, section("listener", "host: 127.0.0.1", "port: 0", "name: l")+
		section("listener", "host: 127.0.0.1", "port: 0", "name: web", "http: yes")+
		section("listener", "host: 127.0.0.1", "port: "+port(taken.Addr()), "name: taken")+
		section("address", "prefix: closed", "distribution: unavailable"))

	want := func(what, reason string, check func(f router.Failure) bool) {
		t.Helper()
		eventually(t, what+": "+reason, func() bool {
			for _, f := range r.router.Failures().Recent {
				if f.What == what && f.Reason == reason && check(f) {
					return true
				}
			}
			return false
		})
	}

	client, err := r.client("l", &goamqp.ConnOptions{ContainerID: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := client.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.NewSender(ctx, "closed.a", nil); err == nil {
		t.Error("a sender to an unavailable address is attached")
	}
	if _, err := session.NewReceiver(ctx, "closed.b", nil); err == nil {
		t.Error("a receiver from an unavailable address is attached")
	}
	const notFound = "amqp:not-found: Node not found"
	want(router.LinkRefused, notFound, func(f router.Failure) bool {
		return f.Address == "closed.a" && f.Direction == "in" && f.Container == "me" && f.ConnectionID > 0
	})
	want(router.LinkRefused, notFound, func(f router.Failure) bool { return f.Address == "closed.b" && f.Direction == "out" })

	wantEOF(t, r.dialTo("web"))
	want(router.ConnectionRefused, "HTTP is not supported by this version", func(f router.Failure) bool { return f.Where == "127.0.0.1:0" })
	if st := r.ListenerStatus("listener/127.0.0.1:0:web"); st.Refused != 1 || st.LastError != "HTTP is not supported by this version" {
		t.Errorf("listener web: %+v", st)
	}
	if st := r.ListenerStatus("listener/127.0.0.1:" + port(taken.Addr()) + ":taken"); st.LastError != "Address already in use" {
		t.Errorf("the listener that cannot listen: %+v", st)
	}

	// A look whether somebody listens is no failure, other protocols are.
	r.dialTo("l").Close()
	nc := r.dialTo("l")
	if _, err := nc.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the wrong protocol is counted, the look is not", func() bool { return r.ListenerStatus("listener/127.0.0.1:0:l").Refused == 1 })

	// Nor is it to leave without a close, as the old tools do.
	before := len(r.router.Connections())
	nc = r.dialTo("l")
	open(t, nc)
	readFrame(t, nc) // its open: to close with that unread would be a reset, which is a failure
	eventually(t, "the connection is there", func() bool { return len(r.router.Connections()) > before })
	nc.Close()
	eventually(t, "the connection is gone", func() bool { return len(r.router.Connections()) == before })

	nc = r.dialTo("l")
	open(t, nc)
	if _, err := nc.Write(amqp.AppendFrame(nil, amqp.FrameAMQP, 0, &amqp.Transfer{})); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection of a peer that breaks the rules has failed", func() bool {
		return r.ListenerStatus("listener/127.0.0.1:0:l").Failed == 1
	})
	if f := r.router.Failures(); f.LinksRefused != 2 || f.ConnectionsRefused != 2 || f.ConnectionsFailed != 1 {
		t.Errorf("counts %d, %d, %d, want 2, 2, 1", f.LinksRefused, f.ConnectionsRefused, f.ConnectionsFailed)
	}
}
