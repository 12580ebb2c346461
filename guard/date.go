package guard

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DateSpec is what --date says: a calendar text, a word that means a date only
// at an instant, or "scheduled". The zero value is no date at all.
type DateSpec struct {
	text string
	unit unit // of a word, otherwise 0
	back int  // of a word: how many units before the present one
}

const scheduled = "scheduled"

// words are the texts of --date that need a clock.
var words = map[string]DateSpec{
	"today":      {"today", day, 0},
	"yesterday":  {"yesterday", day, 1},
	"this-hour":  {"this-hour", hour, 0},
	"last-hour":  {"last-hour", hour, 1},
	"this-week":  {"this-week", week, 0},
	"last-week":  {"last-week", week, 1},
	"this-month": {"this-month", month, 0},
	"last-month": {"last-month", month, 1},
}

// Layouts of the calendar texts; a week has none in package time.
const (
	dayLayout    = "2006-01-02"
	hourLayout   = "2006-01-02T15"
	minuteLayout = "2006-01-02T15:04"
	monthLayout  = "2006-01"
)

// ParseDate reads the value of --date. Only the exact forms are taken, and only
// dates that the calendar has, in the years 0001 to 9999: what was written is
// what is stored, so that two spellings can't be two runs of one day.
func ParseDate(text string) (DateSpec, error) {
	if d, ok := words[text]; ok {
		return d, nil
	}
	if text == scheduled || isWeek(text) {
		return DateSpec{text: text}, nil
	}
	for _, layout := range []string{dayLayout, hourLayout, minuteLayout, monthLayout} {
		if t, ok := parseExact(layout, text); ok && t.Year() > 0 {
			return DateSpec{text: text}, nil
		}
	}
	return DateSpec{}, fmt.Errorf("read date %q: write a date of the calendar as YYYY-MM-DD, YYYY-MM-DDTHH, "+
		"YYYY-MM-DDTHH:MM, YYYY-Www or YYYY-MM, or today, yesterday, this-hour, last-hour, "+
		"this-week, last-week, this-month, last-month or scheduled", text)
}

// IsWord tells whether the date depends on the clock: then At gives it.
func (d DateSpec) IsWord() bool { return d.unit != 0 }

// IsScheduled tells whether the date is the one that the scheduler meant: then
// [ScheduledInstant] and [ResolveScheduled] give it.
func (d DateSpec) IsScheduled() bool { return d.text == scheduled }

// Fixed is the calendar text, exactly as it was written; "" for a word and for
// "scheduled".
func (d DateSpec) Fixed() string {
	if d.IsWord() || d.IsScheduled() {
		return ""
	}
	return d.text
}

// ParseDayStart reads the value of --day-starts: two digits, a colon, two
// digits, from 00:00 to 23:59. The result is the time since midnight on the
// wall clock.
func ParseDayStart(text string) (time.Duration, error) {
	t, ok := parseExact("15:04", text)
	if !ok {
		return 0, fmt.Errorf("read day start %q: write HH:MM, from 00:00 to 23:59", text)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// parseExact takes a text only if it is what the layout makes of it: Parse alone
// also takes the hour 9 for 09.
func parseExact(layout, text string) (time.Time, bool) {
	t, err := time.Parse(layout, text)
	return t, err == nil && t.Format(layout) == text
}

// isWeek tells whether the text is a week of the ISO calendar. The days of a
// week W53 that its year does not have are in W01 of the next, and so their own
// text is another one; the same goes for W00.
func isWeek(text string) bool {
	y, w, _ := strings.Cut(text, "-W")
	year, yearErr := strconv.Atoi(y)
	number, weekErr := strconv.Atoi(w)
	if yearErr != nil || weekErr != nil || year < 1 || year > 9999 {
		return false
	}
	// 4 January is always in W01.
	return weekText(time.Date(year, time.January, 4+7*(number-1), 0, 0, 0, 0, time.UTC)) == text
}

func weekText(t time.Time) string {
	year, number := t.ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, number)
}
