package supervise

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// conn is one end of the socket pair between lockrun and the guardian. It is
// also their lifeline: its end of file says that the other one is dead.
//
// A goroutine only waits until something can be read, in Go's poller and thus
// without a thread of its own; whoever owns the conn reads, and can do so at any
// time. That way a message which has arrived is never overlooked in favour of a
// timer that fired later.
type conn struct {
	fd       int
	file     *os.File
	readable chan struct{}
	broken   atomic.Bool // nobody waits for messages any more
	buf      []byte
}

// newConn takes over a descriptor.
func newConn(fd int) (*conn, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("prepare the guardian's channel: %w", err)
	}
	file := os.NewFile(uintptr(fd), "guardian's channel")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("prepare the guardian's channel: %w", err)
	}
	c := &conn{fd: fd, file: file, readable: make(chan struct{}, 1), buf: make([]byte, maxMessage)}
	go func() {
		_ = raw.Read(func(uintptr) bool {
			c.wake()
			return false // wait for the next arrival, until the file is closed
		})
		c.broken.Store(true)
		c.wake()
	}()
	return c, nil
}

func (c *conn) wake() {
	select {
	case c.readable <- struct{}{}:
	default:
	}
}

// receive handles every message that has arrived. It returns false at the end of
// file, and when the channel is unusable, which comes to the same.
func (c *conn) receive(handle func(message)) bool {
	for {
		n, err := unix.Read(c.fd, c.buf)
		switch {
		// The kernel puts "reset" before the messages that came before it.
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.ECONNRESET):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return !c.broken.Load()
		case err != nil || n == 0:
			return false
		}
		m, err := decode(c.buf[:n])
		if err != nil {
			return false
		}
		handle(m)
	}
}

// send never blocks. What can't be sent, because the other one is dead or has
// not read for long, shows as end of file or as a missing acknowledgement.
func (c *conn) send(m message) error {
	packet := m.encode()
	if len(packet) > maxMessage {
		return fmt.Errorf("send %s: %w", m.verb, syscall.EMSGSIZE)
	}
	for {
		err := unix.Send(c.fd, packet, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
