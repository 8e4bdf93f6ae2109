package manage

import (
	"strings"

	"qdrouter/config"
	"qdrouter/management/client"
)

// longType expands the name of an entity type (MG 12.3). A name with a dot is
// left alone, and so is the empty one.
func longType(name string) string {
	switch {
	case name == "" || strings.Contains(name, "."):
		return name
	case name == "link" || name == "node":
		return config.Prefix + ".router." + name
	case config.TypeByName("router.config."+name) != nil:
		return config.Prefix + ".router.config." + name
	}
	return config.Prefix + "." + name
}

// parseAttributes reads arguments of the form ATTR=VALUE or ATTR (MG 12.4). The
// type, if known, says which attributes are integers.
func parseAttributes(args []string, typeName string) (client.Map, error) {
	attributes := client.Map{}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		var value any // null, which removes the attribute
		if ok {
			var err error
			if value, err = parseValueOf(name, text, typeName); err != nil {
				return nil, err
			}
		}
		attributes = attributes.With(name, value)
	}
	return attributes, nil
}

func parseValueOf(name, text, typeName string) (any, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if typeName == "" {
		return text, nil
	}
	entityType := config.TypeByName(typeName)
	if entityType == nil {
		return nil, client.Failf("ValidationError", "No such entity type '%s'", typeName)
	}
	attribute := entityType.Lookup(name)
	if attribute == nil {
		return nil, client.Failf("ValidationError", "Unknown attribute '%s' for '%s'", name, entityType.LongName)
	}
	if attribute.Type != config.Integer {
		return text, nil
	}
	n, msg := config.ParseInt(text)
	if msg != "" {
		return nil, client.Failf("ValueError", "%s", msg)
	}
	return n, nil
}

// withBooleans turns the words for booleans into booleans, as updates do
// (MG 12.4).
func withBooleans(attributes client.Map) client.Map {
	for i, e := range attributes {
		switch e.Value {
		case "yes", "true", "on":
			attributes[i].Value = true
		case "no", "false", "off":
			attributes[i].Value = false
		}
	}
	return attributes
}

// jsonOrText reads the value of --body or --properties: JSON, or plain text when
// it does not look like an attempt at JSON.
func jsonOrText(text string) (any, error) {
	v, err := client.ParseJSON([]byte(text))
	if err == nil {
		return v, nil
	}
	if !strings.ContainsAny(text, `"{}[]`) {
		return text, nil
	}
	return nil, client.Failf("ValueError", "Invalid JSON '%s': %w", text, err)
}
