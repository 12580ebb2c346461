package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// maxGrace is what a hung node may cost once a majority has granted.
	maxGrace = 300 * time.Millisecond
	// maxPatience is what a node may take as long as a majority is missing: the
	// first connection over TLS is five round trips. It must stay well below
	// the bound of a whole start, ttl/2; ttl/6 sees to that.
	maxPatience = 3 * time.Second
)

// round is one question to all nodes at once.
type round struct {
	ctx    context.Context // of the requests; it is not the caller's
	cancel context.CancelFunc
	unhook func() bool
	began  time.Time
	grace  time.Duration
	cut    chan struct{} // closed when the nodes without an answer are left behind

	mu      sync.Mutex
	missing int // grants until a majority has granted
	hurried *time.Timer
	asked   int  // requests on their way
	ended   bool // nobody waits for them any more
}

// newRound begins a round. When caller ends, the nodes have the grace left, and
// not less: to drop a request that was sent would only hide its effect.
func newRound(caller context.Context, need int, grace, patience time.Duration) *round {
	r := &round{began: time.Now(), grace: grace, missing: need, cut: make(chan struct{})}
	r.ctx, r.cancel = context.WithTimeout(context.WithoutCancel(caller), patience)
	r.unhook = context.AfterFunc(caller, r.hurry)
	return r
}

// hurry ends the round when the grace is over.
func (r *round) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hurried == nil && !r.ended {
		r.hurried = time.AfterFunc(r.grace-time.Since(r.began), func() { close(r.cut) })
	}
}

// granted counts a node that did what it was asked for, or that had nothing to do.
func (r *round) granted() {
	r.mu.Lock()
	r.missing--
	enough := r.missing == 0
	r.mu.Unlock()
	if enough {
		r.hurry()
	}
}

// end stops the requests that were left behind, as far as they can be stopped,
// unless they may go on: a slow node that takes our key late, or connects late,
// is good for a lock that we have. No timer is left to wake lockrun for nothing.
func (r *round) end(goOn bool) {
	r.unhook()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.hurried != nil {
		r.hurried.Stop()
	}
	if !goOn || r.asked == 0 {
		r.cancel()
	}
}

// sent counts the requests on their way: n is 1 for a new one, -1 for one that is
// over.
func (r *round) sent(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked += n
	if r.ended && r.asked == 0 {
		r.cancel()
	}
}

// slowError says that a node was left behind.
type slowError struct{ after time.Duration }

func (e *slowError) Error() string {
	return fmt.Sprintf("no answer within %s", e.after.Round(time.Millisecond))
}

// request sends one request of the round. It returns at the latest when the
// round ends, whatever the library does: reads obey no cancellation, and a
// look-up of a name may hang.
func request[T any](r *round, send func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	c := make(chan answer, 1)
	r.sent(1)
	go func() {
		value, err := safely(r.ctx, send)
		c <- answer{value, err}
		r.sent(-1)
	}()
	select {
	case a := <-c:
		return a.value, a.err
	case <-r.cut:
	case <-r.ctx.Done():
	}
	var none T
	return none, &slowError{time.Since(r.began)}
}

// safely sends a request.
func safely[T any](ctx context.Context, send func(context.Context) (T, error)) (value T, err error) {
	defer recovered(&err)
	return send(ctx)
}
