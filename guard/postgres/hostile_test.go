package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// closer holds functions and operators that fit calls of lockrun's SQL more
// closely than those of pg_catalog do, so that they win from a schema that is
// behind it in the search path. SCHEMA is that schema.
const closer = `
CREATE FUNCTION SCHEMA.evil_fault() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'a foreign function was called by %', session_user; END $f$;
CREATE FUNCTION SCHEMA.evil_product(numeric, int) RETURNS numeric LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN 1; END $f$;
CREATE OPERATOR SCHEMA.* (LEFTARG = numeric, RIGHTARG = int, FUNCTION = SCHEMA.evil_product);
CREATE FUNCTION SCHEMA.evil_span(bigint, interval) RETURNS interval LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN $2; END $f$;
CREATE OPERATOR SCHEMA.* (LEFTARG = bigint, RIGHTARG = interval, FUNCTION = SCHEMA.evil_span);
CREATE FUNCTION SCHEMA.evil_join(text, name) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN $1; END $f$;
CREATE OPERATOR SCHEMA.|| (LEFTARG = text, RIGHTARG = name, FUNCTION = SCHEMA.evil_join);
CREATE FUNCTION SCHEMA.unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); END $f$;
CREATE FUNCTION SCHEMA.unnest(int[]) RETURNS SETOF int LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); END $f$;
CREATE FUNCTION SCHEMA.cardinality(int[]) RETURNS int LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN 0; END $f$;
CREATE FUNCTION SCHEMA.concat_ws(text, text, text) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN $1; END $f$;
CREATE FUNCTION SCHEMA.format(text, text) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN $1; END $f$;
CREATE FUNCTION SCHEMA.to_jsonb(record) RETURNS jsonb LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN NULL; END $f$;
CREATE FUNCTION SCHEMA.to_regclass(name) RETURNS regclass LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); RETURN NULL; END $f$;
`

// twins gives the schema a copy, that raises an error, of each operator and
// function of pg_catalog which lockrun's SQL could mean. They win from a schema
// in front of pg_catalog.
const twins = `
DO $do$
DECLARE
  o record;
  n int := 0;
  plain oid[] := ARRAY['text','int4','int8','bool','timestamptz','interval','numeric','uuid','oid','name','jsonb','regclass','regnamespace']::regtype[]::oid[];
BEGIN
  FOR o IN SELECT oprname AS name, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS result FROM pg_operator
            WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprleft = ANY (plain) AND oprright = ANY (plain) AND oprresult = ANY (plain) LOOP
    n := n + 1;
    EXECUTE pg_catalog.format('CREATE FUNCTION SCHEMA.twin_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN PERFORM SCHEMA.evil_fault(); END''', n, o.l, o.r, o.result);
    EXECUTE pg_catalog.format('CREATE OPERATOR SCHEMA.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = SCHEMA.twin_%s)', o.name, o.l, o.r, n);
  END LOOP;
  FOR o IN SELECT proname AS name, pg_get_function_identity_arguments(oid) AS args, prorettype::regtype AS result FROM pg_proc
            WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset AND provariadic = 0
              AND proname IN ('set_config', 'current_setting', 'clock_timestamp', 'transaction_timestamp', 'now', 'to_regclass', 'to_regnamespace',
                'pg_advisory_xact_lock', 'pg_blocking_pids', 'pg_backend_pid', 'pg_is_in_recovery', 'pg_has_role', 'has_schema_privilege',
                'has_table_privilege', 'has_function_privilege', 'pg_walfile_name', 'pg_current_wal_lsn', 'substr', 'session_user', 'current_database') LOOP
    EXECUTE pg_catalog.format('CREATE FUNCTION SCHEMA.%I(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN PERFORM SCHEMA.evil_fault(); END''', o.name, o.args, o.result);
  END LOOP;
END $do$;
CREATE FUNCTION SCHEMA.evil_larger(int, int) RETURNS int LANGUAGE plpgsql AS $f$ BEGIN PERFORM SCHEMA.evil_fault(); END $f$;
CREATE AGGREGATE SCHEMA.max(int) (SFUNC = SCHEMA.evil_larger, STYPE = int, INITCOND = '0');
CREATE TABLE SCHEMA.pg_class (oid oid); CREATE TABLE SCHEMA.pg_proc (oid oid); CREATE TABLE SCHEMA.pg_roles (oid oid, rolname name);
CREATE TABLE SCHEMA.pg_namespace (oid oid); CREATE TABLE SCHEMA.pg_stat_activity (pid int); CREATE TABLE SCHEMA.pg_database (oid oid);
`

// What others can create in the database must never run as lockrun's login.
func TestForeignNames(t *testing.T) {
	pg := locktest.StartPostgres(t) // init --print makes roles
	pg.Exec(t, "postgres", "CREATE ROLE job LOGIN")
	bare, closely := pg.Database(t), pg.Database(t)
	for _, c := range []struct{ name, dsn, schema, path, sql string }{
		{"behind_pg_catalog", closely, "public", "", closer},
		{"before_pg_catalog", bare, "shadow", "shadow, pg_catalog", closer + twins},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := &database{TB: t, dsn: c.dsn, conn: connectTo(t, c.dsn)}
			name := admin.text("SELECT current_database()")
			admin.exec("CREATE SCHEMA IF NOT EXISTS " + c.schema)
			admin.exec("GRANT CREATE, USAGE ON SCHEMA " + c.schema + " TO job; GRANT USAGE ON SCHEMA " + c.schema + " TO PUBLIC")
			job := connectTo(t, asRole(c.dsn, "job"))
			if _, err := job.PgConn().Exec(bounded(t, 20*time.Second), strings.ReplaceAll(c.sql, "SCHEMA", c.schema)).ReadAll(); err != nil {
				t.Fatal(err)
			}
			if c.path != "" {
				admin.exec("ALTER DATABASE " + name + " SET search_path = " + c.path)
			}
			for _, bait := range []string{"SELECT 1::numeric * 1", "SELECT count(*) FROM unnest('{a}'::text[])"} {
				_, err := connectTo(t, c.dsn).Exec(t.Context(), bait)
				wantState(t, err, "P0001") // else this test would show nothing
			}

			t.Run("init", func(t *testing.T) {
				if made, err := Init(bounded(t, 20*time.Second), config(t, c.dsn)); made != guard.Created || err != nil {
					t.Fatal(made, err)
				}
				admin.exec("DROP SCHEMA lockrun CASCADE")
			})
			t.Run("init_print", func(t *testing.T) {
				for range 2 {
					if _, err := connectTo(t, c.dsn).PgConn().Exec(bounded(t, 20*time.Second), SchemaSQL()).ReadAll(); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := connectTo(t, c.dsn).PgConn().Exec(bounded(t, 20*time.Second), schemaScript(nextSchema())).ReadAll(); err != nil {
					t.Fatal("upgrade: ", err)
				}
				admin.exec("UPDATE lockrun.meta SET version = 1")
			})
			t.Run("runs", func(t *testing.T) { runsAmongForeignNames(t, admin) })
			t.Run("records", func(t *testing.T) { recordsAmongForeignNames(t, c.dsn) })
			t.Run("doctor", func(t *testing.T) { exactly(t, examined(t, c.dsn), unsynced) })
		})
	}
}

func runsAmongForeignNames(t *testing.T, d *database) {
	s := store(t, d.dsn)
	r := request("eod", "2026-01-15")
	r.From, r.Before = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	a := granted(t, s, r)
	if err := s.Renew(bounded(t, 5*time.Second), r); err != nil {
		t.Fatal("renew: ", err)
	}
	job := connectTo(t, d.dsn)
	if _, err := job.Exec(t.Context(), "SET search_path = pg_catalog"); err != nil {
		t.Fatal(err)
	}
	if got, want := queryText(t, job, "SELECT lockrun.fence($1)", r.RunID), queryText(t, job, "SELECT $1::bigint", a.Token); got != want {
		t.Errorf("fence gave %s, want the token %s", got, want)
	}
	if b := acquire(t, s, again(r, guard.Rerun{})); b.Verdict != guard.Held {
		t.Errorf("answer %+v, want it held", b)
	}
	finish(t, s, r, guard.OutcomeFailed)
	if b := acquire(t, s, again(r, guard.Rerun{})); b.Verdict != guard.WasFailed {
		t.Errorf("answer %+v, want the date to have failed", b)
	}
	next := again(r, guard.Rerun{Failed: true})
	granted(t, s, next)
	if err := s.Undo(bounded(t, 5*time.Second), next, "why"); err != nil {
		t.Fatal("undo: ", err)
	}
	d.conn = job // its path has nothing foreign in it
	unknown := request("eod", "2026-01-16")
	granted(t, s, unknown)
	d.expire("eod")
	if b := acquire(t, s, again(unknown, guard.Rerun{})); b.Verdict != guard.IsUnknown {
		t.Errorf("answer %+v, want it to be unknown", b)
	}
	tx, err := job.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM lockrun.lease FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if b := acquire(t, s, request("eod", "2026-01-17")); b.Verdict != guard.Held || b.Held.Blocker != pidOf(tx) {
		t.Errorf("answer %+v %+v, want it held by the session %d", b, b.Held, pidOf(tx))
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func recordsAmongForeignNames(t *testing.T, dsn string) {
	ctx := bounded(t, 20*time.Second)
	l := NewLedger(config(t, dsn))
	t.Cleanup(l.Close)
	if rows, err := l.All(ctx, "eod"); err != nil || len(rows.Attempts) == 0 {
		t.Fatal("history: ", rows, err)
	}
	if rows, err := l.Latest(ctx, ""); err != nil || len(rows.Runs) == 0 {
		t.Fatal("status: ", rows, err)
	}
	if _, audit, err := l.Resolve(ctx, &guard.Resolution{Name: "eod", Date: "2026-01-16", As: guard.AsFailed, Reason: "why", Actor: "me"}); err != nil || audit.After == "" {
		t.Fatal("resolve: ", audit, err)
	}
	granted(t, store(t, dsn), request("eod", "2026-01-18"))
	if _, audit, err := l.Release(ctx, &guard.Eviction{Name: "eod", Reason: "why", Actor: "me", Force: true}); err != nil || audit == nil || audit.After == "" {
		t.Fatal("release: ", audit, err)
	}
}

// The path is the transaction's: the session behind a pooler keeps its own.
func TestPathOfTheSessionStays(t *testing.T) {
	d := newDatabase(t)
	cfg := config(t, withKeyword(d.dsn, "search_path", "mine"))
	s := New(cfg, timing(t, testTTL))
	t.Cleanup(s.Close)
	granted(t, s, request("eod", "2026-01-15"))
	l := NewLedger(cfg)
	t.Cleanup(l.Close)
	if _, err := l.All(bounded(t, 5*time.Second), ""); err != nil {
		t.Fatal(err)
	}
	for what, conn := range map[string]*pgx.Conn{"store": s.conn, "ledger": l.conn} {
		if got := queryText(t, conn, "SELECT current_setting('search_path')"); got != "mine" {
			t.Errorf("the %s leaves its session with the path %q", what, got)
		}
	}
}
