package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"lockrun/locks"
)

//go:embed owners.sql
var ownersSQL string

// schemaThere makes the schema unless there is one. Not CREATE SCHEMA IF NOT
// EXISTS: that wants CREATE on the database even when the schema is there.
const schemaThere = `DO $$
BEGIN
  IF to_regnamespace('lockrun') IS NULL THEN
    CREATE SCHEMA lockrun;
  END IF;
END $$`

// intruder is a row of owners.sql: a role that owns what it should not.
type intruder struct {
	What, Owner string
	Superuser   bool // the current role is one
}

func (i intruder) Error() string {
	return fmt.Sprintf("the %s belongs to the role %q, which is neither this login nor trusted by it", i.What, i.Owner)
}

func (i intruder) next() string {
	return fmt.Sprintf("if %q is meant to own it, let that role run \"lockrun init\"; if not, find out who made it, and drop it", i.Owner)
}

// findIntruder returns nil if the schema, and all that is in it, belongs to roles
// that may be trusted.
func findIntruder(ctx context.Context, conn *pgx.Conn) (*intruder, error) {
	var found *intruder
	err := askOnce(ctx, conn, func(rows pgx.Rows) error {
		one, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[intruder])
		switch {
		case err == nil:
			found = &one
		case errors.Is(err, pgx.ErrNoRows):
			err = nil
		}
		return err
	}, ownersSQL)
	return found, err
}

// ownSchema makes sure that there is a schema, and that nobody who was there first
// owns a part of it. It comes before anything in the schema is read or run.
func ownSchema(ctx context.Context, cfg *Config, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, schemaThere); err != nil {
		return err
	}
	found, err := findIntruder(ctx, tx.Conn())
	if err == nil && found != nil {
		return &locks.SetupError{What: cfg.what(), Err: *found, Next: found.next()}
	}
	return err
}

// ownSchemaSQL is the same for psql.
func ownSchemaSQL() string {
	return schemaThere + `;
DO $$
DECLARE
  other record;
BEGIN
  SELECT * INTO other FROM (
` + ownersSQL + `  ) owners;
  IF FOUND THEN
    RAISE EXCEPTION 'lockrun: the % belongs to the role "%", which is neither this login nor trusted by it', other.what, other.rolname
      USING HINT = 'If that role is meant to own it, let it run "lockrun init"; if not, find out who made it, and drop it.';
  END IF;
END $$;`
}
