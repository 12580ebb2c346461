package guardtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// memoryHarness shows how little a harness is.
type memoryHarness struct{ *Memory }

func (h memoryHarness) Store(*testing.T) guard.Store                 { return h.Memory }
func (h memoryHarness) Expire(_ *testing.T, name string)             { h.Memory.Expire(name) }
func (h memoryHarness) Lease(_ *testing.T, name string) *Lease       { return h.Memory.Lease(name) }
func (h memoryHarness) Attempts(_ *testing.T, name string) []Attempt { return h.Memory.Attempts(name) }
func (h memoryHarness) Run(_ *testing.T, name, date string) *guard.Run {
	return h.Memory.Run(name, date)
}

func TestMemory(t *testing.T) {
	Exercise(t, func(*testing.T) Harness { return memoryHarness{NewMemory()} })
}

func TestMemorySkewed(t *testing.T) {
	Exercise(t, func(*testing.T) Harness {
		m := NewMemory()
		m.Skew = -36 * time.Hour
		return memoryHarness{m}
	})
}

func TestFault(t *testing.T) {
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		fault   Fault
		took    time.Duration
		applied bool
		want    error
	}{
		"none":        {Fault{}, 0, true, nil},
		"refused":     {Fault{Skip: true, Err: broken}, 0, false, broken},
		"reply lost":  {Fault{Err: broken}, 0, true, broken},
		"hung":        {Fault{Skip: true, Hang: true}, 5 * time.Second, false, context.DeadlineExceeded},
		"reply hung":  {Fault{Hang: true}, 5 * time.Second, true, context.DeadlineExceeded},
		"slow":        {Fault{Delay: 2 * time.Second}, 2 * time.Second, true, nil},
		"much slower": {Fault{Delay: time.Hour}, 5 * time.Second, false, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory()
				m.Script(OnAcquire, func(context.Context) Fault { return c.fault })
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				r := &guard.Request{Name: "eod", RunID: "1", TTL: time.Minute}
				start := time.Now()
				a, err := m.Acquire(ctx, r)
				if took := time.Since(start); took != c.took || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Fatalf("%+v, %v after %s", a, err, took)
				}
				if got := m.Lease("eod") != nil; got != c.applied || m.Count(OnAcquire) != 1 {
					t.Fatalf("applied: %v, calls: %d", got, m.Count(OnAcquire))
				}
				var u *locks.UnavailableError
				if errors.As(err, &u) != errors.Is(err, context.DeadlineExceeded) || u != nil && !u.Taken {
					t.Fatalf("error %+v", err)
				}
			})
		})
	}
}

func TestMemoryExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		r := &guard.Request{Name: "eod", RunID: "1", TTL: time.Minute}
		if _, err := m.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - 1)
		if err := m.Renew(t.Context(), r); err != nil {
			t.Fatalf("renewed in time: %v", err)
		}
		time.Sleep(time.Minute)
		if err := m.Renew(t.Context(), r); !errors.Is(err, locks.ErrLost) {
			t.Fatalf("renewed too late: %v", err)
		}
	})
}
