package supervise

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wrap has the driver started by another program, which executes the arguments
// that follow its own.
func (f *fixture) wrap(argv ...string) {
	f.t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		f.t.Fatal(err)
	}
	f.cmd.Args = append(argv, f.cmd.Path)
	f.cmd.Path = path
}

// TestInheritance compares what a process inherits with and without lockrun.
func TestInheritance(t *testing.T) {
	t.Parallel()
	const setting = `cd "$TEST_DIR"; exec 3<three 7>>seven; ulimit -n 200; ulimit -c 0; ulimit -s 4096; trap "" HUP INT; umask 027; exec nice -n 5 "$@"`
	const probe = `ls -l /proc/self/fd | grep -E ' [0-9]+ ->' | sed -E 's/.* ([0-9]+ -> )/\1/; s/[0-9]+ -> pipe.*/pipe/; s,/proc/[0-9]+,,'
ulimit -a; ulimit -Ha; umask; pwd; nice
grep -E '^Sig(Blk|Ign)|^Cap|^NoNewPrivs|^Seccomp:' /proc/self/status
cat /proc/self/oom_score_adj
env | grep -vE '^(_|LOCKRUN_RUN_ID|SUPERVISE_TEST_(ROLE|SPEC))=' | sort`

	f := newFixture(t)
	f.file("three", "", 0o644)
	script := f.file("probe", probe, 0o644)
	plain := exec.Command("sh", "-c", setting, "sh", "sh", script)
	plain.Env = f.cmd.Env
	want, err := plain.CombinedOutput()
	if err != nil {
		t.Fatalf("without lockrun: %v: %s", err, want)
	}
	f.spec.Argv = []string{"sh", script}
	f.spec.Vars = []string{"LOCKRUN_RUN_ID=some"}
	f.wrap("sh", "-c", setting, "sh")
	f.exits(0, f.run())
	if got := f.out.String(); got != string(want) {
		t.Errorf("with lockrun:\n%s\nwithout:\n%s", got, want)
	}
	for _, part := range []string{"3 -> ", "7 -> ", " 200\n", "SigIgn:\t0000000000000003\n", "0027\n"} {
		if !strings.Contains(string(want), part) {
			t.Errorf("the probe does not show %q: %s", part, want)
		}
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	t.Run("bytes pass unchanged", func(t *testing.T) {
		f := newFixture(t, "cat")
		data := make([]byte, 20<<20)
		_, _ = rand.Read(data)
		f.cmd.Stdin = strings.NewReader(string(data))
		f.exits(0, f.run())
		if sha256.Sum256(data) != sha256.Sum256(f.out.Bytes()) {
			t.Errorf("%d bytes came out of %d", f.out.Len(), len(data))
		}
	})
	t.Run("reader gone", func(t *testing.T) {
		f := newFixture(t, "yes")
		f.cmd.Stdout = nil
		out, err := f.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		f.start()
		if _, err := io.ReadFull(out, make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		out.Close()
		if status := f.wait(); status.Signal() != syscall.SIGPIPE {
			t.Errorf("ended with %#x, want SIGPIPE", status)
		}
	})
	t.Run("child closes them and runs on", func(t *testing.T) {
		f := newFixture(t, "sh", "-c", `exec <&- >&- 2>/dev/null; touch "$TEST_DIR/closed"; while [ ! -e "$TEST_DIR/go" ]; do sleep 0.01; done`)
		f.cmd.Stdout, f.cmd.Stderr = nil, nil
		in, err := f.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		f.start()
		if err := out.(*os.File).SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, out); n != 0 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		eventually(t, "a broken pipe", func() bool {
			_, err := in.Write([]byte("x"))
			return errors.Is(err, syscall.EPIPE)
		})
		f.file("go", "", 0o644)
		f.exits(0, f.wait())
	})
	t.Run("blocking mode stays", func(t *testing.T) {
		f := newFixture(t, "true")
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer out.Close()
		f.cmd.Stdin = in
		_ = in.Fd() // as a shell would pass it: in blocking mode
		f.exits(0, f.run())
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, in.Fd(), syscall.F_GETFL, 0)
		if errno != 0 || flags&syscall.O_NONBLOCK != 0 {
			t.Errorf("flags %#x, %v", flags, errno)
		}
	})
}

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
	driver := func(f *fixture) int {
		f.t.Helper()
		var pid int
		eventually(f.t, "the driver", func() bool {
			for _, p := range descendants(f.cmd.Process.Pid) {
				pid = p.pid
				break
			}
			return pid != 0 && f.has(Started)
		})
		return pid
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
		f.send(descendants(driver(f))[0].pid, syscall.SIGKILL)
		f.exits(70, f.wait())
		f.gone()
		f.last(Empty)
		f.quiet(at.Add(f.spec.KillMargin))
	})
	t.Run("killed from outside", func(t *testing.T) {
		f := prepare(t, "sh", "-c", treeScript)
		f.start()
		f.beating()
		f.send(driver(f), syscall.SIGKILL)
		f.wait()
		f.gone()
	})
	t.Run("signal and a stranger's orphan", func(t *testing.T) {
		f := prepare(t, "sh", "-c", `trap 'exit 5' TERM; while :; do sleep 0.01; done`)
		f.start()
		pid := driver(f)
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
