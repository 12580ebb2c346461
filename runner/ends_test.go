package runner

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks"
	"lockrun/runner/supervise"
)

// How the child ends decides the code and the record.
func TestEnds(t *testing.T) {
	tests := []struct {
		name    string
		set     func(s *stage)
		want    Result
		outcome guard.Outcome
		state   guard.State
		check   func(t *testing.T, s *stage, a guardtest.Attempt)
	}{
		{name: "exits 0", outcome: guard.OutcomeSucceeded, state: guard.Succeeded},
		{name: "exits 75", set: func(s *stage) { s.child.status.Code = 75 }, want: Result{Code: 75}, outcome: guard.OutcomeFailed, state: guard.Failed},
		{name: "dies", set: func(s *stage) { s.child.status.Signal = syscall.SIGSEGV }, want: Result{Signal: syscall.SIGSEGV},
			outcome: guard.OutcomeFailed, state: guard.Failed, check: func(t *testing.T, _ *stage, a guardtest.Attempt) {
				if a.Signal != "SIGSEGV" || a.ExitCode != nil {
					t.Errorf("signal %q, exit code %v", a.Signal, a.ExitCode)
				}
			}},
		{name: "runs too long", set: func(s *stage) { s.child.runs = time.Hour; s.spec.MaxRuntime = time.Minute }, want: Result{Code: ExitTimeout},
			outcome: guard.OutcomeTimeout, state: guard.Failed, check: func(t *testing.T, s *stage, _ guardtest.Attempt) {
				if ran := s.child.termAt.Sub(s.begun); ran != time.Minute {
					t.Errorf("SIGTERM after %s", ran)
				}
			}},
		{name: "renewals fail", set: func(s *stage) {
			s.child.runs = time.Hour
			s.store.Script(guardtest.OnRenew, always(guardtest.Fault{Skip: true, Err: errAway}))
		}, want: Result{Code: ExitLost}, outcome: guard.OutcomeLost, state: guard.Failed},
		{name: "renewals fail and the child ignores SIGTERM", set: func(s *stage) {
			s.child.runs, s.child.ignores = time.Hour, true
			s.store.Script(guardtest.OnRenew, always(guardtest.Fault{Hang: true, Skip: true}))
		}, want: Result{Code: ExitLost}, outcome: guard.OutcomeLost, state: guard.Failed, check: func(t *testing.T, s *stage, _ guardtest.Attempt) {
			if lived := s.child.ended.Sub(s.begun); lived >= s.runner.Timing.TTL {
				t.Errorf("lived %s, the lease %s", lived, s.runner.Timing.TTL)
			}
		}},
		{name: "lease taken over", set: func(s *stage) {
			s.child.runs = time.Hour
			s.store.Script(guardtest.OnRenew, always(guardtest.Fault{Skip: true, Err: locks.ErrLost}))
		}, want: Result{Code: ExitLost}, outcome: guard.OutcomeLost, state: guard.Failed, check: func(t *testing.T, s *stage, _ guardtest.Attempt) {
			if at := s.child.termAt.Sub(s.begun); at != 10*time.Second {
				t.Errorf("SIGTERM after %s, want with the first renewal", at)
			}
		}},
		{name: "can't be killed", set: func(s *stage) {
			s.child.runs, s.child.ignores, s.child.stuck = time.Hour, true, true
			s.store.Script(guardtest.OnRenew, always(guardtest.Fault{Skip: true, Err: locks.ErrLost}))
		}, want: Result{Code: ExitLost}, outcome: guard.OutcomeLost, state: guard.Running, check: func(t *testing.T, s *stage, _ guardtest.Attempt) {
			if s.filter.released != 0 {
				t.Error("the quorum was released although the child lives")
			}
		}},
		{name: "what is waited for ends", set: func(s *stage) {
			s.spec.Leftovers, s.child.leaves, s.child.status.Code = supervise.Wait, time.Minute, 3
		}, want: Result{Code: 3}, outcome: guard.OutcomeFailed, state: guard.Failed},
		{name: "what is waited for runs too long", set: func(s *stage) {
			s.spec.Leftovers, s.child.leaves, s.spec.MaxRuntime = supervise.Wait, time.Hour, time.Minute
		}, want: Result{Code: ExitTimeout}, outcome: guard.OutcomeTimeout, state: guard.Failed, check: func(t *testing.T, s *stage, a guardtest.Attempt) {
			if ran := s.child.termAt.Sub(s.begun); ran != time.Minute {
				t.Errorf("SIGTERM after %s", ran)
			}
			if a.ExitCode == nil || *a.ExitCode != 0 {
				t.Errorf("exit code %v, want the child's", a.ExitCode)
			}
		}},
		{name: "lease taken over while it waits", set: func(s *stage) {
			s.spec.Leftovers, s.child.leaves = supervise.Wait, time.Hour
			s.store.Script(guardtest.OnRenew, always(guardtest.Fault{Skip: true, Err: locks.ErrLost}))
		}, want: Result{Code: ExitLost}, outcome: guard.OutcomeLost, state: guard.Failed},
		{name: "lease taken over while leftovers are killed", set: func(s *stage) {
			s.child.leaves = time.Hour
			s.store.Script(guardtest.OnRenew, always(guardtest.Fault{Skip: true, Err: locks.ErrLost}))
		}, outcome: guard.OutcomeSucceeded, state: guard.Succeeded},
		{name: "what is waited for can't be killed", set: func(s *stage) {
			s.spec.Leftovers, s.child.leaves, s.child.stuck, s.spec.MaxRuntime = supervise.Wait, time.Hour, true, time.Minute
		}, want: Result{Code: ExitLost}, outcome: guard.OutcomeLost, state: guard.Running, check: func(t *testing.T, s *stage, a guardtest.Attempt) {
			const want = "what the child left could not be killed, processes that /proc does not show live on, and the lease is left to expire (it was to be ended because it ran longer than --max-runtime)"
			if a.Reason != want {
				t.Errorf("reason %q", a.Reason)
			}
			if l := s.lines(); len(l) == 0 || !errors.Is(l[len(l)-1].Err, ErrUnkilled) || l[len(l)-1].Next == "" {
				t.Errorf("printed %+v", l)
			}
		}},
		{name: "ends and nobody sees how", set: func(s *stage) { s.child.unseen = true }, want: Result{Code: ExitLost},
			outcome: guard.OutcomeLost, state: guard.Failed},
		{name: "optional quorum is dropped and not touched again", set: func(s *stage) {
			s.runner.Preferred, s.child.runs = true, time.Minute
			s.filter.renew = func(context.Context) error { return errAway }
		}, outcome: guard.OutcomeSucceeded, state: guard.Succeeded, check: func(t *testing.T, s *stage, _ guardtest.Attempt) {
			if s.filter.released != 0 {
				t.Error("the quorum was released after it had been dropped")
			}
		}},
		{name: "can't be started", set: func(s *stage) {
			s.child.refuse = &supervise.CommandError{Code: ExitNotFound, Name: "job", Err: errors.New("no interpreter")}
		}, want: Result{Code: ExitNotFound}, outcome: guard.OutcomeNotStarted},
		{name: "can't be executed", set: func(s *stage) {
			s.child.refuse = &supervise.CommandError{Code: ExitNotExec, Name: "job", Err: syscall.ENOEXEC}
		}, want: Result{Code: ExitNotExec}, outcome: guard.OutcomeNotStarted},
		{name: "can't be forked", set: func(s *stage) { s.child.refuse = syscall.EAGAIN }, want: Result{Code: ExitSystem}, outcome: guard.OutcomeNotStarted},
		{name: "guardian fails", set: func(s *stage) { s.child.refuse = errors.Join(supervise.ErrGuardian, syscall.ENOENT) },
			want: Result{Code: ExitSystem}, outcome: guard.OutcomeNotStarted},
		{name: "store away at the end, back in time", set: func(s *stage) {
			n := 0
			s.store.Script(guardtest.OnFinish, func(context.Context) guardtest.Fault {
				n++
				return guardtest.Fault{Skip: n < 4, Hang: n < 4}
			})
		}, outcome: guard.OutcomeSucceeded, state: guard.Succeeded},
		{name: "store away at the end for good", set: func(s *stage) {
			s.store.Script(guardtest.OnFinish, always(guardtest.Fault{Skip: true, Hang: true}))
		}, want: Result{Code: ExitUnrecorded}, outcome: guard.OutcomeRunning, state: guard.Running, check: func(t *testing.T, s *stage, _ guardtest.Attempt) {
			if took, ttl := s.took(), s.runner.Timing.TTL; took < ttl-s.runner.Timing.Call || took > ttl+3*s.runner.Timing.Call {
				t.Errorf("tried for %s, want about one ttl (%s)", took, ttl)
			}
			if l := s.lines(); len(l) != 1 || l[0].Kind != EventUnrecorded || l[0].Status == nil {
				t.Errorf("printed %+v", l)
			}
		}},
		{name: "store away at the end, the child failed", set: func(s *stage) {
			s.child.status.Code = 3
			s.store.Script(guardtest.OnFinish, always(guardtest.Fault{Skip: true, Err: errAway}))
		}, want: Result{Code: 3}, outcome: guard.OutcomeRunning, state: guard.Running},
		{name: "nobody waits for the record", set: func(s *stage) {
			s.store.Script(guardtest.OnFinish, func(context.Context) guardtest.Fault {
				s.signals <- syscall.SIGTERM
				return guardtest.Fault{Skip: true, Hang: true}
			})
		}, want: Result{Code: ExitUnrecorded}, outcome: guard.OutcomeRunning, state: guard.Running, check: func(t *testing.T, s *stage, _ guardtest.Attempt) {
			if took := s.took(); took > 2*time.Second {
				t.Errorf("a signal ended it after %s", took)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				if tt.set != nil {
					tt.set(s)
				}
				if got := s.run(); got != tt.want {
					t.Errorf("result %+v, want %+v", got, tt.want)
				}
				attempts := s.store.Attempts(testName)
				if len(attempts) != 1 || attempts[0].Outcome != tt.outcome {
					t.Fatalf("attempts %+v, want outcome %s", attempts, tt.outcome)
				}
				var state guard.State
				if row := s.store.Run(testName, testDate); row != nil {
					state = row.State
				}
				if state != tt.state {
					t.Errorf("state %q, want %q", state, tt.state)
				}
				if tt.check != nil {
					tt.check(t, s, attempts[0])
				}
			})
		})
	}
}
