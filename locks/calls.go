package locks

import (
	"context"
	"sync"
	"time"
)

// calls gives the calls of one goroutine, which makes them one after the other,
// a context that ends when a call takes too long, or with parent. As long as
// none does it is the same context, with the deadline moved on, so that a renewal
// costs nothing. Once ended it stays ended, for whatever still looks at it: the
// next call gets a new one.
type calls struct {
	parent context.Context
	limit  *limit
	ctx    context.Context
	cancel context.CancelFunc
}

// begin returns the context of a call that may take d.
func (c *calls) begin(d time.Duration) context.Context {
	if c.limit == nil {
		c.limit = newLimit(c.parent, d)
		// A driver derives contexts of its own, which costs least from one that
		// the standard library made.
		c.ctx, c.cancel = context.WithCancel(c.limit)
	} else {
		c.limit.move(d)
	}
	return c.ctx
}

// end says that the call has returned. If the timer can't be stopped any more, the
// context has ended or is about to.
func (c *calls) end() {
	if !c.limit.timer.Stop() {
		c.close()
	}
}

// close ends the context.
func (c *calls) close() {
	if c.limit != nil {
		c.cancel()
		c.limit.cancel(nil)
		c.limit = nil
	}
}

// limit is a context with a deadline that can be moved while its timer is stopped.
type limit struct {
	context.Context // ends by the timer, or with its parent
	cancel          context.CancelCauseFunc
	timer           *time.Timer

	mu sync.Mutex
	at time.Time
}

func newLimit(parent context.Context, d time.Duration) *limit {
	l := &limit{at: time.Now().Add(d)}
	l.Context, l.cancel = context.WithCancelCause(parent)
	l.timer = time.AfterFunc(d, func() { l.cancel(context.DeadlineExceeded) })
	return l
}

func (l *limit) move(d time.Duration) {
	l.mu.Lock()
	l.at = time.Now().Add(d)
	l.mu.Unlock()
	l.timer.Reset(d)
}

func (l *limit) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, true
}

func (l *limit) Err() error {
	if l.Context.Err() == nil {
		return nil
	}
	return context.Cause(l.Context)
}

// Value hides the context inside from the standard library, which would pass on
// that one's error instead of Err.
func (l *limit) Value(any) any { return nil }
