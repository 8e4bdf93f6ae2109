package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"qdrouter/amqp"
	"qdrouter/config"
	"qdrouter/router"
	"qdrouter/security"
)

func entityOf(t *testing.T, typeName string, attrs map[string]any) *config.Entity {
	t.Helper()
	e, _, err := config.Normalize(config.TypeByName(typeName), attrs)
	if err != nil {
		t.Fatalf("%s %v: %v", typeName, attrs, err)
	}
	return e
}

// CFG 3.2.
func TestListenerOptions(t *testing.T) {
	tests := []struct {
		name  string
		attrs map[string]any
		check func(router.ConnOptions) bool
	}{
		{"defaults", nil, func(o router.ConnOptions) bool {
			return o.Incoming && o.Role == router.RoleNormal && o.Name == "" && o.Listener == ":amqp" && o.Hostname == "" &&
				o.MaxFrameSize == 16384 && o.MaxSessions == 32768 && o.MaxSessionFrames == 0 && o.LinkCapacity == 0 &&
				o.IdleTimeout == 16*time.Second && o.StripIn && o.StripOut && o.Cost == 1 && len(o.Failover) == 0
		}},
		{"name", map[string]any{"name": "x"}, func(o router.ConnOptions) bool { return o.Name == "x" }},
		{"maxFrameSize 100", map[string]any{"maxFrameSize": 100}, func(o router.ConnOptions) bool { return o.MaxFrameSize == 512 }},
		{"maxSessions 10", map[string]any{"maxSessions": 10}, func(o router.ConnOptions) bool { return o.MaxSessions == 10 }},
		{"maxSessions 0", map[string]any{"maxSessions": 0}, func(o router.ConnOptions) bool { return o.MaxSessions == 32768 }},
		{"maxSessions 500000", map[string]any{"maxSessions": 500000}, func(o router.ConnOptions) bool { return o.MaxSessions == 32768 }},
		{"maxSessionFrames 10", map[string]any{"maxSessionFrames": 10}, func(o router.ConnOptions) bool { return o.MaxSessionFrames == 10 }},
		{"no idle time-out", map[string]any{"idleTimeoutSeconds": 0}, func(o router.ConnOptions) bool { return o.IdleTimeout == 0 }},
		{"linkCapacity 0", map[string]any{"linkCapacity": 0}, func(o router.ConnOptions) bool { return o.LinkCapacity == 0 }},
		{"too much capacity", map[string]any{"linkCapacity": 1 << 40}, func(o router.ConnOptions) bool { return o.LinkCapacity == math.MaxInt32 }},
		{"too much cost", map[string]any{"cost": 1 << 31}, func(o router.ConnOptions) bool { return o.Cost == math.MaxInt32 }},
		{"strip in", map[string]any{"stripAnnotations": "in"}, func(o router.ConnOptions) bool { return o.StripIn && !o.StripOut }},
		{"strip out", map[string]any{"stripAnnotations": "out"}, func(o router.ConnOptions) bool { return !o.StripIn && o.StripOut }},
		{"strip no", map[string]any{"stripAnnotations": "no"}, func(o router.ConnOptions) bool { return !o.StripIn && !o.StripOut }},
		{"routers keep annotations", map[string]any{"role": "inter-router"}, func(o router.ConnOptions) bool {
			return o.Role == router.RoleInterRouter && !o.StripIn && !o.StripOut
		}},
		{"broker", map[string]any{"role": "route-container", "cost": 7}, func(o router.ConnOptions) bool {
			return o.Role == router.RoleRouteContainer && o.StripIn && o.Cost == 7
		}},
		{"failover", map[string]any{"failoverUrls": "a:1,b"}, func(o router.ConnOptions) bool { return len(o.Failover) == 2 }},
	}
	for _, tt := range tests {
		o, err := listenerOptions(entityOf(t, "listener", tt.attrs))
		if err != nil || !tt.check(o) {
			t.Errorf("%s: %+v, error %v", tt.name, o, err)
		}
	}
}

// CFG L8: values come from JSON, keys are symbols.
func TestOpenProperties(t *testing.T) {
	got := openProperties(map[string]any{
		"string": "s", "int": int64(-3), "long": int64(1) << 40, "float": 0.5, "true": true, "null": nil,
		"list": []any{int64(1), "a", nil, map[string]any{}}, "map": map[string]any{"k": []any{}},
	})
	want := amqp.Map{
		{Key: amqp.Symbol("float"), Value: 0.5},
		{Key: amqp.Symbol("int"), Value: int32(-3)},
		{Key: amqp.Symbol("list"), Value: amqp.List{int32(1), "a", nil, amqp.Map{}}},
		{Key: amqp.Symbol("long"), Value: int64(1) << 40},
		{Key: amqp.Symbol("map"), Value: amqp.Map{{Key: "k", Value: amqp.List{}}}},
		{Key: amqp.Symbol("null"), Value: nil},
		{Key: amqp.Symbol("string"), Value: "s"},
		{Key: amqp.Symbol("true"), Value: true},
	}
	if g, w := string(amqp.AppendValue(nil, got)), string(amqp.AppendValue(nil, want)); g != w {
		t.Errorf("got %x\nwant %x", g, w)
	}
}

// Issue 2, part 3: nothing runs more open than its file says.
func TestRefusals(t *testing.T) {
	sasl, _, err := security.LoadSASL(t.TempDir(), "none")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		typeName string
		attrs    map[string]any
		want     string // a part of the reason, "" for none
	}{
		{"listener", nil, ""},
		{"listener", map[string]any{"role": "route-container"}, ""},
		{"listener", map[string]any{"saslMechanisms": "ANONYMOUS"}, ""},
		{"listener", map[string]any{"authenticatePeer": true}, "authentication is required"},
		{"listener", map[string]any{"requireSsl": true}, "encryption is required"},
		{"listener", map[string]any{"requireEncryption": true}, "encryption is required"},
		{"listener", map[string]any{"sslProfile": "p"}, "TLS"},
		{"listener", map[string]any{"saslPlugin": "p"}, "authentication service"},
		{"listener", map[string]any{"role": "inter-router"}, ""},
		{"listener", map[string]any{"role": "edge"}, "edge"},
		{"listener", map[string]any{"http": true}, "HTTP"},
		{"listener", map[string]any{"httpRootDir": "/srv"}, "HTTP"},
		{"listener", map[string]any{"multiTenant": true}, ""},
		{"connector", nil, ""},
		{"connector", map[string]any{"role": "route-container"}, ""},
		{"connector", map[string]any{"role": "inter-router"}, ""},
		{"connector", map[string]any{"role": "edge"}, "edge"},
		{"connector", map[string]any{"sslProfile": "p"}, "TLS"},
	}
	for _, tt := range tests {
		e := entityOf(t, tt.typeName, tt.attrs)
		got := connectorRefusal(e)
		if tt.typeName == "listener" {
			got = listenerRefusal(e, sasl)
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s %v: refusal %q, want one with %q", tt.typeName, tt.attrs, got, tt.want)
		}
	}
}
