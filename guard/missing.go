package guard

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Calendar is what a history needs to know of the calendar: the wall clock on
// which dates are dates.
type Calendar struct {
	Zone     *time.Location
	DayStart time.Duration // as in [DateSpec.At]
}

// Period is a span of dates, given as for --date; its ends are part of it. ""
// is an open end.
type Period struct{ Since, Until string }

// span is what a calendar text covers on the wall clock, the end excluded.
type span struct{ begin, end time.Time }

// spanOf reads a calendar text as [ParseDate] takes it.
func spanOf(text string) (span, unit, bool) {
	if isWeek(text) {
		y, w, _ := strings.Cut(text, "-W")
		year, _ := strconv.Atoi(y)
		number, _ := strconv.Atoi(w)
		begin := week.begin(time.Date(year, time.January, 4+7*(number-1), 0, 0, 0, 0, time.UTC))
		return span{begin, week.add(begin, 1)}, week, true
	}
	if t, ok := parseExact(minuteLayout, text); ok {
		return span{t, t.Add(time.Minute)}, 0, true
	}
	for layout, u := range map[string]unit{dayLayout: day, hourLayout: hour, monthLayout: month} {
		if t, ok := parseExact(layout, text); ok {
			return span{t, u.add(t, 1)}, u, true
		}
	}
	return span{}, 0, false
}

// bounds gives the wall clock between the ends of the period, zero for an open
// one.
func (p Period) bounds() (from, to time.Time) {
	if s, _, ok := spanOf(p.Since); ok {
		from = s.begin
	}
	if s, _, ok := spanOf(p.Until); ok {
		to = s.end
	}
	return from, to
}

// Backwards tells whether the period ends before it begins.
func (p Period) Backwards() bool {
	from, to := p.bounds()
	return p.Since != "" && p.Until != "" && !from.Before(to)
}

// Holds tells whether an attempt belongs to the period: its whole date does or,
// when it has none, the moment of its start.
func (p Period) Holds(a *Attempt, c Calendar) bool {
	from, to := p.bounds()
	s, _, ok := spanOf(a.Date)
	if !ok {
		wall := wallClock(a.StartedAt.In(c.Zone)).Add(-c.DayStart)
		s = span{wall, wall}
	}
	return !s.begin.Before(from) && (to.IsZero() || !s.end.After(to) && s.begin.Before(to))
}

// units are the words of --missing.
var units = map[string]unit{"day": day, "weekday": day, "hour": hour, "week": week, "month": month}

// maxMissing bounds what Missing looks at: 40 years of hours are a slip.
const maxMissing = 200_000

// Missing lists, in order, the dates of the unit (day, weekday, hour, week,
// month) in the period that have no success: the guard rows as they stand, or,
// where there is none, one with nothing but name and date. An open beginning is
// the first date of that unit that the rows know, an open end the last one that
// is complete by the store's clock. Dates that the zone's clock never shows are
// left out.
//
// It returns [ErrNotFound] when the beginning is open and the rows know no date
// of the unit. A period in which no date lies, because an end of it was given, is
// an error: "none is missing" would be taken for good news.
func Missing(rows *Rows, name, word string, p Period, c Calendar) ([]Run, error) {
	u, ok := units[word]
	if !ok {
		return nil, fmt.Errorf("%q is none of day, weekday, hour, week, month", word)
	}
	from, to := p.bounds()
	if p.Since == "" {
		if from, ok = firstKnown(rows, u); !ok {
			return nil, fmt.Errorf("no %s of it is known, so it is not known where to begin: %w", word, ErrNotFound)
		}
	}
	if p.Until == "" {
		now := wallClock(rows.At.In(c.Zone))
		if u != hour {
			now = now.Add(-c.DayStart)
		}
		to = u.begin(now)
	}
	if begin := u.begin(from); !begin.Before(to) {
		switch {
		case p.Since != "" && p.Until != "":
			return nil, fmt.Errorf("no %s lies from %s to %s, which is earlier", word, p.Since, p.Until)
		case p.Since != "":
			return nil, fmt.Errorf("no %s from %s on is over yet: give an earlier beginning, or an end", word, p.Since)
		case p.Until != "":
			return nil, fmt.Errorf("no %s until %s is known, the first is %s: give a beginning", word, p.Until, u.text(begin))
		}
	}
	runs := settled(rows)
	missing, looked := []Run{}, 0
	for at := u.begin(from); at.Before(to); at = u.add(at, 1) {
		if looked++; looked > maxMissing {
			return nil, fmt.Errorf("there are more than %d dates from %s on: give a later beginning", maxMissing, u.text(u.begin(from)))
		}
		if word == "weekday" && (at.Weekday() == time.Saturday || at.Weekday() == time.Sunday) || !shown(at, u, c.Zone) {
			continue
		}
		date := u.text(at)
		r, known := runs[date]
		if !known {
			r = Run{Name: name, Date: date}
		}
		if r.State != Succeeded {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// settled are the guard rows by date, with unknown ones called that.
func settled(rows *Rows) map[string]Run {
	live := liveRuns(rows)
	runs := make(map[string]Run, len(rows.Runs))
	for _, r := range rows.Runs {
		if r.State == Running && !live[r.RunID] {
			r.State = StateUnknown
		}
		runs[r.Date] = r
	}
	return runs
}

// firstKnown is the beginning of the first date of the unit that was ever tried.
func firstKnown(rows *Rows, u unit) (first time.Time, known bool) {
	look := func(date string) {
		s, of, ok := spanOf(date)
		if ok && of == u && (!known || s.begin.Before(first)) {
			first, known = s.begin, true
		}
	}
	for _, r := range rows.Runs {
		look(r.Date)
	}
	for _, a := range rows.Attempts {
		look(a.Date)
	}
	return first, known
}

// shown tells whether clocks in the zone ever show a moment of the unit: when
// they are put forward, an hour may be left out, and at the date line a day.
func shown(begin time.Time, u unit, zone *time.Location) bool {
	end := u.add(begin, 1)
	for _, wall := range []time.Time{begin, end.Add(-1)} {
		y, m, d := wall.Date()
		real := time.Date(y, m, d, wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
		if got := wallClock(real); !got.Before(begin) && got.Before(end) {
			return true
		}
	}
	return false
}
