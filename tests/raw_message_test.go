package tests

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router"
)

// withStrip sets stripAnnotations.
func withStrip(mode string) func(*rawConfig) {
	return withConn(func(o *router.ConnOptions) {
		o.StripIn = mode == "in" || mode == "both"
		o.StripOut = mode == "out" || mode == "both"
	})
}

// oddSections is a message encoded as nobody would, cut where message
// annotations belong.
func oddSections(to string) (before, behind []byte) {
	// A header with a long descriptor and a long list: durable, priority 7, ttl, first-acquirer, delivery-count.
	before = append(before, 0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x70, 0xd0, 0, 0, 0, 20, 0, 0, 0, 5,
		0x56, 1, 0x50, 7, 0x70, 0, 0, 0x0e, 0x10, 0x56, 1, 0x70, 0, 0, 0, 9)
	// Delivery annotations with a symbolic descriptor, and a key that looks like a router's.
	before = append(before, 0x00, 0xa3, 29)
	before = append(before, "amqp:delivery-annotations:map"...)
	before = amqp.AppendValue(before, amqp.Map{{Key: amqp.Symbol("x-opt-qd.to"), Value: "elsewhere"}})
	behind = (&amqp.Properties{MessageID: amqp.UUID{1, 2, 3}, UserID: []byte("me"), To: amqp.Some(to), Subject: amqp.Some("s"),
		CorrelationID: uint64(7), ContentType: "text/plain", AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(1))}).Append(behind)
	behind = append(behind, 0x00, 0x53, 0x74, 0xd1, 0, 0, 0, 11, 0, 0, 0, 2, 0xb1, 0, 0, 0, 1, 'k', 0x44) // application properties
	for _, part := range []string{"one", "two"} {
		behind = append(behind, 0x00, 0x53, 0x75, 0xb0, 0, 0, 0, 3)
		behind = append(behind, part...)
	}
	behind = append(behind, 0x00, 0x53, 0x78, 0xc1, 1, 0) // footer
	return before, behind
}

// annotationSection is a message annotations section.
func annotationSection(m amqp.Map) []byte {
	if m == nil {
		return nil
	}
	return amqp.AppendValue([]byte{0x00, 0x53, 0x72}, m)
}

func entry(key string, value any) amqp.MapEntry {
	return amqp.MapEntry{Key: amqp.Symbol(key), Value: value}
}

// RT F79 to F83: the four ways of stripAnnotations, for named and anonymous
// senders. All but the message annotations goes through octet by octet.
func TestF81StripAnnotations(t *testing.T) {
	user := amqp.Map{entry("first", int32(1)), entry("x-mine", amqp.List{"a", nil}), {Key: uint64(7), Value: "numbered"}}
	foreign := amqp.Map{entry("x-opt-qd.to", "q"), entry("x-opt-qd.ingress", "0/OTHER"), entry("x-opt-qd.trace", amqp.List{"0/OTHER"})}
	mixed := amqp.Map{user[0], foreign[0], foreign[1], user[1], foreign[2], user[2], entry("x-opt-qd.class", int32(3)), entry("x-opt-qd.", "old")}
	like := amqp.Map{entry("x-opt-qd.unheard-of", "the user's"), entry("x-opt-qdx", int32(1)), entry("x-opt-qd", int32(2))}

	fresh := amqp.Map{entry("x-opt-qd.ingress", "0/R"), entry("x-opt-qd.trace", amqp.List{"0/R"})}
	extended := amqp.Map{entry("x-opt-qd.ingress", "0/OTHER"), entry("x-opt-qd.trace", amqp.List{"0/OTHER", "0/R"})}
	to := amqp.Map{entry("x-opt-qd.to", "q")}
	cat := func(maps ...amqp.Map) amqp.Map { return slices.Concat(maps...) }

	tests := []struct {
		name string
		sent amqp.Map
		want map[string]amqp.Map // by mode; nil is no section
		anon map[string]amqp.Map // where anonymous senders differ
	}{
		{"none", nil,
			map[string]amqp.Map{"no": cat(to, fresh), "in": cat(to, fresh), "out": nil, "both": nil},
			map[string]amqp.Map{"no": fresh, "in": fresh}},
		{"an empty section", amqp.Map{},
			map[string]amqp.Map{"no": cat(to, fresh), "in": cat(to, fresh), "out": nil, "both": nil},
			map[string]amqp.Map{"no": fresh, "in": fresh}},
		{"the user's", user,
			map[string]amqp.Map{"no": cat(user, to, fresh), "in": cat(user, to, fresh), "out": user, "both": user},
			map[string]amqp.Map{"no": cat(user, fresh), "in": cat(user, fresh)}},
		{"a router's", foreign,
			map[string]amqp.Map{"no": cat(to, extended), "in": cat(to, fresh), "out": nil, "both": nil},
			map[string]amqp.Map{"in": fresh}},
		{"both in turn", mixed, // F82, F83
			map[string]amqp.Map{"no": cat(user, to, extended), "in": cat(user, to, fresh), "out": user, "both": user},
			map[string]amqp.Map{"in": cat(user, fresh)}},
		{"keys that look like a router's", like,
			map[string]amqp.Map{"no": cat(like, to, fresh), "in": cat(like, to, fresh), "out": like, "both": like},
			map[string]amqp.Map{"no": cat(like, fresh), "in": cat(like, fresh)}},
	}
	for _, mode := range []string{"no", "in", "out", "both"} {
		t.Run(mode, func(t *testing.T) {
			r := startRouter(t, withStrip(mode))
			before := r.counts()
			p := r.session(t)
			in := p.receiver("q", 1000)
			links := map[string]*rawLink{"named": p.sender("q"), "anonymous": p.anonymous()}
			for _, tt := range tests {
				for kind, l := range links {
					want := tt.want[mode]
					if m, ok := tt.anon[mode]; ok && kind == "anonymous" {
						want = m
					}
					check := func(t *testing.T, d *rawDelivery, head, tail []byte) {
						t.Helper()
						s, err := amqp.WalkMessage(d.payload, amqp.DepthAll, true)
						if err != nil {
							t.Fatalf("%v: %x", err, d.payload)
						}
						section := s.MessageAnnotations
						var got amqp.Map
						if section.Present() {
							v, err := section.Value(d.payload).Value()
							if err != nil {
								t.Fatal(err)
							}
							got = v.(amqp.Map)
						} else {
							section = amqp.Range{Start: len(head), End: len(head)}
						}
						if !reflect.DeepEqual(got, want) {
							t.Errorf("annotations %v, want %v", got, want)
						}
						if !bytes.Equal(d.payload[:section.Start], head) {
							t.Errorf("before the annotations %x, want %x", d.payload[:section.Start], head)
						}
						if !bytes.Equal(d.payload[section.End:], tail) {
							t.Errorf("behind the annotations %d octets, not the %d as sent", len(d.payload)-section.End, len(tail))
						}
					}
					t.Run(kind+"/"+tt.name, func(t *testing.T) {
						head, tail := oddSections("q")
						payload := slices.Concat(head, annotationSection(tt.sent), tail)
						l.send(payload, true)
						check(t, in.receive(), head, tail)
						// In pieces, and without anything before.
						tail = rawMessageTo("q", "x")
						b, _ := l.parts(split(slices.Concat(annotationSection(tt.sent), tail), 5), func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(true) })
						p.write(b...)
						check(t, in.receive(), nil, tail)
						// Streamed.
						tail = (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some("q")}, Body: make([]byte, 300_000), BodyKind: amqp.BodyData}).Append(nil)
						b, _ = l.parts(split(slices.Concat(head, annotationSection(tt.sent), tail), 16_000), func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(true) })
						p.write(b...)
						check(t, in.receive(), head, tail)
					})
				}
			}
			r.flush(t, p)
			p.forgetFlows()
			r.quiet(t, p)
			p.close()
			r.healthy(t, before)
		})
	}
}

// RT F79: without annotations on either side a message is the same octets,
// whatever they are behind what routing needs.
func TestF79Preserved(t *testing.T) {
	head, tail := oddSections("q")
	tests := map[string][]byte{
		"odd encodings":                slices.Concat(head, tail),
		"one section":                  rawMessage("x"),
		"no body":                      (&amqp.Properties{To: amqp.Some("q")}).Append(nil),
		"an application's own garbage": append((&amqp.Properties{To: amqp.Some("q")}).Append(nil), "\x00\x53\x75 what follows is no AMQP"...),
		"sequence bodies":              (&amqp.Message{Properties: &amqp.Properties{To: amqp.Some("q")}, Body: []amqp.List{{int32(1)}, {}, {"two"}}, BodyKind: amqp.BodySequence}).Append(nil),
	}
	r := startRouter(t)
	before := r.counts()
	p := r.session(t)
	in := p.receiver("q", 1000)
	for kind, l := range map[string]*rawLink{"named": p.sender("q"), "anonymous": p.anonymous()} {
		for name, payload := range tests {
			if kind == "anonymous" && name == "one section" {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				for _, settled := range []bool{true, false} {
					id := l.send(payload, settled)
					d := in.receive()
					if !bytes.Equal(d.payload, payload) {
						t.Errorf("got  %x\nwant %x", d.payload, payload)
					}
					if !settled {
						in.settle(d, amqp.StateAccepted)
						if got := p.outcomes(id)[id]; got != "accepted" {
							t.Errorf("outcome %s", got)
						}
					}
				}
			})
		}
	}
	p.close()
	r.healthy(t, before)
}

// RT F17, F80: the phase is told when it is not 0, before the rest.
func TestF17Phase(t *testing.T) {
	capability := func(s amqp.Symbol) amqp.Raw { return amqp.AppendValue(nil, s) }
	r := startRouter(t, withStrip("no"))
	p := r.session(t)
	in := p.attachReceiver(0, &amqp.Attach{Source: &amqp.Source{Address: amqp.Some("w"), Capabilities: capability("qd.waypoint.3")}}, 100)
	named := p.attachSender(0, &amqp.Attach{Target: &amqp.Target{Address: amqp.Some("w"), Capabilities: capability("qd.waypoint.2")}})
	named.awaitCredit(250)
	anonymous := p.anonymous()
	anonymous.awaitCredit(250)
	want := amqp.Map{entry("u", "x"), entry("x-opt-qd.phase", int32(2)), entry("x-opt-qd.stream", int32(1)), entry("x-opt-qd.to", "w"),
		entry("x-opt-qd.ingress", "0/R"), entry("x-opt-qd.trace", amqp.List{"0/R"})}
	check := func(name string) {
		t.Helper()
		m, err := amqp.DecodeMessage(in.receive().payload)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m.MessageAnnotations, want) {
			t.Errorf("%s: annotations %v, want %v", name, m.MessageAnnotations, want)
		}
	}
	named.send((&amqp.Message{MessageAnnotations: amqp.Map{entry("x-opt-qd.stream", int32(1)), entry("u", "x")}, Body: "x"}).Append(nil), true)
	check("named")
	anonymous.send((&amqp.Message{MessageAnnotations: amqp.Map{entry("x-opt-qd.to", "w"), entry("x-opt-qd.phase", int32(2)),
		entry("x-opt-qd.stream", int32(1)), entry("u", "x")}, Properties: &amqp.Properties{To: amqp.Some("elsewhere")}, Body: "x"}).Append(nil), true)
	check("anonymous")
	id := anonymous.send((&amqp.Message{MessageAnnotations: amqp.Map{entry("x-opt-qd.to", "w")}, Body: "x"}).Append(nil), false)
	if got := p.outcomes(id)[id]; got != "released" {
		t.Errorf("outcome %s at phase 0, where nobody is", got)
	}
}

// RT F59: what carries x-opt-qd.stream is forwarded as it arrives, however short.
func TestF59StreamAnnotation(t *testing.T) {
	payload := (&amqp.Message{MessageAnnotations: amqp.Map{entry("x-opt-qd.stream", int32(1))}, Body: strings.Repeat("x", 1000)}).Append(nil)
	for mode, streams := range map[string]bool{"no": true, "both": false} {
		t.Run(mode, func(t *testing.T) {
			x := newPair(t, 10, withStrip(mode))
			b, _ := x.out.parts(split(payload, 200), func(_ int, t *amqp.Transfer) { t.Settled = amqp.Some(true) })
			x.p.write(b[:3]...)
			x.r.flush(t, x.p, x.c)
			if n := x.in.waiting(); n > 0 != streams {
				t.Errorf("%d transfers came of the half", n)
			}
			x.p.write(b[3:]...)
			if got := x.in.receive().body(); got != strings.Repeat("x", 1000) {
				t.Errorf("received %q", got)
			}
			x.end(t)
		})
	}
}

// RT E57, F52: a message that has been around is released.
func TestE57HopLimit(t *testing.T) {
	x := newPair(t, 100, withStrip("no"))
	for hops, want := range map[int]string{0: "accepted", 1: "accepted", 2: "released", 100: "released"} {
		trace := amqp.List{}
		for i := range hops {
			trace = append(trace, fmt.Sprint("0/", i))
		}
		id := x.out.send((&amqp.Message{MessageAnnotations: amqp.Map{entry("x-opt-qd.trace", trace)}, Body: "x"}).Append(nil), false)
		if want == "accepted" {
			x.in.settle(x.in.receive(), amqp.StateAccepted)
		}
		if got := x.p.outcomes(id)[id]; got != want {
			t.Errorf("outcome with %d hops %s, want %s", hops, got, want)
		}
		x.out.awaitCredit(250)
	}
	x.end(t)
}

// RT F86: each copy has a tag of eight octets of its own, and the message
// format of its sender.
func TestF86TagAndFormat(t *testing.T) {
	r := startRouter(t, withDistributions(router.Balanced))
	f := r.fan(t, "multicast/q", 100, 100)
	p := r.session(t)
	l := p.sender("multicast/q")
	l.awaitCredit(250)
	seen := map[string]bool{}
	for _, format := range []uint32{0, 1, 0x80013700, 0xffffffff} {
		for _, payload := range [][]byte{rawMessage("x"), data(50_000), data(300_000)} {
			b, _ := l.parts(split(payload, 16_000), func(i int, t *amqp.Transfer) {
				if i == 0 {
					t.MessageFormat = amqp.Some(format)
					t.RcvSettleMode = amqp.Some(amqp.RcvSettleModeSecond)
				}
				t.Batchable = true
			})
			p.write(b...)
			for i, in := range f.links {
				d := in.receive()
				tag := fmt.Sprint(i, d.DeliveryTag)
				if len(d.DeliveryTag) != 8 || seen[tag] {
					t.Errorf("receiver %d: tag %x, seen %t", i, d.DeliveryTag, seen[tag])
				}
				seen[tag] = true
				if d.MessageFormat.V != format {
					t.Errorf("receiver %d: format %#x, want %#x", i, d.MessageFormat.V, format)
				}
				if d.Batchable || d.RcvSettleMode.Set {
					t.Errorf("receiver %d: batchable %t, rcv-settle-mode %v", i, d.Batchable, d.RcvSettleMode)
				}
				in.settle(d, amqp.StateAccepted)
			}
		}
		l.awaitCredit(250)
	}
}

// RT E43: the prefix of a tenant is visible to those who are none.
func TestE43MultiTenant(t *testing.T) {
	r := startRouter(t, withConn(func(o *router.ConnOptions) { o.MultiTenant, o.StripIn, o.StripOut = true, false, false }))
	before := r.counts()
	tenant := func(host string) *rawPeer {
		p := r.dial(t)
		o := &amqp.Open{ContainerID: "raw"}
		if host != "" {
			o.Hostname = amqp.Some(host)
		}
		p.openWith(o)
		p.begin(0)
		return p
	}
	blue, green, plain := tenant("blue"), tenant("green"), tenant("")
	inBlue, inGreen, inPlain := blue.receiver("q", 100), green.receiver("q", 100), plain.receiver("q", 100)
	outside := plain.receiver("blue/q", 0)
	if got := r.link(t, inBlue.name).OwningAddr; got != "M0blue/q" {
		t.Errorf("tenant's address is %s", got)
	}
	if got := r.link(t, outside.name).OwningAddr; got != "M0blue/q" {
		t.Errorf("plain address is %s", got)
	}
	outside.detach(true)
	for name, tt := range map[string]struct {
		p    *rawPeer
		in   *rawLink
		want string // x-opt-qd.to
	}{
		"blue": {blue, inBlue, "blue/q"}, "green": {green, inGreen, "green/q"}, "plain": {plain, inPlain, "q"},
	} {
		t.Run(name, func(t *testing.T) {
			l, a := tt.p.sender("q"), tt.p.anonymous()
			l.awaitCredit(250)
			a.awaitCredit(250)
			for kind, out := range map[string]*rawLink{"named": l, "anonymous": a} {
				out.send(rawMessageTo("q", name), true)
				d := tt.in.receive()
				if d.body() != name {
					t.Errorf("received %q", d.body())
				}
				m, err := amqp.DecodeMessage(d.payload)
				if err != nil {
					t.Fatal(err)
				}
				got, _ := m.MessageAnnotations.Get("x-opt-qd.to")
				if kind == "anonymous" && name == "plain" {
					if got != nil {
						t.Errorf("x-opt-qd.to %v of an anonymous sender", got)
					}
				} else if got != tt.want {
					t.Errorf("%s: x-opt-qd.to %v, want %s", kind, got, tt.want)
				}
			}
		})
	}
	for _, p := range []*rawPeer{blue, green, plain} {
		p.held = nil
		p.close()
	}
	r.healthy(t, before)
}
