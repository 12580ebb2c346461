package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockrun/locks"
)

// TestWay has directories that are all right themselves, and the way to them.
func TestWay(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	for name, mode := range map[string]os.FileMode{
		"private": 0o700, "group": 0o770, "tmp": 0o777 | os.ModeSticky, "tmp/ours": 0o700, "target": 0o700,
	} {
		if err := errors.Join(os.MkdirAll(at(name), 0o700), os.Chmod(at(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"link": at("target"), "relative": "private/../target", "tmp/link": at("target"), "loop": "loop",
	} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	refused := map[string]string{
		"private/state": "", "group/state": "", "tmp/new/state": "", "tmp/ours/state": "", "link": "", "link/state": "", "relative/state": "", "tmp/link/state": "",
		"loop/state": "too many levels",
	}
	if os.Geteuid() == 0 { // only root can have files of others
		const other = 65534
		for _, name := range []string{"tmp/theirs", "private/theirs"} {
			if err := errors.Join(os.Mkdir(at(name), 0o700), os.Chown(at(name), other, other), os.MkdirAll(at(name+"/state"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"foreign", "tmp/foreign", "group/foreign"} {
			if err := errors.Join(os.Symlink(at("target"), at(name)), os.Lchown(at(name), other, other)); err != nil {
				t.Fatal(err)
			}
			refused[name], refused[name+"/state"] = "belongs to user 65534", "belongs to user 65534"
		}
		refused["tmp/theirs/state"], refused["private/theirs/state"] = "belongs to user 65534", ""
	}
	for name, want := range refused {
		// Not at("..") alone: Join would take the way back out of the path.
		dir := base + "/" + name
		findings := Examine(dir)
		err := Ensure(dir)
		if want == "" {
			if err != nil || findings[0].Status != locks.GradeOK {
				t.Errorf("%s: %v, %v", name, err, findings)
			}
			continue
		}
		var setup *locks.SetupError
		if !errors.As(err, &setup) || !strings.Contains(err.Error(), want) || setup.Next == "" {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if findings[0].Status == locks.GradeOK || !strings.Contains(findings[0].Text, want) {
			t.Errorf("%s: doctor says %v", name, findings)
		}
	}
}

// A container's only writable directory may be one in which everybody could put
// another directory: it serves, and doctor says so.
func TestWayThroughOpenDirectory(t *testing.T) {
	base := t.TempDir()
	open := filepath.Join(base, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.Symlink("open/below", filepath.Join(base, "hidden"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"open/state", "open/below", "open/below/a/b", "hidden/state"} {
		dir := base + "/" + name
		for _, when := range []string{"before it is made", "when it is there"} {
			if f := Examine(dir)[0]; f.Status != locks.GradeWarn || !strings.Contains(f.Text, "everybody can write to") {
				t.Errorf("%s %s: doctor says %v", name, when, f)
			}
			if err := Ensure(dir); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
