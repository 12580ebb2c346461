package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pidsGroup makes a cgroup that holds at most limit processes and threads.
func pidsGroup(t *testing.T, limit int) (dir string, ok bool) {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, fmt.Sprintf("supervise-test-%d-%d", os.Getpid(), limit))
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

// TestSpareThreads checks that both processes have them before the child exists,
// whether the guardian is told to start before or after it is ready.
func TestSpareThreads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		delay time.Duration
	}{
		{"started at once", 0},
		{"started later", 300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The child itself counts them: it is there no sooner than they are.
			const count = `ls /proc/$PPID/task | wc -l
ls /proc/$(cut -d" " -f4 /proc/$PPID/stat)/task | wc -l`
			f := newFixture(t, "sh", "-c", count)
			f.spec.StartDelay = tt.delay
			f.start()
			f.exits(0, f.wait())
			counts := strings.Fields(f.out.String())
			if len(counts) != 2 {
				t.Fatalf("the child counted %q", f.out.String())
			}
			for i, who := range []string{"guardian", "lockrun"} {
				if n, err := strconv.Atoi(counts[i]); err != nil || n < spareThreads {
					t.Errorf("%s has %s threads, want at least %d", who, counts[i], spareThreads)
				}
			}
		})
	}
}

// TestProcessors checks that neither process can want a thread for each processor
// of a large host, as a garbage collection does.
func TestProcessors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "sleep", "1")
	// Both say on standard error, again and again, how many they use by now.
	f.cmd.Env = append(f.cmd.Env, "GOMAXPROCS=64", "GODEBUG=schedtrace=20")
	f.start()
	f.exits(0, f.wait())
	lines := regexp.MustCompile(`(?m)^SCHED (\d+)ms: gomaxprocs=(\d+) `).FindAllStringSubmatch(f.err.String(), -1)
	if len(lines) < 10 {
		t.Fatalf("only %d lines in a second", len(lines))
	}
	ages, latest := make([]int, len(lines)), 0
	for i, line := range lines {
		var err error
		if ages[i], err = strconv.Atoi(line[1]); err != nil {
			t.Fatal(err)
		}
		latest = max(latest, ages[i])
	}
	for i, line := range lines {
		// The child was there in the last second, which is all that counts.
		if ages[i] >= latest-500 && line[2] != "1" && line[2] != "2" {
			t.Errorf("after %d ms one still uses %s processors", ages[i], line[2])
		}
	}
}
