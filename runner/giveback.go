package runner

import (
	"context"
	"errors"
	"os"
	"time"

	"lockrun/locks"
)

// failed ends a run whose doors answered with an error, and takes back what may
// have been taken.
func (x *run) failed(err error) Result {
	return x.unavailable(err, !x.giveBack())
}

// unavailable reports a door that could not decide, with the code that fits.
func (x *run) unavailable(err error, leftBehind bool) Result {
	e := Event{Kind: EventUnavailable, Level: Error, Err: err}
	code := ExitUnavailable
	var (
		setup *locks.SetupError
		away  *locks.UnavailableError
		date  *DateError
	)
	switch {
	case errors.As(err, &setup):
		e.Kind, e.Next, code = EventConfig, setup.Next, ExitConfig
	case errors.As(err, &date):
		e.Kind, code = EventUsage, ExitUsage
	case errors.As(err, &away):
		e.Next = away.Next
	}
	if e.Next == "" && code == ExitUnavailable {
		e.Next = "nothing started, run it again when that is mended"
	}
	if leftBehind {
		e.Note = x.leftBehind(earlyEnd)
	}
	return x.final(e, Result{Code: code})
}

// leftBehind says what could not be taken back, and leaves it to the outbox.
func (x *run) leftBehind(reason string) string {
	note := "the date may be taken by this run, which started nothing: see `lockrun status`"
	if x.req.Date == "" {
		note = "the lease may stay taken for up to one ttl"
	}
	if later := x.keepNotStarted(reason); later != "" {
		note += "; " + later
	}
	return note
}

// earlyEnd is the reason on record of a run that never got to its child.
const earlyEnd = "lockrun ended before the child was started"

// abandon ends a run that a signal stopped before the child existed. What was
// taken, or may still be taken by a request under way, goes back.
func (x *run) abandon(sig os.Signal) Result {
	if !x.giveBack() {
		return x.final(Event{Kind: EventUnavailable, Level: Error, Err: errors.New("stopped by " + SignalName(sig)), Note: x.leftBehind(earlyEnd)}, died(sig))
	}
	return died(sig)
}

// giveBackAfterSignal bounds the undo, and then the release of the filter, when a
// signal ends the run: with signalPatience the two stay within the second that
// lockrun promises.
const giveBackAfterSignal = 300 * time.Millisecond

// bounded is a context for giving back: it does not end with the run's own.
func (x *run) bounded() (context.Context, context.CancelFunc) {
	bound := x.Timing.Call
	if x.interrupted() {
		bound = min(bound, giveBackAfterSignal)
	}
	return context.WithTimeout(context.Background(), bound)
}

// giveBack returns what the run has taken: the lease and the date, or whatever a
// request without an answer may yet take, then the filter. It says whether the
// first is certain; the filter's key ends by itself in any case.
func (x *run) giveBack() (clean bool) {
	return x.giveBackBecause(earlyEnd) == nil
}

// giveBackBecause is giveBack with a reason for the record.
func (x *run) giveBackBecause(reason string) (err error) {
	if x.mayHold {
		err = x.undo(reason)
	}
	x.releaseFilter()
	return err
}

// undo makes the store forget the run, except for the attempt's own row.
func (x *run) undo(reason string) error {
	ctx, cancel := x.bounded()
	defer cancel()
	err := x.Store.Undo(ctx, &x.req, reason)
	if err != nil {
		x.report(Event{Kind: EventUnavailable, Level: Debug, Err: err})
		return err
	}
	x.mayHold = false
	return nil
}

// releaseFilter gives the filter back, or what a half-won one left on some
// node. One whose window closed is not touched again.
func (x *run) releaseFilter() { x.releaseBeside()() }

// releaseBeside begins to give the filter back, beside what else there is to do,
// and returns the wait for it. At the end of a run that is the record, so that the
// two take one round trip and not two. Nothing rests on their order: the child's
// tree is dead, and whoever passes the filter before the record is stored finds
// the lease held, as after --at-least, and asks again.
func (x *run) releaseBeside() (wait func()) {
	if x.Filter == nil || x.dropped {
		return func() {}
	}
	ctx, cancel := x.bounded()
	released := make(chan error, 1)
	go func() { released <- x.Filter.Release(ctx) }()
	return func() {
		defer cancel()
		if err := <-released; err != nil {
			x.report(Event{Kind: EventReleased, Level: Debug, Err: err})
		}
		x.filtered = false
	}
}
