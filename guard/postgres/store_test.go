package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"lockrun/guard"
)

func TestStore(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	a := granted(t, s, r)
	if a.Attempt != 1 || a.Token>>32 != 1 {
		t.Errorf("first answer %+v, want attempt 1 and a token of timeline 1", a)
	}
	other := acquire(t, s, again(r, guard.Rerun{}))
	if other.Verdict != guard.Held || other.Held.By.RunID != r.RunID || other.Held.By.Text != r.Holder || other.Held.By.PID != r.PID ||
		other.Held.By.Token != a.Token || !other.Held.By.Until.After(other.At) || other.Held.By.Since.After(other.At) {
		t.Errorf("second answer %+v %+v, want it held by the first", other, other.Held)
	}
	if err := s.Renew(bounded(t, time.Second), r); err != nil {
		t.Error(err)
	}
	finish(t, s, r, guard.OutcomeSucceeded)
	if d.live(r.Name) || d.state(r.Name, r.Date) != "succeeded" || d.outcome(r.RunID) != "succeeded" {
		t.Error("a finished run is not recorded or still holds its lease")
	}
	done := acquire(t, s, again(r, guard.Rerun{Failed: true, Unknown: true}))
	if done.Verdict != guard.AlreadyDone || done.Prior.RunID != r.RunID || *done.Prior.ExitCode != 0 || done.Prior.Host != r.Host ||
		done.Prior.EndedAt.Before(done.Prior.StartedAt) {
		t.Errorf("third answer %+v %+v, want it done by the first", done, done.Prior)
	}
	if b := granted(t, s, again(r, guard.Rerun{Succeeded: true})); b.Attempt != 2 || b.Token <= a.Token {
		t.Errorf("rerun %+v, want attempt 2 and a larger token than %d", b, a.Token)
	}
}

func TestRoundTrips(t *testing.T) {
	d := newDatabase(t)
	s := connected(t, d.dsn, 1)[0]
	var wire bytes.Buffer
	s.conn.PgConn().Frontend().Trace(&wire, pgproto3.TracerOptions{SuppressTimestamps: true})
	took := func(want int, what string) {
		t.Helper()
		if n := bytes.Count(wire.Bytes(), []byte("B\tReadyForQuery")); n != want {
			t.Errorf("%s took %d round trips, want %d:\n%s", what, n, want, wire.String())
		}
		wire.Reset()
	}
	r := request("eod", "2026-01-15")
	granted(t, s, r)
	took(1, "a granted acquire")
	acquire(t, s, again(r, guard.Rerun{}))
	took(2, "a refused acquire")
	if err := s.Renew(bounded(t, time.Second), r); err != nil {
		t.Fatal(err)
	}
	took(1, "a renewal")
	finish(t, s, r, guard.OutcomeSucceeded)
	took(1, "a finish")
	if err := s.Undo(bounded(t, time.Second), request("eod", "2026-01-16"), "why"); err != nil {
		t.Fatal(err)
	}
	took(1, "an undo")
	acquire(t, s, again(r, guard.Rerun{}))
	took(2, "an acquire of a date that is done")
}
