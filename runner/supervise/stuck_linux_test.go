package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// newUserFixture has what an ordinary user can execute and write to.
func newUserFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	exe, err := os.ReadFile(f.cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	// Neither the test binary nor t.TempDir can be reached by other users.
	dir, err := os.MkdirTemp("", "supervise")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f.dir, f.spec.Log = dir, filepath.Join(dir, "events")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f.cmd.Path = f.file("driver", string(exe), 0o755)
	f.cmd.Env = append(f.cmd.Env, "TEST_DIR="+dir)
	return f
}

// newStuckFixture has lockrun run as an ordinary user, and its child become a
// process of root's.
func newStuckFixture(t *testing.T) *fixture {
	t.Helper()
	f := newUserFixture(t)
	f.spec.KillMargin = time.Second
	root := f.file("root", f.read("driver"), 0o755|os.ModeSetuid)
	f.spec.Argv = []string{"sh", "-c", "exec env " + roleEnv + `=root "$0" "$TEST_DIR/up" >/dev/null 2>&1`, root}
	f.wrap("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
	if out, err := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "true").CombinedOutput(); err != nil {
		t.Fatalf("this test has to run as root: %v: %s", err, out)
	}
	return f
}

// up waits until the child says, by a file of that name, that it is ready.
func (f *fixture) up() {
	f.t.Helper()
	eventually(f.t, "the child to be ready", func() bool {
		_, err := os.Stat(filepath.Join(f.dir, "up"))
		return err == nil
	})
}

// TestStuck is about a tree that lockrun has no right to kill.
func TestStuck(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("only root can make a process that others can't kill, so nothing is tested")
		return
	}
	t.Run("guardian goes on", func(t *testing.T) {
		f := newStuckFixture(t)
		f.spec.Window = 5 * time.Second
		f.start()
		f.up()
		f.exits(70, f.wait())
		if want := []Kind{Started, TermSent, KillSent, Stuck}; !slices.Equal(f.kinds(), want) {
			t.Errorf("events %v, want %v", f.kinds(), want)
		}
		child := f.event(Started).Event.PID
		if stuck := f.event(Stuck); !slices.Equal(stuck.Event.PIDs, []int{child}) || stuck.At < stuck.K.Add(f.spec.KillMargin) {
			t.Errorf("stuck with %v at %d, want %d one kill margin after %d", stuck.Event.PIDs, stuck.At, child, stuck.K)
		}
		if len(f.survivors()) != 2 { // the child is one
			t.Errorf("the guardian has given up: %v", f.survivors())
		}
		f.send(child, syscall.SIGKILL)
		f.gone()
	})
	t.Run("guardian killed", func(t *testing.T) {
		f := newStuckFixture(t)
		f.start()
		f.up()
		f.send(f.guardian(), syscall.SIGKILL)
		f.exits(70, f.wait())
		if want := []Kind{Started, TakenOver, Stuck}; !slices.Equal(f.kinds(), want) {
			t.Errorf("events %v, want %v", f.kinds(), want)
		}
		f.send(f.event(Started).Event.PID, syscall.SIGKILL)
		f.gone()
	})
}

// TestGuardianStopsKilling needs a tree that takes long to kill.
func TestGuardianStopsKilling(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("only root can make a process that others can't kill, so nothing is tested")
		return
	}
	f := newStuckFixture(t)
	f.spec.Window, f.spec.KillMargin = 4*time.Second, 8*time.Second
	f.start()
	f.up()
	guardian := f.guardian()
	eventually(t, "SIGKILL", func() bool { return f.has(KillSent) })
	f.send(guardian, syscall.SIGSTOP)
	f.exits(70, f.wait())
	if want := []Kind{Started, TermSent, KillSent, TakenOver, Stuck}; !slices.Equal(f.kinds(), want) {
		t.Errorf("events %v, want %v", f.kinds(), want)
	}
	f.send(f.event(Started).Event.PID, syscall.SIGKILL)
	f.gone()
}

func TestClose(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cmd.Env = append(f.cmd.Env, roleEnv+"=close")
	if err := f.cmd.Run(); err != nil {
		t.Errorf("%v: %s", err, f.err.String())
	}
	f.gone()
}

func TestMessage(t *testing.T) {
	for _, m := range []message{
		{verb: sayEmpty, list: []string{}},
		{verb: sayStart, seq: 1, at: 1 << 60, list: []string{"A=b=\n", "", "C=\xff"}},
		{verb: sayAck, seq: 1 << 30, at: -1, n: -2, list: []string{}},
	} {
		got, err := decode(m.encode())
		if err != nil || got.verb != m.verb || got.seq != m.seq || got.at != m.at || got.n != m.n || !slices.Equal(got.list, m.list) {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
	}
	for _, packet := range []string{"", "start", "start\x00a\x001\x001", "start\x001\x00\x001", "start\x001\x001\x00x\x00"} {
		if m, err := decode([]byte(packet)); err == nil {
			t.Errorf("%q became %+v", packet, m)
		}
	}
}
