package runner

import (
	"context"
	"errors"
	"os"
	"slices"
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

var errAway = &locks.UnavailableError{What: "quorum", Err: errors.New("2 of 3 nodes do not answer")}

func always(f guardtest.Fault) func(context.Context) guardtest.Fault {
	return func(context.Context) guardtest.Fault { return f }
}

// What Redis says and what the store says may differ. Each line is one
// combination; the child may start only where all doors are open.
func TestDoors(t *testing.T) {
	redisHeld := &locks.HeldError{Tier: "quorum", By: locks.Holder{Text: "host-r", PID: 9}}
	tests := []struct {
		name   string
		set    func(t *testing.T, s *stage)
		want   Result
		starts bool
		leaves bool      // lease and date can't be given back
		event  EventKind // of the one line that is printed; "" = none
		check  func(t *testing.T, s *stage)
	}{
		{name: "all open", starts: true},
		{name: "no filter at all", set: func(_ *testing.T, s *stage) { s.runner.Filter = nil }, starts: true},
		{name: "the incident: quorum yes, lease held", set: func(t *testing.T, s *stage) { s.other(t, "") },
			want: Result{Code: ExitHeld}, event: EventHeld, check: func(t *testing.T, s *stage) {
				if h := s.lines()[0].Held; h.By.Text != "host-2" || h.By.PID != 7 {
					t.Errorf("holder %+v", h.By)
				}
			}},
		{name: "quorum held, lease free", set: func(_ *testing.T, s *stage) { s.filter.acquire = []error{redisHeld} },
			want: Result{Code: ExitHeld}, event: EventHeld, check: func(t *testing.T, s *stage) {
				if n := s.store.Count(guardtest.OnAcquire); n != 0 {
					t.Errorf("a loser of the quorum asked the store %d times", n)
				}
			}},
		{name: "quorum held is final under preferred too", set: func(_ *testing.T, s *stage) {
			s.runner.Preferred, s.filter.acquire = true, []error{redisHeld}
		}, want: Result{Code: ExitHeld}, event: EventHeld},
		{name: "held with a code of its own", set: func(t *testing.T, s *stage) { s.other(t, ""); s.spec.HeldCode = 9 },
			want: Result{Code: 9}, event: EventHeld},
		{name: "quorum away, required", set: func(_ *testing.T, s *stage) { s.filter.acquire = []error{errAway} },
			want: Result{Code: ExitUnavailable}, event: EventUnavailable},
		{name: "quorum away, preferred", set: func(_ *testing.T, s *stage) {
			s.runner.Preferred, s.filter.acquire = true, []error{errAway}
		}, starts: true, event: EventQuorumLost},
		{name: "quorum away, preferred, lease held", set: func(t *testing.T, s *stage) {
			s.runner.Preferred, s.filter.acquire = true, []error{errAway}
			s.other(t, "")
		}, want: Result{Code: ExitHeld}},
		{name: "quorum refuses the login", set: func(_ *testing.T, s *stage) {
			s.filter.acquire = []error{&locks.SetupError{What: "quorum", Err: errors.New("WRONGPASS")}}
		}, want: Result{Code: ExitConfig}, event: EventConfig},
		{name: "schema missing", set: func(_ *testing.T, s *stage) {
			s.store.Script(guardtest.OnAcquire, always(guardtest.Fault{Skip: true, Err: &locks.SetupError{What: "Postgres", Err: errors.New("no schema")}}))
		}, want: Result{Code: ExitConfig}, event: EventConfig},
		{name: "store refuses", set: func(_ *testing.T, s *stage) {
			s.store.Script(guardtest.OnAcquire, always(guardtest.Fault{Skip: true, Err: &locks.UnavailableError{What: "Postgres", Err: errors.New("refused")}}))
		}, want: Result{Code: ExitUnavailable}, event: EventUnavailable, check: func(t *testing.T, s *stage) {
			if n := s.store.Count(guardtest.OnUndo); n != 0 {
				t.Errorf("%d undos of an acquire that never went out", n)
			}
		}},
		{name: "store hangs", set: func(_ *testing.T, s *stage) {
			s.store.Script(guardtest.OnAcquire, always(guardtest.Fault{Hang: true, Skip: true}))
		}, want: Result{Code: ExitUnavailable}, event: EventUnavailable, check: func(t *testing.T, s *stage) {
			if took, most := s.took(), s.runner.Timing.StartBudget()+2*s.runner.Timing.Call; took > most {
				t.Errorf("took %s, may take %s", took, most)
			}
		}},
		{name: "the answer was lost and can be undone", set: func(_ *testing.T, s *stage) {
			s.store.Script(guardtest.OnAcquire, always(guardtest.Fault{Hang: true}))
		}, want: Result{Code: ExitUnavailable}, event: EventUnavailable, check: func(t *testing.T, s *stage) {
			if s.store.Run(testName, testDate) != nil || s.lines()[0].Note != "" {
				t.Errorf("date %+v, note %q", s.store.Run(testName, testDate), s.lines()[0].Note)
			}
		}},
		{name: "the answer was lost and can't be undone", set: func(_ *testing.T, s *stage) {
			s.store.Script(guardtest.OnAcquire, always(guardtest.Fault{Hang: true}))
			s.store.Script(guardtest.OnUndo, always(guardtest.Fault{Hang: true, Skip: true}))
		}, want: Result{Code: ExitUnavailable}, leaves: true, event: EventUnavailable, check: func(t *testing.T, s *stage) {
			if !strings.Contains(s.lines()[0].Note, "may be taken") {
				t.Errorf("note %q", s.lines()[0].Note)
			}
		}},
		{name: "date done", set: func(t *testing.T, s *stage) { s.other(t, guard.OutcomeSucceeded) },
			want: Result{}, event: EventDone},
		{name: "date done, code of its own", set: func(t *testing.T, s *stage) { s.other(t, guard.OutcomeSucceeded); s.spec.DoneCode = 11 },
			want: Result{Code: 11}, event: EventDone},
		{name: "date failed", set: func(t *testing.T, s *stage) { s.other(t, guard.OutcomeFailed) },
			want: Result{Code: ExitRefused}, event: EventRefused},
		{name: "date unknown", set: func(t *testing.T, s *stage) { s.other(t, ""); s.store.Expire(testName) },
			want: Result{Code: ExitRefused}, event: EventRefused, check: func(t *testing.T, s *stage) {
				if s.lines()[0].Verdict != guard.IsUnknown {
					t.Errorf("verdict %v", s.lines()[0].Verdict)
				}
			}},
		{name: "date failed, rerun", set: func(t *testing.T, s *stage) {
			s.other(t, guard.OutcomeFailed)
			s.spec.Request.Rerun.Failed = true
		}, starts: true, check: func(t *testing.T, s *stage) {
			if !slices.Contains(s.child.vars, "LOCKRUN_ATTEMPT=2") {
				t.Errorf("variables %v", s.child.vars)
			}
		}},
		{name: "no date", set: func(_ *testing.T, s *stage) { s.spec.Date = guard.DateSpec{} }, starts: true, check: func(t *testing.T, s *stage) {
			if slices.ContainsFunc(s.child.vars, func(v string) bool { return strings.HasPrefix(v, "LOCKRUN_DATE") }) {
				t.Errorf("variables %v", s.child.vars)
			}
		}},
		{name: "doors about to close", set: func(_ *testing.T, s *stage) {
			s.store.Script(guardtest.OnAcquire, func(context.Context) guardtest.Fault {
				time.Sleep(24 * time.Second) // a call that ignores its context
				return guardtest.Fault{}
			})
		}, want: Result{Code: ExitUnavailable}, event: EventUnavailable, check: func(t *testing.T, s *stage) {
			if s.store.Run(testName, testDate) != nil {
				t.Error("the date stayed taken")
			}
		}},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				if tt.set != nil {
					tt.set(t, s)
				}
				if got := s.run(); got != tt.want {
					t.Errorf("result %+v, want %+v", got, tt.want)
				}
				if s.child.started != tt.starts {
					t.Fatalf("started %v, want %v", s.child.started, tt.starts)
				}
				if s.filter.mine {
					t.Error("the filter was not released")
				}
				l := s.store.Lease(testName)
				if left := l != nil && l.RunID == testID && l.ExpiresAt.After(time.Now()); left != tt.leaves {
					t.Errorf("the lease was left behind: %v", left)
				}
				if lines := s.lines(); tt.event == "" && tt.starts && len(lines) > 0 || tt.event != "" && (len(lines) != 1 || lines[0].Kind != tt.event) {
					t.Errorf("printed %+v, want one %q", lines, tt.event)
				}
				if tt.check != nil {
					tt.check(t, s)
				}
			})
		})
	}
}

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

func TestSignals(t *testing.T) {
	t.Run("before the child", func(t *testing.T) {
		for _, where := range []string{"waiting", "acquiring", "acquired"} {
			t.Run(where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t)
					at := 5 * time.Second
					switch where {
					case "waiting":
						s.other(t, "")
						s.spec.Wait = time.Hour
					case "acquiring":
						s.store.Script(guardtest.OnAcquire, always(guardtest.Fault{Hang: true}))
					case "acquired":
						s.store.Script(guardtest.OnAcquire, func(context.Context) guardtest.Fault {
							s.signals <- syscall.SIGHUP
							synctest.Wait() // until the signal is noted
							return guardtest.Fault{}
						})
					}
					var sent locks.Instant
					if where != "acquired" {
						time.AfterFunc(at, func() { sent = s.clock.Now(); s.signals <- syscall.SIGHUP })
					} else {
						sent = s.begun
					}
					if got := s.run(); got != (Result{Signal: syscall.SIGHUP}) {
						t.Errorf("result %+v", got)
					}
					if took := s.clock.Now().Sub(sent); took > time.Second {
						t.Errorf("ended %s after the signal", took)
					}
					if row := s.store.Run(testName, testDate); s.child.started || s.filter.mine || row != nil && row.RunID == testID || len(s.lines()) > 0 {
						t.Errorf("started %v, filter %v, row %+v, printed %+v", s.child.started, s.filter.mine, row, s.lines())
					}
				})
			})
		}
	})
	t.Run("while the child runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.child.runs = 2 * time.Minute
			for i, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGUSR1} {
				time.AfterFunc(time.Duration(i+1)*time.Second, func() { s.signals <- sig })
			}
			if got := s.run(); got != (Result{}) {
				t.Errorf("result %+v", got)
			}
			if !slices.Equal(s.child.signals, []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1}) {
				t.Errorf("passed on %v", s.child.signals)
			}
			if n := s.store.Count(guardtest.OnRenew); n < 11 {
				t.Errorf("%d renewals in two minutes: the lease must be kept after a SIGTERM that was only passed on", n)
			}
		})
	})
}

func TestWait(t *testing.T) {
	for name, filter := range map[string]bool{"with a filter": true, "Postgres alone": false} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				if !filter {
					s.runner.Filter = nil
				}
				s.spec.Date = guard.DateSpec{}
				s.other(t, "")
				s.spec.Wait = time.Hour
				if got := s.run(); got != (Result{}) || !s.child.started {
					t.Errorf("result %+v, started %v", got, s.child.started)
				}
				if asked := s.store.Count(guardtest.OnAcquire) - 1; asked < 2 || asked > 130 {
					t.Errorf("asked %d times in a minute", asked)
				}
				if len(s.lines()) != 0 {
					t.Errorf("printed %+v", s.lines())
				}
			})
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				if !filter {
					s.runner.Filter = nil
				}
				s.other(t, "")
				s.spec.Wait = 20 * time.Second
				if got := s.run(); got.Code != ExitHeld || s.took() < 20*time.Second || s.took() > 22*time.Second {
					t.Errorf("result %+v after %s", got, s.took())
				}
			})
		})
	}
}

// The date of a word follows the store's clock, and waiting does not move it.
func TestDateByStoreClock(t *testing.T) {
	for name, tt := range map[string]struct {
		skew   time.Duration // of the store
		wait   bool
		want   string
		warned bool
	}{
		"same clock":              {want: "2000-01-01"}, // a bubble's time starts there
		"store a day ahead":       {skew: 24 * time.Hour, want: "2000-01-02", warned: true},
		"store an hour behind":    {skew: -time.Hour, want: "1999-12-31", warned: true},
		"two seconds off":         {skew: 2 * time.Second, want: "2000-01-01"},
		"waiting past midnight":   {wait: true, want: "2000-01-01"},
		"waiting, store is ahead": {wait: true, skew: 24 * time.Hour, want: "2000-01-02", warned: true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.store.Skew = tt.skew
				s.spec.Date, _ = guard.ParseDate("today")
				if tt.wait {
					s.spec.Wait = 48 * time.Hour
					s.filter.pause = time.Hour
					s.filter.acquire = slices.Repeat([]error{&locks.HeldError{Tier: "quorum"}}, 25)
					s.filter.acquire = append(s.filter.acquire, nil)
				}
				if got := s.run(); got != (Result{}) {
					t.Errorf("result %+v: %+v", got, s.lines())
				}
				if !slices.Contains(s.child.vars, "LOCKRUN_DATE="+tt.want) {
					t.Errorf("variables %v, want date %s", s.child.vars, tt.want)
				}
				if warned := len(s.lines()) == 1; warned != tt.warned || len(s.lines()) > 1 {
					t.Errorf("printed %+v", s.lines())
				}
			})
		})
	}
}
