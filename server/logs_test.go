package server

import (
	"strings"
	"testing"

	goamqp "github.com/Azure/go-amqp"
)

// Log lines name the place they come from, not the helper that wrote them (CFG G8).
func TestLogLinesNameTheirSource(t *testing.T) {
	r := start(t, listenerL+section("log", "module: PROTOCOL", "enable: trace+"))
	client, err := r.client("l", &goamqp.ConnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	for text, file := range map[string]string{
		"Connection Opened":           "router/conn.go",
		"FRAME: 0 <-":                 "router/trace.go",
		"Accepted connection to":      "transport/incoming.go",
		"Activating management agent": "management/agent.go",
		"Router started in":           "server/server.go",
		"Listening on":                "server/listener.go",
	} {
		r.logged(text)
		for _, e := range r.logs.Recent(0) {
			if strings.Contains(e.Text, text) && e.File != file {
				t.Errorf("%q comes from %s:%d, want %s", e.Text, e.File, e.Line, file)
			}
		}
	}
}
