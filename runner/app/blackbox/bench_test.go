package blackbox

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// BenchmarkRun is the program as a user runs it, from its start to its end, with a
// command that does nothing:
//
//	ran    the command runs, each time for a date of its own
//	done   the date is done already
//	held   somebody else has the lock
//
// cpu is that of lockrun, of its guardian and of the command. The memory is the most
// that each of the two has had when a command has just begun to run.
func BenchmarkRun(b *testing.B) {
	b.Run("servers", func(b *testing.B) {
		g := newGround(b)
		g.benchAll(b)
		all := g.nodes
		g.nodes = all[:2] // what is counted
		b.Run("node_down", func(b *testing.B) {
			all[2].Kill()
			defer all[2].Start()
			g.on(b).benchRan(b)
		})
		b.Run("node_hung", func(b *testing.B) {
			all[2].Pause()
			defer all[2].Resume()
			g.on(b).benchRan(b)
		})
	})
	b.Run("local", func(b *testing.B) { newLocalGround(b).benchAll(b) })
}

// on is the ground of a benchmark inside the one that has made it.
func (g *ground) on(b *testing.B) *ground {
	inner := *g
	inner.TB = b
	return &inner
}

func (g *ground) benchAll(b *testing.B) {
	b.Run("ran", func(b *testing.B) {
		g := g.on(b)
		g.benchRan(b)
		lockrun, guardian, _ := g.hold("--name", g.job())
		b.ReportMetric(g.memory(lockrun), "lockrun-KiB")
		b.ReportMetric(g.memory(guardian), "guardian-KiB")
	})
	b.Run("done", func(b *testing.B) {
		g, job := g.on(b), g.job()
		g.run(0, "--name", job, "--date", "2026-01-01", "--", "true")
		g.bench(b, alreadyDone, func(int) []string { return []string{"--name", job, "--date", "2026-01-01"} })
	})
	b.Run("held", func(b *testing.B) {
		g, job := g.on(b), g.job()
		g.hold("--name", job)
		g.bench(b, heldByAnother, func(int) []string { return []string{"--name", job, "--date", "2026-01-01"} })
	})
}

func (g *ground) benchRan(b *testing.B) {
	job, first := g.job(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g.bench(b, 0, func(n int) []string {
		return []string{"--name", job, "--date", first.AddDate(0, 0, n).Format(time.DateOnly)}
	})
}

// The exit codes of a run that has started nothing, the first by option.
const (
	alreadyDone   = 3
	heldByAnother = 75
)

// bench runs the program once for each op, with the options that are given.
func (g *ground) bench(b *testing.B, want int, options func(n int) []string) {
	report := g.counting(b)
	var cpu time.Duration
	for n := 0; b.Loop(); n++ {
		end := g.run(want, append(options(n), "--done-exit-code", fmt.Sprint(alreadyDone), "--", "true")...)
		cpu += end.UserTime() + end.SystemTime()
	}
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
	report()
}

// memory is the most that a process has had in memory, in KiB.
func (g *ground) memory(pid int) (kib float64) {
	g.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "\nVmHWM:")
	if _, err2 := fmt.Sscan(after, &kib); err != nil || err2 != nil {
		g.Fatalf("no memory of process %d: %v, %v", pid, err, err2)
	}
	return kib
}
