package runner

import (
	"fmt"
	"time"
)

// MaxSkew is how far the host's clock may be from the store's without a word.
const MaxSkew = 5 * time.Second

// dateFromHost suggests the date by the host's clock. The store checks it by
// its own.
func (x *run) dateFromHost() error {
	return x.dateAt(x.spec.StartedWall)
}

// dateAt takes the date that --date means at the instant at which lockrun was
// started. Waiting does not change it.
func (x *run) dateAt(at time.Time) error {
	if !x.spec.Date.IsWord() {
		x.req.Date = x.spec.Date.Fixed()
		return nil
	}
	d, err := x.spec.Date.At(at, x.spec.Zone, x.spec.DayStart)
	if err != nil {
		return &DateError{err}
	}
	x.req.Date, x.req.From, x.req.Before = d.Date, d.From, d.Before
	return nil
}

// DateError says that the word of --date has no date at that instant.
type DateError struct{ err error }

func (e *DateError) Error() string { return e.err.Error() }
func (e *DateError) Unwrap() error { return e.err }

// warnOfClock tells once that the host's clock is off: at was read between
// asked and answered.
func (x *run) warnOfClock(at, asked, answered time.Time) {
	if at.IsZero() || x.warnedOfClock {
		return
	}
	var off time.Duration
	switch {
	case at.Before(asked.Add(-MaxSkew)):
		off = asked.Sub(at)
	case at.After(answered.Add(MaxSkew)):
		off = -at.Sub(answered)
	default:
		return
	}
	x.warnedOfClock = true
	direction := "ahead of"
	if off < 0 {
		direction, off = "behind", -off
	}
	x.report(Event{Kind: EventAcquired, Level: Warn, Err: fmt.Errorf(
		"this host's clock is %s %s the database's; dates follow the database", off.Round(time.Second), direction)})
}
