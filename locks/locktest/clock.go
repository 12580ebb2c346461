package locktest

import (
	"time"

	"lockrun/locks"
)

// Clock is the virtual clock of a testing/synctest bubble. Outside of one it
// runs in real time.
type Clock struct{ origin time.Time }

// NewClock returns a clock that starts at one hour.
func NewClock() Clock { return Clock{time.Now().Add(-time.Hour)} }

// Now reads the clock.
func (c Clock) Now() locks.Instant { return locks.Instant(time.Since(c.origin)) }

// NewAlarm returns an alarm on a timer of the bubble.
func (c Clock) NewAlarm() locks.Alarm {
	a := &alarm{clock: c, c: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case a.c <- struct{}{}:
		default:
		}
	})
	a.timer.Stop()
	return a
}

type alarm struct {
	clock Clock
	c     chan struct{}
	timer *time.Timer
}

func (a *alarm) C() <-chan struct{} { return a.c }

func (a *alarm) Set(at locks.Instant) {
	// A far instant must not overflow the duration.
	a.timer.Reset(min(at.Sub(a.clock.Now()), 1000*time.Hour))
}

func (a *alarm) Stop() { a.timer.Stop() }
