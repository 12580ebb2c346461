package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockrun/locks"
)

// Lock is a lock as the nodes keep it.
type Lock struct {
	Key   string
	By    locks.Holder // Until is zero for one that never expires
	Nodes int          // on how many nodes its key is
}

// Locks tells which runs have the lock of a name, on however few nodes: those on
// most nodes first. It is for people, needs no lock and changes nothing. Values
// that lockrun did not write are left out. Its error, a
// *[locks.UnavailableError], says which nodes could not be asked; what the others
// said comes with it.
func (q *Quorum) Locks(ctx context.Context, name string) ([]Lock, error) {
	answers, err := each(ctx, q, "what is there is not known", func(ctx context.Context, client *redis.Client) (*locks.Holder, error) {
		return lockOn(ctx, client, name)
	})
	var found []Lock
	for _, by := range answers {
		if by == nil {
			continue
		}
		i := slices.IndexFunc(found, func(l Lock) bool { return l.By.RunID == by.RunID })
		if i < 0 {
			found = append(found, Lock{Key: lockKey(name), By: *by})
			i = len(found) - 1
		}
		l := &found[i]
		l.Nodes++
		if by.Until.IsZero() || !l.By.Until.IsZero() && by.Until.After(l.By.Until) {
			l.By.Until = by.Until
		}
	}
	slices.SortFunc(found, func(a, b Lock) int {
		return cmp.Or(b.Nodes-a.Nodes, strings.Compare(a.By.RunID, b.By.RunID))
	})
	return found, err
}

// lockOn reads the lock on one node, nil if there is none of lockrun's making.
func lockOn(ctx context.Context, client *redis.Client, name string) (*locks.Holder, error) {
	value, err := client.Get(ctx, lockKey(name)).Result()
	switch {
	case errors.Is(err, redis.Nil), err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return nil, nil
	case err != nil:
		return nil, err
	}
	by, ok := locks.ParseValue(value)
	if !ok {
		return nil, nil
	}
	left, err := client.PTTL(ctx, lockKey(name)).Result()
	switch {
	case err != nil:
		return nil, err
	case left == -2: // it has expired in between
		return nil, nil
	case left >= 0:
		by.Until = time.Now().Add(left)
	}
	return &by, nil
}

// ReleaseRun deletes the lock of a name on every node where its value says that
// this run has it, and wakes one waiter there; whatever else is under the key
// stays. It is for a person who ends another run's lease, and needs no lock. It
// returns on how many nodes the key was there. Its error, a
// *[locks.UnavailableError], says that nodes could not be asked and may keep a
// key of that run until it expires.
func (q *Quorum) ReleaseRun(ctx context.Context, name, runID string) (removed int, err error) {
	answers, err := each(ctx, q, "a key of that run may stay until it expires", func(ctx context.Context, client *redis.Client) (bool, error) {
		return releaseRunOn(ctx, client, name, runID)
	})
	for _, found := range answers {
		if found {
			removed++
		}
	}
	return removed, err
}

// each asks all nodes at once and returns what those said that answered. The
// error names the others, and what that means.
func each[T any](ctx context.Context, q *Quorum, means string, ask func(context.Context, *redis.Client) (T, error)) ([]T, error) {
	r := newRound(ctx, len(q.nodes), q.grace, q.patience)
	answers, causes := askOf(r, q.nodes, ask)
	r.end(false)
	if len(causes) > 0 {
		return answers, &locks.UnavailableError{What: what, Err: fmt.Errorf("%s (%s)", means, strings.Join(causes, "; "))}
	}
	return answers, nil
}

// askOf asks nodes in one round. It returns what those said that answered, and
// why the others did not.
func askOf[T any](r *round, nodes []*node, ask func(context.Context, *redis.Client) (T, error)) (answers []T, causes []string) {
	type result struct {
		node   *node
		answer T
		err    error
	}
	results := make(chan result, len(nodes))
	for _, n := range nodes {
		go func() {
			answer, err := request(r, func(ctx context.Context) (T, error) { return ask(ctx, n.client) })
			results <- result{n, answer, err}
		}()
	}
	for range nodes {
		res := <-results
		if res.err != nil {
			cause, _ := res.node.explain(res.err)
			causes = append(causes, res.node.name+": "+cause)
			continue
		}
		answers = append(answers, res.answer)
	}
	return answers, causes
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
