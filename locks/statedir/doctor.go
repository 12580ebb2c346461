package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"lockrun/locks"
)

// Examine checks that a state directory can be used, or made, and that its file
// system honours locks. It makes nothing but a file of its own, which it removes.
func Examine(dir string) []locks.Finding {
	const check, flocks = "state directory", "state directory locks"
	f := &locks.Findings{Where: dir}
	at, err := existing(dir)
	open := ""
	if err == nil {
		open, err = checkWay(dir)
	}
	if err == nil && at == dir {
		err = trust(dir)
	}
	if err != nil {
		next, reason := parts(err)
		f.Fail(check, "%s; %s", reason, next)
		return f.List
	}
	file, err := os.CreateTemp(at, ".lockrun-doctor-")
	if err != nil {
		_, reason := parts(err)
		f.Fail(check, "can't make a file in %q: %s; give --state-dir a directory that this user can write to", at, reason)
		return f.List
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	switch {
	case open != "":
		f.Warn(check, "everybody can write to %q, and put another directory in the place of this one: chmod +t it, or give --state-dir another place", open)
	case at == dir:
		f.OK(check, "it can be used")
	default:
		f.OK(check, "it is not there yet and can be made")
	}
	if err := honoursLocks(file); err != nil {
		f.Fail(flocks, "the file system does not honour locks: %s; put --state-dir on a local one", err)
	} else {
		f.OK(flocks, "the file system honours them")
	}
	return f.List
}

// existing is dir, or the nearest directory above it that is there.
func existing(dir string) (string, error) {
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		return existing(filepath.Dir(dir))
	}
	return dir, err
}

// trust is [Ensure] for a directory that is there.
func trust(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	return check("state directory", dir, info, err)
}

// parts takes apart an error that repeats the directory.
func parts(err error) (next string, reason error) {
	next = "give --state-dir a directory that this user can write to"
	var setup *locks.SetupError
	if errors.As(err, &setup) {
		err, next = setup.Err, setup.Next
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return next, err
}

// honoursLocks takes a lock and wants a second one to be refused.
func honoursLocks(file *os.File) error {
	second, err := os.Open(file.Name())
	if err != nil {
		return err
	}
	defer func() { _ = second.Close() }()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	err = unix.Flock(int(second.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err == nil {
		err = errors.New("two hold the same one")
	}
	return err
}
