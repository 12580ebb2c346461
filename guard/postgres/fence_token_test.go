package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// An upgrade takes neither lease nor fence from a run that is under way, and the
// tokens go on from where they were.
func TestTokenAfterAnUpgrade(t *testing.T) {
	printed := func(schema guard.Schema) func(*database) error {
		return func(d *database) error {
			_, err := d.conn.PgConn().Exec(bounded(d, 20*time.Second), schemaScript(schema)).ReadAll()
			return err
		}
	}
	for name, upgrade := range map[string]func(*database) error{
		"init": func(d *database) error {
			_, err := initWith(bounded(d, 20*time.Second), config(d, d.dsn), nextSchema())
			return err
		},
		"printed":       printed(nextSchema()),
		"printed_again": printed(theSchema),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			s := store(t, d.dsn)
			r := request("eod", "2026-01-15")
			a := granted(t, s, r)
			ctx := bounded(t, time.Minute)
			job := begin(t, d.dsn, pgx.ReadCommitted, "SELECT 1")
			if _, err := fenceIn(ctx, job, r.RunID); err != nil {
				t.Fatal(err)
			}
			if err := upgrade(d); err != nil {
				t.Fatal(err)
			}
			if token, err := fenceIn(ctx, job, r.RunID); err != nil || token != a.Token {
				t.Errorf("the fence of a run under way: %d %v, want the token %d", token, err, a.Token)
			}
			if err := job.Commit(ctx); err != nil {
				t.Error(err)
			}
			d.exec("UPDATE lockrun.meta SET version = $1", guard.SchemaVersion) // a program of that version, as it were
			if err := s.Renew(ctx, r); err != nil {
				t.Error(err)
			}
			finish(t, s, r, guard.OutcomeSucceeded)
			if b := granted(t, s, request("eod", "2026-01-16")); b.Token != a.Token+1 {
				t.Errorf("token %d after %d", b.Token, a.Token)
			}
		})
	}
}

// A dump that was restored into a new cluster brings tokens of a later timeline
// than that cluster's.
func TestTokenOfALaterTimeline(t *testing.T) {
	d := newDatabase(t)
	s := store(t, d.dsn)
	granted(t, s, request("eod", ""))
	const brought = 9<<32 + 7
	d.exec("UPDATE lockrun.lease SET token = $1, expires_at = clock_timestamp()", int64(brought))
	if a := granted(t, s, request("eod", "")); a.Token != brought+1 {
		t.Errorf("token %d after %d", a.Token, int64(brought))
	}
}

// An asynchronous standby is promoted that has missed the latest acquisitions,
// one of them the first of its name: no token comes twice or goes back, and the
// runs that are lost with them are refused at the new primary.
func TestTokenAfterPromotion(t *testing.T) {
	primary := locktest.StartPostgres(t, "wal_level=replica", "max_wal_senders=4")
	d := initDatabase(t, primary.DSN("postgres"))
	s := store(t, d.dsn)
	latest := map[string]guard.Answer{}
	runs := map[string]*guard.Request{}
	take := func(s *Store, name string) {
		t.Helper()
		r := request(name, "")
		a := granted(t, s, r)
		if before := latest[name]; a.Token <= before.Token || a.Token <= 0 {
			t.Errorf("%s got token %d after %d", name, a.Token, before.Token)
		}
		latest[name], runs[name] = a, r
	}
	for range 3 {
		take(s, "known")
		d.expire("known")
	}
	standby := locktest.NewPostgres(t)
	standby.Tool("pg_basebackup", "-D", standby.Data(), "-h", "127.0.0.1", "-p", fmt.Sprint(primary.Port()), "-U", "postgres", "-X", "stream", "-c", "fast", "-R")
	for _, name := range []string{"known", "new"} { // the copy sees none of this
		for range 20 {
			take(s, name)
			d.expire(name)
		}
		take(s, name)
	}
	primary.Kill()

	standby.Start() // it finds no primary any more, and has what the copy has
	promoted := &database{TB: t, dsn: standby.DSN("postgres"), conn: connectTo(t, standby.DSN("postgres"))}
	if held := promoted.text("SELECT string_agg(name, ' ') FROM lockrun.lease WHERE run_id <> $1::uuid", runs["known"].RunID); held != "known" {
		t.Fatalf("the standby has the rows %q, want an older one of %q alone", held, "known")
	}
	promoted.exec("SELECT pg_promote()")
	stale := map[string]string{"known": runs["known"].RunID, "new": runs["new"].RunID}
	after := store(t, promoted.dsn)
	for _, name := range []string{"known", "new"} {
		for range 3 {
			take(after, name)
			promoted.expire(name)
		}
		_, err := fenceIn(bounded(t, time.Minute), begin(t, promoted.dsn, pgx.ReadCommitted, "SELECT 1"), stale[name])
		wantState(t, err, "LR001")
	}
}
