package supervise

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

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
			guardian := f.guardian()
			eventually(t, "a guardian that is ready, and a driver that knows", func() bool {
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", guardian))
				_, err := os.Stat(f.spec.Log)
				return string(name) == guardianName+"\n" && err == nil
			})
			f.send(guardian, tt.sig)
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
