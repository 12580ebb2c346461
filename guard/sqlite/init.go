package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"lockrun/guard"
	"lockrun/locks"
)

// initPatience is how long [Init] waits for others who write.
const initPatience = 10 * time.Second

// Init makes the database of the state directory ahead of the first run, or
// upgrades its schema. It may be repeated, and raced. Errors are those of
// [guard.Store].
func Init(ctx context.Context, stateDir string) (guard.Change, error) {
	return initWith(ctx, stateDir, theSchema)
}

func initWith(ctx context.Context, stateDir string, schema guard.Schema) (guard.Change, error) {
	s := New(stateDir, locks.Timing{TTL: initPatience})
	defer s.Close()
	s.schema, s.mayUpgrade = schema, true
	_, missing := os.Lstat(s.path)
	switch err := s.transact(ctx, func(*transaction) error { return nil }); {
	case err != nil:
		return guard.Unchanged, err
	case errors.Is(missing, fs.ErrNotExist):
		return guard.Created, nil
	case s.upgraded:
		return guard.Upgraded, nil
	}
	return guard.Unchanged, nil
}
