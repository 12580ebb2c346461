package blackbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockrun/locks/locktest"
)

// bare is a file system with nothing in it but the program as it is shipped, as
// an image that is made from scratch has it. The program is its own child: there
// is no shell.
type bare struct {
	*testing.T
	root string
	env  []string
}

func newBare(t *testing.T) *bare {
	root, err := os.MkdirTemp("", "bare")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	program, err := os.ReadFile(build(t))
	err = errors.Join(err, os.Chmod(root, 0o755), os.Mkdir(filepath.Join(root, "proc"), 0o755), os.Mkdir(filepath.Join(root, "tmp"), 0o777))
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "lockrun"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &bare{T: t, root: root}
}

// enter makes the root read-only and /tmp writable, and runs the program there
// as a user that no file knows.
const enter = `set -e
mount --make-rprivate / 2>/dev/null || :
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t tmpfs tmpfs "$ROOT/tmp"
chmod 1777 "$ROOT/tmp"
mount -t proc proc "$ROOT/proc" 2>/dev/null || mount --rbind /proc "$ROOT/proc"
exec env -i PATH="$PATH" $GIVEN chroot $USERSPEC "$ROOT" /lockrun "$@"
`

// run starts the program in a mount namespace of its own. uid 0 stays what the
// test is.
func (b *bare) run(uid int, args ...string) (stdout, stderr, code string) {
	b.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", enter, "sh"}, args...)...)
	spec := ""
	if uid != 0 {
		spec = fmt.Sprintf("--userspec=%d:%d", uid, uid)
	}
	cmd.Env = append(os.Environ(), "ROOT="+b.root, "GIVEN="+strings.Join(b.env, " "), "USERSPEC="+spec)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String(), errs.String(), statusText(err)
}

// expect runs it as that user: the code, and a word that stderr has, or silence.
func (b *bare) expect(uid int, code, said string, args ...string) {
	b.Helper()
	out, errs, got := b.run(uid, args...)
	if got != code || (said == "") != (errs == "") || !strings.Contains(errs, said) || strings.Count(errs, "\n") > 1 {
		b.Errorf("as %d, %q: ended with %s: %q, said %q", uid, args, got, out, errs)
	}
	if code == "0" && args[0] == "--name" && !strings.HasPrefix(out, "lockrun ") {
		b.Errorf("as %d, %q: the child said %q", uid, args, out)
	}
}

// TestBarePlaces has no shell, no /etc, no zone data, no home, and a root that
// can't be written to.
func TestBarePlaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount and change its user; the rest of the suite runs as anybody")
	}
	b := newBare(t)
	const nobody = 54321
	today := []string{"--date", "today", "--tz", "Asia/Kathmandu"}
	run := func(more ...string) []string {
		return append(append(append([]string{"--name", "x"}, today...), more...), "--", "/lockrun", "version")
	}
	for _, uid := range []int{0, nobody} {
		b.expect(uid, "0", "", run("--local", "--state-dir", "/tmp/state")...)
		b.expect(uid, "0", "", "doctor", "--local", "--state-dir", "/tmp/state")
		b.expect(uid, "78", "read-only file system", run("--local", "--state-dir", "/state")...)
		b.expect(uid, "127", "nothing started", "--name", "x", "--local", "--state-dir", "/tmp/state", "--", "sh")
	}
	b.expect(nobody, "64", "--local needs --state-dir DIR here", run("--local")...)
	b.expect(0, "78", `"/var/lib/lockrun"`, run("--local")...)

	// With servers, a state directory is no condition.
	b.env = []string{"LOCKRUN_POSTGRES=" + locktest.SharedPostgres(t).Database(t), "USER=root"}
	b.expect(nobody, "78", "lockrun init", run()...)
	b.expect(nobody, "0", "", "init")
	b.expect(nobody, "0", "", run()...)
	// Whom no file knows is not who he says he is.
	if out, errs, _ := b.run(nobody, "history", "--name", "x", "--json"); !strings.Contains(out, `"os_user": "uid 54321"`) {
		t.Errorf("history: %s %s", out, errs)
	}
	b.expect(0, "9", "already done", run("--done-exit-code", "9")...)
	b.expect(nobody, "0", "", "doctor")
}

// TestStateOfOthers has a state directory that belongs to another user, or that
// others can write to: for root too.
func TestStateOfOthers(t *testing.T) {
	program := build(t)
	run := func(dir string) string {
		t.Helper()
		cmd := exec.Command(program, "--local", "--state-dir", dir, "--name", "x", "--", "true")
		text, err := cmd.CombinedOutput()
		return statusText(err) + " " + string(text)
	}
	dir := filepath.Join(t.TempDir(), "state")
	if got := run(dir); got != "0 " {
		t.Fatal(got)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %04o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"lockrun.db", ".", "locks"} {
		at := filepath.Join(dir, path)
		info, err := os.Stat(at)
		if err := errors.Join(err, os.Chmod(at, info.Mode().Perm()|0o022)); err != nil {
			t.Fatal(err)
		}
		if got := run(dir); !strings.HasPrefix(got, "78 ") || !strings.Contains(got, "others can write to it") {
			t.Errorf("%s is open to all: %s", path, got)
		}
		if err := os.Chmod(at, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	if got := run(dir); got != "0 " {
		t.Errorf("after it was put right: %s", got)
	}
}
