package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"lockrun/locks"
)

// The guardian lives and ends here, before the packages that only lockrun needs
// (drivers, database, command line) are initialised: they would be a good part
// of all that it costs. What this package imports is initialised by then.
func init() {
	if len(os.Args) == 0 || os.Args[0] != GuardianArg0 {
		return
	}
	// The kernel sends a parent-death signal when the thread that forked ends.
	// The main thread ends with the process only, so it has to be the one.
	runtime.LockOSThread()
	os.Exit(guard())
}

// guardianName is what pkill and killall see. It does not contain "lockrun", so
// that "pkill -9 lockrun" leaves one of the two alive to kill the tree.
const guardianName = "lr-guard"

// Arguments of the guardian: name, descriptor, process group, kill-after, kill
// margin, policy, path, argv.
const guardianArgs = 7

// settle is how long descendants that outlive the child are given to end by
// themselves before they count as left over: a "tee" or a pager behind a pipe is
// still writing when the shell that started it ends.
const settle = 100 * time.Millisecond

// unseenFor is how much longer wait4 may know of descendants of which /proc shows
// none alive. Then they count as left over too: a zombie that a debugger holds, or
// a process that /proc hides, must not keep the run going for ever.
const unseenFor = time.Second

// command is what the guardian is started with.
type command struct {
	socket    int // descriptor of its end of the channel
	group     int // process group of the child; 0 = its own, negative = don't change it
	killAfter time.Duration
	margin    time.Duration
	leftovers Policy
	path      string
	argv      []string
}

func (c command) args() []string {
	return append([]string{
		GuardianArg0, strconv.Itoa(c.socket), strconv.Itoa(c.group),
		strconv.FormatInt(int64(c.killAfter), 10), strconv.FormatInt(int64(c.margin), 10),
		strconv.Itoa(int(c.leftovers)), c.path,
	}, c.argv...)
}

func parseCommand(args []string) (command, error) {
	if len(args) <= guardianArgs {
		return command{}, errors.New("too few arguments")
	}
	var n [5]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(args[i+1], 10, 64); err != nil {
			return command{}, err
		}
	}
	return command{
		int(n[0]), int(n[1]), time.Duration(n[2]), time.Duration(n[3]), Policy(n[4]), args[6], args[7:],
	}, nil
}

type guardianPhase int

const (
	waiting guardianPhase = iota // for the word to start
	running                      // the child, or under [Wait] what it left, may run on
	terming                      // SIGTERM is out, SIGKILL follows at killAt
	killing                      // until wait4 knows of no child
)

// guardian owns the deadline and the tree. All of it runs on the main thread.
type guardian struct {
	command
	conn     *conn
	clock    locks.Clock
	alarm    locks.Alarm
	children chan os.Signal // SIGCHLD

	phase    guardianPhase
	orphaned bool // lockrun is gone
	killAt   locks.Instant
	child    int
	exited   bool          // the child itself has ended
	settleBy locks.Instant // when what it left counts as left over; 0 = not yet known
	counted  bool          // the policy has been applied to the leftovers

	killSince locks.Instant
	told      locks.Instant // when lockrun was last told that the killing goes on
	stuck     bool
	finished  bool
}

// guard is the guardian's whole life, and returns its exit code. It talks to
// lockrun alone and prints nothing.
func guard() int {
	cmd, err := parseCommand(os.Args)
	if err == nil {
		err = subreaper()
	}
	if err == nil {
		_, err = procDir()
	}
	var c *conn
	if err == nil {
		c, err = newConn(cmd.socket)
	}
	if err != nil {
		said := make(chan struct{})
		go func() {
			fmt.Fprintf(os.Stderr, "%s: started by lockrun only: %v\n", GuardianArg0, err)
			close(said)
		}()
		select {
		case <-said:
		case <-time.After(time.Second / 10): // nobody reads it
		}
		return 64
	}
	g := &guardian{
		command: cmd, conn: c, clock: locks.SystemClock{}, children: make(chan os.Signal, 1),
	}
	g.alarm = g.clock.NewAlarm()
	signal.Notify(g.children, syscall.SIGCHLD)
	// Whoever stops a whole service signals each process of its cgroup; the
	// guardian has to outlive the child. The terminal's stop signals reach it
	// only if it could not leave lockrun's process group.
	drop(append(passable, syscall.SIGPIPE, syscall.SIGALRM)...)
	if cmd.group < 0 {
		drop(syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	}
	limitProcessors()
	warmThreads()
	g.say(message{verb: sayReady})
	_ = os.WriteFile("/proc/self/comm", []byte(guardianName), 0)
	for !g.finished {
		select {
		case <-g.conn.readable:
		case <-g.children:
		case <-g.alarm.C():
		}
		g.step()
	}
	return 0
}

// step looks at everything that can have changed.
func (g *guardian) step() {
	if !g.orphaned && !g.conn.receive(g.handle) {
		g.orphaned = true
		detachStreams(3) // nobody is there to read why this process crashed
		g.terminate(becauseOrphaned, g.clock.Now().Add(g.killAfter))
	}
	if g.finished {
		return
	}
	if g.phase == waiting {
		g.finished = g.orphaned
		return
	}
	if reap(g.ended) {
		g.finish(message{verb: sayEmpty})
		return
	}
	now := g.clock.Now()
	if g.phase == running && now >= g.termAt() {
		g.terminate(becauseDeadline, g.killAt)
	}
	if g.phase == running && g.exited && !g.counted {
		g.settleLeftovers(now)
	}
	if g.phase == terming && now >= g.killAt {
		g.phase, g.killSince = killing, now
	}
	if g.phase == killing {
		g.kill(now)
	}
	if !g.finished {
		g.alarm.Set(g.next(now))
	}
}

func (g *guardian) termAt() locks.Instant { return g.killAt.Add(-g.killAfter) }

// next is when to look again if nothing happens.
func (g *guardian) next(now locks.Instant) locks.Instant {
	switch {
	case g.phase == killing:
		return now.Add(killPause(now.Sub(g.killSince)))
	case g.phase == terming:
		return g.killAt
	case g.exited && !g.counted:
		return min(g.termAt(), max(g.settleBy, now.Add(settle/10)))
	default:
		return g.termAt()
	}
}

func (g *guardian) say(m message) {
	if !g.orphaned {
		_ = g.conn.send(m) // a dead lockrun shows as end of file
	}
}

func (g *guardian) finish(last message) {
	g.say(last)
	g.finished = true
}

func (g *guardian) handle(m message) {
	switch m.verb {
	case sayStart:
		g.start(m)
	case sayExtend:
		// A deadline that has passed is never extended, also when this process
		// was stopped or suspended meanwhile and has not acted upon it yet.
		if g.phase == running && g.clock.Now() < g.termAt() {
			g.killAt = m.at
		}
		g.say(message{verb: sayAck, seq: m.seq, at: g.killAt})
	case sayTerminate:
		g.terminate(becauseAsked, m.at)
		g.say(message{verb: sayAck, seq: m.seq, at: g.killAt})
	case saySignal:
		g.pass(syscall.Signal(m.n))
	}
}

// start forks the child.
func (g *guardian) start(m message) {
	if g.phase != waiting {
		return
	}
	g.killAt = m.at
	if g.clock.Now() >= g.termAt() {
		g.finish(message{verb: sayFailed})
		return
	}
	attr := &syscall.ProcAttr{
		Env:   environment(os.Environ(), m.list),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: g.group >= 0, Pgid: max(g.group, 0)},
	}
	pid, err := forkExec(g.path, g.argv, attr)
	if err != nil {
		errno := syscall.EINVAL // a zero byte in a variable
		errors.As(err, &errno)
		g.finish(message{verb: sayFailed, n: int(errno)})
		return
	}
	g.phase, g.child = running, pid
	g.say(message{verb: sayStarted, n: pid, at: g.killAt})
	g.say(message{verb: sayAck, seq: m.seq, at: g.killAt})
	detachStreams(2)
	closeInherited()
}

// pass sends a signal that lockrun received to the child, or to what it left.
func (g *guardian) pass(sig syscall.Signal) {
	switch {
	case g.phase == waiting:
	case !g.exited:
		g.signalChild(sig)
	default:
		for _, p := range alive(os.Getpid()) {
			p.signal(sig)
		}
	}
}

func (g *guardian) ended(pid int, status syscall.WaitStatus) {
	if pid == g.child && !g.exited {
		g.exited = true
		g.say(message{verb: sayExited, n: int(status)})
	}
}
