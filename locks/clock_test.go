package locks_test

import (
	"testing"
	"time"

	"lockrun/locks"
)

func TestSystemClock(t *testing.T) {
	clock := locks.SystemClock{}
	alarm := clock.NewAlarm()
	defer alarm.Stop()
	for _, in := range []time.Duration{-time.Hour, 0, time.Millisecond, 30 * time.Millisecond} {
		at := clock.Now().Add(in)
		alarm.Set(at)
		<-alarm.C()
		if now := clock.Now(); now < at {
			t.Errorf("alarm for %s came %s early", in, at.Sub(now))
		}
	}
	// A later setting replaces an earlier one.
	alarm.Set(clock.Now().Add(time.Hour))
	alarm.Set(clock.Now().Add(time.Millisecond))
	<-alarm.C()
}
