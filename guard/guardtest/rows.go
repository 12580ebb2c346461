package guardtest

import (
	"time"

	"lockrun/guard"
)

// Lease is a row of the table lease.
type Lease struct {
	Name, RunID string
	Token       int64
	Holder      string
	PID         int
	AcquiredAt  time.Time
	RenewedAt   time.Time
	ExpiresAt   time.Time
}

// Attempt is a row of the table attempt.
type Attempt struct {
	RunID, Name, Date string // Date is "" where the column is null
	Attempt           int
	Token             int64
	Holder, Host      string
	PID               int
	OSUser            string
	Command           []string
	StartedAt         time.Time
	EndedAt           time.Time // zero where the column is null
	Outcome           guard.Outcome
	ExitCode          *int
	Signal, Reason    string
	Version           string
}

// open tells whether the attempt may still get its outcome.
func (a *Attempt) open() bool {
	return a != nil && (a.Outcome == guard.OutcomeRunning || a.Outcome == guard.OutcomeUnknown)
}
