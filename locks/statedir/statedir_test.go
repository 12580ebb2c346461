package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockrun/locks"
)

func TestEnsure(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		for _, d := range []string{dir, old} {
			if err := Ensure(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		info, err := os.Stat(d)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Fatalf("%s: %v, %v", d, info, err)
		}
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"plain", "group", "others"} {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(at("dir-"+name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"group": 0o620, "others": 0o602} {
		if err := errors.Join(os.Chmod(at(name), mode), os.Chmod(at("dir-"+name), mode|0o110)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("plain"), at("link")); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"plain/below": Ensure(at("plain/below")),
		"plain":       Ensure(at("plain")),
		"dir-group":   Ensure(at("dir-group")),
		"dir-others":  Ensure(at("dir-others")),
		"group":       CheckFile(at("group")),
		"others":      CheckFile(at("others")),
		"link":        CheckFile(at("link")),
		"dir-plain":   CheckFile(at("dir-plain")),
		"missing":     CheckFile(at("missing")),
		"proc":        Ensure("/proc/lockrun"),
	} {
		var setup *locks.SetupError
		if !errors.As(err, &setup) || !strings.Contains(err.Error(), name) || setup.Next == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckFile(at("plain")); err != nil {
		t.Error(err)
	}
}

func TestForeign(t *testing.T) {
	// Somebody else's: root's for a user, a user's for root.
	path := "/"
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "foreign")
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
	}
	var setup *locks.SetupError
	if err := Ensure(path); !errors.As(err, &setup) || !strings.Contains(err.Error(), "belongs to user") {
		t.Fatalf("%v", err)
	}
}
