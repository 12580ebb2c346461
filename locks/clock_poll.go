package locks

import (
	"sync"
	"time"
)

// pollAlarm serves where the kernel has no timer that counts suspended time: it
// looks at the clock every pollEvery.
type pollAlarm struct {
	clock Clock
	c     chan struct{}
	set   chan Instant
	stop  chan struct{}
	once  sync.Once
}

func newPollAlarm(clock Clock) *pollAlarm {
	a := &pollAlarm{clock: clock, c: make(chan struct{}, 1), set: make(chan Instant), stop: make(chan struct{})}
	go a.run()
	return a
}

func (a *pollAlarm) run() {
	var at Instant
	var armed bool
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	for {
		if armed {
			left := a.clock.Now()
			if left >= at {
				armed = false
				select {
				case a.c <- struct{}{}:
				default:
				}
			} else {
				timer.Reset(min(at.Sub(left), pollEvery))
			}
		}
		select {
		case at = <-a.set:
			armed = true
		case <-timer.C:
		case <-a.stop:
			return
		}
	}
}

func (a *pollAlarm) C() <-chan struct{} { return a.c }

func (a *pollAlarm) Set(at Instant) {
	select {
	case a.set <- at:
	case <-a.stop:
	}
}

func (a *pollAlarm) Stop() { a.once.Do(func() { close(a.stop) }) }
