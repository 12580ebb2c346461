package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
)

func TestExamine(t *testing.T) {
	check := func(dir string, want locks.Grade, text string) {
		t.Helper()
		found := Examine(t.Context(), dir)
		if len(found) != 1 || found[0].Status != want || !strings.Contains(found[0].Text, text) {
			t.Errorf("got %q, want %s, %q", found, want, text)
		}
	}
	dir := filepath.Join(t.TempDir(), "state")
	check(dir, locks.GradeOK, "the first run makes it")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it made the directory: %v", err)
	}
	s := used(t, dir)
	check(dir, locks.GradeOK, "version 1")
	var root, size int64
	if err := errors.Join(s.conn.row("SELECT rootpage FROM sqlite_schema WHERE name = 'attempt'").Scan(&root), s.conn.row("PRAGMA page_size").Scan(&size)); err != nil {
		t.Fatal(err)
	}
	s.opened = time.Time{} // so that all is in the one file
	s.Close()
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	clear(whole[(root-1)*size : root*size])
	if err := os.WriteFile(s.path+"2", whole, 0o600); err != nil {
		t.Fatal(err)
	}
	good := s.path + "1"
	if err := errors.Join(os.Rename(s.path, good), os.Rename(s.path+"2", s.path)); err != nil {
		t.Fatal(err)
	}
	check(dir, locks.GradeFail, "damaged")
	if err := os.Rename(good, s.path); err != nil {
		t.Fatal(err)
	}
	check(dir, locks.GradeOK, "version 1")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(s.open(), s.checkPages(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := s.checkPages(over); err == nil {
		t.Error("the look at the pages has no bound")
	}
	if err := s.transact(t.Context(), func(tx *transaction) error {
		_, err := tx.exec("UPDATE meta SET version = 99")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	check(dir, locks.GradeFail, "use a newer lockrun")
	if err := os.WriteFile(s.path, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	check(dir, locks.GradeFail, "restore a copy")
	if err := os.Chmod(s.path, 0o666); err != nil {
		t.Fatal(err)
	}
	check(dir, locks.GradeFail, "others can write to it")
}
