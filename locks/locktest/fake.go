package locktest

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// Serve starts a server that the test plays: serve has each connection to itself,
// and the connection is closed when it returns. addr is host:port on loopback.
func Serve(tb testing.TB, serve func(c net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// FakeRedis serves answers that no Redis server can be made to give. The name of
// each command is in lower case. Where answer returns "" the server has the
// manners of a free one.
func FakeRedis(tb testing.TB, answer func(command []string) string) (addr string) {
	tb.Helper()
	return Serve(tb, func(c net.Conn) {
		for in := bufio.NewReader(c); ; {
			command, err := readCommand(in)
			if err != nil {
				return
			}
			text := answer(command)
			if text == "" {
				text = manners(command[0])
			}
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	})
}

// manners is how a server answers that keeps nothing.
func manners(name string) string {
	switch name {
	case "set", "select", "auth":
		return "+OK\r\n"
	case "hello":
		return "*0\r\n"
	case "ping":
		return "+PONG\r\n"
	case "eval":
		return ":1\r\n"
	case "pttl":
		return ":-2\r\n"
	}
	return "$-1\r\n"
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func() (n int, err error) {
		line, err := in.ReadString('\n')
		if err == nil {
			n, err = strconv.Atoi(strings.TrimRight(line[1:], "\r\n"))
		}
		return n, err
	}
	words, err := number()
	if err != nil {
		return nil, err
	}
	command := make([]string, words)
	for i := range command {
		n, err := number()
		if err != nil {
			return nil, err
		}
		text := make([]byte, n+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:n])
	}
	command[0] = strings.ToLower(command[0])
	return command, nil
}
