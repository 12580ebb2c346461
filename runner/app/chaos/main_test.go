//go:build linux

package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockrun/locks/locktest"
)

var (
	runFor   = flag.Duration("for", 0, "how long TestChaos goes on with new seeds")
	onlySeed = flag.Uint64("seed", 0, "the one schedule that TestChaos plays")
)

// moduleRoot is where the program is built from.
const moduleRoot = "../../.."

// This test binary is also the job that lockrun runs.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == jobName {
		os.Exit(jobMain())
	}
	dir, err := os.MkdirTemp("", "lockrun-chaos")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	redis.SetLogger(silence{})
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", atOnce)
	}
	code := locktest.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// atOnce is how many worlds there are at once: they wait most of the time.
const atOnce = "5"

// silence drops what the client library says of servers that are away.
type silence struct{}

// Printf drops a line.
func (silence) Printf(context.Context, string, ...any) {}

// buildDir is there while the tests run.
var buildDir string

// build makes the program as it is shipped: static, without the race detector.
// more are further arguments of go build.
func build(name string, more ...string) (string, error) {
	path := filepath.Join(buildDir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, more...), ".")...)
	cmd.Dir = moduleRoot
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

var unmutated = sync.OnceValues(func() (string, error) { return build("lockrun") })

func program(tb testing.TB) string {
	tb.Helper()
	path, err := unmutated()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// poll asks until done says so, or the patience is over.
func poll(patience time.Duration, done func() bool) bool {
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(20 * time.Millisecond)
	}
	return true
}
