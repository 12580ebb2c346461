package supervise

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"lockrun/locks"
)

// send signals a process or group that the test has started.
func (f *fixture) send(pid int, sig syscall.Signal) {
	f.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		f.t.Fatalf("signal %v to %d: %v", sig, pid, err)
	}
}

func (f *fixture) exits(code int, status syscall.WaitStatus) {
	f.t.Helper()
	if !status.Exited() || status.ExitStatus() != code {
		f.t.Errorf("the driver ended with %#x, want exit code %d", status, code)
	}
}

func (f *fixture) has(kind Kind) bool { return slices.Contains(f.kinds(), kind) }

// TestDeadline lets renewals end in different ways and checks that the whole tree
// is dead by the end of the window that the last good one opened.
func TestDeadline(t *testing.T) {
	t.Parallel()
	t.Run("never extended", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window = 4 * time.Second
		f.start()
		f.beating()
		f.exits(70, f.wait())
		f.gone()
		term := f.event(TermSent)
		if term.Error != ErrDeadline.Error() {
			t.Errorf("SIGTERM because %q", term.Error)
		}
		if early := term.K.Add(-f.spec.KillAfter).Sub(term.At); early > 0 {
			t.Errorf("SIGTERM came %s early", early)
		}
		if kill := f.event(KillSent); kill.At < kill.K {
			t.Errorf("SIGKILL came %s early", kill.K.Sub(kill.At))
		}
		if f.lastBeat("session") < term.At || f.lastBeat("daemon") < term.At {
			t.Error("the deaf ones died of SIGTERM")
		}
		f.quiet(term.K.Add(f.spec.KillMargin))
		f.last(Empty)
		if f.has(TakenOver) {
			t.Error("lockrun took over from a healthy guardian")
		}
	})
	t.Run("extended for a while", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window, f.spec.Renew, f.spec.Renewals = 4*time.Second, 300*time.Millisecond, 20
		f.start()
		f.beating()
		f.exits(70, f.wait())
		f.gone()
		last := f.event(Empty)
		if first := f.event(Started); last.K.Sub(first.K) < time.Second {
			t.Error("the deadline was not moved")
		}
		if f.lastBeat("daemon") < last.K.Add(-f.spec.KillAfter) {
			t.Error("the tree was killed although its deadline had been extended")
		}
		f.quiet(last.K.Add(f.spec.KillMargin))
	})
	t.Run("kill-after of zero", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window, f.spec.KillAfter = 4*time.Second, 0
		f.start()
		f.beating()
		f.exits(70, f.wait())
		f.gone()
		f.quiet(f.event(Empty).K.Add(f.spec.KillMargin))
	})
	t.Run("passed before the start", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window = f.spec.KillAfter
		f.start()
		f.exits(71, f.wait())
		f.gone()
		f.last(NotStarted)
		if got := f.event(NotStarted).Error; got != ErrTooLate.Error() {
			t.Errorf("not started because %q", got)
		}
	})
	t.Run("terminated", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.TerminateAfter = 3 * time.Second
		f.spec.Renew = 100 * time.Millisecond // must not undo it
		f.start()
		f.beating()
		f.exits(70, f.wait())
		f.gone()
		term := f.event(TermSent)
		if term.Error != errAsked.Error() {
			t.Errorf("SIGTERM because %q", term.Error)
		}
		f.quiet(term.At.Add(f.spec.KillAfter + f.spec.KillMargin))
		f.last(Empty)
	})
}

// TestStoppedChild checks that a stopped process gets to see its SIGTERM.
func TestStoppedChild(t *testing.T) {
	t.Parallel()
	f := newCounter(t, syscall.SIGTERM)
	f.spec.TerminateAfter, f.spec.KillAfter = 2*time.Second, patience/2
	f.start()
	f.counted("ready")
	child := f.event(Started).Event.PID
	f.send(child, syscall.SIGSTOP)
	eventually(t, "a stopped child", func() bool { return f.state(child) == 'T' })
	f.exits(70, f.wait())
	f.counted("terminated")
	if f.has(KillSent) {
		t.Error("it was killed")
	}
}

// TestFaults breaks one of the two processes while the tree is at work.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		sig  syscall.Signal
		to   func(*fixture) int
		// from the fault on, the tree may live for this long
		grace func(*fixture) time.Duration
	}{
		{"lockrun killed", syscall.SIGKILL, toLockrun, graceful},
		{"lockrun's group killed", syscall.SIGKILL, toGroup, graceful},
		{"lockrun crashed", syscall.SIGSEGV, toLockrun, graceful},
		{"guardian killed", syscall.SIGKILL, (*fixture).guardian, atOnce},
		{"guardian crashed", syscall.SIGSEGV, (*fixture).guardian, atOnce},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTreeFixture(t)
			f.start()
			f.beating()
			to := tt.to(f)
			at := now()
			f.send(to, tt.sig)
			status := f.wait()
			f.gone()
			f.quiet(at.Add(tt.grace(f) + f.spec.KillMargin))
			if f.lastBeat("") < at {
				t.Error("the tree had ended before the fault")
			}
			if to == f.cmd.Process.Pid || to == -f.cmd.Process.Pid {
				return
			}
			if status.ExitStatus() != 70 || !f.has(TakenOver) {
				t.Errorf("ended with %#x and events %v", status, f.kinds())
			}
			if got := f.event(Exited).Event.Status.Signal; got != syscall.SIGKILL {
				t.Errorf("the child's end is told as signal %d", got)
			}
			f.last(Empty)
		})
	}
	t.Run("lockrun stopped past the deadline", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window, f.spec.Renew = 4*time.Second, 100*time.Millisecond
		f.start()
		f.beating()
		f.send(f.cmd.Process.Pid, syscall.SIGSTOP)
		at := now()
		end := at.Add(f.spec.Window + f.spec.KillMargin)
		f.quietWhileStopped(end)
		// By now lockrun's own clock tells it to take over as well.
		eventually(t, "the end of the window", func() bool { return now() > end })
		f.send(f.cmd.Process.Pid, syscall.SIGCONT)
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
		if f.has(TakenOver) {
			t.Error("lockrun did not listen to what the guardian had told it")
		}
	})
	t.Run("guardian stopped, deadline passes", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window = 4 * time.Second
		f.start()
		f.beating()
		f.send(f.guardian(), syscall.SIGSTOP)
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
		taken := f.event(TakenOver)
		if taken.At < taken.K {
			t.Error("lockrun took over before the deadline")
		}
		f.quiet(taken.K.Add(f.spec.KillMargin))
	})
	t.Run("guardian stopped, deadline extended", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window, f.spec.Renew = 4*time.Second, 200*time.Millisecond
		f.spec.KillMargin = 12 * time.Second
		f.start()
		f.beating()
		guardian := f.guardian()
		f.send(guardian, syscall.SIGSTOP)
		at := now()
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
		f.quiet(at.Add(f.spec.Window + f.spec.KillMargin))
		taken := f.event(TakenOver).At
		if taken < at.Add(f.spec.Window-2*f.spec.Renew-time.Second) {
			t.Error("lockrun took over long before the acknowledged deadline")
		}
		if taken > at.Add(f.spec.Window+f.spec.KillMargin/4) {
			t.Error("lockrun relied on a deadline that was not acknowledged")
		}
	})
	t.Run("guardian stopped past SIGTERM's time, deadline extended meanwhile", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window, f.spec.KillAfter, f.spec.Renew = 8*time.Second, 5*time.Second, 200*time.Millisecond
		f.start()
		f.beating()
		guardian := f.guardian()
		f.send(guardian, syscall.SIGSTOP)
		termAt := now().Add(f.spec.Window - f.spec.KillAfter)
		eventually(t, "the time of SIGTERM", func() bool { return now() > termAt })
		f.send(guardian, syscall.SIGCONT)
		f.exits(70, f.wait())
		f.gone()
		if f.has(TakenOver) {
			t.Error("lockrun took over from a guardian that works again")
		}
		if got := f.event(TermSent); got.Error != ErrDeadline.Error() {
			t.Errorf("SIGTERM because %q", got.Error)
		}
		f.quiet(termAt.Add(f.spec.KillAfter + f.spec.KillMargin))
	})
	t.Run("guardian stopped, lockrun asked to end it", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.TerminateAfter = 3 * time.Second
		f.start()
		f.beating()
		f.send(f.guardian(), syscall.SIGSTOP)
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
	})
	t.Run("guardian stopped while it kills", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window, f.spec.KillAfter = 4*time.Second, time.Second
		f.start()
		f.beating()
		guardian := f.guardian()
		eventually(t, "SIGTERM", func() bool { return f.has(TermSent) })
		f.send(guardian, syscall.SIGSTOP)
		f.exits(70, f.wait())
		f.gone()
		f.quiet(f.event(TermSent).K.Add(f.spec.KillMargin))
	})
	t.Run("guardian signalled", func(t *testing.T) {
		f := newTreeFixture(t)
		f.start()
		f.beating()
		guardian := f.guardian()
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
			f.send(guardian, sig)
		}
		f.send(f.cmd.Process.Pid, syscall.SIGTERM) // which the guardian has to pass on
		if status := f.wait(); status.Signal() != syscall.SIGTERM {
			t.Errorf("ended with %#x", status)
		}
		f.gone()
		if f.has(TakenOver) {
			t.Error("a signal that was not meant for it ended the guardian")
		}
	})
}

func toLockrun(f *fixture) int          { return f.cmd.Process.Pid }
func toGroup(f *fixture) int            { return -f.cmd.Process.Pid }
func graceful(f *fixture) time.Duration { return f.spec.KillAfter }
func atOnce(*fixture) time.Duration     { return 0 }

// quietWhileStopped waits for the end of the tree, with lockrun still stopped.
func (f *fixture) quietWhileStopped(after locks.Instant) {
	f.t.Helper()
	eventually(f.t, "the end of guardian and tree", func() bool {
		return slices.Equal(f.survivors(), []int{f.cmd.Process.Pid})
	})
	f.quiet(after)
}

// TestGuardianFailsEarly is about a guardian that was not told to start yet.
func TestGuardianFailsEarly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		sig  syscall.Signal
		code int
		want []Kind
	}{
		{"killed", syscall.SIGKILL, 71, []Kind{NotStarted}},
		// It may have forked the child and not told; only a kill makes sure.
		{"stopped", syscall.SIGSTOP, 70, []Kind{TakenOver, Empty}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, "sleep", "1000")
			f.spec.StartDelay, f.spec.Window = 2*time.Second, 2*time.Second
			f.start()
			f.send(f.guardian(), tt.sig)
			f.exits(tt.code, f.wait())
			f.gone()
			if !slices.Equal(f.kinds(), tt.want) {
				t.Errorf("events %v, want %v", f.kinds(), tt.want)
			}
		})
	}
}

// TestRandomKills hits the first moments of a run, when processes are still being
// started.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	const script = `trap "" TERM
setsid sh -c 'trap "" TERM; while :; do sleep 1000; done' &
(setsid sleep 1000 &)
sleep 1000 &
wait; wait`
	for range 40 {
		for _, who := range []string{"lockrun", "guardian", "both in turn", "lockrun by SIGTERM"} {
			f := newFixture(t, "sh", "-c", script)
			f.spec.KillAfter = 20 * time.Millisecond
			f.spec.TerminateAfter = 150 * time.Millisecond // for a child that ignores SIGTERM
			f.start()
			time.Sleep(rand.N(60 * time.Millisecond))
			lockrun := f.cmd.Process.Pid
			guardian := 0
			if below := descendants(lockrun); len(below) > 0 {
				guardian = below[0].pid
			}
			sig := syscall.SIGKILL
			switch {
			case who == "lockrun by SIGTERM":
				f.send(lockrun, syscall.SIGTERM)
			case who == "guardian" && guardian != 0:
				_ = syscall.Kill(guardian, sig) // it may have ended
			case who == "both in turn" && guardian != 0:
				f.send(lockrun, syscall.SIGSTOP)
				f.send(guardian, syscall.SIGKILL)
				f.send(lockrun, syscall.SIGCONT)
			default:
				f.send(lockrun, sig)
			}
			f.wait()
			f.gone()
			if t.Failed() {
				return
			}
		}
	}
}
