package supervise

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockrun/locks"
)

// patience bounds every wait for something that must come. It is far longer than
// any of it takes, also on a busy host.
const patience = 60 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", patience, what)
		}
	}
}

// fixture is one run of the driver in a directory of its own.
type fixture struct {
	t    *testing.T
	dir  string
	spec driverSpec
	cmd  *exec.Cmd
	out  bytes.Buffer
	err  bytes.Buffer
}

// newFixture has a window that no test outlives, unless it asks for another.
func newFixture(t *testing.T, argv ...string) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, dir: dir}
	f.spec = driverSpec{
		Argv: argv, Window: 10 * time.Minute, KillAfter: 300 * time.Millisecond, KillMargin: 2 * time.Second,
		Log: filepath.Join(dir, "events"),
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.cmd = exec.Command(exe)
	f.cmd.Stdout, f.cmd.Stderr = &f.out, &f.err
	f.cmd.Env = append(os.Environ(), "TEST_EXE="+exe, "TEST_DIR="+dir)
	t.Cleanup(func() {
		for _, pid := range f.survivors() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("events:\n%s\nstderr:\n%s", f.read("events"), f.err.String())
		}
	})
	return f
}

// terminates makes the driver end its tree when the function that it returns is
// called: not sooner, however slow the host is.
func (f *fixture) terminates() (now func()) {
	f.spec.TerminateOn = filepath.Join(f.dir, "terminate")
	return func() {
		f.t.Helper()
		if err := os.WriteFile(f.spec.TerminateOn, nil, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) env() []string {
	spec, err := json.Marshal(f.spec)
	if err != nil {
		f.t.Fatal(err)
	}
	return append(f.cmd.Env, roleEnv+"=driver", specEnv+"="+string(spec))
}

func (f *fixture) start() {
	f.t.Helper()
	f.cmd.Env = f.env()
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal of the tester's
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
}

// wait returns how the driver ended.
func (f *fixture) wait() syscall.WaitStatus {
	f.t.Helper()
	ended := make(chan struct{})
	go func() {
		_ = f.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		f.t.Fatalf("the driver did not end within %s", patience)
	}
	return f.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func (f *fixture) run() syscall.WaitStatus {
	f.t.Helper()
	f.start()
	return f.wait()
}

func (f *fixture) read(name string) string {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return string(text)
}

// events returns what the driver has seen so far.
func (f *fixture) events() []logLine {
	f.t.Helper()
	var lines []logLine
	for text := range strings.Lines(f.read("events")) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func (f *fixture) kinds() []Kind {
	var kinds []Kind
	for _, line := range f.events() {
		kinds = append(kinds, line.Kind)
	}
	return kinds
}

// event returns the one of that kind, which must be there.
func (f *fixture) event(kind Kind) logLine {
	f.t.Helper()
	for _, line := range f.events() {
		if line.Kind == kind {
			return line
		}
	}
	f.t.Fatalf("no event of kind %d", kind)
	return logLine{}
}

// last checks that the run ended with this kind and that nothing came after it.
func (f *fixture) last(kind Kind) {
	f.t.Helper()
	kinds := f.kinds()
	if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
		f.t.Errorf("events %v, want the last to be %d", kinds, kind)
	}
}

// guardian waits for the guardian of this run.
func (f *fixture) guardian() int {
	f.t.Helper()
	found := 0
	eventually(f.t, "the guardian", func() bool {
		for _, pid := range f.survivors() {
			if isGuardian(pid) {
				found = pid
			}
		}
		return found != 0
	})
	return found
}

func isGuardian(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.HasPrefix(text, []byte(GuardianArg0+"\x00"))
}

// driver waits for lockrun: the parent of the guardian.
func (f *fixture) driver() int {
	f.t.Helper()
	p, _ := readProcess(f.guardian())
	return p.parent
}

// survivors are all living processes of this run: driver, guardian, and tree.
// They are found by what they inherited, so none can hide by leaving the tree.
func (f *fixture) survivors() []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if !inherited(pid, "TEST_DIR="+f.dir) {
			continue
		}
		if p, ok := readProcess(pid); ok && p.alive() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// inherited tells whether the process was started with the variable. Only the
// threads that still run know.
func inherited(pid int, variable string) bool {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/environ", pid))
	for _, path := range paths {
		env, _ := os.ReadFile(path)
		if bytes.Contains(env, []byte(variable+"\x00")) {
			return true
		}
	}
	return false
}

// treeScript is a job that is hard to get rid of: a shell, a plain child, a deaf
// one in a session of its own, and a deaf daemon that forked twice.
const treeScript = `
export SUPERVISE_TEST_ROLE=beat
"$TEST_EXE" "$TEST_DIR/beats" plain &
setsid "$TEST_EXE" "$TEST_DIR/beats" session deaf &
( setsid "$TEST_EXE" "$TEST_DIR/beats" daemon deaf & )
wait`

func newTreeFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, "sh", "-c", treeScript)
}

// beating waits until every part of the tree is at work.
func (f *fixture) beating() {
	f.t.Helper()
	eventually(f.t, "heartbeats of the whole tree", func() bool {
		text := f.read("beats")
		return strings.Contains(text, " plain\n") && strings.Contains(text, " session\n") && strings.Contains(text, " daemon\n")
	})
}

// lastBeat is the latest heartbeat of all, or of those of one name.
func (f *fixture) lastBeat(name string) locks.Instant {
	f.t.Helper()
	var last int64
	for line := range strings.Lines(f.read("beats")) {
		text, of, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			f.t.Fatalf("heartbeat %q: %v", line, err)
		}
		if name == "" || name == of {
			last = max(last, at)
		}
	}
	return locks.Instant(last)
}

// quiet checks that the tree did nothing after the instant.
func (f *fixture) quiet(after locks.Instant) {
	f.t.Helper()
	if last := f.lastBeat(""); last > after {
		f.t.Errorf("the tree was alive %s too long", last.Sub(after))
	}
}

// gone waits until driver, guardian and tree have ended.
func (f *fixture) gone() {
	f.t.Helper()
	eventually(f.t, "the end of every process", func() bool { return len(f.survivors()) == 0 })
}

func itoa(n int) string { return strconv.Itoa(n) }

func now() locks.Instant { return locks.SystemClock{}.Now() }
