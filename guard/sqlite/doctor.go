package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"lockrun/locks"
)

// checkBound is what Examine may take, however long others write.
const checkBound = 4 * time.Second

// Examine checks the database of a state directory, if there is one.
func Examine(ctx context.Context, stateDir string) []locks.Finding {
	const check = "local store"
	ctx, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	s := New(stateDir, locks.Timing{TTL: checkBound})
	defer s.Close()
	f := &locks.Findings{Where: s.path}
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		f.OK(check, "it is not there yet, the first run makes it")
		return f.List
	}
	s.mustExist = true
	err := s.transact(ctx, func(*transaction) error { return nil })
	if err == nil {
		err = s.checkPages(ctx) // outside of a transaction, so that others may write
		if ctx.Err() != nil {
			f.Warn(check, "version %d of the schema; too large to be looked through within %s", s.schema.Version(), checkBound)
			return f.List
		}
	}
	var setup *locks.SetupError
	var away *locks.UnavailableError
	switch {
	case err == nil:
		f.OK(check, "version %d of the schema", s.schema.Version())
	case errors.As(err, &setup):
		f.Fail(check, "%s; %s", setup.Err, setup.Next)
	case errors.As(err, &away):
		f.Fail(check, "%s; see who keeps it busy, and the disk that it is on", away.Err)
	default:
		f.Fail(check, "%s", err)
	}
	return f.List
}

// checkPages refuses a database that is damaged, as an old copy is that was put
// beside a newer log: a guard row that can't be found opens its date again.
func (s *Store) checkPages(ctx context.Context) error {
	var found string
	for {
		err := s.conn.rowWithin(ctx, "PRAGMA quick_check(1)").Scan(&found)
		if err == nil {
			break
		}
		if !busy(err) || locks.Sleep(ctx, maxPause) != nil {
			return s.explain(ctx, err)
		}
	}
	if found != "ok" {
		return s.setup(fmt.Errorf("is damaged: %s", found), nextMove)
	}
	return nil
}
