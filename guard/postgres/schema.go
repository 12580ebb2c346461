package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
	"lockrun/locks"
)

//go:embed schema*.sql
var schemaFiles embed.FS

var theSchema = guard.ReadSchema(schemaFiles)

//go:embed roles.sql
var rolesSQL string

// schemaLock keeps two inits of one database apart until the first one's
// transaction ends. The number is the name "lockrun" in ASCII.
const schemaLock = "SELECT pg_advisory_xact_lock(x'6c6f636b72756e'::bigint)"

// readVersion reads how many versions the schema has, and the latest: what
// [Config.schemaFault] judges.
const readVersion = "SELECT count(*), max(version) FROM lockrun.meta"

// SchemaSQL is the whole set-up as SQL for psql: schema, upgrades, roles and
// grants in one transaction. Running it again changes nothing.
func SchemaSQL() string { return schemaScript(theSchema) }

func schemaScript(schema guard.Schema) string {
	script := []string{"BEGIN;", "SET LOCAL search_path = pg_catalog, pg_temp;", "SET LOCAL client_min_messages = warning;", schemaLock + ";", ownSchemaSQL(), notNewerThan(schema.Version())}
	for i, step := range schema {
		if i == 0 && len(schema) == 1 {
			script = append(script, step) // as it is: it can be run again
			continue
		}
		script = append(script, onlyOnce(i+1, step))
	}
	return strings.Join(append(script, rolesSQL+"COMMIT;", ""), "\n")
}

// notNewerThan is SQL that fails on a schema that this program does not know.
func notNewerThan(version int) string {
	return fmt.Sprintf(`DO $$
DECLARE
  found int;
BEGIN
  IF to_regclass('lockrun.meta') IS NOT NULL THEN
    SELECT max(version) INTO found FROM lockrun.meta;
    IF found > %d THEN
      RAISE EXCEPTION 'lockrun: this database has version %% of the schema, which needs a newer lockrun', found;
    END IF;
  END IF;
END $$;
`, version)
}

// onlyOnce is SQL that takes the schema from the version before to this one, and
// nowhere else.
func onlyOnce(version int, step string) string {
	return fmt.Sprintf(`DO $version$
DECLARE
  found int := 0;
BEGIN
  IF to_regclass('lockrun.meta') IS NOT NULL THEN
    SELECT max(version) INTO found FROM lockrun.meta;
  END IF;
  IF found = %d THEN
    EXECUTE $step$
%s
$step$;
    UPDATE lockrun.meta SET version = %d;
  END IF;
END $version$;
`, version-1, step, version)
}

// Init creates the schema or upgrades an older one, in one transaction and
// without roles or grants; it needs CREATE on the database, or to own the schema.
// It may be repeated, and raced.
// A schema that can't be upgraded, because it is newer, was tampered with, or
// belongs to a role that this one has no reason to trust, is a *[locks.SetupError].
func Init(ctx context.Context, cfg *Config) (guard.Change, error) {
	return initWith(ctx, cfg, theSchema)
}

func initWith(ctx context.Context, cfg *Config, schema guard.Schema) (change guard.Change, err error) {
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return guard.Unchanged, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = pgx.BeginTxFunc(ctx, conn, toChange, func(tx pgx.Tx) error {
		change, err = initIn(ctx, cfg, tx, schema)
		return err
	})
	if err != nil {
		return guard.Unchanged, initFault(cfg.Fault(err))
	}
	return change, nil
}

func initIn(ctx context.Context, cfg *Config, tx pgx.Tx, schema guard.Schema) (guard.Change, error) {
	for _, sql := range []string{durable, schemaLock} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return guard.Unchanged, err
		}
	}
	if err := ownSchema(ctx, cfg, tx); err != nil {
		return guard.Unchanged, err
	}
	found, err := foundVersion(ctx, cfg, tx, schema.Version())
	if err != nil || found == schema.Version() {
		return guard.Unchanged, err
	}
	for i, step := range schema[found:] {
		if _, err := tx.Conn().PgConn().Exec(ctx, step).ReadAll(); err != nil {
			return guard.Unchanged, fmt.Errorf("make schema version %d: %w", found+i+1, err)
		}
	}
	change := guard.Upgraded
	if found == 0 {
		change = guard.Created
	}
	_, err = tx.Exec(ctx, "UPDATE lockrun.meta SET version = $1", schema.Version())
	return change, err
}

// foundVersion is the version of the schema that is there, 0 if there is none.
// One that can't be brought to the latest version is an error, and so is one
// without all of its tables: an empty table in place of a dropped one would have
// forgotten every token and every date.
func foundVersion(ctx context.Context, cfg *Config, tx pgx.Tx, latest int) (int, error) {
	var missing []string
	err := tx.QueryRow(ctx, `SELECT ARRAY(SELECT t FROM unnest(ARRAY['meta', 'lease', 'run', 'attempt', 'audit']) t
 WHERE to_regclass('lockrun.' || t) IS NULL)`).Scan(&missing)
	switch {
	case err != nil:
		return 0, err
	case len(missing) > 4:
		return 0, nil
	case len(missing) > 0:
		return 0, &locks.SetupError{
			What: cfg.what(), Err: fmt.Errorf("the schema has lost its table %s: somebody dropped it", strings.Join(missing, ", ")),
			Next: "restore it from a backup; an empty one would have forgotten tokens and dates, so lockrun makes none",
		}
	}
	var rows int64
	var version *int32
	if err := tx.QueryRow(ctx, readVersion).Scan(&rows, &version); err != nil {
		return 0, err
	}
	switch {
	case version == nil || rows != 1 || int(*version) > latest:
		return 0, cfg.schemaFault(rows, version, latest)
	case *version < 1:
		return 0, &locks.SetupError{
			What: cfg.what(), Err: fmt.Errorf("the schema has version %d, which no lockrun ever made", *version),
			Next: "find out who changed lockrun.meta",
		}
	}
	return int(*version), nil
}

// initFault words the next step for whoever runs init.
func initFault(err error) error {
	var setup *locks.SetupError
	if errors.As(err, &setup) && sqlState(err) == "42501" {
		setup.Next = "connect as a login with CREATE on the database, or let one run what \"lockrun init --print\" prints"
	}
	return err
}
