package runner

import (
	"syscall"

	"lockrun/runner/supervise"
)

// The exit codes of lockrun's own. They are stable, and those of sysexits.h
// where that has one; 124, 126 and 127 are those of timeout(1) and the shell.
const (
	ExitUsage       = 64
	ExitUnavailable = 69 // could not decide; nothing started
	ExitLost        = 70 // lock or lease lost while the child ran
	ExitSystem      = 71 // the system refused: fork failed, no memory
	ExitUnrecorded  = 74 // the child ended with 0, the result could not be stored
	ExitHeld        = 75 // default of --conflict-exit-code
	ExitRefused     = 77 // an earlier attempt failed, or nobody knows how it ended
	ExitConfig      = 78 // unsafe or wrong set-up
	ExitTimeout     = 124
	ExitNotExec     = 126
	ExitNotFound    = 127
)

// Result is how an invocation ends: with Signal, when that is set, otherwise
// with Code.
type Result struct {
	Code   int
	Signal syscall.Signal
}

// Shown is the exit code as a shell shows it.
func (r Result) Shown() int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.Code
}

// ending is what is known when a child's tree is dead or given up.
type ending struct {
	lost     bool // lockrun ended it because a lock was lost, or its death is not proved
	timeout  bool // --max-runtime ended it
	recorded bool
	status   supervise.Status
}

// result decides which code wins: lost, then max-runtime, then the child's own,
// then unrecorded.
func (e ending) result() Result {
	switch {
	case e.lost:
		return Result{Code: ExitLost}
	case e.timeout:
		return Result{Code: ExitTimeout}
	case e.status.Signal != 0:
		return Result{Signal: e.status.Signal}
	case e.status.Code == 0 && !e.recorded:
		return Result{Code: ExitUnrecorded}
	}
	return Result{Code: e.status.Code}
}
