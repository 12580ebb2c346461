package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

func TestFilter(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprintf("%d_nodes", n), func(t *testing.T) {
			t.Parallel()
			urls := locktest.URLs(locktest.StartRedisNodes(t, n))
			locktest.ExerciseFilter(t, func(t *testing.T) (a, b locks.Filter) {
				return open(t, time.Minute, urls), open(t, time.Minute, urls)
			})
		})
	}
}

func TestAcquire(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	urls := locktest.URLs(nodes)

	t.Run("key_and_value", func(t *testing.T) {
		q, c := open(t, time.Minute, urls), claim("node 7")
		acquire(t, q, c)
		everywhere(t, nodes, locks.EncodeValue(c))
		release(t, q)
		everywhere(t, nodes, "")
	})

	t.Run("held_until", func(t *testing.T) {
		a, b, c := open(t, time.Minute, urls), open(t, time.Minute, urls), claim("node 7")
		before := time.Now()
		acquire(t, a, c)
		held := refused[*locks.HeldError](t, b, claim("node 8"))
		if held.Tier != "quorum" || held.By.RunID != c.RunID || held.By.Text != c.Holder || held.By.PID != c.PID {
			t.Errorf("held by %+v (%s)", held.By, held.Tier)
		}
		if u := held.By.Until; u.Before(before.Add(50*time.Second)) || u.After(time.Now().Add(time.Minute)) {
			t.Errorf("until %s, asked at %s", u, before)
		}
		release(t, a)
	})

	t.Run("value_of_another_program", func(t *testing.T) {
		for _, n := range nodes {
			do(t, n, "SET", lockKey(job), "\x1b[31msomething", "PX", "60000")
		}
		held := refused[*locks.HeldError](t, open(t, time.Minute, urls), claim("node 8"))
		if held.By.Text != "somebody who is not lockrun" || held.By.Until.IsZero() {
			t.Errorf("held by %+v", held.By)
		}
		for _, n := range nodes {
			do(t, n, "DEL", lockKey(job))
		}
	})

	t.Run("own_late_key_is_not_anothers", func(t *testing.T) {
		q, c := open(t, time.Minute, urls), claim("node 7")
		for _, n := range nodes[:2] { // as if an earlier SET of ours had come through late
			do(t, n, "SET", lockKey(job), locks.EncodeValue(c), "PX", "60000")
		}
		acquire(t, q, c)
		everywhere(t, nodes, locks.EncodeValue(c))
		release(t, q)
		everywhere(t, nodes, "")
	})

	t.Run("dead_contender_on_a_minority", func(t *testing.T) {
		do(t, nodes[0], "SET", lockKey(job), locks.EncodeValue(claim("node 9")), "PX", "60000")
		q, c := open(t, time.Minute, urls), claim("node 7")
		acquire(t, q, c)
		release(t, q)
		if v := values(t, nodes); v[0] == "" || v[1] != "" || v[2] != "" {
			t.Errorf("nodes have %q: another's key must stay, ours must not", v)
		}
		do(t, nodes[0], "DEL", lockKey(job))
	})

	t.Run("nobody_has_a_majority", func(t *testing.T) {
		for i, n := range nodes {
			do(t, n, "SET", lockKey(job), locks.EncodeValue(claim(fmt.Sprint("node ", i))), "PX", "60000")
		}
		err := refused[*locks.UnavailableError](t, open(t, time.Minute, urls), claim("node 7"))
		must(t, err.Error(), "nobody has a majority", nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr())
		if err.Taken {
			t.Error("nothing of ours can be left")
		}
		do(t, nodes[2], "DEL", lockKey(job)) // one node can be won: not enough, and given back
		refused[*locks.UnavailableError](t, open(t, time.Minute, urls), claim("node 7"))
		if v := values(t, nodes); v[2] != "" {
			t.Errorf("left %q behind", v[2])
		}
		for _, n := range nodes {
			do(t, n, "DEL", lockKey(job))
		}
	})

	t.Run("caller_is_gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := open(t, time.Minute, urls).Acquire(ctx, claim("node 7"))
		var away *locks.UnavailableError
		if !errors.As(err, &away) || !errors.Is(err, context.Canceled) || away.Taken {
			t.Errorf("got %v", err)
		}
		everywhere(t, nodes, "")
	})

	t.Run("asked_twice", func(t *testing.T) {
		q, c := open(t, time.Minute, urls), claim("node 7")
		acquire(t, q, c)
		refused[*locks.UnavailableError](t, q, c)
		everywhere(t, nodes, locks.EncodeValue(c)) // redsync alone would have deleted it
		release(t, q)
	})
}

// TestOneWinner lets contenders ask in the same instant. Each round must have
// one winner, and a split vote must never be the last word.
func TestOneWinner(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	urls := locktest.URLs(nodes)
	for _, test := range []struct {
		contenders, rounds int
		cold               bool // with new connections
		dead               int  // this many nodes are stopped
	}{
		{contenders: 2, rounds: 100},
		{contenders: 3, rounds: 100},
		{contenders: 50, rounds: 20},
		{contenders: 200, rounds: 10},
		{contenders: 50, rounds: 5, cold: true},
		{contenders: 3, rounds: 50, dead: 1},
		{contenders: 50, rounds: 10, dead: 1},
	} {
		t.Run(fmt.Sprintf("%d_contenders_cold_%t_dead_%d", test.contenders, test.cold, test.dead), func(t *testing.T) {
			for _, n := range nodes[:test.dead] {
				n.Kill()
				defer n.Start()
			}
			all := make([]*Quorum, test.contenders)
			for i := range all {
				all[i] = open(t, 30*time.Second, urls)
			}
			for round := range test.rounds {
				if test.cold && round > 0 {
					for i := range all {
						all[i].Close()
						all[i] = open(t, 30*time.Second, urls)
					}
				}
				if oneWinner(t, all) {
					everywhere(t, nodes[test.dead:], "")
				} else {
					flush(t, nodes[test.dead:])
				}
			}
		})
	}
}

// oneWinner returns false if the machine was too slow for some contenders: the
// nodes may then still be busy with their requests.
func oneWinner(t *testing.T, all []*Quorum) bool {
	t.Helper()
	ctx := bounded(t)
	errs := make([]error, len(all))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, q := range all {
		wg.Go(func() {
			<-start
			errs[i] = q.Acquire(ctx, claim(fmt.Sprint("node ", i)))
		})
	}
	close(start)
	wg.Wait()
	winners, slow := 0, false
	var held *locks.HeldError
	for i, err := range errs {
		switch {
		case err == nil:
			winners++
		case strings.Contains(err.Error(), ": no answer"):
			slow = true
		case !errors.As(err, &held):
			t.Errorf("contender %d: %v", i, err)
		}
		if err := all[i].Release(ctx); err != nil {
			slow = true
		}
	}
	if winners != 1 {
		t.Fatalf("%d winners", winners)
	}
	return !slow
}
