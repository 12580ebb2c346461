package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// counter is a child that writes down its signals.
func newCounter(t *testing.T, last syscall.Signal) *fixture {
	f := newFixture(t)
	f.spec.Argv = []string{"sh", "-c", `exec env ` + roleEnv + `=count "$TEST_EXE" "$TEST_DIR/signals" "` + last.String() + `"`}
	return f
}

// counted waits until the child has seen the text, and returns all it has seen.
func (f *fixture) counted(text string) string {
	f.t.Helper()
	eventually(f.t, "signal "+text, func() bool { return strings.Contains(f.read("signals"), text+"\n") })
	return f.read("signals")
}

func TestSignals(t *testing.T) {
	t.Parallel()
	t.Run("each once, without a terminal", func(t *testing.T) {
		f := newCounter(t, syscall.SIGTERM)
		f.start()
		want := f.counted("ready")
		for _, sig := range []syscall.Signal{
			syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
		} {
			for _, own := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGWINCH, syscall.SIGURG, syscall.SIGALRM} {
				f.send(f.cmd.Process.Pid, own) // lockrun's own affair
			}
			f.send(f.cmd.Process.Pid, sig)
			want += strings.ReplaceAll(sig.String(), " ", "-") + "\n"
			f.counted(strings.ReplaceAll(sig.String(), " ", "-"))
		}
		f.exits(0, f.wait())
		if got := f.read("signals"); got != want {
			t.Errorf("the child got\n%swant\n%s", got, want)
		}
		if f.has(TermSent) {
			t.Error("a signal that was passed on counts as an end by lockrun")
		}
	})
	t.Run("for the whole group", func(t *testing.T) {
		f := newCounter(t, syscall.SIGTERM)
		f.start()
		f.counted("ready")
		f.send(-f.cmd.Process.Pid, syscall.SIGUSR1)
		f.counted("user-defined-signal-1")
		f.send(f.cmd.Process.Pid, syscall.SIGTERM)
		f.exits(0, f.wait())
		if got, want := f.read("signals"), "ready\nuser-defined-signal-1\nterminated\n"; got != want {
			t.Errorf("the child got\n%swant\n%s", got, want)
		}
	})
	t.Run("child signals its own group", func(t *testing.T) {
		f := newFixture(t, "sh", "-c", "kill -9 0")
		if status := f.run(); status.Signal() != syscall.SIGKILL || f.has(TakenOver) {
			t.Errorf("ended with %#x, events %v", status, f.kinds())
		}
		f.last(Empty)
	})
	t.Run("killed by name", func(t *testing.T) {
		f := newFixture(t, "sleep", "1000")
		f.start()
		guardian := f.guardian()
		eventually(t, "the guardian's name", func() bool {
			name, _ := os.ReadFile(filepath.Join("/proc", itoa(guardian), "comm"))
			return len(name) > 0 && string(name) != "exe\n"
		})
		name, err := os.ReadFile(filepath.Join("/proc", itoa(guardian), "comm"))
		if err != nil || strings.Contains(string(name), "lockrun") {
			t.Errorf("the guardian's name is %q, %v: pkill lockrun would hit both", name, err)
		}
		eventually(t, "the start", func() bool { return f.has(Started) })
		f.send(f.cmd.Process.Pid, syscall.SIGTERM)
		f.wait()
	})
}

// TestAsInit has lockrun be PID 1 of a namespace.
func TestAsInit(t *testing.T) {
	t.Parallel()
	namespace := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command(namespace[0], append(namespace[1:], "true")...).CombinedOutput(); err != nil {
		t.Logf("no PID namespace can be made here, so nothing is tested: %v: %s", err, out)
		return
	}
	prepare := func(t *testing.T, argv ...string) *fixture {
		f := newFixture(t, argv...)
		f.wrap(namespace...)
		return f
	}
	t.Run("exit codes", func(t *testing.T) {
		f := prepare(t, "sh", "-c", "exit 9")
		f.exits(9, f.run())
	})
	t.Run("death by signal", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGSEGV} {
			f := prepare(t, "sh", "-c", "kill -"+itoa(int(sig))+" $$")
			f.exits(128+int(sig), f.run())
		}
	})
	t.Run("deadline", func(t *testing.T) {
		f := prepare(t, "sh", "-c", treeScript)
		f.spec.Window = 4 * time.Second
		f.start()
		f.beating()
		f.exits(70, f.wait())
		f.gone()
		f.quiet(f.event(Empty).K.Add(f.spec.KillMargin))
	})
	t.Run("guardian killed", func(t *testing.T) {
		f := prepare(t, "sh", "-c", treeScript)
		f.start()
		f.beating()
		at := now()
		f.send(f.guardian(), syscall.SIGKILL)
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
		f.quiet(at.Add(f.spec.KillMargin))
	})
	t.Run("killed from outside", func(t *testing.T) {
		f := prepare(t, "sh", "-c", treeScript)
		f.start()
		f.beating()
		f.send(f.driver(), syscall.SIGKILL)
		f.wait()
		f.gone()
	})
	t.Run("signal and a stranger's orphan", func(t *testing.T) {
		f := prepare(t, "sh", "-c", `trap 'exit 5' TERM; touch "$TEST_DIR/up"; while :; do sleep 0.01; done`)
		f.start()
		pid := f.driver()
		out, err := exec.Command("nsenter", "-t", itoa(pid), "-p", "sh", "-c", `sh -c 'echo $$; sleep 0.05' &`).Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("enter the namespace: %q, %v", out, err)
		}
		eventually(t, "no zombie", func() bool {
			for _, p := range descendants(pid) {
				if p.parent == pid && !p.alive() {
					return false
				}
			}
			return len(children(pid)) == 1 // the guardian
		})
		f.up()
		f.send(pid, syscall.SIGTERM)
		f.exits(5, f.wait())
	})
}

func children(pid int) []process {
	var found []process
	for _, p := range descendants(pid) {
		if p.parent == pid {
			found = append(found, p)
		}
	}
	return found
}
