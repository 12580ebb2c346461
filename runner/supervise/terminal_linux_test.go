package supervise

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminal is a pseudo terminal with the program that leads its session.
type terminal struct {
	f      *fixture
	master *os.File
	leader *exec.Cmd
	mu     sync.Mutex
	screen strings.Builder
}

func openPty(f *fixture, leader *exec.Cmd) *terminal {
	f.t.Helper()
	master, err := pty.StartWithSize(leader, &pty.Winsize{Rows: 24, Cols: 200})
	if err != nil {
		f.t.Fatal(err)
	}
	term := &terminal{f: f, master: master, leader: leader}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			term.mu.Lock()
			term.screen.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	f.t.Cleanup(func() {
		_ = leader.Process.Kill()
		_ = leader.Wait()
		if f.t.Failed() {
			f.t.Logf("screen:\n%s", term.shows())
		}
	})
	return term
}

// openShell starts an interactive bash, in which ./lr is lockrun.
func openShell(f *fixture) *terminal {
	f.t.Helper()
	spec := f.env()[len(f.cmd.Env)+1]
	f.file("lr", "#!/bin/sh\nexport "+roleEnv+"=driver\nexport "+
		specEnv+"='"+strings.ReplaceAll(strings.TrimPrefix(spec, specEnv+"="), "'", `'\''`)+"'\nexec \"$TEST_EXE\"\n", 0o755)
	shell := exec.Command("bash", "--norc", "-i")
	shell.Dir = f.dir
	shell.Env = append(slices.Clone(f.cmd.Env), "PS1=prompt> ", "HISTFILE=", "TERM=dumb")
	term := openPty(f, shell)
	term.waitFor("prompt> ")
	return term
}

func (term *terminal) shows() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *terminal) waitFor(text string) {
	term.f.t.Helper()
	eventually(term.f.t, "the screen to show "+text, func() bool { return strings.Contains(term.shows(), text) })
}

func (term *terminal) write(text string) {
	term.f.t.Helper()
	if _, err := term.master.WriteString(text); err != nil {
		term.f.t.Fatal(err)
	}
}

const (
	ctrlC         = "\x03"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	t.Run("typed signals arrive once", func(t *testing.T) {
		f := newCounter(t, syscall.SIGTERM)
		term := openShell(f)
		term.write("./lr; echo code=$?\n")
		f.counted("ready")
		// One that is passed on as well then arrives after the first was counted.
		guardian := f.guardian()
		f.send(guardian, syscall.SIGSTOP)
		term.write(ctrlC)
		f.counted("interrupt")
		term.write(ctrlBackslash)
		f.counted("quit")
		f.send(guardian, syscall.SIGCONT)
		if err := pty.Setsize(term.master, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
			t.Fatal(err)
		}
		f.counted("window-changed")
		f.send(f.driver(), syscall.SIGTERM)
		term.waitFor("code=0")
		if got, want := f.read("signals"), "ready\ninterrupt\nquit\nwindow-changed\nterminated\n"; got != want {
			t.Errorf("the child got\n%swant\n%s", got, want)
		}
	})
	t.Run("Ctrl-C ends a loop", func(t *testing.T) {
		f := newFixture(t, "sh", "-c", "echo st''arted; exec sleep 1000")
		term := openShell(f)
		term.write("for i in 1 2 3; do ./lr; done\n")
		term.waitFor("started")
		term.write(ctrlC)
		term.write("echo e''nd\n")
		term.waitFor("end")
		if n := strings.Count(term.shows(), "started"); n != 1 {
			t.Errorf("the loop went on: %d rounds", n)
		}
		f.goneExcept(term)
	})
	t.Run("stopped and continued", func(t *testing.T) {
		f := newTreeFixture(t)
		term := openShell(f)
		term.write("./lr; echo code=$?\n")
		f.beating()
		term.write(ctrlZ)
		term.waitFor("Stopped")
		driver, child := f.driver(), f.event(Started).Event.PID
		eventually(t, "a stopped group", func() bool { return f.state(child) == 'T' && f.state(driver) == 'T' })
		before := now()
		term.write("fg\n")
		eventually(t, "heartbeats", func() bool { return f.lastBeat("plain") > before })
		f.send(driver, syscall.SIGTERM)
		f.goneExcept(term)
		f.last(Empty)
	})
	t.Run("stopped past the deadline", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Window = 4 * time.Second
		term := openShell(f)
		term.write("./lr\n")
		f.beating()
		driver := f.driver()
		term.write(ctrlZ)
		term.waitFor("Stopped")
		eventually(t, "the end of the tree", func() bool { return len(f.survivors()) == 2 }) // bash and lockrun
		f.quiet(f.event(Started).K.Add(f.spec.KillMargin))
		if f.state(driver) != 'T' {
			t.Error("lockrun is not stopped any more")
		}
		term.write("fg; echo code=$?\n")
		term.waitFor("code=70")
		f.last(Empty)
		f.goneExcept(term)
	})
	t.Run("background job that reads", func(t *testing.T) {
		f := newFixture(t, "sh", "-c", `read x; echo "got"-$x`)
		term := openShell(f)
		term.write("./lr &\n")
		// Lockrun may be stopped, together with the child, before it knows of it.
		guardian, driver, child := f.guardian(), f.driver(), 0
		eventually(t, "a stopped group", func() bool {
			for _, p := range descendants(guardian) {
				child = p.pid
			}
			return child != 0 && f.state(child) == 'T' && f.state(driver) == 'T'
		})
		// The shell hears of the stop a little later than /proc shows it.
		eventually(t, "the shell to know of it", func() bool {
			term.write("jobs\n")
			return strings.Contains(term.shows(), "Stopped")
		})
		term.write("fg\n")
		eventually(t, "a running child", func() bool { return f.state(child) != 'T' })
		term.write("hello\n")
		term.waitFor("got-hello")
		f.goneExcept(term)
	})
	t.Run("calling script can read afterwards", func(t *testing.T) {
		f := newFixture(t, "sh", "-c", `read x; echo "child:"$x`)
		f.file("script", "./lr; echo 'now:'me; read y; echo 'script:'$y\n", 0o644)
		term := openShell(f)
		term.write("bash script\n")
		term.write("one\n")
		term.waitFor("child:one")
		term.waitFor("now:me")
		term.write("two\n")
		term.waitFor("script:two")
		f.goneExcept(term)
	})
	t.Run("hangup reaches a background job once", func(t *testing.T) {
		f := newCounter(t, syscall.SIGTERM)
		term := openShell(f)
		term.write("./lr &\n")
		f.counted("ready")
		driver := f.driver()
		guardian := f.guardian()
		f.send(guardian, syscall.SIGSTOP)
		f.send(term.leader.Process.Pid, syscall.SIGHUP) // as the closed terminal does
		f.counted("hangup")
		f.send(guardian, syscall.SIGCONT)
		f.send(driver, syscall.SIGTERM)
		f.gone()
		if got, want := strings.ReplaceAll(f.read("signals"), "continued\n", ""), "ready\nhangup\nterminated\n"; got != want {
			t.Errorf("the child got\n%swant\n%s", got, want)
		}
	})
	t.Run("nohup", func(t *testing.T) {
		f := newTreeFixture(t)
		term := openShell(f)
		term.write("nohup ./lr >/dev/null 2>&1 &\n")
		f.beating()
		driver := f.driver()
		f.send(term.leader.Process.Pid, syscall.SIGHUP)
		_ = term.leader.Wait()
		f.send(driver, syscall.SIGHUP)
		before := now()
		eventually(t, "heartbeats", func() bool { return f.lastBeat("plain") > before })
		f.send(driver, syscall.SIGTERM)
		f.gone()
		if f.has(TakenOver) {
			t.Errorf("events %v", f.kinds())
		}
	})
	t.Run("process group without a name", func(t *testing.T) {
		// The leader of the group is outside of lockrun's PID namespace.
		f := newCounter(t, syscall.SIGTERM)
		term := openShell(f)
		term.write("unshare --pid --fork --mount-proc ./lr; echo code=$?\n")
		f.counted("ready")
		term.write(ctrlC)
		f.counted("interrupt")
		f.send(f.driver(), syscall.SIGTERM)
		term.waitFor("code=0")
		if got, want := f.read("signals"), "ready\ninterrupt\nterminated\n"; got != want {
			t.Errorf("the child got\n%swant\n%s", got, want)
		}
	})
	t.Run("session leader", func(t *testing.T) { // as in "docker run -it"
		f := newCounter(t, syscall.SIGTERM)
		driver := exec.Command(f.cmd.Path)
		driver.Env = f.env()
		term := openPty(f, driver)
		f.counted("ready")
		term.write(ctrlC)
		f.counted("interrupt")
		f.send(driver.Process.Pid, syscall.SIGHUP) // as the closed terminal does, to the leader alone
		f.counted("hangup")
		f.send(driver.Process.Pid, syscall.SIGTERM)
		f.counted("terminated")
		if err := driver.Wait(); err != nil {
			t.Error(err)
		}
		if got, want := f.read("signals"), "ready\ninterrupt\nhangup\nterminated\n"; got != want {
			t.Errorf("the child got\n%swant\n%s", got, want)
		}
		f.gone()
	})
}

func (f *fixture) state(pid int) byte {
	p, _ := readProcess(pid)
	return p.state
}

// goneExcept waits until nothing but the terminal's shell is left.
func (f *fixture) goneExcept(term *terminal) {
	f.t.Helper()
	eventually(f.t, "the end of every process but the shell", func() bool {
		return slices.Equal(f.survivors(), []int{term.leader.Process.Pid})
	})
}
