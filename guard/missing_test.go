package guard

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func instantOf(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		now, zone, dayStart string
		runs                string // "DATE STATE", "-" for the state of a run that never said its end
		attempts            string // dates that were tried and have no guard row
		unit                string
		since, until        string
		want                string
	}{
		"none":               {now: "2026-07-04T10:00:00Z", runs: "2026-07-01 succeeded,2026-07-02 succeeded,2026-07-03 succeeded", unit: "day"},
		"a_hole":             {now: "2026-07-04T10:00:00Z", runs: "2026-07-01 succeeded,2026-07-03 succeeded", unit: "day", want: "2026-07-02"},
		"up_to_yesterday":    {now: "2026-07-04T00:00:00Z", runs: "2026-07-01 succeeded", unit: "day", want: "2026-07-02 2026-07-03"},
		"a_second_earlier":   {now: "2026-07-03T23:59:59Z", runs: "2026-07-01 succeeded", unit: "day", want: "2026-07-02"},
		"the_zone's_day":     {now: "2026-07-03T23:00:00Z", zone: "Europe/Paris", runs: "2026-07-02 succeeded", unit: "day", want: "2026-07-03"},
		"day_starts":         {now: "2026-07-04T05:59:00Z", dayStart: "06:00", runs: "2026-07-02 succeeded", unit: "day"},
		"today_when_asked":   {now: "2026-07-04T10:00:00Z", runs: "2026-07-03 succeeded", unit: "day", until: "2026-07-04", want: "2026-07-04"},
		"both_ends":          {now: "2026-07-04T10:00:00Z", unit: "day", since: "2026-06-29", until: "2026-07-01", want: "2026-06-29 2026-06-30 2026-07-01"},
		"ends_of_months":     {now: "2026-07-04T10:00:00Z", unit: "day", since: "2026-02", until: "2026-02", runs: "2026-02-10 succeeded", want: "1-9 and 11-28"},
		"what_is_no_success": {now: "2026-07-05T10:00:00Z", runs: "2026-07-01 failed,2026-07-02 -,2026-07-03 running,2026-07-04 succeeded", unit: "day", want: "2026-07-01 failed 2026-07-02 unknown 2026-07-03 running"},
		"opened_again":       {now: "2026-07-03T10:00:00Z", attempts: "2026-07-01", runs: "2026-07-02 succeeded", unit: "day", want: "2026-07-01"},
		"weekdays":           {now: "2026-07-07T10:00:00Z", runs: "2026-07-02 succeeded", unit: "weekday", want: "2026-07-03 2026-07-06"},
		"hours":              {now: "2026-07-01T04:30:00Z", runs: "2026-07-01T01 succeeded", unit: "hour", want: "2026-07-01T02 2026-07-01T03"},
		"hours_and_days":     {now: "2026-07-01T03:30:00Z", runs: "2026-06-01 failed,2026-07-01T01 succeeded", unit: "hour", want: "2026-07-01T02"},
		"hour_that_is_not":   {now: "2026-03-29T03:00:00Z", zone: "Europe/Paris", runs: "2026-03-29T01 succeeded", unit: "hour", want: "2026-03-29T03 2026-03-29T04"},
		"hour_and_a_half":    {now: "2026-10-03T18:00:00Z", zone: "Australia/Lord_Howe", runs: "2026-10-04T01 succeeded", unit: "hour", want: "2026-10-04T02 2026-10-04T03 2026-10-04T04"},
		"hours_no_day_start": {now: "2026-07-01T03:30:00Z", dayStart: "06:00", runs: "2026-07-01T01 succeeded", unit: "hour", want: "2026-07-01T02"},
		"day_that_is_not":    {now: "2012-01-02T00:00:00Z", zone: "Pacific/Apia", runs: "2011-12-29 succeeded", unit: "day", want: "2011-12-31 2012-01-01"},
		"midnight_that_isnt": {now: "2018-11-06T00:00:00Z", zone: "America/Sao_Paulo", runs: "2018-11-03 succeeded", unit: "day", want: "2018-11-04"},
		"weeks":              {now: "2027-01-12T10:00:00Z", runs: "2026-W52 succeeded", unit: "week", want: "2026-W53 2027-W01"},
		"weeks_by_days":      {now: "2026-07-04T10:00:00Z", unit: "week", since: "2026-07-01", until: "2026-07-06", want: "2026-W27 2026-W28"},
		"months":             {now: "2026-07-04T10:00:00Z", runs: "2026-04 succeeded", unit: "month", want: "2026-05 2026-06"},
		"leap_day":           {now: "2028-03-01T10:00:00Z", unit: "day", since: "2028-02-28", want: "2028-02-28 2028-02-29"},
	} {
		t.Run(name, func(t *testing.T) {
			zone := c.zone
			if zone == "" {
				zone = "UTC"
			}
			cal := Calendar{Zone: zoneOf(t, zone)}
			if c.dayStart != "" {
				cal.DayStart, _ = ParseDayStart(c.dayStart)
			}
			rows := &Rows{At: instantOf(t, c.now), Leases: []Lease{{Name: "eod", RunID: "live", ExpiresAt: instantOf(t, c.now).Add(time.Minute)}}}
			for r := range strings.SplitSeq(c.runs, ",") {
				date, state, ok := strings.Cut(r, " ")
				run := Run{Name: "eod", Date: date, State: State(state), RunID: "r" + date}
				switch state {
				case "-":
					run.State = Running
				case "running":
					run.RunID = "live"
				}
				if ok {
					rows.Runs = append(rows.Runs, run)
				}
			}
			if c.attempts != "" {
				rows.Attempts = append(rows.Attempts, Attempt{Name: "eod", Date: c.attempts, Outcome: OutcomeUnknown})
			}
			list, err := Missing(rows, "eod", c.unit, Period{c.since, c.until}, cal)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range list {
				got = append(got, strings.TrimSpace(r.Date+" "+string(r.State)))
				if r.Name != "eod" {
					t.Errorf("name %q", r.Name)
				}
			}
			if name == "ends_of_months" {
				if len(got) != 27 || got[0] != "2026-02-01" || got[9] != "2026-02-11" || got[26] != "2026-02-28" {
					t.Fatalf("missing %q", got)
				}
				return
			}
			if strings.Join(got, " ") != c.want {
				t.Fatalf("missing %q, want %q", got, c.want)
			}
		})
	}
}

func TestMissingRefuses(t *testing.T) {
	rows := &Rows{At: time.Now(), Runs: []Run{{Name: "eod", Date: "2026-07-01", State: Succeeded}}}
	cal := Calendar{Zone: time.UTC}
	if _, err := Missing(rows, "eod", "hour", Period{}, cal); !errors.Is(err, ErrNotFound) {
		t.Errorf("no hour is known: %v", err)
	}
	if _, err := Missing(rows, "eod", "hour", Period{Since: "0001-01-01"}, cal); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("all hours there ever were: %v", err)
	}
	if _, err := Missing(rows, "eod", "minute", Period{}, cal); err == nil {
		t.Error("minutes")
	}
	// No date lies in these: that none is missing would be no answer.
	for name, p := range map[string]Period{
		"backwards": {Since: "2026-07-03", Until: "2026-07-01"}, "not_begun": {Since: "2999-01-01"}, "before_all": {Until: "2026-06-30"},
		"not_over": {Since: rows.At.UTC().Format("2006-01-02")},
	} {
		if list, err := Missing(rows, "eod", "day", p, cal); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		if backwards := name == "backwards"; p.Backwards() != backwards {
			t.Errorf("%s: backwards is %v", name, !backwards)
		}
	}
	fresh := &Rows{At: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), Runs: rows.Runs}
	if list, err := Missing(fresh, "eod", "day", Period{}, cal); err != nil || len(list) > 0 {
		t.Errorf("on the first day: %v, %v", list, err)
	}
}

func TestPeriodHolds(t *testing.T) {
	cal := Calendar{Zone: zoneOf(t, "Europe/Paris"), DayStart: 2 * time.Hour}
	for _, c := range []struct {
		date, started, since, until string
		want                        bool
	}{
		{"2026-07-01", "", "", "", true},
		{"2026-07-01", "", "2026-07-01", "2026-07-01", true},
		{"2026-07-01", "", "2026-07-02", "", false},
		{"2026-07-01", "", "", "2026-06-30", false},
		{"2026-07-01T23:59", "", "2026-07-01", "2026-07-01", true},
		{"2026-07-02T00", "", "", "2026-07-01", false},
		{"2026-07", "", "2026-07-01", "2026-07-31", true},
		{"2026-07", "", "2026-07-02", "", false},
		{"2026-W27", "", "2026-06-29", "2026-07-05", true},
		{"2026-W27", "", "2026-06-30", "", false},
		{"2026-07-15", "", "2026-07", "2026-07", true},
		{"", "2026-07-01T23:30:00Z", "2026-07-01", "2026-07-01", true}, // 01:30 in Paris, before the day starts
		{"", "2026-07-02T00:30:00Z", "2026-07-01", "2026-07-01", false},
		{"no date", "2026-07-02T00:30:00Z", "2026-07-02", "", true},
	} {
		a := &Attempt{Date: c.date}
		if c.started != "" {
			a.StartedAt = instantOf(t, c.started)
		}
		if got := (Period{c.since, c.until}).Holds(a, cal); got != c.want {
			t.Errorf("%q started %s in [%s, %s]: %v", c.date, c.started, c.since, c.until, got)
		}
	}
}

func TestOverviewAndLease(t *testing.T) {
	now := instantOf(t, "2026-07-01T10:00:00Z")
	lease := func(renewed, expires time.Duration) *Lease {
		return &Lease{Name: "a", RunID: "1", Holder: "node", AcquiredAt: now.Add(-time.Hour), RenewedAt: now.Add(renewed), ExpiresAt: now.Add(expires)}
	}
	for name, c := range map[string]struct {
		l                     *Lease
		live, absurd, overdue bool
	}{
		"fresh":       {lease(-time.Second, 59*time.Second), true, false, false},
		"half":        {lease(-30*time.Second, 30*time.Second), true, false, false},
		"missed":      {lease(-31*time.Second, 29*time.Second), true, false, true},
		"over":        {lease(-time.Minute, 0), false, false, true},
		"a_week":      {lease(0, AbsurdAfter), true, false, false},
		"more":        {lease(0, AbsurdAfter+time.Second), true, true, false},
		"from_future": {lease(time.Hour, 2*time.Hour), true, true, false},
		"a_bit_fast":  {lease(30*time.Second, 90*time.Second), true, false, false},
		"no_time":     {&Lease{Name: "a"}, false, true, true},
	} {
		if c.l.Live(now) != c.live || c.l.Absurd(now) != c.absurd || c.l.Overdue(now) != c.overdue {
			t.Errorf("%s: live %v, absurd %v, overdue %v", name, c.l.Live(now), c.l.Absurd(now), c.l.Overdue(now))
		}
	}

	undated := &Rows{At: now, Leases: []Lease{*lease(-time.Second, time.Minute)}, Attempts: []Attempt{{Name: "a", RunID: "1", Attempt: 1, Outcome: OutcomeRunning, Host: "h"}}}
	if list := Overview(undated); len(list) != 1 || list[0].State != Running || !list[0].Held || list[0].Date != "" || list[0].Host != "h" {
		t.Errorf("undated %+v", list)
	}
	undated.Leases[0].ExpiresAt = now
	if list := Overview(undated); list[0].State != StateUnknown || list[0].Held {
		t.Errorf("undated, killed %+v", list)
	}
	undated.Attempts[0].Outcome = OutcomeSucceeded
	if list := Overview(undated); list[0].State != Succeeded {
		t.Errorf("undated, done %+v", list)
	}
	// The lease of another run is not that of the latest date.
	other := &Rows{At: now, Leases: []Lease{*lease(-time.Second, time.Minute)}, Runs: []Run{{Name: "a", Date: "2026-06-30", State: Running, RunID: "0"}}}
	if list := Overview(other); len(list) != 2 || list[0].State != StateUnknown || !list[0].ExpiresAt.IsZero() || list[1].RunID != "1" || !list[1].Held {
		t.Errorf("another's lease %+v", list)
	}
}
