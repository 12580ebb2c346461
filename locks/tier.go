package locks

import (
	"context"
	"time"
)

// Claim says who asks for a lock.
type Claim struct {
	Name   string    // the job's name
	RunID  string    // uuid, one for each attempt
	PID    int       // of this lockrun process
	Holder string    // for people; no control characters
	At     time.Time // when it asks, by the host's clock: for people only
}

// Filter is the first door: cheap, and allowed to lie. The quorum over Redis
// is one, the file lock of a single host is another. One goroutine at a time
// calls it.
type Filter interface {
	// Acquire asks once for c (a split vote is asked again inside). It returns
	// nil when the lock is ours, or a *HeldError, *UnavailableError or
	// *SetupError. Whatever it could not get it has given back, as far as the
	// servers answered.
	Acquire(ctx context.Context, c Claim) error
	// Renew keeps the lock for another ttl. It returns nil, an error that
	// [ErrLost] matches when the lock is another's for certain, or any other
	// error when nobody knows.
	Renew(ctx context.Context) error
	// Release gives the lock back, wakes one waiter, and is harmless when the
	// lock is not ours. It also undoes an Acquire that failed half-way.
	Release(ctx context.Context) error
	// Wait returns when asking again makes sense: woken by a release, or after
	// a pause with jitter. It returns early with ctx's error.
	Wait(ctx context.Context, held *HeldError) error
	// Close drops connections and files. It never releases.
	Close()
}
