package supervise

import "syscall"

// Status is how the child itself ended.
type Status struct {
	Code   int            // exit code, 0 to 255; meaningless when Signal is set
	Signal syscall.Signal // the signal that it died of; 0 = it exited
}

// Kind says what an [Event] tells.
type Kind int

// The events of one child, in the order in which they can come, each at most
// once. A tree that was asked to start ends with exactly one of NotStarted, Empty
// and Stuck, and then the channel is closed.
const (
	Started    Kind = iota + 1 // the child exists; PID
	NotStarted                 // it never existed; Err says why (an errno of execve, or the supervision's own)
	Exited                     // the child itself ended; Status. Descendants may be left
	Leftovers                  // the child ended and left Count descendants, which the policy now treats
	TermSent                   // SIGTERM went to the whole tree; Err says why
	KillSent                   // SIGKILL goes to the whole tree until it is empty
	TakenOver                  // the guardian failed or fell silent: lockrun now sends SIGKILL itself; Err says why
	Empty                      // proof of death: no descendant exists
	Stuck                      // the tree could not be killed; PIDs; the supervision keeps trying
)

// Event is one thing that happened to the child's tree.
type Event struct {
	Kind   Kind
	PID    int
	Status Status
	Count  int
	PIDs   []int
	Err    error
}
