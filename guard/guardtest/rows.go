package guardtest

import "lockrun/guard"

// Lease is a row of the table lease.
type Lease = guard.Lease

// Attempt is a row of the table attempt.
type Attempt = guard.Attempt

// open tells whether the attempt may still get its outcome.
func open(a *Attempt) bool {
	return a != nil && (a.Outcome == guard.OutcomeRunning || a.Outcome == guard.OutcomeUnknown)
}
