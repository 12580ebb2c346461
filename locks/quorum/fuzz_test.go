package quorum

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// FuzzParseURL has a secret where the password is, in whatever company.
func FuzzParseURL(f *testing.F) {
	for _, parts := range [][3]string{
		{"redis://u:", "", "@h:1/0"}, {"rediss://:a/", "@", "h:1"}, {"unix://:", "", "@/s?db=1"}, {"redis://:x@y", "?", "@h"}, {"redis://u:%", "#", "@h:70000"},
		{":", "", "@h"}, {"redis://[", "", "]:1"}, {"redis://h:", "", ""}, {"redis://h/", "", ""}, {"redis://h?db=", "", ""},
		{"unix:/\xf7\U000a6818", "", ""},
	} {
		f.Add(parts[0], parts[1], parts[2])
	}
	const mark = "S3CRET"
	f.Fuzz(func(t *testing.T, before, after, rest string) {
		if strings.Contains(before+after+rest, mark[:3]) {
			return
		}
		parsed, err := parseURL(before + mark + after + rest)
		if err != nil {
			if strings.Contains(err.Error(), mark) {
				t.Errorf("%q: %v", before+mark+after+rest, err)
			}
			return
		}
		// What is shown is a host or a path; neither holds what a password needs.
		if strings.ContainsFunc(parsed.name, func(r rune) bool { return !unicode.IsPrint(r) }) ||
			parsed.network == "tcp" && strings.ContainsAny(parsed.name, "@/?#%, ") && !strings.HasPrefix(parsed.name, "[") {
			t.Errorf("%q is shown as %q", before+mark+after+rest, parsed.name)
		}
	})
}

// cannedConn says what it has, in pieces, and takes whatever it is told.
type cannedConn struct {
	net.Conn
	text string
	step int
}

func (c *cannedConn) Read(b []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(b, c.text[:min(c.step, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

func (*cannedConn) Write(b []byte) (int, error)      { return len(b), nil }
func (*cannedConn) Close() error                     { return nil }
func (*cannedConn) SetDeadline(time.Time) error      { return nil }
func (*cannedConn) SetReadDeadline(time.Time) error  { return nil }
func (*cannedConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzAnswers gives the library's own parser what a node may send, behind our
// limits: it must neither panic nor take more memory than the answers are worth.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{
		"*0\r\n+OK\r\n$-1\r\n:5\r\n", "*0\r\n$-1\r\n$3\r\nabc\r\n:5\r\n", "-NOPERM x\r\n", "$9223372036854775807\r\n", "*0\r\n*9223372036854775807\r\n",
		"*1\r\n*1000000\r\n", "*4096\r\n*4096\r\n", "%1000000000\r\n", "|0\r\n|0\r\n", "!1000000000\r\n", "=1000000000\r\n", "$-1\r\n$+999999999999\r\n", "(1\r\n", ":1\n$9999999999\r\n",
	} {
		f.Add(text, byte(3))
		f.Add(text, byte(255))
	}
	f.Fuzz(func(t *testing.T, text string, step byte) {
		o := target{network: "tcp", addr: "h:1", password: "p"}.options(nil, time.Second)
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			return bound(&cannedConn{text: text, step: int(step) + 1}), nil
		}
		client := redis.NewClient(o)
		client.AddHook(loginHook{})
		defer func() { _ = client.Close() }()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = grab(t.Context(), client, "key", "value", time.Minute)
		_ = giveBackOn(t.Context(), client, "name", "value", true)
		_ = client.Do(t.Context(), "BLPOP", "key", 1).Err()
		_ = client.Info(t.Context()).Err()
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
			t.Errorf("%d bytes taken for %q", taken, text)
		}
	})
}

// FuzzExplainReply reads what a server says, whoever it is.
func FuzzExplainReply(f *testing.F) {
	for _, text := range []string{"NOPERM x", "ERR unknown command 'S3CRET'", "WRONGPASS S3CRET", "\x1b[2J", strings.Repeat("\u00e4", 200), ""} {
		f.Add(text)
	}
	n := &node{name: "h:1", password: "S3CRET"}
	f.Fuzz(func(t *testing.T, text string) {
		shown, kind := n.explainReply(text)
		if kind == "" || len(shown) > 400 || strings.Contains(shown, n.password) ||
			strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is shown as %q, %q", text, shown, kind)
		}
	})
}
