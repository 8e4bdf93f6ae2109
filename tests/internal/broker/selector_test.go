package broker

import (
	"testing"

	"qdrouter/amqp"
)

func TestSelector(t *testing.T) {
	m := &message{payload: (&amqp.Message{
		Header:     &amqp.Header{Priority: amqp.Some[uint8](7)},
		Properties: &amqp.Properties{Subject: amqp.Some("news"), GroupSequence: amqp.Some[uint32](3)},
		ApplicationProperties: amqp.Map{
			{Key: "colour", Value: "red"}, {Key: "size", Value: int32(5)}, {Key: "weight", Value: 2.5}, {Key: "hot", Value: true}, {Key: "it's", Value: "it's"},
		},
		Body: "x",
	}).Append(nil)}
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"colour = 'red'", true},
		{"colour <> 'red'", false},
		{"colour > 'blue'", true},
		{"size = 5 AND weight = 2.5", true},
		{"size >= 5.0 and size <= 5 and size < 6 and size > -1", true},
		{"size < 5 OR colour = 'red'", true},
		{"size < 5 OR colour = 'blue'", false},
		{"NOT (size < 5)", true},
		{"NOT size < 5 AND NOT colour = 'blue'", true},
		{"size < 5 AND colour = 'red' OR hot", true},
		{"size < 5 AND (colour = 'red' OR hot)", false},
		{"hot = TRUE", true},
		{"hot = false", false},
		{"nothing = 'x'", false},
		{"NOT nothing = 'x'", false}, // unknown stays unknown
		{"nothing = 'x' OR hot", true},
		{"NOT (nothing = 'x' AND size < 5)", true},
		{"nothing IS NULL AND colour IS NOT NULL", true},
		{"colour IN ('blue', 'red')", true},
		{"colour NOT IN ('blue', 'green')", true},
		{"nothing NOT IN ('blue')", false},
		{"colour = 5", false}, // of different types
		{"JMSPriority = 7 AND header.priority > 4", true},
		{"properties.subject = 'news' AND JMSType = 'news'", true},
		{"properties.group_sequence = 3 AND properties.group-sequence = 3", true},
		{"colour = 'it''s'", false},
	} {
		s, err := parseSelector(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
		} else if got := s.match(m); got != tt.want {
			t.Errorf("%s is %v, want %v", tt.text, got, tt.want)
		}
	}
	for _, bad := range []string{"", "colour", "colour =", "= 'red'", "colour = 'red", "colour = 'red' AND", "(hot", "hot)", "colour IN 'red'", "colour IN ('red'", "colour NOT 'red'", "colour # 5", "5a = 5"} {
		if _, err := parseSelector(bad); (err == nil) != (bad == "colour") { // a name alone is a boolean
			t.Errorf("%q: error %v", bad, err)
		}
	}
}
