package supervise

import (
	"errors"
	"fmt"

	"lockrun/locks"
)

// GuardianArg0 is argv[0] of the guardian: the process that owns the deadline
// and is the parent of the child. A process whose os.Args[0] is this never gets
// to its main on Linux: it becomes the guardian while packages are initialised.
const GuardianArg0 = "lockrun-guard"

// Policy says what becomes of descendants that outlive the child.
type Policy int

// The policies of --leftovers. Whatever the policy, nothing outlives the
// deadline while the child itself is running.
const (
	Kill  Policy = iota // SIGTERM, and SIGKILL one kill-after later
	Wait                // hold on until they have ended by themselves
	Leave               // don't touch them: the run ends with the child
)

var policyNames = [...]string{Kill: "kill", Wait: "wait", Leave: "leave"}

func (p Policy) String() string { return policyNames[p] }

// ParsePolicy reads the text of --leftovers.
func ParsePolicy(text string) (Policy, error) {
	for p, name := range policyNames {
		if name == text {
			return Policy(p), nil
		}
	}
	return 0, fmt.Errorf("leftovers %q: must be kill, wait or leave", text)
}

// Options describe one child and how it is supervised.
type Options struct {
	Path string   // of the program, as [LookPath] found it
	Argv []string // the child's argv, with argv[0] as it was typed
	// Timing brings KillAfter (SIGTERM to SIGKILL) and KillMargin (how long a
	// tree may take to die before it counts as stuck). The rest is not used.
	Timing    locks.Timing
	Leftovers Policy
}

// Reasons that an [Event] carries in Err. A termination that the caller asked
// for carries the caller's own error.
var (
	// ErrDeadline comes with TermSent when nobody extended the deadline in time.
	ErrDeadline = errors.New("the deadline passed")
	// ErrLeftovers comes with TermSent when the child left descendants.
	ErrLeftovers = errors.New("the child left descendants")
	// ErrTooLate comes with NotStarted when the child's SIGTERM was due before
	// its start.
	ErrTooLate = errors.New("too late to start: the child's SIGTERM is due already")
	// ErrGuardian is what errors wrap that tell a failure of the guardian. With
	// NotStarted it means that the system is at fault, and with TakenOver that
	// lockrun kills the tree.
	ErrGuardian = errors.New("the guardian failed")
)
