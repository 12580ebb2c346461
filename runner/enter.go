package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// enter goes through the doors, as often as waiting allows. It returns true
// with all of them open and held, otherwise how lockrun ends, with nothing of
// the run left behind.
func (x *run) enter() (granted bool, res Result) {
	if err := x.dateFromHost(); err != nil {
		return false, x.final(Event{Kind: EventUsage, Level: Error, Err: err}, Result{Code: ExitUsage})
	}
	waitUntil := x.spec.Started.Add(x.spec.Wait)
	for {
		held, granted, res := x.try()
		if held == nil {
			return granted, res
		}
		left := waitUntil.Sub(x.Clock.Now())
		if left <= 0 {
			return false, x.final(Event{Kind: EventHeld, Level: Warn, Held: held, Next: x.heldAdvice()}, Result{Code: x.spec.HeldCode})
		}
		x.report(Event{Kind: EventHeld, Level: Info, Held: held, Note: "waiting for it"})
		x.Store.Close() // a waiter costs no session
		ctx, cancel := x.impatient(left)
		err := x.wait(ctx, held)
		cancel()
		if x.interrupted() {
			x.giveBack()
			return false, died(x.signal)
		}
		x.req.RunID = x.spec.NewRunID()
		if err != nil && ctx.Err() == nil {
			x.giveBack()
			return false, x.unavailable(err, false)
		}
	}
}

// heldAdvice is the next step of a run that found the door held.
func (x *run) heldAdvice() string {
	if x.spec.Wait > 0 {
		return fmt.Sprintf("waited for %s in vain", x.spec.Wait)
	}
	return "--wait DURATION waits for it"
}

// wait pauses until asking again makes sense.
func (x *run) wait(ctx context.Context, held *locks.HeldError) error {
	if x.Filter != nil {
		return x.Filter.Wait(ctx, held)
	}
	// About one question a second, sooner when the lease is known to end.
	pause := time.Second/2 + rand.N(time.Second)
	if left := time.Until(held.By.Until); left > 0 {
		pause = min(pause, left+rand.N(100*time.Millisecond))
	}
	return locks.Sleep(ctx, pause)
}

// try asks at each door once. A held door is returned for the caller to wait
// at; everything taken before it was given back.
func (x *run) try() (held *locks.HeldError, granted bool, res Result) {
	begun := x.Clock.Now()
	left := func() time.Duration { return begun.Add(x.Timing.StartBudget()).Sub(x.Clock.Now()) }

	if err := x.tryFilter(left()); err != nil {
		if x.interrupted() {
			return nil, false, x.abandon(x.signal)
		}
		if errors.As(err, &held) {
			return held, false, Result{}
		}
		x.giveBack()
		return nil, false, x.unavailable(err, false)
	}
	if x.interrupted() {
		return nil, false, x.abandon(x.signal)
	}

	x.beginChild()
	x.sendOutbox(left())
	if x.interrupted() {
		return nil, false, x.abandon(x.signal)
	}
	x.connectStore(left())
	if x.interrupted() {
		return nil, false, x.abandon(x.signal)
	}
	// Not before all is there that the child needs: a host that has no room for
	// the supervision may end lockrun right then, and nothing must be taken.
	if err := x.awaitChild(left()); err != nil {
		return nil, false, x.childless(err)
	}
	err := x.tryStore(left)
	if x.interrupted() {
		return nil, false, x.abandon(x.signal)
	}
	if err != nil {
		return nil, false, x.failed(err)
	}
	switch x.answer.Verdict {
	case guard.Granted:
		if now := x.Clock.Now(); now >= x.Timing.TermAt(x.Timing.KillAt(x.windowEnd())) {
			return nil, false, x.failed(&locks.UnavailableError{
				What: "the way to the start", Err: errors.New("took so long that the lock or the lease is about to end"),
				Next: "raise --ttl or look for the slow server with -v",
			})
		}
		x.report(Event{Kind: EventAcquired, Level: Info})
		return nil, true, Result{}
	case guard.Held:
		x.giveBack()
		return x.answer.Held, false, Result{}
	case guard.AlreadyDone:
		x.giveBack()
		return nil, false, x.final(Event{Kind: EventDone, Level: Warn, Prior: x.answer.Prior}, Result{Code: x.spec.DoneCode})
	}
	x.giveBack()
	e := Event{Kind: EventRefused, Level: Error, Prior: x.answer.Prior, Verdict: x.answer.Verdict}
	if p := e.Prior; p != nil && e.Verdict == guard.IsUnknown && p.Host == x.req.Host {
		e.Note = stillLiving(p.RunID)
	}
	return nil, false, x.final(e, Result{Code: ExitRefused})
}

// stillLiving says what is left of a run on this host.
func stillLiving(runID string) string {
	if pids := Living(runID); len(pids) > 0 {
		return fmt.Sprintf("where processes of it still live: %v", pids)
	}
	return "where no process of it is to be seen"
}

var errNoGuardian = errors.New("the supervision of the child did not begin in time: a new process hangs before it runs")

// begun is what NewChild returned.
type begun struct {
	child Child
	err   error
}

// connectStore connects to the store while the supervision begins.
func (x *run) connectStore(bound time.Duration) {
	ctx, cancel := x.patient(bound)
	defer cancel()
	x.Store.Connect(ctx)
}

// beginChild begins the supervision, once for all tries, while the store is
// connected to.
func (x *run) beginChild() {
	if x.child != nil || x.begun != nil {
		return
	}
	answer := make(chan begun, 1)
	x.begun = answer
	go func() {
		c, err := x.NewChild()
		answer <- begun{c, err}
	}()
}

// awaitChild returns when the supervision has begun. It does not wait for ever:
// a process that is stopped between fork and exec, or whose program file can't be
// read, holds up whoever forked it. What has hung once is not asked again.
func (x *run) awaitChild(bound time.Duration) error {
	if x.begun == nil {
		return nil
	}
	answer := x.begun
	x.begun = nil
	ctx, cancel := x.patient(bound)
	defer cancel()
	select {
	case b := <-answer:
		if b.err == nil {
			x.child = b.child
		}
		return b.err
	case <-ctx.Done():
		return errNoGuardian
	}
}

// childless ends a run whose child can't be supervised.
func (x *run) childless(err error) Result {
	if x.interrupted() {
		return x.abandon(x.signal)
	}
	if errors.Is(err, errNoGuardian) {
		return x.failed(err)
	}
	e := Event{Kind: EventUnavailable, Level: Error, Err: err, Next: nextStart}
	if !x.giveBack() {
		e.Note = x.leftBehind(earlyEnd)
	}
	return x.final(e, Result{Code: ExitSystem})
}

// tryFilter asks at the first door. Under --quorum preferred a quorum that
// can't be reached is no obstacle; one that another run holds is.
func (x *run) tryFilter(bound time.Duration) error {
	if x.Filter == nil {
		return nil
	}
	ctx, cancel := x.patient(bound)
	defer cancel()
	x.filterSent = x.Clock.Now()
	err := x.Filter.Acquire(ctx, x.req.Claim(time.Now()))
	x.filtered = err == nil
	var away *locks.UnavailableError
	if x.Preferred && errors.As(err, &away) && !x.interrupted() {
		if !x.warnedOfQuorum {
			x.warnedOfQuorum = true
			x.report(Event{Kind: EventQuorumLost, Level: Warn, Err: err, Note: "going on with the lease alone"})
		}
		return nil
	}
	return err
}

// tryStore asks at the second and third door, with the date that the store's
// own clock says.
func (x *run) tryStore(left func() time.Duration) error {
	for range 4 {
		ctx, cancel := x.patient(left())
		asked, askedWall := x.Clock.Now(), time.Now()
		x.mayHold = true
		answer, err := x.Store.Acquire(ctx, &x.req)
		cancel()
		if err != nil {
			x.mayHold = mayHaveTaken(err)
			return err
		}
		x.leaseSent, x.answer = asked, answer
		x.mayHold = answer.Verdict == guard.Granted
		if answer.Verdict != guard.WrongDate {
			x.warnOfClock(answer.At, askedWall, time.Now())
			return nil
		}
		if err := x.dateAt(answer.Meant); err != nil {
			return err
		}
	}
	return &locks.UnavailableError{What: "the date", Err: errors.New("the store's clock jumps to and fro"), Next: "look at its host's clock"}
}

// mayHaveTaken tells whether an acquire that failed with err may have been
// applied, or may still be.
func mayHaveTaken(err error) bool {
	var (
		setup *locks.SetupError
		away  *locks.UnavailableError
	)
	switch {
	case errors.As(err, &setup):
		return false
	case errors.As(err, &away):
		return away.Taken
	}
	return true
}

// windowEnd is where the weakest required door closes.
func (x *run) windowEnd() locks.Instant {
	end := x.Timing.WindowEnd(x.leaseSent)
	if x.filtered && !x.Preferred {
		end = min(end, x.Timing.WindowEnd(x.filterSent))
	}
	return end
}
