package postgres

import (
	"testing"
	"testing/fstest"
	"time"

	"lockrun/guard"
	"lockrun/locks/locktest"
)

// nextSchema is the real schema and a made-up version after it.
func nextSchema() guard.Schema {
	return guard.ReadSchema(fstest.MapFS{
		"schema.sql":   {Data: []byte(theSchema[0])},
		"schema_2.sql": {Data: []byte("ALTER TABLE lockrun.attempt ADD queue text;\nUPDATE lockrun.attempt SET queue = 'default';\nCREATE FUNCTION lockrun.two() RETURNS int LANGUAGE sql AS $$ SELECT 2 $$;")},
	})
}

func TestSchemaVersion(t *testing.T) {
	if theSchema.Version() != guard.SchemaVersion {
		t.Fatalf("%d files make the schema, guard.SchemaVersion is %d", theSchema.Version(), guard.SchemaVersion)
	}
}

func TestUpgrade(t *testing.T) {
	for name, upgrade := range map[string]func(d *database) (bool, error){
		"init": func(d *database) (bool, error) {
			change, err := initWith(bounded(t, 20*time.Second), config(t, d.dsn), nextSchema())
			return change == guard.Upgraded, err
		},
		"printed": func(d *database) (bool, error) {
			before := d.text("SELECT version FROM lockrun.meta")
			_, err := d.conn.PgConn().Exec(bounded(t, 20*time.Second), schemaScript(nextSchema())).ReadAll()
			return before != d.text("SELECT version FROM lockrun.meta"), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			r := request("eod", "2026-01-15")
			granted(t, store(t, d.dsn), r)
			for _, first := range []bool{true, false} {
				changed, err := upgrade(d)
				if err != nil || changed != first {
					t.Fatalf("changed %v, %v, want %v", changed, err, first)
				}
			}
			if v, q, n := d.text("SELECT version FROM lockrun.meta"), d.text("SELECT queue FROM lockrun.attempt"), d.text("SELECT lockrun.two()"); v != "2" || q != "default" || n != "2" {
				t.Fatalf("version %s, new column %q, new function %s", v, q, n)
			}
			_, err := store(t, d.dsn).Acquire(bounded(t, 20*time.Second), request("eod", "2026-01-16"))
			wantSetup(t, err, "newer lockrun", "version 2", "works with 1")
			_, err = NewLedger(config(t, d.dsn)).Latest(bounded(t, 20*time.Second), "")
			wantSetup(t, err, "newer lockrun", "version 2")
			_, err = Init(bounded(t, 20*time.Second), config(t, d.dsn))
			wantSetup(t, err, "newer lockrun", "version 2")
		})
	}
}

func TestUpgradeFails(t *testing.T) {
	d := newDatabase(t)
	bad := append(guard.Schema{}, theSchema[0], "ALTER TABLE lockrun.attempt ADD queue text; SELECT no_such_thing()")
	if _, err := initWith(bounded(t, 20*time.Second), config(t, d.dsn), bad); err == nil {
		t.Fatal("a broken upgrade went through")
	}
	if n := d.text("SELECT count(*) FROM pg_attribute WHERE attrelid = 'lockrun.attempt'::regclass AND attname = 'queue'"); n != "0" || d.text("SELECT version FROM lockrun.meta") != "1" {
		t.Fatal("a broken upgrade left something behind")
	}
}

func TestInitFromNothingToTheLatest(t *testing.T) {
	dsn := locktest.SharedPostgres(t).Database(t)
	if change, err := initWith(bounded(t, 20*time.Second), config(t, dsn), nextSchema()); change != guard.Created || err != nil {
		t.Fatal(change, err)
	}
	d := &database{TB: t, dsn: dsn, conn: connectTo(t, dsn)}
	if v := d.text("SELECT version FROM lockrun.meta"); v != "2" {
		t.Fatalf("version %s", v)
	}
}

// An init that made a dropped table anew would forget what was in it.
func TestInitMakesNoLostTable(t *testing.T) {
	for _, table := range []string{"lease", "run", "attempt", "audit", "meta"} {
		d := newDatabase(t)
		d.exec("DROP TABLE lockrun." + table)
		_, err := Init(bounded(t, 20*time.Second), config(t, d.dsn))
		wantSetup(t, err, "backup", "lost its table "+table)
	}
	d := newDatabase(t)
	d.exec("UPDATE lockrun.meta SET version = 0")
	_, err := Init(bounded(t, 20*time.Second), config(t, d.dsn))
	wantSetup(t, err, "who changed", "version 0")
}
