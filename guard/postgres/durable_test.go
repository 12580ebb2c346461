package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// seen records what a transaction of lockrun has set when it writes.
const seen = `
CREATE TABLE seen (setting text, isolation text);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit'), current_setting('transaction_isolation')); RETURN NEW; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE ON lockrun.lease FOR EACH ROW EXECUTE FUNCTION see();
CREATE TRIGGER see AFTER INSERT OR UPDATE ON lockrun.attempt FOR EACH ROW EXECUTE FUNCTION see();`

func TestEveryCommitIsDurable(t *testing.T) {
	for _, c := range []struct{ server, want string }{
		{"off", "on"}, {"local", "on"}, {"remote_write", "on"}, {"on", "on"}, {"remote_apply", "remote_apply"},
	} {
		t.Run(c.server, func(t *testing.T) {
			d := newDatabase(t)
			name := pgx.Identifier{d.text("SELECT current_database()")}.Sanitize()
			d.exec(seen)
			d.exec("ALTER DATABASE " + name + " SET synchronous_commit = " + c.server)
			d.exec("ALTER DATABASE " + name + " SET default_transaction_isolation = serializable")
			s := store(t, d.dsn)
			r := request("eod", "2026-01-15")
			check := func(what string) {
				t.Helper()
				got := d.text("SELECT string_agg(DISTINCT setting || ', ' || isolation, '; ') FROM seen")
				if got != c.want+", read committed" {
					t.Errorf("%s was committed with %q, want %s, read committed", what, got, c.want)
				}
				d.exec("TRUNCATE seen")
			}
			granted(t, s, r)
			check("an acquire")
			if err := s.Renew(bounded(t, time.Second), r); err != nil {
				t.Fatal(err)
			}
			check("a renewal")
			finish(t, s, r, guard.OutcomeFailed)
			check("a finish")
			if err := s.Undo(bounded(t, time.Second), request("eod", "2026-01-16"), "why"); err != nil {
				t.Fatal(err)
			}
			check("an undo")
			if got := queryText(t, s.conn, "SELECT current_setting('synchronous_commit') || ' ' || current_setting('lock_timeout')"); got != c.server+" 0" {
				t.Errorf("the session is left with %q, want %q", got, c.server+" 0")
			}
		})
	}
}

func TestCrash(t *testing.T) {
	pg := locktest.StartPostgres(t, "synchronous_commit=off", "wal_writer_delay=10s")
	d := initDatabase(t, pg.DSN("postgres"))
	d.exec("CREATE TABLE control (n int)")
	s := store(t, d.dsn)
	crash := func() {
		t.Helper()
		d.exec("INSERT INTO control VALUES (1)")
		pg.Kill()
		pg.Start()
		d.conn = connectTo(t, d.dsn)
	}
	r := request("eod", "2026-01-15")
	a := granted(t, s, r)
	crash()
	if d.state("eod", "2026-01-15") != "running" || d.text("SELECT token FROM lockrun.lease") != queryText(t, d.conn, "SELECT $1::bigint", a.Token) || d.outcome(r.RunID) != "running" {
		t.Fatal("a crash undid a grant")
	}
	d.exec("UPDATE lockrun.lease SET expires_at = clock_timestamp() + interval '1 minute'") // the restart took its time
	finish(t, s, r, guard.OutcomeFailed)
	crash()
	if d.state("eod", "2026-01-15") != "failed" || d.outcome(r.RunID) != "failed" {
		t.Fatal("a crash undid the record of an end")
	}
	if n := d.text("SELECT count(*) FROM control"); n == "2" {
		t.Error("the control rows survived: this server does not lose commits, so the test shows nothing")
	}
}

// A commit that waits for a standby, and whose wait is cancelled, reports
// success; it is none.
func TestCommitWithoutItsStandby(t *testing.T) {
	pg := locktest.StartPostgres(t)
	d := initDatabase(t, pg.DSN("postgres"))
	d.exec("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
	d.exec("ALTER SYSTEM SET synchronous_commit = 'local'") // the others' commits wait for nobody
	d.exec("ALTER SYSTEM SET client_min_messages = 'error'")
	d.exec("SELECT pg_reload_conf()")
	eventually(t, "the standby is missed", func() bool {
		return queryText(t, connectTo(t, d.dsn), "SELECT current_setting('synchronous_standby_names') || current_setting('client_min_messages')") == "missingerror"
	})
	s := store(t, d.dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	asked := make(chan error, 1)
	r := request("eod", "2026-01-15")
	go func() {
		a, err := s.Acquire(ctx, r)
		if err == nil {
			err = errors.New("an answer that can't be relied on: " + map[bool]string{true: "granted"}[a.Verdict == guard.Granted])
		}
		asked <- err
	}()
	cancelled := 0
	for ctx.Err() == nil {
		if d.text("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lockrun' AND wait_event = 'SyncRep'") != "0" {
			cancelled++
		}
	}
	wantUnavailable(t, <-asked, true)
	if cancelled == 0 {
		t.Error("no wait was cancelled: the test shows nothing")
	}
	if d.state("eod", "2026-01-15") != "running" {
		t.Error("nothing was committed on the primary: the test shows nothing")
	}
	d.exec("ALTER SYSTEM RESET synchronous_standby_names")
	d.exec("SELECT pg_reload_conf()")
	if err := s.Undo(bounded(t, 20*time.Second), r, "no answer"); err != nil {
		t.Fatal(err)
	}
	granted(t, s, again(r, guard.Rerun{}))
}
