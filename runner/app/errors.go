package app

import (
	"errors"
	"fmt"

	"lockrun/locks"
	"lockrun/runner"
)

// usageError is a fault of the command line, the environment or a file that
// they name: exit 64, nothing was touched.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// eventOf turns an error that ends an invocation into the event that explains
// it, with its exit code. It is the one place that maps errors to codes for
// everything but a run, whose own are decided in package runner.
func eventOf(err error) runner.Event {
	var (
		usage *usageError
		setup *locks.SetupError
		away  *locks.UnavailableError
		exit  *exitError
	)
	e := runner.Event{Level: runner.Error, Err: err}
	code := runner.ExitUnavailable
	switch {
	case errors.As(err, &exit):
		e.Kind, e.Held, code = exit.kind, exit.held, exit.code
	case errors.As(err, &usage):
		e.Kind, code = runner.EventUsage, runner.ExitUsage
	case errors.As(err, &setup):
		e.Kind, e.Next, code = runner.EventConfig, setup.Next, runner.ExitConfig
	case errors.As(err, &away):
		e.Kind, e.Next = runner.EventUnavailable, away.Next
	default:
		e.Kind = runner.EventUnavailable
	}
	e.ExitCode = &code
	return e
}

// exitError carries an exit code of its own.
type exitError struct {
	kind runner.EventKind
	code int
	err  error
	held *locks.HeldError // who holds, if that is the reason
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }
