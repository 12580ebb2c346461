package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxAnswer bounds what a node may send in answer to one request, in bytes.
	// The longest answer that is asked for is that to INFO, about ten thousand.
	maxAnswer = 4 << 20
	// maxElements bounds the elements of all arrays in it. There are a few, and a
	// few for each module of the server when the connection is new.
	maxElements = 1 << 12
)

var (
	errTooLong  = errors.New("its answer is longer than any that it was asked for")
	errNotRedis = errors.New("it does not speak the Redis protocol")
)

// newClient makes a client that opens nothing yet, with what protects lockrun
// from the answers of a broken node.
func newClient(o *redis.Options) *redis.Client {
	dial := redis.NewDialer(o)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return bound(c), nil
	}
	client := redis.NewClient(o)
	client.AddHook(loginHook{})
	return client
}

// bound limits what is read from a connection. The library believes a node that
// announces a length and makes room for it at once, so that one line of twenty
// bytes would end the whole run.
func bound(c net.Conn) net.Conn {
	b := boundConn{Conn: c}
	// The library looks at the socket to see whether a node has closed it. Over
	// TLS it can't, and must not.
	if sys, ok := c.(syscall.Conn); ok {
		return &boundSocket{boundConn: b, sys: sys}
	}
	return &b
}

type boundConn struct {
	net.Conn
	answer          answer
	readBy, writeBy time.Time
}

type boundSocket struct {
	boundConn
	sys syscall.Conn
}

func (c *boundSocket) SyscallConn() (syscall.RawConn, error) { return c.sys.SyscallConn() }

// The deadlines are kept here and set only while something is read or written.
// The library never takes its own back, so that each would wake the process once
// more, long after the answer has come.

func (c *boundConn) SetDeadline(t time.Time) error {
	c.readBy, c.writeBy = t, t
	return nil
}

func (c *boundConn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return nil
}

func (c *boundConn) SetWriteDeadline(t time.Time) error {
	c.writeBy = t
	return nil
}

func (c *boundConn) Write(b []byte) (int, error) {
	c.answer.left, c.answer.elements = maxAnswer, maxElements
	if err := c.Conn.SetWriteDeadline(c.writeBy); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	_ = c.Conn.SetWriteDeadline(time.Time{})
	return n, err
}

// Read passes nothing on of what breaks a limit: the library would act upon it
// before it sees the error.
func (c *boundConn) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.readBy); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	_ = c.Conn.SetReadDeadline(time.Time{})
	if c.answer.fault == nil {
		c.answer.fault = c.answer.read(b[:n])
	}
	if c.answer.fault != nil {
		return 0, c.answer.fault
	}
	return n, err
}

// answer follows what a node sends. Whatever the library might understand
// otherwise is an error here. Version 2 of the protocol, the one that we ask for,
// has five types; values follow each other whether they are elements of an array
// or not, so their nesting does not matter.
type answer struct {
	left, elements int // what may come until the next request
	fault          error

	part     part
	kind     byte // of the value that has begun
	previous byte
	length   int // announced
	digits   int // of length
	negative bool
	body     int // bytes of a string that are still to come, with its line end
}

// part is of a value: what is expected next.
type part int

const (
	partKind      part = iota
	partLine           // up to the line end
	partLength         // the digits of a length
	partLengthEnd      // the last byte of its line end
	partBody
)

func (a *answer) read(b []byte) error {
	if a.left -= len(b); a.left < 0 {
		return errTooLong
	}
	for len(b) > 0 {
		switch a.part {
		case partLine:
			i := bytes.IndexByte(b, '\n')
			if i > 0 {
				a.previous = b[i-1]
			}
			if i < 0 {
				a.previous, b = b[len(b)-1], nil
				continue
			}
			if a.previous != '\r' {
				return errNotRedis
			}
			a.part, b = partKind, b[i+1:]
			continue
		case partBody:
			n := min(a.body, len(b))
			if a.body -= n; a.body == 0 {
				a.part = partKind
			}
			b = b[n:]
			continue
		}
		c := b[0]
		b = b[1:]
		if err := a.next(c, len(b)); err != nil {
			return err
		}
	}
	return nil
}

// next reads a byte of a value's beginning. As many bytes as rest have been
// counted already and are not read yet.
func (a *answer) next(c byte, rest int) error {
	switch a.part {
	case partKind:
		a.kind, a.previous, a.length, a.digits, a.negative = c, 0, 0, 0, false
		switch c {
		case '+', '-', ':':
			a.part = partLine
		case '$', '*':
			a.part = partLength
		default:
			return errNotRedis
		}
	case partLength:
		switch {
		case c == '-' && a.digits == 0 && !a.negative:
			a.negative = true
		case c >= '0' && c <= '9':
			a.digits++
			if a.length = a.length*10 + int(c-'0'); a.length > maxAnswer {
				return errTooLong
			}
		case c == '\r' && a.digits > 0 && (!a.negative || a.length == 1): // -1 is nothing
			a.part = partLengthEnd
		default:
			return errNotRedis
		}
	case partLengthEnd:
		a.part = partKind
		switch {
		case c != '\n':
			return errNotRedis
		case a.negative:
		case a.kind == '*':
			if a.elements -= a.length; a.elements < 0 {
				return errTooLong
			}
		default:
			if a.body = a.length + len("\r\n"); a.body > a.left+rest {
				return errTooLong
			}
			a.part = partBody
		}
	}
	return nil
}

// recovered turns a panic into an error: what the library can't cope with is the
// fault of one node, and the others may go on. It is to be deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Redis library failed on its answer (%v)", p)
	}
}
