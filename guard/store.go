package guard

import "context"

// Store keeps leases, guard rows and attempts. One goroutine at a time calls it.
//
// Errors are *locks.UnavailableError (nobody could decide), *locks.SetupError
// (trying again won't help), or ctx's own.
type Store interface {
	// Connect makes the connection that the next call needs, if it can: an error
	// is left for that call to meet. A store without connections does nothing.
	Connect(ctx context.Context)
	// Acquire takes lease, guard row and attempt in one durable transaction, or
	// nothing. It connects when it has to. A lost answer is asked for again with
	// the same run id until ctx ends; then the error says Taken.
	Acquire(ctx context.Context, r *Request) (Answer, error)
	// Renew keeps the lease for another ttl: nil; an error matching
	// [locks.ErrLost] when the row is not ours or has expired; another error
	// when nobody knows. It tries once.
	Renew(ctx context.Context, r *Request) error
	// Finish records the end and releases the lease in one durable transaction.
	// It tries once and may be repeated; a late one never touches a newer attempt.
	// A store that knows nothing of the run says so, with a *[NoRunError] in a
	// *locks.SetupError: the end would be lost without a word.
	Finish(ctx context.Context, e *End) error
	// Undo takes back what Acquire took or may still take for this run id: the
	// lease ends, the guard row goes, the attempt stays as not_started. It tries
	// once and may be repeated.
	Undo(ctx context.Context, r *Request, reason string) error
	// Close drops the connection. The store may be used again afterwards.
	Close()
}

// NoRunError says that a store has no record of a run, so that its end can't be
// stored there: the database was replaced, or lost what it had confirmed.
type NoRunError struct{ Why string }

func (e *NoRunError) Error() string { return e.Why }
