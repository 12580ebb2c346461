package supervise

import (
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
		terminate := f.terminates()
		f.start()
		f.beating()
		f.send(f.guardian(), syscall.SIGSTOP)
		terminate()
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

// TestBothKilled is about the one fault that leaves nobody to kill the tree. The
// child itself must die of it.
func TestBothKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "sleep", "1000")
	f.start()
	eventually(t, "the start", func() bool { return f.has(Started) })
	f.send(f.cmd.Process.Pid, syscall.SIGSTOP)
	f.send(f.guardian(), syscall.SIGKILL)
	f.send(f.cmd.Process.Pid, syscall.SIGKILL)
	f.wait()
	f.gone()
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
