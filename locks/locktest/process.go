// Package locktest has what tests of the locks need: an in-memory tier, the
// suite that every tier must pass, and starters for real servers on free
// loopback ports. Production code must not import it.
package locktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a server that a test started. It is ended by its pid, at the
// latest when the test's own process ends, however that happens.
type Process struct {
	cmd      *exec.Cmd
	lifeline io.Closer // its end makes the watcher kill the server
	log      *lockedBuffer
	exited   chan struct{}
}

// lockedBuffer keeps what a server prints; it is shown when a test fails.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// FindBinary returns the path of a server program, or fails the test with the
// Debian package that has it.
func FindBinary(tb testing.TB, name, debianPackage string, more ...string) string {
	tb.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range more {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	tb.Fatalf("this test needs %s, which is not on this machine: apt-get install %s (or run .ci/test, which does it)", name, debianPackage)
	return ""
}

// startProcess starts a server as the user of cred (nil: as we are).
func startProcess(tb testing.TB, cred *syscall.Credential, path string, args ...string) *Process {
	tb.Helper()
	p := &Process{cmd: exec.Command(path, args...), log: &lockedBuffer{}, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: cred}
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", path, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	p.watch(tb)
	return p
}

// watch starts a shell that kills the server's process group when the pipe to
// it breaks: a test binary that is killed leaves no server behind.
func (p *Process) watch(tb testing.TB) {
	tb.Helper()
	watcher := exec.Command("/bin/sh", "-c", `trap "" INT TERM HUP; read line; [ "$line" = done ] || kill -s KILL -- "-$0"`, strconv.Itoa(p.Pid()))
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := watcher.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := watcher.Start(); err != nil {
		tb.Fatal(err)
	}
	p.lifeline = pipe
	go func() {
		<-p.exited
		_, _ = io.WriteString(pipe, "done\n")
		_ = pipe.Close()
		_ = watcher.Wait()
	}()
}

// Pid is the process id, which is also the process group's.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Log is what the server has printed.
func (p *Process) Log() string { return p.log.String() }

// Signal sends a signal to the server and the processes that it forked.
func (p *Process) Signal(sig syscall.Signal) { _ = syscall.Kill(-p.Pid(), sig) }

// Pause makes the server hang: its sockets stay open and nobody answers.
func (p *Process) Pause() { p.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// Kill ends the server with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// stop asks with sig and kills what does not go within ten seconds.
func (p *Process) stop(sig syscall.Signal) {
	p.Resume()
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
}

// waitReady polls until ready returns nil, the process has ended, or half a
// minute is over.
func (p *Process) waitReady(ready func() error) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("the server ended before it was ready: %w\n%s", err, p.Log())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server is not ready: %w\n%s", err, p.Log())
		}
	}
}

var (
	portMu    sync.Mutex
	portsUsed = map[int]bool{}
)

// FreePort returns a loopback TCP port that nobody listens on and that this
// process has not handed out before.
func FreePort(tb testing.TB) int {
	tb.Helper()
	portMu.Lock()
	defer portMu.Unlock()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if !portsUsed[port] {
			portsUsed[port] = true
			return port
		}
	}
	tb.Fatal("no free loopback port")
	return 0
}

// tempDir makes a directory that the user of cred owns. Its path is short, as
// the paths of Unix sockets must be.
func tempDir(tb testing.TB, cred *syscall.Credential) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "lockrun")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// unprivileged returns the credential to run a server with that refuses to run
// as root: the named user when we are root, nil otherwise.
func unprivileged(tb testing.TB, name string) *syscall.Credential {
	tb.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		tb.Fatalf("user %q is needed to run the server as: %v", name, err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		tb.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
