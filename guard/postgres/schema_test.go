package postgres

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/guard/guardtest"
	"lockrun/locks/locktest"
)

// asRole is the connection string of another login.
func asRole(dsn, role string) string { return strings.Replace(dsn, "postgres@", role+"@", 1) }

func TestInit(t *testing.T) {
	pg := locktest.StartPostgres(t) // roles belong to the cluster: this one has none of lockrun's
	admin := connectTo(t, pg.DSN("postgres"))
	pg.Exec(t, "postgres", "CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE postgres TO owner; CREATE ROLE nobody LOGIN")
	cfg := config(t, asRole(pg.DSN("postgres"), "owner"))

	_, err := Init(bounded(t, 20*time.Second), config(t, asRole(pg.DSN("postgres"), "nobody")))
	wantSetup(t, err, "CREATE on the database", "permission denied")

	ctx := bounded(t, time.Minute)
	created := make(chan bool, 20)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			made, err := Init(ctx, cfg)
			if err != nil {
				t.Error(err)
			}
			if made == guard.Created {
				created <- true
			}
		})
	}
	wg.Wait()
	if len(created) != 1 {
		t.Errorf("%d of 20 inits created the schema, want 1", len(created))
	}
	if n := queryText(t, admin, "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'lockrun%'"); n != "0" {
		t.Errorf("init made %s roles, want none", n)
	}
	if v := queryText(t, admin, "SELECT string_agg(version::text, ' ') FROM lockrun.meta"); v != "1" {
		t.Errorf("lockrun.meta has %q, want 1", v)
	}
	granted(t, store(t, asRole(pg.DSN("postgres"), "owner")), request("eod", "2026-01-15"))
	if made, err := Init(ctx, cfg); made != guard.Unchanged || err != nil {
		t.Errorf("init again: %v %v", made, err)
	}
	if n := queryText(t, admin, "SELECT count(*) FROM lockrun.run"); n != "1" {
		t.Errorf("init again left %s guard rows of 1", n)
	}

	pg.Exec(t, "postgres", "UPDATE lockrun.meta SET version = 2")
	_, err = Init(ctx, cfg)
	wantSetup(t, err, "newer lockrun", "version 2")
}

func TestSchemaIsTheContracts(t *testing.T) {
	d := newDatabase(t)
	for table, want := range map[string]string{
		"lease":   "name run_id token holder pid acquired_at renewed_at expires_at",
		"run":     "name run_date state run_id attempt started_at ended_at exit_code signal reason",
		"attempt": "run_id name run_date attempt token holder host pid os_user command started_at ended_at outcome exit_code signal reason version",
		"meta":    "version",
		"audit":   "at actor action name run_date reason before after",
	} {
		got := d.text("SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = ('lockrun.' || $1)::regclass AND attnum > 0", table)
		if got != want {
			t.Errorf("%s has the columns %q, want %q", table, got, want)
		}
	}
	if n := d.text("SELECT count(*) FROM pg_class WHERE relnamespace = 'lockrun'::regnamespace AND relpersistence <> 'p'"); n != "0" {
		t.Errorf("%s tables or indexes don't survive a crash", n)
	}
	if fn := d.text(`SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'lockrun'::regnamespace
AND proconfig::text LIKE '%search_path%' AND NOT has_function_privilege('pg_monitor', oid, 'EXECUTE')`); fn != "fence fence_trigger token_base" {
		t.Errorf("functions with a pinned search_path that not everybody may call: %q", fn)
	}
}

// TestSchemaSQL runs what init --print prints, and then the whole contract as a
// login that has nothing but the role for it.
func TestSchemaSQL(t *testing.T) {
	pg := locktest.SharedPostgres(t)
	dsn := pg.Database(t)
	admin := connectTo(t, dsn)
	run := func() {
		t.Helper()
		if _, err := admin.PgConn().Exec(bounded(t, 20*time.Second), SchemaSQL()).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	run()
	run()
	made := &database{TB: t, dsn: dsn, conn: admin}
	made.exec("CREATE ROLE runner LOGIN; GRANT lockrun_runner TO runner; CREATE ROLE job LOGIN; GRANT lockrun_job TO job; CREATE ROLE stranger LOGIN")
	if created, err := Init(bounded(t, 20*time.Second), config(t, asRole(dsn, "runner"))); created != guard.Unchanged || err != nil {
		t.Errorf("init after the printed SQL: %v %v", created, err)
	}
	if d := newDatabase(t); schemaText(d) != schemaText(made) {
		t.Error("init and the SQL that it prints make different schemas")
	}
	runner := &database{TB: t, dsn: asRole(dsn, "runner"), conn: admin}
	guardtest.Exercise(t, func(*testing.T) guardtest.Harness { return &harness{runner} })

	r := request("eod", "2026-01-15")
	a := granted(t, store(t, runner.dsn), r)
	t.Run("job", func(t *testing.T) {
		ctx, job := bounded(t, 20*time.Second), connectTo(t, asRole(dsn, "job"))
		if got := queryText(t, job, "SELECT lockrun.fence($1)", r.RunID); got != queryText(t, job, "SELECT $1::bigint", a.Token) {
			t.Errorf("fence gave %s, want the token %d", got, a.Token)
		}
		for _, sql := range []string{"SELECT 1 FROM lockrun.lease", "DELETE FROM lockrun.run", "SELECT lockrun.token_base()", "INSERT INTO lockrun.meta VALUES (2)"} {
			_, err := job.Exec(ctx, sql)
			wantState(t, err, "42501")
		}
	})
	t.Run("runner", func(t *testing.T) {
		ctx, conn := bounded(t, 20*time.Second), connectTo(t, runner.dsn)
		for _, sql := range []string{
			"DELETE FROM lockrun.lease", "DELETE FROM lockrun.attempt", "DELETE FROM lockrun.audit", "UPDATE lockrun.audit SET reason = ''",
			"UPDATE lockrun.meta SET version = 2", "DROP TABLE lockrun.run", "CREATE TABLE lockrun.t (n int)", "TRUNCATE lockrun.run",
		} {
			_, err := conn.Exec(ctx, sql)
			wantState(t, err, "42501")
		}
		if _, err := conn.Exec(ctx, "INSERT INTO lockrun.audit (actor, action, name, reason) VALUES ('me', 'release', 'eod', 'why')"); err != nil {
			t.Error(err)
		}
	})
	t.Run("stranger", func(t *testing.T) {
		_, err := store(t, asRole(dsn, "stranger")).Acquire(bounded(t, 20*time.Second), request("eod", ""))
		wantSetup(t, err, "lockrun_runner", "permission denied")
	})
}

// schemaText describes all that is in the schema, but for grants.
func schemaText(d *database) string {
	return d.text(`SELECT string_agg(x, E'\n' ORDER BY x) FROM (
  SELECT attrelid::regclass || ' ' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull AS x
    FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'lockrun'::regnamespace AND attnum > 0
  UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'lockrun'::regnamespace
  UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'lockrun'::regnamespace) all_of_it`)
}

func TestAcquireNeedsItsSchema(t *testing.T) {
	ctx := bounded(t, time.Minute)
	bare := locktest.SharedPostgres(t).Database(t)
	_, err := store(t, bare).Acquire(ctx, request("eod", ""))
	wantSetup(t, err, "lockrun init", "lockrun")
	for _, c := range []struct{ name, sql, next, says string }{
		{"newer", "UPDATE lockrun.meta SET version = 2", "newer lockrun", "version 2"},
		{"older", "UPDATE lockrun.meta SET version = 0", "lockrun init", "version 0"},
		{"two_rows", "INSERT INTO lockrun.meta VALUES (1)", "", "2 rows"},
		{"no_row", "DELETE FROM lockrun.meta", "lockrun init", "empty"},
		{"no_table", "DROP TABLE lockrun.attempt", "lockrun init", "attempt"},
		{"no_column", "ALTER TABLE lockrun.run DROP reason", "lockrun init", "reason"},
		{"no_function", "DROP FUNCTION lockrun.token_base", "lockrun init", "token_base"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t)
			d.exec(c.sql)
			_, err := store(t, d.dsn).Acquire(ctx, request("eod", "2026-01-15"))
			wantSetup(t, err, c.next, c.says)
			if c.name != "no_table" {
				if n := d.text("SELECT count(*) FROM lockrun.lease") + d.text("SELECT count(*) FROM lockrun.run") + d.text("SELECT count(*) FROM lockrun.attempt"); n != "000" {
					t.Errorf("rows of lease, run, attempt: %s, want none", n)
				}
			}
		})
	}
}

// The outcome must not depend on what a server, database or role prefers.
func TestContractUnderOtherDefaults(t *testing.T) {
	for _, c := range []struct{ name, setting string }{
		{"repeatable_read", "default_transaction_isolation = 'repeatable read'"},
		{"serializable", "default_transaction_isolation = 'serializable'"},
		{"odd_formats", "DateStyle = 'German, DMY'"},
		{"far_zone", "TimeZone = 'Pacific/Kiritimati'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t)
			name := d.text("SELECT current_database()")
			d.exec("ALTER DATABASE " + pgx.Identifier{name}.Sanitize() + " SET " + c.setting)
			if c.name == "odd_formats" { // the harness can't read such dates, the store must
				s := store(t, d.dsn)
				r := request("eod", "2026-01-15")
				granted(t, s, r)
				if a := acquire(t, s, again(r, guard.Rerun{})); a.Verdict != guard.Held || time.Until(a.Held.By.Until) > time.Minute {
					t.Errorf("answer %+v", a)
				}
				return
			}
			guardtest.Exercise(t, func(*testing.T) guardtest.Harness { return &harness{d} })
		})
	}
}
