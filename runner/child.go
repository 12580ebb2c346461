package runner

import (
	"syscall"

	"lockrun/locks"
	"lockrun/runner/supervise"
)

// Child is the wrapped command with everything that it forks. Its
// implementations are in runner/supervise.
type Child interface {
	// Start forks the command with vars ("KEY=value") added to the caller's
	// environment. At killAt the whole tree gets SIGKILL, and SIGTERM one
	// kill-after before. It returns at once; Started or NotStarted follows.
	Start(vars []string, killAt locks.Instant)
	// Extend moves the deadline. One that has passed, or whose SIGTERM went
	// out, is never extended.
	Extend(killAt locks.Instant)
	// Terminate sends SIGTERM to the whole tree now and SIGKILL at killAt, or
	// at the deadline if that is earlier. err says why.
	Terminate(killAt locks.Instant, err error)
	// Signal passes a signal on to the child that lockrun received, unless the
	// terminal has delivered it already.
	Signal(sig syscall.Signal)
	// Events tells what happens. The caller reads until it is closed.
	Events() <-chan supervise.Event
	// Close ends a supervision whose Start was never called.
	Close()
}
