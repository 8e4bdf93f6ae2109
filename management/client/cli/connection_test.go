package cli

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"qdrouter/management/client"
)

// MG 11.1, 11.2.
func TestConnectionOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("  from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	local := client.URL{Scheme: "amqp", Host: "0.0.0.0", Port: "5672"}
	secure := client.URL{Scheme: "amqps", Host: "0.0.0.0", Port: "5672"}
	const limit = 5 * time.Second
	for _, tt := range []struct {
		args []string
		want client.Options
	}{
		{nil, client.Options{URL: local, Timeout: limit}},
		{[]string{"--timeout=0.25"}, client.Options{URL: local, Timeout: 250 * time.Millisecond}},
		{[]string{"--timeout=inf"}, client.Options{URL: local, Timeout: 1e9 * time.Second}},
		{[]string{"--bus=amqps://h"}, client.Options{URL: client.URL{Scheme: "amqps", Host: "h", Port: "5671"}, Timeout: limit}},
		{[]string{"--ssl-trustfile=ca"}, client.Options{URL: secure, Timeout: limit, TrustFile: "ca"}},
		{[]string{"--ssl-certificate=c", "--ssl-key=k", "--ssl-password=p"},
			client.Options{URL: secure, Timeout: limit, Certificate: "c", Key: "k", KeyPassword: "p"}},
		{[]string{"--ssl-password=p", "--ssl-password-file=" + file}, client.Options{URL: local, Timeout: limit, KeyPassword: "from file"}},
		{[]string{"--ssl-disable-peer-name-verify"}, client.Options{URL: local, Timeout: limit, SkipHostVerify: true}},
		{[]string{"--sasl-mechanisms=PLAIN EXTERNAL"}, client.Options{URL: local, Timeout: limit, Mechanisms: []string{"PLAIN", "EXTERNAL"}}},
		{[]string{"--bus=u:p@"},
			client.Options{URL: client.URL{Scheme: "amqp", User: "u", Password: "p", Host: "0.0.0.0", Port: "5672"}, Timeout: limit, User: "u", Password: "p"}},
		{[]string{"--bus=u:p@", "--sasl-username=v", "--sasl-password=q"},
			client.Options{URL: client.URL{Scheme: "amqp", User: "u", Password: "p", Host: "0.0.0.0", Port: "5672"}, Timeout: limit, User: "v", Password: "q"}},
		{[]string{"--sasl-username=v", "--sasl-password=q", "--sasl-password-file=" + file},
			client.Options{URL: local, Timeout: limit, User: "v", Password: "from file"}},
	} {
		var c Connection
		if err := c.Flags().Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		got, err := c.options()
		if got.Mechanisms != nil && len(got.Mechanisms) == 0 {
			got.Mechanisms = nil
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %+v, %v; want %+v", tt.args, got, err, tt.want)
		}
	}
}

func TestConnectionOptionsRefused(t *testing.T) {
	for _, tt := range []struct{ arg, class string }{
		{"--bus=host:nosuchservice", "ValueError"},
		{"--ssl-password-file=nosuchfile", "FileNotFoundError"},
		{"--sasl-password-file=nosuchfile", "FileNotFoundError"},
	} {
		var c Connection
		if err := c.Flags().Parse([]string{tt.arg}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.options(); err == nil || client.Class(err) != tt.class {
			t.Errorf("%s: %v, want class %s", tt.arg, err, tt.class)
		}
	}
}

func TestLongestTimeout(t *testing.T) {
	s := Seconds(math.MaxFloat64)
	if got := s.Duration(); got <= 0 {
		t.Errorf("duration %v overflows", got)
	}
}
