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

// warmThreads makes the runtime start the spare threads, which it never gives
// back: as many goroutines that each hold a thread meet, and only then let go.
func warmThreads() {
	var met, gone sync.WaitGroup
	met.Add(spareThreads)
	for range spareThreads {
		gone.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			met.Done()
			met.Wait()
		})
	}
	gone.Wait()
}

// limitProcessors keeps a large host from wanting more threads at once than are
// kept: a garbage collection takes one for each processor, and idle ones look for
// work. Calling it also keeps the runtime from following a host that grows. One
// processor would do, but with two warmThreads costs less, and holds up nobody.
func limitProcessors() {
	const plenty = 2
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), plenty))
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
