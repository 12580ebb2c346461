package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"lockrun/guard"
	"lockrun/guard/postgres"
	"lockrun/guard/sqlite"
	"lockrun/locks"
	"lockrun/runner"
	"lockrun/runner/supervise"
)

// isNested tells whether this is a call for the very job that it runs inside.
func (in *invocation) isNested(c *runConfig) bool {
	return in.env["LOCKRUN_NAME"] == c.name && in.env["LOCKRUN_RUN_ID"] != ""
}

// nested runs the command under the lease of the outer run: as this process, so
// that exit code, signals and descriptors are the command's own. It takes
// nothing and gives nothing back. The outer run's supervision is an ancestor: it
// ends this command with its own when the lease is lost.
func (in *invocation) nested(c *runConfig, path string, signals <-chan os.Signal, stop func()) error {
	if err := in.outerDate(c, c.date.Fixed()); err != nil && !c.date.IsWord() {
		return err
	}
	// There is nothing to undo, so a signal may end this process as it likes.
	stop()
	select {
	case sig := <-signals:
		s, _ := sig.(syscall.Signal)
		in.result = runner.Result{Signal: s}
		return nil
	default:
	}
	at, err := in.outerHolds(c)
	if err != nil {
		return err
	}
	if c.date.IsWord() {
		d, err := c.date.At(at.Add(-locks.SystemClock{}.Now().Sub(in.started)), c.zone, c.dayStarts)
		if err != nil {
			return usagef("--date: %w", err)
		}
		if err := in.outerDate(c, d.Date); err != nil {
			return err
		}
	}
	if c.maxRuntime > 0 {
		in.log.take(runner.Event{Kind: runner.EventConfig, Level: runner.Warn, Err: errors.New(
			"--max-runtime has no effect inside a run of the same name: the outer one's counts")})
	}
	if given := in.pgOptions(c); given != nil {
		if err := os.Setenv("PGOPTIONS", runner.WithRunID(*given, in.env["LOCKRUN_RUN_ID"])); err != nil {
			return &exitError{kind: runner.EventUnavailable, code: runner.ExitSystem, err: err}
		}
	}
	in.log.take(runner.Event{Kind: runner.EventStarted, Level: runner.Info, PID: os.Getpid(), Note: "under the lease of the outer run"})
	in.log.end()
	return commandFault(supervise.Exec(path, in.command))
}

// outerDate refuses a date that is not the outer run's.
func (in *invocation) outerDate(c *runConfig, date string) error {
	outer := in.env["LOCKRUN_DATE"]
	switch {
	case date == outer:
		return nil
	case date == "":
		return usagef("--date is missing: this is inside the run of %s for %q", c.name, outer)
	case outer == "":
		return usagef("--date: this is inside a run of %s without a date, it can't be %s here", c.name, date)
	}
	return usagef("--date: this is inside the run of %s for %q, it can't be %s here", c.name, outer, date)
}

// outerHolds asks the store whether the outer run still holds the lease, and for
// its clock. A run that has ended may hold one as well, by --at-least: nobody
// renews that, and nobody would end this command with it.
func (in *invocation) outerHolds(c *runConfig) (at time.Time, err error) {
	var l guard.Ledger = sqlite.NewLedger(c.stores.stateDir)
	if !c.stores.local {
		l = postgres.NewLedger(c.stores.postgres)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), c.timing.StartBudget())
	defer cancel()
	rows, err := l.Latest(ctx, c.name)
	if err != nil {
		return at, err
	}
	runID := in.env["LOCKRUN_RUN_ID"]
	why := "no longer holds the lease"
	if holds(rows, runID) {
		if slices.ContainsFunc(rows.Attempts, func(a guard.Attempt) bool { return a.RunID == runID && a.Outcome == guard.OutcomeRunning }) {
			return rows.At, nil
		}
		why = "has ended"
	}
	return at, &exitError{
		kind: runner.EventRefused, code: runner.ExitLost,
		err: fmt.Errorf("nothing started: the run %q that this is inside %s; what is to outlive its run, and start others, needs LOCKRUN_RUN_ID and LOCKRUN_NAME unset", runID, why),
	}
}
