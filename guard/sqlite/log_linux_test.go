package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"

	"lockrun/guard"
)

// oneRun is what a short run does to the database; long is one that has been
// open for a while when it ends.
func oneRun(t *testing.T, dir, date string, long bool) {
	t.Helper()
	s, r := newStore(dir), request(date)
	r.Name = "name" + date
	defer s.Close()
	if a, err := s.Acquire(t.Context(), r); err != nil || a.Verdict != guard.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	err := s.Finish(t.Context(), &guard.End{Name: r.Name, Date: date, RunID: r.RunID, Outcome: guard.OutcomeSucceeded, ExitCode: new(int)})
	if err != nil {
		t.Fatal(err)
	}
	s.opened = time.Now().Add(time.Hour) // however slow this machine is
	if long {
		s.opened = s.opened.Add(-2 * time.Hour)
	}
}

// recorded wants the database to be whole and to know these dates, no others.
func recorded(t *testing.T, dir string, dates ...string) {
	t.Helper()
	s := newStore(dir)
	defer s.Close()
	err := s.transact(t.Context(), func(tx *transaction) error {
		var check, list string
		err := errors.Join(tx.row("PRAGMA integrity_check").Scan(&check),
			tx.row("SELECT coalesce(group_concat(run_date, ' ' ORDER BY run_date), '') FROM run WHERE state = 'succeeded'").Scan(&list))
		if want := strings.Join(dates, " "); err == nil && (check != "ok" || list != want) {
			err = fmt.Errorf("the check says %q, the dates are %q, want %q", check, list, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func logSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, FileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Short runs leave the log, and it stays short.
func TestLogOfManyRuns(t *testing.T) {
	const page, aRun = 4096 + 24, 40
	dir := t.TempDir()
	var dates []string
	emptied := 0
	for n := range 100 {
		dates = append(dates, fmt.Sprintf("%03d", n))
		oneRun(t, dir, dates[n], false)
		switch size := logSize(t, dir); {
		case size > (logPages+aRun)*page:
			t.Fatalf("after %d runs the log has %d bytes", n+1, size)
		case size == 0:
			emptied++
		}
	}
	if emptied != 1 {
		t.Errorf("the log was emptied by %d runs, want the one that made the database", emptied)
	}
	recorded(t, dir, dates...)
	if rows, err := NewLedger(dir).All(t.Context(), ""); err != nil || len(rows.Runs) != len(dates) || len(rows.Attempts) != len(dates) {
		t.Errorf("the ledger has %+v, %v", rows, err)
	}
}

func TestLogAndFiles(t *testing.T) {
	for name, c := range map[string]struct {
		long  bool // the second run
		spoil func(path string) error
		want  []string
	}{
		"untouched":                 {false, func(string) error { return nil }, []string{"1", "2"}},
		"index removed":             {false, func(path string) error { return os.Remove(path + "-shm") }, []string{"1", "2"}},
		"index is garbage":          {false, func(path string) error { return os.WriteFile(path+"-shm", []byte("garbage"), 0o600) }, []string{"1", "2"}},
		"log removed, short run":    {false, func(path string) error { return os.Remove(path + "-wal") }, []string{"1"}},
		"old copy after a long run": {true, func(path string) error { return os.Rename(path+"1", path) }, []string{"1"}},
		"log removed, long run":     {true, func(path string) error { return os.Remove(path + "-wal") }, []string{"1", "2"}},
		"database removed":          {false, os.Remove, nil},
		"log cut off": {false, func(path string) error {
			info, err := os.Stat(path + "-wal")
			return errors.Join(err, os.Truncate(path+"-wal", info.Size()-1))
		}, []string{"1"}},
		"both removed, long run": {true, func(path string) error {
			return errors.Join(os.Remove(path+"-wal"), os.Remove(path+"-shm"))
		}, []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			oneRun(t, dir, "1", false)
			copied, err := os.ReadFile(filepath.Join(dir, FileName))
			if err := errors.Join(err, os.WriteFile(filepath.Join(dir, FileName+"1"), copied, 0o600)); err != nil {
				t.Fatal(err)
			}
			oneRun(t, dir, "2", c.long)
			if size := logSize(t, dir); (size == 0) != c.long {
				t.Errorf("the log has %d bytes", size)
			}
			if err := c.spoil(filepath.Join(dir, FileName)); err != nil {
				t.Fatal(err)
			}
			recorded(t, dir, c.want...)
			oneRun(t, dir, "3", false)
			recorded(t, dir, append(c.want, "3")...)
		})
	}
}

// A copy of the state directory is a whole database, log and all.
func TestCopy(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	oneRun(t, dir, "1", false)
	oneRun(t, dir, "2", false)
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(other, 0o700); err != nil {
		t.Fatal(err)
	}
	recorded(t, other, "1", "2")
}

// The locks that a process has on a file are gone once it closes any descriptor
// of it: a second store must not do that to the first one.
func TestTwoStoresInOneProcess(t *testing.T) {
	dir := t.TempDir()
	s, second := used(t, dir), newStore(dir)
	err := s.transact(t.Context(), func(*transaction) error {
		if err := second.open(); err != nil {
			t.Error(err)
		}
		second.Close()
		_, out, begin := process(t, "look", dir)
		begin()
		if said, err := io.ReadAll(out); err != nil || !strings.Contains(string(said), "no answer in time") {
			t.Errorf("another process says %q, %v", said, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConnection(t *testing.T) {
	s := used(t, t.TempDir())
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "wal_autocheckpoint": fmt.Sprint(logPages)} {
		var got any
		r := s.conn.row("PRAGMA " + pragma)
		if r.err == nil {
			got = r.columns[0]
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s is %v, %v, want %s", pragma, got, r.err, want)
		}
	}
	if !sqlite.FdatasyncEnabled() {
		t.Error("a commit waits for the times of the file")
	}
	var number int
	var text string
	var none, some *int
	err := s.conn.row("SELECT 1, 'a', NULL, 2").Scan(&number, &text, &none, &some)
	if err != nil || number != 1 || text != "a" || none != nil || some == nil || *some != 2 {
		t.Error(number, text, none, some, err)
	}
	for _, query := range []string{"SELECT 'a'", "SELECT NULL", "SELECT 1.5", "SELECT x'00'", "SELECT 1, 2", "SELECT 1 WHERE false", "SELECT"} {
		if err := s.conn.row(query).Scan(&number); err == nil {
			t.Errorf("%s gave the number %d", query, number)
		}
	}
}
