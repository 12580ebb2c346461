// Package statedir makes and checks the directories and files that lockrun
// trusts: its state directory and what lies in it.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"lockrun/locks"
)

const othersCanWrite = 0o022

// Ensure makes dir with mode 0700, and the directories above it, unless it is
// there. A directory that lockrun must not trust, because others can write to
// it, or it belongs to another user or was put there by one, is a
// *[locks.SetupError], and so is one that can't be made.
func Ensure(dir string) error {
	if _, err := checkWay(dir); err != nil {
		return err
	}
	if err := makeDurable(dir); err != nil {
		return &locks.SetupError{
			What: fmt.Sprintf("state directory %q", dir), Err: err,
			Next: "give --state-dir a directory that this user can write to",
		}
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	return check("state directory", dir, info, err)
}

// CheckFile refuses a file in the state directory that lockrun must not trust:
// with a *[locks.SetupError], as [Ensure] does, or because it is no regular file.
func CheckFile(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	return check("file", path, info, err)
}

func check(what, path string, info fs.FileInfo, err error) error {
	next := "move it out of the way, or give --state-dir another directory"
	if err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
			err = fmt.Errorf("belongs to user %d, not to user %d", st.Uid, os.Geteuid())
		} else if info.Mode()&othersCanWrite != 0 {
			err = fmt.Errorf("has the mode %04o: others can write to it", info.Mode().Perm())
			next = fmt.Sprintf("make sure that nobody has tampered with it, then take the right away: chmod go-w %q", path)
		}
	}
	if err == nil {
		return nil
	}
	return &locks.SetupError{What: fmt.Sprintf("%s %q", what, path), Err: err, Next: next}
}

// makeDurable is os.MkdirAll with mode 0700 whose directories survive a crash:
// a lost directory would take the record of a run with it.
func makeDurable(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDurable(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) { // another lockrun was faster
			return nil
		}
		return err
	}
	return Sync(parent)
}

// Sync makes what was created in dir or renamed into it survive a crash.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
