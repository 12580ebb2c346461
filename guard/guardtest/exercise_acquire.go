package guardtest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"lockrun/guard"
)

var acquireTests = []test{
	{"first_acquisition", func(f *fixture) {
		r := f.request(theDate)
		before := f.now()
		a := f.granted(f.a, r)
		after := f.now()
		if a.Attempt != 1 || a.At.Before(before) || a.At.After(after) {
			f.Fatalf("answer %+v, want attempt 1 between %s and %s", a, before, after)
		}
		l := f.lease()
		if l == nil || l.RunID != r.RunID || l.Token != a.Token || l.Holder != "node 7" || l.PID != 4711 {
			f.Fatalf("lease %+v", l)
		}
		if l.AcquiredAt.Before(before) || l.AcquiredAt.After(after) {
			f.Fatalf("acquired at %s, want between %s and %s", l.AcquiredAt, before, after)
		}
		f.near("ttl", l.ExpiresAt.Sub(l.AcquiredAt), theTTL)
		run := f.guardRow(theDate)
		if run == nil || run.State != guard.Running || run.RunID != r.RunID || run.Attempt != 1 ||
			run.StartedAt.Before(before) || !run.EndedAt.IsZero() || run.ExitCode != nil || run.Signal != "" || run.Reason != "" {
			f.Fatalf("guard row %+v", run)
		}
		row := f.attempt(r.RunID)
		if row.Name != f.name || row.Date != theDate || row.Attempt != 1 || row.Token != a.Token ||
			row.Holder != "node 7" || row.Host != "node-7.example" || row.PID != 4711 || row.OSUser != "batch" ||
			!slices.Equal(row.Command, r.Command) || row.Version != "1.2.3" || row.Outcome != guard.OutcomeRunning ||
			row.StartedAt.Before(before) || row.StartedAt.After(after) || !row.EndedAt.IsZero() || row.ExitCode != nil {
			f.Fatalf("attempt %+v", row)
		}
	}},
	{"repeated_with_one_run_id", func(f *fixture) {
		r := f.request(theDate)
		first := f.granted(f.a, r)
		for _, s := range []guard.Store{f.a, f.b} {
			if again := f.granted(s, r); again.Token != first.Token || again.Attempt != 1 {
				f.Fatalf("repeated: %+v, first: %+v", again, first)
			}
		}
		if got := f.outcomes(); !slices.Equal(got, []string{"1 running"}) {
			f.Fatalf("attempts %v", got)
		}
	}},
	{"repeated_beside_its_own_copies", func(f *fixture) {
		r := f.request(theDate)
		answers := make([]guard.Answer, 6)
		var wg sync.WaitGroup
		for i := range answers {
			s, ctx := f.open(), f.ctx()
			wg.Go(func() {
				var err error
				if answers[i], err = s.Acquire(ctx, r); err != nil {
					f.Errorf("copy %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		for i, a := range answers {
			if a.Verdict != guard.Granted || a.Token != answers[0].Token || a.Attempt != 1 {
				f.Fatalf("copy %d got %+v, copy 0 got %+v", i, a, answers[0])
			}
		}
		if got := f.outcomes(); !slices.Equal(got, []string{"1 running"}) {
			f.Fatalf("attempts %v", got)
		}
	}},
	{"held_by_another", func(f *fixture) {
		r := f.request(theDate)
		won := f.granted(f.a, r)
		l := f.lease()
		before := f.rows(theDate)
		for _, c := range []*guard.Request{
			f.request(theDate), f.request(theDate, "failed", "unknown", "succeeded"), f.request("2026-03-02"), f.request(""),
		} {
			by := f.refused(f.b, c, guard.Held).Held
			if by.Tier != "lease" || by.By.RunID != r.RunID || by.By.Text != "node 7" || by.By.PID != 4711 ||
				by.By.Token != won.Token || !by.By.Since.Equal(l.AcquiredAt) || !by.By.Until.Equal(l.ExpiresAt) || by.Blocker != 0 {
				f.Fatalf("date %q: held by %+v, lease %+v", c.Date, by, l)
			}
		}
		f.unchanged(before, theDate)
		if run := f.guardRow("2026-03-02"); run != nil {
			f.Fatalf("a refused date has the row %+v", run)
		}
	}},
	{"undated", func(f *fixture) {
		first, second := f.request(""), f.request("")
		one := f.granted(f.a, first)
		f.refused(f.b, second, guard.Held)
		f.finish(f.a, failed(first))
		two := f.granted(f.b, second)
		if one.Attempt != 1 || two.Attempt != 1 || two.Token <= one.Token {
			f.Fatalf("first %+v, second %+v", one, two)
		}
		f.expire()
		f.granted(f.a, f.request(""))
		if run := f.guardRow(""); run != nil {
			f.Fatalf("an undated run has the guard row %+v", run)
		}
		history := f.attempts()
		if len(history) != 3 || history[0].Date != "" || history[0].Outcome != guard.OutcomeFailed || history[0].RunID != first.RunID {
			f.Fatalf("history %+v", history)
		}
	}},
	{"command_is_kept", func(f *fixture) {
		odd := []string{"a b", "", `"`, `\`, `\n`, "tab\tnew\nline", " blank ", "\n", "a && b <c>", "{a,b}", "NULL", "null", "'; --", "$HOME", "Zürich €", "\x7f\x01"}
		r := f.request("")
		r.Command = odd
		f.granted(f.a, r)
		if got := f.attempt(r.RunID).Command; !slices.Equal(got, odd) {
			f.Fatalf("command %q came back as %q", odd, got)
		}
		f.finish(f.a, succeeded(r))
		// Text can't hold such bytes as they are, but the run must not fail of them.
		r = f.request("")
		r.Command = []string{"before\xff\xfeafter", "\xc3("}
		f.granted(f.a, r)
		got := f.attempt(r.RunID).Command
		if len(got) != 2 || !strings.HasPrefix(got[0], "before") || !strings.HasSuffix(got[0], "after") || !strings.HasSuffix(got[1], "(") {
			f.Fatalf("command %q came back as %q", r.Command, got)
		}
	}},
	{"date_by_the_clock_of_the_store", func(f *fixture) {
		now := f.now()
		for _, c := range []struct {
			name         string
			from, before time.Duration // from the store's now
			elapsed      time.Duration
			want         guard.Verdict
		}{
			{"over", -2 * time.Hour, -time.Hour, 0, guard.WrongDate},
			{"not_begun", time.Hour, 2 * time.Hour, 0, guard.WrongDate},
			{"over_when_lockrun_started", -3 * time.Hour, -2 * time.Hour, time.Hour, guard.WrongDate},
			{"begun_only_while_waiting", -time.Minute, time.Hour, time.Hour, guard.WrongDate},
			{"right", -time.Hour, time.Hour, 0, guard.Granted},
			{"right_before_the_wait", -2 * time.Hour, -time.Minute, time.Hour, guard.Granted},
		} {
			r := f.request(theDate)
			r.Name += "-" + c.name
			r.From, r.Before = now.Add(c.from), now.Add(c.before)
			r.Elapsed = func() time.Duration { return c.elapsed }
			a := f.acquire(f.a, r)
			if a.Verdict != c.want {
				f.Fatalf("%s: %+v", c.name, a)
			}
			if c.want == guard.Granted {
				continue
			}
			if a.Token != 0 || a.At.Before(now) {
				f.Fatalf("%s: answer %+v, the clock said %s before", c.name, a, now)
			}
			if l, run, rows := f.h.Lease(f.T, r.Name), f.h.Run(f.T, r.Name, r.Date), f.h.Attempts(f.T, r.Name); run != nil || len(rows) != 0 ||
				l != nil && l.ExpiresAt.After(f.now()) {
				f.Fatalf("%s: taken: %+v %+v %+v", c.name, l, run, rows)
			}
			// The right date is taken with the same run id.
			r.From, r.Before = time.Time{}, time.Time{}
			if a := f.granted(f.a, r); a.Attempt != 1 {
				f.Fatalf("%s: then %+v", c.name, a)
			}
		}
	}},
	{"repeated_after_the_date_changed", func(f *fixture) {
		r := f.request(theDate)
		first := f.granted(f.a, r)
		// "Nothing was taken" would be a lie to the copy of a grant.
		r.From, r.Before = first.At.Add(-2*time.Hour), first.At.Add(-time.Hour)
		if again := f.granted(f.b, r); again.Token != first.Token {
			f.Fatalf("repeated: %+v, first: %+v", again, first)
		}
	}},
}
