package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"lockrun/locks"
)

// ReleaseRun deletes the lock of a name on every node where its value says that
// this run has it, and wakes one waiter there; whatever else is under the key
// stays. It is for a person who ends another run's lease, and needs no lock. It
// returns on how many nodes the key was there. Its error, a
// *[locks.UnavailableError], says that nodes could not be asked and may keep a
// key of that run until it expires.
func (q *Quorum) ReleaseRun(ctx context.Context, name, runID string) (removed int, err error) {
	r := newRound(ctx, len(q.nodes), q.grace, q.patience)
	type result struct {
		node  *node
		found bool
		err   error
	}
	results := make(chan result, len(q.nodes))
	for _, n := range q.nodes {
		go func() {
			found, err := request(r, func(ctx context.Context) (bool, error) {
				return releaseRunOn(ctx, n.client, name, runID)
			})
			results <- result{n, found, err}
		}()
	}
	var causes []string
	for range q.nodes {
		res := <-results
		switch {
		case res.err != nil:
			cause, _ := res.node.explain(res.err)
			causes = append(causes, res.node.name+": "+cause)
		case res.found:
			removed++
		}
	}
	r.end(false)
	if len(causes) > 0 {
		return removed, &locks.UnavailableError{
			What: what, Err: fmt.Errorf("a key of that run may stay until it expires (%s)", strings.Join(causes, "; ")),
		}
	}
	return removed, nil
}

// releaseRunOn deletes the lock on one node if it is that run's. The value is
// compared again where it is deleted.
func releaseRunOn(ctx context.Context, client *redis.Client, name, runID string) (bool, error) {
	value, err := client.Get(ctx, lockKey(name)).Result()
	switch {
	case errors.Is(err, redis.Nil), err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return false, nil
	case err != nil:
		return false, err
	}
	if by, ok := locks.ParseValue(value); !ok || by.RunID != runID {
		return false, nil
	}
	return true, giveBackOn(ctx, client, name, value, true)
}
