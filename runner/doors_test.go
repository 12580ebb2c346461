package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks"
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
		{name: "the guardian hangs", set: func(_ *testing.T, s *stage) {
			s.runner.NewChild = func() (Child, error) {
				time.Sleep(time.Hour)
				return s.child, nil
			}
		}, want: Result{Code: ExitUnavailable}, event: EventUnavailable, check: func(t *testing.T, s *stage) {
			if took, most := s.took(), s.runner.Timing.StartBudget(); took > most {
				t.Errorf("took %s, may take %s", took, most)
			}
			time.Sleep(time.Hour) // a bubble must not end before what hangs in it
		}},
		{name: "the guardian can't be forked", set: func(_ *testing.T, s *stage) {
			s.runner.NewChild = func() (Child, error) { return nil, syscall.EAGAIN }
		}, want: Result{Code: ExitSystem}, event: EventUnavailable},
		{name: "the guardian begins while the store is connected to", set: func(_ *testing.T, s *stage) {
			c := connecting{s.store, make(chan struct{})}
			s.runner.Store = c
			s.runner.NewChild = func() (Child, error) {
				<-c.begun
				return s.child, nil
			}
		}, starts: true},
		{name: "nothing is taken before the guardian has begun", set: func(_ *testing.T, s *stage) {
			s.runner.NewChild = func() (Child, error) {
				time.Sleep(time.Second)
				if n := s.store.Count(guardtest.OnAcquire); n != 0 {
					return nil, fmt.Errorf("%d acquires went out", n)
				}
				return s.child, nil
			}
		}, starts: true},
		{name: "date done", set: func(t *testing.T, s *stage) { s.other(t, guard.OutcomeSucceeded) },
			want: Result{}, event: EventDone, check: func(t *testing.T, s *stage) {
				select {
				case <-s.child.events: // closed
				default:
					t.Error("the guardian that was not needed was left behind")
				}
			}},
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

// connecting tells when it is connected to.
type connecting struct {
	*guardtest.Memory
	begun chan struct{}
}

func (c connecting) Connect(context.Context) { close(c.begun) }
