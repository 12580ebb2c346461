package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"lockrun/locks/locktest"
	"lockrun/runner/supervise"
)

// The scripts in testdata/script run the real program against real servers. In
// them, "lockrun" is this test binary; /proc/self/exe of the guardian is too.
func TestMain(m *testing.M) {
	testscript.Main(servers{m}, map[string]func(){
		"lockrun":               main,
		supervise.GuardianArg0:  main,
		"sql":                   sqlMain,
		"redis-keys-of-lockrun": redisKeysMain,
	})
}

// servers ends the shared servers after all tests.
type servers struct{ m *testing.M }

func (s servers) Run() int { return locktest.Main(s.m) }

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp(t),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"sig":      cmdSig,
			"waitfor":  cmdWaitFor,
			"waitsql":  cmdWaitSQL,
			"redis":    cmdRedis,
			"postgres": cmdPostgres,
		},
	})
}

// state is what a script's own commands share.
type state struct {
	t        *testing.T
	redis    []*locktest.Redis
	postgres *locktest.Postgres // of the script's own; nil = the shared one
}

// setUp gives each script a database of its own on the shared server. The
// Redis nodes are shared too: a script uses names of its own, the database's.
func setUp(t *testing.T) func(*testscript.Env) error {
	nodes := locktest.URLs(locktest.StartRedisNodes(t, 3))
	return func(env *testscript.Env) error {
		dsn := locktest.SharedPostgres(t).Database(t)
		env.Values["state"] = &state{t: t}
		env.Setenv("HOME", env.WorkDir)
		env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
		env.Setenv("PG", dsn)
		env.Setenv("REDIS", strings.Join(nodes, " "))
		env.Setenv("JOB", dsn[strings.LastIndex(dsn, "/")+1:strings.Index(dsn, "?")])
		env.Setenv("TZ", "UTC")
		return nil
	}
}

func stateOf(ts *testscript.TestScript) *state { return ts.Value("state").(*state) }

// exits CODE|SIGNAL COMMAND... runs a command that must end in just that way.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE|SIGNAL COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var ee *exec.ExitError
	switch {
	case errors.As(err, &ee):
		status := ee.Sys().(syscall.WaitStatus)
		got = strconv.Itoa(status.ExitStatus())
		if status.Signaled() {
			got = unix.SignalName(status.Signal())
		}
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("ended with %s, want %s", got, args[0])
	}
}

// sig SIGNAL PIDFILE sends a signal to the process whose id the file holds.
func cmdSig(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sig SIGNAL PIDFILE")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	sig := unix.SignalNum(args[0])
	if sig == 0 {
		ts.Fatalf("no signal %q", args[0])
	}
	ts.Check(syscall.Kill(pid, sig))
}

// patience bounds every wait for a condition: longer than any machine needs.
const patience = 30 * time.Second

func poll(ts *testscript.TestScript, what string, met func() (bool, string)) {
	deadline := time.Now().Add(patience)
	for {
		ok, seen := met()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %s; last seen: %s", what, seen)
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
}

// waitfor FILE [TEXT] waits until the file is there and holds the text.
func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: waitfor FILE [TEXT]")
	}
	poll(ts, args[0], func() (bool, string) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil {
			return false, err.Error()
		}
		return len(text) > 0 && (len(args) == 1 || strings.Contains(string(text), args[1])), string(text)
	})
}

// waitsql VALUE QUERY waits until a query gives that one value.
func cmdWaitSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitsql VALUE QUERY")
	}
	dsn := ts.Getenv("PG")
	poll(ts, args[1], func() (bool, string) {
		text, err := query(dsn, args[1])
		if err != nil {
			return false, err.Error()
		}
		return strings.TrimSpace(text) == args[0], text
	})
}

// redis start N | pause I | resume I | kill I | restart I: nodes of the
// script's own, in place of the shared ones. I counts from 1.
func cmdRedis(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: redis start N | pause|resume|kill|restart I")
	}
	s := stateOf(ts)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if args[0] == "start" {
		s.redis = locktest.StartRedisNodes(s.t, n)
		ts.Setenv("REDIS", strings.Join(locktest.URLs(s.redis), " "))
		return
	}
	node := s.redis[n-1]
	do := map[string]func(){"pause": node.Pause, "resume": node.Resume, "kill": node.Kill, "restart": node.RestartEmpty}[args[0]]
	if do == nil {
		ts.Fatalf("redis can't %s", args[0])
	}
	do()
}

// postgres start [SETTING...] | pause | resume | kill | restart: a server of
// the script's own.
func cmdPostgres(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: postgres start [SETTING...] | pause | resume | kill | restart")
	}
	s := stateOf(ts)
	if args[0] == "start" {
		s.postgres = locktest.StartPostgres(s.t, args[1:]...)
		ts.Setenv("PG", s.postgres.DSN("postgres"))
		return
	}
	switch p := s.postgres; args[0] {
	case "pause":
		p.Pause()
	case "resume":
		p.Resume()
	case "kill":
		p.Kill()
	case "restart":
		p.Kill()
		p.Start()
	default:
		ts.Fatalf("postgres can't %s", args[0])
	}
}

// query returns the rows of a query, a line each, columns separated by "|",
// NULL as "-".
func query(dsn, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	result, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range result {
		for _, row := range r.Rows {
			for i, col := range row {
				if i > 0 {
					b.WriteByte('|')
				}
				if col == nil {
					col = []byte("-")
				}
				b.Write(col)
			}
			b.WriteByte('\n')
		}
	}
	return b.String(), nil
}

// sqlMain is the program "sql QUERY" of the scripts.
func sqlMain() {
	text, err := query(os.Getenv("PG"), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// redisKeysMain prints the keys of one name on all nodes: "redis-keys-of-lockrun NAME".
func redisKeysMain() {
	for _, url := range strings.Fields(os.Getenv("REDIS")) {
		c := locktest.ClientFor(url)
		keys, err := c.Keys(context.Background(), "lockrun:lock:"+os.Args[1]).Result()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, k := range keys {
			fmt.Println(k)
		}
		_ = c.Close()
	}
}
