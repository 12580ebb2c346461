package blackbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkContenders starts 200 copies at once for one date, as 200 hosts do. One
// runs its command, for as long as there are others, and these are told so: an op
// is over when the last one has ended.
func BenchmarkContenders(b *testing.B) {
	const contenders = 200
	g := newGround(b)
	report := g.counting(b)
	for b.Loop() {
		job := g.job()
		in, open, err := os.Pipe() // stdin of all; the one that runs reads it to its end
		if err != nil {
			b.Fatal(err)
		}
		start, codes := make(chan struct{}), make(chan int, contenders)
		for range contenders {
			cmd := g.command("--name", job, "--date", "2026-01-01", "--", "cat")
			cmd.Stdin = in
			go func() {
				<-start
				_ = cmd.Run()
				codes <- cmd.ProcessState.ExitCode()
			}()
		}
		close(start)
		for range contenders - 1 {
			if code := <-codes; code != heldByAnother {
				b.Errorf("a contender ended with %d", code)
			}
		}
		_ = open.Close()
		if code := <-codes; code != 0 {
			b.Errorf("the last one ended with %d", code)
		}
		_ = in.Close()
		if b.Failed() {
			said, _ := os.ReadFile(g.stderr.Name())
			b.Fatalf("%s", said)
		}
	}
	report()
}

// BenchmarkHandOver has five copies wait for each other, and measures from the end of
// one command to the start of the next, on the wall clock that the commands write
// down: two or three milliseconds of it are theirs.
func BenchmarkHandOver(b *testing.B) {
	const copies = 5
	const stamp = "date +%s%N; sleep 0.2; date +%s%N" // by then the others wait
	g := newGround(b)
	var gaps []float64
	for b.Loop() {
		job := g.job()
		stamps, err := os.OpenFile(filepath.Join(b.TempDir(), job), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		var all sync.WaitGroup
		for range copies {
			cmd := g.command("--name", job, "--wait", "1h", "--", "sh", "-c", stamp)
			cmd.Stdout = stamps
			all.Go(func() {
				if err := cmd.Run(); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		_ = stamps.Close()
		text, _ := os.ReadFile(stamps.Name())
		lines := strings.Fields(string(text))
		if len(lines) != 2*copies {
			b.Fatalf("stamps: %q", lines)
		}
		for i := 1; i+1 < len(lines); i += 2 {
			end, err1 := strconv.Atoi(lines[i])
			start, err2 := strconv.Atoi(lines[i+1])
			if err1 != nil || err2 != nil || start < end {
				b.Fatalf("stamps: %q", lines)
			}
			gaps = append(gaps, float64(start-end))
		}
	}
	slices.Sort(gaps)
	b.ReportMetric(gaps[len(gaps)/2], "median-ns")
	b.ReportMetric(gaps[len(gaps)-1], "worst-ns")
}

// BenchmarkWait is what copies that wait for a holder ask the nodes for, each in a
// second. Between its questions a waiter blocks for some ten seconds at one node:
// use -benchtime 60x, which is so many seconds.
func BenchmarkWait(b *testing.B) {
	const waiters = 10
	g := newGround(b)
	job := g.job()
	_, _, end := g.hold("--name", job, "--ttl", "24h") // renews after 8h
	cmds := make([]*exec.Cmd, waiters)
	for i := range cmds {
		cmds[i] = g.command("--name", job, "--wait", "1h", "--", "true")
		if err := cmds[i].Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = cmds[i].Process.Kill() })
	}
	node := g.nodes[0].Client()
	defer func() { _ = node.Close() }()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		text, err := node.Info(b.Context(), "clients").Result()
		if err == nil && strings.Contains(text, "blocked_clients:"+strconv.Itoa(waiters)) {
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("they do not all wait: %v\n%s", err, text)
		}
	}
	before, cost := g.count(), g.count()
	for b.Loop() {
		<-time.After(time.Second)
	}
	commands := g.count().commands - 2*cost.commands + before.commands
	b.ReportMetric(float64(commands)/b.Elapsed().Seconds()/waiters, "redis-commands/s")
	end()
	for _, cmd := range cmds {
		g.check(cmd, cmd.Wait(), 0)
	}
}
