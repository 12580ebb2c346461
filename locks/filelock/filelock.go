// Package filelock is the filter of a single host: a lock file that the kernel
// holds for the process. It ends with the process, however that ends.
package filelock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sys/unix"

	"lockrun/locks"
	"lockrun/locks/statedir"
)

const (
	tier = "file lock"
	// looks bounds how often Acquire looks again when it meets a lock whose
	// holder is between two steps, each time after lookPause: half a second in
	// all, because on a busy host a process can stand still for long between them,
	// and a refusal that names nobody is of no use to anybody.
	looks     = 100
	lookPause = 5 * time.Millisecond
	// maxContent is more than any value; a file that holds more is not ours.
	maxContent = 2048
)

// Lock implements [locks.Filter] with flock(2) on a file in the state directory.
// The file is named by a hash of the job's name, as names may hold slashes. It
// is never removed: whoever removes a lock file may remove the one that the next
// holder has just locked.
type Lock struct {
	dir   string // the state directory
	path  string // of the lock file, once it was asked for
	file  *os.File
	pause *backoff.ExponentialBackOff
}

var _ locks.Filter = (*Lock)(nil)

// New returns a lock with its file in stateDir/locks, which [Lock.Acquire] makes
// when it has to.
func New(stateDir string) *Lock {
	// 50 to 250 ms at first, 200 ms to 1 s in the end.
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(150*time.Millisecond),
		backoff.WithRandomizationFactor(2.0/3),
		backoff.WithMaxInterval(600*time.Millisecond),
		backoff.WithMaxElapsedTime(0),
	)
	return &Lock{dir: stateDir, pause: pause}
}

// Acquire implements [locks.Filter].
func (l *Lock) Acquire(ctx context.Context, c locks.Claim) error {
	if l.file != nil {
		return &locks.UnavailableError{What: tier, Err: fmt.Errorf("this process holds %q already", l.path)}
	}
	dir := filepath.Join(l.dir, "locks")
	for _, d := range []string{l.dir, dir} {
		if err := statedir.Ensure(d); err != nil {
			return err
		}
	}
	sum := sha256.Sum256([]byte(c.Name))
	l.path = filepath.Join(dir, hex.EncodeToString(sum[:16])+".lock")
	var held *locks.HeldError
	for range looks {
		if err := ctx.Err(); err != nil {
			return &locks.UnavailableError{What: tier, Err: err}
		}
		file, err := l.open()
		if err != nil {
			return err
		}
		held, err = l.take(file, c)
		if err == nil && held == nil {
			l.file = file
			l.pause.Reset()
			return nil
		}
		_ = file.Close()
		if err != nil && !errors.Is(err, errAgain) {
			return err
		}
		if held != nil && held.By.RunID != "" {
			return held
		}
		if err := locks.Sleep(ctx, lookPause); err != nil {
			return &locks.UnavailableError{What: tier, Err: err}
		}
	}
	if held == nil {
		return &locks.UnavailableError{What: tier, Err: fmt.Errorf("%q is replaced again and again", l.path)}
	}
	held.By.Text = "a process that did not say who it is"
	return held
}

// errAgain says that the file was replaced between its opening and its locking.
var errAgain = errors.New("lock file was replaced")

// open opens the lock file and checks that it is one.
func (l *Lock) open() (*os.File, error) {
	// O_NONBLOCK: opening a FIFO that somebody put there must not hang.
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, l.setup(err, "make it a plain file that this user can write to, or remove it while no job runs")
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		_ = file.Close()
		return nil, l.setup(err, "remove it while no job runs")
	}
	return file, nil
}

// take locks the open file and writes c into it. A lock that is another's gives
// who has it: without a run id while that one is about to write it.
func (l *Lock) take(file *os.File, c locks.Claim) (*locks.HeldError, error) {
	err := flock(file, unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		by, _ := read(file)
		return &locks.HeldError{Tier: tier, By: by}, nil
	case err != nil:
		return nil, l.setup(fmt.Errorf("lock: %w", err), "put --state-dir on a local file system that honours locks")
	}
	ours, err := l.same(file)
	if err == nil && !ours {
		return nil, errAgain
	}
	if err == nil {
		err = write(file, locks.EncodeValue(c))
	}
	if err != nil {
		return nil, &locks.UnavailableError{
			What: fmt.Sprintf("lock file %q", l.path), Err: err, Next: "look at the disk that --state-dir is on",
		}
	}
	return nil, nil
}

// Renew implements [locks.Filter]. The kernel keeps the lock; but a file that
// was removed or replaced no longer keeps anybody out.
func (l *Lock) Renew(context.Context) error {
	if l.file == nil {
		return locks.ErrLost
	}
	ours, err := l.same(l.file)
	if err != nil {
		return &locks.UnavailableError{What: fmt.Sprintf("lock file %q", l.path), Err: err}
	}
	if !ours {
		return fmt.Errorf("lock file %q was removed or replaced: %w", l.path, locks.ErrLost)
	}
	return nil
}

// Release implements [locks.Filter].
func (l *Lock) Release(context.Context) error {
	file := l.file
	if file == nil {
		return nil
	}
	l.file = nil
	// The content goes first, so that it never names one who has gone, and the
	// lock before the descriptor: a fork that is under way has a copy of that.
	err := errors.Join(file.Truncate(0), flock(file, unix.LOCK_UN), file.Close())
	if err != nil {
		return &locks.UnavailableError{What: fmt.Sprintf("lock file %q", l.path), Err: err}
	}
	return nil
}

// Wait implements [locks.Filter]: a pause with jitter, longer each time.
func (l *Lock) Wait(ctx context.Context, _ *locks.HeldError) error {
	return locks.Sleep(ctx, l.pause.NextBackOff())
}

// Close implements [locks.Filter]. It keeps a lock that we hold: that ends
// with [Lock.Release] or with the process.
func (l *Lock) Close() {}

// same tells whether file is still the one that the path leads to.
func (l *Lock) same(file *os.File) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, named), err
}

func (l *Lock) setup(err error, next string) error {
	return &locks.SetupError{What: fmt.Sprintf("lock file %q", l.path), Err: err, Next: next}
}

// flock repeats the call when a signal cuts it off.
func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func read(file *os.File) (locks.Holder, bool) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxContent))
	if err != nil {
		return locks.Holder{}, false
	}
	return locks.ParseValue(string(text))
}

func write(file *os.File, text string) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
