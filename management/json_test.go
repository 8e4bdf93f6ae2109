package management

import (
	"testing"

	"qdrouter/amqp"
)

// MG 4.10: JSON in the form the old router wrote it.
func TestJSONText(t *testing.T) {
	v := amqp.Map{
		{Key: "text", Value: "a\"b\\c\n\x7fé\U0001f600"}, {Key: "n", Value: int32(-1)}, {Key: "yes", Value: true},
		{Key: "empty", Value: amqp.Map{}}, {Key: "list", Value: amqp.List{"x", amqp.List{}, nil}},
	}
	for indent, want := range map[int]string{
		-1: `{"text": "a\"b\\c\n\u007f\u00e9\ud83d\ude00", "n": -1, "yes": true, "empty": {}, "list": ["x", [], null]}`,
		1:  "{\n \"text\": \"a\\\"b\\\\c\\n\\u007f\\u00e9\\ud83d\\ude00\",\n \"n\": -1,\n \"yes\": true,\n \"empty\": {},\n \"list\": [\n  \"x\",\n  [],\n  null\n ]\n}",
		0:  "{\n\"text\": \"a\\\"b\\\\c\\n\\u007f\\u00e9\\ud83d\\ude00\",\n\"n\": -1,\n\"yes\": true,\n\"empty\": {},\n\"list\": [\n\"x\",\n[],\nnull\n]\n}",
	} {
		if got := string(appendJSON(nil, v, indent)); got != want {
			t.Errorf("indent %d:\n got %s\nwant %s", indent, got, want)
		}
	}
}
