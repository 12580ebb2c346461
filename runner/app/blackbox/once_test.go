package blackbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"lockrun/locks/locktest"
)

// buildDir is there while the tests run.
var buildDir string

// goBuild makes the program: static, without the race detector.
func goBuild(name string, flags ...string) (string, error) {
	path := filepath.Join(buildDir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), ".")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

var built = sync.OnceValues(func() (string, error) { return goBuild("lockrun") })

// build makes the program once.
func build(tb testing.TB) string {
	tb.Helper()
	path, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Three copies start at the same instant, as crontabs on three hosts do. For
// each date one child runs, and the others say in one line why theirs did not.
func TestOnce(t *testing.T) {
	program := build(t)
	dsn := locktest.SharedPostgres(t).Database(t)
	nodes := strings.Join(locktest.URLs(locktest.StartRedisNodes(t, 3)), " ")
	for mode, env := range map[string][]string{
		"servers": {"LOCKRUN_POSTGRES=" + dsn, "LOCKRUN_REDIS=" + nodes},
		"local":   {"LOCKRUN_LOCAL=1", "LOCKRUN_STATE_DIR=" + filepath.Join(t.TempDir(), "state")},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if mode == "servers" {
				setUp := exec.Command(program, "init")
				setUp.Env = append(os.Environ(), env...)
				if out, err := setUp.CombinedOutput(); err != nil {
					t.Fatalf("init: %v\n%s", err, out)
				}
			}
			day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for range 100 {
				once(t, program, env, day.Format(time.DateOnly))
				day = day.AddDate(0, 0, 1)
			}
		})
	}
}

const copies = 3

var (
	toldHeld = regexp.MustCompile(`^lockrun: once [0-9-]+: held by node [0-9] \(pid [0-9]+\) since .*; nothing started, --wait DURATION waits for it\n$`)
	toldDone = regexp.MustCompile(`^lockrun: once [0-9-]+: already done, nothing started: attempt 1 by node [0-9] .*\n$`)
)

func once(t *testing.T, program string, env []string, date string) {
	t.Helper()
	type ending struct{ status, stdout, stderr string }
	ends := make([]ending, copies)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range ends {
		wg.Go(func() {
			cmd := exec.Command(program, "--name", "once", "--date", date, "--holder", fmt.Sprint("node ", i), "--", "echo", "ran")
			cmd.Env = append(os.Environ(), env...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			<-start
			err := cmd.Run()
			ends[i] = ending{statusText(err), stdout.String(), stderr.String()}
		})
	}
	close(start)
	wg.Wait()
	ran := 0
	for _, e := range ends {
		switch {
		case e.status == "0" && e.stdout == "ran\n" && e.stderr == "":
			ran++
		case e.stdout == "" && e.status == "75" && toldHeld.MatchString(e.stderr):
		case e.stdout == "" && e.status == "0" && toldDone.MatchString(e.stderr):
		default:
			t.Errorf("%s: a copy ended with %+v", date, e)
		}
	}
	if ran != 1 {
		t.Fatalf("%s: the child ran %d times: %+v", date, ran, ends)
	}
}
