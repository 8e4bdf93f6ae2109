package server

import (
	"errors"
	"fmt"

	"qdrouter/config"
	"qdrouter/logging"
	"qdrouter/security"
)

// Check finds what New would refuse, without starting anything. The remarks tell
// what would run otherwise than its file says, or not at all.
func Check(cfg *config.Config, opts Options) (remarks []string, err error) {
	if err := check(cfg, opts); err != nil {
		return nil, err
	}
	rt := cfg.Router()
	sasl, remarks, err := security.LoadSASL(saslDir(rt), rt.Str("saslConfigName"))
	if err != nil {
		return nil, applied("CError", err)
	}
	for _, name := range cfg.Unimplemented {
		remarks = append(remarks, name+" has no effect in this version")
	}
	for _, e := range cfg.Of("listener") {
		if why := listenerRefusal(e, sasl); why != "" {
			remarks = append(remarks, fmt.Sprintf("listener %s would refuse every connection: %s", hostPort(e), why))
		}
		for _, w := range sasl.Warnings(listenerSecurity(e)) {
			remarks = append(remarks, fmt.Sprintf("listener %s: %s", hostPort(e), w))
		}
	}
	for _, e := range cfg.Of("connector") {
		_, warnings, _ := e.Password() // of no error: check has seen to that
		for _, w := range warnings {
			remarks = append(remarks, fmt.Sprintf("connector %s: %s", hostPort(e), w.Text))
		}
		if why := connectorRefusal(e); why != "" {
			remarks = append(remarks, fmt.Sprintf("connector %s would never connect: %s", hostPort(e), why))
		}
	}
	return remarks, nil
}

// check judges what goes beyond the configuration's own rules.
func check(cfg *config.Config, opts Options) error {
	var errs []error
	if cfg.Policy().Bool("enableVhostPolicy") && !opts.InsecureIgnorePolicy {
		errs = append(errs, applied("PolicyError", errors.New("enableVhostPolicy is set, but this version cannot enforce vhost policy; "+
			"--insecure-ignore-policy starts the router without it")))
	}
	for _, e := range cfg.Of("log") {
		if err := logging.CheckEnable(e.Str("enable")); e.Has("enable") && err != nil {
			errs = append(errs, applied("CError", err))
		}
	}
	for _, e := range cfg.Of("listener") {
		if _, err := listenerOptions(e); err != nil {
			errs = append(errs, applied("CError", err))
		}
	}
	for _, e := range cfg.Of("connector") {
		if _, _, err := e.Password(); err != nil {
			errs = append(errs, applied("CError", fmt.Errorf("connector %s: %w", hostPort(e), err)))
		}
	}
	return errors.Join(errs...)
}
