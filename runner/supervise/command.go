package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The exit codes of a command that can't be executed, as in every shell.
const (
	notExecutable = 126
	notFound      = 127
)

// CommandError says that the command can't be executed.
type CommandError struct {
	Code int // 126 found but not executable, 127 not found or its interpreter is missing
	Name string
	Err  error // an errno of stat or execve
}

func (e *CommandError) Error() string { return fmt.Sprintf("execute %q: %v", e.Name, e.Err) }
func (e *CommandError) Unwrap() error { return e.Err }

// defaultPath is searched when PATH is not set at all, as execvp does.
const defaultPath = "/bin:/usr/bin"

// LookPath finds the file that execvp would execute: a name with a slash is
// taken as it is, any other is searched in PATH, where an empty entry is the
// working directory. The result always has a slash. A failure is a
// [*CommandError].
func LookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", lookError(name, err)
		}
		return name, nil
	}
	if name == "" {
		return "", lookError(name, syscall.ENOENT)
	}
	path, set := os.LookupEnv("PATH")
	if !set {
		path = defaultPath
	}
	var failure error = syscall.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		file := strings.TrimSuffix(dir, "/") + "/" + name
		err := executable(file)
		if err == nil {
			return file, nil
		}
		// One that may not be executed is remembered, but a later entry that
		// can be wins over it.
		if errors.Is(err, syscall.EACCES) {
			failure = err
		}
	}
	return "", lookError(name, failure)
}

// executable tells why the file can't be executed by this user; nil = it can,
// as far as can be seen without trying.
func executable(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return syscall.EACCES // what execve says about a directory
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

func lookError(name string, err error) error {
	if errors.Is(err, syscall.ENOENT) {
		return &CommandError{notFound, name, errors.New("not found")}
	}
	return &CommandError{notExecutable, name, err}
}

// startError turns what forking and executing said into the error that
// NotStarted carries: a [*CommandError] if the command is at fault, any other
// error if the system is.
func startError(name string, errno syscall.Errno) error {
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return fmt.Errorf("start %q: %w", name, errno)
	case syscall.ENOENT: // the file itself was there when it was looked up
		return &CommandError{notFound, name, errors.New("it or its interpreter is missing")}
	default:
		return &CommandError{notExecutable, name, errno}
	}
}

// forkExec starts the command. As execvp does, it has /bin/sh run a script
// without a "#!" line; unlike execvp, and as the shells do, it does not feed a
// damaged binary to /bin/sh.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	pid, err := syscall.ForkExec(path, argv, attr)
	if errors.Is(err, syscall.ENOEXEC) && isText(path) {
		const shell = "/bin/sh"
		return syscall.ForkExec(shell, append([]string{shell, path}, argv[1:]...), attr)
	}
	return pid, err
}

// isText tells whether the first line of the file holds no zero byte, which is
// how shells tell a script from a binary.
func isText(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, 128)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return !bytes.Contains(line, []byte{0})
}

// environment returns base with each of vars ("KEY=value") in place of those of
// the same key.
func environment(base, vars []string) []string {
	replaced := make(map[string]bool, len(vars))
	for _, v := range vars {
		key, _, _ := strings.Cut(v, "=")
		replaced[key] = true
	}
	env := make([]string, 0, len(base)+len(vars))
	for _, v := range base {
		if key, _, _ := strings.Cut(v, "="); !replaced[key] {
			env = append(env, v)
		}
	}
	return append(env, vars...)
}
