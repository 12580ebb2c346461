package locks

import (
	"errors"
	"fmt"
	"time"
)

// ErrLost says for certain that a lock or lease that was ours is not ours any
// more. A call that merely failed is never ErrLost.
var ErrLost = errors.New("not ours any more")

// Holder describes who has a lock or lease, as far as the tier knows.
type Holder struct {
	RunID string    // uuid of the attempt that holds
	Text  string    // --holder of that run: for people
	PID   int       // of its lockrun process; 0 = unknown
	Since time.Time // zero = unknown
	Until time.Time // end of the lease if it is not renewed; zero = unknown
	Token int64     // fencing token; 0 = the tier has none
}

// HeldError says that somebody else has the lock or the lease (exit 75).
type HeldError struct {
	Tier string // which door said so: "quorum", "lease", "file lock"
	By   Holder
	// Ended says that the holder's run has ended: --at-least keeps its lease
	// until By.Until, and nobody renews it.
	Ended bool
	// Blocker is the process id of the Postgres session that keeps the lease
	// row locked (an open fence, an operator's transaction), 0 if there is none.
	Blocker int
}

func (e *HeldError) Error() string {
	if e.Blocker != 0 {
		return fmt.Sprintf("the lease row is locked by the open transaction of Postgres process %d", e.Blocker)
	}
	return fmt.Sprintf("held by %s (%s)", e.By.Text, e.Tier)
}

// UnavailableError says that a door could not decide: unreachable, read-only,
// no quorum, too slow (exit 69). Nothing was started.
type UnavailableError struct {
	What string // the server or tier, without secrets: "Postgres at db:5432"
	Err  error  // why; its text holds no secret
	Next string // what to do about it, one clause; may be empty
	// Taken is set when a request was sent and its answer never came, so that
	// the lock, lease or date may have been taken by this very run.
	Taken bool
}

func (e *UnavailableError) Error() string { return e.What + ": " + e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// SetupError says that a set-up is unsafe or wrong and that trying again won't
// help: schema missing, login refused, permission denied (exit 78).
type SetupError struct {
	What string
	Err  error
	Next string
}

func (e *SetupError) Error() string { return e.What + ": " + e.Err.Error() }
func (e *SetupError) Unwrap() error { return e.Err }
