package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"lockrun/locks"
)

// initPatience is how long [Init] waits for others who write.
const initPatience = 10 * time.Second

// Init makes the database of the state directory ahead of the first run. It
// returns false if it was there. It may be repeated, and raced. Errors are those
// of [guard.Store].
func Init(ctx context.Context, stateDir string) (created bool, err error) {
	s := New(stateDir, locks.Timing{TTL: initPatience})
	defer s.Close()
	_, err = os.Lstat(s.path)
	created = errors.Is(err, fs.ErrNotExist)
	return created, s.transact(ctx, func(*transaction) error { return nil })
}
