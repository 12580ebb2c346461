package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/runner/supervise"
)

func (x *run) renewLease(ctx context.Context) error { return x.Store.Renew(ctx, &x.req) }

// nextStart is the advice after a start that the system has refused.
const nextStart = "run it again when that is mended"

// neverStarted frees the date of a child that never existed.
func (x *run) neverStarted(err error) Result {
	code := ExitSystem
	var command *supervise.CommandError
	switch {
	case errors.Is(err, supervise.ErrTooLate):
		code = ExitUnavailable
	case errors.As(err, &command):
		code = command.Code
	}
	e := Event{
		Kind: EventUnavailable, Level: Error, Err: fmt.Errorf("nothing started: %w", err),
		Next: nextStart,
	}
	if reason := fmt.Sprintf("the child could not be started: %v", err); x.giveBackBecause(reason) != nil {
		e.Note = x.leftBehind(reason)
	}
	return x.final(e, Result{Code: code})
}

// finish records the end and releases, once the tree is dead; a tree that could
// not be killed is recorded and nothing is released.
func (x *run) finish(w *watch) Result {
	if w.dead && !w.exited && w.lost == nil {
		// An end that nobody saw is no success.
		w.lost = errors.New("nobody knows how the child ended")
	}
	end := x.end(w)
	endedAt := time.Now()
	released := func() {}
	if w.dead {
		released = x.releaseBeside()
	}
	err, kept := x.record(&end), ""
	if err != nil {
		kept = x.keepEnd(&end, endedAt)
	}
	released()
	how := ending{lost: w.lost != nil, timeout: w.timeout, recorded: err == nil, status: w.status}
	e := Event{Kind: EventEnded, Level: Info, Status: &w.status, EndedAt: endedAt}
	switch {
	case w.lost != nil:
		e.Kind, e.Level, e.Err = EventLost, Error, w.lost
	case w.timeout:
		e.Level, e.Err = Error, errOvertime
	}
	if !w.exited {
		e.Status = nil
	}
	switch {
	case err == nil:
		x.report(Event{Kind: EventRecorded, Level: Info})
		if e.Level == Error {
			e.Next = x.nextStep(w)
		}
	case e.Level == Error: // one line says both
		e.Note = fmt.Sprintf("and the result could not be stored: %v", err)
		if kept != "" {
			e.Note += "; " + kept
		}
	default:
		e.Kind, e.Level, e.Err, e.Note = EventUnrecorded, Error, err, kept
	}
	return x.final(e, how.result())
}

// nextStep follows a run that was ended and recorded.
func (x *run) nextStep(w *watch) string {
	switch dated := x.req.Date != ""; {
	case !w.dead && dated:
		return "end what lives on, then, when the lease has expired, --rerun unknown or `lockrun resolve`"
	case !w.dead:
		return "end what lives on before the lease expires: nothing else keeps the next run from starting beside it"
	case dated:
		return "the date counts as failed: look at what the child did, then --rerun failed or `lockrun resolve`"
	default:
		return "look at what the child did, then run it again"
	}
}

// end is the record of what happened.
func (x *run) end(w *watch) guard.End {
	e := guard.End{
		Name: x.req.Name, Date: x.req.Date, RunID: x.req.RunID,
		AtLeast: x.spec.AtLeast, KeepRunning: !w.dead, Reason: w.note,
	}
	if w.exited {
		if w.status.Signal != 0 {
			e.Signal = SignalName(w.status.Signal)
		} else {
			code := w.status.Code
			e.ExitCode = &code
		}
	}
	switch {
	case w.lost != nil:
		e.Outcome, e.Reason = guard.OutcomeLost, w.lost.Error()
	case w.timeout:
		e.Outcome, e.Reason = guard.OutcomeTimeout, errOvertime.Error()
	case w.status.Signal == 0 && w.status.Code == 0:
		e.Outcome = guard.OutcomeSucceeded
	default:
		e.Outcome = guard.OutcomeFailed
	}
	return e
}

// record stores the end. A store that is away is asked again for one ttl, or
// until a signal says that nobody wants to wait for it.
func (x *run) record(end *guard.End) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go cancelAfter(ctx, cancel, x.Signals, signalPatience) // a healthy store answers within it
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(max(x.Timing.Call/20, 10*time.Millisecond)),
		backoff.WithMaxInterval(x.Timing.Call),
		backoff.WithMaxElapsedTime(0), // the bound is the ttl, by our own clock
	)
	giveUp := x.Clock.Now().Add(x.Timing.TTL)
	for {
		err := x.recordOnce(ctx, end)
		var setup *locks.SetupError
		if err == nil || errors.As(err, &setup) || ctx.Err() != nil {
			return err
		}
		left := giveUp.Sub(x.Clock.Now())
		if left <= 0 {
			return err
		}
		// The last pause is cut, so that the last call is made when the ttl ends.
		if locks.Sleep(ctx, min(retry.NextBackOff(), left)) != nil {
			return err
		}
	}
}

func (x *run) recordOnce(ctx context.Context, end *guard.End) error {
	ctx, cancel := context.WithTimeout(ctx, x.Timing.Call)
	defer cancel()
	return x.Store.Finish(ctx, end)
}
