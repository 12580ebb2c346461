package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// procDir is /proc as it was when this process first asked. Another one may be
// mounted over it later, by the child or by whoever shares the mount namespace,
// that shows other processes, and even others under the same numbers.
var procDir = sync.OnceValues(func() (int, error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /proc: %w", err)
	}
	return fd, nil
})

// openProc opens a path below /proc for reading.
func openProc(path string) (int, error) {
	dir, err := procDir()
	if err != nil {
		return -1, err
	}
	return unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// procNames lists a directory below /proc.
func procNames(path string) ([]string, error) {
	fd, err := openProc(path)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// process is a line of /proc/PID/stat.
type process struct {
	pid     int
	parent  int
	state   byte   // of the main thread: Z = it has ended
	threads int    // that have not been collected yet
	start   uint64 // clock ticks since boot: with pid it names one process for ever
}

// alive tells whether the process can still do something. One whose main thread
// has ended looks like a zombie, but its other threads work on.
func (p process) alive() bool { return p.state != 'Z' && p.state != 'X' || p.threads > 1 }

// readProcess returns false if there is no such process.
func readProcess(pid int) (process, bool) {
	fd, err := openProc(strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	defer unix.Close(fd)
	var buf [1024]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return process{}, false
	}
	// The second field is a name in parentheses that can hold anything, so
	// count from its end. Fields 3, 4, 20 and 22 are state, parent, threads and
	// start.
	end := bytes.LastIndexByte(buf[:n], ')')
	if end < 0 {
		return process{}, false
	}
	fields := bytes.Fields(buf[end+1 : n])
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	threads, err2 := strconv.Atoi(string(fields[17]))
	start, err3 := strconv.ParseUint(string(fields[19]), 10, 64)
	return process{pid, parent, fields[0][0], threads, start}, errors.Join(err1, err2, err3) == nil
}

// descendants are the processes below root as one pass over /proc sees them,
// parents before children. A process that forks or dies meanwhile can hide some
// of them, so whoever needs all asks again until wait4 knows of none.
func descendants(root int) []process {
	names, _ := procNames(".")
	children := make(map[int][]process)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := children[root]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// alive are the descendants that can still do something.
func alive(root int) []process {
	var living []process
	for _, p := range descendants(root) {
		if p.alive() {
			living = append(living, p)
		}
	}
	return living
}

// signal sends to exactly this process, never to a later one of the same number.
func (p process) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, syscall.ESRCH) {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	// The descriptor pins whoever has the number now.
	if again, ok := readProcess(p.pid); !ok || again.start != p.start {
		return
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	// No descriptor left, an old kernel, or a filter for system calls.
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = syscall.Kill(p.pid, sig)
	}
}

// killTree sends SIGKILL to everything below root, whatever its state, and
// returns the pids of what was alive; of the rest if nothing was.
func killTree(root int) []int {
	var living, dead []int
	for _, p := range descendants(root) {
		p.signal(syscall.SIGKILL)
		if p.alive() {
			living = append(living, p.pid)
		} else {
			dead = append(dead, p.pid)
		}
	}
	if len(living) > 0 {
		return living
	}
	return dead
}

// killPause is the time between two passes of killTree: short while a tree that
// forks has to be outrun, long when all that is left can't be killed.
func killPause(elapsed time.Duration) time.Duration {
	switch {
	case elapsed < time.Second:
		return 2 * time.Millisecond
	case elapsed < 10*time.Second:
		return 20 * time.Millisecond
	default:
		return 250 * time.Millisecond
	}
}

// reap collects every child of this process that has ended, and tells whether it
// has none left, ended or not. In a subreaper this is the kernel's word that no
// descendant exists: it adopts each orphan below it. __WALL is for children that
// were cloned without an exit signal.
func reap(ended func(pid int, status syscall.WaitStatus)) (childless bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return errors.Is(err, syscall.ECHILD)
		case pid == 0:
			return false
		default:
			ended(pid, status)
		}
	}
}
