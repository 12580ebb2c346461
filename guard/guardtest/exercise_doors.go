package guardtest

import (
	"fmt"
	"slices"
	"strings"

	"lockrun/guard"
)

// ending is a way in which an attempt ends, for what comes after it.
type ending struct {
	name  string
	state guard.State
	end   func(f *fixture, r *guard.Request)
	row   guard.Run // how the row tells it
}

var endings = []ending{
	{"succeeded", guard.Succeeded, func(f *fixture, r *guard.Request) {
		f.finish(f.a, succeeded(r))
	}, guard.Run{ExitCode: code(0)}},
	{"failed", guard.Failed, func(f *fixture, r *guard.Request) {
		f.finish(f.a, failed(r))
	}, guard.Run{ExitCode: code(3)}},
	{"killed", guard.Failed, func(f *fixture, r *guard.Request) {
		f.finish(f.a, ended(r, guard.OutcomeFailed, nil, "SIGSEGV", ""))
	}, guard.Run{Signal: "SIGSEGV"}},
	{"lost", guard.Failed, func(f *fixture, r *guard.Request) {
		f.finish(f.a, ended(r, guard.OutcomeLost, nil, "SIGTERM", "the lease was lost"))
	}, guard.Run{Signal: "SIGTERM", Reason: "the lease was lost"}},
	{"timeout", guard.Failed, func(f *fixture, r *guard.Request) {
		f.finish(f.a, ended(r, guard.OutcomeTimeout, code(7), "", "--max-runtime"))
	}, guard.Run{ExitCode: code(7), Reason: "--max-runtime"}},
	{"silent", guard.Running, func(f *fixture, r *guard.Request) {
		f.expire()
	}, guard.Run{}},
}

var doorTests = []test{
	{"door", func(f *fixture) {
		for _, e := range endings {
			for mask := range 8 {
				again := guard.Rerun{Failed: mask&1 != 0, Unknown: mask&2 != 0, Succeeded: mask&4 != 0}
				want := guard.Decide(&guard.Run{State: e.state}, false, again)
				date := fmt.Sprintf("%s-%d", e.name, mask)
				first, second := f.request(date), f.request(date)
				second.Rerun = again
				one := f.granted(f.a, first)
				e.end(f, first)
				before := f.rows(date)
				if want == guard.Granted {
					two := f.granted(f.b, second)
					if two.Attempt != 2 || two.Token <= one.Token {
						f.Fatalf("%s run again: %+v after %+v", date, two, one)
					}
					f.opened(before, second)
					f.finish(f.b, succeeded(second))
				} else {
					f.shut(before, f.refused(f.b, second, want).Prior, first, e.row)
				}
			}
		}
	}},
	{"door_while_running", func(f *fixture) {
		f.granted(f.a, f.request(theDate))
		f.refused(f.b, f.request(theDate, "failed", "unknown", "succeeded"), guard.Held)
		if got := f.outcomes(); !slices.Equal(got, []string{"1 running"}) {
			f.Fatalf("attempts %v", got)
		}
	}},
	{"door_while_another_date_runs", func(f *fixture) {
		done, bad := f.request("2026-03-01"), f.request("2026-03-02")
		f.granted(f.a, done)
		f.finish(f.a, succeeded(done))
		f.granted(f.a, bad)
		f.finish(f.a, failed(bad))
		f.granted(f.a, f.request("2026-03-03"))
		f.refused(f.b, f.request(done.Date), guard.AlreadyDone)
		f.refused(f.b, f.request(bad.Date), guard.WasFailed)
		f.refused(f.b, f.request(bad.Date, "failed"), guard.Held)
	}},
	{"attempts_are_numbered", func(f *fixture) {
		for i, e := range []string{"failed", "undone", "silent", "undone", "succeeded", "undone", "killed"} {
			r := f.request(theDate, "failed", "unknown", "succeeded")
			a := f.granted(f.a, r)
			if want := 1 + (i+1)/2; a.Attempt != want {
				f.Fatalf("attempt after %v has the number %d, want %d", f.outcomes(), a.Attempt, want)
			}
			if e == "undone" {
				f.undo(f.a, r, "never started")
				continue
			}
			endings[slices.IndexFunc(endings, func(c ending) bool { return c.name == e })].end(f, r)
		}
		kept := []string{}
		for _, line := range f.outcomes() {
			if !strings.HasSuffix(line, "not_started") {
				kept = append(kept, line)
			}
		}
		if !slices.Equal(kept, []string{"1 failed", "2 unknown", "3 succeeded", "4 failed"}) || len(f.outcomes()) != 7 {
			f.Fatalf("attempts %v", f.outcomes())
		}
		// Another date counts for itself.
		if a := f.granted(f.b, f.request("2026-03-02")); a.Attempt != 1 {
			f.Fatalf("another date: %+v", a)
		}
	}},
}

// shut checks the row of a door that stayed shut, and that nothing was taken.
func (f *fixture) shut(before rows, prior *guard.Run, first *guard.Request, want guard.Run) {
	f.Helper()
	if prior.Name != f.name || prior.Date != first.Date || prior.RunID != first.RunID || prior.Attempt != 1 ||
		prior.State != before.Run.State || prior.Holder != first.Holder || prior.Host != first.Host || prior.PID != first.PID ||
		!prior.StartedAt.Equal(before.Run.StartedAt) || !prior.EndedAt.Equal(before.Run.EndedAt) ||
		!same(prior.ExitCode, want.ExitCode) || prior.Signal != want.Signal || prior.Reason != want.Reason {
		f.Fatalf("%s: refused because of %+v, the row is %+v", first.Date, prior, before.Run)
	}
	// Whoever meets a running attempt without a lease says that it is unknown.
	for i, a := range before.Attempts {
		if a.RunID == first.RunID && a.Outcome == guard.OutcomeRunning {
			before.Attempts[i].Outcome = guard.OutcomeUnknown
		}
	}
	if f.now().Before(f.lease().ExpiresAt) {
		f.Fatalf("%s: a refused run left a live lease", first.Date)
	}
	before.Lease = f.lease() // it may have been taken and given back
	f.unchanged(before, first.Date)
}

// opened checks that a date that runs again has kept its earlier attempt.
func (f *fixture) opened(before rows, second *guard.Request) {
	f.Helper()
	run := f.guardRow(second.Date)
	if run.RunID != second.RunID || run.Attempt != 2 || run.State != guard.Running || !run.EndedAt.IsZero() ||
		run.ExitCode != nil || run.Signal != "" || run.Reason != "" || run.StartedAt.Before(before.Run.StartedAt) {
		f.Fatalf("guard row of the second attempt %+v", run)
	}
	want := before.Attempts[len(before.Attempts)-1]
	if want.Outcome == guard.OutcomeRunning {
		want.Outcome = guard.OutcomeUnknown
	}
	got := f.attempt(want.RunID)
	if got.Outcome != want.Outcome || got.Attempt != 1 || !same(got.ExitCode, want.ExitCode) ||
		got.Signal != want.Signal || got.Reason != want.Reason || !got.EndedAt.Equal(want.EndedAt) {
		f.Fatalf("the earlier attempt %+v became %+v", want, got)
	}
}

func same(a, b *int) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
