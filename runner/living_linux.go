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
		env, err := os.ReadFile(path)
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
