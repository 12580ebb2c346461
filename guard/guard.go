// Package guard answers whether a run of this name and date exists, and keeps
// the record of every attempt. The Postgres and SQLite stores below it pass the
// second and the third door in one transaction: the lease, then the guard row.
package guard

import (
	"time"

	"lockrun/locks"
)

// SchemaVersion is the version of the schema that this program works with.
const SchemaVersion = 1

// State is the state of a guard row (a name and date).
type State string

// The states of a guard row. A running row without a live lease of its run is
// called unknown: nobody can say how that attempt ended.
const (
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
)

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of an attempt.
const (
	OutcomeRunning    Outcome = "running"
	OutcomeSucceeded  Outcome = "succeeded"
	OutcomeFailed     Outcome = "failed"
	OutcomeLost       Outcome = "lost"        // lockrun ended the child because lock or lease were lost
	OutcomeTimeout    Outcome = "timeout"     // --max-runtime
	OutcomeNotStarted Outcome = "not_started" // the child never existed; the date is free
	OutcomeUnknown    Outcome = "unknown"     // its lease ended without a word
)

// State is the state that a guard row gets from an attempt that ended with o.
// The outcomes running, not_started and unknown give none: "".
func (o Outcome) State() State {
	switch o {
	case OutcomeSucceeded:
		return Succeeded
	case OutcomeFailed, OutcomeLost, OutcomeTimeout:
		return Failed
	}
	return ""
}

// Rerun is the set of earlier ends of a date that --rerun opens again.
type Rerun struct {
	Failed, Unknown, Succeeded bool
}

// Words gives the set as the words of --rerun.
func (r Rerun) Words() []string {
	words := []string{}
	for _, w := range []struct {
		on   bool
		word string
	}{{r.Failed, "failed"}, {r.Unknown, "unknown"}, {r.Succeeded, "succeeded"}} {
		if w.on {
			words = append(words, w.word)
		}
	}
	return words
}

// Request asks for the lease of a name and, with a date, for its guard row.
type Request struct {
	Name  string
	Date  string // resolved text of --date; "" = no guard row
	RunID string // uuid of this attempt; repeating a request with it is safe
	// From and Before are the instants between which Date is right, for a date
	// that a word stands for; both zero for a date that was given in full. The
	// store compares them with its own clock less Elapsed.
	From, Before time.Time
	// Elapsed tells the time since lockrun was started; nil means zero.
	Elapsed func() time.Duration

	Holder  string // --holder, for people
	Host    string
	PID     int // of this lockrun process
	OSUser  string
	Command []string
	Version string // of this lockrun
	TTL     time.Duration
	Rerun   Rerun
}

// Since is the time since lockrun was started.
func (r *Request) Since() time.Duration {
	if r.Elapsed == nil {
		return 0
	}
	return r.Elapsed()
}

// Claim is what the lock tiers need of the request.
func (r *Request) Claim(at time.Time) locks.Claim {
	return locks.Claim{Name: r.Name, RunID: r.RunID, PID: r.PID, Holder: r.Holder, At: at}
}

// Run is a guard row together with the attempt that it points to.
type Run struct {
	Name      string
	Date      string
	State     State
	RunID     string
	Attempt   int
	StartedAt time.Time
	EndedAt   time.Time // zero = not ended
	ExitCode  *int
	Signal    string // "SIGKILL"; then ExitCode is nil
	Reason    string
	Holder    string // of the attempt, "" when its row is missing
	Host      string
	PID       int
}

// Answer is what a store says to a [Request].
type Answer struct {
	Verdict Verdict
	At      time.Time // the store's clock when it answered
	Meant   time.Time // WrongDate: the instant it judged by, its clock less Elapsed
	Token   int64     // Granted: the fencing token, positive, never repeated for a name
	Attempt int       // Granted: 1 + earlier attempts of this date whose child started; 1 without a date
	Held    *locks.HeldError
	Prior   *Run // Done, Failed, Unknown: the row that shuts the door
}

// Verdict is the store's decision.
type Verdict int

// The verdicts. Only Granted lets the child start.
const (
	Granted     Verdict = iota + 1
	Held                // another run's lease is live
	AlreadyDone         // the guard row says succeeded
	WasFailed           // the guard row says failed
	IsUnknown           // the guard row says running, but its run has no live lease
	WrongDate           // by the store's clock Date is not the date that was meant; nothing was taken
)

// End is how an attempt ended, for the record.
type End struct {
	Name, Date, RunID string
	Outcome           Outcome
	ExitCode          *int   // nil when Signal is set or the child never ended provably
	Signal            string // "SIGKILL"
	Reason            string
	// KeepRunning leaves the guard row in state running, and the lease to
	// expire by itself: the death of the child's tree was not proved.
	KeepRunning bool
	// AtLeast keeps the lease until this long after it was acquired.
	AtLeast time.Duration
}
