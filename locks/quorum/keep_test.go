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

// handClock is a clock that a test sets.
type handClock struct{ now atomic.Int64 }

func (c *handClock) Now() locks.Instant        { return locks.Instant(c.now.Load()) }
func (c *handClock) NewAlarm() locks.Alarm     { panic("not used") }
func (c *handClock) advance(d time.Duration)   { c.now.Add(int64(d)) }
func withClock(c locks.Clock) func(o *Options) { return func(o *Options) { o.Clock = c } }

func flush(t *testing.T, nodes []*locktest.Redis) {
	t.Helper()
	for _, n := range nodes {
		do(t, n, "FLUSHALL")
	}
}

func TestRenew(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	urls := locktest.URLs(nodes)
	const ttl = time.Minute

	t.Run("flushed_and_taken", func(t *testing.T) {
		a, b, second := open(t, ttl, urls), open(t, ttl, urls), claim("node 8")
		acquire(t, a, claim("node 7"))
		flush(t, nodes)
		acquire(t, b, second)
		if err := a.Renew(bounded(t)); !errors.Is(err, locks.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		release(t, a)
		everywhere(t, nodes, locks.EncodeValue(second))
		release(t, b)
	})

	t.Run("flushed_and_free", func(t *testing.T) {
		q, c := open(t, ttl, urls), claim("node 7")
		acquire(t, q, c)
		flush(t, nodes)
		if err := q.Renew(bounded(t)); err != nil {
			t.Error(err)
		}
		everywhere(t, nodes, locks.EncodeValue(c))
		release(t, q)
	})

	t.Run("minority_taken", func(t *testing.T) {
		q := open(t, ttl, urls)
		acquire(t, q, claim("node 7"))
		do(t, nodes[0], "SET", lockKey(job), "another", "PX", "60000")
		if err := q.Renew(bounded(t)); err != nil {
			t.Error(err)
		}
		release(t, q)
		if v := values(t, nodes); v[0] != "another" || v[1] != "" || v[2] != "" {
			t.Errorf("nodes have %q", v)
		}
		flush(t, nodes)
	})

	t.Run("one_taken_one_dead", func(t *testing.T) {
		q := open(t, ttl, urls)
		acquire(t, q, claim("node 7"))
		do(t, nodes[0], "SET", lockKey(job), "another", "PX", "60000")
		nodes[1].Kill()
		var away *locks.UnavailableError
		if err := q.Renew(bounded(t)); errors.Is(err, locks.ErrLost) || !errors.As(err, &away) {
			t.Errorf("nobody knows, and it says %v", err)
		} else {
			must(t, err.Error(), nodes[1].Addr()+": connection refused")
		}
		nodes[1].Start()
		poll(t, "a later renewal succeeds", func() bool { return q.Renew(bounded(t)) == nil })
		release(t, q)
		flush(t, nodes)
	})

	t.Run("window_closed", func(t *testing.T) {
		clock := &handClock{}
		q := open(t, ttl, urls, withClock(clock))
		acquire(t, q, claim("node 7"))
		clock.advance(ttl / 2)
		if err := q.Renew(bounded(t)); err != nil {
			t.Fatal(err)
		}
		end := ttl/2 + ttl - q.timing.Margin
		clock.now.Store(int64(end))
		flush(t, nodes)
		for range 3 {
			if err := q.Renew(bounded(t)); err == nil || errors.Is(err, locks.ErrLost) {
				t.Errorf("got %v", err)
			}
			everywhere(t, nodes, "")
		}
		clock.now.Store(int64(end - 1))
		if err := q.Renew(bounded(t)); err == nil {
			// One nanosecond is no time for a request, so this must fail as well.
			t.Error("renewed within a nanosecond")
		}
		release(t, q)
	})

	t.Run("failure_extends_nothing", func(t *testing.T) {
		clock := &handClock{}
		q := open(t, ttl, urls, withClock(clock))
		acquire(t, q, claim("node 7"))
		nodes[0].Kill()
		nodes[1].Kill()
		clock.advance(ttl / 2)
		if err := q.Renew(bounded(t)); err == nil {
			t.Error("renewed on one of three")
		}
		nodes[0].Start()
		nodes[1].Start()
		clock.advance(ttl / 2)
		if err := q.Renew(bounded(t)); !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
		flush(t, nodes)
	})

	t.Run("without_a_lock", func(t *testing.T) {
		q := open(t, ttl, urls)
		if err := q.Renew(bounded(t)); err == nil {
			t.Error("renewed nothing")
		}
		acquire(t, q, claim("node 7"))
		release(t, q)
		if err := q.Renew(bounded(t)); err == nil {
			t.Error("renewed what was released")
		}
		everywhere(t, nodes, "")
	})

	t.Run("release_without_a_caller", func(t *testing.T) {
		q := open(t, ttl, urls)
		acquire(t, q, claim("node 7"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := q.Release(ctx); err != nil {
			t.Error(err)
		}
		everywhere(t, nodes, "")
	})
}

// TestShortTTL renews a lock of one second across several ttls.
func TestShortTTL(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	q, other := open(t, time.Second, locktest.URLs(nodes)), open(t, time.Second, locktest.URLs(nodes))
	acquire(t, q, claim("node 7"))
	tick := time.NewTicker(q.timing.RenewEvery)
	defer tick.Stop()
	for range 6 {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		if err := q.Renew(bounded(t)); err != nil {
			t.Fatal(err)
		}
		refused[*locks.HeldError](t, other, claim("node 8"))
	}
	// A holder that is gone for good leaves the lock for one ttl.
	poll(t, "the key of a dead holder goes", func() bool { return other.Acquire(bounded(t), claim("node 8")) == nil })
	release(t, other)
}

// A release ends when its caller's time is over, however long the nodes hang: a
// signal that ends lockrun must not wait for them.
func TestReleaseInTime(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	q := open(t, time.Minute, locktest.URLs(nodes))
	acquire(t, q, claim("node 7"))
	for _, n := range nodes {
		n.Pause()
		defer n.Resume()
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.patience/20)
	defer cancel()
	begun := time.Now()
	var away *locks.UnavailableError
	if err := q.Release(ctx); !errors.As(err, &away) || !away.Taken {
		t.Errorf("got %v, want that the lock may stay", err)
	}
	if took := time.Since(begun); took > q.patience/2 {
		t.Errorf("took %s of a time of %s: it has waited for the nodes", took, q.patience/20)
	}
}

// A node that has hung from the start holds up the end as little as the start:
// with all the patience there is, the others are enough.
func TestReleaseBesideHungNode(t *testing.T) {
	nodes := locktest.StartRedisNodes(t, 3)
	q := open(t, time.Minute, locktest.URLs(nodes))
	q.nodes[0].client.Options().ReadTimeout = time.Hour
	nodes[0].Pause()
	defer nodes[0].Resume()
	acquire(t, q, claim("node 7"))
	q.grace, q.patience = time.Hour, time.Hour
	released := make(chan error, 1)
	go func() { released <- q.Release(context.Background()) }()
	select {
	case err := <-released:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for the node")
	}
	for _, n := range nodes[1:] {
		if got := do(t, n, "EXISTS", lockKey(job)); got != "0" {
			t.Error("the lock is still there")
		}
	}
}
