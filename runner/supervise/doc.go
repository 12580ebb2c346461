// Package supervise starts the wrapped command and answers for its end: whatever
// happens, the command and all that it started are dead by the deadline, and
// nobody is told that they are before the kernel has said so.
//
// One process can't promise that, because it can be killed, so there are two of
// the same binary:
//
//	caller (cron, kubelet, shell)
//	  lockrun            network, locks, renewals, exit code; backup of the deadline
//	    lockrun-guard    the guardian: owns the deadline, parent of the child
//	      the child      dies with the guardian (parent-death signal)
//	        whatever it forks, daemonizes, or moves to other sessions
//
// Both are subreapers: an orphan below them comes back to them, so that nothing
// leaves the tree, and wait4 saying that there is no child left is the proof that
// the tree is dead. A pair of sockets is their channel and their lifeline.
//
//	fault                           what ends the tree
//	nobody extends the deadline     guardian: SIGTERM at K - kill-after, SIGKILL at K
//	lockrun is killed or crashes    guardian: SIGTERM at once, SIGKILL one kill-after later or at K
//	lockrun is stopped or hangs     guardian: as if nobody had extended the deadline
//	guardian is killed or crashes   lockrun: SIGKILL at once
//	guardian is stopped or hangs    lockrun: SIGKILL half a kill margin after K, or at
//	                                the acknowledged K if a later one got no answer
//
// K is kept in CLOCK_BOOTTIME by both, so that a suspended host makes neither of
// them late. A deadline that has passed is never extended.
//
// The guardian's life, in which it is told to start only after it has said that it
// lacks nothing (a thread, say):
//
//	waiting --start--> running --SIGTERM--> terming --K--> killing --empty--> end
//	                      |                    |
//	                      +-------empty--------+--> end
//
// It can't be promised that a tree dies which hangs in the kernel or belongs to
// another user; [Stuck] tells of one. When both processes are killed in the same
// instant only the child itself is sure to die.
//
// This is the state on Linux. Elsewhere a single process does what it can.
package supervise
