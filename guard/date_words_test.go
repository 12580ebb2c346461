package guard

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestAt(t *testing.T) {
	const six = 6 * time.Hour
	tests := []struct {
		name, zone string
		dayStarts  time.Duration
		at, word   string
		want       string
		from       string // "" = not looked at
		before     string
	}{
		{"plain_day", "UTC", 0, "2026-07-01T12:00:00Z", "today", "2026-07-01", "2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z"},
		{"first_instant", "UTC", 0, "2026-07-01T00:00:00Z", "today", "2026-07-01", "2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z"},
		{"last_instant", "UTC", 0, "2026-07-01T23:59:59.999999999Z", "today", "2026-07-01", "2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z"},
		{"yesterday", "UTC", 0, "2026-03-01T12:00:00Z", "yesterday", "2026-02-28", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"yesterday_leap", "UTC", 0, "2024-03-01T12:00:00Z", "yesterday", "2024-02-29", "", ""},
		{"yesterday_new_year", "UTC", 0, "2027-01-01T00:00:00Z", "yesterday", "2026-12-31", "", ""},
		{"this_hour", "UTC", 0, "2026-07-01T12:34:56Z", "this-hour", "2026-07-01T12", "2026-07-01T12:00:00Z", "2026-07-01T13:00:00Z"},
		{"last_hour", "UTC", 0, "2026-07-01T12:34:56Z", "last-hour", "2026-07-01T11", "2026-07-01T12:00:00Z", "2026-07-01T13:00:00Z"},
		{"last_hour_midnight", "UTC", 0, "2027-01-01T00:10:00Z", "last-hour", "2026-12-31T23", "2027-01-01T00:00:00Z", "2027-01-01T01:00:00Z"},
		{"this_month", "UTC", 0, "2026-02-28T23:59:59Z", "this-month", "2026-02", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"this_month_31", "UTC", 0, "2026-07-31T12:00:00Z", "this-month", "2026-07", "2026-07-01T00:00:00Z", "2026-08-01T00:00:00Z"},
		{"last_month_of_31", "UTC", 0, "2026-03-31T12:00:00Z", "last-month", "2026-02", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		{"last_month_new_year", "UTC", 0, "2027-01-31T12:00:00Z", "last-month", "2026-12", "", ""},

		{"week_53", "UTC", 0, "2027-01-01T12:00:00Z", "this-week", "2026-W53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"week_53_sunday", "UTC", 0, "2027-01-03T23:59:59Z", "this-week", "2026-W53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"week_01_monday", "UTC", 0, "2027-01-04T00:00:00Z", "this-week", "2027-W01", "2027-01-04T00:00:00Z", "2027-01-11T00:00:00Z"},
		{"week_01_in_december", "UTC", 0, "2025-12-29T00:00:00Z", "this-week", "2026-W01", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"last_week_53", "UTC", 0, "2027-01-04T12:00:00Z", "last-week", "2026-W53", "2027-01-04T00:00:00Z", "2027-01-11T00:00:00Z"},
		{"last_week_52", "UTC", 0, "2027-01-01T12:00:00Z", "last-week", "2026-W52", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},

		// One schedule that fires early and again: one date.
		{"six_before_midnight", "UTC", six, "2026-12-31T23:59:58Z", "today", "2026-12-31", "2026-12-31T06:00:00Z", "2027-01-01T06:00:00Z"},
		{"six_after_midnight", "UTC", six, "2027-01-01T00:00:01Z", "today", "2026-12-31", "2026-12-31T06:00:00Z", "2027-01-01T06:00:00Z"},
		{"six_before_six", "UTC", six, "2027-01-01T05:59:59Z", "today", "2026-12-31", "", ""},
		{"six_at_six", "UTC", six, "2027-01-01T06:00:00Z", "today", "2027-01-01", "2027-01-01T06:00:00Z", "2027-01-02T06:00:00Z"},
		{"six_yesterday", "UTC", six, "2027-01-01T05:59:59Z", "yesterday", "2026-12-30", "", ""},
		{"six_month", "UTC", six, "2027-01-01T05:59:59Z", "this-month", "2026-12", "2026-12-01T06:00:00Z", "2027-01-01T06:00:00Z"},
		{"six_last_month", "UTC", six, "2027-01-01T05:59:59Z", "last-month", "2026-11", "", ""},
		{"six_week", "UTC", six, "2027-01-04T05:59:59Z", "this-week", "2026-W53", "2026-12-28T06:00:00Z", "2027-01-04T06:00:00Z"},
		{"six_last_week", "UTC", six, "2027-01-04T06:00:00Z", "last-week", "2026-W53", "", ""},
		{"six_hour_not_shifted", "UTC", six, "2027-01-01T00:00:01Z", "this-hour", "2027-01-01T00", "2027-01-01T00:00:00Z", "2027-01-01T01:00:00Z"},
		{"six_last_hour", "UTC", six, "2027-01-01T00:00:01Z", "last-hour", "2026-12-31T23", "", ""},
		{"latest_day_start", "UTC", 1439 * time.Minute, "2026-07-01T23:58:59Z", "today", "2026-06-30", "2026-06-30T23:59:00Z", "2026-07-01T23:59:00Z"},

		{"saigon_morning", "Asia/Ho_Chi_Minh", 0, "2026-06-30T17:00:00Z", "today", "2026-07-01", "2026-06-30T17:00:00Z", "2026-07-01T17:00:00Z"},
		{"saigon_evening", "Asia/Ho_Chi_Minh", 0, "2026-06-30T16:59:59Z", "today", "2026-06-30", "", ""},
		{"saigon_six", "Asia/Ho_Chi_Minh", six, "2026-06-30T22:59:59Z", "today", "2026-06-30", "2026-06-29T23:00:00Z", "2026-06-30T23:00:00Z"},
		{"kolkata_hour", "Asia/Kolkata", 0, "2026-07-01T00:29:59Z", "this-hour", "2026-07-01T05", "2026-06-30T23:30:00Z", "2026-07-01T00:30:00Z"},

		// London: back at 01:00Z on 25 October, on at 01:00Z on 29 March.
		{"london_autumn_first_pass", "Europe/London", 0, "2026-10-25T00:30:00Z", "today", "2026-10-25", "2026-10-24T23:00:00Z", "2026-10-25T01:00:00Z"},
		{"london_autumn_second_pass", "Europe/London", 0, "2026-10-25T01:30:00Z", "today", "2026-10-25", "2026-10-25T01:00:00Z", "2026-10-26T00:00:00Z"},
		{"london_hour_before", "Europe/London", 0, "2026-10-24T23:59:59Z", "this-hour", "2026-10-25T00", "2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z"},
		{"london_last_hour_before", "Europe/London", 0, "2026-10-25T00:59:59Z", "last-hour", "2026-10-25T00", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"london_hour_after", "Europe/London", 0, "2026-10-25T02:00:00Z", "this-hour", "2026-10-25T02", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"},
		{"london_last_hour_after", "Europe/London", 0, "2026-10-25T03:00:00Z", "last-hour", "2026-10-25T02", "2026-10-25T03:00:00Z", "2026-10-25T04:00:00Z"},
		{"london_spring_before", "Europe/London", 0, "2026-03-29T00:59:59Z", "this-hour", "2026-03-29T00", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"london_spring_after", "Europe/London", 0, "2026-03-29T01:00:00Z", "this-hour", "2026-03-29T02", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"london_spring_last_hour", "Europe/London", 0, "2026-03-29T01:00:00Z", "last-hour", "2026-03-29T00", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"london_spring_today", "Europe/London", 0, "2026-03-29T12:00:00Z", "today", "2026-03-29", "2026-03-29T01:00:00Z", "2026-03-29T23:00:00Z"},
		{"london_summer_month", "Europe/London", 0, "2026-03-30T12:00:00Z", "this-month", "2026-03", "2026-03-29T01:00:00Z", "2026-03-31T23:00:00Z"},

		{"new_york_spring", "America/New_York", 0, "2026-03-08T06:59:59Z", "today", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-08T07:00:00Z"},
		{"new_york_spring_hour", "America/New_York", 0, "2026-03-08T07:00:00Z", "this-hour", "2026-03-08T03", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"},
		{"new_york_autumn", "America/New_York", six, "2026-11-01T10:59:59Z", "today", "2026-10-31", "2026-11-01T06:00:00Z", "2026-11-01T11:00:00Z"},
		// A rule's years end early in package time; a date on that day has bounds all the same.
		{"leap_year_end", "America/New_York", 0, "2040-12-31T23:00:00Z", "today", "2040-12-31", "2040-12-31T05:00:00Z", "2041-01-01T05:00:00Z"},

		// Lord Howe: half an hour, back at 15:00Z on 4 April, on at 15:30Z on 3 October.
		{"lord_howe_hour_before", "Australia/Lord_Howe", 0, "2026-04-04T13:59:59Z", "this-hour", "2026-04-05T00", "2026-04-04T13:00:00Z", "2026-04-04T14:00:00Z"},
		{"lord_howe_hour_after", "Australia/Lord_Howe", 0, "2026-04-04T15:30:00Z", "this-hour", "2026-04-05T02", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"},
		{"lord_howe_short_hour", "Australia/Lord_Howe", 0, "2026-10-03T15:40:00Z", "this-hour", "2026-10-04T02", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},
		{"lord_howe_last_hour", "Australia/Lord_Howe", 0, "2026-10-03T16:10:00Z", "last-hour", "2026-10-04T01", "2026-10-03T15:30:00Z", "2026-10-03T16:30:00Z"},

		// Clocks changed at midnight.
		{"havana_spring_before", "America/Havana", 0, "2026-03-08T04:59:59Z", "today", "2026-03-07", "2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z"},
		{"havana_spring_after", "America/Havana", 0, "2026-03-08T05:00:00Z", "today", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"havana_autumn_first", "America/Havana", 0, "2026-11-01T04:30:00Z", "today", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z"},
		{"havana_autumn_second", "America/Havana", 0, "2026-11-01T05:30:00Z", "today", "2026-11-01", "2026-11-01T05:00:00Z", "2026-11-02T05:00:00Z"},
		{"beirut_autumn_first", "Asia/Beirut", 0, "2026-10-24T20:30:00Z", "today", "2026-10-24", "2026-10-23T21:00:00Z", "2026-10-24T21:00:00Z"},
		{"beirut_autumn_second", "Asia/Beirut", 0, "2026-10-24T21:30:00Z", "today", "2026-10-24", "2026-10-24T21:00:00Z", "2026-10-24T22:00:00Z"},
		{"beirut_autumn_yesterday", "Asia/Beirut", 0, "2026-10-24T22:00:00Z", "yesterday", "2026-10-24", "2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z"},
		{"beirut_spring", "Asia/Beirut", 0, "2026-03-28T22:00:00Z", "today", "2026-03-29", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},

		// The zone skipped 30 December 2011.
		{"apia_today", "Pacific/Apia", 0, "2011-12-30T10:00:00Z", "today", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"apia_yesterday", "Pacific/Apia", 0, "2011-12-30T10:00:00Z", "yesterday", "2011-12-30", "", ""},
		{"apia_last_hour", "Pacific/Apia", 0, "2011-12-30T10:00:00Z", "last-hour", "2011-12-29T23", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"},

		{"first_year", "UTC", 0, "0002-01-01T00:00:00Z", "last-month", "0001-12", "0002-01-01T00:00:00Z", "0002-02-01T00:00:00Z"},
		{"last_year", "UTC", 0, "9998-12-31T23:59:59Z", "this-week", "9998-W53", "9998-12-28T00:00:00Z", "9999-01-04T00:00:00Z"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := word(t, test.word).At(instant(t, test.at), zone(t, test.zone), test.dayStarts)
			if err != nil {
				t.Fatal(err)
			}
			if got.Date != test.want {
				t.Errorf("got %s, want %s", got.Date, test.want)
			}
			if test.from == "" {
				return
			}
			if from, before := instant(t, test.from), instant(t, test.before); got.From != from || got.Before != before {
				t.Errorf("right from %v, before %v, want %v, %v", got.From, got.Before, from, before)
			}
		})
	}
}

func TestAtRefusesHoursThatComeTwice(t *testing.T) {
	tests := []struct {
		name, zone, date string
		first, next      string // the hour, or hours, as instants
	}{
		{"london", "Europe/London", "2026-10-25T01", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},
		{"new_york", "America/New_York", "2026-11-01T01", "2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z"},
		{"lord_howe_half", "Australia/Lord_Howe", "2026-04-05T01", "2026-04-04T14:00:00Z", "2026-04-04T15:30:00Z"},
		{"havana_midnight", "America/Havana", "2026-11-01T00", "2026-11-01T04:00:00Z", "2026-11-01T06:00:00Z"},
		{"beirut_midnight", "Asia/Beirut", "2026-10-24T23", "2026-10-24T20:00:00Z", "2026-10-24T22:00:00Z"},
		{"troll_two_hours", "Antarctica/Troll", "2026-10-25T0", "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			loc := zone(t, test.zone)
			first, next := instant(t, test.first), instant(t, test.next)
			const step = 5 * time.Minute
			for at := first; at.Before(next); at = at.Add(step) {
				for text, ago := range map[string]time.Duration{"this-hour": 0, "last-hour": time.Hour} {
					got, err := word(t, text).At(at.Add(ago), loc, 6*time.Hour)
					if !isAmbiguous(err) {
						t.Fatalf("%s at %v = %v, %v, want an AmbiguousError", text, at.Add(ago), got, err)
					}
					checkMessage(t, err, text, test.date, test.zone, "--tz UTC")
				}
			}
			for text, ago := range map[string]time.Duration{"this-hour": 0, "last-hour": time.Hour} {
				for _, at := range []time.Time{first, next.Add(-1)} {
					if got, err := word(t, text).At(at.Add(ago), time.UTC, 0); err != nil {
						t.Errorf("%s in UTC = %v, %v, want an hour", text, got, err)
					}
				}
				for _, at := range []time.Time{first.Add(-1), next} {
					if got, err := word(t, text).At(at.Add(ago), loc, 0); err != nil {
						t.Errorf("%s at %v = %v, %v, want an hour", text, at.Add(ago), got, err)
					}
				}
			}
			// Longer units have no trouble with it.
			for _, text := range []string{"today", "yesterday", "this-week", "last-week", "this-month", "last-month"} {
				if got, err := word(t, text).At(first, loc, 0); err != nil {
					t.Errorf("%s = %v, %v, want a date", text, got, err)
				}
			}
		})
	}
}

func TestAtInAnHourThatLeapsForward(t *testing.T) {
	got, err := word(t, "this-hour").At(time.Unix(1499999400, 0), testZones(t)["forward_at_09:20"], 0)
	if err != nil || got.Date != "2017-07-14T09" {
		t.Errorf("got %v, %v, want the hour, which misses some minutes but has none twice", got, err)
	}
}

func TestAtRefusesImpossibleClocks(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.Date(1, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(292277026596, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		for text := range words {
			got, err := word(t, text).At(at, time.UTC, 0)
			if err == nil {
				t.Errorf("%s at %v = %v, want an error", text, at, got)
				continue
			}
			checkMessage(t, err, text, "year")
		}
	}
}

// TestAtEverywhere checks the span of random instants, half of them close to a
// change of clocks.
func TestAtEverywhere(t *testing.T) {
	const rounds = 1000
	texts := wordTexts()
	for name, loc := range testZones(t) {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			first, last := time.Date(1840, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
			near := []time.Time{last}
			for change := range changes(first.In(loc), last) {
				near = append(near, change)
			}
			for range rounds {
				at := first.Add(time.Duration(random.Int64N(int64(140 * 365 * 24 * time.Hour)))).
					Add(time.Duration(random.Int64N(int64(170 * 365 * 24 * time.Hour))))
				if random.IntN(2) == 0 {
					at = near[random.IntN(len(near))].Add(time.Duration(random.Int64N(int64(54*time.Hour))) - 27*time.Hour)
				}
				checkAt(t, probe{
					word: texts[random.IntN(len(texts))], at: at, loc: loc,
					dayStarts: time.Duration(random.IntN(24*60)) * time.Minute,
					part:      random.Float64(),
				})
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}
