package locktest

import (
	"os"
	"os/signal"
	"syscall"
)

// DefaultSignals gives what the tests start the default action of every signal
// that is about to be tested. Under nohup, say, the tests themselves ignore
// SIGHUP, and their children would inherit that; a signal that is taken is at its
// default again in a child.
func DefaultSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
