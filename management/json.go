package management

import (
	"encoding/json"
	"fmt"

	"qdrouter/amqp"
	"qdrouter/management/jsontext"
)

// appendJSON appends v as JSON text in the form scripts know from the old
// router, keys in the order of the map. With indent < 0 all is on one line, else
// one member a line, each level indented by indent blanks (MG 4.10).
func appendJSON(b []byte, v any, indent int) []byte { return appendNested(b, v, indent, 1) }

func appendNested(b []byte, v any, indent, depth int) []byte {
	switch v := v.(type) {
	case amqp.Map:
		return jsontext.AppendItems(b, "{}", len(v), indent, depth, func(b []byte, i int) []byte {
			b = jsontext.AppendString(b, fmt.Sprint(v[i].Key))
			return appendNested(append(b, ": "...), v[i].Value, indent, depth+1)
		})
	case amqp.List:
		return jsontext.AppendItems(b, "[]", len(v), indent, depth, func(b []byte, i int) []byte {
			return appendNested(b, v[i], indent, depth+1)
		})
	case string:
		return jsontext.AppendString(b, v)
	}
	text, err := json.Marshal(v)
	if err != nil { // the schema holds strings, numbers and booleans only
		panic(fmt.Sprintf("management: no JSON form for %T", v))
	}
	return append(b, text...)
}
