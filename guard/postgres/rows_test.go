package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
)

func TestAbsurdLeases(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	for _, c := range []struct{ name, set, text string }{
		{"year_9999", "expires_at = '9999-12-31 23:00+00'", "holder of year_9999, with a lease that is absurdly long"},
		{"for_ever", "expires_at = 'infinity'", "absurdly long"},
		{"last_year_there_is", "expires_at = '294276-12-31 00:00+00', acquired_at = '4713-01-01 00:00+00 BC'", "absurdly long"},
		{"since_for_ever", "acquired_at = '-infinity'", "holder of since_for_ever"},
		{"renewed_long_ago", "expires_at = clock_timestamp() + interval '1 day', renewed_at = '-infinity'", "absurdly long"},
		{"no_holder", "holder = ''", "a holder without a name"},
		{"blank_holder", "holder = '  ', pid = -1", "a holder without a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := request(c.name, "2026-01-15")
			granted(t, s, first)
			d.exec("UPDATE lockrun.lease SET "+c.set+" WHERE name = $1", c.name)
			a := acquire(t, s, again(first, guard.Rerun{Unknown: true}))
			if a.Verdict != guard.Held || a.Held.By.RunID != first.RunID || !strings.Contains(a.Held.Error(), c.text) || !a.Held.By.Until.After(a.At) {
				t.Errorf("answer %+v: %v, want it held with %q", a, a.Held, c.text)
			}
		})
	}
	for _, set := range []string{"expires_at = '-infinity'", "expires_at = '-infinity', acquired_at = 'infinity', renewed_at = 'infinity', holder = ''"} {
		r := request("over", "")
		a := granted(t, s, r)
		d.exec("UPDATE lockrun.lease SET " + set + " WHERE name = 'over'")
		wantLost(t, s.Renew(bounded(t, time.Second), r))
		tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease WHERE name = 'over' FOR UPDATE")
		if b := acquire(t, s, request("over", "")); b.Verdict != guard.Held || b.Held.Blocker != pidOf(tx) || b.Held.By.RunID != r.RunID {
			t.Errorf("answer %+v %+v, want it held by the session %d", b, b.Held, pidOf(tx))
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b := granted(t, s, request("over", "")); b.Token != a.Token+1 {
			t.Errorf("token %d after %d", b.Token, a.Token)
		}
		d.expire("over")
	}
}

func TestAbsurdGuardRow(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	granted(t, s, r)
	finish(t, s, r, guard.OutcomeFailed)
	for _, set := range []string{"started_at = '-infinity', ended_at = 'infinity'", "started_at = 'infinity', ended_at = NULL", "exit_code = -2147483648, attempt = 0, signal = '', reason = ''"} {
		d.exec("UPDATE lockrun.run SET " + set)
		if a := acquire(t, s, again(r, guard.Rerun{})); a.Verdict != guard.WasFailed || a.Prior.RunID != r.RunID {
			t.Errorf("%s: answer %+v", set, a)
		}
	}
	d.exec("DELETE FROM lockrun.attempt") // the row alone shuts the door
	if a := acquire(t, s, again(r, guard.Rerun{})); a.Verdict != guard.WasFailed || a.Prior.Holder != "" {
		t.Errorf("without its attempt: answer %+v", a)
	}
}

// Rows that nobody can take, and that nobody has, are named: they are no race.
func TestSpoiltRows(t *testing.T) {
	for _, c := range []struct{ name, sql, next, says string }{
		{"state", "ALTER TABLE lockrun.run DROP CONSTRAINT run_state_check; UPDATE lockrun.run SET state = 'paused'",
			"lockrun resolve", `the row of "eod" and 2026-01-15 in lockrun.run has the state "paused"`},
		{"lease", "CREATE TRIGGER t BEFORE INSERT OR UPDATE ON lockrun.lease FOR EACH ROW EXECUTE FUNCTION public.drop_row(); UPDATE lockrun.run SET state = 'failed'",
			"triggers", `the row of "eod" in lockrun.lease is free, and can't be written`},
		{"no_lease", "DELETE FROM lockrun.lease; CREATE TRIGGER t BEFORE INSERT ON lockrun.lease FOR EACH ROW EXECUTE FUNCTION public.drop_row(); UPDATE lockrun.run SET state = 'failed'",
			"triggers", `the row of "eod" in lockrun.lease is free, and can't be written`},
		{"date", "CREATE TRIGGER t BEFORE INSERT OR UPDATE ON lockrun.run FOR EACH ROW EXECUTE FUNCTION public.drop_row()", "", "lockrun.run and lockrun.attempt can't"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t)
			s := store(t, d.dsn)
			r := request("eod", "2026-01-15")
			granted(t, s, r)
			finish(t, s, r, guard.OutcomeFailed)
			d.exec("CREATE FUNCTION public.drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
			d.exec(c.sql)
			_, err := s.Acquire(bounded(t, 3*time.Second), again(r, guard.Rerun{Failed: true}))
			if c.next == "" {
				wantText(t, err, c.says)
				return
			}
			wantSetup(t, err, c.next, c.says)
		})
	}
}

// There is a time before all times, and it is not "none".
func TestTimeBeforeAllTimes(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	granted(t, s, r)
	finish(t, s, r, guard.OutcomeFailed)
	d.exec("UPDATE lockrun.run SET started_at = '-infinity', ended_at = '-infinity'")
	d.exec("UPDATE lockrun.attempt SET started_at = '-infinity', ended_at = NULL")
	d.exec("UPDATE lockrun.lease SET acquired_at = '-infinity', expires_at = '-infinity'")
	a := acquire(t, s, again(r, guard.Rerun{}))
	if a.Prior == nil || a.Prior.StartedAt.IsZero() || a.Prior.EndedAt.IsZero() {
		t.Errorf("answer %+v %+v", a, a.Prior)
	}
	l := NewLedger(config(t, d.dsn))
	t.Cleanup(l.Close)
	rows, err := l.All(bounded(t, 5*time.Second), "")
	if err != nil {
		t.Fatal(err)
	}
	if run := rows.Runs[0]; run.StartedAt.IsZero() || run.EndedAt.IsZero() {
		t.Errorf("run %+v", run)
	}
	if attempt := rows.Attempts[0]; attempt.StartedAt.IsZero() || !attempt.EndedAt.IsZero() {
		t.Errorf("attempt %+v", attempt)
	}
	if lease := rows.Leases[0]; lease.AcquiredAt.IsZero() || lease.ExpiresAt.IsZero() {
		t.Errorf("lease %+v", lease)
	}
}

func TestAnythingInACommand(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	r.Command = []string{"a\x00b", "\xff\xfe", "", `{"x":[1,"2"]}`, `\`, "'; DROP TABLE lockrun.run; --", "{}", "NULL"}
	r.Holder, r.OSUser = "h\xffx\x00", ""
	granted(t, s, r)
	want := []string{"a\uFFFDb", "\uFFFD", "", `{"x":[1,"2"]}`, `\`, "'; DROP TABLE lockrun.run; --", "{}", "NULL"}
	var got []string
	if err := d.conn.QueryRow(t.Context(), "SELECT command FROM lockrun.attempt").Scan(&got); err != nil || !slices.Equal(got, want) {
		t.Errorf("command %q %v, want %q", got, err, want)
	}
	e := &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeFailed, Signal: "SIGKILL", Reason: "bad\x00\xffend"}
	if err := s.Finish(bounded(t, time.Second), e); err != nil {
		t.Fatal(err)
	}
	if a := acquire(t, s, again(r, guard.Rerun{})); a.Verdict != guard.WasFailed || a.Prior.Reason != "bad\uFFFD\uFFFDend" || a.Prior.Signal != "SIGKILL" || a.Prior.ExitCode != nil {
		t.Errorf("answer %+v %+v", a, a.Prior)
	}
	// Undated, with no command at all.
	none := request("none", "")
	none.Command = nil
	granted(t, s, none)
	if err := s.Undo(bounded(t, time.Second), none, ""); err != nil {
		t.Error(err)
	}
}

func TestRunIDMustBeAUUID(t *testing.T) {
	r := request("eod", "")
	r.RunID = "*/ DROP TABLE lockrun.run; /*"
	_, err := store(t, newDatabase(t).dsn).Acquire(bounded(t, time.Second), r)
	wantSetup(t, err, "", "UUID")
}

// The clock of the database decides which date is meant, also when the answer
// of the first try was lost.
func TestWrongDate(t *testing.T) {
	d := newDatabase(t)
	p, dsn := throughProxy(t, d.dsn)
	s := store(t, dsn)
	now := acquire(t, s, request("clock", "")).At
	r := request("eod", "2026-01-15")
	r.From, r.Before = now.Add(-25*time.Hour), now.Add(-time.Hour)
	r.Elapsed = func() time.Duration { return 90 * time.Second }
	a := acquire(t, s, r)
	if a.Verdict != guard.WrongDate || !a.Meant.Equal(a.At.Add(-90*time.Second)) {
		t.Fatalf("answer %+v, want the date to be wrong by the instant 90 s before", a)
	}
	if d.text("SELECT count(*) FROM lockrun.attempt WHERE name = 'eod'")+d.text("SELECT count(*) FROM lockrun.lease WHERE name = 'eod'") != "00" {
		t.Error("a wrong date took something")
	}
	r.Date, r.From, r.Before = "2026-01-16", now.Add(-time.Hour), now.Add(23*time.Hour)
	p.next(cut, 1)
	granted(t, s, r)
	// Its run id has that date now, and no other.
	r.Date = "2026-01-17"
	_, err := s.Acquire(bounded(t, time.Second), r)
	wantUnavailable(t, err, false, "has ended already")
	if d.state("eod", "2026-01-17") != "" || d.state("eod", "2026-01-16") != "running" {
		t.Error("one run id has two dates")
	}
}

// An acquire that the server looks at later than at the question why: by the one the
// date was over when lockrun was started, by the other it was not.
func TestSlowAcquireAtTheEndOfADate(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	now := acquire(t, s, request("clock", "")).At
	r := request("eod", "2026-01-15")
	r.From, r.Before = now.Add(-time.Hour), now
	asked := 0
	r.Elapsed = func() time.Duration {
		asked++
		return time.Duration(asked-1) * 10 * time.Second
	}
	if a := acquire(t, s, r); a.Verdict != guard.WrongDate || a.Meant.Before(r.Before) {
		t.Errorf("answer %+v, want that date to be over", a)
	}
	if asked != 2 {
		t.Errorf("it was asked %d times", asked)
	}
}
