package linkroute

import (
	"bytes"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

func raw(v any) amqp.Raw { return amqp.AppendValue(nil, v) }

func symbols(s ...amqp.Symbol) amqp.Raw { return raw(s) }

// full has every field that a source and a target have.
func full() (*amqp.Source, *amqp.Target) {
	return &amqp.Source{
			Address: amqp.Some("lr.s"), Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never", Timeout: amqp.Some(uint32(60)),
			DistributionMode: "copy", Filter: raw(amqp.Map{{Key: amqp.Symbol("selector"), Value: amqp.Described{Descriptor: amqp.Symbol("apache.org:selector-filter:string"), Value: "a = 'b'"}}}),
			DefaultOutcome: amqp.StateReleased, Outcomes: symbols("amqp:accepted:list", "amqp:modified:list"), Capabilities: symbols("queue", "shared"),
		}, &amqp.Target{
			Address: amqp.Some("lr.t"), Durable: amqp.Some(uint32(1)), ExpiryPolicy: "link-detach", Timeout: amqp.Some(uint32(7)), Capabilities: symbols("topic"),
		}
}

// RT L9 to L12: what an attach asks for, and what of it goes on.
func TestOnward(t *testing.T) {
	source, target := full()
	a := &amqp.Attach{
		Name: "mine", Role: amqp.RoleReceiver, Source: source, Target: target, SndSettleMode: amqp.Some(amqp.SndSettleModeSettled),
		Unsettled: raw(amqp.Map{}), MaxMessageSize: amqp.Some(uint64(5)), Properties: raw(amqp.Map{{Key: amqp.Symbol("p"), Value: true}}),
		OfferedCapabilities: symbols("o"), DesiredCapabilities: symbols("d"),
	}
	next := onward(&router.LinkQuery{Attach: a, Container: "cli"}, a)
	if next.Name != "mine@cli" || next.Role != amqp.RoleReceiver {
		t.Errorf("named %q, role %v", next.Name, next.Role)
	}
	if !bytes.Equal(next.Source.Append(nil), source.Append(nil)) || !bytes.Equal(next.Target.Append(nil), target.Append(nil)) {
		t.Errorf("termini %+v, %+v", next.Source, next.Target)
	}
	if !bytes.Equal(next.Properties, a.Properties) || !bytes.Equal(next.OfferedCapabilities, a.OfferedCapabilities) || !bytes.Equal(next.DesiredCapabilities, a.DesiredCapabilities) {
		t.Errorf("of the link: %+v", next)
	}
	if next.SndSettleMode.Set || next.Unsettled != nil || next.MaxMessageSize.Set {
		t.Errorf("of the hop: %+v", next)
	}
	if next := onward(&router.LinkQuery{Attach: a, Container: "R", InterRouter: true}, a); next.Name != "mine" {
		t.Errorf("between routers named %q", next.Name)
	}
}

// RT L12, E35, E36: the address that decides.
func TestAsk(t *testing.T) {
	node := func(key any, value any) amqp.Raw { return raw(amqp.Map{{Key: key, Value: value}}) }
	named := node(amqp.Symbol("x-opt-qd.address"), "dyn")
	for _, tt := range []struct {
		name string
		a    amqp.Attach
		want wanted
	}{
		{"sender", amqp.Attach{Source: &amqp.Source{Address: amqp.Some("s")}, Target: &amqp.Target{Address: amqp.Some("t")}}, wanted{in, "t", false}},
		{"receiver", amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{Address: amqp.Some("s")}}, wanted{out, "s", false}},
		{"anonymous", amqp.Attach{Target: &amqp.Target{}}, wanted{in, "", false}},
		{"no target", amqp.Attach{}, wanted{in, "", false}},
		{"no source", amqp.Attach{Role: amqp.RoleReceiver}, wanted{out, "", false}},
		{"coordinator", amqp.Attach{Coordinator: &amqp.Coordinator{}}, wanted{in, "$coordinator", false}},
		{"dynamic source", amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{Dynamic: true, DynamicNodeProperties: named}}, wanted{out, "dyn", true}},
		{"dynamic target", amqp.Attach{Target: &amqp.Target{Dynamic: true, DynamicNodeProperties: named}}, wanted{in, "dyn", true}},
		{"dynamic without properties", amqp.Attach{Target: &amqp.Target{Dynamic: true}}, wanted{in, "", false}},
		{"another property", amqp.Attach{Target: &amqp.Target{Dynamic: true, DynamicNodeProperties: node(amqp.Symbol("lifetime-policy"), "x")}}, wanted{in, "", false}},
		{"an empty address", amqp.Attach{Target: &amqp.Target{Dynamic: true, DynamicNodeProperties: node(amqp.Symbol("x-opt-qd.address"), "")}}, wanted{in, "", false}},
		{"an address that is no text", amqp.Attach{Target: &amqp.Target{Dynamic: true, DynamicNodeProperties: node(amqp.Symbol("x-opt-qd.address"), int32(1))}}, wanted{in, "", false}},
	} {
		if got := ask(&tt.a); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// RT L33, E23: what outlives its connection.
func TestSurvives(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    amqp.Attach
		want bool
	}{
		{"plain", amqp.Attach{Target: &amqp.Target{ExpiryPolicy: amqp.ExpirySessionEnd}}, false},
		{"timeout", amqp.Attach{Target: &amqp.Target{Timeout: amqp.Some(uint32(10))}}, true},
		{"never", amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{ExpiryPolicy: amqp.ExpiryNever}}, true},
		{"the other end's", amqp.Attach{Source: &amqp.Source{ExpiryPolicy: amqp.ExpiryNever}, Target: &amqp.Target{}}, false},
		{"coordinator", amqp.Attach{Coordinator: &amqp.Coordinator{}}, false},
	} {
		if got := survives(&tt.a); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// RT L8, E18: the far end's answer is the client's, but for the address; in a refusal the client's own
// terminus is there.
func TestAnswer(t *testing.T) {
	source, target := full()
	a := &amqp.Attach{Role: amqp.RoleReceiver, Source: source, Target: target}
	q := &router.LinkQuery{Attach: a, Tenant: "t/"}
	far := &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("X.t/lr.s"), Capabilities: symbols("theirs")}, Target: target, Properties: raw(amqp.Map{})}
	got := answer(q, wanted{out, "lr.s", false}, &space{add: "X."}, true)(far)
	if got.Source.Address.V != "lr.s" || !bytes.Equal(got.Source.Capabilities, far.Source.Capabilities) || !bytes.Equal(got.Properties, far.Properties) {
		t.Errorf("answered %+v", got.Source)
	}
	refused := answer(q, wanted{out, "lr.s", false}, &space{}, true)(&amqp.Attach{})
	if refused.Source != nil || refused.Target != target {
		t.Errorf("refused with %+v", refused)
	}
	q = &router.LinkQuery{Attach: &amqp.Attach{Target: &amqp.Target{Dynamic: true}}}
	dynamic := answer(q, wanted{in, "dyn", true}, &space{add: "X."}, true)(&amqp.Attach{Target: &amqp.Target{Address: amqp.Some("X.chosen"), Dynamic: true}})
	if dynamic.Target.Address.V != "X.chosen" {
		t.Errorf("the dynamic address is %q", dynamic.Target.Address.V)
	}
}
