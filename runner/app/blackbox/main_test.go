// Package blackbox runs the real program against real servers, as a user does:
// the scripts in testdata/script, the examples, and what needs more than a
// script. It uses nothing that is inside.
package blackbox

import (
	"bytes"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lockrun/locks/locktest"
	"lockrun/runner/app"
	"lockrun/runner/supervise"
)

// In the scripts, "lockrun" is this test binary; /proc/self/exe of the guardian
// is too.
func TestMain(m *testing.M) {
	testscript.Main(servers{m}, map[string]func(){
		"lockrun":              program,
		supervise.GuardianArg0: program,
		"background":           backgroundMain,
		"hold":                 holdMain,
		"tick":                 tickMain,
		"sql":                  sqlMain,
		"redis-node":           redisNodeMain,
		"redis-keys":           redisKeysMain,
	})
}

// program is the whole of main.go.
func program() { os.Exit(app.Main(os.Args, os.Stdout, os.Stderr)) }

// moduleRoot is where testdata and the README are. The tests run there; the
// commands of a script run where the script says.
const moduleRoot = "../../.."

// servers ends the shared servers after all tests.
type servers struct{ m *testing.M }

// scriptsAtOnce is how many scripts run side by side: most of their time is
// spent waiting for a lease to end.
const scriptsAtOnce = "4"

func (s servers) Run() int {
	if err := os.Chdir(moduleRoot); err != nil {
		panic(err)
	}
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", scriptsAtOnce); err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "lockrun-built")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	buildDir = dir
	return locktest.Main(s.m)
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp(t),
		Cmds:                scriptCommands,
	})
}

// state is what a script's own commands share.
type state struct {
	tb       testing.TB
	workDir  string
	job      string // what all names of this script begin with
	dsn      string // of the script's database
	nodes    []string
	redis    []*locktest.Redis  // of the script's own; none = the shared ones
	postgres *locktest.Postgres // of the script's own; nil = the shared one
	proxy    *proxy
	leaves   []string // what the script leaves behind on purpose
}

// setUp gives each script a database of its own on the shared server. The
// Redis nodes are shared too: a script uses names that begin with $JOB.
func setUp(t *testing.T) func(*testscript.Env) error {
	nodes := locktest.URLs(locktest.StartRedisNodes(t, 3))
	return func(env *testscript.Env) error {
		s := &state{tb: env.T().(testing.TB), workDir: env.WorkDir, nodes: nodes}
		s.dsn = locktest.SharedPostgres(t).Database(t)
		u, err := url.Parse(s.dsn)
		if err != nil {
			return err
		}
		database := strings.TrimPrefix(u.Path, "/")
		s.job = database + ".job"
		env.Values["state"] = s
		env.Defer(s.checkNothingLeft)
		env.Setenv("HOME", env.WorkDir)
		env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
		env.Setenv("PG", s.dsn)
		env.Setenv("PGADDR", u.Host)
		env.Setenv("DB", database)
		env.Setenv("REDIS", strings.Join(nodes, " "))
		env.Setenv("JOB", s.job)
		env.Setenv("TZ", "UTC")
		// A race in lockrun goes to a file, whatever becomes of its stderr. The
		// detector's own pause at the end of a process is no use here.
		env.Setenv("GORACE", strings.TrimSpace(env.Getenv("GORACE")+" atexit_sleep_ms=0 log_path="+filepath.Join(env.WorkDir, ".race")))
		return nil
	}
}

func stateOf(ts *testscript.TestScript) *state { return ts.Value("state").(*state) }

// What checkNothingLeft looks for, and what the script command "leaves" takes.
const (
	leavesLease   = "lease"   // a lease that is live
	leavesKey     = "key"     // a lock's key on some node
	leavesProcess = "process" // a process that the script started
)

// checkNothingLeft runs after each script and all its background commands: no
// run may leave anything behind, however it ended.
func (s *state) checkNothingLeft() {
	if s.tb.Failed() {
		return // what is left then says nothing
	}
	if races, _ := filepath.Glob(filepath.Join(s.workDir, ".race*")); len(races) > 0 {
		text, _ := os.ReadFile(races[0])
		s.tb.Errorf("data race in lockrun:\n%s", text)
	}
	for what, look := range map[string]func() (string, error){
		leavesLease: s.liveLeases, leavesKey: s.lockKeys, leavesProcess: s.processes,
	} {
		if slices.Contains(s.leaves, what) {
			continue
		}
		if found, err := look(); err != nil || found != "" {
			s.tb.Errorf("left behind, %s: %s %v", what, found, err)
		}
	}
}

func (s *state) liveLeases() (string, error) {
	text, err := query(s.dsn, `SELECT to_regclass('lockrun.lease') IS NOT NULL`)
	if err != nil || strings.TrimSpace(text) == "f" {
		return "", err
	}
	return query(s.dsn, `SELECT name, expires_at FROM lockrun.lease WHERE expires_at > clock_timestamp()`)
}

func (s *state) lockKeys() (string, error) {
	keys, err := keysOn(s.nodes, "lockrun:lock:"+s.job+"*")
	return strings.Join(keys, " "), err
}

// processes finds what the script started by its environment, which children
// inherit and which no daemon can drop.
func (s *state) processes() (string, error) {
	mark := []byte("WORK=" + s.workDir + "\x00")
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	var found []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, mark) {
			continue // ended meanwhile, or another user's
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		found = append(found, fmt.Sprintf("%s %q", filepath.Base(filepath.Dir(path)), bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return strings.Join(found, ", "), err
}
