package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// talk is a conversation between the end under test and a scripted peer. The test is the peer:
// it sends frames and says which frames are due from the engine, and when none is. As the
// engine's Handler, talk notes what the engine reports, answers as an obliging owner does, and
// holds the engine to what Handler promises about the lock.
type talk struct {
	t      *testing.T
	c      *Conn
	events []string
	links  map[string]*Link
	begun  []*Session

	// The session that the shorthands below are about.
	channel uint16 // the peer's
	session *Session

	manual       bool        // the test answers attaches, detaches and drains itself
	ready        func(*Link) // is called for each link that has been answered
	flushes      int         // calls of Flush
	sessionFlows int         // and of SessionFlow
	locked       bool
	unread       []byte // what the engine has sent and the peer not read
}

// unlimited is the incoming window of our begin when nothing else is configured (RT E9).
const unlimited = 2147483647

func newTalk(t *testing.T, cfg ConnConfig) *talk {
	v := &talk{t: t, links: make(map[string]*Link)}
	v.c = NewConn(cfg, v)
	return v
}

var testConfig = ConnConfig{ContainerID: "us", MaxFrameSize: 16384, ChannelMax: 32767}

// opened returns a conversation in which the peer has opened and we have answered.
func opened(t *testing.T) *talk {
	t.Helper()
	v := newTalk(t, testConfig)
	v.open(&Open{ContainerID: "peer"})
	return v
}

// open exchanges opens, the peer's first.
func (v *talk) open(o *Open) {
	v.t.Helper()
	v.send(0, o)
	v.wantFrame(0, &Open{ContainerID: "us", MaxFrameSize: Some(v.c.cfg.MaxFrameSize), ChannelMax: Some(v.c.cfg.ChannelMax)})
	v.wantEvents("open " + o.ContainerID)
}

// inSession returns a conversation in which the peer has begun channel 0 with wide windows.
func inSession(t *testing.T) (*talk, *Session) {
	t.Helper()
	v := opened(t)
	return v, v.begin(0, &Begin{IncomingWindow: 1000, OutgoingWindow: 1000})
}

// begin has the peer begin a session.
func (v *talk) begin(channel uint16, b *Begin) *Session {
	v.t.Helper()
	v.send(channel, b)
	s := v.begun[len(v.begun)-1]
	v.channel, v.session = channel, s
	v.wantFrame(s.Channel(), &Begin{RemoteChannel: Some(channel), IncomingWindow: s.beginWindow(), OutgoingWindow: unlimited})
	v.wantEvents(fmt.Sprintf("begin %d", s.Channel()))
	return s
}

// attachSender has the peer attach a link on which it sends, with this delivery count.
func (v *talk) attachSender(name string, handle, count uint32) *Link {
	v.t.Helper()
	v.peer(&Attach{Name: name, Handle: handle, Role: RoleSender, InitialDeliveryCount: Some(count)})
	l := v.links[name]
	v.want(&Attach{Name: name, Handle: l.Handle(), Role: RoleReceiver})
	v.wantEvents("attach receiver " + name)
	return l
}

// attachReceiver has the peer attach a link on which it receives.
func (v *talk) attachReceiver(name string, handle uint32) *Link {
	v.t.Helper()
	v.peer(&Attach{Name: name, Handle: handle, Role: RoleReceiver})
	l := v.links[name]
	v.want(&Attach{Name: name, Handle: l.Handle(), Role: RoleSender, InitialDeliveryCount: Some[uint32](0)})
	v.wantEvents("attach sender " + name)
	return l
}

// grant has the owner grant credit, and reads the flow that tells it.
func (v *talk) grant(l *Link, n uint32) {
	v.t.Helper()
	l.Grant(n)
	v.wantAny(&Flow{})
}

// giveCredit has the peer give credit on a link on which we send and have sent nothing.
func (v *talk) giveCredit(l *Link, n uint32) {
	v.t.Helper()
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 1000, OutgoingWindow: 1000,
		Handle: Some(l.remoteHandle), DeliveryCount: Some[uint32](0), LinkCredit: Some(n)})
	v.wantEvents(fmt.Sprintf("flow %s credit=%d drain=false", l.Name, n))
}

func roleName(r Role) string {
	if r == RoleSender {
		return "sender"
	}
	return "receiver"
}

// input hands octets to the engine.
func (v *talk) input(b []byte) error {
	v.t.Helper()
	n, err := v.c.Input(b)
	if v.locked {
		v.t.Fatal("the engine left the lock held")
	}
	if err == nil && n != len(b) {
		v.t.Fatalf("Input took %d of %d octets of whole frames", n, len(b))
	}
	return err
}

// peer sends frames of the session, which the engine must accept.
func (v *talk) peer(ps ...Performative) {
	v.t.Helper()
	v.send(v.channel, ps...)
}

// send sends frames that the engine must accept.
func (v *talk) send(channel uint16, ps ...Performative) {
	v.t.Helper()
	for _, p := range ps {
		if err := v.input(AppendFrame(nil, FrameAMQP, channel, p)); err != nil {
			v.t.Fatalf("%s: %v", show(p), err)
		}
	}
}

// peerTransfer sends a transfer on the session.
func (v *talk) peerTransfer(t *Transfer, payload string) {
	v.t.Helper()
	if err := v.input(AppendTransferFrame(nil, v.channel, t, []byte(payload))); err != nil {
		v.t.Fatalf("%s %q: %v", show(t), payload, err)
	}
}

// refused sends octets that must end the connection, as the owner ends it, with this error.
func (v *talk) refused(b []byte, cond Symbol, description string) {
	v.t.Helper()
	err := v.input(b)
	want := &Error{Condition: cond, Description: description}
	var e *Error
	if !errors.As(err, &e) || !reflect.DeepEqual(e, want) {
		v.t.Fatalf("%x: error %v, want %v", b, err, want)
	}
	v.locked = true
	v.c.Close(e)
	v.locked = false
	v.wantFrame(0, &Close{Error: want})
	v.wantIdle()
}

func (v *talk) sendRefused(channel uint16, p Performative, cond Symbol, description string) {
	v.t.Helper()
	v.refused(AppendFrame(nil, FrameAMQP, channel, p), cond, description)
}

// next reads one frame of the engine.
func (v *talk) next() (channel uint16, p Performative, payload []byte, ok bool) {
	v.t.Helper()
	v.c.Prepare()
	v.unread = append(v.unread, v.c.Out...)
	v.c.Out = v.c.Out[:0]
	if len(v.unread) == 0 {
		return 0, nil, nil, false
	}
	hdr, ok, err := ParseFrameHeader(v.unread, v.c.maxOut)
	if err != nil || !ok || int(hdr.Size) > len(v.unread) {
		v.t.Fatalf("the engine sent no whole frame of at most %d octets: %.100x", v.c.maxOut, v.unread)
	}
	frame := v.unread[:hdr.Size]
	v.unread = v.unread[hdr.Size:]
	if len(frame) == FrameHeaderSize {
		return hdr.Channel, nil, nil, true
	}
	p, n, err := DecodePerformative(frame[FrameHeaderSize:])
	if err != nil {
		v.t.Fatalf("the engine sent %x: %v", frame, err)
	}
	return hdr.Channel, p, frame[FrameHeaderSize+n:], true
}

// wantFrame reads the next frame, which must be that one.
func (v *talk) wantFrame(channel uint16, want Performative) {
	v.t.Helper()
	v.wantTransfer(channel, want, "")
}

// want is wantFrame on the session.
func (v *talk) want(want Performative) {
	v.t.Helper()
	v.wantFrame(v.session.Channel(), want)
}

// wantTransfer is wantFrame for a frame with a payload.
func (v *talk) wantTransfer(channel uint16, want Performative, payload string) {
	v.t.Helper()
	ch, got, p, ok := v.next()
	if !ok {
		v.t.Fatalf("no frame, want %s", show(want))
	}
	if want != nil {
		want, _, _ = DecodePerformative(want.Append(nil))
	}
	if ch != channel || !reflect.DeepEqual(got, want) || string(p) != payload {
		v.t.Fatalf("got  channel %d %s %.50q\nwant channel %d %s %.50q", ch, show(got), p, channel, show(want), payload)
	}
}

// wantAny reads the next frame, which must be of want's type.
func (v *talk) wantAny(want Performative) Performative {
	v.t.Helper()
	_, got, _, ok := v.next()
	if !ok || reflect.TypeOf(got) != reflect.TypeOf(want) {
		v.t.Fatalf("got %s, want a %T", show(got), want)
	}
	return got
}

// wantIdle checks that the engine has nothing to say.
func (v *talk) wantIdle() {
	v.t.Helper()
	if ch, got, payload, ok := v.next(); ok {
		v.t.Fatalf("unexpected frame: channel %d %s %q", ch, show(got), payload)
	}
}

// wantEvents checks what the engine has reported since the last call.
func (v *talk) wantEvents(want ...string) {
	v.t.Helper()
	if got := strings.Join(v.events, "\n"); got != strings.Join(want, "\n") {
		v.t.Fatalf("reported:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	v.events = nil
}

func show(p Performative) string {
	if p == nil {
		return "empty frame"
	}
	return fmt.Sprintf("%T%+v", p, reflect.ValueOf(p).Elem())
}

// noted adds an event; held is whether the lock must be.
func (v *talk) noted(held bool, format string, args ...any) {
	if v.locked != held {
		v.t.Fatalf("%q with the lock held: %t", fmt.Sprintf(format, args...), v.locked)
	}
	v.events = append(v.events, fmt.Sprintf(format, args...))
}

func (v *talk) Lock() {
	if v.locked {
		v.t.Fatal("locked twice")
	}
	v.locked = true
}

func (v *talk) Unlock() {
	if !v.locked {
		v.t.Fatal("unlocked twice")
	}
	v.locked = false
}

func (v *talk) Flush() {
	if v.locked {
		v.t.Fatal("Flush with the lock held")
	}
	v.flushes++
}

func (v *talk) RemoteOpen(o *Open) *Error {
	v.noted(true, "open %s", o.ContainerID)
	if !v.c.OpenSent() {
		v.c.Open()
	}
	return nil
}

func (v *talk) RemoteBegin(s *Session, b *Begin) *Error {
	v.noted(true, "begin %d", s.Channel())
	v.begun = append(v.begun, s)
	return nil
}

func (v *talk) RemoteAttach(l *Link, a *Attach) *Error {
	v.noted(true, "attach %s %s", roleName(l.Role), l.Name)
	v.links[l.Name] = l
	if !v.manual && !l.localAttached {
		l.Attach(&Attach{})
		if v.ready != nil {
			v.ready(l)
		}
	}
	return nil
}

func (v *talk) LinkFlow(l *Link, f *Flow, drained uint32) {
	if l.Role == RoleReceiver {
		v.noted(true, "flow %s drained=%d", l.Name, drained)
		return
	}
	v.noted(true, "flow %s credit=%d drain=%t", l.Name, l.Credit(), l.Drain)
	if l.Drain && !v.manual {
		l.Drained()
	}
}

func (v *talk) SessionFlow(*Session) {
	if !v.locked {
		v.t.Fatal("SessionFlow without the lock")
	}
	v.sessionFlows++
}

func (v *talk) Transfer(l *Link, t *Transfer, payload []byte) *Error {
	text := fmt.Sprintf("transfer %s id=%d settled=%t", l.Name, t.DeliveryID.V, t.Settled.V)
	if t.More {
		text += " more"
	}
	if t.Aborted {
		text += " aborted"
	}
	v.noted(false, "%s %q", text, payload)
	return nil
}

func (v *talk) Disposition(s *Session, d *Disposition) {
	v.noted(true, "disposition %s %d..%d settled=%t %x", roleName(d.Role), d.First, d.Last.Or(d.First), d.Settled, d.State)
}

func (v *talk) LinkFailed(l *Link, err *Error) { v.noted(true, "failed %s %s", l.Name, err.Condition) }

func (v *talk) RemoteDetach(l *Link, d *Detach) {
	v.noted(true, "detach %s closed=%t %s", l.Name, d.Closed, errorText(d.Error))
	if !v.manual {
		l.Detach(d.Closed, nil)
	}
}

func (v *talk) RemoteEnd(s *Session, e *End) {
	v.noted(true, "end %d %s", s.Channel(), errorText(e.Error))
}

func (v *talk) RemoteClose(cl *Close) { v.noted(true, "close %s", errorText(cl.Error)) }

func errorText(e *Error) string {
	if e == nil {
		return "without error"
	}
	return e.Error()
}

// frames encodes frames on channel 0.
func frames(ps ...Performative) []byte {
	var b []byte
	for _, p := range ps {
		b = AppendFrame(b, FrameAMQP, 0, p)
	}
	return b
}

// TestAcceptor: the whole life of a connection that the peer opens.
func TestAcceptor(t *testing.T) {
	capabilities, properties := Raw(AppendValue(nil, []Symbol{"a", "b"})), Raw(AppendValue(nil, Map{{Symbol("k"), "v"}}))
	v := newTalk(t, ConnConfig{
		ContainerID: "us", MaxFrameSize: 1024, ChannelMax: 9, IdleTimeout: 8000,
		OfferedCapabilities: capabilities, DesiredCapabilities: capabilities, Properties: properties,
	})
	v.wantIdle() // an acceptor does not speak first
	v.send(0, &Open{ContainerID: "peer", MaxFrameSize: Some[uint32](600)})
	v.wantFrame(0, &Open{
		ContainerID: "us", MaxFrameSize: Some[uint32](1024), ChannelMax: Some[uint16](9), IdleTimeout: Some[uint32](8000),
		OfferedCapabilities: capabilities, DesiredCapabilities: capabilities, Properties: properties,
	})
	v.wantEvents("open peer")
	if got := v.c.Remote.ContainerID; got != "peer" {
		t.Errorf("Remote.ContainerID = %q", got)
	}

	v.begin(5, &Begin{NextOutgoingID: 7, IncomingWindow: 3, OutgoingWindow: 3})
	in := v.attachSender("in", 4, 100)
	in.Grant(10)
	v.want(&Flow{NextIncomingID: Some[uint32](7), IncomingWindow: 2048, OutgoingWindow: unlimited,
		Handle: Some(in.Handle()), DeliveryCount: Some[uint32](100), LinkCredit: Some[uint32](10)})
	v.peerTransfer(&Transfer{Handle: 4, DeliveryID: Some[uint32](3), DeliveryTag: []byte("t")}, "hello")
	v.wantEvents(`transfer in id=3 settled=false "hello"`)
	v.session.Dispose(RoleReceiver, 3, 3, true, StateAccepted)
	v.want(&Disposition{Role: RoleReceiver, First: 3, Settled: true, State: StateAccepted})

	out := v.attachReceiver("out", 0)
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 3, NextOutgoingID: 8, OutgoingWindow: 3,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](2)})
	v.wantEvents("flow out credit=2 drain=false")
	id := out.Send(&OutDelivery{Tag: 0x0102, Format: 9}, []byte("he"), []byte("ll"), []byte("o"))
	v.wantTransfer(v.session.Channel(), &Transfer{Handle: out.Handle(), DeliveryID: Some(uint32(id)),
		DeliveryTag: []byte{0, 0, 0, 0, 0, 0, 1, 2}, MessageFormat: Some[uint32](9), Settled: Some(false)}, "hello")
	v.peer(&Disposition{Role: RoleReceiver, First: uint32(id), Settled: true, State: StateReleased})
	v.wantEvents("disposition receiver 0..0 settled=true 00532645")

	v.peer(&Detach{Handle: 0, Closed: true})
	v.wantEvents("detach out closed=true without error")
	v.want(&Detach{Handle: out.Handle(), Closed: true})
	v.peer(&End{})
	v.wantEvents("end 0 without error")
	v.want(&End{})
	v.send(0, &Close{})
	v.wantEvents("close without error")
	v.wantFrame(0, &Close{})
	v.wantIdle()
	if !v.c.OpenSent() || !v.c.OpenReceived() || !v.c.CloseSent() || !v.c.CloseReceived() {
		t.Error("connection is not over")
	}
}

// TestInitiator: the whole life of a connection that we open, nothing of ours waiting for an
// answer of the peer's.
func TestInitiator(t *testing.T) {
	v := newTalk(t, ConnConfig{ContainerID: "us", Hostname: "host", MaxFrameSize: 100, ChannelMax: 3})
	v.c.Open()
	v.wantFrame(0, &Open{ContainerID: "us", Hostname: Some("host"), MaxFrameSize: Some[uint32](512), ChannelMax: Some[uint16](3)})
	s, e := v.c.Begin()
	if e != nil {
		t.Fatal(e)
	}
	v.session, v.channel = s, 2
	v.want(&Begin{IncomingWindow: unlimited, OutgoingWindow: unlimited})
	in, out := s.NewLink("in", RoleReceiver), s.NewLink("out", RoleSender)
	in.Attach(&Attach{Source: &Source{Address: Some("a")}, Target: &Target{}})
	v.want(&Attach{Name: "in", Handle: 0, Role: RoleReceiver, Source: &Source{Address: Some("a")}, Target: &Target{}})
	out.Attach(&Attach{Source: &Source{}, Target: &Target{Address: Some("b")}})
	v.want(&Attach{Name: "out", Handle: 1, Role: RoleSender, InitialDeliveryCount: Some[uint32](0), Source: &Source{}, Target: &Target{Address: Some("b")}})
	if s.OutWindow() != 0 || out.Credit() != 0 || in.Attached() {
		t.Errorf("before any answer: window %d, credit %d", s.OutWindow(), out.Credit())
	}

	v.send(0, &Open{ContainerID: "peer"})
	v.wantEvents("open peer")
	v.peer(&Begin{RemoteChannel: Some[uint16](0), NextOutgoingID: 50, IncomingWindow: 4, OutgoingWindow: 9})
	v.wantEvents("begin 0")
	v.peer(&Attach{Name: "in", Handle: 8, Role: RoleSender, InitialDeliveryCount: Some[uint32](70)},
		&Attach{Name: "out", Handle: 9, Role: RoleReceiver})
	v.wantEvents("attach receiver in", "attach sender out")
	v.wantIdle()
	if s.OutWindow() != 4 || !in.Attached() || !out.Attached() || in.LocalDetached() || in.RemoteDetached() {
		t.Errorf("after the answers: window %d", s.OutWindow())
	}

	in.Grant(1)
	v.want(&Flow{NextIncomingID: Some[uint32](50), IncomingWindow: 2048, OutgoingWindow: unlimited,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](70), LinkCredit: Some[uint32](1)})
	v.peerTransfer(&Transfer{Handle: 8, DeliveryID: Some[uint32](0), DeliveryTag: []byte("t"), Settled: Some(true)}, "m")
	v.wantEvents(`transfer in id=0 settled=true "m"`)
	in.Detach(false, nil)
	v.want(&Detach{Handle: 0})
	v.peer(&Detach{Handle: 8})
	v.wantIdle()
	v.wantEvents()
	s.End(nil)
	v.want(&End{})
	v.peer(&End{})
	v.c.Close(nil)
	v.wantFrame(0, &Close{})
	v.send(0, &Close{})
	v.wantEvents("close without error")
	v.wantIdle()
}

// connectionErrors are what ends a connection with exactly this condition and description
// (CFG 11.1). Each comes after an open, a begin of channel 0, a sender "in" attached on handle 1
// with 9 credit, and a receiver "out" on handle 2.
var connectionErrors = []struct {
	name, rule  string
	wire        []byte
	cond        Symbol
	description string
}{
	{"frame size below 8", "R8", wire("00 00 00 07 02 00 00 00"), ErrCondFramingError, "malformed frame"},
	{"data offset below 2", "R8", wire("00 00 00 08 01 00 00 00"), ErrCondFramingError, "malformed frame"},
	{"data offset beyond the frame", "R8", wire("00 00 00 08 03 00 00 00"), ErrCondFramingError, "malformed frame"},
	{"frame larger than our maximum, by its size alone", "R9", wire("00 00 40 01"), ErrCondFramingError, "malformed frame"},
	{"SASL frame", "R11", wire("00 00 00 08 02 01 00 00"), ErrCondFramingError, "unexpected frame type 1"},
	{"frame of no known type", "R11", wire("00 00 00 0c 02 07 00 00 00 53 17 45"), ErrCondFramingError, "unexpected frame type 7"},
	{"second open", "R15", frames(&Open{ContainerID: "x"}), ErrCondIllegalState, "second open"},
	{"attach without a begin", "R16", AppendFrame(nil, 0, 9, &Attach{Name: "x"}), ErrCondNotAllowed, "no such channel: 9"},
	{"flow without a begin", "R16", AppendFrame(nil, 0, 9, &Flow{}), ErrCondNotAllowed, "no such channel: 9"},
	{"transfer without a begin", "R16", AppendFrame(nil, 0, 9, &Transfer{}), ErrCondNotAllowed, "no such channel: 9"},
	{"disposition without a begin", "R16", AppendFrame(nil, 0, 9, &Disposition{}), ErrCondNotAllowed, "no such channel: 9"},
	{"detach without a begin", "R16", AppendFrame(nil, 0, 9, &Detach{}), ErrCondNotAllowed, "no such channel: 9"},
	{"end without a begin", "R16", AppendFrame(nil, 0, 9, &End{}), ErrCondNotAllowed, "no such channel: 9"},
	{"begin on a channel that is too high", "R17", AppendFrame(nil, 0, 32768, &Begin{}), ErrCondFramingError, "remote channel 32768 is above negotiated channel_max 32767."},
	{"other frame on a channel that is too high", "R17", AppendFrame(nil, 0, 65535, &End{}), ErrCondFramingError, "remote channel 65535 is above negotiated channel_max 32767."},
	{"begin on a channel in use", "R18", frames(&Begin{}), ErrCondNotAllowed, "channel 0 is in use"},
	{"begin that answers none of ours", "E8", AppendFrame(nil, 0, 9, &Begin{RemoteChannel: Some[uint16](5)}), ErrCondNotAllowed, "no such channel: 5"},
	{"begin that answers the peer's own", "E8", AppendFrame(nil, 0, 9, &Begin{RemoteChannel: Some[uint16](0)}), ErrCondNotAllowed, "no such channel: 0"},
	{"transfer with an unknown handle", "R19", frames(&Transfer{Handle: 3, DeliveryID: Some[uint32](0)}), ErrCondInvalidField, "no such handle: 3"},
	{"flow with an unknown handle", "R19", frames(&Flow{Handle: Some[uint32](4294967295)}), ErrCondInvalidField, "no such handle: 4294967295"},
	{"detach with an unknown handle", "R19", frames(&Detach{Handle: 70000}), ErrCondInvalidField, "no such handle: 70000"},
	{"link name attached twice", "R21", frames(&Attach{Name: "in", Handle: 5, Role: RoleSender}), ErrCondInvalidField, "link name already attached: in"},
	{"handle in use", "R22", frames(&Attach{Name: "x", Handle: 1, Role: RoleSender}), ErrCondHandleInUse, "handle in use: 1"},
	{"delivery-id out of sequence", "R23", frames(&Transfer{Handle: 1, DeliveryID: Some[uint32](7)}, &Transfer{Handle: 1, DeliveryID: Some[uint32](9)}),
		"amqp:session:invalid-field", "sequencing error, expected delivery-id 8, got 9"},
	{"delivery without an id", "R23", frames(&Transfer{Handle: 1}), ErrCondInvalidField, "delivery-id required on initial transfer"},
	{"continuation with another delivery-id", "R24", frames(&Transfer{Handle: 1, DeliveryID: Some[uint32](7), More: true}, &Transfer{Handle: 1, DeliveryID: Some[uint32](8)}),
		ErrCondInvalidField, "invalid delivery-id for a continuation transfer"},
	{"continuation from settled to unsettled", "R24", frames(&Transfer{Handle: 1, DeliveryID: Some[uint32](7), Settled: Some(true), More: true}, &Transfer{Handle: 1, Settled: Some(false)}),
		ErrCondInvalidField, "invalid transition from settled to unsettled"},
	{"transfer on a link on which we send", "E8", frames(&Transfer{Handle: 2, DeliveryID: Some[uint32](0)}), ErrCondNotAllowed, "transfer on a link whose sender is this end: handle 2"},
}

func TestConnectionErrors(t *testing.T) {
	for _, tt := range connectionErrors {
		t.Run(tt.rule+" "+tt.name, func(t *testing.T) {
			v, _ := inSession(t)
			v.grant(v.attachSender("in", 1, 0), 9)
			v.attachReceiver("out", 2)
			v.refused(tt.wire, tt.cond, tt.description)
		})
	}
}

// TestUndecodable: a body that cannot be decoded and a performative that does not exist end the
// connection at once, each with its condition (CFG R12, R26, R28).
func TestUndecodable(t *testing.T) {
	tests := []struct {
		name, body string
		cond       Symbol
	}{
		{"no described value", "45", ErrCondDecodeError},
		{"descriptor of nothing", "00 53 1f 45", ErrCondNotImplemented},
		{"symbolic descriptor of nothing", "00 a3 03 61 3a 62 45", ErrCondNotImplemented},
		{"end that is no list", "00 53 17 40", ErrCondDecodeError},
		{"cut begin", "00 53 11 c0 20 04", ErrCondDecodeError},
		{"cut transfer", "00 53 14 c0 20 04", ErrCondDecodeError},
		{"cut disposition", "00 53 15 c0 20 04", ErrCondDecodeError},
		{"cut flow", "00 53 13 c0 20 04", ErrCondDecodeError},
		{"attach without a name", "00 53 12 c0 04 03 40 43 42", ErrCondDecodeError},
		{"begin with wrong types", "00 53 11 c0 08 04 40 a1 01 61 43 43", ErrCondDecodeError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, _ := inSession(t)
			body := wire(tt.body)
			err := v.input(append([]byte{0, 0, 0, byte(len(body) + 8), 2, 0, 0, 0}, body...))
			if e := (*Error)(nil); !errors.As(err, &e) || e.Condition != tt.cond {
				t.Errorf("body %s: error %v, want %s", tt.body, err, tt.cond)
			}
		})
	}
}

// TestErrorBeforeOpen: a peer that errs before we have opened gets an open without a name and
// then the reason (CFG 11.1 "error close", R9, R11 to R14).
func TestErrorBeforeOpen(t *testing.T) {
	tests := []struct {
		name        string
		wire        []byte
		cond        Symbol
		description string
	}{
		{"begin", frames(&Begin{}), ErrCondIllegalState, "begin before open"},
		{"attach", frames(&Attach{Name: "x"}), ErrCondIllegalState, "attach before open"},
		{"flow", frames(&Flow{}), ErrCondIllegalState, "flow before open"},
		{"transfer", frames(&Transfer{}), ErrCondIllegalState, "transfer before open"},
		{"disposition", frames(&Disposition{}), ErrCondIllegalState, "disposition before open"},
		{"detach", frames(&Detach{}), ErrCondIllegalState, "detach before open"},
		{"end", frames(&End{}), ErrCondIllegalState, "end before open"},
		{"close", frames(&Close{}), ErrCondIllegalState, "close before open"},
		{"large frame", wire("00 00 40 01"), ErrCondFramingError, "malformed frame"},
		{"SASL frame", wire("00 00 00 08 02 01 00 00"), ErrCondFramingError, "unexpected frame type 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newTalk(t, testConfig)
			err := v.input(tt.wire)
			want := &Error{Condition: tt.cond, Description: tt.description}
			if !reflect.DeepEqual(err, error(want)) {
				t.Fatalf("error %v, want %v", err, want)
			}
			v.c.Close(want)
			v.wantFrame(0, &Open{})
			v.wantFrame(0, &Close{Error: want})
			v.c.Close(nil) // a second time says nothing
			v.wantIdle()
		})
	}
}

// TestOpenFields: an open need not say who it is from; what it says must be of the right type
// (CFG R28).
func TestOpenFields(t *testing.T) {
	open := func(body string) ([]byte, *talk) {
		b := wire(body)
		return append([]byte{0, 0, 0, byte(len(b) + 8), 2, 0, 0, 0}, b...), newTalk(t, testConfig)
	}
	for _, body := range []string{"00 53 10 c0 02 01 40", "00 53 10 45"} {
		b, v := open(body)
		if err := v.input(b); err != nil {
			t.Errorf("open %s: %v", body, err)
		}
		v.wantEvents("open ")
	}
	for _, body := range []string{"00 53 10 c0 02 01 43", "00 53 10 c0 06 03 40 40 a1 01 61", "00 53 10 c0 05 05 40 40 40 40 41"} {
		b, v := open(body)
		if e := (*Error)(nil); !errors.As(v.input(b), &e) || e.Condition != ErrCondDecodeError {
			t.Errorf("open %s: %v, want %s", body, e, ErrCondDecodeError)
		}
	}
}

// TestHandlerErrors: what the owner refuses with an error ends the connection with it.
func TestHandlerErrors(t *testing.T) {
	no := &Error{Condition: ErrCondResourceLimitExceeded, Description: "no"}
	setUp := func(t *testing.T) (*talk, *refuser) {
		r := &refuser{talk: newTalk(t, testConfig)}
		r.c = NewConn(testConfig, r)
		return r.talk, r
	}
	open, begin := &Open{ContainerID: "peer"}, &Begin{IncomingWindow: 9}
	attach := &Attach{Name: "in", Handle: 1, Role: RoleSender}
	for i, last := range []Performative{open, begin, attach, &Transfer{Handle: 1, DeliveryID: Some[uint32](0)}} {
		v, r := setUp(t)
		for _, p := range []Performative{open, begin, attach}[:i] {
			v.send(0, p)
		}
		if l := v.links["in"]; l != nil {
			l.Grant(1)
		}
		r.err = no
		if err := v.input(frames(last)); err != error(no) {
			t.Errorf("%s: error %v, want %v", show(last), err, no)
		}
	}
}

// refuser is a talk that answers with an error.
type refuser struct {
	*talk
	err *Error
}

func (r *refuser) RemoteOpen(o *Open) *Error                { r.talk.RemoteOpen(o); return r.err }
func (r *refuser) RemoteBegin(s *Session, b *Begin) *Error  { r.talk.RemoteBegin(s, b); return r.err }
func (r *refuser) RemoteAttach(l *Link, a *Attach) *Error   { r.talk.RemoteAttach(l, a); return r.err }
func (r *refuser) Transfer(*Link, *Transfer, []byte) *Error { return r.err }

// TestEmptyFrames: frames without a body only show that somebody lives; on any channel, with an
// extended header or without, before the open and after (part 2 §2.4.5).
func TestEmptyFrames(t *testing.T) {
	v := newTalk(t, testConfig)
	empty := wire("00 00 00 08 02 00 00 00 00 00 00 0c 03 00 00 05 01 02 03 04")
	if err := v.input(empty); err != nil {
		t.Fatal(err)
	}
	v.wantIdle()
	v.open(&Open{})
	if err := v.input(empty); err != nil {
		t.Fatal(err)
	}
	v.wantIdle()
	v.c.Heartbeat()
	v.wantFrame(0, nil)
}

// TestExtendedHeader: what is between the frame header and the body is skipped (CFG R10).
func TestExtendedHeader(t *testing.T) {
	v := opened(t)
	body := (&Begin{}).Append(nil)
	frame := append([]byte{0, 0, 0, byte(16 + len(body)), 4, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8}, body...)
	if err := v.input(frame); err != nil {
		t.Fatal(err)
	}
	v.wantEvents("begin 0")
	v.wantFrame(0, &Begin{RemoteChannel: Some[uint16](3), IncomingWindow: unlimited, OutgoingWindow: unlimited})
}

// TestPeerClose: the answer comes after what had still to be said (part 2 §2.4.3); nothing may
// follow from the peer (CFG R35), nor from us.
func TestPeerClose(t *testing.T) {
	v, s := inSession(t)
	in := v.attachSender("in", 1, 0)
	in.Grant(3)
	s.Dispose(RoleReceiver, 0, 4, true, StateAccepted)
	e := &Error{Condition: ErrCondConnectionForced, Description: "bye"}
	v.send(0, &Close{Error: e})
	v.wantEvents("close amqp:connection:forced: bye")
	v.want(&Disposition{Role: RoleReceiver, First: 0, Last: Some[uint32](4), Settled: true, State: StateAccepted})
	v.wantAny(&Flow{})
	v.wantFrame(0, &Close{})
	in.Grant(3)
	s.Dispose(RoleReceiver, 5, 5, true, StateAccepted)
	s.FlowDue()
	v.wantIdle()
	err := v.input(frames(&End{}))
	if want := (&Error{Condition: ErrCondFramingError, Description: "data after close"}); !reflect.DeepEqual(err, error(want)) {
		t.Errorf("a frame after the close: %v, want %v", err, want)
	}
}

// TestOurClose: whatever was on its way when we closed is read and not heeded, up to the peer's
// close (part 2 §2.4.6, FC U10).
func TestOurClose(t *testing.T) {
	v, _ := inSession(t)
	v.grant(v.attachSender("in", 1, 0), 9)
	e := &Error{Condition: ErrCondConnectionForced}
	v.c.Close(e)
	v.wantFrame(0, &Close{Error: e})
	v.send(0, &Transfer{Handle: 1, DeliveryID: Some[uint32](0)}, &Flow{Handle: Some[uint32](1), Echo: true}, &Flow{Echo: true},
		&Disposition{}, &Attach{Name: "late", Handle: 7}, &Detach{Handle: 1}, &Detach{Handle: 99}, &End{}, &Begin{})
	v.send(77, &Begin{})
	v.wantEvents()
	v.wantIdle()
	v.send(0, &Close{})
	v.wantEvents("close without error")
	v.wantIdle()
}

// aboutEverything is a peer's whole conversation, pipelined.
func aboutEverything() []byte {
	b := frames(&Open{ContainerID: "peer"}, &Begin{IncomingWindow: 1000, OutgoingWindow: 1000, NextOutgoingID: 4294967290},
		&Attach{Name: "in", Handle: 0, Role: RoleSender, InitialDeliveryCount: Some[uint32](4294967295)},
		&Attach{Name: "out", Handle: 1, Role: RoleReceiver},
		&Flow{IncomingWindow: 1000, NextOutgoingID: 4294967290, Handle: Some[uint32](1), LinkCredit: Some[uint32](10), Drain: true},
		&Flow{IncomingWindow: 1000, NextOutgoingID: 4294967290, Echo: true},
		nil)
	b = AppendFrame(b, FrameAMQP, 3, &Begin{IncomingWindow: 1})
	b = AppendTransferFrame(b, 0, &Transfer{Handle: 0, DeliveryID: Some[uint32](4294967295), DeliveryTag: []byte("t"), More: true}, []byte("first"))
	b = AppendTransferFrame(b, 0, &Transfer{Handle: 0, More: true}, []byte("second"))
	b = AppendTransferFrame(b, 0, &Transfer{Handle: 0}, []byte("third"))
	b = AppendTransferFrame(b, 0, &Transfer{Handle: 0, DeliveryID: Some[uint32](0), DeliveryTag: []byte("u"), Settled: Some(true)}, []byte("next"))
	return append(b, frames(&Disposition{Role: RoleSender, First: 4294967295, Settled: true}, &Detach{Handle: 0, Closed: true}, &End{}, &Close{})...)
}

// hearAll has a new engine hear a whole conversation in pieces, and returns what it reported
// and answered.
func hearAll(t *testing.T, traced bool, pieces ...[]byte) (events []string, out []byte, trace []string) {
	t.Helper()
	v := newTalk(t, testConfig)
	v.ready = func(l *Link) {
		if l.Role == RoleReceiver {
			l.Grant(5)
		}
	}
	if traced {
		v.c.Trace = func(out bool, channel uint16, p Performative, payload []byte) {
			trace = append(trace, fmt.Sprintf("%t %d %s %q", out, channel, show(p), payload))
		}
	}
	var buf []byte
	for _, piece := range pieces {
		buf = append(buf, piece...)
		n, err := v.c.Input(buf)
		if err != nil {
			t.Fatalf("%d octets in: %v", n, err)
		}
		buf = append(buf[:0:0], buf[n:]...)
		v.c.Prepare()
	}
	if len(buf) > 0 {
		t.Fatalf("%d octets left", len(buf))
	}
	return v.events, v.c.Out, trace
}

// TestPipelined: a peer may say everything at once.
func TestPipelined(t *testing.T) {
	events, _, _ := hearAll(t, false, aboutEverything())
	want := []string{
		"open peer", "begin 0", "attach receiver in", "attach sender out", "flow out credit=10 drain=true", "begin 1",
		`transfer in id=4294967295 settled=false more "first"`, `transfer in id=4294967295 settled=false more "second"`,
		`transfer in id=4294967295 settled=false "third"`, `transfer in id=0 settled=true "next"`,
		"disposition sender 4294967295..4294967295 settled=true ", "detach in closed=true without error",
		"end 0 without error", "close without error",
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("reported:\n%s\nwant:\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
	}
}

// TestCutAtEveryByte: where the network cuts the octets makes no difference.
func TestCutAtEveryByte(t *testing.T) {
	all := aboutEverything()
	wantEvents, _, _ := hearAll(t, false, all)
	for i := range all {
		if events, _, _ := hearAll(t, false, all[:i], all[i:]); !reflect.DeepEqual(events, wantEvents) {
			t.Errorf("cut at %d: reported:\n%s\nwant:\n%s", i, strings.Join(events, "\n"), strings.Join(wantEvents, "\n"))
		}
	}
	var single [][]byte
	for i := range all {
		single = append(single, all[i:i+1])
	}
	if events, _, _ := hearAll(t, false, single...); !reflect.DeepEqual(events, wantEvents) {
		t.Errorf("octet by octet: reported:\n%s\nwant:\n%s", strings.Join(events, "\n"), strings.Join(wantEvents, "\n"))
	}
}

// TestTrace: every frame is told, both ways, and telling changes nothing.
func TestTrace(t *testing.T) {
	all := aboutEverything()
	wantEvents, wantOut, _ := hearAll(t, false, all)
	events, out, trace := hearAll(t, true, all)
	if !reflect.DeepEqual(events, wantEvents) || !bytes.Equal(out, wantOut) {
		t.Errorf("traced: reported %q, sent %x\nuntraced: reported %q, sent %x", events, out, wantEvents, wantOut)
	}
	var want [2][]string // told of what came in and what went out, in order
	for i, b := range [][]byte{all, out} {
		for len(b) > 0 {
			hdr, _, _ := ParseFrameHeader(b, 1<<20)
			if hdr.Size == FrameHeaderSize {
				want[i] = append(want[i], fmt.Sprintf("%t %d %s %q", i == 1, hdr.Channel, show(nil), ""))
			} else {
				p, n, _ := DecodePerformative(b[FrameHeaderSize:hdr.Size])
				want[i] = append(want[i], fmt.Sprintf("%t %d %s %q", i == 1, hdr.Channel, show(p), b[FrameHeaderSize+n:hdr.Size]))
			}
			b = b[hdr.Size:]
		}
	}
	var got [2][]string
	for _, line := range trace {
		i := 0
		if strings.HasPrefix(line, "true") {
			i = 1
		}
		got[i] = append(got[i], line)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("traced:\n%s\n%s\nwant:\n%s\n%s", strings.Join(got[0], "\n"), strings.Join(got[1], "\n"), strings.Join(want[0], "\n"), strings.Join(want[1], "\n"))
	}
}

// TestPeerMaxFrameSize: 512 is the least that a peer can say (CFG R27), and what holds before it
// has said anything.
func TestPeerMaxFrameSize(t *testing.T) {
	tests := []struct {
		said Opt[uint32]
		want uint32
	}{
		{Some[uint32](0), 512}, {Some[uint32](511), 512}, {Some[uint32](513), 513}, {Opt[uint32]{}, 4294967295},
	}
	for _, tt := range tests {
		v := newTalk(t, testConfig)
		if v.c.maxOut != 512 {
			t.Errorf("before the open: %d", v.c.maxOut)
		}
		v.open(&Open{MaxFrameSize: tt.said})
		if v.c.maxOut != tt.want {
			t.Errorf("said %+v: %d, want %d", tt.said, v.c.maxOut, tt.want)
		}
	}
}

// TestOurMaxFrameSize: frames up to the size we said are taken, the next octet is not (CFG R9).
func TestOurMaxFrameSize(t *testing.T) {
	for _, size := range []int{512, 16384} {
		v := newTalk(t, ConnConfig{ContainerID: "us", MaxFrameSize: uint32(size), ChannelMax: 1})
		v.open(&Open{})
		v.begin(0, &Begin{IncomingWindow: 1})
		v.grant(v.attachSender("in", 0, 0), 2)
		transfer := &Transfer{DeliveryID: Some[uint32](0), DeliveryTag: []byte("t")}
		head := len(AppendTransferFrame(nil, 0, transfer, nil))
		v.peerTransfer(transfer, strings.Repeat("x", size-head))
		v.wantEvents(fmt.Sprintf("transfer in id=0 settled=false %q", strings.Repeat("x", size-head)))
		v.refused(AppendTransferFrame(nil, 0, transfer, make([]byte, size-head+1)), ErrCondFramingError, "malformed frame")
	}
}

// TestChannels: sessions begun by either end share our channels, lowest first; an ended one is
// free again when both ends have ended it (part 2 §2.5.2).
func TestChannels(t *testing.T) {
	v := newTalk(t, ConnConfig{ContainerID: "us", MaxFrameSize: 16384, ChannelMax: 3})
	v.open(&Open{ChannelMax: Some[uint16](2)})
	v.begin(3, &Begin{})
	first := v.session
	ours, e := v.c.Begin()
	if e != nil || ours.Channel() != 1 {
		t.Fatalf("Begin: %+v, %v", ours, e)
	}
	v.wantFrame(1, &Begin{IncomingWindow: unlimited, OutgoingWindow: unlimited})
	v.begin(0, &Begin{})
	if got := v.session.Channel(); got != 2 {
		t.Errorf("third session on channel %d, want 2", got)
	}
	if _, e := v.c.Begin(); e == nil {
		t.Error("a session above the peer's channel-max")
	}
	v.send(1, &Begin{RemoteChannel: Some[uint16](1)})
	v.wantEvents("begin 1")

	first.End(nil)
	v.wantFrame(0, &End{})
	if _, e := v.c.Begin(); e == nil {
		t.Error("channel 0 was used again before the peer's end")
	}
	live := 0
	v.c.Sessions(func(*Session) { live++ })
	if live != 2 || !first.Ended() || ours.Ended() {
		t.Errorf("%d sessions, want 2", live)
	}
	v.send(3, &End{})
	v.begin(3, &Begin{})
	if got := v.session.Channel(); got != 0 {
		t.Errorf("next session on channel %d, want 0", got)
	}
	v.send(3, &End{})
	v.wantFrame(0, &End{})
	v.wantEvents("end 0 without error")
	v.begin(3, &Begin{}) // ended by the peer: at once
	v.sendRefused(2, &Begin{}, ErrCondNotAllowed, "no channel left below 2")
}

// TestManySessions: every channel up to channel-max is usable.
func TestManySessions(t *testing.T) {
	v := opened(t)
	var b []byte
	for ch := range 32768 {
		b = AppendFrame(b, FrameAMQP, uint16(ch), &Begin{})
	}
	if err := v.input(b); err != nil {
		t.Fatal(err)
	}
	for ch, s := range v.begun {
		if int(s.Channel()) != ch {
			t.Fatalf("session %d is on channel %d", ch, s.Channel())
		}
	}
	if len(v.begun) != 32768 {
		t.Errorf("%d sessions", len(v.begun))
	}
}

// TestOwnerGoroutines: while the reader takes in frames, others grant credit, send, tell
// dispositions and close, each with the lock held. The race detector is the judge.
func TestOwnerGoroutines(t *testing.T) {
	h := new(lockedHandler)
	c := NewConn(testConfig, h)
	b := frames(&Open{}, &Begin{IncomingWindow: 2147483647}, &Attach{Name: "in", Handle: 0, Role: RoleSender},
		&Attach{Name: "out", Handle: 1, Role: RoleReceiver},
		&Flow{IncomingWindow: 2147483647, Handle: Some[uint32](1), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](1000000)})
	if _, err := c.Input(b); err != nil {
		t.Fatal(err)
	}
	in, out := h.links[0], h.links[1]
	h.Lock()
	in.Grant(100000)
	h.Unlock()
	var owner sync.WaitGroup
	owner.Go(func() {
		for i := range Serial(500) {
			h.Lock()
			in.Grant(1)
			in.Session.Dispose(RoleReceiver, i, i, true, StateAccepted)
			if out.Credit() > 0 && in.Session.OutWindow() > 0 {
				out.Send(&OutDelivery{}, nil, nil, nil)
			}
			in.Session.FlowDue()
			c.Prepare()
			c.Out = c.Out[:0]
			h.Unlock()
		}
		h.Lock()
		out.Detach(true, nil)
		in.Detach(true, nil)
		in.Session.End(nil)
		c.Close(nil)
		h.Unlock()
	})
	transfer, flow := presettled(0, 0), &Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 2147483647, Handle: Some[uint32](1), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](1000000)}
	for id := range uint32(5000) {
		transfer.DeliveryID = Some(id)
		b = AppendTransferFrame(b[:0], 0, transfer, nil)
		b = AppendFlowFrame(b, 0, flow)
		if _, err := c.Input(append(b, frames(&Disposition{Role: RoleReceiver, First: id})...)); err != nil {
			t.Fatal(err)
		}
		in.Session.WindowLow()
	}
	owner.Wait()
	if _, err := c.Input(frames(&Close{})); err != nil {
		t.Fatal(err)
	}
}

// lockedHandler answers attaches, with a real lock.
type lockedHandler struct {
	quietHandler
	sync.Mutex
	links []*Link
}

func (h *lockedHandler) Lock()   { h.Mutex.Lock() }
func (h *lockedHandler) Unlock() { h.Mutex.Unlock() }

func (h *lockedHandler) RemoteAttach(l *Link, _ *Attach) *Error {
	h.links = append(h.links, l)
	l.Attach(&Attach{})
	return nil
}

// TestNothingAfterClose: whatever the owner still does, our close is the last frame.
func TestNothingAfterClose(t *testing.T) {
	v, s := inSession(t)
	v.manual = true
	v.peer(&Attach{Name: "in", Handle: 1, Role: RoleSender}, &Attach{Name: "late", Handle: 2, Role: RoleSender}, &Attach{Name: "out", Handle: 3, Role: RoleReceiver})
	in, out := v.links["in"], v.links["out"]
	in.Attach(&Attach{})
	out.Attach(&Attach{})
	v.wantAny(&Attach{})
	v.wantAny(&Attach{})
	v.peer(&Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 9, Handle: Some[uint32](3), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](9)})
	v.c.Close(nil)
	v.wantFrame(0, &Close{})
	v.links["late"].Attach(&Attach{})
	in.Grant(1)
	in.Detach(true, nil)
	s.Dispose(RoleReceiver, 0, 0, true, StateAccepted)
	s.FlowDue()
	v.c.Begin()
	v.c.Heartbeat()
	if s.OutWindow() != 0 {
		t.Errorf("window %d: the owner would send", s.OutWindow())
	}
	s.End(nil)
	v.wantIdle()
}

// TestNothingAfterEnd, on the channel of the session.
func TestNothingAfterEnd(t *testing.T) {
	for _, peerEnds := range []bool{false, true} {
		v, s := inSession(t)
		v.manual = true
		v.peer(&Attach{Name: "late", Handle: 2, Role: RoleSender})
		if peerEnds {
			v.peer(&End{})
		} else {
			s.End(nil)
		}
		v.want(&End{})
		late := v.links["late"]
		late.Attach(&Attach{})
		late.Grant(1)
		late.Detach(true, nil)
		if s.OutWindow() != 0 {
			t.Errorf("window %d: the owner would send", s.OutWindow())
		}
		v.wantIdle()
	}
}

// TestCloseBeforeAnswers: we may close before the peer's open and end or detach before its begin
// or attach; the owner is then not told of the answers.
func TestCloseBeforeAnswers(t *testing.T) {
	v := newTalk(t, testConfig)
	v.c.Open()
	v.wantAny(&Open{})
	s, _ := v.c.Begin()
	v.wantAny(&Begin{})
	l := s.NewLink("l", RoleReceiver)
	l.Attach(&Attach{})
	v.wantAny(&Attach{})
	l.Detach(true, nil)
	v.wantAny(&Detach{})
	v.send(0, &Open{ContainerID: "peer"}, &Begin{RemoteChannel: Some[uint16](0)}, &Attach{Name: "l", Role: RoleSender}, &Detach{Closed: true})
	v.wantEvents("open peer", "begin 0")
	v.wantIdle()
	if len(s.names) != 0 {
		t.Error("the link is still known")
	}
	s.End(nil)
	v.wantAny(&End{})
	v.send(0, &End{})

	s, _ = v.c.Begin()
	v.wantAny(&Begin{})
	s.End(nil)
	v.wantAny(&End{})
	v.send(0, &Begin{RemoteChannel: Some[uint16](0)}, &End{})
	v.wantEvents()

	v = newTalk(t, testConfig)
	v.c.Open()
	v.c.Close(nil)
	v.wantAny(&Open{})
	v.wantAny(&Close{})
	v.send(0, &Open{ContainerID: "peer"}, &Begin{}, &Close{})
	v.wantEvents("close without error")
	v.wantIdle()
}

// TestConfigBounds: what cannot be said or counted is brought within what can, in NewConn as in
// SetConfig.
func TestConfigBounds(t *testing.T) {
	for _, later := range []bool{false, true} {
		cfg := ConnConfig{ContainerID: "us", MaxFrameSize: 1, ChannelMax: 1, SessionFrames: 4294967295}
		v := newTalk(t, cfg)
		if later {
			v = newTalk(t, ConnConfig{MaxFrameSize: 1000, ChannelMax: 5})
			v.c.SetConfig(cfg)
		}
		if got := v.c.Config(); got.MaxFrameSize != 512 || got.SessionFrames != 2147483647 {
			t.Errorf("config %+v", got)
		}
		v.c.Open()
		v.wantFrame(0, &Open{ContainerID: "us", MaxFrameSize: Some[uint32](512), ChannelMax: Some[uint16](1)})
		for ch := range uint16(2) {
			s, e := v.c.Begin()
			if e != nil || s.Channel() != ch {
				t.Fatalf("session %d: %v", ch, e)
			}
			v.wantFrame(ch, &Begin{IncomingWindow: 2147483647, OutgoingWindow: unlimited})
		}
		if _, e := v.c.Begin(); e == nil {
			t.Error("a session above channel-max")
		}
		v.send(0, &Open{}, &Begin{RemoteChannel: Some[uint16](0), NextOutgoingID: 5}, &Attach{Name: "in", Role: RoleSender})
		v.wantAny(&Attach{})
		v.grant(v.links["in"], 1)
		v.peerTransfer(presettled(0, 0), "")
	}
}

// TestFlush: the owner routes what it has gathered before it hears of anything that must not
// overtake it, and need not before what is about the other direction.
func TestFlush(t *testing.T) {
	for _, tt := range []struct {
		p    Performative
		want int
	}{
		{&Begin{}, 1},
		{&Attach{Name: "x", Handle: 9}, 1},
		{&Flow{NextIncomingID: Some[uint32](0), Handle: Some[uint32](1)}, 0},
		{&Transfer{Handle: 1, DeliveryID: Some[uint32](0)}, 0},
		{&Transfer{Handle: 2, DeliveryID: Some[uint32](0)}, 1}, // without credit
		{&Disposition{Role: RoleReceiver}, 0},
		{&Disposition{Role: RoleSender}, 1},
		{&Detach{Handle: 1}, 1},
		{&End{}, 1},
		{&Close{}, 1},
	} {
		v, _ := inSession(t)
		v.grant(v.attachSender("in", 1, 0), 1)
		v.attachSender("poor", 2, 0)
		v.flushes = 0
		channel := v.channel
		if _, ok := tt.p.(*Begin); ok {
			channel = 1
		}
		v.send(channel, tt.p)
		if v.flushes != tt.want {
			t.Errorf("%s: %d flushes, want %d", show(tt.p), v.flushes, tt.want)
		}
	}
}
