package guardtest

import (
	"slices"

	"lockrun/guard"
)

var undoTests = []test{
	{"undo", func(f *fixture) {
		r, next := f.request(theDate), f.request(theDate)
		won := f.granted(f.a, r)
		f.undo(f.a, r, "exec format error")
		if run := f.guardRow(theDate); run != nil {
			f.Fatalf("the guard row is still there: %+v", run)
		}
		a := f.attempt(r.RunID)
		if a.Outcome != guard.OutcomeNotStarted || a.Reason != "exec format error" || a.EndedAt.Before(a.StartedAt) || f.live(r.RunID) {
			f.Fatalf("attempt %+v, lease %+v", a, f.lease())
		}
		before := f.rows(theDate)
		f.nothing(f.a, r)
		f.undo(f.b, r, "exec format error")
		if run := f.guardRow(theDate); run != nil || len(f.attempts()) != len(before.Attempts) {
			f.Fatalf("after a second undo: %+v", f.rows(theDate))
		}
		got := f.granted(f.b, next)
		if got.Attempt != 1 || got.Token <= won.Token {
			f.Fatalf("the next run got %+v after %+v", got, won)
		}
		f.nothing(f.a, r)
		if !f.live(next.RunID) || f.guardRow(theDate).RunID != next.RunID {
			f.Fatalf("the next run lost something: %+v", f.rows(theDate))
		}
	}},
	{"undo_before_the_acquire", func(f *fixture) {
		for _, date := range []string{theDate, ""} {
			r := f.request(date)
			f.undo(f.a, r, "cut off")
			f.nothing(f.b, r) // the copy that was under way all the time
			if run := f.guardRow(date); run != nil {
				f.Fatalf("guard row %+v", run)
			}
			a := f.attempt(r.RunID)
			if a.Outcome != guard.OutcomeNotStarted || a.Date != date || a.Reason != "cut off" || !slices.Equal(a.Command, r.Command) ||
				a.Host != r.Host || a.OSUser != r.OSUser || a.Version != r.Version {
				f.Fatalf("attempt %+v", a)
			}
			next := f.request(date)
			if got := f.granted(f.b, next); got.Attempt != 1 {
				f.Fatalf("the next run got %+v", got)
			}
			f.finish(f.b, succeeded(next))
		}
	}},
	{"undo_undated", func(f *fixture) {
		r := f.request("")
		f.granted(f.a, r)
		f.undo(f.a, r, "not found")
		f.granted(f.b, f.request(""))
		if got := f.outcomes(); !slices.Equal(got, []string{"1 not_started", "1 running"}) {
			f.Fatalf("attempts %v", got)
		}
	}},
	{"undo_after_the_end", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		e := failed(r)
		e.AtLeast = theTTL / 2
		f.finish(f.a, e)
		before := f.rows(theDate)
		f.undo(f.a, r, "too late")
		f.unchanged(before, theDate)
		f.expire()
		f.refused(f.b, f.request(theDate), guard.WasFailed)
	}},
	{"undo_without_proof_of_death", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		e := ended(r, guard.OutcomeLost, nil, "", "process 99 can't be killed")
		e.KeepRunning = true
		f.finish(f.a, e)
		before := f.rows(theDate)
		f.undo(f.a, r, "too late")
		f.unchanged(before, theDate)
	}},
	{"undo_of_an_unknown", func(f *fixture) {
		// It comes late, from the outbox, when others have met the row already.
		r := f.request(theDate)
		f.granted(f.a, r)
		f.expire()
		f.refused(f.b, f.request(theDate), guard.IsUnknown)
		f.undo(f.a, r, "never started")
		if got := f.granted(f.b, f.request(theDate)); got.Attempt != 1 {
			f.Fatalf("the next run got %+v", got)
		}
		if got := f.outcomes(); !slices.Equal(got, []string{"1 not_started", "1 running"}) {
			f.Fatalf("attempts %v", got)
		}
	}},
	{"undo_late", func(f *fixture) {
		late, newer := f.request(theDate), f.request(theDate, "unknown")
		f.granted(f.a, late)
		f.expire()
		f.granted(f.b, newer)
		before := f.rows(theDate)
		f.undo(f.a, late, "never started")
		if got := f.attempt(late.RunID).Outcome; got != guard.OutcomeNotStarted {
			f.Fatalf("outcome %s", got)
		}
		before.Attempts = f.attempts()
		f.unchanged(before, theDate)
		if !f.live(newer.RunID) || f.attempt(newer.RunID).Outcome != guard.OutcomeRunning {
			f.Fatalf("the newer run lost something: %+v", f.rows(theDate))
		}
	}},
	{"undo_of_a_rerun", func(f *fixture) {
		// A rerun whose child never started leaves the door as shut as it was.
		for _, e := range endings {
			first, second := f.request(e.name), f.request(e.name, "failed", "unknown", "succeeded")
			f.granted(f.a, first)
			e.end(f, first)
			f.granted(f.b, second)
			f.undo(f.b, second, "not found")
			want := guard.Decide(&guard.Run{State: e.state}, false, guard.Rerun{})
			prior := f.refused(f.b, f.request(e.name), want).Prior
			if prior.RunID != first.RunID || prior.Attempt != 1 || !same(prior.ExitCode, e.row.ExitCode) ||
				prior.Signal != e.row.Signal || prior.Reason != e.row.Reason {
				f.Fatalf("%s: refused because of %+v", e.name, prior)
			}
			if got := f.granted(f.b, f.request(e.name, "failed", "unknown", "succeeded")); got.Attempt != 2 {
				f.Fatalf("%s: run again: %+v", e.name, got)
			}
			f.expire()
		}
	}},
	{"undo_of_a_second_rerun", func(f *fixture) {
		first, second, third := f.request(theDate), f.request(theDate, "failed"), f.request(theDate, "succeeded")
		f.granted(f.a, first)
		f.finish(f.a, failed(first))
		f.granted(f.a, second)
		f.finish(f.a, succeeded(second))
		f.granted(f.b, third)
		f.undo(f.b, third, "not found")
		if prior := f.refused(f.a, f.request(theDate), guard.AlreadyDone).Prior; prior.RunID != second.RunID || prior.Attempt != 2 {
			f.Fatalf("refused because of %+v", prior)
		}
	}},
}
