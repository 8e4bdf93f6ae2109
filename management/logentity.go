package management

import (
	"slices"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
)

// Log modules without an entity of their own; they have statistics (MG 7.14).
var unconfigurableModules = []string{"MAIN", "DISPLAYNAME"}

// logModules lists the modules that have a log entity, DEFAULT included.
func logModules() []string { return config.TypeByName("log").Attribute("module").Enum }

// updateLog puts a changed log entity into force, at once (MG 7.4).
func updateLog(a *Agent, e *entity) error {
	c := e.config
	if err := a.logs.Configure(c.Str("module"), LogSettings{
		Enable:           optional[string](c, "enable"),
		IncludeTimestamp: optional[bool](c, "includeTimestamp"),
		IncludeSource:    optional[bool](c, "includeSource"),
		OutputFile:       optional[string](c, "outputFile"),
	}); err != nil {
		return internalError("CError: %s", err)
	}
	return nil
}

// optional gives an attribute's value, nil when it is unset.
func optional[T any](e *config.Entity, name string) *T {
	if v, ok := e.Attrs[name].(T); ok {
		return &v
	}
	return nil
}

func logStatsRows(a *Agent, _ Asker) table {
	var t storedTable
	for _, module := range slices.Concat(logModules(), unconfigurableModules) {
		counts := a.logs.Counts(module)
		if counts == nil {
			continue
		}
		t = append(t, map[string]any{
			"identity":      "logStats/" + module,
			"name":          module,
			"type":          longLogStats,
			"traceCount":    int64(counts[router.Trace]),
			"debugCount":    int64(counts[router.Debug]),
			"infoCount":     int64(counts[router.Info]),
			"noticeCount":   int64(counts[router.Notice]),
			"warningCount":  int64(counts[router.Warning]),
			"errorCount":    int64(counts[router.Error]),
			"criticalCount": int64(counts[router.Critical]),
		})
	}
	return t
}

// getLog answers GET-LOG: the newest entries, oldest first (MG 4.11).
func getLog(a *Agent, req *Request) (any, error) {
	limit, _, err := req.integer("limit")
	if err != nil {
		return nil, err
	}
	entries := a.logs.Recent(int(min(max(limit, 0), maxLogEntries)))
	list := make(amqp.List, len(entries))
	for i, e := range entries {
		entry := amqp.List{e.Module, e.Level, e.Text, nil, nil, wire(e.Time)}
		if e.File != "" {
			entry[3], entry[4] = e.File, wire(int64(e.Line))
		}
		list[i] = entry
	}
	return list, nil
}

// maxLogEntries is more than a log keeps.
const maxLogEntries = 1 << 20
