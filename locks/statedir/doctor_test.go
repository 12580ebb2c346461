package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockrun/locks"
)

func TestExamine(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Mkdir(at("good"), 0o700), os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o770),
		os.WriteFile(at("file"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		at("good"):        "",
		at("new/state"):   "",
		at("open"):        "others can write to it",
		at("file"):        "not a directory",
		at("file/state"):  "not a directory",
		"/proc/1/lockrun": "can't make a file in \"/proc/1\"",
	} {
		findings := Examine(path)
		var fails []string
		for _, f := range findings {
			if f.Status != locks.GradeOK {
				fails = append(fails, f.Text)
			}
		}
		if got := strings.Join(fails, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) || len(fails) > 1 {
			t.Errorf("%s: %q, want %q", path, findings, want)
		}
	}
	for _, d := range []string{"good", "."} {
		left, err := filepath.Glob(filepath.Join(dir, d, ".*"))
		if err != nil || len(left) > 0 {
			t.Errorf("it left %q, %v", left, err)
		}
	}
	if _, err := os.Stat(at("new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it made the directory: %v", err)
	}
}
