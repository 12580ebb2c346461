package supervise

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The role "leaderless" is played here, because packages are initialised on the
// main thread: it ends that one, which is all that /proc/PID/stat tells about. The
// other threads, with all other goroutines, go on.
func init() {
	if os.Getenv(roleEnv) == "leaderless" {
		go beat()
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

// leaderless executes a process that soon looks like a zombie, and is deaf.
const leaderless = `SUPERVISE_TEST_ROLE=leaderless exec "$TEST_EXE" "$TEST_DIR/beats" threads deaf`

// headless waits until the process beats although its main thread has ended.
func (f *fixture) headless(pid int) {
	f.t.Helper()
	eventually(f.t, "a process without its main thread", func() bool { return f.state(pid) == 'Z' })
	before := f.lastBeat("")
	eventually(f.t, "its heartbeat", func() bool { return f.lastBeat("") > before })
}

// number reads one from a file that is written in one go.
func (f *fixture) number(name string) (n int) {
	f.t.Helper()
	eventually(f.t, "the file "+name, func() bool {
		text, whole := strings.CutSuffix(f.read(name), "\n")
		var err error
		n, err = strconv.Atoi(text)
		return whole && err == nil
	})
	return n
}

// TestMainThreadEnded is about a process that is a zombie for whoever looks at
// its main thread alone.
func TestMainThreadEnded(t *testing.T) {
	t.Parallel()
	for _, part := range []struct{ name, script string }{
		{"child", `echo $$ >"$TEST_DIR/pid"; ` + leaderless},
		// The guardian's death alone does not end it.
		{"daemon", `(setsid sh -c 'echo $$ >"$TEST_DIR/pid"; ` + leaderless + `' &) ; exec sleep 1000`},
	} {
		endsIt(t, part.name, func(t *testing.T) *fixture { return newFixture(t, "sh", "-c", part.script) },
			func(f *fixture) { f.headless(f.number("pid")) })
	}
	t.Run("left over", func(t *testing.T) {
		f := newFixture(t, "sh", "-c", `sh -c 'echo $$ >"$TEST_DIR/pid"; `+leaderless+`' >/dev/null 2>&1 &
while [ ! -e "$TEST_DIR/go" ]; do sleep 0.01; done; exit 3`)
		f.start()
		f.headless(f.number("pid"))
		f.file("go", "", 0o644)
		f.exits(3, f.wait())
		f.gone()
		if want := []Kind{Started, Exited, Leftovers, TermSent, KillSent, Empty}; !slices.Equal(f.kinds(), want) {
			t.Errorf("events %v, want %v", f.kinds(), want)
		}
	})
}

// TestHeldZombie is about a process that is dead, but that the kernel does not
// give to its parent before the debugger has seen it.
func TestHeldZombie(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "sh", "-c", `sleep 1000 >/dev/null 2>&1 & echo $! >"$TEST_DIR/pid"
while [ ! -e "$TEST_DIR/go" ]; do sleep 0.01; done; exit 3`)
	f.start()
	pid := f.number("pid")
	let, seized, collected := make(chan struct{}), make(chan error), make(chan error)
	go func() {
		runtime.LockOSThread() // a thread, not a process, is the debugger
		defer runtime.UnlockOSThread()
		err := unix.PtraceSeize(pid)
		seized <- err
		if err == nil {
			<-let
			_, err = syscall.Wait4(pid, nil, unix.WALL, nil)
			collected <- err
		}
	}()
	if err := <-seized; err != nil {
		t.Logf("this user may not debug a process, so nothing is tested: %v", err)
		f.send(pid, syscall.SIGKILL)
		f.file("go", "", 0o644)
		f.wait()
		return
	}
	f.send(pid, syscall.SIGKILL)
	eventually(t, "a zombie", func() bool { return f.state(pid) == 'Z' })
	f.file("go", "", 0o644)
	f.exits(70, f.wait())
	if want := []Kind{Started, Exited, Leftovers, TermSent, KillSent, Stuck}; !slices.Equal(f.kinds(), want) {
		t.Errorf("events %v, want %v", f.kinds(), want)
	}
	if got := f.event(Stuck).Event.PIDs; !slices.Equal(got, []int{pid}) {
		t.Errorf("stuck with %v, want %d", got, pid)
	}
	if len(f.survivors()) != 1 {
		t.Errorf("the guardian has given up: %v", f.survivors())
	}
	close(let)
	if err := <-collected; err != nil {
		t.Error(err)
	}
	f.gone()
}

// TestProcMountedOver hides from both processes what runs, and shows them others
// under the same numbers.
func TestProcMountedOver(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "-m", "unshare", "-pf", "mount", "-t", "proc", "proc", "/proc").CombinedOutput(); err != nil {
		t.Logf("no namespace can be made here, so nothing is tested: %v: %s", err, out)
		return
	}
	endsIt(t, "inner", func(t *testing.T) *fixture {
		f := newFixture(t, "unshare", "-pf", "sh", "-c",
			`mount -t proc proc /proc; SUPERVISE_TEST_ROLE=beat exec "$TEST_EXE" "$TEST_DIR/beats" inner deaf`)
		f.wrap("unshare", "-m")
		return f
	}, func(f *fixture) {
		eventually(f.t, "heartbeats", func() bool { return strings.Contains(f.read("beats"), " inner\n") })
	})
}

// endsIt checks that each of the two processes can end a tree of that kind, which
// beats as soon as it is ready and ignores SIGTERM.
func endsIt(t *testing.T, name string, prepare func(*testing.T) *fixture, ready func(*fixture)) {
	t.Run(name+" terminated", func(t *testing.T) {
		f := prepare(t)
		f.spec.KillMargin = patience / 4
		terminate := f.terminates()
		f.start()
		ready(f)
		terminate()
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
		if !f.has(KillSent) || f.has(TakenOver) {
			t.Errorf("events %v, want the guardian to have killed it", f.kinds())
		}
	})
	t.Run(name+" guardian killed", func(t *testing.T) {
		f := prepare(t)
		f.spec.KillMargin = patience / 4
		f.start()
		ready(f)
		f.send(f.guardian(), syscall.SIGKILL)
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
	})
}
