package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"

	"lockrun/locks"
)

// errClosed is not [locks.ErrLost]: nobody is known to have taken the lock.
var errClosed = errors.New("the trust window has closed; the lock is not taken again")

// Renew keeps the lock for another ttl. After the trust window has closed it
// does not touch the nodes any more: a renewal sets missing keys, and what is
// missing then may have been taken, used and given back by somebody else.
func (q *Quorum) Renew(ctx context.Context) error {
	if !q.held {
		return errors.New("there is no lock to renew")
	}
	sent := q.clock.Now()
	left := q.windowEnd.Sub(sent)
	if left <= 0 {
		return errClosed
	}
	r := newRound(ctx, q.need, q.grace, within(ctx, min(q.patience, left)))
	q.expect(&call{first: r})
	ok, err := q.mutex.ExtendContext(r.ctx)
	r.end(true)
	if ok {
		q.windowEnd = q.timing.WindowEnd(sent)
		q.notice(true)
		return nil
	}
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return fmt.Errorf("%d of %d Redis nodes say another value: %w", len(taken.Nodes), len(q.nodes), locks.ErrLost)
	}
	q.notice(false)
	text, _ := q.fault()
	return &locks.UnavailableError{What: what, Err: errors.New(text)}
}

// shortTenure is how long a run keeps the lock at most if a door further in
// turns it away.
const shortTenure = time.Second

// within is d, or what ctx has left if that is less.
func within(ctx context.Context, d time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(d, time.Until(deadline))
	}
	return d
}

// Release gives the lock back on all nodes, or what an Acquire has left behind
// on some. It takes as long as ctx's deadline allows, whether ctx is cancelled or
// not, and no longer than the patience with a node; what a lost vote has left on
// nodes that do not answer is not worth more than the grace.
// It returns nil as soon as what may be left can't keep others out.
func (q *Quorum) Release(ctx context.Context) error {
	token := q.held && !q.quiet()
	patience := q.grace
	if q.held {
		patience = q.patience
	}
	r := newRound(context.WithoutCancel(ctx), q.need, q.grace, within(ctx, patience))
	name, value := q.name, q.value
	type result struct {
		node *node
		err  error
	}
	results := make(chan result, len(q.nodes))
	failed := 0
	for _, n := range q.nodes {
		if n.err != nil {
			failed++
		}
	}
	few := q.held && failed <= len(q.nodes)-q.need
	asked, left := 0, 0
	for _, n := range q.nodes {
		n.ours = n.ours || q.held
		token := token || n == q.woken
		if !n.ours && !token {
			r.granted()
			continue
		}
		failing := few && n.err != nil
		if failing {
			// It failed the last time, when a majority did not. It is told, but the
			// end of a run does not wait for it: few nodes keep nobody out.
			r.granted()
			left++
		} else {
			asked++
		}
		go func() {
			_, err := request(r, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, giveBackOn(ctx, n.client, name, value, token)
			})
			if failing {
				return
			}
			if err == nil {
				r.granted()
			}
			results <- result{n, err}
		}()
	}
	q.held, q.woken = false, nil
	var causes []string
	for range asked {
		res := <-results
		if res.err == nil {
			res.node.ours = false
			continue
		}
		cause, _ := res.node.explain(res.err)
		causes = append(causes, res.node.name+": "+cause)
		if res.node.ours {
			left++
		}
	}
	r.end(true)
	if left > len(q.nodes)-q.need {
		return &locks.UnavailableError{
			What: what, Taken: true,
			Err: fmt.Errorf("the lock may stay until it expires, after %s at most (%s)", q.timing.TTL, strings.Join(causes, "; ")),
		}
	}
	return nil
}

// quiet tells whether a release should wake nobody. A run that a door further
// in turns away gives the lock back at once. If that woke the next waiter, who
// is turned away as well and wakes the next, they would ask that door without a
// pause for as long as it is shut. So a run wakes others only the first time:
// then each of them has learned it. What is held for longer is real.
func (q *Quorum) quiet() bool {
	return q.turnedAway && q.clock.Now().Sub(q.since) < shortTenure
}

// Close drops all connections, at once, also those of hung nodes.
func (q *Quorum) Close() {
	q.waiter.drop(true)
	for _, n := range q.nodes {
		_ = n.client.Close()
	}
}
