package quorum

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// TestLook takes the lock away from each set of nodes without leaving a token. A
// waiter at any node has to notice whenever a majority is free.
func TestLook(t *testing.T) {
	for count := 1; count <= 5; count++ {
		t.Run(fmt.Sprintf("%d_nodes", count), func(t *testing.T) {
			t.Parallel()
			nodes := locktest.StartRedisNodes(t, count)
			holder, q, by := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes)), claim("holder")
			acquire(t, holder, by)
			refused[*locks.HeldError](t, q, claim("waiter"))
			for free := range uint(1) << count {
				for i, n := range nodes {
					do(t, n, "SET", lockKey(job), locks.EncodeValue(by), "PX", "60000")
					if free>>i&1 == 1 {
						do(t, n, "DEL", lockKey(job))
					}
				}
				for at := range nodes {
					left := q.look(bounded(t), at)
					switch {
					case free == 0 && (left <= 0 || left > maxWait):
						t.Errorf("waiting at node %d: held everywhere, but %s left", at, left)
					case bits.OnesCount(free) >= q.need && left >= 0:
						t.Errorf("waiting at node %d: %0*b is free, but %s left", at, count, free, left)
					}
				}
			}
			// One node more than a majority leaves over, and the one that we wait at
			// only if there is no other.
			before := make([]int, count)
			for i, n := range nodes {
				do(t, n, "SET", lockKey(job), locks.EncodeValue(by), "PX", "60000")
				before[i] = calls(t, n, "pttl")
			}
			q.look(bounded(t), 0)
			asked := 0
			for i, n := range nodes {
				c := calls(t, n, "pttl") - before[i]
				if asked += c; i == 0 && count > 1 && c != 0 {
					t.Error("asked the node that it waits at")
				}
			}
			if asked != count-q.need+1 {
				t.Errorf("asked %d nodes of %d", asked, count)
			}
		})
	}

	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, n *locktest.Redis)
	}{
		{"node_is_away", func(t *testing.T, n *locktest.Redis) { n.Kill() }},
		{"node_hangs", func(t *testing.T, n *locktest.Redis) { n.Pause() }},
		{"key_of_another_type", func(t *testing.T, n *locktest.Redis) {
			do(t, n, "DEL", lockKey(job))
			do(t, n, "LPUSH", lockKey(job), "x")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			nodes := locktest.StartRedisNodes(t, 3)
			holder, q := open(t, 6*time.Second, locktest.URLs(nodes)), open(t, 6*time.Second, locktest.URLs(nodes))
			acquire(t, holder, claim("holder"))
			refused[*locks.HeldError](t, q, claim("waiter"))
			test.spoil(t, nodes[1])
			if left := q.look(bounded(t), 0); left >= 0 {
				t.Errorf("%s left, though a question to all would be better", left)
			}
			// A question to all knows the node from then on. It may come back without
			// the key, and be a part of a free majority: all are asked again.
			refused[*locks.HeldError](t, q, claim("waiter"))
			if left := q.look(bounded(t), 0); left >= 0 {
				t.Errorf("%s left, as if the node would never come back", left)
			}
		})
	}

	t.Run("absurd_expiry", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		holder, q := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes))
		acquire(t, holder, claim("holder"))
		refused[*locks.HeldError](t, q, claim("waiter"))
		for _, n := range nodes {
			do(t, n, "PEXPIRE", lockKey(job), "9000000000000000000")
		}
		if left := q.look(bounded(t), 0); left != maxWait {
			t.Errorf("%s left", left)
		}
	})

	t.Run("cancelled_while_a_node_hangs", func(t *testing.T) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		holder, q := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes))
		acquire(t, holder, claim("holder"))
		refused[*locks.HeldError](t, q, claim("waiter"))
		nodes[1].Pause()
		ctx, cancel := context.WithCancel(t.Context())
		looked := make(chan time.Duration, 1)
		go func() { looked <- q.look(ctx, 0) }()
		cancel()
		select {
		case <-looked:
		case <-time.After(q.patience - time.Second):
			t.Error("the end of the look depends on the node")
		}
	})
}

// TestWaitLooks has a holder whose lock always ends within a second or so, so that
// its waiter looks as often as it ever does.
func TestWaitLooks(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	holder, q := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes))
	acquire(t, holder, claim("holder"))
	holder.Close()
	live := func() {
		for _, n := range nodes {
			do(t, n, "PEXPIRE", lockKey(job), "1200")
		}
	}
	live()
	held := refused[*locks.HeldError](t, q, claim("waiter"))
	asked, looks := calls(t, nodes[0], "set"), calls(t, nodes[0], "pttl")
	done := make(chan error, 1)
	go func() { done <- q.Wait(bounded(t), held) }()
	poll(t, "it looks three times", func() bool {
		live()
		select {
		case err := <-done:
			t.Fatalf("the lock is held, but the wait is over: %v", err)
		default:
		}
		return calls(t, nodes[1], "pttl") >= looks+3
	})
	if n := calls(t, nodes[0], "set"); n != asked {
		t.Errorf("%d questions while it waited", n-asked)
	}
	if n := calls(t, nodes[0], "blpop"); n < 3 || n > 4 {
		t.Errorf("%d pops for three looks", n)
	}
	if n := calls(t, nodes[0], "pttl"); n != looks {
		t.Errorf("%d looks at the node that it waits at", n-looks)
	}
	// Nobody renews it any more, and nobody leaves a token.
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	if q.woken != nil {
		t.Error("woken by a token that nobody has left")
	}
	acquire(t, q, claim("waiter"))
	release(t, q)
}

// TestReleaseOnItsWay has a release that reaches the node of the waiters well
// before the others. The waiter that it wakes must not take the lock for held: no
// other token would come.
func TestReleaseOnItsWay(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	urls := locktest.URLs(nodes)
	holder, by := open(t, time.Minute, urls), claim("holder")
	acquire(t, holder, by)
	arrive := func(n *node) {
		if err := giveBackOn(bounded(t), n.client, job, locks.EncodeValue(by), true); err != nil {
			t.Error(err)
		}
	}
	late := 0
	q := open(t, time.Minute, urls, func(o *Options) {
		o.Debug = func(msg string) {
			if strings.Contains(msg, "release on its way") {
				if late++; late == 2 {
					arrive(holder.nodes[1])
					arrive(holder.nodes[2])
				}
			}
		}
	})
	got := waitIn(t, bounded(t), q, far())
	poll(t, "it waits", func() bool { return blocked(t, nodes[0]) == 1 })
	arrive(holder.nodes[0])
	if err := result(t, got); err != nil {
		t.Fatal(err)
	}
	acquire(t, q, claim("waiter"))
	if late != 2 {
		t.Errorf("met the release on its way %d times, want 2", late)
	}
	release(t, q)

	t.Run("never_arrives", func(t *testing.T) {
		flush(t, nodes) // the tokens
		holder := open(t, time.Minute, urls)
		acquire(t, holder, by)
		q := open(t, time.Minute, urls)
		got := waitIn(t, bounded(t), q, far())
		poll(t, "it waits", func() bool { return blocked(t, nodes[0]) == 1 })
		arrive(holder.nodes[0])
		if err := result(t, got); err != nil {
			t.Fatal(err)
		}
		before := calls(t, nodes[1], "set")
		refused[*locks.HeldError](t, q, claim("waiter"))
		if n := calls(t, nodes[1], "set") - before; n != maxLeaving {
			t.Errorf("%d questions, want %d", n, maxLeaving)
		}
		before = calls(t, nodes[1], "set")
		refused[*locks.HeldError](t, q, claim("waiter")) // nobody has woken it this time
		if n := calls(t, nodes[1], "set") - before; n != 1 {
			t.Errorf("%d questions, want 1", n)
		}
		release(t, holder)
	})
}
