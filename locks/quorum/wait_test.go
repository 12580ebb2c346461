package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// blocked counts the clients that wait at a node.
func blocked(t testing.TB, n *locktest.Redis) int {
	return field(t, do(t, n, "INFO", "clients"), "blocked_clients")
}

// calls counts how often a node was given a command.
func calls(t testing.TB, n *locktest.Redis, command string) int {
	t.Helper()
	for line := range strings.Lines(do(t, n, "INFO", "commandstats")) {
		var calls int
		if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &calls); err == nil {
			return calls
		}
	}
	return 0
}

// far is a holder whose lock goes on for long.
func far() *locks.HeldError {
	return &locks.HeldError{Tier: tier, By: locks.Holder{Until: time.Now().Add(time.Hour)}}
}

// waitIn waits in the background, after it was refused once.
func waitIn(t testing.TB, ctx context.Context, q *Quorum, held *locks.HeldError) <-chan error {
	t.Helper()
	refused[*locks.HeldError](t, q, claim("waiter"))
	done := make(chan error, 1)
	go func() { done <- q.Wait(ctx, held) }()
	return done
}

func result(t testing.TB, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-bounded(t).Done():
		t.Fatal("still waiting")
		return nil
	}
}

func TestWait(t *testing.T) {
	const ttl = time.Minute
	start := func(t *testing.T) ([]*locktest.Redis, *Quorum, func() *Quorum) {
		t.Parallel()
		nodes := locktest.StartRedisNodes(t, 3)
		another := func() *Quorum { return open(t, ttl, locktest.URLs(nodes)) }
		holder := another()
		acquire(t, holder, claim("holder"))
		return nodes, holder, another
	}

	t.Run("one_at_a_time", func(t *testing.T) {
		nodes, holder, another := start(t)
		const waiters = 8
		var got [waiters]<-chan error
		all := make([]*Quorum, waiters)
		for i := range all {
			all[i] = another()
			got[i] = waitIn(t, bounded(t), all[i], far())
		}
		poll(t, "all wait at the first node", func() bool { return blocked(t, nodes[0]) == waiters })
		for left := waiters; left > 0; left-- {
			release(t, holder)
			next := -1
			poll(t, "a release wakes a waiter", func() bool {
				for i, c := range got {
					select {
					case err := <-c:
						if err != nil || next >= 0 {
							t.Fatalf("waiter %d: %v; %d was woken before", i, err, next)
						}
						next = i
					default:
					}
				}
				return next >= 0
			})
			if n := blocked(t, nodes[0]); n != left-1 {
				t.Fatalf("%d go on waiting, want %d", n, left-1)
			}
			holder, got[next] = all[next], nil
			acquire(t, holder, claim("was a waiter"))
		}
		release(t, holder)
	})

	t.Run("token_is_passed_on_by_release", func(t *testing.T) {
		nodes, holder, another := start(t)
		a, b := another(), another()
		gotA := waitIn(t, bounded(t), a, far())
		poll(t, "a waits", func() bool { return blocked(t, nodes[0]) == 1 })
		gotB := waitIn(t, bounded(t), b, far())
		poll(t, "b waits", func() bool { return blocked(t, nodes[0]) == 2 })
		release(t, holder)
		if err := result(t, gotA); err != nil {
			t.Fatal(err)
		}
		release(t, a) // it ends without asking
		if err := result(t, gotB); err != nil {
			t.Fatal(err)
		}
		acquire(t, b, claim("b"))
		release(t, b)
	})

	t.Run("token_is_passed_on_when_the_wait_ends", func(t *testing.T) {
		nodes, holder, another := start(t)
		a, b := another(), another()
		ctx, cancel := context.WithCancel(t.Context())
		gotA := waitIn(t, ctx, a, far())
		poll(t, "a waits", func() bool { return blocked(t, nodes[0]) == 1 })
		gotB := waitIn(t, bounded(t), b, far())
		poll(t, "b waits", func() bool { return blocked(t, nodes[0]) == 2 })
		nodes[0].Pause() // so that the token comes and a's end are one for the node
		released := make(chan error, 1)
		go func() { released <- holder.Release(context.WithoutCancel(t.Context())) }()
		if err := result(t, released); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := result(t, gotA); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		nodes[0].Resume()
		if err := result(t, gotB); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("cancelled_while_the_node_hangs", func(t *testing.T) {
		nodes, _, another := start(t)
		q := another()
		ctx, cancel := context.WithCancel(t.Context())
		got := waitIn(t, ctx, q, far())
		poll(t, "it waits", func() bool { return blocked(t, nodes[0]) == 1 })
		nodes[0].Pause()
		cancel()
		// The pop itself would go on for ten seconds and more.
		select {
		case err := <-got:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Error("the end of the wait depends on the node")
		}
		nodes[0].Resume()
		poll(t, "the connection is dropped", func() bool { return blocked(t, nodes[0]) == 0 })
	})

	t.Run("waits_at_the_next_node", func(t *testing.T) {
		nodes, holder, another := start(t)
		q := another()
		got := waitIn(t, bounded(t), q, far())
		poll(t, "it waits", func() bool { return blocked(t, nodes[0]) == 1 })
		nodes[0].Kill()
		poll(t, "it waits at the next node", func() bool { return blocked(t, nodes[1]) == 1 })
		release(t, holder)
		if err := result(t, got); err != nil {
			t.Error(err)
		}
	})

	t.Run("dead_holder", func(t *testing.T) {
		nodes, holder, another := start(t)
		holder.Close()
		for _, n := range nodes {
			do(t, n, "PEXPIRE", lockKey(job), "1500")
		}
		q := another()
		held := refused[*locks.HeldError](t, q, claim("waiter"))
		if err := q.Wait(bounded(t), held); err != nil {
			t.Fatal(err)
		}
		acquire(t, q, claim("waiter"))
		release(t, q)
	})

	t.Run("quicker_than_the_record", func(t *testing.T) {
		nodes, holder, another := start(t)
		q := another()
		got := waitIn(t, bounded(t), q, far())
		poll(t, "it waits", func() bool { return blocked(t, nodes[0]) == 1 })
		release(t, holder)
		if err := result(t, got); err != nil {
			t.Fatal(err)
		}
		// The lock is free, but the lease is not, because its end is still being
		// recorded.
		lease := &locks.HeldError{Tier: "lease", By: locks.Holder{Until: time.Now().Add(time.Hour)}}
		turnedAway := func() { acquire(t, q, claim("waiter")); release(t, q) }
		turnedAway()
		do(t, nodes[0], "DEL", wakeKey(job))
		if err := q.Wait(bounded(t), lease); err != nil {
			t.Fatal(err)
		}
		if n := calls(t, nodes[0], "blpop"); n != 1 {
			t.Errorf("%d pops: it waited for another token", n)
		}
		// Whoever is turned away once more has not met a record on its way.
		turnedAway()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- q.Wait(ctx, lease) }()
		poll(t, "it waits for a token", func() bool { return blocked(t, nodes[0]) == 1 })
		cancel()
		if err := result(t, done); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})

	t.Run("token_does_not_stay", func(t *testing.T) {
		nodes, holder, _ := start(t)
		release(t, holder)
		for _, n := range nodes {
			if keys := do(t, n, "KEYS", "*"); keys != "["+wakeKey(job)+"]" {
				t.Errorf("keys are %s", keys)
			}
			if left := do(t, n, "PTTL", wakeKey(job)); left == "-1" {
				t.Error("the token stays for ever")
			}
		}
		for range 3 {
			acquire(t, holder, claim("holder"))
			release(t, holder)
		}
		for _, n := range nodes {
			if length := do(t, n, "LLEN", wakeKey(job)); length != "1" {
				t.Errorf("%s tokens", length)
			}
		}
	})

	t.Run("no_token_for_a_lock_of_anothers", func(t *testing.T) {
		nodes, _, another := start(t)
		q := another()
		refused[*locks.HeldError](t, q, claim("node 8"))
		release(t, q)
		for _, n := range nodes {
			if do(t, n, "EXISTS", wakeKey(job)) != "0" {
				t.Error("left a token though another has the lock")
			}
		}
	})

	t.Run("few_commands", func(t *testing.T) {
		nodes, holder, another := start(t)
		const waiters = 10
		var pops, asks int
		for range waiters {
			waitIn(t, bounded(t), another(), far())
		}
		poll(t, "all wait", func() bool { return blocked(t, nodes[0]) == waiters })
		pops, asks = calls(t, nodes[0], "blpop"), calls(t, nodes[0], "set")
		for range 50 { // meanwhile they do nothing
			if err := holder.Renew(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
		if p, a := calls(t, nodes[0], "blpop"), calls(t, nodes[0], "set"); p != pops || a != asks || pops != waiters || asks != waiters+1 {
			t.Errorf("%d pops and %d questions, then %d and %d", pops, asks, p, a)
		}
		if n := calls(t, nodes[1], "blpop") + calls(t, nodes[2], "blpop"); n != 0 {
			t.Errorf("%d pops at other nodes", n)
		}
	})
}
