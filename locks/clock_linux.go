package locks

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SystemClock is CLOCK_BOOTTIME: unlike Go's own timers it goes on while the
// host is suspended.
type SystemClock struct{}

// Now reads the clock.
func (SystemClock) Now() Instant {
	var ts unix.Timespec
	// It can't fail for a clock that every supported kernel has.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return Instant(ts.Nano())
}

// NewAlarm returns an alarm on a timer of the kernel, which also fires at once
// after a suspend. Without one (no descriptor left) it polls.
func (c SystemClock) NewAlarm() Alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newPollAlarm(c)
	}
	a := &timerfdAlarm{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), c: make(chan struct{}, 1)}
	go a.read()
	return a
}

type timerfdAlarm struct {
	fd   int
	file *os.File
	c    chan struct{}
}

func (a *timerfdAlarm) read() {
	var count [8]byte
	for {
		if _, err := a.file.Read(count[:]); err != nil {
			return
		}
		select {
		case a.c <- struct{}{}:
		default:
		}
	}
}

func (a *timerfdAlarm) C() <-chan struct{} { return a.c }

func (a *timerfdAlarm) Set(at Instant) {
	// Zero would switch the timer off; an instant that has passed fires at once.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 1)))}
	_ = unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

func (a *timerfdAlarm) Stop() { _ = a.file.Close() }

// pollEvery bounds how late a polling alarm notices a suspend.
const pollEvery = 200 * time.Millisecond
