package supervise

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"lockrun/locks"
)

// concludeWithin bounds the wait for the guardian's own end, which is killed
// when it has nothing left to do.
const concludeWithin = time.Second

// handle takes in what the guardian says.
func (t *Tree) handle(m message) {
	switch m.verb {
	case sayReady:
		t.ready = true
		for _, kept := range t.unsaid {
			if t.phase == starting { // otherwise it has been given up
				t.say(kept)
			}
		}
		t.unsaid = nil
	case sayStarted:
		t.child = m.n
		if t.phase == starting { // otherwise the guardian said so too late
			t.phase = guarded
			t.emit(Event{Kind: Started, PID: m.n})
			detachStreams(2)
		}
	case sayFailed:
		err := ErrTooLate
		if m.n != 0 {
			err = startError(t.opts.Argv[0], syscall.Errno(m.n))
		}
		if t.phase == starting {
			t.conclude(Event{Kind: NotStarted, Err: err})
		}
	case sayAck:
		t.acked, t.killAt = m.seq, m.at
	case sayExited:
		t.exited(syscall.WaitStatus(m.n))
	case sayLeftovers:
		t.emit(Event{Kind: Leftovers, Count: m.n})
	case sayTerm:
		t.killAt = m.at
		why := map[int]error{becauseDeadline: ErrDeadline, becauseAsked: t.why, becauseLeftovers: ErrLeftovers}
		t.emit(Event{Kind: TermSent, Err: why[m.n]})
	case sayKilling:
		t.killing, t.heard = true, t.clock.Now()
		t.emit(Event{Kind: KillSent})
	case sayStuck:
		// The guardian goes on, also when lockrun has ended.
		if t.phase == guarded {
			t.emit(Event{Kind: Stuck, PIDs: parsePIDs(m.list)})
			t.phase = over
		}
	case sayEmpty:
		t.conclude(Event{Kind: Empty})
	}
}

// judge acts upon the clock, a dead guardian, and a tree that is gone.
func (t *Tree) judge(now locks.Instant, childless bool) {
	margin := t.opts.Timing.KillMargin
	switch t.phase {
	case idle:
		if t.lost {
			t.conclude(Event{Kind: NotStarted, Err: fmt.Errorf("%w: it died", ErrGuardian)})
		}
	case starting, guarded:
		until, why := t.trust(margin)
		switch {
		case !t.ready && t.lost:
			t.conclude(Event{Kind: NotStarted, Err: fmt.Errorf("%w: it died before it was ready", ErrGuardian)})
		case !t.ready && now >= until:
			t.conclude(Event{Kind: NotStarted, Err: fmt.Errorf("%w: it did not become ready", ErrGuardian)})
		case t.lost:
			t.takeOver(now, "it died")
		case now >= until:
			t.takeOver(now, why)
		default:
			t.alarm.Set(until)
		}
	}
	switch t.phase {
	case concluding:
		t.awaitGuardian(now)
	case taken:
		switch {
		case childless:
			t.emit(Event{Kind: Empty})
			t.phase = over
		default:
			pids := t.killAll(now)
			if now.Sub(t.since) >= margin {
				t.emit(Event{Kind: Stuck, PIDs: pids})
				t.phase = over
			}
			t.alarm.Set(now.Add(killPause(now.Sub(t.since))))
		}
	}
}

// trust is until when lockrun relies on the guardian, and what is wrong then. A
// deadline that was moved but not acknowledged is as good as the one before it,
// unless there was hardly time for an answer; otherwise the guardian has half a
// kill margin to show that it acts.
func (t *Tree) trust(margin time.Duration) (until locks.Instant, why string) {
	late := t.killAt.Add(margin / 2)
	switch {
	case t.phase == starting:
		return min(t.answerBy, t.killAt), "it did not say whether the child was started"
	case t.killing:
		return max(late, t.heard.Add(margin/4)), "it stopped killing"
	case t.acked != t.seq:
		until = min(t.killAt, t.asked.Add(margin/2))
		return max(until, t.askedAt.Add(margin/8)), "it did not acknowledge the deadline"
	default:
		return late, "it let the deadline pass"
	}
}

func (t *Tree) takeOver(now locks.Instant, why string) {
	t.phase, t.since = taken, now
	t.emit(Event{Kind: TakenOver, Err: fmt.Errorf("%w: %s", ErrGuardian, why)})
}

// killAll sends SIGKILL to everything below lockrun, the guardian included.
func (t *Tree) killAll(now locks.Instant) []int {
	if t.guardian != 0 {
		_ = syscall.Kill(t.guardian, syscall.SIGKILL) // which needs no /proc
	}
	pids := killTree(os.Getpid())
	// As init lockrun may kill whatever is in its namespace, and with a single
	// system call no fork can outrun it.
	if IsInit() && now.Sub(t.since) > t.opts.Timing.KillMargin/4 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
	}
	return pids
}

func (t *Tree) ended(pid int, status syscall.WaitStatus) {
	switch pid {
	case t.guardian:
		t.guardian = 0
	case t.child:
		t.exited(status) // an orphan of the guardian's
	}
}

func (t *Tree) exited(status syscall.WaitStatus) {
	t.child = 0
	if status.Signaled() {
		t.emit(Event{Kind: Exited, Status: Status{Signal: status.Signal()}})
		return
	}
	t.emit(Event{Kind: Exited, Status: Status{Code: status.ExitStatus()}})
}

// conclude tells the last event, and has the guardian reaped: where lockrun is
// not followed by an init that reaps, it would stay a zombie. Nothing is left for
// it to do, so it need not be asked to end, and nobody has to wait for that to
// act upon the event.
func (t *Tree) conclude(last Event) {
	if t.phase == concluding || t.phase == over {
		return
	}
	if last.Kind != 0 {
		t.emit(last)
	}
	t.phase, t.since = concluding, t.clock.Now()
	if t.guardian != 0 {
		_ = syscall.Kill(t.guardian, syscall.SIGKILL)
	}
}

func (t *Tree) awaitGuardian(now locks.Instant) {
	if t.guardian != 0 && now.Sub(t.since) < concludeWithin {
		t.alarm.Set(t.since.Add(concludeWithin))
		return
	}
	t.phase = over
}

// emit never blocks: no kind is told twice, and the channel has room for all.
func (t *Tree) emit(e Event) {
	if !t.sent[e.Kind] {
		t.sent[e.Kind] = true
		t.events <- e
	}
}

// linger does what remains until lockrun ends: it kills on where it took over
// and failed, and as init it reaps strangers. Alarm and SIGCHLD are not given
// back: each would cost the end of the run some switches between threads, and the
// process is about to end.
func (t *Tree) linger() {
	for t.sent[TakenOver] && t.sent[Stuck] && !reap(t.ended) {
		t.killAll(t.clock.Now())
		t.alarm.Set(t.clock.Now().Add(killPause(time.Hour)))
		<-t.alarm.C()
	}
	if !IsInit() {
		return
	}
	for range t.children {
		reap(t.ended)
	}
}
