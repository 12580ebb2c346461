// Package sqlite is the guard store of a single host: a SQLite database in the
// state directory, with the host's clock.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"lockrun/guard"
	"lockrun/locks"
	"lockrun/locks/statedir"
)

// FileName is the name of the database in the state directory.
const FileName = "lockrun.db"

//go:embed schema*.sql
var schemaFiles embed.FS

var theSchema = guard.ReadSchema(schemaFiles)

// Store implements [guard.Store] with one transaction for each call. Nothing of
// SQLite is touched before the first one.
type Store struct {
	dir  string
	path string
	ttl  time.Duration
	db   *sql.DB
	file fs.FileInfo // the database that db has open

	schema guard.Schema
	// mayUpgrade lets an older schema be brought to this version.
	mayUpgrade, upgraded bool
	// mustExist refuses to make the database.
	mustExist bool
}

var _ guard.Store = (*Store)(nil)

// New returns a store with its database in stateDir, which the first call opens,
// and makes when it has to.
func New(stateDir string, t locks.Timing) *Store {
	return &Store{dir: stateDir, path: filepath.Join(stateDir, FileName), ttl: t.TTL, schema: theSchema}
}

// Close implements [guard.Store].
func (s *Store) Close() {
	if s.db != nil {
		_ = s.db.Close() // nothing is open in it, and every commit was made durable
		s.db, s.file = nil, nil
	}
}

// transaction is one BEGIN IMMEDIATE: nobody else writes while it lasts.
type transaction struct {
	*sql.Tx
	ctx context.Context
	now time.Time // the store's clock, read once the transaction has begun
}

// transact runs do in a transaction and commits it, durably. It repeats it while
// the database is busy, until ctx ends.
func (s *Store) transact(ctx context.Context, do func(t *transaction) error) error {
	for {
		err := s.open(ctx)
		if err == nil {
			err = s.once(ctx, do)
		}
		if !busy(err) || ctx.Err() != nil {
			return s.explain(ctx, err)
		}
		_ = locks.Sleep(ctx, 5*time.Millisecond+rand.N(20*time.Millisecond)) // let the process go on that has it
	}
}

func (s *Store) once(ctx context.Context, do func(t *transaction) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(&transaction{Tx: tx, ctx: ctx, now: time.Now().UTC().Round(0)}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &commitError{err}
	}
	return nil
}

// open opens the database, or opens it anew when its file was replaced: a lease
// in a file that nobody else can find keeps nobody out.
func (s *Store) open(ctx context.Context) error {
	if s.db != nil {
		if now, err := os.Stat(s.path); err == nil && os.SameFile(now, s.file) {
			return nil
		}
		s.Close()
	}
	if err := s.ensureFile(); err != nil {
		return err
	}
	path, err := filepath.Abs(s.path)
	if err != nil {
		return err
	}
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	// The driver gives up waiting when ctx ends; the timeout is for a ctx that
	// never does. Both pragmas belong to the connection.
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", s.ttl.Milliseconds()), "synchronous(FULL)",
	}}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	s.db, s.file = db, file
	err = s.prepare(ctx)
	if err != nil {
		s.Close()
	}
	return err
}

// creating keeps the other stores of this process away from a new file until its
// descriptor is closed: closing any descriptor of a file drops all the locks
// that the process has on it.
var creating sync.Mutex

// ensureFile makes the database's file, which SQLite would make readable for
// all, and refuses one that lockrun must not trust.
func (s *Store) ensureFile() error {
	if s.mustExist {
		if _, err := os.Lstat(s.path); err != nil {
			var pe *fs.PathError
			if errors.As(err, &pe) {
				err = pe.Err
			}
			return s.setup(err, "check --state-dir; the first run or \"lockrun init --local\" makes it")
		}
	}
	if err := statedir.Ensure(s.dir); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		if err := errors.Join(file.Close(), statedir.Sync(s.dir)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return s.setup(err, nextWritable)
	}
	return statedir.CheckFile(s.path)
}

// prepare turns on the write-ahead log and sees to the schema.
func (s *Store) prepare(ctx context.Context) error {
	var mode string
	if err := s.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return s.setup(fmt.Errorf("its file system can't have a write-ahead log (journal mode %q)", mode), nextLocal)
	}
	return s.once(ctx, func(t *transaction) error {
		var tables int
		if err := t.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
			return err
		}
		if tables == 0 {
			return t.upgrade(s.schema, 0)
		}
		var version int
		switch err := t.QueryRowContext(ctx, "SELECT version FROM meta").Scan(&version); {
		case ctx.Err() != nil || busy(err):
			return err
		case err != nil:
			return s.setup(fmt.Errorf("is not a database of lockrun: %w", err), nextMove)
		}
		return s.checkVersion(t, version)
	})
}
