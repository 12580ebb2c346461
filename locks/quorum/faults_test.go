package quorum

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// TestFaults gives a number of nodes the same fault.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string // of the server
		make func(t *testing.T, n *locktest.Redis)
		url  func(n *locktest.Redis) string
		text string
		kind kind
	}{
		{name: "no_password", args: []string{"--requirepass", "s3cret"}, text: "asks for a password", kind: set},
		{name: "wrong_password", args: []string{"--requirepass", "s3cret"}, kind: set,
			url: func(n *locktest.Redis) string { return "redis://:wr0ng%2Fs3cret@" + n.Addr() }, text: "refuses the user name or the password"},
		{name: "no_rights", kind: set,
			make: func(t *testing.T, n *locktest.Redis) {
				do(t, n, "ACL", "SETUSER", "u", "on", ">s3cret", "~other:*", "+@all")
			},
			url: func(n *locktest.Redis) string { return "redis://u:s3cret@" + n.Addr() }, text: "lacks the right (NOPERM"},
		{name: "no_such_database", kind: set,
			url: func(n *locktest.Redis) string { return "redis://" + n.Addr() + "/99" }, text: "DB index is out of range"},
		{name: "out_of_memory", args: []string{"--maxmemory", "1", "--maxmemory-policy", "noeviction"}, text: "it is out of memory", kind: away},
		{name: "replica", make: func(t *testing.T, n *locktest.Redis) { do(t, n, "REPLICAOF", "127.0.0.1", "1") }, text: "it is a replica", kind: away},
		{name: "too_few_replicas", args: []string{"--min-replicas-to-write", "1"}, text: "it lacks the replicas", kind: away},
		{name: "key_of_another_type", make: func(t *testing.T, n *locktest.Redis) { do(t, n, "LPUSH", lockKey(job), "x") }, text: lockKey(job) + " is not of lockrun's making", kind: foreign},
		{name: "key_without_expiry", make: func(t *testing.T, n *locktest.Redis) { do(t, n, "SET", lockKey(job), "x") }, text: "it never expires", kind: foreign},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var nodes []*locktest.Redis
			var bad []string
			for range 3 {
				n := locktest.StartRedis(t, test.args...)
				if test.make != nil {
					test.make(t, n)
				}
				url := n.URL()
				if test.url != nil {
					url = test.url(n)
				}
				nodes, bad = append(nodes, n), append(bad, url)
			}
			good := locktest.URLs(locktest.StartRedisNodes(t, 2))
			var logs []*log
			quorum := func(urls ...string) *Quorum {
				logs = append(logs, &log{})
				return open(t, time.Minute, urls, withLog(logs[len(logs)-1]))
			}

			q := quorum(good[0], bad[0], good[1])
			acquire(t, q, claim("node 7"))
			if err := q.Renew(bounded(t)); err != nil {
				t.Error(err)
			}
			if by := refused[*locks.HeldError](t, quorum(good[0], bad[0], good[1]), claim("node 8")).By; by.Text != "node 7" {
				t.Errorf("held by %+v", by)
			}
			release(t, q)
			wants := 1
			if test.kind == away {
				wants = 0
				must(t, logs[0].String(), nodes[0].Addr()+": "+test.text)
			}
			if w := logs[0].Warns(); len(w) != wants || wants == 1 && (!strings.Contains(w[0], nodes[0].Addr()) || !strings.Contains(w[0], test.text)) {
				t.Errorf("warned of a minority: %q", w)
			}
			if w := logs[1].Warns(); len(w) != 0 {
				t.Errorf("who is refused says one thing, not this as well: %q", w)
			}

			for _, urls := range [][]string{{good[0], bad[0], bad[1]}, bad} {
				err := quorum(urls...).Acquire(bounded(t), claim("node 7"))
				var setup *locks.SetupError
				var unavailable *locks.UnavailableError
				if ok := errors.As(err, &setup); ok != (test.kind == set) || !ok && !errors.As(err, &unavailable) {
					t.Fatalf("got %T: %v", err, err)
				}
				must(t, err.Error(), nodes[0].Addr(), nodes[1].Addr(), test.text)
				if unavailable != nil && unavailable.Taken {
					t.Errorf("nothing can be taken: %v", err)
				}
				for _, text := range []string{err.Error(), logs[0].String(), logs[1].String(), logs[len(logs)-1].String()} {
					if strings.Contains(text, "s3cret") {
						t.Errorf("the password is shown: %s", text)
					}
				}
			}
		})
	}

	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		nodes := []*locktest.Redis{locktest.StartRedis(t, "--requirepass", "s3cret"), locktest.StartRedis(t), locktest.StartRedis(t)}
		nodes[1].Kill()
		err := refused[*locks.UnavailableError](t, open(t, time.Minute, locktest.URLs(nodes)), claim("node 7"))
		must(t, err.Error(), nodes[0].Addr()+": it asks", nodes[1].Addr()+": connection refused")
	})
}

// TestEcho has a proxy that repeats in its error what it was sent.
func TestEcho(t *testing.T) {
	addr := locktest.Serve(t, func(c net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			text := strings.NewReplacer("\r", " ", "\n", " ").Replace(string(buf[:n]))
			if _, err := fmt.Fprintf(c, "-ERR what is %s\x1b[31m?\r\n", text); err != nil {
				return
			}
		}
	})
	logged := &log{}
	q := open(t, time.Minute, []string{"redis://:s3cret@" + addr}, withLog(logged))
	err := q.Acquire(bounded(t), claim("node 7"))
	if err == nil {
		t.Fatal("acquired from nobody")
	}
	if text := err.Error() + logged.String(); strings.Contains(text, "s3cret") || strings.Contains(text, "\x1b") {
		t.Errorf("shown: %q", text)
	}
	must(t, err.Error(), "refuses the connection")
}
