// Package incident re-enacts the nights for which lockrun exists, with real
// servers and the real program: first with the lock that failed then, so that
// the fault is seen, and then with lockrun, so that its absence is.
//
// The first night: three pods, a lock in a Redis with two replicas and a
// sentinel, an end-of-day job that ran twice. The second: a lock made by hand,
// in all the ways in which such a lock goes wrong. And what has not happened
// yet: the same with the Postgres that lockrun relies on.
package incident

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lockrun/locks/locktest"
	"lockrun/runner/app"
	"lockrun/runner/supervise"
)

// The test binary plays all the programs: it is what the name says by which it
// is called. lockrun's guardian is one of them.
var programs = map[string]func(){
	"lockrun":              func() { os.Exit(app.Main(os.Args, os.Stdout, os.Stderr)) },
	supervise.GuardianArg0: func() { os.Exit(app.Main(os.Args, os.Stdout, os.Stderr)) },
	"interest-batch":       interestBatchMain,
	"plain-lock":           plainLockMain,
	"handmade-lock":        handmadeLockMain,
}

// programDir has the test binary under each of these names.
var programDir string

func TestMain(m *testing.M) {
	if program, ok := programs[filepath.Base(os.Args[0])]; ok {
		program()
		return
	}
	os.Exit(runTests(m))
}

// atOnce is how many tests run side by side: most of their time is spent waiting
// for a key or a lease to end.
const atOnce = "4"

func runTests(m *testing.M) int {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		must(flag.Set("test.parallel", atOnce))
	}
	dir, err := os.MkdirTemp("", "lockrun-incident")
	must(err)
	defer func() { _ = os.RemoveAll(dir) }()
	self, err := os.Executable()
	must(err)
	for name := range programs {
		must(os.Symlink(self, filepath.Join(dir, name)))
	}
	programDir = dir
	return locktest.Main(m)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
