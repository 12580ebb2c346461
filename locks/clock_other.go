//go:build !linux

package locks

import "time"

// SystemClock counts suspended time as well as this system lets it: it takes
// the larger of what the monotonic and the wall clock say has passed. A wall
// clock that is set forward makes it run ahead, which ends a run too early but
// never too late.
type SystemClock struct{}

var clockOrigin = time.Now()

// Now reads the clock.
func (SystemClock) Now() Instant {
	now := time.Now()
	monotonic := now.Sub(clockOrigin)
	wall := now.Round(0).Sub(clockOrigin.Round(0))
	return Instant(max(monotonic, wall))
}

// NewAlarm returns an alarm that polls.
func (c SystemClock) NewAlarm() Alarm { return newPollAlarm(c) }

// pollEvery bounds how late an alarm notices a suspend.
const pollEvery = 50 * time.Millisecond
