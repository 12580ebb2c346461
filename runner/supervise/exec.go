package supervise

import (
	"errors"
	"os"
	"syscall"
)

// Exec replaces this process by the command, in the way in which a child is
// started: same environment, a script without a "#!" line by /bin/sh. It is for
// a command that somebody else supervises. It returns only if that failed, with
// a [*CommandError] if the command is at fault.
func Exec(path string, argv []string) error {
	err := syscall.Exec(path, argv, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) && isText(path) {
		const shell = "/bin/sh"
		err = syscall.Exec(shell, append([]string{shell, path}, argv[1:]...), os.Environ())
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return startError(argv[0], errno)
	}
	return err
}
