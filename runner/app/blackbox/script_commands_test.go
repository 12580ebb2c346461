package blackbox

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"lockrun/locks/locktest"
)

// scriptCommands are the words that scripts have in addition to testscript's.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"servers":   cmdServers,
	"exits":     cmdExits,
	"says":      cmdSays,
	"ended":     cmdEnded,
	"sig":       cmdSig,
	"waitfor":   cmdWaitFor,
	"waitsql":   cmdWaitSQL,
	"redis":     cmdRedis,
	"postgres":  cmdPostgres,
	"proxy":     cmdProxy,
	"pgbouncer": cmdPgBouncer,
	"leaves":    cmdLeaves,
	"built":     cmdBuilt,
	"ledger":    cmdLedger,
}

// need fails a command that was called in another way than usage says.
func need(ts *testscript.TestScript, neg, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

// servers makes the schema and names the servers in the environment.
func cmdServers(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 0, "servers")
	ts.Setenv("LOCKRUN_POSTGRES", ts.Getenv("PG"))
	ts.Setenv("LOCKRUN_REDIS", ts.Getenv("REDIS"))
	ts.Check(ts.Exec("lockrun", "init"))
}

// statusText is an exit code, or the name of the signal that a process died of.
func statusText(err error) string {
	var ee *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case !errors.As(err, &ee):
		return err.Error()
	}
	status := ee.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return strconv.Itoa(status.ExitStatus())
}

func exits(ts *testscript.TestScript, want string, command []string) {
	if got := statusText(ts.Exec(command[0], command[1:]...)); got != want {
		ts.Fatalf("ended with %s, want %s", got, want)
	}
}

// exits CODE|SIGNAL COMMAND... runs a command that must end in just that way.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 2, "exits CODE|SIGNAL COMMAND...")
	exits(ts, args[0], args[1:])
}

// says CODE|SIGNAL PATTERN COMMAND... runs a command that must end in that way,
// write nothing to stdout, and one line to stderr that matches; none if PATTERN is
// empty.
func cmdSays(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 3, "says CODE|SIGNAL PATTERN COMMAND...")
	exits(ts, args[0], args[2:])
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("said on stdout: %q", out)
	}
	checkLine(ts, args[1], ts.ReadFile("stderr"))
}

func checkLine(ts *testscript.TestScript, pattern, text string) {
	re, err := regexp.Compile(pattern)
	ts.Check(err)
	line, rest, ended := strings.Cut(text, "\n")
	switch {
	case pattern == "" && text != "":
		ts.Fatalf("said %q, want silence", text)
	case pattern != "" && (!ended || rest != ""):
		ts.Fatalf("said %q, want one line", text)
	case !re.MatchString(line):
		ts.Fatalf("said %q, want %#q", line, pattern)
	}
}

// ended NAME CODE|SIGNAL [PATTERN] waits for the end of "exec background NAME .. &",
// which must be that, with one line on stderr as for says.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2 || len(args) == 3, "ended NAME CODE|SIGNAL [PATTERN]")
	waitFor(ts, args[0]+".status", "\n")
	text := ts.ReadFile(args[0] + ".err")
	if got := strings.TrimSpace(ts.ReadFile(args[0] + ".status")); got != args[1] {
		ts.Fatalf("%s ended with %s, want %s; said %q", args[0], got, args[1], text)
	}
	if len(args) == 3 {
		checkLine(ts, args[2], text)
	}
}

// sig SIGNAL PIDFILE|PID sends a signal to the process whose id the file holds.
func cmdSig(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2, "sig SIGNAL PIDFILE|PID")
	pid, err := strconv.Atoi(args[1])
	if err != nil {
		waitFor(ts, args[1], "")
		pid, err = strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[1])))
		ts.Check(err)
	}
	sig := unix.SignalNum("SIG" + args[0])
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
	need(ts, neg, len(args) == 1 || len(args) == 2, "waitfor FILE [TEXT]")
	waitFor(ts, args[0], strings.Join(args[1:], ""))
}

func waitFor(ts *testscript.TestScript, file, want string) {
	poll(ts, file+" "+want, func() (bool, string) {
		text, err := os.ReadFile(ts.MkAbs(file))
		if err != nil {
			return false, err.Error()
		}
		return len(text) > 0 && strings.Contains(string(text), want), string(text)
	})
}

// waitsql VALUE QUERY waits until a query gives that one value.
func cmdWaitSQL(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2, "waitsql VALUE QUERY")
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
	need(ts, neg, len(args) == 2, "redis start N | pause|resume|kill|restart I")
	s := stateOf(ts)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if args[0] == "start" {
		s.redis = locktest.StartRedisNodes(s.tb, n)
		s.nodes = locktest.URLs(s.redis)
		ts.Setenv("REDIS", strings.Join(s.nodes, " "))
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
	need(ts, neg, len(args) >= 1, "postgres start [SETTING...] | pause | resume | kill | restart")
	s := stateOf(ts)
	if args[0] == "start" {
		s.postgres = locktest.StartPostgres(s.tb, args[1:]...)
		s.dsn = s.postgres.DSN("postgres")
		ts.Setenv("PG", s.dsn)
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

// proxy start | freeze | mute [TEXT] | thaw: a wire to the script's Postgres,
// whose DSN is then $PROXY. Frozen, nothing comes through; muted, no answers do,
// from the request on that has the text.
func cmdProxy(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1 || len(args) == 2 && args[0] == "mute", "proxy start | freeze | mute [TEXT] | thaw")
	s := stateOf(ts)
	switch args[0] {
	case "start":
		var dsn string
		s.proxy, dsn = startProxy(s.tb, s.dsn)
		ts.Setenv("PROXY", dsn)
	case "freeze":
		s.proxy.set(frozen, "")
	case "mute":
		s.proxy.set(muted, strings.Join(args[1:], ""))
	case "thaw":
		s.proxy.set(open, "")
	default:
		ts.Fatalf("proxy can't %s", args[0])
	}
}

// pgbouncer puts a pooler with one connection in front of the script's database.
func cmdPgBouncer(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 0, "pgbouncer")
	s := stateOf(ts)
	b := locktest.StartPgBouncer(s.tb, locktest.SharedPostgres(s.tb), ts.Getenv("DB"), "transaction", 1)
	ts.Setenv("LOCKRUN_POSTGRES", b.DSN())
}

// leaves lease|key|process...: what is still there at the end, on purpose.
func cmdLeaves(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 1, "leaves lease|key|process...")
	s := stateOf(ts)
	s.leaves = append(s.leaves, args...)
}

// built puts the path of the program as it is shipped into $BUILT.
func cmdBuilt(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 0, "built")
	ts.Setenv("BUILT", build(stateOf(ts).tb))
}
