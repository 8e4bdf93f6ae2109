package router

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"qdrouter/amqp"
	"qdrouter/router/linkstate"
)

// The two encodings that were recorded on the wire of 1.19 (IR 2.16).
const (
	goldenHello = `
005370d0000000050000000142005372c13004a310782d6f70742d71642e696e
6772657373a103302f42a30e782d6f70742d71642e7472616365c00601a10330
2f42005373d00000001f000000064040a114616d71703a2f5f6c6f63616c2f71
6468656c6c6f404040005374d10000001300000002a1066f70636f6465a10548
454c4c4f005377d10000003b0000000aa1026964a10142a10270765401a10461
726561a10130a108696e7374616e6365716b0c6fb7a1047365656ed000000007
00000001a10141`
	goldenMAU = `
005370d0000000050000000142005372c13004a310782d6f70742d71642e696e
6772657373a103302f41a30e782d6f70742d71642e7472616365c00601a10330
2f41005373d00000001f000000034040a1175f746f706f2f302f616c6c2f7164
726f757465722e6d61005374d10000001100000002a3066f70636f6465a1034d
4155005377d1000000720000000ea3026964a10141a30270765501a304617265
61a10130a30a6d6f62696c655f7365715501a30568696e7473d00000000a0000
0003540354035403a303616464d00000001c00000003a1064d4666622f31a106
4d3177702f31a1064d3077702f32a30364656cd00000000400000000`
)

func golden(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestControlMessagesAsRecorded holds encoder and decoder to the octets of 1.19 (IR 2.16).
func TestControlMessagesAsRecorded(t *testing.T) {
	tests := []struct {
		name, wire, to, node string
		msg                  linkstate.Message
	}{
		{"HELLO", goldenHello, "amqp:/_local/qdhello", "0/B",
			&linkstate.Hello{ID: "B", Version: 1, Area: "0", Instance: 0x6b0c6fb7, Seen: []string{"A"}}},
		{"differential MAU", goldenMAU, "_topo/0/all/qdrouter.ma", "0/A",
			&linkstate.MAU{ID: "A", Version: 1, Area: "0", MobileSeq: 1, Treatments: []linkstate.Treatment{3, 3, 3},
				Add: []string{"MFfb/1", "M1wp/1", "M0wp/2"}, Delete: []string{}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := golden(t, tt.wire)
			if got := encodeControl(tt.to, tt.msg, tt.node); !bytes.Equal(got, want) {
				t.Errorf("encoded as\n%x, want\n%x", got, want)
			}
			got, err := decodeControl(want)
			if err != nil || !reflect.DeepEqual(got, tt.msg) {
				t.Errorf("decoded as %#v, %v, want %#v", got, err, tt.msg)
			}
		})
	}
}

// TestControlMessageFields holds every message to the field tables: keys, their order and whether
// they are strings or symbols, and the types of the values (IR 2.1, 2.3).
func TestControlMessageFields(t *testing.T) {
	type symbols = amqp.Symbol
	const id, area = "A", "0"
	tests := []struct {
		msg     linkstate.Message
		opcode  any // key of the application property
		to      int // fields of the properties, the last that count being to and three nulls
		body    amqp.Map
		octets  string // of one value, as its width counts
		comment string
	}{
		{&linkstate.Hello{ID: id, Version: 1, Area: area, Instance: 1 << 40, Seen: []string{"B"}}, "opcode", 6,
			amqp.Map{{Key: "id", Value: id}, {Key: "pv", Value: int32(1)}, {Key: "area", Value: area},
				{Key: "instance", Value: int64(1 << 40)}, {Key: "seen", Value: amqp.List{"B"}}},
			"a108696e7374616e636581", "a long instance"},
		{&linkstate.Hello{ID: id, Version: 1, Area: area, Instance: 100, Seen: []string{}}, "opcode", 6,
			amqp.Map{{Key: "id", Value: id}, {Key: "pv", Value: int32(1)}, {Key: "area", Value: area},
				{Key: "instance", Value: int32(100)}, {Key: "seen", Value: amqp.List{}}},
			"a1047365656e45", "list0 for nobody seen"},
		{&linkstate.RA{ID: id, Version: 1, Area: area, Instance: 1790000000, LSSeq: 7, MobileSeq: 200}, "opcode", 6,
			amqp.Map{{Key: "id", Value: id}, {Key: "pv", Value: int32(1)}, {Key: "area", Value: area},
				{Key: "instance", Value: int32(1790000000)}, {Key: "ls_seq", Value: int32(7)}, {Key: "mobile_seq", Value: int32(200)}},
			"a1066c735f7365715407a10a6d6f62696c655f73657171000000c8", "smallint and int"},
		{&linkstate.LSU{ID: id, Version: 1, Area: area, Instance: 3, LSSeq: 9, LinkState: linkstate.LinkState{
			ID: id, Area: area, LSSeq: 9, Peers: []linkstate.Peer{{ID: "C", Cost: 300}, {ID: "B", Cost: 1}}}}, "opcode", 6,
			amqp.Map{{Key: "id", Value: id}, {Key: "pv", Value: int32(1)}, {Key: "area", Value: area},
				{Key: "instance", Value: int32(3)}, {Key: "ls_seq", Value: int32(9)}, {Key: "ls", Value: amqp.Map{
					{Key: "id", Value: id}, {Key: "area", Value: area}, {Key: "ls_seq", Value: int32(9)},
					{Key: "peers", Value: amqp.Map{{Key: "C", Value: int32(300)}, {Key: "B", Value: int32(1)}}}}}},
			"a10143710000012ca101425401", "costs as int"},
		{&linkstate.LSR{ID: id, Version: 1, Area: area}, "opcode", 6,
			amqp.Map{{Key: "id", Value: id}, {Key: "pv", Value: int32(1)}, {Key: "area", Value: area}},
			"a10270765401", "and nothing else"},
		{&linkstate.MAR{ID: id, Version: 1, Area: area, HaveSeq: 300}, symbols("opcode"), 3,
			amqp.Map{{Key: symbols("id"), Value: id}, {Key: symbols("pv"), Value: int64(1)}, {Key: symbols("area"), Value: area},
				{Key: symbols("have_seq"), Value: int64(300)}},
			"a308686176655f73657181000000000000012c", "long"},
		{&linkstate.MAU{ID: id, Version: 1, Area: area, MobileSeq: 5, Treatments: []linkstate.Treatment{1, 2},
			Add: []string{"M0q", "Celr"}, Delete: []string{"M1w"}}, symbols("opcode"), 3,
			amqp.Map{{Key: symbols("id"), Value: id}, {Key: symbols("pv"), Value: int64(1)}, {Key: symbols("area"), Value: area},
				{Key: symbols("mobile_seq"), Value: int64(5)}, {Key: symbols("hints"), Value: amqp.List{int32(1), int32(2)}},
				{Key: symbols("add"), Value: amqp.List{"M0q", "Celr"}}, {Key: symbols("del"), Value: amqp.List{"M1w"}}},
			"a30a6d6f62696c655f7365715505", "smalllong"},
		{&linkstate.MAU{ID: id, Version: 1, Area: area, MobileSeq: 6, Treatments: []linkstate.Treatment{3}, Exist: []string{"M0q"}},
			symbols("opcode"), 3,
			amqp.Map{{Key: symbols("id"), Value: id}, {Key: symbols("pv"), Value: int64(1)}, {Key: symbols("area"), Value: area},
				{Key: symbols("mobile_seq"), Value: int64(6)}, {Key: symbols("exist"), Value: amqp.List{"M0q"}},
				{Key: symbols("hints"), Value: amqp.List{int32(3)}}},
			"a3056578697374d0", "exist before hints"},
	}
	for _, tt := range tests {
		t.Run(tt.msg.Opcode()+", "+tt.comment, func(t *testing.T) {
			const to = "amqp:/_topo/0/B/qdrouter"
			b := encodeControl(to, tt.msg, "0/A")
			m, err := amqp.DecodeMessage(b)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(m.Body, tt.body) {
				t.Errorf("body %#v, want %#v", m.Body, tt.body)
			}
			if want := (amqp.Map{{Key: tt.opcode, Value: tt.msg.Opcode()}}); !reflect.DeepEqual(m.ApplicationProperties, want) {
				t.Errorf("application properties %#v, want %#v", m.ApplicationProperties, want)
			}
			if want := golden(t, tt.octets); !bytes.Contains(b, want) {
				t.Errorf("%x is not in\n%x", want, b)
			}
			// The sections in front: durable = false alone; message-id and user-id null, then to.
			if want := golden(t, "005370d00000000500000001420053 72c1"); !bytes.HasPrefix(b, want) {
				t.Errorf("begins with %x, want %x", b[:len(want)], want)
			}
			properties := append([]byte{0x40, 0x40, 0xa1, byte(len(to))}, to...)
			properties = append(properties, bytes.Repeat([]byte{0x40}, tt.to-3)...)
			properties = append([]byte{0, 0x53, 0x73, 0xd0, 0, 0, 0, byte(len(properties) + 4), 0, 0, 0, byte(tt.to)}, properties...)
			if !bytes.Contains(b, append(properties, 0, 0x53, 0x74)) {
				t.Errorf("properties %x are not in\n%x", properties, b)
			}
			got, err := decodeControl(b)
			if err != nil || !reflect.DeepEqual(got, tt.msg) {
				t.Errorf("read back as %#v, %v, want %#v", got, err, tt.msg)
			}
		})
	}
}

// TestControlMessagesSurvive encodes every message of the field tables and reads it back (IR 2.3),
// with the to, header, ingress and trace that other routers go by (IR 2.1, 2.14).
func TestControlMessagesSurvive(t *testing.T) {
	long := strings.Repeat("r", 127)
	tests := []linkstate.Message{
		&linkstate.Hello{ID: long, Version: 1, Area: "0", Instance: 1 << 33, Seen: []string{}},
		&linkstate.Hello{ID: "A", Version: 1, Area: "0", Instance: 5, Seen: []string{"B", "C"}},
		&linkstate.RA{ID: "A", Version: 1, Area: "0", Instance: 1790000000, LSSeq: 7, MobileSeq: 200},
		&linkstate.LSU{ID: "A", Version: 1, Area: "0", Instance: 3, LSSeq: 9, LinkState: linkstate.LinkState{
			ID: "A", Area: "0", LSSeq: 9, Peers: []linkstate.Peer{{ID: "B", Cost: 1}, {ID: "C", Cost: 300}}}},
		&linkstate.LSR{ID: "A", Version: 1, Area: "0"},
		&linkstate.MAR{ID: "A", Version: 1, Area: "0", HaveSeq: 0},
		&linkstate.MAU{ID: "A", Version: 1, Area: "0", MobileSeq: 300, Treatments: []linkstate.Treatment{1, 2}, Exist: []string{"M0q", "M1w"}},
		&linkstate.MAU{ID: "A", Version: 1, Area: "0", MobileSeq: 2, Treatments: []linkstate.Treatment{}, Add: []string{}, Delete: []string{"M0q"}},
	}
	for _, want := range tests {
		b := encodeControl("amqp:/_topo/0/B/qdrouter", want, "0/"+long)
		got, err := decodeControl(b)
		if err != nil || got.String() != want.String() {
			t.Errorf("%s: decoded as %v, %v, want %v", want.Opcode(), got, err, want)
			continue
		}
		m, err := amqp.DecodeMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		var n annotations
		s, _ := amqp.WalkMessage(b, amqp.DepthMessageAnnotations, true)
		if e := n.read(s.MessageAnnotations.Value(b), false); e != nil {
			t.Errorf("%s: annotations: %v", want.Opcode(), e)
		}
		if m.Properties.To.V != "amqp:/_topo/0/B/qdrouter" || string(n.ingress) != "0/"+long || n.hops != 1 || !n.passed([]byte("0/"+long)) {
			t.Errorf("%s: to %q, ingress %q, %d hops", want.Opcode(), m.Properties.To.V, n.ingress, n.hops)
		}
	}
}

// controlMessage is a control message with the body a test wants.
func controlMessage(opcode string, body any) []byte {
	m := amqp.Message{ApplicationProperties: amqp.Map{{Key: "opcode", Value: opcode}}, Body: body}
	return m.Append(nil)
}

// TestControlMessageFaults are refused with a reason (IR 2.4).
func TestControlMessageFaults(t *testing.T) {
	without := func(m amqp.Map, key string) amqp.Map {
		return slices.DeleteFunc(slices.Clone(m), func(e amqp.MapEntry) bool { return e.Key == key })
	}
	with := func(m amqp.Map, key string, value any) amqp.Map {
		return append(without(m, key), amqp.MapEntry{Key: key, Value: value})
	}
	ra := amqp.Map{{Key: "id", Value: "A"}, {Key: "ls_seq", Value: int32(1)}, {Key: "mobile_seq", Value: int32(1)}}
	ls := amqp.Map{{Key: "id", Value: "A"}, {Key: "ls_seq", Value: int32(1)}, {Key: "peers", Value: amqp.Map{}}}
	lsu := amqp.Map{{Key: "id", Value: "A"}, {Key: "ls_seq", Value: int32(1)}, {Key: "ls", Value: ls}}
	for _, whole := range [][]byte{controlMessage("RA", ra), controlMessage("LSU", lsu)} {
		if _, err := decodeControl(whole); err != nil {
			t.Errorf("nothing is missing: %v", err)
		}
	}
	tests := []struct {
		name string
		msg  []byte
		want string
	}{
		{"unknown opcode", controlMessage("XYZ", amqp.Map{}), "opcode XYZ"},
		{"no map", controlMessage("RA", "x"), "no map"},
		{"HELLO without id", controlMessage("HELLO", amqp.Map{{Key: "seen", Value: amqp.List{}}}), `"id"`},
		{"HELLO without seen", controlMessage("HELLO", amqp.Map{{Key: "id", Value: "A"}}), `"seen"`},
		{"RA without ls_seq", controlMessage("RA", amqp.Map{{Key: "id", Value: "A"}, {Key: "mobile_seq", Value: int32(1)}}), `"ls_seq"`},
		{"RA without id", controlMessage("RA", without(ra, "id")), `"id"`},
		{"RA without mobile_seq", controlMessage("RA", without(ra, "mobile_seq")), `"mobile_seq"`},
		{"RA with a text for a number", controlMessage("RA", with(ra, "ls_seq", "4")), `"ls_seq"`},
		{"LSU without id", controlMessage("LSU", without(lsu, "id")), `"id"`},
		{"LSU without ls_seq", controlMessage("LSU", without(lsu, "ls_seq")), `"ls_seq"`},
		{"LSU without ls", controlMessage("LSU", without(lsu, "ls")), "ls"},
		{"LSU without id in ls", controlMessage("LSU", with(lsu, "ls", without(ls, "id"))), `"id"`},
		{"LSU without ls_seq in ls", controlMessage("LSU", with(lsu, "ls", without(ls, "ls_seq"))), `"ls_seq"`},
		{"LSU without peers", controlMessage("LSU", with(lsu, "ls", without(ls, "peers"))), "peers"},
		{"LSR without id", controlMessage("LSR", amqp.Map{{Key: "pv", Value: int32(1)}}), `"id"`},
		{"MAR without id", controlMessage("MAR", amqp.Map{{Key: "have_seq", Value: int64(1)}}), `"id"`},
		{"MAR without have_seq", controlMessage("MAR", amqp.Map{{Key: "id", Value: "A"}}), `"have_seq"`},
		{"MAU without id", controlMessage("MAU", amqp.Map{{Key: "mobile_seq", Value: int64(1)}}), `"id"`},
		{"MAU without mobile_seq", controlMessage("MAU", amqp.Map{{Key: "id", Value: "A"}}), `"mobile_seq"`},
	}
	for _, tt := range tests {
		_, err := decodeControl(tt.msg)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
		if want := strings.HasPrefix(tt.name, "MA") || strings.HasPrefix(tt.name, "unknown"); errors.Is(err, errIgnored) != want {
			t.Errorf("%s: dropped without a word is %t, want %t", tt.name, !want, want)
		}
	}
	// Addresses that are no list make an MAU malformed, which the link state logs.
	for _, key := range []string{"add", "del", "exist"} {
		m, err := decodeControl(controlMessage("MAU", amqp.Map{{Key: "id", Value: "A"}, {Key: "mobile_seq", Value: int64(1)}, {Key: key, Value: "M0q"}}))
		if u, ok := m.(*linkstate.MAU); err != nil || !ok || !u.Malformed {
			t.Errorf("%s that is no list: %v, %v, want a malformed MAU", key, m, err)
		}
	}
	// Other integer widths, symbols and unknown keys are accepted.
	m, err := decodeControl(controlMessage("RA", amqp.Map{{Key: amqp.Symbol("id"), Value: amqp.Symbol("A")}, {Key: "x", Value: true},
		{Key: "ls_seq", Value: uint64(4)}, {Key: "mobile_seq", Value: uint8(2)}}))
	want := &linkstate.RA{ID: "A", LSSeq: 4, MobileSeq: 2}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("tolerant RA: %v, %v, want %v", m, err, want)
	}
}

func FuzzDecodeControl(f *testing.F) {
	for _, s := range []string{goldenHello, goldenMAU} {
		b, _ := hex.DecodeString(strings.Join(strings.Fields(s), ""))
		f.Add(b)
	}
	// Every combination of lists, as a peer that is not ours may leave out or send them.
	for _, keys := range [][]string{{}, {"add"}, {"del"}, {"exist"}, {"hints"}, {"add", "del", "exist"}, {"add", "exist", "hints"}} {
		body := amqp.Map{{Key: amqp.Symbol("id"), Value: "A"}, {Key: amqp.Symbol("mobile_seq"), Value: int64(1)}}
		for _, key := range keys {
			body = append(body, amqp.MapEntry{Key: amqp.Symbol(key), Value: amqp.List{}})
		}
		f.Add(controlMessage("MAU", body))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeControl(b)
		if err != nil {
			return
		}
		again, err := decodeControl(encodeControl("x", m, "0/A"))
		if want := asWritten(m); err != nil || again.String() != want.String() {
			t.Errorf("%v becomes %v, %v, want %v", m, again, err, want)
		}
	})
}

// asWritten is what is left of a message that is encoded: an MAU always has its lists of changes
// and hints, or the list of what exists in place of the changes (IR 2.3).
func asWritten(m linkstate.Message) linkstate.Message {
	u, ok := m.(*linkstate.MAU)
	if !ok {
		return m
	}
	w := *u
	w.Treatments = append([]linkstate.Treatment{}, u.Treatments...)
	if u.Exist != nil {
		w.Add, w.Delete = nil, nil
	} else {
		w.Add, w.Delete = append([]string{}, u.Add...), append([]string{}, u.Delete...)
	}
	return &w
}
