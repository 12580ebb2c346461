package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// A call that takes too long is cut at its bound, and stays cut: the renewals that
// follow have a context of their own. One that comes back in time lends its
// context to the next, and what still looks at it then learns of the end.
func TestHoldContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := locktest.NewClock()
		timing := mustTiming(t, 30*time.Second, 5*time.Second)
		const late = 4 // the renewal that hangs
		var given []context.Context
		check := func(n int, want error) {
			t.Helper()
			for i, ctx := range given[:n] {
				if !errors.Is(ctx.Err(), want) {
					t.Errorf("after %d contexts, no. %d says %v, want %v", len(given), i+1, ctx.Err(), want)
				}
			}
		}
		h := locks.NewHold(clock, timing, locks.Keep{
			Name: "lease", Sent: clock.Now(),
			Renew: func(ctx context.Context) error {
				own, cancel := context.WithTimeout(ctx, time.Hour) // as of a driver that forgets it
				t.Cleanup(cancel)
				given = append(given, ctx, own)
				if at, has := ctx.Deadline(); !has || time.Until(at) != timing.Call {
					t.Errorf("deadline %v in %s, want it in %s", has, time.Until(at), timing.Call)
				}
				switch n := len(given) / 2; {
				case n < late:
					check(2*n, nil)
				case n == late:
					began := clock.Now()
					<-own.Done()
					if took := clock.Now().Sub(began); took != timing.Call {
						t.Errorf("cut after %s, want %s", took, timing.Call)
					}
					check(2*n, context.DeadlineExceeded)
					return own.Err()
				default:
					check(2*late, context.DeadlineExceeded)
				}
				time.Sleep(timing.Call - 1)
				return errors.Join(ctx.Err(), own.Err())
			},
		})
		for n := 1; n <= 2*late; n++ {
			u := <-h.Updates()
			if (u.Kind == locks.RenewFailed) != (n == late) || n == late && !errors.Is(u.Err, context.DeadlineExceeded) {
				t.Fatalf("news of renewal no. %d: %+v", n, u)
			}
		}
		h.Stop()
		check(2*late, context.DeadlineExceeded)
		given = given[2*late:]
		check(len(given), context.Canceled)
	})
}

// A renewal in good time leaves nothing behind, however long the run.
func TestHoldAllocates(t *testing.T) {
	if n := testing.AllocsPerRun(1000, renewals(t)); n != 0 {
		t.Errorf("the hold allocates %v times for a renewal", n)
	}
}
