//go:build linux

package chaos

import (
	"fmt"
	"time"
)

// moment is an instant by the host's wall clock, in microseconds of the epoch.
// What the database's clock says is shifted to it by the known offset.
type moment int64

func at(t time.Time) moment { return moment(t.UnixMicro()) }

func (m moment) add(d time.Duration) moment { return m + moment(d.Microseconds()) }

func (m moment) sub(o moment) time.Duration { return time.Duration(m-o) * time.Microsecond }

func (m moment) String() string { return time.UnixMicro(int64(m)).UTC().Format("15:04:05.000000") }

// span is a time from and to.
type span struct {
	From, To moment
	What     string
}

func (s span) overlaps(from, to moment) bool { return s.From <= to && from <= s.To }

// history is all that is known of a schedule once it is over.
type history struct {
	TTL         time.Duration
	Pointless   bool // the lead's job never started
	KillMargin  time.Duration
	Invocations []invocation
	Children    []child
	Leases      []lease   // every state that a lease row had, in order
	Attempts    []attempt // the record
	Dates       []date    // the guard rows
	Ledger      []posting // in order of their numbers
	Faults      []span
	Stalls      []span   // when the machine stood still
	Left        []string // what was there when all was quiet
}

// invocation is one process of lockrun, seen from outside.
type invocation struct {
	ID, Name, Date string
	Rerun          string
	Began, Ended   moment
	End            ending
	Harm           string // what was done to it or its guardian; "" = nothing
	Limited        bool   // by --max-runtime
	Calm           bool   // no fault was near
	Survives       bool   // the schedule's faults are no reason to lose it
	MayBeTaken     bool   // it said that its date may be taken
	Unkept         bool   // it said that not even the outbox took its end
	Held           bool   // it said that somebody holds the name, waiting included
	Unproved       bool   // it said that its child's death is not proved
	Log            string
}

func (i *invocation) String() string {
	return fmt.Sprintf("invocation %s (%s %s, %s to %s, %s, harm %q)", i.ID, i.Name, i.Date, i.Began, i.Ended, i.End, i.Harm)
}

// ending is how a process ended: of a signal, or with a code.
type ending struct {
	Signal, Code int
	Hung         bool // it had to be killed
}

func (e ending) String() string {
	switch {
	case e.Hung:
		return "hung"
	case e.Signal != 0:
		return fmt.Sprintf("died of signal %d", e.Signal)
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// child is a job's own account of its life, its descendants' included.
type child struct {
	Invocation  string
	RunID       string
	Name, Date  string
	Token       int64
	Start, Last moment
	End         *ending // how it was about to end; nil = it was cut short
}

func (c *child) String() string {
	return fmt.Sprintf("the child of %s (%s %s, run %s, token %d, alive %s to %s)", c.Invocation, c.Name, c.Date, c.RunID, c.Token, c.Start, c.Last)
}

type lease struct {
	Name, RunID string
	Token       int64
	Acquired    moment
	At, Until   moment // when it was written, and its expiry
}

type attempt struct {
	Invocation, RunID, Name, Date string
	Token                         int64
	Outcome                       string
	Code                          int // -1 = none
	Signal                        string
}

type date struct{ Name, Date, State, RunID string }

type posting struct {
	Number      int64
	Name, RunID string
	Token       int64
}
