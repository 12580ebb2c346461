package blackbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockrun/locks/locktest"
)

// released is the program with the flags of goreleaser.yaml.
var released = sync.OnceValues(func() (string, error) {
	return goBuild("released", "-trimpath", "-buildvcs=false", "-tags=urfave_cli_no_docs", "-ldflags=-s -w")
})

// ground is what a benchmark runs the program on.
type ground struct {
	testing.TB
	program string
	env     []string
	stderr  *os.File // of all runs: a pipe would have to be waited for
	nodes   []*locktest.Redis
	pg      *locktest.Postgres // nil in local mode
}

// benchLogin has a password, as logins have; a test's own is let in without one.
const benchLogin = "bench"

// newGround starts servers, of Redis three nodes.
func newGround(b *testing.B) *ground {
	g := newLocalGround(b)
	g.nodes, g.pg = locktest.StartRedisNodes(b, 3), locktest.StartPostgres(b, "log_connections=on")
	g.pg.Exec(b, "postgres", "CREATE ROLE "+benchLogin+" LOGIN SUPERUSER PASSWORD '"+benchLogin+"'")
	g.pg.Install("pg_hba.conf", []byte("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"))
	g.pg.Exec(b, "postgres", "SELECT pg_reload_conf()")
	dsn, err := url.Parse(g.pg.DSN("postgres"))
	if err != nil {
		b.Fatal(err)
	}
	dsn.User = url.UserPassword(benchLogin, benchLogin)
	g.env = append(g.env, "LOCKRUN_LOCAL=", "LOCKRUN_POSTGRES="+dsn.String(), "LOCKRUN_REDIS="+strings.Join(locktest.URLs(g.nodes), " "))
	g.run(0, "init")
	return g
}

// newLocalGround has no servers.
func newLocalGround(b *testing.B) *ground {
	b.Helper()
	program, err := released()
	if err != nil {
		b.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(b.TempDir(), "stderr"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stderr.Close() })
	return &ground{
		TB: b, program: program, stderr: stderr,
		env: append(os.Environ(), "LOCKRUN_LOCAL=1", "LOCKRUN_POSTGRES=", "LOCKRUN_REDIS=", "LOCKRUN_STATE_DIR="+filepath.Join(b.TempDir(), "state")),
	}
}

var jobs atomic.Int64

// job is a name that no run has had yet.
func (g *ground) job() string { return "bench-" + strconv.FormatInt(jobs.Add(1), 10) }

func (g *ground) command(args ...string) *exec.Cmd {
	cmd := exec.Command(g.program, args...)
	cmd.Env, cmd.Stderr = g.env, g.stderr
	return cmd
}

// check fails the benchmark unless a run has ended as it should.
func (g *ground) check(cmd *exec.Cmd, err error, want int) {
	g.Helper()
	if code := cmd.ProcessState.ExitCode(); code != want {
		said, _ := os.ReadFile(g.stderr.Name())
		g.Fatalf("%q ended with %d (%v), want %d\n%s", cmd.Args[1:], code, err, want, said)
	}
}

func (g *ground) run(want int, args ...string) *os.ProcessState {
	g.Helper()
	cmd := g.command(args...)
	g.check(cmd, cmd.Run(), want)
	return cmd.ProcessState
}

// hold starts a run and returns when its job runs. It goes on until end is called.
func (g *ground) hold(options ...string) (lockrun, guardian int, end func()) {
	g.Helper()
	cmd := g.command(append(options, "--", "sh", "-c", "echo $PPID; exec cat")...)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		g.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		g.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		g.check(cmd, cmd.Wait(), 0)
	})
	g.Cleanup(end)
	line, _ := bufio.NewReader(out).ReadString('\n')
	guardian, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		end()
		g.Fatal(err)
	}
	return cmd.Process.Pid, guardian, end
}

// asked is what the servers have been asked for.
type asked struct{ commands, connections, sessions int }

// count is what they have been asked for so far. To ask them is itself something
// that the next count has in it.
func (g *ground) count() (a asked) {
	g.Helper()
	for _, n := range g.nodes {
		c := n.Client()
		text, err := c.Info(context.Background(), "stats").Result()
		_ = c.Close()
		for name, sum := range map[string]*int{"total_commands_processed": &a.commands, "total_connections_received": &a.connections} {
			var number int
			_, after, _ := strings.Cut(text, "\n"+name+":")
			if _, err2 := fmt.Sscan(after, &number); err != nil || err2 != nil {
				g.Fatalf("INFO of %s: %v, %v", n.Addr(), err, err2)
			}
			*sum += number
		}
	}
	if g.pg != nil {
		a.sessions = strings.Count(g.pg.Log(), "connection authorized: user="+benchLogin)
	}
	return a
}

// counting begins to count. The function that it returns ends that, and reports
// the sums for each op.
func (g *ground) counting(b *testing.B) (report func()) {
	if g.pg == nil {
		return func() {}
	}
	before, cost := g.count(), g.count()
	return func() {
		after := g.count()
		for unit, sum := range map[string]int{
			"redis-commands/op":    after.commands - 2*cost.commands + before.commands,
			"redis-connections/op": after.connections - 2*cost.connections + before.connections,
			"postgres-sessions/op": after.sessions - cost.sessions,
		} {
			b.ReportMetric(float64(sum)/float64(b.N), unit)
		}
	}
}
