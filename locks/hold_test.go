package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

var errRefused = errors.New("connection refused")

// a script says what one renewal does; n counts from 1.
type script func(ctx context.Context, n int) error

func ok(context.Context, int) error      { return nil }
func refused(context.Context, int) error { return errRefused }
func hung(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

type news struct {
	at time.Duration // since the acquire was sent
	locks.Update
}

// play holds tiers for a while in virtual time and returns what the hold told.
func play(t *testing.T, timing locks.Timing, play time.Duration, tiers ...tier) (all []news, renewals []int) {
	t.Helper()
	clock := locktest.NewClock()
	start := clock.Now()
	renewals = make([]int, len(tiers))
	var keeps []locks.Keep
	for i, tr := range tiers {
		keeps = append(keeps, locks.Keep{
			Name: tr.name, Sent: start, Optional: tr.optional,
			Renew: func(ctx context.Context) error {
				renewals[i]++
				return tr.do(ctx, renewals[i])
			},
		})
	}
	h := locks.NewHold(clock, timing, keeps...)
	end := time.NewTimer(play)
	for over := false; !over; {
		select {
		case u := <-h.Updates():
			all = append(all, news{clock.Now().Sub(start), u})
		case <-end.C:
			over = true
		}
	}
	h.Stop()
	return all, renewals
}

type tier struct {
	name     string
	optional bool
	do       script
}

func only(kind locks.UpdateKind, all []news) (found []news) {
	for _, n := range all {
		if n.Kind == kind {
			found = append(found, n)
		}
	}
	return found
}

func mustTiming(t testing.TB, ttl, killAfter time.Duration) locks.Timing {
	t.Helper()
	tm, err := locks.NewTiming(ttl, killAfter)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func TestHold(t *testing.T) {
	const ttl = 30 * time.Second
	const killAfter = 5 * time.Second
	// Of a grant sent at 0: window end 29.69 s, K 27.19 s, T 22.19 s.
	const k = ttl - 310*time.Millisecond - 2500*time.Millisecond
	lease := func(do script) tier { return tier{name: "lease", do: do} }
	tests := []struct {
		name   string
		tiers  []tier
		play   time.Duration
		lostAt time.Duration // 0 = never
		killAt time.Duration
		err    string // in the loss's text
		check  func(t *testing.T, all []news, renewals []int)
	}{
		{name: "good", tiers: []tier{lease(ok)}, play: time.Hour - time.Second, check: func(t *testing.T, all []news, renewals []int) {
			if n := len(only(locks.Extended, all)); n != 359 || renewals[0] != n {
				t.Errorf("%d extensions of %d renewals in an hour, want one every 10 s", n, renewals[0])
			}
			first := all[0]
			if first.at != 10*time.Second || first.KillAt.Sub(locks.Instant(time.Hour)) != 10*time.Second+k {
				t.Errorf("first extension at %s to %s", first.at, first.KillAt.Sub(locks.Instant(time.Hour)))
			}
		}},
		{name: "refused for ever", tiers: []tier{lease(refused)}, play: time.Minute, lostAt: k - killAfter, killAt: k, err: "connection refused",
			check: func(t *testing.T, _ []news, renewals []int) {
				if renewals[0] < 5 {
					t.Errorf("only %d tries", renewals[0])
				}
			}},
		{name: "hung for ever", tiers: []tier{lease(hung)}, play: time.Minute, lostAt: k - killAfter, killAt: k, err: "deadline exceeded"},
		{name: "one blip", tiers: []tier{lease(func(_ context.Context, n int) error {
			if n == 3 {
				return errRefused
			}
			return nil
		})}, play: 10 * time.Minute, check: func(t *testing.T, all []news, _ []int) {
			if n := len(only(locks.RenewFailed, all)); n != 1 {
				t.Errorf("%d failures told, want 1", n)
			}
		}},
		{name: "every second one fails", tiers: []tier{lease(func(_ context.Context, n int) error {
			if n%2 == 0 {
				return errRefused
			}
			return nil
		})}, play: 10 * time.Minute},
		{name: "reply lost once", tiers: []tier{lease(func(ctx context.Context, n int) error {
			if n == 1 {
				return hung(ctx, n) // the row was renewed, nobody heard of it
			}
			return nil
		})}, play: 10 * time.Minute},
		{name: "row taken over", tiers: []tier{lease(func(_ context.Context, n int) error {
			if n == 2 {
				return fmt.Errorf("no row: %w", locks.ErrLost)
			}
			return nil
		})}, play: time.Minute, lostAt: 20 * time.Second, killAt: 25 * time.Second, err: "not ours any more"},
		{name: "row taken over close to the deadline", tiers: []tier{lease(func(ctx context.Context, n int) error {
			if n == 1 {
				select {
				case <-time.After(5*time.Second - 1):
				case <-ctx.Done():
				}
				return errRefused
			}
			return locks.ErrLost
		})}, play: time.Minute, check: func(t *testing.T, all []news, _ []int) {
			lost := only(locks.Lost, all)
			if len(lost) != 1 || lost[0].KillAt.Sub(locks.Instant(time.Hour)) > min(lost[0].at+killAfter, k) {
				t.Errorf("%+v", lost)
			}
		}, lostAt: -1},
		{name: "slow grant that is expired on arrival", tiers: []tier{lease(func(context.Context, int) error {
			time.Sleep(25 * time.Second) // a call that ignores its context
			return nil
		})}, play: 2 * time.Minute, lostAt: k - killAfter, killAt: k, err: "stood still", check: func(t *testing.T, all []news, renewals []int) {
			if n := len(only(locks.Extended, all)); n != 0 || renewals[0] != 1 {
				t.Errorf("%d extensions, %d renewals after the window had closed", n, renewals[0])
			}
		}},
		{name: "renewals go on after SIGTERM", tiers: []tier{lease(func(_ context.Context, n int) error {
			if n == 2 {
				return errRefused
			}
			return nil
		}), {name: "quorum", do: refused}}, play: time.Minute, lostAt: k - killAfter, killAt: k, err: "quorum", check: func(t *testing.T, all []news, renewals []int) {
			if renewals[0] < 5 {
				t.Errorf("the lease was renewed %d times only in a minute", renewals[0])
			}
			for _, n := range only(locks.Extended, all) {
				if n.at >= k-killAfter {
					t.Errorf("the deadline was extended at %s, after SIGTERM", n.at)
				}
			}
		}},
		{name: "a hung quorum does not hold up the lease", tiers: []tier{lease(ok), {name: "quorum", optional: true, do: hung}}, play: 5 * time.Minute,
			check: func(t *testing.T, all []news, renewals []int) {
				if dropped := only(locks.Dropped, all); len(dropped) != 1 || dropped[0].at != ttl-310*time.Millisecond {
					t.Errorf("dropped: %+v", dropped)
				}
				if renewals[0] < 29 {
					t.Errorf("%d renewals of the lease in five minutes", renewals[0])
				}
			}},
		{name: "an optional quorum comes back inside its window", tiers: []tier{lease(ok), {name: "quorum", optional: true, do: func(_ context.Context, n int) error {
			if n < 3 {
				return errRefused
			}
			return nil
		}}}, play: 5 * time.Minute, check: func(t *testing.T, all []news, _ []int) {
			if n := len(only(locks.Dropped, all)); n != 0 {
				t.Error("dropped although it was renewed in time")
			}
		}},
		{name: "another's value in an optional quorum is final", tiers: []tier{lease(ok), {name: "quorum", optional: true, do: func(context.Context, int) error {
			return locks.ErrLost
		}}}, play: time.Minute, lostAt: 10 * time.Second, killAt: 15 * time.Second, err: "quorum"},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, renewals := play(t, mustTiming(t, ttl, killAfter), tt.play, tt.tiers...)
				lost := only(locks.Lost, all)
				switch {
				case tt.lostAt == 0 && len(lost) != 0:
					t.Errorf("lost at %s: %v", lost[0].at, lost[0].Err)
				case tt.lostAt > 0 && (len(lost) != 1 || lost[0].at != tt.lostAt || lost[0].KillAt.Sub(locks.Instant(time.Hour)) != tt.killAt):
					t.Errorf("lost %+v, want it once at %s, SIGKILL at %s", lost, tt.lostAt, tt.killAt)
				case tt.lostAt > 0 && !strings.Contains(lost[0].Err.Error(), tt.err):
					t.Errorf("reason %q lacks %q", lost[0].Err, tt.err)
				}
				if tt.check != nil {
					tt.check(t, all, renewals)
				}
			})
		})
	}
}

// jumpClock is a clock that can be moved forward, as a suspended host's is.
type jumpClock struct {
	locktest.Clock
	ahead *atomic.Int64
}

func (c jumpClock) Now() locks.Instant { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// A host that was suspended judges by the clock that went on: the run is lost
// when it wakes, and the renewal that was due does not rescue it.
func TestHoldLongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		clock := jumpClock{locktest.NewClock(), &ahead}
		renewals := 0
		h := locks.NewHold(clock, mustTiming(t, 30*time.Second, 5*time.Second), locks.Keep{
			Name: "lease", Sent: clock.Now(),
			Renew: func(context.Context) error { renewals++; return nil },
		})
		if u := <-h.Updates(); u.Kind != locks.Extended {
			t.Fatalf("first news: %+v", u)
		}
		synctest.Wait()
		ahead.Store(int64(45 * time.Second)) // suspended, and awake again
		u := <-h.Updates()
		if u.Kind != locks.Lost || u.KillAt > clock.Now() {
			t.Fatalf("after the pause: %+v at %v", u, clock.Now())
		}
		h.Stop()
		if renewals != 1 {
			t.Fatalf("%d renewals: one was sent although its window had closed", renewals)
		}
	})
}

// Stop lets a renewal in flight come home, and cancels one that hangs.
func TestHoldStop(t *testing.T) {
	for name, tt := range map[string]struct {
		takes     time.Duration
		cancelled bool
	}{"comes home": {takes: 50 * time.Millisecond}, "hangs": {takes: time.Hour, cancelled: true}} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := locktest.NewClock()
				begun, cancelled := make(chan struct{}), false
				h := locks.NewHold(clock, mustTiming(t, 30*time.Second, 5*time.Second), locks.Keep{
					Name: "lease", Sent: clock.Now(),
					Renew: func(ctx context.Context) error {
						close(begun)
						select {
						case <-time.After(tt.takes):
						case <-ctx.Done():
							cancelled = true
						}
						return ctx.Err()
					},
				})
				<-begun
				at := clock.Now()
				h.Stop()
				if took := clock.Now().Sub(at); took > 200*time.Millisecond || cancelled != tt.cancelled {
					t.Fatalf("stop took %s, cancelled %v", took, cancelled)
				}
				if _, open := <-h.Updates(); open {
					t.Fatal("updates are still open")
				}
			})
		})
	}
}
