package postgres

import (
	"testing"
	"time"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// openTo is an empty database in which a role may create schemas.
func openTo(t *testing.T, pg *locktest.Postgres, role string) (*database, string) {
	t.Helper()
	dsn := pg.Database(t)
	d := &database{TB: t, dsn: dsn, conn: connectTo(t, dsn)}
	d.exec("GRANT CREATE ON DATABASE " + d.text("SELECT current_database()") + " TO " + role)
	return d, dsn
}

// Whoever made the schema first, or a part of it, must not decide what the login
// that then sets it up runs.
func TestInitRefusesAForeignOwner(t *testing.T) {
	pg := locktest.StartPostgres(t)
	pg.Exec(t, "postgres", "CREATE ROLE squat LOGIN")
	const lent = "CREATE SCHEMA lockrun; GRANT ALL ON SCHEMA lockrun TO squat"
	for _, c := range []struct{ name, before, squats, says string }{
		{"schema", "", "CREATE SCHEMA lockrun", `the schema lockrun belongs to the role "squat"`},
		{"table", lent, "CREATE TABLE lockrun.meta (version int)", `the table lockrun.meta belongs to the role "squat"`},
		{"view", lent, "CREATE VIEW lockrun.meta AS SELECT 1 AS version", `the table lockrun.meta belongs to the role "squat"`},
		{"function", lent, "CREATE FUNCTION lockrun.token_base() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'", `the function lockrun.token_base belongs to the role "squat"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, dsn := openTo(t, pg, "squat")
			if c.before != "" {
				d.exec(c.before)
			}
			if _, err := connectTo(t, asRole(dsn, "squat")).Exec(bounded(t, 20*time.Second), c.squats); err != nil {
				t.Fatal(err)
			}
			made, err := Init(bounded(t, 20*time.Second), config(t, dsn))
			wantSetup(t, err, `"squat"`, c.says)
			if made != guard.Unchanged {
				t.Errorf("init: %v", made)
			}
			_, err = connectTo(t, dsn).PgConn().Exec(bounded(t, 20*time.Second), SchemaSQL()).ReadAll()
			wantText(t, err, c.says)
			if d.text("SELECT to_regclass('lockrun.lease') IS NULL AND NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'lockrun_runner')") != "true" {
				t.Error("something was made all the same")
			}
		})
	}
	t.Run("doctor", func(t *testing.T) {
		_, dsn := openTo(t, pg, "squat")
		if _, err := Init(bounded(t, 20*time.Second), config(t, asRole(dsn, "squat"))); err != nil {
			t.Fatal(err)
		}
		if _, err := connectTo(t, asRole(dsn, "squat")).Exec(t.Context(), `DROP TABLE lockrun.meta;
CREATE FUNCTION lockrun.trap() RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''the trap was sprung''; END';
CREATE VIEW lockrun.meta AS SELECT lockrun.trap() AS version`); err != nil {
			t.Fatal(err)
		}
		exactly(t, examined(t, dsn), [2]string{"fail owner", `"squat"`}, unsynced)
	})
}

func TestOwnersThatAreTrusted(t *testing.T) {
	pg := locktest.StartPostgres(t)
	pg.Exec(t, "postgres", "CREATE ROLE app LOGIN; CREATE ROLE deployer LOGIN; GRANT app TO deployer; CREATE ROLE runner LOGIN; CREATE ROLE keeper LOGIN")
	_, dsn := openTo(t, pg, "app")
	initAs := func(dsn, role string, schema guard.Schema, want guard.Change) {
		t.Helper()
		if got, err := initWith(bounded(t, 20*time.Second), config(t, asRole(dsn, role)), schema); got != want || err != nil {
			t.Errorf("init as %s: %v %v, want %v", role, got, err, want)
		}
	}
	initAs(dsn, "app", theSchema, guard.Created)
	initAs(dsn, "app", theSchema, guard.Unchanged)
	initAs(dsn, "deployer", theSchema, guard.Unchanged)
	for _, role := range []string{"app", "deployer"} {
		exactly(t, examined(t, asRole(dsn, role)), unsynced)
	}
	_, err := Init(bounded(t, 20*time.Second), config(t, dsn)) // a superuser has more to lose
	wantSetup(t, err, `"app"`, `belongs to the role "app"`)

	// A login that has the rights alone runs; its doctor names the owner.
	pg.Exec(t, "postgres", "CREATE ROLE lockrun_job; CREATE ROLE lockrun_runner; GRANT lockrun_runner TO runner")
	if _, err := connectTo(t, asRole(dsn, "app")).Exec(t.Context(), rolesSQL); err != nil {
		t.Fatal(err)
	}
	granted(t, store(t, asRole(dsn, "runner")), request("eod", "2026-01-15"))
	exactly(t, examined(t, asRole(dsn, "runner")), [2]string{"warn owner", `belongs to the role "app"`}, unsynced)
	initAs(dsn, "app", nextSchema(), guard.Upgraded)

	// The owner of the database is trusted by everybody, under both of its names.
	for _, owner := range []string{"keeper", "pg_database_owner"} {
		d, dsn := openTo(t, pg, "keeper")
		d.exec("ALTER DATABASE " + d.text("SELECT current_database()") + " OWNER TO keeper")
		initAs(dsn, "keeper", theSchema, guard.Created)
		d.exec("ALTER SCHEMA lockrun OWNER TO " + owner)
		initAs(dsn, "postgres", nextSchema(), guard.Upgraded)
		d.exec("UPDATE lockrun.meta SET version = 1")
		exactly(t, examined(t, dsn), unsynced)
	}

	// What the superuser made is anybody's to run.
	printed, dsn := openTo(t, pg, "app")
	if _, err := printed.conn.PgConn().Exec(bounded(t, 20*time.Second), SchemaSQL()).ReadAll(); err != nil {
		t.Fatal(err)
	}
	initAs(dsn, "runner", theSchema, guard.Unchanged)
	exactly(t, examined(t, asRole(dsn, "runner")), unsynced)
}
