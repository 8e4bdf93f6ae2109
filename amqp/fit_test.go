package amqp

import (
	"strings"
	"testing"
)

// TestAttachFits: an attach that is longer than the peer takes loses what a link can do without,
// no more of it than need be, and never its name, addresses and modes (CFG R27).
func TestAttachFits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	whole := func() *Attach {
		return &Attach{
			Name: "l", Handle: 3, Role: RoleReceiver, SndSettleMode: Some(SndSettleModeMixed), RcvSettleMode: Some(RcvSettleModeFirst),
			Source: &Source{
				Address: Some("from"), Durable: Some[uint32](2), ExpiryPolicy: ExpiryNever,
				Filter:       AppendValue(nil, Map{{Symbol("f"), long(80)}}),
				Capabilities: AppendValue(nil, Symbol("source-"+long(80))),
			},
			Target:              &Target{Address: Some("to"), Capabilities: AppendValue(nil, Symbol("target-"+long(80)))},
			Unsettled:           AppendValue(nil, Map{{[]byte(long(80)), nil}}),
			OfferedCapabilities: AppendValue(nil, Symbol("offered-"+long(80))),
			Properties:          AppendValue(nil, Map{{Symbol("p"), long(80)}}),
		}
	}
	has := func(a *Attach) string {
		var s []string
		for _, f := range []struct {
			name string
			here bool
		}{
			{"properties", a.Properties != nil}, {"offered", a.OfferedCapabilities != nil}, {"unsettled", !a.IncompleteUnsettled},
			{"filter", a.Source.Filter != nil}, {"source", a.Source.Capabilities != nil}, {"target", a.Target.Capabilities != nil},
		} {
			if f.here {
				s = append(s, f.name)
			}
		}
		return strings.Join(s, " ")
	}
	full := len(AppendFrame(nil, 0, 0, whole()))
	for _, tt := range []struct {
		room int
		want string
	}{
		{full, "properties offered unsettled filter source target"},
		{full - 1, "offered unsettled filter source target"},
		{full - 120, "unsettled filter source target"},
		{full - 220, "filter source target"},
		{full - 300, "source target"},
		{full - 400, ""},
	} {
		v := newTalk(t, testConfig)
		v.c.maxOut = uint32(tt.room)
		before := whole()
		v.c.send(0, before)
		if len(v.c.Out) > tt.room {
			t.Errorf("room for %d octets: a frame of %d", tt.room, len(v.c.Out))
		}
		var got Attach
		if _, err := got.Decode(v.c.Out[FrameHeaderSize:]); err != nil {
			t.Fatal(err)
		}
		if has(&got) != tt.want {
			t.Errorf("room for %d of %d octets: left are %q, want %q", tt.room, full, has(&got), tt.want)
		}
		if got.Name != "l" || got.Handle != 3 || got.Source.Address.V != "from" || got.Target.Address.V != "to" || got.Source.Durable.V != 2 {
			t.Errorf("room for %d octets: %+v", tt.room, got)
		}
		if has(before) != "properties offered unsettled filter source target" {
			t.Error("what was to be sent was changed")
		}
	}
}
