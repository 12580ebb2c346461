package guardtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// A start that failed leaves the door as a person left it.
func undoneAfterResolve(f *ledgerFixture) {
	again := []string{"failed", "unknown", "succeeded"}
	for _, as := range []guard.Decision{guard.AsSucceeded, guard.AsFailed, guard.AsRerun} {
		for _, e := range endings {
			if e.state == guard.Succeeded {
				continue
			}
			date := fmt.Sprint(as, "-", e.name)
			first := f.request(date)
			f.granted(f.a, first)
			e.end(f.fixture, first)
			f.expire()
			if _, err := f.resolve(date, as); err != nil {
				f.Fatal(err)
			}
			door := f.guardRow(date)
			for range 2 { // and so does the next one that fails
				r := f.request(date, again...)
				f.granted(f.b, r)
				f.undo(f.b, r, "not found")
				f.sameDoor(date, door)
			}
			r := f.request(date)
			if as == guard.AsRerun {
				if got := f.granted(f.a, r); got.Attempt != 2 {
					f.Fatalf("%s: run again: %+v", date, got)
				}
				f.expire()
				continue
			}
			f.refused(f.a, r, map[guard.Decision]guard.Verdict{guard.AsSucceeded: guard.AlreadyDone, guard.AsFailed: guard.WasFailed}[as])
		}
	}
}

// sameDoor fails unless the guard row is as it was; nil = there is none.
func (f *ledgerFixture) sameDoor(date string, was *guard.Run) {
	f.Helper()
	is := f.guardRow(date)
	if is == nil || was == nil {
		if is != was {
			f.Fatalf("%s: guard row %+v was %+v", date, is, was)
		}
		return
	}
	if is.State != was.State || is.RunID != was.RunID || is.Attempt != was.Attempt || !is.StartedAt.Equal(was.StartedAt) || !is.EndedAt.Equal(was.EndedAt) ||
		!same(is.ExitCode, was.ExitCode) || is.Signal != was.Signal || is.Reason != was.Reason {
		f.Fatalf("%s: guard row %+v was %+v", date, is, was)
	}
}

// The last word counts: of several decisions, and of an attempt after them.
func undoneAfterMore(f *ledgerFixture) {
	decide := func(as guard.Decision) {
		f.Helper()
		if _, err := f.resolve(theDate, as); err != nil {
			f.Fatal(err)
		}
	}
	undone := func(again ...string) {
		f.Helper()
		r := f.request(theDate, again...)
		f.granted(f.b, r)
		f.undo(f.b, r, "not found")
	}
	first, second := f.request(theDate), f.request(theDate)
	f.granted(f.a, first)
	f.finish(f.a, failed(first))
	decide(guard.AsFailed)
	decide(guard.AsRerun)
	undone()
	f.granted(f.a, second)
	f.finish(f.a, failed(second))
	undone("failed")
	if prior := f.refused(f.b, f.request(theDate), guard.WasFailed).Prior; prior.RunID != second.RunID || prior.Attempt != 2 {
		f.Fatalf("refused because of %+v", prior)
	}
	decide(guard.AsFailed)
	decide(guard.AsSucceeded)
	undone("succeeded")
	if prior := f.refused(f.b, f.request(theDate), guard.AlreadyDone).Prior; prior.RunID != second.RunID {
		f.Fatalf("refused because of %+v", prior)
	}

	// What was decided of a run stands, also when it turns out that it never started.
	r := f.request("2026-02-01")
	f.granted(f.a, r)
	f.expire()
	if _, err := f.resolve(r.Date, guard.AsFailed); err != nil {
		f.Fatal(err)
	}
	f.undo(f.a, r, "never started")
	last := f.request(r.Date, "failed")
	f.granted(f.b, last)
	f.undo(f.b, last, "not found")
	f.refused(f.b, f.request(r.Date), guard.WasFailed)
}

// Whoever is refused because of a lease that only --at-least keeps is told so.
func decidesAtLeast(f *ledgerFixture) {
	ended := func(date string, unproved bool) *guard.Request {
		f.Helper()
		r := f.request(date)
		f.granted(f.a, r)
		e := failed(r)
		e.AtLeast, e.KeepRunning = 48*time.Hour, unproved
		f.finish(f.a, e)
		return r
	}
	standing := func(r *guard.Request) guard.Standing {
		f.Helper()
		list := f.latest(f.name)
		i := slices.IndexFunc(list, func(s guard.Standing) bool { return s.RunID == r.RunID })
		if i < 0 || !list[i].Held {
			f.Fatalf("overview %+v, want the lease of %s", list, r.RunID)
		}
		return list[i]
	}
	r := ended("2026-03-01", false)
	f.lh.Shift(f.T, f.name, -25*time.Hour, 23*time.Hour)
	if got := standing(r).Notes; len(got) != 1 || !strings.Contains(got[0], "the run has ended") {
		f.Fatalf("notes %q", got)
	}
	f.lh.Shift(f.T, f.name, -time.Second, 47*time.Hour)
	var held *locks.HeldError
	if _, err := f.resolve(r.Date, guard.AsRerun); !errors.As(err, &held) || !held.Ended {
		f.Fatalf("resolve: %v", err)
	}
	if _, _, err := f.release(false); !errors.As(err, &held) || !held.Ended {
		f.Fatalf("release: %v", err)
	}
	was, done, err := f.release(true)
	if err != nil || !done || !was.Ended || f.live(r.RunID) {
		f.Fatalf("forced release: %+v, %v, %v", was, done, err)
	}
	if _, err := f.resolve(r.Date, guard.AsRerun); err != nil {
		f.Fatalf("resolve: %v", err)
	}
	f.granted(f.b, f.request(r.Date))
	f.expire()

	// One whose death is not proved is.
	r = ended("2026-03-02", true)
	if got := standing(r).Notes; len(got) != 0 {
		f.Fatalf("notes %q", got)
	}
	held = nil
	if _, err := f.resolve(r.Date, guard.AsRerun); !errors.As(err, &held) || held.Ended {
		f.Fatalf("resolve: %v", err)
	}
	if _, _, err := f.release(false); !errors.As(err, &held) || held.Ended {
		f.Fatalf("release: %v", err)
	}
}
