package security

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"qdrouter/amqp/sasl"
)

// mechanisms are those of this version, strongest first (CFG M4).
var mechanisms = []string{sasl.Plain, sasl.Anonymous}

func supported(name string) bool { return slices.Contains(mechanisms, name) }

// ListenerSettings are the attributes of a listener that decide who may come in.
type ListenerSettings struct {
	SASLMechanisms    string // blank-separated, empty for all
	AuthenticatePeer  bool
	RequireEncryption bool
	RequireSSL        bool
	SSLProfile        string
	SASLPlugin        string
}

// Offer is what the listener offers, in order (CFG M4).
func (s *SASL) Offer(l ListenerSettings) sasl.Offer {
	configured := s.mechList
	if configured == nil {
		configured = mechanisms
	}
	wanted := strings.Fields(strings.ToUpper(l.SASLMechanisms))
	var offer sasl.Offer
	for _, name := range configured {
		if len(wanted) > 0 && !slices.Contains(wanted, name) {
			continue
		}
		switch {
		case name == sasl.Anonymous && !l.AuthenticatePeer:
			offer = append(offer, sasl.OfferAnonymous())
		case name == sasl.Plain && s.users != nil:
			offer = append(offer, sasl.OfferPlain(s.users.verify))
		}
	}
	return offer
}

// Refusal says why the listener must refuse every connection; empty when it may
// take them.
func (s *SASL) Refusal(l ListenerSettings) string {
	switch {
	case l.SSLProfile != "":
		return fmt.Sprintf("TLS (sslProfile %s) is not supported by this version", l.SSLProfile)
	case l.RequireEncryption || l.RequireSSL:
		return "encryption is required, but the listener has no sslProfile"
	case l.SASLPlugin != "":
		return fmt.Sprintf("the authentication service (saslPlugin %s) is not supported by this version", l.SASLPlugin)
	case l.AuthenticatePeer && len(s.Offer(l)) == 0:
		return "authentication is required, but no mechanism can be offered: " + s.whyNone(l)
	}
	return ""
}

// whyNone explains an empty offer.
func (s *SASL) whyNone(l ListenerSettings) string {
	var why []string
	if l.SASLMechanisms != "" {
		why = append(why, "saslMechanisms is "+l.SASLMechanisms)
	}
	switch {
	case s.path == "":
		why = append(why, "there is no SASL configuration file")
	case s.mechList != nil:
		why = append(why, fmt.Sprintf("mech_list in %s is %s", s.path, strings.Join(s.mechList, " ")))
	}
	if s.path != "" && s.users == nil {
		why = append(why, s.path+" names no credentials")
	}
	why = append(why, "this version has "+strings.Join(mechanisms, " "))
	return strings.Join(why, ", ")
}

// Warnings names what the listener asks for without demanding it and will not
// get (CFG M10).
func (s *SASL) Warnings(l ListenerSettings) []string {
	var warnings []string
	for _, name := range strings.Fields(strings.ToUpper(l.SASLMechanisms)) {
		if !supported(name) {
			warnings = append(warnings, fmt.Sprintf("SASL mechanism %s is not supported and not offered", name))
		}
	}
	return warnings
}

// ConnectorSettings are the attributes of a connector that decide how we
// introduce ourselves.
type ConnectorSettings struct {
	SASLMechanisms string // blank-separated, empty for all
	Username       string
	Password       string // as ReadPassword gives it
}

// ClientMechanisms are those a connector may use, best first (CFG M11).
func ClientMechanisms(c ConnectorSettings) []sasl.ClientMechanism {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	all := []sasl.ClientMechanism{sasl.AnonymousClient(sasl.AnonymousUser + "@" + host)}
	if c.Username != "" && c.Password != "" {
		all = slices.Insert(all, 0, sasl.PlainClient(c.Username, c.Password))
	}
	allowed := strings.Fields(strings.ToUpper(c.SASLMechanisms))
	return slices.DeleteFunc(all, func(m sasl.ClientMechanism) bool {
		return len(allowed) > 0 && !slices.Contains(allowed, m.Name())
	})
}
