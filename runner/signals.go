package runner

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"
)

// signalPatience is how long a call in flight may still bring its answer after
// a signal that ends the run: an answer is cheaper and surer than an undo. With
// the undo it must stay below the second in which lockrun promises to end.
const signalPatience = 300 * time.Millisecond

// watchSignals notes the first signal until the function that it returns is
// called. That returns a signal that came, or nil; from then on the child gets
// them.
func (x *run) watchSignals() (unwatch func() os.Signal) {
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		select {
		case x.signal = <-x.Signals:
			close(x.stopped)
		case <-quit:
		}
	}()
	return func() os.Signal {
		close(quit)
		done.Wait()
		return x.signal
	}
}

// patient returns a context for a call on the way to the child: it ends at
// bound, and a little after a signal.
func (x *run) patient(bound time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	go cancelAfter(ctx, cancel, x.stopped, signalPatience)
	return ctx, cancel
}

// impatient returns a context for waiting: it ends at bound and with a signal.
func (x *run) impatient(bound time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	go cancelAfter(ctx, cancel, x.stopped, 0)
	return ctx, cancel
}

// cancelAfter cancels ctx a while after the signal has come.
func cancelAfter[T any](ctx context.Context, cancel context.CancelFunc, signal <-chan T, patience time.Duration) {
	select {
	case <-signal:
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// interrupted tells whether a signal ends the run.
func (x *run) interrupted() bool {
	select {
	case <-x.stopped:
		return true
	default:
		return false
	}
}

// died is the result of a run that a signal ended.
func died(sig os.Signal) Result {
	s, _ := sig.(syscall.Signal)
	return Result{Signal: s}
}
