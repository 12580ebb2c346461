package runner

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"lockrun/locks"
	"lockrun/runner/supervise"
)

// watch is what is learned while the child's tree lives.
type watch struct {
	hold    *locks.Hold
	started bool
	exited  bool
	waits   bool // for what the child left, which is then part of the run
	status  supervise.Status
	lost    error // why lockrun ended the child
	timeout bool
	dead    bool  // proof of death
	refused error // the child never existed
	note    string
}

// supervise starts the child, keeps the locks while it lives, and sees to the
// record and the release when its tree is dead.
func (x *run) supervise() Result {
	keeps := []locks.Keep{{Name: "lease", Sent: x.leaseSent, Renew: x.renewLease}}
	if x.filtered {
		keeps = append(keeps, locks.Keep{Name: x.FilterName, Sent: x.filterSent, Renew: x.Filter.Renew, Optional: x.Preferred})
	}
	w := &watch{hold: locks.NewHold(x.Clock, x.Timing, keeps...)}
	defer w.hold.Stop()
	x.child.Start(x.variables(), x.Timing.KillAt(x.windowEnd()))
	x.attend(w)
	w.hold.Stop()
	if w.refused != nil {
		return x.neverStarted(w.refused)
	}
	return x.finish(w)
}

// attend serves until the tree is dead, given up, or was never there.
func (x *run) attend(w *watch) {
	var overtime <-chan struct{}
	events, updates := x.child.Events(), w.hold.Updates()
	for {
		select {
		case e, open := <-events:
			if !open {
				return
			}
			x.childEvent(w, e)
			switch e.Kind {
			case supervise.NotStarted, supervise.Empty, supervise.Stuck:
				return // the last event; what is left of the supervision ends beside the rest
			case supervise.Started:
				if x.spec.MaxRuntime > 0 {
					alarm := x.Clock.NewAlarm()
					defer alarm.Stop()
					alarm.Set(x.Clock.Now().Add(x.spec.MaxRuntime))
					overtime = alarm.C()
				}
			}
		case u := <-updates:
			x.holdUpdate(w, u)
		case sig := <-x.Signals:
			if s, ok := sig.(syscall.Signal); ok {
				x.child.Signal(s)
			}
		case <-overtime:
			x.overtime(w)
		}
	}
}

func (x *run) childEvent(w *watch, e supervise.Event) {
	switch e.Kind {
	case supervise.Started:
		w.started = true
		x.report(Event{Kind: EventStarted, Level: Info, PID: e.PID})
	case supervise.NotStarted:
		w.refused = e.Err
	case supervise.Exited:
		w.exited, w.status = true, e.Status
	case supervise.Leftovers:
		w.note = fmt.Sprintf("%d descendants outlived the child %s", e.Count, fates[x.spec.Leftovers])
		w.waits = x.spec.Leftovers == supervise.Wait
		x.report(Event{Kind: EventEnded, Level: Warn, Note: w.note, Err: e.Err})
	case supervise.TermSent:
		// The supervision ends the tree by itself at its deadline. After the
		// child's own end this is about leftovers, which change no result
		// unless the run waits for them.
		w.waits = w.waits || w.exited && x.spec.Leftovers == supervise.Wait
		w.timeout = w.timeout || w.running() && errors.Is(e.Err, errOvertime)
		if w.running() && w.lost == nil && !w.timeout {
			w.lost = e.Err
		}
		x.report(Event{Kind: EventTermSent, Level: Info, Err: e.Err})
	case supervise.KillSent:
		x.report(Event{Kind: EventKillSent, Level: Info, Err: e.Err})
	case supervise.TakenOver:
		if w.lost == nil {
			w.lost = e.Err
		}
		x.report(Event{Kind: EventKillSent, Level: Info, Err: e.Err})
	case supervise.Empty:
		w.dead = true
	case supervise.Stuck:
		w.lost = w.unkilled(e.PIDs)
	}
}

// running tells whether the run goes on: as long as the child, or what is waited
// for after it. Whatever ends it then decides the result.
func (w *watch) running() bool { return !w.exited || w.waits }

// ErrUnkilled is what the error of a Lost event wraps when processes of the run
// live on.
var ErrUnkilled = errors.New("could not be killed")

// unkilled says who lives on, and why it was to be ended.
func (w *watch) unkilled(pids []int) error {
	what, who := "the child", "processes that /proc does not show"
	if w.exited {
		what = "what the child left"
	}
	if len(pids) > 0 {
		who = fmt.Sprintf("processes %v", pids)
	}
	err := fmt.Errorf("%s %w, %s live on, and the lease is left to expire", what, ErrUnkilled, who)
	switch {
	case w.lost != nil:
		err = fmt.Errorf("%w (it was to be ended because %w)", err, w.lost)
	case w.timeout:
		err = fmt.Errorf("%w (it was to be ended because %w)", err, errOvertime)
	}
	return err
}

// fates says what becomes of leftovers.
var fates = map[supervise.Policy]string{
	supervise.Kill:  "and are ended (--leftovers kill)",
	supervise.Wait:  "and are waited for (--leftovers wait)",
	supervise.Leave: "and live on (--leftovers leave)",
}

func (x *run) holdUpdate(w *watch, u locks.Update) {
	switch u.Kind {
	case locks.Extended:
		x.child.Extend(u.KillAt)
	case locks.RenewFailed:
		x.report(Event{Kind: EventRenewFailed, Level: Info, Err: fmt.Errorf("%s: %w", u.Tier, u.Err)})
	case locks.Dropped:
		x.dropped = true
		x.report(Event{Kind: EventQuorumLost, Level: Warn, Err: u.Err, Note: "going on with the lease alone"})
	case locks.Lost:
		// The supervision may have met the deadline first; this knows why it did.
		if w.running() && (w.lost == nil || errors.Is(w.lost, supervise.ErrDeadline)) {
			w.lost = u.Err
		}
		x.child.Terminate(u.KillAt, u.Err)
	}
}

// overtime ends a run that has lasted for --max-runtime. A deadline of the locks
// that comes earlier still holds. In the moment in which it shows whether the
// child has left something to wait for, SIGTERM decides: it is sent if so.
func (x *run) overtime(w *watch) {
	if w.lost != nil || w.exited && x.spec.Leftovers != supervise.Wait {
		return
	}
	w.timeout = w.running()
	x.child.Terminate(x.Clock.Now().Add(x.Timing.KillAfter), errOvertime)
}

var errOvertime = errors.New("it ran longer than --max-runtime")

// variables is what the child's environment gets in addition to the caller's.
func (x *run) variables() []string {
	vars := []string{
		"LOCKRUN_NAME=" + x.req.Name,
		"LOCKRUN_RUN_ID=" + x.req.RunID,
		"LOCKRUN_ATTEMPT=" + strconv.Itoa(x.answer.Attempt),
		"LOCKRUN_TOKEN=" + strconv.FormatInt(x.answer.Token, 10),
	}
	if x.req.Date != "" {
		vars = append(vars, "LOCKRUN_DATE="+x.req.Date)
	}
	if x.spec.PGOptions != nil {
		vars = append(vars, "PGOPTIONS="+WithRunID(*x.spec.PGOptions, x.req.RunID))
	}
	return vars
}

// WithRunID adds a run's id to a value of PGOPTIONS: every Postgres session that
// libpq or pgx opens with it has the setting that lockrun.fence_trigger() reads.
// The last of several counts, so one that is there already does no harm.
func WithRunID(options, runID string) string {
	if options != "" {
		options += " "
	}
	return options + "-c lockrun.run_id=" + runID
}

// ChildVariables are the names that [Runner] sets for the child. A value that
// lockrun inherited must not reach the child of a run without a date.
var ChildVariables = []string{"LOCKRUN_NAME", "LOCKRUN_RUN_ID", "LOCKRUN_ATTEMPT", "LOCKRUN_TOKEN", "LOCKRUN_DATE"}

// SignalName is the name of a signal as in kill -l, with SIG.
func SignalName(sig os.Signal) string {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return sig.String()
	}
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s)) // a real-time signal has no name
}
