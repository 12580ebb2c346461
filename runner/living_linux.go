package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Living lists the processes on this host that have the run's id in their
// environment: what is left of the child of a run, and what it started. It sees
// those of the same user only, or all of them as root.
func Living(runID string) []int {
	want := []byte("LOCKRUN_RUN_ID=" + runID)
	var pids []int
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		env, err := environment(path)
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, want) }) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// environment reads the file, or what it would say of a process whose main thread
// has ended: that is then empty, but the other threads know.
func environment(path string) ([]byte, error) {
	env, err := os.ReadFile(path)
	if err != nil || len(env) > 0 {
		return env, err
	}
	threads, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "task/*/environ"))
	for _, thread := range threads {
		if env, err := os.ReadFile(thread); err == nil && len(env) > 0 {
			return env, nil
		}
	}
	return nil, nil
}
