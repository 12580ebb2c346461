package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"lockrun/guard"
	"lockrun/locks"
)

// What to do about a database that can't be used.
const (
	nextWritable = "let this user write to --state-dir and to the files in it"
	nextLocal    = "put --state-dir on a local file system"
	nextMove     = "move it out of the way together with its -wal and -shm (the record of earlier runs goes with it), or restore a copy of all of them"
	nextSpace    = "free space on the file system that --state-dir is on"
	nextDisk     = "look at the disk that --state-dir is on"
)

// commitError says that a transaction may or may not have been committed.
type commitError struct{ error }

func (e *commitError) Unwrap() error { return e.error }

// result is SQLite's extended result code of err, or 0.
func result(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// primary is the part of a result code that tells the kind of the failure.
func primary(code int) int { return code & 0xff }

// busy tells whether err only says that others were using the database.
func busy(err error) bool {
	switch primary(result(err)) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

func (s *Store) what() string { return fmt.Sprintf("database %q", s.path) }

func (s *Store) setup(err error, next string) error {
	return &locks.SetupError{What: s.what(), Err: err, Next: next}
}

// explain turns what the driver says into the errors of [guard.Store].
func (s *Store) explain(ctx context.Context, err error) error {
	var setup *locks.SetupError
	var unavailable *locks.UnavailableError
	if err == nil || errors.Is(err, locks.ErrLost) || errors.As(err, &setup) || errors.As(err, &unavailable) ||
		guard.Refused(err) {
		return err
	}
	unavailable = &locks.UnavailableError{What: s.what(), Err: err, Taken: errors.As(err, new(*commitError))}
	if ctx.Err() != nil {
		unavailable.Err = fmt.Errorf("no answer in time: %w", ctx.Err())
		return unavailable
	}
	code := result(err)
	if unavailable.Taken {
		code = 0 // whatever it is, the caller has to undo what may be there
		unavailable.Next = nextDisk
	}
	switch code {
	case sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMLOCK,
		sqlite3.SQLITE_IOERR_SHMMAP, sqlite3.SQLITE_IOERR_LOCK, sqlite3.SQLITE_IOERR_RDLOCK:
		return s.setup(err, nextLocal)
	}
	switch primary(code) {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return s.setup(err, nextMove)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return s.setup(err, nextWritable)
	case sqlite3.SQLITE_FULL:
		unavailable.Next = nextSpace
	case sqlite3.SQLITE_IOERR:
		unavailable.Next = nextDisk
	}
	return unavailable
}
