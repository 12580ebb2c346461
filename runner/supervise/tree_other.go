//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"lockrun/locks"
)

// look is the time between two looks at a tree that is being ended. Nothing
// tells that a process group has become empty.
const look = 20 * time.Millisecond

// Tree is a child with its process group, as well as this system lets one
// process supervise it: a best effort. A descendant that leaves the group gets
// away, and so does everything when lockrun itself is killed. At a terminal the
// child has to share lockrun's process group, and is then all that is ended.
type Tree struct {
	opts     Options
	events   chan Event
	calls    chan func()
	done     chan struct{}
	terminal bool

	// What follows belongs to the goroutine of run.
	clock     locks.Clock
	alarm     locks.Alarm
	children  chan os.Signal // SIGCHLD
	sent      map[Kind]bool
	child     int // pid; 0 = not started
	exited    bool
	killAt    locks.Instant
	terming   bool
	killSince locks.Instant // 0 = not yet
	over      bool
}

// New prepares a supervision, which starts no process yet.
func New(opts Options) (*Tree, error) {
	t := &Tree{
		opts: opts, events: make(chan Event, int(Stuck)), calls: make(chan func()), done: make(chan struct{}),
		terminal: hasTerminal(),
		clock:    locks.SystemClock{}, children: make(chan os.Signal, 1), sent: make(map[Kind]bool),
	}
	signal.Notify(t.children, syscall.SIGCHLD)
	t.alarm = t.clock.NewAlarm()
	go t.run()
	return t, nil
}

func (t *Tree) do(f func()) {
	select {
	case t.calls <- f:
	case <-t.done:
	}
}

// Start forks the child with vars ("KEY=value") added to lockrun's environment.
// At killAt its group gets SIGKILL, and SIGTERM one kill-after before.
func (t *Tree) Start(vars []string, killAt locks.Instant) {
	t.do(func() {
		if t.child != 0 || t.over {
			return
		}
		if t.killAt = killAt; t.clock.Now() >= t.termAt() {
			t.conclude(Event{Kind: NotStarted, Err: ErrTooLate})
			return
		}
		pid, err := forkExec(t.opts.Path, t.opts.Argv, &syscall.ProcAttr{
			Env: environment(os.Environ(), vars), Files: []uintptr{0, 1, 2},
			Sys: &syscall.SysProcAttr{Setpgid: !t.terminal},
		})
		if err != nil {
			errno := syscall.EINVAL // a zero byte in a variable
			errors.As(err, &errno)
			t.conclude(Event{Kind: NotStarted, Err: startError(t.opts.Argv[0], errno)})
			return
		}
		t.child = pid
		t.emit(Event{Kind: Started, PID: pid})
	})
}

// Extend moves the deadline. One that has passed, or whose SIGTERM went out, is
// never extended.
func (t *Tree) Extend(killAt locks.Instant) {
	t.do(func() {
		if t.child != 0 && !t.terming && t.clock.Now() < t.termAt() {
			t.killAt = killAt
		}
	})
}

// Terminate sends SIGTERM now and SIGKILL at killAt, or at the deadline if that
// is earlier. TermSent carries err.
func (t *Tree) Terminate(killAt locks.Instant, err error) {
	t.do(func() {
		if t.child != 0 {
			t.terminate(killAt, err)
		}
	})
}

// Signal passes a signal on to the child that lockrun received, unless the
// terminal or the shell has delivered it already.
func (t *Tree) Signal(sig syscall.Signal) {
	t.do(func() {
		if t.child != 0 && !t.exited && !delivered(sig, t.terminal) {
			_ = syscall.Kill(t.child, sig)
		}
	})
}

// Events tells what happens; it is closed after the last one.
func (t *Tree) Events() <-chan Event { return t.events }

// Close ends a supervision whose Start was never called.
func (t *Tree) Close() {
	t.do(func() { t.over = t.over || t.child == 0 })
}

func (t *Tree) termAt() locks.Instant { return t.killAt.Add(-t.opts.Timing.KillAfter) }

func (t *Tree) run() {
	for !t.over {
		select {
		case f := <-t.calls:
			f()
		case <-t.children:
		case <-t.alarm.C():
		}
		if t.child != 0 && !t.over {
			t.judge(t.clock.Now())
		}
	}
	t.alarm.Stop()
	signal.Stop(t.children)
	close(t.done)
	close(t.events)
}

func (t *Tree) judge(now locks.Instant) {
	t.reap()
	left := t.left()
	switch {
	case t.exited && !left:
		t.conclude(Event{Kind: Empty})
		return
	case t.exited && !t.sent[Leftovers] && !t.terming:
		// Nothing counts the members of a group; there is at least one.
		t.emit(Event{Kind: Leftovers, Count: 1})
		switch t.opts.Leftovers {
		case Kill:
			t.terminate(now.Add(t.opts.Timing.KillAfter), ErrLeftovers)
		case Leave:
			t.conclude(Event{Kind: Empty})
			return
		case Wait:
		}
	case !t.terming && now >= t.termAt():
		t.terminate(t.killAt, ErrDeadline)
	}
	if t.terming && now >= t.killAt {
		if t.killSince == 0 {
			t.killSince = now
			t.emit(Event{Kind: KillSent})
		}
		t.signal(syscall.SIGKILL)
		if now.Sub(t.killSince) >= t.opts.Timing.KillMargin {
			t.conclude(Event{Kind: Stuck, PIDs: []int{t.child}})
		}
	}
	next := t.termAt()
	if t.terming || t.exited {
		next = now.Add(look)
	}
	t.alarm.Set(next)
}

func (t *Tree) terminate(killAt locks.Instant, err error) {
	t.killAt = min(t.killAt, killAt)
	if t.terming {
		return
	}
	t.terming = true
	t.signal(syscall.SIGTERM)
	t.signal(syscall.SIGCONT) // a stopped process would not see it
	t.emit(Event{Kind: TermSent, Err: err})
}

// signal sends to the child's group, or to the child where the group is
// lockrun's own.
func (t *Tree) signal(sig syscall.Signal) {
	switch {
	case !t.terminal:
		_ = syscall.Kill(-t.child, sig)
	case !t.exited:
		_ = syscall.Kill(t.child, sig)
	}
}

// left tells whether anything is left that signal reaches.
func (t *Tree) left() bool {
	if t.terminal {
		return !t.exited
	}
	return !errors.Is(syscall.Kill(-t.child, 0), syscall.ESRCH)
}

func (t *Tree) reap() {
	if t.exited {
		return
	}
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(t.child, &status, syscall.WNOHANG, nil)
	if err != nil || pid != t.child {
		return
	}
	t.exited = true
	if status.Signaled() {
		t.emit(Event{Kind: Exited, Status: Status{Signal: status.Signal()}})
		return
	}
	t.emit(Event{Kind: Exited, Status: Status{Code: status.ExitStatus()}})
}

func (t *Tree) conclude(last Event) {
	t.emit(last)
	t.over = true
}

// emit never blocks: no kind is told twice, and the channel has room for all.
func (t *Tree) emit(e Event) {
	if !t.sent[e.Kind] {
		t.sent[e.Kind] = true
		t.events <- e
	}
}
