package supervise

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// threadsNeeded is what lockrun and the guardian together may still start until
// the child runs: the spare threads of both, what the runtime starts anyway, and
// the child.
const threadsNeeded = 2*spareThreads + 8

// roomForThreads tells of a limit of processes that leaves too little room: a Go
// process that gets no thread does not fail, it crashes.
func roomForThreads() error {
	membership, _ := os.ReadFile("/proc/self/cgroup")
	if err := roomInGroups(groupsRoot, string(membership)); err != nil {
		return err
	}
	return roomForUser()
}

// roomForUser looks at the limit of the user (ulimit -u). The kernel counts all
// threads of the user, of which /proc may show only some.
func roomForUser() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil || limit.Cur == unix.RLIM_INFINITY || exempt() {
		return nil
	}
	if all, ok := allThreads(); ok && all+threadsNeeded <= limit.Cur {
		return nil // whoever has them
	}
	uid, used := uint32(os.Geteuid()), uint64(0)
	names, _ := procNames(".")
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !ownedBy(pid, uid) {
			continue
		}
		if p, ok := readProcess(pid); ok {
			used += uint64(p.threads)
		}
	}
	if used+threadsNeeded <= limit.Cur {
		return nil
	}
	return fmt.Errorf("the limit of processes (ulimit -u) is %d, the user has %d already, and the supervision needs %d: %w",
		limit.Cur, used, threadsNeeded, syscall.EAGAIN)
}

// allThreads counts the threads of every user on this host.
func allThreads() (uint64, bool) {
	fd, err := openProc("loadavg")
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var buf [128]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0, false
	}
	// The fourth of its fields is "running/all".
	fields := strings.Fields(string(buf[:n]))
	if len(fields) < 4 {
		return 0, false
	}
	_, text, _ := strings.Cut(fields[3], "/")
	all, err := strconv.ParseUint(text, 10, 64)
	return all, err == nil
}

func ownedBy(pid int, uid uint32) bool {
	dir, err := procDir()
	if err != nil {
		return false
	}
	var st unix.Stat_t
	return unix.Fstatat(dir, strconv.Itoa(pid), &st, 0) == nil && st.Uid == uid
}

// exempt tells whether the limit does not bind this process.
func exempt() bool {
	if os.Getuid() == 0 {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	const either = 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_SYS_ADMIN
	return data[0].Effective&either != 0
}
