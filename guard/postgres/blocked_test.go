package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// begin opens a transaction in a session of its own and runs sql in it.
func begin(tb testing.TB, dsn string, level pgx.TxIsoLevel, sql string, args ...any) pgx.Tx {
	tb.Helper()
	ctx := bounded(tb, time.Minute)
	tx, err := connectTo(tb, dsn).BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		tb.Fatal(err)
	}
	return tx
}

func pidOf(tx pgx.Tx) int { return int(tx.Conn().PgConn().PID()) }

func TestAcquireBehindAnOperator(t *testing.T) {
	pg := locktest.StartPostgres(t)
	d := initDatabase(t, pg.DSN("postgres"))
	bouncer := locktest.StartPgBouncer(t, pg, "postgres", "transaction", 5)
	for name, dsn := range map[string]string{"direct": d.dsn, "pgbouncer": bouncer.DSN()} {
		t.Run(name, func(t *testing.T) {
			s := store(t, dsn)
			first := request(name, "2026-01-15")
			granted(t, s, first)
			d.expire(name)
			tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease WHERE name = $1 FOR UPDATE", name)
			r := request(name, "2026-01-16")
			started := time.Now()
			a := acquire(t, s, r)
			if a.Verdict != guard.Held || a.Held.Blocker != pidOf(tx) || a.Held.By.Text != first.Holder || a.Held.By.RunID != first.RunID {
				t.Errorf("answer %+v %+v, want it held by the session %d", a, a.Held, pidOf(tx))
			}
			if took := time.Since(started); took > 2*s.timing.Call {
				t.Errorf("took %v, want it bounded by two calls of %v", took, s.timing.Call)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			granted(t, s, r)
		})
	}
}

// Behind others that wait, the one that keeps everybody waiting is named.
func TestAcquireBehindAQueue(t *testing.T) {
	d := newDatabase(t)
	granted(t, store(t, d.dsn), request("eod", ""))
	d.expire("eod")
	tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease FOR UPDATE")
	waiting := connectTo(t, d.dsn)
	ctx := bounded(t, 20*time.Second)
	done := make(chan error, 1)
	go func() {
		_, err := waiting.Exec(ctx, "SELECT 1 FROM lockrun.lease FOR UPDATE")
		done <- err
	}()
	eventually(t, "the other session waits", func() bool {
		return d.text("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $1::int", strconv.Itoa(int(waiting.PgConn().PID()))) == "Lock"
	})
	if a := acquire(t, store(t, d.dsn), request("eod", "")); a.Verdict != guard.Held || a.Held.Blocker != pidOf(tx) {
		t.Errorf("answer %+v %+v, want it held by the session %d", a, a.Held, pidOf(tx))
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A request that waits for a row may be waiting for its own first copy.
func TestAcquireBehindItsOwnCopy(t *testing.T) {
	d := newDatabase(t)
	p, dsn := throughProxy(t, d.dsn)
	granted(t, store(t, d.dsn), request("eod", "2026-01-14"))
	d.expire("eod")
	tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease FOR UPDATE")
	p.next(cut, 1)
	_, err := store(t, dsn).Acquire(bounded(t, 3*time.Second), request("eod", "2026-01-15"))
	wantUnavailable(t, err, true, "keeps the row locked")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// While a request waits for the lease row its snapshot grows old: what it then
// finds to be shut must leave nothing taken, and be explained by another look.
func TestAcquireOvertakenWhileItWaits(t *testing.T) {
	for _, c := range []struct {
		name, sql string
		check     func(t *testing.T, a guard.Answer, err error)
	}{
		{"date_done", `INSERT INTO lockrun.run (name, run_date, state, run_id, attempt, started_at, ended_at, exit_code)
VALUES ('eod', '2026-01-16', 'succeeded', gen_random_uuid(), 1, now(), now(), 0)`, func(t *testing.T, a guard.Answer, err error) {
			if err != nil || a.Verdict != guard.AlreadyDone || a.Prior == nil {
				t.Errorf("answer %+v %v, want it to be done", a, err)
			}
		}},
		{"run_undone", `INSERT INTO lockrun.attempt (run_id, name, run_date, attempt, token, holder, host, pid, os_user, command, started_at, outcome, version)
VALUES ($1, 'eod', '2026-01-16', 1, 0, '', '', 1, '', '{}', now(), 'not_started', '')`, func(t *testing.T, _ guard.Answer, err error) {
			wantUnavailable(t, err, false, "undone")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t)
			s := store(t, d.dsn)
			granted(t, s, request("eod", "2026-01-15"))
			d.expire("eod")
			before := d.text("SELECT token FROM lockrun.lease")
			tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease FOR UPDATE")
			r := request("eod", "2026-01-16")
			ctx, done := bounded(t, 20*time.Second), make(chan struct{})
			var a guard.Answer
			var err error
			go func() {
				defer close(done)
				a, err = s.Acquire(ctx, r)
			}()
			eventually(t, "the acquire waits", func() bool {
				return d.text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockrun' AND wait_event_type = 'Lock' AND datname = current_database()") == "1"
			})
			if _, err := tx.Exec(ctx, strings.ReplaceAll(c.sql, "$1", "'"+r.RunID+"'")); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			<-done
			c.check(t, a, err)
			if d.live("eod") || d.text("SELECT token FROM lockrun.lease") != before || d.outcome(r.RunID) == "running" {
				t.Error("it left something taken")
			}
		})
	}
}

func TestRenewBehindAnOperator(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	granted(t, s, r)
	tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease FOR UPDATE")
	wantUnavailable(t, s.Renew(bounded(t, 5*time.Second), r), false, "keeps the row locked")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A renewal that had to wait for a locked row while the lease ran out must not
// revive it, whether the row was changed meanwhile or not.
func TestRenewOfALeaseThatEndsWhileItWaits(t *testing.T) {
	for _, change := range []string{"", "UPDATE lockrun.lease SET holder = holder"} {
		t.Run("row_changed_"+map[bool]string{true: "yes", false: "no"}[change != ""], func(t *testing.T) {
			d := newDatabase(t)
			s := New(config(t, d.dsn), timing(t, 24*time.Second)) // waits three seconds for a row
			t.Cleanup(s.Close)
			r := request("eod", "2026-01-15")
			granted(t, s, r)
			d.exec("UPDATE lockrun.lease SET expires_at = clock_timestamp() + interval '500 milliseconds'")
			tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease FOR UPDATE")
			ctx, renewed := bounded(t, 20*time.Second), make(chan error, 1)
			go func() { renewed <- s.Renew(ctx, r) }()
			eventually(t, "the renewal waits", func() bool {
				return d.text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockrun' AND wait_event_type = 'Lock' AND datname = current_database()") == "1"
			})
			eventually(t, "the lease is over", func() bool { return !d.live("eod") })
			if _, err := tx.Exec(ctx, change); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			wantLost(t, <-renewed)
			if d.live("eod") {
				t.Error("the lease was revived")
			}
		})
	}
}

// The wait for the row must not be taken off the lease.
func TestLeaseIsFullAfterAWait(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	granted(t, s, request("eod", ""))
	d.expire("eod")
	tx := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1 FROM lockrun.lease FOR UPDATE")
	r := request("eod", "")
	ctx, done := bounded(t, 20*time.Second), make(chan error, 1)
	go func() {
		a, err := s.Acquire(ctx, r)
		if err == nil && a.Verdict != guard.Granted {
			err = fmt.Errorf("answer %+v", a)
		}
		done <- err
	}()
	eventually(t, "the acquire waits", func() bool {
		return d.text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockrun' AND wait_event_type = 'Lock' AND datname = current_database()") == "1"
	})
	free := d.text("SELECT clock_timestamp()")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if left := d.text("SELECT expires_at - $1::text::timestamptz - interval '6 seconds' FROM lockrun.lease", free); strings.HasPrefix(left, "-") {
		t.Errorf("the lease is short by %s", left)
	}
}
