package locktest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a cluster of a test: initdb in a temporary directory, durability
// switched off unless a test asks otherwise, trust for everybody on loopback.
type Postgres struct {
	*Process
	tb   testing.TB
	cred *syscall.Credential
	bin  string
	dir  string
	port int
	args []string
}

var databases atomic.Int64

// StartPostgres makes and starts a cluster of its own with further settings
// such as "wal_level=replica".
func StartPostgres(tb testing.TB, settings ...string) *Postgres {
	tb.Helper()
	p := NewPostgres(tb)
	p.Initdb()
	p.Start(settings...)
	return p
}

// NewPostgres prepares a cluster without making or starting it: for a standby
// whose directory comes from a base backup.
func NewPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	postgres := FindBinary(tb, "postgres", "postgresql", "/usr/lib/postgresql/*/bin/postgres")
	if real, err := filepath.EvalSymlinks(postgres); err == nil {
		postgres = real
	}
	cred := unprivileged(tb, "postgres")
	p := &Postgres{tb: tb, cred: cred, bin: filepath.Dir(postgres), port: FreePort(tb)}
	p.dir = tempDir(tb, cred)
	return p
}

// Initdb makes the cluster's directory.
func (p *Postgres) Initdb() {
	p.tb.Helper()
	p.Tool("initdb", "-D", p.Data(), "-U", "postgres", "-A", "trust", "-N", "--no-locale", "-E", "UTF8")
}

// Tool runs one of Postgres' own programs as the cluster's user.
func (p *Postgres) Tool(name string, args ...string) {
	p.tb.Helper()
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		p.tb.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Install puts a file into the cluster's directory, which its user alone can
// read, and returns its path: a certificate with its key, pg_hba.conf.
func (p *Postgres) Install(name string, content []byte) string {
	p.tb.Helper()
	path := filepath.Join(p.Data(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		p.tb.Fatal(err)
	}
	if p.cred != nil {
		if err := os.Chown(path, int(p.cred.Uid), int(p.cred.Gid)); err != nil {
			p.tb.Fatal(err)
		}
	}
	return path
}

// Data is the cluster's directory.
func (p *Postgres) Data() string { return filepath.Join(p.dir, "data") }

// Start starts the server, again with the earlier settings if none are given.
func (p *Postgres) Start(settings ...string) {
	p.tb.Helper()
	if len(settings) > 0 || p.args == nil {
		p.args = []string{
			"-D", p.Data(), "-p", fmt.Sprint(p.port), "-k", p.dir, "-c", "listen_addresses=127.0.0.1",
			"-c", "max_connections=120", "-c", "shared_buffers=16MB", "-c", "fsync=off",
		}
		for _, s := range settings {
			p.args = append(p.args, "-c", s)
		}
	}
	p.Process = startProcess(p.tb, p.cred, filepath.Join(p.bin, "postgres"), p.args...)
	p.tb.Cleanup(func() { p.Stop() })
	err := p.waitReady(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, p.DSN("postgres"))
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
	if err != nil {
		p.tb.Fatal(err)
	}
}

// Signal sends a signal to the postmaster and every backend: each backend leads
// a process group of its own, so the group alone would miss them.
func (p *Postgres) Signal(sig syscall.Signal) {
	for _, pid := range append(p.Backends(), p.Pid()) {
		_ = syscall.Kill(pid, sig)
	}
}

// Backends lists the processes that the postmaster forked.
func (p *Postgres) Backends() []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		after := text[strings.LastIndexByte(string(text), ')')+1:]
		var state string
		var ppid, pid int
		if _, err := fmt.Sscan(string(after), &state, &ppid); err != nil || ppid != p.Pid() {
			continue
		}
		if _, err := fmt.Sscan(filepath.Base(filepath.Dir(path)), &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Pause makes the whole server hang.
func (p *Postgres) Pause() { p.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Postgres) Resume() { p.Signal(syscall.SIGCONT) }

// Kill ends the server with all its backends as a crash would.
func (p *Postgres) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// Stop ends the server quickly, with its sessions.
func (p *Postgres) Stop() {
	p.Resume()
	p.stop(syscall.SIGINT)
}

// DSN is what --postgres takes for a database of the cluster.
func (p *Postgres) DSN(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: fmt.Sprintf("127.0.0.1:%d", p.port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Port is the port on 127.0.0.1.
func (p *Postgres) Port() int { return p.port }

// Database makes an empty database and returns its DSN.
func (p *Postgres) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	p.Exec(tb, "postgres", "CREATE DATABASE "+name)
	return p.DSN(name)
}

// Exec runs SQL in a database as the superuser.
func (p *Postgres) Exec(tb testing.TB, database, sql string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, p.DSN(database))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, sql); err != nil {
		tb.Fatal(err)
	}
}

var shared struct {
	once sync.Once
	main *mainTB
	pg   *Postgres
}

// SharedPostgres returns the one cluster of this test binary, for tests that
// need a database but not a server of their own. The package's TestMain must
// call [Main].
func SharedPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	if shared.main == nil {
		tb.Fatal("SharedPostgres needs a TestMain that calls locktest.Main")
	}
	shared.once.Do(func() { shared.pg = StartPostgres(shared.main) })
	if shared.pg == nil {
		tb.Fatal("the shared Postgres did not start")
	}
	return shared.pg
}

// mainTB stands for the whole test binary: its cleanups run after all tests.
type mainTB struct {
	testing.TB
	cleanups []func()
}

func (m *mainTB) Helper()          {}
func (m *mainTB) Cleanup(f func()) { m.cleanups = append(m.cleanups, f) }
func (m *mainTB) Fatal(args ...any) {
	panic(fmt.Sprint(args...))
}
func (m *mainTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Main runs the tests of a package that uses shared servers and ends those.
func Main(m *testing.M) int {
	DefaultSignals()
	shared.main = &mainTB{}
	code := m.Run()
	for i := len(shared.main.cleanups) - 1; i >= 0; i-- {
		shared.main.cleanups[i]()
	}
	return code
}
