package linkroute

import (
	"slices"
	"time"
)

// A linkState is how the link of an autolink on one connection stands (RT 4.2).
type linkState uint8

// The states, from least to most: an autolink on several connections shows the most.
const (
	inactive linkState = iota
	failed
	attaching
	active
)

// String is the state as management shows it.
func (s linkState) String() string {
	return [...]string{"inactive", "failed", "attaching", "active"}[s]
}

// After the first failure in its life an autolink tries again sooner than after later ones (RT A5).
const (
	firstRetry = 2 * time.Second
	laterRetry = 5 * time.Second
)

// attempts decides when an autolink is attached: one link for each connection that it is for.
// Connections are known by number. Its methods say what is to be done.
type attempts struct {
	failedOnce bool
	alone      bool   // attached in a session that no other link shares
	lastError  string // kept after a later success (RT A6)
	conns      []attempt
}

// attempt is the link on one connection.
type attempt struct {
	conn  uint64
	state linkState
}

// A step is something to be done about the link on a connection.
type step struct {
	do    todo
	conn  uint64
	after time.Duration // of retry
	alone bool          // of attach: in a session that no other link shares
}

type todo uint8

const (
	attach todo = iota // attach a link
	bind               // put it into service
	retry              // come back with due
	detach             // take it away
	cancel             // no due any more
)

func (a *attempts) of(conn uint64) *attempt {
	for i := range a.conns {
		if a.conns[i].conn == conn {
			return &a.conns[i]
		}
	}
	return nil
}

// state is the one of the whole autolink.
func (a *attempts) state() (s linkState) {
	for i := range a.conns {
		s = max(s, a.conns[i].state)
	}
	return s
}

// opened takes in that a connection is there.
func (a *attempts) opened(conn uint64) []step {
	if a.of(conn) != nil {
		return nil
	}
	a.conns = append(a.conns, attempt{conn, attaching})
	return []step{{do: attach, conn: conn, alone: a.alone}}
}

// closed takes in that a connection has gone, and its link with it (RT A7).
func (a *attempts) closed(conn uint64) []step {
	x := a.of(conn)
	if x == nil {
		return nil
	}
	was := x.state
	a.conns = slices.DeleteFunc(a.conns, func(x attempt) bool { return x.conn == conn })
	if was == failed {
		return []step{{do: cancel, conn: conn}}
	}
	return nil
}

// attached takes in the container's attach; named tells whether its terminus has an address, which
// a refusal has not.
func (a *attempts) attached(conn uint64, named bool) []step {
	x := a.of(conn)
	if x == nil || x.state != attaching || !named {
		return nil
	}
	x.state = active
	return []step{{do: bind, conn: conn}}
}

// detached takes in that the container took the link away, or would not have it. text is the
// description of the error, "" if there was none (RT A4, A5).
func (a *attempts) detached(conn uint64, text string) []step {
	x := a.of(conn)
	if x == nil || x.state != attaching && x.state != active {
		return nil
	}
	x.state = failed
	a.lastError = text
	after := laterRetry
	if !a.failedOnce {
		a.failedOnce, after = true, firstRetry
	}
	return []step{{do: retry, conn: conn, after: after}}
}

// ended takes in that the container ended the session of the link; text is as for detached. There
// are brokers that answer so to an attach they do not like, and with it end every other link of
// the session: whoever had not been answered may be the cause, and is attached alone from now on,
// so that it ends no other link again.
func (a *attempts) ended(conn uint64, text string) []step {
	if x := a.of(conn); x != nil && x.state == attaching {
		a.alone = true
	}
	return a.detached(conn, text)
}

// due takes in that it is time to try again.
func (a *attempts) due(conn uint64) []step {
	x := a.of(conn)
	if x == nil || x.state != failed {
		return nil
	}
	x.state = attaching
	return []step{{do: attach, conn: conn, alone: a.alone}}
}

// deleted ends it all (RT A9).
func (a *attempts) deleted() (steps []step) {
	for _, x := range a.conns {
		if x.state == failed {
			steps = append(steps, step{do: cancel, conn: x.conn})
		} else {
			steps = append(steps, step{do: detach, conn: x.conn})
		}
	}
	a.conns = nil
	return steps
}
