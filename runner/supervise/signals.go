package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

// passable are the signals that lockrun takes in order to pass them on. SIGURG
// is missing because Go's scheduler uses it, the terminal's stop signals and
// SIGWINCH because the terminal sends them to the child as well.
var passable = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// Signals delivers the signals that lockrun acts upon, until stop is called. A
// signal that the caller ignores stays ignored, by lockrun and by the child:
// asking for it would take away what nohup has set.
func Signals() (signals <-chan os.Signal, stop func()) {
	taken := make(chan os.Signal, 2*len(passable))
	notify(taken, passable...)
	return taken, func() { signal.Stop(taken) }
}

// SurvivePipes makes a closed pipe an error of write and no longer lockrun's
// death. SIGPIPE is taken and dropped, because the child would inherit it if it
// were ignored.
func SurvivePipes() { drop(syscall.SIGPIPE) }

// drop keeps signals from having any effect on this process, and only on this:
// the child starts with their default action.
func drop(signals ...os.Signal) { notify(make(chan os.Signal, 1), signals...) }

func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// IsInit tells whether this process is PID 1, the init of its PID namespace.
func IsInit() bool { return os.Getpid() == 1 }
