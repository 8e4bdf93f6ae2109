package client

import (
	"math"
	"reflect"
	"testing"

	"qdrouter/amqp"
)

func TestPlain(t *testing.T) {
	for _, tt := range []struct{ in, want any }{
		{nil, nil},
		{true, true},
		{"s", "s"},
		{uint8(1), int64(1)},
		{uint16(1), int64(1)},
		{uint32(1), int64(1)},
		{uint64(1), int64(1)},
		{uint64(math.MaxInt64) + 1, uint64(math.MaxInt64) + 1},
		{int8(-1), int64(-1)},
		{int16(-1), int64(-1)},
		{int32(-1), int64(-1)},
		{int64(-1), int64(-1)},
		{float32(0.5), 0.5},
		{0.25, 0.25},
		{[]byte("bin"), "bin"},
		{amqp.Symbol("sym"), "sym"},
		{amqp.Char('é'), "é"},
		{amqp.Timestamp(7), int64(7)},
		{amqp.UUID{0: 0x12, 15: 0xef}, "12000000-0000-0000-0000-0000000000ef"},
		{amqp.List{uint8(1), amqp.List{}}, []any{int64(1), []any{}}},
		{amqp.Array{Items: []any{amqp.Symbol("a")}}, []any{"a"}},
		{amqp.Map{{Key: "z", Value: uint8(1)}, {Key: amqp.Symbol("a"), Value: nil}, {Key: uint32(5), Value: true}},
			Map{{"z", int64(1)}, {"a", nil}, {"5", true}}},
		{amqp.Described{Descriptor: uint64(1), Value: int8(2)}, int64(2)},
	} {
		if got := plain(tt.in); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("plain(%#v) = %#v, want %#v", tt.in, got, tt.want)
		}
	}
}

func TestWire(t *testing.T) {
	in := Map{{"m", Map{{"x", int64(1)}}}, {"l", []any{Map{}, nil}}, {"s", "t"}}
	want := map[string]any{
		"m": map[string]any{"x": int64(1)},
		"l": []any{map[string]any{}, nil},
		"s": "t",
	}
	if got := wire(in); !reflect.DeepEqual(got, want) {
		t.Errorf("wire(%v) = %v, want %v", in, got, want)
	}
}

func TestMap(t *testing.T) {
	m := Map{{"a", int64(1)}, {"b", "text"}}
	m = m.With("a", int64(2)).With("c", Map{{"d", true}})
	if want := (Map{{"a", int64(2)}, {"b", "text"}, {"c", Map{{"d", true}}}}); !reflect.DeepEqual(m, want) {
		t.Errorf("after With: %v, want %v", m, want)
	}
	if v, ok := m.Get("x"); v != nil || ok {
		t.Errorf("Get of a missing key: %v, %v", v, ok)
	}
	if m.Text("b") != "text" || m.Text("a") != "" || m.Text("x") != "" {
		t.Errorf("Text: %q %q %q, want only the first", m.Text("b"), m.Text("a"), m.Text("x"))
	}
	if v, ok := m.Map("c").Get("d"); v != true || !ok {
		t.Errorf("nested: %v, %v", v, ok)
	}
	if m.Map("b").Map("y") != nil {
		t.Error("Map of what is no map: not nil")
	}
}
