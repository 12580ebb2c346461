package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks"
)

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func isLost(err error) bool { return errors.Is(err, locks.ErrLost) }

func wantLost(tb testing.TB, err error) {
	tb.Helper()
	if !isLost(err) {
		tb.Errorf("renew: %v, want ErrLost", err)
	}
}

func wantState(tb testing.TB, err error, want ...string) {
	tb.Helper()
	for _, code := range want {
		if sqlState(err) == code {
			return
		}
	}
	tb.Errorf("got %v, want SQLSTATE %v", err, want)
}

func TestFence(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			d := newDatabase(t)
			s, other := store(t, d.dsn), store(t, d.dsn)
			r := request("eod", "2026-01-15")
			a := granted(t, s, r)
			ctx := bounded(t, time.Minute)
			tx := begin(t, d.dsn, level, "SELECT 1")
			var token int64
			if err := tx.QueryRow(ctx, "SELECT lockrun.fence($1)", r.RunID).Scan(&token); err != nil || token != a.Token {
				t.Fatalf("fence: %d %v, want the token %d", token, err, a.Token)
			}
			for range 5 {
				if err := s.Renew(ctx, r); err != nil {
					t.Fatalf("renew under an open fence: %v", err)
				}
			}
			started := time.Now()
			if a := acquire(t, other, request("eod", "2026-01-16")); a.Verdict != guard.Held || a.Held.Blocker != 0 {
				t.Fatalf("contender under an open fence: %+v %+v, want it held by the lease", a, a.Held)
			}
			if took := time.Since(started); took >= s.timing.Call/2 {
				t.Errorf("a contender waited %v for the fence of a live holder", took)
			}
			d.exec("UPDATE lockrun.lease SET expires_at = clock_timestamp()")
			wantLost(t, s.Renew(ctx, r))
			if a := acquire(t, other, request("eod", "2026-01-16")); a.Verdict != guard.Held || a.Held.Blocker != pidOf(tx) {
				t.Fatalf("take-over under an open fence: %+v %+v, want it held by the session %d", a, a.Held, pidOf(tx))
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if b := granted(t, other, request("eod", "2026-01-16")); b.Token <= a.Token {
				t.Errorf("token %d after %d", b.Token, a.Token)
			}
		})
	}
}

func TestFenceTurnsAway(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			d := newDatabase(t)
			s := store(t, d.dsn)
			r := request("eod", "2026-01-15")
			granted(t, s, r)
			ctx := bounded(t, time.Minute)
			fence := func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT lockrun.fence($1)", r.RunID)
				return err
			}
			// A snapshot that is older than the lease's last renewal is no reason.
			d.exec("UPDATE lockrun.lease SET expires_at = clock_timestamp() + interval '200 milliseconds'")
			early := begin(t, d.dsn, level, "SELECT 1 FROM lockrun.lease")
			d.exec("UPDATE lockrun.lease SET expires_at = clock_timestamp() + interval '1 minute'")
			eventually(t, "the lease that the snapshot shows is over", func() bool {
				return d.text("SELECT clock_timestamp() > renewed_at + interval '300 milliseconds' FROM lockrun.lease") == "true"
			})
			if err := fence(early); err != nil {
				t.Errorf("fence of a live run: %v", err)
			}
			if err := early.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			d.expire("eod")
			wantState(t, fence(begin(t, d.dsn, level, "SELECT 1")), "LR002")
			before := begin(t, d.dsn, level, "SELECT 1 FROM lockrun.lease")
			granted(t, s, request("eod", "2026-01-16"))
			wantState(t, fence(before), "LR001", "40001")
			wantState(t, fence(begin(t, d.dsn, level, "SELECT 1")), "LR001")
		})
	}
}

func TestFenceTrigger(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r, foreign := request("eod", "2026-01-15"), request("other", "")
	granted(t, s, r)
	granted(t, s, foreign)
	d.exec(`CREATE TABLE posting (n int);
CREATE TABLE booking (n int);
CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON posting FOR EACH STATEMENT EXECUTE FUNCTION lockrun.fence_trigger('eod');
CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON booking FOR EACH ROW EXECUTE FUNCTION lockrun.fence_trigger('eod');`)
	job := connectTo(t, d.dsn)
	ctx := bounded(t, time.Minute)
	write := func(session, sql string) error {
		if _, err := job.Exec(ctx, "SELECT set_config('lockrun.run_id', $1, false)", session); err != nil {
			t.Fatal(err)
		}
		_, err := job.Exec(ctx, sql)
		return err
	}
	for _, table := range []string{"posting", "booking"} {
		for _, c := range []struct{ session, want string }{{"", "LR003"}, {"nonsense", "LR003"}, {foreign.RunID, "LR003"}, {request("x", "").RunID, "LR001"}} {
			wantState(t, write(c.session, "INSERT INTO "+table+" VALUES (1)"), c.want)
		}
		for _, sql := range []string{"INSERT INTO " + table + " VALUES (1), (2)", "UPDATE " + table + " SET n = n + 10", "DELETE FROM " + table + " WHERE n = 12"} {
			if err := write(r.RunID, sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
		if got := d.text("SELECT string_agg(n::text, ' ') FROM " + table); got != "11" {
			t.Errorf("%s has %q, want what the job wrote", table, got)
		}
	}
	d.expire("eod")
	wantState(t, write(r.RunID, "INSERT INTO posting VALUES (1)"), "LR002")
	granted(t, s, request("eod", "2026-01-16"))
	wantState(t, write(r.RunID, "INSERT INTO posting VALUES (1)"), "LR001")
}
