package management

// createListener opens a listener's socket. A port that cannot be bound is no
// failure: the server goes on trying (MG 7.1).
func createListener(a *Agent, e *entity) error {
	if plugin := e.config.Str("saslPlugin"); plugin != "" && !a.hasPlugin(plugin) {
		return internalError("Cannot find sasl plugin %s", plugin)
	}
	return a.server.CreateListener(e.config)
}

func (a *Agent) hasPlugin(name string) bool {
	for _, e := range a.entities {
		if e.kind.Name == "authServicePlugin" && e.name == name {
			return true
		}
	}
	return false
}

// refreshListener shows what a root directory implies (MG 7.1), and what became of
// the connections.
func refreshListener(a *Agent, e *entity, attrs map[string]any) {
	s := a.server.ListenerStatus(e.identity)
	attrs["refusedConnections"], attrs["failedConnections"], attrs["lastError"] = s.Refused, s.Failed, orNull(s.LastError)
	if e.config.Str("httpRootDir") != "" {
		attrs["http"] = true
	}
}

func deleteListener(a *Agent, e *entity) error { return a.server.DeleteListener(e.identity) }

// createConnector starts connecting (MG 7.2).
func createConnector(a *Agent, e *entity) error { return a.server.CreateConnector(e.config) }

func deleteConnector(a *Agent, e *entity) error { return a.server.DeleteConnector(e.identity) }

// refreshConnector adds how the connecting goes; the message is there, empty,
// before the first attempt (MG 7.2).
func refreshConnector(a *Agent, e *entity, attrs map[string]any) {
	s := a.server.ConnectorStatus(e.identity)
	attrs["connectionStatus"], attrs["connectionMsg"], attrs["failoverUrls"] = s.Status, s.Message, s.FailoverURLs
	attrs["attempts"], attrs["failures"], attrs["lastError"] = s.Attempts, s.Failures, orNull(s.LastError)
}

// createSSLProfile stores a profile; files are not opened, but a password from
// the environment must be there (MG 7.3).
func createSSLProfile(_ *Agent, e *entity) error {
	if _, _, err := e.config.Password(); err != nil {
		return internalError("%s", oneLine(err))
	}
	return nil
}
