package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockrun/locks"
)

const (
	// wakeLife is how long a token waits for a waiter: longer than it takes from
	// a refused question or a look to the pop, so that a release in between is
	// noticed.
	wakeLife = 5 * time.Second
	// A pause ends when the holder's lock would end that nobody renews, but
	// nobody waits longer than maxWait without a look, in case that no token
	// comes: the node that we wait at may have missed the release, or whoever
	// took the token may have died of it.
	minWait = time.Second
	maxWait = 10 * time.Second
	// maxTurnedAway bounds the pause after a door further in has said "held":
	// its holder need not have the quorum, so no token may come.
	maxTurnedAway = 3 * time.Second
	// waitJitter keeps waiters from asking in step after a holder has died.
	waitJitter = time.Second
	// popSlack is how late the answer to a pop may come.
	popSlack = time.Second
	// recordTime is about what it takes to record the end of a run.
	recordTime = 100 * time.Millisecond
	// wakeCost is the time for which a wake is enough: it makes four commands,
	// one for each second. A token that comes meanwhile is still there then.
	wakeCost = 4 * time.Second
	// handOn bounds how long a waiter that gives up stays to pass a token on.
	handOn = 100 * time.Millisecond
)

// Wait returns when asking again makes sense: a release has woken this waiter,
// or a look at a few nodes found the lock gone or a node in trouble. When ctx
// ends it returns its error at once, after it has passed on a token that may have
// come in the same moment.
func (q *Quorum) Wait(ctx context.Context, held *locks.HeldError) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hasty := q.hasty
	q.hasty = false
	if held.Tier != tier {
		q.turnedAway = true
		if hasty {
			// The holder gives the lock back, and thus wakes us, while it records
			// its end; we were quicker. This once it won't take long.
			return locks.Sleep(ctx, recordTime/2+rand.N(recordTime))
		}
		_, err := q.block(ctx, pauseFor(until(held), maxTurnedAway))
		return err
	}
	for left := until(held); ; {
		at, err := q.block(ctx, pauseFor(left, maxWait))
		if at < 0 || err != nil {
			return err
		}
		if left = q.look(ctx, at); left < 0 {
			return ctx.Err()
		}
	}
}

// until is how long a holder's lock goes on without a renewal, as far as is known.
func until(held *locks.HeldError) time.Duration {
	if held.By.Until.IsZero() {
		return 0
	}
	return time.Until(held.By.Until)
}

// pauseFor is how long to wait, if no token comes, for a lock that has some time
// left.
func pauseFor(left, limit time.Duration) time.Duration {
	return min(max(left, minWait), limit) + rand.N(waitJitter)
}

// block waits for a token, for d at most. It returns the index of the node at
// which none came in that time, or -1 when it is better to ask again: a token has
// come, or a node could not be waited at.
func (q *Quorum) block(ctx context.Context, d time.Duration) (at int, err error) {
	end := time.Now().Add(d)
	if err := locks.Sleep(ctx, min(q.wakes.pause(), d)); err != nil {
		return -1, err
	}
	failed := false
	for i, n := range q.nodes {
		if n.err != nil || q.name == "" {
			continue // it did not answer when it was asked last
		}
		if time.Until(end) < 0 {
			return -1, ctx.Err()
		}
		token, err := q.waiter.pop(ctx, n, wakeKey(q.name), time.Until(end))
		switch {
		case ctx.Err() != nil:
			q.waiter.drop(false)
			q.passOn(n)
			return -1, ctx.Err()
		case token:
			q.woken, q.hasty = n, true
			q.wakes.count()
			return -1, nil
		case err == nil: // the time is over, or the node says so too early
			if failed {
				i = -1
			}
			return i, locks.Sleep(ctx, time.Until(end))
		}
		failed = true
		q.waiter.drop(false)
		cause, _ := n.explain(err)
		q.debug(fmt.Sprintf("waiting at Redis node %s failed: %s", n.name, cause))
	}
	return -1, locks.Sleep(ctx, time.Until(end))
}

// look asks some nodes how long the lock still goes on there. It returns -1 when
// all nodes are better asked: it is gone from one of them, or one did not answer,
// now or when all were asked last.
//
// A lock that is free is free on a majority, so it is enough to ask one node more
// than a majority leaves over. Those after the one that we wait at come first: had
// the release got there, there would have been a token.
func (q *Quorum) look(ctx context.Context, at int) time.Duration {
	var nodes []*node
	for i := range q.nodes {
		n := q.nodes[(at+1+i)%len(q.nodes)]
		if n.err != nil {
			return -1 // by now it may be back, and free
		}
		nodes = append(nodes, n)
	}
	nodes = nodes[:len(nodes)-q.need+1]
	r := newRound(ctx, len(nodes), 0, q.patience) // nothing is changed, so nothing has to be waited for
	defer r.end(false)
	lefts, causes := askOf(r, nodes, func(ctx context.Context, client *redis.Client) (int64, error) {
		// The library would make a duration of it, which may overflow.
		return client.Do(ctx, "PTTL", lockKey(q.name)).Int64()
	})
	if len(causes) > 0 {
		q.debug("looking at the lock failed at Redis node " + strings.Join(causes, "; "))
		return -1
	}
	if slices.Min(lefts) < 0 { // it is gone, or not of lockrun's making
		return -1
	}
	return time.Duration(min(slices.Max(lefts), maxWait.Milliseconds())) * time.Millisecond
}

// wakes keeps tokens that lead to nothing from driving a waiter: whoever can
// write to the list could make it ask without a pause. Once it may be woken early
// at any time; what comes on top must keep to the rate.
type wakes struct {
	paid time.Time // until here the rate allows for the wakes that there were
}

// count takes note of a wake.
func (w *wakes) count() {
	if now := time.Now(); w.paid.Before(now) {
		w.paid = now
	}
	w.paid = w.paid.Add(wakeCost)
}

// pause is how long no token may be taken.
func (w *wakes) pause() time.Duration { return time.Until(w.paid.Add(-wakeCost)) }

// passOn leaves a token at n if the lock is free there: the one that woke us,
// or that was sent to the connection which we have just dropped.
func (q *Quorum) passOn(n *node) {
	name, value, client := q.name, q.value, n.client
	ctx, cancel := context.WithTimeout(context.Background(), handOn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		_, _ = safely(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, giveBackOn(ctx, client, name, value, true)
		})
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// waiter is the connection on which a token is waited for. It is not one of the
// others: a blocked read ends only with its connection. Close may come from
// another goroutine.
type waiter struct {
	mu     sync.Mutex
	node   *node
	client *redis.Client
	closed bool
}

// at returns the client of a node and drops that of another.
func (w *waiter) at(n *node) (*redis.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, redis.ErrClosed
	}
	if w.node != n {
		w.close()
		w.node, w.client = n, n.newWaiter()
	}
	return w.client, nil
}

func (w *waiter) close() {
	if w.client != nil {
		_ = w.client.Close()
		w.node, w.client = nil, nil
	}
}

// drop closes the connection, for good or until it is needed again.
func (w *waiter) drop(forGood bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = w.closed || forGood
	w.close()
}

// pop takes a token within d. It returns when ctx ends; then the waiter must be
// dropped.
func (w *waiter) pop(ctx context.Context, n *node, key string, d time.Duration) (bool, error) {
	client, err := w.at(n)
	if err != nil {
		return false, err
	}
	// The server counts in seconds, with a fraction since Redis 6.
	seconds := strconv.FormatFloat(max(d.Seconds(), 0.001), 'f', 3, 64)
	bounded, cancel := context.WithTimeout(ctx, d+popSlack)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		_, err := safely(bounded, func(ctx context.Context) (any, error) {
			return client.Do(ctx, "BLPOP", key, seconds).Result()
		})
		done <- err
	}()
	select {
	case err := <-done:
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
