package guardtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// Audit is a row of the table audit.
type Audit = guard.Audit

// LedgerHarness gives the suite a database with its ledger.
type LedgerHarness interface {
	Harness
	// Ledger returns another ledger of the database. The suite closes it.
	Ledger(t *testing.T) guard.Ledger
	// Shift sets the times of a lease, counted from now by the store's clock.
	Shift(t *testing.T, name string, renewed, expires time.Duration)
	// Audits reads the audit rows of name in the order in which they were made.
	Audits(t *testing.T, name string) []Audit
}

// ExerciseLedger checks what every [guard.Ledger] promises, as [Exercise] does
// for stores.
func ExerciseLedger(t *testing.T, open func(t *testing.T) LedgerHarness) {
	h := open(t)
	for name, run := range map[string]func(f *ledgerFixture){
		"reads": reads, "resolve": resolves, "resolve_of_a_rerun": resolvesRerun, "resolve_refuses": resolveRefuses, "late_finish": resolvedThenLate,
		"undo_after_resolve": undoneAfterResolve, "undo_after_more": undoneAfterMore, "at_least": decidesAtLeast, "note": notes,
		"release": releases, "release_refuses": releaseRefuses,
	} {
		t.Run(name, func(t *testing.T) {
			f := &ledgerFixture{fixture: &fixture{h: h, T: t, name: fmt.Sprintf("record-%s-%d", name, serial.Add(1))}, lh: h}
			f.a, f.b = f.open(), f.open()
			f.ledger = h.Ledger(t)
			t.Cleanup(f.ledger.Close)
			run(f)
		})
	}
}

type ledgerFixture struct {
	*fixture
	lh     LedgerHarness
	ledger guard.Ledger
}

func (f *ledgerFixture) latest(name string) []guard.Standing {
	f.Helper()
	rows, err := f.ledger.Latest(f.ctx(), name)
	if err != nil {
		f.Fatal(err)
	}
	return guard.Overview(rows)
}

// line is what an overview says of one run, in short.
func line(s guard.Standing) string {
	return fmt.Sprint(s.Date, " ", s.State, " ", s.Attempt, " ", s.Held)
}

func lines(list []guard.Standing) []string {
	all := []string{}
	for _, s := range list {
		all = append(all, line(s))
	}
	return all
}

func reads(f *ledgerFixture) {
	if list := f.latest(f.name); len(list) != 0 {
		f.Fatalf("a name that never ran: %v", lines(list))
	}
	first, second, third := f.request("2026-03-01"), f.request("2026-03-02"), f.request("2026-03-03")
	f.granted(f.a, first)
	f.finish(f.a, failed(first))
	f.granted(f.a, second)
	f.expire()
	won := f.granted(f.a, third)
	list := f.latest(f.name)
	if got := lines(list); !slices.Equal(got, []string{"2026-03-03 running 1 true", "2026-03-02 unknown 1 false"}) {
		f.Fatalf("overview %v", got)
	}
	s := list[0]
	if s.RunID != third.RunID || s.Token != won.Token || s.Holder != third.Holder || s.Host != third.Host || s.PID != third.PID || s.AcquiredAt.IsZero() || len(s.Notes) > 0 {
		f.Fatalf("holder %+v", s)
	}
	f.near("expiry", s.ExpiresAt.Sub(s.RenewedAt), theTTL)
	all := f.latest("")
	if !slices.ContainsFunc(all, func(s guard.Standing) bool { return s.RunID == third.RunID }) {
		f.Fatalf("it is not among all names: %v", lines(all))
	}
	rows, err := f.ledger.All(f.ctx(), f.name)
	if err != nil || len(rows.Runs) != 3 || len(rows.Leases) != 1 || rows.At.IsZero() {
		f.Fatalf("rows %+v, %v", rows, err)
	}
	history := guard.History(rows)
	if got := []string{string(history[0].Outcome), string(history[1].Outcome), string(history[2].Outcome)}; !slices.Equal(got, []string{"running", "unknown", "failed"}) {
		f.Fatalf("history %v", got)
	}
	a := history[2]
	if a.RunID != first.RunID || !same(a.ExitCode, code(3)) || !slices.Equal(a.Command, first.Command) || a.EndedAt.IsZero() || a.OSUser != first.OSUser || a.Version != first.Version {
		f.Fatalf("attempt %+v", a)
	}
	if !f.live(third.RunID) || f.attempt(second.RunID).Outcome != guard.OutcomeRunning {
		f.Fatal("reading has changed something")
	}
}

func (f *ledgerFixture) resolve(date string, as guard.Decision) (guard.Run, error) {
	f.Helper()
	was, audit, err := f.ledger.Resolve(f.ctx(), &guard.Resolution{Name: f.name, Date: date, As: as, Reason: "the ledger \"is\" balanced", Actor: "ops@desk"})
	if err == nil {
		f.recorded(audit)
	}
	return was, err
}

// recorded compares what a change returned with the last row of the table.
func (f *ledgerFixture) recorded(got *Audit) {
	f.Helper()
	rows := f.lh.Audits(f.T, f.name)
	last := rows[len(rows)-1]
	if got == nil || !got.At.Equal(last.At) || got.Actor != last.Actor || got.Action != last.Action || got.Name != f.name || got.Date != last.Date ||
		got.Reason != last.Reason || got.Before != last.Before || got.After != last.After {
		f.Fatalf("returned %+v, recorded %+v", got, last)
	}
	f.near("the audit's time", f.now().Sub(last.At), 0)
}

func resolves(f *ledgerFixture) {
	for _, as := range []guard.Decision{guard.AsSucceeded, guard.AsFailed} {
		for _, e := range endings {
			if e.state == guard.Succeeded {
				continue
			}
			date := fmt.Sprint(as, "-", e.name)
			r := f.request(date)
			f.granted(f.a, r)
			e.end(f.fixture, r)
			f.expire()
			was := f.attempt(r.RunID)
			before, err := f.resolve(date, as)
			if err != nil || before.State != e.state || before.RunID != r.RunID {
				f.Fatalf("%s: %+v, %v", date, before, err)
			}
			run, a := f.guardRow(date), f.attempt(r.RunID)
			if run.State != guard.State(as) || run.EndedAt.Before(run.StartedAt) || run.Reason != "the ledger \"is\" balanced" || !same(run.ExitCode, before.ExitCode) {
				f.Fatalf("%s: guard row %+v", date, run)
			}
			if was.Outcome == guard.OutcomeRunning {
				was.Outcome = guard.OutcomeUnknown
			}
			if a.Outcome != was.Outcome || !same(a.ExitCode, was.ExitCode) || !strings.Contains(a.Reason, "resolved as "+string(as)+" by ops@desk") || !strings.Contains(a.Reason, was.Reason) {
				f.Fatalf("%s: attempt %+v was %+v", date, a, was)
			}
			audits := f.lh.Audits(f.T, f.name)
			au := audits[len(audits)-1]
			if au.Action != "resolve" || au.Date != date || !strings.HasPrefix(au.Actor, "ops@desk") || au.Reason != "the ledger \"is\" balanced" ||
				column(f.T, au.Before, "state") != string(e.state) || column(f.T, au.After, "state") != string(as) || column(f.T, au.Before, "run_id") != r.RunID {
				f.Fatalf("%s: audit %+v", date, au)
			}
			want := guard.AlreadyDone
			if as == guard.AsFailed {
				want = guard.WasFailed
			}
			f.refused(f.b, f.request(date), want)
		}
	}
}

// column reads one value of a row as JSON.
func column(t *testing.T, row, name string) any {
	t.Helper()
	var columns map[string]any
	if err := json.Unmarshal([]byte(row), &columns); err != nil {
		t.Fatalf("row %q: %v", row, err)
	}
	return columns[name]
}

func resolvesRerun(f *ledgerFixture) {
	r := f.request(theDate)
	f.granted(f.a, r)
	f.expire()
	f.refused(f.a, f.request(theDate), guard.IsUnknown)
	if _, err := f.resolve(theDate, guard.AsRerun); err != nil {
		f.Fatal(err)
	}
	if au := f.lh.Audits(f.T, f.name); len(au) != 1 || au[0].After != "" || column(f.T, au[0].Before, "attempt") != 1.0 {
		f.Fatalf("audit %+v", au)
	}
	next := f.request(theDate)
	if got := f.granted(f.b, next); got.Attempt != 2 {
		f.Fatalf("the next run got %+v", got)
	}
	f.finish(f.b, failed(next))
	f.refused(f.a, f.request(theDate), guard.WasFailed) // one more, not any number
	if got := f.outcomes(); !slices.Equal(got, []string{"1 unknown", "2 failed"}) {
		f.Fatalf("attempts %v", got)
	}
}

func resolveRefuses(f *ledgerFixture) {
	if _, err := f.resolve(theDate, guard.AsFailed); !errors.Is(err, guard.ErrNotFound) {
		f.Fatalf("no such date: %v", err)
	}
	r := f.request(theDate)
	f.granted(f.a, r)
	before := f.rows(theDate)
	var held *locks.HeldError
	if _, err := f.resolve(theDate, guard.AsFailed); !errors.As(err, &held) || held.By.Text != r.Holder || held.By.PID != r.PID || held.By.Until.IsZero() {
		f.Fatalf("a live one: %v", err)
	}
	f.unchanged(before, theDate)
	f.finish(f.a, succeeded(r))
	before = f.rows(theDate)
	var settled *guard.SettledError
	if _, err := f.resolve(theDate, guard.AsRerun); !errors.As(err, &settled) || settled.Run.RunID != r.RunID {
		f.Fatalf("a done one: %v", err)
	}
	f.unchanged(before, theDate)
	if au := f.lh.Audits(f.T, f.name); len(au) != 0 {
		f.Fatalf("audit of refusals %+v", au)
	}
	// Another date's run is no obstacle: it proves that the lease was lost.
	old, now := f.request("2026-02-01"), f.request("2026-02-02")
	f.granted(f.a, old)
	f.expire()
	f.granted(f.b, now)
	if _, err := f.resolve("2026-02-01", guard.AsFailed); err != nil {
		f.Fatal(err)
	}
	if !f.live(now.RunID) {
		f.Fatal("the other run lost its lease")
	}
}

// A person's decision stands, whatever a run says later; the attempt tells both.
func resolvedThenLate(f *ledgerFixture) {
	r := f.request(theDate)
	f.granted(f.a, r)
	f.expire()
	if _, err := f.resolve(theDate, guard.AsSucceeded); err != nil {
		f.Fatal(err)
	}
	f.finish(f.a, failed(r))
	if run := f.guardRow(theDate); run.State != guard.Succeeded {
		f.Fatalf("guard row %+v", run)
	}
	if a := f.attempt(r.RunID); a.Outcome != guard.OutcomeFailed || !strings.HasPrefix(a.Reason, "resolved as succeeded by ") || !strings.HasSuffix(a.Reason, failed(r).Reason) {
		f.Fatalf("attempt %+v", a)
	}
	r = f.request("2026-02-01")
	f.granted(f.a, r)
	f.expire()
	if _, err := f.resolve(r.Date, guard.AsFailed); err != nil {
		f.Fatal(err)
	}
	f.undo(f.a, r, "never started")
	a := f.attempt(r.RunID)
	if a.Outcome != guard.OutcomeNotStarted || !strings.HasPrefix(a.Reason, "resolved as failed by ") || !strings.HasSuffix(a.Reason, "; never started") {
		f.Fatalf("attempt %+v", a)
	}
}
