package locks_test

import (
	"context"
	"testing"
	"time"

	"lockrun/locks"
)

// renewals starts a hold that renews a tier which does nothing, as soon as the
// renewal before is done. Each call of next is one renewal and the news of it.
func renewals(tb testing.TB) (next func()) {
	tb.Helper()
	timing := mustTiming(tb, time.Hour, -1)
	timing.RenewEvery = 1
	clock := locks.SystemClock{}
	renew := make(chan struct{})
	h := locks.NewHold(clock, timing, locks.Keep{Name: "lease", Sent: clock.Now(), Renew: func(ctx context.Context) error {
		select {
		case <-renew:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	tb.Cleanup(func() {
		close(renew)
		h.Stop()
	})
	return func() {
		renew <- struct{}{}
		if u := <-h.Updates(); u.Kind != locks.Extended {
			tb.Fatalf("%+v", u)
		}
	}
}

// BenchmarkHold is what the hold itself costs a renewal: the loop, the context, the
// judge, the news of it.
func BenchmarkHold(b *testing.B) {
	next := renewals(b)
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}
