package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// TestTurnedAway has waiters whom a door further in refuses again and again.
// They must not wake each other for as long as that goes on.
func TestTurnedAway(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	const waiters = 4
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var asked atomic.Int32
	done := make(chan struct{})
	for range waiters {
		q := open(t, time.Minute, locktest.URLs(nodes))
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				var held *locks.HeldError
				switch err := q.Acquire(ctx, claim("waiter")); {
				case err == nil:
					asked.Add(1)
					_ = q.Release(ctx)
					held = &locks.HeldError{Tier: "lease", By: locks.Holder{Until: time.Now().Add(time.Hour)}}
				case !errors.As(err, &held):
					continue
				}
				_ = q.Wait(ctx, held)
			}
		}()
	}
	for range waiters {
		<-done
	}
	// Without the rule it is thousands, with it at most one each in a second,
	// and two more for the token that the first time leaves.
	if n := asked.Load(); n < 1 || n > 5*waiters {
		t.Errorf("asked the next door %d times", n)
	}
}

// TestUselessTokens has somebody who leaves tokens without end.
func TestUselessTokens(t *testing.T) {
	for _, door := range []string{tier, "lease"} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			nodes := locktest.StartRedisNodes(t, 1)
			holder, q := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes))
			if door == tier {
				acquire(t, holder, claim("holder"))
			}
			before := calls(t, nodes[0], "set") + calls(t, nodes[0], "blpop")
			const seconds = 5
			ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
			defer cancel()
			for ctx.Err() == nil {
				var held *locks.HeldError
				if err := q.Acquire(ctx, claim("waiter")); err == nil {
					_ = q.Release(ctx) // it clears the list
					held = &locks.HeldError{Tier: door, By: locks.Holder{Until: time.Now().Add(time.Hour)}}
				} else if !errors.As(err, &held) {
					continue
				}
				do(t, nodes[0], "RPUSH", wakeKey(job), "1", "1", "1")
				_ = q.Wait(ctx, held)
			}
			n := calls(t, nodes[0], "set") + calls(t, nodes[0], "blpop") - before
			if n < 4 || n > 2*seconds+2 { // a question counts once here
				t.Errorf("%d questions and pops in %d seconds", n, seconds)
			}
		})
	}
}

// TestEarlyEnd waits at a node that ends each pop at once.
func TestEarlyEnd(t *testing.T) {
	var pops atomic.Int32
	url := fakeNode(t, func(c []string) string {
		switch c[0] {
		case "set":
			return "$-1\r\n"
		case "blpop":
			pops.Add(1)
			return "*-1\r\n"
		}
		return ""
	})
	q := open(t, time.Minute, []string{url})
	q.name = job
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
	defer cancel()
	for ctx.Err() == nil {
		_ = q.Wait(ctx, far())
	}
	if n := pops.Load(); n != 1 {
		t.Errorf("%d pops", n)
	}
}

func TestWaitForAnotherDoor(t *testing.T) {
	t.Run("unreachable", func(t *testing.T) {
		nodes := locktest.StartRedisNodes(t, 1)
		q := open(t, time.Minute, locktest.URLs(nodes))
		nodes[0].Kill()
		refused[*locks.UnavailableError](t, q, claim("node 7"))
		if err := q.Wait(bounded(t), &locks.HeldError{Tier: "lease"}); err != nil {
			t.Error(err)
		}
	})
	t.Run("token", func(t *testing.T) {
		nodes := locktest.StartRedisNodes(t, 3)
		q, other := open(t, time.Minute, locktest.URLs(nodes)), open(t, time.Minute, locktest.URLs(nodes))
		acquire(t, q, claim("node 7"))
		release(t, q)
		poll(t, "the token of that release is gone", func() bool { return do(t, nodes[0], "EXISTS", wakeKey(job)) == "0" })
		acquire(t, other, claim("node 8"))
		got := make(chan error, 1)
		go func() {
			got <- q.Wait(bounded(t), &locks.HeldError{Tier: "lease", By: locks.Holder{Until: time.Now().Add(time.Hour)}})
		}()
		poll(t, "it listens", func() bool { return blocked(t, nodes[0]) == 1 })
		release(t, other)
		if err := result(t, got); err != nil {
			t.Error(err)
		}
		if q.woken == nil {
			t.Error("it was not the token that woke it")
		}
	})
}

func TestPause(t *testing.T) {
	for _, test := range []struct {
		limit, left time.Duration // 0 = unknown
		low, high   time.Duration
	}{
		{maxWait, 0, time.Second, 2 * time.Second},
		{maxWait, -time.Hour, time.Second, 2 * time.Second},
		{maxWait, 300 * time.Millisecond, time.Second, 2 * time.Second},
		{maxWait, 5 * time.Second, 4900 * time.Millisecond, 6 * time.Second},
		{maxWait, time.Hour, 10 * time.Second, 11 * time.Second},
		{maxTurnedAway, 0, time.Second, 2 * time.Second},
		{maxTurnedAway, time.Hour, 3 * time.Second, 4 * time.Second},
	} {
		for range 100 {
			held := &locks.HeldError{}
			if test.left != 0 {
				held.By.Until = time.Now().Add(test.left)
			}
			if d := pauseFor(until(held), test.limit); d < test.low || d > test.high {
				t.Errorf("%s left, at most %s: waits %s", test.left, test.limit, d)
			}
		}
	}
}
