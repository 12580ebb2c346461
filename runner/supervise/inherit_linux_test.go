package supervise

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// TestGuardianHoldsNothing checks that the guardian, which can outlive lockrun,
// lets go of what the caller passed on for the child.
func TestGuardianHoldsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "sleep", "1000")
	f.file("three", "", 0o644)
	f.wrap("sh", "-c", `exec 3<"$TEST_DIR/three"; exec "$@"`, "sh")
	f.start()
	eventually(t, "the start", func() bool { return f.has(Started) })
	holds := func(pid int) bool {
		links, err := filepath.Glob("/proc/" + itoa(pid) + "/fd/*")
		if err != nil || len(links) == 0 {
			t.Fatalf("descriptors of process %d: %v", pid, err)
		}
		return slices.ContainsFunc(links, func(link string) bool {
			target, _ := os.Readlink(link)
			return target == filepath.Join(f.dir, "three")
		})
	}
	if !holds(f.event(Started).Event.PID) {
		t.Error("the child has not got the caller's descriptor")
	}
	eventually(t, "the guardian to close it", func() bool { return !holds(f.guardian()) })
	f.send(f.cmd.Process.Pid, syscall.SIGTERM)
	f.wait()
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
