package guard

import (
	"fmt"
	"time"
)

// Resolved is the date that stands for a word.
type Resolved struct {
	Date string
	// From and Before bound a span of instants, Before excluded, in which the
	// word means Date. The instant that was asked for is in it. Outside, the word
	// may mean Date as well: the span ends where clocks are changed. Both are
	// zero when the date does not depend on the clock.
	From, Before time.Time
}

// AmbiguousError says that a word means an hour of the wall clock that is
// there twice, wholly or in part, because clocks were put back.
type AmbiguousError struct {
	Word string // as written: "this-hour"
	Date string // the hour: "2026-10-25T01"
	Zone string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("resolve date %q: the hour %s comes twice in time zone %q, as clocks are put back; use --tz UTC",
		e.Word, e.Date, e.Zone)
}

// At gives the date that d means at t, by the wall clock of loc. Times of day
// before dayStarts (0 up to, not including, 24 h) belong to the day before, and
// so to its week and month; hours are not shifted. A calendar text means itself
// at any time.
//
// Errors: [*AmbiguousError] for an hour that is there twice; others when the
// clock is out of all bounds and for "scheduled", which no clock can tell.
func (d DateSpec) At(t time.Time, loc *time.Location, dayStarts time.Duration) (Resolved, error) {
	if d.IsScheduled() {
		return Resolved{}, fmt.Errorf("resolve date %q: it is given by the scheduler, not by a clock", d.text)
	}
	if !d.IsWord() {
		return Resolved{Date: d.text}, nil
	}
	// One year short of the calendar's ends, so that last-month and the bounds of
	// the span keep years of four digits, and From can't be the zero time.
	if year := t.UTC().Year(); year < 2 || year > 9998 {
		return Resolved{}, fmt.Errorf("resolve date %q: the clock says year %d", d.text, year)
	}

	// An earlier day, week or month is counted on the calendar, an earlier hour
	// on the clock: the calendar's hour before may be one that was skipped.
	back, ago := d.back, time.Duration(0)
	if d.unit == hour {
		back, ago = 0, time.Duration(d.back)*time.Hour
		dayStarts = 0
	}
	at := t.Add(-ago).In(loc)
	begin := d.unit.begin(wallClock(at).Add(-dayStarts))
	end := d.unit.add(begin, 1)
	date := d.unit.text(d.unit.add(begin, -back))
	if d.unit == hour && repeats(at, begin, end) {
		return Resolved{}, &AmbiguousError{Word: d.text, Date: date, Zone: loc.String()}
	}

	// Back from the wall clock to instants, which is right only as long as the
	// offset is that of at.
	shift := dayStarts - offset(at)
	from, before := begin.Add(shift), end.Add(shift)
	for change := range changes(from.In(loc), before) {
		if change.After(at) {
			before = change
			break
		}
		from = change
	}
	return Resolved{Date: date, From: from.Add(ago).UTC(), Before: before.Add(ago).UTC()}, nil
}

// repeats tells whether any moment of the span of wall clock [begin, end) that
// holds at comes twice. Then neither the first nor the second pass is safe: both
// write the same text.
func repeats(at, begin, end time.Time) bool {
	// Offsets lie between -16 and +16 hours, so a change further away than twice
	// that and the hour itself can't touch the span.
	const reach = 36 * time.Hour
	for change := range changes(at.Add(-reach), at.Add(reach)) {
		// Clocks put back: they show [again, until) before and after the change.
		again := wallClock(change)
		until := change.UTC().Add(offset(change.Add(-1)))
		if again.Before(until) && again.Before(end) && begin.Before(until) {
			return true
		}
	}
	return false
}

// unit is the part of the calendar that a word names. Its methods work on wall
// clock readings, see [wallClock].
type unit int

const (
	hour unit = iota + 1
	day
	week
	month
)

// begin is the first moment of the unit that holds wall.
func (u unit) begin(wall time.Time) time.Time {
	y, m, d := wall.Date()
	h := 0
	switch u {
	case hour:
		h = wall.Hour()
	case week: // ISO weeks begin on Monday
		d -= (int(wall.Weekday()) + 6) % 7
	case month:
		d = 1
	}
	return time.Date(y, m, d, h, 0, 0, 0, time.UTC)
}

// add goes n units on from the first moment of one.
func (u unit) add(begin time.Time, n int) time.Time {
	switch u {
	case hour:
		return begin.Add(time.Duration(n) * time.Hour)
	case week:
		return begin.AddDate(0, 0, 7*n)
	case month:
		return begin.AddDate(0, n, 0)
	}
	return begin.AddDate(0, 0, n)
}

// text is the date that names the unit that begins then.
func (u unit) text(begin time.Time) string {
	switch u {
	case hour:
		return begin.Format(hourLayout)
	case week:
		return weekText(begin)
	case month:
		return begin.Format(monthLayout)
	}
	return begin.Format(dayLayout)
}
