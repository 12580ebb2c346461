package supervise

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"lockrun/locks"
)

// terminate sends SIGTERM to the whole tree. SIGKILL follows at killAt, or at
// the deadline if that is earlier. A tree that is being ended already only gets
// the earlier deadline.
func (g *guardian) terminate(why int, killAt locks.Instant) {
	if g.phase == waiting || g.phase == killing {
		return
	}
	g.killAt = min(g.killAt, killAt)
	if g.phase == terming {
		return
	}
	g.phase = terming
	g.signalChild(syscall.SIGTERM)
	g.signalChild(syscall.SIGCONT) // a stopped process would not see it
	for _, p := range descendants(os.Getpid()) {
		if p.pid != g.child {
			p.signal(syscall.SIGTERM)
			p.signal(syscall.SIGCONT)
		}
	}
	g.say(message{verb: sayTerm, n: why, at: g.killAt})
}

// signalChild signals the child itself, which needs no /proc: only this process
// reaps it, so until then the number is the child's.
func (g *guardian) signalChild(sig syscall.Signal) {
	if !g.exited {
		_ = syscall.Kill(g.child, sig)
	}
}

// settleLeftovers applies the policy to what the child has left, once that had
// the time to end by itself.
func (g *guardian) settleLeftovers(now locks.Instant) {
	if g.settleBy == 0 {
		g.settleBy = now.Add(settle)
	}
	if now < g.settleBy {
		return
	}
	left := len(alive(os.Getpid()))
	if left == 0 && now < g.settleBy.Add(unseenFor) {
		return // they are dying, and wait4 will say so
	}
	g.counted = true
	g.say(message{verb: sayLeftovers, n: max(left, 1)})
	switch g.leftovers {
	case Kill:
		g.terminate(becauseLeftovers, now.Add(g.killAfter))
	case Leave:
		g.finish(message{verb: sayEmpty})
	case Wait:
	}
}

// kill makes one pass, and tells lockrun that it goes on.
func (g *guardian) kill(now locks.Instant) {
	g.signalChild(syscall.SIGKILL)
	pids := killTree(os.Getpid())
	if g.told == 0 || now.Sub(g.told) >= g.margin/heartbeats {
		g.told = now
		g.say(message{verb: sayKilling})
	}
	if !g.stuck && now.Sub(g.killSince) >= g.margin {
		g.stuck = true
		g.say(message{verb: sayStuck, list: pidTexts(pids)})
	}
	// SIGCHLD may have been one for many children that died between two passes.
	if reap(g.ended) {
		g.finish(message{verb: sayEmpty})
	}
}

// heartbeats is how many times in a kill margin the guardian says that it is
// still killing. Lockrun takes over when it misses a quarter of them.
const heartbeats = 16

// maxPIDs bounds a message: a fork bomb leaves more pids than anybody reads.
const maxPIDs = 64

func pidTexts(pids []int) []string {
	texts := make([]string, 0, maxPIDs)
	for _, pid := range pids[:min(len(pids), maxPIDs)] {
		texts = append(texts, strconv.Itoa(pid))
	}
	return texts
}

func parsePIDs(texts []string) []int {
	pids := make([]int, 0, len(texts))
	for _, text := range texts {
		if pid, err := strconv.Atoi(text); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// subreaper makes the kernel give every orphan below this process to it, so
// that none can get away by a double fork.
func subreaper() error {
	return os.NewSyscallError("become subreaper", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}
