//go:build unix && !linux

package supervise

import (
	"os/signal"
	"syscall"
	"time"
)

// DieBySignal ends this process the way the child ended, so that whoever waits
// for it sees the signal. It returns where a process can't die of the signal:
// for PID 1, and for the signals at which Go prints a trace instead.
func DieBySignal(sig syscall.Signal) {
	switch sig {
	case syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGFPE,
		syscall.SIGBUS, syscall.SIGSEGV, syscall.SIGSYS:
		return
	}
	if IsInit() {
		return
	}
	signal.Reset(sig)
	_ = syscall.Kill(syscall.Getpid(), sig)
	time.Sleep(time.Second) // the signal is on its way
}
