package locks

import "time"

// Instant is a reading of the clock that every deadline of lockrun is kept in:
// nanoseconds since boot, with suspended time counted (CLOCK_BOOTTIME on
// Linux). It means nothing on another host and is never stored.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from other to i.
func (i Instant) Sub(other Instant) time.Duration { return time.Duration(i - other) }

// Before tells whether i is earlier than other.
func (i Instant) Before(other Instant) bool { return i < other }

// Clock tells instants and wakes its user at one. The system's clock is
// [SystemClock]; tests under testing/synctest bring one made of virtual time.
type Clock interface {
	Now() Instant
	// NewAlarm returns an alarm that is not set.
	NewAlarm() Alarm
}

// Alarm fires once for each [Alarm.Set], at the instant or, after a suspend or
// a stop of the process, as soon as it runs again. A single goroutine owns it.
type Alarm interface {
	// C delivers one value when the alarm fires. A stale value of an earlier
	// setting is possible: whoever receives compares the clock again.
	C() <-chan struct{}
	// Set replaces the earlier setting.
	Set(at Instant)
	// Stop frees what the alarm holds; it can't be set again.
	Stop()
}
