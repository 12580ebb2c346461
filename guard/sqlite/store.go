// Package sqlite is the guard store of a single host: a SQLite database in the
// state directory, with the host's clock.
package sqlite

import (
	"cmp"
	"context"
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

	conn   *connection
	file   fs.FileInfo // the database that conn has open
	opened time.Time
	// checked says that its schema is the right one, made that it is new.
	checked, made bool

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

// Connect implements [guard.Store].
func (s *Store) Connect(context.Context) {}

// longOpen is how long a store has been open that takes a millisecond to tidy up.
const longOpen = 100 * time.Millisecond

// Close implements [guard.Store]. What is in the log is copied into a database
// that is new, so that the file is one, and by all runs but the shortest: what
// somebody later does to one of the files alone, such as to restore an old copy
// without its log, then does no harm.
func (s *Store) Close() {
	if s.conn != nil && (s.made || time.Since(s.opened) > longOpen) {
		_, _ = s.conn.exec("PRAGMA wal_checkpoint(TRUNCATE)") // what was committed is durable without it
	}
	s.drop()
}

// drop closes the connection, whatever state it is in.
func (s *Store) drop() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn, s.file = nil, nil
	}
}

// transaction is one BEGIN IMMEDIATE: nobody else writes while it lasts.
type transaction struct {
	conn *connection
	ctx  context.Context
	now  time.Time // the store's clock, read once the transaction has begun
}

// maxPause is half of the longest pause between two looks at a busy database.
const maxPause = 50 * time.Millisecond

// transact runs do in a transaction and commits it, durably. It repeats it while
// the database is busy, until ctx ends.
func (s *Store) transact(ctx context.Context, do func(t *transaction) error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, maxPause) {
		err := ctx.Err()
		if err == nil {
			err = s.open()
		}
		if err == nil {
			err = s.once(ctx, do)
		}
		if !busy(err) || ctx.Err() != nil {
			return s.explain(ctx, err)
		}
		_ = locks.Sleep(ctx, pause+rand.N(pause)) // let the process go on that has it
	}
}

func (s *Store) once(ctx context.Context, do func(t *transaction) error) error {
	if _, err := s.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	t := &transaction{conn: s.conn, ctx: ctx, now: time.Now().UTC().Round(0)}
	err := s.checkSchema(t)
	if err == nil {
		err = do(t)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if _, failed := s.conn.exec("ROLLBACK"); failed != nil {
			s.drop() // which rolls back too
		}
		return err
	}
	if _, err := s.conn.exec("COMMIT"); err != nil {
		s.drop()
		return &commitError{err}
	}
	s.checked = true
	return nil
}

// open opens the database, or opens it anew when its file was replaced: a lease
// in a file that nobody else can find keeps nobody out.
func (s *Store) open() error {
	if s.conn != nil {
		if now, err := os.Stat(s.path); err == nil && os.SameFile(now, s.file) {
			return nil
		}
		s.drop()
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
	// As a URI, because the driver takes what follows a "?" for options.
	conn, err := connect((&url.URL{Scheme: "file", Path: path}).String())
	if err != nil {
		return err
	}
	s.conn, s.file, s.opened, s.checked, s.made = conn, file, time.Now(), false, false
	if err := s.prepare(); err != nil {
		s.drop()
		return err
	}
	return nil
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
	return cmp.Or(statedir.CheckFile(s.path), checkIfThere(s.path+"-wal"), checkIfThere(s.path+"-shm"))
}

// checkIfThere is for what SQLite makes beside the database, with its mode.
func checkIfThere(path string) error {
	if err := statedir.CheckFile(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// logPages is how long the write-ahead log may get before what is in it is copied
// into the database, and the next commit begins the log anew. A run adds about
// ten pages. Who opens the database reads all of the log; the copying waits for
// the disk three times.
const logPages = 64

// prepare makes commits durable and turns on the write-ahead log.
func (s *Store) prepare() error {
	for _, pragma := range []string{"PRAGMA synchronous = FULL", fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", logPages)} {
		if _, err := s.conn.exec(pragma); err != nil {
			return err
		}
	}
	var mode string
	if err := s.conn.row("PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return s.setup(fmt.Errorf("its file system can't have a write-ahead log (journal mode %q)", mode), nextLocal)
	}
	return nil
}
