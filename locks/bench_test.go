package locks_test

import (
	"context"
	"testing"
	"time"

	"lockrun/locks"
)

// BenchmarkHold is what the hold itself costs a renewal: the loop, the judge, the
// news of it. The tier that is renewed does nothing.
func BenchmarkHold(b *testing.B) {
	timing, err := locks.NewTiming(time.Hour, -1)
	if err != nil {
		b.Fatal(err)
	}
	timing.RenewEvery = 1 // as soon as the one before is done
	clock := locks.SystemClock{}
	renewed := make(chan struct{})
	h := locks.NewHold(clock, timing, locks.Keep{Name: "lease", Sent: clock.Now(), Renew: func(ctx context.Context) error {
		select {
		case renewed <- struct{}{}:
		case <-ctx.Done():
		}
		return nil
	}})
	b.ReportAllocs()
	for b.Loop() {
		select {
		case <-renewed:
		case u := <-h.Updates():
			if u.Kind != locks.Extended {
				b.Fatalf("%+v", u)
			}
			<-renewed
		}
	}
	go func() { // Stop waits for the call that may be under way
		for range renewed {
		}
	}()
	h.Stop()
	close(renewed)
}
