package incident

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"lockrun/locks/locktest"
)

// The job of both nights, and the date that it is for.
const (
	job     = "eod-interest"
	day     = "2026-11-27"
	nextDay = "2026-11-30"
)

// cluster is where the pods of a test run: what they all know, and the ledger
// that they all write to.
type cluster struct {
	testing.TB
	*ledger
	dir string
	dsn string
	env []string // LOCKRUN_POSTGRES, LOCKRUN_REDIS, and what else a test wants
}

// newCluster has a directory and no servers.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	books := filepath.Join(dir, "ledger")
	if err := os.Mkdir(books, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &cluster{TB: t, ledger: &ledger{t, books}, dir: dir}
	t.Cleanup(func() {
		if races, _ := filepath.Glob(filepath.Join(dir, "race*")); len(races) > 0 {
			text, _ := os.ReadFile(races[0])
			t.Errorf("data race in lockrun:\n%s", text)
		}
	})
	return c
}

// lockrunCluster has a database with lockrun's tables, and the Redis nodes.
func lockrunCluster(t *testing.T, redis ...string) *cluster {
	t.Helper()
	c := newCluster(t)
	c.use(locktest.SharedPostgres(t).Database(t), redis...)
	return c
}

// use names the servers and makes the tables.
func (c *cluster) use(dsn string, redis ...string) {
	c.Helper()
	c.dsn = dsn
	c.env = []string{"LOCKRUN_POSTGRES=" + dsn, "LOCKRUN_REDIS=" + strings.Join(redis, " ")}
	c.lockrun("operator", "init").ends("0")
}

// text is what a query says to the primary: one row a line, columns separated
// by "|".
func (c *cluster) text(query string, args ...any) string {
	c.Helper()
	return ask(c.TB, c.dsn+"&target_session_attrs=primary", query, args...)
}

func ask(tb testing.TB, dsn, query string, args ...any) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, query, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var cells []string
		for _, raw := range row.RawValues() {
			cells = append(cells, string(raw))
		}
		return strings.Join(cells, "|"), nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// wants compares what the database says.
func (c *cluster) wants(want, query string, args ...any) {
	c.Helper()
	if got := c.text(query, args...); got != want {
		c.Errorf("%s\nsays %q, want %q", query, got, want)
	}
}

// batch is the command line of the job.
func (c *cluster) batch(more ...string) []string {
	return append([]string{"--", filepath.Join(programDir, "interest-batch"), c.ledger.dir}, more...)
}

// pod is a process on a host of its own, under somebody else's eyes: no
// terminal, its own state directory.
type pod struct {
	testing.TB
	name string
	cmd  *exec.Cmd
	log  string // the file that its stdout and stderr are
	done chan struct{}
}

// said is what it has written.
func (p *pod) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// lockrun starts lockrun in a pod.
func (c *cluster) lockrun(pod string, args ...string) *pod {
	c.Helper()
	return c.start(pod, "lockrun", args...)
}

// run starts the job under lockrun: its name, further options, the command.
func (c *cluster) run(pod, date string, options ...string) *pod {
	c.Helper()
	args := append([]string{"--name", job, "--date", date, "--holder", pod}, options...)
	return c.lockrun(pod, append(args, c.batch()...)...)
}

func (c *cluster) start(name, program string, args ...string) *pod {
	c.Helper()
	p := &pod{TB: c.TB, name: name, done: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(programDir, program), args...)
	p.cmd.Dir = c.dir
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "TZ=UTC", "POD=" + name, "LOCKRUN_CONFIG=/dev/null",
		"LOCKRUN_STATE_DIR=" + filepath.Join(c.dir, "state of "+name),
		// A race in lockrun goes to a file, whatever becomes of its stderr.
		"GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(c.dir, "race"),
	}, c.env...)
	// A file: the end of a pipe would come only with that of the last child.
	log, err := os.CreateTemp(c.dir, name+".*.log")
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	p.log, p.cmd.Stdout, p.cmd.Stderr = log.Name(), log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	c.Cleanup(func() {
		p.signal(wake)
		p.kill()
		if program != "lockrun" { // which leaves nothing behind
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
		if c.Failed() {
			c.Logf("%s ended with %s and said:\n%s", name, p.status(), p.said())
		}
	})
	return p
}

const (
	stop = syscall.SIGSTOP
	wake = syscall.SIGCONT
)

func (p *pod) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// kill ends the process, if it has not ended, and waits for it.
func (p *pod) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// status is how it ended: a code or a signal's name.
func (p *pod) status() string {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return strconv.Itoa(p.cmd.ProcessState.ExitCode())
}

// ends waits for the end, which must be that, and for what was said, each part
// of which must be in it. Nothing given: silence.
func (p *pod) ends(want string, parts ...string) string {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.Fatalf("%s does not end; it has said %q", p.name, p.said())
	}
	text := p.said()
	if got := p.status(); got != want {
		p.Fatalf("%s ended with %s, want %s; it said %q", p.name, got, want, text)
	}
	if len(parts) == 0 && text != "" && want == "0" && p.cmd.Args[1] == "--name" {
		p.Errorf("%s said %q, want silence", p.name, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.Errorf("%s said %q, which lacks %q", p.name, text, part)
		}
	}
	return text
}

// says waits until something is said.
func (p *pod) says(part string) {
	p.Helper()
	eventually(p, p.name+" says "+part, func() bool {
		if p.ended() && !strings.Contains(p.said(), part) {
			p.Fatalf("%s ended with %s before it said %q: %q", p.name, p.status(), part, p.said())
		}
		return strings.Contains(p.said(), part)
	})
}

func (p *pod) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// alive tells whether there is a process of that id, other than a zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	after := text[bytes.LastIndexByte(text, ')')+1:]
	return !bytes.HasPrefix(bytes.TrimSpace(after), []byte("Z"))
}
