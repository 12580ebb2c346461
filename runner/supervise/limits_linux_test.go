package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pidsGroup makes a cgroup that holds at most limit processes and threads.
func pidsGroup(t *testing.T, limit int) (dir string, ok bool) {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, fmt.Sprintf("supervise-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if os.WriteFile(filepath.Join(dir, "pids.max"), fmt.Append(nil, limit), 0) != nil {
			_ = os.Remove(dir)
			continue
		}
		t.Cleanup(func() {
			eventually(t, "an empty cgroup", func() bool { return os.Remove(dir) == nil })
		})
		return dir, true
	}
	return "", false
}

// TestProcessLimit has the child use up every process and thread that there may
// be, which kills a Go program that needs one more.
func TestProcessLimit(t *testing.T) {
	t.Parallel()
	dir, ok := pidsGroup(t, 250)
	if !ok {
		t.Log("no cgroup with a pids limit can be made here, so nothing is tested")
		return
	}
	f := newFixture(t, "perl", "-e", `$SIG{TERM} = "IGNORE"; setpgrp; while (1) { fork; select undef, undef, undef, 0.001; }`)
	f.spec.Window, f.spec.Renew, f.spec.Renewals = 3*time.Second, 100*time.Millisecond, 10
	f.spec.KillMargin = 20 * time.Second // hundreds of processes on a busy host
	f.wrap("sh", "-c", fmt.Sprintf(`echo $$ > %s/cgroup.procs; exec "$@"`, dir), "sh")
	f.start()
	eventually(t, "a full cgroup", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pids.current"))
		return strings.TrimSpace(string(text)) == "250"
	})
	f.exits(70, f.wait())
	f.gone()
	f.last(Empty)
	// On a busy host lockrun may take over from a guardian that gets no turn. A
	// crash of either shows here.
	if strings.Contains(f.err.String(), "runtime") {
		t.Errorf("a Go runtime gave up: %s", f.err.String())
	}
}

// TestSpareThreads checks that both processes have them before the child exists.
func TestSpareThreads(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "sleep", "1000")
	f.start()
	eventually(t, "the start", func() bool { return f.has(Started) })
	for _, pid := range []int{f.cmd.Process.Pid, f.guardian()} {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) < spareThreads {
			t.Errorf("process %d has %d threads, want at least %d", pid, len(tasks), spareThreads)
		}
	}
	f.send(f.cmd.Process.Pid, syscall.SIGTERM)
	f.wait()
}
