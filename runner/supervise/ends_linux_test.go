package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code := range 256 {
		f := newFixture(t, "sh", "-c", fmt.Sprintf("exit %d", code))
		f.exits(code, f.run())
		if want := []Kind{Started, Exited, Empty}; !slices.Equal(f.kinds(), want) {
			t.Errorf("exit %d: events %v, want %v", code, f.kinds(), want)
		}
	}
}

func TestDeathBySignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT,
		syscall.SIGBUS, syscall.SIGFPE, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGUSR2,
		syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGSYS,
	} {
		f := newFixture(t, "sh", "-c", fmt.Sprintf("kill -%d $$", sig))
		status := f.run()
		if !status.Signaled() || status.Signal() != sig || status.CoreDump() {
			t.Errorf("%v: the driver ended with %#x", sig, status)
		}
		if f.err.Len() > 0 {
			t.Errorf("%v: the driver wrote %q", sig, f.err.String())
		}
	}
}

// file writes one with the content and mode, and returns its path.
func (f *fixture) file(name, content string, mode os.FileMode) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		f.t.Fatal(err)
	}
	return path
}

func TestExecute(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, content string
		code          int
		started       bool
	}{
		{"script without a first line", "echo \"$0 $1\"; exit 7\n", 7, true},
		{"empty file", "", 0, true},
		{"missing interpreter", "#!/no/such/interpreter\n", 127, false},
		{"damaged binary", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\n", 126, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			path := f.file("command", tt.content, 0o755)
			f.spec.Argv = []string{path, "one"}
			f.exits(tt.code, f.run())
			if f.has(Started) != tt.started {
				t.Errorf("events %v", f.kinds())
			}
			if !tt.started {
				f.last(NotStarted)
			}
			if tt.code == 7 && f.out.String() != path+" one\n" {
				t.Errorf("it printed %q", f.out.String())
			}
			f.gone()
		})
	}
	t.Run("variables too large", func(t *testing.T) {
		f := newFixture(t, "true")
		f.spec.Vars = append(f.spec.Vars, "BIG="+strings.Repeat("x", maxMessage))
		f.exits(71, f.run())
		f.last(NotStarted)
		f.gone()
	})
	t.Run("argv and variables", func(t *testing.T) {
		f := newFixture(t, "sh", "-c", `printf '%s|' "$0" "$@" "$LOCKRUN_NAME" "$LOCKRUN_TOKEN"`, "--", "", "a b\nc", "--help", "\xff")
		f.spec.Vars = append(f.spec.Vars, "LOCKRUN_NAME=new", "LOCKRUN_TOKEN=\xfe=7")
		f.cmd.Env = append(f.cmd.Env, "LOCKRUN_NAME=old")
		f.exits(0, f.run())
		if want := "--||a b\nc|--help|\ufffd|new|\ufffd=7|"; strings.ToValidUTF8(f.out.String(), "\ufffd") != want {
			t.Errorf("the child saw %q", f.out.String())
		}
	})
}

func TestLookPath(t *testing.T) {
	f := newFixture(t)
	program := f.file("program", "", 0o755)
	f.file("plain", "", 0o644)
	for _, dir := range []string{"first", "second", "second/dir"} {
		if err := os.Mkdir(filepath.Join(f.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.file("first/twice", "", 0o644)
	second := f.file("second/twice", "", 0o755)
	t.Chdir(f.dir)
	path := filepath.Join(f.dir, "first") + ":" + filepath.Join(f.dir, "second")
	for _, tt := range []struct {
		name, path, want string
		code             int
	}{
		{program, path, program, 0},
		{"./program", path, "./program", 0},
		{"second/twice", path, "second/twice", 0},
		{"program", path, "", 127},
		{"program", ":" + path, "./program", 0},
		{"program", path + ":", "./program", 0},
		{"program", ".", "./program", 0},
		{"twice", "second", "second/twice", 0},
		{"twice", path, second, 0},
		{"twice", filepath.Join(f.dir, "first"), "", 126},
		{"dir", path, "", 126},
		{"./plain", path, "", 126},
		{"plain", ".", "", 126},
		{"./missing", path, "", 127},
		{"./plain/below", path, "", 126},
		{f.dir, path, "", 126},
		{"", path, "", 127},
		{".", path, "", 126},
	} {
		t.Setenv("PATH", tt.path)
		got, err := LookPath(tt.name)
		var failed *CommandError
		if tt.code == 0 && (err != nil || got != tt.want) {
			t.Errorf("%q in %q: %q, %v, want %q", tt.name, tt.path, got, err, tt.want)
		}
		if tt.code != 0 && (!errors.As(err, &failed) || failed.Code != tt.code) {
			t.Errorf("%q in %q: %q, %v, want code %d", tt.name, tt.path, got, err, tt.code)
		}
	}
	os.Unsetenv("PATH") // t.Setenv puts it back
	if got, err := LookPath("sh"); err != nil || got != "/bin/sh" {
		t.Errorf("without PATH: %q, %v", got, err)
	}
}

func TestLeftovers(t *testing.T) {
	t.Parallel()
	// The leftover does not hold the driver's output, and tells that it is there.
	const script = `sh -c '%s touch "$TEST_DIR/up"; while [ ! -e "$TEST_DIR/go" ]; do sleep 0.01; done' >/dev/null 2>&1 &
while [ ! -e "$TEST_DIR/up" ]; do sleep 0.01; done; exit 3`
	const deaf = `trap "" TERM;`
	prepare := func(t *testing.T, trap string, policy Policy) *fixture {
		f := newFixture(t, "sh", "-c", fmt.Sprintf(script, trap))
		f.spec.Leftovers = policy
		return f
	}
	t.Run("kill", func(t *testing.T) {
		f := prepare(t, "", Kill)
		f.exits(3, f.run())
		f.gone()
		if want := []Kind{Started, Exited, Leftovers, TermSent, Empty}; !slices.Equal(f.kinds(), want) {
			t.Errorf("events %v, want %v", f.kinds(), want)
		}
		if got := f.event(TermSent).Error; got != ErrLeftovers.Error() {
			t.Errorf("SIGTERM because %q", got)
		}
	})
	t.Run("kill a deaf one", func(t *testing.T) {
		f := prepare(t, deaf, Kill)
		f.exits(3, f.run())
		f.gone()
		if want := []Kind{Started, Exited, Leftovers, TermSent, KillSent, Empty}; !slices.Equal(f.kinds(), want) {
			t.Errorf("events %v, want %v", f.kinds(), want)
		}
	})
	t.Run("wait", func(t *testing.T) {
		f := prepare(t, "", Wait)
		f.start()
		eventually(t, "leftovers", func() bool { return f.has(Leftovers) })
		if f.has(Empty) || f.has(TermSent) {
			t.Errorf("events %v before the leftover has ended", f.kinds())
		}
		f.file("go", "", 0o644)
		f.exits(3, f.wait())
		f.last(Empty)
		f.gone()
	})
	t.Run("wait, but not past the deadline", func(t *testing.T) {
		f := prepare(t, deaf, Wait)
		f.spec.Window = 3 * time.Second
		f.exits(70, f.run())
		f.gone()
		if want := []Kind{Started, Exited, Leftovers, TermSent, KillSent, Empty}; !slices.Equal(f.kinds(), want) {
			t.Errorf("events %v, want %v", f.kinds(), want)
		}
	})
	t.Run("wait, signal passed on", func(t *testing.T) {
		f := prepare(t, "", Wait)
		f.start()
		eventually(t, "leftovers", func() bool { return f.has(Leftovers) })
		f.send(f.cmd.Process.Pid, syscall.SIGTERM)
		f.exits(3, f.wait())
		f.gone()
	})
	t.Run("leave", func(t *testing.T) {
		f := prepare(t, "", Leave)
		f.exits(3, f.run())
		if want := []Kind{Started, Exited, Leftovers, Empty}; !slices.Equal(f.kinds(), want) {
			t.Errorf("events %v, want %v", f.kinds(), want)
		}
		eventually(t, "the guardian's end", func() bool {
			return !slices.ContainsFunc(f.survivors(), isGuardian)
		})
		if len(f.survivors()) == 0 {
			t.Error("the leftover was killed")
		}
		f.file("go", "", 0o644)
		f.gone()
	})
	t.Run("leave, but not past the deadline of the child", func(t *testing.T) {
		f := newTreeFixture(t)
		f.spec.Leftovers, f.spec.Window = Leave, 4*time.Second
		f.start()
		f.beating()
		f.wait()
		f.gone()
		f.quiet(f.event(Empty).K.Add(f.spec.KillMargin))
	})
}
