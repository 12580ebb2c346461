package sqlite

import (
	"fmt"

	"lockrun/guard"
)

// checkSchema refuses a database that is not lockrun's, once it was opened, and
// makes the schema of an empty one.
func (s *Store) checkSchema(t *transaction) error {
	if s.checked {
		return nil
	}
	var version int
	err := t.row("SELECT version FROM meta").Scan(&version)
	if err == nil {
		return s.checkVersion(t, version)
	}
	if t.ctx.Err() != nil || busy(err) {
		return err
	}
	var tables int
	if t.row("SELECT count(*) FROM sqlite_schema").Scan(&tables) == nil && tables == 0 {
		s.made = true
		return t.upgrade(s.schema, 0)
	}
	return s.setup(fmt.Errorf("is not a database of lockrun: %w", err), nextMove)
}

// checkVersion refuses a schema of another version, or upgrades an older one if
// this store may.
func (s *Store) checkVersion(t *transaction, version int) error {
	latest := s.schema.Version()
	fault := fmt.Errorf("has the schema version %d, this lockrun works with %d", version, latest)
	switch {
	case version > latest:
		return s.setup(fault, fmt.Sprintf("use a newer lockrun: one whose \"lockrun version\" says schema %d", version))
	case version == latest:
		return nil
	case version < 1:
		return s.setup(fault, "find out who changed the table meta")
	case !s.mayUpgrade:
		return s.setup(fault, "run \"lockrun init --local\" to upgrade it")
	}
	s.upgraded = true
	return t.upgrade(s.schema, version)
}

// upgrade brings the schema from one version (0 = an empty database) to the
// latest.
func (t *transaction) upgrade(schema guard.Schema, from int) error {
	for i, step := range schema[from:] {
		if _, err := t.exec(step); err != nil {
			return fmt.Errorf("make schema version %d: %w", from+i+1, err)
		}
	}
	// Not an UPDATE alone: a new database has no row yet.
	if _, err := t.exec(`DELETE FROM meta`); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO meta (version) VALUES (?)`, schema.Version())
	return err
}
