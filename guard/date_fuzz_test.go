package guard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// FuzzParseDate holds ParseDate against a calendar that does its own sums.
func FuzzParseDate(f *testing.F) {
	for text := range words {
		f.Add(text)
	}
	for _, text := range []string{
		"scheduled", "2026-07-01", "2024-02-29", "2026-02-30", "2026-07-01T23", "2026-07-01T23:59", "2026-07",
		"2026-W53", "2025-W53", "0000-01-01", "2026-07-01T3", "2026-07-01T24", "２０２６-07-01", "", "\x1b[31m",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDate(text)
		isWord := slices.Contains(wordTexts(), text)
		if want := isWord || text == "scheduled" || inCalendar(text); want != (err == nil) {
			t.Fatalf("ParseDate(%q) = %+v, %v, want it taken: %v", text, d, err, want)
		}
		if err != nil {
			checkMessage(t, err, text)
			return
		}
		if d.IsWord() != isWord || d.IsScheduled() != (text == "scheduled") {
			t.Fatalf("ParseDate(%q) = %+v", text, d)
		}
		if isWord || d.IsScheduled() {
			if d.Fixed() != "" {
				t.Fatalf("Fixed of %q = %q", text, d.Fixed())
			}
			return
		}
		if d.Fixed() != text {
			t.Fatalf("ParseDate(%q) changed it to %q", text, d.Fixed())
		}
		if again := roundTrip(t, text); again != text {
			t.Fatalf("%q comes back from package time as %q", text, again)
		}
	})
}

var calendarTexts = regexp.MustCompile(
	`^([0-9]{4})-(?:W([0-9]{2})|([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2})(?::([0-9]{2}))?)?)?)$`)

// inCalendar tells whether a text is a date, without package time.
func inCalendar(text string) bool {
	m := calendarTexts.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	part := func(i, absent int) int {
		if m[i] == "" {
			return absent
		}
		n, err := strconv.Atoi(m[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	y, w, mon, d, h, minute := part(1, 0), part(2, 1), part(3, 1), part(4, 1), part(5, 0), part(6, 0)
	days := [...]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	if y%4 == 0 && y%100 != 0 || y%400 == 0 {
		days[2] = 29
	}
	// A year has 53 weeks when it ends on a Thursday, or the year before ended on
	// a Wednesday.
	yearEnd := func(y int) int { return (y + y/4 - y/100 + y/400) % 7 }
	weeks := 52
	if yearEnd(y) == 4 || yearEnd(y-1) == 3 {
		weeks = 53
	}
	return y >= 1 && w >= 1 && w <= weeks && mon >= 1 && mon <= 12 && d >= 1 && d <= days[mon] && h <= 23 && minute <= 59
}

// roundTrip turns a date into the first instant of it, and that into a text.
func roundTrip(t *testing.T, text string) string {
	t.Helper()
	var year, number int
	if n, _ := fmt.Sscanf(text, "%d-W%d", &year, &number); n == 2 {
		// The Monday of W01 is at most three days before or after 1 January.
		for monday := time.Date(year-1, 12, 29, 0, 0, 0, 0, time.UTC); ; monday = monday.AddDate(0, 0, 1) {
			if monday.Weekday() == time.Monday {
				y, w := monday.AddDate(0, 0, 7*(number-1)).ISOWeek()
				return fmt.Sprintf("%04d-W%02d", y, w)
			}
		}
	}
	layout := "2006-01-02T15:04"[:len(text)]
	first, err := time.ParseInLocation(layout, text, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return first.Format(layout)
}

// FuzzDateAt checks any word at any instant, in any of the test zones.
func FuzzDateAt(f *testing.F) {
	zones := testZones(f)
	names, texts := slices.Sorted(maps.Keys(zones)), wordTexts()
	for i := range texts {
		f.Add(int64(1792890000), int64(1), uint(i), uint(i), uint(360), 0.5)
		f.Add(int64(2240524800), int64(0), uint(i), uint(len(names)-1), uint(0), 0.1) // 31 December 2040
	}
	f.Fuzz(func(t *testing.T, sec, nsec int64, wordIndex, zoneIndex, minutes uint, part float64) {
		if !(part >= 0 && part < 1) {
			part = 0.5
		}
		checkAt(t, probe{
			word: texts[wordIndex%uint(len(texts))],
			at:   time.Unix(sec, nsec), loc: zones[names[zoneIndex%uint(len(names))]],
			dayStarts: time.Duration(minutes%(24*60)) * time.Minute, part: part,
		})
	})
}

// probe is one question to At, and a part between 0 and 1 of the span of its
// answer, where it is asked again.
type probe struct {
	word      string
	at        time.Time
	loc       *time.Location
	dayStarts time.Duration
	part      float64
}

// checkAt holds At against sums of its own: the date, whether the hour comes
// twice, and that the span is right inside and ends where it must.
func checkAt(t *testing.T, p probe) {
	t.Helper()
	d := word(t, p.word)
	got, err := d.At(p.at, p.loc, p.dayStarts)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s at %s in %v, day starts %v: "+format, append([]any{
			p.word, p.at.UTC().Format(time.RFC3339Nano), p.loc, p.dayStarts}, args...)...)
	}
	if year := p.at.UTC().Year(); year < 2 || year > 9998 {
		if err == nil || got != (Resolved{}) {
			fail("got %v, want an error", got)
		}
		return
	}
	ago := time.Duration(0)
	if p.word == "last-hour" {
		ago = time.Hour
	}
	if d.unit == hour && comesTwice(p.at.Add(-ago), p.loc) {
		if !isAmbiguous(err) || got != (Resolved{}) {
			fail("got %v, %v, want an AmbiguousError", got, err)
		}
		return
	}
	if err != nil {
		fail("%v", err)
		return
	}
	if want := dateBySums(p.word, p.at, p.loc, p.dayStarts); got.Date != want || !inCalendar(got.Date) {
		fail("got %s, want %s", got.Date, want)
	}
	if p.at.Before(got.From) || !p.at.Before(got.Before) {
		fail("it is outside of [%v, %v)", got.From, got.Before)
		return
	}
	inside := got.From.Add(time.Duration(p.part * float64(got.Before.Sub(got.From))))
	for _, at := range []time.Time{got.From, inside, got.Before.Add(-1)} {
		if again, err := d.At(at, p.loc, p.dayStarts); err != nil || again != got {
			fail("got %v, but at %v, inside of its span, %v, %v", got, at.UTC(), again, err)
		}
	}
	// Just outside there is another date, or none, or clocks are changed there.
	for outside, edge := range map[time.Time]time.Time{got.From.Add(-1): got.From, got.Before: got.Before} {
		beyond, err := d.At(outside, p.loc, p.dayStarts)
		_, before := edge.Add(-ago - 1).In(p.loc).Zone()
		_, after := edge.Add(-ago).In(p.loc).Zone()
		if err == nil && beyond.Date == got.Date && before == after {
			fail("got %v, but at %v, outside of its span, the same", got, outside.UTC())
		}
	}
}

// dateBySums works on the count of days since 1970.
func dateBySums(text string, at time.Time, loc *time.Location, dayStarts time.Duration) string {
	local := func(at time.Time) int64 {
		_, offset := at.In(loc).Zone()
		return at.Unix() + int64(offset)
	}
	utc := func(day int64) time.Time { return time.Unix(day*86400, 0).UTC() }
	today := floorDiv(local(at)-int64(dayStarts/time.Second), 86400)
	weekOf := func(day int64) string {
		y, w := utc(day).ISOWeek()
		return fmt.Sprintf("%04d-W%02d", y, w)
	}
	switch text {
	case "today":
		return utc(today).Format("2006-01-02")
	case "yesterday":
		return utc(today - 1).Format("2006-01-02")
	case "this-week":
		return weekOf(today)
	case "last-week":
		return weekOf(today - 7)
	case "this-month":
		return utc(today).Format("2006-01")
	case "last-month":
		return utc(today - int64(utc(today).Day())).Format("2006-01")
	case "last-hour":
		at = at.Add(-time.Hour)
	}
	sec := local(at)
	date := floorDiv(sec, 86400)
	return fmt.Sprintf("%sT%02d", utc(date).Format("2006-01-02"), (sec-date*86400)/3600)
}

// comesTwice tries every second of the hour that the wall clock shows with every
// offset that the zone has within two days.
func comesTwice(at time.Time, loc *time.Location) bool {
	var offsets []int64
	for near := at.Add(-48 * time.Hour); near.Before(at.Add(48 * time.Hour)); near = near.Add(5 * time.Minute) {
		if _, o := near.In(loc).Zone(); !slices.Contains(offsets, int64(o)) {
			offsets = append(offsets, int64(o))
		}
	}
	if len(offsets) == 1 {
		return false
	}
	_, o := at.In(loc).Zone()
	begin := floorDiv(at.Unix()+int64(o), 3600) * 3600
	for wall := begin; wall < begin+3600; wall++ {
		times := 0
		for _, o := range offsets {
			if _, real := time.Unix(wall-o, 0).In(loc).Zone(); int64(real) == o {
				times++
			}
		}
		if times > 1 {
			return true
		}
	}
	return false
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func wordTexts() []string {
	return []string{"today", "yesterday", "this-hour", "last-hour", "this-week", "last-week", "this-month", "last-month"}
}
