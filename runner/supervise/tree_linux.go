package supervise

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lockrun/locks"
)

// answerWithin bounds the guardian's silence about the start. While it forks it
// can't look at its deadline: an execve that hangs on a dead file server hangs
// the guardian too.
const answerWithin = 30 * time.Second

type phase int

const (
	idle       phase = iota // nothing was started
	starting                // the guardian was told to start the child
	guarded                 // the child exists, and the guardian has it
	taken                   // lockrun itself kills the tree
	concluding              // the last event is out, but the guardian is not reaped yet
	over                    // nobody is served any more
)

// Tree is a child with everything that it forks, and the guardian that has it.
//
// The process that has one is its own: it reaps every child with wait4, so
// os/exec and os.Process can't be used beside it, it adopts orphans, and once
// the child runs its standard input and output are /dev/null.
type Tree struct {
	opts     Options
	events   chan Event
	calls    chan func()
	done     chan struct{}
	terminal bool // lockrun has a controlling terminal, or had one

	// What follows belongs to the goroutine of run.
	conn     *conn
	clock    locks.Clock
	alarm    locks.Alarm
	children chan os.Signal // SIGCHLD
	guardian int            // pid; 0 = reaped
	phase    phase
	sent     map[Kind]bool
	child    int
	lost     bool // the channel is at its end
	ready    bool // the guardian can be talked to

	unsaid   []message     // until it is ready
	seq      int           // of the last request
	acked    int           // of the last one acknowledged
	killAt   locks.Instant // the deadline that the guardian acknowledged last
	asked    locks.Instant // the earliest that it did not acknowledge yet
	askedAt  locks.Instant // when the first of those requests was sent
	answerBy locks.Instant // while starting
	why      error         // of Terminate
	killing  bool          // the guardian has begun to
	heard    locks.Instant // when it last said so
	since    locks.Instant // when the take-over or the conclusion began
}

// New starts the guardian, which then waits for [Tree.Start]. An error is the
// system's fault: no process can be started, or /proc does not show this one.
// When it returns, this process has all the threads that it will need, whatever
// the child leaves.
func New(opts Options) (*Tree, error) {
	limitProcessors()
	if err := subreaper(); err != nil {
		return nil, err
	}
	if _, err := procDir(); err != nil {
		return nil, err
	}
	if _, ok := readProcess(os.Getpid()); !ok {
		_, err := os.ReadFile("/proc/self/stat")
		if err == nil {
			err = syscall.ENOENT // somebody else's /proc
		}
		return nil, fmt.Errorf("find this process in /proc: %w", err)
	}
	if err := roomForThreads(); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the guardian's channel: %w", err)
	}
	t := &Tree{
		opts: opts, events: make(chan Event, int(Stuck)), calls: make(chan func()), done: make(chan struct{}),
		terminal: hasTerminal(),
		clock:    locks.SystemClock{}, children: make(chan os.Signal, 1), sent: make(map[Kind]bool),
	}
	signal.Notify(t.children, syscall.SIGCHLD)
	if t.guardian, err = startGuardian(pair[1], t.terminal, opts); err == nil {
		t.conn, err = newConn(pair[0])
	}
	_ = unix.Close(pair[1])
	if err != nil {
		_ = unix.Close(pair[0]) // which also ends a guardian
		signal.Stop(t.children)
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	warmThreads()
	t.alarm = t.clock.NewAlarm()
	go t.run()
	return t, nil
}

// startGuardian executes this program's own file once more. The descriptor
// keeps its number, so that no descriptor of the caller's is overwritten.
func startGuardian(socket int, terminal bool, opts Options) (int, error) {
	cmd := command{
		socket: socket, killAfter: opts.Timing.KillAfter, margin: opts.Timing.KillMargin,
		leftovers: opts.Leftovers, path: opts.Path, argv: opts.Argv,
	}
	if terminal {
		// The leader of lockrun's group can be outside of its PID namespace, and
		// then the group has no name in here.
		if cmd.group = syscall.Getpgrp(); cmd.group == 0 {
			cmd.group = -1
		}
	}
	if _, err := unix.FcntlInt(uintptr(socket), unix.F_SETFD, 0); err != nil {
		return 0, err
	}
	// In a group of its own neither the terminal nor a signal for lockrun's
	// group reaches it.
	attr := &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: cmd.group >= 0},
	}
	return syscall.ForkExec("/proc/self/exe", cmd.args(), attr)
}

// do runs f between two looks at the tree; it does nothing once all is over.
func (t *Tree) do(f func()) {
	select {
	case t.calls <- f:
	case <-t.done:
	}
}

// Start has the guardian fork the child with vars ("KEY=value") added to
// lockrun's environment; they replace those of the same key. At killAt the whole
// tree gets SIGKILL, and SIGTERM one kill-after before. Only the first Start
// counts.
func (t *Tree) Start(vars []string, killAt locks.Instant) {
	t.do(func() {
		if t.phase != idle {
			return
		}
		now := t.clock.Now()
		if now >= killAt.Add(-t.opts.Timing.KillAfter) {
			t.conclude(Event{Kind: NotStarted, Err: ErrTooLate})
			return
		}
		t.phase, t.killAt, t.answerBy = starting, killAt, now.Add(answerWithin)
		t.ask(message{verb: sayStart, at: killAt, list: vars})
	})
}

// Extend moves the deadline. One that has passed, or whose SIGTERM went out, is
// never extended.
func (t *Tree) Extend(killAt locks.Instant) {
	t.do(func() {
		due := t.killAt.Add(-t.opts.Timing.KillAfter)
		if (t.phase == starting || t.phase == guarded) && !t.sent[TermSent] && t.clock.Now() < due {
			t.ask(message{verb: sayExtend, at: killAt})
		}
	})
}

// Terminate sends SIGTERM to the whole tree now and SIGKILL at killAt, or at the
// deadline if that is earlier. TermSent carries err.
func (t *Tree) Terminate(killAt locks.Instant, err error) {
	t.do(func() {
		if t.phase == starting || t.phase == guarded {
			if t.why == nil {
				t.why = err
			}
			t.ask(message{verb: sayTerminate, at: killAt})
		}
	})
}

// Signal passes a signal on to the child that lockrun received, or to what the
// child has left, unless the terminal or the shell has delivered it already.
func (t *Tree) Signal(sig syscall.Signal) {
	t.do(func() {
		if (t.phase == starting || t.phase == guarded) && !delivered(sig, t.terminal) {
			t.say(message{verb: saySignal, n: int(sig)})
		}
	})
}

// Events tells what happens. It is closed some time after the last one, when the
// guardian is gone as well.
func (t *Tree) Events() <-chan Event { return t.events }

// Close ends a supervision whose Start was never called, and waits for the end of
// one whose last event is out; nothing of either is left when it returns. In
// between it does nothing.
func (t *Tree) Close() {
	started := make(chan struct{})
	t.do(func() {
		if t.phase == idle {
			t.conclude(Event{})
		} else if t.phase != concluding {
			close(started)
		}
	})
	select {
	case <-started:
	case <-t.done:
	}
}

// ask sends a request that the guardian has to acknowledge; one that it does not
// hear stays unacknowledged.
func (t *Tree) ask(m message) {
	if t.seq == t.acked {
		t.asked, t.askedAt = m.at, t.clock.Now()
	}
	t.asked = min(t.asked, m.at)
	t.seq++
	m.seq = t.seq
	t.say(m)
}

// say keeps back what it is told until the guardian is ready. One that dies
// before, for want of a thread perhaps, was then never told to start.
func (t *Tree) say(m message) {
	if !t.ready {
		t.unsaid = append(t.unsaid, m)
		return
	}
	if err := t.conn.send(m); err != nil && m.verb == sayStart {
		t.conclude(Event{Kind: NotStarted, Err: fmt.Errorf("%w: tell it to start: %w", ErrGuardian, err)})
	}
}

// run owns the tree.
func (t *Tree) run() {
	for t.phase != over {
		select {
		case f := <-t.calls:
			f()
		case <-t.conn.readable:
		case <-t.children:
		case <-t.alarm.C():
		}
		// Whatever woke it, what the guardian has said comes first, then the
		// dead, and only then the clock.
		if !t.lost && !t.conn.receive(t.handle) {
			t.lost = true
		}
		childless := reap(t.ended)
		t.judge(t.clock.Now(), childless)
	}
	close(t.done)
	close(t.events)
	t.linger()
}
