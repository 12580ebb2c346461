package runner

import (
	"context"
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
)

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

// A quorum that stays away while a run waits for the lease is told once.
func TestWaitWarnsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.runner.Preferred, s.filter.acquire = true, []error{errAway}
		s.other(t, "")
		s.spec.Date, s.spec.Wait = guard.DateSpec{}, time.Hour
		if got := s.run(); got != (Result{}) {
			t.Errorf("result %+v", got)
		}
		if lines := s.lines(); len(lines) != 1 || lines[0].Kind != EventQuorumLost || s.filter.waits < 2 {
			t.Errorf("printed %+v in %d rounds", lines, s.filter.waits)
		}
	})
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
