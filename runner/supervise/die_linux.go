package supervise

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DieBySignal ends this process the way the child ended, so that whoever waits
// for it sees the signal: a shell's loop stops at Ctrl-C only if the command
// died of SIGINT. It leaves no core file, and Go prints no trace. It returns
// where a process can't die of the signal, which is so for PID 1.
func DieBySignal(sig syscall.Signal) {
	if IsInit() {
		return
	}
	// The limit keeps the kernel from writing a core file, the flag from feeding
	// one to a program.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A struct sigaction of zeros is SIG_DFL without flags, however it is laid
	// out. signal.Reset would leave Go's own handler in place.
	var action [64]byte
	const setSize = 8 // of the kernel's signal set, in bytes
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, setSize, 0, 0)
	set := [setSize / 8]uint64{1 << (uint(sig) - 1)}
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_UNBLOCK, uintptr(unsafe.Pointer(&set)), 0, setSize, 0, 0)
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
	time.Sleep(time.Second) // the signal is on its way
}
