package guard

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseDate(t *testing.T) {
	fixed := []string{
		"2026-07-01", "2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31",
		"2026-07-01T00", "2026-07-01T23", "2026-07-01T00:00", "2026-07-01T23:59",
		"2026-W01", "2026-W53", "2025-W52", "0001-W01", "9999-W52", "2026-01", "2026-12",
	}
	for _, text := range fixed {
		d, err := ParseDate(text)
		if err != nil {
			t.Errorf("ParseDate(%q): %v", text, err)
			continue
		}
		if d.Fixed() != text || d.IsWord() || d.IsScheduled() {
			t.Errorf("ParseDate(%q) = %+v, want this text, fixed", text, d)
		}
		got, err := d.At(time.Now(), time.UTC, time.Hour)
		if err != nil || got != (Resolved{Date: text}) {
			t.Errorf("At of %q = %+v, %v, want the text and zero times", text, got, err)
		}
	}
	for text := range words {
		if d, err := ParseDate(text); err != nil || !d.IsWord() || d.IsScheduled() || d.Fixed() != "" {
			t.Errorf("ParseDate(%q) = %+v, %v, want a word", text, d, err)
		}
	}
	d, err := ParseDate("scheduled")
	if err != nil || !d.IsScheduled() || d.IsWord() || d.Fixed() != "" {
		t.Errorf("ParseDate(scheduled) = %+v, %v", d, err)
	}
	if got, err := d.At(time.Now(), time.UTC, 0); err == nil {
		t.Errorf("At of scheduled = %+v, want an error", got)
	}
}

func TestParseDateRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "2026", "20260102", "2026-1-2", "2026-01-2", "26-01-02", "02026-01-02", "12026-01-02",
		"2026-02-30", "2025-02-29", "1900-02-29", "2026-04-31", "2026-13-01", "2026-00-01", "2026-01-00", "2026-01-32",
		"0000-01-01", "0000-01", "0000-W01", "0000-01-01T00", "0000-01-01T00:00", "-001-01-01", "-2026-01-01",
		"2026-00", "2026-13", "2026-1", "2026-01-",
		"2026-W00", "2026-W54", "2025-W53", "2026-W1", "2026-W001", "2026W01", "2026-w01", "2026-W01-1", "2026-W+1",
		"+026-W01", "2026-W-1", "9999-W53", "10000-W01", "99999999999999999999-W01", "2026-W", "-W", "-W01",
		"2026-07-01T24", "2026-07-01T3", "2026-07-01t03", "2026-07-01 03", "2026-07-01T+3", "2026-07-01T",
		"2026-07-01T03:60", "2026-07-01T03:5", "2026-07-01T03:", "2026-07-01T24:00", "2026-07-01T03:05:00",
		"2026-07-01T03:05Z", "2026-07-01T03:05.5", "2026-07-01T03,5", "2026-07-01Z", "2026-02-30T03", "2026-02-30T03:05",
		" 2026-07-01", "2026-07-01 ", "2026-07-01\n", "\t2026-07-01", "2026-07-01\x00", "2026/07/01", "2026.07.01",
		"2026‐07‐01", "２０２６-07-01", "٢٠٢٦-07-01", "2026-W０1", "2026-Ｗ01",
		"Today", "TODAY", "today ", " today", "tomorrow", "this-day", "thishour", "this hour", "next-week", "now", "hour",
		"Scheduled", "scheduled ", "today-1", "\x1b[31m",
	} {
		d, err := ParseDate(text)
		if err == nil {
			t.Errorf("ParseDate(%q) took it", text)
			continue
		}
		if d != (DateSpec{}) {
			t.Errorf("ParseDate(%q) = %+v with its error", text, d)
		}
		checkMessage(t, err, text, "YYYY-MM-DD,", "YYYY-MM-DDTHH,", "YYYY-MM-DDTHH:MM", "YYYY-Www", "YYYY-MM,", "scheduled")
		for word := range words {
			checkMessage(t, err, text, word)
		}
	}
}

func TestZeroDateSpec(t *testing.T) {
	var none DateSpec
	got, err := none.At(time.Now(), time.UTC, 0)
	if none.IsWord() || none.IsScheduled() || none.Fixed() != "" || err != nil || got != (Resolved{}) {
		t.Errorf("the zero DateSpec is no date, got %+v, %v", got, err)
	}
}

func TestParseDayStart(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"00:00": 0, "06:00": 6 * time.Hour, "00:01": time.Minute, "09:08": 548 * time.Minute, "23:59": 1439 * time.Minute,
	} {
		if got, err := ParseDayStart(text); err != nil || got != want {
			t.Errorf("ParseDayStart(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "6:00", "06:0", "24:00", "23:60", "0600", "06", "06:00:00", " 06:00", "06:00 ", "+6:00", "-1:00", "06.00",
		"6h", "06:00\n", "０6:00", "06:00.5", "06:00,5",
	} {
		got, err := ParseDayStart(text)
		if err == nil {
			t.Errorf("ParseDayStart(%q) = %v", text, got)
			continue
		}
		checkMessage(t, err, text, "HH:MM", "23:59")
	}
}

func TestScheduledInstant(t *testing.T) {
	const name = "eod-interest-29715330" // 2026-07-01T15:30:00Z / 60 s
	tests := map[string]struct {
		at, job string
		want    string // RFC 3339 in UTC; "" = error
		says    []string
	}{
		"rfc3339":              {at: "2026-07-01T23:30:00+07:00", want: "2026-07-01T16:30:00Z"},
		"rfc3339_utc":          {at: "2026-07-01T23:30:00Z", want: "2026-07-01T23:30:00Z"},
		"rfc3339_fraction":     {at: "2026-07-01T23:30:00.25Z", want: "2026-07-01T23:30:00Z"},
		"first_wins":           {at: "2026-01-02T03:04:05Z", job: name, want: "2026-01-02T03:04:05Z"},
		"job_name":             {job: name, want: "2026-07-01T15:30:00Z"},
		"neither":              {says: []string{"LOCKRUN_SCHEDULED_AT", "LOCKRUN_JOB_NAME"}},
		"no_fall_through":      {at: "yesterday", job: name, says: []string{"LOCKRUN_SCHEDULED_AT"}},
		"day_alone":            {at: "2026-07-01"},
		"without_zone":         {at: "2026-07-01T23:30:00"},
		"blank":                {at: "2026-07-01 23:30:00Z"},
		"one_digit_hour":       {at: "2026-07-01T3:30:00Z"},
		"comma":                {at: "2026-07-01T23:30:00,5Z"},
		"offset_of_a_day":      {at: "2026-07-01T23:30:00+24:00"},
		"offset_of_60_minutes": {at: "2026-07-01T23:30:00+07:60"},
		"leap_second":          {at: "2026-06-30T23:59:60Z"},
		"no_such_day":          {at: "2026-02-30T00:00:00Z"},
		"lower_case":           {at: "2026-07-01t00:00:00z"},
		"line_end":             {at: "2026-07-01T23:30:00Z\n"},
		"zero_time":            {at: "0001-01-01T00:00:00Z"},
		"epoch":                {at: "1970-01-01T00:00:00Z"},
		"far_future":           {at: "2200-01-01T00:00:00Z"},
		"last_second":          {at: "2199-12-31T23:59:59Z", want: "2199-12-31T23:59:59Z"},
		"name_without_time":    {job: "eod-interest-x7f2k"},
		"name_alone":           {job: "29715330"},
		"name_of_time_alone":   {job: "-29715330"},
		"name_in_seconds":      {job: "eod-1782919800"},
		"name_of_a_day":        {job: "eod-20260701"},
		"name_of_2019":         {job: "eod-26297279"},
		"name_of_2020":         {job: "eod-26297280", want: "2020-01-01T00:00:00Z"},
		"name_of_2200":         {job: "eod-120968640"},
		"leading_zero":         {job: "eod-029715330"},
		"sign":                 {job: "eod-+29715330"},
		"not_ascii":            {job: "eod-２9715330"},
		"huge":                 {job: "eod-99999999999999999999"},
		"control_character":    {job: "eod-29715330\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env := environ(map[string]string{"LOCKRUN_SCHEDULED_AT": test.at, "LOCKRUN_JOB_NAME": test.job})
			got, err := ScheduledInstant(env)
			if test.want != "" {
				if err != nil || got.UTC().Format(time.RFC3339) != test.want {
					t.Errorf("got %v, %v, want %s", got, err, test.want)
				}
				return
			}
			if err == nil {
				t.Fatalf("got %v, want an error", got)
			}
			says := test.says
			if test.at != "" {
				says = append(says, "LOCKRUN_SCHEDULED_AT")
			} else if test.job != "" {
				says = append(says, "LOCKRUN_JOB_NAME")
			}
			input := test.at
			if input == "" {
				input = test.job
			}
			if input == "" {
				input = "scheduled"
			}
			checkMessage(t, err, input, says...)
		})
	}
	t.Run("unset", func(t *testing.T) {
		if got, err := ScheduledInstant(environ(nil)); err == nil {
			t.Errorf("got %v, want an error", got)
		}
	})
}

func TestResolveScheduled(t *testing.T) {
	saigon := zone(t, "Asia/Ho_Chi_Minh")
	for _, test := range []struct {
		at        string
		loc       *time.Location
		dayStarts time.Duration
		want      string
	}{
		{"2026-07-01T23:30:00+07:00", saigon, 0, "2026-07-01"},
		{"2026-07-01T17:00:00Z", saigon, 0, "2026-07-02"},
		{"2026-07-01T17:00:00Z", time.UTC, 0, "2026-07-01"},
		{"2026-07-01T22:59:59Z", saigon, 6 * time.Hour, "2026-07-01"},
		{"2026-07-01T23:00:00Z", saigon, 6 * time.Hour, "2026-07-02"},
		{"2027-01-01T00:00:00+07:00", saigon, 6 * time.Hour, "2026-12-31"},
	} {
		if got := ResolveScheduled(instant(t, test.at), test.loc, test.dayStarts); got != test.want {
			t.Errorf("ResolveScheduled(%s, %v, %v) = %s, want %s", test.at, test.loc, test.dayStarts, got, test.want)
		}
	}
}

// checkMessage wants one line of plain text that quotes the input and says the
// rest.
func checkMessage(t *testing.T, err error, input string, says ...string) {
	t.Helper()
	text := err.Error()
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			t.Errorf("the message %q holds a control character", text)
		}
	}
	for _, s := range append(says, strconv.Quote(input)) {
		if !strings.Contains(text, s) {
			t.Errorf("the message %q does not say %q", text, s)
		}
	}
}

func environ(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func word(t testing.TB, text string) DateSpec {
	t.Helper()
	d, err := ParseDate(text)
	if err != nil || !d.IsWord() {
		t.Fatalf("ParseDate(%q) = %+v, %v", text, d, err)
	}
	return d
}

func isAmbiguous(err error) bool {
	_, ok := errors.AsType[*AmbiguousError](err)
	return ok
}
