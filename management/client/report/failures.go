package report

import (
	"errors"
	"io"
	"strings"

	"qdrouter/management/client"
)

// failures is --failures, which the old tool did not have: what newer routers tell
// of refusals and failures, by lastErr where there is an entity to ask, and by
// recentFailures of the router where there is none any more.
func (p *printer) failures(frame bool) error {
	routers, err := p.query("router", nil, 0)
	if err != nil {
		return err
	}
	if err := p.frame(frame); err != nil {
		return err
	}
	counts := table{title: "Refused and Failed", heads: p.attributeHeads()}
	r := routers.first()
	routers.addKnown(&counts, []labelled{
		{"Links Refused", "linksRefused"},
		{"Connections Refused", "connectionsRefused"},
		{"Connections Failed", "connectionsFailed"},
	})
	p.print(counts)
	if err := p.endpoints(); err != nil {
		return err
	}
	recent, _ := r.get("recentFailures").([]any)
	p.failureTable("Refused and Failed Connections", "connect", recent)
	p.failureTable("Refused Links", "link", recent)
	return nil
}

// recentFailures is what the router remembers of refusals and failures, the
// newest first; empty when it does not tell.
func (p *printer) recentFailures() ([]any, error) {
	routers, err := p.query("router", nil, 0)
	if err != nil {
		return nil, err
	}
	list, _ := routers.first().get("recentFailures").([]any)
	return append([]any{}, list...), nil
}

// failureTable shows the recent failures whose kind begins with a word, if there
// are any.
func (p *printer) failureTable(title, what string, recent []any) {
	keys := []string{"time", "count", "what", "where", "connectionId", "host", "container", "user"}
	heads := []string{"time", "count", "what", "where", "conn id", "host", "container", "user"}
	if what == "link" {
		keys = append(keys, "linkDir", "address", "linkName")
		heads = append(heads, "dir", "addr", "name")
	}
	t := table{title: "\n" + title, heads: append(heads, "reason")}
	keys = append(keys, "reason")
	for _, item := range recent {
		failure, _ := item.(client.Map)
		if !strings.HasPrefix(failure.Text("what"), what) {
			continue
		}
		cells := make([]string, len(keys))
		for i, key := range keys {
			v, _ := failure.Get(key)
			cells[i] = text(v)
		}
		t.add(cells...)
	}
	if len(t.rows) > 0 {
		p.print(t)
	}
}

// endpoints shows listeners and connectors: why there is no connection.
func (p *printer) endpoints() error {
	err := p.endpointTable("Listeners", "listener",
		counterIfKnown("refused", "refusedConnections"),
		counterIfKnown("failed", "failedConnections"),
		column{"lastErr", "lastError", func(r row) string { return r.text("lastError") }})
	if err != nil {
		return err
	}
	return p.endpointTable("Connectors", "connector",
		attribute("status", "connectionStatus"),
		counterIfKnown("attempts", "attempts"),
		counterIfKnown("failures", "failures"),
		column{"lastErr", "", func(r row) string {
			if r.rows.has("lastError") {
				return r.text("lastError")
			}
			return r.text("connectionMsg")
		}})
}

func (p *printer) endpointTable(title, entityType string, columns ...column) error {
	endpoints, err := p.query(entityType, nil, p.opts.Limit)
	var refused *client.StatusError
	if errors.As(err, &refused) {
		return nil // no right to see them
	}
	if err != nil || endpoints.Len() == 0 {
		return err
	}
	io.WriteString(p.out, "\n")
	p.print(endpoints.table(title, append([]column{
		attribute("name", "name"),
		attribute("host", "host"),
		attribute("port", "port"),
		attribute("role", "role"),
	}, columns...), -1))
	return nil
}
