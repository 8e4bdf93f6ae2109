package amqp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// What the engine is held to whatever a peer sends: it does not panic; its error is an *Error;
// what it allocates is bounded by what came in; what it sends are whole frames that decode, of no
// more octets than the peer takes, nothing behind its close; and none of it depends on where the
// network cut the octets.

// busyOwner answers, grants, settles and sends at every opportunity, at once, so that what it does
// depends on the frames alone.
type busyOwner struct {
	c      *Conn
	events []string
	out    []byte
}

// listen has a new engine hear b in pieces, the first of so many octets.
func listen(b []byte, first int) (o *busyOwner, err error) {
	o = new(busyOwner)
	o.c = NewConn(ConnConfig{ContainerID: "us", MaxFrameSize: 4096, ChannelMax: 300, SessionFrames: 20}, o)
	n, err := o.c.Input(b[:first])
	if err == nil {
		_, err = o.c.Input(b[n:])
	}
	if err != nil {
		if e := (*Error)(nil); errors.As(err, &e) {
			o.c.Close(e)
		}
	}
	o.tell()
	return o, err
}

// tell takes what the engine has to send.
func (o *busyOwner) tell() {
	o.c.Prepare()
	o.out = append(o.out, o.c.Out...)
	o.c.Out = o.c.Out[:0]
}

func (o *busyOwner) noted(format string, args ...any) {
	if len(o.events) < 1000 {
		o.events = append(o.events, fmt.Sprintf(format, args...))
	}
}

func (o *busyOwner) Lock()   {}
func (o *busyOwner) Unlock() { o.tell() }
func (o *busyOwner) Flush()  {}

func (o *busyOwner) RemoteOpen(*Open) *Error {
	o.c.Open()
	return nil
}

func (o *busyOwner) RemoteBegin(s *Session, b *Begin) *Error {
	o.noted("begin %d", s.Channel())
	return nil
}

// RemoteAttach takes some links, refuses others, and leaves the rest for later.
func (o *busyOwner) RemoteAttach(l *Link, a *Attach) *Error {
	o.noted("attach %d %.20q", l.Session.Channel(), l.Name)
	if a.Handle%8 == 7 {
		return nil
	}
	l.Attach(&Attach{Source: a.Source, Target: a.Target})
	switch {
	case a.Handle%8 == 6:
		l.Detach(true, &Error{Condition: ErrCondNotFound})
	case l.Role == RoleReceiver:
		l.Grant(a.Handle%4 + 1)
	}
	return nil
}

func (o *busyOwner) LinkFlow(l *Link, f *Flow, drained uint32) {
	o.noted("flow %d %.20q %d %d", l.Session.Channel(), l.Name, l.Credit(), drained)
	if drained > 0 {
		l.Grant(1)
	}
	d := &OutDelivery{Tag: uint64(len(o.events))}
	for i := 0; l.Attached() && l.Credit() > 0 && l.Session.OutWindow() > 0 && i < 3; i++ {
		switch i {
		case 0:
			d.State = f.Properties
			l.Send(d, []byte("m"), nil, nil)
		case 1:
			l.Start(d)
			l.SendFrames(d, true, true, make([]byte, 2000), 1000)
		case 2:
			l.Start(d)
			l.SendFrames(d, true, false, make([]byte, 10), 1000)
			l.Abort(d)
		}
	}
	if l.Drain && l.Attached() {
		l.Drained()
	}
}

func (o *busyOwner) SessionFlow(*Session) {}

func (o *busyOwner) Transfer(l *Link, t *Transfer, payload []byte) *Error {
	o.noted("transfer %d %.20q %d %t %t %t %d", l.Session.Channel(), l.Name, t.DeliveryID.V, t.Settled.V, t.More, t.Aborted, len(payload))
	if !t.More {
		id := Serial(t.DeliveryID.V)
		l.Session.Dispose(RoleReceiver, id, id, !t.Settled.V, append(Raw(nil), t.State...))
		l.Grant(1)
	}
	if l.Session.WindowLow() {
		l.Session.FlowDue()
	}
	if len(payload) == 66 {
		return &Error{Condition: ErrCondInternalError}
	}
	o.tell()
	return nil
}

func (o *busyOwner) Disposition(s *Session, d *Disposition) {
	o.noted("disposition %d %d %d", s.Channel(), d.First, d.Last.V)
	if d.Last.V == 77 {
		s.End(&Error{Condition: ErrCondNotAllowed})
	}
	s.Dispose(!d.Role, Serial(d.First), Serial(d.Last.V), true, append(Raw(nil), d.State...))
}

func (o *busyOwner) LinkFailed(l *Link, err *Error) { o.noted("failed %.20q %v", l.Name, err) }

func (o *busyOwner) RemoteDetach(l *Link, d *Detach) {
	o.noted("detach %d %.20q", l.Session.Channel(), l.Name)
	if l.localAttached && l.Handle()%8 != 5 {
		l.Detach(d.Closed, d.Error)
	}
}

func (o *busyOwner) RemoteEnd(s *Session, e *End) { o.noted("end %d", s.Channel()) }
func (o *busyOwner) RemoteClose(cl *Close)        { o.noted("close") }

// checkListening has an engine hear b, after a good open when opened.
func checkListening(t *testing.T, b []byte, opened bool) {
	t.Helper()
	if opened {
		b = append(frames(&Open{ContainerID: "peer", MaxFrameSize: Some[uint32](600)}), b...)
	}
	var o *busyOwner
	var err error
	// A begin or an attach takes some 30 octets; what they make, and what is answered and noted
	// here, some hundred times as much at the worst.
	if n, limit := allocated(func() { o, err = listen(b, len(b)) }), uint64(64<<10+200*len(b)); n > limit {
		t.Errorf("%d octets made the engine allocate %d, limit %d", len(b), n, limit)
	}
	if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
		t.Fatalf("error %v is no *Error", err)
	}
	first := 0
	if len(b) > 0 {
		first = int(b[len(b)/2]) % len(b)
	}
	again, againErr := listen(b, first)
	if fmt.Sprint(err) != fmt.Sprint(againErr) || !slices.Equal(o.events, again.events) || !bytes.Equal(o.out, again.out) {
		t.Fatalf("whole: %v\n%q\n%x\ncut at %d: %v\n%q\n%x", err, o.events, o.out, first, againErr, again.events, again.out)
	}

	out := o.out
	for closed := false; len(out) > 0; {
		hdr, ok, err := ParseFrameHeader(out, o.c.maxOut)
		if err != nil || !ok || int(hdr.Size) > len(out) {
			t.Fatalf("the engine sent no whole frame: %x", out)
		}
		p, _, err := DecodePerformative(out[FrameHeaderSize:hdr.Size])
		if err != nil || closed {
			t.Fatalf("the engine sent %x: %v, behind a close: %t", out[:hdr.Size], err, closed)
		}
		_, closed = p.(*Close)
		out = out[hdr.Size:]
		if closed != (len(out) == 0 && o.c.CloseSent()) {
			t.Fatalf("a close at %d of %d octets", len(o.out)-len(out), len(o.out))
		}
	}
}

// FuzzConnInput has an engine hear octets, behind a good open or not.
func FuzzConnInput(f *testing.F) {
	f.Add(aboutEverything(), false)
	f.Add(aboutEverything()[len(frames(&Open{ContainerID: "peer"})):], true)
	setUp := frames(&Begin{IncomingWindow: 1000, OutgoingWindow: 1000}, &Attach{Name: "in", Handle: 1, Role: RoleSender}, &Attach{Name: "out", Handle: 2, Role: RoleReceiver},
		&Flow{IncomingWindow: 1000, Handle: Some[uint32](2), LinkCredit: Some[uint32](9)})
	for _, tt := range connectionErrors {
		f.Add(append(slices.Clone(setUp), tt.wire...), true)
	}
	for _, tt := range performatives {
		f.Add(append(slices.Clone(setUp), frames(tt.p)...), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, opened bool) {
		if len(b) > 1<<16 {
			t.Skip("long")
		}
		checkListening(t, b, opened)
	})
}

// fuzzPeer makes frames of a peer that keeps to the rules unless its program says otherwise. It
// cannot hear: what the engine answers is late for it, as for any peer.
type fuzzPeer struct {
	b        []byte
	sessions [4]*fuzzSession
}

type fuzzSession struct {
	nextID   uint32                 // of its next delivery
	handles  map[uint32]Role        // attached
	progress map[uint32]Opt[uint32] // by handle: the delivery of which frames are to follow
}

func (p *fuzzPeer) frame(channel uint16, f Performative) {
	p.b = AppendFrame(p.b, FrameAMQP, channel, f)
}

// do makes the frames of one instruction. Every sixteenth is heedless of what went before.
func (p *fuzzPeer) do(op byte, channel uint16, x, y uint32) {
	heedless := x>>4 == 15
	handle, number := x%8, uint32(binary.BigEndian.Uint16([]byte{byte(y), byte(x)}))<<16|uint32(y)
	s := p.sessions[channel]
	if s == nil {
		s = &fuzzSession{nextID: number, handles: make(map[uint32]Role), progress: make(map[uint32]Opt[uint32])}
	}
	if op == 0 && heedless || p.sessions[channel] == nil && !heedless {
		begin := &Begin{NextOutgoingID: number, IncomingWindow: y, OutgoingWindow: x}
		if heedless {
			begin.RemoteChannel = Some(uint16(y))
		}
		p.frame(channel, begin)
		p.sessions[channel] = s
	}
	role, attached := s.handles[handle]
	attach := func(role Role) {
		p.frame(channel, &Attach{Name: string(rune('a' + handle)), Handle: handle, Role: role, InitialDeliveryCount: Some(number)})
		s.handles[handle] = role
	}
	detach := func() {
		p.frame(channel, &Detach{Handle: handle, Closed: y%2 == 1, Error: &Error{Condition: "x", Description: string(make([]byte, 3*y))}})
		delete(s.handles, handle)
		delete(s.progress, handle)
	}
	switch op {
	case 0, 1: // attach
		if attached && !heedless {
			detach()
		}
		attach(Role(y%2 == 1))
	case 2:
		if attached || heedless {
			detach()
		}
	case 3, 4: // flow, mostly of a link
		if !attached && !heedless {
			attach(RoleReceiver)
		}
		p.frame(channel, &Flow{NextIncomingID: Some(x % 64), IncomingWindow: y, Handle: Opt[uint32]{handle, x&16 != 0}, DeliveryCount: Opt[uint32]{number % 64, y&1 != 0},
			LinkCredit: Opt[uint32]{number, y&2 != 0}, Drain: y&12 == 12, Echo: x&32 != 0})
	case 5, 6, 7, 8, 9: // transfer
		if (!attached || role != RoleSender) && !heedless {
			if attached {
				detach()
			}
			attach(RoleSender)
		}
		id, continues := s.progress[handle]
		t := &Transfer{Handle: handle, Settled: Opt[bool]{true, x&32 != 0}, More: y&3 == 3, Aborted: y > 250}
		if !continues {
			id = Some(s.nextID)
			s.nextID++
			t.DeliveryTag = []byte{byte(y)}
		}
		if !continues || y&4 != 0 || heedless {
			t.DeliveryID = id
		}
		if delete(s.progress, handle); t.More && !t.Aborted {
			s.progress[handle] = id
		}
		p.b = AppendTransferFrame(p.b, channel, t, make([]byte, y))
	case 10, 11: // disposition
		p.frame(channel, &Disposition{Role: x%2 == 1, First: number % 32, Last: Some(y), Settled: y%2 == 1,
			State: AppendRejected(nil, &Error{Condition: "x", Description: string(make([]byte, 3*x))})})
	case 12: // end
		if x < 128 {
			p.frame(channel, &End{})
			p.sessions[channel] = nil
		}
	case 13: // close
		if x == 0 {
			p.frame(channel, &Close{})
		}
	case 14: // much at once, beyond any window
		for range y {
			p.do(5, channel, x&15, 0)
		}
	}
}

// FuzzConnFrames has an engine hear a peer that mostly keeps to the rules.
func FuzzConnFrames(f *testing.F) {
	var everything []byte
	for op := range byte(15) {
		everything = append(everything, op, 0, 1, 0, op, 0, 17, 3, op, 1, 50, 7)
	}
	f.Add(everything)
	f.Add([]byte{0, 1, 0, 1, 1, 3, 0, 16, 255, 3, 0, 16, 14, 5, 0, 2, 3, 5, 0, 2, 7, 2, 0, 2, 0, 10, 0, 0, 77, 5, 0, 2, 3, 12, 0, 0, 0, 1, 0, 1, 0})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 2000 {
			t.Skip("long")
		}
		var p fuzzPeer
		for ; len(program) >= 4 && len(p.b) < 1<<16; program = program[4:] {
			p.do(program[0]%15, uint16(program[1])%4, uint32(program[2]), uint32(program[3]))
		}
		checkListening(t, p.b, true)
	})
}
