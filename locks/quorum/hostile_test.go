package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// fakeNode is the URL of a [locktest.FakeRedis].
func fakeNode(tb testing.TB, answer func(command []string) string) string {
	return "redis://" + locktest.FakeRedis(tb, answer)
}

// TestHostileAnswers has a minority whose answers would make the library take
// all memory, or panic. It is a node that fails, and no more.
func TestHostileAnswers(t *testing.T) {
	good := locktest.URLs(locktest.StartRedisNodes(t, 2))
	for _, test := range []struct{ name, answer, text string }{
		{"string_of_largest_length", "$9223372036854775807\r\n", errTooLong.Error()},
		{"string_of_2_gb", "$2000000000\r\n", errTooLong.Error()},
		{"signed_length", "$+9223372036854775807\r\n", errNotRedis.Error()},
		{"negative_length", "$-5\r\n", errNotRedis.Error()},
		{"array_of_largest_length", "*9223372036854775807\r\n", errTooLong.Error()},
		{"array_of_a_million", "*1000000\r\n", errTooLong.Error()},
		{"arrays_of_arrays", strings.Repeat("*1000\r\n", 100), errTooLong.Error()},
		{"deep", strings.Repeat("*1\r\n", 200_000), ""},
		{"map", "%2000000000\r\n", errNotRedis.Error()},
		{"attribute", strings.Repeat("|0\r\n", 200_000), errNotRedis.Error()},
		{"line_without_end", "+" + strings.Repeat("x", 4<<20), errTooLong.Error()},
		{"error_without_end", "-ERR " + strings.Repeat("x", 4<<20), errTooLong.Error()},
		{"web_server", "HTTP/1.1 400 Bad Request\r\n\r\n", errNotRedis.Error()},
	} {
		for _, command := range []string{"hello", "set", "eval", "info", "blpop"} {
			t.Run(test.name+"/"+command, func(t *testing.T) {
				t.Parallel()
				bad := fakeNode(t, func(c []string) string {
					if c[0] == command {
						return test.answer
					}
					return ""
				})
				if command == "info" { // only the doctor asks for it
					findings, err := Examine(bounded(t), Options{URLs: []string{bad}, Timing: locks.Timing{Call: time.Second}})
					if err != nil || !strings.Contains(fmt.Sprint(findings), test.text) {
						t.Errorf("%v, %v", findings, err)
					}
					return
				}
				l, url := &log{}, bad
				if command == "hello" { // it is said only with a login
					url = strings.Replace(bad, "redis://", "redis://:s3cret@", 1)
				}
				q := open(t, time.Minute, []string{url, good[0], good[1]}, withLog(l))
				c := claim("host")
				c.Name = t.Name()
				acquire(t, q, c)
				if command == "blpop" {
					_, err := q.waiter.pop(bounded(t), q.nodes[0], "key", time.Second)
					if err == nil {
						t.Fatal("no error")
					}
					must(t, err.Error(), test.text)
					release(t, q)
					return
				}
				for range 3 {
					if err := q.Renew(bounded(t)); err != nil {
						t.Fatal(err)
					}
				}
				release(t, q)
				must(t, l.String(), strings.TrimPrefix(bad, "redis://")+": "+test.text)
			})
		}
	}
}

// TestPanic has a library that fails in a way which nobody has thought of.
func TestPanic(t *testing.T) {
	r := newRound(t.Context(), 1, time.Minute, time.Minute)
	defer r.end(false)
	_, err := request(r, func(context.Context) (any, error) { return make([]byte, len(os.Args)-1<<62), nil })
	if err == nil {
		t.Fatal("no error")
	}
	must(t, err.Error(), "len out of range")
}

// TestAnswersInPieces gives an ordinary answer byte by byte, and every beginning
// of a hostile one.
func TestAnswersInPieces(t *testing.T) {
	read := func(text string) error {
		a := answer{left: maxAnswer, elements: maxElements}
		for _, b := range []byte(text) {
			if err := a.read([]byte{b}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, text := range []string{
		"+OK\r\n-ERR no\r\n:-12\r\n$-1\r\n*-1\r\n$0\r\n\r\n$5\r\n$99\r\n\r\n*2\r\n*1\r\n:1\r\n$2\r\n\r\n\r\n+a\rb\r\n",
		fmt.Sprintf("$%d\r\n", maxAnswer-100), fmt.Sprintf("*%d\r\n", maxElements),
	} {
		if err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		fmt.Sprint("$", maxAnswer+1), fmt.Sprint("*", maxAnswer+1), "+a\n", ":\n", "$\r", "$-\r", "$-2\r", "$1 ", "$1\rx", "*--", "$1-", "\r", "x", "_",
		fmt.Sprintf("$%d\r\n", maxAnswer), fmt.Sprintf("*%d\r\n*1\r\n", maxElements),
	} {
		if err := read(text); err == nil {
			t.Errorf("%q is no error", text)
		} else if err := read(text[:len(text)-1]); err != nil {
			t.Errorf("%q: too early: %v", text[:len(text)-1], err)
		}
	}
}

// TestLoginAnswers shows nothing of what a server says to a login.
func TestLoginAnswers(t *testing.T) {
	for _, test := range []struct {
		answer, text string
		kind         kind
	}{
		{"ERR unknown command 'AUTH', with args beginning with: 'usr' 'stable zebra battery'", "it knows no login (ERR)", set},
		{"ERR unknown command `AUTH`, with args beginning with: `stable ze`", "it knows no login (ERR)", set},
		{"ERR what is stable%20zebra", "it refuses the connection (ERR)", away},
		{"ERR max number of clients reached", "it has as many clients as it may have (ERR)", away},
		{"WRONGPASS stable%20zebra", "it refuses the user name or the password (WRONGPASS)", set},
		{"NOPERM stable zebr", "it refuses the login (NOPERM)", set},
		{"NOAUTH stable zebr", "it asks for a password (NOAUTH)", set},
		{"LOADING stable zebr", "it is still loading its data (LOADING)", away},
		{"stable zebra?", "it refuses the login in words of its own", set},
		{"ERR AUTH <password> called without any password configured for the default user", "it has no password for this user", set},
		{"ERR wrong number of arguments for 'auth' command", "it knows no user names", set},
		{"ERR invalid password", "it refuses the password (ERR)", set},
	} {
		t.Run(test.answer, func(t *testing.T) {
			t.Parallel()
			url := fakeNode(t, func(c []string) string {
				if c[0] == "hello" || c[0] == "auth" {
					return "-" + test.answer + "\r\n"
				}
				return ""
			})
			url = strings.Replace(url, "redis://", "redis://usr:stable%20zebra%0Abattery@", 1)
			l := &log{}
			q := open(t, time.Minute, []string{url}, withLog(l))
			err := q.Acquire(bounded(t), claim("host"))
			var setup *locks.SetupError
			if errors.As(err, &setup) != (test.kind == set) {
				t.Fatalf("%T: %v", err, err)
			}
			findings, ferr := Examine(bounded(t), Options{URLs: []string{url}, Timing: q.timing})
			if ferr != nil {
				t.Fatal(ferr)
			}
			for _, text := range []string{err.Error(), fmt.Sprint(findings)} {
				must(t, text, test.text)
			}
			if shown := err.Error() + l.String() + fmt.Sprint(findings); strings.Contains(shown, "zebr") || strings.Contains(shown, "stable") {
				t.Errorf("shown: %s", shown)
			}
		})
	}
}

// TestAbsurdExpiry has a real key that is there for longer than a duration can
// tell, and nodes that neither take a lock nor say whose it is.
func TestAbsurdExpiry(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	for _, n := range nodes {
		do(t, n, "SET", lockKey(job), "x", "PX", "9223370000000000000")
	}
	err := refused[*locks.UnavailableError](t, open(t, time.Minute, locktest.URLs(nodes)), claim("host"))
	must(t, err.Error(), nodes[0].Addr()+": its key "+lockKey(job)+" is not of lockrun's making: it expires in 9")
}

func TestTimeIsOver(t *testing.T) {
	url := fakeNode(t, func(c []string) string {
		if c[0] == "set" {
			return "$-1\r\n"
		}
		return ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := open(t, time.Minute, []string{url}).Acquire(ctx, claim("host"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	must(t, err.Error(), strings.TrimPrefix(url, "redis://")+": free")
}

// TestFilesThatNeverEnd names what is no regular file.
func TestFilesThatNeverEnd(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := locktest.NewAuthority(t, "ca").Issue(t, "h")
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		for flag, files := range map[string]TLSFiles{
			"--redis-ca": {CA: path}, "--redis-cert": {Cert: path, Key: key}, "--redis-key": {Cert: cert, Key: path},
		} {
			done := make(chan error, 1)
			go func() {
				_, err := New(Options{URLs: []string{"rediss://h"}, TLS: files})
				done <- err
			}()
			var wrong *OptionError
			if err := result(t, done); !errors.As(err, &wrong) || wrong.Flag != flag {
				t.Fatalf("%s %s: %v", flag, path, err)
			}
			must(t, wrong.Text, strconv.Quote(path), "not a regular file")
		}
	}
}
