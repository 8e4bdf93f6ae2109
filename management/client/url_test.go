package client

import "testing"

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		text string
		want URL
	}{
		{"", URL{Scheme: "amqp", Host: "0.0.0.0", Port: "5672"}},
		{"example.org", URL{Scheme: "amqp", Host: "example.org", Port: "5672"}},
		{"Example.ORG:1234", URL{Scheme: "amqp", Host: "example.org", Port: "1234"}},
		{":1234", URL{Scheme: "amqp", Host: "0.0.0.0", Port: "1234"}},
		{"host:", URL{Scheme: "amqp", Host: "host", Port: "5672"}},
		{"host:amqps", URL{Scheme: "amqp", Host: "host", Port: "5671"}},
		{"host:amqp", URL{Scheme: "amqp", Host: "host", Port: "5672"}},
		{"amqp://host", URL{Scheme: "amqp", Host: "host", Port: "5672"}},
		{"amqps://host", URL{Scheme: "amqps", Host: "host", Port: "5671"}},
		{"AMQPS://host:9", URL{Scheme: "amqps", Host: "host", Port: "9"}},
		{"amqp://", URL{Scheme: "amqp", Host: "0.0.0.0", Port: "5672"}},
		{"//host", URL{Scheme: "amqp", Host: "host", Port: "5672"}},
		{"[::1]", URL{Scheme: "amqp", Host: "::1", Port: "5672"}},
		{"amqp://[::1]:7/a", URL{Scheme: "amqp", Host: "::1", Port: "7", Address: "a"}},
		{"u:p%40@host", URL{Scheme: "amqp", User: "u", Password: "p@", Host: "host", Port: "5672"}},
		// The host starts after the last @; the user ends at the first colon.
		{"amqp://a%3ab@c:d@host", URL{Scheme: "amqp", User: "a:b@c", Password: "d", Host: "host", Port: "5672"}},
		{"user@host:7", URL{Scheme: "amqp", User: "user", Host: "host", Port: "7"}},
		{"host/", URL{Scheme: "amqp", Host: "host", Port: "5672"}},
		{"host:7/_topo/0/A/$management", URL{Scheme: "amqp", Host: "host", Port: "7", Address: "_topo/0/A/$management"}},
	} {
		got, err := ParseURL(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseURL(%q) = %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"host:nosuchservice": "Not a valid port number or service name: 'nosuchservice'",
		"host:65536":         "port 65536 is out of range",
		"host:-1":            "port -1 is out of range",
		"http://host":        `unknown scheme "http" in URL`,
		"::1":                `IPv6 address "::1" needs brackets`,
		"[::1":               `missing ] in host "[::1"`,
		"[::1]x":             `"x" after the host`,
		"%zz@host":           `user in URL: invalid URL escape "%zz"`,
	} {
		_, err := ParseURL(text)
		if err == nil || err.Error() != want || Class(err) != "ValueError" {
			t.Errorf("ParseURL(%q): error %v of class %s, want ValueError: %s", text, err, Class(err), want)
		}
	}
}

func TestURLInMessagesHidesThePassword(t *testing.T) {
	u, err := ParseURL("amqps://me:secret@[::1]:7/x")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := u.String(), "amqps://[::1]:7/x"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

// MG 11.3: the URL's path wins over -r, and that over -d.
func TestAgentAddress(t *testing.T) {
	for _, tt := range []struct{ url, router, edge, want string }{
		{"host", "", "", "$management"},
		{"host/", "", "", "$management"},
		{"host", "A", "", "_topo/0/A/$management"},
		{"host", "", "E", "_edge/E/$management"},
		{"host", "A", "E", "_topo/0/A/$management"},
		{"host/my/agent", "A", "E", "my/agent"},
	} {
		u, err := ParseURL(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.AgentAddress(tt.router, tt.edge); got != tt.want {
			t.Errorf("URL %q, router %q, edge router %q: address %q, want %q", tt.url, tt.router, tt.edge, got, tt.want)
		}
	}
}
