package runner

import (
	"fmt"
	"syscall"
	"testing"

	"lockrun/runner/supervise"
)

// Which one wins: lost, then max-runtime, then the child's own, then unrecorded;
// for every code and signal that a child can end with.
func TestExitCode(t *testing.T) {
	check := func(status supervise.Status, own Result) {
		t.Helper()
		for _, lost := range []bool{false, true} {
			for _, timeout := range []bool{false, true} {
				for _, recorded := range []bool{false, true} {
					want := own
					switch {
					case lost:
						want = Result{Code: 70}
					case timeout:
						want = Result{Code: 124}
					case own == Result{} && !recorded:
						want = Result{Code: 74}
					}
					e := ending{lost: lost, timeout: timeout, recorded: recorded, status: status}
					if got := e.result(); got != want {
						t.Errorf("%+v gives %+v, want %+v", e, got, want)
					}
				}
			}
		}
	}
	for code := range 256 {
		check(supervise.Status{Code: code}, Result{Code: code})
	}
	for sig := syscall.Signal(1); sig < 65; sig++ {
		check(supervise.Status{Signal: sig}, Result{Signal: sig})
		if shown := (Result{Signal: sig}).Shown(); shown != 128+int(sig) {
			t.Errorf("signal %d is shown as %d", sig, shown)
		}
	}
}

func TestSignalName(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", 40: "signal 40"} {
		if got := SignalName(sig); got != want {
			t.Error(fmt.Sprint(got, " instead of ", want))
		}
	}
}
