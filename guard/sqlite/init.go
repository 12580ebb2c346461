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
// upgrades its schema. It returns false if nothing had to be changed. It may be
// repeated, and raced. Errors are those of [guard.Store].
func Init(ctx context.Context, stateDir string) (changed bool, err error) {
	return initWith(ctx, stateDir, theSchema)
}

func initWith(ctx context.Context, stateDir string, schema guard.Schema) (changed bool, err error) {
	s := New(stateDir, locks.Timing{TTL: initPatience})
	defer s.Close()
	s.schema, s.mayUpgrade = schema, true
	_, err = os.Lstat(s.path)
	isNew := errors.Is(err, fs.ErrNotExist)
	err = s.transact(ctx, func(*transaction) error { return nil })
	return err == nil && (isNew || s.upgraded), err
}
