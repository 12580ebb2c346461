package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/go-redis/v9"
)

// node is one Redis master and what it said last. It is the pool that redsync
// asks for a connection. Its state is touched by the goroutine that calls the
// Quorum and, while that one waits for redsync, by one goroutine of redsync's.
type node struct {
	name     string // for people
	password string // to keep it out of what the server says
	client   *redis.Client
	base     redsyncredis.Pool // redsync's own adapter, for the methods that need no other
	warned   map[kind]bool
	// newWaiter makes a client with a single connection to block on.
	newWaiter func() *redis.Client

	call *call // the call that redsync is making
	said said  // the last answer
	err  error // why there was none
	// ours is set as long as our value may be on the node.
	ours bool
}

// said is what a node answered when it was asked for the lock.
type said struct {
	won   bool
	value string        // whose it is, if not won; empty if it was gone by then
	left  time.Duration // until value expires
}

// call tells the nodes what redsync is doing.
type call struct {
	first *round        // of the question
	undo  func() *round // of the giving back after a lost vote; nil for a renewal
	skip  bool          // nodes that have failed before are not asked again
}

// foreignError says that a key is not a lock that lockrun made.
type foreignError struct{ text string }

func (e *foreignError) Error() string { return e.text }

func (n *node) Get(ctx context.Context) (redsyncredis.Conn, error) {
	base, err := n.base.Get(ctx)
	return conn{base, n}, err
}

// conn does for redsync what its own adapter does, but ends with the round and
// not with redsync's timeout, which renewals lack and which can't tell a node
// that is slow from one that holds up a majority.
type conn struct {
	redsyncredis.Conn
	node *node
}

// SetNX asks for the lock, and whose it is if it is not to be had.
func (c conn) SetNX(key, value string, ttl time.Duration) (bool, error) {
	n := c.node
	if n.call.skip && n.err != nil {
		return false, n.err
	}
	n.said, n.err = request(n.call.first, func(ctx context.Context) (said, error) {
		return grab(ctx, n.client, key, value, ttl)
	})
	switch {
	case n.said.won:
		n.call.first.granted()
		n.ours = true
	case n.err == nil:
		n.ours = n.said.value == value
	case unanswered(n.err):
		n.ours = true
	}
	return n.said.won, n.err
}

// Eval renews, or gives back what a lost vote has won. A node that did not
// answer is not asked: it would not answer that either.
func (c conn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	n := c.node
	keys := make([]string, script.KeyCount)
	for i := range keys {
		keys[i], _ = keysAndArgs[i].(string)
	}
	send := func(ctx context.Context) (any, error) {
		// The source is a few hundred bytes; by its hash, a node that has
		// restarted would need a second round trip.
		return n.client.Eval(ctx, script.Src, keys, keysAndArgs[script.KeyCount:]...).Result()
	}
	if n.call.undo == nil {
		var status any
		status, n.err = request(n.call.first, send)
		if n.said = (said{won: status == int64(1)}); n.said.won {
			n.call.first.granted()
		}
		n.ours = n.ours || n.said.won || unanswered(n.err)
		return status, n.err
	}
	undo := n.call.undo()
	if n.err != nil || !n.ours {
		undo.granted()
		return int64(0), nil
	}
	status, err := request(undo, send)
	if err == nil {
		undo.granted()
		n.ours = false
	}
	return status, err
}

// grab sets key to value if it is free, and otherwise reads what is there, in
// the same round trip.
func grab(ctx context.Context, client *redis.Client, key, value string, ttl time.Duration) (said, error) {
	pipe := client.Pipeline()
	set := pipe.SetNX(ctx, key, value, ttl)
	get := pipe.Get(ctx, key)
	// The library would make a duration of it, which may overflow.
	pttl := redis.NewIntCmd(ctx, "pttl", key)
	_ = pipe.Process(ctx, pttl)
	_, failed := pipe.Exec(ctx)
	switch err := set.Err(); {
	case err != nil:
		return said{}, err
	case set.Val():
		return said{won: true}, nil
	}
	err := errors.Join(get.Err(), pttl.Err())
	if err == nil {
		err = failed // a connection that can't be opened leaves the commands without an error
	}
	switch {
	case errors.Is(err, redis.Nil):
		return said{}, nil
	case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return said{}, &foreignError{"its key " + key + " is not of lockrun's making: it is no string"}
	case err != nil:
		return said{}, err
	}
	switch left := pttl.Val(); {
	case left == -1:
		return said{}, &foreignError{"its key " + key + " is not of lockrun's making: it never expires"}
	case left == -2:
		return said{}, nil
	case left < 0, left > int64(math.MaxInt64/time.Millisecond):
		return said{}, &foreignError{fmt.Sprintf("its key %s is not of lockrun's making: it expires in %d ms", key, left)}
	default:
		return said{value: get.Val(), left: time.Duration(left) * time.Millisecond}, nil
	}
}

// giveBack deletes the lock if it is ours, and leaves a token for one waiter
// unless somebody else has the lock: then it is theirs to leave one. There is
// never more than one token, and it does not stay.
const giveBack = `
local held = redis.call("GET", KEYS[1])
if held and held ~= ARGV[1] then return 0 end
if held then redis.call("DEL", KEYS[1]) end
if ARGV[2] ~= "0" then
	redis.call("DEL", KEYS[2])
	redis.call("RPUSH", KEYS[2], "1")
	redis.call("PEXPIRE", KEYS[2], ARGV[2])
end
return 1
`

// giveBackOn runs giveBack on one node.
func giveBackOn(ctx context.Context, client *redis.Client, name, value string, token bool) error {
	life := int64(0)
	if token {
		life = wakeLife.Milliseconds()
	}
	err := client.Eval(ctx, giveBack, []string{lockKey(name), wakeKey(name)}, value, life).Err()
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
		return nil // a key of another type is not our lock
	}
	return err
}

func lockKey(name string) string { return "lockrun:lock:" + name }
func wakeKey(name string) string { return "lockrun:wake:" + name }
