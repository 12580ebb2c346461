package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"lockrun/locks"
)

const (
	// tier is the name of this door in errors.
	tier = "quorum"
	what = "the Redis quorum"
	// maxAsks bounds the questions after split votes. With the pauses below
	// they take about two seconds, or four for those who won nothing.
	maxAsks = 12
	// askAll: every so many questions go to all nodes, the others only to those
	// that have answered. To wait for a hung node would make all contenders
	// keep what they have won for so long that they never come through.
	askAll = 4
	// maxLeaving bounds the questions while a release is on its way: with the
	// pauses below they take about as long as a message to the far end of the earth.
	maxLeaving = 5
	firstPause = 16 * time.Millisecond // several round trips between near hosts
	maxPause   = 512 * time.Millisecond
)

// Quorum is the lock over Redis. One goroutine at a time uses it.
type Quorum struct {
	nodes           []*node
	need            int // a majority of the configured nodes, not of those that answer
	timing          locks.Timing
	clock           locks.Clock
	grace, patience time.Duration
	warn            func(node string, err error)
	debug           func(msg string)

	// Of the current claim.
	name, runID, value string
	mutex              *redsync.Mutex

	held       bool
	since      locks.Instant // of the acquire
	windowEnd  locks.Instant // of the trust window
	woken      *node         // where a token was taken that nobody has made use of yet
	hasty      bool          // woken by a token since the last pause
	turnedAway bool          // a door further in has said "held" to this run
	waiter     waiter
	wakes      wakes
}

var _ locks.Filter = (*Quorum)(nil)

// New checks the options. It opens no connection and resolves no name. Its
// error is an *[OptionError] or, for an address that is listed twice, a
// *[locks.SetupError].
func New(o Options) (*Quorum, error) {
	targets, err := o.targets()
	if err != nil {
		return nil, err
	}
	conf, err := o.tlsConfig(targets)
	if err != nil {
		return nil, err
	}
	q := &Quorum{
		need: len(targets)/2 + 1, timing: o.Timing, clock: o.Clock, warn: o.Warn, debug: o.Debug,
		grace: min(o.Timing.Call, maxGrace), patience: min(o.Timing.Call, maxPatience),
	}
	if q.warn == nil {
		q.warn = func(string, error) {}
	}
	if q.debug == nil {
		q.debug = func(string) {}
	}
	libraryDebug.Store(&q.debug)
	for _, t := range targets {
		client := newClient(t.options(conf, q.patience))
		q.nodes = append(q.nodes, &node{
			name: t.name, password: t.password, client: client, base: goredis.NewPool(client), warned: map[kind]bool{},
			newWaiter: func() *redis.Client {
				o := t.options(conf, q.patience)
				o.PoolSize, o.ReadTimeout = 1, maxWait+waitJitter+popSlack
				return newClient(o)
			},
		})
	}
	return q, nil
}

// Acquire asks for the lock. See [locks.Filter].
func (q *Quorum) Acquire(ctx context.Context, c locks.Claim) error {
	if q.held {
		return &locks.UnavailableError{What: what, Err: errors.New("this process has the lock already")}
	}
	if c.Name != q.name || c.RunID != q.runID {
		q.claim(c)
	}
	for asked := 1; ; asked++ {
		if err := ctx.Err(); err != nil {
			if asked > 1 {
				err = fmt.Errorf("%w before anybody had a majority; %s", err, q.votes())
			}
			return q.undecided(err)
		}
		if q.ask(ctx, asked%askAll != 1) {
			q.woken = nil
			q.notice(true)
			return nil
		}
		v := q.count()
		switch {
		case v.healthy < q.need:
			return q.unusable()
		case v.holder != "" && !(asked < maxLeaving && q.leaving(v)):
			q.woken = nil // the holder's release will wake the next one
			q.notice(false)
			return held(v)
		case asked == maxAsks:
			return q.undecided(nil)
		}
		text := "split vote"
		if v.holder != "" {
			text = "release on its way"
		}
		q.debug(fmt.Sprintf("%s, question no. %d: %d of %d nodes won", text, asked, v.won, len(q.nodes)))
		q.pause(ctx, asked, v.won > 0)
	}
}

// claim prepares for another attempt. Its value stays the same however often it
// asks: a request that comes late must not look like somebody else's.
func (q *Quorum) claim(c locks.Claim) {
	q.name, q.runID, q.value = c.Name, c.RunID, locks.EncodeValue(c)
	pools := make([]redsyncredis.Pool, len(q.nodes))
	for i, n := range q.nodes {
		n.said, n.err, n.ours = said{}, nil, false
		pools[i] = n
	}
	value := q.value
	q.mutex = redsync.New(pools...).NewMutex(lockKey(q.name),
		redsync.WithExpiry(q.timing.TTL),
		redsync.WithTries(1),
		redsync.WithFailFast(false), // the rounds have a better idea of whom to wait for
		redsync.WithGenValueFunc(func() (string, error) { return value, nil }),
		redsync.WithValue(value),
		redsync.WithSetNXOnExtend(), // heals a node that restarted empty; see Renew
	)
}

// ask puts the question to all nodes, or to those that have not failed yet.
func (q *Quorum) ask(ctx context.Context, skip bool) bool {
	sent := q.clock.Now()
	first := newRound(ctx, q.need, q.grace, q.patience)
	undo := sync.OnceValue(func() *round {
		return newRound(context.WithoutCancel(ctx), q.need, q.grace, q.patience)
	})
	q.expect(&call{first: first, undo: undo, skip: skip})
	won := q.mutex.LockContext(context.WithoutCancel(ctx)) == nil
	first.end(won)
	if !won {
		undo().end(false)
		return false
	}
	q.held, q.since, q.windowEnd = true, sent, q.timing.WindowEnd(sent)
	return true
}

func (q *Quorum) expect(c *call) {
	for _, n := range q.nodes {
		n.call = c
	}
}

// verdict is what a lost vote looks like.
type verdict struct {
	healthy int           // nodes that answered
	won     int           // nodes that answered and were ours
	holder  string        // the value that a majority of all nodes has, if there is one
	left    time.Duration // until the last of the holder's keys expires
}

func (q *Quorum) count() (v verdict) {
	votes := map[string]int{}
	for _, n := range q.nodes {
		if n.err != nil {
			continue
		}
		v.healthy++
		if n.said.won || n.said.value == q.value {
			v.won++
		} else if n.said.value != "" {
			votes[n.said.value]++
		}
	}
	for value, n := range votes {
		if n >= q.need {
			v.holder = value
		}
	}
	for _, n := range q.nodes {
		if n.err == nil && n.said.value == v.holder {
			v.left = max(v.left, n.said.left)
		}
	}
	return v
}

// leaving tells whether a lock that a majority still says is held is just being
// given back: a release goes to all nodes at once, and who is woken by the token
// on a near one may ask the far ones before it has got there. The token is used
// up, so that to wait again would be to wait for nothing.
func (q *Quorum) leaving(v verdict) bool {
	return q.woken != nil && q.woken.err == nil && q.woken.said.value != v.holder
}

// held names the holder. A value that lockrun did not write names nobody.
func held(v verdict) error {
	by, ok := locks.ParseValue(v.holder)
	if !ok {
		by = locks.Holder{Text: "somebody who is not lockrun"}
	}
	by.Until = time.Now().Add(v.left)
	return &locks.HeldError{Tier: tier, By: by}
}

// unusable is the error when too few nodes can be used.
func (q *Quorum) unusable() error {
	q.notice(false)
	text, count := q.fault()
	if len(q.nodes)-count[set] < q.need {
		return &locks.SetupError{What: what, Err: errors.New(text), Next: "correct the login, the rights or the TLS files of these nodes"}
	}
	next := "bring the nodes back, then run it again"
	if count[foreign] > 0 {
		next = "remove the foreign key unless something else needs it, then run it again"
	}
	return &locks.UnavailableError{What: what, Err: errors.New(text), Taken: q.mayBeOurs(), Next: next}
}

// undecided is the error when nobody got a majority in the end, or when the
// caller's time was over before that.
func (q *Quorum) undecided(cause error) error {
	if cause == nil {
		cause = errors.New("the votes were split and nobody has a majority; " + q.votes())
	}
	return &locks.UnavailableError{What: what, Err: cause, Taken: q.mayBeOurs(), Next: "run it again"}
}

// votes tells who has which node.
func (q *Quorum) votes() string {
	texts := make([]string, len(q.nodes))
	for i, n := range q.nodes {
		text := "free"
		switch by, ok := locks.ParseValue(n.said.value); {
		case n.err != nil:
			text, _ = n.explain(n.err)
		case n.said.won, n.said.value == q.value:
			text = "ours"
		case ok:
			text = "run " + by.RunID
		case n.said.value != "":
			text = "another's"
		}
		texts[i] = n.name + ": " + text
	}
	return strings.Join(texts, "; ")
}

// mayBeOurs tells whether a node may hold our value.
func (q *Quorum) mayBeOurs() bool {
	for _, n := range q.nodes {
		if n.ours {
			return true
		}
	}
	return false
}

// pause waits for a random time that doubles with each question. Those who won
// a node ask again first: the others would only get in their way.
func (q *Quorum) pause(ctx context.Context, asked int, first bool) {
	window := min(firstPause<<(asked-1), maxPause)
	d := rand.N(window)
	if !first {
		d += window
	}
	_ = locks.Sleep(ctx, d)
}
