package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openTerminal opens the controlling terminal of this process. The descriptor
// is to be closed.
func openTerminal() (int, error) {
	return unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

func hasTerminal() bool {
	fd, err := openTerminal()
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// inForeground tells whether the terminal sends what is typed to this process's
// group.
func inForeground() bool {
	fd, err := openTerminal()
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

// delivered tells whether the child has got the signal already, from whoever
// sent it to lockrun. Go does not say who that was, so it is told by where the
// process stands: with a terminal the child is in lockrun's process group, and
// the terminal sends SIGINT and SIGQUIT to the group in the foreground, a shell
// SIGHUP to each of its groups. Only the session's leader gets SIGHUP alone.
// terminal is what [hasTerminal] said at the start: after a hangup it would
// deny one.
func delivered(sig syscall.Signal, terminal bool) bool {
	if !terminal {
		return false
	}
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		return inForeground()
	case syscall.SIGHUP:
		session, err := unix.Getsid(0)
		return err == nil && session != os.Getpid()
	default:
		return false
	}
}
