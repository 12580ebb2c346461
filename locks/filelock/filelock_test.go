package filelock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

const someRun = "0197c2a4-5b6e-7d10-9a3f-2f1de0a41c11"

// TestMain lets the test binary play another process that takes the lock, says
// so, and keeps it until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FILELOCK_HOLD"); dir != "" {
		if err := New(dir).Acquire(context.Background(), claim()); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		select {}
	}
	os.Exit(m.Run())
}

func claim() locks.Claim {
	return locks.Claim{Name: "eod/interest", RunID: someRun, PID: os.Getpid(), Holder: "node 7", At: time.Now()}
}

func acquired(t *testing.T, dir string) *Lock {
	t.Helper()
	l := New(dir)
	if err := l.Acquire(t.Context(), claim()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	return l
}

func heldBy(t *testing.T, l *Lock) locks.Holder {
	t.Helper()
	var held *locks.HeldError
	if err := l.Acquire(t.Context(), claim()); !errors.As(err, &held) {
		t.Fatalf("acquire of a held lock: %v", err)
	}
	return held.By
}

func TestLock(t *testing.T) {
	locktest.ExerciseFilter(t, func(t *testing.T) (a, b locks.Filter) {
		dir := filepath.Join(t.TempDir(), "state")
		return New(dir), New(dir)
	})
}

func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := acquired(t, dir)
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Dir(l.path): 0o700, l.path: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Fatalf("%s: %v, %v", path, info, err)
		}
	}
	if flags, err := unix.FcntlInt(l.file.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Fatalf("a child would get the lock: %v, %v", flags, err)
	}
	text, err := os.ReadFile(l.path)
	if h, ok := locks.ParseValue(string(text)); err != nil || !ok || h.RunID != someRun {
		t.Fatalf("content %q, %v", text, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(l.path); err != nil || len(text) != 0 {
		t.Fatalf("content after the release %q, %v", text, err)
	}
}

func TestHolderIsKilled(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "FILELOCK_HOLD="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("other process: %q, %v", line, err)
	}
	l := New(dir)
	if by := heldBy(t, l); by.PID != other.Process.Pid {
		t.Fatalf("held by %+v, want process %d", by, other.Process.Pid)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	// What it wrote is still there, and means nothing.
	if text, err := os.ReadFile(l.path); err != nil || len(text) == 0 {
		t.Fatalf("content %q, %v", text, err)
	}
	if err := l.Acquire(t.Context(), claim()); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestContent(t *testing.T) {
	dir := t.TempDir()
	l := acquired(t, dir)
	for name, c := range map[string]struct{ content, text, runID string }{
		"another's":          {someRun + " 7 2026-03-01T00:00:00Z node 9", "node 9", someRun},
		"control characters": {someRun + " 7 2026-03-01T00:00:00Z \x1b[2J", "\ufffd[2J", someRun},
		"empty":              {"", "a process that did not say who it is", ""},
		"garbage":            {"\x00\xff" + strings.Repeat("x", 1<<20), "a process that did not say who it is", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(l.path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if by := heldBy(t, New(dir)); by.Text != c.text || by.RunID != c.runID {
				t.Fatalf("held by %+v", by)
			}
		})
	}
}

func TestRenewOfReplacedFile(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
		},
		"symbolic link": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Symlink(path+".old", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := acquired(t, t.TempDir())
			if err := l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := replace(l.path); err != nil {
				t.Fatal(err)
			}
			if err := l.Renew(t.Context()); !errors.Is(err, locks.ErrLost) {
				t.Fatalf("renew: %v", err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"symbolic link": func(path string) error { return os.Symlink("/dev/null", path) },
		"FIFO":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"open to all":   func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
		"no directory": func(path string) error {
			return errors.Join(os.Remove(filepath.Dir(path)), os.WriteFile(filepath.Dir(path), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := acquired(t, t.TempDir())
			if err := errors.Join(l.Release(t.Context()), os.Remove(l.path), spoil(l.path)); err != nil {
				t.Fatal(err)
			}
			var setup *locks.SetupError
			if err := l.Acquire(t.Context(), claim()); !errors.As(err, &setup) || setup.Next == "" {
				t.Fatalf("acquire: %v", err)
			}
		})
	}
}

func TestAcquireTwice(t *testing.T) {
	l := acquired(t, t.TempDir())
	if err := l.Acquire(t.Context(), claim()); err == nil {
		t.Fatal("one lock was acquired twice")
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAcquireCutOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := New(t.TempDir())
	if err := l.Acquire(ctx, claim()); !errors.Is(err, context.Canceled) || l.file != nil {
		t.Fatalf("acquire: %v", err)
	}
}

func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("unused")
		longest := time.Duration(0)
		for i := range 200 {
			start := time.Now()
			if err := l.Wait(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			pause := time.Since(start)
			if i == 0 && pause > 250*time.Millisecond || pause < 50*time.Millisecond || pause > time.Second {
				t.Fatalf("pause %d lasts %s", i, pause)
			}
			longest = max(longest, pause)
		}
		if longest < 500*time.Millisecond {
			t.Fatalf("the pauses don't grow: longest %s", longest)
		}
	})
}
