package guardtest

import (
	"errors"
	"slices"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

var renewTests = []test{
	{"renew", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		before := f.lease()
		r.TTL = 3 * theTTL
		if err := f.a.Renew(f.ctx(), r); err != nil {
			f.Fatalf("renew: %v", err)
		}
		after := f.lease()
		f.near("renewed by", after.ExpiresAt.Sub(before.ExpiresAt), 2*theTTL)
		if after.RenewedAt.Before(before.RenewedAt) || after.RenewedAt.After(f.now()) ||
			!after.AcquiredAt.Equal(before.AcquiredAt) || after.Token != before.Token || after.RunID != r.RunID {
			f.Fatalf("lease %+v became %+v", before, after)
		}
	}},
	{"renew_what_is_not_ours", func(f *fixture) {
		r := f.request(theDate)
		f.lost(f.b, f.request(theDate)) // there is no row at all
		f.granted(f.a, r)
		before := f.rows(theDate)
		f.lost(f.b, f.request(theDate))
		f.unchanged(before, theDate)
	}},
	{"renew_after_expiry", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		f.expire()
		before := f.rows(theDate)
		f.lost(f.a, r)
		f.unchanged(before, theDate) // never revived
		other := f.request(theDate, "unknown")
		f.granted(f.b, other)
		f.lost(f.a, r)
		if !f.live(other.RunID) {
			f.Fatal("the new holder lost its lease")
		}
	}},
	{"renew_after_the_end", func(f *fixture) {
		r := f.request("")
		f.granted(f.a, r)
		f.finish(f.a, succeeded(r))
		f.lost(f.a, r)
	}},
}

var finishTests = []test{
	{"finish", func(f *fixture) {
		for _, e := range endings {
			if e.state == guard.Running {
				continue
			}
			r := f.request(e.name)
			won := f.granted(f.a, r)
			e.end(f, r)
			run, row, lease := f.guardRow(r.Date), f.attempt(r.RunID), f.lease()
			if run.State != e.state || run.EndedAt.Before(run.StartedAt) || !same(run.ExitCode, e.row.ExitCode) ||
				run.Signal != e.row.Signal || run.Reason != e.row.Reason || run.RunID != r.RunID || run.Attempt != 1 {
				f.Fatalf("%s: guard row %+v", e.name, run)
			}
			if row.Outcome.State() != e.state || row.EndedAt.Before(row.StartedAt) || !same(row.ExitCode, e.row.ExitCode) ||
				row.Signal != e.row.Signal || row.Reason != e.row.Reason {
				f.Fatalf("%s: attempt %+v", e.name, row)
			}
			if f.live(r.RunID) || lease.RunID != r.RunID || lease.Token != won.Token || lease.ExpiresAt.Before(won.At) {
				f.Fatalf("%s: lease %+v, want it ended now", e.name, lease)
			}
		}
		if got := f.outcomes(); !slices.Equal(got, []string{"1 succeeded", "1 failed", "1 failed", "1 lost", "1 timeout"}) {
			f.Fatalf("attempts %v", got)
		}
	}},
	{"finish_twice", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		f.finish(f.a, succeeded(r))
		before := f.rows(theDate)
		f.finish(f.b, succeeded(r))
		f.finish(f.b, failed(r))
		f.unchanged(before, theDate)
		f.nothing(f.a, r)
		f.unchanged(before, theDate)
	}},
	{"finish_late", func(f *fixture) {
		late, newer := f.request(theDate), f.request(theDate, "unknown")
		f.granted(f.a, late)
		f.expire()
		f.granted(f.b, newer)
		before := f.rows(theDate)
		f.finish(f.a, failed(late))
		if a := f.attempt(late.RunID); a.Outcome != guard.OutcomeFailed || !same(a.ExitCode, code(3)) || a.EndedAt.IsZero() {
			f.Fatalf("the late attempt %+v", a)
		}
		before.Attempts = f.attempts()
		f.unchanged(before, theDate)
		if a := f.attempt(newer.RunID); a.Outcome != guard.OutcomeRunning || !f.live(newer.RunID) {
			f.Fatalf("the newer attempt %+v", a)
		}
	}},
	{"finish_of_an_unknown", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		f.expire()
		f.refused(f.b, f.request(theDate), guard.IsUnknown)
		lease := f.lease()
		f.finish(f.a, succeeded(r))
		if a := f.attempt(r.RunID); a.Outcome != guard.OutcomeSucceeded || !same(a.ExitCode, code(0)) {
			f.Fatalf("attempt %+v", a)
		}
		if l := f.lease(); l.ExpiresAt.After(lease.ExpiresAt) && f.live(r.RunID) {
			f.Fatalf("lease %+v, before %+v", l, lease)
		}
		f.refused(f.b, f.request(theDate), guard.AlreadyDone)
	}},
	{"finish_of_no_run", func(f *fixture) {
		for _, date := range []string{theDate, ""} {
			r := f.request(date)
			var setup *locks.SetupError
			var none *guard.NoRunError
			if err := f.a.Finish(f.ctx(), succeeded(r)); !errors.As(err, &setup) || !errors.As(err, &none) {
				f.Fatalf("finish of a run that never was: %v", err)
			}
			if got := f.rows(date); got.Lease != nil || got.Run != nil || len(got.Attempts) > 0 {
				f.Fatalf("rows %+v", got)
			}
		}
	}},
	{"finish_undated_late", func(f *fixture) {
		late, newer := f.request(""), f.request("")
		f.granted(f.a, late)
		f.expire()
		f.granted(f.b, newer)
		lease := f.lease()
		f.finish(f.a, succeeded(late))
		if got := f.attempt(late.RunID).Outcome; got != guard.OutcomeSucceeded {
			f.Fatalf("outcome %s", got)
		}
		if got := f.lease(); *got != *lease || f.attempt(newer.RunID).Outcome != guard.OutcomeRunning {
			f.Fatalf("lease %+v became %+v", lease, got)
		}
	}},
	{"finish_without_proof_of_death", func(f *fixture) {
		r := f.request(theDate)
		f.granted(f.a, r)
		lease := f.lease()
		e := ended(r, guard.OutcomeLost, nil, "", "process 99 can't be killed")
		e.KeepRunning = true
		f.finish(f.a, e)
		if got := f.lease(); *got != *lease {
			f.Fatalf("lease %+v became %+v", lease, got)
		}
		if run := f.guardRow(theDate); run.State != guard.Running || !run.EndedAt.IsZero() {
			f.Fatalf("guard row %+v", run)
		}
		if a := f.attempt(r.RunID); a.Outcome != guard.OutcomeLost || a.Reason != e.Reason {
			f.Fatalf("attempt %+v", a)
		}
		if held := f.refused(f.b, f.request(theDate, "failed", "unknown"), guard.Held).Held; held.Ended {
			f.Fatalf("held by %+v, want a run whose end is not proved", held)
		}
		f.expire()
		f.refused(f.b, f.request(theDate, "failed"), guard.IsUnknown)
		if got := f.outcomes(); !slices.Equal(got, []string{"1 lost"}) {
			f.Fatalf("attempts %v", got)
		}
	}},
	{"finish_at_least", func(f *fixture) {
		for _, atLeast := range []time.Duration{theTTL / 2, 10 * theTTL} {
			r := f.request("")
			f.granted(f.a, r)
			e := succeeded(r)
			e.AtLeast = atLeast
			f.finish(f.a, e)
			l := f.lease()
			f.near("lease", l.ExpiresAt.Sub(l.AcquiredAt), atLeast)
			if held := f.refused(f.b, f.request(""), guard.Held).Held; !held.Ended || held.By.RunID != r.RunID {
				f.Fatalf("held by %+v, want a run that has ended", held)
			}
			if got := f.attempt(r.RunID).Outcome; got != guard.OutcomeSucceeded {
				f.Fatalf("outcome %s", got)
			}
			f.expire()
			e.AtLeast = 20 * theTTL // a late copy never gives life to what is over
			f.finish(f.a, e)
			if f.live(r.RunID) {
				f.Fatalf("lease %+v is live again", f.lease())
			}
		}
	}},
}

// lost renews and fails unless the store says that the lease is lost.
func (f *fixture) lost(s guard.Store, r *guard.Request) {
	f.Helper()
	if err := s.Renew(f.ctx(), r); !errors.Is(err, locks.ErrLost) {
		f.Fatalf("renew: %v, want ErrLost", err)
	}
}
