package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockrun/guard"
	"lockrun/locks"
)

// used returns a store whose database is there.
func used(t *testing.T, dir string) *Store {
	t.Helper()
	s := newStore(dir)
	t.Cleanup(s.Close)
	if a, err := s.Acquire(t.Context(), request("2026-03-01")); err != nil || a.Verdict != guard.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	return s
}

// refused acquires and fails unless that is a fault of the set-up that names
// path and says what to do.
func refused(t *testing.T, s *Store, path, next string) {
	t.Helper()
	t.Cleanup(s.Close)
	a, err := s.Acquire(t.Context(), request("2026-03-02"))
	var setup *locks.SetupError
	if !errors.As(err, &setup) || !strings.Contains(err.Error(), path) || !strings.Contains(setup.Next, next) || a.Verdict != 0 {
		t.Fatalf("acquire gave %+v, %#v %v", a, err, err)
	}
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	s := newStore(dir)
	s.Close()
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("something was made before the first call: %v", err)
	}
	s = used(t, dir)
	for path, mode := range map[string]os.FileMode{dir: 0o700, s.path: 0o600, s.path + "-wal": 0o600, s.path + "-shm": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	var level int
	if err := s.conn.row("PRAGMA synchronous").Scan(&level); err != nil || level != 2 {
		t.Errorf("synchronous is %d, %v, want FULL", level, err)
	}
}

func TestDescriptorsAreNotInherited(t *testing.T) {
	s := used(t, t.TempDir())
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil || !strings.HasPrefix(target, s.path) {
			continue
		}
		seen++
		info, err := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
		if err != nil {
			t.Fatal(err)
		}
		var flags int
		_, text, _ := strings.Cut(string(info), "flags:")
		if _, err := fmt.Sscanf(text, "%o", &flags); err != nil {
			t.Fatal(err)
		}
		if flags&unix.O_CLOEXEC == 0 {
			t.Errorf("%s is inherited by children: %o", target, flags)
		}
	}
	if seen < 2 {
		t.Fatalf("%d descriptors of the database", seen)
	}
}

func TestSpoiltFiles(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *Store) error
		next  string
	}{
		"garbage": {func(s *Store) error {
			return errors.Join(os.Remove(s.path+"-wal"), os.WriteFile(s.path, []byte(strings.Repeat("no database ", 1000)), 0o600))
		}, "move it out of the way"},
		"another program's": {func(s *Store) error {
			if err := os.Remove(s.path); err != nil {
				return err
			}
			db, err := sql.Open("sqlite", s.path)
			if err != nil {
				return err
			}
			_, err = db.Exec("CREATE TABLE lease (x)")
			return errors.Join(err, db.Close(), os.Chmod(s.path, 0o600))
		}, "move it out of the way"},
		"newer schema": {func(s *Store) error {
			db, err := sql.Open("sqlite", s.path)
			if err != nil {
				return err
			}
			_, err = db.Exec("UPDATE meta SET version = version + 1")
			return errors.Join(err, db.Close())
		}, "newer lockrun"},
		"directory": {func(s *Store) error { return errors.Join(os.Remove(s.path), os.Mkdir(s.path, 0o700)) }, "--state-dir"},
		"symbolic link": {func(s *Store) error {
			return errors.Join(os.Rename(s.path, s.path+"2"), os.Symlink(s.path+"2", s.path))
		}, "--state-dir"},
		"writable log": {func(s *Store) error { return os.Chmod(s.path+"-wal", 0o620) }, "chmod go-w"},
		"symbolic link to a log": {func(s *Store) error {
			return errors.Join(os.Rename(s.path+"-wal", s.path+"2"), os.Symlink(s.path+"2", s.path+"-wal"))
		}, "--state-dir"},
		"symbolic link to an index": {func(s *Store) error {
			return errors.Join(os.Rename(s.path+"-shm", s.path+"2"), os.Symlink(s.path+"2", s.path+"-shm"))
		}, "--state-dir"},
		"writable for all":   {func(s *Store) error { return os.Chmod(s.path, 0o666) }, "chmod go-w"},
		"writable directory": {func(s *Store) error { return os.Chmod(s.dir, 0o770) }, "chmod go-w"},
	} {
		t.Run(name, func(t *testing.T) {
			s := used(t, t.TempDir())
			s.Close()
			if err := c.spoil(s); err != nil {
				t.Fatal(err)
			}
			path := s.path
			if name == "writable directory" {
				path = s.dir
			}
			refused(t, s, path, c.next)
		})
	}
}

func TestReadOnly(t *testing.T) {
	parent := t.TempDir()
	if err := errors.Join(os.Chmod(parent, 0o755), os.Chmod(filepath.Dir(parent), 0o755)); err != nil {
		t.Fatal(err)
	}
	old, empty := filepath.Join(parent, "old"), filepath.Join(parent, "empty")
	s := used(t, old)
	s.Close()
	if err := errors.Join(os.Mkdir(empty, 0o755), os.Chmod(empty, 0o555), os.Chmod(s.path, 0o444), os.Chmod(old, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = os.Chmod(empty, 0o755), os.Chmod(old, 0o755) })
	if os.Geteuid() == 0 {
		// Nothing is read-only for root; where files are concerned, this thread
		// is somebody else for a while.
		runtime.LockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = unix.Setfsuid(0)
			runtime.UnlockOSThread()
		}()
	}
	refused(t, newStore(empty), empty, "--state-dir")
	refused(t, newStore(old), old, "--state-dir")
	refused(t, newStore(filepath.Join(empty, "below")), filepath.Join(empty, "below"), "--state-dir")
}

func TestReplacedWhileInUse(t *testing.T) {
	s := newStore(t.TempDir())
	t.Cleanup(s.Close)
	r := request("2026-03-01")
	if _, err := s.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Renew(t.Context(), r); !errors.Is(err, locks.ErrLost) {
		t.Fatalf("renewed a lease that nobody else can see: %v", err)
	}
	var setup *locks.SetupError
	err := s.Finish(t.Context(), &guard.End{Name: r.Name, Date: r.Date, RunID: r.RunID, Outcome: guard.OutcomeLost})
	if !errors.As(err, &setup) || !strings.Contains(err.Error(), r.RunID) {
		t.Fatalf("an outcome that was stored nowhere: %v", err)
	}
}

func TestNoWriteAheadLog(t *testing.T) {
	s := newStore(t.TempDir())
	t.Cleanup(s.Close)
	var err error
	if s.conn, err = connect(":memory:"); err != nil { // it can have none either
		t.Fatal(err)
	}
	var setup *locks.SetupError
	if err := s.prepare(); !errors.As(err, &setup) || !strings.Contains(setup.Next, "local file system") {
		t.Fatalf("prepare: %v", err)
	}
}

func TestFull(t *testing.T) {
	s := used(t, t.TempDir())
	if _, err := s.conn.exec("PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	r := request("2026-03-02")
	r.Name, r.Command = "other", []string{strings.Repeat("x", 1<<20)}
	_, err := s.Acquire(t.Context(), r)
	var unavailable *locks.UnavailableError
	if !errors.As(err, &unavailable) || !strings.Contains(unavailable.Next, "--state-dir") || unavailable.Taken {
		t.Fatalf("acquire on a full disk: %#v %v", err, err)
	}
	r.Command = nil
	if a, err := s.Acquire(t.Context(), r); err != nil || a.Verdict != guard.Granted {
		t.Fatalf("then %+v, %v", a, err)
	}
}

func TestCommitFails(t *testing.T) {
	s := newStore(t.TempDir())
	for name, cause := range map[string]error{"cut off": context.Canceled, "broken": errors.New("disk I/O error")} {
		err := s.explain(t.Context(), &commitError{cause})
		var unavailable *locks.UnavailableError
		if !errors.As(err, &unavailable) || !unavailable.Taken || !errors.Is(err, cause) || unavailable.Next == "" {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

// What has not been committed when the time is over never is.
func TestTimeIsOver(t *testing.T) {
	s := used(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	err := s.transact(ctx, func(tx *transaction) error {
		_, err := tx.exec("DELETE FROM lease")
		cancel()
		return err
	})
	var unavailable *locks.UnavailableError
	if !errors.As(err, &unavailable) || !errors.Is(err, context.Canceled) || unavailable.Taken {
		t.Errorf("it says %#v %v", err, err)
	}
	if a, err := s.Acquire(t.Context(), request("2026-03-02")); err != nil || a.Verdict != guard.Held {
		t.Fatalf("then %+v, %v", a, err)
	}
}

func TestBusy(t *testing.T) {
	dir := t.TempDir()
	s, other := used(t, dir), newStore(dir)
	t.Cleanup(other.Close)
	err := other.transact(t.Context(), func(*transaction) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.Acquire(ctx, request("2026-03-02"))
		var unavailable *locks.UnavailableError
		if !errors.As(err, &unavailable) || !errors.Is(err, context.DeadlineExceeded) || unavailable.Taken {
			t.Errorf("acquire while another process is writing: %#v %v", err, err)
		}
		cancel()
		if err := s.Renew(ctx, request("")); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("renew without time: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := s.Acquire(t.Context(), request("2026-03-02")); err != nil || a.Verdict != guard.Held {
		t.Fatalf("then %+v, %v", a, err)
	}
}
