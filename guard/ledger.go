package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockrun/locks"
)

// Ledger is the record as people read and correct it. One goroutine at a time
// calls it. Reading changes nothing and believes nothing: rows that somebody
// edited by hand come back as they are, with what makes no sense left out.
//
// Errors are *locks.UnavailableError, *locks.SetupError (a schema of another
// version too), ctx's own, and those that the methods name.
type Ledger interface {
	// Latest reads, of one name or for "" of all, the lease, the guard rows that
	// are running and the one of the latest date, and the attempts that all of
	// these point to.
	Latest(ctx context.Context, name string) (*Rows, error)
	// All reads every row of a name.
	All(ctx context.Context, name string) (*Rows, error)
	// Resolve decides a date whose guard row is failed or unknown, and returns
	// that row as it was and what was put on record. It refuses with
	// [ErrNotFound], a *[SettledError], or a *locks.HeldError while the lease of
	// that run is live.
	Resolve(ctx context.Context, r *Resolution) (Run, *Audit, error)
	// Release ends the lease of a name and returns the row as it was and what was
	// put on record: nil if the lease was over already. It refuses with
	// [ErrNotFound], or a *locks.HeldError for a holder in good standing unless
	// it is forced.
	Release(ctx context.Context, e *Eviction) (Lease, *Audit, error)
	// Note puts on record what a person did to something outside the record, and
	// returns the row; At is the store's.
	Note(ctx context.Context, a *Audit) (*Audit, error)
	// Close drops the connection.
	Close()
}

// Rows are rows of the record, all read at one instant.
type Rows struct {
	At       time.Time // the store's clock then
	Leases   []Lease
	Runs     []Run // without Holder, Host and PID: those are the attempts'
	Attempts []Attempt
}

// Lease is a row of the table lease. A time that makes no sense is zero.
type Lease struct {
	Name, RunID string
	Token       int64
	Holder      string
	PID         int
	AcquiredAt  time.Time
	RenewedAt   time.Time
	ExpiresAt   time.Time
	// Ended tells, of a row that a [Ledger] read, that its run is on record as
	// ended, with all of its processes: what is left of the lease is --at-least.
	Ended bool
}

// Attempt is a row of the table attempt.
type Attempt struct {
	RunID, Name, Date string // Date is "" where the column is null
	Attempt           int
	Token             int64
	Holder, Host      string
	PID               int // of the lockrun process
	OSUser            string
	Command           []string
	StartedAt         time.Time
	EndedAt           time.Time // zero where the column is null
	Outcome           Outcome
	ExitCode          *int
	Signal, Reason    string
	Version           string
}

// Audit is a row of the table audit: what a person did, and why.
type Audit struct {
	At                                time.Time
	Actor, Action, Name, Date, Reason string
	Before, After                     string // the row as JSON, "" where there was none
}

// Decision is what a person makes of a date.
type Decision string

// The decisions. Rerun opens the date for one more attempt.
const (
	AsSucceeded Decision = "succeeded"
	AsFailed    Decision = "failed"
	AsRerun     Decision = "rerun"
)

// Resolution decides a date.
type Resolution struct {
	Name, Date string
	As         Decision
	Reason     string // not empty
	Actor      string // who decides: the user and host; a store adds its own login
}

// Words is what the attempt's reason says about the resolution.
func (r *Resolution) Words(actor string) string {
	return fmt.Sprintf("resolved as %s by %s: %s", r.As, actor, r.Reason)
}

// Eviction ends a lease.
type Eviction struct {
	Name   string
	Reason string // not empty
	Actor  string
	Force  bool // end also that of a holder in good standing
}

// ErrNotFound says that the record has no such name or date.
var ErrNotFound = errors.New("there is no record of it")

// SettledError says that a date needs no decision.
type SettledError struct{ Run Run }

func (e *SettledError) Error() string { return "the date has " + string(e.Run.State) + " already" }

// AbsurdAfter is the longest time from renewal to expiry that is believed.
const AbsurdAfter = 7 * 24 * time.Hour

// Live tells whether the lease is held, by the store's clock.
func (l *Lease) Live(now time.Time) bool { return l.ExpiresAt.After(now) }

// Absurd tells whether no holder can have written the lease: its end is too far
// away, it was renewed in the future, or a time can't be read.
func (l *Lease) Absurd(now time.Time) bool {
	return l.AcquiredAt.IsZero() || l.RenewedAt.IsZero() || l.ExpiresAt.IsZero() ||
		l.ExpiresAt.Sub(l.RenewedAt) > AbsurdAfter || l.RenewedAt.Sub(now) > time.Minute
}

// Overdue tells whether the holder has missed a renewal. One is due every third
// of the ttl and may take a sixth, so after half of it none is on its way.
// None is due any more when the run has ended.
func (l *Lease) Overdue(now time.Time) bool {
	return !l.Ended && now.After(l.OverdueAt())
}

// OverdueAt is the moment after which the lease is [Lease.Overdue].
func (l *Lease) OverdueAt() time.Time { return l.RenewedAt.Add(l.ExpiresAt.Sub(l.RenewedAt) / 2) }

// HeldError says that the lease is held.
func (l *Lease) HeldError() *locks.HeldError {
	holder := strings.TrimSpace(l.Holder)
	if holder == "" {
		holder = "a holder without a name"
	}
	return &locks.HeldError{Tier: "lease", Ended: l.Ended, By: locks.Holder{
		RunID: l.RunID, Text: holder, PID: l.PID, Since: l.AcquiredAt, Until: l.ExpiresAt, Token: l.Token,
	}}
}

// Releasable tells whether the lease may be ended without force: a renewal is
// missing, or nobody can have written it.
func (l *Lease) Releasable(now time.Time) bool {
	return now.After(l.OverdueAt()) || l.Absurd(now)
}

// Refused tells a decision of a [Ledger] from a failure.
func Refused(err error) bool {
	var held *locks.HeldError
	var settled *SettledError
	return errors.Is(err, ErrNotFound) || errors.As(err, &held) || errors.As(err, &settled)
}
