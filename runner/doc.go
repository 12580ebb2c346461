// Package runner is one run from its start to its end: through the doors, the
// child, the record, the exit code. It knows no driver and no command line; the
// doors and the child come in behind interfaces.
//
// The steps, and what follows when one fails:
//
//	filter   held: wait or 75. No quorum: 69, or on with the lease alone
//	lease    held: give the filter back, wait or 75. No answer: undo, 69
//	guard    done: 0. Failed or unknown: 77. Nothing of it stays taken
//	fork     never started: undo, 126, 127 or 71; the date is free again
//	child    a door lost: SIGTERM, SIGKILL, 70. --max-runtime: 124
//	outbox   what earlier runs here could not store is stored before the lease is
//	         asked for; it stops nobody
//	record   repeated for one ttl; then it goes to the outbox and is said, 74 if
//	         the child ended with 0
//	release  the lease with the record, then the filter; only when the whole
//	         tree of the child is dead
package runner
