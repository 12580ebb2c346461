// Package locks decides who may run now.
//
// A run passes two kinds of door here. The filter is cheap and may lie: a quorum
// of independent Redis masters (package quorum), or a file lock on a single host
// (package filelock). The arbiter is the lease row that the stores of package
// guard keep; it carries the fencing token. Both are tiers: they are acquired
// once, renewed every third of the ttl, and trusted only inside a window that is
// counted from before the last successful request was sent.
//
//	           renewed               window closes
//	acquired ----------> held ------------------------> lost: SIGTERM, SIGKILL
//	                      |  \
//	                      |   \  another's value seen
//	       tree is dead   |    +---------------------> lost: SIGTERM at once
//	                      v
//	                  released
//
// [Hold] keeps the tiers renewed, each in a goroutine of its own, and asks a
// judge that does no input or output whether the run may go on. What can go
// wrong, and what follows:
//
//   - one renewal fails: it is repeated with jitter; nothing else happens
//   - a server hangs: the call ends at its own deadline; other tiers and the
//     judge are not held up
//   - a grant arrives after its window: it counts as a failure
//   - the process or the host stood still: the judge compares a clock that goes
//     on meanwhile, and an elapsed deadline is never extended
//   - the filter's window closes: the run ends, unless the filter was only
//     preferred; then it is dropped with a warning and never touched again
package locks
