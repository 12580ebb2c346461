package postgres

import (
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialer notices within userTimeout that nobody acknowledges what was sent, and
// within about as long that an idle connection is dead.
func dialer(userTimeout time.Duration) *net.Dialer {
	d := newDialer(userTimeout)
	d.Control = func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var err error
		if failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
		}); failed != nil {
			return failed
		}
		return err
	}
	return d
}
