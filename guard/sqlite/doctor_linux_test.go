package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if _, err := s.db.Exec("UPDATE meta SET version = 99"); err != nil {
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
