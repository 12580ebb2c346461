package quorum

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// field reads a number of INFO.
func field(t testing.TB, info, name string) int {
	t.Helper()
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("INFO has no %s", name)
	return 0
}

// late reads the lock from a node that may hang.
func late(t testing.TB, n *locktest.Redis) string {
	c := n.Client()
	defer func() { _ = c.Close() }()
	value, _ := c.Get(bounded(t), lockKey(job)).Result()
	return value
}

func TestNodes(t *testing.T) {
	const ttl = 6 * time.Second

	t.Run("one_dead", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		nodes[2].Kill()
		l := &log{}
		q, c := open(t, ttl, locktest.URLs(nodes), withLog(l)), claim("node 7")
		acquire(t, q, c)
		if err := q.Renew(bounded(t)); err != nil {
			t.Error(err)
		}
		nodes[2].Start()
		poll(t, "the node that came back gets the key", func() bool {
			if err := q.Renew(bounded(t)); err != nil {
				t.Fatal(err)
			}
			return do(t, nodes[2], "GET", lockKey(job)) == locks.EncodeValue(c)
		})
		release(t, q)
		everywhere(t, nodes, "")
		if w := l.Warns(); len(w) > 0 {
			t.Errorf("warned of a node that is merely away: %q", w)
		}
		must(t, l.String(), nodes[2].Addr()+": connection refused")
	})

	t.Run("two_dead", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		nodes[0].Kill()
		nodes[2].Kill()
		q := open(t, ttl, locktest.URLs(nodes))
		err := refused[*locks.UnavailableError](t, q, claim("node 7"))
		must(t, err.Error(), "1 of 3 nodes can be used, 2 are needed",
			nodes[0].Addr()+": connection refused", nodes[2].Addr()+": connection refused")
		if err.Taken || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), nodes[1].Addr()) {
			t.Errorf("%#v", err)
		}
		everywhere(t, nodes[1:2], "")
	})

	t.Run("one_of_two_dead", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 2)
		nodes[0].Kill()
		refused[*locks.UnavailableError](t, open(t, ttl, locktest.URLs(nodes)), claim("node 7"))
	})

	t.Run("one_hung", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		q, other, c := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes)), claim("node 7")
		nodes[0].Pause()
		acquire(t, q, c)
		if by := refused[*locks.HeldError](t, other, claim("node 8")).By; by.RunID != c.RunID {
			t.Errorf("held by %+v", by)
		}
		for range 5 { // more than there are connections to the node
			if err := q.Renew(bounded(t)); err != nil {
				t.Error(err)
			}
		}
		nodes[0].Resume()
		poll(t, "the node that came back gets the key", func() bool {
			if err := q.Renew(bounded(t)); err != nil {
				t.Fatal(err)
			}
			return do(t, nodes[0], "GET", lockKey(job)) == locks.EncodeValue(c)
		})
		nodes[0].Pause()
		release(t, q)
		everywhere(t, nodes[1:], "")
		nodes[0].Resume()
		release(t, q)
		everywhere(t, nodes, "")
	})

	t.Run("one_slow", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		q, other, c := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes)), claim("node 7")
		nodes[0].Pause()
		acquire(t, q, c)
		time.AfterFunc(500*time.Millisecond, nodes[0].Resume) // longer than the grace, shorter than the patience
		poll(t, "a node that is slow takes the winner's key late", func() bool { return late(t, nodes[0]) == locks.EncodeValue(c) })
		do(t, nodes[0], "DEL", lockKey(job))
		nodes[0].Pause()
		time.AfterFunc(500*time.Millisecond, nodes[0].Resume)
		if by := refused[*locks.HeldError](t, other, claim("node 8")).By; by.RunID != c.RunID {
			t.Errorf("held by %+v", by)
		}
		if v := do(t, nodes[0], "GET", lockKey(job)); v != "" {
			t.Errorf("the loser leaves %q on the slow node", v)
		}
		release(t, q)
	})

	t.Run("two_hung", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		q, c := open(t, ttl, locktest.URLs(nodes)), claim("node 7")
		acquire(t, q, c) // with warm connections, so that requests do reach the sockets
		release(t, q)
		nodes[0].Pause()
		nodes[1].Pause()
		c = claim("node 7 again")
		err := refused[*locks.UnavailableError](t, q, c)
		must(t, err.Error(), nodes[0].Addr()+": no answer", nodes[1].Addr()+": no answer")
		if !err.Taken {
			t.Error("two nodes may have taken our request, and it does not say so")
		}
		everywhere(t, nodes[2:], "")
		if err := q.Release(bounded(t)); err == nil {
			t.Error("two nodes could not be asked to release, and it does not say so")
		}
		nodes[0].Resume()
		nodes[1].Resume()
		release(t, q)
		poll(t, "what was left behind goes", func() bool { return strings.Join(values(t, nodes), "") == "" })
	})

	t.Run("close_with_hung_nodes", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		q := open(t, time.Minute, locktest.URLs(nodes))
		acquire(t, q, claim("node 7"))
		for _, n := range nodes {
			n.Pause()
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.Close()
		}()
		select {
		case <-done:
		case <-bounded(t).Done():
			t.Error("close hangs")
		}
		for _, n := range nodes {
			n.Resume()
		}
	})

	t.Run("restarts", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		q, other, c := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes)), claim("node 7")
		acquire(t, q, c)
		for i, n := range append(nodes, nodes...) {
			n.RestartEmpty()
			if err := q.Renew(bounded(t)); err != nil {
				t.Fatalf("restart no. %d: %v", i+1, err)
			}
			refused[*locks.HeldError](t, other, claim("node 8"))
			if err := q.Renew(bounded(t)); err != nil {
				t.Fatalf("restart no. %d: %v", i+1, err)
			}
			everywhere(t, nodes, locks.EncodeValue(c))
		}
	})
}
