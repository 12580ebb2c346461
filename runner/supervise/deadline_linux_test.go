package supervise

import (
	"syscall"
	"testing"
	"time"
)

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
		if term := f.event(TermSent); term.At < last.K.Add(-f.spec.KillAfter) {
			t.Error("SIGTERM came although the deadline had been extended")
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
		terminate := f.terminates()
		f.spec.Renew = 100 * time.Millisecond // must not undo it
		f.start()
		f.beating()
		terminate()
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
	f.spec.KillAfter = patience / 2
	terminate := f.terminates()
	f.start()
	f.counted("ready")
	child := f.event(Started).Event.PID
	f.send(child, syscall.SIGSTOP)
	eventually(t, "a stopped child", func() bool { return f.state(child) == 'T' })
	terminate()
	f.exits(70, f.wait())
	f.counted("terminated")
	if f.has(KillSent) {
		t.Error("it was killed")
	}
}
