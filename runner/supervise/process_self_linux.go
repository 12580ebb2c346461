package supervise

import (
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// spareThreads is how many idle threads both processes keep. A Go process that
// needs one more while the pids limit of its cgroup is used up (by the child,
// say) does not wait: it crashes. Four spare ones were not enough on an idle
// host, eight not on a busy one.
const spareThreads = 16

// warmThreads makes the runtime start n threads, which it never gives back: n
// goroutines that each hold a thread meet, and only then let go.
func warmThreads(n int) {
	var met, gone sync.WaitGroup
	met.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			met.Done()
			met.Wait()
		})
	}
	gone.Wait()
}

// detachStreams lets go of the first n of the caller's standard streams, which
// the child has by now: a reader at the other end must see the end of file when
// the child closes them, and a writer the broken pipe.
func detachStreams(n int) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // in a chroot without /dev; then they stay open
	}
	defer unix.Close(null)
	for fd := range n {
		_ = unix.Dup3(null, fd, 0)
	}
}

// closeInherited closes the descriptors above standard error that the caller
// passed on. Everything that Go opens itself closes on exec, and is kept.
func closeInherited() {
	names, _ := procNames("self/fd")
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}
